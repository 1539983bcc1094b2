# SPDX-License-Identifier: Apache-2.0
"""One step on the device, in the order of docs/step.md; every line is one launch or a few.

    kinematics → mass matrix, bias, forces → free motion v*, A → contacts → R, v_hat → solver → v → integrate → commit

The step works in place on internal state arrays, so that it can be captured once as a graph and replayed.
"""

import functools

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.contact.sticking import Sticking
from warpsim.device.memory import Lender, adopt
from warpsim.forces.lines import Lines, has_lines, line_motors
from warpsim.forces.pulls import Pulls
from warpsim.forces.tendon_energy import TendonEnergy, sprung
from warpsim.integrate.acting import Acting
from warpsim.integrate.actuation import Actuation, is_needed
from warpsim.integrate.compensation import Compensation
from warpsim.integrate.energy_gain import EnergyGain, watched_trees
from warpsim.integrate.explicit_motion import FreeMotion, free_motion_of
from warpsim.integrate.fluid_forces import FluidForces
from warpsim.integrate.free_spin import FreeSpin, lone_trees
from warpsim.integrate.fusion import FusedStep
from warpsim.integrate.impacts import Impacts
from warpsim.integrate.theta.schemes import SymplecticEuler, ThetaScheme
from warpsim.integrate.theta.stages import ThetaStages
from warpsim.kernels.contact import net_force
from warpsim.kernels.forces.actuators import ALWAYS
from warpsim.kernels.integrate import spin
from warpsim.kernels.integrate.theta import schemes
from warpsim.kernels.tree import passes
from warpsim.rows.mujoco_rows import MuJoCoRows
from warpsim.rows.scalar_rows import ScalarRows, actuator_rows
from warpsim.sensors.step_sensors import StepMeasurement, has_step_sensors
from warpsim.solve.contact_model import ContactModel
from warpsim.tree.dynamics import DeviceModel, Dynamics


class Step(Acting):
    """Workspace and launches of one step for all worlds. It owns the arrays of its inputs and results.

    `make_solver(*size, dtype=, device=)`: makes a solver other than the contact model's own. A backward pass repeats
    the step with a solver that has an adjoint.
    """

    reports_energy = True
    widens = True  # deep trees are stepped in float64, see `explicit_motion.py`
    motors_pull = True  # actuators without feedback on lines are forces; if False, rows
    acts_explicitly = False  # actuators with feedback and tendon springs are explicit forces, see `Pulls`; else rows

    def __init__(
        self,
        device_model: DeviceModel,
        contact_model: ContactModel,
        max_contacts: int | None,
        scheme: ThetaScheme | None = None,
        make_solver=None,
    ):
        model, t, S = device_model.model, device_model.types, device_model.types.real
        super().__init__(device_model, Dynamics(device_model))
        self.contact_model, self.options = contact_model, contact_model.regularisation
        self.scheme = scheme = SymplecticEuler() if scheme is None else scheme
        self._make_arrays()
        self.collision = Collision(device_model, self.dynamics, max_contacts, contact_model.collides)
        self.collision.scene.expect_impacts = int(contact_model.is_exact)
        self.collision.scene.mujoco = int(contact_model.mujoco_points)
        if not contact_model.limits_recovery:
            self.collision.scene.recovery = np.inf
        explicit = self.acts_explicitly
        actuator_row = np.full(model.nu, ALWAYS) if explicit else actuator_rows(model, scheme.implicit)
        self.tabulate_actuators(actuator_row)
        motors = line_motors(model) if self.motors_pull and not scheme.implicit else np.empty(0, int)
        self._make_forces(motors)
        law = {"exact": contact_model.is_exact, "follow_bend": contact_model.follows_bend}
        rows = np.setdiff1d(np.flatnonzero(actuator_row), [*motors, *np.flatnonzero(model.actuator_body >= 0)])
        rows = rows[:0] if explicit else rows
        if contact_model.mujoco_law:
            self.scalar_rows = MuJoCoRows(device_model, self.dynamics, self.lines)
        else:
            law |= {"lines": self.lines, "springs": not explicit}
            self.scalar_rows = ScalarRows(device_model, self.dynamics, rows, **law)
        self.dynamics.steadied = self.scalar_rows.armature
        self.stages = ThetaStages(self, scheme)
        self.motion = self.stages if scheme.implicit else free_motion_of(self, self.widens and make_solver is None)
        dense = self.motion.forms_mass_matrix
        self.A, self.A_factor, self.M_factor = (
            self.dynamics.blocks() if dense else self.dynamics.array((model.nv, 0), S) for _ in range(3)
        )
        self.composite = self.dynamics.array(model.nlink if dense else 0, t.vec10)
        self._make_solver(make_solver)
        self._make_results(make_solver is None)
        self.gather()
        self.fused = FusedStep(self) if self._is_plain else None
        self.impacts = Impacts(self, make_solver is not None) if device_model.time_of_impact else None
        if self.fused and make_solver is None:
            self._borrow()
        beside = device_model.beside
        if self.fused and beside and beside.fused:
            self._share(beside)
        if self.compensation:
            self.allow_wrench()

    def _make_arrays(self) -> None:
        model, t, device, array = self.model, self.device_model.types, self.device_model.device, self.dynamics.array
        nq, nv, S = model.nq, model.nv, t.real
        self.q, self.v, self.q_next = array(nq, S), array(nv, S), array(nq, S)
        self.v0 = self.v  # the name that parts use
        self.time = wp.zeros(self.worlds, dtype=wp.float64, device=device)
        self.flags = wp.zeros(self.worlds, dtype=wp.int32, device=device)
        self.control, self.tau, self.mocap = array(model.nu, S), array(nv, S), array((model.nmocap, 7), S)
        self.v_star, self.bias, self.force, self.damping = (array(nv, S) for _ in range(4))
        self.zero_acceleration = array(nv, S)
        self.link_V_star, self.z = array(model.nlink, t.vec6), array(nv, t.vec3)
        self.kinetic, self.potential, self.energy = (wp.zeros(self.worlds, dtype=S, device=device) for _ in range(3))
        self.last_h = 1.0  # step size of the last launch [s]

    def _make_forces(self, motors: np.ndarray) -> None:
        """Add the parts of the model that act, in the order of the step. `motors`: see `Lines`."""
        model, dynamics = self.model, self.dynamics
        known = (self.device_model, dynamics)
        self.add(FluidForces, model.has_fluid, dynamics)
        self.add(Lines, has_lines(model), *known, motors)
        self.add(Compensation, model.body_gravcomp.any(), *known)
        self.add(Actuation, is_needed(model), *known)
        self.add(Pulls, self.acts_explicitly, dynamics, self.lines)
        self.add(TendonEnergy, len(sprung(model)), dynamics, self.lines)
        self.add(Sticking, self.collision.enabled and (model.actuator_body >= 0).any(), *known, self.collision)

    def _make_results(self, is_simulated: bool) -> None:
        """Add the parts that follow the solution. Steps for derivatives (`is_simulated` False) have fewer."""
        model, scheme, reactions = self.model, self.scheme, self.device_model.reactions
        alone = lone_trees(model).any() and type(self) is Step
        watched = watched_trees(model)
        self.add(FreeSpin, alone and scheme.spins_freely, self)
        self.integrate_position = spin.mean_position if alone and scheme.order > 1 else passes.integrate_position
        watches = len(watched) and type(self) is Step and scheme.spins_freely and is_simulated
        self.add(EnergyGain, watches, self, watched)
        self.add(StepMeasurement, is_simulated and has_step_sensors(model, reactions), self, reactions)

    @property
    def _is_plain(self) -> bool:
        """Whether two launches can do the step, see `FusedStep`.

        It must be plain symplectic Euler of rigid bodies on joints, with springs and actuators without a state, and not
        a subclass.
        """
        plain = self.scheme.has_closed_form and type(self.motion) is FreeMotion and all(x.fuses for x in self.parts)
        return plain and type(self) is Step and self.model.ntree > 0

    def _make_solver(self, make_solver) -> None:
        rows, d = self.scalar_rows, self.device_model
        make, collision = make_solver or self.motion.make_solver, self.collision
        size = (self.worlds, self.model.tree_v, collision.capacity, rows.support, rows.support_size)
        options = collision.solver_options | self.contact_model.solver_options(self.model)
        self.solver = make(*size, dtype=d.dtype, device=d.device, **options)
        problem, contacts, scene = self.solver.problem, collision.contacts, collision.scene
        problem.A, problem.v_star, problem.v0 = self.A, self.v_star, self.v
        problem.A_factor = self.A_factor
        problem.contacts, problem.contact_pair, problem.J = contacts.count, collision.rows_of_slots, contacts.J
        problem.support, problem.support_size = scene.support, scene.support_size
        self.law = self.contact_model.make_law(self.dynamics, self.collision)
        self.law.attach(problem)
        rows.attach(problem)
        self.solver.complete()

    def _borrow(self) -> None:
        """Place arrays that are dead once the solver starts in the solver's scratch memory."""
        lender = Lender(self.solver.idle())
        lent = {
            self: ("M_factor", "composite", "link_V_star", "z", *(() if self.gain else ("bias",))),
            self.dynamics: ("link_A", "link_f"),
            self.collision: self.collision.detects_with,
        }
        for owner, names in lent.items():
            for name in names:
                setattr(owner, name, lender.take(getattr(owner, name)))

    def _share(self, other: "Step") -> None:
        """Work in the memory of another step of the same model, which runs at other times.

        Excluded are arrays that are read after a step, and arrays that this step reads after its solver but that the
        other step has placed in its solver's scratch memory.
        """
        rows, kinematics = self.scalar_rows, ("link_X", "dof_S", "link_I", "link_V", "link_A", "link_f")
        own = ("A", "A_factor", "v_star", "bias", "force", "damping", "zero_acceleration", "link_V_star", "q_next")
        adopt(self, other, own)
        adopt(self.dynamics, other.dynamics, kinematics)
        adopt(self.collision, other.collision, self.collision.detects_with)
        adopt(rows, other.scalar_rows, ("phi", "phi_between", "floor", "inertia", "q_ahead", "link_X_ahead"))
        adopt(rows.rows, other.scalar_rows.rows, ("J", "R", "weight", "v_hat", "lower", "upper", "speed"))
        problem = self.solver.problem
        if self.collision.slots == other.collision.slots:
            problem.J = self.collision.contacts.J = other.collision.contacts.J
            self.law.share(other.law)
        problem.A, problem.v_star = self.A, self.v_star
        problem.A_factor = self.A_factor
        rows.attach(problem)
        self.solver.share(other.solver)

    def allow_wrench(self) -> None:
        """Make room for wrenches on bodies (torque, force). They are zero until given."""
        self.wrench = self.dynamics.array((self.model.nbody, 6), self.device_model.types.real)
        self.fused, self.solver.certified_later = None, False
        self.gather()
        self.stages.allow_wrench()

    def memory(self) -> dict:
        """The arrays of the step, by name, that it reads besides q, v and time."""
        own = {"flags": self.flags} | ({"mocap": self.mocap} if self.model.nmocap else {})
        for part in self.parts:
            own |= part.memory()
        return own | self.scalar_rows.state_memory() | self.solver.state_memory()

    def smooth_memory(self) -> tuple[str, ...]:
        """Names of the memory that gradients flow through."""
        own = ("mocap",) if self.model.nmocap else ()
        return (*own, *(name for part in self.parts for name in part.smooth_memory()))

    def state_arrays(self) -> dict:
        """The state that `launch` advances, by name."""
        return {"q": self.q, "v": self.v, "time": self.time, **self.memory()}

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self.smooth_motion(h)
        self.contact_problem(h)
        self.solve(h)
        if self.impacts:
            self.impacts.launch(h)
        else:
            self.integrate(h)

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M + h D, and the factor of M."""
        if self.fused:
            self.begin_worlds()
            self.fused.smooth_motion(h)
            return
        self.kinematics(h)
        if self.scalar_rows.reads_forces or not self.scheme.implicit:
            self.forces()
        self.stages.damp(h)
        self.motion.launch(h)

    def begin_worlds(self) -> None:
        """Set the armature of the step, and place its mocap bodies."""
        self.scalar_rows.steady()
        self.dynamics.place_mocap(self.mocap, self.flags)

    def kinematics(self, h: float) -> None:
        """Kinematics and energy at (q, v), and what parts compute there."""
        dynamics = self.dynamics
        self.begin_worlds()
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        if self.reports_energy:
            dynamics.energy(self.q, self.v, self.kinetic, self.potential, self.energy)
        for part in self.parts:
            part.before_forces(h)

    @functools.cached_property
    def v_end(self) -> wp.array:
        """The velocity at the end of the step: the solution, except for spinning bodies."""
        return self.solver.solution.v

    def forces(self) -> None:
        """Generalized forces without linear damping, and the diagonal of the damping."""
        dynamics = self.dynamics
        kinematics = (self.q, self.v, dynamics.link_X, dynamics.dof_S)
        self.launch_forces(dynamics, *kinematics, self.force, self.damping, dynamics.link_f)

    def contact_problem(self, h: float) -> None:
        """Contacts, their Jacobians and regularization, and the scalar rows."""
        dynamics = self.dynamics
        if not self.fused:
            dynamics.velocity(self.v_star, self.link_V_star)
        self.collision.detect(self.horizon(h), dynamics.link_V, self.link_V_star)
        self.collision.jacobian()
        self.stages.follow_contacts()
        if self.collision.enabled and self.impacts:
            self.impacts.touch(h)
        for part in self.parts:
            part.after_contacts(h)
        if self.collision.enabled:
            self.law.regularise(h, self.v, self.M_factor, self.z)
        state = (self.q, self.v, self.v_star, self.M_factor, self.force, self.z, self.actuators)
        self.scalar_rows.launch(h, self.options.sigma, *state, self.scheme.theta_vq > 0.0, self.stages.middle)
        if self.impacts:
            self.impacts.touch_rows(h)

    def horizon(self, h: float) -> float:
        """The time [s] within which detection looks for what meets."""
        return h

    def solve(self, h: float) -> None:
        """Run the solver, as often as the contact law needs it."""
        self.prepare_solver(h)
        self.law.solve(self.solver, h, self.v)

    def prepare_solver(self, h: float) -> None:
        """Give the solver what it reads besides the contact problem."""
        self.solver.prepare(self.collision, self.device_model.parameters.stored("geom_restitution"), h)

    def net_contact_force(self, of: str) -> wp.array:
        """Net contact force [N] per body or geom in the last step, as a new (worlds, n) vec3 array."""
        model, owner = self.model, self._owners[of]
        force = self.dynamics.array(model.nbody if of == "body" else model.ngeom, self.device_model.types.vec3)
        inputs = [self.collision.scene, self.collision.contacts, self.solver.solution.gamma, self.last_h, owner, force]
        self.dynamics.launch(net_force.net_force, None, inputs)
        return force

    @functools.cached_property
    def _owners(self) -> dict[str, wp.array]:
        """The body and the number of every geom, on the device."""
        owners = {"body": self.model.geom_body, "geom": np.arange(self.model.ngeom)}
        return {of: self.device_model.array(owner) for of, owner in owners.items()}

    def integrate(self, h: float) -> None:
        """q' = q (+) h v^θvq. The step is accepted in the worlds where it is finite."""
        v = self.solver.solution.v
        self.collision.look_after(h, self.scheme.theta_vq, self.v, v)
        if self.fused:
            self.remember(h)
            self.fused.finish(h)
            return
        self.stages.report()
        inputs = [self.device_model.topology, h, self.q, self.stages.position_velocity(v), self.q_next]
        self.dynamics.launch(self.integrate_position, self.model.nlink, inputs)
        self.remember(h)
        self.commit(h, self.q_next, self.v_end)

    def remember(self, h: float) -> None:
        """After the solver: the free motion of single bodies, and what the next step needs of this one."""
        for part in self.parts:
            part.after_solve(h)
        self.scalar_rows.remember(h, self.solver.solution, self.force, self.flags)

    def ends(self, q: wp.array, v: wp.array):
        """The arrays that `commit` reads and writes. (q, v): the state after the step."""
        before = {"q": self.q, "v": self.v, "time": self.time, "flags": self.flags}
        after = {"q_next": q, "v_next": v, "contact_flags": self.collision.contacts.flags}
        return self.device_model.struct(schemes.Ends, **before, **after)

    def commit(self, h: float, q: wp.array, v: wp.array, measured: wp.array | None = None) -> None:
        """Accept (q, v) as the state after h, in the worlds where it is finite.

        `measured`: the velocity that sensors read. Default: v.
        """
        for part in self.parts:
            part.before_commit(h, v if measured is None else measured)
        self.accept(h, q, v)

    def accept(self, h: float, q: wp.array, v: wp.array) -> None:
        """`commit` after what the parts do before."""
        d, status = self.device_model, self.solver.solution.status
        self.dynamics.launch(schemes.commit, None, [d.topology, d.plant(), h, status, self.ends(q, v)])
        for part in self.parts:
            part.after_commit()
