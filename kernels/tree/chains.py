# SPDX-License-Identifier: Apache-2.0
"""Quantities of links passed on along the chains of a tree, by all lanes: to the children, or to the parents."""

import warp as wp

from .. import real as device
from ..linalg.lanes import by_device
from ..linalg.vector import scalar
from ..real import transform, vec6, vec10
from . import joints

# Per-link quantities are first found for all links side by side, and then passed on to the children: on the CPU in the
# order of the links; on CUDA a lane has a link, for `LANES` links at a time, and each round adds twice as many of its
# ancestors (pointer jumping, Hillis and Steele 1986).
TEAM_PASS_DOWN = """
for (int begin = first; begin < end; begin += LANES) {
    const int l = begin + lane;
    int up = -1;
    ELEMENT own;
    if (l < end) {
        own = x.data[l];
        const int p = parent.data[l];
        if (p >= begin && PASSED) up = p - begin;
        else if (p >= 0 && PASSED) own = COMBINE(x.data[p], own);
    }
    while (ballot(up >= 0)) {
        const int from = up < 0 ? lane : up, next = from_lane(up, from);
        auto above = own;
        for (int i = 0; i < static_cast<int>(sizeof(own) / sizeof(SCALAR)); ++i)
            ((SCALAR*)&above)[i] = from_lane(((const SCALAR*)&own)[i], from);
        if (up >= 0) {
            own = COMBINE(above, own);
            up = next;
        }
    }
    if (l < end) x.data[l] = own;
    meet();
}
"""
PASS_DOWN = """
for (int l = first; l < end; ++l) {
    const int p = parent.data[l];
    if (p >= 0 && PASSED) x.data[l] = COMBINE(x.data[p], x.data[l]);
}
"""
PASS_DOWN = by_device(TEAM_PASS_DOWN, PASS_DOWN).replace("SCALAR", scalar)


@device.func_native(
    PASS_DOWN.replace("PASSED", "true").replace("COMBINE", "wp::add").replace("ELEMENT", f"wp::vec_t<6, {scalar}>")
)
def team_add_parents(parent: wp.array1d(dtype=int), first: int, end: int, x: wp.array1d(dtype=vec6)):
    """x_l += x_parent, from the roots down. By all lanes. A `sync` must follow earlier writes of other lanes."""
    ...


@device.func_native(
    PASS_DOWN.replace("PASSED", f"kind.data[l] != {int(joints.FREE)}")
    .replace("COMBINE", "wp::mul")
    .replace("ELEMENT", f"wp::transform_t<{scalar}>")
)
def team_compose_parents(
    parent: wp.array1d(dtype=int), kind: wp.array1d(dtype=int), first: int, end: int, x: wp.array1d(dtype=transform)
):
    """x_l ← x_parent x_l, from the roots down, unless the joint of l is free. As `team_add_parents`."""
    ...


# Each lane handles one of the numbers, or several.
TEAM_ADD_TO_PARENTS = """
SCALAR* numbers = (SCALAR*)x.data;
for (int l = end - 1; l >= first; --l) {
    const int p = parent.data[l];
    for (int i = lane; p >= 0 && i < COUNT; i += LANES) numbers[COUNT * p + i] += numbers[COUNT * l + i];
}
meet();
"""
ADD_TO_PARENTS = """
for (int l = end - 1; l >= first; --l) {
    const int p = parent.data[l];
    if (p >= 0) x.data[p] = wp::add(x.data[p], x.data[l]);
}
"""
ADD_TO_PARENTS = by_device(TEAM_ADD_TO_PARENTS, ADD_TO_PARENTS).replace("SCALAR", scalar)


@device.func_native(ADD_TO_PARENTS.replace("COUNT", "10"))
def team_add_to_parents(parent: wp.array1d(dtype=int), first: int, end: int, x: wp.array1d(dtype=vec10)):
    """x_parent += x_l, from the last link up. By all lanes. A `sync` must follow earlier writes of other lanes."""
    ...


@device.func_native(ADD_TO_PARENTS.replace("COUNT", "6"))
def team_add_vectors_to_parents(parent: wp.array1d(dtype=int), first: int, end: int, x: wp.array1d(dtype=vec6)):
    """`team_add_to_parents` for spatial vectors."""
    ...
