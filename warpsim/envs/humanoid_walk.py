# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's humanoid walks at a commanded speed, upright: with rewards of our own, which are smooth (SHAC)."""

import numpy as np

from warpsim.envs.mujoco_tasks import asset
from warpsim.envs.rotations import rotated
from warpsim.envs.sensing import body_orientation, linear_velocity
from warpsim.envs.task import Task
from warpsim.envs.terms import (
    action_change,
    action_squared,
    command,
    last_action,
    start_noise,
    uniform_command,
    velocities,
)

TALL, FALLEN = 1.25, 0.9  # [m] height of the torso below which it costs, and ends the episode


def _axis(s, k: int):
    """Axis k of the torso in world axes `(worlds, 3)`."""
    unit = np.zeros(3, np.float32)
    unit[k] = 1.0
    return rotated(s.xp, body_orientation("torso")(s), s.arrays.constant(unit) + 0.0 * s.q[:, :3])


def _missed(s):
    """Error of the torso's horizontal velocity `(worlds, 2)` [m/s]; the command is along x."""
    velocity = linear_velocity("torso", "world")(s)
    return s.xp.stack([velocity[:, 0] - s.commands["speed"][:, 0], velocity[:, 1]], axis=-1)


class HumanoidWalk(Task):
    """The humanoid of Gymnasium walks along x at a commanded speed, upright."""

    model = staticmethod(asset("humanoid"))
    decimation, episode = 5, 600
    learning = {"ppo": {"iterations": 500, "hidden": (128, 128)}, "shac": {"hidden": (128, 128)}}
    commands = {"speed": uniform_command(0.6, 1.4)}
    observations = {
        "posture": lambda s: s.q[:, 2:],
        "velocities": velocities(),
        "command": command("speed"),
        "action": last_action,
    }
    rewards = {
        "track": (2.0, lambda s: s.xp.exp(-(_missed(s) ** 2).sum(-1) / 0.5)),
        "upright": (1.0, lambda s: _axis(s, 2)[:, 2]),
        "ahead": (0.5, lambda s: _axis(s, 0)[:, 0]),
        "low": (-20.0, lambda s: s.xp.clip(TALL - s.q[:, 2], 0.0, 1.0) ** 2),
        "alive": (1.0, lambda s: s.xp.ones_like(s.q[:, 0])),
        "effort": (-0.2, action_squared),
        "change": (-0.1, action_change),
    }
    terminations = {"fallen": lambda s: (s.q[:, 2] < FALLEN) | (s.q[:, 2] > 2.0)}
    success = {"walked": lambda s: s.q[:, 0] > 5.0, "upright": lambda s: s.q[:, 2] > FALLEN}
    starts = (start_noise(q=0.01, v=0.01),)
    evaluation = {"commands": {"speed": uniform_command(1.0, 1.0)}}
    measures = {"velocity_error": lambda s: (_missed(s) ** 2).sum(-1) ** 0.5}
