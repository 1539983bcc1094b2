# SPDX-License-Identifier: Apache-2.0
"""Ranges of what several actuators do together: to a tendon, and to a hinge or slide, as MuJoCo clamps them (theory §8).

Forces f = s · (1, length, velocity) are those at the start of a step, in MuJoCo's order:

    tendon    F = Σ f beyond its range: every f of its actuators is scaled by range/F
    actuator  f is clamped to its own range
    joint     Q = Σ moment f (+ gravity compensation) beyond its range: Q is clamped

Where a sum is within its range nothing changes. Where it is not, its actuators become explicit forces, s = (f, 0, 0), and a generalised force
brings Q to its bound: tau + (bound − Q). May be taped; which ranges are exceeded is frozen.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec2
from .activation import within
from .actuators import clamped


@struct
class EffortLimits:
    """Which actuators each range holds; shared by all worlds."""

    tendon: wp.array(dtype=int)  # (nu,) the range of its tendon, -1
    tendon_range: wp.array2d(dtype=real)  # (n, 2)
    tendon_begin: wp.array(dtype=int)  # (n + 1,) into `tendon_actuator`
    tendon_actuator: wp.array(dtype=int)
    joint: wp.array(dtype=int)  # (nv,) the range of a degree of freedom, -1
    joint_dof: wp.array(dtype=int)  # (m,)
    joint_range: wp.array2d(dtype=real)  # (m, 2)
    joint_begin: wp.array(dtype=int)  # (m + 1,) into the next two
    joint_actuator: wp.array(dtype=int)
    joint_moment: wp.array(dtype=real)  # generalised force per force
    joint_weight: wp.array(dtype=int)  # (m,) 1: gravity compensation counts
    actuator_begin: wp.array(dtype=int)  # (nu + 1,) into `actuator_joint`
    actuator_joint: wp.array(dtype=int)  # ranges of joints that each actuator moves


@func
def force_of(
    law: wp.array3d(dtype=real), length: wp.array2d(dtype=real), velocity: wp.array2d(dtype=real), w: int, a: int
) -> real:
    return law[w, a, 0] + law[w, a, 1] * length[w, a] + law[w, a, 2] * velocity[w, a]


@func
def tendon_total(
    limits: EffortLimits,
    law: wp.array3d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    w: int,
    t: int,
) -> real:
    total = real(0.0)
    for k in range(limits.tendon_begin[t], limits.tendon_begin[t + 1]):
        total += force_of(law, length, velocity, w, limits.tendon_actuator[k])
    return total


@func
def tendon_scale(
    limits: EffortLimits,
    law: wp.array3d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    w: int,
    t: int,
) -> vec2:
    """(1 where the range of a tendon is exceeded, else 0; what its forces are multiplied with)."""
    found = vec2(real(0.0), real(1.0))
    if t >= 0:
        total = tendon_total(limits, law, length, velocity, w, t)
        bound = within(total, limits.tendon_range[t, 0], limits.tendon_range[t, 1])
        if bound < total or bound > total:
            found = vec2(real(1.0), bound / total)
    return found


@kernel(twin=True)
def limit_tendons(
    limits: EffortLimits,
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    own: wp.array3d(dtype=real),
    # out
    law: wp.array3d(dtype=real),
):
    """Laws within the ranges of tendons. Launch over (worlds, nu)."""
    w, a = wp.tid()
    scale = tendon_scale(limits, own, length, velocity, w, limits.tendon[a])
    if scale[0] > real(0.0):
        law[w, a, 0] = force_of(own, length, velocity, w, a) * scale[1]
        law[w, a, 1] = real(0.0)
        law[w, a, 2] = real(0.0)
    else:
        law[w, a, 0] = own[w, a, 0]
        law[w, a, 1] = own[w, a, 1]
        law[w, a, 2] = own[w, a, 2]


@func
def joint_total(
    limits: EffortLimits,
    force_range: wp.array3d(dtype=real),
    law: wp.array3d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    w: int,
    j: int,
) -> real:
    total = real(0.0)
    for k in range(limits.joint_begin[j], limits.joint_begin[j + 1]):
        a = limits.joint_actuator[k]
        total += limits.joint_moment[k] * clamped(force_of(law, length, velocity, w, a), force_range, w, a)
    return total


@kernel(twin=True)
def joint_totals(
    limits: EffortLimits,
    force_range: wp.array3d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    law: wp.array3d(dtype=real),
    compensation: wp.array2d(dtype=real),
    # out
    total: wp.array2d(dtype=real),
):
    """What all actuators do to each joint with a range; `compensation (worlds, nv)` of gravity may be empty. Launch over (worlds, ranges)."""
    w, j = wp.tid()
    force = joint_total(limits, force_range, law, length, velocity, w, j)
    if compensation.shape[0] > 0 and limits.joint_weight[j] != 0:
        total[w, j] = force + compensation[w, limits.joint_dof[j]]
    else:
        total[w, j] = force


@func
def exceeds(limits: EffortLimits, total: wp.array2d(dtype=real), w: int, a: int) -> int:
    """How many ranges of the joints that an actuator moves are exceeded."""
    count = int(0)
    for k in range(limits.actuator_begin[a], limits.actuator_begin[a + 1]):
        j = limits.actuator_joint[k]
        if total[w, j] < limits.joint_range[j, 0] or total[w, j] > limits.joint_range[j, 1]:
            count += 1
    return count


@kernel(twin=True)
def limit_joints(
    limits: EffortLimits,
    force_range: wp.array3d(dtype=real),
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
    total: wp.array2d(dtype=real),
    own: wp.array3d(dtype=real),
    # out
    law: wp.array3d(dtype=real),
):
    """Laws of actuators that move a joint whose range is exceeded are their forces; others stay. Launch over (worlds, nu)."""
    w, a = wp.tid()
    if exceeds(limits, total, w, a) > 0:
        law[w, a, 0] = clamped(force_of(own, length, velocity, w, a), force_range, w, a)
        law[w, a, 1] = real(0.0)
        law[w, a, 2] = real(0.0)
    else:
        law[w, a, 0] = own[w, a, 0]
        law[w, a, 1] = own[w, a, 1]
        law[w, a, 2] = own[w, a, 2]


@kernel(twin=True)
def limited_tau(
    limits: EffortLimits,
    total: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    # out
    acting: wp.array2d(dtype=real),
):
    """tau, and what brings the total of a joint to its bound. Launch over (worlds, nv)."""
    w, d = wp.tid()
    j = limits.joint[d]
    if j >= 0:
        bound = within(total[w, j], limits.joint_range[j, 0], limits.joint_range[j, 1])
        acting[w, d] = tau[w, d] + (bound - total[w, j])
    else:
        acting[w, d] = tau[w, d]
