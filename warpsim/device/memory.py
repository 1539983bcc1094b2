# SPDX-License-Identifier: Apache-2.0
"""Bytes on the device that an object of this package holds, and how far indices reach there."""

import warp as wp

LARGEST_INDEX = 2**31 - 1  # of the device's integers, and of the length of an array


class Lender:
    """Memory of `arrays (worlds, …)` that nobody needs for a while, given out again: every world has its part within its own rows.

    What is taken may hold anything, and holds nothing any more once the owner of `arrays` writes to them.
    """

    GRAIN = 32  # [bytes] what is given out begins at a multiple of it in every world's row

    def __init__(self, arrays):
        self._rows = [(array, array.strides[0]) for array in arrays if array.size and array.is_contiguous]
        self._used = [0] * len(self._rows)

    def take(self, array: wp.array) -> wp.array:
        """An array like this one in borrowed memory; itself where no row has room for it."""
        row = array.strides[0] if array.size else 0
        for k, (owner, size) in enumerate(self._rows):
            if row and self._used[k] + row <= size and owner.shape[0] == array.shape[0]:
                strides = (size, *array.strides[1:])
                found = wp.array(
                    ptr=owner.ptr + self._used[k], dtype=array.dtype, shape=array.shape, strides=strides, device=array.device,
                    copy=False,
                )  # fmt: skip
                found._ref = owner
                self._used[k] += -(-row // self.GRAIN) * self.GRAIN
                return found
        return array


def array_bytes(value) -> int:
    """Bytes of every distinct allocation that `value` reaches: arrays and their gradients, lists, dicts, structs, and objects
    of this package or derived from it."""
    found: dict[int, int] = {}
    _collect(value, found, set())
    return sum(found.values())


def _collect(value, found: dict[int, int], seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, wp.array):
        if value.ptr and value.deleter is not None:  # else a view of another array
            found[value.ptr] = value.capacity
        parts = (value._ref, value.grad)
    elif isinstance(value, (list, tuple)):
        parts = value
    elif isinstance(value, dict):
        parts = value.values()
    elif hasattr(value, "_cls"):
        parts = [getattr(value, name) for name in value._cls.vars]
    elif any(kind.__module__.startswith("warpsim") for kind in type(value).__mro__):
        parts = getattr(value, "__dict__", {}).values()
    else:
        parts = ()
    for part in list(parts):
        _collect(part, found, seen)
