"""Boxed LCP with coupled friction bounds, solved by pivoting (theory §5; Werling et al., §4).

    find x:  w = A x − b,  l ≤ x ≤ u,  x = l ⇒ w ≥ 0,  x = u ⇒ w ≤ 0,  l < x < u ⇒ w = 0
    row i with findex_i < 0: [l, u] = [0, hi_i];   with findex_i = j: [l, u] = [−hi_i x_j, hi_i x_j]

A is symmetric positive semidefinite, of any rank. Every row is separating S, clamping C, or at its bound U, and with the
classes known x is linear: x_U = E x_C, Q x_C = b_C, Q = A_CC + A_CU E. One thread solves one world, in scaled variables
(diag A = 1, max |b| = 1):

1. Classes that the caller gives (those of the last step) are tried first: the least-norm x_C = Q⁺ b_C, and done if it solves.
2. Block pivoting on A + εI from the given classes, or from those of some projected Gauss–Seidel sweeps: classes → x → classes.
   It settles in a few factorisations or not at all.
3. Then Lemke's method on A + εI, which cannot fail: the problem with w + θd on rows of the first kind and bounds wider by
   θe on the others is solved for large θ by x_1 = 0, and its solution followed, one class change at a time, to θ = 0. A
   ray would need x̂ᵀ(A + εI)x̂ ≤ 0. The path of Lemke's 3-variable form of friction without its tableau: each piece is
   factored anew, so that rounding does not add up.
4. x_C = Q⁺ b_C at these classes, without ε. Where it leaves its bounds (the classes of A + εI need not fit the least-norm
   point) the solution itself is made exact by proximal steps, A + εI against b + εx, until the residual is below tolerance.

Cost: a factorisation 2/3 |C|³ per pivot; block pivoting takes 2 to 8, Lemke's method about 1 to 4 per row.
"""

import functools
from types import SimpleNamespace

import numpy as np
import warp as wp

from warpsim.kernels.linalg import dense, rows
from warpsim.kernels.precision import module_name, types

NOT_CONVERGED = 1  # bit of `status`: no solution to tolerance; x is the best met, `residual` is its own
NON_FINITE = 2  # bit of `status`: a NaN or an infinity in the data; x = 0

# Classes, with the sign of the bound for U and T: + upper, − lower.
SEPARATING = 0
CLAMPING = 1
UPPER = 2
TIED = 3

# ε: large enough for exact pivots, small enough for the classes to be those of A.
REGULARIZATION = {wp.float32: 3e-5, wp.float64: 1e-6}
# Each further attempt of Lemke's method takes other d, e and this much more ε.
REGULARIZATION_GROWTH = 10.0
ATTEMPTS = 3
SWEEPS = 20
BLOCK_PIVOTS = 10
PROXIMAL_STEPS = 20
REFINEMENTS = 6
# Proximal steps that may pass without the residual falling to this part.
STALL_STEPS = 5
STALL_SHRINK = 0.5
# A solution this good is tried again with every row on its bound that is within SNAP residuals of it.
SNAP_BELOW = 1e-4
SNAP = 1e2
PIECES_PER_ROW = 12
# Residual at which the regularised problem counts as solved (max |b̃| is 1).
SOLVED = {wp.float32: 1e-5, wp.float64: 1e-11}
# Rank of Q: pivots above this many epsilons of the first.
RANK_EPSILONS = 1e5
# A row is tied where x − bound and w are both below this many tolerances.
TIED_TOLERANCES = 10.0
# Diagonal entries below this many epsilons of the largest are zero rows: nothing moves.
ZERO_EPSILONS = 1e2
# d, e = ½ + the fractional parts of i φ + ψ: all different, so that no two rows change class at the same θ.
GOLDEN = 0.6180339887498949
PLASTIC = 0.7548776662466927
# θ before the first event of Lemke's method: any number above every event.
INFINITE = 1e30


@functools.cache
def build(S) -> SimpleNamespace:
    """Structs `Problem`, `Workspace`, `Solution`, `Options` and kernel `solve` for scalar type S."""
    vec2 = types(S).vec2
    f_rows, f_dense = rows.build(S), dense.build(S)
    row_dot, row_copy, row_fill = f_rows.row_dot, f_rows.row_copy, f_rows.row_fill
    gather_axpy, Orthogonal = f_dense.gather_axpy, f_dense.Orthogonal
    lu_factor, lu_solve, qr_factor, qr_solve = f_dense.lu_factor, f_dense.lu_solve, f_dense.qr_factor, f_dense.qr_solve
    epsilon = float(np.finfo(wp.dtype_to_numpy(S)).eps)
    first_regularization = REGULARIZATION[S]
    solved, rank_level, zero_level = SOLVED[S], epsilon * RANK_EPSILONS, epsilon * ZERO_EPSILONS

    @wp.struct
    class Problem:
        A: wp.array3d(dtype=S)  # (worlds, n, n) symmetric positive semidefinite
        b: wp.array2d(dtype=S)  # (worlds, n)
        hi: wp.array2d(dtype=S)  # (worlds, n) upper bound (∞: none), or friction coefficient
        findex: wp.array2d(dtype=int)  # (worlds, n) −1, or the row of the first kind that scales the bound
        rows: wp.array(dtype=int)  # (worlds,) used rows
        classes: wp.array2d(dtype=int)  # (worlds, n) guess, read where Options.guess is 1

    @wp.struct
    class Workspace:
        """Scaled problem (A, b, hi, d x = D x̃) and scratch; n-vectors unless said."""

        A: wp.array3d(dtype=S)  # (worlds, n, n)
        K: wp.array3d(dtype=S)  # (worlds, n, n) factor of Qᵀ
        Z: wp.array3d(dtype=S)  # (worlds, n, n) second factor of a rank-deficient Q
        b: wp.array2d(dtype=S)
        hi: wp.array2d(dtype=S)
        scale: wp.array2d(dtype=S)  # x = scale x̃
        target: wp.array2d(dtype=S)  # b + εx of the proximal step
        x: wp.array2d(dtype=S)
        w: wp.array2d(dtype=S)
        x_theta: wp.array2d(dtype=S)  # dx/dθ, dw/dθ of a piece
        w_theta: wp.array2d(dtype=S)
        trial: wp.array2d(dtype=S)  # least-norm x
        best: wp.array2d(dtype=S)  # x with the least residual so far
        cover: wp.array2d(dtype=S)  # d, e of Lemke's path
        r: wp.array2d(dtype=S)
        y: wp.array2d(dtype=S)
        tau: wp.array2d(dtype=S)
        diagonal: wp.array2d(dtype=S)
        tau_Z: wp.array2d(dtype=S)
        diagonal_Z: wp.array2d(dtype=S)
        classes: wp.array2d(dtype=int)  # S, C, ±U
        clamped: wp.array2d(dtype=int)  # the rows of class C, ascending
        place: wp.array2d(dtype=int)  # place of a row in `clamped`, −1 outside
        pivots: wp.array2d(dtype=int)

    @wp.struct
    class Solution:
        x: wp.array2d(dtype=S)  # (worlds, n), 0 in unused rows
        residual: wp.array(dtype=S)  # (worlds,) max |x̃ − mid(l̃, x̃ − w̃, ũ)|, relative to max |b̃|
        classes: wp.array2d(dtype=int)  # (worlds, n) S, C, ±U, ±T; S in unused rows
        factorizations: wp.array(dtype=int)  # (worlds,)
        hit: wp.array(dtype=int)  # (worlds,) 1: the guessed classes were right
        status: wp.array(dtype=int)  # (worlds,) bits NOT_CONVERGED, NON_FINITE

    @wp.struct
    class Options:
        tolerance: S
        guess: int  # 1: try Problem.classes first

    @wp.struct
    class Event:
        """Where a piece of Lemke's path ends: at θ row `row` leaves its class on `side` (−1 lower, +1 upper)."""

        theta: S
        row: int
        side: int

    @wp.func
    def scale_problem(problem: Problem, work: Workspace, w: int, n: int) -> int:
        """Ã = DAD, b̃ = Db/β, x = βDx̃ with diag Ã = 1 and max |b̃| = 1; the status: NON_FINITE or 0."""
        largest = S(0.0)
        check = S(0.0)
        status = wp.int32(0)
        for i in range(n):
            largest = wp.max(largest, problem.A[w, i, i])
            check += problem.b[w, i] - problem.b[w, i]
            hi = problem.hi[w, i]
            if not (hi >= S(0.0)) or (problem.findex[w, i] >= 0 and hi - hi != S(0.0)):
                status = wp.int32(NON_FINITE)
            for j in range(n):
                check += problem.A[w, i, j] - problem.A[w, i, j]
        if check != S(0.0) or status != 0:
            return NON_FINITE
        if not (largest > S(0.0)):
            largest = S(1.0)
        beta = S(0.0)
        for i in range(n):
            d = S(1.0) / wp.sqrt(wp.where(problem.A[w, i, i] > S(zero_level) * largest, problem.A[w, i, i], largest))
            work.scale[w, i] = d
            work.b[w, i] = d * problem.b[w, i]
            beta = wp.max(beta, wp.abs(work.b[w, i]))
        if beta == S(0.0):
            beta = S(1.0)
        for i in range(n):
            for j in range(n):
                work.A[w, i, j] = (
                    S(0.5) * work.scale[w, i] * work.scale[w, j] * (problem.A[w, i, j] + problem.A[w, j, i])
                )
        for i in range(n):
            j = problem.findex[w, i]
            if j >= 0:
                work.hi[w, i] = problem.hi[w, i] * work.scale[w, j] / work.scale[w, i]
            else:
                work.hi[w, i] = problem.hi[w, i] / (beta * work.scale[w, i])
            work.b[w, i] = work.b[w, i] / beta
            work.target[w, i] = work.b[w, i]
        for i in range(n):
            work.scale[w, i] = beta * work.scale[w, i]
        return 0

    @wp.func
    def half_width(work: Workspace, findex: wp.array1d(dtype=int), w: int, i: int, x: wp.array1d(dtype=S)) -> S:
        """u of row i; l is 0 or −u."""
        u = work.hi[w, i]
        if findex[i] >= 0:
            u = u * wp.max(x[findex[i]], S(0.0))
        return u

    @wp.func(inline=False)
    def measure(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int,
        regularization: S, target: wp.array1d(dtype=S), x: wp.array1d(dtype=S),
    ) -> S:  # fmt: skip
        """w = (A + εI) x − target, and the residual max |x − mid(l, x − w, u)|."""
        residual = S(0.0)
        for i in range(n):
            w_i = row_dot(work.A[w, i], x, 0, n) + regularization * x[i] - target[i]
            work.w[w, i] = w_i
            u = half_width(work, findex, w, i, x)
            l = wp.where(findex[i] >= 0, -u, S(0.0))
            error = wp.abs(x[i] - wp.min(wp.max(x[i] - w_i, l), u))
            if error - error != S(0.0):
                error = S(INFINITE)
            residual = wp.max(residual, error)
        return residual

    @wp.func
    def classify(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, x: wp.array1d(dtype=S)):
        """Classes of x − w, with w as `measure` left it; friction at a separating contact takes the bound it points to."""
        for i in range(n):
            if findex[i] < 0:
                trial = x[i] - work.w[w, i]
                work.classes[w, i] = wp.where(trial <= S(0.0), SEPARATING, CLAMPING)
                if trial >= work.hi[w, i]:
                    work.classes[w, i] = UPPER
        for i in range(n):
            j = findex[i]
            if j >= 0:
                u = half_width(work, findex, w, i, x)
                trial = x[i] - work.w[w, i]
                if work.classes[w, j] == SEPARATING:
                    work.classes[w, i] = wp.where(work.w[w, i] < S(0.0), UPPER, -UPPER)
                elif trial >= u:
                    work.classes[w, i] = UPPER
                elif trial <= -u:
                    work.classes[w, i] = -UPPER
                else:
                    work.classes[w, i] = CLAMPING

    @wp.func
    def list_clamped(work: Workspace, w: int, n: int) -> int:
        """`clamped` and `place` from the classes; |C|."""
        m = wp.int32(0)
        for i in range(n):
            work.place[w, i] = -1
            if work.classes[w, i] == CLAMPING:
                work.clamped[w, m] = i
                work.place[w, i] = m
                m += 1
        return m

    @wp.func(inline=False)
    def assemble(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, regularization: S) -> int:
        """K = Qᵀ + εI, Q = A_CC + A_CU E; |C|."""
        m = list_clamped(work, w, n)
        K = work.K[w]
        clamped = work.clamped[w]
        for a in range(m):
            row_fill(S(0.0), K[a], 0, m)
            gather_axpy(S(1.0), work.A[w, clamped[a]], clamped, m, K[a])
            K[a, a] = K[a, a] + regularization
        for i in range(n):
            j = findex[i]
            if j >= 0 and work.classes[w, i] != CLAMPING and work.place[w, j] >= 0:
                E_ij = wp.where(work.classes[w, i] == UPPER, work.hi[w, i], -work.hi[w, i])
                gather_axpy(E_ij, work.A[w, i], clamped, m, K[work.place[w, j]])
        return m

    @wp.func
    def expand(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, one: S, theta: S, x: wp.array1d(dtype=S)
    ):
        """x of S and U from x_C: 0, hi · one, ±(hi x_j + e θ)."""
        for i in range(n):
            if findex[i] < 0:
                if work.classes[w, i] == SEPARATING:
                    x[i] = S(0.0)
                elif work.classes[w, i] == UPPER:
                    x[i] = one * work.hi[w, i]
        for i in range(n):
            j = findex[i]
            if j >= 0 and work.classes[w, i] != CLAMPING:
                u = work.hi[w, i] * x[j] + theta * work.cover[w, i]
                x[i] = wp.where(work.classes[w, i] == UPPER, u, -u)

    @wp.func(inline=False)
    def solve_classes(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, m: int, rank: int,
        regularization: S, target: wp.array1d(dtype=S), one: S, theta: S, passes: int, x: wp.array1d(dtype=S),
    ):  # fmt: skip
        """x: w_C = 0 at the present classes, from the LU factor (rank < 0) or least-norm; `passes` − 1 refinements.

        The right-hand side is one · target − θd, the bounds one · (·) + θe.
        """
        clamped = work.clamped[w]
        r = work.r[w]
        for a in range(m):
            x[clamped[a]] = S(0.0)
        for _pass in range(passes):
            expand(work, findex, w, n, one, theta, x)
            for a in range(m):
                i = clamped[a]
                r[a] = one * target[i] - row_dot(work.A[w, i], x, 0, n) - regularization * x[i]
                if findex[i] < 0:
                    r[a] = r[a] - theta * work.cover[w, i]
            if rank < 0:
                lu_solve(work.K[w], m, work.pivots[w], r)
                for a in range(m):
                    x[clamped[a]] = x[clamped[a]] + r[a]
            else:
                qr_solve(work.K[w], m, rank, orthogonal(work, w), r, work.y[w])
                for a in range(m):
                    x[clamped[a]] = x[clamped[a]] + work.y[w, a]
        expand(work, findex, w, n, one, theta, x)

    @wp.func
    def orthogonal(work: Workspace, w: int) -> Orthogonal:
        """The views of `qr_factor` for one world."""
        o = Orthogonal()
        o.Z = work.Z[w]
        o.tau = work.tau[w]
        o.diagonal = work.diagonal[w]
        o.tau_Z = work.tau_Z[w]
        o.diagonal_Z = work.diagonal_Z[w]
        o.column = work.pivots[w]
        return o

    @wp.func(inline=False)
    def block_pivot(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, regularization: S, x: wp.array1d(dtype=S)
    ) -> int:
        """Classes → x → classes on A + εI; the factorisations, negative when it did not settle."""
        target = work.target[w]
        for pivot in range(BLOCK_PIVOTS):
            m = assemble(work, findex, w, n, regularization)
            lu_factor(work.K[w], m, work.pivots[w], S(epsilon) * regularization)
            solve_classes(work, findex, w, n, m, -1, regularization, target, S(1.0), S(0.0), 2, x)
            if measure(work, findex, w, n, regularization, target, x) <= S(solved):
                return pivot + 1
            classify(work, findex, w, n, x)
        return -BLOCK_PIVOTS

    @wp.func(inline=False)
    def solve_exactly(
        work: Workspace, options: Options, findex: wp.array1d(dtype=int), w: int, n: int, regularization: S, residual: S
    ) -> S:
        """x of the present classes without ε, in `best` if it is better: x_C = Q⁺ b_C, else from Q + εI by refinement."""
        m = assemble(work, findex, w, n, S(0.0))
        rank = qr_factor(work.K[w], m, S(rank_level), orthogonal(work, w))
        best = residual
        for method in range(2):
            if method == 1:
                assemble(work, findex, w, n, regularization)
                lu_factor(work.K[w], m, work.pivots[w], S(epsilon) * regularization)
                rank = -1
            passes = wp.where(method == 0, 2, REFINEMENTS)
            solve_classes(work, findex, w, n, m, rank, S(0.0), work.b[w], S(1.0), S(0.0), passes, work.trial[w])
            trial = measure(work, findex, w, n, S(0.0), work.b[w], work.trial[w])
            best = keep_best(work, w, n, trial, best, work.trial[w])
            if best <= options.tolerance:
                break
        return best

    @wp.func
    def sweep(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, x: wp.array1d(dtype=S)):
        """Projected Gauss–Seidel from x = 0: a guess of the classes."""
        row_fill(S(0.0), x, 0, n)
        for _sweep in range(SWEEPS):
            for i in range(n):
                A_ii = work.A[w, i, i]
                if A_ii > S(0.5):  # 1, or 0 where nothing moves
                    trial = x[i] - (row_dot(work.A[w, i], x, 0, n) - work.b[w, i]) / A_ii
                    u = half_width(work, findex, w, i, x)
                    x[i] = wp.min(wp.max(trial, wp.where(findex[i] >= 0, -u, S(0.0))), u)

    @wp.func
    def slack(work: Workspace, findex: wp.array1d(dtype=int), w: int, i: int, side: int) -> vec2:
        """Distance of row i from leaving its class at a side: (value at θ = 0, derivative by θ), ≥ 0 on the path."""
        class_i = work.classes[w, i]
        if class_i == UPPER:
            return vec2(-work.w[w, i], -work.w_theta[w, i])
        if class_i != CLAMPING:
            return vec2(work.w[w, i], work.w_theta[w, i])
        u = vec2(work.hi[w, i], S(0.0))
        j = findex[i]
        if j >= 0:
            u = vec2(work.hi[w, i] * work.x[w, j], work.hi[w, i] * work.x_theta[w, j] + work.cover[w, i])
        x = vec2(work.x[w, i], work.x_theta[w, i])
        if side > 0:
            return u - x
        if j >= 0:
            return u + x
        return x

    @wp.func
    def next_event(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, theta: S, sigma: S, last: int, last_side: int
    ) -> Event:
        """The first slack that falls to 0 as θ moves from its value in direction σ; row −1: none."""
        event = Event()
        event.row = -1
        nearest = S(INFINITE)
        for i in range(n):
            class_i = work.classes[w, i]
            for end in range(2):
                side = 2 * end - 1
                skip = i == last and (side == last_side or class_i != CLAMPING)
                if class_i != CLAMPING and end == 1:
                    skip = bool(True)
                # The upper end of a row that has none.
                if class_i == CLAMPING and end == 1 and work.hi[w, i] - work.hi[w, i] != S(0.0):
                    skip = bool(True)
                if not skip:
                    s = slack(work, findex, w, i, side)
                    if s[1] * sigma < S(0.0):
                        # Slacks that rounding has made negative already: now.
                        along = wp.max(-s[0] / s[1] * sigma, theta * sigma)
                        if along < nearest:
                            nearest = along
                            event.row = i
                            event.theta = along * sigma
                            event.side = side
        return event

    @wp.func(inline=False)
    def follow_path(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, regularization: S) -> int:
        """Lemke's path on A + εI from large θ to θ = 0; leaves the classes. The number of pieces."""
        target = work.target[w]
        for i in range(n):
            work.classes[w, i] = wp.where(findex[i] < 0, SEPARATING, CLAMPING)
        theta = S(INFINITE)
        sigma = S(-1.0)
        last = wp.int32(-1)
        last_side = wp.int32(0)
        for piece in range(PIECES_PER_ROW * n):
            m = assemble(work, findex, w, n, regularization)
            lu_factor(work.K[w], m, work.pivots[w], S(epsilon) * regularization)
            solve_classes(work, findex, w, n, m, -1, regularization, target, S(1.0), S(0.0), 1, work.x[w])
            solve_classes(work, findex, w, n, m, -1, regularization, target, S(0.0), S(1.0), 1, work.x_theta[w])
            for i in range(n):
                A_i = work.A[w, i]
                work.w[w, i] = row_dot(A_i, work.x[w], 0, n) + regularization * work.x[w, i] - target[i]
                work.w_theta[w, i] = row_dot(A_i, work.x_theta[w], 0, n) + regularization * work.x_theta[w, i]
                if findex[i] < 0:
                    work.w_theta[w, i] = work.w_theta[w, i] + work.cover[w, i]
            if last >= 0:
                sigma = wp.where(slack(work, findex, w, last, last_side)[1] > S(0.0), S(1.0), S(-1.0))
            event = next_event(work, findex, w, n, theta, sigma, last, last_side)
            if event.row < 0 or (sigma < S(0.0) and event.theta <= S(0.0)):
                return piece + 1
            theta = event.theta
            last = event.row
            class_i = work.classes[w, last]
            if class_i == CLAMPING:
                last_side = 0
                if event.side > 0:
                    work.classes[w, last] = UPPER
                else:
                    work.classes[w, last] = wp.where(findex[last] < 0, SEPARATING, -UPPER)
            else:
                last_side = wp.where(class_i == UPPER, 1, -1)
                work.classes[w, last] = CLAMPING
        return PIECES_PER_ROW * n

    @wp.func
    def keep_best(work: Workspace, w: int, n: int, residual: S, best: S, x: wp.array1d(dtype=S)) -> S:
        """The smaller residual, with its x in `best`."""
        if residual < best:
            row_copy(x, work.best[w], 0, n)
        return wp.min(residual, best)

    @wp.func
    def set_cover(work: Workspace, w: int, n: int, attempt: int):
        """d and e of one attempt."""
        for i in range(n):
            phase = S(GOLDEN) * S(i + 1) + S(PLASTIC) * S(attempt)
            work.cover[w, i] = S(0.5) + phase - wp.floor(phase)

    @wp.func
    def label(
        work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, tolerance: S, classes: wp.array1d(dtype=int)
    ):
        """S, C, ±U, ±T of `best`, with its w as `measure` left it."""
        x = work.best[w]
        for i in range(n):
            if findex[i] < 0:
                classes[i] = label_row(x[i], work.w[w, i], S(0.0), work.hi[w, i], tolerance)
                if classes[i] == -UPPER:
                    classes[i] = SEPARATING
        for i in range(n):
            if findex[i] >= 0:
                if classes[findex[i]] == SEPARATING:
                    classes[i] = SEPARATING
                else:
                    u = half_width(work, findex, w, i, x)
                    classes[i] = label_row(x[i], work.w[w, i], -u, u, tolerance)

    @wp.func
    def label_row(x: S, w: S, l: S, u: S, tolerance: S) -> int:
        """±U at a bound that w presses on, ±T where it does not, C between."""
        if x >= u - tolerance and w < -tolerance:
            return UPPER
        if x <= l + tolerance:
            return wp.where(w > tolerance, -UPPER, -TIED)
        if x >= u - tolerance:
            return TIED
        return CLAMPING

    @wp.func
    def adopt_classes(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, classes: wp.array1d(dtype=int)):
        """Classes given from outside; tied rows stay at their bound."""
        for i in range(n):
            given = classes[i]
            class_i = wp.int32(SEPARATING)
            if given == CLAMPING:
                class_i = CLAMPING
            elif given >= UPPER:
                class_i = UPPER
            elif given <= -UPPER and findex[i] >= 0:
                class_i = -UPPER
            work.classes[w, i] = class_i

    @wp.func(inline=False)
    def settle(work: Workspace, findex: wp.array1d(dtype=int), w: int, n: int, regularization: S, first: int) -> int:
        """Classes and x of A + εI against `target`: block pivoting where first is 0, else and after it Lemke; the count."""
        count = wp.int32(0)
        settled = wp.int32(-1)
        if first == 0:
            settled = block_pivot(work, findex, w, n, regularization, work.x[w])
            count += wp.abs(settled)
        if settled < 0:
            count += follow_path(work, findex, w, n, regularization)
            count += wp.abs(block_pivot(work, findex, w, n, regularization, work.x[w]))
        return count

    @wp.func(inline=False)
    def approach(
        work: Workspace, options: Options, findex: wp.array1d(dtype=int), w: int, n: int,
        regularization: S, path_first: int, residual: S,
    ) -> tuple[S, int]:  # fmt: skip
        """Proximal steps from the problem with ε to the one without; (least residual, factorisations), x in `best`."""
        x = work.x[w]
        best = residual
        reference = S(INFINITE)
        count = wp.int32(0)
        stalled = wp.int32(0)
        for step in range(PROXIMAL_STEPS):
            count += settle(work, findex, w, n, regularization, wp.where(step == 0, path_first, 0))
            if step == 0:
                count += 1
                best = solve_exactly(work, options, findex, w, n, regularization, best)
            best = keep_best(work, w, n, measure(work, findex, w, n, S(0.0), work.b[w], x), best, x)
            stalled += 1
            if best < S(STALL_SHRINK) * reference:
                reference = best
                stalled = 0
            if best <= options.tolerance or stalled == STALL_STEPS:
                break
            for i in range(n):
                work.target[w, i] = work.b[w, i] + regularization * x[i]
        return best, count

    @wp.func(inline=False)
    def pivot(
        work: Workspace, options: Options, findex: wp.array1d(dtype=int), w: int, n: int, residual: S,
        classes: wp.array1d(dtype=int),
    ) -> tuple[S, int]:  # fmt: skip
        """Steps 2 to 4 of the module; (least residual, factorisations), x in `best`."""
        best = residual
        count = wp.int32(0)
        regularization = S(first_regularization)
        if options.guess == 0:
            sweep(work, findex, w, n, work.x[w])
            measure(work, findex, w, n, regularization, work.target[w], work.x[w])
            classify(work, findex, w, n, work.x[w])
        for attempt in range(ATTEMPTS):
            set_cover(work, w, n, attempt)
            row_copy(work.b[w], work.target[w], 0, n)
            best, steps = approach(work, options, findex, w, n, regularization, attempt, best)
            count += steps
            if best > options.tolerance and best < S(SNAP_BELOW):
                # A tie, approached ever more slowly: put the rows that are nearly at a bound on it.
                measure(work, findex, w, n, S(0.0), work.b[w], work.best[w])
                label(work, findex, w, n, S(SNAP) * best, classes)
                adopt_classes(work, findex, w, n, classes)
                best = solve_exactly(work, options, findex, w, n, regularization, best)
            if best <= options.tolerance:
                break
            regularization = S(REGULARIZATION_GROWTH) * regularization
        return best, count

    @wp.kernel(module=module_name("lcp", S), enable_backward=False)
    def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
        """One world per thread: x and its classes."""
        w = wp.tid()
        capacity = solution.x.shape[1]
        n = wp.min(problem.rows[w], capacity)
        findex = problem.findex[w]
        residual = S(INFINITE)
        count = wp.int32(0)
        hit = wp.int32(0)
        status = scale_problem(problem, work, w, n)
        if status == 0:
            if options.guess == 1:
                adopt_classes(work, findex, w, n, problem.classes[w])
                residual = solve_exactly(work, options, findex, w, n, S(first_regularization), residual)
                count = 1
                hit = wp.where(residual <= options.tolerance, 1, 0)
            if hit == 0:
                residual, pivots = pivot(work, options, findex, w, n, residual, solution.classes[w])
                count += pivots
            measure(work, findex, w, n, S(0.0), work.b[w], work.best[w])
            label(work, findex, w, n, S(TIED_TOLERANCES) * wp.max(options.tolerance, residual), solution.classes[w])
            if not (residual <= options.tolerance):
                status = NOT_CONVERGED
        for i in range(capacity):
            if i >= n or status == NON_FINITE:
                solution.x[w, i] = S(0.0)
                solution.classes[w, i] = SEPARATING
            else:
                solution.x[w, i] = work.scale[w, i] * work.best[w, i]
        solution.residual[w] = residual
        solution.factorizations[w] = count
        solution.hit[w] = hit
        solution.status[w] = status

    return SimpleNamespace(Problem=Problem, Workspace=Workspace, Solution=Solution, Options=Options, solve=solve)
