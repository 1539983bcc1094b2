# SPDX-License-Identifier: Apache-2.0
"""A point against a box, in the box's axes: signed distance, and the feature whose Voronoi region holds the point."""

import warp as wp

from ...real import func, real, vec3
from .manifold import FIRST_EDGE, FIRST_FACE


@func
def positive(sign: wp.int32) -> wp.int32:
    if sign > 0:
        return 1
    return 0


@func
def code_from_signs(sx: wp.int32, sy: wp.int32, sz: wp.int32) -> wp.int32:
    """Code of the box feature with the given outward signs (−1, 0 or 1, not all 0)."""
    if sx != 0 and sy != 0 and sz != 0:
        return positive(sx) + 2 * positive(sy) + 4 * positive(sz)
    if sy != 0 and sz != 0:
        return FIRST_EDGE + positive(sy) + 2 * positive(sz)
    if sz != 0 and sx != 0:
        return FIRST_EDGE + 4 + positive(sz) + 2 * positive(sx)
    if sx != 0 and sy != 0:
        return FIRST_EDGE + 8 + positive(sx) + 2 * positive(sy)
    if sx != 0:
        return FIRST_FACE + positive(sx)
    if sy != 0:
        return FIRST_FACE + 2 + positive(sy)
    return FIRST_FACE + 4 + positive(sz)


@func
def sign_of(x: real) -> wp.int32:
    if x < real(0.0):
        return -1
    return 1


@func
def vertex_sign(code: wp.int32, bit: wp.int32) -> real:
    """−1 for a clear bit of the code, +1 for a set one."""
    return real(2 * ((code >> bit) & 1) - 1)


@func
def edge_code(axis: wp.int32, next: real, after: real) -> wp.int32:
    """Code of the edge along an axis; `next` and `after` are its signs on the axes axis+1 and axis+2 (mod 3)."""
    code = FIRST_EDGE + 4 * axis
    if next > real(0.0):
        code = code + 1
    if after > real(0.0):
        code = code + 2
    return code


@func
def face_code(axis: wp.int32, direction: real) -> wp.int32:
    """Code of the face with its normal along an axis, on the side of the sign of `direction`."""
    code = FIRST_FACE + 2 * axis
    if direction > real(0.0):
        code = code + 1
    return code


@func
def face_toward(direction: vec3) -> wp.int32:
    """Code of the face whose outward normal is most aligned with `direction`, in box axes."""
    d = wp.abs(direction)
    if d[0] >= d[1] and d[0] >= d[2]:
        return code_from_signs(sign_of(direction[0]), 0, 0)
    if d[1] >= d[2]:
        return code_from_signs(0, sign_of(direction[1]), 0)
    return code_from_signs(0, 0, sign_of(direction[2]))


@func
def outside(x: real, h: real) -> wp.int32:
    """Sign of the side on which x leaves the interval [−h, h], 0 inside."""
    if x > h:
        return 1
    if x < -h:
        return -1
    return 0


@func
def box_distance(x: vec3, h: vec3) -> real:
    """Signed distance of a point from a box of half extents h."""
    excess = wp.abs(x) - h
    beyond = wp.length(wp.max(excess, vec3(real(0.0), real(0.0), real(0.0))))
    return beyond + wp.min(wp.max(wp.max(excess[0], excess[1]), excess[2]), real(0.0))


@func
def nearest_box_feature(x: vec3, h: vec3) -> wp.int32:
    """The feature nearest to a point: outside, the one whose Voronoi region holds it; inside, the nearest face."""
    sx = outside(x[0], h[0])
    sy = outside(x[1], h[1])
    sz = outside(x[2], h[2])
    if sx == 0 and sy == 0 and sz == 0:
        depth = h - wp.abs(x)
        if depth[0] <= depth[1] and depth[0] <= depth[2]:
            return code_from_signs(sign_of(x[0]), 0, 0)
        if depth[1] <= depth[2]:
            return code_from_signs(0, sign_of(x[1]), 0)
        return code_from_signs(0, 0, sign_of(x[2]))
    return code_from_signs(sx, sy, sz)
