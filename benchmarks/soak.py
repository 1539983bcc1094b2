# SPDX-License-Identifier: Apache-2.0
"""Memory over long use: a million steps, thousands of simulators made and let go, threads that build. It has to stay flat.

python -m benchmarks.soak --out benchmarks/results
"""

import argparse
import concurrent.futures
import gc
import json
import pathlib
import statistics
import sys
import time

import warp as wp

import warpsim as ws
from warpsim.tools.bench import machine

FLAT = 0.01  # of the memory, from the second quarter of the way to the last


def resident() -> float:
    """Memory of this process [MB]."""
    gc.collect()
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS in /proc/self/status")


def watched(label: str, count: int, work, looks: int = 20) -> dict:
    """Memory at so many moments of `work(first, stop)` over `count` pieces; its growth after the first quarter."""
    start, samples = time.perf_counter(), []
    for look in range(looks):
        work(count * look // looks, count * (look + 1) // looks)
        samples.append(resident())
    second, fourth = samples[looks // 4 : looks // 2], samples[-looks // 4 :]
    before, last = statistics.median(second), statistics.median(fourth)  # single samples of threads' heaps vary by 1 %
    growth = (last - before) / before
    found = {
        "what": label,
        "count": count,
        "MB": [round(x, 2) for x in samples],
        "quarters": [before, last],
        "growth": growth,
        "seconds": time.perf_counter() - start,
    }
    print(
        f"{label}: {count:,}, {before:.1f} MB in the second quarter, {last:.1f} MB in the last, {100 * growth:+.2f} %, {found['seconds']:.0f} s",
        flush=True,
    )
    return found


def steps(count: int) -> dict:
    """Steps of 64 ants under random controls; worlds that raise a flag are counted."""
    sim = ws.Simulator(ws.load(ws.robots.path("ant")), 64, device="cpu")
    state, control = sim.state(), ws.RandomControls(seed=1).of(sim)

    def work(first: int, stop: int) -> None:
        for step in range(first, stop):
            sim.step(state, control(step, state), out=state)

    found = watched("steps of 64 ants", count, work)
    flags = state.memory["flags"].numpy()
    return found | {"flags": {str(bit): int((flags & bit > 0).sum()) for bit in (1, 2, 4, 8)}}


def simulators(count: int) -> dict:
    """Simulators of four robots, each stepped twice and let go."""
    models = [ws.load(ws.robots.path(name)) for name in ("ant", "humanoid", "hopper", "cartpole")]

    def work(first: int, stop: int) -> None:
        for k in range(first, stop):
            sim = ws.Simulator(models[k % len(models)], 1 + k % 3, device="cpu", requires_grad=k % 10 == 0)
            state = sim.step(sim.step(sim.state()))
            assert state.q.numpy().shape[0] == sim.worlds

    return watched("simulators made and let go", count, work)


def threads(count: int, workers: int = 8) -> dict:
    """Threads that load a model, make a simulator and step it."""

    def build(k: int) -> None:
        sim = ws.Simulator(ws.load(ws.robots.path(("ant", "hopper")[k % 2])), 2, device="cpu", threads=1)
        sim.step(sim.state()).q.numpy()

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return watched(f"builds in {workers} threads", count * workers, lambda a, b: list(pool.map(build, range(a, b))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("simulators", "threads", "steps"))
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args()
    simulators(8)
    parts = {"simulators": (simulators, 10_000), "threads": (threads, 1000), "steps": (steps, 1_000_000)}
    rows = [part(int(count * a.share)) for name, (part, count) in parts.items() if a.only in (None, name)]
    result = {"machine": machine(wp.get_device("cpu")), "rows": rows}
    if a.out:
        (a.out / "soak.json").write_text(json.dumps(result, indent=1) + "\n")
        (a.out / "soak.md").write_text(markdown(result))
    print(markdown(result))
    return 0 if all(row["growth"] <= FLAT for row in rows) else 1


def markdown(result: dict) -> str:
    lines = [
        "# Memory over long use",
        "",
        "| what | count | MB in the second quarter (median) | in the last | growth | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        lines.append(
            f"| {r['what']} | {r['count']:,} | {r['quarters'][0]:.1f} | {r['quarters'][1]:.1f} | {100 * r['growth']:+.2f} % | {r['seconds']:.0f} |"
        )
    m = result["machine"]
    return "\n".join([*lines, "", f"{m['date']}, {m['processor']}, {m['cores']} cores", ""])


if __name__ == "__main__":
    sys.exit(main())
