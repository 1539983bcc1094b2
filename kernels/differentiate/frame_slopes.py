# SPDX-License-Identifier: Apache-2.0
"""Exact `RowSlopes` (`row_slopes.py`) of the rows between frames: how they change with the state.

    γ = −(J v − v̂(φ))/R,   φ = φ(q ⊕ h v0) − h J(q) v0:
    ∂φ/∂q_e = J'_e ∂q'/∂q − h ∂J/∂q_e v0,   ∂φ/∂v0_e = J'_e ∂q'/∂v0 − h J_e

J' is the Jacobian at the position that v0 leads to. J_i = s_i a · m_i with an axis a and the motion m_i of dof i about
B's origin p, and

    ∂J_i/∂q_e = s_i (δa · m_i + a · δm_i),   δm_i = S_e × S_i where i turns with e, and ω_i × δp for velocities.

p moves with B. `dispatch.axis_slope` gives the change of a · m with B. A motion of A and B together turns a by ω, which
gives A's motions. The least weight Σ_i c_i/M_ii of a row between bodies changes with c_i and, for e below i, by ∂M_ii =
−2 (S_e × S_i) · I_e S_i, with I_e the inertia of e's subtree.
"""

import warp as wp

from ..real import func, kernel, mat33, real, struct, transform, vec3, vec6, vec10
from ..rows import dispatch, frame_rows
from ..rows.frame_rows import end_frame, frames_of
from ..rows.kinds.kind import ANGULAR, BETWEEN
from ..rows.table import Constants, FrameMotion, Rows, Table
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology
from .contact_slopes import arm_of, first_turning, shifted
from .row_slopes import RowSlopes
from .weight_slopes import Inertias, Weights, add_row, next_tree, tree_of


@struct
class Place:
    """Kinematics at one position."""

    link_X: wp.array2d(dtype=transform)
    dof_S: wp.array2d(dtype=vec6)


@func
def motion_of(topology: Topology, place: Place, w: int, d: int, point: vec3) -> vec6:
    """Motion of a dof about `point`."""
    return shifted(place.dof_S[w, d], arm_of(topology, place.link_X, w, topology.dof_link[d], point))


@func
def lead(topology: Topology, d: int, v0: wp.array2d(dtype=real), h: real, w: int) -> mat33:
    """The rotation exp(h v0) of the joint of a dof, which is a ball joint's or a free joint's rotation."""
    j = first_turning(topology, d)
    return wp.quat_to_matrix(joints.quaternion_exp(h * vec3(v0[w, j], v0[w, j + 1], v0[w, j + 2])))


@func
def turns_in_three(topology: Topology, d: int) -> bool:
    """Whether a dof is a rotation of a ball or free joint."""
    l = topology.dof_link[d]
    kind = topology.link_type[l]
    return kind == joints.BALL or (kind == joints.FREE and d >= topology.link_v[l] + 3)


@func
def follow(topology: Topology, rows: Rows, k: int, v0: wp.array2d(dtype=real), h: real, w: int, slopes: RowSlopes):
    """From J' in gamma_v to J' ∂q'/∂q in gamma_q and J' ∂q'/∂v0 in gamma_v."""
    e = int(0)
    while e < rows.support_size[k]:
        d = rows.support[k, e]
        if turns_in_three(topology, d):
            J = vec3(slopes.gamma_v[w, k, e], slopes.gamma_v[w, k, e + 1], slopes.gamma_v[w, k, e + 2])
            by_q = lead(topology, d, v0, h, w) * J  # (exp(h v0)ᵀ)ᵀ
            by_v = h * wp.transpose(joints.rotation_dexp(h * vec3(v0[w, d], v0[w, d + 1], v0[w, d + 2]))) * J
            for m in range(3):
                slopes.gamma_q[w, k, e + m] = by_q[m]
                slopes.gamma_v[w, k, e + m] = by_v[m]
            e += 3
        else:
            slopes.gamma_q[w, k, e] = slopes.gamma_v[w, k, e]
            slopes.gamma_v[w, k, e] = h * slopes.gamma_v[w, k, e]
            e += 1


@kernel
def frame_row_slopes(
    topology: Topology,
    table: Table,
    constants: Constants,
    rows: Rows,
    h: real,
    here: Place,
    ahead: Place,
    v0: wp.array2d(dtype=real),
    # in and out
    slopes: RowSlopes,
):
    """Slopes of every row between frames, after `law_slopes`. Launch over (worlds, rows)."""
    w, k = wp.tid()
    if (table.traits[k] & BETWEEN) == 0 or not (rows.R[w, k] > real(0.0)):
        return
    size = rows.support_size[k]
    # How J at q changes with each degree of freedom.
    X = frames_of(table, constants, here.link_X, w, k)
    axis = dispatch.geometry(table.kind[k], X).axis
    point = wp.transform_get_translation(X.B)
    for j in range(size):
        d = rows.support[k, j]
        own = motion_of(topology, here, w, d, point)
        given = FrameMotion()
        given.X = X
        given.motion = own
        by_b = dispatch.axis_slope(table.kind[k], given)
        for e in range(size):
            d_e = rows.support[k, e]
            twist = motion_of(topology, here, w, d_e, point)
            omega = sp.angular(twist)
            slope = wp.dot(by_b, twist)  # of a · m, through a
            delta_p = sp.linear(twist)
            if table.a[k, e] < real(0.0):  # A moves: A and B together, minus B
                delta_p = vec3()
                moved_axis = sp.join(wp.cross(omega, sp.angular(axis)), wp.cross(omega, sp.linear(axis)))
                slope = wp.dot(moved_axis, own) - slope
            change = sp.join(vec3(), wp.cross(sp.angular(own), delta_p))
            if d >= first_turning(topology, d_e) and table.a[k, j] == table.a[k, e]:
                change += sp.cross_motion(twist, own)
            slopes.J_q[w, k, j, e] = table.a[k, j] * (slope + wp.dot(axis, change))
    row = dispatch.geometry(table.kind[k], frames_of(table, constants, ahead.link_X, w, k))
    tip = wp.transform_get_translation(end_frame(table, ahead.link_X, w, k, 1))
    for e in range(size):
        motion = motion_of(topology, ahead, w, rows.support[k, e], tip)
        slopes.gamma_v[w, k, e] = table.a[k, e] * wp.dot(row.axis, motion)
    follow(topology, rows, k, v0, h, w, slopes)
    by = slopes.law[w, k]
    for e in range(size):
        turned = real(0.0)
        for j in range(size):
            turned += slopes.J_q[w, k, j, e] * v0[w, rows.support[k, j]]
        slopes.gamma_q[w, k, e] = by.phi * (slopes.gamma_q[w, k, e] - h * turned)
        slopes.gamma_v[w, k, e] = by.phi * (slopes.gamma_v[w, k, e] - h * rows.J[w, k, e])


@func
def moves(topology: Topology, e: int, link: int) -> bool:
    """Whether dof e moves a link (-1: the world)."""
    d = int(-1)
    if link >= 0:
        d = topology.link_dof[link]
    while d > e:
        d = topology.dof_parent[d]
    return d == e


@func
def share_change(topology: Topology, table: Table, place: Place, w: int, k: int, point: vec3, d: int, e: int) -> real:
    """∂c_d/∂q_e of the term c_d/M_dd in the least weight of a row that measures positions."""
    link = topology.dof_link[d]
    reference = topology.tree_reference[topology.link_tree[link]]
    o = wp.transform_get_translation(place.link_X[w, reference])
    own = place.dof_S[w, d]
    arm = point - o
    turn = vec6()
    if moves(topology, e, link) and d >= first_turning(topology, e):
        # Both about the reference point of d's tree, to which e then belongs.
        turn = sp.cross_motion(place.dof_S[w, e], own)
    delta_p = vec3()
    if moves(topology, e, table.link[k, 1]):
        delta_p = sp.linear(motion_of(topology, place, w, e, point))
    delta_o = vec3()
    if moves(topology, e, reference):
        delta_o = sp.linear(place.dof_S[w, e])
    omega = sp.angular(own)
    u = sp.velocity_at(own, arm)
    change = wp.dot(u, sp.velocity_at(turn, arm) + wp.cross(omega, delta_p))
    lever = wp.dot(sp.linear(own), sp.linear(turn) + wp.cross(omega, delta_o))
    lever += wp.dot(omega, omega) * wp.dot(arm, delta_p - delta_o)
    return real(2.0) * (real(frame_rows.PERPENDICULAR) * change + real(frame_rows.ON_AXIS) * lever)


@func
def share(topology: Topology, table: Table, place: Place, w: int, k: int, point: vec3, d: int) -> real:
    """c_d of `frame_rows.least_weight`."""
    omega = sp.angular(place.dof_S[w, d])
    c = real(frame_rows.PERPENDICULAR) * wp.dot(omega, omega)
    if (table.traits[k] & ANGULAR) == 0:
        arm = arm_of(topology, place.link_X, w, topology.dof_link[d], point)
        u = sp.velocity_at(place.dof_S[w, d], arm)
        v = sp.linear(place.dof_S[w, d])
        lever = wp.dot(v, v) + wp.dot(omega, omega) * wp.dot(arm, arm)
        c = real(frame_rows.PERPENDICULAR) * wp.dot(u, u) + real(frame_rows.ON_AXIS) * lever
    return c


@func
def floor_by_dofs(
    topology: Topology,
    table: Table,
    rows: Rows,
    here: Place,
    composite: wp.array2d(dtype=vec10),
    inertia: wp.array2d(dtype=real),
    weights: Weights,
    w: int,
    k: int,
    tree: int,
):
    """by_dof ← ∂floor/∂q of one tree. The caller fills y with c_d/M_dd² of the support."""
    measures = (table.traits[k] & ANGULAR) == 0
    point = wp.transform_get_translation(end_frame(table, here.link_X, w, k, 1))
    for e in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
        slope = real(0.0)
        l = topology.dof_link[e]
        d = topology.dof_parent[topology.link_v[l]]
        while d >= 0:
            if weights.y[w, d][0] != real(0.0):
                S_d = here.dof_S[w, d]
                turned = sp.cross_motion(here.dof_S[w, e], S_d)
                slope += real(2.0) * weights.y[w, d][0] * wp.dot(turned, sp.momentum(composite[w, l], S_d))
            d = topology.dof_parent[d]
        if measures and (moves(topology, e, table.link[k, 0]) or moves(topology, e, table.link[k, 1])):
            for j in range(rows.support_size[k]):
                d = rows.support[k, j]
                slope += share_change(topology, table, here, w, k, point, d, e) / inertia[w, d]
        weights.by_dof[w, e] = slope


@func
def floor_by_inertias(topology: Topology, here: Place, inertias: Inertias, weights: Weights, w: int):
    """∂floor with respect to inertial parameters: −Σ_d c_d/M_dd² S_d · δI S_d."""
    for k in range(inertias.link.shape[0]):
        l = inertias.link[k]
        slope = real(0.0)
        if l < 0:
            slope = -weights.y[w, -1 - l][0] * inertias.I[w, k][0]
        else:
            d = topology.link_dof[l]
            while d >= 0:
                S_d = here.dof_S[w, d]
                slope -= weights.y[w, d][0] * wp.dot(S_d, sp.momentum(inertias.I[w, k], S_d))
                d = topology.dof_parent[d]
        inertias.w[w, k] = slope


@kernel
def floor_columns(
    topology: Topology,
    table: Table,
    rows: Rows,
    slopes: RowSlopes,
    here: Place,
    composite: wp.array2d(dtype=vec10),
    inertia: wp.array2d(dtype=real),
    inertias: Inertias,
    weights: Weights,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= Jᵀ ∂γ/∂floor ∂floor, for the rows whose weight is the least one. Launch over worlds."""
    w = wp.tid()
    for d in range(inertia.shape[1]):
        weights.y[w, d] = vec3()
    for k in range(table.kind.shape[0]):
        active = (table.traits[k] & BETWEEN) != 0 and rows.R[w, k] > real(0.0)
        if active and slopes.gamma_floor[w, k] != real(0.0):
            support = rows.support[k]
            size = rows.support_size[k]
            point = wp.transform_get_translation(end_frame(table, here.link_X, w, k, 1))
            for j in range(size):
                d = support[j]
                c = share(topology, table, here, w, k, point, d) / (inertia[w, d] * inertia[w, d])
                weights.y[w, d] = vec3(c, real(0.0), real(0.0))
            at = int(0)
            while at < size:
                tree = tree_of(topology, support[at])
                floor_by_dofs(topology, table, rows, here, composite, inertia, weights, w, k, tree)
                at = next_tree(topology, support, size, at)
            floor_by_inertias(topology, here, inertias, weights, w)
            gamma_w = slopes.gamma_floor[w, k]
            for j in range(size):
                add_row(topology, inertias, weights, w, support, size, -rows.J[w, k, j] * gamma_w, X[w, support[j]])
            for j in range(size):
                weights.y[w, support[j]] = vec3()
