# SPDX-License-Identifier: Apache-2.0
"""How distance, point and normal of a contact change as geom B moves past geom A, with the features frozen.

Row i of `slope` is the gradient of component i of (φ, p, n) with respect to the motion (ω; u) of B about the contact
point: one adjoint of `features.evaluate` per row. Motions of A follow from it, because a motion of both geoms moves
everything along.
"""

import warp as wp

from ..contact import convex_contacts as shapes
from ..contact.convex_contacts import ConvexScene
from ..contact.narrow.features import ContactGeometry, evaluate
from ..contact.narrow.heightfield import evaluate as evaluate_convex
from ..contact.narrow.manifold import is_general
from ..contact.pair_laws import Contacts, Scene
from ..real import func, kernel, real, transform, vec3, vec6
from ..tree import spatial as sp

ROWS = 7  # φ, p, n


@func
def component(g: ContactGeometry, i: int) -> real:
    """Component i of (φ, p, n)."""
    x = g.phi
    if i > 3:
        x = g.normal[i - 4]
    elif i > 0:
        x = g.point[i - 1]
    return x


@kernel(taped=True)
def vary(
    scene: Scene,
    contacts: Contacts,
    geom_size: wp.array2d(dtype=vec3),
    geom_X: wp.array2d(dtype=transform),
    motion: wp.array3d(dtype=vec6),
    # out
    value: wp.array3d(dtype=real),
):
    """One component of (φ, p, n) after a motion of geom B. Its adjoint: launch over (worlds, max_contacts, ROWS)."""
    w, c, i = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p < scene.point_pairs and not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
            row = w % geom_size.shape[0]
            X_b = sp.moved(geom_X[w, b], contacts.point[w, c], motion[w, c, i])
            g = evaluate(
                scene.geom_type[a], geom_X[w, a], geom_size[row, a], scene.geom_type[b], X_b, geom_size[row, b],
                contacts.feature[w, c],
            )  # fmt: skip
            value[w, c, i] = component(g, i)


@kernel(taped=True, part="convex")
def vary_convex(
    scene: Scene,
    convex_scene: ConvexScene,
    contacts: Contacts,
    geom_size: wp.array2d(dtype=vec3),
    geom_X: wp.array2d(dtype=transform),
    motion: wp.array3d(dtype=vec6),
    # out
    value: wp.array3d(dtype=real),
):
    """`vary` for convex pairs."""
    w, c, i = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p < scene.point_pairs and (is_general(scene.geom_type[a]) or is_general(scene.geom_type[b])):
            X_b = sp.moved(geom_X[w, b], contacts.point[w, c], motion[w, c, i])
            shape_a = shapes.geom_shape(scene, convex_scene, geom_size, w, a)
            shape_b = shapes.geom_shape(scene, convex_scene, geom_size, w, b)
            g = evaluate_convex(convex_scene.table, shape_a, geom_X[w, a], shape_b, X_b, contacts.feature[w, c])
            value[w, c, i] = component(g, i)
