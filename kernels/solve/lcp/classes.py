# SPDX-License-Identifier: Apache-2.0
"""Classes of a boxed LCP: the arrays, and x, w and the residual that follow from given classes (theory §5).

A is symmetric positive semidefinite, of any rank. Every row is separating (S), clamping (C) or at its bound (U). Given
the classes, x follows from a linear system: x_U = E x_C, Q x_C = b_C, Q = A_CC + A_CU E. Variables are scaled:
diag A = 1, max |b| = 1.
"""

import numpy as np
import warp as wp

from ...linalg.dense import gather_axpy, lu_factor, lu_solve
from ...linalg.loops import row_dot, row_fill
from ...linalg.semidefinite import Product, product_bound, product_factor, product_normal, product_solve
from ...real import func, real, struct

# Classes; U and T carry the sign of the bound: + upper, − lower. TIED: at a bound with w = 0.
SEPARATING = 0
CLAMPING = 1
UPPER = 2
TIED = 3

# Largest number of factorisations of block pivoting; most that succeed take fewer.
BLOCK_PIVOTS = 4
# Residual at which the problem with ε counts as solved (max |b̃| is 1).
SOLVED = {wp.float32: 1e-5, wp.float64: 1e-11}
# Rounding of that residual, in machine epsilons of the largest |x|.
ROUNDING_EPSILONS = 4.0
# Passes of Q⁺b and of (Q + εI)⁻¹b: the solve and one refinement.
REFINEMENTS = 2
# Gauss–Seidel sweeps end when x changes by less than this in one sweep (max |b̃| is 1).
SETTLED = 1e-5
# Rank of Q: pivots above this many machine epsilons of the first.
RANK_EPSILONS = 1e3
# Residual that stands for a NaN.
INFINITE = 1e30

epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)
solved = SOLVED[real]
rounding = epsilon * ROUNDING_EPSILONS
rank_level = epsilon * RANK_EPSILONS


@struct
class Problem:
    A: wp.array3d(dtype=real)  # (worlds, n, n) symmetric positive semidefinite; empty: the first matrix in `Scratch`
    b: wp.array2d(dtype=real)  # (worlds, n)
    hi: wp.array2d(dtype=real)  # (worlds, n) upper bound (∞: none), or friction coefficient
    findex: wp.array2d(dtype=int)  # (worlds, n) −1, or the row of the first kind whose x scales the bound
    rows: wp.array(dtype=int)  # (worlds,) number of used rows
    classes: wp.array2d(dtype=int)  # (worlds, n) initial classes, read if Options.guess is CLASSES
    x: wp.array2d(dtype=real)  # (worlds, n) initial x, read if Options.guess is IMPULSES


@struct
class Workspace:
    """Vectors (worlds, n) of the scaled problem of one island, and scratch memory. `World` has the matrices."""

    island: wp.array2d(dtype=int)  # first row of the island that a row belongs to
    member: wp.array2d(dtype=int)  # rows of the present island, ascending
    local: wp.array2d(dtype=int)  # index of a row in `member`
    b: wp.array2d(dtype=real)
    hi: wp.array2d(dtype=real)
    findex: wp.array2d(dtype=int)
    scale: wp.array2d(dtype=real)  # x = scale x̃
    d: wp.array2d(dtype=real)  # scale / β of all rows
    target: wp.array2d(dtype=real)  # b + εx of the proximal step
    x: wp.array2d(dtype=real)
    w: wp.array2d(dtype=real)
    previous: wp.array2d(dtype=real)  # x of the last proximal step
    x_theta: wp.array2d(dtype=real)  # dx/dθ, dw/dθ of a piece
    w_theta: wp.array2d(dtype=real)
    trial: wp.array2d(dtype=real)  # x for the classes, without ε
    best: wp.array2d(dtype=real)  # x with the least residual so far
    direction: wp.array2d(dtype=real)  # d, e of a path: target + θd, bounds widened by θe
    widen: wp.array2d(dtype=real)
    r: wp.array2d(dtype=real)  # right-hand side and solution over the clamped rows
    y: wp.array2d(dtype=real)
    weight: wp.array2d(dtype=real)  # scale of the clamped rows
    rest: wp.array2d(dtype=real)  # scratch of `semidefinite.Product`
    classes: wp.array2d(dtype=int)  # S, C, ±U
    labels: wp.array2d(dtype=int)  # S, C, ±U, ±T
    clamped: wp.array2d(dtype=int)  # rows of class C, ascending; then the rows that move with them
    place: wp.array2d(dtype=int)  # index of a row in `clamped`, −1 outside
    pivots: wp.array2d(dtype=int)  # row exchanges of LU, pivot rows of L


@struct
class Solution:
    x: wp.array2d(dtype=real)  # (worlds, n), 0 in unused rows
    residual: wp.array(dtype=real)  # (worlds,) max |x̃ − mid(l̃, x̃ − w̃, ũ)|, relative to max |b̃|
    classes: wp.array2d(dtype=int)  # (worlds, n) S, C, ±U, ±T; S in unused rows
    factorizations: wp.array(dtype=int)  # (worlds,) largest count of a world's islands
    hit: wp.array(dtype=int)  # (worlds,) 1: the guess solved every island at the first factorisation
    # (worlds,) bits NOT_CONVERGED (x is the best point found), NONFINITE (NaN or infinite data; x = 0)
    status: wp.array(dtype=int)


@struct
class Options:
    tolerance: real
    guess: int  # NOTHING, CLASSES or IMPULSES of Problem


@struct
class World:
    """One island of world w with n rows; its matrices have room for all rows of the world."""

    w: int
    n: int
    A: wp.array2d(dtype=real)  # of the scaled problem
    K: wp.array2d(dtype=real)  # factor of (Q + εI)ᵀ, or L of `semidefinite.Product`
    N: wp.array2d(dtype=real)
    G: wp.array2d(dtype=real)


@func
def half_width(work: Workspace, at: World, i: int, x: wp.array1d(dtype=real)) -> real:
    """u of row i; l is 0 or −u."""
    u = work.hi[at.w, i]
    if work.findex[at.w, i] >= 0:
        u = u * wp.max(x[work.findex[at.w, i]], real(0.0))
    return u


@func(inline=False)
def project(work: Workspace, at: World, trial: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x = trial, projected on its bounds."""
    for i in range(at.n):
        if work.findex[at.w, i] < 0:
            x[i] = wp.min(wp.max(trial[i], real(0.0)), work.hi[at.w, i])
    for i in range(at.n):
        if work.findex[at.w, i] >= 0:
            u = half_width(work, at, i, x)
            x[i] = wp.min(wp.max(trial[i], -u), u)


@func(inline=False)
def natural_residual(
    work: Workspace, at: World,
    regularization: real, target: wp.array1d(dtype=real), x: wp.array1d(dtype=real),
) -> real:  # fmt: skip
    """w = (A + εI) x − target; return the residual max |x − mid(l, x − w, u)|."""
    residual = real(0.0)
    for i in range(at.n):
        w_i = row_dot(at.A[i], x, 0, at.n) + regularization * x[i] - target[i]
        work.w[at.w, i] = w_i
        u = half_width(work, at, i, x)
        l = wp.where(work.findex[at.w, i] >= 0, -u, real(0.0))
        error = wp.abs(x[i] - wp.min(wp.max(x[i] - w_i, l), u))
        if error - error != real(0.0):
            error = real(INFINITE)
        residual = wp.max(residual, error)
    return residual


@func(inline=False)
def classify(work: Workspace, at: World, x: wp.array1d(dtype=real)):
    """Classify rows by x − w, with w of `natural_residual`.

    Friction at separating contacts takes the bound that w points to.
    """
    for i in range(at.n):
        if work.findex[at.w, i] < 0:
            trial = x[i] - work.w[at.w, i]
            work.classes[at.w, i] = wp.where(trial <= real(0.0), SEPARATING, CLAMPING)
            if trial >= work.hi[at.w, i]:
                work.classes[at.w, i] = UPPER
    for i in range(at.n):
        j = work.findex[at.w, i]
        if j >= 0:
            u = half_width(work, at, i, x)
            trial = x[i] - work.w[at.w, i]
            if work.classes[at.w, j] == SEPARATING:
                work.classes[at.w, i] = wp.where(work.w[at.w, i] < real(0.0), UPPER, -UPPER)
            elif trial >= u:
                work.classes[at.w, i] = UPPER
            elif trial <= -u:
                work.classes[at.w, i] = -UPPER
            else:
                work.classes[at.w, i] = CLAMPING


@func(inline=False)
def list_clamped(work: Workspace, at: World) -> int:
    """Fill `clamped`, `place` and `weight` from the classes; return |C|."""
    m = wp.int32(0)
    for i in range(at.n):
        work.place[at.w, i] = -1
        if work.classes[at.w, i] == CLAMPING:
            work.clamped[at.w, m] = i
            work.place[at.w, i] = m
            work.weight[at.w, m] = work.scale[at.w, i]
            m += 1
    return m


@func
def moves_with(work: Workspace, at: World, i: int) -> real:
    """E_ij of row i: x_i = E_ij x_j if row i is at its bound and j = findex_i is clamped, else 0."""
    j = work.findex[at.w, i]
    E_ij = real(0.0)
    if j >= 0 and work.classes[at.w, i] != CLAMPING:
        if work.place[at.w, j] >= 0:
            E_ij = wp.where(work.classes[at.w, i] == UPPER, work.hi[at.w, i], -work.hi[at.w, i])
    return E_ij


@func(inline=False)
def assemble(work: Workspace, at: World, regularization: real) -> int:
    """K = Qᵀ + εI, Q = A_CC + A_CU E; return |C|."""
    m = list_clamped(work, at)
    K = at.K
    clamped = work.clamped[at.w]
    for a in range(m):
        row_fill(real(0.0), K[a], 0, m)
        gather_axpy(real(1.0), at.A[clamped[a]], clamped, m, K[a])
        K[a, a] = K[a, a] + regularization
    for i in range(at.n):
        E_ij = moves_with(work, at, i)
        if E_ij != real(0.0):
            gather_axpy(E_ij, at.A[i], clamped, m, K[work.place[at.w, work.findex[at.w, i]]])
    return m


@func(inline=False)
def expand(work: Workspace, at: World, one: real, theta: real, x: wp.array1d(dtype=real)):
    """x of S and U rows from x_C: 0, hi · one, ±(hi x_j + e θ)."""
    for i in range(at.n):
        if work.findex[at.w, i] < 0:
            if work.classes[at.w, i] == SEPARATING:
                x[i] = real(0.0)
            elif work.classes[at.w, i] == UPPER:
                x[i] = one * work.hi[at.w, i]
    for i in range(at.n):
        j = work.findex[at.w, i]
        if j >= 0 and work.classes[at.w, i] != CLAMPING:
            u = work.hi[at.w, i] * x[j] + theta * work.widen[at.w, i]
            x[i] = wp.where(work.classes[at.w, i] == UPPER, u, -u)


@func(inline=False)
def solve_classes(
    work: Workspace, at: World, m: int, rank: int,
    regularization: real, target: wp.array1d(dtype=real), one: real, theta: real, passes: int,
    x: wp.array1d(dtype=real),
):  # fmt: skip
    """x with w_C = 0 for the present classes, by `passes` corrections of the given x_C.

    The corrections use the LU factor (rank < 0) or the least-norm solution. The right-hand side is one · target + θd
    and bounds are widened by θe: (one, θ) = (1, 0) gives x at θ = 0, (0, 1) gives its dx/dθ.
    """
    clamped = work.clamped[at.w]
    r = work.r[at.w]
    y = work.y[at.w]
    for _pass in range(passes):
        expand(work, at, one, theta, x)
        for a in range(m):
            i = clamped[a]
            right = one * target[i] + theta * work.direction[at.w, i]
            r[a] = right - row_dot(at.A[i], x, 0, at.n) - regularization * x[i]
        if rank < 0:
            lu_solve(at.K, m, work.pivots[at.w], r)
            for a in range(m):
                x[clamped[a]] = x[clamped[a]] + r[a]
        else:
            product_solve(m, rank, r, product(work, at), y)
            for a in range(m):
                x[clamped[a]] = x[clamped[a]] + y[a]
    expand(work, at, one, theta, x)


@func
def product(work: Workspace, at: World) -> Product:
    """The views of `semidefinite.Product` for one world."""
    o = Product()
    o.L = at.K
    o.N = at.N
    o.G = at.G
    o.rest = work.rest[at.w]
    o.pivot = work.pivots[at.w]
    o.weight = work.weight[at.w]
    return o


@func(inline=False)
def factor_classes(work: Workspace, at: World) -> tuple[int, int]:
    """Factor Q = L Nᵀ of the present classes; return |C| and the rank."""
    m = list_clamped(work, at)
    index = work.clamped[at.w]
    last = wp.int32(m)
    for i in range(at.n):
        if moves_with(work, at, i) != real(0.0):
            index[last] = i
            last += 1
    o = product(work, at)
    rank = product_factor(at.A, index, m, last - m, real(rank_level), o)
    for place in range(m, last):
        i = index[place]
        product_bound(moves_with(work, at, i), work.place[at.w, work.findex[at.w, i]], place, rank, o)
    product_normal(m, rank, real(epsilon), o)
    return m, rank


@func(inline=False)
def block_pivot(work: Workspace, at: World, regularization: real, x: wp.array1d(dtype=real)) -> int:
    """Iterate classes → x → classes on A + εI; return the factorisations, negative if it did not settle."""
    target = work.target[at.w]
    for pivot in range(BLOCK_PIVOTS):
        m = assemble(work, at, regularization)
        lu_factor(at.K, m, work.pivots[at.w], real(epsilon) * regularization)
        row_fill(real(0.0), x, 0, at.n)
        solve_classes(work, at, m, -1, regularization, target, real(1.0), real(0.0), REFINEMENTS, x)
        size = real(0.0)
        for i in range(at.n):
            size = wp.max(size, wp.abs(x[i]))
        if natural_residual(work, at, regularization, target, x) <= real(solved) + real(rounding) * size:
            return pivot + 1
        classify(work, at, x)
    return -BLOCK_PIVOTS


@func(inline=False)
def sweep(work: Workspace, at: World, regularization: real, sweeps: int, x: wp.array1d(dtype=real)):
    """Projected Gauss–Seidel sweeps on A + εI from x, until x settles."""
    change = real(INFINITE)
    for _sweep in range(sweeps):
        if change > real(SETTLED):
            change = real(0.0)
            for i in range(at.n):
                A_ii = at.A[i, i]
                if A_ii > real(0.5):  # 1, or 0 where the row moves nothing
                    before = x[i]
                    w_i = row_dot(at.A[i], x, 0, at.n) + regularization * before - work.target[at.w, i]
                    u = half_width(work, at, i, x)
                    l = wp.where(work.findex[at.w, i] >= 0, -u, real(0.0))
                    x[i] = wp.min(wp.max(before - w_i / (A_ii + regularization), l), u)
                    change = wp.max(change, wp.abs(x[i] - before))


@func(inline=False)
def label(work: Workspace, at: World, tolerance: real, classes: wp.array1d(dtype=int)):
    """Labels S, C, ±U, ±T of `best`, given w of `natural_residual`."""
    x = work.best[at.w]
    for i in range(at.n):
        if work.findex[at.w, i] < 0:
            classes[i] = label_row(x[i], work.w[at.w, i], real(0.0), work.hi[at.w, i], tolerance)
            if classes[i] == -UPPER:
                classes[i] = SEPARATING
    for i in range(at.n):
        if work.findex[at.w, i] >= 0:
            if classes[work.findex[at.w, i]] == SEPARATING:
                classes[i] = SEPARATING
            else:
                u = half_width(work, at, i, x)
                classes[i] = label_row(x[i], work.w[at.w, i], -u, u, tolerance)


@func
def label_row(x: real, w: real, l: real, u: real, tolerance: real) -> int:
    """±U at a bound with w pressing on it, ±T without, C between the bounds."""
    if x >= u - tolerance and w < -tolerance:
        return UPPER
    if x <= l + tolerance:
        return wp.where(w > tolerance, -UPPER, -TIED)
    if x >= u - tolerance:
        return TIED
    return CLAMPING


@func
def adopt(proposed: int, coupled: bool) -> int:
    """Class from a label that the caller gives; tied rows stay at their bound."""
    class_i = wp.int32(SEPARATING)
    if proposed == CLAMPING:
        class_i = CLAMPING
    elif proposed >= UPPER:
        class_i = UPPER
    elif proposed <= -UPPER and coupled:
        class_i = -UPPER
    return class_i
