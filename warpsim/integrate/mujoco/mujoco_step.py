# SPDX-License-Identifier: Apache-2.0
"""One step of MuJoCo's integrators (device: `kernels/integrate/mujoco/mujoco_motion.py`; theory §2.1).

v* = v0 + h M⁻¹ (force − D v0 − bias) → contact: M (v_s − v*) = Jᵀγ
→ v' = v0 + (M + h C)⁻¹ M (v_s − v0) → q' = q ⊕ h v'
"""

import numpy as np
import warp as wp

from warpsim.device.per_world import assign
from warpsim.integrate.free_spin import lone_trees
from warpsim.integrate.step import Step
from warpsim.kernels.integrate.mujoco import mujoco_motion
from warpsim.kernels.integrate.theta import schemes
from warpsim.model.model import JOINT_NV, JointType, Model

INSTANT = 1e-3  # share of a step in which `horizon` lets geoms move


def free_bodies(model: Model) -> np.ndarray:
    """`(ntree,)`: whether a tree is one rigid body on a free joint."""
    return lone_trees(model) & (np.diff(model.tree_v) == JOINT_NV[JointType.FREE])


class MuJoCoStep(Step):
    """Workspace and launches of one step of `MuJoCoEuler` or `MuJoCoImplicitFast`. `v_next`: v'.

    `C`: −∂(force)/∂v by blocks of trees; empty with Euler.
    """

    acts_explicitly, motors_pull, widens = True, False, False

    def __init__(self, device_model, integrator, contact_model, max_contacts: int | None, make_solver=None):
        super().__init__(device_model, contact_model, max_contacts, make_solver=make_solver)
        self.integrator, dynamics, S = integrator, self.dynamics, device_model.types.real
        self.v_next = self.v_end = dynamics.array(self.model.nv, S)
        self.damped_force = dynamics.array(self.model.nv, S)
        self.v_free = dynamics.array(self.model.nv, S) if self.sticking else self.v_star  # v* without adhesion
        self.gap = self.sticking.count_gaps() if self.sticking else 0.0
        self.C, alone = dynamics.array((0, 0), S), np.zeros(self.model.ntree, bool)
        if integrator.damps_forces:
            self.C, alone = dynamics.blocks(), free_bodies(self.model)
            self.ancestor = device_model.ancestors(self.C.shape[2])
            if self.fluid:
                self.fluid.allow_damping()
        self.has_alone = bool(alone.any())
        work = {"factor": dynamics.blocks(), "pivot": dynamics.array(self.model.nv, wp.int32)}
        self.implicit = device_model.struct(mujoco_motion.Implicit, alone=alone.astype(np.int32), C=self.C, **work)
        self.implicit.D = self.damping if integrator.damps(self.model) else self.zero_acceleration

    def smooth_motion(self, h: float) -> None:
        """Kinematics, forces and the free motion: v*, A = M and its factor."""
        dynamics, topology = self.dynamics, self.device_model.topology
        self.kinematics(h)
        self.forces()
        inputs = [self.force, self.damping, self.v, self.damped_force]
        dynamics.launch(mujoco_motion.damped_force, self.model.nv, inputs)
        dynamics.mass_matrix(self.composite, self.A)
        if self.integrator.damps_forces:
            self.damp()
        dynamics.inverse_dynamics(self.v, self.zero_acceleration, self.bias)
        inputs = [topology, h, self.v, self.damped_force, self.bias, self.zero_acceleration]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_star]
        dynamics.launch(schemes.free_motion, self.model.ntree, inputs)
        if self.sticking:
            assign(self.v_free, self.v_star)

    def horizon(self, h: float) -> float:
        """0: detection looks for what overlaps.

        Adhesion pulls at contacts within a gap too. They are found as if geoms closed the gap within `INSTANT` h.
        """
        if not self.gap:
            return 0.0
        scene, instant = self.collision.scene, INSTANT * h
        scene.window, scene.haste, scene.expect_impacts = self.gap, 1.01 * self.gap / instant, 1
        return instant

    def damp(self) -> None:
        """C at (q, v), after the mass matrix."""
        dynamics = self.dynamics
        self.pulls.damp(self.ancestor, self.C)
        if self.fluid:
            self.fluid.damp(self.ancestor, self.implicit.alone, self.C)
        if self.has_alone:
            inputs = [self.device_model.topology, self.implicit, dynamics.dof_S, self.composite, self.v]
            dynamics.launch(mujoco_motion.bias_damping, self.model.nv, inputs)

    def integrate(self, h: float) -> None:
        """v' from the solution of the contact problem, and q' = q ⊕ h v'. See `Step.integrate`."""
        v = self.solver.solution.v
        self.collision.look_after(h, 1.0, self.v, v)
        self.find_end(h, v)
        inputs = [self.device_model.topology, h, self.q, self.v_next, self.q_next]
        self.dynamics.launch(self.integrate_position, self.model.nlink, inputs)
        self.remember(h)
        self.commit(h, self.q_next, self.v_next, v)

    def find_end(self, h: float, v: wp.array) -> None:
        """v' from the solution v."""
        inputs = [self.device_model.topology, h, self.implicit, self.A, self.damped_force, self.bias]
        inputs += [self.v, self.v_free, v, self.v_next]
        self.dynamics.launch(mujoco_motion.end_velocity, self.model.ntree, inputs)
