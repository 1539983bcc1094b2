"""Forces besides contact and rows: springs, actuators, wrenches."""
