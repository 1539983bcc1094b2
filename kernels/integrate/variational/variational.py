# SPDX-License-Identifier: Apache-2.0
"""The two ends of a step of the linear-time variational integrator (Lee, Liu, Park, Srinivasa; theory §6). O(links).

    begin_step   at the node (q, v): momenta, the factor of M + h D/2, the guess for dq
    (kernels/integrate/variational/roots.py: dq with DRNEA(dq) = impulse)
    end_step     at q' = q (+) dq: the Legendre velocity v' = M(q')^-1 p' of the node, p' the momentum that the interval
                 hands on, with its half of the forces at q'

The state is (q, v): a step needs nothing of the step before but M(q) v.
"""

import warp as wp

from ...flags import NONFINITE
from ...real import func, kernel, mat33, real, transform, vec3, vec6, vec10
from ...tree import joints
from ...tree.passes import Topology
from ...tree.plant import Plant
from ...tree.spatial import angular, join, linear
from . import drnea
from .drnea import Equation, Factor, Frame, Motion, Root

CURRENT = wp.constant(0)  # IG1: dq = 0
EULER = wp.constant(1)  # IG2: dq = h v
DYNAMICS = wp.constant(2)  # IG3: dq = h v + h^2/2 a, a the acceleration at (q, v)
GUESSES = {"current": 0, "euler": 1, "dynamics": 2}


# Launch over (worlds, trees) unless the docstring says otherwise.


@func
def joint_point(
    topology: Topology,
    joint_anchor: wp.array(dtype=vec3),
    link_X: wp.array2d(dtype=transform),
    w: int,
    l: int,
) -> vec3:
    """r_l in the world: the joint's anchor; the origin of a free or welded link."""
    X = link_X[w, l]
    r = wp.transform_get_translation(X)
    kind = topology.link_type[l]
    if kind != joints.FREE and kind != joints.FIXED:
        r = wp.transform_point(X, joint_anchor[topology.link_joint[l]])
    return r


@kernel
def place_links(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    frame: Frame,
    factor: Factor,
):
    """The frame of a configuration and its rigid inertias, from link poses. Launch over (worlds, links)."""
    w, l = wp.tid()
    X = link_X[w, l]
    R = wp.quat_to_matrix(wp.transform_get_rotation(X))
    r = joint_point(topology, plant.joint_anchor, link_X, w, l)
    parent = topology.link_parent[l]
    offset = vec3(real(0.0), real(0.0), real(0.0))
    if parent >= 0:
        offset = r - joint_point(topology, plant.joint_anchor, link_X, w, parent)
    frame.offset[w, l] = offset
    kind = topology.link_type[l]
    start = topology.link_v[l]
    if kind == joints.HINGE or kind == joints.SLIDE:
        frame.axis[w, start] = R * plant.joint_axis[w % plant.joint_axis.shape[0], topology.link_joint[l]]
    elif kind == joints.BALL or kind == joints.FREE:
        n = joints.dofs(kind)
        for i in range(3):
            frame.axis[w, start + n - 3 + i] = vec3(R[0, i], R[1, i], R[2, i])
        if kind == joints.FREE:
            frame.axis[w, start] = vec3(real(1.0), real(0.0), real(0.0))
            frame.axis[w, start + 1] = vec3(real(0.0), real(1.0), real(0.0))
            frame.axis[w, start + 2] = vec3(real(0.0), real(0.0), real(1.0))
    body = topology.link_body[l]
    inertia = vec10()
    J = mat33()
    H = mat33()
    M = mat33()
    if body >= 0:
        m = plant.body_mass[w % plant.body_mass.shape[0], body]
        e = wp.transform_point(X, plant.body_com[w % plant.body_com.shape[0], body]) - r
        I = R * plant.body_inertia[w % plant.body_inertia.shape[0], body] * wp.transpose(R)
        inertia = vec10(m, e[0], e[1], e[2], I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        H = m * wp.skew(e)
        M = wp.diag(vec3(m, m, m))
        J = I - wp.skew(e) * H
    frame.inertia[w, l] = inertia
    factor.J[w, l] = J
    factor.H[w, l] = H
    factor.M[w, l] = M


@func
def joint_motion(topology: Topology, frame: Frame, v: wp.array2d(dtype=real), w: int, l: int) -> vec6:
    """S v of the joint of link l."""
    kind = topology.link_type[l]
    start = topology.link_v[l]
    V = vec6()
    for i in range(joints.dofs(kind)):
        V += drnea.motion(drnea.is_linear(kind, i), frame.axis[w, start + i], v[w, start + i])
    return V


@func
def link_momentum(I: vec10, V: vec6, dv: vec3) -> vec6:
    """Momentum about r of a body with velocity V, whose COM is faster by dv."""
    e = drnea.com(I)
    omega = angular(V)
    impulse = I[0] * (linear(V) + wp.cross(omega, e) + dv)
    return drnea.moved_wrench(join(drnea.turned(I, omega), impulse), e)


@func
def inertial_force(I: vec10, omega: vec3, a: vec6) -> vec6:
    """Wrench about r that gives a body the acceleration a (angular; of r) at the angular velocity omega."""
    e = drnea.com(I)
    alpha = angular(a)
    force = I[0] * (linear(a) + wp.cross(alpha, e) + wp.cross(omega, wp.cross(omega, e)))
    torque = drnea.turned(I, alpha) + wp.cross(omega, drnea.turned(I, omega))
    return drnea.moved_wrench(join(torque, force), e)


@func
def velocity_acceleration(offset: vec3, V_parent: vec6, a_parent: vec6, joint: vec6) -> vec6:
    """Acceleration (angular; of r) of a link with zero joint accelerations, from that of its parent."""
    omega = angular(V_parent)
    alpha = angular(a_parent)
    turn = alpha + wp.cross(omega, angular(joint))
    a = linear(a_parent) + wp.cross(alpha, offset) + wp.cross(omega, wp.cross(omega, offset))
    return join(turn, a + real(2.0) * wp.cross(omega, linear(joint)))


@kernel
def begin_step(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    guess: int,
    frame: Frame,
    # in, out
    equation: Equation,
    factor: Factor,
    # out
    work: Motion,
):
    """Momenta G V + (h/2) weight at the node, factor of M + h D/2, and the guess for dq.

    For IG3, work.dq gets the first part, h v. Work.u gets the reduced right-hand side of the rest, h^2/2 (M + h D/2)^-1
    (F - D v - c), which the root search adds.
    """
    w, tree = wp.tid()
    h = equation.h
    half_h = real(0.5) * h
    row = w % equation.armature.shape[0]
    g = gravity[w % gravity.shape[0]]
    zero = vec3(real(0.0), real(0.0), real(0.0))
    drnea.factor_tree(topology, frame, factor, equation.armature, equation.damping, half_h, w, tree)
    scale = real(0.0)
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        parent = topology.link_parent[l]
        I = frame.inertia[w, l]
        joint = joint_motion(topology, frame, equation.v, w, l)
        V = joint
        a = vec6()
        if parent >= 0:
            offset = frame.offset[w, l]
            V_parent = work.rate[w, parent]
            V += drnea.moved_motion(V_parent, offset)
            a = velocity_acceleration(offset, V_parent, work.mu[w, parent], joint)
        work.rate[w, l] = V
        work.mu[w, l] = a
        P = link_momentum(I, V, zero)
        weight = drnea.moved_wrench(join(zero, I[0] * g), drnea.com(I))
        scale += wp.dot(V, P)
        equation.momentum[w, l] = P + half_h * weight
        work.wrench[w, l] = half_h * weight
        if guess == DYNAMICS:
            work.wrench[w, l] = half_h * (weight - inertial_force(I, angular(V), a))
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        v = equation.v[w, d]
        scale += equation.armature[row, d] * v * v
        work.u[w, d] = half_h * (equation.force[w, d] - equation.damping[w, d] * v)
        work.dq[w, d] = h * v
        if guess == CURRENT:
            work.dq[w, d] = real(0.0)
    equation.scale[w, tree] = scale + drnea.reduce_tree(topology, frame, factor, work, w, tree)


@kernel
def end_step(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    no_damping: wp.array2d(dtype=real),
    equation: Equation,
    residual: wp.array2d(dtype=real),
    force: wp.array2d(dtype=real),
    frame: Frame,
    frame_end: Frame,
    # in, out
    factor: Factor,
    work: Motion,
    v: wp.array2d(dtype=real),
):
    """Legendre velocity at q': v <- v + M(q')^-1 (S'^T sum_subtree (mu - G' V' + h/2 weight) + …), from an estimate v.

    The residual of DRNEA that the search left is subtracted from the momentum that is handed on, so that it does not
    add up over steps.
    """
    w, tree = wp.tid()
    h = equation.h
    half_h = real(0.5) * h
    row = w % equation.armature.shape[0]
    g = half_h * gravity[w % gravity.shape[0]]
    drnea.factor_tree(topology, frame_end, factor, equation.armature, no_damping, real(0.0), w, tree)
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        kind = topology.link_type[l]
        start = topology.link_v[l]
        V = joint_motion(topology, frame_end, v, w, l) + drnea.parent_rate(topology, frame_end, work, w, l)
        work.rate[w, l] = V
        # The momentum mu of the interval and the residual of DRNEA, about the displaced r.
        mu = drnea.moved_wrench(work.mu[w, l], -work.dr[w, l])
        work.wrench[w, l] = mu - link_momentum(frame_end.inertia[w, l], V, -g)
        left = vec6()
        for i in range(joints.dofs(kind)):
            left += drnea.motion(drnea.is_linear(kind, i), frame.axis[w, start + i], residual[w, start + i])
        left = drnea.moved_wrench(left, -work.dr[w, l])
        for i in range(joints.dofs(kind)):
            d = start + i
            dq = work.dq[w, d]
            own = equation.armature[row, d] * (dq / h - v[w, d]) - real(0.5) * equation.damping[w, d] * dq
            own += half_h * force[w, d]
            work.u[w, d] = own - drnea.along(drnea.is_linear(kind, i), frame_end.axis[w, d], left)
    drnea.reduce_tree(topology, frame_end, factor, work, w, tree)
    drnea.solve_tree(topology, frame_end, factor, work, w, tree)
    for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        v[w, d] = v[w, d] + work.u[w, d]


@kernel
def impulse_of(
    topology: Topology,
    h: real,
    A: wp.array3d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    impulse: wp.array2d(dtype=real),
    dq: wp.array2d(dtype=real),
):
    """J^T gamma = A (v − v*), and the guess dq = h v where it is not 0. Launch over (worlds, trees)."""
    w, tree = wp.tid()
    begin = topology.tree_v[tree]
    end = topology.tree_v[tree + 1]
    for i in range(begin, end):
        momentum = real(0.0)
        for j in range(begin, end):
            momentum += A[w, i, j - begin] * (v[w, j] - v_star[w, j])
        impulse[w, i] = momentum
        if v[w, i] != v_star[w, i]:
            dq[w, i] = h * v[w, i]


@kernel
def keep_jump(flags: wp.array(dtype=int), jump_next: wp.array2d(dtype=real), jump: wp.array2d(dtype=real)):
    """Keep `jump_next` as `jump`. A world that stands still keeps its old one."""
    w, d = wp.tid()
    if flags[w] & NONFINITE == 0:
        jump[w, d] = jump_next[w, d]


@kernel
def report(
    root: Root,
    add: int,
    evaluations: wp.array(dtype=int),
    error: wp.array(dtype=real),
    status: wp.array(dtype=int),
):
    """Report the worst of a world's trees. With `add`, combine it with the report of the contact solve.

    Launch over worlds.
    """
    w = wp.tid()
    most = int(0)
    worst = real(0.0)
    bits = int(0)
    if add == 1:
        most = evaluations[w]
        worst = error[w]
        bits = status[w]
    for tree in range(root.status.shape[1]):
        most = wp.max(most, root.evaluations[w, tree])
        worst = wp.max(worst, root.error[w, tree])
        bits = bits | root.status[w, tree]
    evaluations[w] = most
    error[w] = worst
    status[w] = bits


# Velocities of a step that are sums of others. Launch over (worlds, nv).


@kernel(twin=True, part="velocities")
def left_velocity(v: wp.array2d(dtype=real), jump: wp.array2d(dtype=real), v_left: wp.array2d(dtype=real)):
    """Velocity before the node's contact impulse."""
    w, d = wp.tid()
    v_left[w, d] = v[w, d] - jump[w, d]


@kernel(twin=True, part="velocities")
def average_velocity(h: real, dq: wp.array2d(dtype=real), v: wp.array2d(dtype=real)):
    """dq/h."""
    w, d = wp.tid()
    v[w, d] = dq[w, d] / h


@kernel(twin=True, part="velocities")
def corrected_velocity(
    h: real,
    dq: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    # out, may be v_star
    corrected: wp.array2d(dtype=real),
):
    """v* from which the impulse of the last solve leads to dq/h: dq/h − (v − v*)."""
    w, d = wp.tid()
    corrected[w, d] = dq[w, d] / h - (v[w, d] - v_star[w, d])


@kernel(twin=True, part="velocities")
def extrapolate(h: real, v: wp.array2d(dtype=real), dq: wp.array2d(dtype=real), v_end: wp.array2d(dtype=real)):
    """Estimate of the velocity at the end of the step, to second order: 2 dq/h - v."""
    w, d = wp.tid()
    v_end[w, d] = real(2.0) * dq[w, d] / h - v[w, d]


@func
def read_vector(v: wp.array2d(dtype=real), w: int, begin: int, end: int) -> vec3:
    """Up to three consecutive coordinates; 0 for those that the vector does not have."""
    y = real(0.0)
    z = real(0.0)
    if end - begin > 1:
        y = v[w, begin + 1]
    if end - begin > 2:
        z = v[w, begin + 2]
    return vec3(v[w, begin], y, z)


@kernel(twin=True, part="velocities")
def jump_of(
    vector_begin: wp.array(dtype=int),  # (vectors + 1): where the vectors of coordinates begin (`vectors_of`)
    gravity: wp.array(dtype=vec3),
    tie: real,
    v_left: wp.array2d(dtype=real),
    v_star: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    v_free: wp.array2d(dtype=real),
    # out
    jump: wp.array2d(dtype=real),
    v_next: wp.array2d(dtype=real),
):
    """jump = half of what contact changed the velocity by, limited to what half a step of free motion changed it by.

    Then v_next = v_free + jump. Both lengths are those of vectors of coordinates. Contact changes a ball that begins to
    roll along a table by less than the pull along the table, and by just as much as the pull onto it. At rest contact
    undoes the free motion, and both lengths are equal.

    `tie` [s] is 0 in a step, and h times the solver's tolerance in a backward pass. The derivative is then that of the
    bound, whichever length round-off makes the shorter. Launch over (worlds, vectors).
    """
    w, i = wp.tid()
    begin = vector_begin[i]
    end = vector_begin[i + 1]
    x = real(0.5) * (read_vector(v, w, begin, end) - read_vector(v_star, w, begin, end))
    bound = read_vector(v_star, w, begin, end) - read_vector(v_left, w, begin, end)
    y = x
    least = tie * wp.length(gravity[w % gravity.shape[0]])
    if wp.length(x) > wp.length(bound) - least:
        y = -bound  # both are round-off and have no direction
        if wp.length(bound) > least:
            y = x * (wp.length(bound) / wp.length(x))
    for k in range(end - begin):
        jump[w, begin + k] = y[k]
        v_next[w, begin + k] = v_free[w, begin + k] + y[k]
