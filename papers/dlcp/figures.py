# SPDX-License-Identifier: Apache-2.0
"""Rigid contact as a boxed LCP against Werling, Exarchos, Omens and Liu, *Fast and Feature-Complete Differentiable Physics*.

    python -m papers.dlcp.figures [--quick] [--out papers/dlcp/results] [--plot papers/dlcp/figures.png]

Recorded LCPs and steps of another engine, warm starts (paper, appendix A.1: right > 95 % of the time), cost against the number
of contacts, a block on a plane, two elastic balls. One thread; times are CPU time. About 4 minutes, --quick under one.
README.md explains the numbers.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # idle BLAS threads spin, and CPU time counts them

import numpy as np
import warp as wp

import warpsim as ws
from papers.tables import formatted, made_on, results_folder
from scenes.examples import asset, clutter, stack
from scenes.lcp_samples import BoxedLCP, natural_residual, stack_problems
from scenes.rigid import GAITS, REFERENCE, SCENES, block, gait, spheres
from warpsim.base.extras import import_or_explain
from warpsim.solve.lcp.lcp import CLAMPING, CLASSES, IMPULSES, NOTHING, SEPARATING, LCPSolver
from warpsim.tools.bench import machine

ROOT = pathlib.Path(__file__).parents[2]
GRAVITY = 9.81
FULL = {"seconds": 6.0, "steps": (0.01, 0.005, 0.0025, 0.001), "stacks": range(1, 13), "repeats": 20}
QUICK = {"seconds": 2.0, "steps": (0.01, 0.005), "stacks": (1, 4, 8), "repeats": 3}
# The paper's step of a walking robot is not given; gymnasium's is 5 or 10 ms.
NATURAL_STEP = {"half_cheetah": 0.01, "ant": 0.01}


def recorded_problems() -> list[dict]:
    """The 206 LCPs of a walking half-cheetah: what we answer, and what the engine that met them answered."""
    with np.load(ROOT / "tests/reference/data/boxed_lcps.npz") as data:
        names = sorted({key.rsplit("/", 1)[0] for key in data})
        problems = [BoxedLCP(*(data[f"{k}/{f}"] for f in ("A", "b", "hi", "findex")), "recorded") for k in names]
        valid, peers = ([data[f"{k}/{f}"] for k in names] for f in ("x", "x_peer"))
    answers = {"the engine that met them": peers}
    for dtype in ("float64", "float32"):
        x = ws.solve_lcp(**stack_problems(problems), dtype=dtype).x.astype(float)
        answers[f"ws.solve_lcp, {dtype}"] = [x_w[: len(p.b)] for x_w, p in zip(x, problems, strict=True)]
    rows = []
    for name, answer in answers.items():
        residuals = np.array([natural_residual(p, x) for p, x in zip(problems, answer, strict=True)])
        friction = [np.abs(x[p.findex >= 0]).max() > 1e-6 for p, x in zip(problems, answer, strict=True)]
        apart = [np.abs(p.A @ (x - y)).max() for p, x, y in zip(problems, answer, valid, strict=True)]
        row = {"answers": name, "problems": len(problems), "solved": int(np.sum(residuals <= 1e-7))}
        row |= {"with_friction": int(np.sum(friction)), "residual": residuals.max(), "velocity_apart": max(apart)}
        rows.append(row)
    return rows


def simulator(model: ws.Model, **options) -> ws.Simulator:
    """With the paper's law of impact, over a whole step."""
    return ws.Simulator(model, dtype="float64", device="cpu", solver=ws.LCP(), time_of_impact=False, **options)


def recorded_steps() -> list[dict]:
    """Next velocities of the scenes of `lcp_jacobians.npz`."""
    rows = []
    for name, (builder, force) in SCENES.items():
        q, v, expected = (REFERENCE[f"{name}/{key}"] for key in ("q", "qd", "qd_next"))
        sim = simulator(builder.build())
        ours = sim.step(sim.state(q=q, v=v), tau=np.array([force], float)).v.numpy()[0]
        rows.append({"scene": name, "ours": ours, "recorded": expected, "error": np.abs(ours - expected).max()})
    return rows


class Probe:
    """What the classes of the last step, carried over as they stand, would have solved of the LCPs of a simulator."""

    def __init__(self, sim: ws.Simulator):
        self.contact_solver = sim._step.solver
        own = self.contact_solver.lcp
        self.solver = LCPSolver(1, own.solution.x.shape[1], dtype=sim.dtype, device="cpu")
        for name in ("A", "b", "hi", "findex", "rows"):
            setattr(self.solver.problem, name, getattr(own.problem, name))
        self.solver.problem.classes = wp.zeros_like(own.solution.classes)
        self.solver.options.guess, self.known, self.row_classes = CLASSES, {}, {}

    def hit(self) -> bool:
        """Whether they solve the last step's LCP at one factorisation; then carries over that step's own classes."""
        contacts = self.contact_solver.collision.contacts
        n, count = int(self.solver.problem.rows.numpy()[0]), int(contacts.count.numpy()[0])
        pair, feature = contacts.pair.numpy()[0], contacts.feature.numpy()[0]
        keys = [(int(pair[c]), *map(int, feature[c])) for c in range(count)]
        sources = self.contact_solver.delassus.dual.source.numpy()[0, 3 * count : n]
        guess = [self.known.get(key, (CLAMPING,) * 3) for key in keys]
        guess = [*np.ravel(guess), *(self.row_classes.get(s, SEPARATING) for s in sources)]
        padded = np.zeros(self.solver.problem.classes.shape, dtype=np.int32)
        padded[0, :n] = guess
        self.solver.problem.classes.assign(padded)
        right = bool(self.solver.launch().hit.numpy()[0])
        classes = self.contact_solver.lcp.solution.classes.numpy()[0, :n]
        self.known = {key: tuple(classes[3 * c : 3 * c + 3]) for c, key in enumerate(keys)}
        self.row_classes = dict(zip(sources, classes[3 * count :], strict=True))
        return right


def warm_starts(scene: str, model: ws.Model, h: float, controls, steps: int, skipped: int = 0, v=None) -> dict:
    """How often the guess was right, over the steps with contact after the first `skipped`."""
    sim = ws.Simulator(model, dt=h, solver=ws.LCP(), dtype="float64", device="cpu")
    state = sim.state(None, v)
    lcp, probe = sim._step.solver.lcp, Probe(sim)
    hits, carried, counts, seconds = [], [], [], {IMPULSES: 0.0, NOTHING: 0.0}
    for k in range(steps):
        if k == skipped:
            start = state.q.numpy()[0].copy()
        state = sim.step(state, None if controls is None else controls[k], out=state)
        hit, count = int(sim.warm_start_hits.numpy()[0]), int(sim.diagnostics.iterations.numpy()[0])
        right = probe.hit()
        if k < skipped or sim.diagnostics.contacts.numpy()[0] == 0:
            continue
        hits.append(hit)
        counts.append(count)
        carried.append(right)
        for guess in (NOTHING, IMPULSES):
            seconds[guess] += cpu_time(lcp, guess)
    return {
        "scene": scene, "h": h, "steps": len(hits), "guess": np.mean(hits), "within_3": np.mean(np.array(counts) <= 3),
        "carried": np.mean(carried), "mean": np.mean(counts), "most": max(counts),
        "moved": np.abs(state.q.numpy()[0, :2] - start[:2]).max(), "flags": int(sim.diagnostics.flags.numpy()[0]),
        "warm_us": 1e6 * seconds[IMPULSES] / len(hits), "cold_us": 1e6 * seconds[NOTHING] / len(hits),
    }  # fmt: skip


def cpu_time(lcp: LCPSolver, guess: int) -> float:
    """CPU time of one launch on the problem that is there [s]."""
    lcp.options.guess = guess
    begin = time.process_time()
    lcp.launch()
    return time.process_time() - begin


def all_warm_starts(size: dict) -> list[dict]:
    """Walking robots by step size, and piles."""
    rows, seconds = [], size["seconds"]
    for robot in GAITS:
        model = ws.load(asset(robot))
        for h in size["steps"]:
            steps = int(seconds / h)
            rows.append(warm_starts(f"{robot}, gait", model, h, gait(robot, steps, h), steps, int(0.5 / h)))
        h = NATURAL_STEP[robot]
        steps = int(seconds / h)
        noise = np.random.default_rng(0).uniform(-1.0, 1.0, size=(steps, 1, model.nu))
        rows.append(warm_starts(f"{robot}, white noise", model, h, noise, steps, int(0.5 / h)))
    h = 0.005
    for count in (5, 10):
        poke = np.zeros(6 * count)
        poke[6 * (count - 1)] = 0.2  # the top one, sideways [m/s]
        rows.append(warm_starts(f"{count} spheres stand", spheres(count), h, None, int(seconds / h)))
        rows.append(warm_starts(f"{count} spheres, poked", spheres(count), h, None, int(seconds / h), v=poke))
    rows.append(warm_starts("10 boxes stand", stack(10), h, None, int(seconds / h)))
    rows.append(warm_starts("20 bodies fall and rest", clutter(20), 0.01, None, int(seconds / 0.01)))
    return rows


def solve_times(size: dict) -> list[dict]:
    """CPU time of the LCP alone against the number of contacts, for columns at rest: guessed, and from nothing."""
    rows = []
    for kind, make, per_body in (("boxes", stack, 4), ("spheres", spheres, 1)):
        for count in size["stacks"]:
            model = make(count if kind == "boxes" else 4 * count)
            sim = ws.Simulator(model, solver=ws.LCP(), dtype="float64", device="cpu")
            sim.rollout(sim.state(), steps=50, every=50)
            lcp, row = sim._step.solver.lcp, {"kind": kind, "contacts": int(sim.diagnostics.contacts.numpy()[0])}
            assert row["contacts"] >= per_body * count
            for name, guess in (("warm", IMPULSES), ("cold", NOTHING)):
                row[f"{name}_us"] = 1e6 * min(cpu_time(lcp, guess) for _ in range(size["repeats"]))
                row[f"{name}_factorizations"] = int(lcp.solution.factorizations.numpy()[0])
            rows.append(row)
    return rows


def blocks() -> list[dict]:
    """A unit block at 1 m/s on a plane: braked by μ g, so it slides 1/(2 μ g) in all; 1 s of 1 ms steps."""
    rows = []
    for mu in (0.0, 0.1, 0.5, 1.0, 1e7):
        model = block(mu, overlap=0.0, gravity=(0, -GRAVITY, 0)).build()
        sim = ws.Simulator(model, dtype="float64", device="cpu", solver=ws.LCP())
        trajectory = sim.rollout(sim.state(v=[1.0, 0.0]), steps=1000)
        q, v = trajectory.q.numpy()[:, 0], trajectory.v.numpy()[:, 0]
        exact = 1.0 if mu == 0.0 else max(1.0 / (2.0 * mu * GRAVITY), 0.0)
        rows.append({"mu": mu, "slides": q[-1, 0], "exact": exact, "end": v[-1, 0], "lifts": np.abs(q[:, 1]).max()})
    return rows


def balls() -> list[dict]:
    """Two balls meet head on, e = 1: v1' = ((m1 − m2) v1 + 2 m2 v2)/(m1 + m2), and the other way round."""
    rows = []
    for m, v in (
        ((1.0, 1.0), (1.0, 0.0)),
        ((1.0, 1.0), (1.0, -1.0)),
        ((1.0, 3.0), (2.0, -1.0)),
        ((1.0, 1e3), (1.0, 0.0)),
    ):
        b = ws.ModelBuilder("balls", gravity=[0, 0, 0], timestep=1e-3)
        for i in range(2):
            body = b.add_body(f"ball_{i}", pose=[0.5 * i, 0, 0], mass=m[i], inertia=[1e-3 * m[i]] * 3)
            b.add_joint(body, "slide", axis=[1, 0, 0])
            b.add_geom("sphere", [0.1], body=body, density=0.0, restitution=1.0, friction=0.0)
        sim = simulator(b.build())
        end = sim.rollout(sim.state(v=v), steps=1000, every=1000).final.v.numpy()[0]
        both = m[0] * v[0] + m[1] * v[1]
        exact = [2.0 * both / sum(m) - v_i for v_i in v]
        rows.append({"masses": m, "before": v, "after": end, "exact": exact, "error": np.abs(end - exact).max()})
    return rows


def gradients() -> list[dict]:
    """∂v⁺/∂v of the recorded scenes by reverse mode against the recorded one; nothing where LCP() has no gradients."""
    rows = []
    for name, (builder, force) in SCENES.items():
        try:
            sim = simulator(builder.build(), requires_grad=True)
        except ValueError:
            return []
        q, v = (REFERENCE[f"{name}/{key}"] for key in ("q", "qd"))
        jacobian = np.zeros((len(v), len(v)))
        for i in range(len(v)):
            state, seed = sim.state(q=q, v=v), np.zeros((1, len(v)))
            state.v.requires_grad = state.q.requires_grad = True
            seed[0, i] = 1.0
            with wp.Tape() as tape:
                following = sim.step(state, tau=wp.array([force], dtype=wp.float64, device="cpu", requires_grad=True))
            tape.backward(grads={following.v: wp.array(seed, dtype=wp.float64, device="cpu")})
            jacobian[i] = state.v.grad.numpy()[0]
        rows.append({"scene": name, "error": np.abs(jacobian - REFERENCE[f"{name}/vel_vel"]).max()})
    return rows


def markdown(result: dict[str, list[dict]], host: dict) -> str:
    """One table per section, and the machine below them."""

    def vectors(rows, *names):
        return [r | {n: "(" + ", ".join(f"{x:.6g}" for x in r[n]) + ")" for n in names} for r in rows]

    lines = ["## 206 recorded LCPs of a walking half-cheetah", ""]
    lines += formatted(result["recorded_problems"], {
        "answers of": "{answers}", "residual ≤ 1e-7": "{solved} of {problems}", "with friction": "{with_friction}",
        "worst residual": "{residual:.1e}", "A x apart from a valid solution": "{velocity_apart:.1e}",
    })  # fmt: skip
    lines += ["## Recorded steps: next velocity", ""]
    lines += formatted(vectors(result["recorded_steps"], "ours", "recorded"), {
        "scene": "{scene}", "recorded": "{recorded}", "ours": "{ours}", "error": "{error:.1e}",
    })  # fmt: skip
    lines += ["## Warm starts (paper: classes of the last step right > 95 % of the time)", ""]
    lines += formatted(result["warm_starts"], {
        "scene": "{scene}", "h s": "{h:g}", "steps with contact": "{steps}", "last classes as they stand": "{carried:.1%}",
        "guess right: 1 factorisation": "{guess:.1%}", "≤ 3 factorisations": "{within_3:.1%}",
        "mean / most": "{mean:.2f} / {most}", "moved m": "{moved:.2f}", "LCP µs, from the guess / from nothing": "{warm_us:.0f} / {cold_us:.0f}",
        "flags": "{flags}",
    })  # fmt: skip
    lines += ["## CPU time of one LCP at rest against contacts", ""]
    lines += formatted(result["solve_times"], {
        "column of": "{kind}", "contacts": "{contacts}", "guess µs": "{warm_us:.0f}", "from nothing µs": "{cold_us:.0f}",
        "factorisations, guess / nothing": "{warm_factorizations} / {cold_factorizations}",
    })  # fmt: skip
    lines += ["## A block at 1 m/s on a plane, 1 s", ""]
    lines += formatted(result["blocks"], {
        "μ": "{mu:g}", "slides m": "{slides:.6f}", "exact m": "{exact:.6f}", "end speed m/s": "{end:.1e}",
        "leaves the plane by m": "{lifts:.1e}",
    })  # fmt: skip
    lines += ["## Two elastic balls", ""]
    lines += formatted(vectors(result["balls"], "masses", "before", "after", "exact"), {
        "masses kg": "{masses}", "before m/s": "{before}", "after m/s": "{after}", "exact": "{exact}", "error": "{error:.1e}",
    })  # fmt: skip
    if result["gradients"]:
        lines += ["## Gradients: ∂v⁺/∂v against the recorded one", ""]
        lines += formatted(result["gradients"], {"scene": "{scene}", "largest error of an entry": "{error:.1e}"})
    lines += [f"{made_on(host, 'warpsim', 'warp-lang')}; float64."]
    return "\n".join(lines) + "\n"


def figure(path: pathlib.Path, result: dict[str, list[dict]]) -> None:
    """Warm starts against the step size, and CPU time against contacts."""
    import_or_explain("matplotlib", "show").use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for colour, robot in zip(("tab:blue", "tab:orange"), GAITS, strict=True):
        rows = [r for r in result["warm_starts"] if r["scene"] == f"{robot}, gait"]
        h = [1e3 * r["h"] for r in rows]
        for key, style, what in (("guess", "o-", "guess"), ("carried", "s--", "last classes as they stand")):
            left.plot(
                h, [100.0 * r[key] for r in rows], style, color=colour, label=f"{robot.replace('_', '-')}: {what}"
            )
    left.axhline(95.0, color="0.5", lw=0.8)
    left.set(xscale="log", xlabel="step [ms]", ylabel="solved at the first factorisation [%]", ylim=(None, 101.0))
    left.legend(fontsize=8)
    for colour, kind in zip(("tab:blue", "tab:orange"), ("boxes", "spheres"), strict=True):
        rows = [r for r in result["solve_times"] if r["kind"] == kind]
        for key, style, what in (("warm_us", "o-", "guess"), ("cold_us", "s--", "from nothing")):
            right.plot(
                [r["contacts"] for r in rows], [r[key] for r in rows], style, color=colour, label=f"{kind}: {what}"
            )
    right.set(xscale="log", yscale="log", xlabel="contacts", ylabel="CPU time of one LCP [µs]")
    right.legend(fontsize=8)
    left.set_xticks(ticks := [1e3 * h for h in reversed(FULL["steps"])], [f"{h:g}" for h in ticks], minor=False)
    right.set_xticks(ticks := [4, 8, 16, 32, 48], ticks)
    right.set_yticks(ticks := [20, 50, 100, 200, 500], ticks)
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        axis.set_minor_formatter(NullFormatter())
    for axes in (left, right):
        axes.grid(alpha=0.3)
    fig.savefig(path, dpi=110)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two step sizes, short runs: under a minute")
    parser.add_argument(
        "--out", type=functools.partial(results_folder, "dlcp"), help="folder for tables.md and tables.json"
    )
    parser.add_argument("--plot", type=pathlib.Path, help="PNG of warm starts and times")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    size = QUICK if arguments.quick else FULL
    host, result = machine(wp.get_device("cpu")), {}
    sections = {
        "recorded_problems": recorded_problems, "recorded_steps": recorded_steps,
        "warm_starts": lambda: all_warm_starts(size), "solve_times": lambda: solve_times(size),
        "blocks": blocks, "balls": balls, "gradients": gradients,
    }  # fmt: skip
    for name, section in sections.items():
        result[name] = section()
        print(f"{name}: {len(result[name])} rows", flush=True)
    text = markdown(result, host)
    print("\n" + text)
    if arguments.out:
        (arguments.out / "tables.md").write_text(text)
        plain = json.dumps({"machine": host} | result, indent=1, default=lambda x: x.tolist())
        (arguments.out / "tables.json").write_text(plain + "\n")
    if arguments.plot:
        figure(arguments.plot, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
