# SPDX-License-Identifier: Apache-2.0
"""Dense factorisations without symmetry: LU, Cholesky, and least-norm solutions of rank-deficient systems."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.linalg import dense

N = 12


def kernel(dtype):
    S = SCALARS[dtype]
    f = copy(dense, S)
    lu_factor, lu_solve, qr_factor, qr_solve, Orthogonal = (
        f.lu_factor, f.lu_solve, f.qr_factor, f.qr_solve, f.Orthogonal,
    )  # fmt: skip
    cholesky_factor, forward, backward = f.cholesky_factor, f.cholesky_forward, f.cholesky_backward

    @wp.kernel(module=f"test_dense_{dtype}", enable_backward=False)
    def solve(
        method: int, K: wp.array3d(dtype=S), Z: wp.array3d(dtype=S), v: wp.array3d(dtype=S), pivots: wp.array2d(dtype=int),
        rank: wp.array(dtype=int),
    ):  # fmt: skip
        w = wp.tid()
        m = K.shape[1]
        if method == 0:
            lu_factor(K[w], m, pivots[w], S(1e-30))
            lu_solve(K[w], m, pivots[w], v[w, 0])
        elif method == 1:
            cholesky_factor(K[w], m, S(1e-30))
            forward(K[w], m, v[w, 0])
            backward(K[w], m, v[w, 0])
        else:
            o = Orthogonal()
            o.Z = Z[w]
            o.tau = v[w, 1]
            o.diagonal = v[w, 2]
            o.tau_Z = v[w, 3]
            o.diagonal_Z = v[w, 4]
            o.column = pivots[w]
            o.weight = v[w, 6]
            rank[w] = qr_factor(K[w], m, S(1e-5), o)
            qr_solve(K[w], m, rank[w], o, v[w, 0], v[w, 5])

    return solve, S


def run(method, matrices, right, dtype, weight=1.0):
    """x of Q x = r by "lu", "cholesky" or "qr", and the ranks; the kernels take Q transposed."""
    solve, S = kernel(dtype)
    worlds, m = right.shape
    v = np.zeros((worlds, 7, m))
    v[:, 6] = weight
    v[:, 0] = right
    K = wp.array(np.swapaxes(matrices, 1, 2), dtype=S, device="cpu")
    Z, v = wp.zeros((worlds, m, m), dtype=S, device="cpu"), wp.array(v, dtype=S, device="cpu")
    pivots, rank = wp.zeros((worlds, m), dtype=int, device="cpu"), wp.zeros(worlds, dtype=int, device="cpu")
    code = ("lu", "cholesky", "qr").index(method)
    wp.launch(solve, dim=worlds, inputs=[code, K, Z, v, pivots, rank], device="cpu")
    return v.numpy()[:, 5 if method == "qr" else 0], rank.numpy()


@pytest.mark.parametrize("dtype, error", [("float64", 1e-11), ("float32", 2e-3)])
@pytest.mark.parametrize("method", ["lu", "qr"])
def test_square_systems(method, dtype, error, rng):
    """Q x = r for random Q, and for one that needs every row exchange."""
    Q = rng.normal(size=(8, N, N))
    Q[0] = np.eye(N)[::-1] + 0.1 * np.tril(rng.normal(size=(N, N)), -1)[::-1]
    x = rng.normal(size=(8, N))
    solved, _ = run(method, Q, np.einsum("wij,wj->wi", Q, x), dtype)
    np.testing.assert_allclose(solved, x, atol=error * np.linalg.cond(Q).max() / 10.0)


@pytest.mark.parametrize("dtype, error", [("float64", 1e-12), ("float32", 1e-5)])
def test_cholesky(dtype, error, rng):
    """N x = r for positive definite N."""
    X = rng.normal(size=(4, N, 2 * N))
    A = X @ np.swapaxes(X, 1, 2)
    x = rng.normal(size=(4, N))
    solved, _ = run("cholesky", A, np.einsum("wij,wj->wi", A, x), dtype)
    np.testing.assert_allclose(solved, x, atol=error * np.linalg.cond(A).max())


@pytest.mark.parametrize("dtype, error", [("float64", 1e-10), ("float32", 1e-3)])
@pytest.mark.parametrize("rank", [0, 1, 5, N - 1])
def test_least_norm(rank, dtype, error, rng):
    """A consistent rank-deficient system: the rank is found, and x is that of the pseudo-inverse, symmetric Q or not, with weights too."""
    left, right = rng.normal(size=(2, 6, N, rank))
    right[:3] = left[:3]
    Q = left @ np.swapaxes(right, 1, 2)
    r = np.einsum("wij,wj->wi", Q, rng.normal(size=(6, N)))
    solved, ranks = run("qr", Q, r, dtype)
    np.testing.assert_array_equal(ranks, rank)
    expected = np.einsum("wij,wj->wi", np.linalg.pinv(Q, rcond=1e-8), r)
    np.testing.assert_allclose(solved, expected, atol=error * max(1.0, np.abs(expected).max()))
    weight = rng.uniform(0.5, 2.0, N)
    weighted = np.einsum("wij,wj->wi", np.linalg.pinv(Q / weight, rcond=1e-8), r) / weight
    np.testing.assert_allclose(
        run("qr", Q, r, dtype, weight)[0], weighted, atol=error * max(1.0, np.abs(weighted).max())
    )
