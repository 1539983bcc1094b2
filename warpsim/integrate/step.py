"""One step on the device, in the order of docs/step.md; every line is one or a few launches.

    kinematics → mass matrix, bias, forces → free motion v*, A → contacts → R, v_hat → solver → v → integrate → commit

The step works in place on internal state arrays, so that it can be captured once as a graph and replayed.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.device.copies import copy, kernels_of
from warpsim.integrate import SymplecticEuler, ThetaScheme
from warpsim.integrate.deep import DeepMotion, WideSAP
from warpsim.integrate.theta.stages import ThetaStages
from warpsim.kernels.contact import broadphase, convex_contacts, net_force
from warpsim.kernels.contact import contacts as contact
from warpsim.kernels.forces import actuators
from warpsim.kernels.integrate.theta import schemes
from warpsim.kernels.solve.cone_qp import compliant
from warpsim.kernels.solve.sap import lagged
from warpsim.kernels.tree import energy, passes
from warpsim.rows.scalar_rows import ACTUATOR_PARAMETERS, ScalarRows, actuator_rows
from warpsim.solve.cone_qp.compliant import Compliant, CompliantContact
from warpsim.solve.lcp.contact_lcp import LCP, LCPContact
from warpsim.solve.sap.sap import SAP, SAPSolver
from warpsim.tree.dynamics import BLOCK, DeviceModel, Dynamics
from warpsim.tree.wide import needs_float64


class Step:
    """Workspace and launches of one step for all worlds. Inputs and results are its own arrays.

    `adjoints`: the step is repeated in a backward pass, which wants adjoints of the contact solve: solvers by type of options, else SAP. Compliant contact
    is then solved in the velocities, by SAP, and rigid contact is taken from its recorded solution.
    """

    solvers: ClassVar = {SAP: SAPSolver, LCP: LCPContact, Compliant: CompliantContact}  # by type of options
    widens = True  # deep trees are stepped in float64, see `deep.py`

    def __init__(
        self,
        device_model: DeviceModel,
        solver,
        max_contacts: int | None,
        contact: bool,
        scheme: ThetaScheme | None = None,
        adjoints: dict | None = None,
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
        self.v_star, self.bias, self.force, self.damping = (array(nv, S) for _ in range(4))
        self.zero_acceleration = array(nv, S)
        self.A, self.A_factor, self.M_factor = (self.dynamics.blocks() for _ in range(3))
        self.composite = array(model.nlink, t.vec10)
        self.link_V_star = array(model.nlink, t.vec6)
        self.z = array(nv, t.vec3)
        self.q_next = array(nq, S)
        self.last_h = 1.0  # step size of the last launch [s]
        self.kinetic, self.potential, self.energy = (wp.zeros(self.worlds, dtype=S, device=device) for _ in range(3))
        self.scheme = scheme = SymplecticEuler() if scheme is None else scheme
        actuator_row = actuator_rows(model, scheme.implicit)
        actuator_link = np.where(model.actuator_joint < 0, -1, np.append(model.joint_link, -1)[model.actuator_joint])
        self.actuator_link, self.actuator_row = (
            wp.array(table.astype(np.int32), dtype=wp.int32, device=device) for table in (actuator_link, actuator_row)
        )
        self.actuator_gear = wp.array(model.actuator_gear.astype(device_model.dtype), dtype=S, device=device)
        self.collision = Collision(device_model, self.dynamics, max_contacts, contact)
        exact = isinstance(solver, Compliant)
        self.collision.scene.expect_impacts = int(exact)
        if exact and not solver.is_near_rigid:
            self.collision.scene.recovery = np.inf
        law = {"exact": exact, "follow_bend": solver.jdot if exact else True}
        self.scalar_rows = ScalarRows(device_model, self.dynamics, np.flatnonzero(actuator_row), **law)
        self.deep = DeepMotion(self) if self.widens and not scheme.implicit and needs_float64(device_model) else None
        self._make_solver(solver, adjoints)
        # Plain symplectic Euler needs none of the stages.
        self.stages = None if scheme == SymplecticEuler() else ThetaStages(self, scheme)

    def _make_solver(self, options: SAP | LCP | Compliant, adjoints: dict | None) -> None:
        model, t, device = self.model, self.device_model.types, self.device_model.device
        array, S, C = self.dynamics.array, self.device_model.types.real, self.collision.capacity
        support, size = self.scalar_rows.support, self.scalar_rows.support_size
        self.options = options if isinstance(options, SAP) else SAP()  # of regularisation
        self.solver_options = options
        self.compliant = options if isinstance(options, Compliant) else None
        tables = (self.worlds, model.tree_v, C, support, size)
        kind = self.solvers[type(options)]
        if adjoints is not None:
            kind = adjoints.get(type(options), SAPSolver)
            options = self.options if kind is SAPSolver else options
            if self.compliant is not None:  # whose solution is that of an interior point, far beyond SAP's default
                options = dataclasses.replace(
                    options, tolerance=self.compliant.relative_tolerance(self.device_model.dtype)
                )
        if self.deep is not None and kind is SAPSolver and adjoints is None:
            kind = WideSAP
        self.solver = kind(*tables, options=options, dtype=self.device_model.dtype, device=device)
        problem, contacts = self.solver.problem, self.collision.contacts
        problem.A, problem.v_star, problem.v0 = self.A, self.v_star, self.v
        problem.contacts, problem.contact_pair, problem.J = contacts.count, contacts.pair, contacts.J
        problem.support, problem.support_size = self.collision.scene.support, self.collision.scene.support_size
        problem.R, problem.v_hat, problem.mu = array(C, t.vec3), array(C, t.vec3), array(C, S)
        self.contact_weight = array(C, S)
        self.R, self.v_hat = problem.R, problem.v_hat  # the convex model's, apart where a lagged one changes them
        if self.options.is_lagged:
            self.R, self.v_hat = array(C, t.vec3), array(C, t.vec3)
            self.lag = copy(lagged.Lag, S)()
            for name in ("s", "s_before", "answer"):
                setattr(self.lag, name, array(C, S))
        self.scalar_rows.attach(problem)
        if isinstance(self.solver, WideSAP):
            self.solver.attach(self.deep)

    def allow_wrench(self) -> None:
        """Make room for wrenches on bodies (torque, force), zero until they are given."""
        self.wrench = self.dynamics.array((self.model.nbody, 6), self.device_model.types.real)
        if self.stages is not None:
            self.stages.allow_wrench()

    def memory(self) -> dict:
        """What a step reads besides q, v and time, by name: the step's own arrays."""
        return {"flags": self.flags, **self.scalar_rows.state_memory(), **self.solver.state_memory()}

    def smooth_memory(self) -> tuple[str, ...]:
        """Names of the memory that gradients flow through."""
        return ()

    def state_arrays(self) -> dict:
        """The state that `launch` advances, by name."""
        return {"q": self.q, "v": self.v, "time": self.time, **self.memory()}

    def compile(self) -> None:
        """Compile and load the kernels of a step, modules in parallel."""
        modules = list({id(kernel.module): kernel.module for kernel in self.kernels()}.values())
        wp.force_load(self.device_model.device, modules=modules, block_dim=BLOCK)

    def kernels(self) -> list:
        """The kernels that a step launches, and those compiled together with them."""
        S = self.device_model.types.real
        optional = {
            broadphase: self.collision.broadphase is not None,
            convex_contacts: self.collision.convex_scene is not None,
            lagged: self.options.is_lagged,
            compliant: self.compliant is not None,
        }
        files = [passes, energy, actuators, schemes, contact, *(file for file, used in optional.items() if used)]
        found = [x for file in files for x in kernels_of(file, S)]
        for part in (self.scalar_rows, self.solver, self.stages, self.deep):
            found += [] if part is None else part.kernels()
        return found

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self.smooth_motion(h)
        self.contact_problem(h)
        self.solve(h)
        self.integrate(h)

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M + h D, and the factor of M."""
        dynamics, stages = self.dynamics, self.stages
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        dynamics.energy(self.q, self.v, self.kinetic, self.potential, self.energy)
        if stages is not None:
            stages.refresh()
            if stages.scheme.implicit:
                if self.scalar_rows.can_stall:
                    self.forces()
                stages.free_motion(h)
                return
        self.forces()
        if stages is not None:
            stages.effective_damping(h, self.q, self.v)
        dynamics.mass_matrix(self.composite, self.A)
        if self.deep is not None:
            self.deep.launch(h)
            return
        dynamics.inverse_dynamics(self.v, self.zero_acceleration, self.bias)
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

    def forces(self) -> None:
        """Generalised forces without linear damping, and its diagonal."""
        dynamics = self.dynamics
        self.applied_force(self.q, self.v, dynamics.link_X, dynamics.dof_S, self.force, self.damping)

    def applied_force(
        self, q: wp.array, v: wp.array, link_X: wp.array, dof_S: wp.array, force: wp.array, damping: wp.array
    ) -> None:
        """Springs, actuators, user forces and wrenches at (q, v) with its kinematics; `damping` is kept apart."""
        d, p, dynamics = self.device_model, self.device_model.parameters, self.dynamics
        springs = [p.stored(key) for key in ("joint_stiffness", "joint_reference", "joint_damping")]
        inputs = [d.topology, *springs, q, self.tau, force, damping]
        dynamics.launch(actuators.passive_force, self.model.nlink, inputs)
        if self.model.nu:
            inputs = [d.topology, self.actuator_link, self.actuator_row, self.actuator_gear]
            inputs += [p.stored(key) for key in ACTUATOR_PARAMETERS]
            inputs += [q, v, self.control, force, damping]
            dynamics.launch(actuators.actuator_force, None, inputs)
        if self.wrench is not None:
            inputs = [d.topology, p.stored("body_com"), link_X, dof_S, self.wrench, dynamics.link_f, force]
            dynamics.launch(actuators.wrench_force, self.model.ntree, inputs)

    def contact_problem(self, h: float) -> None:
        """Contacts, their Jacobians and regularisation, and the scalar rows."""
        d, dynamics, problem = self.device_model, self.dynamics, self.solver.problem
        dynamics.velocity(self.v_star, self.link_V_star)
        self.collision.detect(h, dynamics.link_V, self.link_V_star)
        self.collision.jacobian()
        if self.stages is not None and self.stages.follows_contacts:
            self.stages.follow_contacts()
        if self.collision.enabled and self.compliant is not None:
            inputs = [problem, self.collision.scene, self.collision.material(), self.compliant_law(h)]
            inputs += [self.collision.contacts.phi, self.v, h]
            dynamics.launch(compliant.regularise, self.collision.capacity, inputs)
        elif self.collision.enabled:
            inputs = [d.topology, self.collision.scene, self.collision.material(), self.collision.contacts]
            inputs += [h, self.options.beta, self.options.sigma, self.M_factor, self.z]
            inputs += [self.R, self.v_hat, problem.mu, self.contact_weight]
            dynamics.launch(contact.regularise, None, inputs)
            if self.R is not problem.R:
                wp.copy(problem.R, self.R)
                wp.copy(problem.v_hat, self.v_hat)
        between = (self.stages.between, self.stages.newton.q) if self.scheme.order > 1 else None
        state = (self.q, self.v, self.v_star, self.M_factor, self.force, self.z, self.control)
        self.scalar_rows.launch(h, self.options.sigma, *state, self.scheme.theta_vq > 0.0, between)

    def compliant_law(self, h: float):
        """What the options of compliant contact and the parameters of the geoms say, as kernels read it."""
        law, p = copy(compliant.Law, self.device_model.types.real)(), self.device_model.parameters
        law.stiffness, law.R_t = self.compliant.contact_stiffness, self.compliant.tangential_regularization(h)
        law.modulus, law.size = p.stored("geom_hertz_modulus"), p.stored("geom_size")
        return law

    def solve(self, h: float) -> None:
        """The solver, and the further passes of a lagged model (`kernels/solve/sap/lagged.py`)."""
        self.prepare_solver(h)
        if not (self.options.is_lagged and self.collision.enabled):
            self.solver.launch()
            return
        problem, options = self.solver.problem, self.options
        self.lag_slip(self.v, solves=0)
        self.solver.launch()
        for solves in range(1, options.passes + 1):
            self.lag_slip(self.solver.solution.v, solves)
            if options.supported_load:
                gravity = self.device_model.parameters.stored("gravity")
                inputs = [problem, h, options.beta, gravity, self.R, self.contact_weight]
                inputs += [self.solver.solution.gamma, problem.R]
                self.dynamics.launch(lagged.lag_load, self.collision.capacity, inputs)
            self.solver.launch_again()

    def prepare_solver(self, h: float) -> None:
        """Give the solver what it reads besides the contact problem."""
        self.solver.prepare(self.collision, self.device_model.parameters.stored("geom_restitution"), h)

    def lag_slip(self, v: wp.array, solves: int) -> None:
        """v_hat of the lagged approximation from the slip at v, the result of so many solves."""
        if self.options.approximation == "lagged":
            problem, phi = self.solver.problem, self.collision.contacts.phi
            inputs = [problem, phi, self.v_hat, v, solves, self.lag, problem.v_hat]
            self.dynamics.launch(lagged.lag_slip, self.collision.capacity, inputs)

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
        moving = v
        if self.stages is not None:
            self.stages.report()
            moving = self.stages.position_velocity(v)
        inputs = [self.device_model.topology, h, self.q, moving, self.q_next]
        self.dynamics.launch(passes.integrate_position, self.model.nlink, inputs)
        self.scalar_rows.remember_stalls(h, v, self.M_factor, self.force, self.z)
        self.commit(h, self.q_next, v)

    def commit(self, h: float, q: wp.array, v: wp.array) -> None:
        """Accept (q, v) as the state after h, world by world where it is finite."""
        solution = self.solver.solution
        active = self.device_model.parameters.stored("body_active")
        inputs = [self.device_model.topology, active, h, self.q, self.v, self.time, self.flags, v, q]
        inputs += [solution.status, self.collision.contacts.flags, self.q, self.v, self.time, self.flags]
        self.dynamics.launch(schemes.commit, None, inputs)
