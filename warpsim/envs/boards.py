# SPDX-License-Identifier: Apache-2.0
"""Where a training is reported besides its folder's curve: TensorBoard, and Weights & Biases if asked for."""

import dataclasses
import os
import warnings

from warpsim.base.checks import short
from warpsim.base.extras import import_or_explain

AXIS = ("iteration", "env_steps")  # entries of a row that are no curve


def check_wandb(project) -> None:
    """Raise `ValueError` for a project without a name, `ImportError` where wandb is not installed."""
    if project is None:
        return
    if not isinstance(project, str) or not project.strip():
        raise ValueError(f"wandb is {short(project)}; give the name of a project")
    import_or_explain("wandb", "wandb")


class Boards:
    """The reports of one training, a context manager; only the first of several processes reports.

    `project`: of Weights & Biases. Without a network or a login the run is kept in the folder `wandb` of `folder`, for
    `wandb sync`.
    """

    def __init__(self, folder, project, learner):
        self.tensorboard = self.run = None
        if learner.world.rank == 0:
            self.tensorboard = None if folder is None else _tensorboard(folder)
            self.run = None if project is None else _wandb(project, folder, learner)

    def __enter__(self) -> "Boards":
        return self

    def add(self, row: dict) -> None:
        """Report an iteration; the horizontal axis is the number of env-steps."""
        values = {name: x for name, x in row.items() if name not in AXIS and x is not None}
        if self.tensorboard is not None:
            for name, value in values.items():
                self.tensorboard.add_scalar(name, value, row["env_steps"])
        if self.run is not None:
            self.run.log(values | {"iteration": row["iteration"]}, step=row["env_steps"])

    def __exit__(self, kind, *error) -> None:
        if self.tensorboard is not None:
            self.tensorboard.close()
        if self.run is not None:
            self.run.finish(exit_code=int(kind is not None))


def _tensorboard(folder):
    """TensorBoard's writer; None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))


def _wandb(project: str, folder, learner):
    """A run of Weights & Biases; offline where its server does not answer."""
    import wandb

    about = {"task": learner.task, "algorithm": learner.algorithm, "seed": learner.seed, "num_envs": learner.num_envs}
    about |= {learner.algorithm: dataclasses.asdict(learner.settings)}
    options = {"project": project, "dir": None if folder is None else os.fspath(folder), "config": about}
    options |= {"name": f"{learner.task} {learner.algorithm} {learner.seed}", "reinit": "finish_previous"}
    settings = {"console": "off", "silent": True}
    try:
        return wandb.init(**options, settings=wandb.Settings(init_timeout=30, **settings))
    except wandb.errors.Error as error:
        where = "wandb" if folder is None else os.path.join(folder, "wandb")
        line = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"W&B gives no run ({line}); it is kept in {where}, and `wandb sync` sends it", stacklevel=5)
        return wandb.init(**options, mode="offline", settings=wandb.Settings(**settings))
