# SPDX-License-Identifier: Apache-2.0
"""Generalised forces that are not contact: joint springs, actuators, user forces, wrenches on bodies.

Linear damping (joint dampers and actuator velocity gains) is kept apart as the diagonal D, because the Euler schemes
treat it implicitly: the returned force holds everything but -D v. May be taped.
"""

import warp as wp

from ..real import func, kernel, real, transform, vec3, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from .effort import is_bounded, is_dissipative

# When a row stands for an actuator (`kernels/rows/kinds/servo.py`): never; where it has an effort limit and feedback that takes energy
# out; always, as for tendons.
NEVER = wp.constant(0)
WHERE_IMPLICIT = wp.constant(1)
ALWAYS = wp.constant(2)


@func
def spring_force(
    topology: Topology,
    stiffness: wp.array2d(dtype=real),
    reference: wp.array2d(dtype=real),
    damping: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    w: int,
    l: int,
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """`passive_force` of the joint of link l."""
    kind = topology.link_type[l]
    j = topology.link_v[l]
    if kind != joints.FIXED:
        x = joints.spring_deflection(kind, q, reference, w, topology.link_q[l], j)
        for i in range(joints.dofs(kind)):
            d = j + i
            D[w, d] = damping[w % damping.shape[0], d]
            if tau.shape[0] == 0:
                force[w, d] = -stiffness[w % stiffness.shape[0], d] * x[i]
            else:
                force[w, d] = tau[w, d] - stiffness[w % stiffness.shape[0], d] * x[i]


@kernel(twin=True)
def passive_force(
    topology: Topology,
    stiffness: wp.array2d(dtype=real),
    reference: wp.array2d(dtype=real),
    damping: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """force = tau - K (q - reference), D = joint damping. `tau` may be empty. Launch over (worlds, links)."""
    w, l = wp.tid()
    spring_force(topology, stiffness, reference, damping, q, tau, w, l, force, D)


@func
def clamped(x: real, limits: wp.array3d(dtype=real), w: int, a: int) -> real:
    """x within its limits; a NaN stays one, so that it is noticed."""
    row = w % limits.shape[0]
    y = x
    if x < limits[row, a, 0]:
        y = limits[row, a, 0]
    elif x > limits[row, a, 1]:
        y = limits[row, a, 1]
    return y


@func
def actuator_law(
    gain: wp.array3d(dtype=real),
    bias: wp.array3d(dtype=real),
    control_range: wp.array3d(dtype=real),
    control: wp.array2d(dtype=real),
    w: int,
    a: int,
) -> vec3:
    """gain u + bias: the force of an actuator is this . (1, length, velocity), before its limits."""
    u = real(0.0)
    if control.shape[0] > 0:
        u = clamped(control[w, a], control_range, w, a)
    g = w % gain.shape[0]
    b = w % bias.shape[0]
    return vec3(gain[g, a, 0] * u + bias[b, a, 0], gain[g, a, 1] * u + bias[b, a, 1], gain[g, a, 2] * u + bias[b, a, 2])


@func
def has_row(actuator_row: wp.array(dtype=int), law: vec3, force_range: wp.array3d(dtype=real), w: int, a: int) -> bool:
    """Whether a row (`kernels/rows/kinds/servo.py`) stands for the actuator; always on a tendon."""
    limits = w % force_range.shape[0]
    kind = actuator_row[a]
    bounded = is_bounded(force_range[limits, a, 0], force_range[limits, a, 1])
    return kind == ALWAYS or (kind == WHERE_IMPLICIT and bounded and is_dissipative(law))


@func
def drive(
    topology: Topology,
    actuator_link: wp.array(dtype=int),
    actuator_row: wp.array(dtype=int),
    gear: wp.array2d(dtype=real),
    gain: wp.array3d(dtype=real),
    bias: wp.array3d(dtype=real),
    control_range: wp.array3d(dtype=real),
    force_range: wp.array3d(dtype=real),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    control: wp.array2d(dtype=real),
    w: int,
    a: int,
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """`actuator_force` of actuator a, to the joint of its link."""
    law = actuator_law(gain, bias, control_range, control, w, a)
    l = actuator_link[a]
    n = int(0)
    if not has_row(actuator_row, law, force_range, w, a):
        n = joints.dofs(topology.link_type[l])
    if n == 1:
        j = topology.link_v[l]
        ratio = gear[a, 0]
        slope = law[2]
        static = law[0] + law[1] * (ratio * q[w, topology.link_q[l]])
        total = static + slope * ratio * v[w, j]
        limit = clamped(total, force_range, w, a)
        if limit < total or limit > total or slope > real(0.0):
            force[w, j] += ratio * limit
        else:
            force[w, j] += ratio * static
            D[w, j] += -ratio * ratio * slope
    elif n > 1:
        limit = clamped(law[0], force_range, w, a)
        for k in range(n):
            force[w, topology.link_v[l] + k] += gear[a, k] * limit


@kernel(twin=True)
def actuator_force(
    topology: Topology,
    actuator_link: wp.array(dtype=int),
    actuator_row: wp.array(dtype=int),
    gear: wp.array2d(dtype=real),
    gain: wp.array3d(dtype=real),
    bias: wp.array3d(dtype=real),
    control_range: wp.array3d(dtype=real),
    force_range: wp.array3d(dtype=real),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    control: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """Adds gear (gain . s u + bias . s), s = (1, length, velocity), to `force`, without the damping that D takes.

    Where the force is at its limit it does not depend on the velocity, and a gain that feeds energy in (slope > 0)
    would make A indefinite: both stay explicit, and D gets nothing. Actuators that a row stands for are left out.
    Launch over worlds.
    """
    w = wp.tid()
    for a in range(actuator_link.shape[0]):
        drive(
            topology, actuator_link, actuator_row, gear, gain, bias, control_range, force_range, q, v, control, w, a, force, D
        )  # fmt: skip


@func
def wrench_about_reference(
    topology: Topology,
    body_com: wp.array2d(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    wrench: wp.array3d(dtype=real),
    w: int,
    body: int,
) -> vec6:
    """The force vector about o of the wrench (torque, force) at a body's COM, world axes."""
    l = topology.body_link[body]
    X = link_X[w, l]
    o = wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[l]]])
    arm = wp.transform_point(X, body_com[w % body_com.shape[0], body]) - o
    f = vec3(wrench[w, body, 3], wrench[w, body, 4], wrench[w, body, 5])
    return sp.join(vec3(wrench[w, body, 0], wrench[w, body, 1], wrench[w, body, 2]) + wp.cross(arm, f), f)


@kernel(twin=True)
def wrench_force(
    topology: Topology,
    body_com: wp.array2d(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    wrench: wp.array3d(dtype=real),
    # scratch
    link_F: wp.array2d(dtype=vec6),
    # out
    force: wp.array2d(dtype=real),
):
    """Adds the generalised force of wrenches (torque, force) at the bodies' COMs, world axes: S^T of what each
    subtree bears. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    end = topology.tree_link[tree + 1]
    for l in range(topology.tree_link[tree], end):
        if topology.link_body[l] >= 0:
            link_F[w, l] = wrench_about_reference(topology, body_com, link_X, wrench, w, topology.link_body[l])
        else:
            link_F[w, l] = vec6()
    for k in range(end - topology.tree_link[tree]):
        l = end - 1 - k
        for i in range(joints.dofs(topology.link_type[l])):
            force[w, topology.link_v[l] + i] += wp.dot(dof_S[w, topology.link_v[l] + i], link_F[w, l])
        if topology.link_parent[l] >= 0:
            link_F[w, topology.link_parent[l]] += link_F[w, l]
