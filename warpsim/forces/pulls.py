# SPDX-License-Identifier: Apache-2.0
"""Host side of explicit actuators and tendon springs (`kernels/forces/pulls.py`), for MuJoCo's integrators."""

import numpy as np
import warp as wp

from warpsim.forces.actuators import actuators_of
from warpsim.forces.lines import Lines
from warpsim.kernels.forces import activation, muscle, pulls
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.part import Part


def pulling_tendons(model: Model) -> np.ndarray:
    """The tendons with a spring or a damper."""
    return np.flatnonzero((model.tendon_stiffness != 0.0) | (model.tendon_damping != 0.0))


def turning_servos(model: Model) -> np.ndarray:
    """`(nu,)` the length of a full turn of servos that turn one site about another; 0 for other actuators."""
    gain, bias = model.actuator_gain, model.actuator_bias
    servo = (gain[:, 0] == -bias[:, 1]) & (bias[:, 1] != 0) & ~gain[:, 1:].any(1)
    servo &= np.isin(model.actuator_dynamics, (activation.NONE, activation.INTEGRATOR))
    servo &= (model.actuator_site >= 0).all(1) & ~model.actuator_gear[:, :3].any(1)
    return np.where(servo, 2.0 * np.pi * np.linalg.norm(model.actuator_gear[:, 3:], axis=1), 0.0)


class Pulls(Part):
    """Tables and launches for all worlds. `pull (worlds, n)`: the forces of all actuators, then of all tendons with a
    spring or a damper. `slope (worlds, n)`: after `damp`, their derivatives with respect to their rates."""

    name = "pulls"
    TAPED = ("pull", "slope", "muscle_slope")

    def __init__(self, dynamics: Dynamics, lines: Lines | None):
        self.dynamics, self.lines = dynamics, lines
        model, d = dynamics.model, dynamics.device_model
        actuators, tendons = np.flatnonzero(model.actuator_body < 0), pulling_tendons(model)
        found = [self._of_actuator(model, int(a)) for a in actuators] + [
            self._of_tendon(model, int(t)) for t in tendons
        ]
        count = self.count = len(found)
        none = np.full(count, -1)
        arms = [(*entry, i) for i, (_, _, own) in enumerate(found) for entry in own]
        dof, q, weight, column, owner = (np.array(x) for x in zip(*arms, strict=True)) if arms else (np.empty(0),) * 5
        slack = np.concatenate([np.zeros((len(actuators), 2)), model.tendon_reference[tendons]])
        self.table = d.struct(
            pulls.Pulls,
            actuator=np.concatenate([actuators, none[len(actuators) :]]),
            tendon=np.concatenate([none[: len(actuators)], tendons]),
            slack=slack,
            line=[line for line, _, _ in found],
            gear=[gear for _, gear, _ in found],
            period=np.concatenate([turning_servos(model)[actuators], np.zeros(len(tendons))]),
            begin=np.cumsum([0, *(len(own) for _, _, own in found)]),
            dof=dof, q=q, weight=weight, column=column, owner=owner,
            dof_begin=np.searchsorted(np.sort(dof), np.arange(model.nv + 1)),
            dof_arm=np.argsort(dof, kind="stable"),
        )  # fmt: skip
        self.pull, self.slope = (dynamics.array(count, d.types.real) for _ in range(2))
        self.muscle_slope = dynamics.array(model.nu if model.has_muscles else 0, d.types.real)
        self.nothing, self.unlimited = (wp.empty((0, 0), dtype=t, device=d.device) for t in (d.types.real, wp.int32))

    def _on_line(self, line: int, gear: float):
        """(line, gear, moment arms as (dof, coordinate, weight, column))."""
        tables = self.lines.tables
        columns = enumerate(tables.supports[line], int(tables.line_begin[line]))
        return line, gear, [(dof, -1, gear, column) for column, dof in columns]

    def _on_coordinates(self, model: Model, weights: np.ndarray):
        dofs = np.flatnonzero(weights)
        return -1, 0.0, [(d, model.link_q[model.dof_link[d]], weights[d], -1) for d in dofs]

    def _of_tendon(self, model: Model, t: int, gear: float = 1.0):
        line = -1 if self.lines is None else self.lines.tables.line_of_tendon(t)
        if line >= 0:
            return self._on_line(line, gear)
        return self._on_coordinates(model, gear * model.tendon_coefficients[t])

    def _of_actuator(self, model: Model, a: int):
        joint, gear = int(model.actuator_joint[a]), model.actuator_gear[a]
        if model.actuator_tendon[a] >= 0:
            return self._of_tendon(model, int(model.actuator_tendon[a]), float(gear[0]))
        if joint < 0:
            return self._on_line(*self.lines.tables.line_of(a))
        dof, kind = int(model.joint_v[joint]), JointType(model.joint_type[joint])
        if kind in (JointType.BALL, JointType.FREE):
            return -1, 0.0, [(dof + k, -1, gear[k], -1) for k in range(JOINT_NV[kind])]
        return -1, 0.0, [(dof, int(model.joint_q[joint]), gear[0], -1)]

    def _line_arrays(self) -> tuple[wp.array, wp.array]:
        """Lengths and moment arms of the lines."""
        return (self.nothing, self.nothing) if self.of.lines is None else (self.of.lines.length, self.of.lines.moment)

    def _told(self):
        """Actuators with their gains and setpoints: controls or activations."""
        of = self.of
        if of.actuation is None:
            return of.actuators
        given = {"control_range": of.replacing["control_range"]}
        return actuators_of(self.dynamics.device_model, of.actuation.drive, given, of.actuator_tables)

    def _springs(self):
        stored = self.dynamics.device_model.parameters.stored
        given = {"stiffness": stored("tendon_stiffness"), "damping": stored("tendon_damping")}
        return self.dynamics.device_model.struct(pulls.TendonSprings, **given)

    def add_forces(self, force: wp.array) -> None:
        of, nv, (length, moment) = self.of, self.dynamics.model.nv, self._line_arrays()
        inputs = [self.table, of.actuators, self._told(), self._springs(), of.q, of.v0, length, moment, self.pull]
        self.dynamics.launch(pulls.pull_forces, self.count, inputs)
        self.dynamics.launch(pulls.apply_pulls, nv, [self.table, moment, self.pull, force])

    def add_tensions(self, dynamics: Dynamics, tension: wp.array) -> None:
        """Add the forces along spatial tendons to their tensions, by launches of `dynamics`."""
        dynamics.launch(pulls.add_tensions, tension.shape[1], [self.table, self.pull, tension])

    def damp(self, ancestor: wp.array, C: wp.array) -> None:
        """Write −∂(force)/∂v of all pulls at (q, v0) to the blocks C. `ancestor`: `DeviceModel.ancestors`."""
        of, d, (length, moment) = self.of, self.dynamics.device_model, self._line_arrays()
        own, limited = of.actuators, self.unlimited
        if of.actuation is not None and of.actuation.has_limits:
            laws = of.replacing | {"actuator_bias": of.actuation.own}
            own, limited = actuators_of(d, of.actuator_control, laws, of.actuator_tables), of.actuation.find_limited()
        if self.muscle_slope.shape[1]:
            of.actuation.measure_muscles(muscle.muscle_slopes, self.muscle_slope)
        slopes = self.muscle_slope if self.muscle_slope.shape[1] else self.nothing
        inputs = [
            self.table,
            own,
            self._told(),
            limited,
            slopes,
            self._springs(),
            of.q,
            of.v0,
            length,
            moment,
            self.slope,
        ]
        self.dynamics.launch(pulls.pull_slopes, self.count, inputs)
        inputs = [d.topology, ancestor, self.table, moment, self.slope, C]
        self.dynamics.launch(pulls.pull_damping, d.model.nv, inputs)
