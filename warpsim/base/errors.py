# SPDX-License-Identifier: Apache-2.0
"""The one exception type of a bad model, bad arguments raise `ValueError`; and the end of a run by a signal."""

import contextlib


class ModelError(ValueError):
    """A model that cannot be simulated as written. The message names the element, the value and the fix."""


@contextlib.contextmanager
def named(what):
    """Errors of a model, or of a part of it, that begin with what that is called."""
    try:
        yield
    except ModelError as error:
        text = str(error)
        raise ModelError(text if text.startswith(str(what)) else f"{what}: {text}") from error.__cause__


class StoreError(ValueError):
    """A store that is missing, foreign, damaged, hostile or of another version. The message names the path and the
    fix."""


class Stopped(Exception):
    """A rollout that a signal ended early; what was simulated is in its store. `code` is the exit code that says so."""

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number, self.code = number, 128 + number
