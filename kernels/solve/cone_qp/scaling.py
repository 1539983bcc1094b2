# SPDX-License-Identifier: Apache-2.0
"""The data of a cone QP (`kernels/solve/cone_qp/cone_qp.py`) and their scaling.

    x = b D x̃, y = (b/c) E ỹ:   H̃ = c DHD, g̃ = (c/b) Dg, Ã = EAD, q̃ = Eq/b

D multiplies the axis of a friction cone by μ, so that every cone becomes the second-order cone; for μ = 0 its tangents are
0 and its axis is a half-line. Then D (alike inside a cone) and E bring the rows of [H Aᵀ; A 0] to a largest entry of 1
(Ruiz). b is a guess of the size of x, the geometric mean of what the rows say, |q|, and what the unconstrained minimum
says, |g|/|H|; c makes H̃ and g̃ at most 1.
"""

import warp as wp

from ...linalg.loops import row_fill, row_scale
from ...real import func, real, struct
from .system import Vm, Vn, Workspace, World, largest

NON_FINITE = 2  # bit of `status`: a NaN or an infinity in the data, or a negative friction coefficient; x = 0
UNBOUNDED = 8  # bit of `status`: the cost falls without end (certified)

EQUILIBRATIONS = 8


@struct
class Problem:
    H: wp.array3d(dtype=real)  # (worlds, n, n) symmetric positive semidefinite
    g: wp.array2d(dtype=real)  # (worlds, n)
    A: wp.array3d(dtype=real)  # (worlds, m, n)
    q: wp.array2d(dtype=real)  # (worlds, m)
    variables: wp.array(dtype=int)  # (worlds,) used variables
    rows: wp.array(dtype=int)  # (worlds,) used rows
    cones: wp.array(dtype=int)  # (worlds,) used cones
    start: wp.array2d(dtype=int)  # (worlds, C) first variable of a cone; variables in no cone are free
    size: wp.array2d(dtype=int)  # (worlds, C) 1: half-line; 2, 3: friction cone, its axis last
    mu: wp.array2d(dtype=real)  # (worlds, C) friction coefficient, not read for half-lines


@func(inline=False)
def check(problem: Problem, at: World) -> int:
    """NON_FINITE for a NaN or an infinity in the data, or a negative friction coefficient; else 0."""
    bad = real(0.0)
    for i in range(at.n):
        bad += problem.g[at.w, i] - problem.g[at.w, i]
        for j in range(at.n):
            bad += problem.H[at.w, i, j] - problem.H[at.w, i, j]
    for i in range(at.m):
        bad += problem.q[at.w, i] - problem.q[at.w, i]
        for j in range(at.n):
            bad += problem.A[at.w, i, j] - problem.A[at.w, i, j]
    for c in range(at.cones):
        mu = problem.mu[at.w, c]
        if problem.size[at.w, c] > 1 and not (mu >= real(0.0) and mu - mu == real(0.0)):
            return NON_FINITE
    if bad != real(0.0):
        return NON_FINITE
    return 0


@func
def inverse_root(size: real) -> real:
    """1/√size, 1 for 0."""
    if size > real(0.0):
        return real(1.0) / wp.sqrt(size)
    return real(1.0)


@func(inline=False)
def equilibrate(problem: Problem, work: Workspace, at: World):
    """H̃ = DHD, Ã = EAD with entries of at most 1, D alike inside a cone after x_n has been multiplied by μ."""
    D = work.vn[at.w, Vn.scale_x]
    E = work.vm[at.w, Vm.scale_y]
    row_fill(real(1.0), D, 0, at.n)
    row_fill(real(1.0), E, 0, at.m)
    for c in range(at.cones):
        k = problem.start[at.w, c]
        size = problem.size[at.w, c]
        work.start[at.w, c] = k
        work.size[at.w, c] = size
        if size > 1:
            mu = problem.mu[at.w, c]
            if mu > real(0.0):
                D[k + size - 1] = real(1.0) / mu
            else:
                row_fill(real(0.0), D, k, k + size - 1)
                work.start[at.w, c] = k + size - 1
                work.size[at.w, c] = 1
    for i in range(at.n):
        for j in range(at.n):
            work.H[at.w, i, j] = real(0.5) * D[i] * D[j] * (problem.H[at.w, i, j] + problem.H[at.w, j, i])
    for i in range(at.m):
        for j in range(at.n):
            work.A[at.w, i, j] = problem.A[at.w, i, j] * D[j]
    passes = wp.int32(EQUILIBRATIONS)  # a constant range would be unrolled
    for _pass in range(passes):
        d = work.vn[at.w, Vn.r]
        e = work.vm[at.w, Vm.e_y]
        for i in range(at.n):
            d[i] = largest(work.H[at.w, i], at.n)
        for i in range(at.m):
            e[i] = largest(work.A[at.w, i], at.n)
            for j in range(at.n):
                d[j] = wp.max(d[j], wp.abs(work.A[at.w, i, j]))
            e[i] = inverse_root(e[i])
            E[i] = E[i] * e[i]
        for c in range(at.cones):
            k = work.start[at.w, c]
            size = work.size[at.w, c]
            whole = real(0.0)
            for i in range(k, k + size):
                whole = wp.max(whole, d[i])
            row_fill(whole, d, k, k + size)
        for i in range(at.n):
            d[i] = inverse_root(d[i])
            D[i] = D[i] * d[i]
        for i in range(at.n):
            for j in range(at.n):
                work.H[at.w, i, j] = d[i] * d[j] * work.H[at.w, i, j]
        for i in range(at.m):
            for j in range(at.n):
                work.A[at.w, i, j] = e[i] * d[j] * work.A[at.w, i, j]


@func(inline=False)
def scale_problem(problem: Problem, work: Workspace, at: World) -> int:
    """The problem in scaled variables; UNBOUNDED where a free variable has a slope and nothing else, or 0."""
    equilibrate(problem, work, at)
    status = wp.int32(0)
    size_H = real(0.0)
    size_g = real(0.0)
    size_q = real(0.0)
    used = work.vn[at.w, Vn.r]
    for i in range(at.n):
        work.vn[at.w, Vn.g, i] = work.vn[at.w, Vn.scale_x, i] * problem.g[at.w, i]
        used[i] = largest(work.H[at.w, i], at.n)
        size_H = wp.max(size_H, used[i])
        size_g = wp.max(size_g, wp.abs(work.vn[at.w, Vn.g, i]))
    for i in range(at.m):
        work.vm[at.w, Vm.q, i] = work.vm[at.w, Vm.scale_y, i] * problem.q[at.w, i]
        row = real(0.0)
        for j in range(at.n):
            row = wp.max(row, wp.abs(work.A[at.w, i, j]))
            used[j] = wp.max(used[j], wp.abs(work.A[at.w, i, j]))
        if row == real(0.0):
            # 0 ≥ q: met by any slack, or by none.
            work.vm[at.w, Vm.scale_y, i] = real(0.0)
            work.vm[at.w, Vm.q, i] = wp.where(work.vm[at.w, Vm.q, i] > real(0.0), real(1.0), real(-1.0))
        else:
            size_q = wp.max(size_q, wp.abs(work.vm[at.w, Vm.q, i]))
    for c in range(at.cones):
        row_fill(real(1.0), used, work.start[at.w, c], work.start[at.w, c] + work.size[at.w, c])
    for i in range(at.n):
        if used[i] == real(0.0) and work.vn[at.w, Vn.g, i] != real(0.0):
            status = wp.int32(UNBOUNDED)
    b = real(1.0)
    if size_q > real(0.0):
        b = size_q
    if size_H > real(0.0) and size_g > real(0.0):
        b = size_g / size_H
        if size_q > real(0.0):
            b = wp.sqrt(b) * wp.sqrt(size_q)
    cost = wp.max(size_H, size_g / b)
    c_cost = real(1.0)
    if cost > real(0.0):
        c_cost = real(1.0) / cost
    for i in range(at.n):
        work.vn[at.w, Vn.g, i] = work.vn[at.w, Vn.g, i] * c_cost / b
        work.vn[at.w, Vn.scale_x, i] = b * work.vn[at.w, Vn.scale_x, i]
        row_scale(c_cost, work.H[at.w, i], 0, at.n)
    for i in range(at.m):
        if work.vm[at.w, Vm.scale_y, i] > real(0.0):
            work.vm[at.w, Vm.q, i] = work.vm[at.w, Vm.q, i] / b
        work.vm[at.w, Vm.scale_y, i] = b / c_cost * work.vm[at.w, Vm.scale_y, i]
    return status
