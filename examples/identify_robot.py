# SPDX-License-Identifier: Apache-2.0
"""Identify the mass, the friction and the joint damping of 64 half-cheetahs at once, each from one noisy recording.

    python -m examples.identify_robot [out]        # writes out/identify_robot.png and out/identify_robot.usd

Every robot has its own mass, foot friction and damping, slides and kicks for 0.6 s under known controls, and is recorded
with noise. Batched BFGS, three unknowns per world, minimises the squared error with the gradient of the whole rollout,
first of a short one and then of longer ones: over many impacts the error has more than one valley.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from warpsim.base.extras import import_or_explain
from warpsim.tools.demo import robot_path
from warpsim.tools.runs import smooth_controls

WORLDS, DT = 64, 0.005
HORIZONS = (15, 30, 60, 90, 120)  # steps
UNKNOWNS = ("mass", "friction", "damping")  # as factors of what the model says
LEAST, MOST = np.array([0.7, 0.6, 0.5]), np.array([1.4, 1.6, 2.0])
FOOT_FRICTION, FLOOR_FRICTION = 0.5, 0.05  # the larger of the two acts
NOISE_Q, NOISE_V = 0.005, 0.05  # [rad, m], [rad/s, m/s]


@wp.kernel
def squared_error(
    q: wp.array3d(dtype=wp.float64),
    v: wp.array3d(dtype=wp.float64),
    seen_q: wp.array3d(dtype=wp.float64),
    seen_v: wp.array3d(dtype=wp.float64),
    noise_q: wp.float64,
    noise_v: wp.float64,
    loss: wp.array(dtype=wp.float64),
):
    """Half the mean squared error of a world, in units of the noise. Launch over (rows, worlds)."""
    row, w = wp.tid()
    scale = wp.float64(0.5) / wp.float64(q.shape[0] * (q.shape[2] + v.shape[2]))
    for i in range(q.shape[2]):
        d = (q[row, w, i] - seen_q[row, w, i]) / noise_q
        wp.atomic_add(loss, w, scale * d * d)
    for i in range(v.shape[2]):
        e = (v[row, w, i] - seen_v[row, w, i]) / noise_v
        wp.atomic_add(loss, w, scale * e * e)


class Identification:
    """The robots, what was recorded of them, and the error of a guess `x (worlds, 3)`: logarithms of the factors."""

    def __init__(self, worlds: int = WORLDS, horizons=HORIZONS, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.model = model = ws.load(robot_path("half_cheetah"))
        self.sim = ws.Simulator(model, worlds, dt=DT, dtype="float64", device="cpu", requires_grad=True)
        self.floor = model.geom_body < 0
        friction = np.where(self.floor, FLOOR_FRICTION, FOOT_FRICTION)
        self.nominal = {
            "body_mass": model.body_mass,
            "body_inertia": model.body_inertia,
            "geom_friction": friction,
            "joint_damping": model.joint_damping,
        }
        self.steps = horizons[-1]
        self.controls = smooth_controls(model, worlds, self.steps, DT, seed=seed, amplitude=0.6).astype(float)
        self.v0 = np.zeros((worlds, model.nv))
        self.v0[:, 0] = 2.0  # slides forward
        self.v0 += 0.3 * rng.normal(size=self.v0.shape)
        self.truth = np.exp(rng.uniform(np.log(LEAST), np.log(MOST), size=(worlds, 3)))
        recorded = self.rollout(np.log(self.truth))
        self.seen = [
            wp.array(x.numpy() + noise * rng.normal(size=x.shape), dtype=wp.float64, device="cpu")
            for x, noise in ((recorded.q, NOISE_Q), (recorded.v, NOISE_V))
        ]

    def _factor(self, x: np.ndarray, name: str) -> np.ndarray:
        """The factor of every entry of a parameter, (worlds, ...)."""
        mass, friction, damping = np.exp(x).T
        if name == "geom_friction":
            return np.where(self.floor, 1.0, friction[:, None])
        factor = damping if name == "joint_damping" else mass
        return factor.reshape(-1, *[1] * self.nominal[name].ndim)

    def rollout(self, x: np.ndarray) -> ws.Trajectory:
        """The motion of the robots guessed, over `steps`."""
        for name, nominal in self.nominal.items():
            self.sim.parameters[name] = nominal * self._factor(x, name)
        return self.sim.rollout(self.sim.state(v=self.v0), self.controls[: self.steps])

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Error `(worlds,)` and its gradient `(worlds, 3)` of a guess."""
        parameters = self.sim.parameters
        loss = wp.zeros(len(x), dtype=wp.float64, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            t = self.rollout(x)
            inputs = [t.q, t.v, *self.seen, wp.float64(NOISE_Q), wp.float64(NOISE_V), loss]
            wp.launch(squared_error, dim=t.q.shape[:2], inputs=inputs, device="cpu")
        for name in self.nominal:
            parameters[name].grad.zero_()
        tape.backward(grads={loss: wp.ones_like(loss)})
        gradient = np.zeros_like(x)
        for name, nominal in self.nominal.items():
            # d value / d x = value, of the entries that the unknown scales
            product = parameters[name].grad.numpy() * nominal * self._factor(x, name)
            if name == "geom_friction":
                product[:, self.floor] = 0.0
            column = {"geom_friction": 1, "joint_damping": 2}.get(name, 0)
            gradient[:, column] += product.reshape(len(x), -1).sum(axis=1)
        return loss.numpy().copy(), gradient


def batched_bfgs(function, x: np.ndarray, iterations: int, longest: float = 0.3):
    """Minimise `function(x) -> (values, gradients)` of each row of x on its own; the guesses of all iterations.

    A step that does not lower a row's value is halved; `longest` bounds the first ones.
    """
    value, gradient = function(x)
    H = np.eye(x.shape[1]) / np.maximum(1.0, np.linalg.norm(gradient, axis=1) / longest)[:, None, None]
    step = -np.einsum("wij,wj->wi", H, gradient)
    guesses = [x]
    for _ in range(iterations):
        step *= np.minimum(1.0, longest / np.maximum(np.linalg.norm(step, axis=1), 1e-12))[:, None]
        trial = x + step
        trial_value, trial_gradient = function(trial)
        better = trial_value < value
        y = trial_gradient - gradient
        curvature = (step * y).sum(1)
        update = better & (curvature > 1e-10)
        rho = np.where(update, 1.0 / np.where(update, curvature, 1.0), 0.0)
        V = np.eye(x.shape[1]) - rho[:, None, None] * step[:, :, None] * y[:, None, :]
        H = np.where(update[:, None, None], V @ H @ V.transpose(0, 2, 1), H)
        H += rho[:, None, None] * step[:, :, None] * step[:, None, :]
        x = np.where(better[:, None], trial, x)
        value = np.where(better, trial_value, value)
        gradient = np.where(better[:, None], trial_gradient, gradient)
        step = np.where(better[:, None], -np.einsum("wij,wj->wi", H, gradient), 0.5 * step)
        guesses.append(x)
    return np.array(guesses)


def plot(problem: Identification, guesses: np.ndarray, path) -> None:
    """Errors of the three factors by iteration, and found against true ones."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 3)
    errors = np.abs(np.exp(guesses) / problem.truth - 1)
    for k, name in enumerate(UNKNOWNS):
        axes[0, k].semilogy(errors[:, :, k], color="#8a919c", linewidth=0.5)
        axes[0, k].semilogy(np.median(errors[:, :, k], axis=1), color="#2f6fb0", linewidth=2, label="median")
        axes[0, k].set(title=f"{name}: relative error", xlabel="iteration")
        axes[0, k].legend()
        axes[1, k].plot(problem.truth[:, k], np.exp(guesses[-1, :, k]), ".", color="#2f6fb0")
        axes[1, k].plot([LEAST[k], MOST[k]], [LEAST[k], MOST[k]], color="#c4473a", linewidth=0.8)
        axes[1, k].set(xlabel="true factor", ylabel="found")
    figure.savefig(path, dpi=120)


def identify(problem: Identification, horizons=HORIZONS, iterations: int = 10) -> np.ndarray:
    """The guesses `(iterations, worlds, 3)`, from the model's own values on, over longer and longer rollouts."""
    guesses = [np.zeros_like(problem.truth)]
    for problem.steps in horizons:
        guesses += list(batched_bfgs(problem, guesses[-1], iterations))[1:]
    return np.array(guesses)


def main(out: pathlib.Path) -> None:
    """Identify, and write the plot and the USD stage of eight robots."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    problem = Identification()
    guesses = identify(problem)
    errors = np.abs(np.exp(guesses[-1]) / problem.truth - 1)
    for k, name in enumerate(UNKNOWNS):
        print(f"{name}: relative error median {np.median(errors[:, k]):.2%}, worst {errors[:, k].max():.2%}")
    print(f"all three within 3 %: {(errors < 0.03).all(axis=1).sum()} of {WORLDS} robots")
    out.mkdir(exist_ok=True)
    plot(problem, guesses, out / "identify_robot.png")
    problem.rollout(guesses[-1]).to_usd(out / "identify_robot.usd", worlds=8)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
