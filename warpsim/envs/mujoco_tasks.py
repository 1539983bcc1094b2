"""The tasks of Gymnasium's MuJoCo environments (version 5), with their observations, rewards, terminations and starts.

Robots are the files of the gymnasium package. Physics is warpsim's: its contact law, and symplectic Euler in place of RK4.
"""

import pathlib

from warpsim.envs.task import Task
from warpsim.envs.terms import action_squared, forward_velocity, positions, start_noise, velocities


def asset(name: str):
    """A function that gives the path of a robot of the gymnasium package."""

    def path() -> str:
        import gymnasium

        return str(pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml")

    return path


def upright(height, angle, rest: float | None = None) -> tuple[dict, dict]:
    """Rewards and terminations of a robot in a plane that shall go forward while coordinate 1 of q, a height, and 2, an angle, stay within bounds,
    and with `rest` everything from there on below that."""

    def holds(s):
        found = (s.q[:, 1] > height[0]) & (s.q[:, 1] < height[1]) & (s.q[:, 2] > angle[0]) & (s.q[:, 2] < angle[1])
        if rest is not None:
            found = found & (abs(s.q[:, 2:]) < rest).all(-1) & (abs(s.v) < rest).all(-1)
        return found

    rewards = {"forward": forward_velocity(), "ctrl": (-1e-3, action_squared), "survive": lambda s: 1.0 * holds(s)}
    return rewards, {"unhealthy": lambda s: ~holds(s)}


class Hopper(Task):
    """Hopper-v5: one leg in a plane hops forward."""

    model = staticmethod(asset("hopper"))
    decimation = 4
    observations = {"positions": lambda s: s.q[:, 1:], "velocities": lambda s: s.xp.clip(s.v, -10.0, 10.0)}
    rewards, terminations = upright((0.7, float("inf")), (-0.2, 0.2), 100.0)
    starts = (start_noise(q=5e-3, v=5e-3),)


class Walker2d(Hopper):
    """Walker2d-v5: two legs in a plane walk forward."""

    model = staticmethod(asset("walker2d_v5"))
    rewards, terminations = upright((0.8, 2.0), (-1.0, 1.0))


class HalfCheetah(Task):
    """HalfCheetah-v5: two legs in a plane run forward; nothing ends an episode early."""

    model = staticmethod(asset("half_cheetah"))
    decimation = 5
    observations = {"positions": lambda s: s.q[:, 1:], "velocities": velocities()}
    rewards = {"forward": forward_velocity(), "ctrl": (-0.1, action_squared)}
    starts = (start_noise(q=0.1, v=0.1, normal="v"),)


class InvertedPendulum(Task):
    """InvertedPendulum-v5: a pole on a cart stays upright."""

    model = staticmethod(asset("inverted_pendulum"))
    decimation = 2
    observations = {"positions": positions(), "velocities": velocities()}
    rewards = {"survive": lambda s: 1.0 * (abs(s.q[:, 1]) <= 0.2)}
    terminations = {"fallen": lambda s: abs(s.q[:, 1]) > 0.2}
    starts = (start_noise(q=0.01, v=0.01),)


class CartPole(Task):
    """A pole on a cart, our own robot: upright, in the middle, at rest."""

    model = staticmethod(lambda: _own("cartpole"))
    timestep, decimation, episode = 0.01, 2, 500
    observations = {"positions": positions(), "velocities": velocities()}
    rewards = {
        "upright": lambda s: s.xp.cos(s.q[:, 1]),
        "middle": (-0.1, lambda s: s.q[:, 0] ** 2),
        "ctrl": (-1e-3, action_squared),
    }
    terminations = {"fallen": lambda s: (abs(s.q[:, 1]) > 0.5) | (abs(s.q[:, 0]) > 2.0)}
    starts = (start_noise(q=0.1, v=0.1),)


def _own(name: str) -> str:
    from warpsim import robots

    return robots.path(name)


TASKS = {kind.__name__: kind for kind in (CartPole, HalfCheetah, Hopper, InvertedPendulum, Walker2d)}
