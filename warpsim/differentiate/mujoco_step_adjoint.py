# SPDX-License-Identifier: Apache-2.0
"""The backward pass of MuJoCo's integrators (theory §2.1).

A step is two implicit functions in a row and an explicit one:

    h (RNEA(q, v0, (v_s − v0)/h) + D v0 − force) − Jᵀγ(v_s) = 0  →  M (v' − v_s) + h C (v' − v0) = 0  →  q' = q ⊕ h v'
"""

import warp as wp

from warpsim.device.copies import twin
from warpsim.device.per_world import assign, fill
from warpsim.differentiate.implicit import StepAdjoint, StepRecord, step_adjoint
from warpsim.differentiate.stage import Stage
from warpsim.integrate import MuJoCoEuler, MuJoCoImplicitFast
from warpsim.kernels.differentiate import mujoco_residual, residual
from warpsim.kernels.integrate.mujoco import mujoco_motion


class MuJoCoStepAdjoint(StepAdjoint):
    """Workspace of the backward pass. `v`: v_s, the solution of the contact problem; `v_end`: v'."""

    reads_mass = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        step, nv, S = self.step, self.model.nv, self.device_model.types.real
        self.v_end, self.r_end = (self.dynamics.array(nv, S) for _ in range(2))
        self.C = twin(step.C)
        self.no_gravity = wp.zeros(1, dtype=self.device_model.types.vec3, device=self.device)

    def solved_velocity(self, record: StepRecord) -> wp.array:
        return record.v_contact

    def keep(self, record: StepRecord, step) -> None:
        record.v_contact = wp.clone(step.solver.solution.v)

    @property
    def end_velocity(self) -> wp.array:
        return self.v_end

    @property
    def measured_velocity(self) -> wp.array:
        """v_s: sensors read (v_s − v0)/h."""
        return self.v

    @property
    def _moving_velocity(self) -> wp.array:
        return self.v_end

    def _take_solution(self) -> None:
        super()._take_solution()
        step, h, d = self.step, self.h_repeated, self.device_model
        step.find_end(h, self.v)
        assign(self.v_end, step.v_next)
        step.dynamics.launch(mujoco_motion.factor_end, self.model.ntree, [d.topology, h, step.A, step.implicit])

    def _repeat(self, h: float) -> None:
        self.h_repeated = h
        super()._repeat(h)

    def position_stages(self) -> list[Stage]:
        return [
            Stage(None, self.contact.adjust),
            Stage(self._record_positions, self._seed_positions, values="given"),
        ]

    def stages(self, by_position: bool = False, regular: bool = False) -> list[Stage]:
        measured = [] if self.measurement is None else self.measurement.stages()
        end = [Stage(self._record_end, self._seed_end)]
        if self.C.size:
            end.insert(0, Stage(self._record_damping_matrix, values="given"))
        return [*self.contact_stages(regular), *measured, *end, *self.position_stages()]

    def _seed_positions(self, h: float) -> None:
        assign(self.v_end.grad, self.inputs.v_next_bar)
        assign(self.q_next.grad, self.inputs.q_next_bar)

    # the end of the step ----------------------------------------------------------------------------------------------

    def _record_damping_matrix(self, h: float) -> None:
        """C, but for what depends on the bias of free bodies."""
        self.pulls.damp(self.step.ancestor, self.C)

    def _seed_end(self, h: float) -> None:
        """Solve (M + h C)ᵀ w = v'_bar for the gradient −w of r_end."""
        inputs = [self.device_model.topology, self.step.implicit, self.v_end.grad, self.seed]
        self.step.dynamics.launch(mujoco_motion.end_adjoint, self.model.ntree, inputs)
        fill(self.v_end.grad)
        assign(self.r_end.grad, self.seed)

    def _record_end(self, h: float) -> None:
        """The equation of v'."""
        dynamics, step, topology, nv = self.dynamics, self.step, self.device_model.topology, self.model.nv
        damps = step.integrator.damps(self.model)
        damping = self.device_model.parameters.stored("joint_damping") if damps else self._none
        inputs = [topology, h, self.ancestor, self.M, damping, self.C, self.v, self.v0, self.v_end, self.r_end]
        dynamics.launch(mujoco_residual.end_residual, nv, inputs)
        if step.has_alone:
            inputs = [topology, h, step.implicit.alone, dynamics.dof_S, dynamics.link_I]
            dynamics.launch(mujoco_residual.bias_residual, nv, [*inputs, self.v0, step.v, step.v_next, self.r_end])

    # the contact stage ------------------------------------------------------------------------------------------------

    def record_momentum_balance(self, h: float, v: wp.array) -> None:
        """M (v − v*)."""
        dynamics = self.dynamics
        self._record_inertial(h, dynamics, self.v0, self.v0, v)
        self._record_forces(self.q_node, self.v0, dynamics)
        inputs = [h, self.inverse_dynamics, self.damping, self.force, self.v0, self.r]
        dynamics.launch(residual.smooth_residual, self.model.nv, inputs)

    def _record_damping(self, h: float) -> wp.array:
        """The contact problem has A = M."""
        return self.step.zero_acceleration


@step_adjoint.register(MuJoCoEuler)
@step_adjoint.register(MuJoCoImplicitFast)
def _(integrator) -> type[StepAdjoint]:
    return MuJoCoStepAdjoint
