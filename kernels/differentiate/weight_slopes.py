# SPDX-License-Identifier: Apache-2.0
"""Effective inverse masses w in the columns ∂r/∂x: R is proportional to w, and w changes with every joint and inertia.

    W = J Y, Y = M⁻¹Jᵀ, w = ‖W‖_F/3:   δw = 2 Γ : (δJ Y) − (Y Γ Yᵀ) : δM,   Γ = W/(9 w).

A scalar row has w = W, Γ = 1. With Γ = C Cᵀ, the columns y_a of YC are velocities of the tree. Let V_a be the link
velocities under y_a, and P_a the momenta of the subtrees. At fixed y, dof e changes y_aᵀMy_a by −2 P_a · (S_e × V_a⁻),
with V⁻ the velocity of the part that e does not move. An inertia δI of one link changes it by V_a · δI V_a. The part of
δJ is the change of the contact's velocity, as in `contact_slopes.py`. Two tree passes per constraint, one thread per
world.
"""

import warp as wp

from ..contact.pair_laws import Contacts, Scene
from ..laws import cone
from ..laws.contact_law import ContactState
from ..linalg.loops import row_axpy, row_axpy_at
from ..real import func, kernel, mat33, real, struct, vec3, vec6, vec10
from ..rows.table import Rows
from ..tree import joints
from ..tree import spatial as sp
from ..tree.effective_mass import inverse_mass_times
from ..tree.passes import Topology
from .contact_slopes import Flow, arm_of, contact_J, shifted
from .pressure_columns import FieldColumns, field_column, vector_by
from .row_slopes import RowSlopes


@struct
class Weights:
    """Arrays of the solver for every constraint, and scratch."""

    M_factor: wp.array3d(dtype=real)
    contact_w: wp.array2d(dtype=real)  # (worlds, C)
    contact_G: wp.array2d(dtype=mat33)
    # scratch
    y: wp.array2d(dtype=vec3)  # (worlds, nv)
    V: wp.array3d(dtype=vec6)  # (worlds, links, 3)
    P: wp.array3d(dtype=vec6)  # (worlds, links, 3)
    by_dof: wp.array2d(dtype=real)  # (worlds, nv) ∂w/∂q


@struct
class Inertias:
    """Change of a link's inertia per parameter, or of the armature of a dof (link −1 − dof)."""

    first: int  # its column of X
    link: wp.array(dtype=int)  # (n,)
    I: wp.array2d(dtype=vec10)  # (worlds, n)
    w: wp.array2d(dtype=real)  # (worlds, n) scratch: ∂w


# Shared by all weights: the trees of a support, cleared scratch, and X += coefficient ∂w.


@func
def tree_of(topology: Topology, d: int) -> int:
    return topology.link_tree[topology.dof_link[d]]


@func
def next_tree(topology: Topology, support: wp.array1d(dtype=int), size: int, i: int) -> int:
    """The first index after i in a support whose dof belongs to another tree."""
    begin = topology.dof_begin[support[i]]
    k = int(i + 1)
    while k < size and topology.dof_begin[support[k]] == begin:
        k += 1
    return k


@func
def clear(topology: Topology, inertias: Inertias, weights: Weights, w: int, support: wp.array1d(dtype=int), size: int):
    """Clear y on the trees of a support, and the slopes with respect to inertias."""
    for k in range(inertias.link.shape[0]):
        inertias.w[w, k] = real(0.0)
    i = int(0)
    while i < size:
        tree = tree_of(topology, support[i])
        for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
            weights.y[w, d] = vec3()
        i = next_tree(topology, support, size, i)


@func
def add_row(
    topology: Topology,
    inertias: Inertias,
    weights: Weights,
    w: int,
    support: wp.array1d(dtype=int),
    size: int,
    coefficient: real,
    x: wp.array1d(dtype=real),
):
    """x += coefficient ∂w, with x one row of X."""
    i = int(0)
    while i < size:
        tree = tree_of(topology, support[i])
        row_axpy(coefficient, weights.by_dof[w], x, topology.tree_v[tree], topology.tree_v[tree + 1])
        i = next_tree(topology, support, size, i)
    row_axpy_at(coefficient, inertias.w[w], inertias.link.shape[0], x, inertias.first)


floor = real(cone.INVERSE_MASS_FLOOR)


@func
def semidefinite_root(A: mat33) -> mat33:
    """Lower triangular C with C Cᵀ = A, by Cholesky. A column without a pivot is 0."""
    C = mat33()
    for j in range(3):
        pivot = A[j, j]
        for k in range(j):
            pivot -= C[j, k] * C[j, k]
        if pivot > real(0.0):
            C[j, j] = wp.sqrt(pivot)
            for i in range(j + 1, 3):
                x = A[i, j]
                for k in range(j):
                    x -= C[i, k] * C[j, k]
                C[i, j] = x / C[j, j]
    return C


@func
def times_inverse_mass(
    topology: Topology, weights: Weights, w: int, support: wp.array1d(dtype=int), size: int
) -> mat33:
    """y ← M⁻¹y on the trees of a support, from y = Jᵀ. Returns W."""
    W = mat33()
    i = int(0)
    while i < size:
        tree = tree_of(topology, support[i])
        begin = topology.tree_v[tree]
        W += inverse_mass_times(topology, weights.M_factor, weights.y, w, begin, topology.tree_v[tree + 1])
        i = next_tree(topology, support, size, i)
    return W


@func
def move_tree(topology: Topology, flow: Flow, weights: Weights, w: int, tree: int, n: int):
    """V and P of the first n columns of Y."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first, end):
        parent = topology.link_parent[l]
        j = topology.link_v[l]
        dofs = joints.dofs(topology.link_type[l])
        I = flow.link_I[w, l]
        for a in range(n):
            V = vec6()
            if parent >= 0:
                V = weights.V[w, parent, a]
            for i in range(dofs):
                V += flow.dof_S[w, j + i] * weights.y[w, j + i][a]
            weights.V[w, l, a] = V
            weights.P[w, l, a] = sp.momentum(I, V)
    for k in range(end - first):
        l = end - 1 - k
        parent = topology.link_parent[l]
        if parent >= 0:
            for a in range(n):
                weights.P[w, parent, a] = weights.P[w, parent, a] + weights.P[w, l, a]


@func
def column_before(topology: Topology, weights: Weights, w: int, link: int, a: int) -> vec6:
    """V⁻ of column a, see `contact_slopes.velocity_before`."""
    V = vec6()
    parent = topology.link_parent[link]
    if parent >= 0:
        V = weights.V[w, parent, a]
    elif topology.link_type[link] == joints.FREE:
        j = topology.link_v[link]
        V = sp.join(vec3(), vec3(weights.y[w, j][a], weights.y[w, j + 1][a], weights.y[w, j + 2][a]))
    return V


@func
def by_mass_matrix(topology: Topology, flow: Flow, weights: Weights, w: int, tree: int, n: int):
    """∂w/∂q through M: 2 Σ_a P_a · (S_e × V_a⁻) = 2 S_e · Σ_a V_a⁻ ×* P_a."""
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        f = vec6()
        for a in range(n):
            f += sp.cross_force(column_before(topology, weights, w, l, a), weights.P[w, l, a])
        j = topology.link_v[l]
        for i in range(joints.dofs(topology.link_type[l])):
            weights.by_dof[w, j + i] = real(2.0) * wp.dot(flow.dof_S[w, j + i], f)


@func
def by_inertias(topology: Topology, inertias: Inertias, weights: Weights, w: int, tree: int, n: int):
    """∂w with respect to the parameters of the tree: −Σ_a V_a · δI V_a."""
    for k in range(inertias.link.shape[0]):
        l = inertias.link[k]
        slope = real(0.0)
        if l < 0:
            d = -1 - l
            if tree_of(topology, d) == tree:
                for a in range(n):
                    slope -= inertias.I[w, k][0] * weights.y[w, d][a] * weights.y[w, d][a]
                inertias.w[w, k] = slope
        elif topology.link_tree[l] == tree:
            for a in range(n):
                V = weights.V[w, l, a]
                slope -= wp.dot(V, sp.momentum(inertias.I[w, k], V))
            inertias.w[w, k] = slope


@func
def by_trees(
    topology: Topology,
    flow: Flow,
    inertias: Inertias,
    weights: Weights,
    w: int,
    support: wp.array1d(dtype=int),
    size: int,
    n: int,
):
    """∂w through M, from the first n columns of YC."""
    i = int(0)
    while i < size:
        tree = tree_of(topology, support[i])
        move_tree(topology, flow, weights, w, tree, n)
        by_mass_matrix(topology, flow, weights, w, tree, n)
        by_inertias(topology, inertias, weights, w, tree, n)
        i = next_tree(topology, support, size, i)


@func
def column_of_link(topology: Topology, flow: Flow, weights: Weights, w: int, link: int, a: int, point: vec3) -> vec6:
    """V_a of a link (-1: the world) about `point`."""
    V = vec6()
    if link >= 0:
        V = shifted(weights.V[w, link, a], arm_of(topology, flow.link_X, w, link, point))
    return V


@func
def by_geometry(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    flow: Flow,
    slope: wp.array3d(dtype=vec6),
    weights: Weights,
    w: int,
    c: int,
    C: mat33,
) -> vec3:
    """Add ∂w/∂q through J: 2 Σ_a δ(V_B − V_A)_a(p) · (FC)_a. Returns half of ∂w/∂p.

    Turning the frame does not change w.
    """
    pair = contacts.pair[w, c]
    p = contacts.point[w, c]
    a_link = scene.geom_link[scene.pair_geom[pair, 0]]
    b_link = scene.geom_link[scene.pair_geom[pair, 1]]
    FC = contacts.frame[w, c] * C
    k_p = vec3()  # the factor of δp
    for a in range(3):
        spin = sp.angular(column_of_link(topology, flow, weights, w, b_link, a, p))
        spin -= sp.angular(column_of_link(topology, flow, weights, w, a_link, a, p))
        k_p += wp.cross(vec3(FC[0, a], FC[1, a], FC[2, a]), spin)
    k_slope = k_p[0] * slope[w, c, 1] + k_p[1] * slope[w, c, 2] + k_p[2] * slope[w, c, 3]
    row = contacts.row[w, c]
    for k in range(scene.support_size[row]):
        e = scene.support[row, k]
        s = scene.support_sign[row, k]
        link = topology.dof_link[e]
        arm = arm_of(topology, flow.link_X, w, link, p)
        twist = shifted(flow.dof_S[w, e], arm)
        moved = b_link
        change = wp.dot(k_slope, twist)
        if s < real(0.0):
            moved = a_link
            change = wp.dot(k_p, sp.linear(twist)) - change
        for a in range(3):
            V = column_of_link(topology, flow, weights, w, moved, a, p)
            V -= shifted(column_before(topology, weights, w, link, a), arm)
            f = vec3(FC[0, a], FC[1, a], FC[2, a])
            change += s * wp.dot(sp.linear(sp.cross_motion(twist, V)), f)
        weights.by_dof[w, e] = weights.by_dof[w, e] + real(2.0) * change
    return k_p


@kernel
def contact_weight_columns(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    law: wp.array3d(dtype=ContactState),
    flow: Flow,
    slope: wp.array3d(dtype=vec6),
    inertias: Inertias,
    weights: Weights,
    columns: FieldColumns,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= Jᵀ ∂γ/∂w ∂w of all contacts. Launch over worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        weight = weights.contact_w[w, c]
        if weights.contact_G[w, c][2, 2] != real(0.0) and weight > floor:
            row = contacts.row[w, c]
            support = scene.support[row]
            size = scene.support_size[row]
            clear(topology, inertias, weights, w, support, size)
            for k in range(size):
                weights.y[w, support[k]] = contact_J(contacts, w, c, k)
            W = times_inverse_mass(topology, weights, w, support, size)
            C = semidefinite_root(W / (real(9.0) * weight))
            i = int(0)
            while i < size:
                tree = tree_of(topology, support[i])
                for d in range(topology.tree_v[tree], topology.tree_v[tree + 1]):
                    weights.y[w, d] = wp.transpose(C) * weights.y[w, d]
                i = next_tree(topology, support, size, i)
            by_trees(topology, flow, inertias, weights, w, support, size, 3)
            by_point = by_geometry(topology, scene, contacts, flow, slope, weights, w, c, C)
            gamma_w = vec3(law[w, c, 0].weight, law[w, c, 1].weight, law[w, c, 2].weight)
            for k in range(size):
                coefficient = -wp.dot(contact_J(contacts, w, c, k), gamma_w)
                add_row(topology, inertias, weights, w, support, size, coefficient, X[w, support[k]])
            pair = contacts.pair[w, c]
            if pair >= scene.point_pairs and columns.slope.shape[1] > 0:
                for i in range(12):
                    column = field_column(scene, columns, w, pair, i)
                    if column >= 0:
                        by_w = real(2.0) * wp.dot(by_point, vector_by(columns, w, c, 1, i))
                        for k in range(size):
                            change = by_w * wp.dot(contact_J(contacts, w, c, k), gamma_w)
                            X[w, support[k], column] = X[w, support[k], column] - change


@kernel
def row_weight_columns(
    topology: Topology,
    rows: Rows,
    slopes: RowSlopes,
    flow: Flow,
    inertias: Inertias,
    weights: Weights,
    # in and out
    X: wp.array3d(dtype=real),
):
    """X −= Jᵀ ∂γ/∂w ∂w of the scalar rows. Launch over worlds."""
    w = wp.tid()
    for k in range(rows.support.shape[0]):
        if rows.R[w, k] > real(0.0) and slopes.gamma_w[w, k] != real(0.0):
            support = rows.support[k]
            size = rows.support_size[k]
            clear(topology, inertias, weights, w, support, size)
            for i in range(size):
                weights.y[w, support[i]] = vec3(rows.J[w, k, i], real(0.0), real(0.0))
            times_inverse_mass(topology, weights, w, support, size)
            by_trees(topology, flow, inertias, weights, w, support, size, 1)
            for e in range(size * wp.min(slopes.J_q.shape[1], 1)):
                for i in range(size):
                    turn = real(2.0) * slopes.J_q[w, k, i, e] * weights.y[w, support[i]][0]
                    weights.by_dof[w, support[e]] = weights.by_dof[w, support[e]] + turn
            gamma_w = slopes.gamma_w[w, k]
            for i in range(size):
                add_row(topology, inertias, weights, w, support, size, -rows.J[w, k, i] * gamma_w, X[w, support[i]])
