# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's law of contact on the tape (theory §3.8)."""

import warp as wp

from warpsim.differentiate.contact_adjoint import ContactAdjoint, contact_adjoint
from warpsim.kernels.contact import mujoco_contacts
from warpsim.solve.mujoco import MuJoCo


class MuJoCoAdjoint(ContactAdjoint):
    """The impulses of contacts from their distances, frames, velocities and parameters."""

    def __init__(self, adjoint):
        super().__init__(adjoint)
        self.basis = adjoint.dynamics.array(self.step.collision.slots, self.step.device_model.types.vec4)

    def record_law(self, h: float, v_c: wp.array, gamma: wp.array) -> None:
        """Record γ of the contacts."""
        a, law, collision = self.adjoint, self.step.law, self.step.collision
        soft = law.parameters(h)
        law.find_bases(self.dynamics, soft, a.frame, self.basis)
        inputs = [collision.scene, soft, collision.contacts, a.phi, a.mu, self.solver.problem.mu, self.basis]
        inputs += [v_c, a.rate0, gamma]
        self.dynamics.launch(mujoco_contacts.contact_impulse, collision.capacity, inputs)


contact_adjoint.register(MuJoCo)(lambda model: MuJoCoAdjoint)
