"""The quadratic program of compliant contact, island by island: a primal-dual interior point in the impulses (theory §4).

    min ½ γᵀ(W + R)γ + (J v* − v̂)ᵀγ   over friction cones, half-lines, intervals and free rows,   W = J A⁻¹Jᵀ
    optimal: u = J v − v̂ + Rγ,  v = v* + A⁻¹Jᵀγ,  with u_c ∈ K_c*,  γ_cᵀu_c = 0,  u = 0 of what is free

It is the method of `cone_qp.py` for programs that are strictly convex: R > 0, so a solution exists and no embedding is needed.
One thread solves one island, in scaled impulses x: γ = b D x, where D makes every cone the second-order cone and the largest entry
of its block of D(W + R)D one, and b = max |D(J v* − v̂)|. What nothing touches keeps v*.

- Mehrotra's predictor and corrector with Nesterov–Todd scaling of cones; a step costs one factorisation (`island_system.py`).
- Close to the solution a few Newton steps on the natural map x = P_K(x − u) end it exactly, by the same linear system with the
  weights (1 − V)/V from the derivative V of P.
- The point given back lies in its cones; its residual is the larger of the relative infeasibility of u and the relative gap
  |xᵀz|, in scaled impulses. A world's is that of its worst island.
"""

import warp as wp

from ...linalg.loops import sparse_add, sparse_dot, support_add, support_rate
from ...linalg.ltdl import ltdl_solve_block
from ...real import func, kernel, real, struct, vec2, vec3
from ..problem import NON_FINITE, NOT_CONVERGED, Problem, Solution
from ..sap.newton import island_range
from .island_system import (
    REFINEMENTS,
    Island,
    Vc,
    Vr,
    Workspace,
    factor,
    factor_trees,
    is_fixed,
    largest,
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
    project,
    scaling_point,
    tangent,
)

# As in `cone_qp.py`, where the reasons are.
STEP_FRACTION = 0.99
SMALLEST_STEP = 1e-6
SECOND_ORDER = 5.0
GOAL_ITERATIONS = 20
NEWTON_BELOW = 1e-5
NEWTON_AGAIN = 0.01
NEWTON_STEPS = 3
NEWTON_FLOOR = 1e-7
NEWTON_EXACT = 1e-13
NEWTON_WORSE = 1e3
INTERIOR = 1e-3
FLOOR = 1e-6
# The affine direction only says where to aim: one solve.
AFFINE_PASSES = 1
epsilon = 2.220446049250313e-16


@struct
class Options:
    tolerance: real  # of the residual: what is asked for
    goal: real  # what is aimed at for GOAL_ITERATIONS factorisations
    accepted: real  # residual above which a world is flagged
    max_iterations: int


# The scaled program ----------------------------------------------------------------------------------------------------


@func(inline=False)
def contact_scale(problem: Problem, work: Workspace, at: Island, c: int) -> vec3:
    """D of a contact: 1/√ of the largest diagonal entry of D(W + R)D with D = (1, 1, 1/μ); no tangents where μ = 0."""
    pair = problem.contact_pair[at.w, c]
    support = problem.support[pair]
    size = problem.support_size[pair]
    p = work.p[at.w]
    mu = problem.mu[at.w, c]
    axis_scale = real(1.0)
    first = wp.int32(2)
    if mu > real(0.0):
        first = wp.int32(0)
        axis_scale = real(1.0) / mu
    most = real(0.0)
    for axis in range(first, 3):
        unit = vec3(real(0.0), real(0.0), real(0.0))
        unit[axis] = real(1.0)
        seen = wp.int32(-1)
        for i in range(size):
            tree = problem.dof_tree[support[i]]
            if tree != seen:
                for d in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
                    p[d] = real(0.0)
                seen = tree
        support_add(problem.J[at.w, c], support, size, unit, p)
        seen = wp.int32(-1)
        for i in range(size):
            tree = problem.dof_tree[support[i]]
            if tree != seen:
                ltdl_solve_block(work.A_factor[at.w], problem.tree_v[tree], problem.tree_v[tree + 1], p)
                seen = tree
        rate = support_rate(problem.J[at.w, c], support, size, p)
        entry = rate[axis] + problem.R[at.w, c][axis]
        if axis == 2:
            entry = axis_scale * axis_scale * entry
        most = wp.max(most, entry)
    scale = real(1.0) / wp.sqrt(most)
    if mu > real(0.0):
        return vec3(scale, scale, scale * axis_scale)
    return vec3(real(0.0), real(0.0), scale)


@func(inline=False)
def row_scale(problem: Problem, work: Workspace, at: Island, k: int) -> real:
    """D of a row: 1/√(W + R)."""
    support = problem.row_support[k]
    size = problem.row_support_size[k]
    p = work.p[at.w]
    for i in range(size):
        tree = problem.dof_tree[support[i]]
        for d in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
            p[d] = real(0.0)
    sparse_add(problem.row_J[at.w, k], support, size, real(1.0), p)
    seen = wp.int32(-1)
    for i in range(size):
        tree = problem.dof_tree[support[i]]
        if tree != seen:
            ltdl_solve_block(work.A_factor[at.w], problem.tree_v[tree], problem.tree_v[tree + 1], p)
            seen = tree
    return real(1.0) / wp.sqrt(sparse_dot(problem.row_J[at.w, k], support, size, p) + problem.row_R[at.w, k])


@func(inline=False)
def scale_program(problem: Problem, work: Workspace, at: Island) -> Island:
    """D, g, b and the bounds; the degree is 0 where the data are not finite."""
    b = real(0.0)
    bad = real(0.0)
    at.degree = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        pair = problem.contact_pair[at.w, c]
        mu = problem.mu[at.w, c]
        D = contact_scale(problem, work, at, c)
        rate = support_rate(problem.J[at.w, c], problem.support[pair], problem.support_size[pair], problem.v_star[at.w])
        g = wp.cw_mul(D, rate - problem.v_hat[at.w, c])
        work.contact[at.w, Vc.D, c] = D
        work.contact[at.w, Vc.g, c] = g
        b = wp.max(b, largest(g))
        at.degree += real(1.0)
        total = g[0] + g[1] + g[2] + D[0] + D[2]
        bad += total - total
        if not (mu >= real(0.0) and mu - mu == real(0.0)):
            bad = real(1.0)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        D_k = row_scale(problem, work, at, k)
        rate_k = sparse_dot(
            problem.row_J[at.w, k], problem.row_support[k], problem.row_support_size[k], problem.v_star[at.w]
        )
        g_k = D_k * (rate_k - problem.row_v_hat[at.w, k])
        work.row[at.w, Vr.D, k] = D_k
        work.row[at.w, Vr.g, k] = g_k
        b = wp.max(b, wp.abs(g_k))
        at.degree += real(2.0)
        bad += (g_k + D_k) - (g_k + D_k)
    if b == real(0.0):
        b = real(1.0)
    at.b = b
    if bad != real(0.0):
        at.degree = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.contact[at.w, Vc.g, c] = work.contact[at.w, Vc.g, c] / b
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        D_k = work.row[at.w, Vr.D, k]
        work.row[at.w, Vr.g, k] = work.row[at.w, Vr.g, k] / b
        work.row[at.w, Vr.lower, k] = problem.row_lower[at.w, k] / (D_k * b)
        work.row[at.w, Vr.upper, k] = problem.row_upper[at.w, k] / (D_k * b)
    return at


@func
def has_lower(work: Workspace, w: int, k: int) -> bool:
    return work.row[w, Vr.lower, k] != real(-wp.inf)


@func
def has_upper(work: Workspace, w: int, k: int) -> bool:
    return work.row[w, Vr.upper, k] != real(wp.inf)


@func
def clamp_row(work: Workspace, w: int, k: int, x: real) -> real:
    """P x of a row; a fixed one is at its lower bound."""
    return wp.max(wp.min(x, work.row[w, Vr.upper, k]), work.row[w, Vr.lower, k])


@func(inline=False)
def certify(problem: Problem, work: Workspace, at: Island, x_c: int, x_r: int, best: real) -> real:
    """Residual of a point in its cones, whose Hx is known; kept in `best` where it is smaller."""
    size = real(FLOOR)
    value = real(0.0)
    gap = real(0.0)
    dual = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, x_c, c]
        Hx = work.contact[at.w, Vc.Hx, c]
        g = work.contact[at.w, Vc.g, c]
        u = Hx + g
        z = project(u)
        size = wp.max(size, wp.max(largest(Hx), largest(g)))
        value += wp.dot(x, Hx) + wp.abs(x[0] * g[0]) + wp.abs(x[1] * g[1]) + wp.abs(x[2] * g[2])
        dual = wp.max(dual, largest(u - z))
        gap += wp.abs(wp.dot(x, z))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            x_k = work.row[at.w, x_r, k]
            Hx_k = work.row[at.w, Vr.Hx, k]
            g_k = work.row[at.w, Vr.g, k]
            u_k = Hx_k + g_k
            size = wp.max(size, wp.max(wp.abs(Hx_k), wp.abs(g_k)))
            value += wp.abs(x_k * Hx_k) + wp.abs(x_k * g_k)
            if u_k > real(0.0) and has_lower(work, at.w, k):
                gap += u_k * (x_k - work.row[at.w, Vr.lower, k])
            elif u_k < real(0.0) and has_upper(work, at.w, k):
                gap -= u_k * (work.row[at.w, Vr.upper, k] - x_k)
            else:
                dual = wp.max(dual, wp.abs(u_k))
    residual = wp.max(dual / size, gap / wp.max(value, real(FLOOR)))
    total = gap + value  # max drops a NaN, a sum does not
    if residual < best and total - total == real(0.0):
        for i in range(at.r.contact_begin, at.r.contact_end):
            c = work.islands.contact[at.w, i]
            work.contact[at.w, Vc.best, c] = work.contact[at.w, x_c, c]
        for i in range(at.r.row_begin, at.r.row_end):
            k = work.islands.row[at.w, i]
            work.row[at.w, Vr.best, k] = work.row[at.w, x_r, k]
        return residual
    return best


# Newton on the natural map ---------------------------------------------------------------------------------------------


@func(inline=False)
def natural_map(problem: Problem, work: Workspace, at: Island) -> real:
    """max |x − P(x − u)| of `newton`; leaves u in `r` and x − P(x − u) in `rhs`."""
    multiply_by_H(problem, work, at, Vc.newton, Vr.newton, Vc.Hx, Vr.Hx)
    residual = real(0.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, Vc.newton, c]
        u = work.contact[at.w, Vc.Hx, c] + work.contact[at.w, Vc.g, c]
        miss = x - project(x - u)
        work.contact[at.w, Vc.r, c] = u
        work.contact[at.w, Vc.rhs, c] = miss
        residual = wp.max(residual, largest(miss))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        x_k = work.row[at.w, Vr.newton, k]
        u_k = work.row[at.w, Vr.Hx, k] + work.row[at.w, Vr.g, k]
        miss_k = x_k - clamp_row(work, at.w, k, x_k - u_k)
        work.row[at.w, Vr.r, k] = u_k
        work.row[at.w, Vr.rhs, k] = miss_k
        residual = wp.max(residual, wp.abs(miss_k))
    return residual


@func(inline=False)
def set_newton_weights(problem: Problem, work: Workspace, at: Island):
    """Ω = (1 − V)/V with V = P'(x − u), and the right-hand side −(1 + Ω)(x − P(x − u)), turned."""
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
    """`newton` += Δx; its projection on the cones in `e`."""
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
) -> tuple[real, int]:
    """Newton from `newton`, whose natural residual is `first`, u and x − P(x − u) known: (least residual, factorisations)."""
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
            best = certify(problem, work, at, Vc.e, Vr.e, best)
            now = natural_map(problem, work, at)
            # Solved to rounding, lost, or solved and no longer falling fast.
            if now <= real(NEWTON_EXACT) or not (now < real(NEWTON_WORSE) * first):
                running = 0
            elif best <= options.goal and now > real(0.1) * last:
                running = 0
            last = now
    return best, count


@func(inline=False)
def finish(
    problem: Problem, work: Workspace, at: Island, options: Options, level: real, budget: int, residual: real
) -> tuple[real, real, int]:
    """Newton from x if its natural residual is below `level`: (least residual, next level, factorisations)."""
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.contact[at.w, Vc.newton, c] = work.contact[at.w, Vc.x, c]
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.newton, k] = work.row[at.w, Vr.x, k]
    natural = natural_map(problem, work, at)
    if not (natural < level):
        return residual, level, 0
    best, count = newton(problem, work, at, options, natural, budget, residual)
    return best, real(NEWTON_AGAIN) * natural, count


# The interior point ----------------------------------------------------------------------------------------------------


@func(inline=False)
def start_rows(work: Workspace, at: Island):
    """Rows inside of their bounds, duals that balance the room to them."""
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        lower = work.row[at.w, Vr.lower, k]
        upper = work.row[at.w, Vr.upper, k]
        x = work.row[at.w, Vr.dx, k]
        u = -x
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
def start(problem: Problem, work: Workspace, at: Island) -> int:
    """x and z from one solve with Ω = 1, moved into their cones; 0 where it could be factored."""
    one = real(1.0)
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        work.axis[at.w, c] = vec2(one, real(0.0))
        work.contact[at.w, Vc.omega, c] = vec3(one, one, one)
        work.contact[at.w, Vc.rhs, c] = -turn(work.axis[at.w, c], problem.mu[at.w, c], work.contact[at.w, Vc.g, c])
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.omega, k] = one
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
        margin_z = wp.min(margin_z, -x[2] - tangent(x))
    add_x = wp.where(margin_x <= real(INTERIOR), one - margin_x, real(0.0))
    add_z = wp.where(margin_z <= real(INTERIOR), one - margin_z, real(0.0))
    for i in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, i]
        x = work.contact[at.w, Vc.x, c]
        work.contact[at.w, Vc.x, c] = vec3(x[0], x[1], x[2] + add_x)
        work.contact[at.w, Vc.z, c] = vec3(-x[0], -x[1], add_z - x[2])
        work.contact[at.w, Vc.best, c] = vec3(real(0.0), real(0.0), real(0.0))
    start_rows(work, at)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.best, k] = clamp_row(work, at.w, k, real(0.0))
    return 0


@func(inline=False)
def residuals(problem: Problem, work: Workspace, at: Island) -> real:
    """r = Hx + g − z; the mean of xᵀz."""
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
    """Nesterov–Todd scaling at (x, z): Ω and λ; 0 when a point has left its cone."""
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
            # Each component from the one of x, z that is large along it.
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
    """Direction that leaves `remain` of the residuals: Δx (turned) and W⁻¹Δx."""
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
    """The largest α that keeps everything in its cone."""
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
    """Factor, and the affine direction; 0 where it could be factored."""
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
    """The centred, second-order direction from the affine one; `mean`: of xᵀz."""
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
    """Everything ← everything + α direction."""
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
    """The method: (residual of `best`, factorisations)."""
    best = real(INFINITE)
    count = wp.int32(0)
    newton_level = real(NEWTON_BELOW)
    running = wp.int32(1)
    if start(problem, work, at) != 0:
        running = 0
    while running == 1:
        aim = options.tolerance
        if count < GOAL_ITERATIONS:
            aim = options.goal
        mean = residuals(problem, work, at)
        best = certify(problem, work, at, Vc.x, Vr.x, best)
        if best > aim and best < real(NEWTON_BELOW) and count < options.max_iterations:
            best, newton_level, steps = finish(
                problem, work, at, options, newton_level, options.max_iterations - count, best
            )
            count += steps
            mean = residuals(problem, work, at)
        if best <= aim or count >= options.max_iterations:
            running = 0
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
    return best, count


# Results ---------------------------------------------------------------------------------------------------------------


@func(inline=False)
def recover(problem: Problem, work: Workspace, solution: Solution, at: Island):
    """γ = b D x and v = v* + A⁻¹Jᵀγ; friction below the rounding of its bound μ γ_n is 0."""
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
    """An impulse at a bound is the bound to the bit."""
    return wp.max(wp.min(gamma, problem.row_upper[w, k]), problem.row_lower[w, k])


@kernel
def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
    """One island per thread: v and γ from (A, v*, J, R, v̂, μ) and the scalar rows. Launch over (worlds, trees)."""
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
                status = wp.int32(NON_FINITE)
    if at.r.contact_end > at.r.contact_begin or at.r.row_end > at.r.row_begin:
        if status == 0 and factor_trees(problem, work, at) != 0:
            status = wp.int32(NON_FINITE)
        if status == 0:
            at = scale_program(problem, work, at)
            if at.degree == real(0.0):
                status = wp.int32(NON_FINITE)
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
    """No impulses."""
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
    """The worst island of every world; γ = 0 where nothing acts. Launch over worlds."""
    w = wp.tid()
    residual = real(0.0)
    iterations = wp.int32(0)
    status = wp.int32(0)
    for k in range(work.islands.count[w]):
        residual = wp.max(residual, work.residual[w, k])
        iterations = wp.max(iterations, work.iterations[w, k])
        status = status | work.status[w, k]
    for c in range(solution.gamma.shape[1]):
        idle = c >= problem.contacts[w]
        if not idle:
            idle = problem.support_size[problem.contact_pair[w, c]] == 0
        if idle:
            solution.gamma[w, c] = vec3(real(0.0), real(0.0), real(0.0))
    for k in range(problem.row_support.shape[0]):
        if not (problem.row_R[w, k] > real(0.0)):
            solution.row_gamma[w, k] = real(0.0)
    solution.momentum_error[w] = residual
    solution.iterations[w] = iterations
    solution.status[w] = status
