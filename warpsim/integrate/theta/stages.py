# SPDX-License-Identifier: Apache-2.0
"""Host side of the theta-schemes other than plain symplectic Euler: workspace and launches (theory §2)."""

import numpy as np
import warp as wp

from warpsim.integrate.explicit_motion import FreeMotion
from warpsim.kernels.contact import between as contact_between
from warpsim.kernels.integrate.theta import free_motion, schemes
from warpsim.tree.dynamics import Dynamics, InverseDynamicsDerivative

# A residual of the free motion that cannot fall any more is round-off below this many machine epsilons of its scale.
STALL_EPSILONS = 1e3


class ThetaStages(FreeMotion):
    """The two stages of a theta-scheme for all worlds, on the arrays of a `Step`. Plain symplectic Euler has none.

    `between`: the kinematics at q^θ of the last free motion. Only implicit schemes have it.
    """

    def __init__(self, step, scheme):
        super().__init__(step)
        self.scheme = scheme
        array = step.dynamics.array
        self.v_between = array(step.model.nv if 0.0 < scheme.theta_vq < 1.0 else 0, step.device_model.types.real)
        self.guess = None  # where the search for v* starts; None: at v
        if scheme.implicit:
            self._make_newton()
        if self.follows_contacts:
            self.moved = array(step.collision.capacity, wp.int32)
            step.collision.follow(self.moved, self.between.dof_S)

    def _load(self):
        """The actuators on joints, sorted by tree."""
        m = self.step.model
        on_joint = np.flatnonzero(m.actuator_joint >= 0)
        tree = m.link_tree[m.joint_link[m.actuator_joint[on_joint]]]
        start = np.searchsorted(np.sort(tree), np.arange(m.ntree + 1))
        actuator = on_joint[np.argsort(tree, kind="stable")]
        return self.step.device_model.struct(free_motion.Load, actuator=actuator, tree_actuator=start)

    def _make_newton(self) -> None:
        d, model = self.step.device_model, self.step.model
        self.load, self.problem = self._load(), d.struct(free_motion.Problem)
        self.between = Dynamics(d)
        self.between.steadied = self.step.dynamics.steadied
        derivative = InverseDynamicsDerivative(self.between)
        self.sweep = derivative.sweep
        of_dofs = dict.fromkeys(("v", "v_theta", "a", "magnitude", "r", "dv", "weight", "dq", "pivot"), model.nv)
        of_trees = dict.fromkeys(("evaluations", "status"), model.ntree)
        work = self.newton = self.between.workspace(free_motion.Newton, q=model.nq, **of_dofs, **of_trees)
        work.motion, work.sweep = derivative.motion, self.sweep
        work.link_X, work.J = self.between.link_X, derivative.D
        self.options = d.struct(
            free_motion.Scheme,
            theta=self.scheme.theta,
            tolerance=self.scheme.relative_tolerance(d.dtype),
            stall=STALL_EPSILONS * float(np.finfo(d.dtype).eps),
            max_evaluations=self.scheme.max_evaluations,
        )

    @property
    def follows_contacts(self) -> bool:
        """Whether contact Jacobians are those at q^θ, which the second order of the midpoint rule needs."""
        return self.scheme.order > 1 and self.step.collision.enabled

    @property
    def middle(self):
        """Kinematics and positions for the Jacobians of a second-order scheme. None: at the start of the step."""
        return (self.between, self.newton.q) if self.scheme.order > 1 else None

    def _refresh(self) -> None:
        """Take the present arrays of parameters and inputs."""
        step, problem = self.step, self.problem
        self.load.actuators, self.load.tau = step.actuators, step.acting_tau
        problem.plant, problem.load = step.device_model.plant(step.dynamics.armature), self.load
        problem.scheme, problem.q0, problem.v0 = self.options, step.q, step.v

    def allow_wrench(self) -> None:
        """Make room for the arrays that wrenches on bodies need."""
        if self.scheme.implicit:
            self.load.wrench = self.step.acting_wrench
            t, nlink = self.step.device_model.types, self.step.model.nlink
            self.sweep.E, self.sweep.e = self.between.array(nlink, t.mat33), self.between.array(nlink, t.vec3)
            self.newton.sweep = self.sweep

    def damp(self, h: float) -> None:
        """Set the damping and stiffness in A of the explicit schemes."""
        if not (self.scheme.has_closed_form or self.scheme.implicit):
            step = self.step
            step.launch_damping(step.dynamics, self.scheme, h, step.q, step.v, step.damping)

    def launch(self, h: float) -> None:
        """v* of the implicit schemes by Newton's method; A and the factors of M and A at q^θ(v*)."""
        step, between = self.step, self.between
        topology, ntree = step.device_model.topology, step.model.ntree
        self.options.h = h
        self._refresh()
        guess = (step.v, 0) if self.guess is None else (self.guess, 1)
        inputs = [topology, self.problem, *guess, self.newton, step.v_star]
        between.launch(free_motion.free_motion, ntree, inputs)
        step.launch_damping(step.dynamics, self.scheme, h, self.newton.q, self.newton.v_theta, step.damping)
        between.mass_matrix(step.composite, step.A)
        inputs = [topology, h, step.damping, step.A, step.M_factor, step.A_factor]
        between.launch(schemes.contact_stage, ntree, inputs)

    def follow_contacts(self) -> None:
        """Points, frames and Jacobians of the contacts, with their features moved to q^θ(v*). Distances stay."""
        if not self.follows_contacts:
            return
        step, between, collision = self.step, self.between, self.step.collision
        d = step.device_model
        inputs = [d.topology, collision.scene, d.plant(), between.link_X, between.dof_S, collision.contacts, self.moved]
        between.launch(contact_between.follow, collision.capacity, inputs)
        if collision.convex_scene is not None:
            between.launch(contact_between.follow_convex, collision.capacity, [collision.convex_scene, *inputs])
        if collision.surfaces:
            contacts, rate = collision.contacts, collision.surfaces.rate
            collision.surfaces.launch(between, contacts.point, contacts.frame, rate, self.moved, 1)

    def report(self) -> None:
        """Add the outcome of the free motion to the solver's status."""
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
