# SPDX-License-Identifier: Apache-2.0
"""`View`, which terms read: all worlds of an environment at one moment, as arrays of its framework."""

import copy
import functools

import numpy as np
import warp as wp

from warpsim.base.other_names import NamesOfView
from warpsim.device.ranges import WorldList, among
from warpsim.envs.frameworks import Arrays
from warpsim.run.randomness import RandomStream
from warpsim.sensors.sensor_tables import columns_of_step

WAYS = 64  # kinds of draws with a cached graph; draws whose bounds change from step to step have none


class View(NamesOfView):
    """All worlds at one moment. Terms are functions of it that return an array with one row per world.

    q, v                 `(worlds, nq)`, `(worlds, nv)`, read-only; the simulator's memory where possible
    q_before, v_before   the same before the action
    action, last_action  `(worlds, actions)` of this step and of the previous one; 0 in the first step of an episode
    control              `(worlds, nu)` computed from the action
    steps                `(worlds,)` number of steps of the present episode
    tick                 number of actions since the environment was made
    commands             name -> `(worlds, n)`
    dt                   time per action [s]
    model, sim, state    the simulator's; `models`: those that worlds take in turn
    xp                   the framework's functions: numpy, torch or jax.numpy
    """

    differentiable, gradient_faults = False, None
    captures = True  # whether the simulator can capture graphs
    # for terms of starts, commands and events: the worlds that begin an episode, and whether random numbers begin anew
    beginning, seeded = None, False

    def __init__(self, sim, state, arrays: Arrays, dt: float, actions: int, seed: int, first_world: int = 0):
        self.sim, self.state, self.arrays, self.dt = sim, state, arrays, dt
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
        # what was asked since the last step: its arrays, and a mask of the worlds that were reset since, or None
        self._known: dict = {}
        self._chosen = WorldList(sim.worlds, sim.device)
        # contact wrenches divide impulses by the last step's duration, which captured graphs contain
        self._stepped = False
        self.stream = RandomStream(seed, self.numbers, device=sim.device)
        self._start = copy.copy(self.stream)  # the stream at the first step of the present episode, with shared memory
        self._start.step = wp.zeros_like(self.stream.step)
        self._mask = wp.zeros(sim.worlds, dtype=wp.bool, device=sim.device)

    def seed(self, seed: int) -> None:
        """Restart the random numbers of every world."""
        if seed >= 1 << 64:
            raise ValueError(f"seed is {seed}; it has up to 64 bits")
        first = np.zeros(self.worlds, np.int32)
        self.stream.load_state_dict({"seed": seed, "world": self.numbers, "episode": first, "step": first})

    def advance(self) -> None:
        """Advance the random numbers of every world to the next step."""
        self.replayed("advance", self.stream.advance)

    def next_episode(self, mask) -> None:
        """Advance the random numbers of the worlds of a mask to the next episode."""
        self.arrays.put(self._mask, mask)
        self.replayed("next_episode", lambda: self.stream.reset(self._mask))

    def replayed(self, key, launch) -> None:
        """Run `launch()`, from a captured graph where possible.

        A launch from Python costs as much time as computing some thousand entries.
        """
        if key in self._replays:
            self._replays[key]()
        elif self.captures:
            self._replays[key] = self.sim.capture(launch)  # runs it once
        else:
            self._replays[key] = launch
            launch()

    @property
    def q(self):
        return self._lasting["q"] if self._lasting else self.arrays.of(self.state.q)

    @property
    def v(self):
        return self._lasting["v"] if self._lasting else self.arrays.of(self.state.v)

    def step(self, control, substeps: int) -> None:
        """Step the simulator."""
        if self.arrays.framework == "numpy":
            control = np.ascontiguousarray(control, self.sim.dtype)
        else:
            control = self.arrays.give(control, self.state.q.dtype)
        self.sim.step(self.state, control, substeps=substeps, out=self.state)
        self._stepped = True

    def isolated(self, *arrays) -> tuple:
        """The same arrays; for tensors with gradients, the gradients of non-finite worlds are cut here."""
        return arrays

    def restarted(self, mask) -> None:
        """The worlds of a mask have been reset: invalidate what was computed of them."""
        self._cache.clear()
        self._known = {
            name: (arrays, mask if reset is None else reset | mask) for name, (arrays, reset) in self._known.items()
        }

    def write(self, **values) -> None:
        """Overwrite q or v `(worlds, …)` with values of the framework or of the host, for events."""
        for name, value in values.items():
            target, value = getattr(self.state, name), self.arrays.made(value)
            if tuple(value.shape) != target.shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; it must be {target.shape}")
            self.arrays.put(target, value)
        self.moved()

    def moved(self) -> None:
        """Invalidate what was computed from the last state."""
        self._cache.clear()
        self._known.clear()

    def _once(self, name, make):
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    def constant(self, name, make):
        """The cached result of `make()`: tables of the model that a term reads repeatedly."""
        if name not in self._constants:
            self._constants[name] = make()
        return self._constants[name]

    # random numbers of this step, keyed by (seed, world, episode, step, draw) -----------------------------------------

    def draw(self) -> int:
        """A permanent draw number for a term that draws random numbers."""
        self.draws += 1
        return self.draws - 1

    def uniform(self, columns: int, low=0.0, high=1.0, draw: int = 0, of_episode: bool = False):
        """Uniform numbers `(worlds, columns)` in [low, high); `of_episode`: the draw of each episode's first step."""
        return self._draw("uniform", columns, low, high, draw, of_episode)

    def normal(self, columns: int, mean=0.0, deviation=1.0, draw: int = 0):
        """Normal numbers `(worlds, columns)`."""
        return self._draw("normal", columns, mean, deviation, draw)

    def _draw(self, kind: str, columns: int, a, b, draw: int, of_episode: bool = False):
        """Random numbers of the stream, copied; each kind of draw has a captured graph."""
        key = (kind, columns, *(np.asarray(x, np.float32).tobytes() for x in (a, b)), draw, of_episode)
        stream, real, device = self._start if of_episode else self.stream, wp.float32, self.sim.device
        if key not in self._drawn:
            found = getattr(stream, kind)(columns, a, b, draw=draw)  # raises for invalid bounds
            if len(self._drawn) >= WAYS:
                return self.arrays.of(found)
            bounds = [x if np.ndim(x) == 0 else wp.array(x, dtype=real, device=device) for x in (a, b)]
            self._drawn[key] = bounds, found
        bounds, out = self._drawn[key]
        self.replayed(key, lambda: getattr(stream, kind)(columns, *bounds, draw=draw, out=out))
        return self.arrays.copied(self.arrays.of(out))

    # columns by name --------------------------------------------------------------------------------------------------

    def columns(self, *joints: str) -> tuple:
        """Columns of q and of v of the named joints, in that order; without names all joints except free ones.

        They are indices of the framework: tensors on the device, else NumPy arrays.
        """
        found = self.host_columns(*joints)
        return tuple(self.arrays.constant(x) for x in found) if self.arrays.framework == "torch" else found

    @functools.cache  # noqa: B019 (a view lives as long as its environment)
    def host_columns(self, *joints: str) -> tuple:
        """`columns` as NumPy arrays."""
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
        """Body poses `(worlds, nbody, 7)`, [x y z qw qx qy qz]."""
        return self._once(
            "poses", lambda: self._asked("poses", lambda: (self.sim.kinematics(self.state.q, self.state.mocap),))[0]
        )

    @property
    def velocities(self):
        """Velocities of body frames `(worlds, nbody, 6)`: angular [rad/s], linear of origins [m/s]; world axes."""
        return self._once(
            "velocities", lambda: self._asked("velocities", lambda: (self.sim.body_velocity(self.state),))[0]
        )

    def pose(self, body: int):
        """Pose of one body `(worlds, 7)`, a column of `poses`; with gradients it takes less time than all of them."""
        return self.poses[:, body]

    def velocity(self, body: int):
        """Velocity of one body frame `(worlds, 6)`, a column of `velocities`, as `pose`."""
        return self.velocities[:, body]

    @property
    def contact_force(self):
        """Net contact force of the last physics step on each body `(worlds, nbody, 3)` [N], world axes.

        It is 0 where an episode begins.
        """
        return self._once("contact_force", lambda: self._of_episode(self.arrays.of(self.sim.contact_force())))

    @property
    def contact_wrench(self):
        """Contact torque about the body's COM [N m], then force [N], `(worlds, nbody, 6)`; as `contact_force`."""
        return self._once(
            "contact_wrench",
            lambda: self._of_episode(self._asked("wrench", lambda: (self.sim.contact_wrench(self.state),))[0]),
        )

    @property
    def sensors(self):
        """The model's sensors `(worlds, nsensordata)`, as `Simulator.sensors`.

        Sensors of accelerations and forces are 0 where an episode begins.
        """

        def make():
            values = self._asked("sensors", lambda: (self.sim.sensors(self.state),))[0]
            of_state = self.constant("sensors of states", lambda: self.arrays.made(~columns_of_step(self.model)))
            return self.xp.where((self.steps > 0)[:, None] | of_state[None, :], values, 0.0)

        return self._once("sensors", make)

    @property
    def about_centre(self):
        """(wrench, inertia, velocity, centre), as `Simulator.about_centre`; the wrench is 0 where an episode begins."""

        def make():
            wrench, *others = self._asked("about_centre", lambda: self.sim.about_centre(self.state))
            return (self._of_episode(wrench), *others)

        return self._once("about_centre", make)

    @property
    def constraint_force(self):
        """Of `evaluated` alone."""
        raise ValueError("constraint_force is of MuJoCo's law; make the environment with solver=ws.MuJoCo()")

    @property
    def evaluated(self):
        """With MuJoCo's law the quantities that MuJoCo's `data` has after `mj_step`: see `Evaluated`; else the view."""
        lags = self.sim.solver.mujoco_law and not self.differentiable
        return self._once("evaluated", lambda: Evaluated(self)) if lags else self

    def _of_episode(self, values):
        return self.xp.where((self.steps > 0)[:, None, None], values, 0.0)

    def _asked(self, name: str, ask) -> list:
        """Arrays that the simulator computes from the state, copied.

        On the CPU a captured graph computes them after the first step. Where some worlds were reset since, a second
        graph computes them in these worlds alone.
        """
        if not (self._stepped and self.captures and self.sim.device.is_cpu and self.arrays.near):
            return [self.arrays.of(x) for x in ask()]
        arrays, reset = self._known.get(name, (None, None))
        if arrays is None:
            arrays = [self.arrays.copied(self.arrays.of(x)) for x in self._computed(name, ask)]
        elif reset is not None:
            rows = np.flatnonzero(self.arrays.host(reset))
            arrays = self._renewed(name, ask, arrays, rows.astype(np.int32)) if len(rows) else arrays
        self._known[name] = arrays, None
        return arrays

    def _computed(self, name, ask) -> list:
        """The arrays of `ask()`, which a captured graph computes. They belong to the graph."""
        version, replay, held = self._asks.get(name, (None, None, None))
        if version != self.sim.parameters.version:  # parameter arrays have moved
            held = []
            replay = self.sim.capture(lambda: held.append(ask()))  # called twice; the second call is in the graph
            del held[0]
            self._asks[name] = self.sim.parameters.version, replay, held
        replay()
        return held[0]

    def _renewed(self, name: str, ask, arrays: list, rows: np.ndarray) -> list:
        """Copies of `arrays` with the rows of some worlds computed anew."""
        chosen = self._chosen.array.numpy()
        chosen[0], chosen[1 : 1 + len(rows)] = len(rows), rows

        def ask_rows():
            with among(self._chosen):
                return ask()

        found = self._computed((name, "rows"), ask_rows)
        return [self.arrays.with_rows(a, rows, self.arrays.of(x)) for a, x in zip(arrays, found, strict=True)]

    def parameter(self, name: str):
        """A parameter of the simulator: one row per world, or one for all."""
        return self.arrays.of(self.sim.parameters.stored(name))

    def diagnostic(self, name: str):
        """A diagnostic of the last physics step `(worlds,)`: contacts, flags, energy, …"""
        return self.arrays.of(getattr(self.sim.diagnostics, name))


class Evaluated:
    """A view whose poses, velocities and centers are those at which the last physics step evaluated its forces.

    They are a physics step behind q and v, as in MuJoCo's `data` after `mj_step`, which Gymnasium's environments read
    (`Simulator.evaluated`). Where an episode begins, they are those of its state.
    """

    def __init__(self, view: View):
        self._view = view

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
                found = view._asked(f"evaluated {what}", lambda: self._asked(what))
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
