# SPDX-License-Identifier: Apache-2.0
"""Factorisation H = UᵀDL of one square matrix per world with a symmetric pattern and values that need not be symmetric.

L and U are unit lower triangular. Rows are eliminated from the last to the first without pivoting, as in `ltdl.py`, and
stored in the same envelope: D and L in the lower triangle, U in the upper one, side by side in `H` (`triangles.py`).
Twice the work of LᵀDL.
"""

import warp as wp

from .. import real as device
from ..real import real
from .triangles import CORNERS
from .vector import SOLVE_BY_EIGHTS, SOLVE_BY_LANES, eliminated, scalar, snippet, solved

# As in `ltdl.py`: entries in a chunk of eight outside the envelope of row k are set to 0 when the row is eliminated.
FACTOR = snippet(
    cpu="""
const int size = end - begin;
int* starts = first.data + begin;
for (int k = size - 1; k >= 0; --k) {
    SCALAR* L_k = lower + k * n;
    SCALAR* U_k = upper + k * step;
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
        SCALAR* U_i = upper + i * step;
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
const int size = end - begin;
int* starts = first.data + begin;
if (size <= LANES) {
    __shared__ int places[32 * WARPS];
    __shared__ SCALAR all_own_held[32 * WARPS], all_own_scaled_held[32 * WARPS], all_turned_held[32 * WARPS], \
all_turned_scaled_held[32 * WARPS];
    int* const place = places + OWN_PART;
    SCALAR *const own_held = all_own_held + OWN_PART, *const own_scaled_held = all_own_scaled_held + OWN_PART, \
*const turned_held = all_turned_held + OWN_PART, *const turned_scaled_held = all_turned_scaled_held + OWN_PART;
    FIRST_PAIRS
    char* const below = (char*)lower;
    char* const above = (char*)upper;
    const unsigned mirrored = row + (unsigned)sizeof(SCALAR);
    for (int k = size - 1; k >= 0; --k) {
        SCALAR* const L_k = lower + k * n + lane;
        SCALAR* const U_k = upper + k * step + lane;
        const SCALAR own = lane <= k ? *L_k : (SCALAR)0;
        const SCALAR turned = lane < k ? *U_k : (SCALAR)0;
        const SCALAR pivot = from_lane(own, k);
        if (!(pivot != (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
        const SCALAR inverse = (SCALAR)1 / pivot, own_scaled = own * inverse, turned_scaled = turned * inverse;
        const unsigned all = ballot(own != (SCALAR)0 || turned != (SCALAR)0), left = all & ~(1u << k);
        if (lane == 0) starts[k] = begin + __popc((all & -all) - 1);
        PAIRS
        if (lane < k) {
            *L_k = own_scaled;
            *U_k = turned_scaled;
        }
    }
    meet();
    return 0;
}
for (int k = size - 1; k >= 0; --k) {
    SCALAR* L_k = lower + k * n;
    SCALAR* U_k = upper + k * step;
    const SCALAR pivot = L_k[k];
    if (!(pivot != (SCALAR)0 && pivot - pivot == (SCALAR)0)) return begin + k + 1;
    const SCALAR inverse = (SCALAR)1 / pivot;
    const int start = starts[k] - begin;
    for (int c = start; c < k; c += LANES) {
        const bool held = c + lane < k && (L_k[c + lane] != (SCALAR)0 || U_k[c + lane] != (SCALAR)0);
        unsigned left = ballot(held);
        while (left) {
            const int i = c + __popc((left & -left) - 1);
            left &= left - 1;
            const SCALAR m = -U_k[i] * inverse, l = -L_k[i] * inverse;
            SCALAR* L_i = lower + i * n;
            SCALAR* U_i = upper + i * step;
            const int start_i = starts[i] - begin;
            for (int j = start + lane; j <= i; j += LANES) L_i[j] = (j >= start_i ? L_i[j] : (SCALAR)0) + m * L_k[j];
            for (int j = start + lane; j < i; j += LANES) U_i[j] = (j >= start_i ? U_i[j] : (SCALAR)0) + l * U_k[j];
            meet();
            if (lane == 0 && start < start_i) starts[i] = begin + start;
        }
    }
    meet();
    for (int j = start + lane; j < k; j += LANES) {
        L_k[j] *= inverse;
        U_k[j] *= inverse;
    }
    meet();
}
return 0;
""",
)
KEEP = """own_held[rank] = own;
        own_scaled_held[rank] = own_scaled;
        turned_held[rank] = turned;
        turned_scaled_held[rank] = turned_scaled;"""
# The diagonal of U is never read.
UPDATE = """*(SCALAR*)(below + at) -= turned_scaled_held[a] * own_held[b];
        *(SCALAR*)(above + (int)(place[b] * (unsigned)sizeof(SCALAR)) - (int)(place[a] * mirrored)) \
-= own_scaled_held[a] * turned_held[b];"""


PLACES = """
const int size = end - begin;
const int* starts = first.data + begin;
SCALAR* px = x.data + begin;
"""


def passes(up: str, down: str) -> str:
    """C++ of both passes: from the last row up with triangle `up`, from the first row down with triangle `down`.

    D is in the lower triangle.
    """
    steps = ("n" if triangle == "lower" else "step" for triangle in (up, down))
    rows = (up, down, "lower", "starts[k] - begin", *steps)
    cpu, gpu = (PLACES + solved(text, *rows) for text in (SOLVE_BY_EIGHTS, SOLVE_BY_LANES))
    return CORNERS + snippet(cpu=cpu, gpu=gpu)


@device.func_native(CORNERS + eliminated(FACTOR, KEEP, UPDATE).replace("SCALAR", scalar))
def team_ldu_factor_envelope(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int)) -> int:
    """Factor rows [begin, end) that begin at first[k]; fill-in lowers `first`.

    Returns 0, or k + 1 if the pivot of row k is 0 or not finite. All lanes call this and the next two. On a GPU up to
    `LANES` rows are stored in full, with zeros before the first entry, and `first` is written.
    """
    ...


@device.func_native(passes(up="upper", down="lower"))
def team_ldu_solve_envelope(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← H⁻¹ x on [begin, end)."""
    ...


@device.func_native(passes(up="lower", down="upper"))
def team_ldu_solve_transposed(
    H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), x: wp.array1d(dtype=real)
):
    """x ← H⁻ᵀ x on [begin, end)."""
    ...
