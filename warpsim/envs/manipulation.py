# SPDX-License-Identifier: Apache-2.0
"""Two tasks of Franka's Panda arm (package example-robot-data): reach points, and lift a cube with the gripper.

Actions are offsets of joint targets from a rest pose; servos hold them. Friction between the cube and the fingers holds
the cube.
"""

import dataclasses

import numpy as np

from warpsim.envs.robot_files import robot_file
from warpsim.envs.rotations import norm
from warpsim.envs.sensing import body_position
from warpsim.envs.task import Task
from warpsim.envs.terms import (
    Term,
    action_change,
    command,
    last_action,
    scaled,
    start_from,
    start_noise,
    uniform_command,
    velocities,
)
from warpsim.files.load import load
from warpsim.model.builder import ModelBuilder

ARM = tuple(f"panda_joint{k + 1}" for k in range(7))
FINGER = "panda_finger_joint1"  # the file's mimic joint makes the other finger follow
REST = np.array([0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.785])  # [rad]
SERVOS = {"kp": (600.0,) * 4 + (250.0,) * 3, "kv": (60.0,) * 4 + (20.0,) * 3, "most": (87.0,) * 4 + (12.0,) * 3}
OPEN, GRIP = 0.04, 60.0  # [m] finger opening, [N] grip force
CUBE, CUBE_MASS = 0.02, 0.1  # half edge [m], mass [kg]
TIP = "panda_hand_tcp"


def panda(cube: bool = False):
    """The arm with servos above a plane. With a cube only the fingers can touch it; without a cube nothing collides."""
    robot = load(robot_file("panda_description/urdf/panda.urdf"), visuals=False)
    b = ModelBuilder("panda", timestep=0.005)
    b.add_model(robot)
    for g, geom in enumerate(b.geoms):
        finger = cube and "finger" in b.bodies[geom.body].name
        b.geoms[g] = dataclasses.replace(geom, contype=0, conaffinity=1 if finger else 0)
    for k, name in enumerate(ARM):
        kp, kv, most = (SERVOS[x][k] for x in ("kp", "kv", "most"))
        b.add_actuator(name, "position", kp=kp, kv=kv, force_range=(-most, most), name=name)
    b.add_actuator(
        FINGER, "position", kp=2000.0, kv=50.0, force_range=(-GRIP, GRIP), control_range=(0, OPEN), name="grip"
    )
    q = np.concatenate([REST, [OPEN, OPEN]])
    b.add_geom("plane", name="table", contype=1 if cube else 0, conaffinity=0)
    if cube:
        b.add_body("cube", mass=CUBE_MASS, inertia=np.full(3, CUBE_MASS * (2 * CUBE) ** 2 / 6), pose=[0.5, 0, CUBE])
        b.add_joint("cube", "free", name="cube")
        b.add_geom("box", [CUBE] * 3, body="cube", name="cube", contype=1, conaffinity=1, friction=1.0)
        q = np.concatenate([q, [0.5, 0, CUBE, 1, 0, 0, 0]])
    b.add_keyframe("rest", q=q)
    return b.build()


def _arm(s):
    """Offsets of the joints from the rest pose."""
    return s.q[:, :7] - s.arrays.constant(REST.astype(np.float32))


def _miss(s):
    """Vector from the tip to the target `(worlds, 3)` [m]."""
    return s.commands["target"] - body_position(TIP)(s)


class Reach(Task):
    """The tip of the arm reaches targets that change every two seconds."""

    model = staticmethod(panda)
    decimation, episode = 4, 400
    learning = {"ppo": {"iterations": 150}, "shac": {"iterations": 200}}
    action_range = (-np.ones(7), np.ones(7))
    actuators = (scaled(0.8, REST), lambda s, u: s.xp.concat([u, 0.0 * u[:, :1] + OPEN], axis=-1))
    commands = {"target": uniform_command((0.35, -0.3, 0.15), (0.65, 0.3, 0.6), every=100)}
    observations = {
        "joints": _arm,
        "speeds": velocities(*ARM),
        "target": command("target"),
        "miss": _miss,
        "action": last_action,
    }
    rewards = {
        "far": (-1.0, lambda s: norm(_miss(s))),
        "near": (1.0, lambda s: s.xp.exp(-norm(_miss(s)) / 0.05)),
        "change": (-0.005, action_change),
    }
    starts = (start_from("rest"), start_noise(q=0.1))


class _cube_start(Term):
    """Place the cube at random in front of the arm, turned about z; everything else keeps its initial state."""

    def bind(self, view) -> None:
        self.draws, self.place = [view.draw() for _ in range(3)], int(view.host_columns("cube")[0][0])

    def __call__(self, view, start) -> None:
        xp, q = view.xp, start["q"]
        x, y, half = (view.uniform(1, low, high, draw=d) for d, low, high in zip(self.draws, *BOX, strict=True))
        zero = 0.0 * x
        cube = xp.concat([x, y, zero + CUBE, xp.cos(half), zero, zero, xp.sin(half)], axis=-1)
        start["q"] = xp.concat([q[:, : self.place], cube], axis=-1)


BOX = ((0.4, -0.15, -0.4), (0.6, 0.15, 0.4))  # ranges of x, y and half the angle


def _cube(s):
    return s.poses[:, s.model.body("cube"), :3]


def _to_cube(s):
    return _cube(s) - body_position(TIP)(s)


def _lifted(s):
    return 1.0 * (_cube(s)[:, 2] > 3.0 * CUBE)


def _to_target(s):
    return s.commands["target"] - _cube(s)


class Lift(Task):
    """The arm takes a cube from the table and holds it at a point."""

    model = staticmethod(lambda: panda(cube=True))
    decimation, episode = 4, 250
    learning = {"ppo": {"iterations": 500, "hidden": (128, 128)}, "shac": {"hidden": (128, 128)}}
    action_range = (-np.ones(8), np.ones(8))
    actuators = (scaled(np.array([0.8] * 7 + [OPEN / 2]), np.concatenate([REST, [OPEN / 2]])),)
    commands = {"target": uniform_command((0.4, -0.2, 0.2), (0.6, 0.2, 0.4))}
    observations = Reach.observations | {
        "miss": _to_cube,
        "fingers": lambda s: s.q[:, 7:9],
        "cube": lambda s: s.q[:, 9:16],
        "way": _to_target,
    }
    rewards = {
        "reach": (1.0, lambda s: 1.0 - s.xp.tanh(norm(_to_cube(s)) / 0.1)),
        "lift": (5.0, _lifted),
        "carry": (10.0, lambda s: _lifted(s) * (1.0 - s.xp.tanh(norm(_to_target(s)) / 0.2))),
        "change": (-0.005, action_change),
    }
    terminations = {"lost": lambda s: (abs(_cube(s)[:, 0] - 0.5) > 0.5) | (abs(_cube(s)[:, 1]) > 0.6)}
    starts = (start_from("rest"), _cube_start(), start_noise(v=0.02))
