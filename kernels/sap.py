"""SAP: the convex contact problem of one step, solved by Newton's method (Castro, Permenter, Han; theory §3).

    ℓ(v) = ½ (v − v*)ᵀ A (v − v*) + Σ ℓ_i(J_i v),   ∇ℓ = A (v − v*) − Jᵀγ(v),   H = A + JᵀGJ

One thread solves one world, from v0, until ‖D∇ℓ‖ ≤ ε_a + ε_r max(‖D A v‖, ‖D Jᵀγ‖), D = diag(A)^(−1/2). H is factored
as LᵀDL, which keeps the sparsity of kinematic trees; Jacobians are stored by the dofs that a contact touches (its support).
Every sum runs in a fixed order inside one world, so the bits of a world depend on nothing outside it.

A(v − v*) and u_c = Jv − v̂ are carried along the iteration (each step adds α AΔv and α JΔv) instead of being computed
anew from v: an impulse changes by R⁻¹ δu_c, so a fresh Jv would put its rounding error, amplified by 1/R, into every
residual. Carried, u_c = −Rγ settles to rounding relative to itself and float32 reaches residuals of 10⁻⁶, also where v̂
is large (a joint far beyond its stop); the price is that u_c + v̂ and Jv differ by rounding, a change of v̂ of that size.
"""

import functools
from types import SimpleNamespace

import numpy as np
import warp as wp

from warpsim.kernels.constraints import box, cone
from warpsim.kernels.linalg import ltdl, rows
from warpsim.kernels.precision import module_name, types

NOT_CONVERGED = 1  # bit of `status`: stopped above the tolerance
NON_FINITE = 2  # bit of `status`: a NaN or an infinity was met
LINE_SEARCHES = {"exact": 0, "backtracking": 1}

# Exact line search: α = 1 is taken at once when |dℓ/dα| there is below this fraction of the slope at 0 (the strong Wolfe
# condition, which keeps global and quadratic convergence); fractions from 0.5 to 1e-6 need the same iterations.
ACCEPTED_SLOPE = 0.1
# A root of dℓ/dα is refined to this fraction of the slope at 0.
ROOT_SLOPE = {wp.float32: 1e-4, wp.float64: 1e-10}
ROOT_TRIALS = 60
LARGEST_STEP = 16.0
# Backtracking (Castro et al., §IV-B): start, factor and Armijo constant.
BACKTRACK_START = 1.25
BACKTRACK_FACTOR = 0.8
ARMIJO = 1e-4
BACKTRACK_TRIALS = 60
# Below this multiple of the machine epsilon (relative to the energy scale) a decrease of the cost is lost in rounding;
# dℓ/dα is not, so the exact search takes over.
COST_EPSILONS = 1e2
# Round-off: below this multiple of the machine epsilon, a residual that some iterations have not halved never will be.
STALL_EPSILONS = 1e3
STALL_SHRINK = 0.5
STALL_ITERATIONS = 10


@functools.cache
def build(S) -> SimpleNamespace:
    """Structs `Problem`, `Workspace`, `Solution`, `Options` and kernels `solve`, `regularize` for scalar type S."""
    t = types(S)
    vec3 = t.vec3
    f_cone, f_box, f_ltdl = cone.build(S), box.build(S), ltdl.build(S)
    cone_impulse, cone_hessian, cone_cost = (
        f_cone.cone_impulse, f_cone.cone_hessian, f_cone.cone_cost,
    )  # fmt: skip
    box_impulse, box_hessian, box_cost = f_box.box_impulse, f_box.box_hessian, f_box.box_cost
    contact_regularization, contact_stabilization = f_cone.contact_regularization, f_cone.contact_stabilization
    ltdl_factor_envelope, ltdl_solve_envelope = f_ltdl.ltdl_factor_envelope, f_ltdl.ltdl_solve_envelope
    f_rows = rows.build(S)
    row_axpy, row_copy, row_fill = f_rows.row_axpy, f_rows.row_copy, f_rows.row_fill
    support_rate, support_add, support_add_gram = f_rows.support_rate, f_rows.support_add, f_rows.support_add_gram
    sparse_dot, sparse_add, sparse_add_gram = f_rows.sparse_dot, f_rows.sparse_add, f_rows.sparse_add_gram
    epsilon = float(np.finfo(wp.dtype_to_numpy(S)).eps)
    stall_level = epsilon * STALL_EPSILONS
    cost_level = epsilon * COST_EPSILONS
    root_slope = ROOT_SLOPE[S]

    @wp.struct
    class Problem:
        """Data of every world; C = max_contacts, M = max support, K = scalar rows."""

        A: wp.array3d(dtype=S)  # (worlds, nv, nv) SPD, both triangles; block diagonal
        block_start: wp.array(dtype=int)  # (nv,) first dof of the diagonal block of A that a dof is in; shared
        block_end: wp.array(dtype=int)  # (nv,) one past its last; shared
        v_star: wp.array2d(dtype=S)  # (worlds, nv) velocity of the free motion
        v0: wp.array2d(dtype=S)  # (worlds, nv) first guess
        contacts: wp.array(dtype=int)  # (worlds,) used contact slots
        contact_pair: wp.array2d(dtype=int)  # (worlds, C) row of the support tables
        support: wp.array2d(dtype=int)  # (pairs, M) dofs that a contact of the pair moves, ascending; shared
        support_size: wp.array(dtype=int)  # (pairs,); shared
        J: wp.array4d(dtype=S)  # (worlds, C, 3, M) rows t1, t2, n; columns: the support
        R: wp.array2d(dtype=vec3)  # (worlds, C) (Rt, Rt, Rn)
        v_hat: wp.array2d(dtype=vec3)  # (worlds, C)
        mu: wp.array2d(dtype=S)  # (worlds, C)
        row_support: wp.array2d(dtype=int)  # (K, Mr) dofs that a scalar row moves, ascending; shared
        row_support_size: wp.array(dtype=int)  # (K,); shared
        row_J: wp.array3d(dtype=S)  # (worlds, K, Mr); columns: the row's support
        row_R: wp.array2d(dtype=S)  # (worlds, K); ≤ 0: the row is not active
        row_v_hat: wp.array2d(dtype=S)  # (worlds, K)
        row_lower: wp.array2d(dtype=S)  # (worlds, K)
        row_upper: wp.array2d(dtype=S)  # (worlds, K)

    @wp.struct
    class Workspace:
        H: wp.array3d(dtype=S)  # (worlds, nv, nv) lower triangle: Hessian, then its LᵀDL factor
        first: wp.array2d(dtype=int)  # (worlds, nv) first non-zero of each row of H
        p_star: wp.array2d(dtype=S)  # (worlds, nv) A v*
        m: wp.array2d(dtype=S)  # (worlds, nv) A (v − v*)
        j_c: wp.array2d(dtype=S)  # (worlds, nv) Jᵀγ
        dv: wp.array2d(dtype=S)  # (worlds, nv) Newton step
        dp: wp.array2d(dtype=S)  # (worlds, nv) A Δv
        u_c: wp.array2d(dtype=vec3)  # (worlds, C) v_c − v̂
        dv_c: wp.array2d(dtype=vec3)  # (worlds, C)
        row_u_c: wp.array2d(dtype=S)  # (worlds, K)
        row_dv_c: wp.array2d(dtype=S)  # (worlds, K)

    @wp.struct
    class Solution:
        v: wp.array2d(dtype=S)  # (worlds, nv)
        gamma: wp.array2d(dtype=vec3)  # (worlds, C) impulses, 0 in unused slots
        row_gamma: wp.array2d(dtype=S)  # (worlds, K)
        iterations: wp.array(dtype=int)  # (worlds,)
        momentum_error: wp.array(dtype=S)  # (worlds,) ‖D∇ℓ‖ / max(‖D A v‖, ‖D Jᵀγ‖)
        status: wp.array(dtype=int)  # (worlds,) bits NOT_CONVERGED, NON_FINITE

    @wp.struct
    class Options:
        tolerance: S  # ε_r
        absolute: S  # ε_a [√J]
        max_iterations: int
        line_search: int  # value of LINE_SEARCHES
        keep_factor: int  # 1: leave the factor of H at the solution in the workspace

    @wp.struct
    class Step:
        """Newton step seen along its line: dℓ/dα at 0, ΔvᵀA(v − v*), ΔvᵀAΔv."""

        slope: S
        slope_A: S
        curvature_A: S

    @wp.func
    def contact_y(u_c: vec3, R: vec3) -> vec3:
        """y = −R⁻¹ u_c."""
        return vec3(-u_c[0] / R[0], -u_c[1] / R[1], -u_c[2] / R[2])

    @wp.func
    def constraint_rates(
        problem: Problem, w: int, contacts: int, x: wp.array1d(dtype=S),
        v_c: wp.array1d(dtype=vec3), row_v_c: wp.array1d(dtype=S),
    ):  # fmt: skip
        """v_c ← J x for every active constraint."""
        for c in range(contacts):
            pair = problem.contact_pair[w, c]
            v_c[c] = support_rate(problem.J[w, c], problem.support[pair], problem.support_size[pair], x)
        for k in range(problem.row_support.shape[0]):
            if problem.row_R[w, k] > S(0.0):
                row_v_c[k] = sparse_dot(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], x)

    @wp.func
    def start(problem: Problem, work: Workspace, solution: Solution, w: int, contacts: int):
        """v = v0, A (v0 − v*), A v*, J v0 − v̂."""
        nv = problem.v_star.shape[1]
        for i in range(nv):
            work.m[w, i] = S(0.0)
            work.p_star[w, i] = S(0.0)
            solution.v[w, i] = problem.v0[w, i]
        for i in range(nv):
            begin = problem.block_start[i]
            end = problem.block_end[i]
            row_axpy(problem.v0[w, i] - problem.v_star[w, i], problem.A[w, i], work.m[w], begin, end)
            row_axpy(problem.v_star[w, i], problem.A[w, i], work.p_star[w], begin, end)
        constraint_rates(problem, w, contacts, solution.v[w], work.u_c[w], work.row_u_c[w])
        for c in range(contacts):
            work.u_c[w, c] = work.u_c[w, c] - problem.v_hat[w, c]
        for k in range(problem.row_support.shape[0]):
            if problem.row_R[w, k] > S(0.0):
                work.row_u_c[w, k] = work.row_u_c[w, k] - problem.row_v_hat[w, k]

    @wp.func
    def residual(problem: Problem, work: Workspace, solution: Solution, w: int, contacts: int) -> vec3:
        """γ = P(y) and j_c = Jᵀγ at the present u_c; (‖D∇ℓ‖, ‖D A v‖, ‖D j_c‖)."""
        nv = problem.v_star.shape[1]
        j_c = work.j_c[w]
        for i in range(nv):
            j_c[i] = S(0.0)
        for c in range(contacts):
            R = problem.R[w, c]
            gamma = cone_impulse(contact_y(work.u_c[w, c], R), R, problem.mu[w, c])
            solution.gamma[w, c] = gamma
            if gamma[0] != S(0.0) or gamma[1] != S(0.0) or gamma[2] != S(0.0):
                pair = problem.contact_pair[w, c]
                support_add(problem.J[w, c], problem.support[pair], problem.support_size[pair], gamma, j_c)
        for k in range(problem.row_support.shape[0]):
            R_k = problem.row_R[w, k]
            if R_k > S(0.0):
                y_k = -work.row_u_c[w, k] / R_k
                gamma_k = box_impulse(y_k, problem.row_lower[w, k], problem.row_upper[w, k])
                solution.row_gamma[w, k] = gamma_k
                sparse_add(problem.row_J[w, k], problem.row_support[k], problem.row_support_size[k], gamma_k, j_c)
        gradient_sq = S(0.0)
        momentum_sq = S(0.0)
        impulse_sq = S(0.0)
        for i in range(nv):
            D_sq = S(1.0) / problem.A[w, i, i]
            gradient = work.m[w, i] - j_c[i]
            momentum = work.m[w, i] + work.p_star[w, i]
            gradient_sq += gradient * gradient * D_sq
            momentum_sq += momentum * momentum * D_sq
            impulse_sq += j_c[i] * j_c[i] * D_sq
        return vec3(wp.sqrt(gradient_sq), wp.sqrt(momentum_sq), wp.sqrt(impulse_sq))

    @wp.func
    def widen(first: wp.array1d(dtype=int), support: wp.array1d(dtype=int), size: int):
        """Let the envelope hold the rows of a constraint that joins diagonal blocks."""
        if size > 0 and support[0] < first[support[size - 1]]:
            for a in range(size):
                first[support[a]] = wp.min(first[support[a]], support[0])

    @wp.func
    def assemble(problem: Problem, work: Workspace, w: int, contacts: int):
        """Lower triangle of H = A + JᵀGJ at the present u_c."""
        H = work.H[w]
        for i in range(problem.v_star.shape[1]):
            begin = problem.block_start[i]
            row_fill(S(0.0), H[i], 0, begin)
            row_copy(problem.A[w, i], H[i], begin, i + 1)
            work.first[w, i] = begin
        for c in range(contacts):
            R = problem.R[w, c]
            G = cone_hessian(contact_y(work.u_c[w, c], R), R, problem.mu[w, c])
            if G[2, 2] != S(0.0):
                pair = problem.contact_pair[w, c]
                support = problem.support[pair]
                size = problem.support_size[pair]
                support_add_gram(problem.J[w, c], support, size, G, H)
                widen(work.first[w], support, size)
        for k in range(problem.row_support.shape[0]):
            R_k = problem.row_R[w, k]
            if R_k > S(0.0):
                y_k = -work.row_u_c[w, k] / R_k
                G_k = box_hessian(y_k, R_k, problem.row_lower[w, k], problem.row_upper[w, k])
                if G_k != S(0.0):
                    support_k = problem.row_support[k]
                    size_k = problem.row_support_size[k]
                    sparse_add_gram(problem.row_J[w, k], support_k, size_k, G_k, H)
                    widen(work.first[w], support_k, size_k)

    @wp.func
    def newton_step(problem: Problem, work: Workspace, w: int, contacts: int) -> Step:
        """Δv = −H⁻¹∇ℓ from the factor, Δp = AΔv, Δv_c = JΔv, and what the line search needs of them."""
        nv = problem.v_star.shape[1]
        dv = work.dv[w]
        for i in range(nv):
            dv[i] = work.j_c[w, i] - work.m[w, i]
        ltdl_solve_envelope(work.H[w], nv, work.first[w], dv)
        dp = work.dp[w]
        for i in range(nv):
            dp[i] = S(0.0)
        for i in range(nv):
            row_axpy(dv[i], problem.A[w, i], dp, problem.block_start[i], problem.block_end[i])
        step = Step()
        for i in range(nv):
            step.slope += dv[i] * (work.m[w, i] - work.j_c[w, i])
            step.slope_A += dv[i] * work.m[w, i]
            step.curvature_A += dv[i] * dp[i]
        constraint_rates(problem, w, contacts, dv, work.dv_c[w], work.row_dv_c[w])
        return step

    @wp.func
    def line_slope(
        problem: Problem, work: Workspace, solution: Solution, w: int, contacts: int, step: Step, alpha: S
    ) -> S:
        """dℓ/dα = dℓ/dα(0) + α ΔvᵀAΔv − Σ Δv_cᵀ (γ(α) − γ(0)), which does not cancel near the solution."""
        slope = step.slope + alpha * step.curvature_A
        for c in range(contacts):
            R = problem.R[w, c]
            dv_c = work.dv_c[w, c]
            y = contact_y(work.u_c[w, c] + alpha * dv_c, R)
            slope -= wp.dot(dv_c, cone_impulse(y, R, problem.mu[w, c]) - solution.gamma[w, c])
        for k in range(problem.row_support.shape[0]):
            R_k = problem.row_R[w, k]
            if R_k > S(0.0):
                dv_c_k = work.row_dv_c[w, k]
                y_k = -(work.row_u_c[w, k] + alpha * dv_c_k) / R_k
                gamma_k = box_impulse(y_k, problem.row_lower[w, k], problem.row_upper[w, k])
                slope -= dv_c_k * (gamma_k - solution.row_gamma[w, k])
        return slope

    @wp.func
    def line_curvature(problem: Problem, work: Workspace, w: int, contacts: int, step: Step, alpha: S) -> S:
        """d²ℓ/dα² = ΔvᵀAΔv + Σ Δv_cᵀ G(α) Δv_c."""
        curvature = step.curvature_A
        for c in range(contacts):
            R = problem.R[w, c]
            dv_c = work.dv_c[w, c]
            y = contact_y(work.u_c[w, c] + alpha * dv_c, R)
            curvature += wp.dot(dv_c, cone_hessian(y, R, problem.mu[w, c]) * dv_c)
        for k in range(problem.row_support.shape[0]):
            R_k = problem.row_R[w, k]
            if R_k > S(0.0):
                dv_c_k = work.row_dv_c[w, k]
                y_k = -(work.row_u_c[w, k] + alpha * dv_c_k) / R_k
                curvature += dv_c_k * dv_c_k * box_hessian(y_k, R_k, problem.row_lower[w, k], problem.row_upper[w, k])
        return curvature

    @wp.func
    def cost_change(problem: Problem, work: Workspace, w: int, contacts: int, step: Step, alpha: S) -> S:
        """ℓ(v + αΔv) − ℓ(v)."""
        change = alpha * step.slope_A + S(0.5) * alpha * alpha * step.curvature_A
        for c in range(contacts):
            R = problem.R[w, c]
            mu = problem.mu[w, c]
            u_c = work.u_c[w, c]
            after = cone_cost(cone_impulse(contact_y(u_c + alpha * work.dv_c[w, c], R), R, mu), R)
            change += after - cone_cost(cone_impulse(contact_y(u_c, R), R, mu), R)
        for k in range(problem.row_support.shape[0]):
            R_k = problem.row_R[w, k]
            if R_k > S(0.0):
                lower = problem.row_lower[w, k]
                upper = problem.row_upper[w, k]
                u_c_k = work.row_u_c[w, k]
                after_k = box_cost(-(u_c_k + alpha * work.row_dv_c[w, k]) / R_k, R_k, lower, upper)
                change += after_k - box_cost(-u_c_k / R_k, R_k, lower, upper)
        return change

    @wp.func
    def exact_line_search(
        problem: Problem, work: Workspace, solution: Solution, w: int, contacts: int, step: Step
    ) -> S:
        """α with dℓ/dα = 0: 1 when it is as good, else safeguarded Newton on a bracket (rtsafe, Numerical Recipes §9.4)."""
        alpha = S(1.0)
        slope = line_slope(problem, work, solution, w, contacts, step, alpha)
        if wp.abs(slope) <= S(ACCEPTED_SLOPE) * -step.slope:
            return alpha
        low = S(0.0)
        high = alpha
        while slope < S(0.0) and alpha < S(LARGEST_STEP):
            low = alpha
            alpha = S(2.0) * alpha
            high = alpha
            slope = line_slope(problem, work, solution, w, contacts, step, alpha)
        if slope < S(0.0):
            return alpha
        previous = S(2.0) * wp.abs(slope)
        for _trial in range(ROOT_TRIALS):
            size = wp.abs(slope)
            if size <= S(root_slope) * -step.slope or high - low <= S(epsilon) * high:
                break
            newton = alpha - slope / line_curvature(problem, work, w, contacts, step, alpha)
            # Bisect when Newton leaves the bracket or does not halve the slope.
            if newton > low and newton < high and size <= S(0.5) * previous:
                alpha = newton
            else:
                alpha = S(0.5) * (low + high)
            previous = size
            slope = line_slope(problem, work, solution, w, contacts, step, alpha)
            if slope < S(0.0):
                low = alpha
            else:
                high = alpha
        return alpha

    @wp.func
    def backtracking_line_search(problem: Problem, work: Workspace, w: int, contacts: int, step: Step) -> S:
        """Largest-decrease point of 1.25 · 0.8ᵏ that meets Armijo's rule: walk down while the cost falls."""
        alpha = S(BACKTRACK_START)
        change = cost_change(problem, work, w, contacts, step, alpha)
        for _trial in range(BACKTRACK_TRIALS):
            shorter = S(BACKTRACK_FACTOR) * alpha
            shorter_change = cost_change(problem, work, w, contacts, step, shorter)
            if shorter_change > change and change < S(ARMIJO) * alpha * step.slope:
                return alpha
            alpha = shorter
            change = shorter_change
        return alpha

    @wp.func
    def advance(problem: Problem, work: Workspace, solution: Solution, w: int, contacts: int, alpha: S):
        """v ← v + αΔv, and with it A (v − v*) and u_c."""
        for i in range(problem.v_star.shape[1]):
            solution.v[w, i] = solution.v[w, i] + alpha * work.dv[w, i]
            work.m[w, i] = work.m[w, i] + alpha * work.dp[w, i]
        for c in range(contacts):
            work.u_c[w, c] = work.u_c[w, c] + alpha * work.dv_c[w, c]
        for k in range(problem.row_support.shape[0]):
            if problem.row_R[w, k] > S(0.0):
                work.row_u_c[w, k] = work.row_u_c[w, k] + alpha * work.row_dv_c[w, k]

    @wp.func
    def clear_impulses(problem: Problem, solution: Solution, w: int, contacts: int) -> int:
        """γ = 0 in unused slots and inactive rows; 1 when something is active."""
        active = wp.int32(0)
        if contacts > 0:
            active = wp.int32(1)
        for c in range(contacts, solution.gamma.shape[1]):
            solution.gamma[w, c] = vec3(S(0.0), S(0.0), S(0.0))
        for k in range(problem.row_support.shape[0]):
            if problem.row_R[w, k] > S(0.0):
                active = wp.int32(1)
            else:
                solution.row_gamma[w, k] = S(0.0)
        return active

    @wp.func
    def copy_free_motion(problem: Problem, solution: Solution, w: int) -> int:
        """v = v*; the status."""
        status = wp.int32(0)
        for i in range(problem.v_star.shape[1]):
            v = problem.v_star[w, i]
            solution.v[w, i] = v
            if v - v != S(0.0):
                status = wp.int32(NON_FINITE)
        return status

    @wp.kernel(module=module_name("sap", S), enable_backward=False)
    def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
        """One world per thread: v and γ from (A, v*, J, R, v̂, μ) and the scalar rows."""
        w = wp.tid()
        nv = problem.v_star.shape[1]
        contacts = wp.min(problem.contacts[w], solution.gamma.shape[1])
        iterations = wp.int32(0)
        status = wp.int32(0)
        error = S(0.0)
        if clear_impulses(problem, solution, w, contacts) == 0:
            status = copy_free_motion(problem, solution, w)
        else:
            start(problem, work, solution, w, contacts)
            best = S(0.0)
            stalled = wp.int32(0)
            running = wp.int32(1)
            while running == 1:
                norms = residual(problem, work, solution, w, contacts)
                scale = wp.max(norms[1], norms[2])
                error = norms[0]
                if scale > S(0.0):
                    error = norms[0] / scale
                total = norms[0] + norms[1] + norms[2]
                if iterations == 0 or error < S(STALL_SHRINK) * best:
                    best = error
                    stalled = 0
                else:
                    stalled += 1
                if total - total != S(0.0):
                    status = wp.int32(NON_FINITE)
                    running = 0
                elif norms[0] <= options.absolute + options.tolerance * scale:
                    running = 0
                elif iterations >= options.max_iterations or (stalled >= STALL_ITERATIONS and error < S(stall_level)):
                    status = wp.int32(NOT_CONVERGED)
                    running = 0
                else:
                    assemble(problem, work, w, contacts)
                    if ltdl_factor_envelope(work.H[w], nv, work.first[w]) != 0:
                        status = wp.int32(NOT_CONVERGED)
                        running = 0
                    else:
                        step = newton_step(problem, work, w, contacts)
                        if step.slope < S(0.0):
                            alpha = S(1.0)
                            if options.line_search == 1 and -step.slope > S(cost_level) * scale * scale:
                                alpha = backtracking_line_search(problem, work, w, contacts, step)
                            else:
                                alpha = exact_line_search(problem, work, solution, w, contacts, step)
                            advance(problem, work, solution, w, contacts, alpha)
                            iterations += 1
                        else:
                            status = wp.int32(NOT_CONVERGED)
                            running = 0
        if options.keep_factor == 1:
            assemble(problem, work, w, contacts)
            ltdl_factor_envelope(work.H[w], nv, work.first[w])
        solution.iterations[w] = iterations
        solution.momentum_error[w] = error
        solution.status[w] = status

    @wp.kernel(module=module_name("sap", S), enable_backward=False)
    def regularize(
        # in
        w_effective: wp.array2d(dtype=S),
        phi: wp.array2d(dtype=S),
        compliance: wp.array2d(dtype=S),
        tau_d: wp.array2d(dtype=S),
        h: S,
        beta: S,
        sigma: S,
        # out
        R: wp.array2d(dtype=vec3),
        v_hat: wp.array2d(dtype=vec3),
    ):
        """R and v̂ of every contact from its physical parameters."""
        w, c = wp.tid()
        R[w, c] = contact_regularization(w_effective[w, c], phi[w, c], compliance[w, c], tau_d[w, c], h, beta, sigma)
        v_hat[w, c] = contact_stabilization(phi[w, c], tau_d[w, c], h)

    return SimpleNamespace(
        Problem=Problem, Workspace=Workspace, Solution=Solution, Options=Options, solve=solve, regularize=regularize
    )
