"""One step on the device, in the order of the theory sheet; every line is one or a few launches.

    kinematics → mass matrix, bias, forces → free motion v*, A → contacts → R, v_hat → solver → v → integrate → commit

The step works in place on internal state arrays, so that it can be captured once as a graph and replayed.
"""

import numpy as np
import warp as wp

from warpsim.collision import Collision
from warpsim.constraints import ACTUATOR_PARAMETERS, ScalarRows, transmission
from warpsim.dynamics import BLOCK, DeviceModel, Dynamics
from warpsim.kernels import actuation, contact_force, theta
from warpsim.solvers.sap import SAP, SAPSolver


class Step:
    """Workspace and launches of one step for all worlds. Inputs and results are its own arrays."""

    def __init__(self, device_model: DeviceModel, solver, max_contacts: int | None, contact: bool):
        self.device_model, model = device_model, device_model.model
        self.model, self.worlds = model, device_model.worlds
        t, S, device = device_model.types, device_model.types.scalar, device_model.device
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
        self.A, self.M_factor = self.dynamics.blocks(), self.dynamics.blocks()
        self.composite = array(model.nlink, t.vec10)
        self.link_V_star = array(model.nlink, t.vec6)
        self.z = array(nv, t.vec3)
        self.q_next = array(nq, S)
        self.last_h = 1.0  # step size of the last launch [s]
        self.kinetic, self.potential, self.energy = (wp.zeros(self.worlds, dtype=S, device=device) for _ in range(3))
        self.transmission = transmission(device_model)
        self.k_actuation, self.k_theta = actuation.build(S), theta.build(S)
        self.collision = Collision(device_model, self.dynamics, max_contacts, contact)
        self.scalar_rows = ScalarRows(device_model, self.dynamics)
        self._make_solver(solver)

    def _make_solver(self, options: SAP) -> None:
        model, t, device = self.model, self.device_model.types, self.device_model.device
        array, S, C = self.dynamics.array, self.device_model.types.scalar, self.collision.capacity
        support, size = self.scalar_rows.support, self.scalar_rows.support_size
        self.options = options
        self.solver = SAPSolver(
            self.worlds, model.tree_v, C, support, size, options=options, dtype=self.device_model.dtype, device=device
        )
        problem, contacts = self.solver.problem, self.collision.contacts
        problem.A, problem.v_star, problem.v0 = self.A, self.v_star, self.v
        problem.contacts, problem.contact_pair, problem.J = contacts.count, contacts.pair, contacts.J
        problem.support, problem.support_size = self.collision.scene.support, self.collision.scene.support_size
        problem.R, problem.v_hat, problem.mu = array(C, t.vec3), array(C, t.vec3), array(C, S)
        self.contact_weight = array(C, S)
        self.scalar_rows.attach(problem)

    def compile(self) -> None:
        """Compile and load the kernels of a step, modules in parallel."""
        sets = [self.dynamics.kernels, self.dynamics.untaped, self.dynamics.energy_kernels]
        sets += [
            self.k_actuation,
            self.k_theta,
            *self.scalar_rows.kernel_sets(),
            self.solver.kernels,
            self.solver.k_islands,
            self.collision.kernels,
        ]
        if self.collision.broadphase is not None:
            sets.append(self.collision.broadphase.kernels)
        if self.collision.convex_kernels is not None:
            sets.append(self.collision.convex_kernels)
        kernels = [item for group in sets for item in vars(group).values() if isinstance(item, wp.Kernel)]
        modules = list({id(kernel.module): kernel.module for kernel in kernels}.values())
        wp.force_load(self.device_model.device, modules=modules, block_dim=BLOCK)

    def launch(self, h: float) -> None:
        """Advance the internal state by h."""
        self.smooth_motion(h)
        self.contact_problem(h)
        self.solver.launch()
        self.integrate(h)

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M + h D, and the factor of M."""
        dynamics = self.dynamics
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        self.forces()
        dynamics.mass_matrix(self.composite, self.A)
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
            self.solver.work.newton.P,
        ]
        dynamics.launch(self.k_theta.free_motion, self.model.ntree, [*inputs, self.v_star])

    def forces(self) -> None:
        """Generalised forces without linear damping, and its diagonal; energy of the state on the way."""
        d, p, dynamics = self.device_model, self.device_model.parameters, self.dynamics
        springs = [p.stored(key) for key in ("joint_stiffness", "joint_reference", "joint_damping")]
        inputs = [d.topology, *springs, self.q, self.tau, self.force, self.damping]
        dynamics.launch(self.k_actuation.passive_force, self.model.nlink, inputs)
        if self.model.nu:
            inputs = [d.topology, self.transmission, *(p.stored(key) for key in ACTUATOR_PARAMETERS)]
            inputs += [self.q, self.v, self.control, self.force, self.damping]
            dynamics.launch(self.k_actuation.actuator_force, None, inputs)
        if self.wrench is not None:
            inputs = [d.topology, p.stored("body_com"), dynamics.link_X, dynamics.dof_S, self.wrench, self.force]
            dynamics.launch(self.k_actuation.wrench_force, None, inputs)
        dynamics.energy(self.q, self.v, self.kinetic, self.potential, self.energy)

    def contact_problem(self, h: float) -> None:
        """Contacts, their Jacobians and regularisation, and the scalar rows."""
        d, dynamics, problem = self.device_model, self.dynamics, self.solver.problem
        dynamics.velocity(self.v_star, self.link_V_star)
        self.collision.detect(h, dynamics.link_V, self.link_V_star)
        self.collision.jacobian()
        if self.collision.enabled:
            inputs = [d.topology, self.collision.scene, self.collision.material(), self.collision.contacts]
            inputs += [h, self.options.beta, self.options.sigma, self.M_factor, self.z]
            inputs += [problem.R, problem.v_hat, problem.mu, self.contact_weight]
            dynamics.launch(self.collision.kernels.regularise, None, inputs)
        state = (self.q, self.v, self.v_star, self.M_factor, self.z, self.control)
        self.scalar_rows.launch(h, self.options.sigma, *state)

    def net_contact_force(self, of: str) -> wp.array:
        """Net contact force [N] per body or geom in the last step, new (worlds, n) vec3."""
        model, device = self.model, self.device_model.device
        owner = model.geom_body if of == "body" else np.arange(model.ngeom)
        owner = wp.array(owner.astype(np.int32), dtype=wp.int32, device=device)
        force = self.dynamics.array(model.nbody if of == "body" else model.ngeom, self.device_model.types.vec3)
        kernel = contact_force.build(self.device_model.types.scalar).net_force
        inputs = [self.collision.scene, self.collision.contacts, self.solver.solution.gamma, self.last_h, owner, force]
        self.dynamics.launch(kernel, None, inputs)
        return force

    def integrate(self, h: float) -> None:
        """q' = q (+) h v', and the step is accepted world by world where it is finite."""
        dynamics, solution = self.dynamics, self.solver.solution
        inputs = [self.device_model.topology, h, self.q, solution.v, self.q_next]
        dynamics.launch(self.k_theta.integrate_position, self.model.nlink, inputs)
        active = self.device_model.parameters.stored("body_active")
        inputs = [self.device_model.topology, active, h, self.q, self.v, self.time, self.flags]
        inputs += [solution.v, self.q_next]
        inputs += [solution.status, self.collision.contacts.overflow, self.q, self.v, self.time, self.flags]
        dynamics.launch(self.k_theta.commit, None, inputs)
