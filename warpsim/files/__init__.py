"""Robot files, stores, outputs."""
