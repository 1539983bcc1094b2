# SPDX-License-Identifier: Apache-2.0
"""What only some models have in a step: what it launches and when, in a step and on the tape of a backward pass."""

import copy
from typing import ClassVar

import warp as wp

from warpsim.device.copies import twin


class Part:
    """A part of the step `of`, whose verbs are called in the order of the step's `parts`: see docs/step.md.

    On the tape `of` is the backward pass, and `dynamics` its kinematics.
    """

    name: ClassVar[str]  # the attribute of the step that it is
    fuses: ClassVar[bool] = False  # whether a step that has it may be launched as `FusedStep`
    TAPED: ClassVar[tuple[str, ...]] = ()  # arrays that it writes and gradients flow through
    moves: ClassVar[bool] = False  # whether on the tape it has kinematics of its own, at the start of the step
    values: ClassVar[str] = "given"  # of the launches that are recorded, see `Stage`

    def on_tape(self, dynamics) -> "Part":
        """The part of a backward pass: the same numbers, with gradients."""
        made, twins = copy.copy(self), {}
        made.dynamics = dynamics
        for name in self.TAPED:
            array = getattr(self, name)
            setattr(made, name, twins.setdefault(id(array), twin(array)))
        return made

    record = None  # `record(h)`: what `before_forces` launches, on the tape

    def seed(self, h: float) -> None:
        """Before what was recorded is taken back."""

    def act_on(self, acting) -> None:
        """Put arrays of its own in the place of what is given to the step or to the backward pass, see `Acting`."""

    def before_forces(self, h: float) -> None:
        """After the kinematics at the start of the step."""

    def add_forces(self, force: wp.array) -> None:
        """Add to the generalised forces."""

    def after_bias(self, h: float, x, dynamics) -> None:
        """Change the bias of `x`, a step or what finds its free motion."""

    def after_contacts(self, h: float) -> None:
        """After contact points and their Jacobians, before regularisation."""

    def record_impulses(self, h: float) -> None:
        """What `after_contacts` does to the residual of the contact problem, on the tape."""

    def after_solve(self, h: float) -> None:
        """After the solver."""

    def before_commit(self, h: float, v: wp.array) -> None:
        """Before the velocity v after the step is accepted."""

    def after_commit(self) -> None:
        """After the step was accepted in the worlds where it is finite."""

    def memory(self) -> dict[str, wp.array]:
        """What it keeps in a state, by name."""
        return {}

    def smooth_memory(self) -> tuple[str, ...]:
        """Names of the memory that gradients flow through."""
        return ()
