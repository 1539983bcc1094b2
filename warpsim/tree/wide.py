# SPDX-License-Identifier: Apache-2.0
"""Deep trees in float32: which trees they are, and their dynamics in float64, rounded at the end."""

import numpy as np
import warp as wp

from warpsim.device.copies import launch
from warpsim.kernels.tree import wide
from warpsim.model.model import Model
from warpsim.tree.dynamics import BLOCK, DeviceModel, Dynamics

# Depth in degrees of freedom up to which float32 is accurate. Humanoids with hands have a depth of some twenty. At 50
# hinges the inertia of the last link is off by 5e-4.
DEEPEST = 40
PARAMETERS = ("body_mass", "body_com", "body_inertia", "joint_pose", "joint_axis", "joint_armature", "gravity")


def depth(model: Model) -> int:
    """Degrees of freedom on the longest path from a root to a leaf."""
    found = np.zeros(model.nv, dtype=int)
    for dof, parent in enumerate(model.dof_parent):
        found[dof] = 1 + (found[parent] if parent >= 0 else 0)
    return int(found.max(initial=0))


def needs_float64(device_model: DeviceModel) -> bool:
    """Whether a step of these worlds goes through float64."""
    return device_model.dtype == "float32" and depth(device_model.model) > DEEPEST


def refuse_gradients(model: Model, dtype: str, what: str) -> None:
    """Raise `ValueError` where a step goes through float64: it has no gradients."""
    deepest = depth(model)
    if dtype == "float32" and deepest > DEEPEST:
        raise ValueError(
            f"{what} of model {model.name!r} needs dtype='float64': "
            f"a tree of it is {deepest} degrees of freedom deep, and beyond "
            f"{DEEPEST} float32 gradients mean nothing"
        )


class WideDynamics:
    """`Dynamics` in float64 of a float32 device model. `dynamics` has the parameters of the last `refresh`."""

    def __init__(self, source: DeviceModel):
        self.source, self.scalar = source, source.types.real
        self.device_model = DeviceModel(source.model, source.worlds, "float64", source.device)
        for name in PARAMETERS:
            self.device_model.parameters[name]  # expands the parameter to one row per world
        self.dynamics = Dynamics(self.device_model)

    def refresh(self) -> None:
        """Read the present parameters and poses of mocap bodies."""
        for name in PARAMETERS:
            widen(self.source.parameters.stored(name), self.device_model.parameters.stored(name), self.scalar)
        if self.source.model.nmocap:
            widen(self.source.link_pose, self.device_model.link_pose, self.scalar)

    def evaluate(self, function, inputs, out: wp.array) -> None:
        """`function(dynamics, *inputs, out)` in float64, rounded into `out`. Allocates."""
        self.refresh()
        arrays = [wp.zeros(x.shape, dtype=wp.float64, device=x.device) for x in (*inputs, out)]
        for values, target in zip(inputs, arrays, strict=False):
            widen(values, target, self.scalar)
        function(self.dynamics, *arrays)
        narrow(arrays[-1], out, self.scalar)


def widen(values: wp.array, target: wp.array, scalar) -> None:
    """Copy scalars of type `scalar` into a float64 array. The source has as many rows, or one row for all."""
    if target.size:
        rows = [_rows(values, scalar), _rows(target, wp.float64)]
        _launch(wide.widen, scalar, rows[1], rows)


def narrow(values: wp.array, target: wp.array, scalar) -> None:
    """Round a float64 array into an array of the same shape with scalars of type `scalar`."""
    if target.size:
        rows = [_rows(values, wp.float64), _rows(target, scalar)]
        _launch(wide.narrow, scalar, rows[1], rows)


def _launch(kernel, scalar, target: wp.array, inputs) -> None:
    launch(kernel, scalar, target.shape, inputs, device=target.device, block_dim=BLOCK, record_tape=False)


def _rows(array: wp.array, scalar) -> wp.array:
    """A view of the array's scalars as (rows, entries)."""
    entries = int(np.prod(getattr(array.dtype, "_shape_", ()), initial=1) * np.prod(array.shape[1:], initial=1))
    return wp.array(ptr=array.ptr, dtype=scalar, shape=(array.shape[0], entries), device=array.device)
