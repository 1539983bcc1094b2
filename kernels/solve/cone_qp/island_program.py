# SPDX-License-Identifier: Apache-2.0
"""The quadratic program of one island in scaled impulses, and the residual of a point (`island_qp.py`).

    x = γ/(b D),   H = D(W + R)D,   g = D(J v* − v̂)/b,   b = max |D(J v* − v̂)|

D = d (1, 1, 1/μ) for a friction cone, which turns it into the second-order cone. D = d for the normal of a contact
without friction, an interval or a free row. d makes the largest diagonal entry of each block of H equal to 1, so that
no entry of H is larger than 1.
"""

import warp as wp

from ...linalg.loops import sparse_add, sparse_dot, support_add, support_rate
from ...linalg.ltdl import ltdl_solve_block
from ...real import func, real, vec3
from ..problem import Problem
from .island_system import Island, Vc, Vr, Workspace, is_fixed, largest
from .second_order_cone import project

# Lower limit of the denominator of relative residuals; scaled data are of order 1.
FLOOR = 1e-6


@func
def clear_support(problem: Problem, support: wp.array1d(dtype=int), size: int, p: wp.array1d(dtype=real)):
    """p ← 0 in the trees that a constraint moves."""
    seen = wp.int32(-1)
    for i in range(size):
        tree = problem.dof_tree[support[i]]
        if tree != seen:
            for d in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
                p[d] = real(0.0)
            seen = tree


@func
def solve_support(
    problem: Problem, work: Workspace, w: int, support: wp.array1d(dtype=int), size: int, p: wp.array1d(dtype=real)
):
    """p ← A⁻¹p in the trees that a constraint moves."""
    seen = wp.int32(-1)
    for i in range(size):
        tree = problem.dof_tree[support[i]]
        if tree != seen:
            ltdl_solve_block(work.A_factor[w], problem.tree_v[tree], problem.tree_v[tree + 1], p)
            seen = tree


@func(inline=False)
def contact_scale(problem: Problem, work: Workspace, at: Island, c: int) -> vec3:
    """D of a contact: D = (1, 1, 1/μ) times 1/√ of the largest diagonal entry of D(W + R)D; no tangents where μ = 0."""
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
        clear_support(problem, support, size, p)
        support_add(problem.J[at.w, c], support, size, unit, p)
        solve_support(problem, work, at.w, support, size, p)
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
    clear_support(problem, support, size, p)
    sparse_add(problem.row_J[at.w, k], support, size, real(1.0), p)
    solve_support(problem, work, at.w, support, size, p)
    return real(1.0) / wp.sqrt(sparse_dot(problem.row_J[at.w, k], support, size, p) + problem.row_R[at.w, k])


@func(inline=False)
def scale_program(problem: Problem, work: Workspace, at: Island) -> Island:
    """Compute D, g, b and the bounds; the degree is 0 if the data are not finite."""
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
    """P x of a row; a fixed row is at its lower bound."""
    return wp.max(wp.min(x, work.row[w, Vr.upper, k]), work.row[w, Vr.lower, k])


@func(inline=False)
def certify(work: Workspace, at: Island, x_c: int, x_r: int, best: real) -> real:
    """Residual of a point in its cones, given Hx; stores the point in `best` if its residual is smaller."""
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
    total = gap + value  # wp.max ignores a NaN, a sum does not
    if residual < best and total - total == real(0.0):
        for i in range(at.r.contact_begin, at.r.contact_end):
            c = work.islands.contact[at.w, i]
            work.contact[at.w, Vc.best, c] = work.contact[at.w, x_c, c]
        for i in range(at.r.row_begin, at.r.row_end):
            k = work.islands.row[at.w, i]
            work.row[at.w, Vr.best, k] = work.row[at.w, x_r, k]
        return residual
    return best
