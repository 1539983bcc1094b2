# SPDX-License-Identifier: Apache-2.0
"""Roots of DRNEA(dq) = impulse, one thread per (world, tree): RIQN, exact Newton and Broyden. O(links) per iteration.

    RIQN     dq <- dq - h (M + h D/2)^-1 f(dq), the matrix at q^k (Lee, Liu, Park, Srinivasa, algorithm 3)
    Newton   dq <- dq - (df/ddq)^-1 f(dq); the derivative is S^T (sum over common subtrees of N) S~, with N the
             derivative of a body's momentum with respect to its displacement and S~ the motion subspace at q^(k+1).
             The articulated-body elimination solves with it exactly, without forming it. The paper's algorithm 4
             forms it in O(n^2) and solves in O(n^3).
    Broyden  "good" updates of RIQN's inverse, kept as the list of steps (Kelley, Iterative Methods, 1995, section 7.3)

f is measured in the metric M^-1: f^T M^-1 f is twice the kinetic energy of the velocity M^-1 f. The backward half of
the solve gives it.
"""

import numpy as np
import warp as wp

from ...flags import NOT_CONVERGED
from ...real import func, kernel, mat33, real, struct, vec3, vec6, vec10
from ...tree import joints
from ...tree import se3 as lie
from ...tree.passes import Topology
from ...tree.spatial import angular, join, linear
from . import drnea
from .drnea import Equation, Factor, Frame, Motion, Root

# Round-off level in machine epsilons, relative to the momentum. A residual below it that an iteration has not halved
# will not fall any more. Chains of 10 to 200 links settle at 2 to 4, in float64 and in float32.
ROUND_OFF_EPSILONS = 16.0
STALL_SHRINK = 0.25  # shrink factor of the squared residual
# Steps that Broyden's update remembers before it starts anew.
BROYDEN_MEMORY = 20


@struct
class Elimination:
    """Articulated derivative of the momenta, rows about r, columns about r + dr."""

    aa: wp.array2d(dtype=mat33)  # (worlds, links) blocks by angular (a) and linear (l) parts
    al: wp.array2d(dtype=mat33)
    la: wp.array2d(dtype=mat33)
    ll: wp.array2d(dtype=mat33)
    row: wp.array2d(dtype=vec6)  # (worlds, nv) S^T N / D
    axis: wp.array2d(dtype=vec3)  # (worlds, nv) direction of S~


@struct
class Blocks:
    aa: mat33
    al: mat33
    la: mat33
    ll: mat33


round_off = ROUND_OFF_EPSILONS * float(np.finfo(wp.dtype_to_numpy(real)).eps)


@struct
class Search:
    """DRNEA(dq) = impulse for the trees of a step, with stopping criteria, workspace and results."""

    frame: Frame
    factor: Factor
    equation: Equation
    tolerance: real  # residual over momentum
    max_evaluations: int
    first_step: real  # the guess is dq + first_step (M + h D/2)^-1 work.u
    work: Motion
    root: Root
    residual: wp.array2d(dtype=real)


@func
def start(root: Root, w: int, tree: int):
    root.least[w, tree] = real(wp.inf)
    root.status[w, tree] = NOT_CONVERGED
    root.evaluations[w, tree] = 0


@func
def evaluate(topology: Topology, search: Search, step: real, w: int, tree: int):
    """`drnea.evaluate_tree`."""
    drnea.evaluate_tree(topology, search.frame, search.factor, search.equation, search.work, step, w, tree)


@func
def judge(topology: Topology, search: Search, norm: real, previous: real, w: int, tree: int) -> bool:
    """Count an evaluation with the squared residual `norm`, and remember its dq if it is the best.

    Returns whether the search is over.
    """
    root = search.root
    root.evaluations[w, tree] = root.evaluations[w, tree] + 1
    if norm < root.least[w, tree]:
        root.least[w, tree] = norm
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            root.best[w, d] = search.work.dq[w, d]
    scale = search.equation.scale[w, tree]
    stalled = norm > real(STALL_SHRINK) * previous and root.least[w, tree] <= real(round_off * round_off) * scale
    if norm <= search.tolerance * search.tolerance * scale or stalled:
        root.status[w, tree] = 0
    # x - x is 0 only for finite x
    return (
        root.status[w, tree] == 0
        or not (norm - norm == real(0.0))
        or root.evaluations[w, tree] >= search.max_evaluations
    )


@func
def conclude(topology: Topology, search: Search, norm: real, w: int, tree: int):
    """Return to the best iterate if the last is not the best. Find its residual and error."""
    least = search.root.least[w, tree]
    if not (norm <= least):
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            search.work.dq[w, d] = search.root.best[w, d]
        evaluate(topology, search, real(0.0), w, tree)
    drnea.residual_tree(topology, search.frame, search.equation, search.work, search.residual, w, tree)
    error = real(0.0)
    if least > real(0.0):
        error = wp.sqrt(least / search.equation.scale[w, tree])
    search.root.error[w, tree] = error


@kernel
def riqn(topology: Topology, search: Search):
    """RIQN from the guess in `work`: one forward and one backward sweep per iteration."""
    w, tree = wp.tid()
    start(search.root, w, tree)
    step = search.first_step
    norm = real(wp.inf)
    over = bool(False)
    while not over:
        previous = norm
        evaluate(topology, search, step, w, tree)
        norm = drnea.reduce_tree(topology, search.frame, search.factor, search.work, w, tree)
        step = -search.equation.h
        over = judge(topology, search, norm, previous, w, tree)
    conclude(topology, search, norm, w, tree)


@func
def broyden_step(
    topology: Topology,
    equation: Equation,
    work: Motion,
    steps: wp.array3d(dtype=real),
    square: wp.array3d(dtype=real),
    count: int,
    w: int,
    tree: int,
):
    """dq += s_n = z / (1 - s_(n-1).z / |s_(n-1)|^2), z = prod_j (1 + s_(j+1) s_j^T / |s_j|^2) (-h M^-1 f).

    M^-1 f is in work.u. The step s_n and its square are stored behind the `count` earlier ones.
    """
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for d in range(begin, end):
        work.u[w, d] = -equation.h * work.u[w, d]
    for j in range(count):
        product = real(0.0)
        for d in range(begin, end):
            product += steps[w, j, d] * work.u[w, d]
        product /= square[w, j, tree]
        if j + 1 < count:
            for d in range(begin, end):
                work.u[w, d] = work.u[w, d] + product * steps[w, j + 1, d]
        else:
            for d in range(begin, end):
                work.u[w, d] = work.u[w, d] / (real(1.0) - product)
    length = real(0.0)
    for d in range(begin, end):
        z = work.u[w, d]
        length += z * z
        steps[w, count, d] = z
        work.dq[w, d] = work.dq[w, d] + z
    square[w, count, tree] = length


@kernel
def broyden(topology: Topology, search: Search, steps: wp.array3d(dtype=real), square: wp.array3d(dtype=real)):
    """Broyden's method from the guess in `work`. It starts anew after BROYDEN_MEMORY steps."""
    w, tree = wp.tid()
    start(search.root, w, tree)
    first = search.first_step
    count = int(0)  # steps remembered
    norm = real(wp.inf)
    over = bool(False)
    while not over:
        previous = norm
        evaluate(topology, search, first, w, tree)
        norm = drnea.reduce_tree(topology, search.frame, search.factor, search.work, w, tree)
        first = real(0.0)
        over = judge(topology, search, norm, previous, w, tree)
        if not over:
            if count == BROYDEN_MEMORY:
                count = 0
            drnea.solve_tree(topology, search.frame, search.factor, search.work, w, tree)
            broyden_step(topology, search.equation, search.work, steps, square, count, w, tree)
            count += 1
    conclude(topology, search, norm, w, tree)


@func
def times_skew(M: mat33, a: vec3) -> mat33:
    """M [a]."""
    return -wp.transpose(drnea.cross_columns(a, wp.transpose(M)))


@func
def times_inertia(M: mat33, I: vec10) -> mat33:
    """M I_com."""
    inertia = mat33(I[4], I[7], I[8], I[7], I[5], I[9], I[8], I[9], I[6])
    return M * inertia


@func
def momentum_derivative(I: vec10, A: mat33, dr: vec3, h: real) -> Blocks:
    """N of one body: rows are momenta about r, columns are motions of the displaced body about r + dr.

    About the COM at the start, [dlog]^T G xi / h changes by ([dlog]^T G/h + Q) dlog. Q is the derivative of [dlog_xi]^T
    F with respect to xi, at fixed F = G xi / h. dlog = [[L, 0], [B, L]].
    """
    N = Blocks()
    e = drnea.com(I)
    log = lie.log_rotation(A)
    phi = log.phi
    z = e - dr
    rho = lie.log_translation(log, dr + A * e)
    L = lie.dlog_block(log)
    B = lie.dlog_coupling(log, rho)
    mass = I[0] / h
    Q = lie.dlog_transpose_slope(log, lie.beta_curvature(A), rho, join(drnea.turned(I, phi) / h, mass * rho))
    L_T = wp.transpose(L)
    aa = times_inertia(L_T, I) / h + Q.by_rotation
    al = mass * wp.transpose(B) + Q.by_translation
    N.aa = aa * L + al * B
    N.al = al * L
    N.ll = mass * (L_T * L)
    N.la = Q.by_translation * L + mass * (L_T * B)
    # From the COM at the start to r and r + dr.
    N.aa -= times_skew(N.al, z)
    N.la -= times_skew(N.ll, z)
    N.aa += drnea.cross_columns(e, N.la)
    N.al += drnea.cross_columns(e, N.ll)
    return N


@func
def differentiate_link(
    topology: Topology, frame: Frame, work: Motion, h: real, elimination: Elimination, w: int, l: int
):
    """The rigid N of link l and the columns S~ of its joint."""
    I = frame.inertia[w, l]
    N = Blocks()
    if I[0] > real(0.0):
        N = momentum_derivative(I, work.A[w, l], work.dr[w, l], h)
    elimination.aa[w, l] = N.aa
    elimination.al[w, l] = N.al
    elimination.la[w, l] = N.la
    elimination.ll[w, l] = N.ll
    kind = topology.link_type[l]
    start = topology.link_v[l]
    n = joints.dofs(kind)
    phi = vec3(real(0.0), real(0.0), real(0.0))
    if kind == joints.BALL or kind == joints.FREE:
        for i in range(3):
            d = start + n - 3 + i
            phi += work.dq[w, d] * frame.axis[w, d]
    for i in range(n):
        axis = frame.axis[w, start + i]
        if not drnea.is_linear(kind, i):
            axis = joints.rotation_dexp(phi) * axis
        if kind != joints.FREE or i >= 3:
            axis += work.A[w, l] * axis
        elimination.axis[w, start + i] = axis


@func
def eliminate_tree(
    topology: Topology, frame: Frame, equation: Equation, work: Motion, elimination: Elimination, w: int, tree: int
) -> real:
    """Backward sweep: articulated N, and the reduced work.u. Returns f^T (M..)^-1 f to first order in h."""
    norm = real(0.0)
    row_of = w % equation.armature.shape[0]
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        start_of = topology.link_v[l]
        n = joints.dofs(kind)
        F = work.wrench[w, l]
        aa = elimination.aa[w, l]
        al = elimination.al[w, l]
        la = elimination.la[w, l]
        ll = elimination.ll[w, l]
        for i in range(n):
            d = start_of + n - 1 - i
            slides = drnea.is_linear(kind, n - 1 - i)
            axis = frame.axis[w, d]
            moved = elimination.axis[w, d]
            column = join(aa * moved, la * moved)
            row = join(axis * aa, axis * al)
            if slides:
                column = join(al * moved, ll * moved)
                row = join(axis * la, axis * ll)
            D = drnea.along(slides, axis, column) + equation.armature[row_of, d] / equation.h
            D += real(0.5) * equation.damping[w, d]
            u = work.u[w, d] + drnea.along(slides, axis, F)
            x = u / D
            F -= column * x
            norm += wp.abs(u * x)  # abs, because D may be negative far from the root
            work.u[w, d] = x
            row = row / D
            elimination.row[w, d] = row
            aa -= wp.outer(angular(column), angular(row))
            al -= wp.outer(angular(column), linear(row))
            la -= wp.outer(linear(column), angular(row))
            ll -= wp.outer(linear(column), linear(row))
        parent = topology.link_parent[l]
        if parent >= 0:
            offset = frame.offset[w, l]
            moved_offset = offset + work.dr[w, l] - work.dr[w, parent]
            work.wrench[w, parent] = work.wrench[w, parent] + drnea.moved_wrench(F, offset)
            aa += drnea.cross_columns(offset, la)
            al += drnea.cross_columns(offset, ll)
            # X - Y [d] = X + ([d] Y^T)^T
            aa += wp.transpose(drnea.cross_columns(moved_offset, wp.transpose(al)))
            la += wp.transpose(drnea.cross_columns(moved_offset, wp.transpose(ll)))
            elimination.aa[w, parent] = elimination.aa[w, parent] + aa
            elimination.al[w, parent] = elimination.al[w, parent] + al
            elimination.la[w, parent] = elimination.la[w, parent] + la
            elimination.ll[w, parent] = elimination.ll[w, parent] + ll
    return norm / equation.h


@func
def newton_step(topology: Topology, frame: Frame, work: Motion, elimination: Elimination, w: int, tree: int):
    """Forward sweep: dq <- dq - (df/ddq)^-1 f from the reduced work.u, at the displacement where it was reduced."""
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        kind = topology.link_type[l]
        parent = topology.link_parent[l]
        y = vec6()
        if parent >= 0:
            offset = frame.offset[w, l] + work.dr[w, l] - work.dr[w, parent]
            y = drnea.moved_motion(work.rate[w, parent], offset)
        for i in range(joints.dofs(kind)):
            d = topology.link_v[l] + i
            x = work.u[w, d] - wp.dot(elimination.row[w, d], y)
            y += drnea.motion(drnea.is_linear(kind, i), elimination.axis[w, d], x)
            work.dq[w, d] = work.dq[w, d] - x
        work.rate[w, l] = y


@kernel(part="newton")
def newton(topology: Topology, search: Search, elimination: Elimination):
    """Newton's method with the exact derivative, in O(links)."""
    w, tree = wp.tid()
    start(search.root, w, tree)
    step = search.first_step
    norm = real(wp.inf)
    over = bool(False)
    while not over:
        previous = norm
        evaluate(topology, search, step, w, tree)
        step = real(0.0)
        for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
            differentiate_link(topology, search.frame, search.work, search.equation.h, elimination, w, l)
        norm = eliminate_tree(topology, search.frame, search.equation, search.work, elimination, w, tree)
        over = judge(topology, search, norm, previous, w, tree)
        if not over:
            newton_step(topology, search.frame, search.work, elimination, w, tree)
    conclude(topology, search, norm, w, tree)
