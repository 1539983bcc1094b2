"""Boxed LCP with coupled friction bounds, solved by pivoting (theory §5; Werling et al., §4).

    find x:  w = A x − b,  l ≤ x ≤ u,  x = l ⇒ w ≥ 0,  x = u ⇒ w ≤ 0,  l < x < u ⇒ w = 0
    row i with findex_i < 0: [l, u] = [0, hi_i];   with findex_i = j ≥ 0: [l, u] = [−hi_i x_j, hi_i x_j]

A is symmetric positive semidefinite, of any rank. Every row is separating S, clamping C or at its bound U; with the classes
known x is linear: x_U = E x_C, Q x_C = b_C, Q = A_CC + A_CU E. One thread solves one world, in scaled variables (diag A = 1,
max |b| = 1):

1. Classes that the caller gives (those of the last step) are tried first, and kept if their x solves.
2. Block pivoting on A + εI, classes → x → classes, from these classes or those of some projected Gauss–Seidel sweeps. It
   settles in a few factorisations or not at all.
3. Then Lemke's method on A + εI: w + θd on rows of the first kind, bounds wider by θe on the others. For large θ the
   solution is x_1 = 0, w_2 = 0; it is followed, one class change at a time, to θ = 0. A ray would need x̂ᵀ(A + εI)x̂ ≤ 0, so
   there is none but the first. The usual tableau has three columns per friction row; here each piece is factored
   anew from A, which is smaller and does not add up rounding.
4. The x of these classes without ε, x_C = Q⁺ b_C, of least norm in the unscaled x. Where it leaves its bounds (three
   contacts in a row can) the solution with ε is made exact by proximal steps, A + εI against b + εx.

A problem without a solution to the tolerance is flagged with its residual. Cost: 2/3 |C|³ per factorisation; block pivoting
takes 2 to 8 of them, Lemke's method 1 to 4 per row.
"""

import functools
from types import SimpleNamespace

import numpy as np
import warp as wp

from warpsim.kernels.linalg import dense, rows, semidefinite
from warpsim.kernels.precision import module_name, types

NOT_CONVERGED = 1  # bit of `status`: no solution to tolerance; x is the best met, `residual` is its own
NON_FINITE = 2  # bit of `status`: a NaN or an infinity in the data; x = 0

# Options.guess
NOTHING, CLASSES, IMPULSES = 0, 1, 2

# Classes, with the sign of the bound for U and T: + upper, − lower.
SEPARATING = 0
CLAMPING = 1
UPPER = 2
TIED = 3

# ε: large enough for exact pivots, small enough for the classes to be those of A. Every further attempt of Lemke's method
# has other d, e and an ε times the factor.
REGULARIZATION = {wp.float32: 3e-5, wp.float64: 1e-6}
ATTEMPT_FACTOR = {wp.float32: 0.1, wp.float64: 0.01}
# ε of the proximal steps.
PROXIMAL_SHRINK = 0.1
LEAST_REGULARIZATION = {wp.float32: 3e-6, wp.float64: 1e-11}
ATTEMPTS = 3
# Gauss–Seidel sweeps before, and factorisations of, block pivoting; most that succeed take fewer than 8.
SWEEPS = 20
BLOCK_PIVOTS = 4
# Class changes of Lemke's path per row; 4 are usual.
PIECES_PER_ROW = 12
# Factorisations of block pivoting on A itself.
EXACT_PIVOTS = 4
# Turns of projections where the least-norm solution leaves its bounds.
RELAXATION = 1.8
TURNS = 20
# Sweeps that adapt the impulses of the last step, and rounds of sweeps and block pivoting before Lemke's method.
GUESS_SWEEPS = 10
# Residual at which the problem with ε counts as solved (max |b̃| is 1).
SOLVED = {wp.float32: 1e-5, wp.float64: 1e-11}
# What rounding leaves of it, in machine epsilons of the largest |x|.
ROUNDING_EPSILONS = 4.0
# Passes of Q⁺b and of (Q + εI)⁻¹b: the solution, and one refinement.
REFINEMENTS = 2
# Proximal steps, and how many of them may pass without the residual falling to the given part.
PROXIMAL_STEPS = 20
STALL_STEPS = 5
STALL_SHRINK = 0.5
# A solution this good is tried again with every row on its bound that is within SNAP residuals of it.
SNAP_BELOW = 1e-4
SNAP = 1e2
# Rank of Q: pivots above this many machine epsilons of the first.
RANK_EPSILONS = 1e3
# A row is tied where its distance from the bound and w are both below this many tolerances.
TIED_TOLERANCES = 10.0
# Diagonal entries of A below the square of so many machine epsilons of the largest are 0: A_ii is the square of a row of J
# in the norm of M⁻¹, and that row is rounding.
ZERO_EPSILONS = 1e2
# d, e = ½ + the fractional parts of i φ + ψ: all different, so that no two rows change class at the same θ.
GOLDEN = 0.6180339887498949
PLASTIC = 0.7548776662466927
# θ above every event, and the residual of a NaN.
INFINITE = 1e30


FIRST_COUPLED = """
const auto* px = x.data;
const int* pl = label.data;
for (int j = first; j < last; ++j) if (px[j] != 0 && pl[j] != own) return j;
return last;
"""
RELABEL = """
int* p = label.data;
for (int j = 0; j < count; ++j) p[j] = p[j] == before ? after : p[j];
"""
SCALED_GATHER = """
const auto* px = x.data;
const auto* pd = d.data;
const int* which = index.data;
auto* py = y.data;
for (int k = 0; k < count; ++k) py[k] = a * pd[which[k]] * px[which[k]];
"""


@functools.cache
def build(S) -> SimpleNamespace:
    """Structs `Problem`, `Workspace`, `Solution`, `Options` and kernel `solve` for scalar type S."""
    vec2 = types(S).vec2
    f_rows, f_dense = rows.build(S), dense.build(S)
    row_dot, row_copy, row_fill = f_rows.row_dot, f_rows.row_copy, f_rows.row_fill
    f_product = semidefinite.build(S)
    Product, product_factor, product_bound = f_product.Product, f_product.product_factor, f_product.product_bound
    product_normal, product_solve = f_product.product_normal, f_product.product_solve
    gather_axpy, lu_factor, lu_solve = f_dense.gather_axpy, f_dense.lu_factor, f_dense.lu_solve
    epsilon = float(np.finfo(wp.dtype_to_numpy(S)).eps)
    first_regularization, least_regularization = REGULARIZATION[S], LEAST_REGULARIZATION[S]
    attempt_factor = ATTEMPT_FACTOR[S]
    solved, rounding, rank_level, zero_level = (
        SOLVED[S],
        epsilon * ROUNDING_EPSILONS,
        epsilon * RANK_EPSILONS,
        (epsilon * ZERO_EPSILONS) ** 2,
    )

    @wp.func_native(FIRST_COUPLED)
    def first_coupled(x: wp.array1d(dtype=S), label: wp.array1d(dtype=int), own: int, first: int, last: int) -> int:
        """First j in [first, last) with x[j] ≠ 0 and label[j] ≠ own; `last`: none."""
        ...

    @wp.func_native(RELABEL)
    def relabel(label: wp.array1d(dtype=int), before: int, after: int, count: int):
        """Label `before` becomes `after`."""
        ...

    @wp.func_native(SCALED_GATHER)
    def scaled_gather(
        a: S, d: wp.array1d(dtype=S), x: wp.array1d(dtype=S), index: wp.array1d(dtype=int), count: int, y: wp.array1d(dtype=S)
    ):  # fmt: skip
        """y[k] = a d[i] x[i] with i = index[k], k < count."""
        ...

    @wp.struct
    class Problem:
        A: wp.array3d(dtype=S)  # (worlds, n, n) symmetric positive semidefinite
        b: wp.array2d(dtype=S)  # (worlds, n)
        hi: wp.array2d(dtype=S)  # (worlds, n) upper bound (∞: none), or friction coefficient
        findex: wp.array2d(dtype=int)  # (worlds, n) −1, or the row of the first kind that scales the bound
        rows: wp.array(dtype=int)  # (worlds,) used rows
        classes: wp.array2d(dtype=int)  # (worlds, n) guess, read where Options.guess is CLASSES
        x: wp.array2d(dtype=S)  # (worlds, n) guess, read where Options.guess is IMPULSES

    @wp.struct
    class Workspace:
        """The scaled problem of an island and scratch: matrices (worlds, n, n), vectors (worlds, n)."""

        island: wp.array2d(dtype=int)  # first row of the island of a row
        member: wp.array2d(dtype=int)  # rows of the present island, ascending
        local: wp.array2d(dtype=int)  # place of a row in `member`
        A: wp.array3d(dtype=S)
        K: wp.array3d(dtype=S)  # factor of (Q + εI)ᵀ, or L of `semidefinite.Product`
        N: wp.array3d(dtype=S)
        G: wp.array3d(dtype=S)
        b: wp.array2d(dtype=S)
        hi: wp.array2d(dtype=S)
        findex: wp.array2d(dtype=int)
        scale: wp.array2d(dtype=S)  # x = scale x̃
        d: wp.array2d(dtype=S)  # of all rows: scale / β
        target: wp.array2d(dtype=S)  # b + εx of the proximal step
        x: wp.array2d(dtype=S)
        w: wp.array2d(dtype=S)
        previous: wp.array2d(dtype=S)  # x of the last proximal step
        x_theta: wp.array2d(dtype=S)  # dx/dθ, dw/dθ of a piece
        w_theta: wp.array2d(dtype=S)
        trial: wp.array2d(dtype=S)  # x of the classes, without ε
        best: wp.array2d(dtype=S)  # x with the least residual so far
        direction: wp.array2d(dtype=S)  # d, e of a path: target + θd, bounds wider by θe
        widen: wp.array2d(dtype=S)
        r: wp.array2d(dtype=S)  # right-hand side and solution over the clamped rows
        y: wp.array2d(dtype=S)
        weight: wp.array2d(dtype=S)  # scale of the clamped rows
        rest: wp.array2d(dtype=S)
        classes: wp.array2d(dtype=int)  # S, C, ±U
        labels: wp.array2d(dtype=int)  # S, C, ±U, ±T
        clamped: wp.array2d(dtype=int)  # the rows of class C, ascending; then those that move with them
        place: wp.array2d(dtype=int)  # place of a row in `clamped`, −1 outside
        pivots: wp.array2d(dtype=int)  # row exchanges of LU, pivot rows of L

    @wp.struct
    class Solution:
        x: wp.array2d(dtype=S)  # (worlds, n), 0 in unused rows
        residual: wp.array(dtype=S)  # (worlds,) max |x̃ − mid(l̃, x̃ − w̃, ũ)|, relative to max |b̃|
        classes: wp.array2d(dtype=int)  # (worlds, n) S, C, ±U, ±T; S in unused rows
        factorizations: wp.array(dtype=int)  # (worlds,) of the island that took the most
        hit: wp.array(dtype=int)  # (worlds,) 1: the guess was right in every island, at the first factorisation
        status: wp.array(dtype=int)  # (worlds,) bits NOT_CONVERGED, NON_FINITE

    @wp.struct
    class Options:
        tolerance: S
        guess: int  # NOTHING, CLASSES or IMPULSES of Problem

    @wp.struct
    class World:
        """An island of world w, n rows."""

        w: int
        n: int

    @wp.struct
    class Event:
        """Where a piece of Lemke's path ends: at θ row `row` leaves its class on `side` (−1 lower, +1 upper)."""

        theta: S
        row: int
        side: int

    @wp.func
    def check(problem: Problem, work: Workspace, w: int, n: int) -> int:
        """The status of the data: NON_FINITE or 0."""
        zero = work.best[w]
        row_fill(S(0.0), zero, 0, n)
        bad = row_dot(problem.b[w], zero, 0, n)
        for i in range(n):
            hi = problem.hi[w, i]
            j = problem.findex[w, i]
            if not (hi >= S(0.0)) or j >= n or (j >= 0 and hi - hi != S(0.0)):
                return NON_FINITE
            bad += row_dot(problem.A[w, i], zero, 0, n)
        return wp.where(bad == S(0.0), 0, NON_FINITE)

    @wp.func
    def scale_rows(problem: Problem, work: Workspace, w: int, n: int) -> S:
        """d of Ã = DAD, b̃ = Db/β, x = βDx̃ with diag Ã = 1 and max |b̃| = 1; returns β."""
        largest = S(0.0)
        for i in range(n):
            largest = wp.max(largest, problem.A[w, i, i])
        if not (largest > S(0.0)):
            largest = S(1.0)
        beta = S(0.0)
        for i in range(n):
            A_ii = problem.A[w, i, i]
            work.d[w, i] = S(1.0) / wp.sqrt(wp.where(A_ii > S(zero_level) * largest, A_ii, largest))
            beta = wp.max(beta, wp.abs(work.d[w, i] * problem.b[w, i]))
        return wp.where(beta == S(0.0), S(1.0), beta)

    @wp.func
    def merge(island: wp.array1d(dtype=int), i: int, j: int, n: int):
        """One island of those of rows i and j."""
        if island[i] != island[j]:
            relabel(island, wp.max(island[i], island[j]), wp.min(island[i], island[j]), n)

    @wp.func(inline=False)
    def find_islands(problem: Problem, work: Workspace, w: int, n: int):
        """Rows that A or a friction bound couples, directly or through others, get the first of them as `island`."""
        island = work.island[w]
        for i in range(n):
            island[i] = i
        for i in range(n):
            if problem.findex[w, i] >= 0:
                merge(island, i, problem.findex[w, i], n)
            j = first_coupled(problem.A[w, i], island, island[i], 0, i)
            while j < i:
                merge(island, i, j, n)
                j = first_coupled(problem.A[w, i], island, island[i], j + 1, i)

    @wp.func(inline=False)
    def gather(problem: Problem, work: Workspace, w: int, n: int, root: int, beta: S) -> int:
        """The scaled problem of one island; its rows."""
        member = work.member[w]
        m = wp.int32(0)
        for i in range(n):
            if work.island[w, i] == root:
                member[m] = i
                work.local[w, i] = m
                m += 1
        for a in range(m):
            i = member[a]
            d_i = work.d[w, i]
            scaled_gather(d_i, work.d[w], problem.A[w, i], member, m, work.A[w, a])
            j = problem.findex[w, i]
            if j >= 0:
                work.findex[w, a] = work.local[w, j]
                work.hi[w, a] = problem.hi[w, i] * work.d[w, j] / d_i
            else:
                work.findex[w, a] = -1
                work.hi[w, a] = problem.hi[w, i] / (beta * d_i)
            work.b[w, a] = d_i * problem.b[w, i] / beta
            work.target[w, a] = work.b[w, a]
            work.scale[w, a] = beta * d_i
        return m

    @wp.func
    def half_width(work: Workspace, at: World, i: int, x: wp.array1d(dtype=S)) -> S:
        """u of row i; l is 0 or −u."""
        u = work.hi[at.w, i]
        if work.findex[at.w, i] >= 0:
            u = u * wp.max(x[work.findex[at.w, i]], S(0.0))
        return u

    @wp.func
    def project(work: Workspace, at: World, trial: wp.array1d(dtype=S), x: wp.array1d(dtype=S)):
        """x = trial, within its bounds."""
        for i in range(at.n):
            if work.findex[at.w, i] < 0:
                x[i] = wp.min(wp.max(trial[i], S(0.0)), work.hi[at.w, i])
        for i in range(at.n):
            if work.findex[at.w, i] >= 0:
                u = half_width(work, at, i, x)
                x[i] = wp.min(wp.max(trial[i], -u), u)

    @wp.func(inline=False)
    def measure(
        work: Workspace, at: World,
        regularization: S, target: wp.array1d(dtype=S), x: wp.array1d(dtype=S),
    ) -> S:  # fmt: skip
        """w = (A + εI) x − target, and the residual max |x − mid(l, x − w, u)|."""
        residual = S(0.0)
        for i in range(at.n):
            w_i = row_dot(work.A[at.w, i], x, 0, at.n) + regularization * x[i] - target[i]
            work.w[at.w, i] = w_i
            u = half_width(work, at, i, x)
            l = wp.where(work.findex[at.w, i] >= 0, -u, S(0.0))
            error = wp.abs(x[i] - wp.min(wp.max(x[i] - w_i, l), u))
            if error - error != S(0.0):
                error = S(INFINITE)
            residual = wp.max(residual, error)
        return residual

    @wp.func
    def classify(work: Workspace, at: World, x: wp.array1d(dtype=S)):
        """Classes of x − w, with w as `measure` left it; friction at a separating contact takes the bound it points to."""
        for i in range(at.n):
            if work.findex[at.w, i] < 0:
                trial = x[i] - work.w[at.w, i]
                work.classes[at.w, i] = wp.where(trial <= S(0.0), SEPARATING, CLAMPING)
                if trial >= work.hi[at.w, i]:
                    work.classes[at.w, i] = UPPER
        for i in range(at.n):
            j = work.findex[at.w, i]
            if j >= 0:
                u = half_width(work, at, i, x)
                trial = x[i] - work.w[at.w, i]
                if work.classes[at.w, j] == SEPARATING:
                    work.classes[at.w, i] = wp.where(work.w[at.w, i] < S(0.0), UPPER, -UPPER)
                elif trial >= u:
                    work.classes[at.w, i] = UPPER
                elif trial <= -u:
                    work.classes[at.w, i] = -UPPER
                else:
                    work.classes[at.w, i] = CLAMPING

    @wp.func
    def list_clamped(work: Workspace, at: World) -> int:
        """`clamped`, `place` and `weight` from the classes; |C|."""
        m = wp.int32(0)
        for i in range(at.n):
            work.place[at.w, i] = -1
            if work.classes[at.w, i] == CLAMPING:
                work.clamped[at.w, m] = i
                work.place[at.w, i] = m
                work.weight[at.w, m] = work.scale[at.w, i]
                m += 1
        return m

    @wp.func
    def moves_with(work: Workspace, at: World, i: int) -> S:
        """E_ij of row i: x_i = E_ij x_j where it is at its bound and j = findex_i is clamped, else 0."""
        j = work.findex[at.w, i]
        E_ij = S(0.0)
        if j >= 0 and work.classes[at.w, i] != CLAMPING:
            if work.place[at.w, j] >= 0:
                E_ij = wp.where(work.classes[at.w, i] == UPPER, work.hi[at.w, i], -work.hi[at.w, i])
        return E_ij

    @wp.func(inline=False)
    def assemble(work: Workspace, at: World, regularization: S) -> int:
        """K = Qᵀ + εI, Q = A_CC + A_CU E; |C|."""
        m = list_clamped(work, at)
        K = work.K[at.w]
        clamped = work.clamped[at.w]
        for a in range(m):
            row_fill(S(0.0), K[a], 0, m)
            gather_axpy(S(1.0), work.A[at.w, clamped[a]], clamped, m, K[a])
            K[a, a] = K[a, a] + regularization
        for i in range(at.n):
            E_ij = moves_with(work, at, i)
            if E_ij != S(0.0):
                gather_axpy(E_ij, work.A[at.w, i], clamped, m, K[work.place[at.w, work.findex[at.w, i]]])
        return m

    @wp.func
    def expand(work: Workspace, at: World, one: S, theta: S, x: wp.array1d(dtype=S)):
        """x of S and U from x_C: 0, hi · one, ±(hi x_j + e θ)."""
        for i in range(at.n):
            if work.findex[at.w, i] < 0:
                if work.classes[at.w, i] == SEPARATING:
                    x[i] = S(0.0)
                elif work.classes[at.w, i] == UPPER:
                    x[i] = one * work.hi[at.w, i]
        for i in range(at.n):
            j = work.findex[at.w, i]
            if j >= 0 and work.classes[at.w, i] != CLAMPING:
                u = work.hi[at.w, i] * x[j] + theta * work.widen[at.w, i]
                x[i] = wp.where(work.classes[at.w, i] == UPPER, u, -u)

    @wp.func(inline=False)
    def solve_classes(
        work: Workspace, at: World, m: int, rank: int,
        regularization: S, target: wp.array1d(dtype=S), one: S, theta: S, passes: int, x: wp.array1d(dtype=S),
    ):  # fmt: skip
        """x with w_C = 0 at the present classes: `passes` corrections of what x_C holds, by the LU factor (rank < 0) or
        of least norm.

        The right-hand side is one · target + θd, bounds are widened by θe: (1, 0) gives x at θ = 0, (0, 1) its dx/dθ.
        """
        clamped = work.clamped[at.w]
        r = work.r[at.w]
        y = work.y[at.w]
        for _pass in range(passes):
            expand(work, at, one, theta, x)
            for a in range(m):
                i = clamped[a]
                right = one * target[i] + theta * work.direction[at.w, i]
                r[a] = right - row_dot(work.A[at.w, i], x, 0, at.n) - regularization * x[i]
            if rank < 0:
                lu_solve(work.K[at.w], m, work.pivots[at.w], r)
                for a in range(m):
                    x[clamped[a]] = x[clamped[a]] + r[a]
            else:
                product_solve(m, rank, r, product(work, at), y)
                for a in range(m):
                    x[clamped[a]] = x[clamped[a]] + y[a]
        expand(work, at, one, theta, x)

    @wp.func
    def product(work: Workspace, at: World) -> Product:
        """The views of `semidefinite.Product` for one world."""
        o = Product()
        o.L = work.K[at.w]
        o.N = work.N[at.w]
        o.G = work.G[at.w]
        o.rest = work.rest[at.w]
        o.pivot = work.pivots[at.w]
        o.weight = work.weight[at.w]
        return o

    @wp.func(inline=False)
    def factor_classes(work: Workspace, at: World) -> tuple[int, int]:
        """Q = L Nᵀ of the present classes; |C| and the rank."""
        m = list_clamped(work, at)
        index = work.clamped[at.w]
        last = wp.int32(m)
        for i in range(at.n):
            if moves_with(work, at, i) != S(0.0):
                index[last] = i
                last += 1
        o = product(work, at)
        rank = product_factor(work.A[at.w], index, m, last - m, S(rank_level), o)
        for place in range(m, last):
            i = index[place]
            product_bound(moves_with(work, at, i), work.place[at.w, work.findex[at.w, i]], place, rank, o)
        product_normal(m, rank, S(epsilon), o)
        return m, rank

    @wp.func(inline=False)
    def block_pivot(work: Workspace, at: World, regularization: S, x: wp.array1d(dtype=S)) -> int:
        """Classes → x → classes on A + εI; the factorisations, negative when it did not settle."""
        target = work.target[at.w]
        for pivot in range(BLOCK_PIVOTS):
            m = assemble(work, at, regularization)
            lu_factor(work.K[at.w], m, work.pivots[at.w], S(epsilon) * regularization)
            row_fill(S(0.0), x, 0, at.n)
            solve_classes(work, at, m, -1, regularization, target, S(1.0), S(0.0), REFINEMENTS, x)
            size = S(0.0)
            for i in range(at.n):
                size = wp.max(size, wp.abs(x[i]))
            if measure(work, at, regularization, target, x) <= S(solved) + S(rounding) * size:
                return pivot + 1
            classify(work, at, x)
        return -BLOCK_PIVOTS

    @wp.func
    def misplaced(work: Workspace, at: World) -> S:
        """How far w presses rows out of class S or U."""
        most = S(0.0)
        for i in range(at.n):
            class_i = work.classes[at.w, i]
            j = work.findex[at.w, i]
            if class_i == UPPER:
                most = wp.max(most, work.w[at.w, i])
            elif class_i != CLAMPING and (j < 0 or work.place[at.w, wp.max(j, 0)] >= 0):
                most = wp.max(most, -work.w[at.w, i])
        return most

    @wp.func(inline=False)
    def solve_exactly(work: Workspace, options: Options, at: World, residual: S) -> S:
        """x of the present classes without ε, in `best` if it is better: the least-norm one, else one next to `x`.

        Where Q is singular, projections onto the bounds and onto w_C = 0 by turns look for x with both.
        """
        m, rank = factor_classes(work, at)
        trial = work.trial[at.w]
        row_fill(S(0.0), trial, 0, at.n)
        solve_classes(work, at, m, rank, S(0.0), work.b[at.w], S(1.0), S(0.0), REFINEMENTS, trial)
        best = keep_best(work, at, measure(work, at, S(0.0), work.b[at.w], trial), residual, trial)
        if best <= options.tolerance or rank == m or misplaced(work, at) > options.tolerance:
            return best
        row_copy(work.x[at.w], trial, 0, at.n)
        for turn in range(TURNS):
            passes = wp.where(turn == 0, REFINEMENTS, 1)
            solve_classes(work, at, m, rank, S(0.0), work.b[at.w], S(1.0), S(0.0), passes, trial)
            best = keep_best(work, at, measure(work, at, S(0.0), work.b[at.w], trial), best, trial)
            if best <= options.tolerance:
                break
            if turn + 1 < TURNS:
                project(work, at, trial, work.y[at.w])
                for i in range(at.n):
                    trial[i] = trial[i] + S(RELAXATION) * (work.y[at.w, i] - trial[i])
        return best

    @wp.func(inline=False)
    def share_ties(work: Workspace, options: Options, at: World) -> int:
        """Let contacts that touch without an impulse (x = w = 0) take part, if that solves too; the factorisations."""
        tie = S(TIED_TOLERANCES) * options.tolerance
        ties = wp.int32(0)
        measure(work, at, S(0.0), work.b[at.w], work.best[at.w])
        for i in range(at.n):
            if work.findex[at.w, i] < 0 and work.classes[at.w, i] == SEPARATING and work.w[at.w, i] <= tie:
                work.classes[at.w, i] = CLAMPING
                work.labels[at.w, i] = TIED
                ties += 1
            else:
                work.labels[at.w, i] = 0
        if ties == 0:
            return 0
        for i in range(at.n):
            j = work.findex[at.w, i]
            if j >= 0 and work.labels[at.w, j] == TIED:
                if wp.abs(work.w[at.w, i]) <= tie:
                    work.classes[at.w, i] = CLAMPING
                else:
                    work.classes[at.w, i] = wp.where(work.w[at.w, i] < S(0.0), UPPER, -UPPER)
        solve_exactly(work, options, at, options.tolerance)
        return 1

    @wp.func(inline=False)
    def pivot_exactly(work: Workspace, options: Options, at: World) -> tuple[S, int]:
        """Classes → x → classes on A itself; (least residual, factorisations), x in `best`."""
        best = S(INFINITE)
        for pivot in range(EXACT_PIVOTS):
            best = solve_exactly(work, options, at, best)
            if best <= options.tolerance:
                shared = wp.int32(0)
                if pivot > 0 or options.guess == NOTHING:
                    shared = share_ties(work, options, at)
                return best, pivot + 1 + shared
            classify(work, at, work.trial[at.w])
        return best, EXACT_PIVOTS

    @wp.func(inline=False)
    def sweep(work: Workspace, at: World, regularization: S, sweeps: int, x: wp.array1d(dtype=S)):
        """Projected Gauss–Seidel on A + εI from x."""
        for _sweep in range(sweeps):
            for i in range(at.n):
                A_ii = work.A[at.w, i, i]
                if A_ii > S(0.5):  # 1, or 0 where nothing moves
                    w_i = row_dot(work.A[at.w, i], x, 0, at.n) + regularization * x[i] - work.target[at.w, i]
                    trial = x[i] - w_i / (A_ii + regularization)
                    u = half_width(work, at, i, x)
                    x[i] = wp.min(wp.max(trial, wp.where(work.findex[at.w, i] >= 0, -u, S(0.0))), u)

    @wp.func
    def slack(work: Workspace, at: World, i: int, side: int) -> vec2:
        """Distance of row i from leaving its class at a side: (value at θ = 0, derivative by θ), ≥ 0 on the path."""
        class_i = work.classes[at.w, i]
        if class_i == UPPER:
            return vec2(-work.w[at.w, i], -work.w_theta[at.w, i])
        if class_i != CLAMPING:
            return vec2(work.w[at.w, i], work.w_theta[at.w, i])
        u = vec2(work.hi[at.w, i], S(0.0))
        j = work.findex[at.w, i]
        if j >= 0:
            u = vec2(work.hi[at.w, i] * work.x[at.w, j], work.hi[at.w, i] * work.x_theta[at.w, j] + work.widen[at.w, i])
        x = vec2(work.x[at.w, i], work.x_theta[at.w, i])
        if side > 0:
            return u - x
        if j >= 0:
            return u + x
        return x

    @wp.func
    def next_event(work: Workspace, at: World, theta: S, sigma: S, last: int, last_side: int) -> Event:
        """The first slack that falls to 0 as θ moves from its value in direction σ; row −1: none."""
        event = Event()
        event.row = -1
        nearest = S(INFINITE)
        for i in range(at.n):
            # Clamping rows have two ends (the upper one may be missing), the others one.
            ends = wp.int32(1)
            if work.classes[at.w, i] == CLAMPING and work.hi[at.w, i] - work.hi[at.w, i] == S(0.0):
                ends = 2
            for end in range(ends):
                side = 2 * end - 1
                if i != last or (ends == 2 and side != last_side):
                    s = slack(work, at, i, side)
                    if s[1] * sigma < S(0.0):
                        # Slacks that rounding has made negative already: now.
                        along = wp.max(-s[0] / s[1] * sigma, theta * sigma)
                        if along < nearest:
                            nearest = along
                            event.row = i
                            event.theta = along * sigma
                            event.side = side
        return event

    @wp.func
    def start_far(work: Workspace, at: World, attempt: int) -> S:
        """Lemke's start: at the θ returned x_1 = 0, w_2 = 0 solve; d < 0 on rows of the first kind, e > 0 on the others."""
        for i in range(at.n):
            phase = S(GOLDEN) * S(i + 1) + S(PLASTIC) * S(attempt)
            cover = S(0.5) + phase - wp.floor(phase)
            if work.findex[at.w, i] < 0:
                work.classes[at.w, i] = SEPARATING
                work.direction[at.w, i] = -cover
                work.widen[at.w, i] = S(0.0)
            else:
                work.classes[at.w, i] = CLAMPING
                work.direction[at.w, i] = S(0.0)
                work.widen[at.w, i] = cover
        return S(INFINITE)

    @wp.func(inline=False)
    def start_near(work: Workspace, at: World, regularization: S) -> S:
        """Start at the problem that `x` solves: with z = x − w, x̂ = mid(l, z, u) and ŵ = x̂ − z are its solution."""
        x = work.x[at.w]
        z = work.trial[at.w]
        measure(work, at, regularization, work.target[at.w], x)
        for i in range(at.n):
            z[i] = x[i] - work.w[at.w, i]
        project(work, at, z, x)
        for i in range(at.n):
            work.widen[at.w, i] = S(0.0)
            work.direction[at.w, i] = (
                row_dot(work.A[at.w, i], x, 0, at.n) + regularization * x[i] - (x[i] - z[i]) - work.target[at.w, i]
            )
            if z[i] < x[i]:
                work.classes[at.w, i] = wp.where(work.findex[at.w, i] < 0, SEPARATING, -UPPER)
            elif z[i] > x[i]:
                work.classes[at.w, i] = UPPER
            else:
                work.classes[at.w, i] = CLAMPING
        return S(1.0)

    @wp.func(inline=False)
    def follow_path(work: Workspace, at: World, regularization: S, start: S, pieces: int) -> int:
        """The solutions of A + εI for target + θd from θ = `start` to 0; leaves the classes. The number of pieces."""
        target = work.target[at.w]
        theta = S(start)
        sigma = S(-1.0)
        last = wp.int32(-1)
        last_side = wp.int32(0)
        for piece in range(pieces):
            m = assemble(work, at, regularization)
            lu_factor(work.K[at.w], m, work.pivots[at.w], S(epsilon) * regularization)
            row_fill(S(0.0), work.x[at.w], 0, at.n)
            row_fill(S(0.0), work.x_theta[at.w], 0, at.n)
            solve_classes(work, at, m, -1, regularization, target, S(1.0), S(0.0), 1, work.x[at.w])
            solve_classes(work, at, m, -1, regularization, target, S(0.0), S(1.0), 1, work.x_theta[at.w])
            for i in range(at.n):
                A_i = work.A[at.w, i]
                work.w[at.w, i] = row_dot(A_i, work.x[at.w], 0, at.n) + regularization * work.x[at.w, i] - target[i]
                w_theta = row_dot(A_i, work.x_theta[at.w], 0, at.n) + regularization * work.x_theta[at.w, i]
                work.w_theta[at.w, i] = w_theta - work.direction[at.w, i]
            if last >= 0:
                sigma = wp.where(slack(work, at, last, last_side)[1] > S(0.0), S(1.0), S(-1.0))
            event = next_event(work, at, theta, sigma, last, last_side)
            if event.row < 0 or (sigma < S(0.0) and event.theta <= S(0.0)):
                return piece + 1
            theta = event.theta
            last = event.row
            class_i = work.classes[at.w, last]
            if class_i == CLAMPING:
                last_side = 0
                if event.side > 0:
                    work.classes[at.w, last] = UPPER
                else:
                    work.classes[at.w, last] = wp.where(work.findex[at.w, last] < 0, SEPARATING, -UPPER)
            else:
                last_side = wp.where(class_i == UPPER, 1, -1)
                work.classes[at.w, last] = CLAMPING
        return pieces

    @wp.func
    def keep_best(work: Workspace, at: World, residual: S, best: S, x: wp.array1d(dtype=S)) -> S:
        """The smaller residual, with its x in `best`."""
        if residual < best:
            row_copy(x, work.best[at.w], 0, at.n)
        return wp.min(residual, best)

    @wp.func
    def label(work: Workspace, at: World, tolerance: S, classes: wp.array1d(dtype=int)):
        """S, C, ±U, ±T of `best`, with its w as `measure` left it."""
        x = work.best[at.w]
        for i in range(at.n):
            if work.findex[at.w, i] < 0:
                classes[i] = label_row(x[i], work.w[at.w, i], S(0.0), work.hi[at.w, i], tolerance)
                if classes[i] == -UPPER:
                    classes[i] = SEPARATING
        for i in range(at.n):
            if work.findex[at.w, i] >= 0:
                if classes[work.findex[at.w, i]] == SEPARATING:
                    classes[i] = SEPARATING
                else:
                    u = half_width(work, at, i, x)
                    classes[i] = label_row(x[i], work.w[at.w, i], -u, u, tolerance)

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
    def adopt(given: int, coupled: bool) -> int:
        """A class given from outside; tied rows stay at their bound."""
        class_i = wp.int32(SEPARATING)
        if given == CLAMPING:
            class_i = CLAMPING
        elif given >= UPPER:
            class_i = UPPER
        elif given <= -UPPER and coupled:
            class_i = -UPPER
        return class_i

    @wp.func
    def set_target(work: Workspace, at: World, regularization: S):
        """b + εx of the last proximal step."""
        for i in range(at.n):
            work.target[at.w, i] = work.b[at.w, i] + regularization * work.previous[at.w, i]

    @wp.func(inline=False)
    def approach(
        work: Workspace, options: Options, at: World, regularization: S, attempt: int, residual: S
    ) -> tuple[S, int]:
        """Proximal steps from the problem with ε to the one without; (least residual, factorisations), x in `best`.

        ε shrinks from step to step, where block pivoting still settles: modes of A below ε would converge slowly.
        """
        x = work.x[at.w]
        best = residual
        reference = S(INFINITE)
        count = wp.int32(0)
        stalled = wp.int32(0)
        epsilon_k = regularization
        row_fill(S(0.0), work.previous[at.w], 0, at.n)
        for step in range(PROXIMAL_STEPS):
            set_target(work, at, epsilon_k)
            settled = wp.int32(-1)
            if step > 0 or attempt == 0:
                settled = block_pivot(work, at, epsilon_k, x)
                count += wp.abs(settled)
                if settled < 0:
                    sweep(work, at, epsilon_k, SWEEPS, x)
                    start = start_near(work, at, epsilon_k)
                    count += follow_path(work, at, epsilon_k, start, at.n)
                    settled = block_pivot(work, at, epsilon_k, x)
                    count += wp.abs(settled)
            if settled < 0:
                epsilon_k = regularization
                set_target(work, at, epsilon_k)
                start = start_far(work, at, attempt)
                count += follow_path(work, at, epsilon_k, start, PIECES_PER_ROW * at.n)
                count += wp.abs(block_pivot(work, at, epsilon_k, x))
            count += 1
            best = solve_exactly(work, options, at, best)
            best = keep_best(work, at, measure(work, at, S(0.0), work.b[at.w], x), best, x)
            stalled += 1
            if best < S(STALL_SHRINK) * reference:
                reference = best
                stalled = 0
            if best <= options.tolerance or stalled == STALL_STEPS:
                break
            row_copy(x, work.previous[at.w], 0, at.n)
            epsilon_k = wp.max(S(PROXIMAL_SHRINK) * epsilon_k, S(least_regularization))
        return best, count

    @wp.func(inline=False)
    def pivot(work: Workspace, options: Options, at: World, residual: S) -> tuple[S, int]:
        """Steps 3 to 5 of the module; (least residual, factorisations), x in `best`."""
        best = residual
        count = wp.int32(0)
        regularization = S(first_regularization)
        for attempt in range(ATTEMPTS):
            best, steps = approach(work, options, at, regularization, attempt, best)
            count += steps
            if best > options.tolerance and best < S(SNAP_BELOW):
                # A tie, approached ever more slowly: put the rows that are nearly at a bound on it.
                measure(work, at, S(0.0), work.b[at.w], work.best[at.w])
                label(work, at, S(SNAP) * best, work.labels[at.w])
                for i in range(at.n):
                    work.classes[at.w, i] = adopt(work.labels[at.w, i], work.findex[at.w, i] >= 0)
                best = solve_exactly(work, options, at, best)
            if best <= options.tolerance:
                break
            regularization = S(attempt_factor) * regularization
        return best, count

    @wp.func(inline=False)
    def start(problem: Problem, work: Workspace, options: Options, at: World):
        """Step 1 of the module: x and classes to start from."""
        x = work.x[at.w]
        row_fill(S(0.0), x, 0, at.n)
        sweeps = wp.int32(SWEEPS)
        if options.guess == IMPULSES:
            sweeps = GUESS_SWEEPS
            for i in range(at.n):
                x[i] = problem.x[at.w, work.member[at.w, i]] / work.scale[at.w, i]
        sweep(work, at, S(0.0), sweeps, x)
        if options.guess == CLASSES:
            for i in range(at.n):
                work.classes[at.w, i] = adopt(problem.classes[at.w, work.member[at.w, i]], work.findex[at.w, i] >= 0)
        else:
            measure(work, at, S(0.0), work.b[at.w], x)
            classify(work, at, x)

    @wp.kernel(module=module_name("lcp", S), enable_backward=False)
    def solve(problem: Problem, work: Workspace, options: Options, solution: Solution):
        """One world per thread: x and its classes, island by island."""
        at = World()
        at.w = wp.tid()
        capacity = solution.x.shape[1]
        n = wp.min(problem.rows[at.w], capacity)
        residual = S(0.0)
        count = wp.int32(0)
        hit = wp.where(options.guess == NOTHING, 0, 1)
        for i in range(capacity):
            solution.x[at.w, i] = S(0.0)
            solution.classes[at.w, i] = SEPARATING
        status = check(problem, work, at.w, n)
        if status == NON_FINITE:
            residual = S(INFINITE)
            hit = 0
        else:
            beta = scale_rows(problem, work, at.w, n)
            find_islands(problem, work, at.w, n)
            for root in range(n):
                if work.island[at.w, root] == root:
                    at.n = gather(problem, work, at.w, n, root, beta)
                    start(problem, work, options, at)
                    row_fill(S(0.0), work.best[at.w], 0, at.n)
                    error, factors = pivot_exactly(work, options, at)
                    if not (error <= options.tolerance) or factors > 1:
                        hit = 0
                    if not (error <= options.tolerance):
                        error, pivots = pivot(work, options, at, error)
                        factors += pivots
                    error = measure(work, at, S(0.0), work.b[at.w], work.best[at.w])
                    label(work, at, S(TIED_TOLERANCES) * wp.max(options.tolerance, error), work.labels[at.w])
                    for i in range(at.n):
                        solution.x[at.w, work.member[at.w, i]] = work.scale[at.w, i] * work.best[at.w, i]
                        solution.classes[at.w, work.member[at.w, i]] = work.labels[at.w, i]
                    residual = wp.max(residual, error)
                    count = wp.max(count, factors)
            if not (residual <= options.tolerance):
                status = NOT_CONVERGED
        solution.residual[at.w] = residual
        solution.factorizations[at.w] = count
        solution.hit[at.w] = hit
        solution.status[at.w] = status

    return SimpleNamespace(Problem=Problem, Workspace=Workspace, Solution=Solution, Options=Options, solve=solve)
