# SPDX-License-Identifier: Apache-2.0
"""`Task`: the definition of an environment, as tables of terms."""

import copy
import difflib
import inspect
import pathlib
from collections.abc import Mapping

import numpy as np

from warpsim.base.checks import choice, listed, number, short, whole
from warpsim.base.learning import check_learning
from warpsim.files.load import load
from warpsim.model.model import Model
from warpsim.simulator import Simulator

TABLES = (
    "observations",
    "critic_observations",
    "rewards",
    "terminations",
    "success",
    "commands",
    "starts",
    "events",
    "actuators",
    "smooth",
    "evaluation",
    "measures",
)
ACTUATIONS = ("action", "physics")
NAMED = (
    *("observations", "critic_observations", "symmetry", "rewards", "terminations", "success", "commands", "measures"),
)
# Arguments of `Simulator` that `options` must not give, and where to give them instead.
OWNED = {
    "model": "give the task a model",
    "worlds": "num_envs says how many",
    "dt": "physics takes timestep, an action decimation of them; set those",
} | {name: "give it to the environment" for name in ("device", "threads", "dtype", "requires_grad")}


class Task:
    """A robot and its task: what an environment observes, rewards and ends.

    Define a task as a class with the attributes below. Only `model` and `observations` are needed.

    Parameters
    ----------
    **changes : Any
        Attributes by name, in place of those of the class.

    Attributes
    ----------
    model : path, Model, callable or list
        A file, a `Model`, a function that returns one, or a list of these. Worlds take the models of a list in turn.
    timestep : float or None
        Time step of the physics [s]. Default: None, the file's.
    decimation : int
        Physics steps per action. Default: 1.
    episode : int or None
        Actions after which an episode is truncated. None: never. Default: 1000.
    solver : ContactModel or None
        Contact model, such as `ws.MuJoCo()`. Default: None, the simulator's.
    integrator : Integrator or None
        Time integrator. Default: None, the simulator's; with `ws.MuJoCo()` the file's.
    options : dict
        Further arguments of `ws.Simulator`.
    observations : dict of str to term
        Terms of (worlds,) or (worlds, n), concatenated in this order.
    critic_observations : dict of str to term
        Terms that the critic sees in place of `observations`, such as quantities that a robot cannot measure.
        Environments return them in `info["critic"]`.
    symmetry : dict of str to rule
        By name of an observation, or "actions": how a left-right reflection maps it (`ws.envs.symmetry`).
    rewards : dict of str to term or (float, term)
        Terms of (worlds,), each with its weight, by default 1. The reward is their sum.
    terminations : dict of str to term
        Terms of booleans (worlds,). An episode ends where any is true.
    success : dict of str to term
        Terms of booleans (worlds,). An episode succeeds where all hold at its end. Evaluations report the share of
        episodes that do.
    commands : dict of str to command
        Commands that the robot shall follow, such as `ws.envs.terms.uniform_command`.
    starts : tuple of terms
        Terms that change the initial state of episodes (`start_noise`, …).
    events : tuple of terms
        Terms that act on the simulation (`randomise`, `push`, …).
    actuators : tuple of terms
        Terms from action to control, applied in order (`delayed`, `first_order`, `dc_motor`, …).
    actuation : str
        When actuators run. "action" (default): once per action, and their control is held. "physics": in each physics
        step, with the state before it.
    action_range : (low, high) or None
        Bounds of the actions, as numbers or arrays. Default: None, the control ranges.
    smooth : dict
        Attributes to use where SHAC learns, such as rewards without contact forces. Observations given here are the
        inputs of SHAC's policy: evaluation, `play` and export use them too.
    evaluation : dict
        Attributes to use where a policy is evaluated, such as fixed commands.
    measures : dict of str to term
        Terms of (worlds,) of which an evaluation reports the mean, such as a tracking error.
    learning : dict of str to settings
        By algorithm ("ppo", "shac") the settings of `warpsim train`: `PpoSettings`, `ShacSettings`, or a dict of some
        of their fields.

    Raises
    ------
    ValueError
        An attribute has a value that is not allowed, or is no attribute of a task. The message names it. Names of your
        own constants and functions begin with an underscore.

    Notes
    -----
    A term is a function of a `View`: `lambda s: s.q[:, 1]`. docs/own_tasks.md

    Examples
    --------
    >>> class Balance(ws.envs.Task):
    ...     model = ws.robots.path("cartpole")
    ...     observations = {"q": lambda s: s.q, "v": lambda s: s.v}
    ...     rewards = {"upright": lambda s: s.xp.cos(s.q[:, 1]), "effort": (-0.01, ws.envs.terms.action_squared)}
    ...     terminations = {"fallen": lambda s: abs(s.q[:, 1]) > 0.5}
    ...     starts = (ws.envs.terms.start_noise(q=0.05),)
    >>> env = ws.envs.VectorEnv(Balance, 64, device="cpu")
    >>> env.single_observation_space.shape, env.single_action_space.shape
    ((4,), (1,))
    """

    model: object = None
    timestep: float | None = None
    decimation: int = 1
    episode: int | None = 1000
    solver: object = None
    integrator: object = None
    options: Mapping = {}
    observations: Mapping = {}
    critic_observations: Mapping = {}
    symmetry: Mapping = {}
    rewards: Mapping = {}
    terminations: Mapping = {}
    success: Mapping = {}
    commands: Mapping = {}
    starts: tuple = ()
    events: tuple = ()
    actuators: tuple = ()
    actuation: str = "action"
    action_range: tuple | None = None
    smooth: Mapping = {}
    evaluation: Mapping = {}
    measures: Mapping = {}
    learning: Mapping = {}

    def __init__(self, **changes):
        _check_names(changes, type(self).__name__)
        for name, value in changes.items():
            setattr(self, name, value)
        self.check()

    def check(self) -> None:
        """Raise `ValueError` for an attribute that has a wrong value or is no attribute of a task."""
        label = type(self).__name__
        for owner in (self, *type(self).__mro__):
            if owner is not Task and owner is not object:
                given = [*vars(owner), *vars(owner).get("__annotations__", ())]
                _check_names([x for x in given if not x.startswith("_") and x not in METHODS], label)
        for name in Task.__annotations__:
            if name != "model" and isinstance(inspect.getattr_static(self, name), property):
                raise ValueError(
                    f"{label}: {name} is a property; give its value as an attribute, or set it in __init__"
                )
        self._check_tables(label)
        for name in ("solver", "integrator"):
            if getattr(self, name) is not None and name in self.options:
                raise ValueError(f"{label}: {name} is given, and options has {name!r} too; leave one out")
        for name in ("smooth", "evaluation"):
            changes, changed = getattr(self, name), copy.copy(self)
            if not isinstance(changes, Mapping):
                raise ValueError(f"{label}: {name} is {short(changes)}; give a dict of attributes and values")
            _check_names(changes, f"{label}: {name}")
            for key, value in changes.items():
                setattr(changed, key, value)
            changed._check_tables(f"{label}: {name}")
        check_learning(self.learning, label)

    def _check_tables(self, label: str) -> None:
        whole(self.decimation, f"{label}: decimation", 1)
        if self.episode is not None:
            whole(self.episode, f"{label}: episode", 1)
        if self.timestep is not None:
            number(self.timestep, f"{label}: timestep", "give a positive time [s], or None", lambda x: x > 0.0)
        choice(self.actuation, f"{label}: actuation", ACTUATIONS)
        _check_options(self.options, label)
        for name in NAMED:
            table = getattr(self, name)
            if not isinstance(table, Mapping) or any(not isinstance(key, str) for key in table):
                raise ValueError(f"{label}: {name} is {short(table)}; give a dict of names and terms")
            for key, term in table.items():
                if name == "rewards" and isinstance(term, tuple):
                    if len(term) != 2:
                        raise ValueError(f"{label}: rewards[{key!r}] is {short(term)}; give a term or (weight, term)")
                    number(term[0], f"{label}: weight of rewards[{key!r}]")
                    term = term[1]
                _check_term(term, f"{label}: {name}[{key!r}]")
        if not self.observations:
            raise ValueError(f"{label}: observations is empty; give at least one term")
        for name in ("starts", "events", "actuators"):
            terms = getattr(self, name)
            if not isinstance(terms, (tuple, list)):
                raise ValueError(f"{label}: {name} is {short(terms)}; give a tuple of terms")
            for i, term in enumerate(terms):
                _check_term(term, f"{label}: {name}[{i}]")

    def own(self) -> "Task":
        """A copy of the task for one environment, with its own copies of the terms, which keep state."""
        task = copy.copy(self)
        for name in TABLES:
            setattr(task, name, copy.deepcopy(getattr(self, name)))
        return task

    def make_models(self) -> list[Model]:
        """The models of the worlds: a list of one, or of several that worlds take in turn."""
        model = inspect.getattr_static(self, "model")
        model = model.__func__ if isinstance(model, staticmethod) else model
        if isinstance(model, (list, tuple)) and len(model):
            return [self._made(each) for each in model]
        return [self._made(model)]

    def _made(self, model) -> Model:
        if callable(model) and not isinstance(model, Model):
            try:
                inspect.signature(model).bind()
            except TypeError:
                raise ValueError(
                    f"{type(self).__name__}: model is the function {short(model)}, which takes arguments; give one "
                    "without, as a staticmethod"
                ) from None
            except ValueError:
                pass  # some C functions have no signature
            model = model()
        if isinstance(model, Model):
            return model
        if isinstance(model, (str, pathlib.Path)):
            return load(model)
        raise ValueError(
            f"{type(self).__name__}: model is {short(model)}; give a file, a Model, a function that gives one, or a "
            "list of them"
        )

    def actions(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Compute the bounds of the actions.

        Parameters
        ----------
        model : Model
            The model, for its control ranges.

        Returns
        -------
        low, high : array (actions,)
            Bounds, float32.

        Raises
        ------
        ValueError
            `action_range` has another shape, or low is above high.

        Examples
        --------
        >>> model = ws.load(ws.robots.path("cartpole"))
        >>> task = ws.envs.Task(model=model, observations={"q": lambda s: s.q}, action_range=(-0.5, 0.5))
        >>> [bound.tolist() for bound in task.actions(model)]
        [[-0.5], [0.5]]
        """
        if self.action_range is None:
            low, high = (model.control_range[:, i].astype(np.float32) for i in (0, 1))
        else:
            bounds = np.asarray(self.action_range, np.float32)
            if bounds.shape[:1] != (2,) or bounds.ndim > 2:
                raise ValueError(f"{type(self).__name__}: action_range is {short(self.action_range)}; give (low, high)")
            low, high = (np.broadcast_to(b, (model.nu,) if b.ndim == 0 else b.shape).copy() for b in bounds)
        if not (low <= high).all():
            raise ValueError(f"{type(self).__name__}: action_range has low above high: {short((low, high))}")
        return low, high


def simulator_options(task, **changes) -> dict:
    """Arguments of `Simulator` that a task, or a class of one, gives, with some of its attributes changed."""
    given = {name: changes.get(name, getattr(task, name)) for name in ("solver", "integrator", "options")}
    return {**given.pop("options"), **{name: value for name, value in given.items() if value is not None}}


METHODS = ("check", "own", "make_models", "actions")  # methods that a task may override


def _check_names(names, label: str) -> None:
    """Raise `ValueError` for a name that is no attribute of a task, and suggest the nearest attribute."""
    known = list(Task.__annotations__)
    for name in names:
        if name in known:
            continue
        near = [k for k in known if k.startswith(str(name))] or difflib.get_close_matches(str(name), known, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"{label} has {name!r}, which is no attribute of a task; {meant}There are: {listed(known, len(known))}. "
            "A constant or function of your own begins with an underscore, or stands outside the class"
        )


def _check_options(options, label: str) -> None:
    """Check that options contain only arguments of `Simulator` that a task may give."""
    if not isinstance(options, Mapping):
        raise ValueError(f"{label}: options is {short(options)}; give a dict of arguments of Simulator")
    for name, fix in OWNED.items():
        if name in options:
            raise ValueError(f"{label}: options has {name!r}; {fix}")
    known = [name for name in inspect.signature(Simulator).parameters if name not in OWNED]
    for name in options:
        if name not in known:
            raise ValueError(
                f"{label}: options has {name!r}, which is no argument of Simulator; there are: {listed(known)}"
            )


def _check_term(term, label: str) -> None:
    if not callable(term) or inspect.isclass(term):
        raise ValueError(f"{label} is {short(term)}; give a function of a view, such as lambda s: s.q[:, 0]")
