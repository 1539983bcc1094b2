"""Scalar rows: stops, dry friction, constraints, tendons, servos."""
