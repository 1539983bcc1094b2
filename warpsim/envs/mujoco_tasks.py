# SPDX-License-Identifier: Apache-2.0
"""The tasks of Gymnasium's MuJoCo environments (version 5): observations, rewards, terminations and starts.

Robots are the files of the gymnasium package. Physics is warpsim's, its contact law and symplectic Euler, or with
`solver=ws.MuJoCo()` MuJoCo's and the file's integrator. Then trajectories are Gymnasium's own: what depends on body
poses and forces is read where the last physics step evaluated them, as Gymnasium does (`View.evaluated`).
"""

import pathlib

import numpy as np

from warpsim.envs.com_based import centre_inertia, centre_of_mass, centre_velocity, centre_wrench, joint_forces
from warpsim.envs.rotations import norm, rotated, summed
from warpsim.envs.sensing import body_index, body_position, displacement
from warpsim.envs.task import Task
from warpsim.envs.terms import Term, action_squared, forward_velocity, positions, start_from, start_noise, velocities
from warpsim.solve.mujoco import MuJoCo


def asset(name: str):
    """A function that returns the path of a robot of the gymnasium package."""

    def path() -> str:
        import gymnasium

        return str(pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml")

    return path


def upright(height, angle, rest: float | None = None) -> tuple[dict, dict]:
    """Rewards and terminations of a planar robot that runs forward.

    Coordinate 1 of q (a height) and coordinate 2 (an angle) must stay within bounds. With `rest`, the coordinates
    from 2 on and all velocities must stay below it in magnitude.
    """

    def holds(s):
        found = (s.q[:, 1] > height[0]) & (s.q[:, 1] < height[1]) & (s.q[:, 2] > angle[0]) & (s.q[:, 2] < angle[1])
        if rest is not None:
            found = found & (abs(s.q[:, 2:]) < rest).all(-1) & (abs(s.v) < rest).all(-1)
        return found

    rewards = {"forward": forward_velocity(), "ctrl": (-1e-3, action_squared), "survive": lambda s: 1.0 * holds(s)}
    return rewards, {"unhealthy": lambda s: ~holds(s)}


FEW = {"envs": 128, "iterations": 1000}  # of PPO; more worlds learn more slowly, in processor time


class Hopper(Task):
    """Hopper-v5: one leg in a plane hops forward."""

    model = staticmethod(asset("hopper"))
    decimation = 4
    observations = {"positions": lambda s: s.q[:, 1:], "velocities": lambda s: s.xp.clip(s.v, -10.0, 10.0)}
    # single policies of SHAC fall now and then
    learning = {"ppo": FEW, "shac": {"averaging": 0.998, "validate_every": 1000}}
    rewards, terminations = upright((0.7, float("inf")), (-0.2, 0.2), 100.0)
    starts = (start_noise(q=5e-3, v=5e-3),)


class Walker2d(Hopper):
    """Walker2d-v5: two legs in a plane walk forward."""

    model = staticmethod(asset("walker2d_v5"))
    learning = {
        "ppo": {"iterations": 400},
        # faster ones forget how to walk
        "shac": Hopper.learning["shac"] | {"learning_rate": 4e-4, "critic_learning_rate": 2e-3},
    }
    rewards, terminations = upright((0.8, 2.0), (-1.0, 1.0))


class HalfCheetah(Task):
    """HalfCheetah-v5: two legs in a plane run forward; nothing ends an episode early."""

    model = staticmethod(asset("half_cheetah"))
    decimation = 5
    learning = {"ppo": {"iterations": 500}, "shac": {"averaging": 0.998, "validate_every": 2000}}
    observations = {"positions": lambda s: s.q[:, 1:], "velocities": velocities()}
    rewards = {"forward": forward_velocity(), "ctrl": (-0.1, action_squared)}
    starts = (start_noise(q=0.1, v=0.1, normal="v"),)
    smooth = {"episode": 100}  # gradients improve how it moves: one that slides on its nose would learn to slide faster


class Swimmer(Task):
    """Swimmer-v5: three links swim forward in a plane."""

    model = staticmethod(asset("swimmer"))
    decimation = 4
    observations = {"positions": lambda s: s.q[:, 2:], "velocities": velocities()}
    rewards = {"forward": forward_velocity(), "ctrl": (-1e-4, action_squared)}
    starts = (start_noise(q=0.1, v=0.1),)


def _evaluated(term):
    """A term where the last physics step evaluated its forces, with MuJoCo's law."""
    return lambda s: term(s.evaluated)


def _flat(term, bound: float | None = None):
    """A term of all bodies, flattened."""

    def flattened(s):
        value = term(s.evaluated).reshape(s.worlds, -1)
        return value if bound is None else s.xp.clip(value, -bound, bound)

    return flattened


def _between(low: float, high: float):
    """Whether the height, coordinate 2 of q, lies within the bounds."""
    return lambda s: (s.q[:, 2] >= low) & (s.q[:, 2] <= high)


class _velocity_of(Term):
    """Speed of a place along x during the action `(worlds,)` [m/s], where the last physics step evaluated it.

    `place`: a function of a view that gives x, by default coordinate 0 of q.
    """

    def __init__(self, place, lagging: bool = False):
        self.place, self.lagging = place, lagging

    def bind(self, view) -> None:
        self.remembers = not self.lagging or view.evaluated is not view
        if self.remembers:
            self.memory, self.before = ("before",), view.arrays.copied(self.place(view.evaluated))

    def reset(self, view, mask) -> None:
        if self.remembers:
            self.before = view.xp.where(mask, self.place(view.evaluated), self.before)

    def __call__(self, view):
        if not self.remembers:
            return forward_velocity()(view)
        now = self.place(view.evaluated)
        speed = (now - self.before) / view.dt
        self.before = view.arrays.copied(now)
        return speed


class Ant(Task):
    """Ant-v5: four legs walk forward."""

    model = staticmethod(asset("ant"))
    decimation = 5
    learning = {"ppo": FEW}
    observations = {
        "positions": lambda s: s.q[:, 2:],
        "velocities": velocities(),
        "contact": _flat(centre_wrench, bound=1.0),
    }
    rewards = {
        "forward": _velocity_of(lambda s: body_position("torso")(s)[:, 0], lagging=True),
        "survive": lambda s: 1.0 * _between(0.2, 1.0)(s),
        "ctrl": (-0.5, action_squared),
        "contact": (-5e-4, lambda s: summed(s.xp.clip(centre_wrench(s.evaluated), -1.0, 1.0) ** 2).sum(-1)),
    }
    terminations = {"unhealthy": lambda s: ~_between(0.2, 1.0)(s)}
    starts = (start_noise(q=0.1, v=0.1, normal="v"),)
    smooth = {
        name: {key: term for key, term in table.items() if key != "contact"}
        for name, table in (("observations", observations), ("rewards", rewards))
    }


class Humanoid(Task):
    """Humanoid-v5: two legs walk forward."""

    model = staticmethod(asset("humanoid"))
    decimation = 5
    learning = {
        "ppo": {"iterations": 500, "hidden": (128, 128)},
        "shac": {"hidden": (128, 128), "validate_every": 300},  # episodes are short, so evaluations cost little
    }
    observations = {
        "positions": lambda s: s.q[:, 2:],
        "velocities": velocities(),
        "inertia": _flat(centre_inertia),
        "centre_velocity": _flat(centre_velocity),
        "actuators": lambda s: joint_forces(s)[:, 6:],
        "contact": _flat(centre_wrench),
    }
    rewards = {
        "forward": (1.25, _velocity_of(lambda s: centre_of_mass(s)[:, 0])),
        "survive": (5.0, lambda s: 1.0 * _upright(s)),
        "ctrl": (-0.1, lambda s: (s.control**2).sum(-1)),
        "contact": lambda s: -_impact(s),
    }
    terminations = {"unhealthy": lambda s: ~_upright(s)}
    starts = (start_noise(q=0.01, v=0.01),)
    # without what has no derivative, the velocity is the torso's, and what keeps it up is smooth
    smooth = {
        "observations": {"positions": observations["positions"], "velocities": observations["velocities"]},
        "rewards": {
            "forward": (1.25, lambda s: s.v[:, 0]),
            "survive": (5.0, lambda s: 0.5 * _margin(s, s.q[:, 2], 1.0, 0.35) + 0.5 * _torso_up(s)),
            "ctrl": rewards["ctrl"],
        },
    }


def _upright(s):
    return (s.q[:, 2] > 1.0) & (s.q[:, 2] < 2.0)


def _margin(s, value, least: float, width: float):
    """1 from `width` above `least` on, 0 at `least`, with a slope that is continuous down to `width` below."""
    return 1.0 - s.xp.clip((least + width - value) / width, 0.0, 2.0) ** 2


def _torso_up(s):
    """Cosine of the torso's inclination."""
    return 1.0 - 2.0 * (s.q[:, 4] ** 2 + s.q[:, 5] ** 2)


def _impact(s):
    return s.xp.clip(5e-7 * summed(centre_wrench(s.evaluated) ** 2).sum(-1), 0.0, 10.0)


class HumanoidStandup(Task):
    """HumanoidStandup-v5: the humanoid lies on its back and gets up; nothing ends an episode early."""

    model = staticmethod(asset("humanoidstandup"))
    decimation = 5
    learning = Humanoid.learning | {"shac": {"hidden": (128, 128)}}
    observations = Humanoid.observations
    rewards = {
        "linup": (1.0 / 0.003, lambda s: s.q[:, 2]),
        "quadctrl": (-0.1, lambda s: (s.control**2).sum(-1)),
        "impact": lambda s: -_impact(s),
        "constant": lambda s: 1.0 + 0.0 * s.q[:, 2],
    }
    smooth = {
        "observations": Humanoid.smooth["observations"],
        "rewards": {"linup": rewards["linup"], "quadctrl": rewards["quadctrl"], "constant": rewards["constant"]},
    }
    starts = (start_noise(q=0.01, v=0.01),)


class _reacher_start(Term):
    """q in ± 0.1, v in ± 0.005; the goal in a disc of 0.2 m, at rest."""

    def bind(self, view) -> None:
        self.draws = [view.draw() for _ in range(3)]

    def __call__(self, view, start) -> None:
        xp, (a, b, c) = view.xp, self.draws
        q = start["q"] + view.uniform(4, -0.1, 0.1, draw=a)
        v = start["v"] + view.uniform(4, -0.005, 0.005, draw=b)
        share = view.uniform(2, draw=c)
        radius, angle = 0.2 * share[:, :1] ** 0.5, 2.0 * np.pi * share[:, 1:]
        start["q"] = xp.concat([q[:, :2], radius * xp.cos(angle), radius * xp.sin(angle)], axis=-1)
        start["v"] = xp.concat([v[:, :2], 0.0 * v[:, 2:]], axis=-1)


class Reacher(Task):
    """Reacher-v5: an arm of two links reaches for a point."""

    model = staticmethod(asset("reacher"))
    decimation, episode = 2, 50
    learning = {"ppo": {"iterations": 100}}
    observations = {
        "cos": lambda s: s.xp.cos(s.q[:, :2]),
        "sin": lambda s: s.xp.sin(s.q[:, :2]),
        "goal": lambda s: s.q[:, 2:],
        "velocities": lambda s: s.v[:, :2],
        "displacement": lambda s: displacement("target", "fingertip")(s.evaluated)[:, :2],
    }
    rewards = {
        "dist": (-1.0, lambda s: norm(displacement("target", "fingertip")(s.evaluated))),
        "ctrl": (-1.0, action_squared),
    }
    starts = (_reacher_start(),)


class _pusher_start(Term):
    """The object somewhere in a rectangle, 0.17 m away from the goal at least; v of the arm in ± 0.005."""

    TRIES = 32  # tries; the chance that none is far enough is 1 in 10^11

    def bind(self, view) -> None:
        self.draws = [view.draw() for _ in range(2)]

    def __call__(self, view, start) -> None:
        xp = view.xp
        tries = view.uniform(2 * self.TRIES, draw=self.draws[0]).reshape(view.worlds, self.TRIES, 2)
        places = xp.stack([-0.3 * tries[..., 0], 0.4 * tries[..., 1] - 0.2], axis=-1)
        far = norm(places) > 0.17
        chosen = xp.argmax(1 * far, -1)[:, None] == view.arrays.constant(np.arange(self.TRIES))[None]
        place = xp.where(chosen[..., None], places, 0.0).sum(1)
        v = start["v"] + view.uniform(start["v"].shape[1], -0.005, 0.005, draw=self.draws[1])
        start["q"] = xp.concat([start["q"][:, :-4], place, 0.0 * place], axis=-1)
        start["v"] = xp.concat([v[:, :-4], 0.0 * v[:, -4:]], axis=-1)


class Pusher(Task):
    """Pusher-v5: an arm of seven joints pushes a cylinder to a goal."""

    model = staticmethod(asset("pusher_v5"))
    decimation, episode = 5, 100
    observations = {
        "positions": lambda s: s.q[:, :7],
        "velocities": lambda s: s.v[:, :7],
        "tip": _evaluated(body_position("tips_arm")),
        "object": _evaluated(body_position("object")),
        "goal": _evaluated(body_position("goal")),
    }
    rewards = {
        "dist": (-1.0, lambda s: norm(displacement("goal", "object")(s.evaluated))),
        "ctrl": (-0.1, action_squared),
        "near": (-0.5, lambda s: norm(displacement("tips_arm", "object")(s.evaluated))),
    }
    starts = (_pusher_start(),)


class InvertedPendulum(Task):
    """InvertedPendulum-v5: a pole on a cart stays upright."""

    model = staticmethod(asset("inverted_pendulum"))
    decimation = 2
    learning = {"ppo": {"iterations": 60}}
    observations = {"positions": positions(), "velocities": velocities()}
    rewards = {"survive": lambda s: 1.0 * (abs(s.q[:, 1]) <= 0.2)}
    terminations = {"fallen": lambda s: abs(s.q[:, 1]) > 0.2}
    starts = (start_noise(q=0.01, v=0.01),)


def _tip(s):
    """End of the upper pole `(worlds, 3)` [m]."""
    pose = s.evaluated.pose(body_index(s, "pole2"))
    return pose[:, :3] + rotated(s.xp, pose[:, 3:], s.arrays.constant(np.array([0.0, 0.0, 0.6], s.sim.dtype)))


class InvertedDoublePendulum(Task):
    """InvertedDoublePendulum-v5: two poles on a cart stay upright. It observes a force of MuJoCo's law."""

    model = staticmethod(asset("inverted_double_pendulum"))
    decimation = 5
    solver = MuJoCo()
    learning = {"ppo": {"iterations": 60}}
    observations = {
        "cart": lambda s: s.q[:, :1],
        "sin": lambda s: s.xp.sin(s.q[:, 1:]),
        "cos": lambda s: s.xp.cos(s.q[:, 1:]),
        "velocities": lambda s: s.xp.clip(s.v, -10.0, 10.0),
        "stop": lambda s: s.xp.clip(s.evaluated.constraint_force, -10.0, 10.0)[:, :1],
    }
    rewards = {
        "survive": (10.0, lambda s: 1.0 * (_tip(s)[:, 2] > 1.0)),
        "distance": lambda s: -0.01 * _tip(s)[:, 0] ** 2 - (_tip(s)[:, 2] - 2.0) ** 2,
        "velocity": lambda s: -1e-3 * s.v[:, 1] ** 2 - 5e-3 * s.v[:, 2] ** 2,
    }
    terminations = {"fallen": lambda s: _tip(s)[:, 2] <= 1.0}
    starts = (start_noise(q=0.1, v=0.1, normal="v"),)


class CartPole(Task):
    """A pole on a cart, our own robot: upright, in the middle, at rest."""

    model = staticmethod(lambda: _own("cartpole"))
    timestep, decimation, episode = 0.01, 2, 500
    learning = {"ppo": {"iterations": 100}, "shac": {"iterations": 100, "horizon_steps": 32}}
    observations = {"positions": positions(), "velocities": velocities()}
    rewards = {
        "upright": lambda s: s.xp.cos(s.q[:, 1]),
        "middle": (-0.1, lambda s: s.q[:, 0] ** 2),
        "ctrl": (-1e-3, action_squared),
    }
    terminations = {"fallen": lambda s: (abs(s.q[:, 1]) > 0.5) | (abs(s.q[:, 0]) > 2.0)}
    starts = (start_noise(q=0.1, v=0.1),)


class CartPoleSwingUp(CartPole):
    """The pole of the cart-pole hangs at first; it swings up and stays up, in the middle of the rail.

    The root in "upright" gives hanging poles a slope upward, where the cosine itself has none; "rest" tells a pole that
    stands from one that turns round and round.
    """

    learning = {
        "ppo": {"envs": 128, "iterations": 300},
        "shac": {"iterations": 600, "horizon_steps": 64, "learning_rate": 5e-3, "init_std": 1.0},
    }
    observations = {
        "cart": lambda s: s.q[:, :1],
        "cos": lambda s: s.xp.cos(s.q[:, 1:]),
        "sin": lambda s: s.xp.sin(s.q[:, 1:]),
        "velocities": velocities(),
    }
    rewards = {
        "upright": lambda s: (0.5 + 0.5 * s.xp.cos(s.q[:, 1]) + 1e-3) ** 0.5,
        "middle": (-0.2, lambda s: s.q[:, 0] ** 2),
        "rest": (-0.01, lambda s: s.v[:, 1] ** 2 * (0.5 + 0.5 * s.xp.cos(s.q[:, 1]))),
        "ctrl": (-1e-3, action_squared),
    }
    terminations = {}
    success = {"upright": lambda s: s.xp.cos(s.q[:, 1]) > 0.95}
    starts = (start_from("hanging"), start_noise(q=0.1, v=0.1))


def _own(name: str) -> str:
    from warpsim import robots

    return robots.path(name)
