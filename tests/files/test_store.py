"""Zarr stores: exact round trips, appending and resuming, and clear words about bad stores."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from scenes.trajectories import asset, rollout, small
from warpsim.files.store.store import StoreError, StoreWriter
from warpsim.model.builder import ModelBuilder
from warpsim.trajectory import Trajectory


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


def test_appending_in_any_portions_equals_saving(tmp_path):
    """Single frames, blocks and a resumed writer give the same store as `save`."""
    t = rollout(*small(), worlds=2, steps=20)
    dtypes = {name: "float64" for name in ("q", "v", "time")}
    with StoreWriter(tmp_path / "s.zarr", t.model, 2, dtypes=dtypes, chunk=4) as store:
        store.append(t.q[0], t.v[0], t.time[0])
        for i in range(1, 8):
            store.append(t.q[i], t.v[i], t.time[i], {n: a[i - 1] for n, a in t.diagnostics.items()})
        store.append(t.q[8:11], t.v[8:11], t.time[8:11], {n: a[7:10] for n, a in t.diagnostics.items()})
    with StoreWriter(tmp_path / "s.zarr", t.model, 2, resume=True) as store:
        assert store.frames == 11 and np.array_equal(store.last_state()["q"], t.q[10])
        store.append(t.q[11:], t.v[11:], t.time[11:], {n: a[10:] for n, a in t.diagnostics.items()})
    same(t, Trajectory.load(tmp_path / "s.zarr"))


def test_a_crash_loses_only_what_was_not_committed(tmp_path):
    """Rows beyond the committed count are dropped on opening, and a checkpoint says where to go on."""
    t = rollout(*small(), worlds=2, steps=20)
    dtypes = {name: "float64" for name in ("q", "v", "time")}
    path = tmp_path / "c.zarr"
    store = StoreWriter(path, t.model, 2, dtypes=dtypes, chunk=4)
    store.append(t.q[:7], t.v[:7], t.time[:7], {n: a[:6] for n, a in t.diagnostics.items()})
    store.checkpoint({"impulse": np.arange(6.0), "empty": np.zeros((0, 3))})
    store.append(t.q[7:12], t.v[7:12], t.time[7:12], {n: a[6:11] for n, a in t.diagnostics.items()})
    store.append(t.q[12], t.v[12], t.time[12], {n: a[11] for n, a in t.diagnostics.items()})
    root = store._root  # a write cut short: one array already longer than the committed count
    root["q"].resize((15, 2, t.model.nq))
    del store

    assert Trajectory.load(path).frames == 12
    with StoreWriter(path, t.model, 2, resume=True) as store:
        assert store.frames == 12 and store._root["q"].shape[0] == 12
        frames, memory = store.last_checkpoint()
        assert frames == 7 and np.array_equal(memory["impulse"], np.arange(6.0)) and memory["empty"].shape == (0, 3)
        store.truncate(frames)
        store.append(t.q[7:], t.v[7:], t.time[7:], {n: a[6:] for n, a in t.diagnostics.items()})
        store.checkpoint({"impulse": np.zeros(1)})
        assert store.last_checkpoint()[0] == 21
    same(t, Trajectory.load(path))


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
    with pytest.raises(StoreError, match="worlds, nq, nv"):
        StoreWriter(path, t.model, 3, resume=True)
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
        Trajectory.load(path)
    for chunk in (path / "v" / "c").rglob("*"):
        if chunk.is_file():
            chunk.unlink()
    with pytest.raises(StoreError, match="missing"):
        Trajectory.load(path)
    StoreWriter(tmp_path / "new.zarr", t.model, 2).close()
    with pytest.raises(StoreError, match="no frames"):
        Trajectory.load(tmp_path / "new.zarr")


def test_wrong_rows_are_named(tmp_path):
    """Shapes and sets of diagnostics are checked before anything is written."""
    t = rollout(*small(), worlds=2, steps=3)
    store = StoreWriter(tmp_path / "w.zarr", t.model, 2)
    with pytest.raises(ValueError, match="v has shape"):
        store.append(t.q[0], t.v[0, :1], t.time[0])
    store.append(t.q[0], t.v[0], t.time[0])
    store.append(t.q[1], t.v[1], t.time[1], {"energy": np.zeros(2)})
    with pytest.raises(ValueError, match="same ones every step"):
        store.append(t.q[1], t.v[1], t.time[1], {"contacts": np.zeros(2)})
    with pytest.raises(ValueError, match="energy"):
        store.append(t.q[1], t.v[1], t.time[1], {"energy": np.zeros(3)})
    with pytest.raises(ValueError, match="truncate"):
        store.truncate(5)
    assert store.frames == 2


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
    for write in (t.save, lambda path: StoreWriter(path, t.model, 2)):
        with pytest.raises(StoreError, match="not a Zarr v3 group"):
            write(tmp_path / name)
    assert (tmp_path / name / "thesis.txt").read_text() == "keep" and len(list(tmp_path.iterdir())) == 1


def test_a_store_with_something_else_in_it_is_not_replaced(tmp_path):
    """Notes that somebody keeps in the store's folder stay, and the message names them."""
    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "notes.txt").write_text("keep")
    for write in (t.save, lambda path: StoreWriter(path, t.model, 2)):
        with pytest.raises(StoreError, match=r"notes\.txt"):
            write(tmp_path / "a.zarr")
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
    + ["c/0", "mine/q/zarr.json"]
)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_something_else_anywhere_in_a_store_stays(tmp_path, kind):
    """However deep, whatever no store holds keeps the store from being replaced, and the message names it."""
    t = rollout(*small(), worlds=2, steps=2)
    with StoreWriter(tmp_path / "whole", t.model, 2) as store:
        store.append(t.q, t.v, t.time, t.diagnostics)
        store.checkpoint({"impulse": np.ones(3), "count": np.array(2)})
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
        for write in (t.save, lambda path: StoreWriter(path, t.model, 2)):
            with pytest.raises(StoreError, match="something else is in it") as caught:
                write(path)
            assert name.startswith(re.search(r"in it: '(.*)';", str(caught.value)).group(1))
        assert mine.is_symlink() or mine.is_dir() or mine.read_text() == "keep"


def test_whatever_a_store_holds_may_be_replaced(tmp_path):
    """Chunks in plenty, checkpoints in both slots, cut frames, scalars, meshes, key frames, and what a killed process
    leaves of a file: all are the store's own, so that it is replaced."""
    model = asset("humanoid")[1]
    t = rollout(*small(), worlds=2, steps=20)
    for m in (model, t.model):
        q, v, time = np.zeros((21, 2, m.nq)), np.zeros((21, 2, m.nv)), np.zeros((21, 2))
        for names in ({}, {"contacts": np.zeros((20, 2), np.int32)}):
            with StoreWriter(tmp_path / "a.zarr", m, 2, chunk=2) as store:
                store.append(q, v, time, names)
                for _ in range(3):
                    store.checkpoint({"impulse": np.ones((3, 2, 2)), "count": np.array(2), "none": np.zeros((0, 3))})
                store.truncate(7)
            for part in ("zarr", "q/zarr", "v/c/0/0/0"):
                path = tmp_path / "a.zarr" / part
                path.with_suffix(f".{'0a' * 16}.partial").write_text("")
    t.save(tmp_path / "a.zarr")
    same(t, Trajectory.load(tmp_path / "a.zarr"))
    t.save(tmp_path / "a.zarr")


def test_a_store_stays_when_its_successor_cannot_be_begun(tmp_path, monkeypatch):
    """`StoreWriter` replaces a store once the new one is begun: an error before that leaves the old one."""
    t = rollout(*small(), worlds=2, steps=2)
    t.save(tmp_path / "a.zarr")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("warpsim.files.store.store.model_to_group", fail)
    with pytest.raises(OSError, match="No space left"):
        StoreWriter(tmp_path / "a.zarr", t.model, 2)
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


def test_a_disk_that_fills_up_keeps_the_frames_of_the_last_flush(tmp_path, monkeypatch):
    """An error in the middle of a flush leaves a store that can be read, and gone on with once there is room."""
    from warpsim.files.store import store as module

    t = rollout(*small(), worlds=2, steps=20)
    dtypes = {name: "float64" for name in ("q", "v", "time")}
    extend, calls = module._extend, []

    def sometimes(array, *arguments):
        calls.append(array)
        if len(calls) >= 3 + len(t.diagnostics) + 2:  # from v of the second flush on
            raise OSError(28, "No space left on device")
        extend(array, *arguments)

    def block(a, b):
        return t.q[a:b], t.v[a:b], t.time[a:b], {n: x[max(a - 1, 0) : b - 1] for n, x in t.diagnostics.items()}

    def write():
        with StoreWriter(tmp_path / "a.zarr", t.model, 2, dtypes=dtypes, chunk=4) as store:
            store.append(*block(0, 7))
            store.append(*block(7, 12))

    with monkeypatch.context() as full:
        full.setattr(module, "_extend", sometimes)
        with pytest.raises(OSError, match=r"a\.zarr could not be written: No space left .* holds 7 frames"):
            write()
    assert Trajectory.load(tmp_path / "a.zarr").frames == 7
    with StoreWriter(tmp_path / "a.zarr", t.model, 2, resume=True) as store:
        store.append(*block(7, 21))
    same(t, Trajectory.load(tmp_path / "a.zarr"))
