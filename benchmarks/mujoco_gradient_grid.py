# SPDX-License-Identifier: Apache-2.0
"""Gradients under MuJoCo's law against central differences: the rows of `benchmarks.gradient_grid`, both cones.

    python -m benchmarks.mujoco_gradient_grid [--only TEXT ...] [--quick] [--resume] [--out benchmarks/results]

Besides, rows of contacts with every kind of solref, solimp, pair and dimension, and rows of limits, dry friction and
equalities (`scenes/mujoco_law.py`), by all parameters of the law.
"""

import argparse
import functools
import itertools
import json
import pathlib
import sys
import time

import numpy as np
import warp as wp

from benchmarks import gradient_grid as grid
from scenes import mujoco_law, sensing, spin
from warpsim.tools.bench import machine

HORIZONS = (1, 10, 40)
INTEGRATORS, SOLVERS = grid.LAW_INTEGRATORS, grid.LAW_SOLVERS
OF_CONTACTS = ["geom_solref", "geom_solimp", "impratio"]
OF_STOPS = ["joint_solref", "joint_solimp", "joint_margin"]
OF_PAIRS = [*OF_CONTACTS, "geom_solmix", "pair_solref", "pair_solreffriction", "pair_solimp", "geom_friction"]
OF_PAIRS += ["geom_torsional_friction", "geom_rolling_friction", "body_mass", "body_inertia", "geom_size", "geom_pose"]
OF_ROWS = [
    *OF_STOPS,
    "joint_friction",
    "joint_friction_solref",
    "joint_friction_solimp",
    "joint_range",
    "joint_damping",
]
OF_ROWS += ["tendon_solref", "tendon_solimp", "tendon_margin", "tendon_range", "tendon_friction"]
OF_ROWS += ["tendon_friction_solref", "tendon_friction_solimp"]
OF_ROWS += ["constraint_solref", "constraint_solimp", "constraint_torquescale", "constraint_coefficients"]


def cases():
    """(label, model, parameters, start) of every row."""
    schemes = list(itertools.product(INTEGRATORS, SOLVERS))
    once = [scheme for scheme in schemes if scheme[1] == "pyramidal"]  # of rows without contact
    for joint, regime in itertools.product(grid.JOINTS, grid.REGIMES):
        if joint == "free" and regime == "limit":
            continue
        names = grid.parameters(joint, regime) + ([] if joint == "free" else ["joint_armature"])
        names += [] if joint in ("free", "ball") else ["actuator_gain"]
        names += OF_CONTACTS if regime in grid.FRICTION else OF_STOPS if regime == "limit" else []
        model = functools.partial(grid.scene, joint, regime)
        begin = functools.partial(grid.start, joint=joint, regime=regime)
        for scheme in schemes if regime in grid.FRICTION else once:
            yield [joint, regime, *scheme], model, names, begin
    for motion, scheme in itertools.product(spin.MOTIONS, schemes):
        names = ["geom_friction", "geom_torsional_friction", "geom_rolling_friction", "geom_size", *OF_CONTACTS]
        model, begin = functools.partial(spin.body_and_pendulum, motion), functools.partial(spin.start, motion=motion)
        yield ["torsion", motion, *scheme], model, names, begin
    for scheme in schemes:
        begin = functools.partial(mujoco_law.start, settle=3, push=0.3)
        yield ["contacts", "of every kind", *scheme], mujoco_law.contacts, OF_PAIRS, begin
        yield (
            ["mocap", "weld, contact", *scheme],
            grid.mocap_scene,
            ["body_mass", "gravity", "constraint_solref"],
            grid.mocap_start,
        )
    for turn, scheme in itertools.product((0.003, 0.03), once):
        begin = functools.partial(mujoco_law.start, settle=0, push=0.3, turn=turn)
        yield ["rows", f"of every kind, {turn} off", *scheme], mujoco_law.rows, OF_ROWS, begin
    yield from parts(schemes, once)


def parts(schemes, once):
    """The rows of a medium, actuators, tendons, sensors and robots."""
    medium = ["fluid_density", "fluid_viscosity", "wind", "body_com", "geom_pose", "body_mass"]
    for fluid, scheme in itertools.product(("box", "ellipsoid"), once):
        model = functools.partial(grid.fluid_scene, fluid == "ellipsoid" or None)
        yield ["fluid", fluid, *scheme], model, medium, lambda sim: grid.moving_start(sim, 1.0)
    names = ["body_mass", "body_com", "gravity", "joint_damping", "force_range", "actuator_gain", "actuator_bias"]
    for kind, scheme in itertools.product(grid.ACTUATION, once):
        own = {"activation": ["actuator_time"], "muscle": grid.MUSCLES}.get(kind, [])
        yield ["arm", kind, *scheme], functools.partial(grid.arm, kind), [*names, *own], grid.arm_start
    names = ["body_mass", "gravity", "geom_size", "geom_pose", "force_range", "actuator_gain"]
    for kind, scheme in itertools.product(grid.LINES, once):
        own = grid.MUSCLES if kind == "wrapped muscle" else []
        rope = ["tendon_range", "tendon_friction", "tendon_solref", "tendon_solimp"]
        own = [*own, *(rope if kind == "crank" else ["tendon_stiffness", "tendon_damping"])]
        yield ["roped arm", kind, *scheme], functools.partial(grid.roped_arm, kind), [*names, *own], grid.roped_start
    for motion, scheme in itertools.product(sensing.MOTIONS, schemes):
        names = ["body_mass", "body_com", "gravity", "joint_stiffness"]
        names += ["geom_friction", "geom_solref"] * (motion != "flight")
        if motion != "flight" or scheme in once:
            yield [grid.SENSED, motion, *scheme], functools.partial(sensing.model, motion), names, None
    names = ["body_mass", "geom_friction", "joint_damping", "geom_size", "gravity", "actuator_gain", *OF_CONTACTS]
    for robot, scheme in itertools.product(grid.ROBOTS, schemes):
        yield (
            [robot, "contact", *scheme],
            functools.partial(grid.robot_model, robot),
            [*names, *OF_STOPS],
            grid.robot_start,
        )


def overview(rows: list[dict], horizons) -> list[str]:
    """Worst errors by integrator and cone, rows within the bars, and differences compared and not."""
    head = ["integrator", "cone", "rows", "within", *(f"worst, {h} steps" for h in horizons), "compared (not)"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for scheme in itertools.product(INTEGRATORS, SOLVERS):
        chosen = [r for r in rows if tuple(r["label"][2:]) == scheme and "errors" in r]
        if chosen:
            worst = [f"{np.nanmax([r['errors'][str(h)] for r in chosen]):.0e}" for h in horizons]
            counts = f"{sum(r['compared'] for r in chosen)} ({sum(r['left'] for r in chosen)})"
            cells = [*scheme, str(len(chosen)), str(sum(not r["misses"] for r in chosen)), *worst, counts]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def write(folder: pathlib.Path, results: dict, head: list[str], horizons) -> None:
    """gradient_grid_mujoco.json and .md of all rows, those of earlier runs included."""
    rows = [{"label": list(c[0]), **results[tuple(c[0])]} for c in cases() if tuple(c[0]) in results]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(wp.get_device("cpu")), "rows": rows}, indent=1)
    (folder / "gradient_grid_mujoco.json").write_text(text + "\n")
    bars = ", ".join(f"{grid.BARS[h]:g} at {h}" for h in horizons)
    lines = ["# Gradients under MuJoCo's law against central differences", ""]
    lines += [f"{grid.summary(rows)}. Bars: {bars} steps.", "", *overview(rows, horizons), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [grid.line(row["label"], row, horizons) for row in rows]
    (folder / "gradient_grid_mujoco.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="rows whose label has all of these words")
    parser.add_argument("--quick", action="store_true", help="two entries a variable, at most 10 steps")
    parser.add_argument("--entries", type=int, default=4)
    parser.add_argument("--resume", action="store_true", help="keep the rows that --out has")
    parser.add_argument("--out", type=pathlib.Path, help="folder for gradient_grid_mujoco.json and .md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    horizons, entries = (HORIZONS[:2], 2) if arguments.quick else (HORIZONS, arguments.entries)
    head = ["joint", "regime", "integrator", "cone", *(f"{h} steps" for h in horizons), "compared (not)", "beyond"]
    kept, results, order = arguments.out and arguments.out / "gradient_grid_mujoco.json", {}, []
    if kept and kept.exists() and not arguments.quick:
        results = {tuple(row.pop("label")): row for row in json.loads(kept.read_text())["rows"]}
    began = time.perf_counter()
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for label, model, names, begin in cases():
        key = tuple(label)
        if not all(any(word == part for part in label) for word in arguments.only) or (
            arguments.resume and key in results
        ):
            continue
        if label[0] == grid.SENSED:
            results[key] = grid.check_sensors(model(), *label[1:], names, entries, horizons)
        else:
            results[key] = grid.check(model(), *label[2:], names, begin, entries, horizons)
        order.append(key)
        print(grid.line(label, results[key], horizons), flush=True)
        if arguments.out:
            write(arguments.out, results, head, horizons)
    print(f"{grid.summary([results[key] for key in order])}; {time.perf_counter() - began:.0f} s")
    return int(any(results[key].get("misses") for key in order))


if __name__ == "__main__":
    sys.exit(main())
