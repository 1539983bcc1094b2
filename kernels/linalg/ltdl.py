"""Sparsity-skipping factorisation H = LᵀDL of one small SPD matrix per world (Featherstone 2008, §6.5).

L is unit lower triangular and rows are eliminated from the last to the first, leaves before roots: in a kinematic tree
(parent before child) a mass matrix, and any JᵀGJ whose support is one ancestor chain, then gives no fill-in. Rows that
couple unrelated branches (contact between two bodies) fill in where they must; the result is right for every SPD H.

Only the lower triangle is read or written: H[k, k] becomes D_k and H[k, i], i < k, becomes L_ki. A block-diagonal
matrix is stored by rows, the columns of a row counted from the start of its block (`*_block`); a matrix of several blocks
that constraints couple is square, with the first non-zero of every row beside it (`*_envelope`).
Leading zeros of a row and zero multipliers are skipped. Cost n³/6 multiply-adds when dense, Σ depth²/2 on a tree.
"""

import warp as wp

from ..real import func, real
from .loops import row_axpy, row_axpy_at, row_dot, row_dot_at, row_fill, row_scale

# `*_block` and `*_envelope` are on the view of one matrix, `ltdl_factor` and `ltdl_solve` on world-major arrays.


@func
def ltdl_factor_block(H: wp.array2d(dtype=real), begin: int, end: int) -> int:
    """Factor the block in rows [begin, end) in place; 0, or k + 1 when its pivot k is not positive and finite."""
    failed = wp.int32(0)
    for reverse in range(end - begin):
        k = end - begin - 1 - reverse
        row_k = H[begin + k]
        pivot = row_k[k]
        # x − x is 0 for finite x only: one test for NaN, ±∞ and pivots ≤ 0.
        if not (pivot > real(0.0) and pivot - pivot == real(0.0)):
            failed = k + 1
            break
        inverse = real(1.0) / pivot
        start = wp.int32(0)
        while start < k and row_k[start] == real(0.0):
            start += 1
        for i in range(start, k):
            H_ki = row_k[i]
            if H_ki != real(0.0):
                row_axpy(-H_ki * inverse, row_k, H[begin + i], start, i + 1)
        row_scale(inverse, row_k, start, k)
    return failed


@func
def ltdl_solve_block(H: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real)):
    """x ← H⁻¹ x on [begin, end) from the factor: Lᵀ from the last row up, D, then L from the first row down."""
    for reverse in range(end - begin):
        k = end - begin - 1 - reverse
        row_axpy_at(-x[begin + k], H[begin + k], k, x, begin)
    for k in range(end - begin):
        row_k = H[begin + k]
        x[begin + k] = x[begin + k] / row_k[k] - row_dot_at(row_k, k, x, begin)


@func
def ltdl_factor_envelope(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)) -> int:
    """Factor rows [begin, end) of a square H that holds row k from first[k] on; fill-in lowers `first`."""
    failed = wp.int32(0)
    for reverse in range(end - begin):
        k = end - 1 - reverse
        row_k = H[k]
        pivot = row_k[k]
        if not (pivot > real(0.0) and pivot - pivot == real(0.0)):
            failed = k + 1
            break
        inverse = real(1.0) / pivot
        start = first[k]
        for i in range(start, k):
            H_ki = row_k[i]
            if H_ki != real(0.0):
                if start < first[i]:
                    row_fill(real(0.0), H[i], start, first[i])
                    first[i] = start
                row_axpy(-H_ki * inverse, row_k, H[i], start, i + 1)
        row_scale(inverse, row_k, start, k)
    return failed


@func
def ltdl_solve_envelope(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← H⁻¹ x on [begin, end) from the factor of `ltdl_factor_envelope`."""
    for reverse in range(end - begin):
        k = end - 1 - reverse
        row_axpy(-x[k], H[k], x, first[k], k)
    for k in range(begin, end):
        row_k = H[k]
        x[k] = x[k] / row_k[k] - row_dot(row_k, x, first[k], k)


@func
def ltdl_factor(H: wp.array3d(dtype=real), w: int, n: int) -> int:
    """Factor H[w] in place; 0, or k + 1 when pivot k is bad."""
    return ltdl_factor_block(H[w], 0, n)


@func
def ltdl_solve(H: wp.array3d(dtype=real), w: int, n: int, x: wp.array2d(dtype=real)):
    """x[w] ← H[w]⁻¹ x[w] from the factor."""
    ltdl_solve_block(H[w], 0, n, x[w])
