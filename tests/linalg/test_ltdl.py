# SPDX-License-Identifier: Apache-2.0
"""LᵀDL factorisation: exactness, no fill-in on trees, bad pivots."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.linalg import ltdl, vector

PARENT = [-1, 0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10, 10]


def kernel(dtype):
    S = SCALARS[dtype]
    f = copy(ltdl, S)
    factor, solve = f.ltdl_factor_block, f.ltdl_solve_block

    @wp.kernel(module=f"test_ltdl_{dtype}", enable_backward=False)
    def factor_and_solve(H: wp.array3d(dtype=S), x: wp.array2d(dtype=S), status: wp.array(dtype=int)):
        w = wp.tid()
        status[w] = factor(H[w], 0, x.shape[1])
        if status[w] == 0:
            solve(H[w], 0, x.shape[1], x[w])

    return factor_and_solve, S


def run(matrices, x, dtype="float64"):
    factor_and_solve, S = kernel(dtype)
    n = matrices.shape[-1]
    room = np.pad(matrices, ((0, 0), (0, 0), (0, vector.padded(n) - n)), constant_values=np.nan)
    H, b = wp.array(room, dtype=S, device="cpu"), wp.array(x, dtype=S, device="cpu")
    status = wp.zeros(len(x), dtype=int, device="cpu")
    wp.launch(factor_and_solve, dim=len(x), inputs=[H, b, status], device="cpu")
    return H.numpy()[..., :n], b.numpy(), status.numpy()


def tree_matrices(rng, worlds):
    """Σ JᵀJ with one J per ancestor chain: the pattern of a mass matrix."""
    n = len(PARENT)
    H = np.tile(np.eye(n), (worlds, 1, 1))
    for i in range(n):
        chain = [i]
        while PARENT[chain[-1]] >= 0:
            chain.append(PARENT[chain[-1]])
        J = rng.normal(size=(worlds, 3, len(chain)))
        H[:, np.array(chain)[:, None], np.array(chain)] += np.swapaxes(J, 1, 2) @ J
    return H


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 3e-5)])
@pytest.mark.parametrize(
    "kind, n", [("tree", 13), ("dense", 1), ("dense", 2), ("dense", 17), ("dense", 40), ("dense", 150), ("blocks", 24)]
)
def test_solve(kind, n, dtype, tolerance):
    """H x = b and LᵀDL = H on tree, dense and block-diagonal matrices; tolerance: round-off at condition ≤ 1e3."""
    rng = np.random.default_rng(n)
    worlds = 4
    if kind == "tree":
        H = tree_matrices(rng, worlds)
    else:
        B = rng.normal(size=(worlds, n, n))
        if kind == "blocks":
            B[:, np.arange(n)[:, None] // 6 != np.arange(n) // 6] = 0.0
        H = B @ np.swapaxes(B, 1, 2) + n * np.eye(n)
    b = rng.normal(size=(worlds, n))
    # The upper triangle must not be read.
    given = np.where(np.triu(np.ones((n, n)), 1) > 0, np.nan, H)
    factor, x, status = run(given, b, dtype)
    assert not status.any()
    np.testing.assert_allclose(x, np.linalg.solve(H, b[..., None])[..., 0], atol=tolerance)
    L = np.tril(factor, -1) + np.eye(n)
    D = np.einsum("wii->wi", factor)
    rebuilt = np.swapaxes(L, 1, 2) @ (D[:, :, None] * L)
    np.testing.assert_allclose(rebuilt, H, atol=tolerance * np.abs(H).max())


def test_no_fill_in_on_a_tree():
    """The factor of a tree's matrix has the zeros of the matrix, exactly."""
    H = tree_matrices(np.random.default_rng(0), 2)
    factor, _, _ = run(H, np.zeros((2, len(PARENT))))
    assert np.all(factor[np.tril(H == 0.0)] == 0.0)


@pytest.mark.parametrize("pivot", [0.0, -1.0, np.nan, np.inf])
def test_bad_pivot_is_reported(pivot):
    """The row of the first bad pivot, from the last, comes back as k + 1; other worlds are untouched."""
    H = np.tile(np.eye(5), (2, 1, 1))
    H[0, 3, 3] = pivot
    _, x, status = run(H, np.ones((2, 5)))
    np.testing.assert_array_equal(status, [4, 0])
    np.testing.assert_array_equal(x[1], 1.0)
