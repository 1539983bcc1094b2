# SPDX-License-Identifier: Apache-2.0
"""What a backward pass costs per integrator, contact law and robot, beside another checkout of the project.

    python -m benchmarks.backward [--beside CHECKOUT] [--robots ant humanoid] [--schemes midpoint.convex …] [--rounds 8]

Ten taped steps after forty, 64 worlds, float32, random controls: microseconds of CPU time per step and world of the backward
pass and of the taped forward pass, the least of four passes a round. Each checkout is a process of its own; they take turns
round by round, so that a load on the machine meets both. A law that a checkout has no gradients of is left out there. The table
has the medians over the rounds; the ratio is the median of the ratios of each round.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parent.parent
INTEGRATORS = {
    "symplectic": "SymplecticEuler",
    "implicit": "ImplicitEuler",
    "midpoint": "Midpoint",
    "variational": "Variational",
}
SCHEMES = [f"{name}.{law}" for name in INTEGRATORS for law in ("convex", "lagged")]
WORLDS, SETTLE_STEPS, STEPS, PASSES = 64, 40, 10, 4


def solver(ws, law: str):
    """SAP with a law; the versions before Coulomb's law was the default take no other with gradients."""
    try:
        return ws.SAP(approximation=law)
    except TypeError:
        if law == "convex":
            return ws.SAP()
        raise


class Rollout:
    """Worlds of a robot that take ten taped steps from one state again and again."""

    def __init__(self, ws, wp, robot: str, scheme: str):
        import numpy as np

        from warpsim.tools.demo import robot_path

        self.wp = wp
        name, law = scheme.split(".")
        model = ws.load(robot_path(robot))
        options = {"integrator": getattr(ws, INTEGRATORS[name])(), "solver": solver(ws, law), "requires_grad": True}
        self.sim = ws.Simulator(model, worlds=WORLDS, **options)
        size = (SETTLE_STEPS + STEPS, WORLDS, model.nu)
        self.controls = np.random.default_rng(0).uniform(-1, 1, size).astype("float32")
        state = self.sim.state()
        for control in self.controls[:SETTLE_STEPS]:
            state = self.sim.step(state, control)
        self.start = state.q.numpy(), state.v.numpy()
        for _ in range(3):
            self.seconds()  # compiles and captures

    def seconds(self) -> tuple[float, float]:
        """CPU seconds of a backward pass and of the forward pass before it."""
        state = self.sim.state(*self.start)
        times = [time.process_time()]
        with self.wp.Tape() as tape:
            for control in self.controls[SETTLE_STEPS:]:
                state = self.sim.step(state, control)
        times.append(time.process_time())
        seed = self.wp.ones_like(state.q)
        tape.backward(grads={state.q: seed})
        times.append(time.process_time())
        tape.zero()
        return times[2] - times[1], times[1] - times[0]


def serve(robot: str, schemes: list[str]) -> None:
    """Answer each scheme that is read with µs per step and world, backward and forward, or with nothing."""
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    import warpsim as ws

    rollouts = {}
    for scheme in schemes:
        try:
            rollouts[scheme] = Rollout(ws, wp, robot, scheme)
        except (TypeError, ValueError):
            continue
    print("ready", flush=True)
    for line in sys.stdin:
        rollout = rollouts.get(line.strip())
        passes = [] if rollout is None else [rollout.seconds() for _ in range(PASSES)]
        print(*(1e6 * min(x) / (STEPS * WORLDS) for x in zip(*passes, strict=True)), flush=True)


class Server:
    """`serve` in a process of its own, with the library of a checkout."""

    def __init__(self, checkout: pathlib.Path, robot: str, schemes: list[str]):
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--serve", robot, "--schemes", *schemes]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, env=environment, cwd=checkout, **pipes)
        while (line := self.process.stdout.readline()).strip() != "ready":
            if not line:
                raise RuntimeError(f"{checkout}: no measurement of {robot}; run {' '.join(command)} to see why")

    def ask(self, scheme: str) -> list[float]:
        self.process.stdin.write(scheme + "\n")
        self.process.stdin.flush()
        return [float(x) for x in self.process.stdout.readline().split()]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(robot: str, schemes: list[str], beside: pathlib.Path | None, rounds: int) -> None:
    """Print the rows of a robot."""
    servers = [Server(checkout, robot, schemes) for checkout in [beside, ROOT] if checkout is not None]
    found = {scheme: [[server.ask(scheme) for server in servers] for _ in range(rounds)] for scheme in schemes}
    for server in servers:
        server.close()
    for scheme, rows in found.items():
        answers = list(zip(*rows, strict=True))
        cells = []
        for answer in answers:
            known = [x for x in answer if x]
            cells += [f"{statistics.median(x[k] for x in known):.1f}" if known else "" for k in (0, 1)]
        if len(answers) == 2:
            both = [(a, b) for a, b in zip(*answers, strict=True) if a and b]
            cells.append(f"{statistics.median(b[0] / a[0] for a, b in both):.2f}" if both else "")
        print(f"| {robot} | {scheme.replace('.', ' | ')} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=pathlib.Path, help="a checkout of another commit")
    parser.add_argument("--robots", nargs="+", default=["ant", "humanoid"])
    parser.add_argument("--schemes", nargs="+", default=SCHEMES)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.schemes)
        return 0
    names = ["beside: backward", "forward"] * (arguments.beside is not None) + ["backward", "forward"]
    names += ["ratio"] * (arguments.beside is not None)
    print(f"| robot | integrator | law | {' | '.join(names)} |\n|{'---|' * (3 + len(names))}", flush=True)
    for robot in arguments.robots:
        compare(robot, arguments.schemes, arguments.beside, arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
