# SPDX-License-Identifier: Apache-2.0
"""Host side of the forces of the medium (`kernels/forces/fluid.py`), which a step adds to the given generalized forces.

Every integrator evaluates them at (q, v) at the start of the step.
"""

import warp as wp

from warpsim.device.copies import Variant, launch
from warpsim.kernels.forces import fluid
from warpsim.model.medium import shapes_of
from warpsim.tree.dynamics import Dynamics
from warpsim.tree.part import Part

PARAMETERS = ("fluid_density", "fluid_viscosity", "wind")


class FluidForces(Part):
    """Tables and workspace. `pushed`: tau plus the force of the medium."""

    name, moves, values = "fluid", True, "once"
    TAPED = ("wrench", "link_F", "pushed")

    def __init__(self, dynamics: Dynamics):
        self.dynamics, d = dynamics, dynamics.device_model
        t, model, found = d.types, d.model, shapes_of(d.model)
        keys = ("body", "geom", "size", "coefficients")
        axes = found["axes"][:, [1, 2, 3, 0]]
        self.shapes = d.struct(fluid.Shapes, axes=axes, **{key: found[key] for key in keys})
        self.tree_shape, self.count = d.array(found["tree_shape"]), len(found["body"])
        self.wrench = dynamics.array(self.count, t.vec6)
        self.link_F, self.pushed = dynamics.array(model.nlink, t.vec6), dynamics.array(model.nv, t.real)

    def act_on(self, acting) -> None:
        acting.pushed = acting.acting_tau = self.pushed

    def before_forces(self, h: float) -> None:
        dynamics, d = self.dynamics, self.dynamics.device_model
        dynamics.launch(fluid.shape_wrench, self.count, [*self._motion(), self.wrench])
        inputs = [d.topology, self.shapes, self.tree_shape, dynamics.dof_S, self.wrench, self.of.tau]
        dynamics.launch(fluid.add_force, d.model.ntree, [*inputs, self.link_F, self.pushed])

    def _motion(self) -> list:
        dynamics, d = self.dynamics, self.dynamics.device_model
        density, viscosity, wind = (d.parameters.stored(name) for name in PARAMETERS)
        medium = d.struct(fluid.Medium, density=density, viscosity=viscosity, wind=wind)
        return [d.topology, self.shapes, medium, d.plant(), dynamics.link_X, dynamics.link_V]

    def allow_damping(self) -> None:
        """Make room for the derivatives that `damp` needs."""
        d = self.dynamics.device_model
        self.slope = wp.zeros((d.worlds, self.count, 6), dtype=d.types.vec6, device=d.device)

    def damp(self, ancestor: wp.array, alone: wp.array, C: wp.array) -> None:
        """Add −∂(force)/∂v at (q, v0) to the blocks C, see `Pulls.damp`. `alone (ntree,)`: 1 for single free bodies."""
        dynamics, d = self.dynamics, self.dynamics.device_model
        inputs = [*self._motion(), self.slope]
        launch(fluid.shape_slope, Variant(d.types.real, dual=True), self.slope.shape, inputs, device=d.device)
        inputs = [d.topology, ancestor, alone, self.shapes, self.tree_shape, dynamics.dof_S, self.slope, C]
        dynamics.launch(fluid.add_damping, d.model.nv, inputs)

    def record(self, h: float) -> None:
        self.dynamics.position(self.of.q)
        self.dynamics.velocity(self.of.v0)
        self.before_forces(h)
