# SPDX-License-Identifier: Apache-2.0
"""`ws.ilqr` and `ws.mppi` on two tasks of the field: a half-cheetah's sprint and the swing-up of a pole.

    python -m benchmarks.optimisers [--parts cheetah,swing_up] [--solver default] [--seeds 5] [--starts 64] [--out benchmarks/results]

"cheetah": gymnasium's half_cheetah.xml from rest, 60 knots of 10 ms (the file's step), minimise Σ 0.1 |u|² - forward speed, the first
controls normal with 0.1 (by seed). Success: after 40 iterations, within 2 s of wall time with warm kernels, the cost is within 5 % of
that after 400.
"swing_up": `ws.robots.path("cartpole")` from 64 starts (by seed) around hanging: cart within 0.5 m, pole within 0.5 rad, speeds
within 0.5; 5 s in receding horizon. Success of a start: the pole is within 0.2 rad of upright for all of the last second.
Settings were chosen on seed 0; the seeds here are 1, 2, ... `--solver`: "convex" is SAP(approximation="convex"),
"lagged" SAP(approximation="lagged"), "default" the simulator's own.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from scenes.examples import asset
from warpsim.tools.bench import machine

SOLVERS = {
    "convex": lambda: ws.SAP(approximation="convex"),
    "lagged": lambda: ws.SAP(approximation="lagged"),
    "default": lambda: None,
}
KNOTS, FEW, MANY = 60, 40, 400  # of the sprint: knots, and iterations
SECONDS, NEAR = 2.0, 0.05
SWING, UPRIGHT = 5.0, 0.2  # [s], [rad]


def sprint(solver: str, seed: int) -> dict:
    """Costs after few and after many iterations, and the time that the few took."""
    model = ws.load(asset("half_cheetah"))
    sim = ws.Simulator(model, dt=0.01, dtype="float64", device="cpu", solver=SOLVERS[solver]())
    cost = ws.Cost(lambda q, v, u: (np.sqrt(0.2) * u, -v[..., 0]))
    controls = 0.1 * np.random.default_rng(seed).normal(size=(KNOTS, 1, model.nu))
    state = sim.state()
    ws.ilqr(sim, state, controls, cost, iterations=2)  # warm
    wall, cpu = time.perf_counter(), time.process_time()
    few = ws.ilqr(sim, state, controls, cost, iterations=FEW, tolerance=0.0)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    many = ws.ilqr(sim, state, controls, cost, iterations=MANY, tolerance=0.0)
    found = {
        "seed": seed,
        "first": few.history[0, 0],
        "few": few.cost[0],
        "many": many.cost[0],
        "wall": wall,
        "cpu": cpu,
    }
    found["speed"] = (few.q[-1, 0, 0] - few.q[0, 0, 0]) / (KNOTS * sim.dt)
    within = np.flatnonzero(few.history[:, 0] <= many.cost[0] + NEAR * abs(many.cost[0]))
    found["needed"] = int(within[0]) if len(within) else None
    found["success"] = bool(len(within) and wall <= SECONDS)
    return found


def starts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities `(count, 2)` around hanging."""
    rng = np.random.default_rng(seed)
    return np.array([0.0, np.pi]) + rng.uniform(-0.5, 0.5, (count, 2)), rng.uniform(-0.5, 0.5, (count, 2))


def by_sampling(sim: ws.Simulator, seed: int) -> ws.MPC:
    """MPPI: 64 samples over 1 s, a plan every 80 ms; cost ½ ‖(1 - cos, 0.3 x, 0.1 v, 0.1 u)‖², three times that at the end."""

    def end(q, v):
        return np.stack([1 - np.cos(q[..., 1]), 0.3 * q[..., 0], 0.1 * v[..., 0], 0.1 * v[..., 1]], axis=-1)

    cost = ws.Cost(lambda q, v, u: np.concatenate([end(q, v), 0.1 * u], axis=-1), lambda q, v: 3.0 * end(q, v))
    options = {"samples": 64, "temperature": 0.1, "noise": 0.5, "correlation": 0.8}

    def plan(state, controls, step):
        return ws.mppi(sim, state, controls, cost, seed=(seed, step), **options)

    return ws.MPC(plan, np.zeros((50, sim.worlds, 1)), every=4)


def by_gradients(sim: ws.Simulator, seed: int) -> ws.MPC:
    """iLQR: two iterations over 2 s (30 at first), a plan every 80 ms; cost h ½ ‖(0.1 θ, 0.3 x, 0.1 v, 0.3 u)‖² and
    ½ ‖3 (θ, 0.3 x, 0.3 v)‖² at the end."""

    def running(q, v, u):
        return np.sqrt(0.04) * np.concatenate([q * [0.3, 0.1], 0.1 * v, 0.3 * u], axis=-1)

    cost = ws.Cost(running, lambda q, v: 3.0 * np.concatenate([q * [0.3, 1.0], 0.3 * v], axis=-1))

    def plan(state, controls, step):
        return ws.ilqr(sim, state, controls, cost, iterations=2 if step else 30)

    return ws.MPC(plan, np.zeros((50, sim.worlds, 1)), every=2)


# name -> policy, step [s], dtype, starts of 64 that are to succeed
METHODS = {"mppi": (by_sampling, 0.02, "float32", 61), "ilqr": (by_gradients, 0.04, "float64", 60)}


def swing_up(method: str, solver: str, count: int, seed: int) -> dict:
    """How many starts end upright, and the time it took."""
    make, dt, dtype, _ = METHODS[method]
    model = ws.load(ws.robots.path("cartpole"))
    sim = ws.Simulator(model, count, dt=dt, dtype=dtype, device="cpu", solver=SOLVERS[solver]())
    begin = time.perf_counter()
    motion = sim.rollout(sim.state(*starts(count, seed)), make(sim, seed), steps=round(SWING / dt))
    angle = np.abs(np.angle(np.exp(1j * motion.q.numpy()[-round(1 / dt) - 1 :, :, 1]))).max(axis=0)
    return {"seed": seed, "upright": int((angle < UPRIGHT).sum()), "starts": count, "wall": time.perf_counter() - begin}


def report(parts: list[str], solver: str, seeds: int, count: int) -> list[str]:
    """The tables as Markdown lines."""
    lines = []
    if "cheetah" in parts:
        lines += [
            f"Half-cheetah, 60 knots of 10 ms, {FEW} iterations of iLQR (solver: {solver}); needed: iterations to within 5 % of the last column",
            "",
            f"| seed | first cost | cost | mean speed m/s | wall s | CPU s | needed | cost after {MANY} | success |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        rows = [sprint(solver, seed) for seed in range(1, seeds + 1)]
        for r in rows:
            lines.append(
                f"| {r['seed']} | {r['first']:.1f} | {r['few']:.2f} | {r['speed']:.2f} | {r['wall']:.2f} | {r['cpu']:.2f} | {r['needed']} | "
                f"{r['many']:.2f} | {'yes' if r['success'] else 'no'} |"
            )
            print(r, flush=True)
        middle = [np.median([r[name] for r in rows]) for name in ("first", "few", "speed", "wall", "cpu")]
        needed = np.median([MANY if r["needed"] is None else r["needed"] for r in rows])
        wins = sum(r["success"] for r in rows)
        lines.append("| median | " + " | ".join(f"{x:.2f}" for x in middle) + f" | {needed:.0f} | {np.median([r['many'] for r in rows]):.2f} | {wins} of {seeds} |")  # fmt: skip
        lines.append("")
    if "swing_up" in parts:
        lines += [
            f"Cart-pole, {count} starts around hanging, 5 s in receding horizon (solver: {solver}); starts upright for the last second",
            "",
            "| method | by seed | median | wanted | median wall s |",
            "|---|---|---|---|---|",
        ]
        for method, (_, _, _, wanted) in METHODS.items():
            rows = []
            for seed in range(1, seeds + 1):
                rows.append(swing_up(method, solver, count, seed))
                print(method, rows[-1], flush=True)
            found, wall = [r["upright"] for r in rows], np.median([r["wall"] for r in rows])
            lines.append(
                f"| {method} | {', '.join(map(str, found))} | {np.median(found):.0f} | {-(-wanted * count // 64)} of {count} | {wall:.0f} |"
            )
        lines.append("")
    m = machine(wp.get_device("cpu"))
    versions = f"warp-lang {m['versions']['warp-lang']}, numpy {m['versions']['numpy']}"
    return [*lines, f"{m['date']}, {m['processor']}, {m['cores']} cores (shared); {versions}"]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="cheetah,swing_up")
    parser.add_argument("--solver", choices=SOLVERS, default="default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=64)
    parser.add_argument("--out", type=pathlib.Path, help="folder for optimisers.md")
    arguments = parser.parse_args()
    text = "\n".join(report(arguments.parts.split(","), arguments.solver, arguments.seeds, arguments.starts)) + "\n"
    print(text)
    if arguments.out:
        (arguments.out / "optimisers.md").write_text(text)


if __name__ == "__main__":
    main()
