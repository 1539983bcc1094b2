# SPDX-License-Identifier: Apache-2.0
"""Scalar rows on the tape of the backward pass: their Jacobians and errors at q, then r -= Jᵀγ (theory §3.5)."""

import warp as wp

from warpsim.device.per_world import assign, fill
from warpsim.kernels.rows import line_rows, soft_rows, taped_rows
from warpsim.rows.mujoco_rows import MuJoCoRows
from warpsim.rows.scalar_rows import ScalarRows
from warpsim.tree.dynamics import Dynamics


class RowsAdjoint(ScalarRows):
    """The rows of `forward` on the tape, with their own arrays.

    `follows`: Jacobians are evaluated within the step, as in the midpoint rule (`ScalarRows.launch`, `between`).
    `lines`: the lines on the tape, of models that have any.
    """

    def __init__(self, forward: ScalarRows, dynamics: Dynamics, lines, follows: bool):
        vars(self).update(vars(forward))
        self.dynamics, self.lines = dynamics, lines
        array, n, S, shape = dynamics.array, forward.count, dynamics.device_model.types.real, forward.support.shape
        self.J, self.weight = array(shape, S), array(n, S)
        self.J_start = array(shape, S) if follows else self.J  # at q
        self.phi, self.gamma, self.rate, self.rate0 = (array(n, S) for _ in range(4))
        self.phi_between = array(n if follows else 0, S)
        for name in ("floor", "inertia", "q_ahead", "link_X_ahead"):
            like = getattr(forward, name)
            setattr(self, name, array(like.shape[1], like.dtype))

    def start(self) -> None:
        """Take the weights of the forward pass, which must have been repeated, and clear what is summed up."""
        assign(self.weight, self.rows.weight)
        for array in (self.floor, self.rate, self.rate0):
            fill(array)

    def record_geometry(
        self,
        ahead: float,
        q: wp.array,
        v0: wp.array,
        M: wp.array,
        between: tuple[Dynamics, wp.array] | None = None,
    ) -> None:
        """φ at q ⊕ ahead v0, J and the least weights, from q, v0 and M, after `dynamics.position(q)`.

        `between`: a `Dynamics` and its q, at which Jacobians and weights are evaluated instead, as in
        `ScalarRows.launch`.
        """
        if self.has_frames:
            self.look_ahead(q, ahead, v0)
        constants, places = self.constants(), [(self.dynamics, q, self.phi, self.J_start)]
        if between is not None:
            places.append((*between, self.phi_between, self.J))
        for at, q_at, phi, J in places:
            inputs = [self.table, constants, self.rows, ahead, q, q_at, v0, phi, J]
            at.launch(taped_rows.coordinate_errors, self.count, inputs)
            if self.has_frames:
                self.frame_errors(at, constants, phi, J, on_tape=1)
        if self.on_lines is not None:
            inputs = [self.table, constants, self.rows, self.on_lines.table, self.lines.length, self.lines.moment, q]
            for _, _, phi, J in places:
                self.dynamics.launch(line_rows.errors, self.on_lines.count, [*inputs, phi, J])
        if self.has_frames:
            topology, nv = self.device_model.topology, self.device_model.model.nv
            self.dynamics.launch(taped_rows.diagonal, nv, [topology, M, self.inertia])
            self.least_weights(places[-1][0])

    def record_impulses(self, h: float, sigma: float, lead: float, v0, v, actuators, rates, gamma) -> None:
        """γ of every row; the errors are φ − lead J v0. `rates`: arrays for J v and J v0; the caller zeroes them."""
        for J, x, rate in ((self.J, v, rates[0]), (self.J_start, v0, rates[1])):
            self.dynamics.launch(taped_rows.taped_rate, self.count, [self.rows, J, x, rate])
        inputs = [self.table, self.constants(actuators), self.rows, h, sigma, lead, self.phi, self.weight, self.floor]
        self.dynamics.launch(taped_rows.row_impulse, self.count, [*inputs, *rates, gamma])

    def record_residual(self, h: float, sigma: float, lead: float, v0, v, actuators, r) -> None:
        """r -= Jᵀγ of every row."""
        self.record_impulses(h, sigma, lead, v0, v, actuators, (self.rate, self.rate0), self.gamma)
        inputs = [self.rows, self.J, self.gamma, r]
        self.dynamics.launch(taped_rows.row_residual, (self.count, self.width), inputs)


class MuJoCoRowsAdjoint(RowsAdjoint, MuJoCoRows):
    """The rows of `forward` on the tape, under MuJoCo's law."""

    def __init__(self, forward: MuJoCoRows, dynamics: Dynamics, lines, follows: bool):
        super().__init__(forward, dynamics, lines, follows)
        S = dynamics.device_model.types.real
        self.shift = dynamics.array(forward.shift.shape[1], S)
        self.link_V = dynamics.array(dynamics.model.nlink if self.bodies else 0, dynamics.device_model.types.vec6)

    def start(self) -> None:
        super().start()
        if self.bodies:
            fill(self.shift)

    def record_geometry(self, ahead: float, q, v0, M, between=None) -> None:
        """φ, J and J̇ v0, after `dynamics.position(q)`."""
        if self.bodies:
            self.dynamics.velocity(v0, self.link_V)
        if self.count:
            self.measure(self.dynamics, self.constants(), self.soft(), q, v0, self.link_V, self.phi, self.J)

    def record_impulses(self, h: float, sigma: float, lead: float, v0, v, actuators, rates, gamma) -> None:
        """γ of every row. See `RowsAdjoint`."""
        for x, rate in ((v, rates[0]), (v0, rates[1])):
            self.dynamics.launch(taped_rows.taped_rate, self.count, [self.rows, self.J, x, rate])
        inputs = [self.table, self.constants(actuators), self.soft(), self.rows, h, self.phi, self.shift, *rates, gamma]
        self.dynamics.launch(soft_rows.row_impulse, self.count, inputs)


def rows_adjoint(forward: ScalarRows, *arguments) -> RowsAdjoint:
    """The rows of a step on the tape. Arguments: see `RowsAdjoint`."""
    kind = MuJoCoRowsAdjoint if isinstance(forward, MuJoCoRows) else RowsAdjoint
    return kind(forward, *arguments)
