# SPDX-License-Identifier: Apache-2.0
"""`hessian_vector`: products of a loss's Hessian with directions, by central differences of exact gradients.

    H p ≈ (g(x + ε p) − g(x − ε p)) / 2ε, at ε and at ε/2; the difference of the two is the stated error

The points of all directions are replicas of the worlds in one wide simulator: one rollout and one backward pass.
"""

import dataclasses

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import numbers, positive
from warpsim.base.reprs import show
from warpsim.device.threads import holds
from warpsim.differentiate.objective import Objective
from warpsim.differentiate.taped import BY_STEP, STATE_NAMES
from warpsim.optimise.points import gradients
from warpsim.optimise.replicas import WIDEST

SIDES = np.array([1.0, -1.0, 0.5, -0.5])  # the points of a direction, in units of its step size


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HessianVector:
    """What `hessian_vector` found, in float64.

    Attributes
    ----------
    product : array (n,) or (directions, n)
        Product H p of the Hessian H and each direction p.
    error : array () or (directions,)
        Length of the difference between the products at the two step sizes, infinite where a motion was not finite.
    step_size : array () or (directions,)
        The larger of the two step sizes: gradients are taken at x ± `step_size` p and x ± `step_size` p / 2.
    """

    product: np.ndarray
    error: np.ndarray
    step_size: np.ndarray

    @property
    def relative_error(self) -> np.ndarray:
        """`error` divided by the length of the product: array () or (directions,)."""
        length = np.linalg.norm(self.product, axis=-1)
        return np.divide(self.error, length, out=np.where(self.error > 0, np.inf, 0.0), where=length > 0)

    def __repr__(self) -> str:
        worst = f"{np.max(self.relative_error):.1e}"
        return show("HessianVector", {"product": self.product, "worst relative error": worst})


@holds
def hessian_vector(
    objective: Objective, directions: Numbers, x: Numbers | None = None, *, step_size: float | None = None
) -> HessianVector:
    """Products of the Hessian of a rollout's loss with directions, by differences of exact gradients.

    Parameters
    ----------
    objective : Objective
        The loss as a function of a flat vector x. The function calls its loss with replicas of the simulator's worlds,
        one after the other. The loss may depend only on the trajectory that it is given.
    directions : array (n,) or (directions, n)
        Directions p in the space of x.
    x : array (n,), optional
        The point. Default: `objective.x0`.
    step_size : float, optional
        Step size of the differences, in units of the variables. The unit of a state, control or pose is 1 in x, hence
        `objective.scale`; that of a parameter is its largest value. Default: the cube root of the larger one of the
        solver's tolerance and the rounding error of the dtype.

    Returns
    -------
    HessianVector
        `product`, its estimated `error`, and the step size.

    Raises
    ------
    ValueError
        A direction or the point has a wrong shape or is not finite, or the objective has no variables.

    Notes
    -----
    Gradients are exact to the solver's tolerance t, hence products to about t^(2/3) where the loss is smooth: 2e-9 at
    t = 1e-13, 2e-3 in float32 at its default tolerance of 1e-4 (without contact 1e-4 and less). `error` estimates the
    error to within its order of magnitude. It is not a bound. Across a kink (a contact that comes or goes, a control at
    its bound) the Hessian does not exist. The products at the two step sizes differ there: `relative_error` is large.
    Cost: four rollouts with gradients for each direction, side by side.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), dtype="float64", requires_grad=True, device="cpu")
    >>> @wp.kernel
    ... def height(q: wp.array3d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    ...     w = wp.tid()
    ...     loss[w] = q[q.shape[0] - 1, w, 2] * q[q.shape[0] - 1, w, 2]
    >>> def loss(trajectory):
    ...     found = wp.zeros(trajectory.worlds, dtype=wp.float64, device="cpu", requires_grad=True)
    ...     wp.launch(height, trajectory.worlds, [trajectory.q, found], device="cpu")
    ...     return found
    >>> objective = ws.Objective(sim, loss, {"v": np.zeros(sim.model.nv)}, steps=5)
    >>> found = ws.hessian_vector(objective, np.eye(sim.model.nv)[2])
    >>> bool(found.relative_error < 1e-3), float(found.product[2].round(6))
    (True, 0.00125)
    """
    if not isinstance(objective, Objective):
        raise ValueError(f"objective is a {type(objective).__name__}; give a ws.Objective")
    if not objective.x0.size or not objective.sim.model.nv:
        raise ValueError("the objective's motion has no variables; give one with variables, of a model with joints")
    point = _vectors(objective.x0 if x is None else x, objective.x0.size, "x", (1,))[0]
    P = _vectors(directions, point.size, "directions", (1, 2))
    size = _step_size(objective.sim) if step_size is None else positive(step_size, "step_size")
    reach = np.abs(P / _units(objective, point)).max(axis=1, initial=0.0)
    steps = np.divide(size, reach, out=np.zeros_like(reach), where=reach > 0)
    points = point + (SIDES[:, None] * steps[:, None, None]) * P[:, None]
    each = max(1, WIDEST // (len(SIDES) * objective.sim.worlds))  # directions per batch
    chunks = [gradients(objective, points[k : k + each].reshape(-1, point.size))[1:] for k in range(0, len(P), each)]
    slopes = np.concatenate([g for g, _ in chunks]).reshape(len(P), len(SIDES), -1)
    finite = np.concatenate([f for _, f in chunks]).reshape(len(P), -1).all(axis=1)
    widths = np.where(reach > 0, steps, 1.0)[:, None]  # a direction of length 0 has the product 0
    wide, narrow = (slopes[:, 0] - slopes[:, 1]) / (2 * widths), (slopes[:, 2] - slopes[:, 3]) / widths
    error = np.where(finite, np.linalg.norm(wide - narrow, axis=1), np.inf)
    found = (narrow, error, steps)
    return HessianVector(*(found if np.ndim(directions) > 1 else (array[0] for array in found)))


def _vectors(values, n: int, name: str, dimensions: tuple[int, ...]) -> np.ndarray:
    """Finite vectors (…, n) as rows."""
    values = numbers(values, name)
    if values.ndim not in dimensions or values.shape[-1] != n or not values.size:
        several = f" or (directions, {n})" if 2 in dimensions else ""
        raise ValueError(f"{name} has shape {values.shape}; it must be ({n},){several}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has entries that are not finite")
    return np.atleast_2d(values)


def _step_size(sim) -> float:
    """Relative step size at which a central difference's error, ε², equals the gradients' error over ε."""
    return float(max(sim.solver.relative_tolerance(sim.dtype), np.finfo(sim.dtype).eps) ** (1 / 3))


def _units(objective: Objective, point: np.ndarray) -> np.ndarray:
    """The unit of each entry of x."""
    values = objective.unpack(point)
    units = {}
    for name, value in values.items():
        known = name in (*STATE_NAMES, *BY_STEP)
        unit = objective.scale[name] if known else np.abs(value[np.isfinite(value)]).max(initial=0.0) or 1.0
        units[name] = np.full(value.shape, unit)
    return objective.pack(units)
