# SPDX-License-Identifier: Apache-2.0
"""Quadratic programs over half-lines and friction cones: a primal-dual interior-point method (theory §4).

    min ½ xᵀHx + gᵀx   s.t.   A x ≥ q,   x_c ∈ K_c:  x ≥ 0,  or  μ x_n ≥ ‖x_t‖, x_n ≥ 0 in the order (t1, t2, n) or (t, n)
    optimal: u = Hx + g − Aᵀy,  u_c ∈ K_c*,  x_cᵀu_c = 0,  u = 0 outside cones,  y ≥ 0,  yᵀ(Ax − q) = 0

H is symmetric positive semidefinite, of any rank. One thread solves one world, in the scaled variables of
`scaling.py`, where every cone is the second-order cone.

- Homogeneous embedding with a quadratic cost (Goulart, Chen: Clarabel, §2): (x, y, s, z, τ, κ) where τ > 0 means the
  solution (x, y)/τ and κ > 0 a certificate that there is none. Mehrotra's predictor and corrector with Nesterov–Todd
  scaling; a direction costs one factorisation (`system.py`).
- Close to the solution a few Newton steps on the natural map x = P_K(x − u), y = P_+(y − v), v = Ax − q, end it exactly:
  the same linear system, with the weights (1 − V)/V from the derivative V of P.
- The point given back lies in its cones; its residual is the largest of the relative infeasibility of rows and duals and the
  relative gap |xᵀz| + |yᵀv|.

Cost per factorisation: n³/6 + m n² + m² n/2 multiply-adds and ten products with H and A.
"""

import warp as wp

from ...linalg.loops import row_axpy, row_copy, row_dot, row_fill
from ...real import func, kernel, real, struct, vec3
from . import scaling, second_order_cone
from .scaling import Problem, check, scale_problem
from .second_order_cone import determinant, divide, load, longest_step, product, project, scaling_point, store, tangent
from .system import (
    Vm,
    Vn,
    Workspace,
    World,
    factor,
    largest,
    rotate,
    rotate_back,
    set_axes,
    solve_refined,
    subtract_transposed,
)

NOT_CONVERGED = 1  # bit of `status`: x is the best point met, `residual` its own
NON_FINITE = scaling.NON_FINITE
INFEASIBLE = 4  # bit of `status`: no x meets the constraints (certified)
UNBOUNDED = scaling.UNBOUNDED

# Fraction of the step to the boundary, and the step at which the method gives up.
STEP_FRACTION = 0.99
SMALLEST_STEP = 1e-6
# Mehrotra's second-order term is weighted by this times the square of the affine step, at most 1: in full after a short
# step it can cycle for ever.
SECOND_ORDER = 5.0
# The method goes on to this fraction of the tolerance, for so many factorisations.
GOAL = {wp.float32: 0.3, wp.float64: 1e-2}
GOAL_ITERATIONS = 20
# Newton on the natural map starts below this residual, and again each time it has fallen by AGAIN; steps per start; the
# smallest eigenvalue of V; the residual that is rounding; the growth that ends it.
NEWTON_BELOW = {wp.float32: 1e-3, wp.float64: 1e-5}
NEWTON_AGAIN = 0.01
NEWTON_STEPS = 3
NEWTON_FLOOR = {wp.float32: 1e-4, wp.float64: 1e-7}
NEWTON_EXACT = {wp.float32: 1e-7, wp.float64: 1e-13}
NEWTON_WORSE = 1e3
# Certificates: κ > RATIO τ, and what should vanish is this small relative to what should not; looser in the end.
CERTIFICATE_RATIO = 1e2
CERTIFICATE = {wp.float32: 1e-4, wp.float64: 1e-7}
LAST_CERTIFICATE = {wp.float32: 1e-4, wp.float64: 1e-5}
# The initial point is moved into the cones when closer than this to their boundary.
INTERIOR = 1e-3
# Scaled data are of order 1; relative residuals are taken against this at least.
FLOOR = 1e-6
INFINITE = second_order_cone.INFINITE

goal = GOAL[real]
certificate = CERTIFICATE[real]
last_certificate = LAST_CERTIFICATE[real]
newton_below = NEWTON_BELOW[real]
newton_floor = NEWTON_FLOOR[real]
newton_exact = NEWTON_EXACT[real]


@struct
class Solution:
    x: wp.array2d(dtype=real)  # (worlds, n), 0 in unused variables
    y: wp.array2d(dtype=real)  # (worlds, m) duals of the rows
    z: wp.array2d(dtype=real)  # (worlds, n) duals of the cones: Hx + g = Aᵀy + z
    residual: wp.array(dtype=real)  # (worlds,)
    iterations: wp.array(dtype=int)  # (worlds,) factorisations
    status: wp.array(dtype=int)  # (worlds,) bits


@struct
class Options:
    tolerance: real  # of the residual
    accepted: real  # residual above which a world is flagged: the tolerance, or more where that is near rounding
    max_iterations: int


@func(inline=False)
def project_all(work: Workspace, at: World, x: wp.array1d(dtype=real)):
    """x_c ← P_K x_c in every cone."""
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        store(x, k, size, project(load(x, k, size)))


@func(inline=False)
def certify(
    work: Workspace, at: World, scale: real, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real), best: real
) -> real:
    """Residual of the point (x, y) scale, put into its cones; kept in `best_x`, `best_y` where it is smaller."""
    trial_x = work.vn[at.w, Vn.trial_x]
    trial_y = work.vm[at.w, Vm.trial_y]
    u = work.vn[at.w, Vn.e]
    z = work.vn[at.w, Vn.p]
    for i in range(at.n):
        trial_x[i] = scale * x[i]
    for i in range(at.m):
        trial_y[i] = wp.max(scale * y[i], real(0.0))
    project_all(work, at, trial_x)
    size = real(FLOOR)
    value = real(0.0)
    for i in range(at.n):
        Hx_i = row_dot(work.H[at.w, i], trial_x, 0, at.n)
        u[i] = Hx_i + work.vn[at.w, Vn.g, i]
        z[i] = u[i]
        size = wp.max(size, wp.max(wp.abs(Hx_i), wp.abs(work.vn[at.w, Vn.g, i])))
        value += trial_x[i] * Hx_i + wp.abs(trial_x[i] * work.vn[at.w, Vn.g, i])
    subtract_transposed(work, at, trial_y, u)
    for i in range(at.n):
        size = wp.max(size, wp.abs(z[i] - u[i]))
        z[i] = real(0.0)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size_c = work.size[at.w, c]
        store(z, k, size_c, project(load(u, k, size_c)))
    gap = wp.abs(row_dot(trial_x, z, 0, at.n))
    dual = real(0.0)
    for i in range(at.n):
        dual = wp.max(dual, wp.abs(u[i] - z[i]))
    primal = real(0.0)
    size_y = real(FLOOR)
    slack = real(0.0)
    for i in range(at.m):
        Ax_i = row_dot(work.A[at.w, i], trial_x, 0, at.n)
        v_i = Ax_i - work.vm[at.w, Vm.q, i]
        primal = wp.max(primal, -v_i)
        size_y = wp.max(size_y, wp.max(wp.abs(Ax_i), wp.abs(work.vm[at.w, Vm.q, i])))
        slack += trial_y[i] * v_i
    gap += wp.abs(slack)
    residual = wp.max(wp.max(primal / size_y, dual / size), gap / wp.max(value, real(FLOOR)))
    # max drops a NaN, a sum does not.
    total = gap + value
    if residual < best and total - total == real(0.0):
        row_copy(trial_x, work.vn[at.w, Vn.best_x], 0, at.n)
        row_copy(trial_y, work.vm[at.w, Vm.best_y], 0, at.m)
        return residual
    return best


@func(inline=False)
def natural_map(work: Workspace, at: World, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)) -> real:
    """max |x − P_K(x − u)|, |y − P_+(y − v)|; leaves u, v and, in r, x − P_K(x − u)."""
    u = work.vn[at.w, Vn.u]
    r = work.vn[at.w, Vn.r]
    for i in range(at.n):
        u[i] = row_dot(work.H[at.w, i], x, 0, at.n) + work.vn[at.w, Vn.g, i]
    subtract_transposed(work, at, y, u)
    row_copy(u, r, 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        x_c = load(x, k, size)
        store(r, k, size, x_c - project(x_c - load(u, k, size)))
    residual = largest(r, at.n)
    for i in range(at.m):
        v_i = row_dot(work.A[at.w, i], x, 0, at.n) - work.vm[at.w, Vm.q, i]
        work.vm[at.w, Vm.v, i] = v_i
        residual = wp.max(residual, wp.abs(wp.min(y[i], v_i)))
    return residual


@func(inline=False)
def set_newton_weights(work: Workspace, at: World, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)):
    """Ω = (1 − V)/V with V = P_K'(x − u); rows on (large weight) or off; right-hand sides in r and v."""
    large = real(1.0) / real(newton_floor)
    row_fill(real(0.0), work.vn[at.w, Vn.omega], 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        v = load(x, k, size) - load(work.vn[at.w, Vn.u], k, size)
        r = tangent(v)
        if r <= -v[2]:
            set_axes(work, at, c, v, large, large, large)
        elif r <= v[2]:
            set_axes(work, at, c, v, real(0.0), real(0.0), real(0.0))
        else:
            across = wp.max(real(0.5) * (v[2] + r) / r, real(newton_floor))
            set_axes(work, at, c, v, large, real(0.0), (real(1.0) - across) / across)
    # −u on free variables; −V⁻¹(x − P) = −(1 + Ω)(x − P) in cones.
    r_x = work.vn[at.w, Vn.r]
    shift = work.vn[at.w, Vn.shift]
    row_fill(real(0.0), shift, 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        store(shift, k, size, load(r_x, k, size))
    rotate(work, at, shift)
    for i in range(at.n):
        shift[i] = work.vn[at.w, Vn.omega, i] * shift[i]
    rotate(work, at, r_x)
    for i in range(at.n):
        r_x[i] = -r_x[i] - shift[i]
    for i in range(at.m):
        if y[i] > work.vm[at.w, Vm.v, i]:
            work.vm[at.w, Vm.weight, i] = large
            work.vm[at.w, Vm.compliance, i] = real(0.0)
            work.vm[at.w, Vm.v, i] = -work.vm[at.w, Vm.v, i]
        else:
            work.vm[at.w, Vm.weight, i] = real(newton_floor)
            work.vm[at.w, Vm.compliance, i] = large
            work.vm[at.w, Vm.v, i] = -y[i] * large


@func(inline=False)
def newton(work: Workspace, at: World, options: Options, first: real, budget: int, residual: real) -> tuple[real, int]:
    """Newton on the natural map from `newton_x`, `newton_y`, whose residual there is `first`, u, v and r known.

    (least residual, factorisations)
    """
    x = work.vn[at.w, Vn.newton_x]
    y = work.vm[at.w, Vm.newton_y]
    best = residual
    steps = wp.min(budget, NEWTON_STEPS)
    count = wp.int32(0)
    last = first
    running = wp.int32(1)
    while running == 1 and count < steps:
        set_newton_weights(work, at, x, y)
        stiff = factor(work, at)
        solve_refined(
            work, at, stiff, work.vn[at.w, Vn.r], work.vm[at.w, Vm.v], work.vn[at.w, Vn.x1], work.vm[at.w, Vm.y1]
        )
        rotate_back(work, at, work.vn[at.w, Vn.x1])
        row_axpy(real(1.0), work.vn[at.w, Vn.x1], x, 0, at.n)
        row_axpy(real(1.0), work.vm[at.w, Vm.y1], y, 0, at.m)
        count += 1
        now = natural_map(work, at, x, y)
        best = certify(work, at, real(1.0), x, y, best)
        # Solved to rounding, lost, or solved and no longer falling fast.
        if now <= real(newton_exact) or not (now < real(NEWTON_WORSE) * first):
            running = 0
        elif best <= real(goal) * options.tolerance and now > real(0.1) * last:
            running = 0
        last = now
    return best, count


@func(inline=False)
def scale_step(work: Workspace, at: World) -> int:
    """Nesterov–Todd scaling at (x, z), (s, y): Ω, λ, weights; 0 when a point has left its cone."""
    row_fill(real(0.0), work.vn[at.w, Vn.omega], 0, at.n)
    row_fill(real(0.0), work.vn[at.w, Vn.lam], 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        x = load(work.vn[at.w, Vn.x], k, size)
        z = load(work.vn[at.w, Vn.z], k, size)
        if not (determinant(x) > real(0.0) and determinant(z) > real(0.0) and x[2] > real(0.0) and z[2] > real(0.0)):
            return 0
        inverse_sq = wp.sqrt(determinant(z) / determinant(x))
        w_bar = scaling_point(x, z)
        sharp = (w_bar[2] + tangent(w_bar)) * (w_bar[2] + tangent(w_bar))
        set_axes(work, at, c, w_bar, sharp * inverse_sq, inverse_sq / sharp, inverse_sq)
        if size == 1:
            work.vn[at.w, Vn.lam, k] = wp.sqrt(x[2] * z[2])
        else:
            # Each component from the one of x, z that is large along it.
            a = work.axis[at.w, c]
            root = wp.sqrt(inverse_sq)
            sharp = wp.sqrt(sharp)
            down = real(0.5) * (a[0] * z[0] + a[1] * z[1] - z[2]) / (root * sharp)
            up = real(0.5) * (a[0] * x[0] + a[1] * x[1] + x[2]) * root / sharp
            across = real(0.5) * ((a[0] * x[1] - a[1] * x[0]) * root + (a[0] * z[1] - a[1] * z[0]) / root)
            along = down + up
            lam = vec3(along * a[0] - across * a[1], along * a[1] + across * a[0], up - down)
            store(work.vn[at.w, Vn.lam], k, size, lam)
    for i in range(at.m):
        s = work.vm[at.w, Vm.s, i]
        y = work.vm[at.w, Vm.y, i]
        if not (s > real(0.0) and y > real(0.0)):
            return 0
        work.vm[at.w, Vm.weight, i] = y / s
        work.vm[at.w, Vm.compliance, i] = s / y
    return 1


@struct
class Embedding:
    """The scalars of the homogeneous embedding and of one direction in it."""

    tau: real
    kappa: real
    r_tau: real
    d_tau: real
    d_kappa: real
    pivot: real  # of the row of τ
    mu: real


@func(inline=False)
def direction(work: Workspace, at: World, stiff: int, h: Embedding, remain: real, d_complementarity: real) -> Embedding:
    """Direction that leaves `remain` of the residuals (rotated Δx in x1, Δy in y1, Δs, Δz, W⁻¹Δx, WΔz)."""
    x1 = work.vn[at.w, Vn.x1]
    y1 = work.vm[at.w, Vm.y1]
    r = work.vn[at.w, Vn.r]
    reduce = real(1.0) - remain
    for i in range(at.n):
        r[i] = -reduce * work.vn[at.w, Vn.r_x, i] - work.vn[at.w, Vn.shift, i]
    rotate(work, at, r)
    for i in range(at.m):
        work.vm[at.w, Vm.v, i] = -reduce * work.vm[at.w, Vm.r_y, i] - work.vm[at.w, Vm.shift_y, i]
    solve_refined(work, at, stiff, r, work.vm[at.w, Vm.v], x1, y1)
    p = work.vn[at.w, Vn.p]
    row_copy(x1, p, 0, at.n)
    rotate_back(work, at, p)
    slope = real(0.0)
    for i in range(at.n):
        slope += (real(2.0) * work.vn[at.w, Vn.Hx, i] / h.tau + work.vn[at.w, Vn.g, i]) * p[i]
    d_tau = (
        -reduce * h.r_tau + d_complementarity / h.tau - slope + row_dot(work.vm[at.w, Vm.q], y1, 0, at.m)
    ) / h.pivot
    row_axpy(d_tau, work.vn[at.w, Vn.x2], x1, 0, at.n)
    row_axpy(d_tau, work.vm[at.w, Vm.y2], y1, 0, at.m)
    for i in range(at.n):
        work.vn[at.w, Vn.s_x, i] = wp.sqrt(work.vn[at.w, Vn.omega, i]) * x1[i]
        work.vn[at.w, Vn.dz, i] = work.vn[at.w, Vn.omega, i] * x1[i]
    rotate_back(work, at, work.vn[at.w, Vn.s_x])
    rotate_back(work, at, work.vn[at.w, Vn.dz])
    for i in range(at.n):
        work.vn[at.w, Vn.dz, i] = -work.vn[at.w, Vn.shift, i] - work.vn[at.w, Vn.dz, i]
        work.vn[at.w, Vn.s_z, i] = -work.vn[at.w, Vn.lam, i] - work.vn[at.w, Vn.u, i] - work.vn[at.w, Vn.s_x, i]
    for i in range(at.m):
        work.vm[at.w, Vm.ds, i] = -work.vm[at.w, Vm.shift_y, i] - y1[i] * work.vm[at.w, Vm.compliance, i]
    h.d_tau = d_tau
    h.d_kappa = (-d_complementarity - h.kappa * d_tau) / h.tau
    return h


@func
def ratio(a: real, d: real) -> real:
    """The largest α with a + αd ≥ 0."""
    if d < real(0.0):
        return -a / d
    return real(INFINITE)


@func(inline=False)
def step_length(work: Workspace, at: World, h: Embedding) -> real:
    """The largest α that keeps everything in its cone."""
    alpha = wp.min(ratio(h.tau, h.d_tau), ratio(h.kappa, h.d_kappa))
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        lam = load(work.vn[at.w, Vn.lam], k, size)
        alpha = wp.min(alpha, longest_step(lam, load(work.vn[at.w, Vn.s_x], k, size)))
        alpha = wp.min(alpha, longest_step(lam, load(work.vn[at.w, Vn.s_z], k, size)))
    for i in range(at.m):
        alpha = wp.min(alpha, ratio(work.vm[at.w, Vm.s, i], work.vm[at.w, Vm.ds, i]))
        alpha = wp.min(alpha, ratio(work.vm[at.w, Vm.y, i], work.vm[at.w, Vm.y1, i]))
    return alpha


@func(inline=False)
def predict(work: Workspace, at: World, h: Embedding) -> tuple[Embedding, int]:
    """Factor, the solution x2, y2 for the column of τ, and the affine direction; the number of stiff rows."""
    stiff = factor(work, at)
    r = work.vn[at.w, Vn.r]
    for i in range(at.n):
        r[i] = -work.vn[at.w, Vn.g, i]
    rotate(work, at, r)
    solve_refined(work, at, stiff, r, work.vm[at.w, Vm.q], work.vn[at.w, Vn.x2], work.vm[at.w, Vm.y2])
    # −‖x2 − x/τ‖²_H − x2ᵀΩx2 − y2ᵀ weight⁻¹ y2 − κ/τ: a sum of negative terms.
    p = work.vn[at.w, Vn.p]
    row_copy(work.vn[at.w, Vn.x2], p, 0, at.n)
    rotate_back(work, at, p)
    row_axpy(real(-1.0) / h.tau, work.vn[at.w, Vn.x], p, 0, at.n)
    h.pivot = -h.kappa / h.tau
    for i in range(at.n):
        x2_i = work.vn[at.w, Vn.x2, i]
        h.pivot -= p[i] * row_dot(work.H[at.w, i], p, 0, at.n) + work.vn[at.w, Vn.omega, i] * x2_i * x2_i
        work.vn[at.w, Vn.u, i] = real(0.0)
        work.vn[at.w, Vn.shift, i] = work.vn[at.w, Vn.z, i]
    for i in range(at.m):
        h.pivot -= work.vm[at.w, Vm.y2, i] * work.vm[at.w, Vm.y2, i] * work.vm[at.w, Vm.compliance, i]
        work.vm[at.w, Vm.shift_y, i] = work.vm[at.w, Vm.s, i]
    return direction(work, at, stiff, h, real(0.0), h.tau * h.kappa), stiff


@func(inline=False)
def correct(work: Workspace, at: World, stiff: int, h: Embedding) -> Embedding:
    """The centred, second-order direction from the affine one."""
    reach = wp.min(step_length(work, at, h), real(1.0))
    blocked = real(1.0) - reach
    second_order = wp.min(real(SECOND_ORDER) * reach * reach, real(1.0))
    sigma = blocked * blocked * blocked
    shift = work.vn[at.w, Vn.shift]
    row_fill(real(0.0), shift, 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        s = product(load(work.vn[at.w, Vn.s_x], k, size), load(work.vn[at.w, Vn.s_z], k, size))
        u = divide(
            load(work.vn[at.w, Vn.lam], k, size),
            vec3(second_order * s[0], second_order * s[1], second_order * s[2] - sigma * h.mu),
        )
        store(work.vn[at.w, Vn.u], k, size, u)
        store(shift, k, size, u)
    rotate(work, at, shift)
    for i in range(at.n):
        shift[i] = wp.sqrt(work.vn[at.w, Vn.omega, i]) * shift[i]
    rotate_back(work, at, shift)
    row_axpy(real(1.0), work.vn[at.w, Vn.z], shift, 0, at.n)
    for i in range(at.m):
        second = second_order * work.vm[at.w, Vm.ds, i] * work.vm[at.w, Vm.y1, i] - sigma * h.mu
        work.vm[at.w, Vm.shift_y, i] = work.vm[at.w, Vm.s, i] + second / work.vm[at.w, Vm.y, i]
    return direction(work, at, stiff, h, sigma, h.tau * h.kappa + second_order * h.d_tau * h.d_kappa - sigma * h.mu)


@func(inline=False)
def advance(work: Workspace, at: World, h: Embedding, alpha: real) -> Embedding:
    """Everything ← everything + α direction."""
    rotate_back(work, at, work.vn[at.w, Vn.x1])
    row_axpy(alpha, work.vn[at.w, Vn.x1], work.vn[at.w, Vn.x], 0, at.n)
    row_axpy(alpha, work.vn[at.w, Vn.dz], work.vn[at.w, Vn.z], 0, at.n)
    row_axpy(alpha, work.vm[at.w, Vm.y1], work.vm[at.w, Vm.y], 0, at.m)
    row_axpy(alpha, work.vm[at.w, Vm.ds], work.vm[at.w, Vm.s], 0, at.m)
    h.tau += alpha * h.d_tau
    h.kappa += alpha * h.d_kappa
    return h


@func(inline=False)
def residuals(work: Workspace, at: World, h: Embedding) -> Embedding:
    """r_x = Hx + gτ − Aᵀy − z, r_y = Ax − qτ − s, r_τ = κ + xᵀHx/τ + gᵀx − qᵀy, and μ."""
    x = work.vn[at.w, Vn.x]
    r_x = work.vn[at.w, Vn.r_x]
    quadratic = real(0.0)
    degree = real(at.cones + at.m + 1)
    h.mu = (
        h.tau * h.kappa
        + row_dot(x, work.vn[at.w, Vn.z], 0, at.n)
        + row_dot(work.vm[at.w, Vm.s], work.vm[at.w, Vm.y], 0, at.m)
    )
    h.mu = h.mu / degree
    for i in range(at.n):
        Hx_i = row_dot(work.H[at.w, i], x, 0, at.n)
        work.vn[at.w, Vn.Hx, i] = Hx_i
        quadratic += x[i] * Hx_i
        r_x[i] = Hx_i + h.tau * work.vn[at.w, Vn.g, i] - work.vn[at.w, Vn.z, i]
    subtract_transposed(work, at, work.vm[at.w, Vm.y], r_x)
    for i in range(at.m):
        work.vm[at.w, Vm.r_y, i] = (
            row_dot(work.A[at.w, i], x, 0, at.n) - h.tau * work.vm[at.w, Vm.q, i] - work.vm[at.w, Vm.s, i]
        )
    h.r_tau = (
        h.kappa
        + quadratic / h.tau
        + row_dot(work.vn[at.w, Vn.g], x, 0, at.n)
        - row_dot(work.vm[at.w, Vm.q], work.vm[at.w, Vm.y], 0, at.m)
    )
    return h


@func(inline=False)
def find_certificate(work: Workspace, at: World, h: Embedding, level: real) -> int:
    """INFEASIBLE where qᵀy > 0 = Aᵀy + z, UNBOUNDED where gᵀx < 0 = Hx, Ax ≥ 0, both relative to `level`; else 0."""
    if h.kappa < real(CERTIFICATE_RATIO) * h.tau:
        return 0
    bound = row_dot(work.vm[at.w, Vm.q], work.vm[at.w, Vm.y], 0, at.m)
    if bound > real(0.0):
        e = work.vn[at.w, Vn.e]
        row_copy(work.vn[at.w, Vn.z], e, 0, at.n)
        for i in range(at.m):
            row_axpy(work.vm[at.w, Vm.y, i], work.A[at.w, i], e, 0, at.n)
        if largest(e, at.n) < level * bound:
            return INFEASIBLE
    slope = -row_dot(work.vn[at.w, Vn.g], work.vn[at.w, Vn.x], 0, at.n)
    if slope > real(0.0):
        violation = largest(work.vn[at.w, Vn.Hx], at.n)
        for i in range(at.m):
            violation = wp.max(violation, -row_dot(work.A[at.w, i], work.vn[at.w, Vn.x], 0, at.n))
        if violation < level * slope:
            return UNBOUNDED
    return 0


@func(inline=False)
def move_inside(work: Workspace, at: World, x: wp.array1d(dtype=real)):
    """Add to the axes of all cones what the worst of them lacks."""
    margin = real(INFINITE)
    for c in range(at.cones):
        v = load(x, work.start[at.w, c], work.size[at.w, c])
        margin = wp.min(margin, v[2] - tangent(v))
    if margin <= real(INTERIOR):
        for c in range(at.cones):
            k = work.start[at.w, c] + work.size[at.w, c] - 1
            x[k] = x[k] + real(1.0) - margin


@func(inline=False)
def move_positive(y: wp.array1d(dtype=real), m: int):
    """The same for a vector that must be positive."""
    margin = real(INFINITE)
    for i in range(m):
        margin = wp.min(margin, y[i])
    if margin <= real(INTERIOR):
        for i in range(m):
            y[i] = y[i] + real(1.0) - margin


@func(inline=False)
def start(work: Workspace, at: World) -> Embedding:
    """x, y, s, z from one solve with W = 1, moved into their cones; τ = κ = 1."""
    omega = work.vn[at.w, Vn.omega]
    row_fill(real(0.0), omega, 0, at.n)
    for c in range(at.cones):
        set_axes(work, at, c, vec3(real(0.0), real(0.0), real(1.0)), real(1.0), real(1.0), real(1.0))
    row_fill(real(1.0), work.vm[at.w, Vm.weight], 0, at.m)
    row_fill(real(1.0), work.vm[at.w, Vm.compliance], 0, at.m)
    stiff = factor(work, at)
    x = work.vn[at.w, Vn.x]
    y = work.vm[at.w, Vm.y]
    r = work.vn[at.w, Vn.r]
    for i in range(at.n):
        r[i] = -work.vn[at.w, Vn.g, i]
    rotate(work, at, r)
    solve_refined(work, at, stiff, r, work.vm[at.w, Vm.q], x, y)
    rotate_back(work, at, x)
    row_fill(real(0.0), work.vn[at.w, Vn.z], 0, at.n)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        store(work.vn[at.w, Vn.z], k, size, -load(x, k, size))
    for i in range(at.m):
        work.vm[at.w, Vm.s, i] = -y[i]
    move_inside(work, at, x)
    move_inside(work, at, work.vn[at.w, Vn.z])
    move_positive(work.vm[at.w, Vm.s], at.m)
    move_positive(y, at.m)
    h = Embedding()
    h.tau = real(1.0)
    h.kappa = real(1.0)
    return h


@func(inline=False)
def finish(
    work: Workspace, at: World, options: Options, h: Embedding, level: real, budget: int, residual: real
) -> tuple[real, real, int]:
    """Newton from (x, y)/τ if its natural residual is below `level`; (least residual, next level, factorisations)."""
    scale = real(1.0) / h.tau
    for i in range(at.n):
        work.vn[at.w, Vn.newton_x, i] = scale * work.vn[at.w, Vn.x, i]
    for i in range(at.m):
        work.vm[at.w, Vm.newton_y, i] = scale * work.vm[at.w, Vm.y, i]
    natural = natural_map(work, at, work.vn[at.w, Vn.newton_x], work.vm[at.w, Vm.newton_y])
    if not (natural < level):
        return residual, level, 0
    best, count = newton(work, at, options, natural, budget, residual)
    return best, real(NEWTON_AGAIN) * natural, count


@func(inline=False)
def iterate(work: Workspace, at: World, options: Options) -> tuple[real, int, int]:
    """The method; (residual of `best_x`, factorisations, status)."""
    row_fill(real(0.0), work.vn[at.w, Vn.best_x], 0, at.n)
    row_fill(real(0.0), work.vm[at.w, Vm.best_y], 0, at.m)
    h = start(work, at)
    best = real(INFINITE)
    count = wp.int32(0)
    status = wp.int32(0)
    newton_level = real(newton_below)
    while True:
        aim = options.tolerance
        if count < GOAL_ITERATIONS:
            aim = real(goal) * options.tolerance
        h = residuals(work, at, h)
        # Towards a certificate τ falls to 0 and relative residuals of x/τ mean nothing.
        if h.kappa <= real(CERTIFICATE_RATIO) * h.tau:
            best = certify(work, at, real(1.0) / h.tau, work.vn[at.w, Vn.x], work.vm[at.w, Vm.y], best)
        if best > aim and count < options.max_iterations:
            best, newton_level, steps = finish(work, at, options, h, newton_level, options.max_iterations - count, best)
            count += steps
        if best <= aim or count >= options.max_iterations:
            break
        status = find_certificate(work, at, h, real(certificate))
        if status != 0 or scale_step(work, at) == 0:
            break
        h, stiff = predict(work, at, h)
        h = correct(work, at, stiff, h)
        count += 1
        alpha = wp.min(real(STEP_FRACTION) * step_length(work, at, h), real(1.0))
        if not (alpha > real(SMALLEST_STEP)):
            break
        h = advance(work, at, h, alpha)
    if not (best <= options.accepted):
        if status == 0:
            status = find_certificate(work, at, h, real(last_certificate))
        status = status | NOT_CONVERGED
    return best, count, status


@kernel
def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
    """One world per thread."""
    at = World()
    at.w = wp.tid()
    capacity_n = solution.x.shape[1]
    capacity_m = solution.y.shape[1]
    at.n = wp.min(problem.variables[at.w], capacity_n)
    at.m = wp.min(problem.rows[at.w], capacity_m)
    at.cones = wp.min(problem.cones[at.w], problem.start.shape[1])
    x = solution.x[at.w]
    y = solution.y[at.w]
    z = solution.z[at.w]
    row_fill(real(0.0), x, 0, capacity_n)
    row_fill(real(0.0), y, 0, capacity_m)
    row_fill(real(0.0), z, 0, capacity_n)
    residual = real(INFINITE)
    count = wp.int32(0)
    status = check(problem, at)
    if status == 0:
        status = scale_problem(problem, work, at)
        if status == 0:
            residual, count, status = iterate(work, at, options)
            for i in range(at.n):
                x[i] = work.vn[at.w, Vn.scale_x, i] * work.vn[at.w, Vn.best_x, i]
            for i in range(at.m):
                y[i] = work.vm[at.w, Vm.scale_y, i] * work.vm[at.w, Vm.best_y, i]
            for c in range(at.cones):
                for i in range(problem.start[at.w, c], problem.start[at.w, c] + problem.size[at.w, c]):
                    z[i] = row_dot(problem.H[at.w, i], x, 0, at.n) + problem.g[at.w, i]
                    for j in range(at.m):
                        z[i] = z[i] - problem.A[at.w, j, i] * y[j]
        else:
            status = status | NOT_CONVERGED
    solution.residual[at.w] = residual
    solution.iterations[at.w] = count
    solution.status[at.w] = status
