# SPDX-License-Identifier: Apache-2.0
"""Moment arms of lines, and the forces of actuators on them: spatial tendons, actuators on sites, slider-cranks.

A *line* has a length L(q) and moment arms m with L̇ = m · v. It is a spatial tendon (`spatial_tendon.py`), or the
length of an actuator on sites or on a crank (`site_transmission.py`). Every line acts on links by wrenches, each a
force F at a point p and a couple C. On degree of freedom d

    m_d = Σ F · (velocity of p with d) + C · (angular velocity with d)

over the wrenches on links that d moves. The moment arms of all lines are in one row per world, line after line. Each
line has entries for its support: the degrees of freedom that move some of its links but not all alike.
"""

import warp as wp

from ..real import func, kernel, real, struct, transform, vec3, vec6
from ..tree import spatial as sp
from ..tree.passes import Topology
from .actuators import Actuators, constant_force


@struct
class Columns:
    """The columns of the moment arms: their degrees of freedom and wrenches; shared by all worlds."""

    dof: wp.array(dtype=int)  # (n,)
    begin: wp.array(dtype=int)  # (n + 1,) first wrench of each column in the list
    wrench: wp.array(dtype=int)
    line: wp.array(dtype=int)  # (lines + 1,) first column of each line


@struct
class Motors:
    """Actuators on lines without feedback, which need no row, sorted by the degrees of freedom that they move; shared
    by all worlds."""

    begin: wp.array(dtype=int)  # (nv + 1,) first entry of each degree of freedom
    actuator: wp.array(dtype=int)
    column: wp.array(dtype=int)
    gear: wp.array(dtype=real)  # of an actuator on a tendon; lines of sites and cranks include it in their moment arms


@struct
class Measured:
    """Actuators on lines; shared by all worlds."""

    actuator: wp.array(dtype=int)
    line: wp.array(dtype=int)
    gear: wp.array(dtype=real)


@func
def power(S: vec6, arm: vec3, force: vec3, couple: vec3) -> real:
    """F · (velocity at `arm` from o) + C · (angular velocity), for the motion S."""
    return wp.dot(force, sp.velocity_at(S, arm)) + wp.dot(couple, sp.angular(S))


@kernel(twin=True)
def moment_arms(
    topology: Topology,
    columns: Columns,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    point: wp.array2d(dtype=vec3),
    force: wp.array2d(dtype=vec3),
    couple: wp.array2d(dtype=vec3),
    # out
    moment: wp.array2d(dtype=real),
):
    """Moment arms of all lines. Launch over (worlds, columns)."""
    w, c = wp.tid()
    S = dof_S[w, columns.dof[c]]
    tree = topology.link_tree[topology.dof_link[columns.dof[c]]]
    o = wp.transform_get_translation(link_X[w, topology.tree_reference[tree]])
    total = real(0.0)
    for i in range(columns.begin[c], columns.begin[c + 1]):
        total += power(S, point[w, columns.wrench[i]] - o, force[w, columns.wrench[i]], couple[w, columns.wrench[i]])
    moment[w, c] = total


@func
def pull_on(motors: Motors, actuators: Actuators, moment: wp.array2d(dtype=real), w: int, d: int) -> real:
    """Generalized force of all motors on degree of freedom d."""
    total = real(0.0)
    for i in range(motors.begin[d], motors.begin[d + 1]):
        pull = motors.gear[i] * constant_force(actuators, w, motors.actuator[i])
        total += pull * moment[w, motors.column[i]]
    return total


@kernel(twin=True)
def motor_forces(
    motors: Motors,
    actuators: Actuators,
    moment: wp.array2d(dtype=real),
    # in and out
    force: wp.array2d(dtype=real),
):
    """Adds the generalized forces of motors on lines. Launch over (worlds, nv)."""
    w, d = wp.tid()
    if motors.begin[d + 1] > motors.begin[d]:
        force[w, d] += pull_on(motors, actuators, moment, w, d)


@func
def line_rate(columns: Columns, moment: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, l: int) -> real:
    """m · v."""
    total = real(0.0)
    for c in range(columns.line[l], columns.line[l + 1]):
        total += moment[w, c] * v[w, columns.dof[c]]
    return total


@kernel(twin=True)
def measure_actuators(
    columns: Columns,
    measured: Measured,
    line_length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    length: wp.array2d(dtype=real),
    velocity: wp.array2d(dtype=real),
):
    """Lengths and velocities of actuators on lines, gear included. Launch over (worlds, actuators on lines)."""
    w, i = wp.tid()
    a = measured.actuator[i]
    length[w, a] = measured.gear[i] * line_length[w, measured.line[i]]
    velocity[w, a] = measured.gear[i] * line_rate(columns, moment, v, w, measured.line[i])
