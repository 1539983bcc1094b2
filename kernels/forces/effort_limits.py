# SPDX-License-Identifier: Apache-2.0
"""Ranges of the total force of several actuators: on a tendon, and on a hinge or slide, as MuJoCo clamps it (theory
§8).

The forces f = s · (1, length, velocity) are taken at the beginning of a step. They are limited in MuJoCo's order:

    tendon    if F = Σ f exceeds its range, every f of its actuators is scaled by range/F
    actuator  f is clamped to its own range
    joint     if Q = Σ moment f (+ gravity compensation) exceeds its range, Q is clamped

A sum within its range changes nothing. If it exceeds its range, its actuators become explicit forces, s = (f, 0, 0),
and a generalized force brings Q to its bound: tau + (bound − Q). May be taped; which ranges are exceeded is frozen.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec2, vec3
from .activation import within
from .actuators import clamped


@struct
class EffortLimits:
    """The actuators of each range; shared by all worlds."""

    tendon: wp.array(dtype=int)  # (nu,) range of its tendon; -1: none
    tendon_range: wp.array2d(dtype=real)  # (n, 2)
    tendon_begin: wp.array(dtype=int)  # (n + 1,) into `tendon_actuator`
    tendon_actuator: wp.array(dtype=int)
    joint: wp.array(dtype=int)  # (nv,) range of each degree of freedom; -1: none
    joint_dof: wp.array(dtype=int)  # (m,)
    joint_range: wp.array2d(dtype=real)  # (m, 2)
    joint_begin: wp.array(dtype=int)  # (m + 1,) into the next two
    joint_actuator: wp.array(dtype=int)
    joint_moment: wp.array(dtype=real)  # generalized force per unit force
    joint_weight: wp.array(dtype=int)  # (m,) 1: gravity compensation is part of the total
    actuator_begin: wp.array(dtype=int)  # (nu + 1,) into `actuator_joint`
    actuator_joint: wp.array(dtype=int)  # ranges of joints that each actuator moves


@struct
class Laws:
    """What the forces f = s · (1, length, velocity) of all actuators follow from, (worlds, nu) each."""

    law: wp.array3d(dtype=real)  # (worlds, nu, 3) s
    length: wp.array2d(dtype=real)
    velocity: wp.array2d(dtype=real)
    force_range: wp.array3d(dtype=real)


@func
def force_of(laws: Laws, w: int, a: int) -> real:
    return laws.law[w, a, 0] + laws.law[w, a, 1] * laws.length[w, a] + laws.law[w, a, 2] * laws.velocity[w, a]


@func
def tendon_total(limits: EffortLimits, laws: Laws, w: int, t: int) -> real:
    total = real(0.0)
    for k in range(limits.tendon_begin[t], limits.tendon_begin[t + 1]):
        total += force_of(laws, w, limits.tendon_actuator[k])
    return total


@func
def tendon_scale(limits: EffortLimits, laws: Laws, w: int, t: int) -> vec2:
    """(1 if the range of tendon t is exceeded, else 0; the factor for its forces)."""
    found = vec2(real(0.0), real(1.0))
    if t >= 0:
        total = tendon_total(limits, laws, w, t)
        bound = within(total, limits.tendon_range[t, 0], limits.tendon_range[t, 1])
        if bound < total or bound > total:
            found = vec2(real(1.0), bound / total)
    return found


@func
def keep(law: wp.array3d(dtype=real), w: int, a: int, s: vec3):
    """Store the law of actuator a."""
    law[w, a, 0] = s[0]
    law[w, a, 1] = s[1]
    law[w, a, 2] = s[2]


@kernel(twin=True)
def limit_tendons(limits: EffortLimits, own: Laws, law: wp.array3d(dtype=real)):
    """Laws limited by the ranges of tendons. Launch over (worlds, nu)."""
    w, a = wp.tid()
    scale = tendon_scale(limits, own, w, limits.tendon[a])
    s = vec3(own.law[w, a, 0], own.law[w, a, 1], own.law[w, a, 2])
    if scale[0] > real(0.0):
        s = vec3(force_of(own, w, a) * scale[1], real(0.0), real(0.0))
    keep(law, w, a, s)


@func
def joint_total(limits: EffortLimits, laws: Laws, w: int, j: int) -> real:
    total = real(0.0)
    for k in range(limits.joint_begin[j], limits.joint_begin[j + 1]):
        a = limits.joint_actuator[k]
        total += limits.joint_moment[k] * clamped(force_of(laws, w, a), laws.force_range, w, a)
    return total


@kernel(twin=True)
def joint_totals(
    limits: EffortLimits,
    laws: Laws,
    compensation: wp.array2d(dtype=real),
    # out
    total: wp.array2d(dtype=real),
):
    """Total force of all actuators on each joint with a range. `compensation (worlds, nv)` of gravity may be empty.
    Launch over (worlds, ranges)."""
    w, j = wp.tid()
    force = joint_total(limits, laws, w, j)
    if compensation.shape[0] > 0 and limits.joint_weight[j] != 0:
        total[w, j] = force + compensation[w, limits.joint_dof[j]]
    else:
        total[w, j] = force


@func
def exceeds(limits: EffortLimits, total: wp.array2d(dtype=real), w: int, a: int) -> int:
    """The number of exceeded ranges among the joints that actuator a moves."""
    count = int(0)
    for k in range(limits.actuator_begin[a], limits.actuator_begin[a + 1]):
        j = limits.actuator_joint[k]
        if total[w, j] < limits.joint_range[j, 0] or total[w, j] > limits.joint_range[j, 1]:
            count += 1
    return count


@kernel(twin=True)
def limit_joints(limits: EffortLimits, own: Laws, total: wp.array2d(dtype=real), law: wp.array3d(dtype=real)):
    """Laws of actuators that move a joint whose range is exceeded become constant forces; other laws stay. Launch over
    (worlds, nu)."""
    w, a = wp.tid()
    s = vec3(own.law[w, a, 0], own.law[w, a, 1], own.law[w, a, 2])
    if exceeds(limits, total, w, a) > 0:
        s = vec3(clamped(force_of(own, w, a), own.force_range, w, a), real(0.0), real(0.0))
    keep(law, w, a, s)


@kernel
def find_limited(
    limits: EffortLimits,
    own: Laws,
    total: wp.array2d(dtype=real),
    link: wp.array(dtype=int),
    # out
    limited: wp.array2d(dtype=int),
):
    """1 for actuators on a tendon, or on a joint (`link` ≥ 0), whose range is exceeded. Launch over (worlds, nu)."""
    w, a = wp.tid()
    found = int(tendon_scale(limits, own, w, limits.tendon[a])[0])
    if link[a] >= 0:
        found += exceeds(limits, total, w, a)
    limited[w, a] = wp.min(found, 1)


@kernel(twin=True)
def limited_tau(
    limits: EffortLimits,
    total: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    # out
    acting: wp.array2d(dtype=real),
):
    """tau plus the force that brings the total of each joint to its bound. Launch over (worlds, nv)."""
    w, d = wp.tid()
    j = limits.joint[d]
    if j >= 0:
        bound = within(total[w, j], limits.joint_range[j, 0], limits.joint_range[j, 1])
        acting[w, d] = tau[w, d] + (bound - total[w, j])
    else:
        acting[w, d] = tau[w, d]
