# SPDX-License-Identifier: Apache-2.0
"""DRNEA, the discrete inverse dynamics of a tree of links, and the articulated-body solves that go with it. O(links).

Lee, Liu, Park, Srinivasa, *A Linear-Time Variational Integrator for Multibody Systems*, algorithm 2. Everything is in
world axes at q^k. Each link is described about its own joint point r_l, which lies in the link and in its parent. The
displacement of a link from q^k to q^(k+1), T^(k+1) (T^k)^-1: x -> r_l + dr_l + (I + A_l)(x - r_l), follows down the
tree p -> l

    A_l = A_p + B + A_p B,   B = exp[a dq] - I,   dr_l = dr_p + A_p (r_l - r_p)

from dq = q^(k+1) - q^k, without T^(k+1) and without the difference of two poses. With xi the logarithm of the
displacement of the COM frame, G the inertia in world axes, V the velocity at q^k and mu = [dlog_xi]^T G xi / h,

    DRNEA(dq) = S^T sum_subtree (mu - G V - h/2 weight) + armature (dq/h - v) + D dq/2 - h/2 F(q^k)

vanishes at the solution of the step. The end of the step has the same momentum mu: in world axes it is a wrench that
does not change on the way. F contains all forces except gravity and the linear damping D.

Momenta are subtracted link by link, before any sum. Their rounding is then no more than a rounding of the links'
velocities, however long the chain is. If they were summed first, as p = M v, the condition of M would amplify it (1e4
for ten links).
"""

import warp as wp

from ...real import func, mat33, real, struct, vec3, vec6, vec10
from ...tree import joints
from ...tree import se3 as lie
from ...tree.passes import Topology
from ...tree.spatial import angular, join, linear


@struct
class Frame:
    """One configuration, in world axes, each link about its joint point r."""

    offset: wp.array2d(dtype=vec3)  # (worlds, links) r - r_parent
    inertia: wp.array2d(dtype=vec10)  # (worlds, links) m, COM from r, inertia about the COM: xx yy zz xy xz yz
    axis: wp.array2d(dtype=vec3)  # (worlds, nv) direction of the motion subspace S


@struct
class Factor:
    """M + h D/2, factored by the articulated-body algorithm (Featherstone 2008, table 7.1)."""

    J: wp.array2d(dtype=mat33)  # (worlds, links) blocks [[J, H], [H^T, M]] about r: rigid, then articulated
    H: wp.array2d(dtype=mat33)
    M: wp.array2d(dtype=mat33)
    K: wp.array2d(dtype=vec6)  # (worlds, nv) I^A S / D
    D: wp.array2d(dtype=real)  # (worlds, nv) S^T I^A S


@struct
class Motion:
    """The displacement of an iterate, and the workspace of the sweeps."""

    dq: wp.array2d(dtype=real)  # (worlds, nv) q^(k+1) = q^k (+) dq
    A: wp.array2d(dtype=mat33)  # (worlds, links) R^(k+1) R^kT - I
    dr: wp.array2d(dtype=vec3)  # (worlds, links) displacement of r
    mu: wp.array2d(dtype=vec6)  # (worlds, links) momentum (angular about r; linear) in the interval
    wrench: wp.array2d(dtype=vec6)  # (worlds, links) accumulated by a backward sweep
    rate: wp.array2d(dtype=vec6)  # (worlds, links) accumulated by a forward sweep
    u: wp.array2d(dtype=real)  # (worlds, nv) right-hand side of a solve, reduced by the backward sweep


@struct
class Equation:
    """DRNEA(dq) = impulse, one equation per tree."""

    h: real
    armature: wp.array2d(dtype=real)  # (1 or worlds, nv)
    damping: wp.array2d(dtype=real)  # (worlds, nv) D
    v: wp.array2d(dtype=real)  # (worlds, nv) velocity at q^k
    force: wp.array2d(dtype=real)  # (worlds, nv) F(q^k)
    impulse: wp.array2d(dtype=real)  # (worlds, nv) J^T gamma
    momentum: wp.array2d(dtype=vec6)  # (worlds, links) G V + h/2 weight about r
    scale: wp.array2d(dtype=real)  # (worlds, trees) twice the kinetic energy of what the momenta stand for [J]


@struct
class Root:
    """How a root search ended, per tree."""

    evaluations: wp.array2d(dtype=int)  # (worlds, trees) residual evaluations
    error: wp.array2d(dtype=real)  # (worlds, trees) root of f^T M^-1 f over the equation's scale
    status: wp.array2d(dtype=int)  # (worlds, trees)
    least: wp.array2d(dtype=real)  # (worlds, trees) least f^T M^-1 f met [J]
    best: wp.array2d(dtype=real)  # (worlds, nv) dq there


@func
def is_linear(kind: int, i: int) -> bool:
    """Whether freedom i of a joint is a translation."""
    return kind == joints.SLIDE or (kind == joints.FREE and i < 3)


@func
def along(slides: bool, axis: vec3, F: vec6) -> real:
    """S^T F."""
    x = real(0.0)
    if slides:
        x = wp.dot(axis, linear(F))
    else:
        x = wp.dot(axis, angular(F))
    return x


@func
def motion(slides: bool, axis: vec3, x: real) -> vec6:
    """S x."""
    zero = vec3(real(0.0), real(0.0), real(0.0))
    V = join(x * axis, zero)
    if slides:
        V = join(zero, x * axis)
    return V


@func
def moved_wrench(F: vec6, arm: vec3) -> vec6:
    """The wrench F about another point. The old point lies at `arm` from the new one."""
    f = linear(F)
    return join(angular(F) + wp.cross(arm, f), f)


@func
def moved_motion(V: vec6, arm: vec3) -> vec6:
    """The motion V about another point, which lies at `arm` from the old one."""
    w = angular(V)
    return join(w, linear(V) + wp.cross(w, arm))


@func
def cross_columns(a: vec3, M: mat33) -> mat33:
    """[a] M."""
    return mat33(
        a[1] * M[2, 0] - a[2] * M[1, 0], a[1] * M[2, 1] - a[2] * M[1, 1], a[1] * M[2, 2] - a[2] * M[1, 2],
        a[2] * M[0, 0] - a[0] * M[2, 0], a[2] * M[0, 1] - a[0] * M[2, 1], a[2] * M[0, 2] - a[0] * M[2, 2],
        a[0] * M[1, 0] - a[1] * M[0, 0], a[0] * M[1, 1] - a[1] * M[0, 1], a[0] * M[1, 2] - a[1] * M[0, 2],
    )  # fmt: skip


@func
def com(I: vec10) -> vec3:
    return vec3(I[1], I[2], I[3])


@func
def turned(I: vec10, w: vec3) -> vec3:
    """I_com w."""
    return vec3(
        I[4] * w[0] + I[7] * w[1] + I[8] * w[2],
        I[7] * w[0] + I[5] * w[1] + I[9] * w[2],
        I[8] * w[0] + I[9] * w[1] + I[6] * w[2],
    )


@func
def factor_tree(
    topology: Topology,
    frame: Frame,
    factor: Factor,
    armature: wp.array2d(dtype=real),
    damping: wp.array2d(dtype=real),
    half_h: real,
    w: int,
    tree: int,
):
    """Articulated inertias of M + half_h D. They replace the rigid ones in `factor`."""
    row = w % armature.shape[0]
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        start = topology.link_v[l]
        n = joints.dofs(kind)
        J = factor.J[w, l]
        H = factor.H[w, l]
        M = factor.M[w, l]
        for i in range(n):
            d = start + n - 1 - i
            axis = frame.axis[w, d]
            extra = armature[row, d] + half_h * damping[w, d]
            U_a = J * axis
            U_l = axis * H
            D = wp.dot(axis, U_a) + extra
            if is_linear(kind, n - 1 - i):
                U_a = H * axis
                U_l = M * axis
                D = wp.dot(axis, U_l) + extra
            inverse = real(1.0) / D
            K_a = U_a * inverse
            K_l = U_l * inverse
            factor.D[w, d] = D
            factor.K[w, d] = join(K_a, K_l)
            J -= wp.outer(U_a, K_a)
            H -= wp.outer(U_a, K_l)
            M -= wp.outer(U_l, K_l)
        parent = topology.link_parent[l]
        if parent >= 0:
            offset = frame.offset[w, l]
            H_moved = H + cross_columns(offset, M)
            # J' = J + [d] H^T - H' [d], and X [d] = -([d] X^T)^T
            J_moved = (
                J + cross_columns(offset, wp.transpose(H)) + wp.transpose(cross_columns(offset, wp.transpose(H_moved)))
            )
            factor.J[w, parent] = factor.J[w, parent] + J_moved
            factor.H[w, parent] = factor.H[w, parent] + H_moved
            factor.M[w, parent] = factor.M[w, parent] + M


@func
def reduce_tree(topology: Topology, frame: Frame, factor: Factor, work: Motion, w: int, tree: int) -> real:
    """Backward half of a solve for f = S^T (sum of work.wrench) + work.u. It reduces work.u.

    Returns f^T (M..)^-1 f.
    """
    norm = real(0.0)
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        start = topology.link_v[l]
        n = joints.dofs(kind)
        F = work.wrench[w, l]
        for i in range(n):
            d = start + n - 1 - i
            u = work.u[w, d] + along(is_linear(kind, n - 1 - i), frame.axis[w, d], F)
            F -= factor.K[w, d] * u
            x = u / factor.D[w, d]
            norm += u * x
            work.u[w, d] = x
        parent = topology.link_parent[l]
        if parent >= 0:
            work.wrench[w, parent] = work.wrench[w, parent] + moved_wrench(F, frame.offset[w, l])
    return norm


@func
def parent_rate(topology: Topology, frame: Frame, work: Motion, w: int, l: int) -> vec6:
    """Motion in work.rate that the parent imparts to the joint point of l."""
    y = vec6()
    parent = topology.link_parent[l]
    if parent >= 0:
        y = moved_motion(work.rate[w, parent], frame.offset[w, l])
    return y


@func
def solve_tree(topology: Topology, frame: Frame, factor: Factor, work: Motion, w: int, tree: int):
    """Forward half of a solve: work.u <- (M..)^-1 f, from the reduced work.u."""
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        kind = topology.link_type[l]
        y = parent_rate(topology, frame, work, w, l)
        for i in range(joints.dofs(kind)):
            d = topology.link_v[l] + i
            x = work.u[w, d] - wp.dot(factor.K[w, d], y)
            y += motion(is_linear(kind, i), frame.axis[w, d], x)
            work.u[w, d] = x
        work.rate[w, l] = y


@func
def momentum(I: vec10, A: mat33, dr: vec3, h: real) -> vec6:
    """mu = [dlog_xi]^T G xi / h about r of a body displaced by (A, dr) about r."""
    e = com(I)
    log = lie.log_rotation(A)
    rho = lie.log_translation(log, dr + A * e)
    G_xi = join(turned(I, log.phi) / h, (I[0] / h) * rho)
    return moved_wrench(lie.dlog_transpose(log, rho, G_xi), e)


@func
def displace(topology: Topology, frame: Frame, work: Motion, w: int, l: int):
    """A, dr of link l from those of its parent and dq."""
    kind = topology.link_type[l]
    start = topology.link_v[l]
    parent = topology.link_parent[l]
    phi = vec3(real(0.0), real(0.0), real(0.0))
    slide = vec3(real(0.0), real(0.0), real(0.0))
    for i in range(joints.dofs(kind)):
        step = work.dq[w, start + i] * frame.axis[w, start + i]
        if is_linear(kind, i):
            slide += step
        else:
            phi += step
    if parent < 0:
        work.A[w, l] = lie.exp_rotation(phi)
        work.dr[w, l] = slide
    else:
        A_p = work.A[w, parent]
        work.dr[w, l] = work.dr[w, parent] + slide + A_p * (frame.offset[w, l] + slide)
        if kind == joints.SLIDE or kind == joints.FIXED:
            work.A[w, l] = A_p
        else:
            B = lie.exp_rotation(phi)
            work.A[w, l] = A_p + B + A_p * B


@func
def joint_impulse(equation: Equation, dq: real, w: int, d: int) -> real:
    """The part of DRNEA - impulse that the joint itself contributes: rotor, damper, forces."""
    rotor = equation.armature[w % equation.armature.shape[0], d] * (dq / equation.h - equation.v[w, d])
    damper = real(0.5) * equation.damping[w, d] * dq
    return rotor + damper - real(0.5) * equation.h * equation.force[w, d] - equation.impulse[w, d]


@func
def evaluate_link(topology: Topology, frame: Frame, equation: Equation, work: Motion, w: int, l: int):
    """Displacement and momentum of link l at work.dq. Its share of DRNEA goes to work.wrench, its joint's to work.u."""
    start = topology.link_v[l]
    for i in range(joints.dofs(topology.link_type[l])):
        work.u[w, start + i] = joint_impulse(equation, work.dq[w, start + i], w, start + i)
    displace(topology, frame, work, w, l)
    I = frame.inertia[w, l]
    mu = vec6()
    if I[0] > real(0.0):
        mu = momentum(I, work.A[w, l], work.dr[w, l], equation.h)
    work.mu[w, l] = mu
    work.wrench[w, l] = mu - equation.momentum[w, l]


@func
def evaluate_tree(
    topology: Topology, frame: Frame, factor: Factor, equation: Equation, work: Motion, step: real, w: int, tree: int
):
    """Forward sweep: dq <- dq + step (M..)^-1 f of the reduced work.u, unless step = 0.

    Then it evaluates every link at the new dq.
    """
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        if step != real(0.0):
            kind = topology.link_type[l]
            y = parent_rate(topology, frame, work, w, l)
            for i in range(joints.dofs(kind)):
                d = topology.link_v[l] + i
                x = work.u[w, d] - wp.dot(factor.K[w, d], y)
                y += motion(is_linear(kind, i), frame.axis[w, d], x)
                work.dq[w, d] = work.dq[w, d] + step * x
            work.rate[w, l] = y
        evaluate_link(topology, frame, equation, work, w, l)


@func
def residual_tree(
    topology: Topology,
    frame: Frame,
    equation: Equation,
    work: Motion,
    residual: wp.array2d(dtype=real),
    w: int,
    tree: int,
):
    """DRNEA(dq) - impulse. Backward sweep after `evaluate_tree`, or after a solve that overwrote its wrenches."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first, end):
        work.wrench[w, l] = work.mu[w, l] - equation.momentum[w, l]
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        F = work.wrench[w, l]
        for i in range(joints.dofs(kind)):
            d = topology.link_v[l] + i
            own = joint_impulse(equation, work.dq[w, d], w, d)
            residual[w, d] = own + along(is_linear(kind, i), frame.axis[w, d], F)
        parent = topology.link_parent[l]
        if parent >= 0:
            work.wrench[w, parent] = work.wrench[w, parent] + moved_wrench(F, frame.offset[w, l])
