# SPDX-License-Identifier: Apache-2.0
"""What the configuration changes about contact impulses: the contacts' part of the columns ∂r/∂q (theory §3.5).

A contact puts the wrench f = Fγ at its point p on body B and −f on A. Dof e of its support (those that move one body and not
the other) moves the one on side s = ±1 with the twist (ω; u) at p. Features frozen, that changes φ, p and n
(`contact_variation.py`), turns the frame by θ = n × δn (its spin about n does not matter, friction is isotropic), and

    δv_c = Fᵀ(δ(V_B − V_A)(p) − θ × u_c),   δγ = −G (δv_c − δv̂),   δf = θ × f + F δγ,   δ(moment about p) = δp × f.

The generalised force Σ S_d·wrench changes also because S_d turns with e where e moves d: (S_e × S_d)·f = −S_d·(S_e ×* f),
so that there the change counts as seen from the moving body. Dofs that move both bodies change nothing here. Contact that
recovers from overlap has a v̂ that is fixed and an R ∝ 1/φ, δγ += ∂γ/∂R δR. The change of R with the effective mass is in
`weight_slopes.py`. Contact between pressure fields has a compliance c and a time τ_d that change too: v̂ = −φ/(h + τ_d), and R_n = c/(h (h + τ_d))
where that is more than near-rigid contact's.
"""

import warp as wp

from ..contact import pair_laws
from ..contact.pair_laws import Contacts, Material, Scene
from ..laws import cone
from ..laws.cone import contact_stabilization as stabilization
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6, vec10
from ..solve.problem import Problem
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from .impulse_slopes import impulse_by_R


@struct
class Flow:
    """Kinematics with the velocities at the end of the step."""

    link_X: wp.array2d(dtype=transform)
    link_I: wp.array2d(dtype=vec10)
    link_V: wp.array2d(dtype=vec6)
    dof_S: wp.array2d(dtype=vec6)
    v: wp.array2d(dtype=real)


@struct
class Changes:
    """(worlds, C, M), per dof of the support: Fᵀδf and the moment about p, the latter in world axes."""

    force: wp.array3d(dtype=vec3)
    torque: wp.array3d(dtype=vec3)
    turned_force: wp.array3d(dtype=vec3)  # as seen from what the dof moves
    turned_torque: wp.array3d(dtype=vec3)


# Shared with `weight_slopes.py`, `frame_slopes.py` and `parameter_slopes.py`.


@func
def arm_of(topology: Topology, link_X: wp.array2d(dtype=transform), w: int, link: int, point: vec3) -> vec3:
    """The point from the reference point of the link's tree."""
    return point - wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[link]]])


@func
def shifted(a: vec6, arm: vec3) -> vec6:
    """The motion about the point at `arm`."""
    return sp.join(sp.angular(a), sp.velocity_at(a, arm))


@func
def first_turning(topology: Topology, e: int) -> int:
    """The first dof of its own joint that turns with dof e."""
    l = topology.dof_link[e]
    first = e
    if topology.link_type[l] == joints.BALL:
        first = topology.link_v[l]
    elif topology.link_type[l] == joints.FREE and e >= topology.link_v[l] + 3:
        first = topology.link_v[l] + 3
    return first


@func
def contact_J(contacts: Contacts, w: int, c: int, k: int) -> vec3:
    """Column k of the Jacobian of contact c."""
    return vec3(contacts.J[w, c, 0, k], contacts.J[w, c, 1, k], contacts.J[w, c, 2, k])


@func
def velocity_about(topology: Topology, flow: Flow, w: int, link: int, point: vec3) -> vec6:
    """Velocity of a link (-1: the world) about `point`."""
    V = vec6()
    if link >= 0:
        V = shifted(flow.link_V[w, link], arm_of(topology, flow.link_X, w, link, point))
    return V


@func
def velocity_before(topology: Topology, flow: Flow, w: int, link: int) -> vec6:
    """Velocity of what the link's joint does not move; the linear velocity of a free joint counts as such."""
    V = vec6()
    parent = topology.link_parent[link]
    if parent >= 0:
        V = flow.link_V[w, parent]
    elif topology.link_type[link] == joints.FREE:
        j = topology.link_v[link]
        V = sp.join(vec3(), vec3(flow.v[w, j], flow.v[w, j + 1], flow.v[w, j + 2]))
    return V


@func
def law_changes(
    contacts: Contacts, problem: Problem, w: int, c: int, h: real, beta: real, weight: real, delta_phi: real, delta_law: vec2
) -> vec2:  # fmt: skip
    """(δv̂_n, δR_n) of a contact between pressure fields by δφ and by those of its c and τ_d."""
    phi = contacts.phi[w, c]
    law = contacts.compliance[w, c]
    span = h
    delta_span = real(0.0)
    if phi <= real(0.0):
        span = h + law[1]
        delta_span = delta_law[1]
    delta_R = real(0.0)
    floor_w = wp.max(weight, real(cone.INVERSE_MASS_FLOOR))
    if problem.R[w, c][2] > beta * beta * real(cone.INVERSE_FOUR_PI_SQUARED) * floor_w:
        delta_R = (delta_law[0] - law[0] * delta_span / span) / (h * span)
    return vec2((-delta_phi + phi * delta_span / span) / span, delta_R)


@func
def field_impulse(
    problem: Problem, w: int, c: int, u: vec3, G: mat33, gamma: vec3, delta: vec2, delta_v_c: vec3
) -> vec3:  # fmt: skip
    """δγ of a contact between pressure fields by the changes (δv̂_n, δR_n) of its law and that of its velocity."""
    by_R = impulse_by_R(problem, w, c, gamma, u, vec3(real(0.0), real(0.0), delta[1]), real(0.0), real(0.0))
    return by_R + G * (vec3(real(0.0), real(0.0), delta[0]) - delta_v_c)


@func
def along_twist(slope: wp.array3d(dtype=vec6), w: int, c: int, first: int, twist: vec6) -> vec3:
    """Three rows of a contact's slopes, from `first` on, along a twist."""
    return vec3(
        wp.dot(slope[w, c, first], twist), wp.dot(slope[w, c, first + 1], twist), wp.dot(slope[w, c, first + 2], twist)
    )


@kernel
def contact_changes(
    topology: Topology,
    scene: Scene,
    material: Material,
    contacts: Contacts,
    problem: Problem,
    h: real,
    beta: real,
    flow: Flow,
    slope: wp.array3d(dtype=vec6),
    law_slope: wp.array3d(dtype=vec6),
    weight: wp.array2d(dtype=real),
    u_c: wp.array2d(dtype=vec3),
    G: wp.array2d(dtype=mat33),
    gamma: wp.array2d(dtype=vec3),
    # out
    changes: Changes,
):
    """Change of the wrench of every contact that acts. Launch over (worlds, max_contacts, max_support)."""
    w, c, k = wp.tid()
    if c >= contacts.count[w]:
        return
    pair = contacts.pair[w, c]
    row = contacts.row[w, c]
    if k >= scene.support_size[row] or G[w, c][2, 2] == real(0.0):
        return
    e = scene.support[row, k]
    s = scene.support_sign[row, k]
    p = contacts.point[w, c]
    link = topology.dof_link[e]
    arm = arm_of(topology, flow.link_X, w, link, p)
    twist = shifted(flow.dof_S[w, e], arm)
    omega = sp.angular(twist)
    u = sp.linear(twist)
    # Geometry: of B past A, and for side A of both, less that.
    F = contacts.frame[w, c]
    n = vec3(F[0, 2], F[1, 2], F[2, 2])
    delta_phi = s * wp.dot(slope[w, c, 0], twist)
    delta_p = along_twist(slope, w, c, 1, twist)
    delta_n = along_twist(slope, w, c, 4, twist)
    if s < real(0.0):
        delta_p = u - delta_p
        delta_n = wp.cross(omega, n) - delta_n
    theta = wp.cross(n, delta_n)
    # Rate of the contact at fixed v.
    V_a = velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 0]], p)
    V_b = velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 1]], p)
    moved = wp.where(s < real(0.0), V_a, V_b)
    moved -= shifted(velocity_before(topology, flow, w, link), arm)
    relative = V_b - V_a
    delta_u = s * sp.linear(sp.cross_motion(twist, moved)) + wp.cross(sp.angular(relative), delta_p)
    delta_v_c = wp.transpose(F) * (delta_u - wp.cross(theta, sp.linear(relative)))
    # v̂ is proportional to φ, with the slope of its side of φ = 0.
    phi = contacts.phi[w, c]
    law = pair_laws.contact_compliance(
        scene, material.stiffness, material.dissipation_time, contacts.compliance, w, c, pair, beta * h / real(wp.pi)
    )
    side = wp.where(phi > real(0.0), real(1.0), real(-1.0))
    delta_v_hat = side * delta_phi * stabilization(side, law[1], h)
    delta_gamma = G[w, c] * (delta_v_hat - delta_v_c)
    v_free = stabilization(phi, law[1], h)
    recovery = pair_laws.pair_recovery(contacts.recovery[w, c], law[0])
    if v_free[2] > recovery:
        rate = vec3()
        if recovery >= real(cone.LEAST_RECOVERY_SHARE) * v_free[2]:
            rate[2] = -problem.R[w, c][2] * delta_phi / phi
        by_R = impulse_by_R(problem, w, c, gamma[w, c], u_c[w, c], rate, real(0.0), real(0.0))
        delta_gamma = by_R - G[w, c] * delta_v_c
    if pair >= scene.point_pairs:
        delta_law = s * vec2(wp.dot(law_slope[w, c, 0], twist), wp.dot(law_slope[w, c, 1], twist))
        delta = law_changes(contacts, problem, w, c, h, beta, weight[w, c], delta_phi, delta_law)
        delta_gamma = field_impulse(problem, w, c, u_c[w, c], G[w, c], gamma[w, c], delta, delta_v_c)
    # The wrench, about the fixed point p.
    force = F * gamma[w, c]
    change = wp.cross(theta, force)
    changes.force[w, c, k] = wp.transpose(F) * change + delta_gamma
    changes.torque[w, c, k] = wp.cross(delta_p, force)
    changes.turned_force[w, c, k] = wp.transpose(F) * (change - wp.cross(omega, force)) + delta_gamma
    changes.turned_torque[w, c, k] = wp.cross(delta_p - u, force)


@kernel
def contact_columns(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    dof_S: wp.array2d(dtype=vec6),
    G: wp.array2d(dtype=mat33),
    changes: Changes,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= δ(Jᵀγ) by the dofs of the support, contact after contact. Launch over worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        if G[w, c][2, 2] != real(0.0):
            row = contacts.row[w, c]
            size = scene.support_size[row]
            for k in range(size):
                e = scene.support[row, k]
                s = scene.support_sign[row, k]
                first = first_turning(topology, e)
                g = changes.force[w, c, k]
                m = changes.torque[w, c, k]
                g_turned = changes.turned_force[w, c, k]
                m_turned = changes.turned_torque[w, c, k]
                for i in range(size):
                    d = scene.support[row, i]
                    J = contact_J(contacts, w, c, i)
                    omega = scene.support_sign[row, i] * sp.angular(dof_S[w, d])
                    if d >= first and scene.support_sign[row, i] == s:
                        X[w, d, e] = X[w, d, e] - wp.dot(J, g_turned) - wp.dot(omega, m_turned)
                    else:
                        X[w, d, e] = X[w, d, e] - wp.dot(J, g) - wp.dot(omega, m)
