"""Quadratic programs over half-lines and friction cones: a primal-dual interior-point method (theory §4).

    min ½ xᵀHx + gᵀx   s.t.   A x ≥ q,   x_c ∈ K_c:  x ≥ 0,  or  μ x_n ≥ ‖x_t‖, x_n ≥ 0 in the order (t1, t2, n) or (t, n)
    optimal: u = Hx + g − Aᵀy,  u_c ∈ K_c*, x_cᵀu_c = 0 (u = 0 outside cones),  y ≥ 0,  yᵀ(Ax − q) = 0

H is symmetric positive semidefinite. One thread solves one world, n variables and m rows, in scaled variables: x_n times μ
(every cone becomes the second-order cone), H and A equilibrated, μ = 0 means x_t = 0 and x_n a half-line.

- Homogeneous embedding with quadratic objective (Goulart, Chen: Clarabel; Andersen, Dahl, Vandenberghe for the cones):
  (x, y, s, z, τ, κ) with τ > 0 at a solution, κ > 0 at a certificate that there is none. Predictor and corrector of
  Mehrotra, Nesterov–Todd scaling W: x = W²z.
- W⁻² of a cone near its boundary has eigenvalues far apart, which drown H. In its eigenvectors, (t̂, −1)/√2, (t̂, 1)/√2
  and t̂⊥, it is diagonal and large only there: all linear algebra runs in these axes ("rotated").
- Rows of A with a large weight y/s are not added to H but kept as a Schur complement, for the same reason.
- Close to the solution a few steps of Newton's method on the natural map x = P_K(x − u), y = P_+(y − v) end it exactly
  (the same linear system, its weights (1 − V)/V from the derivative V of P).
- The point given back is in its cones, and `residual` is the largest of its relative primal and dual infeasibility and
  complementarity gap.

Cost per iteration: n³/6 + m n² + m²n/2 multiply-adds and ten products with H and A.
"""

import functools
from types import SimpleNamespace

import numpy as np
import warp as wp

from warpsim.kernels.linalg import dense, rows
from warpsim.kernels.precision import module_name, types

NOT_CONVERGED = 1  # bit of `status`: x is the best point met, `residual` its own
NON_FINITE = 2  # bit of `status`: a NaN or an infinity in the data; x = 0
INFEASIBLE = 4  # bit of `status`: no x meets the constraints (certified)
UNBOUNDED = 8  # bit of `status`: the cost falls without end (certified)

# Static regularisation of the factors, relative and absolute; the refinement takes it out again.
STATIC = {wp.float32: 1e-6, wp.float64: 1e-13}
REFINEMENTS = 3
# Rows with a weight above this go to the Schur complement.
STIFF = 10.0
EQUILIBRATIONS = 8
# Fraction of the step to the boundary.
STEP_FRACTION = 0.99
SMALLEST_STEP = 1e-6
# The interior-point method goes on to this fraction of the tolerance.
GOAL = {wp.float32: 0.3, wp.float64: 1e-2}
# Newton on the natural map: starts below this residual, and again each time it has fallen by AGAIN; steps per start;
# smallest eigenvalue of V; a step that loses by WORSE ends it.
NEWTON_BELOW = {wp.float32: 1e-3, wp.float64: 1e-5}
NEWTON_AGAIN = 0.03
NEWTON_STEPS = 3
NEWTON_FLOOR = {wp.float32: 1e-4, wp.float64: 1e-7}
NEWTON_EXACT = {wp.float32: 1e-7, wp.float64: 1e-13}
WORSE = 1e3
# Certificates: κ > RATIO τ, and what should vanish does to this relative size.
CERTIFICATE_RATIO = 1e2
CERTIFICATE = {wp.float32: 1e-4, wp.float64: 1e-7}
# The initial point is moved into the cones when closer than this to their boundary.
INTERIOR = 1e-3
# Scaled data are of order 1; relative residuals are taken against this at least.
FLOOR = 1e-6
INFINITE = 1e30
SQRT_HALF = 0.7071067811865476


@functools.cache
def build(S) -> SimpleNamespace:
    """Structs `Problem`, `Workspace`, `Solution`, `Options` and kernel `solve` for scalar type S."""
    t = types(S)
    vec2, vec3 = t.vec2, t.vec3
    f_rows, f_dense = rows.build(S), dense.build(S)
    row_axpy, row_copy, row_fill, row_scale, row_dot = (
        f_rows.row_axpy, f_rows.row_copy, f_rows.row_fill, f_rows.row_scale, f_rows.row_dot,
    )  # fmt: skip
    cholesky_factor, cholesky_forward, cholesky_backward = (
        f_dense.cholesky_factor, f_dense.cholesky_forward, f_dense.cholesky_backward,
    )  # fmt: skip
    static, goal, certificate = STATIC[S], GOAL[S], CERTIFICATE[S]
    newton_below, newton_floor, newton_exact = NEWTON_BELOW[S], NEWTON_FLOOR[S], NEWTON_EXACT[S]
    tiny = float(np.finfo(wp.dtype_to_numpy(S)).tiny)

    @wp.struct
    class Problem:
        H: wp.array3d(dtype=S)  # (worlds, n, n) symmetric positive semidefinite
        g: wp.array2d(dtype=S)  # (worlds, n)
        A: wp.array3d(dtype=S)  # (worlds, m, n)
        q: wp.array2d(dtype=S)  # (worlds, m)
        variables: wp.array(dtype=int)  # (worlds,) used variables
        rows: wp.array(dtype=int)  # (worlds,) used rows
        cones: wp.array(dtype=int)  # (worlds,) used cones
        start: wp.array2d(dtype=int)  # (worlds, C) first variable of a cone; variables in no cone are free
        size: wp.array2d(dtype=int)  # (worlds, C) 1: half-line; 2, 3: friction cone, its axis last
        mu: wp.array2d(dtype=S)  # (worlds, C) friction coefficient, not read for half-lines

    @wp.struct
    class Workspace:
        """The scaled problem, and vectors of n (x-like), m (y-like) and C entries per world."""

        H: wp.array3d(dtype=S)
        A: wp.array3d(dtype=S)
        N: wp.array3d(dtype=S)  # (worlds, n, n) Cholesky factor of the rotated H + Ω + Σ w aaᵀ
        T: wp.array3d(dtype=S)  # (worlds, m, n) rotated rows; L⁻¹ of the stiff ones
        schur: wp.array3d(dtype=S)  # (worlds, m, m) factor over the stiff rows
        g: wp.array2d(dtype=S)
        scale_x: wp.array2d(dtype=S)  # x = scale_x x̃
        x: wp.array2d(dtype=S)
        z: wp.array2d(dtype=S)
        Hx: wp.array2d(dtype=S)
        r_x: wp.array2d(dtype=S)
        x1: wp.array2d(dtype=S)  # rotated solutions
        x2: wp.array2d(dtype=S)
        dz: wp.array2d(dtype=S)
        shift: wp.array2d(dtype=S)  # W⁻² d_s of the cones
        omega: wp.array2d(dtype=S)  # Ω: W⁻² in rotated axes
        lam: wp.array2d(dtype=S)  # λ = Wz = W⁻¹x
        s_x: wp.array2d(dtype=S)  # W⁻¹Δx, WΔz
        s_z: wp.array2d(dtype=S)
        e: wp.array2d(dtype=S)
        p: wp.array2d(dtype=S)
        r: wp.array2d(dtype=S)
        newton_x: wp.array2d(dtype=S)
        u: wp.array2d(dtype=S)
        trial_x: wp.array2d(dtype=S)
        best_x: wp.array2d(dtype=S)
        q: wp.array2d(dtype=S)
        scale_y: wp.array2d(dtype=S)
        y: wp.array2d(dtype=S)
        s: wp.array2d(dtype=S)
        r_y: wp.array2d(dtype=S)
        y1: wp.array2d(dtype=S)
        y2: wp.array2d(dtype=S)
        ds: wp.array2d(dtype=S)
        shift_y: wp.array2d(dtype=S)
        weight: wp.array2d(dtype=S)
        compliance: wp.array2d(dtype=S)
        e_y: wp.array2d(dtype=S)
        d_y: wp.array2d(dtype=S)
        newton_y: wp.array2d(dtype=S)
        v: wp.array2d(dtype=S)
        trial_y: wp.array2d(dtype=S)
        best_y: wp.array2d(dtype=S)
        axis: wp.array2d(dtype=vec2)  # (worlds, C) t̂
        start: wp.array2d(dtype=int)
        size: wp.array2d(dtype=int)
        stiff: wp.array2d(dtype=int)  # (worlds, m) the stiff rows

    @wp.struct
    class Solution:
        x: wp.array2d(dtype=S)  # (worlds, n), 0 in unused variables
        y: wp.array2d(dtype=S)  # (worlds, m) duals of the rows
        z: wp.array2d(dtype=S)  # (worlds, n) duals of the cones: Hx + g = Aᵀy + z
        residual: wp.array(dtype=S)  # (worlds,)
        iterations: wp.array(dtype=int)  # (worlds,) factorisations
        status: wp.array(dtype=int)  # (worlds,) bits

    @wp.struct
    class Options:
        tolerance: S
        max_iterations: int

    @wp.struct
    class World:
        w: int
        n: int
        m: int
        cones: int

    # Cones as (t1, t2, n); the absent components of the smaller ones are 0.

    @wp.func
    def load(x: wp.array1d(dtype=S), start: int, size: int) -> vec3:
        zero = S(0.0)
        if size == 3:
            return vec3(x[start], x[start + 1], x[start + 2])
        if size == 2:
            return vec3(x[start], zero, x[start + 1])
        return vec3(zero, zero, x[start])

    @wp.func
    def store(x: wp.array1d(dtype=S), start: int, size: int, v: vec3):
        x[start + size - 1] = v[2]
        if size > 1:
            x[start] = v[0]
        if size == 3:
            x[start + 1] = v[1]

    @wp.func
    def tangent(v: vec3) -> S:
        return wp.sqrt(v[0] * v[0] + v[1] * v[1])

    @wp.func
    def determinant(v: vec3) -> S:
        """v_n² − ‖v_t‖², without cancellation."""
        r = tangent(v)
        return (v[2] - r) * (v[2] + r)

    @wp.func
    def project(v: vec3) -> vec3:
        """P_K v."""
        r = tangent(v)
        if r <= v[2]:
            return v
        if r <= -v[2]:
            return vec3(S(0.0), S(0.0), S(0.0))
        c = S(0.5) * (v[2] + r)
        return vec3(c * v[0] / r, c * v[1] / r, c)

    @wp.func
    def product(a: vec3, b: vec3) -> vec3:
        """a ∘ b."""
        return vec3(a[2] * b[0] + b[2] * a[0], a[2] * b[1] + b[2] * a[1], wp.dot(a, b))

    @wp.func
    def divide(a: vec3, b: vec3) -> vec3:
        """The c with a ∘ c = b."""
        n = (a[2] * b[2] - a[0] * b[0] - a[1] * b[1]) / determinant(a)
        return vec3((b[0] - n * a[0]) / a[2], (b[1] - n * a[1]) / a[2], n)

    @wp.func
    def longest_step(a: vec3, d: vec3) -> S:
        """The largest α with a + αd in the cone, for a inside."""
        size = wp.sqrt(determinant(a))
        b = a / size
        along = b[2] * d[2] - b[0] * d[0] - b[1] * d[1]
        factor = (along + d[2]) / (b[2] + S(1.0))
        t0 = d[0] - factor * b[0]
        t1 = d[1] - factor * b[1]
        inverse = (wp.sqrt(t0 * t0 + t1 * t1) - along) / size
        if inverse > S(0.0):
            return S(1.0) / inverse
        return S(INFINITE)

    @wp.func
    def rotate(work: Workspace, f: World, x: wp.array1d(dtype=S)):
        """x ← Qᵀx: (t1, t2, n) → components along (t̂, −1)/√2, (t̂, 1)/√2, t̂⊥."""
        h = S(SQRT_HALF)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            if size > 1:
                a = work.axis[f.w, c]
                v = load(x, k, size)
                along = a[0] * v[0] + a[1] * v[1]
                x[k] = h * (along - v[2])
                x[k + 1] = h * (along + v[2])
                if size == 3:
                    x[k + 2] = a[0] * v[1] - a[1] * v[0]

    @wp.func
    def rotate_back(work: Workspace, f: World, x: wp.array1d(dtype=S)):
        """x ← Qx."""
        h = S(SQRT_HALF)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            if size > 1:
                a = work.axis[f.w, c]
                along = h * (x[k] + x[k + 1])
                normal = h * (x[k + 1] - x[k])
                across = S(0.0)
                if size == 3:
                    across = x[k + 2]
                store(x, k, size, vec3(along * a[0] - across * a[1], along * a[1] + across * a[0], normal))

    @wp.func
    def set_axes(work: Workspace, f: World, c: int, v: vec3, down: S, up: S, across: S):
        """The rotated axes of cone c from a vector, and its weights."""
        k = work.start[f.w, c]
        size = work.size[f.w, c]
        r = tangent(v)
        axis = vec2(S(1.0), S(0.0))
        if r > S(0.0):
            axis = vec2(v[0] / r, v[1] / r)
        work.axis[f.w, c] = axis
        work.omega[f.w, k] = down
        if size > 1:
            work.omega[f.w, k + 1] = up
        if size == 3:
            work.omega[f.w, k + 2] = across

    @wp.func
    def subtract_transposed(work: Workspace, f: World, y: wp.array1d(dtype=S), x: wp.array1d(dtype=S)):
        """x ← x − Aᵀy."""
        for i in range(f.m):
            row_axpy(-y[i], work.A[f.w, i], x, 0, f.n)

    @wp.func
    def add_outer(weight: S, a: wp.array1d(dtype=S), N: wp.array2d(dtype=S), n: int):
        """Lower triangle of N ← N + weight aaᵀ."""
        for i in range(n):
            if a[i] != S(0.0):
                row_axpy(weight * a[i], a, N[i], 0, i + 1)

    @wp.func(inline=False)
    def factor(work: Workspace, f: World) -> int:
        """Factors of the system with weights Ω and `weight`; the number of stiff rows."""
        N = work.N[f.w]
        for i in range(f.n):
            row_copy(work.H[f.w, i], N[i], 0, f.n)
            rotate(work, f, N[i])
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            if size > 1:
                a = work.axis[f.w, c]
                for j in range(f.n):
                    v = vec3(N[k, j], N[k + 1, j], S(0.0))
                    if size == 3:
                        v[2] = N[k + 2, j]
                    else:
                        v = vec3(N[k, j], S(0.0), N[k + 1, j])
                    along = a[0] * v[0] + a[1] * v[1]
                    N[k, j] = S(SQRT_HALF) * (along - v[2])
                    N[k + 1, j] = S(SQRT_HALF) * (along + v[2])
                    if size == 3:
                        N[k + 2, j] = a[0] * v[1] - a[1] * v[0]
        count = wp.int32(0)
        for i in range(f.m):
            row_copy(work.A[f.w, i], work.T[f.w, i], 0, f.n)
            rotate(work, f, work.T[f.w, i])
            add_outer(wp.min(work.weight[f.w, i], S(STIFF)), work.T[f.w, i], N, f.n)
            if work.weight[f.w, i] > S(STIFF):
                work.stiff[f.w, count] = i
                count += 1
        for i in range(f.n):
            N[i, i] = (N[i, i] + work.omega[f.w, i]) * (S(1.0) + S(static)) + S(static)
        cholesky_factor(N, f.n, S(static))
        schur = work.schur[f.w]
        for a in range(count):
            i = work.stiff[f.w, a]
            cholesky_forward(N, f.n, work.T[f.w, i])
            for b in range(a + 1):
                schur[a, b] = row_dot(work.T[f.w, i], work.T[f.w, work.stiff[f.w, b]], 0, f.n)
            schur[a, a] = schur[a, a] * (S(1.0) + S(static)) + S(1.0) / (work.weight[f.w, i] - S(STIFF))
        cholesky_factor(schur, count, S(tiny))
        return count

    @wp.func(inline=False)
    def solve_factored(work: Workspace, f: World, stiff: int):
        """(e, e_y) ← (Δx, d_y):  (H + Ω) Δx − Aᵀ d_y = e,  A Δx + weight⁻¹ d_y = e_y, with the regularised factors."""
        e = work.e[f.w]
        schur = work.schur[f.w]
        reduced = work.d_y[f.w]
        for i in range(f.m):
            if work.weight[f.w, i] <= S(STIFF):
                row_axpy(work.weight[f.w, i] * work.e_y[f.w, i], work.T[f.w, i], e, 0, f.n)
        cholesky_forward(work.N[f.w], f.n, e)
        for a in range(stiff):
            i = work.stiff[f.w, a]
            row_axpy(S(STIFF) * work.e_y[f.w, i], work.T[f.w, i], e, 0, f.n)
        for a in range(stiff):
            i = work.stiff[f.w, a]
            reduced[a] = work.e_y[f.w, i] - row_dot(work.T[f.w, i], e, 0, f.n)
        cholesky_forward(schur, stiff, reduced)
        cholesky_backward(schur, stiff, reduced)
        for a in range(stiff):
            i = work.stiff[f.w, a]
            row_axpy(reduced[a], work.T[f.w, i], e, 0, f.n)
            # The factor f of `schur` is applied here.
            work.e_y[f.w, i] = reduced[a] / (S(1.0) - S(STIFF) / work.weight[f.w, i])
        cholesky_backward(work.N[f.w], f.n, e)
        for i in range(f.m):
            if work.weight[f.w, i] <= S(STIFF):
                work.e_y[f.w, i] = work.weight[f.w, i] * (work.e_y[f.w, i] - row_dot(work.T[f.w, i], e, 0, f.n))

    @wp.func(inline=False)
    def solve_refined(
        work: Workspace, f: World, stiff: int, r_x: wp.array1d(dtype=S), r_y: wp.array1d(dtype=S),
        x: wp.array1d(dtype=S), y: wp.array1d(dtype=S),
    ):  # fmt: skip
        """x (rotated) and y of (H + Ω) x − Aᵀy = r_x (rotated), A x + compliance y = r_y, by iterative refinement."""
        e = work.e[f.w]
        p = work.p[f.w]
        row_fill(S(0.0), x, 0, f.n)
        row_fill(S(0.0), y, 0, f.m)
        for _pass in range(REFINEMENTS):
            row_copy(x, p, 0, f.n)
            rotate_back(work, f, p)
            for i in range(f.n):
                e[i] = -row_dot(work.H[f.w, i], p, 0, f.n)
            for i in range(f.m):
                work.e_y[f.w, i] = r_y[i] - row_dot(work.A[f.w, i], p, 0, f.n) - work.compliance[f.w, i] * y[i]
                row_axpy(y[i], work.A[f.w, i], e, 0, f.n)
            rotate(work, f, e)
            for i in range(f.n):
                e[i] = e[i] + r_x[i] - work.omega[f.w, i] * x[i]
            solve_factored(work, f, stiff)
            row_axpy(S(1.0), e, x, 0, f.n)
            row_axpy(S(1.0), work.e_y[f.w], y, 0, f.m)

    @wp.func
    def project_all(work: Workspace, f: World, x: wp.array1d(dtype=S)):
        """x_c ← P_K x_c in every cone."""
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            store(x, k, size, project(load(x, k, size)))

    @wp.func
    def largest(x: wp.array1d(dtype=S), n: int) -> S:
        size = S(0.0)
        for i in range(n):
            size = wp.max(size, wp.abs(x[i]))
        return size

    @wp.func(inline=False)
    def certify(work: Workspace, f: World, scale: S, x: wp.array1d(dtype=S), y: wp.array1d(dtype=S), best: S) -> S:
        """Residual of the point (x, y) scale, put into its cones; kept in `best_x`, `best_y` where it is smaller."""
        trial_x = work.trial_x[f.w]
        trial_y = work.trial_y[f.w]
        u = work.e[f.w]
        z = work.p[f.w]
        for i in range(f.n):
            trial_x[i] = scale * x[i]
        for i in range(f.m):
            trial_y[i] = wp.max(scale * y[i], S(0.0))
        project_all(work, f, trial_x)
        size = S(FLOOR)
        value = S(0.0)
        for i in range(f.n):
            Hx_i = row_dot(work.H[f.w, i], trial_x, 0, f.n)
            u[i] = Hx_i + work.g[f.w, i]
            z[i] = u[i]
            size = wp.max(size, wp.max(wp.abs(Hx_i), wp.abs(work.g[f.w, i])))
            value += trial_x[i] * Hx_i + wp.abs(trial_x[i] * work.g[f.w, i])
        subtract_transposed(work, f, trial_y, u)
        for i in range(f.n):
            size = wp.max(size, wp.abs(z[i] - u[i]))
            z[i] = S(0.0)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size_c = work.size[f.w, c]
            store(z, k, size_c, project(load(u, k, size_c)))
        gap = wp.abs(row_dot(trial_x, z, 0, f.n))
        dual = S(0.0)
        for i in range(f.n):
            dual = wp.max(dual, wp.abs(u[i] - z[i]))
        primal = S(0.0)
        size_y = S(FLOOR)
        slack = S(0.0)
        for i in range(f.m):
            Ax_i = row_dot(work.A[f.w, i], trial_x, 0, f.n)
            v_i = Ax_i - work.q[f.w, i]
            primal = wp.max(primal, -v_i)
            size_y = wp.max(size_y, wp.max(wp.abs(Ax_i), wp.abs(work.q[f.w, i])))
            slack += trial_y[i] * v_i
        gap += wp.abs(slack)
        residual = wp.max(wp.max(primal / size_y, dual / size), gap / wp.max(value, S(FLOOR)))
        if residual < best:
            row_copy(trial_x, work.best_x[f.w], 0, f.n)
            row_copy(trial_y, work.best_y[f.w], 0, f.m)
            return residual
        return best

    @wp.func(inline=False)
    def natural_map(work: Workspace, f: World, x: wp.array1d(dtype=S), y: wp.array1d(dtype=S)) -> S:
        """max |x − P_K(x − u)|, |y − P_+(y − v)|; leaves u, v and, in r, x − P_K(x − u)."""
        u = work.u[f.w]
        r = work.r[f.w]
        for i in range(f.n):
            u[i] = row_dot(work.H[f.w, i], x, 0, f.n) + work.g[f.w, i]
        subtract_transposed(work, f, y, u)
        row_copy(u, r, 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            x_c = load(x, k, size)
            store(r, k, size, x_c - project(x_c - load(u, k, size)))
        residual = largest(r, f.n)
        for i in range(f.m):
            v_i = row_dot(work.A[f.w, i], x, 0, f.n) - work.q[f.w, i]
            work.v[f.w, i] = v_i
            residual = wp.max(residual, wp.abs(wp.min(y[i], v_i)))
        return residual

    @wp.func
    def set_newton_weights(work: Workspace, f: World, x: wp.array1d(dtype=S), y: wp.array1d(dtype=S)):
        """Ω = (1 − V)/V with V = P_K'(x − u); rows on (large weight) or off; right-hand sides in r and v."""
        large = S(1.0) / S(newton_floor)
        row_fill(S(0.0), work.omega[f.w], 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            v = load(x, k, size) - load(work.u[f.w], k, size)
            r = tangent(v)
            if r <= -v[2]:
                set_axes(work, f, c, v, large, large, large)
            elif r <= v[2]:
                set_axes(work, f, c, v, S(0.0), S(0.0), S(0.0))
            else:
                across = wp.max(S(0.5) * (v[2] + r) / r, S(newton_floor))
                set_axes(work, f, c, v, large, S(0.0), (S(1.0) - across) / across)
        # −u on free variables; −V⁻¹(x − P) = −(1 + Ω)(x − P) in cones.
        r_x = work.r[f.w]
        shift = work.shift[f.w]
        row_fill(S(0.0), shift, 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            store(shift, k, size, load(r_x, k, size))
        row_copy(shift, work.p[f.w], 0, f.n)
        rotate(work, f, shift)
        for i in range(f.n):
            shift[i] = work.omega[f.w, i] * shift[i]
        rotate(work, f, r_x)
        for i in range(f.n):
            r_x[i] = -r_x[i] - shift[i]
        for i in range(f.m):
            if y[i] > work.v[f.w, i]:
                work.weight[f.w, i] = large
                work.compliance[f.w, i] = S(0.0)
                work.v[f.w, i] = -work.v[f.w, i]
            else:
                work.weight[f.w, i] = S(newton_floor)
                work.compliance[f.w, i] = large
                work.v[f.w, i] = -y[i] * large

    @wp.func(inline=False)
    def newton(work: Workspace, f: World, options: Options, scale: S, budget: int, residual: S) -> tuple[S, int]:
        """Newton on the natural map from (x, y) scale; (least residual, factorisations)."""
        x = work.newton_x[f.w]
        y = work.newton_y[f.w]
        for i in range(f.n):
            x[i] = scale * work.x[f.w, i]
        for i in range(f.m):
            y[i] = scale * work.y[f.w, i]
        best = residual
        steps = wp.min(budget, NEWTON_STEPS)
        count = wp.int32(0)
        first = natural_map(work, f, x, y)
        last = first
        running = wp.int32(1)
        while running == 1 and count < steps:
            set_newton_weights(work, f, x, y)
            stiff = factor(work, f)
            solve_refined(work, f, stiff, work.r[f.w], work.v[f.w], work.x1[f.w], work.y1[f.w])
            rotate_back(work, f, work.x1[f.w])
            row_axpy(S(1.0), work.x1[f.w], x, 0, f.n)
            row_axpy(S(1.0), work.y1[f.w], y, 0, f.m)
            count += 1
            now = natural_map(work, f, x, y)
            best = certify(work, f, S(1.0), x, y, best)
            # Solved to rounding, lost, or solved and no longer falling fast.
            if now <= S(newton_exact) or not (now < S(WORSE) * first):
                running = 0
            elif best <= S(goal) * options.tolerance and now > S(0.1) * last:
                running = 0
            last = now
        return best, count

    @wp.func
    def scale_of_cone(x: vec3, z: vec3) -> vec3:
        """w̄, the normalised scaling point: W = η (2 w̄ w̄ᵀ − J)^½."""
        d_x = wp.sqrt(determinant(x))
        d_z = wp.sqrt(determinant(z))
        cosine = (wp.dot(x, z) / (d_x * d_z) + S(1.0)) * S(0.5)
        inverse = S(0.5) / wp.sqrt(cosine)
        return vec3(
            inverse * (x[0] / d_x - z[0] / d_z),
            inverse * (x[1] / d_x - z[1] / d_z),
            inverse * (x[2] / d_x + z[2] / d_z),
        )

    @wp.func(inline=False)
    def scale_step(work: Workspace, f: World) -> int:
        """Nesterov–Todd scaling at (x, z), (s, y): Ω, λ, weights; 0 when a point has left its cone."""
        row_fill(S(0.0), work.omega[f.w], 0, f.n)
        row_fill(S(0.0), work.lam[f.w], 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            x = load(work.x[f.w], k, size)
            z = load(work.z[f.w], k, size)
            if not (determinant(x) > S(0.0) and determinant(z) > S(0.0) and x[2] > S(0.0) and z[2] > S(0.0)):
                return 0
            inverse_sq = wp.sqrt(determinant(z) / determinant(x))
            w_bar = scale_of_cone(x, z)
            sharp = (w_bar[2] + tangent(w_bar)) * (w_bar[2] + tangent(w_bar))
            set_axes(work, f, c, w_bar, sharp * inverse_sq, inverse_sq / sharp, inverse_sq)
            if size == 1:
                work.lam[f.w, k] = wp.sqrt(x[2] * z[2])
            else:
                # Each component from the one of x, z that is large along it.
                a = work.axis[f.w, c]
                root = wp.sqrt(inverse_sq)
                sharp = wp.sqrt(sharp)
                down = S(0.5) * (a[0] * z[0] + a[1] * z[1] - z[2]) / (root * sharp)
                up = S(0.5) * (a[0] * x[0] + a[1] * x[1] + x[2]) * root / sharp
                across = S(0.5) * ((a[0] * x[1] - a[1] * x[0]) * root + (a[0] * z[1] - a[1] * z[0]) / root)
                along = down + up
                lam = vec3(along * a[0] - across * a[1], along * a[1] + across * a[0], up - down)
                store(work.lam[f.w], k, size, lam)
        for i in range(f.m):
            s = work.s[f.w, i]
            y = work.y[f.w, i]
            if not (s > S(0.0) and y > S(0.0)):
                return 0
            work.weight[f.w, i] = y / s
            work.compliance[f.w, i] = s / y
        return 1

    @wp.struct
    class Embedding:
        """The scalars of the homogeneous embedding and of one direction in it."""

        tau: S
        kappa: S
        r_tau: S
        d_tau: S
        d_kappa: S
        pivot: S  # of the row of τ
        mu: S

    @wp.func(inline=False)
    def direction(work: Workspace, f: World, stiff: int, h: Embedding, remain: S, d_complementarity: S) -> Embedding:
        """Direction that leaves `remain` of the residuals (rotated Δx in x1, Δy in y1, Δs, Δz, W⁻¹Δx, WΔz)."""
        x1 = work.x1[f.w]
        y1 = work.y1[f.w]
        r = work.r[f.w]
        reduce = S(1.0) - remain
        for i in range(f.n):
            r[i] = -reduce * work.r_x[f.w, i] - work.shift[f.w, i]
        rotate(work, f, r)
        for i in range(f.m):
            work.v[f.w, i] = -reduce * work.r_y[f.w, i] - work.shift_y[f.w, i]
        solve_refined(work, f, stiff, r, work.v[f.w], x1, y1)
        p = work.p[f.w]
        row_copy(x1, p, 0, f.n)
        rotate_back(work, f, p)
        slope = S(0.0)
        for i in range(f.n):
            slope += (S(2.0) * work.Hx[f.w, i] / h.tau + work.g[f.w, i]) * p[i]
        d_tau = (-reduce * h.r_tau + d_complementarity / h.tau - slope + row_dot(work.q[f.w], y1, 0, f.m)) / h.pivot
        row_axpy(d_tau, work.x2[f.w], x1, 0, f.n)
        row_axpy(d_tau, work.y2[f.w], y1, 0, f.m)
        for i in range(f.n):
            work.s_x[f.w, i] = wp.sqrt(work.omega[f.w, i]) * x1[i]
            work.dz[f.w, i] = work.omega[f.w, i] * x1[i]
        rotate_back(work, f, work.s_x[f.w])
        rotate_back(work, f, work.dz[f.w])
        for i in range(f.n):
            work.dz[f.w, i] = -work.shift[f.w, i] - work.dz[f.w, i]
            work.s_z[f.w, i] = -work.lam[f.w, i] - work.u[f.w, i] - work.s_x[f.w, i]
        for i in range(f.m):
            work.ds[f.w, i] = -work.shift_y[f.w, i] - y1[i] * work.compliance[f.w, i]
        h.d_tau = d_tau
        h.d_kappa = (-d_complementarity - h.kappa * d_tau) / h.tau
        return h

    @wp.func
    def ratio(a: S, d: S) -> S:
        """The largest α with a + αd ≥ 0."""
        if d < S(0.0):
            return -a / d
        return S(INFINITE)

    @wp.func
    def step_length(work: Workspace, f: World, h: Embedding) -> S:
        """The largest α that keeps everything in its cone."""
        alpha = wp.min(ratio(h.tau, h.d_tau), ratio(h.kappa, h.d_kappa))
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            lam = load(work.lam[f.w], k, size)
            alpha = wp.min(alpha, longest_step(lam, load(work.s_x[f.w], k, size)))
            alpha = wp.min(alpha, longest_step(lam, load(work.s_z[f.w], k, size)))
        for i in range(f.m):
            alpha = wp.min(alpha, ratio(work.s[f.w, i], work.ds[f.w, i]))
            alpha = wp.min(alpha, ratio(work.y[f.w, i], work.y1[f.w, i]))
        return alpha

    @wp.func(inline=False)
    def predict(work: Workspace, f: World, h: Embedding) -> tuple[Embedding, int]:
        """Factor, the solution x2, y2 for the column of τ, and the affine direction; the number of stiff rows."""
        stiff = factor(work, f)
        r = work.r[f.w]
        for i in range(f.n):
            r[i] = -work.g[f.w, i]
        rotate(work, f, r)
        solve_refined(work, f, stiff, r, work.q[f.w], work.x2[f.w], work.y2[f.w])
        # −‖x2 − x/τ‖²_H − x2ᵀΩx2 − y2ᵀ weight⁻¹ y2 − κ/τ: a sum of negative terms.
        p = work.p[f.w]
        row_copy(work.x2[f.w], p, 0, f.n)
        rotate_back(work, f, p)
        row_axpy(S(-1.0) / h.tau, work.x[f.w], p, 0, f.n)
        h.pivot = -h.kappa / h.tau
        for i in range(f.n):
            x2_i = work.x2[f.w, i]
            h.pivot -= p[i] * row_dot(work.H[f.w, i], p, 0, f.n) + work.omega[f.w, i] * x2_i * x2_i
            work.u[f.w, i] = S(0.0)
            work.shift[f.w, i] = work.z[f.w, i]
        for i in range(f.m):
            h.pivot -= work.y2[f.w, i] * work.y2[f.w, i] * work.compliance[f.w, i]
            work.shift_y[f.w, i] = work.s[f.w, i]
        return direction(work, f, stiff, h, S(0.0), h.tau * h.kappa), stiff

    @wp.func(inline=False)
    def correct(work: Workspace, f: World, stiff: int, h: Embedding) -> Embedding:
        """The centred, second-order direction from the affine one."""
        blocked = S(1.0) - wp.min(step_length(work, f, h), S(1.0))
        sigma = blocked * blocked * blocked
        shift = work.shift[f.w]
        row_fill(S(0.0), shift, 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            s = product(load(work.s_x[f.w], k, size), load(work.s_z[f.w], k, size))
            u = divide(load(work.lam[f.w], k, size), vec3(s[0], s[1], s[2] - sigma * h.mu))
            store(work.u[f.w], k, size, u)
            store(shift, k, size, u)
        rotate(work, f, shift)
        for i in range(f.n):
            shift[i] = wp.sqrt(work.omega[f.w, i]) * shift[i]
        rotate_back(work, f, shift)
        row_axpy(S(1.0), work.z[f.w], shift, 0, f.n)
        for i in range(f.m):
            second = work.ds[f.w, i] * work.y1[f.w, i] - sigma * h.mu
            work.shift_y[f.w, i] = work.s[f.w, i] + second / work.y[f.w, i]
        return direction(work, f, stiff, h, sigma, h.tau * h.kappa + h.d_tau * h.d_kappa - sigma * h.mu)

    @wp.func
    def advance(work: Workspace, f: World, h: Embedding, alpha: S) -> Embedding:
        """Everything ← everything + α direction."""
        rotate_back(work, f, work.x1[f.w])
        row_axpy(alpha, work.x1[f.w], work.x[f.w], 0, f.n)
        row_axpy(alpha, work.dz[f.w], work.z[f.w], 0, f.n)
        row_axpy(alpha, work.y1[f.w], work.y[f.w], 0, f.m)
        row_axpy(alpha, work.ds[f.w], work.s[f.w], 0, f.m)
        h.tau += alpha * h.d_tau
        h.kappa += alpha * h.d_kappa
        return h

    @wp.func(inline=False)
    def residuals(work: Workspace, f: World, h: Embedding) -> Embedding:
        """r_x = Hx + gτ − Aᵀy − z, r_y = Ax − qτ − s, r_τ = κ + xᵀHx/τ + gᵀx − qᵀy, and μ."""
        x = work.x[f.w]
        r_x = work.r_x[f.w]
        quadratic = S(0.0)
        degree = S(f.cones + f.m + 1)
        h.mu = h.tau * h.kappa + row_dot(x, work.z[f.w], 0, f.n) + row_dot(work.s[f.w], work.y[f.w], 0, f.m)
        h.mu = h.mu / degree
        for i in range(f.n):
            Hx_i = row_dot(work.H[f.w, i], x, 0, f.n)
            work.Hx[f.w, i] = Hx_i
            quadratic += x[i] * Hx_i
            r_x[i] = Hx_i + h.tau * work.g[f.w, i] - work.z[f.w, i]
        subtract_transposed(work, f, work.y[f.w], r_x)
        for i in range(f.m):
            work.r_y[f.w, i] = row_dot(work.A[f.w, i], x, 0, f.n) - h.tau * work.q[f.w, i] - work.s[f.w, i]
        h.r_tau = (
            h.kappa + quadratic / h.tau + row_dot(work.g[f.w], x, 0, f.n) - row_dot(work.q[f.w], work.y[f.w], 0, f.m)
        )
        return h

    @wp.func(inline=False)
    def find_certificate(work: Workspace, f: World, h: Embedding) -> int:
        """INFEASIBLE where qᵀy > 0 = Aᵀy + z, UNBOUNDED where gᵀx < 0 = Hx, Ax ≥ 0, both to `certificate`; else 0."""
        if h.kappa < S(CERTIFICATE_RATIO) * h.tau:
            return 0
        bound = row_dot(work.q[f.w], work.y[f.w], 0, f.m)
        if bound > S(0.0):
            e = work.e[f.w]
            row_copy(work.z[f.w], e, 0, f.n)
            for i in range(f.m):
                row_axpy(work.y[f.w, i], work.A[f.w, i], e, 0, f.n)
            if largest(e, f.n) < S(certificate) * bound:
                return INFEASIBLE
        slope = -row_dot(work.g[f.w], work.x[f.w], 0, f.n)
        if slope > S(0.0):
            violation = largest(work.Hx[f.w], f.n)
            for i in range(f.m):
                violation = wp.max(violation, -row_dot(work.A[f.w, i], work.x[f.w], 0, f.n))
            if violation < S(certificate) * slope:
                return UNBOUNDED
        return 0

    @wp.func
    def move_inside(work: Workspace, f: World, x: wp.array1d(dtype=S)):
        """Add to the axes of all cones what the worst of them lacks."""
        margin = S(INFINITE)
        for c in range(f.cones):
            v = load(x, work.start[f.w, c], work.size[f.w, c])
            margin = wp.min(margin, v[2] - tangent(v))
        if margin <= S(INTERIOR):
            for c in range(f.cones):
                k = work.start[f.w, c] + work.size[f.w, c] - 1
                x[k] = x[k] + S(1.0) - margin

    @wp.func
    def move_positive(y: wp.array1d(dtype=S), m: int):
        """The same for a vector that must be positive."""
        margin = S(INFINITE)
        for i in range(m):
            margin = wp.min(margin, y[i])
        if margin <= S(INTERIOR):
            for i in range(m):
                y[i] = y[i] + S(1.0) - margin

    @wp.func(inline=False)
    def start(work: Workspace, f: World) -> Embedding:
        """x, y, s, z from one solve with W = 1, moved into their cones; τ = κ = 1."""
        omega = work.omega[f.w]
        row_fill(S(0.0), omega, 0, f.n)
        for c in range(f.cones):
            set_axes(work, f, c, vec3(S(0.0), S(0.0), S(1.0)), S(1.0), S(1.0), S(1.0))
        row_fill(S(1.0), work.weight[f.w], 0, f.m)
        row_fill(S(1.0), work.compliance[f.w], 0, f.m)
        stiff = factor(work, f)
        x = work.x[f.w]
        y = work.y[f.w]
        r = work.r[f.w]
        for i in range(f.n):
            r[i] = -work.g[f.w, i]
        rotate(work, f, r)
        solve_refined(work, f, stiff, r, work.q[f.w], x, y)
        rotate_back(work, f, x)
        row_fill(S(0.0), work.z[f.w], 0, f.n)
        for c in range(f.cones):
            k = work.start[f.w, c]
            size = work.size[f.w, c]
            store(work.z[f.w], k, size, -load(x, k, size))
        for i in range(f.m):
            work.s[f.w, i] = -y[i]
        move_inside(work, f, x)
        move_inside(work, f, work.z[f.w])
        move_positive(work.s[f.w], f.m)
        move_positive(y, f.m)
        h = Embedding()
        h.tau = S(1.0)
        h.kappa = S(1.0)
        return h

    @wp.func(inline=False)
    def iterate(work: Workspace, f: World, options: Options) -> tuple[S, int, int]:
        """The method; (residual of `best_x`, factorisations, status)."""
        h = start(work, f)
        best = S(INFINITE)
        count = wp.int32(0)
        status = wp.int32(0)
        newton_level = S(newton_below)
        running = wp.int32(1)
        while running == 1:
            h = residuals(work, f, h)
            scale = S(1.0) / h.tau
            # Towards a certificate τ falls to 0 and relative residuals of x/τ mean nothing.
            if h.kappa <= S(CERTIFICATE_RATIO) * h.tau:
                best = certify(work, f, scale, work.x[f.w], work.y[f.w], best)
            if best > S(goal) * options.tolerance and count < options.max_iterations:
                for i in range(f.n):
                    work.newton_x[f.w, i] = scale * work.x[f.w, i]
                for i in range(f.m):
                    work.newton_y[f.w, i] = scale * work.y[f.w, i]
                natural = natural_map(work, f, work.newton_x[f.w], work.newton_y[f.w])
                if natural < newton_level:
                    best, steps = newton(work, f, options, scale, options.max_iterations - count, best)
                    count += steps
                    newton_level = S(NEWTON_AGAIN) * natural
            if best <= S(goal) * options.tolerance or count >= options.max_iterations:
                running = 0
            else:
                status = find_certificate(work, f, h)
                if status != 0 or scale_step(work, f) == 0:
                    running = 0
                else:
                    h, stiff = predict(work, f, h)
                    h = correct(work, f, stiff, h)
                    count += 1
                    alpha = wp.min(S(STEP_FRACTION) * step_length(work, f, h), S(1.0))
                    if alpha > S(SMALLEST_STEP):
                        h = advance(work, f, h, alpha)
                    else:
                        running = 0
        if not (best <= options.tolerance):
            status = status | NOT_CONVERGED
        return best, count, status

    @wp.func(inline=False)
    def check(problem: Problem, f: World) -> int:
        """NON_FINITE for a NaN or an infinity in the data, or a negative friction coefficient; else 0."""
        bad = S(0.0)
        for i in range(f.n):
            bad += problem.g[f.w, i] - problem.g[f.w, i]
            for j in range(f.n):
                bad += problem.H[f.w, i, j] - problem.H[f.w, i, j]
        for i in range(f.m):
            bad += problem.q[f.w, i] - problem.q[f.w, i]
            for j in range(f.n):
                bad += problem.A[f.w, i, j] - problem.A[f.w, i, j]
        for c in range(f.cones):
            mu = problem.mu[f.w, c]
            if problem.size[f.w, c] > 1 and not (mu >= S(0.0) and mu - mu == S(0.0)):
                return NON_FINITE
        if bad != S(0.0):
            return NON_FINITE
        return 0

    @wp.func(inline=False)
    def equilibrate(problem: Problem, work: Workspace, f: World):
        """H̃ = DHD, Ã = EAD with entries of at most 1, D alike inside a cone after x_n has been multiplied by μ."""
        D = work.scale_x[f.w]
        E = work.scale_y[f.w]
        row_fill(S(1.0), D, 0, f.n)
        row_fill(S(1.0), E, 0, f.m)
        for c in range(f.cones):
            k = problem.start[f.w, c]
            size = problem.size[f.w, c]
            work.start[f.w, c] = k
            work.size[f.w, c] = size
            if size > 1:
                mu = problem.mu[f.w, c]
                if mu > S(0.0):
                    D[k + size - 1] = S(1.0) / mu
                else:
                    row_fill(S(0.0), D, k, k + size - 1)
                    work.start[f.w, c] = k + size - 1
                    work.size[f.w, c] = 1
        for i in range(f.n):
            for j in range(f.n):
                work.H[f.w, i, j] = S(0.5) * D[i] * D[j] * (problem.H[f.w, i, j] + problem.H[f.w, j, i])
        for i in range(f.m):
            for j in range(f.n):
                work.A[f.w, i, j] = problem.A[f.w, i, j] * D[j]
        for _pass in range(EQUILIBRATIONS):
            d = work.r[f.w]
            e = work.e_y[f.w]
            for i in range(f.n):
                d[i] = largest(work.H[f.w, i], f.n)
            for i in range(f.m):
                e[i] = largest(work.A[f.w, i], f.n)
                for j in range(f.n):
                    d[j] = wp.max(d[j], wp.abs(work.A[f.w, i, j]))
                e[i] = inverse_root(e[i])
                E[i] = E[i] * e[i]
            for c in range(f.cones):
                k = work.start[f.w, c]
                size = work.size[f.w, c]
                whole = S(0.0)
                for i in range(k, k + size):
                    whole = wp.max(whole, d[i])
                row_fill(whole, d, k, k + size)
            for i in range(f.n):
                d[i] = inverse_root(d[i])
                D[i] = D[i] * d[i]
            for i in range(f.n):
                for j in range(f.n):
                    work.H[f.w, i, j] = d[i] * d[j] * work.H[f.w, i, j]
            for i in range(f.m):
                for j in range(f.n):
                    work.A[f.w, i, j] = e[i] * d[j] * work.A[f.w, i, j]

    @wp.func
    def inverse_root(size: S) -> S:
        """1/√size, 1 for 0."""
        if size > S(0.0):
            return S(1.0) / wp.sqrt(size)
        return S(1.0)

    @wp.func(inline=False)
    def scale_problem(problem: Problem, work: Workspace, f: World) -> int:
        """The problem in scaled variables; UNBOUNDED where a free variable has a slope and nothing else, or 0.

        x = b D x̃, y = (b/c) E ỹ. b is a guess of the size of x: the geometric mean of that in the rows, |q|, and that of
        the unconstrained minimum, |g|/|H|; c makes H and g at most 1.
        """
        equilibrate(problem, work, f)
        status = wp.int32(0)
        size_H = S(0.0)
        size_g = S(0.0)
        size_q = S(0.0)
        used = work.r[f.w]
        for i in range(f.n):
            work.g[f.w, i] = work.scale_x[f.w, i] * problem.g[f.w, i]
            used[i] = largest(work.H[f.w, i], f.n)
            size_H = wp.max(size_H, used[i])
            size_g = wp.max(size_g, wp.abs(work.g[f.w, i]))
        for i in range(f.m):
            work.q[f.w, i] = work.scale_y[f.w, i] * problem.q[f.w, i]
            row = S(0.0)
            for j in range(f.n):
                row = wp.max(row, wp.abs(work.A[f.w, i, j]))
                used[j] = wp.max(used[j], wp.abs(work.A[f.w, i, j]))
            if row == S(0.0):
                # 0 ≥ q: met by any slack, or by none.
                work.scale_y[f.w, i] = S(0.0)
                work.q[f.w, i] = wp.where(work.q[f.w, i] > S(0.0), S(1.0), S(-1.0))
            else:
                size_q = wp.max(size_q, wp.abs(work.q[f.w, i]))
        for c in range(f.cones):
            row_fill(S(1.0), used, work.start[f.w, c], work.start[f.w, c] + work.size[f.w, c])
        for i in range(f.n):
            if used[i] == S(0.0) and work.g[f.w, i] != S(0.0):
                status = wp.int32(UNBOUNDED)
        b = S(1.0)
        if size_q > S(0.0):
            b = size_q
        if size_H > S(0.0) and size_g > S(0.0):
            b = size_g / size_H
            if size_q > S(0.0):
                b = wp.sqrt(b) * wp.sqrt(size_q)
        cost = wp.max(size_H, size_g / b)
        cost_scale = S(1.0)
        if cost > S(0.0):
            cost_scale = S(1.0) / cost
        for i in range(f.n):
            work.g[f.w, i] = work.g[f.w, i] * cost_scale / b
            work.scale_x[f.w, i] = b * work.scale_x[f.w, i]
            row_scale(cost_scale, work.H[f.w, i], 0, f.n)
        for i in range(f.m):
            if work.scale_y[f.w, i] > S(0.0):
                work.q[f.w, i] = work.q[f.w, i] / b
            work.scale_y[f.w, i] = b / cost_scale * work.scale_y[f.w, i]
        return status

    @wp.kernel(module=module_name("cone_qp", S), enable_backward=False)
    def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
        """One world per thread."""
        f = World()
        f.w = wp.tid()
        capacity_n = solution.x.shape[1]
        capacity_m = solution.y.shape[1]
        f.n = wp.min(problem.variables[f.w], capacity_n)
        f.m = wp.min(problem.rows[f.w], capacity_m)
        f.cones = wp.min(problem.cones[f.w], problem.start.shape[1])
        x = solution.x[f.w]
        y = solution.y[f.w]
        z = solution.z[f.w]
        row_fill(S(0.0), x, 0, capacity_n)
        row_fill(S(0.0), y, 0, capacity_m)
        row_fill(S(0.0), z, 0, capacity_n)
        residual = S(INFINITE)
        count = wp.int32(0)
        status = check(problem, f)
        if status == 0:
            status = scale_problem(problem, work, f)
            if status == 0:
                residual, count, status = iterate(work, f, options)
                for i in range(f.n):
                    x[i] = work.scale_x[f.w, i] * work.best_x[f.w, i]
                for i in range(f.m):
                    y[i] = work.scale_y[f.w, i] * work.best_y[f.w, i]
                for c in range(f.cones):
                    for i in range(problem.start[f.w, c], problem.start[f.w, c] + problem.size[f.w, c]):
                        z[i] = row_dot(problem.H[f.w, i], x, 0, f.n) + problem.g[f.w, i]
                        for j in range(f.m):
                            z[i] = z[i] - problem.A[f.w, j, i] * y[j]
            else:
                status = status | NOT_CONVERGED
        solution.residual[f.w] = residual
        solution.iterations[f.w] = count
        solution.status[f.w] = status

    return SimpleNamespace(Problem=Problem, Workspace=Workspace, Solution=Solution, Options=Options, solve=solve)
