# SPDX-License-Identifier: Apache-2.0
"""The arrays that a run needs to resume from a frame, as rows of bytes: one row per world holds all of them."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the arrays (worlds, …) lie in a row of bytes: name, dtype and shape per world of each, in order."""

    entries: tuple[tuple[str, str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> "Layout":
        """The layout of these arrays."""
        return cls(tuple((name, array.dtype.str, array.shape[1:]) for name, array in arrays.items()))

    @classmethod
    def from_json(cls, entries) -> "Layout":
        return cls(tuple((name, dtype, tuple(shape)) for name, dtype, shape in entries))

    def to_json(self) -> list:
        return [[name, dtype, list(shape)] for name, dtype, shape in self.entries]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.entries)

    @property
    def bytes(self) -> int:
        """The number of bytes of one row."""
        return sum(np.dtype(dtype).itemsize * math.prod(shape) for _, dtype, shape in self.entries)

    def pack(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Rows (worlds, bytes) of the arrays. Raises `ValueError` if they do not have this layout."""
        if Layout.of(arrays) != self:
            found, known = Layout.of(arrays), self
            other = set(found.entries) ^ set(known.entries)
            names = sorted({name for name, _, _ in other})
            raise ValueError(
                f"what the store keeps of a state has changed during the run ({', '.join(names)}); ask for every entry "
                "of sim.parameters that the run is to write before it begins"
            )
        worlds = len(next(iter(arrays.values())))
        parts = [np.ascontiguousarray(a).reshape(worlds, -1).view(np.uint8) for a in arrays.values() if a.size]
        return np.concatenate(parts, axis=1) if parts else np.zeros((worlds, 0), np.uint8)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays in rows (worlds, bytes)."""
        if rows.ndim != 2 or rows.shape[1] != self.bytes:
            raise ValueError(f"a checkpoint has rows of {rows.shape[1:]} bytes, its layout {self.bytes}")
        found, start = {}, 0
        for name, dtype, shape in self.entries:
            size = np.dtype(dtype).itemsize * math.prod(shape)
            part = np.ascontiguousarray(rows[:, start : start + size])
            found[name] = (
                part.view(np.dtype(dtype)).reshape(len(rows), *shape) if size else np.zeros((len(rows), *shape), dtype)
            )
            start += size
        return found
