# SPDX-License-Identifier: Apache-2.0
"""How scalar rows change with the state: their part of the columns ∂r/∂q and ∂r/∂v0 (theory §3.5).

Every kind of row gives the changes of its own data with the dofs of its support, in a `RowSlopes`. The rest is the same
for all kinds:

    γ = clamp(−(J v − v̂)/R):   δγ = γ_q δq + γ_v δv0 − G δJ v,   X −= δJᵀγ + Jᵀδγ.

`weight_slopes.py` uses ∂γ/∂w, with respect to the effective mass. This file has rows on coordinates
(`coordinate_rows.py`), with φ = φ(q ⊕ h v0) − h J v0 where they look ahead. Rows between frames are in
`frame_slopes.py`.
"""

import warp as wp

from ..real import func, kernel, real, struct, vec4
from ..rows.coordinate_rows import coordinates_at
from ..rows.dispatch import measure, row_slopes
from ..rows.kinds.kind import BETWEEN
from ..rows.table import Constants, Rows, RowState, Table, row_rate, row_state
from ..tree import joints


@struct
class RowSlopes:
    """Slopes (worlds, rows, …) of active rows. `width`: the largest support."""

    J_q: wp.array4d(dtype=real)  # (…, width, width) ∂J_i/∂q_e; empty where no row of the model has any
    gamma_q: wp.array3d(dtype=real)  # (…, width) ∂γ/∂q_e at fixed J, R, v
    gamma_v: wp.array3d(dtype=real)  # (…, width) ∂γ/∂v0_e
    law: wp.array2d(dtype=RowState)  # ∂γ/∂x of every input x of the law
    gamma_w: wp.array2d(dtype=real)  # ∂γ/∂w
    gamma_floor: wp.array2d(dtype=real)  # ∂γ by the least w of rows between frames (`frame_rows.py`)


@kernel
def law_slopes(
    table: Table,
    constants: Constants,
    rows: Rows,
    h: real,
    sigma: real,
    phi: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    floor: wp.array2d(dtype=real),
    # out
    slopes: RowSlopes,
):
    """∂γ of every row with respect to the inputs of its law. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if rows.R[w, k] > real(0.0):
        s = row_state(table, constants, h, sigma, w, k)
        s.phi = phi[w, k]
        s.rate = row_rate(rows, v, w, k)
        s.rate0 = row_rate(rows, v0, w, k)
        s.weight = rows.weight[w, k]
        least = real(0.0)
        if (table.traits[k] & BETWEEN) != 0:
            least = floor[w, k]
            s.weight = wp.max(rows.weight[w, k], least)
            s.speed = rows.speed[w, k]
        by = row_slopes(table.kind[k], s)
        slopes.law[w, k] = by
        slopes.gamma_w[w, k] = real(0.0)
        slopes.gamma_floor[w, k] = real(0.0)
        if least > rows.weight[w, k]:
            slopes.gamma_floor[w, k] = by.weight
        else:
            slopes.gamma_w[w, k] = by.weight


@func
def coordinate_turns(
    table: Table, rows: Rows, q: wp.array2d(dtype=real), measured: vec4, w: int, k: int, slopes: RowSlopes
):
    """J_q. For a ball joint's stop J = φ_x r/‖r‖, δr = dlog δq; for φ(x, y) it is φ_yy b bᵀ."""
    size = rows.support_size[k]
    for e in range(size):
        for j in range(size):
            slopes.J_q[w, k, j, e] = measured[3] * table.b[k, j] * table.b[k, e]
    if table.turn[k] >= 0:
        r = joints.quaternion_log(joints.read_quaternion(q, w, table.turn[k]))
        angle = wp.length(r)
        if angle > real(0.0):
            axis = r / angle
            turn = measured[1] * (wp.identity(3, real) - wp.outer(axis, axis)) * joints.rotation_dlog(r) / angle
            for e in range(3):
                for j in range(3):
                    slopes.J_q[w, k, j, e] = turn[j, e]


@kernel
def coordinate_row_slopes(
    table: Table,
    constants: Constants,
    rows: Rows,
    h: real,
    q: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    # in and out
    slopes: RowSlopes,
):
    """Slopes of every row on coordinates, after `law_slopes`. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & BETWEEN) != 0 or not (rows.R[w, k] > real(0.0)):
        return
    size = rows.support_size[k]
    lead = h * real(table.leads[k])
    found = measure(table.kind[k], coordinates_at(table, constants, rows, q, v0, real(0.0), w, k))
    ahead = measure(table.kind[k], coordinates_at(table, constants, rows, q, v0, lead, w, k))
    has_turns = slopes.J_q.shape[1] > 0
    if has_turns:
        coordinate_turns(table, rows, q, found, w, k, slopes)
    by = slopes.law[w, k]
    for e in range(size):
        J = rows.J[w, k, e]
        J_ahead = J
        if table.leads[k] != 0:
            J_ahead = ahead[1] * table.a[k, e] + ahead[2] * table.b[k, e]
        turned = real(0.0)
        if has_turns:
            for j in range(size):
                turned += slopes.J_q[w, k, j, e] * v0[w, rows.support[k, j]]
        slopes.gamma_q[w, k, e] = by.phi * (J_ahead - lead * turned) + by.rate0 * turned
        slopes.gamma_v[w, k, e] = by.phi * lead * (J_ahead - J) + by.rate0 * J


@kernel
def row_columns(
    table: Rows,
    slopes: RowSlopes,
    row_G: wp.array2d(dtype=real),
    row_gamma: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= δ(Jᵀγ) of all rows, at fixed R. Launch over worlds."""
    w = wp.tid()
    nv = v.shape[1]
    has_turns = slopes.J_q.shape[1] > 0
    for k in range(table.support.shape[0]):
        if table.R[w, k] > real(0.0):
            size = table.support_size[k]
            gamma = row_gamma[w, k]
            for e in range(size):
                d_e = table.support[k, e]
                gamma_q = slopes.gamma_q[w, k, e]
                gamma_v = slopes.gamma_v[w, k, e]
                if has_turns:
                    for i in range(size):
                        gamma_q -= row_G[w, k] * slopes.J_q[w, k, i, e] * v[w, table.support[k, i]]
                for i in range(size):
                    d = table.support[k, i]
                    J = table.J[w, k, i]
                    X[w, d, d_e] = X[w, d, d_e] - J * gamma_q
                    X[w, d, nv + d_e] = X[w, d, nv + d_e] - J * gamma_v
                    if has_turns:
                        X[w, d, d_e] = X[w, d, d_e] - slopes.J_q[w, k, i, e] * gamma
