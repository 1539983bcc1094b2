# SPDX-License-Identifier: Apache-2.0
"""Steps per second on a GPU, and how long each kernel of a step takes there.

    python -m benchmarks.gpu.measure [--robot humanoid] [--contact lagged|convex|mujoco] [--worlds 8192] [--device cuda:0] [--steps 40] [--substeps 1]
                                     [--branches 1]

64 start states, to which random controls have brought the robot in 300 steps, are repeated over all worlds, so that robots fall and struggle;
eight sets of random controls take turns. On a CPU there are no times of kernels. `--branches 2`: a graph steps the halves of the worlds side by side.
"""

import argparse
import statistics
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from benchmarks.gpu import robots
from benchmarks.gpu.trace import unreplayed

STARTS, BEFORE, WARM, ROUNDS, TIMED = 64, 300, 40, 3, 6


def started(robot: str, contact: str, worlds: int, device: str) -> tuple[ws.Simulator, ws.State, list]:
    """A simulator on the device, its state, and its controls."""
    few = robots.simulator(robot, contact, STARTS, "float32", device)
    state, _ = robots.settled(few, BEFORE)
    sim = ws.Simulator(few.model, worlds, solver=robots.CONTACT[contact](), dtype="float32", device=device)
    which = np.arange(worlds) % STARTS
    controls = robots.random_controls(sim, np.random.default_rng(0), 8)
    return sim, sim.state(q=state.q.numpy()[which], v=state.v.numpy()[which]), controls


def step_times(sim: ws.Simulator, state: ws.State, controls: list, steps: int, substeps: int = 1) -> list[float]:
    """Seconds per step of `substeps`, one number per round."""

    def run(count: int) -> None:
        for k in range(count):
            sim.step(state, controls[k % 8], substeps=substeps, out=state)
        wp.synchronize_device(sim.device)

    run(WARM)
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run(steps)
        found.append((time.perf_counter() - begin) / steps)
    return found


def kernel_times(sim: ws.Simulator, state: ws.State, controls: list) -> dict[str, list[float]]:
    """Microseconds of each kernel in some steps, launched one by one."""
    with unreplayed(sim):
        sim.step(state, controls[0], out=state)
        wp.timing_begin(cuda_filter=wp.TIMING_KERNEL)
        for k in range(TIMED):
            sim.step(state, controls[k % 8], out=state)
        results = wp.timing_end()
    found: dict[str, list[float]] = {}
    for result in results:
        name = result.name.split()[-1].rsplit("_", 1)[0]
        found.setdefault(name, []).append(1e3 * result.elapsed)
    return found


def main(argv=None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", choices=list(robots.ROBOTS), default="humanoid")
    parser.add_argument("--contact", choices=list(robots.CONTACT), default="lagged")
    parser.add_argument("--worlds", type=int, default=8192)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    parser.add_argument(
        "--substeps", type=int, default=1, help="of a step, in one graph; a step is as many times as long"
    )
    parser.add_argument("--branches", type=int, default=1, help="parts of the worlds that a graph steps side by side")
    arguments = parser.parse_args(argv)
    wp.config.log_level = wp.LOG_WARNING
    sim, state, controls = started(arguments.robot, arguments.contact, arguments.worlds, arguments.device)
    sim.dt *= arguments.substeps
    if arguments.branches > 1:
        sim._stepper.replay.branch(arguments.branches)
    rounds = step_times(sim, state, controls, arguments.steps, arguments.substeps)
    median, seen = statistics.median(rounds), sim.diagnostics.numpy()
    print(f"{sim.device.name}: {arguments.robot}, {arguments.contact}, {arguments.worlds} worlds: ", end="")
    print(
        f"{arguments.worlds * arguments.substeps / median / 1e6:.2f} M steps/s, {1e6 * min(rounds):.0f} .. {1e6 * max(rounds):.0f} µs a step"
    )
    print(f"iterations {seen['iterations'].mean():.2f}, at most {seen['iterations'].max()}; ", end="")
    print(f"contacts {seen['contacts'].mean():.1f}; worlds with a flag {np.count_nonzero(seen['flags'])}")
    if sim.device.is_cuda:
        for name, times in sorted(kernel_times(sim, state, controls).items(), key=lambda x: -statistics.median(x[1])):
            print(f"  {name:24s} {statistics.median(times):8.0f} µs, at most {max(times):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
