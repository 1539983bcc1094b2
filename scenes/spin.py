# SPDX-License-Identifier: Apache-2.0
"""Scenes with torsional and rolling friction: for tests and benchmarks of its gradients."""

import numpy as np

import warpsim as ws

RADIUS = 0.1
MOTIONS = ("stick", "slip", "spin", "roll")


def ball(
    condim: int = 6, friction: float = 0.5, torsional: float = 0.02, rolling: float = 0.01, radius: float = RADIUS
) -> ws.Model:
    """A ball on a floor; the ball's coefficients are those of the pair."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", name="floor")
    body = b.add_body("ball", pose=[0, 0, radius])
    b.add_joint(body, "free")
    own = {"torsional_friction": torsional, "rolling_friction": rolling}
    b.add_geom("sphere", [radius], body=body, name="ball", friction=friction, condim=condim, priority=1, **own)
    return b.build()


def body_and_pendulum(motion: str) -> ws.Model:
    """A box that sticks, slips or spins, or a ball that rolls, with a child on a hinge; by Drake's rule of friction."""
    b = ws.ModelBuilder(f"torsion, {motion}")
    mu = {"stick": 0.8, "slip": 0.1, "spin": 0.3, "roll": 0.8}[motion]
    b.add_geom("plane", name="floor", friction=0.5 * mu, torsional_friction=0.03, rolling_friction=0.006)
    b.add_body("trunk", pose=[0, 0, RADIUS], mass=1.0, com=[0.01, 0.005, -0.01], inertia=[0.005, 0.006, 0.007])
    b.add_joint("trunk", "free")
    own = {"friction": mu, "torsional_friction": 0.02, "rolling_friction": 0.01, "condim": 6}
    if motion == "stick":
        b.add_geom("box", [RADIUS] * 3, body="trunk", density=0.0, **own)
    else:
        b.add_geom("sphere", [RADIUS], body="trunk", density=0.0, **own)
    b.add_body("child", parent="trunk", pose=[0.02, 0.01, 0.05], mass=0.2, com=[0.01, 0.03, -0.04],
               inertia=[0.001, 0.002, 0.0015])  # fmt: skip
    joint = b.add_joint("child", "hinge", axis=(0.2, 1, 0.1), stiffness=2.0, damping=0.05, reference=0.05)
    b.add_actuator(joint, gear=0.5)
    return b.build()


def start(sim: ws.Simulator, motion: str) -> ws.State:
    """Settled on the floor, then set moving."""
    model, rng = sim.model, np.random.default_rng(11)
    q = sim.state().q.numpy()[0]
    q[2] -= 2e-5
    rest = sim.rollout(sim.state(q), steps=100).final
    q, v = rest.q.numpy()[0], rest.v.numpy()[0]
    v[6:] += 0.2 * rng.normal(size=model.nv - 6)
    if motion == "slip":
        v[:2] += [0.3, 0.06]
        v[3:6] += [0.5, -0.3, 2.0]
    elif motion == "spin":
        v[3:6] += [0.2, 0.3, 6.0]
    elif motion == "roll":
        v[:2] += [0.3, 0.06]
        v[3:6] += [-0.6, 3.0, 1.0]
    return sim.state(q, v)
