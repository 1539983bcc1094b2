# SPDX-License-Identifier: Apache-2.0
"""A report of a rollout's backward pass: the size of the gradient per step and world, and where it must not be used."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from warpsim.base.annotations import Array, Device
from warpsim.base.pickled import pack, unpack
from warpsim.device.copies import SCALARS, launch
from warpsim.device.threads import in_turn, turn
from warpsim.kernels.differentiate import gradient
from warpsim.kernels.flags import NONFINITE

if TYPE_CHECKING:
    from warpsim.state import State

LISTED = 6  # worlds named in a message


class GradientReport:
    """Size of the gradient in every step and world, from a rollout with `gradient_norms=True`.

    `tape.backward` fills it. `print` shows it as a table.

    Attributes
    ----------
    norms : array (steps + 1, worlds)
        ‖∂loss/∂(q, v)‖ of the state after each step, on the device. Row 0 is the initial state.
    flags : array (steps, worlds) of int
        NONFINITE where a world was not finite in that step and kept its positions and velocities. No gradient passes
        through such a step.
    steps, worlds : int
        Number of steps and of worlds.
    """

    device: Device
    steps: int
    worlds: int
    flags: Array

    def __init__(self, sim: Any, steps: int):
        self.device, S = sim.device, SCALARS[sim.dtype]
        self._passed = False
        self.steps, self.worlds = steps, sim.worlds
        with turn(sim.device):
            self._norms = wp.zeros((steps + 1, sim.worlds), dtype=S, device=sim.device)
            self.flags = wp.zeros((steps, sim.worlds), dtype=wp.int32, device=sim.device)

    def __getstate__(self) -> dict[str, Any]:
        return pack({name: value for name, value in vars(self).items() if name != "device"})

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(unpack(kept))
        self.device = self._norms.device

    def __repr__(self) -> str:
        state = "filled" if self._passed else "before the backward pass"
        return f"GradientReport(steps={self.steps}, worlds={self.worlds}, {state}; print it for the table)"

    @property
    def norms(self) -> Array:
        """‖∂loss/∂(q, v)‖ after each step, array (steps + 1, worlds). Raises `ValueError` before the backward pass."""
        if not self._passed:
            raise ValueError("gradient norms exist after tape.backward(...)")
        return self._norms

    @in_turn
    def record(self, tape: Any, step: int, state: "State") -> None:
        """Let the tape measure the gradient of the state after this step, once the gradient is complete."""
        if step > 0:
            wp.copy(self.flags[step - 1], state.memory["flags"])
        tape.record_func(functools.partial(self.store_norms, step, state.alias()), [state.q, state.v])

    @in_turn
    def store_norms(self, step: int, state: "State") -> None:
        """Store the norms of the state's present gradient."""
        self._passed = True
        inputs = [state.q.grad, state.v.grad, self._norms[step]]
        launch(gradient.norm, self._norms.dtype, self.worlds, inputs, device=state.q.device)

    def frozen_from(self) -> np.ndarray:
        """First step (from 1) in which a world did not move because it was not finite, array (worlds,); 0: none."""
        still = self.flags.numpy() & int(NONFINITE) != 0
        return np.where(still.any(axis=0), still.argmax(axis=0) + 1, 0)

    def broken_at(self) -> np.ndarray:
        """Last step whose state has no finite gradient, where trouble began, array (worlds,); -1: none."""
        bad = ~np.isfinite(self.norms.numpy())
        return np.where(bad.any(axis=0), self.steps - bad[::-1].argmax(axis=0), -1)

    def check(self) -> None:
        """Raise `FloatingPointError` with the worlds and steps where a gradient is not finite."""
        broken = self.broken_at()
        if (broken >= 0).any():
            raise FloatingPointError(_named("gradient is not finite in", broken, broken >= 0, "state after step"))

    def __str__(self) -> str:
        norms, frozen, broken = self.norms.numpy(), self.frozen_from(), self.broken_at()
        usable = norms[:, (frozen == 0) & (broken < 0)]
        lines = [f"gradients of {self.steps} steps in {self.worlds} worlds"]
        for row in np.unique(np.linspace(self.steps, 0, 5).astype(int))[::-1]:
            if usable.size:
                median, most = np.median(usable[row]), usable[row].max()
                lines.append(f"  after step {row}: median norm {median:.3g}, largest {most:.3g}")
        if (broken >= 0).any():
            lines.append("  " + _named("not finite in", broken, broken >= 0, "state after step"))
        if (frozen > 0).any():
            lines.append("  " + _named("stopped (NONFINITE), no gradient from then on in", frozen, frozen > 0, "step"))
        return "\n".join(lines)


def _named(what: str, steps: np.ndarray, chosen: np.ndarray, unit: str) -> str:
    worlds = np.flatnonzero(chosen)
    listed = ", ".join(f"world {w} ({unit} {steps[w]})" for w in worlds[:LISTED])
    more = f" and {len(worlds) - LISTED} more worlds" if len(worlds) > LISTED else ""
    return f"{what} {listed}{more}"
