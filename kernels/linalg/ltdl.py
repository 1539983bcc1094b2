# SPDX-License-Identifier: Apache-2.0
"""Sparsity-skipping factorisation H = LᵀDL of one small SPD matrix per world (Featherstone 2008, §6.5).

L is unit lower triangular. Rows are eliminated from the last to the first, leaves before roots. In a kinematic tree
(parent before child) a mass matrix, and any JᵀGJ whose support is one ancestor chain, then has no fill-in. Rows that
couple unrelated branches (contact between two bodies) fill in as needed; the result is right for every SPD H.

Only the lower triangle is read or written: H[k, k] becomes D_k and H[k, i], i < k, becomes L_ki. A block-diagonal
matrix is stored by rows; the columns of a row count from the start of its block (`*_block`). A matrix of several blocks
that constraints couple is square, and an array holds the first non-zero of every row (`*_envelope`).
Leading zeros of a row and zero multipliers are skipped. Cost n³/6 multiply-adds when dense, Σ depth²/2 on a tree.
"""

import warp as wp

from .. import real as device
from ..real import LANES, real
from .vector import SOLVE_BY_EIGHTS, SOLVE_BY_LANES, eliminated, snippet, solved

# H_k[0 …] are the entries of row k from the first column of its tree or island on. When the row is eliminated, entries
# in its chunks of eight beyond the diagonal and before the first entry are set to 0. x − x is 0 for finite x only: one
# test finds NaN, ±∞ and pivots ≤ 0. START finds where row k begins, WIDEN lets row i begin there too; FAILED is the
# return value that names a bad pivot.
FACTOR = """
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + CORNER;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return FAILED;
    const SCALAR inverse = (SCALAR)1 / pivot;
    START
    ELIMINATE
}
return 0;
"""
BY_EIGHTS = """
    for (int j = k + 1; j <= (k | 7); ++j) H_k[j] = 0;
    for (int i = start; i < k; ++i) {
        const SCALAR H_ki = H_k[i];
        if (H_ki == (SCALAR)0) continue;
        SCALAR* H_i = base + i * n;
        WIDEN
        const v8 m = -H_ki * inverse;
        for (int c = chunk; c <= i; c += 8) *(v8*)(H_i + c) = fma(m, *(const v8*)(H_k + c), *(v8*)(H_i + c));
    }
    for (int c = chunk; c <= k; c += 8) *(v8*)(H_k + c) = inverse * *(v8*)(H_k + c);
    H_k[k] = pivot;
"""
BY_ENTRIES = """
    for (int i = start; i < k; ++i) {
        const SCALAR m = -H_k[i] * inverse;
        if (m != (SCALAR)0) {
            SCALAR* H_i = base + i * n;
            WIDEN
            for (int j = start; j <= i; ++j) H_i[j] += m * H_k[j];
        }
    }
    for (int j = start; j < k; ++j) H_k[j] *= inverse;
"""
FIRST_ENTRY = """
    int start = 0;
    while (start < k && H_k[start] == (SCALAR)0) ++start;
"""
CHUNK_OF_START = "const int chunk = start & ~7;\n"
CLEAR_CHUNK = "for (int j = chunk; j < start; ++j) H_k[j] = 0;\n"
WIDEN_CHUNK = """
        const int start_i = starts[i] - begin;
        if (start < start_i) {
            for (int j = chunk; j < start_i; ++j) H_i[j] = 0;
            starts[i] = begin + start;
        }
"""
WIDEN_ROW = """
            const int start_i = starts[i] - begin;
            for (int j = start; j < start_i; ++j) H_i[j] = 0;
            if (start < start_i) starts[i] = begin + start;
"""
SOLVE_ONE = """
for (int k = size - 1; k >= 0; --k)
    for (int j = FIRST; j < k; ++j) px[j] -= px[k] * UP[k * n + j];
for (int k = 0; k < size; ++k) {
    SCALAR x_k = px[k] / DIAGONAL[k * n + k];
    for (int j = FIRST; j < k; ++j) x_k -= DOWN[k * n + j] * px[j];
    px[k] = x_k;
}
"""


def factor(text: str, corner: str, failed: str, start: str, rows: str, widen: str = "", left: str = "") -> str:
    """`FACTOR` or `TEAM_FACTOR` for a block that begins at `corner`."""
    parts = {"ELIMINATE": rows, "WIDEN": widen, "LEFT": left, "START": start, "CORNER": corner, "FAILED": failed}
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


# By the lanes of a world: columns in parallel, rows in sequence. With up to `LANES` rows each lane keeps its entry in a
# register. LEFT: bits of the row's nonzero entries, pivot excluded.
TEAM_FACTOR = """
const int n = H.shape[1], size = end - begin;
SCALAR* base = H.data + CORNER;
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
        if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return FAILED;
        const SCALAR scaled = own * ((SCALAR)1 / pivot);
        LEFT
        PAIRS
        if (lane < k) *H_k = scaled;
    }
    meet();
    return 0;
}
for (int k = size - 1; k >= 0; --k) {
    SCALAR* H_k = base + k * n;
    const SCALAR pivot = H_k[k];
    if (!(pivot > (SCALAR)0 && pivot - pivot == (SCALAR)0)) return FAILED;
    const SCALAR inverse = (SCALAR)1 / pivot;
    START
    ELIMINATE
    meet();
    for (int j = start + lane; j < k; j += LANES) H_k[j] *= inverse;
    meet();
}
return 0;
"""
TEAM_FIRST_ENTRY = """
    int start = k;
    for (int c = 0; c < k && start == k; c += LANES) {
        const unsigned held = ballot(c + lane < k && H_k[c + lane] != (SCALAR)0);
        if (held) start = c + __popc((held & -held) - 1);
    }
"""
TEAM_ROWS = """
    for (int i = start; i < k; ++i) {
        const SCALAR m = -H_k[i] * inverse;
        if (m != (SCALAR)0)
            for (int j = start + lane; j <= i; j += LANES) base[i * n + j] += m * H_k[j];
    }
"""
TEAM_ENVELOPE_ROWS = """
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
"""
LEFT = "const unsigned left = ballot(lane < k && own != (SCALAR)0);"
LEFT_OF_ENVELOPE = """
        const unsigned all = ballot(own != (SCALAR)0), left = all & ~(1u << k);
        if (lane == 0) starts[k] = begin + __popc((all & -all) - 1);
"""
KEEP = "own_held[rank] = own;\n        scaled_held[rank] = scaled;"
UPDATE = "*(SCALAR*)(corner + at) -= scaled_held[a] * own_held[b];"
# Corner of a block and return value for a bad pivot: of a matrix stored by blocks, and of a square one.
IN_BLOCK = ("begin * n", "k + 1")
IN_SQUARE = ("begin * n + begin", "begin + k + 1")
OF_ENVELOPE = "const int start = starts[k] - begin;\n"
STARTS = "int* starts = first.data + begin;\n"
BLOCK_BY_EIGHTS = factor(FACTOR, *IN_BLOCK, FIRST_ENTRY + CHUNK_OF_START, BY_EIGHTS)
BLOCK_BY_ENTRIES = factor(FACTOR, *IN_BLOCK, FIRST_ENTRY, BY_ENTRIES)
BLOCK_BY_LANES = factor(TEAM_FACTOR, *IN_BLOCK, TEAM_FIRST_ENTRY, TEAM_ROWS, left=LEFT)
ENVELOPE_BY_EIGHTS = STARTS + factor(
    FACTOR, *IN_SQUARE, OF_ENVELOPE + CHUNK_OF_START + CLEAR_CHUNK, BY_EIGHTS, WIDEN_CHUNK
)
ENVELOPE_BY_ENTRIES = STARTS + factor(FACTOR, *IN_SQUARE, OF_ENVELOPE, BY_ENTRIES, WIDEN_ROW)
ENVELOPE_BY_LANES = STARTS + factor(TEAM_FACTOR, *IN_SQUARE, OF_ENVELOPE, TEAM_ENVELOPE_ROWS, left=LEFT_OF_ENVELOPE)


def solve(corner: str, first: str, gpu: str) -> str:
    """A C++ body that solves with a block whose row k begins at `first`; `gpu`: the text for a GPU."""
    begin = f"""
const int n = H.shape[1], size = end - begin;
const SCALAR* base = H.data + {corner};
SCALAR* px = x.data + begin;
"""
    begin += "const int* starts = first.data + begin;\n" if "starts" in first else ""
    rows = ("base", "base", "base", first)
    return snippet(cpu=begin + solved(SOLVE_BY_EIGHTS, *rows), gpu=begin + solved(gpu, *rows))


def solve_block(gpu: str) -> str:
    return solve(IN_BLOCK[0], "0", gpu)


def solve_envelope(gpu: str) -> str:
    return solve(IN_SQUARE[0], "starts[k] - begin", gpu)


def by_lanes(text: str) -> str:
    return eliminated(text, KEEP, UPDATE)


@device.func_native(snippet(cpu=BLOCK_BY_EIGHTS, gpu=by_lanes(BLOCK_BY_LANES)))
def team_ltdl_factor_block(H: wp.array2d(dtype=real), begin: int, end: int) -> int:
    """`ltdl_factor_block` by all lanes; a `sync` must follow earlier writes to H."""
    ...


@device.func_native(solve_block(SOLVE_BY_LANES))
def team_ltdl_solve_block(H: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real)):
    """`ltdl_solve_block` by all lanes; a `sync` must follow earlier writes to H and x."""
    ...


@device.func_native(snippet(cpu=BLOCK_BY_EIGHTS, gpu=BLOCK_BY_ENTRIES))
def ltdl_factor_block(H: wp.array2d(dtype=real), begin: int, end: int) -> int:
    """Factor the block in rows [begin, end) in place; return 0, or k + 1 if its pivot k is not positive and finite."""
    ...


@device.func_native(solve_block(SOLVE_ONE))
def ltdl_solve_block(H: wp.array2d(dtype=real), begin: int, end: int, x: wp.array1d(dtype=real)):
    """x ← H⁻¹ x on [begin, end) from the factor: Lᵀ from the last row up, D, then L from the first row down."""
    ...


@device.func_native(
    snippet(cpu=ENVELOPE_BY_EIGHTS, gpu=ENVELOPE_BY_ENTRIES if LANES == 1 else by_lanes(ENVELOPE_BY_LANES))
)
def team_ltdl_factor_envelope(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)) -> int:
    """Factor rows [begin, end) of a square H that stores row k from first[k] ≥ begin on; fill-in lowers `first`.

    Returns 0, or k + 1 if the pivot of row k is not positive and finite. By all lanes; a `sync` must follow earlier
    writes to H and `first`. On a GPU up to `LANES` rows are stored in full, with zeros before the first entry, and
    `first` is written.
    """
    ...


@device.func_native(solve_envelope(SOLVE_ONE if LANES == 1 else SOLVE_BY_LANES))
def team_ltdl_solve_envelope(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← H⁻¹ x on [begin, end) from the factor of `team_ltdl_factor_envelope`.

    By all lanes; a `sync` must follow earlier writes to x.
    """
    ...
