# SPDX-License-Identifier: Apache-2.0
"""`View`, which terms read: all worlds of an environment at one moment, as arrays of its framework."""

import copy
import functools

import numpy as np
import warp as wp

from warpsim.base.other_names import NamesOfView
from warpsim.device.ranges import WorldList, among
from warpsim.envs.frameworks import Arrays
from warpsim.envs.rotations import joined, norm, rotated
from warpsim.model.model import JointType
from warpsim.run.randomness import RandomStream
from warpsim.sensors.sensor_tables import columns_of_step

OF_STEP = ("contact_force",)  # what a reset of the state leaves as it is
WAYS = 64  # kinds of draws with a cached graph; draws whose bounds change from step to step have none


class View(NamesOfView):
    """All worlds of an environment at one moment, which terms read. `env.view` is the environment's.

    A term is a function of a view that returns an array with one row per world. Arrays are of the environment's
    framework.

    Attributes
    ----------
    q : array (worlds, nq)
        Positions, read-only; the simulator's memory where possible.
    v : array (worlds, nv)
        Velocities, read-only.
    q_before, v_before : array (worlds, nq), (worlds, nv)
        The same before the action.
    action, last_action : array (worlds, actions)
        Actions of this step and of the one before; 0 where an episode begins.
    control : array (worlds, nu)
        Controls that the actuators made of the action.
    steps : array (worlds,) of int
        Number of actions of the present episode.
    tick : int or float
        Number of actions since the environment was made. With `actuation="physics"`, actuators see it with the fraction
        of the action that has passed.
    commands : dict of str to array (worlds, n)
        Present commands.
    dt : float
        Time per action [s].
    period : float
        Time between evaluations of actuators [s].
    sim, model, state : Simulator, Model, State
        Simulator, model and state of the environment.
    models : list of Model
        The models that worlds take in turn.
    worlds : int
        Number of worlds.
    xp : module
        Functions of the framework: numpy, torch or jax.numpy.
    """

    differentiable, gradient_faults = False, None
    captures = True  # whether the simulator can capture graphs
    # for terms of starts, commands and events: the worlds that begin an episode, and whether random numbers begin anew
    beginning, seeded = None, False
    cut = None  # the worlds among them whose last episode was a staggered one, cut short; None where there was none
    starting = False  # whether terms of starts are called, which need the random numbers of those worlds alone

    def __init__(self, sim, state, arrays: Arrays, dt: float, actions: int, seed: int, first_world: int = 0):
        self.sim, self.state, self.arrays, self.dt, self.period = sim, state, arrays, dt, dt
        self.model, self.worlds, self.xp = sim.model, sim.worlds, arrays.xp
        self.models = [sim.model]
        self.numbers = np.arange(first_world, first_world + sim.worlds)
        self.draws = self.tick = 0
        self.randomised: list = []
        zeros = np.zeros((sim.worlds, actions), np.float32)
        self.action, self.last_action = arrays.made(zeros), arrays.made(zeros)
        self.control = arrays.made(np.zeros((sim.worlds, sim.model.nu), np.float32))
        self.steps = arrays.made(np.zeros(sim.worlds, np.int32))
        self.commands: dict = {}
        self._lasting = {name: arrays.of(getattr(state, name)) for name in "qv"} if arrays.lasting else {}
        self.q_before, self.v_before = (arrays.copied(getattr(self, name)) for name in "qv")
        self._cache: dict = {}
        self._constants: dict = {}
        self._replays: dict = {}
        self._drawn: dict = {}
        self._asks: dict = {}
        # what was asked since the last step: a mask of the worlds that were reset since, or None
        self._known: dict = {}
        # draws of this step, as `_drawn` holds them: a mask of the worlds that went to another episode since, or None
        self._current: dict = {}
        self._chosen = WorldList(sim.worlds, sim.device)
        self._chosen_on_host = self._chosen.array.numpy() if sim.device.is_cpu else None
        # contact wrenches divide impulses by the last step's duration, which captured graphs contain
        self._stepped = False
        self.stream = RandomStream(seed, self.numbers, device=sim.device)
        # the episode and step of every world, in the stream's memory on the CPU
        self._counters = (self.stream.episode.numpy(), self.stream.step.numpy()) if sim.device.is_cpu else None
        self._start = copy.copy(self.stream)  # the stream at the first step of the present episode, with shared memory
        self._start.step = wp.zeros_like(self.stream.step)
        self._mask = wp.zeros(sim.worlds, dtype=wp.bool, device=sim.device)

    def seed(self, seed: int) -> None:
        """Restart the random numbers of every world at its first episode.

        Parameters
        ----------
        seed : int
            Seed of up to 64 bits.

        Raises
        ------
        ValueError
            The seed has more than 64 bits.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> env.view.seed(3)
        """
        if seed >= 1 << 64:
            raise ValueError(f"seed is {seed}; it has up to 64 bits")
        first = np.zeros(self.worlds, np.int32)
        self.go_on({"seed": seed, "world": self.numbers, "episode": first, "step": first})

    def go_on(self, kept: dict) -> None:
        """Continue the random numbers from a position of the stream.

        Parameters
        ----------
        kept : dict
            What `view.stream.state_dict()` returned.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> env.view.go_on(env.view.stream.state_dict())
        """
        self.stream.load_state_dict(kept)
        self._current.clear()

    def advance(self) -> None:
        """Advance the random numbers of every world to the next step."""
        self._current.clear()
        if self._by_rows:  # a launch takes longer than this
            np.add(self._counters[1], 1, out=self._counters[1])
        else:
            self.replayed("advance", self.stream.advance)

    def next_episode(self, mask) -> None:
        """Advance the random numbers of some worlds to the next episode.

        Parameters
        ----------
        mask : array (worlds,) of bool
            The worlds.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> env = ws.envs.VectorEnv(task, 2, device="cpu")
        >>> env.view.next_episode(np.array([True, False]))
        >>> env.view.stream.episode.numpy().tolist()
        [1, 0]
        """
        self._current = {key: mask if old is None else old | mask for key, old in self._current.items()}
        if self._by_rows:
            (episode, step), rows = self._counters, self.arrays.host(mask).nonzero()[0]
            episode[rows] += 1
            step[rows] = 0
        else:
            self.arrays.put(self._mask, mask)
            self.replayed("next_episode", lambda: self.stream.reset(self._mask))

    def replayed(self, key, launch) -> None:
        """Run kernel launches, from a captured graph where possible.

        Parameters
        ----------
        key : hashable
            Name of the graph. The first call with a key captures it, later calls replay it.
        launch : callable
            Function without arguments that launches kernels, always the same ones on the same arrays.

        Notes
        -----
        A kernel launch from Python takes as much time as computing some thousand entries of an array. A replay saves
        it.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.replayed("advance mine", view.stream.advance)
        """
        if key in self._replays:
            self._replays[key]()
        elif self.captures:
            self._replays[key] = self.sim.capture(launch)  # runs it once
        else:
            self._replays[key] = launch
            launch()

    @property
    def _by_rows(self) -> bool:
        """Whether the host looks which worlds begin an episode, so that these alone are computed anew."""
        return self.sim.device.is_cpu and self.arrays.near

    def replayed_among(self, key, mask, launch) -> None:
        """Run kernel launches over the worlds of a mask alone, if the host may look at it, else over all worlds.

        Parameters
        ----------
        key : hashable
            Name of the graph, as in `replayed`.
        mask : array (worlds,) of bool
            The worlds.
        launch : callable
            Function without arguments that launches kernels over worlds. The values of the other worlds must be right
            whether they are launched or not.

        Raises
        ------
        ValueError
            The mask has another shape.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.replayed_among("mine", np.array([True, False]), lambda: view.sim.kinematics(view.state.q))
        """
        if not self._by_rows:
            self.replayed(key, launch)
            return

        def launch_among() -> None:
            with among(self._chosen):
                launch()

        rows = self.arrays.host(mask)
        if rows.shape != (self.worlds,):
            raise ValueError(f"mask has shape {rows.shape}; it must be ({self.worlds},)")
        rows = rows.nonzero()[0]
        if len(rows):
            self._choose(rows)
            self.replayed((key, "rows"), launch_among)

    def _choose(self, rows: np.ndarray) -> None:
        """Make a list of worlds those that launches `among` it are over."""
        chosen = self._chosen_on_host
        chosen[0], chosen[1 : 1 + len(rows)] = len(rows), rows

    @property
    def q(self):
        """Positions, array (worlds, nq), read-only."""
        return self._lasting["q"] if self._lasting else self.arrays.of(self.state.q)

    @property
    def v(self):
        """Velocities, array (worlds, nv), read-only."""
        return self._lasting["v"] if self._lasting else self.arrays.of(self.state.v)

    def step(self, control, substeps: int) -> None:
        """Step the simulator. The environment calls it.

        Parameters
        ----------
        control : array (worlds, nu)
            Controls.
        substeps : int
            Physics steps.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.step(np.zeros((2, 1)), 1)
        """
        if self.arrays.framework == "numpy":
            control = np.ascontiguousarray(control, self.sim.dtype)
        else:
            control = self.arrays.give(control, self.state.q.dtype)
        self.sim.step(self.state, control, substeps=substeps, out=self.state)
        self._stepped = True

    def isolated(self, *arrays) -> tuple:
        """Cut the gradients of worlds that are not finite out of arrays.

        Parameters
        ----------
        *arrays : array (worlds, ...)
            Arrays.

        Returns
        -------
        tuple of arrays
            The same arrays. Of tensors with gradients, the gradients of non-finite worlds are cut.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> (action,) = view.isolated(view.action)
        """
        return arrays

    def restarted(self, mask) -> None:
        """Discard the cached quantities of worlds that have been reset. The environment calls it.

        Parameters
        ----------
        mask : array (worlds,) of bool
            The worlds.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.restarted(np.array([True, False]))
        """
        self._cache.clear()
        self._known = {
            name: None if name in OF_STEP else mask if reset is None else reset | mask
            for name, reset in self._known.items()
        }

    def write(self, **values) -> None:
        """Overwrite positions or velocities, for terms of events.

        Parameters
        ----------
        **values : array (worlds, nq) or (worlds, nv)
            By name, `q` or `v`: an array of the framework or of NumPy.

        Raises
        ------
        ValueError
            An array has another shape.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.write(v=view.v + 0.5)
        >>> view.v.tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        for name, value in values.items():
            target, value = getattr(self.state, name), self.arrays.made(value)
            if tuple(value.shape) != target.shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; it must be {target.shape}")
            self.arrays.put(target, value)
        self.moved()

    def moved(self) -> None:
        """Discard the cached quantities of the last state. The environment calls it after a step."""
        self._cache.clear()
        self._known.clear()

    def _once(self, name, make):
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    def constant(self, name, make):
        """Compute a value once and keep it, such as a table of the model that a term reads in every step.

        Parameters
        ----------
        name : hashable
            Name of the result.
        make : callable
            Function without arguments, called the first time only.

        Returns
        -------
        Any
            What `make()` returned.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.constant("links", lambda: view.model.nlink)
        2
        """
        if name not in self._constants:
            self._constants[name] = make()
        return self._constants[name]

    # random numbers of this step, keyed by (seed, world, episode, step, draw) -----------------------------------------

    def draw(self) -> int:
        """A new index of draws, an int that a term keeps and gives to `uniform` and `normal`."""
        self.draws += 1
        return self.draws - 1

    def uniform(self, columns: int, low=0.0, high=1.0, draw: int = 0, of_episode: bool = False):
        """Draw uniform random numbers in [low, high) in every world.

        Parameters
        ----------
        columns : int
            Number of random numbers per world.
        low : float or array (columns,)
            Lower bound. Default: 0.
        high : float or array (columns,)
            Upper bound. Default: 1.
        draw : int
            Index of the draw, from `draw()`. The same index gives the same random numbers within one step. Default: 0.
        of_episode : bool
            Whether the numbers are those of the episode's first step. Default: False.

        Returns
        -------
        array (worlds, columns)
            The numbers, float32.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> x = view.uniform(3, -1.0, 1.0, draw=view.draw())
        >>> x.shape, bool((abs(x) <= 1.0).all())
        ((2, 3), True)
        """
        return self._draw("uniform", columns, low, high, draw, of_episode)

    def normal(self, columns: int, mean=0.0, deviation=1.0, draw: int = 0):
        """Draw normally distributed random numbers in every world.

        Parameters
        ----------
        columns : int
            Number of random numbers per world.
        mean : float or array (columns,)
            Mean. Default: 0.
        deviation : float or array (columns,)
            Standard deviation. Default: 1.
        draw : int
            Index of the draw, from `draw()`. Default: 0.

        Returns
        -------
        array (worlds, columns)
            The numbers, float32.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.normal(3, deviation=0.1, draw=view.draw()).shape
        (2, 3)
        """
        return self._draw("normal", columns, mean, deviation, draw)

    def _draw(self, kind: str, columns: int, a, b, draw: int, of_episode: bool = False):
        """Random numbers of the stream, copied; each kind of draw has a captured graph.

        On the CPU a step draws them once. Afterwards, and for terms of `starts`, a second graph draws those of the
        worlds that begin an episode; in `starts` the rows of other worlds are of earlier draws.
        """
        key = (kind, columns, *(np.asarray(x, np.float32).tobytes() for x in (a, b)), draw, of_episode)
        stream, real, device = self._start if of_episode else self.stream, wp.float32, self.sim.device
        if key not in self._drawn:
            found = getattr(stream, kind)(columns, a, b, draw=draw)  # raises for invalid bounds
            if len(self._drawn) >= WAYS:
                return self.arrays.of(found)
            bounds = [x if np.ndim(x) == 0 else wp.array(x, dtype=real, device=device) for x in (a, b)]
            self._drawn[key] = bounds, found
        bounds, out = self._drawn[key]

        def launch() -> None:
            getattr(stream, kind)(columns, *bounds, draw=draw, out=out)

        whole = not self.starting or key not in self._replays
        if not self._by_rows or (whole and key not in self._current):
            self.replayed(key, launch)
        else:
            changed = self._current.get(key, self.beginning)
            if changed is not None:
                self.replayed_among(key, changed, launch)
        if self._by_rows and (whole or key in self._current):
            self._current[key] = None
        return self.arrays.copied(self.arrays.shared(out))

    # columns by name --------------------------------------------------------------------------------------------------

    def columns(self, *joints: str) -> tuple:
        """Find the columns of q and v that belong to joints.

        Parameters
        ----------
        *joints : str
            Names of joints. Default: all joints except free ones.

        Returns
        -------
        q, v : array of int
            Columns in the order of the names: tensors on the device for torch, else NumPy arrays.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.columns("pivot")
        (array([1]), array([1]))
        """
        found = self.host_columns(*joints)
        return tuple(self.arrays.constant(x) for x in found) if self.arrays.framework == "torch" else found

    @functools.cache  # noqa: B019 (a view lives as long as its environment)
    def host_columns(self, *joints: str) -> tuple:
        """`columns`, the columns of q and v of joints, always as NumPy arrays, also with torch."""
        model = self.model
        names = joints or tuple(
            n for n, kind in zip(model.joint_names, model.joint_type, strict=True) if kind != 0 and _is_small(model, n)
        )
        pairs = [model.joint_coordinates(name) for name in names]
        return tuple(
            np.concatenate([np.arange(p[i].start, p[i].stop) for p in pairs] or [np.zeros(0, int)]) for i in (0, 1)
        )

    # quantities computed from the state -------------------------------------------------------------------------------

    @property
    def poses(self):
        """Poses of all bodies [x y z qw qx qy qz] in the world frame [m], array (worlds, nbody, 7)."""
        return self._once("poses", lambda: self._own(self._poses()))

    @property
    def velocities(self):
        """Velocities of all body frames in world axes, array (worlds, nbody, 6).

        Angular [rad/s], then linear of the frame's origin [m/s].
        """
        return self._once("velocities", lambda: self._own(self._motion()[1]))

    def _poses(self):
        if "motion" in self._asks:
            return self._motion()[0]
        return self._asked("poses", lambda: (self.sim.kinematics(self.state.q, self.state.mocap),))[0]

    def _motion(self) -> list:
        """Body poses and velocities: where a term asks for velocities, both are computed at once."""
        return self._asked("motion", lambda: self.sim.body_motion(self.state))

    def pose(self, body: int):
        """The pose of one body. It takes less time than `poses`.

        Parameters
        ----------
        body : int
            Index of the body, `model.body(name)`.

        Returns
        -------
        array (worlds, 7)
            [x y z qw qx qy qz] in the world frame [m].

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.pose(view.model.body("pole")).shape
        (2, 7)
        """
        free = self._free(body)
        if free is None:
            return self._once(("pose", body), lambda: self._own(self._poses()[:, body]))
        return self._once(("pose", body), lambda: self._free_pose(free[0]))

    def velocity(self, body: int):
        """The velocity of one body frame. It takes less time than `velocities`.

        Parameters
        ----------
        body : int
            Index of the body, `model.body(name)`.

        Returns
        -------
        array (worlds, 6)
            Angular [rad/s], then linear of the origin [m/s], world axes.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.velocity(view.model.body("pole")).shape
        (2, 6)
        """
        free = self._free(body)
        if free is None:
            return self._once(("velocity", body), lambda: self._own(self._motion()[1][:, body]))
        return self._once(("velocity", body), lambda: self._free_velocity(body, free[1]))

    @functools.cache  # noqa: B019 (a view lives as long as its environment)
    def _free(self, body: int) -> tuple[slice, slice] | None:
        """The columns of q and v of a body with a free joint, which hold its pose and velocity; None for others."""
        model, link = self.model, int(self.model.body_link[body])
        if model.link_type[link] != JointType.FREE:
            return None
        q, v = int(model.link_q[link]), int(model.link_v[link])
        return slice(q, q + 7), slice(v, v + 6)

    def _free_pose(self, columns: slice):
        q = self.q[:, columns]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a world that is not finite ends itself
            return joined(self.xp, [q[:, :3], q[:, 3:] / norm(q[:, 3:])[:, None]])

    def _free_velocity(self, body: int, columns: slice):
        linear, angular = self.v[:, columns][:, :3], self.v[:, columns][:, 3:]
        return joined(self.xp, [rotated(self.xp, self.pose(body)[:, 3:], angular), linear])

    @property
    def contact_force(self):
        """Net contact force of the last physics step on each body [N], world axes: array (worlds, nbody, 3).

        It is 0 where an episode begins.
        """
        return self._once(
            "contact_force",
            lambda: self._of_episode(self._asked("contact_force", lambda: (self.sim.contact_force(),))[0]),
        )

    @property
    def contact_wrench(self):
        """Contact torque about each body's COM [N m], then force [N], world axes: array (worlds, nbody, 6).

        The wrench is that of the last physics step, and 0 where an episode begins.
        """
        return self._once(
            "contact_wrench",
            lambda: self._of_episode(self._asked("wrench", lambda: (self.sim.contact_wrench(self.state),))[0]),
        )

    @property
    def sensors(self):
        """Values of the model's sensors, as from `Simulator.sensors`: array (worlds, nsensordata).

        Sensors of accelerations and forces are 0 where an episode begins.
        """

        def make():
            values = self._asked("sensors", lambda: (self.sim.sensors(self.state),))[0]
            of_state = self.constant("sensors of states", lambda: self.arrays.made(~columns_of_step(self.model)))
            return self.xp.where((self.steps > 0)[:, None] | of_state[None, :], values, 0.0)

        return self._once("sensors", make)

    @property
    def about_centre(self):
        """Wrench (0 where an episode begins), inertia, velocity and centre, as from `Simulator.about_centre`."""

        def make():
            wrench, *others = self._asked("about_centre", lambda: self.sim.about_centre(self.state))
            return (self._of_episode(wrench), *(self._own(x) for x in others))

        return self._once("about_centre", make)

    @property
    def constraint_force(self):
        """Generalized forces of contacts and constraints (worlds, nv), with MuJoCo's law from `view.evaluated` only."""
        raise ValueError("constraint_force is of MuJoCo's law; make the environment with solver=ws.MuJoCo()")

    @property
    def evaluated(self):
        """With MuJoCo's law, a view of the quantities in MuJoCo's `data` after `mj_step`; else this view."""
        lags = self.sim.solver.mujoco_law and not self.differentiable
        return self._once("evaluated", lambda: Evaluated(self)) if lags else self

    def _of_episode(self, values):
        """A copy of values of the last step, 0 in worlds that begin an episode."""
        if self.arrays.near:
            return self.arrays.without_rows(values, (self.arrays.host(self.steps) == 0).nonzero()[0])
        return self.xp.where((self.steps > 0)[:, None, None], values, 0.0)

    def _asked(self, name: str, ask) -> list:
        """Arrays that the simulator computes from the state. The next state overwrites them: see `_own`.

        On the CPU a captured graph computes them after the first step. Where some worlds were reset since, a second
        graph computes them in these worlds alone.
        """
        if not (self._stepped and self.captures and self._by_rows):
            return [self.arrays.of(x) for x in ask()]
        if name not in self._known:
            self._computed(name, ask)
        elif self._known[name] is not None:
            rows = self.arrays.host(self._known[name]).nonzero()[0]
            if len(rows):
                self._renew(name, ask, rows)
        self._known[name] = None
        return [self.arrays.shared(x) for x in self._asks[name][2]]

    def _own(self, values):
        """A copy of what `_asked` gives, which a term may keep."""
        return self.arrays.copied(values) if self._by_rows else values

    def _computed(self, name, ask) -> list:
        """The arrays of `ask()`, which a captured graph computes. They belong to the graph."""
        version, replay, found = self._asks.get(name, (None, None, None))
        if version != self.sim.parameters.version:  # parameter arrays have moved
            held: list = []
            replay = self.sim.capture(lambda: held.append(ask()))  # called twice; the second call is in the graph
            found = list(held[1])
            self._asks[name] = self.sim.parameters.version, replay, found
        replay()
        return found

    def _renew(self, name: str, ask, rows: np.ndarray) -> None:
        """Compute the rows of some worlds of `_asked` anew."""
        self._choose(rows)

        def ask_rows():
            with among(self._chosen):
                return ask()

        for array, found in zip(self._asks[name][2], self._computed((name, "rows"), ask_rows), strict=True):
            array.numpy()[rows] = found.numpy()[rows]

    def parameter(self, name: str):
        """A physical parameter of the simulator.

        Parameters
        ----------
        name : str
            Name in `sim.parameters`.

        Returns
        -------
        array (worlds, ...) or (1, ...)
            One row per world, or one row for all worlds.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.parameter("gravity").tolist()
        [[0.0, 0.0, -9.8100004196167]]
        """
        return self.arrays.shared(self.sim.parameters.stored(name))

    def diagnostic(self, name: str):
        """A diagnostic of the last physics step.

        Parameters
        ----------
        name : str
            Name in `sim.diagnostics`, such as "contacts", "flags" or "energy".

        Returns
        -------
        array (worlds,)
            One value per world.

        Examples
        --------
        >>> task = ws.envs.Task(model=ws.robots.path("cartpole"), observations={"q": lambda s: s.q})
        >>> view = ws.envs.VectorEnv(task, 2, device="cpu").view
        >>> view.diagnostic("flags").tolist()
        [0, 0]
        """
        return self.arrays.shared(getattr(self.sim.diagnostics, name))


class Evaluated:
    """A view whose poses, velocities and centers are those at which the last physics step evaluated its forces.

    They are a physics step behind q and v, as in MuJoCo's `data` after `mj_step`, which Gymnasium's environments read
    (`Simulator.evaluated`). Where an episode begins, they are those of its state.
    """

    def __init__(self, view: View):
        self._view = view

    def _once(self, name, make):
        return self._view._once(("evaluated", name), make)

    def __getattr__(self, name: str):
        return getattr(self._view, name)

    @property
    def poses(self):
        return self._found("poses", lambda view: view.poses)

    @property
    def velocities(self):
        return self._found("velocities", lambda view: view.velocities)

    def pose(self, body: int):
        return self.poses[:, body]

    def velocity(self, body: int):
        return self.velocities[:, body]

    @property
    def about_centre(self):
        return self._found("about_centre", lambda view: view.about_centre)

    @property
    def constraint_force(self):
        """Generalized forces of contacts and constraints `(worlds, nv)`; 0 where an episode begins."""
        return self._found("constraint_force", lambda view: 0.0 * view.v)

    def _found(self, what: str, at_start):
        view = self._view

        def make():
            if not view.arrays.near or view.steps.any():
                found = [view._own(x) for x in view._asked(f"evaluated {what}", lambda: self._asked(what))]
            else:
                found = [None]
            if view.arrays.near and view.steps.all():
                return found if len(found) > 1 else found[0]
            start, moved = at_start(view), view.steps > 0
            several = isinstance(start, tuple)
            start = start if several else (start,)
            if found[0] is not None:
                shaped = [moved.reshape(-1, *(1,) * (x.ndim - 1)) for x in start]
                start = tuple(view.xp.where(*x) for x in zip(shaped, found, start, strict=True))
            return start if several else start[0]

        return view._once(f"evaluated {what}", make)

    def _asked(self, what: str):
        found = self._view.sim.evaluated(what)
        return found if isinstance(found, tuple) else (found,)


def _is_small(model, name: str) -> bool:
    place = model.joint_coordinates(name)[0]
    return place.stop - place.start < 7
