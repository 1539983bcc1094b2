"""Host side of the broad phase: the grid's tables and working arrays, and its launches."""

import numpy as np
import warp as wp

from warpsim.dynamics import BLOCK, DeviceModel
from warpsim.kernels.collide import broadphase
from warpsim.model.extent import bounding_radii

# Up to this many pairs a list that is walked in full is quicker than the grid on the CPU (benchmarks/broadphase.py: they
# cross at about 850 spheres, 360,000 pairs).
LARGEST_LIST = 300_000
# A geom this many times larger than the median goes to the list that is tested against everything.
LARGE_RATIO = 4.0
CANDIDATES_PER_GEOM = 32


class BroadPhase:
    """Candidates of every world, sorted by pair: `grid.candidate`, `grid.count`."""

    def __init__(self, device_model: DeviceModel, capacity: int | None = None):
        model, device, worlds = device_model.model, device_model.device, device_model.worlds
        self.device_model, self.model, self.worlds = device_model, model, worlds
        self.kernels = broadphase.build(device_model.types.scalar)
        radii = bounding_radii(model)
        moving = radii[np.isfinite(radii)]
        median = np.median(moving) if len(moving) else 0.0
        is_large = ~np.isfinite(radii) | (radii > LARGE_RATIO * median)
        keys = model.pair_geom.min(axis=1).astype(np.int64) * model.ngeom + model.pair_geom.max(axis=1)
        order = np.argsort(keys)
        self.capacity = CANDIDATES_PER_GEOM * model.ngeom if capacity is None else capacity
        grid = broadphase.Grid()

        def ints(values):
            return wp.array(np.ascontiguousarray(values, np.int32), dtype=wp.int32, device=device)

        grid.geom_type, grid.is_large = ints(model.geom_type), ints(is_large)
        grid.small, grid.large = ints(np.flatnonzero(~is_large)), ints(np.flatnonzero(is_large))
        grid.pair_key, grid.pair_id = ints(keys[order]), ints(order)
        smalls = int((~is_large).sum())
        grid.cell = wp.zeros((worlds, model.ngeom), dtype=wp.vec3i, device=device)
        grid.key, grid.member = (wp.zeros(2 * worlds * smalls, dtype=wp.int32, device=device) for _ in range(2))
        grid.found = wp.zeros((worlds, model.ngeom), dtype=wp.int32, device=device)
        grid.count, grid.end, grid.overflow = (wp.zeros(worlds, dtype=wp.int32, device=device) for _ in range(3))
        grid.candidate = wp.zeros(2 * worlds * self.capacity, dtype=wp.int32, device=device)
        grid.capacity = self.capacity
        self.grid, self.smalls = grid, smalls
        self._payload = wp.zeros(2 * worlds * self.capacity, dtype=wp.int32, device=device)
        self._width = wp.zeros(worlds, dtype=device_model.types.scalar, device=device)
        self._cell_segments = ints(smalls * np.arange(worlds + 1))
        self._candidate_start = ints(self.capacity * np.arange(worlds))

    def launch(self, h: float, geom_X: wp.array, geom_size: wp.array, geom_speed: wp.array) -> None:
        """Find the candidates for a step of h."""
        grid, worlds, ngeom = self.grid, self.worlds, self.model.ngeom
        self._run(self.kernels.measure, worlds, [grid, geom_size, geom_speed, h, self._width])
        self._run(self.kernels.insert, (worlds, self.smalls), [grid, geom_X, self._width])
        wp.utils.segmented_sort_pairs(grid.key, grid.member, worlds * self.smalls, self._cell_segments)
        shared = [grid, geom_X, geom_size, geom_speed, h]
        self._run(self.kernels.search, (worlds, ngeom), [*shared, 0])
        self._run(self.kernels.offsets, worlds, [grid])
        self._run(self.kernels.search, (worlds, ngeom), [*shared, 1])
        wp.utils.segmented_sort_pairs(
            grid.candidate, self._payload, worlds * self.capacity, self._candidate_start, grid.end
        )

    def _run(self, kernel, dim, inputs) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, device=self.device_model.device, block_dim=BLOCK)
