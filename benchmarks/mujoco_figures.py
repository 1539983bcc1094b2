# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/mujoco.md: derivatives on the corpus beside `mjd_transitionFD`, and iterations in float32.

    python -m benchmarks.mujoco_figures [--corpus FOLDER …] [--states 2] [--page benchmarks/results/mujoco_figures.md]

Derivatives: `mujoco_motion.gradient_errors` of every file with up to 40 degrees of freedom and no activations, with its own cone and MuJoCo's Euler,
at states with contact, or at random ones where the file has none. Iterations: Newton's method under random controls, with both cones.
"""

import argparse
import dataclasses
import datetime
import pathlib
import sys
import warnings
from collections.abc import Iterator

import mujoco
import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.corpus.files import CorpusFile, compiled, corpus_files, outside
from benchmarks.corpus.starts import random_states
from benchmarks.mujoco_contacts import contact_states
from benchmarks.mujoco_law import CONES
from benchmarks.mujoco_motion import gradient_errors
from scenes.examples import clutter

LARGEST = 40  # degrees of freedom of a file of the corpus
BAR = 1e-6
WORLDS, STEPS = 16, 200


def derivatives(file: CorpusFile, states: int) -> dict | None:
    """`gradient_errors` of a file; None where it is left out."""
    m = compiled(str(file.path))
    if isinstance(m, str) or outside(m) or not 0 < m.nv <= LARGEST or m.na:
        return None
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    try:
        at = contact_states(m, states) or random_states(m, states)
        return gradient_errors(m, at, CONES[int(m.opt.cone)])
    except (ws.ModelError, ValueError, NotImplementedError) as error:
        return {"why": " ".join(str(error).split())[:160]}


def derivatives_text(files: list[CorpusFile], states: int) -> str:
    found = {}
    for file in files:
        row = derivatives(file, states)
        if row:
            found[f"{file.package}/{file.name}"] = row
            print(file.name, row, file=sys.stderr, flush=True)
    some = {name: r for name, r in found.items() if r.get("compared")}
    worst = {name: max(r["A"], r["B"]) for name, r in some.items()}
    above = [f"- {name}: A {some[name]['A']:.1e}, B {some[name]['B']:.1e}" for name, x in worst.items() if x > BAR]
    good = [x for x in worst.values() if x <= BAR]
    refused = sorted(f"- {name}: {r['why']}" for name, r in found.items() if "why" in r)
    lines = [
        f"A and B of a step, {len(some)} files, {sum(r['compared'] for r in some.values())} states whose quotients of both step sizes agree and whose contact",
        f"points are MuJoCo's: {len(good)} files within {BAR:g} of the largest entry, worst {max(good, default=0.0):.1e}, median {np.median(good or [0.0]):.1e}.",
        f"{len(found) - len(some) - len(refused)} files have no such state.",
        "",
        *(
            above
            and [
                "Above the bar (in `peg_block` boxes lie flat on each other, where contact points change their features):",
                "",
                *above,
                "",
            ]
        ),
        *(refused and ["Refused:", "", *refused]),
    ]
    return "\n".join(lines)


def scenes() -> Iterator[tuple[str, ws.Model]]:
    """The ant, the humanoid, and a falling heap of 40 bodies."""
    for name in ("ant", "humanoid"):
        yield name, ws.load(ws.robots.path(name))
    heap = clutter(40)
    rigid = {"geom_stiffness": np.full(heap.ngeom, np.inf), "geom_dissipation_time": np.full(heap.ngeom, np.nan)}
    yield "heap of 40 bodies", dataclasses.replace(heap, **rigid)


def iterations(model: ws.Model, cone: str, impratio: float) -> list[str]:
    """Mean, 99 % and largest number of iterations, and worlds with a flag."""
    solver = ws.MuJoCo(cone=cone, impratio=impratio)
    sim = ws.Simulator(
        model, WORLDS, dtype="float32", device="cpu", threads=1, solver=solver, integrator=ws.MuJoCoEuler()
    )
    rng, state, found, flagged = np.random.default_rng(0), sim.state(), [], np.zeros(WORLDS, bool)
    for _ in range(STEPS):
        state = sim.step(state, 0.4 * rng.uniform(-1, 1, (WORLDS, model.nu)) if model.nu else None)
        found.append(sim.diagnostics.iterations.numpy().copy())
        flagged |= sim.diagnostics.flags.numpy() != 0
    return [
        f"{np.mean(found):.1f}",
        f"{np.quantile(found, 0.99):.0f}",
        str(np.max(found)),
        f"{flagged.sum()} of {WORLDS}",
    ]


def iterations_text() -> str:
    lines = ["| scene | cone | impratio | mean | 99 % | largest | worlds flagged |", "|" + "---|" * 7]
    for name, model in scenes():
        for cone in CONES:
            for impratio in (1.0, 10.0):
                row = [name, cone, f"{impratio:g}", *iterations(model, cone, impratio)]
                lines.append("| " + " | ".join(row) + " |")
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


TEXT = """# Derivatives on the corpus, and iterations, under MuJoCo's law

`python -m benchmarks.mujoco_figures --corpus …`, {date}, MuJoCo {version}, one CPU core.

## Derivatives

`sim.linearize` beside `mjd_transitionFD` (centered; the limit of the quotients of steps 1e-6 and 4e-6), float64, Euler, the file's cone.

{derivatives}

## Iterations

Newton's method in float32, {worlds} worlds, {steps} steps under random controls.

{iterations}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--states", type=int, default=2)
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    values = {"date": datetime.date.today(), "version": mujoco.__version__, "worlds": WORLDS, "steps": STEPS}
    values["iterations"] = iterations_text()
    values["derivatives"] = derivatives_text(corpus_files(options.corpus), options.states)
    text = TEXT.format(**values)
    print(text)
    if options.page:
        options.page.write_text(text)


if __name__ == "__main__":
    main()
