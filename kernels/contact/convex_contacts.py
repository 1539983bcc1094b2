# SPDX-License-Identifier: Apache-2.0
"""Contacts of the pairs with a cylinder, ellipsoid, mesh or height field.

These kernels are compiled only for models with such pairs; models of simple shapes do without the general code.
`add_convex_contacts` runs after `contacts.detect` and appends to its contacts. So the pairs of plane, sphere, capsule
and box come first, then the pairs of this file, each in the order of the pair table. `contact_geometry` does on the
tape for these pairs what `contact_geometry` in `residual.py` does for simple ones.
"""

import warp as wp

from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6
from ..tree import spatial as sp
from ..tree.passes import Topology
from ..tree.plant import Plant
from .broadphase import Grid
from .contacts import TOUCHES, Moving, flags_of, geom_pose_world, look_ahead, point_velocity, store_contact
from .cull import boxes_apart, next_candidate
from .narrow import heightfield
from .narrow.features import contact_frame
from .narrow.heightfield import detect_general, evaluate
from .narrow.manifold import (
    MAX_POINTS,
    MESH,
    NO_REFERENCE,
    PLANE,
    Manifold,
    add_contact,
    contact_features,
    is_general,
)
from .narrow.nearing import Nearing, fastest, within
from .narrow.resolution import longest_ways
from .narrow.shape import MeshTable, Shape, bounding_radius
from .pair_laws import Contacts, Geoms, Scene, margin_of, parameter_margin, seen_from


@struct
class ConvexScene:
    """The pairs with a general shape, and the geometry of meshes."""

    pair: wp.array(dtype=int)  # rows of the pair table
    geom_mesh: wp.array(dtype=int)  # index of the mesh or height field, -1
    table: MeshTable


@func
def geom_shape(scene: Scene, convex_scene: ConvexScene, geom_size: wp.array2d(dtype=vec3), w: int, g: int):
    s = Shape()
    s.type = scene.geom_type[g]
    s.mesh = convex_scene.geom_mesh[g]
    s.size = geom_size[w % geom_size.shape[0], g]
    return s


@func
def relative_velocity(
    topology: Topology, scene: Scene, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6), w: int,
    p: int, point: vec3,
):  # fmt: skip
    """Velocity of geom B of pair p relative to geom A: linear at `point`, and angular."""
    l_a = scene.geom_link[scene.pair_geom[p, 0]]
    l_b = scene.geom_link[scene.pair_geom[p, 1]]
    linear = point_velocity(topology, link_X, link_V, w, l_b, point)
    linear -= point_velocity(topology, link_X, link_V, w, l_a, point)
    angular = vec3(real(0.0), real(0.0), real(0.0))
    if l_b >= 0:
        angular += sp.angular(link_V[w, l_b])
    if l_a >= 0:
        angular -= sp.angular(link_V[w, l_a])
    return linear, angular


@func
def relative_motion(
    topology: Topology, scene: Scene, h: real, links: Moving, w: int, p: int, middle: vec3, radius: real, reach: real,
    resolved: real,
) -> Nearing:  # fmt: skip
    """Motion of geom B of pair p relative to geom A within h.

    All points of B that may touch lie within `radius` of its middle. The motion is ignored (`within`) if impacts may
    stop either geom, or if it is longer than `resolved`, the longest motion that a step resolves for geoms that part.
    """
    motion = Nearing()
    linear, angular = relative_velocity(topology, scene, links.X, links.V, w, p, middle)
    motion.way = h * linear
    motion.turn = h * angular
    linear_star, angular_star = relative_velocity(topology, scene, links.X, links.V_star, w, p, middle)
    motion.way_star = h * linear_star
    motion.turn_star = h * angular_star
    motion.radius = radius
    motion.margin = wp.max(margin_of(scene, w, p), real(0.0))
    motion.reach = wp.min(reach, motion.margin + fastest(motion))
    if scene.expect_impacts == 1 or fastest(motion) > resolved:
        motion = within(reach)
    return motion


@func
def pair_at(convex_scene: ConvexScene, grid: Grid, w: int, k: int) -> int:
    """Pair at index k of the broad phase's candidates, or without a broad phase of the pairs with a general shape."""
    if grid.capacity > 0:
        return grid.candidate[w * grid.capacity + k]
    return convex_scene.pair[k]


@func
def next_pair(
    scene: Scene, convex_scene: ConvexScene, grid: Grid, geoms: Geoms, h: real, w: int, k: int, pairs: int
) -> int:  # fmt: skip
    """First index from k on, in the list of `pair_at`, of a pair that may meet within h."""
    X = geoms.X[w]
    capsule = geoms.capsule[w]
    speed = geoms.speed[w]
    if grid.capacity > 0:
        return next_candidate(
            1, scene.pair_geom, grid.candidate, w * grid.capacity, scene.geom_type, X, capsule, speed, h, k, pairs
        )
    return next_candidate(1, scene.pair_geom, convex_scene.pair, 0, scene.geom_type, X, capsule, speed, h, k, pairs)


@func
def closing_vertices(
    topology: Topology, scene: Scene, table: MeshTable, links: Moving, h: real, ways: vec2, w: int, p: int,
    shape_a: Shape, X_a: transform, shape_b: Shape, X_b: transform, reach: real, manifold: Manifold,
) -> Manifold:  # fmt: skip
    """The vertices of a mesh that close on a plane within the step, if there is room for all; else `manifold`, which
    may lack the one that closes first."""
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    margin = margin_of(scene, w, p)
    closing = Manifold()
    count = int(0)
    X = wp.transform_multiply(wp.transform_inverse(X_a), X_b)
    height = wp.transform_get_translation(X)[2]
    up = wp.quat_rotate_inv(wp.transform_get_rotation(X), vec3(real(0.0), real(0.0), real(1.0)))
    start = table.mesh_range[shape_b.mesh, 0]
    for k in range(table.mesh_range[shape_b.mesh, 1]):
        if height + wp.dot(up, table.vertex[start + k]) < reach:
            g = evaluate(table, shape_a, X_a, shape_b, X_b, wp.vec3i(0, k, NO_REFERENCE))
            g.phi = g.phi - margin
            if look_ahead(topology, scene, links, h, ways, w, a, b, g) & TOUCHES != 0:
                closing = add_contact(closing, 0, k, NO_REFERENCE)
                count += 1
    if count > MAX_POINTS:
        closing = manifold
    return closing


@kernel
def add_convex_contacts(
    topology: Topology,
    scene: Scene,
    convex_scene: ConvexScene,
    plant: Plant,
    h: real,
    links: Moving,
    grid: Grid,
    geoms: Geoms,
    # in and out
    contacts: Contacts,
):
    """Append the contacts of the convex pairs that exist, or would close within the step. Launch over worlds."""
    w = wp.tid()
    count = contacts.count[w]
    flags = contacts.flags[w]
    capacity = contacts.pair.shape[1]
    pairs = convex_scene.pair.shape[0]
    if grid.capacity > 0:
        pairs = grid.count[w]
    k = int(0)
    while k < pairs:
        k = next_pair(scene, convex_scene, grid, geoms, h, w, k, pairs)
        p = scene.point_pairs
        if k < pairs:
            p = pair_at(convex_scene, grid, w, k)
        near = bool(False)
        if p < scene.point_pairs:
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            reach = seen_from(scene, geoms, h, w, p)
            shape_a = geom_shape(scene, convex_scene, plant.geom_size, w, a)
            shape_b = geom_shape(scene, convex_scene, plant.geom_size, w, b)
            X_a = geoms.X[w, a]
            X_b = geoms.X[w, b]
            radius_b = bounding_radius(shape_b.type, shape_b.size)
            middle = wp.transform_get_translation(X_b)
            ways = longest_ways(shape_a.type, shape_a.size, shape_b.type, shape_b.size)
            motion = relative_motion(
                topology, scene, h, links, w, p, middle, radius_b + reach, reach, ways[1]
            )  # fmt: skip
            apart, along = boxes_apart(shape_a.type, X_a, shape_a.size, shape_b.type, X_b, shape_b.size)
            motion.first = along
            near = apart <= motion.reach
        if near:
            manifold = detect_general(
                convex_scene.table, shape_a, X_a, shape_b, X_b, radius_b, reach, motion, scene.mujoco
            )  # fmt: skip
            margin = margin_of(scene, w, p)
            if contacts.touch.shape[1] > 0 and shape_a.type == PLANE and shape_b.type == MESH:
                manifold = closing_vertices(
                    topology, scene, convex_scene.table, links, h, ways, w, p, shape_a, X_a, shape_b, X_b, reach,
                    manifold,
                )  # fmt: skip
            for i in range(manifold.count):
                feature = contact_features(manifold, i)
                g = evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, feature)
                g.phi = g.phi - margin
                found = look_ahead(topology, scene, links, h, ways, w, a, b, g)
                room = count < capacity
                flags = flags | flags_of(found, room)
                if found & TOUCHES != 0 and room:
                    store_contact(contacts, w, count, p, feature, g)
                    count += 1
        k += 1
    contacts.count[w] = count
    contacts.flags[w] = flags


@kernel(taped=True)
def contact_geometry(
    scene: Scene,
    convex_scene: ConvexScene,
    contacts: Contacts,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    phi: wp.array2d(dtype=real),
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
):
    """Distance, point and frame of the convex contacts at frozen features. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        if p < scene.point_pairs and (is_general(scene.geom_type[a]) or is_general(scene.geom_type[b])):
            X_a = geom_pose_world(scene, plant, link_X, w, a)
            X_b = geom_pose_world(scene, plant, link_X, w, b)
            shape_a = geom_shape(scene, convex_scene, plant.geom_size, w, a)
            shape_b = geom_shape(scene, convex_scene, plant.geom_size, w, b)
            g = heightfield.evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, contacts.feature[w, c])
            phi[w, c] = g.phi - parameter_margin(scene, w, p)
            point[w, c] = g.point
            frame[w, c] = contact_frame(g.normal)
