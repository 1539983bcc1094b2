# SPDX-License-Identifier: Apache-2.0
"""`identify`: physical parameters from recorded motions, by Levenberg-Marquardt in steps that keep them physical.

    min_θ ½ Σ_k ‖r(q_k, v_k)‖²,    x_{k+1} = f(x_k, u_k; θ),    ∂x_{k+1}/∂z = A_k ∂x_k/∂z + (∂f/∂θ) (∂θ/∂z)

with z a step from the best parameters so far (`charts.py`). The sensitivities run forward through the Jacobians of all
steps, which `sim.linearize` computes at once. Each iteration tries several dampings side by side.

Initial states that are unknown too (`free_start`) are eliminated from the normal equations of each world by their
Schur complement, as nuisance parameters of least squares are (Golub & Pereyra 1973): what remains is the information
that the motion has of the parameters when the initial state must be found from the same motion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import flag, number, numbers, short, whole
from warpsim.base.reprs import show
from warpsim.device.recording import tape_paused
from warpsim.device.threads import holds
from warpsim.optimise.box_qp import box_qp
from warpsim.optimise.charts import DELAY, charts
from warpsim.optimise.cost import derivative, residuals, total
from warpsim.optimise.plan import checked_controls
from warpsim.optimise.replicas import Motion, jacobians, replicas
from warpsim.simulator import Simulator
from warpsim.state import State

DAMPINGS = 10.0 ** np.arange(-1.0, 3.0)  # factors on the present damping, all tried at once
# damping relative to the diagonal of JᵀJ: first, least and greatest value, and the factor after a failure
FIRST, LEAST, MOST, RAISE = 1e-3, 1e-12, 1e12, 1e3
SIDE = 2 * len(DAMPINGS)  # candidates side by side: each damping along the charts and straight
FLOOR = 1e-12  # relative to the diagonal's largest entry: coordinates that nothing depends on stay
UNSEEN = 1e3  # roundings of the motion: a smaller sensitivity is none
DELAYED = 10  # knots that the first control is held for before the start, unless `history` says what was
LAST = 1e-6  # [knots] before the end of the longest delay
STILL, SHOWN = 1e-10, 1e-6  # steps below STILL count as none; SHOWN: floor of the diagonal there, relative


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Parameters that `identify` found. `groups` is the number of worlds, or 1 where all worlds share their parameters.

    Attributes
    ----------
    parameters : dict of str to array (worlds, ...)
        Values by name, to assign: `sim.parameters[name] = found.parameters[name]`. "delay" is in knots.
    cost : array (groups,)
        ½ Σ ‖r‖² with the residuals r; infinite where the motion is not finite.
    history : array (iterations + 1, groups)
        Cost before each iteration and after the last.
    status : array (groups,) of str
        "converged"; "iterations": all were used; "stalled": no step lowers the cost; "untouched": the motion depends on
        none of the unknowns; "nonfinite".
    labels : tuple of str
        Names of the unknowns, entry by entry.
    information : array (groups, unknowns, unknowns)
        JᵀJ with respect to steps z from the parameters found (masses and frictions: relative steps). If residuals are
        in units of their noise, its inverse is the covariance of z. An eigenvalue near 0 marks a combination that the
        motions do not show.
    unseen : array (groups, unknowns) of bool
        Whether the motion does not depend on this unknown at all, such as the friction of a geom that touches nothing.
        The unknown is left as it was; `notes` names it.
    start : tuple of arrays (worlds, nq) and (worlds, nv)
        The initial states, found with `free_start`.
    motion : tuple of arrays (knots + 1, worlds, nq) and (knots + 1, worlds, nv)
        The motion with the parameters found.
    """

    parameters: dict[str, np.ndarray]
    cost: np.ndarray
    history: np.ndarray
    status: np.ndarray
    labels: tuple[str, ...]
    information: np.ndarray
    unseen: np.ndarray
    start: tuple[np.ndarray, np.ndarray]
    motion: tuple[np.ndarray, np.ndarray]

    @property
    def notes(self) -> tuple[str, ...]:
        """Per group a sentence that names the unknowns on which the motion does not depend, or ""."""
        texts = []
        for row in self.unseen:
            names = ", ".join(dict.fromkeys(label for label, bad in zip(self.labels, row, strict=True) if bad))
            texts.append(f"the motion does not depend on {names}: left as given" if names else "")
        return tuple(texts)

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
    free_start: bool = False,
    history: Numbers | None = None,
    delay: Numbers | None = None,
    reversals: bool = False,
    jacobian: Callable | None = None,
    iterations: int = 50,
    tolerance: float = 1e-9,
    substeps: int = 1,
) -> Identification:
    """Find the physical parameters that minimize the residuals of recorded motions.

    Parameters
    ----------
    sim : Simulator
        The simulator, whose parameters are the initial guess. It is only read.
    state : State
        The initial states, which are only read.
    controls : array (knots, worlds, nu)
        Controls of the recorded motions.
    residual : callable
        Function of q (..., knots + 1, worlds, nq) and v (..., knots + 1, worlds, nv) that returns residuals (..., knots
        + 1, worlds, residuals): model less measurement, in units of the noise.
    parameters : dict of str to sequence or None
        Names of `sim.parameters`, each with its unknown elements: names, indices, or None for all. For an element with
        several numbers, a pair (element, entry) selects one: `{"geom_solimp": [("box", 0), ("box", 2)]}`. "inertial"
        stands for mass, COM and inertia of a body together. "delay" stands for the delays of actuators in knots:
        controls are held from knot to knot and act this much later; a substep uses their mean over its duration. Masses
        stay positive, inertias stay those of a positive density, and other parameters stay within their bounds.
    shared : bool
        Whether one set of parameters explains all worlds. Default: False, each world has its own.
    free_start : bool
        Whether the initial states are unknown too, one per world, as after a measurement with noise. `state` is then
        their initial guess, and the residual of the first knot counts. Default: False.
    history : array (rows, worlds, nu), optional
        Controls before the first knot, the last row just before it. No delay is longer. Default: the first control,
        held for 10 knots.
    delay : array (worlds, nu), optional
        Initial guess of the delays in knots. Default: the whole number of knots, the same for all actuators, that fits
        best.
    reversals : bool
        Whether dry friction of joints reverses inside a substep, so that derivatives are those of the motion and not of
        the steps (see Notes). It needs `solver=ws.NoContact()`. Default: False.
    jacobian : callable, optional
        Function of (q, v) that returns ∂r (..., residuals, 2 nv) with respect to (δq, δv). Default: central
        differences.
    iterations : int
        Largest number of iterations. Default: 50.
    tolerance : float
        A group has converged once an iteration lowers its cost by less than this fraction. Default: 1e-9.
    substeps : int
        Number of steps that a knot's `sim.dt` is divided into. Default: 1.

    Returns
    -------
    Identification
        The parameters found, their information matrix, and how the fit of each group ended.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    Levenberg-Marquardt in coordinates that keep parameters physical. Within one step, the dry friction of a joint has
    one direction. In a step in which the joint turns around, the motion has an error of the order of the step. The
    derivatives have an error there that shorter steps do not remove, because they belong to friction that reverses at
    the end of a step. `reversals` corrects both. The motion then has other bits than that of `sim.rollout`.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> sim = ws.Simulator(model, dt=0.02, dtype="float64", device="cpu", solver=ws.NoContact())
    >>> sim.parameters["body_mass"] = mass = [1.0, 1.2] * model.body_mass          # the robot: its pole is heavier
    >>> start, u = sim.state(q=[0.0, 0.3]), np.ones((20, 1, 1))
    >>> seen = sim.rollout(start, u).q.numpy()
    >>> sim.parameters["body_mass"] = model.body_mass                              # what we know of it
    >>> found = ws.identify(sim, start, u, lambda q, v: (q - seen) / 0.001, {"body_mass": ["pole"]})
    >>> found.labels, bool(np.allclose(found.parameters["body_mass"][0, 1], mass[1]))
    (('body_mass[pole]',), True)
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
    before = np.repeat(u[:1], DELAYED, axis=0) if history is None else checked_controls(sim, history, "history")
    found = charts(sim.model, parameters, len(before))
    flags = flag(shared, "shared"), flag(free_start, "free_start"), flag(reversals, "reversals")
    if reversals and sim.solver.collides:
        raise ValueError("reversals=True needs a simulator without contact; give Simulator(solver=ws.NoContact())")
    if delay is not None:
        delay = numbers(delay, "delay")
        if delay.shape != (sim.worlds, sim.model.nu) or not ((delay >= 0) & (delay <= len(before))).all():
            raise ValueError(
                f"delay is {short(delay)}; give {(sim.worlds, sim.model.nu)} numbers of knots, 0 to {len(before)}"
            )
    fit = _Fit(sim, state, np.concatenate([before, u]), len(before), residual, jacobian, found, flags, substeps, delay)
    with tape_paused(), np.errstate(over="ignore", invalid="ignore"):  # non-finite values are handled explicitly
        return fit.run(iterations, tolerance)


class _Fit:
    """The state of a fit: per group the best parameters so far, their motion and cost, and the damping.

    `u`: controls, of which the first `before` rows are earlier than the first knot.
    """

    def __init__(self, sim, state, u, before, residual, jacobian, found, flags, substeps, delay):
        shared, free, self.reversals = flags
        self.sim, self.start, self.u, self.residual, self.jacobian = sim, state.numpy(), u, residual, jacobian
        self.charts, self.shared, self.substeps, self.free, self.before = found, shared, substeps, free, before
        self.q, self.v = (self.start[name].astype(float) for name in ("q", "v"))
        self.labels = tuple(label for chart in found for label in chart.labels)
        self.parts = np.cumsum([chart.size for chart in found])[:-1]
        self.values = {}
        for name in (name for chart in found for name in chart.parameters):
            if name == DELAY:
                self.values[name] = np.zeros((sim.worlds, sim.model.nu)) if delay is None else delay.copy()
                self.scans = delay is None
                continue
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
        if DELAY in self.values and self.scans:
            self._scan_delays()
        motion, costs = self._roll([self.values] * SIDE)
        self.motion, self.cost = motion.chosen(np.zeros(self.sim.worlds, int)), costs[0]
        self.status = np.where(np.isfinite(self.cost), "iterations", "nonfinite").astype("<U10")
        history, normal = [self.cost], self._normal()
        for _ in range(iterations):
            going = self.status == "iterations"
            if not going.any():
                break
            moved = self._iterate(going, normal, tolerance)
            history.append(self.cost)
            normal = self._normal() if moved else normal
        unseen = normal.unseen & (self.status != "nonfinite")[:, None]
        self.status[unseen.all(axis=1) & (self.status != "iterations")] = "untouched"
        cost, status, start = self.cost, self.status, (self.q, self.v)
        information, _ = normal.reduced(np.zeros(self.groups))[:2]
        motion = self.motion.q[:, 0], self.motion.v[:, 0]
        return Identification(
            self.values, cost, np.array(history), status, self.labels, information, unseen, start, motion
        )

    def _scan_delays(self) -> None:
        """Begin with the whole number of knots, the same for all unknown delays, that fits best."""
        columns = next(chart.columns for chart in self.charts if chart.parameters == (DELAY,))
        tried = np.minimum(np.arange(-(-(self.before + 1) // SIDE) * SIDE), self.before)
        costs = []
        for first in range(0, len(tried), SIDE):
            candidates = [{name: x.copy() for name, x in self.values.items()} for _ in range(SIDE)]
            for delay, values in zip(tried[first : first + SIDE], candidates, strict=True):
                values[DELAY][:, columns] = delay
            costs.append(self._roll(candidates)[1])
        best = tried[np.argmin(np.concatenate(costs), axis=0)]
        self.values[DELAY][:, columns] = np.broadcast_to(best, self.sim.worlds)[:, None]

    def _moved(self, z: np.ndarray, straight: bool) -> dict[str, np.ndarray]:
        """Parameters `(worlds, ...)` after a step z `(groups, size)` from the best ones so far."""
        values = {name: x.copy() for name, x in self.values.items()}
        z = np.broadcast_to(z, (self.sim.worlds, z.shape[1]))
        for chart, part in zip(self.charts, np.split(z, self.parts, axis=1), strict=True):
            chart.move(values, part, straight)
        return values

    def _roll(self, candidates: list[dict[str, np.ndarray]], starts=None) -> tuple[Motion, np.ndarray]:
        """Motions with each candidate's parameters, and their costs `(candidates, groups)`.

        `starts`: q and v `(candidates, worlds, n)`; None: the best so far.
        """
        wide = replicas(self.sim, len(candidates), self.substeps)
        stacked = {name: np.stack([values[name] for values in candidates]) for name in self.values}
        delay = stacked.pop(DELAY, None)
        for name, values in stacked.items():
            wide.set(name, values)
        q, v = (self.q, self.v) if starts is None else starts

        def policy(knot, *_):
            k = self.before + knot
            return self.u[k] if delay is None else delayed(self.u, delay, k, self.substeps)

        motion = wide.roll(self.start | {"q": q, "v": v}, len(self.u) - self.before, policy, self.reversals)
        r, _ = residuals(self.residual, "residual", tuple(np.moveaxis(x, 1, 0) for x in (motion.q, motion.v)))
        costs = total(0.5 * total(r * r), -2)
        costs = np.where(np.isfinite(costs) & motion.finite, costs, np.inf)
        return motion, total(costs)[:, None] if self.shared else costs

    def _normal(self) -> "_Normal":
        """The normal equations at the motion so far; zero where they are not finite."""
        physical = {name: values for name, values in self.values.items() if name != DELAY}
        inputs = {DELAY: self._delay_slopes()} if DELAY in self.values else None
        A, _, by = jacobians(self.sim, self.motion, physical, inputs, self.reversals)
        slopes = []
        for chart in self.charts:
            parts = ((by[name], *chart.derivative(self.values, name)) for name in chart.parameters)
            slopes.append(sum(J[..., entries] @ slope for J, entries, slope in parts))
        P = np.concatenate(slopes, axis=-1)
        q, v = self.motion.q[:, 0], self.motion.v[:, 0]
        r, _ = residuals(self.residual, "residual", (q, v))
        R, _ = derivative(self.sim.model, self.residual, self.jacobian, "residual", (q, v))
        worlds, n, size = P.shape[1:]
        m = size + (n if self.free else 0)  # the columns of a world: parameters, then its initial state
        S, H, g = np.zeros((worlds, n, m)), np.zeros((worlds, m, m)), np.zeros((worlds, m))
        S[:, :, size:] = np.eye(n)[:, : m - size]
        most = np.zeros((worlds, size))
        for k in range(0 if self.free else 1, len(P) + 1):
            if k:
                S = A[k - 1] @ S
                S[:, :, :size] += P[k - 1]
                most = np.maximum(most, np.abs(S[:, :, :size]).max(axis=1))
            J = R[k] @ S[:, : R.shape[-1]]
            JT = np.swapaxes(J, -1, -2)
            H, g = H + JT @ J, g + (JT @ r[k][..., None])[..., 0]
        length = 1.0 + np.maximum(*(np.abs(x).max(axis=(0, 2), initial=0.0) for x in (q, v)))
        unseen = most <= UNSEEN * np.finfo(self.sim.dtype).eps * length[:, None]
        if self.shared:
            unseen = unseen.all(axis=0, keepdims=True)
        return _Normal(H, g, size, self.shared, unseen)

    def _delay_slopes(self) -> np.ndarray:
        """∂u/∂d `(knots, substeps, worlds, nu)` of the controls that drove the motion."""
        delay = np.minimum(self.values[DELAY], self.before - LAST)  # the longest delay has the slope before it
        return np.stack([delay_slope(self.u, delay, k, self.substeps) for k in range(self.before, len(self.u))])

    def _iterate(self, going: np.ndarray, normal: "_Normal", tolerance: float) -> bool:
        """Try the dampings, keep each group's best where it lowers its cost; whether any did."""
        sides = zip(*(chart.bounds(self.values) for chart in self.charts), strict=True)
        low, high = (np.concatenate(side, axis=1)[: self.groups] for side in sides)
        steps, starts = zip(*(self._step(normal, factor * self.damping, low, high) for factor in DAMPINGS), strict=True)
        tried = [self._moved(step, straight) for straight in (False, True) for step in steps]
        q, v = (np.stack([x[i] for x in starts] * 2) for i in (0, 1))
        motion, costs = self._roll(tried, (q, v))
        best, groups = np.argmin(costs, axis=0), np.arange(self.groups)
        cost = costs[best, groups]
        gained = np.where(going, self.cost, 0.0) - cost
        accepted = going & (gained > 0.0)
        descent = np.clip(-normal.slope / np.maximum(normal.scale, SHOWN * normal.largest), low, high)
        still = (np.abs(descent) <= STILL).all(axis=1)
        worlds, which = (np.broadcast_to(x, self.sim.worlds) for x in (accepted, best))
        self.motion = self.motion.updated(worlds, motion.chosen(which))
        at = which, np.arange(len(which))
        for name, kept in self.values.items():
            self.values[name] = _mixed(worlds, np.stack([values[name] for values in tried])[at], kept)
        self.q, self.v = _mixed(worlds, q[at], self.q), _mixed(worlds, v[at], self.v)
        self.cost = np.where(accepted, cost, self.cost)
        chosen = np.maximum(np.tile(DAMPINGS, 2)[best] * self.damping, LEAST)
        self.damping = np.where(accepted, chosen, np.where(going, RAISE * self.damping, self.damping))
        self.status[going & (self.damping > MOST)] = "stalled"
        self.status[(going & still) | (accepted & (gained <= tolerance * self.cost))] = "converged"
        return bool(accepted.any())

    def _step(self, normal: "_Normal", damping: np.ndarray, low, high):
        """A damped step of the parameters `(groups, size)`, and its initial states q, v `(worlds, n)`."""
        H, g, back = normal.reduced(damping)
        step = box_qp(H, g, low, high)[0]
        if not self.free:
            return step, (self.q, self.v)
        x, nv = back(step), self.sim.model.nv
        return step, (self.sim.model.displace(self.q, x[:, :nv]), self.v + x[:, nv:])


def delayed(u: np.ndarray, delay: np.ndarray, k: int, substeps: int = 1) -> np.ndarray:
    """Mean controls `(substeps, ..., worlds, nu)` of the substeps of row k, for delays d `(..., worlds, nu)` in rows.

    Each row of u `(rows, worlds, nu)` is held until the next. With one substep, the means are linear between rows.
    """
    ends, place = _substeps(delay, k, substeps), np.ogrid[: delay.shape[-2], : delay.shape[-1]]
    first = np.floor(ends[0]).astype(int)
    at = ends - first  # from the beginning of row `first`; all substeps are in this row and the next
    until = np.minimum(at, 1.0) * _row(u, first, place) + np.maximum(at - 1.0, 0.0) * _row(u, first + 1, place)
    return substeps * np.diff(until, axis=0)


def delay_slope(u: np.ndarray, delay: np.ndarray, k: int, substeps: int = 1) -> np.ndarray:
    """Derivatives of `delayed` with respect to the delays."""
    ends, place = _substeps(delay, k, substeps), np.ogrid[: delay.shape[-2], : delay.shape[-1]]
    held = np.stack([_row(u, np.ceil(t).astype(int) - 1, place) for t in ends])
    return -substeps * np.diff(held, axis=0)


def _substeps(delay: np.ndarray, k: int, substeps: int) -> np.ndarray:
    """Ends `(substeps + 1, ...)` of the substeps of row k, less the delays, in rows."""
    parts = np.arange(substeps + 1).reshape(-1, *[1] * delay.ndim) / substeps
    return k + parts - delay


def _row(u: np.ndarray, row: np.ndarray, place) -> np.ndarray:
    return u[np.clip(row, 0, len(u) - 1), place[0], place[1]]


def _mixed(worlds: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """`new` in the chosen worlds, `old` in the others."""
    return np.where(worlds.reshape(-1, *[1] * (old.ndim - 1)), new, old)


class _Normal:
    """Normal equations H z = -g of all worlds: the first `size` columns are parameters, the rest initial states.

    `slope`, `scale`, `largest` are those of the parameters by group: Jᵀr, the diagonal of JᵀJ, and its largest entry.
    `unseen (groups, size)`: unknowns that the motion does not depend on.
    """

    def __init__(self, H: np.ndarray, g: np.ndarray, size: int, shared: bool, unseen: np.ndarray):
        usable = np.isfinite(H).all(axis=(1, 2)) & np.isfinite(g).all(axis=1)
        if shared:
            usable[:] = usable.all()
        self.H, self.g = np.where(usable[:, None, None], H, 0.0), np.where(usable[:, None], g, 0.0)
        self.size, self.shared, self.unseen = size, shared, unseen
        self.slope = self._summed(self.g[:, :size])
        self.scale, self.largest = self._scales(self._summed(np.diagonal(self.H, axis1=1, axis2=2)[:, :size]))

    def _summed(self, x: np.ndarray) -> np.ndarray:
        return total(x, 0)[None] if self.shared else x

    def _scales(self, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        largest = diagonal.max(axis=1, keepdims=True, initial=0.0) + 1e-100
        return np.maximum(diagonal, FLOOR * largest), largest

    def reduced(self, damping: np.ndarray):
        """Matrix and gradient for the parameters alone `(groups, size, ...)`, both damped relative to their diagonal.

        Also a function of a step of the parameters that gives the steps of the initial states `(worlds, n)`.
        """
        size, worlds = self.size, len(self.H)
        H, g = self.H[:, :size, :size], self.g[:, :size]
        back = None
        if self.H.shape[-1] > size:
            X, C = self.H[:, size:, size:], self.H[:, size:, :size]
            scale, _ = self._scales(np.diagonal(X, axis1=1, axis2=2))
            more = (np.broadcast_to(damping, worlds)[:, None] + FLOOR) * scale
            Y = np.linalg.solve(
                X + more[..., None] * np.eye(X.shape[-1]), np.concatenate([C, self.g[:, size:, None]], -1)
            )
            CT = np.swapaxes(C, -1, -2)
            H, g = H - CT @ Y[..., :size], g - (CT @ Y[..., size:])[..., 0]

            def back(step: np.ndarray) -> np.ndarray:
                z = np.broadcast_to(step, (worlds, size))
                return -(Y[..., :size] @ z[..., None] + Y[..., size:])[..., 0]

        H, g = self._summed(H), self._summed(g)
        return H + (damping[:, None] * self.scale)[..., None] * np.eye(size), g, back
