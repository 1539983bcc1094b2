# SPDX-License-Identifier: Apache-2.0
"""Feature contacts of two geoms: dispatch over the pairs of plane, sphere, capsule and box.

The result is discrete and has no derivatives. `features.evaluate` computes distance, point and normal of each contact.
"""

import warp as wp

from ...real import func, real, transform, vec3
from .box import box_box
from .capsule import capsule_capsule
from .capsule_box import capsule_box as capsule_box_contacts
from .manifold import BOX, CAPSULE, PLANE, SPHERE, Manifold
from .plane import plane_box, plane_capsule, plane_sphere
from .sphere import sphere_box, sphere_capsule, sphere_sphere


@func
def detect_features(
    type_a: wp.int32, X_a: transform, size_a: vec3, type_b: wp.int32, X_b: transform, size_b: vec3, margin: real,
    mujoco: int,
) -> Manifold:  # fmt: skip
    """Feature contacts with φ < margin between two geoms, type_a ≤ type_b, in deterministic order.

    Types and sizes are MuJoCo's; X_a and X_b are world poses. The first contact of a curved pair is the nearest one.
    A pair without a function (plane–plane) gives an empty manifold. `mujoco` 1: a box on a plane or a box has MuJoCo's.
    """
    if type_a == PLANE:
        if type_b == SPHERE:
            return plane_sphere(X_a, X_b, size_b, margin)
        if type_b == CAPSULE:
            return plane_capsule(X_a, X_b, size_b, margin)
        if type_b == BOX:
            return plane_box(X_a, X_b, size_b, margin, mujoco)
    if type_a == SPHERE:
        if type_b == SPHERE:
            return sphere_sphere(X_a, size_a, X_b, size_b, margin)
        if type_b == CAPSULE:
            return sphere_capsule(X_a, size_a, X_b, size_b, margin)
        if type_b == BOX:
            return sphere_box(X_a, size_a, X_b, size_b, margin)
    if type_a == CAPSULE:
        if type_b == CAPSULE:
            return capsule_capsule(X_a, size_a, X_b, size_b, margin)
        if type_b == BOX:
            return capsule_box_contacts(X_a, size_a, X_b, size_b, margin)
    if type_a == BOX and type_b == BOX:
        return box_box(X_a, size_a, X_b, size_b, margin, mujoco)
    return Manifold()
