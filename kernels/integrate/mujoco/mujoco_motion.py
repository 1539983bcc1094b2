# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's integrators after the contact solve, which has A = M (theory §2.1).

    v' = v0 + (M + h D)⁻¹ M (v_s − v0),   M (v_s − v0) = h (force − D v0 − bias) + M (v_s − v*)

v_s is the solution of the contact problem. All forces are explicit in it, also damping.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, sync, team_count
from ...linalg.ltdl import team_ltdl_factor_block, team_ltdl_solve_block
from ...linalg.vector import team_copy_lower
from ...real import kernel, real
from ...tree.passes import Topology


@kernel
def damped_force(
    force: wp.array2d(dtype=real), D: wp.array2d(dtype=real), v0: wp.array2d(dtype=real), out: wp.array2d(dtype=real)
):
    """force − D v0. Launch over (worlds, nv)."""
    w, d = wp.tid()
    out[w, d] = force[w, d] - D[w, d] * v0[w, d]


@kernel(lanes=True)
def end_velocity(
    topology: Topology,
    h: real,
    D: wp.array2d(dtype=real),
    M: wp.array3d(dtype=real),
    force: wp.array2d(dtype=real),
    bias: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v_s: wp.array2d(dtype=real),
    # scratch
    factor: wp.array3d(dtype=real),
    # out
    v_end: wp.array2d(dtype=real),
):
    """v' with a diagonal D; v_s of trees without damping. `force` contains −D v0.

    Launch over (worlds, trees, lanes).
    """
    w, tree, _lane = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    damped = wp.int32(0)
    for i in range(begin + lane(), end, lanes()):
        if D[w, i] != real(0.0):
            damped += 1
        v_end[w, i] = v_s[w, i]
    if team_count(damped) > 0:
        team_copy_lower(M[w], begin, end, factor[w], begin, 0)
        sync()
        for i in range(begin + lane(), end, lanes()):
            factor[w, i, i - begin] = factor[w, i, i - begin] + h * D[w, i]
            total = h * (force[w, i] - bias[w, i])
            for j in range(begin, end):
                total += M[w, i, j - begin] * (v_s[w, j] - v_star[w, j])
            v_end[w, i] = total
        sync()
        team_ltdl_factor_block(factor[w], begin, end)
        team_ltdl_solve_block(factor[w], begin, end, v_end[w])
        for i in range(begin + lane(), end, lanes()):
            v_end[w, i] = v0[w, i] + v_end[w, i]
        sync()
