# SPDX-License-Identifier: Apache-2.0
"""The iteration under Coulomb's law (`lagged.py`) on islands in the shared memory of one warp (`small.py`).

Here `u` is J v; the law reads u − v̂. All lanes call every function together unless its docstring says otherwise.
"""

import warp as wp

from ...laws.bounds import box_impulse
from ...laws.coulomb import Linearised, coulomb_impulse, coulomb_newton
from ...linalg.lanes import lane, lanes, sync, team_count, team_max, team_sum, team_sum_3
from ...linalg.registers import (
    ROWS,
    team_A_times,
    team_inertias,
    team_newton_coupled,
    team_newton_symmetric,
    team_rates,
    team_three_forces,
)
from ...real import func, real, vec3
from ..problem import Problem, Solution
from .contact_laws import contact_rho
from .coupled import Lag
from .lagged import LEAST_SHARE, SHARE_AGAINST, SHARE_ALONG, TINY, force_miss
from .newton import Range
from .progress import MOST_SHARE, Balance
from .sap import Workspace, epsilon
from .small import Small, set_triple, set_velocity, small_island, triple, weighted_squares


@func
def take_loads(problem: Problem, work: Workspace, x: Small, w: int, r: Range):
    """Load the data that Coulomb's law needs besides `take_island`: ρ of constraints, loads of contacts."""
    team_inertias(x.J, x.n, 3 * x.contacts, x.scalars, x.D_sq, x.rho)
    x.before[lane()] = real(0.0)
    for at in range(lane(), ROWS, lanes()):
        x.miss[at] = real(0.0)
        x.delta[at] = real(0.0)
    c = lane()
    if c < x.contacts:
        at = work.islands.contact[w, r.contact_begin + c]
        x.weight[c] = contact_rho(problem, w, at)
        x.load[c] = problem.load[w, at]
        x.least[c] = problem.least[w, at]
    sync()


@func
def small_start_lagged(problem: Problem, work: Workspace, near: bool, solution: Solution, w: int, r: Range):
    """Initial state: v* without impulses; with `near`, v0 and the law's impulses at v0. Computes A v* in p_star."""
    x = small_island(r)
    set_velocity(problem, work, x, w, r, not near)
    team_A_times(x.Q, x.n, x.v_star, x.p_star)
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    c = lane()
    if c < x.contacts:
        gamma = vec3(real(0.0), real(0.0), real(0.0))
        if near:
            u = triple(x.u, c) - triple(x.v_hat, c)
            gamma = coulomb_impulse(u, triple(x.R, c), x.mu[c], x.load[c], x.least[c])
        set_triple(x.gamma, c, gamma)
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        gamma_k = real(0.0)
        if near:
            gamma_k = box_impulse((x.v_hat[at] - x.u[at]) / x.R[at], x.lower[k], x.upper[k])
        x.gamma[at] = gamma_k
    sync()


@func
def small_contact(x: Small, c: int, held: bool, bears: bool) -> Linearised:
    """Linearise the law of contact c at the present (v, γ). By one lane."""
    least = x.least[c]
    if not bears:
        least = real(1.0)
    u = triple(x.u, c) - triple(x.v_hat, c)
    return coulomb_newton(triple(x.gamma, c), u, triple(x.R, c), x.mu[c], x.load[c], least, x.weight[c], held)


@func
def small_row(x: Small, k: int) -> real:
    """G and δ of a scalar row at its (γ, v_c), as `linearise_row`; returns its miss. By one lane."""
    at = 3 * x.contacts + k
    R_k = x.R[at]
    gamma_k = x.gamma[at]
    rho = x.rho[k]
    if rho <= real(epsilon) * R_k:
        rho = R_k
    y_k = gamma_k - (x.u[at] - x.v_hat[at] + R_k * gamma_k) / rho
    held = box_impulse(y_k, x.lower[k], x.upper[k])
    x.row_G[k] = real(0.0)
    x.delta[at] = held - gamma_k
    if y_k > x.lower[k] and y_k < x.upper[k]:
        x.row_G[k] = real(1.0) / R_k
        x.delta[at] = (x.v_hat[at] - x.u[at]) / R_k - gamma_k
    return gamma_k - held


@func
def small_linearise_all(
    problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, held: bool, bears: bool
) -> Balance:
    """Linearise every constraint at the present (v, γ); compute Jᵀγ, A (v − v*) and Jᵀmiss; return the balance."""
    x = small_island(r)
    balance = Balance()
    x.dv[lane()] = x.v[lane()] - x.v_star[lane()]
    sync()
    team_A_times(x.Q, x.n, x.dv, x.m)
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    c = lane()
    if c < x.contacts:
        found = small_contact(x, c, held, bears)
        rho = x.weight[c]
        gamma = triple(x.gamma, c)
        x.G[c] = found.S
        x.p[c] = found.p
        set_triple(x.miss, c, found.miss)
        set_triple(x.delta, c, found.delta)
        balance.misses = rho * wp.dot(found.miss, found.miss)
        balance.impulses = rho * wp.dot(gamma, gamma)
        balance.error = rho * wp.length(found.miss)
        balance.force = force_miss(gamma[2], found.delta[2], rho)
        if found.p[0] != real(0.0) or found.p[1] != real(0.0):
            balance.slides = 1
    k = lane()
    if k < x.scalars:
        x.miss[3 * x.contacts + k] = small_row(x, k)
    sync()
    team_three_forces(x.J, x.rows, x.gamma, x.miss, x.delta, x.j_c, x.dp, x.dv)
    return small_sum_balance(work, x, w, r, balance)


@func
def small_sum_balance(work: Workspace, x: Small, w: int, r: Range, balance: Balance) -> Balance:
    """Compute the sums of `Balance`, as `sum_balance`."""
    i = lane()
    missed = x.dp[i]
    impulse = x.j_c[i] - missed
    sums = weighted_squares(x, x.m[i] - impulse, x.m[i] + x.p_star[i], impulse)
    work.norms[w, r.island] = sums
    balance.error = team_max(balance.error)
    balance.force = team_max(balance.force)
    others = team_sum_3(vec3(balance.misses, balance.impulses, x.D_sq[i] * missed * missed))
    balance.misses = others[0]
    balance.impulses = others[1]
    balance.slides = team_count(balance.slides)
    balance.momentum = sums[0]
    balance.scale = wp.max(sums[1], sums[2])
    share = balance.misses / wp.max(wp.max(balance.impulses, balance.scale), real(TINY))
    balance.law = wp.max(others[2], share * balance.scale)
    return balance


@func
def small_lagged_step(
    problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range, circling: bool,
    share_before: real, slides: int, forcing: real,
) -> real:  # fmt: skip
    """Advance v and γ by a share of the Newton step, as `lagged_step`; NaN if the equations have no solution."""
    x = small_island(r)
    i = lane()
    x.dv[i] = x.dv[i] + x.j_c[i] - x.m[i]
    sync()
    failed = slides
    if slides > 0:
        failed = team_newton_coupled(x.Q, x.J, x.G, x.p, x.row_G, x.scratch, x.first, x.n, x.contacts, x.scalars, x.dv)
    if slides == 0 or failed != 0:  # at worst with the symmetric part alone, which is positive definite
        failed = team_newton_symmetric(x.Q, x.J, x.G, x.row_G, x.scratch, x.first, x.n, x.contacts, x.scalars, x.dv)
    dv = x.dv[i]
    if failed != 0:
        dv = real(wp.nan)
    share = real(1.0)
    if circling:
        along = real(0.0)
        if x.dof >= 0:
            along = dv * x.before[i] / x.D_sq[i]
        share = wp.max(real(LEAST_SHARE), real(SHARE_AGAINST) * share_before)
        if team_sum(along) > real(0.0):
            share = wp.min(real(MOST_SHARE), real(SHARE_ALONG) * share_before)
    x.before[i] = dv
    team_rates(x.J, x.n, x.rows, x.dv, x.du)
    if i < x.contacts:
        rate = triple(x.du, i)
        change = triple(x.delta, i) - x.G[i] * rate - rate[2] * x.p[i]
        set_triple(x.gamma, i, triple(x.gamma, i) + share * change)
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        x.gamma[at] = x.gamma[at] + share * (x.delta[at] - x.row_G[k] * x.du[at])
    if x.dof >= 0:
        x.v[i] = x.v[i] + share * dv
    sync()
    return share


@func
def small_project(problem: Problem, work: Workspace, lag: Lag, solution: Solution, w: int, r: Range):
    """Project the impulses, at the last trial, on their cones and bounds; store u_c = J v − v̂."""
    x = small_island(r)
    team_rates(x.J, x.n, x.rows, x.v, x.u)
    c = lane()
    if c < x.contacts:
        work.u_c[w, work.islands.contact[w, r.contact_begin + c]] = triple(x.u, c) - triple(x.v_hat, c)
        set_triple(x.gamma, c, triple(x.gamma, c) - small_contact(x, c, False, True).miss)
    k = lane()
    if k < x.scalars:
        at = 3 * x.contacts + k
        work.row_u_c[w, work.islands.row[w, r.row_begin + k]] = x.u[at] - x.v_hat[at]
        x.gamma[at] = x.gamma[at] - small_row(x, k)
    sync()
