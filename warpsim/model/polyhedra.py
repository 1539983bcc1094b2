# SPDX-License-Identifier: Apache-2.0
"""The polyhedra of pressure-field contact: boxes, and spheres, cylinders and capsules tessellated as in Drake.

A polyhedron has `vertex (n, 4)` = (u, s), a point at x = scale u + s half e_z in a geom of given sizes. `loops (faces,
k)` holds the corners of each face, counter-clockwise from outside, padded with -1.
"""

import itertools
import typing

import numpy as np


class Polyhedron(typing.NamedTuple):
    """`vertex (n, 4)`, `loops (faces, k)`, and `large (faces,)`: a flat face of the shape, not a facet of its curve."""

    vertex: np.ndarray
    loops: np.ndarray
    large: np.ndarray


def box() -> Polyhedron:
    """Faces +x, -x, +y, -y, +z, -z of the cube of half width 1."""
    corners: list[np.ndarray] = []
    loops: list[range] = []
    for k in range(3):
        for side in (1.0, -1.0):
            i, j = (k + 1) % 3, (k + 2) % 3
            square = np.zeros((4, 4))
            square[:, k] = side
            square[:, i], square[:, j] = [1, -1, -1, 1], [1, 1, -1, -1]
            loops.append(range(len(corners), len(corners) + 4))
            corners.extend(square[:: int(side)])
    vertex, index = np.unique(np.array(corners), axis=0, return_inverse=True)
    return Polyhedron(vertex, index.ravel()[np.array(loops)], np.ones(6, np.int32))


def sphere(level: int) -> Polyhedron:
    """An octahedron with each triangle divided into four `level` times; the vertices lie on the unit sphere."""
    vertex = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    loops = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [1, 0, 5], [2, 1, 5], [3, 2, 5], [0, 3, 5]])
    for _ in range(level):
        edges = np.sort(np.stack([loops, np.roll(loops, -1, axis=1)], axis=-1), axis=-1)
        unique, index = np.unique(edges.reshape(-1, 2), axis=0, return_inverse=True)
        ab, bc, ca = (len(vertex) + index.reshape(-1, 3)).T
        middle = vertex[unique].sum(axis=1)
        vertex = np.concatenate([vertex, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
        a, b, c = loops.T
        loops = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=-1).reshape(-1, 3)
    return Polyhedron(np.pad(vertex, [(0, 0), (0, 1)]), loops, np.zeros(len(loops), np.int32))


def cylinder(sides: int) -> Polyhedron:
    """A prism with a corner at +x: its sides in order, then the caps +z and -z."""
    ring = _ring(sides, np.pi / 2)
    vertex = np.concatenate([ring + [0, 0, -1], ring + [0, 0, 1]])
    i, loops = np.arange(sides), np.full((sides + 2, max(sides, 4)), -1)
    j = (i + 1) % sides
    loops[:sides, :4] = np.stack([i, j, j + sides, i + sides], axis=-1)
    loops[sides, :sides], loops[sides + 1, :sides] = i + sides, i[::-1]
    return Polyhedron(np.pad(vertex, [(0, 0), (0, 1)]), loops, np.ones(sides + 2, np.int32))


def capsule(sides: int) -> Polyhedron:
    """The sides in order, then the facets of the cap +z from the pole to the side, then those of the cap -z."""
    rings = sides // 2
    i = np.arange(sides)
    j = (i + 1) % sides
    angles = np.pi / 2 * np.arange(1, rings + 1) / rings
    angles[-1] = np.pi / 2
    cap = np.concatenate([[[0.0, 0.0, 1.0]], *(_ring(sides, angle) for angle in angles)])
    top = np.concatenate([cap, np.ones((len(cap), 1))], axis=1)
    vertex = np.concatenate([top, top * [1, 1, -1, -1]])
    first = 1 + sides * np.arange(rings)  # vertex of each ring
    rows = [np.stack([np.zeros_like(i), first[0] + i, first[0] + j, np.full_like(i, -1)], axis=-1)]
    for upper, lower in itertools.pairwise(first):
        rows.append(np.stack([upper + i, lower + i, lower + j, upper + j], axis=-1))
    facets = np.concatenate(rows)
    below = np.where(facets < 0, -1, facets + len(cap))
    count = (facets >= 0).sum(axis=1)[:, None]
    turned = np.take_along_axis(below, np.where(np.arange(4) < count, count - 1 - np.arange(4), np.arange(4)), axis=1)
    upper, lower = first[-1], first[-1] + len(cap)
    side = np.stack([lower + i, lower + j, upper + j, upper + i], axis=-1)
    large = np.concatenate([np.ones(sides, np.int32), np.zeros(2 * len(facets), np.int32)])
    return Polyhedron(vertex, np.concatenate([side, facets, turned]), large)


def _ring(sides: int, angle: float) -> np.ndarray:
    """Corners `(sides, 3)` on the unit sphere at `angle` from +z, the first at +x."""
    turn = 2 * np.pi * np.arange(sides) / sides
    radius, z = (1.0, 0.0) if angle == np.pi / 2 else (np.sin(angle), np.cos(angle))
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), np.full(sides, z)], axis=-1)


def neighbours(loops: np.ndarray) -> np.ndarray:
    """The face `(faces, k)` across each edge of `loops`; -1 where there is none."""
    count = (loops >= 0).sum(axis=1)
    k = np.arange(loops.shape[1])
    following = np.take_along_axis(loops, np.where(k + 1 < count[:, None], k + 1, 0) % loops.shape[1], axis=1)
    edges = np.sort(np.stack([loops, following], axis=-1), axis=-1).reshape(-1, 2)
    used = np.flatnonzero((loops >= 0).ravel())
    order = used[np.lexsort(edges[used].T)]
    result = np.full(loops.size, -1)
    result[order[::2]], result[order[1::2]] = order[1::2] // loops.shape[1], order[::2] // loops.shape[1]
    return result.reshape(loops.shape)


def planes(points: np.ndarray, loops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit outward normals `(faces, 3)` and offsets `(faces,)` of plane faces, by Newell's sums."""
    count = (loops >= 0).sum(axis=1)[:, None]
    k = np.arange(loops.shape[1])
    here = points[loops]
    there = points[np.take_along_axis(loops, np.where(k + 1 < count, k + 1, 0) % loops.shape[1], axis=1)]
    valid = (k < count)[..., None]
    origin = here[:, :1]
    normal = np.where(valid, np.cross(here - origin, there - origin), 0.0).sum(axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    offset = np.einsum("fi,fki->fk", normal, here)
    return normal, np.where(valid[..., 0], offset, 0.0).sum(axis=1) / count[:, 0]
