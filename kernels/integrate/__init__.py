"""Time schemes."""
