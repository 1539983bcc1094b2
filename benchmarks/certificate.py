# SPDX-License-Identifier: Apache-2.0
"""How well SAP solves: 1,000 random problems against Clarabel, and the certificate of every step of long runs.

    python -m benchmarks.certificate [--quick] [--urdf QUADRUPED.urdf] [--out benchmarks/results]

Needs clarabel and gymnasium (pip install 'warpsim[bench]'). Writes certificate.json and certificate.md. The tests
tests/solve/test_sap_clarabel.py and tests/solve/test_every_step_certified.py make short versions of both.
"""

import argparse
import functools
import importlib.metadata
import json
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.contact_problems import Exported, Problem, interior_point
from scenes.examples import SCENES, Scene, driven_at_random, quadruped_among_objects
from scenes.problem_samples import SIZES, hard_problems
from warpsim.tools.bench import machine
from warpsim.tools.demo import robot_path

ROBOTS = ("ant", "humanoid", "half_cheetah", "hopper")
TOLERANCE = {"float64": 1e-6, "float32": 1e-4}  # defaults of SAP
TIGHT = 1e-11  # of the random problems; A is conditioned up to 1e10, and v is compared in the norm of A
GUESSES = (None, 1e6)  # norms of v0; None: like v
SOLVERS = {
    "convex": ws.SAP(approximation="convex"),
    "lagged": ws.SAP(supported_load=False),
    "lagged, supported load": ws.SAP(),
}


def random_problems(per_size: int) -> list[dict]:
    """One row per line search, first guess and tolerance: worst numbers over all problems."""
    rng = np.random.default_rng(0)
    batches = []
    for nv, contacts in SIZES:
        data = hard_problems(rng, per_size, nv, contacts)
        problems = [Problem.of_world(data, w) for w in range(per_size)]
        batches.append((data, problems, [interior_point(p) for p in problems]))
    rows = []
    for line_search in ("exact", "backtracking"):
        for guess in GUESSES:
            for tolerance in (TIGHT, None):
                rows.append(_compare(batches, line_search, guess, tolerance))
                print(rows[-1], flush=True)
    return rows


def _compare(batches, line_search: str, guess: float | None, tolerance: float | None) -> dict:
    rng, numbers, iterations, failures = np.random.default_rng(1), [], [], 0
    for data, problems, peers in batches:
        if guess is not None:
            v0 = rng.normal(size=data["v0"].shape)
            data = data | {"v0": guess * v0 / np.linalg.norm(v0, axis=1, keepdims=True)}
        options = ws.SAP(tolerance=tolerance, line_search=line_search)
        solution = ws.solve_contact(ws.ContactProblem(**data), options)
        failures += int((solution.flags != 0).sum())
        iterations.append(solution.iterations)
        for p, peer, v, gamma in zip(problems, peers, solution.v, solution.impulse, strict=True):
            gamma = gamma[: len(p.mu)]
            apart = p.norm(v - peer.v) / p.size(v)
            momentum_apart = p.scaled_norm(p.A @ (v - peer.v)) / p.scaled_norm(p.A @ p.v_star)
            bounds = p.distance_bound(v), p.distance_bound(peer.v)
            numbers.append(
                (apart, momentum_apart, *bounds, p.momentum_error(v, p.generalised(gamma)), p.slackness_error(v, gamma))
            )
    iterations, worst = np.concatenate(iterations), np.max(numbers, axis=0)
    row = {"line_search": line_search, "guess": guess, "tolerance": options.relative_tolerance("float64")}
    row |= {"problems": len(numbers), "failures": failures}
    row |= {"iterations": float(iterations.mean()), "iterations_most": int(iterations.max())}
    keys = ("apart", "momentum_apart", "bound", "bound_clarabel", "momentum_error", "slackness_error")
    return row | {key: float(x) for key, x in zip(keys, worst, strict=True)}


def certified(label: str, solver: str, dtype: str, play) -> dict:
    """One long run: the worst e_m that the steps report, and that of the last step recomputed from its problem."""
    begin = time.perf_counter()
    sim, trajectory = play(solver=SOLVERS[solver], dtype=dtype, device="cpu")
    d = {name: x.numpy() for name, x in trajectory.diagnostics.items()}
    problems = [Exported(sim, w) for w in range(sim.worlds)]
    recomputed = max(p.momentum_error(p.v, p.generalised(p.gamma, p.row_gamma)) for p in problems)
    row = {"scene": label, "solver": solver, "dtype": dtype, "worlds": sim.worlds, "steps": trajectory.steps}
    row |= {"momentum_error": float(d["momentum_error"].max()), "recomputed_last": recomputed}
    row |= {
        "tolerance": TOLERANCE[dtype],
        "flags": int(np.bitwise_or.reduce(d["flags"], axis=None)),
        "contacts": int(d["contacts"].max()),
    }
    row |= {"iterations": float(d["iterations"].mean()), "iterations_most": int(d["iterations"].max())}
    print(row, f"{time.perf_counter() - begin:.0f} s", flush=True)
    return row


def long_runs(quick: bool, urdf: str | None) -> list[dict]:
    """Every example scene in one world, every robot in many, both dtypes; the lagged options where bodies slide and pile."""
    worlds, robot_seconds = (4, 1.0) if quick else (64, 20.0)
    scenes = SCENES if urdf is None else SCENES | {"quadruped": Scene(lambda: quadruped_among_objects(urdf), 2.0)}
    plays = {name: functools.partial(scene.play, 1.0 if quick else 10.0) for name, scene in scenes.items()}
    for name in ROBOTS:
        plays[name] = functools.partial(driven_at_random, ws.load(robot_path(name)), worlds, robot_seconds)
    rows = [certified(name, "convex", dtype, play) for name, play in plays.items() for dtype in TOLERANCE]
    lagged = [name for name in SOLVERS if name != "convex"]
    return rows + [
        certified(name, s, d, plays[name]) for name in ("clutter", "humanoid") for s in lagged for d in TOLERANCE
    ]


def markdown(result: dict) -> str:
    """The tables, and the machine below them."""
    lines = [
        "| line search | norm of v0 | tolerance | failures | v against Clarabel | p = Av against Clarabel "
        "| bound on our error | bound on Clarabel's | e_m recomputed | e_μ | iterations mean / most |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["problems"]:
        guess = "about 5" if r["guess"] is None else f"{r['guess']:.0e}"
        errors = (
            r[k] for k in ("apart", "momentum_apart", "bound", "bound_clarabel", "momentum_error", "slackness_error")
        )
        cells = [r["line_search"], guess, f"{r['tolerance']:.0e}", f"{r['failures']} of {r['problems']}"]
        cells += [f"{e:.1e}" for e in errors] + [f"{r['iterations']:.1f} / {r['iterations_most']}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "| scene | solver | dtype | worlds × steps | worst e_m | tolerance | e_m of the last step recomputed | flags "
        "| most contacts | iterations mean / most |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["runs"]:
        cells = [r["scene"], r["solver"], r["dtype"], f"{r['worlds']} × {r['steps']:,}", f"{r['momentum_error']:.2e}"]
        cells += [f"{r['tolerance']:.0e}", f"{r['recomputed_last']:.2e}", str(r["flags"]), str(r["contacts"])]
        lines.append("| " + " | ".join([*cells, f"{r['iterations']:.2f} / {r['iterations_most']}"]) + " |")
    m = result["machine"]
    versions = ", ".join(f"{name} {m['versions'][name]}" for name in ("warpsim", "warp-lang", "clarabel"))
    lines += ["", f"{m['date']}, {m['processor']}, {m['cores']} cores; {versions}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer problems, shorter runs")
    parser.add_argument("--urdf", help="a quadruped for the scene of robots among objects")
    parser.add_argument("--out", type=pathlib.Path, help="folder for certificate.json and certificate.md")
    arguments = parser.parse_args()
    wp.config.quiet = True
    result = {"machine": machine(wp.get_device("cpu"))}
    result["machine"]["versions"]["clarabel"] = importlib.metadata.version("clarabel")
    result["problems"] = random_problems(10 if arguments.quick else 125)
    result["runs"] = long_runs(arguments.quick, arguments.urdf)
    print("\n" + markdown(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "certificate.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "certificate.md").write_text(markdown(result))
    # UNRESOLVED says that a world is too fast for its step, and nothing of how it was solved.
    failed = any(r["flags"] & ~ws.UNRESOLVED for r in result["runs"])
    sound = not any(r["failures"] for r in result["problems"]) and not failed
    return 0 if sound and all(r["momentum_error"] <= r["tolerance"] for r in result["runs"]) else 1


if __name__ == "__main__":
    sys.exit(main())
