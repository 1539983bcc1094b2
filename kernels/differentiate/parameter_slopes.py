# SPDX-License-Identifier: Apache-2.0
"""Columns ∂r/∂p of physical parameters p (theory §3.5), r as in `linearize.py`; none is taped.

Inertias: RNEA is linear in them, ∂r = h S_d · (δI A + V ×* δI V); what they change through the effective masses is added in
`weight_slopes.py`. The laws of springs and contact materials are differentiated in place; those of actuators and of
joints' rows in `actuator_slopes.py`.
"""

import warp as wp

from ..contact import pair_laws
from ..contact.pair_laws import Contacts, Material, Scene, rule_of
from ..laws import cone
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6, vec10
from ..solve.problem import Problem
from ..tree import joints
from ..tree import joints as jt
from ..tree import spatial as sp
from ..tree.passes import Topology
from .contact_slopes import contact_J
from .impulse_slopes import impulse_by_mu, impulse_by_R
from .weight_slopes import Inertias

MASS = wp.constant(0)
COM = wp.constant(1)
INERTIA = wp.constant(2)
ARMATURE = wp.constant(3)


@struct
class Bodies:
    """What inertias are made of."""

    mass: wp.array2d(dtype=real)
    com: wp.array2d(dtype=vec3)
    link_X: wp.array2d(dtype=transform)
    link_V: wp.array2d(dtype=vec6)
    link_A: wp.array2d(dtype=vec6)  # with gravity's share
    dof_S: wp.array2d(dtype=vec6)
    a: wp.array2d(dtype=real)


@struct
class MaterialFirst:
    """First columns, −1 where not asked for."""

    friction: int
    stiffness: int
    dissipation_time: int


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
    """δI of every inertial parameter, and its column but for the effective masses. Launch over (worlds, n)."""
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
    """Gravity acts as an acceleration −g of the world; `composite` inertias of subtrees. Launch over (worlds, nv)."""
    w, d = wp.tid()
    f = sp.linear(sp.momentum(composite[w, topology.dof_link[d]], dof_S[w, d]))
    for k in range(3):
        X[w, d, first + k] = -h * f[k]


@kernel
def damping_columns(h: real, v: wp.array2d(dtype=real), first: int, X: wp.array3d(dtype=real)):
    """Linear damping acts on the new velocity. Launch over (worlds, nv)."""
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
    """K (q − reference): by K and by the reference; either may be −1. Launch over (worlds, links).

    A rotation's deflection log(exp(ref)⁻¹ q) changes by −dlogᵀ dexp(ref) δref: the change comes from the left.
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
def material_columns(
    scene: Scene,
    material: Material,
    contacts: Contacts,
    problem: Problem,
    h: real,
    beta: real,
    weight: wp.array2d(dtype=real),
    u_c: wp.array2d(dtype=vec3),
    G: wp.array2d(dtype=mat33),
    gamma: wp.array2d(dtype=vec3),
    first: MaterialFirst,
    X: wp.array3d(dtype=real),
):
    """Friction, stiffness and dissipation time of the two geoms of every contact that acts. Launch over worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        if G[w, c][2, 2] != real(0.0):
            pair = contacts.pair[w, c]
            R = problem.R[w, c]
            u = u_c[w, c]
            by_mu = impulse_by_mu(problem, w, c, gamma[w, c], u)
            row = w % material.friction.shape[0]
            a = material.friction[row, scene.pair_geom[pair, 0]]
            b = material.friction[row, scene.pair_geom[pair, 1]]
            _rule, by_a, by_b, _explicit = wp.grad(pair_laws.pair_coefficient)(rule_of(scene, pair), a, b, real(0.0))
            shares = vec2(by_a, by_b)
            default = beta * h / real(wp.pi)
            law = pair_laws.pair_compliance(scene, material.stiffness, material.dissipation_time, w, pair, default)
            phi = contacts.phi[w, c]
            span = h
            damped = real(0.0)  # ∂span/∂τ_d
            if phi <= real(0.0):
                span = h + law[1]
                damped = real(1.0)
            floor_w = wp.max(weight[w, c], real(cone.INVERSE_MASS_FLOOR))
            compliant = real(0.0)
            if R[2] > beta * beta * real(cone.INVERSE_FOUR_PI_SQUARED) * floor_w:
                compliant = real(1.0)
            by_R = impulse_by_R(
                problem, w, c, gamma[w, c], u, vec3(real(0.0), real(0.0), real(1.0)), real(0.0), real(0.0)
            )
            v_hat_slope = damped * phi / (span * span)
            by_tau = -compliant * damped * law[0] / (h * span * span) * by_R
            recovery = pair_laws.pair_recovery(contacts.recovery[w, c], law[0])
            if -phi / span > recovery:
                v_hat_slope = real(0.0)
                if recovery >= real(cone.LEAST_RECOVERY_SHARE) * (-phi / span):
                    by_tau = R[2] / span * by_R
            by_tau += v_hat_slope * vec3(G[w, c][0, 2], G[w, c][1, 2], G[w, c][2, 2])
            by_compliance = compliant / (h * span) * by_R
            for side in range(2):
                g = scene.pair_geom[pair, side]
                if first.friction >= 0:
                    add_contact(scene, contacts, w, c, shares[side] * by_mu, first.friction + g, X)
                own = real(1.0) / material.stiffness[w % material.stiffness.shape[0], g]
                share = real(0.5)
                if law[0] > real(0.0):
                    share = own / law[0]
                tau = material.dissipation_time[w % material.dissipation_time.shape[0], g]
                if pair >= scene.point_pairs:  # see `pressure_columns.py`
                    tau = real(wp.nan)
                    own = real(0.0)
                if first.dissipation_time >= 0 and tau == tau:
                    add_contact(scene, contacts, w, c, share * by_tau, first.dissipation_time + g, X)
                if first.stiffness >= 0 and own > real(0.0):
                    if not (tau == tau):
                        tau = default
                    change = by_compliance + ((tau - law[1]) / law[0]) * by_tau
                    add_contact(scene, contacts, w, c, (-own * own) * change, first.stiffness + g, X)


@kernel
def load_columns(
    scene: Scene,
    contacts: Contacts,
    problem: Problem,
    gravity: wp.array(dtype=vec3),
    body_mass: wp.array2d(dtype=real),
    u_c: wp.array2d(dtype=vec3),
    gamma: wp.array2d(dtype=vec3),
    first_gravity: int,
    first_mass: int,
    X: wp.array3d(dtype=real),
):
    """Gravity in γ_0 = |g| h/(2 w), from which on near-rigid contact stiffens, and masses in σ_m = 1/(w M), down to which; either
    may be −1. Launch over worlds."""
    w = wp.tid()
    g = gravity[w % gravity.shape[0]]
    mass = pair_laws.total_mass(body_mass, w)
    for c in range(contacts.count[w]):
        load = problem.load[w, c]
        least = problem.least[w, c]
        if least < real(1.0) and gamma[w, c][2] > load:
            if first_gravity >= 0 and load > real(0.0):
                by_load = impulse_by_R(problem, w, c, gamma[w, c], u_c[w, c], vec3(), load, real(0.0))
                for k in range(3):
                    add_contact(scene, contacts, w, c, (g[k] / wp.dot(g, g)) * by_load, first_gravity + k, X)
            if first_mass >= 0:
                by_mass = impulse_by_R(problem, w, c, gamma[w, c], u_c[w, c], vec3(), real(0.0), -least / mass)
                for b in range(body_mass.shape[1]):
                    add_contact(scene, contacts, w, c, by_mass, first_mass + b, X)
