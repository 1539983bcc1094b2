# SPDX-License-Identifier: Apache-2.0
"""Contact geometry (signed distance, point, normal) of a given pair of features, smooth in poses and sizes.

Every geom is a core (a point, a segment, a box or a half-space) grown by a radius. Every feature of a core is a point,
a line or a plane. So nine types of pairs need six formulas: point–point, point–line, line–line, point–plane, and two
that first construct the point (see `manifold.py` for the codes). With the nearest core points x_a, x_b, the normal n
from A into B and the radii r_a, r_b,

    φ = n·(x_b − x_a) − r_a − r_b        point = ½ (x_a + x_b + (r_a − r_b) n).

`detect_features` decides which features touch and has no derivatives. These functions run in the forward and the taped
path, so the gradient is that of the computed values at fixed features. They follow the rules of differentiable code: no
loops, and real branches around roots and divisions. Positions are relative to geom A, so that float32 accuracy depends
on the size of the geoms and not on their place in the world.
"""

import warp as wp

from ...number.num import num, num3
from ...real import func, mat33, quat, real, struct, transform, vec3
from .box_core import vertex_sign
from .manifold import BOX, CAPSULE, CAPSULE_AXIS, FIRST_EDGE, FIRST_FACE, PLANE

# Kinds of features of a core.
POINT = wp.constant(0)
LINE = wp.constant(1)
FLAT = wp.constant(2)

SMALLEST_SQUARE = 1e-30  # squared length [m²] below which a vector has no direction (positive in float32 too)
FRAME_SWITCH = 0.8  # a vector orthogonal to n is made from the x axis, or from the y axis if |n_x| is larger than this


@struct
class ContactGeometry:
    """Signed distance φ [m] (negative in penetration), contact point and unit normal from A into B, in world."""

    phi: real
    point: vec3
    normal: vec3


@func
def box_sign(code: wp.int32, i: wp.int32) -> real:
    """Component i of the outward signs of a box feature; 0 along the axes that the feature spans."""
    if code < FIRST_EDGE:
        return vertex_sign(code, i)
    if code < FIRST_FACE:
        k = code - FIRST_EDGE
        turn = (i - k // 4 + 3) % 3
        if turn == 0:
            return real(0.0)
        return vertex_sign(k, turn - 1)
    k = code - FIRST_FACE
    if k // 2 == i:
        return vertex_sign(k, 0)
    return real(0.0)


@func
def box_signs(code: wp.int32) -> vec3:
    """Outward signs of a box feature; times the half extents they are the feature's centre."""
    return vec3(box_sign(code, 0), box_sign(code, 1), box_sign(code, 2))


@func
def feature_kind(type: wp.int32, code: wp.int32) -> wp.int32:
    if type == PLANE:
        return FLAT
    if type == CAPSULE and code == CAPSULE_AXIS:
        return LINE
    if type == BOX and code >= FIRST_FACE:
        return FLAT
    if type == BOX and code >= FIRST_EDGE:
        return LINE
    return POINT


@func
def local_point(type: wp.int32, size: vec3, code: wp.int32) -> vec3:
    """The feature's point: the point itself, the middle of a line or face."""
    if type == BOX:
        return wp.cw_mul(box_signs(code), size)
    if type == CAPSULE and code != CAPSULE_AXIS:
        return vec3(real(0.0), real(0.0), vertex_sign(code, 0) * size[1])
    return vec3(real(0.0), real(0.0), real(0.0))


@func
def local_direction(type: wp.int32, code: wp.int32) -> vec3:
    """Unit direction of a line, outward normal of a flat feature."""
    if type == BOX:
        s = box_signs(code)
        if code >= FIRST_FACE:
            return s
        return vec3(real(1.0) - wp.abs(s[0]), real(1.0) - wp.abs(s[1]), real(1.0) - wp.abs(s[2]))
    return vec3(real(0.0), real(0.0), real(1.0))


@func
def local_outward(type: wp.int32, code: wp.int32) -> vec3:
    """A direction that points out of the core at this feature; zero if no direction is distinguished."""
    if type == BOX:
        return box_signs(code)
    if type == CAPSULE and code != CAPSULE_AXIS:
        return vec3(real(0.0), real(0.0), vertex_sign(code, 0))
    return vec3(real(0.0), real(0.0), real(0.0))


@func
def core_radius(type: wp.int32, size: vec3) -> real:
    """The radius by which the core is grown; 0 unless the geom is a sphere or a capsule."""
    if type == PLANE or type == BOX:
        return real(0.0)
    return size[0]


@func
def plane_distance_bound(X_plane: transform, X_geom: transform, radius: real) -> real:
    """Lower bound [m] on the distance between a plane and a geom of the given bounding radius."""
    normal = wp.quat_rotate(wp.transform_get_rotation(X_plane), vec3(real(0.0), real(0.0), real(1.0)))
    offset = wp.transform_get_translation(X_geom) - wp.transform_get_translation(X_plane)
    return wp.dot(normal, offset) - radius


@func
def unit_or(v: vec3, fallback: vec3) -> vec3:
    """v / ‖v‖, or the fallback if v is too short to have a direction."""
    square = wp.dot(v, v)
    if square > real(SMALLEST_SQUARE):
        return v / wp.sqrt(square)
    return fallback


@func
def assemble(x_a: vec3, x_b: vec3, normal: vec3, r_a: real, r_b: real) -> ContactGeometry:
    geometry = ContactGeometry()
    geometry.phi = wp.dot(normal, x_b - x_a) - r_a - r_b
    geometry.point = real(0.5) * (x_a + x_b + (r_a - r_b) * normal)
    geometry.normal = normal
    return geometry


@func
def across(v: vec3, u: vec3) -> vec3:
    """The part of v orthogonal to the unit vector u; the second step removes the rounding of the first."""
    w = v - wp.dot(u, v) * u
    return w - wp.dot(u, w) * u


@func
def orthogonal(u: num3) -> num3:
    """A unit vector orthogonal to u, from the x axis, or the y axis near u = ±x."""
    if wp.abs(u[0]) > num(FRAME_SWITCH):
        return wp.normalize(num3(num(0.0), num(1.0), num(0.0)) - u[1] * u)
    return wp.normalize(num3(num(1.0), num(0.0), num(0.0)) - u[0] * u)


@func
def point_line(x: vec3, p: vec3, u: vec3, outward: vec3, r: real, r_line: real, line_is_b: wp.bool) -> ContactGeometry:
    """A point x and a line p + s u.

    If x is on the line, the normal is `outward` (of the point's geom), or any direction across u.
    """
    gap = across(p - x, u)
    foot = x + gap
    normal = unit_or(gap, unit_or(across(outward, u), orthogonal(u)))
    if line_is_b:
        return assemble(x, foot, normal, r, r_line)
    return assemble(foot, x, -normal, r_line, r)


@func
def foot_on_plane(x: vec3, p: vec3, n: vec3) -> vec3:
    """The point of the plane through p with normal n nearest to x."""
    return x - wp.dot(n, x - p) * n


@func
def line_through_plane(x: vec3, u: vec3, p: vec3, n: vec3) -> vec3:
    """Where the line x + s u meets the plane through p with normal n; x itself when they are parallel."""
    slope = wp.dot(n, u)
    if slope * slope > real(SMALLEST_SQUARE):
        return x + (wp.dot(n, p - x) / slope) * u
    return x


@func
def line_line(
    p_a: vec3, u_a: vec3, p_b: vec3, u_b: vec3, outward: vec3, r_a: real, r_b: real, parallel: real
) -> ContactGeometry:
    """Common perpendicular of two lines, directed along `outward`, or from A to B if `outward` is zero.

    `parallel` is the squared sine below which the lines have no common perpendicular.
    """
    c = wp.cross(u_a, u_b)
    square = wp.dot(c, c)
    r = p_b - p_a
    if square > parallel:
        x_a = p_a + (wp.dot(wp.cross(r, u_b), c) / square) * u_a
        x_b = p_b + (wp.dot(wp.cross(r, u_a), c) / square) * u_b
        facing = wp.dot(c, r)
        if wp.dot(outward, outward) > real(0.0):
            facing = wp.dot(c, outward)
        if facing < real(0.0):
            return assemble(x_a, x_b, -c / wp.sqrt(square), r_a, r_b)
        return assemble(x_a, x_b, c / wp.sqrt(square), r_a, r_b)
    return point_line(p_a, p_b, u_b, outward, r_a, r_b, True)


@func
def against_flat(
    x: vec3, face_point: vec3, face_normal: vec3, r: real, r_face: real, face_is_b: wp.bool
) -> ContactGeometry:
    """A point of one geom against a plane or face of the other."""
    foot = foot_on_plane(x, face_point, face_normal)
    if face_is_b:
        return assemble(x, foot, -face_normal, r, r_face)
    return assemble(foot, x, face_normal, r_face, r)


@func
def relative_geometry(
    type_a: wp.int32,
    q_a: quat,
    size_a: vec3,
    type_b: wp.int32,
    q_b: quat,
    size_b: vec3,
    offset: vec3,
    feature: wp.vec3i,
) -> ContactGeometry:
    """`evaluate` with geom A's origin at zero and B's at `offset`."""
    code_a, code_b, reference = feature[0], feature[1], feature[2]
    kind_a = feature_kind(type_a, code_a)
    kind_b = feature_kind(type_b, code_b)
    r_a = core_radius(type_a, size_a)
    r_b = core_radius(type_b, size_b)
    p_a = wp.quat_rotate(q_a, local_point(type_a, size_a, code_a))
    p_b = offset + wp.quat_rotate(q_b, local_point(type_b, size_b, code_b))
    u_a = wp.quat_rotate(q_a, local_direction(type_a, code_a))
    u_b = wp.quat_rotate(q_b, local_direction(type_b, code_b))

    if reference >= FIRST_FACE and kind_a + kind_b == LINE + FLAT:  # the line crosses the other's side face
        if kind_b == FLAT:
            face = offset + wp.quat_rotate(q_b, local_point(BOX, size_b, reference))
            normal = wp.quat_rotate(q_b, local_direction(BOX, reference))
            return against_flat(line_through_plane(p_a, u_a, p_b, u_b), face, normal, r_a, r_b, True)
        face = wp.quat_rotate(q_a, local_point(BOX, size_a, reference))
        normal = wp.quat_rotate(q_a, local_direction(BOX, reference))
        return against_flat(line_through_plane(p_b, u_b, p_a, u_a), face, normal, r_b, r_a, False)
    if reference >= FIRST_FACE:  # the face's plane at a vertex of the other's reference face
        if kind_a == FLAT:
            normal = wp.quat_rotate(q_b, local_direction(BOX, reference))
            return against_flat(line_through_plane(p_b, normal, p_a, u_a), p_b, normal, r_a, r_b, True)
        normal = wp.quat_rotate(q_a, local_direction(BOX, reference))
        return against_flat(line_through_plane(p_a, normal, p_b, u_b), p_a, normal, r_b, r_a, False)

    if kind_b == FLAT:
        return against_flat(p_a, p_b, u_b, r_a, r_b, True)
    if kind_a == FLAT:
        return against_flat(p_b, p_a, u_a, r_b, r_a, False)
    outward = wp.quat_rotate(q_a, local_outward(type_a, code_a)) - wp.quat_rotate(q_b, local_outward(type_b, code_b))
    if kind_a == LINE and kind_b == LINE:
        return line_line(p_a, u_a, p_b, u_b, outward, r_a, r_b, real(SMALLEST_SQUARE))
    if kind_a == LINE:
        return point_line(p_b, p_a, u_a, -outward, r_b, r_a, False)
    if kind_b == LINE:
        return point_line(p_a, p_b, u_b, outward, r_a, r_b, True)
    normal = unit_or(p_b - p_a, unit_or(outward, vec3(real(0.0), real(0.0), real(1.0))))
    return assemble(p_a, p_b, normal, r_a, r_b)


@func
def evaluate(
    type_a: wp.int32,
    X_a: transform,
    size_a: vec3,
    type_b: wp.int32,
    X_b: transform,
    size_b: vec3,
    feature: wp.vec3i,
) -> ContactGeometry:
    """Geometry of one feature contact (feature_a, feature_b, reference) between geoms at world poses X_a, X_b."""
    origin = wp.transform_get_translation(X_a)
    relative = relative_geometry(
        type_a,
        wp.transform_get_rotation(X_a),
        size_a,
        type_b,
        wp.transform_get_rotation(X_b),
        size_b,
        wp.transform_get_translation(X_b) - origin,
        feature,
    )
    geometry = ContactGeometry()
    geometry.phi = relative.phi
    geometry.point = relative.point + origin
    geometry.normal = relative.normal
    return geometry


@func
def contact_frame(normal: vec3) -> mat33:
    """Right-handed orthonormal frame with columns t1, t2, n; t1 is the x axis (y near n = ±x) made orthogonal to n."""
    t1 = orthogonal(normal)
    return wp.matrix_from_cols(t1, wp.cross(normal, t1), normal)
