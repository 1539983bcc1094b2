# SPDX-License-Identifier: Apache-2.0
"""Host side of the theta-schemes besides plain symplectic Euler: their workspace and launches (theory §2)."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.contact import between as contact_between
from warpsim.kernels.integrate.theta import free_motion, schemes
from warpsim.tree.dynamics import Dynamics, InverseDynamicsDerivative

# A residual of the free motion that cannot fall any more is round-off below this many machine epsilons of its scale.
STALL_EPSILONS = 1e3


class ThetaStages:
    """The two stages of a theta-scheme for all worlds, on the arrays of a `Step`.

    `between` is the kinematics at q^θ, that of the last free motion; only the implicit schemes have it.
    """

    def __init__(self, step, scheme):
        self.step, self.scheme = step, scheme
        d, array = step.device_model, step.dynamics.array
        S = d.types.real
        self.v_between = array(step.model.nv, S)
        self.guess = None  # where the search for v* starts, if not at v
        if scheme.implicit:
            self._make_newton()
        if self.follows_contacts:
            self.moved = array(step.collision.capacity, wp.int32)
            if step.collision.spin is not None:
                step.collision.spin.follow(self.moved, self.between.dof_S)

    def _set_actuators(self) -> None:
        """The actuators on joints, sorted by tree."""
        m, device = self.step.model, self.step.device_model.device
        on_joint = np.flatnonzero(m.actuator_joint >= 0)
        tree = m.link_tree[m.joint_link[m.actuator_joint[on_joint]]]
        start = np.searchsorted(np.sort(tree), np.arange(m.ntree + 1))
        for key, value in (("actuator", on_joint[np.argsort(tree, kind="stable")]), ("tree_actuator", start)):
            setattr(self.load, key, wp.array(value.astype(np.int32), dtype=wp.int32, device=device))

    def _make_newton(self) -> None:
        d, model = self.step.device_model, self.step.model
        t, S, dtype = d.types, d.types.real, d.dtype
        self.load, self.problem = copy(free_motion.Load, S)(), copy(free_motion.Problem, S)()
        self._set_actuators()
        self.between = Dynamics(d)
        self.between.steadied = self.step.dynamics.steadied
        derivative = InverseDynamicsDerivative(self.between)
        self.sweep = derivative.sweep
        array, nv = self.between.array, model.nv
        work = self.newton = copy(free_motion.Newton, S)()
        work.motion, work.sweep = derivative.motion, self.sweep
        work.q, work.link_X, work.J = array(model.nq, S), self.between.link_X, derivative.D
        for key in ("v", "v_theta", "a", "magnitude", "r", "dv", "weight"):
            setattr(work, key, array(nv, S))
        work.dq, work.pivot = array(nv, t.vec6), array(nv, wp.int32)
        work.evaluations, work.status = array(model.ntree, wp.int32), array(model.ntree, wp.int32)
        self.options = copy(free_motion.Scheme, S)()
        self.options.theta = self.scheme.theta
        self.options.tolerance = self.scheme.relative_tolerance(dtype)
        self.options.stall = STALL_EPSILONS * float(np.finfo(dtype).eps)
        self.options.max_evaluations = self.scheme.max_evaluations

    @property
    def follows_contacts(self) -> bool:
        """Whether contact Jacobians are those at q^θ: what the second order of the midpoint rule needs."""
        return self.scheme.order > 1 and self.step.collision.enabled

    def refresh(self) -> None:
        """Take the present arrays of parameters and inputs."""
        if not self.scheme.implicit:
            return
        step, problem = self.step, self.problem
        self.load.actuators, self.load.tau = step.actuators, step.acting_tau
        problem.plant, problem.load = step.device_model.plant(step.dynamics.armature), self.load
        problem.scheme, problem.q0, problem.v0 = self.options, step.q, step.v

    def allow_wrench(self) -> None:
        """Make room for what wrenches on bodies need."""
        if self.scheme.implicit:
            self.load.wrench = self.step.acting_wrench
            t, nlink = self.step.device_model.types, self.step.model.nlink
            self.sweep.E, self.sweep.e = self.between.array(nlink, t.mat33), self.between.array(nlink, t.vec3)
            self.newton.sweep = self.sweep

    def effective_damping(self, h: float, q: wp.array, v: wp.array) -> None:
        """The step's `damping` <- what A = M + h damping holds of D and K."""
        step, scheme, d = self.step, self.scheme, self.step.device_model
        inputs = [d.topology, d.plant(), step.actuators, scheme.damping_share, h * scheme.stiffness_share]
        inputs += [q, v, step.damping]
        step.dynamics.launch(schemes.effective_damping, None, inputs)

    def free_motion(self, h: float) -> None:
        """v* by Newton's method; A and the factors of M and A at q^θ(v*)."""
        step, between = self.step, self.between
        topology, ntree = step.device_model.topology, step.model.ntree
        self.options.h = h
        self.problem.scheme = self.options
        guess = (step.v, 0) if self.guess is None else (self.guess, 1)
        inputs = [topology, self.problem, *guess, self.newton, step.v_star]
        between.launch(free_motion.free_motion, ntree, inputs)
        self.effective_damping(h, self.newton.q, self.newton.v_theta)
        between.mass_matrix(step.composite, step.A)
        inputs = [topology, h, step.damping, step.A, step.M_factor, step.A_factor]
        between.launch(schemes.contact_stage, ntree, inputs)

    def follow_contacts(self) -> None:
        """Points, frames and Jacobians of the contacts as their features have moved at q^θ(v*); distances stay."""
        step, between, collision = self.step, self.between, self.step.collision
        d = step.device_model
        inputs = [d.topology, collision.scene, d.plant(), between.link_X, between.dof_S, collision.contacts, self.moved]
        between.launch(contact_between.follow, collision.capacity, inputs)
        if collision.convex_scene is not None:
            between.launch(contact_between.follow_convex, collision.capacity, [collision.convex_scene, *inputs])

    def report(self) -> None:
        """What became of the free motion goes into the solver's status."""
        if self.scheme.implicit:
            inputs = [self.newton.status, self.step.solver.solution.status]
            self.step.dynamics.launch(schemes.report, None, inputs)

    def position_velocity(self, v: wp.array) -> wp.array:
        """v^θvq of the new velocity v."""
        step, theta_vq = self.step, self.scheme.theta_vq
        if theta_vq == 1.0:
            return v
        if theta_vq == 0.0:
            return step.v
        inputs = [theta_vq, step.v, v, self.v_between]
        step.dynamics.launch(schemes.velocity_between, step.model.nv, inputs)
        return self.v_between
