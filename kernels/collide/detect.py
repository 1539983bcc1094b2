"""Which features of two geoms touch: dispatch over the pairs of plane, sphere, capsule and box.

The result is discrete and not differentiated; `features.evaluate` gives distance, point and normal of each contact.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels.cache import cached
from warpsim.kernels.collide import box, capsule, capsule_box, plane, sphere
from warpsim.kernels.collide.manifold import BOX, CAPSULE, PLANE, SPHERE, Manifold
from warpsim.kernels.precision import types


@cached
def build(S) -> SimpleNamespace:
    """The functions of this file for scalar type S."""
    t = types(S)
    vec3, transform = t.vec3, t.transform
    planes, spheres, capsules = plane.build(S), sphere.build(S), capsule.build(S)
    plane_sphere, plane_capsule, plane_box = planes.plane_sphere, planes.plane_capsule, planes.plane_box
    sphere_sphere, sphere_capsule, sphere_box = spheres.sphere_sphere, spheres.sphere_capsule, spheres.sphere_box
    capsule_capsule, capsule_box_contacts = capsules.capsule_capsule, capsule_box.build(S).capsule_box
    box_box = box.build(S).box_box

    @wp.func
    def detect(
        type_a: wp.int32, X_a: transform, size_a: vec3, type_b: wp.int32, X_b: transform, size_b: vec3, margin: S
    ) -> Manifold:
        """Feature contacts with φ < margin between two geoms, type_a ≤ type_b, in deterministic order.

        Types and sizes are MuJoCo's, X_a and X_b world poses. The first contact of a curved pair is the nearest one.
        Pairs without a function (plane–plane) give an empty manifold.
        """
        if type_a == PLANE:
            if type_b == SPHERE:
                return plane_sphere(X_a, X_b, size_b, margin)
            if type_b == CAPSULE:
                return plane_capsule(X_a, X_b, size_b, margin)
            if type_b == BOX:
                return plane_box(X_a, X_b, size_b, margin)
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
            return box_box(X_a, size_a, X_b, size_b, margin)
        return Manifold()

    return SimpleNamespace(detect=detect)
