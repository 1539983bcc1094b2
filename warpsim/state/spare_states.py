# SPDX-License-Identifier: Apache-2.0
"""Buffers for the states that `Simulator.step` returns. They are reused once nobody holds them: graphs find the same
addresses, and steps on a tape need no new arrays."""

import collections
import ctypes
import sys
from collections.abc import Callable

import warp as wp

from warpsim.state import State

KEPT = 8
TAPED_BYTES = 16_000_000  # of `TapedStates`: 80 steps of 64 humanoids are 5 MB
TRIED = 2  # states that `TapedStates.take` looks at


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
            # An array that a caller gave a gradient comes back with what the gradient holds.
            if max(_references(arrays)) <= self._alone and all(x.grad is None for x in arrays.values()):
                return _state_of(arrays)
        state = self._make()
        if self._counts:
            self._buffers = [*self._buffers[1 - KEPT :], state.arrays()]
        return state


class TapedStates:
    """States with gradients, for the steps on tapes of one simulator: used again once nobody holds their arrays.

    Making their arrays takes as long as a step of a few worlds. At most `TAPED_BYTES` are kept, the oldest used first.
    A caller that has an array or its gradient, or a view of one, holds a reference to it, as for `SpareStates`.
    """

    def __init__(self, make: Callable[[], State]):
        self._make = make
        self._buffers: collections.deque[_Buffer] = collections.deque()
        self._left = TAPED_BYTES
        alone = {"q": wp.zeros(1, dtype=float, device="cpu", requires_grad=True)}
        self._alone = _Buffer(alone).references()
        self._counts = getattr(sys, "_is_gil_enabled", lambda: True)()

    def take(self) -> State:
        """A state whose arrays have arbitrary values and whose gradients are zero."""
        for _ in range(min(TRIED, len(self._buffers))):
            self._buffers.rotate(-1)
            buffer = self._buffers[-1]
            if all(n <= alone for n, alone in zip(buffer.references(), self._alone, strict=True)) and buffer.is_whole():
                for gradient in buffer.gradients.values():
                    clear(gradient)
                return _state_of(buffer.arrays)
        state = self._make()
        buffer = _Buffer(state.arrays())
        size = sum(x.capacity for arrays in (buffer.arrays, buffer.gradients) for x in arrays.values())
        if self._counts and size <= self._left:
            self._left -= size
            self._buffers.append(buffer)
        return state


class _Buffer:
    """The arrays of a state by name, and their gradients."""

    def __init__(self, arrays: dict[str, wp.array]):
        self.arrays = arrays
        self.gradients = {name: x.grad for name, x in arrays.items() if x.grad is not None}

    def references(self) -> tuple[int, int]:
        """The most references to an array and to a gradient."""
        return max(_references(self.arrays)), max(_references(self.gradients), default=0)

    def is_whole(self) -> bool:
        """Whether the arrays have the gradients that they were made with, and no others."""
        return all(array.grad is self.gradients.get(name) for name, array in self.arrays.items())


def clear(array: wp.array) -> None:
    """Set a contiguous array to zero."""
    if array.device.is_cpu:
        ctypes.memset(array.ptr, 0, array.capacity)
    else:
        array.zero_()


def _references(arrays: dict[str, wp.array]) -> list[int]:
    return [sys.getrefcount(array) for array in arrays.values()]


def _state_of(arrays: dict[str, wp.array]) -> State:
    memory = dict(arrays)
    return State(memory.pop("q"), memory.pop("v"), memory.pop("time"), memory)
