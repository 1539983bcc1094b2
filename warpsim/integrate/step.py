# SPDX-License-Identifier: Apache-2.0
"""One step on the device, in the order of docs/step.md; every line is one or a few launches.

    kinematics → mass matrix, bias, forces → free motion v*, A → contacts → R, v_hat → solver → v → integrate → commit

The step works in place on internal state arrays, so that it can be captured once as a graph and replayed.
"""

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.contact.sticking import Sticking
from warpsim.device.copies import copy
from warpsim.device.memory import Lender, adopt
from warpsim.forces.actuators import actuators_of
from warpsim.forces.lines import Lines, has_lines, line_motors
from warpsim.forces.tendon_energy import TendonEnergy, sprung
from warpsim.integrate.actuation import Actuation, is_needed
from warpsim.integrate.compensation import Compensation
from warpsim.integrate.deep import deep_motion
from warpsim.integrate.energy_gain import EnergyGain, watched_trees
from warpsim.integrate.fluid_forces import FluidForces
from warpsim.integrate.free_spin import FreeSpin, lone_trees
from warpsim.integrate.fusion import FusedStep
from warpsim.integrate.theta.schemes import SymplecticEuler, ThetaScheme
from warpsim.integrate.theta.stages import ThetaStages
from warpsim.kernels.contact import net_force
from warpsim.kernels.forces import actuators
from warpsim.kernels.integrate import spin
from warpsim.kernels.integrate.theta import schemes
from warpsim.kernels.tree import passes
from warpsim.rows.scalar_rows import ScalarRows, actuator_rows
from warpsim.sensors.step_sensors import StepMeasurement, has_step_sensors
from warpsim.solve.contact_model import ContactModel
from warpsim.tree.dynamics import DeviceModel, Dynamics


class Step:
    """Workspace and launches of one step for all worlds. Inputs and results are its own arrays.

    `make_solver(*size, dtype=, device=)`: another solver than the contact model's own, such as the one with an adjoint
    that a backward pass repeats the step with.
    """

    reports_energy = True
    widens = True  # deep trees are stepped in float64, see `deep.py`
    motors_pull = True  # actuators without feedback on lines are forces; where not, rows

    def __init__(
        self,
        device_model: DeviceModel,
        contact_model: ContactModel,
        max_contacts: int | None,
        scheme: ThetaScheme | None = None,
        make_solver=None,
    ):
        self.device_model, model = device_model, device_model.model
        self.model, self.worlds = model, device_model.worlds
        t, S, device = device_model.types, device_model.types.real, device_model.device
        self.dynamics = Dynamics(device_model)
        array = self.dynamics.array
        nq, nv = model.nq, model.nv
        self.q, self.v = array(nq, S), array(nv, S)
        self.time = wp.zeros(self.worlds, dtype=wp.float64, device=device)
        self.flags = wp.zeros(self.worlds, dtype=wp.int32, device=device)
        self.control = array(model.nu, S)
        self.tau, self.wrench = array(nv, S), None
        self.mocap = array((model.nmocap, 7), S)
        self.fluid = FluidForces(self.dynamics) if model.has_fluid else None
        self.v_star, self.bias, self.force, self.damping = (array(nv, S) for _ in range(4))
        self.zero_acceleration = array(nv, S)
        self.link_V_star = array(model.nlink, t.vec6)
        self.z = array(nv, t.vec3)
        self.q_next = array(nq, S)
        self.last_h = 1.0  # step size of the last launch [s]
        self.kinetic, self.potential, self.energy = (wp.zeros(self.worlds, dtype=S, device=device) for _ in range(3))
        self.scheme = scheme = SymplecticEuler() if scheme is None else scheme
        actuator_row = actuator_rows(model, scheme.implicit)
        actuator_link = np.where(model.actuator_joint < 0, -1, np.append(model.joint_link, -1)[model.actuator_joint])
        tables = [wp.array(x.astype(np.int32), dtype=wp.int32, device=device) for x in (actuator_link, actuator_row)]
        gear = wp.array(model.actuator_gear.astype(device_model.dtype), dtype=S, device=device)
        self.actuator_tables = (*tables, gear)
        # Most models have neither.
        self.actuation = Actuation(device_model, self.dynamics) if is_needed(model) else None
        self.compensation = Compensation(device_model, self.dynamics) if model.body_gravcomp.any() else None
        self.contact_model, self.options = contact_model, contact_model.regularisation
        self.collision = Collision(device_model, self.dynamics, max_contacts, contact_model.collides)
        self.collision.scene.expect_impacts = int(contact_model.is_exact)
        sticks = self.collision.enabled and bool((model.actuator_body >= 0).any())
        self.sticking = Sticking(device_model, self.dynamics, self.collision) if sticks else None
        if not contact_model.limits_recovery:
            self.collision.scene.recovery = np.inf
        law = {"exact": contact_model.is_exact, "follow_bend": contact_model.follows_bend}
        motors = line_motors(model) if self.motors_pull and not scheme.implicit else np.empty(0, int)
        self.lines = Lines(device_model, self.dynamics, motors) if has_lines(model) else None
        self.tendon_energy = TendonEnergy(self.dynamics, self.lines) if len(sprung(model)) else None
        rows = np.setdiff1d(np.flatnonzero(actuator_row), [*motors, *np.flatnonzero(model.actuator_body >= 0)])
        self.scalar_rows = ScalarRows(device_model, self.dynamics, rows, lines=self.lines, **law)
        self.dynamics.steadied = self.scalar_rows.armature
        self.deep = deep_motion(self, scheme) if self.widens and make_solver is None else None
        dense = self.deep is None or self.deep.forms_mass_matrix
        self.A, self.A_factor, self.M_factor = (
            self.dynamics.blocks() if dense else array((nv, 0), S) for _ in range(3)
        )
        self.composite = array(model.nlink if dense else 0, t.vec10)
        self._make_solver(make_solver)
        measures = make_solver is None and has_step_sensors(model, device_model.reactions)
        self.measurement = StepMeasurement(self, device_model.reactions) if measures else None
        lone = type(self) is Step and bool(lone_trees(model).any())
        self.spin = FreeSpin(self) if lone and scheme.spins_freely else None
        self.integrate_position = spin.mean_position if lone and scheme.order > 1 else passes.integrate_position
        watched = watched_trees(model) if type(self) is Step and scheme.spins_freely and make_solver is None else ()
        self.gain = EnergyGain(self, watched) if len(watched) else None
        # Plain symplectic Euler needs none of the stages.
        self.stages = None if scheme.has_closed_form else ThetaStages(self, scheme)
        self.fused = FusedStep(self) if self._is_plain else None
        if self.fused is not None and make_solver is None:
            self._borrow()
        beside = device_model.beside
        if beside is not None and self.fused is not None and beside.fused is not None:
            self._share(beside)
        if self.compensation is not None:
            self.allow_wrench()

    @property
    def _is_plain(self) -> bool:
        """Whether the step is symplectic Euler of rigid bodies on joints with springs and actuators without a state, and no subclass's own."""
        others = (self.stages, self.deep, self.actuation, self.compensation, self.lines, self.fluid, self.measurement)
        return type(self) is Step and self.model.ntree > 0 and all(part is None for part in others)

    def _make_solver(self, make_solver) -> None:
        rows, d = self.scalar_rows, self.device_model
        make = make_solver or (self.contact_model if self.deep is None else self.deep).make_solver
        size = (self.worlds, self.model.tree_v, self.collision.capacity, rows.support, rows.support_size)
        spin = self.collision.spin
        self.solver = make(*size, dtype=d.dtype, device=d.device, **({} if spin is None else {"spin": True}))
        problem, contacts, scene = self.solver.problem, self.collision.contacts, self.collision.scene
        problem.A, problem.v_star, problem.v0 = self.A, self.v_star, self.v
        problem.contacts, problem.contact_pair, problem.J = contacts.count, contacts.row, contacts.J
        if spin is not None:
            problem.contact_pair = spin.row
        problem.support, problem.support_size = scene.support, scene.support_size
        self.law = self.contact_model.make_law(self.dynamics, self.collision)
        self.law.attach(problem)
        rows.attach(problem)
        self.solver.complete()

    def _borrow(self) -> None:
        """Keep what is read before the solver begins, and by nobody after, in memory that it writes to then."""
        lender = Lender(self.solver.idle())
        patches = self.collision.pressure is not None
        lent = {
            self: ("A_factor", "M_factor", "composite", "link_V_star", "z", *(() if self.gain else ("bias",))),
            self.dynamics: ("link_A", "link_f"),
            self.collision: () if patches else ("geom_X", "geom_capsule", "geom_speed"),
        }
        for owner, names in lent.items():
            for name in names:
                setattr(owner, name, lender.take(getattr(owner, name)))

    def _share(self, other: "Step") -> None:
        """Work in the memory of another step of the model, which works at other times: not in what is read after it, nor in what is read here after
        the solver and lent to that one there."""
        geoms = () if self.collision.pressure is not None else ("geom_X", "geom_capsule", "geom_speed")
        rows, kinematics = self.scalar_rows, ("link_X", "dof_S", "link_I", "link_V", "link_A", "link_f")
        own = ("A", "A_factor", "v_star", "bias", "force", "damping", "zero_acceleration", "link_V_star", "q_next")
        adopt(self, other, own)
        adopt(self.dynamics, other.dynamics, kinematics)
        adopt(self.collision, other.collision, geoms)
        adopt(rows, other.scalar_rows, ("phi", "phi_between", "floor", "inertia", "q_ahead", "link_X_ahead"))
        adopt(rows.rows, other.scalar_rows.rows, ("J", "R", "weight", "v_hat", "lower", "upper", "speed"))
        problem = self.solver.problem
        if self.collision.slots == other.collision.slots:
            problem.J = self.collision.contacts.J = other.collision.contacts.J
            self.law.share(other.law)
        problem.A, problem.v_star = self.A, self.v_star
        rows.attach(problem)
        self.solver.share(other.solver)

    def allow_wrench(self) -> None:
        """Make room for wrenches on bodies (torque, force), zero until they are given."""
        self.wrench = self.dynamics.array((self.model.nbody, 6), self.device_model.types.real)
        self.fused = None
        if self.stages is not None:
            self.stages.allow_wrench()

    def memory(self) -> dict:
        """What a step reads besides q, v and time, by name: the step's own arrays."""
        own = {"activation": self.actuation.activation} if self.model.na else {}
        own |= {"mocap": self.mocap} if self.model.nmocap else {}
        own |= {} if self.measurement is None else self.measurement.memory()
        own |= {} if self.gain is None else {"energy_gain": self.gain.sums}
        return {"flags": self.flags, **own, **self.scalar_rows.state_memory(), **self.solver.state_memory()}

    def smooth_memory(self) -> tuple[str, ...]:
        """Names of the memory that gradients flow through."""
        measured = self.measurement is not None and self.measurement.lack is None
        smooth = {"activation": self.model.na, "mocap": self.model.nmocap, "measured": measured}
        return tuple(name for name, there in smooth.items() if there)

    def state_arrays(self) -> dict:
        """The state that `launch` advances, by name."""
        return {"q": self.q, "v": self.v, "time": self.time, **self.memory()}

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self.smooth_motion(h)
        self.contact_problem(h)
        self.solve(h)
        self.integrate(h)

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M + h D, and the factor of M."""
        dynamics, stages = self.dynamics, self.stages
        self.scalar_rows.steady()
        dynamics.place_mocap(self.mocap, self.flags)
        if self.fused is not None:
            self.fused.smooth_motion(h)
            self.measure_elastic()
            return
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        self.medium_force()
        if self.reports_energy:
            dynamics.energy(self.q, self.v, self.kinetic, self.potential, self.energy)
        self.actuate(h)
        self.measure_elastic()
        self.add_elastic()
        if stages is not None:
            stages.refresh()
            if stages.scheme.implicit:
                if self.scalar_rows.reads_forces:
                    self.forces()
                stages.free_motion(h)
                return
        self.forces()
        if stages is not None:
            stages.effective_damping(h, self.q, self.v)
        if self.deep is not None:
            self.deep.launch(h)
            return
        dynamics.mass_matrix(self.composite, self.A)
        dynamics.inverse_dynamics(self.v, self.zero_acceleration, self.bias)
        if self.spin is not None:
            self.spin.leave(h, dynamics, self.v, self.composite, self.bias)
        inputs = [
            self.device_model.topology,
            h,
            self.v,
            self.force,
            self.bias,
            self.damping,
            self.A,
            self.M_factor,
            self.A_factor,
        ]
        dynamics.launch(schemes.free_motion, self.model.ntree, [*inputs, self.v_star])

    @property
    def v_end(self) -> wp.array:
        """The velocity at the end of the step: the solution, but for bodies that spin."""
        return self.solver.solution.v if self.spin is None else self.spin.v_next

    @property
    def pushed(self) -> wp.array:
        """Generalised forces that are given, and those of the medium."""
        return self.tau if self.fluid is None else self.fluid.pushed

    def medium_force(self) -> None:
        """Those of the medium at (q, v), whose kinematics are known."""
        if self.fluid is not None:
            self.fluid.launch(self.dynamics, self.dynamics.link_V, self.tau)

    def measure_elastic(self) -> None:
        """Energy of the springs of tendons at q, after the lines are known."""
        if self.reports_energy and self.tendon_energy is not None:
            self.tendon_energy.measure(self.q)

    def add_elastic(self) -> None:
        """Add it to the energy that the step reports."""
        if self.reports_energy and self.tendon_energy is not None:
            self.tendon_energy.add(self.potential, self.energy)

    def actuate(self, h: float) -> None:
        """Lines, and what the forces of a step of h read of actuators with a state and of what compensates gravity, after the
        kinematics at (q, v)."""
        none = self.scalar_rows.nothing
        if self.lines is not None:
            self.lines.launch()
        if self.compensation is not None:
            self.compensation.launch(self.wrench)
        if self.actuation is not None:
            self.actuation.find_lengths(self.q, self.v)
            if self.lines is not None and self.actuation.has_lengths:
                own = (self.actuation.length, self.actuation.velocity)
                self.lines.measure_actuators(self.lines, self.dynamics, self.v, *own)
            force = none if self.compensation is None else self.compensation.force
            self.actuation.launch(h, self.control, self.pushed, force)

    @property
    def acting_tau(self) -> wp.array:
        """The generalised forces that act: those given and those of the medium, with what ranges of joints take."""
        return self.pushed if self.actuation is None or not self.actuation.has_limits else self.actuation.tau

    @property
    def acting_wrench(self) -> wp.array | None:
        """The wrenches that act on bodies: those given, and what compensates gravity."""
        return self.wrench if self.compensation is None else self.compensation.wrench

    @property
    def actuators(self):
        """What kernels read of actuators: their tables, parameters and controls, or in place of the latter two the laws of `actuation`."""
        return self.actuators_by(self.actuation, self.control)

    def actuators_by(self, actuation, control: wp.array):
        """`actuators` with the arrays of another `Actuation`, or of its twins, and another control."""
        if actuation is None:
            return actuators_of(self.device_model, control, tables=self.actuator_tables)
        none = self.actuation.no_control
        return actuators_of(self.device_model, none, actuation.given(), self.actuator_tables)

    def forces(self) -> None:
        """Generalised forces without linear damping, and its diagonal."""
        dynamics = self.dynamics
        self.applied_force(self.q, self.v, dynamics.link_X, dynamics.dof_S, self.force, self.damping)
        if self.lines is not None:
            self.lines.pull(dynamics, self.lines.moment, self.actuators, self.force)

    def applied_force(
        self, q: wp.array, v: wp.array, link_X: wp.array, dof_S: wp.array, force: wp.array, damping: wp.array
    ) -> None:
        """Springs, actuators, user forces and wrenches at (q, v) with its kinematics; `damping` is kept apart."""
        d, dynamics, plant = self.device_model, self.dynamics, self.device_model.plant()
        inputs = [d.topology, plant, q, self.acting_tau, force, damping]
        dynamics.launch(actuators.passive_force, self.model.nlink, inputs)
        if self.model.nu:
            dynamics.launch(actuators.actuator_force, None, [d.topology, self.actuators, q, v, force, damping])
        if self.wrench is not None:
            inputs = [d.topology, plant, link_X, dof_S, self.acting_wrench, dynamics.link_f, force]
            dynamics.launch(actuators.wrench_force, self.model.ntree, inputs)

    def contact_problem(self, h: float) -> None:
        """Contacts, their Jacobians and regularisation, and the scalar rows."""
        dynamics = self.dynamics
        if self.fused is None:
            dynamics.velocity(self.v_star, self.link_V_star)
        self.collision.detect(h, dynamics.link_V, self.link_V_star)
        self.collision.jacobian()
        if self.stages is not None and self.stages.follows_contacts:
            self.stages.follow_contacts()
        if self.sticking is not None:
            self.sticking.launch(h, self.actuators, self.A_factor, self.v_star)
        if self.collision.enabled:
            self.law.regularise(h, self.v, self.M_factor, self.z)
        between = (self.stages.between, self.stages.newton.q) if self.scheme.order > 1 else None
        state = (self.q, self.v, self.v_star, self.M_factor, self.force, self.z, self.actuators)
        self.scalar_rows.launch(h, self.options.sigma, *state, self.scheme.theta_vq > 0.0, between)

    def solve(self, h: float) -> None:
        """The solver, as often as the law of contact needs it."""
        self.prepare_solver(h)
        self.solver.certified_later = self.fused is not None and self.fused.certifies
        self.law.solve(self.solver, h, self.v)
        self.solver.certified_later = False

    def prepare_solver(self, h: float) -> None:
        """Give the solver what it reads besides the contact problem."""
        self.solver.prepare(self.collision, self.device_model.parameters.stored("geom_restitution"), h)

    def net_contact_force(self, of: str) -> wp.array:
        """Net contact force [N] per body or geom in the last step, new (worlds, n) vec3."""
        model, device = self.model, self.device_model.device
        owner = model.geom_body if of == "body" else np.arange(model.ngeom)
        owner = wp.array(owner.astype(np.int32), dtype=wp.int32, device=device)
        force = self.dynamics.array(model.nbody if of == "body" else model.ngeom, self.device_model.types.vec3)
        inputs = [self.collision.scene, self.collision.contacts, self.solver.solution.gamma, self.last_h, owner, force]
        self.dynamics.launch(net_force.net_force, None, inputs)
        return force

    def integrate(self, h: float) -> None:
        """q' = q (+) h v^θvq, and the step is accepted world by world where it is finite."""
        v = self.solver.solution.v
        self.collision.look_after(h, self.scheme.theta_vq, self.v, v)
        if self.fused is not None:
            self.remember(h)
            self.fused.finish(h)
            self.add_elastic()
            return
        moving = v
        if self.stages is not None:
            self.stages.report()
            moving = self.stages.position_velocity(v)
        inputs = [self.device_model.topology, h, self.q, moving, self.q_next]
        self.dynamics.launch(self.integrate_position, self.model.nlink, inputs)
        self.remember(h)
        self.commit(h, self.q_next, self.v_end)

    def remember(self, h: float) -> None:
        """The free motion of single bodies, and what the step leaves behind for the next one, once the solver has found its velocity."""
        if self.spin is not None:
            self.spin.launch(h)
        if self.gain is not None:
            self.gain.launch(h)
        self.scalar_rows.remember(h, self.solver.solution, self.force, self.flags)

    def ends(self, q: wp.array, v: wp.array):
        """What `commit` reads and writes, with (q, v) the state after the step."""
        made = copy(schemes.Ends, self.device_model.types.real)()
        made.q, made.v, made.time, made.flags = self.q, self.v, self.time, self.flags
        made.q_next, made.v_next, made.contact_flags = q, v, self.collision.contacts.flags
        return made

    def commit(self, h: float, q: wp.array, v: wp.array) -> None:
        """Accept (q, v) as the state after h, world by world where it is finite."""
        if self.measurement is not None:
            self.measurement.launch(h, v)
        solution = self.solver.solution
        d = self.device_model
        if self.actuation is not None:
            self.actuation.report(solution.status)
        self.dynamics.launch(schemes.commit, None, [d.topology, d.plant(), h, solution.status, self.ends(q, v)])
        if self.actuation is not None:
            self.actuation.keep(self.flags)
        if self.measurement is not None:
            self.measurement.keep()
