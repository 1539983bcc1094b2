# SPDX-License-Identifier: Apache-2.0
"""Newton's method on the natural map x = P_K(x − u), u = Hx + g, which ends the interior point (`island_qp.py`).

It solves the same linear system as every interior-point step, with the weights Ω = (1 − V)/V from the derivative V of
P_K. Once the active set is right, one step solves the program to rounding.
"""

import warp as wp

from ...real import func, real, struct, vec2, vec3
from ..problem import Problem
from .island_program import certify, clamp_row
from .island_system import (
    REFINEMENTS,
    Island,
    Vc,
    Vr,
    Workspace,
    factor,
    is_fixed,
    largest,
    multiply_by_H,
    solve_refined,
    turn,
    turn_back,
)
from .second_order_cone import project, tangent

# Newton starts below this residual, and again each time the residual has fallen by NEWTON_AGAIN; steps per start; the
# smallest eigenvalue of V; the residual that counts as rounding; the growth that ends Newton.
NEWTON_BELOW = 1e-5
NEWTON_AGAIN = 0.01
NEWTON_STEPS = 3
NEWTON_FLOOR = 1e-7
NEWTON_EXACT = 2e-15
NEWTON_WORSE = 1e3


@struct
class Options:
    tolerance: real  # the residual that is requested
    goal: real  # the residual to aim at while that costs little
    accepted: real  # residual above which a world is flagged
    max_iterations: int


@func(inline=False)
def natural_map(problem: Problem, work: Workspace, at: Island) -> real:
    """max |x − P(x − u)| at `newton`, relative to max(1, max |x|); stores u in `r` and x − P(x − u) in `rhs`."""
    multiply_by_H(problem, work, at, Vc.newton, Vr.newton, Vc.Hx, Vr.Hx)
    residual = real(0.0)
    size = real(1.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, Vc.newton, c]
        u = work.contact[at.w, Vc.Hx, c] + work.contact[at.w, Vc.g, c]
        miss = x - project(x - u)
        work.contact[at.w, Vc.r, c] = u
        work.contact[at.w, Vc.rhs, c] = miss
        residual = wp.max(residual, largest(miss))
        size = wp.max(size, largest(x))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        x_k = work.row[at.w, Vr.newton, k]
        u_k = work.row[at.w, Vr.Hx, k] + work.row[at.w, Vr.g, k]
        miss_k = x_k - clamp_row(work, at.w, k, x_k - u_k)
        work.row[at.w, Vr.r, k] = u_k
        work.row[at.w, Vr.rhs, k] = miss_k
        residual = wp.max(residual, wp.abs(miss_k))
        size = wp.max(size, wp.abs(x_k))
    return residual / size


@func(inline=False)
def set_newton_weights(problem: Problem, work: Workspace, at: Island):
    """Ω = (1 − V)/V with V = P'(x − u), and the right-hand side −(1 + Ω)(x − P(x − u)), in the axes of the cones."""
    large = real(1.0) / real(NEWTON_FLOOR)
    zero = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        v = work.contact[at.w, Vc.newton, c] - work.contact[at.w, Vc.r, c]
        r = tangent(v)
        axis = vec2(real(1.0), zero)
        omega = vec3(zero, zero, zero)
        if r <= -v[2]:
            omega = vec3(large, large, large)
        elif r > v[2]:
            across = wp.max(real(0.5) * (v[2] + r) / r, real(NEWTON_FLOOR))
            omega = vec3(large, zero, (real(1.0) - across) / across)
            axis = vec2(v[0] / r, v[1] / r)
        miss = turn(axis, problem.mu[at.w, c], work.contact[at.w, Vc.rhs, c])
        work.axis[at.w, c] = axis
        work.contact[at.w, Vc.omega, c] = omega
        work.contact[at.w, Vc.rhs, c] = -miss - wp.cw_mul(omega, miss)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        v_k = work.row[at.w, Vr.newton, k] - work.row[at.w, Vr.r, k]
        omega_k = zero
        if v_k <= work.row[at.w, Vr.lower, k] or v_k >= work.row[at.w, Vr.upper, k]:
            omega_k = large
        work.row[at.w, Vr.omega, k] = omega_k
        work.row[at.w, Vr.rhs, k] = -(real(1.0) + omega_k) * work.row[at.w, Vr.rhs, k]
        if is_fixed(work, at.w, k):
            work.row[at.w, Vr.rhs, k] = zero


@func(inline=False)
def move_newton(problem: Problem, work: Workspace, at: Island):
    """`newton` += Δx; store its projection on the cones in `e`."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        dx = turn_back(work.axis[at.w, c], problem.mu[at.w, c], work.contact[at.w, Vc.dx, c])
        x = work.contact[at.w, Vc.newton, c] + dx
        work.contact[at.w, Vc.newton, c] = x
        work.contact[at.w, Vc.e, c] = project(x)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        x_k = work.row[at.w, Vr.newton, k] + work.row[at.w, Vr.dx, k]
        work.row[at.w, Vr.newton, k] = x_k
        work.row[at.w, Vr.e, k] = clamp_row(work, at.w, k, x_k)


@func(inline=False)
def newton(
    problem: Problem, work: Workspace, at: Island, options: Options, first: real, budget: int, residual: real
) -> tuple[real, int, real]:
    """Run Newton from the point `newton` with natural residual `first`, given u and x − P(x − u).

    Returns (least residual, factorisations, last natural residual).
    """
    best = residual
    steps = wp.min(budget, NEWTON_STEPS)
    count = wp.int32(0)
    last = first
    running = wp.int32(1)
    while running == 1 and count < steps:
        set_newton_weights(problem, work, at)
        count += 1
        if factor(problem, work, at) != 0:
            running = 0
        else:
            solve_refined(problem, work, at, REFINEMENTS)
            move_newton(problem, work, at)
            multiply_by_H(problem, work, at, Vc.e, Vr.e, Vc.Hx, Vr.Hx)
            best = certify(work, at, Vc.e, Vr.e, best)
            now = natural_map(problem, work, at)
            # Solved to rounding, diverged, or solved and no longer falling fast.
            if now <= real(NEWTON_EXACT) or not (now < real(NEWTON_WORSE) * first):
                running = 0
            elif best <= options.goal and now > real(0.1) * last:
                running = 0
            last = now
    return best, count, last


@func(inline=False)
def try_newton(
    problem: Problem, work: Workspace, at: Island, options: Options, level: real, budget: int, residual: real
) -> tuple[real, real, int]:
    """Run Newton from x if its natural residual is below `level`.

    Returns (least residual, next level, factorisations); the next level is 0 if x is solved to rounding.
    """
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.contact[at.w, Vc.newton, c] = work.contact[at.w, Vc.x, c]
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.newton, k] = work.row[at.w, Vr.x, k]
    natural = natural_map(problem, work, at)
    if not (natural < level):
        return residual, level, 0
    best, count, last = newton(problem, work, at, options, natural, budget, residual)
    next_level = real(NEWTON_AGAIN) * natural
    if last <= real(NEWTON_EXACT):
        next_level = real(0.0)
    return best, next_level, count
