# SPDX-License-Identifier: Apache-2.0
"""The backward pass of the theta-schemes other than plain symplectic Euler (theory §2, §3.5).

A step of an implicit scheme is two implicit functions in a row. Contact, A (v - v*) = J^T gamma with A, J and the
weights at q^θ(v*), gives the gradients of v*, q^θ, q0 and the parameters. The free motion, m(v*) = 0, takes the
gradient of v* back through the transposed Jacobian dm/dv and the adjoint of m at frozen v*. Explicit schemes have only
the first function, with their own damping in A.
"""

import warp as wp

from warpsim.device.copies import twin
from warpsim.device.per_world import assign, fill
from warpsim.device.recording import values_known
from warpsim.differentiate.implicit import StepAdjoint, step_adjoint, with_gradient
from warpsim.differentiate.stage import Stage
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.integrate import ThetaScheme
from warpsim.kernels.differentiate import residual
from warpsim.kernels.integrate.theta import free_motion, schemes
from warpsim.kernels.tree import passes


class SchemeAdjoint(StepAdjoint):
    """Workspace of the backward pass of an explicit scheme, and the part that implicit schemes share."""

    repeats_forces = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.scheme, self.theta_stages, nv = self.step.scheme, self.step.stages, self.model.nv
        self.effective, self.v_moving = (self.dynamics.array(nv, self.device_model.types.real) for _ in range(2))
        self.damped_at = (self.q, self.v0)

    @property
    def _moving_velocity(self) -> wp.array:
        theta_vq = self.scheme.theta_vq
        return self.v_moving if 0.0 < theta_vq < 1.0 else self.v if theta_vq else self.v0

    def _record_moving_velocity(self, h: float) -> None:
        if 0.0 < self.scheme.theta_vq < 1.0:
            self._record_between(self.scheme.theta_vq, self.v, self.v_moving)

    def _record_between(self, share: float, v: wp.array, out: wp.array) -> None:
        """out = share v + (1 - share) v0."""
        self.dynamics.launch(schemes.velocity_between, self.model.nv, [share, self.v0, v, out])

    def _record_damping(self, h: float) -> wp.array:
        self.launch_damping(self.dynamics, self.scheme, h, *self.damped_at, self.effective)
        return self.effective

    def _balance_arrays(self) -> list[wp.array]:
        return [*super()._balance_arrays(), self.effective]


class ImplicitAdjoint(SchemeAdjoint):
    """Workspace of the backward pass of an implicit scheme."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        t, array, nv, C = self.device_model.types, self.dynamics.array, self.model.nv, self.step.collision.capacity
        stages = self.theta_stages
        stages.guess = self.v_solved  # closer to the root than v0
        self.inertial = self.between = TapedDynamics(self.device_model, stages.between)
        self.owners.append(self.between)
        self.v_star, self.m = array(nv, t.real), array(nv, t.real)
        self.v_theta, self.q_theta = twin(stages.newton.v_theta), twin(stages.newton.q)
        self.damped_at = (self.q_theta, self.v_theta)
        self.middle = (self.between, self.q_theta) if self.scheme.order > 1 else None
        self.no_gravity = wp.zeros(1, dtype=t.vec3, device=self.device)
        self.phi_between, self.point_between = array(C, t.real), array(C, t.vec3)
        self.frame_between = array(C, t.mat33)

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        """All functions of the step. The free motion comes first: the root v* of m = 0."""
        return [*self._motion_stages(), *super().stages(by_position, regular)]

    def solve_stages(self) -> list[Stage]:
        return [*self._motion_stages(), *super().solve_stages()]

    def _motion_stages(self) -> list[Stage]:
        root = Stage(self._record_free_motion, self._seed_free_motion, values="anew")
        return [Stage(self._record_configuration), root]

    def _take_solution(self) -> None:
        super()._take_solution()
        stages = self.theta_stages
        assign(self.v_star, self.step.v_star)
        if stages.follows_contacts:
            assign(self.moved, stages.moved)
        inputs = [self.device_model.topology, stages.problem, self.v_star, stages.newton]
        self.dynamics.launch(free_motion.factor_root, self.model.ntree, inputs)

    # the contact stage ------------------------------------------------------------------------------------------------

    def _record_geometry(self, h: float) -> None:
        self.dynamics.position(self.q)
        self._record_configuration(h)
        self._record_constraints(h)
        if self.theta_stages.follows_contacts:
            between = (self.phi_between, self.point_between, self.frame_between)
            self._record_contact_geometry(self.between, *between)
            self._record_jacobian(self.between, *between[1:], choice=1)

    def _balance_arrays(self) -> list[wp.array]:
        return [*super()._balance_arrays(), self.between.link_V]

    def _record_configuration(self, h: float) -> None:
        """v^θ, q^θ and their kinematics, whose values `factor_root` has left."""
        with values_known():
            self._record_between(self.scheme.theta, self.v_star, self.v_theta)
            inputs = [self.device_model.topology, h * self.scheme.theta, self.q, self.v_theta, self.q_theta]
            self.dynamics.launch(passes.integrate_position, self.model.nlink, inputs)
        self.between.position(self.q_theta)

    def record_momentum_balance(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.v_star, v)

    def record_inertia(self, h: float, v: wp.array) -> None:
        self._record_impulse(h, self.step.zero_acceleration, v)

    def _record_impulse(self, h: float, v_from: wp.array, v: wp.array) -> None:
        """r = A (v - v_from)."""
        self._record_inertial(h, self.between, self.step.zero_acceleration, v_from, v, self.no_gravity)
        inputs = [h, self.inverse_dynamics, self._record_damping(h), v_from, v, self.r]
        self.between.launch(schemes.momentum_balance, self.model.nv, inputs)

    # the free motion --------------------------------------------------------------------------------------------------

    def _seed_free_motion(self, h: float) -> None:
        """Solve (dm/dv)^T w = v*_bar for the gradient −w of m."""
        inputs = [self.device_model.topology, h, self.v_star.grad]
        inputs += [self.theta_stages.newton, self.seed]
        self.dynamics.launch(free_motion.root_adjoint, self.model.ntree, inputs)
        reused = (self.v_theta, self.q_theta, self.a, self.inverse_dynamics, self.force, self.damping)
        for array in (*reused, *with_gradient(self.between)):
            fill(array.grad)
        assign(self.m.grad, self.seed)

    def _record_free_motion(self, h: float) -> None:
        """m(v*; q0, v0, control, tau, parameters), after `_record_configuration`."""
        between = self.between
        self._record_inertial(h, between, self.v_theta, self.v0, self.v_star)
        self._record_forces(self.q_theta, self.v_theta, between)
        inputs = [h, self.inverse_dynamics, self.damping, self.force, self.v_theta, self.m]
        between.launch(residual.smooth_residual, self.model.nv, inputs)


@step_adjoint.register(ThetaScheme)
def _(scheme) -> type[StepAdjoint]:
    if not scheme.steps_as_scheme:
        raise ValueError(f"{scheme!r} makes a step of its own, which has no gradients; register a StepAdjoint for it")
    return StepAdjoint if scheme.has_closed_form else ImplicitAdjoint if scheme.implicit else SchemeAdjoint
