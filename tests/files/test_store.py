# SPDX-License-Identifier: Apache-2.0
"""Zarr stores: exact round trips, appending and resuming, and clear words about bad stores."""

import dataclasses
import functools
import json
import operator
import pathlib
import re
import shutil
import zipfile

import numpy as np
import pytest

from scenes.trajectories import asset, rollout, small
from warpsim.files.store.layout import Layout
from warpsim.files.store.place import StoreError
from warpsim.files.store.store import Commit, Store
from warpsim.model.builder import ModelBuilder
from warpsim.state.trajectory import Trajectory

DATA = pathlib.Path(__file__).parent.parent / "reference" / "data"


def same_model(a, b):
    for field in dataclasses.fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), field.name
        elif field.name == "meshes":
            assert [m.name for m in x] == [m.name for m in y]
            assert all(
                np.array_equal(m.vertices, n.vertices) and np.array_equal(m.faces, n.faces)
                for m, n in zip(x, y, strict=True)
            )
        elif field.name == "hfields":
            assert [h.name for h in x] == [h.name for h in y]
            assert all(
                np.array_equal(p, r) for h, i in zip(x, y, strict=True) for p, r in zip(h[1:], i[1:], strict=True)
            )
        elif field.name == "keyframes":
            assert list(x) == list(y)
            assert all(np.array_equal(p, r) for k in x for p, r in zip(x[k], y[k], strict=True))
        else:
            assert x == y and type(x) is type(y), field.name


def same(a, b):
    for name in ("q", "v", "time"):
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype == y.dtype and np.array_equal(x, y), name
    assert set(a.diagnostics) == set(b.diagnostics)
    for name, value in a.diagnostics.items():
        assert value.dtype == b.diagnostics[name].dtype and np.array_equal(value, b.diagnostics[name]), name


@pytest.mark.always
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip_is_exact(tmp_path, dtype):
    """Every array comes back bit for bit, with a model equal field by field; saving again replaces the store."""
    t = rollout(*small(), worlds=3, steps=11)
    t = Trajectory(t.model, t.q.astype(dtype), t.v.astype(dtype), t.time, t.diagnostics)
    for _ in range(2):
        t.save(tmp_path / "a.zarr")
    back = Trajectory.load(tmp_path / "a.zarr")
    same(t, back)
    same_model(t.model, back.model)
    assert np.array_equal(back.poses(), t.poses())
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_model_with_meshes_keyframes_and_nothing_else(tmp_path):
    """Meshes, keyframes, infinities and empty arrays survive."""
    b = ModelBuilder("mesh")
    body = b.add_body("rock", pose=[0, 0, 1], mass=1, inertia=[1, 1, 1])
    b.add_joint(body, "free")
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    b.add_geom("mesh", body=body, mesh=(corners, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])), density=0)
    b.add_keyframe("home", np.array([0, 0, 2, 1, 0, 0, 0.0]))
    model = b.build()
    t = Trajectory(model, model.q0[None, None], np.zeros((1, 1, 6)), np.zeros((1, 1)))
    t.save(tmp_path / "m.zarr")
    same_model(model, Trajectory.load(tmp_path / "m.zarr").model)


def begun(path, t, commits, column=None):
    """A store of a run of trajectory `t` of which the columns have those commits; rows beyond them are there too, as after a crash."""
    diagnostics = {name: array.dtype for name, array in t.diagnostics.items()}
    dtypes = {name: getattr(t, name).dtype for name in ("q", "v", "time")}
    layout = Layout.of({"q": t.q[0]})
    run = {"steps": t.steps, "every": 1, "substeps": 1, "controls": {"kind": "none"}, "divided": True}
    run |= {"simulator": {}, "fingerprint": {}}
    options = {"dtypes": dtypes, "diagnostics": diagnostics, "layout": layout, "run": run, "column": column}
    Store.create(path, t.model, t.worlds, t.frames, **options)
    store = Store(path)
    rows = {name: np.array(getattr(t, name)) for name in ("q", "v", "time")}
    rows |= {name: np.concatenate([np.zeros_like(a[:1]), a]) for name, a in t.diagnostics.items()}
    for worlds, commit in zip(store.columns(), commits, strict=True):
        stop = min(commit.frames + 2, t.frames)
        store.write(0, worlds, {name: array[:stop, worlds] for name, array in rows.items()})
        if commit.slot >= 0:
            store.keep(worlds, commit.slot, layout.pack({"q": rows["q"][commit.frames - 1, worlds]}), None, -1)
        store.commit(worlds, commit)
    return store


def test_only_what_every_column_has_committed_is_read(tmp_path):
    """Columns of worlds grow by themselves; frames that were written but not committed are not seen; checkpoints belong to commits."""
    t = rollout(*small(), worlds=5, steps=20)
    commits = [Commit(9, 8, 1), Commit(7, 6, 0), Commit(21, 20, 0)]
    store = begun(tmp_path / "c.zarr", t, commits, column=2)
    back = Trajectory.load(tmp_path / "c.zarr")
    assert (
        back.frames == 7 and store.commits() == commits and store.columns() == [slice(0, 2), slice(2, 4), slice(4, 5)]
    )
    for name in ("q", "v", "time"):
        assert np.array_equal(getattr(back, name), getattr(t, name)[:7])
    for worlds, commit in zip(store.columns(), commits, strict=True):
        assert np.array_equal(store.kept(worlds, commit)[0]["q"], t.q[commit.frames - 1, worlds])


def test_stores_of_version_1_are_read(tmp_path):
    """A store written by warpsim 0.1.0 comes back bit for bit, and may be replaced."""
    with zipfile.ZipFile(DATA / "store_version_1.zip") as packed:
        packed.extractall(tmp_path)
    back, expected = Trajectory.load(tmp_path / "old.zarr"), np.load(tmp_path / "expected.npz")
    for name in ("q", "v", "time"):
        assert np.array_equal(getattr(back, name), expected[name])
    for name in back.diagnostics:
        assert np.array_equal(back.diagnostics[name], expected[f"d_{name}"])
    back.save(tmp_path / "new.zarr")
    same(back, Trajectory.load(tmp_path / "new.zarr"))
    Trajectory.load(tmp_path / "new.zarr").save(tmp_path / "old.zarr")
    same(Trajectory.load(tmp_path / "new.zarr"), Trajectory.load(tmp_path / "old.zarr"))
    Trajectory.load(tmp_path / "old.zarr").save(tmp_path / "old.zarr")  # over itself
    same(Trajectory.load(tmp_path / "new.zarr"), Trajectory.load(tmp_path / "old.zarr"))


def test_stored_arrays_read_like_arrays(tmp_path):
    """Indices, slices, arithmetic and methods of a stored array give what NumPy gives of the same numbers."""
    t = rollout(*small(), worlds=4, steps=12)
    t.save(tmp_path / "a.zarr")
    q, stored = t.q, Trajectory.load(tmp_path / "a.zarr").q
    assert stored.shape == q.shape and stored.dtype == q.dtype and stored.ndim == 3 and len(stored) == 13
    assert stored.size == q.size and stored.nbytes == q.nbytes and "StoredArray" in repr(stored)
    keys = [
        0,
        -1,
        np.int64(3),
        slice(2, 7),
        slice(None, None, 3),
        slice(9, 2),
        slice(None, None, -1),
        ...,
        [1, 4],
        np.array([0, 2]),
    ]
    keys += [
        (0, 1),
        (slice(1, 9, 2), slice(1, 3), 0),
        (..., 2),
        (-1, -1, -1),
        (slice(None), [0, 2]),
        q[:, 0, 0] > 0,
        (2, slice(None, None, -1)),
    ]
    for key in keys:
        np.testing.assert_array_equal(stored[key], q[key], err_msg=str(key))
    for wrong in (13, -14):
        with pytest.raises(IndexError):
            stored[wrong]
    np.testing.assert_array_equal(2 * stored - q, q)
    assert (stored == q).all() and stored.max() == q.max() and np.sum(stored) == q.sum() and stored.T.shape == q.T.shape
    assert [row[0, 0] for row in stored] == [row[0, 0] for row in q]
    with pytest.raises(AttributeError):
        _ = stored.frames


def test_a_url_is_a_place_for_a_store():
    """fsspec's stores take and give the same bits, are replaced when whole, and what is wrong with a URL is one line."""
    t = rollout(*small(), worlds=2, steps=5)
    for _ in range(2):
        t.save("memory://warpsim-test/a.zarr")
    same(t, Trajectory.load("memory://warpsim-test/a.zarr"))
    with pytest.raises(StoreError, match="would be deleted before it is read"):
        Trajectory.load("memory://warpsim-test/a.zarr").save("memory://warpsim-test/a.zarr")
    same(t, Trajectory.load("memory://warpsim-test/a.zarr"))
    with pytest.raises(StoreError, match="not a Zarr v3 group"):
        Trajectory.load("memory://warpsim-test/none.zarr")
    with pytest.raises(ValueError, match="nowhere"):
        t.save("nowhere://bucket/a.zarr")


def test_a_url_with_something_else_is_not_replaced(tmp_path):
    """What is deleted to make room is a store and nothing else, by whatever name it is called; `file://` is a folder as any other."""
    import fsspec

    t, memory = rollout(*small(), worlds=2, steps=5), fsspec.filesystem("memory")
    with memory.open("/warpsim-other/cat.jpg", "wb") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match=r"something else is in it: 'cat\.jpg'"):
        t.save("memory://warpsim-other")
    t.save("memory://warpsim-test/b.zarr")
    memory.pipe("/warpsim-test/b.zarr/notes.txt", b"x")
    with pytest.raises(StoreError, match="notes"):
        t.save("memory://warpsim-test/b.zarr")
    assert memory.cat("/warpsim-other/cat.jpg") == memory.cat("/warpsim-test/b.zarr/notes.txt") == b"x"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("x")
    for url in (f"file://{tmp_path}/photos", f"local://{tmp_path}/photos"):
        with pytest.raises(StoreError):
            t.save(url)
    assert (tmp_path / "photos" / "cat.jpg").exists()
    for _ in range(2):
        t.save(f"file://{tmp_path}/a.zarr")
    same(t, Trajectory.load(tmp_path / "a.zarr"))


FORGED = {
    "column": (0, -1, 10**9, "x", None, 2.5, True),
    "block": (0, 10**9, "x", None),
    "frames": (0, 1, 10**9, "x", None),
    "worlds": (0, 1, 10**9, "x", None),
    "diagnostics": (["nope"], "x", None, [1]),
    "run": ({}, [], "x"),
    "run steps": (0, 10**9, "x", None),
    "run substeps": (0, "x", 2.5),
    "run every": (0, 2, "x"),
    "run divided": ("x", 1),
    "run controls": ({}, None, "x", {"kind": "nope"}, {"kind": "random", "options": None}),
    "run layout": (None, [], {}, [["q", "O", [15]]], [["q", "<f4", [-1]]], "x"),
    "run simulator": (None, "x"),
    "run fingerprint": (None, []),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_store_that_says_wrong_things_of_itself(tmp_path, name):
    """Each is one line that names the store, before an array is made of it."""
    import warpsim as ws

    sim = ws.Simulator(small()[1], 3, device="cpu")
    sim.rollout(sim.state(), ws.RandomControls(), 8, store=tmp_path / "a.zarr")
    head = tmp_path / "a.zarr" / "zarr.json"
    whole = head.read_text()
    for value in FORGED[name]:
        forged = json.loads(whole)
        *tables, last = ["attributes", *name.split()]
        table = functools.reduce(operator.getitem, tables, forged)
        table[last] = value
        head.write_text(json.dumps(forged))
        for use in (Trajectory.load, ws.resume):
            with pytest.raises(StoreError, match=r"a\.zarr") as caught:
                use(tmp_path / "a.zarr")
            assert "\n" not in str(caught.value)


def test_bad_stores_are_named(tmp_path):
    """Missing, foreign, of another version, damaged, empty, or of another model: one clear sentence each."""
    import zarr

    t = rollout(*small(), worlds=2, steps=3)
    with pytest.raises(StoreError, match="no such store"):
        Trajectory.load(tmp_path / "none.zarr")
    (tmp_path / "text.zarr").write_text("hello")
    with pytest.raises(StoreError, match="not a Zarr v3 group"):
        Trajectory.load(tmp_path / "text.zarr")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(StoreError):
        t.save(tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.jpg").exists()
    zarr.create_group(str(tmp_path / "foreign.zarr"), zarr_format=3)
    for action in (Trajectory.load, t.save):
        with pytest.raises(StoreError, match="not a warpsim trajectory"):
            action(tmp_path / "foreign.zarr")
    with pytest.raises(StoreError, match="does not exist"):
        t.save(tmp_path / "no" / "folder.zarr")

    path = tmp_path / "t.zarr"
    t.save(path)
    with pytest.raises(StoreError, match="needs"):
        Trajectory.load(path, model=ModelBuilder("empty").build())
    attributes = json.loads((path / "zarr.json").read_text())
    attributes["attributes"]["version"] = 99
    whole = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(json.dumps(attributes))
    with pytest.raises(StoreError, match="version 99"):
        Trajectory.load(path)
    (path / "zarr.json").write_text(whole)
    for chunk in (path / "v" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(StoreError, match="damaged"):
        Trajectory.load(path).v.numpy()
    for chunk in (path / "v" / "c").rglob("*"):
        if chunk.is_file():
            chunk.unlink()
    with pytest.raises(StoreError, match="missing"):
        Trajectory.load(path)
    begun(tmp_path / "new.zarr", t, [Commit()])
    with pytest.raises(StoreError, match="no frames"):
        Trajectory.load(tmp_path / "new.zarr")
    with pytest.raises(StoreError, match="interrupted after 0 of 3 steps"):
        t.save(tmp_path / "new.zarr")


def test_height_fields_come_back(tmp_path):
    """A model with height fields is stored and read, and steps to the same bits."""
    import warpsim as ws

    b = ModelBuilder("hills")
    rng = np.random.default_rng(0)
    b.add_geom("hfield", hfield=([1.0, 2.0, 0.1, 0.2], rng.random((5, 7))), name="hills")
    b.add_geom("hfield", hfield=([0.5, 0.5, 0.2, 0.1], rng.random((3, 3))), name="more", pose=[3, 0, 0, 1, 0, 0, 0])
    body = b.add_body("ball", pose=[0.1, 0.2, 0.3])
    b.add_joint(body, "free")
    b.add_geom("sphere", [0.1], body=body)
    sim = ws.Simulator(b.build(), device="cpu")
    rolled = sim.rollout(sim.state(), steps=30)
    rolled.save(tmp_path / "a.zarr")
    back = Trajectory.load(tmp_path / "a.zarr")
    same_model(sim.model, back.model)
    other = ws.Simulator(back.model, device="cpu")
    again = other.rollout(other.state(), steps=30)
    assert again.diagnostics["contacts"].numpy().max() > 0
    np.testing.assert_array_equal(again.q.numpy(), rolled.q.numpy())


@pytest.mark.parametrize("name", ["a.partial", ".a.partial", "notes"])
def test_a_folder_of_that_name_is_never_deleted(tmp_path, name):
    """Whatever it is called, a folder that is no store stays."""
    t = rollout(*small(), worlds=2, steps=2)
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").write_text("keep")
    with pytest.raises(StoreError, match="not a Zarr v3 group"):
        t.save(tmp_path / name)
    assert (tmp_path / name / "thesis.txt").read_text() == "keep" and len(list(tmp_path.iterdir())) == 1


def test_a_store_with_something_else_in_it_is_not_replaced(tmp_path):
    """Notes that somebody keeps in the store's folder stay, and the message names them."""
    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "notes.txt").write_text("keep")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        t.save(tmp_path / "a.zarr")
    assert (tmp_path / "a.zarr" / "notes.txt").read_text() == "keep"
    same(t, Trajectory.load(tmp_path / "a.zarr"))


FOREIGN = (
    [
        "q/mine.txt",
        "q/c/mine.txt",
        "q/c/0/mine",
        "v/c/0/0/extra.npy",
        "time/.hidden",
        "model/notes.txt",
        "model/zarr.json~",
    ]
    + ["model/my_array/zarr.json", "diagnostics/mine.csv", "diagnostics/other/zarr.json", "diagnostics/contacts/c/a/0"]
    + ["checkpoint/mine", "checkpoint/slot_2/zarr.json", "checkpoint/slot_0/mine", "checkpoint/slot_0/impulse/a.txt"]
    + ["commits/mine", "controls/c/0/0/a.txt", "sources/slot_0/mine", "sources/slot_3/zarr.json"]
    + ["c/0", "mine/q/zarr.json"]
)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_something_else_anywhere_in_a_store_stays(tmp_path, kind):
    """However deep, whatever no store holds keeps the store from being replaced, and the message names it."""
    t = rollout(*small(), worlds=2, steps=2)
    begun(tmp_path / "whole", t, [Commit(3, 2, 0)])
    for number, name in enumerate(FOREIGN):
        path = shutil.copytree(tmp_path / "whole", tmp_path / f"{number}.zarr")
        mine = path / name
        mine.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            mine.write_text("keep")
        elif kind == "folder":
            (mine / "in").mkdir(parents=True)
        else:
            mine.symlink_to(tmp_path)
        with pytest.raises(StoreError, match="is a link" if kind == "link" else "something else is in it") as caught:
            t.save(path)
        found = re.search(r"in it: '(.*)';|\.zarr/(.*) is a link", str(caught.value))
        assert name.startswith(found.group(1) or found.group(2))
        assert mine.is_symlink() or mine.is_dir() or mine.read_text() == "keep"


def test_whatever_a_store_holds_may_be_replaced(tmp_path):
    """Chunks in plenty, checkpoints in both slots, what a callable said, controls, meshes, key frames, and what a killed process
    leaves of a file: all are the store's own, so that it is replaced."""
    model = asset("humanoid")[1]
    t = rollout(*small(), worlds=2, steps=20)
    frames = Trajectory(model, np.zeros((21, 2, model.nq)), np.zeros((21, 2, model.nv)), np.zeros((21, 2)))
    for each in (frames, t):
        store = begun(tmp_path / "a.zarr", each, [Commit(21, 20, 1)])
        for version in range(3):
            store.keep(
                slice(0, 2), version % 2, np.zeros((2, each.q[0, 0].nbytes), np.uint8), {"version": version}, version
            )
        store.root.create_array("controls", shape=(20, 2, 1), dtype="float32", chunks=(4, 2, 1))[...] = np.ones(
            (20, 2, 1)
        )
        for part in ("zarr", "q/zarr", "v/c/0/0/0"):
            path = tmp_path / "a.zarr" / part
            path.with_suffix(f".{'0a' * 16}.partial").write_text("")
        t.save(tmp_path / "a.zarr")
        same(t, Trajectory.load(tmp_path / "a.zarr"))
        shutil.rmtree(tmp_path / "a.zarr")


def test_a_store_stays_when_its_successor_cannot_be_begun(tmp_path, monkeypatch):
    """A store is replaced once the new one is there: an error before that leaves the old one."""
    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("warpsim.files.store.store.model_to_group", fail)
    with pytest.raises(OSError, match="No space left"):
        t.save(tmp_path / "a.zarr")
    monkeypatch.undo()
    same(t, Trajectory.load(tmp_path / "a.zarr"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize(
    ("name", "where", "value"),
    [
        ("geom_body", 1, 10**6),
        ("pair_geom", (0, 1), -1),
        ("link_parent", 2, 5),
        ("joint_q", 0, 10**6),
        ("tree_v", 1, 10**6),
        ("dof_parent", 3, 99),
        ("geom_type", 1, 77),
        ("body_link", 0, -7),
    ],
)
def test_a_stored_model_with_an_index_out_of_range_is_refused(tmp_path, name, where, value):
    """Kernels trust the tables of a model: a damaged or forged one is refused on reading, by field and value."""
    import zarr

    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")
    zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")["model"][name][where] = value
    with pytest.raises(StoreError, match=name):
        Trajectory.load(tmp_path / "a.zarr")


def test_a_stored_model_with_too_few_rows_is_refused(tmp_path):
    """Tables of different lengths are refused by name."""
    import zarr

    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")
    zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")["model"]["geom_friction"].resize((1,))
    with pytest.raises(StoreError, match="geom_friction"):
        Trajectory.load(tmp_path / "a.zarr")
    t.save(tmp_path / "a.zarr")
    zarr.open_group(str(tmp_path / "a.zarr"), mode="r+").attrs.update({"frames": "many"})
    with pytest.raises(StoreError, match="frames is 'many'"):
        Trajectory.load(tmp_path / "a.zarr")
