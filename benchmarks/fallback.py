# SPDX-License-Identifier: Apache-2.0
"""What `ws.ilqr` and `ws.shoot` find with and without a fallback where derivatives mislead.

    python -m benchmarks.fallback [--tasks push,arm,hop,shoot] [--seeds 10 11 12] [--methods none cem bundle]

Eight starts and goals by seed, all controls 0 at first. "push": a hand on a slider and a box on a table 0.1 to 0.3 m before it,
to be pushed 0.1 to 0.3 m. "arm": the arm and ball of `examples.hit_ball`. "hop": a leg on the ground that must carry its trunk
0.3 to 0.6 m away, which derivatives see, but only in part. "shoot": "push" by `ws.shoot`. Prints a row per seed and method:
how many end within 1 cm and 5 cm of their goals, the median cost, and CPU seconds (those of a first row with loading kernels).
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import warp as wp

import warpsim as ws
from examples import hit_ball

WORLDS = 8
ITERATIONS = 60


def push_scene() -> ws.Model:
    """A hand on a slider, and a box of 0.5 kg on a table."""
    b = ws.ModelBuilder("push_box", timestep=0.02)
    b.add_geom("plane", friction=0.4)
    b.add_joint(b.add_body("hand", pose=[0, 0, 0.06]), "slide", axis=[1, 0, 0], name="reach", damping=1.0)
    b.add_geom("sphere", [0.05], body="hand", density=2000.0)
    b.add_actuator("reach", control_range=(-10, 10))
    b.add_joint(b.add_body("box", pose=[0.3, 0, 0.05]), "free")
    b.add_geom("box", [0.05, 0.05, 0.05], body="box", density=500.0, friction=0.4)
    return b.build()


def push_starts(model: ws.Model, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions `(worlds, nq)`, and where the boxes are to end `(worlds, 1)`."""
    rng = np.random.default_rng(seed)
    q = np.tile(model.q0, (WORLDS, 1))
    q[:, 1] = 0.1 + rng.uniform(0.1, 0.3, WORLDS)
    return q, q[:, 1:2] + rng.uniform(0.1, 0.3, (WORLDS, 1))


def simulator(model: ws.Model, **options) -> ws.Simulator:
    """All tasks: float64, a tight solver."""
    return ws.Simulator(model, WORLDS, dtype="float64", device="cpu", solver=ws.SAP(tolerance=1e-10), **options)


def push(seed: int):
    """Simulator, first controls, cost, initial positions, and the misses of a motion q."""
    sim = simulator(push_scene())
    q, goal = push_starts(sim.model, seed)

    def terminal(q, v):
        return np.concatenate([10 * (q[..., 1:2] - goal), v[..., 1:2]], -1)

    cost = ws.Cost(lambda q, v, u: 0.01 * u, terminal)
    return sim, q, np.zeros((50, WORLDS, 1)), cost, lambda found: np.abs(found[-1, :, 1] - goal[:, 0])


def arm(seed: int):
    """The same of the arm and the ball."""
    q, goals = hit_ball.starts(seed)
    cost = ws.Cost(lambda q, v, u: 0.02 * u, lambda q, v: 10.0 * (q[..., 2:4] - goals))
    guess = np.zeros((hit_ball.KNOTS, WORLDS, 2))
    return hit_ball.simulator(None), q, guess, cost, lambda q: np.linalg.norm(q[-1, :, 2:4] - goals, axis=-1)


def hop(seed: int):
    """The same of the leg."""
    b = ws.ModelBuilder("hop", timestep=0.01)
    b.add_geom("plane", friction=0.8)
    b.add_body("trunk", pose=[0, 0, 0.5])
    b.add_joint("trunk", "slide", axis=[1, 0, 0], name="x")
    b.add_joint("trunk", "slide", axis=[0, 0, 1], name="z")
    b.add_joint("trunk", "hinge", axis=[0, 1, 0], name="pitch")
    b.add_geom("box", [0.1, 0.05, 0.05], body="trunk", density=1000.0)
    b.add_body("leg", parent="trunk", pose=[0, 0, -0.1])
    b.add_joint("leg", "hinge", axis=[0, 1, 0], name="hip", damping=0.1)
    b.add_joint("leg", "slide", axis=[0, 0, -1], name="knee", damping=1.0)
    b.add_geom("sphere", [0.04], body="leg", pose=[0, 0, -0.3], density=1000.0, friction=0.8)
    b.add_actuator("hip", control_range=(-10, 10))
    b.add_actuator("knee", control_range=(-60, 60))
    sim = simulator(b.build())
    rng = np.random.default_rng(seed)
    q = np.tile(sim.model.q0, (WORLDS, 1))
    q[:, 1] = rng.uniform(0.02, 0.1, WORLDS)
    goal = rng.uniform(0.3, 0.6, (WORLDS, 1))

    def terminal(q, v):
        return np.concatenate([10 * (q[..., :1] - goal), 3 * q[..., 1:3]], -1)

    cost = ws.Cost(lambda q, v, u: np.concatenate([0.005 * u, 0.1 * q[..., 1:3]], -1), terminal)
    return sim, q, np.zeros((60, WORLDS, 2)), cost, lambda q: np.abs(q[-1, :, 0] - goal[:, 0])


@wp.kernel
def squared_miss(q: wp.array3d(dtype=wp.float64), goal: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    w = wp.tid()
    x = q[q.shape[0] - 1, w, 1] - goal[w]
    loss[w] = x * x


def by_shooting(seed: int, method: str | None):
    """Misses, losses, and the result of `ws.shoot`."""
    sim = simulator(push_scene(), requires_grad=True)
    q, goals = push_starts(sim.model, seed)
    goal = wp.array(goals[:, 0], dtype=wp.float64, device="cpu")

    def loss(motion):
        found = wp.zeros(WORLDS, dtype=wp.float64, device="cpu", requires_grad=True)
        wp.launch(squared_miss, WORLDS, inputs=[motion.q, goal, found], device="cpu")
        return found

    first = {"controls": np.zeros((50, WORLDS, 1))}
    objective = ws.Objective(sim, loss, first, fixed={"q": q}, bounds={"controls": "model"})
    found = ws.shoot(objective, iterations=ITERATIONS, fallback=method)
    return np.sqrt(found.loss), found.loss, found


def by_ilqr(task: str, seed: int, method: str | None):
    """Misses, costs, and the plan of `ws.ilqr`."""
    sim, q, guess, cost, miss = {"push": push, "arm": arm, "hop": hop}[task](seed)
    plan = ws.ilqr(sim, sim.state(q), guess, cost, iterations=ITERATIONS, fallback=method)
    return miss(plan.q), plan.cost, plan


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="push,arm,hop,shoot")
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--methods", nargs="+", default=["none", "cem", "bundle"], choices=["none", "cem", "bundle"])
    arguments = parser.parse_args()
    print("| task | seed | fallback | within 1 cm, of 8 | within 5 cm | median cost | ended | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for task in arguments.tasks.split(","):
        for seed in arguments.seeds:
            for name in arguments.methods:
                begin, method = time.process_time(), None if name == "none" else name
                miss, cost, found = by_shooting(seed, method) if task == "shoot" else by_ilqr(task, seed, method)
                spent = time.process_time() - begin
                ended = ", ".join(f"{x} {n}" for x, n in zip(*np.unique(found.status, return_counts=True), strict=True))
                hits = f"{(miss < 0.01).sum()} | {(miss < 0.05).sum()}"
                print(
                    f"| {task} | {seed} | {name} | {hits} | {np.median(cost):.4g} | {ended} | {spent:.1f} |", flush=True
                )


if __name__ == "__main__":
    main()
