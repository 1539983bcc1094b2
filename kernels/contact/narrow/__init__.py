"""Where two shapes touch."""
