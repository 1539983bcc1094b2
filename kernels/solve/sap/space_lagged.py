# SPDX-License-Identifier: Apache-2.0
"""The iteration under Coulomb's law (`lagged.py`) in the space of constraint rows (`space.py`).

It starts from a few Gauss–Seidel sweeps over contacts and rows, which find most branches. Newton's method then solves
(I + G W) Δγ = δ; u = b + W γ holds throughout. An island that it does not solve is left to the iteration over
velocities, which has other initial states.

All lanes call every function together unless its docstring says otherwise.
"""

import warp as wp

from ...laws.bounds import box_impulse
from ...laws.cone import INVERSE_FOUR_PI_SQUARED
from ...laws.coulomb import Linearised, compression, compression_slope, coulomb_newton
from ...linalg.lanes import lane, lanes, sync, team_max, team_sum_3
from ...linalg.row_space import (
    team_space_add_one,
    team_space_add_three,
    team_space_newton,
    team_space_times,
)
from ...real import func, kernel, real, vec3
from ..problem import Problem, Solution
from .contact_laws import contact_rho
from .coupled import Lag
from .newton import Range, island_range
from .progress import Balance, begin, begin_again, holds_bounds, is_solved, judge
from .sap import (
    UNDECIDED,
    UNTRIED,
    Options,
    Workspace,
    epsilon,
    is_free,
    island_tolerance,
    keep_free_motion,
    opposed_level,
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

SWEEPS = wp.constant(4)  # before the first Newton step
# After so many Newton steps without progress, sweeps from the present impulses: this many, and each time twice as many.
PATIENCE = wp.constant(3)
MORE_SWEEPS = wp.constant(8)
MOST_RESTARTS = wp.constant(4)
# The rounding of opposing impulses, as a fraction of the bound on the error: v = v* + A⁻¹Jᵀγ has it in full.
MOST_OPPOSED = 0.5
TINY = 1e-30  # [J]
# A solution's normal impulse may be off by this fraction, or by the tolerance as a velocity of contact with R = w/400,
# a tenth of the R of near-rigid contact with default parameters.
FORCE_ERROR = 1e-2
FORCE_SOFTNESS = 0.1 * INVERSE_FOUR_PI_SQUARED


@func
def force_miss(gamma_n: real, delta_n: real, rho: real) -> real:
    """Square of R δ/√ρ [√J] with R = ρ/400; δ = `delta_n` is the law's correction of γ_n at the present v.

    It is 0 if δ is below a fraction of γ_n. A contact that stiffens under its load gives far more impulse for a
    velocity than its ρ says: 10⁶ times under 10⁴ times its own mass.
    """
    square = real(0.0)
    if wp.abs(delta_n) > real(FORCE_ERROR) * gamma_n:
        share = real(FORCE_SOFTNESS) * delta_n
        square = rho * share * share
    return square


@func
def row_inertia(problem: Problem, w: int, k: int) -> real:
    """ρ of a scalar row: Σ J²/A_dd [1/kg]. By one lane."""
    total = real(0.0)
    for i in range(problem.row_support_size[k]):
        d = problem.row_support[k, i]
        total += problem.row_J[w, k, i] * problem.row_J[w, k, i] / problem.A[w, d, d - problem.dof_begin[d]]
    return total


@func
def take_loads(problem: Problem, work: Workspace, s: Space, w: int, r: Range):
    """Load ρ of constraints and loads of contacts; ρ of a scalar row is Σ J²/A_dd."""
    for k in range(lane(), s.contacts, lanes()):
        c = work.islands.contact[w, r.contact_begin + k]
        s.rho[3 * k] = contact_rho(problem, w, c)
        s.load[3 * k] = problem.load[w, c]
        s.least[3 * k] = problem.least[w, c]
    for k in range(lane(), s.scalars, lanes()):
        row = 3 * s.contacts + k
        rho = row_inertia(problem, w, work.islands.row[w, r.row_begin + k])
        if rho <= real(epsilon) * s.R[row]:
            rho = s.R[row]
        s.rho[row] = rho
    sync()


@func
def sweep_contact(s: Space, k: int):
    """Solve the law of one contact, normal first, at the impulses of all others."""
    row = 3 * k
    gamma = triple(s.gamma, k)
    u = triple(s.u, k) - triple(s.v_hat, k)
    R_t = s.R[row]
    R_n = s.R[row + 2]
    load = s.load[row]
    least = s.least[row]
    at = row * s.wide + row
    W_n = s.W[at + 2 * s.wide + 2]
    W_t = wp.max(s.W[at], s.W[at + s.wide + 1])
    gap = u[2] + compression(gamma[2], R_n, load, least)
    gamma_n = wp.max(real(0.0), gamma[2] - gap / (W_n + compression_slope(gamma[2], R_n, load, least)))
    change_n = gamma_n - gamma[2]
    inverse = real(1.0) / (W_t + R_t)
    gamma_0 = gamma[0] - (u[0] + s.W[at + 2] * change_n + R_t * gamma[0]) * inverse
    gamma_1 = gamma[1] - (u[1] + s.W[at + s.wide + 2] * change_n + R_t * gamma[1]) * inverse
    bound = s.mu[row] * gamma_n
    square = gamma_0 * gamma_0 + gamma_1 * gamma_1
    if square > bound * bound:
        scale = bound / wp.sqrt(square)
        gamma_0 *= scale
        gamma_1 *= scale
    found = vec3(gamma_0, gamma_1, gamma_n)
    sync()
    set_triple(s.gamma, k, found)
    team_space_add_three(s.x, s.n, row, found - gamma)


@func
def sweep_row(s: Space, row: int):
    """Solve the law of one scalar row at the impulses of all others."""
    gamma = s.gamma[row]
    R = s.R[row]
    trial = gamma - (s.u[row] - s.v_hat[row] + R * gamma) / (s.W[row * s.wide + row] + R)
    found = box_impulse(trial, s.lower[row], s.upper[row])
    sync()
    s.gamma[row] = found
    team_space_add_one(s.x, s.n, row, found - gamma)


@func
def sweep(s: Space, count: int):
    """Gauss–Seidel sweeps from the present impulses."""
    for _turn in range(count):
        for k in range(s.contacts):
            sweep_contact(s, k)
        for row in range(3 * s.contacts, s.n):
            sweep_row(s, row)


@func
def linearise_contact(s: Space, k: int, held: bool) -> Linearised:
    """Linearise the law of a contact at the present (u, γ). By one lane."""
    row = 3 * k
    u = triple(s.u, k) - triple(s.v_hat, k)
    return coulomb_newton(triple(s.gamma, k), u, triple(s.R, k), s.mu[row], s.load[row], s.least[row], s.rho[row], held)


@func
def linearise_space_row(s: Space, row: int) -> real:
    """G and δ of a scalar row at its (u, γ), as `linearise_row`; returns its miss. By one lane."""
    R = s.R[row]
    gamma = s.gamma[row]
    gap = s.u[row] - s.v_hat[row]
    trial = gamma - (gap + R * gamma) / s.rho[row]
    found = box_impulse(trial, s.lower[row], s.upper[row])
    s.G[3 * row] = real(0.0)
    s.delta[row] = found - gamma
    if trial > s.lower[row] and trial < s.upper[row]:
        s.G[3 * row] = real(1.0) / R
        s.delta[row] = -gap / R - gamma
    return gamma - found


@func
def linearise_space(s: Space, held: bool) -> Balance:
    """Linearise every constraint at the present (u, γ); return the balance."""
    balance = Balance()
    for k in range(lane(), s.contacts, lanes()):
        found = linearise_contact(s, k, held)
        rho = s.rho[3 * k]
        gamma = triple(s.gamma, k)
        G = found.S
        for axis in range(2):
            G[axis, 2] = found.p[axis]
        s.block[k] = G
        set_triple(s.miss, k, found.miss)
        set_triple(s.delta, k, found.delta)
        balance.misses += rho * wp.dot(found.miss, found.miss)
        balance.impulses += rho * wp.dot(gamma, gamma)
        balance.error = wp.max(balance.error, rho * wp.length(found.miss))
        balance.force = wp.max(balance.force, force_miss(gamma[2], found.delta[2], rho))
    for row in range(3 * s.contacts + lane(), s.n, lanes()):
        s.miss[row] = linearise_space_row(s, row)
        balance.opposing += s.rho[row] * s.gamma[row] * s.gamma[row]
    sync()
    sums = measure_space(s)
    balance.error = team_max(balance.error)
    balance.force = team_max(balance.force)
    others = team_sum_3(vec3(balance.misses, balance.impulses, balance.opposing))
    balance.misses = others[0]
    balance.impulses = others[1]
    balance.opposing = others[1] + others[2]
    balance.momentum = sums[0]
    balance.scale = wp.max(sums[1], sums[2])
    # The law's error is at least the scale times the misses' share of all impulses: misses may cancel in Jᵀmiss.
    share = balance.misses / wp.max(wp.max(balance.impulses, balance.scale), real(TINY))
    balance.law = wp.max(sums[0], share * balance.scale)
    return balance


@func
def space_step(s: Space) -> bool:
    """Advance γ and u by the Newton step; return whether its equations have a solution."""
    found = team_space_newton(s.x, s.n, s.contacts) == 0
    for row in range(lane(), s.n, lanes()):
        s.gamma[row] = s.gamma[row] + s.dgamma[row]
    sync()
    team_space_times(s.x, s.n, s.gamma, s.u)
    for row in range(lane(), s.n, lanes()):
        s.u[row] = s.u[row] + s.b[row]
    sync()
    return found


@func
def project_space(s: Space):
    """Project the impulses, at the last trial, on their cones and bounds."""
    for k in range(lane(), s.contacts, lanes()):
        set_triple(s.gamma, k, triple(s.gamma, k) - linearise_contact(s, k, False).miss)
    for row in range(3 * s.contacts + lane(), s.n, lanes()):
        s.gamma[row] = s.gamma[row] - linearise_space_row(s, row)
    sync()


@func
def iterate_space(
    problem: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int, r: Range, tolerance: real
) -> int:
    """Solve an island by Newton's method in the space of its rows; return the status, `UNDECIDED` if it did not."""
    take_space(problem, work, w, r)
    s = space_island(work, w, r)
    take_loads(problem, work, s, w, r)
    sweep(s, SWEEPS)
    x = begin(lag, r)
    x.status = wp.int32(UNDECIDED)
    running = bool(True)
    while running:
        held = holds_bounds(x.stalled, x.restarts)
        balance = linearise_space(s, held)
        x = judge(x, balance, options, tolerance, held)
        stuck = x.stalled >= PATIENCE
        if is_solved(x, options):
            lag.island_error[w, r.island] = balance.error
            opposed = real(opposed_level) * wp.sqrt(balance.opposing) > real(MOST_OPPOSED) * x.limit
            x.status = wp.where(opposed, UNDECIDED, 0)
            running = bool(False)
        elif x.lost or x.iterations >= options.max_iterations or (stuck and x.restarts >= MOST_RESTARTS):
            running = bool(False)
        elif stuck:
            sweep(s, MORE_SWEEPS << x.restarts)
            x = begin_again(x, 1)
        else:
            running = space_step(s)
            x.iterations += 1
            x.polished = wp.where(x.missed <= x.limit, 2, wp.max(x.polished, 1))
    if x.status == 0:
        x.status = accept_space(problem, work, s, solution, w, r, x.limit)
    work.iterations[w, r.island] = x.iterations
    return x.status


@func
def accept_space(problem: Problem, work: Workspace, s: Space, solution: Solution, w: int, r: Range, limit: real) -> int:
    """Give back v and γ; `UNDECIDED` if that v, rounded, misses the balance."""
    give_velocity(problem, work, s, solution, w, r)
    squares = work.norms[w, r.island]
    status = wp.int32(UNDECIDED)
    if wp.sqrt(squares[0]) <= limit:
        status = wp.int32(0)
        project_space(s)
        give_impulses(problem, work, s, solution, w, r)
    return status


@kernel(lanes=True, registers=128, fast_math=True)
def solve_space_lagged(problem: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, left: int):
    """Solve the islands that have few rows, before `lagged.solve_lagged` on a GPU. Launch over (worlds, trees, lanes).

    With `left` = 1 it takes only islands that the copy with fewer lanes left.
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if left == 1 and work.status[w, island] != UNTRIED:
        return
    r = island_range(work.islands, w, island)
    lag.island_error[w, island] = real(0.0)
    work.iterations[w, island] = wp.int32(0)
    if is_free(r):
        work.status[w, island] = keep_free_motion(problem, work, solution, w, r)
    elif is_in_space(problem, r):
        tolerance = island_tolerance(work, options, w)
        work.status[w, island] = iterate_space(problem, work, lag, options, solution, w, r, tolerance)
    else:
        work.status[w, island] = UNTRIED
