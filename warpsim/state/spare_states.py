# SPDX-License-Identifier: Apache-2.0
"""Buffers for the states that `Simulator.step` returns. They are reused once nobody holds them, so that graphs find the
same addresses."""

import sys
from collections.abc import Callable

import warp as wp

from warpsim.state import State

KEPT = 8


class SpareStates:
    """Spare states of one simulator: on arrays that only this object holds, or on new arrays.

    A caller that has an array, a view of it, or a NumPy array or tensor of its memory holds a reference to the array.
    That array is then never reused.
    """

    def __init__(self, make: Callable[[], State]):
        self._make = make
        self._buffers: list[dict[str, wp.array]] = []
        # The reference count of an array that nobody else holds. It depends on the version of Python.
        self._alone = max(_references({"q": wp.empty(0, dtype=float, device="cpu")}))
        self._counts = getattr(
            sys, "_is_gil_enabled", lambda: True
        )()  # without the GIL another thread may hold a reference that is not counted yet

    def take(self) -> State:
        """A state whose arrays have arbitrary values."""
        for arrays in self._buffers:
            if max(_references(arrays)) <= self._alone:
                return _state_of(arrays)
        state = self._make()
        if self._counts:
            self._buffers = [*self._buffers[1 - KEPT :], state.arrays()]
        return state


def _references(arrays: dict[str, wp.array]) -> list[int]:
    return [sys.getrefcount(array) for array in arrays.values()]


def _state_of(arrays: dict[str, wp.array]) -> State:
    memory = dict(arrays)
    return State(memory.pop("q"), memory.pop("v"), memory.pop("time"), memory)
