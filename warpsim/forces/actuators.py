# SPDX-License-Identifier: Apache-2.0
"""Host side of actuators: tables, parameters and controls in the form that kernels read
(`kernels/forces/actuators.py`)."""

import functools

import warp as wp

from warpsim.kernels.forces import actuators
from warpsim.tree.dynamics import DeviceModel

ACTUATOR_PARAMETERS = ("actuator_gain", "actuator_bias", "control_range", "force_range")


@functools.cache
def _no_tables(real, device) -> tuple[wp.array, wp.array, wp.array]:
    """Empty tables (link, row, gear), for uses without actuators on joints."""
    none = wp.empty(0, dtype=wp.int32, device=device)
    return none, none, wp.empty((0, 0), dtype=real, device=device)


def actuators_of(device_model: DeviceModel, control: wp.array, given: dict | None = None, tables=None):
    """The struct `Actuators`. `given`: arrays by name that replace parameters. `tables`: (link, row, gear) of actuators
    on joints."""
    stored, given = device_model.parameters.stored, given or {}
    fields = zip(("gain", "bias", "control_range", "force_range"), ACTUATOR_PARAMETERS, strict=True)
    laws = {field: given.get(name, stored(name)) for field, name in fields}
    link, row, gear = tables or _no_tables(device_model.types.real, str(device_model.device))
    return device_model.struct(actuators.Actuators, link=link, row=row, gear=gear, control=control, **laws)
