# SPDX-License-Identifier: Apache-2.0
"""The loops of `loops.py` over the support of one constraint, by all lanes of a world.

A `sync` must follow earlier writes to the arrays; each function ends with one. On the CPU they are loops of one thread.
"""

import warp as wp

from .. import real as device
from ..real import mat33, real, vec3
from .lanes import ALONE, by_device
from .loops import (
    CONTACT_ENTRY,
    FILL,
    GRAM,
    ROW,
    ROW_ENTRY,
    ROWS,
    SCATTER,
    SPARSE_ADD,
    SPARSE_GRAM,
    with_entry,
)
from .triangles import CORNERS
from .vector import PAIR

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
IN_SLOTS = """
    const int s_a = slot.data[dof[a]], s_b = slot.data[dof[b]];
    H.data[s_a > s_b ? s_a * H.shape[1] + s_b : s_b * H.shape[1] + s_a] += entry;
"""
IN_BLOCKS = """
    const int begin = dof_begin.data[dof[a]];
    if (dof[b] >= begin) H.data[dof[a] * H.shape[1] + dof[b] - begin] += entry;
"""
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
BY_BLOCKS = """
const int n = H.shape[1];
for (int a = 0; a < size; ++a) {
    const int begin = dof_begin.data[dof[a]];
    WEIGHTS
    auto* row = H.data + dof[a] * n - begin;
    for (int b = a; b >= 0 && dof[b] >= begin; --b) row[dof[b]] += ENTRY;
}
"""
SPARSE_ADD_THREE = (
    ROW
    + """
for (int j = lane; j < size; j += LANES) {
    const int d = dof[j];
    x.data[d] += f * pa[j];
    y.data[d] += g * pa[j];
    z.data[d] += h * pa[j];
}
"""
)
RANK_ONE = (
    ROWS
    + """
for (int a = 0; a < size; ++a) {
    const int s_a = slot.data[dof[a]] - begin;
    const auto left = p.c[0] * J0[a] + p.c[1] * J1[a];
    for (int b = 0; b < size; ++b) {
        const int s_b = slot.data[dof[b]] - begin;
        (s_a >= s_b ? lower[s_a * n + s_b] : upper[s_b * step + s_a]) += left * J2[b];
    }
}
"""
)
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
# H and its triangles have rows of one length.
CLEAR_TRIANGLE = """
for (int k = begin; k < end; ++k)
    for (int j = begin + lane; j <= k; j += LANES) H.data[k * H.shape[1] + j] = 0;
"""
COPY_TRIANGLE = """
for (int k = 0; k < end - begin; ++k)
    for (int j = (whole ? 0 : first.data[begin + k] - begin) + lane; j < k; j += LANES) \
upper[k * step + j] = lower[k * n + j];
"""


def for_lanes(body: str) -> str:
    """A C++ body whose loops are over lane, lane + LANES, …"""
    return by_device(body + "meet();\n", ALONE + body)


def for_entries(entry: tuple[str, str, str], place: str, alone: str) -> str:
    """A C++ body that adds `entry` at `place` for each pair of the support; `alone`: the body for one thread."""
    return by_device(
        with_entry(PAIRS.replace("BODY", "WEIGHTS\n    const auto entry = ENTRY;\n" + place), entry), alone
    )


@device.func_native(for_lanes(CLEAR_TRIANGLE))
def team_clear_triangle(H: wp.array2d(dtype=real), begin: int, end: int):
    """Set the lower triangle of the block [begin, end) to 0."""
    ...


@device.func_native(CORNERS + for_lanes(COPY_TRIANGLE))
def team_copy_triangle(H: wp.array2d(dtype=real), begin: int, end: int, first: wp.array1d(dtype=int), whole: bool):
    """Copy the strict lower triangle of the block [begin, end) to the upper one (`triangles.py`).

    It copies the envelope only, or the `whole` triangle.
    """
    ...


@device.func_native(for_lanes(FILL))
def team_row_fill(a: real, y: wp.array1d(dtype=real), first: int, last: int):
    """y ← a on [first, last)."""
    ...


@device.func_native(for_lanes(SCATTER))
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


@device.func_native(for_entries(CONTACT_ENTRY, IN_SLOTS, GRAM))
def team_support_add_gram(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    G: mat33,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + JᵀGJ of one contact, lower triangle; dof d has row and column slot[d] of H."""
    ...


@device.func_native(for_entries(CONTACT_ENTRY, IN_BLOCKS, with_entry(BY_BLOCKS, CONTACT_ENTRY)))
def team_support_add_block_gram(
    J: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    G: mat33,
    dof_begin: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """Add JᵀGJ inside the diagonal blocks; H is stored by blocks, `dof_begin` is the first dof of each dof's block."""
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
    """H ← H + Jᵀp eᵀJ of one contact, p in its tangent plane, e its normal; block [begin, end) as in `triangles.py`.

    Dof d has row and column slot[d].
    """
    ...


@device.func_native(for_lanes(SPARSE_ADD))
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


@device.func_native(for_entries(ROW_ENTRY, IN_SLOTS, SPARSE_GRAM))
def team_sparse_add_gram(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    g: real,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + g a aᵀ, lower triangle; dof d has row and column slot[d] of H."""
    ...


@device.func_native(for_entries(ROW_ENTRY, IN_BLOCKS, with_entry(BY_BLOCKS, ROW_ENTRY)))
def team_sparse_add_block_gram(
    a: wp.array1d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    g: real,
    dof_begin: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """Add g a aᵀ inside the diagonal blocks; H is stored by blocks."""
    ...
