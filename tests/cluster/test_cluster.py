# SPDX-License-Identifier: Apache-2.0
"""Rollouts over actors of Ray: the bits of one simulator, however the worlds are divided and whatever is lost on the way."""

import os
import pathlib
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import warpsim as ws
from warpsim.files.store.place import StoreError
from warpsim.files.store.store import Store

ray = pytest.importorskip("ray")
WORLDS, STEPS = 24, 60
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def local():
    """A cluster of this machine for the whole file; its processes find the checkout."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


MODEL = ws.load(ws.robots.path("ant"))


def simulator(worlds: int = WORLDS, **options) -> ws.Simulator:
    return ws.Simulator(MODEL, worlds, device="cpu", threads=1, **options)


def same(found, expected) -> None:
    for name in ("q", "v", "time", *expected.diagnostics):
        rows = np.arange(expected.steps if name in expected.diagnostics else expected.frames)
        np.testing.assert_array_equal(found.rows(name, rows), expected.rows(name, rows), err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_bits_do_not_depend_on_shards(tmp_path, shards):
    """Start, parameters and random controls of each world are what they are in one simulator of all."""
    sim = simulator(dtype="float64", solver=ws.LCP())
    mass = MODEL.body_mass * np.linspace(0.5, 2, WORLDS)[:, None]
    sim.parameters["body_mass"] = mass
    start = sim.state(v=0.1 * np.random.default_rng(0).standard_normal((WORLDS, MODEL.nv)))
    expected = sim.rollout(start, ws.RandomControls(seed=2), STEPS, every=4)
    seen = []
    options = {
        "parameters": {"body_mass": mass},
        "dtype": "float64",
        "solver": ws.LCP(),
        "device": "cpu",
        "progress": seen.append,
    }
    path = tmp_path / "a.zarr"
    found = ws.cluster.rollout(
        MODEL, start, ws.RandomControls(seed=2), STEPS, every=4, shards=shards, store=path, **options
    )
    same(found, expected)
    assert seen == list(range(1, STEPS + 1)) and len(Store(path).columns()) == shards
    same(ws.cluster.resume(path, shards=2), expected)  # nothing left to do


class Damper:
    """Controls of the state alone."""

    def __call__(self, state):
        return -0.1 * state.v.numpy()[:, 6:]

    def state_dict(self):
        return {"gain": np.float32(0.1)}

    def load_state_dict(self, kept):
        assert kept == {"gain": np.float32(0.1)}


class Counter(Damper):
    """Controls with a state that shards cannot share."""

    count = 0

    def __call__(self, state):
        self.count += 1
        return super().__call__(state)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, kept):
        self.count = kept["count"]


def test_rows_in_half_precision():
    """Shards round the rows of one simulator of all, in a temporary store too; 1 is no truth value."""
    sim = simulator()
    expected = sim.rollout(sim.state(), ws.RandomControls(seed=2), 10)
    options = {"worlds": WORLDS, "shards": 2, "device": "cpu"}
    found = ws.cluster.rollout(MODEL, None, ws.RandomControls(seed=2), 10, half=True, **options)
    for name in ("q", "v"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name).numpy().astype(np.float16))
    with pytest.raises(ValueError, match="half is 1"):
        ws.cluster.rollout(MODEL, None, None, 10, half=1, **options)


@pytest.mark.slow
def test_kinds_of_controls():
    """Arrays are cut, callables get the state of their shard, and without a store the trajectory comes back in memory."""
    ray.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
    table = np.random.default_rng(1).uniform(-1, 1, (STEPS, WORLDS, MODEL.nu))
    sim = simulator()
    for controls in (table, Damper(), None):
        steps = None if controls is table else STEPS
        found = ws.cluster.rollout(MODEL, None, controls, steps, worlds=WORLDS, shards=2, device="cpu")
        same(found, sim.rollout(sim.state(), controls, steps))
        assert isinstance(found.q, np.ndarray)
    with pytest.raises(ValueError, match="changes from step to step"):
        ws.cluster.rollout(MODEL, None, Counter(), STEPS, worlds=WORLDS, shards=2, device="cpu")


def shards_of_this_machine() -> list[int]:
    """Processes that run a shard now."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and (path / "cmdline").read_bytes().startswith(b"ray::Shard.run"):
                found.append(int(path.name))
        except OSError:
            pass
    return found


@pytest.mark.slow
def test_a_lost_actor_is_replaced(tmp_path):
    """A killed shard goes on in another process from its last commit; nothing of it shows in the result."""
    steps, path, killed = 1500, tmp_path / "a.zarr", []
    sim = simulator()
    expected = sim.rollout(sim.state(), ws.RandomControls(), steps)

    def kill() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(killed) < 2:
            found = [pid for pid in shards_of_this_machine() if pid not in killed]
            if found:
                time.sleep(0.3)
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    found = ws.cluster.rollout(
        MODEL, None, ws.RandomControls(), steps, worlds=WORLDS, shards=2, store=path, device="cpu"
    )
    thread.join()
    assert len(killed) == 2
    same(found, expected)


@pytest.mark.slow
def test_a_run_goes_on_in_another_number_of_processes(tmp_path):
    """What shards have begun one simulator ends, and the other way round."""
    from warpsim.run import streaming

    sim, controls = simulator(), ws.RandomControls(seed=7)
    expected = sim.rollout(sim.state(), controls, STEPS)

    class Interrupted(Exception):
        pass

    def stop(step):
        if step == 30:
            raise Interrupted

    before, streaming.COMMIT_SECONDS = streaming.COMMIT_SECONDS, 0.0
    try:
        with pytest.raises(Interrupted):
            sim.rollout(sim.state(), controls, STEPS, store=tmp_path / "a.zarr", progress=stop)
    finally:
        streaming.COMMIT_SECONDS = before
    same(ws.cluster.resume(tmp_path / "a.zarr", shards=2, device="cpu"), expected)
    with pytest.raises(Interrupted):
        ws.cluster.rollout(
            MODEL,
            None,
            controls,
            STEPS,
            worlds=WORLDS,
            shards=3,
            store=tmp_path / "b.zarr",
            progress=stop,
            device="cpu",
        )
    same(ws.resume(tmp_path / "b.zarr", device="cpu"), expected)


def test_map(tmp_path):
    """Results in the order of the items; an exception of the function is its own; a lost process's item is done again."""
    assert ws.cluster.map(lambda x: x * x, range(7), shards=2) == [x * x for x in range(7)]
    with pytest.raises(ZeroDivisionError):
        ws.cluster.map(lambda x: 1 / x, [1, 0])

    def once(item):
        mark = tmp_path / str(item)
        if not mark.exists():
            mark.write_text("")
            os._exit(9)
        return item

    assert ws.cluster.map(once, [1, 2]) == [1, 2]
    assert ws.cluster.map(once, []) == []


def test_bad_calls_are_refused(tmp_path):
    """One line each, and nothing written."""
    state, path = simulator(3).state(), tmp_path / "a.zarr"
    call = ws.cluster.rollout
    for wrong, word in (
        (lambda: call("ant.xml", worlds=2, steps=3), "model"),
        (lambda: call(MODEL, steps=3), "give worlds="),
        (lambda: call(MODEL, worlds=3), "steps="),
        (lambda: call(MODEL, state, worlds=4, steps=3), "worlds has 4 worlds; state has 3"),
        (lambda: call(MODEL, state, steps=3, dtype="float64", store=path, device="cpu"), "other options"),
        (lambda: call(MODEL, None, np.zeros((3, 4)), store=path), "controls has shape"),
        (lambda: call(MODEL, None, np.zeros((3, 4, 2)), store=path), "controls has shape"),
        (lambda: call(MODEL, worlds=2, steps=3, shards=0), "shards"),
        (lambda: call(MODEL, worlds=2, steps=3, store="memory://a.zarr"), "memory of its own"),
        (lambda: call(MODEL, None, lambda state: None, 3, worlds=2, store=path), "state_dict"),
        (lambda: call(MODEL, worlds=2, steps=3, parameters={"body_mass": -MODEL.body_mass}, store=path), "body_mass"),
        (lambda: call(MODEL, worlds=2, steps=3, parameters={"bogus": 1.0}, store=path), "bogus"),
        (lambda: ws.cluster.map(3, [1]), "callable"),
        (lambda: ws.cluster.resume(path), "no such store"),
    ):
        with pytest.raises(ValueError, match=word):
            wrong()
    assert not list(tmp_path.iterdir())
    simulator(2).rollout(simulator(2).state(), None, 2).save(path)
    with pytest.raises(StoreError, match="nothing to go on with"):
        ws.cluster.resume(path)
