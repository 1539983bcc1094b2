# SPDX-License-Identifier: Apache-2.0
"""Sensors of actuator forces: their law at a state, and weighted sums of forces (of actuators on joints and tendons, of
limit rows).

The law uses the velocity of the state, as MuJoCo reports it. A step uses the velocity at its end.
"""

import warp as wp

from ..forces.activation import within
from ..forces.actuators import Actuators, actuator_law, clamped
from ..real import kernel, real, struct, vec2, vec3
from .coordinate_sensors import Coordinates, coordinate, rate


@struct
class WeightedSums:
    """The numbers that each sensor sums, with their weights; shared by all worlds."""

    adr: wp.array(dtype=int)
    count: wp.array(dtype=int)
    source: wp.array2d(dtype=int)
    weight: wp.array2d(dtype=real)


@kernel(twin=True)
def actuator_forces(
    lengths: Coordinates,
    actuators: Actuators,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    force: wp.array2d(dtype=real),
):
    """Force of every actuator, clamped to its range. Launch over (worlds, actuators)."""
    w, a = wp.tid()
    s = vec3(real(1.0), coordinate(lengths, q, w, a), rate(lengths, v, w, a))
    force[w, a] = clamped(wp.dot(actuator_law(actuators, w, a), s), actuators.force_range, w, a)


@kernel(twin=True)
def own_ranges(
    force_range: wp.array3d(dtype=real),
    own: wp.array2d(dtype=real),
    # out
    shown: wp.array3d(dtype=real),
):
    """Force ranges of actuators as their sensors see them: `own (nu, 2)`, or `force_range` if that is NaN. Launch over
    (worlds, actuators)."""
    w, a = wp.tid()
    row = w % force_range.shape[0]
    for side in range(2):
        bound = own[a, side]
        if wp.isnan(bound):
            bound = force_range[row, a, side]
        shown[w, a, side] = bound


@kernel(twin=True)
def measure_totals(
    sums: WeightedSums,
    ranges: wp.array(dtype=vec2),
    total: wp.array2d(dtype=real),
    # out
    data: wp.array2d(dtype=real),
):
    """Total actuator forces on joints with an effort range, clamped to that range. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    j = sums.source[s, 0]
    data[w, sums.adr[s]] = within(total[w, j], ranges[j][0], ranges[j][1])


@kernel(twin=True)
def measure_sums(
    sums: WeightedSums,
    x: wp.array2d(dtype=real),
    scale: real,
    # out
    data: wp.array2d(dtype=real),
):
    """data += scale Σ weight x; `data` must be zero before. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    for k in range(sums.count[s]):
        data[w, sums.adr[s]] += scale * sums.weight[s, k] * x[w, sums.source[s, k]]
