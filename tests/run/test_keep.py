# SPDX-License-Identifier: Apache-2.0
"""Rows that stay on the device, and rows in half precision. Without a GPU, arrays of a stand-in take CuPy's way."""

import dataclasses
import gc
import re
import sys
import types
import warnings

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.trajectories import rollout, small
from tests import pretend_cupy
from warpsim.device.array_module import device_view, module_on, to_host
from warpsim.files.store.place import StoreError
from warpsim.run import streaming

STEPS = 30


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in as the package `cupy`, with what it has copied so far forgotten."""
    monkeypatch.setitem(sys.modules, "cupy", pretend_cupy)
    pretend_cupy.copied |= dict.fromkeys(pretend_cupy.copied, 0)
    return pretend_cupy


def ant(device="cpu", worlds=3, **options) -> ws.Simulator:
    return ws.Simulator(ws.load(ws.robots.path("ant")), worlds, device=device, **options)


def run(sim, steps=STEPS, **options) -> ws.Trajectory:
    v = 0.1 * np.random.default_rng(1).standard_normal((sim.worlds, sim.model.nv))
    return sim.rollout(sim.state(v=v), ws.RandomControls(seed=2), steps, **options)


def on_device(t: ws.Trajectory) -> ws.Trajectory:
    """The trajectory with its arrays as device arrays of the stand-in."""
    rows = {name: pretend_cupy.ndarray(np.array(getattr(t, name))) for name in ("q", "v", "time")}
    diagnostics = {name: pretend_cupy.ndarray(np.array(array)) for name, array in t.diagnostics.items()}
    return dataclasses.replace(t, **rows, diagnostics=diagnostics)


def test_kept_rows_are_the_rollout(device):
    """keep="device" gives the same bits, as arrays of the device's array module that outlive the trajectory."""
    if wp.get_device(device).is_cuda:
        pytest.importorskip("cupy")
    sim = ant(device)
    expected, kept = run(sim), run(sim, keep="device")
    module = module_on(wp.get_device(device))
    for name in ("q", "v", "time"):
        assert isinstance(getattr(kept, name), module.ndarray)
        np.testing.assert_array_equal(to_host(getattr(kept, name)), getattr(expected, name).numpy())
    for name, array in kept.diagnostics.items():
        assert isinstance(array, module.ndarray) and array.dtype == expected.diagnostics[name].numpy().dtype
        np.testing.assert_array_equal(to_host(array), expected.diagnostics[name].numpy())
    np.testing.assert_array_equal(kept.poses(), expected.poses())
    assert kept.statistics()["contacts"]["max"] == expected.diagnostics["contacts"].numpy().max()
    q, last = kept.q, to_host(kept.q[-1])
    del kept
    gc.collect()
    run(sim)
    np.testing.assert_array_equal(to_host(q[-1]), last)


def test_views_share_memory(device):
    """A view of a Warp array sees what is written to the array, and writes to it."""
    if wp.get_device(device).is_cuda:
        pytest.importorskip("cupy")
    array = wp.zeros((3, 2), dtype=wp.float32, device=device)
    view = device_view(array)
    array.fill_(2.0)
    view[0] = 5.0
    assert to_host(view).tolist() == array.numpy().tolist() == [[5, 5], [2, 2], [2, 2]]


def test_wrong_choices_are_named_before_the_first_step(tmp_path):
    """An unknown keep, half without a store, keep with a store or under a tape."""
    sim = ant(requires_grad=True)
    for wrong in ("gpu", True, 1):
        with pytest.raises(ValueError, match=rf"keep is {wrong!r}; choose one of \['device'\]"):
            run(sim, keep=wrong)
    with pytest.raises(ValueError, match="half=True is of the rows of a store"):
        run(sim, half=True)
    with pytest.raises(ValueError, match="half is 'yes'"):
        run(sim, half="yes", store=tmp_path / "a.zarr")
    with pytest.raises(ValueError, match="leave one of them out"):
        run(sim, keep="device", store=tmp_path / "a.zarr")
    with wp.Tape(), pytest.raises(ValueError, match="under a tape"):
        run(sim, keep="device")
    assert not list(tmp_path.iterdir())


def test_without_cupy_the_extra_is_named(monkeypatch):
    """On CUDA without CuPy the error says what to install."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"warpsim\[gpu\]"):
        module_on(types.SimpleNamespace(is_cpu=False))


def test_device_arrays_take_their_own_way(cupy, tmp_path):
    """Statistics of device arrays are computed by their module, and only results are copied to the host; poses, stores and rows are those of host arrays."""
    t = rollout(*small(), worlds=3, steps=20)
    t = dataclasses.replace(t, diagnostics=t.diagnostics | {"flags": np.full((20, 3), 4, np.int32)})
    device = on_device(t)
    for per_world in (False, True):
        found, expected = device.statistics(per_world=per_world), t.statistics(per_world=per_world)
        for name, numbers in expected.items():
            for key, value in numbers.items():
                np.testing.assert_array_equal(found[name][key], value)
    assert cupy.copied["to the host"] < 2000  # one diagnostic alone has more rows the more steps there are
    np.testing.assert_array_equal(device.poses(), t.poses())
    assert device.duration == t.duration and np.array_equal(device.clock(), t.clock())
    np.testing.assert_array_equal(device.rows("q", [3, -1]), t.rows("q", [3, -1]))
    for half in (False, True):
        device.save(tmp_path / "device.zarr", half=half)
        t.save(tmp_path / "host.zarr", half=half)
        found, expected = (ws.Trajectory.load(tmp_path / f"{name}.zarr") for name in ("device", "host"))
        for name in ("q", "v", "time"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_half_of_the_bytes_are_copied(cupy, tmp_path):
    """A store in half precision takes positions and velocities rounded from the device: a quarter of float64's bytes."""
    t = on_device(rollout(*small(), worlds=3, steps=20))
    cupy.copied["to the host"] = 0
    t.save(tmp_path / "a.zarr", half=True)
    rest = sum(a.nbytes for a in (t.time, *t.diagnostics.values()))
    flags = 1000  # whether anything overflowed, and dtypes
    assert 0 < cupy.copied["to the host"] - rest - (t.q.nbytes + t.v.nbytes) // 4 < flags + 2 * 8 * 3 * (15 + 14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_half_store_is_the_rounded_rollout(tmp_path, dtype):
    """Every position and velocity is the nearest number of half precision; time, diagnostics and the last state are exact."""
    sim = ant(dtype=dtype)
    expected = run(sim)
    for path, found in (
        (tmp_path / "run.zarr", run(sim, store=tmp_path / "run.zarr", half=True)),
        (tmp_path / "saved.zarr", expected),
    ):
        if path.name == "saved.zarr":
            expected.save(path, half=True)
        found = ws.Trajectory.load(path) if path.name == "saved.zarr" else found
        for name in ("q", "v"):
            array = getattr(found, name)
            assert array.dtype == np.float16
            np.testing.assert_array_equal(array, getattr(expected, name).numpy().astype(np.float16))
        for name in ("time", *expected.diagnostics):
            rows = np.arange(expected.steps)
            np.testing.assert_array_equal(found.rows(name, rows), expected.rows(name, rows))
        state = sim.step(sim.state(found.q[-1], found.v[-1]))  # rounded quaternions are those of a state
        assert np.isfinite(state.q.numpy()).all()
        assert np.abs(found.poses() - expected.poses()).max() < 2e-3


def test_a_half_run_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    """`ws.resume` of a store in half precision goes on from the exact state, and writes on in half precision."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.0)
    sim = ant()
    expected = run(sim)

    def stop(step):
        if step == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sim, store=tmp_path / "a.zarr", half=True, progress=stop)
    assert ws.Trajectory.load(tmp_path / "a.zarr").frames < STEPS
    found = ws.resume(tmp_path / "a.zarr", device="cpu")
    assert found.q.dtype == np.float16
    np.testing.assert_array_equal(found.q, expected.q.numpy().astype(np.float16))
    for name, array in expected.final.arrays().items():
        np.testing.assert_array_equal(found.final.arrays()[name].numpy(), array.numpy(), err_msg=name)


def far(worlds: int) -> ws.Simulator:
    b = ws.ModelBuilder("ball")
    body = b.add_body("ball", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "slide", axis=[1, 0, 0])
    return ws.Simulator(b.build(), worlds, dt=0.5, device="cpu")


def test_numbers_beyond_half_precision_are_told(tmp_path):
    """65519 is rounded to the largest number, 65504; beyond it a world gets inf, one warning names it, and the others go on."""
    sim = far(3)
    state = sim.state(q=[[0.0], [65519.0], [65000.0]], v=[[1.0], [0.0], [2000.0]])
    with pytest.warns(UserWarning, match=r"a\.zarr: q of world 2 at frame 1 is beyond ±65504") as told:
        found = sim.rollout(state, steps=4, store=tmp_path / "a.zarr", half=True)
    assert len(told) == 1
    np.testing.assert_array_equal(found.q[:, 0, 0], [0, 0.5, 1, 1.5, 2])
    np.testing.assert_array_equal(found.q[:, 1, 0], np.full(5, 65504))
    assert np.isfinite(found.q[0]).all() and np.isinf(found.q[1:, 2]).all()
    assert found.final.q.numpy()[2, 0] == 69000
    with pytest.raises(ValueError, match="not finite at frame 1, world 2"):
        found.poses()
    with pytest.warns(UserWarning, match="q of world 2 at frame 1"):
        sim.rollout(state, steps=4).save(tmp_path / "b.zarr", half=True)
    again = dataclasses.replace(found, q=np.array(found.q))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # these are infinite already
        again.save(tmp_path / "c.zarr", half=True)


def test_numbers_beyond_half_precision_at_the_start_are_told(tmp_path):
    """A start beyond ±65504 is told with the path that was asked for."""
    sim, path = far(2), tmp_path / "a.zarr"
    with pytest.warns(UserWarning, match=f"^{re.escape(str(path))}: q of world 1 at frame 0 is beyond"):
        found = sim.rollout(sim.state(q=[[0.0], [7e4]]), steps=2, store=path, half=True)
    assert np.isinf(found.q[0, 1, 0]) and found.q[0, 0, 0] == 0.0


def test_stores_after_zarr_was_told_to_use_the_gpu(cupy, tmp_path, monkeypatch):
    """`zarr.config.enable_gpu()`, as another part of a program may call it, changes nothing: rows are NumPy's, runs go on."""
    import zarr
    import zarr.core.buffer.gpu

    monkeypatch.setattr(zarr.core.buffer.gpu, "cp", cupy)
    sim = ant()
    expected = run(sim)
    with warnings.catch_warnings(), zarr.config.enable_gpu():
        warnings.simplefilter("ignore")  # Zarr tells of copies
        found = run(sim, store=tmp_path / "a.zarr")
        assert cupy.copied["to the device"] > 0 and type(found.q[:]) is np.ndarray
        np.testing.assert_array_equal(found.q, expected.q.numpy())
        np.testing.assert_array_equal(ws.resume(tmp_path / "a.zarr").q, expected.q.numpy())


def test_a_damaged_half_store_is_refused(tmp_path):
    """A chunk that is missing is damage in half precision too."""
    run(ant(), store=tmp_path / "a.zarr", half=True)
    for path in (tmp_path / "a.zarr" / "v" / "c").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(StoreError, match="chunks of v are missing"):
        ws.Trajectory.load(tmp_path / "a.zarr")
