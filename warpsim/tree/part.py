# SPDX-License-Identifier: Apache-2.0
"""Parts of a step that only some models have: what they launch and when, in a step and on the tape."""

import copy
from typing import ClassVar

import warp as wp

from warpsim.device.copies import twin


class Part:
    """A part of the step `of`. The step calls the methods of its `parts` in the order below, see docs/step.md.

    On the tape, `of` is the backward pass, and `dynamics` its kinematics.
    """

    name: ClassVar[str]  # the attribute of the step that holds the part
    fuses: ClassVar[bool] = False  # whether a step that has this part may be launched as a `FusedStep`
    TAPED: ClassVar[tuple[str, ...]] = ()  # arrays that the part writes and gradients flow through
    moves: ClassVar[bool] = False  # whether on the tape the part has its own kinematics, at the start of the step
    values: ClassVar[str] = "given"  # `Stage.values` of the launches that are recorded

    def on_tape(self, dynamics) -> "Part":
        """The same part for a backward pass: the same numbers, with gradients."""
        made, twins = copy.copy(self), {}
        made.dynamics = dynamics
        for name in self.TAPED:
            array = getattr(self, name)
            setattr(made, name, twins.setdefault(id(array), twin(array)))
        return made

    record = None  # `record(h)` launches on the tape what `before_forces` launches in a step

    def seed(self, h: float) -> None:
        """Called before the recorded launches are reversed."""

    def act_on(self, acting) -> None:
        """Replace inputs of the step, or of the backward pass, with the part's own arrays: see `Acting`."""

    def before_forces(self, h: float) -> None:
        """Called after the kinematics at the start of the step."""

    def add_forces(self, force: wp.array) -> None:
        """Add the part's forces to the generalized forces."""

    def after_bias(self, h: float, x, dynamics) -> None:
        """Change the bias of `x`, a step or the object that finds its free motion."""

    def after_contacts(self, h: float) -> None:
        """Called after contact points and their Jacobians, before regularization."""

    def record_impulses(self, h: float) -> None:
        """Record on the tape what `after_contacts` does to the residual of the contact problem."""

    def after_solve(self, h: float) -> None:
        """Called after the solver."""

    def before_commit(self, h: float, v: wp.array) -> None:
        """Called before v, the velocity after the step, is accepted."""

    def after_commit(self) -> None:
        """Called after the step was accepted in the worlds where it is finite."""

    def memory(self) -> dict[str, wp.array]:
        """The arrays that the part keeps in a state, by name."""
        return {}

    def smooth_memory(self) -> tuple[str, ...]:
        """Names of the memory that gradients flow through."""
        return ()
