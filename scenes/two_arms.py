# SPDX-License-Identifier: Apache-2.0
"""The scene of the SAP paper's §VI-E: two arms with hands, a jar with its lid and 16 marbles, a bowl and a table; 160 degrees of freedom.

The arms (KUKA iiwa) are those of the package `robosuite`, the hands (Allegro) those of `example-robot-data`; the rest is built here.
Nothing of either package is imported: `folders` finds their files where they are installed or unpacked.
"""

import contextlib
import importlib.util
import math
import pathlib
import re
import typing
import warnings

import mujoco
import numpy as np

import warpsim as ws
from scenes.jar import IDENTITY, Jar, add_jar, add_lid, lid_inertia, turned

IIWA = "robosuite/models/assets/robots/iiwa/robot.xml"
ALLEGRO = "example-robot-data/robots/allegro_hand_description/urdf/allegro_{side}_hand.urdf"
SIDES = {"left": 0.3, "right": -0.3}  # y [m] of the arms' bases
FLANGE = 0.095  # [m] from the arm's last frame to the palm's: the palm's box is as long

ARM_KP = (800.0, 800.0, 600.0, 600.0, 300.0, 150.0, 80.0)  # [N m/rad]
ARM_DAMPING = 0.1  # kd/kp [s]
HAND_KP, HAND_KD, HAND_EFFORT = 3.0, 0.1, 0.7  # [N m/rad], [N m s/rad], [N m]
HAND_ARMATURE = 1e-3  # [kg m²] of the hands' geared motors, which the files leave out

JAR = Jar(height=0.14, cap=0.024, cap_radius=0.05, interference=1e-4, plug_modulus=2e5, jar_mass=0.2, lid_mass=0.05)
JAR_AT, BOWL_AT = (0.65, 0.12), (0.65, -0.18)  # [m]
MOUNTED = {
    "left": 2.356,
    "right": 0.0,
}  # [rad] of the hands about the wrists, so that the left one can turn the jar over
MARBLE_RADIUS, MARBLE_MASS, MARBLES = 0.010, 0.05, 16
TOUCH_STIFFNESS = 1e5  # [N/m] of marbles
HAND, THING = 2, 1  # bits of contype: hands touch things, not each other
ROBOT_LINKS = "the arms' links touch nothing; their hands do"


class Folders(typing.NamedTuple):
    """Where the two packages' files are."""

    robosuite: pathlib.Path
    robots: pathlib.Path


def folders(*roots) -> Folders | None:
    """The files of `robosuite` and `example-robot-data` in the folders `roots` (unpacked wheels) or among the installed packages; None without them."""
    places = [pathlib.Path(root) for root in roots]
    for name in ("robosuite", "cmeel", "example_robot_data"):
        with contextlib.suppress(ImportError, ValueError):
            found = importlib.util.find_spec(name)
            places += [pathlib.Path(p).parent for p in (found.submodule_search_locations or ())] if found else []
    arm = next((p / IIWA for p in places if (p / IIWA).is_file()), None)
    share = [q for p in places for q in (p, p / "cmeel.prefix" / "share", p / "share")]
    hand = next((q for q in share if (q / ALLEGRO.format(side="left")).is_file()), None)
    return None if arm is None or hand is None else Folders(arm, hand)


def _hand(robots: pathlib.Path, side: str) -> mujoco.MjSpec:
    """An Allegro hand without its drawings, with motors' inertias, and gains of its position control as damping."""
    text = (robots / ALLEGRO.format(side=side)).read_text()
    text = re.sub(r"<visual>.*?</visual>", "", text, flags=re.S)
    options = '<mujoco><compiler fusestatic="false" discardvisual="true" balanceinertia="true"/></mujoco>'
    hand = mujoco.MjSpec.from_string(re.sub(r"(<robot[^>]*>)", rf"\1{options}", text, count=1))
    for joint in hand.joints:
        joint.damping, joint.frictionloss, joint.armature = np.array([0.0, 0.0, 0.0]), 0.0, HAND_ARMATURE
    for geom in hand.geoms:
        geom.contype, geom.conaffinity, geom.rgba = HAND, 0, (0.25, 0.25, 0.28, 1.0)
    return hand


def robots(files: Folders, drawn: bool = True) -> ws.Model:
    """Both arms with their hands: 46 degrees of freedom; with `drawn` the arms' meshes, which touch nothing."""
    top = mujoco.MjSpec()
    top.compiler.balanceinertia = True
    for side, y in SIDES.items():
        arm, hand = mujoco.MjSpec.from_file(str(files.robosuite)), _hand(files.robots, side)
        for geom in list(arm.geoms):
            if geom.name.endswith("_collision") or not drawn:
                arm.delete(geom)
        for motor in list(arm.actuators):
            arm.delete(motor)
        wrist = arm.body("right_hand").add_frame(pos=[0, 0, FLANGE], quat=turned(MOUNTED[side]))
        wrist.attach_body(hand.worldbody.first_body(), "hand_", "")
        top.worldbody.add_frame(pos=[0, y, 0]).attach_body(arm.worldbody.first_body(), f"{side}_", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ws.load(top.compile())


def add_table(b: ws.ModelBuilder, friction: float) -> None:
    """Two plates whose upper sides are z = 0, one under the jar and one under the bowl, so that each says what it bears."""
    for name, y in (("table jar", 0.26), ("table bowl", -0.26)):
        b.add_geom(
            "box", (0.2, 0.26, 0.02), pose=(0.76, y, -0.02, *IDENTITY), name=name, friction=friction,
            contype=THING, conaffinity=THING | HAND, rgba=(0.75, 0.7, 0.62, 1),
        )  # fmt: skip


def add_bowl(
    b: ws.ModelBuilder, at, friction: float = 0.5, plates: int = 12, radius: float = 0.085, lean: float = 0.5
) -> int:
    """A bottom and `plates` that lean outwards."""
    bowl = b.add_body("bowl", pose=(*at, 0.0, *IDENTITY), mass=0.5, com=(0, 0, 0.02), inertia=(1.5e-3, 1.5e-3, 2.5e-3))
    b.add_joint(bowl, "free")
    options = {
        "body": bowl,
        "friction": friction,
        "contype": THING,
        "conaffinity": THING | HAND,
        "rgba": (0.4, 0.6, 0.45, 1),
    }
    thick, tall = 0.003, 0.04
    b.add_geom("cylinder", (radius, thick), pose=(0, 0, thick, *IDENTITY), name="bowl bottom", **options)
    wide = (radius + 2 * tall * math.sin(lean)) * math.tan(math.pi / plates)
    for i in range(plates):
        a = 2 * math.pi * i / plates
        r, z = radius + tall * math.sin(lean), thick + tall * math.cos(lean)
        quat = _product((math.cos(a / 2), 0, 0, math.sin(a / 2)), (math.cos(lean / 2), 0, math.sin(lean / 2), 0))
        pose = (r * math.cos(a), r * math.sin(a), z, *quat)
        b.add_geom("box", (thick, wide, tall), pose=pose, name=f"bowl plate {i}", **options)
    return bowl


def _product(a, b) -> tuple:
    from warpsim.model.geometry import quaternion_multiply

    return tuple(quaternion_multiply(np.asarray(a, float), np.asarray(b, float)))


def marble_places(count: int = MARBLES) -> np.ndarray:
    """(count, 3) in the jar's frame: rings of five."""
    ring, gap = 0.0215, 2.05 * MARBLE_RADIUS
    k = np.arange(count)
    turn = 2 * math.pi * (k % 5 + 0.5 * (k // 5 % 2)) / 5
    height = JAR.wall + MARBLE_RADIUS + gap * (k // 5)
    return np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=1)


def task_scene(files: Folders, marbles: int = MARBLES, drawn: bool = True) -> ws.Model:
    """Everything: the robots' coordinates first (left arm, left hand, right arm, right hand), then jar, lid, bowl and marbles.

    Position actuators on the joints of the robots, in that order: kp and kv of the arms and hands. The effort limit of the hands is kept by the
    targets that `papers.sap.two_arms` gives them, and the robots' weight by `tau`.
    """
    b = ws.ModelBuilder("two arms open a jar", timestep=0.005)
    b.add_model(robots(files, drawn))
    add_table(b, 0.5)
    jar = b.add_body(
        "jar", pose=(*JAR_AT, 0.0, *IDENTITY), mass=JAR.jar_mass, com=(0, 0, 0.065), inertia=(4.5e-4, 4.5e-4, 2.8e-4)
    )
    b.add_joint(jar, "free")
    touching = {"contype": THING, "conaffinity": THING | HAND}
    add_jar(b, JAR, jar, **touching)
    lid = b.add_body("lid", pose=(*JAR_AT, JAR.height, *IDENTITY), mass=JAR.lid_mass, inertia=lid_inertia(JAR))
    b.add_joint(lid, "free")
    add_lid(b, JAR, lid, **touching)
    add_bowl(b, BOWL_AT)
    for k, place in enumerate(marble_places(marbles)):
        at = place + (*JAR_AT, 0.0)
        inertia = np.full(3, 0.4 * MARBLE_MASS * MARBLE_RADIUS**2)
        marble = b.add_body(f"marble {k}", pose=(*at, *IDENTITY), mass=MARBLE_MASS, inertia=inertia)
        b.add_joint(marble, "free")
        colour = (0.2 + 0.05 * k, 0.3, 0.85 - 0.04 * k, 1.0)
        b.add_geom("sphere", (MARBLE_RADIUS,), body=marble, name=f"marble {k}", friction=0.3, stiffness=TOUCH_STIFFNESS,
                   dissipation_time=0.01, rgba=colour, **touching)  # fmt: skip
    for side in SIDES:
        for i, kp in enumerate(ARM_KP):
            b.add_actuator(f"{side}_joint_{i + 1}", "position", kp=kp, kv=ARM_DAMPING * kp, name=f"{side} arm {i}")
        for i in range(16):
            b.add_actuator(f"{side}_hand_joint_{i}.0", "position", kp=HAND_KP, kv=HAND_KD, name=f"{side} finger {i}")
    return b.build()
