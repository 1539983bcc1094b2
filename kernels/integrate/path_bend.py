# SPDX-License-Identifier: Apache-2.0
"""The bend of paths within a step: touching rigid contacts have the bound v_n ≥ −hκ, κ = n · J̇v (theory (2.11)).

κ is the acceleration of the gap at constant v, for example of a ball that rolls over a curved surface. hκ is twice the
change of v_n from q to q ⊕ ½ h v, with the contact's geometry there by its features.
"""

import warp as wp

from ..contact.between import LEAST_COSINE
from ..contact.contacts import Moving, geom_pose_world, normal_speed, point_velocity
from ..contact.convex_contacts import ConvexScene, geom_shape
from ..contact.narrow import features, heightfield
from ..contact.narrow.features import ContactGeometry
from ..contact.narrow.manifold import is_general
from ..contact.pair_laws import Contacts, Geoms, Scene, margin_of
from ..linalg.lanes import lane, lanes, sync
from ..real import func, kernel, real, transform, vec3, vec6
from ..tree import joints
from ..tree.passes import Topology, place_axes, team_move, team_place
from ..tree.plant import Plant
from .impacts import Rule, is_rigid

# The features of a contact hold no whole step where its point moves faster than this times the points of its geoms, as
# that of edges that are almost parallel does.
RUNS = 3.0
BEND_ROUNDING = {wp.float32: 6e-5, wp.float64: 1e-13}  # of the points' speed
bend_rounding = float(BEND_ROUNDING[real])


@kernel(part="place", lanes=True, shares="tree", registers=128)
def place(
    topology: Topology,
    plant: Plant,
    t: real,
    wanted: wp.array(dtype=int),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    q_at: wp.array2d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    link_V: wp.array2d(dtype=vec6),
):
    """q_at = q ⊕ t v, and the poses, motion subspaces and velocities at v of the links of a tree there.

    Nothing in worlds whose `wanted` is 0. Launch over (worlds, trees, lanes).
    """
    w, tree, _lane = wp.tid()
    if wanted[w] == 0:
        return
    for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
        joints.advance(topology.link_type[l], q, v, t, w, topology.link_q[l], topology.link_v[l], q_at)
    sync()
    team_place(topology, plant, q_at, w, tree, link_X)
    for l in range(topology.tree_link[tree] + lane(), topology.tree_link[tree + 1], lanes()):
        place_axes(topology, plant, link_X, w, l, dof_S)
    sync()
    team_move(topology, dof_S, v, w, tree, link_V)


@func
def bend_of(
    topology: Topology,
    rule: Rule,
    scene: Scene,
    links: Moving,
    geoms: Geoms,
    contacts: Contacts,
    v: wp.array2d(dtype=real),
    w: int,
    c: int,
    p: int,
    g: ContactGeometry,
) -> real:
    """hκ of contact c, the change of v_n within the step at constant v, where g is its geometry at q ⊕ ½ h v; 0 where
    it is rounding, where the contact opens, and where that geometry does not hold."""
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    found = real(0.0)
    frame = contacts.frame[w, c]
    if wp.dot(g.normal, vec3(frame[0, 2], frame[1, 2], frame[2, 2])) > real(LEAST_COSINE):
        u = point_velocity(topology, links.X, links.V, w, scene.geom_link[b], g.point)
        u -= point_velocity(topology, links.X, links.V, w, scene.geom_link[a], g.point)
        rate0 = normal_speed(scene, contacts, w, c, v[w])
        rate = wp.dot(g.normal, u)
        found = real(2.0) * (rate - rate0)
        fastest = geoms.speed[w, a] + geoms.speed[w, b]
        least = wp.max(rule.least, real(bend_rounding) * fastest)
        half = rule.half
        bent = g.phi - margin_of(scene, w, p) - contacts.phi[w, c] - half * rate0
        off = wp.abs(bent - real(0.25) * half * found)  # from the parabola
        opens = rate > real(0.0) and found < real(0.0)
        if (
            opens
            or wp.abs(found) <= least
            or wp.length(g.point - contacts.point[w, c]) > real(RUNS) * half * fastest
            or off > wp.abs(real(0.125) * half * found) + real(0.01) * rule.window
        ):
            found = real(0.0)
    return found


@kernel(lanes=True)
def bend(
    topology: Topology, rule: Rule, scene: Scene, plant: Plant, stiffness: wp.array2d(dtype=real), links: Moving,
    geoms: Geoms, v: wp.array2d(dtype=real), wanted: wp.array(dtype=int),
    # in and out
    contacts: Contacts,
):  # fmt: skip
    """v_n ≥ −hκ instead of 0 for rigid contacts that touch. `links`: at q ⊕ ½ h v. Nothing in worlds whose `wanted` is
    0. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    if wanted[w] == 0:
        return
    for c in range(lane(), contacts.count[w], lanes()):
        p = contacts.pair[w, c]
        if touches(rule, scene, stiffness, contacts, v, w, c):
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
                size = plant.geom_size
                row = w % size.shape[0]
                X_a = geom_pose_world(scene, plant, links.X, w, a)
                X_b = geom_pose_world(scene, plant, links.X, w, b)
                g = features.evaluate(
                    scene.geom_type[a],
                    X_a,
                    size[row, a],
                    scene.geom_type[b],
                    X_b,
                    size[row, b],
                    contacts.feature[w, c],
                )
                contacts.bend[w, c] = bend_of(topology, rule, scene, links, geoms, contacts, v, w, c, p, g)


@kernel(part="convex", lanes=True)
def bend_convex(
    convex_scene: ConvexScene, topology: Topology, rule: Rule, scene: Scene, plant: Plant,
    stiffness: wp.array2d(dtype=real), links: Moving, geoms: Geoms,
    v: wp.array2d(dtype=real), wanted: wp.array(dtype=int),
    # in and out
    contacts: Contacts,
):  # fmt: skip
    """`bend` for pairs with a general shape. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    if wanted[w] == 0:
        return
    for c in range(lane(), contacts.count[w], lanes()):
        p = contacts.pair[w, c]
        if touches(rule, scene, stiffness, contacts, v, w, c):
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if is_general(scene.geom_type[a]) or is_general(scene.geom_type[b]):
                X_a = geom_pose_world(scene, plant, links.X, w, a)
                X_b = geom_pose_world(scene, plant, links.X, w, b)
                shape_a = geom_shape(scene, convex_scene, plant.geom_size, w, a)
                shape_b = geom_shape(scene, convex_scene, plant.geom_size, w, b)
                g = heightfield.evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, contacts.feature[w, c])
                contacts.bend[w, c] = bend_of(topology, rule, scene, links, geoms, contacts, v, w, c, p, g)


@func
def touches(
    rule: Rule,
    scene: Scene,
    stiffness: wp.array2d(dtype=real),
    contacts: Contacts,
    v: wp.array2d(dtype=real),
    w: int,
    c: int,
) -> bool:
    """Whether contact c is rigid, touches and does not approach fast."""
    found = bool(False)
    if wp.abs(contacts.phi[w, c]) <= rule.window and is_rigid(scene, stiffness, w, contacts.pair[w, c]):
        found = normal_speed(scene, contacts, w, c, v[w]) >= -rule.speed
    return found
