# SPDX-License-Identifier: Apache-2.0
"""An array that stays in its store: only the parts that are accessed are read."""

import math

import numpy as np

from warpsim.base.errors import StoreError
from warpsim.device.array_module import to_host
from warpsim.files.limits import STORE_GROWTH
from warpsim.files.store.metadata import room_of
from warpsim.files.store.place import read


class StoredArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Rows of an array in a store, like a NumPy array: `shape`, `dtype`, indices, arithmetic, `np.asarray`.

    Integers and slices read only the chunks that they touch. Every other operation reads the whole array first.
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
        """The whole array in memory."""
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
        return read(self.path, lambda: host_part(self._array, (rows, *rest)))

    def require(self, rows: int, worlds: int) -> None:
        """Raise `StoreError` if chunks of the first `rows` and `worlds` are missing, which would read as zeros."""
        if not self.size:
            return
        if self._array.shape[0] < self._first + len(self):
            raise StoreError(
                f"{self.path}: {self._array.basename} has fewer rows than the {len(self)} recorded; the store is "
                "damaged"
            )
        rest = [(0, n) for n in self.shape[2:]]
        read(self.path, lambda: check_backed(self._array, [(0, rows), (0, worlds), *rest]))


def read_whole(array, sizes: dict[str, int] | None = None) -> np.ndarray:
    """The whole array of a store. Raises `StoreError` if chunks are missing."""
    check_backed(array, [(0, n) for n in array.shape], sizes)
    return host_part(array, ...)


def host_part(array, key) -> np.ndarray:
    """A part of an array of Zarr in NumPy; after `zarr.config.enable_gpu()` Zarr gives it in CuPy."""
    return to_host(array[key])


def check_backed(array, ranges, sizes: dict[str, int] | None = None) -> None:
    """Raise `StoreError` if files of the range (start, stop) of each axis are missing, or too small for their content.

    So no array is allocated at the size that a store claims before there are files that can hold it. `sizes`: bytes of
    the files by key.
    """
    count = math.prod(stop - start for start, stop in ranges)
    if not count:
        return
    prefix, chunks = f"{array.path}/c", array.shards or array.chunks
    parts = [(start // n, -(-stop // n)) for (start, stop), n in zip(ranges, chunks, strict=True)]
    sizes = sync_sizes(array) if sizes is None else sizes
    found = [size for key, size in sizes.items() if _is_chunk(key, prefix, parts)]
    want, name, nbytes = math.prod(b - a for a, b in parts), array.name.lstrip("/"), count * array.dtype.itemsize
    if len(found) < want:
        raise StoreError(f"{want - len(found)} of {want} chunks of {name} are missing")
    if nbytes > room_of(array) * want + STORE_GROWTH * sum(found):
        raise StoreError(f"{name} has {nbytes} bytes by its shape, for which {sum(found)} bytes of files cannot stand")


def sync_sizes(member) -> dict[str, int]:
    """Bytes of the files of an array or a group, by key."""
    from zarr.core.sync import sync

    return sync(member.store.sizes(member.path))


def _is_chunk(key: str, prefix: str, parts) -> bool:
    """Whether a key is that of a chunk within these ranges of chunk indices, one per axis."""
    if not parts:
        return key == prefix
    places = key.removeprefix(f"{prefix}/").split("/")
    if len(places) != len(parts) or not key.startswith(prefix):
        return False
    return all(x.isdecimal() and x == str(int(x)) and a <= int(x) < b for x, (a, b) in zip(places, parts, strict=True))
