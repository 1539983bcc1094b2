# SPDX-License-Identifier: Apache-2.0
"""Tasks by name: our own, user tasks as `module:Class`, and registered tasks (`envs.register`)."""

import dataclasses
import importlib
import inspect
import re

from warpsim.base.checks import listed, short
from warpsim.envs import humanoid_walk, imitation, in_hand, manipulation, mujoco_tasks, pushing, velocity
from warpsim.envs.task import Task

TASKS = {
    kind.__name__: kind
    for kind in (
        mujoco_tasks.Ant,
        mujoco_tasks.CartPole,
        mujoco_tasks.CartPoleSwingUp,
        velocity.G1,
        velocity.G1Rough,
        velocity.Go1,
        velocity.Go1Rough,
        mujoco_tasks.HalfCheetah,
        mujoco_tasks.Hopper,
        mujoco_tasks.Humanoid,
        mujoco_tasks.HumanoidStandup,
        humanoid_walk.HumanoidWalk,
        imitation.Imitate,
        mujoco_tasks.InvertedDoublePendulum,
        mujoco_tasks.InvertedPendulum,
        manipulation.Lift,
        pushing.Push,
        mujoco_tasks.Pusher,
        velocity.Quadruped,
        velocity.QuadrupedRough,
        manipulation.Reach,
        mujoco_tasks.Reacher,
        in_hand.Rotate,
        mujoco_tasks.Swimmer,
        mujoco_tasks.Walker2d,
    )
}


def spellings(name: str) -> tuple[str, str]:
    """The lower-case spellings of a name: halfcheetah and half_cheetah for HalfCheetah."""
    return name.lower(), re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


NAMES = {spelling: name for name in TASKS for spelling in spellings(name)}


@dataclasses.dataclass(frozen=True)
class Registered:
    """A task that `register` or an entry point has named: its class, or `module:Class`, and the package it is of."""

    name: str
    target: type | str
    package: str | None = None

    def __str__(self) -> str:
        return name_of(self.target) + (f" of the package {self.package}" if self.package else "")


REGISTERED: dict[str, Registered] = {}  # by spelling
OWN = "a task of one's own is module:Class, as my_tasks:Track for the class Track in my_tasks.py"


def find_task(task) -> tuple[str, type[Task]]:
    """The name and class of a task, given by our name (`hopper`), as `module:Class`, or as a class.

    A class is named `module:Class`, a registered task too. Raises `ValueError` for anything else, and lists the names.
    """
    if isinstance(task, type) and issubclass(task, Task):
        return name_of(task), task
    if not isinstance(task, str):
        raise ValueError(f"task is {short(task)}; give the name of a task or a class of it")
    if task.lower() in REGISTERED:
        return _registered(REGISTERED[task.lower()])
    if ":" not in task:
        if task.lower() not in NAMES:
            known = [*TASKS, *sorted({entry.name for entry in REGISTERED.values()})]
            raise ValueError(f"task is {short(task)}; choose one of {listed(known, len(known))}; {OWN}")
        return NAMES[task.lower()], TASKS[NAMES[task.lower()]]
    kind = _imported(task)
    return (name_of(kind) if kind in TASKS.values() else task), kind


def _registered(entry: Registered) -> tuple[str, type[Task]]:
    """The name and class of a registered task, imported where it is not yet."""
    if not isinstance(entry.target, str):
        return name_of(entry.target), entry.target
    try:
        kind = _imported(entry.target)
    except ValueError as error:
        of = f" of the package {entry.package}" if entry.package else ""
        raise ValueError(f"registered task {entry.name!r}{of}: {error}") from error
    return (name_of(kind) if kind in TASKS.values() else entry.target), kind


def make_task(kind: type[Task], **changes) -> Task:
    """A checked task of this class; its own `__init__` may have set invalid attributes.

    Raises `ValueError` where the class cannot be called with these arguments.
    """
    try:
        inspect.signature(kind).bind(**changes)
    except TypeError as error:
        raise ValueError(
            f"{kind.__name__}: its __init__ is called with {listed(changes) if changes else 'no arguments'}, and "
            f"{error}. Give its arguments defaults, pass on "
            "**changes, or give the environment an instance"
        ) from None
    task = kind(**changes)
    task.check()
    return task


def name_of(kind: type[Task] | str) -> str:
    """The name by which `find_task` finds a class, or a task of this name."""
    if isinstance(kind, str):
        return kind
    ours = TASKS.get(kind.__name__) is kind
    return kind.__name__ if ours else f"{kind.__module__}:{kind.__qualname__}"


def is_target(task: str) -> bool:
    """Whether a name has the form `module:Class`."""
    return bool(re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", task))


def same_task(name: str, other: str) -> bool:
    """Whether two names may denote one task. A module may have a different name today (`__main__` where it is run)."""
    return name == other or (":" in name and ":" in other and name.partition(":")[2] == other.partition(":")[2])


def _imported(task: str) -> type[Task]:
    """The class that `module:Class` names."""
    module, _, path = task.partition(":")
    if module.endswith(".py"):
        raise ValueError(
            f"task is {short(task)}; give the module without .py, from the folder that it is in, as "
            f"{module[:-3].rpartition('/')[2]}:{path}"
        )
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"task is {short(task)}; {OWN}")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"task is {task!r}; there is no module {error.name!r} in this folder or on the Python path"
            ) from None
        raise ValueError(
            f"task is {task!r}; its module cannot be imported: {_where(error)}{type(error).__name__}: {error}"
        ) from error
    kind = found
    for part in path.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        known = [
            name for name, x in vars(found).items() if isinstance(x, type) and issubclass(x, Task) and x is not Task
        ]
        what = "is not there" if kind is None else f"is {short(kind)}"
        raise ValueError(f"task is {task!r}; {path!r} {what}; classes of Task in {module}: {listed(known)}")
    return kind


def _where(error) -> str:
    """File and line where an import failed."""
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    name, line = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    if isinstance(error, SyntaxError) and error.filename:
        name, line = error.filename, error.lineno
    return f"{name}, line {line}: "
