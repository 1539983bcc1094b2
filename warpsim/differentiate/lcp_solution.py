# SPDX-License-Identifier: Apache-2.0
"""Gradients of a boxed LCP at its solution, from the classes of its rows, on the host (Werling et al., §4; theory §5).

With known classes, x = P x_C + x_0: rows at a bound follow x_C (x_i = ±hi_i x_j) or are fixed at hi_i. Then Q x_C = r
with Q = A_C P, r = b_C − A_C x_0. The least-norm solution x_C = Q⁺ r of a consistent system of constant rank has

    dx_C = Q⁺ (dr − dQ x_C) + (I − Q⁺Q) dQᵀ Q⁺ᵀ x_C.

Tied rows count as being at their bound. Derivatives exist where no row is tied. Cost: one pseudo-inverse of Q per
world.
"""

import numpy as np

from warpsim.solve.lcp.lcp import CLAMPING, UPPER

# Singular values of Q below this fraction of the largest count as 0.
RANK = 1e-10


def lcp_adjoint(A, b, hi, findex, x, classes, x_bar):
    """Adjoints (A_bar (n, n), b_bar (n,), hi_bar (n,)) from x_bar, the adjoint of x, for one world.

    The arguments are those of `solve_lcp`, and the x and classes of its solution, in NumPy. A_bar is symmetric: for a
    symmetric dA the loss changes by the sum of A_bar * dA.
    """
    A, b, hi, x, x_bar = (np.asarray(value, dtype=np.float64) for value in (A, b, hi, x, x_bar))
    findex, classes = np.asarray(findex, dtype=int), np.asarray(classes, dtype=int)
    C = classes == CLAMPING
    coupled = np.flatnonzero((findex >= 0) & (np.abs(classes) >= UPPER))
    fixed = np.flatnonzero((findex < 0) & (classes >= UPPER))
    parent, side = findex[coupled], np.sign(classes[coupled])
    P = np.eye(len(b))[:, C]
    P[coupled] = (side * hi[coupled])[:, None] * P[parent]
    Q_plus = np.linalg.pinv(A[C] @ P, rcond=RANK)

    x_C_bar = P.T @ x_bar
    r_bar = Q_plus.T @ x_C_bar
    # (I − Q⁺Q) x̄_C and Q⁺ᵀ x_C, for the term of a rank-deficient Q.
    null_bar = P @ (x_C_bar - Q_plus @ (A[C] @ P @ x_C_bar))
    t = Q_plus.T @ x[C]

    A_bar, b_bar, hi_bar = np.zeros_like(A), np.zeros_like(b), np.zeros_like(b)
    A_bar[C] = np.outer(t, null_bar) - np.outer(r_bar, x)
    b_bar[C] = r_bar
    # A change of a row at its bound also changes the balance of the clamped rows.
    bound_bar = x_bar - A[C].T @ r_bar
    hi_bar[coupled] = side * (x[parent] * bound_bar[coupled] + (A[C].T @ t)[coupled] * null_bar[parent])
    np.add.at(bound_bar, parent, side * hi[coupled] * bound_bar[coupled])
    hi_bar[fixed] = bound_bar[fixed]
    return 0.5 * (A_bar + A_bar.T), b_bar, hi_bar
