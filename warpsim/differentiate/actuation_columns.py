# SPDX-License-Identifier: Apache-2.0
"""Closed-form columns of muscles and of actuators with an activation, for `linearize.py`.

Device: `kernels/differentiate/law_columns.py`.
"""

import warp as wp

from warpsim.device.copies import twin
from warpsim.device.per_world import assign, fill
from warpsim.device.ranges import cut
from warpsim.device.recording import KnownTape
from warpsim.integrate.step import Step
from warpsim.kernels.differentiate import law_columns
from warpsim.kernels.forces import muscle
from warpsim.tree.dynamics import Dynamics


class ActuationColumns:
    """Slopes of a step's actuator laws, and the columns that they add to a linearization."""

    def __init__(self, step: Step):
        self.step, self.model = step, step.model
        self.control = twin(step.control)
        self.taped = step.actuation.on_tape(Dynamics(step.device_model, grad=True))
        array, S, nu = step.dynamics.array, step.device_model.types.real, step.model.nu
        self.no_control = array(nu, S)
        self.has_lengths = step.actuation.has_lengths
        sizes = dict.fromkeys(("control", "activation"), (nu, 3))
        sizes |= dict.fromkeys(("length", "velocity"), (nu if self.has_lengths else 0, 3))
        sizes |= {"following_control": nu, "following_activation": step.model.na}
        self.slopes = step.dynamics.workspace(law_columns.LawSlopes, **sizes)

    def find(self, h: float) -> None:
        """Find the slopes at the step that was made."""
        t, launch, index = self.taped, self.step.dynamics.launch, self.step.actuation.table.index
        for component in range(3):
            self._clear()
            launch(law_columns.seed_law, self.model.nu, [component, t.law.grad])
            self._take_back(h)
            bars = [x.grad for x in (self.control, t.activation, t.length, t.velocity)]
            launch(law_columns.keep_law_slopes, self.model.nu, [component, index, *bars, self.slopes])
        self._clear()
        fill(t.following.grad, 1.0)
        self._take_back(h)
        assign(self.slopes.following_control, self.control.grad)
        assign(self.slopes.following_activation, t.activation.grad)

    def _clear(self) -> None:
        arrays = {id(x): x for x in (getattr(self.taped, name) for name in self.step.actuation.TAPED)}
        for array in (self.control, *arrays.values()):
            fill(array.grad)

    def _take_back(self, h: float) -> None:
        step = self.step
        with KnownTape() as tape:
            self.taped.launch_laws(h, self.control, step.tau, step.scalar_rows.nothing)
        with cut():
            tape.backward()

    def add(self, first_law: int, first_control: int, X: wp.array) -> None:
        """Add what the laws contribute to the columns of (q, v0, activation) and of the controls."""
        actuation = self.step.actuation
        muscles = actuation.muscles or self.step.device_model.struct(muscle.Muscles)
        inputs = [actuation.table.index, muscles, int(self.has_lengths), self.slopes, first_law, first_control, X]
        self.step.dynamics.launch(law_columns.law_columns, None, inputs)

    def store(self, A: wp.array, B: wp.array) -> None:
        """Write the rows of the next activations into A and B."""
        inputs = [self.step.actuation.table.index, self.slopes, 2 * self.model.nv, A, B]
        self.step.dynamics.launch(law_columns.activation_rows, self.model.nu, inputs)
