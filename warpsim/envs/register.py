# SPDX-License-Identifier: Apache-2.0
"""Names of tasks, and Gymnasium's registry: our tasks, those of users, and those of other packages.

Another package names its tasks in its entry points, which are read here and loaded at their first use:

    [project.entry-points."warpsim.tasks"]
    Track = "my_package.tasks:Track"
"""

import importlib.metadata
import warnings

from gymnasium.envs import registration

from warpsim.base.checks import short
from warpsim.envs.task import Task
from warpsim.envs.tasks import NAMES, REGISTERED, TASKS, Registered, is_target, name_of, spellings

GROUP = "warpsim.tasks"  # of entry points
ENTRIES = {
    "entry_point": "warpsim.envs.single:SingleEnv",
    "vector_entry_point": "warpsim.envs.vector_env:VectorEnv",
}


def register(name=None, task=None) -> None:
    """Give a task a name, in warpsim and in Gymnasium's registry.

    Parameters
    ----------
    name : str or class, optional
        The name, such as "Track": `warpsim/Track-v0` is then Gymnasium's name, and "Track" and "track" are names of the
        task wherever one is given. A class of `Task` given alone has its own name. Default: registers the tasks of
        warpsim and of installed packages, as importing `warpsim.envs` does.
    task : class or str, optional
        The class, or "module:Class", which is imported at its first use.

    Raises
    ------
    ValueError
        Another task has the name, or `task` is neither a class of `Task` nor "module:Class".

    Examples
    --------
    >>> import gymnasium
    >>> class SlowPole(ws.envs.Task):
    ...     model = ws.robots.path("cartpole")
    ...     observations = {"q": lambda s: s.q}
    ...     decimation = 10
    >>> ws.envs.register(SlowPole)
    >>> env = gymnasium.make_vec("warpsim/SlowPole-v0", 2, vectorization_mode="vector_entry_point", device="cpu")
    >>> env.num_envs
    2
    """
    if name is None and task is None:
        for each in ("Task", *TASKS):
            _make_known(each, None if each == "Task" else each)
        _register_packages()
        return
    if isinstance(name, type) and task is None:
        name, task = name.__name__, name
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(
            f"register: name is {short(name)}; give a name such as Track, without spaces, or a class of Task"
        )
    if not (isinstance(task, type) and issubclass(task, Task)) and not (isinstance(task, str) and is_target(task)):
        raise ValueError(
            f"register({name!r}): task is {short(task)}; give a class of Task, or module:Class such as my_tasks:Track"
        )
    _add(Registered(name, task))


def _add(new: Registered) -> None:
    """Enter a task under all spellings of its name. The same task may be entered again, such as a class run anew."""
    for spelling in spellings(new.name):
        if spelling in NAMES or spelling == "task":
            raise ValueError(f"register: {new.name!r} is the name of a task of warpsim; choose another")
        old = REGISTERED.get(spelling)
        if old is not None and (name_of(old.target) != name_of(new.target) or old.name != new.name):
            raise ValueError(f"register: {new.name!r} is already the name of {old}; choose another")
    known = registration.registry.get(f"warpsim/{new.name}-v0")
    if known is not None and known.kwargs.get("task") != new.name:
        raise ValueError(f"register: Gymnasium's registry has another warpsim/{new.name}-v0; choose another name")
    REGISTERED.update(dict.fromkeys(spellings(new.name), new))
    _make_known(new.name, new.name)


def _make_known(name: str, task) -> None:
    """Enter a task in Gymnasium's registry, as `warpsim/Hopper-v0`."""
    label = f"warpsim/{name}-v0"
    if label not in registration.registry:
        registration.register(label, **ENTRIES, kwargs={"task": task})


def _register_packages() -> None:
    """Enter the tasks of installed packages, without importing them. A name that cannot be entered is told of."""
    try:
        points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    except Exception as error:  # metadata of some package that cannot be read
        warnings.warn(
            f"entry points cannot be read ({type(error).__name__}: {error}); no package's tasks are known", stacklevel=4
        )
        return
    for point in points:
        package = getattr(point.dist, "name", None) or "?"
        try:
            if not point.name.isidentifier() or not is_target(point.value):
                raise ValueError(f'{point.name} = {point.value!r} is no task: give Name = "module:Class"')
            _add(Registered(point.name, point.value, package))
        except ValueError as error:
            warnings.warn(f"package {package}, entry points {GROUP!r}: {error}; this task is left out", stacklevel=4)
