# SPDX-License-Identifier: Apache-2.0
"""Rollouts: many steps in a row, recorded on the device as a `Trajectory`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import warp as wp

from warpsim.base.annotations import Numbers, PathLike, Progress
from warpsim.base.checks import choice, flag, numbers, short, whole
from warpsim.device.array_module import device_view, module_on
from warpsim.device.copies import SCALARS
from warpsim.device.recording import active_tape, refuse_torch_gradient, tape_paused
from warpsim.device.replay import capturing
from warpsim.device.threads import in_turn, turn, unshared
from warpsim.differentiate.checkpoint import Checkpoints, move_gradient
from warpsim.differentiate.implicit import kept_array
from warpsim.differentiate.kept import KeptParameters
from warpsim.differentiate.report import GradientReport
from warpsim.run.inputs import shape_hint
from warpsim.run.randomness import RandomControls
from warpsim.state import State
from warpsim.state.trajectory import Trajectory

RECORDED = {
    "iterations": wp.int32,
    "momentum_error": None,
    "lag_error": None,
    "contacts": wp.int32,
    "energy": None,
    "flags": wp.int32,
}


class Frames:
    """Rows of states and of the diagnostics of their steps, on the device."""

    def __init__(self, sim, rows: int, requires_grad: bool):
        self.device, self.sim = sim.device, sim
        S = SCALARS[sim.dtype]
        with turn(self.device):
            self._allocate(rows, S, requires_grad)

    def _allocate(self, rows: int, S, requires_grad: bool) -> None:
        worlds, device = self.sim.worlds, self.device
        self.states = {
            name: wp.zeros((rows, worlds, n), dtype=S, device=device, requires_grad=requires_grad)
            for name, n in self.sim._inputs.start_sizes.items()
        }
        self.q, self.v, self.activation = (self.states.get(name) for name in ("q", "v", "activation"))
        self.time = wp.zeros((rows, worlds), dtype=wp.float64, device=device)
        mocap = (rows, worlds, self.sim.model.nmocap, 7)
        self.mocap = wp.zeros(mocap, dtype=S, device=device) if self.sim.model.nmocap else None
        self.measured = {
            name: wp.zeros((rows, worlds), dtype=kind or S, device=device) for name, kind in RECORDED.items()
        }
        self._rows = {**self.states, "time": self.time, **self.measured}
        self._rows |= {} if self.mocap is None else {"mocap": self.mocap}
        # host views of the CPU arrays of `_rows`; `_views`: the last sources and their host views
        self._host: dict[str, np.ndarray] = {}
        self._views: dict[str, tuple[wp.array, np.ndarray]] = {}

    @in_turn
    def keep(self, row: int, state, measured: bool = True) -> None:
        """Copy a state into a row; if `measured`, also the simulator's diagnostics of the step that led to it."""
        arrays = state.arrays()
        for name, array in self.states.items():
            if array.size:
                self._copy(name, row, arrays[name])
        self._copy("time", row, state.time)
        if self.mocap is not None:
            self._copy("mocap", row, state.mocap)
        if measured:
            diagnostics = self.sim.diagnostics
            for name in self.measured:
                self._copy(name, row, getattr(diagnostics, name))

    def _copy(self, name: str, row: int, source: wp.array) -> None:
        """Copy one array into its row. On the CPU NumPy copies, in a tenth of the time of Warp's copies of short
        rows."""
        target = self._rows[name]
        if not self.device.is_cpu or capturing(self.device):
            wp.copy(target[row], source)
            return
        if self._views.get(name, (None,))[0] is not source:
            self._views[name] = (source, source.numpy())
        if name not in self._host:
            self._host[name] = target.numpy()
        self._host[name][row] = self._views[name][1]

    def host(self, first: int, stop: int, halves, frame: int) -> dict[str, np.ndarray]:
        """Rows by name, as a store holds them: views of these arrays on the CPU, copies from CUDA, `halves` rounded.

        `frame`: the number of the first.
        """
        return {name: halves.rows(name, array, first, stop, frame) for name, array in self._rows.items()}


class Recorder(Frames):
    """The arrays of a trajectory, filled row by row: row 0 is the initial state, then every `every`-th step."""

    def __init__(self, sim, steps: int, every: int, requires_grad: bool):
        super().__init__(sim, steps // every + 1, requires_grad)
        self.every = every
        rows = len(self.q) - 1
        self.diagnostics = {
            name: array[1:] if rows else wp.zeros((0, sim.worlds), dtype=array.dtype, device=self.device)
            for name, array in self.measured.items()
        }

    @in_turn
    def record(self, step: int, state) -> None:
        """Keep the state after `step` steps if it has a row. An active tape records the copy."""
        row, skipped = divmod(step, self.every)
        if skipped:
            return
        with tape_paused() as tape:
            self.keep(row, state, measured=row > 0)
        if tape is not None:
            arrays = [*self.states.values(), *(state.arrays()[name] for name in self.states)]
            tape.record_func(functools.partial(self.give_back, step, state.alias()), arrays)

    def trajectory(self, final, report, view) -> Trajectory:
        """The rows as a `Trajectory`, each array through `view`."""
        named = {"q": self.q, "v": self.v, "time": self.time, "activation": self.activation, "mocap": self.mocap}
        rows = {name: view(array) for name, array in named.items() if array is not None}
        diagnostics = {name: view(array) for name, array in self.diagnostics.items()}
        told = {"final": final, "gradients": report, "undrawn": self.sim.parameters.undrawn()}
        return Trajectory(self.sim.model, **rows, diagnostics=diagnostics, **told)

    @in_turn
    def give_back(self, step: int, state) -> None:
        """Backward pass of `record`: add the gradient of the row to that of its state and clear the row's."""
        row, skipped = divmod(step, self.every)
        if not skipped:
            for name, array in self.states.items():
                move_gradient(array.grad[row], state.arrays()[name].grad)


class Rollouts:
    """Base class of `Simulator` with the rollouts."""

    _stepper: Any

    @unshared
    def rollout(
        self,
        state: State,
        controls: Numbers | RandomControls | Callable[[State], Any] | None = None,
        steps: int | None = None,
        *,
        mocap: Numbers | None = None,
        substeps: int = 1,
        every: int = 1,
        progress: Progress | None = None,
        checkpoint_every: int | None = None,
        gradient_norms: bool = False,
        keep: Literal["device"] | None = None,
        store: PathLike | None = None,
        half: bool = False,
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
            Poses of the mocap bodies in each step, as in `step`. Default: those of `state`.
        substeps : int
            Number of equal parts in which a step is taken, as in `step`. Default: 1.
        every : int
            Record every `every`-th step only: `steps // every + 1` rows. Default: 1.
        progress : bool or callable, optional
            True shows a progress bar. A callable is called with the number of each step. Default: none.
        checkpoint_every : int, optional
            Under a tape, keep the state of every n-th step and compute the others again in the backward pass. This
            takes memory for O(steps/n + n) states besides the recorded rows, and the time of one more forward pass.
            Gradients have the same bits. Default: keep the states of all steps.
        gradient_norms : bool
            Whether to report gradient norms per step and world in `trajectory.gradients`, under a tape. Default: False.
        keep : "device", optional
            "device" gives the rows as arrays that can be computed with on the device: CuPy on CUDA (extra `gpu`), NumPy
            on the CPU. They have no gradients. Default: Warp arrays, also on the device.
        store : str, optional
            Path, or URL of fsspec, of a Zarr store to write while simulating. The trajectory then reads from there.
            `ws.resume(store)` continues an interrupted rollout with the same bits (docs/stores.md); a policy needs a
            `state_dict` for that.
        half : bool
            Whether the store rounds positions, velocities, activations and mocap poses to half precision, which takes
            half the space: relative error 5e-4, largest number 65504 (docs/stores.md). A resumed run still has the same
            bits. Default: False.

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
        options |= {"checkpoint_every": checkpoint_every, "gradient_norms": gradient_norms, "keep": keep}
        options |= {"store": store, "half": half}
        return rollout(self, state, controls, steps, **options)


def rollout(
    sim,
    state,
    controls,
    steps,
    *,
    mocap,
    substeps,
    every,
    progress,
    checkpoint_every,
    gradient_norms,
    keep,
    store,
    half,
) -> Trajectory:
    """See `Simulator.rollout`."""
    substeps, every = whole(substeps, "substeps", 1), whole(every, "every", 1)
    if checkpoint_every is not None:
        checkpoint_every = whole(checkpoint_every, "checkpoint_every", 1)
    if progress is not None and not callable(progress):
        flag(progress, "progress")
    flag(gradient_norms, "gradient_norms")
    _check_keep(sim, keep, store, half)
    poses, steps = _mocap_table(sim, mocap, controls, steps)
    source, steps, table = _control_source(sim, controls, steps)
    if poses is not None and len(poses) != steps:
        raise ValueError(f"mocap has {len(poses)} rows, but there are {steps} steps; give a row for each")
    tape = active_tape()
    if tape is None and table is not None and table.size and sim.device.is_cpu:
        source = _host_rows(table.numpy())
    if store is not None:
        if tape is not None or checkpoint_every is not None or gradient_norms:
            raise ValueError(
                "store= keeps states, not gradients; leave it out under a tape, and checkpoint_every without one"
            )
        from warpsim.run.streaming import store_rollout

        given = controls if table is None else table
        options = {"mocap": poses, "substeps": substeps, "every": every, "progress": progress, "half": half}
        return store_rollout(sim, state, given, steps, store, **options)
    if gradient_norms and tape is None:
        raise ValueError("gradient_norms=True needs a tape that records the rollout")
    if tape is not None:
        sim._stepper.check_tape(state)
    report = GradientReport(sim, steps) if gradient_norms else None
    recorder = Recorder(sim, steps, every, requires_grad=tape is not None)
    kept = None
    # user code that runs between steps could write to controls or parameters
    if tape is not None and not (callable(controls) or callable(progress)):
        owned = isinstance(controls, np.ndarray) or not hasattr(controls, "shape")  # `table` is then already a copy
        kept = _Kept(sim, table, owned)
    told = {"source": source, "poses": poses, "substeps": substeps}
    run = functools.partial(_run, sim, steps=steps, recorder=recorder, **told)
    if tape is not None and checkpoint_every is not None:
        if callable(controls):
            raise ValueError(
                "checkpoint_every repeats steps in the backward pass, and a callable cannot be relied upon to repeat; "
                "give controls as an array (steps, worlds, nu), or leave checkpoint_every None"
            )
        kept = _Kept(sim, table, owned=True)  # edited controls are detected: the backward pass compares the states
        checkpoints = Checkpoints(sim, steps, checkpoint_every, kept, [table, poses], report, **told)
        with tape_paused():
            # Warp copies gradients along with values, also into the recorded rows. The state therefore has none here.
            final = run(state.without_gradient(), in_place=True, progress=progress, visit=checkpoints.keep)
        final = checkpoints.record(tape, state, recorder, final)
    else:
        visit = None if report is None else functools.partial(report.record, tape)
        run = functools.partial(run, in_place=tape is None, progress=progress, visit=visit, kept=kept)
        final = run(state) if tape is not None else _off_the_tape(sim, state, run, shown=callable(controls))
    return recorder.trajectory(final, report, device_view if keep else lambda array: array)


def _check_keep(sim, keep, store, half) -> None:
    """Raise for wrong choices of how rows are kept, before the first step."""
    if keep is not None:
        choice(keep, "keep", ("device",))
    if flag(half, "half") and store is None:
        raise ValueError("half=True is of the rows of a store; give store=, or save the trajectory with half=True")
    if keep and store is not None:
        raise ValueError(f"keep={keep!r} keeps the rows on the device, store= on disk; leave one of them out")
    if keep and active_tape() is not None:
        raise ValueError(f"keep={keep!r} gives arrays without gradients; leave it out under a tape")
    if keep or half:
        module_on(sim.device)


def _off_the_tape(sim, state, run, shown: bool):
    """The state that `run` ends in, from a copy of `state`.

    If `state` has gradients, the steps run on buffers without gradients, and the end is copied to a state with them.
    With `shown`, a policy sees every state and may record steps from it; then the steps run on a copy with gradients.
    """
    if not state.q.requires_grad:
        return run(sim._stepper.own_copy(state))
    end = state.clone()
    if shown:
        return run(end)
    end.assign(run(sim._stepper.own_copy(state)))
    return end


class _Kept:
    """What the steps of a taped rollout share: copies of the parameters and of the table of controls."""

    def __init__(self, sim, table: wp.array | None, owned: bool):
        self.parameters = KeptParameters(sim.parameters)
        with tape_paused():
            self.controls = table if owned else kept_array(table)

    def of(self, step: int):
        """The parameters of a step and its row of the controls (None without a table)."""
        return self.parameters, None if self.controls is None else self.controls[step]


def _run(sim, state, *, source, poses, steps, recorder, substeps, in_place, progress, visit, kept=None):
    """Step and record; `visit(step, state)` is called for every state before it is recorded. Returns the last state."""
    if visit is not None:
        visit(0, state)
    recorder.record(0, state)
    for step in with_progress(range(steps), progress):
        control, mocap = source(step, state), None if poses is None else poses[step]
        if kept is None:
            state = sim.step(state, control, mocap=mocap, substeps=substeps, out=state if in_place else None)
        else:
            state = sim._stepper.with_mocap(state, mocap)
            taped = functools.partial(sim._stepper.taped_step, state, control, None, None, substeps, kept=kept.of(step))
            state = sim._watched(state, substeps, taped)
        if visit is not None:
            visit(step + 1, state)
        recorder.record(step + 1, state)
    return state


def _mocap_table(sim, mocap, controls, steps):
    """The mocap poses of all steps as an array on the device, or None; and the number of steps, from `mocap` if
    `controls` does not give it."""
    if mocap is None:
        return None, steps
    sim._inputs.refuse_mocap(mocap)
    if not hasattr(mocap, "shape"):
        mocap = numbers(mocap, "mocap", dtype=sim.dtype)
    rows = len(mocap) if mocap.shape else 0
    expected = (rows, *sim._inputs.force_shapes["mocap"])
    if tuple(mocap.shape) != expected:
        raise ValueError(f"mocap has shape {tuple(mocap.shape)}; it must be (steps, worlds, nmocap, 7) = {expected}")
    if steps is None and not hasattr(controls, "__len__"):
        steps = rows
    return sim._inputs.device_array(mocap, expected, "mocap"), steps


def _control_source(sim, controls, steps):
    """A function (step, state) -> control, the number of steps, and the device array of controls (None if there is
    none)."""
    if controls is None or callable(controls) or isinstance(controls, RandomControls):
        if steps is None:
            raise ValueError("rollout needs steps= unless controls is an array (steps, worlds, nu)")
        steps = whole(steps, "steps", 1)
        if controls is None:
            return (lambda step, state: None), steps, None
        if isinstance(controls, RandomControls):
            return controls.of(sim), steps, None
        return (lambda step, state: controls(state)), steps, None
    if isinstance(controls, (int, float, np.number)):
        rows = "steps" if steps is None else steps
        hint = (
            f"for {controls:.0f} steps write sim.rollout(state, steps={controls:.0f})"
            if steps is None
            else "for zeros leave it out"
        )
        raise ValueError(
            f"controls is {short(controls)}; give an array (steps, worlds, nu) = ({rows}, {sim.worlds}, "
            f"{sim.model.nu}) or a function of the state; {hint}"
        )
    refuse_torch_gradient(controls, "controls")
    if not hasattr(controls, "shape"):
        controls = numbers(controls, "controls", dtype=sim.dtype)
    shape, steps = tuple(controls.shape), None if steps is None else whole(steps, "steps", 1)
    expected = (steps if steps is not None else (shape[0] if shape else 0), sim.worlds, sim.model.nu)
    if shape != expected:
        hint = shape_hint(shape, expected, "controls")
        raise ValueError(f"controls has shape {shape}; it must be (steps, worlds, nu) = {expected}{hint}")
    table = sim._inputs.device_array(controls, shape, "controls")
    if not table.size:  # Warp cannot index an array of size 0
        return (lambda step, state: None), whole(shape[0], "steps", 1), None
    return (lambda step, state: table[step]), shape[0], table


def _host_rows(table: np.ndarray):
    """Rows of a host array, without a Warp array for every row."""
    return lambda step, state: table[step]


def with_progress(steps, progress):
    """Yield `steps` under a progress bar, with a callback(step), or silently."""
    if not progress:
        yield from steps
        return
    if callable(progress):
        for step in steps:
            yield step
            progress(step + 1)
        return
    from tqdm import tqdm

    yield from tqdm(steps, unit="step")
