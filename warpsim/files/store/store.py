# SPDX-License-Identifier: Apache-2.0
"""A rollout in a Zarr v3 store, complete or still growing (docs/stores.md).

Layout, version 2 (no pickles; readable by any Zarr v3 library):
    attributes    format, version, frames (planned), worlds, column, block, diagnostics, model, timestep, undrawn, run
    q, v          (frames, worlds, n); float16 in half precision
    time          (frames, worlds) [s]
    activation    (frames, worlds, na), if the model has activations
    diagnostics/  (frames, worlds) each; row 0 belongs to no step and is 0
    commits       (columns, 4), per column of worlds: its complete frames and steps, the slot of its checkpoint, and the
                  version of `sources` that belongs to it
    checkpoint/   slot_0 and slot_1 (worlds, bytes), used in turn: what a step reads, and the parameters
    controls      (steps, worlds, nu), if the run was given an array of controls
    mocap         (frames, worlds, nmocap, 7), if the model has mocap bodies
    mocap_given   (steps, worlds, nmocap, 7), if the run was given poses of mocap bodies
    sources/      the `state_dict` of a callable source of controls
    model/        the Model's arrays; names, scalars, keyframes' names and the report as JSON attributes
    fault/        only in fault dumps: tau, wrench and the contact points of the step (`warpsim.run.fault_watch`)

A shard holds `block` frames of a `column` of worlds. A column's commit is written last and in one piece. So anything
that a crash left beyond the commit is ignored, and written again.
"""

import math
from typing import NamedTuple

import numpy as np

from warpsim.base.checks import whole
from warpsim.files.store import version_1
from warpsim.files.store.attributes import MOST_FRAMES, check_names
from warpsim.files.store.halves import Halves, half_dtypes
from warpsim.files.store.layout import Layout
from warpsim.files.store.place import (
    ACTIVATION,
    FORMAT,
    MOCAP,
    MOCAP_GIVEN,
    STATE_NAMES,
    VERSION,
    StoreError,
    check_replaceable,
    fresh,
    is_url,
    open_root,
    place,
    read,
    state_names,
    writing,
    zarr_store,
)
from warpsim.files.store.plain import from_plain
from warpsim.files.store.store_model import create_array, full, model_from_group, model_to_group
from warpsim.files.store.stored_array import StoredArray, check_backed, host_part, read_whole
from warpsim.model.host_kinematics import host_rows
from warpsim.model.model import Model
from warpsim.state.trajectory import Trajectory

BLOCK_BYTES = 4 * 2**20  # of q in one block of one column
CHUNK_BYTES = 2**19  # of q in one chunk: the bytes read for the frames of one world
MOST_WORLDS = 4096


class Commit(NamedTuple):
    """Progress of a column of worlds: complete rows and steps, slot of its checkpoint, version of its `sources`."""

    frames: int = 0
    steps: int = 0
    slot: int = -1
    source: int = -1


class Store:
    """A store of version 2: `create` makes one, the constructor opens it.

    `write`, `commit` and `keep` serve the worlds of a run. `frames` is the planned number of frames, `committed` the
    number that every world has.
    """

    def __init__(self, path, mode: str = "r+"):
        self.path, self.root = place(path), open_root(path, mode)
        attributes = self.root.attrs
        if attributes["version"] != VERSION:
            raise StoreError(
                f"{path}: of version {attributes['version']}, which is read but not written; copy it by `save`"
            )
        self.frames, self.worlds, self.run = attributes["frames"], attributes["worlds"], attributes["run"]
        self.column, self.block = attributes["column"], attributes["block"]
        self.diagnostics = list(attributes["diagnostics"])
        self.states = (*STATE_NAMES, *(name for name in (ACTIVATION, MOCAP) if name in self.root))
        self._arrays = {name: read(path, lambda: full(self._find(name))) for name in (*self.states, *self.diagnostics)}
        self._commits = read(path, lambda: _commits_of(self.root, -(-self.worlds // self.column)))
        self._slots: dict = {}
        self._last_source: tuple[int, dict] | None = None

    def _find(self, name: str):
        array = self.root[name] if name in self.states else self.root["diagnostics"][name]
        if array.shape[:2] != (self.frames, self.worlds):
            raise ValueError(f"{name} has shape {array.shape}; there are {self.frames} frames of {self.worlds} worlds")
        if (array.shards or array.chunks)[:2] != (self.block, self.column):
            raise ValueError(
                f"{name} is in parts of {array.shards or array.chunks}, not of {(self.block, self.column)}"
            )
        if (
            name == "q"
            and self.block > 1
            and math.prod(array.shards or array.chunks) * array.dtype.itemsize > 2 * BLOCK_BYTES
        ):
            raise ValueError(
                f"a block of {self.block} frames of {self.column} worlds has more than {2 * BLOCK_BYTES} bytes"
            )
        return array

    @staticmethod
    def create(
        path,
        model: Model,
        worlds: int,
        frames: int,
        *,
        dtypes,
        diagnostics,
        layout=None,
        controls=None,
        mocap=None,
        run=None,
        column=None,
        undrawn=(),
    ):
        """Create the arrays of a store, then its attributes. Nothing is committed.

        - dtypes: of q, v, time and activations, by name
        - diagnostics: dtypes by name
        - layout: of checkpoints, if the run can be resumed
        - controls: (steps, worlds, nu) of the run
        - mocap: (steps, worlds, nmocap, 7) given to the run
        - run: further facts about the run, as JSON, with its number of `steps`
        - column: worlds that belong to one writer; default: up to 4,096
        - undrawn: see `Trajectory`
        """
        import zarr

        worlds, frames = whole(worlds, "worlds", 1), whole(frames, "frames", 1)
        check_names(list(diagnostics))
        size = max(model.nq, 1) * np.dtype(dtypes["q"]).itemsize
        column = min(worlds, MOST_WORLDS) if column is None else min(whole(column, "column", 1), worlds)
        block = int(np.clip(BLOCK_BYTES // (size * column), 1, min(MOST_FRAMES, frames)))
        chunks = -(-column // int(np.clip(CHUNK_BYTES // (size * block), 1, column)))
        chunk = -(-column // chunks)
        column = chunks * chunk
        shape = {"chunks": (block, chunk), "shards": (block, column)}
        root = zarr.create_group(zarr_store(path, False), zarr_format=3, overwrite=is_url(path))
        sizes = {"q": (model.nq,), "v": (model.nv,), "time": ()} | ({ACTIVATION: (model.na,)} if model.na else {})
        sizes |= {MOCAP: (model.nmocap, 7)} if model.nmocap else {}
        for name, extent in sizes.items():
            create_array(root, name, (frames, worlds, *extent), dtypes[name if name in dtypes else "q"], **shape)
        group = root.create_group("diagnostics")
        for name, dtype in diagnostics.items():
            create_array(group, name, (frames, worlds), dtype, **shape)
        columns = -(-worlds // column)
        commits = create_array(
            root, "commits", (columns, len(Commit._fields)), "int64", (1, len(Commit._fields)), plain=True
        )
        full(commits)[...] = np.tile(Commit(), (columns, 1))
        slots = root.create_group("checkpoint")
        if layout is not None:
            for slot in range(2):
                create_array(slots, f"slot_{slot}", (worlds, layout.bytes), "uint8", (column, layout.bytes))
        for name, table in (("controls", controls), (MOCAP_GIVEN, mocap)):
            if table is not None:
                array = create_array(root, name, table.shape, table.dtype, **shape)
                if table.size:
                    full(array)[...] = table
        root.create_group("sources")
        model_to_group(model, root.create_group("model"))
        root.attrs.update(  # last: a store without these attributes was never finished
            {
                "format": FORMAT,
                "version": VERSION,
                "frames": frames,
                "worlds": worlds,
                "column": column,
                "block": block,
                "diagnostics": sorted(diagnostics),
                "model": model.name,
                "timestep": float(model.timestep),
                "undrawn": list(undrawn),
                "run": None if run is None else run | {"layout": layout.to_json()},
            }
        )

    def halves(self, world: int = 0) -> Halves:
        """The states that this store holds in half precision; `world` is the first of those to be written."""
        return Halves(self.path, {name: self._arrays[name].dtype for name in self.states}, world)

    # columns of worlds ----------------------------------------------------------------------------------------------

    def columns(self) -> list[slice]:
        """The worlds of each column."""
        return [slice(a, min(a + self.column, self.worlds)) for a in range(0, self.worlds, self.column)]

    def commits(self) -> list[Commit]:
        """The progress of each column."""
        found = [Commit(*map(int, row)) for row in read(self.path, lambda: host_part(self._commits, ...))]
        for column, commit in enumerate(found):
            if not (0 <= commit.frames <= self.frames and commit.steps >= 0 and -1 <= commit.slot <= 1):
                raise StoreError(
                    f"{self.path}: commit {column} is {tuple(commit)}; the store is damaged, record it again"
                )
        return found

    @property
    def committed(self) -> int:
        """Number of frames that every world has."""
        return min(commit.frames for commit in self.commits())

    def write(self, first: int, worlds: slice, rows: dict[str, np.ndarray]) -> None:
        """Write rows (n, worlds, …) of states and diagnostics, by name, from frame `first` on."""
        count = len(rows["time"])
        for name, array in self._arrays.items():
            value = rows[name]
            if value.size:
                array[first : first + count, worlds] = value

    def commit(self, worlds: slice, commit: Commit) -> None:
        """Record the progress of these worlds, which are whole columns. Each column's commit is atomic."""
        for column in range(worlds.start // self.column, -(-worlds.stop // self.column)):
            self._commits[column : column + 1] = np.array([commit])

    def keep(self, worlds: slice, slot: int, rows: np.ndarray, said: dict | None, version: int) -> int:
        """Write a checkpoint, as rows of bytes, into a slot, and the state `said` of a source (JSON) if it changed.

        Returns the version of that state; -1 if there is none.
        """
        array = self._slots.get(slot)
        if array is None:
            array = self._slots[slot] = full(self.root["checkpoint"][f"slot_{slot}"])
        if rows.size:
            array[worlds] = rows
        if said is None:
            return -1
        if self._last_source is not None and self._last_source == (version, said):
            return version
        version += 1
        # Until the commit, resuming needs the last version, not the one before it, which is overwritten here.
        self.root["sources"].create_group(
            f"slot_{version % 2}", overwrite=True, attributes={"version": version, "state": said}
        )
        self._last_source = (version, said)
        return version

    def kept(self, worlds: slice, commit: Commit) -> tuple[dict[str, np.ndarray], dict | None]:
        """The arrays of a checkpoint, and the state of its source (None if it has none)."""
        layout = Layout.from_json(self.run["layout"])
        rows = self._rows("checkpoint", f"slot_{commit.slot}", (self.worlds, layout.bytes), 0, worlds)
        arrays = read(self.path, lambda: layout.unpack(rows))
        if commit.source < 0:
            return arrays, None
        group = read(self.path, lambda: self.root["sources"][f"slot_{commit.source % 2}"].attrs.asdict())
        if group.get("version") != commit.source or not isinstance(group.get("state"), dict):
            raise StoreError(
                f"{self.path}: sources/ holds version {group.get('version')!r}, not {commit.source}; the store is "
                "damaged"
            )
        self._last_source = (commit.source, group["state"])
        return arrays, read(self.path, lambda: from_plain(group["state"]))

    def controls(self, worlds: slice) -> np.ndarray:
        """The controls (steps, worlds, nu) that the run was given."""
        return self._rows("controls", None, (self.run["steps"], self.worlds), 1, worlds)

    def mocap_given(self, worlds: slice) -> np.ndarray | None:
        """The mocap poses (steps, worlds, nmocap, 7) that the run was given; None without any."""
        if not read(self.path, lambda: MOCAP_GIVEN in self.root):
            return None
        return self._rows(MOCAP_GIVEN, None, (self.run["steps"], self.worlds), 1, worlds)

    def _rows(self, name: str, member: str | None, shape: tuple[int, ...], axis: int, worlds: slice) -> np.ndarray:
        """The part of an array that belongs to some worlds, along `axis`; the array's shape must begin with `shape`."""

        def rows() -> np.ndarray:
            array = self.root[name] if member is None else self.root[name][member]
            if array.shape[: len(shape)] != shape:
                raise ValueError(f"{array.name.lstrip('/')} has shape {array.shape}, which must begin with {shape}")
            ranges = [(0, n) for n in array.shape]
            ranges[axis] = (worlds.start, worlds.stop)
            check_backed(array, ranges)
            return host_part(array, tuple(slice(*r) for r in ranges))

        return read(self.path, rows)

    def model(self) -> Model:
        """The model of one world."""
        return read(self.path, lambda: model_from_group(self.root["model"]))


def _commits_of(root, columns: int):
    array, shape = root["commits"], (columns, len(Commit._fields))
    if array.shape != shape:
        raise ValueError(f"commits has shape {array.shape}, not {shape}")
    if array.chunks != (1, len(Commit._fields)) or array.dtype != np.int64:
        raise ValueError(f"commits holds {array.dtype} in chunks of {array.chunks}")
    check_backed(array, [(0, n) for n in shape])
    return array


def save_trajectory(trajectory, path, half: bool = False) -> None:
    """Write a whole trajectory, in `half` precision if asked for.

    It replaces a warpsim store at `path`; anything else there is an error, and stays.
    """
    path = check_replaceable(path)
    if is_url(path) and any(getattr(a, "path", None) == path for a in (trajectory.q, *trajectory.diagnostics.values())):
        raise StoreError(
            f"{path}: the trajectory is read from there, and would be deleted before it is read; save it elsewhere"
        )
    names = state_names(trajectory.model)
    if ACTIVATION in names and trajectory.activation is None:
        raise StoreError(
            f"{path}: the trajectory has no activation, of which its model has {trajectory.model.na}; give it"
        )
    dtypes = {name: _dtype(getattr(trajectory, name)) for name in names}
    dtypes = half_dtypes(dtypes) if half else dtypes
    halves = Halves(path, dtypes)
    diagnostics = {name: _dtype(array) for name, array in trajectory.diagnostics.items()}
    with writing(path, "nothing is kept there"), fresh(path) as new:
        options = {"dtypes": dtypes, "diagnostics": diagnostics, "undrawn": trajectory.undrawn}
        Store.create(new, trajectory.model, trajectory.worlds, trajectory.frames, **options)
        store = Store(new)
        everyone = slice(0, trajectory.worlds)
        for start in range(0, trajectory.frames, store.block):
            rows = np.arange(start, min(start + store.block, trajectory.frames))
            span = start, start + len(rows), start
            block = {name: halves.rows(name, getattr(trajectory, name), *span) for name in names}
            for name, array in trajectory.diagnostics.items():
                measured = (
                    host_rows(array, rows[rows > 0] - 1) if (rows > 0).any() else np.zeros((0, len(block["time"][0])))
                )
                if start == 0:  # row 0 belongs to no step
                    measured = np.concatenate([np.zeros((1, trajectory.worlds), diagnostics[name]), measured])
                block[name] = measured
            store.write(start, everyone, block)
        store.commit(everyone, Commit(trajectory.frames))


def load_trajectory(path, model: Model | None = None):
    """A store as a `Trajectory` of `StoredArray`s; `model` replaces the stored one if its sizes agree."""
    root = open_root(path, "r")
    if root.attrs["version"] == 1:
        frames, stored = root.attrs["frames"], None
    else:
        stored = Store(path, "r")
        frames = stored.committed
    if frames == 0:
        raise StoreError(f"{path}: the store holds no frames yet; run the rollout first")
    model = read(path, lambda: model_from_group(root["model"])) if model is None else model
    sizes = {"q": (model.nq,), "v": (model.nv,)} | ({ACTIVATION: (model.na,)} if ACTIVATION in root else {})
    sizes |= {MOCAP: (model.nmocap, 7)} if MOCAP in root else {}
    for name, size in sizes.items():
        shape, expected = read(path, lambda: root[name].shape[1:]), (root.attrs["worlds"], *size)
        if shape != expected:
            raise StoreError(f"{path}: {name} has rows of shape {shape}, but model {model.name!r} needs {expected}")
    if stored is None:
        arrays, diagnostics = read(path, lambda: version_1.arrays(path, root))
        return Trajectory(model, *arrays, diagnostics)
    rows = {name: StoredArray(path, stored._arrays[name], 0, frames) for name in stored.states}
    diagnostics = {name: StoredArray(path, stored._arrays[name], 1, frames - 1) for name in stored.diagnostics}
    for array in (*rows.values(), *diagnostics.values()):
        array.require(frames, stored.worlds)
    undrawn = read(path, lambda: tuple(map(str, root.attrs.get("undrawn", ()))))
    return Trajectory(model, **rows, diagnostics=diagnostics, undrawn=undrawn)


def has_geoms_of(path, model: Model) -> bool:
    """Whether the model in a store has the bodies and geoms of `model`, so that they look alike; reads three arrays."""
    group = read(path, lambda: open_root(path, "r")["model"])
    names = ("geom_type", "geom_size", "geom_body")
    return all(
        np.array_equal(read(path, lambda name=name: read_whole(group[name])), getattr(model, name)) for name in names
    )


def _dtype(array):
    return host_rows(array, [0]).dtype if len(array.shape) and array.shape[0] else np.dtype("float64")
