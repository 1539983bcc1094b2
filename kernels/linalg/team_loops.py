# SPDX-License-Identifier: Apache-2.0
"""The loops of `loops.py` over the support of one constraint, by all lanes of a warp.

What others wrote to the arrays before was followed by a `sync`; each of these ends with one. On the CPU they are the loops of one thread.
"""

import warp as wp

from .. import real as device
from ..real import mat33, real, vec3
from . import loops
from .lanes import by_device, called, scoped
from .loops import CONTACT, ROWS_OF_J, SPARSE_ROW
from .vector import PAIR

PAIRS = (
    PAIR
    + """
for (unsigned pair = threadIdx.x & 31; pair < size * (size + 1) / 2; pair += 32) {
    const unsigned a = row_of_pair(pair), b = pair - a * (a + 1) / 2;
    BODY
}
__syncwarp();
"""
)
CONTACT_ENTRY = """
    const auto g0 = g00 * J0[a] + g01 * J1[a] + g02 * J2[a];
    const auto g1 = g10 * J0[a] + g11 * J1[a] + g12 * J2[a];
    const auto g2 = g20 * J0[a] + g21 * J1[a] + g22 * J2[a];
    const auto entry = g0 * J0[b] + g1 * J1[b] + g2 * J2[b];
"""
ROW_ENTRY = """
    const auto entry = g * pa[a] * pa[b];
"""
IN_SLOTS = """
    const int s_a = slot[dof[a]], s_b = slot[dof[b]];
    H[s_a > s_b ? s_a * n + s_b : s_b * n + s_a] += entry;
"""
IN_BLOCKS = """
    const int begin = dof_begin[dof[a]];
    if (dof[b] >= begin) H[dof[a] * n + dof[b] - begin] += entry;
"""
TO_SLOTS = {"const int* slot": "slot.data", "SCALAR* H": "H.data", "int n": "H.shape[1]"}
TO_BLOCKS = {"const int* dof_begin": "dof_begin.data", "SCALAR* H": "H.data", "int n": "H.shape[1]"}
G_BY_ENTRIES = {f"SCALAR g{i}{j}": f"G.data[{i}][{j}]" for i in range(3) for j in range(3)}


def vector(name: str) -> dict[str, str]:
    """What a body is given of a vec3, by its entries."""
    return {f"SCALAR {name}{axis}": f"{name}.c[{axis}]" for axis in range(3)}


TEAM_GRAM = called(
    "void", CONTACT | G_BY_ENTRIES | TO_SLOTS, ROWS_OF_J + PAIRS.replace("BODY", CONTACT_ENTRY + IN_SLOTS)
)
TEAM_BLOCK_GRAM = called(
    "void", CONTACT | G_BY_ENTRIES | TO_BLOCKS, ROWS_OF_J + PAIRS.replace("BODY", CONTACT_ENTRY + IN_BLOCKS)
)
G_OF_ROW = {"SCALAR g": "g"}
TEAM_SPARSE_GRAM = called("void", SPARSE_ROW | G_OF_ROW | TO_SLOTS, PAIRS.replace("BODY", ROW_ENTRY + IN_SLOTS))
TEAM_SPARSE_BLOCK_GRAM = called("void", SPARSE_ROW | G_OF_ROW | TO_BLOCKS, PAIRS.replace("BODY", ROW_ENTRY + IN_BLOCKS))
TEAM_SCATTER = called(
    "void",
    CONTACT | vector("f") | {"SCALAR* px": "x.data"},
    ROWS_OF_J
    + """
for (int j = threadIdx.x & 31; j < size; j += 32) px[dof[j]] += J0[j] * f0 + J1[j] * f1 + J2[j] * f2;
__syncwarp();
""",
)
SCATTER_THREE = """
for (int j = LANE; j < size; j += LANES) {
    const int d = dof[j];
    px[d] += J0[j] * f0 + J1[j] * f1 + J2[j] * f2;
    py[d] += J0[j] * g0 + J1[j] * g1 + J2[j] * g2;
    pz[d] += J0[j] * h0 + J1[j] * h1 + J2[j] * h2;
}
"""
XYZ = {"SCALAR* px": "x.data", "SCALAR* py": "y.data", "SCALAR* pz": "z.data"}
TEAM_SPARSE_ADD = called(
    "void",
    SPARSE_ROW | {"SCALAR f": "f", "SCALAR* px": "x.data"},
    """
for (int j = threadIdx.x & 31; j < size; j += 32) px[dof[j]] += f * pa[j];
__syncwarp();
""",
)
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
for (int j = LANE; j < size; j += LANES) {
    const int d = dof[j];
    px[d] += f * pa[j];
    py[d] += g * pa[j];
    pz[d] += h * pa[j];
}
"""
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
TEAM_RANK_ONE = called(
    "void",
    CONTACT | {"SCALAR p0": "p.c[0]", "SCALAR p1": "p.c[1]"} | TO_SLOTS | {"SCALAR* K": "K.data"},
    ROWS_OF_J
    + """
for (int pair = threadIdx.x & 31; pair < size * size; pair += 32) {
    const int a = pair / size, b = pair - a * size;
    const int s_a = slot[dof[a]], s_b = slot[dof[b]];
    const auto entry = (p0 * J0[a] + p1 * J1[a]) * J2[b];
    if (s_a >= s_b) H[s_a * n + s_b] += entry;
    else K[s_b * n + s_a] += entry;
}
__syncwarp();
""",
)
# Rows of both have one length.
CLEAR_TRIANGLE = """
for (int k = begin; k < end; ++k)
    for (int j = begin + LANE; j <= k; j += LANES) H[k * n + j] = 0;
"""
COPY_TRIANGLE = """
for (int k = begin; k < end; ++k)
    for (int j = begin + LANE; j < k; j += LANES) K[k * n + j] = H[k * n + j];
"""
IN_TRIANGLE = {"SCALAR* H": "H.data", "int n": "H.shape[1]", "int begin": "begin", "int end": "end"}
PART = {"SCALAR* py": "y.data", "int first": "first", "int last": "last"}
TEAM_COPY = called(
    "void",
    {"const SCALAR* px": "x.data"} | PART,
    """
for (int j = first + (threadIdx.x & 31); j < last; j += 32) py[j] = px[j];
__syncwarp();
""",
)
TEAM_FILL = called(
    "void",
    {"SCALAR a": "a"} | PART,
    """
for (int j = first + (threadIdx.x & 31); j < last; j += 32) py[j] = a;
__syncwarp();
""",
)


def for_lanes(parameters: dict[str, str], body: str) -> str:
    """A body in C++ whose loops are over LANE, LANE + LANES, …"""
    gpu = body.replace("LANES", "32").replace("LANE", "(threadIdx.x & 31)") + "__syncwarp();\n"
    return by_device(
        called("void", parameters, gpu), scoped(parameters, body.replace("LANES", "1").replace("LANE", "0"))
    )


@device.func_native(for_lanes(IN_TRIANGLE, CLEAR_TRIANGLE))
def team_clear_triangle(H: wp.array2d(dtype=real), begin: int, end: int):
    """0 in the lower triangle of the block [begin, end)."""
    ...


@device.func_native(for_lanes(IN_TRIANGLE | {"SCALAR* K": "K.data"}, COPY_TRIANGLE))
def team_copy_triangle(H: wp.array2d(dtype=real), K: wp.array2d(dtype=real), begin: int, end: int):
    """K ← H in the strict lower triangle of the block [begin, end)."""
    ...


@device.func_native(by_device(TEAM_COPY, loops.COPY))
def team_row_copy(x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), first: int, last: int):
    """y ← x on [first, last)."""
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


@device.func_native(for_lanes(CONTACT | vector("f") | vector("g") | vector("h") | XYZ, ROWS_OF_J + SCATTER_THREE))
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


@device.func_native(by_device(TEAM_RANK_ONE, RANK_ONE))
def team_support_add_rank_one(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    p: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
):
    """Matrix + Jᵀp eᵀJ of one contact, p in its tangent plane and e its normal, stored as in `ldu.py`; dof d is row and column slot[d]."""
    ...


@device.func_native(by_device(TEAM_SPARSE_ADD, loops.SPARSE_ADD))
def team_sparse_add(
    a: wp.array1d(dtype=real), support: wp.array1d(dtype=int), size: int, f: real, x: wp.array1d(dtype=real)
):
    """x ← x + f a."""
    ...


@device.func_native(for_lanes(SPARSE_ROW | {"SCALAR f": "f", "SCALAR g": "g", "SCALAR h": "h"} | XYZ, SPARSE_ADD_THREE))
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


@device.func_native(by_device(TEAM_SPARSE_GRAM, loops.SPARSE_GRAM))
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


@device.func_native(by_device(TEAM_SPARSE_BLOCK_GRAM, SPARSE_BLOCK_GRAM))
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
