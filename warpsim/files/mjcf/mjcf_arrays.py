# SPDX-License-Identifier: Apache-2.0
"""Arrays as text in JSON."""

import base64
import zlib

import numpy as np

from warpsim.files import limits

DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32}


def pack(array) -> dict:
    """An array as text that loses nothing."""
    array = np.asarray(array)
    if array.dtype.kind != "i":
        array = array.astype(np.float32) if (array.astype(np.float32) == array).all() else array.astype(float)
    key = "i4" if array.dtype.kind == "i" else f"f{array.dtype.itemsize}"
    data = np.ascontiguousarray(array, DTYPES[key]).tobytes()
    return {"dtype": key, "shape": list(array.shape), "zlib": base64.b64encode(zlib.compress(data)).decode()}


def unpack(data: dict) -> np.ndarray:
    """The array of `pack`."""
    dtype, shape = np.dtype(DTYPES[data["dtype"]]), [int(n) for n in data["shape"]]
    size = int(np.prod(shape, dtype=float)) * dtype.itemsize
    if min(shape, default=0) < 0 or size > limits.MAX_MESH_BYTES:
        raise ValueError(f"an array of the shape {shape}")
    found = zlib.decompressobj().decompress(base64.b64decode(data["zlib"], validate=True), size + 1)
    array = np.frombuffer(found, dtype).reshape(shape)
    return array.astype(np.int64 if dtype.kind == "i" else float)
