# SPDX-License-Identifier: Apache-2.0
"""What tasks there are and what is in one, in words and as a picture: the command `warpsim tasks`."""

import inspect

import numpy as np

from warpsim.envs.tasks import REGISTERED, TASKS, find_task, make_task
from warpsim.envs.vector_env import VectorEnv
from warpsim.show.render import render_png

PICTURE = (480, 320)  # [pixels]
TABLES = ("rewards", "terminations", "success", "measures", "observations", "critic_observations", "commands")
TABLES += ("starts", "events", "actuators")


def task_table() -> dict[str, str]:
    """Every name of a task, and what it is; of registered tasks, which are not imported here, where they are."""
    known = {name: _first_line(kind) for name, kind in TASKS.items()}
    return dict(sorted((known | {entry.name: str(entry) for entry in REGISTERED.values()}).items()))


def task_summary(task) -> list[str]:
    """Lines about a task (a name or a class): what it is, its times, its terms by name, and the weights of rewards."""
    name, kind = find_task(task)
    made = make_task(kind)
    lines = [f"{name}: {_first_line(kind)}", f"decimation {made.decimation}, episode {made.episode} actions"]
    for table in TABLES:
        terms = getattr(made, table)
        if table == "rewards":
            words = [f"{x} ({term[0]:g})" if isinstance(term, tuple) else f"{x} (1)" for x, term in terms.items()]
        else:
            words = list(terms) if hasattr(terms, "keys") else [_name(term) for term in terms]
        lines += [f"{table}: {', '.join(words)}"] if words else []
    return lines


def task_picture(task, path) -> None:
    """Write a PNG of a world of the task where its first episode begins."""
    env = VectorEnv(find_task(task)[1], 1, device="cpu", autoreset="DISABLED")
    env.reset(seed=0)
    mocap = None if env.state.mocap is None else env.state.mocap.numpy()[0]
    render_png(env.sim.model, np.asarray(env.view.q[0]), path, width=PICTURE[0], height=PICTURE[1], mocap=mocap)


def _first_line(kind) -> str:
    """The first line of a class's own docstring."""
    return (inspect.cleandoc(kind.__doc__ or "").splitlines() or [""])[0]


def _name(term) -> str:
    return getattr(term, "__name__", type(term).__name__).strip("_<>")
