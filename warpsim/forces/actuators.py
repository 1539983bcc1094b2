# SPDX-License-Identifier: Apache-2.0
"""Host side of actuators: their tables, parameters and controls as kernels read them (`kernels/forces/actuators.py`)."""

import functools

import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.forces import actuators
from warpsim.tree.dynamics import DeviceModel

ACTUATOR_PARAMETERS = ("actuator_gain", "actuator_bias", "control_range", "force_range")


@functools.cache
def _no_tables(real, device) -> tuple[wp.array, wp.array, wp.array]:
    """Of what acts on no joint: (link, row, gear)."""
    none = wp.empty(0, dtype=wp.int32, device=device)
    return none, none, wp.empty((0, 0), dtype=real, device=device)


def actuators_of(device_model: DeviceModel, control: wp.array, given: dict | None = None, tables=None):
    """`Actuators`. `given`: arrays in place of parameters, by name; `tables`: (link, row, gear), for what acts on joints."""
    S, stored = device_model.types.real, device_model.parameters.stored
    made = copy(actuators.Actuators, S)()
    for field, name in zip(("gain", "bias", "control_range", "force_range"), ACTUATOR_PARAMETERS, strict=True):
        setattr(made, field, (given or {}).get(name, stored(name)))
    made.link, made.row, made.gear = tables or _no_tables(S, str(device_model.device))
    made.control = control
    return made
