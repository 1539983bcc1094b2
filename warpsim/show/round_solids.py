# SPDX-License-Identifier: Apache-2.0
"""Spheres and capsules for the ray caster of pictures: hits of rays from one eye, normals, and shadows, in closed form.

A capsule is a segment with a radius, a sphere one of length zero. Components of rays are arrays of their own, because
sums over a last axis of length 3 take several times as long. A shadow is a question in the plane across the sun's rays:
a point is dark if it lies within the radius of the projected segment and the segment is nearer to the sun.
"""

import numpy as np

from warpsim.model.model import GeomType

FAR = 1e9  # distance of a ray that meets nothing
ROUND = (GeomType.SPHERE, GeomType.CAPSULE)
COLUMNS = 1024  # most columns that points across the sun's rays are sorted into
FLAT = 1e-18


def half_length(solid) -> float:
    """Half the length of a round solid's segment, which is along its z axis [m]."""
    return float(solid.size[1]) if solid.kind == GeomType.CAPSULE else 0.0


def round_hits(solid, eye, x, y, z) -> np.ndarray:
    """Distances along unit rays with components x, y, z from the eye; FAR without a hit, and from inside."""
    radius, half, axis = float(solid.size[0]), half_length(solid), solid.rotation[:, 2]
    o = eye - solid.center
    b = x * o[0] + y * o[1] + z * o[2]
    square = float(o @ o) - radius**2
    if not half:
        root = b * b - square
        t = -b - np.sqrt(np.maximum(root, 0.0))
        return np.where((root > 0) & (t > 0), t, FAR)
    turn, start = x * axis[0] + y * axis[1] + z * axis[2], float(o @ axis)
    across, b_across = 1.0 - turn * turn, b - start * turn
    root = b_across * b_across - across * (square - start**2)  # of the endless cylinder
    found = np.flatnonzero(root > 0)
    t = np.full(root.size, FAR)
    if len(found):
        b, turn, across, b_across, root = (v.ravel()[found] for v in (b, turn, across, b_across, root))
        side = -(b_across + np.sqrt(root)) / np.maximum(across, FLAT)
        place = start + side * turn
        end = np.where(place > 0, half, -half)  # who enters the cylinder beyond an end can only meet that end
        b_end = b - end * turn
        root = b_end * b_end - (square - 2 * end * start + half**2)
        cap = np.where(root > 0, -b_end - np.sqrt(np.maximum(root, 0.0)), FAR)
        near = np.where(np.abs(place) <= half, side, cap)
        t[found] = np.where(near > 0, near, FAR)
    return t.reshape(x.shape)


def round_normals(solids, points, owner) -> np.ndarray:
    """Outward unit normals `(n, 3)` at surface points `(n, 3)` of the round solids with these indices `(n,)`."""
    centers, axes = np.array([s.center for s in solids]), np.array([s.rotation[:, 2] for s in solids])
    halves = np.array([half_length(s) if s.kind in ROUND else 0.0 for s in solids])
    normals, axis, half = points - centers[owner], axes[owner], halves[owner]
    along = np.clip(np.einsum("ij,ij->i", normals, axis), -half, half)
    normals -= along[:, None] * axis
    return normals / np.maximum(np.sqrt(np.einsum("ij,ij->i", normals, normals)), 1e-12)[:, None]


class SunlitPoints:
    """Points `(n, 3)`, at least one, sorted across the sun's rays, which solids darken one after the other.

    `cell` [m] is about the size of a solid: the width of the columns into which the points are sorted.
    """

    def __init__(self, points, sun, cell: float):
        first = np.cross(sun, [0.0, 0.0, 1.0])
        first /= np.linalg.norm(first)
        self.frame = np.stack([first, np.cross(sun, first), sun])  # rows: two directions across, and the sun's
        x, y, z = np.ascontiguousarray(points.T)
        seen = [row[0] * x + row[1] * y + row[2] * z for row in self.frame]
        low, high = (np.array([reduce(line) for line in seen]) for reduce in (np.min, np.max))
        self.low, self.high = low, high
        self.height = float(high[1] - low[1]) + 1.0
        self.cell = max(cell, float(high[0] - low[0]) / COLUMNS)
        self.last = int((high[0] - low[0]) / self.cell)
        key = np.floor((seen[0] - low[0]) / self.cell) * self.height + (seen[1] - low[1])
        self.order = np.argsort(key)
        self.key, (self.u, self.v, self.w) = key[self.order], (line[self.order] for line in seen)
        self.dark = np.zeros(len(points), bool)

    def reached(self, centers, radii) -> list[int]:
        """Indices of the bounding spheres that may darken any point."""
        seen = centers @ self.frame.T
        apart = (seen[:, :2] + radii[:, None] < self.low[:2]) | (seen[:, :2] - radii[:, None] > self.high[:2])
        return np.flatnonzero(~apart.any(axis=1) & (seen[:, 2] + radii > self.low[2])).tolist()

    def near(self, low, high) -> np.ndarray:
        """Places of the points in a rectangle across the rays, roughly, that are not dark yet."""
        columns = np.arange(
            max(0, int(np.floor((low[0] - self.low[0]) / self.cell))),
            min(self.last, int(np.floor((high[0] - self.low[0]) / self.cell))) + 1,
        )
        bottom, top = np.clip([low[1] - self.low[1], high[1] - self.low[1]], 0.0, self.height - 0.5)
        starts = np.searchsorted(self.key, columns * self.height + bottom)
        ends = np.searchsorted(self.key, columns * self.height + top, side="right")
        runs = [np.arange(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if b > a]
        found = np.concatenate(runs) if runs else np.empty(0, int)
        return found[~self.dark[found]]

    def darken_round(self, solid) -> None:
        """Darken the points behind a sphere or a capsule. Points lie outside of it."""
        radius, reach = float(solid.size[0]), half_length(solid) * (self.frame @ solid.rotation[:, 2])
        a, b = self.frame @ solid.center - reach, self.frame @ solid.center + reach
        at = self.near(np.minimum(a, b)[:2] - radius, np.maximum(a, b)[:2] + radius)
        if not len(at):
            return
        e, u, v = b - a, self.u[at] - a[0], self.v[at] - a[1]
        length = float(e[0] ** 2 + e[1] ** 2)
        share = np.clip((u * e[0] + v * e[1]) / length, 0.0, 1.0) if length > FLAT else 0.5
        distance = (u - share * e[0]) ** 2 + (v - share * e[1]) ** 2
        self.dark[at[(distance <= radius**2) & (a[2] + share * e[2] > self.w[at])]] = True

    def candidates(self, solid) -> np.ndarray:
        """Places of the points that a solid's bounding sphere may darken."""
        center = self.frame @ solid.center
        at = self.near(center[:2] - solid.radius, center[:2] + solid.radius)
        return at[(self.u[at] - center[0]) ** 2 + (self.v[at] - center[1]) ** 2 <= solid.radius**2]
