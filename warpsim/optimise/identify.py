# SPDX-License-Identifier: Apache-2.0
"""`identify`: physical parameters from recorded motions, by Levenberg-Marquardt in steps that keep them physical.

    min_θ ½ Σ_k ‖r(q_k, v_k)‖²,    x_{k+1} = f(x_k, u_k; θ),    ∂x_{k+1}/∂z = A_k ∂x_k/∂z + (∂f/∂θ) (∂θ/∂z)

with z a step from the best parameters so far (`charts.py`). The sensitivities run forward through the Jacobians of all
steps, which `sim.linearize` computes at once. Each iteration tries several dampings side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import flag, number, short, whole
from warpsim.base.reprs import show
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.box_qp import box_qp
from warpsim.optimise.charts import charts
from warpsim.optimise.cost import derivative, residuals, total
from warpsim.optimise.plan import checked_controls
from warpsim.optimise.replicas import Motion, jacobians, replicas
from warpsim.simulator import Simulator
from warpsim.state import State

DAMPINGS = 10.0 ** np.arange(-1.0, 3.0)  # factors on the present damping, all tried at once
# damping relative to the diagonal of JᵀJ: first, least and greatest value, and the factor after a failure
FIRST, LEAST, MOST, RAISE = 1e-3, 1e-12, 1e12, 1e3
FLOOR = 1e-12  # relative to the diagonal's largest entry: coordinates that nothing depends on stay
STILL, SHOWN = 1e-10, 1e-6  # steps below STILL count as none; SHOWN: floor of the diagonal there, relative


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """The result of `identify`. `groups` is the number of worlds, or 1 where all share their parameters.

    parameters   name -> (worlds, ...), to assign: `sim.parameters[name] = found.parameters[name]`
    cost         (groups,) ½ Σ ‖r‖²; inf where the motion is not finite
    history      (iterations + 1, groups) cost before each iteration and after the last
    status       (groups,) "converged", "iterations" (all were used), "stalled" (no step lowers the cost), or
                 "nonfinite"
    labels       names of the unknowns, entry by entry
    information  (groups, len(labels), len(labels)) JᵀJ with respect to steps z from the parameters found (masses and
                 frictions: relative steps; `warpsim/optimise/charts.py`). If residuals are in units of their noise, its
                 inverse is the covariance of z. An eigenvalue near 0 marks a combination that the motions do not show.
    """

    parameters: dict[str, np.ndarray]
    cost: np.ndarray
    history: np.ndarray
    status: np.ndarray
    labels: tuple[str, ...]
    information: np.ndarray

    def __repr__(self) -> str:
        counts = {str(name): int(n) for name, n in zip(*np.unique(self.status, return_counts=True), strict=True)}
        values = {"unknowns": len(self.labels), "groups": len(self.cost), "cost": f"{np.median(self.cost):.6g} median"}
        return show("Identification", values | {"iterations": len(self.history) - 1, "status": counts})


@holds
def identify(
    sim: Simulator,
    state: State,
    controls: Numbers,
    residual: Callable,
    parameters: dict[str, Any],
    *,
    shared: bool = False,
    jacobian: Callable | None = None,
    iterations: int = 50,
    tolerance: float = 1e-9,
    substeps: int = 1,
) -> Identification:
    """Find the parameters that minimize the residuals of the motions from `state` under `controls`.

        def residual(q, v):                       # q (..., knots + 1, worlds, nq): measured, in units of the noise
            return np.concatenate([model.difference(seen_q, q) / 0.005, (v - seen_v) / 0.05], axis=-1)

        found = ws.identify(sim, state, controls, residual, {"body_mass": ["pole"], "joint_damping": None})

    Parameters
    ----------
    sim, state : Simulator, State
        The simulator, whose parameters are the initial guess, and the initial states. Both are only read.
    controls : array
        Controls `(knots, worlds, nu)` of the recorded motions.
    residual, jacobian : callable
        Take and return arrays as a `ws.Cost` does. `jacobian` (optional) returns ∂r with respect to (δq, δv).
    parameters : dict
        Names of `sim.parameters`, each with its unknown elements (names, indices, or None: all). Of an element with
        several numbers a pair takes one: `{"geom_solimp": [("box", 0), ("box", 2)]}`. "inertial" stands for mass, COM
        and inertia of a body together. Masses stay positive, inertias stay those of a positive density, and the rest
        stays within its bounds.
    shared : bool
        One set of parameters explains all worlds; else each world has its own.
    iterations : int
        Largest number of iterations.
    tolerance : float
        A world has converged once an iteration lowers its cost by less than this fraction.
    substeps : int
        Number of parts that sim.dt is divided into.

    Raises
    ------
    ValueError
        Names the argument.
    """
    if not isinstance(sim, Simulator):
        raise ValueError(f"sim is a {type(sim).__name__}; give a Simulator")
    sim._stepper.check_state(state)
    for name, value in (("residual", residual), ("jacobian", jacobian)):
        if not callable(value) and (value is not None or name == "residual"):
            raise ValueError(f"{name} is {short(value)}; give a function")
    iterations, substeps = whole(iterations, "iterations", 0), whole(substeps, "substeps", 1)
    tolerance = number(tolerance, "tolerance", "it must not be negative", lambda x: 0.0 <= x < np.inf)
    u = checked_controls(sim, controls)
    fit = _Fit(sim, state, u, residual, jacobian, charts(sim.model, parameters), flag(shared, "shared"), substeps)
    with tape_paused(), np.errstate(over="ignore", invalid="ignore"):  # non-finite values are handled explicitly
        return fit.run(iterations, tolerance)


class _Fit:
    """The state of a fit: per group the best parameters so far, their motion and cost, and the damping."""

    def __init__(self, sim, state, u, residual, jacobian, found, shared, substeps):
        self.sim, self.start, self.u, self.residual, self.jacobian = sim, state, u, residual, jacobian
        self.charts, self.shared, self.substeps = found, shared, substeps
        self.labels = tuple(label for chart in found for label in chart.labels)
        self.parts = np.cumsum([chart.size for chart in found])[:-1]
        self.values = {}
        for name in (name for chart in found for name in chart.parameters):
            values = sim.parameters.stored(name).numpy().astype(float)
            self.values[name] = np.broadcast_to(values, (sim.worlds, *values.shape[1:])).copy()
            if shared and not (self.values[name] == self.values[name][:1]).all():
                raise ValueError(f"shared=True, but the worlds of sim.parameters[{name!r}] differ; give them one value")
        for chart in found:
            chart.check(self.values)
        self.groups = 1 if shared else sim.worlds
        self.damping = np.full(self.groups, FIRST)

    def run(self, iterations: int, tolerance: float) -> Identification:
        """Iterate until every group has stopped."""
        motion, costs = self._roll([self.values] * 2 * len(DAMPINGS))
        self.motion, self.cost = motion.chosen(np.zeros(self.sim.worlds, int)), costs[0]
        self.status = np.where(np.isfinite(self.cost), "iterations", "nonfinite").astype("<U10")
        history, normal = [self.cost], self._normal()
        for _ in range(iterations):
            going = self.status == "iterations"
            if not going.any():
                break
            self._iterate(going, normal, tolerance)
            history.append(self.cost)
            normal = self._normal()
        return Identification(self.values, self.cost, np.array(history), self.status, self.labels, normal[0])

    def _moved(self, z: np.ndarray, straight: bool) -> dict[str, np.ndarray]:
        """Parameters `(worlds, ...)` after a step z `(groups, size)` from the best ones so far."""
        values = {name: x.copy() for name, x in self.values.items()}
        z = np.broadcast_to(z, (self.sim.worlds, z.shape[1]))
        for chart, part in zip(self.charts, np.split(z, self.parts, axis=1), strict=True):
            chart.move(values, part, straight)
        return values

    def _roll(self, candidates: list[dict[str, np.ndarray]]) -> tuple[Motion, np.ndarray]:
        """Motions with each candidate's parameters, and their costs `(candidates, groups)`."""
        wide = replicas(self.sim, len(candidates), self.substeps)
        for name in self.values:
            wide.set(name, np.stack([values[name] for values in candidates]))
        motion = wide.roll(self.start, len(self.u), lambda knot, q, v: self.u[knot])
        r, _ = residuals(self.residual, "residual", tuple(np.moveaxis(x, 1, 0) for x in (motion.q, motion.v)))
        costs = total(0.5 * total(r * r), -2)
        costs = np.where(np.isfinite(costs) & motion.finite, costs, np.inf)
        return motion, total(costs)[:, None] if self.shared else costs

    def _normal(self) -> tuple[np.ndarray, np.ndarray]:
        """JᵀJ `(groups, size, size)` and Jᵀr `(groups, size)` at the motion so far; zero where they are not finite."""
        A, _, by = jacobians(self.sim, self.motion, self.values)
        slopes = []
        for chart in self.charts:
            parts = ((by[name], *chart.derivative(self.values, name)) for name in chart.parameters)
            slopes.append(sum(J[..., entries] @ slope for J, entries, slope in parts))
        P = np.concatenate(slopes, axis=-1)
        point = self.motion.q[:, 0], self.motion.v[:, 0]
        r, _ = residuals(self.residual, "residual", point)
        R, _ = derivative(self.sim.model, self.residual, self.jacobian, "residual", point)
        worlds, size = P.shape[1], P.shape[3]
        S, H, g = np.zeros(P.shape[1:]), np.zeros((worlds, size, size)), np.zeros((worlds, size))
        for k in range(len(P)):
            S = A[k] @ S + P[k]
            J = R[k + 1] @ S[:, : R.shape[-1]]
            JT = np.swapaxes(J, -1, -2)
            H, g = H + JT @ J, g + (JT @ r[k + 1][..., None])[..., 0]
        if self.shared:
            H, g = total(H, 0)[None], total(g, 0)[None]
        usable = np.isfinite(H).all(axis=(1, 2)) & np.isfinite(g).all(axis=1)
        return np.where(usable[:, None, None], H, 0.0), np.where(usable[:, None], g, 0.0)

    def _iterate(self, going: np.ndarray, normal, tolerance: float) -> None:
        """Try the dampings, keep each group's best where it lowers its cost."""
        H, g = normal
        diagonal = np.diagonal(H, axis1=1, axis2=2)
        largest = diagonal.max(axis=1, keepdims=True) + 1e-100
        scale = np.maximum(diagonal, FLOOR * largest)
        sides = zip(*(chart.bounds(self.values) for chart in self.charts), strict=True)
        low, high = (np.concatenate(side, axis=1)[: self.groups] for side in sides)
        damped = (
            H + (factor * self.damping)[:, None, None] * (scale[:, None, :] * np.eye(len(self.labels)))
            for factor in DAMPINGS
        )
        steps = [box_qp(each, g, low, high)[0] for each in damped]
        tried = [self._moved(step, straight) for straight in (False, True) for step in steps]
        motion, costs = self._roll(tried)
        best, groups = np.argmin(costs, axis=0), np.arange(self.groups)
        cost = costs[best, groups]
        gained = np.where(going, self.cost, 0.0) - cost
        accepted = going & (gained > 0.0)
        descent = np.clip(-g / np.maximum(scale, SHOWN * largest), low, high)
        still = (np.abs(descent) <= STILL).all(axis=1)
        worlds, which = (np.broadcast_to(x, self.sim.worlds) for x in (accepted, best))
        self.motion = self.motion.updated(worlds, motion.chosen(which))
        for name, kept in self.values.items():
            new = np.stack([values[name] for values in tried])[which, np.arange(len(which))]
            self.values[name] = np.where(worlds.reshape(-1, *[1] * (kept.ndim - 1)), new, kept)
        self.cost = np.where(accepted, cost, self.cost)
        chosen = np.maximum(np.tile(DAMPINGS, 2)[best] * self.damping, LEAST)
        self.damping = np.where(accepted, chosen, np.where(going, RAISE * self.damping, self.damping))
        self.status[going & (self.damping > MOST)] = "stalled"
        self.status[(going & still) | (accepted & (gained <= tolerance * self.cost))] = "converged"
