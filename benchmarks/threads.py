# SPDX-License-Identifier: Apache-2.0
"""What further threads of the CPU make of a step, and of a backward pass: wall time beside that of one thread.

    python -m benchmarks.threads [--robots ant humanoid] [--worlds 64 256 1024] [--threads 2] [--rounds 21] [--gradients]

Robots on the ground under random controls, float32, `ws.SAP()`; --gradients: ten taped steps and their backward pass. One
simulator per number of threads; they take turns round by round. The table has medians over the rounds, of the wall times and of
their ratios in each round. Other processes take cores from the threads: the load of the machine stands beside, and the CPU time of all threads by
that of one, which the load does not change much: n threads by it are what the ratio can be on n free cores.
"""

import argparse
import os
import statistics
import time

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.tools.demo import robot_path

SETTLE_STEPS, TAPED_STEPS = 200, 10
WORLD_STEPS = 20_000  # of a timing


class Run:
    """Worlds of a robot on the ground, which are stepped, or taped, from one state again and again."""

    def __init__(self, model: ws.Model, worlds: int, threads: int, gradients: bool):
        options = {"device": "cpu", "requires_grad": gradients, "threads": threads}
        self.sim, self.gradients = ws.Simulator(model, worlds, **options), gradients
        control = np.random.default_rng(0).uniform(-0.4, 0.4, size=(worlds, model.nu))
        self.control = wp.array(control, dtype=wp.float32, device="cpu")
        self.start = self.sim.state()
        for _ in range(SETTLE_STEPS):
            self.sim.step(self.start, self.control, out=self.start)
        self.steps = TAPED_STEPS if gradients else max(4, WORLD_STEPS // worlds)
        self.state = self.start.clone()
        for _ in range(3):
            self.seconds()

    def seconds(self) -> tuple[float, float]:
        """Wall time and CPU time per step [s]."""
        self.state.assign(self.start)
        begin = time.perf_counter(), time.process_time()
        if self.gradients:
            self._taped()
        else:
            for _ in range(self.steps):
                self.sim.step(self.state, self.control, out=self.state)
        end = time.perf_counter(), time.process_time()
        return tuple((b - a) / self.steps for a, b in zip(begin, end, strict=True))

    def _taped(self) -> None:
        state = self.state
        with wp.Tape() as tape:
            for _ in range(self.steps):
                state = self.sim.step(state, self.control)
        tape.backward(grads={state.q: wp.full_like(state.q, 1.0)})


def row(robot: str, worlds: int, threads: int, rounds: int, gradients: bool) -> str:
    model = ws.load(robot_path(robot))
    runs = [Run(model, worlds, n, gradients) for n in (1, threads)]
    times = [[run.seconds() for run in runs] for _ in range(rounds)]
    one, several = (1e3 * statistics.median(wall for wall, _ in column) for column in zip(*times, strict=True))
    ratio, cpu = (statistics.median(a[i] / b[i] for a, b in times) for i in range(2))
    cells = [
        robot,
        worlds,
        f"{one:.2f}",
        f"{several:.2f}",
        f"{ratio:.2f}",
        f"{1 / cpu:.3f}",
        f"{os.getloadavg()[0]:.1f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["ant", "humanoid"])
    parser.add_argument("--worlds", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--gradients", action="store_true")
    a = parser.parse_args()
    print(f"| robot | worlds | ms per step, 1 thread | {a.threads} threads | ratio | CPU time | load |")
    print("|---|---|---|---|---|---|---|")
    for robot in a.robots:
        for worlds in a.worlds:
            print(row(robot, worlds, a.threads, a.rounds, a.gradients), flush=True)


if __name__ == "__main__":
    main()
