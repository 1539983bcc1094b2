# SPDX-License-Identifier: Apache-2.0
"""Scenes of rigid contact: those recorded in `tests/reference/data/lcp_jacobians.npz`, walking robots, columns."""

import pathlib

import numpy as np

import warpsim as ws

REFERENCE = np.load(pathlib.Path(__file__).parents[1] / "tests" / "reference" / "data" / "lcp_jacobians.npz")
CUBE = [0.5, 0.5, 0.5]
UP_Y = [0, 0, 0, np.sqrt(0.5), -np.sqrt(0.5), 0, 0]  # a plane's z axis turned to +y


def cube(b: ws.ModelBuilder, name: str, axes, mass: float, position=(0, 0, 0), **material) -> int:
    body = b.add_body(name, pose=[*position, 1, 0, 0, 0], mass=mass, inertia=[1, 1, 1])
    for axis in axes:
        b.add_joint(body, "slide", axis=axis)
    b.add_geom("box", CUBE, body=body, **material)
    return body


def block(
    mu: float, mass: float = 1.0, restitution: float = 0.0, overlap: float = 1e-5, gravity=(0, 0, -9.81)
) -> ws.ModelBuilder:
    b = ws.ModelBuilder("block", gravity=gravity, timestep=1e-3)
    floor = [0, -0.5 + overlap, 0, *UP_Y[3:]]
    b.add_geom("plane", pose=floor, friction=mu, restitution=restitution)
    cube(b, "cube", np.eye(3)[:2], mass, friction=mu)
    return b


def two_blocks(second: float) -> ws.ModelBuilder:
    b = ws.ModelBuilder("two", gravity=[0, 0, -9.81], timestep=1e-3)
    cube(b, "left", [[1, 0, 0]], 1.0, friction=0)
    cube(b, "right", [[1, 0, 0]], second, position=(1 - 1e-5, 0, 0), friction=0)
    return b


def reverse_pendulum() -> ws.ModelBuilder:
    b = block(0.0, overlap=1e-2)
    pole = b.add_body("pole", parent="cube", mass=200.0, com=[0, 1, 0], inertia=[200.0, 200.0, 200.0])
    b.add_joint(pole, "hinge", axis=[0, 0, 1])
    return b


def ball_on_ground() -> ws.ModelBuilder:
    b = ws.ModelBuilder("ball", gravity=[0, 0, -9.81], timestep=1e-3)
    b.add_geom("plane", pose=[0, 0.5, *UP_Y[2:]], friction=0.0)
    ball = b.add_body("ball", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(ball, "slide", axis=[0, 1, 0])
    b.add_geom("sphere", [0.5], body=ball, friction=0.0)
    return b


SCENES = {
    "BALL_ON_FIXED_GROUND": (ball_on_ground(), [0]),
    "BLOCK_NO_FRICTION_M1": (block(0.0), [1, -1]),
    "BLOCK_NO_FRICTION_M2": (block(0.0, 2.0), [1, -1]),
    "BLOCK_SLIP_MU0.5": (block(0.5), [1, -1]),
    "BLOCK_STATIC_MU1e7": (block(1e7), [1, -1]),
    "BLOCK_BOUNCE": (block(0.0, restitution=0.5), [1, -1]),
    "POS_BLOCK_BOUNCE": (block(0.0, restitution=0.5), [0, 0]),
    "TWO_BLOCKS_1_1": (two_blocks(1.0), [1, -1]),
    "TWO_BLOCKS_1_2": (two_blocks(2.0), [2, -1]),
    "SLIDING_REVERSE_PENDULUM": (reverse_pendulum(), [1, -10, 0]),
}

# Open-loop torques A sin(2π f t + phase) + bias, per actuator in the file's order, found by random search over 192 each.
# The ant trots (legs on a diagonal together) at 1.4 m/s, the half-cheetah gallops at 1.7 m/s.
GAITS = {
    "half_cheetah": {
        "frequency": 1.604, "amplitude": [0.883] * 3 + [0.409] * 3, "bias": [0.0] * 6,
        "phase": [0.0, 1.114, 0.891, 3.947, 3.947 + 1.114, 3.947 + 0.891],
    },
    "ant": {
        "frequency": 1.89, "amplitude": [-0.326, 0.254, 0.326, 0.254, 0.326, -0.254, -0.326, -0.254],
        "bias": [0.0, -0.006, 0.0, -0.006, 0.0, 0.006, 0.0, 0.006],
        "phase": [2.98, 2.98 + 3.156, 0.0, 3.156, 2.98, 2.98 + 3.156, 0.0, 3.156],
    },
}  # fmt: skip


def spheres(count: int) -> ws.Model:
    """A column of spheres, each on the one below."""
    b = ws.ModelBuilder(f"{count} spheres", timestep=0.005)
    b.add_geom("plane", friction=0.5)
    for i in range(count):
        body = b.add_body(f"sphere_{i}", pose=[0, 0, 0.05 + 0.1 * i])
        b.add_joint(body, "free")
        b.add_geom("sphere", [0.05], body=body, density=1000.0, friction=0.5)
    return b.build()


def gait(robot: str, steps: int, h: float) -> np.ndarray:
    """Controls (steps, 1, nu) of one robot."""
    g = {key: np.array(value) for key, value in GAITS[robot].items()}
    t = h * np.arange(steps)[:, None]
    return (g["amplitude"] * np.sin(2.0 * np.pi * g["frequency"] * t + g["phase"]) + g["bias"])[:, None]
