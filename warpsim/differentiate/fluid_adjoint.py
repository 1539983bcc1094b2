# SPDX-License-Identifier: Apache-2.0
"""The forces of the medium on the tape of a backward pass: tau and they as a function of q, v and tau, the first of a step."""

from warpsim.device.copies import twin
from warpsim.differentiate.stage import Stage
from warpsim.differentiate.taped_dynamics import TapedDynamics
from warpsim.integrate.fluid_forces import FluidForces


class FluidAdjoint(FluidForces):
    """`pushed` has the gradient by what the step's equations take for tau; kinematics of its own, at the start of the step."""

    def __init__(self, device_model, step):
        self.dynamics = TapedDynamics(device_model, step.dynamics)
        super().__init__(self.dynamics)
        self.pushed = twin(step.fluid.pushed)

    def stages(self, q, v, tau) -> list[Stage]:
        """What comes before all others of a step from (q, v)."""

        def record(h: float) -> None:
            self.dynamics.position(q)
            self.dynamics.velocity(v)
            self.launch(self.dynamics, self.dynamics.link_V, tau)

        return [Stage(record)]
