# SPDX-License-Identifier: Apache-2.0
"""Our tasks by name, and in Gymnasium's registry."""

from gymnasium.envs import registration

from warpsim.checks import choice
from warpsim.envs import manipulation, mujoco_tasks, quadruped
from warpsim.envs.single import SingleEnv
from warpsim.envs.vector_env import VectorEnv

TASKS = {
    kind.__name__: kind
    for kind in (
        mujoco_tasks.Ant,
        mujoco_tasks.CartPole,
        mujoco_tasks.HalfCheetah,
        mujoco_tasks.Hopper,
        mujoco_tasks.Humanoid,
        mujoco_tasks.InvertedPendulum,
        manipulation.Lift,
        mujoco_tasks.Pusher,
        quadruped.Quadruped,
        quadruped.QuadrupedRough,
        manipulation.Reach,
        mujoco_tasks.Reacher,
        mujoco_tasks.Walker2d,
    )
}


def register() -> None:
    """Enter every task that is not there yet."""
    for name in TASKS:
        label = f"warpsim/{name}-v0"
        if label not in registration.registry:
            entries = {"entry_point": f"{__name__}:make_single", "vector_entry_point": f"{__name__}:make"}
            registration.register(label, **entries, kwargs={"task": name})


def make(task: str, num_envs: int = 1, **options) -> VectorEnv:
    """An environment of a task by name. Raises `ValueError` with the names there are."""
    return VectorEnv(TASKS[choice(task, "task", TASKS)], num_envs, **options)


def make_single(task: str, **options) -> SingleEnv:
    """One world of a task by name, as an ordinary environment."""
    return SingleEnv(TASKS[choice(task, "task", TASKS)], **options)
