# SPDX-License-Identifier: Apache-2.0
"""A jar with a soft lid, as in the SAP paper (§VI-E): a rigid bottom and ring of walls, and a lid whose plug is larger than the ring.

The plug is a polygon of as many sides as the jar has walls, side to side with them, so that the pressure of its
interference δ is the same all over the ring and the force to pull it off has a closed form (`pull_off_force`).
"""

import math
import typing

import numpy as np

import warpsim as ws

GRAVITY = (0.0, 0.0, -9.81)
IDENTITY = (1.0, 0.0, 0.0, 0.0)


class Jar(typing.NamedTuple):
    """Sizes [m] of a jar and its lid, and the modulus [Pa] of the plug. The jar's frame is in the middle under its bottom, the lid's in the rim."""

    inner: float = 0.038  # from the axis to the walls
    wall: float = 0.004
    height: float = 0.12
    walls: int = 16
    interference: float = 2e-4  # how much the plug is larger than the ring
    plug: float = 0.02  # length
    plug_modulus: float = 1e6
    cap_radius: float = 0.046
    cap: float = 0.012  # height
    cap_modulus: float = 1e7
    friction: float = 0.5
    dissipation_time: float = 0.02
    jar_mass: float = 0.2
    lid_mass: float = 0.05

    @property
    def half_turn(self) -> float:
        """[rad] half the angle between two walls."""
        return math.pi / self.walls

    @property
    def outer(self) -> float:
        return self.inner + self.wall


def ring_force(jar: Jar, modulus) -> np.ndarray:
    """Sum [N] of the normal forces between the plug and the n walls.

    The pressure of a cylinder shorter than wide reaches E half its length l/2 below its corners, p = E δ/((l/2) cos(π/n)) on
    walls w = 2 c tan(π/n) wide and l - δ high, for the rim takes δ/2 at both ends; two strips beside each wall, δ deep, have half of it.
    """
    c, delta, a = jar.inner, jar.interference, jar.half_turn
    pressure = np.asarray(modulus) * delta / (jar.plug / 2 * math.cos(a))
    return pressure * jar.walls * (2 * c * math.tan(a) + delta) * (jar.plug - delta)


def pull_off_force(jar: Jar, modulus, friction) -> np.ndarray:
    """μ times `ring_force`: what a slow, straight pull [N] has to overcome; it falls with the length that is still in the ring."""
    return np.asarray(friction) * ring_force(jar, modulus)


def turned(angle: float, axis: int = 2) -> tuple:
    """(w, x, y, z) of a turn about a coordinate axis."""
    q = [math.cos(angle / 2), 0.0, 0.0, 0.0]
    q[axis + 1] = math.sin(angle / 2)
    return tuple(q)


def add_jar(
    b: ws.ModelBuilder, jar: Jar, body=-1, base=(0.0, 0.0, 0.0), colour=(0.55, 0.75, 0.85, 0.35), **masks
) -> None:
    """Bottom and walls on a body, or in the world at `base`; `masks`: contype and conaffinity."""
    rigid = {"hydroelastic": ws.Hydroelastic(np.inf)}
    options = {"body": body, "friction": jar.friction, "dissipation_time": jar.dissipation_time, "rgba": colour}
    options |= masks
    pose = (*(np.asarray(base) + (0.0, 0.0, jar.wall / 2)), *IDENTITY)
    b.add_geom("cylinder", (jar.outer, jar.wall / 2), pose=pose, name="jar bottom", **options)
    half = (jar.wall / 2, jar.inner * math.tan(jar.half_turn), jar.height / 2)
    middle = jar.inner + jar.wall / 2
    for i in range(jar.walls):
        a = 2 * jar.half_turn * i
        at = np.asarray(base) + (middle * math.cos(a), middle * math.sin(a), jar.height / 2)
        b.add_geom("box", half, pose=(*at, *turned(a)), name=f"jar wall {i}", **options, **rigid)


def add_lid(b: ws.ModelBuilder, jar: Jar, body, cap_friction: float = 1.0, **masks) -> None:
    """Cap and plug, side to side with the walls of a jar that is turned as the lid is."""
    grown = (jar.inner + jar.interference) / math.cos(jar.half_turn)  # to the corners
    parts = {
        "lid cap": (jar.cap_radius, jar.cap, jar.cap / 2, jar.cap_modulus, cap_friction, (0.85, 0.35, 0.25, 1.0)),
        "lid plug": (grown, jar.plug, -jar.plug / 2, jar.plug_modulus, jar.friction, (0.95, 0.6, 0.3, 1.0)),
    }
    for name, (radius, length, z, modulus, friction, colour) in parts.items():
        sides = 2 * math.pi * radius / (jar.walls - 0.5)  # the count is rounded up
        b.add_geom(
            "cylinder",
            (radius, length / 2),
            body=body,
            pose=(0.0, 0.0, z, *turned(jar.half_turn)),
            name=name,
            friction=friction,
            dissipation_time=jar.dissipation_time,
            rgba=colour,
            hydroelastic=ws.Hydroelastic(modulus, sides),
            **masks,
        )


def lid_inertia(jar: Jar) -> np.ndarray:
    """Of a disc as wide as the cap and as high as all of the lid."""
    across = jar.lid_mass * (3 * jar.cap_radius**2 + (jar.cap + jar.plug) ** 2) / 12
    return np.array([across, across, jar.lid_mass * jar.cap_radius**2 / 2])


BASE_MASS = 5.0  # [kg] of the gripper
FINGER_MASS = 0.5
PAD = (0.004, 0.014, 0.005)  # half edges [m]


def lid_puller(jar: Jar | None = None) -> ws.Model:
    """A jar that is fixed, its lid in place, and a gripper around the cap: a base on a vertical slider with two fingers on horizontal ones.

    Motors lift, left and right [N]. Coordinates: lift, left, right, then the lid's pose.
    """
    jar = Jar() if jar is None else jar
    b = ws.ModelBuilder("lid puller", gravity=GRAVITY)
    add_jar(b, jar)
    base = b.add_body("base", pose=(0, 0, jar.height, *IDENTITY), mass=BASE_MASS, inertia=np.eye(3) * 0.02)
    b.add_joint(base, "slide", axis=(0, 0, 1), name="lift")
    reach = jar.cap_radius * math.cos(jar.half_turn) + PAD[0]
    for side, name in ((-1, "left"), (1, "right")):
        finger = b.add_body(name, parent=base, mass=FINGER_MASS, inertia=np.eye(3) * 2e-4)
        b.add_joint(finger, "slide", axis=(1, 0, 0), name=name)
        b.add_geom(
            "box",
            PAD,
            body=finger,
            pose=(side * reach, 0, jar.cap - PAD[2], *IDENTITY),
            name=f"{name} pad",
            friction=1.0,
            dissipation_time=jar.dissipation_time,
            hydroelastic=ws.Hydroelastic(np.inf),
        )
    b.add_geom("box", (0.06, 0.01, 0.004), body=base, pose=(0, 0, 0.06, *IDENTITY), contype=0, conaffinity=0)
    lid = b.add_body("lid", pose=(0, 0, jar.height, *IDENTITY), mass=jar.lid_mass, inertia=lid_inertia(jar))
    b.add_joint(lid, "free")
    add_lid(b, jar, lid)
    for name in ("lift", "left", "right"):
        b.add_actuator(name, "effort", name=name)
    return b.build()
