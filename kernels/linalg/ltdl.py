# SPDX-License-Identifier: Apache-2.0
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

from .. import real as device
from ..real import real
from .lanes import by_device
from .vector import eliminated, scalar, snippet, solve_by_eights

# Entries of row k from the first column of its tree or island on are H_k[0 …]; those beyond the diagonal, within its chunk of eight, are
# set to 0 when it is eliminated, and so are those before its first one. x − x is 0 for finite x only: one test for NaN, ±∞ and pivots ≤ 0.
FACTOR_BLOCK = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + begin * n;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    int start = 0;
    while (start < k && H_k[start] == (SCALAR)0) ++start;
    const int chunk = start & ~7;
    for (int j = k + 1; j <= (k | 7); ++j) H_k[j] = 0;
    for (int i = start; i < k; ++i) {
        const SCALAR H_ki = H_k[i];
        if (H_ki == (SCALAR)0) continue;
        SCALAR* H_i = base + i * n;
        const v8 m = -H_ki * inverse;
        for (int c = chunk; c <= i; c += 8) *(v8*)(H_i + c) = fma(m, *(const v8*)(H_k + c), *(v8*)(H_i + c));
    }
    for (int c = chunk; c <= k; c += 8) *(v8*)(H_k + c) = inverse * *(v8*)(H_k + c);
    H_k[k] = pivot;
}
return 0;
""",
    gpu="""
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + begin * n;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    int start = 0;
    while (start < k && H_k[start] == (SCALAR)0) ++start;
    for (int i = start; i < k; ++i) {
        const SCALAR m = -H_k[i] * inverse;
        if (m != (SCALAR)0)
            for (int j = start; j <= i; ++j) base[i * n + j] += m * H_k[j];
    }
    for (int j = start; j < k; ++j) H_k[j] *= inverse;
}
return 0;
""",
)
SOLVE_BLOCK = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + begin * n;
SCALAR* px = x.data + begin;
"""
    + solve_by_eights("base", "base", "base", "0"),
    gpu="""
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + begin * n;
SCALAR* px = x.data + begin;
for (int k = size - 1; k >= 0; --k)
    for (int j = 0; j < k; ++j) px[j] -= px[k] * base[k * n + j];
for (int k = 0; k < size; ++k) {
    SCALAR x_k = px[k] / base[k * n + k];
    for (int j = 0; j < k; ++j) x_k -= base[k * n + j] * px[j];
    px[k] = x_k;
}
""",
)
FACTOR_ENVELOPE = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + begin * n + begin;
int* starts = first.data + begin;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = starts[k] - begin, chunk = start & ~7;
    for (int j = chunk; j < start; ++j) H_k[j] = 0;
    for (int j = k + 1; j <= (k | 7); ++j) H_k[j] = 0;
    for (int i = start; i < k; ++i) {
        const SCALAR H_ki = H_k[i];
        if (H_ki == (SCALAR)0) continue;
        SCALAR* H_i = base + i * n;
        const int start_i = starts[i] - begin;
        if (start < start_i) {
            for (int j = chunk; j < start_i; ++j) H_i[j] = 0;
            starts[i] = begin + start;
        }
        const v8 m = -H_ki * inverse;
        for (int c = chunk; c <= i; c += 8) *(v8*)(H_i + c) = fma(m, *(const v8*)(H_k + c), *(v8*)(H_i + c));
    }
    for (int c = chunk; c <= k; c += 8) *(v8*)(H_k + c) = inverse * *(v8*)(H_k + c);
    H_k[k] = pivot;
}
return 0;
""",
    gpu="""
const int n = H.shape[1];
for (int k = end - 1; k >= begin; --k) {
    SCALAR* H_k = H.data + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = first.data[k];
    for (int i = start; i < k; ++i) {
        const SCALAR m = -H_k[i] * inverse;
        if (m != (SCALAR)0) {
            SCALAR* H_i = H.data + i * n;
            for (int j = start; j < first.data[i]; ++j) H_i[j] = 0;
            if (start < first.data[i]) first.data[i] = start;
            for (int j = start; j <= i; ++j) H_i[j] += m * H_k[j];
        }
    }
    for (int j = start; j < k; ++j) H_k[j] *= inverse;
}
return 0;
""",
)
SOLVE_ENVELOPE = snippet(
    cpu="""
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + begin * n + begin;
const int* starts = first.data + begin;
SCALAR* px = x.data + begin;
"""
    + solve_by_eights("base", "base", "base", "starts[k] - begin"),
    gpu="""
const int n = H.shape[1];
SCALAR* px = x.data;
for (int k = end - 1; k >= begin; --k)
    for (int j = first.data[k]; j < k; ++j) px[j] -= px[k] * H.data[k * n + j];
for (int k = begin; k < end; ++k) {
    SCALAR x_k = px[k] / H.data[k * n + k];
    for (int j = first.data[k]; j < k; ++j) x_k -= H.data[k * n + j] * px[j];
    px[k] = x_k;
}
""",
)
# By the lanes of a world: columns side by side, rows one after the other. Up to `LANES` of them a lane keeps its x to itself.
TEAM_FACTOR_BLOCK = """
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + begin * n;
if (size <= LANES) {
    __shared__ int places[32 * WARPS];
    __shared__ SCALAR all_own_held[32 * WARPS], all_scaled_held[32 * WARPS];
    int* const place = places + OWN_PART;
    SCALAR *const own_held = all_own_held + OWN_PART, *const scaled_held = all_scaled_held + OWN_PART;
    FIRST_PAIRS
    char* const corner = (char*)base;
    for (int k = size - 1; k >= 0; --k) {
        SCALAR* const H_k = base + k * n + lane;
        const SCALAR own = lane <= k ? *H_k : (SCALAR)0;
        const SCALAR pivot = from_lane(own, k);
        if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
        const SCALAR scaled = own * ((SCALAR)1 / pivot);
        const unsigned left = ballot(lane < k && own != (SCALAR)0);
        PAIRS
        if (lane < k) *H_k = scaled;
    }
    meet();
    return 0;
}
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    int start = k;
    for (int c = 0; c < k && start == k; c += LANES) {
        const unsigned held = ballot(c + lane < k && H_k[c + lane] != (SCALAR)0);
        if (held) start = c + __popc((held & -held) - 1);
    }
    for (int i = start; i < k; ++i) {
        const SCALAR m = -H_k[i] * inverse;
        if (m != (SCALAR)0)
            for (int j = start + lane; j <= i; j += LANES) base[i * n + j] += m * H_k[j];
    }
    meet();
    for (int j = start + lane; j < k; j += LANES) H_k[j] *= inverse;
    meet();
}
return 0;
"""
TEAM_SOLVE_BLOCK = """
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + begin * n;
SCALAR* px = x.data + begin;
if (size <= LANES) {
    SCALAR y = lane < size ? px[lane] : (SCALAR)0;
    for (int k = size - 1; k >= 0; --k) {
        const SCALAR x_k = from_lane(y, k);
        if (lane < k) y -= x_k * base[k * n + lane];
    }
    if (lane < size) y /= base[lane * n + lane];
    for (int k = 1; k < size; ++k) {
        SCALAR sum = lane < k ? base[k * n + lane] * y : (SCALAR)0;
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == k) y -= sum;
    }
    if (lane < size) px[lane] = y;
} else {
    for (int k = size - 1; k >= 0; --k) {
        const SCALAR x_k = px[k];
        for (int j = lane; j < k; j += LANES) px[j] -= x_k * base[k * n + j];
        meet();
    }
    for (int k = 0; k < size; ++k) {
        SCALAR sum = 0;
        for (int j = lane; j < k; j += LANES) sum += base[k * n + j] * px[j];
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == 0) px[k] = px[k] / base[k * n + k] - sum;
        meet();
    }
}
meet();
"""

TEAM_FACTOR_ENVELOPE = """
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + begin * n + begin;
int* starts = first.data + begin;
if (size <= LANES) {
    __shared__ int places[32 * WARPS];
    __shared__ SCALAR all_own_held[32 * WARPS], all_scaled_held[32 * WARPS];
    int* const place = places + OWN_PART;
    SCALAR *const own_held = all_own_held + OWN_PART, *const scaled_held = all_scaled_held + OWN_PART;
    FIRST_PAIRS
    char* const corner = (char*)base;
    for (int k = size - 1; k >= 0; --k) {
        SCALAR* const H_k = base + k * n + lane;
        const SCALAR own = lane <= k ? *H_k : (SCALAR)0;
        const SCALAR pivot = from_lane(own, k);
        if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
        const SCALAR scaled = own * ((SCALAR)1 / pivot);
        const unsigned all = ballot(own != (SCALAR)0), left = all & ~(1u << k);
        if (lane == 0) starts[k] = begin + __popc((all & -all) - 1);
        PAIRS
        if (lane < k) *H_k = scaled;
    }
    meet();
    return 0;
}
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = starts[k] - begin;
    for (int c = start; c < k; c += LANES) {
        unsigned left = ballot(c + lane < k && H_k[c + lane] != (SCALAR)0);
        while (left) {
            const int i = c + __popc((left & -left) - 1);
            left &= left - 1;
            const SCALAR m = -H_k[i] * inverse;
            SCALAR* H_i = base + i * n;
            const int start_i = starts[i] - begin;
            for (int j = start + lane; j <= i; j += LANES) H_i[j] = (j >= start_i ? H_i[j] : (SCALAR)0) + m * H_k[j];
            meet();
            if (lane == 0 && start < start_i) starts[i] = begin + start;
        }
    }
    meet();
    for (int j = start + lane; j < k; j += LANES) H_k[j] *= inverse;
    meet();
}
return 0;
"""
TEAM_SOLVE_ENVELOPE = """
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + begin * n + begin;
const int* starts = first.data + begin;
SCALAR* px = x.data + begin;
if (size <= LANES) {
    const SCALAR* column = base + lane;
    SCALAR y = lane < size ? px[lane] : (SCALAR)0;
    for (int k = size - 1; k > 0; --k) {
        const SCALAR x_k = from_lane(y, k);
        if (lane < k) y -= x_k * column[k * n];
    }
    if (lane < size) y /= column[lane * n];
    for (int k = 1; k < size; ++k) {
        SCALAR sum = lane < k ? column[k * n] * y : (SCALAR)0;
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == k) y -= sum;
    }
    if (lane < size) px[lane] = y;
} else {
    for (int k = size - 1; k > 0; --k) {
        const SCALAR x_k = px[k];
        for (int j = starts[k] - begin + lane; j < k; j += LANES) px[j] -= x_k * base[k * n + j];
        meet();
    }
    for (int k = 0; k < size; ++k) {
        SCALAR sum = 0;
        for (int j = starts[k] - begin + lane; j < k; j += LANES) sum += base[k * n + j] * px[j];
        for (int other = LANES / 2; other > 0; other >>= 1) sum += across(sum, other);
        if (lane == 0) px[k] = px[k] / base[k * n + k] - sum;
        meet();
    }
}
meet();
"""


KEEP = "own_held[rank] = own;\n        scaled_held[rank] = scaled;"
UPDATE = "*(SCALAR*)(corner + at) -= scaled_held[a] * own_held[b];"


def team(text: str) -> str:
    """A body for the lanes of a warp."""
    return eliminated(text, KEEP, UPDATE).replace("SCALAR", scalar)


@device.func_native(by_device(team(TEAM_FACTOR_BLOCK), FACTOR_BLOCK))
def team_ltdl_factor_block(H: wp.array2d(dtype=real), begin: int, end: int) -> int:
    """`ltdl_factor_block` by all lanes; what others wrote to H before was followed by a `sync`."""
    ...


@device.func_native(by_device(team(TEAM_SOLVE_BLOCK), SOLVE_BLOCK))
def team_ltdl_solve_block(H: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real)):
    """`ltdl_solve_block` by all lanes; what others wrote to H and x before was followed by a `sync`."""
    ...


@device.func_native(FACTOR_BLOCK)
def ltdl_factor_block(H: wp.array2d(dtype=real), begin: int, end: int) -> int:
    """Factor the block in rows [begin, end) in place; 0, or k + 1 when its pivot k is not positive and finite."""
    ...


@device.func_native(SOLVE_BLOCK)
def ltdl_solve_block(H: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real)):
    """x ← H⁻¹ x on [begin, end) from the factor: Lᵀ from the last row up, D, then L from the first row down."""
    ...


@device.func_native(FACTOR_ENVELOPE)
def ltdl_factor_envelope(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)) -> int:
    """Factor rows [begin, end) of a square H that holds row k from first[k] ≥ begin on; fill-in lowers `first`."""
    ...


@device.func_native(SOLVE_ENVELOPE)
def ltdl_solve_envelope(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← H⁻¹ x on [begin, end) from the factor of `ltdl_factor_envelope`."""
    ...


@device.func_native(by_device(team(TEAM_FACTOR_ENVELOPE), FACTOR_ENVELOPE))
def team_ltdl_factor_envelope(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)) -> int:
    """`ltdl_factor_envelope` by all lanes; what others wrote to H and `first` before was followed by a `sync`.

    On a GPU up to `LANES` rows are held whole, with zeros before `first`, which is written.
    """
    ...


@device.func_native(by_device(team(TEAM_SOLVE_ENVELOPE), SOLVE_ENVELOPE))
def team_ltdl_solve_envelope(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """`ltdl_solve_envelope` by all lanes; what others wrote to x before was followed by a `sync`."""
    ...
