# SPDX-License-Identifier: Apache-2.0
"""Device memory: arrays side by side, borrowed memory, index limits, and the bytes that an object holds."""

import math

import warp as wp

LARGEST_INDEX = 2**31 - 1  # limit of 32-bit device integers and of array lengths


GRAIN = 32  # [bytes] alignment of parts of a world's row


class SideBySide:
    """Arrays (worlds, …) of zeros by name; all parts of one world lie side by side in its row of `whole`.

    `shapes[name]` is the shape in a world and the dtype. A `Lender` of `whole` then has long rows. `over[name]`: a part
    and the shape of an array that begins at the same place, for use at other times.
    """

    def __init__(self, worlds: int, shapes: dict[str, tuple[tuple[int, ...], type]], device, over=()):
        begin, end = {}, 0
        for name, (shape, kind) in shapes.items():
            begin[name] = end
            end += _aligned(math.prod(shape) * wp.types.type_size_in_bytes(kind))
        for name, (part, (shape, kind)) in dict(over).items():
            begin[name], shapes = begin[part], shapes | {name: (shape, kind)}
            end = max(end, begin[name] + _aligned(math.prod(shape) * wp.types.type_size_in_bytes(kind)))
        self.whole = wp.zeros((worlds, end // 4), dtype=wp.int32, device=device)
        self.arrays = {
            name: _part(self.whole, begin[name], (worlds, *shape), kind) for name, (shape, kind) in shapes.items()
        }


def _aligned(size: int) -> int:
    return -(-size // GRAIN) * GRAIN


def _part(owner: wp.array, begin: int, shape: tuple[int, ...], kind) -> wp.array:
    """View (worlds, …) of this shape that begins `begin` bytes into each row of `owner`."""
    if 0 in shape:
        return wp.zeros(shape, dtype=kind, device=owner.device)
    item = wp.types.type_size_in_bytes(kind)
    strides = (owner.strides[0], *(item * math.prod(shape[axis + 1 :]) for axis in range(1, len(shape))))
    place = {"ptr": owner.ptr + begin, "device": owner.device, "copy": False}
    found = wp.array(dtype=kind, shape=shape, strides=strides, **place)
    found._ref = owner
    return found


class Lender:
    """Lends the memory of `arrays (worlds, …)` that are idle for a while; each world's part stays in its own rows.

    A borrowed array has undefined contents at first and becomes invalid once the owner of `arrays` writes to them.
    """

    def __init__(self, arrays):
        self._rows = [(array, array.strides[0]) for array in arrays if array.size and array.is_contiguous]
        self._used = [0] * len(self._rows)

    def take(self, array: wp.array) -> wp.array:
        """An array like this one in borrowed memory, or the array itself if no row has room for it."""
        row = array.strides[0] if array.size else 0
        for k, (owner, size) in enumerate(self._rows):
            if row and self._used[k] + row <= size and owner.shape[0] == array.shape[0]:
                found = _part(owner, self._used[k], array.shape, array.dtype)
                self._used[k] += _aligned(row)
                return found
        return array


def adopt(own, other, names) -> None:
    """Replace the named arrays of `own` by those of `other`, an object or a struct."""
    for name in names:
        setattr(own, name, getattr(other, name))


def array_bytes(value) -> int:
    """Bytes of all distinct allocations that `value` reaches.

    It follows arrays and their gradients, lists, dicts, structs, and objects of this package or derived from it.
    """
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
