# SPDX-License-Identifier: Apache-2.0
"""Terms that tasks are made of. Any function of a `View` is a term.

A term with a state is a `Term`: it has `bind(view)`, called once, and `reset(view, mask)`, called where episodes begin.
"""

import copy
import math

import numpy as np

from warpsim.base.checks import flag, listed, number, several, short, whole
from warpsim.envs.onnx_network import OnnxNetwork
from warpsim.envs.rotations import summed
from warpsim.envs.variants import keyframe_rows


class Term:
    """Base class of terms with a state.

    An environment calls `bind` once, `reset` where episodes begin, and the term itself where its value is needed. It
    works on copies of its task's terms.

    Attributes
    ----------
    memory : tuple of str
        Names of the attributes, arrays or lists of arrays, that the term keeps from step to step. Checkpoints store
        them.

    Examples
    --------
    >>> class Highest(ws.envs.Term):
    ...     memory = ("most",)
    ...     def bind(self, view):
    ...         self.most = view.arrays.made(np.zeros(view.worlds, np.float32))
    ...     def reset(self, view, mask):
    ...         self.most = view.xp.where(mask, 0.0, self.most)
    ...     def __call__(self, view):
    ...         self.most = view.xp.maximum(self.most, view.q[:, 0])
    ...         return self.most
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"most": Highest()})
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset()[0].tolist()
    [[0.0], [0.0]]
    """

    memory: tuple = ()
    tick = -1

    def first(self, view) -> bool:
        """Whether this is the first call for this action.

        When some worlds begin an episode, terms of observations, commands and events are called a second time, for all
        worlds. For an actuator with `actuation="physics"` it is the first call for this physics step.

        Parameters
        ----------
        view : View
            The worlds.

        Returns
        -------
        bool
            True in the first call.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view, term = ws.envs.VectorEnv(task, 2, device="cpu").view, ws.envs.Term()
        >>> term.first(view), term.first(view)
        (True, False)
        """
        new, self.tick = self.tick != view.tick, view.tick
        return new

    def bind(self, view) -> None:
        """Called once when an environment is made: allocate arrays and look up indices.

        A term belongs to one environment. A second `bind` clears the term's memory.

        Parameters
        ----------
        view : View
            The worlds.

        Examples
        --------
        The environment calls it for each term of its task.

        >>> class Turned(ws.envs.Term):
        ...     def bind(self, view):
        ...         self.pivot = view.model.joint_coordinates("pivot")[0].start
        ...     def __call__(self, view):
        ...         return view.q[:, self.pivot]
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"turned": Turned()})
        >>> ws.envs.VectorEnv(task, 2, device="cpu").reset()[0].shape                        # made with `bind`
        (2, 1)
        """

    def reset(self, view, mask) -> None:
        """Called where episodes begin.

        Parameters
        ----------
        view : View
            The worlds, in their initial states.
        mask : array (worlds,) of bool
            The worlds that begin an episode.

        Examples
        --------
        The environment calls it for each term of its task.

        >>> observations = {"q": ws.envs.terms.late(lambda s: s.q, steps=1)}
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations=observations)
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> observation, info = env.reset()
        """


def _rows(view, mask, new, old):
    """Rows of `new` where the mask holds, rows of `old` elsewhere."""
    return view.arrays.rows(mask, new, old)


# observations ---------------------------------------------------------------------------------------------------------


def positions(*joints):
    """Observation: positions of joints.

    Parameters
    ----------
    *joints : str
        Names of joints. Default: all of q.

    Returns
    -------
    term
        A term of (worlds, n): columns of q [m, rad].

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"angle": ws.envs.terms.positions("pivot")})
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset()[0].tolist()
    [[0.0], [0.0]]
    """
    return lambda s: s.q[:, s.columns(*joints)[0]] if joints else s.q


def velocities(*joints):
    """Observation: velocities of joints.

    Parameters
    ----------
    *joints : str
        Names of joints. Default: all of v.

    Returns
    -------
    term
        A term of (worlds, n): columns of v [m/s, rad/s].

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"v": ws.envs.terms.velocities()})
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset()[0].shape
    (2, 2)
    """
    return lambda s: s.v[:, s.columns(*joints)[1]] if joints else s.v


def last_action(s):
    """Observation: the action of this step. The policy sees it before its next action.

    Parameters
    ----------
    s : View
        The worlds.

    Returns
    -------
    array (worlds, actions)
        The action; 0 where an episode begins.

    Examples
    --------
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"action": ws.envs.terms.last_action})
    >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
    >>> _ = env.reset()
    >>> env.step(np.array([[0.5], [-0.5]]))[0].tolist()
    [[0.5], [-0.5]]
    """
    return s.action


def command(name: str):
    """Observation: the present value of a command.

    Parameters
    ----------
    name : str
        Name of the command in `Task.commands`.

    Returns
    -------
    term
        A term of (worlds, n).

    Raises
    ------
    ValueError
        At the first observation: the task has no such command.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> commands, observations = {"goal": terms.uniform_command(-1.0, 1.0)}, {"goal": terms.command("goal")}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), commands=commands, observations=observations)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0].shape
    (2, 1)
    """

    def term(s):
        if name not in s.commands:
            raise ValueError(f"no command {short(name)}; the task has: {listed(s.commands)}")
        return s.commands[name]

    return term


class noisy(Term):
    """Observation: a term with noise.

    Parameters
    ----------
    term : term
        The term. Its shape stays.
    uniform : float
        Each observation adds noise, uniform in ± `uniform`. Default: 0.
    normal : float
        Each observation adds normal noise with this standard deviation. Default: 0.
    bias : float
        Each episode adds a constant, uniform in ± `bias`. Default: 0.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> observations = {"v": terms.noisy(terms.velocities(), normal=0.1, bias=0.05)}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations=observations)
    >>> bool((ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0] != 0.0).all())
    True
    """

    memory = ("offset",)

    def __init__(self, term, *, uniform: float = 0.0, normal: float = 0.0, bias: float = 0.0):
        rule = "give a number of at least 0"
        self.term = term
        self.amounts = {
            n: number(x, n, rule, lambda x: 0.0 <= x < math.inf)
            for n, x in (("uniform", uniform), ("normal", normal), ("bias", bias))
        }

    def bind(self, view) -> None:
        _bind(self.term, view)
        self.draws, self.offset = [view.draw() for _ in range(3)], None

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)
        if self.offset is not None:
            self.offset = _rows(view, mask, self._bias(view), self.offset)

    def _bias(self, view):
        most = self.amounts["bias"]
        return view.uniform(self.size, -most, most, draw=self.draws[2], of_episode=True)

    def __call__(self, view):
        value = self.term(view)
        shape = (view.worlds,) if value.ndim == 1 else (view.worlds, -1)
        value = value.reshape(view.worlds, -1)
        self.size = value.shape[1]
        if self.amounts["uniform"]:
            value = value + view.uniform(
                self.size, -self.amounts["uniform"], self.amounts["uniform"], draw=self.draws[0]
            )
        if self.amounts["normal"]:
            value = value + view.normal(self.size, 0.0, self.amounts["normal"], draw=self.draws[1])
        if self.amounts["bias"]:
            self.offset = self._bias(view) if self.offset is None else self.offset
            value = value + self.offset
        return value.reshape(shape)


class late(Term):
    """Observation: a term as it was some actions ago.

    Parameters
    ----------
    term : term
        The term.
    steps : int
        Number of actions. In an episode's first actions the value is that of the initial state.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> observations = {"q": terms.late(terms.positions(), steps=2)}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations=observations)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset()[0].shape
    (2, 2)
    """

    memory = ("kept", "begun")

    def __init__(self, term, steps: int):
        self.term, self.steps = term, whole(steps, "steps", 0)

    def bind(self, view) -> None:
        _bind(self.term, view)
        self.kept: list = []
        self.begun = None

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)
        self.begun = mask if self.begun is None else self.begun | mask

    def __call__(self, view):
        return self.after(view, self.term(view))

    def after(self, view, value):
        """Store a value and return that of `steps` calls ago.

        Parameters
        ----------
        view : View
            The worlds.
        value : array (worlds, ...)
            The present value.

        Returns
        -------
        array (worlds, ...)
            The value of `steps` calls ago.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view, term = ws.envs.VectorEnv(task, 1, device="cpu").view, ws.envs.terms.late(lambda s: s.q, steps=1)
        >>> term.bind(view)
        >>> term.after(view, np.array([1.0])).tolist()                         # the first value stands for those before
        [1.0]
        """
        value = view.arrays.copied(value)
        if not self.kept:
            self.kept = [value] * (self.steps + 1)
        if self.begun is not None:
            self.kept = [_rows(view, self.begun, value, old) for old in self.kept]
            self.begun = None
        self.kept = [*self.kept[1:], value] if self.first(view) else [*self.kept[:-1], value]
        return self.kept[0]


class history(late):
    """Observation: the values of a term in the last observations, (worlds, steps n), the oldest first.

    Parameters
    ----------
    term : term
        The term.
    steps : int
        Number of observations, at least 1. In an episode's first actions the value at the initial state stands for
        those before.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> observations = {"v": terms.history(terms.noisy(terms.velocities(), uniform=0.1), steps=5)}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations=observations)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0].shape
    (2, 10)
    """

    def __init__(self, term, steps: int):
        super().__init__(term, whole(steps, "steps", 1) - 1)

    def __call__(self, view):
        self.after(view, self.term(view).reshape(view.worlds, -1))
        return view.xp.concat(self.kept, axis=-1)


# rewards --------------------------------------------------------------------------------------------------------------


def forward_velocity(axis: int = 0):
    """Reward: mean velocity of a coordinate of q during the action.

    Parameters
    ----------
    axis : int
        Column of q. Default: 0.

    Returns
    -------
    term
        A term of (worlds,) [m/s].

    Examples
    --------
    >>> rewards = {"forward": ws.envs.terms.forward_velocity()}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, rewards=rewards)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> bool(env.step(np.ones((1, 1)))[1][0] > 0.0)
    True
    """
    return lambda s: (s.q[:, axis] - s.q_before[:, axis]) / s.dt


def action_squared(s):
    """Reward: sum of the squared actions, Σ a². Give it a negative weight.

    Parameters
    ----------
    s : View
        The worlds.

    Returns
    -------
    array (worlds,)
        The sum.

    Examples
    --------
    >>> rewards = {"effort": (-0.1, ws.envs.terms.action_squared)}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, rewards=rewards)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> env.step(np.ones((1, 1)))[1].round(6).tolist()
    [-0.10000000149011612]
    """
    return summed(s.action**2)


def action_change(s):
    """Reward: sum of the squared changes of the action, Σ (a − last a)². Give it a negative weight.

    Parameters
    ----------
    s : View
        The worlds.

    Returns
    -------
    array (worlds,)
        The sum.

    Examples
    --------
    >>> rewards = {"change": (-1.0, ws.envs.terms.action_change)}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, rewards=rewards)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> env.step(np.ones((1, 1)))[1].tolist()
    [-1.0]
    """
    return summed((s.action - s.last_action) ** 2)


# where episodes begin -------------------------------------------------------------------------------------------------


class start_noise(Term):
    """Start: noise on the initial positions and velocities.

    Parameters
    ----------
    q : float
        Noise of the positions, uniform in ± q [m, rad]. Default: 0.
    v : float
        Noise of the velocities, uniform in ± v [m/s, rad/s]. Default: 0.
    normal : bool or str
        Whether `q` and `v` are standard deviations of normal noise: True, False (default), "q" for q alone, or "v" for
        v alone.

    Examples
    --------
    >>> starts = (ws.envs.terms.start_noise(q=0.05, v=0.1),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, starts=starts)
    >>> q = ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0]
    >>> bool((q != 0.0).all() and (abs(q) <= 0.05).all())
    True
    """

    def __init__(self, q: float = 0.0, v: float = 0.0, normal: bool | str = False):
        rule = "give a number of at least 0"
        self.q, self.v = (number(x, name, rule, lambda x: 0.0 <= x < math.inf) for name, x in (("q", q), ("v", v)))
        if normal not in (False, True, "q", "v"):
            raise ValueError(f'normal is {short(normal)}; use True, False, "q" or "v"')
        self.normal = normal

    def bind(self, view) -> None:
        self.draws = {"q": view.draw(), "v": view.draw()}

    def __call__(self, view, start):
        for name, amount in (("q", self.q), ("v", self.v)):
            if amount:
                columns = start[name].shape[1]
                if self.normal is True or self.normal == name:
                    noise = view.normal(columns, 0.0, amount, draw=self.draws[name])
                else:
                    noise = view.uniform(columns, -amount, amount, draw=self.draws[name])
                start[name] = start[name] + noise


class start_from(Term):
    """Start: begin episodes in a keyframe of the model.

    Parameters
    ----------
    keyframe : str
        Name of the keyframe.

    Examples
    --------
    >>> starts = (ws.envs.terms.start_from("hanging"),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, starts=starts)
    >>> ws.envs.VectorEnv(task, 1, device="cpu").reset()[0].round(3).tolist()
    [[0.0, 3.1419999599456787]]
    """

    def __init__(self, keyframe: str):
        self.keyframe = keyframe

    def bind(self, view) -> None:
        for model in view.models:
            if self.keyframe not in model.keyframes:
                raise ValueError(
                    f"no keyframe {short(self.keyframe)} in model {model.name!r}; it has: {listed(model.keyframes)}"
                )
        rows = keyframe_rows(view.models, self.keyframe, view.numbers)
        self.start = {name: view.arrays.made(x.astype(view.sim.dtype)) for name, x in rows.items()}

    def __call__(self, view, start) -> None:
        for name in "qv":
            start[name] = self.start[name]


# commands -------------------------------------------------------------------------------------------------------------


class uniform_command(Term):
    """Command: values drawn uniformly in [low, high).

    Parameters
    ----------
    low : float or array (n,)
        Lower bound.
    high : float or array (n,)
        Upper bound.
    every : int, optional
        Actions after which values are drawn again. Default: only where an episode begins.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> commands = {"velocity": terms.uniform_command((-1.0, -0.5), (1.0, 0.5), every=250)}
    >>> observations = {"command": terms.command("velocity")}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), commands=commands, observations=observations)
    >>> ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0].shape
    (2, 2)
    """

    def __init__(self, low, high, every: int | None = None):
        self.low, self.high = (np.atleast_1d(np.asarray(x, np.float32)) for x in (low, high))
        if self.low.shape != self.high.shape or not (self.low <= self.high).all():
            raise ValueError(
                f"a command is drawn between {short(low)} and {short(high)}; give low <= high of one shape"
            )
        self.every = None if every is None else whole(every, "every", 1)

    def bind(self, view) -> None:
        self.number = view.draw()

    def __call__(self, view, before, begun):
        """New commands, from the previous ones and a mask of the worlds that begin an episode."""
        if self.every is not None:
            begun = begun | (view.steps % self.every == 0)
        if before is not None and not view.arrays.any(begun):
            return before
        new = view.uniform(len(self.low), self.low, self.high, draw=self.number)
        return new if before is None else _rows(view, begun, new, before)


class widening_command(uniform_command):
    """Command: a `uniform_command` whose range widens with success, in each world by itself.

    The range is the middle of [low, high) ± a share of its half width. The share changes with success, up to 1.

    Parameters
    ----------
    low : float or array (n,)
        Lower bound at a share of 1.
    high : float or array (n,)
        Upper bound at a share of 1.
    every : int
        Actions after which values are drawn again.
    success : term
        A term of (worlds,) between 0 and 1, such as a tracking reward. Its mean is taken over the `every` actions of a
        command.
    first : float
        The share at the beginning, and its least value. Default: 0.3.
    step : float
        How much the share grows or shrinks at a time. Default: 0.1.
    above : float
        The share grows where the mean success is above this. Default: 0.8.
    below : float
        The share shrinks where the mean success is below this, for example because the robot falls early. Default: 0.4.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> upright = lambda s: s.xp.exp(-s.q[:, 1] ** 2)
    >>> commands = {"goal": terms.widening_command(-1.0, 1.0, every=100, success=upright)}
    >>> observations = {"goal": terms.command("goal")}
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), commands=commands, observations=observations)
    >>> bool((abs(ws.envs.VectorEnv(task, 2, device="cpu").reset(seed=1)[0]) <= 0.3).all())
    True
    """

    memory = ("share", "gained", "count")

    def __init__(self, low, high, every: int, success, *, first=0.3, step=0.1, above=0.8, below=0.4):
        super().__init__(low, high, whole(every, "every", 1))
        self.term = success
        self.least, self.step, self.above, self.below = (
            number(value, name, "give a number between 0 and 1", lambda x: 0.0 <= x <= 1.0)
            for name, value in (("first", first), ("step", step), ("above", above), ("below", below))
        )
        if below > above:
            raise ValueError(f"below is {below} and above {above}; give below <= above")

    def bind(self, view) -> None:
        super().bind(view)
        _bind(self.term, view)
        made = view.arrays.made
        self.share = made(np.full(view.worlds, self.least, np.float32))
        self.gained, self.count = 0.0 * self.share, made(np.zeros(view.worlds, np.int64))

    def reset(self, view, mask) -> None:
        _reset(self.term, view, mask)

    def __call__(self, view, before, begun):
        xp, due, moved = view.xp, begun | (view.steps % self.every == 0), self.first(view)
        if before is not None and moved:
            self.gained, self.count = self.gained + self.term(view) / self.every, self.count + 1
        change = self.step * (1.0 * (self.gained > self.above) - 1.0 * (self.gained < self.below))
        judged = due & (self.count > 0)
        if view.cut is not None:
            judged = judged & ~(begun & view.cut)
        share = xp.clip(self.share + xp.where(judged, change, 0.0), self.least, 1.0)
        self.share = xp.where(begun & view.seeded, self.least, share)
        self.gained, self.count = xp.where(due, 0.0, self.gained), xp.where(due, 0, self.count)
        low, high = (view.arrays.constant(x) for x in (self.low, self.high))
        new = view.uniform(len(self.low), self.low, self.high, draw=self.number)
        middle = 0.5 * (low + high)
        new = middle + self.share[:, None] * (new - middle)
        return new if before is None else _rows(view, due, new, before)


# from actions to controls ---------------------------------------------------------------------------------------------


class scaled(Term):
    """Actuator: offset + scale · a.

    Parameters
    ----------
    scale : float or array (actions,)
        Factor. Default: 1.
    offset : float or array (actions,)
        Offset. Default: 0.

    Examples
    --------
    >>> actuators = (ws.envs.terms.scaled(0.5, offset=0.1),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, actuators=actuators)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> _ = env.step(np.ones((1, 1)))
    >>> env.view.control.round(3).tolist()
    [[0.6000000238418579]]
    """

    def __init__(self, scale=1.0, offset=0.0):
        self.scale, self.offset = (np.asarray(x, np.float32) for x in (scale, offset))
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if not np.isfinite(values).all():
                raise ValueError(f"scaled: {name} is {short(values.tolist())}; give finite numbers")

    def bind(self, view) -> None:
        self.a, self.b = view.arrays.made(self.scale), view.arrays.made(self.offset)

    def __call__(self, view, action):
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if values.ndim > 1 or values.size not in (1, action.shape[1]):
                raise ValueError(f"scaled: {name} has shape {values.shape}; there are {action.shape[1]} actions")
        return self.b + self.a * action


class delayed(late):
    """Actuator: delay actions.

    Parameters
    ----------
    steps : int
        Number of actions; with `actuation="physics"` number of physics steps.

    Examples
    --------
    >>> actuators = (ws.envs.terms.delayed(1),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, actuators=actuators)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> _ = env.step(np.ones((1, 1))), env.step(np.zeros((1, 1)))
    >>> env.view.control.tolist()
    [[1.0]]
    """

    def __init__(self, steps: int):
        super().__init__(None, steps)

    def __call__(self, view, action):
        return self.after(view, action)


class first_order(Term):
    """Actuator: controls u that follow actions a with a time constant τ, u' = (a − u)/τ, from u = 0.

    Parameters
    ----------
    time_constant : float
        τ [s].

    Examples
    --------
    >>> actuators = (ws.envs.terms.first_order(0.1),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, actuators=actuators)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> _ = env.step(np.ones((1, 1)))
    >>> bool(abs(env.view.control[0, 0] - (1.0 - np.exp(-env.view.dt / 0.1))) < 1e-6)
    True
    """

    memory = ("level",)

    def __init__(self, time_constant: float):
        self.tau = number(time_constant, "time_constant", "give a positive time [s]", lambda x: 0.0 < x < math.inf)

    def bind(self, view) -> None:
        self.share, self.level = 1.0 - math.exp(-view.period / self.tau), None

    def reset(self, view, mask) -> None:
        if self.level is not None:
            self.level = view.xp.where(mask[:, None], 0.0, self.level)

    def __call__(self, view, action):
        before = 0.0 * action if self.level is None else self.level
        self.level = before + self.share * (action - before)
        return self.level


class dc_motor(Term):
    """Actuator: a DC motor, whose available torque falls with speed.

    A control u in the direction of the joint's motion is limited to `stall_torque` (1 − speed/`free_speed`), one
    against it to `stall_torque`.

    Parameters
    ----------
    stall_torque : float or array (actions,)
        Largest control at rest, in units of control.
    free_speed : float or array (actions,)
        Speed at which no torque is left [rad/s, m/s].
    joints : sequence of str
        The joints that the actuators drive, in the order of the actuators. Default: from the model.

    Examples
    --------
    >>> actuators = (ws.envs.terms.dc_motor(0.5, free_speed=10.0),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, actuators=actuators)
    >>> env = ws.envs.VectorEnv(task, 1, device="cpu")
    >>> _ = env.reset()
    >>> _ = env.step(np.ones((1, 1)))
    >>> env.view.control.tolist()
    [[0.5]]
    """

    def __init__(self, stall_torque, free_speed, joints=()):
        self.stall, self.free = (np.atleast_1d(np.asarray(x, np.float32)) for x in (stall_torque, free_speed))
        self.joints = tuple(joints)
        for name, values in (("stall_torque", self.stall), ("free_speed", self.free)):
            if values.ndim > 1 or not ((values > 0) & np.isfinite(values)).all():
                raise ValueError(
                    f"{name} is {short(stall_torque if values is self.stall else free_speed)}; give a positive "
                    "number, or one for each joint"
                )

    def bind(self, view) -> None:
        model = view.model
        if not self.joints and (model.actuator_joint < 0).any():
            name = model.actuator_names[int(np.flatnonzero(model.actuator_joint < 0)[0])]
            raise ValueError(f"dc_motor: actuator {name!r} drives no joint; name the joints, one for each action")
        self.names = self.joints or tuple(model.joint_names[j] for j in model.actuator_joint)
        self.places = view.columns(*self.names)[1]
        for name, values in (("stall_torque", self.stall), ("free_speed", self.free)):
            if len(values) not in (1, len(self.places)):
                raise ValueError(
                    f"dc_motor: {name} has {len(values)} numbers; the joints {listed(self.names)} have "
                    f"{len(self.places)} velocities"
                )

    def __call__(self, view, action):
        if action.shape[1] != len(self.places):
            raise ValueError(
                f"dc_motor: the joints {listed(self.names)} have {len(self.places)} velocities, and there are "
                f"{action.shape[1]} actions; "
                "name the joints that the actions drive, one for each"
            )
        constant = view.arrays.constant
        stall, speed = constant(self.stall), view.v[:, self.places] / constant(self.free)
        highest = stall * view.xp.clip(1.0 - speed, 0.0, 1.0)
        lowest = -stall * view.xp.clip(1.0 + speed, 0.0, 1.0)
        return view.xp.minimum(view.xp.maximum(action, lowest), highest)


class actuator_network(late):
    """Actuator: torques of motors from a neural network that sees the recent motion of the joints.

    The action is the target position of each joint. If actions are not targets in rad or m, put `scaled` before this
    term, as in the example. For each joint the network sees position errors (target minus position) and velocities
    `lags` evaluations ago, errors first, each in the order of `lags`. It gives the torque [N m or N]. One call serves
    all worlds and joints.

    Parameters
    ----------
    network : path or torch.nn.Module
        From (rows, 2 len(lags)) to (rows, 1). An ONNX file (extra `export`) is run on the CPU and has no gradient. A
        torch module runs on any device, and in environments of tensors it passes gradients to the actions. It is
        copied, and its weights are not trained.
    joints : sequence of str
        The joints that the actions drive, in order. Default: those of the actuators.
    lags : sequence of int
        Ages of the errors and velocities that the network sees, counted in actions, or with `actuation="physics"` in
        physics steps. Default: 0, 1 and 2.
    position_scale : float
        Factor of the position errors that the network sees. Default: 1.
    velocity_scale : float
        Factor of the velocities that the network sees. Default: 1.
    torque_scale : float
        Factor of the torque that the network gives. Default: 1.
    velocity_first : bool
        Whether the network takes velocities before errors. Default: False.

    Raises
    ------
    ValueError
        The network has other sizes or weights that are not finite, or an actuator is no motor.

    Notes
    -----
    Hwangbo et al., "Learning agile and dynamic motor skills for legged robots", 2019, eq. 2. The network is evaluated
    once per action, and its torque is held for the action. With the task's `actuation = "physics"` it is evaluated in
    each physics step: networks of real drives expect the rate of their data, such as 200 to 1,000 Hz. Where an episode
    begins, the first values stand for the earlier ones.

    Examples
    --------
    The example needs a trained network, so that doctest skips it.

    >>> terms = ws.envs.terms
    >>> actuators = (terms.scaled(0.25, POSE), terms.actuator_network("anydrive.onnx"))      # doctest: +SKIP
    """

    def __init__(
        self,
        network,
        joints=(),
        *,
        lags=(0, 1, 2),
        position_scale: float = 1.0,
        velocity_scale: float = 1.0,
        torque_scale: float = 1.0,
        velocity_first: bool = False,
    ):
        self.lags = tuple(whole(lag, "an entry of lags", 0) for lag in several(lags, "lags"))
        if not self.lags:
            raise ValueError("lags is empty; give the ages of what the network sees, such as (0, 1, 2)")
        super().__init__(None, max(self.lags))
        self.joints, self.velocity_first = tuple(joints), flag(velocity_first, "velocity_first")
        self.scales = (number(position_scale, "position_scale"), number(velocity_scale, "velocity_scale"))
        self.torque_scale = number(torque_scale, "torque_scale")
        self.module = hasattr(network, "state_dict")
        if self.module:
            self.network = copy.deepcopy(network).eval().requires_grad_(False)
            self._check_module()
        else:
            self.network = OnnxNetwork(network)
            self._check_sizes(network, self.network.inputs, self.network.outputs)

    def _check_sizes(self, label, inputs: int, outputs: int) -> None:
        if (inputs, outputs) != (2 * len(self.lags), 1):
            raise ValueError(
                f"actuator_network: {label} takes {inputs} numbers and gives {outputs}; with {len(self.lags)} lags a "
                f"joint has {2 * len(self.lags)} (errors and velocities) and 1 torque"
            )

    def _check_module(self) -> None:
        import torch

        name, shape = type(self.network).__name__, (3, 2 * len(self.lags))
        bad = [key for key, x in self.network.state_dict().items() if not torch.isfinite(x).all()]
        if bad:
            raise ValueError(f"actuator_network: weights of {name} are not finite: layer {listed(bad)}")
        self.kept_in = next((x for x in self.network.state_dict().values() if x.is_floating_point()), torch.zeros(1))
        try:
            with torch.no_grad():
                found = self.network(torch.zeros(shape, dtype=self.kept_in.dtype, device=self.kept_in.device))
            given = tuple(found.shape)
        except (RuntimeError, AttributeError) as error:
            raise ValueError(
                f"actuator_network: {name} takes no rows of shape {shape} ({str(error).splitlines()[0]}); a joint has "
                f"{shape[1]} numbers with {len(self.lags)} lags"
            ) from None
        if given != (shape[0], 1):
            raise ValueError(f"actuator_network: {name} gives shape {given} for rows of {shape}; it must be (3, 1)")

    def bind(self, view) -> None:
        super().bind(view)
        if not self.module and view.differentiable:
            raise ValueError(
                f"actuator_network: {self.network.path} has no gradient; give the network as a torch.nn.Module"
            )
        if not self.module and view.arrays.framework == "torch" and not view.arrays.near:
            raise ValueError(
                f"actuator_network: {self.network.path} is run on the CPU, and the tensors are on {view.sim.device}; "
                "give the network as a torch.nn.Module"
            )
        names, self.gains = _motors(view.model, "actuator_network")
        self.names = self.joints or names
        self.places = view.columns(*self.names)
        if len(self.names) != view.model.nu or any(len(x) != view.model.nu for x in view.host_columns(*self.names)):
            raise ValueError(
                f"actuator_network: the joints {listed(self.names)} are not one for each of the {view.model.nu} "
                "actuators, with one velocity each"
            )
        if self.names != names:
            raise ValueError(f"actuator_network: the joints are {listed(self.names)}; actuators drive {listed(names)}")
        if self.module and view.arrays.framework == "torch":
            self.network.to(view.q.device)

    def __call__(self, view, action):
        positions, velocities = view.q[:, self.places[0]], view.v[:, self.places[1]]
        if action.shape[1] != len(self.names):
            raise ValueError(f"actuator_network: there are {len(self.names)} joints and {action.shape[1]} actions")
        self.after(view, view.xp.stack([self.scales[0] * (action - positions), self.scales[1] * velocities], -1))
        seen = view.xp.stack([self.kept[-1 - lag] for lag in self.lags], -1)  # (worlds, joints, 2, lags)
        if self.velocity_first:
            seen = view.xp.stack([seen[:, :, 1], seen[:, :, 0]], -2)
        torque = self._run(view, seen.reshape(-1, 2 * len(self.lags))).reshape(action.shape)
        return self.torque_scale * torque / view.arrays.constant(self.gains)

    def _run(self, view, rows):
        """The network's torques `(rows,)`, in the framework and dtype of the rows."""
        arrays = view.arrays
        if not self.module:
            found = self.network(arrays.host(rows))[:, 0]
            return (
                arrays.made(found) if arrays.framework == "jax" else arrays.floats(arrays.made(found), view.sim.dtype)
            )
        if arrays.framework == "torch":
            return self.network(rows.to(self.kept_in.dtype))[:, 0].to(rows.dtype)
        import torch

        with torch.no_grad():
            rows = torch.as_tensor(np.array(arrays.host(rows)), dtype=self.kept_in.dtype, device=self.kept_in.device)
            return arrays.made(self.network(rows)[:, 0].cpu().numpy())


def _motors(model, label: str) -> tuple[tuple, np.ndarray]:
    """Joints that the actuators drive, and the torque of each at a control of 1. Raises `ValueError` for servos."""
    for a, name in enumerate(model.actuator_names):
        motor = not model.actuator_gain[a, 1:].any() and not model.actuator_bias[a].any()
        if model.actuator_joint[a] < 0 or not motor or model.actuator_dynamics[a]:
            raise ValueError(
                f"{label}: actuator {name!r} is no motor of a joint, whose control is a torque; give the model motors"
            )
    gains = (model.actuator_gain[:, 0] * model.actuator_gear[:, 0]).astype(np.float32)
    if not gains.all():
        raise ValueError(f"{label}: actuator {model.actuator_names[int(np.argmin(abs(gains)))]!r} has gain 0")
    return tuple(model.joint_names[j] for j in model.actuator_joint), gains


# events ---------------------------------------------------------------------------------------------------------------


class randomise(Term):
    """Event: multiply a parameter of every world by a random factor in [low, high). Domain randomization.

    A parameter may be randomized only once in a task.

    Parameters
    ----------
    parameter : str
        Name in `sim.parameters`.
    low : float
        Least factor.
    high : float
        Greatest factor.
    when : str
        "startup" (default): factors are drawn once, and again by `reset(seed=)`. "reset": where episodes begin.
    each : bool
        Whether each entry of the parameter has its own factor; else a world has one for all entries. Default: False.
    inertia : bool, optional
        Of "body_mass" alone: whether "body_inertia" gets the same factors, like a change of density. False leaves the
        inertia, like point masses added at the center of mass. Default: True.

    Examples
    --------
    >>> events = (ws.envs.terms.randomise("body_mass", 0.8, 1.2),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, events=events)
    >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
    >>> mass = env.sim.parameters["body_mass"].numpy()
    >>> bool(mass[0, 0] != mass[1, 0])
    True
    """

    def __init__(
        self,
        parameter: str,
        low: float,
        high: float,
        when: str = "startup",
        each: bool = False,
        inertia: bool | None = None,
    ):
        if when not in ("startup", "reset"):
            raise ValueError(f'when is {short(when)}; choose "startup" or "reset"')
        self.low, self.high = (number(x, n) for n, x in (("low", low), ("high", high)))
        if self.low > self.high:
            raise ValueError(f"randomise {parameter!r}: low is {low} and high {high}; give low <= high")
        if inertia is not None and parameter != "body_mass":
            raise ValueError(
                f'randomise {parameter!r}: inertia is {inertia}, which is for "body_mass" alone; leave it out'
            )
        self.parameter, self.when, self.each = parameter, when, each
        inertia = parameter == "body_mass" if inertia is None else flag(inertia, "randomise 'body_mass': inertia")
        self.names = (parameter, "body_inertia") if inertia else (parameter,)

    def bind(self, view) -> None:
        for name in self.names:
            if name in view.randomised:
                hint = "; randomise('body_mass', ..., inertia=False) leaves it" if name == "body_inertia" else ""
                raise ValueError(
                    f"randomise {name!r} stands twice in events, and the second would replace the first; leave one of "
                    f"them{hint}"
                )
        view.randomised += self.names
        self.number = view.draw()
        parameters = view.sim.parameters
        self.targets = [parameters[name] for name in self.names]
        given = [target.numpy().copy() for target in self.targets]
        for factor in (self.low, self.high, 1.0):  # raises where the simulator does not support the value
            for name, values in zip(self.names, given, strict=True):
                parameters[name] = values * factor
        self.given = [view.arrays.made(values) for values in given]

    def __call__(self, view, mask, startup: bool) -> None:
        if not startup and self.when == "startup":
            return
        if not startup and not view.arrays.any(mask):
            return
        first = self.given[0]
        entries = math.prod(first.shape[1:]) if self.each else 1
        factors = view.uniform(entries, self.low, self.high, draw=self.number)
        factors = factors.reshape(len(first), *(first.shape[1:] if self.each else (1,) * (first.ndim - 1)))
        for target, values in zip(self.targets, self.given, strict=True):
            own = factors.reshape(*factors.shape, *(1,) * (values.ndim - factors.ndim))
            view.arrays.put(target, _rows(view, mask, values * own, view.arrays.of(target)))


class _Timed(Term):
    """A term that acts at intervals of an episode: every `steps` actions, or at random intervals (low, high).

    The next interval is drawn where the last one ends.
    """

    memory = ("next",)

    def __init__(self, steps, name: str = "steps"):
        steps = tuple(steps) if isinstance(steps, (tuple, list)) else (steps, steps)
        if len(steps) != 2:
            raise ValueError(f"{name} is {short(steps)}; give a number of actions, or (low, high)")
        self.steps = low, high = tuple(whole(n, name, 1) for n in steps)
        if low > high:
            raise ValueError(f"{name} is {short(steps)}; give low <= high")
        self.next = None

    def bind(self, view) -> None:
        if self.steps[0] < self.steps[1]:
            self.interval_draw = view.draw()
            self.next = view.arrays.made(np.zeros(view.worlds, np.int64))

    def reset(self, view, mask) -> None:
        if self.next is not None:
            self.next = _rows(view, mask, self._interval(view), self.next)

    def _interval(self, view):
        low, high = self.steps
        share = view.uniform(1, draw=self.interval_draw)[:, 0]
        return indices(view.xp.floor(share * (high - low + 1))) + low

    def due(self, view):
        """Find the worlds in which the term acts now.

        Parameters
        ----------
        view : View
            The worlds.

        Returns
        -------
        array (worlds,) of bool
            The worlds; none in a second call for the same action.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view, term = ws.envs.VectorEnv(task, 2, device="cpu").view, ws.envs.terms.push("slide", 0.5, every=50)
        >>> term.bind(view)
        >>> term.due(view).tolist()
        [False, False]
        """
        if not self.first(view):
            return view.steps < 0
        if self.next is None:
            return (view.steps > 0) & (view.steps % self.steps[0] == 0)
        now = (view.steps > 0) & (view.steps >= self.next)
        self.next = view.xp.where(now, view.steps + self._interval(view), self.next)
        return now


class every(_Timed):
    """Event: an event that acts again and again within episodes.

    Parameters
    ----------
    term : term
        The event. It is called with a mask of the worlds that begin an episode or whose interval has passed.
    steps : int or (int, int)
        Number of actions, or the range (low, high) of random intervals.

    Examples
    --------
    >>> terms = ws.envs.terms
    >>> events = (terms.every(terms.randomise("gravity", 0.9, 1.1, when="reset"), steps=(100, 300)),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, events=events)
    >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
    """

    def __init__(self, term, steps):
        super().__init__(steps)
        if isinstance(term, _Timed):
            raise ValueError("every: the event has intervals of its own; give it those")
        if isinstance(term, randomise) and term.when == "startup":
            raise ValueError(f'every: randomise({term.parameter!r}, …) draws at the start alone; give it when="reset"')
        self.term = term

    def bind(self, view) -> None:
        super().bind(view)
        _bind(self.term, view)

    def reset(self, view, mask) -> None:
        super().reset(view, mask)
        _reset(self.term, view, mask)

    def __call__(self, view, mask, startup: bool) -> None:
        self.term(view, mask | self.due(view), startup)


class push(_Timed):
    """Event: add random jumps to the velocities of a joint.

    Each velocity jumps independently, uniformly in ± `velocity`. An environment with gradients refuses this event.

    Parameters
    ----------
    joint : str
        Name of the joint: a free joint, a slide, ….
    velocity : float or array (velocities,)
        Largest jump [m/s, rad/s].
    every : int or (int, int)
        Number of actions from one jump to the next, or the range (low, high) of random intervals.

    Examples
    --------
    >>> events = (ws.envs.terms.push("slide", 0.5, every=(50, 150)),)
    >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, events=events)
    >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
    """

    def __init__(self, joint: str, velocity, every):
        super().__init__(every, "every")
        self.joint = joint
        self.most = np.atleast_1d(np.asarray(velocity, np.float32))
        if not (np.isfinite(self.most).all() and (self.most >= 0).all()):
            raise ValueError(f"velocity is {short(velocity)}; give numbers of at least 0, one or one for each velocity")

    def bind(self, view) -> None:
        if view.differentiable:
            raise ValueError(
                f"push of joint {self.joint!r} writes to velocities, which has no gradient; leave it out of events, "
                "or requires_grad"
            )
        self.number, (_, places) = view.draw(), view.host_columns(self.joint)
        super().bind(view)
        self.count, made = len(places), view.arrays.made
        if len(self.most) not in (1, self.count):
            raise ValueError(f"velocity has {len(self.most)} numbers; joint {self.joint!r} has {self.count} velocities")
        own, source = np.zeros(view.model.nv, bool), np.zeros(view.model.nv, int)
        own[places], source[places] = True, np.arange(self.count)
        # by column of v: whether it jumps, and which of the jumps is its own
        self.own, self.source, self.most_of = made(own), made(source), made(self.most)

    def __call__(self, view, mask, startup: bool) -> None:
        pushed = self.due(view)
        if not view.arrays.any(pushed):
            return
        jump = view.uniform(self.count, -1.0, 1.0, draw=self.number) * self.most_of
        chosen = pushed[:, None] & self.own[None]
        view.write(v=view.xp.where(chosen, view.v + jump[:, self.source], view.v))


def indices(values):
    """Turn floats into whole numbers of the same framework (NumPy, Torch or JAX), for use as indices.

    Parameters
    ----------
    values : array
        Floats, as of `xp.floor`.

    Returns
    -------
    array of int
        The whole numbers.

    Examples
    --------
    >>> ws.envs.terms.indices(np.array([1.0, 2.7]))
    array([1, 2])
    """
    return values.long() if hasattr(values, "long") else values.astype(int)


def _bind(term, view) -> None:
    if hasattr(term, "bind"):
        term.bind(view)


def _reset(term, view, mask) -> None:
    if hasattr(term, "reset"):
        term.reset(view, mask)
