# SPDX-License-Identifier: Apache-2.0
"""Product factors Q = LᵀN of parts of a semidefinite matrix: ranks, and solutions of least weighted norm."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.linalg import semidefinite

N, M = 12, 8  # rows of A, rows of c; the others are u


def solve(dtype: str, A, E, right, weight):
    """x of Q x = r with Q = A_cc + A_cu E, c the last M rows, u the others, each tied to one row of c; and the ranks."""
    S = SCALARS[dtype]
    f = copy(semidefinite, S)
    product_factor, product_bound, Product = f.product_factor, f.product_bound, f.Product
    product_normal, product_solve = f.product_normal, f.product_solve
    floor = float(np.finfo(wp.dtype_to_numpy(S)).eps)

    @wp.kernel(module=f"test_semidefinite_{dtype}", enable_backward=False)
    def launch(
        A: wp.array3d(dtype=S), E: wp.array3d(dtype=S), index: wp.array(dtype=int), matrices: wp.array4d(dtype=S),
        v: wp.array3d(dtype=S), pivots: wp.array2d(dtype=int), rank: wp.array(dtype=int),
    ):  # fmt: skip
        w = wp.tid()
        o = Product()
        o.L = matrices[w, 0]
        o.N = matrices[w, 1]
        o.G = matrices[w, 2]
        o.rest = v[w, 0]
        o.weight = v[w, 1]
        o.pivot = pivots[w]
        rank[w] = product_factor(A[w], index, M, N - M, S(1e3) * S(floor), o)
        for u in range(N - M):
            for a in range(M):
                if E[w, u, a] != S(0.0):
                    product_bound(E[w, u, a], a, M + u, rank[w], o)
        product_normal(M, rank[w], S(floor), o)
        product_solve(M, rank[w], v[w, 2], o, v[w, 3])

    worlds = len(A)
    v = np.zeros((worlds, 4, N))
    v[:, 1, :M], v[:, 2, :M] = weight, right
    index = np.concatenate([np.arange(N - M, N), np.arange(N - M)])

    def array(x, kind=S):
        return wp.array(x, dtype=kind, device="cpu")

    v, rank = array(v), wp.zeros(worlds, dtype=int, device="cpu")
    inputs = [array(A), array(E), array(index, int), wp.zeros((worlds, 3, N, N), dtype=S, device="cpu"), v]
    wp.launch(launch, worlds, [*inputs, wp.zeros((worlds, N), dtype=int, device="cpu"), rank], device="cpu")
    return v.numpy()[:, 3, :M], rank.numpy()


@pytest.mark.parametrize("dtype, error", [("float64", 1e-9), ("float32", 2e-2)])
@pytest.mark.parametrize("rank", [0, 1, 5, N])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_least_norm(rank, slope, dtype, error, rng):
    """A consistent system of any rank: the rank is found, and x is the pseudo-inverse's, with weights; bound rows too."""
    X = rng.normal(size=(6, N, rank))
    A = X @ np.swapaxes(X, 1, 2)
    E = np.zeros((6, N - M, M))
    E[:, np.arange(N - M), np.arange(N - M)] = slope * rng.choice([-1.0, 1.0], size=(6, N - M))
    c, u = slice(N - M, N), slice(0, N - M)
    Q = A[:, c, c] + A[:, c, u] @ E
    right = np.einsum("wij,wj->wi", Q, rng.normal(size=(6, M)))
    weight = rng.uniform(0.5, 2.0, M)
    x, ranks = solve(dtype, A, E, right, weight)
    np.testing.assert_array_equal(ranks, min(rank, M))
    expected = np.einsum("wij,wj->wi", np.linalg.pinv(Q / weight, rcond=1e-9), right) / weight
    np.testing.assert_allclose(x, expected, atol=error * max(1.0, np.abs(expected).max()))
