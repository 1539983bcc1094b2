# SPDX-License-Identifier: Apache-2.0
"""A Panda with its gripper, two files of the package `robosuite` put together, picks up a box (`pip install --no-deps robosuite`)."""

import importlib.util
import pathlib

import numpy as np

import warpsim as ws

HOME = np.array([0.0, 0.2, 0.0, -2.62, 0.0, 2.94, 0.785])  # [rad] of the arm: the hand points down
BOX = np.array([0.02, 0.025, 0.04])  # half extents [m]
PLACE = np.array([0.5, 0.1, BOX[2]])
DOWN = np.array([0.0, 1.0, 0.0, 0.0])  # rotation of a hand that points down
OPEN, SHUT = (0.04, -0.04), (0.0, 0.0)  # [m] of the two fingers


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
        b.add_actuator(f"joint{i + 1}", "position", kp=stiffness, kv=0.1 * stiffness, name=f"hold{i + 1}")
    for i, joint in enumerate(j for j in b.joints if j.name.startswith("joint")):
        joint.q0 = np.array([HOME[i]])
    box = b.add_body("box", pose=PLACE)
    b.add_joint(box, "free", name="box")
    b.add_geom("box", BOX, body=box, name="box", density=500.0, rgba=(0.86, 0.37, 0.24, 1))
    return b.build()


def pick_controls(model: ws.Model, steps: int, h: float) -> np.ndarray:
    """Controls (steps, nu): above the box within 0.8 s, down until 1.4 s, shut until 1.8 s, up by 0.25 m until 3 s."""
    sim = ws.Simulator(model, device="cpu", dtype="float64")
    q, path = model.q0, []
    for height in (0.15, 0.01, 0.25):
        goal = np.concatenate([PLACE + (0, 0, height), DOWN])
        q = ws.reach(sim, q, {"gripper/eef": goal}).q[0]
        path.append([q[model.joint_coordinates(f"joint{i + 1}")[0].start] for i in range(7)])
    times, angles = (0.0, 0.8, 1.4, 1.8, 3.0), np.array([HOME, path[0], path[1], path[1], path[2]])
    t, controls = h * np.arange(steps), np.zeros((steps, model.nu))
    for i in range(7):
        controls[:, model.actuator(f"hold{i + 1}")] = np.interp(t, times, angles[:, i])
    for i, (wide, shut) in enumerate(zip(OPEN, SHUT, strict=True)):
        finger = model.actuator(f"gripper/gripper_finger_joint{i + 1}")
        controls[:, finger] = np.interp(t, (1.4, 1.8), (wide, shut))
    return controls
