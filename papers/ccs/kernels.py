# SPDX-License-Identifier: Apache-2.0
"""The compliant-constraint paper's own program for one step, as printed (Drumwright, §4.2, §5.3, appendix A), in impulses γ = hλ.

    min ½ (ζ γ_nᵀγ_n + ζ γ_uᵀγ_u + γ_tᵀγ_t + β_tᵀβ_t),   β_t = γ_t + (u_t + W_t γ)/R_t
    (W + R) γ ≥ v̂ − u − hĠv0 − R M̂ hĠv0   on the rows n, u,   γ_n, γ_u ≥ 0,   ‖γ_t‖ ≤ μ γ_n

u: contacts' normals n and tangents t, stops u; M̂ = W⁺ over the rows of one kind. Bilateral rows b are eliminated first,

    γ_b = −(W_bb + R_b)⁻¹ (u*_b − v̂_b + W_b γ) − M̂_b hĠ_b v0,

which leaves W − W_b (W_bb + R_b)⁻¹ W_bᵀ and u = u* + W_bᵀ γ_b(γ = 0) for the others; in β_t alone u is u*, where eq. 197 and
198 hold f and not G_bᵀC⁻¹c + f. R = 1/(h²K + hB), v̂ = −φ/(h + B/K); rows with φ > 0 do not act. Ġ of contacts and of
joints' stops is 0. Dense, one thread per world, float64: cost ~ (contacts + rows)³. The engine's own device code does the rest.
"""

import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.linalg import dense, loops
from warpsim.kernels.solve import delassus, problem

real = wp.float64
func, struct = wp.func, wp.struct
kernel = wp.kernel(enable_backward=False)
Dual, Problem = copy(delassus.Dual, real), copy(problem.Problem, real)
dense, loops = copy(dense, real), copy(loops, real)
Orthogonal, qr_factor, qr_solve = dense.Orthogonal, dense.qr_factor, dense.qr_solve
cholesky_factor, cholesky_forward, cholesky_backward = (
    dense.cholesky_factor,
    dense.cholesky_forward,
    dense.cholesky_backward,
)
row_axpy, row_dot, row_fill = loops.row_axpy, loops.row_dot, loops.row_fill

ABSENT = wp.constant(0)
BILATERAL = wp.constant(1)
STOP = wp.constant(2)
NORMAL = wp.constant(3)
TANGENT = wp.constant(4)
# Static regularisation of W_bb + R_b, relative to its diagonal; refined away where rows are independent.
STATIC = 1e-13
REFINEMENTS = 3
RANK = 1e-10  # pivots of W below this times the first are redundant rows
DUST = 1e-10  # of g relative to |H| |q|/|A|, the size of Hx: what is left of cancelled terms
# Half-width of the difference that gives Ġv0, as the largest change of a coordinate [m, rad].
REACH = 2e-4


@struct
class QP:
    """min ½ xᵀHx + gᵀx, Ax ≥ q, x in cones, padded: n variables, m rows and C cones of a world that has the most."""

    H: wp.array3d(dtype=real)  # (worlds, n, n)
    g: wp.array2d(dtype=real)  # (worlds, n)
    A: wp.array3d(dtype=real)  # (worlds, m, n)
    q: wp.array2d(dtype=real)  # (worlds, m)
    variables: wp.array(dtype=int)  # (worlds,) used ones, as the next two
    rows: wp.array(dtype=int)
    cones: wp.array(dtype=int)
    start: wp.array2d(dtype=int)  # (worlds, C) first variable
    size: wp.array2d(dtype=int)  # (worlds, C) 1: half-line, 3: friction cone, its axis last
    mu: wp.array2d(dtype=real)  # (worlds, C)


@struct
class Paper:
    """Workspace; N listed rows, K scalar rows."""

    bend: wp.array2d(dtype=real)  # (worlds, K) hĠv0, given
    kind: wp.array2d(dtype=int)  # (worlds, N)
    held: wp.array2d(dtype=int)  # (worlds, K) the bilateral rows; `held_count` of them
    held_count: wp.array(dtype=int)
    variable: wp.array2d(dtype=int)  # (worlds, N) row of each variable of the QP
    H_bb: wp.array3d(dtype=real)  # (worlds, K, K) W_bb + R_b
    L: wp.array3d(dtype=real)  # (worlds, K, K) its factor
    solved: wp.array3d(dtype=real)  # (worlds, N, K) (W_bb + R_b)⁻¹ W_b, a row per column
    gamma_b: wp.array2d(dtype=real)  # (worlds, K) γ_b at γ = 0
    u: wp.array2d(dtype=real)  # (worlds, N)
    a: wp.array2d(dtype=real)  # (worlds, N) scratch: a row over the variables
    kick: wp.array2d(dtype=real)  # (worlds, N) M̂ hĠv0
    picked: wp.array2d(dtype=int)  # (worlds, K) scratch: rows of one kind
    r: wp.array2d(dtype=real)  # (worlds, K) scratch, as the rest
    e: wp.array2d(dtype=real)
    Q: wp.array3d(dtype=real)
    Z: wp.array3d(dtype=real)
    tau: wp.array2d(dtype=real)
    diagonal: wp.array2d(dtype=real)
    tau_Z: wp.array2d(dtype=real)
    diagonal_Z: wp.array2d(dtype=real)
    column: wp.array2d(dtype=int)
    weight: wp.array2d(dtype=real)


@func
def row_R(problem: Problem, w: int, source: int) -> real:
    slots = problem.contact_pair.shape[1]
    if source < 3 * slots:
        c = source // 3
        return problem.R[w, c][source - 3 * c]
    return problem.row_R[w, source - 3 * slots]


@func
def row_v_hat(problem: Problem, w: int, source: int) -> real:
    slots = problem.contact_pair.shape[1]
    if source < 3 * slots:
        c = source // 3
        return problem.v_hat[w, c][source - 3 * c]
    return problem.row_v_hat[w, source - 3 * slots]


@func
def row_kind(problem: Problem, w: int, source: int) -> int:
    """What a listed row is; ABSENT where φ > 0."""
    slots = problem.contact_pair.shape[1]
    if source < 3 * slots:
        c = source // 3
        if problem.v_hat[w, c][2] < real(0.0):
            return ABSENT
        if source - 3 * c == 2:
            return NORMAL
        return TANGENT
    k = source - 3 * slots
    if problem.row_lower[w, k] == real(-wp.inf):
        return BILATERAL
    if problem.row_v_hat[w, k] < real(0.0):
        return ABSENT
    return STOP


@func
def orthogonal(paper: Paper, w: int) -> Orthogonal:
    """The views of `qr_factor` for one world."""
    o = Orthogonal()
    o.Z = paper.Z[w]
    o.tau = paper.tau[w]
    o.diagonal = paper.diagonal[w]
    o.tau_Z = paper.tau_Z[w]
    o.diagonal_Z = paper.diagonal_Z[w]
    o.column = paper.column[w]
    o.weight = paper.weight[w]
    return o


@func(inline=False)
def set_kick(problem: Problem, dual: Dual, paper: Paper, w: int, kind: int):
    """M̂ hĠv0 of the rows of one kind, M̂ the pseudo-inverse of their W."""
    slots = problem.contact_pair.shape[1]
    m = wp.int32(0)
    size = real(0.0)
    for r in range(dual.count[w]):
        if paper.kind[w, r] == kind:
            paper.picked[w, m] = r
            paper.r[w, m] = paper.bend[w, dual.source[w, r] - 3 * slots]
            size = wp.max(size, wp.abs(paper.r[w, m]))
            paper.weight[w, m] = real(1.0)
            paper.kick[w, r] = real(0.0)
            m += 1
    if size > real(0.0):
        for i in range(m):
            for j in range(m):
                paper.Q[w, i, j] = dual.W[w, paper.picked[w, i], paper.picked[w, j]]
        rank = qr_factor(paper.Q[w], m, real(RANK), orthogonal(paper, w))
        qr_solve(paper.Q[w], m, rank, orthogonal(paper, w), paper.r[w], paper.e[w])
        for i in range(m):
            paper.kick[w, paper.picked[w, i]] = paper.e[w, i]


@func(inline=False)
def solve_held(paper: Paper, w: int, b: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x = (W_bb + R_b)⁻¹ b by iterative refinement; redundant rows share."""
    n = paper.held_count[w]
    e = paper.e[w]
    row_fill(real(0.0), x, 0, n)
    passes = wp.int32(REFINEMENTS)  # a constant range would be unrolled
    for _pass in range(passes):
        for i in range(n):
            e[i] = b[i] - row_dot(paper.H_bb[w, i], x, 0, n)
        cholesky_forward(paper.L[w], n, e)
        cholesky_backward(paper.L[w], n, e)
        row_axpy(real(1.0), e, x, 0, n)


@func(inline=False)
def eliminate(problem: Problem, dual: Dual, paper: Paper, w: int):
    """Factor the bilateral rows; u of all others."""
    n = wp.int32(0)
    for r in range(dual.count[w]):
        if paper.kind[w, r] == BILATERAL:
            paper.held[w, n] = r
            n += 1
    paper.held_count[w] = n
    for i in range(n):
        r = paper.held[w, i]
        for j in range(n):
            paper.H_bb[w, i, j] = dual.W[w, r, paper.held[w, j]]
        paper.H_bb[w, i, i] = paper.H_bb[w, i, i] + row_R(problem, w, dual.source[w, r])
        for j in range(n):
            paper.L[w, i, j] = paper.H_bb[w, i, j]
        paper.L[w, i, i] = paper.L[w, i, i] * (real(1.0) + real(STATIC))
        paper.r[w, i] = row_v_hat(problem, w, dual.source[w, r]) - dual.u_star[w, r]
    cholesky_factor(paper.L[w], n, real(1e-300))
    solve_held(paper, w, paper.r[w], paper.gamma_b[w])
    for i in range(n):
        paper.gamma_b[w, i] = paper.gamma_b[w, i] - paper.kick[w, paper.held[w, i]]
    for r in range(dual.count[w]):
        if paper.kind[w, r] > BILATERAL:
            u = dual.u_star[w, r]
            for i in range(n):
                paper.r[w, i] = dual.W[w, r, paper.held[w, i]]
                u += paper.r[w, i] * paper.gamma_b[w, i]
            paper.u[w, r] = u
            solve_held(paper, w, paper.r[w], paper.solved[w, r])


@func(inline=False)
def spring_row(problem: Problem, dual: Dual, paper: Paper, qp: QP, w: int, r: int):
    """`a` ← row r of W + R over the variables, bilateral rows eliminated."""
    for j in range(qp.variables[w]):
        s = paper.variable[w, j]
        value = dual.W[w, r, s]
        for i in range(paper.held_count[w]):
            value -= dual.W[w, r, paper.held[w, i]] * paper.solved[w, s, i]
        if s == r:
            value += row_R(problem, w, dual.source[w, r])
        paper.a[w, j] = value


@func(inline=False)
def clear_dust(qp: QP, w: int):
    """g ← 0 where it is rounding; β_t would buy normal force against it."""
    H = real(0.0)
    A = real(0.0)
    q = real(0.0)
    for i in range(qp.variables[w]):
        for j in range(qp.variables[w]):
            H = wp.max(H, wp.abs(qp.H[w, i, j]))
    for i in range(qp.rows[w]):
        q = wp.max(q, wp.abs(qp.q[w, i]))
        for j in range(qp.variables[w]):
            A = wp.max(A, wp.abs(qp.A[w, i, j]))
    if A > real(0.0):
        for i in range(qp.variables[w]):
            if wp.abs(qp.g[w, i]) < real(DUST) * H * q / A:
                qp.g[w, i] = real(0.0)


@kernel
def assemble(problem: Problem, dual: Dual, paper: Paper, zeta: real, qp: QP):
    """The program of one world. Launch over worlds."""
    w = wp.tid()
    slots = problem.contact_pair.shape[1]
    n = wp.int32(0)
    cones = wp.int32(0)
    for r in range(dual.count[w]):
        source = dual.source[w, r]
        kind = row_kind(problem, w, source)
        paper.kind[w, r] = kind
        if kind > BILATERAL:
            if kind != TANGENT:
                size = wp.int32(1)
                mu = real(0.0)
                if kind == NORMAL and problem.mu[w, source // 3] != real(0.0):
                    size = 3
                    mu = problem.mu[w, source // 3]
                qp.start[w, cones] = n + 1 - size
                qp.size[w, cones] = size
                qp.mu[w, cones] = mu
                cones += 1
            paper.variable[w, n] = r
            n += 1
    qp.variables[w] = n
    qp.cones[w] = cones
    set_kick(problem, dual, paper, w, BILATERAL)
    eliminate(problem, dual, paper, w)
    set_kick(problem, dual, paper, w, STOP)
    for i in range(n):
        row_fill(real(0.0), qp.H[w, i], 0, n)
        qp.g[w, i] = real(0.0)
    m = wp.int32(0)
    for i in range(n):
        r = paper.variable[w, i]
        source = dual.source[w, r]
        R = row_R(problem, w, source)
        spring_row(problem, dual, paper, qp, w, r)
        if paper.kind[w, r] == TANGENT:
            for j in range(n):
                row_axpy(paper.a[w, j] / (R * R), paper.a[w], qp.H[w, j], 0, n)
                qp.g[w, j] = qp.g[w, j] + paper.a[w, j] * dual.u_star[w, r] / (R * R)
            qp.H[w, i, i] = qp.H[w, i, i] + real(1.0)
        else:
            right = row_v_hat(problem, w, source) - paper.u[w, r]
            if paper.kind[w, r] == STOP:
                right -= paper.bend[w, source - 3 * slots] + R * paper.kick[w, r]
            for j in range(n):
                qp.A[w, m, j] = paper.a[w, j]
            qp.q[w, m] = right
            m += 1
            qp.H[w, i, i] = qp.H[w, i, i] + zeta
    qp.rows[w] = m
    clear_dust(qp, w)


@kernel
def recover(dual: Dual, paper: Paper, qp: QP, x: wp.array2d(dtype=real), impulse: wp.array2d(dtype=real)):
    """γ of every listed row from the solution x. Launch over worlds."""
    w = wp.tid()
    row_fill(real(0.0), impulse[w], 0, dual.count[w])
    for i in range(paper.held_count[w]):
        gamma = paper.gamma_b[w, i]
        for j in range(qp.variables[w]):
            gamma -= paper.solved[w, paper.variable[w, j], i] * x[w, j]
        impulse[w, paper.held[w, i]] = gamma
    for j in range(qp.variables[w]):
        impulse[w, paper.variable[w, j]] = x[w, j]


@kernel
def reach(v: wp.array2d(dtype=real), sign: real, scale: wp.array(dtype=real), u: wp.array2d(dtype=real)):
    """u = ± scale v with the largest component REACH; scale 0 at rest. Launch over worlds."""
    w = wp.tid()
    largest = real(0.0)
    for d in range(v.shape[1]):
        largest = wp.max(largest, wp.abs(v[w, d]))
    s = real(0.0)
    if largest > real(0.0):
        s = real(REACH) / largest
    scale[w] = s
    for d in range(v.shape[1]):
        u[w, d] = sign * s * v[w, d]


@kernel
def path_bend(
    h: real,
    scale: wp.array(dtype=real),
    phi: wp.array2d(dtype=real),
    ahead: wp.array2d(dtype=real),
    behind: wp.array2d(dtype=real),
    bend: wp.array2d(dtype=real),
):
    """hĠv0 = h d²φ(q ⊕ t v0)/dt² of the rows, from φ on both sides. Launch over (worlds, rows)."""
    w, k = wp.tid()
    bend[w, k] = real(0.0)
    if scale[w] > real(0.0):
        bend[w, k] = h * ((ahead[w, k] - phi[w, k]) + (behind[w, k] - phi[w, k])) / (scale[w] * scale[w])
