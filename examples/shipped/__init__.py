# SPDX-License-Identifier: Apache-2.0
"""Robots as their makers ship them, each at work in a few lines (docs/shipped.md).

Their files come from their packages, unpacked, not installed (`pip download --no-deps gymnasium_robotics metaworld "myosuite<3"`, then `unzip`);
FOLDER is where they lie.
"""

import dataclasses
import itertools
import pathlib

import numpy as np

import warpsim as ws
from warpsim.model.geometry import compose, inverse


def found(folder: str, name: str) -> pathlib.Path:
    """The file under `folder` whose path ends in `name`."""
    paths = sorted(pathlib.Path(folder).rglob(pathlib.PurePosixPath(name).name))
    matches = [path for path in paths if path.as_posix().endswith(name)]
    if not matches:
        raise FileNotFoundError(f"no {name} under {folder}; unpack the package there that ships it")
    return matches[0]


def load(folder: str, name: str) -> ws.Model:
    """The robot of that file."""
    return ws.load(found(folder, name), root=folder, unsupported="report")


def dressed(model: ws.Model, hidden=(), **colors) -> ws.Model:
    """The model with geoms of those names not drawn, and others in other colours, `name=rgba`."""
    visible, rgba = model.geom_visible.copy(), model.geom_rgba.copy()
    visible[[model.geom(name) for name in hidden]] = False
    for name, color in colors.items():
        rgba[model.geom(name)] = color
    return dataclasses.replace(model, geom_visible=visible, geom_rgba=rgba)


def with_goal(model: ws.Model, radius: float = 0.03, rgba=(0.1, 0.8, 0.2, 1.0)) -> ws.Model:
    """The model and a ball, its last mocap body, that touches nothing; the file's own marks of mocap bodies are hidden."""
    marks = np.isin(model.geom_body, np.flatnonzero(model.body_mocap >= 0))
    builder = ws.ModelBuilder(model.name, gravity=model.gravity, timestep=model.timestep)
    builder.friction_rule = builder.filter_parent = None
    builder.add_model(dataclasses.replace(model, geom_visible=model.geom_visible & ~marks))
    goal = builder.add_body("goal", mocap=True)
    builder.add_geom("sphere", [radius], body=goal, density=0, contype=0, conaffinity=0, rgba=rgba)
    return builder.build()


def glide(stops, move: int, rest: int) -> np.ndarray:
    """Rows `(steps, worlds, n)` along `stops (k, worlds, n)`, from rest to rest in `move` steps, with `rest` steps at each."""
    s = np.linspace(0, 1, move + 1)[1:, None, None]
    moves = [(a + s * s * (3 - 2 * s) * (b - a), np.tile(b, (rest, 1, 1))) for a, b in itertools.pairwise(stops)]
    return np.concatenate([part for pair in moves for part in pair])


def leader(model: ws.Model, hand, poses, goals) -> np.ndarray:
    """Poses `(steps, worlds, 2, 7)` of the mocap body that `hand` is welded to, as in the file, and of the goal: the hand is led along `poses`."""
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    welded = compose(inverse(model.mocap0[0]), sim.kinematics(model.q0).numpy()[0, model.body(hand)])
    turns = poses[..., 3:] / np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
    led = compose(np.concatenate([poses[..., :3], turns], axis=-1), inverse(welded))
    return np.stack([led, np.broadcast_to(goals, led.shape)], axis=2)


def servo(sim: ws.Simulator, q) -> np.ndarray:
    """Controls `(worlds, nu)` with which affine servos of single hinges and slides hold `q` against gravity."""
    model, still = sim.model, np.zeros((sim.worlds, sim.model.nv))
    load = sim.inverse_dynamics(q, still, still).numpy()[:, model.joint_v[model.actuator_joint]]
    pull = model.actuator_bias[:, 1] * q[:, model.joint_q[model.actuator_joint]]
    return (load - pull) / model.actuator_gain[:, 0]
