# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the free motion of spinning bodies (`integrate/spin.py`): its adjoint, and its rows of the Jacobians.

With δθ the rotation of a body in its own axes, c the offset of its center of mass, and a prime for the end of the step,

    (δω', δθ') = `vary_turn` along (δω, δJ),  δθ' += Qᵀ δθ,   δV = δv + R (δθ × (ω × c) + δω × c + ω × δc)
    δx' = δx + h δV + R (δθ × c + δc) − R' (δθ' × c + δc),   δv' = δV − R' (δθ' × (ω' × c) + δω' × c + ω' × δc).
"""

import warp as wp

from ..integrate.spin import Bodies, Spinner, about, is_spinning, lone_link, per_time, spinner, vary_turn
from ..real import func, kernel, mat33, quat, real, struct, vec3, vec10
from ..rows.frames import unit_axis
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from .tree_adjoint import BodyBars, add_body_gradient, add_quaternion, quaternion_gradient, wants_any
from .weight_slopes import Inertias


@struct
class Bars:
    """Gradients of the result and of the inputs. Those of parameters are empty unless asked for."""

    q_next: wp.array2d(dtype=real)
    v_next: wp.array2d(dtype=real)
    q: wp.array2d(dtype=real)
    v: wp.array2d(dtype=real)
    bodies: BodyBars
    armature: wp.array2d(dtype=real)


@func
def triple(x: wp.array2d(dtype=real), w: int, i: int) -> vec3:
    return vec3(x[w, i], x[w, i + 1], x[w, i + 2])


@func
def add_triple(x: wp.array2d(dtype=real), w: int, i: int, dx: vec3):
    for k in range(3):
        x[w, i + k] = x[w, i + k] + dx[k]


@func
def add_inertia_bars(
    topology: Topology, h: real, bodies: Bodies, s: Spinner, omega_bar: vec3,
    turn_bar: vec3, offset_bar: vec3, w: int, l: int, bars: Bars,
):  # fmt: skip
    """Add to the gradients of mass, center of mass, inertia and armature of a body."""
    body_com = bodies.plant.body_com
    still = vec3()
    G = mat33()
    zero = mat33()
    for i in range(3):
        for k in range(i + 1):
            E = real(0.5) * (wp.outer(unit_axis(i), unit_axis(k)) + wp.outer(unit_axis(k), unit_axis(i)))
            change = vary_turn(s.J, s.rotor, h, s.omega, still, s.unit * E, zero)
            g = wp.dot(omega_bar, sp.angular(change)) + wp.dot(turn_bar, sp.linear(change))
            G[i, k] = g
            G[k, i] = g
        if bars.armature.shape[0] > 0:
            E = wp.outer(unit_axis(i), unit_axis(i))
            change = vary_turn(s.J, s.rotor, h, s.omega, still, zero, s.unit * E)
            g = wp.dot(omega_bar, sp.angular(change)) + wp.dot(turn_bar, sp.linear(change))
            d = topology.link_v[l] + joints.dofs(topology.link_type[l]) - 3 + i
            bars.armature[w, d] = bars.armature[w, d] + g
    G = s.R * G * wp.transpose(s.R)
    a = s.pivot
    m_bar = wp.trace(G) * wp.dot(a, a) - wp.dot(a, G * a)
    h_bar = real(2.0) * (G * a - wp.trace(G) * a)
    if topology.link_type[l] == joints.FREE and s.mass > real(0.0):
        push = (s.R * offset_bar) / s.mass
        h_bar += push
        m_bar -= wp.dot(a, push)
    two = real(2.0)
    I_bar = vec10(
        m_bar, h_bar[0], h_bar[1], h_bar[2], G[0, 0], G[1, 1], G[2, 2], two * G[0, 1], two * G[0, 2], two * G[1, 2]
    )  # fmt: skip
    o = reference_point(topology, bodies.link_X, w, l)
    for k in range(l, topology.tree_link[topology.link_tree[l] + 1]):
        body = topology.link_body[k]
        if topology.link_dof[k] >= 0 and body >= 0:
            X = bodies.link_X[w, k]
            com = wp.transform_point(X, body_com[w % body_com.shape[0], body]) - o
            add_body_gradient(X, bodies.link_I[w, k], I_bar, bars.bodies, w, body, com)


@func
def end_of(s: Spinner, x: vec3) -> vec3:
    """R' x."""
    return s.R * wp.quat_rotate(s.Q, x)


@func
def add_spin_bars(
    topology: Topology, h: real, bodies: Bodies, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), w: int, l: int,
    bars: Bars,
) -> Spinner:  # fmt: skip
    """Add the gradient of the free motion of link l at v, and clear that of its q'."""
    kind = topology.link_type[l]
    j = topology.link_v[l]
    n = joints.dofs(kind)
    s = spinner(topology, h, bodies, v, w, l)
    t = j + n - 3
    i = topology.link_q[l] + n - 3
    turned = joints.unit_quaternion(joints.read_quaternion(q, w, i) * s.Q)
    q_bar = quat(bars.q_next[w, i + 1], bars.q_next[w, i + 2], bars.q_next[w, i + 3], bars.q_next[w, i])
    product = wp.quat_inverse(turned) * q_bar
    turn_bar = real(0.5) * vec3(product[0], product[1], product[2])
    omega_bar = triple(bars.v_next, w, t)
    offset_bar = vec3()
    theta_bar = vec3()
    own_bar = vec3()
    if n == 6:
        x_bar = triple(bars.q_next, w, i - 3)
        v_bar = triple(bars.v_next, w, j)
        V_bar = h * x_bar + v_bar
        back = wp.transpose(s.R)
        a = back * x_bar
        b = back * V_bar
        a_next = wp.quat_rotate_inv(s.Q, a)
        b_next = wp.quat_rotate_inv(s.Q, back * v_bar)
        turn_bar -= wp.cross(s.offset, a_next) + wp.cross(s.orbit_next, b_next)
        omega_bar -= wp.cross(s.offset, b_next)
        own_bar = wp.cross(s.offset, b)
        theta_bar = wp.cross(s.offset, a) + wp.cross(s.orbit, b)
        offset_bar = a - a_next + wp.cross(b, s.omega) - wp.cross(b_next, s.omega_next)
        add_triple(bars.q, w, i - 3, x_bar)
        add_triple(bars.v, w, j, V_bar)
    zero = mat33()
    for k in range(3):
        change = vary_turn(s.J, s.rotor, h, s.omega, unit_axis(k), zero, zero)
        own_bar[k] = own_bar[k] + wp.dot(omega_bar, sp.angular(change)) + wp.dot(turn_bar, sp.linear(change))
    add_triple(bars.v, w, t, own_bar)
    theta_bar += wp.quat_rotate(s.Q, turn_bar)
    add_quaternion(bars.q, w, i, quaternion_gradient(q, w, i, theta_bar, False))
    if wants_any(bars.bodies) or bars.armature.shape[0] > 0:
        add_inertia_bars(topology, h, bodies, s, omega_bar, turn_bar, offset_bar, w, l, bars)
    for k in range(n + 1):
        bars.q_next[w, topology.link_q[l] + k] = real(0.0)
    return s


@kernel
def spin_adjoint(
    topology: Topology,
    h: real,
    bodies: Bodies,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # in and out
    bars: Bars,
):
    """Add the gradient of `spin`, and clear that of q' of spinning bodies. Launch over (worlds, links)."""
    w, l = wp.tid()
    kind = topology.link_type[l]
    j = topology.link_v[l]
    n = joints.dofs(kind)
    if not is_spinning(topology, h, v, w, l):
        for i in range(n):
            bars.v[w, j + i] = bars.v[w, j + i] + bars.v_next[w, j + i]
    else:
        _s = add_spin_bars(topology, h, bodies, q, v, w, l, bars)


@kernel(part="path")
def reverse_turn(
    topology: Topology,
    h: real,
    bodies: Bodies,
    start: wp.array2d(dtype=real),
    time: wp.array(dtype=real),
    way: wp.array2d(dtype=real),
    q_start: wp.array2d(dtype=real),
    v_bar: wp.array2d(dtype=real),
    # in and out
    bars: Bars,
    # out
    time_bar: wp.array(dtype=real),
):
    """Add the gradient of `turn_path`, and clear that of q of spinning bodies. `bars`: v is that of `way`; v_next is
    scratch. Launch over worlds."""
    w = wp.tid()
    share = per_time(time[w])
    by_time = real(0.0)
    for l in range(topology.link_type.shape[0]):
        if is_spinning(topology, h, start, w, l):
            j = topology.link_v[l]
            n = joints.dofs(topology.link_type[l])
            for k in range(n):
                bars.v_next[w, j + k] = share * v_bar[w, j + k]
            s = add_spin_bars(topology, h, bodies, q_start, way, w, l, bars)
            for k in range(n):
                bars.v[w, j + k] = bars.v[w, j + k] - share * v_bar[w, j + k]
            if n == 6:
                by_time -= wp.dot(triple(v_bar, w, j), s.R * (s.orbit - wp.quat_rotate(s.Q, s.orbit_next)))
            by_time -= wp.dot(triple(v_bar, w, j + n - 3), s.omega_next - s.omega)
    time_bar[w] = share * share * by_time


@kernel(part="path")
def turn_rate(
    topology: Topology,
    h: real,
    bodies: Bodies,
    start: wp.array2d(dtype=real),
    way: wp.array2d(dtype=real),
    # in and out
    rate: wp.array2d(dtype=real),
):
    """From the change of `way` by the time of a path to the joint velocities of spinning bodies at its end. Launch over
    (worlds, links)."""
    w, l = wp.tid()
    if is_spinning(topology, h, start, w, l):
        s = spinner(topology, h, bodies, way, w, l)
        n = joints.dofs(topology.link_type[l])
        j = topology.link_v[l]
        t = j + n - 3
        own = triple(rate, w, t)
        turn = sp.linear(vary_turn(s.J, s.rotor, h, s.omega, own, mat33(), mat33())) / h
        for k in range(3):
            rate[w, t + k] = turn[k]
        if n == 6:
            add_triple(rate, w, j, s.R * wp.cross(own, s.offset) - end_of(s, wp.cross(turn, s.offset)))


# Rows (δq', δv') of the Jacobians of a step for spinning bodies. The rows of δv' come in with δv of the solution.


@kernel
def spin_rows(topology: Topology, h: real, bodies: Bodies, v: wp.array2d(dtype=real), Y: wp.array3d(dtype=real)):
    """Rows of the columns in Y that do not change q. Launch over (worlds, links)."""
    w, l = wp.tid()
    if is_spinning(topology, h, v, w, l):
        s = spinner(topology, h, bodies, v, w, l)
        j = topology.link_v[l]
        n = joints.dofs(topology.link_type[l])
        t = j + n - 3
        nv = v.shape[1]
        zero = mat33()
        W = mat33()
        T = mat33()
        for e in range(3):
            change = vary_turn(s.J, s.rotor, h, s.omega, unit_axis(e), zero, zero)
            for i in range(3):
                W[i, e] = change[i]
                T[i, e] = change[3 + i]
        for column in range(Y.shape[2]):
            own = vec3(Y[w, nv + t, column], Y[w, nv + t + 1, column], Y[w, nv + t + 2, column])
            d_omega = W * own
            turn = T * own
            for i in range(3):
                Y[w, t + i, column] = turn[i]
                Y[w, nv + t + i, column] = d_omega[i]
            if n == 6:
                dv = vec3(Y[w, nv + j, column], Y[w, nv + j + 1, column], Y[w, nv + j + 2, column])
                dV = dv + s.R * wp.cross(own, s.offset)
                dx = h * dV - end_of(s, wp.cross(turn, s.offset))
                dv = dV - end_of(s, wp.cross(turn, s.orbit_next) + wp.cross(d_omega, s.offset))
                for i in range(3):
                    Y[w, j + i, column] = dx[i]
                    Y[w, nv + j + i, column] = dv[i]


@kernel
def spin_position(topology: Topology, h: real, bodies: Bodies, v: wp.array2d(dtype=real), A: wp.array3d(dtype=real)):
    """The effect of a change of q at a fixed solution. Launch over (worlds, links)."""
    w, l = wp.tid()
    if is_spinning(topology, h, v, w, l):
        s = spinner(topology, h, bodies, v, w, l)
        j = topology.link_v[l]
        n = joints.dofs(topology.link_type[l])
        t = j + n - 3
        nv = v.shape[1]
        for e in range(3):
            axis = unit_axis(e)
            turn = wp.quat_rotate_inv(s.Q, axis)
            for i in range(3):
                A[w, t + i, t + e] = A[w, t + i, t + e] + turn[i]
            if n == 6:
                dx = s.R * wp.cross(axis, h * s.orbit + s.offset) - end_of(s, wp.cross(turn, s.offset))
                dv = s.R * wp.cross(axis, s.orbit) - end_of(s, wp.cross(turn, s.orbit_next))
                A[w, j + e, j + e] = A[w, j + e, j + e] + real(1.0)
                for i in range(3):
                    A[w, j + i, t + e] = A[w, j + i, t + e] + dx[i]
                    A[w, nv + j + i, t + e] = A[w, nv + j + i, t + e] + dv[i]


@kernel
def spin_inertias(
    topology: Topology,
    h: real,
    bodies: Bodies,
    v: wp.array2d(dtype=real),
    inertias: Inertias,
    first: int,
    # in and out
    Y: wp.array3d(dtype=real),
):
    """The effect of inertial parameters at a fixed solution. Y has the columns of the parameters from `first` on.

    Launch over (worlds, columns).
    """
    w, column = wp.tid()
    carried = inertias.link[first + column]
    l = int(0)
    d = int(-1)
    if carried >= 0:
        l = lone_link(topology, topology.link_tree[carried])
    else:
        d = -1 - carried
        l = lone_link(topology, topology.link_tree[topology.dof_link[d]])
    if l >= 0:
        if is_spinning(topology, h, v, w, l) and (d >= 0 or topology.link_dof[carried] >= 0):
            s = spinner(topology, h, bodies, v, w, l)
            j = topology.link_v[l]
            n = joints.dofs(topology.link_type[l])
            t = j + n - 3
            nv = v.shape[1]
            dI = inertias.I[w, first + column]
            dJ = mat33()
            d_rotor = mat33()
            dc = vec3()
            if d >= t:
                d_rotor = s.unit * wp.outer(unit_axis(d - t), unit_axis(d - t))
            elif carried >= 0:
                dJ = s.unit * wp.transpose(s.R) * about(dI, s.pivot) * s.R
                if n == 6 and s.mass > real(0.0):
                    dc = wp.transpose(s.R) * ((vec3(dI[1], dI[2], dI[3]) - dI[0] * s.pivot) / s.mass)
            change = vary_turn(s.J, s.rotor, h, s.omega, vec3(), dJ, d_rotor)
            d_omega = sp.angular(change)
            turn = sp.linear(change)
            for i in range(3):
                Y[w, t + i, column] = Y[w, t + i, column] + turn[i]
                Y[w, nv + t + i, column] = Y[w, nv + t + i, column] + d_omega[i]
            if n == 6:
                dV = s.R * wp.cross(s.omega, dc)
                dx = h * dV + s.R * dc - end_of(s, wp.cross(turn, s.offset) + dc)
                swing = wp.cross(d_omega, s.offset) + wp.cross(s.omega_next, dc)
                dv = dV - end_of(s, wp.cross(turn, s.orbit_next) + swing)
                for i in range(3):
                    Y[w, j + i, column] = Y[w, j + i, column] + dx[i]
                    Y[w, nv + j + i, column] = Y[w, nv + j + i, column] + dv[i]
