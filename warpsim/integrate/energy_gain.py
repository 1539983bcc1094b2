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
        step, d = self.of, self.of.device_model
        inputs = [d.topology, h, h, step.time, self.trees, self._motion(), step.v, step.v_end]
        step.dynamics.launch(gain.find_gain, None, [*inputs, self.sums, step.flags])

    def _motion(self):
        step, dynamics, stored = self.of, self.of.dynamics, self.of.device_model.parameters.stored
        return step.device_model.struct(
            gain.Motion, gravity=stored("gravity"), own_armature=stored("joint_armature"), armature=dynamics.armature,
            link_X=dynamics.link_X, link_I=dynamics.link_I, link_V=dynamics.link_V, A=step.A, D=step.damping,
            bias=step.bias, force=step.force,
        )  # fmt: skip
