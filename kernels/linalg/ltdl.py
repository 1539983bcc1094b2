"""Sparsity-skipping factorisation H = LᵀDL of one small SPD matrix per world (Featherstone 2008, §6.5).

L is unit lower triangular and rows are eliminated from the last to the first, leaves before roots: in a kinematic tree
(parent before child) a mass matrix, and any JᵀGJ whose support is one ancestor chain, then gives no fill-in. Rows that
couple unrelated branches (contact between two bodies) fill in where they must; the result is right for every SPD H.

Storage is dense and only the lower triangle is read or written: H[k, k] becomes D_k and H[k, i], i < k, becomes L_ki.
Leading zeros of a row and zero multipliers are skipped. Cost n³/6 multiply-adds when dense, Σ depth²/2 on a tree.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warpsim.kernels.linalg import rows


@functools.cache
def build(S) -> SimpleNamespace:
    """`*_range` and `*_envelope` on the view of one matrix, `ltdl_factor`, `ltdl_solve` on world-major arrays."""
    f = rows.build(S)
    row_axpy, row_scale, row_dot = f.row_axpy, f.row_scale, f.row_dot

    @wp.func
    def ltdl_factor_range(H: wp.array2d(dtype=S), begin: int, end: int) -> int:
        """Factor the diagonal block [begin, end) of H in place; 0, or k + 1 when pivot k is not positive and finite."""
        failed = wp.int32(0)
        for reverse in range(end - begin):
            k = end - 1 - reverse
            row_k = H[k]
            pivot = row_k[k]
            # x − x is 0 for finite x only: one test for NaN, ±∞ and pivots ≤ 0.
            if not (pivot > S(0.0) and pivot - pivot == S(0.0)):
                failed = k + 1
                break
            inverse = S(1.0) / pivot
            start = wp.int32(begin)
            while start < k and row_k[start] == S(0.0):
                start += 1
            for i in range(start, k):
                H_ki = row_k[i]
                if H_ki != S(0.0):
                    row_axpy(-H_ki * inverse, row_k, H[i], start, i + 1)
            row_scale(inverse, row_k, start, k)
        return failed

    @wp.func
    def ltdl_solve_range(H: wp.array2d(dtype=S), begin: int, end: int, x: wp.array1d(dtype=S)):
        """x ← H⁻¹ x on [begin, end) from the factor: Lᵀ from the last row up, D, then L from the first row down."""
        for reverse in range(end - begin):
            k = end - 1 - reverse
            row_axpy(-x[k], H[k], x, begin, k)
        for k in range(begin, end):
            row_k = H[k]
            x[k] = x[k] / row_k[k] - row_dot(row_k, x, begin, k)

    @wp.func
    def ltdl_factor_envelope(H: wp.array2d(dtype=S), n: int, first: wp.array1d(dtype=int)) -> int:
        """As `ltdl_factor_range` over all of H, where row k is zero before first[k]; fill-in lowers `first`."""
        failed = wp.int32(0)
        for reverse in range(n):
            k = n - 1 - reverse
            row_k = H[k]
            pivot = row_k[k]
            if not (pivot > S(0.0) and pivot - pivot == S(0.0)):
                failed = k + 1
                break
            inverse = S(1.0) / pivot
            start = first[k]
            for i in range(start, k):
                H_ki = row_k[i]
                if H_ki != S(0.0):
                    row_axpy(-H_ki * inverse, row_k, H[i], start, i + 1)
                    if start < first[i]:
                        first[i] = start
            row_scale(inverse, row_k, start, k)
        return failed

    @wp.func
    def ltdl_solve_envelope(H: wp.array2d(dtype=S), n: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=S)):
        """x ← H⁻¹ x from the factor of `ltdl_factor_envelope`."""
        for reverse in range(n):
            k = n - 1 - reverse
            row_axpy(-x[k], H[k], x, first[k], k)
        for k in range(n):
            row_k = H[k]
            x[k] = x[k] / row_k[k] - row_dot(row_k, x, first[k], k)

    @wp.func
    def ltdl_factor(H: wp.array3d(dtype=S), w: int, n: int) -> int:
        """Factor H[w] in place; 0, or k + 1 when pivot k is bad."""
        return ltdl_factor_range(H[w], 0, n)

    @wp.func
    def ltdl_solve(H: wp.array3d(dtype=S), w: int, n: int, x: wp.array2d(dtype=S)):
        """x[w] ← H[w]⁻¹ x[w] from the factor."""
        ltdl_solve_range(H[w], 0, n, x[w])

    return SimpleNamespace(
        ltdl_factor_range=ltdl_factor_range,
        ltdl_solve_range=ltdl_solve_range,
        ltdl_factor_envelope=ltdl_factor_envelope,
        ltdl_solve_envelope=ltdl_solve_envelope,
        ltdl_factor=ltdl_factor,
        ltdl_solve=ltdl_solve,
    )
