# SPDX-License-Identifier: Apache-2.0
"""Which geoms of a model overlap at its initial position q0, and how deep: on the host, without kernels.

The depth of two convex shapes is the minimum of h_A(d) + h_B(-d) over unit directions d, with h the support functions
about a common point (Boyd & Vandenberghe, ch. 8). A fixed set of directions gives an upper bound, which settles most
pairs. The others are searched in shrinking cones about the best direction.
"""

import threading
import weakref

import numpy as np

from warpsim.model.geom_types import bounding_radii, support
from warpsim.model.geometry import CONJUGATE, rotate, rotation_matrix
from warpsim.model.host_kinematics import body_poses, geom_poses
from warpsim.model.model import GeomType, Model

DEEP = 1e-3  # m; geoms that rest or touch are not deeper than this,
TINY = 5e-3  # or not deeper than this fraction of the smaller geom's radius,
SMALL = 0.1  # or, where that is less than DEEP, than this fraction of it
MOST = 32  # pairs that are searched: the deepest ones by the first bound
NAMED = 3
SEARCHED = 1000  # near pairs that are searched for a touch; beyond them the bound decides
CHUNK = 100_000  # pairs bounded at a time
CONES = 0.5 ** np.arange(2, 13)  # widths of the search cones about a direction [rad]
STARTS, TRIES = 6, 16
_starts: "weakref.WeakKeyDictionary[Model, Start]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def start_of(model: Model, hulls: dict[int, np.ndarray]) -> "Start":
    """The initial overlaps of a model, computed once. `hulls`: hull vertices of each mesh that may touch, by mesh."""
    with _lock:
        if model not in _starts:
            _starts[model] = Start(model, hulls)
        return _starts[model]


class Start:
    """The pairs of geoms of a model that are near each other at q0, without pairs of pressure fields.

    `near (n,)`: indices of pairs. `depth (n,)` [m]: upper bounds of their overlap, negative across a gap.
    """

    def __init__(self, model: Model, hulls: dict[int, np.ndarray]):
        self.names, self.geoms, self.told = (model.name, model.geom_names), model.pair_geom[: model.point_pairs], False
        self.radii, self.directions, self.margin = (
            bounding_radii(model),
            _directions(),
            np.maximum(model.pair_margin, 0),
        )
        poses = geom_poses(model, body_poses(model, model.q0))
        self.support = {int(g): _Support(model, int(g), poses[g], hulls) for g in np.unique(self.geoms)}
        reach = np.zeros((model.ngeom, len(self.directions)))
        for g in (g for g in self.support if np.isfinite(self.radii[g])):
            reach[g] = self.support[g].reach(self.directions)
        chunks = [self._bound(poses, reach, k) for k in range(0, max(len(self.geoms), 1), CHUNK)]
        self.near, self.depth = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        # depth up to which a pair only touches [m]
        self.gap = self._limit(*self.geoms[self.near].T) + self.margin[self.near]

    def _bound(self, poses, reach, start: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = self.geoms[start : start + CHUNK].T
        apart = np.linalg.norm(poses[a, :3] - poses[b, :3], axis=1)
        ground = np.isinf(self.radii[a])  # planes and height fields come first in a pair
        limit = self._limit(a, b) + self.margin[start : start + len(a)]
        rows = np.flatnonzero((apart < self.radii[a] + self.radii[b] + limit) & ~ground)
        depth = (reach[a[rows]] + reach[b[rows], ::-1]).min(axis=1, initial=np.inf)
        kept = depth > -limit[rows]
        rows, depth = rows[kept], depth[kept]
        for i in np.flatnonzero(ground):
            deep = self.support[int(a[i])].depth_in_ground(self.support[int(b[i])], self.directions)
            if deep > -limit[i]:
                rows, depth = np.append(rows, i), np.append(depth, deep)
        return start + rows, depth

    def _limit(self, a, b):
        """Depth up to which two geoms count as touching [m]."""
        radius = np.minimum(self.radii[a], self.radii[b])
        return np.maximum(np.minimum(DEEP, SMALL * radius), TINY * radius)

    def _searched(self, k: int, limit: float) -> float:
        """The depth of the k-th near pair, searched until it is at most `limit`."""
        a, b = self.geoms[self.near[k]]
        if np.isinf(self.radii[a]):
            return float(self.depth[k])
        return _search(self.support[int(a)], self.support[int(b)], self.directions, limit)

    def overlaps(self) -> list[tuple[float, int]]:
        """(depth [m], index of the pair), deepest first, of the pairs that overlap by more than a touch."""
        limit = self._limit(*self.geoms[self.near].T)
        deep = np.flatnonzero(self.depth > limit)
        deep = deep[np.argsort(-self.depth[deep], kind="stable")][:MOST]
        found = [(self._searched(int(k), limit[k]), int(self.near[k])) for k in deep]
        return sorted((item for item, k in zip(found, deep, strict=True) if item[0] > limit[k]), reverse=True)

    def touching(self) -> np.ndarray:
        """Indices of the pairs that overlap, touch, or are apart by less than the touch limit and their margin."""
        kept = [k >= SEARCHED or self._searched(k, -self.gap[k]) > -self.gap[k] for k in range(len(self.near))]
        return self.near[np.array(kept, dtype=bool)]

    def warning(self) -> str | None:
        """The warning about overlapping geoms; None where there are none, and from the second call on."""
        with _lock:
            told, self.told = self.told, True
        found = [] if told else self.overlaps()
        if not found:
            return None
        model, names = self.names
        named = []
        for depth, pair in found[:NAMED]:
            first, second = (repr(names[g]) for g in self.geoms[pair])
            named.append(f"{first} and {second} by {1e3 * depth:.3g} mm")
        count = "1 pair of geoms overlaps" if len(found) == 1 else f"{len(found)} pairs of geoms overlap"
        count = f"{MOST} or more pairs of geoms overlap" if len(found) == MOST else count
        return (
            f"model {model!r}: {count} at its start q0, deepest {', '.join(named)}; contact will push them apart. "
            "Where they should not touch, exclude their bodies (MJCF <exclude>, USD filtered pairs, else "
            "ModelBuilder.add_model and exclude); else start elsewhere"
        )


def _directions() -> np.ndarray:
    """Unit directions `(n, 3)`, about 14 degrees apart; the k-th from the end is opposite to the k-th."""
    n = 100
    z = 1 - (np.arange(n) + 0.5) / n  # Fibonacci spiral on the upper half sphere
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    r = np.sqrt(1 - z * z)
    half = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    half = np.concatenate([half, np.eye(3)])
    return np.concatenate([half, -half[::-1]])


def _search(a: "_Support", b: "_Support", directions, limit: float) -> float:
    """The least h_A(d) + h_B(-d) found; the search stops at the first value that is at most `limit`."""
    between = b.pose[:3] - a.pose[:3]
    candidates = [directions, a.axes, -a.axes, b.axes, -b.axes, between[None] if between.any() else a.axes[:1]]
    candidates.append(np.cross(a.axes[:, None], b.axes[None]).reshape(-1, 3))
    candidates.append(-candidates[-1])
    d = np.concatenate(candidates)
    length = np.linalg.norm(d, axis=1)
    d = d[length > 1e-9] / length[length > 1e-9, None]
    value = a.reach(d) + b.reach(-d)
    order, rng = np.argsort(value)[:STARTS], np.random.default_rng(0)
    start, least = d[order], value[order]
    for cone in CONES:
        if least.min() <= limit:
            break
        tries = start[:, None] + cone * rng.normal(size=(len(start), TRIES, 3))
        tries /= np.linalg.norm(tries, axis=2, keepdims=True)
        flat = tries.reshape(-1, 3)
        value = (a.reach(flat) + b.reach(-flat)).reshape(len(start), TRIES)
        k = (np.arange(len(start)), value.argmin(axis=1))
        better = value[k] < least
        start, least = np.where(better[:, None], tries[k], start), np.minimum(value[k], least)
    return float(least.min())


class _Support:
    """Support function of a placed geom, about the world's origin."""

    def __init__(self, model: Model, geom: int, pose, hulls):
        self.kind, self.size, self.pose = GeomType(model.geom_type[geom]), model.geom_size[geom], pose
        self.turn = rotation_matrix(pose[3:])
        self.axes = self.turn.T  # rows: the geom's axes in world axes
        self.vertices = hulls.get(int(model.geom_mesh[geom])) if self.kind == GeomType.MESH else None
        if self.kind == GeomType.HFIELD:
            self.field = model.hfields[int((model.geom_type[:geom] == GeomType.HFIELD).sum())]

    def reach(self, directions) -> np.ndarray:
        """max x.d over the shape, `(n,)` for unit directions `(n, 3)`."""
        d = directions @ self.turn
        own = (d @ self.vertices.T).max(axis=1) if self.kind == GeomType.MESH else support(self.kind, self.size, d)
        return own + directions @ self.pose[:3]

    def depth_in_ground(self, other: "_Support", directions) -> float:
        """How deep `other` reaches below this plane, or, along z, below the surface of this height field."""
        normal = self.axes[2]
        if self.kind == GeomType.PLANE:
            return float(other.reach(-normal[None])[0] + normal @ self.pose[:3])
        x, y, top, base = self.field.size
        points = rotate(CONJUGATE * self.pose[3:], other.surface(directions) - self.pose[:3])
        inside = (np.abs(points[:, 0]) < x) & (np.abs(points[:, 1]) < y) & (points[:, 2] > -base)
        points, data = points[inside], self.field.data
        i = np.rint((points[:, 1] + y) / (2 * y) * (data.shape[0] - 1)).astype(int)
        j = np.rint((points[:, 0] + x) / (2 * x) * (data.shape[1] - 1)).astype(int)
        return float((top * data[i, j] - points[:, 2]).max(initial=-np.inf))

    def surface(self, directions) -> np.ndarray:
        """Points `(n, 3)` of the surface in the world, the farthest along each direction: the gradient of `reach`."""
        step = 1e-6
        slopes = [
            (self.reach(directions + step * e) - self.reach(directions - step * e)) / (2 * step) for e in np.eye(3)
        ]
        return np.stack(slopes, axis=1)
