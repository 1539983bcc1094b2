# SPDX-License-Identifier: Apache-2.0
"""`MixedEnv`: several environments of different robots as one. Each has its own simulator."""

import gymnasium
import numpy as np

from warpsim.base.checks import short, whole
from warpsim.envs.vector_env import VectorEnv, reset_options


class MixedEnv(gymnasium.vector.VectorEnv):
    """Several environments as one: tasks side by side, each with its own robot and simulator. Arrays are NumPy's.

    Parameters
    ----------
    tasks : sequence of Task, class or str
        The tasks. The first one has the first worlds, and so on.
    num_envs : int or sequence of int
        Number of worlds of all tasks, divided as evenly as possible, or a number for each task.
    first_world : int
        Index of the first world, if the environment is a part of a larger one. The random numbers of a world depend on
        its index. Default: 0.
    **options : Any
        Further arguments of `VectorEnv`.

    Attributes
    ----------
    owner : array (num_envs,) of int
        Index of each world's task.
    parts : list of VectorEnv
        The environments.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed.

    Notes
    -----
    Observations and actions are as wide as the widest of the tasks. Unused columns of observations are 0, those of
    actions are ignored. Rewards by term are in `info`, 0 for tasks without the term.

    Examples
    --------
    >>> pole = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
    >>> ant = ws.envs.Task(model=ws.robots.path("ant"), observations={"q": lambda s: s.q})
    >>> env = ws.envs.MixedEnv([pole, ant], 4, device="cpu")
    >>> observation, info = env.reset(seed=1)
    >>> observation.shape, env.owner.tolist()
    ((4, 15), [0, 0, 1, 1])
    """

    def __init__(self, tasks, num_envs, *, first_world: int = 0, **options):
        if not isinstance(tasks, (list, tuple)):
            raise ValueError(f"tasks is {short(tasks)}; give a list of tasks")
        tasks, first_world = list(tasks), whole(first_world, "first_world", 0)
        if not tasks:
            raise ValueError("tasks is empty; give at least one")
        if options.get("array", "numpy") != "numpy":
            raise ValueError(f"array is {short(options['array'])}; a MixedEnv has NumPy's arrays")
        if np.ndim(num_envs) == 0:
            whole(num_envs, "num_envs", len(tasks))
            counts = [len(part) for part in np.array_split(np.arange(num_envs), len(tasks))]
        else:
            counts = [whole(n, "an entry of num_envs", 1) for n in num_envs]
        if len(counts) != len(tasks):
            raise ValueError(f"num_envs has {len(counts)} numbers for {len(tasks)} tasks")
        self.starts = np.cumsum([0, *counts])
        self.parts = [
            VectorEnv(task, n, first_world=first_world + int(start), **options)
            for task, n, start in zip(tasks, counts, self.starts, strict=False)
        ]
        self.num_envs, self.metadata = int(self.starts[-1]), self.parts[0].metadata
        self.owner = np.repeat(np.arange(len(tasks)), counts)
        size = max(part.single_observation_space.shape[0] for part in self.parts)
        width = max(part.single_action_space.shape[0] for part in self.parts)
        kind = self.parts[0].single_observation_space.dtype
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), kind)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.num_envs, size), kind)
        low, high = (np.zeros((self.num_envs, width), np.float32) for _ in range(2))
        for part, rows in self._rows():
            low[rows, : part.single_action_space.shape[0]] = part.single_action_space.low
            high[rows, : part.single_action_space.shape[0]] = part.single_action_space.high
        self.action_space = gymnasium.spaces.Box(low, high)
        self.single_action_space = gymnasium.spaces.Box(low.min(0), high.max(0))

    def _rows(self):
        return [(part, slice(a, b)) for part, a, b in zip(self.parts, self.starts, self.starts[1:], strict=False)]

    @property
    def faults(self) -> np.ndarray:
        """Number of episodes of each world that ended because a value was not finite: array (num_envs,)."""
        return np.concatenate([part.faults for part in self.parts])

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin episodes in all worlds, or in some, as `VectorEnv.reset`.

        Parameters
        ----------
        seed : int, optional
            Begins the random numbers of all worlds anew. Default: they continue with each world's next episode.
        options : dict, optional
            `{"reset_mask": mask}` with booleans (num_envs,), default: all worlds; `{"staggered": True}`.

        Returns
        -------
        observations : array (num_envs, n)
            Observations of all worlds.
        info : dict
            `info["critic"]`, if a task has `critic_observations`.

        Raises
        ------
        ValueError
            An argument has a value that is not allowed.

        Examples
        --------
        >>> pole = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> ws.envs.MixedEnv([pole, pole], 2, device="cpu").reset(seed=1)[0].shape
        (2, 2)
        """
        mask, _ = reset_options(options, [part.task for part in self.parts])
        if mask is not None and np.shape(mask) != (self.num_envs,):
            raise ValueError(f"reset_mask has shape {np.shape(mask)}; it must be ({self.num_envs},) of booleans")
        found = []
        for part, rows in self._rows():
            own = options if mask is None else {**options, "reset_mask": np.asarray(mask)[rows]}
            found.append(part.reset(seed=seed, options=own))
        observations, infos = zip(*found, strict=True)
        return self._wide(observations), self._info(infos)

    def step(self, actions):
        """Take an action in every world, as `VectorEnv.step`.

        Parameters
        ----------
        actions : array (num_envs, actions)
            Actions. Columns that a task does not have are ignored.

        Returns
        -------
        observations : array (num_envs, n)
            Observations.
        rewards : array (num_envs,)
            Rewards.
        terminated : array (num_envs,) of bool
            Worlds whose episode ended by a termination or a fault.
        truncated : array (num_envs,) of bool
            Worlds whose episode ended by its length.
        info : dict
            As that of `VectorEnv.step`; 0 in worlds whose task lacks an entry.

        Raises
        ------
        ValueError
            The actions have another shape.

        Examples
        --------
        >>> pole = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.MixedEnv([pole, pole], 2, device="cpu")
        >>> _ = env.reset(seed=1)
        >>> env.step(np.zeros((2, 1)))[1].tolist()
        [0.0, 0.0]
        """
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions has shape {actions.shape}; it must be {self.action_space.shape}")
        found = [part.step(actions[rows, : part.single_action_space.shape[0]]) for part, rows in self._rows()]
        observations, *others, infos = zip(*found, strict=True)
        return self._wide(observations), *(np.concatenate(x) for x in others), self._info(infos)

    def _wide(self, found) -> np.ndarray:
        out = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        for values, (_, rows) in zip(found, self._rows(), strict=True):
            out[rows, : values.shape[1]] = values
        return out

    def _info(self, infos) -> dict:
        info: dict = {}
        for own, (_, rows) in zip(infos, self._rows(), strict=True):
            for name, values in own.items():
                if name == "final_info":
                    continue
                if values.ndim == 1:
                    info.setdefault(name, np.zeros(self.num_envs, values.dtype))[rows] = values
                    continue
                widest = max(x[name].shape[1] for x in infos if name in x)
                width = self.observation_space.shape[1] if name == "final_obs" else widest
                target = info.setdefault(name, np.zeros((self.num_envs, width), values.dtype))
                target[rows, : values.shape[1]] = values
        if any("final_info" in own for own in infos):
            info["final_info"] = self._info([own.get("final_info", {}) for own in infos])
        return info

    def state_dict(self) -> dict:
        """Everything that the next step reads, for `load_state_dict`: a dict with one entry per task."""
        return {str(k): part.state_dict() for k, part in enumerate(self.parts)}

    def load_state_dict(self, kept: dict) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        kept : dict
            What `state_dict` of an environment of the same tasks with as many worlds returned.

        Raises
        ------
        ValueError
            `kept` is anything else. Nothing is written then.

        Examples
        --------
        >>> pole = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.MixedEnv([pole, pole], 2, device="cpu")
        >>> _ = env.reset(seed=1)
        >>> env.load_state_dict(env.state_dict())
        """
        names = [str(k) for k in range(len(self.parts))]
        if not isinstance(kept, dict) or set(kept) != set(names):
            raise ValueError(
                f"load_state_dict: the state is {short(kept)}; give a dict with {', '.join(names)}, one for each task"
            )
        for part, name in zip(self.parts, names, strict=True):
            part.check_kept(kept[name])
        for k, part in enumerate(self.parts):
            part.load_state_dict(kept[str(k)])

    def close_extras(self, **kwargs) -> None:
        """Close the environments of all tasks. Gymnasium's `close` calls it.

        Parameters
        ----------
        **kwargs : Any
            Not used.

        Examples
        --------
        >>> pole = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> ws.envs.MixedEnv([pole, pole], 2, device="cpu").close()
        """
        for part in self.parts:
            part.close()
