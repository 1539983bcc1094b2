"""Host side of actuators with a state and of muscles: what a step finds of them before its forces (`kernels/forces/activation.py`).

Only models with such actuators have it. Force kernels then read the laws s found here in place of gain and bias, and no controls.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import copy, kernels_of, twin
from warpsim.kernels.forces import activation, muscle
from warpsim.kernels.integrate import keep_activation
from warpsim.model.model import Model
from warpsim.rows.scalar_rows import actuator_moments, dof_coordinates, padded


def is_needed(model: Model) -> bool:
    """Whether a model has actuators with a state, or muscles."""
    return model.na > 0 or model.has_muscles


class Activation:
    """Workspace and launches for all worlds. `activation (worlds, na)` is part of the state, `following` what it is after the step.

    `law (worlds, nu, 3)`: the force of every actuator is law · (1, length, velocity). `length`, `velocity (worlds, nu)` are those of
    the actuators where a model has muscles, of others empty.
    """

    def __init__(self, device_model, dynamics):
        model, t = device_model.model, device_model.types
        self.device_model, self.dynamics, self.model = device_model, dynamics, model
        S, array, nu = t.real, dynamics.array, model.nu
        self.activation, self.following = array(model.na, S), array(model.na, S)
        self.drive, self.law = array(nu, S), array((nu, 3), S)
        self.has_muscles = model.has_muscles
        self.length, self.velocity = (array(nu if self.has_muscles else 0, S) for _ in range(2))
        self.table = copy(activation.Dynamics, S)()
        for key, value in (("kind", model.actuator_dynamics), ("index", model.actuator_activation)):
            setattr(self.table, key, self._array(value, wp.int32))
        self.table.early = self._array(model.actuator_early, wp.int32)
        self.table.time = self._array(model.actuator_time, S)
        self.table.range = self._array(model.activation_range, S)
        self.muscles = self._muscles() if self.has_muscles else None
        self._no_gain = self._array(np.zeros((1, nu, 3)), S)
        self._no_range = self._array(np.tile([-np.inf, np.inf], (1, nu, 1)), S)
        self.no_control = wp.empty((0, 0), dtype=S, device=device_model.device)

    def _array(self, values, kind) -> wp.array:
        dtype = np.int32 if kind == wp.int32 else self.device_model.dtype
        return wp.array(np.ascontiguousarray(values, dtype=dtype), dtype=kind, device=self.device_model.device)

    def _muscles(self):
        model, S = self.model, self.device_model.types.real
        found = copy(muscle.Muscles, S)()
        found.gain, found.bias = (self._array(model.actuator_muscle[:, k], S) for k in range(2))
        found.length_range = self._array(model.actuator_length_range, S)
        moments = [actuator_moments(model, a) for a in range(model.nu)]
        width = max((len(dofs) for dofs, _ in moments), default=0)
        coordinates = dof_coordinates(model)
        found.size = self._array([len(dofs) for dofs, _ in moments], wp.int32)
        found.dof = self._array(padded([dofs for dofs, _ in moments], width, np.int32), wp.int32)
        found.q = self._array(padded([coordinates[dofs] for dofs, _ in moments], width, np.int32), wp.int32)
        found.moment = self._array(padded([arms for _, arms in moments], width, float), S)
        return found

    def kernels(self) -> list:
        """Kernels that a step uses."""
        S = self.device_model.types.real
        files = [activation, keep_activation, *([muscle] if self.has_muscles else [])]
        return [kernel for file in files for kernel in kernels_of(file, S)]

    def given(self, law: wp.array | None = None) -> dict[str, wp.array]:
        """What force kernels read in place of parameters, by name. `law`: another array of laws."""
        return {
            "actuator_gain": self._no_gain,
            "actuator_bias": self.law if law is None else law,
            "control_range": self._no_range,
        }

    def launch(self, h: float, control: wp.array) -> None:
        """The laws of a step of h, and the activations after it; `length` and `velocity` must have been found."""
        launch_laws(self.dynamics, self, h, control)

    def find_lengths(self, q: wp.array, v: wp.array) -> None:
        """Lengths and velocities of actuators on joints and fixed tendons, where muscles ask for them."""
        if self.has_muscles:
            inputs = [self.muscles, q, v, self.length, self.velocity]
            self.dynamics.launch(muscle.actuator_lengths, self.model.nu, inputs)

    def report(self, status: wp.array) -> None:
        """An activation that is not finite goes into the solver's status."""
        if self.model.na:
            self.dynamics.launch(keep_activation.report_activation, None, [self.following, status])

    def keep(self, flags: wp.array) -> None:
        """Accept the activations after the step in the worlds that go on."""
        if self.model.na:
            inputs = [flags, self.following, self.activation]
            self.dynamics.launch(keep_activation.keep_activation, self.model.na, inputs)


def launch_laws(dynamics, arrays, h: float, control: wp.array) -> None:
    """The laws from the arrays of an `Activation` or of its twins on a tape."""
    forward = arrays.forward if isinstance(arrays, TapedActivation) else arrays
    p, model = dynamics.device_model.parameters, dynamics.model
    inputs = [forward.table, h, *(p.stored(key) for key in ("actuator_gain", "actuator_bias", "control_range"))]
    inputs += [control, arrays.activation, arrays.following, arrays.drive, arrays.law]
    dynamics.launch(activation.actuator_laws, model.nu, inputs)
    if forward.has_muscles:
        inputs = [forward.muscles, arrays.drive, arrays.length, arrays.velocity, arrays.law]
        dynamics.launch(muscle.muscle_force, model.nu, inputs)


class TapedActivation:
    """Twins of an `Activation` of a step that is repeated, with gradients; `following_bar` is that of the state after the step."""

    def __init__(self, forward: Activation):
        self.forward = forward
        for name in ("activation", "following", "drive", "law", "length", "velocity"):
            setattr(self, name, twin(getattr(forward, name)))
        self.following_bar = wp.zeros_like(forward.following)

    def given(self) -> dict[str, wp.array]:
        """As `Activation.given`, with gradients."""
        return self.forward.given(self.law)

    def record(self, dynamics, h: float, control: wp.array) -> None:
        """The equations of the laws, for a tape."""
        launch_laws(dynamics, self, h, control)
