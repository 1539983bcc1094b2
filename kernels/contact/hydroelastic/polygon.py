# SPDX-License-Identifier: Apache-2.0
"""The polygon in which a cell of a soft geom meets a face of a rigid geom, or a cell of another soft one (theory §9).

The polygon lies on the rigid face, or on the plane where the two pressures are equal. It is clipped by the planes of
the cells (Sutherland and Hodgman). All is in the frame of the soft geom S, so that float32 rounding is relative to the
size of the geoms. The unit normal m points into S. With p = a·x + b on the polygon,

    force = ∫ p m dA,   c = c_S + c_O,   c_S = 1/(a·m),   k = A/c,   φ = −c p

The stiffness g = 1/c [Pa/m] of a side is at least a twentieth of |a|. This matters at the rim of a flat face, where the
pressure does not grow along the normal: such polygons keep their force A p and have almost no stiffness. With no
stiffness at all, the solvers would get contacts 10⁶ times as soft as others. So the law is conservative, with the
energy ∫ min(p_S, p_O) dV, and the force is continuous; Drake drops these polygons.
"""

import warp as wp

from ...number.num import num, num3, num4, num33, num_transform
from ...real import CALLED, func, real, struct, vec3
from ..narrow.features import orthogonal
from .fields import SURFACE, Fields, Form, Part, Side, along, bound_plane, carried, vertex_of

MAX_VERTICES = wp.constant(32)  # 8 of a face, and at most one more for each of the 12 bounds of a cell, of two cells
ROOM = wp.constant(64)  # length of an array of vertices: MAX_VERTICES before a cut, and as many after it
LEAST_SLOPE = 0.05  # least slope of the pressure along the normal that counts as stiffness, relative to |a|
SMALLEST_AREA = 1e-14  # [m²] smaller polygons are dropped
PARALLEL = 1e-12  # if |a_S − a_O|² is at most this times |a_S|², the fields have no plane of equal pressure
SQUARE = 1.5  # half side of the square that stands for a plane, relative to the radius of the ball around the cell


@struct
class Surface:
    """The plane of a polygon, in the frame of S. `count` is the number of vertices; 0: there is no polygon."""

    count: int
    normal: num3  # m
    a: num3  # ∇p of S [Pa/m]
    b: num
    slope_s: num  # a·m
    slope_o: num  # of O, along −m; infinite if O is rigid
    size_o: num  # |∇p| of O; 0 if O is rigid


@struct
class Moments:
    """Area, centroid x and second moments of a polygon: `second` is ∫(y − x)(y − x)ᵀ dA / A."""

    area: num
    centroid: num3
    second: num33


@func(inline=False)
def clip_by(P: wp.array(dtype=num3), count: int, m_x: num, m_y: num, m_z: num, d: num) -> int:
    """`clip` with the plane as four numbers: they are passed in registers, which halves the cost of a call."""
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
    """Cut the polygon P to m·x + d <= 0; return its new number of vertices. P has the length ROOM."""
    return clip_by(P, count, plane[0], plane[1], plane[2], plane[3])


@func
def lay_square(P: wp.array(dtype=num3), centre: num3, normal: num3, half: num) -> int:
    """Write to P a square around `centre`, counter-clockwise about the normal; return its number of vertices."""
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
    """Write a face of a rigid geom to P, in the frame of S; return its number of vertices and outward normal.

    The face of a half space is a square that covers the ball with the given `centre` and `reach`.
    """
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
    fields: Fields, form: Form, cell: int, function: num4, count: int,
    P: wp.array(dtype=num3),
) -> int:  # fmt: skip
    """Cut P to a cell, in the frame of the cell's geom; return its new number of vertices."""
    left = int(count)
    first = fields.cell_bounds[cell, 0]
    for i in range(first, first + fields.cell_bounds[cell, 1]):
        if left >= 3:
            left = clip(P, left, bound_plane(fields, form, fields.bound[i], function))
    return left


@func
def clip_to_other(
    fields: Fields, form: Form, X: num_transform, cell: int, function: num4, count: int,
    P: wp.array(dtype=num3),
) -> int:  # fmt: skip
    """Cut P to a cell of O, except by O's surface; return its new number of vertices. X leads from O's frame to P's."""
    left = int(count)
    first = fields.cell_bounds[cell, 0]
    for i in range(first, first + fields.cell_bounds[cell, 1]):
        if left >= 3 and fields.bound[i] != SURFACE:
            left = clip(P, left, carried(X, bound_plane(fields, form, fields.bound[i], function)))
    return left


@func(inline=CALLED)
def meet(
    fields: Fields, side_s: Side, side_o: Side, X: num_transform, cell: Part, part: Part,
    P: wp.array(dtype=num3),
) -> Surface:  # fmt: skip
    """Write to P the polygon of a cell of S with a face or cell of O; X is the pose of O in the frame of S."""
    surface = Surface()
    surface.a = along(cell.pressure)
    surface.b = cell.pressure[3]
    centre = cell.around.middle
    reach = cell.around.radius + wp.length(cell.around.axis)
    count = int(0)
    if side_o.rigid:
        count, normal = lay_face(fields, side_o.form, X, part.index, centre, reach, P)
        surface.normal = normal
        surface.slope_s = wp.dot(surface.a, surface.normal)
        surface.slope_o = num(wp.inf)
        count = clip_to_cell(fields, side_s.form, cell.index, cell.function, count, P)
    else:
        a_o = along(part.pressure)
        grow = surface.a - a_o
        if wp.length_sq(grow) > num(PARALLEL) * wp.length_sq(surface.a):
            size = wp.length(grow)
            surface.normal = grow / size
            surface.slope_s = wp.dot(surface.a, surface.normal)
            surface.slope_o = -wp.dot(a_o, surface.normal)
            surface.size_o = wp.length(a_o)
            reach_o = part.around.radius + wp.length(part.around.axis)
            if reach_o < reach:
                reach = reach_o
                centre = part.around.middle
            middle = num3(centre)
            height = wp.dot(surface.normal, middle) + (surface.b - part.pressure[3]) / size
            count = lay_square(P, middle - height * surface.normal, surface.normal, num(real(SQUARE) * reach))
            count = clip_to_cell(fields, side_s.form, cell.index, cell.function, count, P)
            # On the plane of equal pressure, both pressures are 0 along the same line: one cut along it is enough.
            count = clip_to_other(fields, side_o.form, X, part.index, part.function, count, P)
    surface.count = count
    if count < 3:
        surface.count = 0
    return surface


@func(inline=False)
def moments(P: wp.array(dtype=num3), count: int, normal: num3) -> Moments:
    """Area, centroid and second moments of a polygon: exact, by a fan of triangles."""
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
def compliances(surface: Surface):
    """1/slope of S and of O [m/Pa]; 0 if O is rigid."""
    c_s = num(1.0) / wp.max(surface.slope_s, num(LEAST_SLOPE) * wp.length(surface.a))
    c_o = num(0.0)
    if surface.size_o > num(0.0):
        c_o = num(1.0) / wp.max(surface.slope_o, num(LEAST_SLOPE) * surface.size_o)
    return c_s, c_o
