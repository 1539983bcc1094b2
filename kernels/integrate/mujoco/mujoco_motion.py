# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's integrators after the contact solve, which has A = M (theory §2.1).

    v' = v0 + (M + h C)⁻¹ M (v_s − v0),   M (v_s − v0) = h (force − D v0 − bias) + M (v_s − v*)

v_s is the solution of the contact problem. All forces are explicit in it, also damping. With Euler C is D, the diagonal
of joint damping. With implicitfast it is −∂f/∂v of all forces, symmetric, plus ∂(bias)/∂v of single free bodies, which
makes it unsymmetric for them.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, sync, team_count
from ...linalg.ltdl import team_ltdl_factor_block, team_ltdl_solve_block
from ...linalg.lu import lu_factor_block, lu_solve_block, lu_solve_transposed_block
from ...linalg.vector import team_copy_lower
from ...real import func, kernel, real, struct, vec3, vec6, vec10
from ...tree import spatial as sp
from ...tree.passes import Topology


@struct
class Implicit:
    """What is implicit in v', and the factor of M + h C."""

    D: wp.array2d(dtype=real)  # (worlds, nv) diagonal of C
    C: wp.array3d(dtype=real)  # by blocks of trees, without D; may be empty
    alone: wp.array(dtype=int)  # (ntree,) 1: a single free body, for which C is unsymmetric
    factor: wp.array3d(dtype=real)
    pivot: wp.array2d(dtype=int)  # (worlds, nv) of the LU of single free bodies


@kernel
def damped_force(
    force: wp.array2d(dtype=real), D: wp.array2d(dtype=real), v0: wp.array2d(dtype=real), out: wp.array2d(dtype=real)
):
    """force − D v0. Launch over (worlds, nv)."""
    w, d = wp.tid()
    out[w, d] = force[w, d] - D[w, d] * v0[w, d]


@func
def bias_rate(I: vec10, omega: vec3, turn: vec3) -> vec6:
    """Derivative of the bias wrench (about o, at the origin of the joint) of a free body along ω̇ = `turn`.

    The bias is (ω × I ω; ω × (ω × m c)).
    """
    zero = vec3(real(0.0), real(0.0), real(0.0))
    h = vec3(I[1], I[2], I[3])
    spin = sp.angular(sp.momentum(I, sp.join(omega, zero)))
    spins = sp.angular(sp.momentum(I, sp.join(turn, zero)))
    torque = wp.cross(turn, spin) + wp.cross(omega, spins)
    return sp.join(torque, wp.cross(turn, wp.cross(omega, h)) + wp.cross(omega, wp.cross(turn, h)))


@func
def angular_velocity(
    dof_S: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real), w: int, begin: int, end: int
) -> vec3:  # fmt: skip
    """ω of the body that the dofs of a tree move."""
    omega = vec3(real(0.0), real(0.0), real(0.0))
    for d in range(begin, end):
        omega += sp.angular(dof_S[w, d]) * v[w, d]
    return omega


@kernel
def bias_damping(
    topology: Topology,
    implicit: Implicit,
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    v0: wp.array2d(dtype=real),
):
    """C += ∂(bias)/∂v of single free bodies. Launch over (worlds, nv)."""
    w, d = wp.tid()
    tree = topology.link_tree[topology.dof_link[d]]
    if implicit.alone[tree] != 0:
        begin = topology.tree_v[tree]
        end = topology.tree_v[tree + 1]
        omega = angular_velocity(dof_S, v0, w, begin, end)
        for e in range(begin, end):
            rate = bias_rate(composite[w, topology.dof_link[d]], omega, sp.angular(dof_S[w, e]))
            implicit.C[w, d, e - begin] = implicit.C[w, d, e - begin] + wp.dot(dof_S[w, d], rate)


@func
def factor_implicit(topology: Topology, h: real, M: wp.array3d(dtype=real), implicit: Implicit, w: int, tree: int):
    """Factor M + h C of a tree, by all lanes."""
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    team_copy_lower(M[w], begin, end, implicit.factor[w], begin, 0)
    sync()
    for i in range(begin + lane(), end, lanes()):
        if implicit.alone[tree] != 0:
            for k in range(i - begin + 1, end - begin):
                implicit.factor[w, i, k] = M[w, i, k]
        for k in range(wp.min(end - begin, implicit.C.shape[2])):
            if k <= i - begin or implicit.alone[tree] != 0:
                implicit.factor[w, i, k] = implicit.factor[w, i, k] + h * implicit.C[w, i, k]
        implicit.factor[w, i, i - begin] = implicit.factor[w, i, i - begin] + h * implicit.D[w, i]
    sync()
    if implicit.alone[tree] == 0:
        team_ltdl_factor_block(implicit.factor[w], begin, end)
    elif lane() == 0:
        lu_factor_block(implicit.factor[w], begin, end, implicit.pivot[w])
    sync()


@kernel(lanes=True)
def end_velocity(
    topology: Topology,
    h: real,
    implicit: Implicit,
    M: wp.array3d(dtype=real),
    force: wp.array2d(dtype=real),
    bias: wp.array2d(dtype=real),
    v0: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v_s: wp.array2d(dtype=real),
    # out
    v_end: wp.array2d(dtype=real),
):
    """v'; v_s of trees without damping. `force` contains −D v0. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    damped = wp.int32(0)
    for i in range(begin + lane(), end, lanes()):
        if implicit.D[w, i] != real(0.0) or implicit.C.shape[0] > 0:
            damped += 1
        v_end[w, i] = v_s[w, i]
    if team_count(damped) > 0:
        factor_implicit(topology, h, M, implicit, w, tree)
        for i in range(begin + lane(), end, lanes()):
            total = h * (force[w, i] - bias[w, i])
            for j in range(begin, end):
                total += M[w, i, j - begin] * (v_s[w, j] - v_star[w, j])
            v_end[w, i] = total
        sync()
        if implicit.alone[tree] == 0:
            team_ltdl_solve_block(implicit.factor[w], begin, end, v_end[w])
        elif lane() == 0:
            lu_solve_block(implicit.factor[w], begin, end, implicit.pivot[w], v_end[w])
        sync()
        for i in range(begin + lane(), end, lanes()):
            v_end[w, i] = v0[w, i] + v_end[w, i]
        sync()


@kernel(part="adjoint", lanes=True)
def factor_end(topology: Topology, h: real, M: wp.array3d(dtype=real), implicit: Implicit):
    """The factor of M + h C. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    factor_implicit(topology, h, M, implicit, w, tree)


@kernel(part="adjoint", lanes=True)
def end_adjoint(
    topology: Topology,
    implicit: Implicit,
    v_end_bar: wp.array2d(dtype=real),
    # out
    seed: wp.array2d(dtype=real),
):
    """seed = −(M + h C)⁻ᵀ v'_bar, after `factor_end`. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for i in range(begin + lane(), end, lanes()):
        seed[w, i] = -v_end_bar[w, i]
    sync()
    if implicit.alone[tree] == 0:
        team_ltdl_solve_block(implicit.factor[w], begin, end, seed[w])
    elif lane() == 0:
        lu_solve_transposed_block(implicit.factor[w], begin, end, implicit.pivot[w], seed[w])
    sync()
