# SPDX-License-Identifier: Apache-2.0
"""The adjoint, by hand, of DRNEA(dq) = S^T (sum over subtrees of wrench) + the joints' own part, at its root dq.

The joints have displaced a link by T, and its COM frame by (A, p) with the logarithm xi = (phi; rho). The link has the
momentum

    mu = dlog_xi^T F,   F = G xi / h,

in the frame of world axes at its COM. A gradient mu_bar is a motion m there. With z = dlog_xi m, mu_bar·mu = z·F, so
that the gradient with respect to

    xi           is xi_bar = G z/h + the derivative of F·dlog_xi m; dlog_xi^T xi_bar is a wrench W on the displaced link
    the inertia  is G_bar = z xi^T / h
    the COM      is A^T (the force of W) + (the force of mu) × (the rotation of m), at fixed T

W is summed over subtrees and taken back through the displacement of the parent. It then acts on the joint's own
displacement: a turn by phi_J about its axis, and a slide. `root_adjoint` of `variational_adjoint.py` uses W with the
motion subspace at q' instead.
"""

import warp as wp

from ..integrate.variational import drnea
from ..integrate.variational.drnea import Frame, Motion
from ..integrate.variational.variational import joint_point
from ..real import func, kernel, quat, real, struct, transform, vec3, vec6, vec10
from ..tree import joints, passes, spatial
from ..tree import se3 as lie
from ..tree.passes import Topology, reference_point
from .tree_adjoint import BodyBars, Links, product_gradient


@func
def square_slope(phi: vec3, a: vec3, b: vec3) -> vec3:
    """The derivative of a·(phi × (phi × b)) with respect to phi."""
    return wp.dot(phi, b) * a + wp.dot(phi, a) * b - (real(2.0) * wp.dot(a, b)) * phi


@func
def dlog_slope(log: lie.Logarithm, beta_2: real, rho: vec3, F: vec6, m: vec6) -> vec6:
    """The derivative of F·dlog_xi m with respect to xi."""
    phi = log.phi
    tau = spatial.angular(F)
    f = spatial.linear(F)
    a = spatial.angular(m)
    b = spatial.linear(m)
    pitch = wp.dot(phi, rho)
    bend = wp.dot(f, wp.cross(phi, wp.cross(phi, a)))
    mixed = wp.dot(f, rho) * wp.dot(phi, a) + wp.dot(f, phi) * wp.dot(rho, a) - real(2.0) * wp.dot(f, a) * pitch
    twice = wp.dot(tau, wp.cross(phi, wp.cross(phi, a))) + wp.dot(f, wp.cross(phi, wp.cross(phi, b))) + mixed
    by_phi = real(-0.5) * (wp.cross(a, tau) + wp.cross(b, f))
    by_phi += (real(2.0) * log.beta_1 * twice + real(4.0) * beta_2 * pitch * bend) * phi
    by_phi += log.beta * (square_slope(phi, tau, a) + square_slope(phi, f, b) + square_slope(rho, f, a))
    by_phi += real(2.0) * log.beta_1 * (bend * rho + pitch * square_slope(phi, f, a))
    by_rho = real(-0.5) * wp.cross(a, f) + log.beta * square_slope(phi, f, a) + real(2.0) * log.beta_1 * bend * phi
    return spatial.join(by_phi, by_rho)


@struct
class Wrenches:
    """Wrenches on the links in an interval, about o."""

    mu: wp.array2d(dtype=vec6)  # momenta
    W: wp.array2d(dtype=vec6)  # the gradients of the momenta, as wrenches on the displaced links


@kernel
def momentum_adjoint(
    topology: Topology,
    h: real,
    frame: Frame,
    joint_anchor: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    seed: wp.array2d(dtype=real),
    work: Motion,
    # in, out
    mu_bar: wp.array2d(dtype=vec6),
    # out
    wrenches: Wrenches,
    X_bar: wp.array2d(dtype=transform),
    bars: BodyBars,
):
    """Add the motion of the links under `seed` to `mu_bar`, and find the gradients that follow from it.

    These are the gradients of poses and bodies at fixed displacements, which are (A, dr) in `work`, and `wrenches`.
    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    reference = topology.tree_reference[tree]
    o = wp.transform_get_translation(link_X[w, reference])
    f_o = vec3(real(0.0), real(0.0), real(0.0))
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        parent = topology.link_parent[l]
        U = passes.joint_velocity(topology.link_type[l], dof_S, seed, w, topology.link_v[l])
        if parent >= 0:
            U += work.rate[w, parent]
        work.rate[w, l] = U
        U += mu_bar[w, l]
        mu_bar[w, l] = U
        I = frame.inertia[w, l]
        own = vec6()
        momentum = vec6()
        if I[0] > real(0.0):
            A = work.A[w, l]
            e = drnea.com(I)
            log = lie.log_rotation(A)
            rho = lie.log_translation(log, work.dr[w, l] + A * e)
            arm = joint_point(topology, joint_anchor, link_X, w, l) + e - o
            m = drnea.moved_motion(U, arm)
            z = lie.dlog(log, rho, m)
            y = spatial.angular(z)
            F = spatial.join(drnea.turned(I, log.phi) / h, (I[0] / h) * rho)
            xi_bar = spatial.join(drnea.turned(I, y) / h, (I[0] / h) * spatial.linear(z))
            xi_bar += dlog_slope(log, lie.beta_curvature(A), rho, F, m)
            of_link = lie.dlog_transpose(log, rho, xi_bar)
            P = lie.dlog_transpose(log, rho, F)
            force = wp.transpose(A) * spatial.linear(of_link) + wp.cross(spatial.linear(P), spatial.angular(m))
            turn = wp.cross(spatial.angular(F), y) + wp.cross(drnea.turned(I, y), log.phi) / h
            to_com = arm + o - wp.transform_get_translation(link_X[w, l])
            # A torque about the link's origin and a force, as gradient of its pose.
            turn += wp.cross(to_com, force)
            r = wp.transform_get_rotation(link_X[w, l])
            old = X_bar[w, l]
            r_bar = wp.transform_get_rotation(old) + (quat(turn[0], turn[1], turn[2], real(0.0)) * r) * real(2.0)
            X_bar[w, l] = transform(wp.transform_get_translation(old) + force, r_bar)
            f_o -= force
            body = topology.link_body[l]
            R = wp.quat_to_matrix(r)
            if bars.mass.shape[0] > 0:
                bars.mass[w, body] = bars.mass[w, body] + wp.dot(spatial.linear(z), rho) / h
            if bars.com.shape[0] > 0:
                bars.com[w, body] = bars.com[w, body] + wp.transpose(R) * force
            if bars.inertia.shape[0] > 0:
                by_inertia = wp.outer(y, log.phi) / h
                bars.inertia[w, body] = bars.inertia[w, body] + wp.transpose(R) * by_inertia * R
            own = drnea.moved_wrench(of_link, arm)
            momentum = drnea.moved_wrench(P, arm)
        wrenches.mu[w, l] = momentum
        wrenches.W[w, l] = own
    X = X_bar[w, reference]
    X_bar[w, reference] = transform(wp.transform_get_translation(X) + f_o, wp.transform_get_rotation(X))


@func
def through_parent(work: Motion, arm: vec3, F: vec6, w: int, parent: int) -> vec6:
    """Take the wrench F on a displaced link back through its parent's displacement. All about o.

    `arm`: the parent's joint from o.
    """
    f = spatial.linear(F)
    A = work.A[w, parent]
    d = work.dr[w, parent] - A * arm
    turn = spatial.angular(F) - wp.cross(d, f)
    return spatial.join(turn + wp.transpose(A) * turn, f + wp.transpose(A) * f)


@func
def add_axes(
    kind: int,
    j: int,
    arm: vec3,
    F: vec6,
    dof_S: wp.array2d(dtype=vec6),
    dq: wp.array2d(dtype=real),
    w: int,
    # out
    S_bar: wp.array2d(dtype=vec6),
):
    """Add to the gradient of S, from the wrench F about o on the joint's own displacement.

    The displacement is a turn about the point at `arm`, and a slide.
    """
    f = spatial.linear(F)
    zero = vec3(real(0.0), real(0.0), real(0.0))
    if kind == joints.SLIDE:
        S_bar[w, j] = S_bar[w, j] + dq[w, j] * spatial.join(zero, f)
    elif kind != joints.FIXED:
        begin = j
        slide = zero
        if kind == joints.FREE:
            begin = j + 3
            slide = vec3(dq[w, j], dq[w, j + 1], dq[w, j + 2])
        end = j + joints.dofs(kind)
        phi = vec3(real(0.0), real(0.0), real(0.0))
        for d in range(begin, end):
            phi += dq[w, d] * spatial.angular(dof_S[w, d])
        c = lie.exp_coefficients(wp.dot(phi, phi))
        tau = spatial.angular(F) - wp.cross(arm + slide, f)
        b = wp.cross(phi, tau)
        by_phi = tau - c[1] * b + c[2] * wp.cross(phi, b)
        shift = c[0] * f - c[1] * wp.cross(phi, f)
        change = spatial.join(by_phi - wp.cross(shift, arm), shift)
        for d in range(begin, end):
            S_bar[w, d] = S_bar[w, d] + dq[w, d] * change


@func
def weight_gradient(U: vec6, g: vec3) -> vec10:
    """The gradient of U·(h × g; m g) with respect to the inertia: of the power of the weight under the motion U."""
    by_moment = wp.cross(g, spatial.angular(U))
    x = vec10()
    x[0] = wp.dot(spatial.linear(U), g)
    for i in range(3):
        x[1 + i] = by_moment[i]
    return x


@struct
class Node:
    """What the balance of a node reads per dof, or the gradients of that."""

    v: wp.array2d(dtype=real)  # (worlds, nv)
    D: wp.array2d(dtype=real)  # (worlds, nv) damping
    force: wp.array2d(dtype=real)  # (worlds, nv)
    armature: wp.array2d(dtype=real)  # (1 or worlds, nv); a gradient may be empty, also in the next line
    gravity: wp.array(dtype=vec3)  # (1 or worlds,)


@kernel
def balance_adjoint(
    topology: Topology,
    h: real,
    joint_anchor: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    links: Links,
    node: Node,
    dq: wp.array2d(dtype=real),
    seed: wp.array2d(dtype=real),
    work: Motion,
    # scratch: of `momentum_adjoint`
    wrenches: Wrenches,
    # out
    bar: Links,
    node_bar: Node,
):
    """The rest of the gradient of DRNEA, after `momentum_adjoint`. Launch over worlds."""
    w = wp.tid()
    c = real(0.5) * h
    g = c * node.gravity[w % node.gravity.shape[0]]
    g_bar = vec3(real(0.0), real(0.0), real(0.0))
    nlink = topology.link_parent.shape[0]
    for k in range(nlink):
        l = nlink - 1 - k
        kind = topology.link_type[l]
        j = topology.link_v[l]
        U = work.rate[w, l]
        V = links.V[w, l]
        I = links.I[w, l]
        bar.I[w, l] = bar.I[w, l] - product_gradient(U, V) - weight_gradient(U, g)
        bar.V[w, l] = bar.V[w, l] - spatial.momentum(I, U)
        first_moment = vec3(I[1], I[2], I[3])
        g_bar -= c * (I[0] * spatial.linear(U) + wp.cross(spatial.angular(U), first_moment))
        weight = spatial.join(wp.cross(first_moment, g), I[0] * g)
        F = wrenches.mu[w, l] + work.wrench[w, l] - spatial.momentum(I, V) - weight
        for d in range(j, j + joints.dofs(kind)):
            s = seed[w, d]
            bar.S[w, d] = bar.S[w, d] + s * F
            rotor = node.armature[w % node.armature.shape[0], d]
            node_bar.v[w, d] = node_bar.v[w, d] - rotor * s
            node_bar.D[w, d] = node_bar.D[w, d] + s * c * dq[w, d] / h
            node_bar.force[w, d] = node_bar.force[w, d] - c * s
            if node_bar.armature.shape[0] > 0:
                node_bar.armature[w, d] = node_bar.armature[w, d] + s * (dq[w, d] / h - node.v[w, d])
        o = reference_point(topology, link_X, w, l)
        parent = topology.link_parent[l]
        own = wrenches.W[w, l]
        if parent >= 0:
            work.wrench[w, parent] = work.wrench[w, parent] + F
            wrenches.W[w, parent] = wrenches.W[w, parent] + own
            own = through_parent(work, joint_point(topology, joint_anchor, link_X, w, parent) - o, own, w, parent)
        add_axes(kind, j, joint_point(topology, joint_anchor, link_X, w, l) - o, own, links.S, dq, w, bar.S)
    if node_bar.gravity.shape[0] > 0:
        node_bar.gravity[w] = node_bar.gravity[w] + g_bar
