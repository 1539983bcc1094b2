# SPDX-License-Identifier: Apache-2.0
"""Environments for learning: tasks as tables of terms, in all worlds of a simulator at once (docs/envs.md).

env = gymnasium.make_vec("warpsim/Hopper-v0", num_envs=4096, vectorization_mode="vector_entry_point")
env = ws.envs.VectorEnv(MyTask, 4096, array="torch", autoreset="SAME_STEP")
"""

import warpsim
from warpsim.base.extras import import_or_explain
from warpsim.base.learning import PpoSettings, ShacSettings

warpsim._hush()

import_or_explain("gymnasium", "envs")

from warpsim.envs import cameras, com_based, legged, sensing, symmetry, terms, terrain, velocity  # noqa: E402
from warpsim.envs.mixed import MixedEnv  # noqa: E402
from warpsim.envs.onnx_policy import OnnxPolicy  # noqa: E402
from warpsim.envs.register import register  # noqa: E402
from warpsim.envs.task import Task  # noqa: E402
from warpsim.envs.tasks import TASKS  # noqa: E402
from warpsim.envs.terms import Term  # noqa: E402
from warpsim.envs.vector_env import VectorEnv  # noqa: E402
from warpsim.envs.view import View  # noqa: E402

register()

__all__ = [
    "TASKS",
    "MixedEnv",
    "OnnxPolicy",
    "PpoSettings",
    "ShacSettings",
    "Task",
    "Term",
    "VectorEnv",
    "View",
    "cameras",
    "com_based",
    "legged",
    "register",
    "sensing",
    "symmetry",
    "terms",
    "terrain",
    "velocity",
]


def __getattr__(name: str):
    """Import `Sb3Env`, which needs Stable-Baselines3, on first access."""
    if name == "Sb3Env":
        from warpsim.envs.sb3 import Sb3Env

        return Sb3Env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
