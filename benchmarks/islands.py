# SPDX-License-Identifier: Apache-2.0
"""Many robots in one world that do not touch, against as many worlds of one: islands should make them cost the same.

    python -m benchmarks.islands [--robots 64] [--steps 20] [--repeats 7]

ant and humanoid on one floor, 3 m apart, random controls, float32, one thread; ms per step, medians, in one run.
"""

import argparse
import statistics
import time

import mujoco
import numpy as np

import warpsim as ws
from scenes.examples import asset

SPACING = 3.0  # [m]


def crowd(name: str, robots: int) -> tuple[ws.Model, ws.Model]:
    """One robot on its floor, and `robots` of them on one floor."""
    spec = mujoco.MjSpec.from_file(asset(name))
    for geom in list(spec.worldbody.geoms):
        spec.delete(geom)
    one, bare = ws.load(asset(name)), ws.load(spec.compile())
    builder = ws.ModelBuilder("crowd", timestep=one.timestep, gravity=one.gravity)
    side = int(np.ceil(np.sqrt(robots)))
    for i in range(robots):
        pose = [SPACING * (i % side), SPACING * (i // side), 0, 1, 0, 0, 0]
        builder.add_model(bare if i else one, pose=pose, prefix=f"robot_{i}_")
    return one, builder.build()


def ms_per_step(model: ws.Model, worlds: int, controls: np.ndarray, steps: int, repeats: int) -> float:
    sim = ws.Simulator(model, worlds=worlds, device="cpu")
    state, times = sim.state(), []
    for _ in range(5 * steps):
        sim.step(state, controls, out=state)
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(steps):
            sim.step(state, controls, out=state)
        times.append((time.perf_counter() - start) / steps * 1e3)
    assert not sim.diagnostics.flags.numpy().any()
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    n = arguments.robots
    print("| robot | worlds of one [ms] | one world [ms] | ratio |\n|---|---|---|---|")
    for name in ("ant", "humanoid"):
        one, many = crowd(name, n)
        controls = np.random.default_rng(0).uniform(-0.4, 0.4, (n, one.nu)).astype(np.float32)
        apart = ms_per_step(one, n, controls, arguments.steps, arguments.repeats)
        together = ms_per_step(many, 1, controls.reshape(1, -1), arguments.steps, arguments.repeats)
        print(f"| {name} | {apart:.2f} | {together:.2f} | {together / apart:.2f} |")


if __name__ == "__main__":
    main()
