# SPDX-License-Identifier: Apache-2.0
"""A `VectorEnv` for Stable-Baselines3 (`pip install 'warpsim[sb3]'`).

model = stable_baselines3.PPO("MlpPolicy", ws.envs.Sb3Env(ws.envs.TASKS["Hopper"], 64))
"""

import numpy as np
from gymnasium.vector import AutoresetMode

from warpsim.base.checks import listed, short
from warpsim.base.extras import import_or_explain
from warpsim.envs.vector_env import VectorEnv

import_or_explain("stable_baselines3", "sb3")

from stable_baselines3.common.vec_env import VecEnv  # noqa: E402


class Sb3Env(VecEnv):
    """All worlds of a task as the environments of a `VecEnv`. Arguments are those of `VectorEnv`, which is `.env`.

    Where an episode ends, the next one begins in the same step. Its info then has `terminal_observation` and
    `TimeLimit.truncated`, as in SB3's own environments, and `episode` with its return `r` and length `l`.
    """

    def __init__(self, task, num_envs: int = 1, **options):
        for name, kept in (("array", "numpy"), ("autoreset", "SAME_STEP")):
            if options.get(name, kept) not in (kept, getattr(AutoresetMode, kept, kept)):
                raise ValueError(f"{name} is {short(options[name])}; Stable-Baselines3 needs {kept!r}")
        self.env = VectorEnv(task, num_envs, **(options | {"array": "numpy", "autoreset": "SAME_STEP"}))
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)
        self._action = None
        self._returns, self._lengths = np.zeros(num_envs), np.zeros(num_envs, int)

    def reset(self):
        """Begin episodes in all worlds, with the seed of the last `seed()` call if there was one."""
        seed, self._seeds = self._seeds[0], [None] * self.num_envs
        self._returns[:], self._lengths[:] = 0.0, 0
        return self.env.reset(seed=seed)[0]

    def seed(self, seed: int | None = None):
        """Seed all worlds at the next reset, each by its index."""
        self._seeds = [seed] * self.num_envs
        return self._seeds

    def step_async(self, actions) -> None:
        self._action = actions

    def step_wait(self):
        observation, reward, terminated, truncated, info = self.env.step(self._action)
        ended = terminated | truncated
        self._returns += reward
        self._lengths += 1
        infos: list[dict] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            infos[i] = {
                "terminal_observation": info["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": 0.0},
            }
        self._returns[ended], self._lengths[ended] = 0.0, 0
        return observation, reward, ended, infos

    def close(self) -> None:
        self.env.close()

    # SB3's methods for single environments: each world is one ---------------------------------------------------------

    def get_attr(self, attr_name: str, indices=None) -> list:
        if not hasattr(self.env, attr_name):
            raise AttributeError(f"no {short(attr_name)} in {type(self.env).__name__}")
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value, indices=None) -> None:
        raise ValueError(f"{short(attr_name)} cannot be set for single worlds; make the environment with it")

    def env_method(self, method_name: str, *method_args, indices=None, **method_kwargs) -> list:
        raise ValueError(
            f"worlds have no method {short(method_name)} of their own; `.env` has: "
            f"{listed(['reset', 'step', 'state_dict'])}"
        )

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
