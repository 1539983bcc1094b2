# SPDX-License-Identifier: Apache-2.0
"""Host side of gravity compensation: wrenches on bodies, added to those of users (`kernels/forces/compensation.py`)."""

import numpy as np

from warpsim.device.per_world import fill
from warpsim.kernels.forces import actuators, compensation
from warpsim.tree.part import Part


class Compensation(Part):
    """Workspace for all worlds of a model with a body that has gravcomp.

    `wrench (worlds, nbody, 6)`: the total wrenches at the bodies' COMs. `force (worlds, nv)`: the generalized force of
    the compensation alone, where ranges of joints need it; else empty.
    """

    name = "compensation"
    TAPED = ("own", "wrench", "force", "link_F")

    def __init__(self, device_model, dynamics):
        self.dynamics, model, t = dynamics, device_model.model, device_model.types
        self.share = device_model.array(model.body_gravcomp, t.real)
        self.own, self.wrench = (dynamics.array((model.nbody, 6), t.real) for _ in range(2))
        self.has_force = bool((model.joint_effort_gravity & np.isfinite(model.joint_effort_range).any(1)).any())
        self.force = dynamics.array(model.nv if self.has_force else 0, t.real)
        self.link_F = dynamics.array(model.nlink if self.has_force else 0, t.vec6)

    def act_on(self, acting) -> None:
        acting.acting_wrench = self.wrench
        if self.has_force:
            acting.compensating = self.force

    def before_forces(self, h: float) -> None:
        if self.has_force:
            fill(self.force)
        self._launch()

    def seed(self, h: float) -> None:
        """Clear the gradients of its kinematics arrays: other stages have already reversed them."""
        if self.has_force:
            for array in (self.dynamics.link_X, self.dynamics.dof_S, self.dynamics.link_I):
                fill(array.grad)

    def record(self, h: float) -> None:
        if self.has_force:
            self.dynamics.position(self.of.q)
        self._launch()

    def _launch(self) -> None:
        dynamics, d, plant = self.dynamics, self.dynamics.device_model, self.dynamics.device_model.plant()
        inputs = [plant, self.share, self.of.wrench, self.own, self.wrench]
        dynamics.launch(compensation.compensate, d.model.nbody, inputs)
        if self.has_force:
            inputs = [d.topology, plant, dynamics.link_X, dynamics.dof_S, self.own, self.link_F]
            dynamics.launch(actuators.wrench_force, d.model.ntree, [*inputs, self.force])
