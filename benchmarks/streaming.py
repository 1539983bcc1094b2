# SPDX-License-Identifier: Apache-2.0
"""What it costs to write a rollout into a store, and to divide it over actors of Ray: ratios of speeds, in turns on one machine.

python -m benchmarks.streaming --out benchmarks/results
"""

import argparse
import json
import pathlib
import shutil
import statistics
import tempfile
import time

import warp as wp

import warpsim as ws
from warpsim.tools.bench import machine

REPEATS = 3
CASES = (
    ("ant", 64, 15_625),
    ("ant", 1024, 977),
    ("humanoid", 1024, 977),
)  # robot, worlds, steps: a million world-steps


def stored(robot: str, worlds: int, steps: int, device, every: int) -> dict:
    """Seconds of a rollout kept in memory and of one that goes into a store, in turns; their ratio by pairs."""
    sim = ws.Simulator(ws.load(ws.robots.path(robot)), worlds, device=device)
    controls, ratios, seconds, size = ws.RandomControls(seed=1, scale=0.3), [], [], 0
    sim.rollout(sim.state(), controls, 20)
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            pair = []
            for options in ({}, {"store": pathlib.Path(folder) / "a.zarr"}):
                start = time.perf_counter()
                sim.rollout(sim.state(), controls, steps, every=every, **options)
                pair.append(time.perf_counter() - start)
            size = sum(p.stat().st_size for p in pathlib.Path(folder).rglob("*") if p.is_file())
        ratios.append(pair[0] / pair[1])
        seconds.append(pair)
    rows = steps // every * worlds
    found = {"robot": robot, "worlds": worlds, "steps": steps, "every": every, "ratio": statistics.median(ratios)}
    found |= {
        "seconds": statistics.median(s[0] for s in seconds),
        "seconds with store": statistics.median(s[1] for s in seconds),
    }
    return found | {"bytes per world-step": size / rows}


def divided(robot: str, worlds: int, steps: int) -> dict:
    """World-steps per second of one simulator with two threads and of two shards, both into a store; start-up taken off by two lengths."""
    model, controls = ws.load(ws.robots.path(robot)), ws.RandomControls(seed=1, scale=0.3)
    sim, ratios = ws.Simulator(model, worlds, device="cpu", threads=2), []
    folder = pathlib.Path(tempfile.mkdtemp())

    def alone(count: int) -> None:
        sim.rollout(sim.state(), controls, count, store=folder / "a.zarr")

    def shards(count: int) -> None:
        ws.cluster.rollout(model, None, controls, count, worlds=worlds, shards=2, store=folder / "a.zarr", device="cpu")

    speeds = {alone: [], shards: []}
    for run in speeds:
        run(20)
    for _ in range(REPEATS):
        for run, found in speeds.items():
            taken = []
            for count in (steps // 4, steps):
                start = time.perf_counter()
                run(count)
                taken.append(time.perf_counter() - start)
            found.append(worlds * (steps - steps // 4) / (taken[1] - taken[0]))
        ratios.append(speeds[shards][-1] / speeds[alone][-1])
    shutil.rmtree(folder)
    speed = {"one": statistics.median(speeds[alone]), "two shards": statistics.median(speeds[shards])}
    return {
        "robot": robot,
        "worlds": worlds,
        "steps": steps,
        "ratio": statistics.median(ratios),
        "world-steps/s": speed,
    }


def markdown(result: dict) -> str:
    lines = ["# Stores and shards: what they cost", ""]
    lines += [
        "| robot | worlds × steps | every | speed with a store ÷ without | bytes per world-step |",
        "|---|---|---|---|---|",
    ]
    for r in result["stored"]:
        lines.append(
            f"| {r['robot']} | {r['worlds']} × {r['steps']:,} | {r['every']} | {r['ratio']:.2f} | {r['bytes per world-step']:.0f} |"
        )
    if "divided" in result:
        r = result["divided"]
        a, b = r["world-steps/s"].values()
        lines += [
            "",
            f"Ray, {r['robot']}, {r['worlds']} × {r['steps']:,}: two shards {b:,.0f} world-steps/s, one simulator with two threads {a:,.0f};",
        ]
        lines += [f"ratio {r['ratio']:.2f} (medians of {REPEATS} in turns, start-up taken off)."]
    m = result["machine"]
    return "\n".join([*lines, "", f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    shorter = 10 if a.quick else 1
    result = {"machine": machine(wp.get_device(a.device)), "stored": []}
    for robot, worlds, steps in CASES:
        for every in (1,):
            result["stored"].append(stored(robot, worlds, steps // shorter, a.device, every))
            print(result["stored"][-1], flush=True)
    if not a.no_ray:
        result["divided"] = divided("ant", 1024, 1000 // shorter)
    print(markdown(result))
    if a.out:
        (a.out / "streaming.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "streaming.md").write_text(markdown(result))


if __name__ == "__main__":
    main()
