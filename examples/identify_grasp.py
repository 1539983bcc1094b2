# SPDX-License-Identifier: Apache-2.0
"""Identify solref, solimp and friction of a grasped box from a recording made with MuJoCo.

    python -m examples.identify_grasp [--seeds 3] [--cone elliptic] [--noise 0]

A hand with four fingertips squeezes a box and shakes it, in six runs with other forces, so that it sticks in some and slips in
others. MuJoCo records positions and velocities with a material that the seed draws; the fit begins at the file's material, which
is soft over more depth and slips, so that every number has an effect, and all runs share what is found. Steps of the fit differentiate MuJoCo's law (`ws.MuJoCo()`).
"""

import argparse
import time

import mujoco
import numpy as np

import warpsim as ws

WORLDS, STEPS = 6, 150
LENGTHS = (1, 10, STEPS)  # steps of the pieces of one fit after the other
SCALE_Q, SCALE_V = 1e-4, 1e-2  # of residuals [m, rad], [m/s, rad/s]
HAND = """<mujoco><option timestep="0.002" tolerance="1e-14" iterations="200" ls_tolerance="1e-8" cone="CONE"/>
<default><joint damping="1"/><default class="tip"><geom type="sphere" size="0.01" mass="0.03"/></default></default><worldbody>
<body name="hand" pos="0 0 0.3"><joint name="lift" type="slide" axis="0 0 1"/>
 <geom type="box" size="0.08 0.03 0.01" pos="0 0 0.1" mass="0.5" contype="0" conaffinity="0"/>
 <body name="left" pos="-0.0495 0 0"><joint name="left" type="slide" axis="1 0 0"/>
  <geom class="tip" pos="0 -0.015 0.004"/><geom class="tip" pos="0 0.015 -0.004"/></body>
 <body name="right" pos="0.0495 0 0"><joint name="right" type="slide" axis="-1 0 0"/>
  <geom class="tip" pos="0 -0.015 -0.004"/><geom class="tip" pos="0 0.015 0.004"/></body></body>
<body name="box" pos="0 0 0.3"><freejoint/><geom name="box" type="box" size="0.04 0.03 0.03" mass="0.2" priority="1" friction="0.3" solimp="0.9 0.95 0.003"/></body>
</worldbody><actuator><motor joint="lift"/><motor joint="left"/><motor joint="right"/></actuator></mujoco>"""


def material(seed: int) -> dict[str, np.ndarray]:
    """The box's solref, solimp and friction."""
    rng = np.random.default_rng(seed)
    return {
        "geom_solref": np.array([rng.uniform(0.015, 0.03), rng.uniform(0.6, 1.3)]),
        "geom_solimp": np.array(
            [rng.uniform(0.75, 0.85), rng.uniform(0.93, 0.97), rng.uniform(6e-4, 1.6e-3), 0.5, 2.0]
        ),
        "geom_friction": np.array([rng.uniform(0.4, 0.8)]),
    }


def runs(m: mujoco.MjModel) -> np.ndarray:
    """Controls `(steps, worlds, 3)`: the lift carries and shakes, the fingers squeeze."""
    t, w = m.opt.timestep * np.arange(STEPS)[:, None], np.arange(WORLDS)
    weight = -m.opt.gravity[2] * m.body_subtreemass[1:].max()
    squeeze = np.linspace(2.0, 12.0, WORLDS) * (1.0 + 0.5 * np.sin(2 * np.pi * (5 + w) * t))
    lift = weight + np.linspace(14.0, 4.0, WORLDS) * np.sin(2 * np.pi * (6 + w % 3) * t)
    return np.stack([lift, squeeze, squeeze], axis=-1)


def record(m: mujoco.MjModel, controls: np.ndarray, noise: float, rng) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's q and v `(steps + 1, worlds, n)` from the model's start, with noise in units of the scales."""
    found = []
    for w in range(controls.shape[1]):
        d = mujoco.MjData(m)
        rows = [(d.qpos.copy(), d.qvel.copy())]
        for control in controls[:, w]:
            d.ctrl[:] = control
            mujoco.mj_step(m, d)
            rows.append((d.qpos.copy(), d.qvel.copy()))
        found.append([np.array(x) for x in zip(*rows, strict=True)])
    q, v = (np.stack(x, axis=1) for x in zip(*found, strict=True))
    return q + noise * SCALE_Q * rng.normal(size=q.shape), v + noise * SCALE_V * rng.normal(size=v.shape)


def pieces(x: np.ndarray, length: int, overlap: int) -> np.ndarray:
    """Runs `(steps + overlap, worlds, n)` cut into pieces `(length + overlap, pieces, n)` that are worlds of their own."""
    cut = [x[k : k + length + overlap] for k in range(0, STEPS, length)]
    return np.concatenate(cut, axis=1)


def fit(
    model: ws.Model, seen_q: np.ndarray, seen_v: np.ndarray, controls: np.ndarray, begin: dict
) -> ws.Identification:
    """The material with which the model moves as was seen, from the first states; `begin`: parameters to begin with."""
    sim = ws.Simulator(
        model, seen_q.shape[1], dtype="float64", device="cpu", requires_grad=True, solver=ws.MuJoCo(tolerance=1e-12)
    )
    for name, values in begin.items():
        sim.parameters[name] = values

    def residual(q, v):
        return np.concatenate([model.difference(seen_q, q) / SCALE_Q, (v - seen_v) / SCALE_V], axis=-1)

    names = {"geom_solref": ["box"], "geom_friction": ["box"], "geom_solimp": [("box", k) for k in range(3)]}
    return ws.identify(sim, sim.state(seen_q[0], seen_v[0]), controls, residual, names, shared=True)


def identify(seed: int, cone: str, noise: float = 0.0):
    """The material that recorded, the one found, and the result of `ws.identify`."""
    m = mujoco.MjModel.from_xml_string(HAND.replace("CONE", cone))
    model, controls, truth = ws.load(m), runs(m), material(seed)
    box = model.geom("box")
    m.geom_solref[box], m.geom_solimp[box] = truth["geom_solref"], truth["geom_solimp"]
    m.geom_friction[box, 0] = truth["geom_friction"][0]
    seen_q, seen_v = record(m, controls, noise, np.random.default_rng(100 + seed))
    begin, found = {}, None
    for length in LENGTHS:
        found = fit(model, pieces(seen_q, length, 1), pieces(seen_v, length, 1), pieces(controls, length, 0), begin)
        begin = {name: values[0] for name, values in found.parameters.items()}
    return truth, {name: np.atleast_1d(found.parameters[name][0, box]) for name in truth}, found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cone", nargs="*", default=["pyramidal", "elliptic"], choices=["pyramidal", "elliptic"])
    parser.add_argument("--noise", type=float, default=0.0, help="of the recording: 1 is 0.1 mm and 1 cm/s")
    arguments = parser.parse_args()
    for cone in arguments.cone:
        for seed in range(arguments.seeds):
            began = time.perf_counter()
            truth, found, result = identify(seed, cone, arguments.noise)
            print(f"{cone}, seed {seed}: cost {result.history[0, 0]:.3g} -> {result.cost[0]:.3g} in {len(result.history) - 1} "
                  f"iterations ({result.status[0]}), {time.perf_counter() - began:.0f} s")  # fmt: skip
            for name, value in truth.items():
                print(f"  {name[5:]:9s} {np.round(value, 6)}  found {np.round(found[name], 6)}", flush=True)


if __name__ == "__main__":
    main()
