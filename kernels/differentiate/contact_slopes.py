# SPDX-License-Identifier: Apache-2.0
"""How contact impulses change with the configuration: the contacts' part of the columns ∂r/∂q (theory §3.5).

A contact puts the wrench f = Fγ at its point p on body B, and −f on A. Its support are the dofs that move one body and
not the other. Dof e of the support moves the body on its side s = ±1 with the twist (ω; u) at p. With features frozen,
this changes φ, p and n (`contact_variation.py`). It turns the frame by θ = n × δn (the spin about n does not matter,
because friction is isotropic), and

    δv_c = Fᵀ(δ(V_B − V_A)(p) − θ × u_c),   δγ = γ_φ δφ + γ_v δv_c,   δf = θ × f + F δγ,   δ(moment about p) = δp × f.

The generalized force Σ S_d·wrench also changes because S_d turns with e, where e moves d: (S_e × S_d)·f = −S_d·(S_e ×*
f). There the change therefore counts as seen from the moving body. Dofs that move both bodies change nothing here.
Where friction depends on the sliding speed (Stribeck's law), δγ has the term γ_0 δ(Jv0): a change with q as that of
v_c, and with v0 as well.

The slopes of γ are generated from the law (`laws/contact_law.py`), once for each contact. `weight_slopes.py` uses those
with respect to the effective mass, `parameter_slopes.py` those with respect to parameters. Contact between pressure
fields has a c and a τ_d that change too.
"""

import warp as wp

from ..contact.pair_laws import Contacts, Loads, Material, Scene, loaded_state
from ..contact.stribeck import Friction, rate_at, sliding_pair
from ..laws.contact_law import ContactState, LawOptions, slopes_along
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec6, vec10
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology


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
    """Changes (worlds, C, M) per dof of the support: Fᵀδf, and the moment about p in world axes."""

    force: wp.array3d(dtype=vec3)
    torque: wp.array3d(dtype=vec3)
    turned_force: wp.array3d(dtype=vec3)  # as seen from the body that the dof moves
    turned_torque: wp.array3d(dtype=vec3)


# Shared with `weight_slopes.py`, `frame_slopes.py` and `parameter_slopes.py`.


@func
def arm_of(topology: Topology, link_X: wp.array2d(dtype=transform), w: int, link: int, point: vec3) -> vec3:
    """The point, from the reference point of the link's tree."""
    return point - wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[link]]])


@func
def shifted(a: vec6, arm: vec3) -> vec6:
    """The motion `a` about the point at `arm`."""
    return sp.join(sp.angular(a), sp.velocity_at(a, arm))


@func
def first_turning(topology: Topology, e: int) -> int:
    """The first dof of e's joint that turns with e."""
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
    """Velocity of the part that the link's joint does not move. It includes the linear velocity of a free joint."""
    V = vec6()
    parent = topology.link_parent[link]
    if parent >= 0:
        V = flow.link_V[w, parent]
    elif topology.link_type[link] == joints.FREE:
        j = topology.link_v[link]
        V = sp.join(vec3(), vec3(flow.v[w, j], flow.v[w, j + 1], flow.v[w, j + 2]))
    return V


@kernel
def law_slopes(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    options: LawOptions,
    loads: Loads,
    weight: wp.array2d(dtype=real),
    v_hat: wp.array2d(dtype=vec3),
    u_c: wp.array2d(dtype=vec3),
    G: wp.array2d(dtype=mat33),
    of: Friction,
    v0: wp.array2d(dtype=real),
    # out
    law: wp.array3d(dtype=ContactState),
):
    """Slopes of γ of every active contact with respect to all inputs of its law.

    Launch over (worlds, max_contacts).
    """
    w, c = wp.tid()
    if c < contacts.count[w] and G[w, c][2, 2] != real(0.0):
        s = loaded_state(scene, material, contacts, contacts.compliance, options, loads, w, c)
        s.phi = contacts.phi[w, c]
        s.weight = weight[w, c]
        s.v_c = u_c[w, c] + v_hat[w, c]
        if of.slides == 1:
            s.friction = sliding_pair(scene, of, w, contacts.pair[w, c], rate_at(scene, contacts, v0, w, c))
        entries = int(3)  # not unrolled: the generated code is long
        for i in range(entries):
            e = vec3()
            e[i] = real(1.0)
            law[w, c, i] = slopes_along(s, e)


@func
def impulse_change(law: wp.array3d(dtype=ContactState), w: int, c: int, phi: real, v_c: vec3, compliance: vec2) -> vec3:
    """δγ of a contact from the changes of φ, v_c, and (c, τ_d) between pressure fields."""
    change = vec3()
    for i in range(3):
        change[i] = law[w, c, i].phi * phi + wp.dot(law[w, c, i].v_c, v_c)
        change[i] += wp.dot(law[w, c, i].compliance, compliance)
    return change


@func
def slope_by_rate(law: wp.array3d(dtype=ContactState), w: int, c: int, rate: vec3) -> vec3:
    """δγ of a contact from the change of its relative velocity when the step begins, on which μ depends."""
    x = law[w, c, 0].friction
    y = law[w, c, 1].friction
    z = law[w, c, 2].friction
    return vec3(wp.dot(x.rate, rate), wp.dot(y.rate, rate), wp.dot(z.rate, rate))


@func
def along_twist(slope: wp.array3d(dtype=vec6), w: int, c: int, first: int, twist: vec6) -> vec3:
    """Three rows of a contact's slopes, from `first` on, times a twist."""
    return vec3(
        wp.dot(slope[w, c, first], twist), wp.dot(slope[w, c, first + 1], twist), wp.dot(slope[w, c, first + 2], twist)
    )


@func
def rate_change(
    topology: Topology, scene: Scene, flow: Flow, w: int, pair: int, s: real, link: int, arm: vec3, twist: vec6,
    p: vec3, delta_p: vec3, theta: vec3,
) -> vec3:  # fmt: skip
    """Change of the relative velocity of a contact at fixed v, in world axes, as seen from its frame."""
    V_a = velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 0]], p)
    V_b = velocity_about(topology, flow, w, scene.geom_link[scene.pair_geom[pair, 1]], p)
    moved = wp.where(s < real(0.0), V_a, V_b)
    moved -= shifted(velocity_before(topology, flow, w, link), arm)
    relative = V_b - V_a
    delta_u = s * sp.linear(sp.cross_motion(twist, moved)) + wp.cross(sp.angular(relative), delta_p)
    return delta_u - wp.cross(theta, sp.linear(relative))


@kernel
def contact_changes(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    law: wp.array3d(dtype=ContactState),
    flow: Flow,
    before: Flow,
    slope: wp.array3d(dtype=vec6),
    law_slope: wp.array3d(dtype=vec6),
    G: wp.array2d(dtype=mat33),
    gamma: wp.array2d(dtype=vec3),
    # out
    changes: Changes,
):
    """Change of the wrench of every active contact. Launch over (worlds, max_contacts, max_support).

    `before`: with the velocities at the beginning of the step; empty unless friction depends on the sliding speed.
    """
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
    # Geometry: B moves past A. For side A: both move, minus B.
    F = contacts.frame[w, c]
    n = vec3(F[0, 2], F[1, 2], F[2, 2])
    delta_phi = s * wp.dot(slope[w, c, 0], twist)
    delta_p = along_twist(slope, w, c, 1, twist)
    delta_n = along_twist(slope, w, c, 4, twist)
    if s < real(0.0):
        delta_p = u - delta_p
        delta_n = wp.cross(omega, n) - delta_n
    theta = wp.cross(n, delta_n)
    delta_v_c = wp.transpose(F) * rate_change(topology, scene, flow, w, pair, s, link, arm, twist, p, delta_p, theta)
    delta_law = vec2()
    if pair >= scene.point_pairs:
        delta_law = s * vec2(wp.dot(law_slope[w, c, 0], twist), wp.dot(law_slope[w, c, 1], twist))
    delta_gamma = impulse_change(law, w, c, delta_phi, delta_v_c, delta_law)
    if before.v.shape[1] > 0:
        delta_v_0 = rate_change(topology, scene, before, w, pair, s, link, arm, twist, p, delta_p, theta)
        delta_gamma += slope_by_rate(law, w, c, wp.transpose(F) * delta_v_0)
    # The wrench, about the fixed point p.
    force = F * gamma[w, c]
    turned = wp.cross(theta, force)
    changes.force[w, c, k] = wp.transpose(F) * turned + delta_gamma
    changes.torque[w, c, k] = wp.cross(delta_p, force)
    changes.turned_force[w, c, k] = wp.transpose(F) * (turned - wp.cross(omega, force)) + delta_gamma
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
    """X −= δ(Jᵀγ) with respect to the dofs of the support, contact by contact. Launch over worlds."""
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


@kernel
def sliding_columns(
    scene: Scene,
    contacts: Contacts,
    law: wp.array3d(dtype=ContactState),
    G: wp.array2d(dtype=mat33),
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= Jᵀ δγ with respect to v0, on which friction depends. Launch over worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        if G[w, c][2, 2] != real(0.0):
            row = contacts.row[w, c]
            size = scene.support_size[row]
            for k in range(size):
                e = X.shape[1] + scene.support[row, k]
                change = slope_by_rate(law, w, c, contact_J(contacts, w, c, k))
                for i in range(size):
                    d = scene.support[row, i]
                    X[w, d, e] = X[w, d, e] - wp.dot(contact_J(contacts, w, c, i), change)
