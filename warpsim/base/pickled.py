# SPDX-License-Identifier: Apache-2.0
"""Device arrays in pickles and deep copies. Values pass through NumPy, to their device if present, otherwise to the
CPU."""

import functools
from typing import NamedTuple

import numpy as np
import warp as wp


class PackedArray(NamedTuple):
    """A packed `wp.array`: values, name of the dtype, device, and whether it has a gradient (zero when unpacked)."""

    values: np.ndarray
    dtype: str
    device: str
    requires_grad: bool

    @classmethod
    def of(cls, array: wp.array) -> "PackedArray":
        """Pack an array of scalars."""
        return cls(array.numpy().copy(), array.dtype.__name__, str(array.device), array.requires_grad)

    def unpack(self) -> wp.array:
        """A new array on the same device; on the CPU if this process has no such device."""
        options = {
            "dtype": getattr(wp, self.dtype),
            "device": _present(self.device),
            "requires_grad": self.requires_grad,
        }
        if self.values.size == 0:
            return wp.zeros(self.values.shape, **options)
        return wp.array(self.values, **options)


def pack(value):
    """`value` with its device arrays packed: an array, a dict of arrays (nested), or anything else as it is."""
    if isinstance(value, dict):
        return {name: pack(item) for name, item in value.items()}
    return PackedArray.of(value) if isinstance(value, wp.array) else value


def unpack(value):
    """The inverse of `pack`."""
    if isinstance(value, dict):
        return {name: unpack(item) for name, item in value.items()}
    return value.unpack() if isinstance(value, PackedArray) else value


@functools.cache
def _present(name: str):
    try:
        return wp.get_device(name)
    except Exception:  # Warp's message only names the device
        return wp.get_device("cpu")
