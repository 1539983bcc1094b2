# SPDX-License-Identifier: Apache-2.0
"""Slip under control: a soft gripper lets a spatula turn within its grip (SAP paper, §VI-D), by gradients through the slipping patches.

    python -m examples.slip_control [out]            # writes out/slip_control.png and out/slip_control.usd; some minutes

1. The loose grip that turns the spatula by exactly -5 degrees, for several frictions at once: Newton's method.
2. Friction, the bubbles' modulus and the spatula's inertia from a record of the pitch: Gauss-Newton; world k differentiates sample k.
3. Five loose phases that bring the spatula to -30 degrees in 24 s with the least grip: sequential convex programming.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import warpsim as ws
from scenes.pressure import pitch, pitch_slope, spatula_gripper, spatula_start
from warpsim.base.extras import import_or_explain

H, FIRM, LOOSE = 0.02, 16.0, 1.0  # [s], [N]
PERIOD, PHASES, CLOSING, GOAL = 4.8, 5, 0.2, -30.0  # of 3: [s], time in which the grip closes [s], and the pitch [deg]
NAMES = ("geom_friction", "geom_hydroelastic_modulus", "body_inertia")


class Gripper:
    """Worlds that start in a firm grip; tight, so that differences can be compared."""

    def __init__(self, worlds: int):
        options = {"dtype": "float64", "device": "cpu", "requires_grad": True, "hydroelastic": "polygons"}
        solver = ws.SAP(approximation="convex", tolerance=1e-11)
        self.sim = ws.Simulator(spatula_gripper(), worlds, dt=H, solver=solver, **options)
        self.worlds, self.nominal = np.arange(worlds), {n: self.sim.parameters[n].numpy().copy() for n in NAMES}
        self.start = self.sim.state(np.repeat(spatula_start(self.sim.model)[None], worlds, axis=0))
        self.start = self.run(np.full((round(1.0 / H), worlds), FIRM)).final

    def run(self, force, **options) -> ws.Trajectory:
        """Under grips (steps, worlds)."""
        controls = wp.array(np.stack([force, -force], axis=-1), dtype=wp.float64, device="cpu", requires_grad=True)
        path = self.sim.rollout(self.start, controls, **options)
        self.controls = controls
        return path

    def ends(self, force, rows=-1) -> np.ndarray:
        """Pitch [deg] of every world after `rows` steps."""
        return np.degrees(pitch(self.run(force).q.numpy()[rows, self.worlds]))

    def slopes(self, force, rows=-1):
        """`ends`, and their derivatives by the grip (steps, worlds) and by factors on `NAMES` (worlds, 3)."""
        values = [self.sim.parameters[name] for name in NAMES]
        for array in (self.start.q, self.start.v, *values):
            array.grad.zero_()
        with wp.Tape() as tape:
            path = self.run(force, checkpoint_every=16)
        q, seed = path.q.numpy()[rows, self.worlds], np.zeros(path.q.shape)
        seed[rows, self.worlds] = np.degrees(pitch_slope(q))
        tape.backward(grads={path.q: wp.array(seed, dtype=wp.float64, device="cpu")})
        friction, modulus, inertia = (x.grad.numpy() * x.numpy() for x in values)
        parts = (friction, modulus[:, :2], inertia[:, self.sim.model.body("spatula")])  # two soft geoms, one body
        by_factor = np.stack([x.reshape(len(x), -1).sum(axis=1) for x in parts], axis=1)
        left, right = np.moveaxis(self.controls.grad.numpy(), -1, 0)
        return np.degrees(pitch(q)), left - right, by_factor

    def believe(self, logs) -> None:
        """Factors on the friction, on the modulus of the bubbles, and on the inertia of the spatula."""
        friction, modulus, inertia = (self.nominal[name].copy() for name in NAMES)
        parts = (friction, modulus[:, :2], inertia[:, self.sim.model.body("spatula")])
        for part, x in zip(parts, np.exp(logs), strict=True):
            part *= x
        for name, value in zip(NAMES, (friction, modulus, inertia), strict=True):
            self.sim.parameters[name] = value


def differences(f, x, step: float) -> np.ndarray:
    """Central differences of f, by the entries of x last."""
    return np.stack([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))], axis=-1)


def turn_exactly(frictions=(0.7, 0.8, 0.9, 1.0), degrees: float = -5.0, iterations: int = 6):
    """1: grips [N] and errors [deg] by iteration; the last slopes [deg/N], and central differences."""
    gripper, loose = Gripper(len(frictions)), round(1.5 / H)
    gripper.sim.parameters["geom_friction"] = np.repeat(np.array(frictions)[:, None], 3, axis=1)
    first = np.degrees(pitch(gripper.start.q.numpy()))

    def force(grip):
        return np.concatenate([np.tile(grip, (loose, 1)), np.full((round(0.4 / H), len(grip)), FIRM)])

    grips, errors = [np.full(len(frictions), 1.5)], []
    for _ in range(iterations):
        angle, by_force, _ = gripper.slopes(force(grips[-1]))
        errors.append(angle - first - degrees)
        slope = by_force[:loose].sum(axis=0)
        grips.append(grips[-1] - np.clip(errors[-1] / slope, -1.0, 1.0))
    beside = differences(lambda x: gripper.ends(force(grips[-2] + x)), np.zeros(1), 1e-5)[:, 0]
    return np.array(grips[:-1]), np.array(errors), slope, beside


def identify(factors=(0.8, 1.3, 0.7), samples: int = 8, iterations: int = 6, noise: float = 0.02):
    """2: factors of `NAMES` by iteration, their standard deviations if the record had noise [deg]; slopes, and differences."""
    gripper = Gripper(samples)
    grips = np.concatenate([np.full(round(t / H), f) for t, f in ((0.8, 2.0), (0.6, FIRM), (0.8, 1.0), (0.6, FIRM))])
    force, rows = np.repeat(grips[:, None], samples, axis=1), np.linspace(0, len(grips), samples + 1)[1:].astype(int)

    def samples_of(logs):
        gripper.believe(logs)
        return gripper.ends(force, rows)

    record, guesses = samples_of(np.log(factors)), [np.zeros(3)]
    for _ in range(iterations):
        gripper.believe(guesses[-1])
        angle, _, J = gripper.slopes(force, rows)
        step = np.linalg.lstsq(J, record - angle)[0]
        guesses.append(guesses[-1] + step * min(1.0, 0.3 / np.abs(step).max()))
    spread = noise * np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
    return np.exp(guesses), spread, J, differences(samples_of, guesses[-2], 1e-5)


def least_grip(guess=(1.705, 1.405, 1.105, 0.905, 0.705), iterations: int = 7):
    """3: (lengths d of the loose phases [s], pitch θ [deg], ∂θ/∂d [deg/s]) by iteration; central differences at the last; d, and its motion.

    ∫u dt falls with Σ d_i. A turn grows about as d_i², so θ is taken as linear in d_i², with slopes -g_i that are means over the iterations.
    Of all d with θ(d) = GOAL the longest in sum is then d_i = λ/g_i, where all ∂θ/∂d_i are alike. The last steps move all d_i alike.
    """
    gripper = Gripper(1)
    t, opens = H * np.arange(round(PERIOD * PHASES / H)), PERIOD * np.arange(PHASES) + 1.0

    # How loose every step is, by phase. A grip that closed within a step would make θ(d) ragged on the scale of a step.
    def parts(lengths):
        return np.where(t[:, None] > opens - 1e-9, np.clip((opens + lengths - t[:, None]) / CLOSING, 0.0, 1.0), 0.0)

    def force(lengths):
        return FIRM - (FIRM - LOOSE) * parts(lengths).sum(axis=1, keepdims=True)

    lengths, seen, g = np.array(guess), [], None
    for _ in range(iterations):
        angle, by_force, _ = gripper.slopes(force(lengths))
        closing = (parts(lengths) > 0.0) & (parts(lengths) < 1.0)
        seen.append((lengths, angle[0], (LOOSE - FIRM) / CLOSING * (by_force * closing).sum(axis=0)))
        now = -seen[-1][2] / (2 * lengths)
        g = now if g is None else 0.5 * (g + now)
        lengths = np.sqrt(((g * lengths**2).sum() + angle[0] - GOAL) / (1 / g).sum()) / g
    beside = differences(lambda x: gripper.ends(force(x))[0], seen[-1][0], 1e-5)
    for _ in range(4):
        lengths = lengths + (GOAL - gripper.ends(force(lengths))[0]) / seen[-1][2].sum()
    return seen, beside, lengths, gripper.run(force(lengths))


def agreement(slopes, beside) -> float:
    """The worst difference over the largest slope."""
    return float(np.abs(slopes - beside).max() / np.abs(slopes).max())


def plot(errors, factors, path: ws.Trajectory, file) -> None:
    """Errors by iteration of 1 and 2, and the pitch of 3."""
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(12, 3.6), layout="constrained")
    a, b, c = figure.subplots(1, 3)
    a.semilogy(np.abs(errors), "o-")
    a.set(title="turn of exactly -5°: error by iteration", xlabel="iteration", ylabel="[deg]")
    for name, column in zip(NAMES, factors.T, strict=True):
        b.plot(column, "o-", label=name)
    b.set(title="identified, as factors", xlabel="iteration")
    b.legend(fontsize=8)
    c.plot(path.clock(), np.degrees(pitch(path.q.numpy()[:, 0])))
    c.set(title=f"least grip to {GOAL:g}°: pitch", xlabel="t [s]", ylabel="[deg]")
    figure.savefig(file, dpi=120)


def main(out: pathlib.Path) -> None:
    """All three, with a plot and the USD stage of the last."""
    import_or_explain("matplotlib", "show")  # before the work, not after it
    out.mkdir(exist_ok=True)
    grips, errors, *slopes = turn_exactly()
    print(
        f"1: grips {np.round(grips[-1], 4)} N, errors {errors[-1]} deg; slopes and differences agree to {agreement(*slopes):.1e}"
    )
    factors, spread, *slopes = identify()
    print(f"2: factors {factors[-1]}, ± {spread} at 0.02 deg; slopes and differences agree to {agreement(*slopes):.1e}")
    seen, beside, lengths, path = least_grip()
    end = np.degrees(pitch(path.q.numpy()[-1, 0]))
    print(
        f"3: loose for {np.round(lengths, 3)} s, {lengths.sum():.3f} in all, to {end:.4f} deg; slopes {np.round(seen[-1][2], 2)} deg/s;"
    )
    print(f"   they and differences agree to {agreement(seen[-1][2], beside):.1e}")
    plot(errors, factors, path, out / "slip_control.png")
    path.to_usd(out / "slip_control.usd")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
