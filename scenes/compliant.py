# SPDX-License-Identifier: Apache-2.0
"""The systems of the compliant-constraint paper (Drumwright), of its tests and of `papers/ccs`."""

import numpy as np

import warpsim as ws

GRAVITY = 9.81
FOOT = 0.01  # [m] radius of the feet of the box on the incline
MODULUS = 1e11  # [Pa] E* of the incline and the stack


def pendulum(stiffness: float, damping: float = 1.0, copies: int = 1, world_axes: bool = False) -> ws.Model:
    """A bob in absolute coordinates (x, z, θ), 1 kg at the end of 1 m, horizontal, tied `copies` times to the origin.

    The deformation is measured in the axes of the bob, or, as the paper does, in those of the world.
    """
    b = ws.ModelBuilder("pendulum")
    b.add_body("bob", pose=[1.0, 0.0, 0.0], mass=1.0, inertia=[0.1, 0.1, 0.1])
    b.add_joint("bob", "slide", axis=[1.0, 0.0, 0.0])
    b.add_joint("bob", "slide", axis=[0.0, 0.0, 1.0])
    b.add_joint("bob", "hinge", axis=[0.0, 1.0, 0.0])
    ends = [("bob", [-1.0, 0.0, 0.0]), ("world", [0.0, 0.0, 0.0])]
    (a, pose_a), (c, pose_b) = ends[::-1] if world_axes else ends
    law = {"stiffness": stiffness, "dissipation_time": damping / stiffness}
    for _ in range(copies):
        b.add_constraint("connect", a, c, pose_a=pose_a, pose_b=pose_b, **law)
    return b.build()


def pendulum_deviation(q) -> np.ndarray:
    """Distance of the bob's end from the joint, q (..., 3) = (x − 1, z, θ)."""
    return np.hypot(1.0 + q[..., 0] - np.cos(q[..., 2]), q[..., 1] + np.sin(q[..., 2]))


def pendulum_energy(q, v) -> np.ndarray:
    """Kinetic and gravity's energy [J], 0 at the start."""
    return 0.5 * (v[..., 0] ** 2 + v[..., 1] ** 2) + 0.05 * v[..., 2] ** 2 + GRAVITY * q[..., 1]


def pendulum_with_stop(stiffness: float) -> ws.Model:
    """A bob of 1 kg on 1 m (I = 1.004 kg m²) whose hinge angle θ ≥ 0 a wall limits; θ = 0 hangs and touches."""
    b = ws.ModelBuilder("pendulum with a stop")
    b.add_geom("plane", pose=[0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0], friction=0.0)  # normal +x
    b.add_body("bob", pose=[0.1, 0.0, 0.0], mass=1.0, com=[0.0, 0.0, -1.0], inertia=[0.004, 0.004, 0.004])
    b.add_joint("bob", "hinge", axis=[0.0, -1.0, 0.0])
    material = {"stiffness": stiffness, "dissipation_time": 0.0, "friction": 0.0}
    b.add_geom("sphere", [0.1], body="bob", pose=[0.0, 0.0, -1.0], density=0.0, **material)
    return b.build()


def cube_on_foundation(elements: int, modulus: float) -> ws.Model:
    """A cube of 1 m and 8 kg/m³ on an elastic foundation 1 m deep, B = 1 N s/m per element, no friction."""
    side = round(np.sqrt(elements))
    b = ws.ModelBuilder("cube on a foundation")
    b.add_geom("plane", friction=0.0, dissipation_time=0.0)
    b.add_body("cube", pose=[0.0, 0.0, 0.5])
    b.add_joint("cube", "free")
    b.add_geom("box", [0.5] * 3, body="cube", density=8.0, friction=0.0)
    b.add_foundation("cube", "-z", side, side, modulus=modulus, thickness=1.0, dissipation_time=elements / modulus)
    return b.build()


def box_on_incline(friction: float, tilt: float = np.radians(15.0)) -> ws.Model:
    """A box of 1 kg, 0.2 × 0.1 × 0.05 m, on four Hertz feet that touch; gravity leans towards +x. B_n = 1 N s/m at rest."""
    depth = (GRAVITY * np.cos(tilt) / 4.0 / (MODULUS * np.sqrt(FOOT))) ** (2.0 / 3.0)
    time = 1.0 / (1.5 * MODULUS * np.sqrt(FOOT * depth))
    b = ws.ModelBuilder("incline", gravity=(GRAVITY * np.sin(tilt), 0.0, -GRAVITY * np.cos(tilt)))
    b.add_geom("plane", friction=friction, dissipation_time=time)
    inertia = np.array([0.1**2 + 0.05**2, 0.2**2 + 0.05**2, 0.2**2 + 0.1**2]) / 12.0
    b.add_body("box", pose=[0.0, 0.0, FOOT + 0.025], mass=1.0, inertia=inertia)
    b.add_joint("box", "free")
    b.add_geom("box", [0.1, 0.05, 0.025], body="box", contype=0, conaffinity=0)
    for x in (-0.1, 0.1):
        for y in (-0.05, 0.05):
            material = {"friction": friction, "hertz_modulus": MODULUS, "dissipation_time": time}
            b.add_geom("sphere", [FOOT], body="box", pose=[x, y, -0.025], **material)
    return b.build()


def stack_of_spheres(count: int, radius: float = 0.1, gap: float = 0.02) -> ws.Model:
    """Spheres of steel-like modulus and 1000 kg/m³ above each other in mid-air, `gap` [m] apart."""
    b = ws.ModelBuilder("stack")
    b.add_geom("plane", friction=0.5, dissipation_time=0.0)
    for i in range(count):
        b.add_body(f"ball{i}", pose=[0.0, 0.0, radius + gap + i * (2.0 * radius + gap)])
        b.add_joint(f"ball{i}", "free")
        material = {"friction": 0.5, "hertz_modulus": MODULUS, "dissipation_time": 0.0}
        b.add_geom("sphere", [radius], body=f"ball{i}", density=1000.0, **material)
    return b.build()


def thrown_body(kind: str) -> ws.Model:
    """A box or a sphere of 8 kg/m³ just above the floor, friction ½; give its stiffness as a parameter."""
    b = ws.ModelBuilder("thrown")
    b.add_geom("plane", friction=0.5, dissipation_time=0.0)
    b.add_body("body", pose=[0.0, 0.0, 0.501])
    b.add_joint("body", "free")
    material = {"stiffness": 1e6, "friction": 0.5, "dissipation_time": 0.0}
    b.add_geom(kind, [0.5] * 3 if kind == "box" else [0.5], body="body", density=8.0, **material)
    return b.build()


def stored_energy(sim: ws.Simulator, q, v, stiffness) -> np.ndarray:
    """Kinetic, gravity's and the contacts' elastic energy [J] of one state per world; `stiffness (worlds,)`."""
    state = sim.state(q, v)
    kinetic, potential = (x.numpy() for x in sim.energy(state))
    contacts = sim.contacts(state)
    used = np.arange(contacts.phi.shape[1]) < contacts.count[:, None]
    elastic = 0.5 * stiffness * (used * np.minimum(contacts.phi, 0.0) ** 2).sum(1)
    return kinetic + potential + elastic
