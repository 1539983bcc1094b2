# SPDX-License-Identifier: Apache-2.0
"""The internals of a `Simulator`: its step in place, and its connection to states, graphs, tapes and Jacobians."""

from __future__ import annotations

import copy
import ctypes
import functools
from typing import Any, ClassVar

import numpy as np
import warp as wp

from warpsim.base.annotations import Array
from warpsim.base.other_names import NamesOfDiagnostics
from warpsim.device.copies import launch, load
from warpsim.device.per_world import as_words
from warpsim.device.ranges import is_listed, listed
from warpsim.device.recording import active_tape, tape_paused
from warpsim.device.replay import USES_IN_PASSING, Replay, capturing
from warpsim.device.threads import turn, unshared
from warpsim.differentiate.checkpoint import move_gradient
from warpsim.differentiate.implicit import StepAdjoint, StepRecord, kept_array, pass_on_gradient, step_adjoint
from warpsim.differentiate.jvp import Pushforward
from warpsim.differentiate.kept import AdjointParameters, KeptParameters
from warpsim.differentiate.linearize import Linearizer
from warpsim.differentiate.mujoco_adjoint import MuJoCoAdjoint
from warpsim.differentiate.mujoco_step_adjoint import MuJoCoStepAdjoint
from warpsim.differentiate.reading_adjoint import ReadingAdjoint
from warpsim.differentiate.reverse import ReverseLinearizer
from warpsim.differentiate.rigid_adjoint import RigidAdjoint
from warpsim.differentiate.theta_adjoint import SchemeAdjoint
from warpsim.differentiate.variational_adjoint import VariationalAdjoint
from warpsim.integrate import Integrator
from warpsim.integrate.step import Step
from warpsim.kernels import worlds
from warpsim.kernels.linalg import words
from warpsim.run.inputs import Inputs, is_on_host
from warpsim.sensors.reader import REACTIONS, ReactionReader, SensorReader
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.scratch import Scratch
from warpsim.state import State
from warpsim.state.repeats import Repeats
from warpsim.state.spare_states import SpareStates, TapedStates, clear
from warpsim.tree.dynamics import Dynamics

ARRAYS_PER_COPY = 6  # arrays per launch of `words.copy_arrays`


def copy_on_host(target: wp.array, source: wp.array) -> None:
    """Copy a contiguous array on the CPU; `wp.copy` takes ten times as long."""
    ctypes.memmove(target.ptr, source.ptr, target.capacity)


# Imported for their registration: the backward passes of contact models and integrators.
ADJOINTS = (MuJoCoAdjoint, MuJoCoStepAdjoint, RigidAdjoint, SchemeAdjoint, VariationalAdjoint)


class Diagnostics(NamesOfDiagnostics):
    """Diagnostics of the last step on the device, one value per world: `sim.diagnostics`.

    Attributes
    ----------
    iterations : wp.array (worlds,)
        Iterations of the solver. With `ws.Variational` evaluations of its residual are added.
    momentum_error : wp.array (worlds,)
        Relative error e_m of the momentum balance after the solver (docs/theory.md, §3.3), without unit. With
        `ws.Variational` it includes the relative residual of the root search, of the tree with the largest.
    lag_error : wp.array (worlds,)
        Largest violation of Coulomb's law among the contact points [m/s].
    contacts : wp.array (worlds,)
        Number of contact points.
    flags : wp.array (worlds,)
        Flags, which stay until `reset`: NONFINITE 1, NOT_CONVERGED 2, CONTACT_OVERFLOW 4, UNRESOLVED 8, DEEP_PRESSURE
        16, NOT_HELD 32, ENERGY_GAIN 64 (docs/flags.md).

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("ant")), worlds=2, dt=0.005, device="cpu")
    >>> state = sim.step(sim.state())
    >>> sim.diagnostics.contacts.numpy().tolist(), sim.diagnostics.flags.numpy().tolist()
    ([0, 0], [0, 0])
    """

    NAMES: ClassVar[tuple[str, ...]] = ("iterations", "momentum_error", "lag_error", "contacts", "energy", "flags")

    iterations: Array
    momentum_error: Array
    lag_error: Array
    contacts: Array
    flags: Array
    step: Any

    def __init__(self, step: Any):
        solution = step.solver.solution
        self.iterations, self.momentum_error = solution.iterations, solution.momentum_error
        self.lag_error = step.solver.lag_error
        self.contacts, self.flags = step.collision.contacts.count, step.flags
        self.step, self._use = step, step.device_model.parameters._use

    @property
    def energy(self) -> Array:
        """Kinetic plus potential energy of the state before the step `(worlds,)` [J], as `Simulator.energy`."""
        return self.step.energy

    @property
    def impacts(self) -> Array:
        """Number of impacts that the step resolved `(worlds,)`; 0 without `time_of_impact`."""
        impacts = self.step.impacts
        if impacts is None:
            return wp.zeros(self.flags.shape[0], dtype=wp.int32, device=self.flags.device)
        return impacts.segments.impacts

    @property
    def gradient_norm(self) -> Array:
        """Norm of the gradient that MuJoCo's solver compares with its tolerance `(worlds,)`; 0 under other laws."""
        measure = getattr(self.step.law, "gradient_norm", None)
        if measure is None:
            return wp.zeros(self.flags.shape[0], dtype=self.step.device_model.types.real, device=self.flags.device)
        return measure(self.step.solver, self.step.last_h)

    @property
    def patches(self) -> Array:
        """Number of pairs of geoms that meet by pressure fields `(worlds,)`."""
        return self._of_pressure("patches", wp.int32)

    @property
    def polygons(self) -> Array:
        """Number of polygons of hydroelastic contact `(worlds,)`."""
        return self._of_pressure("count", wp.int32)

    @property
    def pressure_depth(self) -> Array:
        """Largest pressure divided by the modulus of the softer geom `(worlds,)`; 0 without hydroelastic contact."""
        return self._of_pressure("depth", self.step.device_model.types.real)

    def _of_pressure(self, name: str, kind) -> Array:
        pressure = self.step.collision.pressure
        if pressure is None:
            return wp.zeros(self.flags.shape[0], dtype=kind, device=self.flags.device)
        return getattr(pressure.polygons, name)

    def __repr__(self) -> str:
        return f"Diagnostics(worlds={self.flags.shape[0]}: {', '.join(self.NAMES)})"

    @unshared
    def numpy(self) -> dict[str, np.ndarray]:
        """Host copies of iterations, momentum_error, lag_error, contacts, energy and flags, by name."""
        return {name: getattr(self, name).numpy().copy() for name in self.NAMES}


class Stepper:
    """A step in place with its tape records and its derivatives; `Simulator` is the public interface.

    `step`: made by the integrator. `inputs`: checks of arguments. `dt` [s]: the time step without substeps.
    """

    def __init__(self, step: Step, contact_model: ContactModel, integrator: Integrator, inputs: Inputs, dt: float):
        self.step, self.contact_model, self.integrator, self.inputs, self.dt = (
            step,
            contact_model,
            integrator,
            inputs,
            dt,
        )
        self.device_model = step.device_model
        self.model, self.worlds, self.device = step.model, step.worlds, self.device_model.device
        self.parameters = self.device_model.parameters
        self.requires_grad = self.parameters.requires_grad
        if self.requires_grad:
            step_adjoint(integrator)  # raises for an integrator without backward pass
        self.diagnostics = Diagnostics(step)
        self.replay = Replay(self.device, self.parameters, self.worlds, self.device_model.threads)
        self._compiled = False  # whether the kernels of a step are compiled
        self._compiled_back = False  # and those of its backward pass
        self._compiled_parts: set = set()  # what `compile_once` has compiled
        self._zero_inputs: set[str] = set()
        # False once a user's graph writes to the inputs: a replay may change them at any time
        self._knows_inputs = True
        self._handed: list[wp.array] = []  # arrays that such graphs read, beside those of the user and of the simulator
        self._zeros: wp.array | None = None
        self._inputs_on_host: dict[
            str, tuple[wp.array, np.ndarray]
        ] = {}  # an array of the step on the CPU, and its memory
        self._spare = SpareStates(lambda: self.blank_state(has_gradient=False))
        self._taped = TapedStates(self.blank_state)
        self._repeats = Repeats()

    # states -----------------------------------------------------------------------------------------------------------

    def blank_state(self, has_gradient: bool | None = None) -> State:
        """A state of zeros. By default it has gradients if the simulator's states have them."""
        has_gradient = self.requires_grad if has_gradient is None else has_gradient
        model, S, device = self.model, self.device_model.types.real, self.device
        q, v = (
            wp.zeros((self.worlds, n), dtype=S, device=device, requires_grad=has_gradient) for n in (model.nq, model.nv)
        )
        time = wp.zeros(self.worlds, dtype=wp.float64, device=device)
        smooth = self.step.smooth_memory() if has_gradient else ()
        memory = {
            name: wp.zeros_like(array, requires_grad=name in smooth) for name, array in self.step.memory().items()
        }
        if model.nmocap:
            with tape_paused():
                wp.copy(memory["mocap"], self.mocap_rest)
        return State(q, v, time, memory)

    def taped_state(self, blank: bool = False) -> State:
        """A state for steps on a tape: its gradients are zero, its arrays have arbitrary values.

        `blank`: its arrays are those of `blank_state`. During a capture its arrays are new: a graph holds addresses.
        """
        if capturing(self.device):
            return self.blank_state()
        state = self._taped.take()
        if blank:
            for array in state.arrays().values():
                clear(array)
            if self.model.nmocap:
                wp.copy(state.memory["mocap"], self.mocap_rest)
        return state

    def check_state(self, state: State, label: str = "state") -> None:
        if not isinstance(state, State):
            raise ValueError(f"{label} is a {type(state).__name__}; make one with sim.state()")
        state.require(self._state_kinds, self.device, label)

    @functools.cached_property
    def _state_kinds(self) -> dict[str, tuple]:
        """Shape and dtype of every array of a state, by name."""
        return {name: (array.shape, array.dtype) for name, array in self.step.state_arrays().items()}

    @functools.cached_property
    def mocap_rest(self) -> wp.array:
        """Poses of the mocap bodies in the model, for all worlds."""
        rows = np.tile(self.model.mocap0, (self.worlds, 1, 1))
        return wp.array(rows, dtype=self.device_model.types.real, device=self.device)

    @functools.cached_property
    def _mocap_given(self) -> wp.array:
        """Mocap poses given to the last step."""
        return wp.empty_like(self.mocap_rest)

    def with_mocap(self, state: State, mocap) -> State:
        """`state` with the mocap poses of a step; all other arrays are shared. None returns `state` itself.

        Under a tape the poses are copied, and gradients go to the given array.
        """
        if mocap is None:
            return state
        self.inputs.refuse_mocap(mocap)
        told = state.alias()
        if active_tape() is None:
            self._copy_input(self._mocap_given, mocap, "mocap", capturing(self.device))
            told.memory["mocap"] = self._mocap_given
            return told
        mocap = self.inputs.device_array(mocap, self.inputs.force_shapes["mocap"], "mocap")
        with tape_paused() as tape:
            told.memory["mocap"] = kept = wp.clone(mocap, requires_grad=True)
        if mocap.grad is not None:
            tape.record_func(functools.partial(self._give_back, kept, mocap), [kept, mocap])
        return told

    def _give_back(self, kept: wp.array, mocap: wp.array) -> None:
        with turn(self.device):
            move_gradient(kept.grad, mocap.grad)

    def restart(self, state: State, chosen, start: dict | None, mocap=None) -> None:
        """Reset the chosen worlds of a state. Everything that has no initial value is zeroed.

        `start` maps array names to one row per chosen world (per world for a mask), or one row for all; None: the
        model's initial state. `mocap` likewise.

        `chosen`: indices, or a mask on the device, which the host does not read. An active tape records the reset.
        """
        S, device = self.device_model.types.real, self.device
        before = state.alias()
        state.release()
        with tape_paused() as tape:
            row_of = self._row_of(chosen)
            given = dict(start or {}) | ({} if mocap is None else {"mocap": mocap})
            given = {k: x if isinstance(x, wp.array) else self._uploaded(x, S) for k, x in given.items()}
            sources = self._model_start | given
            for name, array in state.arrays().items():
                if array.size:
                    self._put_rows(row_of, sources.get(name), array)
            self._put_rows(row_of, None, self.diagnostics.flags)
        if tape is not None and before.recorded:
            with tape_paused():
                stays = wp.empty(self.worlds, dtype=wp.int32, device=device)
                launch(worlds.others, S, self.worlds, [row_of, stays], device=device)
            smooth = [*before.smooth_arrays().values(), *state.smooth_arrays().values()]
            tape.record_func(functools.partial(pass_on_gradient, stays, state.alias(), before), smooth)
            state.recorded = True

    def _put_rows(self, row_of: wp.array, source: wp.array | None, target: wp.array) -> None:
        """Write rows of an array, or zeros, to the worlds of `target` that have a row."""
        words = as_words(target)
        given = self._zero_words(words.shape[1]) if source is None else as_words(source)
        threads = 1 if self.device.is_cpu else min(words.shape[1], int(worlds.STRIDE))
        inputs = [row_of, threads, given, words]
        launch(worlds.put_rows, self.device_model.types.real, (self.worlds, threads), inputs, device=self.device)

    def _row_of(self, chosen) -> wp.array:
        """The row of the initial state for each world; −1 for a world that is not reset."""
        if isinstance(chosen, wp.array):
            row_of = wp.empty(self.worlds, dtype=wp.int32, device=self.device)
            launch(worlds.rows_of_mask, self.device_model.types.real, self.worlds, [chosen, row_of], device=self.device)
            return row_of
        rows = np.full(self.worlds, -1, np.int32)
        rows[chosen] = np.arange(len(chosen))
        return self._uploaded(rows, wp.int32)

    @functools.cached_property
    def _model_start(self) -> dict[str, wp.array]:
        S, device = self.device_model.types.real, self.device
        start = {name: wp.array(x, dtype=S, device=device) for name, x in self.inputs.start(rows=1).items()}
        return start | ({"mocap": self.device_model.mocap0} if self.model.nmocap else {})

    def _zero_words(self, columns: int) -> wp.array:
        if self._zeros is None or self._zeros.shape[1] < columns:
            self._zeros = wp.zeros((1, columns), dtype=wp.int32, device=self.device)
        return self._zeros

    # a step -----------------------------------------------------------------------------------------------------------

    def load(self, state: State) -> None:
        self._move(state.arrays(), self.step.state_arrays())

    def unload(self, state: State) -> None:
        self._move(self.step.state_arrays(), state.arrays())

    def _move(self, source: dict[str, wp.array], target: dict[str, wp.array]) -> None:
        """Copy the arrays of a state, now or into the graph of a user's capture."""
        if self.device.is_cuda or capturing(self.device):
            self._copy_arrays(source, target)
            return
        for name, array in source.items():
            if array.size:
                copy_on_host(target[name], array)

    def advance(self, h: float) -> None:
        """One step of h [s] on the internal state, by replaying its graph."""
        self.step.last_h = h
        # each range of worlds has a `Scratch` of its own
        in_blocks = not isinstance(getattr(self.step.solver, "scratch", None), Scratch)
        self.replay.run(("advance", h), lambda: self.step.launch(h), in_blocks=in_blocks, compile=self.compile)

    def compile(self, back: bool = False) -> None:
        """Compile the kernels of a step and of the copies around it, and with `back` of its backward pass, once.

        All are compiled together: by several threads at a time. Inside `listed` nothing is compiled.
        """
        if is_listed():
            return
        back = back and not self._compiled_back
        kernels = self.adjoint.kernels(self.dt) if back else []
        if not self._compiled:
            kernels += self.kernels()
        if kernels:
            load(kernels, self.device)
        self._compiled, self._compiled_back = True, self._compiled_back or back

    def kernels(self) -> list[wp.Kernel]:
        """The kernels of a step and of the copies around it, which is not executed."""
        arrays = self.step.state_arrays()
        with listed() as found:
            self._copy_arrays(arrays, arrays)
            self.step.launch(self.dt)
        return found

    def compile_once(self, part, launch) -> None:
        """Compile the kernels that `launch()` would launch together, once for each `part`."""
        if part in self._compiled_parts or is_listed():
            return
        with listed() as found:
            launch()
        load(found, self.device)
        self._compiled_parts.add(part)

    def repeat(self, state: State, control, tau, wrench, substeps: int, out: State | None) -> State | None:
        """`plain_step` without checks, between arrays for which it has a graph; None if there is no graph."""
        if type(state) is not State or type(substeps) is not int or capturing(self.device):
            return None
        if out is None:
            if self.requires_grad or getattr(state.q, "requires_grad", True):
                return None
            out = self._spare.take()
        elif type(out) is not State or out.recorded:
            return None
        key = self._repeats.find(substeps, state, out)
        graphs = None if key is None else self.replay.graphs_of(key)
        if graphs is None or (wrench is not None and self.step.wrench is None):
            return None
        self._copy_forces(control, tau, wrench, captured=False)
        self.step.last_h = self.dt / substeps
        self.replay.play(graphs)
        return out

    def own_copy(self, state: State) -> State:
        """A copy of a state without gradients, on a spare state, so that steps between its arrays find their graphs.

        A spare state is reused once nobody holds it. During a capture the copy has new arrays.
        """
        with turn(self.device):
            if capturing(self.device):
                return state.without_gradient()
            copy = self._spare.take()
            copy.assign(state)
            return copy

    def plain_step(
        self, state: State, control=None, tau=None, wrench=None, substeps: int = 1, out: State | None = None
    ) -> State:
        """`Simulator.step` outside of a tape, with `state` and `substeps` checked."""
        self.set_forces(control, tau, wrench)
        captured = capturing(self.device)  # the graph writes to its states at every replay
        uses = USES_IN_PASSING if out is None else 1
        if out is None:
            alone = self.requires_grad or state.q.requires_grad or captured
            out = state.clone() if alone else self._spare.take()
        elif out is not state:
            self.check_state(out, "out")
        out.release()
        before, after = (state.arrays(), out.arrays())

        def launch() -> None:
            # A cached graph holds addresses. If it held the arrays, it would keep memory alive that nobody can read any
            # more.
            found = (before, after) if captured else (_borrowed(before), _borrowed(after))
            self._step_between(*found, substeps)

        self.step.last_h = self.dt / substeps  # a replayed graph does not set it
        key = ("step", substeps, *(a.ptr for a in before.values()), *(a.ptr for a in after.values()))
        self.replay.run(key, launch, divided=False, uses=uses)
        if not captured and self.replay.graphs_of(key) is not None:
            self._repeats.keep(substeps, state, out, key)
        return out

    def _step_between(self, before: dict[str, wp.array], after: dict[str, wp.array], substeps: int) -> None:
        self.compile()
        arrays = self.step.state_arrays()
        self._copy_arrays(before, arrays)
        for _ in range(substeps):
            self.advance(self.dt / substeps)
        self._copy_arrays(arrays, after)

    def _copy_arrays(self, source: dict[str, wp.array], target: dict[str, wp.array]) -> None:
        """Copy the arrays of a state, `ARRAYS_PER_COPY` per launch."""
        names = [name for name, array in source.items() if array.size]
        for first in range(0, len(names), ARRAYS_PER_COPY):
            inputs = []
            for arrays in (source, target):
                given = [as_words(arrays[name]) for name in names[first : first + ARRAYS_PER_COPY]]
                inputs += [*given, *[self._no_words] * (ARRAYS_PER_COPY - len(given))]
            S = self.device_model.types.real
            launch(words.copy_arrays, S, self.worlds, inputs, device=self.device, record_tape=False)

    @functools.cached_property
    def _no_words(self) -> wp.array:
        return wp.empty((0, 0), dtype=wp.int32, device=self.device)

    def set_forces(self, control, tau, wrench) -> None:
        if wrench is not None:
            self._allow_wrench()
        self._copy_forces(control, tau, wrench, capturing(self.device))

    def _allow_wrench(self) -> None:
        """Make room for wrenches in the step. Its first wrench changes which kernels it launches."""
        if self.step.wrench is None:
            self.step.allow_wrench()
            self.replay.clear()
            self._compiled = False
            self._compiled_parts.clear()

    def _copy_forces(self, control, tau, wrench, captured: bool) -> None:
        step = self.step
        self._copy_input(step.control, control, "control", captured)
        self._copy_input(step.tau, tau, "tau", captured)
        if step.wrench is not None:
            self._copy_input(step.wrench, wrench, "wrench", captured)

    def _copy_input(self, target: wp.array, values, name: str, captured: bool) -> None:
        """Copy an argument into the step's array; None is zero. `captured`: the copy goes into a graph and does not run
        now."""
        if captured and not self.replay.capturing:
            self._knows_inputs = False
        if values is None:
            if captured or not self._knows_inputs or name not in self._zero_inputs:
                target.zero_()
                if not captured:
                    self._zero_inputs.add(name)
            return
        self._zero_inputs.discard(name)
        shape = self.inputs.force_shapes[name]
        if not captured and self.device.is_cpu and is_on_host(values):
            array, memory = self._inputs_on_host.get(name, (None, None))
            if array is not target:
                memory = target.numpy()
                self._inputs_on_host[name] = target, memory
            memory[...] = self.inputs.host_array(values, shape, name)
        else:
            if is_on_host(values):
                values = self._uploaded(self.inputs.host_array(values, shape, name), self.device_model.types.real)
            values = self.inputs.device_array(values, shape, name)
            if self.device.is_cpu and not captured and values.is_contiguous:
                copy_on_host(target, values)
            else:
                wp.copy(target, values)

    def _uploaded(self, values, kind) -> wp.array:
        """Host values on the device. During a capture, source and copy are kept alive: the graph holds only
        addresses."""
        if not capturing(self.device):
            return wp.array(values, dtype=kind, device=self.device)
        host = np.array(values, dtype=wp.dtype_to_numpy(kind), order="C")
        found = given = wp.array(host, dtype=kind, device="cpu", copy=False)
        if not self.device.is_cpu:
            found = wp.empty(given.shape, dtype=kind, device=self.device)
            wp.copy(found, given)
        self._handed += [given, found]
        return found

    def replay_of(self, stages):
        """A callable that replays the captured graphs of a user's function, which may write to the inputs."""

        def replay() -> None:
            self._zero_inputs.clear()
            with turn(self.device):
                self.replay.play(stages)

        return functools.partial(self.parameters._use.run, replay, (), {})

    # sensors ----------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def reader(self) -> SensorReader:
        return SensorReader(Dynamics(self.device_model))

    def sensors(self, state: State, control) -> wp.array:
        """`Simulator.sensors`, with `state` checked."""
        control = self.inputs.given_forces(control=control)["control"]
        if control is not None and self.step.actuation is not None:
            raise ValueError(
                "control is given, but actuators with an activation, muscles and ranges of several actuators have "
                "forces in steps alone; leave control out for those of the last step"
            )
        if active_tape() is not None and self.model.nsensordata:
            return self._read_taped(state, lambda adjoint: adjoint.sensors, control)
        reader = self.reader
        out = reader.dynamics.array(self.model.nsensordata, self.device_model.types.real)
        if self.model.nsensordata:
            reader.clear()
            if self.model.nmocap:
                reader.dynamics.place_mocap(state.memory["mocap"])
            reader.read(state.q, state.v, state.time, *self.measured(state), control, out)
        return out

    def _read_taped(self, state: State, reader, control=None) -> wp.array:
        """The readings of one of the readers of `ReadingAdjoint`, recorded on the active tape."""
        self.check_tape(state)
        lack = None if self.step.measurement is None else self.step.measurement.lack
        if lack is not None:
            raise ValueError(
                f"a tape is recording, but sensors of accelerations and forces have no gradient {lack}, or read them "
                "where no tape records"
            )
        adjoint = self.reading_adjoint
        with tape_paused() as tape:
            return adjoint.read(tape, reader(adjoint), state, self.measured(state), control)

    @functools.cached_property
    def reading_adjoint(self) -> ReadingAdjoint:
        device_model = copy.copy(self.device_model)
        device_model.parameters = AdjointParameters(self.parameters)
        self._own_link_pose(device_model)
        return ReadingAdjoint(device_model, self.parameters)

    def _own_link_pose(self, device_model) -> None:
        """Give the device model of a backward pass its own link poses with gradient, to place the mocap bodies."""
        if self.model.nmocap:
            with tape_paused():
                device_model.link_pose = wp.clone(device_model.link_pose, requires_grad=True)

    @functools.cached_property
    def _reaction_readers(self) -> dict[str, ReactionReader]:
        return {what: ReactionReader(self.reader.dynamics, what) for what in REACTIONS}

    def reactions(self, state: State, what: str) -> wp.array:
        """`Simulator.acceleration` and `joint_reaction`, with `state` checked."""
        if not self.device_model.reactions:
            raise ValueError(f"{what} is not kept; make the Simulator with reactions=True")
        reader = self._reaction_readers[what]
        if active_tape() is not None and reader.source.size:
            out = self._read_taped(state, lambda adjoint: adjoint.reactions[what])
        else:
            out = reader.dynamics.array(reader.source.size, self.device_model.types.real)
            reader.read(state.q, state.v, state.time, *self.measured(state), None, out)
        return out.reshape((self.worlds, *reader.shape))

    def measured(self, state: State) -> tuple[wp.array, wp.array]:
        """Accelerations and forces that the last step left in a state (`measured`), and the worlds that have
        stepped."""
        return state.memory.get("measured", self._nothing[0]), state.memory.get("stepped", self._nothing[1])

    @functools.cached_property
    def _nothing(self) -> tuple[wp.array, wp.array]:
        empty = wp.zeros((self.worlds, 0), dtype=self.device_model.types.real, device=self.device)
        return empty, wp.zeros(self.worlds, dtype=wp.int32, device=self.device)

    # tapes and Jacobians ----------------------------------------------------------------------------------------------

    def check_tape(self, state: State) -> None:
        """Raise if a step from `state` cannot be recorded on a tape."""
        if not self.requires_grad:
            raise ValueError("a tape is recording, but this simulator was made without requires_grad=True")
        if not {"q", "v", *self.step.smooth_memory()} <= state.smooth_arrays().keys():
            raise ValueError(
                "a tape is recording, but the state's arrays have no gradient; make it with this sim.state()"
            )

    def taped_step(self, state: State, control, tau, wrench, substeps: int, out=None, kept=None) -> State:
        """A step recorded on the active tape. Every substep has its own record and arrays.

        `kept`: what the steps of a rollout share, `KeptParameters`, and this step's row of the controls.
        """
        self.check_tape(state)
        if out is not None:
            raise ValueError("out= cannot be used while a tape is recording: the step's inputs must stay as they are")
        given = self.inputs.given_forces(control=control, tau=tau, wrench=wrench)
        with tape_paused() as tape:
            if wrench is not None:
                self._allow_wrench()
            self.compile(back=True)
            if kept is None:
                parameters = KeptParameters(self.parameters)
                used = {name: kept_array(array) for name, array in given.items()}
            else:
                parameters, used = kept[0], {**given, "control": kept[1]}
            for _ in range(substeps):
                self.set_forces(**used)
                self.load(state)
                self.advance(self.dt / substeps)
                after = self.taped_state()
                self.unload(after)
                record = StepRecord(self.dt / substeps, state, after, **given, used=used, parameters=parameters)
                self.adjoint.keep(record, self.step)
                tape.record_func(functools.partial(self.adjoint.backward, record), record.arrays())
                after.recorded = True
                state = after
        return state

    @functools.cached_property
    def adjoint(self) -> StepAdjoint:
        device_model = copy.copy(self.device_model)
        device_model.parameters = AdjointParameters(self.parameters)
        device_model.beside = self.step
        self._own_link_pose(device_model)
        slots = self.step.collision.capacity or None
        return step_adjoint(self.integrator)(device_model, self.contact_model, slots, self.replay, self.integrator)

    @functools.cached_property
    def linearizer(self) -> Linearizer:
        return Linearizer(self.device_model, self.contact_model, self.step.collision.capacity or None)

    @functools.cached_property
    def reverse_linearizer(self) -> ReverseLinearizer:
        return ReverseLinearizer(self)

    @functools.cached_property
    def pushforward(self) -> Pushforward:
        return Pushforward(self)


def _borrowed(arrays: dict[str, wp.array]) -> dict[str, wp.array]:
    """Views of the same memory that do not keep it alive."""
    return {
        name: wp.array(ptr=a.ptr, dtype=a.dtype, shape=a.shape, device=a.device, copy=False)
        for name, a in arrays.items()
    }
