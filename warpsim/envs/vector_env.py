# SPDX-License-Identifier: Apache-2.0
"""`VectorEnv`: all worlds of a simulator as the sub-environments of one Gymnasium vector environment."""

import gymnasium
import numpy as np
import warp as wp
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from warpsim.base.checks import choice, listed, short, whole
from warpsim.base.other_names import NamesOfVectorEnv
from warpsim.device.threads import holds
from warpsim.envs.frameworks import FRAMEWORKS, Arrays
from warpsim.envs.gradients import GradientView, ProbeView, check_terms
from warpsim.envs.keeping import check_kept
from warpsim.envs.rotations import joined
from warpsim.envs.symmetry import Mirror, without_rule
from warpsim.envs.task import Task, simulator_options
from warpsim.envs.tasks import find_task, make_task
from warpsim.envs.variants import apply_variants, rows_of_starts
from warpsim.envs.view import View
from warpsim.kernels.flags import NONFINITE
from warpsim.model.mapped_stiffness import without_mapped_stiffness
from warpsim.run.streaming import checkpoint_arrays, restored_state
from warpsim.simulator import Simulator

MODES = {mode.value: mode for mode in AutoresetMode} | {mode.name: mode for mode in AutoresetMode}

KEPT = ("q_before", "v_before", "action", "last_action", "steps")  # attributes of the view that checkpoints keep
STAGGER_DRAW = 10_001  # number of the random draw of staggered episodes, beyond those of terms
MOST_STEPS = 2**31 - 1


def reset_options(options, tasks=(), known=("reset_mask", "staggered")) -> tuple:
    """`reset_mask` of the options of a reset, None where it is missing, and `staggered`.

    Raises `ValueError` for unknown options, and for staggered episodes of tasks without a length.
    """
    if options is None:
        return None, False
    if not isinstance(options, dict):
        raise ValueError(f"options is {short(options)}; give a dict{' with ' * bool(known)}{listed(known)}, or None")
    for name in options:
        if name not in known:
            raise ValueError(
                f"reset has no options[{name!r}]; it has: {listed(known) or 'none'}. What an environment is made with "
                "is given when it is made"
            )
    staggered = options.get("staggered", False)
    if not isinstance(staggered, (bool, np.bool_)):
        raise ValueError(f"staggered is {short(staggered)}; use True or False")
    for task in tasks if staggered else ():
        if task.episode is None:
            raise ValueError(
                f"{type(task).__name__} has no episode length, which staggered episodes need; give it an episode"
            )
    return options.get("reset_mask"), bool(staggered)


class VectorEnv(NamesOfVectorEnv, gymnasium.vector.VectorEnv):
    """Worlds of a task as a Gymnasium vector environment. Every operation runs in all worlds at once.

    Parameters
    ----------
    task : Task, class or str
        A task, its class, or a name: "Hopper", "module:Class".
    num_envs : int
        Number of worlds. Default: 1.
    autoreset : AutoresetMode or str
        "NEXT_STEP" (default, as in Gymnasium): a world whose episode has ended begins the next one in the next step.
        "SAME_STEP": in the same step; final observations are in `info["final_obs"]`, their worlds in
        `info["_final_obs"]`. "DISABLED": by `reset(options={"reset_mask": mask})`.
    array : str
        "numpy" (default): NumPy arrays, which keep their values. "torch": tensors on the device, valid until the next
        step. "jax": copies on the device.
    seed : int
        Seed until `reset(seed=…)`. Random numbers are keyed by (seed, world, episode, step). Default: 0.
    first_world : int
        Index of the first world, if the environment is a part of a larger one. The random numbers of a world depend on
        its index. Default: 0.
    device : str, optional
        Name of a Warp device. Default: as in `ws.Simulator`.
    threads : int, optional
        CPU threads that share the worlds. Default: as in `ws.Simulator`.
    dtype : str
        "float32" (default) or "float64".
    requires_grad : bool
        With `array="torch"`: observations and rewards carry gradients with respect to actions, back to the last
        `detach`. Default: False.
    render_mode : None
        Only None is allowed. `warpsim play` shows a policy in its task.
    **changes : Any
        Attributes that change the task: `decimation=2`, `solver=ws.MuJoCo()`.

    Attributes
    ----------
    sim : Simulator
        The simulator of all worlds.
    view : View
        The worlds at this moment, as terms see them.
    task : Task
        The environment's own copy of the task.
    observation_space, single_observation_space, action_space, single_action_space : Box
        Gymnasium's spaces.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed. The message names it.

    Notes
    -----
    A world whose reward, observation or state is not finite ends its episode with reward 0, and `faults` counts it.
    Non-finite entries of its last observation become 0, and its last action has no gradient. The other worlds are not
    affected. Actions are clamped to the bounds of the action space, and `clipped` counts them; rewards see the actions
    as given. `info["reward_<name>"]` has each reward, and `info["critic"]` the task's `critic_observations`.
    docs/envs.md

    Examples
    --------
    >>> class Balance(ws.envs.Task):
    ...     model = ws.robots.path("cartpole")
    ...     observations = {"q": lambda s: s.q, "v": lambda s: s.v}
    ...     rewards = {"upright": lambda s: s.xp.cos(s.q[:, 1])}
    >>> env = ws.envs.VectorEnv(Balance, 4, device="cpu")
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> observation.shape, reward.shape, list(info)
    ((4, 4), (4,), ['reward_upright'])
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(
        self,
        task,
        num_envs: int = 1,
        *,
        autoreset=AutoresetMode.NEXT_STEP,
        array: str = "numpy",
        seed: int = 0,
        first_world: int = 0,
        device=None,
        threads: int | None = None,
        dtype: str = "float32",
        requires_grad: bool = False,
        render_mode=None,
        **changes,
    ):
        self.num_envs = whole(num_envs, "num_envs", 1)
        first_world = whole(first_world, "first_world", 0)
        self.task = self._task(task, changes)
        if not isinstance(autoreset, AutoresetMode):
            autoreset = MODES[choice(autoreset, "autoreset", MODES)]
        if render_mode is not None:
            raise ValueError(
                f"render_mode is {short(render_mode)}; use None, and show a Trajectory of the states (`warpsim play`)"
            )
        choice(array, "array", FRAMEWORKS)
        self.autoreset, self.metadata = autoreset, self.metadata | {"autoreset_mode": autoreset}
        self.models, t = self.task.make_models(), self.task
        model = self.models[0]
        timestep = float(model.timestep if t.timestep is None else t.timestep)
        if requires_grad and array != "torch":
            raise ValueError(f'requires_grad needs array="torch", not {array!r}')
        # the time of a call of `sim.step`: that of an action, in `decimation` substeps, or of a physics step
        period = timestep * (t.decimation if t.actuation == "action" else 1)
        options = simulator_options(t) | {"dt": period, "requires_grad": requires_grad}
        self.sim = Simulator(model, self.num_envs, device=device, threads=threads, dtype=dtype, **options)
        self.models = [m if self.sim.mapped_stiffness else without_mapped_stiffness(m) for m in self.models]
        self.arrays = Arrays(array, self.sim.device)
        self.state = self.sim.state()
        low, high = t.actions(model)
        self._low, self._high = self.arrays.made(low), self.arrays.made(high)
        self.single_action_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.requires_grad = requires_grad
        self.view = self._view(timestep * t.decimation, len(low), whole(seed, "seed", 0), first_world)
        self.view.models, self.view.period, self.view.captures = self.models, period, t.options.get("on_fault") is None
        apply_variants(self.sim, self.models, self.view.numbers)
        self._check_models()
        rows = {"q": rows_of_starts(self.models, self.view.numbers), "v": np.zeros((self.num_envs, model.nv))}
        self._model_start = {name: self.arrays.made(x.astype(dtype)) for name, x in rows.items()}
        self._weights = {name: term[0] if isinstance(term, tuple) else 1.0 for name, term in t.rewards.items()}
        self._rewards = {name: term[1] if isinstance(term, tuple) else term for name, term in t.rewards.items()}
        self._terms = [
            *t.observations.values(),
            *t.critic_observations.values(),
            *self._rewards.values(),
            *t.terminations.values(),
            *t.success.values(),
            *t.measures.values(),
            *t.starts,
            *t.events,
            *t.actuators,
            *t.commands.values(),
        ]
        for term in self._terms:
            if hasattr(term, "bind"):
                term.bind(self.view)
        self._faults, self._clipped = (self.arrays.made(np.zeros(self.num_envs, np.int64)) for _ in range(2))
        self._begun, self._ended = False, None
        self._cut = None  # staggered episodes are truncated after so many actions, others after infinitely many
        self._sizes: dict[str, list] = {}
        self._buffers = None
        self._rest: dict[str, wp.array] = {}
        self._begin(self._all(), startup=True)
        size = self._observe().shape[1]
        self._privileged()
        self.mirror = None if without_rule(t) else Mirror(t, model, self._sizes, len(low), self.arrays)
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.dtype(dtype).type)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def _view(self, *options) -> View:
        given = (self.sim, self.state, self.arrays, *options)
        if not self.requires_grad:
            return View(*given)
        check_terms(self.task, ProbeView(*given))
        return GradientView(*given)

    def _check_models(self) -> None:
        """Raise `ValueError` where models per world differ in what all worlds share."""
        model, t = self.models[0], self.task
        if t.timestep is None and any(m.timestep != model.timestep for m in self.models):
            raise ValueError(
                "models differ in timestep, which all worlds of a simulator share; give the task a timestep"
            )
        if t.action_range is None and any(
            not np.array_equal(m.control_range, model.control_range) for m in self.models
        ):
            raise ValueError("models differ in control_range, which bounds the actions; give the task an action_range")

    @staticmethod
    def _task(task, changes) -> Task:
        if not isinstance(task, Task):
            return make_task(find_task(task)[1], **changes).own()
        if changes:
            raise ValueError(f"{', '.join(changes)}: give them to the task, which is made already")
        task.check()
        return task.own()

    @property
    def faults(self) -> np.ndarray:
        """Number of episodes of each world that ended because a value was not finite: array (num_envs,)."""
        return np.array(self.arrays.host(self._faults), np.int64)

    @property
    def clipped(self) -> np.ndarray:
        """Number of actions of each world that were outside the action space and were clamped: array (num_envs,)."""
        return np.array(self.arrays.host(self._clipped), np.int64)

    @property
    def gradient_faults(self) -> np.ndarray:
        """Number of non-finite gradients of each world that were replaced by 0: array (num_envs,)."""
        found = self.view.gradient_faults
        return np.zeros(self.num_envs, np.int64) if found is None else np.array(self.arrays.host(found), np.int64)

    # Gymnasium's interface --------------------------------------------------------------------------------------------

    @holds
    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin episodes in all worlds, or in some.

        Parameters
        ----------
        seed : int, optional
            Begins the random numbers of all worlds anew. Default: they continue with each world's next episode.
        options : dict, optional
            `{"reset_mask": mask}` with booleans (num_envs,): begin episodes in these worlds alone. Default: all worlds.
            `{"staggered": True}`: truncate the episodes that begin now after random numbers of actions, up to the
            `episode` of the task, so that worlds do not all begin their next episodes in the same step.

        Returns
        -------
        observations : array (num_envs, n)
            Observations of all worlds.
        info : dict
            `info["critic"]` (num_envs, m), if the task has `critic_observations`.

        Raises
        ------
        ValueError
            The seed is no whole number, an option is unknown, the mask has another shape, a seed and a partial mask are
            given together, or episodes of a task without an `episode` length are to be staggered.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu", autoreset="DISABLED")
        >>> observations, info = env.reset(seed=1)
        >>> observations, info = env.reset(options={"reset_mask": np.array([True, False])})
        >>> observations.shape
        (2, 2)
        """
        mask, staggered = reset_options(options, [self.task])
        if seed is not None:
            if isinstance(seed, (list, tuple)):
                raise ValueError("seed is a list; one number seeds all worlds, each by its place")
            seed = whole(seed, "seed", 0)
            if mask is not None and not self.arrays.host(self._mask(mask)).all():
                raise ValueError(
                    "seed begins the random numbers of all worlds anew; leave it out where reset_mask leaves some out"
                )
            self.view.seed(seed)
            fresh = True
        else:
            fresh = not self._begun
        with self.arrays.stream():
            chosen = self._all() if mask is None else self._mask(mask)
            if not fresh:
                self.view.next_episode(chosen)
            self._begin(chosen, startup=seed is not None)
            if staggered:
                longest = float(min(self.task.episode, MOST_STEPS))
                drawn = self.view.uniform(1, 0.0, longest, draw=STAGGER_DRAW)[:, 0]
                others = self.arrays.zeros(self.num_envs, "float32") + np.inf if self._cut is None else self._cut
                self._cut = self.arrays.rows(chosen, drawn, others)
            self._begun = True
            if self._ended is not None:
                self._ended = None if mask is None else self._ended & ~chosen
            return self._observe(), self._critic_info(self._privileged())

    @holds
    def step(self, actions):
        """Take an action in every world.

        Parameters
        ----------
        actions : array (num_envs, actions)
            Actions, clamped to the bounds of the action space.

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
            `reward_<name>` (num_envs,) of each reward, `critic` if the task has `critic_observations`, and with
            SAME_STEP `final_obs` and `final_info`.

        Raises
        ------
        ResetNeeded
            `reset` was not called before.
        ValueError
            The actions have another shape, or a term returns an array of a wrong shape or dtype.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q}, episode=1)
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> _ = env.reset(seed=1)
        >>> observations, rewards, terminated, truncated, info = env.step(np.zeros((2, 1)))
        >>> terminated.tolist(), truncated.tolist()
        ([False, False], [True, True])
        """
        if not self._begun:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        with self.arrays.stream():
            return self._step(actions)

    def _step(self, actions):
        v, t, xp = self.view, self.task, self.arrays.xp
        (action,) = v.isolated(self._action(actions))
        v.tick += 1
        v.q_before, v.v_before = self.arrays.copied(v.q), self.arrays.copied(v.v)
        v.last_action, v.action = v.action, action
        control = xp.clip(action, self._low, self._high)
        outside = control != action
        if self.arrays.any(outside):
            self._clipped = self._clipped + 1 * outside.any(-1)
        self._act(control)
        v.advance()
        v.steps = v.steps + 1
        if t.commands or t.events:
            none = self._none()
            self._commands(none)
            self._happen(none)
        reward, parts = self._reward()
        terminated = self._none()
        for name, term in t.terminations.items():
            terminated = terminated | self._boolean(term(v), f"terminations[{name!r}]")
        observation, privileged = self._observe(), self._privileged()
        bad = self._bad(reward, observation, privileged)
        if bad is not None:
            terminated = terminated | bad
            reward, parts = self._without(bad, reward, parts)
            observation, privileged = (
                x if x is None else xp.where(bad[:, None] & ~xp.isfinite(x), 0.0, x) for x in (observation, privileged)
            )
            self._faults = self._faults + 1 * (bad if self._ended is None else bad & ~self._ended)
        truncated = self._none() if t.episode is None else (v.steps >= t.episode) & ~terminated
        if self._cut is not None:
            truncated = truncated | ((v.steps >= self._cut) & ~terminated)
        return self._advance(observation, privileged, reward, terminated, truncated, parts)

    def _act(self, command) -> None:
        """Step the simulator under the controls that the actuators make of an action."""
        v, t, tick = self.view, self.task, self.view.tick
        calls = 1 if t.actuation == "action" else t.decimation
        for k in range(calls):
            v.tick, control = tick + k / calls if k else tick, command
            for term in t.actuators:
                control = term(v, control)
            v.control = control
            v.step(control, t.decimation // calls)
            v.moved()
        v.tick = tick

    def _bad(self, reward, *observations):
        """A mask of the worlds in which something is not finite; None where everything is seen to be finite."""
        isfinite, flags = self.arrays.xp.isfinite, self.view.diagnostic("flags")
        seen = [x for x in observations if x is not None]
        if self.arrays.near and not (flags.any() and (flags & NONFINITE).any()):
            if self.arrays.seen_finite(reward, *seen):
                return None
        good = isfinite(reward) & ((flags & NONFINITE) == 0)
        for x in seen:
            good = good & isfinite(x).all(-1)
        bad = ~good
        return bad if self.arrays.any(bad) else None

    def _without(self, mask, reward, parts):
        """Reward and rewards by term, set to 0 in the worlds of a mask."""
        where = self.arrays.xp.where
        return where(mask, 0.0, reward), {name: where(mask, 0.0, part) for name, part in parts.items()}

    def _advance(self, observation, privileged, reward, terminated, truncated, parts):
        """The end of a step: episodes end according to the autoreset mode."""
        ended, before = terminated | truncated, self._ended
        begins = self.autoreset is AutoresetMode.NEXT_STEP and before is not None and self.arrays.any(before)
        if begins:
            self.view.next_episode(before)
            self._begin(before)
            observation, privileged = self._observe(), self._privileged()
            reward, parts = self._without(before, reward, parts)
            terminated, truncated, ended = (x & ~before for x in (terminated, truncated, ended))
        info = {f"reward_{name}": self._floats(part) for name, part in parts.items()} | self._critic_info(privileged)
        if self.autoreset is AutoresetMode.NEXT_STEP:
            self._ended = ended
        elif self.autoreset is AutoresetMode.SAME_STEP and self.arrays.any(ended):
            mask = self.arrays.copied(ended)
            last = {**info, **{f"_{name}": mask for name in info}}
            info |= {"final_obs": observation, "_final_obs": mask, "final_info": last, "_final_info": mask}
            self.view.next_episode(ended)
            self._begin(ended)
            observation = self._observe()
            info |= self._critic_info(self._privileged())
        return observation, self._floats(reward), terminated, truncated, info

    def succeeded(self):
        """Worlds in which all terms of the task's `success` hold now: array (num_envs,) of bool."""
        found = None
        for name, term in self.task.success.items():
            now = self._boolean(term(self.view), f"success[{name!r}]")
            found = now if found is None else found & now
        return self._none() if found is None else found

    def measured(self) -> dict:
        """Present values of the task's `measures`: a dict of arrays (num_envs,) by name."""
        return {name: self._shaped(term(self.view), f"measures[{name!r}]") for name, term in self.task.measures.items()}

    def detach(self) -> None:
        """With `requires_grad`: cut the gradient history here. Later gradients reach back to this point only."""
        if not self.requires_grad:
            raise ValueError("this environment has no gradients; make it with requires_grad=True")
        self.view.detach()
        for term in self._inner_terms():
            for name in getattr(term, "memory", ()):
                kept = getattr(term, name, None)
                if kept is not None:
                    setattr(term, name, [x.detach() for x in kept] if isinstance(kept, list) else kept.detach())

    # checkpoints ------------------------------------------------------------------------------------------------------

    @holds
    def state_dict(self) -> dict:
        """Everything that the next step reads, as a dict of NumPy arrays and numbers, for `load_state_dict`."""
        v, host = self.view, self._kept
        return {
            "arrays": {name: x.copy() for name, x in checkpoint_arrays(self.sim, self.state).items()},
            "stream": v.stream.state_dict(),
            "view": {name: host(getattr(v, name)) for name in KEPT},
            "commands": {name: host(x) for name, x in v.commands.items()},
            "ended": None if self._ended is None else host(self._ended),
            "cut": None if self._cut is None else host(self._cut),
            "faults": self.faults,
            "clipped": self.clipped,
            "gradient_faults": self.gradient_faults,
            "tick": v.tick,
            "begun": self._begun,
            "terms": [self._memory(term) for term in self._inner_terms()],
        }

    def check_kept(self, kept) -> None:
        """Raise `ValueError` for a checkpoint that `load_state_dict` would refuse.

        Parameters
        ----------
        kept : dict
            The checkpoint.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> _ = env.reset(seed=1)
        >>> env.check_kept(env.state_dict())
        """
        check_kept(kept, self.state_dict(), self.sim)

    @holds
    def load_state_dict(self, kept: dict) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        kept : dict
            What `state_dict` of an environment of the same task with as many worlds returned.

        Raises
        ------
        ValueError
            `kept` is anything else. Nothing is written then.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> _ = env.reset(seed=1)
        >>> kept, push = env.state_dict(), np.ones((2, 1))
        >>> first = env.step(push)[0]
        >>> env.load_state_dict(kept)
        >>> bool((env.step(push)[0] == first).all())
        True
        """
        self.check_kept(kept)
        v, made = self.view, self.arrays.made
        self.state.assign(restored_state(self.sim, kept["arrays"], "the checkpoint"))
        v.go_on(kept["stream"])
        for name in KEPT:
            setattr(v, name, made(kept["view"][name]))
        v.commands = {name: made(x) for name, x in kept["commands"].items()}
        self._ended = None if kept["ended"] is None else made(kept["ended"])
        cut = kept.get("cut")  # which checkpoints of earlier versions lack
        self._cut = None if cut is None else made(cut)
        self._faults, self._clipped = made(kept["faults"]), made(kept["clipped"])
        if self.requires_grad:
            v.gradient_faults = made(kept["gradient_faults"])
        self._begun, v.tick = kept["begun"], kept["tick"]
        for term, memory in zip(self._inner_terms(), kept["terms"], strict=True):
            for name, value in memory.items():
                setattr(
                    term,
                    name,
                    [made(x) for x in value] if isinstance(value, list) else value if value is None else made(value),
                )
            if hasattr(term, "tick"):
                term.tick = v.tick
        v.detach() if self.requires_grad else v.moved()

    def _inner_terms(self) -> list:
        """All terms, including terms inside other terms."""
        found = list(self._terms)
        for term in found:
            found += [term.term] if hasattr(term, "term") else []
        return found

    def _kept(self, values) -> np.ndarray:
        """A copy on the host."""
        return np.array(self.arrays.host(values))

    def _memory(self, term) -> dict:
        """The state of a term between steps, by the names in its `memory`."""
        host, values = self._kept, {name: getattr(term, name, None) for name in getattr(term, "memory", ())}
        return {
            n: [host(y) for y in x] if isinstance(x, list) else x if x is None else host(x) for n, x in values.items()
        }

    # pieces of a step -------------------------------------------------------------------------------------------------

    def _observe(self, table: str = "observations"):
        """Observations `(worlds, n)` of a table, in the simulator's dtype and in memory of their own."""
        v, found = self.view, []
        for name, term in getattr(self.task, table).items():
            value = term(v)
            shape = tuple(getattr(value, "shape", ()))
            if len(shape) not in (1, 2) or shape[0] != self.num_envs:
                raise ValueError(
                    f"{table}[{name!r}] gives shape {shape}; it must be ({self.num_envs},) or ({self.num_envs}, n)"
                )
            found.append(value.reshape(self.num_envs, -1))
        sizes = [x.shape[1] for x in found]
        if self._sizes.setdefault(table, sizes) != sizes:
            raise ValueError(
                f"{table} have {sizes} columns, and had {self._sizes[table]}; a term's columns must not change"
            )
        return self._floats(joined(self.arrays.xp, found))

    def _privileged(self):
        """What only the critic observes `(worlds, n)`; None for a task without."""
        return self._observe("critic_observations") if self.task.critic_observations else None

    def _critic_info(self, privileged) -> dict:
        return {} if privileged is None else {"critic": privileged}

    def _reward(self):
        """The sum of the rewards, and each reward by name."""
        v, total, parts = self.view, None, {}
        for name, term in self._rewards.items():
            part = self._weights[name] * self._shaped(term(v), f"rewards[{name!r}]")
            total = part if total is None else total + part
            parts[name] = part
        if total is None:
            total = self.arrays.zeros(self.num_envs, "float32")
        return (self.arrays.copied(total) if len(parts) == 1 else total), parts

    def _shaped(self, value, label: str):
        shape = tuple(getattr(value, "shape", ()))
        if shape != (self.num_envs,):
            raise ValueError(f"{label} gives shape {shape}; it must be ({self.num_envs},)")
        return value

    def _boolean(self, value, label: str):
        if "bool" not in str(getattr(value, "dtype", "")):
            raise ValueError(
                f"{label} gives {getattr(value, 'dtype', type(value).__name__)}; it must be booleans: a comparison"
            )
        return self._shaped(value, label)

    def _begin(self, mask, startup: bool = False) -> None:
        """Begin episodes in the worlds of a mask."""
        v = self.view
        v.beginning, v.seeded = mask, startup
        v.cut = None if self._cut is None else mask & (v.steps >= self._cut)
        start = dict(self._model_start)
        v.starting = True
        for term in self.task.starts:
            term(v, start)
        v.starting = False
        self._restart(mask, start)
        v.restarted(mask)
        rows = self.arrays.rows
        v.steps, v.action, v.last_action = (rows(mask, 0, x) for x in (v.steps, v.action, v.last_action))
        if self._cut is not None:
            self._cut = rows(mask, np.inf, self._cut)
        v.q_before, v.v_before = rows(mask, v.q, v.q_before), rows(mask, v.v, v.v_before)
        for term in self._terms:
            if hasattr(term, "reset"):
                term.reset(v, mask)
        self._commands(mask)
        self._happen(mask, startup)
        v.seeded = False

    def _restart(self, mask, start: dict) -> None:
        """Reset the worlds of a mask to their rows of `start`."""
        values = {"mask": mask, **start}
        if self._buffers is None:
            S, n, sim = self.state.q.dtype, self.num_envs, self.sim
            shapes = {"mask": ((n,), wp.bool), "q": ((n, sim.model.nq), S), "v": ((n, sim.model.nv), S)}
            if sim.model.na:  # activations begin at 0
                self._rest = {"activation": wp.zeros((n, sim.model.na), dtype=S, device=sim.device)}
            self._buffers = {k: wp.zeros(shape, dtype=kind, device=sim.device) for k, (shape, kind) in shapes.items()}
        for name, buffer in self._buffers.items():
            self.arrays.put(buffer, values[name])
        self.view.replayed_among(
            "restart", mask, lambda: self.sim.reset(self.state, *self._buffers.values(), **self._rest)
        )

    def _commands(self, begun) -> None:
        for name, term in self.task.commands.items():
            self.view.commands[name] = term(self.view, self.view.commands.get(name), begun)

    def _happen(self, mask, startup: bool = False) -> None:
        for term in self.task.events:
            term(self.view, mask, startup)

    # arrays -----------------------------------------------------------------------------------------------------------

    def _all(self):
        return ~self._none()

    def _none(self):
        return self.arrays.zeros(self.num_envs)

    def _mask(self, mask):
        found = self.arrays.made(mask)
        if tuple(found.shape) != (self.num_envs,) or "bool" not in str(found.dtype):
            raise ValueError(
                f"reset_mask has shape {tuple(found.shape)} and dtype {found.dtype}; it must be ({self.num_envs},) of "
                "booleans"
            )
        return found

    def _action(self, actions):
        shape = (self.num_envs, *self.single_action_space.shape)
        try:
            found = (
                self.arrays.made(actions)
                if self.arrays.framework != "torch" or not hasattr(actions, "detach")
                else actions
            )
            found = self.arrays.copied(self.arrays.floats(found, self.sim.dtype))  # the caller may reuse that memory
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"actions is {short(actions)}; give numbers of shape {shape}") from None
        if tuple(found.shape) != shape:
            raise ValueError(f"actions has shape {tuple(found.shape)}; it must be {shape}")
        return found

    def _floats(self, values):
        return self.arrays.floats(values, self.sim.dtype)
