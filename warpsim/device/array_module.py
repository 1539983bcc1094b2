# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and CuPy by one text: views of Warp arrays, the module that computes with an array, the copy to the
host."""

import importlib.util
import types
from typing import Any

import numpy as np
import warp as wp

from warpsim.base.extras import import_or_explain


def module_on(device: Any) -> types.ModuleType:
    """The array module of a Warp device: NumPy on the CPU, CuPy on CUDA.

    Raises `ImportError`, which names the extra `gpu`, on CUDA without CuPy.
    """
    return np if device.is_cpu else import_or_explain("cupy", "gpu")


def module_of(array: Any) -> types.ModuleType:
    """The array module that computes where an array is: CuPy in CUDA memory, else NumPy."""
    return import_or_explain("cupy", "gpu") if hasattr(array, "__cuda_array_interface__") else np


def device_view(array: Any) -> Any:
    """A view of a Warp array in the array module of its device, with the same memory; any other array as it is."""
    if not isinstance(array, wp.array):
        return array
    return array.numpy() if array.device.is_cpu else module_on(array.device).from_dlpack(array)


def computable(array: Any) -> Any:
    """An array that its array module computes with: a view where it is, or a copy on the host of stored arrays, and of
    Warp arrays on CUDA without CuPy."""
    if isinstance(array, wp.array) and array.device.is_cuda and importlib.util.find_spec("cupy") is None:
        return array.numpy()
    view = device_view(array)
    return view if hasattr(view, "__cuda_array_interface__") else np.asarray(view)


def to_host(array: Any) -> np.ndarray:
    """A NumPy view or copy of an array of NumPy, Warp, CuPy or a store."""
    if hasattr(array, "numpy"):
        return array.numpy()
    return np.asarray(array.get() if hasattr(array, "__cuda_array_interface__") else array)
