# SPDX-License-Identifier: Apache-2.0
"""Gradients of a cone QP at its solution, on the host: the implicit function theorem on the natural map.

The variables are scaled (x_n times μ) so that every cone is the second-order cone. At a solution, u = Hx + g − Aᵀy and

    (H + Ω) dx − A_aᵀ dy = −(dH x + dg − dA_aᵀ y),   A_a dx = dq_a − dA_a x   on the range of V = P_K'(x − u),

with Ω = (1 − V)/V (the curvature |u|/|x| of a cone that has x on its boundary) and A_a the active rows. The matrix is
symmetric, so that one solve with x_bar gives all adjoints. Derivatives exist where complementarity is strict. The
formula assumes that redundant rows stay redundant.
"""

import numpy as np

from warpsim.solve.cone_qp.cone_qp import cone_blocks
from warpsim.solve.cone_qp.second_order import linearise, second_order


def cone_qp_adjoint(H, g, A, q, cones, x, duals, x_bar):
    """Adjoints (H_bar, g_bar, A_bar, q_bar, mu_bar) from x_bar, the adjoint of x, for one world, in NumPy.

    The arguments are those of `solve_cone_qp` (μ as numbers), and the x and duals of its solution. H_bar is symmetric.
    mu_bar has one entry per entry of `cones`: 0 where that is no friction cone, the one-sided derivative where μ = 0.
    """
    H, g, x, x_bar = (np.asarray(value, dtype=np.float64) for value in (H, g, x, x_bar))
    n = len(g)
    A = np.zeros((0, n)) if A is None else np.asarray(A, dtype=np.float64)
    q, y = (np.zeros(0) if value is None else np.asarray(value, dtype=np.float64) for value in (q, duals))
    blocks = cone_blocks(cones)
    T, standard, fixed = second_order(blocks, n)
    # Standard variables.
    H, g, A, x, x_bar = H / T / T[:, None], g / T, A / T, T * x, x_bar / T
    u = H @ x + g - A.T @ y
    pushing = y > (A @ x - q)
    basis, curvature, inverse = linearise(H, A, standard, fixed, x - u, pushing)
    solved = inverse @ np.concatenate([basis.T @ x_bar, np.zeros(np.sum(pushing))])
    p, r = basis @ solved[: len(curvature)], np.zeros(len(q))
    r[pushing] = solved[len(curvature) :]

    H_bar = -0.5 * (np.outer(p, x) + np.outer(x, p))
    g_bar, A_bar, q_bar = -p, np.outer(y, p) + np.outer(r, x), -r
    mu_bar = np.zeros(len(cones))
    prescribed_bar = x_bar - H @ p + A.T @ r
    for block, mu, entry in blocks:
        k = block[-1]
        if len(block) == 1:
            continue
        if mu > 0.0:
            slope = 2.0 * H_bar[k] @ H[k] + g_bar[k] * g[k] + A_bar[:, k] @ A[:, k] + x_bar[k] * x[k]
            mu_bar[entry] -= slope / mu
        else:
            # x_t = −μ x_n u_t/|u_t| begins to act, and u_n = μ |u_t|.
            size = np.linalg.norm(u[block[:-1]])
            if size > 0.0:
                mu_bar[entry] += p[k] * size - x[k] * prescribed_bar[block[:-1]] @ u[block[:-1]] / size
    return H_bar / T / T[:, None], g_bar / T, A_bar / T, q_bar, mu_bar
