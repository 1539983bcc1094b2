# SPDX-License-Identifier: Apache-2.0
"""Host side of surface velocities (`kernels/contact/surface.py`): belts, treadmills and turntables."""

import warp as wp

from warpsim.kernels.contact import surface
from warpsim.model.model import Model


def has_surfaces(model: Model) -> bool:
    """Whether the surface of any geom moves."""
    return bool(model.geom_surfacevel.any())


class Surfaces:
    """The surface velocities of a `Collision` whose model has some. `rate (worlds, slots)`: s of contacts and spin
    rows."""

    def __init__(self, collision):
        self.collision, array = collision, collision.dynamics.array
        self.rate = array(collision.slots, collision.device_model.types.vec3)
        self.everywhere = array(0, wp.int32)

    def launch(self, dynamics, point: wp.array, frame: wp.array, rate: wp.array, chosen=None, choice: int = 0) -> None:
        """Find `rate` of contacts at the configuration of `dynamics`, of all or of those with `chosen` = `choice`."""
        collision, d = self.collision, self.collision.device_model
        moving = [d.plant(), d.parameters.stored("geom_surfacevel"), dynamics.link_X]
        which = [self.everywhere if chosen is None else chosen, choice, rate]
        inputs = [collision.scene, collision.contacts, *moving, point, frame, *which]
        dynamics.launch(surface.surface_rates, collision.capacity, inputs)
        if collision.spin is not None:
            inputs = [*collision.spin.inputs(), *moving, frame, *which]
            dynamics.launch(surface.spin_surface_rates, collision.capacity, inputs)

    def drive(self, v_hat: wp.array) -> None:
        """Move the targets of contacts with the surfaces."""
        inputs = [self.collision.contacts, self.rate, v_hat]
        self.collision.dynamics.launch(surface.drive, self.collision.slots, inputs)

    def add(self, dynamics, rate: wp.array, v_c: wp.array) -> None:
        """Add `rate` to the velocities v_c of contacts, and of spin rows where `v_c` has them, on the tape."""
        dynamics.launch(surface.add_rates, v_c.shape[1], [self.collision.contacts, rate, v_c])
