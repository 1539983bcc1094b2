# SPDX-License-Identifier: Apache-2.0
"""What the two halves of a contact with spin rows add to a matrix: Jᵀ l rᵀ K and its transpose, J and K on one support (`team_loops.py`).

By all lanes of a warp; each ends with a `sync`. On the CPU they are the loops of one thread.
"""

import warp as wp

from .. import real as device
from ..real import real, vec3
from .lanes import by_device, called, scoped
from .loops import CONTACT, ROWS_OF_J
from .team_loops import IN_BLOCKS, IN_SLOTS, PAIRS, TO_BLOCKS, TO_SLOTS, vector

ROWS = (
    ROWS_OF_J
    + """
const auto* K1 = K0 + width;
const auto* K2 = K1 + width;
"""
)
BOTH = CONTACT | {"const SCALAR* K0": "K.data"} | vector("l")
ENTRY = """
    const auto left_a = l0 * J0[a] + l1 * J1[a] + l2 * J2[a];
    const auto left_b = l0 * J0[b] + l1 * J1[b] + l2 * J2[b];
    const auto right_a = r0 * K0[a] + r1 * K1[a] + r2 * K2[a];
    const auto right_b = r0 * K0[b] + r1 * K1[b] + r2 * K2[b];
    const auto entry = left_a * right_b + right_a * left_b;
"""
CPU_PAIRS = """
for (int a = 0; a < size; ++a)
for (int b = 0; b <= a; ++b) {
    BODY
}
"""
ONE_SIDED = """
    const int s_a = slot[dof[a]], s_b = slot[dof[b]];
    const auto entry = (l0 * J0[a] + l1 * J1[a] + l2 * J2[a]) * K2[b];
    if (s_a >= s_b) H[s_a * n + s_b] += entry;
    else U[s_b * n + s_a] += entry;
"""
TEAM_SQUARE = """
for (int pair = threadIdx.x & 31; pair < size * size; pair += 32) {
    const int a = pair / size, b = pair - a * size;
    BODY
}
__syncwarp();
"""
CPU_SQUARE = """
for (int a = 0; a < size; ++a)
for (int b = 0; b < size; ++b) {
    BODY
}
"""


def for_pairs(parameters: dict[str, str], body: str, gpu: str = PAIRS, cpu: str = CPU_PAIRS) -> str:
    """A body for every pair of entries of the support."""
    parameters = BOTH | parameters
    on_gpu = called("void", parameters, ROWS + gpu.replace("BODY", body))
    return by_device(on_gpu, scoped(parameters, ROWS + cpu.replace("BODY", body)))


@device.func_native(for_pairs(vector("r") | TO_SLOTS, ENTRY + IN_SLOTS))
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
    """H ← H + Jᵀ l rᵀ K + its transpose, lower triangle; dof d is row and column slot[d] of H."""
    ...


@device.func_native(for_pairs(vector("r") | TO_BLOCKS, ENTRY + IN_BLOCKS))
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
    """The part of Jᵀ l rᵀ K + its transpose within the diagonal blocks, H stored by blocks."""
    ...


@device.func_native(for_pairs(TO_SLOTS | {"SCALAR* U": "U.data"}, ONE_SIDED, TEAM_SQUARE, CPU_SQUARE))
def team_support_add_cross_rank_one(
    J: wp.array2d(dtype=real),
    K: wp.array2d(dtype=real),
    support: wp.array1d(dtype=int),
    size: int,
    l: vec3,
    slot: wp.array1d(dtype=int),
    H: wp.array2d(dtype=real),
    U: wp.array2d(dtype=real),
):
    """Matrix + Jᵀ l eᵀ K, e the last row of K, stored as in `ldu.py`; dof d is row and column slot[d]."""
    ...
