"""The scalar rows on the tape of the backward pass: their Jacobians and errors at q, then r -= Jᵀγ (theory §3.5)."""

import warp as wp

from warpsim.kernels.differentiate import residual
from warpsim.kernels.rows import constraint_rows, effort_rows
from warpsim.kernels.tree import passes
from warpsim.rows.scalar_rows import ACTUATOR_PARAMETERS, ScalarRows
from warpsim.tree.dynamics import DeviceModel, Dynamics


class RowsAdjoint:
    """Taped twins of a `ScalarRows`, which says what the rows are and which of them are active.

    `follows`: Jacobians are taken within the step, as the midpoint rule does (`ScalarRows.launch`, `between`).
    """

    def __init__(self, device_model: DeviceModel, scalar_rows: ScalarRows, dynamics: Dynamics, follows: bool = False):
        self.device_model, self.forward, self.dynamics = device_model, scalar_rows, dynamics
        S, array, n = device_model.types.real, dynamics.array, scalar_rows.table_count
        self.J, self.weight = array(scalar_rows.support.shape, S), array(scalar_rows.count, S)
        self.J_start = array(scalar_rows.support.shape, S) if follows else self.J  # at q
        self.phi, self.phi_between, self.floor, self.gamma, self.rate, self.rate0 = (array(n, S) for _ in range(6))
        self.inertia = array(scalar_rows.inertia.shape[1], S)
        self.q_ahead = array(scalar_rows.q_ahead.shape[1], S)
        self.link_X_ahead = array(scalar_rows.link_X_ahead.shape[1], device_model.types.transform)

    def start(self) -> None:
        """Take the weights of the forward pass, which must have been repeated; clear what is summed up."""
        wp.copy(self.weight, self.forward.rows.weight)
        for array in (self.floor, self.rate, self.rate0):
            array.zero_()

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
        if f.joint_count:
            inputs = [f.rows, f.joint_type, f.joint_q, q, self.J]
            dynamics.launch(residual.row_jacobian, f.joint_count, inputs)
        if f.table_count:
            dynamics.launch(passes.integrate_position, d.model.nlink, [d.topology, ahead, q, v0, self.q_ahead])
            dynamics.kinematics(self.q_ahead, self.link_X_ahead)
            self._record_table(dynamics, q, self.phi, self.J_start)
            if between is not None:
                self._record_table(*between, self.phi_between, self.J)
            dynamics.launch(constraint_rows.diagonal, d.model.nv, [d.topology, M, self.inertia])
            at = dynamics if between is None else between[0]
            inputs = [d.topology, f.table, f.rows, at.link_X, at.dof_S, self.inertia, self.floor]
            dynamics.launch(constraint_rows.least_weight, f.table_count, inputs)

    def _record_table(self, dynamics: Dynamics, q: wp.array, phi: wp.array, J: wp.array) -> None:
        """J at the kinematics of `dynamics`, and φ where the velocity leads."""
        f = self.forward
        inputs = [self.device_model.topology, f.table, f.rows, dynamics.link_X, self.link_X_ahead, dynamics.dof_S]
        dynamics.launch(constraint_rows.geometry, f.table_count, [*inputs, q, self.q_ahead, 1, phi, J])

    def record_residual(self, h: float, sigma: float, lead: float, q, v0, v, control, r) -> None:
        """r -= Jᵀγ of every row; the errors are φ − lead J v0."""
        p, dynamics, f = self.device_model.parameters, self.dynamics, self.forward
        if f.joint_count:
            inputs = [f.rows, f.joint_type, f.joint_q, p.stored("joint_range"), p.stored("joint_friction")]
            dynamics.launch(residual.row_residual, f.joint_count, [*inputs, h, sigma, self.J, self.weight, q, v, r])
        if f.table_count:
            for J, x, rate in ((self.J, v, self.rate), (self.J_start, v0, self.rate0)):
                dynamics.launch(constraint_rows.row_rate, f.table_count, [f.table, f.rows, J, x, rate])
            inputs = [f.table, f.rows, h, sigma, lead, self.phi, self.weight, self.floor]
            inputs += [f.speed, self.rate, self.rate0]
            dynamics.launch(constraint_rows.row_impulse, f.table_count, [*inputs, self.gamma])
            inputs = [f.table, f.rows, self.J, self.gamma, r]
            dynamics.launch(constraint_rows.row_residual, (f.table_count, f.width), inputs)
        if f.effort_count:
            inputs = [f.effort, f.rows, *(p.stored(key) for key in ACTUATOR_PARAMETERS), control, q, v0, v, h, r]
            dynamics.launch(effort_rows.effort_residual, f.effort_count, inputs)
