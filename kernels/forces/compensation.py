# SPDX-License-Identifier: Apache-2.0
"""Gravity compensation (gravcomp): a force −m g c at a body's center of mass, with its share c, in addition to all
other forces."""

import warp as wp

from ..real import kernel, real
from ..tree.plant import Plant


@kernel(twin=True)
def compensate(
    plant: Plant,
    share: wp.array(dtype=real),
    given: wp.array3d(dtype=real),
    # out
    compensation: wp.array3d(dtype=real),
    wrench: wp.array3d(dtype=real),
):
    """Wrenches (torque, force) at the bodies' centers of mass in world axes: `compensation` alone, and `wrench` = given
    + compensation. Launch over (worlds, bodies)."""
    w, b = wp.tid()
    m = plant.body_mass[w % plant.body_mass.shape[0], b] * share[b]
    g = plant.gravity[w % plant.gravity.shape[0]]
    wrench[w, b, 0] = given[w, b, 0]
    wrench[w, b, 1] = given[w, b, 1]
    wrench[w, b, 2] = given[w, b, 2]
    compensation[w, b, 3] = -m * g[0]
    compensation[w, b, 4] = -m * g[1]
    compensation[w, b, 5] = -m * g[2]
    wrench[w, b, 3] = given[w, b, 3] - m * g[0]
    wrench[w, b, 4] = given[w, b, 4] - m * g[1]
    wrench[w, b, 5] = given[w, b, 5] - m * g[2]
