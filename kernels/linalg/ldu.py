"""Factorisation H = UᵀDL of one square matrix per world whose pattern is symmetric and whose values need not be.

L and U are unit lower triangular; rows are eliminated from the last to the first without pivoting, as in `ltdl.py`, and kept in
the same envelope: `H` holds the lower triangle, then D and L; `K` the strict upper triangle by columns, K[k, i] = H_ik with i < k,
then U. Twice the work of LᵀDL.
"""

import warp as wp

from .. import real as device
from ..real import real, vec3
from .vector import snippet

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


# As in `ltdl.py`: what stands in a chunk of eight beside the envelope of row k is set to 0 when the row is eliminated.
FACTOR = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin;
SCALAR* lower = H.data + begin * n + begin;
SCALAR* upper = K.data + begin * n + begin;
int* starts = first.data + begin;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* L_k = lower + k * n;
    SCALAR* U_k = upper + k * n;
    const SCALAR pivot = L_k[k];
    if (!(pivot != (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = starts[k] - begin, chunk = start & ~7;
    for (int j = chunk; j < start; ++j) L_k[j] = U_k[j] = 0;
    U_k[k] = 0;
    for (int j = k + 1; j <= (k | 7); ++j) L_k[j] = U_k[j] = 0;
    for (int i = start; i < k; ++i) {
        const SCALAR H_ki = L_k[i], H_ik = U_k[i];
        if (H_ki == (SCALAR)0 && H_ik == (SCALAR)0) continue;
        SCALAR* L_i = lower + i * n;
        SCALAR* U_i = upper + i * n;
        const int start_i = starts[i] - begin;
        if (start < start_i) {
            for (int j = chunk; j < start_i; ++j) L_i[j] = U_i[j] = 0;
            starts[i] = begin + start;
        }
        const v8 m = -H_ik * inverse, l = -H_ki * inverse;
        for (int c = chunk; c <= i; c += 8) {
            *(v8*)(L_i + c) = fma(m, *(const v8*)(L_k + c), *(v8*)(L_i + c));
            *(v8*)(U_i + c) = fma(l, *(const v8*)(U_k + c), *(v8*)(U_i + c));
        }
    }
    for (int c = chunk; c <= k; c += 8) {
        *(v8*)(L_k + c) = inverse * *(v8*)(L_k + c);
        *(v8*)(U_k + c) = inverse * *(v8*)(U_k + c);
    }
    L_k[k] = pivot;
}
return 0;
""",
    gpu="""
const int n = H.shape[1];
for (int k = end - 1; k >= begin; --k) {
    SCALAR* L_k = H.data + k * n;
    SCALAR* U_k = K.data + k * n;
    const SCALAR pivot = L_k[k];
    if (!(pivot != (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = first.data[k];
    for (int i = start; i < k; ++i) {
        const SCALAR m = -U_k[i] * inverse, l = -L_k[i] * inverse;
        if (m != (SCALAR)0 || l != (SCALAR)0) {
            SCALAR* L_i = H.data + i * n;
            SCALAR* U_i = K.data + i * n;
            for (int j = start; j < first.data[i]; ++j) L_i[j] = U_i[j] = 0;
            if (start < first.data[i]) first.data[i] = start;
            for (int j = start; j <= i; ++j) L_i[j] += m * L_k[j];
            for (int j = start; j < i; ++j) U_i[j] += l * U_k[j];
        }
    }
    for (int j = start; j < k; ++j) {
        L_k[j] *= inverse;
        U_k[j] *= inverse;
    }
}
return 0;
""",
)
# UP and DOWN are the matrices of the pass from the last row up, and of that from the first row down; D is H's in either case.
SOLVE = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin, corner = begin * n + begin;
const int* starts = first.data + begin;
SCALAR* px = x.data + begin;
for (int j = size; j <= ((size - 1) | 7); ++j) px[j] = 0;
for (int k = size - 1; k >= 0; --k) {
    const SCALAR* row = UP.data + corner + k * n;
    const SCALAR x_k = px[k];
    const v8 m = -x_k;
    for (int c = (starts[k] - begin) & ~7; c <= k; c += 8) *(v8*)(px + c) = fma(m, *(const v8*)(row + c), *(v8*)(px + c));
    px[k] = x_k;
}
for (int k = 0; k < size; ++k) {
    const SCALAR* row = DOWN.data + corner + k * n;
    const SCALAR x_k = px[k];
    px[k] = 0;
    v8 s = (SCALAR)0;
    for (int c = (starts[k] - begin) & ~7; c <= k; c += 8) s = fma(*(const v8*)(row + c), *(const v8*)(px + c), s);
    px[k] = x_k / H.data[corner + k * n + k] - SUM_V8;
}
""",
    gpu="""
const int n = H.shape[1];
SCALAR* px = x.data;
for (int k = end - 1; k >= begin; --k)
    for (int j = first.data[k]; j < k; ++j) px[j] -= px[k] * UP.data[k * n + j];
for (int k = begin; k < end; ++k) {
    SCALAR x_k = px[k] / H.data[k * n + k];
    for (int j = first.data[k]; j < k; ++j) x_k -= DOWN.data[k * n + j] * px[j];
    px[k] = x_k;
}
""",
)


@device.func_native(FACTOR)
def ldu_factor_envelope(
    H: wp.array2d(dtype=real), K: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)
) -> int:
    """Factor rows [begin, end) that begin at first[k]; fill-in lowers `first`. 0, or k + 1 when pivot k is 0 or not finite."""
    ...


@device.func_native(SOLVE.replace("UP", "K").replace("DOWN", "H"))
def ldu_solve_envelope(
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    begin: int,
    end: int,
    first: wp.array1d(dtype=int),
    x: wp.array1d(dtype=real),
):
    """x ← H⁻¹ x on [begin, end); up to seven places of x beyond `end` are scratch."""
    ...


@device.func_native(SOLVE.replace("UP", "H").replace("DOWN", "K"))
def ldu_solve_transposed(
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    begin: int,
    end: int,
    first: wp.array1d(dtype=int),
    x: wp.array1d(dtype=real),
):
    """x ← H⁻ᵀ x on [begin, end); up to seven places of x beyond `end` are scratch."""
    ...
