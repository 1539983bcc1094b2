# SPDX-License-Identifier: Apache-2.0
"""`Cost`: the cost of a motion, from residuals of states and controls, and its Gauss-Newton model.

    Σ_k ℓ(x_k, u_k) + ℓ_T(x_T),    ℓ = ½ ‖r‖² + s,    ∇ℓ = Jᵀr + ∇s,    ∇²ℓ ≈ JᵀJ,    J = ∂r/∂(δq, δv, u)

in the tangent space of v. Residuals are NumPy functions of arrays with any leading shape. Where no Jacobian is given,
central differences evaluate all perturbations in one call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.checks import numbers, short

if TYPE_CHECKING:
    from warpsim.model.model import Model

MOVE = 6e-6  # step of a central difference: the cube root of the rounding error of float64


def total(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The sum along an axis, in an order independent of the other axes: the same bits for any number of worlds."""
    if not x.shape[axis]:
        return np.zeros(np.delete(x.shape, axis))
    return np.take(np.cumsum(x, axis), -1, axis)


@dataclass(frozen=True)
class Cost:
    """Cost of a motion: Σ_k ℓ(q_k, v_k, u_k) + ℓ_T(q_T, v_T) with ℓ = ½ ‖r‖² + s, in every world.

    Parameters
    ----------
    running : callable or None
        Function of (q, v, u) that returns the residuals r, or (r, s) with a further cost s that is no square (a reward
        is negative). r may be None. None: no running cost.
    terminal : callable, optional
        Function of (q, v) that returns r or (r, s) at the end of the motion. Default: no terminal cost.
    running_jacobian : callable, optional
        Function of (q, v, u) that returns ∂r (..., residuals, 2 nv + nu) with respect to (δq, δv, u), or (∂r, ∂s) with
        ∂s (..., 2 nv + nu). Default: central differences.
    terminal_jacobian : callable, optional
        Function of (q, v) that returns ∂r (..., residuals, 2 nv), or (∂r, ∂s). Default: central differences.

    Raises
    ------
    ValueError
        An argument is no function, or both costs are None.

    Notes
    -----
    Functions get NumPy arrays: of a running cost q (..., knots, worlds, nq), v (..., knots, worlds, nv) and u (...,
    knots, worlds, nu), of a terminal cost q (..., worlds, nq) and v (..., worlds, nv). They return r with one more axis
    at the end, and s with none. Central differences and samples add axes in front, so that a reference (knots, worlds,
    n) broadcasts. Optimizers use the Gauss-Newton model: gradient Jᵀr + ∇s and Hessian JᵀJ with J = ∂r.

    Examples
    --------
    Little control, and forward speed as a reward; at the end q shall be the goal:

    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> goal = np.array([1.0, 0.0])
    >>> cost = ws.Cost(lambda q, v, u: (0.3 * u, -v[..., 0]), lambda q, v: 10.0 * model.difference(goal, q))
    >>> q, v, u = np.zeros((6, 2, 2)), np.zeros((6, 2, 2)), np.ones((5, 2, 1))       # 5 knots, 2 worlds
    >>> cost.value(q, v, u).round(3).tolist()
    [50.225, 50.225]
    """

    running: Callable | None
    terminal: Callable | None = None
    running_jacobian: Callable | None = None
    terminal_jacobian: Callable | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ValueError(f"{name} is {short(value)}; give a function or None")
        if self.running is None and self.terminal is None:
            raise ValueError("a Cost needs a running or a terminal function")

    def value(self, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Compute the cost of a motion in every world.

        Parameters
        ----------
        q : array (..., knots + 1, worlds, nq)
            Positions. Axes in front, such as samples, are kept.
        v : array (..., knots + 1, worlds, nv)
            Velocities.
        u : array (..., knots, worlds, nu)
            Controls.

        Returns
        -------
        array (..., worlds)
            Costs; infinite where a cost is not finite.

        Examples
        --------
        >>> cost = ws.Cost(lambda q, v, u: u)
        >>> cost.value(np.zeros((4, 1, 2)), np.zeros((4, 1, 2)), np.ones((3, 1, 1))).tolist()
        [1.5]
        """
        cost = np.zeros(np.broadcast_shapes(q.shape[:-3], u.shape[:-3]) + (q.shape[-2],))
        if self.running is not None:
            cost = cost + total(_cost(self.running, "running", (q[..., :-1, :, :], v[..., :-1, :, :], u)), -2)
        if self.terminal is not None:
            cost = cost + _cost(self.terminal, "terminal", (q[..., -1, :, :], v[..., -1, :, :]))
        return np.where(np.isfinite(cost), cost, np.inf)

    def model(self, model: "Model", q: np.ndarray, v: np.ndarray, u: np.ndarray) -> Any:
        """Compute gradients and Gauss-Newton Hessians of the cost along a motion.

        Parameters
        ----------
        model : Model
            The model, for its tangent space.
        q : array (knots + 1, worlds, nq)
            Positions.
        v : array (knots + 1, worlds, nv)
            Velocities.
        u : array (knots, worlds, nu)
            Controls.

        Returns
        -------
        running : tuple of arrays (knots, worlds, n) and (knots, worlds, n, n)
            Gradient and Hessian of the running cost with respect to (δq, δv, u), n = 2 nv + nu.
        terminal : tuple of arrays (worlds, n) and (worlds, n, n)
            Gradient and Hessian of the terminal cost with respect to (δq, δv), n = 2 nv.

        Examples
        --------
        >>> model, cost = ws.load(ws.robots.path("cartpole")), ws.Cost(lambda q, v, u: 2.0 * u)
        >>> q, v, u = np.zeros((4, 1, 2)), np.zeros((4, 1, 2)), np.ones((3, 1, 1))
        >>> (gradient, hessian), terminal = cost.model(model, q, v, u)
        >>> gradient.shape, float(gradient[0, 0, 4].round(6)), float(hessian[0, 0, 4, 4].round(6))
        ((3, 1, 5), 4.0, 4.0)
        """
        n = 2 * model.nv
        running = np.zeros((*u.shape[:-1], n + model.nu)), np.zeros((*u.shape[:-1], *[n + model.nu] * 2))
        if self.running is not None:
            running = gauss_newton(model, self.running, self.running_jacobian, "running", (q[:-1], v[:-1], u))
        terminal = np.zeros((q.shape[1], n)), np.zeros((q.shape[1], n, n))
        if self.terminal is not None:
            terminal = gauss_newton(model, self.terminal, self.terminal_jacobian, "terminal", (q[-1], v[-1]))
        return running, terminal


def residuals(function: Callable, name: str, point: tuple) -> tuple[np.ndarray, np.ndarray | None]:
    """r `(..., n)`, and s `(...)` or None, from the result of a cost function, checked."""
    found = function(*point)
    r, s = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    shape = np.broadcast_shapes(*(x.shape[:-1] for x in point))
    if r is None:
        r = np.zeros((*shape, 0))
    r, s = numbers(r, f"what {name} returns"), None if s is None else numbers(s, f"the second that {name} returns")
    if r.shape[:-1] != shape or r.ndim != len(shape) + 1:
        raise ValueError(
            f"{name} returned residuals of shape {r.shape} for q of shape {point[0].shape}; give {shape} + (n,)"
        )
    if s is not None and s.shape != shape:
        raise ValueError(
            f"{name} returned a further cost of shape {s.shape} for q of shape {point[0].shape}; give {shape}"
        )
    return r, s


def _cost(function: Callable, name: str, point: tuple) -> np.ndarray:
    r, s = residuals(function, name, point)
    return 0.5 * total(r * r) + (0.0 if s is None else s)


def gauss_newton(model, function: Callable, jacobian: Callable | None, name: str, point: tuple):
    """Gradient `(..., n)` and Gauss-Newton Hessian `(..., n, n)` of ½ ‖r‖² + s at (q, v) or (q, v, u)."""
    r, _ = residuals(function, name, point)
    J, slope = derivative(model, function, jacobian, name, point)
    JT = np.swapaxes(J, -1, -2)
    return (JT @ r[..., None])[..., 0] + slope, JT @ J


def derivative(model, function: Callable, jacobian: Callable | None, name: str, point: tuple):
    """∂r `(..., residuals, n)` and ∂s `(..., n)`, by `jacobian` or by central differences."""
    nv, shape = model.nv, point[0].shape[:-1]
    n = 2 * nv + (point[2].shape[-1] if len(point) > 2 else 0)
    if jacobian is not None:
        found = jacobian(*point)
        J, slope = found if isinstance(found, tuple) else (found, np.zeros((*shape, n)))
        J = np.zeros((*shape, 0, n)) if J is None else np.broadcast_to(J, (*shape, *np.shape(J)[-2:]))
        if J.shape[-1] != n or np.shape(slope) != (*shape, n):
            raise ValueError(
                f"{name}_jacobian returned {J.shape} and {np.shape(slope)}; the last axis must be {n}: δq, δv, u"
            )
        return J, slope
    move = MOVE * np.concatenate([np.eye(n), -np.eye(n)]).reshape(2 * n, *[1] * len(shape), n)
    moved = (model.displace(point[0], move[..., :nv]), point[1] + move[..., nv : 2 * nv])
    moved += tuple(x + move[..., 2 * nv :] for x in point[2:])
    r, s = residuals(function, name, moved)
    slope = np.zeros((*shape, n)) if s is None else np.moveaxis(s[:n] - s[n:], 0, -1) / (2 * MOVE)
    return np.moveaxis(r[:n] - r[n:], 0, -1) / (2 * MOVE), slope
