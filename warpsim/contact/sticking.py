# SPDX-License-Identifier: Apache-2.0
"""Host side of adhesion (`kernels/contact/adhesion.py`): the actuators of a model that pull at the contacts of bodies."""

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import copy
from warpsim.kernels.contact import adhesion
from warpsim.tree.dynamics import DeviceModel, Dynamics


class Sticking:
    """Tables and launches for all worlds; `held` (worlds, stickers) is how many contacts each had in the last step."""

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics, collision: Collision):
        self.device_model, self.dynamics, self.collision = device_model, dynamics, collision
        model, S = device_model.model, device_model.types.real
        actuators = np.flatnonzero(model.actuator_body >= 0)
        holds = model.actuator_body[actuators][:, None] == model.geom_body[None]
        self.count = len(actuators)
        self.stickers = copy(adhesion.Stickers, S)()
        for key, values in (("actuator", actuators), ("holds", holds)):
            array = wp.array(values.astype(np.int32), dtype=wp.int32, device=device_model.device)
            setattr(self.stickers, key, array)
        self.held, self.dv = dynamics.array(self.count, wp.int32), dynamics.array(model.nv, S)

    def launch(self, h: float, actuators, A_factor: wp.array, v_star: wp.array) -> None:
        """Add the pull to v*."""
        found = [self.device_model.topology, self.collision.scene, self.collision.contacts, self.stickers]
        inputs = [*found, h, actuators, A_factor, self.dv, self.held, v_star]
        self.dynamics.launch(adhesion.stick, None, inputs)

    def record(self, dynamics: Dynamics, h: float, actuators, J: wp.array, r: wp.array) -> None:
        """r += h J_nᵀ f/n, for a tape."""
        inputs = [self.collision.scene, self.collision.contacts, self.stickers, h, actuators, self.held, J, r]
        dynamics.launch(adhesion.sticking_residual, (self.collision.capacity, self.count), inputs)
