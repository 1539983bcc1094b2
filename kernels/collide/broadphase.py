"""Broad phase of large scenes: a hashed uniform grid per world, near-linear in the number of geoms.

Small geoms (by bounding radius) go to the grid cell of their centre; the cell is as wide as the largest reach of any, so
that touching ones lie in neighbouring cells. Large geoms and planes are tested against everything. What survives the
sphere test and is a pair of the model's table becomes a candidate; candidates are sorted by pair, so that the order of
contacts does not depend on how they were found. Cells whose hashes collide are told apart by their coordinates.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels.collide import features
from warpsim.kernels.collide.manifold import PLANE
from warpsim.kernels.precision import module_name, types

HASH_MASK = wp.constant(0x3FFFFFFF)
HASH_X = wp.constant(73856093)
HASH_Y = wp.constant(19349663)
HASH_Z = wp.constant(83492791)


@wp.struct
class Grid:
    """Tables shared by all worlds, and the working arrays of the search."""

    geom_type: wp.array(dtype=wp.int32)
    small: wp.array(dtype=wp.int32)  # geoms in the grid
    large: wp.array(dtype=wp.int32)  # geoms tested against all
    is_large: wp.array(dtype=wp.int32)  # (ngeom,)
    pair_key: wp.array(dtype=wp.int32)  # (pairs,) ascending: lower geom index * ngeom + higher
    pair_id: wp.array(dtype=wp.int32)  # (pairs,) row of the pair table
    cell: wp.array2d(dtype=wp.vec3i)  # (worlds, ngeom)
    key: wp.array(dtype=wp.int32)  # (2 worlds * smalls,) hashes, sorted within a world
    member: wp.array(dtype=wp.int32)  # the geoms in that order
    found: wp.array2d(dtype=wp.int32)  # (worlds, ngeom) candidates of each geom, then their offsets
    count: wp.array(dtype=wp.int32)  # (worlds,) candidates
    end: wp.array(dtype=wp.int32)  # (worlds,) end of the world's segment
    overflow: wp.array(dtype=wp.int32)  # (worlds,) 1 where candidates ran out of slots
    candidate: wp.array(dtype=wp.int32)  # (2 worlds * capacity,) pairs, sorted within a world
    capacity: int


@functools.cache
def build(S) -> SimpleNamespace:
    """Kernels `measure`, `insert`, `search`, `offsets` of scalar type S."""
    t = types(S)
    vec3, transform = t.vec3, t.transform
    d_features = features.build(S)
    module = module_name("broadphase", S)

    @wp.func
    def hash_cell(c: wp.vec3i) -> int:
        return ((c[0] * HASH_X) ^ (c[1] * HASH_Y) ^ (c[2] * HASH_Z)) & HASH_MASK

    @wp.func
    def reach(
        grid: Grid, geom_size: wp.array2d(dtype=vec3), geom_speed: wp.array2d(dtype=S), h: S, w: int, g: int
    ) -> S:
        """Bounding radius plus the way within a step; geoms of inactive bodies (speed -1) reach nothing."""
        radius = d_features.bounding_radius(grid.geom_type[g], geom_size[w % geom_size.shape[0], g])
        speed = geom_speed[w, g]
        if speed < S(0.0):
            return S(0.0)
        return radius + h * speed

    @wp.kernel(module=module, enable_backward=False)
    def measure(
        grid: Grid,
        geom_size: wp.array2d(dtype=vec3),
        geom_speed: wp.array2d(dtype=S),
        h: S,
        # out
        width: wp.array(dtype=S),
    ):
        """Cell width of each world: twice the largest reach of a small geom. Launch over worlds."""
        w = wp.tid()
        largest = S(1.0e-6)
        for i in range(grid.small.shape[0]):
            r = reach(grid, geom_size, geom_speed, h, w, grid.small[i])
            if r > largest and r - r == S(0.0):
                largest = r
        width[w] = S(2.0) * largest

    @wp.kernel(module=module, enable_backward=False)
    def insert(grid: Grid, geom_X: wp.array2d(dtype=transform), width: wp.array(dtype=S)):
        """Cell and hash of each small geom. Launch over (worlds, smalls)."""
        w, i = wp.tid()
        g = grid.small[i]
        p = wp.transform_get_translation(geom_X[w, g]) / width[w]
        c = wp.vec3i(int(wp.floor(p[0])), int(wp.floor(p[1])), int(wp.floor(p[2])))
        grid.cell[w, g] = c
        slot = w * grid.small.shape[0] + i
        grid.key[slot] = hash_cell(c)
        grid.member[slot] = g

    @wp.func
    def first_at_least(keys: wp.array(dtype=wp.int32), start: int, end: int, value: int) -> int:
        """First index in [start, end) whose key is >= value, else end."""
        low = start
        high = end
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < value:
                low = middle + 1
            else:
                high = middle
        return low

    @wp.func
    def close(
        grid: Grid,
        geom_X: wp.array2d(dtype=transform),
        geom_size: wp.array2d(dtype=vec3),
        geom_speed: wp.array2d(dtype=S),
        h: S,
        w: int,
        a: int,
        b: int,
    ) -> bool:
        """Bounding spheres, or plane and sphere, can touch within the step."""
        p = a
        q = b
        if grid.geom_type[b] == PLANE:
            p = b
            q = a
        r_q = reach(grid, geom_size, geom_speed, h, w, q)
        if grid.geom_type[p] == PLANE:
            return d_features.plane_distance_bound(geom_X[w, p], geom_X[w, q], r_q) <= h * geom_speed[w, p]
        r = r_q + reach(grid, geom_size, geom_speed, h, w, p)
        x = wp.transform_get_translation(geom_X[w, p]) - wp.transform_get_translation(geom_X[w, q])
        return wp.dot(x, x) <= r * r

    @wp.func
    def pair_row(grid: Grid, ngeom: int, a: int, b: int) -> int:
        """Row of the pair of geoms in the pair table, -1 where they never touch."""
        value = wp.min(a, b) * ngeom + wp.max(a, b)
        end = grid.pair_key.shape[0]
        i = first_at_least(grid.pair_key, 0, end, value)
        if i < end and grid.pair_key[i] == value:
            return grid.pair_id[i]
        return -1

    @wp.kernel(module=module, enable_backward=False)
    def search(
        grid: Grid,
        geom_X: wp.array2d(dtype=transform),
        geom_size: wp.array2d(dtype=vec3),
        geom_speed: wp.array2d(dtype=S),
        h: S,
        fill: int,
    ):
        """Count (fill = 0) or store (fill = 1) the candidates of each geom. Launch over (worlds, ngeom)."""
        w, g = wp.tid()
        ngeom = geom_X.shape[1]
        n = int(0)
        at = int(0)
        if fill == 1:
            at = grid.found[w, g]
        for i in range(grid.large.shape[0]):
            other = grid.large[i]
            if grid.is_large[g] == 0 or g < other:
                row = pair_row(grid, ngeom, g, other)
                if row >= 0 and close(grid, geom_X, geom_size, geom_speed, h, w, g, other):
                    if fill == 1 and at + n < grid.capacity:
                        grid.candidate[w * grid.capacity + at + n] = row
                    n += 1
        if grid.is_large[g] == 0:
            smalls = grid.small.shape[0]
            start = w * smalls
            home = grid.cell[w, g]
            for k in range(14):  # this cell and the 13 after it: every two neighbours meet once
                c = home + wp.vec3i((k + 13) % 3 - 1, ((k + 13) // 3) % 3 - 1, (k + 13) // 9 - 1)
                value = hash_cell(c)
                i = first_at_least(grid.key, start, start + smalls, value)
                while i < start + smalls and grid.key[i] == value:
                    other = grid.member[i]
                    if (k > 0 or other > g) and grid.cell[w, other] == c:
                        if close(grid, geom_X, geom_size, geom_speed, h, w, g, other):
                            row = pair_row(grid, ngeom, g, other)
                            if row >= 0:
                                if fill == 1 and at + n < grid.capacity:
                                    grid.candidate[w * grid.capacity + at + n] = row
                                n += 1
                    i += 1
        if fill == 0:
            grid.found[w, g] = n

    @wp.kernel(module=module, enable_backward=False)
    def offsets(grid: Grid):
        """Counts to offsets, and the number of candidates. Launch over worlds."""
        w = wp.tid()
        total = int(0)
        for g in range(grid.found.shape[1]):
            n = grid.found[w, g]
            grid.found[w, g] = total
            total += n
        grid.overflow[w] = 0
        if total > grid.capacity:
            grid.overflow[w] = 1
            total = grid.capacity
        grid.count[w] = total
        grid.end[w] = w * grid.capacity + total

    return SimpleNamespace(measure=measure, insert=insert, search=search, offsets=offsets)
