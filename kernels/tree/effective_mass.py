# SPDX-License-Identifier: Apache-2.0
"""W = J M⁻¹ Jᵀ of one contact or row, with M = LᵀDL stored by trees. Cost: the sum of depths per column of Jᵀ."""

import warp as wp

from .. import real as device
from ..linalg.lanes import by_device
from ..linalg.vector import fetched, scalar
from ..real import func, mat33, real, vec2, vec3
from .passes import Topology

ELIMINATE = """
const int* parent = dof_parent.data;
const int* tree = dof_begin.data;
SCALAR* columns = (SCALAR*)z.data;
SCALAR W[6] = {0, 0, 0, 0, 0, 0};
for (int d = last; d >= begin; --d) {
    const SCALAR x = columns[3 * d], y = columns[3 * d + 1], t = columns[3 * d + 2];
    if (x == 0 && y == 0 && t == 0) continue;
    const SCALAR* row = L.data + d * L.shape[1] - tree[d];
    for (int e = parent[d]; e >= 0; e = parent[e]) {
        columns[3 * e] -= row[e] * x;
        columns[3 * e + 1] -= row[e] * y;
        columns[3 * e + 2] -= row[e] * t;
    }
    const SCALAR inverse = 1 / row[d];
    W[0] += inverse * x * x;
    W[1] += inverse * x * y;
    W[2] += inverse * x * t;
    W[3] += inverse * y * y;
    W[4] += inverse * y * t;
    W[5] += inverse * t * t;
}
return wp::mat_t<3, 3, SCALAR>(W[0], W[1], W[2], W[1], W[3], W[4], W[2], W[4], W[5]);
"""
ELIMINATE_ONE = """
const int* parent = dof_parent.data;
SCALAR* column = (SCALAR*)z.data;
SCALAR weight = 0;
for (int d = last; d >= begin; --d) {
    const SCALAR x = column[3 * d];
    if (x == 0) continue;
    const SCALAR* row = L.data + d * L.shape[1] - begin;
    for (int e = parent[d]; e >= 0; e = parent[e]) column[3 * e] -= row[e] * x;
    weight += x * x / row[d];
}
return weight;
"""
# By the lanes of a world, several degrees of freedom per lane.
TEAM_ELIMINATE = """
const int size = last + 1 - begin, n = L.shape[1];
const SCALAR* rows = L.data + begin * n + begin - dof_begin.data[begin];
SCALAR* columns = (SCALAR*)(z.data + begin);
SCALAR W[6] = {0, 0, 0, 0, 0, 0};
for (int d = size - 1; d >= 0; --d) {
    const SCALAR x = columns[3 * d], y = columns[3 * d + 1], t = columns[3 * d + 2];
    if (x == 0 && y == 0 && t == 0) continue;
    for (int e = lane; e < d; e += LANES) {
        const SCALAR l = rows[d * n + e];
        columns[3 * e] -= l * x;
        columns[3 * e + 1] -= l * y;
        columns[3 * e + 2] -= l * t;
    }
    if (lane == 0) {
        const SCALAR inverse = (SCALAR)1 / rows[d * n + d];
        W[0] += inverse * x * x, W[1] += inverse * x * y, W[2] += inverse * x * t;
        W[3] += inverse * y * y, W[4] += inverse * y * t, W[5] += inverse * t * t;
    }
    meet();
}
for (int k = 0; k < 6; ++k)
    for (int other = LANES / 2; other > 0; other >>= 1) W[k] += across(W[k], other);
meet();
return wp::mat_t<3, 3, SCALAR>(W[0], W[1], W[2], W[1], W[3], W[4], W[2], W[4], W[5]);
"""
TEAM_ELIMINATE_ONE = """
const int size = last + 1 - begin, n = L.shape[1];
const SCALAR* rows = L.data + begin * n;
SCALAR* column = (SCALAR*)(z.data + begin);
SCALAR weight = 0;
for (int d = size - 1; d >= 0; --d) {
    const SCALAR x = column[3 * d];
    if (x == 0) continue;
    for (int e = lane; e < d; e += LANES) column[3 * e] -= rows[d * n + e] * x;
    if (lane == 0) weight += x * x / rows[d * n + d];
    meet();
}
for (int other = LANES / 2; other > 0; other >>= 1) weight += across(weight, other);
meet();
return weight;
"""
# On CUDA, a row of J per lane: y = J L⁻¹ of one tree, by blocks of 16 columns from the last. Rows are in shared
# memory, a block is in registers. A row has 36 numbers, or 68 on half of the lanes: four of them are aligned, and eight
# lanes use different banks. The lanes first ask for all of the tree's factor, and wait for none of it: rows are then
# taken from the cache.
ROW_WEIGHT = """
constexpr int BLOCK = 16, NARROW = 36, WIDE = 68;
struct alignas(4 * sizeof(SCALAR)) Four { SCALAR x[4]; };
__shared__ alignas(32) SCALAR all[32 * NARROW];
const int step = L.shape[1], wide = step < NARROW ? NARROW : WIDE, rank = step < NARROW ? lane : lane % (LANES / 2);
SCALAR* const own = all + (threadIdx.x - lane) * NARROW + rank * wide;
const SCALAR* const next = own + (rank % 3 == 2 ? -2 : 1) * wide;
SCALAR weight = 0, with_next = 0;
for (int i = 0; ballot(i < n);) {
    int size = 0, begin = 0;
    if (i < n) begin = dof_begin.data[support.data[i]];
    const int any = from_lane(begin, __ffs(ballot(i < n)) - 1), from = i < n ? begin : any;
    const SCALAR* rows = L.data + from * step;
    if (i < n) {
        int end = n;
        if (dof_begin.data[support.data[n - 1]] != begin)
            for (end = i + 1; dof_begin.data[support.data[end]] == begin;) ++end;
        size = support.data[end - 1] + 1 - begin;
        for (int k = 0; k < size; k += 4) *(Four*)(own + k) = Four();
        for (; i < end; ++i) own[support.data[i] - begin] = J.data[i];
    }
    FETCH
    int b = 0;
    while (ballot(size > b + BLOCK)) b += BLOCK;
    for (; b >= 0; b -= BLOCK) {
        SCALAR y[BLOCK];
        #pragma unroll
        for (int c = 0; c < BLOCK; c += 4) {
            Four part = Four();
            if (b + c < size) part = *(const Four*)(own + b + c);
            #pragma unroll
            for (int j = 0; j < 4; ++j) y[c + j] = part.x[j];
        }
        for (int k = b + BLOCK; k < size; ++k) {
            const SCALAR minus = -own[k];
            if (minus == 0) continue;
            const SCALAR* const row = rows + k * step + b;
            #pragma unroll
            for (int c = 0; c < BLOCK; c += 4) {
                const Four l = *(const Four*)(row + c);
                #pragma unroll
                for (int j = 0; j < 4; ++j) y[c + j] = FMA(l.x[j], minus, y[c + j]);
            }
        }
        const SCALAR* row = rows + min(b + BLOCK, size) * step + b;
        #pragma unroll
        for (int k = BLOCK - 1; k >= 0; --k) {
            if (b + k >= size) continue;
            row -= step;
            const SCALAR y_k = y[k], minus = -y_k;
            own[b + k] = y_k;
            if (y_k == 0) continue;
            #pragma unroll
            for (int c = 0; c <= k; c += 4) {
                const Four l = *(const Four*)(row + c);
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (c + j < k) y[c + j] = FMA(l.x[j], minus, y[c + j]);
                    if (c + j == k) y[k] = DIVIDE(y_k, l.x[j]);
                }
            }
            weight = FMA(y_k, y[k], weight);
        }
        if (crossed) {
            meet();
            #pragma unroll
            for (int c = 0; c < BLOCK; c += 4) {
                if (b + c >= size) continue;
                const Four part = *(const Four*)(next + b + c);
                #pragma unroll
                for (int j = 0; j < 4; ++j) with_next = FMA(y[c + j], part.x[j], with_next);
            }
            meet();
        }
    }
}
meet();
return wp::vec_t<2, SCALAR>(weight, with_next);
"""
ROW_WEIGHT = ROW_WEIGHT.replace("FETCH", fetched("rows", "min(step, L.shape[0] - from) * step"))
ROW_WEIGHT = ROW_WEIGHT.replace("DIVIDE", {"float": "__fdividef", "double": "__ddiv_rn"}[scalar])
ROW_WEIGHT = ROW_WEIGHT.replace("FMA", {"float": "__fmaf_rn", "double": "__fma_rn"}[scalar])
ALONE_ROW_WEIGHT = "return wp::vec_t<2, SCALAR>();"
AT_ONCE = "const int step = L.shape[1];\nreturn LANES == 1 || step > 64 ? 0 : step > 32 ? LANES / 2 : LANES;"


@device.func_native(by_device(AT_ONCE, "return 0;"))
def rows_at_once(L: wp.array2d(dtype=real)) -> int:
    """Number of lanes that `team_row_weight` may give a row; 0 on the CPU, and if a tree has more than 64 dofs."""
    ...


@device.func_native(by_device(ROW_WEIGHT, ALONE_ROW_WEIGHT).replace("SCALAR", scalar))
def team_row_weight(
    dof_begin: wp.array1d(dtype=int),
    L: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    J: wp.array1d(dtype=real),
    n: int,
    crossed: bool,
) -> vec2:
    """(J M⁻¹ Jᵀ, the same with the next lane's row on the right) of this lane's row, which has n entries.

    `crossed`: the lanes 3k, 3k + 1, 3k + 2 have rows of one support, and the next of the last is the first of them;
    otherwise the second number is 0. n is 0 on all lanes but `rows_at_once` side by side. In blocks of one warp.
    """
    ...


@device.func_native(by_device(TEAM_ELIMINATE, ELIMINATE).replace("SCALAR", scalar))
def team_eliminate(
    dof_parent: wp.array1d(dtype=int),
    dof_begin: wp.array1d(dtype=int),
    L: wp.array2d(dtype=real),
    z: wp.array1d(dtype=vec3),
    begin: int,
    last: int,
) -> mat33:
    """`eliminate` by all lanes, in one tree that begins at `begin`.

    A `sync` must follow earlier writes of other lanes to z.
    """
    ...


@device.func_native(by_device(TEAM_ELIMINATE_ONE, ELIMINATE_ONE).replace("SCALAR", scalar))
def team_eliminate_one(
    dof_parent: wp.array1d(dtype=int), L: wp.array2d(dtype=real), z: wp.array1d(dtype=vec3), begin: int, last: int
) -> real:
    """`eliminate_one` by all lanes."""
    ...


@device.func_native(ELIMINATE.replace("SCALAR", scalar))
def eliminate(
    dof_parent: wp.array1d(dtype=int),
    dof_begin: wp.array1d(dtype=int),
    L: wp.array2d(dtype=real),
    z: wp.array1d(dtype=vec3),
    begin: int,
    last: int,
) -> mat33:
    """z ← L⁻ᵀz on the dofs begin to last, along the ancestors. Returns zᵀD⁻¹z, which is J M⁻¹ Jᵀ if z held Jᵀ."""
    ...


@device.func_native(ELIMINATE_ONE.replace("SCALAR", scalar))
def eliminate_one(
    dof_parent: wp.array1d(dtype=int), L: wp.array2d(dtype=real), z: wp.array1d(dtype=vec3), begin: int, last: int
) -> real:
    """`eliminate` for the first components of z alone, in one tree that begins at `begin`."""
    ...


@func
def inverse_mass_times(
    topology: Topology, L: wp.array3d(dtype=real), z: wp.array2d(dtype=vec3), w: int, begin: int, end: int
) -> mat33:
    """z ← M⁻¹z on the dofs [begin, end) of whole trees, along the ancestors. Returns z_inᵀ M⁻¹ z_in."""
    W = eliminate(topology.dof_parent, topology.dof_begin, L[w], z[w], begin, end - 1)
    for d in range(begin, end):
        first = topology.dof_begin[d]
        x = z[w, d] / L[w, d, d - first]
        e = topology.dof_parent[d]
        while e >= 0:
            x = x - L[w, d, e - first] * z[w, e]
            e = topology.dof_parent[e]
        z[w, d] = x
    return W
