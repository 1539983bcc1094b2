# SPDX-License-Identifier: Apache-2.0
"""Sensors of the forces of actuators. The launches may be taped."""

import numpy as np
import warp as wp

from warpsim.kernels.forces import actuators as actuator_kernels
from warpsim.kernels.sensors import actuator_sensors
from warpsim.model.model import Model
from warpsim.model.sensor_types import OF_ACTUATORS, SensorType
from warpsim.rows.scalar_rows import actuator_moments, padded
from warpsim.sensors.sensor_tables import SensorTables, chosen
from warpsim.tree.dynamics import Dynamics


def summed(model: Model, s: int) -> dict[int, float]:
    """The actuators that a sensor sums over, with their weights."""
    kind, index = model.sensor_type[s], int(model.sensor_object[s, 0])
    if kind == SensorType.ACTUATORFRC:
        return {index: 1.0}
    if kind == SensorType.TENDONACTUATORFRC:
        return {int(a): 1.0 for a in np.flatnonzero(model.actuator_tendon == index)}
    found = {}
    for a in range(model.nu):
        dofs, moments = actuator_moments(model, a)
        if model.joint_v[index] in dofs:
            found[a] = moments[dofs.index(int(model.joint_v[index]))]
    return found


def summing_table(tables: SensorTables, adr, found: list[dict[int, float]]):
    """`actuator_sensors.WeightedSums` for the columns `adr`: the numbers that each column sums, with their weights."""
    width = max([1, *(len(x) for x in found)])
    return tables.device_model.struct(
        actuator_sensors.WeightedSums,
        adr=adr,
        count=[len(x) for x in found],
        source=padded([list(x) for x in found], width, np.int32),
        weight=padded([list(x.values()) for x in found], width, float),
    )


class ActuatorForces:
    """Tables, workspace and launches. `adr`: the column of each sensor, in the order of the sensors. `lines`: see
    `SensorTables`."""

    def __init__(self, dynamics: Dynamics, adr, lines=None):
        self.lines = lines
        self.dynamics, model = dynamics, dynamics.model
        d = dynamics.device_model
        tables, sensors = SensorTables(d, lines), chosen(model, OF_ACTUATORS)
        self.count = len(sensors)
        self.force = dynamics.array(model.nu if self.count else 0, d.types.real)
        if not self.count:
            return
        self.lengths = tables.coordinates([("actuator", a) for a in range(model.nu)])
        ranged = np.flatnonzero(np.isfinite(model.joint_effort_range).any(1)).tolist()
        found, totals = [], {}
        for s, first in zip(sensors, adr, strict=True):
            joint = int(model.sensor_object[s, 0])
            if model.sensor_type[s] == SensorType.JOINTACTUATORFRC and joint in ranged:
                totals[int(first)] = ranged.index(joint)
            found.append({} if int(first) in totals else summed(model, s))
        self._make_own(tables, sensors, adr, found)
        self.sums, self.limited = summing_table(tables, adr, found), len(totals)
        self.totals = summing_table(tables, list(totals), [{j: 1.0} for j in totals.values()])
        self._make_pulls(tables, sensors, adr)
        self.ranges = d.array(model.joint_effort_range[ranged], d.types.vec2)

    def _make_own(self, tables: SensorTables, sensors, adr, found: list[dict[int, float]]) -> None:
        """Tables of sensors of actuators and tendons, if actuators include the effort range of a joint in their force
        range.

        These sensors read the force before the joint's range clamps it.
        """
        model, d = self.dynamics.model, self.dynamics.device_model
        wider = set(np.flatnonzero(~np.isnan(model.actuator_own_range).all(1)).tolist())
        before = [{} for _ in found]
        for i, s in enumerate(sensors):
            if model.sensor_type[s] != SensorType.JOINTACTUATORFRC and wider & found[i].keys():
                before[i], found[i] = found[i], {}
        self.widened = any(before)
        if self.widened:
            self.own = d.array(model.actuator_own_range, d.types.real)
            self.own_sums = summing_table(tables, adr, before)
            self.own_range = self.dynamics.array((model.nu, 2), d.types.real)
            self.own_force = self.dynamics.array(model.nu, d.types.real)

    def _make_pulls(self, tables: SensorTables, sensors, adr) -> None:
        """Tables of the forces of actuators on lines, for sensors of joints."""
        model, d = self.dynamics.model, self.dynamics.device_model
        on_joints = [
            (int(first), int(model.joint_v[model.sensor_object[s, 0]]))
            for s, first in zip(sensors, adr, strict=True)
            if model.sensor_type[s] == SensorType.JOINTACTUATORFRC
        ]
        self.pulled = len(on_joints) if self.lines is not None else 0
        if self.pulled:
            self.motors = self.lines.pulling()
            self.pull_adr, self.pull_dof = (d.array([x[i] for x in on_joints]) for i in (0, 1))

    def measure(self, q: wp.array, v: wp.array, actuators, data: wp.array, totals=None) -> None:
        """Add the forces at (q, v) to their columns of `data`, which must be zero before.

        `actuators`: see `actuators_of`. `totals`: total actuator forces on joints with an effort range.
        """
        dynamics = self.dynamics
        if not self.count:
            return
        inputs = [self.lengths, actuators, q, v, self.force]
        dynamics.launch(actuator_sensors.actuator_forces, dynamics.model.nu, inputs)
        if self.widened:
            inputs = [actuators.force_range, self.own, self.own_range]
            dynamics.launch(actuator_sensors.own_ranges, dynamics.model.nu, inputs)
            wider = {name: getattr(actuators, name) for name in actuators._cls.vars} | {"force_range": self.own_range}
            wider = dynamics.device_model.struct(actuator_kernels.Actuators, **wider)
            inputs = [self.lengths, wider, q, v, self.own_force]
            dynamics.launch(actuator_sensors.actuator_forces, dynamics.model.nu, inputs)
            dynamics.launch(actuator_sensors.measure_sums, self.count, [self.own_sums, self.own_force, 1.0, data])
        if totals is not None and self.limited:
            inputs = [self.totals, self.ranges, totals, data]
            dynamics.launch(actuator_sensors.measure_totals, self.limited, inputs)
        dynamics.launch(actuator_sensors.measure_sums, self.count, [self.sums, self.force, 1.0, data])
        if self.pulled:
            self.lines.add_pulls(self.motors, self.pull_dof, self.pull_adr, self.force, data)
