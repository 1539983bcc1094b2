# SPDX-License-Identifier: Apache-2.0
"""Manifolds of the general convex pairs: clipped face polygons, parallel lines, and reduction to eight points.

The reference is the face most aligned with the contact normal n. The other geom contributes its most opposed face, or
its line or point if it has no such face. Seen along the reference's normal, the overlap has three kinds of corners:
corners of the other face inside the reference, corners of the reference inside the other face, and crossings of sides.
A cap is the octagon of its fixed rim points; its lowest rim point is added if it is clearly lower. Each point is a
feature contact with its distance from `convex_features`. Of points at the same place only the first is listed.
"""

import warp as wp

from ...real import func, quat, real, struct, vec3
from .convex_features import bulge, relative_geometry
from .features import orthogonal
from .gjk import Pair
from .manifold import CAPSULE, CAPSULE_AXIS, CYLINDER, MAX_POINTS, NO_REFERENCE, Manifold, add_contact
from .shape import (
    FIRST_CAP,
    NO_FEATURE,
    SIDE,
    MeshTable,
    Shape,
    corner_code,
    corners,
    features_toward,
    local_feature,
    side_code,
)

MAX_CANDIDATES = wp.constant(63)
MAX_CORNERS = wp.constant(64)
CAP_ALIGNMENT = 0.7  # |cosine| of axis and normal from which on a cylinder meets a face with its cap, not its side
# The lowest rim point is added to a cap's fixed points if it is lower by more than this fraction of the radius.
CAP_BIAS = {wp.float32: 1e-5, wp.float64: 1e-7}
LINES_PARALLEL = 1e-4  # squared sine up to which two lines count as parallel, as for capsules
# Relative to the size. INSIDE: a point this far outside a polygon still counts as inside. SAME_POINT: points nearer
# than this are the same.
INSIDE = {wp.float32: 1e-5, wp.float64: 1e-8}
SAME_POINT = 1e-3
SPREAD_DIRECTIONS = wp.constant(7)

inside_tolerance = float(INSIDE[real])
cap_bias = float(CAP_BIAS[real])


@struct
class Candidates:
    """Number of candidates in the arrays `features`, `points` and `phi`, and the smallest distance among them."""

    count: wp.int32
    lowest: real


@func(inline=False)
def pair_geometry(table: MeshTable, pair: Pair, feature: wp.vec3i):
    """Contact geometry of a feature contact, in axes of A."""
    identity = quat(real(0.0), real(0.0), real(0.0), real(1.0))
    return relative_geometry(table, pair.a, identity, pair.b, pair.q, pair.p, feature)


@func(inline=False)
def add_candidate(
    candidates: Candidates,
    table: MeshTable,
    pair: Pair,
    feature: wp.vec3i,
    margin: real,
    features: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=vec3),
    phi: wp.array(dtype=real),
) -> Candidates:
    """Add a feature contact if it is nearer than the margin and there is none at its place."""
    g = pair_geometry(table, pair, feature)
    if not (g.phi < margin) or candidates.count >= MAX_CANDIDATES:
        return candidates
    k = wp.int32(0)
    while k < candidates.count:
        if wp.length(points[k] - g.point) < real(SAME_POINT) * pair.size:
            return candidates
        k += 1
    features[candidates.count] = feature
    points[candidates.count] = g.point
    phi[candidates.count] = g.phi
    candidates.count += 1
    candidates.lowest = wp.min(candidates.lowest, g.phi)
    return candidates


@func(inline=False)
def reduce(
    candidates: Candidates,
    e: vec3,
    f: vec3,
    bias: real,
    features: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=vec3),
    phi: wp.array(dtype=real),
) -> Manifold:
    """The manifold of all candidates if there are at most eight, else of a choice.

    The choice is the extreme candidates in seven directions of the plane (e, f), and the lowest candidate if it is
    lower than these by more than the bias.
    """
    manifold = Manifold()
    k = wp.int32(0)
    if candidates.count <= MAX_POINTS:
        while k < candidates.count:
            manifold = add_contact(manifold, features[k][0], features[k][1], features[k][2])
            k += 1
        return manifold
    chosen = wp.int64(0)
    least = real(1e30)
    while k < SPREAD_DIRECTIONS:
        angle = (real(k) + real(0.3)) * real(2.0 * 3.141592653589793 / 7.0)
        d = wp.cos(angle) * e + wp.sin(angle) * f
        best = wp.int32(0)
        i = wp.int32(1)
        while i < candidates.count:
            if wp.dot(points[i] - points[best], d) > real(0.0):
                best = i
            i += 1
        chosen = chosen | (wp.int64(1) << wp.int64(best))
        least = wp.min(least, phi[best])
        k += 1
    if candidates.lowest < least - bias:
        best = wp.int32(0)
        i = wp.int32(1)
        while i < candidates.count:
            if phi[i] < phi[best]:
                best = i
            i += 1
        chosen = chosen | (wp.int64(1) << wp.int64(best))
    k = wp.int32(0)
    while k < candidates.count:
        if ((chosen >> wp.int64(k)) & wp.int64(1)) == wp.int64(1):
            manifold = add_contact(manifold, features[k][0], features[k][1], features[k][2])
        k += 1
    return manifold


@func(inline=False)
def opposed_feature(table: MeshTable, geom: Shape, d: vec3) -> wp.int32:
    """The face, else line, else point feature with which a geom meets a plane; d is the geom's outward direction."""
    candidates = features_toward(table, geom, d)
    if geom.type == CYLINDER and wp.abs(d[2]) < real(CAP_ALIGNMENT):
        return SIDE
    if candidates[2] != NO_FEATURE:
        return candidates[2]
    if candidates[1] != NO_FEATURE:
        return candidates[1]
    return candidates[0]


@func(inline=False)
def corner_points(table: MeshTable, pair: Pair, is_b: wp.bool, code: wp.int32, d: vec3, out: wp.array(dtype=vec3)):
    """Write the corners of a face, or ends of a line, in axes of A; return their number.

    For rims d is the direction of the support point.
    """
    geom = pair.a
    q = quat(real(0.0), real(0.0), real(0.0), real(1.0))
    p = vec3(real(0.0), real(0.0), real(0.0))
    if is_b:
        geom = pair.b
        q = pair.q
        p = pair.p
    n = wp.min(corners(table, geom, code), MAX_CORNERS)
    k = wp.int32(0)
    while k < n:
        f = local_feature(table, geom, corner_code(table, geom, code, k))
        out[k] = p + wp.quat_rotate(q, f.p) + bulge(f.curve, q, geom.size, d)
        k += 1
    return n


@func(inline=False)
def contains(polygon: wp.array(dtype=vec3), n: wp.int32, normal: vec3, x: vec3, tolerance: real) -> wp.bool:
    """Whether x is inside a polygon, seen along the normal; the polygon is counterclockwise about it."""
    k = wp.int32(0)
    while k < n:
        u = polygon[(k + 1) % n] - polygon[k]
        if wp.dot(wp.cross(normal, u), x - polygon[k]) < -tolerance * wp.length(u):
            return False
        k += 1
    return True


@func(inline=False)
def cross_sides(x_0: vec3, x_1: vec3, y_0: vec3, y_1: vec3, normal: vec3, tolerance: real) -> wp.bool:
    """Whether the segments x and y cross well inside both, seen along the normal."""
    across_y = wp.cross(normal, y_1 - y_0)
    d_0 = wp.dot(across_y, x_0 - y_0)
    d_1 = wp.dot(across_y, x_1 - y_0)
    small = tolerance * wp.length(y_1 - y_0)
    if wp.min(wp.abs(d_0), wp.abs(d_1)) < small or d_0 * d_1 > real(0.0):
        return False
    x = x_0 + (d_0 / (d_0 - d_1)) * (x_1 - x_0)
    along = wp.dot(x - y_0, y_1 - y_0)
    square = wp.dot(y_1 - y_0, y_1 - y_0)
    # The segments may be slanted: compare lengths in the plane across the normal.
    lift = wp.dot(normal, y_1 - y_0)
    along = along - wp.dot(normal, x - y_0) * lift
    square = square - lift * lift
    return along > real(0.0) and along < square


@func(inline=False)
def swapped(reference_is_b: wp.bool, own: wp.int32, other: wp.int32, reference: wp.int32) -> wp.vec3i:
    """A feature triple from the reference geom's feature `own` and the other geom's feature."""
    if reference_is_b:
        return wp.vec3i(other, own, reference)
    return wp.vec3i(own, other, reference)


@func(inline=False)
def face_manifold(
    table: MeshTable, pair: Pair, normal: vec3, face: wp.int32, reference_is_b: wp.bool, bias: real, margin: real
):
    """Contacts of a reference face with the given outward normal, and the smallest distance among them."""
    features = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
    points = wp.zeros(shape=(MAX_CANDIDATES,), dtype=vec3)
    phi = wp.zeros(shape=(MAX_CANDIDATES,), dtype=real)
    polygon = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
    incident = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
    own = pair.a
    other = pair.b
    d = wp.quat_rotate_inv(pair.q, -normal)
    if reference_is_b:
        own = pair.b
        other = pair.a
        d = -normal
    code = opposed_feature(table, other, d)
    n = corner_points(table, pair, reference_is_b, face, normal, polygon)
    m = corner_points(table, pair, not reference_is_b, code, -normal, incident)
    cut = 2 * face
    if reference_is_b:
        cut = cut + 1
    found = Candidates()
    found.lowest = real(1e30)
    tolerance = real(inside_tolerance) * pair.size
    k = wp.int32(0)
    while k < m:
        if contains(polygon, n, normal, incident[k], tolerance):
            corner = code
            if m > 1:
                corner = corner_code(table, other, code, k)
            triple = swapped(reference_is_b, face, corner, NO_REFERENCE)
            found = add_candidate(found, table, pair, triple, margin, features, points, phi)
        k += 1
    if other.type == CYLINDER and code >= FIRST_CAP:
        rim = code - FIRST_CAP
        lower = found.lowest
        triple = swapped(reference_is_b, face, rim, NO_REFERENCE)
        g = pair_geometry(table, pair, triple)
        if g.phi < lower - real(cap_bias) * other.size[0] and contains(polygon, n, normal, g.point, tolerance):
            found = add_candidate(found, table, pair, triple, margin, features, points, phi)
    if m > 2:
        k = wp.int32(0)
        while k < n:
            if contains(incident, m, -normal, polygon[k], tolerance):
                triple = swapped(reference_is_b, corner_code(table, own, face, k), code, cut)
                found = add_candidate(found, table, pair, triple, margin, features, points, phi)
            k += 1
    if m > 1:
        sides = m
        if m == 2:
            sides = wp.int32(1)
        k = wp.int32(0)
        while k < sides:
            j = wp.int32(0)
            while j < n:
                if cross_sides(incident[k], incident[(k + 1) % m], polygon[j], polygon[(j + 1) % n], normal, tolerance):
                    triple = swapped(
                        reference_is_b, side_code(table, own, face, j), side_code(table, other, code, k), cut
                    )
                    found = add_candidate(found, table, pair, triple, margin, features, points, phi)
                j += 1
            k += 1
    e = orthogonal(normal)
    if n > 1:
        e = wp.normalize(polygon[1] - polygon[0])
    return reduce(found, e, wp.cross(normal, e), bias, features, points, phi), found.lowest


@func(inline=False)
def line_code(geom: Shape) -> wp.int32:
    """Code of a capsule's axis or a cylinder's side; NO_FEATURE for other geoms."""
    if geom.type == CAPSULE:
        return CAPSULE_AXIS
    if geom.type == CYLINDER:
        return SIDE
    return NO_FEATURE


@func(inline=False)
def line_manifold(table: MeshTable, pair: Pair, n: vec3, recorded: wp.int32, margin: real):
    """Contacts at the ends of the overlap of two parallel capsules or cylinders, and their smallest distance."""
    features = wp.zeros(shape=(4,), dtype=wp.vec3i)
    points = wp.zeros(shape=(4,), dtype=vec3)
    phi = wp.zeros(shape=(4,), dtype=real)
    z = vec3(real(0.0), real(0.0), real(1.0))
    u = wp.quat_rotate(pair.q, z)
    found = Candidates()
    found.lowest = real(1e30)
    tolerance = real(inside_tolerance) * pair.size
    half_a = pair.a.size[1]
    half_b = pair.b.size[1]
    k = wp.int32(0)
    while k < 2:
        end = real(2 * k - 1)
        if wp.abs(wp.dot(u, end * half_a * z - pair.p)) <= half_b + tolerance:
            triple = wp.vec3i(k, line_code(pair.b), recorded)
            found = add_candidate(found, table, pair, triple, margin, features, points, phi)
        k += 1
    k = wp.int32(0)
    while k < 2:
        end = real(2 * k - 1)
        if wp.abs(pair.p[2] + end * half_b * u[2]) <= half_a + tolerance:
            triple = wp.vec3i(line_code(pair.a), k, recorded)
            found = add_candidate(found, table, pair, triple, margin, features, points, phi)
        k += 1
    return reduce(found, z, orthogonal(z), real(0.0), features, points, phi), found.lowest


@func(inline=False)
def lines_parallel(pair: Pair, n: vec3) -> wp.bool:
    """Whether two geoms are capsules or cylinders with nearly parallel axes that are across the normal."""
    if line_code(pair.a) == NO_FEATURE or line_code(pair.b) == NO_FEATURE:
        return False
    u = wp.quat_rotate(pair.q, vec3(real(0.0), real(0.0), real(1.0)))
    return u[0] * u[0] + u[1] * u[1] <= real(LINES_PARALLEL) and n[2] * n[2] <= real(LINES_PARALLEL)
