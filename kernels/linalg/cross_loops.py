# SPDX-License-Identifier: Apache-2.0
"""Cross terms of a contact and its spin rows in a matrix: Jᵀ l rᵀ K and its transpose, J and K on one support.

As in `team_loops.py`, all lanes of a world call these functions, and each ends with a `sync`. On the CPU they are the
loops of one thread.
"""

import warp as wp

from .. import real as device
from ..real import real, vec3
from .lanes import by_device
from .loops import ROWS
from .team_loops import IN_BLOCKS, IN_SLOTS, PAIRS
from .triangles import CORNERS

SPIN_ROWS = """
const auto* K0 = K.data;
const auto* K1 = K0 + K.shape[1];
const auto* K2 = K1 + K.shape[1];
"""
ENTRY = """
    const auto left_a = l.c[0] * J0[a] + l.c[1] * J1[a] + l.c[2] * J2[a];
    const auto left_b = l.c[0] * J0[b] + l.c[1] * J1[b] + l.c[2] * J2[b];
    const auto right_a = r.c[0] * K0[a] + r.c[1] * K1[a] + r.c[2] * K2[a];
    const auto right_b = r.c[0] * K0[b] + r.c[1] * K1[b] + r.c[2] * K2[b];
    const auto entry = left_a * right_b + right_a * left_b;
"""
CPU_PAIRS = """
for (int a = 0; a < size; ++a)
for (int b = 0; b <= a; ++b) {
    BODY
}
"""
ONE_SIDED = """
    const int s_a = slot.data[dof[a]] - begin, s_b = slot.data[dof[b]] - begin;
    const auto entry = (l.c[0] * J0[a] + l.c[1] * J1[a] + l.c[2] * J2[a]) * K2[b];
    (s_a >= s_b ? lower[s_a * n + s_b] : upper[s_b * step + s_a]) += entry;
"""
TEAM_SQUARE = """
for (int pair = lane; pair < size * size; pair += LANES) {
    const int a = pair / size, b = pair - a * size;
    BODY
}
meet();
"""
CPU_SQUARE = """
for (int a = 0; a < size; ++a)
for (int b = 0; b < size; ++b) {
    BODY
}
"""


def for_pairs(body: str, gpu: str = PAIRS, cpu: str = CPU_PAIRS) -> str:
    """C++ that runs `body` for every pair of entries of the support."""
    return ROWS + SPIN_ROWS + by_device(gpu.replace("BODY", body), cpu.replace("BODY", body))


@device.func_native(for_pairs(ENTRY + IN_SLOTS))
def team_support_add_cross(
    J: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    l: vec3,
    r: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """H ← H + Jᵀ l rᵀ K + its transpose, lower triangle; dof d has row and column slot[d] of H."""
    ...


@device.func_native(for_pairs(ENTRY + IN_BLOCKS))
def team_support_add_block_cross(
    J: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    l: vec3,
    r: vec3,
    dof_begin: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
):
    """Add Jᵀ l rᵀ K + its transpose inside the diagonal blocks; H is stored by blocks."""
    ...


@device.func_native(CORNERS + for_pairs(ONE_SIDED, TEAM_SQUARE, CPU_SQUARE))
def team_support_add_cross_rank_one(
    J: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    l: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
    begin: int,
    end: int,
):
    """H ← H + Jᵀ l eᵀ K with e the last row of K, in the block [begin, end) stored as in `triangles.py`.

    Dof d has row and column slot[d].
    """
    ...
