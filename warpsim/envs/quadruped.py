# SPDX-License-Identifier: Apache-2.0
"""A quadruped follows velocity commands: Unitree's A1 of the package example-robot-data, on flat and on rough ground.

Actions are offsets of joint targets from a stance; servos hold them. Rewards follow massively parallel locomotion
(Rudin et al., 2022): tracking by exp(-e²/σ), minus penalties for restless motion, per second of the episode.
"""

import dataclasses
import functools

import numpy as np

from warpsim.envs.robot_files import robot_file
from warpsim.envs.sensing import air_time, angular_velocity, linear_velocity, projected_gravity, touches
from warpsim.envs.task import Task
from warpsim.envs.terms import (
    action_change,
    command,
    last_action,
    noisy,
    push,
    randomise,
    scaled,
    start_from,
    start_noise,
    uniform_command,
    velocities,
)
from warpsim.envs.terrain import height_scan, start_on, terrain
from warpsim.files.load import load
from warpsim.model.builder import ModelBuilder

LEGS = ("FR", "FL", "RR", "RL")
FEET = tuple(f"{leg}_foot" for leg in LEGS)
STANCE = {"hip": (-0.1, 0.1, -0.1, 0.1), "thigh": (0.8, 0.8, 1.0, 1.0), "calf": (-1.5,) * 4}  # [rad], by leg
JOINTS = tuple(f"{leg}_{part}_joint" for leg in LEGS for part in STANCE)
POSE = np.array([STANCE[part][k] for k in range(4) for part in STANCE])
HEIGHT = 0.32  # [m] of the trunk in the stance
KP, KD, TORQUE, ARMATURE = 25.0, 0.6, 33.5, 0.01  # [N m/rad], [N m s/rad], [N m], [kg m²]


@functools.cache
def ground():
    """Rough ground for the quadruped."""
    return terrain(levels=4)


def quadruped(rough: bool = False):
    """A1 with servos above a plane or `ground()`. Feet and trunk touch the ground; the robot has no self-contact."""
    robot = load(robot_file("a1_description/urdf/a1.urdf"), base="free", visuals=False)
    b = ModelBuilder("a1", timestep=0.005)
    b.add_model(robot)
    for g, geom in enumerate(b.geoms):
        foot, trunk = b.bodies[geom.body].name in FEET, b.bodies[geom.body].name == "trunk"
        mask = 1 if foot or trunk else 0
        b.geoms[g] = dataclasses.replace(geom, contype=0, conaffinity=mask, visible=geom.visible)
    for j, joint in enumerate(b.joints):
        if joint.name in JOINTS:
            b.joints[j] = dataclasses.replace(joint, armature=np.array([ARMATURE]))
        else:  # with straight legs the robot stands higher
            b.joints[j] = dataclasses.replace(joint, q0=np.array([0, 0, 0.5, 1.0, 0, 0, 0]))
    for name in JOINTS:
        b.add_actuator(name, "position", kp=KP, kv=KD, force_range=(-TORQUE, TORQUE), name=name)
    if rough:
        ground().add_to(b, contype=1, conaffinity=0)
    else:
        b.add_geom("plane", name="ground", contype=1, conaffinity=0)
    b.add_keyframe("stance", q=np.concatenate([[0, 0, HEIGHT, 1, 0, 0, 0], POSE]))
    return b.build()


def _tracking(s):
    error = s.commands["velocity"][:, :2] - linear_velocity("base")(s)[:, :2]
    return s.xp.exp(-(error**2).sum(-1) / 0.25)


def _turning(s):
    error = s.commands["velocity"][:, 2] - angular_velocity("base")(s)[:, 2]
    return s.xp.exp(-(error**2) / 0.25)


def _down(s):
    """Cosine of the trunk's inclination."""
    return -projected_gravity("base")(s)[:, 2]


def _servo_effort(s):
    """Σ of the squared torques that the servos were last commanded [N² m²]."""
    offset = s.control - s.q[:, s.columns(*JOINTS)[0]]
    return ((KP * offset - KD * s.v[:, s.columns(*JOINTS)[1]]) ** 2).sum(-1)


def _targets(s):
    """Offsets of the joints from the stance."""
    return s.q[:, s.columns(*JOINTS)[0]] - s.arrays.constant(POSE.astype(np.float32))


SECOND = 0.02  # duration of an action [s]: weights are per second


class Quadruped(Task):
    """A1 on flat ground follows (vx, vy, yaw rate)."""

    model = staticmethod(quadruped)
    timestep, decimation, episode = 0.005, 4, 1000
    learning = {"ppo": {"iterations": 350, "hidden": (128, 128)}, "shac": {"hidden": (128, 128)}}
    action_range = (-4.0 * np.ones(12), 4.0 * np.ones(12))
    actuators = (scaled(0.25, POSE),)
    commands = {"velocity": uniform_command((-1.0, -0.5, -1.0), (1.0, 0.5, 1.0), every=250)}
    observations = {
        "linear": noisy(linear_velocity("base"), uniform=0.1),
        "angular": noisy(angular_velocity("base"), uniform=0.2),
        "gravity": noisy(projected_gravity("base"), uniform=0.05),
        "command": command("velocity"),
        "joints": noisy(_targets, uniform=0.01),
        "speeds": noisy(velocities(*JOINTS), uniform=1.5),
        "action": last_action,
    }
    rewards = {
        "track": (1.5 * SECOND, _tracking),
        "turn": (0.75 * SECOND, _turning),
        "bounce": (-2.0 * SECOND, lambda s: linear_velocity("base")(s)[:, 2] ** 2),
        "sway": (-0.05 * SECOND, lambda s: (angular_velocity("base")(s)[:, :2] ** 2).sum(-1)),
        "tilt": (-1.0 * SECOND, lambda s: (projected_gravity("base")(s)[:, :2] ** 2).sum(-1)),
        "effort": (-2e-4 * SECOND, _servo_effort),
        "change": (-0.01 * SECOND, action_change),
        "air": (0.5, air_time(*FEET, wanted=0.2)),
    }
    terminations = {
        "fallen": lambda s: _down(s) < 0.5,
        "trunk": lambda s: touches("trunk")(s)[:, 0] > 0.5,
    }
    starts = (start_from("stance"), start_noise(v=0.2))
    events = (
        randomise("geom_friction", 0.6, 1.4),
        randomise("body_mass", 0.9, 1.1),
        push("root", (0.5, 0.5, 0.0, 0.0, 0.0, 0.0), every=400),
    )
    smooth = {
        "rewards": {name: term for name, term in rewards.items() if name != "air"},
        "terminations": {"fallen": terminations["fallen"]},
        "events": events[:2],
    }
    evaluation = {"commands": {"velocity": uniform_command((0.8, 0.0, 0.0), (0.8, 0.0, 0.0))}}


class QuadrupedRough(Quadruped):
    """A1 on slopes, steps, stones and rough ground; it observes the heights around it."""

    model = staticmethod(lambda: quadruped(rough=True))
    observations = Quadruped.observations | {
        "ground": height_scan("base", [(x, y) for x in np.linspace(-0.6, 0.8, 8) for y in np.linspace(-0.4, 0.4, 5)])
    }
    starts = (start_from("stance"), start_on(ground().starts), start_noise(v=0.2))
