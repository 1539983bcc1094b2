# SPDX-License-Identifier: Apache-2.0
"""What the state, the controls and the actuators' own parameters change about actuator forces: columns ∂r/∂x (theory §3.5).

A force is s · (1, ℓ, ℓ̇) with s = gain u + bias, within its limits: of a joint's actuator in `actuators.py`, or the impulse
of a scalar row (`kernels/rows/kinds/servo.py`), γ = h s · (1, ℓ + h ℓ̇, ℓ̇) at the new velocity. At a limit it changes with the
limit only.
"""

import warp as wp

from ..forces.actuators import actuator_law, clamped, has_row
from ..forces.effort import is_dissipative
from ..real import func, kernel, real, struct, vec3
from ..rows.table import ACTUATOR, Rows, Table, row_rate
from ..tree import joints as jt
from ..tree.passes import Topology
from .row_slopes import RowSlopes

INSIDE = wp.constant(-1)


@struct
class Actuators:
    """Tables and parameters (one row, shared, or one per world)."""

    link: wp.array(dtype=int)
    row: wp.array(dtype=int)
    gear: wp.array2d(dtype=real)
    gain: wp.array3d(dtype=real)
    bias: wp.array3d(dtype=real)
    control_range: wp.array3d(dtype=real)
    force_range: wp.array3d(dtype=real)
    control: wp.array2d(dtype=real)


@struct
class FirstColumns:
    """−1 for none."""

    control: int
    actuator_gain: int
    actuator_bias: int
    control_range: int
    force_range: int


@func
def law_of(actuators: Actuators, w: int, a: int) -> vec3:
    return actuator_law(actuators.gain, actuators.bias, actuators.control_range, actuators.control, w, a)


@func
def bound_of(actuators: Actuators, force: real, w: int, a: int) -> int:
    """Which limit a force is beyond: INSIDE, 0 the lower or 1 the upper."""
    limit = clamped(force, actuators.force_range, w, a)
    bound = int(INSIDE)
    if limit > force:
        bound = 0
    elif limit < force:
        bound = 1
    return bound


@func
def add_entries(
    actuators: Actuators,
    columns: FirstColumns,
    w: int,
    d: int,
    a: int,
    factor: real,
    s: vec3,
    bound: int,
    X: wp.array3d(dtype=real),
):
    """X −= factor ∂(force of actuator a) in row d, the force being (gain u + bias) · s where it is inside its limits."""
    if bound == INSIDE:
        g = w % actuators.gain.shape[0]
        by_control = real(0.0)
        for i in range(3):
            by_control += actuators.gain[g, a, i] * s[i]
        u = clamped(actuators.control[w, a], actuators.control_range, w, a)
        if u == actuators.control[w, a]:
            X[w, d, columns.control + a] = X[w, d, columns.control + a] - factor * by_control
        elif columns.control_range >= 0:
            column = columns.control_range + 2 * a
            if u < actuators.control[w, a]:
                column += 1
            X[w, d, column] = X[w, d, column] - factor * by_control
        for i in range(3):
            if columns.actuator_gain >= 0:
                column = columns.actuator_gain + 3 * a + i
                X[w, d, column] = X[w, d, column] - factor * s[i] * u
            if columns.actuator_bias >= 0:
                column = columns.actuator_bias + 3 * a + i
                X[w, d, column] = X[w, d, column] - factor * s[i]
    elif columns.force_range >= 0:
        column = columns.force_range + 2 * a + bound
        X[w, d, column] = X[w, d, column] - factor


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
    """Forces of `actuators.py`: a damping gain acts on the new velocity v, one that feeds energy in on v0.

    Launch over worlds.
    """
    w = wp.tid()
    nv = v.shape[1]
    for a in range(actuators.link.shape[0]):
        law = law_of(actuators, w, a)
        l = actuators.link[a]
        n = int(0)
        if not has_row(actuators.row, law, actuators.force_range, w, a):
            n = jt.dofs(topology.link_type[l])
        if n == 1:
            j = topology.link_v[l]
            ratio = actuators.gear[a, 0]
            s = vec3(real(1.0), ratio * q[w, topology.link_q[l]], ratio * v0[w, j])
            bound = bound_of(actuators, wp.dot(law, s), w, a)
            if bound == INSIDE:
                X[w, j, j] = X[w, j, j] - h * ratio * ratio * law[1]
                if law[2] > real(0.0):
                    X[w, j, nv + j] = X[w, j, nv + j] - h * ratio * ratio * law[2]
                else:
                    s[2] = ratio * v[w, j]
            add_entries(actuators, columns, w, j, a, h * ratio, s, bound, X)
        elif n > 1:
            bound = bound_of(actuators, law[0], w, a)
            for k in range(n):
                s = vec3(real(1.0), real(0.0), real(0.0))
                add_entries(actuators, columns, w, topology.link_v[l] + k, a, h * actuators.gear[a, k], s, bound, X)


@kernel
def effort_columns(
    table: Table,
    rows: Rows,
    h: real,
    actuators: Actuators,
    columns: FirstColumns,
    phi: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    row_G: wp.array2d(dtype=real),
    row_gamma: wp.array2d(dtype=real),
    # out
    slopes: RowSlopes,
    # in and out
    X: wp.array3d(dtype=real),
):
    """Rows of actuators, φ their length: their slopes by q and v0, and the columns of controls and parameters. Launch over worlds."""
    w = wp.tid()
    for k in range(table.kind.shape[0]):
        if table.owner[k] == ACTUATOR and rows.R[w, k] > real(0.0):
            a = table.element[k]
            law = law_of(actuators, w, a)
            s = vec3(real(1.0), phi[w, k], real(0.0))
            bound = int(INSIDE)
            by_rate = real(0.0)
            if is_dissipative(law):
                s[2] = row_rate(rows, v, w, k)
                s[1] += h * s[2]
                if row_G[w, k] == real(0.0):
                    bound = 0
                    if row_gamma[w, k] >= rows.upper[w, k]:
                        bound = 1
            else:
                s[2] = row_rate(rows, v0, w, k)
                bound = bound_of(actuators, wp.dot(law, s), w, a)
                by_rate = law[2]
            slopes.R_w[w, k] = real(0.0)
            for j in range(rows.support_size[k]):
                J = rows.J[w, k, j]
                slopes.gamma_q[w, k, j] = real(0.0)
                slopes.gamma_v[w, k, j] = real(0.0)
                if bound == INSIDE:
                    slopes.gamma_q[w, k, j] = h * law[1] * J
                    slopes.gamma_v[w, k, j] = h * by_rate * J
                add_entries(actuators, columns, w, rows.support[k, j], a, h * J, s, bound, X)
