# SPDX-License-Identifier: Apache-2.0
"""Boxed LCP with coupled friction bounds, solved by pivoting (theory §5; Werling et al., §4).

    find x:  w = A x − b,  l ≤ x ≤ u,  x = l ⇒ w ≥ 0,  x = u ⇒ w ≤ 0,  l < x < u ⇒ w = 0
    row i with findex_i < 0: [l, u] = [0, hi_i];   with findex_i = j ≥ 0: [l, u] = [−hi_i x_j, hi_i x_j]

One thread solves one world, island by island (an island: rows coupled by A and friction bounds), in scaled variables:

1. Initial classes: the caller's, or those after a few projected Gauss–Seidel sweeps from the caller's x or from 0.
2. Block pivoting on A itself, a few rounds of classes → x → classes, from the initial classes. x has least norm (in
   unscaled variables) where A leaves it open. Most islands end here, at the first factorisation.
3. If the least-norm x leaves its bounds (three contacts in a row can do this): alternating projections onto the bounds
   and onto w_C = 0, from the initial x. Contacts that touch without an impulse take part if that solves too.
4. Block pivoting on A + εI. If it does not settle, the path (`path.py`) from the problem that some sweeps solve, nearly
   always a few class changes away. If that fails, Lemke's path from far away: with d < 0, e > 0 a ray would need
   x̂ᵀ(A + εI)x̂ ≤ 0, so it ends at a solution. Then step 3 again, and proximal steps, A + εI against b + εx, with
   falling ε.

A problem that is not solved to the tolerance, or to the rounding of A x, is flagged with its residual. Cost:
2 |C| rank² for a factorisation of A, 2/3 |C|³ for one of A + εI. A path takes one factorisation per class change,
Lemke's path 1 to 4 per row.
"""

import numpy as np
import warp as wp

from ... import real as device
from ...flags import NONFINITE, NOT_CONVERGED
from ...linalg.loops import row_copy, row_dot, row_fill
from ...real import func, kernel, real, struct
from ..scratch import Scratch, matrix, square
from .classes import (
    CLAMPING,
    INFINITE,
    REFINEMENTS,
    SEPARATING,
    TIED,
    UPPER,
    Options,
    Problem,
    Solution,
    Workspace,
    World,
    adopt,
    block_pivot,
    classify,
    factor_classes,
    label,
    natural_residual,
    project,
    solve_classes,
    sweep,
)
from .path import follow_path, start_far, start_near

# Matrices (n, n) of a world in `Scratch`: A if it is not given, and those of `World`.
MATRICES = 5

# Options.guess
NOTHING, CLASSES, IMPULSES = 0, 1, 2

# Sweeps from x = 0, and from the impulses of the previous step.
SWEEPS = 20
GUESS_SWEEPS = 40
# Factorisations of block pivoting on A itself.
EXACT_PIVOTS = 4
# Rounds of projections if the least-norm solution leaves its bounds; over-relaxation of the projection on the bounds.
TURNS = 20
RELAXATION = 1.8
# ε: large enough for exact pivots, small enough for the classes to be those of A. Every further attempt uses other d, e
# and multiplies ε by the factor.
REGULARIZATION = {wp.float32: 3e-5, wp.float64: 1e-6}
ATTEMPT_FACTOR = {wp.float32: 0.1, wp.float64: 0.01}
ATTEMPTS = 3
# Largest number of class changes per row, of Lemke's path (4 are usual) and of the path from nearby.
PIECES_PER_ROW = 12
NEAR_PIECES_PER_ROW = 1
# Proximal steps; factor of ε per step; smallest ε; steps without the residual falling to the given share.
PROXIMAL_STEPS = 20
PROXIMAL_SHRINK = 0.1
LEAST_REGULARIZATION = {wp.float32: 3e-6, wp.float64: 1e-11}
STALL_STEPS = 5
STALL_SHRINK = 0.5
# Below this residual the solution is tried again with every row on its bound that is within SNAP residuals of it.
SNAP_BELOW = 1e-4
SNAP = 1e2
# Rounding of w = A x − b where x is large (a light body under a heavy one), in machine epsilons of the largest |x|; and
# the largest number of tolerances that it may excuse.
ATTAINABLE_EPSILONS = 1.0
ATTAINABLE_TOLERANCES = 10.0
# A row is tied if its distance from the bound and its w are both below this many tolerances.
TIED_TOLERANCES = 10.0
# Diagonal entries of A below (so many machine epsilons)² of the largest count as 0: A_ii is the square of a row of J in
# the norm of M⁻¹, and that row is rounding.
ZERO_EPSILONS = 1e2

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

epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)
zero_level = (epsilon * ZERO_EPSILONS) ** 2
rounding = epsilon * ATTAINABLE_EPSILONS
first_regularization = REGULARIZATION[real]
least_regularization = LEAST_REGULARIZATION[real]
attempt_factor = ATTEMPT_FACTOR[real]


@device.func_native(FIRST_COUPLED)
def first_coupled(x: wp.array1d(dtype=real), label: wp.array1d(dtype=int), own: int, first: int, last: int) -> int:
    """First j in [first, last) with x[j] ≠ 0 and label[j] ≠ own; `last`: none."""
    ...


@device.func_native(RELABEL)
def relabel(label: wp.array1d(dtype=int), before: int, after: int, count: int):
    """Replace label `before` by `after`."""
    ...


@device.func_native(SCALED_GATHER)
def scaled_gather(
    a: real, d: wp.array1d(dtype=real), x: wp.array1d(dtype=real), index: wp.array1d(dtype=int), count: int,
    y: wp.array1d(dtype=real),
):  # fmt: skip
    """y[k] = a d[i] x[i] with i = index[k], k < count."""
    ...


@func(inline=False)
def check(problem: Problem, A: wp.array2d(dtype=real), work: Workspace, w: int, n: int) -> int:
    """Check the data; return NONFINITE or 0."""
    zero = work.best[w]
    row_fill(real(0.0), zero, 0, n)
    bad = row_dot(problem.b[w], zero, 0, n)
    for i in range(n):
        hi = problem.hi[w, i]
        j = problem.findex[w, i]
        if not (hi >= real(0.0)) or j >= n or (j >= 0 and hi - hi != real(0.0)):
            return NONFINITE
        bad += row_dot(A[i], zero, 0, n)
    return wp.where(bad == real(0.0), 0, NONFINITE)


@func(inline=False)
def scale_rows(problem: Problem, A: wp.array2d(dtype=real), work: Workspace, w: int, n: int) -> real:
    """d of Ã = DAD, b̃ = Db/β, x = βDx̃ with diag Ã = 1 and max |b̃| = 1; returns β."""
    largest = real(0.0)
    for i in range(n):
        largest = wp.max(largest, A[i, i])
    if not (largest > real(0.0)):
        largest = real(1.0)
    beta = real(0.0)
    for i in range(n):
        A_ii = A[i, i]
        work.d[w, i] = real(1.0) / wp.sqrt(wp.where(A_ii > real(zero_level) * largest, A_ii, largest))
        beta = wp.max(beta, wp.abs(work.d[w, i] * problem.b[w, i]))
    return wp.where(beta == real(0.0), real(1.0), beta)


@func
def merge(island: wp.array1d(dtype=int), i: int, j: int, n: int):
    """Merge the islands of rows i and j."""
    if island[i] != island[j]:
        relabel(island, wp.max(island[i], island[j]), wp.min(island[i], island[j]), n)


@func(inline=False)
def find_islands(problem: Problem, A: wp.array2d(dtype=real), work: Workspace, w: int, n: int):
    """Set `island` of every row to the first row that A or friction bounds couple it with, directly or not."""
    island = work.island[w]
    for i in range(n):
        island[i] = i
    for i in range(n):
        if problem.findex[w, i] >= 0:
            merge(island, i, problem.findex[w, i], n)
        j = first_coupled(A[i], island, island[i], 0, i)
        while j < i:
            merge(island, i, j, n)
            j = first_coupled(A[i], island, island[i], j + 1, i)


@func(inline=False)
def gather(
    problem: Problem, A: wp.array2d(dtype=real), work: Workspace, at: World, n: int, root: int, beta: real
) -> int:
    """Gather the scaled problem of one island; return its number of rows."""
    w = at.w
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
        scaled_gather(d_i, work.d[w], A[i], member, m, at.A[a])
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


@func(inline=False)
def misplaced(work: Workspace, at: World) -> real:
    """Largest w that pushes a row out of class S or U."""
    most = real(0.0)
    for i in range(at.n):
        class_i = work.classes[at.w, i]
        j = work.findex[at.w, i]
        if class_i == UPPER:
            most = wp.max(most, work.w[at.w, i])
        elif class_i != CLAMPING and (j < 0 or work.place[at.w, wp.max(j, 0)] >= 0):
            most = wp.max(most, -work.w[at.w, i])
    return most


@func(inline=False)
def reached(work: Workspace, options: Options, at: World, residual: real) -> bool:
    """Whether `best` solves: to the tolerance, or to the rounding of A x (at most 10 tolerances)."""
    if residual <= options.tolerance:
        return True
    size = real(0.0)
    for i in range(at.n):
        size = wp.max(size, wp.abs(work.best[at.w, i]))
    return residual <= wp.min(real(rounding) * size, real(ATTAINABLE_TOLERANCES) * options.tolerance)


@func(inline=False)
def solve_exactly(work: Workspace, options: Options, at: World, residual: real) -> real:
    """Solve the present classes without ε for the least-norm x, else for one next to `x`; keep it in `best` if better.

    Where Q is singular, alternating projections onto the bounds and onto w_C = 0 look for an x that satisfies both.
    """
    m, rank = factor_classes(work, at)
    trial = work.trial[at.w]
    row_fill(real(0.0), trial, 0, at.n)
    solve_classes(work, at, m, rank, real(0.0), work.b[at.w], real(1.0), real(0.0), REFINEMENTS, trial)
    best = keep_best(work, at, natural_residual(work, at, real(0.0), work.b[at.w], trial), residual, trial)
    if reached(work, options, at, best) or rank == m or misplaced(work, at) > options.tolerance:
        return best
    row_copy(work.x[at.w], trial, 0, at.n)
    for turn in range(TURNS):
        passes = wp.where(turn == 0, REFINEMENTS, 1)
        solve_classes(work, at, m, rank, real(0.0), work.b[at.w], real(1.0), real(0.0), passes, trial)
        best = keep_best(work, at, natural_residual(work, at, real(0.0), work.b[at.w], trial), best, trial)
        if reached(work, options, at, best):
            break
        if turn + 1 < TURNS:
            project(work, at, trial, work.y[at.w])
            for i in range(at.n):
                trial[i] = trial[i] + real(RELAXATION) * (work.y[at.w, i] - trial[i])
    return best


@func(inline=False)
def share_ties(work: Workspace, options: Options, at: World) -> int:
    """Let contacts that touch without an impulse (x = w = 0) take part if that solves too; return factorisations."""
    tie = real(TIED_TOLERANCES) * options.tolerance
    ties = wp.int32(0)
    natural_residual(work, at, real(0.0), work.b[at.w], work.best[at.w])
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
                work.classes[at.w, i] = wp.where(work.w[at.w, i] < real(0.0), UPPER, -UPPER)
    solve_exactly(work, options, at, options.tolerance)
    return 1


@func(inline=False)
def pivot_exactly(work: Workspace, options: Options, at: World) -> tuple[real, int]:
    """Iterate classes → x → classes on A itself; return (least residual, factorisations), x in `best`."""
    best = real(INFINITE)
    for pivot in range(EXACT_PIVOTS):
        best = solve_exactly(work, options, at, best)
        if reached(work, options, at, best):
            shared = wp.int32(0)
            if pivot > 0 or options.guess == NOTHING:
                shared = share_ties(work, options, at)
            return best, pivot + 1 + shared
        classify(work, at, work.trial[at.w])
    return best, EXACT_PIVOTS


@func
def keep_best(work: Workspace, at: World, residual: real, best: real, x: wp.array1d(dtype=real)) -> real:
    """Return the smaller residual; copy x to `best` if its residual is smaller."""
    if residual < best:
        row_copy(x, work.best[at.w], 0, at.n)
    return wp.min(residual, best)


@func
def set_target(work: Workspace, at: World, regularization: real):
    """Set `target` to b + εx with x of the previous proximal step."""
    for i in range(at.n):
        work.target[at.w, i] = work.b[at.w, i] + regularization * work.previous[at.w, i]


@func(inline=False)
def approach(
    work: Workspace, options: Options, at: World, regularization: real, attempt: int, residual: real
) -> tuple[real, int]:
    """Proximal steps from the problem with ε to that without; return (least residual, factorisations), x in `best`.

    ε shrinks with every step while block pivoting settles: modes of A below ε would converge slowly.
    """
    x = work.x[at.w]
    best = residual
    reference = real(INFINITE)
    count = wp.int32(0)
    stalled = wp.int32(0)
    epsilon_k = regularization
    row_fill(real(0.0), work.previous[at.w], 0, at.n)
    for step in range(PROXIMAL_STEPS):
        set_target(work, at, epsilon_k)
        settled = wp.int32(-1)
        if step > 0 or attempt == 0:
            settled = block_pivot(work, at, epsilon_k, x)
            count += wp.abs(settled)
            if settled < 0:
                sweep(work, at, epsilon_k, SWEEPS, x)
                start = start_near(work, at, epsilon_k)
                count += follow_path(work, at, epsilon_k, start, NEAR_PIECES_PER_ROW * at.n)
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
        best = keep_best(work, at, natural_residual(work, at, real(0.0), work.b[at.w], x), best, x)
        stalled += 1
        if best < real(STALL_SHRINK) * reference:
            reference = best
            stalled = 0
        if reached(work, options, at, best) or stalled == STALL_STEPS:
            break
        row_copy(x, work.previous[at.w], 0, at.n)
        epsilon_k = wp.max(real(PROXIMAL_SHRINK) * epsilon_k, real(least_regularization))
    return best, count


@func(inline=False)
def pivot(work: Workspace, options: Options, at: World, residual: real) -> tuple[real, int]:
    """Step 4 of the module; return (least residual, factorisations), x in `best`."""
    best = residual
    count = wp.int32(0)
    regularization = real(first_regularization)
    for attempt in range(ATTEMPTS):
        best, steps = approach(work, options, at, regularization, attempt, best)
        count += steps
        if best < real(SNAP_BELOW) and not reached(work, options, at, best):
            # The steps approach a tie ever more slowly: put the rows that are nearly at a bound on it.
            natural_residual(work, at, real(0.0), work.b[at.w], work.best[at.w])
            label(work, at, real(SNAP) * best, work.labels[at.w])
            for i in range(at.n):
                work.classes[at.w, i] = adopt(work.labels[at.w, i], work.findex[at.w, i] >= 0)
            best = solve_exactly(work, options, at, best)
        if reached(work, options, at, best):
            break
        regularization = real(attempt_factor) * regularization
    return best, count


@func(inline=False)
def start(problem: Problem, work: Workspace, options: Options, at: World):
    """Step 1 of the module: initial x and classes."""
    x = work.x[at.w]
    row_fill(real(0.0), x, 0, at.n)
    sweeps = wp.int32(SWEEPS)
    if options.guess == IMPULSES:
        sweeps = GUESS_SWEEPS
        for i in range(at.n):
            x[i] = problem.x[at.w, work.member[at.w, i]] / work.scale[at.w, i]
    sweep(work, at, real(0.0), sweeps, x)
    if options.guess == CLASSES:
        for i in range(at.n):
            work.classes[at.w, i] = adopt(problem.classes[at.w, work.member[at.w, i]], work.findex[at.w, i] >= 0)
    else:
        natural_residual(work, at, real(0.0), work.b[at.w], x)
        classify(work, at, x)


@struct
class Given:
    """A of one world."""

    A: wp.array2d(dtype=real)


@kernel
def solve(problem: Problem, scratch: Scratch, turn: int, work: Workspace, options: Options, solution: Solution):
    """Solve the worlds of one turn, one per thread, island by island for x and its classes."""
    at = World()
    at.w = wp.tid()
    if scratch.turn[at.w] != turn:
        return
    capacity = solution.x.shape[1]
    n = wp.min(problem.rows[at.w], capacity)
    given = Given()
    given.A = matrix(scratch, at.w, wp.int64(0), n, n)
    if problem.A.shape[0] > 0:
        given.A = problem.A[at.w]
    at.A = matrix(scratch, at.w, square(n), n, n)
    at.K = matrix(scratch, at.w, wp.int64(2) * square(n), n, n)
    at.N = matrix(scratch, at.w, wp.int64(3) * square(n), n, n)
    at.G = matrix(scratch, at.w, wp.int64(4) * square(n), n, n)
    residual = real(0.0)
    count = wp.int32(0)
    hit = wp.where(options.guess == NOTHING, 0, 1)
    for i in range(capacity):
        solution.x[at.w, i] = real(0.0)
        solution.classes[at.w, i] = SEPARATING
    status = check(problem, given.A, work, at.w, n)
    if status == NONFINITE:
        residual = real(INFINITE)
        hit = 0
    else:
        beta = scale_rows(problem, given.A, work, at.w, n)
        find_islands(problem, given.A, work, at.w, n)
        for root in range(n):
            if work.island[at.w, root] == root:
                at.n = gather(problem, given.A, work, at, n, root, beta)
                start(problem, work, options, at)
                row_fill(real(0.0), work.best[at.w], 0, at.n)
                error, factors = pivot_exactly(work, options, at)
                if not reached(work, options, at, error):
                    hit = 0
                    error, pivots = pivot(work, options, at, error)
                    factors += pivots
                if factors > 1:
                    hit = 0
                error = natural_residual(work, at, real(0.0), work.b[at.w], work.best[at.w])
                if not reached(work, options, at, error):
                    status = NOT_CONVERGED
                label(work, at, real(TIED_TOLERANCES) * wp.max(options.tolerance, error), work.labels[at.w])
                for i in range(at.n):
                    solution.x[at.w, work.member[at.w, i]] = work.scale[at.w, i] * work.best[at.w, i]
                    solution.classes[at.w, work.member[at.w, i]] = work.labels[at.w, i]
                residual = wp.max(residual, error)
                count = wp.max(count, factors)
    solution.residual[at.w] = residual
    solution.factorizations[at.w] = count
    solution.hit[at.w] = hit
    solution.status[at.w] = status
