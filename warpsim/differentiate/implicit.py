# SPDX-License-Identifier: Apache-2.0
"""The backward pass of one step: an adjoint solve with the Hessian, then the adjoint of the residual (theory §3.5).

A step keeps its inputs and its result: copies of what others may write to, references to what the tape made itself.
Backward repeats the smooth part of the step from them in a workspace of its own (the same kernels, so the same bits and
the same contacts), factors the Hessian at the solution, solves H w = v_bar, and runs the taped residual backwards with
the seed -w. All of that is one graph per step size,
between a launch that loads the record and one that adds the gradients found to those of its inputs.
"""

import functools
from typing import ClassVar

import numpy as np
import warp as wp

from warpsim.device.copies import copy, launch, twin
from warpsim.device.ranges import assign, fill
from warpsim.device.recording import values_known
from warpsim.device.replay import Replay
from warpsim.device.threads import exclusive, turn
from warpsim.differentiate.contact_adjoint import contact_adjoint
from warpsim.differentiate.fluid_adjoint import FluidAdjoint
from warpsim.differentiate.measurement_adjoint import MeasurementAdjoint, measures
from warpsim.differentiate.pressure_rates import PressureRates
from warpsim.differentiate.rows_adjoint import RowsAdjoint
from warpsim.differentiate.stage import Stage, evaluate, take_back
from warpsim.differentiate.taped import flat
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.forces.lines import TapedLines
from warpsim.integrate import Integrator
from warpsim.integrate.actuation import TapedActuation
from warpsim.integrate.compensation import TapedCompensation
from warpsim.kernels.contact import convex_contacts, spin_rows
from warpsim.kernels.differentiate import gradient, mocap_adjoint, residual, spin_slopes
from warpsim.kernels.forces import actuators
from warpsim.kernels.integrate import spin as spin_kernels
from warpsim.model.model import JOINT_NQ, JOINT_NV, JointType
from warpsim.rows.scalar_rows import ROW_MEMORY
from warpsim.solve.contact_model import ContactModel
from warpsim.tree.dynamics import DeviceModel, Dynamics


class StepAdjoint:
    """Workspace of the backward pass, shared by all steps of a simulator; nothing in it outlives one `backward`."""

    def __init__(
        self,
        device_model: DeviceModel,
        contact_model: ContactModel,
        max_contacts: int | None,
        replay: Replay,
        integrator: Integrator,
    ):
        model, t = device_model.model, device_model.types
        S, nv, nq = t.real, model.nv, model.nq
        self._replay, self.device, self._use = replay, device_model.device, replay.parameters._use
        self.device_model, self.model, self.worlds = device_model, model, device_model.worlds
        kind = contact_adjoint(contact_model)
        self.step = integrator.make_step(device_model, contact_model, max_contacts, kind.solver_of(contact_model))
        self.v_solved = self.step.dynamics.array(nv, S)
        self.step.reports_energy = False
        self.dynamics = TapedDynamics(device_model, self.step.dynamics)
        self.link_pose = device_model.link_pose  # with a gradient where there are mocap bodies
        self.contact = kind(self)
        array, C = self.dynamics.array, self.step.collision.capacity
        # inputs
        step = self.step
        self.q, self.v0, self.control, self.tau = (twin(x) for x in (step.q, step.v, step.control, step.tau))
        self.fluid = FluidAdjoint(device_model, step) if step.fluid is not None else None
        self.v = array(nv, S)
        self.v_end = self.v_still = None  # of bodies that spin: after their free motion, and what the bias is taken at
        if step.spin is not None:
            self.v_end, self.v_still = array(nv, S), array(nv, S)
        self.q_node = self.q  # where forces and contacts are taken
        self.weight = twin(step.law.weight)
        follows = self.step.scheme.order > 1
        self.rows = RowsAdjoint(device_model, self.step.scalar_rows, self.dynamics, follows)
        self.actuation = None if step.actuation is None else TapedActuation(step.actuation)
        self.compensation = None if step.compensation is None else TapedCompensation(step.compensation)
        self.lines = self.line_dynamics = None
        if step.lines is not None:
            self.lines = self.rows.lines = TapedLines(step.lines)
            self.line_dynamics = TapedDynamics(device_model, step.dynamics)
        # geometry
        self.phi, self.point, self.frame = array(C, S), array(C, t.vec3), array(C, t.mat33)
        self.J = twin(step.collision.contacts.J)
        self.pressure = None  # contact between pressure fields
        if step.collision.pressure is not None:
            self.pressure = PressureRates(step.collision)
            self.compliance = array(C, t.vec2)
            step.law.compliance = self.compliance
        reads_mass = self.reads_mass or self.rows.forward.has_frames
        self.M = self.dynamics.blocks() if reads_mass else twin(step.A)  # of which only the gradient is used then
        self.pushed_inertia = step.dynamics.array(model.nlink, t.vec10)
        # residual
        self.a, self.inverse_dynamics = array(nv, S), array(nv, S)
        self.force, self.damping = (
            twin(x) if self.repeats_forces else array(nv, S) for x in (step.force, step.damping)
        )
        slots = self.step.collision.slots
        self.v_c, self.gamma, self.r = array(slots, t.vec3), array(slots, t.vec3), array(nv, S)
        self.q_next, self.seed = array(nq, S), array(nv, S)
        table = np.zeros(self.M.shape[1:], dtype=np.int32)
        begin = np.repeat(model.tree_v[:-1], np.diff(model.tree_v))
        for d in range(nv):
            table[d, [e - begin[d] for e in model.ancestors(int(model.dof_link[d])) if e <= d]] = 1
        self.ancestor = wp.array(table, dtype=wp.int32, device=device_model.device)
        self.measurement = None  # what sensors of accelerations and forces find in a step
        if measures(step, device_model):
            self.measurement = MeasurementAdjoint(self)
        # 1 for the contacts whose Jacobian is not taken at q.
        self.moved = wp.zeros((self.worlds, C), dtype=wp.int32, device=device_model.device)
        self._make_inputs()

    def _make_inputs(self) -> None:
        step, array, S = self.step, self.step.dynamics.array, self.device_model.types.real
        self.inputs = copy(gradient.Inputs, S)()
        self.inputs.q, self.inputs.v, self.inputs.control, self.inputs.tau = step.q, step.v, step.control, step.tau
        self.inputs.v_next, self.inputs.q_next = self.v_solved, array(self.model.nq, S)
        self.inputs.q_next_bar, self.inputs.v_next_bar = array(self.model.nq, S), array(self.model.nv, S)
        self.switches = copy(gradient.Switches, S)()
        model, device = self.model, self.device_model.device
        root = model.link_body[model.tree_reference[model.link_tree]]
        for name, widths in (("q_body", JOINT_NQ), ("v_body", JOINT_NV)):
            table = np.repeat(root, [widths[JointType(kind)] for kind in model.link_type]).astype(np.int32)
            setattr(self.switches, name, wp.array(table, dtype=wp.int32, device=device))
        self.wrench = self.link_F = None
        self._none, self._no_wrench = (wp.empty((0,) * n, dtype=S, device=self.device_model.device) for n in (2, 3))
        if self.compensation is not None:
            self._allow_wrench()
        self._entries = max(self.model.nq, self.model.nv, self.model.nu)

    @functools.cached_property
    def _cleared(self) -> list[wp.array]:
        """The arrays that a backward pass begins with zero gradients of."""
        return with_gradient(*self._owners())

    def _owners(self) -> list:
        """What holds arrays of the tape."""
        measured = [] if self.measurement is None else self.measurement.owners()
        optional = (self.actuation, self.compensation, self.fluid, self.lines, self.line_dynamics)
        kinematics = [] if self.fluid is None else [self.fluid.dynamics]
        own = [self, self.dynamics, self.rows, self.contact]
        return [*own, *(x for x in optional if x is not None), *kinematics, *measured]

    @exclusive
    def backward(self, record: "StepRecord") -> None:
        """Add the gradient of the step's inputs, given that of its result, which is cleared."""
        r, none = record, self._none
        self.load(record)
        self._replay.run(("adjoint", r.h, *self.parameter_gradients()), lambda: self._propagate(r.h))
        found, total = (copy(gradient.Inputs, self.device_model.types.real)() for _ in range(2))
        found.q, found.v, found.control, found.tau = (x.grad for x in (self.q, self.v0, self.control, self.tau))
        for name, x in (("q", r.q), ("v", r.v), ("control", r.control), ("tau", r.tau)):
            setattr(total, name, x.grad if _has_gradient(x) else none)
        total.q_next_bar, total.v_next_bar = r.q_next.grad, r.v_next.grad
        self.step.dynamics.launch(gradient.add_found, self._entries, [r.flags, found, self.switches, total])
        if _has_gradient(r.wrench):
            inputs = [r.flags, self.wrench.grad, r.wrench.grad]
            self.step.dynamics.launch(gradient.finish_wrench, self.wrench.shape[1:], inputs)
        self._finish_memory(r)

    def load(self, record: "StepRecord") -> None:
        """Take the inputs, the result and the gradient of the result of a step."""
        self.device_model.parameters.load(record.parameters)
        if self.pressure is not None:
            self.pressure.choose(self.device_model.parameters.expanded)
        r, none = record, self._none
        self.switches.body_active = self.device_model.parameters.stored("body_active")
        kept = copy(gradient.Inputs, self.device_model.types.real)()
        kept.q, kept.v, kept.q_next = r.used["q"], r.used["v"], r.q_next
        kept.control, kept.tau = (none if x is None else x for x in (r.used["control"], r.used["tau"]))
        kept.v_next = r.v_next if self.step.spin is None else r.v_contact
        kept.q_next_bar, kept.v_next_bar = r.q_next.grad, r.v_next.grad
        inputs = [r.flags, self.device_model.q0, kept, self.switches, self.inputs]
        self.step.dynamics.launch(gradient.load_record, self._entries, inputs)
        self._begin_wrench(r)
        self._begin_memory(r)
        self.step.scalar_rows.load_memory(r.used)
        self.contact.load(r)

    def keep(self, record: "StepRecord", step) -> None:
        """Let a record keep what else a backward pass wants of the step that was made."""
        if self.step.spin is not None:
            record.v_contact = wp.clone(step.solver.solution.v)

    def _begin_memory(self, record: "StepRecord") -> None:
        """Load what else a state holds that gradients flow through, and its gradient at the end of the step."""
        if self.model.na:
            before, after, own = record.used["activation"], record.memory["activation"], self.actuation
            inputs = [record.flags, before, after.grad, self.step.actuation.activation, own.following_bar]
            self.dynamics.launch(gradient.begin_memory, self.model.na, inputs)
        mocap = self.step.mocap
        if mocap.size:
            inputs = [record.flags, self.device_model.mocap0, record.used["mocap"], mocap]
            self.step.dynamics.launch(mocap_adjoint.load_mocap, mocap.shape[1:], inputs)
        if self.measurement is not None:
            self.measurement.load(record)

    def _finish_memory(self, record: "StepRecord") -> None:
        """Add the gradient found to that of this memory, and clear that at the end of the step."""
        if self.model.na:
            before, after = record.memory_before["activation"], record.memory["activation"]
            inputs = [record.flags, self.actuation.activation.grad, before.grad, after.grad]
            self.dynamics.launch(gradient.finish_memory, self.model.na, inputs)
        d, mocap = self.device_model, self.step.mocap
        if mocap.size:
            inputs = [record.flags, d.mocap_link, mocap, self.link_pose, self.link_pose.grad]
            inputs += [record.memory_before["mocap"].grad, record.memory["mocap"].grad]
            self.step.dynamics.launch(mocap_adjoint.add_mocap, mocap.shape[1], inputs)
        if self.measurement is not None:
            self.measurement.finish(record)

    def _begin_wrench(self, record: "StepRecord") -> None:
        """Load the wrenches on bodies, for which there is room from the first record that has any."""
        if self.wrench is None:
            if record.wrench is None:
                return
            self.step.allow_wrench()
            self._allow_wrench()
            self.__dict__.pop("_cleared", None)  # is to hold these, too
            self._replay.clear()
        wrench = self._no_wrench if record.wrench is None else record.used["wrench"]
        inputs = [record.flags, wrench, self.step.wrench]
        self.dynamics.launch(gradient.begin_wrench, self.wrench.shape[1:], inputs)

    def _allow_wrench(self) -> None:
        self.wrench = self.dynamics.array((self.model.nbody, 6), self.device_model.types.real)
        self.link_F = self.dynamics.array(self.model.nlink, self.device_model.types.vec6)

    def parameter_gradients(self) -> list[int]:
        """Addresses that a graph of the backward pass holds and that a user may replace."""
        stored = (self.device_model.parameters.stored(name) for name in self.device_model.parameters.expanded)
        return [array.grad.ptr for array in stored if array.grad is not None]

    def _propagate(self, h: float) -> None:
        """From the inputs and the seed that were loaded to the gradients of `q`, `v0`, `control`, `tau`, parameters."""
        self.repeat(h)
        self.reverse(h)

    def repeat(self, h: float) -> None:
        """The step that was loaded once more, and its equations, at the frozen solution, as they are taped."""
        self._repeat(h)
        if self.pressure is not None:
            self.pressure.find(h)
        self._take_solution()
        if self.contact.is_linear:
            self._evaluate(h)

    def _evaluate(self, h: float) -> None:
        """The equations whose values stay from one seed to the next."""
        self._clear_sums()
        self.contact.start()
        evaluate([*self._first_stages(), *self.stages()], h)

    def _first_stages(self) -> list[Stage]:
        """What comes before `stages`: lines, the forces of the medium, then what `Step.actuate` finds."""
        medium = [] if self.fluid is None else self.fluid.stages(self.q, self.v0, self.tau)
        return [*self.line_stages(), *medium, *self.actuation_stages()]

    def _take_solution(self) -> None:
        """The arrays that the equations are taped with, from those of the step repeated."""
        step = self.step
        assign(self.v, step.solver.solution.v)
        if self.wrench is not None:
            assign(self.wrench, step.wrench)

    def reverse(self, h: float, by_position: bool = False, regular: bool = False) -> None:
        """From the seed that was loaded to the gradients, after `repeat`, as often as there are seeds (but see `uses_up_repeat`).

        `by_position`: the seed of v' is 0. `regular`: `contact.is_regular` was so.
        """

        def take_back_all() -> None:
            if not self.contact.is_linear:
                self._evaluate(h)
            self._clear_gradients()
            take_back([*self._first_stages(), *self.stages(by_position, regular)], h)

        self.contact.choose(take_back_all)
        take_back_all()

    def _clear_gradients(self) -> None:
        for array in self._cleared:
            fill(array.grad)

    @property
    def uses_up_repeat(self) -> bool:
        """Whether each `reverse` wants a `repeat` of its own."""
        return False

    @property
    def parts_position(self) -> bool:
        """Whether `reverse` is `reverse_position` and what is linear in the gradient of v that it leaves."""
        return self.contact.is_linear and self.step.spin is None

    def reverse_position(self, h: float) -> None:
        """From the seed by q' alone to the gradients of `q`, `v0` and `v` through the update of the positions."""
        self._clear_gradients()
        take_back(self.position_stages(), h)

    def reverse_activation(self, h: float) -> None:
        """From the seed by the next activations alone to the gradients of their inputs."""
        self._clear_gradients()
        take_back([*self.line_stages(), *self.actuation_stages()], h)

    # the step as a list of functions -----------------------------------------------------------------------------------

    def line_stages(self) -> list[Stage]:
        """Lengths and moment arms of lines at q: the first functions of a step, with kinematics of their own."""
        return [] if self.lines is None else [Stage(self._record_lines, values="given")]

    def _record_lines(self, h: float) -> None:
        self.line_dynamics.position(self.q)
        self.lines.record(self.line_dynamics)

    def actuation_stages(self) -> list[Stage]:
        """What `Step.actuate` finds, and the next activations: the functions after `line_stages` and the medium."""
        if self.actuation is None and self.compensation is None:
            return []
        return [Stage(self._record_actuation, self._seed_actuation, values="given")]

    def _seed_actuation(self, h: float) -> None:
        if self.model.na:
            assign(self.actuation.following.grad, self.actuation.following_bar)
        if self._actuation_has_kinematics:  # of its own, on arrays whose gradients were taken back before
            for array in (self.dynamics.link_X, self.dynamics.dof_S, self.dynamics.link_I):
                fill(array.grad)

    @property
    def _actuation_has_kinematics(self) -> bool:
        """Whether what `Step.actuate` finds depends on the kinematics at q."""
        return self.compensation is not None and self.step.compensation.has_force

    def _record_actuation(self, h: float) -> None:
        if self._actuation_has_kinematics:
            self.dynamics.position(self.q)
        if self.compensation is not None:
            self.compensation.record(self.dynamics, self.wrench)
        if self.actuation is not None:
            self._record_lengths(h)
            force = self._none if self.compensation is None else self.compensation.force
            self.actuation.record(self.dynamics, h, self.control, self.pushed, force)

    def _record_lengths(self, h: float) -> None:
        """Lengths and velocities of actuators at (q, v0), where something asks for them."""
        self.actuation.find_lengths(self.dynamics, self.q, self.v0)
        if self.lines is not None and self.step.actuation.has_lengths:
            own = (self.actuation.length, self.actuation.velocity)
            self.step.lines.measure_actuators(self.lines, self.dynamics, self.v0, *own)

    @property
    def pushed(self) -> wp.array:
        """As of the step, on the tape."""
        return self.tau if self.fluid is None else self.fluid.pushed

    @property
    def acting_tau(self) -> wp.array:
        """As of the step, on the tape."""
        return self.pushed if self.actuation is None or not self.step.actuation.has_limits else self.actuation.tau

    @property
    def acting_wrench(self) -> wp.array | None:
        """As of the step, on the tape."""
        return self.wrench if self.compensation is None else self.compensation.wrench

    @property
    def actuators(self):
        """As of the step, on the tape."""
        return self.step.actuators_by(self.actuation, self.control)

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        """All functions of the step in its order after `_first_stages`. `by_position`, `regular`: see `reverse`."""
        measured = [] if self.measurement is None else self.measurement.stages()
        if self.step.spin is None:
            return [*self.contact_stages(regular), *measured, *self.position_stages()]
        # What is measured depends on the velocity after the free motion.
        free = [Stage(None, self.contact.adjust), Stage(self._record_free_spin)]
        return [*self.contact_stages(regular), *free, *measured, Stage(None, self._seed_positions)]

    def contact_stages(self, regular: bool = False) -> list[Stage]:
        """The root v of r = A (v − v*) − Jᵀγ = 0."""
        return [
            Stage(self._record_geometry),
            Stage(None, self._weight_adjoint),
            *self.contact.stages(regular),
            Stage(lambda h: self.record_momentum_balance(h, self.v), values=self._balance_values),
            Stage(self._record_impulses, self._seed_residual, values="once" if self.contact.is_linear else "anew"),
        ]

    def position_stages(self) -> list[Stage]:
        """q' = q ⊕ h v^θvq."""
        return [
            Stage(None, self.contact.adjust),
            Stage(self._record_moving_velocity),
            Stage(self._record_positions, self._seed_positions, values="given"),
        ]

    def _clear_sums(self) -> None:
        """Clear what the tapes of the contact stage sum up."""
        self.rows.start()
        fill(self.v_c)
        if self.measurement is not None:
            self.measurement.clear()

    def _repeat(self, h: float) -> None:
        """The step once more, whose solve starts from its solution."""
        step = self.step
        step.smooth_motion(h)
        step.contact_problem(h)
        step.prepare_solver(h)
        step.solver.launch()

    def _seed_positions(self, h: float) -> None:
        """The gradients of the result, as they were loaded."""
        assign(self.v.grad if self.v_end is None else self.v_end.grad, self.inputs.v_next_bar)
        assign(self.q_next.grad, self.inputs.q_next_bar)

    def _record_positions(self, h: float) -> None:
        inputs = [self.device_model.topology, h, self.q_node, self._moving_velocity, self.q_next]
        self.dynamics.launch(self.step.integrate_position, self.model.nlink, inputs)

    def _record_free_spin(self, h: float) -> None:
        """q' and v' from the solution, with the free motion of bodies that spin."""
        self._record_positions(h)
        spin, dynamics, d = self.step.spin, self.dynamics, self.device_model
        bodies, arrays = spin.bodies(dynamics), [self.q, self.v, self.q_next, self.v_end]

        def values() -> None:
            dynamics.launch(spin_kernels.spin, self.model.nlink, [d.topology, h, bodies, *arrays])

        def adjoint() -> None:
            bars = copy(spin_slopes.Bars, d.types.real)()
            bars.q, bars.v, bars.q_next, bars.v_next = (x.grad for x in arrays)
            bars.bodies = dynamics.body_gradients
            bars.armature = dynamics.parameter_gradient("joint_armature")
            inputs = [d.topology, h, bodies, self.q, self.v, bars]
            dynamics.launch_adjoint(spin_slopes.spin_adjoint, self.model.nlink, inputs)

        dynamics.record(values, adjoint, arrays)

    @property
    def _moving_velocity(self) -> wp.array:
        """v^θvq, which moves the positions."""
        return self.v

    def _record_moving_velocity(self, h: float) -> None:
        """Its equation, where it has one."""

    def _seed_residual(self, h: float) -> None:
        """Solve H w = v_bar for the gradient -w of r."""
        self.contact.solve_adjoint(self.v.grad, self.seed)
        fill(self.v.grad)
        assign(self.r.grad, self.seed)

    def _weight_adjoint(self, h: float) -> None:
        """From the gradients of the weights w to those of J and M."""
        step = self.step
        inputs = [self.device_model.topology, step.collision.scene, step.collision.contacts, step.scalar_rows.rows]
        bars = copy(residual.WeightBars, self.device_model.types.real)()
        bars.weight, bars.row_weight = self.weight.grad, self.rows.weight.grad
        bars.J, bars.row_J, bars.M = self.J.grad, self.rows.J.grad, self.M.grad
        inputs += [self.ancestor, step.M_factor, self.J, self.weight, step.z, bars]
        self.dynamics.launch(residual.weight_adjoint, None, inputs)

    # Whether a momentum balance is to be evaluated for each seed: another has its arrays, and the adjoint of `passes.rnea` sums
    # up `link_f` again.
    _balance_values: ClassVar = "anew"

    def clear_balance(self) -> None:
        """No gradients on what a momentum balance that was recorded before has left behind."""
        for array in self._balance_arrays():
            fill(array.grad)

    def _balance_arrays(self) -> list[wp.array]:
        """What a momentum balance writes, but for r."""
        found = [
            self.a,
            self.v_still,
            self.inverse_dynamics,
            self.force,
            self.damping,
            self.link_F,
            self.dynamics.link_V,
        ]
        return [x for x in found if x is not None]

    def record_inertia(self, h: float, v: wp.array) -> None:
        """r = A v."""
        dynamics, nv, still = self.dynamics, self.model.nv, self.contact.still
        dynamics.velocity(still)
        dynamics.launch(residual.acceleration, nv, [h, still, v, self.a])
        dynamics.inverse_dynamics(still, self.a, self.inverse_dynamics, self.contact.no_gravity)
        self._record_forces(self.q_node, self.v0, dynamics)
        inputs = [h, self.inverse_dynamics, self._record_damping(h), still, v, self.r]
        dynamics.launch(residual.smooth_residual, nv, inputs)

    @property
    def measured_velocity(self) -> wp.array:
        """The velocity at the end of the step, as sensors of accelerations read it."""
        return self.v if self.v_end is None else self.v_end

    @property
    def follows_contacts(self) -> bool:
        """Whether a step takes contacts where its free motion brings them (`point_between`, `frame_between`), if `moved`."""
        return self.step.stages is not None and self.step.stages.follows_contacts

    reads_mass = False  # whether an equation reads `M`
    repeats_forces = True  # whether the step that is repeated has the forces at (q, v) in arrays

    # v* on the tape; None: it is no function of its own, but what the momentum balance vanishes at without contact.
    v_star: wp.array | None = None

    def _record_geometry(self, h: float) -> None:
        """Kinematics, geometry and Jacobians of contacts and rows, and the mass matrix, at q."""
        self.dynamics.position(self.q_node)
        self._record_constraints(h)

    def _record_constraints(self, h: float) -> None:
        """Geometry and Jacobians of contacts and rows, and the mass matrix, after `position(q)`."""
        self._record_mass(self.dynamics)
        self.rows.record_geometry(self._row_lead(h)[0], self.q_node, self.v0, self.M)
        self._record_contact_geometry(self.dynamics, self.phi, self.point, self.frame)
        self._record_jacobian(self.dynamics, self.point, self.frame, choice=0)

    def _row_lead(self, h: float) -> tuple[float, float]:
        return self.step.scalar_rows.lead(h, self.step.scheme.theta_vq > 0.0)

    def _record_mass(self, dynamics: Dynamics) -> None:
        """The entries of M at the configuration of `dynamics`."""
        topology, composite = self.device_model.topology, self.step.composite
        inputs = [topology, self.ancestor, dynamics.dof_S, composite, self.M.grad, self.pushed_inertia]
        inputs += [dynamics.dof_S.grad, dynamics.link_I.grad, dynamics.parameter_gradient("joint_armature")]

        def values() -> None:
            if self.reads_mass or self.rows.forward.has_frames:
                known = [topology, self.ancestor, dynamics.armature, dynamics.dof_S, composite, self.M]
                dynamics.launch(residual.mass_entries, self.model.nv, known)

        def adjoint() -> None:
            dynamics.launch_adjoint(residual.mass_adjoint, self.model.ntree, inputs)

        dynamics.record(values, adjoint, [dynamics.dof_S, dynamics.link_I, self.M])

    def _record_contact_geometry(self, dynamics: Dynamics, phi: wp.array, point: wp.array, frame: wp.array) -> None:
        """Distances, points and frames of the contacts at the configuration of `dynamics`, features frozen."""
        collision = self.step.collision
        if not collision.enabled:
            return
        plant = self.device_model.plant()
        inputs = [collision.scene, collision.contacts, plant, dynamics.link_X, phi, point, frame]
        dynamics.launch(residual.contact_geometry, collision.capacity, inputs)
        if collision.convex_scene is not None:
            inputs = [collision.scene, collision.convex_scene, *inputs[1:]]
            dynamics.launch(convex_contacts.contact_geometry, collision.capacity, inputs)
        if self.pressure is not None and dynamics is self.dynamics:  # others do not follow these contacts
            self.pressure.record(dynamics, phi, point, frame, self.compliance)

    def _record_jacobian(self, dynamics: Dynamics, point: wp.array, frame: wp.array, choice: int) -> None:
        """Jacobians of the contacts with `moved` = choice, which the step repeated has found."""
        collision = self.step.collision
        if not collision.enabled:
            return
        inputs = [self.device_model.topology, collision.scene, collision.contacts, dynamics.link_X, dynamics.dof_S]
        inputs += [point, frame, self.moved, choice, self.J]
        with values_known():
            dynamics.launch(residual.contact_jacobian, collision.capacity, inputs)
            if collision.spin is not None:
                inputs = [*collision.spin.inputs(), dynamics.dof_S, frame, self.moved, choice, self.J]
                dynamics.launch(spin_rows.spin_jacobian, collision.capacity, inputs)

    def record_momentum_balance(self, h: float, v: wp.array) -> None:
        """A (v - v*)."""
        dynamics, nv = self.dynamics, self.model.nv
        biased = self.v0
        if self.step.spin is not None:
            biased = self.step.spin.still(h, dynamics, self.v0, self.v_still)
        dynamics.velocity(biased)
        dynamics.launch(residual.acceleration, nv, [h, self.v0, v, self.a])
        dynamics.inverse_dynamics(biased, self.a, self.inverse_dynamics)
        self._record_forces(self.q_node, self.v0, self.dynamics)
        inputs = [h, self.inverse_dynamics, self._record_damping(h), self.force, v, self.r]
        dynamics.launch(residual.smooth_residual, nv, inputs)

    def _record_damping(self, h: float) -> wp.array:
        """D of A = M + h D."""
        return self.damping

    def _record_impulses(self, h: float) -> None:
        """- J^T gamma of contacts and rows."""
        dynamics, step = self.dynamics, self.step
        collision = step.collision
        scene, contacts = collision.scene, collision.contacts
        if collision.enabled:
            rates = [scene, contacts, self.J, self.v, self.v_c]
            forces = [scene, contacts, self.J, self.gamma, self.r]
            dynamics.launch(residual.contact_rate, collision.slots, rates)
            self.contact.record_law(h, self.v_c, self.gamma)
            dynamics.launch(residual.contact_residual, collision.slots, forces)
            if step.sticking is not None:
                step.sticking.record(dynamics, h, self.actuators, self.J, self.r)
        lead = self._row_lead(h)[1]
        self.rows.record_residual(h, step.options.sigma, lead, self.v0, self.v, self.actuators, self.r)

    def _record_forces(self, q: wp.array, v: wp.array, dynamics: Dynamics, out=None) -> None:
        """Forces and damping at (q, v), whose kinematics are in `dynamics`. `out`: arrays for them, and for the scratch of
        wrenches, besides `force`, `damping` and `link_F`."""
        d, step, plant = self.device_model, self.step, self.device_model.plant()
        force, damping, link_F = (self.force, self.damping, self.link_F) if out is None else out
        inputs = [d.topology, plant, q, self.acting_tau, force, damping]
        with values_known(self.repeats_forces and self.wrench is None):
            dynamics.launch(actuators.passive_force, self.model.nlink, inputs)
            if self.model.nu:
                dynamics.launch(actuators.actuator_force, None, [d.topology, self.actuators, q, v, force, damping])
            if self.lines is not None:
                step.lines.pull(dynamics, self.lines.moment, self.actuators, force)
        if self.wrench is not None:
            inputs = [d.topology, plant, dynamics.link_X, dynamics.dof_S, self.acting_wrench]
            dynamics.launch(actuators.wrench_force, self.model.ntree, [*inputs, link_F, force])


@functools.singledispatch
def step_adjoint(integrator) -> type[StepAdjoint]:
    """The class for an integrator; `step_adjoint.register(Integrator)(lambda integrator: Class)` adds one."""
    raise ValueError(f"{integrator!r} has no gradients; leave requires_grad=False, or register a StepAdjoint for it")


class StepRecord:
    """What a taped step keeps: its inputs, whose gradients it adds to, its result, and its step size.

    `used`: the values of the inputs by name, `parameters`: those of the parameters. Copies: the owners of the arrays may
    write to them before the backward pass. States that the tape made (`State.recorded`) are not copied.
    """

    def __init__(self, h: float, before, after, control, tau, wrench, used: dict, parameters):
        self.h = h
        self.q, self.v = before.q, before.v
        self.q_next, self.v_next, self.flags, self.memory = after.q, after.v, after.memory["flags"], dict(after.memory)
        self.memory_before = dict(before.memory)
        self.control, self.tau, self.wrench = control, tau, wrench
        self.used, self.parameters = used | state_values(before), parameters
        self.v_contact = None  # the solution of the contact solve, where it is not `v_next`

    def arrays(self) -> list[wp.array]:
        """The arrays whose gradients the step reads or adds to."""
        optional = [x for x in (self.control, self.tau, self.wrench) if _has_gradient(x)]
        memory = [x for m in (self.memory_before, self.memory) for x in m.values() if _has_gradient(x)]
        return [self.q, self.v, self.q_next, self.v_next, *optional, *memory]


def state_values(state) -> dict[str, wp.array]:
    """The smooth arrays of a state by name, and what its rows remember: copies, unless a tape made them."""
    arrays = state.smooth_arrays() | {name: state.memory[name] for name in ROW_MEMORY if name in state.memory}
    return dict(arrays) if state.recorded else {name: kept_array(array) for name, array in arrays.items()}


def kept_array(array: wp.array | None) -> wp.array | None:
    """A copy, without a gradient, of an input that its owner may write to, or None."""
    return None if array is None else wp.clone(array, requires_grad=False)


def pass_on_gradient(stays: wp.array, source, target) -> None:
    """Hand the gradient of one state on to another one in the worlds that stay, and clear it in all."""
    targets = target.smooth_arrays()
    with turn(stays.device):
        for name, array in source.smooth_arrays().items():
            if array.size:
                inputs = [stays, flat(array.grad), flat(targets[name].grad)]
                launch(gradient.pass_on, array.dtype, inputs[1].shape, inputs, device=array.device, record_tape=False)


def with_gradient(*owners) -> list[wp.array]:
    """The arrays with a gradient among the attributes of `owners`."""
    return [x for owner in owners for x in vars(owner).values() if _has_gradient(x)]


def _has_gradient(value) -> bool:
    return isinstance(value, wp.array) and value.grad is not None
