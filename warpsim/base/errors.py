# SPDX-License-Identifier: Apache-2.0
"""Exceptions: of a model, of a store, and of a run that a signal ends. Wrong arguments raise `ValueError`."""

import contextlib


class ModelError(ValueError):
    """A model that cannot be simulated as written. The message names the element, the value and the fix."""


@contextlib.contextmanager
def named(what):
    """Prefix the errors of a model, or of a part of it, with its name `what`."""
    try:
        yield
    except ModelError as error:
        text = str(error)
        raise ModelError(text if text.startswith(str(what)) else f"{what}: {text}") from error.__cause__


class StoreError(ValueError):
    """A store that is missing, foreign, damaged, hostile or of another version.

    The message names the path and the fix.
    """


class Diverged(ValueError):
    """A training that cannot go on: weights that are not finite, or no usable gradient for long."""


class Stopped(Exception):
    """A rollout that a signal ended early; the simulated part is in its store. `code` is the process's exit code."""

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number, self.code = number, 128 + number
