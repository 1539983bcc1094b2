# SPDX-License-Identifier: Apache-2.0
"""Host side of actuators that need work before the forces of a step: activations, muscles, shared ranges (theory §8).

Shared ranges limit what several actuators do together on a joint or tendon. Only models with such actuators have this
part. Force kernels then read the laws s found here instead of gain and bias, and no controls.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import upload
from warpsim.device.per_world import assign
from warpsim.device.recording import tape_paused
from warpsim.forces.actuators import actuators_of
from warpsim.kernels.forces import activation, effort_limits, muscle
from warpsim.kernels.integrate import keep_activation
from warpsim.model.model import Model
from warpsim.rows.scalar_rows import actuator_moments, dof_coordinates, padded
from warpsim.tree.part import Part


def is_needed(model: Model) -> bool:
    """Whether a model has actuators with an activation, muscles, or ranges shared by several actuators."""
    return model.na > 0 or model.has_muscles or model.has_effort_limits


class Actuation(Part):
    """Workspace and launches for all worlds.

    `activation (worlds, na)` is part of the state, and `following` its value after the step. `law (worlds, nu, 3)`: the
    force of every actuator is law · (1, length, velocity). `length`, `velocity (worlds, nu)`: those of the actuators,
    where muscles or ranges need them; else empty. `tau (worlds, nv)`: the generalized forces, reduced by the ranges of
    joints.
    """

    name = "actuation"
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
        self.table = device_model.struct(
            activation.Dynamics, kind=model.actuator_dynamics, index=model.actuator_activation,
            early=model.actuator_early, range=model.activation_range,
        )  # fmt: skip
        self.muscles = self._muscles() if self.has_lengths else None
        self.limits = self._limits() if self.has_limits else None
        # Laws before the shared ranges, and within those of tendons.
        self.own, self.within_tendons = (array((nu, 3), S) if self.has_limits else self.law for _ in range(2))
        self.total = array(self.limits.joint_range.shape[0] if self.has_limits else 0, S)
        self.tau = array(model.nv if self.has_limits else 0, S)
        self.limited = wp.zeros((device_model.worlds, nu), dtype=wp.int32, device=device_model.device)
        self._no_gain = upload(np.zeros((1, nu, 3)), S, device_model.device, ndim=3)
        self._no_range = upload(np.tile([-np.inf, np.inf], (1, nu, 1)), S, device_model.device, ndim=3)
        self.no_control = wp.empty((0, 0), dtype=S, device=device_model.device)

    def _muscles(self):
        model = self.model
        moments = [actuator_moments(model, a) for a in range(model.nu)]
        width = max((len(dofs) for dofs, _ in moments), default=0)
        coordinates = dof_coordinates(model)
        return self.device_model.struct(
            muscle.Muscles,
            size=[len(dofs) for dofs, _ in moments],
            dof=padded([dofs for dofs, _ in moments], width, np.int32),
            q=padded([coordinates[dofs] for dofs, _ in moments], width, np.int32),
            moment=padded([arms for _, arms in moments], width, float),
        )

    def _limits(self):
        model = self.model
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
        tables = {
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
            "tendon_range": model.tendon_effort_range[tendons],
            "joint_range": model.joint_effort_range[joints],
            "joint_moment": [moments[a][d] for d, actuators in zip(dofs, movers, strict=True) for a in actuators],
        }
        return self.device_model.struct(effort_limits.EffortLimits, **tables)

    def act_on(self, acting) -> None:
        """Let force kernels read the laws instead of parameters and controls."""
        acting.replacing |= {"actuator_gain": self._no_gain, "actuator_bias": self.law, "control_range": self._no_range}
        acting.actuator_control = self.no_control
        if self.has_limits:
            acting.acting_tau = self.tau

    def before_forces(self, h: float) -> None:
        """Lengths and velocities, the laws for a step of h, the activations after it, and the generalized forces."""
        of = self.of
        if self.has_lengths:
            inputs = [self.muscles, of.q, of.v0, self.length, self.velocity]
            self.dynamics.launch(muscle.actuator_lengths, self.model.nu, inputs)
            if of.lines is not None:
                of.lines.measure_actuators(of.v0, self.length, self.velocity)
        self.launch_laws(h, of.control, of.pushed, of.compensating)

    def record(self, h: float) -> None:
        self.before_forces(h)

    def seed(self, h: float) -> None:
        """Seed the gradient of the activations after the step with `following_bar`."""
        if self.model.na:
            assign(self.following.grad, self.following_bar)

    def on_tape(self, dynamics) -> "Actuation":
        made = super().on_tape(dynamics)
        made.following_bar = wp.zeros_like(self.following)
        return made

    def launch_laws(self, h: float, control: wp.array, tau: wp.array, compensation: wp.array) -> None:
        """The laws at the current lengths and velocities."""
        dynamics, model, stored = self.dynamics, self.model, self.dynamics.device_model.parameters.stored
        actuators = actuators_of(dynamics.device_model, control)
        inputs = [self.table, stored("actuator_time"), h, actuators, self.activation, self.following]
        dynamics.launch(activation.actuator_laws, model.nu, [*inputs, self.drive, self.own])
        if self.has_muscles:
            self.measure_muscles(muscle.muscle_force, self.own)
        if self.has_limits:
            limits, inner, total = self.limits, self.within_tendons, self.total
            own, limited = self._laws(self.own), self._laws(inner)
            dynamics.launch(effort_limits.limit_tendons, model.nu, [limits, own, inner])
            dynamics.launch(effort_limits.joint_totals, total.shape[1], [limits, limited, compensation, total])
            dynamics.launch(effort_limits.limit_joints, model.nu, [limits, limited, total, self.law])
            dynamics.launch(effort_limits.limited_tau, model.nv, [limits, total, tau, self.tau])

    def _laws(self, law: wp.array):
        d = self.dynamics.device_model
        read = {"length": self.length, "velocity": self.velocity, "force_range": d.parameters.stored("force_range")}
        return d.struct(effort_limits.Laws, law=law, **read)

    def find_limited(self) -> wp.array:
        """`(worlds, nu)`: 1 for actuators on tendons and joints whose shared range is exceeded."""
        inputs = [self.limits, self._laws(self.own), self.total, self.of.actuator_tables[0], self.limited]
        with tape_paused():
            self.dynamics.launch(effort_limits.find_limited, self.model.nu, inputs)
        return self.limited

    def controls(self) -> tuple:
        """The actuators with their controls, and the activations."""
        return actuators_of(self.dynamics.device_model, self.of.control), self.activation

    def measure_muscles(self, kernel, out: wp.array) -> None:
        """`muscle_force` or `muscle_slopes` at the current lengths and velocities."""
        stored = self.dynamics.device_model.parameters.stored
        inputs = [stored(key) for key in ("muscle_force", "muscle_curve", "actuator_length_range")]
        self.dynamics.launch(kernel, self.model.nu, [*inputs, self.drive, self.length, self.velocity, out])

    def before_commit(self, h: float, v: wp.array) -> None:
        """Report an activation that is not finite in the solver's status."""
        if self.model.na:
            inputs = [self.following, self.of.solver.solution.status]
            self.dynamics.launch(keep_activation.report_activation, None, inputs)

    def after_commit(self) -> None:
        """Accept the activations after the step, in the worlds that go on."""
        inputs = [self.of.flags, self.following, self.activation]
        self.dynamics.launch(keep_activation.keep_activation, self.model.na, inputs)

    def memory(self) -> dict[str, wp.array]:
        return {"activation": self.activation} if self.model.na else {}

    def smooth_memory(self) -> tuple[str, ...]:
        return tuple(self.memory())
