"""Programs to start from, each run as `python -m examples.NAME` from the root of the checkout."""
