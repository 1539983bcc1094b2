# SPDX-License-Identifier: Apache-2.0
"""Triangles with a pressure at every corner, cut into bands of equal pressure steps.

Formats with one color per mesh show the pressure by one mesh per band.
"""

import numpy as np

from warpsim.files.patch_frames import pressure_colors

BANDS = 12


def band_colors() -> np.ndarray:
    """The color `(BANDS, 3)` of each band, in 0..1."""
    return pressure_colors((np.arange(BANDS) + 0.5) / BANDS)


def bands(corners: np.ndarray, pressure: np.ndarray, largest: float) -> list[np.ndarray]:
    """Triangles `(n, 3, 3)` of each band between 0 and `largest` [Pa].

    The input triangles `(n, 3, 3)` have the pressures `(n, 3)` at their corners; the pressure is linear on each
    triangle.
    """
    found = []
    for k in range(1, BANDS):
        below, corners, pressure = _cut(corners, pressure, largest * k / BANDS)
        found.append(below)
    return [*found, corners]


def _cut(corners, pressure, level: float):
    """The parts of the triangles below a level, then those above it, and their pressures."""
    order = np.argsort(pressure, axis=1, kind="stable")
    p, x = np.take_along_axis(pressure, order, axis=1), np.take_along_axis(corners, order[..., None], axis=1)
    lower = (p < level).sum(axis=1)
    whole, one, two = lower == 3, lower == 1, lower == 2
    below, above, above_p = [corners[whole]], [corners[lower == 0]], [pressure[lower == 0]]
    if one.any():
        a, b = _at(x, p, one, 0, 1, level), _at(x, p, one, 0, 2, level)
        below.append(np.stack([x[one, 0], a, b], axis=1))
        above += [np.stack([a, x[one, 1], x[one, 2]], axis=1), np.stack([a, x[one, 2], b], axis=1)]
        line = np.full(len(a), level)
        above_p += [np.stack([line, p[one, 1], p[one, 2]], axis=1), np.stack([line, p[one, 2], line], axis=1)]
    if two.any():
        a, b = _at(x, p, two, 0, 2, level), _at(x, p, two, 1, 2, level)
        below += [np.stack([x[two, 0], x[two, 1], b], axis=1), np.stack([x[two, 0], b, a], axis=1)]
        above.append(np.stack([a, b, x[two, 2]], axis=1))
        line = np.full(len(a), level)
        above_p.append(np.stack([line, line, p[two, 2]], axis=1))
    return np.concatenate(below), np.concatenate(above), np.concatenate(above_p)


def _at(x, p, rows, i: int, j: int, level: float) -> np.ndarray:
    """The points at which the level cuts the edges from corner i to corner j."""
    share = (level - p[rows, i]) / (p[rows, j] - p[rows, i])
    return x[rows, i] + share[:, None] * (x[rows, j] - x[rows, i])


def largest_triangles(parts: list[np.ndarray], most: int) -> tuple[list[np.ndarray], bool]:
    """The bands reduced to the `most` largest of all their triangles, and whether any were dropped."""
    if sum(map(len, parts)) <= most:
        return parts, False
    area = [np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1) for x in parts]
    owner = np.repeat(np.arange(len(parts)), [len(x) for x in parts])
    kept = np.zeros(len(owner), bool)
    kept[np.argsort(-np.concatenate(area), kind="stable")[:most]] = True
    return [x[kept[owner == k]] for k, x in enumerate(parts)], True
