# SPDX-License-Identifier: Apache-2.0
"""What it costs to write USD from a store that is not loaded: milliseconds and bytes per frame, and memory at 1,000 and 10,000 frames.

python -m benchmarks.usd_streaming --out benchmarks/results [--worlds 4096] [--frames 120]

The robot is gymnasium's ant, 13 bodies. Every export runs in a process of its own, whose peaks are those of the kernel: VmHWM counts pages of the
file that is written too, anonymous memory does not.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset
from warpsim.tools.bench import machine

DT = 0.02  # [s] between frames
MANY, FEW = 4096, 64  # worlds
LENGTHS = (1_000, 2_000, 10_000)  # frames of the few worlds
CLIP = 500  # frames per file of the named form
NAMED = 2_000  # frames up to which it is written


def record(folder: pathlib.Path, worlds: int, frames: int) -> pathlib.Path:
    """A store of a driven rollout."""
    path = folder / f"ant_{worlds}_{frames}.zarr"
    sim = ws.Simulator(ws.load(asset("ant")), worlds, dt=DT, device="cpu")
    sim.rollout(sim.state(), ws.RandomControls(seed=1, scale=0.3), frames - 1, store=path)
    return path


def export(store: str, path: str, options: dict) -> dict:
    """One export, in this process: seconds, and how far its memory rose [MiB]."""
    from pxr import Usd  # noqa: F401  loaded off the clock

    import warpsim.files.usd.usd_write  # noqa: F401

    trajectory = ws.Trajectory.load(store)
    peak, done = [_status("RssAnon")], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak.append(_status("RssAnon"))

    before, thread = _status("RssAnon"), threading.Thread(target=watch)
    thread.start()
    start, used = time.perf_counter(), time.process_time()
    trajectory.to_usd(path, **options)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    done.set()
    thread.join()
    files = [p for p in [pathlib.Path(path)] if p.is_file()] or [*pathlib.Path(path).iterdir()]
    return {
        "frames": trajectory.frames,
        "worlds": trajectory.worlds,
        "bodies": trajectory.model.nbody,
        "form": options.get("form", "instanced"),
        "frames per file": options.get("frames_per_file", 0),
        "ms per frame": 1e3 * seconds / trajectory.frames,
        "CPU ms per frame": 1e3 * used / trajectory.frames,
        "bytes per body-frame": sum(p.stat().st_size for p in files)
        / (trajectory.frames * trajectory.worlds * trajectory.model.nbody),
        "anonymous rise [MiB]": max(peak) - before,
        "peak anonymous [MiB]": max(peak),
        "peak resident [MiB]": _status("VmHWM"),
    }


def _status(key: str) -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024


def measured(store: pathlib.Path, **options) -> dict:
    """`export` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run" + ("" if "frames_per_file" in options else ".usdc")
        code = "import json, sys; from benchmarks.usd_streaming import export; print(json.dumps(export(*json.loads(sys.argv[1]))))"
        command = [sys.executable, "-c", code, json.dumps([str(store), path, options])]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    print(run.stdout.splitlines()[-1], flush=True)
    return json.loads(run.stdout.splitlines()[-1])


def copied(frames: int = 20) -> float:
    """Milliseconds that 20 bytes per body and frame of the many worlds take from memory to this disk, as a yardstick."""
    data = np.random.default_rng(0).bytes(20 * 13 * MANY)
    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(frames):
            file.write(data)
        file.flush()
        return 1e3 * (time.perf_counter() - start) / frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--worlds", type=int, default=MANY)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows, loads = [], [round(x, 1) for x in os.getloadavg()]
    print(f"load {loads[0]} on {os.cpu_count()} cores before the start", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        store = record(pathlib.Path(folder), arguments.worlds, arguments.frames)
        rows += [measured(store) for _ in range(arguments.repeats)]
        for frames in LENGTHS:
            store = record(pathlib.Path(folder), FEW, frames)
            rows.append(measured(store))
            if frames <= NAMED:
                rows.append(measured(store, form="named", frames_per_file=CLIP))
    found = {
        "machine": machine(wp.get_device("cpu")),
        "load": loads,
        "writing alone [ms per frame]": copied(),
        "rows": rows,
    }
    keys = list(rows[0])
    table = [f"| {' | '.join(keys)} |", f"|{'---|' * len(keys)}"]
    table += [f"| {' | '.join(f'{r[k]:.4g}' if isinstance(r[k], float) else str(r[k]) for k in keys)} |" for r in rows]
    print("\n".join(table))
    if arguments.out:
        (arguments.out / "usd_streaming.json").write_text(json.dumps(found, indent=1) + "\n")
        m = found["machine"]
        words = f"{m['date']}, {m['processor']}, {m['cores']} cores, load {loads[0]} before the start; gymnasium's ant"
        words += f". Writing the bytes of a frame of {MANY} ants alone: {found['writing alone [ms per frame]']:.1f} ms."
        lines = [
            "# USD from a store",
            "",
            "`python -m benchmarks.usd_streaming --out benchmarks/results`",
            "",
            *table,
            "",
            words,
            "",
        ]
        (arguments.out / "usd_streaming.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
