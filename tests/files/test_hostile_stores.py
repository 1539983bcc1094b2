# SPDX-License-Identifier: Apache-2.0
"""A store is data from somebody else: it runs no code, reads and writes nothing outside its folder, and takes no more memory than its files."""

import contextlib
import json
import os
import pathlib
import pickle
import shutil
import socket
import tracemalloc
import zipfile

import numcodecs
import numpy as np
import pytest

import warpsim as ws
from scenes.trajectories import rollout, small
from tests.files.test_store import begun, same
from warpsim.base.errors import StoreError
from warpsim.files.store.store import Commit, Store, has_geoms_of
from warpsim.jobs.resume import run_to_end
from warpsim.run.description import simulator_arguments
from warpsim.state.trajectory import Trajectory

V2 = {"zarr_format": 2, "dtype": "|O", "compressor": {"id": "pickle", "protocol": 5}, "fill_value": "", "order": "C"}
V2 |= {"filters": [{"id": "vlen-utf8"}], "dimension_separator": "."}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of 2 worlds that stopped after 3 of 5 steps, whole otherwise, and its trajectory."""
    path, t = tmp_path_factory.mktemp("made") / "a.zarr", rollout(*small(), worlds=2, steps=5)
    begun(path, t, [Commit(4, 3, 1)])
    return path, t


@pytest.fixture
def store(made, tmp_path):
    return pathlib.Path(shutil.copytree(made[0], tmp_path / "a.zarr"))


def edit(path, change) -> None:
    about = json.loads((path / "zarr.json").read_text())
    change(about)
    (path / "zarr.json").write_text(json.dumps(about))


def doors(path, t):
    """Every call that opens a store, by name."""
    yield "load", lambda: np.asarray(Trajectory.load(path).q)
    yield "resume", lambda: ws.resume(path)
    yield "fault", lambda: ws.load_fault(path)
    yield "save", lambda: t.save(path)
    yield "run", lambda: Store(path).kept(slice(0, 2), Commit(4, 3, 1))
    yield "geoms", lambda: has_geoms_of(path, t.model)


class Mark:
    """What a pickle of it does when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("place", ["consolidated", "member", "codec"])
def test_no_door_decodes_a_pickle(monkeypatch, made, store, place):
    """Metadata that names a pickle, in one file for all members, of format 2, or as a codec, is not followed, whatever numcodecs allows."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    mark, member = store.parent / "ran", store / "model" / "geom_size"
    about = json.loads((member / "zarr.json").read_text())
    v2 = V2 | {"shape": about["shape"], "chunks": about["shape"], "attributes": {}}
    if place == "consolidated":
        metadata = {str(f.parent.relative_to(store)): json.loads(f.read_text()) for f in store.glob("*/**/zarr.json")}
        metadata["model/geom_size"] = v2
        edit(
            store,
            lambda d: d.update(
                consolidated_metadata={"kind": "inline", "must_understand": False, "metadata": metadata}
            ),
        )
        (member / "0.0").write_bytes(pickle.dumps(Mark(mark)))
        same(Trajectory.load(store), Trajectory.load(made[0]))  # the members' own metadata are read
    elif place == "member":
        (member / "zarr.json").unlink()
        (member / ".zarray").write_text(json.dumps(v2))
        (member / "0.0").write_bytes(pickle.dumps(Mark(mark)))
    else:
        edit(
            member,
            lambda d: d.update(codecs=[d["codecs"][0], {"name": "numcodecs.pickle", "configuration": {"protocol": 5}}]),
        )
        (member / "c/0/0").write_bytes(pickle.dumps(Mark(mark)))
    if place != "consolidated":
        with pytest.raises(StoreError, match="geom_size"):
            Trajectory.load(store)
    for name, call in doors(store, made[1]):
        with contextlib.suppress(ValueError):
            call()
        assert not mark.exists(), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(zarr_format=2), "format 2"),
        (lambda d: d.update(node_type="group"), "besides"),
        (lambda d: d.update(storage_transformers=[{"name": "x"}]), "storage_transformers"),
        (lambda d: d.update(codecs=[d["codecs"][0], {"name": "gzip", "configuration": {"level": 9}}]), "gzip"),
        (
            lambda d: d.update(codecs=[{"name": "transpose", "configuration": {"order": [1, 0]}}, *d["codecs"]]),
            "transpose",
        ),
        (lambda d: d.update(codecs=[{"name": "vlen-utf8"}]), "vlen-utf8"),
        (lambda d: d["codecs"][1]["configuration"].update(cname="zlib"), "zlib"),
        (lambda d: d["codecs"][0]["configuration"].update(endian="big"), "big"),
        (lambda d: d.update(data_type="string"), "string"),
        (lambda d: d.update(data_type={"name": "numpy.datetime64", "configuration": {}}), "data_type"),
        (lambda d: d.update(data_type="complex128"), "complex128"),
        (lambda d: d.update(fill_value=7.0), "fill_value"),
        (lambda d: d.update(shape=[-1, 3]), "shape"),
        (lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[2**40, 3]), "chunk"),
        (
            lambda d: d.update(chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}}),
            "chunk_key_encoding",
        ),
        (lambda d: d.update(more={"must_understand": True}), "'more' besides"),
        (lambda d: d.pop("codecs"), "codecs"),
    ],
)
def test_metadata_are_of_a_list_of_ours(made, store, change, message):
    """Whatever no store has in its metadata is refused by the member and the value."""
    edit(store / "model" / "geom_size", change)
    with pytest.raises(StoreError, match=rf"model/geom_size.*{message}"):
        Trajectory.load(store)


def plant(kind: str, member: pathlib.Path, outside: pathlib.Path) -> None:
    """Put something in the place of a member."""
    if member.is_dir():
        shutil.copytree(member, outside, dirs_exist_ok=True)
        shutil.rmtree(member)
    elif member.exists():
        shutil.copy(member, outside.parent / "file")
        outside = outside.parent / "file"
        member.unlink()
    if kind == "link":
        member.symlink_to(outside)
    elif kind == "nowhere":
        member.symlink_to(outside.parent / "nowhere")
    elif kind == "pipe":
        os.mkfifo(member)
    else:
        here = os.getcwd()
        os.chdir(member.parent)  # a socket's path may not be long
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(member.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("kind", ["link", "nowhere", "pipe", "socket"])
@pytest.mark.parametrize(
    "name", ["zarr.json", "q", "v/c", "time/zarr.json", "model/geom_size/c/0/0", "checkpoint/slot_1/c", "mine/x"]
)
def test_no_member_is_a_link_or_a_pipe(made, store, name, kind):
    """However deep, before anything is read or written, and without waiting for the other end of a pipe."""
    outside, member = store.parent / "outside", store / name
    outside.mkdir()
    member.parent.mkdir(exist_ok=True)
    plant(kind, member, outside)
    before = sorted(outside.rglob("*")), os.lstat(member).st_ino
    for door, call in doors(store, made[1]):
        with pytest.raises(
            StoreError, match=rf"{name} is a {'pipe' if kind == 'pipe' else 'socket' if kind == 'socket' else 'link'}"
        ):
            call()
        assert (sorted(outside.rglob("*")), os.lstat(member).st_ino) == before, door


def test_links_planted_while_a_store_is_open(made, store):
    """Every read and every write looks again: of a chunk, of metadata, and of what a source says of itself."""
    outside, t = store.parent / "outside", made[1]
    outside.mkdir()
    opened, read = Store(store), Trajectory.load(store)
    rows = {name: np.asarray(getattr(t, name))[:2] for name in ("q", "v", "time")}
    rows |= {name: np.asarray(a)[:2] for name, a in t.diagnostics.items()}
    for name in ("q/c", "sources", "commits/c", "checkpoint/slot_0"):
        if not (store / name).exists():
            (store / name).mkdir()
        shutil.rmtree(store / name)
        (store / name).symlink_to(outside)
    writes = [
        lambda: opened.write(0, slice(0, 2), rows),
        lambda: opened.commit(slice(0, 2), Commit(5, 4, 0)),
        lambda: opened.keep(slice(0, 2), 0, np.zeros((2, t.q[0, 0].nbytes), np.uint8), None, -1),
        lambda: opened.keep(slice(0, 2), 1, np.zeros((2, t.q[0, 0].nbytes), np.uint8), {"a": 1}, 0),
        lambda: np.asarray(read.q),
        opened.commits,
    ]
    for write in writes:
        with pytest.raises(StoreError, match="is a link"):
            write()
    assert not list(outside.iterdir())


def lie(path, name: str, shape, chunk=None) -> None:
    """Metadata of an array of another shape."""

    def change(about) -> None:
        about["shape"] = list(shape)
        about["chunk_grid"]["configuration"]["chunk_shape"] = [max(1, n) for n in chunk or shape]

    edit(path / name, change)


def frames(path) -> None:
    for name in ("q", "v", "time", *(f"diagnostics/{f.name}" for f in (path / "diagnostics").iterdir() if f.is_dir())):
        edit(path / name, lambda d: d["shape"].__setitem__(0, 10**9))
    edit(path, lambda d: d["attributes"].update(frames=10**9, run=None))
    import zarr

    zarr.open_group(str(path), mode="r+")["commits"][...] = np.array([[10**9, 5, 0, -1]])


def worlds(path) -> None:
    count = 10**10
    for name in ("q", "v", "time", *(f"diagnostics/{f.name}" for f in (path / "diagnostics").iterdir() if f.is_dir())):
        edit(
            path / name,
            lambda d: (
                d["shape"].__setitem__(1, count),
                d["chunk_grid"]["configuration"]["chunk_shape"].__setitem__(1, count),
            ),
        )
    edit(
        path / "checkpoint/slot_1",
        lambda d: (
            d["shape"].__setitem__(0, count),
            d["chunk_grid"]["configuration"]["chunk_shape"].__setitem__(0, count),
        ),
    )
    edit(path, lambda d: d["attributes"].update(worlds=count, column=count))


def columns(path) -> None:
    for name in ("q", "v", "time", *(f"diagnostics/{f.name}" for f in (path / "diagnostics").iterdir() if f.is_dir())):
        edit(
            path / name,
            lambda d: (
                d["shape"].__setitem__(1, 10**9),
                d["chunk_grid"]["configuration"]["chunk_shape"].__setitem__(1, 1),
            ),
        )
    lie(path, "commits", (10**9, 4), (1, 4))
    edit(path, lambda d: d["attributes"].update(worlds=10**9, column=1))


def head(path, name: str) -> None:
    """The head of a chunk tells of 2 GB, as does the array."""
    chunk = next(f for f in (path / name / "c").rglob("*") if f.is_file())
    data = bytearray(chunk.read_bytes())
    data[4:8] = (2**31 - 8).to_bytes(4, "little")
    chunk.write_bytes(bytes(data))


LIES = {
    "frames": frames,
    "worlds": worlds,
    "columns": columns,
    "block": lambda p: edit(p, lambda d: d["attributes"].update(block=6 * 10**8)),
    "table": lambda p: lie(p, "model/gravity", (2**28,)),
    "many chunks": lambda p: lie(p, "model/gravity", (2**40,), (3,)),
    "rows": lambda p: lie(p, "model/geom_size", (2**20, 2**8)),
    "head": lambda p: (lie(p, "model/gravity", (2**28 - 1,)), head(p, "model/gravity")),
    "head alone": lambda p: head(p, "model/gravity"),
    "sparse": lambda p: os.truncate(p / "model/gravity/c/0", 2**40),
    "sparse metadata": lambda p: os.truncate(p / "model/gravity/zarr.json", 2**40),
    "diagnostics": lambda p: edit(p, lambda d: d["attributes"].update(diagnostics=["../../q"])),
}


@pytest.mark.parametrize("name", LIES)
def test_a_store_takes_no_more_memory_than_its_files(made, store, name):
    """A shape, a head, a length or a count that nothing stands for is refused before there is memory for it."""
    LIES[name](store)
    for door, call in doors(store, made[1]):
        tracemalloc.start()
        try:
            must = pytest.raises(StoreError, match=r"a\.zarr")
            with must if door in ("load", "resume", "fault") else contextlib.suppress(StoreError, TypeError):
                call()
            assert tracemalloc.get_traced_memory()[1] < 2**25, door
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("name", ["max_contacts", "max_polygons"])
def test_a_simulator_from_a_store_has_no_more_places_than_its_model_has_use_for(store, name):
    """Places for contacts are made at once, for every world."""
    kept = {
        "dt": 0.01,
        "dtype": "float32",
        "device": "cpu",
        "max_contacts": 64,
        "recovery_speed": None,
        "requires_grad": False,
    }
    kept |= {
        "solver": {"class": "SAP", "options": {}},
        "integrator": {"class": "SymplecticEuler", "options": {}},
        name: 10**9,
    }
    edit(store, lambda d: d["attributes"]["run"].update(simulator=kept))
    edit(store, lambda d: d["attributes"]["run"].update(layout=[["q", "<f8", [16]], ["steps", "<i8", []]]))
    with pytest.raises(ValueError, match=rf"a\.zarr: {name} is 1e\+09 in the store"):
        simulator_arguments(kept, store, None, small()[1])
    run = Store(store)
    run.kept = lambda *which: ({"steps": np.full(2, 3)}, None)
    with pytest.raises(ValueError, match=rf"a\.zarr: {name} is 1e\+09 in the store"):
        run_to_end(run, slice(0, 2), Commit(4, 3, 1), None)


# of two writers -------------------------------------------------------------------------------------------------------


class Meanwhile:
    """Controls during whose second step somebody else does something."""

    def __init__(self, action):
        self.action, self.steps = action, 0

    def __call__(self, state):
        self.steps += 1
        if self.steps == 2:
            self.action()

    def state_dict(self):
        return {}

    def load_state_dict(self, kept):
        pass


@pytest.fixture(scope="module")
def sim():
    return ws.Simulator(swing(), worlds=2, device="cpu")


def swing():
    b = ws.ModelBuilder("swing")
    rod = b.add_body("rod", mass=1, inertia=[1, 1, 1])
    b.add_joint(rod, "hinge", axis=[0, 1, 0])
    return b.build()


def test_a_store_has_one_writer(sim, tmp_path):
    """While a run writes a store, another run, a save and a resume into it are refused, and its bits are those of a run alone."""
    path, refused = tmp_path / "a.zarr", []

    def others() -> None:
        alone = sim.rollout(sim.state(), None, 3)
        for call in (
            lambda: sim.rollout(sim.state(), None, 3, store=path),
            lambda: alone.save(path),
            lambda: ws.resume(path, Meanwhile(lambda: None)),
        ):
            with pytest.raises(StoreError, match=r"a\.zarr.*(another process|interrupted)") as caught:
                call()
            refused.append(str(caught.value))
        assert Trajectory.load(path).worlds == 2  # to read is free

    stored = sim.rollout(sim.state(), Meanwhile(others), 6, store=path)
    assert len(refused) == 3 and "another process" in refused[2]
    same(Trajectory(stored.model, *(np.asarray(x) for x in (stored.q, stored.v, stored.time))), sim_alone(sim, 6))
    assert ws.resume(path).frames == 7 and [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def sim_alone(sim, steps):
    found = sim.rollout(sim.state(), None, steps)
    return Trajectory(found.model, *(np.asarray(x.numpy()) for x in (found.q, found.v, found.time)))


@pytest.mark.parametrize("before", ["nothing", "a whole store"])
@pytest.mark.parametrize("other", ["run", "save"])
def test_of_two_new_stores_the_second_is_refused(monkeypatch, sim, tmp_path, other, before):
    """Both find the path free, or a store that may be replaced; the one that comes second, however late it sees that, is refused, and the first stays."""
    path, kept = tmp_path / "a.zarr", sim_alone(sim, 4)
    if before != "nothing":
        sim_alone(sim, 2).save(path)
    from warpsim.run import streaming

    begin = streaming.begin_store

    def first(*arguments, **options) -> None:
        begin(*arguments, **options)
        monkeypatch.setattr(streaming, "begin_store", begin)
        if other == "save":
            kept.save(path)
        else:
            sim.rollout(sim.state(), None, 4, store=path)

    monkeypatch.setattr(streaming, "begin_store", first)
    with pytest.raises(StoreError, match=r"a\.zarr: another process has made a store there"):
        sim.rollout(sim.state(), None, 9, store=path)
    assert Trajectory.load(path).frames == 5 and [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_path_stays_free_where_a_store_could_not_be_moved_to_it(monkeypatch, sim, tmp_path):
    """Whole or absent: nothing stands for a store that did not come."""
    from warpsim.files import output

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "_move", fail)
    with pytest.raises(OSError, match="No space left"):
        sim.rollout(sim.state(), None, 3, store=tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())


# by URL ---------------------------------------------------------------------------------------------------------------


def test_a_url_to_folders_of_this_machine_is_refused(store):
    """A cache in front of a folder would follow its links."""
    for url in (f"simplecache::file://{store}", f"filecache::local://{store}"):
        with pytest.raises(StoreError, match="leads to folders of this machine; give the folder"):
            Trajectory.load(url)


@pytest.mark.always
def test_an_archive_is_no_larger_than_its_bytes_can_be(made, tmp_path):
    """A store in a zip file is read; a member that inflates to what its packed bytes cannot stand for is not."""
    for name, bomb in (("a.zip", False), ("b.zip", True)):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in made[0].rglob("*"):
                key = str(file.relative_to(made[0]))
                if bomb and key == "model/gravity/zarr.json":
                    about = json.loads(file.read_text())
                    about["shape"] = about["chunk_grid"]["configuration"]["chunk_shape"] = [2**26]
                    packed.writestr(key, json.dumps(about | {"codecs": about["codecs"][:1]}))
                elif bomb and key == "model/gravity/c/0":
                    packed.writestr(key, bytes(2**29))
                elif file.is_file():
                    packed.write(file, key)
    same(Trajectory.load(f"zip::file://{tmp_path}/a.zip"), Trajectory.load(made[0]))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match="gravity"):
            Trajectory.load(f"zip::file://{tmp_path}/b.zip")
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
