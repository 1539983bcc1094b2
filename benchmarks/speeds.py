# SPDX-License-Identifier: Apache-2.0
"""One table of speeds from the results of `warpsim bench`, as parts of pages: `<!-- speeds: NAME -->` (`benchmarks/figures.py`)."""

import json
import pathlib

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# Which rows of a result the short table shows.
SHORT = {"bench.json": (1, 4096), "bench_h200.json": (8192, 65536)}
ROBOTS = ("humanoid", "ant")
HEAD = "| robot | worlds | hardware | warpsim, steps/s | speed relative to mujoco_warp | speed relative to MuJoCo C on one thread |\n|---|---|---|---|---|---|\n"


def speeds(name: str) -> dict[tuple[str, int], dict[str, float]]:
    """Steps per second of a file of results: {(robot, worlds): {engine: speed}}."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in json.loads((RESULTS / name).read_text())["rows"]:
        found.setdefault((row["model"], row["worlds"]), {})[row["engine"]] = row["world_steps_per_second"]
    return found


def hardware(name: str) -> str:
    """Short name of the hardware that a file of results is from."""
    machine = json.loads((RESULTS / name).read_text())["machine"]
    return "one CPU thread" if machine["device"] == "cpu" else f"one {machine['device'].removeprefix('NVIDIA ')}"


def rounded(speed: float) -> str:
    """A speed in three digits: 28,700 or 6.22 million."""
    return f"{speed / 1e6:.2f} million" if speed >= 1e6 else f"{round(speed, -2):,.0f}"


def line(robot: str, worlds: int, where: str, engines: dict[str, float]) -> str:
    """A row of the table; an engine that was not measured leaves its cell empty."""
    own = engines["warpsim"]
    ratios = [f"{own / engines[peer]:.2f}" if peer in engines else "" for peer in ("mujoco_warp", "mujoco")]
    return f"| {robot} | {worlds:,} | {where} | {rounded(own)} | {ratios[0]} | {ratios[1]} |\n"


def table(chosen: dict[str, tuple[int, ...]] | None) -> str:
    """The table of `chosen` numbers of worlds per file of results, None: of all."""
    text = HEAD
    for robot in ROBOTS:
        for name in SHORT:
            for (model, worlds), engines in sorted(speeds(name).items(), key=lambda item: item[0][1]):
                if model == robot and (chosen is None or worlds in chosen[name]):
                    text += line(robot, worlds, hardware(name), engines)
    return text


def sources() -> str:
    """Which machines and days the numbers are of."""
    parts = []
    for name in SHORT:
        machine = json.loads((RESULTS / name).read_text())["machine"]
        cpu = machine["device"] == "cpu"
        kind = machine["processor"].replace("(R)", "") if cpu else machine["device"]
        parts.append(f"{'CPU' if cpu else 'GPU'}: {kind}, {machine['date']}")
    return "; ".join(parts)


def fragments() -> dict[str, str]:
    """What the marked parts of pages hold, by name."""
    cpu = speeds("bench.json")
    one = [cpu[robot, 1]["mujoco"] / cpu[robot, 1]["warpsim"] for robot in ROBOTS]
    return {
        "short": f"\n\n{table(SHORT)}\n",
        "all": f"\n\n{table(None)}\n",
        "sources": sources(),
        "one_world": f"{one[0]:.1f} (humanoid) to {one[1]:.1f} times (ant) as long as one of MuJoCo C",
    }


def report() -> str:
    """The page of results."""
    return (
        "# Speeds\n\nWorld-steps per second of settled robots under random controls, float32 (MuJoCo C: float64), each engine's own contact model. "
        f"Made by `python -m benchmarks.figures` from bench.json and bench_h200.json ({sources()}).\n\n{table(None)}"
    )
