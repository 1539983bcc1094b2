# SPDX-License-Identifier: Apache-2.0
"""Quantities about a tree's center of mass, as in MuJoCo: inertias (cinert), velocities (cvel), wrenches (cfrc_ext).

In world axes. Each body has, with c the tree's center of mass,

- inertia: Ixx Iyy Izz Ixy Ixz Iyz about c, m (x - c), m;
- velocity: angular velocity, and velocity of the body's point at c;
- wrench: torque about c, and force.
"""

import warp as wp

from ..real import func, kernel, real, transform, vec3, vec6, vec10
from . import spatial as sp
from .passes import Topology


@func
def tree_centre(topology: Topology, link_I: wp.array2d(dtype=vec10), w: int, tree: int) -> vec3:
    """Center of mass of a tree, from its reference point; 0 where the tree has no mass."""
    mass = real(0.0)
    moment = vec3(real(0.0), real(0.0), real(0.0))
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        if topology.link_body[l] >= 0:
            I = link_I[w, l]
            mass += I[0]
            moment += vec3(I[1], I[2], I[3])
    if mass > real(0.0):
        moment = moment / mass
    return moment


@kernel
def about_centre(
    topology: Topology,
    link_X: wp.array2d(dtype=transform),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    # in and out: about the bodies' COMs in, about the trees' centers out
    wrench: wp.array3d(dtype=real),
    # out
    centre: wp.array3d(dtype=real),
    inertia: wp.array3d(dtype=real),
    velocity: wp.array3d(dtype=real),
):
    """The quantities of all bodies of a tree. `centre` is (mass, x, y, z). Launch over (worlds, trees)."""
    w, tree = wp.tid()
    o = wp.transform_get_translation(link_X[w, topology.tree_reference[tree]])
    c = tree_centre(topology, link_I, w, tree)
    mass = real(0.0)
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        body = topology.link_body[l]
        if body >= 0:
            I = link_I[w, l]
            m = I[0]
            mass += m
            h = vec3(I[1], I[2], I[3])  # m times the COM from o
            a = h
            if m > real(0.0):
                a = h / m
            d = a - c
            aa = wp.dot(a, a)
            dd = wp.dot(d, d)
            for i in range(3):
                inertia[w, body, i] = I[4 + i] - m * (aa - a[i] * a[i]) + m * (dd - d[i] * d[i])
                inertia[w, body, 6 + i] = m * d[i]
            inertia[w, body, 3] = I[7] + m * (a[0] * a[1] - d[0] * d[1])
            inertia[w, body, 4] = I[8] + m * (a[0] * a[2] - d[0] * d[2])
            inertia[w, body, 5] = I[9] + m * (a[1] * a[2] - d[1] * d[2])
            inertia[w, body, 9] = m
            V = link_V[w, l]
            turning = sp.angular(V)
            moving = sp.velocity_at(V, c)
            f = vec3(wrench[w, body, 3], wrench[w, body, 4], wrench[w, body, 5])
            torque = wp.cross(d, f)
            for i in range(3):
                velocity[w, body, i] = turning[i]
                velocity[w, body, 3 + i] = moving[i]
                wrench[w, body, i] = wrench[w, body, i] + torque[i]
    centre[w, tree, 0] = mass
    for i in range(3):
        centre[w, tree, 1 + i] = o[i] + c[i]
