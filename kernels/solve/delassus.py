# SPDX-License-Identifier: Apache-2.0
"""The contact problem of a step in the dual: W = J A⁻¹ Jᵀ and u* = J v* over the active rows (theory §4, §5).

Each step lists the active rows: three (t1, t2, n) per contact point, then the active scalar rows. W is dense and
symmetric. A⁻¹ comes from LᵀDL factors of A's tree blocks. Cost: Σ nv_tree³/6 + rows · Σ nv_tree² + rows².
"""

import warp as wp

from ..linalg.lanes import lane, lanes
from ..linalg.loops import row_axpy, row_copy, row_fill, sparse_add, sparse_dot
from ..linalg.ltdl import ltdl_factor_block, ltdl_solve_block
from ..linalg.vector import copy_lower
from ..real import SPIN, func, kernel, real, struct, vec3
from .problem import Problem
from .scratch import Scratch, matrix


@struct
class Dual:
    """The dual problem of every world; N = 3 max_contacts + scalar rows is the largest number of active rows."""

    count: wp.array(dtype=int)  # (worlds,) listed rows
    source: wp.array2d(dtype=int)  # (worlds, N) 3 c + axis of contact c, or 3 max_contacts + k of scalar row k
    trees: wp.array2d(dtype=wp.vec2i)  # (worlds, N) the at most two trees that a row moves; −1: more than two
    Y: wp.array3d(dtype=real)  # (worlds, N, nv) A⁻¹ Jᵀ, one row per active row, filled on the trees that the row moves
    W: wp.array3d(dtype=real)  # (worlds, N, N); empty where the solve keeps it in `Scratch`
    u_star: wp.array2d(dtype=real)  # (worlds, N) J v*


@kernel
def factor(problem: Problem, A_factor: wp.array3d(dtype=real)):
    """LᵀDL factor of one tree block of A. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    begin = problem.tree_v[tree]
    end = problem.tree_v[tree + 1]
    copy_lower(problem.A[w], begin, end, A_factor[w], begin, 0)
    ltdl_factor_block(A_factor[w], begin, end)


@func
def moves(problem: Problem, w: int, c: int, axis: int) -> bool:
    """Whether a spin row has a nonzero entry: contacts of condim 4 have no rolling rows."""
    total = real(0.0)
    for i in range(problem.support_size[problem.contact_pair[w, c]]):
        total += wp.abs(problem.J[w, c, axis, i])
    return total > real(0.0)


@kernel
def list_rows(problem: Problem, all_tangents: int, dual: Dual):
    """List the active rows. Tangents of contacts with μ = 0 are listed only with `all_tangents`. Launch over worlds."""
    w = wp.tid()
    slots = problem.contact_pair.shape[1]
    points = slots
    if SPIN:
        points = slots // 2
    n = int(0)
    for c in range(wp.min(problem.contacts[w], points)):
        first = int(0)
        if all_tangents == 0 and problem.mu[w, c] == real(0.0):
            first = 2
        for axis in range(first, 3):
            dual.source[w, n] = 3 * c + axis
            n += 1
    if SPIN:
        for c in range(points, points + wp.min(problem.contacts[w], points)):
            for axis in range(3):
                if problem.mu[w, c] > real(0.0) and moves(problem, w, c, axis):
                    dual.source[w, n] = 3 * c + axis
                    n += 1
    for k in range(problem.row_support.shape[0]):
        if problem.row_R[w, k] > real(0.0):
            dual.source[w, n] = 3 * slots + k
            n += 1
    dual.count[w] = n


@func
def row_dot(problem: Problem, w: int, source: int, x: wp.array1d(dtype=real)) -> real:
    """J x of one row."""
    slots = problem.contact_pair.shape[1]
    value = real(0.0)
    if source < 3 * slots:
        c = source // 3
        p = problem.contact_pair[w, c]
        value = sparse_dot(problem.J[w, c, source - 3 * c], problem.support[p], problem.support_size[p], x)
    else:
        k = source - 3 * slots
        value = sparse_dot(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], x)
    return value


@func
def row_add(problem: Problem, w: int, source: int, f: real, x: wp.array1d(dtype=real)):
    """x ← x + f Jᵀ of one row."""
    slots = problem.contact_pair.shape[1]
    if source < 3 * slots:
        c = source // 3
        p = problem.contact_pair[w, c]
        sparse_add(problem.J[w, c, source - 3 * c], problem.support[p], problem.support_size[p], f, x)
    else:
        k = source - 3 * slots
        sparse_add(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], f, x)


@func
def support_entry(problem: Problem, w: int, source: int, i: int) -> int:
    """Dof i of a row's support, −1 past its end."""
    slots = problem.contact_pair.shape[1]
    dof = int(-1)
    if source < 3 * slots:
        p = problem.contact_pair[w, source // 3]
        if i < problem.support_size[p]:
            dof = problem.support[p, i]
    else:
        k = source - 3 * slots
        if i < problem.row_support_size[k]:
            dof = problem.row_support[k, i]
    return dof


@kernel
def solve_rows(problem: Problem, A_factor: wp.array3d(dtype=real), dual: Dual):
    """Y = A⁻¹ Jᵀ and u* = J v*, one row per thread. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    source = dual.source[w, r]
    y = dual.Y[w, r]
    row_fill(real(0.0), y, 0, y.shape[0])
    row_add(problem, w, source, real(1.0), y)
    i = int(0)
    dof = support_entry(problem, w, source, 0)
    solved = int(-1)
    first = int(-1)
    count = int(0)
    while dof >= 0:
        tree = problem.dof_tree[dof]
        if tree != solved:
            ltdl_solve_block(A_factor[w], problem.tree_v[tree], problem.tree_v[tree + 1], y)
            solved = tree
            if count == 0:
                first = tree
            count += 1
        i += 1
        dof = support_entry(problem, w, source, i)
    dual.trees[w, r] = wp.where(count <= 2, wp.vec2i(first, solved), wp.vec2i(-1, -1))
    dual.u_star[w, r] = row_dot(problem, w, source, problem.v_star[w])


@func
def entry(problem: Problem, dual: Dual, w: int, r: int, s: int) -> real:
    """W_rs, r ≥ s."""
    here = dual.trees[w, r]
    there = dual.trees[w, s]
    shared = here[0] == there[0] or here[0] == there[1] or here[1] == there[0] or here[1] == there[1]
    value = real(0.0)
    if shared or here[0] < 0 or there[0] < 0:
        value = row_dot(problem, w, dual.source[w, s], dual.Y[w, r])
    return value


@func
def multiply_row(problem: Problem, dual: Dual, w: int, r: int, W: wp.array2d(dtype=real)):
    """Write one row of W = J Y up to the diagonal, and its mirror image."""
    for s in range(r + 1):
        value = entry(problem, dual, w, r, s)
        W[r, s] = value
        W[s, r] = value


@kernel
def multiply_rows(problem: Problem, dual: Dual):
    """W, one row per thread. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r < dual.count[w]:
        multiply_row(problem, dual, w, r, dual.W[w])


@kernel(lanes=True)
def multiply_turn(problem: Problem, dual: Dual, scratch: Scratch, turn: int):
    """W of the worlds with this turn: the first matrix in their scratch memory. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    if scratch.turn[w] != turn:
        return
    n = dual.count[w]
    W = matrix(scratch, w, wp.int64(0), n, n)
    for r in range(lane(), n, lanes()):
        multiply_row(problem, dual, w, r, W)


@kernel
def apply(problem: Problem, dual: Dual, impulse: wp.array2d(dtype=real), v: wp.array2d(dtype=real)):
    """v = v* + A⁻¹ Jᵀ γ from the listed impulses. Launch over worlds."""
    w = wp.tid()
    row_copy(problem.v_star[w], v[w], 0, v.shape[1])
    for r in range(dual.count[w]):
        f = impulse[w, r]
        if f != real(0.0):
            row_axpy(f, dual.Y[w, r], v[w], 0, v.shape[1])


@kernel
def scatter(
    problem: Problem,
    dual: Dual,
    impulse: wp.array2d(dtype=real),
    gamma: wp.array2d(dtype=vec3),
    row_gamma: wp.array2d(dtype=real),
):
    """Copy the listed impulses to contacts and scalar rows; all others get 0. Launch over worlds."""
    w = wp.tid()
    slots = problem.contact_pair.shape[1]
    for c in range(gamma.shape[1]):
        gamma[w, c] = vec3(real(0.0), real(0.0), real(0.0))
    for k in range(row_gamma.shape[1]):
        row_gamma[w, k] = real(0.0)
    for r in range(dual.count[w]):
        source = dual.source[w, r]
        if source < 3 * slots:
            c = source // 3
            g = gamma[w, c]
            g[source - 3 * c] = impulse[w, r]
            gamma[w, c] = g
        else:
            row_gamma[w, source - 3 * slots] = impulse[w, r]
