# SPDX-License-Identifier: Apache-2.0
"""Hit a ball that the arm does not touch: without and with derivatives before contact.

    python -m examples.hit_ball [out]            # writes out/hit_ball.png

A two-link arm on a table shall send a ball to a goal. The cost says nothing of the hand, and all torques are 0 at first.
While nothing touches the ball, derivatives of its motion with respect to the torques are 0: `ws.ilqr` without a
fallback ends at once, "untouched", and Adam stands still. With `ws.GradientFromDistance` both find the ball. So does
`ws.ilqr` by default, which falls back to samples (docs/optimisers.md).
"""

import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain

LINKS, RADIUS, MASS = (0.3, 0.25), 0.05, 0.2  # lengths of the arm [m], ball [m], [kg]
WORLDS, KNOTS, DT = 8, 100, 0.01
SEED = 200
# Ranges [m] and stiffnesses [N/m] of the derivatives, by turns; the last are exact.
OPTIONS = [*(ws.GradientFromDistance(d, k) for k in (10.0, 5.0, 2.0, 1.0, 0.5, 0.2) for d in (0.8, 1.2)), None]


def scene() -> ws.Model:
    """The arm, the ball and the table."""
    b = ws.ModelBuilder("hit_ball", timestep=DT)
    b.add_geom("plane", friction=0.5)
    parent, at = None, 0.0
    for name, length in zip(("upper", "lower"), LINKS, strict=True):
        b.add_body(name, parent=parent, pose=[at, 0, 0] if parent else [0, 0, RADIUS])
        b.add_joint(name, "hinge", axis=[0, 0, 1], name=f"{name}_joint", damping=0.1)
        along = [length / 2, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5), 0]
        b.add_geom("capsule", [0.02, length / 2], body=name, pose=along, density=1000.0)
        b.add_actuator(f"{name}_joint", control_range=(-2, 2))
        parent, at = name, length
    b.add_joint(b.add_body("ball", pose=[0.4, 0.2, RADIUS]), "free")
    b.add_geom("sphere", [RADIUS], body="ball", density=MASS / (4 / 3 * np.pi * RADIUS**3), friction=0.5)
    return b.build()


def hand(q: np.ndarray) -> np.ndarray:
    """The place of the arm's end `(..., 2)` [m]."""
    turns = q[..., 0], q[..., 0] + q[..., 1]
    return sum(length * np.stack([np.cos(a), np.sin(a)], -1) for length, a in zip(LINKS, turns, strict=True))


def starts(seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Initial positions `(worlds, nq)`, the hand 0.35 to 0.7 m from the ball, and goals of the ball `(worlds, 2)`."""
    rng, model = np.random.default_rng(seed), scene()
    q, goals = np.tile(model.q0, (WORLDS, 1)), np.zeros((WORLDS, 2))
    for w in range(WORLDS):
        while True:
            q[w, :2] = rng.uniform((-2.0, -1.5), (2.0, 1.5))
            angle, distance = rng.uniform(-0.5, 0.5), rng.uniform(0.35, 0.5)
            q[w, 2:4] = distance * np.cos(angle), distance * np.sin(angle)
            if 0.35 < np.linalg.norm(hand(q[w]) - q[w, 2:4]) - RADIUS < 0.7:
                break
        away = angle + rng.uniform(-0.5, 0.5)
        goals[w] = q[w, 2:4] + rng.uniform(0.1, 0.3) * np.array([np.cos(away), np.sin(away)])
    return q, goals


def simulator(option: ws.GradientFromDistance | None, **options) -> ws.Simulator:
    """The worlds, with derivatives before contact unless the option is None."""
    solver = ws.SAP(tolerance=1e-10)
    return ws.Simulator(
        scene(), WORLDS, dtype="float64", device="cpu", solver=solver, contact_gradient=option, **options
    )


def plan(q: np.ndarray, goals: np.ndarray, options, iterations: int = 12, fallback: str | None = None) -> np.ndarray:
    """Positions `(knots + 1, worlds, nq)` that `ws.ilqr` finds, each search from the controls of the one before."""
    cost = ws.Cost(lambda q, v, u: 0.02 * u, lambda q, v: 10.0 * (q[..., 2:4] - goals))
    found = np.zeros((KNOTS, WORLDS, 2))
    for option in options:
        sim = simulator(option)
        result = ws.ilqr(sim, sim.state(q), found, cost, iterations=iterations, fallback=fallback)
        found = result.controls
    return result.q


@wp.kernel
def squared_miss(
    q: wp.array3d(dtype=wp.float64), goals: wp.array2d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)
):
    w = wp.tid()
    for i in range(2):
        x = q[q.shape[0] - 1, w, 2 + i] - goals[w, i]
        loss[w] += x * x


def shoot(
    q: np.ndarray, goals: np.ndarray, option: ws.GradientFromDistance | None, iterations: int = 120, rate: float = 0.3
) -> np.ndarray:
    """Final positions `(worlds, nq)` of the best torques that Adam finds."""
    sim = simulator(option, requires_grad=True)
    target, losses = wp.array(goals, dtype=wp.float64, device=sim.device), []

    def loss(motion):
        total = wp.zeros(WORLDS, dtype=wp.float64, device=sim.device, requires_grad=True)
        wp.launch(squared_miss, dim=WORLDS, inputs=[motion.q, target, total], device=sim.device)
        losses.append((total, motion.q.numpy()[-1].copy()))
        return total

    objective = ws.Objective(sim, loss, {"controls": np.zeros((KNOTS, WORLDS, 2))}, fixed={"q": q})
    x, mean, square = objective.x0, 0.0, 0.0
    best, lowest = q, np.full(WORLDS, np.inf)
    for k in range(1, iterations + 1):
        _, slope = objective(x)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        x = np.clip(
            x - rate * (1 - k / iterations) * mean / (1 - 0.9**k) / (np.sqrt(square / (1 - 0.999**k)) + 1e-12),
            -2.0,
            2.0,
        )
        now = losses[-1][0].numpy()
        better = now < lowest
        best, lowest = np.where(better[:, None], losses[-1][1], best), np.where(better, now, lowest)
        losses.clear()
    return best


def report(name: str, q: np.ndarray, goals: np.ndarray, end: np.ndarray) -> int:
    """Print how far balls and goals are apart; the number of balls that moved."""
    moved = np.linalg.norm(end[:, 2:4] - q[:, 2:4], axis=-1) > 0.01
    miss = np.linalg.norm(end[:, 2:4] - goals, axis=-1)
    print(f"{name}: {moved.sum()} of {WORLDS} balls hit, misses [cm] {np.sort(100 * miss).round(1)}", flush=True)
    return int(moved.sum())


def plot(path_of_hand: np.ndarray, path_of_ball: np.ndarray, goals: np.ndarray, file: pathlib.Path) -> None:
    """What `ws.ilqr` found, from above."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(12, 6), layout="constrained")
    for w, axis in enumerate(figure.subplots(2, WORLDS // 2).flat):
        axis.plot(*path_of_hand[:, w].T, color="#8a919c", label="hand")
        axis.plot(*path_of_ball[:, w].T, color="#2f6fb0", linewidth=3, label="ball")
        axis.plot(*path_of_ball[0, w], "o", color="#2f6fb0", markersize=8)
        axis.plot(*goals[w], "x", color="#c4473a", markersize=9, label="goal")
        axis.plot(0, 0, "ks", label="shoulder")
        axis.set(aspect="equal", xlim=(-0.7, 0.8), ylim=(-0.7, 0.7))
    axis.legend(loc="lower left", fontsize=8)
    figure.savefig(file, dpi=100)


def main(out: pathlib.Path, seed: int = SEED) -> None:
    """Search with and without derivatives before contact, and draw what was found."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    q, goals = starts(seed)
    report("ws.ilqr, exact derivatives", q, goals, plan(q, goals, (None,))[-1])
    sampled = plan(q, goals, (None,), iterations=60, fallback="cem")
    report("ws.ilqr, samples where nothing is touched", q, goals, sampled[-1])
    found = plan(q, goals, OPTIONS)
    report("ws.ilqr, from a distance", q, goals, found[-1])
    report("Adam, exact derivatives", q, goals, shoot(q, goals, None, iterations=5))
    report("Adam, from a distance", q, goals, shoot(q, goals, ws.GradientFromDistance(0.8, 3.0)))
    out.mkdir(exist_ok=True)
    plot(hand(found), found[..., 2:4], goals, out / "hit_ball.png")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
