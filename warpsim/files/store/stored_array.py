# SPDX-License-Identifier: Apache-2.0
"""An array that stays in its store: what is asked for is read, the rest is not."""

import numpy as np

from warpsim.files.store.place import StoreError, read


class StoredArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Rows of an array in a store, with the face of a NumPy array: `shape`, `dtype`, indices, arithmetic, `np.asarray`.

    Integers and slices read the chunks that they touch. Anything else that an array can do is done by the array read whole.
    """

    def __init__(self, path, array, first: int, rows: int):
        self.path, self._array, self._first = path, array, first
        self.shape = (rows, *array.shape[1:])
        self.dtype, self.ndim = array.dtype, array.ndim

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"StoredArray({str(self.path)!r}, {self._array.basename}, shape={self.shape}, dtype={self.dtype})"

    def numpy(self) -> np.ndarray:
        """All of it."""
        return self[:]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if copy is False:
            raise ValueError("what is in a store is copied when it is read; leave copy=None")
        return np.asarray(self[:], dtype)

    def __array_ufunc__(self, function, method, *inputs, **options):
        given = [np.asarray(x) if isinstance(x, StoredArray) else x for x in inputs]
        return getattr(function, method)(*given, **options)

    def __getattr__(self, name: str):
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self[:], name)

    def __iter__(self):
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key) -> np.ndarray:
        keys = key if isinstance(key, tuple) else (key,)
        if not self.size:
            return np.zeros(self.shape, self.dtype)[key]
        plain = all(isinstance(k, (int, np.integer, slice)) and not isinstance(k, bool) for k in keys)
        if not plain or len(keys) > self.ndim:
            return self[:][key]
        row, rest = keys[0], keys[1:]
        if any(isinstance(k, slice) and (k.step or 1) < 1 for k in keys):
            return self[:][key]
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            rows = slice(self._first + start, self._first + max(start, stop), step)
        else:
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} of {len(self)}")
            rows = self._first + int(row) % len(self)
        return read(self.path, lambda: self._array[(rows, *rest)])

    def require(self, rows: int, worlds: int) -> None:
        """Raise `StoreError` where chunks of the first rows and worlds are missing, which would read as zeros."""
        if not self.size:
            return
        if self._array.shape[0] < self._first + len(self):
            raise StoreError(
                f"{self.path}: {self._array.basename} has fewer rows than the {len(self)} recorded; the store is damaged"
            )
        shard = self._array.shards or self._array.chunks
        want = {(i, j) for i in range(-(-rows // shard[0])) for j in range(-(-worlds // shard[1]))}
        missing = len(want - _found(self.path, self._array))
        if missing:
            name = self._array.name.lstrip("/")
            raise StoreError(f"{self.path}: {missing} of {len(want)} chunks of {name} are missing; record it again")


def _found(path, array) -> set[tuple[int, int]]:
    """Chunks of an array that are there, by their place along the first two axes."""
    from zarr.core.sync import sync

    prefix = f"{array.path}/c/" if array.path else "c/"

    async def keys() -> list[str]:
        return [key async for key in array.store.list_prefix(prefix)]

    listed = read(path, lambda: sync(keys()))
    places = (key.removeprefix(prefix).split("/") for key in listed)
    return {(int(p[0]), int(p[1])) for p in places if len(p) == array.ndim and all(x.isdecimal() for x in p)}
