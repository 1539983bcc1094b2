"""Small scenes that several tests share. Imported by name: pytest puts this folder on the path."""

import numpy as np

import warpsim as ws

GRAVITY = 9.81
EPSILON = {"float64": 2.3e-16, "float32": 1.2e-7}  # unit round-off


def body_on_plane(kind: str, size, *, mass=1.0, height=None, tilt=0.0, floor=True, **material) -> ws.Model:
    """One free body of uniform density above a plane z = 0; gravity is turned by `tilt` [rad] towards +x.

    `height` is that of the body's centre (default: `size[-1]`, touching). `material` goes to the geom; the plane has the
    same friction and dissipation time, so that the pair's values are the given ones whatever the rule of combination.
    """
    b = ws.ModelBuilder(kind, gravity=(GRAVITY * np.sin(tilt), 0.0, -GRAVITY * np.cos(tilt)))
    shared = {key: material[key] for key in ("friction", "dissipation_time") if key in material}
    if floor:
        b.add_geom("plane", name="floor", **shared)
    b.add_body("body", pose=[0.0, 0.0, size[-1] if height is None else height])
    b.add_joint("body", "free", name="root")
    volume = {"sphere": 4.0 / 3.0 * np.pi * size[0] ** 3, "box": 8.0 * np.prod(size)}[kind]
    b.add_geom(kind, size, body="body", name="shape", density=mass / volume, **material)
    return b.build()


def pendulum(*, mass=2.0, length=0.5, **joint) -> ws.Model:
    """A point mass on a massless rod, hanging at q = 0 from a hinge about y."""
    b = ws.ModelBuilder("pendulum")
    b.add_body("bob", mass=mass, com=[0.0, 0.0, -length], inertia=[1e-9, 1e-9, 1e-9])
    b.add_joint("bob", "hinge", name="pivot", axis=[0.0, 1.0, 0.0], **joint)
    return b.build()


def cart(*, mass=2.0, gravity=(0.0, 0.0, 0.0), **joint) -> ws.Model:
    """A mass on a slide along x."""
    b = ws.ModelBuilder("cart", gravity=gravity)
    b.add_body("cart", mass=mass, inertia=[1.0, 1.0, 1.0])
    b.add_joint("cart", "slide", name="rail", axis=[1.0, 0.0, 0.0], **joint)
    return b.build()


def tumbling_chain() -> ws.Model:
    """Four unequal boxes joined by ball, hinge and slide joints, floating: every joint type and no symmetry."""
    b = ws.ModelBuilder("chain", gravity=(0.0, 0.0, 0.0))
    sizes = ([0.2, 0.1, 0.05], [0.05, 0.15, 0.1], [0.1, 0.05, 0.2], [0.05, 0.08, 0.1])
    parent = -1
    for i, (size, joint) in enumerate(zip(sizes, ("free", "ball", "hinge", "slide"), strict=True)):
        parent = b.add_body(f"part{i}", parent=parent, pose=[0.3 * (i > 0), 0.05 * i, 0.1])
        stiffness = {"stiffness": 200.0} if joint == "slide" else {}
        b.add_joint(parent, joint, axis=[0.2, 1.0, 0.3], anchor=[0.0 if i == 0 else -0.15, 0.0, 0.0], **stiffness)
        b.add_geom("box", size, body=parent, contype=0, conaffinity=0)
    return b.build()


def quaternion_matrix(q) -> np.ndarray:
    """Rotation matrices of unit quaternions (w, x, y, z), any leading shape."""
    w, x, y, z = np.moveaxis(np.asarray(q, float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), [0, 1], [-2, -1])
