# SPDX-License-Identifier: Apache-2.0
"""`Rotate`: a hand turns a cube in its palm about the vertical, with the right Allegro hand of example-robot-data.

The palm looks up. Palm and fingertips touch the cube, other links do not. Servos hold the joints; actions are offsets
of their targets from a posture with the tips around the cube.
"""

import dataclasses

import numpy as np

from warpsim.envs.robot_files import robot_file
from warpsim.envs.rotations import conjugate, norm, product
from warpsim.envs.sensing import body_position
from warpsim.envs.task import Task
from warpsim.envs.terms import Term, action_change, last_action, scaled, start_from, start_noise, velocities
from warpsim.files.load import load
from warpsim.model.builder import ModelBuilder

JOINTS = tuple(f"joint_{k}.0" for k in range(16))  # index, middle and ring finger, thumb, from the palm outward
TIPS = tuple(f"link_{k}.0_tip" for k in (3, 7, 11, 15))
# [rad]: three tips 6 mm before the cube's front, the thumb's as far beside it
POSTURE = np.array([-0.27, 0.72, 1.69, 1.08, 0.0, 0.74, 1.71, 1.11, 0.27, 0.72, 1.69, 1.08, 0.27, 1.05, 1.04, 1.68])
KP, KD, TORQUE, DAMPING, ARMATURE = 2.0, 0.1, 0.7, 0.02, 0.002  # [N m/rad], [N m s/rad], [N m], [N m s/rad], [kg m²]
UP = (0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0)  # pose of the palm: its front, x, looks up
ORANGE = (0.9, 0.55, 0.2, 1.0)
CUBE, CUBE_MASS = 0.03, 0.06  # half edge [m], mass [kg]
PLACE = np.array([0.045, 0.0, 0.0111 + CUBE])  # [m] of the cube on the palm


def hand():
    """The hand with servos and a cube in its palm, above a floor that touches nothing."""
    robot = load(robot_file("allegro_hand_description/urdf/allegro_right_hand.urdf"), visuals=False)
    b = ModelBuilder("allegro", timestep=0.01)
    b.add_model(robot, pose=UP)
    for g, geom in enumerate(b.geoms):
        touches = b.bodies[geom.body].name in (*TIPS, "palm_link")
        b.geoms[g] = dataclasses.replace(geom, contype=0, conaffinity=1 if touches else 0)
    for j, joint in enumerate(b.joints):
        own = {"damping": np.array([DAMPING]), "friction": np.zeros(1), "armature": np.array([ARMATURE])}
        b.joints[j] = dataclasses.replace(joint, **own)
    for name in JOINTS:
        b.add_actuator(name, "position", kp=KP, kv=KD, force_range=(-TORQUE, TORQUE), name=name)
    b.add_body("cube", mass=CUBE_MASS, inertia=np.full(3, CUBE_MASS * (2 * CUBE) ** 2 / 6), pose=PLACE)
    b.add_joint("cube", "free", name="cube")
    b.add_geom("box", [CUBE] * 3, body="cube", name="cube", contype=1, conaffinity=0, friction=0.8, rgba=ORANGE)
    b.add_keyframe("hold", q=np.concatenate([POSTURE, PLACE, [1, 0, 0, 0]]))
    return b.build()


def _cube(s):
    """From its place on the palm to the cube `(worlds, 3)` [m]."""
    return s.q[:, 16:19] - s.arrays.constant(PLACE.astype(np.float32))


def _turning(s):
    """Mean angular velocity of the cube about the vertical in this action `(worlds,)` [rad/s]."""
    turn = product(s.xp, s.q[:, 19:], conjugate(s.xp, s.q_before[:, 19:]))
    return 2.0 * s.xp.arctan2(turn[:, 3], turn[:, 0]) / s.dt


def _joints(s):
    """Offsets of the joints from the posture."""
    return s.q[:, :16] - s.arrays.constant(POSTURE.astype(np.float32))


def _tips(s):
    """From the cube to the fingertips `(worlds, 12)` [m]."""
    return s.xp.concat([body_position(tip)(s) - s.q[:, 16:19] for tip in TIPS], axis=-1)


def _dropped(s):
    """The cube has left the palm."""
    return (_cube(s)[:, 2] < -CUBE) | (norm(_cube(s)) > 0.08)


class _turned(Term):
    """Whether the cube has turned by more than an angle [rad] in the episode."""

    memory = ("angle",)

    def __init__(self, wanted: float):
        self.wanted = wanted

    def bind(self, view) -> None:
        self.angle = view.arrays.made(np.zeros(view.worlds, np.float32))

    def reset(self, view, mask) -> None:
        self.angle = view.xp.where(mask, 0.0, self.angle)

    def __call__(self, view):
        if self.first(view):
            self.angle = self.angle + view.dt * _turning(view)
        return self.angle > self.wanted


class Rotate(Task):
    """A hand turns a cube in its palm about the vertical and keeps it. Actions: offsets of the joints' targets."""

    model = staticmethod(hand)
    decimation, episode = 4, 250
    learning = {"ppo": {"iterations": 300}}
    action_range = (-np.ones(16), np.ones(16))
    actuators = (scaled(0.5, POSTURE),)
    observations = {
        "joints": _joints,
        "speeds": velocities(*JOINTS),
        "cube": _cube,
        "orientation": lambda s: s.q[:, 19:],
        "moving": velocities("cube"),
        "tips": _tips,
        "action": last_action,
    }
    rewards = {
        "turning": (1.0, lambda s: s.xp.clip(_turning(s), -1.0, 1.0)),
        "place": (-10.0, lambda s: norm(_cube(s))),
        "posture": (-0.02, lambda s: (_joints(s) ** 2).sum(-1)),
        "change": (-0.002, action_change),
        "dropped": (-10.0, lambda s: 1.0 * _dropped(s)),
    }
    terminations = {"dropped": _dropped}
    success = {"turned": _turned(np.pi), "held": lambda s: ~_dropped(s)}
    starts = (start_from("hold"), start_noise(v=0.02))
    smooth = {
        "rewards": {
            **{name: term for name, term in rewards.items() if name != "dropped"},
            "turning": (1.0, lambda s: s.xp.tanh(_turning(s))),
        }
    }
