# SPDX-License-Identifier: Apache-2.0
"""The linear systems of the quadratic program of a step (`island_qp.py`), solved in the velocities.

    (H + QΩQᵀ) x = r,   H = D(J A⁻¹Jᵀ + R)D,   D: scaling of impulses,   Q: axes of the cones,   Ω ≥ 0: diagonal
    E = DRD + QΩQᵀ,  N = A + JᵀD E⁻¹D J:    x = E⁻¹(r − D J N⁻¹ JᵀD E⁻¹ r)                              (Woodbury)

E has a 3 × 3 block per contact and an entry per row, so N is as sparse as SAP's Hessian: one island's N in the envelope
of `kernels/solve/sap/newton.py`. J A⁻¹Jᵀ is never formed; products with it use the factors of A's trees. Where contact
is nearly rigid, E⁻¹ is large and loses digits. The factor therefore has R raised to at least STATIC, and refinement
against the true residual restores the digits. Q = ((t̂, −1)/√2, (t̂, 1)/√2, t̂⊥): a cone near its boundary is large
along the first axis only.
"""

import enum

import warp as wp

from ...linalg.loops import sparse_add, sparse_dot, support_add, support_rate
from ...linalg.ltdl import ltdl_factor_block, ltdl_solve_block
from ...linalg.vector import copy_lower
from ...real import func, mat33, real, struct, vec2, vec3
from ..problem import Problem
from ..sap.islands import Islands
from ..sap.newton import Newton, Range, prepare, solve_prepared

# Smallest R of the factor, in scaled impulses; refinement passes; the relative residual that ends them.
STATIC = 1e-11
REFINEMENTS = 4
REFINED = 1e-10
SQRT_HALF = 0.7071067811865476


class Vc(enum.IntEnum):
    """Vectors of the workspace with an entry (t1, t2, n) per contact. "Turned": in the axes of the cone."""

    D = 0  # γ = b D x
    g = 1
    x = 2
    z = 3
    Hx = 4
    r = 5  # Hx + g − z
    omega = 6  # Ω
    lam = 7  # λ = Wz = W⁻¹x
    dx = 8  # turned
    s_x = 9  # W⁻¹Δx
    shift = 10  # W⁻² of the complementarity residual
    u = 11  # λ \ (second-order term)
    e = 12  # scratch
    rhs = 13  # right-hand side, turned
    best = 14
    newton = 15


class Vr(enum.IntEnum):
    """Vectors of the workspace with an entry per scalar row."""

    D = 0
    g = 1
    lower = 2
    upper = 3
    x = 4
    above = 5  # x − lower
    below = 6  # upper − x
    z_lower = 7
    z_upper = 8
    Hx = 9
    r = 10  # Hx + g − z_lower + z_upper
    omega = 11
    dx = 12
    t_lower = 13  # Δz_lower = t_lower − z_lower/above Δx
    t_upper = 14
    e = 15
    rhs = 16
    best = 17
    newton = 18


@struct
class Workspace:
    newton: Newton  # N, and D E⁻¹D as its G
    islands: Islands
    A_factor: wp.array3d(dtype=real)  # (worlds, nv, B) LᵀDL of A's tree blocks
    p: wp.array2d(dtype=real)  # (worlds, nv) scratch
    contact: wp.array3d(dtype=vec3)  # (worlds, len(Vc), C)
    axis: wp.array2d(dtype=vec2)  # (worlds, C) t̂
    row: wp.array3d(dtype=real)  # (worlds, len(Vr), K)
    residual: wp.array2d(dtype=real)  # (worlds, trees) of every island
    iterations: wp.array2d(dtype=int)
    status: wp.array2d(dtype=int)


@struct
class Island:
    """One island of one world."""

    w: int
    r: Range
    b: real  # unit of the impulses
    degree: real  # number of cones and bounds


@func
def turn(axis: vec2, mu: real, v: vec3) -> vec3:
    """Qᵀv: (t1, t2, n) → components along (t̂, −1)/√2, (t̂, 1)/√2, t̂⊥; half-lines, μ = 0, stay."""
    if mu == real(0.0):
        return v
    h = real(SQRT_HALF)
    along = axis[0] * v[0] + axis[1] * v[1]
    return vec3(h * (along - v[2]), h * (along + v[2]), axis[0] * v[1] - axis[1] * v[0])


@func
def turn_back(axis: vec2, mu: real, v: vec3) -> vec3:
    """Qv."""
    if mu == real(0.0):
        return v
    h = real(SQRT_HALF)
    along = h * (v[0] + v[1])
    return vec3(along * axis[0] - v[2] * axis[1], along * axis[1] + v[2] * axis[0], h * (v[1] - v[0]))


@func
def is_fixed(work: Workspace, w: int, k: int) -> bool:
    """Whether a row's bounds coincide."""
    return work.row[w, Vr.upper, k] <= work.row[w, Vr.lower, k]


@func
def largest(v: vec3) -> real:
    """max |v_i|."""
    return wp.max(wp.max(wp.abs(v[0]), wp.abs(v[1])), wp.abs(v[2]))


@func
def contact_R(problem: Problem, work: Workspace, w: int, c: int) -> vec2:
    """Scaled (R_t, R_n) of the factor, at least STATIC."""
    R = problem.R[w, c]
    D = work.contact[w, Vc.D, c]
    return vec2(wp.max(R[0] * D[0] * D[0], real(STATIC)), wp.max(R[2] * D[2] * D[2], real(STATIC)))


@func
def divide_by_E(R: vec2, omega: vec3, mu: real, e: vec3) -> vec3:
    """E⁻¹e, turned: a 2 × 2 block along t̂ and n with determinant R_t R_n + …, a sum of positive terms, and t̂⊥."""
    if mu == real(0.0):
        return vec3(real(0.0), real(0.0), e[2] / (R[1] + omega[2]))
    a = real(0.5) * (R[0] + R[1])
    b = real(0.5) * (R[0] - R[1])
    inverse = real(1.0) / (R[0] * R[1] + a * (omega[0] + omega[1]) + omega[0] * omega[1])
    return vec3(
        inverse * ((a + omega[1]) * e[0] - b * e[1]),
        inverse * ((a + omega[0]) * e[1] - b * e[0]),
        e[2] / (R[0] + omega[2]),
    )


@func
def contact_weight(R: vec2, omega: vec3, mu: real, t: vec2, D: vec3) -> mat33:
    """D E⁻¹D in (t1, t2, n)."""
    zero = real(0.0)
    if mu == zero:
        G_n = D[2] * D[2] / (R[1] + omega[2])
        return mat33(zero, zero, zero, zero, zero, zero, zero, zero, G_n)
    mean = real(0.5) * (omega[0] + omega[1])
    inverse = real(1.0) / (R[0] * R[1] + (R[0] + R[1]) * mean + omega[0] * omega[1])
    G_t = D[0] * D[0] * inverse * (R[1] + mean)
    G_nn = D[2] * D[2] * inverse * (R[0] + mean)
    G_tn = D[0] * D[2] * inverse * real(0.5) * (omega[0] - omega[1])
    G_across = D[0] * D[0] / (R[0] + omega[2])
    G_12 = (G_t - G_across) * t[0] * t[1]
    return mat33(
        G_t * t[0] * t[0] + G_across * t[1] * t[1], G_12, G_tn * t[0],
        G_12, G_t * t[1] * t[1] + G_across * t[0] * t[0], G_tn * t[1],
        G_tn * t[0], G_tn * t[1], G_nn,
    )  # fmt: skip


@func
def row_E(problem: Problem, work: Workspace, w: int, k: int) -> real:
    D = work.row[w, Vr.D, k]
    return wp.max(problem.row_R[w, k] * D * D, real(STATIC)) + work.row[w, Vr.omega, k]


@func(inline=False)
def factor_trees(problem: Problem, work: Workspace, at: Island) -> int:
    """Factor A; return 0 if every block is positive definite and finite."""
    failed = wp.int32(0)
    A_factor = work.A_factor[at.w]
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[at.w, k]
        begin = problem.tree_v[tree]
        end = problem.tree_v[tree + 1]
        copy_lower(problem.A[at.w], begin, end, A_factor, begin, 0)
        failed = wp.max(failed, ltdl_factor_block(A_factor, begin, end))
    return failed


@func
def clear_trees(problem: Problem, work: Workspace, at: Island):
    """p = 0."""
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[at.w, k]
        for i in range(problem.tree_v[tree], problem.tree_v[tree + 1]):
            work.p[at.w, i] = real(0.0)


@func(inline=False)
def push(problem: Problem, work: Workspace, at: Island, x_c: int, x_r: int):
    """p ← A⁻¹JᵀD x, with x the vectors x_c of `Vc` and x_r of `Vr`."""
    clear_trees(problem, work, at)
    p = work.p[at.w]
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        pair = problem.contact_pair[at.w, c]
        f = wp.cw_mul(work.contact[at.w, Vc.D, c], work.contact[at.w, x_c, c])
        support_add(problem.J[at.w, c], problem.support[pair], problem.support_size[pair], f, p)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        f_k = work.row[at.w, Vr.D, k] * work.row[at.w, x_r, k]
        sparse_add(problem.row_J[at.w, k], problem.row_support[k], problem.row_support_size[k], f_k, p)
    for k in range(at.r.tree_begin, at.r.tree_end):
        tree = work.islands.tree[at.w, k]
        ltdl_solve_block(work.A_factor[at.w], problem.tree_v[tree], problem.tree_v[tree + 1], p)


@func(inline=False)
def multiply_by_H(problem: Problem, work: Workspace, at: Island, x_c: int, x_r: int, y_c: int, y_r: int):
    """y ← H x; y may be x."""
    push(problem, work, at, x_c, x_r)
    p = work.p[at.w]
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        pair = problem.contact_pair[at.w, c]
        D = work.contact[at.w, Vc.D, c]
        rate = support_rate(problem.J[at.w, c], problem.support[pair], problem.support_size[pair], p)
        own = wp.cw_mul(problem.R[at.w, c], wp.cw_mul(D, work.contact[at.w, x_c, c]))
        work.contact[at.w, y_c, c] = wp.cw_mul(D, rate + own)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        D_k = work.row[at.w, Vr.D, k]
        rate_k = sparse_dot(problem.row_J[at.w, k], problem.row_support[k], problem.row_support_size[k], p)
        work.row[at.w, y_r, k] = D_k * (rate_k + problem.row_R[at.w, k] * D_k * work.row[at.w, x_r, k])


@func(inline=False)
def factor(problem: Problem, work: Workspace, at: Island) -> int:
    """Factor N for the weights Ω; return 0 if it is positive definite and finite."""
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        R = contact_R(problem, work, at.w, c)
        work.newton.G[at.w, c] = contact_weight(
            R, work.contact[at.w, Vc.omega, c], problem.mu[at.w, c], work.axis[at.w, c], work.contact[at.w, Vc.D, c]
        )
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        D = work.row[at.w, Vr.D, k]
        work.newton.row_G[at.w, k] = real(0.0)
        if not is_fixed(work, at.w, k):
            work.newton.row_G[at.w, k] = D * D / row_E(problem, work, at.w, k)
    return prepare(problem, work.newton, work.islands, at.w, at.r)


@func(inline=False)
def solve_factored(problem: Problem, work: Workspace, at: Island):
    """dx ← dx + (H + Ω)⁻¹e with the factor."""
    clear_trees(problem, work, at)
    p = work.p[at.w]
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        pair = problem.contact_pair[at.w, c]
        mu = problem.mu[at.w, c]
        R = contact_R(problem, work, at.w, c)
        y = divide_by_E(R, work.contact[at.w, Vc.omega, c], mu, work.contact[at.w, Vc.e, c])
        f = wp.cw_mul(work.contact[at.w, Vc.D, c], turn_back(work.axis[at.w, c], mu, y))
        support_add(problem.J[at.w, c], problem.support[pair], problem.support_size[pair], f, p)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            f_k = work.row[at.w, Vr.D, k] * work.row[at.w, Vr.e, k] / row_E(problem, work, at.w, k)
            sparse_add(problem.row_J[at.w, k], problem.row_support[k], problem.row_support_size[k], f_k, p)
    solve_prepared(problem, work.newton, work.islands, at.w, at.r, real(0.0), p)
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        pair = problem.contact_pair[at.w, c]
        mu = problem.mu[at.w, c]
        R = contact_R(problem, work, at.w, c)
        rate = support_rate(problem.J[at.w, c], problem.support[pair], problem.support_size[pair], p)
        moved = turn(work.axis[at.w, c], mu, wp.cw_mul(work.contact[at.w, Vc.D, c], rate))
        y = divide_by_E(R, work.contact[at.w, Vc.omega, c], mu, work.contact[at.w, Vc.e, c] - moved)
        work.contact[at.w, Vc.dx, c] = work.contact[at.w, Vc.dx, c] + y
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        if not is_fixed(work, at.w, k):
            rate_k = sparse_dot(problem.row_J[at.w, k], problem.row_support[k], problem.row_support_size[k], p)
            rest = work.row[at.w, Vr.e, k] - work.row[at.w, Vr.D, k] * rate_k
            work.row[at.w, Vr.dx, k] = work.row[at.w, Vr.dx, k] + rest / row_E(problem, work, at.w, k)


@func(inline=False)
def linear_residual(problem: Problem, work: Workspace, at: Island) -> real:
    """e ← rhs − (H + Ω) dx; return max |e_i|."""
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        dx = work.contact[at.w, Vc.dx, c]
        work.contact[at.w, Vc.e, c] = turn_back(work.axis[at.w, c], problem.mu[at.w, c], dx)
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.e, k] = work.row[at.w, Vr.dx, k]
    multiply_by_H(problem, work, at, Vc.e, Vr.e, Vc.e, Vr.e)
    size = real(0.0)
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        own = wp.cw_mul(work.contact[at.w, Vc.omega, c], work.contact[at.w, Vc.dx, c])
        H_dx = turn(work.axis[at.w, c], problem.mu[at.w, c], work.contact[at.w, Vc.e, c])
        e = work.contact[at.w, Vc.rhs, c] - H_dx - own
        work.contact[at.w, Vc.e, c] = e
        size = wp.max(size, largest(e))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        e_k = real(0.0)
        if not is_fixed(work, at.w, k):
            own_k = work.row[at.w, Vr.omega, k] * work.row[at.w, Vr.dx, k]
            e_k = work.row[at.w, Vr.rhs, k] - work.row[at.w, Vr.e, k] - own_k
        work.row[at.w, Vr.e, k] = e_k
        size = wp.max(size, wp.abs(e_k))
    return size


@func(inline=False)
def solve_refined(problem: Problem, work: Workspace, at: Island, passes: int):
    """Solve (H + Ω) dx = rhs, both turned, by up to `passes` solves with the factor."""
    size = real(0.0)
    for k in range(at.r.contact_begin, at.r.contact_end):
        c = work.islands.contact[at.w, k]
        work.contact[at.w, Vc.dx, c] = vec3(real(0.0), real(0.0), real(0.0))
        work.contact[at.w, Vc.e, c] = work.contact[at.w, Vc.rhs, c]
        size = wp.max(size, largest(work.contact[at.w, Vc.rhs, c]))
    for i in range(at.r.row_begin, at.r.row_end):
        k = work.islands.row[at.w, i]
        work.row[at.w, Vr.dx, k] = real(0.0)
        work.row[at.w, Vr.e, k] = work.row[at.w, Vr.rhs, k]
        size = wp.max(size, wp.abs(work.row[at.w, Vr.rhs, k]))
    left = int(passes)
    while left > 0:
        solve_factored(problem, work, at)
        left -= 1
        if left > 0 and linear_residual(problem, work, at) <= real(REFINED) * size:
            left = int(0)
