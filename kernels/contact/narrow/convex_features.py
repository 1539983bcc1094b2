# SPDX-License-Identifier: Apache-2.0
"""Contact geometry of a pair of features of any two convex geoms, smooth in poses and sizes.

`shape.py` has the features. A feature is a point, a line, a plane, or a curved point x(n), the feature's support point
along n. Against a plane, or a rim against a point, x has a closed form. Else n is the root of

    t(n) = (1 − n nᵀ)(x_b(−n) − x_a(n)) = 0,

found by Newton steps (K_a + K_b + φ) δ = t(n). K is the Hessian of the feature's support function, φ = n·(x_b − x_a).
The initial n is the normal that `detect_convex` found. The contact's third code stores it to 6e-5 rad in axes of geom
A. From there four steps without a loop (`curved_pair`) reach rounding. So does the derivative, which comes from the
last step alone: that of the implicit function, −t_n⁻¹ t_p. All features are exact in this sense. The exception is a
contact marked FROZEN: its normal is the recorded one, fixed to geom A.

The third code (reference) is one of

- NO_REFERENCE.
- r ≥ 0: face r // 2 of geom A (of B if r is odd), the reference face. Either one feature is a side of this face, and
  the other geom's line is cut at the plane through the side along the face's normal. Or one feature is a vertex of this
  face, which is projected on the other geom's face along the normal.
- −2 − s: s holds the recorded normal in 30 bits, and the bit FROZEN.
"""

import warp as wp

from ...real import func, quat, real, transform, vec3
from .features import (
    FLAT,
    LINE,
    POINT,
    SMALLEST_SQUARE,
    ContactGeometry,
    across,
    against_flat,
    assemble,
    line_line,
    line_through_plane,
    orthogonal,
    point_line,
    unit_or,
)
from .manifold import CYLINDER
from .shape import AHEAD, BEHIND, RIM, SIDE, STRAIGHT, SURFACE, Feature, MeshTable, Shape, local_feature

GRID = wp.constant(32767)  # points per axis of the grid of recorded normals; odd, so that the axes are exact
FROZEN = wp.constant(1 << 30)
SINE = 0.75**0.5  # of 120°
LARGEST_STEP = 0.3  # [rad] largest Newton step
# Squared sine below which two lines have no common perpendicular: its direction is only rounding.
PARALLEL = {wp.float32: 1e-10, wp.float64: 1e-20}
CONDITION = {wp.float32: 1e-6, wp.float64: 1e-12}  # relative determinant below which there is no Newton step

condition = float(CONDITION[real])
parallel = float(PARALLEL[real])


@func(inline=False)
def fold(x: real, y: real) -> real:
    """(1 − |y|) with the sign of x: maps the lower half of the octahedron to the outer part of the square."""
    if x < real(0.0):
        return wp.abs(y) - real(1.0)
    return real(1.0) - wp.abs(y)


@func(inline=False)
def record_normal(n: vec3) -> wp.int32:
    """A unit vector as a reference code: octahedral coordinates on a grid of GRID² points."""
    m = n / (wp.abs(n[0]) + wp.abs(n[1]) + wp.abs(n[2]))
    x = m[0]
    y = m[1]
    if n[2] < real(0.0):
        x = fold(m[0], m[1])
        y = fold(m[1], m[0])
    half = real(GRID // 2)
    i = wp.int32(wp.floor(x * half + half + real(0.5)))
    j = wp.int32(wp.floor(y * half + half + real(0.5)))
    return -2 - (i * GRID + j)


@func(inline=False)
def recorded_normal(reference: wp.int32) -> vec3:
    """The unit vector of a reference code."""
    s = (-2 - reference) & (FROZEN - 1)
    half = real(GRID // 2)
    x = real(s // GRID) / half - real(1.0)
    y = real(s % GRID) / half - real(1.0)
    z = real(1.0) - wp.abs(x) - wp.abs(y)
    if z < real(0.0):
        return wp.normalize(vec3(fold(x, y), fold(y, x), z))
    return wp.normalize(vec3(x, y, z))


@func(inline=False)
def place(f: Feature, q: quat, offset: vec3) -> Feature:
    """The feature of a geom whose pose is (q, offset)."""
    g = Feature()
    g.kind = f.kind
    g.curve = f.curve
    g.r = f.r
    g.p = offset + wp.quat_rotate(q, f.p)
    g.u = wp.quat_rotate(q, f.u)
    return g


@func(inline=False)
def bulge(curve: wp.int32, q: quat, size: vec3, n: vec3) -> vec3:
    """x(n) − p: from the feature's point to its support point along n."""
    if curve == STRAIGHT:
        return vec3(real(0.0), real(0.0), real(0.0))
    m = wp.quat_rotate_inv(q, n)
    if curve == SURFACE:
        e = wp.cw_mul(size, m)
        return wp.quat_rotate(q, wp.cw_mul(size, e) / wp.length(e))
    x = unit_or(vec3(m[0], m[1], real(0.0)), vec3(real(1.0), real(0.0), real(0.0)))
    if curve == AHEAD or curve == BEHIND:
        side = wp.where(curve == AHEAD, real(SINE), real(-SINE))
        x = real(-0.5) * x + side * vec3(-x[1], x[0], real(0.0))
    return wp.quat_rotate(q, size[0] * x)


@func(inline=False)
def curvature(curve: wp.int32, q: quat, size: vec3, n: vec3, v: vec3) -> vec3:
    """K v with K the Hessian of the support function at n."""
    if curve == STRAIGHT:
        return vec3(real(0.0), real(0.0), real(0.0))
    m = wp.quat_rotate_inv(q, n)
    w = wp.quat_rotate_inv(q, v)
    if curve == SURFACE:
        h = wp.length(wp.cw_mul(size, m))
        x = wp.cw_mul(wp.cw_mul(size, size), m) / h
        return wp.quat_rotate(q, (wp.cw_mul(wp.cw_mul(size, size), w) - wp.dot(x, w) * x) / h)
    square = m[0] * m[0] + m[1] * m[1]
    if square < real(SMALLEST_SQUARE):
        return vec3(real(0.0), real(0.0), real(0.0))
    turn = vec3(-m[1], m[0], real(0.0))
    return wp.quat_rotate(q, (size[0] * wp.dot(turn, w) / (square * wp.sqrt(square))) * turn)


@func(inline=False)
def normal_step(n: vec3, a: Feature, q_a: quat, size_a: vec3, b: Feature, q_b: quat, size_b: vec3) -> vec3:
    """n after one Newton step of t(n) = 0, on the sphere or, for a line, on the circle across its direction."""
    gap = b.p + bulge(b.curve, q_b, size_b, -n) - a.p - bulge(a.curve, q_a, size_a, n)
    phi = wp.dot(n, gap)
    e = orthogonal(n)
    if a.kind == LINE:
        e = unit_or(wp.cross(a.u, n), e)
    if b.kind == LINE:
        e = unit_or(wp.cross(b.u, n), e)
    K_e = curvature(a.curve, q_a, size_a, n, e) + curvature(b.curve, q_b, size_b, n, e)
    h_ee = wp.dot(e, K_e) + phi
    if a.kind == LINE or b.kind == LINE:
        if h_ee > real(condition) * wp.length(gap) and h_ee > real(0.0):
            slope = wp.dot(e, gap) / h_ee
            if wp.abs(slope) < real(LARGEST_STEP):
                return wp.normalize(n + slope * e)
            return wp.normalize(n + wp.sign(slope) * real(LARGEST_STEP) * e)
        return n
    f = wp.cross(n, e)
    K_f = curvature(a.curve, q_a, size_a, n, f) + curvature(b.curve, q_b, size_b, n, f)
    h_ff = wp.dot(f, K_f) + phi
    h_ef = wp.dot(e, K_f)
    determinant = h_ee * h_ff - h_ef * h_ef
    largest = wp.max(h_ee, h_ff)
    if determinant > real(condition) * largest * largest and h_ee > real(0.0):
        g_e = wp.dot(e, gap)
        g_f = wp.dot(f, gap)
        x = (h_ff * g_e - h_ef * g_f) / determinant
        y = (h_ee * g_f - h_ef * g_e) / determinant
        square = x * x + y * y
        if square < real(LARGEST_STEP * LARGEST_STEP):
            return wp.normalize(n + x * e + y * f)
        return wp.normalize(n + (real(LARGEST_STEP) / wp.sqrt(square)) * (x * e + y * f))
    return n


@func(inline=False)
def across_line(n: vec3, u: vec3) -> vec3:
    return unit_or(across(n, u), orthogonal(u))


@func(inline=False)
def curved_pair(n_0: vec3, a: Feature, q_a: quat, size_a: vec3, b: Feature, q_b: quat, size_b: vec3) -> ContactGeometry:
    """Stationary distance of a curved feature from a curved feature, a point or a line; n_0 is the initial normal."""
    n = n_0
    if a.kind == LINE:
        n = across_line(n_0, a.u)
    if b.kind == LINE:
        n = across_line(n_0, b.u)
    n_1 = normal_step(n, a, q_a, size_a, b, q_b, size_b)
    n_2 = normal_step(n_1, a, q_a, size_a, b, q_b, size_b)
    n_3 = normal_step(n_2, a, q_a, size_a, b, q_b, size_b)
    n_4 = normal_step(n_3, a, q_a, size_a, b, q_b, size_b)
    x_a = a.p + bulge(a.curve, q_a, size_a, n_4)
    x_b = b.p + bulge(b.curve, q_b, size_b, -n_4)
    if a.kind == LINE:
        return assemble(x_b - across(x_b - a.p, a.u), x_b, n_4, a.r, b.r)
    if b.kind == LINE:
        return assemble(x_a, x_a + across(b.p - x_a, b.u), n_4, a.r, b.r)
    return assemble(x_a, x_b, n_4, a.r, b.r)


@func(inline=False)
def nearest_on_rim(c: vec3, q: quat, size: vec3, x: vec3) -> vec3:
    """The point nearest to x on the rim with the centre c."""
    m = wp.quat_rotate_inv(q, x - c)
    return c + wp.quat_rotate(q, size[0] * unit_or(vec3(m[0], m[1], real(0.0)), vec3(real(1.0), real(0.0), real(0.0))))


@func(inline=False)
def flat_pair(a: Feature, q_a: quat, size_a: vec3, b: Feature, q_b: quat, size_b: vec3) -> ContactGeometry:
    """A plane or face against a point or a curved feature."""
    if b.kind == FLAT:
        return against_flat(a.p + bulge(a.curve, q_a, size_a, -b.u), b.p, b.u, a.r, b.r, True)
    return against_flat(b.p + bulge(b.curve, q_b, size_b, -a.u), a.p, a.u, b.r, a.r, False)


@func(inline=False)
def facing_line(f: Feature, geom: Shape, code: wp.int32, q: quat, d: vec3) -> Feature:
    """The line to be cut: for a cylinder's side the line on it that is farthest along d, else the line itself."""
    if geom.type != CYLINDER or code != SIDE:
        return f
    g = Feature()
    g.kind = f.kind
    g.u = f.u
    g.p = f.p + bulge(RIM, q, geom.size, d)
    return g


@func(inline=False)
def clipped_pair(side: Feature, other: Feature, face: Feature, face_is_b: wp.bool) -> ContactGeometry:
    """Contact with a reference face: the other's line where a side of the face cuts it, or its face above a vertex."""
    x = side.p
    if other.kind == LINE:
        x = line_through_plane(other.p, other.u, side.p, wp.cross(face.u, side.u))
    else:
        x = line_through_plane(side.p, face.u, other.p, other.u)
    return against_flat(x, face.p, face.u, other.r, face.r, face_is_b)


@func(inline=False)
def relative_geometry(
    table: MeshTable, geom_a: Shape, q_a: quat, geom_b: Shape, q_b: quat, offset: vec3, feature: wp.vec3i
) -> ContactGeometry:
    """`evaluate` with geom A's origin at zero and B's at `offset`."""
    reference = feature[2]
    zero = vec3(real(0.0), real(0.0), real(0.0))
    a = place(local_feature(table, geom_a, feature[0]), q_a, zero)
    b = place(local_feature(table, geom_b, feature[1]), q_b, offset)
    if reference >= 0:
        if reference % 2 == 1:
            face_b = place(local_feature(table, geom_b, reference // 2), q_b, offset)
            a = facing_line(a, geom_a, feature[0], q_a, -face_b.u)
            return clipped_pair(b, a, face_b, True)
        face_a = place(local_feature(table, geom_a, reference // 2), q_a, zero)
        b = facing_line(b, geom_b, feature[1], q_b, -face_a.u)
        return clipped_pair(a, b, face_a, False)
    if a.kind == FLAT or b.kind == FLAT:
        return flat_pair(a, q_a, geom_a.size, b, q_b, geom_b.size)
    n = wp.quat_rotate(q_a, recorded_normal(reference))
    if ((-2 - reference) & FROZEN) != 0:
        x_a = a.p + bulge(a.curve, q_a, geom_a.size, n)
        return assemble(x_a, b.p + bulge(b.curve, q_b, geom_b.size, -n), n, a.r, b.r)
    if a.curve == RIM and b.curve == STRAIGHT and b.kind == POINT:
        x = nearest_on_rim(a.p, q_a, geom_a.size, b.p)
        return assemble(x, b.p, unit_or(b.p - x, n), a.r, b.r)
    if b.curve == RIM and a.curve == STRAIGHT and a.kind == POINT:
        x = nearest_on_rim(b.p, q_b, geom_b.size, a.p)
        return assemble(a.p, x, unit_or(x - a.p, n), a.r, b.r)
    if a.curve != STRAIGHT or b.curve != STRAIGHT:
        return curved_pair(n, a, q_a, geom_a.size, b, q_b, geom_b.size)
    if a.kind == LINE and b.kind == LINE:
        return line_line(a.p, a.u, b.p, b.u, n, a.r, b.r, real(parallel))
    if a.kind == LINE:
        return point_line(b.p, a.p, a.u, -n, b.r, a.r, False)
    if b.kind == LINE:
        return point_line(a.p, b.p, b.u, n, a.r, b.r, True)
    return assemble(a.p, b.p, unit_or(b.p - a.p, n), a.r, b.r)


@func(inline=False)
def evaluate(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, feature: wp.vec3i
) -> ContactGeometry:
    """Geometry of one feature contact (feature_a, feature_b, reference) between geoms at world poses X_a, X_b."""
    origin = wp.transform_get_translation(X_a)
    relative = relative_geometry(
        table,
        geom_a,
        wp.transform_get_rotation(X_a),
        geom_b,
        wp.transform_get_rotation(X_b),
        wp.transform_get_translation(X_b) - origin,
        feature,
    )
    geometry = ContactGeometry()
    geometry.phi = relative.phi
    geometry.point = relative.point + origin
    geometry.normal = relative.normal
    return geometry
