# SPDX-License-Identifier: Apache-2.0
"""The command `warpsim tasks`."""

import dataclasses

from tyro.conf import Positional

from warpsim.tools.cli_training import console, find_modules_here


@dataclasses.dataclass
class Tasks:
    """List the tasks that can be trained, or tell what is in one and draw it."""

    task: Positional[str | None] = None
    """A task by name, or module:Class; None lists the names."""
    picture: str | None = None
    """A PNG of the task where an episode begins."""

    def __call__(self) -> None:
        from warpsim.envs.overview import task_picture, task_summary, task_table
        from warpsim.files.output import check_file

        find_modules_here()
        if self.task is None:
            if self.picture:
                raise ValueError("--picture is of one task; give its name")
            lines = [f"{name}: {what}" for name, what in task_table().items()]
        else:
            lines = task_summary(self.task)
        if self.picture:
            task_picture(self.task, check_file(self.picture, (".png",)))
        for line in lines:
            console().print(line, highlight=False, markup=False, soft_wrap=True)
