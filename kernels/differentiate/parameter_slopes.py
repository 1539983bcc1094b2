# SPDX-License-Identifier: Apache-2.0
"""Columns ∂r/∂p of physical parameters p (theory §3.5), with r as in `linearize.py`. None of this is taped.

RNEA is linear in the inertias, ∂r = h S_d · (δI A + V ×* δI V). `weight_slopes.py` adds what they change through the
effective masses. Springs are differentiated here. The slopes of contacts come from `contact_slopes.py`, those of
actuators and joint rows from `actuator_slopes.py`.
"""

import warp as wp

from ..contact.pair_laws import Contacts, Scene
from ..laws.contact_law import ContactState
from ..real import func, kernel, mat33, real, struct, transform, vec3, vec6, vec10
from ..tree import joints
from ..tree import joints as jt
from ..tree import spatial as sp
from ..tree.passes import Topology
from .contact_slopes import contact_J
from .weight_slopes import Inertias

MASS = wp.constant(0)
COM = wp.constant(1)
INERTIA = wp.constant(2)
ARMATURE = wp.constant(3)


@struct
class Bodies:
    """The parameters and kinematics that the inertia columns read."""

    mass: wp.array2d(dtype=real)
    com: wp.array2d(dtype=vec3)
    link_X: wp.array2d(dtype=transform)
    link_V: wp.array2d(dtype=vec6)
    link_A: wp.array2d(dtype=vec6)  # includes gravity
    dof_S: wp.array2d(dtype=vec6)
    a: wp.array2d(dtype=real)


@struct
class ContactFirst:
    """First columns, −1 if not asked for. Gravity and masses are those that Coulomb's law depends on."""

    friction: int
    stiffness: int
    dissipation_time: int
    friction_dynamic: int
    friction_velocity: int
    gravity: int
    body_mass: int


@func
def inertia_slope(topology: Topology, bodies: Bodies, w: int, kind: int, body: int, component: int) -> vec10:
    """Change of a body's inertia about its tree's reference point."""
    l = topology.body_link[body]
    X = bodies.link_X[w, l]
    R = wp.quat_to_matrix(wp.transform_get_rotation(X))
    o = wp.transform_get_translation(bodies.link_X[w, topology.tree_reference[topology.link_tree[l]]])
    com = wp.transform_point(X, bodies.com[w % bodies.com.shape[0], body]) - o
    E = mat33()
    slope = vec10()
    if kind == MASS:
        slope = sp.rigid_inertia(real(1.0), com, R, E)
    elif kind == COM:  # quadratic in the COM, so that a central difference is exact
        mass = bodies.mass[w % bodies.mass.shape[0], body]
        axis = vec3(R[0, component], R[1, component], R[2, component])
        slope = real(0.5) * (sp.rigid_inertia(mass, com + axis, R, E) - sp.rigid_inertia(mass, com - axis, R, E))
    else:
        E[component // 3, component % 3] = real(1.0)
        slope = sp.rigid_inertia(real(0.0), com, R, E)
    return slope


@kernel
def inertia_columns(
    topology: Topology,
    h: real,
    bodies: Bodies,
    kind: wp.array(dtype=int),
    index: wp.array(dtype=int),
    component: wp.array(dtype=int),
    # out
    inertias: Inertias,
    X: wp.array3d(dtype=real),
):
    """δI of every inertial parameter, and its column without the effective masses. Launch over (worlds, n)."""
    w, k = wp.tid()
    column = inertias.first + k
    if kind[k] == ARMATURE:
        d = index[k]
        inertias.I[w, k] = vec10(
            real(1.0), real(0.0), real(0.0), real(0.0), real(0.0), real(0.0), real(0.0), real(0.0), real(0.0), real(0.0)
        )
        X[w, d, column] = h * bodies.a[w, d]
    else:
        I = inertia_slope(topology, bodies, w, kind[k], index[k], component[k])
        inertias.I[w, k] = I
        l = inertias.link[k]
        V = bodies.link_V[w, l]
        f = h * (sp.momentum(I, bodies.link_A[w, l]) + sp.cross_force(V, sp.momentum(I, V)))
        d = topology.link_dof[l]
        while d >= 0:
            X[w, d, column] = wp.dot(bodies.dof_S[w, d], f)
            d = topology.dof_parent[d]


@kernel
def gravity_columns(
    topology: Topology,
    h: real,
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    first: int,
    X: wp.array3d(dtype=real),
):
    """Columns of gravity, which acts as an acceleration −g of the world.

    `composite`: inertias of subtrees. Launch over (worlds, nv).
    """
    w, d = wp.tid()
    f = sp.linear(sp.momentum(composite[w, topology.dof_link[d]], dof_S[w, d]))
    for k in range(3):
        X[w, d, first + k] = -h * f[k]


@kernel
def damping_columns(h: real, v: wp.array2d(dtype=real), first: int, X: wp.array3d(dtype=real)):
    """Columns of linear damping, which acts on the new velocity. Launch over (worlds, nv)."""
    w, d = wp.tid()
    X[w, d, first + d] = h * v[w, d]


@kernel
def spring_parameter_columns(
    topology: Topology,
    h: real,
    stiffness: wp.array2d(dtype=real),
    reference: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    first_stiffness: int,
    first_reference: int,
    X: wp.array3d(dtype=real),
):
    """Columns of K (q − reference), with respect to K and to the reference; either may be −1.

    A rotation's deflection log(exp(ref)⁻¹ q) changes by −dlogᵀ dexp(ref) δref, because the change comes from the left.
    Launch over (worlds, links).
    """
    w, l = wp.tid()
    kind = topology.link_type[l]
    j = topology.link_v[l]
    n = jt.dofs(kind)
    if n == 0:
        return
    x = joints.spring_deflection(kind, q, reference, w, topology.link_q[l], j)
    row = w % stiffness.shape[0]
    for i in range(n):
        if first_stiffness >= 0:
            X[w, j + i, first_stiffness + j + i] = h * x[i]
        if first_reference >= 0:
            X[w, j + i, first_reference + j + i] = -h * stiffness[row, j + i]
    if first_reference >= 0 and n >= 3:
        m = n - 3
        j += m
        r = w % reference.shape[0]
        rest = vec3(reference[r, j], reference[r, j + 1], reference[r, j + 2])
        turn = wp.transpose(jt.rotation_dlog(vec3(x[m], x[m + 1], x[m + 2]))) * jt.rotation_dexp(rest)
        for i in range(3):
            for e in range(3):
                X[w, j + i, first_reference + j + e] = -h * stiffness[row, j + i] * turn[i, e]


@func
def add_contact(scene: Scene, contacts: Contacts, w: int, c: int, change: vec3, column: int, X: wp.array3d(dtype=real)):
    """X −= Jᵀ δγ, one column."""
    row = contacts.row[w, c]
    for k in range(scene.support_size[row]):
        d = scene.support[row, k]
        X[w, d, column] = X[w, d, column] - wp.dot(contact_J(contacts, w, c, k), change)


@kernel
def contact_parameter_columns(
    scene: Scene,
    contacts: Contacts,
    law: wp.array3d(dtype=ContactState),
    G: wp.array2d(dtype=mat33),
    first: ContactFirst,
    bodies: int,
    X: wp.array3d(dtype=real),
):
    """Columns of the parameters in the law of every active contact.

    These are the parameters of its two geoms, gravity, and the mass of the world, to which every body's mass adds.
    Launch over worlds.
    """
    w = wp.tid()
    for c in range(contacts.count[w]):
        if G[w, c][2, 2] != real(0.0):
            x = law[w, c, 0]
            y = law[w, c, 1]
            z = law[w, c, 2]
            a = scene.pair_geom[contacts.pair[w, c], 0]
            b = scene.pair_geom[contacts.pair[w, c], 1]
            if first.friction >= 0:
                by_a = vec3(x.friction.a, y.friction.a, z.friction.a)
                add_contact(scene, contacts, w, c, by_a, first.friction + a, X)
                by_b = vec3(x.friction.b, y.friction.b, z.friction.b)
                add_contact(scene, contacts, w, c, by_b, first.friction + b, X)
            for side in range(2):
                g = wp.where(side == 0, a, b)
                if first.stiffness >= 0:
                    by = vec3(x.stiffness[side], y.stiffness[side], z.stiffness[side])
                    add_contact(scene, contacts, w, c, by, first.stiffness + g, X)
                if first.dissipation_time >= 0:
                    by = vec3(x.dissipation_time[side], y.dissipation_time[side], z.dissipation_time[side])
                    add_contact(scene, contacts, w, c, by, first.dissipation_time + g, X)
                if first.friction_dynamic >= 0:
                    by = vec3(x.friction.dynamic[side], y.friction.dynamic[side], z.friction.dynamic[side])
                    add_contact(scene, contacts, w, c, by, first.friction_dynamic + g, X)
                if first.friction_velocity >= 0:
                    by = vec3(x.friction.velocity[side], y.friction.velocity[side], z.friction.velocity[side])
                    add_contact(scene, contacts, w, c, by, first.friction_velocity + g, X)
            if first.gravity >= 0:
                for k in range(3):
                    by = vec3(x.gravity[k], y.gravity[k], z.gravity[k])
                    add_contact(scene, contacts, w, c, by, first.gravity + k, X)
            if first.body_mass >= 0:
                for k in range(bodies):
                    add_contact(scene, contacts, w, c, vec3(x.mass, y.mass, z.mass), first.body_mass + k, X)
