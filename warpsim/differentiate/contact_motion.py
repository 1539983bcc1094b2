# SPDX-License-Identifier: Apache-2.0
"""How contacts change with the motion of a geom (device: `kernels/differentiate/contact_variation.py`)."""

import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import launch
from warpsim.device.per_world import fill
from warpsim.differentiate.pressure_rates import without_gradient
from warpsim.kernels.differentiate import contact_variation
from warpsim.tree.dynamics import BLOCK


class ContactMotion:
    """Workspace of `vary`. `slope (worlds, max_contacts, ROWS)`: see `contact_variation`."""

    def __init__(self, collision: Collision):
        self.collision, d = collision, collision.device_model
        shape = (d.worlds, collision.capacity, contact_variation.ROWS)
        self.motion = wp.zeros(shape, dtype=d.types.vec6, device=d.device, requires_grad=True)
        self.value = wp.zeros(shape, dtype=d.types.real, device=d.device, requires_grad=True)

    @property
    def slope(self) -> wp.array:
        return self.motion.grad

    def vary(self) -> None:
        """Gradients of (φ, p, n) with respect to the motion of geom B, into `slope`."""
        collision, d = self.collision, self.collision.device_model
        fill(self.motion.grad)
        size = without_gradient(d.parameters.stored("geom_size"))
        variants = [(contact_variation.vary, [collision.scene])]
        if collision.convex_scene is not None:
            variants.append((contact_variation.vary_convex, [collision.scene, collision.convex_scene]))
        for kernel, scenes in variants:
            fill(self.value.grad, 1.0)  # the adjoint consumes it
            inputs = [*scenes, collision.contacts, size, collision.geom_X, self.motion, self.value]
            launch(
                kernel,
                d.types.real,
                self.motion.shape,
                inputs,
                adj_inputs=[None if isinstance(x, wp.array) else x._cls() for x in inputs],
                adjoint=True,
                device=d.device,
                block_dim=BLOCK,
                record_tape=False,
            )
