# SPDX-License-Identifier: Apache-2.0
"""Actuators, and springs and dampers of tendons, as explicit forces at the start of a step (theory §2.1).

A *pull* is a force f along a length ℓ(q) with moment arms m = ∂ℓ/∂q: it adds m f to the generalized force.

    actuator   f = clamp(s · (1, ℓ, ℓ̇)), with ℓ and m that contain the gear; a servo that turns a site about another
               takes its setpoint modulo full turns, nearest to ℓ
    tendon     f = −K δ − D ℓ̇, δ: ℓ beyond the slack interval

The length is Σ a q over hinges and slides, or that of a line (`transmission.py`). Actuators on ball and free joints
have moment arms, but no length. May be taped.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec2
from ..tree.passes import Topology
from .actuators import Actuators, actuator_law, clamped


@struct
class Pulls:
    """The pulls of a model and their moment arms; shared by all worlds."""

    actuator: wp.array(dtype=int)  # (n,) -1: a tendon
    tendon: wp.array(dtype=int)  # (n,) -1: an actuator
    slack: wp.array(dtype=vec2)  # (n,) of the tendon's spring
    line: wp.array(dtype=int)  # (n,) -1: the length is a sum over coordinates
    gear: wp.array(dtype=real)  # (n,) of the line
    period: wp.array(dtype=real)  # (n,) full turn of a servo's length; 0: it does not turn
    begin: wp.array(dtype=int)  # (n + 1,) first moment arm of each pull
    dof: wp.array(dtype=int)  # (m,) of each moment arm
    q: wp.array(dtype=int)  # (m,) its coordinate; -1: adds nothing to the length
    weight: wp.array(dtype=real)  # (m,) a, or the gear of the line
    column: wp.array(dtype=int)  # (m,) column of the line's moment arm; -1: the moment arm is a
    owner: wp.array(dtype=int)  # (m,) the pull of each moment arm
    dof_begin: wp.array(dtype=int)  # (nv + 1,) into the next
    dof_arm: wp.array(dtype=int)  # (m,) the moment arms, sorted by degree of freedom


@struct
class TendonSprings:
    """Parameters of tendons."""

    stiffness: wp.array2d(dtype=real)
    damping: wp.array2d(dtype=real)


@func
def arm(pulls: Pulls, moment: wp.array2d(dtype=real), w: int, k: int) -> real:
    """Moment arm k."""
    found = pulls.weight[k]
    if pulls.column[k] >= 0:
        found = pulls.weight[k] * moment[w, pulls.column[k]]
    return found


@func
def length_of(pulls: Pulls, line_length: wp.array2d(dtype=real), q: wp.array2d(dtype=real), w: int, i: int) -> real:
    """ℓ of pull i."""
    total = real(0.0)
    if pulls.line[i] >= 0:
        total = pulls.gear[i] * line_length[w, pulls.line[i]]
    for k in range(pulls.begin[i], pulls.begin[i + 1]):
        if pulls.q[k] >= 0:
            total += pulls.weight[k] * q[w, pulls.q[k]]
    return total


@func
def rate_of(pulls: Pulls, moment: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, i: int) -> real:
    """ℓ̇ of pull i."""
    total = real(0.0)
    for k in range(pulls.begin[i], pulls.begin[i + 1]):
        total += arm(pulls, moment, w, k) * v[w, pulls.dof[k]]
    return total


@func
def beyond(slack: vec2, length: real) -> real:
    """δ: the length beyond the slack interval."""
    found = real(0.0)
    if length < slack[0]:
        found = length - slack[0]
    elif length > slack[1]:
        found = length - slack[1]
    return found


@func
def turns_force(told: Actuators, period: real, length: real, w: int, a: int) -> real:
    """The force of the full turns by which the setpoint of a servo is off its length."""
    u = clamped(told.control[w, a], told.control_range, w, a)
    return told.gain[w % told.gain.shape[0], a, 0] * period * wp.round((u - length) / period)


@kernel(twin=True)
def pull_forces(
    pulls: Pulls,
    actuators: Actuators,
    told: Actuators,
    springs: TendonSprings,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    line_length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    # out
    pull: wp.array2d(dtype=real),
):
    """f of every pull. `told`: gains and setpoints. Launch over (worlds, pulls)."""
    w, i = wp.tid()
    length = length_of(pulls, line_length, q, w, i)
    rate = rate_of(pulls, moment, v, w, i)
    if pulls.actuator[i] >= 0:
        s = actuator_law(actuators, w, pulls.actuator[i])
        total = s[0] + s[1] * length + s[2] * rate
        if pulls.period[i] > real(0.0):
            total -= turns_force(told, pulls.period[i], length, w, pulls.actuator[i])
        pull[w, i] = clamped(total, actuators.force_range, w, pulls.actuator[i])
    else:
        t = pulls.tendon[i]
        stiffness = springs.stiffness[w % springs.stiffness.shape[0], t]
        damping = springs.damping[w % springs.damping.shape[0], t]
        pull[w, i] = -stiffness * beyond(pulls.slack[i], length) - damping * rate


@func
def sum_of(
    pulls: Pulls, moment: wp.array2d(dtype=real), pull: wp.array2d(dtype=real), w: int, d: int
) -> real:  # fmt: skip
    """Σ m f on degree of freedom d."""
    total = real(0.0)
    for j in range(pulls.dof_begin[d], pulls.dof_begin[d + 1]):
        k = pulls.dof_arm[j]
        total += arm(pulls, moment, w, k) * pull[w, pulls.owner[k]]
    return total


@kernel(twin=True)
def apply_pulls(
    pulls: Pulls,
    moment: wp.array2d(dtype=real),
    pull: wp.array2d(dtype=real),
    # in and out
    force: wp.array2d(dtype=real),
):
    """Add m f of all pulls to the generalized force. Launch over (worlds, nv)."""
    w, d = wp.tid()
    if pulls.dof_begin[d + 1] > pulls.dof_begin[d]:
        force[w, d] += sum_of(pulls, moment, pull, w, d)


@func
def tension_of(pulls: Pulls, pull: wp.array2d(dtype=real), w: int, line: int) -> real:
    """The force of all pulls along a line."""
    total = real(0.0)
    for i in range(pulls.line.shape[0]):
        if pulls.line[i] == line:
            total += pulls.gear[i] * pull[w, i]
    return total


@kernel(twin=True)
def add_tensions(pulls: Pulls, pull: wp.array2d(dtype=real), tension: wp.array2d(dtype=real)):
    """Add the forces of all pulls to the tension of each spatial tendon (the first lines).

    Launch over (worlds, spatial tendons).
    """
    w, t = wp.tid()
    tension[w, t] += tension_of(pulls, pull, w, t)


@kernel(twin=True)
def pull_slopes(
    pulls: Pulls,
    own: Actuators,
    told: Actuators,
    limited: wp.array2d(dtype=int),
    muscle_slope: wp.array2d(dtype=real),
    springs: TendonSprings,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    line_length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    # out
    slope: wp.array2d(dtype=real),
):
    """∂f/∂ℓ̇ of every pull, 0 where an actuator is at its limit. Launch over (worlds, pulls).

    `own`: laws before the ranges that actuators share; `limited (worlds, nu)`: 1 where such a range is exceeded. It and
    `muscle_slope` may be empty.
    """
    w, i = wp.tid()
    found = real(0.0)
    if pulls.actuator[i] >= 0:
        a = pulls.actuator[i]
        s = actuator_law(own, w, a)
        length = length_of(pulls, line_length, q, w, i)
        total = s[0] + s[1] * length + s[2] * rate_of(pulls, moment, v, w, i)
        if pulls.period[i] > real(0.0):
            total -= turns_force(told, pulls.period[i], length, w, a)
        row = w % own.force_range.shape[0]
        if total > own.force_range[row, a, 0] and total < own.force_range[row, a, 1]:
            found = s[2]
            if muscle_slope.shape[0] > 0:
                found += muscle_slope[w, a]
            if limited.shape[0] > 0 and limited[w, a] != 0:
                found = real(0.0)
    else:
        found = -springs.damping[w % springs.damping.shape[0], pulls.tendon[i]]
    slope[w, i] = found


@kernel(twin=True)
def pull_damping(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    pulls: Pulls,
    moment: wp.array2d(dtype=real),
    slope: wp.array2d(dtype=real),
    # out
    C: wp.array3d(dtype=real),
):
    """C_de = −Σ ∂f/∂ℓ̇ m_d m_e where one of d, e moves what the other moves, 0 elsewhere. Launch over (worlds, nv).

    Both triangles are written, by blocks of trees. `ancestor (nv, ·)`: 1 where e ≤ d moves what d moves.
    """
    w, d = wp.tid()
    begin = topology.dof_begin[d]
    end = topology.tree_v[topology.link_tree[topology.dof_link[d]] + 1]
    for e in range(begin, end):
        C[w, d, e - begin] = real(0.0)
    for j in range(pulls.dof_begin[d], pulls.dof_begin[d + 1]):
        own = pulls.dof_arm[j]
        i = pulls.owner[own]
        for k in range(pulls.begin[i], pulls.begin[i + 1]):
            e = pulls.dof[k]
            if e >= begin and e < end and ancestor[wp.max(d, e), wp.min(d, e) - begin] != 0:
                C[w, d, e - begin] += -slope[w, i] * arm(pulls, moment, w, own) * arm(pulls, moment, w, k)
