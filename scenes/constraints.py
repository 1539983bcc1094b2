# SPDX-License-Identifier: Apache-2.0
"""Scenes with constraints: linkages, ropes, drives, platforms."""

import numpy as np

import warpsim as ws
from warpsim.model.geometry import IDENTITY, axis_angle, compose
from warpsim.model.host_kinematics import body_poses

TURN_Z_INTO_Y = axis_angle([1, 0, 0], -np.pi / 2)


def fourbar(kind="hinge", lengths=(0.3, 0.5, 0.4, 0.6), angle=0.3, frame=None, **options) -> ws.Model:
    """Crank, coupler and rocker of uniform rods (1 kg/m) hanging from two pivots; the loop closes by a constraint.

    `lengths` of crank, coupler, rocker and ground [m]; `angle` of the crank from straight down [rad]; y is the axis.
    `frame` of the constraint in the coupler where it is not the aligned one, the rocker's staying as it is.
    """
    a, b, c, d = lengths
    P, D = a * np.array([np.sin(angle), 0.0, -np.cos(angle)]), np.array([d, 0.0, 0.0])
    along = (D - P) / np.linalg.norm(D - P)
    reach = np.linalg.norm(D - P)
    x = (b * b - c * c + reach * reach) / (2 * reach)
    across = np.array([along[2], 0.0, -along[0]]) * (1 if along[0] > 0 else -1)
    Q = P + x * along + np.sqrt(b * b - x * x) * across
    turns = [np.arctan2(-v[0], -v[2]) for v in (P, Q - P, Q - D)]
    builder = ws.ModelBuilder("fourbar")
    for name, parent, at, length, turn in (
        ("crank", -1, [0, 0, 0], a, turns[0]),
        ("coupler", "crank", [0, 0, -a], b, turns[1] - turns[0]),
        ("rocker", -1, [d, 0, 0], c, turns[2]),
    ):
        inertia = [length**3 / 12, length**3 / 12, 1e-4]
        pose = [*at, *axis_angle([0, 1, 0], turn)]
        builder.add_body(name, parent=parent, pose=pose, mass=length, com=[0, 0, -length / 2], inertia=inertia)
        builder.add_joint(name, "hinge", name=name, axis=[0, 1, 0])
    aligned = [0, 0, -b, *TURN_Z_INTO_Y]
    if frame is not None:
        options["pose_b"] = [0, 0, -c, *TURN_Z_INTO_Y]
    builder.add_constraint(kind, "coupler", "rocker", name="pin", pose_a=aligned if frame is None else frame, **options)
    return builder.build()


def stewart() -> ws.Model:
    """A platform on six legs: universal joint at the base, slide with a servo, ball at the platform; 24 dofs, 18 rows."""
    height, b = 0.6, ws.ModelBuilder("stewart")
    b.add_body("platform", pose=[0, 0, height], mass=5.0, inertia=[0.1, 0.1, 0.15])
    b.add_joint("platform", "free", name="platform")
    for k in range(6):
        base, top = (np.radians(120 * (k // 2) + (-x if k % 2 else x)) for x in (20, 45))
        foot = 0.5 * np.array([np.cos(base), np.sin(base), 0.0])
        leg = np.array([0.25 * np.cos(top), 0.25 * np.sin(top), height]) - foot
        length = np.linalg.norm(leg)
        axis = np.cross([0, 0, 1], leg / length)
        turn = axis_angle(axis / np.linalg.norm(axis), np.arctan2(np.linalg.norm(axis), leg[2] / length))
        b.add_body(f"cylinder{k}", pose=[*foot, *turn], mass=0.5, com=[0, 0, 0.15], inertia=[4e-3, 4e-3, 2e-4])
        for name, direction in (("u", [1, 0, 0]), ("v", [0, 1, 0])):
            b.add_joint(f"cylinder{k}", "hinge", name=f"{name}{k}", axis=direction)
        pose = [0, 0, length - 0.2]
        b.add_body(f"rod{k}", parent=f"cylinder{k}", pose=pose, mass=0.3, com=[0, 0, 0.1], inertia=[1e-3, 1e-3, 1e-4])
        b.add_joint(f"rod{k}", "slide", name=f"leg{k}", axis=[0, 0, 1], range=[-0.2, 0.2])
        b.add_constraint("connect", f"rod{k}", "platform", name=f"ball{k}", pose_a=[0, 0, 0.2])
        b.add_actuator(f"leg{k}", "position", name=f"servo{k}", kp=2e4, kv=300.0, force_range=(-500, 500))
    return b.build()


def gaps(model: ws.Model, q) -> np.ndarray:
    """Distance [m] of the two frames of every constraint between bodies, `(..., n)`, for positions `q (..., nq)`."""
    poses = body_poses(model, np.asarray(q, float))
    poses = np.concatenate([poses, np.broadcast_to(IDENTITY, (*poses.shape[:-2], 1, 7))], axis=-2)
    ends = [
        compose(poses[..., model.constraint_body[:, end], :], model.constraint_pose[:, end])[..., :3] for end in (0, 1)
    ]
    return np.linalg.norm(ends[0] - ends[1], axis=-1)


def welded_beam(kind="weld", **options) -> ws.Model:
    """A hinged beam (an axis at an angle), with a free box of 10 kg welded to its end, or held by another `kind`.

    A "rope" is a distance that starts at its longest.
    """
    b = ws.ModelBuilder("welded beam")
    b.add_body("beam", pose=[0, 0, 1], mass=2.0, com=[0.25, 0, 0], inertia=[0.01, 0.05, 0.05])
    b.add_joint("beam", "hinge", name="pivot", axis=[0.1, 1.0, 0.2], damping=0.3)
    b.add_body("box", pose=[0.6, 0.05, 1.02, *axis_angle([0.6, 0, 0.8], 0.4)], mass=10.0, inertia=[0.1, 0.15, 0.2])
    b.add_joint("box", "free", name="box")
    if kind in ("distance", "rope"):
        options |= {"pose_a": [0.6, 0, 0.5], "pose_b": [0.1, 0, 0.05]}
    if kind == "rope":
        kind, options["length"] = "distance", (0.0, welded_beam("distance").constraint_coefficients[0, 0])
    b.add_constraint(kind, "beam", "box", name="glue", **options)
    return b.build()


def mimic_pair(**options) -> ws.Model:
    """Two pendulums, the second following the first by a cubic."""
    b = ws.ModelBuilder("mimic")
    for k, x in enumerate((0.0, 1.0)):
        b.add_body(f"arm{k}", pose=[x, 0, 0], mass=1.0 + k, com=[0.1, 0, -0.3], inertia=[0.02, 0.02, 0.01])
        b.add_joint(f"arm{k}", "hinge", name=f"q{k}", axis=[0, 1, 0], damping=0.05)
    coefficients = (0.05, -0.7, 0.3, 0.2)
    b.add_constraint("joint", "q1", "q0", name="follow", coefficients=coefficients, **options)
    return b.build()


def ropes() -> ws.Model:
    """A three-joint finger with tendons: a spring with damper, a limit, dry friction, a servo; and a coupling."""
    b = ws.ModelBuilder("finger")
    for k in range(3):
        parent = f"link{k - 1}" if k else -1
        pose = [0.3, 0, 0] if k else [0, 0, 0]
        b.add_body(f"link{k}", parent=parent, pose=pose, mass=0.5, com=[0.15, 0, 0], inertia=[1e-3, 4e-3, 4e-3])
        b.add_joint(f"link{k}", "hinge", name=f"q{k}", axis=[0, 1, 0], damping=0.02)
    b.add_tendon({"q0": 0.02, "q1": 0.015}, name="spring", stiffness=3e3, damping=20.0, reference=(0.0, 0.001))
    b.add_tendon({"q1": 0.5, "q2": 1.0}, name="limit", range=(-0.5, 0.2))
    b.add_tendon({"q0": 1.0, "q2": -1.0}, name="friction", friction=0.05)
    b.add_tendon({"q0": 0.3, "q1": 0.2, "q2": 0.1}, name="pull")
    b.add_actuator(tendon="pull", kind="position", name="servo", kp=80.0, kv=2.0, gear=1.5)
    b.add_actuator(tendon="pull", kind="effort", name="motor", gear=0.7)
    return b.build()


def driven_pair(limit=2.0) -> ws.Model:
    """Two hinged arms with position servos of one effort limit: how far the targets lie decides who saturates."""
    b = ws.ModelBuilder("servos")
    for k in range(2):
        b.add_body(f"arm{k}", pose=[k, 0, 1], mass=1.0, com=[0, 0, -0.2], inertia=[0.1, 0.1, 0.1])
        b.add_joint(f"arm{k}", "hinge", name=f"q{k}", axis=[0, 1, 0])
        b.add_actuator(
            f"q{k}", "position", name=f"servo{k}", kp=10.0, kv=0.5, gear=1.3, force_range=(-limit, 0.8 * limit)
        )
    return b.build()


def nut(pitch=0.2, **options) -> ws.Model:
    """A nut of 2 kg on a vertical screw; `options` of the constraint."""
    b = ws.ModelBuilder("nut")
    b.add_body("nut", pose=[0.1, 0, 1], mass=2.0, inertia=[0.01, 0.012, 0.015])
    b.add_joint("nut", "free", name="nut")
    b.add_constraint("screw", "world", "nut", name="thread", pitch=pitch, **options)
    return b.build()


def every_constraint(screw=False) -> ws.Model:
    """Every kind of constraint, tendon and row between a chain, a ball-jointed and a free body, and the world.

    The one that no file format has, a screw, if asked for.
    """
    b = ws.ModelBuilder("every")
    for k in range(3):
        pose = [0.3, 0.1 * k, 0, 0.8, 0, 0.6, 0]
        b.add_body(f"body{k}", parent=k - 1, pose=pose, mass=1, com=[0.1, 0, 0.02], inertia=[0.1, 0.2, 0.15])
        b.add_joint(f"body{k}", "hinge", name=f"h{k}", axis=[0, 1, 0.2 * k])
    b.add_body("loose", pose=[1, 1, 1], mass=1, inertia=[0.1, 0.15, 0.2])
    b.add_joint("loose", "free", name="root")
    b.add_body("hand", parent="loose", pose=[0.2, 0, 0.1], mass=0.5, com=[0, 0.1, 0], inertia=[0.02] * 3)
    b.add_joint("hand", "ball", name="wrist", anchor=[0, 0, -0.1])
    forces = {"stiffness": 3.0, "damping": 0.1, "friction": 0.2}
    b.add_tendon({"h0": 1.1, "h2": -0.3}, name="t", range=(-1, 2), reference=(0, 1), **forces)
    b.add_tendon({"h1": 2.0}, name="u")
    b.add_constraint("joint", "h0", "h1", name="c0", coefficients=(0.1, 0.2, 0.3, -0.4, 0.5))
    b.add_constraint(
        "connect", "body2", "world", name="c1", pose_a=[0.1, 0.2, 1 / 3], stiffness=1e4, dissipation_time=0.01
    )
    b.add_constraint("weld", "loose", "body0", name="c2", stiffness=(1e3, 2e3))
    b.add_constraint("tendon", "t", "u", name="c3", stiffness=5e3, coefficients=(0.0, 1.0, 0.2))
    b.add_constraint("hinge", "body1", "loose", name="c4", pose_b=[0.1, 0, 0, 0.6, 0.8, 0, 0])
    b.add_constraint("slide", "world", "hand", name="c5")
    b.add_constraint("distance", "body0", "loose", name="c6", pose_b=[0, 0, 1 / 7])
    b.add_constraint("distance", "body1", None, name="c7", length=(0.0, 2.5))
    b.add_constraint("distance", "body1", "hand", name="c8", length=(0.1, np.inf))
    b.add_constraint("weld", "hand", "body2", name="c9", active=False)
    if screw:
        b.add_constraint("screw", "body1", "hand", name="c10", pitch=1.5, stiffness=(1e3, 2e3))
    b.add_actuator(tendon="t", name="winch", kind="position", kp=3.0, kv=0.2, gear=2.0)
    b.add_actuator("h1", name="servo", kind="position", kp=5.0, kv=0.3, gear=1.5, force_range=(-1.0, 2.0))
    return b.build()
