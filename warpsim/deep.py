"""Deep trees in a float32 step: mass matrix, free motion and SAP are computed in float64 and rounded at the end.

The mass matrix of a chain is ever closer to singular: scaled to a unit diagonal, that of 100 hinges has the lowest
eigenvalue 1e-6, of 224 hinges 7e-8. Its rounding to float32 alone makes it indefinite, and bias forces that nearly cancel
leave accelerations of nothing but rounding. So for models with a tree deeper than `DEEPEST` the step goes from the float32
state, parameters and forces to the new velocities in float64. The factors keep their positive pivots when rounded.
"""

import dataclasses

import numpy as np
import warp as wp

from warpsim.device import kernels_of, launch
from warpsim.dynamics import BLOCK, DeviceModel, Dynamics
from warpsim.kernels import theta, tree, wide
from warpsim.model.model import Model
from warpsim.solvers.contact_solver import ContactSolver
from warpsim.solvers.sap import SAP, SAPSolver

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


def needs_float64(device_model: DeviceModel) -> bool:
    """Whether a step of these worlds goes through float64."""
    return device_model.dtype == "float32" and depth(device_model.model) > DEEPEST


def refuse_gradients(model: Model, dtype: str, what: str) -> None:
    """Raise `ValueError` where a step goes through float64: its gradients do not."""
    deepest = depth(model)
    if dtype == "float32" and deepest > DEEPEST:
        raise ValueError(
            f"{what} of model {model.name!r} needs dtype='float64': a tree of it is {deepest} degrees of freedom deep, and beyond "
            f"{DEEPEST} float32 gradients mean nothing"
        )


class WideDynamics:
    """`Dynamics` in float64 of a float32 device model: `dynamics`, with the parameters as of the last `refresh`."""

    def __init__(self, source: DeviceModel):
        self.source, self.scalar = source, source.types.real
        self.device_model = DeviceModel(source.model, source.worlds, "float64", source.device)
        for name in PARAMETERS:
            self.device_model.parameters[name]  # one row per world
        self.dynamics = Dynamics(self.device_model)

    def refresh(self) -> None:
        """Read the parameters anew."""
        for name in PARAMETERS:
            widen(self.source.parameters.stored(name), self.device_model.parameters.stored(name), self.scalar)

    def evaluate(self, function, inputs, out: wp.array) -> None:
        """`function(dynamics, *inputs, out)` in float64, rounded into `out`; allocates."""
        self.refresh()
        arrays = [wp.zeros(x.shape, dtype=wp.float64, device=x.device) for x in (*inputs, out)]
        for values, target in zip(inputs, arrays, strict=False):
            widen(values, target, self.scalar)
        function(self.dynamics, *arrays)
        narrow(arrays[-1], out, self.scalar)


class DeepMotion(WideDynamics):
    """Arrays and launches for one `Step`: the results are the step's own bias, A, factors and v*."""

    def __init__(self, step):
        super().__init__(step.device_model)
        self.step, dynamics = step, self.dynamics
        model, array = self.source.model, dynamics.array
        self.q = array(model.nq, wp.float64)
        self.v, self.force, self.damping, self.bias, self.v_star, self.zero = (
            array(model.nv, wp.float64) for _ in range(6)
        )
        self.A, self.M_factor, self.A_factor = (dynamics.blocks() for _ in range(3))
        self.composite = array(model.nlink, self.device_model.types.vec10)

    def kernels(self) -> list:
        return [*kernels_of(wide, self.scalar), *kernels_of(tree, wp.float64), *kernels_of(theta, wp.float64)]

    def launch(self, h: float) -> None:
        """Bias, A = M + h D, the factors of M and A, and v*."""
        step, dynamics = self.step, self.dynamics
        self.refresh()
        for name in ("q", "v", "force", "damping"):
            widen(getattr(step, name), getattr(self, name), self.scalar)
        dynamics.position(self.q)
        dynamics.velocity(self.v)
        dynamics.mass_matrix(self.composite, self.A)
        dynamics.inverse_dynamics(self.v, self.zero, self.bias)
        inputs = [self.device_model.topology, h, self.v, self.force, self.bias, self.damping]
        inputs += [self.A, self.M_factor, self.A_factor, self.v_star]
        dynamics.launch(theta.free_motion, dynamics.model.ntree, inputs)
        for name in ("bias", "A", "M_factor", "A_factor", "v_star"):
            narrow(getattr(self, name), getattr(step, name), self.scalar)


class WideSAP(ContactSolver):
    """SAP in float64 on a float32 problem, but with the A, v* and v0 of a `DeepMotion`; its solution is rounded."""

    COPIED = ("J", "R", "v_hat", "mu", "row_J", "row_R", "row_v_hat", "row_lower", "row_upper")
    SHARED = ("contacts", "contact_pair", "support", "support_size")

    def __init__(self, *size, options: SAP, **keywords):
        super().__init__(*size, **keywords)
        options = dataclasses.replace(options, tolerance=options.relative_tolerance(self.dtype))
        self.inner = SAPSolver(*size, options=options, **(keywords | {"dtype": "float64"}))
        self.solution.iterations, self.solution.status = self.inner.solution.iterations, self.inner.solution.status

    def kernels(self) -> list:
        return self.inner.kernels()

    def attach(self, motion: DeepMotion) -> None:
        """Make room for the problem, once the struct `problem` is filled."""
        problem = self.inner.problem
        problem.A, problem.v_star, problem.v0 = motion.A, motion.v_star, motion.v
        for name in self.SHARED:
            setattr(problem, name, getattr(self.problem, name))
        for name in self.COPIED:
            array = getattr(self.problem, name)
            kind = self.inner.scalar if array.dtype == self.scalar else self.inner.vec3
            setattr(problem, name, self.zeros(array.shape, kind))

    def launch(self):
        """Solve every world, off the tape."""
        return self._rounded(self.inner.launch)

    def launch_again(self):
        """Solve once more from the last solution, see `SAPSolver`."""
        return self._rounded(self.inner.launch_again)

    def _rounded(self, solve):
        for name in self.COPIED:
            widen(getattr(self.problem, name), getattr(self.inner.problem, name), self.scalar)
        solution = solve()
        for name in ("v", "gamma", "row_gamma", "momentum_error"):
            narrow(getattr(solution, name), getattr(self.solution, name), self.scalar)
        return self.solution


def widen(values: wp.array, target: wp.array, scalar) -> None:
    """Copy an array of scalars of type `scalar` into one of float64, with as many rows or one for all."""
    if target.size:
        rows = [_rows(values, scalar), _rows(target, wp.float64)]
        _launch(wide.widen, scalar, rows[1], rows)


def narrow(values: wp.array, target: wp.array, scalar) -> None:
    """Round an array of float64 into one of the same shape with scalars of type `scalar`."""
    if target.size:
        rows = [_rows(values, wp.float64), _rows(target, scalar)]
        _launch(wide.narrow, scalar, rows[1], rows)


def _launch(kernel, scalar, target: wp.array, inputs) -> None:
    launch(kernel, scalar, target.shape, inputs, device=target.device, block_dim=BLOCK, record_tape=False)


def _rows(array: wp.array, scalar) -> wp.array:
    """The array's scalars (rows, entries) in its own memory."""
    entries = int(np.prod(getattr(array.dtype, "_shape_", ()), initial=1) * np.prod(array.shape[1:], initial=1))
    return wp.array(ptr=array.ptr, dtype=scalar, shape=(array.shape[0], entries), device=array.device)
