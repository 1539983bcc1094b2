"""The scalar rows on the tape of the backward pass: their Jacobians and errors at q, then r -= Jᵀγ (theory §3.5)."""

import warp as wp

from warpsim.constraints import ACTUATOR_PARAMETERS, ScalarRows
from warpsim.dynamics import DeviceModel, Dynamics
from warpsim.kernels import constraint_rows, effort_rows, residual, theta


class RowsAdjoint:
    """Taped twins of a `ScalarRows`, which says what the rows are and which of them are active."""

    def __init__(self, device_model: DeviceModel, scalar_rows: ScalarRows, dynamics: Dynamics):
        self.device_model, self.forward, self.dynamics = device_model, scalar_rows, dynamics
        S, array, n = device_model.types.scalar, dynamics.array, scalar_rows.table_count
        self.kernels = residual.build(S)
        self.k_theta, self.k_effort = theta.build(S, True), effort_rows.build(S, True)
        self.k_geometry, self.k_residual = constraint_rows.build(S, True), constraint_rows.build_residual(S)
        self.J, self.weight = array(scalar_rows.support.shape, S), array(scalar_rows.count, S)
        self.phi, self.floor, self.gamma, self.rate, self.rate0 = (array(n, S) for _ in range(5))
        self.inertia = array(scalar_rows.inertia.shape[1], S)
        self.q_ahead = array(scalar_rows.q_ahead.shape[1], S)
        self.link_X_ahead = array(scalar_rows.link_X_ahead.shape[1], device_model.types.transform)

    def arrays(self) -> list[wp.array]:
        """Everything with a gradient that starts from zero."""
        return [x for x in vars(self).values() if isinstance(x, wp.array)]

    def start(self) -> None:
        """Take the weights of the forward pass, which must have been repeated; clear what is summed up."""
        wp.copy(self.weight, self.forward.rows.weight)
        for array in (self.floor, self.rate, self.rate0):
            array.zero_()

    def record_geometry(self, h: float, q: wp.array, v0: wp.array, M: wp.array) -> None:
        """φ, J and the least weights from q, v0 and M, after `dynamics.position(q)`."""
        d, dynamics, f = self.device_model, self.dynamics, self.forward
        if f.joint_count:
            inputs = [f.rows, f.joint_type, f.joint_q, q, self.J]
            dynamics.launch(self.kernels.row_jacobian, f.joint_count, inputs)
        if f.table_count:
            dynamics.launch(self.k_theta.integrate_position, d.model.nlink, [d.topology, h, q, v0, self.q_ahead])
            dynamics.poses(self.q_ahead, self.link_X_ahead)
            inputs = [d.topology, f.table, f.rows, dynamics.link_X, self.link_X_ahead, dynamics.dof_S]
            inputs += [q, self.q_ahead, self.phi, self.J]
            dynamics.launch(self.k_geometry.geometry, f.table_count, inputs)
            dynamics.launch(self.k_residual.diagonal, d.model.nv, [d.topology, M, self.inertia])
            inputs = [d.topology, f.table, f.rows, dynamics.link_X, dynamics.dof_S, self.inertia, self.floor]
            dynamics.launch(self.k_geometry.least_weight, f.table_count, inputs)

    def record_residual(self, h: float, sigma: float, q, v0, v, control, r) -> None:
        """r -= Jᵀγ of every row."""
        p, dynamics, f = self.device_model.parameters, self.dynamics, self.forward
        if f.joint_count:
            inputs = [f.rows, f.joint_type, f.joint_q, p.stored("joint_range"), p.stored("joint_friction")]
            dynamics.launch(self.kernels.row_residual, f.joint_count, [*inputs, h, sigma, self.J, self.weight, q, v, r])
        if f.table_count:
            for x, rate in ((v, self.rate), (v0, self.rate0)):
                dynamics.launch(self.k_residual.row_rate, f.table_count, [f.table, f.rows, self.J, x, rate])
            inputs = [f.table, f.rows, h, sigma, self.phi, self.weight, self.floor, self.rate, self.rate0, self.gamma]
            dynamics.launch(self.k_residual.row_impulse, f.table_count, inputs)
            inputs = [f.table, f.rows, self.J, self.gamma, r]
            dynamics.launch(self.k_residual.row_residual, (f.table_count, f.width), inputs)
        if f.effort_count:
            inputs = [f.effort, f.rows, *(p.stored(key) for key in ACTUATOR_PARAMETERS), control, q, v0, v, h, r]
            dynamics.launch(self.k_effort.effort_residual, f.effort_count, inputs)
