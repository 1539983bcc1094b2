# SPDX-License-Identifier: Apache-2.0
"""Contact under Coulomb's law, by Newton's method (theory §3.6).

"Lagged" in names means this law: it is the fixed point of convex problems in which v̂_n lags behind the slip.

    A (v − v*) = Jᵀγ,   γ_i obeys the law of `laws/coulomb.py` at J_i v,   scalar rows as in `sap.py`

Velocities and impulses are unknowns together. Each constraint is linearised at its own (γ, J v) and the impulses are
eliminated: (A + JᵀGJ) Δv = −(A (v − v*) − Jᵀγ) + Jᵀδ, and Δγ = δ − G JΔv. G = S + p eᵀ is not symmetric where contacts
slide: friction depends on the normal impulse, not the normal impulse on friction.

One warp (on the CPU one thread) solves one island of one world (`islands.py`). The initial state is v = v0 with the
law's impulses where that is nearly the solution, as at rest. Else it is v = v* without impulses, which satisfies the
momentum balance already: the iteration then only has to find each contact's branch, and full steps find it as an
active-set method does. Where full steps cycle, they are shortened if each undoes the one before and stretched if each
continues it. If that fails, another initial state is tried. An island without contacts is a convex problem and is
solved as one at once.

The solution depends on the state alone: nothing is kept from the previous time step. It is accepted when the impulses,
projected on their laws, miss the momentum balance by at most SAP's tolerance, ‖D(A (v − v*) − Jᵀγ)‖ ≤ ε_a + ε_r scale;
this error is `momentum_error`. `lag_error` [m/s] is the velocity by which the worst contact missed its law before the
projection.

All lanes call every function together unless its docstring says otherwise (`linalg/lanes.py`).
"""

import warp as wp

from ...flags import NONFINITE, NOT_CONVERGED
from ...laws.bounds import box_impulse
from ...linalg.lanes import WARPS, lane, lanes, pace, sync, team_count, team_max, team_sum, team_value, team_vector
from ...linalg.loops import support_rate
from ...linalg.team_loops import team_copy_triangle, team_sparse_add_three, team_support_add_three
from ...real import BY_CG, SPIN, func, kernel, real, vec3
from ..problem import Problem, Solution, clear_idle
from .contact_laws import (
    contact_rho,
    contact_u,
    coupled_force,
    has_spin,
    is_spin,
    lagged_impulse,
    lagged_newton,
    lagged_slopes,
    normal_rate,
    point_slots,
    slips,
)
from .coupled import Lag, prepare_coupled, solve_coupled
from .newton import Range, copy_dofs, island_range, multiply_A, row_rate
from .progress import (
    CYCLE_PATIENCE,
    MOST_SHARE,
    Balance,
    balance_of_pass,
    begin,
    begin_again,
    holds_bounds,
    is_at_end,
    is_passed,
    is_solved,
    judge,
    next_patience,
    unknown,
)
from .sap import (
    OPPOSED_ITERATIONS,
    UNDECIDED,
    UNTRIED,
    Options,
    Workspace,
    certify_world,
    cg_adjoint,
    clear_idle_slopes,
    epsilon,
    is_free,
    island_tolerance,
    keep_free_motion,
    opposed_level,
    opposing_impulses,
)
from .space import is_in_space
from .space_lagged import TINY, force_miss, iterate_space, row_inertia
from .surrogate import give_back, restart

# Contacts stiffen under their loads once the error is below this.
BEARS_AT = 0.3
# Above this error v0 with the law's impulses is not near the solution, and the initial state is v* without impulses.
WARM_ERROR = 0.3
# A step against the one before is taken at half the share, a step along it at a larger share, up to MOST_SHARE. This
# breaks cycles and is faster on a long slope.
SHARE_AGAINST = 0.5
SHARE_ALONG = 1.5
LEAST_SHARE = 0.1


@func
def start_lagged(problem: Problem, work: Workspace, near: bool, solution: Solution, w: int, r: Range):
    """Initial state: v* without impulses; with `near`, v0 and the law's impulses at v0. Computes A v* in p_star."""
    copy_dofs(work.islands, w, r, problem.v_star[w], solution.v[w])
    if near:
        copy_dofs(work.islands, w, r, problem.v0[w], solution.v[w])
    multiply_A(problem, work.islands, w, r, problem.v_star[w], work.p_star[w])
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        gamma = vec3(real(0.0), real(0.0), real(0.0))
        if near:
            gamma = lagged_impulse(problem, solution.v[w], w, c)
        solution.gamma[w, c] = gamma
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        gamma_k = real(0.0)
        if near:
            y_k = (problem.row_v_hat[w, k] - row_rate(problem, solution.v[w], w, k)) / problem.row_R[w, k]
            gamma_k = box_impulse(y_k, problem.row_lower[w, k], problem.row_upper[w, k])
        solution.row_gamma[w, k] = gamma_k
    sync()


@func
def linearise_row(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, k: int) -> real:
    """G and δ of a scalar row at its (γ, v_c), from the trial y = γ − (v_c − v̂ + Rγ)/ρ; returns its miss. By one lane.

    Every ρ > 0 has the same solution. A row that moves next to nothing at present takes ρ = R, for example a tendon
    that runs straight through an axis.
    """
    R_k = problem.row_R[w, k]
    gamma_k = solution.row_gamma[w, k]
    v_hat_k = problem.row_v_hat[w, k]
    v_k = row_rate(problem, solution.v[w], w, k)
    lower = problem.row_lower[w, k]
    upper = problem.row_upper[w, k]
    rho = row_inertia(problem, w, k)
    if rho <= real(epsilon) * R_k:
        rho = R_k
    y_k = gamma_k - (v_k - v_hat_k + R_k * gamma_k) / rho
    held = box_impulse(y_k, lower, upper)
    work.newton.row_G[w, k] = real(0.0)
    lag.row_delta[w, k] = held - gamma_k
    if y_k > lower and y_k < upper:
        work.newton.row_G[w, k] = real(1.0) / R_k
        lag.row_delta[w, k] = (v_hat_k - v_k) / R_k - gamma_k
    return gamma_k - held


@func
def linearise_contacts(
    problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, held: bool, bears: bool
) -> Balance:
    """Linearise every contact at the present (v, γ); add it to Jᵀγ, Jᵀmiss and Jᵀδ; return the contacts' sums."""
    balance = Balance()
    for first in range(r.contact_begin, r.contact_end, lanes()):
        gamma = vec3(real(0.0), real(0.0), real(0.0))
        miss = vec3(real(0.0), real(0.0), real(0.0))
        delta = vec3(real(0.0), real(0.0), real(0.0))
        if first + lane() < r.contact_end:
            c = work.islands.contact[w, first + lane()]
            rho = contact_rho(problem, w, c)
            gamma = solution.gamma[w, c]
            x = lagged_newton(problem, solution.v[w], solution.gamma[w], work.newton.G[w], w, c, bears, held)
            miss = x.miss
            delta = x.delta
            lag.p[w, c] = x.p
            lag.delta[w, c] = delta
            balance.error = wp.max(balance.error, rho * wp.length(miss))
            balance.misses += rho * wp.dot(miss, miss)
            balance.impulses += rho * wp.dot(gamma, gamma)
            if not is_spin(problem, c):
                balance.force = wp.max(balance.force, force_miss(gamma[2], delta[2], rho))
            if slips(x.p):
                balance.slides += 1
        for of in range(wp.min(lanes(), r.contact_end - first)):
            at = work.islands.contact[w, first + of]
            pair = problem.contact_pair[w, at]
            team_support_add_three(
                problem.J[w, at], problem.support[pair], problem.support_size[pair],
                team_vector(gamma, of), work.j_c[w], team_vector(miss, of), lag.missed[w],
                team_vector(delta, of), work.dv[w],
            )  # fmt: skip
    balance.error = team_max(balance.error)
    balance.force = team_max(balance.force)
    balance.misses = team_sum(balance.misses)
    balance.impulses = team_sum(balance.impulses)
    balance.slides = team_count(balance.slides)
    return balance


@func
def linearise_all(
    problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, held: bool, bears: bool
) -> Balance:
    """Linearise every constraint at the present (v, γ); compute Jᵀγ, A (v − v*) and Jᵀmiss; return the balance."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        work.dv[w, i] = solution.v[w, i] - problem.v_star[w, i]
    sync()
    multiply_A(problem, work.islands, w, r, work.dv[w], work.m[w])
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        work.j_c[w, i] = real(0.0)
        lag.missed[w, i] = real(0.0)
        work.dv[w, i] = real(0.0)
    sync()
    balance = linearise_contacts(problem, work, lag, solution, w, r, held, bears)
    for first in range(r.row_begin, r.row_end, lanes()):
        gamma_k = real(0.0)
        miss_k = real(0.0)
        delta_k = real(0.0)
        if first + lane() < r.row_end:
            k = work.islands.row[w, first + lane()]
            miss_k = linearise_row(problem, work, lag, solution, w, k)
            gamma_k = solution.row_gamma[w, k]
            delta_k = lag.row_delta[w, k]
        for of in range(wp.min(lanes(), r.row_end - first)):
            at = work.islands.row[w, first + of]
            team_sparse_add_three(
                problem.row_J[w, at], problem.row_support[at], problem.row_support_size[at],
                team_value(gamma_k, of), work.j_c[w], team_value(miss_k, of), lag.missed[w],
                team_value(delta_k, of), work.dv[w],
            )  # fmt: skip
    sync()
    pace()
    return sum_balance(problem, work, lag, w, r, balance)


@func
def sum_balance(problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, balance: Balance) -> Balance:
    """Compute the sums of `Balance`; store the norms for the certificate as SAP does."""
    sums = vec3(real(0.0), real(0.0), real(0.0))
    law = real(0.0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        D_sq = real(1.0) / problem.A[w, i, i - problem.dof_begin[i]]
        missed = lag.missed[w, i]
        impulse = work.j_c[w, i] - missed
        residual = work.m[w, i] - impulse
        momentum = work.m[w, i] + work.p_star[w, i]
        sums += D_sq * vec3(residual * residual, momentum * momentum, impulse * impulse)
        law += D_sq * missed * missed
    sums = vec3(team_sum(sums[0]), team_sum(sums[1]), team_sum(sums[2]))
    law = team_sum(law)
    work.norms[w, r.island] = sums
    balance.momentum = sums[0]
    balance.law = law
    balance.scale = wp.max(sums[1], sums[2])
    # The law's error is at least the scale times the misses' share of all impulses: misses may cancel in Jᵀmiss.
    share = balance.misses / wp.max(wp.max(balance.impulses, balance.scale), real(TINY))
    balance.law = wp.max(balance.law, share * balance.scale)
    return balance


@func
def lagged_step(
    problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, circling: bool,
    share_before: real, slides: int, forcing: real,
) -> real:  # fmt: skip
    """Advance v and γ by a share of the Newton step; return the share: 1 unless the iteration is `circling`."""
    dv = work.dv[w]
    along = real(0.0)
    unprepared = bool(True)
    while unprepared:  # at worst with the symmetric part alone, which is positive definite
        unprepared = prepare_coupled(problem, work, lag, w, r, slides) != 0 and slides > 0
        if unprepared:
            slides = wp.int32(0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        dv[i] = dv[i] + work.j_c[w, i] - work.m[w, i]
    sync()
    pace()
    solve_coupled(problem, work, lag, w, r, slides, 0, forcing, dv)
    pace()
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        along += problem.A[w, i, i - problem.dof_begin[i]] * dv[i] * lag.dv[w, i]
        lag.dv[w, i] = dv[i]
    along = team_sum(along)
    share = real(1.0)
    if circling:
        share = wp.max(real(LEAST_SHARE), real(SHARE_AGAINST) * share_before)
        if along > real(0.0):
            share = wp.min(real(MOST_SHARE), real(SHARE_ALONG) * share_before)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        pair = problem.contact_pair[w, c]
        rate = support_rate(problem.J[w, c], problem.support[pair], problem.support_size[pair], dv)
        change = lag.delta[w, c] - coupled_force(problem, work.newton.G[w], dv, rate, w, c)
        change = change - normal_rate(problem, dv, rate, w, c) * lag.p[w, c]
        solution.gamma[w, c] = solution.gamma[w, c] + share * change
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        change_k = lag.row_delta[w, k] - work.newton.row_G[w, k] * row_rate(problem, dv, w, k)
        solution.row_gamma[w, k] = solution.row_gamma[w, k] + share * change_k
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        solution.v[w, i] = solution.v[w, i] + share * dv[i]
    sync()
    return share


@func
def project_contact(problem: Problem, work: Workspace, solution: Solution, w: int, c: int):
    """Project the impulses of a contact and its spin rows on its cone. By one lane."""
    gamma = solution.gamma[w]
    G = work.newton.G[w]
    x = lagged_newton(problem, solution.v[w], gamma, G, w, c, True, False)
    if SPIN:
        if has_spin(problem, w, c):
            at = point_slots(problem) + c
            y = lagged_newton(problem, solution.v[w], gamma, G, w, at, True, False)
            gamma[at] = gamma[at] - y.miss
    gamma[c] = gamma[c] - x.miss


@func
def project_impulses(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Project the impulses, at the last trial, on their cones and bounds; store u_c = J v − v̂."""
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        work.u_c[w, c] = contact_u(problem, solution.v[w], w, c)
        if not is_spin(problem, c):
            project_contact(problem, work, solution, w, c)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        solution.row_gamma[w, k] = solution.row_gamma[w, k] - linearise_row(problem, work, lag, solution, w, k)
        work.row_u_c[w, k] = row_rate(problem, solution.v[w], w, k) - problem.row_v_hat[w, k]
    sync()


@kernel(lanes=True, warps=WARPS)
def keep_factor(problem: Problem, work: Workspace, lag: Lag, solution: Solution):
    """Factor A + JᵀGJ with the law's slopes at v, for `solve_lagged_adjoint`; `slope`: number of sliding contacts.

    Where the matrix is singular, v is not differentiable and its gradients are NaN. Launch over (worlds, trees, lanes).
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if island == 0:
        clear_idle_slopes(problem, lag.G[w], w)
    r = island_range(work.islands, w, island)
    slides = wp.int32(0)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        x = lagged_slopes(problem, solution.v[w], work.newton.G[w], w, c)
        lag.p[w, c] = x.p
        G = x.S
        for axis in range(2):
            G[axis, 2] = x.p[axis]
        lag.G[w, c] = G
        if slips(x.p):
            slides += 1
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        work.newton.row_G[w, k] = real(0.0)
        y_k = (problem.row_v_hat[w, k] - row_rate(problem, solution.v[w], w, k)) / problem.row_R[w, k]
        if y_k > problem.row_lower[w, k] and y_k < problem.row_upper[w, k]:
            work.newton.row_G[w, k] = real(1.0) / problem.row_R[w, k]
    sync()
    slides = team_count(slides)
    slope = real(slides)
    if prepare_coupled(problem, work, lag, w, r, slides) != 0:
        slope = real(wp.nan)
    if slides == 0 and not BY_CG:
        team_copy_triangle(work.newton.H[w], r.slot_begin, r.slot_end, work.newton.first[w], False)
    lag.slope[w, r.island] = slope


def newton_method(quick, start_lagged, linearise_all, opposing_impulses, lagged_step, restart, give_back, project):
    """Build the iteration from these functions. `quick`: it leaves islands that need another initial state."""

    @func
    def iterate_lagged(
        problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int,
        r: Range, tolerance: real,
    ) -> int:  # fmt: skip
        """Run Newton's method on one island until its law and balance hold; return the status."""
        x = begin(lag, r)
        starting = x.patience > 0
        ending = bool(False)
        running = bool(True)
        if wp.static(quick) and not starting:
            x.status = wp.int32(UNDECIDED)
            running = bool(False)
        while running:
            pace()
            if starting:
                start_lagged(problem, work, x.near, solution, w, r)
                starting = bool(False)
            held = holds_bounds(x.stalled, x.restarts)
            balance = unknown()
            if is_passed(x):
                balance = balance_of_pass(work, w, r)
            elif x.patience > 0:
                balance = linearise_all(problem, work, lag, solution, w, r, held, x.bears)
            x = judge(x, balance, options, tolerance, held)
            lag.island_error[w, r.island] = balance.error
            if ending:
                running = bool(False)
            elif x.near and x.iterations == 0 and x.patience > 0 and not (x.error < real(WARM_ERROR)):
                x.near = bool(False)
                x.bears = bool(False)
                x.fresh = bool(True)
                starting = bool(True)
            elif x.lost and x.patience > 0 and (x.iterations == x.begun or x.iterations >= options.max_iterations):
                x.status = wp.int32(NONFINITE)
                running = bool(False)
            elif not x.bears and x.error < real(BEARS_AT):
                x.bears = bool(True)
                x.fresh = bool(True)
            elif not x.lost and (
                is_solved(x, options)
                or (
                    x.stalled >= OPPOSED_ITERATIONS
                    and x.missed <= real(opposed_level) * opposing_impulses(problem, work, solution, w, r)
                )
            ):
                # Rounding leaves the impulses undetermined.
                x.status = wp.where(x.forced > x.limit, NOT_CONVERGED, 0)
                running = bool(False)
            elif is_passed(x):  # the pass was not enough: Newton steps follow
                x.patience = next_patience(x)
                x.fresh = bool(True)
            elif is_at_end(x, options):
                x.status = wp.int32(NOT_CONVERGED)
                ending = x.kept < x.error
                running = ending
                if wp.static(not quick) and ending:
                    give_back(problem, work, lag, solution, w, r)  # the next round measures it
            elif x.lost or x.stalled >= x.patience or (x.many and x.restarts > 0):
                if wp.static(quick):
                    x.status = wp.int32(UNDECIDED)
                    running = bool(False)
                else:
                    took = restart(problem, surrogate, work, lag, options, solution, w, r, x.restarts, x.error, x.kept)
                    x = begin_again(x, took)
            else:
                pace()
                slides = wp.where(held, 0, balance.slides)
                circling = x.stalled > CYCLE_PATIENCE
                x.share = lagged_step(problem, work, lag, solution, w, r, circling, x.share, slides, real(cg_adjoint))
                x.iterations += 1
                x.polished = wp.where(x.missed <= x.limit, 2, wp.max(x.polished, 1))
        work.iterations[w, r.island] = x.iterations
        if x.patience > 0 and x.status != UNDECIDED:  # a pass leaves impulses within their bounds
            project(problem, work, lag, solution, w, r)
        return x.status

    return iterate_lagged


def island_solver(iterate):
    """Build the device function that solves one island by an iteration."""

    @func
    def solve_island(
        problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int,
        r: Range,
        ):  # fmt: skip
        """Solve one island for v and γ."""
        status = wp.int32(0)
        lag.island_error[w, r.island] = real(0.0)
        work.iterations[w, r.island] = wp.int32(0)
        if is_free(r):
            status = keep_free_motion(problem, work, solution, w, r)
        else:
            tolerance = island_tolerance(work, options, w)
            status = iterate(problem, surrogate, work, lag, options, solution, w, r, tolerance)
        work.status[w, r.island] = status

    return solve_island


VERBS = (start_lagged, linearise_all, opposing_impulses, lagged_step, restart, give_back, project_impulses)
solve_any = island_solver(newton_method(False, *VERBS))
solve_most = island_solver(newton_method(True, *VERBS))


@kernel(lanes=True, registers=128, warps=WARPS, part="quick", fast_math=not BY_CG)
def try_lagged(problem: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, left: int):
    """Solve the islands that need no other initial state, before `solve_lagged` on a GPU.

    With `left` = 1 it takes only islands that `solve_space_lagged` left. Launch over (worlds, trees, lanes).
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if left == 1 and work.status[w, island] != UNTRIED:
        return
    solve_most(problem, problem, work, lag, options, solution, w, island_range(work.islands, w, island))


@kernel(lanes=True, registers=168, warps=WARPS, fast_math=not BY_CG)
def solve_lagged(
    problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, left: int
):  # fmt: skip
    """Solve one island per warp for v and γ. `surrogate`: the problem with the R and v̂ of `lag`.

    With `left` = 1 it takes only islands that earlier kernels left undecided. Launch over (worlds, trees, lanes).
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if left == 1 and work.status[w, island] < UNDECIDED:
        return
    r = island_range(work.islands, w, island)
    tried = wp.int32(0)
    solved = bool(False)
    if wp.static(not (SPIN or BY_CG)):
        if lanes() == 1 and left == 0 and is_in_space(problem, r) and not is_free(r):
            tolerance = island_tolerance(work, options, w)
            work.status[w, island] = iterate_space(problem, work, lag, options, solution, w, r, tolerance)
            solved = work.status[w, island] == 0
            tried = work.iterations[w, island]
    if not solved:
        solve_any(problem, surrogate, work, lag, options, solution, w, r)
        if tried > 0:  # on the CPU alone: every lane writes
            work.iterations[w, island] = work.iterations[w, island] + tried


@func
def worst_island(work: Workspace, island_error: wp.array2d(dtype=real), w: int) -> real:
    """Largest error of the islands of a world."""
    error = real(0.0)
    for k in range(work.islands.count[w]):
        error = wp.max(error, island_error[w, k])
    return error


@kernel(warps=WARPS)
def certify_lagged(problem: Problem, work: Workspace, lag: Lag, solution: Solution):
    """`sap.certify`, and the error of the worst contact of every world. Launch over worlds."""
    w = wp.tid()
    clear_idle(problem, solution, w, 0, 1)
    certify_world(problem, work, solution, w)
    lag.error[w] = worst_island(work, lag.island_error, w)


@kernel(lanes=True, warps=WARPS)
def solve_lagged_adjoint(
    problem: Problem, work: Workspace, lag: Lag, v_bar: wp.array2d(dtype=real), seed: wp.array2d(dtype=real)
):  # fmt: skip
    """seed = −(A + JᵀGJ)⁻ᵀ v̄ with the factor of `keep_factor`; NaN where that is singular.

    Launch over (worlds, trees, lanes).
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    r = island_range(work.islands, w, island)
    slope = lag.slope[w, island]
    slides = wp.where(slope > real(0.0), 1, 0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        seed[w, i] = -v_bar[w, i]
    sync()
    rest = solve_coupled(problem, work, lag, w, r, slides, 1, real(cg_adjoint), seed[w])
    if slope - slope != real(0.0) or not (rest <= wp.sqrt(real(cg_adjoint))):
        for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
            i = work.islands.dof[w, at]
            seed[w, i] = real(wp.nan)
