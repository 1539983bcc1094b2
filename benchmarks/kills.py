# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at random moments, resumed, and compared bit for bit with one that was not.

    python -m benchmarks.kills --times 100 --out benchmarks/results

`rollout`: a process in `sim.rollout(store=…)`; `command`: `warpsim run --store`; `ray`: a driver of `ws.cluster.rollout`, of which one process is
killed: the driver, a shard, or the node's (raylet), with the other two going down or going on as they will. After what is left has ended, the run is
resumed from its store, or begun anew where there is none yet.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.files.store.place import StoreError
from warpsim.run import streaming
from warpsim.tools.bench import machine

WORLDS, STEPS = 16, 4000
ROOT = pathlib.Path(__file__).resolve().parents[1]
ROLLOUT = f"""
import sys, warpsim as ws
from warpsim.run import streaming
streaming.COMMIT_SECONDS = 0.05
sim = ws.Simulator(ws.load(ws.robots.path("ant")), {WORLDS}, device="cpu", threads=1)
sim.rollout(sim.state(), ws.RandomControls(seed=4), {STEPS}, store=sys.argv[1])
"""
CLUSTER = f"""
import sys, warpsim as ws
ws.cluster.rollout(ws.load(ws.robots.path("ant")), None, ws.RandomControls(seed=4), {STEPS}, worlds={WORLDS}, shards=2, store=sys.argv[1], device="cpu")
"""
COMMAND = ["-m", "warpsim", "run", "", "--worlds", str(WORLDS), "--steps", str(STEPS), "--device", "cpu", "--store"]


def begin(kind: str, path: pathlib.Path) -> subprocess.Popen:
    """The process, in a session of its own."""
    command = list(COMMAND)
    command[3] = str(ws.robots.path("ant"))
    code = {"rollout": ["-c", ROLLOUT], "ray": ["-c", CLUSTER], "command": command}[kind]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, *code, str(path)], env=environment, start_new_session=True, **quiet)


def family(group: int) -> dict[int, str]:
    """Live processes below a process, with what they are called."""
    parents, names = {}, {}
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            names[pid] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    found = {group}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: names.get(pid, "") for pid in found if names.get(pid)}


def kill_one(kind: str, process: subprocess.Popen, rng: random.Random) -> str:
    """Kill one process of a run; what it was."""
    targets = {"the process": [process.pid]}
    if kind == "ray":
        members = family(process.pid)
        targets = {"driver": [process.pid]}
        targets["shard"] = [pid for pid, name in members.items() if name.startswith("ray::Shard")]
        targets["node"] = [pid for pid, name in members.items() if "raylet/raylet" in name.split(" ")[0]]
    what = rng.choice([name for name, pids in targets.items() if pids])
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(targets[what]), signal.SIGKILL)
    return what


def once(kind: str, path: pathlib.Path, seconds: float, expected, rng: random.Random) -> dict:
    """One run, killed after some seconds, ended and compared."""
    process = begin(kind, path)
    time.sleep(seconds)
    members = family(process.pid) if kind == "ray" else {}
    what = kill_one(kind, process, rng) if process.poll() is None else "nothing (it had ended)"
    if what == "shard":
        process.wait()  # the driver replaces it
    for pid in [process.pid, *members]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    found = {"killed": what, "after": round(seconds, 3), "code": process.returncode, "frames": 0}
    try:
        found["frames"] = ws.Trajectory.load(path).frames
        trajectory = ws.resume(path, device="cpu", threads=1)
    except StoreError as error:
        if "no such store" not in str(error):
            return found | {"same": False, "error": str(error)}
        rerun = begin(kind, path)
        rerun.wait()
        trajectory = ws.Trajectory.load(path)
    same = all(
        np.array_equal(np.asarray(getattr(trajectory, name)), getattr(expected, name).numpy())
        for name in ("q", "v", "time")
    ) and all(np.array_equal(np.asarray(trajectory.diagnostics[n]), a.numpy()) for n, a in expected.diagnostics.items())
    return found | {"same": bool(same)}


def expectation(kind: str):
    """The rollout that nothing happens to."""
    sim = ws.Simulator(ws.load(ws.robots.path("ant")), WORLDS, device="cpu", threads=1)
    if kind == "command":
        from warpsim.tools.runs import smooth_controls

        return sim.rollout(sim.state(), smooth_controls(sim.model, WORLDS, STEPS, sim.dt))
    return sim.rollout(sim.state(), ws.RandomControls(seed=4), STEPS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=["rollout", "command", "ray"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    streaming.COMMIT_SECONDS = 0.05
    rng, result = random.Random(a.seed), {"machine": machine(wp.get_device("cpu")), "times": a.times, "kinds": {}}
    for kind in a.kinds:
        folder, expected = pathlib.Path(tempfile.mkdtemp()), expectation(kind)
        start = time.perf_counter()
        begin(kind, folder / "whole.zarr").wait()
        whole = time.perf_counter() - start
        cases = []
        for number in range(a.times):
            cases.append(once(kind, folder / f"{number}.zarr", rng.uniform(0.0, whole), expected, rng))
            print(kind, number, cases[-1], flush=True)
            shutil.rmtree(folder / f"{number}.zarr", ignore_errors=True)
        shutil.rmtree(folder)
        result["kinds"][kind] = {"seconds uninterrupted": whole, "cases": cases}
    text = markdown(result)
    print(text)
    if a.out:
        (a.out / "kills.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "kills.md").write_text(text)
    return 0 if all(c["same"] for k in result["kinds"].values() for c in k["cases"]) else 1


def markdown(result: dict) -> str:
    lines = [
        "# Runs killed at random moments",
        "",
        "| run | killed | times | with frames on disk | resumed to the same bits |",
        "|---|---|---|---|---|",
    ]
    for kind, found in result["kinds"].items():
        for what in sorted({c["killed"] for c in found["cases"]}):
            cases = [c for c in found["cases"] if c["killed"] == what]
            written, same = sum(c["frames"] > 0 for c in cases), sum(c["same"] for c in cases)
            lines.append(f"| {kind} | {what} | {len(cases)} | {written} | {same} |")
    m = result["machine"]
    note = f"Ant, {WORLDS} worlds × {STEPS:,} steps, SIGKILL at a moment drawn uniformly over the whole process, its start included."
    return "\n".join([*lines, "", note, f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


if __name__ == "__main__":
    sys.exit(main())
