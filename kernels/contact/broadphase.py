# SPDX-License-Identifier: Apache-2.0
"""Broad phase of large scenes: a hashed uniform grid per world, near-linear in the number of geoms.

A small geom (by bounding radius) goes to the grid cell of its centre. The cell width is twice the largest reach of a
small geom, so that geoms that touch lie in the same or neighbouring cells. Large geoms and planes are tested against
all geoms. The geoms of one robot are tested against each other by a list of pairs.

A pair becomes a candidate if it passes the test of bounding spheres and is in the model's pair table. Candidates are
sorted by pair, so the order of contacts does not depend on the search. Cells with the same hash are told apart by
their coordinates.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec3
from .narrow.features import plane_distance_bound
from .narrow.manifold import PLANE
from .narrow.shape import bounding_radius
from .pair_laws import Geoms

HASH_X = wp.constant(73856093)
HASH_Y = wp.constant(19349663)
HASH_Z = wp.constant(83492791)


@struct
class Grid:
    """Tables shared by all worlds, and the working arrays of the search."""

    geom_type: wp.array(dtype=wp.int32)
    small: wp.array(dtype=wp.int32)  # geoms in the grid
    large: wp.array(dtype=wp.int32)  # geoms tested against all
    is_large: wp.array(dtype=wp.int32)  # (ngeom,)
    reach: wp.array2d(dtype=real)  # (1 or worlds, ngeom) [m] `Scene.geom_reach`
    group: wp.array(dtype=wp.int32)  # (ngeom,) tree of a small geom, if the pairs within the tree are listed; else -1
    own_start: wp.array(dtype=wp.int32)  # (ngeom + 1,) where a geom's listed pairs begin
    own_pair: wp.array(dtype=wp.int32)  # rows of the pair table
    own_other: wp.array(dtype=wp.int32)  # the other geom
    pair_geom: wp.array2d(dtype=wp.int32)  # (pairs, 2) `Scene.pair_geom`, ascending by lower geom, then by higher
    cell: wp.array2d(dtype=wp.vec3i)  # (worlds, ngeom)
    key: wp.array(dtype=wp.int32)  # (2 worlds * smalls,) buckets, sorted within a world
    bucket: wp.array2d(dtype=wp.int32)  # (worlds, buckets + 1) first entry of each bucket; `buckets` is a power of two
    member: wp.array(dtype=wp.int32)  # (2 worlds * smalls,) geoms, in the order of `key`
    number: wp.array2d(dtype=wp.int32)  # (worlds, ngeom) candidates of each geom
    offset: wp.array2d(dtype=wp.int32)  # (worlds, ngeom) where a geom's candidates begin
    near: wp.array3d(dtype=wp.int32)  # (worlds, ngeom, kept) the first candidates of each geom
    count: wp.array(dtype=wp.int32)  # (worlds,) candidates
    end: wp.array(dtype=wp.int32)  # (worlds,) end of the world's segment
    overflow: wp.array(dtype=wp.int32)  # (worlds,) 1 if there are more candidates than `capacity`
    candidate: wp.array(dtype=wp.int32)  # (2 worlds * capacity,) pairs, sorted within a world
    capacity: int


@func
def bucket_of(grid: Grid, c: wp.vec3i) -> int:
    return ((c[0] * HASH_X) ^ (c[1] * HASH_Y) ^ (c[2] * HASH_Z)) & (grid.bucket.shape[1] - 2)


@func
def reach(grid: Grid, size: wp.array2d(dtype=vec3), geoms: Geoms, h: real, w: int, g: int) -> real:
    """Bounding radius + margin + distance moved within a step [m]; 0 for geoms of inactive bodies (speed -1)."""
    radius = bounding_radius(grid.geom_type[g], size[w % size.shape[0], g])
    speed = geoms.speed[w, g]
    if speed < real(0.0):
        return real(0.0)
    return radius + h * speed + grid.reach[w % grid.reach.shape[0], g]


@kernel
def find_width(
    grid: Grid,
    size: wp.array2d(dtype=vec3),
    geoms: Geoms,
    h: real,
    # out
    width: wp.array(dtype=real),
):
    """Cell width of each world: twice the largest reach of a small geom. Launch over worlds."""
    w = wp.tid()
    largest = real(1.0e-6)
    for i in range(grid.small.shape[0]):
        r = reach(grid, size, geoms, h, w, grid.small[i])
        if r > largest and r - r == real(0.0):
            largest = r
    width[w] = real(2.0) * largest


@kernel
def insert(grid: Grid, geoms: Geoms, width: wp.array(dtype=real)):
    """Cell and bucket of each small geom. Launch over (worlds, smalls)."""
    w, i = wp.tid()
    g = grid.small[i]
    p = wp.transform_get_translation(geoms.X[w, g]) / width[w]
    c = wp.vec3i(int(wp.floor(p[0])), int(wp.floor(p[1])), int(wp.floor(p[2])))
    grid.cell[w, g] = c
    slot = w * grid.small.shape[0] + i
    grid.key[slot] = bucket_of(grid, c)
    grid.member[slot] = g


@kernel
def index(grid: Grid):
    """First entry of every bucket, from the sorted keys. Launch over (worlds, smalls)."""
    w, i = wp.tid()
    smalls = grid.small.shape[0]
    key = grid.key[w * smalls + i]
    first = int(0)
    if i > 0:
        first = grid.key[w * smalls + i - 1] + 1
    for b in range(first, key + 1):
        grid.bucket[w, b] = i
    if i == smalls - 1:
        for b in range(key + 1, grid.bucket.shape[1]):
            grid.bucket[w, b] = smalls


@func
def close(
    grid: Grid,
    size: wp.array2d(dtype=vec3),
    geoms: Geoms,
    h: real,
    w: int,
    a: int,
    b: int,
) -> bool:
    """Whether the bounding spheres of two geoms, or a plane and a bounding sphere, can touch within the step."""
    p = a
    q = b
    if grid.geom_type[b] == PLANE:
        p = b
        q = a
    r_q = reach(grid, size, geoms, h, w, q)
    if grid.geom_type[p] == PLANE:
        return plane_distance_bound(geoms.X[w, p], geoms.X[w, q], r_q) <= h * geoms.speed[w, p]
    r = r_q + reach(grid, size, geoms, h, w, p)
    x = wp.transform_get_translation(geoms.X[w, p]) - wp.transform_get_translation(geoms.X[w, q])
    return wp.dot(x, x) <= r * r


@func
def pair_row(grid: Grid, a: int, b: int) -> int:
    """Row of the two geoms in the pair table, or -1 if the table does not have the pair."""
    low = int(0)
    high = grid.pair_geom.shape[0]
    while low < high:
        middle = (low + high) // 2
        first = wp.min(grid.pair_geom[middle, 0], grid.pair_geom[middle, 1])
        second = wp.max(grid.pair_geom[middle, 0], grid.pair_geom[middle, 1])
        if first == wp.min(a, b) and second == wp.max(a, b):
            return middle
        if first < wp.min(a, b) or (first == wp.min(a, b) and second < wp.max(a, b)):
            low = middle + 1
        else:
            high = middle
    return -1


@func
def store(grid: Grid, w: int, g: int, n: int, at: int, fill: int, row: int):
    """Store candidate n of geom g: in `near` if there is room, or with `fill` 1 in the list at index `at` + n."""
    if fill == 1:
        if at + n < grid.capacity:
            grid.candidate[w * grid.capacity + at + n] = row
    elif n < grid.near.shape[2]:
        grid.near[w, g, n] = row


@func
def walk(
    grid: Grid,
    size: wp.array2d(dtype=vec3),
    geoms: Geoms,
    h: real,
    w: int,
    g: int,
    at: int,
    fill: int,
) -> int:
    """Find and `store` the candidates of geom g, each pair from one of its two geoms only; return their number."""
    n = int(0)
    for i in range(grid.large.shape[0]):
        other = grid.large[i]
        if grid.is_large[g] == 0 or g < other:
            if close(grid, size, geoms, h, w, g, other):
                row = pair_row(grid, g, other)
                if row >= 0:
                    store(grid, w, g, n, at, fill, row)
                    n += 1
    for i in range(grid.own_start[g], grid.own_start[g + 1]):
        if close(grid, size, geoms, h, w, g, grid.own_other[i]):
            store(grid, w, g, n, at, fill, grid.own_pair[i])
            n += 1
    if grid.is_large[g] == 0:
        group = grid.group[g]
        start = w * grid.small.shape[0]
        home = grid.cell[w, g]
        for k in range(14):  # this cell and the 13 after it: each two neighbouring cells are compared once
            c = home + wp.vec3i((k + 13) % 3 - 1, ((k + 13) // 3) % 3 - 1, (k + 13) // 9 - 1)
            b = bucket_of(grid, c)
            for i in range(grid.bucket[w, b], grid.bucket[w, b + 1]):
                other = grid.member[start + i]
                stranger = group < 0 or grid.group[other] != group
                if stranger and (k > 0 or other > g) and grid.cell[w, other] == c:
                    if close(grid, size, geoms, h, w, g, other):
                        row = pair_row(grid, g, other)
                        if row >= 0:
                            store(grid, w, g, n, at, fill, row)
                            n += 1
    return n


@kernel
def search(
    grid: Grid,
    size: wp.array2d(dtype=vec3),
    geoms: Geoms,
    h: real,
):
    """Count the candidates of each geom, and keep the first ones in `near`. Launch over (worlds, ngeom)."""
    w, g = wp.tid()
    grid.number[w, g] = walk(grid, size, geoms, h, w, g, 0, 0)


@kernel
def fill(
    grid: Grid,
    size: wp.array2d(dtype=vec3),
    geoms: Geoms,
    h: real,
):
    """List the candidates; a geom with more of them than `near` holds searches again. Launch over (worlds, ngeom)."""
    w, g = wp.tid()
    at = grid.offset[w, g]
    n = grid.number[w, g]
    if n > grid.near.shape[2]:
        walk(grid, size, geoms, h, w, g, at, 1)
    else:
        for i in range(n):
            store(grid, w, g, i, at, 1, grid.near[w, g, i])


@kernel
def offsets(grid: Grid):
    """Turn the counts into offsets, and write the number of candidates per world. Launch over worlds."""
    w = wp.tid()
    total = int(0)
    for g in range(grid.number.shape[1]):
        grid.offset[w, g] = total
        total += grid.number[w, g]
    grid.overflow[w] = 0
    if total > grid.capacity:
        grid.overflow[w] = 1
        total = grid.capacity
    grid.count[w] = total
    grid.end[w] = w * grid.capacity + total
