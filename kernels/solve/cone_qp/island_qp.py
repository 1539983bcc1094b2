# SPDX-License-Identifier: Apache-2.0
"""The quadratic program of compliant contact, island by island: a primal-dual interior-point method (theory §4).

    min ½ γᵀ(W + R)γ + (J v* − v̂)ᵀγ   over friction cones, half-lines, intervals and free rows,   W = J A⁻¹Jᵀ
    optimal: u = J v − v̂ + Rγ,  v = v* + A⁻¹Jᵀγ,  with u_c ∈ K_c*,  γ_cᵀu_c = 0,  u = 0 of free rows

R > 0 makes the program strictly convex, so a solution exists and no homogeneous embedding is needed.
One thread solves one island, in scaled impulses x with γ = b D x. D turns every cone into the second-order cone and
scales the largest entry of its block of D(W + R)D to 1; b = max |D(J v* − v̂)|. Trees without constraints keep v*.

- Mehrotra's predictor and corrector with Nesterov–Todd scaling of cones. A step costs one factorisation
  (`island_system.py`).
- Close to the solution, a few Newton steps on the natural map x = P_K(x − u) solve it exactly. They use the same linear
  system with the weights (1 − V)/V from the derivative V of P.
- The returned point lies in its cones. Its residual is the larger of the relative infeasibility of u and the relative
  gap |xᵀz|, in scaled impulses. A world's residual is that of its worst island.
"""

import numpy as np
import warp as wp

from ...flags import NONFINITE, NOT_CONVERGED
from ...real import func, kernel, real, vec2, vec3
from ..problem import Problem, Solution, clear_idle
from ..sap.newton import island_range
from .island_newton import NEWTON_BELOW, Options, try_newton
from .island_program import certify, clamp_row, has_lower, has_upper, scale_program
from .island_system import (
    REFINEMENTS,
    Island,
    Vc,
    Vr,
    Workspace,
    factor,
    factor_trees,
    is_fixed,
    multiply_by_H,
    push,
    solve_refined,
    turn,
    turn_back,
)
from .second_order_cone import (
    INFINITE,
    determinant,
    divide,
    longest_step,
    product,
    scaling_point,
    tangent,
)

# In order: fraction of the step to the boundary; step below which the method gives up; factor of Mehrotra's
# second-order term, which is weighted by this times the square of the affine step, at most 1 (in full after a short
# step it can cycle); factorizations that aim at the goal, not the tolerance; distance to the boundary at the initial
# point.
STEP_FRACTION = 0.99
SMALLEST_STEP = 1e-6
SECOND_ORDER = 20.0
GOAL_ITERATIONS = 20
INTERIOR = 1e-3
# Ω of the solve that gives the initial point. Jammed bodies bear impulses far above b, which Ω = 1 would exclude from
# the initial point. Where contacts bear next to nothing, 0.03 can be too far out: if the residual has not halved within
# PATIENCE factorisations, Ω = 1 is tried.
START = 0.03
NEAR_START = 1.0
PATIENCE = 4
# The affine direction only sets the target: one solve without refinement.
AFFINE_PASSES = 1

epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)


@func(inline=False)
def start_rows(work: Workspace, at: Island, omega: real):
    """Initial rows inside their bounds, with duals that balance the distances to them."""
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        lower = work.row[at.w, Vr.lower, k]
        upper = work.row[at.w, Vr.upper, k]
        x = work.row[at.w, Vr.dx, k]
        u = -omega * x
        above = real(1.0)
        below = real(1.0)
        z = real(1.0)
        if is_fixed(work, at.w, k):
            x = lower
        elif has_lower(work, at.w, k) and has_upper(work, at.w, k):
            room = real(0.5) * (upper - lower)
            margin = wp.min(real(1.0), room)
            x = wp.min(wp.max(x, lower + margin), upper - margin)
            above = wp.max(x - lower, margin)
            below = wp.max(upper - x, margin)
            z = real(1.0) / margin
        elif has_lower(work, at.w, k):
            x = wp.max(x, lower + real(1.0))
            above = x - lower
        elif has_upper(work, at.w, k):
            x = wp.min(x, upper - real(1.0))
            below = upper - x
        work.row[at.w, Vr.x, k] = x
        work.row[at.w, Vr.above, k] = above
        work.row[at.w, Vr.below, k] = below
        work.row[at.w, Vr.z_lower, k] = real(0.0)
        work.row[at.w, Vr.z_upper, k] = real(0.0)
        if has_lower(work, at.w, k):
            work.row[at.w, Vr.z_lower, k] = z + wp.max(u, real(0.0))
        if has_upper(work, at.w, k):
            work.row[at.w, Vr.z_upper, k] = z + wp.max(-u, real(0.0))


@func(inline=False)
def start(problem: Problem, work: Workspace, at: Island, omega: real) -> int:
    """Initial x and z from one solve with this Ω, moved into their cones; return 0 if it could be factored."""
    one = real(1.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.axis[at.w, c] = vec2(one, real(0.0))
        work.contact[at.w, Vc.omega, c] = omega * vec3(one, one, one)
        work.contact[at.w, Vc.rhs, c] = -turn(work.axis[at.w, c], problem.mu[at.w, c], work.contact[at.w, Vc.g, c])
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.omega, k] = omega
        work.row[at.w, Vr.rhs, k] = -work.row[at.w, Vr.g, k]
        if is_fixed(work, at.w, k):
            work.row[at.w, Vr.rhs, k] = real(0.0)
    if factor(problem, work, at) != 0:
        return 1
    solve_refined(problem, work, at, AFFINE_PASSES)
    margin_x = real(INFINITE)
    margin_z = real(INFINITE)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = turn_back(work.axis[at.w, c], problem.mu[at.w, c], work.contact[at.w, Vc.dx, c])
        work.contact[at.w, Vc.x, c] = x
        margin_x = wp.min(margin_x, x[2] - tangent(x))
        margin_z = wp.min(margin_z, omega * (-x[2] - tangent(x)))
    add_x = wp.where(margin_x <= real(INTERIOR), one - margin_x, real(0.0))
    add_z = wp.where(margin_z <= real(INTERIOR), one - margin_z, real(0.0))
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, Vc.x, c]
        work.contact[at.w, Vc.x, c] = vec3(x[0], x[1], x[2] + add_x)
        work.contact[at.w, Vc.z, c] = vec3(-omega * x[0], -omega * x[1], add_z - omega * x[2])
    start_rows(work, at, omega)
    return 0


@func
def clear_best(work: Workspace, at: Island):
    """Set `best` to zero impulses, or to the nearest bound."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        work.contact[at.w, Vc.best, work.islands.contact[at.w, i]] = vec3(real(0.0), real(0.0), real(0.0))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.best, k] = clamp_row(work, at.w, k, real(0.0))


@func(inline=False)
def residuals(problem: Problem, work: Workspace, at: Island) -> real:
    """r = Hx + g − z; return the mean of xᵀz."""
    multiply_by_H(problem, work, at, Vc.x, Vr.x, Vc.Hx, Vr.Hx)
    total = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        z = work.contact[at.w, Vc.z, c]
        work.contact[at.w, Vc.r, c] = work.contact[at.w, Vc.Hx, c] + work.contact[at.w, Vc.g, c] - z
        total += wp.dot(work.contact[at.w, Vc.x, c], z)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        z_lower = work.row[at.w, Vr.z_lower, k]
        z_upper = work.row[at.w, Vr.z_upper, k]
        work.row[at.w, Vr.r, k] = work.row[at.w, Vr.Hx, k] + work.row[at.w, Vr.g, k] - z_lower + z_upper
        if not is_fixed(work, at.w, k):
            total += work.row[at.w, Vr.above, k] * z_lower + work.row[at.w, Vr.below, k] * z_upper
    return total / at.degree


@func(inline=False)
def scale_step(problem: Problem, work: Workspace, at: Island) -> int:
    """Nesterov–Todd scaling at (x, z): Ω and λ; return 0 if a point has left its cone."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, Vc.x, c]
        z = work.contact[at.w, Vc.z, c]
        if not (determinant(x) > real(0.0) and determinant(z) > real(0.0) and x[2] > real(0.0) and z[2] > real(0.0)):
            return 0
        inverse_sq = wp.sqrt(determinant(z) / determinant(x))
        w_bar = scaling_point(x, z)
        r = tangent(w_bar)
        sharp = (w_bar[2] + r) * (w_bar[2] + r)
        a = vec2(real(1.0), real(0.0))
        if r > real(0.0):
            a = vec2(w_bar[0] / r, w_bar[1] / r)
        work.axis[at.w, c] = a
        work.contact[at.w, Vc.omega, c] = vec3(sharp * inverse_sq, inverse_sq / sharp, inverse_sq)
        if problem.mu[at.w, c] == real(0.0):
            work.contact[at.w, Vc.lam, c] = vec3(real(0.0), real(0.0), wp.sqrt(x[2] * z[2]))
        else:
            # Each component from that of x and z which is large along it.
            root = wp.sqrt(inverse_sq)
            sharp = wp.sqrt(sharp)
            down = real(0.5) * (a[0] * z[0] + a[1] * z[1] - z[2]) / (root * sharp)
            up = real(0.5) * (a[0] * x[0] + a[1] * x[1] + x[2]) * root / sharp
            across = real(0.5) * ((a[0] * x[1] - a[1] * x[0]) * root + (a[0] * z[1] - a[1] * z[0]) / root)
            along = down + up
            lam = vec3(along * a[0] - across * a[1], along * a[1] + across * a[0], up - down)
            work.contact[at.w, Vc.lam, c] = lam
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        omega = real(0.0)
        if not is_fixed(work, at.w, k):
            above = work.row[at.w, Vr.above, k]
            below = work.row[at.w, Vr.below, k]
            if not (above > real(0.0) and below > real(0.0)):
                return 0
            omega = work.row[at.w, Vr.z_lower, k] / above + work.row[at.w, Vr.z_upper, k] / below
        work.row[at.w, Vr.omega, k] = omega
    return 1


@func(inline=False)
def direction(problem: Problem, work: Workspace, at: Island, remain: real, passes: int):
    """Direction that leaves the share `remain` of the residuals: Δx (turned) and W⁻¹Δx."""
    reduce = real(1.0) - remain
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        rhs = -reduce * work.contact[at.w, Vc.r, c] - work.contact[at.w, Vc.shift, c]
        work.contact[at.w, Vc.rhs, c] = turn(work.axis[at.w, c], problem.mu[at.w, c], rhs)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        rhs_k = real(0.0)
        if not is_fixed(work, at.w, k):
            rhs_k = work.row[at.w, Vr.t_lower, k] - work.row[at.w, Vr.t_upper, k] - reduce * work.row[at.w, Vr.r, k]
        work.row[at.w, Vr.rhs, k] = rhs_k
    solve_refined(problem, work, at, passes)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        dx = work.contact[at.w, Vc.dx, c]
        omega = work.contact[at.w, Vc.omega, c]
        s = vec3(wp.sqrt(omega[0]) * dx[0], wp.sqrt(omega[1]) * dx[1], wp.sqrt(omega[2]) * dx[2])
        work.contact[at.w, Vc.s_x, c] = turn_back(work.axis[at.w, c], problem.mu[at.w, c], s)


@func
def ratio(a: real, d: real) -> real:
    """The largest α with a + αd ≥ 0."""
    if d < real(0.0):
        return -a / d
    return real(INFINITE)


@func
def s_z(work: Workspace, w: int, c: int) -> vec3:
    """WΔz = −λ − u − W⁻¹Δx."""
    return -work.contact[w, Vc.lam, c] - work.contact[w, Vc.u, c] - work.contact[w, Vc.s_x, c]


@func
def dz_lower(work: Workspace, w: int, k: int) -> real:
    share = work.row[w, Vr.z_lower, k] / work.row[w, Vr.above, k]
    return work.row[w, Vr.t_lower, k] - share * work.row[w, Vr.dx, k]


@func
def dz_upper(work: Workspace, w: int, k: int) -> real:
    share = work.row[w, Vr.z_upper, k] / work.row[w, Vr.below, k]
    return work.row[w, Vr.t_upper, k] + share * work.row[w, Vr.dx, k]


@func(inline=False)
def step_length(work: Workspace, at: Island) -> real:
    """The largest α that keeps x and z in their cones."""
    alpha = real(INFINITE)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        lam = work.contact[at.w, Vc.lam, c]
        alpha = wp.min(alpha, longest_step(lam, work.contact[at.w, Vc.s_x, c]))
        alpha = wp.min(alpha, longest_step(lam, s_z(work, at.w, c)))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            dx = work.row[at.w, Vr.dx, k]
            if has_lower(work, at.w, k):
                alpha = wp.min(alpha, ratio(work.row[at.w, Vr.above, k], dx))
                alpha = wp.min(alpha, ratio(work.row[at.w, Vr.z_lower, k], dz_lower(work, at.w, k)))
            if has_upper(work, at.w, k):
                alpha = wp.min(alpha, ratio(work.row[at.w, Vr.below, k], -dx))
                alpha = wp.min(alpha, ratio(work.row[at.w, Vr.z_upper, k], dz_upper(work, at.w, k)))
    return alpha


@func(inline=False)
def predict(problem: Problem, work: Workspace, at: Island) -> int:
    """Factor and compute the affine direction; return 0 on success."""
    if factor(problem, work, at) != 0:
        return 1
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.contact[at.w, Vc.u, c] = vec3(real(0.0), real(0.0), real(0.0))
        work.contact[at.w, Vc.shift, c] = work.contact[at.w, Vc.z, c]
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.t_lower, k] = -work.row[at.w, Vr.z_lower, k]
        work.row[at.w, Vr.t_upper, k] = -work.row[at.w, Vr.z_upper, k]
    direction(problem, work, at, real(0.0), AFFINE_PASSES)
    return 0


@func(inline=False)
def correct(problem: Problem, work: Workspace, at: Island, mean: real):
    """Centred second-order direction from the affine one; `mean` is the mean of xᵀz."""
    reach = wp.min(step_length(work, at), real(1.0))
    blocked = real(1.0) - reach
    second_order = wp.min(real(SECOND_ORDER) * reach * reach, real(1.0))
    sigma = blocked * blocked * blocked
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        mu = problem.mu[at.w, c]
        s = second_order * product(work.contact[at.w, Vc.s_x, c], s_z(work, at.w, c))
        u = divide(work.contact[at.w, Vc.lam, c], vec3(s[0], s[1], s[2] - sigma * mean))
        omega = work.contact[at.w, Vc.omega, c]
        root = vec3(wp.sqrt(omega[0]), wp.sqrt(omega[1]), wp.sqrt(omega[2]))
        a = work.axis[at.w, c]
        work.contact[at.w, Vc.u, c] = u
        shift = turn_back(a, mu, wp.cw_mul(root, turn(a, mu, u)))
        work.contact[at.w, Vc.shift, c] = work.contact[at.w, Vc.z, c] + shift
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            dx = work.row[at.w, Vr.dx, k]
            if has_lower(work, at.w, k):
                second = sigma * mean - second_order * dx * dz_lower(work, at.w, k)
                work.row[at.w, Vr.t_lower, k] = second / work.row[at.w, Vr.above, k] - work.row[at.w, Vr.z_lower, k]
            if has_upper(work, at.w, k):
                second = sigma * mean + second_order * dx * dz_upper(work, at.w, k)
                work.row[at.w, Vr.t_upper, k] = second / work.row[at.w, Vr.below, k] - work.row[at.w, Vr.z_upper, k]
    direction(problem, work, at, sigma, REFINEMENTS)


@func(inline=False)
def advance(problem: Problem, work: Workspace, at: Island, alpha: real):
    """Advance x, z and the distances to bounds by α times the direction."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        mu = problem.mu[at.w, c]
        a = work.axis[at.w, c]
        dx = work.contact[at.w, Vc.dx, c]
        curved = turn_back(a, mu, wp.cw_mul(work.contact[at.w, Vc.omega, c], dx))
        dz = -work.contact[at.w, Vc.shift, c] - curved
        work.contact[at.w, Vc.x, c] = work.contact[at.w, Vc.x, c] + alpha * turn_back(a, mu, dx)
        work.contact[at.w, Vc.z, c] = work.contact[at.w, Vc.z, c] + alpha * dz
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            dx_k = alpha * work.row[at.w, Vr.dx, k]
            if has_lower(work, at.w, k):
                dz_l = alpha * dz_lower(work, at.w, k)
                work.row[at.w, Vr.z_lower, k] = work.row[at.w, Vr.z_lower, k] + dz_l
                work.row[at.w, Vr.above, k] = work.row[at.w, Vr.above, k] + dx_k
            if has_upper(work, at.w, k):
                dz_u = alpha * dz_upper(work, at.w, k)
                work.row[at.w, Vr.z_upper, k] = work.row[at.w, Vr.z_upper, k] + dz_u
                work.row[at.w, Vr.below, k] = work.row[at.w, Vr.below, k] - dx_k
            work.row[at.w, Vr.x, k] = work.row[at.w, Vr.x, k] + dx_k


@func(inline=False)
def iterate(problem: Problem, work: Workspace, at: Island, options: Options) -> tuple[real, int]:
    """Run the interior-point method on one island; return (residual of `best`, factorisations)."""
    best = real(wp.inf)
    count = wp.int32(0)
    newton_level = real(NEWTON_BELOW)
    omega = real(START)
    halved = real(wp.inf)
    since = wp.int32(0)
    clear_best(work, at)
    running = 1 - start(problem, work, at, omega)
    while running == 1:
        aim = options.tolerance
        if count < GOAL_ITERATIONS:
            aim = options.goal
        mean = residuals(problem, work, at)
        best = certify(work, at, Vc.x, Vr.x, best)
        if best > aim and best < real(NEWTON_BELOW) and count < options.max_iterations:
            best, newton_level, steps = try_newton(
                problem, work, at, options, newton_level, options.max_iterations - count, best
            )
            count += steps
            mean = residuals(problem, work, at)
        since += 1
        if best < real(0.5) * halved:
            halved = best
            since = wp.int32(0)
        if best <= aim or newton_level == real(0.0) or count >= options.max_iterations:
            running = 0
        elif since >= PATIENCE and best > real(NEWTON_BELOW) and omega < real(NEAR_START):
            omega = real(NEAR_START)
            since = wp.int32(0)
            running = 1 - start(problem, work, at, omega)
        elif scale_step(problem, work, at) == 0:
            running = 0
        elif predict(problem, work, at) != 0:
            running = 0
        else:
            correct(problem, work, at, mean)
            count += 1
            alpha = wp.min(real(STEP_FRACTION) * step_length(work, at), real(1.0))
            if alpha > real(SMALLEST_STEP):
                advance(problem, work, at, alpha)
            else:
                running = 0
    if (
        best > options.goal
        and best < real(NEWTON_BELOW)
        and newton_level > real(0.0)
        and count < options.max_iterations
    ):
        residuals(problem, work, at)
        budget = options.max_iterations - count
        best, newton_level, steps = try_newton(problem, work, at, options, real(wp.inf), budget, best)
        count += steps
    return best, count


# Results ----------------------------------------------------------------------------------------------------------


@func(inline=False)
def recover(problem: Problem, work: Workspace, solution: Solution, at: Island):
    """γ = b D x and p = A⁻¹Jᵀγ; friction below the rounding of its bound μ γ_n becomes 0."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = at.b * work.contact[at.w, Vc.best, c]
        if tangent(x) <= real(epsilon) * x[2]:
            x = vec3(real(0.0), real(0.0), x[2])
        work.contact[at.w, Vc.best, c] = x
        solution.gamma[at.w, c] = wp.cw_mul(work.contact[at.w, Vc.D, c], x)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        x_k = at.b * work.row[at.w, Vr.best, k]
        work.row[at.w, Vr.best, k] = x_k
        solution.row_gamma[at.w, k] = clamp_impulse(problem, at.w, k, work.row[at.w, Vr.D, k] * x_k)
    push(problem, work, at, Vc.best, Vr.best)


@func
def clamp_impulse(problem: Problem, w: int, k: int, gamma: real) -> real:
    """Clamp an impulse so that at a bound it equals the bound exactly."""
    return wp.max(wp.min(gamma, problem.row_upper[w, k]), problem.row_lower[w, k])


@kernel
def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
    """Solve one island per thread for v and γ from (A, v*, J, R, v̂, μ) and the scalar rows.

    Launch over (worlds, trees).
    """
    w, island = wp.tid()
    if island >= work.islands.count[w]:
        return
    at = Island()
    at.w = w
    at.r = island_range(work.islands, w, island)
    residual = real(0.0)
    count = wp.int32(0)
    status = wp.int32(0)
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[w, k]
        for i in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
            work.p[w, i] = real(0.0)
            v = problem.v_star[w, i]
            if v - v != real(0.0):
                status = wp.int32(NONFINITE)
    if at.r.contact_end > at.r.contact_begin or at.r.row_end > at.r.row_begin:
        if status == 0 and factor_trees(problem, work, at) != 0:
            status = wp.int32(NONFINITE)
        if status == 0:
            at = scale_program(problem, work, at)
            if at.degree == real(0.0):
                status = wp.int32(NONFINITE)
        if status == 0:
            residual, count = iterate(problem, work, at, options)
            if not (residual <= options.accepted):
                status = wp.int32(NOT_CONVERGED)
            recover(problem, work, solution, at)
        else:
            residual = real(INFINITE)
            release(problem, work, solution, at)
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[w, k]
        for i in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
            solution.v[w, i] = problem.v_star[w, i] + work.p[w, i]
    work.residual[w, island] = residual
    work.iterations[w, island] = count
    work.status[w, island] = status


@func
def release(problem: Problem, work: Workspace, solution: Solution, at: Island):
    """Set all impulses of the island to 0."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        solution.gamma[at.w, work.islands.contact[at.w, i]] = vec3(real(0.0), real(0.0), real(0.0))
    for i in range(at.r.row_begin, at.r.row_end):
        solution.row_gamma[at.w, work.islands.row[at.w, i]] = real(0.0)
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[at.w, k]
        for i in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
            work.p[at.w, i] = real(0.0)


@kernel
def certify_world(problem: Problem, work: Workspace, solution: Solution):
    """Residual, iterations and status of the worst island of every world; γ = 0 in idle slots. Launch over worlds."""
    w = wp.tid()
    residual = real(0.0)
    iterations = wp.int32(0)
    status = wp.int32(0)
    for k in range(work.islands.count[w]):
        residual = wp.max(residual, work.residual[w, k])
        iterations = wp.max(iterations, work.iterations[w, k])
        status = status | work.status[w, k]
    clear_idle(problem, solution, w, 0, 1)
    solution.momentum_error[w] = residual
    solution.iterations[w] = iterations
    solution.status[w] = status
