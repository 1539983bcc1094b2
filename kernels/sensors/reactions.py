# SPDX-License-Identifier: Apache-2.0
"""Sensors of accelerations and of the forces between bodies, of a step at its initial pose.

Accelerations are (v' − v)/h. Gravity counts as an acceleration of the world, as an accelerometer senses it. The joints
of a body bear the force that moves its subtree, minus all other forces on it: user wrenches, contacts, constraints and
spatial tendons (`string_wrenches.py`; Featherstone, table 5.1).
"""

import warp as wp

from ..contact.pair_laws import Contacts, Scene
from ..flags import NONFINITE
from ..forces.actuators import wrench_about_reference
from ..real import func, kernel, mat33, real, transform, vec3, vec6, vec10
from ..rows import dispatch
from ..rows.frame_rows import end_frame, frames_of
from ..rows.kinds.kind import BETWEEN
from ..rows.soft_rows import Soft, wrench_on_B
from ..rows.table import Constants, Rows, Table
from ..tree import spatial as sp
from ..tree.passes import Topology, accelerate_link, reference_point
from ..tree.plant import Plant
from .frame_sensors import FrameSensors, back, frame_of
from .kinds_of_sensors import ACCELEROMETER, FORCE, FRAMEANGACC, FRAMELINACC


@kernel(twin=True)
def accelerations(
    topology: Topology,
    plant: Plant,
    h: real,
    v0: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    a: wp.array2d(dtype=real),
):
    """a = (v − v0)/h; 0 in trees that are switched off. Launch over (worlds, nv)."""
    w, d = wp.tid()
    root = topology.link_body[topology.tree_reference[topology.link_tree[topology.dof_link[d]]]]
    if root < 0:
        a[w, d] = (v[w, d] - v0[w, d]) / h
    elif plant.body_active[w % plant.body_active.shape[0], root] != real(0.0):
        a[w, d] = (v[w, d] - v0[w, d]) / h
    else:
        a[w, d] = real(0.0)


@kernel(twin=True)
def user_wrenches(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    wrench: wp.array3d(dtype=real),
    # out
    link_F: wp.array2d(dtype=vec6),
):
    """Adds user wrenches at the bodies' centers of mass to the forces on their links, about o. Launch over (worlds,
    bodies)."""
    w, b = wp.tid()
    link_F[w, topology.body_link[b]] += wrench_about_reference(topology, plant, link_X, wrench, w, b)


@func
def force_about_reference(
    topology: Topology, link_X: wp.array2d(dtype=transform), f: vec6, point: vec3, w: int, l: int
) -> vec6:
    """A wrench (torque, force) at a point, taken about the reference point of a link's tree."""
    o = reference_point(topology, link_X, w, l)
    return sp.join(sp.angular(f) + wp.cross(point - o, sp.linear(f)), sp.linear(f))


@kernel(twin=True)
def contact_wrenches(
    topology: Topology,
    scene: Scene,
    contacts: Contacts,
    point: wp.array2d(dtype=vec3),
    frame: wp.array2d(dtype=mat33),
    gamma: wp.array2d(dtype=vec3),
    moment: wp.array2d(dtype=vec3),
    h: real,
    link_X: wp.array2d(dtype=transform),
    # out
    link_F: wp.array2d(dtype=vec6),
):
    """Adds γ/h of every contact point, and the moment of its spin rows if any, to the links of its geoms. Launch over
    worlds."""
    w = wp.tid()
    for c in range(contacts.count[w]):
        p = contacts.pair[w, c]
        turn = vec3(real(0.0), real(0.0), real(0.0))
        if moment.shape[1] > 0:
            turn = frame[w, c] * moment[w, c] / h
        f = sp.join(turn, frame[w, c] * gamma[w, c] / h)
        a = scene.geom_link[scene.pair_geom[p, 0]]
        b = scene.geom_link[scene.pair_geom[p, 1]]
        if a >= 0:
            link_F[w, a] += -force_about_reference(topology, link_X, f, point[w, c], w, a)
        if b >= 0:
            link_F[w, b] += force_about_reference(topology, link_X, f, point[w, c], w, b)


@kernel(twin=True, part="rows")
def row_wrenches(
    topology: Topology,
    table: Table,
    constants: Constants,
    rows: Rows,
    gamma: wp.array2d(dtype=real),
    h: real,
    link_X: wp.array2d(dtype=transform),
    # out
    link_F: wp.array2d(dtype=vec6),
):
    """Adds γ/h of every active row between frames to its links: along its axis on B at B's origin, and the opposite on
    A. Launch over worlds."""
    w = wp.tid()
    for k in range(table.kind.shape[0]):
        if (table.traits[k] & BETWEEN) != 0 and rows.R[w, k] > real(0.0):
            X = frames_of(table, constants, link_X, w, k)
            row = dispatch.geometry(table.kind[k], X)
            f = row.axis * (gamma[w, k] / h)
            point = wp.transform_get_translation(X.B)
            a = table.link[k, 0]
            b = table.link[k, 1]
            if a >= 0:
                link_F[w, a] += -force_about_reference(topology, link_X, f, point, w, a)
            if b >= 0:
                link_F[w, b] += force_about_reference(topology, link_X, f, point, w, b)


@kernel(twin=True, part="soft")
def soft_row_wrenches(
    topology: Topology,
    table: Table,
    soft: Soft,
    rows: Rows,
    gamma: wp.array2d(dtype=real),
    h: real,
    link_X: wp.array2d(dtype=transform),
    # out
    link_F: wp.array2d(dtype=vec6),
):
    """Adds the wrenches of connects and welds under MuJoCo's law to their links. Launch over worlds."""
    w = wp.tid()
    for i in range(soft.bodies.shape[0]):
        k = soft.bodies[i]
        if rows.R[w, k] > real(0.0):
            X_A = end_frame(table, link_X, w, k, 0)
            X_B = end_frame(table, link_X, w, k, 1)
            f = wrench_on_B(table, soft, X_A, X_B, gamma, w, k) / h
            a = table.link[k, 0]
            b = table.link[k, 1]
            if a >= 0:
                link_F[w, a] += -force_about_reference(topology, link_X, f, wp.transform_get_translation(X_A), w, a)
            if b >= 0:
                link_F[w, b] += force_about_reference(topology, link_X, f, wp.transform_get_translation(X_B), w, b)


@kernel(twin=True)
def link_reactions(
    topology: Topology,
    plant: Plant,
    dof_S: wp.array2d(dtype=vec6),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    v0: wp.array2d(dtype=real),
    a: wp.array2d(dtype=real),
    link_F: wp.array2d(dtype=vec6),
    # out
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
):
    """Accelerations of the links, and the force that the joint of each link bears for its subtree, about o. Launch over
    (worlds, trees)."""
    w, tree = wp.tid()
    first = topology.tree_link[tree]
    end = topology.tree_link[tree + 1]
    g = plant.gravity[w % plant.gravity.shape[0]]
    for l in range(first, end):
        accelerate_link(topology, g, dof_S, link_I, link_V, v0, a, w, l, link_A, link_f)
    for k in range(end - first):
        l = end - 1 - k
        parent = topology.link_parent[l]
        link_f[w, l] += -link_F[w, l]
        if parent >= 0:
            link_f[w, parent] += link_f[w, l]


@func
def reaction_at(
    topology: Topology, link_X: wp.array2d(dtype=transform), link_f: wp.array2d(dtype=vec6), point: vec3, w: int, l: int
) -> vec6:
    """(torque, force) at a point in world axes that a link's joint bears. For the world (l < 0): the sum over all
    trees."""
    f = vec6()
    if l >= 0:
        arm = point - reference_point(topology, link_X, w, l)
        f = sp.join(sp.angular(link_f[w, l]) - wp.cross(arm, sp.linear(link_f[w, l])), sp.linear(link_f[w, l]))
    else:
        for tree in range(topology.tree_reference.shape[0]):
            root = topology.tree_link[tree]
            lever = point - wp.transform_get_translation(link_X[w, topology.tree_reference[tree]])
            force = sp.linear(link_f[w, root])
            f += sp.join(sp.angular(link_f[w, root]) - wp.cross(lever, force), force)
    return f


@kernel(twin=True)
def measure_accelerations(
    topology: Topology,
    sensors: FrameSensors,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    link_A: wp.array2d(dtype=vec6),
    link_f: wp.array2d(dtype=vec6),
    # out
    data: wp.array2d(dtype=real),
):
    """Accelerations of frames, and the forces and torques that the joints of a site's body bear. Launch over (worlds,
    sensors)."""
    w, s = wp.tid()
    kind = sensors.kind[s]
    X = frame_of(sensors.frames, plant, link_X, w, s, 0)
    point = wp.transform_get_translation(X)
    l = sensors.frames.link[s, 0]
    value = vec3(real(0.0), real(0.0), real(0.0))
    if kind == ACCELEROMETER or kind == FRAMELINACC or kind == FRAMEANGACC:
        # The angular and linear acceleration of the point, minus gravity, in world axes.
        A = sp.join(vec3(real(0.0), real(0.0), real(0.0)), -plant.gravity[w % plant.gravity.shape[0]])
        if l >= 0:
            arm = point - reference_point(topology, link_X, w, l)
            V = link_V[w, l]
            turning = wp.cross(sp.angular(V), sp.velocity_at(V, arm))
            A = sp.join(sp.angular(link_A[w, l]), sp.velocity_at(link_A[w, l], arm) + turning)
        if kind == ACCELEROMETER:
            value = back(X, sp.linear(A))
        elif kind == FRAMELINACC:
            value = sp.linear(A)
        else:
            value = sp.angular(A)
    else:
        f = reaction_at(topology, link_X, link_f, point, w, l)
        if kind == FORCE:
            value = back(X, sp.linear(f))
        else:
            value = back(X, sp.angular(f))
    for i in range(3):
        data[w, sensors.adr[s] + i] = value[i]


@kernel(twin=True)
def keep_accelerations(
    a: wp.array2d(dtype=real),
    first: int,
    # out
    data: wp.array2d(dtype=real),
):
    """Store the accelerations of the degrees of freedom, from column `first` on. Launch over (worlds, nv)."""
    w, d = wp.tid()
    data[w, first + d] = a[w, d]


@kernel(twin=True)
def keep_reactions(
    topology: Topology,
    link_X: wp.array2d(dtype=transform),
    link_f: wp.array2d(dtype=vec6),
    first: int,
    # out
    data: wp.array2d(dtype=real),
):
    """Store (torque, force) of every body at its frame's origin, from column `first` on. Launch over (worlds,
    bodies)."""
    w, b = wp.tid()
    l = topology.body_link[b]
    f = reaction_at(topology, link_X, link_f, wp.transform_get_translation(link_X[w, l]), w, l)
    for i in range(6):
        data[w, first + 6 * b + i] = f[i]


@kernel
def keep_measured(
    flags: wp.array(dtype=int),
    data: wp.array2d(dtype=real),
    # out
    measured: wp.array2d(dtype=real),
    stepped: wp.array(dtype=int),
):
    """Keep the numbers that a step has measured, in worlds without NONFINITE. Launch over (worlds, numbers)."""
    w, i = wp.tid()
    if flags[w] & NONFINITE == 0:
        measured[w, i] = data[w, i]
        if i == 0:
            stepped[w] = 1
