"""Factorisation H = UᵀDL of one square matrix per world whose pattern is symmetric and whose values need not be.

L and U are unit lower triangular; rows are eliminated from the last to the first without pivoting, as in `ltdl.py`, and kept in
the same envelope: `H` holds the lower triangle, then D and L; `K` the strict upper triangle by columns, K[k, i] = H_ik with i < k,
then U. Twice the work of LᵀDL.
"""

import warp as wp

from .. import real as device
from ..real import func, real, vec3
from .loops import row_axpy, row_dot, row_fill, row_scale

RANK_ONE = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
const int n = H.shape[1];
for (int a = 0; a < size; ++a) {
    const int s_a = slot.data[dof[a]];
    const auto left = p.c[0] * J0[a] + p.c[1] * J1[a];
    for (int b = 0; b < size; ++b) {
        const int s_b = slot.data[dof[b]];
        if (s_a >= s_b) H.data[s_a * n + s_b] += left * J2[b];
        else K.data[s_b * n + s_a] += left * J2[b];
    }
}
"""


@device.func_native(RANK_ONE)
def support_add_rank_one(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    p: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
):
    """Matrix + Jᵀp eᵀJ of one contact, p in its tangent plane and e its normal; dof d is row and column slot[d]."""
    ...


@func
def ldu_factor_envelope(
    H: wp.array2d(dtype=real), K: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)
) -> int:
    """Factor rows [begin, end) that begin at first[k]; fill-in lowers `first`. 0, or k + 1 when pivot k is 0 or not finite."""
    failed = wp.int32(0)
    for reverse in range(end - begin):
        k = end - 1 - reverse
        lower = H[k]
        upper = K[k]
        pivot = lower[k]
        if not (pivot != real(0.0) and pivot - pivot == real(0.0)):
            failed = k + 1
            break
        inverse = real(1.0) / pivot
        start = first[k]
        for i in range(start, k):
            H_ki = lower[i]
            H_ik = upper[i]
            if H_ki != real(0.0) or H_ik != real(0.0):
                if start < first[i]:
                    row_fill(real(0.0), H[i], start, first[i])
                    row_fill(real(0.0), K[i], start, first[i])
                    first[i] = start
                row_axpy(-H_ik * inverse, lower, H[i], start, i + 1)
                row_axpy(-H_ki * inverse, upper, K[i], start, i)
        row_scale(inverse, lower, start, k)
        row_scale(inverse, upper, start, k)
    return failed


@func
def ldu_solve_envelope(
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    begin: int,
    end: int,
    first: wp.array1d(dtype=int),
    x: wp.array1d(dtype=real),
):
    """x ← H⁻¹ x on [begin, end)."""
    for reverse in range(end - begin):
        k = end - 1 - reverse
        row_axpy(-x[k], K[k], x, first[k], k)
    for k in range(begin, end):
        row_k = H[k]
        x[k] = x[k] / row_k[k] - row_dot(row_k, x, first[k], k)


@func
def ldu_solve_transposed(
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    begin: int,
    end: int,
    first: wp.array1d(dtype=int),
    x: wp.array1d(dtype=real),
):
    """x ← H⁻ᵀ x on [begin, end)."""
    for reverse in range(end - begin):
        k = end - 1 - reverse
        row_axpy(-x[k], H[k], x, first[k], k)
    for k in range(begin, end):
        x[k] = x[k] / H[k, k] - row_dot(K[k], x, first[k], k)
