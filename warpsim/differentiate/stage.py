# SPDX-License-Identifier: Apache-2.0
"""A step as a list of functions, and the one backward pass that takes them back in turn (theory §3.5)."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import warp as wp

from warpsim.device.ranges import cut
from warpsim.device.recording import KnownTape


@dataclasses.dataclass
class Stage:
    """One function of a step, at the solution x that the step found.

    `record(h)` launches its equations: for an explicit function x = f(p) what writes x, for an implicit one what writes the
    residual r(x, p) of r = 0. `seed(h)` comes before the equations are run backwards: for an explicit function it has nothing to
    do, for an implicit one it solves (∂r/∂x)ᵀ r̄ = −x̄ for the gradient of r and clears x̄. A stage without `record` is an adjoint
    written by hand: its `seed` adds the gradients itself.

    `values`: what the equations write is computed "once" for all seeds, "anew" for each because other stages write there as
    well, or not at all, because it is "given".
    """

    record: Callable[[float], object] | None
    seed: Callable[[float], None] | None = None
    values: Literal["once", "anew", "given"] = "once"


def evaluate(stages: list[Stage], h: float) -> None:
    """Launch the equations that are computed once, in the order of the step; stages of the same equations share them."""
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
