# SPDX-License-Identifier: Apache-2.0
"""Spin rows: torsional and rolling friction of contact points (`laws/spin_cone.py`, theory §3.7).

There are C slots for contacts. Slot C + c of J, R, v̂, μ and the impulses holds the spin rows of contact c: the
relative angular velocity about t1, t2 and n times the lengths μ_r/μ, μ_r/μ and μ_τ/μ. μ of that slot is 0 if the
contact has no spin friction: condim below 4, or no sliding friction.
"""

import warp as wp

from ..laws import cone
from ..laws.contact_law import LawOptions, load_of, pair_coefficient, regularised
from ..laws.mujoco_law import at_least
from ..laws.spin_cone import spin_cone_impulse, spin_coulomb_impulse
from ..linalg.lanes import lane, lanes
from ..real import func, kernel, mat33, real, struct, vec2, vec3, vec5, vec6
from ..tree import spatial as sp
from .pair_laws import Contacts, Laws, Loads, Material, Scene, friction_coefficient, loaded_state, rule_of

TORSION = wp.constant(4)  # from this condim on a contact resists spin about its normal
ROLLING = wp.constant(6)  # from this condim on it also resists rolling about its tangents


@struct
class Spin:
    """Tables shared by all worlds."""

    condim: wp.array(dtype=int)  # (pairs,)
    torsional: wp.array(dtype=real)  # (pairs,) [m] coefficient of pairs with RULE_EXPLICIT; `rolling` likewise
    rolling: wp.array(dtype=real)
    least: real  # least friction of every direction; 0 but under MuJoCo's law


@func
def spin_lengths(
    scene: Scene, spin: Spin, material: Material, w: int, p: int
) -> vec2:  # fmt: skip
    """(μ_r/μ, μ_τ/μ) [m] of a pair; 0 without such friction."""
    found = vec2(real(0.0), real(0.0))
    if p < scene.point_pairs:
        condim = spin.condim[p]
        rule = rule_of(scene, p)
        a = scene.pair_geom[p, 0]
        b = scene.pair_geom[p, 1]
        mu = at_least(spin.least, friction_coefficient(scene, material.friction, w, p))
        if mu > real(0.0) and condim >= TORSION:
            torsional, rolling = material.torsional_friction, material.rolling_friction
            row = w % torsional.shape[0]
            torsion = pair_coefficient(rule, torsional[row, a], torsional[row, b], spin.torsional[p])
            torsion = at_least(spin.least, torsion)
            roll = real(0.0)
            if condim >= ROLLING:
                of = w % rolling.shape[0]
                roll = pair_coefficient(rule, rolling[of, a], rolling[of, b], spin.rolling[p])
                roll = at_least(spin.least, roll)
            found = vec2(roll / mu, torsion / mu)
    return found


@func
def spin_row(frame: mat33, S: vec6, sign: real, length: vec2) -> vec3:
    """Column of the spin rows for a degree of freedom with the motion subspace S."""
    turn = wp.transpose(frame) * (sign * sp.angular(S))
    return vec3(length[0] * turn[0], length[0] * turn[1], length[1] * turn[2])


@kernel(lanes=True)
def spin_rows(
    scene: Scene,
    spin: Spin,
    material: Material,
    contacts: Contacts,
    dof_S: wp.array2d(dtype=vec6),
    moved: wp.array2d(dtype=int),
    moved_S: wp.array2d(dtype=vec6),
    # in, of contacts; out, of spin rows
    laws: Laws,
    # out
    length: wp.array2d(dtype=vec2),
    row: wp.array2d(dtype=int),
):
    """J, R, v̂ and μ of the spin rows of every contact, their lengths [m], and the rows of the support tables.

    In a second-order step, contacts with `moved` 1 (`between.follow`) use the motion subspaces `moved_S`. In other
    steps `moved` has no columns. Launch over (worlds, lanes).
    """
    w, _lane = wp.tid()
    C = contacts.pair.shape[1]
    for c in range(lane(), contacts.count[w], lanes()):
        scale = spin_lengths(scene, spin, material, w, contacts.pair[w, c])
        R_t = laws.R[w, c][0]
        length[w, c] = scale
        laws.R[w, C + c] = vec3(R_t, R_t, R_t)
        laws.v_hat[w, C + c] = vec3(real(0.0), real(0.0), real(0.0))
        laws.mu[w, C + c] = real(0.0)
        if scale[0] > real(0.0) or scale[1] > real(0.0):
            laws.mu[w, C + c] = laws.mu[w, c]
        p = contacts.row[w, c]
        row[w, c] = p
        row[w, C + c] = p
        follows = bool(False)
        if moved.shape[1] > 0:
            follows = moved[w, c] != 0
        for k in range(scene.support_size[p]):
            S = dof_S[w, scene.support[p, k]]
            if follows:
                S = moved_S[w, scene.support[p, k]]
            x = spin_row(contacts.frame[w, c], S, scene.support_sign[p, k], scale)
            for i in range(3):
                contacts.J[w, C + c, i, k] = x[i]


@kernel(taped=True)
def spin_jacobian(
    scene: Scene,
    spin: Spin,
    material: Material,
    contacts: Contacts,
    dof_S: wp.array2d(dtype=vec6),
    frame: wp.array2d(dtype=mat33),
    chosen: wp.array2d(dtype=int),
    choice: int,
    # out
    J: wp.array4d(dtype=real),
):
    """`J` of `spin_rows` on the tape, for contacts with `chosen` = `choice`. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w] and chosen[w, c] == choice:
        p = contacts.row[w, c]
        at = contacts.pair.shape[1] + c
        for k in range(scene.support_size[p]):
            scale = spin_lengths(scene, spin, material, w, contacts.pair[w, c])
            x = spin_row(frame[w, c], dof_S[w, scene.support[p, k]], scene.support_sign[p, k], scale)
            J[w, at, 0, k] = x[0]
            J[w, at, 1, k] = x[1]
            J[w, at, 2, k] = x[2]


@kernel(taped=True)
def contact_impulse(
    scene: Scene,
    contacts: Contacts,
    material: Material,
    options: LawOptions,
    loads: Loads,
    weight: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=vec2),
    mu: wp.array2d(dtype=real),
    v_c: wp.array2d(dtype=vec3),
    before: wp.array2d(dtype=vec5),
    # out
    gamma: wp.array2d(dtype=vec3),
):
    """`taped_contacts.contact_impulse` for contacts with spin rows. Launch over (worlds, max_contacts)."""
    w, c = wp.tid()
    if c < contacts.count[w]:
        at = contacts.pair.shape[1] + c
        s = loaded_state(scene, material, contacts, compliance, options, loads, w, c)
        s.phi = phi[w, c]
        s.weight = weight[w, c]
        if contacts.touch.shape[1] > 0:
            s.rate0 = before[w, c][0]
            s.bend = before[w, c][1]
            s.shift = vec3(before[w, c][2], before[w, c][3], before[w, c][4])
        R, v_hat = regularised(s)
        if options.coulomb == 1:
            load = load_of(s)
            point, turn = spin_coulomb_impulse(v_c[w, c] - v_hat, v_c[w, at], R, mu[w, c], load[0], load[1])
            gamma[w, c] = point
            gamma[w, at] = turn
        else:
            y = cone.cone_y(v_c[w, c], v_hat, R)
            point_y, turn_y = spin_cone_impulse(y, -v_c[w, at] / R[0], R, mu[w, c])
            gamma[w, c] = point_y
            gamma[w, at] = turn_y


@kernel
def add_moments(
    scene: Scene,
    contacts: Contacts,
    gamma: wp.array2d(dtype=vec3),
    length: wp.array2d(dtype=vec2),
    h: real,
    geom_body: wp.array(dtype=int),
    # out
    wrench: wp.array3d(dtype=real),
):
    """Add the moments of the spin rows to the torques of `net_force.net_wrench`, in world axes. Launch over worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        x = gamma[w, contacts.pair.shape[1] + c]
        scale = length[w, c]
        moment = contacts.frame[w, c] * vec3(scale[0] * x[0], scale[0] * x[1], scale[1] * x[2]) / h
        p = contacts.pair[w, c]
        a = geom_body[scene.pair_geom[p, 0]]
        b = geom_body[scene.pair_geom[p, 1]]
        for i in range(3):
            if a >= 0:
                wrench[w, a, i] = wrench[w, a, i] - moment[i]
            if b >= 0:
                wrench[w, b, i] = wrench[w, b, i] + moment[i]
