# SPDX-License-Identifier: Apache-2.0
"""The jar of the SAP paper (§VI-E): the force that pulls its lid off, and the task of two arms.

    python -m papers.sap.jar --stage 1 [--out papers/sap/results] [--plots papers/sap]
    pip install robosuite example-robot-data           # or: pip download --no-deps, unpack, and --files FOLDER
    python -m papers.sap.jar --stage 2 [--files FOLDER ...] [--worlds 8] [--tolerances 1e-1 1e-3 1e-5] [--html FILE] [--usd FILE] [--out …] [--plots …]

Stage 1: a gripper of two fingers pulls the lid off a fixed jar, every friction and modulus a world of one batch: by a slow motion, which
gives the force over the way, and by constant forces below and above the closed form μ Σ f_n. Stage 2: the whole task (`two_arms.py`), in
`--worlds` with random places of the jar at a tolerance of 1e-3, and in one world at each further tolerance. Coulomb's law (lagged), 16 points per
patch, float64.
"""

import argparse
import csv
import functools
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from papers.tables import formatted, made_on, results_folder
from scenes.jar import BASE_MASS, FINGER_MASS, GRAVITY, Jar, lid_puller, pull_off_force
from warpsim.base.extras import import_or_explain
from warpsim.tools.bench import machine

FRICTIONS = (0.3, 0.5, 0.7, 1.0)
MODULI = (3e5, 1e6, 3e6)  # [Pa] of the plug
BELOW, ABOVE = 0.9, 1.1  # of the closed form, as constant forces

DT = 0.005
POLYGONS = 400  # per world; 16 walls have 9 each, the pads some 20
GRIP = 200.0  # [N]
GRIP_TIME = 0.15  # [s] until the grip is full
START = 0.2  # [s] of the pull
SPEED = 0.02  # [m/s]
STIFFNESS, DAMPING = 4e4, 650.0  # [N/m], [N s/m] of the lift's controller
WEIGHT = -GRAVITY[2] * (BASE_MASS + 2 * FINGER_MASS)  # [N] of the gripper
HOLD_RAMP = 0.3  # [s] until a constant force is full
TOLERANCE = 1e-3  # of the task, as in the paper
OFF = 0.001  # [m] of lift that count as off


class Pulls:
    """Worlds of a gripper that pulls: `force` NaN follows the slow motion, else that force [N] beside the weights is put on and held."""

    def __init__(self, jar: Jar, friction, modulus, force):
        self.jar = jar
        self.friction, self.modulus, self.force = (np.asarray(x, float) for x in (friction, modulus, force))
        self.model = lid_puller(jar)
        worlds, names = len(self.friction), list(self.model.geom_names)
        self.sim = ws.Simulator(self.model, worlds, DT, dtype="float64", max_polygons=POLYGONS)
        self.plug = names.index("lid plug")
        ring = [g for g, name in enumerate(names) if name.startswith("jar")] + [self.plug]
        mu = np.tile(self.model.geom_friction, (worlds, 1))
        soft = np.tile(self.model.geom_hydroelastic_modulus, (worlds, 1))
        mu[:, ring], soft[:, self.plug] = self.friction[:, None], self.modulus
        self.sim.parameters["geom_friction"] = mu
        self.sim.parameters["geom_hydroelastic_modulus"] = soft

    def controls(self, t: float, q, v) -> np.ndarray:
        """(worlds, 3) [N] of lift, left, right."""
        grip = GRIP * min(1.0, (t + DT) / GRIP_TIME)
        way, speed = SPEED * max(0.0, t - START), SPEED * (t > START)
        moved = STIFFNESS * (way - q[:, 0]) + DAMPING * (speed - v[:, 0])
        held = np.clip((t - START) / HOLD_RAMP, 0.0, 1.0) * (self.force - GRAVITY[2] * self.jar.lid_mass)
        lift = WEIGHT + np.where(np.isnan(self.force), moved, held)
        return np.stack([lift, np.full_like(lift, grip), np.full_like(lift, -grip)], axis=1)

    def run(self, seconds: float) -> dict[str, np.ndarray]:
        """`way` and `force` (steps, worlds): lift of the lid [m] and the upward pull [N] of the jar on the plug, reversed; the solver's record."""
        state = self.sim.state()
        rows = {name: [] for name in ("way", "force", "iterations", "contacts", "momentum_error")}
        begin = time.process_time()
        for k in range(round(seconds / DT)):
            u = self.controls(k * DT, state.q.numpy(), state.v.numpy())
            state = self.sim.step(state, u, out=state)
            rows["way"].append(state.q.numpy()[:, 5] - self.jar.height)
            rows["force"].append(-self.sim.contact_force("geom").numpy()[:, self.plug, 2])
            found = self.sim.diagnostics.numpy()
            for name in ("iterations", "contacts", "momentum_error"):
                rows[name].append(found[name].copy())
        out = {name: np.array(values) for name, values in rows.items()}
        worlds, steps = len(self.friction), len(out["way"])
        return out | {"flags": found["flags"], "ms": 1e3 * (time.process_time() - begin) / (steps * worlds)}


def grid(frictions=FRICTIONS, moduli=MODULI) -> tuple[np.ndarray, np.ndarray]:
    """Friction and modulus of every pair, one world each."""
    mu, modulus = np.meshgrid(frictions, moduli)
    return mu.ravel(), modulus.ravel()


def time_off(way: np.ndarray, jar: Jar) -> float:
    """[s] from the full force until the plug has left the ring; NaN where it has not."""
    out = way > jar.plug
    return DT * (np.argmax(out) + 1) - START - HOLD_RAMP if out.any() else np.nan


def pull_off(jar: Jar, frictions=FRICTIONS, moduli=MODULI, seconds=1.7) -> tuple[list[dict], list[dict], dict]:
    """Rows of the pairs, rows of force against way, and the record of the whole batch."""
    mu, modulus = grid(frictions, moduli)
    expected, pairs = pull_off_force(jar, modulus, mu), len(mu)
    forces = np.concatenate([np.full(pairs, np.nan), BELOW * expected, ABOVE * expected])
    pulls = Pulls(jar, np.tile(mu, 3), np.tile(modulus, 3), forces)
    found = pulls.run(seconds)
    way, force = found["way"], found["force"]
    first = [np.argmax(way[:, w] > OFF) for w in range(pairs)]
    rows = []
    for w in range(pairs):
        rows.append(
            {
                "friction": mu[w], "modulus": modulus[w], "expected": expected[w], "measured": force[:, w].max(),
                "deviation": force[:, w].max() / expected[w] - 1, "end": way[-1, w],
                "half": np.interp(jar.plug / 2, way[first[w] :, w], force[first[w] :, w]),
                "creep": way[-1, w + pairs], "off_at": time_off(way[:, w + 2 * pairs], jar),
                "iterations": found["iterations"][:, w].mean(), "most_iterations": int(found["iterations"][:, w].max()),
                "contacts": int(found["contacts"][:, w].max()), "e_m": found["momentum_error"][:, w].max(),
                "flags": int(np.bitwise_or.reduce(found["flags"][w::pairs])),
            }
        )  # fmt: skip
    curve = [
        {"friction": mu[w], "modulus": modulus[w], "way": way[k, w], "force": force[k, w]}
        for w in range(pairs)
        for k in range(len(way))
    ]
    return rows, curve, {"ms_per_world_step": found["ms"], "worlds": len(forces)}


def markdown_pull(rows: list[dict], record: dict, host: dict) -> str:
    """The table of stage 1."""
    shown = [r | {"creep": 1e3 * r["creep"], "off_at": 1e3 * r["off_at"]} for r in rows]
    lines = ["## The lid of the jar pulled off (stage 1 of §VI-E)", ""]
    lines += formatted(shown, {
        "μ": "{friction:g}", "E Pa": "{modulus:.0e}", "μ Σ f_n N": "{expected:.2f}", "pull-off N": "{measured:.2f}",
        "deviation": "{deviation:+.2%}", "half way N": "{half:.2f}", f"lift at {BELOW:g} of it mm": "{creep:.3f}",
        f"off at {ABOVE:g} after ms": "{off_at:.0f}", "contacts, most": "{contacts}", "iterations mean / most": "{iterations:.2f} / {most_iterations}",
        "e_m": "{e_m:.0e}", "flags": "{flags}",
    })  # fmt: skip
    lines += [f"{record['worlds']} worlds at once, {record['ms_per_world_step']:.2f} ms of CPU per step and world", ""]
    return "\n".join([*lines, made_on(host, "warpsim", "warp-lang")]) + "\n"


def draw_pull(rows: list[dict], curve: list[dict], jar: Jar):
    """Pull-off force against friction, and force against the way."""
    from papers.sap.plots import BLUE, GREEN, GREY, RED, column, finish, new_figure

    figure, axes = new_figure((11, 4.2), 1, 2)
    left, right = axes[0]
    line, along = np.linspace(0.25, 1.05, 50), np.linspace(0.0, 0.999, 200)
    for modulus, colour in zip(sorted({r["modulus"] for r in rows}), (GREEN, BLUE, RED), strict=True):
        mu, force = (column(rows, key, modulus=modulus) for key in ("friction", "measured"))
        left.plot(mu, force, "o", color=colour, label=f"E = {modulus:.0e} Pa")
        left.plot(line, pull_off_force(jar, modulus, line), "-", color=GREY, linewidth=1, label=None)
        way, force = (column(curve, key, modulus=modulus, friction=0.5) for key in ("way", "force"))
        right.plot(1e3 * way, force, color=colour, linewidth=2.5, alpha=0.6, label=f"E = {modulus:.0e} Pa")
        full = pull_off_force(jar, modulus, 0.5)
        right.plot(1e3 * jar.plug * along, full * (1 - along), "--", color="black", linewidth=0.8)
    left.plot([], [], "-", color=GREY, label="μ Σ f_n")
    right.plot([], [], "--", color="black", label="μ Σ f_n (1 − s/l)")
    left.set_yscale("log")
    finish(left, "Pull-off force", xlabel="friction μ", ylabel="[N]")
    right.set_yscale("log")
    right.set(xlim=(-0.5, 22), ylim=(0.3, 300))
    finish(right, "Force while the lid comes off, μ = 0.5", xlabel="way of the lid [mm]", ylabel="[N]")
    return figure


def write_rows(rows: list[dict], path: pathlib.Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{x:.6g}" if isinstance(x, float) else x for k, x in row.items()} for row in rows)


def stage_1(out: pathlib.Path | None, plots: pathlib.Path | None) -> None:
    jar = Jar()
    rows, curve, record = pull_off(jar)
    text = markdown_pull(rows, record, machine(wp.get_device("cpu")))
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_rows(rows, out / "jar_pull.csv")
        (out / "jar_pull.md").write_text(text)
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        draw_pull(rows, curve, jar).savefig(plots / "jar_pull.png", dpi=90)


def stage_2(chosen: argparse.Namespace) -> int:
    """The task in many worlds at `TOLERANCE`, in one at each other tolerance; 2 without the robots' files."""
    if chosen.plots is not None:
        imsave = import_or_explain("matplotlib.image", "show").imsave
    from papers.sap import task_tables, two_arms
    from scenes.two_arms import folders, task_scene

    files = folders(*chosen.files)
    if files is None:
        print(
            "the robots' files are missing: pip install robosuite example-robot-data, or unpack them and give --files FOLDER"
        )
        return 2

    def report(task) -> None:
        names = sorted({two_arms.PHASES[k].name for k in task.phase})
        print(f"{task.time:.1f} s: {', '.join(names)}", flush=True)

    summaries, first = [], None
    for tolerance in (TOLERANCE, *(t for t in chosen.tolerances if t != TOLERANCE)):
        worlds = chosen.worlds if tolerance == TOLERANCE else 1
        run = two_arms.run_task(files, worlds, tolerance, chosen.seed, report=report)
        summaries.append(task_tables.summary(run.rows, run.seconds, run.task.outcome(), tolerance))
        first = first or run
    text = task_tables.markdown(summaries, first.task.reached, chosen.worlds, machine(wp.get_device("cpu")))
    print(text)
    rows = task_tables.history(first.rows, first.task.sim.dt)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "jar_task.md").write_text(text)
        write_rows(rows, chosen.out / "jar_task.csv")
        write_rows(summaries, chosen.out / "jar_task_tolerances.csv")
    if chosen.plots is not None:
        chosen.plots.mkdir(parents=True, exist_ok=True)
        task_tables.draw(rows, first.task.events[0], summaries).savefig(chosen.plots / "jar_task.png", dpi=90)
        imsave(
            chosen.plots / "jar_frames.png",
            task_tables.film(task_scene(files, drawn=False), first.q[:, 0], first.time, first.task.phase_start[0]),
        )
    motion = two_arms.trajectory(first.task.model, first.q, first.time)
    if chosen.html is not None:
        motion.to_html(chosen.html, worlds=min(4, chosen.worlds))
    if chosen.usd is not None:
        motion.to_usd(chosen.usd, worlds=1)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", type=int, choices=(1, 2), default=1)
    parser.add_argument("--out", type=functools.partial(results_folder, "sap"), help="folder of the tables")
    parser.add_argument("--plots", type=pathlib.Path, help="folder of the figures")
    parser.add_argument("--files", nargs="*", default=(), help="folders with the unpacked packages")
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--tolerances", type=float, nargs="*", default=(), help="further ones, in one world each")
    parser.add_argument("--seed", type=int, default=0, help="of the places of the jars")
    parser.add_argument("--html", type=pathlib.Path, help="page of the first worlds")
    parser.add_argument("--usd", type=pathlib.Path, help="stage of the first world")
    chosen = parser.parse_args()
    if chosen.stage == 2:
        return stage_2(chosen)
    stage_1(chosen.out, chosen.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
