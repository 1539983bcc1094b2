"""Robots as their makers ship them, each at work in a few lines (docs/shipped.md).

Their files come from their packages, unpacked, not installed (`pip download --no-deps gymnasium_robotics metaworld "myosuite<3"`, then `unzip`);
FOLDER is where they lie.
"""

import dataclasses
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


def with_goal(model: ws.Model, radius: float = 0.025) -> ws.Model:
    """The model and a red ball, its last mocap body, that touches nothing; the file's own marks of mocap bodies are hidden."""
    marks = np.isin(model.geom_body, np.flatnonzero(model.body_mocap >= 0))
    builder = ws.ModelBuilder(model.name, gravity=model.gravity, timestep=model.timestep)
    builder.friction_rule = builder.filter_parent = None
    builder.add_model(dataclasses.replace(model, geom_visible=model.geom_visible & ~marks))
    goal = builder.add_body("goal", mocap=True)
    builder.add_geom("sphere", [radius], body=goal, density=0, contype=0, conaffinity=0, rgba=(0.9, 0.1, 0.1, 1))
    return builder.build()


def tour(stops, move: int, rest: int) -> np.ndarray:
    """Poses `(steps, worlds, 7)` along `stops (n, worlds, 7)`, from rest to rest in `move` steps, with `rest` steps at each."""
    s = np.linspace(0, 1, move + 1)[1:, None, None]
    parts = []
    for a, b in zip(stops[:-1], stops[1:], strict=True):
        parts += [a + s * s * (3 - 2 * s) * (b - a), np.tile(b, (rest, 1, 1))]
    poses = np.concatenate(parts)
    poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
    return poses


def leader(model: ws.Model, hand, poses, goals) -> np.ndarray:
    """Poses `(steps, worlds, 2, 7)` of the mocap body that `hand` is welded to, as in the file, and of the goal: the hand is led along `poses`."""
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    welded = compose(inverse(model.mocap0[0]), sim.kinematics(model.q0).numpy()[0, model.body(hand)])
    return np.stack([compose(poses, inverse(welded)), np.broadcast_to(goals, poses.shape)], axis=2)
