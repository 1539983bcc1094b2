# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CuPy on machines without a GPU: its arrays are no NumPy arrays, never become one by themselves, and do
not compute with one. `copied` counts the bytes that pass between host and device."""

import numpy as np

copied = {"to the host": 0, "to the device": 0}


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, values: np.ndarray):
        self._values = values

    __cuda_array_interface__ = property(lambda self: self._values.__array_interface__)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, function, method, *inputs, **options):
        return _on_device(getattr(function, method))(*inputs, **options)

    def __array_function__(self, function, types, args, options):
        return _on_device(function)(*args, **options)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key):
        return ndarray(np.asarray(self._values[_inside(key)]))

    def __setitem__(self, key, value) -> None:
        self._values[_inside(key)] = _inside(value)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __int__(self) -> int:
        return int(self._values)

    def __getattr__(self, name: str):
        found = getattr(self._values, name)
        if name.startswith("__") or name == "numpy":
            raise AttributeError(name)
        return _on_device(found) if callable(found) else _outside(found)

    def get(self) -> np.ndarray:
        copied["to the host"] += self._values.nbytes
        return self._values.copy()


def _inside(value):
    """The values of a device array; scalars, slices and tuples as they are. A NumPy array is refused, as by CuPy."""
    if isinstance(value, ndarray):
        return value._values
    if isinstance(value, (tuple, list)):
        return type(value)(_inside(x) for x in value)
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _on_device(function):
    def run(*inputs, **options):
        found = function(*map(_inside, inputs), **{name: _inside(value) for name, value in options.items()})
        return _outside(found)

    return run


def _outside(found):
    if isinstance(found, (tuple, list)):
        return type(found)(map(_outside, found))
    return ndarray(np.asarray(found)) if isinstance(found, (np.ndarray, np.generic)) else found


def asarray(values, dtype=None) -> ndarray:
    if isinstance(values, ndarray):
        return values
    found = np.array(values, dtype)
    copied["to the device"] += found.nbytes
    return ndarray(found)


def asnumpy(values) -> np.ndarray:
    return values.get() if isinstance(values, ndarray) else np.asarray(values)


def frombuffer(values, dtype) -> ndarray:
    return asarray(np.frombuffer(values, dtype))


def __getattr__(name: str):
    found = getattr(np, name)
    return _on_device(found) if callable(found) and not isinstance(found, type) else found
