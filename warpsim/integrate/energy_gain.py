# SPDX-License-Identifier: Apache-2.0
"""Detects trees that gain energy without work, in steps of symplectic Euler (theory §2).

Device: `kernels/integrate/gain.py`.
"""

import numpy as np
import warp as wp

from warpsim.integrate.free_spin import lone_trees
from warpsim.kernels.integrate import gain
from warpsim.model.model import JointType, Model
from warpsim.tree.part import Part


def watched_trees(model: Model) -> np.ndarray:
    """Trees whose inertia changes with their pose.

    Excluded are trees with one degree of freedom, single bodies, which keep their energy, and trees on a mocap body,
    whose pose does work that no step knows.
    """
    several = np.diff(model.tree_v) > 1
    turning = np.isin(model.link_type, (JointType.FREE, JointType.BALL, JointType.HINGE))
    turns = np.isin(np.arange(model.ntree), np.asarray(model.link_tree)[turning])
    carried = np.zeros(model.ntree, bool)
    if model.nmocap:
        carried[np.asarray(model.link_tree)[model.mocap_links]] = True
    return np.flatnonzero(several & turns & ~lone_trees(model) & ~carried)


class EnergyGain(Part):
    """Launches and memory of one `Step`."""

    name, fuses = "gain", True

    def __init__(self, step, trees: np.ndarray):
        d = step.device_model
        self.trees = d.array(trees)
        self.sums = step.dynamics.array(gain.NUMBERS * len(trees), d.types.real)

    def memory(self) -> dict[str, wp.array]:
        return {"energy_gain": self.sums}

    def after_solve(self, h: float) -> None:
        """Check the step, once the solution is known and before it is accepted."""
        self._find(h, self.of.v, self.of.v_end, works=True)

    def begin_solves(self, h: float) -> None:
        """Check a step with impacts where it begins; the work of its solves is added after it."""
        self.h, segments = h, self.of.impacts.segments
        self._find(h, segments.v0, segments.v0, works=False)

    def add_solve(self, h: float, part: int, segments) -> None:
        """Add the work of one solve; h = 0 for an impact. `part`: see `ImpactSums.add`."""
        step, d = self.of, self.of.device_model
        inputs = [d.topology, h, self.h, step.time, self.trees, self._motion(), part, segments, step.solver.solution]
        step.dynamics.launch(gain.add_work, None, [*inputs, step.v, self.sums])

    def end_solves(self) -> None:
        """After the last solve, with the velocity at the end of the step."""
        step, d = self.of, self.of.device_model
        inputs = [d.topology, self.h, step.time, self.trees, self._motion(), step.solver.solution.v, self.sums]
        step.dynamics.launch(gain.mark_end, None, inputs)

    def _find(self, h: float, v0: wp.array, v: wp.array, works: bool) -> None:
        step, d = self.of, self.of.device_model
        inputs = [d.topology, h, h, step.time, self.trees, self._motion(), v0, v, int(works), self.sums, step.flags]
        step.dynamics.launch(gain.find_gain, None, inputs)

    def _motion(self):
        step, dynamics, stored = self.of, self.of.dynamics, self.of.device_model.parameters.stored
        return step.device_model.struct(
            gain.Motion, gravity=stored("gravity"), own_armature=stored("joint_armature"), armature=dynamics.armature,
            link_X=dynamics.link_X, link_I=dynamics.link_I, link_V=dynamics.link_V, A=step.A, D=step.damping,
            bias=step.bias, force=step.force,
        )  # fmt: skip
