# SPDX-License-Identifier: Apache-2.0
"""The backward pass through rigid contact (Werling et al., §4 and §5; theory §5).

With the classes of the solved LCP (C clamping, U at a bound, f_U = E f_C), a step obeys

    r = A (v − v*) − Bᵀf_C = 0,  B = J_C + EᵀJ_U;      c = J_C v + R f_C − t = 0

and therefore, for the adjoint v̄ of v, p̄ = −wᵀ∂r/∂p − λᵀ∂c/∂p with

    Qᵀλ = B A⁻¹v̄,  w = A⁻¹(v̄ − J_Cᵀλ),  Q = J_C A⁻¹Bᵀ + R.

Redundant contacts make Q singular; f_C and λ then are of least norm. Some impulses n have no effect on the clamping
rows but move other rows (corners that slide different ways): n = (I − Q⁺Q) B A⁻¹v̄ ≠ 0. Where they exist, the rule of
least norm changes the motion. It adds

    sᵀ∂Q n = sᵀ∂J_C a + u·∂Bᵀn − uᵀ∂A a,  s = Q⁺ᵀf_C,  a = A⁻¹Bᵀn,  u = A⁻¹J_Cᵀs,

the adjoints of A a − Bᵀn and J_C a. Scalar rows have R > 0. They enter as γ = clamp(−(Jv − v̂)/R), the law of SAP's
residual: they are in Q but not in c, and their own ∂J and ∂R are left out of sᵀ∂Q n. The solves come first in this
file, then r and c for the tape. Cost 8 |C|³ per world.
"""

import numpy as np
import warp as wp

from ..contact.pair_laws import Scene
from ..laws.contact_law import rebound_of
from ..linalg.dense import Orthogonal, qr_factor, qr_solve
from ..linalg.loops import row_dot as dot
from ..linalg.ltdl import ltdl_solve_block
from ..real import func, kernel, real, struct, vec3
from ..solve.delassus import Dual, entry, row_dot
from ..solve.lcp import classes as lcp_classes
from ..solve.lcp import lcp
from ..solve.lcp.contact_lcp import gap_target, impact_target, pair_restitution, surface_speed, touched_target
from ..solve.problem import Problem
from ..solve.scratch import Scratch, matrix, square, take

SEPARATING, CLAMPING, UPPER = (
    wp.constant(lcp_classes.SEPARATING),
    wp.constant(lcp_classes.CLAMPING),
    wp.constant(lcp_classes.UPPER),
)

# The rank of the scaled Q counts pivots above this fraction of the first one. Sliding contacts make Q nearly singular
# without redundancy.
RANK_LEVEL = {wp.float32: 1e-4, wp.float64: 2e-11}

# Sliding speeds below this many machine epsilons of `System.speed` count as none.
TIED_EPSILONS = 1e2

# Distance [m] up to which a contact counts as an overlap in the derivative. A gap that a step has closed is 0 up to
# rounding. Rounding must not choose, contact by contact, between the slopes of t above and below 0.
TOUCHING = {wp.float32: 1e-6, wp.float64: 1e-10}


@struct
class System:
    """The linear system of the classes, N = 3 max_contacts + scalar rows. For its matrices see `Matrices`."""

    classes: wp.array2d(dtype=int)  # (worlds, N) class S, C, ±U of a row, by its source
    bounces: wp.array2d(dtype=int)  # (worlds, max_contacts) 1: t_n = −e J_n v*, or −e J_n v0 in an impact within a step
    target: wp.array2d(dtype=real)  # (worlds, max_contacts) t_n of steps with impacts; no columns in other steps
    clamped: wp.array2d(dtype=int)  # (worlds, N) listed rows of class C, ascending
    pivots: wp.array2d(dtype=int)
    singular: wp.array(dtype=int)  # (worlds,) 1: Q is singular
    speed: wp.array(dtype=real)  # (worlds,) largest |J v*|/√W_ii of a listed row
    tau: wp.array2d(dtype=real)  # of the factor, see `dense.Orthogonal`
    diagonal: wp.array2d(dtype=real)
    tau_Z: wp.array2d(dtype=real)
    diagonal_Z: wp.array2d(dtype=real)
    scale: wp.array2d(dtype=real)  # 1/√diag, of clamped rows and unknowns
    r: wp.array2d(dtype=real)
    y: wp.array2d(dtype=real)
    f: wp.array2d(dtype=real)  # impulses of the clamped rows
    f_bar: wp.array2d(dtype=real)  # B A⁻¹v̄
    full: wp.array2d(dtype=real)  # by listed rows
    z: wp.array2d(dtype=real)  # (worlds, nv) A⁻¹v̄


@struct
class Matrices:
    """Matrices (n, n) of one world with n listed rows, in `Scratch`."""

    W: wp.array2d(dtype=real)
    K: wp.array2d(dtype=real)  # factor of Q or Qᵀ
    Z: wp.array2d(dtype=real)


@struct
class Null:
    """What the rule of least norm adds to a gradient: seeds and arguments of the residual. 0 where Q is regular."""

    f: wp.array2d(dtype=vec3)  # (worlds, max_contacts) n, replaces f
    v: wp.array2d(dtype=real)  # (worlds, nv) A⁻¹Bᵀn, replaces v
    error_bar: wp.array2d(dtype=vec3)  # s
    seed: wp.array2d(dtype=real)  # −A⁻¹J_Cᵀs


@struct
class Law:
    """The law of the normal rows, w = J v − t ≥ 0, see `contact_lcp.py`."""

    phi: wp.array2d(dtype=real)  # (worlds, max_contacts)
    pair: wp.array2d(dtype=int)  # of geoms
    touch: wp.array2d(dtype=int)  # of impacts within a step, see `Contacts`
    bend: wp.array2d(dtype=real)
    restitution: wp.array2d(dtype=real)  # of the geoms
    h: real
    error_reduction: real
    threshold: real
    surface: wp.array2d(dtype=vec3)  # velocities of the surfaces; no columns where none moves


epsilon = float(np.finfo(wp.dtype_to_numpy(real)).eps)
rank_level = RANK_LEVEL[real]
zero_level = (epsilon * lcp.ZERO_EPSILONS) ** 2
tied = epsilon * TIED_EPSILONS


@func
def plain_target(scene: Scene, law: Law, w: int, c: int) -> real:
    """t of a normal row that does not bounce."""
    return gap_target(law.phi[w, c], law.h, law.error_reduction, scene.recovery, real(0.0))


@func
def normal_target(problem: Problem, scene: Scene, law: Law, dual: Dual, system: System, w: int, r: int, c: int) -> real:
    """t of the normal row r of contact c, after `find_bounces`."""
    target = plain_target(scene, law, w, c)
    if system.target.shape[1] > 0:
        target = system.target[w, c]
    elif system.bounces[w, c] != 0:
        target = -pair_restitution(scene, law.restitution, w, law.pair[w, c]) * dual.u_star[w, r]
    return target


@kernel
def find_bounces(problem: Problem, scene: Scene, law: Law, dual: Dual, v_start: wp.array2d(dtype=real), system: System):
    """Find the contacts that have the target of an impact. Launch over (worlds, N)."""
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    source = dual.source[w, r]
    c = source // 3
    if c < problem.contact_pair.shape[1] and source % 3 == 2:
        bounces = int(0)
        e = pair_restitution(scene, law.restitution, w, law.pair[w, c])
        v_n = row_dot(problem, w, source, v_start[w])
        if system.target.shape[1] > 0:
            target = touched_target(law.touch[w, c], plain_target(scene, law, w, c), e, v_n, law.threshold)
            if target == rebound_of(e, v_n, law.threshold) and target > real(0.0):
                bounces = 1
            system.target[w, c] = target - law.bend[w, c]
        elif impact_target(e, v_n, dual.u_star[w, r], law.threshold) >= plain_target(scene, law, w, c):
            bounces = 1
        system.bounces[w, c] = bounces


@kernel
def classify(
    problem: Problem,
    scene: Scene,
    law: Law,
    dual: Dual,
    x: wp.array2d(dtype=real),
    system: System,
):
    """Classes of the listed rows at the solution, from the sign of x_i − w_i/W_ii.

    The solution is v (`problem.v0`) and x (worlds, 3 max_contacts). Launch over (worlds, N), after `find_bounces` and
    `find_speed`.
    """
    w, r = wp.tid()
    if r >= dual.count[w]:
        return
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    kind = int(SEPARATING)
    if source < 3 * slots:
        c = source // 3
        axis = source - 3 * c
        n = r + 2 - axis
        w_n = row_dot(problem, w, dual.source[w, n], problem.v0[w])
        w_n -= normal_target(problem, scene, law, dual, system, w, n, c)
        x_n = x[w, 3 * c + 2]
        # x_n = 0 is exact where the solution separates. Where such a contact still touches (the fourth corner of a box,
        # held at w = 0 by the others), the rounding of w_n must not make it clamp.
        if x_n > real(0.0) and entry(problem, dual, w, n, n) * x_n > w_n:
            kind = CLAMPING
        if axis != 2 and kind == CLAMPING:
            W_rr = entry(problem, dual, w, r, r)
            trial = W_rr * x[w, source] - row_dot(problem, w, source, problem.v0[w])
            trial -= surface_speed(law.surface, w, c, axis)
            # A row at its bound and at rest sticks: impulses without effect have brought it to the bound.
            bound = W_rr * problem.mu[w, c] * x_n + real(tied) * system.speed[w] * wp.sqrt(W_rr)
            if trial > bound or problem.mu[w, c] == real(0.0):
                kind = UPPER
            elif trial < -bound:
                kind = -UPPER
    else:
        k = source - 3 * slots
        y = (problem.row_v_hat[w, k] - row_dot(problem, w, source, problem.v0[w])) / problem.row_R[w, k]
        kind = CLAMPING
        if y >= problem.row_upper[w, k]:
            kind = UPPER
        elif y <= problem.row_lower[w, k]:
            kind = -UPPER
    system.classes[w, source] = kind


@kernel
def escape(problem: Problem, dual: Dual, chosen: wp.array(dtype=int), system: System):
    """Change the classes of normal rows in the chosen worlds.

    Rows whose impulse the loss wants smaller, ∂ℓ/∂f = J A⁻¹v̄ < 0, separate. Rows with ∂ℓ/∂f > 0 clamp. A contact that
    changes has no friction. Launch over (worlds, N), after `solve_smooth` has filled z.
    """
    w, r = wp.tid()
    if r >= dual.count[w] or chosen[w] == 0:
        return
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    c = source // 3
    if source < 3 * slots and source - 3 * c == 2:
        slope = row_dot(problem, w, source, system.z[w])
        kind = system.classes[w, source]
        wanted = int(kind)
        if slope < real(0.0):
            wanted = SEPARATING
        if slope > real(0.0):
            wanted = CLAMPING
        if wanted != kind:
            system.classes[w, source] = wanted
            system.classes[w, source - 1] = SEPARATING
            system.classes[w, source - 2] = SEPARATING


@kernel
def reserve(dual: Dual, scratch: Scratch):
    """Reserve memory for the matrices. Launch over worlds."""
    w = wp.tid()
    take(scratch, w, wp.int64(3) * square(dual.count[w]))


@kernel
def find_speed(problem: Problem, dual: Dual, system: System):
    """Find `speed`. Launch over worlds."""
    w = wp.tid()
    fastest = real(0.0)
    for r in range(dual.count[w]):
        W_rr = entry(problem, dual, w, r, r)
        if W_rr > real(0.0):
            fastest = wp.max(fastest, wp.abs(dual.u_star[w, r]) / wp.sqrt(W_rr))
    system.speed[w] = fastest


@func
def matrices(dual: Dual, scratch: Scratch, w: int) -> Matrices:
    """The matrices of one world."""
    n = dual.count[w]
    o = Matrices()
    o.W = matrix(scratch, w, wp.int64(0), n, n)
    o.K = matrix(scratch, w, square(n), n, n)
    o.Z = matrix(scratch, w, wp.int64(2) * square(n), n, n)
    return o


@func
def orthogonal(system: System, of: Matrices, w: int) -> Orthogonal:
    """The arrays of one world for `qr_factor`."""
    o = Orthogonal()
    o.Z = of.Z
    o.tau = system.tau[w]
    o.diagonal = system.diagonal[w]
    o.tau_Z = system.tau_Z[w]
    o.diagonal_Z = system.diagonal_Z[w]
    o.column = system.pivots[w]
    o.weight = system.scale[w]
    return o


@func
def set_scale(problem: Problem, system: System, dual: Dual, w: int, m: int):
    """Set `scale` from the diagonal of W. Rows that move nothing take the largest entry."""
    largest = real(0.0)
    for a in range(m):
        r = system.clamped[w, a]
        largest = wp.max(largest, entry(problem, dual, w, r, r))
    if not (largest > real(0.0)):
        largest = real(1.0)
    for a in range(m):
        r = system.clamped[w, a]
        W_rr = entry(problem, dual, w, r, r)
        system.scale[w, a] = real(1.0) / wp.sqrt(wp.where(W_rr > real(zero_level) * largest, W_rr, largest))


@func
def side(problem: Problem, system: System, dual: Dual, w: int, r: int) -> real:
    """E of a listed row: ±μ of a tangent at its bound, 0 for every other row."""
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    E = real(0.0)
    if source < 3 * slots and source % 3 != 2:
        kind = system.classes[w, source]
        if kind == UPPER:
            E = problem.mu[w, source // 3]
        elif kind == -UPPER:
            E = -problem.mu[w, source // 3]
    return E


@func
def first_tangent(problem: Problem, dual: Dual, w: int, r: int) -> int:
    """The first listed row of the contact whose normal row is r.

    This is r itself, where the contact has no tangents or r is not a normal row.
    """
    slots = problem.contact_pair.shape[1]
    source = dual.source[w, r]
    first = int(r)
    if source < 3 * slots and source % 3 == 2:
        while first > 0 and dual.source[w, first - 1] // 3 == source // 3:
            first -= 1
    return first


@func(inline=False)
def factor_Q(problem: Problem, dual: Dual, system: System, o: Matrices, w: int, transposed: int) -> wp.vec2i:
    """Factor the scaled Q, or Qᵀ. Returns (|C|, rank)."""
    slots = problem.contact_pair.shape[1]
    m = int(0)
    for r in range(dual.count[w]):
        if system.classes[w, dual.source[w, r]] == CLAMPING:
            system.clamped[w, m] = r
            m += 1
    set_scale(problem, system, dual, w, m)
    for b in range(m):
        j = system.clamped[w, b]
        first = first_tangent(problem, dual, w, j)
        for a in range(m):
            i = system.clamped[w, a]
            Q_ij = o.W[i, j]
            for k in range(first, j):
                Q_ij += side(problem, system, dual, w, k) * o.W[i, k]
            if a == b and dual.source[w, i] >= 3 * slots:
                Q_ij += problem.row_R[w, dual.source[w, i] - 3 * slots]
            Q_ij = Q_ij * system.scale[w, a] * system.scale[w, b]
            if transposed == 0:
                o.K[b, a] = Q_ij
            else:
                o.K[a, b] = Q_ij
    return wp.vec2i(m, qr_factor(o.K, m, real(rank_level), orthogonal(system, o, w)))


@func
def solve_scaled(system: System, o: Matrices, w: int, sizes: wp.vec2i):
    """y ← the least-norm solution for the right-hand side r, over the clamped rows. `sizes`: their number and rank."""
    for a in range(sizes[0]):
        system.r[w, a] = system.r[w, a] * system.scale[w, a]
    qr_solve(o.K, sizes[0], sizes[1], orthogonal(system, o, w), system.r[w], system.y[w])
    for a in range(sizes[0]):
        system.y[w, a] = system.y[w, a] * system.scale[w, a]


@func
def solve_A(problem: Problem, A_factor: wp.array2d(dtype=real), x: wp.array1d(dtype=real)):
    """x ← A⁻¹x."""
    for tree in range(problem.tree_v.shape[0] - 1):
        ltdl_solve_block(A_factor, problem.tree_v[tree], problem.tree_v[tree + 1], x)


@kernel
def impulses(
    scratch: Scratch,
    turn: int,
    problem: Problem,
    scene: Scene,
    law: Law,
    dual: Dual,
    chosen: wp.array(dtype=int),
    system: System,
    gamma: wp.array2d(dtype=vec3),
):
    """Impulses of the contacts in worlds where the classes were chosen: f_C = Q⁺(t − J v*). Launch over worlds."""
    w = wp.tid()
    if chosen[w] == 0 or scratch.turn[w] != turn:
        return
    o = matrices(dual, scratch, w)
    slots = problem.contact_pair.shape[1]
    for c in range(slots):
        gamma[w, c] = vec3(real(0.0), real(0.0), real(0.0))
    found = factor_Q(problem, dual, system, o, w, 0)
    for a in range(found[0]):
        r = system.clamped[w, a]
        source = dual.source[w, r]
        target = real(0.0)
        if source >= 3 * slots:
            target = problem.row_v_hat[w, source - 3 * slots]
        elif source % 3 == 2:
            target = normal_target(problem, scene, law, dual, system, w, r, source // 3)
        else:
            target -= surface_speed(law.surface, w, source // 3, source % 3)
        target -= dual.u_star[w, r]
        for s in range(dual.count[w]):
            k = dual.source[w, s] - 3 * slots
            if k >= 0:
                kind = system.classes[w, dual.source[w, s]]
                if kind == UPPER:
                    target -= o.W[r, s] * problem.row_upper[w, k]
                elif kind == -UPPER:
                    target -= o.W[r, s] * problem.row_lower[w, k]
        system.r[w, a] = target
    solve_scaled(system, o, w, found)
    for a in range(found[0]):
        r = system.clamped[w, a]
        source = dual.source[w, r]
        if source < 3 * slots:
            c = source // 3
            g = gamma[w, c]
            g[source % 3] = system.y[w, a]
            for k in range(first_tangent(problem, dual, w, r), r):
                E = side(problem, system, dual, w, k)
                if E != real(0.0):
                    g[dual.source[w, k] % 3] = E * system.y[w, a]
            gamma[w, c] = g


@kernel
def solve_smooth(
    problem: Problem, A_factor: wp.array3d(dtype=real), x: wp.array2d(dtype=real), sign: real, y: wp.array2d(dtype=real)
):
    """y = sign A⁻¹x. Launch over worlds."""
    w = wp.tid()
    for d in range(y.shape[1]):
        y[w, d] = sign * x[w, d]
    solve_A(problem, A_factor[w], y[w])


@func
def expand(problem: Problem, dual: Dual, system: System, w: int, m: int, x: wp.array1d(dtype=real)):
    """`full` ← x on clamped rows, E x_n on tangents at their bound, 0 on others."""
    slots = problem.contact_pair.shape[1]
    for r in range(dual.count[w]):
        system.full[w, r] = real(0.0)
    for a in range(m):
        system.full[w, system.clamped[w, a]] = x[a]
    for r in range(dual.count[w]):
        source = dual.source[w, r]
        if source < 3 * slots:
            E = side(problem, system, dual, w, r)
            if E != real(0.0):
                system.full[w, r] = E * system.full[w, r + 2 - source % 3]


@func
def project(
    problem: Problem, dual: Dual, system: System, o: Matrices, w: int, sizes: wp.vec2i, x: wp.array1d(dtype=real)
):
    """y ← Q⁺Q x, with the factor of Q."""
    slots = problem.contact_pair.shape[1]
    expand(problem, dual, system, w, sizes[0], x)
    for a in range(sizes[0]):
        r = system.clamped[w, a]
        value = dot(o.W[r], system.full[w], 0, dual.count[w])
        if dual.source[w, r] >= 3 * slots:
            value += problem.row_R[w, dual.source[w, r] - 3 * slots] * x[a]
        system.r[w, a] = value
    solve_scaled(system, o, w, sizes)


@func
def set_contact(x: wp.array2d(dtype=vec3), w: int, source: int, value: real):
    """Write the entry of one row."""
    g = x[w, source // 3]
    g[source % 3] = value
    x[w, source // 3] = g


@func(inline=False)
def split(
    problem: Problem,
    dual: Dual,
    system: System,
    o: Matrices,
    null: Null,
    f: wp.array2d(dtype=vec3),
    w: int,
    sizes: wp.vec2i,
):
    """f̄ ← Q⁺Q f̄, f ← Q⁺Q f. Write n = (I − Q⁺Q) f̄ and A⁻¹Bᵀn into `null`."""
    slots = problem.contact_pair.shape[1]
    project(problem, dual, system, o, w, sizes, system.f_bar[w])
    for a in range(sizes[0]):
        n = system.f_bar[w, a] - system.y[w, a]
        system.f_bar[w, a] = system.y[w, a]
        system.f[w, a] = n
        source = dual.source[w, system.clamped[w, a]]
        if source < 3 * slots:
            set_contact(null.f, w, source, n)
    expand(problem, dual, system, w, sizes[0], system.f[w])
    for r in range(dual.count[w]):
        if system.full[w, r] != real(0.0):
            for d in range(null.v.shape[1]):
                null.v[w, d] = null.v[w, d] + system.full[w, r] * dual.Y[w, r, d]
    for a in range(sizes[0]):
        r = system.clamped[w, a]
        source = dual.source[w, r]
        if source < 3 * slots:
            system.f[w, a] = f[w, source // 3][source % 3]
        else:
            k = source - 3 * slots
            rate = row_dot(problem, w, source, problem.v0[w])
            system.f[w, a] = (problem.row_v_hat[w, k] - rate) / problem.row_R[w, k]
    project(problem, dual, system, o, w, sizes, system.f[w])
    for a in range(sizes[0]):
        system.f[w, a] = system.y[w, a]


@kernel
def solve_adjoint(
    scratch: Scratch,
    turn: int,
    problem: Problem,
    dual: Dual,
    f: wp.array2d(dtype=vec3),
    system: System,
    # out
    seed: wp.array2d(dtype=real),
    error_bar: wp.array2d(dtype=vec3),
    null: Null,
):
    """−w and, per contact, −λ, from z = A⁻¹v̄; then the terms of the rule of least norm. Launch over worlds."""
    w = wp.tid()
    if scratch.turn[w] != turn:
        return
    o = matrices(dual, scratch, w)
    slots = problem.contact_pair.shape[1]
    for c in range(slots):
        error_bar[w, c] = vec3(real(0.0), real(0.0), real(0.0))
        null.error_bar[w, c] = vec3(real(0.0), real(0.0), real(0.0))
        null.f[w, c] = vec3(real(0.0), real(0.0), real(0.0))
    for d in range(seed.shape[1]):
        seed[w, d] = -system.z[w, d]
        null.seed[w, d] = real(0.0)
        null.v[w, d] = real(0.0)
    found = factor_Q(problem, dual, system, o, w, 0)
    for a in range(found[0]):
        r = system.clamped[w, a]
        value = row_dot(problem, w, dual.source[w, r], system.z[w])
        for k in range(first_tangent(problem, dual, w, r), r):
            E = side(problem, system, dual, w, k)
            if E != real(0.0):
                value += E * row_dot(problem, w, dual.source[w, k], system.z[w])
        system.f_bar[w, a] = value
    singular = found[1] < found[0]
    system.singular[w] = int(singular)
    if singular:
        split(problem, dual, system, o, null, f, w, found)
    found = factor_Q(problem, dual, system, o, w, 1)
    for a in range(found[0]):
        system.r[w, a] = system.f_bar[w, a]
    solve_scaled(system, o, w, found)
    for a in range(found[0]):
        r = system.clamped[w, a]
        multiplier = system.y[w, a]
        for d in range(seed.shape[1]):
            seed[w, d] = seed[w, d] + multiplier * dual.Y[w, r, d]
        if dual.source[w, r] < 3 * slots:
            set_contact(error_bar, w, dual.source[w, r], -multiplier)
    if singular:
        for a in range(found[0]):
            system.r[w, a] = system.f[w, a]
        solve_scaled(system, o, w, found)
        for a in range(found[0]):
            r = system.clamped[w, a]
            for d in range(seed.shape[1]):
                null.seed[w, d] = null.seed[w, d] - system.y[w, a] * dual.Y[w, r, d]
            if dual.source[w, r] < 3 * slots:
                set_contact(null.error_bar, w, dual.source[w, r], system.y[w, a])


@kernel
def squared_norm(v_bar: wp.array2d(dtype=real), tau_bar: wp.array2d(dtype=real), norm: wp.array(dtype=real)):
    """‖∂ℓ/∂v‖² + ‖∂ℓ/∂τ‖². Launch over worlds."""
    w = wp.tid()
    total = real(0.0)
    for d in range(v_bar.shape[1]):
        total += v_bar[w, d] * v_bar[w, d] + tau_bar[w, d] * tau_bar[w, d]
    norm[w] = total


@kernel
def choose(derivative: wp.array(dtype=real), other: wp.array(dtype=real), chosen: wp.array(dtype=int)):
    """chosen ← 1 where the other gradient is larger. Launch over worlds."""
    w = wp.tid()
    chosen[w] = wp.where(other[w] > derivative[w], 1, 0)
