# SPDX-License-Identifier: Apache-2.0
"""A task as an ordinary `gymnasium.Env`: a `VectorEnv` of one world, for `gymnasium.make`, checkers and wrappers."""

import gymnasium
import numpy as np

from warpsim.envs.vector_env import VectorEnv, reset_options
from warpsim.show.render import Camera, render_image

MODES = (None, "rgb_array")
PICTURE = (480, 360)  # [pixels]


class SingleEnv(gymnasium.Env):
    """One world of a task; `render_mode="rgb_array"` gives images `(360, 480, 3)`.

    Further options are as in `VectorEnv`, which is `.env`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(self, task, *, render_mode: str | None = None, **options):
        if render_mode not in MODES:
            raise ValueError(f"render_mode is {render_mode!r}; use one of {', '.join(map(repr, MODES))}")
        for name in ("autoreset", "array"):
            if name in options:
                raise ValueError(f"{name} is for environments of many worlds (gymnasium.make_vec); leave it out")
        self.env = VectorEnv(task, 1, **(options | {"array": "numpy", "autoreset": "DISABLED"}))
        self.render_mode = render_mode
        self.observation_space, self.action_space = self.env.single_observation_space, self.env.single_action_space
        self.metadata = self.metadata | {"render_fps": round(1.0 / self.env.view.dt)}

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin an episode; returns observation and info. There are no options."""
        reset_options(options, known=())
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed)
        return observation[0], {name: x[0] for name, x in info.items()}

    def step(self, action):
        """Take an action; returns observation, reward, terminated, truncated and info."""
        observation, reward, terminated, truncated, info = self.env.step(np.asarray(action)[None])
        told = {name: float(x[0]) if x.ndim == 1 else x[0] for name, x in info.items()}
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), told

    def render(self):
        """An image of the world; None without a render_mode."""
        if self.render_mode is None:
            return None
        view, model = self.env.view, self.env.sim.model
        middle = np.asarray(view.poses[0, :, :3]).mean(0)
        size = 1.0 + np.ptp(np.asarray(view.poses[0, :, :3]), axis=0).max()
        camera = Camera(tuple(middle + size * np.array([0.6, -2.2, 0.9])), tuple(middle))
        mocap = None if view.state.mocap is None else view.state.mocap.numpy()[:1]
        return render_image(model, np.asarray(view.q[0]), camera, *PICTURE, mocap=mocap)

    def close(self) -> None:
        self.env.close()
