# SPDX-License-Identifier: Apache-2.0
"""Sensors of lines (spatial tendons, actuators on sites and cranks): their rates, and the forces of these actuators on
joints."""

import warp as wp

from ..forces.transmission import Columns, Motors, line_rate
from ..real import kernel, real


@kernel(twin=True)
def line_rates(
    columns: Columns,
    moment: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    # out
    rate: wp.array2d(dtype=real),
):
    """Rates of the lengths of all lines. Launch over (worlds, lines)."""
    w, l = wp.tid()
    rate[w, l] = line_rate(columns, moment, v, w, l)


@kernel(twin=True)
def add_pulls(
    motors: Motors,
    dof: wp.array(dtype=int),
    adr: wp.array(dtype=int),
    force: wp.array2d(dtype=real),
    moment: wp.array2d(dtype=real),
    # out
    data: wp.array2d(dtype=real),
):
    """Adds the forces of actuators on lines to sensors of degrees of freedom. Launch over (worlds, sensors)."""
    w, s = wp.tid()
    for i in range(motors.begin[dof[s]], motors.begin[dof[s] + 1]):
        data[w, adr[s]] += motors.gear[i] * force[w, motors.actuator[i]] * moment[w, motors.column[i]]
