# SPDX-License-Identifier: Apache-2.0
"""Contacts of two capsules: the nearest features, and for parallel axes the ends of their overlap.

A capsule's axis is stored as centre, unit direction and half length, so that a capsule of zero length is a sphere.
"""

import warp as wp

from ...real import func, real, struct, transform, vec3
from .manifold import CAPSULE_AXIS, NO_REFERENCE, Manifold, add_contact

# Squared sine of the angle below which two capsules count as parallel and get points at the ends of their overlap.
NEARLY_PARALLEL = 1e-4
# Squared sine below which the common perpendicular of two lines is not used: its direction is only rounding.
PARALLEL = {wp.float32: 1e-8, wp.float64: 1e-12}

parallel = float(PARALLEL[real])


@struct
class NearestAxes:
    """Nearest features of two axes, their distance, and the coordinate of the nearest point along axis A."""

    features: wp.vec2i
    distance: real
    height: real


@func
def axis_feature(z: real, half_length: real) -> wp.int32:
    """Code of the feature of a capsule's axis that is nearest to the point z of its line."""
    if z < -half_length:
        return 0
    if z > half_length:
        return 1
    return CAPSULE_AXIS


@func
def nearest_axes(half_a: real, p: vec3, u: vec3, half_b: real) -> NearestAxes:
    """Nearest features of two segments: |z| ≤ half_a on the z axis, and p + s u with |s| ≤ half_b."""
    nearest = NearestAxes()
    square = u[0] * u[0] + u[1] * u[1]  # ‖e_z × u‖²
    if square > real(parallel):
        # If both feet of the common perpendicular are inside the segments, they are the nearest points.
        s = -(p[0] * u[0] + p[1] * u[1]) / square
        z = p[2] + s * u[2]
        if wp.abs(s) < half_b and wp.abs(z) < half_a:
            nearest.features = wp.vec2i(CAPSULE_AXIS, CAPSULE_AXIS)
            nearest.distance = wp.abs(u[0] * p[1] - u[1] * p[0]) / wp.sqrt(square)
            nearest.height = z
            return nearest
    nearest.distance = real(-1.0)
    k = wp.int32(0)
    while k < 2:
        end = real(2 * k - 1)
        x = vec3(real(0.0), real(0.0), end * half_a) - p  # an end of A against B
        s = wp.dot(x, u)
        distance = wp.length(x - wp.clamp(s, -half_b, half_b) * u)
        if nearest.distance < real(0.0) or distance < nearest.distance:
            nearest.distance = distance
            nearest.features = wp.vec2i(k, axis_feature(s, half_b))
            nearest.height = end * half_a
        x = p + end * half_b * u  # an end of B against A
        z = wp.clamp(x[2], -half_a, half_a)
        distance = wp.length(vec3(x[0], x[1], x[2] - z))
        if distance < nearest.distance:
            nearest.distance = distance
            nearest.features = wp.vec2i(axis_feature(x[2], half_a), k)
            nearest.height = z
        k += 1
    return nearest


@func
def add_limit(
    manifold: Manifold, upper: wp.int32, half_a: real, p: vec3, u: vec3, half_b: real, height: real, reach: real
) -> Manifold:
    """Add the lower (0) or upper (1) end of the overlap, if it is nearer than `reach` and not at `height`."""
    end = real(2 * upper - 1)
    code_b = upper
    end_b = end * half_b
    if u[2] < real(0.0):
        code_b = 1 - upper
        end_b = -end_b
    x = p + end_b * u
    if end * x[2] < half_a:  # B ends first
        if wp.abs(x[2] - height) > real(NEARLY_PARALLEL) * half_a and wp.length(vec3(x[0], x[1], real(0.0))) < reach:
            manifold = add_contact(manifold, CAPSULE_AXIS, code_b, NO_REFERENCE)
        return manifold
    r = vec3(real(0.0), real(0.0), end * half_a) - p
    s = wp.dot(r, u)
    distance = wp.length(r - wp.clamp(s, -half_b, half_b) * u)
    if wp.abs(end * half_a - height) > real(NEARLY_PARALLEL) * half_a and distance < reach:
        manifold = add_contact(manifold, upper, axis_feature(s, half_b), NO_REFERENCE)
    return manifold


@func
def capsule_capsule(X_a: transform, size_a: vec3, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """The nearest features; for nearly parallel axes that overlap, also the other end or ends of the overlap.

    The nearest features are at one end of the overlap, so there are two points, or three if nearly parallel axes
    cross. Points are in order along axis A.
    """
    manifold = Manifold()
    q = wp.transform_get_rotation(X_a)
    p = wp.quat_rotate_inv(q, wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a))
    z = vec3(real(0.0), real(0.0), real(1.0))
    u = wp.quat_rotate_inv(q, wp.quat_rotate(wp.transform_get_rotation(X_b), z))
    half_a, half_b = size_a[1], size_b[1]
    nearest = nearest_axes(half_a, p, u, half_b)
    reach = margin + size_a[0] + size_b[0]
    if nearest.distance >= reach:
        return manifold
    rise = half_b * wp.abs(u[2])
    lower = wp.max(-half_a, p[2] - rise)
    upper = wp.min(half_a, p[2] + rise)
    overlap = u[0] * u[0] + u[1] * u[1] <= real(NEARLY_PARALLEL) and lower < upper
    crossing = nearest.features[0] == CAPSULE_AXIS and nearest.features[1] == CAPSULE_AXIS
    below, above = nearest.height - lower, upper - nearest.height
    if overlap and (crossing or below >= above):
        manifold = add_limit(manifold, 0, half_a, p, u, half_b, nearest.height, reach)
    manifold = add_contact(manifold, nearest.features[0], nearest.features[1], NO_REFERENCE)
    if overlap and (crossing or below < above):
        manifold = add_limit(manifold, 1, half_a, p, u, half_b, nearest.height, reach)
    return manifold
