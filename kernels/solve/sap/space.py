# SPDX-License-Identifier: Apache-2.0
"""Islands of few constraint rows in the space of these rows (theory §3.6).

    v = v* + A⁻¹Jᵀγ,   u = J v = b + W γ,   b = J v*,   W = J A⁻¹Jᵀ

Rows are numbered in sequence: three per contact, then the scalar rows. `take_space` loads an island once; an iteration
then carries γ and u; `give_space` computes v and the certificate. On CUDA a lane has one row and one dof, and the
numbers are in shared memory (`linalg/row_space.py`).

All lanes call every function together unless its docstring says otherwise (`linalg/lanes.py`).
"""

import warp as wp

from ... import real as device
from ...linalg.lanes import WORLD, WORLDS, by_device, lane, lanes, sync, team_number, team_sum_3
from ...linalg.row_space import (
    ALONE,
    ALONE_DOFS,
    ALONE_ROWS,
    DOFS,
    NUMBERS,
    PLACES,
    ROWS,
    STRIDE,
    team_space_clear,
    team_space_forces,
    team_space_gram,
    team_space_half,
    team_space_place,
    team_space_place_one,
    team_space_rates,
    team_space_solve,
    team_space_times_A,
)
from ...linalg.vector import scalar, team_fetch
from ...real import BY_CG, SHAPED, SPIN, func, mat33, real, struct, vec3, vec4
from ..problem import Problem, Solution
from .newton import Range
from .sap import Workspace

SHARED = f"""
__shared__ alignas(16) {scalar} entries[{WORLDS * NUMBERS}];
return wp::array_t<{scalar}>(entries + {WORLD} * {NUMBERS}, {NUMBERS});
"""
VIEW = "return wp::array_t<TYPE>((TYPE*)(all.data + AT), count);"
MATRIX = f"wp::mat_t<3, 3, {scalar}>"


@struct
class Space:
    """An island in the space of its rows; arrays have an entry per row or, where marked, per dof.

    Each of its trees has dofs: constraints join it to the others.
    """

    n: int  # rows: 3 contacts + scalars
    contacts: int
    scalars: int
    dofs: int
    x: wp.array1d(dtype=real)  # all numbers
    b: wp.array1d(dtype=real)  # J v*
    u: wp.array1d(dtype=real)  # J v
    gamma: wp.array1d(dtype=real)
    dgamma: wp.array1d(dtype=real)  # the Newton step
    before: wp.array1d(dtype=real)  # scratch
    miss: wp.array1d(dtype=real)
    delta: wp.array1d(dtype=real)
    R: wp.array1d(dtype=real)
    v_hat: wp.array1d(dtype=real)
    mu: wp.array1d(dtype=real)  # of a contact in its first row
    lower: wp.array1d(dtype=real)  # of scalar rows
    upper: wp.array1d(dtype=real)
    rho: wp.array1d(dtype=real)  # for Coulomb's law, as the next two; of a contact in its first row
    load: wp.array1d(dtype=real)
    least: wp.array1d(dtype=real)
    v_star: wp.array1d(dtype=real)  # per dof, as the arrays down to m
    p_star: wp.array1d(dtype=real)  # A v*
    D_sq: wp.array1d(dtype=real)  # 1/diag(A)
    j_c: wp.array1d(dtype=real)  # Jᵀγ = A (v − v*)
    j_miss: wp.array1d(dtype=real)  # Jᵀmiss
    dv: wp.array1d(dtype=real)  # v − v*
    m: wp.array1d(dtype=real)  # A (v − v*)
    G: wp.array1d(dtype=real)  # three numbers per row: a 3 × 3 block per contact, one number per scalar row
    block: wp.array1d(dtype=mat33)  # the same by contacts
    W: wp.array1d(dtype=real)  # W_ij is W[i wide + j]
    wide: int


@device.func_native(by_device(SHARED, "return all;"))
def numbers_of(all: wp.array1d(dtype=real)) -> wp.array1d(dtype=real):
    """This world's numbers: in shared memory, in blocks of one warp, or `all`."""
    ...


@device.func_native(by_device(VIEW.replace("AT", "at"), VIEW.replace("AT", "alone")).replace("TYPE", scalar))
def part(all: wp.array1d(dtype=real), at: int, alone: int, count: int) -> wp.array1d(dtype=real):
    """View of `count` numbers from index `at` on CUDA, `alone` on the CPU."""
    ...


@device.func_native(by_device(VIEW.replace("AT", "at"), VIEW.replace("AT", "alone")).replace("TYPE", MATRIX))
def blocks_part(all: wp.array1d(dtype=real), at: int, alone: int, count: int) -> wp.array1d(dtype=mat33):
    """View as matrices."""
    ...


@device.func_native(by_device(f"return {STRIDE};", f"return {ALONE_ROWS};"))
def row_length() -> int:
    """Numbers from a row of W to the next."""
    ...


@device.func_native(by_device(f"return {DOFS};", f"return {ALONE_DOFS};"))
def most_dofs() -> int:
    """Largest number of dofs of an island in the space of its rows."""
    ...


@func
def space_island(work: Workspace, w: int, r: Range) -> Space:
    """Views of an island's numbers."""
    s = Space()
    s.contacts = r.contact_end - r.contact_begin
    s.scalars = r.row_end - r.row_begin
    s.n = 3 * s.contacts + s.scalars
    s.dofs = r.slot_end - r.slot_begin
    s.x = numbers_of(work.space[w])
    s.b = part(s.x, wp.static(PLACES["b"]), wp.static(ALONE["b"]), ALONE_ROWS)
    s.u = part(s.x, wp.static(PLACES["u"]), wp.static(ALONE["u"]), ALONE_ROWS)
    s.gamma = part(s.x, wp.static(PLACES["gamma"]), wp.static(ALONE["gamma"]), ALONE_ROWS)
    s.dgamma = part(s.x, wp.static(PLACES["dgamma"]), wp.static(ALONE["dgamma"]), ALONE_ROWS)
    s.before = part(s.x, wp.static(PLACES["before"]), wp.static(ALONE["before"]), ALONE_ROWS)
    s.miss = part(s.x, wp.static(PLACES["miss"]), wp.static(ALONE["miss"]), ALONE_ROWS)
    s.delta = part(s.x, wp.static(PLACES["delta"]), wp.static(ALONE["delta"]), ALONE_ROWS)
    s.R = part(s.x, wp.static(PLACES["R"]), wp.static(ALONE["R"]), ALONE_ROWS)
    s.v_hat = part(s.x, wp.static(PLACES["v_hat"]), wp.static(ALONE["v_hat"]), ALONE_ROWS)
    s.mu = part(s.x, wp.static(PLACES["mu"]), wp.static(ALONE["mu"]), ALONE_ROWS)
    s.lower = part(s.x, wp.static(PLACES["lower"]), wp.static(ALONE["lower"]), ALONE_ROWS)
    s.upper = part(s.x, wp.static(PLACES["upper"]), wp.static(ALONE["upper"]), ALONE_ROWS)
    s.rho = part(s.x, wp.static(PLACES["rho"]), wp.static(ALONE["rho"]), ALONE_ROWS)
    s.load = part(s.x, wp.static(PLACES["load"]), wp.static(ALONE["load"]), ALONE_ROWS)
    s.least = part(s.x, wp.static(PLACES["least"]), wp.static(ALONE["least"]), ALONE_ROWS)
    s.v_star = part(s.x, wp.static(PLACES["v_star"]), wp.static(ALONE["v_star"]), ALONE_DOFS)
    s.p_star = part(s.x, wp.static(PLACES["p_star"]), wp.static(ALONE["p_star"]), ALONE_DOFS)
    s.D_sq = part(s.x, wp.static(PLACES["D_sq"]), wp.static(ALONE["D_sq"]), ALONE_DOFS)
    s.j_c = part(s.x, wp.static(PLACES["j_c"]), wp.static(ALONE["j_c"]), ALONE_DOFS)
    s.j_miss = part(s.x, wp.static(PLACES["j_miss"]), wp.static(ALONE["j_miss"]), ALONE_DOFS)
    s.dv = part(s.x, wp.static(PLACES["dv"]), wp.static(ALONE["dv"]), ALONE_DOFS)
    s.m = part(s.x, wp.static(PLACES["m"]), wp.static(ALONE["m"]), ALONE_DOFS)
    s.G = part(s.x, wp.static(PLACES["G"]), wp.static(ALONE["G"]), 3 * ALONE_ROWS)
    s.block = blocks_part(s.x, wp.static(PLACES["G"]), wp.static(ALONE["G"]), ALONE_ROWS)
    s.W = part(s.x, wp.static(PLACES["W"]), wp.static(ALONE["W"]), ALONE_ROWS * STRIDE)
    s.wide = row_length()
    return s


@func
def is_in_space(problem: Problem, r: Range) -> bool:
    """Whether an island is solved in the space of its rows: it has few, and the factor of A is there."""
    rows = 3 * (r.contact_end - r.contact_begin) + r.row_end - r.row_begin
    fits = rows <= ROWS and r.slot_end - r.slot_begin <= most_dofs() and problem.A_factor.shape[0] > 0
    if SPIN or BY_CG:
        fits = bool(False)
    return fits


@func
def triple(x: wp.array1d(dtype=real), c: int) -> vec3:
    """The entries of contact c. By one lane."""
    return vec3(x[3 * c], x[3 * c + 1], x[3 * c + 2])


@func
def set_triple(x: wp.array1d(dtype=real), c: int, value: vec3):
    """Set the entries of contact c. By one lane."""
    x[3 * c] = value[0]
    x[3 * c + 1] = value[1]
    x[3 * c + 2] = value[2]


@func
def tree_column(problem: Problem, work: Workspace, w: int, r: Range, tree: int) -> int:
    """Index of a tree's first dof among those of the island. By one lane."""
    return work.islands.slot[w, problem.tree_v[tree]] - r.slot_begin


@func
def multiply_space(
    problem: Problem, work: Workspace, w: int, r: Range, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)
):
    """y = A x, in the order of the island's dofs."""
    for at in range(r.tree_begin, r.tree_end):
        tree = work.islands.tree[w, at]
        column = tree_column(problem, work, w, r, tree)
        team_space_times_A(problem.A[w], problem.tree_v[tree], problem.tree_v[tree + 1], column, x, y)


@func
def take_dofs(problem: Problem, work: Workspace, s: Space, w: int, r: Range):
    """Load v*, A v* and D² of the island."""
    for i in range(lane(), s.dofs, lanes()):
        d = work.islands.dof[w, r.slot_begin + i]
        s.v_star[i] = problem.v_star[w, d]
        s.D_sq[i] = real(1.0) / problem.A[w, d, d - problem.dof_begin[d]]
    sync()
    multiply_space(problem, work, w, r, s.v_star, s.p_star)


@func
def take_rows(problem: Problem, work: Workspace, s: Space, w: int, r: Range):
    """Load J, R, v̂, μ and bounds."""
    slot = work.islands.slot[w]
    for first in range(0, s.contacts, lanes()):
        at = wp.int32(0)
        pair = wp.int32(0)
        size = wp.int32(0)
        if first + lane() < s.contacts:
            at = work.islands.contact[w, r.contact_begin + first + lane()]
            pair = problem.contact_pair[w, at]
            size = problem.support_size[pair]
        for of in range(wp.min(lanes(), s.contacts - first)):
            support = problem.support[team_number(pair, of)]
            J = problem.J[w, team_number(at, of)]
            turn = vec4(real(1.0), real(0.0), real(0.0), real(1.0))
            if SHAPED:
                turn = problem.basis[w, team_number(at, of)]
            row = 3 * (first + of)
            team_space_place(J, support, team_number(size, of), slot, r.slot_begin, row, turn, s.dofs, s.x)
    for k in range(s.scalars):
        at = work.islands.row[w, r.row_begin + k]
        team_space_place_one(
            problem.row_J[w, at], problem.row_support[at], problem.row_support_size[at], slot, r.slot_begin,
            3 * s.contacts + k, s.dofs, s.x,
        )  # fmt: skip
    for k in range(lane(), s.contacts, lanes()):
        c = work.islands.contact[w, r.contact_begin + k]
        set_triple(s.R, k, problem.R[w, c])
        set_triple(s.v_hat, k, problem.v_hat[w, c])
        s.mu[3 * k] = problem.mu[w, c]
    for k in range(lane(), s.scalars, lanes()):
        at = work.islands.row[w, r.row_begin + k]
        row = 3 * s.contacts + k
        s.R[row] = problem.row_R[w, at]
        s.v_hat[row] = problem.row_v_hat[w, at]
        s.lower[row] = problem.row_lower[w, at]
        s.upper[row] = problem.row_upper[w, at]
    sync()


@func
def fetch_trees(A: wp.array3d(dtype=real), problem: Problem, work: Workspace, w: int, r: Range):
    """Have the blocks of the island's trees brought to the cache, on CUDA."""
    for at in range(r.tree_begin, r.tree_end):
        tree = work.islands.tree[w, at]
        team_fetch(A[w], problem.tree_v[tree], problem.tree_v[tree + 1])


@func
def take_space(problem: Problem, work: Workspace, w: int, r: Range):
    """Load an island: J, W, b, A v*, and the laws of its rows; γ = 0 and u = b."""
    s = space_island(work, w, r)
    fetch_trees(problem.A, problem, work, w, r)
    team_space_clear(s.x, s.n, s.dofs)
    take_dofs(problem, work, s, w, r)
    take_rows(problem, work, s, w, r)
    fetch_trees(problem.A_factor, problem, work, w, r)
    team_space_rates(s.x, s.n, s.dofs)
    for at in range(r.tree_begin, r.tree_end):
        tree = work.islands.tree[w, at]
        column = tree_column(problem, work, w, r, tree)
        end = problem.tree_v[tree + 1]
        team_space_half(problem.A_factor[w], problem.tree_v[tree], end, column, s.n, s.dofs, s.x)
    team_space_gram(s.x, s.n, s.dofs)
    for row in range(lane(), s.n, lanes()):
        s.u[row] = s.b[row]
    sync()


@func
def measure_space(s: Space) -> vec3:
    """Squares of ‖D Jᵀmiss‖, ‖D A v‖ and ‖D Jᵀ(γ − miss)‖ at v = v* + A⁻¹Jᵀγ."""
    team_space_forces(s.x, s.n, s.dofs)
    sums = vec3()
    for i in range(lane(), s.dofs, lanes()):
        missed = s.j_miss[i]
        momentum = s.j_c[i] + s.p_star[i]
        impulse = s.j_c[i] - missed
        sums += s.D_sq[i] * vec3(missed * missed, momentum * momentum, impulse * impulse)
    return team_sum_3(sums)


@func
def give_velocity(problem: Problem, work: Workspace, s: Space, solution: Solution, w: int, r: Range):
    """v = v* + A⁻¹Jᵀγ, and the norms for the certificate of that v, after `measure_space`. W is lost."""
    for i in range(lane(), s.dofs, lanes()):
        s.dv[i] = s.j_c[i]
    sync()
    for at in range(r.tree_begin, r.tree_end):
        tree = work.islands.tree[w, at]
        column = tree_column(problem, work, w, r, tree)
        team_space_solve(problem.A_factor[w], problem.tree_v[tree], problem.tree_v[tree + 1], column, s.x)
    for i in range(lane(), s.dofs, lanes()):
        v = s.v_star[i] + s.dv[i]
        solution.v[w, work.islands.dof[w, r.slot_begin + i]] = v
        s.dv[i] = v - s.v_star[i]
    sync()
    multiply_space(problem, work, w, r, s.dv, s.m)
    sums = vec3()
    for i in range(lane(), s.dofs, lanes()):
        impulse = s.j_c[i] - s.j_miss[i]
        residual = s.m[i] - impulse
        momentum = s.m[i] + s.p_star[i]
        sums += s.D_sq[i] * vec3(residual * residual, momentum * momentum, impulse * impulse)
    work.norms[w, r.island] = team_sum_3(sums)


@func
def give_impulses(problem: Problem, work: Workspace, s: Space, solution: Solution, w: int, r: Range):
    """Write back γ and u − v̂."""
    for k in range(lane(), s.contacts, lanes()):
        c = work.islands.contact[w, r.contact_begin + k]
        solution.gamma[w, c] = triple(s.gamma, k)
        work.u_c[w, c] = triple(s.u, k) - triple(s.v_hat, k)
    for k in range(lane(), s.scalars, lanes()):
        at = work.islands.row[w, r.row_begin + k]
        row = 3 * s.contacts + k
        solution.row_gamma[w, at] = s.gamma[row]
        work.row_u_c[w, at] = s.u[row] - s.v_hat[row]
    sync()
