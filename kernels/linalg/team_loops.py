# SPDX-License-Identifier: Apache-2.0
"""The loops of `loops.py` over the support of one constraint, by all lanes of a world.

What others wrote to the arrays before was followed by a `sync`; each of these ends with one. On the CPU they are the loops of one thread.
"""

import warp as wp

from .. import real as device
from ..real import mat33, real, vec3
from . import loops
from .lanes import ALONE, by_device
from .triangles import CORNERS
from .vector import PAIR

ROWS = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
"""
PAIRS = (
    PAIR
    + """
for (unsigned pair = lane; pair < size * (size + 1) / 2; pair += LANES) {
    const unsigned a = row_of_pair(pair), b = pair - a * (a + 1) / 2;
    BODY
}
meet();
"""
)
CONTACT_ENTRY = """
    const auto g0 = G.data[0][0] * J0[a] + G.data[0][1] * J1[a] + G.data[0][2] * J2[a];
    const auto g1 = G.data[1][0] * J0[a] + G.data[1][1] * J1[a] + G.data[1][2] * J2[a];
    const auto g2 = G.data[2][0] * J0[a] + G.data[2][1] * J1[a] + G.data[2][2] * J2[a];
    const auto entry = g0 * J0[b] + g1 * J1[b] + g2 * J2[b];
"""
ROW_ENTRY = """
    const auto entry = g * pa[a] * pa[b];
"""
IN_SLOTS = """
    const int s_a = slot.data[dof[a]], s_b = slot.data[dof[b]];
    H.data[s_a > s_b ? s_a * H.shape[1] + s_b : s_b * H.shape[1] + s_a] += entry;
"""
IN_BLOCKS = """
    const int begin = dof_begin.data[dof[a]];
    if (dof[b] >= begin) H.data[dof[a] * H.shape[1] + dof[b] - begin] += entry;
"""
TEAM_GRAM = ROWS + PAIRS.replace("BODY", CONTACT_ENTRY + IN_SLOTS)
TEAM_BLOCK_GRAM = ROWS + PAIRS.replace("BODY", CONTACT_ENTRY + IN_BLOCKS)
ROW = "const auto* pa = a_row.data;\nconst int* dof = support.data;\n"
TEAM_SPARSE_GRAM = ROW + PAIRS.replace("BODY", ROW_ENTRY + IN_SLOTS)
TEAM_SPARSE_BLOCK_GRAM = ROW + PAIRS.replace("BODY", ROW_ENTRY + IN_BLOCKS)
TEAM_SCATTER = (
    ROWS
    + """
for (int j = lane; j < size; j += LANES)
    x.data[dof[j]] += J0[j] * f.c[0] + J1[j] * f.c[1] + J2[j] * f.c[2];
meet();
"""
)
SCATTER_THREE = (
    ROWS
    + """
for (int j = lane; j < size; j += LANES) {
    const int d = dof[j];
    x.data[d] += J0[j] * f.c[0] + J1[j] * f.c[1] + J2[j] * f.c[2];
    y.data[d] += J0[j] * g.c[0] + J1[j] * g.c[1] + J2[j] * g.c[2];
    z.data[d] += J0[j] * h.c[0] + J1[j] * h.c[1] + J2[j] * h.c[2];
}
"""
)
TEAM_SPARSE_ADD = """
const int* dof = support.data;
for (int j = lane; j < size; j += LANES) x.data[dof[j]] += f * a.data[j];
meet();
"""
BLOCK_GRAM = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
const int n = H.shape[1];
for (int a = 0; a < size; ++a) {
    const int begin = dof_begin.data[dof[a]];
    const auto g0 = G.data[0][0] * J0[a] + G.data[0][1] * J1[a] + G.data[0][2] * J2[a];
    const auto g1 = G.data[1][0] * J0[a] + G.data[1][1] * J1[a] + G.data[1][2] * J2[a];
    const auto g2 = G.data[2][0] * J0[a] + G.data[2][1] * J1[a] + G.data[2][2] * J2[a];
    auto* row = H.data + dof[a] * n - begin;
    for (int b = a; b >= 0 && dof[b] >= begin; --b) row[dof[b]] += g0 * J0[b] + g1 * J1[b] + g2 * J2[b];
}
"""
SPARSE_BLOCK_GRAM = """
const auto* pa = a.data;
const int* dof = support.data;
const int n = H.shape[1];
for (int i = 0; i < size; ++i) {
    const int begin = dof_begin.data[dof[i]];
    const auto g_i = g * pa[i];
    auto* row = H.data + dof[i] * n - begin;
    for (int j = i; j >= 0 && dof[j] >= begin; --j) row[dof[j]] += g_i * pa[j];
}
"""
SPARSE_ADD_THREE = """
const int* dof = support.data;
for (int j = lane; j < size; j += LANES) {
    const int d = dof[j];
    x.data[d] += f * a.data[j];
    y.data[d] += g * a.data[j];
    z.data[d] += h * a.data[j];
}
"""
RANK_ONE = """
const auto* J0 = J.data;
const auto* J1 = J0 + J.shape[1];
const auto* J2 = J1 + J.shape[1];
const int* dof = support.data;
for (int a = 0; a < size; ++a) {
    const int s_a = slot.data[dof[a]] - begin;
    const auto left = p.c[0] * J0[a] + p.c[1] * J1[a];
    for (int b = 0; b < size; ++b) {
        const int s_b = slot.data[dof[b]] - begin;
        (s_a >= s_b ? lower[s_a * n + s_b] : upper[s_b * step + s_a]) += left * J2[b];
    }
}
"""
TEAM_RANK_ONE = (
    ROWS
    + """
for (int pair = lane; pair < size * size; pair += LANES) {
    const int a = pair / size, b = pair - a * size;
    const int s_a = slot.data[dof[a]] - begin, s_b = slot.data[dof[b]] - begin;
    const auto entry = (p.c[0] * J0[a] + p.c[1] * J1[a]) * J2[b];
    (s_a >= s_b ? lower[s_a * n + s_b] : upper[s_b * step + s_a]) += entry;
}
meet();
"""
)
# Rows of both have one length.
CLEAR_TRIANGLE = """
for (int k = begin; k < end; ++k)
    for (int j = begin + lane; j <= k; j += LANES) H.data[k * H.shape[1] + j] = 0;
"""
COPY_TRIANGLE = """
for (int k = 0; k < end - begin; ++k)
    for (int j = (whole ? 0 : first.data[begin + k] - begin) + lane; j < k; j += LANES) upper[k * step + j] = lower[k * n + j];
"""
TEAM_FILL = """
for (int j = first + lane; j < last; j += LANES) y.data[j] = a;
meet();
"""


def for_lanes(body: str) -> str:
    """A body in C++ whose loops are over lane, lane + LANES, …"""
    return by_device(body + "meet();\n", ALONE + body)


@device.func_native(for_lanes(CLEAR_TRIANGLE))
def team_clear_triangle(H: wp.array2d(dtype=real), begin: int, end: int):
    """0 in the lower triangle of the block [begin, end)."""
    ...


@device.func_native(CORNERS + for_lanes(COPY_TRIANGLE))
def team_copy_triangle(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), whole: bool):
    """The strict lower triangle of the block [begin, end), within its envelope or `whole`, to the upper one (`triangles.py`)."""
    ...


@device.func_native(by_device(TEAM_FILL, loops.FILL))
def team_row_fill(a: real, y: wp.array1d(dtype=real), first: int, last: int):
    """y ← a on [first, last)."""
    ...


@device.func_native(by_device(TEAM_SCATTER, loops.SCATTER))
def team_support_add(
    J: wp.array2d(dtype=real), support: wp.array1d(dtype=int), size: int, f: vec3, x: wp.array1d(dtype=real)
):
    """x ← x + Jᵀf of one contact."""
    ...


@device.func_native(for_lanes(SCATTER_THREE))
def team_support_add_three(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    f: vec3,
    x: wp.array1d(dtype=real),
    g: vec3,
    y: wp.array1d(dtype=real),
    h: vec3,
    z: wp.array1d(dtype=real),
):
    """x ← x + Jᵀf, y ← y + Jᵀg, z ← z + Jᵀh of one contact."""
    ...


@device.func_native(by_device(TEAM_GRAM, loops.GRAM))
def team_support_add_gram(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    G: mat33,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + JᵀGJ of one contact, lower triangle; dof d is row and column slot[d] of H."""
    ...


@device.func_native(by_device(TEAM_BLOCK_GRAM, BLOCK_GRAM))
def team_support_add_block_gram(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    G: mat33,
    dof_begin: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """The part of JᵀGJ within the diagonal blocks, H stored by blocks; `dof_begin` is the first dof of each one's."""
    ...


@device.func_native(CORNERS + by_device(TEAM_RANK_ONE, RANK_ONE))
def team_support_add_rank_one(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    p: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
    begin: int,
    end: int,
):
    """Matrix + Jᵀp eᵀJ of one contact, p in its tangent plane and e its normal, in the block [begin, end), stored as in `triangles.py`; dof d is
    row and column slot[d]."""
    ...


@device.func_native(by_device(TEAM_SPARSE_ADD, loops.SPARSE_ADD))
def team_sparse_add(
    a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, f: real, x: wp.array1d(dtype=real)
):
    """x ← x + f a."""
    ...


@device.func_native(for_lanes(SPARSE_ADD_THREE))
def team_sparse_add_three(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    f: real,
    x: wp.array1d(dtype=real),
    g: real,
    y: wp.array1d(dtype=real),
    h: real,
    z: wp.array1d(dtype=real),
):
    """x ← x + f a, y ← y + g a, z ← z + h a."""
    ...


@device.func_native(by_device(TEAM_SPARSE_GRAM.replace("a_row", "a"), loops.SPARSE_GRAM))
def team_sparse_add_gram(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    g: real,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + g a aᵀ, lower triangle; dof d is row and column slot[d] of H."""
    ...


@device.func_native(by_device(TEAM_SPARSE_BLOCK_GRAM.replace("a_row", "a"), SPARSE_BLOCK_GRAM))
def team_sparse_add_block_gram(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    g: real,
    dof_begin: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """The part of g a aᵀ within the diagonal blocks, H stored by blocks."""
    ...
