# SPDX-License-Identifier: Apache-2.0
"""Legged robots with servos on flat or rough ground: Unitree's A1, Go1 and G1.

The robots' files come from installed packages and hold only bodies, joints and geoms. This module adds servos, armature
and stances:

A1   gains as for policies in simulation, 33.5 N m per motor (Unitree's data sheet).
Go1  23.7 N m and 35.55 N m (knee), rotors of 1.118e-4 kg m² behind gears of 6 and 9 (Unitree's go1.urdf); kp 20 and
     kd 0.5 are the gains with which Margolis and Agrawal (Walk These Ways, 2022) ran policies on the robot.
G1   effort limits of Unitree's g1_29dof.urdf, the stance of Unitree's configurations for its 29 joints. Armatures are
     rotors' inertias times squared gear ratios, as mjlab gives them: 0.0102, 0.0251 and 0.0036 kg m² for motors of 88,
     139 and 25 N m; joints driven by two motors have twice as much. Gains are stiffer than Unitree's for training. The
     ankles' exceed m g h / 2 = 115 N m/rad (mass m, height h), so that the robot stands by its servos alone.
"""

import dataclasses
import functools
import re

import numpy as np

from warpsim.base.checks import choice, listed, positive, short
from warpsim.envs.robot_files import robot_file
from warpsim.envs.terrain import terrain
from warpsim.files.load import load
from warpsim.model.builder import ModelBuilder
from warpsim.model.model import JointType


@dataclasses.dataclass(frozen=True)
class Servo:
    """A position servo of a joint.

    Parameters
    ----------
    kp : float
        Position gain [N m/rad].
    kd : float
        Velocity gain [N m s/rad].
    torque : float
        Largest torque [N m].
    armature : float
        Armature of the joint [kg m²].

    Examples
    --------
    >>> ws.envs.legged.Servo(kp=25.0, kd=0.6, torque=33.5, armature=0.01).kp
    25.0
    """

    kp: float
    kd: float
    torque: float
    armature: float


def _each(given) -> tuple:
    """Names or patterns: of one, several, or a dict's keys."""
    return (given,) if isinstance(given, str) else tuple(given)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeggedRobot:
    """A legged robot's file, and what the file lacks: `A1`, `GO1`, `G1`, or your own.

    Parameters
    ----------
    name : str
        Name of the model.
    file : str
        Path of the file, or of a file in `package`.
    base : str
        The body whose velocity is commanded.
    free : str
        Its free joint; of a URDF it is "root".
    height : float
        Height of the free joint in the stance [m].
    stance : dict of str to float
        Angles of joints [rad], by pattern (regular expression) of their names. The first pattern that matches the whole
        name counts; other joints are at 0.
    servos : dict of str to Servo
        Servos, by pattern of the joints' names. Joints without a servo are passive.
    moved : tuple of str
        The joints that the policy moves. The others are held in the stance.
    contacts : str
        Pattern of "body/geom": the geoms that touch the ground. A collision without a name in a URDF is called
        "body/body_collision".
    feet : tuple of str
        Bodies of the feet, which carry the robot: two, or four of which the first and the last are on a diagonal.
    trunk : tuple of str
        Bodies that must not touch the ground.
    legs : tuple of str
        Patterns of the geoms of the left and of the right leg; the two legs can touch each other. Default: none.
    ankle : float
        Height of the feet's frames when they stand [m]. Default: 0.
    package : str, optional
        The installed package that has the file. Default: none.

    Examples
    --------
    >>> ws.envs.legged.A1.servo("FR_hip_joint").torque
    33.5
    """

    name: str
    file: str
    base: str
    free: str
    height: float
    stance: dict
    servos: dict
    moved: tuple
    contacts: str
    feet: tuple
    trunk: tuple
    legs: tuple = ()
    ankle: float = 0.0
    package: str | None = None

    def __post_init__(self):
        begin = f"LeggedRobot {self.name!r}"
        positive(self.height, f"{begin}: height", "m")
        if len(self.legs) not in (0, 2):
            raise ValueError(f"{begin}: legs has {len(self.legs)} patterns; give two, or none")
        for field in ("stance", "servos", "contacts", "legs"):
            for pattern in _each(getattr(self, field)):
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"{begin}: {field}: {short(pattern)} is no pattern: {error}") from None
        if not self.moved:
            raise ValueError(f"{begin}: moved is empty; name the joints that the policy moves")
        for joint in self.moved:
            if self.servo(joint) is None:
                raise ValueError(f"{begin}: moved has {short(joint)}, which has no servo; give servos a pattern for it")

    @property
    def joints(self) -> tuple:
        """Names of the joints with a servo, those of `moved` first: a tuple of str. It reads the robot's file."""
        names = tuple(n for n in _file(self).joint_names if self.servo(n) is not None and n not in self.moved)
        return (*self.moved, *names)

    def servo(self, joint: str) -> Servo | None:
        """Find the servo of a joint.

        Parameters
        ----------
        joint : str
            Name of the joint.

        Returns
        -------
        Servo or None
            The servo; None for a passive joint.

        Examples
        --------
        >>> ws.envs.legged.GO1.servo("FR_calf_joint").torque
        35.55
        """
        return _matched(self.servos, joint)

    def pose(self, joints) -> np.ndarray:
        """Angles of joints in the stance.

        Parameters
        ----------
        joints : sequence of str
            Names of the joints.

        Returns
        -------
        array (joints,)
            Angles [rad].

        Examples
        --------
        >>> ws.envs.legged.A1.pose(["FR_hip_joint", "FR_calf_joint"]).tolist()
        [-0.1, -1.5]
        """
        return np.array([_matched(self.stance, name) or 0.0 for name in joints])


def _matched(table: dict, name: str):
    return next((value for pattern, value in table.items() if re.fullmatch(pattern, name)), None)


def _legs(parts) -> tuple:
    return tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in parts)


A1 = LeggedRobot(
    name="a1",
    package="example-robot-data",
    file="a1_description/urdf/a1.urdf",
    base="base",
    free="root",
    height=0.32,
    stance={
        ".R_hip_joint": -0.1,
        ".L_hip_joint": 0.1,
        "F._thigh_joint": 0.8,
        "R._thigh_joint": 1.0,
        ".*_calf_joint": -1.5,
    },
    servos={".*_(hip|thigh|calf)_joint": Servo(25.0, 0.6, 33.5, 0.01)},
    moved=_legs(("hip", "thigh", "calf")),
    contacts=".*_foot/.*|trunk/.*",
    feet=("FR_foot", "FL_foot", "RR_foot", "RL_foot"),
    trunk=("trunk",),
)
GO1 = LeggedRobot(
    name="go1",
    package="mjlab",
    file="unitree_go1/xmls/go1.xml",
    base="trunk",
    free="floating_base_joint",
    height=0.29,
    stance={
        ".R_hip_joint": -0.1,
        ".L_hip_joint": 0.1,
        "F._thigh_joint": 0.8,
        "R._thigh_joint": 1.0,
        ".*_calf_joint": -1.5,
    },
    servos={
        ".*_(hip|thigh)_joint": Servo(20.0, 0.5, 23.7, 1.118e-4 * 6**2),
        ".*_calf_joint": Servo(20.0, 0.5, 35.55, 1.118e-4 * 9**2),
    },
    moved=_legs(("hip", "thigh", "calf")),
    contacts=".*/.._foot_collision|trunk/(trunk|head)_collision",
    feet=("FR_calf", "FL_calf", "RR_calf", "RL_calf"),
    trunk=("trunk",),
)
LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
G1 = LeggedRobot(
    name="g1",
    package="mjlab",
    file="unitree_g1/xmls/g1.xml",
    base="pelvis",
    free="floating_base_joint",
    height=0.778,
    stance={
        ".*_hip_pitch_joint": -0.2,
        ".*_knee_joint": 0.42,
        ".*_ankle_pitch_joint": -0.23,
        ".*_shoulder_pitch_joint": 0.2,
        "left_shoulder_roll_joint": 0.2,
        "right_shoulder_roll_joint": -0.2,
        ".*_elbow_joint": 1.2,
    },
    servos={
        ".*_hip_(pitch|yaw)_joint": Servo(200.0, 5.0, 88.0, 0.0102),
        ".*_hip_roll_joint": Servo(200.0, 5.0, 139.0, 0.0251),
        ".*_knee_joint": Servo(250.0, 5.0, 139.0, 0.0251),
        ".*_ankle_(pitch|roll)_joint": Servo(200.0, 5.0, 50.0, 0.0072),
        "waist_yaw_joint": Servo(200.0, 5.0, 88.0, 0.0102),
        "waist_(pitch|roll)_joint": Servo(200.0, 5.0, 50.0, 0.0072),
        ".*_wrist_(pitch|yaw)_joint": Servo(20.0, 1.0, 5.0, 0.0043),
        ".*_(shoulder_.*|elbow|wrist_roll)_joint": Servo(40.0, 2.0, 25.0, 0.0036),
    },
    moved=tuple(f"{side}_{part}_joint" for side in ("left", "right") for part in LEG),
    contacts=".*/.*_foot[26]_collision|.*/(pelvis|torso|head)_collision",  # capsules 2 and 6 span a foot: 4 points
    feet=("left_ankle_roll_link", "right_ankle_roll_link"),
    trunk=("pelvis", "torso_link"),
    legs=(".*/left_(foot[26]|shin|linkage_brace)_collision", ".*/right_(foot[26]|shin|linkage_brace)_collision"),
    ankle=0.035,
)


LEVELS = 4  # of difficulty of the rough ground


@functools.cache
def ground():
    """The rough ground of the tasks: a `Terrain` with four levels, made once."""
    return terrain(levels=LEVELS)


@functools.cache
def _read(path: str):
    return load(path, **({"base": "free", "visuals": False} if path.endswith(".urdf") else {}))


def _file(robot: LeggedRobot):
    return _read(robot.file if robot.package is None else robot_file(robot.file, robot.package))


def _check(robot: LeggedRobot, builder, labels: list[str]) -> None:
    """Refuse names and patterns of a robot that its file does not have. `labels`: the geoms, "body/geom"."""
    begin, joints = f"LeggedRobot {robot.name!r}", [j.name for j in builder.joints if j.type != JointType.FREE]
    for field, known in (("stance", joints), ("servos", joints), ("contacts", labels), ("legs", labels)):
        for pattern in _each(getattr(robot, field)):
            if not any(re.fullmatch(pattern, label) for label in known):
                raise ValueError(
                    f"{begin}: {field}: nothing in {robot.file} matches {short(pattern)}; it has: {listed(known)}"
                )
    free = [j.name for j in builder.joints if j.type == JointType.FREE]
    bodies = [body.name for body in builder.bodies]
    for field, known in (("free", free), ("base", bodies), ("moved", joints), ("feet", bodies), ("trunk", bodies)):
        for one in _each(getattr(robot, field)):
            choice(one, f"{begin}: {field}", known)


def legged_model(robot: LeggedRobot, rough: bool = False):
    """Build a robot with servos above a plane or rough ground, with the keyframe "stance".

    Feet and trunk touch the ground, and the legs each other where the robot says so. There is no other self-contact.

    Parameters
    ----------
    robot : LeggedRobot
        The robot.
    rough : bool
        Whether it stands on `ground()` instead of a plane. Default: False.

    Returns
    -------
    Model
        The model, with a position actuator for each of `robot.joints` and a time step of 5 ms.

    Raises
    ------
    ValueError
        The robot's file lacks a joint, body or geom that the robot names. The message names it.

    Examples
    --------
    The example needs the package of the robot's file, so that doctest skips it.

    >>> ws.envs.legged.legged_model(ws.envs.legged.A1).nu                  # doctest: +SKIP
    12
    """
    b = ModelBuilder(robot.name, timestep=0.005)
    b.add_model(_file(robot))
    labels = [f"{b.bodies[geom.body].name}/{geom.name or ''}" for geom in b.geoms]
    _check(robot, b, labels)
    for g, (geom, label) in enumerate(zip(b.geoms, labels, strict=True)):
        left, right = (bool(re.fullmatch(leg, label)) for leg in robot.legs or ("", ""))
        touching = int(bool(re.fullmatch(robot.contacts, label)))
        b.geoms[g] = dataclasses.replace(geom, contype=2 * left, conaffinity=touching + 2 * right)
    for j, joint in enumerate(b.joints):
        servo = robot.servo(joint.name)
        if servo is not None:
            b.joints[j] = dataclasses.replace(joint, armature=np.array([servo.armature]))
        elif joint.name == robot.free:  # with straight legs the robot stands higher
            b.joints[j] = dataclasses.replace(joint, q0=np.array([0, 0, 1.5 * robot.height + 0.02, 1.0, 0, 0, 0]))
    for name in robot.joints:
        s = robot.servo(name)
        b.add_actuator(name, "position", kp=s.kp, kv=s.kd, force_range=(-s.torque, s.torque), name=name)
    if rough:
        ground().add_to(b, contype=1, conaffinity=0)
    else:
        b.add_geom("plane", name="ground", contype=1, conaffinity=0)
    order = [joint.name for joint in b.joints if joint.name != robot.free]
    b.add_keyframe("stance", q=np.concatenate([[0, 0, robot.height, 1, 0, 0, 0], robot.pose(order)]))
    return b.build()
