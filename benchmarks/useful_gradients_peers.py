# SPDX-License-Identifier: Apache-2.0
"""The scenes of `benchmarks/useful_gradients.py` that other engines can take: MuJoCo by differences of steps, MJX by JAX.

    PYTHON benchmarks/useful_gradients_peers.py [--quick]

Runs by itself, in an environment with mujoco and, for MJX, mujoco-mjx and jax; prints one line of JSON per engine. Contact is
MuJoCo's by default with a tight solver, cones elliptic, in MJX pyramids, as the derivatives of its elliptic ones are nan. A slope is that of each engine's own motion, the whole way:
MuJoCo's the chain of `mjd_transitionFD` and of the step's difference by the friction, MJX's `jax.jvp` through all steps.
"""

import argparse
import json
import sys

import numpy as np

SCENE = """<mujoco><option timestep="{dt}" cone="{cone}" tolerance="1e-12" iterations="{iterations}" ls_iterations="50"/>
<worldbody><geom type="plane" size="50 50 1"/><body pos="0 0 {height}"><freejoint/>{geom}</body></worldbody></mujoco>"""
GEOMS = {
    "sliding box": '<geom type="box" size=".05 .05 .05" density="500"/>',
    "thrown ball": '<geom type="sphere" size=".05" density="500"/>',
}
DT, STEPS = 0.005, 160
FRICTIONS, SPEEDS = np.linspace(0.2, 0.6, 9), (0.3, 1.0, 2.0, 5.0)
COARSE, TRUE_FRICTION, SIGN_SPEED = 0.03, 0.4, 2.0
SIGN_FRICTIONS = TRUE_FRICTION * np.concatenate([np.linspace(0.5, 0.98, 37), np.linspace(1.02, 1.5, 38)])
GUESSES, ITERATIONS, SEARCH_STEPS = 8, 100, 80
BATCHES = (GUESSES, len(SIGN_FRICTIONS) + 1)  # MJX compiles anew for every other size


def scene(name: str, dt: float = DT, iterations: int = 100, cone: str = "elliptic"):
    """The model."""
    import mujoco

    return mujoco.MjModel.from_xml_string(
        SCENE.format(dt=dt, iterations=iterations, cone=cone, height=0.05, geom=GEOMS[name])
    )


class MuJoCo:
    """Rollouts and forward sensitivities of MuJoCo C."""

    def __init__(self, name: str):
        self.model = scene(name)

    def ends(self, frictions, speeds, steps: int = STEPS) -> np.ndarray:
        """x at the end, per case."""
        return np.array([self._run(mu, speed, steps)[0] for mu, speed in zip(frictions, speeds, strict=True)])

    def ends_and_slopes(self, frictions, speeds, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
        """x at the end and its derivative by the friction."""
        found = [self._run(mu, speed, steps, slope=True) for mu, speed in zip(frictions, speeds, strict=True)]
        return np.array([f[0] for f in found]), np.array([f[1] for f in found])

    def _run(self, mu: float, speed: float, steps: int, slope: bool = False):
        import mujoco

        m, nv, e = self.model, self.model.nv, 1e-6
        m.geom_friction[:, 0] = mu
        d, other = mujoco.MjData(m), mujoco.MjData(m)
        d.qvel[0] = speed
        S, A = np.zeros(2 * nv), np.zeros((2 * nv, 2 * nv))
        for _ in range(steps):
            if slope:
                mujoco.mjd_transitionFD(m, d, e, True, A, None, None, None)
                sides = []
                for sign in (1, -1):
                    m.geom_friction[:, 0] = mu + sign * e
                    other.qpos[:], other.qvel[:], other.qacc_warmstart[:] = d.qpos, d.qvel, d.qacc_warmstart
                    mujoco.mj_step(m, other)
                    sides.append((other.qpos.copy(), other.qvel.copy()))
                m.geom_friction[:, 0] = mu
                moved = np.zeros(nv)
                mujoco.mj_differentiatePos(m, moved, 1.0, sides[1][0], sides[0][0])
                S = A @ S + np.concatenate([moved, sides[0][1] - sides[1][1]]) / (2 * e)
            mujoco.mj_step(m, d)
        return d.qpos[0], S[0]


class MJX:
    """Rollouts and forward derivatives of MJX, all cases at once."""

    def __init__(self, name: str):
        import jax
        import jax.numpy as jnp
        from mujoco import mjx

        jax.config.update("jax_enable_x64", True)
        host = scene(name, iterations=30, cone="pyramidal")
        self.model, self.mjx, self.jax, self.jnp = mjx.put_model(host), mjx, jax, jnp
        self.data, self.compiled = mjx.make_data(self.model), {}

    def _function(self, steps: int):
        jax, jnp, mjx = self.jax, self.jnp, self.mjx

        def end(mu, speed):
            model = self.model.replace(geom_friction=self.model.geom_friction.at[:, 0].set(mu))
            start = self.data.replace(qvel=self.data.qvel.at[0].set(speed))
            last, _ = jax.lax.scan(lambda d, _: (mjx.step(model, d), None), start, length=steps)
            return last.qpos[0]

        both = lambda mu, speed: jax.jvp(lambda x: end(x, speed), (mu,), (jnp.ones_like(mu),))  # noqa: E731
        return jax.jit(jax.vmap(both))

    def ends_and_slopes(self, frictions, speeds, steps: int = STEPS):
        """x at the end and its derivative by the friction."""
        if steps not in self.compiled:
            self.compiled[steps] = self._function(steps)
        size = next(n for n in BATCHES if n >= len(frictions))
        given = (np.resize(np.asarray(x, float), size) for x in (frictions, speeds))
        ends, slopes = self.compiled[steps](*given)
        return np.asarray(ends)[: len(frictions)], np.asarray(slopes)[: len(frictions)]

    def ends(self, frictions, speeds, steps: int = STEPS):
        """x at the end."""
        return self.ends_and_slopes(frictions, speeds, steps)[0]


def slopes(engine, quick: bool) -> dict:
    """As `useful_gradients.slopes`."""
    speeds, frictions = (SPEEDS[1:3], FRICTIONS[::4]) if quick else (SPEEDS, FRICTIONS)
    mu, v = np.tile(frictions, len(speeds)), np.repeat(speeds, len(frictions))
    _, tape = engine.ends_and_slopes(mu, v)
    coarse = (engine.ends(mu * (1 + COARSE), v) - engine.ends(mu * (1 - COARSE), v)) / (2 * COARSE * mu)
    error = np.abs(tape / coarse - 1).reshape(len(speeds), -1)
    signs = SIGN_FRICTIONS[::4] if quick else SIGN_FRICTIONS
    every = np.append(signs, TRUE_FRICTION)
    ends, slope = engine.ends_and_slopes(every, np.full(len(every), SIGN_SPEED))
    right = (np.sign((ends - ends[-1]) * slope) == np.sign(every - TRUE_FRICTION))[:-1]
    return {
        "speeds": {f"{s:g}": {"error": e.tolist()} for s, e in zip(speeds, error, strict=True)},
        "tape": tape.reshape(error.shape).tolist(),
        "coarse": coarse.reshape(error.shape).tolist(),
        "signs": [int(right.sum()), len(right)],
    }


def find_friction(engine, iterations: int) -> list[int]:
    """As `useful_gradients.find_friction`."""
    v = np.full(GUESSES, SIGN_SPEED)
    target = engine.ends(np.full(GUESSES, TRUE_FRICTION), v, SEARCH_STEPS)
    theta = np.log(np.geomspace(0.15, 0.9, GUESSES))
    mean, square = np.zeros(GUESSES), np.zeros(GUESSES)
    for step in range(iterations):
        ends, slope = engine.ends_and_slopes(np.exp(theta), v, SEARCH_STEPS)
        gradient = 2 * (ends - target) * slope * np.exp(theta)
        gradient = np.where(np.isfinite(gradient), gradient, 0.0)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        theta = theta - 0.1 * (1 - step / iterations) * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-12)
    return [int((np.abs(np.exp(theta) / TRUE_FRICTION - 1) <= 0.01).sum()), GUESSES]


def hover(quick: bool) -> dict[str, float]:
    """As `useful_gradients.hover`, by MuJoCo C (lowest corner of the box)."""
    import mujoco

    found = {}
    for dt in (0.005,) if quick else (0.001, 0.005, 0.01):
        m = scene("sliding box", dt)
        m.geom_friction[:, 0] = TRUE_FRICTION
        d, gap = mujoco.MjData(m), -np.inf
        d.qvel[0] = SIGN_SPEED
        corners = 0.05 * np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        for _ in range(round(0.5 / dt)):
            mujoco.mj_step(m, d)
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, d.qpos[3:7])
            gap = max(gap, d.qpos[2] + (corners @ R.reshape(3, 3)[2]).min())
        found[f"{1e3 * dt:g}"] = 1e3 * float(gap)
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for label, engine, cone in (
        ("MuJoCo, mjd_transitionFD", MuJoCo, "elliptic cones"),
        ("MJX, jax.jvp", MJX, "pyramids"),
    ):
        row = {
            "quick": quick,
            "note": f"its default soft contact (solref 0.02 s), {cone}; friction is the only search",
        }
        try:
            row["scenes"] = {name: slopes(engine(name), quick) for name in GEOMS}
            row["hover"] = hover(quick) if engine is MuJoCo else {}
            row["searches"] = {"friction": find_friction(engine("sliding box"), 30 if quick else ITERATIONS)}
        except ImportError as error:
            row = {"skipped": f"not installed ({error})"}
        except Exception as error:  # an engine that refuses a scene leaves a line, and the others go on
            row = {"skipped": f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"}
        print(json.dumps({label: row}), flush=True)
    try:
        import nimblephysics

        kinds = [x for x in dir(nimblephysics.neural) if x.isupper()]
        why = f"no derivative by friction (its parameters: {', '.join(kinds)})"
    except ImportError as error:
        why = f"not installed ({error})"
    print(json.dumps({"Nimble": {"skipped": why}}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
