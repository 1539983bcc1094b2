# SPDX-License-Identifier: Apache-2.0
"""Resume interrupted runs from their stores (docs/stores.md)."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.annotations import DeviceName, PathLike, Progress
from warpsim.base.checks import short
from warpsim.files.store.place import StoreError, held, read
from warpsim.files.store.store import Commit, Store, load_trajectory
from warpsim.run.description import fingerprint, simulator_arguments
from warpsim.run.randomness import RandomControls
from warpsim.run.streaming import STEPS, Source, go_on, restored_state
from warpsim.simulator import Simulator
from warpsim.state import State

if TYPE_CHECKING:
    from warpsim.state.trajectory import Trajectory


def resume(
    path: PathLike,
    controls: Any = None,
    *,
    sim: "Simulator | None" = None,
    device: DeviceName | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> "Trajectory":
    """Resume an interrupted run from its store.

    Parameters
    ----------
    path : path
        Store of `sim.rollout(store=…)` or `ws.cluster.rollout`: a folder or a URL.
    controls : callable, optional
        The callable that gave the run its controls, if it had one. Its method `load_state_dict` restores its state.
        Default: the controls that the store describes.
    sim : Simulator, optional
        A simulator of the run's model and worlds to use in place of a new one. A user-defined solver or integrator
        needs it. Default: a new one with the stored options.
    device : str, optional
        Name of the Warp device of the new simulator. Default: a device of the same kind (CPU or CUDA) as in the run.
    threads : int, optional
        CPU threads of the new simulator. Default: as in `ws.Simulator`.
    progress : bool or callable, optional
        Progress bar or callback, as in `Simulator.rollout`. Default: none.

    Returns
    -------
    Trajectory
        The whole trajectory, with the same bits as that of an uninterrupted run. A finished run is only read.

    Raises
    ------
    StoreError
        The store is damaged, or holds no run. `StoreError` is a `ValueError`.
    ValueError
        `controls` or `sim` do not go with the run.

    Warns
    -----
    UserWarning
        The machine is of another kind than that of the run, so that the last bits may differ.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds=2, device="cpu")
    >>> trajectory = sim.rollout(sim.state(), ws.RandomControls(seed=1), steps=20, store="run.zarr")
    >>> ws.resume("run.zarr").q.shape                              # this run is finished, so it is only read
    (21, 2, 2)
    """
    if sim is not None and not isinstance(sim, Simulator):
        raise ValueError(f"sim is {short(sim)}; give a Simulator of the run's model and worlds, or None")
    store = Store(path)
    if not store.run:
        raise StoreError(f"{path}: holds a trajectory that was saved, not a run; there is nothing to go on with")
    final = None
    with held(store.path) if unfinished(store) else contextlib.nullcontext():
        for worlds, commit in unfinished(store) if store.run["divided"] else together(store):
            final = run_to_end(
                store, worlds, commit, controls, sim=sim, device=device, threads=threads, progress=progress
            )
            if (worlds.start, worlds.stop) != (0, store.worlds):
                final = None  # the state of only a part of the worlds
    trajectory = load_trajectory(path, None if sim is None else sim.model)
    trajectory.final = final
    return trajectory


def together(store: Store) -> list[tuple[slice, Commit]]:
    """All worlds with the last commit that they have in common; empty if that is the end of the run. For a run of one
    simulator.

    Columns are committed one after the other. If that was interrupted, the first columns are one commit ahead. Their
    previous checkpoint is then still in the other slot.
    """
    commits = store.commits()
    last = min(commits, key=lambda commit: commit.steps)
    if last.steps >= store.run["steps"]:
        return []
    return [(slice(0, store.worlds), last)]


def unfinished(store: Store, most: int | None = None) -> list[tuple[slice, Commit]]:
    """Groups of adjacent unfinished columns with the same commit, of up to `most` worlds each, with that commit."""
    found: list[tuple[slice, Commit]] = []
    for worlds, commit in zip(store.columns(), store.commits(), strict=True):
        if commit.steps >= store.run["steps"]:
            continue
        if found:
            before, last = found[-1]
            if last == commit and before.stop == worlds.start and (most is None or worlds.stop - before.start <= most):
                found[-1] = (slice(before.start, worlds.stop), commit)
                continue
        found.append((worlds, commit))
    return found


def run_to_end(
    store: Store, worlds: slice, commit: Commit, controls, *, sim=None, device=None, threads=None, progress=None
) -> State:
    """Simulate worlds of a store to the end."""
    count = worlds.stop - worlds.start
    arrays, said = store.kept(worlds, commit)  # first: it checks that the files hold this number of worlds
    if np.any(arrays.get(STEPS) != commit.steps):
        raise StoreError(
            f"{store.path}: the checkpoint of worlds {worlds.start} to {worlds.stop - 1} is not that of their commit: "
            "two processes have gone on with this store at once; run it anew"
        )
    if sim is None:
        model = store.model()
        arguments = simulator_arguments(store.run["simulator"], store.path, device, model)
        sim = Simulator(model, count, threads=threads, **arguments)
    elif sim.worlds != count or not _same_model(sim.model, store):
        raise StoreError(
            f"{store.path}: sim has {sim.worlds} worlds of {sim.model.name!r}; this run needs {count} of "
            f"{store.root.attrs['model']!r}"
        )
    _warn_elsewhere(store, sim)
    source = stored_source(store, sim, worlds, controls)
    state = restored_state(sim, arrays, store.path)
    if source.called is not None and said is not None:
        source.called.load_state_dict(said)
    return go_on(sim, state, source, store, worlds, commit, progress)


def _same_model(model, store: Store) -> bool:
    stored = store.model()
    return (model.name, model.nq, model.nv, model.nu) == (stored.name, stored.nq, stored.nv, stored.nu)


def _warn_elsewhere(store: Store, sim) -> None:
    before, now = store.run["fingerprint"], fingerprint(sim.device)
    changed = [f"{name} {before.get(name)} -> {value}" for name, value in now.items() if before.get(name) != value]
    if changed:
        warnings.warn(f"{store.path} goes on elsewhere, where last bits may differ: {'; '.join(changed)}", stacklevel=4)


def stored_source(store: Store, sim, worlds: slice, controls) -> Source:
    """The source of controls that a store describes. `controls`: the callable of the run, if it had one."""
    source = _stored_controls(store, sim, worlds, controls)
    given = store.mocap_given(worlds)
    if given is not None:
        source.mocap = sim._inputs.device_array(given, given.shape, "mocap")
    return source


def _stored_controls(store: Store, sim, worlds: slice, controls) -> Source:
    kind = store.run["controls"]["kind"]
    if controls is not None and kind != "callable":
        raise ValueError(f"{store.path} knows its controls ({kind}); leave controls out")
    if kind == "none":
        return Source.of(sim, None)
    if kind == "random":
        return Source.of(sim, read(store.path, lambda: RandomControls(**store.run["controls"]["options"])), worlds)
    if kind == "array":
        return Source.of(sim, store.controls(worlds))
    if controls is None:
        name = store.run["controls"].get("name")
        raise ValueError(f"{store.path}: its controls came from a callable ({name}); give it again, as controls=")
    source = Source.of(sim, controls)
    if source.kind != "callable":
        raise ValueError(f"controls is a {type(controls).__name__}; this run needs the callable that it began with")
    return source
