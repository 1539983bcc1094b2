# SPDX-License-Identifier: Apache-2.0
"""Factors within an envelope, LᵀDL and UᵀDL: exact, island by island, whatever stands in the rest of memory."""

import numpy as np
import pytest
import warp as wp

from warpsim.device.copies import SCALARS, copy
from warpsim.kernels.linalg import ldu, ltdl, vector

ISLANDS = ((0, 5), (5, 18), (18, 19), (19, 60))
SIZE = ISLANDS[-1][1]


def kernels(dtype):
    S = SCALARS[dtype]
    symmetric, general = copy(ltdl, S), copy(ldu, S)
    factor_l, solve_l = symmetric.team_ltdl_factor_envelope, symmetric.team_ltdl_solve_envelope
    factor_u, solve_u, solve_t = (
        general.team_ldu_factor_envelope,
        general.team_ldu_solve_envelope,
        general.team_ldu_solve_transposed,
    )

    @wp.kernel(module=f"test_envelope_{dtype}", enable_backward=False)
    def solve_islands(
        kind: int,
        begin: wp.array(dtype=int),
        H: wp.array2d(dtype=S),
        first: wp.array(dtype=int),
        b: wp.array(dtype=S),
        x: wp.array(dtype=S),
        status: wp.array(dtype=int),
    ):
        for island in range(begin.shape[0] - 1):
            low = begin[island]
            high = begin[island + 1]
            for i in range(low, high):
                x[i] = b[i]
            if kind == 0:
                status[island] = factor_l(H, low, high, first)
                solve_l(H, low, high, first, x)
            else:
                status[island] = factor_u(H, low, high, first)
                if kind == 1:
                    solve_u(H, low, high, first, x)
                else:
                    solve_t(H, low, high, first, x)
            for i in range(low, high):
                b[i] = x[i]

    return solve_islands, S


def run(kind, matrix, first, b, dtype):
    """The solution, whether each island failed, and where rows begin after the fill-in; NaN stands wherever nothing was given."""
    kernel, S = kernels(dtype)
    columns = SIZE + (2 if kind else 1) * vector.CHUNK - 1
    H = np.full((SIZE, columns), np.nan)
    for low, high in ISLANDS:
        for k in range(low, high):
            H[k, first[k] : k + 1] = matrix[k, first[k] : k + 1]
            if kind:
                row = low + high - 1 - k  # `triangles.upper_entry`
                shift = row + vector.CHUNK - low
                H[row, shift + first[k] : shift + k] = matrix[first[k] : k, k]
    H = wp.array(H, dtype=S, device="cpu")
    first = wp.array(first, dtype=int, device="cpu")
    b, x = wp.array(b, dtype=S, device="cpu"), wp.full(columns, np.nan, dtype=S, device="cpu")
    status = wp.zeros(len(ISLANDS), dtype=int, device="cpu")
    begin = wp.array([low for low, _ in ISLANDS] + [SIZE], dtype=int, device="cpu")
    wp.launch(kernel, 1, [kind, begin, H, first, b, x, status], device="cpu")
    return b.numpy(), status.numpy(), first.numpy()


def problem(seed, symmetric):
    """Islands whose rows begin anywhere within them."""
    rng = np.random.default_rng(seed)
    matrix, first = np.zeros((SIZE, SIZE)), np.zeros(SIZE, int)
    for low, high in ISLANDS:
        for k in range(low, high):
            first[k] = rng.integers(low, k + 1)
            matrix[k, first[k] : k] = rng.normal(size=k - first[k])
            matrix[first[k] : k, k] = matrix[k, first[k] : k] if symmetric else rng.normal(size=k - first[k])
            matrix[k, k] = 40.0
    return matrix, first, rng.normal(size=SIZE)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-14), ("float32", 1e-6)])
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["LtDL", "UtDL", "transposed"])
@pytest.mark.parametrize("seed", range(3))
def test_islands(seed, kind, dtype, tolerance):
    """H x = b, or Hᵀx = b, of every island."""
    matrix, first, b = problem(seed, kind == 0)
    x, status, _ = run(kind, matrix, first, b, dtype)
    assert not status.any()
    np.testing.assert_allclose(x, np.linalg.solve(matrix.T if kind == 2 else matrix, b), atol=tolerance)


@pytest.mark.parametrize("kind", [0, 1], ids=["LtDL", "UtDL"])
def test_one_bad_island(kind):
    """A pivot that is no number is reported as k + 1 and reaches no other island."""
    matrix, first, b = problem(0, kind == 0)
    clean, _, _ = run(kind, matrix, first, b, "float64")
    matrix[12, 12] = np.nan
    x, status, _ = run(kind, matrix, first, b, "float64")
    np.testing.assert_array_equal(status, [0, 13, 0, 0])
    others = np.r_[0:5, 18:SIZE]
    np.testing.assert_array_equal(x[others], clean[others])
