# SPDX-License-Identifier: Apache-2.0
"""Rollouts into stores, and runs that go on: the bits of one that nothing happened to."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import warpsim as ws
from warpsim.files.store.place import StoreError
from warpsim.files.store.store import Store
from warpsim.run import streaming
from warpsim.run.description import describe_simulator, simulator_arguments

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORLDS, STEPS = 4, 60


class Interrupted(Exception):
    pass


class Policy:
    """Random controls with a generator, a count and an array of its own: state of every kind that a store keeps."""

    def __init__(self, shape):
        self.shape, self.count, self.rng, self.last = shape, 0, np.random.default_rng(3), np.zeros(shape)

    def __call__(self, state):
        self.count += 1
        self.last = 0.9 * self.last + 0.3 * self.rng.standard_normal(self.shape) + 0.01 * self.count
        return self.last

    def state_dict(self):
        return {"count": self.count, "rng": self.rng.bit_generator.state, "last": self.last, "more": [(1, None), b"x"]}

    def load_state_dict(self, kept):
        self.count, self.rng.bit_generator.state, self.last = kept["count"], kept["rng"], kept["last"]
        assert kept["more"] == [(1, None), b"x"]


def ant(worlds: int = WORLDS, **options) -> ws.Simulator:
    return ws.Simulator(ws.load(ws.robots.path("ant")), worlds, device="cpu", **options)


def start(sim) -> ws.State:
    return sim.state(v=0.1 * np.random.default_rng(1).standard_normal((sim.worlds, sim.model.nv)))


def same(found: ws.Trajectory, expected: ws.Trajectory) -> None:
    """Every recorded bit, and those of the state to go on from."""
    for name in ("q", "v", "time", *expected.diagnostics):
        rows = np.arange(expected.steps if name in expected.diagnostics else expected.frames)
        np.testing.assert_array_equal(found.rows(name, rows), expected.rows(name, rows), err_msg=name)
    for name, array in expected.final.arrays().items():
        np.testing.assert_array_equal(found.final.arrays()[name].numpy(), array.numpy(), err_msg=name)


def interrupted(sim, controls, path, at: int, **options) -> None:
    def stop(step):
        if step == at:
            raise Interrupted

    with pytest.raises(Interrupted):
        sim.rollout(start(sim), controls, STEPS, store=path, progress=stop, **options)


CONTROLS = {
    "none": lambda sim: None,
    "random": lambda sim: ws.RandomControls(seed=5, hold=3),
    "array": lambda sim: np.random.default_rng(0).uniform(-1, 1, (STEPS, sim.worlds, sim.model.nu)),
    "callable": lambda sim: Policy((sim.worlds, sim.model.nu)),
}


@pytest.mark.parametrize("every", [1, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CONTROLS)
def test_a_run_goes_on_with_the_same_bits(tmp_path, monkeypatch, kind, every):
    """A store of a whole run is the rollout; one that was interrupted, at any step, is so too once it is resumed."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.02)
    sim = ant()
    expected = sim.rollout(start(sim), CONTROLS[kind](sim), STEPS, every=every)
    same(sim.rollout(start(sim), CONTROLS[kind](sim), STEPS, every=every, store=tmp_path / "whole.zarr"), expected)
    for at in (1, 33, STEPS - 1):
        path = tmp_path / f"{at}.zarr"
        interrupted(sim, CONTROLS[kind](sim), path, at, every=every)
        again = CONTROLS[kind](sim) if kind == "callable" else None
        same(ws.resume(path, again, device="cpu"), expected)
        assert (
            ws.resume(path, device="cpu").steps == expected.steps
        )  # nothing is left to do, and the callable not needed


SOLVERS = {
    "lagged": ws.SAP(),
    "convex": ws.SAP(approximation="convex"),
    "lcp": ws.LCP(),
    "compliant": ws.Compliant(),
    "none": ws.NoContact(),
}
INTEGRATORS = {
    k.__name__: k for k in (ws.SymplecticEuler, ws.ExplicitEuler, ws.ImplicitEuler, ws.Midpoint, ws.Variational)
}
# Every solver with the default integrator and every integrator with the default solver are quick.
PAIRS = [
    pytest.param(s, i, marks=() if s == "lagged" or i == "SymplecticEuler" else pytest.mark.slow)
    for s in SOLVERS
    for i in INTEGRATORS
]


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("solver", "integrator"), PAIRS)
def test_every_solver_and_integrator_goes_on(tmp_path, monkeypatch, solver, integrator, dtype):
    """The whole state is kept, with warm starts and the momenta of the variational integrator, the options, and what was
    written into parameters."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.02)
    if dtype == "float64" and integrator != "Variational" and solver != "lcp":
        pytest.skip("of the others float32 is enough: `benchmarks.bits` has all")
    options = {"solver": SOLVERS[solver], "integrator": INTEGRATORS[integrator](), "dtype": dtype}
    try:
        sim = ant(**options, dt=0.004, recovery_speed=(0.5, np.inf), max_contacts=20)
    except ValueError:
        pytest.skip("refused together")
    sim.parameters["body_mass"] = sim.model.body_mass * np.linspace(0.5, 2, WORLDS)[:, None]
    controls = ws.RandomControls(seed=1)
    expected = sim.rollout(start(sim), controls, STEPS, substeps=2)
    interrupted(sim, controls, tmp_path / "a.zarr", 41, substeps=2)
    same(ws.resume(tmp_path / "a.zarr", device="cpu", threads=2), expected)


def pressed() -> ws.Model:
    """A soft ball that falls on a plane and rolls."""
    b = ws.ModelBuilder("pressed")
    b.add_geom("plane", hydroelastic=ws.Hydroelastic(modulus=np.inf))
    ball = b.add_body("ball")
    b.add_joint(ball, "free", q0=[0, 0, 0.11, 1, 0, 0, 0])
    b.add_geom("ellipsoid", [0.1, 0.09, 0.08], body=ball, hydroelastic=ws.Hydroelastic(modulus=1e5, resolution=0.05))
    return b.build()


@pytest.mark.parametrize(
    "options", [{"reactions": True}, {"hydroelastic": "patch4"}, {"hydroelastic": "polygons", "max_polygons": 90}]
)
def test_what_a_step_keeps_and_patches_go_on(tmp_path, monkeypatch, options):
    """What the simulator was asked to keep, and what stands for its patches, is the same in one that goes on, and in that of a fault."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.02)
    sim = ws.Simulator(pressed(), WORLDS, dt=0.002, device="cpu", **options)
    expected = sim.rollout(start(sim), None, STEPS)
    interrupted(sim, None, tmp_path / "a.zarr", 41)
    same(ws.resume(tmp_path / "a.zarr", device="cpu"), expected)
    made = describe_simulator(sim)
    assert {name: made[name] for name in options} == options
    assert simulator_arguments(made, "a").items() >= options.items()


@pytest.mark.parametrize("kind", CONTROLS)
def test_columns_are_committed_one_after_the_other(tmp_path, monkeypatch, kind):
    """A process that ends between the commits of two columns: all worlds go on from the commit before, together, as the policy is of all."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("warpsim.files.store.store.MOST_WORLDS", 2)
    sim, calls = ant(), []
    expected = sim.rollout(start(sim), CONTROLS[kind](sim), STEPS)
    commit = Store.commit

    def half(self, worlds, each):
        calls.append(each)
        if len(calls) < 4:
            return commit(self, worlds, each)
        commit(self, slice(0, 2), each)
        raise Interrupted

    with monkeypatch.context() as broken, pytest.raises(Interrupted):
        broken.setattr(Store, "commit", half)
        sim.rollout(start(sim), CONTROLS[kind](sim), STEPS, store=tmp_path / "a.zarr")
    commits = Store(tmp_path / "a.zarr").commits()
    assert len(commits) == 2 and commits[0].steps > commits[1].steps > 0
    shutil.copytree(tmp_path / "a.zarr", tmp_path / "b.zarr")
    again = CONTROLS[kind](sim) if kind == "callable" else None
    same(ws.resume(tmp_path / "a.zarr", again), expected)
    store = Store(tmp_path / "b.zarr")
    store.keep(
        slice(0, 4), commits[1].slot, np.zeros((4, store.root["checkpoint/slot_0"].shape[1]), np.uint8), None, -1
    )
    with pytest.raises(StoreError, match="two processes"):
        ws.resume(tmp_path / "b.zarr", CONTROLS[kind](sim) if kind == "callable" else None)


def test_parameters_that_a_policy_writes_are_kept(tmp_path, monkeypatch):
    """What a callable writes into parameters on the way belongs to the checkpoint; one asked for too late is refused by name."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.02)

    class Gravity:
        def __init__(self, sim):
            self.sim = sim

        def __call__(self, state):
            g = self.sim.parameters["gravity"].numpy().copy().reshape(self.sim.worlds, 3)
            self.sim.parameters["gravity"] = g * 0.99

        def state_dict(self):
            return {}

        def load_state_dict(self, kept):
            pass

    def prepared():
        sim = ant()
        _ = sim.parameters["gravity"]
        return sim

    sim = prepared()
    expected = sim.rollout(start(sim), Gravity(sim), STEPS)
    sim = prepared()
    interrupted(sim, Gravity(sim), tmp_path / "a.zarr", 20)
    again = ant()
    same(ws.resume(tmp_path / "a.zarr", Gravity(again), sim=again), expected)
    sim = ant()
    with pytest.raises(ValueError, match="gravity"):
        sim.rollout(start(sim), Gravity(sim), STEPS, store=tmp_path / "late.zarr")


def test_what_cannot_go_on_is_refused_before_the_first_step(tmp_path):
    """Callables without state, gradients, unfinished stores, other models: one line each, and nothing is written."""
    import warp as wp

    sim = ant(requires_grad=True)
    path = tmp_path / "a.zarr"
    with pytest.raises(ValueError, match="state_dict"):
        sim.rollout(sim.state(), lambda state: None, 5, store=path)
    with pytest.raises(ValueError, match="not gradients"), wp.Tape():
        sim.rollout(sim.state(), None, 5, store=path)
    with pytest.raises(ValueError, match="not gradients"):
        sim.rollout(sim.state(), None, 5, store=path, checkpoint_every=2)
    assert not list(tmp_path.iterdir())
    sim = ant()
    interrupted(sim, None, path, 3)
    with pytest.raises(StoreError, match=r"interrupted after \d+ of 60 steps; go on with ws.resume"):
        sim.rollout(sim.state(), None, 5, store=path)
    other = ws.Simulator(ws.load(ws.robots.path("humanoid")), WORLDS, device="cpu")
    for wrong in (other, ant(3)):
        with pytest.raises(StoreError, match="this run needs 4 of"):
            ws.resume(path, sim=wrong)
    with pytest.raises(ValueError, match="leave controls out"):
        ws.resume(path, Policy((WORLDS, 8)))
    sim.rollout(sim.state(), None, 5).save(tmp_path / "saved.zarr")
    with pytest.raises(StoreError, match="nothing to go on with"):
        ws.resume(tmp_path / "saved.zarr")
    interrupted(sim, Policy((WORLDS, sim.model.nu)), tmp_path / "policy.zarr", 3)
    with pytest.raises(ValueError, match="give it again"):
        ws.resume(tmp_path / "policy.zarr", device="cpu")


def test_a_solver_of_ones_own_needs_its_simulator(tmp_path):
    """Only warpsim's own descriptions are made from a store; others come with `sim=`."""

    class Mine(ws.SAP):
        pass

    sim = ant(solver=Mine())
    expected = sim.rollout(start(sim), None, STEPS)
    interrupted(sim, None, tmp_path / "a.zarr", 30)
    with pytest.raises(ValueError, match=r"Mine.*give sim="):
        ws.resume(tmp_path / "a.zarr", device="cpu")
    same(ws.resume(tmp_path / "a.zarr", sim=ant(solver=Mine())), expected)


def test_going_on_elsewhere_warns(tmp_path):
    """A store tells the machine that it comes from, and one warning says what differs."""
    sim = ant()
    interrupted(sim, None, tmp_path / "a.zarr", 30)
    store = Store(tmp_path / "a.zarr")
    store.root.attrs.update({"run": store.run | {"fingerprint": store.run["fingerprint"] | {"device": "another"}}})
    with pytest.warns(UserWarning, match="last bits may differ: device another -> "):
        ws.resume(tmp_path / "a.zarr", device="cpu")


def test_a_full_disk_keeps_what_was_committed(tmp_path, monkeypatch):
    """An error in the middle of a block: one `OSError` that names the store and its frames; it goes on once there is room."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.0)
    sim, path = ant(), tmp_path / "a.zarr"
    expected = sim.rollout(start(sim), None, STEPS)
    write, calls = Store.write, []

    def sometimes(self, *arguments):
        calls.append(arguments)
        if len(calls) > 10:
            write(self, *arguments)
            raise OSError(28, "No space left on device")
        write(self, *arguments)

    with monkeypatch.context() as full:
        full.setattr(Store, "write", sometimes)
        with pytest.raises(OSError, match=r"a\.zarr could not be written: No space left .*; the store holds 10 frames"):
            sim.rollout(start(sim), None, STEPS, store=path)
    assert ws.Trajectory.load(path).frames == 10
    same(ws.resume(path, device="cpu"), expected)


RUN = """
import sys, warpsim as ws, warpsim.run.streaming
warpsim.run.streaming.COMMIT_SECONDS = 0.02
sim = ws.Simulator(ws.load(ws.robots.path("ant")), 16, device="cpu")
sim.rollout(sim.state(), ws.RandomControls(seed=4), 3000, store=sys.argv[1])
"""


@pytest.mark.usefixtures("from_terminal")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_process_that_is_ended_leaves_a_run_that_goes_on(tmp_path, number):
    """Killed, stopped by Ctrl-C or politely: what the store has is right, and what it becomes is the uninterrupted run."""
    path = tmp_path / "a.zarr"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(path)], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if path.exists() and Store(path, "r").committed > 1:
                break
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -number or (number == signal.SIGINT and "KeyboardInterrupt: stopped by SIGINT" in err)
    before = ws.Trajectory.load(path)
    assert 1 < before.frames < 3001
    kept = before.q.numpy()
    trajectory = ws.resume(path, device="cpu")
    sim = ant(16)
    same(trajectory, sim.rollout(sim.state(), ws.RandomControls(seed=4), 3000))
    np.testing.assert_array_equal(trajectory.q[: len(kept)], kept)
    shutil.rmtree(path)
    assert not list(tmp_path.iterdir())


def test_a_run_into_a_url(monkeypatch):
    """fsspec's stores hold runs too."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.02)
    sim = ant()
    expected = sim.rollout(start(sim), ws.RandomControls(), STEPS)
    interrupted(sim, ws.RandomControls(), "memory://warpsim-run/a.zarr", 20)
    same(ws.resume("memory://warpsim-run/a.zarr", device="cpu"), expected)


def test_models_that_do_not_move(tmp_path, monkeypatch):
    """A tree of nothing but fixed geoms has times and flags; its runs go on too, and a policy of no actuators is none."""
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.0)
    b = ws.ModelBuilder("still")
    b.add_geom("plane")
    sim = ws.Simulator(b.build(), WORLDS, device="cpu")
    for number, controls in enumerate((None, ws.RandomControls(), np.zeros((STEPS, WORLDS, 0)))):
        path = tmp_path / f"{number}.zarr"
        interrupted(sim, controls, path, 7)
        found = ws.resume(path, device="cpu")
        same(found, sim.rollout(sim.state(), controls, STEPS))
        found.save(tmp_path / "copy.zarr")


def test_columns_of_chunks_that_do_not_divide_the_worlds(tmp_path, monkeypatch):
    """Seven worlds in chunks of two: a column of eight."""
    monkeypatch.setattr("warpsim.files.store.store.CHUNK_BYTES", 2 * 60 * 61)
    monkeypatch.setattr(streaming, "COMMIT_SECONDS", 0.0)
    sim = ant(7)
    expected = sim.rollout(start(sim), ws.RandomControls(), STEPS)
    interrupted(sim, ws.RandomControls(), tmp_path / "a.zarr", 30)
    assert Store(tmp_path / "a.zarr").column == 8
    same(ws.resume(tmp_path / "a.zarr", device="cpu"), expected)
