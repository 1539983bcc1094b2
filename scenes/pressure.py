# SPDX-License-Identifier: Apache-2.0
"""Scenes of hydroelastic contact: bodies that fall on a soft or rigid ground, grasps, and the soft gripper with the spatula of the SAP paper (§VI-D).

Shapes are written as in the reference data: (kind, size) with full edges of boxes, (radius, length) of cylinders and capsules.
"""

import math

import numpy as np

import warpsim as ws

GRAVITY = (0.0, 0.0, -9.81)


def shape_of(kind: str, size) -> tuple[str, tuple]:
    """A shape of the reference data as `add_geom` takes it."""
    size = np.atleast_1d(np.asarray(size, float))
    if kind in ("cylinder", "capsule"):
        return kind, (size[0], size[1] / 2)
    return ("plane", ()) if kind == "half_space" else (kind, tuple(size / 2 if kind == "box" else size))


def solid_inertia(kind: str, size, mass: float) -> np.ndarray:
    """Moments of a solid body about its centre."""
    s = np.atleast_1d(np.asarray(size, float))
    if kind == "sphere":
        return np.full(3, 0.4 * mass * s[0] ** 2)
    if kind == "box":
        return mass / 12 * np.array([s[1] ** 2 + s[2] ** 2, s[0] ** 2 + s[2] ** 2, s[0] ** 2 + s[1] ** 2])
    if kind == "ellipsoid":
        return mass / 5 * np.array([s[1] ** 2 + s[2] ** 2, s[0] ** 2 + s[2] ** 2, s[0] ** 2 + s[1] ** 2])
    across = mass * (3 * s[0] ** 2 + s[1] ** 2) / 12
    return np.array([across, across, mass * s[0] ** 2 / 2])


def material(modulus, resolution=None, thickness=None) -> ws.Hydroelastic:
    """A modulus of None is a rigid geom."""
    return ws.Hydroelastic(np.inf if modulus is None else modulus, resolution, thickness)


def quaternion(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """(w, x, y, z) of the rotation Rz(yaw) Ry(pitch) Rx(roll)."""
    cr, cp, cy = (math.cos(x / 2) for x in (roll, pitch, yaw))
    sr, sp, sy = (math.sin(x / 2) for x in (roll, pitch, yaw))
    return np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    w, x, y, z = quaternion(roll, pitch, yaw)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def drop(shape, modulus, resolution, mass, ground, mu, tau) -> ws.Model:
    """A free body above a ground whose surface is z = 0. `ground`: ("half_space", modulus, thickness) or ("box", edges, modulus)."""
    b = ws.ModelBuilder("drop", gravity=GRAVITY)
    body = b.add_body("body", mass=mass, inertia=np.diag(solid_inertia(*shape, mass)))
    b.add_joint(body, "free")
    options = {"friction": mu, "dissipation_time": tau}
    b.add_geom(*shape_of(*shape), body=body, name="body", hydroelastic=material(modulus, resolution), **options)
    if ground[0] == "half_space":
        b.add_geom("plane", name="ground", hydroelastic=material(ground[1], None, ground[2]), **options)
    else:
        pose = (0.0, 0.0, -ground[1][2] / 2, 1.0, 0.0, 0.0, 0.0)
        b.add_geom(*shape_of("box", ground[1]), pose=pose, name="ground", hydroelastic=material(ground[2]), **options)
    return b.build()


def grasp(obj, E_obj, hint_obj, m_obj, pad, E_pad, hint_pad, mu, tau) -> ws.Model:
    """A base on a vertical slider with two fingers on horizontal ones, and a free object between their pads; motors (lift, left, right)."""
    b = ws.ModelBuilder("grasp", gravity=GRAVITY)
    base = b.add_body("base", mass=2.0, inertia=np.eye(3) * 0.02)
    b.add_joint(base, "slide", axis=(0, 0, 1), name="lift")
    half = obj[1][0] / 2 if obj[0] == "box" else np.atleast_1d(obj[1])[0]
    thick = pad[1][0] / 2 if pad[0] == "box" else pad[1][0]
    options = {"friction": mu, "dissipation_time": tau}
    for side, name in ((-1, "left"), (1, "right")):
        finger = b.add_body(name, parent=base, mass=0.2, inertia=np.eye(3) * 2e-4)
        b.add_joint(finger, "slide", axis=(1, 0, 0), name=name)
        pose = (side * (half + thick), 0, 0, 1, 0, 0, 0)
        b.add_geom(
            *shape_of(*pad), body=finger, pose=pose, name=name, hydroelastic=material(E_pad, hint_pad), **options
        )
    body = b.add_body("object", mass=m_obj, inertia=np.diag(solid_inertia(*obj, m_obj)))
    b.add_joint(body, "free")
    b.add_geom(*shape_of(*obj), body=body, name="object", hydroelastic=material(E_obj, hint_obj), **options)
    for name in ("lift", "left", "right"):
        b.add_actuator(name, "effort", name=name)
    return b.build()


def heap(h: float = 0.005) -> ws.Model:
    """Soft solids of 10 cm that fall on each other and on a soft block."""
    b = ws.ModelBuilder("heap", timestep=h)
    b.add_geom("plane", name="floor")
    soft = {"hydroelastic": ws.Hydroelastic(5e4), "dissipation_time": 0.05, "friction": 0.8}
    b.add_geom("box", (0.22, 0.16, 0.05), pose=(0, 0, 0.05), name="block", rgba=(0.55, 0.6, 0.65, 1), **soft)
    shapes = (
        ("box", (0.05, 0.05, 0.05), (-0.1, 0.0, 0.17), (0.86, 0.45, 0.3, 1)),
        ("cylinder", (0.05, 0.06), (0.02, -0.05, 0.18), (0.4, 0.62, 0.45, 1)),
        ("sphere", (0.06,), (0.12, 0.05, 0.18), (0.35, 0.5, 0.8, 1)),
        ("ellipsoid", (0.08, 0.05, 0.04), (-0.04, -0.02, 0.32), (0.9, 0.72, 0.35, 1)),
    )
    for i, (kind, size, place, rgba) in enumerate(shapes):
        body = b.add_body(f"solid_{i}", pose=place)
        b.add_joint(body, "free", name=f"free_{i}")
        b.add_geom(kind, size, body=body, density=600.0, rgba=rgba, name=f"solid_{i}", **soft)
    return b.build()


# The spatula's inertia about its centre of mass in the file of the paper, some thousand times that of its mass, and the right size of it [kg m²].
FILE_INERTIA = (
    (0.21095403274864072, -4.26e-8, 0.0),
    (-4.26e-8, 0.03710803288660893, -0.06982169738550205),
    (0.0, -0.06982169738550205, 0.18858265237650276),
)
TRUE_INERTIA = ((2.2e-4, 0.0, 0.0), (0.0, 5e-5, -7e-5), (0.0, -7e-5, 2.0e-4))
HANDLE_TILT = 2.0  # [rad] of the handle's axis about the spatula's x axis
BUBBLE = (0.04165, 0.04165, 0.0625)


def cylinder_tetrahedra(radius: float, half: float, resolution: float):
    """Drake's five tetrahedra for each side of a long cylinder, where a cell per face needs three: (mesh, field) as `add_geom` and `Hydroelastic` take
    them. The pressure is 1 on the part of the axis that is a radius away from the ends."""
    n = math.ceil(2 * math.pi * radius / resolution)
    angle = 2 * math.pi * np.arange(n) / n
    ring = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    low, high = (np.column_stack([ring, np.full(n, z)]) for z in (-half, half))
    axis = np.array([[0, 0, z] for z in (-half, half, radius - half, half - radius)])
    below, above, bottom, top = 2 * n + np.arange(4)
    tetrahedra, faces = [], []
    for i in range(n):
        j = (i + 1) % n
        tetrahedra += [(below, i, j, bottom), (above, n + j, n + i, top), (top, n + i, bottom, n + j)]
        tetrahedra += [(n + i, i, bottom, n + j), (i, j, bottom, n + j)]
        faces += [(below, j, i), (above, n + i, n + j), (i, j, n + j), (i, n + j, n + i)]
    vertices = np.concatenate([low, high, axis])
    pressure = np.where(np.arange(len(vertices)) >= bottom, 1.0, 0.0)
    return (vertices[:bottom], np.array(faces)), (vertices, np.array(tetrahedra), pressure)


def spatula_gripper(
    inertia=FILE_INERTIA, mu=1.0, tau=0.2, bubble=(1e5, 0.04), handle=(1e8, 0.005), tetrahedra=False
) -> ws.Model:
    """Two soft bubbles on prismatic fingers hold the handle of a spatula (SAP paper, Fig. 16). Motors left, right push the fingers along y.

    `bubble`, `handle`: (modulus [Pa], resolution [m]); `tetrahedra`: the handle's field is cut as Drake cuts it.
    """
    b = ws.ModelBuilder("spatula", gravity=GRAVITY)
    options = {"friction": mu, "dissipation_time": tau}
    frame = np.concatenate([(0.0, 0.0, 0.25), quaternion(0.0, -1.57, 0.0)])
    turn = rotation(0.0, -1.57, 0.0)
    for side, name in ((-1, "left"), (1, "right")):
        at = np.concatenate([frame[:3] + turn @ (0.0, 0.0, -0.0725), frame[3:]])
        finger = b.add_body(name, pose=at, mass=0.1, inertia=np.eye(3) * 0.32)
        b.add_joint(finger, "slide", axis=(0, 1, 0), name=name, range=(-0.055, 0.0) if side < 0 else (0.0, 0.055))
        pose = (0.0, side * 0.041665, -0.1095, 1.0, 0.0, 0.0, 0.0)
        b.add_geom(
            "ellipsoid",
            BUBBLE,
            body=finger,
            pose=pose,
            name=f"{name} bubble",
            rgba=(0.35, 0.6, 0.9, 1.0),
            hydroelastic=material(*bubble),
            **options,
        )
    start = np.concatenate([(0.35, 0.0, 0.25), quaternion(-0.4, 0.0, 1.57)])
    spatula = b.add_body("spatula", pose=start, mass=0.068, com=(0.0, 0.115649, 0.044471), inertia=np.array(inertia))
    b.add_joint(spatula, "free")
    pose = np.concatenate([(0.0, 0.135, 0.052), quaternion(HANDLE_TILT, 0.0, 0.0)])
    options |= {"rgba": (0.85, 0.6, 0.35, 1.0), "hydroelastic": material(*handle)}
    if tetrahedra:
        mesh, field = cylinder_tetrahedra(0.015, 0.055, handle[1])
        options["hydroelastic"] = ws.Hydroelastic(handle[0], field=field)
        b.add_geom("mesh", mesh=mesh, body=spatula, pose=pose, name="handle", **options)
    else:
        b.add_geom("cylinder", (0.015, 0.055), body=spatula, pose=pose, name="handle", **options)
    for name in ("left", "right"):
        b.add_actuator(name, "effort", name=name)
    return b.build()


def spatula_start(model: ws.Model) -> np.ndarray:
    """The pose that the experiments start from: fingers 10 mm in."""
    q = np.array(model.q0)
    for name, value in (("left", -0.01), ("right", 0.01)):
        q[model.joint_coordinates(name)[0]] = value
    return q


def pitch(q) -> np.ndarray:
    """[rad] of the handle's axis above the horizontal, of positions (…, nq)."""
    w, x, y, z = np.moveaxis(np.asarray(q)[..., -4:], -1, 0)
    s, c = -math.sin(HANDLE_TILT), math.cos(HANDLE_TILT)
    rise = 2 * (y * z + w * x) * s + (w * w - x * x - y * y + z * z) * c
    return np.arcsin(np.clip(rise / (w * w + x * x + y * y + z * z), -1, 1))


def pitch_slope(q) -> np.ndarray:
    """d pitch/dq (…, nq) at unit quaternions."""
    w, x, y, z = np.moveaxis(np.asarray(q)[..., -4:], -1, 0)
    s, c = -math.sin(HANDLE_TILT), math.cos(HANDLE_TILT)
    slope = np.zeros_like(q)
    slope[..., -4:] = 2 * np.stack([x * s + w * c, w * s - x * c, z * s - y * c, y * s + z * c], axis=-1)
    return slope / np.cos(pitch(q))[..., None]


def grip(t, low=1.0, more=15.0, period=6.0, duty=0.75) -> np.ndarray:
    """The square wave of the grip force [N] at times t [s]."""
    phase = np.asarray(t) - np.floor(np.asarray(t) / period) * period
    return low + more * (phase < duty * period)


def motions() -> dict:
    """(model, q, v) of bodies on a ground that stick, slip, roll, spin on a face and tip over an edge; no pose is symmetric."""
    box, table = ("box", (0.1, 0.14, 0.08)), ("box", (0.6, 0.6, 0.2))
    soft, rigid = ("half_space", 1e5, 0.05), ("half_space", None, None)
    return {
        "stick": (drop(box, 2e5, None, 0.5, soft, 0.8, 0.02), [0, 0, 0.038, 1, 0.01, 0.02, 0.05], [0.001, 0.002, -0.01, 0, 0, 0.01]),
        "slip": (drop(("ellipsoid", (0.04, 0.05, 0.06)), 1e5, 0.02, 0.5, (*table, None), 0.1, 0.02), [0, 0, 0.056, 1, 0.03, 0.05, 0.2], [0.5, 0.2, 0, 0, 0, 0.1]),
        "roll": (drop(("sphere", 0.05), 1e5, 0.02, 0.5, rigid, 0.8, 0.02), [0, 0, 0.0465, 1, 0.3, 0.2, 0.1], [0.3, 0.1, 0, -2, 6, 0]),
        "roll exactly": (drop(("sphere", 0.05), 1e5, None, 0.5, rigid, 0.8, 0.02), [0, 0, 0.0465, 1, 0.3, 0.2, 0.1], [0.3, 0.1, 0, -2, 6, 0]),
        "spin": (drop(("cylinder", (0.04, 0.16)), 1e5, 0.02, 0.5, rigid, 0.5, 0.02), [0, 0, 0.0775, 1, 0.006, 0.004, 0.05], [0, 0, 0, 0, 0, 4]),
        "tip": (drop(box, None, None, 0.5, (*table, 1e5), 0.8, 0.02), [0, 0, 0.05, 1, 0.15, 0, 0.05], [0, 0, 0, 0.5, 0, 0]),
    }  # fmt: skip
