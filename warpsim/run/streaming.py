# SPDX-License-Identifier: Apache-2.0
"""Rollouts that write a store while they simulate (docs/stores.md)."""

import concurrent.futures
import contextlib
import signal
import time

import numpy as np
import warp as wp

from warpsim.base.checks import short
from warpsim.base.errors import Stopped
from warpsim.device.array_module import module_on
from warpsim.device.interrupts import stop_requests
from warpsim.device.threads import holds
from warpsim.files.store.halves import Halves, half_dtypes
from warpsim.files.store.layout import Layout
from warpsim.files.store.place import StoreError, check_replaceable, fresh, held, state_names, writing
from warpsim.files.store.plain import to_plain
from warpsim.files.store.store import Commit, Store, load_trajectory
from warpsim.run.description import describe_simulator, fingerprint
from warpsim.run.randomness import RandomControls
from warpsim.run.rollout import RECORDED, Frames, with_progress
from warpsim.state import State

COMMIT_SECONDS = 5.0  # Most seconds of simulation that a killed process loses, if a step takes less.
PARAMETERS, STEPS = "parameters/", "steps"  # Entries of a checkpoint besides the state.


# what gives the controls ----------------------------------------------------------------------------------------------


class Source:
    """The controls of a run by step, and what its store keeps of them.

    `control(step, state)` gives the controls of a step. `kind` and `options` describe them. `table` is an array of all
    controls. `called` is the policy, which has its own `state_dict`. `mocap` holds the poses of mocap bodies (steps,
    worlds, nmocap, 7) on the device, or is None.
    """

    mocap = None

    def pose(self, step: int):
        """The mocap poses of a step, or None."""
        return None if self.mocap is None else self.mocap[step]

    def __init__(self, kind: str, control, options=None, table=None, called=None):
        self.kind, self.control, self.options, self.table, self.called = kind, control, options, table, called

    @classmethod
    def of(cls, sim, controls, worlds: slice | None = None) -> "Source":
        """The source for the `controls` of a rollout. Raises `ValueError` for a callable without `state_dict` and
        `load_state_dict`, which cannot be resumed."""
        if controls is None:
            return cls("none", lambda step, state: None)
        if isinstance(controls, RandomControls):
            numbers = None if worlds is None else np.arange(worlds.start, worlds.stop)
            options = {name: int(x) if name != "scale" else float(x) for name, x in vars(controls).items()}
            return cls("random", controls.of(sim, numbers), options)
        if callable(controls):
            if not (
                callable(getattr(controls, "state_dict", None)) and callable(getattr(controls, "load_state_dict", None))
            ):
                raise ValueError(
                    f"controls is {short(controls)}, of which a store cannot tell how to go on: give it the methods "
                    "state_dict() and load_state_dict(kept) (empty if it keeps nothing between steps), or give an "
                    "array or ws.RandomControls"
                )
            return cls("callable", lambda step, state: controls(state), called=controls)
        table = sim._inputs.device_array(controls, (len(controls), sim.worlds, sim.model.nu), "controls")
        return cls(
            "array", (lambda step, state: table[step]) if table.size else (lambda step, state: None), table=table
        )

    def said(self) -> dict | None:
        """The `state_dict` of a policy, from which it can resume; None for other controls."""
        if self.called is None:
            return None
        said = self.called.state_dict()
        if not isinstance(said, dict):
            raise ValueError(f"state_dict() of controls gives a {type(said).__name__}; it must give a dict")
        return said


# states and parameters as rows ----------------------------------------------------------------------------------------


def checkpoint_arrays(sim, state: State) -> dict[str, np.ndarray]:
    """What a step from `state` reads, by name: the state's arrays, and the parameters that have been accessed."""
    arrays = state.numpy()
    return arrays | {PARAMETERS + name: sim.parameters[name].numpy() for name in sim.parameters.expanded}


# Arrays of a state that stores of earlier versions lack. They begin as zeros.
LATER = ("energy_gain",)


def restored_state(sim, arrays: dict[str, np.ndarray], path) -> State:
    """The state of a checkpoint. Its parameters are written into the simulator."""
    state = sim.state()
    arrays = {name: array for name, array in arrays.items() if name != STEPS}
    own = {name: array for name, array in arrays.items() if not name.startswith(PARAMETERS)}
    kinds = {name: (array.shape, array.numpy().dtype) for name, array in state.arrays().items()}
    kinds = {name: kind for name, kind in kinds.items() if name in own or name not in LATER}
    if {name: (array.shape, array.dtype) for name, array in own.items()} != kinds:
        raise StoreError(
            f"{path}: holds states with {', '.join(own)} of other shapes or dtypes than this simulator's; it is of "
            f"another"
        )
    for name, array in arrays.items():
        target = state.arrays()[name] if name in own else sim.parameters[name.removeprefix(PARAMETERS)]
        if array.size:
            target.assign(np.ascontiguousarray(array))
    return state


# writing --------------------------------------------------------------------------------------------------------------


class Writer:
    """Writes blocks of frames into a store, in a separate thread while the next block is simulated."""

    def __init__(self, store: Store, worlds: slice, commit: Commit, layout: Layout):
        self.store, self.worlds, self.last, self.layout = store, worlds, commit, layout
        self._version = commit.source
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="warpsim-store")
        self._pending: concurrent.futures.Future | None = None

    def put(
        self, first: int, rows: dict[str, np.ndarray], steps: int, arrays: dict[str, np.ndarray], said: dict | None
    ) -> None:
        """Write rows from frame `first` on and commit them with a checkpoint. The given arrays must not change until
        the next call."""
        self.wait()
        counted = arrays | {STEPS: np.full(self.worlds.stop - self.worlds.start, steps)}
        packed, said = self.layout.pack(counted), None if said is None else to_plain(said, "state_dict()")
        self._pending = self._thread.submit(self._write, first, rows, steps, packed, said)

    def _write(self, first: int, rows: dict, steps: int, packed: np.ndarray, said) -> None:
        kept = f"the store holds {self.last.frames} frames"
        with writing(self.store.path, kept):
            if len(rows["time"]):
                self.store.write(first, self.worlds, rows)
            slot = 1 - self.last.slot if self.last.slot >= 0 else 0
            version = self.store.keep(self.worlds, slot, packed, said, self._version)
            commit = Commit(first + len(rows["time"]), steps, slot, version)
            self.store.commit(self.worlds, commit)
        self.last, self._version = commit, version

    def wait(self) -> None:
        """Wait until everything given is in the store."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Finish the pending write and stop the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()


# running --------------------------------------------------------------------------------------------------------------


def store_rollout(sim, state: State, controls, steps, path, **options):
    """`Simulator.rollout` into a store. Once all frames are on disk, a signal ends the process as usual."""
    try:
        return run_into_store(sim, state, controls, steps, path, **options)
    except Stopped as stop:
        if stop.number == signal.SIGINT:
            raise KeyboardInterrupt(str(stop)) from stop
        signal.raise_signal(stop.number)
        raise


def run_into_store(
    sim, state: State, controls, steps, path, *, mocap=None, substeps: int, every: int, progress=None, half=False
):
    """A rollout into a store, from checked arguments; returns its `Trajectory`. A signal raises `Stopped`."""
    path = check_replaceable(path)
    source = Source.of(sim, controls)
    source.mocap = mocap
    run = new_run(sim, source, steps, substeps, every)
    with writing(path, "nothing is kept there"), fresh(path) as new:
        table = None if source.table is None else source.table.numpy()
        poses = None if mocap is None else mocap.numpy()
        options = {"mocap": poses, "half": half, "called": path}
        begin_store(new, sim, checkpoint_arrays(sim, state), table, source.said(), run, **options)
    with held(path):
        store = Store(path)
        final = go_on(sim, state.clone(), source, store, slice(0, sim.worlds), store.commits()[0], progress)
    trajectory = load_trajectory(path, sim.model)
    trajectory.final = final
    return trajectory


def new_run(sim, source: Source, steps: int, substeps: int, every: int) -> dict:
    """The description of a run in its store."""
    told = {"kind": source.kind, "options": source.options}
    if source.called is not None:
        told["name"] = type(source.called).__qualname__
    found = {"steps": steps, "substeps": substeps, "every": every, "controls": told, "divided": False}
    return found | {"simulator": describe_simulator(sim), "fingerprint": fingerprint(sim.device)}


def begin_store(
    path,
    sim,
    arrays: dict[str, np.ndarray],
    table,
    said: dict | None,
    run: dict,
    column=None,
    mocap=None,
    half=False,
    called=None,
) -> None:
    """Create a store with the first frame, its checkpoint `arrays` (worlds, …) and its commit.

    `table`: the controls (steps, worlds, nu), or None. `mocap`: the poses of the mocap bodies, or None. `half`: whether
    frames are in half precision; the checkpoint never is. `called`: the path that messages name, if it is another.
    """
    worlds = len(arrays["time"])
    layout = Layout.of(arrays | {STEPS: np.zeros(worlds, int)})
    dtypes = {name: arrays[name].dtype for name in state_names(sim.model)}
    dtypes = half_dtypes(dtypes) if half else dtypes
    kinds = {name: sim.dtype if kind is None else wp.dtype_to_numpy(kind) for name, kind in RECORDED.items()}
    options = {
        "dtypes": dtypes,
        "diagnostics": kinds,
        "layout": layout,
        "controls": table,
        "mocap": mocap,
        "run": run,
        "column": column,
        "undrawn": sim.parameters.undrawn(),
    }
    Store.create(path, sim.model, worlds, run["steps"] // run["every"] + 1, **options)
    store = Store(path)
    everyone = slice(0, worlds)
    halves = Halves(path if called is None else called, dtypes)
    rows = {name: halves.rows(name, arrays[name][None], 0, 1, 0) for name in dtypes}
    rows |= {name: np.zeros((1, worlds), kind) for name, kind in kinds.items()}
    writer = Writer(store, everyone, Commit(), layout)
    writer.put(0, rows, 0, arrays, said)
    writer.close()


@holds
def go_on(sim, state: State, source: Source, store: Store, worlds: slice, commit: Commit, progress=None) -> State:
    """Simulate worlds of a store from their last commit to the end, in place in `state`. Returns the last state.

    `sim` has only these worlds. SIGINT, SIGTERM and SIGHUP raise `Stopped` once all simulated frames are on disk.
    """
    run, block = store.run, store.block
    steps, every, substeps = run["steps"], run["every"], run["substeps"]
    layout = Layout.from_json(run["layout"])
    blocks = [Frames(sim, block, requires_grad=False) for _ in range(2)]
    writer = Writer(store, worlds, commit, layout)
    frame, first, done, turn = commit.frames, commit.frames, commit.steps, 0
    halves = store.halves(worlds.start)
    if halves.names:
        module_on(sim.device)  # raises without CuPy on CUDA, before the first step

    def put() -> None:
        rows = blocks[turn].host(first % block, first % block + frame - first, halves, first)
        writer.put(first, rows, done, checkpoint_arrays(sim, state), source.said())

    with contextlib.closing(writer), stop_requests() as stops:
        written = time.perf_counter()
        for step in with_progress(range(commit.steps, steps), progress):
            sim.step(state, source.control(step, state), mocap=source.pose(step), substeps=substeps, out=state)
            done = step + 1
            if done % every == 0:
                blocks[turn].keep(frame % block, state)
                frame += 1
            full = frame > first and frame % block == 0 and done % every == 0
            if full or done == steps or stops or time.perf_counter() - written > COMMIT_SECONDS:
                put()
                turn, first, written = 1 - turn, frame, time.perf_counter()
            if stops and done < steps:
                writer.wait()
                name = signal.Signals(stops[0]).name
                raise Stopped(
                    stops[0],
                    f"stopped by {name} after {done} of {steps} steps; {store.path} holds the {frame} frames until "
                    "then (`warpsim resume` goes on)",
                )
    return state
