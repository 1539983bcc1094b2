# SPDX-License-Identifier: Apache-2.0
"""Spinning single bodies in a step of symplectic Euler (device: `kernels/integrate/spin.py`; theory §2)."""

import numpy as np
import warp as wp

from warpsim.kernels.integrate import spin
from warpsim.model.model import JOINT_NV, JointType, Model
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.part import Part


def lone_trees(model: Model) -> np.ndarray:
    """`(ntree,)`: whether a tree is one rigid body on a free or a ball joint."""
    dofs, alone = np.diff(model.tree_v), np.zeros(model.ntree, bool)
    for tree in np.flatnonzero(dofs > 0):
        kind = JointType(int(model.link_type[model.dof_link[model.tree_v[tree]]]))
        alone[tree] = kind in (JointType.FREE, JointType.BALL) and dofs[tree] == JOINT_NV[kind]
    return alone


class FreeSpin(Part):
    """Launches and results of one `Step`."""

    name, fuses = "spin", True

    def __init__(self, step):
        nv, S = step.model.nv, step.device_model.types.real
        self.v_still = step.dynamics.array(nv, S)
        step.v_end = self.v_next = step.dynamics.array(nv, S)

    def after_bias(self, h: float, x, dynamics: Dynamics) -> None:
        """Remove from the bias at (q, v) the bias of the rotation of spinning bodies."""
        d = dynamics.device_model
        inputs = [d.topology, h, d.parameters.stored("gravity"), dynamics.dof_S, x.composite, x.v, x.bias]
        dynamics.launch(spin.leave_spin, dynamics.model.ntree, inputs)

    def after_solve(self, h: float) -> None:
        """v' from the solution, and q' of spinning bodies."""
        step = self.of
        arrays = [step.q, step.solver.solution.v, step.q_next, self.v_next]
        inputs = [step.device_model.topology, h, self.bodies(step.dynamics), *arrays]
        step.dynamics.launch(spin.spin, step.model.nlink, inputs)

    def still(self, h: float, dynamics: Dynamics, v: wp.array, out: wp.array | None = None) -> wp.array:
        """v without the spin of spinning bodies. The bias at this velocity is the step's."""
        out = self.v_still if out is None else out
        dynamics.launch(spin.still_velocity, dynamics.model.nv, [dynamics.device_model.topology, h, v, out])
        return out

    @staticmethod
    def bodies(dynamics: Dynamics):
        """The bodies at the configuration of `dynamics`, as kernels read them."""
        d = dynamics.device_model
        return d.struct(spin.Bodies, plant=d.plant(), link_X=dynamics.link_X, link_I=dynamics.link_I)
