"""The backward pass of a step of the variational integrator (theory §3.5, §6; `kernels/differentiate/variational_adjoint.py`).

    m(dq*) = 0 → A (v − dq*/h) = Jᵀγ → i = A (v − dq*/h) → m(dq) = i → q' = q ⊕ dq, M(q') v' = p' → v' + jump'

with m DRNEA. Taken back from the end: a solve with M(q') for v', one with the transposed derivative of m for dq, which gives
the adjoint of i, one with the Hessian for v, and one with the transposed derivative of m for dq*. After each the adjoint of
its equation, at the frozen solution, runs with the seed found. Without contact and rows the middle is left out; of several
passes each is taken back with its own contact solve, which is repeated.
"""

import functools

import warp as wp

from warpsim.device.copies import copy
from warpsim.differentiate.implicit import StepAdjoint, StepRecord, with_gradient
from warpsim.differentiate.lcp_adjoint import ADJOINT_SOLVERS
from warpsim.integrate import Variational
from warpsim.integrate.variational.variational_step import VariationalStep
from warpsim.kernels.differentiate import gradient, variational_adjoint
from warpsim.kernels.integrate.variational import drnea, roots, variational
from warpsim.kernels.tree import passes
from warpsim.tree.dynamics import DeviceModel, Dynamics


class Interval:
    """The links' displacements `A`, `d` and momenta `mu` from q to q ⊕ dq, and m(dq) at its start."""

    def __init__(self, dq: wp.array, types, array, nlink: int):
        self.dq = dq
        self.A, self.d = array(nlink, types.mat33), array(nlink, types.vec3)
        self.mu, self.wrench = array(nlink, types.vec6), array(nlink, types.vec6)
        self.m = array(dq.shape[1], types.real)


class VariationalAdjoint(StepAdjoint):
    """Workspace of the backward pass. `self.v` is the velocity that contact was solved for, `self.v0` that reported at q."""

    def __init__(
        self, device_model: DeviceModel, options, max_contacts, contact: bool, replay, integrator: Variational
    ):
        self.integrator = integrator
        super().__init__(device_model, options, max_contacts, contact, replay)
        self.step.solver.problem.v0 = self.step.v  # what is recorded is not the velocity of the contact solve
        t, model, array = device_model.types, device_model.model, self.dynamics.array
        S, nv, nl = t.real, model.nv, model.nlink
        self.after = Dynamics(device_model, grad=True, requires_grad=True)  # at q'
        self.jump, self.v_left, self.dq, self.dq_star, self.v_star = (array(nv, S) for _ in range(5))
        self.impulse, self.impulse_null, self.residual_end = (array(nv, S) for _ in range(3))
        self.interval, self.interval_star = (Interval(dq, t, array, nl) for dq in (self.dq, self.dq_star))
        self.wrench_end = array(nl, t.vec6)
        # end of the step: v_free is the Legendre velocity there, v_estimate where its forces are taken
        self.v_free, self.v_estimate, self.jump_next, self.v_next = (array(nv, S) for _ in range(4))
        self.force_next, self.damping_next, self.link_F_next = array(nv, S), array(nv, S), None
        self.tolerance = self.step.solver_options.relative_tolerance(device_model.dtype)  # of the velocities
        # v, v* and dq of every pass but the last
        fixed = self.step.dynamics.array
        self.earlier = [[fixed(nv, S) for _ in range(3)] for _ in range(integrator.passes - 1)]
        self.v_corrected = array(nv, S)
        self.jump_next_bar, self.v_contact, self._unused = (self.step.dynamics.array(nv, S) for _ in range(3))
        if self.rigid is not None:
            self.step.solver.problem.v0 = self.v_contact
        self._make_elimination()

    def _make_step(self, options, max_contacts, contact: bool, scheme) -> VariationalStep:
        return VariationalStep(
            self.device_model, self.integrator, options, max_contacts, contact, adjoints=ADJOINT_SOLVERS
        )

    def _make_elimination(self) -> None:
        t, model, array = self.device_model.types, self.model, self.step.dynamics.array
        self.elimination, self.turned = copy(roots.Elimination, t.real)(), copy(drnea.Frame, t.real)()
        for key in ("aa", "al", "la", "ll"):
            setattr(self.elimination, key, array(model.nlink, t.mat33))
        self.elimination.row, self.elimination.axis = array(model.nv, t.vec6), array(model.nv, t.vec3)
        self.turned.offset, self.turned.axis = array(model.nlink, t.vec3), array(model.nv, t.vec3)

    @property
    def parts_position(self) -> bool:
        """v' is found after q', from it."""
        return False

    @property
    def uses_up_repeat(self) -> bool:
        """Earlier passes take the place of the last."""
        return bool(self.earlier)

    @functools.cached_property
    def _cleared(self) -> list[wp.array]:
        return with_gradient(*self._owners(), self.after, self.interval, self.interval_star)

    def _begin_wrench(self, record: StepRecord) -> None:
        super()._begin_wrench(record)
        if self.wrench is not None and self.link_F_next is None:
            self.link_F_next = self.dynamics.array(self.model.nlink, self.device_model.types.vec6)
            self.__dict__.pop("_cleared", None)

    def _begin_memory(self, record: StepRecord) -> None:
        before, after = record.used["jump"], record.memory["jump"]
        inputs = [record.flags, before, after.grad, self.step.jump, self.jump_next_bar]
        self.dynamics.launch(gradient.begin_memory, self.model.nv, inputs)
        if self.rigid is not None:  # which takes the solution as given
            inputs = [record.flags, record.v_contact, record.v_contact, self.v_contact, self._unused]
            self.dynamics.launch(gradient.begin_memory, self.model.nv, inputs)

    def _finish_memory(self, record: StepRecord) -> None:
        before, after = record.memory_before["jump"], record.memory["jump"]
        inputs = [record.flags, self.jump.grad, before.grad, after.grad]
        self.dynamics.launch(gradient.finish_memory, self.model.nv, inputs)

    def _repeat(self, h: float) -> None:
        step = self.step
        step.begin(h)
        step.find_root(h)
        wp.copy(self.dq_star, step.work.dq)
        if step.constrained:
            step.constrain(h, self._keep_pass)
            wp.copy(self.v_star, step.v_star)
        step.arrive(h)
        wp.copy(self.dq, step.work.dq)
        wp.copy(self.jump, step.jump)
        wp.copy(self.v_free, step.v_free)

    def _keep_pass(self, number: int) -> None:
        if number < len(self.earlier):
            step = self.step
            for kept, source in zip(
                self.earlier[number], (step.solver.solution.v, step.v_star, step.work.dq), strict=True
            ):
                wp.copy(kept, source)

    def _record_known(self, h: float) -> None:
        self._record_node()
        self._record_interval(h, self.interval)
        self._record_begin(h, self.interval)
        self._record_arrival()
        self._record_end(h)
        if self.step.constrained:
            self._record_geometry(h)
            self._record_residual(h)
            self._record_interval(h, self.interval_star)
            self._record_begin(h, self.interval_star)

    @property
    def _keeps_balance(self) -> bool:
        return True

    # what is recorded ------------------------------------------------------------------------------------------------

    def _record_node(self) -> None:
        """Kinematics, momenta and forces at (q, v)."""
        self.dynamics.position(self.q)
        inputs = [self.v0, self.jump, self.v_left]
        self.dynamics.launch(variational.left_velocity, self.model.nv, inputs)
        self.dynamics.velocity(self.v_left)
        self._record_forces(self.q, self.v0, self.dynamics)

    def _record_interval(self, h: float, x: Interval) -> None:
        """Displacements and momenta of the links."""
        p, dynamics, topology = self.device_model.parameters, self.dynamics, self.device_model.topology
        inputs = [topology, dynamics.dof_S, x.dq, x.A, x.d]
        dynamics.launch(variational_adjoint.displace, self.model.ntree, inputs)
        body = [p.stored(key) for key in ("body_mass", "body_com", "body_inertia")]
        inputs = [topology, h, *body, dynamics.link_X, x.A, x.d, x.mu]
        dynamics.launch(variational_adjoint.interval_momentum, self.model.nlink, inputs)

    def _record_begin(self, h: float, x: Interval) -> None:
        """m(dq), the equation of the node at q."""
        self._record_balance(h, 0.5 * h, self.dynamics, self.v_left, x, self.force, x.wrench, x.m)

    def _record_balance(self, h: float, c: float, node: Dynamics, v: wp.array, x: Interval, force, wrench, r) -> None:
        """The equation of one node."""
        p, topology = self.device_model.parameters, self.device_model.topology
        inputs = [topology, c, p.stored("gravity"), self.dynamics.link_X, node.link_X, node.link_I, node.link_V, x.mu]
        self.dynamics.launch(variational_adjoint.node_wrench, self.model.ntree, [*inputs, wrench])
        inputs = [topology, h, c, p.stored("joint_armature"), node.dof_S, wrench, v, x.dq, self.damping, force, r]
        self.dynamics.launch(variational_adjoint.node_balance, self.model.ntree, inputs)

    def _record_arrival(self) -> None:
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

    # the order of the backward pass ----------------------------------------------------------------------------------

    def _position_adjoint(self, h: float) -> None:
        """From q', v' and jump' to dq, the contact's v and v*, and what is at the node."""
        self.node, interval, arrival, end = (self._tape() for _ in range(4))
        with self.node:
            self._record_node()
        with interval:
            self._record_interval(h, self.interval)
        with arrival:
            self._record_arrival()
        self.q_next.grad.assign(self.inputs.q_next_bar)
        if self._by_position:
            arrival.backward()
            return
        with end:
            self._record_end(h)
        self.v_free.grad.assign(self.inputs.v_next_bar)
        if self.step.constrained:
            self._jump_adjoint(h)
        step = self.step
        inputs = [self.device_model.topology, step.frame_next, step.factor, self.v_free.grad, step.work, self.seed]
        self.dynamics.launch(variational_adjoint.velocity_adjoint, self.model.ntree, inputs)
        self.residual_end.grad.assign(self.seed)
        end.backward()
        arrival.backward()
        interval.backward()

    def _jump_adjoint(self, h: float) -> None:
        """v' is the Legendre velocity and jump'."""
        self.v_free.grad.zero_()
        self.v_next.grad.assign(self.inputs.v_next_bar)
        self.jump_next.grad.assign(self.jump_next_bar)
        inputs = [self.device_model.parameters.stored("gravity"), h * self.tolerance]
        inputs += [self.v_left, self.v_star, self.v, self.v_free, self.jump_next, self.v_next]
        self._record_and_reverse(variational.jump_of, inputs)

    def _residual_adjoint(self, h: float) -> None:
        self._root_adjoint(h, self.interval)
        if self.step.constrained:
            self._contact_adjoint(h)
            for kept in reversed(self.earlier):
                self._earlier_pass(h, kept)
            self._record_and_reverse(variational.average_velocity, [h, self.dq_star, self.v_star])
            self._root_adjoint(h, self.interval_star)
        self.node.backward()

    def _earlier_pass(self, h: float, kept: list[wp.array]) -> None:
        """v* = dq/h − (v − v*) of the pass before, whose solution is `kept`: from its gradient to that of the v* there."""
        step, arrays = self.step, (self.v, self.v_star, self.dq)
        self.v_corrected.grad.assign(self.v_star.grad)
        for array, source in zip(arrays, kept, strict=True):
            wp.copy(array, source)
            array.grad.zero_()
        inputs = [h, self.dq, self.v, self.v_star, self.v_corrected]
        self._known = False
        self._record_and_reverse(variational.corrected_velocity, inputs)
        wp.copy(step.v_star, self.v_star)
        step.solve(h)
        of_contact = [
            self.phi,
            self.point,
            self.frame,
            self.J,
            self.composite,
            self.M,
            self.weight,
            self.v_c,
            self.gamma,
        ]
        for array in (*of_contact, self.r, self.impulse, *with_gradient(self.rows)):
            array.grad.zero_()
        self._clear_sums()
        self._root_adjoint(h, self.interval)
        self._contact_adjoint(h)

    def _record_and_reverse(self, kernel, inputs) -> None:
        """The adjoint of one launch over (worlds, nv)."""
        tape = self._tape()
        with tape:
            self.dynamics.launch(kernel, self.model.nv, inputs)
        tape.backward()

    def _root_adjoint(self, h: float, x: Interval) -> None:
        """Solve (∂m/∂dq)ᵀ w = its gradient, then p̄ = −wᵀ ∂m/∂p at frozen dq."""
        step = self.step
        inputs = [self.device_model.topology, step.frame, step.equation(h), x.dq, x.dq.grad]
        inputs += [step.work, self.elimination, self.turned, self.seed]
        self.dynamics.launch(variational_adjoint.root_adjoint, self.model.ntree, inputs)
        for array in (x.A, x.d, x.mu, x.wrench):
            array.grad.zero_()
        interval, balance = self._tape(), self._tape()
        with interval:
            self._record_interval(h, x)
        with balance:
            self._record_begin(h, x)
        x.m.grad.assign(self.seed)
        balance.backward()
        interval.backward()

    def _contact_adjoint(self, h: float) -> None:
        """From the impulse i = A (v − v*), v and v* to v* and what is at the node. `seed` is that of the root."""
        step, dynamics = self.step, self.dynamics
        inputs = [self.device_model.topology, step.A, self.seed, self.impulse.grad, self.v.grad]
        dynamics.launch(variational_adjoint.impulse_adjoint, self.model.ntree, inputs)
        super()._residual_adjoint(h)

    def _record_geometry(self, h: float) -> None:
        self._record_constraints(h)  # the kinematics are those of the node

    def _free_velocity(self) -> wp.array:
        return self.v_star

    def _restitution_adjoint(self, h: float) -> None:
        """The gradient of v* goes back with that of dq*."""

    def _record_momentum_balance(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.v_star, v, self.impulse)

    def _balance_arrays(self) -> list[wp.array]:
        return []

    def _record_inertia(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.rigid.still, v, self.impulse_null)

    def _record_impulse(self, h: float, v_from: wp.array, v: wp.array, impulse: wp.array) -> None:
        """impulse and r = A (v − v_from)."""
        impulse.zero_()
        inputs = [self.device_model.topology, h, self.ancestor, self.M, self.damping, v_from, v]
        self.dynamics.launch(variational_adjoint.node_impulse, self.model.nv, [*inputs, impulse, self.r])
