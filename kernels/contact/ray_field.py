# SPDX-License-Identifier: Apache-2.0
"""Rays against height fields, which are solids: the surface, the four sides, and the base.

The ray walks over the cells below it and tests the two triangles of each cell (Amanatides and Woo, A Fast Voxel
Traversal Algorithm, 1987). The cost is proportional to the number of cells along the ray.
"""

import warp as wp

from ..real import func, real, struct, vec3
from .ray import Hit, closer, ray_box, triangle_hit


@struct
class Fields:
    """All height fields in flat arrays; see `model.HField`."""

    height: wp.array(dtype=real)  # [m] row by row
    start: wp.array(dtype=int)  # per field: its first height
    shape: wp.array2d(dtype=int)  # per field: rows and columns
    size: wp.array2d(dtype=real)  # per field: half widths x and y, depth of the base
    geom_field: wp.array(dtype=int)


@func
def corner(fields: Fields, k: int, i: int, j: int) -> vec3:
    """Grid point (row i, column j) of field k in its geom's frame."""
    rows = fields.shape[k, 0]
    columns = fields.shape[k, 1]
    x = fields.size[k, 0] * (real(2.0) * real(j) / real(columns - 1) - real(1.0))
    y = fields.size[k, 1] * (real(2.0) * real(i) / real(rows - 1) - real(1.0))
    return vec3(x, y, fields.height[fields.start[k] + i * columns + j])


@func
def cell_hit(best: Hit, o: vec3, d: vec3, fields: Fields, k: int, i: int, j: int) -> Hit:
    """Hit of the two triangles of a cell."""
    a = corner(fields, k, i, j)
    b = corner(fields, k, i, j + 1)
    c = corner(fields, k, i + 1, j + 1)
    e = corner(fields, k, i + 1, j)
    hit = triangle_hit(best, o, d, a, b, c)
    return triangle_hit(hit, o, d, a, c, e)


@func
def wall_hit(best: Hit, o: vec3, d: vec3, fields: Fields, k: int, axis: int, sign: real) -> Hit:
    """Hit of the side of the field at the end of coordinate `axis`: a wall from z = 0 to the heights along the edge."""
    hit = best
    if d[axis] != real(0.0):
        t = (sign * fields.size[k, axis] - o[axis]) / d[axis]
        x = o + t * d
        other = 1 - axis
        count = fields.shape[k, axis]  # points along the other axis: rows run along y, columns along x
        half = fields.size[k, other]
        if wp.abs(x[other]) <= half:
            place = (x[other] / half + real(1.0)) * real(0.5) * real(count - 1)
            n = wp.clamp(int(wp.floor(place)), 0, count - 2)
            share = place - real(n)
            i = n
            j = n
            i_next = n + 1
            j_next = n + 1
            if axis == 0:
                j = 0
                if sign > real(0.0):
                    j = fields.shape[k, 1] - 1
                j_next = j
            else:
                i = 0
                if sign > real(0.0):
                    i = fields.shape[k, 0] - 1
                i_next = i
            low = corner(fields, k, i, j)[2]
            high = corner(fields, k, i_next, j_next)[2]
            if x[2] >= real(0.0) and x[2] <= low + share * (high - low):
                normal = vec3(real(0.0), real(0.0), real(0.0))
                normal[axis] = sign
                hit = closer(best, t, normal)
    return hit


@func
def slab(o: real, d: real, half: real) -> vec3:
    """(met, first t, last t) of the interval of t in which a coordinate is within +- half; met is 1 or 0."""
    if d == real(0.0):
        if wp.abs(o) > half:
            return vec3(real(0.0), real(0.0), real(0.0))
        return vec3(real(1.0), -real(wp.inf), real(wp.inf))
    a = (-half - o) / d
    b = (half - o) / d
    return vec3(real(1.0), wp.min(a, b), wp.max(a, b))


@func
def ray_field(o: vec3, d: vec3, fields: Fields, k: int) -> Hit:
    depth = fields.size[k, 2]
    box = vec3(fields.size[k, 0], fields.size[k, 1], real(0.5) * depth)
    hit = ray_box(o + vec3(real(0.0), real(0.0), real(0.5) * depth), d, box)
    for axis in range(2):
        hit = wall_hit(hit, o, d, fields, k, axis, real(-1.0))
        hit = wall_hit(hit, o, d, fields, k, axis, real(1.0))
    along_x = slab(o[0], d[0], box[0])
    along_y = slab(o[1], d[1], box[1])
    t = wp.max(wp.max(along_x[1], along_y[1]), real(0.0))
    last = wp.min(along_x[2], along_y[2])
    if along_x[0] == real(0.0) or along_y[0] == real(0.0) or t > last:
        return hit
    rows = fields.shape[k, 0] - 1
    columns = fields.shape[k, 1] - 1
    width = vec3(real(2.0) * box[0] / real(columns), real(2.0) * box[1] / real(rows), real(0.0))
    x = o + t * d
    j = wp.clamp(int(wp.floor((x[0] + box[0]) / width[0])), 0, columns - 1)
    i = wp.clamp(int(wp.floor((x[1] + box[1]) / width[1])), 0, rows - 1)
    found = int(0)
    for _ in range(rows + columns + 1):
        if found == 0:
            before = hit.t
            hit = cell_hit(hit, o, d, fields, k, i, j)
            # t at which the ray leaves the cell, along x and along y
            t_x = real(wp.inf)
            t_y = real(wp.inf)
            if d[0] > real(0.0):
                t_x = (real(j + 1) * width[0] - box[0] - o[0]) / d[0]
            elif d[0] < real(0.0):
                t_x = (real(j) * width[0] - box[0] - o[0]) / d[0]
            if d[1] > real(0.0):
                t_y = (real(i + 1) * width[1] - box[1] - o[1]) / d[1]
            elif d[1] < real(0.0):
                t_y = (real(i) * width[1] - box[1] - o[1]) / d[1]
            if hit.t != before:
                found = 1  # cells come in order: the first that is hit is the nearest
            elif t_x <= t_y:
                j += int(wp.sign(d[0]))
            else:
                i += int(wp.sign(d[1]))
            if j < 0 or j >= columns or i < 0 or i >= rows:
                found = 1
    return hit
