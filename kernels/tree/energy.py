# SPDX-License-Identifier: Apache-2.0
"""Mechanical energy of a state: kinetic energy (rotors included), potential energy of gravity and joint springs."""

import warp as wp

from ..linalg.lanes import lane, lanes, team_sum
from ..real import func, kernel, real, struct, transform, vec3, vec6, vec10
from . import joints
from . import spatial as sp
from .passes import Topology, reference_point
from .plant import Plant, sprung_deflection


@struct
class Energies:
    """Energies per world. An empty array is not filled."""

    kinetic: wp.array(dtype=real)
    potential: wp.array(dtype=real)
    total: wp.array(dtype=real)


@func
def team_energy(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    w: int,
    # out
    energies: Energies,
):
    """Kinetic and potential energy of a world, and their sum. By all lanes."""
    T = real(0.0)
    U = real(0.0)
    g = plant.gravity[w % plant.gravity.shape[0]]
    for l in range(lane(), topology.link_type.shape[0], lanes()):
        I = link_I[w, l]
        V = link_V[w, l]
        T += real(0.5) * wp.dot(V, sp.momentum(I, V))
        o = reference_point(topology, link_X, w, l)
        U -= wp.dot(g, vec3(I[1], I[2], I[3]) + I[0] * o)
        kind = topology.link_type[l]
        if kind != joints.FIXED:
            j = topology.link_v[l]
            x = sprung_deflection(plant, kind, q, w, topology.link_q[l], j)
            for i in range(joints.dofs(kind)):
                d = j + i
                T += real(0.5) * plant.joint_armature[w % plant.joint_armature.shape[0], d] * v[w, d] * v[w, d]
                U += real(0.5) * plant.joint_stiffness[w % plant.joint_stiffness.shape[0], d] * x[i] * x[i]
    T = team_sum(T)
    U = team_sum(U)
    energies.kinetic[w] = T
    energies.potential[w] = U
    energies.total[w] = T + U


@kernel(lanes=True)
def mechanical_energy(
    topology: Topology,
    plant: Plant,
    link_X: wp.array2d(dtype=transform),
    link_I: wp.array2d(dtype=vec10),
    link_V: wp.array2d(dtype=vec6),
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    energies: Energies,
):
    """Energies of all worlds. Launch over (worlds, lanes).

    The potential of gravity is zero where every center of mass is at the world's origin.
    """
    w, _lane = wp.tid()
    team_energy(topology, plant, link_X, link_I, link_V, q, v, w, energies)
