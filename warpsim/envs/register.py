# SPDX-License-Identifier: Apache-2.0
"""Registration of our tasks, and of user tasks, in Gymnasium's registry."""

from gymnasium.envs import registration

from warpsim.envs.tasks import TASKS

ENTRIES = {
    "entry_point": "warpsim.envs.single:SingleEnv",
    "vector_entry_point": "warpsim.envs.vector_env:VectorEnv",
}


def register() -> None:
    """Register every task that is not registered yet, as `warpsim/Hopper-v0`.

    `warpsim/Task-v0` makes the task of its argument `task`, a class or "module:Class".
    """
    for name in ("Task", *TASKS):
        label = f"warpsim/{name}-v0"
        if label not in registration.registry:
            registration.register(label, **ENTRIES, kwargs={"task": None if name == "Task" else name})
