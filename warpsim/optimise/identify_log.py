# SPDX-License-Identifier: Apache-2.0
"""`identify_log`: parameters of a robot from a recorded motion, with intervals.

The log is cut into windows of half a second, each with an initial state of its own that is found with the parameters
(multiple shooting: Bock 1983), so that small errors do not grow through the whole motion. `identify` fits all windows
with one set of parameters; dry friction reverses inside the steps (`reversals.py`). The noise of each column is
estimated from its residuals and the fit repeated with it. With white noise of that size the inverse of the information
matrix is the covariance of the estimates, and their 95 % intervals follow (Ljung 1999, §9.4). Parameters that the
motion does not show are named and keep the file's values.

The status "converged" needs three tests. The fit is repeated with steps of half the length, until the estimates
move by less than a fraction of their standard deviations. It is repeated from perturbed estimates, and must not end at
a cost that is lower by more than 0.5. The residuals must not be larger than the noise of the columns
themselves, which the median of their third differences gives without any model.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from typing import Any

import numpy as np

from warpsim.base.annotations import PathLike
from warpsim.base.checks import choice, positive, several, short, whole
from warpsim.base.reprs import show
from warpsim.device.threads import holds
from warpsim.files.output import check_file, replacing
from warpsim.integrate import Midpoint
from warpsim.model.model import JointType, Model
from warpsim.optimise.charts import DELAY, LOGARITHMS
from warpsim.optimise.identify import Identification, identify
from warpsim.optimise.motion_log import MotionLog, read_log
from warpsim.simulator import Simulator
from warpsim.solve.nocontact import NoContact

UNITS = {
    "body_mass": "kg",
    "joint_damping": "N m s/rad",
    "joint_friction": "N m",
    "joint_armature": "kg m²",
    DELAY: "s",
}
SLIDE_UNITS = {"joint_damping": "N s/m", "joint_friction": "N", "joint_armature": "kg"}
KNOWN = tuple(UNITS)
WINDOW, FEWEST = 0.5, 8  # length of a window [s], and least number of its knots
LONGEST_STEP, ROUGH_STEP = 0.001, 0.002  # [s] of the simulation, at first, and of the fits with the rough tolerance
HALVINGS = 2  # of the steps, at most
SETTLED = 0.3  # standard deviations that an estimate may move when steps are halved
# Restarts at most; how far, in standard deviations of each principal direction; and the decrease of ½ χ² that counts.
RESTARTS, AWAY, LOWER = 3, 2.0, 0.5
EXCESS = 3.0  # standard deviations of the estimated noise: residuals above it do not fit
SLOWEST = 0.25  # [s] largest distance of rows
ROUNDS = 2  # fits, each with the noise that the residuals of the one before have
ROUGH, FINE = 1e-3, 1e-6  # tolerances of the first fits and of the last
WIDE = 1.96  # standard deviations: 95 % of a normal distribution
FIRST_FRICTION, FIRST_TORQUE = (
    0.02,
    0.1,
)  # first guess where the file has none: this share of the root mean square control
UNKNOWN = 1.5  # standard deviation of a logarithm from which on a parameter counts as not shown
SINGULAR = 1e-9  # least eigenvalue of the scaled information matrix
TOO_LARGE = "the robot's motion from the log is not finite; check the units of its columns"
WHITE = 0.3  # largest correlation of neighboring residuals that counts as none
VARIANCE_OF_THIRD = 20.0  # variance of the third difference of white noise of variance one
MEDIAN_OF_NORMAL = 0.6745  # of the absolute value
# Relative variance of a squared noise from the median absolute third difference, times the number of differences:
# measured for white noise, whose third differences are correlated.
VARIANCE_OF_MEDIAN = 9.2


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One parameter that `identify_log` found, with its intervals.

    Attributes
    ----------
    parameter : str
        Kind: one of "body_mass", "joint_damping", "joint_friction", "joint_armature" and "delay".
    element : str
        Name of the body, joint or actuator.
    value : float
        The estimate, in `unit`.
    low, high : float
        95 % interval of this parameter alone.
    all_low, all_high : float
        Wider interval: with 95 % probability all parameters lie in theirs at once (Bonferroni's inequality).
    file : float
        The value in the robot's file.
    unit : str
        Unit of all values.
    """

    parameter: str
    element: str
    value: float
    low: float
    high: float
    all_low: float
    all_high: float
    file: float
    unit: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RobotIdentification:
    """Parameters of a robot that `identify_log` found, with their intervals.

    Attributes
    ----------
    estimates : tuple of Estimate
        Every parameter that the motion shows.
    unshown : tuple of str
        Parameters that the motion does not show, as "body_mass[base]". They keep the file's values.
    model : Model
        The robot with the values found. A delay is no part of a model.
    noise : dict of str to float
        By column, the standard deviation of its residuals.
    whiteness : float
        Correlation of neighboring residuals, the largest of all columns. Above 0.3 the model lacks something that the
        robot has, and the intervals are too narrow.
    status : str
        "converged"; "iterations", "stalled" or "untouched": how the last fit ended; "unsettled": shorter steps still
        moved an estimate, or each restart found a lower cost; "misfit": residuals are larger than the noise.
    moved : float
        Largest change of an estimate when steps were halved, in standard deviations. 0 where `substeps` was given.
    restarts : tuple of float
        By how much each restart lowered the cost ½ χ², half the sum of squared residuals in units of the noise.
    excess : (float, float)
        Mean square of the residuals over the columns' noise, less 1, and its standard deviation.
    rows, windows : int
        Number of rows of the log, and of windows that it was cut into.
    dt : float
        Time from row to row [s].
    """

    estimates: tuple[Estimate, ...]
    unshown: tuple[str, ...]
    model: Model
    noise: dict[str, float]
    whiteness: float
    status: str
    moved: float
    restarts: tuple[float, ...]
    excess: tuple[float, float]
    rows: int
    windows: int
    dt: float

    def __repr__(self) -> str:
        return show(
            "RobotIdentification",
            {"estimates": len(self.estimates), "unshown": len(self.unshown), "status": self.status},
        )

    @property
    def wider(self) -> float:
        """Factor by which the intervals (all_low, all_high) are wider than (low, high): float."""
        return wider(len(self.estimates))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the estimates doubtful: a tuple of sentences, empty if nothing does."""
        found = []
        if self.moved > SETTLED:
            found.append(
                f"with steps of half the length an estimate moved by {self.moved:.2g} standard deviations: give more "
                "substeps"
            )
        if self.restarts and self.restarts[-1] > LOWER:
            found.append("each restart ended at a lower cost: the estimates may be those of a wrong valley")
        if self.excess[0] > EXCESS * self.excess[1]:
            found.append(
                f"the mean square of the residuals is {100 * self.excess[0]:.2g} % above the noise of the columns: the "
                "robot has what its model lacks, or the search ended in a wrong valley; the intervals are too narrow"
            )
        if self.status not in ("converged", "unsettled", "misfit"):
            found.append(f"the fit ended with the status {self.status!r}")
        if self.whiteness > WHITE:
            found.append(
                f"residuals of neighboring rows are correlated ({self.whiteness:.2f}): the robot has what its model "
                "lacks, and the intervals are too narrow"
            )
        return tuple(found)

    def data(self) -> dict[str, Any]:
        """Everything except the model, as a dict of plain data."""
        plain = ("unshown", "noise", "whiteness", "status", "moved", "restarts", "excess", "rows", "windows", "dt")
        found = {"estimates": [dataclasses.asdict(x) for x in self.estimates]}
        return found | {name: getattr(self, name) for name in plain} | {"warnings": list(self.warnings)}

    def save(self, path: PathLike) -> None:
        """Write the result to a file.

        Parameters
        ----------
        path : path
            With the suffix .json: `data()`. With the suffix .xml: the model, as MJCF.

        Raises
        ------
        ValueError
            The suffix is neither .json nor .xml.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("cartpole"))
        >>> options = {"dtype": "float64", "device": "cpu", "solver": ws.NoContact(), "integrator": ws.Midpoint()}
        >>> sim = ws.Simulator(model, dt=0.01, **options)
        >>> q = sim.rollout(sim.state(q=[0.0, 0.3]), np.ones((100, 1, 1))).q.numpy()[:-1, 0]       # instead of a robot
        >>> table = np.column_stack([0.01 * np.arange(100), q.round(4), np.ones(100)])
        >>> np.savetxt("log.csv", table, delimiter=",", header="time,q:slide,q:pivot,u:push", comments="")
        >>> found = ws.identify_log("log.csv", model, ["joint_damping"], substeps=1, device="cpu")
        >>> found.save("cartpole.xml")
        >>> ws.load("cartpole.xml").joint_names
        ('slide', 'pivot')
        """
        path = check_file(path, (".json", ".xml"))
        with replacing(path) as new:
            if path.suffix.lower() == ".xml":
                self.model.to_mjcf(new)
            else:
                new.write_text(json.dumps(self.data(), indent=2, allow_nan=False) + "\n")


@holds
def identify_log(
    log: PathLike,
    model: Model,
    parameters: Any = KNOWN,
    *,
    window: float = WINDOW,
    most_delay: int = 5,
    substeps: int | None = None,
    iterations: int = 50,
    device: str | None = None,
    threads: int | None = None,
) -> RobotIdentification:
    """Find masses, joint friction, damping, armature and actuator delays of a robot from the CSV log of a motion.

    Parameters
    ----------
    log : path
        A CSV file with the columns `time` [s], evenly spaced; `q:JOINT` of every joint [rad or m]; `v:JOINT` [rad/s or
        m/s], optional; and `u:ACTUATOR` of every actuator, the control from that row's time to the next row's. The name
        of the joint that one actuator drives may stand for the actuator.
    model : Model
        The robot, of hinges and slides. Its parameters are the initial guess.
    parameters : sequence of str
        Kinds to find. Default: all of "body_mass", "joint_damping", "joint_friction", "joint_armature" and "delay".
    window : float
        Length of the windows that the log is cut into [s]. Default: 0.5.
    most_delay : int
        Largest delay, in rows. Default: 5.
    substeps : int, optional
        Simulation steps per row. Default: steps of at most 1 ms, halved once, and once more if that moves an estimate
        by more than 0.3 of its standard deviation.
    iterations : int
        Largest number of iterations of each fit. Default: 50.
    device : str, optional
        Name of a Warp device. Default: as in `ws.Simulator`.
    threads : int, optional
        CPU threads. Default: as in `ws.Simulator`.

    Returns
    -------
    RobotIdentification
        Estimates with 95 % intervals, and the robot's model with the values found.

    Raises
    ------
    ValueError
        The log or an argument has a value that is not allowed. The message names the row, the column or the argument.

    Notes
    -----
    Contact is off: record the motion in free space. Intervals assume white noise in the measured columns, a model that
    lacks no effect, and that parameters which the motion does not show have the file's values. A mass that is found
    leaves the inertia about the body's COM as it is.

    Examples
    --------
    A log of a pole on a cart, recorded from a simulation:

    >>> model = ws.load(ws.robots.path("cartpole"))
    >>> options = {"dtype": "float64", "device": "cpu", "solver": ws.NoContact(), "integrator": ws.Midpoint()}
    >>> sim = ws.Simulator(model, dt=0.01, **options)
    >>> sim.parameters["joint_damping"] = [0.1, 0.05]                      # the file says 0.1 and 0.002
    >>> u, noise = np.sin(np.arange(100) / 8.0)[:, None, None], np.random.default_rng(0).normal(0.0, 1e-4, (100, 2))
    >>> q = sim.rollout(sim.state(q=[0.0, 0.3]), u).q.numpy()[:-1, 0] + noise
    >>> table = np.column_stack([0.01 * np.arange(100), q, u[:, 0]])
    >>> header = ",".join(["time", *(f"q:{name}" for name in model.joint_names), f"u:{model.actuator_names[0]}"])
    >>> np.savetxt("log.csv", table, delimiter=",", header=header, comments="")
    >>> found = ws.identify_log("log.csv", model, ["joint_damping"], substeps=1, device="cpu")
    >>> pivot = found.estimates[1]
    >>> pivot.element, round(pivot.value, 3), pivot.unit, bool(pivot.low < pivot.value < pivot.high)
    ('pivot', 0.05, 'N m s/rad', True)
    """
    if not isinstance(model, Model):
        raise ValueError(f"model is {short(model)}; give what ws.load returns")
    kinds = tuple(
        choice(name, "an entry of parameters", KNOWN) for name in several(parameters, "parameters", "give a list")
    )
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"parameters is {short(parameters)}; name at least one kind, and each once")
    window, iterations = positive(window, "window"), whole(iterations, "iterations", 1)
    delay = whole(most_delay, "most_delay", 1) if DELAY in kinds else 0
    if substeps is not None:
        whole(substeps, "substeps", 1)
    data = read_log(log, model)
    if data.dt > SLOWEST:
        raise ValueError(
            f"{pathlib.Path(data.path).name}: rows are {data.dt:.6g} s apart, and at most {SLOWEST:g} s are of use; "
            "give the column time in seconds, or record more often"
        )
    cut = _Windows(data, model, window, delay)
    parts = substeps or _parts(data.dt, LONGEST_STEP)
    started = _with_friction(model, data) if "joint_friction" in kinds else model
    sim = Simulator(
        started, cut.count, data.dt, dtype="float64", solver=NoContact(), integrator=Midpoint(), requires_grad=True,
        device=device, threads=threads,
    )  # fmt: skip
    halvings = 0 if substeps else HALVINGS
    return _Search(sim, model, data, cut, _unknown(model, kinds), parts, iterations, halvings).run()


def _parts(dt: float, longest: float) -> int:
    """The least number of steps of at most `longest` seconds that a row is divided into."""
    return int(np.ceil(dt / longest - 1e-9))


def _unknown(model: Model, kinds) -> dict[str, list]:
    """Elements of each kind: bodies that have a mass and can move, all joints, all actuators."""
    moving = [b for b in range(model.nbody) if model.body_mass[b] > 0 and model.body_link[b] >= 0]
    elements = {"body_mass": moving, DELAY: list(range(model.nu))}
    found = {kind: elements.get(kind, list(range(model.nv))) for kind in kinds}
    for kind, chosen in found.items():
        if not chosen:
            what = "actuators" if kind == DELAY else "bodies that move" if kind == "body_mass" else "joints"
            raise ValueError(f"parameters has {kind!r}, and robot {model.name!r} has no {what}")
    return found


def _with_friction(model: Model, log: MotionLog) -> Model:
    """The model with a first guess of dry friction where it has none: a friction of 0 has no row and no logarithm."""
    size = np.full(model.nv, FIRST_TORQUE)
    for a, j in enumerate(model.actuator_joint):
        if j >= 0:
            size[model.joint_v[j]] = max(np.sqrt(np.mean(log.u[:, a] ** 2)), FIRST_TORQUE)
    guess = np.where(model.joint_friction > 0, model.joint_friction, FIRST_FRICTION * size)
    return dataclasses.replace(model, joint_friction=guess.astype(model.joint_friction.dtype))


class _Windows:
    """Windows of a log side by side, as worlds: arrays `(knots + 1, windows, n)`, and the controls before them."""

    def __init__(self, log: MotionLog, model: Model, length: float, delay: int):
        rows, knots = len(log.q), max(FEWEST, round(length / log.dt))
        knots = min(knots, rows - delay - 1)
        if knots < FEWEST:
            raise ValueError(
                f"{pathlib.Path(log.path).name}: has {rows} rows of data; identification needs at least "
                f"{FEWEST + delay + 1}, and better some seconds of motion"
            )
        self.count, self.knots = (rows - delay) // (knots + 1), knots
        first = delay + (knots + 1) * np.arange(self.count)
        at = first + np.arange(knots + 1)[:, None]
        self.q, self.v, self.u = log.q[at], log.v[at], log.u[at[:-1]]
        self.history = log.u[first - delay + np.arange(delay)[:, None]] if delay else None
        slope = np.gradient(log.q, log.dt, axis=0)
        self.start = log.q[first], np.where(np.isnan(log.v), slope, log.v)[first]
        measured = np.isfinite(self.v).all(axis=(0, 1))
        self.columns = [f"q:{name}" for name in model.joint_names]
        self.columns += [f"v:{name}" for name, there in zip(model.joint_names, measured, strict=True) if there]
        self.measured = np.flatnonzero(measured)
        thirds = [np.diff(x, 3, axis=0) / np.sqrt(VARIANCE_OF_THIRD) for x in self._seen()]
        noise = [x.std() for x in thirds]
        if not np.isfinite(noise).all():
            raise ValueError(f"{pathlib.Path(log.path).name}: {TOO_LARGE}")
        self.noise = np.maximum(noise, 1e-12)
        self.own_noise = np.maximum([np.median(np.abs(x)) / MEDIAN_OF_NORMAL for x in thirds], 1e-12)
        self.thirds = thirds[0].size

    def _seen(self) -> list[np.ndarray]:
        """Measured columns `(knots + 1, windows)`."""
        return [*np.moveaxis(self.q, -1, 0), *np.moveaxis(self.v[..., self.measured], -1, 0)]

    def errors(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Model less measurement `(..., knots + 1, windows, columns)`."""
        return np.concatenate([q - self.q, v[..., self.measured] - self.v[..., self.measured]], axis=-1)


class _Search:
    """Fits with noise from residuals, without what the motion does not show."""

    def __init__(self, sim, model, log: MotionLog, cut: _Windows, unknown, substeps: int, iterations: int, halvings):
        self.sim, self.log, self.cut, self.model = sim, log, cut, model
        self.unknown, self.substeps, self.iterations, self.halvings = unknown, substeps, iterations, halvings
        self.start, self.delay, self.unshown = cut.start, None, []
        self.moved, self.restarts = 0.0, []

    def run(self) -> RobotIdentification:
        """Fit, estimate the noise, drop what is not shown until nothing changes; then test what was found."""
        left = ROUNDS
        while True:
            found = self._fit(FINE if left == 1 else ROUGH)
            spread, dropped = self._spread(found)
            self._drop(dropped)
            left = max(left - 1, 1 if dropped else 0)
            if left == 0 or not self.unknown:
                break
            errors = self._errors(found)
            if np.isfinite(errors).all():
                self.cut.noise = np.maximum(self._noise(errors, len(found.labels)), 1e-12)
        if self.unknown:
            found, spread = self._restarted(*self._halved(found, spread))
        return self._result(found, spread)

    def _halved(self, found: Identification, spread: np.ndarray):
        """The fit with steps so short that half of them change no estimate much."""
        for _ in range(self.halvings):
            self.substeps *= 2
            before, found = found, self._fit(FINE)
            spread = self._spread(found)[0]
            self.moved = float(np.abs(self._change(before, found) / spread).max())
            if self.moved <= SETTLED:
                break
        return found, spread

    def _restarted(self, found: Identification, spread: np.ndarray):
        """The fit of lowest cost of those from perturbed estimates; they end once none is lower."""
        rng = np.random.default_rng(0)
        for _ in range(RESTARTS):
            kept = self.start
            M, z = found.information[0], AWAY * rng.normal(size=len(spread))
            scale = np.sqrt(np.diag(M))
            root = np.linalg.cholesky(M / np.outer(scale, scale))
            self._move(found, np.linalg.solve(root.T, z) / scale)
            other = self._fit(FINE)
            self.restarts.append(float(found.cost[0] - other.cost[0]))
            if self.restarts[-1] > 0.0:
                found, spread = other, self._spread(other)[0]
            else:
                self.start = kept
                self._move(found, np.zeros(len(spread)))
            if self.restarts[-1] <= LOWER:
                break
        return found, spread

    def _change(self, before: Identification, after: Identification) -> np.ndarray:
        """What the unknowns changed by, those that step by their logarithms in logarithms."""
        changes = []
        for kind, elements in self.unknown.items():
            old, new = (x.parameters[kind][0, elements] for x in (before, after))
            changes.append(np.log(new / old) if kind in LOGARITHMS else new - old)
        return np.concatenate(changes)

    def _move(self, found: Identification, step: np.ndarray) -> None:
        """Begin the next fit a step away from estimates."""
        ends = np.cumsum([len(elements) for elements in self.unknown.values()])[:-1]
        for (kind, elements), part in zip(self.unknown.items(), np.split(step, ends), strict=True):
            values = found.parameters[kind].copy()
            near = values[:, elements]
            values[:, elements] = near * np.exp(part) if kind in LOGARITHMS else np.maximum(near + part, 0.0)
            if kind == DELAY:
                self.delay = np.minimum(values, len(self.cut.history))
            else:
                self.sim.parameters[kind] = values

    def _fit(self, tolerance: float) -> Identification:
        sim, cut, sigma = self.sim, self.cut, self.cut.noise
        nq, nv = self.model.nq, self.model.nv
        J = np.zeros((len(cut.columns), 2 * nv))
        J[range(nq), range(nq)] = 1.0
        J[range(nq, len(J)), nv + cut.measured] = 1.0
        J = J / sigma[:, None]
        delayed = DELAY in self.unknown
        substeps = self.substeps if tolerance == FINE else min(self.substeps, _parts(self.log.dt, ROUGH_STEP))
        found = identify(
            sim, sim.state(*self.start), cut.u, lambda q, v: cut.errors(q, v) / sigma, self.unknown, shared=True,
            free_start=True, history=cut.history if delayed else None, delay=self.delay if delayed else None,
            reversals=True, jacobian=lambda q, v: np.broadcast_to(J, (*q.shape[:-1], *J.shape)),
            iterations=self.iterations, tolerance=tolerance, substeps=substeps,
        )  # fmt: skip
        if found.status[0] == "nonfinite":
            raise ValueError(f"{pathlib.Path(self.log.path).name}: {TOO_LARGE}")
        self.start = found.start
        for name, values in found.parameters.items():
            if name == DELAY:
                self.delay = values
            else:
                sim.parameters[name] = values
        return found

    def _errors(self, found: Identification) -> np.ndarray:
        """Residuals `(knots + 1, windows, columns)` of the motion found, in the units of the columns."""
        return self.cut.errors(*found.motion)

    def _noise(self, errors: np.ndarray, unknowns: int) -> np.ndarray:
        """Standard deviation of each column, with the degrees of freedom that the unknowns take."""
        taken = unknowns + 2 * self.model.nv * self.cut.count
        if errors.size < 1.5 * taken:
            raise ValueError(
                f"{pathlib.Path(self.log.path).name}: {errors.size} measured numbers are too few for {taken} unknowns; "
                "give longer windows, fewer parameters or a longer log"
            )
        return np.sqrt((errors**2).mean(axis=(0, 1)) / (1.0 - taken / errors.size))

    def _excess(self, errors: np.ndarray, unknowns: int) -> tuple[float, float]:
        """Mean square of the residuals in units of the columns' own noise, less 1, and its standard deviation."""
        taken = unknowns + 2 * self.model.nv * self.cut.count
        freedom = max(errors.size - taken, 1)
        mean = float(((errors / self.cut.own_noise) ** 2).sum() / freedom)
        variance = 2.0 / freedom + VARIANCE_OF_MEDIAN / (self.cut.thirds * errors.shape[-1])
        return mean - 1.0, float(np.sqrt(variance))

    def _spread(self, found: Identification) -> tuple[np.ndarray, list[int]]:
        """Standard deviations of the steps of all unknowns, and those that the motion does not show."""
        M = found.information[0]
        scale = np.sqrt(np.maximum(np.diag(M), 0.0))
        blind = found.unseen[0] | (scale == 0)
        if blind.any():
            return scale, list(np.flatnonzero(blind))
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        if values[0] < SINGULAR:
            return scale, [int(np.argmax(np.abs(vectors[:, 0])))]
        spread = np.sqrt(np.diag(np.linalg.inv(M / np.outer(scale, scale)))) / scale
        logs = np.array([label.split("[")[0] in LOGARITHMS for label in found.labels])
        worst = int(np.argmax(np.where(logs, spread, 0.0)))
        return spread, [worst] if logs.any() and spread[worst] > UNKNOWN else []

    def _drop(self, dropped: list[int]) -> None:
        """Leave unknowns at the values of the file."""
        places = [(kind, element) for kind, elements in self.unknown.items() for element in elements]
        for kind, element in (places[i] for i in dropped):
            self.unshown.append(f"{kind}[{self._name(kind, element)}]")
            self.unknown[kind] = [e for e in self.unknown[kind] if e != element]
            if kind == DELAY:
                self.delay[:, element] = 0.0
            else:
                values = self.sim.parameters.stored(kind).numpy().astype(float)
                values = np.broadcast_to(values, (self.sim.worlds, *values.shape[1:])).copy()
                values[:, element] = getattr(self.model, kind)[element]
                self.sim.parameters[kind] = values
        self.unknown = {kind: elements for kind, elements in self.unknown.items() if elements}

    def _name(self, kind: str, element: int) -> str:
        model = self.model
        if kind == "body_mass":
            return model.body_names[element]
        return model.actuator_names[element] if kind == DELAY else model.joint_names[self._joint_of(element)]

    def _joint_of(self, dof: int) -> int:
        return int(np.flatnonzero(self.model.joint_v == dof)[0])

    def _result(self, found: Identification, spread: np.ndarray) -> RobotIdentification:
        model, values = self.model, {}
        for kind in ("body_mass", "joint_damping", "joint_friction", "joint_armature"):
            stored = self.sim.parameters.stored(kind).numpy().astype(float)
            values[kind] = np.asarray(stored).reshape(-1, np.shape(getattr(model, kind))[0])[0].copy()
        places = [(kind, element) for kind, elements in self.unknown.items() for element in elements]
        estimates = []
        wide = WIDE * wider(len(places))
        for (kind, element), s in zip(places, spread, strict=False):
            scale = self.log.dt if kind == DELAY else 1.0
            value = scale * (found.parameters[DELAY][0, element] if kind == DELAY else values[kind][element])
            ends = [_interval_of(value, scale * x * s, kind in LOGARITHMS) for x in (WIDE, wide)]
            file = 0.0 if kind == DELAY else float(getattr(model, kind)[element])
            name = self._name(kind, element)
            estimates.append(Estimate(kind, name, float(value), *ends[0], *ends[1], file, self._unit(kind, element)))
        errors = self._errors(found)
        flat = errors - errors.mean(axis=0)
        lag = (flat[1:] * flat[:-1]).sum(axis=(0, 1)) / np.maximum((flat**2).sum(axis=(0, 1)), 1e-300)
        new = dataclasses.replace(model, **{kind: x.astype(getattr(model, kind).dtype) for kind, x in values.items()})
        noise = dict(zip(self.cut.columns, self.cut.noise.tolist(), strict=True))
        excess = self._excess(errors, len(found.labels))
        return RobotIdentification(
            tuple(estimates), tuple(self.unshown), new, noise, float(lag.max()), self._status(found, excess),
            self.moved, tuple(self.restarts), excess, len(self.log.q), self.cut.count, self.log.dt,
        )  # fmt: skip

    def _status(self, found: Identification, excess: tuple[float, float]) -> str:
        """That of the fit; "converged" only if no test speaks against it."""
        status = str(found.status[0])
        if status == "stalled" and self.restarts and self.restarts[-1] <= LOWER:
            status = "converged"  # no step lowers the cost by more than rounding, from two sides
        if status != "converged":
            return status
        if self.moved > SETTLED or (self.restarts and self.restarts[-1] > LOWER):
            return "unsettled"
        return "misfit" if excess[0] > EXCESS * excess[1] else status

    def _unit(self, kind: str, element: int) -> str:
        slide = kind.startswith("joint") and self.model.joint_type[self._joint_of(element)] == JointType.SLIDE
        return SLIDE_UNITS[kind] if slide else UNITS[kind]


def wider(count: int) -> float:
    """Width of intervals that hold all of `count` parameters with 95 % (Bonferroni), over that of each one alone."""
    return statistics.NormalDist().inv_cdf(1.0 - 0.025 / max(count, 1)) / WIDE


def _interval_of(value: float, reach: float, logarithm: bool) -> tuple[float, float]:
    """The ends of an interval; none of these parameters is below 0."""
    if logarithm:
        return float(value * np.exp(-reach)), float(value * np.exp(reach))
    return float(max(value - reach, 0.0)), float(value + reach)
