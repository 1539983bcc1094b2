# SPDX-License-Identifier: Apache-2.0
"""The backward pass of a step of the variational integrator (theory §3.5, §6).

    m(dq*) = 0 → A (v − dq*/h) = Jᵀγ → i = A (v − dq*/h) → m(dq) = i → q' = q ⊕ dq, M(q') v' = p' → v' + jump'

with m DRNEA. The backward pass solves from the end: with M(q') for v', with the transposed derivative of m for dq,
which gives the adjoint of i, with the Hessian for v, and with the transposed derivative of m for dq*. After each solve,
the adjoint of the equation runs at the frozen solution with the seed found. Without contact and rows, the middle is
left out. Where a step has several passes, each is reversed with its own contact solve, which is repeated. Device:
`kernels/differentiate/variational_adjoint.py`.
"""

import functools

import warp as wp

from warpsim.device.copies import twin
from warpsim.device.per_world import assign, fill
from warpsim.differentiate.implicit import StepAdjoint, StepRecord, step_adjoint, with_gradient
from warpsim.differentiate.stage import Stage, evaluate, take_back
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.integrate import Variational
from warpsim.integrate.variational.variational_step import elimination
from warpsim.kernels.differentiate import gradient, interval_adjoint, variational_adjoint
from warpsim.kernels.integrate.variational import drnea, variational
from warpsim.kernels.tree import passes
from warpsim.tree.dynamics import DeviceModel, Dynamics


class Interval:
    """The links' momenta `mu` in the interval from q to q ⊕ dq, about o."""

    def __init__(self, dq: wp.array, types, array, nlink: int):
        self.dq, self.mu = dq, array(nlink, types.vec6)


class VariationalAdjoint(StepAdjoint):
    """Workspace of the backward pass.

    `self.v`: the velocity that contact was solved for; `self.v0`: the velocity reported at q.
    """

    def __init__(self, device_model: DeviceModel, contact_model, max_contacts, replay, integrator: Variational):
        super().__init__(device_model, contact_model, max_contacts, replay, integrator)
        # The record does not hold the velocity of the contact solve. The mean velocity of the step is close to it.
        self.v_mean = self.step.dynamics.array(device_model.model.nv, device_model.types.real)
        self.step.solver.problem.v0 = self.v_mean
        t, model, array = device_model.types, device_model.model, self.dynamics.array
        S, nv, nl = t.real, model.nv, model.nlink
        self.after = TapedDynamics(device_model)  # at q'
        self.jump, self.v_left, self.dq, self.dq_star, self.v_star = (array(nv, S) for _ in range(5))
        self.impulse, self.impulse_null, self.residual_end = (array(nv, S) for _ in range(3))
        self.interval, self.interval_star = (Interval(dq, t, array, nl) for dq in (self.dq, self.dq_star))
        self.wrench_end = array(nl, t.vec6)
        # end of the step: v_free is its Legendre velocity, v_estimate the velocity that its forces are evaluated at
        self.v_free, self.v_estimate, self.jump_next, self.v_next = (array(nv, S) for _ in range(4))
        self.force_next, self.damping_next = twin(self.step.force_next), twin(self.step.damping_next)
        self.link_F_next = None
        self.v_measured = array(nv, S)  # v' as sensors read it
        self.tolerance = contact_model.relative_tolerance(device_model.dtype)  # of the velocities
        # v, v* and dq of every pass except the last
        fixed = self.step.dynamics.array
        self.earlier = [[fixed(nv, S) for _ in range(3)] for _ in range(integrator.passes - 1)]
        self.v_corrected = array(nv, S)
        self.jump_next_bar, self.v_contact, self._unused = (self.step.dynamics.array(nv, S) for _ in range(3))
        self.owners += [self.after, self.interval, self.interval_star]
        self.carry("jump", self.step.jump, self.jump_next_bar, self.jump.grad)
        if self.contact.is_given:
            self.step.solver.problem.v0 = self.v_contact
        self.elimination = elimination(self.step.dynamics)
        self.turned = self.step.dynamics.workspace(drnea.Frame, offset=nl, axis=nv)
        # scratch: momenta, and wrenches on the displaced links
        self.momentum, self.displaced = (self.step.dynamics.array(nl, t.vec6) for _ in range(2))
        self.root, self.root_star = (self._root_stages(x) for x in (self.interval, self.interval_star))

    @property
    def parts_position(self) -> bool:
        """False: v' is found after q', and from it."""
        return False

    @property
    def uses_up_repeat(self) -> bool:
        """Whether there are earlier passes, which overwrite the last one."""
        return bool(self.earlier)

    def _begin_wrench(self, record: StepRecord) -> None:
        super()._begin_wrench(record)
        if self.wrench is not None and self.link_F_next is None:
            self.link_F_next = self.dynamics.array(self.model.nlink, self.device_model.types.vec6)
            self.__dict__.pop("_cleared", None)

    def _begin_memory(self, record: StepRecord) -> None:
        super()._begin_memory(record)
        if self.contact.is_given:
            inputs = [record.flags, record.v_contact, record.v_contact, self.v_contact, self._unused]
            self.dynamics.launch(gradient.begin_memory, self.model.nv, inputs)

    def _repeat(self, h: float) -> None:
        step = self.step
        step.begin(h)
        step.find_root(h)
        assign(self.dq_star, step.work.dq)
        if step.constrained:
            inputs = [self.device_model.topology, h, step.q, self.inputs.q_next, self.v_mean]
            step.dynamics.launch(variational_adjoint.mean_velocity, self.model.nlink, inputs)
            step.constrain(h, self._keep_pass)
            assign(self.v_star, step.v_star)
        step.arrive(h)
        assign(self.dq, step.work.dq)
        inputs = [step.device_model.topology, step.device_model.joint_anchor, step.dynamics.link_X, step.work]
        step.dynamics.launch(variational_adjoint.momenta_about_reference, self.model.nlink, [*inputs, self.interval.mu])
        assign(self.jump, step.jump)
        assign(self.v_free, step.v_free)

    def _keep_pass(self, number: int) -> None:
        if number < len(self.earlier):
            step = self.step
            for kept, source in zip(
                self.earlier[number], (step.solver.solution.v, step.v_star, step.work.dq), strict=True
            ):
                assign(kept, source)

    def keep(self, record: StepRecord, step) -> None:
        if self.contact.is_given:
            record.v_contact = wp.clone(step.solver.solution.v)  # differs from the velocity of the next state

    # the step as a list of functions ----------------------------------------------------------------------------------

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        contact = []
        if self.step.constrained:
            average = Stage(self._record_average, values="given")
            earlier = [Stage(None, self._take_back_passes)] * bool(self.earlier)
            contact = [*self.root_star, average, *earlier, *self._node_contact_stages(regular)]
        return [Stage(self._record_node), *contact, *self.root, *self._end_stages(by_position)]

    def _root_stages(self, x: Interval) -> list[Stage]:
        """The root dq of m = 0."""
        return [Stage(None, functools.partial(self._take_back_root, x=x))]

    def _node_contact_stages(self, regular: bool) -> list[Stage]:
        """The impulse i = A (v − v*) of contact and rows at the node."""
        return [*self.contact_stages(regular), Stage(None, self._seed_contact)]

    def _end_stages(self, by_position: bool) -> list[Stage]:
        """q', v' and jump'. `by_position`: only q' = q ⊕ dq."""
        arrival, result = Stage(self._record_arrival), Stage(None, self._seed_result)
        if by_position:
            return [arrival, result]
        end = [Stage(self._record_end, self._seed_end)]
        if self.step.constrained:
            end.append(Stage(self._record_jump, self._seed_jump, values="given"))
        if self.measurement is not None:
            if not self.step.constrained:
                end.append(Stage(None, lambda h: self._add_measured(self.v_free)))
            end += self.measurement.stages()
        return [arrival, *end, result]

    # recorded equations -----------------------------------------------------------------------------------------------

    def _record_node(self, h: float) -> None:
        """Kinematics, momenta and forces at (q, v)."""
        self.dynamics.position(self.q)
        inputs = [self.v0, self.jump, self.v_left]
        self.dynamics.launch(variational.left_velocity, self.model.nv, inputs)
        self.dynamics.velocity(self.v_left)
        self._record_forces(self.q, self.v0, self.dynamics)

    def _record_balance(self, h: float, c: float, node: Dynamics, v: wp.array, x: Interval, force, wrench, r) -> None:
        """The equation of one node."""
        p, topology = self.device_model.parameters, self.device_model.topology
        inputs = [topology, c, p.stored("gravity"), self.dynamics.link_X, node.link_X, node.link_I, node.link_V, x.mu]
        self.dynamics.launch(variational_adjoint.node_wrench, self.model.ntree, [*inputs, wrench])
        inputs = [topology, h, c, self.step.dynamics.armature, node.dof_S, wrench, v, x.dq, self.damping, force, r]
        self.dynamics.launch(variational_adjoint.node_balance, self.model.ntree, inputs)

    def _record_arrival(self, h: float) -> None:
        """q' = q ⊕ dq."""
        inputs = [self.device_model.topology, 1.0, self.q, self.dq, self.q_next]
        self.after.launch(passes.integrate_position, self.model.nlink, inputs)

    def _record_end(self, h: float) -> None:
        """The equation of the Legendre velocity at q'."""
        after, nv = self.after, self.model.nv
        after.position(self.q_next)
        after.velocity(self.v_free)
        after.launch(variational.extrapolate, nv, [h, self.v_left, self.dq, self.v_estimate])
        self._record_forces(self.q_next, self.v_estimate, after, (self.force_next, self.damping_next, self.link_F_next))
        end = (self.force_next, self.wrench_end, self.residual_end)
        self._record_balance(h, -0.5 * h, after, self.v_free, self.interval, *end)

    # the reverse of each equation -------------------------------------------------------------------------------------

    def _seed_result(self, h: float) -> None:
        """Set the gradients of the result to those that were loaded. Without contact v' is the Legendre velocity."""
        assign(self.q_next.grad, self.inputs.q_next_bar)
        assign(self.v_free.grad, self.inputs.v_next_bar)

    def _seed_jump(self, h: float) -> None:
        fill(self.v_free.grad)
        assign(self.v_next.grad, self.inputs.v_next_bar)
        if self.measurement is not None:
            self._add_measured(self.v_next)
        assign(self.jump_next.grad, self.jump_next_bar)

    @property
    def measured_velocity(self) -> wp.array:
        return self.v_measured

    def _take_solution(self) -> None:
        super()._take_solution()
        assign(self.v_measured, self.inputs.v_next)

    def _add_measured(self, v: wp.array) -> None:
        """Add the gradient of v' that comes from sensors."""
        self.step.dynamics.launch(gradient.move, self.model.nv, [self.v_measured.grad, v.grad])

    def _record_jump(self, h: float) -> None:
        """v' = Legendre velocity + jump'."""
        step = self.step
        inputs = [step.vector_begin, self.device_model.parameters.stored("gravity"), h * self.tolerance]
        inputs += [self.v_left, self.v_star, self.v, self.v_free, self.jump_next, self.v_next]
        self.dynamics.launch(variational.jump_of, step.vectors, inputs)

    def _seed_end(self, h: float) -> None:
        """Solve with M(q') for the gradient of the equation of v'."""
        step = self.step
        inputs = [self.device_model.topology, step.frame_next, step.factor, self.v_free.grad, step.work, self.seed]
        self.dynamics.launch(variational_adjoint.velocity_adjoint, self.model.ntree, inputs)
        assign(self.residual_end.grad, self.seed)

    def _take_back_root(self, h: float, x: Interval) -> None:
        """Reverse m = 0: solve (∂m/∂dq)ᵀ w = dq_bar, seed m with −w, and include the gradient of the momenta."""
        step, d, node, mu_bar = self.step, self.device_model, self.dynamics, x.mu.grad
        topology, X, S = d.topology, node.link_X, node.dof_S
        inputs = [topology, step.frame, step.equation(h), d.joint_anchor, X, x.dq, x.dq.grad, mu_bar]
        inputs += [step.work, self.elimination, self.turned, self.seed]
        node.launch_adjoint(variational_adjoint.root_adjoint, self.model.ntree, inputs)
        inputs = [topology, h, step.frame, d.joint_anchor, X, S, self.seed, step.work, mu_bar]
        wrenches = d.struct(interval_adjoint.Wrenches, mu=self.momentum, W=self.displaced)
        inputs += [wrenches, X.grad, node.body_gradients]
        node.launch_adjoint(interval_adjoint.momentum_adjoint, self.model.ntree, inputs)
        arrays = {"v": self.v_left, "D": self.damping, "force": self.force}
        bars = {name: array.grad for name, array in arrays.items()}
        given = {"armature": step.dynamics.armature, "gravity": d.parameters.stored("gravity")}
        of = {"armature": node.parameter_gradient("joint_armature"), "gravity": node.parameter_gradient("gravity")}
        given, found = (d.struct(interval_adjoint.Node, **x) for x in (arrays | given, bars | of))
        inputs = [topology, h, d.joint_anchor, X, node.links, given, x.dq, self.seed, step.work]
        inputs += [wrenches, node.link_gradients, found]
        node.launch_adjoint(interval_adjoint.balance_adjoint, None, inputs)
        if self.earlier:
            fill(mu_bar)

    def _seed_contact(self, h: float) -> None:
        """From the impulse i = A (v − v*) to v. `seed`: that of the root."""
        inputs = [self.device_model.topology, self.step.A, self.seed, self.impulse.grad, self.v.grad]
        self.dynamics.launch(variational_adjoint.impulse_adjoint, self.model.ntree, inputs)

    def _record_average(self, h: float) -> None:
        """v* = dq*/h."""
        self.dynamics.launch(variational.average_velocity, self.model.nv, [h, self.dq_star, self.v_star])

    def _record_corrected(self, h: float) -> None:
        """v* of a further pass, dq/h − (v − v*)."""
        inputs = [h, self.dq, self.v, self.v_star, self.v_corrected]
        self.dynamics.launch(variational.corrected_velocity, self.model.nv, inputs)

    def _take_back_passes(self, h: float) -> None:
        """From the gradient of the last pass's v* to that of the first pass's. Each pass is solved again."""
        step, arrays = self.step, (self.v, self.v_star, self.dq)
        of_contact = [self.phi, self.point, self.frame, self.J, self.M, self.weight]
        of_contact += [self.v_c, self.gamma, self.r, self.impulse, self.mu, *with_gradient(self.rows)]
        of_contact += [self.rate0] * bool(self.rate0.size)
        stages = [*self._node_contact_stages(False), *self.root]
        for kept in reversed(self.earlier):
            assign(self.v_corrected.grad, self.v_star.grad)
            for array, source in zip(arrays, kept, strict=True):
                assign(array, source)
                fill(array.grad)
            take_back([Stage(self._record_corrected, values="given")], h)
            assign(step.v_star, self.v_star)
            step.solve(h)
            for array in of_contact:
                fill(array.grad)
            self._clear_sums()
            evaluate(stages, h)
            take_back(stages, h)

    # the contact problem at the node ----------------------------------------------------------------------------------

    _balance_values = "once"
    reads_mass = True

    def _record_geometry(self, h: float) -> None:
        self._record_constraints(h)  # the kinematics are those of the node

    def record_momentum_balance(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.v_star, v, self.impulse)

    def _balance_arrays(self) -> list[wp.array]:
        return []

    def record_inertia(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.step.zero_acceleration, v, self.impulse_null)

    def _record_impulse(self, h: float, v_from: wp.array, v: wp.array, impulse: wp.array) -> None:
        """impulse and r = A (v − v_from)."""
        fill(impulse)
        inputs = [self.device_model.topology, h, self.ancestor, self.M, self.damping, v_from, v]
        self.dynamics.launch(variational_adjoint.node_impulse, self.model.nv, [*inputs, impulse, self.r])


@step_adjoint.register(Variational)
def _(integrator) -> type[StepAdjoint]:
    return VariationalAdjoint
