# SPDX-License-Identifier: Apache-2.0
"""Runs of the soft gripper with the spatula, §VI-D of the SAP paper: its grip in open loop, a controller of the pitch rate, and torsion by points.

The scene is `scenes.pressure.spatula_gripper`; both motors push with the grip force, and a run is read as the pitch of the handle.
"""

import json
import pathlib
import subprocess
import time
from dataclasses import dataclass

import numpy as np

import warpsim as ws
from scenes.pressure import FILE_INERTIA, grip, pitch, spatula_gripper, spatula_start

PERIOD, DUTY = 6.0, 0.75  # of the square wave: [s], [1]
LOOSE, FIRM = 1.0, 16.0  # [N]
TOLERANCE = 1e-3  # the paper's
SETTLED = 1.0  # [s] after the grip closes until creep is measured, and
BEFORE = 0.1  # [s] before it opens, when the measurement ends
CLOSED = 0.5  # [s] after the end of a loose phase until the grip has closed


@dataclass
class Run:
    """A motion of one world: times [s] and pitch [deg] after 0, 1, … steps; the rest per step. `ms`: CPU time of a step."""

    t: np.ndarray
    pitch: np.ndarray
    contacts: np.ndarray
    iterations: np.ndarray | None = None
    e_m: np.ndarray | None = None
    flags: int = 0
    ms: float = float("nan")

    def at(self, t: float) -> float:
        """[deg] at a time, between samples by a line."""
        return float(np.interp(t, self.t, self.pitch))

    def turns(self) -> np.ndarray:
        """[deg] by which the pitch falls in each loose phase, the closing of the grip included where the run goes on."""
        end = self.t[-1]
        starts = np.arange(DUTY * PERIOD, end - 0.5, PERIOD)
        return np.array([self.at(min(s + (1 - DUTY) * PERIOD + CLOSED, end)) - self.at(s) for s in starts])

    def creep(self) -> np.ndarray:
        """[deg/s] with which the pitch falls while the grip is firm, per period: the slope of a line."""
        slopes = []
        for start in np.arange(0.0, self.t[-1] - DUTY * PERIOD, PERIOD):
            chosen = (self.t >= start + SETTLED) & (self.t <= start + DUTY * PERIOD - BEFORE)
            slopes.append(np.polyfit(self.t[chosen], self.pitch[chosen], 1)[0])
        return -np.array(slopes)

    def mean_contacts(self) -> tuple[float, float]:
        """While the grip is firm, and while it is loose and has opened."""
        phase = self.t[1:] % PERIOD
        count = self.contacts[-len(phase) :]
        return float(count[(phase > SETTLED) & (phase < 4.4)].mean()), float(
            count[(phase > 5.0) & (phase < 6.0)].mean()
        )


def recorded(reference, name: str) -> Run:
    """A run of Drake in `hydro_open.npz`."""
    rows = reference[f"slip/{name}"]
    return Run(rows[:, 0], np.degrees(rows[:, 2]), rows[:, 3])


def simulator(
    model, h: float, level: str, worlds: int = 1, tolerance: float = TOLERANCE, sigma: float = 1e-3, **options
):
    """The paper's solver, one thread."""
    options = {"dtype": "float64", "device": "cpu", "threads": 1} | options
    solver = ws.SAP(approximation="convex", tolerance=tolerance, sigma=sigma)
    return ws.Simulator(model, worlds, dt=h, solver=solver, hydroelastic=level, **options)


def motors(force) -> np.ndarray:
    """Controls (..., 2) of a grip force (...)."""
    return np.stack([force, -np.asarray(force)], axis=-1)


def wave(seconds: float, h: float) -> np.ndarray:
    """The paper's grip force (steps,) [N]."""
    return grip(np.arange(round(seconds / h)) * h + 1e-9, LOOSE, FIRM - LOOSE, PERIOD, DUTY)


def follow(sim, force, start=None) -> Run:
    """The motion of one world under grip forces (steps,)."""
    controls = motors(force)[:, None]
    state = sim.state(spatula_start(sim.model)[None]) if start is None else start
    sim.rollout(state, controls[:2])  # compiled
    begin = time.process_time()
    path = sim.rollout(state, controls)
    ms = 1e3 * (time.process_time() - begin) / len(force)
    d = {name: array.numpy()[:, 0] for name, array in path.diagnostics.items()}
    angle = np.degrees(pitch(path.q.numpy()[:, 0]))
    flags = int(np.bitwise_or.reduce(d["flags"]))
    return Run(path.time.numpy()[:, 0], angle, d["contacts"], d["iterations"], d["momentum_error"], flags, ms)


def open_loop(
    level: str, h: float, seconds: float = 30.0, inertia=FILE_INERTIA, resolution: float = 0.04, tetrahedra: bool = False, **options
):  # fmt: skip
    """The paper's run; `tetrahedra`: with Drake's polygons, one for each pair of tetrahedra."""
    model = spatula_gripper(inertia, bubble=(1e5, resolution), tetrahedra=tetrahedra)
    return follow(simulator(model, h, level, **options), wave(seconds, h))


# The controller of the pitch rate -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RateControl:
    """Grips firmly, then so that the pitch falls at `rate` [rad/s] from `start` [s] to `stop`, stays for `stay` [s], and firmly again.

    u = clip(base + gain e + integral ∫e dt, least, most), e = −dθ/dt − rate, dθ/dt by the difference of two steps. The integral stands still
    while it would only press u further against a bound.
    """

    rate: float = 0.05
    base: float = 3.0
    gain: float = 80.0
    integral: float = 120.0
    least: float = 0.5
    most: float = FIRM
    start: float = 1.0
    stop: float = 9.0
    stay: float = 1.0


def regulated(sim, q: np.ndarray, control: RateControl, seconds: float) -> tuple[np.ndarray, ...]:
    """Times (rows,), pitch (rows, worlds) [deg], and grip (steps, worlds) [N] of all worlds under the controller."""
    h, forces = sim.dt, []
    before, total = pitch(q), np.zeros(len(q))

    def policy(state):
        nonlocal before, total
        angle, t = pitch(state.q.numpy()), len(forces) * h
        error = (before - angle) / h - (control.rate if t < control.stop else 0.0)
        before = angle
        if control.start <= t < control.stop + control.stay:
            wanted = control.base + control.gain * error + control.integral * (total + h * error)
            winds = (wanted < control.least) & (error < 0) | (wanted > control.most) & (error > 0)
            total = np.where(winds, total, total + h * error)
            force = np.clip(wanted, control.least, control.most)
        else:
            force = np.full(len(q), control.most)
        forces.append(force)
        return motors(force)

    path = sim.rollout(sim.state(q), policy, steps=round(seconds / h), every=5)
    return path.time.numpy()[:, 0], np.degrees(pitch(path.q.numpy())), np.array(forces)


# Torsion ------------------------------------------------------------------------------------------------------------------------


def torsion(points: np.ndarray, force: np.ndarray, normal: np.ndarray) -> float:
    """Σ f |P (x − x_f)| [N m], P across the normal and x_f the centre of force: the capacity for torsion over the friction."""
    across = points - np.outer(points @ normal, normal)
    centre = (force[:, None] * across).sum(0) / force.sum()
    return float((force * np.linalg.norm(across - centre, axis=1)).sum())


def torsions(q: np.ndarray, resolution: float, level: str) -> tuple[float, float, int]:
    """Torsion [N m] of both patches of a pose by the points of a level and by the integral of the pressure, and the points."""
    sim = simulator(spatula_gripper(bubble=(1e5, resolution)), 1e-8, level, max_polygons=4096)  # so short: elastic
    sim.step(sim.state(q[None]), np.zeros((1, 2)))
    contacts = sim.last_contacts
    by_points = exact = 0.0
    for patch in sim.contact_patches():
        normal = patch.elastic_force / np.linalg.norm(patch.elastic_force)
        mine = (contacts.geoms[0] == patch.geoms).all(axis=1)
        by_points += torsion(contacts.point[0, mine], contacts.impulse[0, mine, 2] / sim.dt, normal)
        exact += patch.torsion
    return by_points, exact, int(contacts.count[0])


# Drake ----------------------------------------------------------------------------------------------------------------------------


def drake(python: str, h: float, seconds: float, resolution: float = 0.04, inertia=FILE_INERTIA) -> Run:
    """The same scene and grip in Drake, in a process of an interpreter that has pydrake (papers/sap/drake_slip.py)."""
    job = {"h": h, "force": wave(seconds, h).tolist(), "resolution": resolution, "inertia": inertia}
    script = pathlib.Path(__file__).with_name("drake_slip.py")
    done = subprocess.run([python, str(script)], input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{python} {script.name}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    t = h * np.arange(len(found["pitch"]))
    return Run(t, np.degrees(found["pitch"]), np.array(found["contacts"]), ms=found["ms"])
