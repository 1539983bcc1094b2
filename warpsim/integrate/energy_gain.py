# SPDX-License-Identifier: Apache-2.0
"""Trees that gain energy without work in steps of symplectic Euler (device: `kernels/integrate/gain.py`; theory §2)."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.integrate.free_spin import lone_trees
from warpsim.kernels.integrate import gain
from warpsim.model.model import JointType, Model


def watched_trees(model: Model) -> np.ndarray:
    """Trees whose inertia changes with their pose: not those with one degree of freedom, nor single bodies, which keep their energy, nor what a mocap
    body carries, whose pose does work that no step knows."""
    several = np.diff(model.tree_v) > 1
    turning = np.isin(model.link_type, (JointType.FREE, JointType.BALL, JointType.HINGE))
    turns = np.isin(np.arange(model.ntree), np.asarray(model.link_tree)[turning])
    carried = np.zeros(model.ntree, bool)
    if model.nmocap:
        carried[np.asarray(model.link_tree)[model.mocap_links]] = True
    return np.flatnonzero(several & turns & ~lone_trees(model) & ~carried)


class EnergyGain:
    """Launches and memory of one `Step`."""

    def __init__(self, step, trees: np.ndarray):
        self.step, d = step, step.device_model
        self.trees = wp.array(trees.astype(np.int32), dtype=wp.int32, device=d.device)
        self.sums = step.dynamics.array(gain.NUMBERS * len(trees), d.types.real)

    def launch(self, h: float) -> None:
        """Look at the step, whose solution is there, before it is accepted."""
        step, d = self.step, self.step.device_model
        inputs = [d.topology, h, h, step.time, self.trees, self._motion(), step.v, step.v_end]
        step.dynamics.launch(gain.find_gain, None, [*inputs, self.sums, step.flags])

    def _motion(self):
        step, p = self.step, self.step.device_model.parameters
        made = copy(gain.Motion, step.device_model.types.real)()
        made.gravity, made.own_armature, made.armature = (
            p.stored("gravity"),
            p.stored("joint_armature"),
            step.dynamics.armature,
        )
        for name in ("link_X", "link_I", "link_V"):
            setattr(made, name, getattr(step.dynamics, name))
        made.A, made.D, made.bias, made.force = step.A, step.damping, step.bias, step.force
        return made
