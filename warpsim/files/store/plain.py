# SPDX-License-Identifier: Apache-2.0
"""The state of a source of controls as JSON, and back. No pickles.

It may hold numbers, text, lists, tuples, dicts, and arrays of NumPy, Warp and torch.
"""

import base64

import numpy as np
import warp as wp

TAG = "__warpsim__"


def to_plain(value, name: str = "the state"):
    """`value` as JSON values. Raises `ValueError` that names a part of an unsupported type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return {TAG: "scalar", "value": _array(np.asarray(value))}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ValueError(f"{name} is an array of objects, which a store cannot hold")
        return {TAG: "numpy", "value": _array(value)}
    if isinstance(value, wp.array):
        return {TAG: "warp", "dtype": value.dtype.__name__, "value": _array(value.numpy())}
    if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
        return {TAG: "torch", "value": _array(value.detach().cpu().numpy())}
    if isinstance(value, bytes):
        return {TAG: "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        items = [to_plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {TAG: "tuple", "value": items}
    if isinstance(value, dict):
        items = [[to_plain(k, f"a key of {name}"), to_plain(v, f"{name}[{k!r}]")] for k, v in value.items()]
        if all(isinstance(k, str) for k in value) and TAG not in value:
            return dict(items)
        return {TAG: "dict", "value": items}
    raise ValueError(
        f"{name} is a {type(value).__name__}, which a store cannot hold; give numbers, text, arrays, lists and dicts "
        "of them"
    )


def from_plain(value):
    """The inverse of `to_plain`; tensors and device arrays come back on the CPU."""
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TAG)
    if kind is None:
        return {name: from_plain(item) for name, item in value.items()}
    held = value["value"]
    if kind == "bytes":
        return base64.b64decode(held)
    if kind == "tuple":
        return tuple(from_plain(item) for item in held)
    if kind == "dict":
        return {from_plain(k): from_plain(v) for k, v in held}
    array = np.frombuffer(base64.b64decode(held[2]), np.dtype(held[0])).reshape(held[1]).copy()
    if kind == "scalar":
        return array[()]
    if kind == "warp":
        return wp.array(array, dtype=getattr(wp, value["dtype"]), device="cpu")
    if kind == "torch":
        import torch

        return torch.from_numpy(array)
    return array


def _array(array: np.ndarray) -> list:
    return [array.dtype.str, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]
