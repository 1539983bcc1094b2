# SPDX-License-Identifier: Apache-2.0
"""Scenes that examples, tests and benchmarks share. Each function returns a built `ws.Model`; `SCENES` says how they start."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

import warpsim as ws
from warpsim.tools.runs import perturbed_start, smooth_controls

BOX_SIDE = 0.1
SPHERE_RADIUS = 0.05
DENSITY = 1000.0
CONTAINER = 0.8


def asset(name: str) -> str:
    """Path of a robot file of the gymnasium package."""
    import gymnasium

    return str(pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml")


def clutter(bodies: int, *, walls: bool = True, shapes: str = "mixed", h: float = 0.01, seed: int = 0) -> ws.Model:
    """The clutter of Castro, Permenter and Han, §VI-C: four columns of spheres and boxes dropped into a container.

    `shapes`: "mixed" or "spheres". k = 1e12 N/m, mu = 1, dissipation time h.
    """
    rng = np.random.default_rng(seed)
    material = {"friction": 1.0, "stiffness": 1e12, "dissipation_time": h}
    b = ws.ModelBuilder(f"clutter {bodies} {shapes}", timestep=h)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1), **material)
    if walls:
        for i, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size = [0.05, CONTAINER / 2 + 0.1, CONTAINER / 2] if x else [CONTAINER / 2 + 0.1, 0.05, CONTAINER / 2]
            centre = [x * (CONTAINER / 2 + 0.05), y * (CONTAINER / 2 + 0.05), CONTAINER / 2]
            b.add_geom("box", size, pose=centre, name=f"wall_{i}", visible=False, **material)
    colours = np.array([[0.86, 0.37, 0.34], [0.34, 0.55, 0.86], [0.95, 0.73, 0.29], [0.42, 0.70, 0.45]])
    for i in range(bodies):
        column, level = i % 4, i // 4
        x, y = ((column % 2) - 0.5) * 0.3, ((column // 2) - 0.5) * 0.3
        offset = rng.uniform(-0.01, 0.01, size=2)
        body = b.add_body(f"object_{i}", pose=[x + offset[0], y + offset[1], 0.1 + 0.15 * level])
        b.add_joint(body, "free", name=f"free_{i}")
        rgba = (*colours[column], 1.0)
        if shapes == "spheres" or (i + level) % 2 == 0:
            b.add_geom("sphere", [SPHERE_RADIUS], body=body, density=DENSITY, rgba=rgba, **material)
        else:
            b.add_geom("box", [BOX_SIDE / 2] * 3, body=body, density=DENSITY, rgba=rgba, **material)
    return b.build()


class SpringCylinder:
    """A cylinder on the ground and on a spring, Castro, Permenter and Han, §VI-B; SI units.

    It slides at mu = 0 and rolls without slip at mu = 1. q = (x, z, angle) from the spring's rest and from touching.
    """

    radius, mass, spring, start = 0.05, 0.5, 100.0, 0.1
    contact_stiffness, dissipation_time, gravity = 1e4, 0.02, 9.81
    inertia = 0.5 * mass * radius**2
    at_rest = np.array([start, -mass * gravity / contact_stiffness, 0.0])  # drawn out, sunk in by its weight

    def __init__(self, mu: float):
        self.mu = mu
        # The contact point sits at half the penetration.
        rolling_radius = self.radius - self.mass * self.gravity / (2.0 * self.contact_stiffness)
        rolling_mass = self.inertia / rolling_radius**2 if mu > 0.0 else 0.0
        self.frequency = float(np.sqrt(self.spring / (self.mass + rolling_mass)))  # [rad/s]

    def model(self) -> ws.Model:
        """The plane motion as two slides and a hinge; a sphere has the cylinder's contact."""
        b = ws.ModelBuilder("spring-cylinder", gravity=(0.0, 0.0, -self.gravity))
        # Compliances add: twice the stiffness each.
        stiffness = 2.0 * self.contact_stiffness
        material = {"friction": self.mu, "stiffness": stiffness, "dissipation_time": self.dissipation_time}
        b.add_geom("plane", name="floor", **material)
        b.add_body("cylinder", pose=[0.0, 0.0, self.radius], mass=self.mass, inertia=[self.inertia] * 3)
        b.add_joint("cylinder", "slide", name="x", axis=[1.0, 0.0, 0.0], stiffness=self.spring)
        b.add_joint("cylinder", "slide", name="z", axis=[0.0, 0.0, 1.0])
        b.add_joint("cylinder", "hinge", name="turn", axis=[0.0, 1.0, 0.0])
        b.add_geom("sphere", [self.radius], body="cylinder", density=0.0, **material)
        return b.build()

    def energy(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Energy of the motion and of the spring [J], without gravity's and the contact's."""
        kinetic = self.mass * (v[..., 0] ** 2 + v[..., 1] ** 2) + self.inertia * v[..., 2] ** 2
        return 0.5 * (kinetic + self.spring * q[..., 0] ** 2)

    def error(self, q: np.ndarray, time: np.ndarray) -> float:
        """L2 norm of x(t) - start cos(frequency t) [m]."""
        return float(np.sqrt(np.mean((q[..., 0] - self.start * np.cos(self.frequency * time)) ** 2)))


def stack(boxes: int = 10, *, side: float = 0.1, h: float = 0.005) -> ws.Model:
    """A tower of equal boxes, each resting on the one below."""
    b = ws.ModelBuilder(f"stack of {boxes}", timestep=h)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1))
    for i in range(boxes):
        body = b.add_body(f"box_{i}", pose=[0, 0, side * (i + 0.5)])
        b.add_joint(body, "free", name=f"free_{i}")
        shade = 0.35 + 0.5 * i / max(boxes - 1, 1)
        b.add_geom("box", [side / 2] * 3, body=body, density=DENSITY, friction=0.8, rgba=(0.3, shade, 0.9, 1))
    return b.build()


def dominoes(count: int = 20, *, h: float = 0.005) -> ws.Model:
    """A run of dominoes 12 x 60 x 30 mm, 30 mm apart, and a ball that tips the first."""
    b = ws.ModelBuilder(f"{count} dominoes", timestep=h)
    b.add_geom("plane", name="floor", friction=0.5, rgba=(0.85, 0.85, 0.85, 1))
    half = np.array([0.006, 0.015, 0.03])
    for i in range(count):
        body = b.add_body(f"domino_{i}", pose=[0.03 * i, 0, half[2]])
        b.add_joint(body, "free", name=f"free_{i}")
        b.add_geom("box", half, body=body, density=700.0, friction=0.3, rgba=(0.9, 0.5 + 0.4 * (i % 2), 0.3, 1))
    ball = b.add_body("ball", pose=[-0.1, 0, 0.05])
    b.add_joint(ball, "free", name="ball_free")
    b.add_geom("sphere", [0.012], body=ball, density=3000.0, friction=0.3, rgba=(0.3, 0.4, 0.9, 1))
    return b.build()


def gripper(h: float = 0.005) -> ws.Model:
    """A two-finger gripper on a vertical slide, above a 0.5 kg box; three position actuators: lift, left, right."""
    b = ws.ModelBuilder("gripper", timestep=h)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1))
    palm = b.add_body("palm", pose=[0, 0, 0.35], mass=1.0, inertia=[0.01, 0.01, 0.01])
    b.add_joint(palm, "slide", name="lift", axis=[0, 0, 1], damping=20.0)
    b.add_geom("box", [0.12, 0.04, 0.02], body=palm, name="palm", density=0.0, rgba=(0.4, 0.4, 0.45, 1))
    for name, side in (("left", 1.0), ("right", -1.0)):
        finger = b.add_body(name, parent=palm, pose=[0.09 * side, 0, -0.1], mass=0.1, inertia=[1e-3, 1e-3, 1e-3])
        b.add_joint(finger, "slide", name=name, axis=[-side, 0, 0], range=(-0.02, 0.09), damping=2.0)
        b.add_geom("box", [0.01, 0.03, 0.08], body=finger, name=f"{name}_pad", density=0.0, friction=0.8)
    box = b.add_body("object", pose=[0, 0, 0.1])
    b.add_joint(box, "free", name="object_free")
    b.add_geom(
        "box",
        [0.03, 0.03, 0.1],
        body=box,
        name="object",
        density=0.5 / (0.06 * 0.06 * 0.2),
        friction=0.8,
        rgba=(0.9, 0.5, 0.2, 1),
    )
    b.add_actuator("lift", "position", kp=2000.0, kv=100.0, name="lift")
    for name in ("left", "right"):
        b.add_actuator(name, "position", kp=400.0, kv=10.0, name=name)
    return b.build()


def grip_and_lift(steps: int, h: float = 0.005) -> np.ndarray:
    """Controls (steps, 3) for `gripper`: close within 0.5 s, then lift by 0.2 m within 1 s, then hold."""
    t = h * np.arange(steps)
    close = np.clip(t / 0.5, 0.0, 1.0) * 0.08
    lift = np.clip((t - 0.7) / 1.0, 0.0, 1.0) * 0.2 - 0.1
    return np.stack([lift, close, close], axis=1)


def hills(name: str = "humanoid", h: float = 0.005) -> ws.Model:
    """A robot of the gymnasium package above rolling hills, a height field of 10 x 10 m and 0.35 m relief."""
    b = ws.ModelBuilder(f"{name} on hills", timestep=h)
    x = np.linspace(-5.0, 5.0, 60)
    relief = 0.5 + 0.25 * np.sin(1.3 * x)[None, :] * np.cos(1.1 * x)[:, None] + 0.2 * np.sin(0.7 * x)[:, None]
    b.add_geom("hfield", hfield=([5.0, 5.0, 0.35, 0.1], relief), name="hills", rgba=(0.55, 0.65, 0.45, 1))
    robot = ws.load(asset(name))
    b.add_model(robot, pose=[0, 0, 0.4])
    b.geoms = [g for g in b.geoms if g.name != "floor"]  # the file's own ground
    return b.build()


def quadruped_among_objects(urdf, h: float = 0.005) -> ws.Model:
    """A quadruped's URDF with its meshes, dropped among boxes, cylinders and spheres."""
    robot = ws.load(urdf, base="free", actuators="position")
    b = ws.ModelBuilder("quadruped among objects", timestep=h)
    b.add_geom("plane", name="floor", rgba=(0.85, 0.85, 0.85, 1))
    b.add_model(robot, pose=[0, 0, 0.8])
    rng = np.random.default_rng(3)
    shapes = (
        ("box", [0.06, 0.08, 0.05]),
        ("cylinder", [0.06, 0.07]),
        ("sphere", [0.07]),
        ("ellipsoid", [0.1, 0.07, 0.05]),
    )
    for i in range(16):
        kind, size = shapes[i % 4]
        angle, radius = 2 * np.pi * i / 16, 0.45 + 0.3 * (i % 3)
        pose = [radius * np.cos(angle), radius * np.sin(angle), 0.12, *rng.normal(size=4)]
        body = b.add_body(f"object_{i}", pose=pose)
        b.add_joint(body, "free", name=f"object_{i}_free")
        b.add_geom(kind, size, body=body, density=400.0, name=f"object_{i}", rgba=(*rng.uniform(0.3, 0.9, size=3), 1))
    return b.build()


def rolling_ball(model: ws.Model) -> np.ndarray:
    """Start velocities (nv,) of `dominoes`: the ball at 2 m/s."""
    v = np.zeros(model.nv)
    v[model.joint_coordinates("ball_free")[1].start] = 2.0
    return v


@dataclasses.dataclass(frozen=True)
class Scene:
    """A scene and how it is played: seconds, start velocities (nv,) of the model, controls (steps, nu) of steps and h, keyframe of the start."""

    build: Callable[[], ws.Model]
    seconds: float
    start: Callable[[ws.Model], np.ndarray] | None = None
    controls: Callable[[int, float], np.ndarray] | None = None
    keyframe: str | None = None

    def play(self, seconds: float | None = None, every: int = 1, **simulator) -> tuple[ws.Simulator, ws.Trajectory]:
        """Roll out one world, `seconds` instead of the scene's own; `simulator`: arguments of `ws.Simulator`."""
        model = self.build()
        sim = ws.Simulator(model, **simulator)
        steps = round((self.seconds if seconds is None else seconds) / sim.dt)
        controls = None if self.controls is None else self.controls(steps, sim.dt)[:, None]
        state = sim.state(v=None if self.start is None else self.start(model), keyframe=self.keyframe)
        return sim, sim.rollout(state, controls, steps, every=every)


SCENES = {
    "stack": Scene(stack, 2.0),
    "dominoes": Scene(dominoes, 2.0, start=rolling_ball),
    "gripper": Scene(gripper, 3.0, controls=grip_and_lift),
    "clutter": Scene(lambda: clutter(40), 4.0),
    "hills": Scene(hills, 2.0),
}


def driven_at_random(model: ws.Model, worlds: int, seconds: float, **simulator) -> tuple[ws.Simulator, ws.Trajectory]:
    """Roll out a robot whose controls use their whole range: sine waves in one half of the worlds, noise in the other."""
    sim = ws.Simulator(model, worlds, **simulator)
    steps, low, high = round(seconds / sim.dt), *np.nan_to_num(model.control_range.T, neginf=-1.0, posinf=1.0)
    controls = smooth_controls(model, worlds, steps, sim.dt)
    noise = np.random.default_rng(0).uniform(low, high, size=(steps, worlds - worlds // 2, model.nu))
    controls[:, worlds // 2 :] = noise
    return sim, sim.rollout(sim.state(*perturbed_start(model, worlds, noise=0.05)), controls)
