# SPDX-License-Identifier: Apache-2.0
"""Host side of actuators with a state, muscles, and ranges of several actuators: what a step finds of them before its forces (theory §8).

Only models with such actuators have it. Force kernels then read the laws s found here in place of gain and bias, and no controls.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import copy, twin
from warpsim.forces.actuators import actuators_of
from warpsim.kernels.forces import activation, effort_limits, muscle
from warpsim.kernels.integrate import keep_activation
from warpsim.model.model import Model
from warpsim.rows.scalar_rows import actuator_moments, dof_coordinates, padded


def is_needed(model: Model) -> bool:
    """Whether a model has actuators with a state, muscles, or ranges of what several actuators do."""
    return model.na > 0 or model.has_muscles or model.has_effort_limits


class Actuation:
    """Workspace and launches for all worlds. `activation (worlds, na)` is part of the state, `following` what it is after the step.

    `law (worlds, nu, 3)`: the force of every actuator is law · (1, length, velocity). `length`, `velocity (worlds, nu)` are those of
    the actuators where muscles or ranges ask for them, else empty. `tau (worlds, nv)`: the generalised forces that act, with what
    ranges of joints take away.
    """

    TAPED = ("activation", "following", "drive", "own", "law", "length", "velocity", "within_tendons", "total", "tau")

    def __init__(self, device_model, dynamics):
        model, t = device_model.model, device_model.types
        self.device_model, self.dynamics, self.model = device_model, dynamics, model
        S, array, nu = t.real, dynamics.array, model.nu
        self.activation, self.following = array(model.na, S), array(model.na, S)
        self.drive, self.law = array(nu, S), array((nu, 3), S)
        self.has_muscles, self.has_limits = model.has_muscles, model.has_effort_limits
        self.has_lengths = self.has_muscles or self.has_limits
        self.length, self.velocity = (array(nu if self.has_lengths else 0, S) for _ in range(2))
        self.table = copy(activation.Dynamics, S)()
        for key, value in (("kind", model.actuator_dynamics), ("index", model.actuator_activation)):
            setattr(self.table, key, self._array(value, wp.int32))
        self.table.early = self._array(model.actuator_early, wp.int32)
        self.table.range = self._array(model.activation_range, S)
        self.muscles = self._muscles() if self.has_lengths else None
        self.limits = self._limits() if self.has_limits else None
        # Laws before ranges of several actuators, and within those of tendons.
        self.own, self.within_tendons = (array((nu, 3), S) if self.has_limits else self.law for _ in range(2))
        self.total = array(self.limits.joint_range.shape[0] if self.has_limits else 0, S)
        self.tau = array(model.nv if self.has_limits else 0, S)
        self._no_gain = self._array(np.zeros((1, nu, 3)), S)
        self._no_range = self._array(np.tile([-np.inf, np.inf], (1, nu, 1)), S)
        self.no_control = wp.empty((0, 0), dtype=S, device=device_model.device)

    def _array(self, values, kind) -> wp.array:
        dtype = np.int32 if kind == wp.int32 else self.device_model.dtype
        return wp.array(np.ascontiguousarray(values, dtype=dtype), dtype=kind, device=self.device_model.device)

    def _muscles(self):
        model, S = self.model, self.device_model.types.real
        found = copy(muscle.Muscles, S)()
        moments = [actuator_moments(model, a) for a in range(model.nu)]
        width = max((len(dofs) for dofs, _ in moments), default=0)
        coordinates = dof_coordinates(model)
        found.size = self._array([len(dofs) for dofs, _ in moments], wp.int32)
        found.dof = self._array(padded([dofs for dofs, _ in moments], width, np.int32), wp.int32)
        found.q = self._array(padded([coordinates[dofs] for dofs, _ in moments], width, np.int32), wp.int32)
        found.moment = self._array(padded([arms for _, arms in moments], width, float), S)
        return found

    def _limits(self):
        model, S = self.model, self.device_model.types.real
        found = copy(effort_limits.EffortLimits, S)()
        tendons = np.flatnonzero(np.isfinite(model.tendon_effort_range).any(1))
        joints = np.flatnonzero(np.isfinite(model.joint_effort_range).any(1))
        dofs = model.joint_v[joints]
        moments = [dict(zip(*actuator_moments(model, a), strict=True)) for a in range(model.nu)]
        pullers = [np.flatnonzero(model.actuator_tendon == t) for t in tendons]
        movers = [[a for a, arms in enumerate(moments) if d in arms] for d in dofs]
        moved = [[j for j, d in enumerate(dofs) if d in arms] for arms in moments]
        place = {int(t): k for k, t in enumerate(tendons)}
        joint_of = np.full(model.nv, -1)
        joint_of[dofs] = np.arange(len(dofs))
        whole = {
            "tendon": [place.get(int(t), -1) for t in model.actuator_tendon],
            "tendon_begin": np.cumsum([0, *map(len, pullers)]),
            "tendon_actuator": np.concatenate([*pullers, []]),
            "joint": joint_of,
            "joint_dof": dofs,
            "joint_begin": np.cumsum([0, *map(len, movers)]),
            "joint_actuator": [a for part in movers for a in part],
            "joint_weight": model.joint_effort_gravity[joints],
            "actuator_begin": np.cumsum([0, *map(len, moved)]),
            "actuator_joint": [j for part in moved for j in part],
        }
        real = {
            "tendon_range": model.tendon_effort_range[tendons],
            "joint_range": model.joint_effort_range[joints],
            "joint_moment": [moments[a][d] for d, actuators in zip(dofs, movers, strict=True) for a in actuators],
        }
        for values, kind in ((whole, wp.int32), (real, S)):
            for name, value in values.items():
                setattr(found, name, self._array(value, kind))
        return found

    def given(self, law: wp.array | None = None) -> dict[str, wp.array]:
        """What force kernels read in place of parameters, by name. `law`: another array of laws."""
        return {
            "actuator_gain": self._no_gain,
            "actuator_bias": self.law if law is None else law,
            "control_range": self._no_range,
        }

    def find_lengths(self, q: wp.array, v: wp.array) -> None:
        """Lengths and velocities of actuators on joints and fixed tendons, where something asks for them."""
        find_lengths(self.dynamics, self, q, v)

    def launch(self, h: float, control: wp.array, tau: wp.array, compensation: wp.array) -> None:
        """The laws of a step of h, the activations after it, and the generalised forces; `find_lengths` comes before."""
        launch_laws(self.dynamics, self, h, control, tau, compensation)

    def report(self, status: wp.array) -> None:
        """An activation that is not finite goes into the solver's status."""
        if self.model.na:
            self.dynamics.launch(keep_activation.report_activation, None, [self.following, status])

    def keep(self, flags: wp.array) -> None:
        """Accept the activations after the step in the worlds that go on."""
        if self.model.na:
            inputs = [flags, self.following, self.activation]
            self.dynamics.launch(keep_activation.keep_activation, self.model.na, inputs)


class TapedActuation:
    """Twins of an `Actuation` of a step that is repeated, with gradients; `following_bar` is that of the state after the step."""

    def __init__(self, forward: Actuation):
        self.forward = forward
        made: dict[int, wp.array] = {}  # one for each array: without ranges some are the same
        for name in Actuation.TAPED:
            array = getattr(forward, name)
            setattr(self, name, made.setdefault(id(array), twin(array)))
        self.following_bar = wp.zeros_like(forward.following)

    def given(self) -> dict[str, wp.array]:
        """As `Actuation.given`, with gradients."""
        return self.forward.given(self.law)

    def find_lengths(self, dynamics, q: wp.array, v: wp.array) -> None:
        """As `Actuation.find_lengths`, for a tape."""
        find_lengths(dynamics, self, q, v)

    def record(self, dynamics, h: float, control: wp.array, tau: wp.array, compensation: wp.array) -> None:
        """As `Actuation.launch`, for a tape."""
        launch_laws(dynamics, self, h, control, tau, compensation)


def _forward(arrays) -> Actuation:
    return arrays.forward if isinstance(arrays, TapedActuation) else arrays


def find_lengths(dynamics, arrays, q: wp.array, v: wp.array) -> None:
    """Lengths into the arrays of an `Actuation` or of its twins."""
    forward = _forward(arrays)
    if forward.has_lengths:
        inputs = [forward.muscles, q, v, arrays.length, arrays.velocity]
        dynamics.launch(muscle.actuator_lengths, forward.model.nu, inputs)


def launch_laws(dynamics, arrays, h: float, control: wp.array, tau: wp.array, compensation: wp.array) -> None:
    """The laws into the arrays of an `Actuation` or of its twins."""
    forward = _forward(arrays)
    p, model = dynamics.device_model.parameters, dynamics.model
    inputs = [forward.table, p.stored("actuator_time"), h, actuators_of(dynamics.device_model, control)]
    inputs += [arrays.activation, arrays.following, arrays.drive, arrays.own]
    dynamics.launch(activation.actuator_laws, model.nu, inputs)
    if forward.has_muscles:
        inputs = [p.stored(key) for key in ("muscle_force", "muscle_curve", "actuator_length_range")]
        inputs += [arrays.drive, arrays.length, arrays.velocity, arrays.own]
        dynamics.launch(muscle.muscle_force, model.nu, inputs)
    if forward.has_limits:
        limits, at, force_range = forward.limits, [arrays.length, arrays.velocity], p.stored("force_range")
        inner, total = arrays.within_tendons, arrays.total
        dynamics.launch(effort_limits.limit_tendons, model.nu, [limits, *at, arrays.own, inner])
        inputs = [limits, force_range, *at, inner, compensation, total]
        dynamics.launch(effort_limits.joint_totals, total.shape[1], inputs)
        dynamics.launch(effort_limits.limit_joints, model.nu, [limits, force_range, *at, total, inner, arrays.law])
        dynamics.launch(effort_limits.limited_tau, model.nv, [limits, total, tau, arrays.tau])
