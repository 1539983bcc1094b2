# SPDX-License-Identifier: Apache-2.0
"""Identification of a 6-joint arm from a noisy CSV log: how often the parameters lie within their intervals.

    python -m benchmarks.identify_arm [--runs 20] [--first 0] [--out benchmarks/results]

The arm is UR5 of the package example-robot-data, whose URDF has neither friction nor damping nor armature. Each run draws a
robot: masses 20 % around the file's (a standard deviation of the logarithm), damping, dry friction and armature around typical
values, one delay for each actuator between 0 and 20 ms. It follows sums of sines with a PD controller for 4 s, simulated in
plain steps of 0.1 ms by the midpoint rule, not in those of the estimator; a control acts late by exactly its delay. The log has positions with 1 mrad, velocities
with 20 mrad/s of white noise and the controls, at 100 Hz. `ws.identify_log` begins with the URDF.

Two counts, of the two intervals that `warpsim identify` gives: how many of all parameters lie within their own 95 % interval
(rate wanted: at least 90 %, expected 95 %), and in how many runs all parameters lie within the intervals that hold for all
together with 95 % (Bonferroni's; wanted: 18 of 20). All 29 within their own intervals is to be expected in fewer runs.
"""

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.envs.robot_files import robot_file
from warpsim.tools.bench import machine

DT, FINE, SECONDS, MOST = 0.01, 100, 4.0, 2  # [s] per row, steps per row, [s], rows of delay
NOISE_Q, NOISE_V = 1e-3, 2e-2  # [rad], [rad/s]
KP, KD = np.array([100, 100, 60, 6, 6, 2.0]), np.array([16, 16, 10, 0.8, 0.8, 0.25])
CENTRE = np.array([0.0, -1.2, 1.2, -0.6, 0.8, 0.0])
DAMPING, FRICTION = np.array([4, 4, 3, 0.5, 0.5, 0.3]), np.array([5, 5, 3, 0.6, 0.6, 0.4])  # [N m s/rad], [N m]
ARMATURE = np.array([0.6, 0.6, 0.4, 0.05, 0.05, 0.02])  # [kg m²]
SPREADS = {"body_mass": 0.2, "joint_damping": 0.3, "joint_friction": 0.3, "joint_armature": 0.3}


def arm() -> ws.Model:
    """UR5 with a motor in every joint."""
    return ws.load(robot_file("ur_description/urdf/ur5_robot.urdf"), actuators="effort", visuals=False)


def true_robot(model: ws.Model, seed: int) -> dict[str, np.ndarray]:
    """Parameters by name, and the delays in rows."""
    rng = np.random.default_rng([seed, 1])
    typical = {
        "body_mass": model.body_mass,
        "joint_damping": DAMPING,
        "joint_friction": FRICTION,
        "joint_armature": ARMATURE,
    }
    found = {name: x * np.exp(SPREADS[name] * rng.normal(size=x.shape)) for name, x in typical.items()}
    return found | {"delay": rng.integers(0, MOST * FINE + 1, model.nu) / FINE}


def record(model: ws.Model, true: dict[str, np.ndarray], seed: int, seconds: float = SECONDS):
    """Times, positions, velocities and controls of a motion of the true robot, with noise."""
    rng, rows = np.random.default_rng([seed, 2]), round(seconds / DT)
    rubs = dataclasses.replace(model, joint_friction=true["joint_friction"])
    sim = ws.Simulator(
        rubs, 1, DT / FINE, dtype="float64", device="cpu", solver=ws.NoContact(), integrator=ws.Midpoint()
    )
    for name in SPREADS:
        sim.parameters[name] = true[name]
    frequency, phase = rng.uniform(0.1, 1.2, (4, 6)), rng.uniform(0, 2 * np.pi, (4, 6))
    amplitude = 0.9 / (1.0 + 4.0 * frequency)

    def reference(t: float):
        angle = 2 * np.pi * frequency * t + phase
        return CENTRE + (amplitude * np.sin(angle)).sum(0), (2 * np.pi * frequency * amplitude * np.cos(angle)).sum(0)

    late, low, high = np.round(true["delay"] * FINE).astype(int), *model.control_range.T
    q0, v0 = reference(0.0)
    state = sim.state(q0, v0)
    sent, q, v, u = [], [], [], []
    for row in range(rows):
        q.append(state.q.numpy()[0].copy())
        v.append(state.v.numpy()[0].copy())
        wanted, speed = reference(row * DT)
        u.append(np.clip(KP * (wanted - q[-1]) + KD * (speed - v[-1]), low, high))
        sent += [u[-1]] * FINE
        now = len(sent) - FINE
        for step in range(FINE):
            place = np.maximum(now + step - late, 0)
            state = sim.step(state, np.array([[sent[p][a] for a, p in enumerate(place)]]), out=state)
    q, v = np.array(q), np.array(v)
    q, v = q + NOISE_Q * rng.normal(size=q.shape), v + NOISE_V * rng.normal(size=v.shape)
    return DT * np.arange(rows), q, v, np.array(u)


def write_log(path: pathlib.Path, model: ws.Model, t, q, v, u) -> None:
    """The CSV file."""
    names = model.joint_names
    header = ["time", *(f"q:{n}" for n in names), *(f"v:{n}" for n in names), *(f"u:{n}" for n in model.actuator_names)]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(np.column_stack([t, q, v, u]).tolist())


def run(seed: int, seconds: float = SECONDS, **options) -> dict:
    """How one robot is identified: per parameter the estimate, its error and its standard deviations."""
    model = arm()
    true = true_robot(model, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log.csv"
        write_log(path, model, *record(model, true, seed, seconds))
        wall, cpu = time.perf_counter(), time.process_time()
        found = ws.identify_log(path, model, **options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    names = {"body_mass": model.body_names, "delay": model.actuator_names}
    rows = []
    for e in found.estimates:
        value = true[e.parameter][names.get(e.parameter, model.joint_names).index(e.element)]
        value *= DT if e.parameter == "delay" else 1.0
        logarithm = e.parameter in ("body_mass", "joint_friction")
        width = np.log(e.high / e.value) if logarithm else e.high - e.value
        off = np.log(value / e.value) if logarithm else value - e.value
        rows.append({"name": f"{e.parameter}[{e.element}]", "true": value, "value": e.value, "low": e.low, "high": e.high,
                     "all_low": e.all_low, "all_high": e.all_high, "file": e.file, "z": 1.96 * off / width})  # fmt: skip
    return {"seed": seed, "rows": rows, "unshown": found.unshown, "noise": found.noise, "whiteness": found.whiteness,
            "status": found.status, "moved": found.moved, "restarts": found.restarts, "excess": found.excess,
            "warnings": found.warnings, "wall": wall, "cpu": cpu, "machine": machine(wp.get_device("cpu"))}  # fmt: skip


def report(runs: list[dict]) -> list[str]:
    """The results as Markdown lines."""
    lines = ["| run | parameters | within their own 95 % | largest deviation | rms deviation | all within the intervals for all together | unshown | "
             "status | shorter steps moved | restart gained | residuals over noise | CPU s |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    joint = single = within = count = 0
    for r in runs:
        z = np.abs([row["z"] for row in r["rows"]])
        good = all(row["all_low"] <= row["true"] <= row["all_high"] for row in r["rows"])
        own = sum(row["low"] <= row["true"] <= row["high"] for row in r["rows"])
        joint, single, within, count = joint + good, single + (own == len(z)), within + own, count + len(z)
        lines.append(f"| {r['seed']} | {len(z)} | {own} | {z.max():.2f} σ | {np.sqrt((z**2).mean()):.2f} σ | "
                     f"{'yes' if good else 'no'} | {', '.join(r['unshown']) or 'none'} | {r['status']} | {r['moved']:.2f} σ | "
                     f"{', '.join(f'{x:.1g}' for x in r['restarts'])} | {100 * r['excess'][0]:+.0f} ± {100 * r['excess'][1]:.0f} % | {r['cpu']:.0f} |")  # fmt: skip
    lines += ["", f"All parameters within the intervals for all together: {joint} of {len(runs)} runs (wanted: 18 of 20). "
              f"Parameters within their own 95 % interval: {within} of {count}, {100 * within / count:.1f} % (wanted: 90 %); all of a "
              f"run: {single} of {len(runs)}.", ""]  # fmt: skip
    kinds = {}
    for row in (row for r in runs for row in r["rows"]):
        kinds.setdefault(row["name"], []).append(row)
    lines += [
        "| parameter | true, median | interval's half width, median | within 95 % | mean deviation |",
        "|---|---|---|---|---|",
    ]
    for name, rows in kinds.items():
        half = np.median([(row["high"] - row["low"]) / 2 for row in rows])
        z = np.array([row["z"] for row in rows])
        lines.append(f"| {name} | {np.median([row['true'] for row in rows]):.4g} | {half:.2g} | "
                     f"{int((np.abs(z) <= 1.96).sum())} of {len(z)} | {z.mean():+.2f} σ |")  # fmt: skip
    return lines


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    store = arguments.out / "identify_arm.json"  # run by run; those that are there are kept
    runs = {r["seed"]: r for r in (json.loads(store.read_text()) if store.is_file() else [])}
    for seed in range(arguments.first, arguments.first + arguments.runs):
        if seed not in runs:
            runs[seed] = run(seed)
            store.write_text(json.dumps([runs[s] for s in sorted(runs)], default=float) + "\n")
        z = np.abs([row["z"] for row in runs[seed]["rows"]])
        print(f"{seed}: {(z <= 1.96).sum()} of {len(z)} within, largest deviation {z.max():.2f} σ", flush=True)
    m = runs[max(runs)]["machine"]
    text = ["# Identification of a 6-joint arm", "",
            f"`python -m benchmarks.identify_arm --first {min(runs)} --runs {len(runs)}`; what it does is in its first lines.", "",
            *report([runs[s] for s in sorted(runs)]), "",
            f"{m['date']}, {m['processor']}, {m['cores']} cores; Python {m['python']}, warp-lang {m['versions']['warp-lang']}.", ""]  # fmt: skip
    (arguments.out / "identify_arm.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
