# SPDX-License-Identifier: Apache-2.0
"""Gradients of random trees on a floor against central differences: every joint and geom, every integrator and solver.

    python -m benchmarks.gradient_fuzz [--seeds 64] [--first 1000] [--impacts] [--quick]
        [--out benchmarks/results]

With --impacts: steps with `time_of_impact=True`, of trees that still fall, in files of their own.

A seed is a model (one or two trees of up to five bodies, stops, springs, dry friction, motors, a floor), a start that it has
fallen to, and random directions in the start, the controls and five kinds of parameters at once, one per world. For each
integrator, solver and horizon the tape's derivative of a random linear loss along them is compared with central differences
of seven sizes, each at its best. What is above 1e-5 of the longest gradient is listed with the reason:

- flagged: the motion raised a flag;
- jump: differences settle, but that to one side and that to the other grow without end as they narrow: the motion beside
  the point, on one side or on both, is another one (an LCP with two solutions, of which rounding chooses; the tape has that
  of the point);
- kink crossed: at the point and on the two sides of every difference other contacts push or slide, or slide another way,
  other stops and dry frictions are at their bounds, or a step has another number of impacts;
- kink: one-sided differences settle on different values (bounds of controls, what is not watched);
- unsettled: no three sizes in a row agree to 1e-5, so that the differences say nothing;
- unexplained: a wrong gradient, until shown otherwise; always where differences settle, on the same value to both sides. The
  exit code is 1 where there is one.

float64, CPU. Three quarters of an hour for 64 seeds; --quick: two seeds, 1 and 10 steps.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.gradient_grid import INTEGRATORS, SOLVERS, TIMED
from warpsim.differentiate.check import _is_kink
from warpsim.differentiate.taped import Inputs, TapedRollout, device_array, input_shapes
from warpsim.differentiate.trust import Watch
from warpsim.tools.bench import machine

HORIZONS = (1, 10, 40, 100)
# Rounding of stiff impacts leaves more than the tolerance of the others.
TIMED_CONVEX = ws.SAP(tolerance=1e-12, approximation="convex")
SIZES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
BAR, DIRECTIONS, DT = 1e-5, 4, 0.005
PARAMETERS = ("body_mass", "body_com", "joint_damping", "geom_friction", "geom_size", "gravity")
SHAPES = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh")
ROOTS = ("free", "free", "ball", "hinge", "slide", "planar")
CHILDREN = ("hinge", "slide", "ball", "planar", "fixed")
REASONS = ("flagged", "jump", "kink crossed", "kink", "unsettled", "unexplained")
# Of a bound, or of the largest impulse of its kind: impulses this near it are at it.
AT_BOUND = 1e-9
# One-sided differences of a jump part tenfold per tenth of the size, those of a kink not at all; over a hundredth of it:
PARTING = 10.0


# ---- models -----------------------------------------------------------------------------------------------------------


def tree(seed: int) -> ws.Model:
    """A random scene."""
    rng = np.random.default_rng(seed)
    b = ws.ModelBuilder(f"fuzz {seed}")
    b.add_geom("plane", name="floor", friction=rng.uniform(0.2, 1.0))
    for t in range(rng.integers(1, 3)):
        bodies: list[int] = []
        for k in range(rng.integers(1, 6)):
            parent = -1 if k == 0 else bodies[rng.integers(len(bodies))]
            place = [0.8 * t, 0.0, rng.uniform(0.15, 0.35)] if k == 0 else rng.uniform(-0.12, 0.12, 3)
            quaternion = rng.normal(size=4)
            pose = [*place, *(quaternion / np.linalg.norm(quaternion))]
            bodies.append(b.add_body(f"b{t}_{k}", parent=parent, pose=pose))
            add_shape(b, bodies[-1], rng)
            add_joints(b, bodies[-1], rng.choice(ROOTS if k == 0 else CHILDREN), rng)
    return b.build()


def add_shape(b: ws.ModelBuilder, body: int, rng) -> None:
    """A geom of random kind, size, place and friction."""
    kind, r = str(rng.choice(SHAPES)), rng.uniform(0.03, 0.08, 3)
    size = {"sphere": r[:1], "capsule": r[:2], "box": r, "cylinder": r[:2], "ellipsoid": r, "mesh": ()}[kind]
    extra = {}
    if kind == "mesh":  # a tetrahedron
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * r
        extra["mesh"] = (corners, [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
    # bodies of a tree overlap at will, and so meet the floor alone
    b.add_geom(kind, size, body=body, pose=rng.uniform(-0.03, 0.03, 3), density=rng.uniform(300, 1500),
               friction=rng.uniform(0.2, 1.0), contype=2, conaffinity=1, **extra)  # fmt: skip


def add_joints(b: ws.ModelBuilder, body: int, kind: str, rng) -> None:
    """The joints of a kind, some with stops, springs, dry friction and motors."""
    if kind == "fixed":
        return
    if kind == "free":
        b.add_joint(body, "free")
        return
    kinds = ["slide", "slide", "hinge"] if kind == "planar" else [kind]
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for axis, one in zip(axes, kinds, strict=False):
        some = lambda value, share=0.5: float(value) if rng.random() < share else 0.0  # noqa: E731
        stop = {}
        if rng.random() < 0.4:
            stop["range"] = (
                (0.0, rng.uniform(0.2, 1.0)) if one == "ball" else (-rng.uniform(0.02, 0.5), rng.uniform(0.02, 0.5))
            )
        spring = {"stiffness": some(rng.uniform(1, 30)), "damping": rng.uniform(0.01, 0.5), "armature": some(0.01)}
        dry = {"friction": some(rng.uniform(0.05, 0.5), 0.25)} if one != "ball" else {}
        name = b.add_joint(body, one, axis=axis, anchor=rng.uniform(-0.05, 0.05, 3), **spring, **dry, **stop)
        if one != "ball" and rng.random() < 0.6:
            b.add_actuator(name, gear=rng.uniform(0.2, 2.0))


# ---- one simulator ----------------------------------------------------------------------------------------------------


class Regimes(Watch):
    """What pushes and slides in each step, and which way, to compare two motions."""

    def __init__(self, sim):
        super().__init__(sim)
        self.tangents: list[np.ndarray] = []
        self.rows: list[np.ndarray] = []
        self.impacts: list[np.ndarray] = []

    def __call__(self, step: int) -> None:
        super().__call__(step)
        solver, impulse = self.sim._step.solver, self.sim.last_contacts.impulse
        bound = (1.0 - AT_BOUND) * solver.problem.mu.numpy()[:, : impulse.shape[1]] * impulse[..., 2]
        at_bound = (np.abs(impulse[..., :2]) >= bound[..., None]) & self.sim.solver.has_pyramid
        self.tangents.append(np.where(at_bound, np.sign(impulse[..., :2]), 0.0).astype(int))
        f, lower, upper, R = (
            x.numpy()
            for x in (
                solver.solution.row_gamma,
                solver.problem.row_lower,
                solver.problem.row_upper,
                solver.problem.row_R,
            )
        )
        near = AT_BOUND * np.abs(f).max(axis=1, initial=0.0)[:, None]
        side = (f >= upper - near).astype(int) - (f <= lower + near)
        self.rows.append(np.where(R > 0.0, side, 2))
        self.impacts.append(self.sim.diagnostics.impacts.numpy().copy())

    def first_difference(self, other: "Regimes", w: int) -> int:
        """The first step in which they are not the same; the number of steps where there is none."""
        mine, theirs = self.of(w), other.of(w)
        return next((k for k, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), len(mine))

    def of(self, w: int) -> list:
        """One entry per step: the contacts that push, whether and where to each slides, and the rows at their bounds."""
        found = []
        of_steps = zip(self.contacts, self.tangents, self.rows, self.impacts, strict=True)
        for (names, push, slides), tangents, rows, impacts in of_steps:
            pushing = np.flatnonzero(push[w] > 1e-6 * push[w].max(initial=0.0))
            if self.sim.solver.has_pyramid:
                ways = tangents[w].tolist()
            else:
                ways = slides[w].tolist()
            contacts = frozenset((*names[w, i].tolist(), str(ways[i])) for i in pushing)
            found.append((contacts, tuple(rows[w].tolist()), int(impacts[w])))
        return found


class Fuzz:
    """A seed under one integrator and solver; worlds are directions."""

    def __init__(self, seed: int, integrator: str, solver: str, horizons):
        model, rng = tree(seed), np.random.default_rng([seed, 7])
        self.horizons, self.steps = horizons, horizons[-1]
        options = {
            "time_of_impact": integrator == TIMED,
            "integrator": INTEGRATORS["symplectic" if integrator == TIMED else integrator],
            "solver": TIMED_CONVEX if (integrator, solver) == (TIMED, "convex") else SOLVERS[solver],
            "dtype": "float64",
            "device": "cpu",
        }
        self.sim = ws.Simulator(model, DIRECTIONS, DT, requires_grad=True, **options)
        names = [n for n in PARAMETERS if getattr(model, n).size]
        shapes = input_shapes(self.sim, self.steps, names)
        self.point = {name: np.array(self.sim.parameters[name].numpy(), float).reshape(shapes[name]) for name in names}
        # Under SAP for all: rigid contacts at rest lie on their kink, distance 0, and SAP leaves an overlap.
        fall = ws.Simulator(model, 1, DT, dtype="float64", device="cpu")
        v = 0.5 * rng.normal(size=(1, model.nv))
        most = 45 if integrator == TIMED else 120  # most have landed after 50
        start = fall.rollout(fall.state(v=v), steps=int(rng.integers(20, most))).final
        self.point |= {"q": np.repeat(start.q.numpy(), DIRECTIONS, 0), "v": np.repeat(start.v.numpy(), DIRECTIONS, 0)}
        if model.nu:
            self.point["controls"] = np.repeat(rng.uniform(-0.8, 0.8, size=(self.steps, 1, model.nu)), DIRECTIONS, 1)
        self.weights = [rng.normal(size=n) for n in (model.nq, model.nv)]
        self.directions = {name: self._direction(name, x, rng) for name, x in self.point.items()}

    def _direction(self, name: str, x: np.ndarray, rng) -> np.ndarray:
        """Random, relative to each entry of a parameter; world 0 moves q and v alone, 1 the parameters alone, 2 the
        controls alone (or all), the others everything."""
        groups = {
            0: ("q", "v"),
            1: tuple(PARAMETERS),
            2: ("controls",) if "controls" in self.point else tuple(self.point),
        }
        unit = 1.0 if name in ("q", "v", "controls") else np.abs(x)  # what is 0, as dampings may be, is on a bound
        direction = np.where(np.isfinite(x), unit * rng.normal(size=x.shape), 0.0)
        for w, group in groups.items():
            if name not in group:
                direction[(slice(None), w) if name == "controls" else w] = 0.0
        return direction

    def losses(self, point):
        """(horizons, worlds), flags (worlds,), regimes."""
        arrays = {name: device_array(self.sim, name, x, x.shape) for name, x in point.items()}
        inputs, watch = Inputs(self.sim, arrays), Regimes(self.sim)
        t = self.sim.rollout(inputs.start, inputs.controls, self.steps, progress=watch)
        q, v = (x.numpy()[list(self.horizons)] for x in (t.q, t.v))
        return q @ self.weights[0] + v @ self.weights[1], t.diagnostics["flags"].numpy()[-1].copy(), watch

    def slopes(self, horizon: int) -> tuple[np.ndarray, np.ndarray]:
        """The tape's derivative along each world's direction, and a scale: Σ |gradient entry · direction entry|."""
        point = {name: x[:horizon] if name == "controls" else x for name, x in self.point.items()}
        arrays = {name: device_array(self.sim, name, x, x.shape) for name, x in point.items()}
        run, seeds = TapedRollout(self.sim, arrays, horizon), {}
        for array, weight in zip((run.trajectory.q, run.trajectory.v), self.weights, strict=True):
            values = np.zeros(array.shape)
            values[-1] = weight
            seeds[array] = device_array(self.sim, "gradient", values, values.shape)
        slope, scale = np.zeros(DIRECTIONS), np.full(DIRECTIONS, 1e-3)
        for name, found in run.gradients(grads=seeds).items():
            g, d = found.numpy(), self.directions[name][:horizon] if name == "controls" else self.directions[name]
            part = np.moveaxis(g * d, 1 if name == "controls" else 0, 0).reshape(DIRECTIONS, -1)
            slope, scale = slope + part.sum(axis=1), scale + np.abs(part).sum(axis=1)
        return slope, scale

    def entries(self) -> list[dict]:
        """One per horizon and world: error, its step size, and the reason where it is above the bar."""
        loss0, flags, watch = self.losses(self.point)
        self.contacts = float(np.mean([len(contacts) for contacts, *_ in watch.of(0)]))
        self.impacts = int(np.sum(watch.impacts))
        sides, same = [], []
        for size in SIZES:
            ends = [
                self.losses(self.point | {n: self.point[n] + s * size * d for n, d in self.directions.items()})
                for s in (1.0, -1.0)
            ]
            sides.append(np.stack([ends[0][0] - loss0, loss0 - ends[1][0]]) / size)
            same.append([min(watch.first_difference(end[2], w) for end in ends) for w in range(DIRECTIONS)])
            flags = flags | ends[0][1] | ends[1][1]
        sides, same, found = np.array(sides), np.array(same), []  # (sizes, 2, horizons, worlds), (sizes, worlds)
        for k, horizon in enumerate(self.horizons):
            slope, scale = self.slopes(horizon)
            for w in range(DIRECTIONS):
                clean = same[:, w] >= horizon
                entry = judge(slope[w], sides[:, :, k, w], clean, scale[w], int(flags[w]))
                found.append({"horizon": horizon, "world": w, **dataclasses.asdict(entry)})
        return found


@dataclasses.dataclass
class Entry:
    """`error` relative, at its best `size`; `reason` is empty within the bar."""

    error: float
    size: float
    reason: str


def judge(slope: float, sides: np.ndarray, clean: np.ndarray, scale: float, flags: int) -> Entry:
    """`sides (sizes, 2)`: one-sided differences; `clean (sizes,)`: no kink that is watched lies between point and sides."""
    central = sides.mean(axis=1)
    errors = np.abs(central - slope) / scale
    if not np.isfinite(errors).any():
        return Entry(float("nan"), 0.0, "flagged" if flags else "unexplained")
    best = int(np.nanargmin(errors))
    if errors[best] <= BAR:
        return Entry(float(errors[best]), SIZES[best], "")
    windows = np.lib.stride_tricks.sliding_window_view(central, 3)
    settled = np.ptp(windows, axis=1) <= BAR * scale
    gap = np.abs(sides[:, 0] - sides[:, 1])
    parts = (gap[2:] > PARTING * gap[:-2]) & (gap[2:] > PARTING * BAR * scale)
    if flags:
        reason = "flagged"
    elif settled.any() and parts[settled].all():
        reason = "jump"
    elif (settled & (gap[2:] <= BAR * scale)).any():
        reason = "unexplained"
    elif not clean.any():
        reason = "kink crossed"
    elif _is_kink(sides, BAR * scale):
        reason = "kink"
    else:
        reason = "unexplained" if settled.any() else "unsettled"
    return Entry(float(errors[best]), SIZES[best], reason)


# ---- running ----------------------------------------------------------------------------------------------------------


def report(rows: list[dict], seconds: float, about: dict) -> str:
    """Markdown."""
    lines = ["# Gradients of random trees against central differences", ""]
    seeds = sorted({row["seed"] for row in rows})
    lines += [f"{about['date']}, {about['processor']}, float64; seeds {seeds[0]} to {seeds[-1]}, {len(rows)} simulators, "
              f"{seconds:.0f} s. `python -m benchmarks.gradient_fuzz{' --impacts' * (rows[0]['integrator'] == TIMED)}`.", ""]  # fmt: skip
    pushing = [row["contacts"] for row in rows if "contacts" in row]
    lines += [
        f"Contacts that push, mean per step: median {np.median(pushing):.1f}, none in {sum(c == 0 for c in pushing)} simulators.",
        "",
    ]
    hit = [row["impacts"] for row in rows if row.get("impacts")]
    if hit:
        lines += [f"Impacts inside steps: {sum(hit)}, in {len(hit)} simulators.", ""]
    head = ["integrator", "solver", "steps", "compared", "within 1e-5", "worst of those", *REASONS]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (integrator, solver), horizon in itertools.product(itertools.product((*INTEGRATORS, TIMED), SOLVERS), HORIZONS):
        own = [r for r in rows if (r["integrator"], r["solver"]) == (integrator, solver)]
        found = [e for row in own for e in row.get("entries", []) if e["horizon"] == horizon]
        if not found:
            continue
        good = [e["error"] for e in found if not e["reason"]]
        counts = collections.Counter(e["reason"] for e in found)
        worst = f"{max(good):.0e}" if good else ""
        cells = [integrator, solver, horizon, len(found), len(good), worst, *(counts[reason] for reason in REASONS)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "Unexplained, and what a simulator refused:", ""]
    for row in rows:
        label = f"seed {row['seed']}, {row['integrator']}, {row['solver']}"
        lines += [f"- {label}: refused: {row['refused']}"] if "refused" in row else []
        lines += [
            f"- {label}, {e['horizon']} steps, world {e['world']}: {e['error']:.1e} at {e['size']:g}"
            for e in row.get("entries", [])
            if e["reason"] == "unexplained"
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--impacts", action="store_true", help="steps with time_of_impact=True instead")
    parser.add_argument("--quick", action="store_true", help="two seeds, 1 and 10 steps")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the table, as .json and .md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    horizons = HORIZONS[:2] if arguments.quick else HORIZONS
    rows, begin, about = [], time.perf_counter(), machine(wp.get_device("cpu"))
    seeds = range(arguments.first, arguments.first + (2 if arguments.quick else arguments.seeds))
    schemes = list(itertools.product(INTEGRATORS, SOLVERS))
    name = "gradient_fuzz"
    if arguments.impacts:
        schemes, name = [(TIMED, solver) for solver in ("SAP", "convex", "LCP")], "gradient_fuzz_impacts"
    for seed, (integrator, solver) in itertools.product(seeds, schemes):
        row = {"seed": seed, "integrator": integrator, "solver": solver}
        try:
            fuzz = Fuzz(seed, integrator, solver, horizons)
            row["entries"] = fuzz.entries()
            row |= {"contacts": fuzz.contacts, "impacts": fuzz.impacts}
        except (ValueError, NotImplementedError) as error:
            row["refused"] = str(error).splitlines()[0]
        rows.append(row)
        bad = [e for e in row.get("entries", []) if e["reason"]]
        told = "; ".join(f"{e['horizon']} steps {e['error']:.0e} {e['reason']}" for e in bad)
        print(seed, integrator, solver, row.get("refused", told or "within"), flush=True)
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            text = report(rows, time.perf_counter() - begin, about)
            (arguments.out / f"{name}.md").write_text(text)
            (arguments.out / f"{name}.json").write_text(json.dumps({"machine": about, "rows": rows}) + "\n")
    print(report(rows, time.perf_counter() - begin, about))
    return int(any(e["reason"] == "unexplained" for row in rows for e in row.get("entries", [])))


if __name__ == "__main__":
    sys.exit(main())
