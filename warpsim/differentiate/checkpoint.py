# SPDX-License-Identifier: Apache-2.0
"""Gradients of long rollouts: keep every n-th state, and repeat the steps between on the backward pass (theory §7).

Memory is O(T/n + n) states instead of O(T), for one more forward pass. The repeated steps use the parameters that were
kept, so that their states are the same bits. Where they are not, because controls were changed in between, the backward
pass raises an error.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import launch
from warpsim.device.threads import holds, in_turn
from warpsim.differentiate.taped import flat
from warpsim.kernels.differentiate import gradient
from warpsim.tree.dynamics import BLOCK


def move_gradient(source: wp.array, target: wp.array) -> None:
    """target += source, source <- 0; arrays (worlds, …)."""
    if source.size:
        source, target = flat(source), flat(target)
        launch(gradient.move, source.dtype, source.shape, [source, target], device=source.device, block_dim=BLOCK)


def move_state_gradient(source, target) -> None:
    """Move the gradient of one state to another state."""
    targets = target.smooth_arrays()
    for name, array in source.smooth_arrays().items():
        move_gradient(array.grad, targets[name].grad)


class Checkpoints:
    """The kept states of one rollout, and its backward pass.

    `source(step, state)` gives the step's row of controls. `poses` holds the rows of mocap poses, or is None.
    `kept.of(step)` gives the parameters and the row of controls that the step used. `inputs` are the arrays (or None)
    that may receive gradients.
    """

    def __init__(self, sim, steps: int, every: int, kept, inputs, report, *, source, poses, substeps: int):
        self.device = sim.device
        self.sim, self.steps, self.every, self.substeps = sim, steps, every, substeps
        self.source, self.poses, self.kept, self.inputs, self.report = source, poses, kept, inputs, report
        self.states = []

    @in_turn
    def keep(self, step: int, state) -> None:
        """Keep a state if it begins a segment."""
        if step % self.every == 0 and step < self.steps:
            self.states.append(state.without_gradient())
        if self.report is not None and step > 0:
            wp.copy(self.report.flags[step - 1], state.memory["flags"])

    @in_turn
    def record(self, tape, start, recorder, final):
        """Put the rollout on the tape as one operation; returns the last state, with a gradient."""
        self.start, self.recorder = start.alias(), recorder
        returned = self.sim._stepper.blank_state()
        returned.assign(final)
        returned.recorded = True
        self.final = returned.alias()
        arrays = [x for s in (start, self.final) for x in s.smooth_arrays().values()] + [*recorder.states.values()]
        arrays += [x for x in self.inputs if x is not None and x.grad is not None]
        tape.record_func(self.backward, arrays)
        return returned

    @holds
    @in_turn
    def backward(self) -> None:
        """Add the gradient of the rollout's inputs, given those of its recorded rows and its last state."""
        saved = self._save_diagnostics()
        differences = wp.zeros(self.sim.worlds, dtype=wp.int32, device=self.sim.device)
        end, after = self.final, self.final  # the state to arrive at, and the one that holds its gradient
        with self.kept.parameters.used():
            for segment in reversed(range(len(self.states))):
                chain, tape = self._repeat(segment)
                self._compare(chain[-1], end, differences)
                move_state_gradient(after, chain[-1])
                tape.backward()
                end, after = self.states[segment], chain[0]
        move_state_gradient(after, self.start)
        self.recorder.give_back(0, self.start)
        if self.report is not None:
            self.report.store_norms(0, self.start)
        self._restore_diagnostics(saved)
        self._refuse_differences(differences)

    def _repeat(self, segment: int):
        """Repeat a segment on a tape: (states, tape). All states but the first have the gradients of their rows."""
        first = segment * self.every
        chain = [self.sim._stepper.blank_state()]
        chain[0].assign(self.states[segment])
        chain[0].recorded = True
        with wp.Tape() as tape:
            for step in range(first, min(first + self.every, self.steps)):
                control = self.source(step, chain[-1])
                before = self.sim._stepper.with_mocap(chain[-1], None if self.poses is None else self.poses[step])
                state = self.sim._stepper.taped_step(
                    before, control, None, None, self.substeps, kept=self.kept.of(step)
                )
                if self.report is not None:
                    tape.record_func(lambda s=state, k=step + 1: self.report.store_norms(k, s), [state.q, state.v])
                chain.append(state)
        for k, state in enumerate(chain[1:], start=first + 1):
            self.recorder.give_back(k, state)
        return chain, tape

    def _compare(self, state, expected, differences: wp.array) -> None:
        for name in self.recorder.states:
            arrays = [x.arrays()[name] for x in (state, expected)]
            inputs = [*arrays, differences]
            launch(
                gradient.differ, arrays[0].dtype, arrays[0].shape, inputs, device=differences.device, block_dim=BLOCK
            )

    def _refuse_differences(self, differences: wp.array) -> None:
        if differences.device.is_capturing:
            return  # a device array cannot be read while a graph is captured
        worlds = np.flatnonzero(differences.numpy())
        if len(worlds):
            raise ValueError(
                f"the steps of a checkpointed rollout could not be repeated in world {worlds[0]} "
                f"({len(worlds)} in all): "
                "its gradients are wrong. Leave controls, and what the rollout gave, as they are until tape.backward"
            )

    def _save_diagnostics(self) -> dict[str, wp.array]:
        """Copies of the diagnostics: repeated steps must not show in `sim.diagnostics`."""
        return {name: wp.clone(getattr(self.sim.diagnostics, name)) for name in self.recorder.diagnostics}

    def _restore_diagnostics(self, saved: dict[str, wp.array]) -> None:
        for name, array in saved.items():
            wp.copy(getattr(self.sim.diagnostics, name), array)
