# SPDX-License-Identifier: Apache-2.0
"""Host side of adhesion (`kernels/contact/adhesion.py`): actuators that pull at the contact points of bodies."""

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.kernels.contact import adhesion
from warpsim.model.model import FrictionRule
from warpsim.tree.dynamics import DeviceModel, Dynamics
from warpsim.tree.part import Part


class Sticking(Part):
    """Tables and launches of adhesion. `held` (worlds, stickers): number of contact points of each actuator in the last
    step."""

    name, fuses = "sticking", True

    def __init__(self, device_model: DeviceModel, dynamics: Dynamics, collision: Collision):
        self.device_model, self.dynamics, self.collision = device_model, dynamics, collision
        model, actuators = device_model.model, np.flatnonzero(device_model.model.actuator_body >= 0)
        holds = model.actuator_body[actuators][:, None] == model.geom_body[None]
        self.count = len(actuators)
        self.stickers = device_model.struct(adhesion.Stickers, actuator=actuators, holds=holds, gap=np.zeros(0))
        self.sticks = holds.any(0)
        self.held = dynamics.array(self.count, wp.int32)
        self.dv = dynamics.array(model.nv, device_model.types.real)

    def count_gaps(self) -> float:
        """Count contacts within the gaps of their geoms, as MuJoCo does. Returns the largest gap [m]."""
        model = self.device_model.model
        counts = self.sticks[model.pair_geom].any(1) & (model.pair_rule != FrictionRule.EXPLICIT)
        gap = np.where(counts, model.geom_gap[model.pair_geom].sum(1), 0.0)
        if gap.any():
            self.device_model.fill(self.stickers, gap=gap)
        return float(gap.max(initial=0.0))

    def after_contacts(self, h: float) -> None:
        """Add the velocity change by adhesion to v*."""
        of, found = self.of, [self.device_model.topology, self.collision.scene, self.collision.contacts, self.stickers]
        inputs = [*found, h, of.actuators, of.A_factor, self.dv, self.held, of.v_star]
        self.dynamics.launch(adhesion.stick, None, inputs)

    def record_impulses(self, h: float) -> None:
        """r += h J_nᵀ f/n."""
        of, found = self.of, [self.collision.scene, self.collision.contacts, self.stickers]
        inputs = [*found, h, of.actuators, self.held, of.J, of.r]
        self.dynamics.launch(adhesion.sticking_residual, (self.collision.capacity, self.count), inputs)
