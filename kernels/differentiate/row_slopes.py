"""What the state changes about scalar rows: their part of the columns ∂r/∂q and ∂r/∂v0 (theory §3.5).

Every kind of row says how its own data change with the dofs of its support, in a `RowSlopes`; the rest is the same for all:

    γ = clamp(−(J v − v̂)/R):   δγ = γ_q δq + γ_v δv0 − G δJ v,   X −= δJᵀγ + Jᵀδγ.

The change of R with the effective mass, ∂R/∂w, is used in `weight_slopes.py`. Here: joint stops and dry friction (`joint_rows.py`).
"""

import warp as wp

from ..real import kernel, real, struct
from ..rows import joint_rows
from ..rows.joint_rows import Rows
from ..rows.stop import stop_slopes
from ..tree import joints


@struct
class RowSlopes:
    """(worlds, rows, …) of active rows, `width` the largest support."""

    J_q: wp.array4d(dtype=real)  # (…, width, width) ∂J_i/∂q_e; no rows where no row of the model has any
    gamma_q: wp.array3d(dtype=real)  # (…, width) ∂γ/∂q_e at fixed J, R, v
    gamma_v: wp.array3d(dtype=real)  # (…, width) ∂γ/∂v0_e
    R_w: wp.array2d(dtype=real)  # ∂R/∂w
    R_floor: wp.array2d(dtype=real)  # ∂R by the least w of rows between bodies (`constraint_rows.py`); or no rows


@kernel
def joint_row_slopes(
    table: Rows,
    joint_type: wp.array(dtype=int),
    joint_q: wp.array(dtype=int),
    h: real,
    sigma: real,
    q: wp.array2d(dtype=real),
    row_G: wp.array2d(dtype=real),
    row_gamma: wp.array2d(dtype=real),
    # out
    slopes: RowSlopes,
):
    """Stops and dry friction. Launch over (worlds, joint rows)."""
    w, k = wp.tid()
    if not (table.R[w, k] > real(0.0)):
        return
    size = table.support_size[k]
    has_turns = slopes.J_q.shape[1] > 0
    for e in range(size):
        slopes.gamma_q[w, k, e] = real(0.0)
        slopes.gamma_v[w, k, e] = real(0.0)
        if has_turns:
            for i in range(size):
                slopes.J_q[w, k, i, e] = real(0.0)
    if table.kind[k] == joint_rows.DRY_FRICTION:
        slopes.R_w[w, k] = sigma
        return
    law = stop_slopes(
        table.v_hat[w, k], table.R[w, k], table.weight[w, k], real(0.0), real(wp.nan), h, table.recovery[k]
    )
    slopes.R_w[w, k] = law[1]
    gamma_phi = row_G[w, k] * (law[0] - row_gamma[w, k] * law[2])  # γ = (v̂ − u)/R
    for e in range(size):  # the distance changes by J δq
        slopes.gamma_q[w, k, e] = gamma_phi * table.J[w, k, e]
    joint = table.joint[k]
    if joint_type[joint] == joints.BALL:  # J = −r/‖r‖, δr = dlog δq
        r = joints.quaternion_log(joints.read_quaternion(q, w, joint_q[joint]))
        angle = wp.length(r)
        if angle > real(0.0):
            axis = r / angle
            turn = (wp.outer(axis, axis) - wp.identity(3, real)) * joints.rotation_dlog(r) / angle
            for e in range(3):
                for i in range(3):
                    slopes.J_q[w, k, i, e] = turn[i, e]


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
    """X −= δ(Jᵀγ) of all rows but for R. Launch over worlds."""
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
