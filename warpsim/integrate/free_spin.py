# SPDX-License-Identifier: Apache-2.0
"""Bodies by themselves that spin, in a step of symplectic Euler (device: `kernels/integrate/spin.py`; theory §2)."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.integrate import spin
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.tree.dynamics import Dynamics


def lone_trees(model: Model) -> np.ndarray:
    """`(ntree,)` whether a tree is one rigid body on a free or a ball joint."""
    dofs, alone = np.diff(model.tree_v), np.zeros(model.ntree, bool)
    for tree in np.flatnonzero(dofs > 0):
        kind = JointType(int(model.link_type[model.dof_link[model.tree_v[tree]]]))
        alone[tree] = kind in (JointType.FREE, JointType.BALL) and dofs[tree] == JOINT_NV[kind]
    return alone


class FreeSpin:
    """Launches and results of one `Step`."""

    def __init__(self, step):
        self.step = step
        nv, S = step.model.nv, step.device_model.types.real
        self.v_next, self.v_still = step.dynamics.array(nv, S), step.dynamics.array(nv, S)

    def leave(self, h: float, dynamics: Dynamics, v: wp.array, composite: wp.array, bias: wp.array) -> None:
        """The bias at (q, v) without what spinning bodies have of their own rotation."""
        d = dynamics.device_model
        inputs = [d.topology, h, d.parameters.stored("gravity"), dynamics.dof_S, composite, v, bias]
        dynamics.launch(spin.leave_spin, dynamics.model.ntree, inputs)

    def launch(self, h: float) -> None:
        """v' from the solution, and q' of spinning bodies."""
        step = self.step
        arrays = [step.q, step.solver.solution.v, step.q_next, self.v_next]
        inputs = [step.device_model.topology, h, self.bodies(step.dynamics), *arrays]
        step.dynamics.launch(spin.spin, step.model.nlink, inputs)

    def still(self, h: float, dynamics: Dynamics, v: wp.array, out: wp.array | None = None) -> wp.array:
        """v without that of spinning bodies: the bias at it is the step's."""
        out = self.v_still if out is None else out
        dynamics.launch(spin.still_velocity, dynamics.model.nv, [dynamics.device_model.topology, h, v, out])
        return out

    @staticmethod
    def bodies(dynamics: Dynamics):
        """What kernels read of the bodies at the configuration of `dynamics`."""
        d = dynamics.device_model
        made = copy(spin.Bodies, d.types.real)()
        made.plant, made.link_X, made.link_I = d.plant(), dynamics.link_X, dynamics.link_I
        return made
