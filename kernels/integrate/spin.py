# SPDX-License-Identifier: Apache-2.0
"""Spinning bodies: a tree of one rigid body on a free or ball joint keeps momentum and energy as it turns (theory §2).

Symplectic Euler takes such a body, while it turns, in two parts. First forces and contact act on v as on any tree, but
without the bias of the body's own rotation. Then the body moves freely for h, from the solution v to v':

    J (ω_m − ω) + ½ h s ω_m × J ω_m = 0,   ω' = 2 ω_m − ω,   R' = R cay(h s ω_m),   s = tan(x)/x,  x = ½ h ‖ω_m‖

with J the inertia about the center of mass, or about the anchor of a ball joint. R' J ω' = R J ω and ω'·J ω' = ω·J ω
hold for any s; this s turns a body about a principal axis by h ω. The center of mass keeps its velocity.

A body that turns by more than `LARGEST` moves in several parts. Below `SMALLEST` the free motion equals v' = v, q' = q
(+) h v in floating point, and a body at rest takes that simpler way.
"""

import warp as wp

from ..linalg.lanes import lane, lanes
from ..real import func, kernel, mat33, quat, real, struct, transform, vec3, vec6, vec10
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant

SMALLEST = {
    wp.float32: 3.0e-4,
    wp.float64: 1.0e-8,
}  # [rad] per step, below which a body counts as not turning
LARGEST = 0.95  # [rad] per part
PARTS = 64
SEARCH = 12  # Newton iterations; from ω it takes up to 6
smallest = wp.constant(real(SMALLEST[real]))
unit_of_rounding = wp.constant(real({wp.float32: 1.2e-7, wp.float64: 2.3e-16}[real]))


@func
def lone_link(topology: Topology, tree: int) -> int:
    """The link whose free or ball joint is the only moving joint of a tree; −1 if there is none."""
    found = int(-1)
    first = topology.tree_v[tree]
    n = topology.tree_v[tree + 1] - first
    if n == 6 or n == 3:
        l = topology.dof_link[first]
        kind = topology.link_type[l]
        if (kind == joints.FREE and n == 6) or (kind == joints.BALL and n == 3):
            found = l
    return found


@func
def spin_of(kind: int, v: wp.array2d(dtype=real), w: int, j: int) -> vec3:
    """Angular velocity in body axes, for a free or ball joint whose degrees of freedom start at j."""
    i = j
    if kind == joints.FREE:
        i = j + 3
    return vec3(v[w, i], v[w, i + 1], v[w, i + 2])


@func
def turns(h: real, omega: vec3) -> bool:
    """Whether a body turns enough within a step."""
    return h * h * wp.dot(omega, omega) >= smallest * smallest


@func
def is_spinning(topology: Topology, h: real, v: wp.array2d(dtype=real), w: int, l: int) -> bool:
    """Whether link l belongs to a single body that turns at v."""
    found = bool(False)
    kind = topology.link_type[l]
    if kind == joints.FREE or kind == joints.BALL:
        if lone_link(topology, topology.link_tree[l]) == l:
            found = turns(h, spin_of(kind, v, w, topology.link_v[l]))
    return found


@func
def team_leave_spin(
    topology: Topology,
    h: real,
    gravity: wp.array(dtype=vec3),
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    v: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # in and out
    bias: wp.array2d(dtype=real),
):
    """Set the bias of a spinning body to that of gravity alone. By all lanes, before a `sync`."""
    l = lone_link(topology, tree)
    if l >= 0:
        if is_spinning(topology, h, v, w, l):
            f = sp.momentum(composite[w, l], sp.join(vec3(), -gravity[w % gravity.shape[0]]))
            for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
                bias[w, d] = wp.dot(dof_S[w, d], f)


@func
def team_leave_spin_again(
    topology: Topology, h: real, gravity: wp.array(dtype=vec3), dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10), v: wp.array2d(dtype=real), w: int, tree: int, bias: wp.array2d(dtype=real),
):  # fmt: skip
    """`team_leave_spin` without the composite inertias."""
    l = lone_link(topology, tree)
    if l >= 0:
        if is_spinning(topology, h, v, w, l):
            I = whole_inertia(topology, link_I, w, l)
            f = sp.momentum(I, sp.join(vec3(), -gravity[w % gravity.shape[0]]))
            for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
                bias[w, d] = wp.dot(dof_S[w, d], f)


@kernel(lanes=True)
def leave_spin(
    topology: Topology,
    h: real,
    gravity: wp.array(dtype=vec3),
    dof_S: wp.array2d(dtype=vec6),
    composite: wp.array2d(dtype=vec10),
    v: wp.array2d(dtype=real),
    # in and out
    bias: wp.array2d(dtype=real),
):
    """`team_leave_spin` for all trees. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    team_leave_spin(topology, h, gravity, dof_S, composite, v, w, tree, bias)


@kernel(twin=True)
def still_velocity(topology: Topology, h: real, v: wp.array2d(dtype=real), still: wp.array2d(dtype=real)):
    """v with zeros for spinning bodies. The bias at it is that of `leave_spin`. Launch over (worlds, nv)."""
    w, d = wp.tid()
    l = topology.dof_link[d]
    if is_spinning(topology, h, v, w, l):
        still[w, d] = real(0.0)
    else:
        still[w, d] = v[w, d]


# The free motion of one body. `J` is in units of the trace of the inertia that multiplies ω; `rotor` is the diagonal
# armature in the same units.


@func
def stretch(h: real, omega: vec3) -> real:
    """s = tan(x)/x, x = ½ h ‖ω‖, by a series: exact to 1e-8 at x = 0.25 and to 1e-5 at 0.5; constant beyond x = 1."""
    y = wp.min(real(0.25) * h * h * wp.dot(omega, omega), real(1.0))
    high = real(17.0) / real(315.0) + y * (real(62.0) / real(2835.0))
    return real(1.0) + y * (real(1.0) / real(3.0) + y * (real(2.0) / real(15.0) + y * high))


@func
def stretch_slope(h: real, omega: vec3) -> vec3:
    """ds/dω."""
    y = real(0.25) * h * h * wp.dot(omega, omega)
    high = real(51.0) / real(315.0) + y * (real(248.0) / real(2835.0))
    slope = real(1.0) / real(3.0) + y * (real(4.0) / real(15.0) + y * high)
    if y > real(1.0):
        slope = real(0.0)
    return real(0.5) * h * h * slope * omega


@func
def spin_slope(J: mat33, rotor: mat33, h: real, mean: vec3) -> mat33:
    """Derivative of the equation of ω_m with respect to ω_m."""
    s = stretch(h, mean)
    L = J * mean
    turning = s * (wp.skew(mean) * J - wp.skew(L)) + wp.outer(wp.cross(mean, L), stretch_slope(h, mean))
    return J + rotor + real(0.5) * h * turning


@func
def mean_spin(J: mat33, rotor: mat33, h: real, omega: vec3) -> vec3:
    """ω_m of one part of h, by Newton's method from ω."""
    mean = omega
    L = (J + rotor) * omega
    enough = real(2.0) * unit_of_rounding * wp.length(L)
    last = real(0.0)
    steps = int(SEARCH)
    for k in range(steps):
        r = (J + rotor) * (mean - omega) + real(0.5) * h * stretch(h, mean) * wp.cross(mean, J * mean)
        n = wp.length(r)
        if n <= enough or (k > 2 and n > real(0.5) * last):
            break
        last = n
        mean = mean - wp.inverse(spin_slope(J, rotor, h, mean)) * r
    return mean


@func
def half_turn(h: real, mean: vec3) -> vec3:
    """u of the rotation (1, u)/‖(1, u)‖ over one part of h."""
    return real(0.5) * h * stretch(h, mean) * mean


@func
def count_parts(h: real, omega: vec3) -> int:
    """Number of parts of a step."""
    return 1 + int(wp.min(h * wp.length(omega) / real(LARGEST), real(PARTS - 1)))


@func
def turn_freely(J: mat33, rotor: mat33, h: real, omega: vec3) -> transform:
    """(ω', rotation in body axes) after h."""
    n = count_parts(h, omega)
    part = h / real(n)
    turned = quat(real(0.0), real(0.0), real(0.0), real(1.0))
    now = omega
    for _k in range(n):
        mean = mean_spin(J, rotor, part, now)
        u = half_turn(part, mean)
        turned = turned * wp.normalize(quat(u[0], u[1], u[2], real(1.0)))
        now = real(2.0) * mean - now
    return transform(now, turned)


@func
def vary_turn(J: mat33, rotor: mat33, h: real, omega: vec3, d_omega: vec3, dJ: mat33, d_rotor: mat33) -> vec6:
    """(δω', δ of the rotation, in the axes at the end) of `turn_freely`, along changes of ω, J and rotor."""
    n = count_parts(h, omega)
    part = h / real(n)
    now = omega
    change = d_omega
    turning = vec3()
    for _k in range(n):
        mean = mean_spin(J, rotor, part, now)
        s = stretch(part, mean)
        r = (J + rotor) * change - (dJ + d_rotor) * (mean - now)
        r -= real(0.5) * part * s * wp.cross(mean, dJ * mean)
        d_mean = wp.inverse(spin_slope(J, rotor, part, mean)) * r
        u = half_turn(part, mean)
        du = real(0.5) * part * (s * d_mean + wp.dot(stretch_slope(part, mean), d_mean) * mean)
        back = wp.normalize(quat(-u[0], -u[1], -u[2], real(1.0)))
        own = (real(2.0) / (real(1.0) + wp.dot(u, u))) * (du - wp.cross(u, du))
        turning = wp.quat_rotate(back, turning) + own
        change = real(2.0) * d_mean - change
        now = real(2.0) * mean - now
    return sp.join(change, turning)


# The body of a link: the inertias about o of all that moves with it.


@func
def whole_inertia(topology: Topology, link_I: wp.array2d(dtype=vec10), w: int, l: int) -> vec10:
    """The inertia about o of everything that is welded to a single body."""
    I = link_I[w, l]
    for k in range(l + 1, topology.tree_link[topology.link_tree[l] + 1]):
        if topology.link_dof[k] >= 0:  # not welded to its parent
            I += link_I[w, k]
    return I


@func
def centre_of(I: vec10) -> vec3:
    """The center of mass from o; o where there is no mass."""
    c = vec3()
    if I[0] > real(0.0):
        c = vec3(I[1], I[2], I[3]) / I[0]
    return c


@func
def pivot_of(
    topology: Topology, joint_anchor: wp.array(dtype=vec3), link_X: wp.array2d(dtype=transform), I: vec10, w: int,
    l: int,
) -> vec3:  # fmt: skip
    """The point that a body turns about, from o: its center of mass, or the anchor of a ball joint."""
    a = centre_of(I)
    if topology.link_type[l] == joints.BALL:
        anchor = wp.transform_point(link_X[w, l], joint_anchor[topology.link_joint[l]])
        a = anchor - reference_point(topology, link_X, w, l)
    return a


@func
def about(I: vec10, a: vec3) -> mat33:
    """The rotational inertia about a, from an inertia about o."""
    h = vec3(I[1], I[2], I[3])
    J = mat33(I[4], I[7], I[8], I[7], I[5], I[9], I[8], I[9], I[6])
    shift = I[0] * wp.dot(a, a) - real(2.0) * wp.dot(h, a)
    return J + shift * wp.identity(3, real) - I[0] * wp.outer(a, a) + wp.outer(h, a) + wp.outer(a, h)


@func
def rotors(armature: wp.array2d(dtype=real), w: int, j: int) -> mat33:
    """Armature of the three rotations whose degrees of freedom start at j."""
    row = w % armature.shape[0]
    return wp.diag(vec3(armature[row, j], armature[row, j + 1], armature[row, j + 2]))


@struct
class Bodies:
    """The arrays that `spinner` reads."""

    plant: Plant
    link_X: wp.array2d(dtype=transform)
    link_I: wp.array2d(dtype=vec10)


@struct
class Spinner:
    """A single body and its motion in a step."""

    mass: real
    unit: real  # scale that J and rotor are multiplied by
    J: mat33  # about `pivot`, in body axes
    rotor: mat33
    pivot: vec3  # from o
    offset: vec3  # center of mass from the origin of a free joint, in body axes; 0 for a ball joint
    R: mat33  # body axes
    omega: vec3
    orbit: vec3  # ω × offset
    Q: quat  # R' = R Q
    omega_next: vec3
    orbit_next: vec3


@func
def spinner(topology: Topology, h: real, bodies: Bodies, v: wp.array2d(dtype=real), w: int, l: int) -> Spinner:
    """The body of link l and its free motion."""
    kind = topology.link_type[l]
    j = topology.link_v[l]
    I = whole_inertia(topology, bodies.link_I, w, l)
    s = Spinner()
    s.mass = I[0]
    s.pivot = pivot_of(topology, bodies.plant.joint_anchor, bodies.link_X, I, w, l)
    s.R = wp.quat_to_matrix(wp.transform_get_rotation(bodies.link_X[w, l]))
    s.omega = spin_of(kind, v, w, j)
    if kind == joints.FREE:
        j += 3
        origin = wp.transform_get_translation(bodies.link_X[w, l]) - reference_point(topology, bodies.link_X, w, l)
        s.offset = wp.transpose(s.R) * (s.pivot - origin)
    J = wp.transpose(s.R) * about(I, s.pivot) * s.R
    rotor = rotors(bodies.plant.joint_armature, w, j)
    s.unit = real(1.0) / (wp.trace(J) + wp.trace(rotor))
    s.J = s.unit * J
    s.rotor = s.unit * rotor
    moved = turn_freely(s.J, s.rotor, h, s.omega)
    s.omega_next = wp.transform_get_translation(moved)
    s.Q = wp.transform_get_rotation(moved)
    s.orbit = wp.cross(s.omega, s.offset)
    s.orbit_next = wp.cross(s.omega_next, s.offset)
    return s


@kernel
def spin(
    topology: Topology,
    h: real,
    bodies: Bodies,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    q_next: wp.array2d(dtype=real),
    v_next: wp.array2d(dtype=real),
):
    """v' = v, except for spinning bodies: their free motion for h gives q' and v'. Launch over (worlds, links)."""
    w, l = wp.tid()
    kind = topology.link_type[l]
    j = topology.link_v[l]
    for i in range(joints.dofs(kind)):
        v_next[w, j + i] = v[w, j + i]
    if is_spinning(topology, h, v, w, l):
        s = spinner(topology, h, bodies, v, w, l)
        i = topology.link_q[l]
        if kind == joints.FREE:
            dx = s.R * (h * s.orbit + (s.offset - wp.quat_rotate(s.Q, s.offset)))
            dv = s.R * (s.orbit - wp.quat_rotate(s.Q, s.orbit_next))
            for k in range(3):
                q_next[w, i + k] = q[w, i + k] + h * v[w, j + k] + dx[k]
                v_next[w, j + k] = v[w, j + k] + dv[k]
            i += 3
            j += 3
        joints.write_turned(q, w, i, s.Q, q_next)
        for k in range(3):
            v_next[w, j + k] = s.omega_next[k]


@kernel(part="path")
def turn_path(
    topology: Topology,
    h: real,
    bodies: Bodies,
    start: wp.array2d(dtype=real),
    time: wp.array(dtype=real),
    way: wp.array2d(dtype=real),
    q_start: wp.array2d(dtype=real),
    # in and out
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
):
    """(q, v) of bodies that spin at the velocity `start`, after h `time` along a path (theory (2.8)).

    q is that of the free motion at the velocity way/time, and v gains the change of velocity in it. Launch over
    (worlds, links).
    """
    w, l = wp.tid()
    if is_spinning(topology, h, start, w, l):
        s = spinner(topology, h, bodies, way, w, l)
        share = per_time(time[w])
        i = topology.link_q[l]
        j = topology.link_v[l]
        if topology.link_type[l] == joints.FREE:
            dx = s.R * (h * s.orbit + (s.offset - wp.quat_rotate(s.Q, s.offset)))
            dv = share * (s.R * (s.orbit - wp.quat_rotate(s.Q, s.orbit_next)))
            for k in range(3):
                q[w, i + k] = q_start[w, i + k] + h * way[w, j + k] + dx[k]
                v[w, j + k] = v[w, j + k] + dv[k]
            i += 3
            j += 3
        joints.write_turned(q_start, w, i, s.Q, q)
        for k in range(3):
            v[w, j + k] = v[w, j + k] + share * (s.omega_next[k] - s.omega[k])


@func
def per_time(time: real) -> real:
    """1/time; 0 at 0, where the path begins."""
    share = real(0.0)
    if time > real(0.0):
        share = real(1.0) / time
    return share


@kernel(twin=True, part="mean")
def mean_position(
    topology: Topology, h: real, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), q_next: wp.array2d(dtype=real)
):
    """q_next = q (+) h v in the midpoint rule.

    Single bodies turn by cay(h v) instead: with this turn, the equation of ω of the midpoint rule keeps R J ω. Launch
    over (worlds, links).
    """
    w, l = wp.tid()
    if is_spinning(topology, h, v, w, l):
        kind = topology.link_type[l]
        i = topology.link_q[l]
        j = topology.link_v[l]
        if kind == joints.FREE:
            for k in range(3):
                q_next[w, i + k] = q[w, i + k] + h * v[w, j + k]
            i += 3
        u = real(0.5) * h * spin_of(kind, v, w, j)
        joints.write_turned(q, w, i, wp.normalize(quat(u[0], u[1], u[2], real(1.0))), q_next)
    else:
        joints.advance(topology.link_type[l], q, v, h, w, topology.link_q[l], topology.link_v[l], q_next)
