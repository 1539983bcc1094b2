# SPDX-License-Identifier: Apache-2.0
"""Generalized forces other than contact: joint springs, actuators, user forces, wrenches on bodies.

Linear damping (joint dampers and actuator velocity gains) is returned separately as the diagonal D, because the Euler
schemes treat it implicitly. The returned force contains everything except -D v. May be taped.
"""

import warp as wp

from ..real import func, kernel, real, struct, transform, vec3, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant
from .effort import is_bounded, is_dissipative

# When a row replaces the force of an actuator (`kernels/rows/kinds/servo.py`): never; if it has an effort limit and
# dissipative feedback; always, as for tendons.
NEVER = wp.constant(0)
WHERE_IMPLICIT = wp.constant(1)
ALWAYS = wp.constant(2)


@struct
class Actuators:
    """What actuators move, and their laws. Parameters have one row for all worlds, or one row per world."""

    link: wp.array(dtype=int)  # -1: not on a joint
    row: wp.array(dtype=int)  # when a row replaces its force
    gear: wp.array2d(dtype=real)
    gain: wp.array3d(dtype=real)
    bias: wp.array3d(dtype=real)
    control_range: wp.array3d(dtype=real)
    force_range: wp.array3d(dtype=real)
    control: wp.array2d(dtype=real)  # empty if the biases are the whole law


@func
def spring_force(
    topology: Topology,
    plant: Plant,
    tau: wp.array2d(dtype=real),
    x: vec6,
    w: int,
    l: int,
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """`passive_force` for the joint of link l, whose springs are deflected by x."""
    for i in range(joints.dofs(topology.link_type[l])):
        d = topology.link_v[l] + i
        D[w, d] = plant.joint_damping[w % plant.joint_damping.shape[0], d]
        stiffness = plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d]
        if tau.shape[0] == 0:
            force[w, d] = -stiffness * x[i]
        else:
            force[w, d] = tau[w, d] - stiffness * x[i]


@kernel(twin=True)
def passive_force(
    topology: Topology,
    plant: Plant,
    q: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """force = tau - K (q - reference), D = joint damping. `tau` may be empty. Launch over (worlds, links)."""
    w, l = wp.tid()
    x = joints.spring_deflection(
        topology.link_type[l], q, plant.joint_reference, w, topology.link_q[l], topology.link_v[l]
    )
    spring_force(topology, plant, tau, x, w, l, force, D)


@func
def clamped(x: real, limits: wp.array3d(dtype=real), w: int, a: int) -> real:
    """x clamped to its limits; a NaN stays a NaN, so that it is noticed."""
    row = w % limits.shape[0]
    y = x
    if x < limits[row, a, 0]:
        y = limits[row, a, 0]
    elif x > limits[row, a, 1]:
        y = limits[row, a, 1]
    return y


@func
def scaled_law(actuators: Actuators, u: real, w: int, a: int) -> vec3:
    """gain u + bias."""
    g = w % actuators.gain.shape[0]
    b = w % actuators.bias.shape[0]
    return vec3(
        actuators.gain[g, a, 0] * u + actuators.bias[b, a, 0],
        actuators.gain[g, a, 1] * u + actuators.bias[b, a, 1],
        actuators.gain[g, a, 2] * u + actuators.bias[b, a, 2],
    )


@func
def actuator_law(actuators: Actuators, w: int, a: int) -> vec3:
    """s = gain u + bias. The force of the actuator is s · (1, length, velocity), before its limits."""
    u = real(0.0)
    if actuators.control.shape[0] > 0:
        u = clamped(actuators.control[w, a], actuators.control_range, w, a)
    return scaled_law(actuators, u, w, a)


@func
def constant_force(actuators: Actuators, w: int, a: int) -> real:
    """The force of an actuator without feedback, clamped to its limits."""
    return clamped(actuator_law(actuators, w, a)[0], actuators.force_range, w, a)


@func
def has_row(actuators: Actuators, law: vec3, w: int, a: int) -> bool:
    """Whether a row (`kernels/rows/kinds/servo.py`) replaces the actuator's force; always on a tendon."""
    limits = w % actuators.force_range.shape[0]
    kind = actuators.row[a]
    bounded = is_bounded(actuators.force_range[limits, a, 0], actuators.force_range[limits, a, 1])
    return kind == ALWAYS or (kind == WHERE_IMPLICIT and bounded and is_dissipative(law))


@func
def drive(
    topology: Topology,
    actuators: Actuators,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    a: int,
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """`actuator_force` for actuator a, on the joint of its link."""
    law = actuator_law(actuators, w, a)
    l = actuators.link[a]
    n = int(0)
    if not has_row(actuators, law, w, a):
        n = joints.dofs(topology.link_type[l])
    if n == 1:
        j = topology.link_v[l]
        ratio = actuators.gear[a, 0]
        slope = law[2]
        static = law[0] + law[1] * (ratio * q[w, topology.link_q[l]])
        total = static + slope * ratio * v[w, j]
        limit = clamped(total, actuators.force_range, w, a)
        if limit < total or limit > total or slope > real(0.0):
            force[w, j] += ratio * limit
        else:
            force[w, j] += ratio * static
            D[w, j] += -ratio * ratio * slope
    elif n > 1:
        limit = clamped(law[0], actuators.force_range, w, a)
        for k in range(n):
            force[w, topology.link_v[l] + k] += actuators.gear[a, k] * limit


@kernel(twin=True)
def actuator_force(
    topology: Topology,
    actuators: Actuators,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=real),
    D: wp.array2d(dtype=real),
):
    """Adds gear (gain . s u + bias . s), s = (1, length, velocity), to `force`, without the damping, which goes to D.

    A force at its limit does not depend on the velocity. A velocity gain that feeds energy in (slope > 0) would make A
    indefinite. Both stay explicit and add nothing to D. Actuators whose force a row replaces are skipped. Launch over
    worlds.
    """
    w = wp.tid()
    for a in range(actuators.link.shape[0]):
        drive(topology, actuators, q, v, w, a, force, D)


@func
def wrench_about_reference(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    wrench: wp.array3d(dtype=real),
    w: int,
    body: int,
) -> vec6:
    """The wrench (torque, force) at a body's center of mass, taken about o, in world axes."""
    l = topology.body_link[body]
    X = link_X[w, l]
    o = reference_point(topology, link_X, w, l)
    arm = wp.transform_point(X, plant.body_com[w % plant.body_com.shape[0], body]) - o
    f = vec3(wrench[w, body, 3], wrench[w, body, 4], wrench[w, body, 5])
    return sp.join(vec3(wrench[w, body, 0], wrench[w, body, 1], wrench[w, body, 2]) + wp.cross(arm, f), f)


@kernel(twin=True)
def wrench_force(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    wrench: wp.array3d(dtype=real),
    # scratch
    link_F: wp.array2d(dtype=vec6),
    # out
    force: wp.array2d(dtype=real),
):
    """Adds the generalized force of wrenches (torque, force) at the bodies' centers of mass, in world axes: Sᵀ times
    the sum over each subtree. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    end = topology.tree_link[tree + 1]
    for l in range(topology.tree_link[tree], end):
        if topology.link_body[l] >= 0:
            link_F[w, l] = wrench_about_reference(topology, plant, link_X, wrench, w, topology.link_body[l])
        else:
            link_F[w, l] = vec6()
    for k in range(end - topology.tree_link[tree]):
        l = end - 1 - k
        for i in range(joints.dofs(topology.link_type[l])):
            force[w, topology.link_v[l] + i] += wp.dot(dof_S[w, topology.link_v[l] + i], link_F[w, l])
        if topology.link_parent[l] >= 0:
            link_F[w, topology.link_parent[l]] += link_F[w, l]
