# SPDX-License-Identifier: Apache-2.0
"""The norm of the gradient of MuJoCo's cost at a solution, in MuJoCo's own scale (theory §3.8), and Jᵀγ/h."""

import warp as wp

from ..linalg.loops import sparse_add, support_add
from ..real import func, kernel, real
from .problem import Problem, Solution


@func
def change_of_momentum(problem: Problem, solution: Solution, w: int, i: int) -> real:
    """Entry i of A (v − v*)."""
    begin = problem.dof_begin[i]
    total = real(0.0)
    for j in range(begin, problem.tree_v[problem.dof_tree[i] + 1]):
        total += problem.A[w, i, j - begin] * (solution.v[w, j] - problem.v_star[w, j])
    return total


@kernel
def constraint_force(problem: Problem, solution: Solution, h: real, force: wp.array2d(dtype=real)):
    """A (v − v*)/h, which is Jᵀγ/h at a solution. Launch over (worlds, nv)."""
    w, i = wp.tid()
    force[w, i] = change_of_momentum(problem, solution, w, i) / h


@kernel
def gradient_norm(
    problem: Problem,
    solution: Solution,
    points: int,
    scale: real,
    # scratch
    r: wp.array2d(dtype=real),
    # out
    norm: wp.array(dtype=real),
):
    """`scale` ‖A (v − v*) − Jᵀγ‖. `points`: contact slots without those of spin rows. Launch over worlds."""
    w = wp.tid()
    for i in range(r.shape[1]):
        r[w, i] = change_of_momentum(problem, solution, w, i)
    for slot in range(solution.gamma.shape[1]):
        if slot % points < problem.contacts[w]:
            pair = problem.contact_pair[w, slot]
            f = -solution.gamma[w, slot]
            support_add(problem.J[w, slot], problem.support[pair], problem.support_size[pair], f, r[w])
    for k in range(solution.row_gamma.shape[1]):
        if problem.row_R[w, k] > real(0.0):
            f_k = -solution.row_gamma[w, k]
            sparse_add(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], f_k, r[w])
    square = real(0.0)
    for i in range(r.shape[1]):
        square += r[w, i] * r[w, i]
    norm[w] = scale * wp.sqrt(square)
