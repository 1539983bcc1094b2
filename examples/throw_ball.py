# SPDX-License-Identifier: Apache-2.0
"""Throw balls at a target through a bounce: sixteen throwers around it, every ball is to be there at the same moment.

    python -m examples.throw_ball [out]            # writes out/throw_ball.png and out/throw_ball.usd

Unknown are velocity and spin of each throw. Gauss-Newton steps in all worlds at once: three backward passes give the
derivative of the place after 0.8 s, through flight, bounce and friction on the floor.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain

THROWERS, NEAR, FAR, LOW, HIGH = 16, 2.0, 4.0, 0.8, 1.2  # they stand so far away and let go so high [m]
TARGET = np.array([0.0, 0.0, 0.5])
DT, STEPS = 0.001, 800
RADIUS, MASS = 0.15, 0.2
# A soft ball: a bounce takes 60 steps, π sqrt(m/k). In a bounce of few steps the end of the flight depends on where
# within a step the ball touches, and the exact gradient of that is of no use (docs/gradients_contact.md).
STIFFNESS = MASS * (np.pi / (60 * DT)) ** 2
DAMPING = 0.1  # of a Gauss-Newton step at first [m² per (m/s)²]; by world ÷ 5 after a success, × 5 after a failure


def scene() -> ws.Model:
    """A ball, a floor, and a target that touches nothing."""
    b = ws.ModelBuilder("throw", timestep=DT)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1))
    b.add_geom("sphere", [0.12], pose=TARGET, name="target", contype=0, conaffinity=0, rgba=(0.86, 0.27, 0.24, 0.5))
    b.add_joint(b.add_body("ball", pose=[FAR, 0, HIGH]), "free")
    density = MASS / (4 / 3 * np.pi * RADIUS**3)
    material = {"stiffness": STIFFNESS, "dissipation_time": 0.0, "friction": 0.5}
    b.add_geom("sphere", [RADIUS], body="ball", density=density, rgba=(0.25, 0.5, 0.85, 1), **material)
    return b.build()


def first_throws(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Starts `(throwers, 7)` around the target, and nearly flat throws `(throwers, 6)` towards it that fall short.

    A little upwards: a throw that is flat or downwards bounces so early that its height at the end hardly depends on it.
    """
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(THROWERS) / THROWERS
    distance, height = rng.uniform(NEAR, FAR, THROWERS), rng.uniform(LOW, HIGH, THROWERS)
    q = np.zeros((THROWERS, 7))
    q[:, 0], q[:, 1], q[:, 2], q[:, 3] = distance * np.cos(angle), distance * np.sin(angle), height, 1.0
    v = np.zeros((THROWERS, 6))
    v[:, :2], v[:, 2] = -0.8 * q[:, :2] / (STEPS * DT), 0.5
    return q, v


def miss(sim: ws.Simulator, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Where each ball ends, from the target `(throwers, 3)` [m]."""
    return sim.rollout(sim.state(q, v), steps=STEPS, every=STEPS).q.numpy()[-1, :, :3] - TARGET


def miss_and_derivative(sim: ws.Simulator, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The miss and its derivative with respect to v `(throwers, 3, 6)`: one backward pass per coordinate."""
    start = sim.state(q, v)
    with wp.Tape() as tape:
        flight = sim.rollout(start, steps=STEPS, every=STEPS)
    rows = []
    for coordinate in range(3):
        seed = np.zeros(flight.q.shape)
        seed[-1, :, coordinate] = 1.0
        start.v.grad.zero_()
        tape.backward(grads={flight.q: wp.array(seed, dtype=wp.float64, device=sim.device)})
        rows.append(start.v.grad.numpy().copy())
    return flight.q.numpy()[-1, :, :3] - TARGET, np.stack(rows, axis=1)


def learn(iterations: int = 12, seed: int = 0):
    """Miss distances [m] `(iterations + 1, throwers)`, and the flights of the first and of the best throws."""
    q, v = first_throws(seed)
    sim = ws.Simulator(scene(), THROWERS, dtype="float64", device="cpu", requires_grad=True)
    damping = np.full(THROWERS, DAMPING)
    first, history = v, []
    for _ in range(iterations):
        r, J = miss_and_derivative(sim, q, v)
        history.append(np.linalg.norm(r, axis=1))
        # The shortest step: dv = -J^T (J J^T + damping I)^-1 r.
        A = J @ J.transpose(0, 2, 1) + damping[:, None, None] * np.eye(3)
        trial = v - (J.transpose(0, 2, 1) @ np.linalg.solve(A, r[..., None]))[..., 0]
        better = np.linalg.norm(miss(sim, q, trial), axis=1) < history[-1]
        v = np.where(better[:, None], trial, v)
        damping *= np.where(better, 0.2, 5.0)
    history.append(np.linalg.norm(miss(sim, q, v), axis=1))
    flights = [sim.rollout(sim.state(q, x), steps=STEPS, every=5) for x in (first, v)]
    return np.array(history), flights


def plot(history: np.ndarray, flights, path) -> None:
    """Flights before and after, seen from the side, and the misses by iteration."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, flight, title in zip(
        axes, flights, ("first throws", f"after {len(history) - 1} iterations"), strict=False
    ):
        q = flight.q.numpy()
        along = (q[..., :2] * q[:1, :, :2]).sum(2) / np.linalg.norm(q[:1, :, :2], axis=2)
        axis.plot(along, q[..., 2])
        axis.plot(0, TARGET[2], "o", color="#c4473a", markersize=9, label="target")
        axis.set(title=title, xlabel="distance along the throw [m]", ylabel="height [m]")
        axis.legend()
    axes[2].semilogy(history, color="#8a919c", linewidth=0.8)
    axes[2].semilogy(np.median(history, axis=1), color="#2f6fb0", linewidth=2, label="median")
    axes[2].set(title="miss", xlabel="iteration", ylabel="distance from the target [m]")
    axes[2].legend()
    figure.savefig(path, dpi=120)


def main(out: pathlib.Path) -> None:
    """Learn, and write the plot and the USD stage."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    history, flights = learn()
    print(f"worst miss: {history[0].max():.2f} m at first, {1000 * history[-1].max():.1g} mm at last")
    out.mkdir(exist_ok=True)
    plot(history, flights, out / "throw_ball.png")
    flights[1].to_usd(out / "throw_ball.usd", spacing=1e-3)  # all around one target


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
