# SPDX-License-Identifier: Apache-2.0
"""Contacts of a sphere (geom A) with a sphere, capsule or box: the feature of geom B nearest to A's centre."""

import warp as wp

from ...real import func, real, transform, vec3
from .box_core import box_distance, nearest_box_feature
from .manifold import CAPSULE_AXIS, NO_REFERENCE, Manifold, add_contact


@func
def sphere_sphere(X_a: transform, size_a: vec3, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    manifold = Manifold()
    offset = wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a)
    if wp.length(offset) - size_a[0] - size_b[0] < margin:
        manifold = add_contact(manifold, 0, 0, NO_REFERENCE)
    return manifold


@func
def sphere_capsule(X_a: transform, size_a: vec3, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """The nearest feature of the capsule's axis: an end or the interior."""
    manifold = Manifold()
    offset = wp.transform_get_translation(X_a) - wp.transform_get_translation(X_b)
    x = wp.quat_rotate_inv(wp.transform_get_rotation(X_b), offset)
    nearest = wp.clamp(x[2], -size_b[1], size_b[1])
    if wp.length(vec3(x[0], x[1], x[2] - nearest)) - size_a[0] - size_b[0] < margin:
        code = CAPSULE_AXIS
        if x[2] < -size_b[1]:
            code = 0
        if x[2] > size_b[1]:
            code = 1
        manifold = add_contact(manifold, 0, code, NO_REFERENCE)
    return manifold


@func
def sphere_box(X_a: transform, size_a: vec3, X_b: transform, size_b: vec3, margin: real) -> Manifold:
    """The box feature whose Voronoi region holds the sphere's centre; the nearest face if the centre is inside."""
    manifold = Manifold()
    offset = wp.transform_get_translation(X_a) - wp.transform_get_translation(X_b)
    x = wp.quat_rotate_inv(wp.transform_get_rotation(X_b), offset)
    if box_distance(x, size_b) - size_a[0] < margin:
        manifold = add_contact(manifold, 0, nearest_box_feature(x, size_b), NO_REFERENCE)
    return manifold
