# SPDX-License-Identifier: Apache-2.0
"""The linear systems of the cone QP solver (`kernels/solve/cone_qp/cone_qp.py`), in the axes of the cones.

    (H + QΩQᵀ) Δx − Aᵀ Δy = r_x,   A Δx + w⁻¹ Δy = r_y

QΩQᵀ is W⁻² of each cone. Near the boundary its eigenvalues lie far apart and would drown H in rounding; in its own axes
Q = ((t̂, −1)/√2, (t̂, 1)/√2, t̂⊥) it is diagonal and large on the first only, which a Cholesky factor does not mind. So the
factor is that of QᵀHQ + Ω ("rotated"), and Δx stays rotated until a plain vector is needed. Rows with a large weight w stay
out of it for the same reason and form a Schur complement. A little static regularisation is refined away.
"""

import enum

import numpy as np
import warp as wp

from ...linalg.dense import cholesky_backward, cholesky_factor, cholesky_forward
from ...linalg.loops import row_axpy, row_copy, row_dot, row_fill
from ...real import func, real, struct, vec2, vec3
from .second_order_cone import load, store, tangent

# Static regularisation of the factors, relative and absolute.
STATIC = {wp.float32: 1e-6, wp.float64: 1e-13}
REFINEMENTS = 3
# Rows with a weight above this go to the Schur complement.
STIFF = 10.0
SQRT_HALF = 0.7071067811865476


class Vn(enum.IntEnum):
    """The vectors of the workspace with an entry per variable."""

    g = 0
    scale_x = 1  # x = scale_x x̃
    x = 2
    z = 3
    Hx = 4
    r_x = 5
    x1 = 6  # rotated solutions; x2: of the column of τ
    x2 = 7
    dz = 8
    shift = 9  # W⁻² of the complementarity residual
    omega = 10  # Ω
    lam = 11  # λ = Wz = W⁻¹x
    s_x = 12  # W⁻¹Δx
    s_z = 13  # WΔz
    u = 14  # Hx + g − Aᵀy; also λ \ (second-order term)
    newton_x = 15
    trial_x = 16
    best_x = 17
    e = 18  # scratch of the linear solves
    p = 19
    r = 20


class Vm(enum.IntEnum):
    """The vectors of the workspace with an entry per row of A."""

    q = 0
    scale_y = 1
    y = 2
    s = 3
    r_y = 4
    y1 = 5
    y2 = 6
    ds = 7
    shift_y = 8
    weight = 9  # w = y/s
    compliance = 10  # w⁻¹
    v = 11  # Ax − q
    newton_y = 12
    trial_y = 13
    best_y = 14
    e_y = 15  # scratch of the linear solves
    reduced = 16


static = STATIC[real]
tiny = float(np.finfo(wp.dtype_to_numpy(real)).tiny)


@struct
class Workspace:
    """The scaled problem and the iterates, per world. It is handed to functions by value: few arrays, many vectors in each."""

    H: wp.array3d(dtype=real)
    A: wp.array3d(dtype=real)
    N: wp.array3d(dtype=real)  # (worlds, n, n) Cholesky factor of QᵀHQ + Ω + Σ min(w, STIFF) aaᵀ
    T: wp.array3d(dtype=real)  # (worlds, m, n) rotated rows of A; L⁻¹ of the stiff ones
    schur: wp.array3d(dtype=real)  # (worlds, m, m) factor over the stiff rows
    vn: wp.array3d(dtype=real)  # (worlds, len(Vn), n)
    vm: wp.array3d(dtype=real)  # (worlds, len(Vm), m)
    stiff: wp.array2d(dtype=int)  # (worlds, m) the stiff rows
    axis: wp.array2d(dtype=vec2)  # (worlds, C) t̂
    start: wp.array2d(dtype=int)  # (worlds, C) cones as solved: half-lines where μ = 0
    size: wp.array2d(dtype=int)


@struct
class World:
    """One world and its counts of variables, rows and cones."""

    w: int
    n: int
    m: int
    cones: int


@func(inline=False)
def rotate(work: Workspace, at: World, x: wp.array1d(dtype=real)):
    """x ← Qᵀx: (t1, t2, n) → components along (t̂, −1)/√2, (t̂, 1)/√2, t̂⊥."""
    h = real(SQRT_HALF)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        if size > 1:
            a = work.axis[at.w, c]
            v = load(x, k, size)
            along = a[0] * v[0] + a[1] * v[1]
            x[k] = h * (along - v[2])
            x[k + 1] = h * (along + v[2])
            if size == 3:
                x[k + 2] = a[0] * v[1] - a[1] * v[0]


@func(inline=False)
def rotate_back(work: Workspace, at: World, x: wp.array1d(dtype=real)):
    """x ← Qx."""
    h = real(SQRT_HALF)
    for c in range(at.cones):
        k = work.start[at.w, c]
        size = work.size[at.w, c]
        if size > 1:
            a = work.axis[at.w, c]
            along = h * (x[k] + x[k + 1])
            normal = h * (x[k + 1] - x[k])
            across = real(0.0)
            if size == 3:
                across = x[k + 2]
            store(x, k, size, vec3(along * a[0] - across * a[1], along * a[1] + across * a[0], normal))


@func(inline=False)
def set_axes(work: Workspace, at: World, c: int, v: vec3, down: real, up: real, across: real):
    """The axes of cone c from a vector, and its weights Ω along (t̂, −1)/√2, (t̂, 1)/√2 and t̂⊥."""
    k = work.start[at.w, c]
    size = work.size[at.w, c]
    r = tangent(v)
    axis = vec2(real(1.0), real(0.0))
    if r > real(0.0):
        axis = vec2(v[0] / r, v[1] / r)
    work.axis[at.w, c] = axis
    work.vn[at.w, Vn.omega, k] = down
    if size > 1:
        work.vn[at.w, Vn.omega, k + 1] = up
    if size == 3:
        work.vn[at.w, Vn.omega, k + 2] = across


@func(inline=False)
def subtract_transposed(work: Workspace, at: World, y: wp.array1d(dtype=real), x: wp.array1d(dtype=real)):
    """x ← x − Aᵀy."""
    for i in range(at.m):
        row_axpy(-y[i], work.A[at.w, i], x, 0, at.n)


@func(inline=False)
def largest(x: wp.array1d(dtype=real), n: int) -> real:
    """max |x_i|."""
    size = real(0.0)
    for i in range(n):
        size = wp.max(size, wp.abs(x[i]))
    return size


@func(inline=False)
def add_outer(weight: real, a: wp.array1d(dtype=real), N: wp.array2d(dtype=real), n: int):
    """Lower triangle of N ← N + weight aaᵀ."""
    for i in range(n):
        if a[i] != real(0.0):
            row_axpy(weight * a[i], a, N[i], 0, i + 1)


@func(inline=False)
def factor(work: Workspace, at: World) -> int:
    """Factors of the system with weights Ω and `weight`; the number of stiff rows."""
    N = work.N[at.w]
    for i in range(at.n):
        row_copy(work.H[at.w, i], N[i], 0, at.n)
        rotate(work, at, N[i])
    for i in range(at.n):
        for j in range(i):
            N_ij = N[i, j]
            N[i, j] = N[j, i]
            N[j, i] = N_ij
    for i in range(at.n):
        rotate(work, at, N[i])
    count = wp.int32(0)
    for i in range(at.m):
        row_copy(work.A[at.w, i], work.T[at.w, i], 0, at.n)
        rotate(work, at, work.T[at.w, i])
        add_outer(wp.min(work.vm[at.w, Vm.weight, i], real(STIFF)), work.T[at.w, i], N, at.n)
        if work.vm[at.w, Vm.weight, i] > real(STIFF):
            work.stiff[at.w, count] = i
            count += 1
    for i in range(at.n):
        N[i, i] = (N[i, i] + work.vn[at.w, Vn.omega, i]) * (real(1.0) + real(static)) + real(static)
    cholesky_factor(N, at.n, real(static))
    schur = work.schur[at.w]
    for a in range(count):
        i = work.stiff[at.w, a]
        cholesky_forward(N, at.n, work.T[at.w, i])
        for b in range(a + 1):
            schur[a, b] = row_dot(work.T[at.w, i], work.T[at.w, work.stiff[at.w, b]], 0, at.n)
        schur[a, a] = schur[a, a] * (real(1.0) + real(static)) + real(1.0) / (work.vm[at.w, Vm.weight, i] - real(STIFF))
    cholesky_factor(schur, count, real(tiny))
    return count


@func(inline=False)
def solve_factored(work: Workspace, at: World, stiff: int):
    """(e, e_y) ← (Δx rotated, Δy) of the system with right-hand side (e, e_y), by the regularised factors.

    A stiff row enters N with weight STIFF, which leaves the part f = 1 − STIFF/w of its Δy to the Schur complement.
    """
    e = work.vn[at.w, Vn.e]
    schur = work.schur[at.w]
    reduced = work.vm[at.w, Vm.reduced]
    for i in range(at.m):
        if work.vm[at.w, Vm.weight, i] <= real(STIFF):
            row_axpy(work.vm[at.w, Vm.weight, i] * work.vm[at.w, Vm.e_y, i], work.T[at.w, i], e, 0, at.n)
    cholesky_forward(work.N[at.w], at.n, e)
    for a in range(stiff):
        i = work.stiff[at.w, a]
        row_axpy(real(STIFF) * work.vm[at.w, Vm.e_y, i], work.T[at.w, i], e, 0, at.n)
    for a in range(stiff):
        i = work.stiff[at.w, a]
        reduced[a] = work.vm[at.w, Vm.e_y, i] - row_dot(work.T[at.w, i], e, 0, at.n)
    cholesky_forward(schur, stiff, reduced)
    cholesky_backward(schur, stiff, reduced)
    for a in range(stiff):
        i = work.stiff[at.w, a]
        row_axpy(reduced[a], work.T[at.w, i], e, 0, at.n)
        work.vm[at.w, Vm.e_y, i] = reduced[a] / (real(1.0) - real(STIFF) / work.vm[at.w, Vm.weight, i])
    cholesky_backward(work.N[at.w], at.n, e)
    for i in range(at.m):
        if work.vm[at.w, Vm.weight, i] <= real(STIFF):
            work.vm[at.w, Vm.e_y, i] = work.vm[at.w, Vm.weight, i] * (
                work.vm[at.w, Vm.e_y, i] - row_dot(work.T[at.w, i], e, 0, at.n)
            )


@func(inline=False)
def solve_refined(
    work: Workspace, at: World, stiff: int, r_x: wp.array1d(dtype=real), r_y: wp.array1d(dtype=real),
    x: wp.array1d(dtype=real), y: wp.array1d(dtype=real),
):  # fmt: skip
    """x (rotated) and y of (H + Ω) x − Aᵀy = r_x (rotated), A x + compliance y = r_y, by iterative refinement."""
    e = work.vn[at.w, Vn.e]
    p = work.vn[at.w, Vn.p]
    row_fill(real(0.0), x, 0, at.n)
    row_fill(real(0.0), y, 0, at.m)
    passes = wp.int32(REFINEMENTS)  # a constant range would be unrolled
    for _pass in range(passes):
        row_copy(x, p, 0, at.n)
        rotate_back(work, at, p)
        for i in range(at.n):
            e[i] = -row_dot(work.H[at.w, i], p, 0, at.n)
        for i in range(at.m):
            work.vm[at.w, Vm.e_y, i] = (
                r_y[i] - row_dot(work.A[at.w, i], p, 0, at.n) - work.vm[at.w, Vm.compliance, i] * y[i]
            )
            row_axpy(y[i], work.A[at.w, i], e, 0, at.n)
        rotate(work, at, e)
        for i in range(at.n):
            e[i] = e[i] + r_x[i] - work.vn[at.w, Vn.omega, i] * x[i]
        solve_factored(work, at, stiff)
        row_axpy(real(1.0), e, x, 0, at.n)
        row_axpy(real(1.0), work.vm[at.w, Vm.e_y], y, 0, at.m)
