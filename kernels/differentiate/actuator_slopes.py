# SPDX-License-Identifier: Apache-2.0
"""Columns ∂r/∂x of controls, and of the parameters of actuators and joint rows (theory §3.5).

An actuator's force is s · (1, ℓ, ℓ̇) with s = gain u + bias, within its limits. It is the force of `actuators.py`, or
the impulse of a scalar row (`kernels/rows/kinds/servo.py`), whose slopes are those of the row's law. At a limit, the
force changes only with the limit.
"""

import warp as wp

from ..forces.actuators import Actuators, actuator_law, clamped, has_row
from ..real import func, kernel, real, struct, vec3
from ..rows.kinds.kind import ONE_SIDED, YIELDS
from ..rows.table import ACTUATOR, JOINT, Rows, Table
from ..tree import joints as jt
from ..tree.passes import Topology
from .row_slopes import RowSlopes


@struct
class FirstColumns:
    """The first column of each variable; −1 if it has none."""

    control: int
    actuator_gain: int
    actuator_bias: int
    control_range: int
    force_range: int
    joint_range: int
    joint_friction: int


@func
def add_entries(
    actuators: Actuators,
    columns: FirstColumns,
    w: int,
    d: int,
    a: int,
    by_law: vec3,
    by_low: real,
    by_high: real,
    X: wp.array3d(dtype=real),
):
    """X −= ∂f in row d.

    `by_law`, `by_low`, `by_high`: slopes of f with respect to the law gain u + bias and to the limits of actuator a.
    """
    g = w % actuators.gain.shape[0]
    by_control = real(0.0)
    for i in range(3):
        by_control += actuators.gain[g, a, i] * by_law[i]
    u = clamped(actuators.control[w, a], actuators.control_range, w, a)
    if u == actuators.control[w, a]:
        X[w, d, columns.control + a] = X[w, d, columns.control + a] - by_control
    elif columns.control_range >= 0:
        column = columns.control_range + 2 * a
        if u < actuators.control[w, a]:
            column += 1
        X[w, d, column] = X[w, d, column] - by_control
    for i in range(3):
        if columns.actuator_gain >= 0:
            column = columns.actuator_gain + 3 * a + i
            X[w, d, column] = X[w, d, column] - by_law[i] * u
        if columns.actuator_bias >= 0:
            column = columns.actuator_bias + 3 * a + i
            X[w, d, column] = X[w, d, column] - by_law[i]
    if columns.force_range >= 0:
        column = columns.force_range + 2 * a
        X[w, d, column] = X[w, d, column] - by_low
        X[w, d, column + 1] = X[w, d, column + 1] - by_high


@func
def add_force(
    actuators: Actuators,
    columns: FirstColumns,
    w: int,
    d: int,
    a: int,
    factor: real,
    s: vec3,
    force: real,
    X: wp.array3d(dtype=real),
):
    """X −= factor ∂f in row d. f is `force` within its limits; `s`: its slope with respect to the law."""
    limit = clamped(force, actuators.force_range, w, a)
    by_law = factor * s
    by_low = real(0.0)
    by_high = real(0.0)
    if limit > force:
        by_law = vec3()
        by_low = factor
    elif limit < force:
        by_law = vec3()
        by_high = factor
    add_entries(actuators, columns, w, d, a, by_law, by_low, by_high, X)


@kernel
def actuator_columns(
    topology: Topology,
    h: real,
    actuators: Actuators,
    columns: FirstColumns,
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    X: wp.array3d(dtype=real),
):
    """Columns of the forces of `actuators.py`.

    A gain that damps acts on the new velocity v, one that feeds energy in on v0. Launch over worlds.
    """
    w = wp.tid()
    nv = v.shape[1]
    for a in range(actuators.link.shape[0]):
        law = actuator_law(actuators, w, a)
        l = actuators.link[a]
        n = int(0)
        if not has_row(actuators, law, w, a):
            n = jt.dofs(topology.link_type[l])
        if n == 1:
            j = topology.link_v[l]
            ratio = actuators.gear[a, 0]
            s = vec3(real(1.0), ratio * q[w, topology.link_q[l]], ratio * v0[w, j])
            force = wp.dot(law, s)
            if clamped(force, actuators.force_range, w, a) == force:
                X[w, j, j] = X[w, j, j] - h * ratio * ratio * law[1]
                if law[2] > real(0.0):
                    X[w, j, nv + j] = X[w, j, nv + j] - h * ratio * ratio * law[2]
                else:
                    s[2] = ratio * v[w, j]
            add_force(actuators, columns, w, j, a, h * ratio, s, force, X)
        elif n > 1:
            s = vec3(real(1.0), real(0.0), real(0.0))
            for k in range(n):
                d = topology.link_v[l] + k
                add_force(actuators, columns, w, d, a, h * actuators.gear[a, k], s, law[0], X)


@kernel
def row_parameter_columns(
    table: Table,
    rows: Rows,
    slopes: RowSlopes,
    actuators: Actuators,
    columns: FirstColumns,
    # in and out
    X: wp.array3d(dtype=real),
):
    """Columns of controls and parameters, for the rows of joints and actuators. Launch over worlds."""
    w = wp.tid()
    for k in range(table.kind.shape[0]):
        owner = table.owner[k]
        if (owner == JOINT or owner == ACTUATOR) and rows.R[w, k] > real(0.0):
            by = slopes.law[w, k]
            column = int(-1)
            slope = real(0.0)
            if owner == JOINT:
                if (table.traits[k] & YIELDS) != 0 and columns.joint_friction >= 0:
                    column = columns.joint_friction + table.element[k]
                    slope = by.e
                elif (table.traits[k] & ONE_SIDED) != 0 and columns.joint_range >= 0:
                    column = columns.joint_range + 2 * table.element[k]
                    if table.side[k] < real(0.0):
                        column += 1
                    slope = -table.side[k] * by.phi
            for i in range(rows.support_size[k]):
                d = rows.support[k, i]
                J = rows.J[w, k, i]
                if owner == ACTUATOR:
                    add_entries(actuators, columns, w, d, table.element[k], J * by.gains, J * by.low, J * by.high, X)
                elif column >= 0:
                    X[w, d, column] = X[w, d, column] - J * slope
