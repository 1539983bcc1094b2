# SPDX-License-Identifier: Apache-2.0
"""All sensors of a model in MuJoCo's order. Sensors of a state are measured; those of a step are read from the state's
memory."""

import numpy as np
import warp as wp

from warpsim.device.per_world import fill
from warpsim.forces.actuators import actuators_of
from warpsim.kernels.sensors import reading
from warpsim.model.model import Model
from warpsim.model.sensor_types import OF_ACTUATORS, DataType, SensorType
from warpsim.sensors.actuator_forces import ActuatorForces
from warpsim.sensors.sensor_tables import chosen, of_step, step_columns
from warpsim.sensors.state_sensors import StateSensors
from warpsim.tree.dynamics import Dynamics

REACTIONS = ("acceleration", "joint_reaction")
OF_STATE, NOTHING = int(reading.OF_STATE), int(reading.NOTHING)


def cutoffs(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) cutoff of every number."""
    low, high = np.full(model.nsensordata, -np.inf), np.full(model.nsensordata, np.inf)
    for s in np.flatnonzero(model.sensor_cutoff > 0):
        columns = slice(model.sensor_adr[s], model.sensor_adr[s] + model.sensor_size[s])
        if model.sensor_datatype[s] in (DataType.REAL, DataType.POSITIVE):
            high[columns] = model.sensor_cutoff[s]
        if model.sensor_datatype[s] == DataType.REAL:
            low[columns] = -model.sensor_cutoff[s]
    return low, high


def unavailable(model: Model) -> list[int]:
    """Sensors without a value: placeholders, and forces and velocities of adhesion actuators in coordinates."""
    found = chosen(model, [SensorType.UNAVAILABLE]).tolist()
    sticks = model.actuator_body >= 0
    found += [int(s) for s in chosen(model, [SensorType.ACTUATORVEL]) if sticks[model.sensor_object[s, 0]]]
    return found + (chosen(model, [SensorType.JOINTACTUATORFRC]).tolist() if sticks.any() else [])


def sources(model: Model, with_control: bool) -> np.ndarray:
    """The source of every number, see `kernels/sensors/reading.py`. With a control, actuator forces are those at the
    state."""
    source = np.full(model.nsensordata, OF_STATE, np.int32)
    begin, _ = step_columns(model)
    for s, first in zip(of_step(model), begin, strict=True):
        if not (with_control and model.sensor_type[s] in OF_ACTUATORS):
            size = int(model.sensor_size[s])
            source[model.sensor_adr[s] : model.sensor_adr[s] + size] = np.arange(first, first + size)
    for s in unavailable(model):
        source[model.sensor_adr[s] : model.sensor_adr[s] + model.sensor_size[s]] = NOTHING
    return source


class ReactionReader:
    """Reads the accelerations of the degrees of freedom, or the joint reactions, of a step that kept them
    (`StepSensors.data`).

    With a `TapedDynamics` the launches may be taped.
    """

    def __init__(self, dynamics: Dynamics, what: str):
        model = dynamics.model
        first, self.shape = step_columns(model)[1], (model.nv,)
        if what == "joint_reaction":
            first, self.shape = first + model.nv, (model.nbody, 6)
        count = int(np.prod(self.shape))
        self._read_from(dynamics, np.arange(first, first + count), np.full(count, -np.inf), np.full(count, np.inf))

    def _read_from(self, dynamics: Dynamics, source: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """`source (numbers,)`: see `kernels/sensors/reading.py`. `low`, `high`: cutoffs."""
        self.dynamics, array, S = dynamics, dynamics.device_model.array, dynamics.device_model.types.real
        self.size, self.source, self.low, self.high = len(source), array(source), array(low, S), array(high, S)
        self.of_state = dynamics.array(0, S)

    def clear(self) -> None:
        """Before `read`: set arrays that are summed into to zero."""

    def owners(self) -> list:
        """The objects whose arrays are written to."""
        return []

    def read(
        self, q: wp.array, v: wp.array, time: wp.array, of_step: wp.array, stepped: wp.array, control, out: wp.array
    ) -> None:
        """Fill `out (worlds, numbers)`, after `clear`. `control` may be None."""
        self._read(self.source, of_step, stepped, out)

    def _read(self, source: wp.array, of_step: wp.array, stepped: wp.array, out: wp.array) -> None:
        inputs = [source, self.low, self.high, self.of_state, of_step, stepped, out]
        self.dynamics.launch(reading.read_sensors, out.shape[1], inputs)


class SensorReader(ReactionReader):
    """Reads all sensors of the model: `out (worlds, nsensordata)`."""

    def __init__(self, dynamics: Dynamics):
        model = dynamics.model
        self._read_from(dynamics, sources(model, False), *cutoffs(model))
        self.with_control = dynamics.device_model.array(sources(model, True))
        self.sensors = StateSensors(dynamics)
        self.actuators = ActuatorForces(dynamics, model.sensor_adr[chosen(model, OF_ACTUATORS)], self.sensors.lines)
        self.of_state = self.sensors.data

    def clear(self) -> None:
        for array in self.sensors.scratch():
            if array.size:
                fill(array)

    def owners(self) -> list:
        lines = self.sensors.lines
        return [self.sensors, self.actuators, *([] if lines is None else lines.owners())]

    def read(
        self, q: wp.array, v: wp.array, time: wp.array, of_step: wp.array, stepped: wp.array, control, out: wp.array
    ) -> None:
        self.sensors.measure(q, v, time)
        if control is not None:
            self.actuators.measure(q, v, actuators_of(self.dynamics.device_model, control), self.of_state)
        self._read(self.source if control is None else self.with_control, of_step, stepped, out)
