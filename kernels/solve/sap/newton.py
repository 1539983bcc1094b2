# SPDX-License-Identifier: Apache-2.0
"""The Newton system H x = b of one island, H = A + JᵀGJ, G given per constraint (theory §3.4).

Direct: H in rows of an envelope, trees in the order of `islands.py`, factored as LᵀDL. Iterative (`BY_CG`, separate
kernel copies): conjugate gradients without forming H, preconditioned by the factors of H's tree blocks; memory and work
per iteration are linear in the size of the scene.

All lanes call these functions together (`linalg/lanes.py`); each lane handles some of an island's dofs, contacts and
rows. Functions marked "by one lane" are the exception. Each function that writes ends with a `sync`.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, pace, sync, team_sum
from ...linalg.loops import row_dot_at, sparse_dot, support_rate
from ...linalg.ltdl import (
    team_ltdl_factor_block,
    team_ltdl_factor_envelope,
    team_ltdl_solve_block,
    team_ltdl_solve_envelope,
)
from ...linalg.team_loops import (
    team_clear_triangle,
    team_row_fill,
    team_sparse_add,
    team_sparse_add_block_gram,
    team_sparse_add_gram,
    team_support_add,
)
from ...linalg.vector import team_block_times, team_copy_lower
from ...real import BY_CG, LANES, func, mat33, real, struct, vec3
from ..problem import Problem
from .contact_laws import acts, add_block_gram, add_gram, coupled_force
from .islands import Islands

CG_TRIALS_PER_DOF = 4  # rounding can cost CG more iterations than there are dofs
CG_TRIALS = 20
WHOLE_ROWS = wp.constant(LANES)


@struct
class Newton:
    H: wp.array3d(dtype=real)  # (worlds, nv, nv) lower triangle in slots, then its LᵀDL factor; empty with CG
    first: wp.array2d(dtype=int)  # (worlds, nv) first held entry of each row of H
    x: wp.array2d(dtype=real)  # (worlds, nv) right-hand side and solution in slots; CG: the solution
    P: wp.array3d(dtype=real)  # (worlds, nv, B) CG: factors of the tree blocks of H
    residual: wp.array2d(dtype=real)  # (worlds, nv) CG, and the three below
    z: wp.array2d(dtype=real)
    direction: wp.array2d(dtype=real)
    product: wp.array2d(dtype=real)
    G: wp.array2d(dtype=mat33)  # (worlds, C), see `contact_laws.py`
    row_G: wp.array2d(dtype=real)  # (worlds, K)


@struct
class Range:
    """One island's positions in the lists of `Islands`, and its rows of H."""

    island: int
    tree_begin: int
    tree_end: int
    contact_begin: int
    contact_end: int
    row_begin: int
    row_end: int
    slot_begin: int
    slot_end: int


@func
def island_range(islands: Islands, w: int, k: int) -> Range:
    r = Range()
    r.island = k
    r.tree_begin = islands.tree_end[w, k]
    r.tree_end = islands.tree_end[w, k + 1]
    r.contact_begin = islands.contact_end[w, k]
    r.contact_end = islands.contact_end[w, k + 1]
    r.row_begin = islands.row_end[w, k]
    r.row_end = islands.row_end[w, k + 1]
    r.slot_begin = islands.slot_end[w, k]
    r.slot_end = islands.slot_end[w, k + 1]
    return r


@func
def row_rate(problem: Problem, v: wp.array1d(dtype=real), w: int, k: int) -> real:
    """J v of a scalar row. By one lane."""
    return sparse_dot(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], v)


@func
def copy_dofs(islands: Islands, w: int, r: Range, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)):
    """y ← x on the dofs of the island."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = islands.dof[w, at]
        y[i] = x[i]
    sync()


@func
def multiply_A(
    problem: Problem, islands: Islands, w: int, r: Range, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)
):
    """y ← A x on the dofs of the island; x and y are different rows."""
    if lanes() == 1 or r.tree_end - r.tree_begin == 1:
        for at in range(r.tree_begin, r.tree_end):
            tree = islands.tree[w, at]
            team_block_times(problem.A[w], problem.tree_v[tree], problem.tree_v[tree + 1], x, y)
    else:  # one row per lane
        for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
            i = islands.dof[w, at]
            begin = problem.dof_begin[i]
            y[i] = row_dot_at(problem.A[w, i], problem.tree_v[problem.dof_tree[i] + 1] - begin, x, begin)
        sync()


@func
def constraint_rates(
    problem: Problem, islands: Islands, w: int, r: Range, x: wp.array1d(dtype=real),
    v_c: wp.array1d(dtype=vec3), row_v_c: wp.array1d(dtype=real),
):  # fmt: skip
    """v_c ← J x for every active constraint of the island."""
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = islands.contact[w, at]
        pair = problem.contact_pair[w, c]
        v_c[c] = support_rate(problem.J[w, c], problem.support[pair], problem.support_size[pair], x)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = islands.row[w, at]
        row_v_c[k] = sparse_dot(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], x)
    sync()


@func
def is_whole(r: Range) -> bool:
    """Whether the island's rows are stored in full, zeros included: small islands on a GPU (`linalg/ltdl.py`)."""
    return lanes() > 1 and r.slot_end - r.slot_begin <= WHOLE_ROWS


@func
def widen(problem: Problem, newton: Newton, islands: Islands, w: int, support: wp.array1d(dtype=int), size: int):
    """Widen the envelope to hold the rows of a constraint that joins trees."""
    if problem.dof_begin[support[0]] != problem.dof_begin[support[size - 1]]:
        lowest = islands.slot[w, support[0]]
        for a in range(1, size):
            lowest = wp.min(lowest, islands.slot[w, support[a]])
        for a in range(size):
            s = islands.slot[w, support[a]]
            first = newton.first[w, s]
            if lowest < first:
                team_row_fill(real(0.0), newton.H[w, s], lowest, first)
                newton.first[w, s] = lowest
        sync()


@func
def assemble(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range):
    """Assemble the lower triangle of H."""
    H = newton.H[w]
    whole = is_whole(r)
    if whole and r.tree_end - r.tree_begin > 1:
        team_clear_triangle(H, r.slot_begin, r.slot_end)
    for at in range(r.tree_begin, r.tree_end):
        tree = islands.tree[w, at]
        begin = problem.tree_v[tree]
        end = problem.tree_v[tree + 1]
        s = islands.slot[w, begin]
        team_copy_lower(problem.A[w], begin, end, H, s, s)
        if not whole:
            for i in range(s + lane(), s + end - begin, lanes()):
                newton.first[w, i] = s
    sync()
    for at in range(r.contact_begin, r.contact_end):
        c = islands.contact[w, at]
        if acts(problem, newton.G[w], c):
            if not whole:
                pair = problem.contact_pair[w, c]
                widen(problem, newton, islands, w, problem.support[pair], problem.support_size[pair])
            add_gram(problem, newton.G[w], w, c, islands.slot[w], H)
    for at in range(r.row_begin, r.row_end):
        k = islands.row[w, at]
        G_k = newton.row_G[w, k]
        if G_k != real(0.0):
            support = problem.row_support[k]
            size = problem.row_support_size[k]
            if not whole:
                widen(problem, newton, islands, w, support, size)
            team_sparse_add_gram(problem.row_J[w, k], support, size, G_k, islands.slot[w], H)


@func
def prepare_preconditioner(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range) -> int:
    """Factor the tree blocks of H; return 0, or a positive number if a block is not positive definite."""
    P = newton.P[w]
    for at in range(r.tree_begin, r.tree_end):
        tree = islands.tree[w, at]
        begin = problem.tree_v[tree]
        team_copy_lower(problem.A[w], begin, problem.tree_v[tree + 1], P, begin, 0)
    for at in range(r.contact_begin, r.contact_end):
        add_block_gram(problem, newton.G[w], w, islands.contact[w, at], P)
    for at in range(r.row_begin, r.row_end):
        k = islands.row[w, at]
        team_sparse_add_block_gram(
            problem.row_J[w, k],
            problem.row_support[k],
            problem.row_support_size[k],
            newton.row_G[w, k],
            problem.dof_begin,
            P,
        )
    failed = wp.int32(0)
    for at in range(r.tree_begin, r.tree_end):
        tree = islands.tree[w, at]
        failed = wp.max(failed, team_ltdl_factor_block(P, problem.tree_v[tree], problem.tree_v[tree + 1]))
    return failed


@func
def prepare(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range) -> int:
    """Factor H, or CG's preconditioner, from G; return 0 if it is positive definite and finite."""
    failed = wp.int32(0)
    if BY_CG:
        failed = prepare_preconditioner(problem, newton, islands, w, r)
    else:
        assemble(problem, newton, islands, w, r)
        pace()
        failed = team_ltdl_factor_envelope(newton.H[w], r.slot_begin, r.slot_end, newton.first[w])
    return failed


@func
def multiply(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range):
    """product ← H direction."""
    x = newton.direction[w]
    y = newton.product[w]
    multiply_A(problem, islands, w, r, x, y)
    for at in range(r.contact_begin, r.contact_end):
        c = islands.contact[w, at]
        pair = problem.contact_pair[w, c]
        support = problem.support[pair]
        size = problem.support_size[pair]
        f = coupled_force(problem, newton.G[w], x, support_rate(problem.J[w, c], support, size, x), w, c)
        team_support_add(problem.J[w, c], support, size, f, y)
    for at in range(r.row_begin, r.row_end):
        k = islands.row[w, at]
        support = problem.row_support[k]
        size = problem.row_support_size[k]
        f_k = newton.row_G[w, k] * sparse_dot(problem.row_J[w, k], support, size, x)
        team_sparse_add(problem.row_J[w, k], support, size, f_k, y)


@func
def precondition(problem: Problem, newton: Newton, islands: Islands, w: int, r: Range) -> real:
    """z ← P⁻¹ residual; return residualᵀ z."""
    z = newton.z[w]
    copy_dofs(islands, w, r, newton.residual[w], z)
    for at in range(r.tree_begin, r.tree_end):
        tree = islands.tree[w, at]
        team_ltdl_solve_block(newton.P[w], problem.tree_v[tree], problem.tree_v[tree + 1], z)
    product = real(0.0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = islands.dof[w, at]
        product += z[i] * newton.residual[w, i]
    return team_sum(product)


@func
def conjugate_gradients(
    problem: Problem, newton: Newton, islands: Islands, w: int, r: Range, forcing: real, b: wp.array1d(dtype=real)
):
    """b ← H⁻¹ b, until the residual is `forcing` times the first one in the norm of P⁻¹."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = islands.dof[w, at]
        newton.residual[w, i] = b[i]
        newton.direction[w, i] = real(0.0)
        b[i] = real(0.0)
    sync()
    rz = precondition(problem, newton, islands, w, r)
    target = forcing * forcing * rz
    beta = real(0.0)
    trials = wp.int32(CG_TRIALS) + CG_TRIALS_PER_DOF * (r.slot_end - r.slot_begin)
    while rz > target and trials > 0:
        for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
            i = islands.dof[w, at]
            newton.direction[w, i] = newton.z[w, i] + beta * newton.direction[w, i]
        sync()
        multiply(problem, newton, islands, w, r)
        curvature = real(0.0)
        for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
            i = islands.dof[w, at]
            curvature += newton.direction[w, i] * newton.product[w, i]
        alpha = rz / team_sum(curvature)
        for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
            i = islands.dof[w, at]
            b[i] = b[i] + alpha * newton.direction[w, i]
            newton.residual[w, i] = newton.residual[w, i] - alpha * newton.product[w, i]
        before = rz
        rz = precondition(problem, newton, islands, w, r)
        beta = rz / before
        trials -= 1


@func
def to_slots(islands: Islands, w: int, r: Range, b: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x ← b, in the order of the rows of H."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        x[at] = b[islands.dof[w, at]]
    sync()


@func
def from_slots(islands: Islands, w: int, r: Range, x: wp.array1d(dtype=real), b: wp.array1d(dtype=real)):
    """b ← x, in the order of dofs."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        b[islands.dof[w, at]] = x[at]
    sync()


@func
def solve_prepared(
    problem: Problem,
    newton: Newton,
    islands: Islands,
    w: int,
    r: Range,
    forcing: real,
    b: wp.array1d(dtype=real),
):
    """b ← H⁻¹ b after `prepare`; `forcing` is CG's relative tolerance."""
    if BY_CG:
        conjugate_gradients(problem, newton, islands, w, r, forcing, b)
    else:
        to_slots(islands, w, r, b, newton.x[w])
        team_ltdl_solve_envelope(newton.H[w], r.slot_begin, r.slot_end, newton.first[w], newton.x[w])
        from_slots(islands, w, r, newton.x[w], b)
