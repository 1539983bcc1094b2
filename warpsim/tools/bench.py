# SPDX-License-Identifier: Apache-2.0
"""`warpsim bench`: speed, cold start and memory beside mujoco_warp and MuJoCo C, in one run on one machine.

Every engine gets the same model, the same step, the same initial states (settled on the ground under random controls),
and the same random controls. The peers use the Euler integrator and the Newton solver, because mujoco_warp refuses the
files' RK4 and PGS. Engines take turns in every repeat. On the CPU the clock is the process's CPU time.
"""

import datetime
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import mujoco
import numpy as np
import warp as wp

from warpsim.tools.bench_engines import ENGINES, Scene
from warpsim.tools.demo import robot_path

SETTLED = 64  # distinct initial states; further worlds repeat them, with different controls
OWN_SECONDS = 0.1  # s of steps that every engine makes before the clock starts
LEAST_STEPS, MOST_STEPS = 8, 2000


def run(*, models, worlds, engines, repeats, world_steps, settle, device, cold_start, out) -> dict:
    """Run the comparison, print the tables, and write `<out>/bench.json` and `<out>/bench.md`; returns the results."""
    from rich.console import Console

    console = Console(highlight=False, width=max(120, Console().width))
    mujoco.set_mju_user_warning(lambda message: None)
    device = wp.get_preferred_device() if device is None else wp.get_device(device)
    engines = [name for name in engines if _available(name, device, console)]
    if not engines:
        raise ValueError("bench needs at least one installed engine")
    result = {"machine": machine(device), "repeats": repeats, "settle_seconds": settle, "rows": [], "cold_start": []}
    for name in models:
        scene = make_scene(name, settle)
        for count in worlds:
            result["rows"] += _race(scene, count, engines, repeats, world_steps, device, console)
        if cold_start:
            result["cold_start"] += [_cold_start(scene, engine, device) for engine in engines if engine != "mujoco"]
    _print(result, console)
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "bench.md").write_text(markdown(result), "utf-8")
    console.print(f"wrote {folder / 'bench.json'} and {folder / 'bench.md'}")
    return result


def _available(name: str, device, console) -> bool:
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name not in ("warpsim", "same_law") and importlib.util.find_spec(name) is None:
        console.print(f"{name} is not installed and is left out; run: pip install 'warpsim\\[bench]'")
        return False
    if name == "mujoco" and device.is_cuda:
        console.print("mujoco runs on the CPU; its rows count CPU seconds, the others wall seconds of the GPU")
    return True


def machine(device) -> dict:
    """Processor, date and versions, as plain data."""
    packages = ("warpsim", "warp-lang", "mujoco", "mujoco-warp", "numpy")
    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = __import__("warpsim").__version__ if name == "warpsim" else "not installed"
    processor = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor,
        "cores": os.cpu_count(),
        "device": device.name if device.is_cuda else "cpu",
        "python": platform.python_version(),
        "versions": versions,
    }


def make_scene(name: str, settle: float) -> Scene:
    """The MuJoCo model with overridden options, and its initial states after `settle` seconds of random controls."""
    path = name if name.endswith((".xml", ".urdf")) else robot_path(name)
    mj_model = mujoco.MjModel.from_xml_path(path)
    mj_model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    mj_model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    rng = np.random.default_rng(0)
    data, states, contacts, rows = mujoco.MjData(mj_model), [], [0], [0]
    for _ in range(SETTLED):
        mujoco.mj_resetData(mj_model, data)
        for _ in range(round(settle / mj_model.opt.timestep)):
            data.ctrl[:] = random_controls(mj_model, rng, ())
            mujoco.mj_step(mj_model, data)
            contacts.append(data.ncon)
            rows.append(data.nefc)
        states.append((data.qpos.copy(), data.qvel.copy()))
    q, v = (np.array(part) for part in zip(*states, strict=True))
    return Scene(pathlib.Path(path).stem, path, mj_model, q, v, max(contacts), max(rows))


def random_controls(mj_model, rng, shape) -> np.ndarray:
    """Uniform controls in the control ranges, `(*shape, nu)`; an actuator without a range gets [-1, 1]."""
    limited = mj_model.actuator_ctrllimited.astype(bool)
    low = np.where(limited, mj_model.actuator_ctrlrange[:, 0], -1.0)
    high = np.where(limited, mj_model.actuator_ctrlrange[:, 1], 1.0)
    return rng.uniform(low, high, (*shape, mj_model.nu))


def _race(scene: Scene, worlds: int, engines, repeats: int, world_steps: int, device, console) -> list[dict]:
    """Run all engines at one number of worlds, taking turns; one row per engine."""
    steps = min(max(LEAST_STEPS, -(-world_steps // worlds)), MOST_STEPS)
    own = max(1, round(OWN_SECONDS / scene.dt))
    controls = random_controls(scene.mj_model, np.random.default_rng(1), (own + steps, worlds))
    controls = controls.astype(np.float32)
    runners = {name: ENGINES[name](scene, worlds, controls, device) for name in engines}
    seconds = by_turns(runners, repeats, own, own + steps)
    rows = []
    for name, runner in runners.items():
        median = statistics.median(seconds[name])
        rate = worlds * steps / median
        row = {"model": scene.name, "worlds": worlds, "engine": name, "steps": steps, "dt": scene.dt}
        row |= {"world_steps_per_second": rate, "microseconds_per_world_step": 1e6 / rate}
        row |= {"spread": max(seconds[name]) / min(seconds[name]) - 1, "real_time_factor": rate * scene.dt}
        rows.append(row | runner.facts())
        console.print(f"{scene.name:10s} {worlds:5d} worlds  {name:12s} {1e6 / rate:8.1f} µs per world-step")
    return rows


def by_turns(runners: dict, repeats: int, own: int, last: int) -> dict[str, list[float]]:
    """Seconds that each engine takes for the steps from `own` to `last`, once per round.

    Each engine makes the steps before `own` once, untimed, and every round begins from there.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for runner in runners.values():
        runner.restart()
        runner.advance(0, own)
        runner.remember()
    for _ in range(repeats):
        for name, runner in runners.items():
            runner.restart()
            seconds[name].append(timed(runner, own, last))
    return seconds


def timed(runner, first: int, last: int) -> float:
    """CPU seconds of the process, or wall seconds on a GPU."""
    clock = time.perf_counter if runner.on_gpu else time.process_time
    start = clock()
    runner.advance(first, last)
    return clock() - start


COLD_PROGRAM = """
import sys
from warpsim.tools.bench_engines import first_step
first_step(sys.argv[1], sys.argv[2], sys.argv[3])
"""


def _cold_start(scene: Scene, engine: str, device) -> dict:
    """Wall and CPU seconds from a fresh process, with an empty kernel cache, to the end of the first step."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, WARP_CACHE_PATH=cache)
        before, start = os.times(), time.perf_counter()
        command = [sys.executable, "-c", COLD_PROGRAM, engine, scene.path, str(device)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"model": scene.name, "engine": engine, "seconds": wall, "cpu_seconds": cpu}


HEADINGS = (
    "model", "worlds", "engine", "steps/s", "µs/step", "speed-up", "real time ×", "kB/world", "contacts", "e_m",
)  # fmt: skip


def table_rows(result: dict) -> list[list[str]]:
    """The cells of the comparison as text."""
    peer = {(r["model"], r["worlds"]): r for r in result["rows"] if r["engine"] == "mujoco_warp"}
    cells = []
    for r in result["rows"]:
        other = peer.get((r["model"], r["worlds"]))
        ratio = r["world_steps_per_second"] / other["world_steps_per_second"] if other else None
        cells.append(
            [
                r["model"],
                f"{r['worlds']}",
                r["engine"],
                f"{r['world_steps_per_second']:,.0f}",
                f"{r['microseconds_per_world_step']:.1f}",
                "" if ratio is None else f"{ratio:.2f}",
                f"{r['real_time_factor']:,.0f}",
                "" if r.get("bytes_per_world") is None else f"{r['bytes_per_world'] / 1000:.1f}",
                f"{r['contacts_per_world']:.1f}",
                "" if r.get("momentum_error") is None else f"{r['momentum_error']:.1e}",
            ]
        )
    return cells


def _print(result: dict, console) -> None:
    from rich.table import Table

    table = Table(*HEADINGS, title=_unit(result))
    for row in table_rows(result):
        table.add_row(*row)
    console.print(table)
    for row in result["cold_start"]:
        console.print(_cold_line(row))


def _unit(result: dict) -> str:
    on_gpu = result["machine"]["device"] != "cpu"
    return f"world-steps per {'second' if on_gpu else 'CPU-second'}, median of {result['repeats']}"


def _cold_line(row: dict) -> str:
    return (
        f"cold start, {row['model']}, {row['engine']}: {row['seconds']:.1f} s to the first step from an empty kernel "
        f"cache ({row['cpu_seconds']:.1f} s of CPU time)"
    )


def markdown(result: dict) -> str:
    """The same tables in Markdown, with machine, versions and date."""
    m = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    lines = [
        "# Side by side",
        "",
        f"{m['date']}; {m['processor']}, {m['cores']} cores; device {m['device']}; Python {m['python']}; {versions}.",
        "",
        f"{_unit(result)[0].upper()}{_unit(result)[1:]}. {SETTING_NOTE}",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in table_rows(result)]
    if result["cold_start"]:
        lines += [
            "",
            "Cold start, from the start of a process with an empty kernel cache to the end of its first step:",
            "",
        ]
        lines += ["| model | engine | s | CPU s |", "|---|---|---|---|"]
        for row in result["cold_start"]:
            lines.append(f"| {row['model']} | {row['engine']} | {row['seconds']:.1f} | {row['cpu_seconds']:.1f} |")
    lines.append("")
    sizes = {r["model"]: r["note"] for r in result["rows"] if r.get("note")}
    lines += [f"- {model}: {note}" for model, note in sizes.items()]
    return "\n".join(lines) + "\n"


SETTING_NOTE = (
    "Same model, step, start states (settled on the ground under random controls) and random controls for all. "
    "warpsim: SAP and symplectic Euler, float32. mujoco_warp: Newton and Euler, overridden in the model because it "
    "refuses the files' PGS and RK4; float32, its step replayed from a graph. mujoco: Newton and Euler, float64, "
    "`mujoco.rollout` on one thread. Solver tolerances are each engine's default, or the file's. Contacts are each "
    "engine's own count per world at the end (warpsim's includes contacts that may close within a step). Speed-up is "
    "over "
    "mujoco_warp; e_m is warpsim's certificate, the worst momentum error over all worlds."
)
