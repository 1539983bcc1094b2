# SPDX-License-Identifier: Apache-2.0
"""Host side of the broad phase: the grid's tables, its workspace and its launches."""

import numpy as np
import warp as wp

from warpsim.device.copies import launch
from warpsim.device.memory import LARGEST_INDEX
from warpsim.device.ranges import sort_segments
from warpsim.kernels.contact import broadphase
from warpsim.model.geom_types import bounding_radii
from warpsim.tree.dynamics import BLOCK, DeviceModel

# With at most this many pairs, on the CPU, a walk through the full list is faster than the grid
# (benchmarks/broadphase.py: they cross at about 850 spheres, 360,000 pairs).
LARGEST_LIST = 300_000
# A geom this many times larger than the median is large: it is tested against every other geom.
LARGE_RATIO = 4.0
CANDIDATES_PER_GEOM = 32
# Candidates per geom that the counting pass keeps. A geom with more searches a second time.
KEPT_PER_GEOM = 16
# Trees with at most this many small geoms list their own pairs; larger trees use the grid.
LARGEST_GROUP = 64


class BroadPhase:
    """Candidate pairs of every world, sorted: `grid.candidate`, `grid.count`. `scene`: pairs and reaches of the geoms,
    see `Collision`."""

    def __init__(self, device_model: DeviceModel, scene, capacity: int | None = None):
        model, device, worlds = device_model.model, device_model.device, device_model.worlds
        self.device_model, self.model, self.worlds = device_model, model, worlds
        radii = bounding_radii(model)
        moving = radii[np.isfinite(radii)]
        median = np.median(moving) if len(moving) else 0.0
        is_large = ~np.isfinite(radii) | (radii > LARGE_RATIO * median)
        self.capacity = CANDIDATES_PER_GEOM * model.ngeom if capacity is None else capacity
        check_indices(worlds, model.ngeom, self.capacity)
        group, *own = _own_pairs(model, is_large)
        smalls, zeros = int((~is_large).sum()), lambda n: wp.zeros(n, dtype=wp.int32, device=device)
        buckets = 1 << max(1, 2 * smalls - 1).bit_length()
        grid = device_model.struct(
            broadphase.Grid,
            geom_type=model.geom_type,
            is_large=is_large,
            small=np.flatnonzero(~is_large),
            large=np.flatnonzero(is_large),
            pair_geom=scene.pair_geom,
            reach=scene.geom_reach,
            group=group,
            **dict(zip(("own_start", "own_pair", "own_other"), own, strict=True)),
            cell=wp.zeros((worlds, model.ngeom), dtype=wp.vec3i, device=device),
            bucket=zeros((worlds, buckets + 1)),
            near=zeros((worlds, model.ngeom, KEPT_PER_GEOM)),
            candidate=zeros(2 * worlds * self.capacity),
            **{name: zeros(2 * worlds * smalls) for name in ("key", "member")},
            **{name: zeros((worlds, model.ngeom)) for name in ("number", "offset")},
            **{name: zeros(worlds) for name in ("count", "end", "overflow")},
            capacity=self.capacity,
        )
        self.grid, self.smalls = grid, smalls
        self._payload = zeros(2 * worlds * self.capacity)
        self._width = wp.zeros(worlds, dtype=device_model.types.real, device=device)
        ints = device_model.array
        self._cell_segments = ints(smalls * np.arange(worlds)), ints(smalls * np.arange(1, worlds + 1))
        self._candidate_start = ints(self.capacity * np.arange(worlds))

    def launch(self, h: float, size: wp.array, geoms) -> None:
        """Find the candidate pairs for a step of h [s]."""
        grid, worlds, ngeom = self.grid, self.worlds, self.model.ngeom
        self._run(broadphase.find_width, worlds, [grid, size, geoms, h, self._width])
        self._run(broadphase.insert, (worlds, self.smalls), [grid, geoms, self._width])
        begin, end = self._cell_segments
        sort_segments(grid.key, grid.member, worlds * self.smalls, begin, end)
        shared = [grid, size, geoms, h]
        self._run(broadphase.index, (worlds, self.smalls), [grid])
        self._run(broadphase.search, (worlds, ngeom), shared)
        self._run(broadphase.offsets, worlds, [grid])
        self._run(broadphase.fill, (worlds, ngeom), shared)
        sort_segments(grid.candidate, self._payload, worlds * self.capacity, self._candidate_start, grid.end)

    def _run(self, kernel, dim, inputs) -> None:
        d = self.device_model
        launch(kernel, d.types.real, dim, inputs, device=d.device, block_dim=BLOCK)


def check_indices(worlds: int, ngeom: int, capacity: int) -> None:
    """Raise `ValueError` if 32-bit integers cannot number the candidates of all worlds, or the pairs of geoms.

    `capacity`: candidates per world. The lists have twice that length, because sorting needs it.
    """
    if ngeom * (ngeom - 1) // 2 > LARGEST_INDEX:
        raise ValueError(
            f"the model has {ngeom} geoms, and pairs of them are numbered up to {ngeom * (ngeom - 1) // 2}; 32-bit "
            f"integers end at {LARGEST_INDEX}: use at most 65536 geoms"
        )
    entries, most = 2 * worlds * max(capacity, ngeom), LARGEST_INDEX // (2 * max(capacity, ngeom, 1))
    if entries > LARGEST_INDEX:
        raise ValueError(
            f"worlds is {worlds}: with {capacity} candidate pairs each ({ngeom} geoms) the broad phase's lists have "
            f"{entries} entries, and 32-bit indices end at {LARGEST_INDEX}; a simulator may have at most {most}"
        )


def _own_pairs(model, is_large) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Group of each geom (its tree; -1: none), and per geom the pairs within its group: start, pair, other geom."""
    tree = np.array([-1 if b < 0 else model.link_tree[model.body_link[b]] for b in model.geom_body], dtype=np.int32)
    tree[is_large] = -1
    size = np.bincount(tree[tree >= 0], minlength=model.ntree)
    group = np.where((tree >= 0) & (size[tree] <= LARGEST_GROUP), tree, -1)
    a, b = np.sort(model.pair_geom, axis=1).T
    listed = np.flatnonzero((group[a] >= 0) & (group[a] == group[b]))
    listed = listed[np.argsort(a[listed], kind="stable")]
    start = np.searchsorted(a[listed], np.arange(model.ngeom + 1))
    return group, start, listed, b[listed]
