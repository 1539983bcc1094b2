# SPDX-License-Identifier: Apache-2.0
"""A box with an arm and sensors of every stage, in flight or on the ground, for gradients."""

import numpy as np

import warpsim as ws

MOTIONS = ("flight", "sticks", "slides")


def model(motion: str) -> ws.Model:
    """The box; in flight the ground is left out."""
    b = ws.ModelBuilder(f"sensors, {motion}")
    if motion != "flight":
        b.add_geom("plane", name="floor", friction=0.05)
    box = b.add_body("box", pose=[0, 0, 0.1], mass=1.0, inertia=[0.006, 0.007, 0.005])
    b.add_joint(box, "free")
    b.add_geom("box", [0.1, 0.08, 0.1], name="box", body=box, density=0.0, friction=0.1 if motion == "slides" else 0.8)
    arm = b.add_body("arm", parent=box, pose=[0, 0, 0.1], mass=0.2, com=[0.02, 0.01, 0.2], inertia=[1e-3, 1e-3, 5e-4])
    b.add_joint(arm, "hinge", name="hinge", axis=[0.1, 1, 0.2], stiffness=1.0, damping=0.02, reference=0.1)
    b.add_actuator("hinge", name="motor")
    b.add_site("imu", body=box, pose=[0.02, 0.01, 0.03, 0.9, 0.1, 0.3, -0.2], size=[0.3])
    b.add_site("wrist", body=arm, pose=[0, 0, 0.1, 0.8, 0.2, -0.4, 0.1])
    for kind in ("accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder", "touch", "force", "torque"):
        b.add_sensor(kind, "wrist" if kind in ("force", "torque") else "imu", name=kind)
    b.add_sensor("framepos", ("site", "wrist"), ("site", "imu"))
    b.add_sensor("framequat", ("body", "arm"), ("inertia", "box"))
    b.add_sensor("framelinvel", ("inertia", "arm"), ("site", "imu"))
    b.add_sensor("frameangacc", ("geom", "box"))
    for kind in ("subtreecom", "subtreelinvel", "subtreeangmom"):
        b.add_sensor(kind, "box")
    for kind, joint in (("jointpos", "hinge"), ("jointvel", "hinge"), ("jointactuatorfrc", "hinge")):
        b.add_sensor(kind, joint)
    b.add_sensor("contact", ("geom", "box"), data=("force", "pos"), reduce="netforce")
    b.add_sensor("e_potential")
    b.add_sensor("e_kinetic")
    return b.build()


def start(motion: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities."""
    made, rng = model(motion), np.random.default_rng(2)
    q, v = made.q0.copy(), 0.02 * rng.normal(size=made.nv)
    if motion == "flight":
        return made.displace(q, 0.3 * rng.normal(size=made.nv)), rng.normal(size=made.nv)
    q[2] -= 1e-4
    v[0] += 0.3 * (motion == "slides")
    return q, v
