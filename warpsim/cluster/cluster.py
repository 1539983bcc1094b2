# SPDX-License-Identifier: Apache-2.0
"""Rollouts over many machines with Ray: actors simulate shares of the worlds and write into one store (docs/scale.md).

A store describes its run and the progress of each column of worlds (`warpsim.run.streaming`). An actor simulates its
columns to the end. A lost actor is replaced by a new one, which begins at the last commit. The bits do not depend on
how worlds are divided: every world depends only on itself, and random numbers on its number in the whole run.
"""

from __future__ import annotations

import collections
import math
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.annotations import DeviceName, Numbers, PathLike, Progress
from warpsim.base.checks import flag, short, whole
from warpsim.base.extras import import_or_explain
from warpsim.files.store.place import (
    STATE_NAMES,
    StoreError,
    check_replaceable,
    fresh,
    held,
    is_url,
    place,
    state_names,
    writing,
)
from warpsim.files.store.plain import to_plain
from warpsim.files.store.store import Commit, Store, load_trajectory
from warpsim.jobs.resume import run_to_end, together, unfinished
from warpsim.model.model import Model
from warpsim.run.description import fingerprint
from warpsim.run.randomness import RandomControls
from warpsim.run.rollout import with_progress
from warpsim.run.streaming import (
    PARAMETERS,
    Source,
    begin_store,
    checkpoint_arrays,
    new_run,
)
from warpsim.simulator import Simulator
from warpsim.state import State

if TYPE_CHECKING:
    from warpsim.state.trajectory import Trajectory

LOSSES = 20  # losses of actors in a row, without a commit between them, after which a run is given up
LOOK_SECONDS = 0.2  # [s] between two reads of the store for progress


class ShardLost(RuntimeError):
    """Ray's actors were lost so often that a run made no progress. `ws.cluster.resume` continues it."""


class Unchanging:
    """A callable whose state must not change, because shards could not share the changes."""

    def __init__(self, called):
        self.called, self.first = called, to_plain(called.state_dict())

    def __call__(self, state):
        return self.called(state)

    def state_dict(self) -> dict:
        said = self.called.state_dict()
        if to_plain(said) != self.first:
            raise ValueError(
                f"the state of controls ({type(self.called).__name__}) changes from step to step, which shards cannot "
                "share; give an array, ws.RandomControls, or a callable of the state alone"
            )
        return said

    def load_state_dict(self, kept: dict) -> None:
        self.called.load_state_dict(kept)


class Shard:
    """The work of an actor: simulate worlds of a store to the end."""

    def __init__(self, path, device, threads):
        self.path, self.device, self.threads = path, device, threads

    def machine(self) -> dict[str, str]:
        """The fingerprint of the actor's machine, which decides the last bits."""
        from warpsim.run.inputs import device_called

        try:
            Store(self.path, "r")
        except StoreError as error:
            raise StoreError(
                f"{error} (from the machine of a shard: give a store that all machines see, or a URL)"
            ) from None
        return fingerprint(device_called(self.device))

    def run(self, start: int, stop: int, commit: tuple, controls) -> None:
        """Simulate worlds start to stop from their commit to the end."""
        store = Store(self.path)
        run_to_end(store, slice(start, stop), Commit(*commit), controls, device=self.device, threads=self.threads)


def rollout(
    model: Model,
    state: State | None = None,
    controls: Any = None,
    steps: int | None = None,
    *,
    mocap: Numbers | None = None,
    worlds: int | None = None,
    shards: int | None = None,
    store: PathLike | None = None,
    half: bool = False,
    every: int = 1,
    substeps: int = 1,
    parameters: Mapping[str, Numbers] | None = None,
    device: DeviceName | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    address: str | None = None,
    **options: Any,
) -> "Trajectory":
    """Roll out many worlds on many machines: actors of Ray simulate shares of them and stream into one store.

    Parameters
    ----------
    model : Model
        The model.
    state : State, optional
        The initial state of all worlds, of a simulator with the same options. Default: the model's initial state in
        each of `worlds`.
    controls : array (steps, worlds, nu), RandomControls or callable, optional
        Controls. A callable gets the state of one actor's worlds and must keep no state of its own: its `state_dict`
        must not change. Default: none.
    steps : int, optional
        Number of steps, where `controls` is no array.
    mocap : array (steps, worlds, nmocap, 7), optional
        Poses of the mocap bodies in every step. Default: those of the model.
    worlds : int, optional
        Number of worlds, where neither `state` nor `controls` gives it.
    shards : int, optional
        Number of actors. Default: one per CUDA device; without CUDA devices one per core.
    store : path, optional
        A path that all machines see, or a URL. Default: a temporary folder of this machine, which is read as a whole
        and deleted.
    half : bool
        Whether the store has rows in half precision, as in `Simulator.rollout`. Default: False.
    every : int
        Steps from one stored row to the next. Default: 1.
    substeps : int
        Substeps of each step. Default: 1.
    parameters : dict of str to array, optional
        Physical parameters by name, (worlds, …) or one value for all worlds. Default: those of the model.
    device : str, optional
        Name of the Warp device of the actors. Default: CUDA if there is a GPU, else the CPU.
    threads : int, optional
        CPU threads of each actor. Default: its share of the cores.
    progress : bool or callable, optional
        Progress bar or callback, as in `Simulator.rollout`. Default: none.
    address : str, optional
        Address of a running cluster, as in `ray.init`. Default: the present connection, else a new cluster of this
        machine.
    **options : Any
        Further arguments of `ws.Simulator`.

    Returns
    -------
    Trajectory
        The trajectory, read from the store. It has the bits of one simulator of all worlds, for any number of shards on
        devices of one kind.

    Raises
    ------
    ImportError
        Ray is not installed (`pip install 'warpsim[cluster]'`).
    ValueError
        An argument has a value that is not allowed, or the machines are of different kinds.
    StoreError
        The store cannot be written, or not by all machines.
    ShardLost
        Actors were lost 20 times in a row without progress.

    Notes
    -----
    A lost actor or node is replaced by a new one, which begins at the last commit (docs/scale.md).

    Examples
    --------
    The example needs Ray, so that doctest skips it.

    >>> model = ws.load(ws.robots.path("ant"))
    >>> controls = ws.RandomControls(seed=1)
    >>> run = ws.cluster.rollout(model, controls=controls, steps=500, worlds=8192, store="run.zarr")   # doctest: +SKIP
    """
    ray = _ray(address)
    if not isinstance(model, Model):
        raise ValueError(f"model is a {type(model).__name__}; load one with ws.load(path) or build it")
    worlds = _count(worlds, state, controls, parameters)
    every, substeps, half = whole(every, "every", 1), whole(substeps, "substeps", 1), flag(half, "half")
    shards = _default_shards(ray) if shards is None else whole(shards, "shards", 1)
    one = Simulator(model, 1, device=_host_or(device), threads=1, **options)
    source, steps, table = _source(one, controls, steps, worlds)
    poses = None if mocap is None else _poses(one, mocap, steps, worlds)
    arrays = _first(one, state, parameters, worlds)
    run = new_run(one, source, steps, substeps, every) | {"divided": True}
    temporary = tempfile.mkdtemp(prefix="warpsim-") if store is None else None
    try:
        if temporary and len([n for n in ray.nodes() if n["Alive"]]) > 1:
            raise ValueError("this cluster has several machines; give store=, a path that all of them see, or a URL")
        path = _shared(pathlib.Path(temporary) / "run.zarr" if temporary else store)
        with writing(path, "nothing is kept there"), fresh(path) as new:
            column = -(-worlds // min(shards, worlds))
            begin_store(new, one, arrays, table, source.said(), run, column, poses, half, called=path)
        trajectory = resume(path, source.called, shards=shards, device=device, threads=threads, progress=progress)
        return trajectory if temporary is None else _read_whole(trajectory)
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def resume(
    path: PathLike,
    controls: Any = None,
    *,
    shards: int | None = None,
    device: DeviceName | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    address: str | None = None,
) -> "Trajectory":
    """Resume an interrupted run on many machines.

    Parameters
    ----------
    path : path
        Store of `ws.cluster.rollout` or of `sim.rollout(store=…)`: a path that all machines see, or a URL.
    controls : callable, optional
        The callable that gave the run its controls, if it had one. Default: the controls that the store describes.
    shards : int, optional
        Number of actors. Default: one per CUDA device; without CUDA devices one per core.
    device : str, optional
        Name of the Warp device of the actors. Default: a device of the same kind (CPU or CUDA) as in the run.
    threads : int, optional
        CPU threads of each actor. Default: its share of the cores.
    progress : bool or callable, optional
        Progress bar or callback, as in `Simulator.rollout`. Default: none.
    address : str, optional
        Address of a running cluster, as in `ray.init`. Default: the present connection, else a new cluster of this
        machine.

    Returns
    -------
    Trajectory
        The whole trajectory, read from the store.

    Raises
    ------
    StoreError
        The store is damaged, or holds no run.
    ValueError
        `controls` do not go with the run, or the machines are of different kinds.
    ShardLost
        Actors were lost 20 times in a row without progress.

    Examples
    --------
    The example needs Ray, so that doctest skips it.

    >>> trajectory = ws.cluster.resume("run.zarr", shards=4)                       # doctest: +SKIP
    """
    ray = _ray(address)
    path = _shared(path, exists=True)
    store = Store(path)
    if not store.run:
        raise StoreError(f"{path}: holds a trajectory that was saved, not a run; there is nothing to go on with")
    shards = _default_shards(ray) if shards is None else whole(shards, "shards", 1)
    if store.run["controls"]["kind"] == "callable" and unfinished(store):
        if controls is None:
            raise ValueError(f"{path}: its controls came from a callable; give it again, as controls=")
        controls = controls if isinstance(controls, Unchanging) else Unchanging(controls)
    with held(store.path):
        if not store.run["divided"]:
            _divide(store)
        _Run(ray, store, shards, device, threads, controls).run_to_end(progress)
    return load_trajectory(path)


def map(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    shards: int | None = None,
    retries: int = 3,
    address: str | None = None,
) -> list[Any]:
    """Call a function for every item, in processes of Ray: seeds of a training, robots, sweeps.

    Parameters
    ----------
    function : callable
        Function of one item.
    items : iterable
        The items.
    shards : int, optional
        How many run at once, each with its share of the cores, and of the GPUs if there are any. Default: one per CUDA
        device; without CUDA devices one per core.
    retries : int
        How often the item of a lost process is computed again. Default: 3.
    address : str, optional
        Address of a running cluster, as in `ray.init`. Default: the present connection, else a new cluster of this
        machine.

    Returns
    -------
    list
        `[function(item) for item in items]`. An exception of `function` is raised here.

    Raises
    ------
    ImportError
        Ray is not installed (`pip install 'warpsim[cluster]'`).
    ValueError
        An argument has a value that is not allowed.

    Examples
    --------
    The example needs Ray, so that doctest skips it.

    >>> ws.cluster.map(abs, [-1, 2, -3])                                           # doctest: +SKIP
    [1, 2, 3]
    """
    ray = _ray(address)
    if not callable(function):
        raise ValueError(f"function is {short(function)}; give a callable of one item")
    items = list(items)
    shards = min(_default_shards(ray) if shards is None else whole(shards, "shards", 1), max(len(items), 1))
    task = ray.remote(function).options(max_retries=whole(retries, "retries", 0), **_share(ray, shards, None))
    return ray.get([task.remote(item) for item in items])


def _divide(store: Store) -> None:
    """Make the columns of a one-simulator run independent, all from the last commit that they have in common."""
    for worlds, commit in together(store):
        store.commit(worlds, commit)
    store.run = store.run | {"divided": True}
    store.root.attrs.update({"run": store.run})


class _Run:
    """Actors that work on one store."""

    def __init__(self, ray, store: Store, shards: int, device, threads, controls):
        self.ray, self.store, self.shards, self.device, self.controls = ray, store, shards, device, controls
        share = _share(ray, shards, device)
        if (
            device is None
            and store.run["divided"]
            and store.run["simulator"]["device"] == "cpu"
            and any(c.steps for c in store.commits())
        ):
            self.device = "cpu"
        self.threads = max(1, math.floor(share.get("num_cpus", 1))) if threads is None else threads
        self.make = ray.remote(max_restarts=0, **share)(Shard)
        self.idle: list = []
        self.busy: dict = {}  # pending result -> its actor and worlds
        self.losses = 0

    def run_to_end(self, progress) -> None:
        """Simulate every column to the end."""
        try:
            self.waiting = collections.deque(self._tasks())
            count = min(self.shards, len(self.waiting))
            self.idle = [self._actor() for _ in range(count)]
            if count:
                self._same_machines()
            for _ in with_progress(self._steps(), progress):
                pass
        finally:
            for actor in [*self.idle, *(actor for actor, _ in self.busy.values())]:
                self.ray.kill(actor)

    def _tasks(self, within: slice | None = None) -> list[tuple[slice, Commit]]:
        """The remaining work, in parts for one actor each."""
        found = unfinished(self.store, -(-self.store.worlds // self.shards))
        return [t for t in found if within is None or within.start <= t[0].start < within.stop]

    def _actor(self):
        return self.make.remote(str(self.store.path), self.device, self.threads)

    def _same_machines(self) -> None:
        """Store the fingerprint of the machines; refuse shards whose bits would differ."""
        found = self.ray.get([actor.machine.remote() for actor in self.idle])
        different = {tuple(sorted(machine.items())) for machine in found}
        if len(different) > 1:
            a, b = (dict(x) for x in sorted(different)[:2])
            what = "; ".join(f"{name} {a[name]} and {b.get(name)}" for name in a if a[name] != b.get(name))
            raise ValueError(
                f"shards on machines of two kinds would differ in their last bits ({what}); give `device` or "
                f"machines of one kind"
            )
        if all(commit.steps == 0 for commit in self.store.commits()):
            device = "cpu" if " CPU " in found[0]["device"] else "cuda"
            simulator = self.store.run["simulator"] | {"device": device}
            self.store.run = self.store.run | {"fingerprint": found[0], "simulator": simulator}
            self.store.root.attrs.update({"run": self.store.run})

    def _steps(self):
        """Yield the mean step of the worlds as it is reached, until all are at the end."""
        told, last = 0, None
        while self.waiting or self.busy:
            while self.waiting and self.idle:
                worlds, commit = self.waiting.popleft()
                actor = self.idle.pop()
                self.busy[actor.run.remote(worlds.start, worlds.stop, tuple(commit), self.controls)] = (actor, worlds)
            done, _ = self.ray.wait(list(self.busy), num_returns=1, timeout=LOOK_SECONDS)
            commits = self.store.commits()
            if commits != last:
                self.losses, last = 0, commits
            for result in done:
                self._ended(result, *self.busy.pop(result))
            mean = (
                sum(c.steps * (w.stop - w.start) for c, w in zip(commits, self.store.columns(), strict=True))
                // self.store.worlds
            )
            yield from range(told, mean)
            told = max(told, mean)
        yield from range(told, self.store.run["steps"])

    def _ended(self, result, actor, worlds: slice) -> None:
        """Take an actor back. If it was lost, queue its worlds for another."""
        try:
            self.ray.get(result)
            self.idle.append(actor)
        except self.ray.exceptions.RayActorError as error:
            self.losses += 1
            if self.losses > LOSSES:
                raise ShardLost(
                    f"{self.store.path}: {self.losses} actors in a row were lost without a step done "
                    f"({' '.join(str(error).split())[:300]}); what is in "
                    "the store stays: ws.cluster.resume goes on with it"
                ) from error
            self.idle.append(self._actor())
            self.waiting.extend(self._tasks(worlds))
        except self.ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None


def _ray(address):
    """Connect to Ray: the present connection, else `address`, else a new cluster of this machine."""
    ray = import_or_explain("ray", "cluster")
    if not ray.is_initialized():
        options = {} if address is None else {"address": address}
        ray.init(
            include_dashboard=False if address is None else None, log_to_driver=False, logging_level="ERROR", **options
        )
    return ray


def _default_shards(ray) -> int:
    found = ray.cluster_resources()
    return max(1, int(found.get("GPU", 0) or found.get("CPU", 1)))


def _share(ray, shards: int, device) -> dict:
    """Resources of each of `shards` actors: a GPU, or its share of the cores."""
    found = ray.cluster_resources()
    on_cpu = device is not None and str(device).startswith("cpu")
    cpus = max(found.get("CPU", 1) / shards, 0.001)
    share = {"num_cpus": math.floor(cpus) if cpus >= 1 else math.floor(cpus * 1000) / 1000}
    if found.get("GPU", 0) and not on_cpu:
        share["num_gpus"] = min(1, found["GPU"] / shards)
    return share


def _host_or(device):
    """Device of the driver's one-world simulator: the CPU in place of CUDA, because the driver may have no GPU."""
    return "cpu" if device is None or str(device).startswith("cuda") else device


def _count(worlds, state, controls, parameters) -> int:
    """The number of worlds that the arguments have in common."""
    told = {} if worlds is None else {"worlds": whole(worlds, "worlds", 1)}
    if state is not None:
        if not isinstance(state, State):
            raise ValueError(
                f"state is a {type(state).__name__}; give one of a Simulator, or None for the model's start"
            )
        told["state"] = state.worlds
    if controls is not None and not callable(controls) and not isinstance(controls, RandomControls):
        shape = np.shape(controls)
        if len(shape) != 3:
            raise ValueError(f"controls has shape {shape}; it must be (steps, worlds, nu)")
        told["controls"] = shape[1]
    if not told:
        raise ValueError("give worlds=, or a state of as many worlds")
    if len(set(told.values())) > 1:
        raise ValueError(
            "; ".join(f"{name} has {count} worlds" for name, count in told.items()) + "; give the same number"
        )
    return next(iter(told.values()))


def _source(one, controls, steps, worlds: int) -> tuple[Source, int, np.ndarray | None]:
    if controls is None or callable(controls) or isinstance(controls, RandomControls):
        if steps is None:
            raise ValueError("rollout needs steps= unless controls is an array (steps, worlds, nu)")
        if callable(controls) and not isinstance(controls, RandomControls):
            Source.of(one, controls)  # raises for a callable without state_dict
            controls = Unchanging(controls)
        return Source.of(one, controls), whole(steps, "steps", 1), None
    table = one._inputs.numbers(controls, "controls")
    expected = (len(table) if steps is None else whole(steps, "steps", 1), worlds, one.model.nu)
    if table.shape != expected or not len(table):
        raise ValueError(
            f"controls has shape {table.shape}; it must be (steps, worlds, nu) = {expected}, with a step at least"
        )
    return Source("array", None), len(table), table


def _poses(one, mocap, steps: int, worlds: int) -> np.ndarray:
    one._inputs.refuse_mocap(mocap)
    poses, expected = one._inputs.numbers(mocap, "mocap"), (steps, worlds, one.model.nmocap, 7)
    if poses.shape != expected:
        raise ValueError(f"mocap has shape {poses.shape}; it must be (steps, worlds, nmocap, 7) = {expected}")
    return poses


def _first(one, state, parameters, worlds: int) -> dict[str, np.ndarray]:
    """The first checkpoint of all worlds. `one`: a simulator of one world with the same options."""
    for name in parameters or {}:
        _ = one.parameters[name]
    template = checkpoint_arrays(one, one.state())
    given = {} if state is None else {name: array for name, array in state.numpy().items()}
    arrays = {}
    for name, array in template.items():
        expected = (worlds, *array.shape[1:])
        if name in STATE_NAMES or not name.startswith(PARAMETERS):
            value = given.get(name, array) if state is None else given.get(name)
            if value is None or value.dtype != array.dtype or value.shape[1:] != array.shape[1:]:
                raise ValueError(
                    f"state is of a simulator of other options: {name} does not fit; make it with the same ones"
                )
        else:
            value = np.asarray(parameters[name.removeprefix(PARAMETERS)], array.dtype)
            if value.shape not in (expected, expected[1:]):
                raise ValueError(f"{name} has shape {value.shape}; it must be {expected} or {expected[1:]}")
            for row in np.broadcast_to(value, expected) if value.shape == expected else [value]:
                one.parameters[name.removeprefix(PARAMETERS)] = row  # raises for unphysical values
        arrays[name] = np.ascontiguousarray(np.broadcast_to(value, expected))
    return arrays


def _shared(path, exists: bool = False):
    """A checked path that every process of this machine understands."""
    if is_url(path):
        if path.startswith("memory://"):
            raise StoreError(
                f"{path}: each process has a memory of its own; give a folder, or a URL that all machines see"
            )
        return path if exists else check_replaceable(path)
    return place(path).resolve() if exists else check_replaceable(path).resolve()


def _read_whole(trajectory):
    from warpsim.state.trajectory import Trajectory

    rows = {name: np.asarray(getattr(trajectory, name)) for name in state_names(trajectory.model)}
    measured = {name: np.asarray(a) for name, a in trajectory.diagnostics.items()}
    return Trajectory(trajectory.model, **rows, diagnostics=measured, undrawn=trajectory.undrawn)
