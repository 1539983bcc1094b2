# SPDX-License-Identifier: Apache-2.0
"""`Simulator`: a model in many worlds on one device. Every method is batched over worlds.

Methods that do not step come from base classes in the rooms that they belong to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from warpsim.base.annotations import Device, DeviceName, Numbers, PathLike
from warpsim.base.checks import choice, flag, short, whole
from warpsim.base.other_names import NamesOfSimulator, answers, own_names
from warpsim.base.reprs import show
from warpsim.contact.hydroelastic.pressure_contact import LEVELS, Hydroelasticity
from warpsim.device.cores import step_threads
from warpsim.device.memory import LARGEST_INDEX, array_bytes
from warpsim.device.recording import active_tape
from warpsim.device.threads import alone, exclusive, unshared
from warpsim.differentiate.from_distance import GradientFromDistance
from warpsim.differentiate.from_distance import checked as checked_gradient
from warpsim.differentiate.jacobians import Jacobians
from warpsim.integrate import Integrator, SymplecticEuler
from warpsim.integrate.mujoco.mujoco_schemes import scheme_of
from warpsim.model.mapped_stiffness import without_mapped_stiffness
from warpsim.model.model import Model
from warpsim.model.mujoco_options import separate_pairs
from warpsim.model.overlap import start_of
from warpsim.model.parameters import Parameters
from warpsim.rows.recovery import RECOVERY_SPEED, recovery_speeds
from warpsim.run.guards import (
    guard_inertia,
    guard_model,
    guard_parameters,
    refuse_recovery,
    refuse_together,
    refuse_without_effect,
    timed_impacts,
)
from warpsim.run.inputs import Inputs, device_called, dtype_called, time_step
from warpsim.run.quantities import Quantities
from warpsim.run.rollout import Rollouts
from warpsim.run.shortage import explains_shortage
from warpsim.run.untimed import UntimedPairs, count_untimed, warn_untimed
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.sap.sap import SAP
from warpsim.state import State
from warpsim.stepping import Diagnostics, Stepper
from warpsim.tree.dynamics import DeviceModel

MOST_POLYGONS = LARGEST_INDEX // 64  # per world


class Simulator(Jacobians, Rollouts, Quantities, NamesOfSimulator):
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
        `ws.SymplecticEuler()` (default), `ws.ExplicitEuler()`, `ws.ImplicitEuler()`, `ws.Midpoint()`,
        `ws.Variational()`, `ws.MuJoCoEuler()`, `ws.MuJoCoImplicitFast()` or `ws.MuJoCoRK4()`.
    solver : ContactModel, optional
        `ws.SAP()` (default), `ws.Compliant()`, `ws.LCP()`, `ws.MuJoCo()` or `ws.NoContact()`.
    device : str, optional
        Name of a Warp device, for example "cpu" or "cuda:0". Default: CUDA if there is a GPU, else the CPU.
    dtype : str
        "float32" (default) or "float64".
    requires_grad : bool
        Whether steps can be recorded on a `wp.Tape`. Default: False.
    max_contacts : int, optional
        Slots for contact points per world. Contact points beyond them raise the flag CONTACT_OVERFLOW. Default: the
        number that the model's pairs of geoms can have, but at most 32 to 64 for a model of one tree, depending on its
        geoms, plus 16 for each further tree. The default is larger if the initial state needs more.
    recovery_speed : float or (float, float), optional
        Largest speed (m/s, rad/s) at which near-rigid contact recovers from overlap and joints return from beyond their
        limits. One number counts for both, None means no limit. It does not affect contacts and limits with a stiffness
        of their own. Default: (0.2, 2.0).
    threads : int, optional
        CPU threads that share the worlds. Results have the same bits for any number (docs/threads.md). Default: one for
        every 32 worlds, at least one, at most the cores that this process may use.
    on_fault : str, optional
        "dump", or the name of a folder. Each world that raises a flag is written there with everything that its step
        read (docs/reliability.md). Every step then copies the state and waits for the device.
    hydroelastic : str
        What represents a hydroelastic contact patch: "polygons", "patch16" (default), "patch5" or "patch4"
        (docs/hydroelastic.md).
    max_polygons : int, optional
        Slots for polygons of hydroelastic contact per world. Default: from the number of cells and trees of the model.
    reactions : bool
        Whether steps keep what `acceleration` and `joint_reaction` return. Default: False.
    time_of_impact : bool, optional
        Whether steps resolve impacts: fast rigid contacts and joint stops act from the time of their impact on, not
        over the whole step (docs/impacts.md). Gradients through impacts are then the slopes of the true motion, and
        `ws.SAP()` has restitution. True needs `ws.SymplecticEuler()` or `ws.ImplicitEuler()`, and `ws.SAP()` or
        `ws.LCP()`. Default: True if the model has restitution and the other arguments allow it, else False.
    mapped_stiffness : bool, optional
        Whether contact has the stiffness that `ws.load` maps from a file's `solref` and `solimp`. False: geoms with
        such a stiffness are near-rigid (docs/mjcf.md); a stiffness that was set directly is kept. Default: False if
        steps resolve impacts (`time_of_impact`), because only impacts of rigid contact are resolved; else True.
    contact_gradient : GradientFromDistance, optional
        Derivatives contain a force between geoms before they touch; motions do not change (docs/gradients_contact.md).
        Default: None, exact derivatives.

    Raises
    ------
    ValueError
        An argument has a value that is not allowed. The message names it.
    ModelError
        The model has a feature that this integrator or solver cannot simulate. The message names it.

    Warns
    -----
    UserWarning
        Geoms overlap in the model's initial state. The message names the deepest pairs. Where steps resolve impacts:
        most pairs of geoms have compliant contact, or a pair's restitution has no effect.

    Notes
    -----
    One thread at a time may use a simulator; several threads may each have their own (docs/threads.md). A step is
    described in docs/step.md.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("ant"))
    >>> sim = ws.Simulator(model, worlds=4, dt=0.005, device="cpu")
    >>> state = sim.step(sim.state())
    >>> state.q.shape
    (4, 15)
    """

    model: Model
    worlds: int
    dtype: str
    integrator: Integrator
    solver: ContactModel
    requires_grad: bool
    device: Device
    recovery_speed: tuple[float, float]
    time_of_impact: bool
    mapped_stiffness: bool
    contact_gradient: GradientFromDistance | None
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
        time_of_impact: bool | None = None,
        mapped_stiffness: bool | None = None,
        contact_gradient: GradientFromDistance | None = None,
    ) -> None:
        guard_model(model)
        self.worlds = whole(worlds, "worlds", 1)
        if self.worlds > LARGEST_INDEX:
            raise ValueError(
                f"worlds is {worlds}; at most {LARGEST_INDEX} can be counted, and ws.fit_worlds says how many fit"
            )
        self.dtype = dtype_called(dtype)
        dt = time_step(model.timestep if dt is None else dt, dtype)
        self.solver = SAP() if solver is None else solver
        if integrator is None:
            integrator = scheme_of(model) if getattr(self.solver, "mujoco_law", False) else SymplecticEuler()
        self.integrator, self.requires_grad = integrator, flag(requires_grad, "requires_grad")
        chosen = (model, self.solver, self.integrator, dtype, self.requires_grad)
        self.time_of_impact = timed_impacts(time_of_impact, *chosen)
        self.mapped_stiffness = not self.time_of_impact
        if mapped_stiffness is not None:
            self.mapped_stiffness = flag(mapped_stiffness, "mapped_stiffness")
        model = model if self.mapped_stiffness else without_mapped_stiffness(model)
        self.model = model = separate_pairs(model) if getattr(self.solver, "mujoco_law", False) else model
        refuse_together(model, *chosen[1:], self.time_of_impact)
        self.contact_gradient = checked_gradient(contact_gradient, model, self.solver)
        if max_contacts is not None:
            max_contacts = whole(max_contacts, "max_contacts", 1)
        self.device = device_called(device)
        self.recovery_speed = recovery_speeds(recovery_speed)
        refuse_recovery(self.solver, recovery_speed)
        self._threads_given = threads
        threads = step_threads(threads, self.device, self.worlds)
        if max_polygons is not None:
            max_polygons = whole(max_polygons, "max_polygons", 1)
            if max_polygons > MOST_POLYGONS:
                raise ValueError(f"max_polygons is {max_polygons}; give at most {MOST_POLYGONS}, or None for a default")
        level = Hydroelasticity(choice(hydroelastic, "hydroelastic", LEVELS), max_polygons)
        self.device_model = DeviceModel(
            model, self.worlds, dtype, self.device, self.requires_grad, self.recovery_speed, threads, level,
            flag(reactions, "reactions"), self.time_of_impact, self.contact_gradient,
        )  # fmt: skip
        self.parameters = self.device_model.parameters
        self._use = self.parameters._use
        refuse_without_effect(self.parameters, self.solver, self.requires_grad, self.time_of_impact)
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
        if self.time_of_impact:
            warn_untimed(model, self.solver.is_rigid, 5)
        self._stepper = Stepper(self._step, self.solver, self.integrator, self._inputs, dt)
        self.diagnostics = self._stepper.diagnostics
        self._watch = None
        if on_fault is not None:
            from warpsim.run.fault_watch import Watch

            self._watch = Watch(self, on_fault)

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._stepper.dt

    @dt.setter
    @unshared
    def dt(self, value: float) -> None:
        self._stepper.dt = time_step(value, self.dtype)
        self._stepper.replay.clear()  # captured graphs hold the old dt

    @property
    def untimed_pairs(self) -> UntimedPairs | None:
        """Number of pairs of geoms whose impacts steps do not resolve, by reason; None without `time_of_impact`.

        The contact of these pairs is compliant: they have a stiffness, in any world, or touch by pressure fields.
        """
        if not self.time_of_impact:
            return None
        stiffness = self.parameters.stored("geom_stiffness").numpy()
        return count_untimed(self.model, stiffness, self.solver.is_rigid)

    @property
    def threads(self) -> int:
        """CPU threads that share the worlds of a step."""
        return self.device_model.threads

    def __repr__(self) -> str:
        values = {"worlds": self.worlds, "dt": f"{self.dt:g}", "solver": type(self.solver).__name__}
        values |= {"integrator": type(self.integrator).__name__, "dtype": self.dtype, "device": self.device}
        values |= {"max_contacts": self.max_contacts, "requires_grad": self.requires_grad}
        values |= {"threads": self.threads}
        values |= {"time_of_impact": True} if self.time_of_impact else {}
        values |= {"contact_gradient": self.contact_gradient} if self.contact_gradient else {}
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
        """Make a state of all worlds.

        Parameters
        ----------
        q : array (nq,) or (worlds, nq), optional
            Positions, with MuJoCo's layout of `qpos` [m, rad]. Quaternions may have any length from 1e-6 to 1e6; a step
            normalizes them. Default: the initial pose of the model, or that of the keyframe.
        v : array (nv,) or (worlds, nv), optional
            Velocities, with MuJoCo's layout of `qvel` [m/s, rad/s]. Default: 0, or those of the keyframe.
        keyframe : str, optional
            Name of a keyframe of the model. The other arguments replace its values. Default: none.
        activation : array (na,) or (worlds, na), optional
            Activations of the actuators with dynamics. Default: those of the keyframe, else 0, or the bound nearest to
            0 if the actuator's range excludes it.
        mocap : array (nmocap, 7) or (worlds, nmocap, 7), optional
            Poses `[x y z qw qx qy qz]` of the mocap bodies in the world frame. Default: those of the keyframe, else
            those of the model.

        Returns
        -------
        State
            A new state at time 0 with no flag raised.

        Raises
        ------
        ValueError
            A value is NaN, a shape is wrong, a quaternion has another length, an activation is outside its actuator's
            range, or the model has no such keyframe.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=3, device="cpu", dtype="float64")
        >>> sim.state(q=[0.0, 0.1]).q.numpy()[2].tolist()          # one row: the same in all worlds
        [0.0, 0.1]
        >>> angles = np.linspace(-0.1, 0.1, 3)
        >>> sim.state(q=np.stack([0 * angles, angles], axis=1)).q.numpy()[:, 1].tolist()
        [-0.1, 0.0, 0.1]
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
        keyframe: str | None = None,
        *,
        activation: Numbers | None = None,
        mocap: Numbers | None = None,
        parameters: bool = False,
    ) -> None:
        """Reset the chosen worlds of a state in place.

        Time, memory and flags of the chosen worlds are reset too. All other worlds stay as they are.

        Parameters
        ----------
        state : State
            The state to change.
        worlds : array of int or of bool
            Indices of the worlds, or a mask (worlds,). The host does not read a mask on the device: on CUDA nothing
            waits, and `capture` accepts it.
        q, v : array (n,) or (chosen, n), optional
            Positions and velocities: one row for all chosen worlds, or one row per chosen world. Beside a mask on the
            device they may also be arrays on the device with one row per world. Default: those of the keyframe, else
            those of `state()`.
        keyframe : str, optional
            Name of a keyframe of the model. The other arguments replace its values. Default: none.
        activation : array (na,) or (chosen, na), optional
            Activations, with rows as those of `q`. Default: those of the keyframe, else those of `state()`.
        mocap : array (nmocap, 7) or (chosen, nmocap, 7), optional
            Poses of the mocap bodies, with rows as those of `q`. Default: those of the keyframe, else those of the
            model.
        parameters : bool
            Whether the chosen worlds also get the model's values of `sim.parameters`. Default: False.

        Raises
        ------
        ValueError
            A world or the keyframe does not exist, or a value is wrong, as in `state`. Nothing is written then.

        Notes
        -----
        If a step on a tape made `state`, the tape keeps its arrays and `state` gets new ones. While a tape records,
        gradients pass through the worlds that were not chosen.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=3, dt=0.01, device="cpu")
        >>> state = sim.step(sim.state())
        >>> sim.reset(state, [1], q=[0.5, 0.0])
        >>> state.time.numpy().round(3).tolist(), state.q.numpy()[1].tolist()
        ([0.01, 0.0, 0.01], [0.5, 0.0])

        The worlds of a mask, to a keyframe:

        >>> builder = ws.ModelBuilder()
        >>> _ = builder.add_model(sim.model)
        >>> builder.add_keyframe("tilted", q=[0.0, 0.5])
        >>> sim = ws.Simulator(builder.build(), worlds=3, device="cpu")
        >>> state = sim.step(sim.state())
        >>> sim.reset(state, np.array([True, False, True]), keyframe="tilted")
        >>> state.q.numpy()[:, 1].tolist()
        [0.5, 0.0, 0.5]
        """
        self._stepper.check_state(state)
        flag(parameters, "parameters")
        chosen, start = self._inputs.restart(worlds, q, v, keyframe, activation)
        self._stepper.restart(state, chosen, start, self._inputs.restart_mocap(chosen, mocap, keyframe))
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
            Poses `[x y z qw qx qy qz]` of the mocap bodies, in the file's order, from this step on. Default: those of
            `state`.
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
        Under a `wp.Tape` a step keeps copies of its inputs and of the parameters that have been accessed, so you may
        write to them afterwards. A fault in a world sets its entry of `diagnostics.flags` (docs/flags.md). For example,
        a NaN in the inputs of a world raises NONFINITE there, and its positions and velocities stay unchanged.

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

    @exclusive
    def capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        """Record what a function launches as a graph that can be replayed, with equal results.

        Parameters
        ----------
        function : callable
            A function without arguments. It may step into existing states (`out=`) and launch kernels. It must not read
            device data on the host. It is called once before the recording, to compile and allocate what it needs; the
            effects of that call remain.

        Returns
        -------
        callable
            Replays the recorded launches. It takes no argument and returns None.

        Raises
        ------
        ValueError
            `function` is not callable, or the simulator was made with `on_fault`.

        Notes
        -----
        A replay saves the time that the host takes for each launch. On the CPU it saves the checks of arguments.

        Examples
        --------
        >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, dt=0.01, device="cpu")
        >>> state = sim.state()
        >>> replay = sim.capture(lambda: sim.step(state, out=state))
        >>> for _ in range(9):
        ...     replay()
        >>> print(round(float(state.time.numpy()[0]), 3))       # the step of the recording counts too
        0.1
        """
        if not callable(function):
            raise ValueError(f"function is {short(function)}; give a callable without arguments")
        if self._watch is not None:
            raise ValueError("a captured graph cannot look at flags; make the Simulator without on_fault")
        function()
        return self._stepper.replay_of(self._stepper.replay.capture(function))

    @exclusive
    def bytes_per_world(self) -> float:
        """Device memory per world that this simulator holds [bytes].

        It is the workspace of a step, the parameters, the memory of queries made so far and, with `requires_grad=True`,
        the workspace of the backward pass. States and a tape's records are not included, nor the states of past tapes
        that are kept to be used again, up to 16 MB. `ws.fit_worlds` uses it.
        """
        if self.requires_grad:
            _ = self._stepper.adjoint  # otherwise made at the first taped step
        return array_bytes(vars(self)) / self.worlds


own_names(Simulator, Jacobians, Rollouts, Quantities)
