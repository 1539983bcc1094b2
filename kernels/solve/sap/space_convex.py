# SPDX-License-Identifier: Apache-2.0
"""Newton's method on SAP's convex problem (`sap.py`) in the space of constraint rows (`space.py`).

    v = v* + A⁻¹Jᵀλ,   u = J v − v̂ = b + W λ,   (I + G W) Δλ = γ(u) − λ,   Δu = W Δλ

At the solution λ = γ(u). The step is Newton's for ℓ(v): the same minimiser, line search and certificate, and
A (v − v*) = Jᵀλ holds to rounding. u is updated, as in `sap.py`. The iteration starts from v*, λ = 0; under round cones
sweeps and whole steps come first, which need a third of the iterations.

All numbers of a law are in the axes of its cone (`laws/shaped_cone.py`) in copies with such cones. In `Space`, b is
J v* − v̂ here; `rho` holds 1/R, `load` μ̂ = μ Rt/Rn of a contact in its first row, `gamma` λ, `dgamma` Δλ, `before` Δu.
All lanes call every function together unless its docstring says otherwise.
"""

import warp as wp

from ...laws.bounds import box_impulse
from ...laws.cone import INVERSE_MASS_FLOOR, cone_trial, project, projected_hessian, projected_rate
from ...laws.shaped_cone import NO_SPIN, pyramid_along, pyramid_impulse, pyramid_slopes
from ...linalg.lanes import lane, lanes, sync, team_sum_2
from ...linalg.row_space import (
    team_space_add_three,
    team_space_newton,
    team_space_times,
)
from ...real import SHAPED, func, kernel, real, vec2, vec3, vec4
from ..problem import Problem, Solution
from .newton import Range, island_range
from .sap import (
    UNDECIDED,
    UNTRIED,
    Options,
    Step,
    Workspace,
    begin_line,
    exact_search,
    is_free,
    island_tolerance,
    keep_free_motion,
    newton_method,
    solve_island,
)
from .space import (
    Space,
    give_impulses,
    give_velocity,
    is_in_space,
    measure_space,
    set_triple,
    space_island,
    take_space,
    triple,
)
from .space_lagged import sweep_row

# Before the line search: Gauss–Seidel sweeps, and at most so many whole Newton steps on those parts of the laws that
# trial impulses choose. Not for pyramids: from λ = 0 the law at u chooses the same parts.
SWEEPS = wp.constant(2)
TRIALS = wp.constant(4)
MOST_ROWS = 1.0  # per dof, on the CPU
SHORT = wp.constant(8)  # dofs of a tree


@func
def edges_of(problem: Problem) -> int:
    """1 if friction cones are pyramids, 0 if they are round."""
    edges = wp.int32(0)
    if SHAPED:
        edges = problem.edges
    return edges


@func
def turned(B: vec4, u: vec3) -> vec3:
    """u in the axes of a cone. By one lane."""
    return vec3(B[0] * u[0] + B[1] * u[1], B[2] * u[0] + B[3] * u[1], u[2])


@func
def sweep_cone(s: Space, k: int):
    """Solve the law of one contact, nearly, at the impulses of all others: normal first, or along the cone's edge."""
    row = 3 * k
    gamma = triple(s.gamma, k)
    u = triple(s.u, k)
    R = triple(s.R, k)
    mu = s.mu[row]
    at = row * s.wide + row
    W_0 = vec3(s.W[at], s.W[at + 1], s.W[at + 2])
    W_1 = vec3(W_0[1], s.W[at + s.wide + 1], s.W[at + s.wide + 2])
    W_n = s.W[at + 2 * s.wide + 2]
    gamma_n = wp.max(real(0.0), gamma[2] - (u[2] + R[2] * gamma[2]) / (W_n + R[2]))
    change = gamma_n - gamma[2]
    inverse = real(1.0) / (wp.max(W_0[0], W_1[1]) + R[0])
    gamma_0 = gamma[0] - (u[0] + W_0[2] * change + R[0] * gamma[0]) * inverse
    gamma_1 = gamma[1] - (u[1] + W_1[2] * change + R[0] * gamma[1]) * inverse
    square = gamma_0 * gamma_0 + gamma_1 * gamma_1
    if square > mu * mu * gamma_n * gamma_n:  # it slides: γ = s (μ t̂, 1)
        scale = mu / wp.sqrt(square)
        e_0 = scale * gamma_0
        e_1 = scale * gamma_1
        W_e0 = W_0[0] * e_0 + W_0[1] * e_1 + W_0[2]
        W_e1 = W_1[0] * e_0 + W_1[1] * e_1 + W_1[2]
        W_en = W_0[2] * e_0 + W_1[2] * e_1 + W_n
        rest = e_0 * u[0] + e_1 * u[1] + u[2] - (W_e0 * gamma[0] + W_e1 * gamma[1] + W_en * gamma[2])
        stiff = e_0 * W_e0 + e_1 * W_e1 + W_en + R[0] * mu * mu + R[2]
        gamma_n = wp.max(real(0.0), -rest / stiff)
        gamma_0 = gamma_n * e_0
        gamma_1 = gamma_n * e_1
    found = vec3(gamma_0, gamma_1, gamma_n)
    sync()
    set_triple(s.gamma, k, found)
    team_space_add_three(s.x, s.n, row, found - gamma)


@func
def start_in_space(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """u at the present λ."""
    s = space_island(work, w, r)
    team_space_times(s.x, s.n, s.gamma, s.u)
    for row in range(lane(), s.n, lanes()):
        s.u[row] = s.u[row] + s.b[row]
    sync()


@func
def no_momentum(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*) is Jᵀλ, which `measure_space` computes."""
    return


@func
def no_opposing(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> real:
    """Impulses that oppose each other are left to the iteration over velocities, as in `space_lagged.py`."""
    return real(0.0)


@func
def linearise_contact_in_space(problem: Problem, s: Space, k: int) -> vec3:
    """Store G of contact k at the present u; return γ(u). By one lane."""
    u = triple(s.u, k)
    mu = s.mu[3 * k]
    gamma = vec3()
    if edges_of(problem) == 1:
        R_n = s.R[3 * k + 2]
        none = vec3()
        gamma, _sigma = pyramid_impulse(u, none, R_n, mu, NO_SPIN)
        slopes = pyramid_slopes(u, none, R_n, mu, NO_SPIN)
        s.block[k] = slopes.point
    else:
        per_R = triple(s.rho, k)
        y = -wp.cw_mul(u, per_R)
        mu_hat = s.load[3 * k]
        found = project(y, mu_hat, mu)
        gamma = found.gamma
        s.block[k] = projected_hessian(found, y[2], per_R, mu_hat, mu)
    return gamma


@func
def residual_in_space(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> vec3:
    """λ − γ(u) and G at the present u; the squares of ‖D∇ℓ‖, ‖D A v‖, ‖D Jᵀγ‖."""
    s = space_island(work, w, r)
    for k in range(lane(), s.contacts, lanes()):
        gamma = linearise_contact_in_space(problem, s, k)
        miss = triple(s.gamma, k) - gamma
        set_triple(s.miss, k, miss)
        set_triple(s.delta, k, -miss)
    for row in range(3 * s.contacts + lane(), s.n, lanes()):
        y = -s.u[row] * s.rho[row]
        miss_k = s.gamma[row] - box_impulse(y, s.lower[row], s.upper[row])
        s.miss[row] = miss_k
        s.delta[row] = -miss_k
        s.G[3 * row] = wp.where(y <= s.lower[row] or y >= s.upper[row], real(0.0), s.rho[row])
    sync()
    return measure_space(s)


@func
def linearise_nothing(problem: Problem, work: Workspace, w: int, r: Range) -> int:
    """Return 0: `residual_in_space` has computed G."""
    return 0


@func
def step_in_space(problem: Problem, work: Workspace, w: int, r: Range, forcing: real) -> Step:
    """Δλ, Δu, and the slopes for the line search; slope 0 if the equations have no solution."""
    s = space_island(work, w, r)
    step = Step()
    if team_space_newton(s.x, s.n, s.contacts) == 0:
        team_space_times(s.x, s.n, s.dgamma, s.before)
        sums = vec2()
        for row in range(lane(), s.n, lanes()):
            sums += s.before[row] * vec2(s.miss[row], s.dgamma[row])
        sums = team_sum_2(sums)
        step.slope = sums[0]
        step.curvature_A = sums[1]
    return step


@func
def try_in_space(
    problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, before: Step, alpha: real
) -> Step:
    """dℓ/dα, as `line_slope`, and d²ℓ/dα² = ΔvᵀAΔv − Σ Δuᵀ dγ/dα."""
    s = space_island(work, w, r)
    edges = edges_of(problem)
    sums = vec2()
    for k in range(lane(), s.contacts, lanes()):
        du = triple(s.before, k)
        u = triple(s.u, k) + alpha * du
        mu = s.mu[3 * k]
        gamma = triple(s.gamma, k) - triple(s.miss, k)
        if edges == 1:
            both = pyramid_along(u, du, s.rho[3 * k + 2], mu)
            sums += vec2(both[0] - wp.dot(du, gamma), both[1])
        else:
            per_R = triple(s.rho, k)
            mu_hat = s.load[3 * k]
            found = project(-wp.cw_mul(u, per_R), mu_hat, mu)
            rate = projected_rate(found, -wp.cw_mul(du, per_R), mu_hat, mu)
            sums += vec2(wp.dot(du, found.gamma - gamma), wp.dot(du, rate))
    for row in range(3 * s.contacts + lane(), s.n, lanes()):
        du_k = s.before[row]
        y = -(s.u[row] + alpha * du_k) * s.rho[row]
        change_k = box_impulse(y, s.lower[row], s.upper[row]) - (s.gamma[row] - s.miss[row])
        rate_k = wp.where(y <= s.lower[row] or y >= s.upper[row], real(0.0), -du_k * s.rho[row])
        sums += du_k * vec2(change_k, rate_k)
    sums = team_sum_2(sums)
    line = before
    line.slope_there = line.slope + alpha * line.curvature_A - sums[0]
    line.curvature_there = line.curvature_A - sums[1]
    return line


@func
def curvature_in_space(problem: Problem, work: Workspace, w: int, r: Range, line: Step, alpha: real) -> real:
    """d²ℓ/dα² at the last trial."""
    return line.curvature_there


search_in_space = exact_search(begin_line, try_in_space, curvature_in_space)


@func
def line_search_in_space(
    problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range, step: Step, scale: real
) -> real:
    """Exact line search."""
    return search_in_space(problem, work, solution, w, r, step)


@func
def advance_in_space(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, alpha: real):
    """λ ← λ + αΔλ, u ← u + αΔu."""
    s = space_island(work, w, r)
    sync()
    for row in range(lane(), s.n, lanes()):
        s.gamma[row] = s.gamma[row] + alpha * s.dgamma[row]
        s.u[row] = s.u[row] + alpha * s.before[row]
    sync()


@func
def linearise_trial(s: Space):
    """Slopes and δ of every law on the part that a trial impulse chooses."""
    for k in range(lane(), s.contacts, lanes()):
        row = 3 * k
        at = row * s.wide + row
        rho = (s.W[at] + s.W[at + s.wide + 1] + s.W[at + 2 * s.wide + 2]) / real(3.0)
        gamma = triple(s.gamma, k)
        u = triple(s.u, k)
        G = cone_trial(gamma, u, triple(s.R, k), s.mu[row], wp.max(rho, real(INVERSE_MASS_FLOOR)))
        s.block[k] = G
        set_triple(s.delta, k, -gamma - G * u)
    for row in range(3 * s.contacts + lane(), s.n, lanes()):
        gamma_k = s.gamma[row]
        y = gamma_k - (s.u[row] + s.R[row] * gamma_k) / wp.max(s.W[row * s.wide + row], real(INVERSE_MASS_FLOOR))
        G_k = wp.where(y <= s.lower[row] or y >= s.upper[row], real(0.0), s.rho[row])
        s.G[3 * row] = G_k
        bound = box_impulse(y, s.lower[row], s.upper[row])
        s.delta[row] = wp.where(G_k == real(0.0), bound, -G_k * s.u[row]) - gamma_k
    sync()


@func
def guess_in_space(problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range) -> bool:
    """Load the island and find λ near the solution by sweeps and whole Newton steps."""
    take_space(problem, work, w, r)
    s = space_island(work, w, r)
    for k in range(lane(), s.contacts, lanes()):
        R = triple(s.R, k)
        s.load[3 * k] = s.mu[3 * k] * R[0] / R[2]
        if SHAPED:
            B = problem.basis[w, work.islands.contact[w, r.contact_begin + k]]
            set_triple(s.v_hat, k, turned(B, triple(s.v_hat, k)))
    sync()
    for row in range(lane(), s.n, lanes()):
        s.rho[row] = real(1.0) / s.R[row]
        s.b[row] = s.b[row] - s.v_hat[row]
        s.v_hat[row] = real(0.0)
        s.u[row] = s.b[row]
    sync()
    trials = wp.int32(0)
    if edges_of(problem) == 0 and s.contacts > 0:
        for _turn in range(SWEEPS):
            for k in range(s.contacts):
                sweep_cone(s, k)
            for row in range(3 * s.contacts, s.n):
                sweep_row(s, row)
        tolerance = island_tolerance(work, options, w)
        trying = bool(True)
        while trying:
            squares = residual_in_space(problem, work, solution, w, r)
            limit = options.absolute + tolerance * wp.sqrt(wp.max(squares[1], squares[2]))
            trying = trials < TRIALS and not (wp.sqrt(squares[0]) <= limit)
            if trying:
                linearise_trial(s)
                trying = team_space_newton(s.x, s.n, s.contacts) == 0
            if trying:
                team_space_times(s.x, s.n, s.dgamma, s.before)
                advance_in_space(problem, work, solution, w, r, real(1.0))
                trials += 1
    s.least[0] = real(trials)
    sync()
    return trials == 0


newton_in_space = newton_method(
    guess_in_space, start_in_space, no_momentum, residual_in_space, no_opposing, linearise_nothing, step_in_space,
    line_search_in_space, advance_in_space, exact=True,
)  # fmt: skip


@func
def turn_back(problem: Problem, work: Workspace, s: Space, w: int, r: Range):
    """γ and u in the axes of the contacts."""
    for k in range(lane(), s.contacts, lanes()):
        B = problem.basis[w, work.islands.contact[w, r.contact_begin + k]]
        gamma = triple(s.gamma, k)
        set_triple(s.gamma, k, turned(vec4(B[0], B[2], B[1], B[3]), gamma))
        u = triple(s.u, k)
        inverse = real(1.0) / (B[0] * B[3] - B[1] * B[2])
        set_triple(s.u, k, turned(inverse * vec4(B[3], -B[1], -B[2], B[0]), u))
    sync()


@func
def iterate_in_space(problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range) -> int:
    """Solve an island; return the status, `UNDECIDED` if its v, rounded, misses the tolerance."""
    tolerance = island_tolerance(work, options, w)
    failed = newton_in_space(problem, work, options, solution, w, r, tolerance) != 0
    s = space_island(work, w, r)
    status = wp.int32(UNDECIDED)
    if not failed:
        give_velocity(problem, work, s, solution, w, r)
        squares = work.norms[w, r.island]
        limit = options.absolute + tolerance * wp.sqrt(wp.max(squares[1], squares[2]))
        if wp.sqrt(squares[0]) <= limit:
            status = wp.int32(0)
            for row in range(lane(), s.n, lanes()):
                s.gamma[row] = s.gamma[row] - s.miss[row]
            sync()
            if SHAPED:
                turn_back(problem, work, s, w, r)
            give_impulses(problem, work, s, solution, w, r)
    return status


@func
def pays(problem: Problem, r: Range) -> bool:
    """Whether an island takes less time in the space of its rows: always on CUDA, on the CPU that of a robot with few.

    Of free bodies and short arms the matrix is smaller than the contact problem.
    """
    rows = 3 * (r.contact_end - r.contact_begin) + r.row_end - r.row_begin
    dofs = r.slot_end - r.slot_begin
    few = real(rows) <= real(MOST_ROWS) * real(dofs)
    return lanes() > 1 or (few and (problem.tree_v.shape[0] == 2 or dofs > SHORT * (r.tree_end - r.tree_begin)))


@kernel(lanes=True, registers=128, fast_math=True)
def solve_in_space(problem: Problem, work: Workspace, options: Options, solution: Solution, left: int):
    """Solve islands of few rows, on the CPU all islands. Launch over (worlds, trees, lanes).

    With `left` = 1 it takes only islands that the copy with fewer lanes left.
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if left == 1 and work.status[w, island] != UNTRIED:
        return
    r = island_range(work.islands, w, island)
    status = wp.int32(UNTRIED)
    tried = wp.int32(0)
    if is_free(r):
        status = keep_free_motion(problem, work, solution, w, r)
    elif options.line_search == 0 and pays(problem, r) and is_in_space(problem, r):
        status = iterate_in_space(problem, work, options, solution, w, r)
        s = space_island(work, w, r)
        tried = work.iterations[w, island] + wp.int32(s.least[0])
    sync()
    work.status[w, island] = status
    work.iterations[w, island] = tried
    if status >= UNDECIDED and lanes() == 1:
        solve_island(problem, work, options, solution, w, r)
        work.iterations[w, island] = work.iterations[w, island] + tried
