# SPDX-License-Identifier: Apache-2.0
"""Coulomb's law, the default, beside SAP's convex law: steps that are solved, cost, and how far a heavy body sinks into a light one.

    python -m benchmarks.coulomb [--quick]

Solved: worlds under random controls over their whole range; the step of a world counts where it is flagged NOT_CONVERGED, and
where its residual is above the tolerance without a flag. Cost: blocks of steps of the two laws from the same states, by turns,
processor time; the median of the ratios and their range. Sinking: two spheres on vertical slides, the upper one heavier, after 3 s,
in parts of the lower one's radius. One thread; a quarter of an hour, --quick: two minutes.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import warpsim as ws
from scenes.examples import asset, clutter

TOLERANCE = {"float32": 1e-4, "float64": 1e-6}  # the solver's defaults
SCENES = {"ant": (64, 300), "humanoid": (64, 300), "clutter 40": (8, 150)}  # worlds, steps
BLOCKS, RADIUS = 5, 0.05


def scene(name: str) -> ws.Model:
    return clutter(40) if name == "clutter 40" else ws.load(asset(name))


def start(sim: ws.Simulator, seed: int) -> ws.State:
    """The start of the model; free bodies are moved by a millimetre and turned, differently in every world."""
    q = sim.state().q.numpy().astype(float)
    if sim.model.nu == 0:
        q += np.random.default_rng(seed + 4).normal(size=q.shape) * 1e-3
        quaternions = q.reshape(sim.worlds, -1, 7)[:, :, 3:]
        quaternions /= np.linalg.norm(quaternions, axis=-1, keepdims=True)
    return sim.state(q)


def controls(sim: ws.Simulator, random: np.random.Generator):
    return random.uniform(-1.0, 1.0, (sim.worlds, sim.model.nu)) if sim.model.nu else None


def solved(name: str, dtype: str, seed: int, shrink: int) -> str:
    """One row: flagged and silent misses, iterations."""
    worlds, steps = SCENES[name]
    sim = ws.Simulator(scene(name), worlds=worlds, dtype=dtype)
    state, random = start(sim, seed), np.random.default_rng(seed)
    flagged = silent = total = 0
    iterations = []
    for _ in range(steps // shrink):
        state = sim.step(state, controls(sim, random), out=state)
        missed = (state.memory["flags"].numpy() & ws.NOT_CONVERGED) != 0
        d = sim.diagnostics.numpy()
        flagged += missed.sum()
        silent += ((d["momentum_error"] > TOLERANCE[dtype]) & ~missed).sum()
        total += worlds
        iterations.append(d["iterations"].copy())
        state.memory["flags"].zero_()
    its = np.concatenate(iterations)
    ends = f"{its.mean():.1f} | {np.quantile(its, 0.99):.0f} | {its.max()}"
    return f"| {name} | {dtype} | {seed} | {flagged} of {total} | {silent} | {ends} |"


def cost(name: str, dtype: str, shrink: int) -> str:
    """One row: processor time of Coulomb's law over that of the convex law."""
    worlds, steps = SCENES[name]
    model, steps = scene(name), max(1, steps // (5 * shrink))
    sims = [
        ws.Simulator(model, worlds=worlds, dtype=dtype, solver=s) for s in (ws.SAP(approximation="convex"), ws.SAP())
    ]
    state, random, ratios = start(sims[1], 1), np.random.default_rng(1), []
    for block in range(BLOCKS + 1):
        inputs, seconds, end = [controls(sims[0], random) for _ in range(steps)], {}, None
        for k in (block % 2, 1 - block % 2):
            x = sims[k].state(state.q.numpy(), state.v.numpy())
            begun = time.process_time()
            for u in inputs:
                x = sims[k].step(x, u, out=x)
            seconds[k], end = time.process_time() - begun, x if k == 1 else end
        state = sims[1].state(end.q.numpy(), end.v.numpy())
        ratios += [seconds[1] / seconds[0]] if block else []  # the first compiles
    return f"| {name} | {dtype} | {np.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"


def pressed(ratio: float, dt: float) -> ws.Model:
    """A sphere of `ratio` kg on one of 1 kg."""
    builder = ws.ModelBuilder("pressed", timestep=dt)
    builder.add_geom("plane")
    for k, mass in enumerate((1.0, ratio)):
        body = builder.add_body(f"ball {k}", pose=[0, 0, RADIUS * (2 * k + 1)], mass=mass, inertia=[1e-3 * mass] * 3)
        builder.add_joint(body, "slide", axis=[0, 0, 1])
        builder.add_geom("sphere", [RADIUS], body=body)
    return builder.build()


def sinks(ratio: float, dt: float, dtype: str) -> str:
    """Share of the radius, and whether it was flagged."""
    sim = ws.Simulator(pressed(ratio, dt), dtype=dtype)
    steps = round(3.0 / dt)
    final = sim.rollout(sim.state(), steps=steps, every=steps).final
    flag = ", flagged" if final.memory["flags"].numpy()[0] else ""
    return f"{-100.0 * final.q.numpy()[0, 0] / RADIUS:.3f} %{flag}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a sixth of the steps, one seed")
    quick = parser.parse_args().quick
    shrink, seeds = (6, (1,)) if quick else (1, (1, 11, 12))
    print(
        "| scene | dtype | seed | flagged | above tolerance, not flagged | iterations | 99 % | most |\n|---|---|---|---|---|---|---|---|"
    )
    for name in SCENES:
        for dtype in TOLERANCE:
            for seed in seeds:
                print(solved(name, dtype, seed, shrink), flush=True)
    print("\n| scene | dtype | Coulomb / convex | range |\n|---|---|---|---|")
    for name in SCENES:
        for dtype in TOLERANCE:
            print(cost(name, dtype, shrink), flush=True)
    print("\n| heavy on light | dtype | 1 ms | 5 ms | 10 ms |\n|---|---|---|---|---|")
    for ratio in (1e3, 1e6):
        for dtype in TOLERANCE:
            print(
                f"| {ratio:.0e} | {dtype} | " + " | ".join(sinks(ratio, dt, dtype) for dt in (1e-3, 5e-3, 1e-2)) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
