# SPDX-License-Identifier: Apache-2.0
"""The polygon in which a cell of a soft geom meets a face of a rigid geom, or a cell of another soft one (theory §9).

Where a rigid face lies in the cell, or where the two pressures are equal, clipped by the planes of the cells (Sutherland and Hodgman) in the frame
of the soft geom S, so that float32 is as accurate as the geoms are small. m, the unit normal, points into S. With p = a·x + b on it,

    force = ∫ p m dA,   c = c_S + c_O,   c_S = 1/(a·m),   k = A/c,   φ = −c p

The stiffness g = 1/c [Pa/m] of a side is at least a twentieth of |a|: polygons at the rim of a flat face, along which the pressure does not grow, keep their
force A p and have next to no stiffness (with none at all the solvers would meet contacts 10⁶ times as soft as others). So the law is conservative, with the energy ∫ min(p_S, p_O) dV, and force is continuous where Drake drops them.
"""

import warp as wp

from ...number.num import num, num3, num4, num33, num_transform
from ...real import CALLED, func, real, struct, vec3
from ..narrow.features import orthogonal
from .fields import SURFACE, Fields, Form, Part, Side, along, bound_plane, carried, vertex_of

MAX_VERTICES = wp.constant(32)  # 8 of a face, and at most one more for each of the 12 bounds of a cell, of two cells
ROOM = wp.constant(64)  # of an array of vertices: those that there are, and those that a cut leaves
LEAST_SLOPE = 0.05  # of |a|: least slope of the pressure along the normal that counts as stiffness
SMALLEST_AREA = 1e-14  # [m²] of a polygon
PARALLEL = 1e-12  # squared, of |a_S|²: fields that grow alike meet nowhere
SQUARE = 1.5  # half the side of the square that stands for a plane, by the radius of the cell in it


@struct
class Surface:
    """The plane of a polygon, in the frame of S. `count` 0: there is none."""

    count: int
    normal: num3  # m
    a: num3  # ∇p of S [Pa/m]
    b: num
    slope_s: num  # a·m
    slope_o: num  # of the other, along −m; infinite where it is rigid
    size_o: num  # |∇p| of the other


@struct
class Moments:
    """Of a polygon: `second` is ∫(y − x)(y − x)ᵀ dA / A."""

    area: num
    centroid: num3
    second: num33


@func(inline=False)
def clip_by(P: wp.array(dtype=num3), count: int, m_x: num, m_y: num, m_z: num, d: num) -> int:
    """`clip` with the plane by its numbers, which travel in registers: a call costs half as much."""
    m = num3(m_x, m_y, m_z)
    inside = int(0)
    for i in range(count):
        if wp.dot(m, P[i]) + d <= num(0.0):
            inside += 1
    if inside == count:
        return count
    kept = int(0)
    if inside > 0:
        s = wp.dot(m, P[0]) + d
        for i in range(count):
            j = i + 1
            if j == count:
                j = int(0)
            t = wp.dot(m, P[j]) + d
            if s <= num(0.0) and kept < MAX_VERTICES:
                P[MAX_VERTICES + kept] = P[i]
                kept += 1
            if (s <= num(0.0)) != (t <= num(0.0)) and kept < MAX_VERTICES:
                P[MAX_VERTICES + kept] = P[i] + (s / (s - t)) * (P[j] - P[i])
                kept += 1
            s = t
        for i in range(kept):
            P[i] = P[MAX_VERTICES + i]
    return kept


@func
def clip(P: wp.array(dtype=num3), count: int, plane: num4) -> int:
    """Cut the polygon P, which has room for twice its vertices, to m·x + d <= 0; its vertices then."""
    return clip_by(P, count, plane[0], plane[1], plane[2], plane[3])


@func
def lay_square(P: wp.array(dtype=num3), centre: num3, normal: num3, half: num) -> int:
    """A square in the plane through `centre`, counter-clockwise about the normal."""
    t = half * wp.normalize(orthogonal(normal))
    u = wp.cross(normal, t)
    P[0] = centre + t + u
    P[1] = centre - t + u
    P[2] = centre - t - u
    P[3] = centre + t - u
    return 4


@func
def lay_face(
    fields: Fields, form: Form, X: num_transform, face: int, centre: vec3, reach: real, P: wp.array(dtype=num3)
):
    """A face of a rigid geom in the frame of S, by its vertices and outward normal; of a half space a square about the cell's sphere."""
    first = fields.face_vertices[face, 0]
    count = fields.face_vertices[face, 1]
    normal = wp.transform_vector(X, num3(num(0.0), num(0.0), num(1.0)))
    if count == 0:
        middle = num3(centre)
        foot = middle - wp.dot(normal, middle - wp.transform_get_translation(X)) * normal
        count = lay_square(P, foot, normal, num(real(SQUARE) * reach))
    else:
        for i in range(count):
            P[i] = wp.transform_point(X, vertex_of(form, fields.face_vertex[first + i]))
        area = num3()
        for i in range(1, count - 1):
            area += wp.cross(P[i] - P[0], P[i + 1] - P[0])
        normal = wp.normalize(area)
    return count, normal


@func
def clip_to_cell(
    fields: Fields, form: Form, cell: int, own: num4, count: int,
    P: wp.array(dtype=num3),
) -> int:  # fmt: skip
    """Cut P to a cell of the geom of this form, in its frame; its vertices then."""
    left = int(count)
    first = fields.cell_bounds[cell, 0]
    for i in range(first, first + fields.cell_bounds[cell, 1]):
        if left >= 3:
            left = clip(P, left, bound_plane(fields, form, fields.bound[i], own))
    return left


@func
def clip_to_other(
    fields: Fields, form: Form, X: num_transform, cell: int, own: num4, count: int,
    P: wp.array(dtype=num3),
) -> int:  # fmt: skip
    """Cut P to a cell of another geom, whose frame X carries to that of P, but not to its surface; its vertices then."""
    left = int(count)
    first = fields.cell_bounds[cell, 0]
    for i in range(first, first + fields.cell_bounds[cell, 1]):
        if left >= 3 and fields.bound[i] != SURFACE:
            left = clip(P, left, carried(X, bound_plane(fields, form, fields.bound[i], own)))
    return left


@func(inline=CALLED)
def meet(
    fields: Fields, side_s: Side, side_o: Side, X: num_transform, cell: Part, part: Part,
    P: wp.array(dtype=num3),
) -> Surface:  # fmt: skip
    """The polygon P of a cell of S with a face or cell of O, X the pose of O in the frame of S."""
    found = Surface()
    found.a = along(cell.pressure)
    found.b = cell.pressure[3]
    centre = cell.around.middle
    reach = cell.around.radius + wp.length(cell.around.axis)
    count = int(0)
    if side_o.rigid:
        count, normal = lay_face(fields, side_o.form, X, part.index, centre, reach, P)
        found.normal = normal
        found.slope_s = wp.dot(found.a, found.normal)
        found.slope_o = num(wp.inf)
        count = clip_to_cell(fields, side_s.form, cell.index, cell.own, count, P)
    else:
        a_o = along(part.pressure)
        grow = found.a - a_o
        if wp.length_sq(grow) > num(PARALLEL) * wp.length_sq(found.a):
            size = wp.length(grow)
            found.normal = grow / size
            found.slope_s = wp.dot(found.a, found.normal)
            found.slope_o = -wp.dot(a_o, found.normal)
            found.size_o = wp.length(a_o)
            reach_o = part.around.radius + wp.length(part.around.axis)
            if reach_o < reach:
                reach = reach_o
                centre = part.around.middle
            middle = num3(centre)
            height = wp.dot(found.normal, middle) + (found.b - part.pressure[3]) / size
            count = lay_square(P, middle - height * found.normal, found.normal, num(real(SQUARE) * reach))
            count = clip_to_cell(fields, side_s.form, cell.index, cell.own, count, P)
            # Where the pressures are equal both are 0 along one line: it bounds the polygon once.
            count = clip_to_other(fields, side_o.form, X, part.index, part.own, count, P)
    found.count = count
    if count < 3:
        found.count = 0
    return found


@func(inline=False)
def moments(P: wp.array(dtype=num3), count: int, normal: num3) -> Moments:
    """Area, centroid and second moments, exact, by a fan of triangles."""
    found = Moments()
    area = num(0.0)
    x = num3()
    for i in range(1, count - 1):
        t = num(0.5) * wp.dot(wp.cross(P[i] - P[0], P[i + 1] - P[0]), normal)
        area += t
        x += t * ((P[i] - P[0]) + (P[i + 1] - P[0]))
    if area > num(SMALLEST_AREA):
        x = P[0] + x / (num(3.0) * area)
        second = num33()
        for i in range(1, count - 1):
            t = wp.dot(wp.cross(P[i] - P[0], P[i + 1] - P[0]), normal) / num(6.0)
            e = num(0.5) * (P[0] + P[i]) - x
            f = num(0.5) * (P[i] + P[i + 1]) - x
            g = num(0.5) * (P[i + 1] + P[0]) - x
            second += t * (wp.outer(e, e) + wp.outer(f, f) + wp.outer(g, g))
        found.area = area
        found.centroid = x
        found.second = second / area
    return found


@func
def compliances(found: Surface):
    """1/slope of S and of O [m/Pa]; 0 for a rigid one."""
    c_s = num(1.0) / wp.max(found.slope_s, num(LEAST_SLOPE) * wp.length(found.a))
    c_o = num(0.0)
    if found.size_o > num(0.0):
        c_o = num(1.0) / wp.max(found.slope_o, num(LEAST_SLOPE) * found.size_o)
    return c_s, c_o
