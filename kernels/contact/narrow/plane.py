# SPDX-License-Identifier: Apache-2.0
"""Contacts of a plane (geom A) with a sphere, capsule or box: geom B's features near the plane, in code order."""

import warp as wp

from ...real import func, real, transform, vec3
from .features import box_signs
from .manifold import NO_REFERENCE, Manifold, add_contact


@func
def plane_sphere(X_a: transform, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """The sphere's lowest point."""
    manifold = Manifold()
    center = wp.transform_point(wp.transform_inverse(X_a), wp.transform_get_translation(X_b))
    if center[2] - size_b[0] < margin:
        manifold = add_contact(manifold, 0, 0, NO_REFERENCE)
    return manifold


@func
def plane_capsule(X_a: transform, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """The lowest points of both end balls."""
    manifold = Manifold()
    X = wp.transform_multiply(wp.transform_inverse(X_a), X_b)
    half_axis = wp.transform_vector(X, vec3(real(0.0), real(0.0), size_b[1]))
    height = wp.transform_get_translation(X)[2] - size_b[0]
    if height - half_axis[2] < margin:
        manifold = add_contact(manifold, 0, 0, NO_REFERENCE)
    if height + half_axis[2] < margin:
        manifold = add_contact(manifold, 0, 1, NO_REFERENCE)
    return manifold


@func
def plane_box(X_a: transform, X_b: transform, size_b: vec3, margin: real, mujoco: int) -> Manifold:
    """All vertices of the box nearer than the margin; with `mujoco` 1 at most four, and none above the center."""
    manifold = Manifold()
    X = wp.transform_multiply(wp.transform_inverse(X_a), X_b)
    slope = wp.quat_rotate_inv(wp.transform_get_rotation(X), vec3(real(0.0), real(0.0), real(1.0)))
    height = wp.transform_get_translation(X)[2]
    code = wp.int32(0)
    while code < 8:
        rise = wp.dot(slope, wp.cw_mul(box_signs(code), size_b))
        kept = mujoco == 0 or (rise <= real(0.0) and manifold.count < 4)
        if height + rise < margin and kept:
            manifold = add_contact(manifold, 0, code, NO_REFERENCE)
        code += 1
    return manifold
