# SPDX-License-Identifier: Apache-2.0
"""Sensors of several bodies: center of mass, its velocity and the angular momentum of subtrees; energies."""

import warp as wp

from ..real import kernel, real, struct, transform, vec2, vec3, vec6
from ..tree import joints
from ..tree import spatial as sp
from ..tree.passes import Topology, reference_point
from ..tree.plant import Plant
from .coordinate_sensors import Coordinates, coordinate
from .kinds_of_sensors import E_POTENTIAL, SUBTREECOM, SUBTREELINVEL


@struct
class SubtreeSensors:
    """A subtree is the links from `begin` to before `end`, the whole model begins at link 0; shared by all worlds."""

    kind: wp.array(dtype=int)
    adr: wp.array(dtype=int)
    begin: wp.array(dtype=int)
    end: wp.array(dtype=int)


@struct
class Sums:
    """Sums over each subtree in world axes, about the origin of its first link. They must be zero before."""

    mass: wp.array2d(dtype=real)  # (worlds, sensors)
    moment: wp.array2d(dtype=vec3)  # Σ m x
    momentum: wp.array2d(dtype=vec3)  # Σ m v
    spin: wp.array2d(dtype=vec3)  # Σ I ω + x × m v


@kernel(twin=True)
def measure_subtrees(
    topology: Topology,
    sensors: SubtreeSensors,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    # scratch
    sums: Sums,
    # out
    data: wp.array2d(dtype=real),
):
    """Measure every subtree sensor. A subtree without mass gives the position of its first link, and otherwise 0.
    Launch over (worlds, sensors)."""
    w, s = wp.tid()
    for l in range(sensors.begin[s], sensors.end[s]):
        b = topology.link_body[l]
        if b >= 0:
            X = link_X[w, l]
            V = link_V[w, l]
            o = reference_point(topology, link_X, w, l)
            com = wp.transform_point(X, plant.body_com[w % plant.body_com.shape[0], b])
            m = plant.body_mass[w % plant.body_mass.shape[0], b]
            arm = com - wp.transform_get_translation(link_X[w, sensors.begin[s]])
            p = m * sp.velocity_at(V, com - o)
            omega = wp.quat_rotate_inv(wp.transform_get_rotation(X), sp.angular(V))
            turning = wp.transform_vector(X, plant.body_inertia[w % plant.body_inertia.shape[0], b] * omega)
            sums.mass[w, s] += m
            sums.moment[w, s] += m * arm
            sums.momentum[w, s] += p
            sums.spin[w, s] += turning + wp.cross(arm, p)
    share = real(0.0)
    if sums.mass[w, s] > real(0.0):
        share = real(1.0) / sums.mass[w, s]
    value = vec3(real(0.0), real(0.0), real(0.0))
    if sensors.kind[s] == SUBTREECOM:
        if sensors.begin[s] < sensors.end[s]:
            value = wp.transform_get_translation(link_X[w, sensors.begin[s]]) + share * sums.moment[w, s]
    elif sensors.kind[s] == SUBTREELINVEL:
        value = share * sums.momentum[w, s]
    else:
        value = sums.spin[w, s] - share * wp.cross(sums.moment[w, s], sums.momentum[w, s])
    for i in range(3):
        data[w, sensors.adr[s] + i] = value[i]


@struct
class EnergySensors:
    """The sensors of energy; shared by all worlds."""

    kind: wp.array(dtype=int)
    adr: wp.array(dtype=int)
    tendons: Coordinates
    slack: wp.array(dtype=vec2)  # slack interval of every tendon


@kernel(twin=True)
def measure_energy(
    topology: Topology,
    sensors: EnergySensors,
    plant: Plant,
    tendon_stiffness: wp.array2d(dtype=real),
    link_X: wp.array2d(dtype=transform),
    link_V: wp.array2d(dtype=vec6),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    data: wp.array2d(dtype=real),
):
    """Potential energy of gravity (0 with all masses at the world's origin) and of joint and tendon springs; kinetic
    energy with rotors.

    `data` must be zero before. Launch over (worlds, sensors).
    """
    w, s = wp.tid()
    adr = sensors.adr[s]
    if sensors.kind[s] == E_POTENTIAL:
        for l in range(topology.link_type.shape[0]):
            b = topology.link_body[l]
            if b >= 0:
                com = wp.transform_point(link_X[w, l], plant.body_com[w % plant.body_com.shape[0], b])
                m = plant.body_mass[w % plant.body_mass.shape[0], b]
                data[w, adr] += -m * wp.dot(plant.gravity[w % plant.gravity.shape[0]], com)
            kind = topology.link_type[l]
            if kind != joints.FIXED:
                d = topology.link_v[l]
                x = joints.spring_deflection(kind, q, plant.joint_reference, w, topology.link_q[l], d)
                for i in range(joints.dofs(kind)):
                    k = plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d + i]
                    data[w, adr] += real(0.5) * k * x[i] * x[i]
        for t in range(sensors.slack.shape[0]):
            length = coordinate(sensors.tendons, q, w, t)
            stretch = wp.max(length - sensors.slack[t][1], real(0.0)) + wp.min(length - sensors.slack[t][0], real(0.0))
            k = tendon_stiffness[w % tendon_stiffness.shape[0], t]
            data[w, adr] += real(0.5) * k * stretch * stretch
    else:
        for l in range(topology.link_type.shape[0]):
            b = topology.link_body[l]
            if b >= 0:
                X = link_X[w, l]
                V = link_V[w, l]
                o = reference_point(topology, link_X, w, l)
                com = wp.transform_point(X, plant.body_com[w % plant.body_com.shape[0], b])
                u = sp.velocity_at(V, com - o)
                omega = wp.quat_rotate_inv(wp.transform_get_rotation(X), sp.angular(V))
                turning = wp.dot(omega, plant.body_inertia[w % plant.body_inertia.shape[0], b] * omega)
                data[w, adr] += real(0.5) * (plant.body_mass[w % plant.body_mass.shape[0], b] * wp.dot(u, u) + turning)
        for d in range(v.shape[1]):
            data[w, adr] += real(0.5) * plant.joint_armature[w % plant.joint_armature.shape[0], d] * v[w, d] * v[w, d]
