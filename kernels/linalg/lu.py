# SPDX-License-Identifier: Apache-2.0
"""LU factorisation of small unsymmetric matrices of kinematic trees: P A = U L, columns from the last to the first.

As in `ltdl.py`, leaves go before roots: a matrix with a tree's pattern (A_ij = 0 unless one of i, j is above the
other) has no fill-in while the diagonal is the pivot. The diagonal is the pivot if it is at least `THRESHOLD` times
the largest entry of its column (threshold pivoting, Duff, Erisman, Reid: Direct Methods for Sparse Matrices, §5.4);
else the largest entry is swapped in.

U is unit upper triangular. After the factorisation A holds L on and below the diagonal and the multipliers of U above
it. Whole rows are swapped, so the swaps `pivot` apply to a right-hand side at once. Zero multipliers are skipped: n³/3
multiply-adds when dense, Σ depth² on a tree. Storage by blocks: row begin + k holds columns 0 to end − begin.
"""

import warp as wp

from ..real import func, real
from .loops import row_axpy, row_axpy_at, row_dot_at

THRESHOLD = 0.1  # growth of an entry per elimination stays below 1 + 1/THRESHOLD


@func
def swap_rows(A: wp.array2d(dtype=real), i: int, k: int, n: int):
    for j in range(n):
        x = A[i, j]
        A[i, j] = A[k, j]
        A[k, j] = x


@func
def lu_factor_block(A: wp.array2d(dtype=real), begin: int, end: int, pivot: wp.array1d(dtype=int)) -> int:
    """Factor rows [begin, end) in place; return 0, or k + 1 if column k has no finite pivot above 0."""
    n = end - begin
    failed = wp.int32(0)
    for reverse in range(n):
        k = n - 1 - reverse
        best = wp.int32(k)
        largest = real(0.0)
        for i in range(k):
            size = wp.abs(A[begin + i, k])
            if size > largest:
                largest = size
                best = i
        size = wp.abs(A[begin + k, k])
        if size >= real(THRESHOLD) * largest:
            best = k
            largest = size
        # x − x is 0 for finite x only.
        if not (largest > real(0.0) and largest - largest == real(0.0)):
            failed = k + 1
            break
        pivot[begin + k] = best
        if best != k:
            swap_rows(A, begin + best, begin + k, n)
        row_k = A[begin + k]
        inverse = real(1.0) / row_k[k]
        for i in range(k):
            if A[begin + i, k] != real(0.0):
                u = A[begin + i, k] * inverse
                A[begin + i, k] = u
                row_axpy(-u, row_k, A[begin + i], 0, k)
    return failed


@func
def lu_solve_block(
    A: wp.array2d(dtype=real), begin: int, end: int, pivot: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← A⁻¹ x on [begin, end) from the factor."""
    n = end - begin
    for reverse in range(n):
        k = n - 1 - reverse
        best = pivot[begin + k]
        if best != k:
            y = x[begin + best]
            x[begin + best] = x[begin + k]
            x[begin + k] = y
    for reverse in range(n):
        k = n - 1 - reverse
        y = x[begin + k]
        for i in range(k):
            x[begin + i] = x[begin + i] - A[begin + i, k] * y
    for k in range(n):
        row_k = A[begin + k]
        x[begin + k] = (x[begin + k] - row_dot_at(row_k, k, x, begin)) / row_k[k]


@func
def lu_solve_transposed_block(
    A: wp.array2d(dtype=real), begin: int, end: int, pivot: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← A⁻ᵀ x on [begin, end) from the factor."""
    n = end - begin
    for reverse in range(n):
        k = n - 1 - reverse
        row_k = A[begin + k]
        y = x[begin + k] / row_k[k]
        x[begin + k] = y
        row_axpy_at(-y, row_k, k, x, begin)
    for k in range(n):
        y = x[begin + k]
        for i in range(k):
            y -= A[begin + i, k] * x[begin + i]
        x[begin + k] = y
    for k in range(n):
        best = pivot[begin + k]
        if best != k:
            y = x[begin + best]
            x[begin + best] = x[begin + k]
            x[begin + k] = y
