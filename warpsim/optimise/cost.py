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
    """The cost Σ_k `running(q_k, v_k, u_k)` + `terminal(q_T, v_T)` of each world's motion.

        cost = ws.Cost(lambda q, v, u: (0.3 * u, -v[..., 0]))     # ½ ‖0.3 u‖² - forward speed
        cost = ws.Cost(running, lambda q, v: 10.0 * np.concatenate([model.difference(goal, q), v], -1))

    Parameters
    ----------
    running, terminal : callable
        Return residuals r, which cost ½ ‖r‖², or (r, s) with an additional cost s that is not a square (a reward is
        negative). A second-order model uses only the gradient of s. r may be None.
    running_jacobian, terminal_jacobian : callable
        Functions of the same arguments. They return ∂r `(..., residuals, 2 nv + nu)` (terminal: 2 nv) in the order δq,
        δv, u, or (∂r, ∂s) with ∂s `(..., 2 nv + nu)`. None: central differences.

    Notes
    -----
    A running cost gets q `(..., knots, worlds, nq)`, v and u; a terminal cost gets q `(..., worlds, nq)` and v. r has
    one more axis at the end, s has none. Differences and samples add leading axes, so a reference `(knots, worlds, n)`
    broadcasts.
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
        """Costs `(..., worlds)` of motions q, v `(..., knots + 1, worlds, n)` under controls u; inf if not finite."""
        cost = np.zeros(np.broadcast_shapes(q.shape[:-3], u.shape[:-3]) + (q.shape[-2],))
        if self.running is not None:
            cost = cost + total(_cost(self.running, "running", (q[..., :-1, :, :], v[..., :-1, :, :], u)), -2)
        if self.terminal is not None:
            cost = cost + _cost(self.terminal, "terminal", (q[..., -1, :, :], v[..., -1, :, :]))
        return np.where(np.isfinite(cost), cost, np.inf)

    def model(self, model: "Model", q: np.ndarray, v: np.ndarray, u: np.ndarray) -> Any:
        """Gradients, Hessians of a motion: running `(knots, worlds, 2nv + nu, ...)`, terminal `(worlds, 2nv, ...)`."""
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
