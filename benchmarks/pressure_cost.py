# SPDX-License-Identifier: Apache-2.0
"""What a step of a box on the ground costs by pressure fields, beside contact at points: time and memory per world.

    python -m benchmarks.pressure_cost [--worlds 4096]

One thread, float32, the default law; boxes that land tilted and moving, medians of CPU time over three runs of 20 steps from one start.
"""

import argparse
import statistics
import time

import numpy as np

import warpsim as ws

HALF = (0.05, 0.07, 0.04)
CASES = {"points": None, "patch4": "patch4", "patch5": "patch5", "patch16": "patch16", "polygons": "polygons"}
STEPS = 20


def box(level: str | None) -> ws.Model:
    b = ws.ModelBuilder("box")
    body = b.add_body("box", pose=(0, 0, 0.041))
    b.add_joint(body, "free")
    soft = {"stiffness": 1e5, "dissipation_time": 0.02} if level is None else {"hydroelastic": ws.Hydroelastic(1e6)}
    b.add_geom("plane", **({} if level is None else {"hydroelastic": ws.Hydroelastic(np.inf)}))
    b.add_geom("box", HALF, body=body, friction=0.5, **soft)
    return b.build()


def measure(level: str | None, worlds: int) -> dict[str, float]:
    """Microseconds per step and world, kilobytes and contacts per world, worlds with a flag."""
    sim = ws.Simulator(box(level), worlds, dt=0.005, threads=1, hydroelastic=level or "patch16")
    rng = np.random.default_rng(0)
    q = np.tile(sim.model.q0, (worlds, 1))
    q[:, 2] = 0.0395 + rng.uniform(0, 0.003, worlds)
    q[:, 3:] += rng.normal(0, 0.02, (worlds, 4))
    start = sim.state(q, rng.normal(0, 0.3, (worlds, 6)))
    state = sim.step(start)
    times = []
    for _ in range(3):
        state.assign(start)
        begin = time.process_time()
        for _ in range(STEPS):
            sim.step(state, out=state)
        times.append(time.process_time() - begin)
    found = {"us": 1e6 * statistics.median(times) / STEPS / worlds, "kB": sim.bytes_per_world() / 1e3}
    contacts, flags = sim.diagnostics.contacts.numpy(), sim.diagnostics.flags.numpy()
    return found | {"contacts": float(contacts.mean()), "flagged": int((flags != 0).sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=4096)
    worlds = parser.parse_args().worlds
    rows = {name: measure(level, worlds) for name, level in CASES.items()}
    print(
        f"| box on the ground, {worlds} worlds | µs per step and world | by points = 1 | kB per world | contacts | flagged |"
    )
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        ratio = row["us"] / rows["points"]["us"]
        print(
            f"| {name} | {row['us']:.2f} | {ratio:.2f} | {row['kB']:.1f} | {row['contacts']:.1f} | {row['flagged']} |"
        )


if __name__ == "__main__":
    main()
