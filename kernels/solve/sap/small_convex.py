# SPDX-License-Identifier: Apache-2.0
"""SAP's iteration (`sap.py`) on islands that one warp holds (`small.py`): the same functions on its shared memory.

All that is not said to be for one lane is called by all lanes together.
"""

import warp as wp

from ...laws.bounds import box_hessian, box_impulse
from ...laws.cone import cone_hessian, cone_impulse
from ...linalg.lanes import lane, lanes, sync, team_sum
from ...linalg.registers import (
    team_A_times,
    team_add_rows,
    team_forces,
    team_newton_symmetric,
    team_rates,
)
from ...real import func, kernel, real, vec3
from ..problem import Problem, Solution
from .contact_laws import contact_y
from .newton import Range, island_range
from .sap import (
    FEW_CONTACTS,
    UNTRIED,
    Options,
    Step,
    Workspace,
    exact_search,
    is_free,
    island_tolerance,
    keep_free_motion,
    newton_method,
    solve_island,
)
from .small import (
    give_point,
    is_small,
    set_triple,
    set_velocity,
    small_island,
    small_opposing_impulses,
    take_island,
    triple,
    weighted_squares,
)


@func
def small_guess(problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range) -> bool:
    """The island taken, and the start of `first_guess`."""
    few = r.tree_end - r.tree_begin == 1 and r.contact_end - r.contact_begin <= FEW_CONTACTS
    free = options.free_start == 1 and few
    take_island(problem, work, w, r)
    set_velocity(problem, work, small_island(r), w, r, free)
    return free


@func
def small_start(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*), A v*, J v − v̂ at the present v."""
    x = small_island(r)
    x.dv[lane()] = x.v[lane()] - x.v_star[lane()]
    sync()
    team_A_times(x.Q, x.n, x.dv, x.m)
    team_A_times(x.Q, x.n, x.v_star, x.p_star)
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    team_add_rows(real(-1.0), x.v_hat, x.u, x.rows)


@func
def small_residual(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> vec3:
    """γ = P(y) and j_c = Jᵀγ at the present u; squares of ‖D∇ℓ‖, ‖D A v‖, ‖D j_c‖."""
    x = small_island(r)
    c = lane()
    if c < x.contacts:
        R = triple(x.R, c)
        set_triple(x.gamma, c, cone_impulse(contact_y(triple(x.u, c), R), R, x.mu[c]))
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        x.gamma[at] = box_impulse(-x.u[at] / x.R[at], x.lower[k], x.upper[k])
    sync()
    team_forces(x.J, x.rows, x.gamma, x.j_c)
    i = lane()
    return weighted_squares(x, x.m[i] - x.j_c[i], x.m[i] + x.p_star[i], x.j_c[i])


@func
def small_linearise(problem: Problem, work: Workspace, w: int, r: Range) -> int:
    """G of every constraint at the present u; 0."""
    x = small_island(r)
    c = lane()
    if c < x.contacts:
        R = triple(x.R, c)
        x.G[c] = cone_hessian(contact_y(triple(x.u, c), R), R, x.mu[c])
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        R_k = x.R[at]
        x.row_G[k] = box_hessian(-x.u[at] / R_k, R_k, x.lower[k], x.upper[k])
    sync()
    return 0


@func
def small_newton_step(problem: Problem, work: Workspace, w: int, r: Range, forcing: real) -> Step:
    """Δv = −H⁻¹∇ℓ, Δp = AΔv, Δu = JΔv, and what the line search needs of them; no slope where H is not positive definite."""
    x = small_island(r)
    i = lane()
    x.dv[i] = x.j_c[i] - x.m[i]
    sync()
    failed = team_newton_symmetric(x.Q, x.J, x.G, x.row_G, x.scratch, x.n, x.contacts, x.scalars, x.dv)
    step = Step()
    if failed == 0:
        team_A_times(x.Q, x.n, x.dv, x.dp)
        dv = x.dv[i]
        step.slope = team_sum(dv * (x.m[i] - x.j_c[i]))
        step.curvature_A = team_sum(dv * x.dp[i])
        team_rates(x.J, x.n, x.rows, x.dv, x.du)
    return step


@func
def small_line_slope(
    problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, step: Step, alpha: real
) -> real:
    """dℓ/dα, as `line_slope`."""
    x = small_island(r)
    c = lane()
    slope = real(0.0)
    if c == 0:
        slope = step.slope + alpha * step.curvature_A
    if c < x.contacts:
        du = triple(x.du, c)
        R = triple(x.R, c)
        gamma = cone_impulse(contact_y(triple(x.u, c) + alpha * du, R), R, x.mu[c])
        slope -= wp.dot(du, gamma - triple(x.gamma, c))
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        gamma_k = box_impulse(-(x.u[at] + alpha * x.du[at]) / x.R[at], x.lower[k], x.upper[k])
        slope -= x.du[at] * (gamma_k - x.gamma[at])
    return team_sum(slope)


@func
def small_line_curvature(problem: Problem, work: Workspace, w: int, r: Range, step: Step, alpha: real) -> real:
    """d²ℓ/dα², as `line_curvature`."""
    x = small_island(r)
    c = lane()
    curvature = real(0.0)
    if c == 0:
        curvature = step.curvature_A
    if c < x.contacts:
        du = triple(x.du, c)
        R = triple(x.R, c)
        curvature += wp.dot(du, cone_hessian(contact_y(triple(x.u, c) + alpha * du, R), R, x.mu[c]) * du)
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        R_k = x.R[at]
        y_k = -(x.u[at] + alpha * x.du[at]) / R_k
        curvature += x.du[at] * x.du[at] * box_hessian(y_k, R_k, x.lower[k], x.upper[k])
    return team_sum(curvature)


small_exact_search = exact_search(small_line_slope, small_line_curvature)


@func
def small_line_search(
    problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range, step: Step, scale: real
) -> real:
    """The exact one."""
    return small_exact_search(problem, work, solution, w, r, step)


@func
def small_advance(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, alpha: real):
    """v ← v + αΔv, and with it A (v − v*) and u."""
    x = small_island(r)
    i = lane()
    sync()
    x.v[i] = x.v[i] + alpha * x.dv[i]
    x.m[i] = x.m[i] + alpha * x.dp[i]
    team_add_rows(alpha, x.du, x.u, x.rows)


iterate_small = newton_method(
    small_guess, small_start, small_residual, small_opposing_impulses, small_linearise, small_newton_step, small_line_search,
    small_advance,
)  # fmt: skip


@func
def give_rates(work: Workspace, w: int, r: Range):
    """u of every constraint, from which `keep_factor` has the slopes."""
    x = small_island(r)
    c = lane()
    if c < x.contacts:
        work.u_c[w, work.islands.contact[w, r.contact_begin + c]] = triple(x.u, c)
    k = lane()
    if k < x.scalars:
        work.row_u_c[w, work.islands.row[w, r.row_begin + k]] = x.u[3 * x.contacts + k]


@kernel(lanes=True, registers=128)
def solve_small(problem: Problem, work: Workspace, options: Options, solution: Solution):
    """Before `sap.solve`, on a GPU: islands that one warp holds. Launch over (worlds, trees, lanes)."""
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    r = island_range(work.islands, w, island)
    if options.line_search == 1 or not is_small(r):
        work.status[w, island] = UNTRIED
    elif lanes() == 1:
        solve_island(problem, work, options, solution, w, r)
    elif is_free(r):
        work.status[w, island] = keep_free_motion(problem, work, solution, w, r)
        work.iterations[w, island] = 0
    else:
        tolerance = island_tolerance(work, options, w)
        work.status[w, island] = iterate_small(problem, work, options, solution, w, r, tolerance)
        give_point(work, w, r, solution.v[w], solution.gamma[w], solution.row_gamma[w])
        give_rates(work, w, r)
