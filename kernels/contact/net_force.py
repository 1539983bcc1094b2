# SPDX-License-Identifier: Apache-2.0
"""Net contact forces and wrenches of the last step."""

import warp as wp

from ..real import func, kernel, real, transform, vec3
from ..tree.passes import Topology
from .pair_laws import Contacts, Scene


@kernel
def net_force(
    scene: Scene,
    contacts: Contacts,
    gamma: wp.array2d(dtype=vec3),
    h: real,
    owner: wp.array(dtype=int),
    # out
    force: wp.array2d(dtype=vec3),
):
    """Sum of gamma/h in world axes over the contacts of each owner (-1: no owner). `force` must be zero on entry."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        f = contacts.frame[w, c] * gamma[w, c] / h
        a = owner[scene.pair_geom[p, 0]]
        b = owner[scene.pair_geom[p, 1]]
        if a >= 0:
            force[w, a] = force[w, a] - f
        if b >= 0:
            force[w, b] = force[w, b] + f


@func
def add_wrench(
    f: vec3,
    point: vec3,
    body: int,
    topology: Topology,
    body_com: wp.array2d(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    w: int,
    # out
    wrench: wp.array3d(dtype=real),
):
    """Add the force f at a point to the wrench of a body: torque about its COM, then force."""
    com = wp.transform_point(link_X[w, topology.body_link[body]], body_com[w % body_com.shape[0], body])
    torque = wp.cross(point - com, f)
    for i in range(3):
        wrench[w, body, i] = wrench[w, body, i] + torque[i]
        wrench[w, body, 3 + i] = wrench[w, body, 3 + i] + f[i]


@kernel
def net_wrench(
    scene: Scene,
    contacts: Contacts,
    gamma: wp.array2d(dtype=vec3),
    h: real,
    geom_body: wp.array(dtype=int),
    topology: Topology,
    body_com: wp.array2d(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    # out
    wrench: wp.array3d(dtype=real),
):
    """Sum of gamma/h over the contacts of each body: (torque about the COM, force) in world axes.

    `wrench` must be zero on entry.
    """
    w = wp.tid()
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        f = contacts.frame[w, c] * gamma[w, c] / h
        a = geom_body[scene.pair_geom[p, 0]]
        b = geom_body[scene.pair_geom[p, 1]]
        if a >= 0:
            add_wrench(-f, contacts.point[w, c], a, topology, body_com, link_X, w, wrench)
        if b >= 0:
            add_wrench(f, contacts.point[w, c], b, topology, body_com, link_X, w, wrench)
