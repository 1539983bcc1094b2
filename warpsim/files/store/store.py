"""Trajectories in Zarr v3 stores: whole ones, and rollouts that append as they go and resume after a crash.

Layout, version 1 (no pickles; readable by any Zarr v3 library):
    attributes   format, version, frames (complete ones: the commit mark), worlds, diagnostics, checkpoint
    q, v         (frames, worlds, n)    time (frames, worlds) [s]
    diagnostics/ (frames - 1, worlds) each
    model/       the Model's arrays; names, scalars, keyframes' names and the report as JSON attributes
    checkpoint/  what a step reads besides q, v, time (the solver's memory), in two slots used in turn
Rows are compressed in chunks of several frames; `frames` is raised only after they are on disk, so whatever a crash
left behind beyond it is dropped on opening.
"""

import pathlib

import numpy as np

from warpsim.files.output import check_folder, replacing
from warpsim.files.store.store_model import create_array, full, model_from_group, model_to_group, put
from warpsim.files.store.store_tree import foreign
from warpsim.model.host_kinematics import host_rows
from warpsim.model.model import Model

FORMAT = "warpsim.trajectory"
VERSION = 1
CHUNK_BYTES = 2 * 2**20  # of q in one chunk: large enough to compress, small enough to read a few frames
STATE_NAMES = ("q", "v", "time")


class StoreError(ValueError):
    """A store that is missing, foreign, damaged or of another version. The message names the path and the fix."""


def save_trajectory(trajectory, path) -> None:
    """Write a whole trajectory, replacing a warpsim store at `path`; anything else there is an error, and stays."""
    path = check_replaceable(path)
    dtypes = {name: _dtype(getattr(trajectory, name)) for name in STATE_NAMES}
    diagnostics = {name: _dtype(array) for name, array in trajectory.diagnostics.items()}
    with replacing(path) as new:
        writer = StoreWriter(new, trajectory.model, trajectory.worlds, dtypes=dtypes, diagnostics=diagnostics)
        with writer:
            for start in range(0, trajectory.frames, writer.chunk):
                rows = np.arange(start, min(start + writer.chunk, trajectory.frames))
                steps = rows[rows > 0] - 1
                measured = {n: host_rows(a, steps) for n, a in trajectory.diagnostics.items()} if len(steps) else {}
                writer.append(*(host_rows(getattr(trajectory, name), rows) for name in STATE_NAMES), measured)


def load_trajectory(path, model: Model | None = None):
    """Read a store as a `Trajectory` of NumPy arrays; `model` stands in for the stored one if its sizes agree."""
    from warpsim.trajectory import Trajectory

    root = _open(path, "r")
    frames, worlds = root.attrs["frames"], root.attrs["worlds"]
    if frames == 0:
        raise StoreError(f"{path}: the store holds no frames yet; run the rollout first")
    model = _read(path, lambda: model_from_group(root["model"])) if model is None else model
    for name, size in (("q", model.nq), ("v", model.nv)):
        if _read(path, lambda: root[name].shape[1:]) != (worlds, size):
            raise StoreError(
                f"{path}: {name} has rows of shape {root[name].shape[1:]}, but model {model.name!r} needs {(worlds, size)}"
            )
    arrays = [_read(path, lambda: _rows(root[name], 0, frames)) for name in STATE_NAMES]
    names = root.attrs["diagnostics"]
    diagnostics = {n: _read(path, lambda: _rows(root["diagnostics"][n], 0, frames - 1)) for n in names}
    return Trajectory(model, *arrays, diagnostics)


class StoreWriter:
    """Appends frames to a store; opens an existing one to go on.

        with StoreWriter("ant.zarr", model, worlds) as store:
            store.append(q0, v0, time0)                          # the initial state
            store.append(q, v, time, {"contacts": contacts})     # then rows with what their step measured

    `append` takes one frame `(worlds, n)` or several `(rows, worlds, n)`; rows after the first of a store each need
    every diagnostic. Frames are on disk after a whole chunk, `flush`, `checkpoint` or the end of the `with` block.
    With `resume=True` an existing store of the same model sizes is opened, and cut to its last complete frame;
    `frames`, `last_state()` and `last_checkpoint()` say where to go on.

    dtypes      name -> dtype of q, v, time; default float32, float32, float64
    diagnostics name -> dtype; default: taken from the first rows that carry them
    """

    def __init__(self, path, model, worlds: int, *, dtypes=None, diagnostics=None, resume=False, chunk=None):
        if worlds < 1:
            raise ValueError(f"worlds={worlds}; it must be at least 1")
        self.path, self.model, self.worlds = pathlib.Path(path), model, int(worlds)
        self.dtypes = {"q": "float32", "v": "float32", "time": "float64"} | dict(dtypes or {})
        row = self.worlds * max(model.nq, 1) * np.dtype(self.dtypes["q"]).itemsize
        self.chunk = int(chunk or np.clip(CHUNK_BYTES // row, 1, 1024))
        self._waiting: list[tuple] = []
        self._waiting_rows = 0
        if resume and self.path.exists():
            self._resume()
            return
        check_replaceable(self.path)
        with replacing(self.path) as new:  # so that what is there stays if this fails
            self._create(new, None if diagnostics is None else {n: np.dtype(d) for n, d in diagnostics.items()})
        self._root = _open(self.path, "r+")

    @property
    def frames(self) -> int:
        """Frames appended, on disk or not."""
        return self._committed + self._waiting_rows

    def append(self, q, v, time, diagnostics=None) -> None:
        """Append one frame or a block of frames; NumPy or Warp arrays."""
        block = {name: _host(value) for name, value in zip(STATE_NAMES, (q, v, time), strict=True)}
        if block["q"].ndim == 2:
            block = {name: value[None] for name, value in block.items()}
            diagnostics = {name: _host(value)[None] for name, value in (diagnostics or {}).items()}
        rows = len(block["q"])
        shapes = {
            "q": (rows, self.worlds, self.model.nq),
            "v": (rows, self.worlds, self.model.nv),
            "time": (rows, self.worlds),
        }
        for name, shape in shapes.items():
            if block[name].shape != shape:
                raise ValueError(
                    f"{name} has shape {block[name].shape}; {self.path} needs {shape} (leading axis optional)"
                )
        measured = self._measured(diagnostics, rows - (self.frames == 0))
        copy = {name: np.array(value, dtype=self.dtypes[name]) for name, value in block.items()}
        self._waiting.append((copy, measured))
        self._waiting_rows += rows
        if self._waiting_rows >= self.chunk:
            self.flush()

    def flush(self) -> None:
        """Put every appended frame on disk, then raise the frame count.

        Raises `OSError`, as on a full disk, after which the store holds the frames of the last flush.
        """
        if not self._waiting:
            return
        try:
            self._write_waiting()
        except OSError as error:
            why = f"{error.strerror or error}; the store holds {self._committed} frames"
            raise OSError(f"{self.path} could not be written: {why}") from error

    def _write_waiting(self) -> None:
        start, rows = self._committed, sum(len(block["q"]) for block, _ in self._waiting)
        for name in STATE_NAMES:
            _extend(self._root[name], start, np.concatenate([block[name] for block, _ in self._waiting]))
        for name, dtype in (self._diagnostics or {}).items():
            parts = [measured[name] for _, measured in self._waiting if measured]
            if parts:
                group = self._root["diagnostics"]
                if name not in group:
                    create_array(group, name, (0, self.worlds), dtype, (self.chunk, self.worlds))
                _extend(group[name], max(start - 1, 0), np.concatenate(parts))
        names = sorted(self._diagnostics or {})
        self._root.attrs.update({"frames": start + rows, "diagnostics": names})
        self._committed, self._waiting, self._waiting_rows = start + rows, [], 0  # at once, as seen by Ctrl-C

    def checkpoint(self, memory) -> None:
        """Flush, and store `memory` (name -> array: what a step reads besides q, v, time) as of the last frame."""
        self.flush()
        old = self._root.attrs.get("checkpoint")
        slot = 1 - old["slot"] if old else 0
        group = self._root.require_group("checkpoint").create_group(f"slot_{slot}", overwrite=True)
        for name, value in memory.items():
            put(group, name, _host(value))
        self._root.attrs.update({"checkpoint": {"slot": slot, "frame": self._committed, "names": sorted(memory)}})

    def last_checkpoint(self):
        """(frames, memory) of the last checkpoint, or None; cut to it with `truncate(frames)` before going on."""
        mark = self._root.attrs.get("checkpoint")
        if not mark or mark["frame"] > self._committed:
            return None
        group = self._root["checkpoint"][f"slot_{mark['slot']}"]
        return mark["frame"], {name: _read(self.path, lambda: group[name][...]) for name in mark["names"]}

    def last_state(self) -> dict[str, np.ndarray]:
        """q, v, time of the last frame on disk."""
        self.flush()
        if self._committed == 0:
            raise StoreError(f"{self.path}: the store holds no frames yet")
        return {n: _read(self.path, lambda: self._root[n][self._committed - 1]) for n in STATE_NAMES}

    def truncate(self, frames: int) -> None:
        """Drop every frame after the first `frames`."""
        self.flush()
        if not 0 <= frames <= self._committed:
            raise ValueError(f"truncate({frames}): {self.path} holds {self._committed} frames")
        self._root.attrs.update({"frames": int(frames)})
        self._committed = int(frames)
        self._cut()

    def close(self) -> None:
        """Put the rest on disk."""
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.close()
        except OSError:
            if kind is None:  # else the first error says more
                raise

    def _create(self, path: pathlib.Path, diagnostics) -> None:
        import zarr

        root = zarr.create_group(str(path), zarr_format=3)
        sizes = {"q": (self.model.nq,), "v": (self.model.nv,), "time": ()}
        for name, size in sizes.items():
            chunks = (self.chunk, self.worlds, *(max(n, 1) for n in size))
            create_array(root, name, (0, self.worlds, *size), self.dtypes[name], chunks)
        self._diagnostics = diagnostics
        root.create_group("diagnostics")
        for name, dtype in (diagnostics or {}).items():
            create_array(root["diagnostics"], name, (0, self.worlds), dtype, (self.chunk, self.worlds))
        model_to_group(self.model, root.create_group("model"))
        self._committed = 0
        root.attrs.update(  # last: a store without these attributes was never finished
            {
                "format": FORMAT,
                "version": VERSION,
                "frames": 0,
                "worlds": self.worlds,
                "diagnostics": sorted(diagnostics or {}),
                "model": self.model.name,
                "timestep": float(self.model.timestep),
            }
        )

    def _resume(self) -> None:
        self._root = _open(self.path, "r+")
        stored = (self._root.attrs["worlds"], self._root["q"].shape[-1], self._root["v"].shape[-1])
        wanted = (self.worlds, self.model.nq, self.model.nv)
        if stored != wanted:
            raise StoreError(
                f"{self.path}: holds (worlds, nq, nv) = {stored}, this rollout has {wanted}; choose another path, or delete the store"
            )
        self.dtypes = {name: str(self._root[name].dtype) for name in STATE_NAMES}
        self.chunk = int(self._root["q"].chunks[0])
        self._committed = int(self._root.attrs["frames"])
        group = self._root["diagnostics"]
        names = self._root.attrs["diagnostics"]
        self._diagnostics = {n: group[n].dtype for n in names} if self._committed > 1 or names else None
        self._cut()

    def _cut(self) -> None:
        for name in STATE_NAMES:
            array = self._root[name]
            array.resize((self._committed, *array.shape[1:]))
        for _, array in self._root["diagnostics"].arrays():
            array.resize((max(self._committed - 1, 0), self.worlds))

    def _measured(self, diagnostics, rows: int) -> dict:
        """Checked copies of `diagnostics`, each `(rows, worlds)`; the first that come fix the names."""
        found = {name: _host(value) for name, value in (diagnostics or {}).items()}
        if rows == 0:
            return {}
        if self._diagnostics is None:
            self._diagnostics = {name: value.dtype for name, value in found.items()}
        if set(found) != set(self._diagnostics):
            raise ValueError(
                f"diagnostics {sorted(found)} given, but {self.path} holds {sorted(self._diagnostics)}; give the same ones every step"
            )
        for name, value in found.items():
            if len(value) == rows + 1:  # a block that starts with the initial state may carry a row for it
                found[name] = value = value[1:]
            if value.shape != (rows, self.worlds):
                raise ValueError(
                    f"diagnostics[{name!r}] has shape {value.shape}; {self.path} needs {(rows, self.worlds)}"
                )
        return {name: np.array(value, dtype=self._diagnostics[name]) for name, value in found.items()}


def _open(path, mode: str):
    """The root group of a warpsim store, its format and version checked."""
    import zarr

    path = pathlib.Path(path)
    if not path.exists():
        raise StoreError(f"{path}: no such store")
    try:
        root = zarr.open_group(str(path), mode=mode, zarr_format=3)
        attributes = dict(root.attrs)
    except Exception as error:
        raise StoreError(
            f"{path}: not a Zarr v3 group ({error}); give the folder that `Trajectory.save` wrote"
        ) from error
    if attributes.get("format") != FORMAT:
        raise StoreError(f"{path}: a Zarr group, but not a warpsim trajectory (format is {attributes.get('format')!r})")
    if attributes.get("version") != VERSION:
        raise StoreError(
            f"{path}: store version {attributes.get('version')}, this warpsim reads {VERSION}; use the version that wrote it"
        )
    for name in ("frames", "worlds"):
        if type(attributes.get(name)) is not int or attributes[name] < 0:
            raise StoreError(f"{path}: {name} is {attributes.get(name)!r}; the store is damaged, record it again")
    for name in STATE_NAMES:
        if _read(path, lambda: root[name].shape[0]) < attributes["frames"]:
            raise StoreError(
                f"{path}: {name} has fewer rows than the {attributes['frames']} frames recorded; the store is damaged"
            )
    return root


def check_replaceable(path) -> pathlib.Path:
    """`path`, if a store can be written there: it is free, an empty folder, or a warpsim store and nothing else."""
    try:
        path = check_folder(path)
    except ValueError as error:
        raise StoreError(str(error)) from None
    if not path.is_dir() or not any(path.iterdir()):
        return path
    other = foreign(path, dict(_open(path, "r").attrs), STATE_NAMES)
    if other:
        raise StoreError(
            f"{path}: the store there is not replaced, because something else is in it: {other!r}; choose another path"
        )
    return path


def _read(path, read):
    """`read()`, with what goes wrong in a damaged store told as such."""
    try:
        return read()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path}: the store is damaged or incomplete ({type(error).__name__}: {error}); record it again"
        ) from error


def _rows(array, start: int, stop: int) -> np.ndarray:
    expected = 0 if 0 in array.shape else -(-stop // array.chunks[0])  # a chunk holds every world of its rows
    found = array.nchunks_initialized if expected else 0
    if found < expected:
        raise StoreError(f"{array.store_path}: {expected - found} of {expected} chunks are missing; record it again")
    return array[start:stop]


def _extend(array, start: int, rows: np.ndarray) -> None:
    array.resize((start + len(rows), *array.shape[1:]))
    if rows.size:
        full(array)[start:] = rows


def _host(value) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _dtype(array):
    return host_rows(array, [0]).dtype if len(array.shape) and array.shape[0] else np.dtype("float64")
