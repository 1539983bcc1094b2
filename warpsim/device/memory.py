"""Bytes on the device that an object of this package holds, and how far indices reach there."""

import warp as wp

LARGEST_INDEX = 2**31 - 1  # of the device's integers, and of the length of an array


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
