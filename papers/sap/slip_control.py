# SPDX-License-Identifier: Apache-2.0
"""§VI-D of Castro, Permenter and Han: a soft gripper that lets a spatula slip under control (Fig. 17), and what the paper does not have.

    python -m papers.sap.slip_control [--quick] [--drake [PYTHON]] [--out papers/sap/results] [--plots papers/sap]

The paper's open loop at four levels of contact points and two steps beside recorded runs of Drake; the spatula's true inertia; finer bubbles;
speed of one world in one thread; and many worlds of unknown friction, in open and in closed loop. --drake runs Drake itself, by this interpreter
or another one that has pydrake. About 10 minutes, --quick one. README.md explains the numbers.
"""

import argparse
import functools
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # idle BLAS threads spin, and CPU time counts them

import numpy as np
import warp as wp

from papers.sap import slip_plots
from papers.sap.grip import (
    PERIOD,
    RateControl,
    Run,
    drake,
    follow,
    motors,
    open_loop,
    recorded,
    regulated,
    simulator,
    torsions,
    wave,
)
from papers.tables import formatted, made_on, results_folder, write
from scenes.pressure import TRUE_INERTIA, pitch, spatula_gripper, spatula_start
from warpsim.tools.bench import machine

REFERENCE = pathlib.Path(__file__).parents[2] / "tests/reference/data/hydro_open.npz"
LEVELS = ("polygons", "patch16", "patch5", "patch4")
TETRAHEDRA = "polygons of Drake's tetrahedra"
STEPS = {0.005: "paper_h5", 0.01: "paper_h10"}
SAMPLE = 0.1  # [s] of the paths that are kept
WORLDS_STEP = 0.01  # [s] of the many worlds
LEAST_FRICTION, MOST_FRICTION = 0.5, 1.2
CONTROLLED = 12.0  # [s]
FULL = {"seconds": 30.0, "true": 18.0, "finer": 24.5, "resolutions": (0.04, 0.02, 0.01), "worlds": 256, "turns": 3}
QUICK = {"seconds": 6.5, "true": 6.5, "finer": 6.5, "resolutions": (0.04, 0.02), "worlds": 8, "turns": 1}


def summary(run: Run, beside: Run, name: str, h: float) -> dict:
    """A run in numbers, the turns beside another's."""
    firm, loose = run.mean_contacts()
    turns, theirs = run.turns(), beside.turns()
    n = min(len(turns), len(theirs))
    solved = run.iterations is not None
    return {
        "run": name, "h": h, "firm_contacts": firm, "loose_contacts": loose,
        "iterations": float(run.iterations.mean()) if solved else float("nan"),
        "most_iterations": float(run.iterations.max()) if solved else float("nan"),
        "e_m": float(run.e_m.max()) if solved else float("nan"),
        "creep": float(run.creep().max()), "end": float(run.pitch[-1]),
        "end_off": float(run.pitch[-1] - beside.at(run.t[-1])),
        "worst_turn_off": float(np.abs(turns[:n] - theirs[:n]).max()),
        "turns": " ".join(f"{x:.2f}" for x in turns), "flags": run.flags,
    }  # fmt: skip


def path(run: Run, name: str, h: float, inertia: str = "file") -> list[dict]:
    """Samples of a run for the figure."""
    times = np.arange(0.0, run.t[-1] + 1e-9, SAMPLE)
    count = np.interp(times, run.t[-len(run.contacts) :], run.contacts)
    rows = zip(times, np.interp(times, run.t, run.pitch), count, strict=True)
    return [{"run": name, "h": h, "inertia": inertia, "t": t, "pitch": p, "contacts": c} for t, p, c in rows]


def open_loops(seconds: float) -> tuple[list[dict], list[dict], list[dict]]:
    """The paper's run: summaries, paths, and how many steps take how many iterations at the paper's h, with their worst e_m."""
    reference, rows, paths, steps = np.load(REFERENCE), [], [], []
    for h, name in STEPS.items():
        beside = recorded(reference, name)
        rows.append(summary(beside, beside, "Drake, recorded", h))
        paths += path(beside, "Drake, recorded", h)
        for level in (*LEVELS, TETRAHEDRA):
            run = open_loop(level.split()[0], h, seconds, tetrahedra=level == TETRAHEDRA)
            rows.append(summary(run, beside, level, h))
            paths += path(run, level, h)
            if h == 0.005:
                count = np.bincount(run.iterations)
                worst = [float(run.e_m[run.iterations == k].max(initial=0.0)) for k in range(len(count))]
                counted = enumerate(zip(count.tolist(), worst, strict=True))
                steps += [{"run": level, "iterations": k, "steps": n, "e_m": e} for k, (n, e) in counted]
    return rows, paths, steps


def true_inertias(seconds: float) -> tuple[list[dict], list[dict]]:
    """The same with the inertia that a spatula of 68 g has."""
    beside = recorded(np.load(REFERENCE), "true_inertia_h5")
    rows, paths = [summary(beside, beside, "Drake, recorded", 0.005)], path(beside, "Drake, recorded", 0.005, "true")
    for level in ("polygons", "patch16"):
        run = open_loop(level, 0.005, seconds, TRUE_INERTIA)
        rows.append(summary(run, beside, level, 0.005))
        paths += path(run, level, 0.005, "true")
    return rows, paths


def creeps(seconds: float) -> list[dict]:
    """Creep while held, by the slip parameter σ, the solver's tolerance, and how the handle's field is cut."""
    theirs = recorded(np.load(REFERENCE), "paper_h5").creep()
    rows = []
    for sigma, tolerance, points in (
        (1e-3, 1e-3, "polygons"), (1e-3, 1e-3, TETRAHEDRA), (1e-3, 1e-6, "polygons"), (7e-4, 1e-3, "polygons"), (5e-4, 1e-3, "polygons"),
    ):  # fmt: skip
        run = open_loop("polygons", 0.005, seconds, sigma=sigma, tolerance=tolerance, tetrahedra=points == TETRAHEDRA)
        ours = run.creep()
        row = {
            "points": points,
            "sigma": sigma,
            "tolerance": tolerance,
            "creep": float(ours.max()),
            "iterations": run.iterations.mean(),
        }
        row["firm_contacts"] = run.mean_contacts()[0]
        rows.append(row | {"drake": float(theirs[: len(ours)].max()), "turn": float(run.turns()[0])})
    return rows


def finer(seconds: float, resolutions, python: str | None) -> tuple[list[dict], list[dict]]:
    """Turns per loose phase by the resolution of the bubbles; and the torsion of the points over the exact one, at poses of one motion."""
    turns, capacity = [], []
    model = spatula_gripper()
    sim = simulator(model, 0.005, "polygons")
    q = sim.rollout(sim.state(spatula_start(model)[None]), motors(wave(seconds, 0.005))[:, None]).q.numpy()[:, 0]
    poses = q[[round((PERIOD * k + 5.9) / 0.005) for k in range(int(seconds // PERIOD))]]
    for resolution in resolutions:
        model = spatula_gripper(bubble=(1e5, resolution))
        runs = {
            level: follow(simulator(model, 0.005, level, max_polygons=2048), wave(seconds, 0.005))
            for level in ("polygons", "patch16")
        }
        if python:
            runs["Drake"] = drake(python, 0.005, seconds, resolution)
        for name, run in runs.items():
            firm, loose = run.mean_contacts()
            turned = {f"turn_{k + 1}": float(x) for k, x in enumerate(run.turns())}
            turns.append({"resolution": resolution, "run": name, "firm": firm, "loose": loose, "ms": run.ms} | turned)
        for pose in poses:
            for level in LEVELS:
                found, exact, points = torsions(pose, resolution, level)
                capacity.append({
                    "resolution": resolution, "pitch": float(np.degrees(pitch(pose))), "level": level,
                    "points": points, "torsion": found, "exact": exact, "ratio": found / exact,
                })  # fmt: skip
    return turns, capacity


def speeds(seconds: float, turns: int, python: str | None) -> list[dict]:
    """CPU time of a step of one world in one thread, turn about."""
    makers = {
        ("warpsim, polygons", "float64"): lambda: open_loop("polygons", 0.005, seconds).ms,
        ("warpsim, polygons", "float32"): lambda: open_loop("polygons", 0.005, seconds, dtype="float32").ms,
        ("warpsim, patch16", "float64"): lambda: open_loop("patch16", 0.005, seconds).ms,
        ("warpsim, patch5", "float64"): lambda: open_loop("patch5", 0.005, seconds).ms,
    }
    if python:
        makers["Drake, polygons", "float64"] = lambda: drake(python, 0.005, seconds).ms
    found = {key: [] for key in makers}
    for _ in range(turns):
        for key, make in makers.items():
            found[key].append(make())
    drake_ms = min(found.get(("Drake, polygons", "float64"), [float("nan")]))
    return [
        {"engine": e, "dtype": d, "ms": min(ms), "most_ms": max(ms), "faster": drake_ms / min(ms)}
        for (e, d), ms in found.items()
    ]


def many_frictions(worlds: int, level: str = "patch16") -> tuple[list[dict], list[dict]]:
    """Pitch at the end over random frictions: the controller, and the grip that it finds at the middle friction, replayed; and paths."""
    model, control = spatula_gripper(), RateControl()
    rng = np.random.default_rng(0)
    mu = np.sort(rng.uniform(LEAST_FRICTION, MOST_FRICTION, worlds))
    single = simulator(model, WORLDS_STEP, level)
    single.parameters["geom_friction"] = np.full((1, 3), 0.5 * (LEAST_FRICTION + MOST_FRICTION))
    start = spatula_start(model)
    _, _, nominal = regulated(single, start[None], control, CONTROLLED)
    sim = simulator(model, WORLDS_STEP, level, worlds)
    sim.parameters["geom_friction"] = np.repeat(mu[:, None], 3, axis=1)
    q = np.repeat(start[None], worlds, axis=0)
    t, closed, grips = regulated(sim, q, control, CONTROLLED)
    replayed = sim.rollout(sim.state(q), motors(np.repeat(nominal, worlds, axis=1)), every=5)
    opened = np.degrees(pitch(replayed.q.numpy()))
    ends = [
        {"friction": float(m), "open": float(o), "closed": float(c)}
        for m, o, c in zip(mu, opened[-1], closed[-1], strict=True)
    ]
    shown = [0, worlds // 4, worlds // 2, 3 * worlds // 4, worlds - 1]
    paths = [
        {"friction": float(mu[w]), "t": float(t[k]), "open": float(opened[k, w]), "closed": float(closed[k, w]),
         "grip": float(grips[min(5 * k, len(grips) - 1), w]), "nominal": float(nominal[min(5 * k, len(grips) - 1), 0])}
        for w in shown for k in range(0, len(t), 2)
    ]  # fmt: skip
    return ends, paths


def measure(size: dict, python: str | None) -> dict[str, list[dict]]:
    """Rows of every table and figure by name."""
    out = {}

    def done(**rows) -> None:
        out.update(rows)
        print(", ".join(f"{name}: {len(x)} rows" for name, x in rows.items()), flush=True)

    rows, paths, steps = open_loops(size["seconds"])
    done(slip_open_loop=rows, slip_steps=steps)
    rows, more = true_inertias(size["true"])
    done(slip_true_inertia=rows, slip_paths=paths + more)
    done(slip_creep=creeps(min(size["seconds"], 12.0)))
    turns, capacity = finer(size["finer"], size["resolutions"], python)
    done(slip_finer=turns, slip_torsion=capacity)
    ends, paths = many_frictions(size["worlds"])
    done(slip_frictions=ends, slip_controlled=paths)
    done(slip_speed=speeds(size["seconds"], size["turns"], python))
    return out


def required(result: dict[str, list[dict]]) -> list[dict]:
    """What was asked of the run at the paper's step and tessellation, and what came out."""
    row = next(r for r in result["slip_open_loop"] if r["run"] == "polygons" and r["h"] == 0.005)
    creep = result["slip_creep"]
    speed = next(r for r in result["slip_speed"] if r["engine"] == "warpsim, polygons" and r["dtype"] == "float64")
    lines = [
        ("turn of a loose phase, from Drake's [deg]", "0.3", row["worst_turn_off"], row["worst_turn_off"] <= 0.3),
        ("pitch at the end, from Drake's [deg]", "1", row["end_off"], abs(row["end_off"]) <= 1.0),
        ("worst e_m", "1e-3", row["e_m"], row["e_m"] <= 1e-3),
        ("iterations per step", "1 (paper: 0.62)", row["iterations"], row["iterations"] < 1.0),
        ("creep while held, of Drake's, with its tetrahedra", "1", creep[1]["creep"] / creep[1]["drake"], creep[1]["creep"] <= creep[1]["drake"]),
        ("the same, a cell for each face", "1", creep[0]["creep"] / creep[0]["drake"], creep[0]["creep"] <= creep[0]["drake"]),
        ("times faster than Drake, float64", "5", speed["faster"], speed["faster"] >= 5.0),
    ]  # fmt: skip
    return [{"what": w, "bar": b, "measured": m, "met": "yes" if ok else "no"} for w, b, m, ok in lines]


def markdown(result: dict[str, list[dict]], host: dict) -> str:
    """The tables, and the machine below them."""
    lines = ["## Asked and measured (level polygons, h = 5 ms)", ""]
    lines += formatted(required(result), {"": "{what}", "bar": "{bar}", "measured": "{measured:.3g}", "met": "{met}"})
    columns = {
        "points": "{run}", "h s": "{h:g}", "contacts firm": "{firm_contacts:.0f}", "loose": "{loose_contacts:.0f}",
        "iterations per step": "{iterations:.2f}", "most": "{most_iterations:.0f}", "worst e_m": "{e_m:.1e}",
        "creep °/s": "{creep:.4f}", "turns °": "{turns}", "worst from Drake's °": "{worst_turn_off:.2f}",
        "end °": "{end:.2f}", "from Drake's °": "{end_off:.2f}",
    }  # fmt: skip
    lines += ["## Open loop (Fig. 17)", "", *formatted(result["slip_open_loop"], columns)]
    lines += ["## The spatula's true inertia", "", *formatted(result["slip_true_inertia"], columns)]
    lines += ["## Creep while held, h = 5 ms", ""]
    lines += formatted(result["slip_creep"], {
        "points": "{points}", "contacts firm": "{firm_contacts:.0f}", "σ": "{sigma:g}", "tolerance": "{tolerance:g}", "creep °/s": "{creep:.4f}", "Drake's": "{drake:.4f}",
        "first turn °": "{turn:.2f}", "iterations per step": "{iterations:.2f}",
    })  # fmt: skip
    lines += ["## Finer bubbles: turns of loose phases", ""]
    turns = [key for key in result["slip_finer"][0] if key.startswith("turn")]
    lines += formatted(result["slip_finer"], {
        "resolution m": "{resolution:g}", "points": "{run}", "contacts firm": "{firm:.0f}", "loose": "{loose:.0f}",
        **{f"turn {key[5:]} °": "{" + key + ":.2f}" for key in turns}, "ms per step": "{ms:.2f}",
    })  # fmt: skip
    lines += ["## Torsion of a pose by its points, over that of the pressure's integral", ""]
    lines += formatted(result["slip_torsion"], {
        "resolution m": "{resolution:g}", "pitch °": "{pitch:.1f}", "level": "{level}", "points": "{points}",
        "ratio": "{ratio:.3f}",
    })  # fmt: skip
    lines += [
        f"## {len(result['slip_frictions'])} worlds of random friction, {LEAST_FRICTION} to {MOST_FRICTION}: pitch at the end",
        "",
    ]
    spreads = [
        {"loop": name, "mean": x.mean(), "std": x.std(), "low": x.min(), "high": x.max()}
        for name in ("open", "closed")
        for x in [np.array([r[name] for r in result["slip_frictions"]])]
    ]
    lines += formatted(spreads, {
        "loop": "{loop}", "mean °": "{mean:.2f}", "standard deviation °": "{std:.2f}", "from … to °": "{low:.2f} … {high:.2f}",
    })  # fmt: skip
    lines += ["## CPU time of a step, one world, one thread", ""]
    lines += formatted(result["slip_speed"], {
        "engine": "{engine}", "dtype": "{dtype}", "least ms": "{ms:.3f}", "most ms": "{most_ms:.3f}",
        "Drake's least over it": "{faster:.1f}",
    })  # fmt: skip
    text = "\n".join([*lines, made_on(host, "warpsim", "warp-lang")]) + "\n"
    return text.replace("| nan |", "| |").replace("| nan |", "| |")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one period and few worlds: about a minute")
    parser.add_argument(
        "--drake", nargs="?", const=sys.executable, metavar="PYTHON", help="an interpreter with pydrake"
    )
    parser.add_argument(
        "--out", type=functools.partial(results_folder, "sap"), help="folder for slip_control.md and one CSV per table"
    )
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the PNGs")
    arguments = parser.parse_args()
    wp.config.quiet = True
    result = measure(QUICK if arguments.quick else FULL, arguments.drake)
    text = markdown(result, machine(wp.get_device("cpu")))
    print("\n" + text)
    if arguments.out:
        write(result, text, arguments.out / "slip_control.md")
    if arguments.plots:
        slip_plots.draw(result, arguments.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
