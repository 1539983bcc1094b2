# SPDX-License-Identifier: Apache-2.0
"""The backward pass of one step: an adjoint solve with the Hessian, then the adjoint of the residual (theory §3.5).

A step keeps its inputs and its result: copies of arrays that others may write to, references to arrays of the tape. The
backward pass has a workspace of its own. There it

- repeats the smooth part of the step (the same kernels, so the same bits and the same contacts),
- factors the Hessian at the solution and solves H w = v_bar,
- runs the taped residual backwards with the seed -w.

All of this is one graph per step size. One launch before it loads the record; one after it adds the gradients found to
those of the inputs.
"""

import functools
from typing import ClassVar

import numpy as np
import warp as wp

from warpsim.device.copies import by_rows, copy, launch, twin
from warpsim.device.per_world import assign, fill
from warpsim.device.ranges import listed
from warpsim.device.recording import values_known
from warpsim.device.relaunch import Relaunch
from warpsim.device.replay import Replay
from warpsim.device.threads import exclusive, turn
from warpsim.differentiate.contact_adjoint import contact_adjoint
from warpsim.differentiate.from_distance import DistanceAdjoint
from warpsim.differentiate.impacts_adjoint import ImpactsAdjoint
from warpsim.differentiate.measurement_adjoint import MeasurementAdjoint, measures
from warpsim.differentiate.pressure_rates import PressureRates
from warpsim.differentiate.rows_adjoint import rows_adjoint
from warpsim.differentiate.stage import Stage, evaluate, take_back
from warpsim.differentiate.taped import flat
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.integrate import Integrator
from warpsim.integrate.acting import Acting
from warpsim.kernels.contact import convex_contacts, spin_rows
from warpsim.kernels.differentiate import gradient, mocap_adjoint, residual, spin_slopes
from warpsim.kernels.integrate import spin as spin_kernels
from warpsim.kernels.tree import passes
from warpsim.model.model import JOINT_NQ, JOINT_NV, JointType
from warpsim.rows.scalar_rows import ROW_MEMORY
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.lcp.contact_lcp import LCP_MEMORY
from warpsim.tree.dynamics import DeviceModel, Dynamics


class StepAdjoint(Acting):
    """Workspace of the backward pass. All steps of a simulator share it: nothing in it outlives one `backward`."""

    takes_time = True  # False in an impact, in which forces do nothing

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
        kind = contact_adjoint(contact_model)
        step = integrator.make_step(device_model, contact_model, max_contacts, kind.solver_of(contact_model))
        super().__init__(device_model, TapedDynamics(device_model, step.dynamics))
        self.step, self.v_solved = step, step.dynamics.array(nv, S)
        step.reports_energy = False
        self.actuator_tables = step.actuator_tables
        self.link_pose = device_model.link_pose  # has a gradient where there are mocap bodies
        self.contact = kind(self)
        array, C = self.dynamics.array, step.collision.capacity
        # inputs
        self.q, self.v0, self.control, self.tau = (twin(x) for x in (step.q, step.v, step.control, step.tau))
        for part in step.parts:
            self.take(part.on_tape(TapedDynamics(device_model, step.dynamics) if part.moves else self.dynamics))
        self._carried: list[tuple[str, wp.array, wp.array, wp.array]] = []
        if model.na:
            self.carry(
                "activation", step.actuation.activation, self.actuation.following_bar, self.actuation.activation.grad
            )
        self.v = array(nv, S)
        # Of spinning bodies: the velocity after their free motion, and the velocity that the bias is evaluated at.
        self.v_end, self.v_still = (array(nv, S) for _ in range(2)) if self.spin else (None, None)
        self.q_node = self.q  # where forces and contacts are evaluated
        self.weight = twin(step.law.weight)
        follows = step.scheme.order > 1
        self.rows = rows_adjoint(step.scalar_rows, self.dynamics, self.lines, follows)
        # geometry
        self.phi, self.point, self.frame = array(C, S), array(C, t.vec3), array(C, t.mat33)
        self.J = twin(step.collision.contacts.J)
        self.mu = step.law.mu = array(C, S)
        # Rates of contacts when the step begins.
        slots = step.collision.slots if step.law.reads_rate0 else C
        self.rate0 = array(slots if step.collision.slides or step.impacts or step.law.reads_rate0 else 0, t.vec3)
        self.pressure = None  # contact between pressure fields
        if step.collision.pressure is not None:
            self.pressure = PressureRates(step.collision)
            self.compliance = array(C, t.vec2)
            step.law.compliance = self.compliance
        reads_mass = self.reads_mass or self.rows.has_frames
        # Where no equation reads M, only its gradient is used.
        self.M = self.dynamics.blocks() if reads_mass else twin(step.A)
        self.pushed_inertia = step.dynamics.array(model.nlink, t.vec10)
        # residual
        self.a, self.inverse_dynamics = array(nv, S), array(nv, S)
        self.force, self.damping = (
            twin(x) if self.repeats_forces else array(nv, S) for x in (step.force, step.damping)
        )
        slots = self.step.collision.slots
        self.surface_rate = twin(self.step.collision.surface_rate)  # s on the tape
        self.v_c, self.gamma, self.r = array(slots, t.vec3), array(slots, t.vec3), array(nv, S)
        self.q_next, self.seed = array(nq, S), array(nv, S)
        self.ancestor = device_model.ancestors(self.M.shape[2])
        self.inertial = self.dynamics  # its configuration is that of M
        self.before = array(C if step.impacts else 0, t.vec5)  # see `taped_contacts.before_impact`
        self.impacts = ImpactsAdjoint(self) if step.impacts else None
        self.distance = DistanceAdjoint(self) if device_model.contact_gradient else None
        # The objects that hold arrays of the tape.
        self.owners = [self, self.dynamics, self.rows, self.contact, *self.parts, *(x.dynamics for x in self.parts)]
        if self.impacts:
            self.owners += [self.impacts.ahead, self.impacts.contacts_ahead]
        self.measurement = None  # what sensors of accelerations and forces read in a step
        if measures(step, device_model):
            self.measurement = MeasurementAdjoint(self)
        # 1 for contacts whose Jacobian is not evaluated at q.
        self.moved = step.dynamics.array(C, wp.int32)
        self._make_inputs()

    def _make_inputs(self) -> None:
        step, array, S = self.step, self.step.dynamics.array, self.device_model.types.real
        model, nq, nv = self.model, self.model.nq, self.model.nv
        inputs = {"q": step.q, "v": step.v, "control": step.control, "tau": step.tau}
        found = {"v_next": self.v_solved, "q_next": array(nq, S)}
        bars = {"q_next_bar": array(nq, S), "v_next_bar": array(nv, S)}
        self.inputs = self.device_model.struct(gradient.Inputs, **inputs, **found, **bars)
        root = model.link_body[model.tree_reference[model.link_tree]]
        tables = {"q_body": JOINT_NQ, "v_body": JOINT_NV}
        roots = {n: np.repeat(root, [x[JointType(kind)] for kind in model.link_type]) for n, x in tables.items()}
        self.switches = self.device_model.struct(gradient.Switches, **roots)
        self.link_F = None
        self._none, self._no_wrench = (wp.empty((0,) * n, dtype=S, device=self.device) for n in (2, 3))
        self.gather()
        if self.step.wrench is not None:
            self._allow_wrench()
        # Launched for every record: the flags, and the struct of its arrays or of their gradients, are its own.
        own = {"q": self.q, "v": self.v0, "control": self.control, "tau": self.tau}
        struct, flags = self.device_model.struct, step.flags
        found = struct(gradient.Inputs, **{name: x.grad for name, x in own.items()})
        record, total = (struct(gradient.Inputs) for _ in range(2))
        over = (step.worlds, max(nq, nv, model.nu))
        real, device = self.device_model.types.real, self.device
        loaded = [flags, self.device_model.q0, record, self.switches, self.inputs]
        self._load_record = Relaunch(gradient.load_record, real, over, loaded, device)
        self._add_found = Relaunch(gradient.add_found, real, over, [flags, found, self.switches, total], device)

    @functools.cached_property
    def _cleared(self) -> list[wp.array]:
        """The arrays whose gradients are zeroed when a backward pass begins."""
        return with_gradient(*self.owners)

    @exclusive
    def backward(self, record: "StepRecord") -> None:
        """Add the gradient of the step's inputs, from the gradient of its result, and clear the latter."""
        r, none = record, self._none
        self.load(record)
        self._replay.run(("adjoint", r.h, *self.parameter_gradients()), lambda: self._propagate(r.h))
        given = {"q": r.q, "v": r.v, "control": r.control, "tau": r.tau}
        total = {name: x.grad if _has_gradient(x) else none for name, x in given.items()}
        total |= {"q_next_bar": r.q_next.grad, "v_next_bar": r.v_next.grad}
        lent: list[tuple[wp.array, wp.array]] = []
        total = dict(zip(total, by_rows(total.values(), lent), strict=True))
        self._add_found({0: r.flags}, {3: total})
        for array, rows in lent:
            wp.copy(array, rows)
        if _has_gradient(r.wrench):
            inputs = [r.flags, self.wrench.grad, r.wrench.grad]
            self.step.dynamics.launch(gradient.finish_wrench, self.wrench.shape[1:], inputs)
        self._finish_memory(r)

    def kernels(self, h: float) -> list[wp.Kernel]:
        """The kernels of a backward pass, which is not executed."""
        with listed() as found:
            self._propagate(h)
        real = self.device_model.types.real
        return [*found, *(copy(x, real) for x in (gradient.load_record, gradient.add_found))]

    def load(self, record: "StepRecord") -> None:
        """Load the inputs, the result and the gradient of the result of a step."""
        self.device_model.parameters.load(record.parameters)
        if self.pressure is not None:
            self.pressure.choose(self.device_model.parameters.expanded)
        r, none = record, self._none
        active = self.device_model.parameters.stored("body_active")
        if self.switches.body_active is not active:
            self.switches.body_active = active
        kept = {name: none if r.used[name] is None else r.used[name] for name in ("q", "v", "control", "tau")}
        kept |= {"q_next": r.q_next, "v_next": self.solved_velocity(r)}
        kept |= {"q_next_bar": r.q_next.grad, "v_next_bar": r.v_next.grad}
        self._load_record({0: r.flags}, {2: dict(zip(kept, by_rows(kept.values(), []), strict=True))})
        self._begin_wrench(r)
        self._begin_memory(r)
        self.step.scalar_rows.load_memory(r.used)
        self.contact.load(r)

    def solved_velocity(self, record: "StepRecord") -> wp.array:
        """The solution of the contact problem, or what is close to it."""
        return record.v_contact if self.spin else record.v_next

    def keep(self, record: "StepRecord", step) -> None:
        """Store in a record what else the backward pass needs of the step just made."""
        if self.spin:
            record.v_contact = wp.clone(step.solver.solution.v)

    def carry(self, name: str, value: wp.array, bar: wp.array, found: wp.array) -> None:
        """Let gradients flow through the state's memory of this name.

        `value`: the step's array; `bar`: the gradient after the step; `found`: the gradient before it.
        """
        self._carried.append((name, value, bar, found))

    def _begin_memory(self, record: "StepRecord") -> None:
        """Load the memory that gradients flow through, and its gradient at the end of the step."""
        for name, value, bar, _ in self._carried:
            inputs = [record.flags, record.used[name], record.memory[name].grad, value, bar]
            self.dynamics.launch(gradient.begin_memory, value.shape[1], inputs)
        mocap = self.step.mocap
        if mocap.size:
            inputs = [record.flags, self.device_model.mocap0, record.used["mocap"], mocap]
            self.step.dynamics.launch(mocap_adjoint.load_mocap, mocap.shape[1:], inputs)

    def _finish_memory(self, record: "StepRecord") -> None:
        """Add the gradients found to those of the memory, and clear those at the end of the step."""
        for name, _, bar, found in self._carried:
            inputs = [record.flags, found, record.memory_before[name].grad, record.memory[name].grad]
            self.dynamics.launch(gradient.finish_memory, bar.shape[1], inputs)
        d, mocap = self.device_model, self.step.mocap
        if mocap.size:
            inputs = [record.flags, d.mocap_link, mocap, self.link_pose, self.link_pose.grad]
            inputs += [record.memory_before["mocap"].grad, record.memory["mocap"].grad]
            self.step.dynamics.launch(mocap_adjoint.add_mocap, mocap.shape[1], inputs)

    def _begin_wrench(self, record: "StepRecord") -> None:
        """Load the wrenches on bodies. The first record that has any makes room for them."""
        if self.wrench is None:
            if record.wrench is None:
                return
            self.step.allow_wrench()
            self._allow_wrench()
            self.__dict__.pop("_cleared", None)  # it must include the new arrays
            self._replay.clear()
        wrench = self._no_wrench if record.wrench is None else record.used["wrench"]
        inputs = [record.flags, wrench, self.step.wrench]
        self.dynamics.launch(gradient.begin_wrench, self.wrench.shape[1:], inputs)

    def _allow_wrench(self) -> None:
        self.wrench = self.dynamics.array((self.model.nbody, 6), self.device_model.types.real)
        self.link_F = self.dynamics.array(self.model.nlink, self.device_model.types.vec6)
        self.gather()

    def parameter_gradients(self) -> list[int]:
        """Addresses of gradient arrays that a graph of the backward pass holds and that a user may replace."""
        stored = (self.device_model.parameters.stored(name) for name in self.device_model.parameters.expanded)
        return [array.grad.ptr for array in stored if array.grad is not None]

    def _propagate(self, h: float) -> None:
        """From the loaded inputs and seed, compute the gradients of `q`, `v0`, `control`, `tau` and parameters."""
        self.repeat(h)
        self.reverse(h)

    def repeat(self, h: float) -> None:
        """Repeat the loaded step, and tape its equations at the frozen solution."""
        if self.distance is not None:
            self.distance.repeat()
        self._repeat(h)
        if self.impacts:
            self.impacts.repeat(h)
        else:
            self.take_solution(h)

    def take_solution(self, h: float) -> None:
        """Tape the equations of the repeated step at its solution."""
        if self.pressure is not None:
            self.pressure.find(h)
        self._take_solution()
        if self.contact.is_linear:
            self._evaluate(h)

    def _evaluate(self, h: float) -> None:
        """Evaluate the equations whose values are the same for all seeds."""
        self._clear_sums()
        self.contact.start()
        evaluate([*self._first_stages(), *self.stages()], h)

    def _first_stages(self) -> list[Stage]:
        """The stages before `stages`: what parts compute before the forces, and the next activations."""
        return [Stage(part.record, part.seed, part.values) for part in self.parts if part.record]

    def _take_solution(self) -> None:
        """Copy the solution of the repeated step into the arrays that the equations are taped with."""
        step = self.step
        assign(self.v, step.solver.solution.v)
        if self.wrench is not None:
            assign(self.wrench, step.wrench)

    def reverse(self, h: float, by_position: bool = False, regular: bool = False) -> None:
        """Compute the gradients from the seed that was loaded.

        Runs after `repeat`, once per seed (but see `uses_up_repeat`). `by_position`: the seed of v' is 0. `regular`:
        the result of `contact.is_regular`.
        """
        if self.impacts:
            self.impacts.reverse(h, by_position, regular)
        else:
            self.reverse_plain(h, by_position, regular)
        if self.distance is not None:
            self.distance.reverse()

    def reverse_plain(self, h: float, by_position: bool, regular: bool) -> None:
        """`reverse` of a step without impacts."""

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
        """Whether each `reverse` needs a `repeat` of its own."""
        return False

    @property
    def parts_position(self) -> bool:
        """Whether `reverse` equals `reverse_position` plus a function linear in the gradient of v that this leaves."""
        return self.contact.is_linear and not self.spin and not self.impacts

    def reverse_position(self, h: float) -> None:
        """From the seed of q' alone to the gradients of `q`, `v0` and `v`, through the position update."""
        self._clear_gradients()
        take_back(self.position_stages(), h)

    def reverse_activation(self, h: float) -> None:
        """From the seed of the next activations alone to the gradients of their inputs."""
        self._clear_gradients()
        take_back(self._first_stages(), h)

    # the step as a list of functions ----------------------------------------------------------------------------------

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        """All functions of the step in its order, after `_first_stages`. `by_position`, `regular`: see `reverse`."""
        measured = [] if self.measurement is None else self.measurement.stages()
        if not self.spin:
            return [*self.contact_stages(regular), *measured, *self.position_stages()]
        # Sensors read the velocity after the free motion.
        free = [Stage(None, self.contact.adjust), Stage(self._record_free_spin)]
        return [*self.contact_stages(regular), *free, *measured, Stage(None, self._seed_positions)]

    def solve_stages(self) -> list[Stage]:
        """From the state to the root v."""
        return self.contact_stages()

    def contact_stages(self, regular: bool = False) -> list[Stage]:
        """The root v of r = A (v − v*) − Jᵀγ = 0."""
        return [
            Stage(self._record_geometry),
            Stage(self._record_friction),
            *([Stage(self.impacts.record_before)] if self.impacts else []),
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
        """Clear the arrays that the tapes of the contact stage add to."""
        self.rows.start()
        fill(self.v_c)
        if self.rate0.size:
            fill(self.rate0)
        if self.impacts:
            fill(self.impacts.contacts_ahead.rate)
        if self.measurement is not None:
            self.measurement.clear()

    def _repeat(self, h: float) -> None:
        """Repeat the step; its solver starts from the recorded solution."""
        step = self.step
        step.smooth_motion(h)
        step.contact_problem(h)
        step.prepare_solver(h)
        step.solver.launch()

    def _seed_positions(self, h: float) -> None:
        """Set the gradients of the result to those that were loaded."""
        assign(self.measured_velocity.grad, self.inputs.v_next_bar)
        assign(self.q_next.grad, self.inputs.q_next_bar)

    def _record_positions(self, h: float) -> None:
        inputs = [self.device_model.topology, h, self.q_node, self._moving_velocity, self.q_next]
        self.dynamics.launch(self.step.integrate_position, self.model.nlink, inputs)

    def _record_free_spin(self, h: float) -> None:
        """q' and v' from the solution, with the free motion of spinning bodies."""
        self._record_positions(h)
        dynamics, d = self.dynamics, self.device_model
        bodies, arrays = self.spin.bodies(dynamics), [self.q, self.v, self.q_next, self.v_end]

        def values() -> None:
            dynamics.launch(spin_kernels.spin, self.model.nlink, [d.topology, h, bodies, *arrays])

        def adjoint() -> None:
            bars = dict(zip(("q", "v", "q_next", "v_next"), (x.grad for x in arrays), strict=True))
            bars |= {"bodies": dynamics.body_gradients, "armature": dynamics.parameter_gradient("joint_armature")}
            inputs = [d.topology, h, bodies, self.q, self.v, d.struct(spin_slopes.Bars, **bars)]
            dynamics.launch_adjoint(spin_slopes.spin_adjoint, self.model.nlink, inputs)

        dynamics.record(values, adjoint, arrays)

    @property
    def _moving_velocity(self) -> wp.array:
        """v^θvq, which moves the positions."""
        return self.v

    def _record_moving_velocity(self, h: float) -> None:
        """The equation of v^θvq, for schemes that have one."""

    def _seed_residual(self, h: float) -> None:
        """Solve H w = v_bar for the gradient -w of r."""
        self.contact.solve_adjoint(self.v.grad, self.seed)
        fill(self.v.grad)
        assign(self.r.grad, self.seed)

    def _weight_adjoint(self, h: float) -> None:
        """Add the gradients of J and M, from the gradients of the weights w."""
        step = self.step
        inputs = [self.device_model.topology, step.collision.scene, step.collision.contacts, step.scalar_rows.rows]
        bars = {"weight": self.weight.grad, "row_weight": self.rows.weight.grad, "M": self.M.grad}
        bars |= {"J": self.J.grad, "row_J": self.rows.J.grad}
        bars = self.device_model.struct(residual.WeightBars, **bars)
        inputs += [self.ancestor, step.M_factor, self.J, self.weight, step.z, bars]
        self.dynamics.launch(residual.weight_adjoint, None, inputs)

    # "anew": each seed needs its own evaluation of the momentum balance. Another balance uses the same arrays, and the
    # adjoint of `passes.rnea` adds to `link_f`.
    _balance_values: ClassVar = "anew"

    def clear_balance(self) -> None:
        """Clear the gradients that an earlier momentum balance has left in its arrays."""
        for array in self._balance_arrays():
            fill(array.grad)

    def _balance_arrays(self) -> list[wp.array]:
        """The arrays that a momentum balance writes, except r."""
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
        """r = A v. The caller provides `no_gravity` (1,)."""
        dynamics, still = self.dynamics, self.step.zero_acceleration
        self._record_inertial(h, dynamics, still, still, v, self.no_gravity)
        self._record_forces(self.q_node, self.v0, dynamics)
        inputs = [h, self.inverse_dynamics, self._record_damping(h), still, v, self.r]
        dynamics.launch(residual.smooth_residual, self.model.nv, inputs)

    def _record_inertial(self, h: float, dynamics, at: wp.array, v_from: wp.array, v: wp.array, gravity=None) -> None:
        """`inverse_dynamics` of the acceleration from v_from to v, with the bias at the velocity `at`."""
        dynamics.velocity(at)
        dynamics.launch(passes.acceleration, self.model.nv, [h, v_from, v, self.a])
        dynamics.inverse_dynamics(at, self.a, self.inverse_dynamics, gravity)

    @property
    def measured_velocity(self) -> wp.array:
        """The velocity at the end of the step, as sensors of accelerations read it."""
        return self.v if self.v_end is None else self.v_end

    @property
    def end_velocity(self) -> wp.array:
        """v', from which q' follows where `parts_position`."""
        return self.v

    @property
    def follows_contacts(self) -> bool:
        """Whether contacts with `moved` are evaluated where the free motion brings them.

        There `point_between` and `frame_between` are their points and frames.
        """
        return self.step.stages.follows_contacts

    middle = None  # kinematics and positions at which the Jacobians of rows are evaluated; None: at q
    reads_mass = False  # whether an equation reads `M`
    repeats_forces = True  # whether the repeated step has the forces at (q, v) in arrays

    # v* on the tape. None: v* has no function of its own; it is the root of the momentum balance without contact.
    v_star: wp.array | None = None

    def _record_geometry(self, h: float) -> None:
        """Kinematics, geometry and Jacobians of contacts and rows, and the mass matrix, at q."""
        self.dynamics.position(self.q_node)
        self._record_constraints(h)

    def _record_constraints(self, h: float) -> None:
        """Geometry and Jacobians of contacts and rows, and the mass matrix, after `position(q)`."""
        self._record_mass(self.inertial)
        self.rows.record_geometry(self._row_lead(h)[0], self.q_node, self.v0, self.M, self.middle)
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
            if self.reads_mass or self.rows.has_frames:
                known = [topology, self.ancestor, dynamics.armature, dynamics.dof_S, composite, self.M]
                dynamics.launch(residual.mass_entries, self.model.nv, known)

        def adjoint() -> None:
            dynamics.launch_adjoint(residual.mass_adjoint, self.model.ntree, inputs)

        dynamics.record(values, adjoint, [dynamics.dof_S, dynamics.link_I, self.M])

    def _record_contact_geometry(self, dynamics: Dynamics, phi: wp.array, point: wp.array, frame: wp.array) -> None:
        """Distances, points and frames of the contacts at the configuration of `dynamics`, features frozen."""
        collision, plant = self.step.collision, self.device_model.plant()
        inputs = [collision.scene, collision.contacts, plant, dynamics.link_X, phi, point, frame]
        dynamics.launch(residual.contact_geometry, collision.capacity, inputs)
        if collision.convex_scene is not None:
            inputs = [collision.scene, collision.convex_scene, *inputs[1:]]
            dynamics.launch(convex_contacts.contact_geometry, collision.capacity, inputs)
        if self.pressure is not None and dynamics is self.dynamics:  # other configurations do not follow these contacts
            self.pressure.record(dynamics, phi, point, frame, self.compliance)

    def _record_jacobian(self, dynamics: Dynamics, point: wp.array, frame: wp.array, choice: int) -> None:
        """Jacobians of the contacts with `moved` = choice, at the values that the repeated step has found."""
        collision = self.step.collision
        inputs = [self.device_model.topology, collision.scene, collision.contacts, dynamics.link_X, dynamics.dof_S]
        inputs += [point, frame, self.moved, choice, self.J]
        with values_known():
            dynamics.launch(residual.contact_jacobian, collision.capacity, inputs)
            if collision.spin is not None:
                inputs = [*collision.spin.inputs(), dynamics.dof_S, frame, self.moved, choice, self.J]
                dynamics.launch(spin_rows.spin_jacobian, collision.capacity, inputs)
            if collision.surfaces:
                collision.surfaces.launch(dynamics, point, frame, self.surface_rate, self.moved, choice)

    def record_rates(self, v: wp.array, v_c: wp.array) -> None:
        """Add to v_c the velocities of contacts at v, which their laws read: J v + s."""
        collision = self.step.collision
        inputs = [collision.scene, collision.contacts, self.J, v, v_c]
        self.dynamics.launch(residual.contact_rate, v_c.shape[1], inputs)
        if collision.surfaces:
            collision.surfaces.add(self.dynamics, self.surface_rate, v_c)

    def _record_friction(self, h: float) -> None:
        """μ of the contacts; where it depends on the sliding speed, at their rates at v0."""
        collision = self.step.collision
        if not collision.enabled:
            return
        if self.rate0.size:
            self.record_rates(self.v0, self.rate0)
        inputs = [collision.scene, collision.contacts, collision.friction(), self.rate0, self.mu]
        self.dynamics.launch(residual.contact_friction, collision.capacity, inputs)

    def record_momentum_balance(self, h: float, v: wp.array) -> None:
        """A (v - v*)."""
        dynamics, nv = self.dynamics, self.model.nv
        biased = self.still_velocity(h, dynamics, self.v0, self.v_still)
        self._record_inertial(h, dynamics, biased, self.v0, v)
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
        forces = [scene, contacts, self.J, self.gamma, self.r]
        self.record_rates(self.v, self.v_c)
        self.contact.record_law(h, self.v_c, self.gamma)
        dynamics.launch(residual.contact_residual, collision.slots, forces)
        for part in self.parts if self.takes_time else ():
            part.record_impulses(h)
        lead = self._row_lead(h)[1]
        self.rows.record_residual(h, step.options.sigma, lead, self.v0, self.v, self.actuators, self.r)

    def _record_forces(self, q: wp.array, v: wp.array, dynamics: Dynamics, out=None) -> None:
        """Forces and damping at (q, v), whose kinematics are in `dynamics`.

        `out`: arrays for the forces, the damping and the scratch of wrenches. Default: `force`, `damping` and `link_F`.
        """
        with values_known(self.repeats_forces and self.wrench is None):
            self.launch_forces(
                dynamics, q, v, dynamics.link_X, dynamics.dof_S, *(out or (self.force, self.damping, self.link_F))
            )


@functools.singledispatch
def step_adjoint(integrator) -> type[StepAdjoint]:
    """The adjoint class of an integrator; `step_adjoint.register(Integrator)(lambda integrator: Class)` adds one."""
    raise ValueError(f"{integrator!r} has no gradients; leave requires_grad=False, or register a StepAdjoint for it")


class StepRecord:
    """What a taped step keeps: its inputs, which receive its gradients, its result, and its step size.

    `used`: the values of the inputs by name; `parameters`: the values of the parameters. Both are copies, because the
    owners of the arrays may write to them before the backward pass. States of the tape (`State.recorded`) are not
    copied.
    """

    def __init__(self, h: float, before, after, control, tau, wrench, used: dict, parameters):
        self.h = h
        self.q, self.v = before.q, before.v
        self.q_next, self.v_next, self.flags, self.memory = after.q, after.v, after.memory["flags"], dict(after.memory)
        self.memory_before = dict(before.memory)
        self.control, self.tau, self.wrench = control, tau, wrench
        self.used, self.parameters = used | state_values(before), parameters
        self.v_contact = None  # the solution of the contact problem, where it is not `v_next`

    def arrays(self) -> list[wp.array]:
        """The arrays whose gradients the step reads or adds to."""
        optional = [x for x in (self.control, self.tau, self.wrench) if _has_gradient(x)]
        memory = [x for m in (self.memory_before, self.memory) for x in m.values() if _has_gradient(x)]
        return [self.q, self.v, self.q_next, self.v_next, *optional, *memory]


def state_values(state) -> dict[str, wp.array]:
    """The smooth arrays of a state and memory that its step reads, by name: copies, unless a tape made them."""
    names = (*ROW_MEMORY, *LCP_MEMORY)
    arrays = state.smooth_arrays() | {name: state.memory[name] for name in names if name in state.memory}
    return dict(arrays) if state.recorded else {name: kept_array(array) for name, array in arrays.items()}


def kept_array(array: wp.array | None) -> wp.array | None:
    """A copy without a gradient of an input that its owner may write to, or None."""
    return None if array is None else wp.clone(array, requires_grad=False)


def pass_on_gradient(stays: wp.array, source, target) -> None:
    """Add the gradient of `source` to that of `target` in the worlds that stay, and clear it in all worlds."""
    targets = target.smooth_arrays()
    with turn(stays.device):
        for name, array in source.smooth_arrays().items():
            if array.size:
                inputs = [stays, flat(array.grad), flat(targets[name].grad)]
                launch(gradient.pass_on, array.dtype, inputs[1].shape, inputs, device=array.device, record_tape=False)


def with_gradient(*owners) -> list[wp.array]:
    """The arrays with a gradient among the attributes of `owners`."""
    found = {id(x): x for owner in owners for x in vars(owner).values() if _has_gradient(x)}
    return list(found.values())


def _has_gradient(value) -> bool:
    return isinstance(value, wp.array) and value.grad is not None
