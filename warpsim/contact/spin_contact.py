# SPDX-License-Identifier: Apache-2.0
"""Torsional and rolling friction of contact points: tables of a model's pairs, and the launch that fills the spin
rows."""

import numpy as np
import warp as wp

from warpsim.kernels.contact import spin_rows


class Spin:
    """The spin rows of a `Collision` whose model has a pair with condim 4 or 6; see `kernels/contact/spin_rows.py`.

    `length (worlds, max_contacts)`: lengths of the spin rows, (rolling, torsion) [m]. `row (worlds, 2 max_contacts)`:
    their rows in the support tables.
    """

    def __init__(self, collision):
        self.collision = collision
        d, model = collision.device_model, collision.model
        self.types, array, C = d.types, collision.dynamics.array, collision.capacity
        torsional, rolling = model.pair_torsional_friction, model.pair_rolling_friction
        self.tables = d.struct(spin_rows.Spin, condim=model.pair_condim, torsional=torsional, rolling=rolling)
        self.length, self.row = array(C, self.types.vec2), array(2 * C, wp.int32)
        # For a second-order scheme: the contact points that have moved, and the motion subspaces at their place.
        self.moved, self.moved_S = array(0, wp.int32), collision.dynamics.dof_S

    def inputs(self) -> list:
        """The arrays that determine the lengths."""
        collision = self.collision
        return [collision.scene, self.tables, collision.material(), collision.contacts]

    def launch(self, laws) -> None:
        """Jacobians and laws of the spin rows, from R and μ of their contact points (`pair_laws.Laws`)."""
        dynamics = self.collision.dynamics
        inputs = [*self.inputs(), dynamics.dof_S, self.moved, self.moved_S, laws, self.length, self.row]
        dynamics.launch(spin_rows.spin_rows, None, inputs)

    def moments(self, gamma: np.ndarray) -> np.ndarray:
        """Moments `(worlds, max_contacts, 3)` [N m s] on B about (t1, t2, n), from impulses `(worlds, 2 max_contacts,
        3)`."""
        return gamma[:, self.collision.capacity :] * self.length.numpy()[..., [0, 0, 1]]

    def add_moments(self, gamma: wp.array, h: float, owner: wp.array, wrench: wp.array) -> None:
        """Add the torques of the spin rows to the wrenches on the bodies."""
        collision = self.collision
        inputs = [collision.scene, collision.contacts, gamma, self.length, h, owner, wrench]
        collision.dynamics.launch(spin_rows.add_moments, None, inputs)
