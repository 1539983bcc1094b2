# SPDX-License-Identifier: Apache-2.0
"""Host side of the forces of the medium (`kernels/forces/fluid.py`): what a step adds to the generalised forces that it is given.

They are those at the start of the step, (q, v), in every integrator.
"""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.forces import fluid
from warpsim.model.medium import shapes_of
from warpsim.tree.dynamics import Dynamics

PARAMETERS = ("fluid_density", "fluid_viscosity", "wind")
FOLLOWED = ("body_com", "geom_pose")


class FluidForces:
    """Tables and workspace; `pushed` is tau and the medium's force, after `launch`."""

    def __init__(self, dynamics: Dynamics):
        d = dynamics.device_model
        t, model, device = d.types, d.model, d.device
        found = shapes_of(model)
        shapes = self.shapes = copy(fluid.Shapes, t.real)()
        for key in ("body", "geom"):
            setattr(shapes, key, wp.array(found[key].astype(np.int32), dtype=wp.int32, device=device))
        shapes.size = wp.array(found["size"].astype(d.dtype), dtype=t.vec3, device=device)
        shapes.axes = wp.array(found["axes"][:, [1, 2, 3, 0]].astype(d.dtype), dtype=t.quat, device=device)
        shapes.coefficients = wp.array(found["coefficients"].astype(d.dtype), dtype=t.real, device=device)
        self.tree_shape = wp.array(found["tree_shape"].astype(np.int32), dtype=wp.int32, device=device)
        self.count = len(found["body"])
        self.wrench = dynamics.array(self.count, t.vec6)
        self.link_F, self.pushed = dynamics.array(model.nlink, t.vec6), dynamics.array(model.nv, t.real)

    def launch(self, dynamics: Dynamics, link_V: wp.array, tau: wp.array) -> None:
        """`pushed` at the kinematics of `dynamics`, whose links move at `link_V`."""
        d = dynamics.device_model
        inputs = [d.topology, self.shapes, *(d.parameters.stored(name) for name in PARAMETERS), d.plant()]
        dynamics.launch(fluid.shape_wrench, self.count, [*inputs, dynamics.link_X, link_V, self.wrench])
        inputs = [d.topology, self.shapes, self.tree_shape, dynamics.dof_S, self.wrench, tau, self.link_F, self.pushed]
        dynamics.launch(fluid.add_force, dynamics.model.ntree, inputs)
