# SPDX-License-Identifier: Apache-2.0
"""The linear system of Coulomb's law, (A + JᵀGJ) x = b with G = S + p eᵀ per contact, and its transpose (theory §3.6).

Direct: UᵀDL in the envelope of the symmetric part, or LᵀDL of `newton.py` where no contact of the island slides.
Iterative: BiCGSTAB, preconditioned by the tree blocks of the symmetric part.

All lanes call these functions together (`linalg/lanes.py`).
"""

import warp as wp

from ...linalg.lanes import lane, lanes, pace, sync, team_sum
from ...linalg.ldu import team_ldu_factor_envelope, team_ldu_solve_envelope, team_ldu_solve_transposed
from ...linalg.ltdl import team_ltdl_factor_envelope
from ...linalg.team_loops import team_copy_triangle
from ...real import BY_CG, func, mat33, real, struct, vec3
from ..problem import Problem
from .contact_laws import add_rank_one, add_rank_one_product, slips
from .islands import Islands
from .newton import (
    Range,
    assemble,
    from_slots,
    is_whole,
    multiply,
    precondition,
    prepare_preconditioner,
    solve_prepared,
    to_slots,
)
from .sap import Workspace

# Largest number of BiCGSTAB iterations: per dof, plus a constant.
KRYLOV_TRIALS_PER_DOF = 4
KRYLOV_TRIALS = 20
# BiCGSTAB stops when this many iterations have not reduced the squared residual by KRYLOV_SHRINK. It restarts when the
# squared cosine between residual and shadow residual is below KRYLOV_APART or the square has grown by KRYLOV_GROWTH.
KRYLOV_PATIENCE = wp.constant(200)
KRYLOV_SHRINK = 0.25
KRYLOV_APART = 1e-12
KRYLOV_GROWTH = 1e4


@struct
class Lag:
    """Arrays of the solver besides SAP's workspace, per world."""

    G: wp.array2d(dtype=mat33)  # (worlds, C) with `keep_factor`: S + p eᵀ at the solution
    p: wp.array2d(dtype=vec3)  # (worlds, C) p of the unsymmetric part p eᵀ of G
    delta: wp.array2d(dtype=vec3)  # (worlds, C)
    row_delta: wp.array2d(dtype=real)  # (worlds, K)
    missed: wp.array2d(dtype=real)  # (worlds, nv) Jᵀmiss
    dv: wp.array2d(dtype=real)  # (worlds, nv) the previous step
    krylov: wp.array3d(dtype=real)  # (worlds, 6, nv) vectors of BiCGSTAB; empty with a factor
    v: wp.array2d(dtype=real)  # (worlds, nv) of the convex surrogate, and the two below
    R: wp.array2d(dtype=vec3)  # (worlds, C)
    v_hat: wp.array2d(dtype=vec3)  # (worlds, C)
    # (worlds, C) [m/s] of the surrogate of large islands; this and the next two are empty where no island can be large
    slip: wp.array2d(dtype=real)
    slip_change: wp.array2d(dtype=real)  # (worlds, C) by the previous pass
    relaxation: wp.array2d(dtype=real)  # (worlds, trees)
    kept_v: wp.array2d(dtype=real)  # (worlds, nv) best point of earlier initial states, and the two below
    gamma: wp.array2d(dtype=vec3)  # (worlds, C)
    row_gamma: wp.array2d(dtype=real)  # (worlds, K)
    slope: wp.array2d(dtype=real)  # (worlds, trees) number of contacts that slide at the solution; NaN: singular
    island_error: wp.array2d(dtype=real)  # (worlds, trees) [m/s]
    error: wp.array(dtype=real)  # (worlds,) [m/s] the certificate


@func
def island_dot(islands: Islands, w: int, r: Range, x: wp.array1d(dtype=real), y: wp.array1d(dtype=real)) -> real:
    """xᵀy on the dofs of an island."""
    total = real(0.0)
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = islands.dof[w, at]
        total += x[i] * y[i]
    return team_sum(total)


@func
def island_sum(
    islands: Islands, w: int, r: Range, a: real, x: wp.array1d(dtype=real), b: real,
    y: wp.array1d(dtype=real), out: wp.array1d(dtype=real),
):  # fmt: skip
    """out ← a x + b y on the dofs of an island."""
    for at in range(r.slot_begin + lane(), r.slot_end, lanes()):
        i = islands.dof[w, at]
        out[i] = a * x[i] + b * y[i]
    sync()


@func
def add_coupling(problem: Problem, work: Workspace, lag: Lag, w: int, r: Range):
    """Copy the symmetric part of A + JᵀGJ to both triangles of H and add p eᵀ, within the envelope."""
    H = work.newton.H[w]
    team_copy_triangle(H, r.slot_begin, r.slot_end, work.newton.first[w], is_whole(r))
    for at in range(r.contact_begin, r.contact_end):
        c = work.islands.contact[w, at]
        p = lag.p[w, c]
        if slips(p):
            add_rank_one(problem, p, w, c, work.islands.slot[w], H, r.slot_begin, r.slot_end)


@func
def multiply_coupled(problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, transposed: int):
    """newton.product ← (A + JᵀGJ) newton.direction, or its transpose."""
    multiply(problem, work.newton, work.islands, w, r)
    for at in range(r.contact_begin, r.contact_end):
        c = work.islands.contact[w, at]
        p = lag.p[w, c]
        if slips(p):
            add_rank_one_product(problem, p, work.newton.direction[w], w, c, transposed, work.newton.product[w])


@func
def preconditioned_image(
    problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, transposed: int, x: wp.array1d(dtype=real)
):
    """newton.direction ← P⁻¹ x, and newton.product ← (A + JᵀGJ) of that."""
    one = real(1.0)
    zero = real(0.0)
    newton = work.newton
    island_sum(work.islands, w, r, one, x, zero, x, newton.residual[w])
    precondition(problem, newton, work.islands, w, r)
    island_sum(work.islands, w, r, one, newton.z[w], zero, x, newton.direction[w])
    multiply_coupled(problem, work, lag, w, r, transposed)


@func
def stabilised_gradients(
    problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, transposed: int, forcing: real,
    b: wp.array1d(dtype=real),
) -> real:  # fmt: skip
    """b ← (A + JᵀGJ)⁻¹ b or its transpose, to `forcing` (BiCGSTAB; van der Vorst 1992); return ‖residual‖/‖b‖.

    It restarts from the best x so far where its vectors have become orthogonal or the residual has grown. It stops
    where several steps have not reduced the residual: rounding, or a matrix that it cannot solve.
    """
    one = real(1.0)
    zero = real(0.0)
    islands = work.islands
    direction = work.newton.direction[w]
    product = work.newton.product[w]
    rest = lag.krylov[w, 0]
    shadow = lag.krylov[w, 1]
    p = lag.krylov[w, 2]
    image = lag.krylov[w, 3]
    x = lag.krylov[w, 4]
    best = lag.krylov[w, 5]
    island_sum(islands, w, r, one, b, zero, b, rest)
    island_sum(islands, w, r, zero, b, zero, b, x)
    island_sum(islands, w, r, zero, b, zero, b, best)
    first = island_dot(islands, w, r, b, b)
    least = first
    now = first
    rho = one
    alpha = one
    omega = one
    fresh = bool(True)
    stalled = wp.int32(0)
    trials = wp.int32(KRYLOV_TRIALS) + KRYLOV_TRIALS_PER_DOF * (r.slot_end - r.slot_begin)
    while trials > 0 and least > forcing * forcing * first and stalled < KRYLOV_PATIENCE:
        trials -= 1
        if fresh:
            island_sum(islands, w, r, one, best, zero, b, x)
            island_sum(islands, w, r, one, x, zero, b, direction)
            multiply_coupled(problem, work, lag, w, r, transposed)
            island_sum(islands, w, r, one, b, -one, product, rest)
            island_sum(islands, w, r, one, rest, zero, b, shadow)
            island_sum(islands, w, r, one, rest, zero, b, p)
            now = island_dot(islands, w, r, rest, rest)
            rho = now
        else:
            before = rho
            rho = island_dot(islands, w, r, shadow, rest)
            beta = rho / before * alpha / omega
            island_sum(islands, w, r, one, p, -omega, image, p)
            island_sum(islands, w, r, one, rest, beta, p, p)
        preconditioned_image(problem, work, lag, w, r, transposed, p)
        island_sum(islands, w, r, one, product, zero, product, image)
        alpha = rho / island_dot(islands, w, r, shadow, image)
        island_sum(islands, w, r, one, x, alpha, direction, x)
        island_sum(islands, w, r, one, rest, -alpha, image, rest)
        preconditioned_image(problem, work, lag, w, r, transposed, rest)
        square = island_dot(islands, w, r, product, product)
        omega = zero
        if square > zero:
            omega = island_dot(islands, w, r, product, rest) / square
        island_sum(islands, w, r, one, x, omega, direction, x)
        island_sum(islands, w, r, one, rest, -omega, product, rest)
        now = island_dot(islands, w, r, rest, rest)
        stalled += 1
        if now < least:
            if now < real(KRYLOV_SHRINK) * least:
                stalled = wp.int32(0)
            least = now
            island_sum(islands, w, r, one, x, zero, b, best)
        along = island_dot(islands, w, r, shadow, rest)
        apart = along * along < real(KRYLOV_APART) * now * island_dot(islands, w, r, shadow, shadow)
        fresh = apart or omega == zero or not (now < real(KRYLOV_GROWTH) * least)
    island_sum(islands, w, r, one, best, zero, b, b)
    return wp.where(first > zero, wp.sqrt(least / first), zero)


@func
def prepare_coupled(problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, slides: int) -> int:
    """Factor A + JᵀGJ, or precondition its symmetric part; return 0 on success."""
    failed = wp.int32(0)
    if BY_CG:
        failed = prepare_preconditioner(problem, work.newton, work.islands, w, r)
    else:
        H = work.newton.H[w]
        first = work.newton.first[w]
        assemble(problem, work.newton, work.islands, w, r)
        pace()
        if slides == 0:
            failed = team_ltdl_factor_envelope(H, r.slot_begin, r.slot_end, first)
        else:
            add_coupling(problem, work, lag, w, r)
            failed = team_ldu_factor_envelope(H, r.slot_begin, r.slot_end, first)
    return failed


@func
def solve_coupled(
    problem: Problem, work: Workspace, lag: Lag, w: int, r: Range, slides: int, transposed: int, forcing: real,
    b: wp.array1d(dtype=real),
) -> real:  # fmt: skip
    """b ← (A + JᵀGJ)⁻¹ b, or its transpose, after `prepare_coupled`; returns ‖residual‖/‖b‖, 0 with a factor."""
    rest = real(0.0)
    if slides == 0:
        solve_prepared(problem, work.newton, work.islands, w, r, forcing, b)
    elif BY_CG:
        rest = stabilised_gradients(problem, work, lag, w, r, transposed, forcing, b)
    else:
        x = work.newton.x[w]
        H = work.newton.H[w]
        first = work.newton.first[w]
        to_slots(work.islands, w, r, b, x)
        if transposed == 1:
            team_ldu_solve_transposed(H, r.slot_begin, r.slot_end, first, x)
        else:
            team_ldu_solve_envelope(H, r.slot_begin, r.slot_end, first, x)
        from_slots(work.islands, w, r, x, b)
    return rest
