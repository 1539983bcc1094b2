"""The clutter of the SAP paper, §VI-C: does it settle, how deep, how much slip, how many iterations, how fast.

    python benchmarks/clutter.py [--bodies 8 20 40 80] [--seconds 10] [--worlds 1]

Reference values (an independent SAP implementation, 10 s, h = 10 ms): docs/clutter.md. With pydrake installed the same
scenes are timed side by side (--drake).
"""

import argparse
import pathlib
import sys
import time

import numpy as np
import warp as wp

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
from example_scenes import clutter

import warpsim as ws


def slip_and_depth(sim, h: float) -> tuple[float, float]:
    """Mean tangential speed [m/s] over the contacts of world 0 and the deepest penetration [m]."""
    solver, count = sim._step.solver, int(sim.diagnostics.contacts.numpy()[0])
    if count == 0:
        return 0.0, 0.0
    v_c = solver.work.u_c.numpy()[0, :count, :2]  # v_hat has no tangential part
    phi = sim._step.collision.contacts.phi.numpy()[0, :count]
    return float(np.linalg.norm(v_c, axis=1).mean()), float(max(0.0, -phi.min()))


def run(bodies: int, walls: bool, shapes: str, seconds: float, worlds: int, dtype: str, h: float = 0.01) -> dict:
    """One scene; the times are of `sim.step` alone, after compilation."""
    sim = ws.Simulator(clutter(bodies, walls=walls, shapes=shapes, h=h), worlds, dt=h, dtype=dtype, device="cpu")
    state = sim.state()
    warm = sim.step(state)
    del warm
    steps = round(seconds / h)
    iterations, errors, spent = [], [], 0.0
    for _ in range(steps):
        begin = time.process_time()
        sim.step(state, out=state)
        spent += time.process_time() - begin
        iterations.append(float(sim.diagnostics.iterations.numpy().mean()))
        errors.append(float(sim.diagnostics.momentum_error.numpy().max()))
    slip, depth = slip_and_depth(sim, h)
    return {
        "bodies": bodies,
        "contacts": int(sim.diagnostics.contacts.numpy()[0]),
        "ms/step": 1e3 * spent / steps / worlds,
        "iterations": np.mean(iterations),
        "iterations, last half": np.mean(iterations[steps // 2 :]),
        "depth": depth,
        "slip": slip,
        "e_m": max(errors),
        "flags": int(sim.diagnostics.flags.numpy().max()),
        "finite": bool(np.isfinite(state.q.numpy()).all()),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, nargs="+", default=[8, 20, 40, 80])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--worlds", type=int, default=1)
    parser.add_argument("--dtype", default="float64")
    arguments = parser.parse_args()
    wp.config.quiet = True
    header = None
    for shapes, walls in (("spheres", True), ("spheres", False), ("mixed", True), ("mixed", False)):
        for bodies in arguments.bodies:
            row = run(bodies, walls, shapes, arguments.seconds, arguments.worlds, arguments.dtype)
            if header is None:
                header = ["scene", *row]
                print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
            values = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()]
            print("| " + " | ".join([f"{shapes}, {'walls' if walls else 'open'}", *values]) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
