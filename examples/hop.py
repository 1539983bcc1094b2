# SPDX-License-Identifier: Apache-2.0
"""Make the hopper hop: 0.5 m forward, 0.25 m high, and stand again after 0.8 s; batched shooting with gradients.

    python -m examples.hop [out]            # writes out/hop.png and out/hop.usd

Unknown are the torques of all steps, 480 numbers per world. Adam improves 32 sequences at once with the gradients of
their rollouts. Landings are resolved within the step (`time_of_impact`), so that the gradients through them are those of
the motion. Now and then the worst half is replaced by variations of the best quarter.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain
from warpsim.tools.demo import robot_path
from warpsim.tools.runs import smooth_controls

WORLDS, STEPS, DT = 32, 160, 0.005
GOAL, APEX = 0.5, 0.25  # where to land [m] and how high to be halfway [m]
RATE, LAST_RATE, MOMENTUM, SPREAD = 0.05, 0.005, 0.9, 0.99  # of Adam
LONGEST_GRADIENT = 0.5  # per world; an impact can make a gradient very long
RENEWAL = 30  # iterations between replacements, in the first two thirds


@wp.kernel
def cost(
    q: wp.array3d(dtype=wp.float64),
    v: wp.array3d(dtype=wp.float64),
    controls: wp.array3d(dtype=wp.float64),
    goal: wp.float64,
    apex: wp.float64,
    loss: wp.array(dtype=wp.float64),
):
    """High and halfway in the middle; at the goal, at its first height and at rest in the end; upright, with little
    torque. q = (x, height, pitch, joints). Launch over (rows, worlds)."""
    k, w = wp.tid()
    last = q.shape[0] - 1
    forward = q[k, w, 0] - q[0, w, 0]
    up = q[k, w, 1] - q[0, w, 1]
    c = wp.float64(0.05) * q[k, w, 2] * q[k, w, 2]
    if k == last / 2:
        x = forward - wp.float64(0.5) * goal
        z = up - apex
        c += wp.float64(20.0) * x * x + wp.float64(80.0) * z * z
    if k == last:
        y = forward - goal
        c += wp.float64(20.0) * (y * y + up * up)
        for i in range(v.shape[2]):
            c += wp.float64(0.02) * v[k, w, i] * v[k, w, i]
    else:
        for j in range(controls.shape[2]):
            c += wp.float64(0.0005) * controls[k, w, j] * controls[k, w, j]
    wp.atomic_add(loss, w, c)


def evaluate(sim: ws.Simulator, values: np.ndarray):
    """Trajectory, cost `(worlds,)` and its gradient with respect to the controls `(steps, worlds, 3)`."""
    controls = wp.array(values, dtype=wp.float64, device=sim.device, requires_grad=True)
    loss = wp.zeros(sim.worlds, dtype=wp.float64, device=sim.device, requires_grad=True)
    with wp.Tape() as tape:
        t = sim.rollout(sim.state(), controls)
        inputs = [t.q, t.v, controls, wp.float64(GOAL), wp.float64(APEX), loss]
        wp.launch(cost, dim=t.q.shape[:2], inputs=inputs, device=sim.device)
    tape.backward(grads={loss: wp.ones_like(loss)})
    return t, loss.numpy().copy(), controls.grad.numpy().copy()


def learn(worlds: int = WORLDS, iterations: int = 150, seed: int = 0):
    """Costs `(iterations, worlds)`, and the best trajectory, as a world of its own, with its controls."""
    options = {"dt": DT, "dtype": "float64", "device": "cpu", "time_of_impact": True}
    sim = ws.Simulator(ws.load(robot_path("hopper")), worlds, requires_grad=True, **options)
    model = sim.model
    u = smooth_controls(model, worlds, STEPS, DT, seed=seed, amplitude=0.3).astype(float)
    mean, square = np.zeros_like(u), np.zeros_like(u)
    history, best, best_cost = [], u[:, 0], np.inf
    for k in range(iterations):
        _, loss, gradient = evaluate(sim, u)
        history.append(loss)
        order = np.argsort(loss)
        if loss[order[0]] < best_cost:
            best, best_cost = u[:, order[0]].copy(), loss[order[0]]
        if k % RENEWAL == 0 and 0 < k < 2 * iterations // 3:
            new, source = order[worlds // 2 :], np.resize(order[: worlds // 4], worlds - worlds // 2)
            change = smooth_controls(model, len(new), STEPS, DT, seed=seed + k, amplitude=0.1)
            u[:, new] = np.clip(u[:, source] + change, -1, 1)
            for memory in (mean, square, gradient):
                memory[:, new] = memory[:, source]
        norm = np.sqrt((gradient**2).sum(axis=(0, 2)))[:, None]
        gradient *= np.minimum(1.0, LONGEST_GRADIENT / norm)
        mean += (1 - MOMENTUM) * (gradient - mean)
        square += (1 - SPREAD) * (gradient**2 - square)
        step = mean / (1 - MOMENTUM ** (k + 1)) / (np.sqrt(square / (1 - SPREAD ** (k + 1))) + 1e-8)
        u = np.clip(u - (LAST_RATE + (RATE - LAST_RATE) * (1 - k / iterations)) * step, -1, 1)
    single = ws.Simulator(model, **options)
    return np.array(history), single.rollout(single.state(), best[:, None]), best


def plot(history: np.ndarray, trajectory: ws.Trajectory, controls: np.ndarray, path) -> None:
    """Costs by iteration, the path of the best hop, and its torques."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    axes[0].semilogy(history, color="#8a919c", linewidth=0.5)
    axes[0].semilogy(history.min(axis=1), color="#2f6fb0", linewidth=2, label="best")
    axes[0].set(title="cost", xlabel="iteration")
    axes[0].legend()
    q, time = trajectory.q.numpy()[:, 0], trajectory.clock()
    axes[1].plot(q[:, 0], q[:, 1], color="#2f6fb0")
    axes[1].plot([GOAL / 2, GOAL], [q[0, 1] + APEX, q[0, 1]], "o", color="#c4473a", label="goals")
    axes[1].set(title="torso", xlabel="forward [m]", ylabel="height [m]")
    axes[1].legend()
    for j, name in enumerate(("thigh", "leg", "foot")):
        axes[2].plot(time[:-1], controls[:, j], label=name)
    axes[2].set(title="controls", xlabel="time [s]")
    axes[2].legend()
    figure.savefig(path, dpi=120)


def main(out: pathlib.Path) -> None:
    """Learn, and write the plot and the USD stage."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    history, trajectory, controls = learn()
    q = trajectory.q.numpy()[:, 0]
    airborne = (trajectory.diagnostics["contacts"].numpy() == 0).mean() * STEPS * DT
    print(
        f"best cost {history[0].min():.1f} -> {history[-1].min():.2f}; apex {q[:, 1].max() - q[0, 1]:.2f} m above the start,"
    )
    print(
        f"{airborne:.2f} s in the air, {q[-1, 0]:.2f} m forward, ends {q[-1, 1] - q[0, 1]:+.2f} m, pitch {q[-1, 2]:+.2f} rad"
    )
    out.mkdir(exist_ok=True)
    plot(history, trajectory, controls, out / "hop.png")
    trajectory.to_usd(out / "hop.usd")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
