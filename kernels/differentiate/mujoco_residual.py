# SPDX-License-Identifier: Apache-2.0
"""The equation of v' in MuJoCo's integrators, written to be taped (theory §2.1).

r(v'; v_s, v0, q, p) = M (v' − v_s) + h C (v' − v0) = 0
"""

import warp as wp

from ..integrate.mujoco.mujoco_motion import angular_velocity, bias_rate
from ..real import func, kernel, real, vec3, vec6, vec10
from ..tree.passes import Topology


@func
def mass_times(
    topology: Topology,
    ancestor: wp.array2d(dtype=int),
    M: wp.array3d(dtype=real),
    v_from: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    d: int,
) -> real:
    """Row d of M (v − v_from), from the entries that `residual.mass_entries` writes."""
    begin = topology.dof_begin[d]
    total = real(0.0)
    for e in range(begin, topology.tree_v[topology.link_tree[topology.dof_link[d]] + 1]):
        low = wp.min(d, e) - begin
        if ancestor[wp.max(d, e), low] != 0:
            total += M[w, wp.max(d, e), low] * (v[w, e] - v_from[w, e])
    return total


@func
def damping_times(
    topology: Topology,
    C: wp.array3d(dtype=real),
    v_from: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    d: int,
) -> real:
    """Row d of C (v − v_from); 0 if C is empty."""
    begin = topology.dof_begin[d]
    total = real(0.0)
    for k in range(wp.min(C.shape[2], topology.tree_v[topology.link_tree[topology.dof_link[d]] + 1] - begin)):
        total += C[w, d, k] * (v[w, begin + k] - v_from[w, begin + k])
    return total


@kernel(taped=True)
def end_residual(
    topology: Topology,
    h: real,
    ancestor: wp.array2d(dtype=int),
    M: wp.array3d(dtype=real),
    damping: wp.array2d(dtype=real),
    C: wp.array3d(dtype=real),
    v_s: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_end: wp.array2d(dtype=real),
    # out
    r: wp.array2d(dtype=real),
):
    """r. `damping` of joints and `C` may be empty. Launch over (worlds, nv)."""
    w, d = wp.tid()
    total = mass_times(topology, ancestor, M, v_s, v_end, w, d) + h * damping_times(topology, C, v0, v_end, w, d)
    if damping.shape[0] > 0:
        total += h * damping[w % damping.shape[0], d] * (v_end[w, d] - v0[w, d])
    r[w, d] = total


@func
def tree_bias_rate(
    topology: Topology, link_I: wp.array2d(dtype=vec10), w: int, tree: int, omega: vec3, turn: vec3
) -> vec6:  # fmt: skip
    """`bias_rate` of all links of a tree that is one rigid body."""
    total = vec6()
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        total += bias_rate(link_I[w, l], omega, turn)
    return total


@kernel(taped=True)
def bias_residual(
    topology: Topology,
    h: real,
    alone: wp.array(dtype=int),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    v0: wp.array2d(dtype=real),
    v_from: wp.array2d(dtype=real),
    v_to: wp.array2d(dtype=real),
    # in and out
    r: wp.array2d(dtype=real),
):
    """r += h ∂(bias)/∂v (v_to − v_from) of single free bodies, at v0. Launch over (worlds, nv).

    C holds ∂(bias)/∂v. This adds how it depends on q and v0, with v_from = v0 and v_to = v' as constants.
    """
    w, d = wp.tid()
    tree = topology.link_tree[topology.dof_link[d]]
    if alone[tree] != 0:
        begin = topology.tree_v[tree]
        end = topology.tree_v[tree + 1]
        omega = angular_velocity(dof_S, v0, w, begin, end)
        turn = angular_velocity(dof_S, v_to, w, begin, end) - angular_velocity(dof_S, v_from, w, begin, end)
        r[w, d] += h * wp.dot(dof_S[w, d], tree_bias_rate(topology, link_I, w, tree, omega, turn))
