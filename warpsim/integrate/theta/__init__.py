"""θ schemes."""
