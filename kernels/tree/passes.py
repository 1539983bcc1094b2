# SPDX-License-Identifier: Apache-2.0
"""Passes over one kinematic tree, O(n): kinematics, motion subspaces, RNEA, CRBA, ABA, Jacobians.

One thread per (world, tree); CRBA uses the lanes of a warp. Everything is in world axes about the tree's reference
point o, the origin of its first body, so that no spatial vector is ever transformed from link to link. Featherstone,
Rigid Body Dynamics Algorithms (2008): RNEA table 5.1, CRBA table 6.2, ABA table 7.1. Kinematics, motion, inertia and
RNEA may be taped (`grad=True`).
"""

import warp as wp

from ..linalg.lanes import lane, lanes, sync
from ..linalg.loops import row_fill
from ..real import func, kernel, mat33, mat66, real, struct, transform, vec3, vec6, vec10
from . import joints
from . import spatial as sp
from .chains import team_add_parents, team_add_to_parents, team_add_vectors_to_parents, team_compose_parents
from .plant import Plant


@struct
class Topology:
    """The connectivity of links and joints as integers, shared by all worlds. See `warpsim.model.model.Model`."""

    tree_link: wp.array(dtype=wp.int32)
    tree_v: wp.array(dtype=wp.int32)
    tree_reference: wp.array(dtype=wp.int32)
    link_type: wp.array(dtype=wp.int32)
    link_parent: wp.array(dtype=wp.int32)
    link_joint: wp.array(dtype=wp.int32)
    link_body: wp.array(dtype=wp.int32)  # the body whose inertia the link carries, -1 for a massless link
    link_q: wp.array(dtype=wp.int32)
    link_v: wp.array(dtype=wp.int32)
    link_tree: wp.array(dtype=wp.int32)
    dof_parent: wp.array(dtype=wp.int32)
    dof_link: wp.array(dtype=wp.int32)
    dof_begin: wp.array(dtype=wp.int32)  # the first degree of freedom of its tree
    link_dof: wp.array(dtype=wp.int32)  # the last degree of freedom that moves the link, -1 if none
    body_link: wp.array(dtype=wp.int32)


@func
def reference_point(topology: Topology, link_X: wp.array2d(dtype=transform), w: int, l: int) -> vec3:
    """o of link l: the origin of the first body of its tree."""
    return wp.transform_get_translation(link_X[w, topology.tree_reference[topology.link_tree[l]]])


@func
def local_pose(
    topology: Topology,
    plant: Plant,
    q: wp.array2d(dtype=real),
    w: int,
    l: int,
) -> transform:
    """X_pose X_J(q) X_anchor of link l in its parent; for a free joint in the world."""
    joint = topology.link_joint[l]
    local = transform()
    if joint < 0:
        local = plant.link_pose[w % plant.link_pose.shape[0], l]
    else:
        axis = plant.joint_axis[w % plant.joint_axis.shape[0], joint]
        local = joints.joint_transform(topology.link_type[l], axis, q, plant.q0, w, topology.link_q[l])
        if topology.link_type[l] != joints.FREE:
            rotation = wp.transform_get_rotation(local)
            back = wp.transform_get_translation(local) - wp.quat_rotate(rotation, plant.joint_anchor[joint])
            local = joints.read_pose(plant.joint_pose, w % plant.joint_pose.shape[0], joint) * transform(back, rotation)
    return local


@func
def place_link(
    topology: Topology,
    plant: Plant,
    q: wp.array2d(dtype=real),
    w: int,
    l: int,
    # out
    link_X: wp.array2d(dtype=transform),
):
    """X_l = X_parent X_pose X_J(q) X_anchor."""
    parent = topology.link_parent[l]
    local = local_pose(topology, plant, q, w, l)
    if parent < 0 or topology.link_type[l] == joints.FREE:
        link_X[w, l] = local
    else:
        link_X[w, l] = link_X[w, parent] * local


@kernel(twin=True)
def kinematics(
    topology: Topology,
    plant: Plant,
    q: wp.array2d(dtype=real),
    # out
    link_X: wp.array2d(dtype=transform),
):
    """World poses of the links."""
    w, tree = wp.tid()
    for l in range(topology.tree_link[tree], topology.tree_link[tree + 1]):
        place_link(topology, plant, q, w, l, link_X)


@func
def team_place(
    topology: Topology,
    plant: Plant,
    q: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # out
    link_X: wp.array2d(dtype=transform),
):
    """World poses of the links of a tree. By all lanes."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first + lane(), end, lanes()):
        link_X[w, l] = local_pose(topology, plant, q, w, l)
    sync()
    team_compose_parents(topology.link_parent, topology.link_type, first, end, link_X[w])


@func
def joint_velocity(kind: int, dof_S: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real), w: int, j: int) -> vec6:
    """S v of the joint whose degrees of freedom start at j."""
    a = vec6()
    if kind == joints.HINGE or kind == joints.SLIDE:
        a = dof_S[w, j] * v[w, j]
    elif kind == joints.BALL:
        a = dof_S[w, j] * v[w, j] + dof_S[w, j + 1] * v[w, j + 1] + dof_S[w, j + 2] * v[w, j + 2]
    elif kind == joints.FREE:
        a = dof_S[w, j] * v[w, j] + dof_S[w, j + 1] * v[w, j + 1] + dof_S[w, j + 2] * v[w, j + 2]
        a += dof_S[w, j + 3] * v[w, j + 3] + dof_S[w, j + 4] * v[w, j + 4] + dof_S[w, j + 5] * v[w, j + 5]
    return a


@func
def turning(axis: vec3, arm: vec3) -> vec6:
    """Motion vector of a unit rotation about `axis` through the point at `arm` from o."""
    return sp.join(axis, wp.cross(arm, axis))


@func
def column(R: mat33, i: int) -> vec3:
    return vec3(R[0, i], R[1, i], R[2, i])


@func
def place_axes(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    w: int,
    l: int,
    # out
    dof_S: wp.array2d(dtype=vec6),
):
    """Columns S of the joint that moves link l."""
    kind = topology.link_type[l]
    if kind != joints.FIXED:
        joint = topology.link_joint[l]
        j = topology.link_v[l]
        X = link_X[w, l]
        o = reference_point(topology, link_X, w, l)
        zero = vec3(real(0.0), real(0.0), real(0.0))
        arm = wp.transform_point(X, plant.joint_anchor[joint]) - o
        if kind == joints.HINGE:
            axis = plant.joint_axis[w % plant.joint_axis.shape[0], joint]
            dof_S[w, j] = turning(wp.transform_vector(X, axis), arm)
        elif kind == joints.SLIDE:
            axis = plant.joint_axis[w % plant.joint_axis.shape[0], joint]
            dof_S[w, j] = sp.join(zero, wp.transform_vector(X, axis))
        elif kind == joints.BALL:
            R = wp.quat_to_matrix(wp.transform_get_rotation(X))
            dof_S[w, j] = turning(column(R, 0), arm)
            dof_S[w, j + 1] = turning(column(R, 1), arm)
            dof_S[w, j + 2] = turning(column(R, 2), arm)
        elif kind == joints.FREE:
            R = wp.quat_to_matrix(wp.transform_get_rotation(X))
            dof_S[w, j] = sp.join(zero, vec3(real(1.0), real(0.0), real(0.0)))
            dof_S[w, j + 1] = sp.join(zero, vec3(real(0.0), real(1.0), real(0.0)))
            dof_S[w, j + 2] = sp.join(zero, vec3(real(0.0), real(0.0), real(1.0)))
            dof_S[w, j + 3] = turning(column(R, 0), arm)
            dof_S[w, j + 4] = turning(column(R, 1), arm)
            dof_S[w, j + 5] = turning(column(R, 2), arm)


@kernel(twin=True)
def motion_subspace(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    dof_S: wp.array2d(dtype=vec6),
):
    """Motion subspaces S, one column per degree of freedom. Launch over (worlds, links)."""
    w, l = wp.tid()
    place_axes(topology, plant, link_X, w, l, dof_S)


@func
def inertia_of_link(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    w: int,
    l: int,
) -> vec10:
    """Inertia about o in world axes; zero for a massless link."""
    I = vec10()
    body = topology.link_body[l]
    if body >= 0:
        X = link_X[w, l]
        o = reference_point(topology, link_X, w, l)
        com = wp.transform_point(X, plant.body_com[w % plant.body_com.shape[0], body]) - o
        R = wp.quat_to_matrix(wp.transform_get_rotation(X))
        mass = plant.body_mass[w % plant.body_mass.shape[0], body]
        I = sp.rigid_inertia(mass, com, R, plant.body_inertia[w % plant.body_inertia.shape[0], body])
    return I


@kernel(twin=True)
def link_inertia(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    # out
    link_I: wp.array2d(dtype=vec10),
):
    """Inertias about o in world axes. Launch over (worlds, links)."""
    w, l = wp.tid()
    link_I[w, l] = inertia_of_link(topology, plant, link_X, w, l)


@func
def move_link(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    w: int,
    l: int,
    # out
    link_V: wp.array2d(dtype=vec6),
):
    """V_l = V_parent + S v."""
    parent = topology.link_parent[l]
    V_joint = joint_velocity(topology.link_type[l], dof_S, v, w, topology.link_v[l])
    if parent < 0:
        link_V[w, l] = V_joint
    else:
        link_V[w, l] = link_V[w, parent] + V_joint


@func
def team_move(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # out
    link_V: wp.array2d(dtype=vec6),
):
    """Spatial velocities of the links of a tree. By all lanes."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first + lane(), end, lanes()):
        link_V[w, l] = joint_velocity(topology.link_type[l], dof_S, v, w, topology.link_v[l])
    sync()
    team_add_parents(topology.link_parent, first, end, link_V[w])


@kernel(lanes=True)
def link_velocity(
    topology: Topology,
    dof_S: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    # out
    link_V: wp.array2d(dtype=vec6),
):
    """Spatial velocities of the links. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    team_move(topology, dof_S, v, w, tree, link_V)


@func
def turning_velocity(kind: int, dof_S: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real), w: int, j: int) -> vec6:
    """S v without the linear part of a free joint, whose axes are fixed in the world: dS/dt v = V x this."""
    a = vec6()
    if kind == joints.FREE:
        a = dof_S[w, j + 3] * v[w, j + 3] + dof_S[w, j + 4] * v[w, j + 4] + dof_S[w, j + 5] * v[w, j + 5]
    else:
        a = joint_velocity(kind, dof_S, v, w, j)
    return a


@func
def turning_acceleration(
    topology: Topology, dof_S: wp.array2d(dtype=vec6), link_V: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real),
    w: int, l: int,
) -> vec6:  # fmt: skip
    """V x S v of the joint of link l."""
    return sp.cross_motion(link_V[w, l], turning_velocity(topology.link_type[l], dof_S, v, w, topology.link_v[l]))


@func
def own_acceleration(
    topology: Topology, dof_S: wp.array2d(dtype=vec6), link_V: wp.array2d(dtype=vec6), v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real), w: int, l: int,
) -> vec6:  # fmt: skip
    """V x S v + S a of the joint of link l."""
    S_a = joint_velocity(topology.link_type[l], dof_S, a, w, topology.link_v[l])
    return turning_acceleration(topology, dof_S, link_V, v, w, l) + S_a


@func
def link_force(
    link_I: wp.array2d(dtype=vec10), link_V: wp.array2d(dtype=vec6), link_A: wp.array2d(dtype=vec6), w: int, l: int
) -> vec6:
    """The force that the acceleration of link l requires."""
    I = link_I[w, l]
    V = link_V[w, l]
    return sp.momentum(I, link_A[w, l]) + sp.cross_force(V, sp.momentum(I, V))


@func
def accelerate_link(
    topology: Topology,
    g: vec3,
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    w: int,
    l: int,
    # out
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
):
    """A_l = A_parent + V x S v + S a, and the force f_l that it requires.

    Gravity counts as an acceleration of the world.
    """
    parent = topology.link_parent[l]
    own = own_acceleration(topology, dof_S, link_V, v, a, w, l)
    if parent < 0:
        link_A[w, l] = own + sp.join(vec3(real(0.0), real(0.0), real(0.0)), -g)
    else:
        link_A[w, l] = link_A[w, parent] + own
    link_f[w, l] = link_force(link_I, link_V, link_A, w, l)


@func
def team_inverse_dynamics(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # scratch
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
    # out
    tau: wp.array2d(dtype=real),
):
    """Recursive Newton-Euler for one tree, by all lanes: tau = M(q) a + c(q, v), armature in M and gravity in c."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    g = gravity[w % gravity.shape[0]]
    for l in range(first + lane(), end, lanes()):
        A = own_acceleration(topology, dof_S, link_V, v, a, w, l)
        if topology.link_parent[l] < 0:
            A += sp.join(vec3(real(0.0), real(0.0), real(0.0)), -g)
        link_A[w, l] = A
    sync()
    team_add_parents(topology.link_parent, first, end, link_A[w])
    for l in range(first + lane(), end, lanes()):
        link_f[w, l] = link_force(link_I, link_V, link_A, w, l)
    sync()
    team_add_vectors_to_parents(topology.link_parent, first, end, link_f[w])
    for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
        f = link_f[w, topology.dof_link[d]]
        tau[w, d] = wp.dot(dof_S[w, d], f) + armature[w % armature.shape[0], d] * a[w, d]
    sync()


@func
def team_bias_forces(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    w: int,
    tree: int,
    # scratch
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
    # out
    tau: wp.array2d(dtype=real),
):
    """`team_inverse_dynamics` without acceleration: c(q, v)."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    g = gravity[w % gravity.shape[0]]
    for l in range(first + lane(), end, lanes()):
        A = turning_acceleration(topology, dof_S, link_V, v, w, l)
        if topology.link_parent[l] < 0:
            A += sp.join(vec3(real(0.0), real(0.0), real(0.0)), -g)
        link_A[w, l] = A
    sync()
    team_add_parents(topology.link_parent, first, end, link_A[w])
    for l in range(first + lane(), end, lanes()):
        link_f[w, l] = link_force(link_I, link_V, link_A, w, l)
    sync()
    team_add_vectors_to_parents(topology.link_parent, first, end, link_f[w])
    for d in range(topology.tree_v[tree] + lane(), topology.tree_v[tree + 1], lanes()):
        f = link_f[w, topology.dof_link[d]]
        tau[w, d] = wp.dot(dof_S[w, d], f)
    sync()


@kernel(twin=True)
def acceleration(h: real, v0: wp.array2d(dtype=real), v: wp.array2d(dtype=real), a: wp.array2d(dtype=real)):
    """a = (v − v0)/h. Launch over (worlds, nv)."""
    w, d = wp.tid()
    a[w, d] = (v[w, d] - v0[w, d]) / h


@kernel(lanes=True)
def rnea(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    # scratch
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
    # out
    tau: wp.array2d(dtype=real),
):
    """`team_inverse_dynamics` of every tree. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    team_inverse_dynamics(
        topology, gravity, armature, dof_S, link_I, link_V, v, a, w, tree, link_A, link_f, tau
    )  # fmt: skip


@func
def team_mass_matrix(
    topology: Topology,
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    w: int,
    tree: int,
    # scratch
    composite: wp.array2d(dtype=vec10),
    # out
    M: wp.array3d(dtype=real),
):
    """Mass matrix of one tree by composite rigid bodies: M_de at [d, e - first dof of the tree]. By all lanes."""
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first + lane(), end, lanes()):
        composite[w, l] = link_I[w, l]
    sync()
    team_add_to_parents(topology.link_parent, first, end, composite[w])
    start = topology.tree_v[tree]
    stop = topology.tree_v[tree + 1]
    for d in range(start + lane(), stop, lanes()):
        row_fill(real(0.0), M[w, d], 0, stop - start)
    sync()
    for d in range(start + lane(), stop, lanes()):
        F = sp.momentum(composite[w, topology.dof_link[d]], dof_S[w, d])
        M[w, d, d - start] = wp.dot(dof_S[w, d], F) + armature[w % armature.shape[0], d]
        e = topology.dof_parent[d]
        while e >= 0:
            m = wp.dot(dof_S[w, e], F)
            M[w, d, e - start] = m
            M[w, e, d - start] = m
            e = topology.dof_parent[e]
    sync()


@kernel(lanes=True)
def crba(
    topology: Topology,
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    # scratch
    composite: wp.array2d(dtype=vec10),
    # out
    M: wp.array3d(dtype=real),
):
    """Mass matrix by composite rigid bodies, stored by trees. Launch over (worlds, trees, lanes)."""
    w, tree, _lane = wp.tid()
    team_mass_matrix(topology, armature, dof_S, link_I, w, tree, composite, M)


@func
def inertia_matrix(I: vec10) -> mat66:
    z = real(0.0)
    return mat66(
        I[4], I[7], I[8], z, -I[3], I[2],
        I[7], I[5], I[9], I[3], z, -I[1],
        I[8], I[9], I[6], -I[2], I[1], z,
        z, I[3], -I[2], I[0], z, z,
        -I[3], z, I[1], z, I[0], z,
        I[2], -I[1], z, z, z, I[0],
    )  # fmt: skip


@kernel
def expand_blocks(topology: Topology, blocks: wp.array3d(dtype=real), M: wp.array3d(dtype=real)):
    """Square matrix from its blocks of trees. The caller zeroes M. Launch over (worlds, nv)."""
    w, d = wp.tid()
    begin = topology.dof_begin[d]
    tree = topology.link_tree[topology.dof_link[d]]
    for k in range(topology.tree_v[tree + 1] - begin):
        M[w, d, begin + k] = blocks[w, d, k]


@struct
class Articulated:
    """Workspace of `aba`."""

    IA: wp.array2d(dtype=mat66)  # (worlds, links) articulated inertias
    p: wp.array2d(dtype=vec6)  # their bias forces
    A: wp.array2d(dtype=vec6)
    U: wp.array2d(dtype=vec6)  # (worlds, nv) IA S / D
    u: wp.array2d(dtype=real)


@kernel
def aba(
    topology: Topology,
    gravity: wp.array(dtype=vec3),
    armature: wp.array2d(dtype=real),
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v: wp.array2d(dtype=real),
    tau: wp.array2d(dtype=real),
    # scratch
    work: Articulated,
    # out
    a: wp.array2d(dtype=real),
):
    """Articulated bodies: a = M^-1 (tau - c). A joint of k freedoms is k massless single-freedom joints in a row."""
    w, tree = wp.tid()
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    for l in range(first, end):
        work.IA[w, l] = inertia_matrix(link_I[w, l])
        V = link_V[w, l]
        work.p[w, l] = sp.cross_force(V, sp.momentum(link_I[w, l], V))
    for k in range(end - first):
        l = end - 1 - k
        kind = topology.link_type[l]
        j = topology.link_v[l]
        n = joints.dofs(kind)
        for i in range(n):
            d = j + n - 1 - i
            IA = work.IA[w, l]
            U = IA * dof_S[w, d]
            D = wp.dot(dof_S[w, d], U) + armature[w % armature.shape[0], d]
            u = (tau[w, d] - wp.dot(dof_S[w, d], work.p[w, l])) / D
            work.U[w, d] = U / D
            work.u[w, d] = u
            work.IA[w, l] = IA - wp.outer(U, U / D)
            work.p[w, l] = work.p[w, l] + U * u
        parent = topology.link_parent[l]
        if parent >= 0:
            bias = sp.cross_motion(link_V[w, l], turning_velocity(kind, dof_S, v, w, j))
            work.p[w, parent] = work.p[w, parent] + work.p[w, l] + work.IA[w, l] * bias
            work.IA[w, parent] = work.IA[w, parent] + work.IA[w, l]
    for l in range(first, end):
        kind = topology.link_type[l]
        j = topology.link_v[l]
        parent = topology.link_parent[l]
        acceleration = sp.cross_motion(link_V[w, l], turning_velocity(kind, dof_S, v, w, j))
        if parent < 0:
            acceleration += sp.join(vec3(real(0.0), real(0.0), real(0.0)), -gravity[w % gravity.shape[0]])
        else:
            acceleration += work.A[w, parent]
        for i in range(joints.dofs(kind)):
            d = j + i
            a[w, d] = work.u[w, d] - wp.dot(work.U[w, d], acceleration)
            acceleration += dof_S[w, d] * a[w, d]
        work.A[w, l] = acceleration


@kernel
def body_poses(topology: Topology, link_X: wp.array2d(dtype=transform), poses: wp.array3d(dtype=real)):
    """Body poses (x y z, qw qx qy qz). Launch over (worlds, bodies)."""
    w, body = wp.tid()
    X = link_X[w, topology.body_link[body]]
    p = wp.transform_get_translation(X)
    r = wp.transform_get_rotation(X)
    for i in range(3):
        poses[w, body, i] = p[i]
        poses[w, body, 4 + i] = r[i]
    poses[w, body, 3] = r[3]


@kernel
def body_velocities(
    topology: Topology,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # out
    velocity: wp.array3d(dtype=real),
):
    """Angular and linear velocity of body frames in world axes. The linear one is that of the origin.

    Launch over (worlds, bodies).
    """
    w, body = wp.tid()
    l = topology.body_link[body]
    o = reference_point(topology, link_X, w, l)
    angular = sp.angular(link_V[w, l])
    linear = sp.velocity_at(link_V[w, l], wp.transform_get_translation(link_X[w, l]) - o)
    for i in range(3):
        velocity[w, body, i] = angular[i]
        velocity[w, body, 3 + i] = linear[i]


@kernel
def point_jacobian(
    topology: Topology,
    link_X: wp.array2d(dtype=transform),
    dof_S: wp.array2d(dtype=vec6),
    link: int,
    point: wp.array(dtype=vec3),
    # out
    J: wp.array3d(dtype=real),
):
    """Jacobian rows (angular, linear) in world axes of the velocity of a point fixed in `link`. The caller zeroes J."""
    w = wp.tid()
    o = reference_point(topology, link_X, w, link)
    arm = wp.transform_point(link_X[w, link], point[w % point.shape[0]]) - o
    l = link
    while l >= 0:
        j = topology.link_v[l]
        for i in range(joints.dofs(topology.link_type[l])):
            s = dof_S[w, j + i]
            velocity = sp.velocity_at(s, arm)
            for row in range(3):
                J[w, row, j + i] = s[row]
                J[w, 3 + row, j + i] = velocity[row]
        l = topology.link_parent[l]


@kernel(twin=True)
def integrate_position(
    topology: Topology, h: real, q: wp.array2d(dtype=real), v: wp.array2d(dtype=real), q_next: wp.array2d(dtype=real)
):
    """q_next = q (+) h v. Launch over (worlds, links)."""
    w, l = wp.tid()
    joints.advance(topology.link_type[l], q, v, h, w, topology.link_q[l], topology.link_v[l], q_next)
