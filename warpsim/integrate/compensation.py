# SPDX-License-Identifier: Apache-2.0
"""Host side of gravity compensation: wrenches on bodies that a step adds to those that users give (`kernels/forces/compensation.py`)."""

import numpy as np
import warp as wp

from warpsim.device.copies import twin
from warpsim.device.ranges import fill
from warpsim.kernels.forces import actuators, compensation


class Compensation:
    """Workspace for all worlds of a model with a body that has gravcomp.

    `wrench (worlds, nbody, 6)`: what acts at the bodies' COMs. `force (worlds, nv)`: the generalised force of the compensation alone, where
    ranges of joints ask for it, else empty.
    """

    def __init__(self, device_model, dynamics):
        model, S = device_model.model, device_model.types.real
        self.device_model, self.dynamics, self.model = device_model, dynamics, model
        share = np.ascontiguousarray(model.body_gravcomp, dtype=device_model.dtype)
        self.share = wp.array(share, dtype=S, device=device_model.device)
        self.own, self.wrench = (dynamics.array((model.nbody, 6), S) for _ in range(2))
        self.has_force = bool((model.joint_effort_gravity & np.isfinite(model.joint_effort_range).any(1)).any())
        self.force = (
            dynamics.array(model.nv, S) if self.has_force else wp.empty((0, 0), dtype=S, device=device_model.device)
        )
        self.link_F = dynamics.array(model.nlink if self.has_force else 0, device_model.types.vec6)

    def launch(self, given: wp.array) -> None:
        """The wrenches with those given, after the kinematics."""
        if self.has_force:
            fill(self.force)
        launch_wrenches(self.dynamics, self, given)


class TapedCompensation:
    """Twins of a `Compensation`, with gradients."""

    def __init__(self, forward: Compensation):
        self.forward = forward
        for name in ("own", "wrench", "link_F"):
            setattr(self, name, twin(getattr(forward, name)))
        self.force = twin(forward.force) if forward.has_force else forward.force

    def record(self, dynamics, given: wp.array) -> None:
        """As `Compensation.launch`, for a tape."""
        launch_wrenches(dynamics, self, given)


def launch_wrenches(dynamics, arrays, given: wp.array) -> None:
    """The wrenches into the arrays of a `Compensation` or of its twins."""
    forward = arrays.forward if isinstance(arrays, TapedCompensation) else arrays
    d, model, plant = dynamics.device_model, dynamics.model, dynamics.device_model.plant()
    inputs = [plant, forward.share, given, arrays.own, arrays.wrench]
    dynamics.launch(compensation.compensate, model.nbody, inputs)
    if forward.has_force:
        inputs = [d.topology, plant, dynamics.link_X, dynamics.dof_S, arrays.own, arrays.link_F]
        dynamics.launch(actuators.wrench_force, model.ntree, [*inputs, arrays.force])
