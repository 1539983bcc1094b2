# SPDX-License-Identifier: Apache-2.0
"""`Plan`: the result of an optimizer of controls. `MPC`: a policy that replans as it goes. Shared argument checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import numbers, short, whole
from warpsim.base.reprs import show
from warpsim.optimise.cost import Cost
from warpsim.simulator import Simulator
from warpsim.state import State

SLACK = 1e-6  # times the range: how far rounding may move a control beyond a limit


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Controls of all worlds and the resulting motion: what `ilqr`, `cem` and `mppi` return.

    Attributes
    ----------
    controls : array (knots, worlds, nu)
        Controls.
    q : array (knots + 1, worlds, nq)
        Positions of the motion under these controls, without noise or feedback.
    v : array (knots + 1, worlds, nv)
        Velocities of this motion.
    cost : array (worlds,)
        Cost; infinite where the motion is not finite.
    history : array (iterations + 1, worlds)
        Cost of the plan before the first iteration, and after each iteration or round of samples.
    status : array (worlds,) of str
        "converged"; "iterations": all were used; "stalled": no step lowers the cost; "untouched": converged or stalled,
        but the cost depends on bodies that the controls never reach; "nonfinite": the first motion, its cost or their
        derivatives are not finite, and the plan is the best so far.
    gains : array (knots, worlds, nu, 2 nv) or None
        Feedback K of `ilqr`: u + K (δq, v − v̂) with δq = model.difference(q̂, q), where q̂ and v̂ are the plan's
        motion.
    effective_samples : array (worlds,) or None
        Number of samples that count in the last iteration of `mppi`: 1 / Σ w² with weights w of sum 1.
    notes : tuple of str
        Of `ilqr`, per world: the bodies that the controls never reach, why the world fell back and what its samples
        found, or "". Else empty.
    fallbacks : array (worlds,) of int or None
        Number of fallbacks of `ilqr` that found a lower cost.
    """

    controls: np.ndarray
    q: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    history: np.ndarray
    status: np.ndarray
    gains: np.ndarray | None = None
    effective_samples: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    fallbacks: np.ndarray | None = None

    def __repr__(self) -> str:
        knots, worlds = self.controls.shape[:2]
        counts = {str(name): int(n) for name, n in zip(*np.unique(self.status, return_counts=True), strict=True)}
        cost = f"{np.median(self.cost):.6g} median"
        return show(
            "Plan",
            {"knots": knots, "worlds": worlds, "cost": cost, "iterations": len(self.history) - 1, "status": counts},
        )


class MPC:
    """A policy for `sim.rollout` that plans again every few steps, over a receding horizon.

    Parameters
    ----------
    plan : callable
        Function of (state, controls, step) that returns a `Plan`, or controls (knots, worlds, nu). `controls` is the
        initial guess: the last plan, shifted by the steps that have passed, with its last row repeated.
    controls : array (knots, worlds, nu)
        The first initial guess.
    every : int
        Number of steps from one plan to the next, at most the number of knots. Default: 1.

    Attributes
    ----------
    plan : Plan or None
        The plan in use.
    step : int
        Number of steps so far.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    If `plan` is interrupted, for example by Ctrl-C, the policy keeps its last plan and step and can continue.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dt=0.02, device="cpu")
    >>> cost = ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: 10.0 * q[..., 1:])                # the pole upright
    >>> def plan(state, controls, step):
    ...     return ws.mppi(sim, state, controls, cost, samples=8)
    >>> policy = ws.MPC(plan, np.zeros((10, 1, 1)))
    >>> sim.rollout(sim.state(q=[0.0, 0.1]), policy, steps=3).q.shape
    (4, 1, 2)
    >>> policy.step, policy.plan.controls.shape
    (3, (10, 1, 1))
    """

    controls: np.ndarray
    every: int
    step: int

    def __init__(self, plan: Callable[..., Any], controls: Numbers, every: int = 1):
        if not callable(plan):
            raise ValueError(f"plan is {short(plan)}; give a function of (state, controls, step)")
        self._make, self.controls, self.every = plan, numbers(controls, "controls"), whole(every, "every", 1)
        if self.controls.ndim != 3 or self.controls.shape[0] < self.every:
            raise ValueError(
                f"controls has shape {self.controls.shape}; give (knots, worlds, nu) with at least every = "
                f"{self.every} knots"
            )
        self.plan: Plan | None = None
        self.step = 0

    def __call__(self, state: State) -> np.ndarray:
        """The controls `(worlds, nu)` of this step."""
        within = self.step % self.every
        if within == 0:
            guess = shifted(self.controls, self.every if self.step else 0)
            found = self._make(state, guess, self.step)
            controls = numbers(getattr(found, "controls", found), "what plan returns")
            if controls.shape != self.controls.shape:
                raise ValueError(f"plan returned controls of shape {controls.shape}; give {self.controls.shape}")
            self.plan, self.controls = (found if isinstance(found, Plan) else None), controls
        self.step += 1
        return self.controls[within]


def shifted(controls: np.ndarray, steps: int) -> np.ndarray:
    """Controls shifted by `steps` knots; the last row is repeated."""
    return np.concatenate([controls[steps:], np.repeat(controls[-1:], steps, axis=0)])


def checked_problem(sim, state, controls, cost, limits):
    """Checked arguments of optimizers of controls: controls within limits (low, high), each `(knots, worlds, nu)`."""
    if not isinstance(sim, Simulator):
        raise ValueError(f"sim is a {type(sim).__name__}; give a Simulator")
    sim._stepper.check_state(state)
    if not isinstance(cost, Cost):
        raise ValueError(f"cost is {short(cost)}; give a ws.Cost")
    if not sim.model.nu:
        raise ValueError(f"model {sim.model.name!r} has no actuators, and so no controls to optimise; add some")
    shape = (sim.worlds, sim.model.nu)
    u = checked_controls(sim, controls)
    ranges = np.broadcast_to(sim.parameters.stored("control_range").numpy().astype(float), (*shape, 2))
    low, high = ranges[..., 0], ranges[..., 1]
    if limits is not None:
        if not isinstance(limits, (tuple, list)) or len(limits) != 2:
            raise ValueError(
                f"limits is {short(limits)}; give (low, high), numbers or arrays that broadcast to {shape}"
            )
        given = [numbers(side, "limits") for side in limits]
        if any(np.broadcast_shapes(side.shape, shape) != shape for side in given) or not (given[0] <= given[1]).all():
            raise ValueError(f"limits is {short(limits)}; give (low, high), low <= high, that broadcast to {shape}")
        low, high = np.maximum(low, given[0]), np.minimum(high, given[1])
        if not (low <= high).all():
            w, i = np.argwhere(low > high)[0]
            raise ValueError(
                f"limits leave nothing of the range of actuator {sim.model.actuator_names[i]!r}, "
                f"{ranges[w, i].tolist()}"
            )
    slack = SLACK * np.maximum(1.0, np.abs(u))
    bad = np.argwhere((u < low - slack) | (u > high + slack))
    if len(bad):
        k, w, i = (int(x) for x in bad[0])
        raise ValueError(
            f"controls is {u[k, w, i]:g} at {(k, w, i)}, beyond the limits [{low[w, i]:g}, {high[w, i]:g}] of actuator "
            f"{sim.model.actuator_names[i]!r}; clip the first guess"
        )
    return np.clip(u, low, high), low, high


def checked_controls(sim: Simulator, controls, name: str = "controls") -> np.ndarray:
    """Finite controls `(knots, worlds, nu)` from a caller's NumPy or Warp array or lists."""
    u = numbers(controls.numpy() if hasattr(controls, "numpy") else controls, name)
    shape = (sim.worlds, sim.model.nu)
    if u.ndim != 3 or u.shape[1:] != shape or not len(u):
        raise ValueError(
            f"{name} has shape {u.shape}; it must be (knots, worlds, nu) = (knots, {shape[0]}, {shape[1]})"
        )
    if not np.isfinite(u).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(u))[0])
        raise ValueError(f"{name} is {u[where]} at {where}; every value must be finite")
    return u
