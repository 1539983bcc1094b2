# SPDX-License-Identifier: Apache-2.0
"""Cost of finding contacts in one world of 10 to 1,000 spheres: the list of pairs against the grid.

    python -m benchmarks.broadphase [--counts 10 20 ...] [--out benchmarks/results] [--plot docs/broadphase.png]

Timed: `Collision.detect`, that is placing the geoms, the broad phase and the narrow phase, replayed from a graph as in a
step, in float32 on the CPU. The spheres lie in a cubic lattice with the density of a random pile, so that a sphere has
the same number of neighbours in every scene. --full-step adds the time of a whole step. docs/clutter.md shows the plot.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain
from warpsim.contact import collision
from warpsim.contact.broadphase import LARGEST_LIST
from warpsim.tools.bench import machine

RADIUS = 0.05  # [m]
SPACING = 1.99 * RADIUS  # lattice neighbours overlap by 0.5 mm
NOISE = 2e-3  # [m]
H = 0.01  # [s]
BATCH = 0.02  # [s] of work per sample
SAMPLES = 7
COUNTS = (10, 20, 40, 70, 100, 150, 200, 250, 300, 400, 500, 700, 1000)
FULL_STEP = (50, 100, 200, 400)
GRID, LIST = "grid", "list"


def heap(count: int) -> ws.Model:
    """A lattice of spheres in a cube-like heap above a plane."""
    rng = np.random.default_rng(0)
    side = int(np.ceil(count ** (1 / 3)))
    b = ws.ModelBuilder(f"{count} spheres", timestep=H)
    b.add_geom("plane", name="floor")
    for i in range(count):
        cell = np.array([i % side, i // side % side, i // side**2])
        body = b.add_body(pose=SPACING * cell + [0, 0, RADIUS - 1e-4] + rng.uniform(-NOISE, NOISE, 3))
        b.add_joint(body, "free")
        b.add_geom("sphere", [RADIUS], body=body, density=1000.0)
    return b.build()


def simulator(model: ws.Model, method: str, max_contacts: int) -> ws.Simulator:
    """A simulator that is made to use the list or the grid."""
    kept, collision.LARGEST_LIST = collision.LARGEST_LIST, 10**9 if method == LIST else 0
    try:
        sim = ws.Simulator(model, 1, dt=H, dtype="float32", device="cpu", max_contacts=max_contacts)
    finally:
        collision.LARGEST_LIST = kept
    sim._stepper.compile()
    return sim


def seconds_per_call(function) -> float:
    """Median over samples of the CPU seconds of one call."""
    begin = time.process_time()
    function()
    calls = max(1, round(BATCH / max(time.process_time() - begin, 1e-7)))
    samples = []
    for _ in range(SAMPLES):
        begin = time.process_time()
        for _ in range(calls):
            function()
        samples.append((time.process_time() - begin) / calls)
    return statistics.median(samples)


def search(count: int) -> dict:
    """Microseconds of the contact search by both methods, and what they found."""
    model = heap(count)
    row = {"spheres": count, "pairs": len(model.pair_geom)}
    for method in (LIST, GRID):
        sim = simulator(model, method, 4 * count)
        step = sim._step
        sim._stepper.load(sim.state())
        step.smooth_motion(H)
        step.dynamics.velocity(step.v_star, step.link_V_star)
        launch = sim.capture(lambda step=step: step.collision.detect(H, step.dynamics.link_V, step.link_V_star))
        launch()
        row[method] = 1e6 * seconds_per_call(launch)
        row.setdefault("contacts", int(step.collision.contacts.count.numpy()[0]))
        if row["contacts"] != int(step.collision.contacts.count.numpy()[0]):
            raise RuntimeError(f"{count} spheres: list and grid disagree")
    return row


def full_step(count: int, steps: int = 10) -> dict:
    """Milliseconds of whole steps of the heap, which rests on itself, and of its contact search."""
    model = heap(count)
    sim = simulator(model, GRID, 6 * count)
    state = sim.state()
    for _ in range(3):
        sim.step(state, out=state)
    spent, iterations = [], []
    for _ in range(steps):
        begin = time.process_time()
        sim.step(state, out=state)
        spent.append(1e3 * (time.process_time() - begin))
        iterations.append(int(sim.diagnostics.iterations.numpy()[0]))
    step = sim._step
    launch = sim.capture(lambda: step.collision.detect(H, step.dynamics.link_V, step.link_V_star))
    return {
        "spheres": count,
        "dofs": model.nv,
        "ms_per_step": statistics.mean(spent),
        "search_ms": 1e3 * seconds_per_call(launch),
        "iterations": float(np.mean(iterations)),
        "contacts": int(sim.diagnostics.contacts.numpy()[0]),
    }


def exponent(rows: list[dict], method: str, least: int = 100) -> float:
    """Slope of log(time) over log(spheres), from `least` spheres on."""
    chosen = [r for r in rows if r["spheres"] >= least]
    return float(np.polyfit(np.log([r["spheres"] for r in chosen]), np.log([r[method] for r in chosen]), 1)[0])


def crossover(rows: list[dict]) -> tuple[float, float] | None:
    """(spheres, pairs) from which on the grid is quicker, between the counts measured; None where it never is."""
    gain = [np.log(r[GRID] / r[LIST]) for r in rows]
    last = max((i for i, g in enumerate(gain) if g > 0), default=-1)
    if last < 0 or last + 1 == len(rows):
        return None
    part = gain[last] / (gain[last] - gain[last + 1])

    def between(key):
        return float(np.exp((1 - part) * np.log(rows[last][key]) + part * np.log(rows[last + 1][key])))

    return between("spheres"), between("pairs")


def plot(result: dict, path: pathlib.Path) -> None:
    """Both curves, a line of slope 1, and the crossover."""
    plt = import_or_explain("matplotlib.pyplot", "show")
    rows = result["search"]
    n = np.array([r["spheres"] for r in rows], dtype=float)
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for method, colour in ((LIST, "#c44e52"), (GRID, "#4c72b0")):
        label = f"{method}: $n^{{{result['exponent'][method]:.2f}}}$ from 100 on"
        axes.loglog(n, [r[method] for r in rows], "o-", color=colour, label=label)
    axes.loglog(n, rows[-1][GRID] * n / n[-1], "--", color="0.5", label="slope 1", zorder=0)
    if result["crossover"]:
        spheres, pairs = result["crossover"]
        axes.axvline(spheres, color="0.7", lw=1, zorder=0)
        text = f"equal at {spheres:.0f} spheres,\n{pairs:,.0f} pairs"
        axes.text(spheres * 0.95, rows[0][LIST], text, color="0.3", ha="right")
    axes.set(xlabel="spheres in the world", ylabel="contact search [µs]", title="One world, float32, one CPU thread")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def markdown(result: dict) -> str:
    """The tables, and the machine below them."""
    lines = ["| spheres | pairs | contacts | list µs | grid µs | grid, µs per sphere |", "|---|---|---|---|---|---|"]
    for r in result["search"]:
        times = f"{r[LIST]:,.0f} | {r[GRID]:,.0f} | {r[GRID] / r['spheres']:.2f}"
        lines.append(f"| {r['spheres']} | {r['pairs']:,} | {r['contacts']:,} | {times} |")
    grows = "Time grows as n^{:.2f} (list) and n^{:.2f} (grid) from 100 spheres on."
    lines += ["", grows.format(*(result["exponent"][method] for method in (LIST, GRID)))]
    if result["crossover"]:
        lines[-1] += " The grid is quicker from {:.0f} spheres, {:,.0f} pairs, on.".format(*result["crossover"])
    if result["full_step"]:
        lines += [
            "",
            "| spheres | dofs | contacts | iterations | ms/step | of it the search |",
            "|---|---|---|---|---|---|",
        ]
    for r in result["full_step"]:
        numbers = f"{r['iterations']:.1f} | {r['ms_per_step']:,.3g} | {r['search_ms'] / r['ms_per_step']:.1%}"
        lines.append(f"| {r['spheres']} | {r['dofs']:,} | {r['contacts']:,} | {numbers} |")
    m = result["machine"]
    lines += [
        "",
        f"{m['date']}, {m['processor']}, one thread, load {result['load']:.1f} at the start; warp-lang {m['versions']['warp-lang']}; float32",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--full-step", type=int, nargs="*", default=[], metavar="N", help=f"such as {FULL_STEP}")
    parser.add_argument("--out", type=pathlib.Path, help="folder for broadphase.json and broadphase.md")
    parser.add_argument("--plot", type=pathlib.Path, help="file of the plot")
    arguments = parser.parse_args()
    wp.config.quiet = True
    rows, load = [], os.getloadavg()[0]
    for count in sorted(arguments.counts):
        rows.append(search(count))
        print(rows[-1], flush=True)
    result = {"machine": machine(wp.get_device("cpu")), "load": load, "largest_list": LARGEST_LIST}
    result |= {"search": rows, "full_step": []}
    result["exponent"] = {method: exponent(rows, method) for method in (LIST, GRID)}
    result["crossover"] = crossover(rows)
    for count in arguments.full_step:
        result["full_step"].append(full_step(count))
        print(result["full_step"][-1], flush=True)
    print("\n" + markdown(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "broadphase.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "broadphase.md").write_text(markdown(result))
    if arguments.plot:
        plot(result, arguments.plot)


if __name__ == "__main__":
    main()
