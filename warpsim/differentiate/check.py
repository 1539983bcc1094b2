# SPDX-License-Identifier: Apache-2.0
"""`check_gradients`: compares the gradients of a user's own model with central differences over a sweep of step sizes.

A difference is evidence only where it converges. Where neighboring step sizes disagree, or the two one-sided
differences do, the report names the reason: a kink, contacts that come or go, or a motion that amplifies round-off.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpsim.base.annotations import Numbers
from warpsim.base.checks import choice, flag, numbers, positive, several, whole
from warpsim.device.copies import SCALARS
from warpsim.device.threads import holds
from warpsim.differentiate.taped import BY_STEP, STATE_NAMES, Inputs, TapedRollout, device_array, input_shapes
from warpsim.differentiate.trust import HOP_STEPS, RELATIVE_STEP, TOLERANCE, GradientTrust, ImpactCount, measure_trust
from warpsim.kernels.differentiate.lcp_residual import TOUCHING
from warpsim.kernels.flags import NONFINITE
from warpsim.model.parameters import SPECS

if TYPE_CHECKING:
    from warpsim.simulator import Simulator
    from warpsim.state import State

STEP_SIZES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# Gradients below this are compared absolutely: a variable without effect has a gradient of 0.
SMALLEST_SCALE = 1e-3
# Where differences do not settle, a growth of the gradient over the horizon beyond this is blamed on chaos.
CHAOTIC_GROWTH = 1e3
# With a solver tolerance of this or below, differences can be accurate to 1e-6 relative.
FINE_TOLERANCE = 1e-10

# A one-sided difference has settled when the next step size changes it by at most this share of the gap between both
# sides. The gap of a smooth function shrinks tenfold, and each side then changes by about as much.
SETTLED = 0.1

OK, WRONG, MEANINGLESS = "ok", "WRONG", "meaningless"


@dataclasses.dataclass
class GradientRow:
    """The result of `check_gradients` for one variable at one horizon.

    Attributes
    ----------
    variable : str
        Name of the variable.
    horizon : int
        Number of steps after which the loss is taken.
    error : float
        Largest |gradient − difference| / max |gradient| over the checked entries, each with its best step size. Entries
        whose differences converge to no value are left out.
    step_size : float
        Step size of the difference of the entry with the largest error.
    where : str
        World and index of the entry with the largest error.
    growth : float
        Norm of the gradient at this horizon with respect to the variable.
    verdict : str
        "ok", "WRONG", or "meaningless": the differences of no entry converge.
    compared : int
        Number of entries and directions whose differences were compared.
    notes : list of str
        Why the other differences were not compared, with their number.
    """

    variable: str
    horizon: int
    error: float
    step_size: float
    where: str
    growth: float
    verdict: str
    compared: int
    notes: list[str]


class GradientCheck:
    """The report of `check_gradients`; `print` shows it as a table.

    Attributes
    ----------
    rows : list of GradientRow
        One row per variable and horizon.
    notes : list of str
        What limits the accuracy of the comparison.
    trust : GradientTrust or None
        Whether correct gradients are also useful; None unless it was asked for.
    """

    rows: list[GradientRow]
    notes: list[str]
    trust: GradientTrust | None

    def __init__(self, rows: list[GradientRow], notes: list[str], trust: GradientTrust | None = None):
        self.rows, self.notes, self.trust = rows, notes, trust

    @property
    def ok(self) -> bool:
        """True if every difference that was compared agrees with its gradient."""
        return all(row.verdict != WRONG for row in self.rows)

    def worst(self, horizon: int | None = None) -> float:
        """The largest relative error.

        Parameters
        ----------
        horizon : int, optional
            The horizon. Default: all of them.

        Returns
        -------
        float
            The error; NaN where no difference was compared.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dtype="float64", device="cpu", requires_grad=True)
        >>> ws.check_gradients(sim, horizons=[2], variables=["v"]).worst() < 1e-5
        True
        """
        errors = [row.error for row in self.rows if horizon in (None, row.horizon) and row.compared]
        return max(errors, default=float("nan"))

    def __repr__(self) -> str:
        wrong = sum(row.verdict == WRONG for row in self.rows)
        return (
            f"GradientCheck({len(self.rows)} rows, {wrong} wrong, worst relative error {self.worst():.1e}; "
            "print it for the table)"
        )

    def __str__(self) -> str:
        lines = [f"{'variable':24s} {'steps':>5s} {'rel. error':>10s} {'step size':>9s} {'|gradient|':>10s}  verdict"]
        for r in self.rows:
            numbers = f"{r.error:10.1e} {r.step_size:9.0e}" if r.compared else f"{'-':>10s} {'-':>9s}"
            where = f" at {r.where}" if r.verdict == WRONG else ""
            notes = f" ({'; '.join(r.notes)})" if r.notes else ""
            lines.append(f"{r.variable:24s} {r.horizon:5d} {numbers} {r.growth:10.2e}  {r.verdict}{where}{notes}")
        trust = [] if self.trust is None else ["", str(self.trust)]
        return "\n".join(lines + self.notes + trust)


@holds
def check_gradients(
    sim: "Simulator",
    state: "State | None" = None,
    controls: Numbers | None = None,
    *,
    horizons: Sequence[float] = (1, 10, 40),
    parameters: Sequence[str] = (),
    variables: Sequence[str] = ("q", "v", "activation", "controls", "mocap"),
    entries: int = 8,
    step_sizes: Sequence[float] = STEP_SIZES,
    tolerance: float = 1e-5,
    substeps: int = 1,
    seed: int = 0,
    trust: bool = False,
) -> GradientCheck:
    """Compare the gradients of a simulator with central differences.

    The loss is a random linear function of the state after some steps. Each variable is checked in every world, along
    some of its entries and along one random direction. Parameters are unchanged afterwards.

    Parameters
    ----------
    sim : Simulator
        A simulator made with `requires_grad=True`, preferably in float64.
    state : State, optional
        The initial state. Mocap bodies keep the poses that they have in it. Default: `sim.state()`.
    controls : array (steps, worlds, nu), optional
        Controls of as many steps as the largest horizon. Default: random, from the middle third of the control range.
    horizons : sequence of int
        Numbers of steps after which the loss is taken. Default: 1, 10 and 40.
    parameters : sequence of str
        Physical parameters to check, at their present values. Default: none.
    variables : sequence of str
        Inputs of the rollout to check. Default: "q", "v", "activation", "controls" and "mocap", where the model has
        them.
    entries : int
        Number of entries to check in each variable. Default: 8.
    step_sizes : sequence of float
        Step sizes of the differences: relative to the largest entry of a parameter, absolute for q, v and activations.
        Default: 1e-4 to 1e-8.
    tolerance : float
        Relative error up to which a gradient is right. Default: 1e-5.
    substeps : int
        As in `Simulator.rollout`. Default: 1.
    seed : int
        Seed of the random loss, controls and directions. Default: 0.
    trust : bool
        Whether to add the report of `Objective.trust` on the loss after the longest horizon, with respect to all
        checked variables. Default: False.

    Returns
    -------
    GradientCheck
        The report; `print` shows it as a table.

    Raises
    ------
    ValueError
        The simulator has no gradients, a name in `variables` or `parameters` does not exist, or nothing is left to
        check.

    Warns
    -----
    UserWarning
        The simulator is float32, where differences are coarse.

    Notes
    -----
    A central difference is a reference only if it converges as the step size falls. If it does not, the report says
    why: the loss has a kink, contacts come or go, or the motion amplifies rounding errors. Differences are coarse if
    the solver's tolerance is loose; `notes` says so.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), dtype="float64", device="cpu", requires_grad=True)
    >>> found = ws.check_gradients(sim, horizons=[5], parameters=["body_mass"], entries=2)
    >>> found.ok, [row.variable for row in found.rows]
    (True, ['q', 'v', 'controls', 'body_mass'])
    """
    if not getattr(sim, "requires_grad", False):
        raise ValueError("check_gradients needs a simulator made with requires_grad=True")
    horizons, parameters, variables = _request(sim, horizons, parameters, variables)
    for name, value, least in (("entries", entries, 1), ("substeps", substeps, 1), ("seed", seed, 0)):
        whole(value, name, least)
    positive(tolerance, "tolerance")
    flag(trust, "trust")
    step_sizes = tuple(
        positive(size, "an entry of step_sizes") for size in np.atleast_1d(numbers(step_sizes, "step_sizes"))
    )
    if not step_sizes:
        raise ValueError("step_sizes is empty; give at least one")
    if sim.dtype == "float32":
        warnings.warn(
            "check_gradients in float32: differences are good to 1e-2 at best; use dtype='float64'", stacklevel=4
        )
    checker = _Checker(sim, state, controls, horizons, parameters, variables, substeps, seed)
    try:
        rows = []
        for name in checker.names:
            rows += checker.rows(name, entries, step_sizes, tolerance)
        return GradientCheck(rows, _notes(sim, checker.point), checker.trust() if trust else None)
    finally:
        checker.restore()


def _request(sim, horizons, parameters, variables):
    """The sorted horizons, and the checked names of parameters and variables."""
    horizons = [horizons] if np.ndim(horizons) == 0 else horizons
    horizons = tuple(sorted({whole(h, "an entry of horizons", 1) for h in horizons}))
    if not horizons:
        raise ValueError("horizons is empty; give at least one number of steps")
    parameters, variables = (
        several(parameters, "parameters", "give names"),
        several(variables, "variables", "give names"),
    )
    for name in parameters:
        choice(name, "an entry of parameters", SPECS)
    for name in variables:
        choice(name, "an entry of variables", (*STATE_NAMES, *BY_STEP))
    m = sim.model
    missing = {name for name, n in (("controls", m.nu), ("mocap", m.nmocap), ("activation", m.na)) if not n}
    if not parameters and not set(variables) - missing:
        raise ValueError("nothing to check: variables and parameters name nothing that this model has")
    return horizons, parameters, variables


class _Checker:
    """Rollouts of one simulator from one point, and their losses per world and horizon."""

    def __init__(self, sim, state, controls, horizons, parameters, variables, substeps, seed):
        self.sim, self.horizons, self.steps, self.substeps = sim, horizons, horizons[-1], substeps
        self.random = np.random.default_rng(seed)
        shapes = input_shapes(sim, self.steps, parameters)
        state = sim.state() if state is None else state
        sim._stepper.check_state(state)
        self.point = {name: state.arrays()[name].numpy() for name in sim._inputs.start_sizes}
        if sim.model.nu:
            self.point["controls"] = self._controls(controls, shapes["controls"])
        if sim.model.nmocap:
            self.point["mocap"] = np.broadcast_to(state.mocap.numpy(), shapes["mocap"])
        self.point |= {name: sim.parameters[name].numpy() for name in parameters}
        self.point = {name: np.array(x, float).reshape(shapes[name]) for name, x in self.point.items()}
        self.names = [name for name in self.point if name in (*variables, *parameters)]
        self.weights = {name: self.random.normal(size=n) for name, n in sim._inputs.start_sizes.items()}
        self.loss0, self.contacts0 = self.losses(self.point)
        self.impacts0 = self.impacts
        stopped = self.trajectory.diagnostics["flags"].numpy() & int(NONFINITE)
        self.stopped = stopped[np.array(horizons) - 1] != 0
        self.gradients = {h: self._gradient(h) for h in horizons}

    def _controls(self, controls, shape) -> np.ndarray:
        if controls is not None:
            given = numbers(controls.numpy() if hasattr(controls, "numpy") else controls, "controls")
            if given.ndim != 3 or given.shape[0] < shape[0] or given.shape[1:] != shape[1:]:
                raise ValueError(f"controls has shape {given.shape}; the longest horizon needs {shape}")
            return given[: shape[0]]
        low, high = np.clip(self.sim.model.control_range, -1.0, 1.0).T
        return (low + high) / 2 + self.random.uniform(-1, 1, size=shape) * (high - low) / 6

    def _arrays(self, point):
        return {name: device_array(self.sim, name, x, x.shape) for name, x in point.items()}

    def losses(self, point, progress=None):
        """Loss (horizons, worlds), and the number of contacts after every step (steps, worlds).

        `impacts`: the number of impacts from the first step to each (steps, worlds), where steps resolve them.
        """
        inputs = Inputs(self.sim, self._arrays(point))
        counts = ImpactCount(self.sim) if self.sim.time_of_impact and progress is None else None
        progress = progress if counts is None else counts
        options = {"substeps": self.substeps, "progress": progress}
        t = self.trajectory = self.sim.rollout(inputs.start, inputs.controls, self.steps, mocap=inputs.mocap, **options)
        self.impacts = None if counts is None else np.cumsum(counts.steps, axis=0)
        rows = list(self.horizons)
        parts = (getattr(t, name).numpy()[rows].astype(float) @ weight for name, weight in self.weights.items())
        return sum(parts), t.diagnostics["contacts"].numpy().copy()

    def _gradient(self, horizon: int) -> dict[str, np.ndarray]:
        point = {name: x[:horizon] if name in BY_STEP else x for name, x in self.point.items()}
        run = TapedRollout(self.sim, self._arrays(point), horizon, substeps=self.substeps)
        seeds = {}
        for name, weight in self.weights.items():
            array = getattr(run.trajectory, name)
            values = np.zeros(array.shape)
            values[-1] = weight
            seeds[array] = device_array(self.sim, "gradient", values, values.shape)
        found = {name: x.numpy().astype(float) for name, x in run.gradients(grads=seeds).items()}
        for name in BY_STEP:
            if name in found:
                found[name] = np.concatenate([found[name], np.zeros_like(self.point[name][horizon:])])
        return found

    def directions(self, name: str, entries: int) -> list[tuple[str, np.ndarray]]:
        """Directions: single entries and one random mixture, shaped to broadcast over the worlds' axis."""
        axis = 1 if name in BY_STEP else 0
        value = self.point[name]
        free = np.isfinite(value).all(axis=axis)
        indices = [tuple(i) for i in np.argwhere(free)]
        if name == "body_inertia":
            indices = [i for i in indices if i[-2] <= i[-1]]
        if name in BY_STEP:  # half of the entries lie where the shortest horizon sees them
            early = [i for i in indices if i[0] < self.horizons[0]]
            chosen = self._choose(early, entries // 2) + self._choose(indices, entries - entries // 2)
        else:
            chosen = self._choose(indices, entries)
        unit = 1.0 if name in (*STATE_NAMES, "mocap") else np.abs(value[np.isfinite(value)]).max(initial=0.0) or 1.0
        found = []
        for index in dict.fromkeys(chosen):
            direction = np.zeros(free.shape)
            direction[index] = unit
            if name == "body_inertia":  # only its symmetric part has an effect
                direction[(*index[:-2], index[-1], index[-2])] = unit
            direction = np.expand_dims(direction, axis)
            if name == "joint_axis":  # its length is 1, so that only directions across it count
                direction = direction - (direction * value).sum(-1, keepdims=True) * value
            if np.abs(direction).max() > 1e-6 * unit:
                found.append((str(tuple(int(i) for i in index)), direction))
        if len(found) > 1:
            mixture = sum(self.random.normal() * direction for _, direction in found) / len(found)
            found.append(("a random direction", mixture))
        return found

    def _choose(self, indices, count: int):
        if len(indices) <= count:
            return indices
        return [indices[k] for k in self.random.choice(len(indices), count, replace=False)]

    def rows(self, name: str, entries: int, step_sizes, tolerance: float) -> list[GradientRow]:
        """One row per horizon."""
        axes = {
            h: tuple(i for i in range(g[name].ndim) if i != (1 if name in BY_STEP else 0))
            for h, g in self.gradients.items()
        }
        scale = np.array([np.abs(self.gradients[h][name]).max(axis=axes[h]) for h in self.horizons])
        scale = np.maximum(scale, SMALLEST_SCALE)
        found = [[] for _ in self.horizons]
        for label, direction in self.directions(name, entries):
            expected = np.array([(self.gradients[h][name] * direction).sum(axis=axes[h]) for h in self.horizons])
            size = np.abs(direction).max()
            sweep = [self._difference(name, direction, s) for s in step_sizes]
            for k, w in np.ndindex(expected.shape):
                until = self.horizons[k]
                entry = _judge(
                    expected[k, w],
                    np.array([d.sides[:, k, w] for d in sweep]),
                    [d.changes(until, w) for d in sweep],
                    scale[k, w] * size,
                    tolerance,
                    scale[k, w] / scale[0, w],
                )
                if self.stopped[k, w]:
                    entry = (np.nan, 0, "the world stopped (NONFINITE)")
                found[k].append((f"world {w}, {label}", step_sizes[entry[1]], *entry))
        return [self._row(name, k, found[k], scale[k].max()) for k in range(len(self.horizons))]

    def restore(self) -> None:
        """Give the simulator the parameters of the point again."""
        Inputs(self.sim, self._arrays(self.point))

    def trust(self) -> GradientTrust:
        """The report on the gradient of the longest horizon."""

        def run(point, progress=None):
            return self.losses(point, progress)[0][-1], self.trajectory

        gradient = {name: self.gradients[self.steps][name] for name in self.names}
        options = {"relative_step": RELATIVE_STEP, "hop_steps": HOP_STEPS, "tolerance": TOLERANCE}
        return measure_trust(
            self.sim, run, self.point, gradient, self.loss0[-1], dict.fromkeys(gradient, 1.0), **options
        )

    def _difference(self, name: str, direction: np.ndarray, size: float) -> "_Difference":
        runs, other = [], None if self.impacts0 is None else np.zeros(self.impacts0.shape, bool)
        for sign in (1.0, -1.0):
            runs.append(self.losses(self.point | {name: self.point[name] + sign * size * direction}))
            if other is not None:
                other |= self.impacts != self.impacts0
        (up, contacts_up), (down, contacts_down) = runs
        sides = np.stack([up - self.loss0, self.loss0 - down]) / size
        return _Difference(sides, (contacts_up != self.contacts0) | (contacts_down != self.contacts0), other)

    def _row(self, name: str, k: int, found, growth: float) -> GradientRow:
        good = [f for f in found if f[4] in (OK, WRONG)]
        worst = max(good, key=lambda f: f[2], default=(" ", 0.0, float("nan")))
        reasons: dict[str, int] = {}
        for f in found:
            if f[4] not in (OK, WRONG):
                reasons[f[4]] = reasons.get(f[4], 0) + 1
        verdict = MEANINGLESS if not good else WRONG if any(f[4] == WRONG for f in good) else OK
        notes = [f"{count} of {len(found)} differences mean nothing: {reason}" for reason, count in reasons.items()]
        return GradientRow(
            name, self.horizons[k], float(worst[2]), float(worst[1]), worst[0], float(growth), verdict, len(good), notes
        )


@dataclasses.dataclass
class _Difference:
    """One-sided differences (2, horizons, worlds) at one step size, and where the contacts changed (steps, worlds).

    `other_impacts`, where steps resolve impacts: where their number up to a step changed (steps, worlds). Contacts that
    an impact makes a step earlier or later are no reason for a difference that means nothing.
    """

    sides: np.ndarray
    contact_changes: np.ndarray
    other_impacts: np.ndarray | None

    def changes(self, until: int, w: int) -> str:
        """What changes within the first `until` steps of world w, in words."""
        contacts = self.contact_changes[:until, w]
        if self.other_impacts is not None:
            moved = self.other_impacts[:until, w]
            if moved[-1]:
                return "the number of impacts changes"
            contacts = contacts & ~(moved | np.append(False, moved[:-1]))
        return "contacts come or go" if contacts.any() else ""


def _judge(expected: float, sides: np.ndarray, changes: list[str], scale: float, tolerance: float, growth: float):
    """(error, index of its step size, verdict) of one directional derivative.

    A verdict other than OK and WRONG says why its differences mean nothing. `sides (sizes, 2)`: one-sided differences,
    in order of descending step size.
    """
    central = sides.mean(axis=1)
    errors = np.abs(central - expected) / scale
    best = int(np.nanargmin(errors)) if np.isfinite(errors).any() else 0
    if errors[best] <= tolerance:
        return float(errors[best]), best, OK
    # Three step sizes in a row have to agree: two can by chance, where round-off or the solver's tolerance shows.
    windows = np.lib.stride_tricks.sliding_window_view(central, min(3, len(central)))
    spread = np.ptp(windows, axis=1) if len(central) > 1 else np.array([np.inf])
    settled = spread.min() <= tolerance * scale
    if changes[-1]:
        reason = f"{changes[-1]} within the smallest step"
    elif _is_kink(sides, tolerance * scale):
        of_a_side = np.abs(sides - expected).min() <= tolerance * scale
        reason = "a kink" + (" (the gradient is that of one side)" if of_a_side else " (one-sided differences differ)")
    elif settled:
        reason = WRONG
    elif growth > CHAOTIC_GROWTH:
        reason = f"chaos (gradients grow {growth:.0e}-fold)"
    else:
        reason = "differences of neighbouring step sizes disagree"
    return float(errors[best]), best, reason


def _is_kink(sides: np.ndarray, tolerance: float) -> bool:
    """Whether both one-sided differences settle on different values somewhere in the sweep."""
    change = np.abs(np.diff(sides, axis=0)).max(axis=1)
    gap = np.abs(sides[1:, 0] - sides[1:, 1])
    return bool(((gap > tolerance) & (change < SETTLED * gap)).any())


def _notes(sim, point) -> list[str]:
    notes = []
    options = sim.solver
    tight = options.relative_tolerance(sim.dtype)
    if tight > FINE_TOLERANCE:
        notes.append(
            f"the solver stops at {tight:g}, which shows in differences and gradients; for a sharper check use "
            f"ws.{options.label}(tolerance=1e-13)"
        )
    if getattr(options, "saddle_escape", False):
        notes.append("saddle_escape: gradients are then not the derivative of the step, on purpose")
    flags = int(np.bitwise_or.reduce(sim.diagnostics.flags.numpy(), initial=0))
    if flags:
        notes.append(
            f"flags {flags} were raised in the last run (1 NONFINITE, 2 NOT_CONVERGED, 4 CONTACT_OVERFLOW, "
            "8 UNRESOLVED, 16 DEEP_PRESSURE, 32 NOT_HELD, 64 ENERGY_GAIN)"
        )
    if sim.solver.kinks_at_touch:
        sim.step(sim.state(point["q"], point["v"]))  # finds what touches within one step
        contacts = sim.last_contacts
        used = np.arange(contacts.phi.shape[1]) < np.asarray(contacts.count)[:, None]
        reach = TOUCHING[SCALARS[sim.dtype]]
        touching = int((used & (np.abs(contacts.phi) <= reach)).sum())
        if touching:
            notes.append(
                f"{touching} contacts touch at the start (distance below {reach:g} m): "
                "under LCP each is a kink there, with "
                "other slopes by height and tilt above than below; gradients by q are those of an overlap"
            )
    return notes
