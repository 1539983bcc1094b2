# SPDX-License-Identifier: Apache-2.0
"""`Push`: a paddle pushes a box over a table to a pose, place and angle.

The paddle slides along x and y and turns; actions are its velocities. Box and table, and box and paddle, touch with dry
friction, so that the paddle steers the box as a finger does (Lynch & Mason, 1996). An episode begins with the paddle
just behind the box: gradients flow through contact from the first actions on.
"""

import numpy as np

from warpsim.envs.task import Task
from warpsim.envs.terms import Term, action_squared, last_action, start_noise, uniform_command
from warpsim.model.builder import ModelBuilder

BOX, BOX_MASS, FRICTION = (0.05, 0.05, 0.03), 0.5, 0.4  # half edges [m], mass [kg]
PADDLE, PADDLE_MASS = (0.01, 0.06, 0.02), 0.5
BEHIND = BOX[0] + PADDLE[0] + 0.002  # [m] from box to paddle at the start
KV = 100.0  # [N s/m] of the paddle's servos
SPEED = (0.3, 0.3, 2.0)  # [m/s, m/s, rad/s] of the paddle at the action 1
GOALS = ((0.1, -0.1, -0.6), (0.3, 0.1, 0.6))  # ranges of x, y [m] and angle [rad]
ANGLE = np.radians(15.0)  # of success


def scene():
    """Table, box and paddle. The table carries the box alone."""
    b = ModelBuilder("push", timestep=0.02)
    b.add_geom("plane", name="table", contype=1, conaffinity=0, friction=FRICTION)
    for name, size, mass, x, z in (("paddle", PADDLE, PADDLE_MASS, -BEHIND, 0.03), ("box", BOX, BOX_MASS, 0.0, BOX[2])):
        a, c, d = (2.0 * x for x in size)
        inertia = mass / 12.0 * np.array([c * c + d * d, a * a + d * d, a * a + c * c])
        b.add_body(name, mass=mass, inertia=inertia, pose=[x, 0.0, z])
        for k, axis in enumerate("xyz" if name == "box" else "xy"):
            b.add_joint(name, "slide", axis=np.eye(3)[k], name=f"{name}_{axis}", q0=[x if axis == "x" else 0.0])
        b.add_joint(name, "hinge", axis=[0, 0, 1], name=f"{name}_angle")
    b.add_geom(
        "box",
        PADDLE,
        body="paddle",
        name="paddle",
        contype=0,
        conaffinity=2,
        friction=FRICTION,
        rgba=(0.3, 0.4, 0.8, 1),
    )
    b.add_geom("box", BOX, body="box", name="box", contype=2, conaffinity=1, friction=FRICTION, rgba=(0.9, 0.6, 0.2, 1))
    for name, kv, most in (("x", KV, 20.0), ("y", KV, 20.0), ("angle", 1.0, 1.0)):
        b.add_actuator(f"paddle_{name}", "velocity", kv=kv, force_range=(-most, most), name=name)
    return b.build()


def _turned(xp, vector, angle):
    """A vector of the plane, or its first two entries, turned by an angle [rad]."""
    c, s, x, y = xp.cos(angle), xp.sin(angle), vector[:, 0], vector[:, 1]
    return xp.stack([c * x - s * y, s * x + c * y], axis=-1)


def _velocity(s, action):
    """Velocities of the paddle along its own axes as velocities of its joints."""
    speed = action * s.arrays.constant(np.array(SPEED, np.float32))
    return s.xp.concat([_turned(s.xp, speed, s.q[:, 2]), speed[:, 2:]], axis=-1)


def _way(s):
    """From the box to the goal, in the box's axes `(worlds, 2)` [m]."""
    return _turned(s.xp, s.commands["goal"][:, :2] - s.q[:, 3:5], -s.q[:, 6])


def _error(s):
    """Angle by which the box misses the goal's `(worlds,)` [rad]."""
    return s.commands["goal"][:, 2] - s.q[:, 6]


def _seen(s):
    """Paddle, goal and velocities as the box sees them."""
    xp, angle = s.xp, -s.q[:, 6]
    turns = [s.q[:, 2] - s.q[:, 6], _error(s)]
    places = [_turned(xp, s.q[:, :2] - s.q[:, 3:5], angle), _way(s)]
    speeds = [_turned(xp, s.v[:, :2], angle), s.v[:, 2:3], _turned(xp, s.v[:, 3:5], angle), s.v[:, 6:7]]
    return xp.concat([*places, *(f(x)[:, None] for x in turns for f in (xp.cos, xp.sin)), *speeds], axis=-1)


def _distance(s):
    return ((_way(s) ** 2).sum(-1) + 1e-6) ** 0.5


def _astray(s):
    """From the paddle to the middle of the box's back `(worlds,)` [m]: further away nothing is pushed."""
    place = _turned(s.xp, s.q[:, :2] - s.q[:, 3:5], -s.q[:, 6])
    return ((place[:, 0] + BEHIND) ** 2 + place[:, 1] ** 2 + 1e-6) ** 0.5


class _behind(Term):
    """The paddle begins behind the box, which may be turned."""

    def bind(self, view) -> None:
        self.draws = view.draw(), view.draw()

    def __call__(self, view, start) -> None:
        xp, q = view.xp, start["q"]
        angle = view.uniform(1, -0.5, 0.5, draw=self.draws[0])
        side = view.uniform(1, -0.02, 0.02, draw=self.draws[1])
        paddle = _turned(xp, xp.concat([0.0 * side - BEHIND, side], axis=-1), angle[:, 0])
        start["q"] = xp.concat([paddle, angle, q[:, 3:6], angle], axis=-1)


class Push(Task):
    """A paddle pushes a box to a place and an angle. Actions: the paddle's forward, sideward and turning velocity."""

    model = staticmethod(scene)
    decimation, episode = 2, 100
    # as for Reach; in contact that is softened more, some trainings are slow
    learning = {
        "ppo": {"iterations": 150},
        "shac": {"iterations": 500, "gamma": 0.95, "init_std": 0.1, "smoothing": 0.05},
    }
    action_range = (-np.ones(3), np.ones(3))
    actuators = (_velocity,)
    commands = {"goal": uniform_command(*GOALS)}
    observations = {"seen": _seen, "action": last_action}
    rewards = {
        "far": (-2.0, _distance),
        "near": (1.0, lambda s: s.xp.exp(-((_distance(s) / 0.05) ** 2) - (_error(s) / 0.3) ** 2)),
        "angle": (-0.2, lambda s: 1.0 - s.xp.cos(_error(s))),
        "astray": (-1.0, _astray),
        "effort": (-0.01, action_squared),
    }
    success = {"place": lambda s: _distance(s) < 0.03, "angle": lambda s: abs(_error(s)) < ANGLE}
    starts = (_behind(), start_noise(v=0.01))
