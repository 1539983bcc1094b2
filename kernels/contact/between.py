# SPDX-License-Identifier: Apache-2.0
"""Contact geometry within the step: points and normals at q^θ of the features found at q0 (midpoint rule).

φ keeps its value at q0. The contact law needs the distance at the end of the step, φ0 + h v_n, and n·v at the middle
of the step is the mean rate of φ to second order. A contact keeps its geometry of q0 if its normal turns by more than
60° (the free motion carries a small body past the centre of another). So does hydroelastic contact.
"""

import warp as wp

from ..real import func, kernel, real, transform, vec3, vec6
from ..tree.passes import Topology
from ..tree.plant import Plant
from . import contacts as contact
from . import convex_contacts as shapes
from .contacts import write_jacobian
from .convex_contacts import ConvexScene
from .narrow import features
from .narrow import heightfield as narrow
from .narrow.features import ContactGeometry, contact_frame
from .narrow.manifold import is_general
from .pair_laws import Contacts, Scene

LEAST_COSINE = 0.5  # between the normals at q0 and at q^θ


@func
def move_contact(
    topology: Topology,
    scene: Scene,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    w: int,
    c: int,
    g: ContactGeometry,
    contacts: Contacts,
    moved: wp.array2d(dtype=int),
):
    """Write point, frame and Jacobian of contact c from its geometry g, unless its normal has turned too far."""
    frame = contacts.frame[w, c]
    moved[w, c] = 0
    if wp.dot(g.normal, vec3(frame[0, 2], frame[1, 2], frame[2, 2])) > real(LEAST_COSINE):
        contacts.point[w, c] = g.point
        contacts.frame[w, c] = contact_frame(g.normal)
        write_jacobian(topology, scene, link_X, dof_S, w, c, 0, contacts.J.shape[3], contacts)
        moved[w, c] = 1


@kernel
def follow(
    topology: Topology,
    scene: Scene,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    # in and out
    contacts: Contacts,
    # out
    moved: wp.array2d(dtype=int),
):
    """Move contacts to q^θ: `moved` is 1, or 0 if the geometry of q0 is kept. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p >= scene.point_pairs:
            moved[w, c] = 0
        elif not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
            size = plant.geom_size
            row = w % size.shape[0]
            X_a = contact.geom_pose_world(scene, plant, link_X, w, a)
            X_b = contact.geom_pose_world(scene, plant, link_X, w, b)
            g = features.evaluate(
                scene.geom_type[a], X_a, size[row, a], scene.geom_type[b], X_b, size[row, b],
                contacts.feature[w, c],
            )  # fmt: skip
            move_contact(topology, scene, link_X, dof_S, w, c, g, contacts, moved)


@kernel(part="convex")
def follow_convex(
    convex_scene: ConvexScene,
    topology: Topology,
    scene: Scene,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    # in and out
    contacts: Contacts,
    # out
    moved: wp.array2d(dtype=int),
):
    """`follow` for pairs with a general shape (`manifold.is_general`). Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p < scene.point_pairs and (is_general(scene.geom_type[a]) or is_general(scene.geom_type[b])):
            X_a = contact.geom_pose_world(scene, plant, link_X, w, a)
            X_b = contact.geom_pose_world(scene, plant, link_X, w, b)
            shape_a = shapes.geom_shape(scene, convex_scene, plant.geom_size, w, a)
            shape_b = shapes.geom_shape(scene, convex_scene, plant.geom_size, w, b)
            g = narrow.evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, contacts.feature[w, c])
            move_contact(topology, scene, link_X, dof_S, w, c, g, contacts, moved)
