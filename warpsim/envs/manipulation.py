# SPDX-License-Identifier: Apache-2.0
"""Two tasks of Franka's Panda arm (package example-robot-data): reach points, and lift a cube with the gripper.

Servos hold the joints. Actions of `Reach` are offsets of their targets from a rest pose. Actions of `Lift` move the
tool, which points down; `tool_down` gives the joint targets. Friction between the cube and the fingers holds the cube.
"""

import dataclasses

import numpy as np

from warpsim.envs.robot_files import robot_file
from warpsim.envs.rotations import norm, rotated, summed
from warpsim.envs.sensing import body_position
from warpsim.envs.task import Task
from warpsim.envs.terms import (
    Term,
    action_change,
    command,
    first_order,
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
ORANGE = (0.9, 0.55, 0.2, 1.0)
TIP = "panda_hand_tcp"
# Lengths of the arm [m]: height of the shoulder; upper and lower arm; the elbow's offset from both; from the wrist
# forward to the flange's axis; from the wrist down to the tip (flange and hand).
SHOULDER, UPPER, LOWER, ELBOW, WRIST, TOOL = 0.333, 0.316, 0.384, 0.0825, 0.088, 0.107 + 0.1034
ROOM = ((0.3, -0.35, 0.01), (0.7, 0.35, 0.55))  # where actions of `Lift` move the tip [m]


def panda(cube: bool = False):
    """The arm with servos above a plane. With a cube only the fingers can touch it; without a cube nothing collides."""
    robot = load(robot_file("panda_description/urdf/panda.urdf"), visuals=False)
    b = ModelBuilder("panda", timestep=0.005)
    b.add_model(robot)
    for g, geom in enumerate(b.geoms):
        finger = cube and "finger" in b.bodies[geom.body].name
        b.geoms[g] = dataclasses.replace(geom, contype=0, conaffinity=1 if finger else 0)
    if cube:  # the arm of the maker compensates its own weight
        b.bodies = [dataclasses.replace(body, gravcomp=1.0) for body in b.bodies]
    for k, name in enumerate(ARM):
        kp, kv, most = (SERVOS[x][k] for x in ("kp", "kv", "most"))
        b.add_actuator(name, "position", kp=kp, kv=kv, force_range=(-most, most), name=name)
    b.add_actuator(
        FINGER, "position", kp=2000.0, kv=200.0, force_range=(-GRIP, GRIP), control_range=(0, OPEN), name="grip"
    )
    q = np.concatenate([REST, [OPEN, OPEN]])
    b.add_geom("plane", name="table", contype=1 if cube else 0, conaffinity=0)
    if cube:
        b.add_body("cube", mass=CUBE_MASS, inertia=np.full(3, CUBE_MASS * (2 * CUBE) ** 2 / 6), pose=[0.5, 0, CUBE])
        b.add_joint("cube", "free", name="cube")
        b.add_geom("box", [CUBE] * 3, body="cube", name="cube", contype=1, conaffinity=1, friction=1.0, rgba=ORANGE)
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
    # an action's effect is seen at once; gradients need little noise
    learning = {"ppo": {"iterations": 150}, "shac": {"iterations": 500, "gamma": 0.95, "init_std": 0.1}}
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


def tool_down(xp, place, yaw):
    """Joint angles `(worlds, 7)` for the tip at `place` `(worlds, 3)`, with the tool pointing down and turned by `yaw`.

    Joints 3 and 5 stay 0, so that joints 2, 4 and 6 move the tool in a vertical plane: the triangle of shoulder, elbow
    and wrist by the law of cosines. A place out of reach gives the nearly stretched arm.
    """
    x, y, z = (place[:, i] for i in range(3))
    q1, forward, up = xp.arctan2(y, x), (x * x + y * y) ** 0.5 - WRIST, z + TOOL - SHOULDER
    upper, lower = (UPPER**2 + ELBOW**2) ** 0.5, (LOWER**2 + ELBOW**2) ** 0.5
    bend = float(np.arctan2(ELBOW, UPPER)), float(np.arctan2(ELBOW, LOWER))
    far = xp.clip(forward * forward + up * up, 1e-6, None)
    at_elbow = xp.arccos(xp.clip((upper**2 + lower**2 - far) / (2.0 * upper * lower), -0.999, 0.999))
    at_shoulder = xp.arccos(xp.clip((upper**2 + far - lower**2) / (2.0 * upper * far**0.5), -0.999, 0.999))
    q2 = xp.arctan2(forward, up) - at_shoulder - bend[0]
    q4 = at_elbow - np.pi - bend[0] - bend[1]
    return xp.stack([q1, q2, 0.0 * x, q4, 0.0 * x, q2 - q4, q1 - yaw + np.pi / 4], axis=-1)


def _yaw(s, body: str):
    """Angle of a body's x axis about the vertical `(worlds,)` [rad]."""
    turn = s.poses[:, s.model.body(body), 3:]
    x = rotated(s.xp, turn, 0.0 * turn[:, 1:] + s.arrays.constant(np.array([1, 0, 0], np.float32)))
    return s.xp.arctan2(x[:, 1], x[:, 0])


class _move_tool(Term):
    """Joint targets and opening: the tip moves by up to 5 cm along each axis and 0.25 rad from where it is.

    The opening follows its action in 0.2 s, as a gripper of this kind does: the noise of a policy that learns must not
    drop what it holds.
    """

    def __init__(self):
        self.term = first_order(0.2)

    def bind(self, view) -> None:
        self.term.bind(view)

    def reset(self, view, mask) -> None:
        self.term.reset(view, mask)

    def __call__(self, s, action):
        low, high = (s.arrays.constant(np.array(bound, np.float32)) for bound in ROOM)
        place = s.xp.clip(body_position(TIP)(s) + 0.05 * action[:, :3], low, high)
        joints = tool_down(s.xp, place, _yaw(s, TIP) + 0.25 * action[:, 3])
        opening = s.xp.clip(OPEN / 2 + OPEN * self.term(s, action[:, 4:]), 0.0, OPEN)
        return s.xp.concat([joints, opening], axis=-1)


def _cube(s):
    return s.pose(s.model.body("cube"))[:, :3]


def _to_cube(s):
    return _cube(s) - body_position(TIP)(s)


def _turn(s):
    """Four times the angle between cube and tool: the cube's sides are alike."""
    return 4.0 * (_yaw(s, "cube") - _yaw(s, TIP))


def _to_target(s):
    return s.commands["target"] - _cube(s)


def _near(s, width: float):
    """1 where the tip is at the cube's center, falling to 0 over `width` [m]."""
    return s.xp.exp(-summed((_to_cube(s) / width) ** 2))


def _gripping(s):
    """Force of the grip, from 0 to 1 at 40 N: the fingers are further apart than they are told to be."""
    return s.xp.clip((s.q[:, 7] - s.control[:, 7]) / CUBE, 0.0, 1.0)


def _held(s):
    """1 for a cube between the fingers with the full force of the grip."""
    return _near(s, 0.03) * _gripping(s)


def _lifted(s):
    """From 0 on the table to 0.9 at 10 cm above it, held: a cube that is only tipped counts nothing."""
    return (1.0 - s.xp.exp(-s.xp.clip(_cube(s)[:, 2] - CUBE, 0.0, 1.0) / 0.04)) * _held(s)


def _close(vector):
    """1 for no distance, 0.5 for 10 cm."""
    return 0.1 / (0.1 + norm(vector))


def _carried(s):
    """The mean of a cone of 60 cm about the target, which leads there from anywhere, and a peak of 10 cm."""
    distance = norm(_to_target(s))
    return 0.5 * (s.xp.clip(1.0 - distance / 0.6, 0.0, 1.0) + s.xp.exp(-((distance / 0.1) ** 2)))


class Lift(Task):
    """The arm takes a cube from the table and holds it at a point.

    Actions: the tip along x, y and z, the tool about the vertical, and the fingers' opening.
    """

    model = staticmethod(lambda: panda(cube=True))
    timestep, decimation, episode = 0.01, 2, 200
    learning = {"ppo": {"iterations": 250, "epochs": 3, "gamma": 0.98, "entropy": 0.005}}
    action_range = (-np.ones(5), np.ones(5))
    actuators = (_move_tool(),)
    commands = {"target": uniform_command((0.4, -0.2, 0.2), (0.6, 0.2, 0.4))}
    observations = {
        "tip": body_position(TIP),
        "joints": _arm,
        "speeds": velocities(*ARM),
        "fingers": lambda s: s.q[:, 7:9],
        "cube": lambda s: s.q[:, 9:16],
        "miss": _to_cube,
        "turn": lambda s: s.xp.stack([s.xp.cos(_turn(s)), s.xp.sin(_turn(s))], axis=-1),
        "way": _to_target,
        "action": last_action,
    }
    rewards = {
        "reach": (1.0, lambda s: _close(_to_cube(s))),
        "align": (0.5, lambda s: 0.5 * (1.0 + s.xp.cos(_turn(s))) * _near(s, 0.1)),
        "grasp": (2.0, _held),
        "lift": (5.0, _lifted),
        "carry": (20.0, lambda s: _lifted(s) * _carried(s)),
        "change": (-0.005, action_change),
    }
    terminations = {"lost": lambda s: (abs(_cube(s)[:, 0] - 0.5) > 0.5) | (abs(_cube(s)[:, 1]) > 0.6)}
    success = {"placed": lambda s: norm(_to_target(s)) < 0.05}
    starts = (start_from("rest"), _cube_start(), start_noise(v=0.02))
