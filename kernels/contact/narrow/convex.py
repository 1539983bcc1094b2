# SPDX-License-Identifier: Apache-2.0
"""Contacts of any pair of convex geoms with an ellipsoid, a cylinder or a mesh, and of a plane with one of these.

The signed distance of two convex bodies is φ = max over unit n of s(n) = min_{x∈B} n·x − max_{x∈A} n·x, the
separation along n. GJK, or EPA if the cores overlap, gives a rough n. Then the features of both geoms along n are tried
in pairs. Each pair has a stationary normal (`convex_features`, by Newton's method for curved features). The pair whose
normal has the largest s wins, with s from exact support points; among equals, faces win. So the normals of curved and
flat pairs are exact up to rounding.

If the normal is that of a face, or two axes are parallel, `clip.py` makes a manifold. It is reported if its lowest
point has the distance φ (within FACE_BIAS between nearly parallel faces), else the winning pair alone.
"""

import warp as wp

from ...real import func, quat, real, struct, transform, vec3
from . import clip, convex_features
from .clip import Candidates, add_candidate, face_manifold, line_manifold, lines_parallel, pair_geometry, reduce
from .convex_features import record_normal
from .features import POINT, orthogonal
from .gjk import Pair, deepest, lowest, nearest
from .manifold import CAPSULE, CYLINDER, ELLIPSOID, MESH, NO_REFERENCE, PLANE, Manifold, add_contact
from .nearing import Nearing, seen_in
from .shape import (
    FIRST_RIM_POINT,
    FIRST_TURNED,
    NO_FEATURE,
    RIM_POINTS,
    MeshTable,
    Shape,
    beyond_feature,
    extent,
    features_toward,
    local_feature,
    radius,
)

FACE_BIAS = 2e-5  # as in box.py, but relative to the size, not to the smallest half extent
FACE_ALIGNMENT = 0.999  # cosine of normal and face normal above which a face manifold is tried
LINE_ALIGNMENT = 2e-4  # angle [rad] to a face under which an axis lies along it
PASSES = 4  # rounds of trying features, each from the best normal so far
# Differences of distance that are rounding, relative to the size.
ROUNDING = {wp.float32: 3e-6, wp.float64: 1e-9}
# If the best pair's score is below the best separation seen by more than this (relative to the size), the contact is
# frozen.
LOOSE = {wp.float32: 1e-4, wp.float64: 2e-6}
CAP_REACH = 0.5  # |cosine| of axis and plane normal above which the lower rim's fixed points are tried

rounding = float(ROUNDING[real])
loose = float(LOOSE[real])
cap_bias = float(clip.CAP_BIAS[real])


@struct
class Best:
    """The best feature pair with its normal and score, and the best normal of all pairs tried with its separation.

    `separation` is the score, `top` the best normal.
    """

    feature: wp.vec3i
    normal: vec3
    separation: real
    top: vec3
    top_separation: real


@func(inline=False)
def separation(table: MeshTable, pair: Pair, n: vec3) -> real:
    """s(n) of the grown cores."""
    return wp.dot(n, lowest(table, pair, n)) - radius(pair.a) - radius(pair.b)


@func(inline=False)
def off_feature(table: MeshTable, geom: Shape, code: wp.int32, x: vec3, n: vec3) -> real:
    """Distance of a core point x from a feature, in the geom's axes; of a curved one from its support point along n."""
    f = local_feature(table, geom, code)
    if f.kind == POINT:
        identity = quat(real(0.0), real(0.0), real(0.0), real(1.0))
        return wp.length(x - f.p - convex_features.bulge(f.curve, identity, geom.size, n))
    return beyond_feature(table, geom, code, x)


@func(inline=False)
def try_pair(best: Best, table: MeshTable, pair: Pair, a: wp.int32, b: wp.int32, recorded: wp.int32) -> Best:
    """The better of the best pair and the pair (a, b), by score.

    The score is the separation s, minus 2 |φ − s|, minus the distance of the pair's points from the features. So only a
    pair that touches with these features has the full score.
    """
    if a == NO_FEATURE or b == NO_FEATURE:
        return best
    feature = wp.vec3i(a, b, recorded)
    g = pair_geometry(table, pair, feature)
    s = separation(table, pair, g.normal)
    tolerance = real(rounding) * pair.size
    if s > best.top_separation:
        best.top_separation = s
        best.top = g.normal
    x_a = g.point - (real(0.5) * g.phi + radius(pair.a)) * g.normal
    x_b = g.point + (real(0.5) * g.phi + radius(pair.b)) * g.normal - pair.p
    beyond = off_feature(table, pair.a, a, x_a, g.normal)
    beyond += off_feature(table, pair.b, b, wp.quat_rotate_inv(pair.q, x_b), wp.quat_rotate_inv(pair.q, -g.normal))
    score = s - real(2.0) * wp.abs(g.phi - s) - beyond
    if score > best.separation + tolerance:
        best.feature = feature
        best.normal = g.normal
        best.separation = score
    return best


@func(inline=False)
def try_features(best: Best, table: MeshTable, pair: Pair, n: vec3) -> Best:
    """The best of `best` and the pairs of features along n, faces first."""
    recorded = record_normal(n)
    a = features_toward(table, pair.a, n)
    b = features_toward(table, pair.b, wp.quat_rotate_inv(pair.q, -n))
    if a[2] != NO_FEATURE:
        out = local_feature(table, pair.a, a[2]).u
        point = features_toward(table, pair.b, wp.quat_rotate_inv(pair.q, -out))[0]
        best = try_pair(best, table, pair, a[2], point, recorded)
    if b[2] != NO_FEATURE:
        out = wp.quat_rotate(pair.q, local_feature(table, pair.b, b[2]).u)
        best = try_pair(best, table, pair, features_toward(table, pair.a, -out)[0], b[2], recorded)
    best = try_pair(best, table, pair, a[1], b[0], recorded)
    best = try_pair(best, table, pair, a[0], b[1], recorded)
    best = try_pair(best, table, pair, a[1], b[1], recorded)
    return try_pair(best, table, pair, a[0], b[0], recorded)


@func(inline=False)
def settle(table: MeshTable, pair: Pair, n: vec3) -> Best:
    """The winning pair, with its normal recorded.

    Features are tried again from the best normal seen until the winning pair has this normal's separation. If no pair
    reaches it, the result is a frozen contact along the best normal.
    """
    best = Best()
    best.separation = real(-1e30)
    best.top = n
    best.top_separation = separation(table, pair, n)
    tolerance = real(rounding) * pair.size
    k = wp.int32(0)
    while k < PASSES:
        before = best.top_separation
        best = try_features(best, table, pair, best.top)
        if best.separation >= best.top_separation - tolerance:
            k = wp.int32(PASSES)
        elif k > 0 and best.top_separation <= before:
            k = wp.int32(PASSES)
        k += 1
    if best.separation >= best.top_separation - real(loose) * pair.size:
        best.feature[2] = record_normal(best.normal)
        return best
    a = features_toward(table, pair.a, best.top)
    b = features_toward(table, pair.b, wp.quat_rotate_inv(pair.q, -best.top))
    best.feature = wp.vec3i(a[0], b[0], record_normal(best.top) - convex_features.FROZEN)
    best.normal = best.top
    best.separation = best.top_separation
    return best


@func(inline=False)
def make_pair(table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform) -> Pair:
    pair = Pair()
    pair.a = geom_a
    pair.b = geom_b
    q_a = wp.transform_get_rotation(X_a)
    offset = wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a)
    pair.q = wp.quat_inverse(q_a) * wp.transform_get_rotation(X_b)
    pair.p = wp.quat_rotate_inv(q_a, offset)
    pair.size = extent(table, geom_a) + extent(table, geom_b)
    return pair


@func(inline=False)
def accepted(lowest: real, along_normal: real, phi: real, aligned: wp.bool, size: real) -> wp.bool:
    """Whether a manifold has the distance φ: by its lowest point, and by the separation along its normal."""
    tolerance = real(rounding) * size
    if aligned:
        tolerance = wp.max(tolerance, real(FACE_BIAS) * size)
    return wp.abs(lowest - phi) <= tolerance and along_normal >= phi - tolerance


@func(inline=False)
def lying(geom: Shape, n: vec3) -> real:
    """Cosine between n and the plane across the axis, if a capsule or cylinder lies along a face with the normal n.

    n is in the geom's axes. The result is 0 if the geom does not lie along the face.
    """
    if (geom.type == CAPSULE or geom.type == CYLINDER) and wp.abs(n[2]) < real(LINE_ALIGNMENT):
        return wp.sqrt(n[0] * n[0] + n[1] * n[1])
    return real(0.0)


@func(inline=False)
def convex_convex(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, margin: real, motion: Nearing
) -> Manifold:
    """Contacts of two convex geoms, of which neither is a plane."""
    pair = make_pair(table, geom_a, X_a, geom_b, X_b)
    near = nearest(table, pair, seen_in(wp.transform_get_rotation(X_a), motion), real(FACE_BIAS) * pair.size)
    if near.status == 1:
        return Manifold()
    n = near.n
    if near.status == 2:
        n_deep = deepest(table, pair)
        if separation(table, pair, n_deep) > near.bound - radius(geom_a) - radius(geom_b):
            n = n_deep
    best = settle(table, pair, n)
    phi = best.separation
    if phi >= margin:
        return Manifold()
    n = best.normal
    face_a = features_toward(table, geom_a, n)[2]
    face_b = features_toward(table, geom_b, wp.quat_rotate_inv(pair.q, -n))[2]
    normal_a = vec3(real(0.0), real(0.0), real(0.0))
    normal_b = vec3(real(0.0), real(0.0), real(0.0))
    if face_a != NO_FEATURE:
        normal_a = local_feature(table, geom_a, face_a).u
    if face_b != NO_FEATURE:
        normal_b = wp.quat_rotate(pair.q, local_feature(table, geom_b, face_b).u)
    cos_a = wp.dot(normal_a, n)
    cos_b = -wp.dot(normal_b, n)
    facing_a = wp.max(cos_a, lying(geom_a, normal_b))
    facing_b = wp.max(cos_b, lying(geom_b, wp.quat_rotate_inv(pair.q, normal_a)))
    aligned = wp.min(facing_a, facing_b) > real(FACE_ALIGNMENT)
    bias = real(10.0 * rounding) * pair.size
    first_is_b = cos_b > cos_a + real(1e-6)
    k = wp.int32(0)
    while k < 2:
        from_b = first_is_b != (k == 1)
        face = face_a
        normal = normal_a
        cosine = cos_a
        if from_b:
            face = face_b
            normal = normal_b
            cosine = cos_b
        if cosine > real(FACE_ALIGNMENT):
            along = separation(table, pair, wp.where(from_b, -normal, normal))
            if accepted(phi, along, phi, aligned, pair.size):
                manifold, low = face_manifold(table, pair, normal, face, from_b, bias, margin)
                if accepted(low, phi, phi, aligned, pair.size):
                    return manifold
        k += 1
    if lines_parallel(pair, n):
        manifold, low = line_manifold(table, pair, n, best.feature[2], margin)
        if manifold.count > 1 and accepted(low, phi, phi, True, pair.size):
            return manifold
    return add_contact(Manifold(), best.feature[0], best.feature[1], best.feature[2])


@func(inline=False)
def plane_cylinder(table: MeshTable, pair: Pair, margin: real) -> Manifold:
    """The lowest points of both rims; if the cylinder stands, the lower rim's fixed points come first.

    The lower rim's lowest point is left out unless it is clearly lower than the fixed points.
    """
    manifold = Manifold()
    down = wp.quat_rotate_inv(pair.q, vec3(real(0.0), real(0.0), real(-1.0)))
    lower = wp.int32(0)
    if down[2] > real(0.0):
        lower = wp.int32(1)
    low = real(1e30)
    if wp.abs(down[2]) > real(CAP_REACH):
        k = wp.int32(0)
        while k < RIM_POINTS:
            code = FIRST_RIM_POINT + RIM_POINTS * lower + k
            g = pair_geometry(table, pair, wp.vec3i(0, code, NO_REFERENCE))
            low = wp.min(low, g.phi)
            if g.phi < margin:
                manifold = add_contact(manifold, 0, code, NO_REFERENCE)
            k += 2
    k = wp.int32(0)
    while k < 2:
        g = pair_geometry(table, pair, wp.vec3i(0, k, NO_REFERENCE))
        if g.phi < margin and (k != lower or g.phi < low - real(cap_bias) * pair.b.size[0]):
            manifold = add_contact(manifold, 0, k, NO_REFERENCE)
        k += 1
    return manifold


@func(inline=False)
def plane_cylinder_mujoco(table: MeshTable, pair: Pair, margin: real) -> Manifold:
    """MuJoCo's points: the lowest point of either rim, and the two of the lower rim 120° from it."""
    manifold = Manifold()
    down = wp.quat_rotate_inv(pair.q, vec3(real(0.0), real(0.0), real(-1.0)))
    lower = wp.int32(0)
    if down[2] >= real(0.0):
        lower = wp.int32(1)
    k = wp.int32(0)
    while k < 4:
        code = FIRST_TURNED + 2 * lower + k - 2
        if k < 2:
            code = wp.where(k == 0, lower, 1 - lower)
        if pair_geometry(table, pair, wp.vec3i(0, code, NO_REFERENCE)).phi < margin:
            manifold = add_contact(manifold, 0, code, NO_REFERENCE)
        k += 1
    return manifold


@func(inline=False)
def plane_mesh(table: MeshTable, pair: Pair, margin: real) -> Manifold:
    """The vertices nearer than the margin; of more than eight the extreme ones, in directions fixed to the mesh."""
    features = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=wp.vec3i)
    points = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=vec3)
    phi = wp.zeros(shape=(clip.MAX_CANDIDATES,), dtype=real)
    found = Candidates()
    found.lowest = real(1e30)
    up = wp.quat_rotate_inv(pair.q, vec3(real(0.0), real(0.0), real(1.0)))
    start = table.mesh_range[pair.b.mesh, 0]
    k = wp.int32(0)
    while k < table.mesh_range[pair.b.mesh, 1]:
        if pair.p[2] + wp.dot(up, table.vertex[start + k]) < margin:
            triple = wp.vec3i(0, k, NO_REFERENCE)
            found = add_candidate(found, table, pair, triple, margin, features, points, phi)
        k += 1
    e = wp.quat_rotate(pair.q, orthogonal(up))
    f = wp.cross(vec3(real(0.0), real(0.0), real(1.0)), e)
    return reduce(found, e, f, real(10.0 * rounding) * pair.size, features, points, phi)


@func(inline=False)
def detect_convex(
    table: MeshTable, geom_a: Shape, X_a: transform, geom_b: Shape, X_b: transform, margin: real, motion: Nearing,
    mujoco: int,
) -> Manifold:  # fmt: skip
    """Feature contacts with φ < margin between two geoms, type_a ≤ type_b, in deterministic order.

    The features are those of `convex_features.evaluate`. The pair plane–plane has no contacts. `mujoco` 1: a cylinder
    on a plane has MuJoCo's points.
    """
    if geom_a.type == PLANE:
        pair = make_pair(table, geom_a, X_a, geom_b, X_b)
        if geom_b.type == CYLINDER and mujoco == 1:
            return plane_cylinder_mujoco(table, pair, margin)
        if geom_b.type == CYLINDER:
            return plane_cylinder(table, pair, margin)
        if geom_b.type == MESH:
            return plane_mesh(table, pair, margin)
        if geom_b.type == ELLIPSOID and pair_geometry(table, pair, wp.vec3i(0, 0, NO_REFERENCE)).phi < margin:
            return add_contact(Manifold(), 0, 0, NO_REFERENCE)
        return Manifold()
    return convex_convex(table, geom_a, X_a, geom_b, X_b, margin, motion)
