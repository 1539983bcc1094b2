"""The one exception type of a bad model; bad arguments raise `ValueError`."""


class ModelError(ValueError):
    """A model that cannot be simulated as written. The message names the element, the value and the fix."""
