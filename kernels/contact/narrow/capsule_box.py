# SPDX-License-Identifier: Apache-2.0
"""Contacts of a capsule (geom A) with a box (geom B), in the box's axes.

The capsule's axis is a segment c + t u, |t| ≤ l. If it is outside the box, enumeration finds the nearest features (two
ends, eight vertices, twelve edges). If it meets the box, the separating axes give the direction of least penetration
(three faces, three edge directions). Along a face there is a second point, where the segment ends or leaves the face.
"""

import warp as wp

from ...real import func, real, struct, transform, vec3
from .box_core import box_distance, edge_code, face_toward, nearest_box_feature, vertex_sign
from .manifold import CAPSULE_AXIS, FIRST_EDGE, FIRST_FACE, NO_REFERENCE, Manifold, add_contact

SEGMENT_END = -1  # code of a limit of an interval at an end of the segment; else the side face that cuts it
FACE_ALIGNMENT = 0.99  # cosine above which a contact normal counts as a face's normal, and there may be a second point
SAME_POINT = 0.01  # two points nearer than this fraction of the half length are one
# Sine of the angle to a side face below which the face does not cut a segment: the cut would be only rounding. The
# whole segment then is on one side of the face.
ALONG_RIM = {wp.float32: 1e-3, wp.float64: 1e-6}
# Squared sine below which a segment counts as parallel to an edge.
PARALLEL = {wp.float32: 1e-8, wp.float64: 1e-12}
# Distances below this fraction of the size are rounding. An axis nearer than this touches the box. If the depths of an
# edge and a face differ by less, the face is taken.
ROUNDING = {wp.float32: 1e-5, wp.float64: 1e-9}

parallel = float(PARALLEL[real])
along_rim = float(ALONG_RIM[real])
rounding = float(ROUNDING[real])


@struct
class Interval:
    """The part lo ≤ t ≤ hi of the segment, and the code of the face that cuts it at each limit (or SEGMENT_END)."""

    lo: real
    hi: real
    lo_code: wp.int32
    hi_code: wp.int32


@struct
class Nearest:
    """Nearest features of segment and box: codes, distance, t on the segment, and segment minus box point."""

    feature_a: wp.int32
    feature_b: wp.int32
    distance: real
    t: real
    gap: vec3


@func
def whole_segment(half_length: real) -> Interval:
    interval = Interval()
    interval.lo = -half_length
    interval.hi = half_length
    interval.lo_code = SEGMENT_END
    interval.hi_code = SEGMENT_END
    return interval


@func
def narrow(interval: Interval, c: real, u: real, h: real, axis: wp.int32) -> Interval:
    """The part of the interval with |c + t u| ≤ h; c, u and h are coordinates along a box axis."""
    if u == real(0.0):
        if wp.abs(c) > h:
            interval.hi = interval.lo - real(1.0)
        return interval
    direction = wp.sign(u)
    enter = (-direction * h - c) / u
    leave = (direction * h - c) / u
    code = FIRST_FACE + 2 * axis
    forward = wp.int32(0)
    if u > real(0.0):
        forward = wp.int32(1)
    if enter > interval.lo:
        interval.lo = enter
        interval.lo_code = code + 1 - forward
    if leave < interval.hi:
        interval.hi = leave
        interval.hi_code = code + forward
    return interval


@func
def improve(
    best: Nearest, feature_a: wp.int32, feature_b: wp.int32, t: real, on_segment: vec3, on_box: vec3
) -> Nearest:
    """The nearer of the best pair and this one."""
    gap = on_segment - on_box
    distance = wp.length(gap)
    if best.distance < real(0.0) or distance < best.distance:
        best.feature_a = feature_a
        best.feature_b = feature_b
        best.distance = distance
        best.t = t
        best.gap = gap
    return best


@func
def nearest_outside(c: vec3, u: vec3, half_length: real, h: vec3) -> Nearest:
    """Nearest features of a segment and a box that do not meet."""
    best = Nearest()
    best.distance = real(-1.0)
    k = wp.int32(0)
    while k < 2:
        t = real(2 * k - 1) * half_length
        x = c + t * u
        best = improve(best, k, nearest_box_feature(x, h), t, x, wp.min(wp.max(x, -h), h))
        k += 1
    k = wp.int32(0)
    while k < 8:
        vertex = vec3(vertex_sign(k, 0) * h[0], vertex_sign(k, 1) * h[1], vertex_sign(k, 2) * h[2])
        t = wp.dot(u, vertex - c)
        if wp.abs(t) < half_length:
            best = improve(best, CAPSULE_AXIS, k, t, c + t * u, vertex)
        k += 1
    k = wp.int32(0)
    while k < 12:
        axis = k // 4
        i = (axis + 1) % 3
        j = (axis + 2) % 3
        square = u[i] * u[i] + u[j] * u[j]
        if square > real(parallel):
            y = vertex_sign(k, 0) * h[i]
            z = vertex_sign(k, 1) * h[j]
            t = ((y - c[i]) * u[i] + (z - c[j]) * u[j]) / square
            x = c + t * u
            if wp.abs(t) < half_length and wp.abs(x[axis]) < h[axis]:
                on_box = x
                on_box[i] = y
                on_box[j] = z
                best = improve(best, CAPSULE_AXIS, FIRST_EDGE + k, t, x, on_box)
        k += 1
    return best


@func
def clip_to_face(c: vec3, u: vec3, half_length: real, h: vec3, face: wp.int32) -> Interval:
    """The part of the segment above a face; empty (lo > hi) if the segment passes beside the face."""
    axis = (face - FIRST_FACE) // 2
    interval = whole_segment(half_length)
    k = wp.int32(1)
    while k < 3:
        i = (axis + k) % 3
        if wp.abs(u[i]) > real(along_rim):
            interval = narrow(interval, c[i], u[i], h[i], i)
        elif wp.abs(c[i]) > h[i] + real(along_rim) * half_length:
            interval.hi = interval.lo - real(1.0)
        k += 1
    return interval


@func
def face_height(x: vec3, h: vec3, face: wp.int32) -> real:
    """Height of a point above a face's plane."""
    axis = (face - FIRST_FACE) // 2
    return vertex_sign(face - FIRST_FACE, 0) * x[axis] - h[axis]


@func
def add_limit(manifold: Manifold, end: wp.int32, side: wp.int32, face: wp.int32) -> Manifold:
    """Add a contact with `face`: of an end of the segment, or of the point where the segment crosses a side face."""
    if side == SEGMENT_END:
        return add_contact(manifold, end, face, NO_REFERENCE)
    return add_contact(manifold, CAPSULE_AXIS, side, face)


@func
def deep_contacts(c: vec3, u: vec3, half_length: real, h: vec3, reach: real) -> Manifold:
    """Contacts along the direction of least penetration of a segment that meets or touches the box."""
    manifold = Manifold()
    depth = h - wp.abs(c) + half_length * wp.abs(u)
    least = wp.min(wp.min(depth[0], depth[1]), depth[2])
    axis = wp.int32(0)
    if depth[1] < depth[0]:
        axis = wp.int32(1)
    if depth[2] < depth[0] and depth[2] < depth[1]:
        axis = wp.int32(2)
    face = FIRST_FACE + 2 * axis
    if c[axis] >= real(0.0):
        face = face + 1
    edge = wp.int32(-1)
    least = least - real(rounding) * (half_length + wp.length(h))
    k = wp.int32(0)
    while k < 3:
        i = (k + 1) % 3
        j = (k + 2) % 3
        norm = wp.sqrt(u[i] * u[i] + u[j] * u[j])
        if norm * norm > real(parallel):
            n_i = -u[j] / norm
            n_j = u[i] / norm
            offset = c[i] * n_i + c[j] * n_j
            if offset < real(0.0):
                n_i, n_j, offset = -n_i, -n_j, -offset
            edge_depth = h[i] * wp.abs(n_i) + h[j] * wp.abs(n_j) - offset
            if edge_depth < least:
                least = edge_depth
                edge = edge_code(k, n_i, n_j)
        k += 1
    if edge >= 0:
        return add_contact(manifold, CAPSULE_AXIS, edge, NO_REFERENCE)
    interval = clip_to_face(c, u, half_length, h, face)
    if interval.lo < interval.hi:
        if face_height(c + interval.lo * u, h, face) < reach:
            manifold = add_limit(manifold, 0, interval.lo_code, face)
        if face_height(c + interval.hi * u, h, face) < reach:
            manifold = add_limit(manifold, 1, interval.hi_code, face)
        return manifold
    if face_height(c - half_length * u, h, face) <= face_height(c + half_length * u, h, face):
        return add_contact(manifold, 0, face, NO_REFERENCE)
    return add_contact(manifold, 1, face, NO_REFERENCE)


@func
def shallow_contacts(c: vec3, u: vec3, half_length: real, h: vec3, reach: real) -> Manifold:
    """The nearest features and, above a face, the farther limit of the part over it; in order along the segment."""
    manifold = Manifold()
    nearest = nearest_outside(c, u, half_length, h)
    if nearest.distance >= reach:
        return manifold
    if nearest.distance <= real(rounding) * (half_length + wp.length(h)):
        return deep_contacts(c, u, half_length, h, reach)
    face = face_toward(nearest.gap)
    axis = (face - FIRST_FACE) // 2
    if wp.abs(nearest.gap[axis]) <= real(FACE_ALIGNMENT) * nearest.distance:
        return add_contact(manifold, nearest.feature_a, nearest.feature_b, NO_REFERENCE)
    interval = clip_to_face(c, u, half_length, h, face)
    if interval.lo >= interval.hi:
        return add_contact(manifold, nearest.feature_a, nearest.feature_b, NO_REFERENCE)
    below = nearest.t - interval.lo
    above = interval.hi - nearest.t
    least = real(SAME_POINT) * half_length
    if below > above and below > least and face_height(c + interval.lo * u, h, face) < reach:
        manifold = add_limit(manifold, 0, interval.lo_code, face)
    manifold = add_contact(manifold, nearest.feature_a, nearest.feature_b, NO_REFERENCE)
    if above >= below and above > least and face_height(c + interval.hi * u, h, face) < reach:
        manifold = add_limit(manifold, 1, interval.hi_code, face)
    return manifold


@func
def capsule_box(X_a: transform, size_a: vec3, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """Up to two contacts, in order along the capsule's axis."""
    q = wp.transform_get_rotation(X_b)
    c = wp.quat_rotate_inv(q, wp.transform_get_translation(X_a) - wp.transform_get_translation(X_b))
    u = wp.quat_rotate_inv(q, wp.quat_rotate(wp.transform_get_rotation(X_a), vec3(real(0.0), real(0.0), real(1.0))))
    reach = margin + size_a[0]
    if box_distance(c, size_b) - size_a[1] >= reach:
        return Manifold()
    inside = narrow(whole_segment(size_a[1]), c[0], u[0], size_b[0], 0)
    inside = narrow(inside, c[1], u[1], size_b[1], 1)
    inside = narrow(inside, c[2], u[2], size_b[2], 2)
    if inside.lo <= inside.hi:
        return deep_contacts(c, u, size_a[1], size_b, reach)
    return shallow_contacts(c, u, size_a[1], size_b, reach)
