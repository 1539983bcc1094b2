"""Smooth dynamics of deep trees in a float32 step: carried out in float64, rounded at the end.

The mass matrix of a chain of n equal links has a condition of about n⁴ (1e7 for 100 hinges, after scaling to a unit diagonal): in float32 its
rounding alone makes it indefinite, and bias forces that nearly cancel leave accelerations of nothing but rounding. So
for models with a tree deeper than `DEEPEST` kinematics, mass matrix, bias, free motion and the two factors are computed in
float64 from the float32 state, parameters and forces. The factors keep their positive pivots when they are rounded.
"""

import numpy as np
import warp as wp

from warpsim.dynamics import BLOCK, DeviceModel, Dynamics
from warpsim.kernels import theta, wide
from warpsim.model.model import Model

# Degrees of freedom from the root to a leaf up to which float32 keeps its accuracy: humanoids with hands have some twenty,
# and at 50 hinges the inertia of the last link is off by 5e-4.
DEEPEST = 40
PARAMETERS = ("body_mass", "body_com", "body_inertia", "joint_pose", "joint_axis", "joint_armature", "gravity")


def depth(model: Model) -> int:
    """Degrees of freedom on the longest way from a root to a leaf."""
    found = np.zeros(model.nv, dtype=int)
    for dof, parent in enumerate(model.dof_parent):
        found[dof] = 1 + (found[parent] if parent >= 0 else 0)
    return int(found.max(initial=0))


class DeepMotion:
    """Arrays and launches for one `Step`: the results are the step's own bias, A, factors and v*."""

    def __init__(self, step):
        d = step.device_model
        self.step, self.scalar = step, d.types.scalar
        self.device_model = DeviceModel(d.model, d.worlds, "float64", d.device)
        for name in PARAMETERS:
            self.device_model.parameters[name]  # one row per world
        self.dynamics = dynamics = Dynamics(self.device_model)
        self.kernels, self.k_theta = wide.build(self.scalar), theta.build(wp.float64)
        model, array = d.model, dynamics.array
        self.q = array(model.nq, wp.float64)
        self.v, self.force, self.damping, self.bias, self.v_star, self.zero = (
            array(model.nv, wp.float64) for _ in range(6)
        )
        self.A, self.M_factor, self.A_factor = (dynamics.blocks() for _ in range(3))
        self.composite = array(model.nlink, self.device_model.types.vec10)

    def kernel_sets(self) -> list:
        return [self.kernels, self.dynamics.kernels, self.dynamics.untaped, self.k_theta]

    def launch(self, h: float) -> None:
        """Bias, A = M + h D, the factors of M and A, and v*."""
        step, dynamics = self.step, self.dynamics
        for name in PARAMETERS:
            self._widen(step.device_model.parameters.stored(name), self.device_model.parameters.stored(name))
        for name in ("q", "v", "force", "damping"):
            self._widen(getattr(step, name), getattr(self, name))
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        dynamics.mass_matrix(self.composite, self.A)
        dynamics.inverse_dynamics(self.v, self.zero, self.bias)
        inputs = [self.device_model.topology, h, self.v, self.force, self.bias, self.damping]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_star]
        dynamics.launch(self.k_theta.free_motion, dynamics.model.ntree, inputs)
        for name in ("bias", "A", "M_factor", "A_factor", "v_star"):
            self._narrow(getattr(self, name), getattr(step, name))

    def _widen(self, values: wp.array, target: wp.array) -> None:
        rows = [_rows(values, self.scalar), _rows(target, wp.float64)]
        self._launch(self.kernels.widen, rows[1].shape, rows)

    def _narrow(self, values: wp.array, target: wp.array) -> None:
        rows = [_rows(values, wp.float64), _rows(target, self.scalar)]
        self._launch(self.kernels.narrow, rows[1].shape, rows)

    def _launch(self, kernel, dim, inputs) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, device=self.device_model.device, block_dim=BLOCK, record_tape=False)


def _rows(array: wp.array, scalar) -> wp.array:
    """The array's scalars (rows, entries) in its own memory."""
    entries = int(np.prod(getattr(array.dtype, "_shape_", ()), initial=1) * np.prod(array.shape[1:], initial=1))
    return wp.array(ptr=array.ptr, dtype=scalar, shape=(array.shape[0], entries), device=array.device)
