# SPDX-License-Identifier: Apache-2.0
"""Adjoints of the tree passes by hand: how poses, motion subspaces, inertias and RNEA change as the links move.

In world axes about o, all of these follow a link that moves with the motion vector V (Featherstone 2008, chapter 2; X a
pose, S a column of its joint, I its inertia):

    δX = V X,   δS = V × S,   δI = V ×* I − I V ×.

A motion of o alone (`f_o` in the code) has the effect of the opposite motion of the link. The gradient of these arrays
is therefore a wrench F on the link: F·V is the change of the loss. Wrenches are summed over subtrees as forces are, and
the gradient of a joint's coordinates is Sᵀ F. The way back meets no angle and no quaternion product again. Gradients of
quaternions come out orthogonal to them.
"""

import warp as wp

from ..real import func, kernel, mat33, quat, real, struct, transform, vec3, vec6, vec10
from ..tree import joints, passes
from ..tree import spatial as sp
from ..tree.passes import Topology


@func
def rotational(I: vec10) -> mat33:
    """The rotational inertia about o."""
    return mat33(I[4], I[7], I[8], I[7], I[5], I[9], I[8], I[9], I[6])


@func
def rotational_gradient(I_bar: vec10) -> mat33:
    """The symmetric B such that B : δ(rotational inertia) is the change that `I_bar` stands for."""
    half = real(0.5)
    xy = half * I_bar[7]
    xz = half * I_bar[8]
    yz = half * I_bar[9]
    return mat33(I_bar[4], xy, xz, xy, I_bar[5], yz, xz, yz, I_bar[6])


@func
def first_moment(I: vec10) -> vec3:
    """m c."""
    return vec3(I[1], I[2], I[3])


@func
def inertia_wrench(I: vec10, I_bar: vec10) -> vec6:
    """F with F·V = I_bar : (V ×* I − I V ×)."""
    B = rotational_gradient(I_bar)
    h = first_moment(I)
    h_bar = first_moment(I_bar)
    K = rotational(I) * B
    turn = real(2.0) * vec3(K[1, 2] - K[2, 1], K[2, 0] - K[0, 2], K[0, 1] - K[1, 0])
    force = I[0] * h_bar + real(2.0) * (wp.trace(B) * h - B * h)
    return sp.join(turn + wp.cross(h, h_bar), force)


@func
def pose_wrench(X: transform, X_bar: transform, o: vec3) -> vec6:
    """F about o with F·V = X_bar·δX."""
    force = wp.transform_get_translation(X_bar)
    r = wp.transform_get_rotation(X)
    r_bar = wp.transform_get_rotation(X_bar)
    u = vec3(r[0], r[1], r[2])
    u_bar = vec3(r_bar[0], r_bar[1], r_bar[2])
    turn = real(0.5) * (r[3] * u_bar - r_bar[3] * u + wp.cross(u, u_bar))
    return sp.join(turn + wp.cross(wp.transform_get_translation(X) - o, force), force)


@func
def quaternion_gradient(q: wp.array2d(dtype=real), w: int, i: int, turn: vec3, world: bool) -> quat:
    """2 (turn ⊗ r) / |q| for a torque in world axes, 2 (r ⊗ turn) / |q| in body axes, with r = q/|q|.

    q is stored at q[w, i:i+4].
    """
    r = quat(q[w, i + 1], q[w, i + 2], q[w, i + 3], q[w, i])
    scale = real(2.0) / wp.dot(r, r)
    t = quat(turn[0], turn[1], turn[2], real(0.0))
    product = r * t
    if world:
        product = t * r
    return product * scale


@func
def add_quaternion(q_bar: wp.array2d(dtype=real), w: int, i: int, x: quat):
    """q_bar[w, i:i+4] += x, scalar first."""
    q_bar[w, i] = q_bar[w, i] + x[3]
    q_bar[w, i + 1] = q_bar[w, i + 1] + x[0]
    q_bar[w, i + 2] = q_bar[w, i + 2] + x[1]
    q_bar[w, i + 3] = q_bar[w, i + 3] + x[2]


@struct
class BodyBars:
    """Gradients of the parameters of bodies. Those not asked for are empty."""

    mass: wp.array2d(dtype=real)
    com: wp.array2d(dtype=vec3)
    inertia: wp.array2d(dtype=mat33)


@func
def wants_any(bars: BodyBars) -> bool:
    return bars.mass.shape[0] + bars.com.shape[0] + bars.inertia.shape[0] > 0


@func
def add_body_gradient(X: transform, I: vec10, I_bar: vec10, bars: BodyBars, w: int, body: int, com: vec3):
    """From the gradient of a link's inertia to those of its body's mass, COM and inertia. `com`: from o."""
    B = rotational_gradient(I_bar)
    if bars.mass.shape[0] > 0:
        x = I_bar[0] + wp.dot(com, first_moment(I_bar)) + wp.trace(B) * wp.dot(com, com) - wp.dot(com, B * com)
        bars.mass[w, body] = bars.mass[w, body] + x
    R = wp.quat_to_matrix(wp.transform_get_rotation(X))
    if bars.com.shape[0] > 0:
        h = I[0] * com
        force = I[0] * first_moment(I_bar) + real(2.0) * (wp.trace(B) * h - B * h)
        bars.com[w, body] = bars.com[w, body] + wp.transpose(R) * force
    if bars.inertia.shape[0] > 0:
        zero = real(0.0)
        G = mat33(I_bar[4], I_bar[7], I_bar[8], zero, I_bar[5], I_bar[9], zero, zero, I_bar[6])
        bars.inertia[w, body] = bars.inertia[w, body] + wp.transpose(R) * G * R


@kernel
def position_adjoint(
    topology: Topology,
    body_com: wp.array2d(dtype=vec3),
    q: wp.array2d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    X_bar: wp.array2d(dtype=transform),
    S_bar: wp.array2d(dtype=vec6),
    I_bar: wp.array2d(dtype=vec10),
    # scratch
    wrench: wp.array2d(dtype=vec6),
    # out
    q_bar: wp.array2d(dtype=real),
    bars: BodyBars,
):
    """Add the gradient of `Dynamics.position` to those of q and of the bodies.

    Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    reference = topology.tree_reference[tree]
    o = wp.transform_get_translation(link_X[w, reference])
    f_o = vec3(real(0.0), real(0.0), real(0.0))
    bodies = wants_any(bars)
    for l in range(first, end):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        n = joints.dofs(kind)
        skip = int(0)
        if kind == joints.FREE:
            skip = 3  # the axes of its translations do not turn
        X = link_X[w, l]
        F = pose_wrench(X, X_bar[w, l], o)
        for d in range(j + skip, j + n):
            S = dof_S[w, d]
            B = S_bar[w, d]
            F += sp.cross_force(S, B)
            f_o -= wp.cross(sp.angular(S), sp.linear(B))
        body = topology.link_body[l]
        if body >= 0:
            own = inertia_wrench(link_I[w, l], I_bar[w, l])
            F += own
            f_o -= sp.linear(own)
            if bodies:
                com = wp.transform_point(X, body_com[w % body_com.shape[0], body]) - o
                add_body_gradient(X, link_I[w, l], I_bar[w, l], bars, w, body, com)
        wrench[w, l] = F
    wrench[w, reference] = wrench[w, reference] + sp.join(vec3(real(0.0), real(0.0), real(0.0)), f_o)
    for k in range(end - first):
        l = end - 1 - k
        F = wrench[w, l]
        kind = topology.link_type[l]
        i = topology.link_q[l]
        j = topology.link_v[l]
        if kind == joints.HINGE or kind == joints.SLIDE:
            q_bar[w, i] = q_bar[w, i] + wp.dot(dof_S[w, j], F)
        elif kind == joints.BALL:
            turn = vec3(wp.dot(dof_S[w, j], F), wp.dot(dof_S[w, j + 1], F), wp.dot(dof_S[w, j + 2], F))
            add_quaternion(q_bar, w, i, quaternion_gradient(q, w, i, turn, False))
        elif kind == joints.FREE:
            f = sp.linear(F)
            for axis in range(3):
                q_bar[w, i + axis] = q_bar[w, i + axis] + f[axis]
            turn = sp.angular(F) - wp.cross(wp.transform_get_translation(link_X[w, l]) - o, f)
            add_quaternion(q_bar, w, i + 3, quaternion_gradient(q, w, i + 3, turn, True))
        parent = topology.link_parent[l]
        if parent >= 0:
            wrench[w, parent] = wrench[w, parent] + F


@func
def product_gradient(x: vec6, y: vec6) -> vec10:
    """The gradient of xᵀ I y with respect to I."""
    a = sp.angular(x)
    b = sp.angular(y)
    v = sp.linear(x)
    u = sp.linear(y)
    h = wp.cross(u, a) + wp.cross(v, b)
    return vec10(
        wp.dot(v, u),
        h[0],
        h[1],
        h[2],
        a[0] * b[0],
        a[1] * b[1],
        a[2] * b[2],
        a[0] * b[1] + a[1] * b[0],
        a[0] * b[2] + a[2] * b[0],
        a[1] * b[2] + a[2] * b[1],
    )


@struct
class Links:
    """What dynamics reads of the links, about the tree's reference, or the gradients of that."""

    S: wp.array2d(dtype=vec6)  # (worlds, nv) motion subspaces
    I: wp.array2d(dtype=vec10)  # (worlds, nlink) inertias
    V: wp.array2d(dtype=vec6)  # (worlds, nlink) velocities


@struct
class MotionBars:
    """Gradients of the other inputs of inverse dynamics. All but `a` may be empty."""

    v: wp.array2d(dtype=real)
    a: wp.array2d(dtype=real)
    armature: wp.array2d(dtype=real)
    gravity: wp.array(dtype=vec3)


@kernel
def rnea_adjoint(
    topology: Topology,
    armature: wp.array2d(dtype=real),
    links: Links,
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
    tau_bar: wp.array2d(dtype=real),
    # scratch
    seed: wp.array2d(dtype=vec6),
    pushed: wp.array2d(dtype=vec6),
    # out
    bar: Links,
    motion: MotionBars,
):
    """Add the gradient of `passes.rnea`, after it. Launch over worlds.

    With U the motion of the links under tau_bar, tau_bar·tau = Σ U·(I A + V ×* I V). U goes down the trees as V does.
    The gradient of A is I U, which is summed over subtrees on the way up.
    """
    w = wp.tid()
    g_bar = vec3(real(0.0), real(0.0), real(0.0))
    row = w % armature.shape[0]
    for l in range(topology.link_parent.shape[0]):
        parent = topology.link_parent[l]
        U = passes.joint_velocity(topology.link_type[l], links.S, tau_bar, w, topology.link_v[l])
        if parent >= 0:
            U += seed[w, parent]
        seed[w, l] = U
        pushed[w, l] = sp.momentum(links.I[w, l], U)
    for k in range(topology.link_parent.shape[0]):
        l = topology.link_parent.shape[0] - 1 - k
        kind = topology.link_type[l]
        parent = topology.link_parent[l]
        j = topology.link_v[l]
        U = seed[w, l]
        V = links.V[w, l]
        I = links.I[w, l]
        A_bar = pushed[w, l]
        f = link_f[w, l]
        turned = sp.cross_motion(U, V)
        bar.I[w, l] = bar.I[w, l] + product_gradient(U, link_A[w, l]) + product_gradient(turned, V)
        T = passes.turning_velocity(kind, links.S, v, w, j)
        own = sp.momentum(I, turned) - sp.cross_force(U, sp.momentum(I, V))
        bar.V[w, l] = bar.V[w, l] + own + sp.cross_force(T, A_bar)
        T_bar = -sp.cross_force(V, A_bar)
        for i in range(joints.dofs(kind)):
            d = j + i
            S = links.S[w, d]
            u = tau_bar[w, d]
            S_d = u * f + a[w, d] * A_bar
            if kind != joints.FREE or i >= 3:
                S_d += v[w, d] * T_bar
                if motion.v.shape[0] > 0:
                    motion.v[w, d] = motion.v[w, d] + wp.dot(S, T_bar)
            bar.S[w, d] = bar.S[w, d] + S_d
            motion.a[w, d] = motion.a[w, d] + wp.dot(S, A_bar) + armature[row, d] * u
            if motion.armature.shape[0] > 0:
                motion.armature[w, d] = motion.armature[w, d] + u * a[w, d]
        if parent >= 0:
            pushed[w, parent] = pushed[w, parent] + A_bar
        else:
            g_bar -= sp.linear(A_bar)
    if motion.gravity.shape[0] > 0:
        motion.gravity[w] = motion.gravity[w] + g_bar


@kernel
def velocity_adjoint(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    # in, out
    V_bar: wp.array2d(dtype=vec6),
    # out
    S_bar: wp.array2d(dtype=vec6),
    v_bar: wp.array2d(dtype=real),
):
    """Add the gradient of `passes.link_velocity`.

    `V_bar` is overwritten by its sums over subtrees; `v_bar` may be empty. Launch over (worlds, trees).
    """
    w, tree = wp.tid()
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for k in range(end - first):
        l = end - 1 - k
        F = V_bar[w, l]
        j = topology.link_v[l]
        for d in range(j, j + joints.dofs(topology.link_type[l])):
            S_bar[w, d] = S_bar[w, d] + v[w, d] * F
            if v_bar.shape[0] > 0:
                v_bar[w, d] = v_bar[w, d] + wp.dot(dof_S[w, d], F)
        parent = topology.link_parent[l]
        if parent >= 0:
            V_bar[w, parent] = V_bar[w, parent] + F
