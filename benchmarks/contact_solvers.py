# SPDX-License-Identifier: Apache-2.0
"""Cost of the contact solvers on the same scenes: CPU time per step and world of SAP, Compliant and LCP, in one run.

    python -m benchmarks.contact_solvers [--out benchmarks/results] [--worlds 16] [--steps 200]

Robots driven at random and a clutter of 20 bodies, float64 and float32, one thread. Every solver steps the same controls
from the same states; each trajectory is its own.
"""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset, clutter
from warpsim.tools.bench import machine

SOLVERS = {"SAP, convex": ws.SAP(approximation="convex"), "SAP": ws.SAP(), "Compliant": ws.Compliant(), "LCP": ws.LCP()}
SCENES = ("ant", "humanoid", "clutter 20")


def measure(scene: str, solver, dtype: str, worlds: int, steps: int) -> dict[str, float]:
    """µs per step and world, and what the diagnostics say."""
    model = clutter(20) if scene == "clutter 20" else ws.load(asset(scene))
    worlds = max(1, worlds // 8) if scene == "clutter 20" else worlds
    sim = ws.Simulator(model, worlds, 0.005, solver=solver, dtype=dtype, device="cpu")
    controls = np.random.default_rng(0).uniform(-0.5, 0.5, size=(steps, worlds, model.nu)).astype(dtype)
    state = sim.rollout(sim.state(), controls if model.nu else None, steps)
    q, v = state.q.numpy()[-1], state.v.numpy()[-1]
    start = time.process_time()
    trajectory = sim.rollout(sim.state(q, v), controls if model.nu else None, steps)
    seconds = time.process_time() - start
    read = {key: array.numpy() for key, array in trajectory.diagnostics.items()}
    return {
        "µs": 1e6 * seconds / (steps * worlds),
        "contacts": read["contacts"].mean(),
        "iterations": read["iterations"].mean(),
        "residual": read["momentum_error"].max(),
        "flags": int(np.count_nonzero(read["flags"][-1])),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="folder for contact_solvers.md")
    parser.add_argument("--worlds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    m = machine(wp.get_device("cpu"))
    lines = [
        f"{m['date']}, {m['processor']}, {m['cores']} cores (shared), one thread; warp-lang {m['versions']['warp-lang']}.",
        "",
    ]
    lines += [
        "| scene | dtype | solver | µs per step and world | × convex | contacts | iterations | worst residual | flagged worlds |"
    ]
    lines += ["|---" * 9 + "|"]
    for scene in SCENES:
        for dtype in ("float64", "float32"):
            rows = {
                name: measure(scene, solver, dtype, arguments.worlds, arguments.steps)
                for name, solver in SOLVERS.items()
            }
            for name, row in rows.items():
                cells = f"{row['µs']:.0f} | {row['µs'] / rows['SAP, convex']['µs']:.1f} | {row['contacts']:.1f} | {row['iterations']:.1f}"
                lines.append(f"| {scene} | {dtype} | {name} | {cells} | {row['residual']:.1e} | {row['flags']} |")
            print(*lines[-len(SOLVERS) :], sep="\n", flush=True)
    if arguments.out:
        (arguments.out / "contact_solvers.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
