"""What the state changes about scalar rows: their part of the columns ∂r/∂q and ∂r/∂v0 (theory §3.5).

Every kind of row says how its own data change with the dofs of its support, in a `RowSlopes`; the rest is the same for all:

    γ = clamp(−(J v − v̂)/R):   δγ = −G (δJ v − δv̂) where it is not at a bound,   X −= δJᵀγ + Jᵀδγ.

The change of R with the effective mass, ∂R/∂w, is used in `weight_slopes.py`. Here: joint stops and dry friction (`rows.py`).
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels import joints, rows
from warpsim.kernels.constraints import cone
from warpsim.kernels.precision import module_name, types


@functools.cache
def structs(S) -> SimpleNamespace:
    """`RowSlopes`: (worlds, rows, …) of active rows, `width` the largest support."""

    @wp.struct
    class RowSlopes:
        J_q: wp.array4d(dtype=S)  # (…, width, width) ∂J_i/∂q_e
        v_hat_q: wp.array3d(dtype=S)  # (…, width)
        v_hat_v: wp.array3d(dtype=S)  # (…, width) by v0
        R_w: wp.array2d(dtype=S)  # ∂R/∂w

    return SimpleNamespace(RowSlopes=RowSlopes)


@functools.cache
def build(S) -> SimpleNamespace:
    """Kernels `joint_row_slopes` and `row_columns`; neither is taped."""
    t = types(S)
    jt, stabilization = joints.build(S), cone.build(S).contact_stabilization
    Rows, RowSlopes = rows.build(S).Rows, structs(S).RowSlopes
    vec3, mat33 = t.vec3, t.mat33
    module = module_name("row_slopes", S)

    @wp.kernel(module=module, enable_backward=False)
    def joint_row_slopes(
        table: Rows,
        joint_type: wp.array(dtype=int),
        joint_q: wp.array(dtype=int),
        h: S,
        sigma: S,
        q: wp.array2d(dtype=S),
        # out
        slopes: RowSlopes,
    ):
        """Stops and dry friction. Launch over (worlds, joint rows)."""
        w, k = wp.tid()
        if not (table.R[w, k] > S(0.0)):
            return
        size = table.support_size[k]
        for e in range(size):
            slopes.v_hat_q[w, k, e] = S(0.0)
            slopes.v_hat_v[w, k, e] = S(0.0)
            for i in range(size):
                slopes.J_q[w, k, i, e] = S(0.0)
        if table.kind[k] == rows.DRY_FRICTION:
            slopes.R_w[w, k] = sigma
            return
        slopes.R_w[w, k] = S(rows.LIMIT_BETA * rows.LIMIT_BETA * cone.INVERSE_FOUR_PI_SQUARED)
        # The distance changes by J δq, and v̂ with it unless it is at its bound.
        v_hat = table.v_hat[w, k]
        if v_hat < S(rows.LIMIT_RECOVERY):
            side = S(-1.0)
            if v_hat < S(0.0):
                side = S(1.0)
            slope = side * stabilization(side, S(rows.LIMIT_BETA) * h / S(wp.pi), h)[2]
            for e in range(size):
                slopes.v_hat_q[w, k, e] = slope * table.J[w, k, e]
        joint = table.joint[k]
        if joint_type[joint] == joints.BALL:  # J = −r/‖r‖, δr = dlog δq
            r = jt.quaternion_log(jt.read_quaternion(q, w, joint_q[joint]))
            angle = wp.length(r)
            if angle > S(0.0):
                axis = r / angle
                turn = (wp.outer(axis, axis) - wp.identity(3, S)) * jt.rotation_dlog(r) / angle
                for e in range(3):
                    for i in range(3):
                        slopes.J_q[w, k, i, e] = turn[i, e]

    @wp.kernel(module=module, enable_backward=False)
    def row_columns(
        table: Rows,
        slopes: RowSlopes,
        row_G: wp.array2d(dtype=S),
        row_gamma: wp.array2d(dtype=S),
        v: wp.array2d(dtype=S),
        # in and out
        X: wp.array3d(dtype=S),
    ):
        """X −= δ(Jᵀγ) of all rows but for R. Launch over worlds."""
        w = wp.tid()
        nv = v.shape[1]
        for k in range(table.support.shape[0]):
            if table.R[w, k] > S(0.0):
                size = table.support_size[k]
                gamma = row_gamma[w, k]
                G = row_G[w, k]
                for e in range(size):
                    d_e = table.support[k, e]
                    rate = S(0.0)
                    for i in range(size):
                        rate += slopes.J_q[w, k, i, e] * v[w, table.support[k, i]]
                    gamma_q = G * (slopes.v_hat_q[w, k, e] - rate)
                    gamma_v = G * slopes.v_hat_v[w, k, e]
                    for i in range(size):
                        d = table.support[k, i]
                        J = table.J[w, k, i]
                        X[w, d, d_e] = X[w, d, d_e] - J * gamma_q - slopes.J_q[w, k, i, e] * gamma
                        X[w, d, nv + d_e] = X[w, d, nv + d_e] - J * gamma_v

    return SimpleNamespace(joint_row_slopes=joint_row_slopes, row_columns=row_columns)
