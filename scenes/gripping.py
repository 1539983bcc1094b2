# SPDX-License-Identifier: Apache-2.0
"""A Panda with its gripper, two files of the package `robosuite` put together, picks up a box (`pip install --no-deps robosuite`)."""

import importlib.util
import pathlib

import numpy as np

import warpsim as ws

HOME = np.array([0.0, 0.2, 0.0, -2.62, 0.0, 2.94, 0.785])  # [rad] of the arm: the hand points down
BOX = np.array([0.02, 0.025, 0.04])  # half extents [m]
PLACE = np.array([0.5, 0.1, BOX[2]])
OPEN = (0.04, -0.04)  # [m] of the two fingers; shut is 0
ARM, FINGERS = [f"joint{i}" for i in range(1, 8)], ("gripper/finger_joint1", "gripper/finger_joint2")
HAND = "gripper/eef"


def folder() -> pathlib.Path | None:
    """The robots of the package robosuite, None without it. It need not be importable."""
    found = importlib.util.find_spec("robosuite")
    return (
        None
        if found is None
        else pathlib.Path(next(iter(found.submodule_search_locations or ()))) / "models" / "assets"
    )


def pick(h: float = 0.004) -> ws.Model:
    """The arm on the ground, its gripper open above a box; position actuators on its joints beside the file's motors, weights compensated."""
    files = folder()
    if files is None:
        raise FileNotFoundError("the Panda's files are those of the package robosuite: pip install --no-deps robosuite")
    b = ws.ModelBuilder("panda picks up a box", timestep=h)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1))
    b.add_model(ws.load(files / "robots" / "panda" / "robot.xml"))
    b.add_model(ws.load(files / "grippers" / "panda_gripper.xml"), parent="right_hand", prefix="gripper/")
    b.exclude("link5", "gripper/right_gripper")  # whose hulls overlap
    b.exclude("link5", "link7")
    for body in b.bodies:
        body.gravcomp = 1.0
    for i, stiffness in enumerate((2000.0, 2000.0, 2000.0, 2000.0, 400.0, 400.0, 400.0)):
        b.add_actuator(ARM[i], "position", kp=stiffness, kv=0.1 * stiffness, name=f"hold{i + 1}")
    for geom in b.geoms:
        geom.visible = not geom.name.endswith("_collision")
    box = b.add_body("box", pose=PLACE)
    b.add_joint(box, "free", name="box")
    b.add_geom("box", BOX, body=box, name="box", density=500.0, rgba=(0.86, 0.37, 0.24, 1))
    model = b.build()
    q = model.q0.copy()
    for name, value in zip((*ARM, *FINGERS), (*HOME, *OPEN), strict=True):
        q[model.joint_coordinates(name)[0]] = value
    b.add_keyframe("home", q=q)
    return b.build()


def pick_controls(steps: int, h: float) -> np.ndarray:
    """Controls (steps, nu) for `pick`: above the box within 0.8 s, down until 1.4 s, shut until 1.8 s, up by 0.25 m until 3 s."""
    model = pick(h)
    sim = ws.Simulator(model, device="cpu", dtype="float64")
    q, arm = model.keyframes["home"].q, [model.joint_coordinates(name)[0].start for name in ARM]
    turn = sim.kinematics(q).numpy()[0, model.body(HAND), 3:]
    path = [q[arm]]
    for height in (0.12, 0.0, 0.25):
        reached = ws.reach(sim, q, {HAND: np.concatenate([PLACE + (0, 0, height), turn])}, iterations=100)
        q = reached.q[0]
        path.append(q[arm])
    t, controls = h * np.arange(steps), np.zeros((steps, model.nu))
    for i in range(len(ARM)):
        points = [path[k][i] for k in (0, 1, 2, 2, 3)]
        controls[:, model.actuator(f"hold{i + 1}")] = np.interp(t, (0.0, 0.8, 1.4, 1.8, 3.0), points)
    for i, wide in enumerate(OPEN):
        controls[:, model.actuator(f"gripper/gripper_finger_joint{i + 1}")] = np.interp(t, (1.4, 1.8), (wide, 0.0))
    return controls
