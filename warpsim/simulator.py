"""`Simulator`: a model in many worlds on one device. Every method is batched over worlds."""

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from warpsim.checks import choice, flag, listed, number, numbers, positive, short, whole
from warpsim.contact.collision import ContactList
from warpsim.contact.queries import Queries, RayHits
from warpsim.device.copies import SCALARS
from warpsim.device.memory import array_bytes
from warpsim.device.recording import active_tape, refuse_torch_gradient, tape_paused
from warpsim.device.replay import Replay
from warpsim.device.threads import alone, in_turn, turn
from warpsim.differentiate.implicit import StepAdjoint, StepRecord, kept_array, pass_on_gradient
from warpsim.differentiate.kept import AdjointParameters, KeptParameters
from warpsim.differentiate.linearize import Linearization, Linearizer, linearize
from warpsim.differentiate.reverse import ReverseLinearizer
from warpsim.differentiate.theta_adjoint import SchemeAdjoint
from warpsim.differentiate.variational_adjoint import VariationalAdjoint
from warpsim.guards import guard_parameters, refuse_material
from warpsim.integrate import SymplecticEuler, ThetaScheme, Variational
from warpsim.integrate.step import Step
from warpsim.integrate.variational.variational_step import VariationalStep
from warpsim.kernels import flags
from warpsim.kernels.tree import joints
from warpsim.model.model import JOINT_NQ, GeomType, JointType, Model
from warpsim.model.overlap import start_of
from warpsim.reprs import show
from warpsim.rollout import rollout
from warpsim.rows.recovery import RECOVERY_SPEED, recovery_speeds
from warpsim.solve.cone_qp.compliant import Compliant
from warpsim.solve.lcp.contact_lcp import LCP
from warpsim.solve.nocontact import NoContact
from warpsim.solve.sap.sap import SAP
from warpsim.state import State
from warpsim.trajectory import Trajectory
from warpsim.tree.dynamics import DeviceModel
from warpsim.tree.wide import refuse_gradients

NONFINITE = int(flags.NONFINITE)
NOT_CONVERGED = int(flags.NOT_CONVERGED)
CONTACT_OVERFLOW = int(flags.CONTACT_OVERFLOW)
UNRESOLVED = int(flags.UNRESOLVED)


class Diagnostics:
    """What the last step reports, one value per world, on the device.

    `iterations` and `momentum_error` of the solver (the certificate e_m, theory §3.3; with `ws.Variational` also
    evaluations of DRNEA and its relative residual, the worst of a world's trees), number of `contacts`, `energy` [J]
    of the state the step began from, and the sticky `flags` (NONFINITE 1, NOT_CONVERGED 2, CONTACT_OVERFLOW 4, UNRESOLVED 8).
    """

    NAMES = ("iterations", "momentum_error", "contacts", "energy", "flags")

    def __init__(self, step: Step):
        solution = step.solver.solution
        self.iterations, self.momentum_error = solution.iterations, solution.momentum_error
        self.contacts, self.flags = step.collision.contacts.count, step.flags
        self._step = step

    @property
    def energy(self) -> wp.array:
        return self._step.energy

    def __repr__(self) -> str:
        return f"Diagnostics(worlds={self.flags.shape[0]}: {', '.join(self.NAMES)})"

    def numpy(self) -> dict[str, np.ndarray]:
        """Host copies by name."""
        return {name: getattr(self, name).numpy().copy() for name in self.NAMES}


class Simulator:
    """Simulates `worlds` copies of `model` with step `dt` [s] (default: the file's).

    `integrator`: `ws.SymplecticEuler()` (default), `ws.ExplicitEuler()`, `ws.ImplicitEuler()`, `ws.Midpoint()`,
    `ws.Variational(...)`. `solver`: `ws.SAP(...)`, `ws.Compliant(...)`, `ws.LCP(...)` or `ws.NoContact()`. `device`: a Warp device name; None
    is CUDA where there is one, else the CPU. `dtype`: "float32" or "float64". `max_contacts`: slots per world;
    None is 64, 16 more for each further tree, and as many as what touches at the model's start can use. Geoms that overlap
    there give one warning. `recovery_speed`: fastest recovery of near-rigid contact from overlap and of joints
    beyond their stops: (m/s, rad/s), one number for both, or None for no limit; contact and stops of a given stiffness keep
    their law. Raises `ValueError` or `ModelError` naming what is wrong.
    A simulator belongs to one thread at a time; several threads may have one each (docs/threads.md).
    """

    @alone
    def __init__(
        self,
        model: Model,
        worlds: int = 1,
        dt: float | None = None,
        integrator: ThetaScheme | Variational | None = None,
        solver: SAP | Compliant | LCP | NoContact | None = None,
        device=None,
        dtype: str = "float32",
        requires_grad: bool = False,
        max_contacts: int | None = None,
        recovery_speed: float | tuple[float, float] | None = RECOVERY_SPEED,
    ) -> None:
        if not isinstance(model, Model):
            raise ValueError(f"model is a {type(model).__name__}; load one with ws.load(path) or build it")
        self.model = model
        self.worlds = whole(worlds, "worlds", 1)
        self.dt = positive(model.timestep if dt is None else dt, "dt", "s")
        self.dtype: str = choice(dtype, "dtype", SCALARS)
        least = float(np.finfo(dtype).tiny) ** 0.5
        if not least <= self.dt <= 1 / least:  # its square and one over that are used
            raise ValueError(f"dt is {self.dt}; in {dtype} give {least:.0e} to {1 / least:.0e} s")
        flag(requires_grad, "requires_grad")
        self.integrator = SymplecticEuler() if integrator is None else integrator
        if not isinstance(self.integrator, (ThetaScheme, Variational)):
            known = "ws.SymplecticEuler(), ws.ImplicitEuler(), ws.Midpoint(), ws.ExplicitEuler() or ws.Variational(...)"
            raise ValueError(f"integrator is {integrator!r}; use {known}")
        self.solver = SAP() if solver is None else solver
        if not isinstance(self.solver, (SAP, Compliant, LCP, NoContact)):
            known = "ws.SAP(...), ws.Compliant(...), ws.LCP(...) or ws.NoContact()"
            raise ValueError(f"solver is {solver!r}; use {known}")
        if requires_grad and model.geom_hertz_modulus.any():
            geom = model.geom_names[int(np.argmax(model.geom_hertz_modulus > 0))]
            raise ValueError(
                f"geom {geom!r} has a hertz_modulus, which has no gradients yet; give it a stiffness, or leave "
                "requires_grad=False"
            )
        refuse_material(model, self.solver)
        if max_contacts is not None:
            max_contacts = whole(max_contacts, "max_contacts", 1)
        self.requires_grad = bool(requires_grad)
        if self.requires_grad:
            refuse_gradients(model, dtype, "requires_grad=True")
        if self.requires_grad and isinstance(self.solver, SAP) and self.solver.is_lagged:
            raise ValueError(
                'requires_grad=True needs the convex model for now: SAP(approximation="convex", supported_load=False)'
            )
        self.device = _device(device)
        self.recovery_speed = recovery_speeds(recovery_speed)
        self.device_model = DeviceModel(model, self.worlds, dtype, self.device, self.requires_grad, self.recovery_speed)
        self.parameters = self.device_model.parameters
        contact = not isinstance(self.solver, NoContact)
        if not isinstance(self.solver, LCP):
            name = "SAP" if isinstance(self.solver, NoContact) else type(self.solver).__name__
            self.parameters.refuse("geom_restitution", f"has no effect with {name} contact; use geom_dissipation_time")
        if not isinstance(self.solver, Compliant):
            self.parameters.refuse("geom_hertz_modulus", "has an effect with solver=ws.Compliant() alone")
        elif self.requires_grad:
            why = "has no gradients yet; give geoms a stiffness, or leave requires_grad=False"
            self.parameters.refuse("geom_hertz_modulus", why)
        guard_parameters(self.parameters, self.solver)
        options = self.solver if contact else self.solver.limits
        if isinstance(self.integrator, Variational):
            if self.requires_grad and self.integrator.passes > 1 and isinstance(self.solver, LCP):
                raise ValueError(
                    f"Variational(passes={self.integrator.passes}) has no gradients with LCP(); use passes=1, or ws.SAP()"
                )
            if self.requires_grad and getattr(options, "saddle_escape", False):
                raise ValueError("LCP(saddle_escape=True) has no gradients with Variational(); use another integrator")
            self._step = VariationalStep(self.device_model, self.integrator, options, max_contacts, contact)
        else:
            self._step = Step(self.device_model, options, max_contacts, contact, self.integrator)
        self.max_contacts = self._step.collision.capacity
        if self._step.collision.enabled:
            message = start_of(model, self._step.collision.hulls).warning()
            if message is not None:
                warnings.warn(message, stacklevel=3)
        self.diagnostics = Diagnostics(self._step)
        self._replay = Replay(self.device, self.parameters)
        self._zero_inputs: set[str] = set()

    def __repr__(self) -> str:
        values = {"worlds": self.worlds, "dt": f"{self.dt:g}", "solver": type(self.solver).__name__}
        values |= {"integrator": type(self.integrator).__name__, "dtype": self.dtype, "device": self.device}
        values |= {"max_contacts": self.max_contacts, "requires_grad": self.requires_grad}
        return f"Simulator({short(self.model.name)}, {show('', values)[1:-1]})"

    # states ----------------------------------------------------------------------------------------------------------

    @in_turn
    def state(self, q=None, v=None, keyframe: str | None = None) -> State:
        """A new state: the model's initial pose at rest, a named keyframe, or `q`, `v` of shape (n,) or (worlds, n).

        With a keyframe, `q` or `v` that is given as well replaces the keyframe's. Quaternions may have any length from 1e-6 to
        1e6, a step normalises them. Raises `ValueError` for NaN, a wrong shape, another quaternion or an unknown keyframe.
        """
        q0, v0 = self.model.q0, np.zeros(self.model.nv)
        if keyframe is not None:
            if not isinstance(keyframe, str) or keyframe not in self.model.keyframes:
                known = listed(self.model.keyframes)
                raise ValueError(f"no keyframe {short(keyframe)} in model {self.model.name!r}; it has: {known}")
            q0, v0 = self.model.keyframes[keyframe].q, self.model.keyframes[keyframe].v
        q = self._host_rows(q0 if q is None else q, self.model.nq, "q")
        v = self._host_rows(v0 if v is None else v, self.model.nv, "v")
        state = self._blank_state()
        state.q.assign(q)
        state.v.assign(v)
        return state

    @in_turn
    def reset(self, state: State, worlds, q=None, v=None, *, parameters: bool = False) -> None:
        """Put the chosen worlds (indices, or a boolean mask) of `state` back to q, v (default: initial pose, rest).

        Their time, memory and flags start anew; with `parameters` their entries of `sim.parameters` are the model's again.
        Nothing else is written. A state that a taped step made is left to the tape, and `state` given new arrays; while the
        tape records, gradients pass through the worlds that were not chosen.
        """
        self._check_state(state)
        flag(parameters, "parameters")
        chosen = self._chosen_worlds(worlds)
        values = {
            "q": self._host_rows(self.model.q0 if q is None else q, self.model.nq, "q", len(chosen)),
            "v": self._host_rows(np.zeros(self.model.nv) if v is None else v, self.model.nv, "v", len(chosen)),
        }
        before = state.alias()
        state.release()
        with tape_paused() as tape:
            for name, array in state.arrays().items():
                host = array.numpy().copy()
                host[chosen] = values.get(name, 0)
                array.assign(host)
        if tape is not None and before.recorded:
            stays = wp.array(
                np.where(np.isin(np.arange(self.worlds), chosen), 0, 1), dtype=wp.int32, device=self.device
            )
            smooth = [*before.smooth_arrays().values(), *state.smooth_arrays().values()]
            tape.record_func(functools.partial(pass_on_gradient, stays, state.alias(), before), smooth)
            state.recorded = True
        if parameters:
            self.parameters.restore(chosen)

    # stepping --------------------------------------------------------------------------------------------------------

    @in_turn
    def step(
        self, state: State, control=None, *, tau=None, wrench=None, substeps: int = 1, out: State | None = None
    ) -> State:
        """The state after dt, in `substeps` equal parts.

        `control (worlds, nu)`: None is zero; clamped to its range. `tau (worlds, nv)`: further generalised forces.
        `wrench (worlds, nbody, 6)`: (torque, force) at each body's COM in world axes. With `out` that state is filled
        and returned (`out is state` is allowed); without it a new one is. Under a tape the step keeps copies of its inputs
        and of the parameters asked for so far (`parameters.bytes_per_world()`), so that they may be written to afterwards.
        """
        self._check_state(state)
        substeps = whole(substeps, "substeps", 1)
        if active_tape() is not None:
            return self._taped_step(state, control, tau, wrench, substeps, out)
        self._set_forces(control, tau, wrench)
        if out is None:
            out = state.clone()
        elif out is not state:
            self._check_state(out, "out")
        out.release()
        self._replay.run(
            ("step", substeps, *(a.ptr for a in state.arrays().values()), *(a.ptr for a in out.arrays().values())),
            lambda: self._step_between(state, out, substeps),
        )
        return out

    def _step_between(self, state: State, out: State, substeps: int) -> None:
        self._load(state)
        for _ in range(substeps):
            self._advance(self.dt / substeps)
        self._unload(out)

    def _taped_step(self, state: State, control, tau, wrench, substeps: int, out=None, kept=None) -> State:
        """A step whose gradient the active tape will ask for: every substep is recorded with arrays of its own.

        `kept`: what the steps of a rollout share, `KeptParameters` and this step's row of the controls.
        """
        self._check_tape(state)
        if out is not None:
            raise ValueError("out= cannot be used while a tape is recording: the step's inputs must stay as they are")
        model, worlds = self.model, self.worlds
        shapes = {"control": (worlds, model.nu), "tau": (worlds, model.nv), "wrench": (worlds, model.nbody, 6)}
        given = {"control": control, "tau": tau, "wrench": wrench}
        given = {n: None if x is None else self._device_array(x, shapes[n], n) for n, x in given.items()}
        with tape_paused() as tape:
            if kept is None:
                parameters = KeptParameters(self.parameters)
                used = {name: kept_array(array) for name, array in given.items()}
            else:
                parameters, used = kept[0], {**given, "control": kept[1]}
            for _ in range(substeps):
                self._set_forces(**used)
                self._load(state)
                self._advance(self.dt / substeps)
                after = self._blank_state()
                self._unload(after)
                record = StepRecord(self.dt / substeps, state, after, **given, used=used, parameters=parameters)
                if isinstance(self.integrator, Variational) and isinstance(self.solver, LCP):
                    record.v_contact = wp.clone(self._step.solver.solution.v)  # not that of the next state
                tape.record_func(functools.partial(self._adjoint.backward, record), record.arrays())
                after.recorded = True
                state = after
        return state

    def _blank_state(self) -> State:
        S = SCALARS[self.dtype]
        q, v = (
            wp.zeros((self.worlds, n), dtype=S, device=self.device, requires_grad=self.requires_grad)
            for n in (self.model.nq, self.model.nv)
        )
        time = wp.zeros(self.worlds, dtype=wp.float64, device=self.device)
        smooth = self._step.smooth_memory() if self.requires_grad else ()
        memory = {
            name: wp.zeros_like(array, requires_grad=name in smooth) for name, array in self._step.memory().items()
        }
        return State(q, v, time, memory)

    @functools.cached_property
    def _adjoint(self) -> StepAdjoint:
        step, device_model = self._step, copy.copy(self.device_model)
        device_model.parameters = AdjointParameters(self.parameters)
        options = [
            device_model,
            step.solver_options,
            self.max_contacts or None,
            step.collision.enabled,
            self._replay,
        ]
        if isinstance(self.integrator, Variational):
            return VariationalAdjoint(*options, self.integrator)
        return StepAdjoint(*options) if step.stages is None else SchemeAdjoint(*options, self.integrator)

    # Jacobians -------------------------------------------------------------------------------------------------------

    @in_turn
    def linearize(
        self,
        state: State,
        control=None,
        *,
        tau=None,
        parameters=(),
        force_jacobian: bool = False,
        out: Linearization | None = None,
    ) -> Linearization:
        """Jacobians of one step from `state`: `A`, `B`, and on request `tau`, `parameters[name]`; see `ws.Linearization`.

        Which features touch is frozen, as on a tape. With `out`, a result of the same request, its arrays are filled: then
        the launches are replayed from a graph. Nothing is recorded on a tape. In closed form for `SymplecticEuler()` with `SAP` or
        `NoContact`; for the rest, in a simulator with `requires_grad=True`, by nv or 2 nv reverse passes of the step's equations.
        """
        return linearize(self, state, control, tau, parameters, force_jacobian, out)

    @functools.cached_property
    def _linearizer(self) -> Linearizer:
        step = self._step
        return Linearizer(self.device_model, step.options, self.max_contacts or None, step.collision.enabled)

    @functools.cached_property
    def _reverse_linearizer(self) -> ReverseLinearizer:
        return ReverseLinearizer(self)

    def _load(self, state: State) -> None:
        for name, array in self._step.state_arrays().items():
            wp.copy(array, state.arrays()[name])

    def _unload(self, state: State) -> None:
        for name, array in self._step.state_arrays().items():
            wp.copy(state.arrays()[name], array)

    def _set_forces(self, control, tau, wrench) -> None:
        step, model = self._step, self.model
        self._copy_input(step.control, control, (self.worlds, model.nu), "control")
        self._copy_input(step.tau, tau, (self.worlds, model.nv), "tau")
        if wrench is not None and step.wrench is None:
            step.allow_wrench()
            self._replay.clear()
        if step.wrench is not None:
            self._copy_input(step.wrench, wrench, (self.worlds, model.nbody, 6), "wrench")

    def _copy_input(self, target: wp.array, values, shape, name: str) -> None:
        """Copy an argument into the step's own array; None is zero."""
        if values is None:
            if self._replay.capturing or name not in self._zero_inputs:
                target.zero_()
                self._zero_inputs.add(name)
            return
        self._zero_inputs.discard(name)
        wp.copy(target, self._device_array(values, shape, name))

    def _device_array(self, values, shape, name: str) -> wp.array:
        """`values` as an array of this simulator's device and dtype. Host values are cast, device arrays must match."""
        S = SCALARS[self.dtype]
        refuse_torch_gradient(values, name)
        if not isinstance(values, wp.array):
            if hasattr(values, "__cuda_array_interface__") or type(values).__module__.split(".")[0] == "torch":
                values = wp.from_torch(values) if type(values).__module__.startswith("torch") else wp.array(values)
            else:
                values = self._numbers(values, name)
                if values.shape != tuple(shape):
                    raise ValueError(f"{name} has shape {values.shape}; it must be {tuple(shape)}")
                return wp.array(values, dtype=S, device=self.device)
        if values.shape != tuple(shape):
            raise ValueError(f"{name} has shape {values.shape}; it must be {tuple(shape)}")
        if values.dtype != S or values.device != self.device:
            raise ValueError(
                f"{name} is {values.dtype.__name__} on {values.device}; this simulator needs {self.dtype} on {self.device}"
            )
        return values

    @in_turn
    def capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        """Record what `function()` launches as a graph and return a callable that replays it, with equal results.

        `function` may step into existing states (`out=`) and launch kernels; it must not read device data on the host.
        It runs once before, so that everything it needs is compiled and allocated; its effects then are not undone.
        """
        if not callable(function):
            raise ValueError(f"function is {short(function)}; give a callable without arguments")
        function()
        graph = self._replay.capture(function)

        def replay():
            self._zero_inputs.clear()  # the graph writes the inputs on its own
            with turn(self.device):
                wp.capture_launch(graph)

        return replay

    def _advance(self, h: float) -> None:
        """One step of h on the internal state, by replaying its graph."""
        self._step.last_h = h
        self._replay.run(("advance", h), lambda: self._step.launch(h), compile=self._step.compile)

    def rollout(
        self,
        state: State,
        controls=None,
        steps: int | None = None,
        *,
        substeps: int = 1,
        every: int = 1,
        progress=None,
        checkpoint_every: int | None = None,
        gradient_norms: bool = False,
    ) -> Trajectory:
        """`steps` steps from `state`, recorded as a `Trajectory` (`state` itself is not changed).

        `controls`: (steps, worlds, nu), a callable `policy(state)` that returns (worlds, nu), or None. `every=k` keeps
        every k-th step: steps // k + 1 rows. `progress`: True for a bar, or a callable(step).

        Under a tape the rows and `final` carry gradients. `checkpoint_every=n` then keeps the state of every n-th step
        and repeats the others in the backward pass: O(steps/n + n) states of memory (beside the rows: see `every`), one
        more forward pass, the same bits. `gradient_norms=True`: `trajectory.gradients` reports per step and world.
        """
        self._check_state(state)
        if checkpoint_every is not None:
            checkpoint_every = whole(checkpoint_every, "checkpoint_every", 1)
        return rollout(
            self,
            state,
            controls,
            steps,
            substeps=whole(substeps, "substeps", 1),
            every=whole(every, "every", 1),
            progress=progress if callable(progress) or progress is None else flag(progress, "progress"),
            checkpoint_every=checkpoint_every,
            gradient_norms=flag(gradient_norms, "gradient_norms"),
        )

    @functools.cached_property
    def _queries(self) -> Queries:
        return Queries(self.device_model)

    # queries ---------------------------------------------------------------------------------------------------------

    @in_turn
    def kinematics(self, q) -> wp.array:
        """Body poses `(worlds, nbody, 7)` as `[x y z qw qx qy qz]` in the world frame, bodies in the file's order."""
        return self._queries.kinematics(self._rows(q, self.model.nq, "q"))

    @in_turn
    def mass_matrix(self, q) -> wp.array:
        """Joint-space mass matrix `(worlds, nv, nv)`, armature included (CRBA)."""
        return self._queries.mass_matrix(self._rows(q, self.model.nq, "q"))

    @in_turn
    def inverse_dynamics(self, q, v, a) -> wp.array:
        """`M a + c(q, v)` `(worlds, nv)` by RNEA; c holds Coriolis, gyroscopic and gravity terms."""
        nv = self.model.nv
        rows = [self._rows(q, self.model.nq, "q"), self._rows(v, nv, "v"), self._rows(a, nv, "a")]
        return self._queries.inverse_dynamics(*rows)

    @in_turn
    def forward_dynamics(self, q, v, tau) -> wp.array:
        """`M^-1 (tau - c)` `(worlds, nv)` by ABA; no contact, springs, dampers or actuators."""
        nv = self.model.nv
        rows = [self._rows(q, self.model.nq, "q"), self._rows(v, nv, "v"), self._rows(tau, nv, "tau")]
        return self._queries.forward_dynamics(*rows)

    @in_turn
    def jacobian(self, q, body, point=(0.0, 0.0, 0.0)) -> wp.array:
        """`(worlds, 6, nv)`, rows (angular, linear) in world axes, at `point` (3,) or (worlds, 3) fixed in `body`."""
        body = self.model.body(body) if isinstance(body, str) else whole(body, "body")
        if not 0 <= body < self.model.nbody:
            raise ValueError(f"body is {body}; the model has {self.model.nbody} bodies")
        point = self._host_rows(point, 3, "point")
        return self._queries.jacobian(self._rows(q, self.model.nq, "q"), body, np.atleast_2d(point))

    @in_turn
    def energy(self, state: State) -> tuple[wp.array, wp.array]:
        """Kinetic and potential energy [J], each `(worlds,)`; gravity's is 0 with all mass at the world's origin."""
        self._check_state(state)
        return self._queries.energy(state.q, state.v)

    @in_turn
    def contacts(self, state: State) -> ContactList:
        """The contacts at `state`, and those that its velocity can bring about within dt."""
        self._check_state(state)
        return self._queries.contacts(state.q, state.v, self.dt, self.max_contacts)

    @in_turn
    def contact_force(self, of: str = "body") -> wp.array:
        """Net contact force of the last step [N], world axes: `(worlds, nbody)` or, `of="geom"`, `(worlds, ngeom)` vec3."""
        choice(of, "of", ("body", "geom"))
        return self._step.net_contact_force(of)

    @in_turn
    def ray_cast(
        self, state: State, origin, direction, *, max_distance: float = np.inf, geoms=None, ignore=()
    ) -> RayHits:
        """Nearest hits of rays with the geoms at `state`: distance [m] (-1: none), geom index, outward normal.

        `origin` and `direction` (world axes, any length) are (rays, 3) or (worlds, rays, 3). `geoms`: indices or names
        to consider (default: all but height fields, which rays do not meet); `ignore`: bodies, by index or name ("world" or -1:
        the world), whose geoms are left out.
        """
        self._check_state(state)
        rays = []
        for name, value in (("origin", origin), ("direction", direction)):
            value = numbers(value.numpy() if isinstance(value, wp.array) else value, name)
            if value.ndim == 2:
                value = value[None]
            if value.ndim != 3 or value.shape[0] not in (1, self.worlds) or value.shape[2] != 3:
                raise ValueError(f"{name} has shape {value.shape}; it must be (rays, 3) or ({self.worlds}, rays, 3)")
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite")
            rays.append(value)
        if rays[0].shape[1] != rays[1].shape[1]:
            raise ValueError(f"{rays[0].shape[1]} origins but {rays[1].shape[1]} directions; give one of each per ray")
        if (np.linalg.norm(rays[1], axis=-1) == 0).any():
            raise ValueError("direction has a zero vector; every ray needs a direction")
        reach = number(max_distance, "max_distance", "it must be positive [m] (inf: no limit)", lambda x: x > 0)
        return self._queries.ray_cast(state.q, *rays, reach, self._ray_geoms(geoms, ignore))

    def _ray_geoms(self, geoms, ignore) -> list[int]:
        m = self.model
        if geoms is None:
            geoms = [g for g in range(m.ngeom) if m.geom_type[g] != GeomType.HFIELD]
        geoms, ignore = ([x] if isinstance(x, (str, int, np.integer)) else x for x in (geoms, ignore))
        chosen = [m.geom(g) if isinstance(g, str) else whole(g, "an entry of geoms") for g in geoms]
        ignored = [-1 if b == "world" else b for b in ignore]
        skipped = {m.body(b) if isinstance(b, str) else whole(b, "an entry of ignore") for b in ignored}
        if any(not 0 <= g < m.ngeom for g in chosen):
            raise ValueError(f"geoms holds an index outside 0 .. {m.ngeom - 1}")
        if any(not -1 <= b < m.nbody for b in skipped):
            raise ValueError(f"ignore holds an index outside -1 (the world) .. {m.nbody - 1}")
        fields = [m.geom_names[g] for g in chosen if m.geom_type[g] == GeomType.HFIELD]
        if fields:
            raise ValueError(f"geoms holds the height field {fields[0]!r}, which rays do not meet; leave it out")
        return [g for g in chosen if int(m.geom_body[g]) not in skipped]

    @property
    def last_contacts(self) -> ContactList:
        """The contacts of the last step, with the impulse on geom B in the contact frame [N s]."""
        return ContactList(self._step.collision, self._step.solver.solution.gamma.numpy())

    @property
    def warm_start_hits(self) -> wp.array:
        """`(worlds,)` 1 where the guess from the step before solved the last LCP at the first factorisation. Only with `ws.LCP()`."""
        if not isinstance(self.solver, LCP):
            raise ValueError(f"warm_start_hits belongs to ws.LCP(), this simulator has {self.solver!r}")
        return self._step.solver.warm_start_hits

    def bytes_per_world(self) -> float:
        """Device memory [bytes] that this simulator holds, per world: the workspace of a step, with `requires_grad=True` also
        of the backward pass, parameters, and what queries have taken. States and a tape's records are beside it."""
        if self.requires_grad:
            _ = self._adjoint  # made at the first taped step, else
        return array_bytes(vars(self)) / self.worlds

    # checks ----------------------------------------------------------------------------------------------------------

    def _rows(self, values, n: int, name: str) -> wp.array:
        """(worlds, n) on the device, from a device array of that shape or host values (n,) or (worlds, n)."""
        if isinstance(values, wp.array):
            return self._device_array(values, (self.worlds, n), name)
        host = self._host_rows(values, n, name)
        return wp.array(host, dtype=SCALARS[self.dtype], device=self.device)

    def _host_rows(self, values, n: int, name: str, rows: int | None = None) -> np.ndarray:
        rows = self.worlds if rows is None else rows
        if isinstance(values, wp.array):
            values = values.numpy()
        values = self._numbers(values, name)
        if values.shape not in ((n,), (rows, n)):
            raise ValueError(f"{name} has shape {values.shape}; it must be ({n},) or ({rows}, {n})")
        if name == "q":
            _refuse_quaternions(self.model, values)
        if not np.isfinite(values).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise ValueError(f"{name} is {values[where]} at {where}; every value must be finite")
        return np.ascontiguousarray(np.broadcast_to(values, (rows, n)))

    def _numbers(self, values, name: str) -> np.ndarray:
        refuse_torch_gradient(values, name)
        return numbers(values, name, dtype=self.dtype)

    def _check_state(self, state: State, label: str = "state") -> None:
        if not isinstance(state, State):
            raise ValueError(f"{label} is a {type(state).__name__}; make one with sim.state()")
        state.require(self._state_kinds, self.device, label)

    @functools.cached_property
    def _state_kinds(self) -> dict[str, tuple]:
        """Shape and dtype of every array of a state, by name."""
        return {name: (array.shape, array.dtype) for name, array in self._step.state_arrays().items()}

    def _check_tape(self, state: State) -> None:
        """Raise where a step from `state` cannot be recorded on a tape."""
        if not self.requires_grad:
            raise ValueError("a tape is recording, but this simulator was made without requires_grad=True")
        if not {"q", "v", *self._step.smooth_memory()} <= state.smooth_arrays().keys():
            raise ValueError(
                "a tape is recording, but the state's arrays have no gradient; make it with this sim.state()"
            )

    def _chosen_worlds(self, worlds) -> np.ndarray:
        """Indices of worlds given as an index, a list or array of indices, or a boolean mask."""
        worlds = np.asarray(worlds.numpy() if isinstance(worlds, wp.array) else worlds)
        if worlds.dtype == bool and worlds.shape != (self.worlds,):
            raise ValueError(f"the mask of worlds has shape {worlds.shape}; it must be ({self.worlds},)")
        if worlds.size == 0:
            return np.zeros(0, dtype=int)
        if worlds.dtype != bool and not np.issubdtype(worlds.dtype, np.integer):
            raise ValueError(f"worlds is {short(worlds.tolist())}; give whole numbers or a boolean mask")
        if worlds.dtype != bool and (worlds.min() < -self.worlds or worlds.max() >= self.worlds):
            raise ValueError(f"worlds is {short(worlds.tolist())}; there are worlds 0 to {self.worlds - 1}")
        return np.atleast_1d(np.arange(self.worlds)[worlds])


def _refuse_quaternions(model: Model, q: np.ndarray) -> None:
    """Refuse positions (nq,) or (rows, nq) with a quaternion that is no rotation."""
    for j in np.flatnonzero(np.isin(model.joint_type, (JointType.FREE, JointType.BALL))):
        end = int(model.joint_q[j]) + JOINT_NQ[JointType(model.joint_type[j])]
        quaternion = np.atleast_2d(q)[:, end - 4 : end]
        length = np.linalg.norm(quaternion.astype(float), axis=1)
        bad = ~((length > joints.SHORTEST_QUATERNION) & (length < joints.LONGEST_QUATERNION))
        for row in np.flatnonzero(bad):
            raise ValueError(
                f"q: the quaternion of joint {model.joint_names[j]!r} in row {row} is {quaternion[row].tolist()}; "
                f"give (w, x, y, z) of length 1, [1, 0, 0, 0] for no rotation (another length from "
                f"{joints.SHORTEST_QUATERNION:g} to {joints.LONGEST_QUATERNION:g} is normalised)"
            )


def _device(name):
    try:
        return wp.get_preferred_device() if name is None else wp.get_device(name)
    except Exception as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        raise ValueError(f"no device {name!r} here; there are: {known}") from error
