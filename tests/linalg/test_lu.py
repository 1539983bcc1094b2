# SPDX-License-Identifier: Apache-2.0
"""LU with threshold pivoting: exactness, transposed solves, swaps where they are needed and nowhere else."""

import numpy as np
import pytest
import warp as wp
from test_ltdl import PARENT, tree_matrices

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.linalg import lu

FIRST = 3  # rows before the block: storage by blocks


def kernel(dtype):
    S = SCALARS[dtype]
    f = copy(lu, S)
    lu_factor_block, lu_solve_block = f.lu_factor_block, f.lu_solve_block
    lu_solve_transposed_block = f.lu_solve_transposed_block

    @wp.kernel(module=f"test_lu_{dtype}", enable_backward=False)
    def factor_and_solve(
        A: wp.array3d(dtype=S),
        begin: int,
        pivot: wp.array2d(dtype=int),
        x: wp.array2d(dtype=S),
        y: wp.array2d(dtype=S),
        status: wp.array(dtype=int),
    ):
        w = wp.tid()
        end = x.shape[1]
        status[w] = lu_factor_block(A[w], begin, end, pivot[w])
        if status[w] == 0:
            lu_solve_block(A[w], begin, end, pivot[w], x[w])
            lu_solve_transposed_block(A[w], begin, end, pivot[w], y[w])

    return factor_and_solve, S


def run(A, x, dtype="float64"):
    """Factors, A^-1 x, A^-T x, pivots and status, with every matrix in rows FIRST onwards of a taller one."""
    factor_and_solve, S = kernel(dtype)
    n = A.shape[-1]
    tall = np.full((len(A), FIRST + n, n), 7.0)
    tall[:, FIRST:] = A
    b = np.full((len(A), FIRST + n), 5.0)
    b[:, FIRST:] = x
    A, x, y = (wp.array(value, dtype=S, device="cpu") for value in (tall, b, b))
    pivot, status = wp.zeros(b.shape, dtype=int, device="cpu"), wp.zeros(len(b), dtype=int, device="cpu")
    wp.launch(factor_and_solve, dim=len(b), inputs=[A, FIRST, pivot, x, y, status], device="cpu")
    A, x, y, pivot = A.numpy(), x.numpy(), y.numpy(), pivot.numpy()
    assert np.all(A[:, :FIRST] == 7.0) and np.all(x[:, :FIRST] == 5.0)
    return A[:, FIRST:], x[:, FIRST:], y[:, FIRST:], pivot[:, FIRST:], status.numpy()


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 1e-3)])
@pytest.mark.parametrize("n", [1, 2, 5, 17, 40])
def test_solve(n, dtype, tolerance, rng):
    """A x = b and A^T y = b of random matrices without any structure; tolerance: round-off at their condition numbers."""
    A, b = rng.normal(size=(20, n, n)), rng.normal(size=(20, n))
    A = A[np.linalg.cond(A) < 1e3]
    b = b[: len(A)]
    _, x, y, pivot, status = run(A, b, dtype)
    assert len(A) > 5 and not status.any()
    assert n < 5 or np.any(pivot != np.arange(n))
    np.testing.assert_allclose(np.einsum("wij,wj->wi", A, x), b, atol=tolerance)
    np.testing.assert_allclose(np.einsum("wji,wj->wi", A, y), b, atol=tolerance)


def test_no_fill_in_and_no_swaps_on_a_tree(rng):
    """A matrix with a tree's pattern and a strong diagonal, not symmetric: its zeros stay zeros, rows stay in place."""
    A = tree_matrices(rng, 3)
    n = len(PARENT)
    A = np.where(A == 0.0, 0.0, A + 0.3 * rng.normal(size=A.shape)) + 10.0 * np.eye(n)
    b = rng.normal(size=(3, n))
    factor, x, _, pivot, status = run(A, b)
    assert not status.any()
    assert np.all(pivot == np.arange(n))
    assert np.all(factor[A == 0.0] == 0.0)
    np.testing.assert_allclose(np.einsum("wij,wj->wi", A, x), b, atol=1e-12)


def test_a_zero_on_the_diagonal_is_swapped_away():
    """[[1, 2], [3, 0]] has no pivot at its end: the rows change places."""
    A = np.array([[[1.0, 2.0], [3.0, 0.0]]])
    _, x, y, pivot, status = run(A, np.array([[5.0, 6.0]]))
    assert status[0] == 0 and pivot[0, 1] == 0
    np.testing.assert_allclose(x[0], [2.0, 1.5], rtol=1e-15)
    np.testing.assert_allclose(A[0].T @ y[0], [5.0, 6.0], rtol=1e-15)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_singular_matrix_is_reported(bad):
    """A column without a finite pivot comes back as its number + 1; other worlds are untouched."""
    A = np.tile(np.eye(4), (2, 1, 1))
    A[0, 2, 2] = bad
    _, x, _, _, status = run(A, np.ones((2, 4)))
    np.testing.assert_array_equal(status, [3, 0])
    np.testing.assert_array_equal(x[1], 1.0)
