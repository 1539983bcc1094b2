# SPDX-License-Identifier: Apache-2.0
"""The experiments of the LTVI paper (Lee, Liu, Park, Srinivasa), §4, with this simulator beside the paper's numbers.

    python -m papers.ltvi.figures [--out papers/ltvi/results] [--plot papers/ltvi/figures.png] [--links 2 5 10 20 50 100 200]

Energy over time (Fig. 2), time against degrees of freedom for DRNEA and SVI with RIQN, Newton and Broyden (Fig. 3),
convergence and iteration counts (Fig. 4), and what the paper does not show: order, float32, changing steps, many worlds.
All runs are on the CPU in one thread; times are CPU time of replayed graphs, so Python is not in them. `README.md`
explains the numbers. About three minutes.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from papers.ltvi.baselines import install
from papers.tables import made_on, results_folder, table
from scenes.bodies import link_chain
from warpsim.base.extras import import_or_explain
from warpsim.tools.bench import machine

ROOT = pathlib.Path(__file__).parents[2]
H = 1e-3  # [s] the paper's step
EPSILON = 1e-9  # [N m s] the criterion |DRNEA| < EPSILON of the counted evaluations
GUESSES = ("current", "euler", "dynamics")
FINDERS = ("riqn", "newton", "broyden")
# Reference values beside ours. Ratios and counts: the paper, §4.3 and §4.4. Times: the authors' C++ on a like machine.
PAPER_RATIOS = {"Newton / RIQN, with DRNEA": (3.8, 53.0), "SVI / DRNEA, with RIQN": (15.0, 32.0)}
AUTHORS = {
    "RIQN + DRNEA": {2: 6.9, 10: 18, 20: 41, 50: 152, 100: 533},
    "Newton (finite differences) + DRNEA": {2: 3.2, 10: 64, 20: 244, 50: 2095, 100: 12438},
    "exact Newton + SVI": {2: 4.8, 10: 160, 20: 1201, 50: 109020},
}
# (label, evaluation, root finder): a None evaluation is the integrator itself, the others come from baselines.py.
VARIANTS = (
    ("DRNEA + RIQN", None, "riqn"),
    ("DRNEA + Broyden", None, "broyden"),
    ("DRNEA + Newton, O(n)", None, "newton"),
    ("DRNEA + Newton, dense", "drnea", "newton"),
    ("SVI + RIQN", "svi", "riqn"),
    ("SVI + Broyden", "svi", "broyden"),
    ("SVI + Newton, dense", "svi", "newton"),
)
SLOWEST_STEP = 0.2  # [s] larger systems of a variant are left out above it
STEPS = 20  # per timed graph, which is repeated for TIMED seconds, REPEATS times at least; the fastest repeat counts
TIMED, REPEATS = 0.4, 5


def reference() -> dict[str, np.ndarray]:
    """The recorded 10-link chain."""
    with np.load(ROOT / "tests" / "reference" / "data" / "ltvi_chain.npz") as data:
        return dict(data)


def simulator(model, h=H, worlds=1, dtype="float64", **options) -> ws.Simulator:
    """A variational simulator without contact on the CPU."""
    integrator = ws.Variational(**options)
    return ws.Simulator(model, worlds, h, integrator=integrator, solver=ws.NoContact(), device="cpu", dtype=dtype)


def start(links: int) -> tuple[np.ndarray, np.ndarray]:
    """q, v of a chain: a random pose, moving."""
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, links), rng.uniform(-0.5, 0.5, links)


# ---- Fig. 2: energy -------------------------------------------------------------------------------------------------


def energy(data, seconds: float = 10.0) -> dict[str, np.ndarray]:
    """Total energy over time of the 10-link chain with both integrators."""
    result = {}
    runs = {
        "symplectic Euler": (ws.SymplecticEuler(), "float64"),
        "variational": (ws.Variational(), "float64"),
        "variational, float32": (ws.Variational(), "float32"),
    }
    for label, (integrator, dtype) in runs.items():
        sim = ws.Simulator(link_chain(data), 1, H, integrator, ws.NoContact(), "cpu", dtype)
        trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=round(seconds / H))
        result[label] = trajectory.diagnostics["energy"].numpy()[:, 0]
    return result


def changing_step_energy(data, seconds: float = 10.0) -> np.ndarray:
    """Energy when every step of 1 ms is cut into 1, 2 or 4 equal parts at random."""
    sim, rng = simulator(link_chain(data)), np.random.default_rng(0)
    state, rows = sim.state(data["q0"], data["qd0"]), []
    for substeps in rng.choice([1, 2, 4], size=round(seconds / H)):
        sim.step(state, substeps=int(substeps), out=state)
        rows.append(sum(part.numpy()[0] for part in sim.energy(state)))
    return np.array(rows)


# ---- Fig. 4: convergence --------------------------------------------------------------------------------------------


def evaluations(model, q, v, finder: str, guess: str, most: int = 12) -> np.ndarray:
    """Residual evaluations from every state until |DRNEA| < EPSILON."""
    needed = np.full(len(q), most + 1)
    for count in range(most, 0, -1):
        sim = simulator(model, worlds=len(q), root_finder=finder, guess=guess, tolerance=1e-30, max_iterations=count)
        sim.step(sim.state(q, v))
        needed[np.linalg.norm(sim._step.residual.numpy(), axis=1) < EPSILON] = count
    return needed


def convergence(data, finder: str, most: int = 12) -> list[float]:
    """|DRNEA| after 1, 2, … evaluations of one step that begins the search at q^{k+1} = 0, as the paper's Fig. 4(a).

    From a tenth of the recorded pose, 0.14 rad from 0: from all of it, 1.4 rad in a step, only RIQN converges.
    """
    errors = []
    for count in range(1, most + 1):
        sim = simulator(link_chain(data), root_finder=finder, guess="current", tolerance=1e-30, max_iterations=count)
        step = sim._step
        q = 0.1 * data["q0"]
        sim._stepper.load(sim.state(q, data["qd0"]))
        step.begin(H)
        step.work.dq.assign(-q[None])
        step.find_root(H, from_guess=False)
        errors.append(float(np.linalg.norm(step.residual.numpy())))
    return errors


# ---- Fig. 3: time ---------------------------------------------------------------------------------------------------


def replayed(launch) -> float:
    """Least CPU seconds of a graph of what `launch` launches."""
    launch()
    with wp.ScopedCapture(device="cpu") as capture:
        launch()
    times = []
    while len(times) < REPEATS or sum(times) < TIMED:
        begin = time.thread_time()
        wp.capture_launch(capture.graph)
        times.append(time.thread_time() - begin)
    return min(times)


def step_time(links, data, evaluation, finder, *, guess="dynamics", worlds=1, dtype="float64", steps=STEPS) -> dict:
    """Seconds per world and step, evaluations per step, seconds per evaluation of the root search, flagged worlds."""
    sim = simulator(link_chain(data, links), worlds=worlds, dtype=dtype, root_finder=finder, guess=guess)
    if evaluation is not None:
        install(sim, evaluation, finder)
    q, v = start(links)
    state, step = sim.state(q, v), sim._step
    sim.step(state)  # compiles
    begin = time.thread_time()
    sim._stepper.load(state)
    step.launch(H)
    steps = max(1, min(steps, int(0.5 / (time.thread_time() - begin))))

    def run():
        sim._stepper.load(state)
        for _ in range(steps):
            step.launch(H)

    seconds = replayed(run) / steps
    evaluated = float(step.root.evaluations.numpy().mean())
    flagged = int(np.count_nonzero(step.flags.numpy()))

    def search(solve: bool):
        sim._stepper.load(state)
        for _ in range(steps):
            step.begin(H)
            if solve:
                step.find_root(H)

    whole, rest = replayed(lambda: search(True)), replayed(lambda: search(False))
    counted = float(step.root.evaluations.numpy().mean())
    per_evaluation = (whole - rest) / steps / counted
    return {
        "seconds": seconds / worlds,
        "evaluations": evaluated,
        "per_evaluation": per_evaluation / worlds,
        "flagged": flagged,
    }


def times(data, links) -> dict[str, dict[int, dict[str, float]]]:
    """`step_time` of every variant and size; a variant stops where a step takes longer than SLOWEST_STEP."""
    result: dict = {}
    for label, evaluation, finder in VARIANTS:
        result[label] = {}
        for n in links:
            result[label][n] = step_time(n, data, evaluation, finder)
            print(f"{label:24s} {n:4d} links {result[label][n]['seconds'] * 1e6:12.1f} us/step", flush=True)
            if result[label][n]["seconds"] * (2.5**3 if evaluation else 2.5) > SLOWEST_STEP:
                break
    return result


def ratios(data) -> list[tuple[str, str, dict[int, tuple[float, float]]]]:
    """(what, guess, {links: (ratio of the time of a step, ratio of the time of the root search)}), each pair measured together."""
    rows = []
    for what, evaluation, finder in (
        ("Newton / RIQN, with DRNEA", "drnea", "newton"),
        ("SVI / DRNEA, with RIQN", "svi", "riqn"),
    ):
        for guess in ("current", "dynamics"):
            row = {}
            for n in (10, 100):
                riqn, other = (
                    step_time(n, data, *pair, guess=guess) for pair in ((None, "riqn"), (evaluation, finder))
                )
                search = [x["per_evaluation"] * x["evaluations"] for x in (riqn, other)]
                row[n] = other["seconds"] / riqn["seconds"], search[1] / search[0]
            rows.append((what, guess, row))
    return rows


def slope(table: dict[int, dict[str, float]], key: str, least: int = 10) -> float:
    """Slope of log(table[n][key]) against log(n), n >= least."""
    sizes = [n for n in table if n >= least]
    return float(np.polyfit(np.log(sizes), np.log([table[n][key] for n in sizes]), 1)[0])


# ---- the rest -------------------------------------------------------------------------------------------------------


def accuracy(data) -> list[tuple[str, str, str]]:
    """(what, asked, measured) of the recorded chain."""
    rows, model = [], link_chain(data)
    trajectory = simulator(model).rollout(simulator(model).state(data["q0"], data["qd0"]), steps=1000)
    error = np.abs(trajectory.q.numpy()[:, 0] - data["q_tight"]).max(axis=1)
    rows.append(
        ("recorded solution, 500 / 1,000 steps", "1e-10 / 1e-8", f"{error[:501].max():.1e} / {error.max():.1e}")
    )
    errors = []
    for h in (2e-3, 1e-3, 0.5e-3, 0.25e-3):
        sim = simulator(model, h)
        q = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=round(0.25 / h)).q.numpy()[-1, 0]
        errors.append(np.abs(q - data["q_continuous"][250]).max())
    order = -np.polyfit(range(4), np.log2(errors), 1)[0]
    rows.append(("order against the continuous solution, 0.25 s", "2.00 ± 0.02", f"{order:.4f}"))
    floor = float32_floor(model, data)
    text = f"{np.median(floor):.1e} / {floor.max():.1e}"
    rows.append(("float32: floor of M⁻¹ DRNEA [rad/s], 10 links, median / worst of 50 states", "1.5e-6", text))
    for dtype in ("float32", "float64"):
        floors = " / ".join(f"{relative_floor(data, n, dtype):.1e}" for n in (10, 50, 100, 200))
        rows.append((f"{dtype}: floor of the relative residual, 10 / 50 / 100 / 200 links", "", floors))
    rows.append(("`sim.step` called from Python, 10 links [µs]", "", f"{1e6 * python_step(data):.1f}"))
    return rows


def float32_floor(model, data) -> np.ndarray:
    """Largest |M⁻¹ DRNEA| [rad/s] where RIQN stalls in float32, at 50 states of the recorded chain."""
    sim = simulator(model)
    trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=1000)
    q, v = trajectory.q.numpy()[::20, 0], trajectory.v.numpy()[::20, 0]
    single = simulator(model, worlds=len(q), dtype="float32", tolerance=1e-12)
    single.step(single.state(q, v))
    M = simulator(model, worlds=len(q)).mass_matrix(q).numpy()
    return np.abs(np.linalg.solve(M, single._step.residual.numpy()[..., None])).max(axis=(1, 2))


def relative_floor(data, links: int, dtype: str) -> float:
    """Residual over momentum in the metric M⁻¹ where RIQN stalls."""
    sim = simulator(link_chain(data, links), dtype=dtype, tolerance=1e-30)
    sim.step(sim.state(*start(links)))
    return float(sim.diagnostics.momentum_error.numpy()[0])


def python_step(data, links: int = 10, steps: int = 2000) -> float:
    """CPU seconds of a `sim.step` called from Python."""
    sim = simulator(link_chain(data, links))
    state = sim.state(*start(links))
    for _ in range(3):
        sim.step(state, out=state)
    begin = time.thread_time()
    for _ in range(steps):
        sim.step(state, out=state)
    return (time.thread_time() - begin) / steps


def figure(path, energies, errors, counts, table) -> None:
    """Four panels: Figs. 2(b), 3, 4(a) and 4(b)."""
    plt = import_or_explain("matplotlib.pyplot", "show")
    fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    ax = axes[0, 0]
    for (label, E), style in zip(energies.items(), ("-", "-", "--"), strict=True):
        ax.plot(H * np.arange(len(E)), E, style, label=label)
    ax.set(title="energy of the 10-link chain (Fig. 2)", xlabel="time [s]", ylabel="energy [J]")
    ax = axes[0, 1]
    for label, _, _ in VARIANTS:
        ax.loglog(list(table[label]), [1e6 * row["seconds"] for row in table[label].values()], "o-", label=label)
    for label, row in AUTHORS.items():
        ax.loglog(list(row), list(row.values()), "x:", color="grey", alpha=0.7)
        ax.annotate(f"authors' C++:\n{label}", (max(row), row[max(row)]), fontsize=6, ha="right", va="bottom")
    ax.set(title="time of a step (Fig. 3)", xlabel="degrees of freedom", ylabel="µs")
    ax = axes[1, 0]
    for label, row in errors.items():
        ax.semilogy(range(1, len(row) + 1), row, "o-", label=label)
    ax.axhline(EPSILON, color="grey", lw=0.8)
    ax.set(title="convergence from q = 0 (Fig. 4a)", xlabel="residual evaluations", ylabel="|DRNEA| [N m s]")
    ax = axes[1, 1]
    for label, row in counts.items():
        ax.plot(row, label=f"{label}: mean {row.mean():.2f}")
    ax.set(title="residual evaluations from q^k (Fig. 4b)", xlabel="frame", ylabel="evaluations", ylim=(0, 9))
    for ax in axes.flat:
        ax.legend(fontsize=7)
        ax.grid(alpha=0.3)
    fig.savefig(path, dpi=110)


def tables(data, timed, counted, energies, changing, throughput) -> list[str]:
    """The report in Markdown."""
    lines = ["# The LTVI paper's experiments", ""]
    where = made_on(machine(wp.get_device("cpu")), "warp-lang")
    lines += [f"{where}. Step 1 ms, float64, CPU time of replayed graphs.", ""]

    def fit(E) -> str:
        return f"{np.abs(E - data['E0']).max():.4f} J, {np.polyfit(H * np.arange(len(E)), E, 1)[0]:.1e} J/s"

    drift, single = energies["symplectic Euler"], np.abs(energies["variational, float32"] - data["E0"]).max()
    lines += table(["what", "asked", "measured"], [
        *accuracy(data),
        ("energy over 10 s: band, slope", "0.02 J, 1e-5 J/s", fit(energies["variational"])),
        ("the same in float32: band", "", f"{single:.4f} J"),
        ("the same, symplectic Euler: drift", "23 J", f"{drift[-1] - drift[0]:.1f} J"),
        ("the same with steps of 1, ½ and ¼ ms in random order: band, slope", "", fit(changing)),
        *((what, "", value) for what, value in throughput),
    ])  # fmt: skip
    lines += [f"## Residual evaluations per step, until |DRNEA| < {EPSILON:g} (mean over 2 s)", ""]
    paper = {"riqn": "5.69", "newton": "4", "broyden": "–"}
    rows = [(f, *(f"{counted[f, guess].mean():.2f}" for guess in GUESSES), paper[f]) for f in FINDERS]
    lines += table(["root finder", "from q^k (IG1)", "explicit Euler (IG2)", "dynamics (IG3)", "paper, IG1"], rows)
    sizes = list(timed["DRNEA + RIQN"])
    lines += ["## µs per step, one world", ""]
    rows = [
        (name, *(f"{1e6 * row[n]['seconds']:.1f}" if n in row else "–" for n in sizes)) for name, row in timed.items()
    ]
    rows += [(f"authors' C++: {name}", *(row.get(n, "–") for n in sizes)) for name, row in AUTHORS.items()]
    lines += table(["", *sizes], rows)
    lines += ["## Ratios of the time of a step (in brackets: of the root search alone), and growth", ""]
    rows = [
        (
            what,
            guess,
            *(f"{step:.1f} ({search:.1f})" for step, search in row.values()),
            *map("{:g}".format, PAPER_RATIOS[what]),
        )
        for what, guess, row in ratios(data)
    ]
    lines += table(["", "guess", "10", "100", "paper, 10", "paper, 100"], rows)
    if len([n for n in sizes if n >= 10]) < 2:
        return lines
    lines += ["Slope of log(time) against log(links), 10 links and more:", ""]
    for label in ("DRNEA + RIQN", "DRNEA + Newton, O(n)", "DRNEA + Broyden"):
        lines.append(
            f"- {label}: {slope(timed[label], 'per_evaluation'):.2f} per residual evaluation, "
            f"{slope(timed[label], 'seconds'):.2f} per step"
        )
    return lines


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=functools.partial(results_folder, "ltvi"), help="folder for tables.md and tables.json"
    )
    parser.add_argument("--plot", type=pathlib.Path, help="PNG of the four figures")
    parser.add_argument("--links", type=int, nargs="+", default=[2, 5, 10, 20, 50, 100, 200])
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    data = reference()
    table = times(data, arguments.links)
    throughput = []
    for dtype in ("float64", "float32"):
        row = step_time(10, data, None, "riqn", worlds=4096, dtype=dtype, steps=2)
        rate = 1 / row["seconds"]
        throughput.append((f"world-steps/s, 4,096 worlds, 10 links, {dtype}", f"{rate:,.0f}"))
    model, sim = link_chain(data), simulator(link_chain(data))
    trajectory = sim.rollout(sim.state(data["q0"], data["qd0"]), steps=2000)
    q, v = (array.numpy()[::5, 0] for array in (trajectory.q, trajectory.v))
    counted = {(f, g): evaluations(model, q, v, f, g) for f in FINDERS for g in GUESSES}
    energies, changing = energy(data), changing_step_energy(data)
    lines = tables(data, table, counted, energies, changing, throughput)
    print("\n".join(lines))
    errors = {finder: convergence(data, finder) for finder in FINDERS}
    if arguments.out:
        (arguments.out / "tables.md").write_text("\n".join(lines) + "\n")
        record = {"machine": machine(wp.get_device("cpu")), "times": table, "convergence": errors}
        record["evaluations"] = {f"{f}, {g}": float(x.mean()) for (f, g), x in counted.items()}
        (arguments.out / "tables.json").write_text(json.dumps(record, indent=1) + "\n")
    if arguments.plot:
        figure(arguments.plot, energies, errors, {f: counted[f, "current"] for f in FINDERS}, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
