# SPDX-License-Identifier: Apache-2.0
"""Other initial states for the solver of Coulomb's law (`lagged.py`).

They come from passes over a convex problem, the surrogate, whose slips lag one pass behind, or are pseudo-random
("scattered").

All lanes call every function together unless its docstring says otherwise (`linalg/lanes.py`).
"""

import warp as wp

from ...laws.coulomb import compression, compression_slope
from ...linalg.lanes import lane, lanes, sync, team_sum
from ...real import SPIN, func, real, vec3
from ..problem import Problem, Solution
from .contact_laws import contact_rho, contact_u, is_spin, spin_entry, spin_rate
from .coupled import Lag
from .newton import Range, copy_dofs
from .sap import (
    CG_FORCING,
    Options,
    Workspace,
    advance,
    exact_line_search,
    linearise,
    momentum,
    newton_step,
    opposed_level,
    opposing_impulses,
    residual,
    start,
)

SURROGATE_TOLERANCE = 1e-2
SURROGATE_SHRINK = 0.7  # an error below this fraction of the least counts as progress
SURROGATE_ITERATIONS = wp.constant(30)
SURROGATE_MANY_ITERATIONS = wp.constant(100)
# Without a factorization, an island of more contacts than this always has one that does not settle. After this many
# Newton steps without progress, passes over the convex problem settle them (`relax_slips`).
MANY_CONTACTS = wp.constant(200)
MANY_PATIENCE = wp.constant(6)
LEAST_RELAXATION = 0.5
MOST_RELAXATION = 1.7  # below 2: some slips settle in one pass


@func
def is_large(lag: Lag, r: Range) -> bool:
    """Whether passes over the convex problem settle this island.

    It has too many contacts for steps without a factorization, which leave some contacts unsettled.
    """
    return lag.slip.shape[1] > 0 and r.contact_end - r.contact_begin > MANY_CONTACTS


@func
def slip_speed(problem: Problem, solution: Solution, w: int, c: int) -> real:
    """μ‖s‖ with s = u_t + R_t γ_t, the speed at which the convex law would lift the contact; 0 in spin rows.

    By one lane.
    """
    u = contact_u(problem, solution.v[w], w, c)
    R = problem.R[w, c]
    gamma = solution.gamma[w, c]
    s_0 = u[0] + R[0] * gamma[0]
    s_1 = u[1] + R[0] * gamma[1]
    square = s_0 * s_0 + s_1 * s_1
    mu = problem.mu[w, c]
    if SPIN:
        if is_spin(problem, c):
            mu = real(0.0)
        else:
            s = spin_rate(problem, solution.v[w], w, c) + R[0] * spin_entry(problem, solution.gamma[w], w, c)
            square = square + wp.dot(s, s)
    return mu * wp.sqrt(square)


@func
def relax_slips(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Next lagged slips of a large island, by Aitken's rule: a pass alone goes a fifth of the way to a fixed point."""
    along = real(0.0)
    square = real(0.0)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        change = slip_speed(problem, solution, w, c) - lag.slip[w, c]
        difference = change - lag.slip_change[w, c]
        along += lag.slip_change[w, c] * difference
        square += difference * difference
        lag.slip_change[w, c] = change
    along = team_sum(along)
    square = team_sum(square)
    share = real(1.0)
    if square > real(0.0):
        share = wp.clamp(-lag.relaxation[w, r.island] * along / square, real(LEAST_RELAXATION), real(MOST_RELAXATION))
    sync()
    lag.relaxation[w, r.island] = share
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        lag.slip[w, c] = wp.max(real(0.0), lag.slip[w, c] + share * lag.slip_change[w, c])
    sync()


@func
def lag_contact(problem: Problem, lag: Lag, w: int, c: int, gamma_n: real, slip: real):
    """R and v̂ of a contact in the convex problem, linearized at its impulse and lagged slip. By one lane."""
    R = problem.R[w, c]
    load = problem.load[w, c]
    least = problem.least[w, c]
    slope = compression_slope(gamma_n, R[2], load, least)
    rest = compression(gamma_n, R[2], load, least) - slope * gamma_n
    lag.R[w, c] = vec3(R[0], R[1], slope)
    lag.v_hat[w, c] = problem.v_hat[w, c] - vec3(real(0.0), real(0.0), slip + rest)


@func
def lag_surrogate(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Set up the convex problem that has Coulomb's solution if its v and γ equal the present ones.

    It has v̂_n − μ‖s‖ in place of v̂_n, and compression c linear in the impulse. In large islands contacts without load
    are also shifted by μ‖s‖: the convex law would else catch them at the height to which it lifts sliding contacts, and
    passes would not come to rest. A single pass, as initial state of Newton's method, does better without that shift.
    """
    if is_large(lag, r):
        relax_slips(problem, work, lag, solution, w, r)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        if not is_spin(problem, c):
            gamma_n = solution.gamma[w, c][2]
            slip = real(0.0)
            if is_large(lag, r):
                slip = lag.slip[w, c]
            elif gamma_n > real(0.0):
                slip = slip_speed(problem, solution, w, c)
            lag_contact(problem, lag, w, c, gamma_n, slip)
    sync()


def convex_passes(start, momentum, residual, opposing_impulses, linearise, newton_step, line_search, advance):
    """Build SAP's iteration on the convex problem from these functions."""

    @func
    def iterate(
        surrogate: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, precision: real
    ) -> int:
        """Iterate from the present v to an error of at most `precision`; return the number of iterations.

        Of an island without contacts, `norms` then holds the residual, from recomputed momenta.
        """
        start(surrogate, work, solution, w, r)
        most = wp.where(is_large(lag, r), SURROGATE_MANY_ITERATIONS, SURROGATE_ITERATIONS)
        iterations = wp.int32(0)
        stalled = wp.int32(0)
        best = real(wp.inf)
        last = bool(False)
        running = wp.int32(1)
        while running == 1:
            squares = residual(surrogate, work, solution, w, r)
            work.norms[w, r.island] = squares
            error = wp.sqrt(squares[0] / wp.max(squares[1], squares[2]))
            running = wp.int32(0)
            stalled += 1
            if error < real(SURROGATE_SHRINK) * best:
                best = error
                stalled = wp.int32(0)
            rounded = bool(False)  # whether opposing impulses prevent a smaller error
            if stalled > 0 and not last:
                rounded = wp.sqrt(squares[0]) <= real(opposed_level) * opposing_impulses(
                    surrogate, work, solution, w, r
                )
            if error > precision and iterations < most and not rounded and not last:
                if linearise(surrogate, work, w, r) == 0:
                    step = newton_step(surrogate, work, w, r, real(CG_FORCING))
                    if step.slope < real(0.0):
                        alpha = line_search(surrogate, work, solution, w, r, step)
                        advance(surrogate, work, solution, w, r, alpha)
                        iterations += 1
                        running = wp.int32(1)
            if running == 0 and not last and r.contact_end == r.contact_begin:
                momentum(surrogate, work, solution, w, r)
                last = bool(True)
                running = wp.int32(1)
        return iterations

    return iterate


iterate_convex = convex_passes(
    start, momentum, residual, opposing_impulses, linearise, newton_step, exact_line_search, advance
)


@func
def solve_surrogate(
    surrogate: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, precision: real
) -> int:
    """Solve the convex problem to `precision` from the previous pass's solution; return the number of iterations."""
    copy_dofs(work.islands, w, r, lag.v[w], solution.v[w])
    iterations = iterate_convex(surrogate, work, lag, solution, w, r, precision)
    copy_dofs(work.islands, w, r, solution.v[w], lag.v[w])
    return iterations


@func
def start_surrogate(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Set up the unlagged convex problem, starting from v0, or from v* where there are no contacts."""
    copy_dofs(work.islands, w, r, problem.v0[w], lag.v[w])
    if r.contact_end == r.contact_begin:
        copy_dofs(work.islands, w, r, problem.v_star[w], lag.v[w])
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        lag.R[w, c] = problem.R[w, c]
        lag.v_hat[w, c] = problem.v_hat[w, c]
        if is_large(lag, r):
            lag.slip[w, c] = real(0.0)
            lag.slip_change[w, c] = real(0.0)
    if is_large(lag, r):
        lag.relaxation[w, r.island] = real(1.0)
    sync()


@func
def is_scattered(restarts: int) -> bool:
    """Whether this restart is scattered: every second one is."""
    return restarts % 2 == 1


@func
def scattered(restarts: int, place: int) -> real:
    """A fixed pseudo-random number in [0, 2)."""
    return real(2.0) * real(wp.randf(wp.rand_init(restarts, place)))


@func
def scatter_start(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, restarts: int):
    """Start from v0 without impulses.

    From the second scattered start on, normal impulses are fixed pseudo-random multiples in [0, 2) of the impulse that
    would stop the contact alone.
    """
    copy_dofs(work.islands, w, r, problem.v0[w], solution.v[w])
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        gamma_n = real(0.0)
        if restarts > 1 and not is_spin(problem, c):
            u = contact_u(problem, problem.v_star[w], w, c)
            alone = wp.max(real(0.0), -u[2]) / contact_rho(problem, w, c)
            gamma_n = scattered(restarts, at - r.contact_begin) * alone
        solution.gamma[w, c] = vec3(real(0.0), real(0.0), gamma_n)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        solution.row_gamma[w, work.islands.row[w, at]] = real(0.0)
    sync()


@func
def copy_point(
    problem: Problem, work: Workspace, w: int, r: Range, v: wp.array1d(dtype=real), gamma: wp.array1d(dtype=vec3),
    row_gamma: wp.array1d(dtype=real), to_v: wp.array1d(dtype=real), to_gamma: wp.array1d(dtype=vec3),
    to_row_gamma: wp.array1d(dtype=real),
):  # fmt: skip
    """Copy velocities and impulses of an island."""
    copy_dofs(work.islands, w, r, v, to_v)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        to_gamma[c] = gamma[c]
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        to_row_gamma[k] = row_gamma[k]
    sync()


@func
def keep_point(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Keep the present velocities and impulses in case no other initial state comes nearer."""
    copy_point(
        problem, work, w, r, solution.v[w], solution.gamma[w], solution.row_gamma[w], lag.kept_v[w], lag.gamma[w],
        lag.row_gamma[w],
    )  # fmt: skip


@func
def give_back(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Make the kept point the solution; its error has still to be measured."""
    copy_point(
        problem, work, w, r, lag.kept_v[w], lag.gamma[w], lag.row_gamma[w], solution.v[w], solution.gamma[w],
        solution.row_gamma[w],
    )  # fmt: skip


@func
def surrogate_precision(lag: Lag, options: Options, r: Range, error: real) -> real:
    """The error at which a pass over the convex problem stops."""
    precision = real(SURROGATE_TOLERANCE)
    if r.contact_end == r.contact_begin:
        precision = real(0.3) * options.tolerance
    elif is_large(lag, r) and error < real(1.0):
        precision = wp.max(real(0.1) * error, real(0.3) * options.tolerance)
    return wp.min(precision, real(SURROGATE_TOLERANCE))


@func
def restart(
    problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int,
    r: Range, restarts: int, error: real, kept: real,
) -> int:  # fmt: skip
    """Set another initial state, from the lagged convex problem or scattered; return its iterations, at least 1.

    The present point is kept if its error is below that of the kept one.
    """
    iterations = wp.int32(0)
    if error < kept:
        keep_point(problem, work, lag, solution, w, r)
    if is_scattered(restarts) and not is_large(lag, r):
        scatter_start(problem, work, solution, w, r, restarts)
    else:
        if restarts == 0:
            start_surrogate(problem, work, lag, solution, w, r)
        precision = surrogate_precision(lag, options, r, error)
        iterations = solve_surrogate(surrogate, work, lag, solution, w, r, precision)
        lag_surrogate(problem, work, lag, solution, w, r)
    return wp.max(iterations, 1)
