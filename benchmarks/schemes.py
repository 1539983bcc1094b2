# SPDX-License-Identifier: Apache-2.0
"""The time integrators side by side: cost of a step, energy and accuracy of the spring-cylinder, rebound of an impact.

    python -m benchmarks.schemes [--robot humanoid.xml] [--worlds 64] [--out benchmarks/results/schemes.md]

Cost: CPU time of the process per world-step (one thread), the integrators take turns, best of the repeats. The
spring-cylinder is that of Castro, Permenter and Han, §VI-B: energy in a band [low, high] of the start over ten periods at
h = 20 ms, and the L2 error of x over 5 s at h = 2.5 and 1.25 ms with the order between. docs/integrators.md explains the numbers.
"""

import argparse
import pathlib
import sys
import time

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import SpringCylinder
from warpsim.tools.bench import machine

SCHEMES = (ws.SymplecticEuler(), ws.ExplicitEuler(), ws.ImplicitEuler(), ws.Midpoint())
SETTLE, STEPS, REPEATS = 150, 50, 7


def cost(robot: str, worlds: int, dtype: str) -> list[float]:
    """CPU time of a world-step [µs] per scheme: `robot` on the ground under constant random controls."""
    model = ws.load(robot)
    runs = []
    for scheme in SCHEMES:
        sim = ws.Simulator(model, worlds=worlds, dtype=dtype, device="cpu", integrator=scheme)
        control = np.random.default_rng(0).uniform(-0.4, 0.4, size=(worlds, model.nu)).astype(dtype)
        control = wp.array(control, device="cpu")
        state = sim.state()
        for _ in range(SETTLE):
            sim.step(state, control, out=state)
        runs.append((sim, control, state))
    best = [np.inf] * len(runs)
    for _ in range(REPEATS):
        for i, (sim, control, start) in enumerate(runs):
            state = start.clone()
            begin = time.process_time()
            for _ in range(STEPS):
                sim.step(state, control, out=state)
            best[i] = min(best[i], time.process_time() - begin)
    return [1e6 * seconds / (STEPS * worlds) for seconds in best]


def cylinder(scheme, mu: float, h: float, seconds: float) -> tuple[np.ndarray, float]:
    """Energy relative to the start (rows,), and the error of x [m]."""
    scene = SpringCylinder(mu)
    options = {"integrator": scheme, "solver": ws.SAP(approximation="convex", tolerance=1e-12)}
    sim = ws.Simulator(scene.model(), dt=h, dtype="float64", device="cpu", **options)
    run = sim.rollout(sim.state(scene.at_rest), steps=round(seconds / h))
    q, v, t = run.q.numpy()[:, 0], run.v.numpy()[:, 0], run.time.numpy()[:, 0]
    energy = scene.energy(q, v)
    return energy / energy[0], scene.error(q, t)


def rebound(scheme, h: float = 0.01) -> float:
    """Speed after the impact of a near-rigid ball dropped from 1 m, by that before."""
    b = ws.ModelBuilder("drop")
    b.add_geom("plane")
    b.add_body("ball", pose=[0.0, 0.0, 1.1])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball")
    sim = ws.Simulator(b.build(), dt=h, integrator=scheme, dtype="float64", device="cpu")
    v = sim.rollout(sim.state(), steps=round(0.6 / h)).v.numpy()[:, 0, 2]
    return float(v.max() / -v.min())


def report(robot: str, worlds: int) -> list[str]:
    """The table as Markdown lines."""
    single, double = cost(robot, worlds, "float32"), cost(robot, worlds, "float64")
    head = "| | " + " | ".join(type(scheme).__name__ for scheme in SCHEMES) + " |"
    rows = {
        "float32: µs per world-step (of symplectic Euler)": [f"{x:.1f} ({x / single[0]:.2f})" for x in single],
        "float64: µs per world-step (of symplectic Euler)": [f"{x:.1f} ({x / double[0]:.2f})" for x in double],
    }
    for mu in (0.0, 1.0):
        period = 2.0 * np.pi / SpringCylinder(mu).frequency
        energies = [cylinder(scheme, mu, 0.02, 10.0 * period)[0] for scheme in SCHEMES]
        errors = [[cylinder(scheme, mu, h, 5.0)[1] for h in (2.5e-3, 1.25e-3)] for scheme in SCHEMES]
        rows[f"mu = {mu:g}: energy band, 10 periods, h = 20 ms"] = [f"{E.min():.4g} … {E.max():.6g}" for E in energies]
        rows[f"mu = {mu:g}: error of x [m] at 1.25 ms, order"] = [
            f"{fine:.1e}, {np.log2(coarse / fine):.2f}" for coarse, fine in errors
        ]
    rows["rebound of an impact, near-rigid, h = 10 ms"] = [f"{rebound(scheme):.3f}" for scheme in SCHEMES]
    host = machine(wp.get_device("cpu"))
    where = f"{host['processor']}, {host['cores']} cores, {host['date']}"
    lines = [
        f"Steps of {pathlib.Path(robot).stem}, {worlds} worlds, one thread; {where}.",
        "",
        head,
        "|---" * (len(SCHEMES) + 1) + "|",
    ]
    return lines + [f"| {what} | " + " | ".join(cells) + " |" for what, cells in rows.items()]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", help="default: the humanoid of the gymnasium package")
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--out", type=pathlib.Path, help="also write the table to this Markdown file")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    robot = arguments.robot
    if robot is None:
        import gymnasium

        robot = str(pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "humanoid.xml")
    lines = report(robot, arguments.worlds)
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
