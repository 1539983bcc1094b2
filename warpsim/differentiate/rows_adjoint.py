# SPDX-License-Identifier: Apache-2.0
"""The scalar rows on the tape of the backward pass: their Jacobians and errors at q, then r -= Jᵀγ (theory §3.5)."""

import warp as wp

from warpsim.device.ranges import assign, fill
from warpsim.forces.lines import TapedLines
from warpsim.kernels.rows import frame_rows, line_rows, taped_rows
from warpsim.kernels.tree import passes
from warpsim.rows.scalar_rows import ScalarRows
from warpsim.tree.dynamics import DeviceModel, Dynamics


class RowsAdjoint:
    """Taped twins of a `ScalarRows`, which says what the rows are and which of them are active.

    `follows`: Jacobians are taken within the step, as the midpoint rule does (`ScalarRows.launch`, `between`).
    """

    def __init__(self, device_model: DeviceModel, scalar_rows: ScalarRows, dynamics: Dynamics, follows: bool = False):
        self.device_model, self.forward, self.dynamics = device_model, scalar_rows, dynamics
        self.lines: TapedLines | None = None  # of models with lines
        S, array, n, frames = device_model.types.real, dynamics.array, scalar_rows.count, scalar_rows.floor.shape[1]
        self.J, self.weight = array(scalar_rows.support.shape, S), array(n, S)
        self.J_start = array(scalar_rows.support.shape, S) if follows else self.J  # at q
        self.phi, self.gamma, self.rate, self.rate0 = (array(n, S) for _ in range(4))
        self.phi_between = array(n if follows else 0, S)
        self.floor = array(frames, S)
        self.inertia = array(scalar_rows.inertia.shape[1], S)
        self.q_ahead = array(scalar_rows.q_ahead.shape[1], S)
        self.link_X_ahead = array(scalar_rows.link_X_ahead.shape[1], device_model.types.transform)

    def start(self) -> None:
        """Take the weights of the forward pass, which must have been repeated; clear what is summed up."""
        assign(self.weight, self.forward.rows.weight)
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
        """φ at q ⊕ ahead v0, J and the least weights from q, v0 and M, after `dynamics.position(q)`.

        `between`: a `Dynamics` and its q where Jacobians and weights are wanted instead, as in `ScalarRows.launch`.
        """
        d, dynamics, f = self.device_model, self.dynamics, self.forward
        if not f.count:
            return
        if f.has_frames:
            dynamics.launch(passes.integrate_position, d.model.nlink, [d.topology, ahead, q, v0, self.q_ahead])
            dynamics.kinematics(self.q_ahead, self.link_X_ahead)
        inputs, constants = [f.rows, ahead, q], f.constants()
        self._record_rows(dynamics, constants, [*inputs, q, v0], self.phi, self.J_start)
        if between is not None:
            self._record_rows(between[0], constants, [*inputs, between[1], v0], self.phi_between, self.J)
        if f.on_lines is not None:
            for where in [(self.phi, self.J_start)] + ([(self.phi_between, self.J)] if between is not None else []):
                inputs = [f.table, constants, f.rows, f.on_lines.table, self.lines.length, self.lines.moment, q, *where]
                dynamics.launch(line_rows.errors, f.on_lines.count, inputs)
        if f.has_frames:
            dynamics.launch(taped_rows.diagonal, d.model.nv, [d.topology, M, self.inertia])
            at = dynamics if between is None else between[0]
            inputs = [d.topology, f.table, f.rows, at.link_X, at.dof_S, self.inertia, self.floor]
            dynamics.launch(frame_rows.least_weight, f.count, inputs)

    def _record_rows(self, at: Dynamics, constants, inputs: list, phi: wp.array, J: wp.array) -> None:
        """J at the kinematics of `at`, and φ where the velocity leads."""
        f = self.forward
        at.launch(taped_rows.coordinate_errors, f.count, [f.table, constants, *inputs, phi, J])
        if f.has_frames:
            inputs = [self.device_model.topology, f.table, constants, f.rows, at.link_X, self.link_X_ahead, at.dof_S]
            at.launch(frame_rows.frame_errors, f.count, [*inputs, 1, phi, J])

    def record_impulses(self, h: float, sigma: float, lead: float, v0, v, actuators, rates, gamma) -> None:
        """γ of every row; the errors are φ − lead J v0. `rates`: arrays for J v and J v0, which come in as zero."""
        dynamics, f = self.dynamics, self.forward
        for J, x, rate in ((self.J, v, rates[0]), (self.J_start, v0, rates[1])):
            dynamics.launch(taped_rows.taped_rate, f.count, [f.rows, J, x, rate])
        inputs = [f.table, f.constants(actuators), f.rows, h, sigma, lead, self.phi, self.weight, self.floor]
        dynamics.launch(taped_rows.row_impulse, f.count, [*inputs, *rates, gamma])

    def record_residual(self, h: float, sigma: float, lead: float, v0, v, actuators, r) -> None:
        """r -= Jᵀγ of every row."""
        f = self.forward
        if not f.count:
            return
        self.record_impulses(h, sigma, lead, v0, v, actuators, (self.rate, self.rate0), self.gamma)
        self.dynamics.launch(taped_rows.row_residual, (f.count, f.width), [f.rows, self.J, self.gamma, r])
