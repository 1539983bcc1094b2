# SPDX-License-Identifier: Apache-2.0
"""Small scenes of a few bodies: a body on a plane, carts, pendulums, chains."""

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


def arm() -> ws.ModelBuilder:
    """A builder with one of most things: a hinged link and a free ball above a floor, a tendon, a motor."""
    b = ws.ModelBuilder("arm")
    b.add_geom("plane", name="floor")
    b.add_body("upper", mass=1.0, inertia=[1, 1, 1], pose=[0, 0, 1])
    b.add_joint("upper", "hinge", name="elbow", axis=[0, 1, 0])
    b.add_geom("box", [0.1, 0.1, 0.1], body="upper", name="bone")
    b.add_body("ball", mass=1.0, inertia=[1, 1, 1], pose=[0, 0, 3])
    b.add_joint("ball", "free", name="root")
    b.add_tendon({"elbow": 1.0}, name="cord")
    b.add_actuator("elbow", name="motor")
    return b


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


# Two trees with every joint type, two hinges on one body, a welded body, springs, dampers, rotors and three actuators.
EVERY_JOINT = """
<mujoco model="every joint"><compiler angle="radian"/><option gravity="0.5 -0.3 -9.81"><flag contact="disable"/></option>
<default><geom type="box" contype="0" conaffinity="0"/></default>
<worldbody>
  <body name="trunk" pos="0 0 1"><freejoint/><geom size=".2 .1 .05"/>
    <body name="arm" pos=".2 .1 .05"><joint name="shoulder" type="ball" damping=".05" stiffness="3" armature=".02"/>
      <geom size=".15 .03 .04" pos=".15 0 0"/>
      <body name="hand" pos=".3 0 0"><joint name="pitch" axis="1 .2 0" armature=".01" damping=".02"/>
        <joint name="yaw" axis="0 1 .1" pos=".02 0 .01" stiffness="2" springref=".3"/>
        <geom size=".05 .02 .06" pos=".05 0 .02"/></body></body>
    <body name="leg" pos="-.2 0 -.05"><joint name="hip" axis="0 1 0" pos="0 .03 0"/><geom size=".03 .04 .2" pos="0 0 -.2"/>
      <body name="piston" pos="0 0 -.4"><joint name="rail" type="slide" axis="0.1 0 1" stiffness="400" damping="1"/>
        <geom size=".04 .04 .1" pos=".03 0 -.1"/>
        <body name="tip" pos="0 0 -.1" euler=".3 .2 .1"><geom size=".02 .05 .02"/></body></body></body>
  </body>
  <body name="pole" pos="2 0 1"><joint name="swing" axis="1 0 0"/><geom size=".03 .03 .3" pos="0 .1 -.3"/>
    <body name="bob" pos="0 0 -.6"><joint name="twist" type="ball"/><geom size=".1 .05 .08" pos=".05 .02 -.1"/></body></body>
</worldbody>
<actuator><motor joint="hip" gear="2"/><position joint="yaw" kp="5"/><velocity joint="pitch" kv=".1"/></actuator>
</mujoco>"""


def link_chain(data, links: int | None = None) -> ws.Model:
    """The hinge chain of `ltvi_chain.npz`; with `links` its pattern of links is repeated to that many."""
    b = ws.ModelBuilder("chain", gravity=tuple(data["gravity"]))
    parent, given = -1, len(data["mass"])
    for i in range(given if links is None else links):
        k = i % given if i < given else 1 + i % (given - 1)
        inertial = {"mass": float(data["mass"][k]), "com": data["com"][k], "inertia": data["Ic"][k]}
        parent = b.add_body(f"link{i}", parent=parent, pose=list(data["offsets"][k]), **inertial)
        b.add_joint(parent, "hinge", axis=list(data["axes"][k]))
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
