# SPDX-License-Identifier: Apache-2.0
"""Scalar rows under MuJoCo's constraint law (theory §10): errors and Jacobians at q, then R, v̂ and bounds.

A stop acts where φ = distance − margin < 0. A connect or weld compares the origins of two frames A and B along the axes
of the world, each with the motion of its own body, and a weld also their rotation:

    φ = p_B − p_A,   φ = s vec(q_A* q_B),   s: the constraint's torquescale
    φ̇ = u_B(p_B) − u_A(p_A),   φ̇ = ½ s vec(q_A* (ω_B − ω_A) q_B)

Their v̂ contains J̇ v0, the rate of φ̇ without joint accelerations. The impedance of their rows depends on the norm of
all errors of the constraint. w is constant, or J M⁻¹Jᵀ with the option `diagexact`.
"""

import warp as wp

from ..laws.bounds import box_impulse
from ..laws.mujoco_law import SoftRow, impedance_at, reference_at, soft_row
from ..real import func, kernel, quat, real, struct, transform, vec3, vec4, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from ..tree.plant import Plant
from .coordinate_rows import coordinates_at, write_jacobian
from .dispatch import measure
from .frame_rows import end_frame, is_inactive, reference_link
from .frames import relative_quaternion, vector_part
from .kinds.kind import BETWEEN, ELSEWHERE, ONE_SIDED, YIELDS
from .line_rows import LineRows, line_coordinates, write_slopes
from .table import CONSTRAINT, JOINT, TENDON, Constants, Rows, Table, keep_law, row_rate
from .weights import effective_weight


@struct
class Soft:
    """What the law reads besides `Table` and `Constants`. Parameters have one row for all worlds or one per world."""

    weight: wp.array(dtype=real)  # (n,) approximate inverse mass
    exact: wp.array2d(dtype=real)  # (worlds, n) the inverse mass J M⁻¹Jᵀ (`diagexact`); no columns: `weight` holds
    first: wp.array(dtype=int)  # (n,) first row of the constraint, as is the next
    size: wp.array(dtype=int)  # number of its rows: 3 of a connect, 6 of a weld, else 1
    bodies: wp.array(dtype=int)  # (connects and welds,) their first rows
    refsafe: int
    joint_solref: wp.array3d(dtype=real)
    joint_solimp: wp.array3d(dtype=real)
    joint_margin: wp.array2d(dtype=real)
    joint_friction_solref: wp.array3d(dtype=real)
    joint_friction_solimp: wp.array3d(dtype=real)
    tendon_solref: wp.array3d(dtype=real)
    tendon_solimp: wp.array3d(dtype=real)
    tendon_margin: wp.array2d(dtype=real)
    tendon_friction_solref: wp.array3d(dtype=real)
    tendon_friction_solimp: wp.array3d(dtype=real)
    constraint_solref: wp.array3d(dtype=real)
    constraint_solimp: wp.array3d(dtype=real)
    constraint_torquescale: wp.array2d(dtype=real)


@func
def margin_of(table: Table, soft: Soft, w: int, k: int) -> real:
    """The margin of a stop, 0 of other rows."""
    found = real(0.0)
    if (table.traits[k] & ONE_SIDED) != 0:
        if table.owner[k] == JOINT:
            found = soft.joint_margin[w % soft.joint_margin.shape[0], table.element[k]]
        else:
            found = soft.tendon_margin[w % soft.tendon_margin.shape[0], table.element[k]]
    return found


@kernel(twin=True)
def coordinate_errors(
    table: Table,
    constants: Constants,
    soft: Soft,
    rows: Rows,
    q: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ and J of the rows on coordinates at q. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & ELSEWHERE) == 0:
        at = coordinates_at(table, constants, rows, q, q, real(0.0), w, k)
        found = measure(table.kind[k], at)
        phi[w, k] = found[0] - margin_of(table, soft, w, k)
        write_jacobian(table, rows, at, found, w, k, J)


@kernel(twin=True, part="lines")
def line_errors(
    table: Table,
    constants: Constants,
    soft: Soft,
    rows: Rows,
    on: LineRows,
    length: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    q: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ and J of the rows on lines at q. Launch over (worlds, rows on lines)."""
    w, i = wp.tid()
    k = on.row[i]
    found = measure(table.kind[k], line_coordinates(table, constants, rows, on, length, q, w, i))
    phi[w, k] = found[0] - margin_of(table, soft, w, k)
    write_slopes(table, rows, on, moment, found, w, i, J)


@func
def pure(x: vec3) -> quat:
    return quat(x[0], x[1], x[2], real(0.0))


@func
def between(q_A: quat, x: quat, q_B: quat) -> vec3:
    """vec(q_A* x q_B)."""
    found = wp.quat_inverse(q_A) * x * q_B
    return vec3(found[0], found[1], found[2])


@func
def end_velocity(
    topology: Topology, table: Table, link_X: wp.array2d(dtype=transform), link_V: wp.array2d(dtype=vec6),
    point: vec3, w: int, k: int, end: int,
) -> vec6:  # fmt: skip
    """Angular velocity, and velocity of the point, of the link at an end of row k."""
    found = vec6()
    if table.link[k, end] >= 0:
        l = table.link[k, end]
        V = link_V[w, l]
        o = wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[l]]])
        found = sp.join(sp.angular(V), sp.velocity_at(V, point - o))
    return found


@func
def half_scale(table: Table, soft: Soft, w: int, k: int) -> real:
    """s/2 of the constraint of row k."""
    return real(0.5) * soft.constraint_torquescale[w % soft.constraint_torquescale.shape[0], table.element[k]]


@func
def turns(topology: Topology, d: int) -> bool:
    """Whether the motion of dof d turns with its link; the first three of a free joint do not."""
    l = topology.dof_link[d]
    return topology.link_type[l] != joints.FREE or d - topology.link_v[l] > 2


@func
def wrench_on_B(
    table: Table, soft: Soft, X_A: transform, X_B: transform, gamma: wp.array2d(dtype=real), w: int, k: int
) -> vec6:  # fmt: skip
    """Torque and force at the origin of B by the impulses of a connect or weld; A has the opposite at its origin."""
    force = vec3(gamma[w, k], gamma[w, k + 1], gamma[w, k + 2])
    torque = vec3(real(0.0), real(0.0), real(0.0))
    if soft.size[k] > 3:
        turn = vec3(gamma[w, k + 3], gamma[w, k + 4], gamma[w, k + 5])
        Q = relative_quaternion(X_A, X_B)
        around = Q[3] * turn + wp.cross(vector_part(Q), turn)
        torque = half_scale(table, soft, w, k) * wp.quat_rotate(wp.transform_get_rotation(X_A), around)
    return sp.join(torque, force)


@kernel(twin=True, part="bodies")
def body_errors(
    topology: Topology,
    table: Table,
    soft: Soft,
    rows: Rows,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    link_V: wp.array2d(dtype=vec6),
    v0: wp.array2d(dtype=real),
    # in and out
    shift: wp.array2d(dtype=real),
    # out
    phi: wp.array2d(dtype=real),
    J: wp.array3d(dtype=real),
):
    """φ and J at q, and shift += J̇ v0, of connects and welds. Launch over (worlds, connects and welds)."""
    w, i = wp.tid()
    k = soft.bodies[i]
    X_A = end_frame(table, link_X, w, k, 0)
    X_B = end_frame(table, link_X, w, k, 1)
    p_A = wp.transform_get_translation(X_A)
    p_B = wp.transform_get_translation(X_B)
    q_A = wp.transform_get_rotation(X_A)
    q_B = wp.transform_get_rotation(X_B)
    half = half_scale(table, soft, w, k)
    V_A = end_velocity(topology, table, link_X, link_V, p_A, w, k, 0)
    V_B = end_velocity(topology, table, link_X, link_V, p_B, w, k, 1)
    w_A = sp.angular(V_A)
    w_B = sp.angular(V_B)
    apart = p_B - p_A
    faster = wp.cross(w_B, sp.linear(V_B)) - wp.cross(w_A, sp.linear(V_A))
    for e in range(3):
        phi[w, k + e] = apart[e]
        shift[w, k + e] += faster[e]
    if soft.size[k] > 3:
        turn = real(2.0) * half * between(q_A, quat(real(0.0), real(0.0), real(0.0), real(1.0)), q_B)
        more = pure(w_B - w_A)
        spin = half * real(0.5) * between(q_A, more * pure(w_B) - pure(w_A) * more, q_B)
        for e in range(3):
            phi[w, k + 3 + e] = turn[e]
            shift[w, k + 3 + e] += spin[e]
    for j in range(rows.support_size[k]):
        d = rows.support[k, j]
        a = table.a[k, j]
        b = table.b[k, j]
        o = wp.transform_get_translation(link_X[w, reference_link(topology, d)])
        S = dof_S[w, d]
        rate = vec6()
        if turns(topology, d):
            rate = sp.cross_motion(link_V[w, topology.dof_link[d]], S) * v0[w, d]
        u = b * sp.velocity_at(S, p_B - o) - a * sp.velocity_at(S, p_A - o)
        more_u = b * sp.velocity_at(rate, p_B - o) - a * sp.velocity_at(rate, p_A - o)
        for e in range(3):
            J[w, k + e, j] = u[e]
            shift[w, k + e] += more_u[e]
        if soft.size[k] > 3:
            t = half * between(q_A, pure((b - a) * sp.angular(S)), q_B)
            more_t = half * between(q_A, pure((b - a) * sp.angular(rate)), q_B)
            for e in range(3):
                J[w, k + 3 + e, j] = t[e]
                shift[w, k + 3 + e] += more_t[e]


@func
def error_norm(soft: Soft, phi: wp.array2d(dtype=real), w: int, k: int) -> real:
    """The norm of all errors of the constraint of row k; of a constraint of one row its error."""
    n = soft.first[k]
    found = phi[w, k]
    if soft.size[k] > 1:
        apart = vec3(phi[w, n], phi[w, n + 1], phi[w, n + 2])
        turn = vec3(real(0.0), real(0.0), real(0.0))
        if soft.size[k] > 3:
            turn = vec3(phi[w, n + 3], phi[w, n + 4], phi[w, n + 5])
        square = wp.dot(apart, apart) + wp.dot(turn, turn)
        found = real(0.0)
        if square > real(0.0):
            found = wp.sqrt(square)
    return found


@func
def law_of(
    table: Table, constants: Constants, soft: Soft, h: real, phi: wp.array2d(dtype=real),
    shift: wp.array2d(dtype=real), rate0: real, w: int, k: int,
) -> vec4:  # fmt: skip
    """(R, v̂, lower, upper) of row k."""
    i = table.element[k]
    s = SoftRow()
    s.h = h
    s.refsafe = soft.refsafe
    s.weight = soft.weight[k]
    if soft.exact.shape[1] > 0:
        s.weight = soft.exact[w, k]
    s.rate0 = rate0
    low = real(-wp.inf)
    high = real(wp.inf)
    if (table.traits[k] & YIELDS) != 0:
        if table.owner[k] == JOINT:
            high = h * constants.joint_friction[w % constants.joint_friction.shape[0], i]
            s.solref = reference_at(soft.joint_friction_solref, w, i)
            s.solimp = impedance_at(soft.joint_friction_solimp, w, i)
        else:
            high = h * constants.tendon_friction[w % constants.tendon_friction.shape[0], i]
            s.solref = reference_at(soft.tendon_friction_solref, w, i)
            s.solimp = impedance_at(soft.tendon_friction_solimp, w, i)
        low = -high
    else:
        s.phi = phi[w, k]
        s.error = error_norm(soft, phi, w, k)
        if table.owner[k] == CONSTRAINT:
            s.solref = reference_at(soft.constraint_solref, w, i)
            s.solimp = impedance_at(soft.constraint_solimp, w, i)
            if soft.size[k] > 1:
                s.shift = shift[w, k]
        else:
            low = real(0.0)
            if table.owner[k] == TENDON:
                s.solref = reference_at(soft.tendon_solref, w, i)
                s.solimp = impedance_at(soft.tendon_solimp, w, i)
            else:
                s.solref = reference_at(soft.joint_solref, w, i)
                s.solimp = impedance_at(soft.joint_solimp, w, i)
    law = soft_row(s)
    return vec4(law[0], law[1], low, high)


@kernel(part="exact")
def exact_weights(
    topology: Topology,
    rows: Rows,
    M_factor: wp.array3d(dtype=real),
    # scratch
    z: wp.array2d(dtype=vec3),
    # out
    weight: wp.array2d(dtype=real),
):
    """J M⁻¹Jᵀ of every row. Launch over worlds."""
    w = wp.tid()
    for k in range(weight.shape[1]):
        weight[w, k] = effective_weight(topology, M_factor, z, w, rows, k)


@kernel
def regularise(
    topology: Topology,
    table: Table,
    constants: Constants,
    soft: Soft,
    plant: Plant,
    h: real,
    v0: wp.array2d(dtype=real),
    phi: wp.array2d(dtype=real),
    shift: wp.array2d(dtype=real),
    # out
    rows: Rows,
):
    """R, v̂ and bounds of every row; R = 0 if it does not act. Launch over (worlds, rows)."""
    w, k = wp.tid()
    rows.R[w, k] = real(0.0)
    acts = bool(True)
    if (table.traits[k] & ONE_SIDED) != 0:
        acts = not (phi[w, k] >= real(0.0))  # a NaN acts, so that it is noticed
    elif (table.traits[k] & BETWEEN) != 0:
        acts = not is_inactive(topology, table, plant, w, k)
    if acts:
        law = law_of(table, constants, soft, h, phi, shift, row_rate(rows, v0, w, k), w, k)
        if (table.traits[k] & YIELDS) == 0 or law[3] > real(0.0):
            keep_law(rows, law, w, k)


@kernel(taped=True)
def row_impulse(
    table: Table,
    constants: Constants,
    soft: Soft,
    rows: Rows,
    h: real,
    phi: wp.array2d(dtype=real),
    shift: wp.array2d(dtype=real),
    rate: wp.array2d(dtype=real),
    rate0: wp.array2d(dtype=real),
    # out
    gamma: wp.array2d(dtype=real),
):
    """γ from the rates at v and v0. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if rows.R[w, k] > real(0.0):
        law = law_of(table, constants, soft, h, phi, shift, rate0[w, k], w, k)
        gamma[w, k] = box_impulse((law[1] - rate[w, k]) / law[0], law[2], law[3])
