"""`Linearizer`: Jacobians of one step in all worlds, by the implicit function theorem (theory §3.5, `kernels/linearize.py`).

One step, the columns ∂r/∂x of its equations for every variable x, one solve for all of them with the factor of the step's
own Hessian. Cost: a few steps, whatever the number of variables.
"""

from dataclasses import dataclass, field

import numpy as np
import warp as wp

from warpsim.dynamics import BLOCK, DeviceModel, InverseDynamicsDerivative
from warpsim.kernels import contact_slopes, contact_variation, linearize, row_slopes, weight_slopes
from warpsim.parameters import SPECS
from warpsim.step import Step

# Columns that one thread solves: on a CPU all of them, in the inner loop; on a GPU one, so that threads read side by side.
COLUMNS_PER_THREAD = {"cpu": 1 << 30, "cuda": 1}


@dataclass(frozen=True)
class Linearization:
    """Derivatives of the next (q, v), in the tangent spaces at q and at the next q: free joint translation in world
    axes, rotations in body axes; rows and columns δq, δv.

    `A (worlds, 2nv, 2nv)` by the state, `B (worlds, 2nv, nu)` by the controls, `tau (worlds, 2nv, nv)` by generalised
    forces or None, `parameters[name] (worlds, 2nv, entries)`, entries in the order of the parameter's own array.
    """

    A: wp.array
    B: wp.array
    tau: wp.array | None = None
    parameters: dict[str, wp.array] = field(default_factory=dict)


class Linearizer:
    """Workspace and launches; a step of its own, so that the simulator's diagnostics and contacts stay as they are."""

    def __init__(self, device_model: DeviceModel, options, max_contacts: int | None, contact: bool):
        self.device_model, self.model = device_model, device_model.model
        t, S = device_model.types, device_model.types.scalar
        self.step = Step(device_model, options, max_contacts, contact)
        self.step.solver.options.keep_factor = 1
        dynamics, collision = self.step.dynamics, self.step.collision
        array, nv, C = dynamics.array, self.model.nv, collision.capacity
        self.launch = dynamics.launch
        self.kernels, self.k_rows = linearize.build(S), row_slopes.build(S)
        self.k_contacts, self.k_weights = contact_slopes.build(S), weight_slopes.build(S)
        self.derivative = InverseDynamicsDerivative(dynamics)
        self.a, self.inverse_dynamics = array(nv, S), array(nv, S)
        self.dof = array(nv, wp.int32)
        self.flow = contact_slopes.structs(S).Flow()
        for key in ("link_X", "link_I", "dof_S"):
            setattr(self.flow, key, getattr(dynamics, key))
        self.flow.link_V, self.flow.v = array(self.model.nlink, t.vec6), self.step.solver.solution.v
        self._make_contacts(C, collision.max_support)
        self._make_rows()
        self._make_weights()

    def _make_contacts(self, C: int, M: int) -> None:
        t, array = self.device_model.types, self.step.dynamics.array
        self.changes = contact_slopes.structs(t.scalar).Changes()
        for key in contact_slopes.structs(t.scalar).Changes.vars:
            setattr(self.changes, key, array((C, M), t.vec3))
        shape = (self.device_model.worlds, C, contact_variation.ROWS)
        device = self.device_model.device
        self.motion = wp.zeros(shape, dtype=t.vec6, device=device, requires_grad=True)
        self.value = wp.zeros(shape, dtype=t.scalar, device=device, requires_grad=True)

    def _make_rows(self) -> None:
        S, rows = self.device_model.types.scalar, self.step.rows
        array, (K, width) = self.step.dynamics.array, rows.support.shape
        self.row_slopes = row_slopes.structs(S).RowSlopes()
        self.row_slopes.J_q = array((K, width, width), S)
        self.row_slopes.v_hat_q, self.row_slopes.v_hat_v = array((K, width), S), array((K, width), S)
        self.row_slopes.R_w = array(K, S)

    def _make_weights(self) -> None:
        t, array, model, solver = self.device_model.types, self.step.dynamics.array, self.model, self.step.solver
        S = t.scalar
        weights = self.weights = weight_slopes.structs(S).Weights()
        weights.M_factor, weights.contact_w = self.step.M_factor, self.step.contact_weight
        weights.contact_u, weights.contact_G = solver.work.u_c, solver.work.newton.G
        weights.contact_gamma = solver.solution.gamma
        weights.y, weights.by_dof = array(model.nv, t.vec3), array(model.nv, S)
        weights.V, weights.P = array((model.nlink, 3), t.vec6), array((model.nlink, 3), t.vec6)
        self.inertias = weight_slopes.structs(S).Inertias()
        self.inertias.link = wp.zeros(0, dtype=wp.int32, device=self.device_model.device)
        self.inertias.I = array(0, t.vec10)
        weights.by_inertia = array(0, S)

    def columns(self, force: bool, parameters: tuple[str, ...]) -> "Columns":
        return Columns(self, force, parameters)

    def run(self, h: float, columns: "Columns", result: Linearization) -> None:
        """Fill `result` at the step's own q, v, control and tau."""
        step, dynamics, d = self.step, self.step.dynamics, self.device_model
        step.smooth_motion(h)
        step.contact_problem(h)
        step.solve(h)
        v = step.solver.solution.v
        X, nv = columns.X, self.model.nv
        X.zero_()
        self.launch(self.kernels.acceleration, nv, [h, step.v, v, self.a])
        dynamics.inverse_dynamics(step.v, self.a, self.inverse_dynamics)
        dynamics.velocity(v, self.flow.link_V)
        D = self.derivative.launch_along(step.v, self.a, True, 0.0, 0.0)
        self.launch(self.kernels.block_columns, nv, [d.topology, h, D, 0, X])
        D = self.derivative.launch_along(step.v, self.a, False, 1.0, -1.0 / h)
        self.launch(self.kernels.block_columns, nv, [d.topology, h, D, nv, X])
        self._forces(h, X)
        self._contacts(h, X)
        self._rows(h, X)
        if columns.force is not None:
            self.launch(self.kernels.force_columns, nv, [h, columns.force, X])
        problem, work = step.solver.problem, step.solver.work
        self.launch(self.kernels.list_dofs, nv, [problem, work, self.dof])
        width = min(COLUMNS_PER_THREAD["cuda" if d.device.is_cuda else "cpu"], X.shape[2])
        blocks = -(-X.shape[2] // width)
        self.launch(self.kernels.solve_columns, (self.model.ntree, blocks), [work, self.dof, width, X])
        for first, Y in columns.blocks(result):
            self.launch(self.kernels.store_jacobian, self.model.nlink, [d.topology, h, v, X, first, Y])
        self.launch(self.kernels.add_position, self.model.nlink, [d.topology, h, v, result.A])

    def _forces(self, h: float, X: wp.array) -> None:
        d, p, step = self.device_model, self.device_model.parameters, self.step
        inputs = [d.topology, h, p.stored("joint_stiffness"), p.stored("joint_reference"), step.q, X]
        self.launch(self.kernels.spring_columns, self.model.nlink, inputs)
        if self.model.nu:
            actuators = linearize.structs(d.types.scalar).Actuators()
            actuators.link, actuators.gear = step.actuator_link, step.actuator_gear
            actuators.gain, actuators.bias = p.stored("actuator_gain"), p.stored("actuator_bias")
            actuators.control_range, actuators.force_range = p.stored("control_range"), p.stored("force_range")
            inputs = [d.topology, h, actuators, step.q, step.v, step.control, self.flow.v, X]
            self.launch(self.kernels.actuator_columns, None, inputs)

    def _contacts(self, h: float, X: wp.array) -> None:
        step, collision = self.step, self.step.collision
        if not collision.enabled:
            return
        d, options, problem = self.device_model, step.options, step.solver.problem
        scene, contacts = collision.scene, collision.contacts
        self._vary_contacts()
        slope, G = self.motion.grad, self.weights.contact_G
        inputs = [d.topology, scene, collision.material(), contacts, h, options.beta, self.flow, slope, G]
        inputs += [step.solver.solution.gamma, self.changes]
        self.launch(self.k_contacts.contact_changes, (collision.capacity, collision.max_support), inputs)
        inputs = [d.topology, scene, contacts, self.flow.dof_S, G, self.changes, X]
        self.launch(self.k_contacts.contact_columns, None, inputs)
        inputs = [d.topology, scene, contacts, problem, options.beta, options.sigma, self.flow, slope, self.inertias]
        self.launch(self.k_weights.contact_weight_columns, None, [*inputs, self.weights, X])

    def _vary_contacts(self) -> None:
        """Gradients of (φ, p, n) by the motion of geom B, into `motion.grad`."""
        collision, t = self.step.collision, self.device_model.types
        self.motion.grad.zero_()
        self.value.grad.fill_(1.0)
        size = _without_gradient(self.device_model.parameters.stored("geom_size"))
        scenes = [(contact_variation.build(t.scalar).vary, [collision.scene])]
        if collision.convex_scene is not None:
            kernel = contact_variation.build_convex(t.scalar).vary
            scenes.append((kernel, [collision.scene, collision.convex_scene]))
        for kernel, scene in scenes:
            inputs = [*scene, collision.contacts, size, collision.geom_X, self.motion, self.value]
            wp.launch(
                kernel,
                dim=self.motion.shape,
                inputs=inputs,
                adj_inputs=[x._cls() if hasattr(x, "_cls") else None for x in inputs],
                adjoint=True,
                device=self.device_model.device,
                block_dim=BLOCK,
                record_tape=False,
            )

    def _rows(self, h: float, X: wp.array) -> None:
        step, rows, solver = self.step, self.step.rows, self.step.solver
        if not rows.kind.shape[0]:
            return
        inputs = [rows, step.joint_type, step.joint_q, h, step.options.sigma, step.q, self.row_slopes]
        self.launch(self.k_rows.joint_row_slopes, rows.kind.shape[0], inputs)
        G, gamma = solver.work.newton.row_G, solver.solution.row_gamma
        self.launch(self.k_rows.row_columns, None, [rows, self.row_slopes, G, gamma, self.flow.v, X])
        inputs = [self.device_model.topology, rows, self.row_slopes, G, gamma, self.flow, self.inertias, self.weights, X]
        self.launch(self.k_weights.row_weight_columns, None, inputs)


class Columns:
    """Which variables the columns of X are of: q, v, controls, then what was asked for."""

    def __init__(self, owner: Linearizer, force: bool, parameters: tuple[str, ...]):
        model, array, S = owner.model, owner.step.dynamics.array, owner.device_model.types.scalar
        n = 2 * model.nv + model.nu
        self.force = n if force else None
        n += model.nv if force else 0
        self.X = array((model.nv, n), S)

    def blocks(self, result: Linearization):
        """(first column, array) of everything that is stored."""
        yield 0, result.A
        if result.B.shape[2]:
            yield self.A_width(result), result.B
        if self.force is not None:
            yield self.force, result.tau

    def A_width(self, result):
        return result.A.shape[2]

    def new_result(self, owner) -> Linearization:
        m, array, S = owner.model, owner.step.dynamics.array, owner.device_model.types.scalar
        tau = array((2 * m.nv, m.nv), S) if self.force is not None else None
        return Linearization(array((2 * m.nv, 2 * m.nv), S), array((2 * m.nv, m.nu), S), tau)


def _without_gradient(array: wp.array) -> wp.array:
    """The same memory as an array that has no gradient."""
    if array.grad is None:
        return array
    return wp.array(ptr=array.ptr, dtype=array.dtype, shape=array.shape, device=array.device)
