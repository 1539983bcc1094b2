# SPDX-License-Identifier: Apache-2.0
"""SAP: the convex contact problem of one step, solved by Newton's method (Castro, Permenter, Han; theory §3).

    ℓ(v) = ½ (v − v*)ᵀ A (v − v*) + Σ ℓ_i(J_i v),   ∇ℓ = A (v − v*) − Jᵀγ(v),   H = A + JᵀGJ

One warp (on the CPU one thread) solves one island of one world (`islands.py`). It starts from v0 or v* and stops when
‖D∇ℓ‖ ≤ ε_a + ε_r max(‖D A v‖, ‖D Jᵀγ‖), D = diag(A)^(−1/2). A tree that no constraint acts on keeps v*.
The Newton system is solved directly (LᵀDL within an envelope, which keeps the sparsity of kinematic trees) or by
conjugate gradients without forming H (`newton.py`).
All lanes call every function together unless its docstring says otherwise (`linalg/lanes.py`).
Every sum runs in a fixed order inside one world, so a world's bits depend on that world only.

The iteration updates A(v − v*) and u_c = Jv − v̂ (each step adds α AΔv and α JΔv); it does not recompute them from v.
An impulse changes by R⁻¹ δu_c, so a recomputed Jv would put its rounding error, amplified by 1/R, into every residual.
The updated u_c = −Rγ settles to rounding relative to itself, and float32 reaches residuals of 10⁻⁶, also where v̂ is
large (a joint far beyond its stop). The price: u_c + v̂ and Jv differ by rounding, as if v̂ had changed by that much.
That rounding is relative to the largest v on the way, so both are recomputed once momenta have become far smaller.
A(v − v*) is recomputed again before the iteration ends: where A is nearly singular it differs by the rounding of A Δv,
and the certificate must be that of v.
"""

import numpy as np
import warp as wp

from ...flags import NONFINITE, NOT_CONVERGED
from ...laws.bounds import box_cost, box_hessian, box_impulse
from ...laws.cone import cone_cost, contact_regularization, contact_stabilization
from ...linalg.lanes import WARPS, lane, lanes, pace, sync, team_max, team_sum, team_sum_3
from ...linalg.team_loops import team_sparse_add, team_support_add
from ...real import BY_CG, SPIN, func, kernel, mat33, real, struct, vec3
from ..problem import Problem, Solution, clear_idle, is_idle
from .contact_laws import (
    convex_curvature_along,
    convex_impulse,
    convex_impulse_along,
    linearise_convex,
    point_slots,
)
from .islands import Islands
from .newton import Newton, Range, constraint_rates, copy_dofs, island_range, multiply_A, prepare, solve_prepared

LINE_SEARCHES = {"exact": 0, "backtracking": 1}

# Exact line search: α = 1 is accepted at once when |dℓ/dα| there is below this fraction of the slope at 0 (strong Wolfe
# condition, which keeps global and quadratic convergence); fractions from 0.5 to 1e-6 need the same iterations.
ACCEPTED_SLOPE = 0.1
# A root of dℓ/dα is refined to this fraction of the slope at 0.
ROOT_SLOPE = {wp.float32: 1e-4, wp.float64: 1e-10}
ROOT_TRIALS = 60
LARGEST_STEP = 16.0
# A tree with at most this many contacts starts from the free motion v*, not from the previous velocity: most of its
# contacts let go or slide. Trees that bear on each other do not: in a pile at v* every contact gives way, and contacts
# find their loads again one after the other.
FEW_CONTACTS = wp.constant(4)
# Backtracking (Castro et al., §IV-B): start, factor and Armijo constant.
BACKTRACK_START = 1.25
BACKTRACK_FACTOR = 0.8
ARMIJO = 1e-4
BACKTRACK_TRIALS = 60
# Below this multiple of the machine epsilon (relative to the energy scale) a decrease of the cost is lost in rounding;
# dℓ/dα is not, so the exact search takes over.
COST_EPSILONS = 1e2
# Rounding: a residual below this multiple of the machine epsilon that several iterations have not halved never will be.
STALL_EPSILONS = 1e3
STALL_SHRINK = 0.5
STALL_ITERATIONS = 10
# After this many iterations without halving, a residual below this multiple of the machine epsilon times ‖D |J|ᵀ|γ|‖ is
# accepted: where impulses oppose each other (a stop against a deep contact), the rounding of γ alone leaves as much in
# Jᵀγ.
OPPOSED_ITERATIONS = 3
OPPOSED_EPSILONS = 4.0
# A(v − v*) and u_c are recomputed when momenta have fallen to this fraction of the largest since the last time. Their
# rounding, relative to that largest, then counts a hundredfold (1e-5 in float32).
FRESH_FRACTION = 1e-2
# If each island meets the tolerance times this factor, the world meets it (A v may rule one island, Jᵀγ another).
SHARED_TOLERANCE = 0.5**0.5
# Conjugate gradients stop at this fraction of the first residual, or at √(present momentum error) if that is lower.
CG_FORCING = 0.1
CG_ADJOINT = {wp.float32: 1e-6, wp.float64: 1e-13}  # of an adjoint solve, which no later iteration corrects
# Statuses of islands left to another kernel: other initial states are to be tried; no kernel has tried the island yet.
UNDECIDED = wp.constant(1 << 16)
UNTRIED = wp.constant(1 << 17)

epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)
stall_level = epsilon * STALL_EPSILONS
opposed_level = epsilon * OPPOSED_EPSILONS
cost_level = epsilon * COST_EPSILONS
root_slope = ROOT_SLOPE[real]
cg_adjoint = CG_ADJOINT[real]


@struct
class Workspace:
    newton: Newton
    islands: Islands
    space: wp.array2d(dtype=real)  # (worlds, …) on the CPU: an island in the space of its rows (`space.py`)
    p_star: wp.array2d(dtype=real)  # (worlds, nv) A v*
    m: wp.array2d(dtype=real)  # (worlds, nv) A (v − v*)
    j_c: wp.array2d(dtype=real)  # (worlds, nv) Jᵀγ
    dv: wp.array2d(dtype=real)  # (worlds, nv) Newton step
    dp: wp.array2d(dtype=real)  # (worlds, nv) A Δv
    u_c: wp.array2d(dtype=vec3)  # (worlds, C) v_c − v̂
    dv_c: wp.array2d(dtype=vec3)  # (worlds, C)
    row_u_c: wp.array2d(dtype=real)  # (worlds, K)
    row_dv_c: wp.array2d(dtype=real)  # (worlds, K)
    norms: wp.array2d(dtype=vec3)  # (worlds, trees) ‖D∇ℓ‖², ‖D A v‖², ‖D Jᵀγ‖² of every island
    iterations: wp.array2d(dtype=int)  # (worlds, trees)
    status: wp.array2d(dtype=int)  # (worlds, trees)


@struct
class Options:
    tolerance: real  # ε_r
    absolute: real  # ε_a [√J]
    max_iterations: int
    line_search: int  # value of LINE_SEARCHES
    keep_factor: int  # 1: `keep_factor` runs afterwards, for gradients
    free_start: int  # 1: v* may be the initial guess


@struct
class Step:
    """A Newton step along its line: dℓ/dα at 0, ΔvᵀA(v − v*), ΔvᵀAΔv."""

    slope: real
    slope_A: real
    curvature_A: real
    slope_there: real  # dℓ/dα and, in the space of rows, d²ℓ/dα² at a trial α
    curvature_there: real


@func
def first_guess(problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range) -> bool:
    """Set v to v0, or to v* if allowed and few contacts of a single tree act; return whether it is v*."""
    few = r.tree_end - r.tree_begin == 1 and r.contact_end - r.contact_begin <= FEW_CONTACTS
    free = options.free_start == 1 and few
    copy_dofs(work.islands, w, r, problem.v0[w], solution.v[w])
    if free:
        copy_dofs(work.islands, w, r, problem.v_star[w], solution.v[w])
    return free


@func
def momentum(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*) at the present v."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        work.dv[w, i] = solution.v[w, i] - problem.v_star[w, i]
    sync()
    multiply_A(problem, work.islands, w, r, work.dv[w], work.m[w])


@func
def start(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range):
    """A (v − v*), A v*, J v − v̂ at the present v."""
    momentum(problem, work, solution, w, r)
    multiply_A(problem, work.islands, w, r, problem.v_star[w], work.p_star[w])
    constraint_rates(problem, work.islands, w, r, solution.v[w], work.u_c[w], work.row_u_c[w])
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        work.u_c[w, c] = work.u_c[w, c] - problem.v_hat[w, c]
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        work.row_u_c[w, k] = work.row_u_c[w, k] - problem.row_v_hat[w, k]
    sync()


@func
def residual(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> vec3:
    """Compute γ = P(y) and j_c = Jᵀγ at the present u_c; return the squares of ‖D∇ℓ‖, ‖D A v‖, ‖D j_c‖."""
    j_c = work.j_c[w]
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        j_c[i] = real(0.0)
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        solution.gamma[w, c] = convex_impulse(problem, work.u_c[w], w, c)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        y_k = -work.row_u_c[w, k] / problem.row_R[w, k]
        solution.row_gamma[w, k] = box_impulse(y_k, problem.row_lower[w, k], problem.row_upper[w, k])
    sync()
    for at in range(r.contact_begin, r.contact_end):
        c = work.islands.contact[w, at]
        gamma = solution.gamma[w, c]
        if gamma[0] != real(0.0) or gamma[1] != real(0.0) or gamma[2] != real(0.0):
            pair = problem.contact_pair[w, c]
            team_support_add(problem.J[w, c], problem.support[pair], problem.support_size[pair], gamma, j_c)
    for at in range(r.row_begin, r.row_end):
        k = work.islands.row[w, at]
        gamma_k = solution.row_gamma[w, k]
        team_sparse_add(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], gamma_k, j_c)
    sums = vec3()
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        D_sq = real(1.0) / problem.A[w, i, i - problem.dof_begin[i]]
        gradient = work.m[w, i] - j_c[i]
        momentum = work.m[w, i] + work.p_star[w, i]
        sums += D_sq * vec3(gradient * gradient, momentum * momentum, j_c[i] * j_c[i])
    return team_sum_3(sums)


@func
def opposing_impulses(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> real:
    """‖D |J|ᵀ|γ|‖, the size of the impulses whose sum is Jᵀγ. Overwrites dp."""
    total = work.dp[w]
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        total[work.islands.dof[w, at]] = real(0.0)
    sync()
    for at in range(r.contact_begin, r.contact_end):
        c = work.islands.contact[w, at]
        pair = problem.contact_pair[w, c]
        gamma = solution.gamma[w, c]
        for i in range(lane(), problem.support_size[pair], lanes()):
            d = problem.support[pair, i]
            for axis in range(3):
                total[d] = total[d] + wp.abs(problem.J[w, c, axis, i] * gamma[axis])
        sync()
    for at in range(r.row_begin, r.row_end):
        k = work.islands.row[w, at]
        for i in range(lane(), problem.row_support_size[k], lanes()):
            d = problem.row_support[k, i]
            total[d] = total[d] + wp.abs(problem.row_J[w, k, i] * solution.row_gamma[w, k])
        sync()
    square = real(0.0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        square += total[i] * total[i] / problem.A[w, i, i - problem.dof_begin[i]]
    return wp.sqrt(team_sum(square))


@func
def linearise(problem: Problem, work: Workspace, w: int, r: Range) -> int:
    """Compute G of every constraint at the present u_c and factor H, or CG's preconditioner; return 0 on success."""
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        linearise_convex(problem, work.newton.G[w], work.u_c[w], w, work.islands.contact[w, at])
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        R_k = problem.row_R[w, k]
        y_k = -work.row_u_c[w, k] / R_k
        work.newton.row_G[w, k] = box_hessian(y_k, R_k, problem.row_lower[w, k], problem.row_upper[w, k])
    sync()
    return prepare(problem, work.newton, work.islands, w, r)


@func
def newton_step(problem: Problem, work: Workspace, w: int, r: Range, forcing: real) -> Step:
    """Δv = −H⁻¹∇ℓ, Δp = AΔv, Δv_c = JΔv, and the step's slopes for the line search."""
    dv = work.dv[w]
    dp = work.dp[w]
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        dv[i] = work.j_c[w, i] - work.m[w, i]
    sync()
    solve_prepared(problem, work.newton, work.islands, w, r, forcing, dv)
    multiply_A(problem, work.islands, w, r, dv, dp)
    sums = vec3()
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        sums += dv[i] * vec3(work.m[w, i] - work.j_c[w, i], work.m[w, i], dp[i])
    sums = team_sum_3(sums)
    step = Step()
    step.slope = sums[0]
    step.slope_A = sums[1]
    step.curvature_A = sums[2]
    constraint_rates(problem, work.islands, w, r, dv, work.dv_c[w], work.row_dv_c[w])
    return step


@func
def line_slope(
    problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, step: Step, alpha: real
) -> real:
    """dℓ/dα = dℓ/dα(0) + α ΔvᵀAΔv − Σ Δv_cᵀ (γ(α) − γ(0)), which does not cancel near the solution."""
    slope = real(0.0)
    if lane() == 0:
        slope = step.slope + alpha * step.curvature_A
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        gamma = convex_impulse_along(problem, work.u_c[w], work.dv_c[w], alpha, w, c)
        slope -= wp.dot(work.dv_c[w, c], gamma - solution.gamma[w, c])
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        dv_c_k = work.row_dv_c[w, k]
        y_k = -(work.row_u_c[w, k] + alpha * dv_c_k) / problem.row_R[w, k]
        gamma_k = box_impulse(y_k, problem.row_lower[w, k], problem.row_upper[w, k])
        slope -= dv_c_k * (gamma_k - solution.row_gamma[w, k])
    return team_sum(slope)


@func
def line_curvature(problem: Problem, work: Workspace, w: int, r: Range, step: Step, alpha: real) -> real:
    """d²ℓ/dα² = ΔvᵀAΔv + Σ Δv_cᵀ G(α) Δv_c."""
    curvature = real(0.0)
    if lane() == 0:
        curvature = step.curvature_A
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        curvature += convex_curvature_along(problem, work.u_c[w], work.dv_c[w], alpha, w, c)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        R_k = problem.row_R[w, k]
        dv_c_k = work.row_dv_c[w, k]
        y_k = -(work.row_u_c[w, k] + alpha * dv_c_k) / R_k
        curvature += dv_c_k * dv_c_k * box_hessian(y_k, R_k, problem.row_lower[w, k], problem.row_upper[w, k])
    return team_sum(curvature)


@func
def cost_change(problem: Problem, work: Workspace, w: int, r: Range, step: Step, alpha: real) -> real:
    """ℓ(v + αΔv) − ℓ(v)."""
    change = real(0.0)
    if lane() == 0:
        change = alpha * step.slope_A + real(0.5) * alpha * alpha * step.curvature_A
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        R = problem.R[w, c]
        after = cone_cost(convex_impulse_along(problem, work.u_c[w], work.dv_c[w], alpha, w, c), R)
        change += after - cone_cost(convex_impulse(problem, work.u_c[w], w, c), R)
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        R_k = problem.row_R[w, k]
        lower = problem.row_lower[w, k]
        upper = problem.row_upper[w, k]
        u_c_k = work.row_u_c[w, k]
        after_k = box_cost(-(u_c_k + alpha * work.row_dv_c[w, k]) / R_k, R_k, lower, upper)
        change += after_k - box_cost(-u_c_k / R_k, R_k, lower, upper)
    return team_sum(change)


@func
def begin_line(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, step: Step) -> Step:
    """Data of the line before the search; here the step itself."""
    return step


@func
def try_line(
    problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, before: Step, alpha: real
) -> Step:
    """Add the slope at α to the line."""
    line = before
    line.slope_there = line_slope(problem, work, solution, w, r, line, alpha)
    return line


def exact_search(begin_line, try_line, line_curvature):
    """Build the exact line search from these functions."""

    @func
    def exact_line_search(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, step: Step) -> real:
        """α with dℓ/dα = 0: 1 if accepted, else safeguarded Newton in a bracket (rtsafe, Numerical Recipes §9.4)."""
        alpha = real(1.0)
        low = real(0.0)
        high = real(1.0)
        accepted = real(ACCEPTED_SLOPE)
        previous = real(0.0)
        trials = wp.int32(0)
        bracketed = bool(False)
        searching = bool(True)
        line = begin_line(problem, work, solution, w, r, step)
        while searching:
            line = try_line(problem, work, solution, w, r, line, alpha)
            slope = line.slope_there
            size = wp.abs(slope)
            if slope < real(0.0):
                low = alpha
            else:
                high = alpha
            if not bracketed:  # until the bracket holds a root
                if size <= accepted * -step.slope or (slope < real(0.0) and alpha >= real(LARGEST_STEP)):
                    searching = bool(False)
                elif slope < real(0.0):
                    alpha = real(2.0) * alpha
                    high = alpha
                else:
                    bracketed = bool(True)
                    previous = real(2.0) * size
                accepted = real(-1.0)  # the slope test accepts only α = 1
            if searching and bracketed:
                if (
                    trials == ROOT_TRIALS
                    or size <= real(root_slope) * -step.slope
                    or high - low <= real(epsilon) * high
                ):
                    searching = bool(False)
                else:
                    newton = alpha - slope / line_curvature(problem, work, w, r, line, alpha)
                    # Bisect when Newton leaves the bracket or does not halve the slope.
                    if newton > low and newton < high and size <= real(0.5) * previous:
                        alpha = newton
                    else:
                        alpha = real(0.5) * (low + high)
                    previous = size
                    trials += 1
        return alpha

    return exact_line_search


exact_line_search = exact_search(begin_line, try_line, line_curvature)


@func
def backtracking_line_search(problem: Problem, work: Workspace, w: int, r: Range, step: Step) -> real:
    """Point of 1.25 · 0.8ᵏ with the largest decrease that meets Armijo's rule: shorten while the cost falls."""
    alpha = real(BACKTRACK_START)
    shorter = alpha
    change = real(0.0)
    trials = wp.int32(0)
    walking = bool(True)
    while walking:
        shorter_change = cost_change(problem, work, w, r, step, shorter)
        walking = trials < BACKTRACK_TRIALS
        if trials > 0 and shorter_change > change and change < real(ARMIJO) * alpha * step.slope:
            walking = bool(False)
        else:
            alpha = shorter
            change = shorter_change
        shorter = real(BACKTRACK_FACTOR) * alpha
        trials += 1
    return alpha


@func
def advance(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range, alpha: real):
    """v ← v + αΔv; update A (v − v*) and u_c with it."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        solution.v[w, i] = solution.v[w, i] + alpha * work.dv[w, i]
        work.m[w, i] = work.m[w, i] + alpha * work.dp[w, i]
    for at in range(r.contact_begin + lane(), r.contact_end, lanes()):
        c = work.islands.contact[w, at]
        work.u_c[w, c] = work.u_c[w, c] + alpha * work.dv_c[w, c]
    for at in range(r.row_begin + lane(), r.row_end, lanes()):
        k = work.islands.row[w, at]
        work.row_u_c[w, k] = work.row_u_c[w, k] + alpha * work.row_dv_c[w, k]
    sync()


@func
def keep_free_motion(problem: Problem, work: Workspace, solution: Solution, w: int, r: Range) -> int:
    """Set v = v* and store ‖D A v*‖² for the certificate; return the status."""
    p = work.p_star[w]
    multiply_A(problem, work.islands, w, r, problem.v_star[w], p)
    lost = real(0.0)
    momentum_sq = real(0.0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        v = problem.v_star[w, i]
        solution.v[w, i] = v
        if v - v != real(0.0):
            lost = real(1.0)
        momentum_sq += p[i] * p[i] / problem.A[w, i, i - problem.dof_begin[i]]
    work.norms[w, r.island] = vec3(real(0.0), team_sum(momentum_sq), real(0.0))
    return wp.where(team_max(lost) != real(0.0), NONFINITE, 0)


def newton_method(
    first_guess, start, momentum, residual, opposing_impulses, linearise, newton_step, line_search, advance, exact=False
):
    """Build Newton's iteration from these functions.

    `exact`: `first_guess` starts too, and A (v − v*) is never updated.
    """
    after_step = wp.constant(int(exact))

    @func
    def iterate(
        problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range, tolerance: real
    ) -> int:
        """Run Newton's method on one island from its initial guess; return the status."""
        iterations = wp.int32(0)
        status = wp.int32(0)
        free = first_guess(problem, work, options, solution, w, r)
        best = real(0.0)
        largest = real(0.0)
        stalled = wp.int32(0)
        fresh = wp.int32(after_step)
        measured = wp.int32(after_step)  # 1: A (v − v*) is computed from the present v, not updated
        running = wp.int32(1)
        while running == 1:
            pace()
            if fresh == 0:
                start(problem, work, solution, w, r)
                fresh = 1
                measured = 1
            squares = residual(problem, work, solution, w, r)
            work.norms[w, r.island] = squares
            gradient = wp.sqrt(squares[0])
            scale = wp.sqrt(wp.max(squares[1], squares[2]))
            error = gradient
            if scale > real(0.0):
                error = gradient / scale
            total = squares[0] + squares[1] + squares[2]
            pace()
            # At v* all impulses are 0: an impulse below the tolerance would be left out in every time step.
            settled = gradient <= options.absolute + tolerance * scale
            if iterations == 0 or error < real(STALL_SHRINK) * best:
                best = error
                stalled = 0
            else:
                stalled += 1
            largest = wp.max(largest, scale)
            if total - total != real(0.0):
                status = wp.int32(NONFINITE)
                running = 0
            elif scale < real(FRESH_FRACTION) * largest:
                largest = scale
                fresh = 0
            elif (settled and (iterations > 0 or not free or gradient == real(0.0))) or (
                stalled >= OPPOSED_ITERATIONS
                and gradient <= real(opposed_level) * opposing_impulses(problem, work, solution, w, r)
            ):
                if measured == 1:
                    running = 0
                else:
                    momentum(problem, work, solution, w, r)
                    measured = 1
            elif iterations >= options.max_iterations or (stalled >= STALL_ITERATIONS and error < real(stall_level)):
                status = wp.int32(NOT_CONVERGED)
                running = 0
            elif linearise(problem, work, w, r) != 0:
                status = wp.int32(NOT_CONVERGED)
                running = 0
            else:
                forcing = wp.min(real(CG_FORCING), wp.sqrt(error))
                pace()
                step = newton_step(problem, work, w, r, forcing)
                pace()
                if step.slope < real(0.0):
                    alpha = line_search(problem, work, options, solution, w, r, step, scale)
                    advance(problem, work, solution, w, r, alpha)
                    measured = wp.int32(after_step)
                    iterations += 1
                else:
                    if not settled:
                        status = wp.int32(NOT_CONVERGED)
                    running = 0
        work.iterations[w, r.island] = iterations
        return status

    return iterate


@func
def any_line_search(
    problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range, step: Step, scale: real
) -> real:
    """Step length α by the line search that the options select."""
    alpha = real(1.0)
    if options.line_search == 1 and -step.slope > real(cost_level) * scale * scale:
        alpha = backtracking_line_search(problem, work, w, r, step)
    else:
        alpha = exact_line_search(problem, work, solution, w, r, step)
    return alpha


iterate_any = newton_method(
    first_guess, start, momentum, residual, opposing_impulses, linearise, newton_step, any_line_search, advance
)


@func
def island_tolerance(work: Workspace, options: Options, w: int) -> real:
    """ε_r for each island of the world."""
    return options.tolerance * wp.where(work.islands.count[w] > 1, real(SHARED_TOLERANCE), real(1.0))


@func
def is_free(r: Range) -> bool:
    """Whether the island has no contact and no active row."""
    return r.contact_end == r.contact_begin and r.row_end == r.row_begin


@func
def solve_island(problem: Problem, work: Workspace, options: Options, solution: Solution, w: int, r: Range):
    """Solve one island for v and γ."""
    if is_free(r):
        work.status[w, r.island] = keep_free_motion(problem, work, solution, w, r)
        work.iterations[w, r.island] = 0
    else:
        tolerance = island_tolerance(work, options, w)
        work.status[w, r.island] = iterate_any(problem, work, options, solution, w, r, tolerance)


@kernel(lanes=True, registers=128, warps=WARPS, fast_math=not BY_CG)
def solve(problem: Problem, work: Workspace, options: Options, solution: Solution, left: int):
    """Solve one island per warp for v and γ from (A, v*, J, R, v̂, μ) and the scalar rows.

    With `left` = 1 it solves only the islands that earlier kernels left undecided.

    Launch over (worlds, trees, lanes).
    """
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if left == 1 and work.status[w, island] < UNDECIDED:
        return
    tried = wp.int32(0)
    if left == 1:
        tried = work.iterations[w, island]
    solve_island(problem, work, options, solution, w, island_range(work.islands, w, island))
    tried += work.iterations[w, island]
    sync()
    work.iterations[w, island] = tried


@func
def clear_idle_slopes(problem: Problem, G: wp.array1d(dtype=mat33), w: int):
    """G = 0 in idle contacts."""
    slots = point_slots(problem)
    for c in range(lane(), wp.min(problem.contacts[w], slots), lanes()):
        if is_idle(problem, w, c):
            G[c] = mat33()
            if SPIN:
                G[slots + c] = mat33()
                G[slots + slots + c] = mat33()


@kernel(lanes=True, warps=WARPS)
def keep_factor(problem: Problem, work: Workspace):
    """Factor H at the solution, for `solve_adjoint`. Launch over (worlds, trees, lanes)."""
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    if island == 0:
        clear_idle_slopes(problem, work.newton.G[w], w)
    linearise(problem, work, w, island_range(work.islands, w, island))


@func
def certify_world(problem: Problem, work: Workspace, solution: Solution, w: int):
    """Combine the islands' norms, iterations and statuses into those of the world."""
    squares = vec3(real(0.0), real(0.0), real(0.0))
    iterations = wp.int32(0)
    status = wp.int32(0)
    for k in range(work.islands.count[w]):
        squares += work.norms[w, k]
        iterations = wp.max(iterations, work.iterations[w, k])
        status = status | work.status[w, k]
    error = wp.sqrt(squares[0])
    scale = wp.sqrt(wp.max(squares[1], squares[2]))
    if scale > real(0.0):
        error = error / scale
    if error - error != real(0.0):  # NaN, from invalid masses
        status = status | wp.int32(NOT_CONVERGED)
    solution.iterations[w] = iterations
    solution.momentum_error[w] = error
    solution.status[w] = status


@kernel(warps=WARPS)
def certify(problem: Problem, work: Workspace, solution: Solution):
    """Iterations, momentum error and status of every world; γ = 0 in idle slots and rows. Launch over worlds."""
    w = wp.tid()
    clear_idle(problem, solution, w, 0, 1)
    certify_world(problem, work, solution, w)


@kernel(lanes=True, warps=WARPS)
def solve_adjoint(problem: Problem, work: Workspace, v_bar: wp.array2d(dtype=real), seed: wp.array2d(dtype=real)):
    """seed = −H⁻¹ v̄ with the factor that `keep_factor` stored. Launch over (worlds, trees, lanes)."""
    w, island, _lane = wp.tid()
    if island >= work.islands.count[w]:
        return
    r = island_range(work.islands, w, island)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = work.islands.dof[w, at]
        seed[w, i] = -v_bar[w, i]
    sync()
    solve_prepared(problem, work.newton, work.islands, w, r, real(cg_adjoint), seed[w])


@kernel(warps=WARPS)
def regularize(
    # in
    w_effective: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    compliance: wp.array2d(dtype=real),
    tau_d: wp.array2d(dtype=real),
    h: real,
    beta: real,
    sigma: real,
    # out
    R: wp.array2d(dtype=vec3),
    v_hat: wp.array2d(dtype=vec3),
):
    """R and v̂ of every contact from its physical parameters."""
    w, c = wp.tid()
    R[w, c] = contact_regularization(w_effective[w, c], phi[w, c], compliance[w, c], tau_d[w, c], h, beta, sigma)
    v_hat[w, c] = contact_stabilization(phi[w, c], tau_d[w, c], h)
