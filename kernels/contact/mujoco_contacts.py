# SPDX-License-Identifier: Apache-2.0
"""Contacts under MuJoCo's law: from parameters of geoms and pairs to R, v̂ and μ, the axes of the cones, and the
impulses on the tape (theory §3.8).
"""

import warp as wp

from ..laws.contact_law import friction_of
from ..laws.mujoco_law import LEAST_FRICTION, LEAST_R, SoftContact, at_least, impedance_at, reference_at, soft_contact
from ..laws.shaped_cone import shaped_impulse
from ..linalg.lanes import lane
from ..linalg.loops import support_rate
from ..real import func, kernel, mat33, real, struct, transform, vec2, vec3, vec4
from ..tree.passes import Topology
from ..tree.plant import Plant, placed_geom
from .contacts import inverse_mass
from .narrow.manifold import CAPSULE, PLANE
from .pair_laws import Contacts, Laws, Scene, pair_friction
from .spin_rows import ROLLING

SHORTEST_TANGENT = 1e-14  # a capsule's axis with less of it in the tangent plane is taken as the x axis, as MuJoCo does


@struct
class Soft:
    """Parameters of the law. Arrays over (worlds, …) have one row if they are the same for all worlds."""

    solref: wp.array3d(dtype=real)  # (worlds, geoms, 2)
    solimp: wp.array3d(dtype=real)  # (worlds, geoms, 5)
    solmix: wp.array2d(dtype=real)  # (worlds, geoms)
    impratio: wp.array(dtype=real)  # (worlds,)
    friction: wp.array2d(dtype=real)  # (worlds, geoms)
    weight: wp.array(dtype=real)  # (geoms,) approximate inverse mass of the geom's body
    own: wp.array(dtype=int)  # (pairs,) row of the pairs with parameters of their own, −1: none; ends after the last
    own_solref: wp.array3d(dtype=real)  # (worlds, own, 2)
    own_solreffriction: wp.array3d(dtype=real)  # (worlds, own, 2)
    own_solimp: wp.array3d(dtype=real)  # (worlds, own, 5)
    own_friction: wp.array3d(dtype=real)  # (worlds, own, 5) along two tangents, torsional, rolling about them
    # (pairs,) of pairs whose geoms differ in priority: the geom that decides, 0 or 1; −1: both
    decides: wp.array(dtype=int)
    condim: wp.array(dtype=int)  # (pairs,)
    edges: int  # 1: pyramids
    refsafe: int
    h: real
    surface: wp.array2d(dtype=vec3)  # (worlds, slots) velocities of the surfaces; no columns where none moves
    exact: wp.array2d(dtype=real)  # (worlds, max_contacts) see `exact_weights`; no columns: `weight` holds


@func
def surface_of(soft: Soft, w: int, slot: int) -> vec3:
    """The velocity of the surfaces at a contact, or in its spin rows."""
    found = vec3(real(0.0), real(0.0), real(0.0))
    if soft.surface.shape[1] > 0:
        found = soft.surface[w, slot]
    return found


@func
def own_of(soft: Soft, p: int) -> int:
    """The row of a pair's own parameters; −1: none."""
    found = int(-1)
    if p < soft.own.shape[0]:
        found = soft.own[p]
    return found


@func
def mix_of(a: real, b: real) -> real:
    """Share of the first geom's parameters, from the solmix of both."""
    mix = real(0.5)
    if a >= real(LEAST_R) and b >= real(LEAST_R):
        mix = a / (a + b)
    elif a >= real(LEAST_R):
        mix = real(1.0)
    elif b >= real(LEAST_R):
        mix = real(0.0)
    return mix


@func
def smaller(a: real, b: real) -> real:
    """The smaller one; NaN of either stays."""
    found = a
    if b < a or b != b:
        found = b
    return found


@func
def soft_state(scene: Scene, soft: Soft, w: int, p: int) -> SoftContact:
    """The parameters of the law of pair p; μ, φ and rates are set by the caller."""
    s = SoftContact()
    s.h = soft.h
    s.refsafe = soft.refsafe
    s.edges = soft.edges
    s.impratio = soft.impratio[w % soft.impratio.shape[0]]
    a = scene.pair_geom[p, 0]
    b = scene.pair_geom[p, 1]
    s.weight = soft.weight[a] + soft.weight[b]
    own = own_of(soft, p)
    if own >= 0:
        s.solref = reference_at(soft.own_solref, w, own)
        s.solreffriction = reference_at(soft.own_solreffriction, w, own)
        s.solimp = impedance_at(soft.own_solimp, w, own)
    elif soft.decides[p] >= 0:
        g = scene.pair_geom[p, soft.decides[p]]
        s.solref = reference_at(soft.solref, w, g)
        s.solimp = impedance_at(soft.solimp, w, g)
    else:
        row = w % soft.solmix.shape[0]
        mix = mix_of(soft.solmix[row, a], soft.solmix[row, b])
        rest = real(1.0) - mix
        of_a = reference_at(soft.solref, w, a)
        of_b = reference_at(soft.solref, w, b)
        if of_a[0] > real(0.0) and of_b[0] > real(0.0):
            s.solref = mix * of_a + rest * of_b
        else:
            s.solref = vec2(smaller(of_a[0], of_b[0]), smaller(of_a[1], of_b[1]))
        s.solimp = mix * impedance_at(soft.solimp, w, a) + rest * impedance_at(soft.solimp, w, b)
    return s


@func
def friction_in_use(soft: Soft, mu: real, w: int, p: int) -> real:
    """μ along the first tangent, from that of the geoms: at least MuJoCo's least one; 0 with condim 1."""
    found = real(0.0)
    if soft.condim[p] > 1:
        found = at_least(real(LEAST_FRICTION), mu)
        own = own_of(soft, p)
        if own >= 0:
            found = at_least(real(LEAST_FRICTION), soft.own_friction[w % soft.own_friction.shape[0], own, 0])
    return found


@func
def ratio_of(soft: Soft, w: int, own: int, first: int, second: int) -> real:
    """Friction in one direction over that in another, of a pair with parameters of its own."""
    row = w % soft.own_friction.shape[0]
    under = at_least(real(LEAST_FRICTION), soft.own_friction[row, own, first])
    return at_least(real(LEAST_FRICTION), soft.own_friction[row, own, second]) / under


@kernel
def regularise(
    scene: Scene,
    soft: Soft,
    contacts: Contacts,
    v0: wp.array2d(dtype=real),
    # out
    laws: Laws,
):
    """R, v̂ and μ of every contact; all have φ < 0. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        s = soft_state(scene, soft, w, p)
        s.mu = friction_in_use(soft, friction_of(pair_friction(scene, soft.friction, w, p)), w, p)
        if soft.exact.shape[1] > 0:
            s.weight = soft.exact[w, c]
        s.phi = contacts.phi[w, c]
        at = contacts.row[w, c]
        moves = surface_of(soft, w, c)
        s.rate0 = support_rate(contacts.J[w, c], scene.support[at], scene.support_size[at], v0[w]) + moves
        R, v_hat, _spin = soft_contact(s)
        laws.R[w, c] = R
        laws.v_hat[w, c] = v_hat - moves
        laws.mu[w, c] = s.mu
        laws.weight[w, c] = s.weight


@kernel(part="spin")
def spin_targets(
    scene: Scene,
    soft: Soft,
    contacts: Contacts,
    v0: wp.array2d(dtype=real),
    # out
    laws: Laws,
):
    """v̂ of the spin rows of every contact. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        at = contacts.row[w, c]
        slot = contacts.pair.shape[1] + c
        s = soft_state(scene, soft, w, contacts.pair[w, c])
        s.mu = laws.mu[w, c]
        s.phi = contacts.phi[w, c]
        moves = surface_of(soft, w, slot)
        s.spin_rate0 = support_rate(contacts.J[w, slot], scene.support[at], scene.support_size[at], v0[w]) + moves
        _R, _v_hat, spin = soft_contact(s)
        laws.v_hat[w, slot] = spin - moves


@func
def first_tangent(normal: vec3, axis: vec3) -> vec3:
    """The first tangent of MuJoCo's contact frames; `axis`: 0, or the direction along which the pair puts it."""
    given = axis
    if wp.dot(axis, axis) < real(0.25):
        given = vec3(real(0.0), real(0.0), real(1.0))
        if wp.abs(normal[1]) < real(0.5):
            given = vec3(real(0.0), real(1.0), real(0.0))
    across = given - wp.dot(normal, given) * normal
    length = wp.length(across)
    found = vec3(real(1.0), real(0.0), real(0.0))
    if length > real(SHORTEST_TANGENT):
        found = across / length
    return found


@func
def basis_of(frame: mat33, axis: vec3, ratio: real) -> vec4:
    """B of a contact with the frame (t1, t2, n): the turn to MuJoCo's tangents, the second one scaled."""
    t1 = vec3(frame[0, 0], frame[1, 0], frame[2, 0])
    t2 = vec3(frame[0, 1], frame[1, 1], frame[2, 1])
    normal = vec3(frame[0, 2], frame[1, 2], frame[2, 2])
    first = first_tangent(normal, axis)
    second = wp.cross(normal, first)
    return vec4(wp.dot(first, t1), wp.dot(first, t2), ratio * wp.dot(second, t1), ratio * wp.dot(second, t2))


@func
def tangent_axis(scene: Scene, plant: Plant, link_X: wp.array2d(dtype=transform), w: int, p: int) -> vec3:
    """The direction along which MuJoCo puts the first tangent of pair p: a capsule's axis on a plane; 0: none."""
    axis = vec3(real(0.0), real(0.0), real(0.0))
    b = scene.pair_geom[p, 1]
    if scene.geom_type[scene.pair_geom[p, 0]] == PLANE and scene.geom_type[b] == CAPSULE:
        X = placed_geom(plant, link_X, w, b, scene.geom_link[b])
        axis = wp.quat_rotate(wp.transform_get_rotation(X), vec3(real(0.0), real(0.0), real(1.0)))
    return axis


@func
def mujoco_frame(frame: mat33, axis: vec3) -> mat33:
    """The contact frame (t1, t2, n) with MuJoCo's tangents."""
    normal = vec3(frame[0, 2], frame[1, 2], frame[2, 2])
    first = first_tangent(normal, axis)
    return wp.matrix_from_cols(first, wp.cross(normal, first), normal)


@kernel(lanes=True, part="exact")
def exact_weights(
    topology: Topology,
    scene: Scene,
    soft: Soft,
    contacts: Contacts,
    basis: wp.array2d(dtype=vec4),
    M_factor: wp.array3d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
):
    """J M⁻¹Jᵀ of the normal of every contact; of a pyramid that of its first edge n + μ t, over 1 + μ² (`diagexact`).

    Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    for c in range(contacts.count[w]):
        W = inverse_mass(topology, scene, contacts, M_factor, z, w, c, contacts.row[w, c])
        if lane() == 0:
            found = W[2, 2]
            if soft.edges == 1:
                p = contacts.pair[w, c]
                mu = friction_in_use(soft, friction_of(pair_friction(scene, soft.friction, w, p)), w, p)
                edge = vec3(mu * basis[w, c][0], mu * basis[w, c][1], real(1.0))
                found = wp.dot(edge, W * edge) / (real(1.0) + mu * mu)
            soft.exact[w, c] = found


@kernel(twin=True)
def bases(
    scene: Scene,
    soft: Soft,
    contacts: Contacts,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    frame: wp.array2d(dtype=mat33),
    # out
    basis: wp.array2d(dtype=vec4),
):
    """B of every contact and of its spin rows, which may have no columns. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        axis = tangent_axis(scene, plant, link_X, w, p)
        ratio = vec2(real(1.0), real(1.0))
        own = own_of(soft, p)
        if own >= 0:
            ratio = vec2(ratio_of(soft, w, own, 0, 1), ratio_of(soft, w, own, 3, 4))
        basis[w, c] = basis_of(frame[w, c], axis, ratio[0])
        slot = contacts.pair.shape[1] + c
        if slot < basis.shape[1] and soft.condim[p] >= ROLLING:
            basis[w, slot] = basis_of(frame[w, c], axis, ratio[1])
        elif slot < basis.shape[1]:
            basis[w, slot] = vec4(real(0.0), real(0.0), real(0.0), real(0.0))


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    soft: Soft,
    contacts: Contacts,
    phi: wp.array2d(dtype=real),
    mu: wp.array2d(dtype=real),
    spin_mu: wp.array2d(dtype=real),
    basis: wp.array2d(dtype=vec4),
    v_c: wp.array2d(dtype=vec3),
    rate0: wp.array2d(dtype=vec3),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """γ of every contact and of its spin rows at the velocities v_c, with the rates `rate0` when the step begins.

    `spin_mu`: above 0 for contacts that have spin rows. Launch over (worlds, max_contacts).
    """
    w, c = wp.tid()
    if c < contacts.count[w]:
        p = contacts.pair[w, c]
        s = soft_state(scene, soft, w, p)
        s.mu = friction_in_use(soft, mu[w, c], w, p)
        s.phi = phi[w, c]
        s.rate0 = rate0[w, c]
        slot = contacts.pair.shape[1] + c
        if slot < v_c.shape[1]:
            s.spin_rate0 = rate0[w, slot]
            R, v_hat, spin_hat = soft_contact(s)
            point, turn = shaped_impulse(
                v_c[w, c] - v_hat, v_c[w, slot] - spin_hat, basis[w, c], basis[w, slot], R, s.mu, soft.edges,
                spin_mu[w, slot] > real(0.0),
            )  # fmt: skip
            gamma[w, c] = point
            gamma[w, slot] = turn
        else:
            zero = vec3(real(0.0), real(0.0), real(0.0))
            no_basis = vec4(real(0.0), real(0.0), real(0.0), real(0.0))
            R, v_hat, _spin = soft_contact(s)
            point, _turn = shaped_impulse(
                v_c[w, c] - v_hat, zero, basis[w, c], no_basis, R, s.mu, soft.edges, False
            )  # fmt: skip
            gamma[w, c] = point
