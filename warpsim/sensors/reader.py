# SPDX-License-Identifier: Apache-2.0
"""All sensors of a model in MuJoCo's order: those of a state are measured, those of a step are read from the state's memory."""

import numpy as np
import warp as wp

from warpsim.device.ranges import fill
from warpsim.forces.actuators import actuators_of
from warpsim.kernels.sensors import reading
from warpsim.model.model import Model
from warpsim.model.sensor_types import OF_ACTUATORS, DataType, SensorType
from warpsim.sensors.actuator_forces import ActuatorForces
from warpsim.sensors.sensor_tables import SensorTables, chosen, of_step, step_columns
from warpsim.sensors.state_sensors import StateSensors
from warpsim.tree.dynamics import Dynamics

REACTIONS = ("acceleration", "joint_reaction")
OF_STATE, NOTHING = int(reading.OF_STATE), int(reading.NOTHING)


def cutoffs(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) value of every number."""
    low, high = np.full(model.nsensordata, -np.inf), np.full(model.nsensordata, np.inf)
    for s in np.flatnonzero(model.sensor_cutoff > 0):
        columns = slice(model.sensor_adr[s], model.sensor_adr[s] + model.sensor_size[s])
        if model.sensor_datatype[s] in (DataType.REAL, DataType.POSITIVE):
            high[columns] = model.sensor_cutoff[s]
        if model.sensor_datatype[s] == DataType.REAL:
            low[columns] = -model.sensor_cutoff[s]
    return low, high


def unavailable(model: Model) -> list[int]:
    """Sensors without a value: those that only hold a place, and of what actuators that stick contacts do to coordinates."""
    found = chosen(model, [SensorType.UNAVAILABLE]).tolist()
    sticks = model.actuator_body >= 0
    found += [int(s) for s in chosen(model, [SensorType.ACTUATORVEL]) if sticks[model.sensor_object[s, 0]]]
    return found + (chosen(model, [SensorType.JOINTACTUATORFRC]).tolist() if sticks.any() else [])


def sources(model: Model, with_control: bool) -> np.ndarray:
    """Where every number comes from, see `kernels/sensors/reading.py`; with a control forces of actuators are those of the state."""
    source = np.full(model.nsensordata, OF_STATE, np.int32)
    begin, _ = step_columns(model)
    for s, first in zip(of_step(model), begin, strict=True):
        if not (with_control and model.sensor_type[s] in OF_ACTUATORS):
            size = int(model.sensor_size[s])
            source[model.sensor_adr[s] : model.sensor_adr[s] + size] = np.arange(first, first + size)
    for s in unavailable(model):
        source[model.sensor_adr[s] : model.sensor_adr[s] + model.sensor_size[s]] = NOTHING
    return source


class SensorReader:
    """Workspace and launches, which may be taped: with a `TapedDynamics`."""

    def __init__(self, dynamics: Dynamics):
        self.dynamics, model = dynamics, dynamics.model
        tables, S = SensorTables(dynamics.device_model), dynamics.device_model.types.real
        self.of_state = StateSensors(dynamics)
        self.actuators = ActuatorForces(dynamics, model.sensor_adr[chosen(model, OF_ACTUATORS)], self.of_state.lines)
        self.size = model.nsensordata
        self.low, self.high = (tables.array(x, S) for x in cutoffs(model))
        self.sources = {given: tables.array(sources(model, given)) for given in (False, True)}

    def clear(self) -> None:
        """Before `read`: what is summed up is zero."""
        for array in self.of_state.scratch():
            if array.size:
                fill(array)

    def owners(self) -> list:
        """What holds arrays that are written to."""
        lines = self.of_state.lines
        return [self.of_state, self.actuators, *([] if lines is None else lines.owners())]

    def read(
        self, q: wp.array, v: wp.array, time: wp.array, of_step: wp.array, stepped: wp.array, control, out: wp.array
    ) -> None:
        """`out (worlds, nsensordata)`, after `clear`; `control` may be None."""
        self.of_state.measure(q, v, time)
        if control is not None:
            actuators = actuators_of(self.dynamics.device_model, control)
            self.actuators.measure(q, v, actuators, self.of_state.data)
        inputs = [self.sources[control is not None], self.low, self.high, self.of_state.data, of_step, stepped, out]
        self.dynamics.launch(reading.read_sensors, out.shape[1], inputs)


class ReactionReader:
    """The accelerations of degrees of freedom or what joints bear, of a step that kept them (`StepSensors.data`)."""

    def __init__(self, dynamics: Dynamics, what: str):
        self.dynamics, model = dynamics, dynamics.model
        tables, S = SensorTables(dynamics.device_model), dynamics.device_model.types.real
        first, self.shape = step_columns(model)[1], (model.nv,)
        if what == "joint_reaction":
            first, self.shape = first + model.nv, (model.nbody, 6)
        self.size = count = int(np.prod(self.shape))
        self.source = tables.array(np.arange(first, first + count))
        self.low, self.high = (tables.array(np.full(count, x), S) for x in (-np.inf, np.inf))
        self._of_state = dynamics.array(0, S)

    def clear(self) -> None:
        """As of `SensorReader`."""

    def owners(self) -> list:
        """As of `SensorReader`."""
        return []

    def read(self, q, v, time, of_step: wp.array, stepped: wp.array, control, out: wp.array) -> None:
        """`out (worlds, numbers)`; arguments as of `SensorReader`, of which two are read."""
        if not out.size:
            return
        inputs = [self.source, self.low, self.high, self._of_state, of_step, stepped, out]
        self.dynamics.launch(reading.read_sensors, out.shape[1], inputs)
