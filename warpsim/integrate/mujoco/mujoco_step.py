# SPDX-License-Identifier: Apache-2.0
"""One step of MuJoCo's integrators (device: `kernels/integrate/mujoco/mujoco_motion.py`; theory §2.1).

v* = v0 + h M⁻¹ (force − D v0 − bias) → contact: M (v_s − v*) = Jᵀγ
→ v' = v0 + (M + h D)⁻¹ M (v_s − v0) → q' = q ⊕ h v'
"""

from warpsim.integrate.step import Step
from warpsim.kernels.integrate.mujoco import mujoco_motion
from warpsim.kernels.integrate.theta import schemes


class MuJoCoStep(Step):
    """Workspace and launches of one step of `MuJoCoEuler`. `v_next`: v'."""

    acts_explicitly, motors_pull, widens, detects_ahead = True, False, False, False

    def __init__(self, device_model, integrator, contact_model, max_contacts: int | None, make_solver=None):
        super().__init__(device_model, contact_model, max_contacts, make_solver=make_solver)
        self.integrator, array, S = integrator, self.dynamics.array, device_model.types.real
        self.v_next = self.v_end = array(self.model.nv, S)
        self.damped_force = array(self.model.nv, S)
        self.end_factor = self.dynamics.blocks()

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M and its factor."""
        dynamics, topology = self.dynamics, self.device_model.topology
        self.kinematics(h)
        self.forces()
        inputs = [self.force, self.damping, self.v, self.damped_force]
        dynamics.launch(mujoco_motion.damped_force, self.model.nv, inputs)
        dynamics.mass_matrix(self.composite, self.A)
        dynamics.inverse_dynamics(self.v, self.zero_acceleration, self.bias)
        inputs = [topology, h, self.v, self.damped_force, self.bias, self.zero_acceleration]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_star]
        dynamics.launch(schemes.free_motion, self.model.ntree, inputs)

    def integrate(self, h: float) -> None:
        """v' from the solution of the contact problem, and q' = q ⊕ h v'. See `Step.integrate`."""
        v = self.solver.solution.v
        self.collision.look_after(h, 1.0, self.v, v)
        self.find_end(h, v)
        inputs = [self.device_model.topology, h, self.q, self.v_next, self.q_next]
        self.dynamics.launch(self.integrate_position, self.model.nlink, inputs)
        self.remember(h)
        self.commit(h, self.q_next, self.v_next, v)

    def find_end(self, h: float, v) -> None:
        """v' from the solution v."""
        damping = self.damping if self.integrator.damps(self.model) else self.zero_acceleration
        inputs = [self.device_model.topology, h, damping, self.A, self.damped_force, self.bias]
        inputs += [self.v, self.v_star, v, self.end_factor, self.v_next]
        self.dynamics.launch(mujoco_motion.end_velocity, self.model.ntree, inputs)
