# SPDX-License-Identifier: Apache-2.0
"""Polygons of pressure fields with their rates of change, the cells that meet as they are (theory §9).

Along one *direction*: a motion (ω; u) of geom O past the soft geom S, about the origin of S and in its frame, or a change of what the fields are made of. The
polygon is clipped once more by the same planes, and every vertex carries its rate with it: no adjoint of a loop. A function that moves with O
changes by (ω × a, −a·u); a vertex where an edge meets a plane, P_i + r (P_j − P_i) with r = s/(s − t), by dr = (s dt − t ds)/(s − t)² besides.
The corners of the square that stands for a plane stay in it: that is all that matters, for the polygon has none of them.
"""

import warp as wp

from ...real import func, mat33, real, struct, transform, vec3, vec4
from ..narrow.features import FRAME_SWITCH
from ..narrow.manifold import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, PLANE, SPHERE
from ..pair_laws import Material, geom_dissipation_time
from .fields import (
    SURFACE,
    Fields,
    Form,
    Sizes,
    along,
    bound_plane,
    capsule_scale,
    carried,
    form_of,
    function_of,
    moved_capsule,
    own_capsule,
)
from .polygon import (
    LEAST_SLOPE,
    MAX_VERTICES,
    PARALLEL,
    SQUARE,
    Moments,
    Surface,
    compliances,
    lay_face,
    lay_square,
    moments,
)

# Directions: motions of O about three axes and along them, then by twos for S and O.
MOTIONS = wp.constant(6)
MODULUS = wp.constant(6)
SIZE = wp.constant(8)  # three of S, three of O
THICKNESS = wp.constant(14)
DISSIPATION = wp.constant(16)
DIRECTIONS = 18


@struct
class Direction:
    """What changes, at unit rate."""

    omega: vec3
    u: vec3
    modulus_s: real
    modulus_o: real
    size_s: vec3
    size_o: vec3
    thickness_s: real
    thickness_o: real
    tau_s: real
    tau_o: real


@struct
class Polygon:
    """What contact points are made of, or its rates."""

    area: real
    centroid: vec3
    second: mat33
    normal: vec3  # m, into S
    a: vec3  # ∇p
    pressure: real  # at the centroid
    c: real  # 1/slope [m/Pa]
    tau: real


@struct
class Moving:
    count: int  # of vertices; 0: there is no polygon
    now: Polygon
    rate: Polygon


@func
def unit(i: int) -> vec3:
    e = vec3()
    e[i] = real(1.0)
    return e


@func
def direction_of(number: int, X_s: transform) -> Direction:
    """Direction `number`: motions along world axes about the origin of S."""
    d = Direction()
    if number < 3:
        d.omega = wp.quat_rotate_inv(wp.transform_get_rotation(X_s), unit(number))
    elif number < MOTIONS:
        d.u = wp.quat_rotate_inv(wp.transform_get_rotation(X_s), unit(number - 3))
    elif number == MODULUS:
        d.modulus_s = real(1.0)
    elif number == MODULUS + 1:
        d.modulus_o = real(1.0)
    elif number < SIZE + 3:
        d.size_s = unit(number - SIZE)
    elif number < THICKNESS:
        d.size_o = unit(number - SIZE - 3)
    elif number == THICKNESS:
        d.thickness_s = real(1.0)
    elif number == THICKNESS + 1:
        d.thickness_o = real(1.0)
    elif number == DISSIPATION:
        d.tau_s = real(1.0)
    else:
        d.tau_o = real(1.0)
    return d


# Fields.


@func
def least_rate(size: vec3, rate: vec3) -> real:
    """Rate of the smallest of three; of equal ones the first."""
    slope = rate[0]
    if size[1] < size[0] and size[1] <= size[2]:
        slope = rate[1]
    elif size[2] < size[0] and size[2] < size[1]:
        slope = rate[2]
    return slope


@func
def function_rate(kind: int, size: vec3, rate: vec3, thickness: real, thickness_rate: real, entry: vec4) -> vec4:
    """Rate of `pressure_function` by sizes."""
    n = vec3(entry[0], entry[1], entry[2])
    c = entry[3]
    a = vec3()
    b = real(0.0)
    if kind == PLANE:
        a = (-thickness_rate / (thickness * thickness)) * n
    elif kind == SPHERE:
        a = (rate[0] / (size[0] * size[0] * c)) * n
    elif kind == ELLIPSOID:
        for i in range(3):
            a[i] = n[i] * rate[i] / (size[i] * size[i] * c)
    elif kind == BOX:
        half = wp.min(size)
        half_rate = least_rate(size, rate)
        a = (half_rate / (half * half)) * n
        for i in range(3):
            b += wp.abs(n[i]) * (rate[i] - size[i] * half_rate / half) / half
    elif kind == CYLINDER:
        half = size[0]
        half_rate = rate[0]
        if size[1] < size[0]:
            half = size[1]
            half_rate = rate[1]
        if wp.abs(n[2]) < real(0.5):
            a = (half_rate / (half * half * c)) * n
            b = (rate[0] - size[0] * half_rate / half) / half
        else:
            a = (half_rate / (half * half)) * n
            b = (rate[1] - size[1] * half_rate / half) / half
    elif kind == CAPSULE:
        a = (rate[0] / (size[0] * size[0] * c)) * n
        if n[2] != real(0.0):
            b = wp.abs(n[2]) * (rate[1] - size[1] * rate[0] / size[0]) / (size[0] * c)
    return vec4(a[0], a[1], a[2], b)


@struct
class FormRate:
    size: vec3
    thickness: real


@func
def form_rate(size: vec3, thickness: real) -> FormRate:
    rate = FormRate()
    rate.size = size
    rate.thickness = thickness
    return rate


@func
def entry_rate(form: Form, rate: FormRate, entry: vec4) -> vec4:
    """Rate of `function_of`."""
    return function_rate(form.kind, form.size, rate.size, form.thickness, rate.thickness, entry)


@func
def vertex_rate(fields: Fields, g: int, v: int, rate: vec3) -> vec3:
    """Rate of `vertex_of` by that of the size."""
    kind = fields.geom_type[g]
    u = fields.face_vertex[v]
    scale = rate
    if kind == SPHERE or kind == CAPSULE:
        scale = vec3(rate[0], rate[0], rate[0])
    elif kind == CYLINDER:
        scale = vec3(rate[0], rate[0], rate[1])
    elif kind == MESH:
        scale = vec3()
    x = vec3(scale[0] * u[0], scale[1] * u[1], scale[2] * u[2])
    if kind == CAPSULE:
        x[2] = x[2] + u[3] * rate[1]
    return x


@func
def carried_rate(X: transform, f: vec4, rate: vec4, omega: vec3, u: vec3) -> vec4:
    """Rate of carried(X, f) where f has a rate of its own and X the motion (ω; u)."""
    own = carried(X, rate)
    a = wp.transform_vector(X, along(f))
    turn = wp.cross(omega, a)
    return own + vec4(turn[0], turn[1], turn[2], -wp.dot(a, u))


@func
def across(x: vec3, n: vec3) -> vec3:
    return x - wp.dot(x, n) * n


@func
def orthogonal_rate(n: vec3, rate: vec3) -> vec3:
    """Rate of `orthogonal`."""
    e = vec3(real(1.0), real(0.0), real(0.0))
    if wp.abs(n[0]) > real(FRAME_SWITCH):
        e = vec3(real(0.0), real(1.0), real(0.0))
    y = e - wp.dot(e, n) * n
    y_rate = -wp.dot(e, rate) * n - wp.dot(e, n) * rate
    size = wp.length(y)
    return across(y_rate, y / size) / size


# Polygons.


@func(inline=False)
def clip_moving(
    P: wp.array(dtype=vec3),
    D: wp.array(dtype=vec3),
    spare: wp.array(dtype=vec3),
    spare_D: wp.array(dtype=vec3),
    distance: wp.array(dtype=real),
    count: int,
    plane: vec4,
    rate: vec4,
) -> int:
    """`clip` with rates."""
    m = along(plane)
    inside = int(0)
    for i in range(count):
        s = wp.dot(m, P[i]) + plane[3]
        distance[i] = s
        if s <= real(0.0):
            inside += 1
    if inside == count:
        return count
    kept = int(0)
    if inside > 0:
        for i in range(count):
            j = i + 1
            if j == count:
                j = int(0)
            s = distance[i]
            t = distance[j]
            if s <= real(0.0) and kept < MAX_VERTICES:
                spare[kept] = P[i]
                spare_D[kept] = D[i]
                kept += 1
            if (s <= real(0.0)) != (t <= real(0.0)) and kept < MAX_VERTICES:
                edge = P[j] - P[i]
                r = s / (s - t)
                s_rate = wp.dot(along(rate), P[i]) + wp.dot(m, D[i]) + rate[3]
                t_rate = wp.dot(along(rate), P[j]) + wp.dot(m, D[j]) + rate[3]
                r_rate = ((real(1.0) - r) * s_rate + r * t_rate) / (s - t)
                spare[kept] = P[i] + r * edge
                spare_D[kept] = D[i] + r * (D[j] - D[i]) + r_rate * edge
                kept += 1
        for i in range(kept):
            P[i] = spare[i]
            D[i] = spare_D[i]
    return kept


@func
def keep_in_plane(P: wp.array(dtype=vec3), D: wp.array(dtype=vec3), n: vec3, n_rate: vec3, offset_rate: real):
    """Rates of the square's corners: they stay in the plane n·x + offset = 0."""
    for i in range(4):
        D[i] = -(wp.dot(n_rate, P[i]) + offset_rate) * n


@func
def lay_moving_face(
    fields: Fields, sizes: Sizes, X: transform, w: int, o: int, face: int, centre: vec3, reach: real, d: Direction,
    P: wp.array(dtype=vec3), D: wp.array(dtype=vec3),
):  # fmt: skip
    """`lay_face` with rates: also that of the normal."""
    count, n = lay_face(fields, form_of(fields, sizes, w, o), X, face, centre, reach, P)
    n_rate = wp.cross(d.omega, n)
    if fields.face_vertices[face, 1] == 0:
        keep_in_plane(P, D, n, n_rate, -wp.dot(n, d.u))
    else:
        first = fields.face_vertices[face, 0]
        for i in range(count):
            own = wp.transform_vector(X, vertex_rate(fields, o, first + i, d.size_o))
            D[i] = own + wp.cross(d.omega, P[i]) + d.u
        area = vec3()
        area_rate = vec3()
        for i in range(1, count - 1):
            e = P[i] - P[0]
            f = P[i + 1] - P[0]
            area += wp.cross(e, f)
            area_rate += wp.cross(D[i] - D[0], f) + wp.cross(e, D[i + 1] - D[0])
        n_rate = across(area_rate, n) / wp.length(area)
    return count, n, n_rate


@func
def clip_moving_to_cell(
    fields: Fields, form: Form, form_rate: FormRate, X: transform, omega: vec3, u: vec3, cell: int, own: vec4, own_rate: vec4,
    skip_surface: bool, count: int, P: wp.array(dtype=vec3), D: wp.array(dtype=vec3), spare: wp.array(dtype=vec3),
    spare_D: wp.array(dtype=vec3), distance: wp.array(dtype=real),
) -> int:  # fmt: skip
    """`clip_to_cell` with rates, (ω; u) the motion of the cell."""
    left = int(count)
    first = fields.cell_bounds[cell, 0]
    for i in range(first, first + fields.cell_bounds[cell, 1]):
        bound = fields.bound[i]
        if left >= 3 and not (skip_surface and bound == SURFACE):
            plane = bound_plane(fields, form, bound, own)
            rate = -own_rate
            if bound != SURFACE:
                rate = own_rate - entry_rate(form, form_rate, fields.entry[bound])
            moved = carried_rate(X, plane, rate, omega, u)
            left = clip_moving(P, D, spare, spare_D, distance, left, carried(X, plane), moved)
    return left


@struct
class Meeting:
    """A `Surface` and its rates."""

    now: Surface
    normal: vec3
    a: vec3
    b: real
    slope_s: real
    slope_o: real
    size_o: real


@func(inline=False)
def meet_moving(
    fields: Fields, sizes: Sizes, X: transform, w: int, s: int, o: int, i: int, j: int, d: Direction, P: wp.array(dtype=vec3), D: wp.array(dtype=vec3), spare: wp.array(dtype=vec3), spare_D: wp.array(dtype=vec3),
    distance: wp.array(dtype=real)
) -> Meeting:  # fmt: skip
    """`meet` with rates along d."""
    still = wp.transform_identity(dtype=real)
    at_rest = vec3()
    found = Surface()
    rate = Meeting()
    form = form_of(fields, sizes, w, s)
    grows = form_rate(d.size_s, d.thickness_s)
    entry = fields.entry[fields.cell_entry[i]]
    own = function_of(form, entry)
    own_rate = entry_rate(form, grows, entry)
    modulus = sizes.modulus[w % sizes.modulus.shape[0], s]
    found.a = modulus * along(own)
    found.b = modulus * own[3]
    rate.a = modulus * along(own_rate) + d.modulus_s * along(own)
    rate.b = modulus * own_rate[3] + d.modulus_s * own[3]
    around = own_capsule(fields, False, i, capsule_scale(fields, sizes, w, s), real(wp.inf))
    centre = around.middle
    reach = around.radius + wp.length(around.axis)
    count = int(0)
    if fields.geom_cells[o, 1] == 0:
        count, n, n_rate = lay_moving_face(fields, sizes, X, w, o, j, centre, reach, d, P, D)
        found.normal = n
        rate.normal = n_rate
        found.slope_s = wp.dot(found.a, n)
        rate.slope_s = wp.dot(rate.a, n) + wp.dot(found.a, n_rate)
        found.slope_o = real(wp.inf)
        count = clip_moving_to_cell(
            fields, form, grows, still, at_rest, at_rest, i, own, own_rate, False, count, P, D, spare, spare_D, distance
        )  # fmt: skip
    else:
        form_o = form_of(fields, sizes, w, o)
        grows_o = form_rate(d.size_o, d.thickness_o)
        entry_o = fields.entry[fields.cell_entry[j]]
        other = function_of(form_o, entry_o)
        other_rate = entry_rate(form_o, grows_o, entry_o)
        modulus_o = sizes.modulus[w % sizes.modulus.shape[0], o]
        p_o = modulus_o * carried(X, other)
        p_rate = carried_rate(X, modulus_o * other, modulus_o * other_rate + d.modulus_o * other, d.omega, d.u)
        a_o = along(p_o)
        grow = found.a - a_o
        grow_rate = rate.a - along(p_rate)
        if wp.length_sq(grow) > real(PARALLEL) * wp.length_sq(found.a):
            size = wp.length(grow)
            n = grow / size
            n_rate = across(grow_rate, n) / size
            found.normal = n
            rate.normal = n_rate
            found.slope_s = wp.dot(found.a, n)
            rate.slope_s = wp.dot(rate.a, n) + wp.dot(found.a, n_rate)
            found.slope_o = -wp.dot(a_o, n)
            rate.slope_o = -wp.dot(along(p_rate), n) - wp.dot(a_o, n_rate)
            found.size_o = wp.length(a_o)
            rate.size_o = wp.dot(a_o, along(p_rate)) / found.size_o
            around_o = moved_capsule(X, own_capsule(fields, False, j, capsule_scale(fields, sizes, w, o), real(wp.inf)))
            reach_o = around_o.radius + wp.length(around_o.axis)
            level = (found.b - p_o[3]) / size
            level_rate = (rate.b - p_rate[3]) / size - level * wp.dot(n, grow_rate) / size
            if reach_o < reach:
                reach = reach_o
                centre = around_o.middle
            height = wp.dot(n, centre) + level
            count = lay_square(P, centre - height * n, n, real(SQUARE) * reach)
            keep_in_plane(P, D, n, n_rate, level_rate)
            count = clip_moving_to_cell(
                fields, form, grows, still, at_rest, at_rest, i, own, own_rate, False, count, P, D, spare, spare_D, distance
            )  # fmt: skip
            count = clip_moving_to_cell(
                fields, form_o, grows_o, X, d.omega, d.u, j, other, other_rate, True, count, P, D, spare, spare_D, distance
            )  # fmt: skip
    found.count = count
    if count < 3:
        found.count = 0
    rate.now = found
    return rate


@func(inline=False)
def moment_rates(
    P: wp.array(dtype=vec3), D: wp.array(dtype=vec3), count: int, normal: vec3, normal_rate: vec3, now: Moments
) -> Moments:
    """Rates of `moments`, whose values are `now`."""
    rate = Moments()
    if now.area > real(0.0):
        x = vec3()
        for i in range(1, count - 1):
            e = P[i] - P[0]
            f = P[i + 1] - P[0]
            e_rate = D[i] - D[0]
            f_rate = D[i + 1] - D[0]
            t = real(0.5) * wp.dot(wp.cross(e, f), normal)
            t_rate = real(0.5) * wp.dot(wp.cross(e_rate, f) + wp.cross(e, f_rate), normal)
            t_rate += real(0.5) * wp.dot(wp.cross(e, f), normal_rate)
            rate.area += t_rate
            x += t_rate * (e + f) + t * (e_rate + f_rate)
        x = x / real(3.0) - rate.area * (now.centroid - P[0])
        rate.centroid = D[0] + x / now.area
        second = mat33()
        for i in range(1, count - 1):
            e = P[i] - P[0]
            f = P[i + 1] - P[0]
            e_rate = D[i] - D[0]
            f_rate = D[i + 1] - D[0]
            t = wp.dot(wp.cross(e, f), normal) / real(6.0)
            t_rate = wp.dot(wp.cross(e_rate, f) + wp.cross(e, f_rate), normal) + wp.dot(wp.cross(e, f), normal_rate)
            t_rate = t_rate / real(6.0)
            for k in range(3):
                first = P[0]
                first_rate = D[0]
                then = P[i]
                then_rate = D[i]
                if k == 1:
                    first = P[i + 1]
                    first_rate = D[i + 1]
                elif k == 2:
                    then = P[i + 1]
                    then_rate = D[i + 1]
                y = real(0.5) * (first + then) - now.centroid
                y_rate = real(0.5) * (first_rate + then_rate) - rate.centroid
                second += t_rate * wp.outer(y, y) + t * (wp.outer(y, y_rate) + wp.outer(y_rate, y))
        rate.second = (second - rate.area * now.second) / now.area
    return rate


@func
def compliance_rates(meeting: Meeting):
    """Rates of `compliances`."""
    found = meeting.now
    c_s, c_o = compliances(found)
    least = real(LEAST_SLOPE)
    slope_s = meeting.slope_s
    if found.slope_s < least * wp.length(found.a):
        slope_s = least * wp.dot(found.a, meeting.a) / wp.length(found.a)
    slope_o = meeting.slope_o
    if found.slope_o < least * found.size_o:
        slope_o = least * meeting.size_o
    return -c_s * c_s * slope_s, -c_o * c_o * slope_o


@func(inline=False)
def moving_polygon(
    fields: Fields, sizes: Sizes, material: Material, default_tau: real, X: transform, w: int, s: int, o: int, i: int, j: int,
    d: Direction, P: wp.array(dtype=vec3), D: wp.array(dtype=vec3), spare: wp.array(dtype=vec3), spare_D: wp.array(dtype=vec3),
    distance: wp.array(dtype=real),
) -> Moving:  # fmt: skip
    """The polygon of cell i of S with part j of O and its rates along d; no area where there is none."""
    result = Moving()
    meeting = meet_moving(fields, sizes, X, w, s, o, i, j, d, P, D, spare, spare_D, distance)
    found = meeting.now
    if found.count > 0:
        shape = moments(P, found.count, found.normal)
        rates = moment_rates(P, D, found.count, found.normal, meeting.normal, shape)
        c_s, c_o = compliances(found)
        c_s_rate, c_o_rate = compliance_rates(meeting)
        tau_s = geom_dissipation_time(material.dissipation_time, w, s, default_tau)
        tau_o = geom_dissipation_time(material.dissipation_time, w, o, default_tau)
        now = Polygon()
        now.area = shape.area
        now.centroid = shape.centroid
        now.second = shape.second
        now.normal = found.normal
        now.a = found.a
        now.pressure = wp.dot(found.a, shape.centroid) + found.b
        now.c = c_s + c_o
        now.tau = (c_s * tau_s + c_o * tau_o) / now.c
        rate = Polygon()
        rate.area = rates.area
        rate.centroid = rates.centroid
        rate.second = rates.second
        rate.normal = meeting.normal
        rate.a = meeting.a
        rate.pressure = wp.dot(meeting.a, shape.centroid) + wp.dot(found.a, rates.centroid) + meeting.b
        rate.c = c_s_rate + c_o_rate
        weighted = c_s_rate * tau_s + c_o_rate * tau_o + c_s * d.tau_s + c_o * d.tau_o
        rate.tau = (weighted - now.tau * rate.c) / now.c
        result.count = found.count
        result.now = now
        result.rate = rate
    return result
