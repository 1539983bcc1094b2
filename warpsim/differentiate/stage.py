# SPDX-License-Identifier: Apache-2.0
"""A step as a list of functions, and the backward pass that reverses them one by one (theory §3.5)."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import warp as wp

from warpsim.device.ranges import cut
from warpsim.device.recording import KnownTape


@dataclasses.dataclass
class Stage:
    """One function of a step, at the solution x that the step found: explicit, x = f(p), or implicit, r(x, p) = 0.

    `record(h)` launches the equations: the kernels that write x (explicit) or the residual r (implicit). None: the
    adjoint is written by hand, and `seed` adds the gradients itself.

    `seed(h)` runs before the equations are reversed. For an implicit function it solves (∂r/∂x)ᵀ r̄ = −x̄ for the
    gradient of r, and clears x̄. An explicit function needs none.

    `values`: when the outputs of the equations are computed: "once" for all seeds, "anew" for each seed because other
    stages write to the same arrays, or not at all because they are "given".
    """

    record: Callable[[float], object] | None
    seed: Callable[[float], None] | None = None
    values: Literal["once", "anew", "given"] = "once"


def evaluate(stages: list[Stage], h: float) -> None:
    """Launch the equations that are computed once, in the order of the step.

    Stages with the same equations share one launch.
    """
    for record in dict.fromkeys(stage.record for stage in stages if stage.values == "once"):
        if record is not None:
            record(h)


def take_back(stages: list[Stage], h: float) -> None:
    """From the gradients of the results to those of the inputs, last stage first, after `evaluate`."""
    for stage in reversed(stages):
        if stage.seed is not None:
            stage.seed(h)
        if stage.record is not None:
            with wp.Tape() if stage.values == "anew" else KnownTape() as tape:
                stage.record(h)
            with cut():
                tape.backward()
