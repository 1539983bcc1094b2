# SPDX-License-Identifier: Apache-2.0
"""Coulomb's law on islands that one warp holds: the iteration of `small_lagged.py` with the restarts of `surrogate.py`.

All lanes call every function together unless its docstring says otherwise.
"""

import warp as wp

from ...linalg.lanes import lane, lanes, sync
from ...linalg.registers import team_rates
from ...real import LANES, func, kernel, real, vec3
from ..problem import Problem, Solution
from .coupled import Lag
from .lagged import newton_method, solve_any
from .newton import Range, island_range
from .sap import UNTRIED, Options, Workspace, is_free, island_tolerance, keep_free_motion
from .small import (
    Small,
    give_point,
    is_small,
    set_triple,
    set_velocity,
    small_island,
    small_opposing_impulses,
    take_island,
    take_laws,
    triple,
)
from .small_convex import (
    small_advance,
    small_exact_search,
    small_linearise,
    small_momentum,
    small_newton_step,
    small_residual,
    small_start,
)
from .small_lagged import (
    small_lagged_step,
    small_linearise_all,
    small_project,
    small_start_lagged,
    take_loads,
)
from .surrogate import convex_passes, is_scattered, lag_contact, scattered, surrogate_precision

iterate_surrogate = convex_passes(
    small_start,
    small_momentum,
    small_residual,
    small_opposing_impulses,
    small_linearise,
    small_newton_step,
    small_exact_search,
    small_advance,
)


@func
def small_give_back(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """`give_back` on shared memory."""
    x = small_island(r)
    i = lane()
    sync()
    if x.dof >= 0:
        x.v[i] = lag.kept_v[w, work.islands.dof[w, r.slot_begin + x.dof]]
    if i < x.contacts:
        set_triple(x.gamma, i, lag.gamma[w, work.islands.contact[w, r.contact_begin + i]])
    if i < x.scalars:
        x.gamma[3 * x.contacts + i] = lag.row_gamma[w, work.islands.row[w, r.row_begin + i]]
    sync()


@func
def small_scatter(problem: Problem, work: Workspace, x: Small, w: int, r: Range, restarts: int):
    """`scatter_start` on shared memory."""
    set_velocity(problem, work, x, w, r, False)
    team_rates(x.J, x.n, x.rows, x.v_star, x.u)
    c = lane()
    if c < x.contacts:
        gamma_n = real(0.0)
        if restarts > 1:
            gamma_n = scattered(restarts, c) * wp.max(real(0.0), x.v_hat[3 * c + 2] - x.u[3 * c + 2]) / x.weight[c]
        set_triple(x.gamma, c, vec3(real(0.0), real(0.0), gamma_n))
    if c < x.scalars:
        x.gamma[3 * x.contacts + c] = real(0.0)
    sync()


@func
def small_pass(
    problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int,
    r: Range, first: bool, error: real,
) -> int:  # fmt: skip
    """One pass over the convex problem, lagged behind the previous pass unless `first`; returns its iterations."""
    x = small_island(r)
    i = lane()
    sync()
    if first:
        set_velocity(problem, work, x, w, r, x.contacts == 0)
    else:
        if x.dof >= 0:
            x.v[i] = lag.v[w, work.islands.dof[w, r.slot_begin + x.dof]]
        if i < x.contacts:
            at = work.islands.contact[w, r.contact_begin + i]
            set_triple(x.R, i, lag.R[w, at])
            set_triple(x.v_hat, i, lag.v_hat[w, at])
        sync()
    precision = surrogate_precision(lag, options, r, error)
    iterations = iterate_surrogate(surrogate, work, lag, solution, w, r, precision)
    sync()
    take_laws(problem, work, x, w, r)
    sync()
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    if x.dof >= 0:
        lag.v[w, work.islands.dof[w, r.slot_begin + x.dof]] = x.v[i]
    if i < x.contacts:
        gamma = triple(x.gamma, i)
        R_t = x.R[3 * i]
        s = triple(x.u, i) - triple(x.v_hat, i) + R_t * gamma
        slip = real(0.0)
        if gamma[2] > real(0.0):
            slip = x.mu[i] * wp.sqrt(s[0] * s[0] + s[1] * s[1])
        lag_contact(problem, lag, w, work.islands.contact[w, r.contact_begin + i], gamma[2], slip)
    sync()
    return iterations


@func
def small_restart(
    problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution, w: int,
    r: Range, restarts: int, error: real, kept: real,
) -> int:  # fmt: skip
    """`restart` on shared memory."""
    iterations = wp.int32(0)
    if error < kept:
        give_point(work, w, r, lag.kept_v[w], lag.gamma[w], lag.row_gamma[w])
    if is_scattered(restarts):
        small_scatter(problem, work, small_island(r), w, r, restarts)
    else:
        iterations = small_pass(
            problem, surrogate, work, lag, options, solution, w, r, restarts == 0, error
        )  # fmt: skip
    return wp.max(iterations, 1)


iterate_small = newton_method(
    False,
    small_start_lagged,
    small_linearise_all,
    small_opposing_impulses,
    small_lagged_step,
    small_restart,
    small_give_back,
    small_project,
)


@kernel(lanes=True, registers=168 if LANES == 32 else 144, fast_math=True)
def solve_small_lagged(
    problem: Problem, surrogate: Problem, work: Workspace, lag: Lag, options: Options, solution: Solution
):
    """Solve the islands that one warp holds, before `lagged.solve_lagged`. Launch over (worlds, trees, lanes)."""
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    r = island_range(work.islands, w, island)
    lag.island_error[w, island] = real(0.0)
    work.iterations[w, island] = wp.int32(0)
    if not is_small(r):
        work.status[w, island] = UNTRIED
    elif lanes() == 1:
        solve_any(problem, surrogate, work, lag, options, solution, w, r)
    elif is_free(r):
        work.status[w, island] = keep_free_motion(problem, work, solution, w, r)
    else:
        take_island(problem, work, w, r)
        take_loads(problem, work, small_island(r), w, r)
        tolerance = island_tolerance(work, options, w)
        work.status[w, island] = iterate_small(problem, surrogate, work, lag, options, solution, w, r, tolerance)
        give_point(work, w, r, solution.v[w], solution.gamma[w], solution.row_gamma[w])
