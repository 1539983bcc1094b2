# SPDX-License-Identifier: Apache-2.0
"""SAP's iteration (`sap.py`) on islands in the shared memory of one warp (`small.py`).

All lanes call every function together unless its docstring says otherwise.
"""

import warp as wp

from ...laws.bounds import box_impulse
from ...laws.cone import project, projected_hessian, projected_rate
from ...linalg.lanes import lane, lanes, sync, team_sum_2
from ...linalg.registers import (
    team_A_times,
    team_add_rows,
    team_forces,
    team_newton_symmetric,
    team_rates,
)
from ...real import func, kernel, real, struct, vec2, vec3
from ..problem import Problem, Solution
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
    """Load the island and set the initial guess as `first_guess` does."""
    few = r.tree_end - r.tree_begin == 1 and r.contact_end - r.contact_begin <= FEW_CONTACTS
    free = options.free_start == 1 and few
    take_island(problem, work, w, r)
    set_velocity(problem, work, small_island(r), w, r, free)
    return free


@func
def small_momentum(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*) at the present v."""
    x = small_island(r)
    x.dv[lane()] = x.v[lane()] - x.v_star[lane()]
    sync()
    team_A_times(x.Q, x.n, x.dv, x.m)


@func
def small_start(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*), A v*, J v − v̂ at the present v."""
    x = small_island(r)
    small_momentum(problem, work, solution, w, r)
    team_A_times(x.Q, x.n, x.v_star, x.p_star)
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    team_add_rows(real(-1.0), x.v_hat, x.u, x.rows)


@func
def per_regularization(R: vec3) -> vec3:
    """1/R; the two tangential entries are equal."""
    tangential = real(1.0) / R[0]
    return vec3(tangential, tangential, real(1.0) / R[2])


@func
def small_residual(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> vec3:
    """Compute γ = P(y), G and j_c = Jᵀγ at the present u; return the squares of ‖D∇ℓ‖, ‖D A v‖, ‖D j_c‖."""
    x = small_island(r)
    c = lane()
    if c < x.contacts:
        R = triple(x.R, c)
        mu = x.mu[c]
        mu_hat = mu * R[0] / R[2]
        per_R = per_regularization(R)
        y = -wp.cw_mul(triple(x.u, c), per_R)
        found = project(y, mu_hat, mu)
        set_triple(x.gamma, c, found.gamma)
        x.G[c] = projected_hessian(found, y[2], per_R, mu_hat, mu)
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        per_R_k = real(1.0) / x.R[at]
        y_k = -x.u[at] * per_R_k
        x.gamma[at] = box_impulse(y_k, x.lower[k], x.upper[k])
        x.row_G[k] = wp.where(y_k <= x.lower[k] or y_k >= x.upper[k], real(0.0), per_R_k)
    sync()
    team_forces(x.J, x.rows, x.gamma, x.j_c)
    i = lane()
    return weighted_squares(x, x.m[i] - x.j_c[i], x.m[i] + x.p_star[i], x.j_c[i])


@func
def small_linearise(problem: Problem, work: Workspace, w: int, r: Range) -> int:
    """Return 0: `small_residual` has computed G."""
    return 0


@func
def small_newton_step(problem: Problem, work: Workspace, w: int, r: Range, forcing: real) -> Step:
    """Δv = −H⁻¹∇ℓ, Δp = AΔv, Δu = JΔv, and the slopes for the line search; slope 0 if H is not positive definite."""
    x = small_island(r)
    i = lane()
    x.dv[i] = x.j_c[i] - x.m[i]
    sync()
    failed = team_newton_symmetric(x.Q, x.J, x.G, x.row_G, x.scratch, x.first, x.n, x.contacts, x.scalars, x.dv)
    step = Step()
    if failed == 0:
        team_A_times(x.Q, x.n, x.dv, x.dp)
        dv = x.dv[i]
        sums = team_sum_2(vec2(dv * (x.m[i] - x.j_c[i]), dv * x.dp[i]))
        step.slope = sums[0]
        step.curvature_A = sums[1]
        team_rates(x.J, x.n, x.rows, x.dv, x.du)
    return step


@struct
class Line:
    """The line in registers: this lane's contact and scalar row; their entries are 0 where the lane has none."""

    slope: real  # of ℓ at 0
    curvature_A: real  # ΔvᵀAΔv
    slope_there: real  # dℓ/dα and d²ℓ/dα² at a trial α
    curvature_there: real
    y: vec3
    y_rate: vec3
    du: vec3
    gamma: vec3
    mu: real
    mu_hat: real
    row_y: real
    row_y_rate: real
    row_du: real
    row_gamma: real
    lower: real
    upper: real


@func
def small_begin_line(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, step: Step) -> Line:
    """y = −R⁻¹ u of this lane's contact and scalar row, and their rates along the line."""
    x = small_island(r)
    line = Line()
    line.slope = step.slope
    line.curvature_A = step.curvature_A
    c = lane()
    if c < x.contacts:
        R = triple(x.R, c)
        line.du = triple(x.du, c)
        line.mu = x.mu[c]
        per_R = per_regularization(R)
        line.y = -wp.cw_mul(triple(x.u, c), per_R)
        line.y_rate = -wp.cw_mul(line.du, per_R)
        line.gamma = triple(x.gamma, c)
        line.mu_hat = line.mu * R[0] / R[2]
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        inverse = real(1.0) / x.R[at]
        line.row_du = x.du[at]
        line.row_y = -x.u[at] * inverse
        line.row_y_rate = -line.row_du * inverse
        line.row_gamma = x.gamma[at]
        line.lower = x.lower[k]
        line.upper = x.upper[k]
    return line


@func
def small_try_line(
    problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, before: Line, alpha: real
) -> Line:
    """dℓ/dα, as `line_slope`, and d²ℓ/dα² = ΔvᵀAΔv − Σ Δuᵀ dγ/dα."""
    line = before
    found = project(line.y + alpha * line.y_rate, line.mu_hat, line.mu)
    rate = projected_rate(found, line.y_rate, line.mu_hat, line.mu)
    row_y = line.row_y + alpha * line.row_y_rate
    row_gamma = box_impulse(row_y, line.lower, line.upper)
    row_rate = wp.where(row_y <= line.lower or row_y >= line.upper, real(0.0), line.row_y_rate)
    change = wp.dot(line.du, found.gamma - line.gamma) + line.row_du * (row_gamma - line.row_gamma)
    sums = team_sum_2(vec2(change, wp.dot(line.du, rate) + line.row_du * row_rate))
    line.slope_there = line.slope + alpha * line.curvature_A - sums[0]
    line.curvature_there = line.curvature_A - sums[1]
    return line


@func
def small_line_curvature(problem: Problem, work: Workspace, w: int, r: Range, line: Line, alpha: real) -> real:
    """d²ℓ/dα² at the last trial."""
    return line.curvature_there


small_exact_search = exact_search(small_begin_line, small_try_line, small_line_curvature)


@func
def small_line_search(
    problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range, step: Step, scale: real
) -> real:
    """Exact line search."""
    return small_exact_search(problem, work, solution, w, r, step)


@func
def small_advance(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, alpha: real):
    """v ← v + αΔv; update A (v − v*) and u with it."""
    x = small_island(r)
    i = lane()
    sync()
    x.v[i] = x.v[i] + alpha * x.dv[i]
    x.m[i] = x.m[i] + alpha * x.dp[i]
    team_add_rows(alpha, x.du, x.u, x.rows)


iterate_small = newton_method(
    small_guess, small_start, small_momentum, small_residual, small_opposing_impulses, small_linearise,
    small_newton_step, small_line_search, small_advance,
)  # fmt: skip


@func
def give_rates(work: Workspace, w: int, r: Range):
    """Write back u of every constraint; `keep_factor` computes the slopes from it."""
    x = small_island(r)
    c = lane()
    if c < x.contacts:
        work.u_c[w, work.islands.contact[w, r.contact_begin + c]] = triple(x.u, c)
    k = lane()
    if k < x.scalars:
        work.row_u_c[w, work.islands.row[w, r.row_begin + k]] = x.u[3 * x.contacts + k]


@kernel(lanes=True, registers=128, fast_math=True)
def solve_small(problem: Problem, work: Workspace, options: Options, solution: Solution):
    """Solve the islands that one warp holds, before `sap.solve`. Launch over (worlds, trees, lanes)."""
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
