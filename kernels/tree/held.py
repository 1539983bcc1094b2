# SPDX-License-Identifier: Apache-2.0
"""Quantities of the links of one tree in shared memory on CUDA, in float32, while a kernel computes them.

Lanes have a link each, and a link's pose, inertia or velocity has 6 to 10 numbers: loads from global memory touch a
line of 128 bytes for every three to five lanes, and one from shared memory takes a cycle or two. A held array stands
for a global one: it has the same indices, those of one world and of one tree. `team_put_*` write it to the global one
side by side. On the CPU and in float64 a held array is the global one.
"""

import warp as wp

from .. import real as device
from ..linalg.lanes import WORLD, WORLDS, by_device
from ..linalg.vector import scalar
from ..real import LANES, real, transform, vec6, vec10

POSE, INERTIA, VECTOR = 7, 10, 6  # numbers of a link
# Offsets of the arrays of a world, and their length. The mass matrix takes the place of what is not read any more.
POSES, INERTIAS, MATRIX = 0, POSE * LANES, 0
VELOCITIES, FORCES, ACCELERATIONS = ((POSE + INERTIA + k * VECTOR) * LANES for k in range(3))
COMPOSITES = ACCELERATIONS + VECTOR * LANES
AXES = COMPOSITES + INERTIA * LANES
NUMBERS = AXES + VECTOR * LANES
ROW = LANES + 1  # length of a row of the matrix: lanes with a row each use different banks
SHARED = f"""
__shared__ alignas(16) {scalar} numbers[{WORLDS * NUMBERS}];
return wp::array_t<{scalar}>(numbers + {WORLD} * {NUMBERS}, {NUMBERS});
"""
HOLD = """
auto held = a;
held.data = reinterpret_cast<decltype(a.data)>(room.data + at) - first;
held.strides[0] = 0;
return held;
"""
HOLD_MATRIX = f"""
auto held = a;
held.data = room.data + at - first * {ROW};
held.strides[0] = 0;
held.strides[1] = {ROW} * sizeof({scalar});
return held;
"""
PUT_MATRIX = f"""
const int size = end - first;
const {scalar}* from = room.data + at + lane;
{scalar}* to = wp::address(target, w, first, 0) + lane;
#pragma unroll 1
for (int row = 0; row < size; ++row, from += {ROW}, to += target.shape[2])
    if (lane < size) *to = *from;
"""
NONE = f"return wp::array_t<{scalar}>();"
PUT = f"""
const {scalar}* from = reinterpret_cast<const {scalar}*>(held.data + first) + lane;
{scalar}* to = reinterpret_cast<{scalar}*>(wp::address(target, w, first)) + lane;
constexpr int EACH = sizeof(*held.data) / sizeof({scalar});
const int count = (end - first) * EACH - lane;
for (int i = 0; i < EACH; ++i)
    if (i * LANES < count) to[i * LANES] = from[i * LANES];
"""
if real is wp.float32:
    SHARED, HOLD, HOLD_MATRIX = (
        by_device(SHARED, NONE),
        by_device(HOLD, "return a;"),
        by_device(HOLD_MATRIX, "return a;"),
    )
    PUT, PUT_MATRIX = by_device(PUT, ""), by_device(PUT_MATRIX, "")
else:
    SHARED, HOLD, HOLD_MATRIX, PUT, PUT_MATRIX = NONE, "return a;", "return a;", "", ""


@device.func_native(SHARED)
def team_room() -> wp.array1d(dtype=real):
    """Shared memory for one tree of at most `LANES` links and degrees of freedom; empty where arrays are not held."""
    ...


@device.func_native(HOLD)
def hold_poses(room: wp.array1d(dtype=real), at: int, a: wp.array2d(dtype=transform), first: int) -> wp.array2d(
    dtype=transform
):
    """The held array of `a`, `at` numbers from the beginning of the room; `first`: the tree's first link."""
    ...


@device.func_native(HOLD)
def hold_inertias(room: wp.array1d(dtype=real), at: int, a: wp.array2d(dtype=vec10), first: int) -> wp.array2d(
    dtype=vec10
):
    """`hold_poses` of inertias."""
    ...


@device.func_native(HOLD)
def hold_vectors(room: wp.array1d(dtype=real), at: int, a: wp.array2d(dtype=vec6), first: int) -> wp.array2d(
    dtype=vec6
):
    """`hold_poses` of spatial vectors; of axes, `first` is the tree's first degree of freedom."""
    ...


@device.func_native(PUT)
def team_put_poses(
    held: wp.array2d(dtype=transform), target: wp.array2d(dtype=transform), w: int, first: int, end: int
):
    """target = held, by all lanes, after a `sync`."""
    ...


@device.func_native(PUT)
def team_put_inertias(held: wp.array2d(dtype=vec10), target: wp.array2d(dtype=vec10), w: int, first: int, end: int):
    """`team_put_poses` of inertias."""
    ...


@device.func_native(PUT)
def team_put_vectors(held: wp.array2d(dtype=vec6), target: wp.array2d(dtype=vec6), w: int, first: int, end: int):
    """`team_put_poses` of spatial vectors."""
    ...


@device.func_native(HOLD_MATRIX)
def hold_matrix(room: wp.array1d(dtype=real), at: int, a: wp.array3d(dtype=real), first: int) -> wp.array3d(dtype=real):
    """`hold_poses` of the rows of a tree's degrees of freedom, of which `first` is the first."""
    ...


@device.func_native(PUT_MATRIX)
def team_put_matrix(
    room: wp.array1d(dtype=real), at: int, target: wp.array3d(dtype=real), w: int, first: int, end: int
):
    """Write the square matrix of `hold_matrix` to `target`, as `team_put_poses`."""
    ...
