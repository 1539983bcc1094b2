# SPDX-License-Identifier: Apache-2.0
"""`Simulator`: a model in many worlds on one device. Every method is batched over worlds."""

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.annotations import Array, Device, DeviceName, Element, Numbers, PathLike, Progress
from warpsim.base.checks import choice, flag, short, whole
from warpsim.base.other_names import NamesOfSimulator, answers
from warpsim.base.reprs import show
from warpsim.contact.collision import ContactList
from warpsim.contact.hydroelastic.contact_patch import ContactPatch, contact_patches
from warpsim.contact.hydroelastic.pressure_contact import LEVELS, Hydroelasticity
from warpsim.contact.queries import AboutCentre, Queries, RayHits, RaySensor
from warpsim.device.cores import step_threads
from warpsim.device.memory import LARGEST_INDEX, array_bytes
from warpsim.device.recording import active_tape, tape_paused
from warpsim.device.threads import alone, exclusive, unshared
from warpsim.differentiate.jvp import jvp
from warpsim.differentiate.linearize import Linearization, linearize
from warpsim.integrate import Integrator, SymplecticEuler
from warpsim.model.model import Model
from warpsim.model.overlap import start_of
from warpsim.model.parameters import Parameters
from warpsim.rows.recovery import RECOVERY_SPEED, recovery_speeds
from warpsim.run.guards import guard_inertia, guard_parameters, refuse_together
from warpsim.run.inputs import Inputs, device_called, dtype_called, time_step
from warpsim.run.rollout import rollout
from warpsim.run.shortage import explains_shortage
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.sap.sap import SAP
from warpsim.state import State
from warpsim.state.trajectory import Trajectory
from warpsim.stepping import Diagnostics, Stepper
from warpsim.tree.dynamics import DeviceModel

if TYPE_CHECKING:
    from warpsim.run.randomness import RandomControls

MOST_POLYGONS = LARGEST_INDEX // 64  # per world


class Simulator(NamesOfSimulator):
    """Many worlds of one model on one device, stepped together.

    Parameters
    ----------
    model : Model
        What one world is: from `ws.load` or `ws.ModelBuilder`.
    worlds : int
        Number of worlds. Default: 1.
    dt : float, optional
        Time step [s]. Default: the time step of the model's file.
    integrator : Integrator, optional
        `ws.SymplecticEuler()` (default), `ws.ExplicitEuler()`, `ws.ImplicitEuler()`, `ws.Midpoint()` or `ws.Variational()`.
    solver : ContactModel, optional
        `ws.SAP()` (default), `ws.Compliant()`, `ws.LCP()` or `ws.NoContact()`.
    device : str, optional
        Name of a Warp device, for example "cpu" or "cuda:0". Default: CUDA if there is a GPU, else the CPU.
    dtype : str
        "float32" (default) or "float64".
    requires_grad : bool
        Whether steps can be recorded on a `wp.Tape`. Default: False.
    max_contacts : int, optional
        Slots for contact points per world. Default: as many as the model's pairs of geoms can have, but at most 32 to 64 for a model of
        one tree, depending on its geoms, and 16 more for each further tree; more where the initial state needs them. Contact points beyond it
        raise the flag CONTACT_OVERFLOW.
    recovery_speed : float or (float, float), optional
        Largest speed (m/s, rad/s) at which near-rigid contact recovers from overlap and joints return from beyond their limits. One
        number counts for both, None means no limit. Contacts and limits with a given stiffness keep their law. Default: (0.2, 2.0).
    threads : int, optional
        CPU threads that share the worlds. The bits are the same for any number (docs/threads.md). Default: one for every 32 worlds, at
        least one, at most the cores that this process may use.
    on_fault : str, optional
        "dump", or the name of a folder. Each world that raises a flag is written there with everything that its step read
        (docs/reliability.md). Every step then copies the state and waits for the device.
    hydroelastic : str
        What represents a hydroelastic contact patch: "polygons", "patch16" (default), "patch5" or "patch4" (docs/hydroelastic.md).
    max_polygons : int, optional
        Slots for polygons of hydroelastic contact per world. Default: from the number of cells and trees of the model.
    reactions : bool
        Whether steps keep what `acceleration` and `joint_reaction` return. Default: False.

    Raises
    ------
    ValueError
        An argument has a value that it may not have. The message names it.
    ModelError
        The model has a feature that this integrator or solver cannot simulate. The message names it.

    Warns
    -----
    UserWarning
        Geoms overlap in the model's initial state. The message names the deepest pairs.

    Notes
    -----
    One thread at a time may use a simulator; several threads may each have their own (docs/threads.md). A step is described in docs/step.md.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("ant"))
    >>> sim = ws.Simulator(model, worlds=4, dt=0.005, device="cpu")
    >>> state = sim.step(sim.state())
    >>> state.q.shape
    (4, 15)
    """

    worlds: int
    dtype: str
    integrator: Integrator
    solver: ContactModel
    requires_grad: bool
    device: Device
    recovery_speed: tuple[float, float]
    parameters: Parameters
    diagnostics: Diagnostics
    max_contacts: int
    device_model: Any

    @alone
    @explains_shortage
    @answers
    def __init__(
        self,
        model: Model,
        worlds: int = 1,
        dt: float | None = None,
        integrator: Integrator | None = None,
        solver: ContactModel | None = None,
        device: DeviceName | None = None,
        dtype: str = "float32",
        requires_grad: bool = False,
        max_contacts: int | None = None,
        recovery_speed: float | tuple[float, float] | None = RECOVERY_SPEED,
        threads: int | None = None,
        on_fault: PathLike | None = None,
        hydroelastic: str = "patch16",
        max_polygons: int | None = None,
        reactions: bool = False,
    ) -> None:
        if not isinstance(model, Model):
            raise ValueError(f"model is a {type(model).__name__}; load one with ws.load(path) or build it")
        self.model = model
        self.worlds = whole(worlds, "worlds", 1)
        if self.worlds > LARGEST_INDEX:
            raise ValueError(
                f"worlds is {worlds}; at most {LARGEST_INDEX} can be counted, and ws.fit_worlds says how many fit"
            )
        self.dtype = dtype_called(dtype)
        dt = time_step(model.timestep if dt is None else dt, dtype)
        self.integrator = SymplecticEuler() if integrator is None else integrator
        self.solver = SAP() if solver is None else solver
        self.requires_grad = flag(requires_grad, "requires_grad")
        refuse_together(model, self.solver, self.integrator, dtype, self.requires_grad)
        if max_contacts is not None:
            max_contacts = whole(max_contacts, "max_contacts", 1)
        self.device = device_called(device)
        self.recovery_speed = recovery_speeds(recovery_speed)
        self._threads_given = threads
        threads = step_threads(threads, self.device, self.worlds)
        if max_polygons is not None:
            max_polygons = whole(max_polygons, "max_polygons", 1)
            if max_polygons > MOST_POLYGONS:
                raise ValueError(f"max_polygons is {max_polygons}; give at most {MOST_POLYGONS}, or None for a default")
        level = Hydroelasticity(choice(hydroelastic, "hydroelastic", LEVELS), max_polygons)
        self.device_model = DeviceModel(
            model, self.worlds, dtype, self.device, self.requires_grad, self.recovery_speed, threads, level,
            flag(reactions, "reactions"),
        )  # fmt: skip
        self.parameters = self.device_model.parameters
        self._use = self.parameters._use
        for name, why in self.solver.ignored_parameters(self.requires_grad).items():
            self.parameters.refuse(name, why)
        if not model.has_spin:
            for name in ("geom_torsional_friction", "geom_rolling_friction"):
                self.parameters.refuse(
                    name, "has no effect: no pair of geoms has condim 4 or 6; give a geom condim=4 or 6"
                )
        guard_parameters(self.parameters, self.solver)
        self._inputs = Inputs(model, self.worlds, dtype, self.device)
        self._step = self.integrator.make_step(self.device_model, self.solver, max_contacts)
        self.max_contacts = self._step.collision.capacity
        if self._step.collision.enabled or self._step.solver.rows:
            guard_inertia(self.parameters, self.solver)
        if self._step.collision.enabled:
            message = start_of(model, self._step.collision.hulls).warning()
            if message is not None:
                warnings.warn(message, stacklevel=5)
        self._stepper = Stepper(self._step, self.solver, self.integrator, self._inputs, dt)
        self.diagnostics = self._stepper.diagnostics
        self._watch = None
        if on_fault is not None:
            from warpsim.run.fault_watch import Watch

            self._watch = Watch(self, on_fault)

    @property
    def dt(self) -> float:
        """Step [s]."""
        return self._stepper.dt

    @dt.setter
    @unshared
    def dt(self, value: float) -> None:
        self._stepper.dt = time_step(value, self.dtype)
        self._stepper.replay.clear()  # graphs have the old one

    @property
    def threads(self) -> int:
        """Threads of the CPU that share the worlds of a step."""
        return self.device_model.threads

    def __repr__(self) -> str:
        values = {"worlds": self.worlds, "dt": f"{self.dt:g}", "solver": type(self.solver).__name__}
        values |= {"integrator": type(self.integrator).__name__, "dtype": self.dtype, "device": self.device}
        values |= {"max_contacts": self.max_contacts, "requires_grad": self.requires_grad}
        values |= {"threads": self.threads}
        return f"Simulator({short(self.model.name)}, {show('', values)[1:-1]})"

    # states ----------------------------------------------------------------------------------------------------------

    @exclusive
    def state(
        self,
        q: Numbers | None = None,
        v: Numbers | None = None,
        keyframe: str | None = None,
        *,
        activation: Numbers | None = None,
        mocap: Numbers | None = None,
    ) -> State:
        """A new state: the model's initial pose at rest, a named keyframe, or `q`, `v`, `activation` of shape (n,) or (worlds, n).

        With a keyframe, what is given as well replaces the keyframe's. Quaternions may have any length from 1e-6 to
        1e6, a step normalises them. Activations are 0 unless given, or next to it in their range. `mocap`: poses of the mocap bodies `(nmocap, 7)` or (worlds, nmocap, 7), see
        `step`. Raises `ValueError` for NaN, a wrong shape, another quaternion, an activation outside its actuator's range or an unknown keyframe.
        """
        start = self._inputs.start(q, v, keyframe, activation=activation)
        self._inputs.refuse_mocap(mocap)
        state = self._stepper.blank_state()
        if state.mocap is not None and (mocap is not None or keyframe is not None):
            start["mocap"] = self._inputs.start_mocap(mocap, keyframe)
        for name, values in start.items():
            state.arrays()[name].assign(values)
        return state

    @exclusive
    def reset(
        self,
        state: State,
        worlds: Numbers,
        q: Numbers | None = None,
        v: Numbers | None = None,
        *,
        activation: Numbers | None = None,
        mocap: Numbers | None = None,
        parameters: bool = False,
    ) -> None:
        """Put the chosen worlds (indices, or a boolean mask) of `state` back to q, v, activation (default: those of `state()`), mocap bodies to
        `mocap` (default: their poses in the model).

        q, v, activation, mocap: (n,), a row for each chosen world, or beside a mask on the device arrays of the device with a row for every world. Such a mask is
        not read by the host: on CUDA nothing waits, and `capture` takes it.
        Their time, memory and flags start anew; with `parameters` their entries of `sim.parameters` are the model's again.
        Nothing else is written. A state that a taped step made is left to the tape, and `state` given new arrays; while the
        tape records, gradients pass through the worlds that were not chosen.
        """
        self._stepper.check_state(state)
        flag(parameters, "parameters")
        chosen, start = self._inputs.restart(worlds, q, v, activation)
        self._stepper.restart(state, chosen, start, self._inputs.restart_mocap(chosen, mocap))
        if parameters:
            self.parameters.restore(self._inputs.chosen_worlds(worlds))

    # stepping --------------------------------------------------------------------------------------------------------

    @exclusive
    def step(
        self,
        state: State,
        control: Numbers | None = None,
        *,
        tau: Numbers | None = None,
        wrench: Numbers | None = None,
        mocap: Numbers | None = None,
        substeps: int = 1,
        out: State | None = None,
    ) -> State:
        """Advance all worlds by one time step and return the new state.

        Parameters
        ----------
        state : State
            Where the step begins. It is not changed, unless it is `out`.
        control : array (worlds, nu), optional
            Input of the actuators, clamped to their control ranges. Default: zero.
        tau : array (worlds, nv), optional
            Generalized forces in addition to the actuators [N, N m].
        wrench : array (worlds, nbody, 6), optional
            (torque, force) on each body at its center of mass, in world axes [N m, N].
        mocap : array (worlds, nmocap, 7), optional
            Poses `[x y z qw qx qy qz]` of the mocap bodies, in the file's order, from this step on. Default: those of `state`.
        substeps : int
            Number of equal parts in which the time step is taken. Default: 1.
        out : State, optional
            A state to write the result into. It may be `state` itself.

        Returns
        -------
        State
            The state after `dt`: `out` if given, else a new state.

        Raises
        ------
        ValueError
            A wrong shape or dtype, or a state of another simulator.

        Notes
        -----
        Under a `wp.Tape` a step keeps copies of its inputs and of the parameters that have been accessed, so you may write to them
        afterwards. What goes wrong in a world sets its entry of `diagnostics.flags` (docs/step.md): a NaN in what a world is given raises
        NONFINITE there, and its positions and velocities stay what they were.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=4, dt=0.005, device="cpu")
        >>> state = sim.state()
        >>> for _ in range(10):
        ...     state = sim.step(state, control=np.zeros((4, 8)))
        >>> print(round(float(state.time.numpy()[0]), 3))
        0.05
        """
        if mocap is None and self._watch is None and active_tape() is None:
            after = self._stepper.repeat(state, control, tau, wrench, substeps, out)
            if after is not None:
                return after
        self._stepper.check_state(state)
        substeps = whole(substeps, "substeps", 1)
        state = self._stepper.with_mocap(state, mocap)
        step = self._stepper.plain_step if active_tape() is None else self._stepper.taped_step
        return self._watched(state, substeps, lambda: step(state, control, tau, wrench, substeps, out))

    def _watched(self, state: State, substeps: int, step: Callable[[], State]) -> State:
        return step() if self._watch is None else self._watch.step(step, state, substeps)

    # Jacobians -------------------------------------------------------------------------------------------------------

    @exclusive
    def linearize(
        self,
        state: State,
        control: Numbers | None = None,
        *,
        tau: Numbers | None = None,
        parameters: Sequence[str] = (),
        mocap: Numbers | None = None,
        force_jacobian: bool = False,
        mocap_jacobian: bool = False,
        out: Linearization | None = None,
    ) -> Linearization:
        """Jacobians of one step from `state`, of which `mocap` is as in `step`: `A`, `B`, and on request `tau`, `mocap`, `parameters[name]`; see
        `ws.Linearization`.

        Which features touch is frozen, as on a tape. With `out`, a result of the same request, its arrays are filled: then
        the launches are replayed from a graph. Nothing is recorded on a tape. In closed form for `SymplecticEuler()` with `SAP` or
        `NoContact`; for the rest, and by poses of mocap bodies, in a simulator with `requires_grad=True`, by nv or 2 nv reverse passes of the step's equations.
        """
        with tape_paused():
            state = self._stepper.with_mocap(state, mocap)
        return linearize(self, state, control, tau, parameters, force_jacobian, mocap_jacobian, out)

    @exclusive
    def jvp(
        self,
        state: State,
        control: Numbers | None = None,
        dstate: Numbers | None = None,
        dcontrol: Numbers | None = None,
        *,
        tau: Numbers | None = None,
        dtau: Numbers | None = None,
        mocap: Numbers | None = None,
        dmocap: Numbers | None = None,
        parameters: Mapping[str, Any] | None = None,
        out: Array | None = None,
    ) -> Array:
        """Derivatives of one step along directions (forward mode), without a tape.

        Every direction has shape (worlds, ...), or (directions, worlds, ...) for many at once. One that is not given is
        zero. One without the axis of directions counts for all of them.

        Parameters
        ----------
        state : State
            Where the step begins.
        control : array (worlds, nu), optional
            Input of the actuators. Default: zero.
        dstate : array (..., worlds, 2 nv + na), optional
            Change of the state, in the order (q, v, activation) of the columns of `Linearization.A`. The change of q is
            a tangent vector, as v: a free joint's translation in world axes, rotations in body axes.
        dcontrol : array (..., worlds, nu), optional
            Change of the controls.
        tau : array (worlds, nv), optional
            Generalized forces. Default: zero.
        dtau : array (..., worlds, nv), optional
            Change of the generalized forces.
        mocap : array (worlds, nmocap, 7), optional
            Poses of the mocap bodies, as in `step`.
        dmocap : array (..., worlds, nmocap, 6), optional
            Change of the poses of the mocap bodies: translation in world axes, rotation in body axes.
        parameters : dict, optional
            Changes of parameters by name, shaped as in `sim.parameters`: for instance `{"body_mass": direction}` with a
            direction (..., worlds, nbody).
        out : array, optional
            Array to write the result into.

        Returns
        -------
        array (worlds, 2 nv + na) or (directions, worlds, 2 nv + na)
            Change of the next state, in the order of `dstate`: A δx + B δu + ... with the Jacobians of `linearize`.

        Raises
        ------
        ValueError
            A direction has a wrong shape, none is given, or this step has no closed form and the simulator was made
            without `requires_grad=True`. The message says which.

        Notes
        -----
        The same cases as in `linearize` have a closed form. There one solve with the factor of the step serves the
        directions alone. Elsewhere the cost is that of `linearize`, whatever the number of directions.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, dt=0.005, device="cpu", dtype="float64")
        >>> state, directions = sim.state(), np.random.default_rng(0).normal(size=(10, 2, 28))
        >>> change = sim.jvp(state, dstate=directions)
        >>> change.shape
        (10, 2, 28)
        >>> A = sim.linearize(state).A.numpy()
        >>> bool(np.allclose(change.numpy(), np.einsum("wij,kwj->kwi", A, directions)))
        True
        """
        with tape_paused():
            state = self._stepper.with_mocap(state, mocap)
        return jvp(self, state, control, dstate, dcontrol, tau, dtau, dmocap, parameters, out)

    @exclusive
    def capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        """Record what `function()` launches as a graph and return a callable that replays it, with equal results.

        `function` may step into existing states (`out=`) and launch kernels; it must not read device data on the host.
        It runs once before, so that everything it needs is compiled and allocated; its effects then are not undone.
        """
        if not callable(function):
            raise ValueError(f"function is {short(function)}; give a callable without arguments")
        if self._watch is not None:
            raise ValueError("a captured graph cannot look at flags; make the Simulator without on_fault")
        function()
        return self._stepper.replay_of(self._stepper.replay.capture(function))

    @unshared
    def rollout(
        self,
        state: State,
        controls: "Numbers | RandomControls | Callable[[State], Any] | None" = None,
        steps: int | None = None,
        *,
        mocap: Numbers | None = None,
        substeps: int = 1,
        every: int = 1,
        progress: Progress | None = None,
        checkpoint_every: int | None = None,
        gradient_norms: bool = False,
        store: PathLike | None = None,
    ) -> Trajectory:
        """Simulate `steps` steps from `state` and record them.

        Parameters
        ----------
        state : State
            The initial state. It is not changed.
        controls : array (steps, worlds, nu) or callable or RandomControls, optional
            Controls of all steps, or a policy: `policy(state)` returns the control (worlds, nu). Default: zero.
        steps : int, optional
            Number of steps. Required unless `controls` is an array; then its length is the default.
        mocap : array (steps, worlds, nmocap, 7), optional
            Poses of the mocap bodies in each step, as in `step`.
        substeps : int
            Parts of each step, as in `step`.
        every : int
            Record every `every`-th step only: `steps // every + 1` rows. Default: 1.
        progress : bool or callable, optional
            True shows a progress bar. A callable is called with the number of each step.
        checkpoint_every : int, optional
            Under a tape, keep the state of every n-th step and compute the others again in the backward pass. Memory is O(steps/n + n)
            states beside the rows; the time is that of one more forward pass; the bits are the same.
        gradient_norms : bool
            Under a tape, report gradient norms per step and world in `trajectory.gradients`.
        store : str, optional
            Path, or URL of fsspec, of a Zarr store to write while simulating. The trajectory then reads from there. `ws.resume(store)`
            continues an interrupted rollout with the same bits (docs/stores.md); a policy needs a `state_dict` for that.

        Returns
        -------
        Trajectory
            The recorded rows. Row 0 is the initial state. Under a tape the rows and `final` carry gradients.

        Raises
        ------
        ValueError
            An argument has a wrong shape or value. The message names it.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=4, dt=0.005, device="cpu")
        >>> trajectory = sim.rollout(sim.state(), steps=20, every=5)
        >>> trajectory.q.shape
        (5, 4, 15)
        """
        self._stepper.check_state(state)
        options = {"mocap": mocap, "substeps": substeps, "every": every, "progress": progress}
        options |= {"checkpoint_every": checkpoint_every, "gradient_norms": gradient_norms, "store": store}
        return rollout(self, state, controls, steps, **options)

    @functools.cached_property
    def _queries(self) -> Queries:
        return Queries(self.device_model)

    def _at(self, state: State) -> Queries:
        """Queries with the mocap bodies where they are in a state."""
        self._stepper.check_state(state)
        self._queries.place_mocap(state.mocap)
        return self._queries

    def _with(self, mocap) -> Queries:
        """Queries with the mocap bodies at poses that are given, None: those of the model."""
        given = self._inputs.mocap(mocap)
        if given is None and self.model.nmocap:
            given = self._stepper.mocap_rest
        self._queries.place_mocap(given)
        return self._queries

    # queries ---------------------------------------------------------------------------------------------------------

    @exclusive
    def kinematics(self, q: Numbers, mocap: Numbers | None = None) -> Array:
        """Body poses `(worlds, nbody, 7)` as `[x y z qw qx qy qz]` in the world frame, bodies in the file's order.

        `mocap (nmocap, 7)` or (worlds, nmocap, 7), here and in the queries below: where the mocap bodies are; None: where the model has them.
        """
        return self._with(mocap).kinematics(*self._inputs.rows(q=q))

    @exclusive
    def body_velocity(self, state: State) -> Array:
        """Velocities of the body frames `(worlds, nbody, 6)`: (angular, linear) in world axes, the linear one of their origins."""
        return self._at(state).body_velocity(state.q, state.v)

    @exclusive
    def mass_matrix(self, q: Numbers, mocap: Numbers | None = None) -> Array:
        """Joint-space mass matrix `(worlds, nv, nv)`, armature included (CRBA)."""
        return self._with(mocap).mass_matrix(*self._inputs.rows(q=q))

    @exclusive
    def inverse_dynamics(self, q: Numbers, v: Numbers, a: Any, mocap: Numbers | None = None) -> Array:
        """`M a + c(q, v)` `(worlds, nv)` by RNEA; c holds Coriolis, gyroscopic and gravity terms."""
        return self._with(mocap).inverse_dynamics(*self._inputs.rows(q=q, v=v, a=a))

    @exclusive
    def forward_dynamics(self, q: Numbers, v: Numbers, tau: Numbers, mocap: Numbers | None = None) -> Array:
        """`M^-1 (tau - c)` `(worlds, nv)` by ABA; no contact, springs, dampers or actuators."""
        return self._with(mocap).forward_dynamics(*self._inputs.rows(q=q, v=v, tau=tau))

    @exclusive
    def jacobian(
        self, q: Numbers, body: Element, point: Numbers = (0.0, 0.0, 0.0), mocap: Numbers | None = None
    ) -> Array:
        """`(worlds, 6, nv)`, rows (angular, linear) in world axes, at `point` (3,) or (worlds, 3) fixed in `body`."""
        (q,), point = self._inputs.rows(q=q), self._inputs.host_rows(point, 3, "point")
        return self._with(mocap).jacobian(q, self._inputs.body(body), np.atleast_2d(point))

    @exclusive
    def energy(self, state: State) -> tuple[Array, Array]:
        """Kinetic and potential energy [J], each `(worlds,)`: the potential of gravity, which is 0 with all mass at the world's origin, and of the springs of
        joints and tendons, as MuJoCo's; those of constraints, actuators and contact are not in it."""
        return self._at(state).energy(state.q, state.v)

    @exclusive
    def sensors(self, state: State, control: Numbers | None = None) -> Array:
        """What the model's sensors measure `(worlds, nsensordata)`, in MuJoCo's order and layout; `model.sensor(name)` is a sensor's slice.

        Sensors of positions and velocities are those of `state`. Those of accelerations and forces are of the (sub)step that led to it:
        (v' − v)/h and impulses/h, where it began; NaN after `sim.state` and `reset`, until a step. With `control (worlds, nu)` the
        forces of actuators are those at `state` instead. On a tape where one records. See docs/sensors.md.
        """
        self._stepper.check_state(state)
        return self._stepper.sensors(state, control)

    @exclusive
    def acceleration(self, state: State) -> Array:
        """(v' − v)/h `(worlds, nv)` of the (sub)step that led to `state`, MuJoCo's qacc; NaN until a step.

        Of a simulator made with `reactions=True`. On a tape where one records.
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "acceleration")

    @exclusive
    def joint_reaction(self, state: State) -> Array:
        """What each body's parent exerts on it through its joints `(worlds, nbody, 6)`: (torque, force) at the origin of the body's frame, in
        world axes, where the (sub)step that led to `state` began. Springs, dampers and actuators of the joints are in it; contacts, constraints
        between bodies and `wrench` are not. NaN until a step.

        Of a simulator made with `reactions=True`. On a tape where one records.
        """
        self._stepper.check_state(state)
        return self._stepper.reactions(state, "joint_reaction")

    @exclusive
    def contacts(self, state: State) -> ContactList:
        """The contacts at `state`, and those that its velocity can bring about within dt."""
        return self._at(state).contacts(state.q, state.v, self.dt, self.max_contacts)

    @exclusive
    def contact_force(self, of: str = "body") -> Array:
        """Net contact force of the last step [N], world axes: `(worlds, nbody)` or, `of="geom"`, `(worlds, ngeom)` vec3."""
        choice(of, "of", ("body", "geom"))
        return self._step.net_contact_force(of)

    @exclusive
    def contact_wrench(self, state: State) -> Array:
        """Net wrench of the last step's contacts on each body `(worlds, nbody, 6)`: (torque, force) in world axes, as `step` takes them,
        the torque about the body's COM where it is in `state`."""
        return self._at(state).contact_wrench(state.q, self._step)

    @exclusive
    def about_centre(self, state: State) -> AboutCentre:
        """Contact wrenches of the last step, inertias and velocities of bodies about the centre of mass of their tree: MuJoCo's cfrc_ext, cinert
        and cvel."""
        return self._at(state).about_centre(state.q, state.v, self._step)

    @exclusive
    def ray_cast(
        self,
        state: State,
        origin: Numbers,
        direction: Numbers,
        *,
        max_distance: float = np.inf,
        geoms: Sequence[Element] | None = None,
        ignore: Sequence[Element] = (),
        body: Element | None = None,
    ) -> RayHits:
        """Nearest hits of rays with the geoms at `state`: distance [m] (-1: none), geom index, outward normal in world axes.

        `origin` and `direction` (any length) are (rays, 3) or (worlds, rays, 3), in world axes or, with `body`, in that body's. `geoms`: indices or
        names to consider (default: all); `ignore`: bodies, by index or name ("world" or -1: the world), whose geoms are left out.
        """
        sensor = self._rays(origin, direction, max_distance, geoms, ignore, body)
        return self._look(sensor, state)

    @exclusive
    def ray_sensor(
        self,
        origin: Numbers,
        direction: Numbers,
        *,
        max_distance: float = np.inf,
        geoms: Sequence[Element] | None = None,
        ignore: Sequence[Element] = (),
        body: Element | None = None,
    ) -> Callable[[State], RayHits]:
        """The rays of `ray_cast`, made once: a function of a state that gives their hits, for sensors that look again and again."""
        return functools.partial(self._look, self._rays(origin, direction, max_distance, geoms, ignore, body))

    @exclusive
    def _look(self, sensor: RaySensor, state: State) -> RayHits:
        self._at(state)
        return sensor.cast(state.q)

    def _rays(self, origin, direction, max_distance, geoms, ignore, body) -> RaySensor:
        origin, direction, reach = self._inputs.rays(origin, direction, max_distance)
        link = -1 if body is None else self._inputs.body(body)
        return RaySensor(self._queries, origin, direction, reach, self._inputs.ray_geoms(geoms, ignore), link)

    @property
    @exclusive
    def last_contacts(self) -> ContactList:
        """The contacts of the last step, with the impulse on geom B in the contact frame [N s]."""
        return ContactList(self._step.collision, self._step.solver.solution.gamma.numpy())

    @exclusive
    def contact_patches(self, world: int = 0, state: State | None = None) -> list[ContactPatch]:
        """The patches in which pressure fields meet in one world, one for each pair of geoms, with its polygons: in the last step, as it began, or
        at `state`, where force and moment are the elastic ones.

        A copy on the host, for display and checks. Raises `ValueError` for a world that there is not.
        """
        world = whole(world, "world", 0)
        if world >= self.worlds:
            raise ValueError(f"world is {world}; the simulator has {self.worlds}, from 0 on")
        if state is None:
            return contact_patches(self._step, world)
        return self._at(state).patches(state.q, world)

    @property
    def warm_start_hits(self) -> Array:
        """`(worlds,)` 1 where the guess from the step before solved the last LCP at the first factorisation. Only with `ws.LCP()`."""
        hits = getattr(self._step.solver, "warm_start_hits", None)
        if hits is None:
            raise ValueError(f"warm_start_hits belongs to ws.LCP(), this simulator has {self.solver!r}")
        return hits

    @exclusive
    def bytes_per_world(self) -> float:
        """Device memory [bytes] that this simulator holds, per world: the workspace of a step, with `requires_grad=True` also
        of the backward pass, parameters, and what queries have taken. States and a tape's records are beside it."""
        if self.requires_grad:
            _ = self._stepper.adjoint  # made at the first taped step, else
        return array_bytes(vars(self)) / self.worlds
