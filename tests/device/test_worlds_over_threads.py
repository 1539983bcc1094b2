# SPDX-License-Identifier: Apache-2.0
"""Worlds of one step over threads: the bits of a single thread, worlds of its own for each, and what happens when one fails."""

import dataclasses
import functools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.examples import clutter
from warpsim.contact import collision
from warpsim.device import cores, per_world, pool, ranges, replay
from warpsim.integrate.step import Step
from warpsim.optimise.replicas import Replicas

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORLDS = 7  # no multiple of 2 or 3
METHODS = {
    "coulomb": {},
    "convex": {"solver": ws.SAP(approximation="convex")},
    "lcp": {"solver": ws.LCP()},
    "compliant": {"solver": ws.Compliant()},
    "variational": {"integrator": ws.Variational()},
    "midpoint": {"integrator": ws.Midpoint()},
    "implicit": {"integrator": ws.ImplicitEuler()},
}


@functools.cache
def walker() -> ws.Model:
    """Two links on a free body, with limits and motors, and a ball, above a plane."""
    b = ws.ModelBuilder("walker", timestep=0.01)
    b.add_geom("plane")
    torso = b.add_body("torso", pose=[0, 0, 0.5])
    b.add_joint(torso, "free")
    b.add_geom("box", [0.2, 0.1, 0.1], body=torso)
    for side in (-1, 1):
        leg = b.add_body(f"leg{side}", parent=torso, pose=[0.2 * side, 0, 0])
        b.add_joint(leg, "hinge", name=f"hip{side}", axis=[0, 1, 0], range=[-1.0, 1.0], damping=0.1)
        b.add_geom("sphere", [0.1], pose=[0, 0, -0.35], body=leg)
        b.add_actuator(f"hip{side}")
    ball = b.add_body("ball", pose=[0.6, 0, 0.12])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball)
    return b.build()


def simulator(threads: int, model=None, **options) -> ws.Simulator:
    model = walker() if model is None else model
    return ws.Simulator(model, worlds=WORLDS, device="cpu", threads=threads, **options)


def start(sim: ws.Simulator) -> ws.State:
    """Worlds that move differently."""
    v = np.random.default_rng(0).normal(size=(WORLDS, sim.model.nv))
    return sim.state(v=v)


def controls(sim: ws.Simulator, steps: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1.0, 1.0, size=(steps, WORLDS, sim.model.nu))


def motion(threads: int, model=None, steps: int = 20, **options) -> list[np.ndarray]:
    """Everything a rollout reports."""
    sim = simulator(threads, model, **options)
    run = sim.rollout(start(sim), controls(sim, steps), substeps=2)
    assert run.diagnostics["contacts"].numpy().sum() > 0
    return [x.numpy().copy() for x in (run.q, run.v, run.time, *run.diagnostics.values())]


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, expected, strict=True))


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_a_motion_has_the_bits_of_one_thread(method, dtype):
    """For every solver and integrator, with as many worlds to a thread or one more."""
    one = motion(1, dtype=dtype, **METHODS[method])
    for threads in (2, 3):
        assert same(motion(threads, dtype=dtype, **METHODS[method]), one)


def test_a_heap_through_the_grid_has_the_bits_of_one_thread(monkeypatch):
    """Candidates of the broad phase are sorted world by world."""
    monkeypatch.setattr(collision, "LARGEST_LIST", 0)
    model = clutter(8)
    one, two = (motion(threads, model, steps=30) for threads in (1, 2))
    assert same(two, one)


def gradient(threads: int, method: str) -> list[np.ndarray]:
    """Of a rollout by its start, its controls and the masses, and the Jacobians of a step."""
    sim = simulator(threads, dtype="float64", requires_grad=True, **METHODS[method])
    found = []
    for _ in range(3):  # launched, captured, replayed
        sim.parameters["body_mass"].grad.zero_()
        state = start(sim)
        table = wp.array(controls(sim, 6), dtype=wp.float64, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            end = sim.rollout(state, table).final
        tape.backward(grads={end.q: wp.full_like(end.q, 1.0), end.v: wp.full_like(end.v, 0.1)})
        arrays = [state.q.grad, state.v.grad, table.grad, sim.parameters["body_mass"].grad]
        arrays += sim.linearize(state, parameters=["body_mass"]).arrays().values()
        arrays.append(sim.jvp(state, dstate=np.ones((sim.worlds, 2 * sim.model.nv))))
        found += [array.numpy().copy() for array in arrays]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_gradients_have_the_bits_of_one_thread(method):
    """Taped rollouts and their backward passes, gradients by a parameter included, and Jacobians."""
    one = gradient(1, method)
    assert any(np.abs(x).max() > 0 for x in one)
    assert same(gradient(3, method), one)


@pytest.mark.parametrize("method", METHODS)
def test_a_thread_writes_to_worlds_of_its_own(method):
    """What is captured for a range of worlds steps those worlds, and leaves the others where they are, to the bit."""
    sim = simulator(3, **METHODS[method])
    state, out = start(sim), sim.state()
    expected = sim.step(state).q.numpy()
    sim.step(state, out=out)
    replay = sim._stepper.replay
    load, divided, unload = replay.capture(lambda: sim.step(state, out=out))
    for chosen, graph in zip(ranges.split(WORLDS, 3), divided, strict=True):
        replay.play([load, [graph], unload])
        mine = np.isin(np.arange(WORLDS), range(chosen.first, chosen.end))
        np.testing.assert_array_equal(out.q.numpy()[mine], expected[mine])
        np.testing.assert_array_equal(out.q.numpy()[~mine], state.q.numpy()[~mine])


@pytest.mark.parametrize("method", METHODS)
def test_substeps_are_steps(method):
    """Four substeps have the bits of four steps of a quarter, with forces held, a NaN in one world, on one thread and three."""
    found = []
    for threads, substeps in ((1, 1), (1, 4), (3, 4)):
        sim = simulator(threads, dt=0.0025 * substeps, **METHODS[method])
        state, control = start(sim), controls(sim, 3)
        wrench = np.full((WORLDS, sim.model.nbody, 6), 0.1)
        control[1:, 2] = np.nan
        for k in range(3):
            for _ in range(4 // substeps):
                sim.step(state, control[k], wrench=wrench if k == 2 else None, substeps=substeps, out=state)
        diagnostics = sim.diagnostics.numpy()
        assert np.flatnonzero(diagnostics["flags"] & 1).tolist() == [2]
        found.append([x.numpy().copy() for x in state.arrays().values()] + list(diagnostics.values()))
    assert same(found[1], found[0]) and same(found[2], found[0])


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_comes_between_substeps(threads, monkeypatch):
    """On one thread all substeps are one graph; of several each goes through them once, and the state is copied at both ends alone."""
    sim = simulator(threads)
    state, out = start(sim), sim.state()
    sim.step(state, substeps=4, out=out)
    stepper, copies, waits = sim._stepper, [], []
    copy, together = stepper._copy_arrays, replay.together
    monkeypatch.setattr(stepper, "_copy_arrays", lambda *given: copies.append(copy(*given)))
    monkeypatch.setattr(replay, "together", lambda *given: waits.append(together(*given)))
    stages = stepper.replay.capture(lambda: sim.step(state, substeps=4, out=out))
    stepper.replay.play(stages)
    assert len(copies) == 2
    if threads == 1:
        assert [[len(chain) for chain in stage] for stage in stages] == [[1]] and not waits
    else:
        assert [[len(chain) for chain in stage] for stage in stages] == [[1], [4] * threads, [1]] and len(waits) == 1


def test_blocks_of_worlds_have_the_same_bits(monkeypatch):
    """Many worlds are divided for one thread too, without a warning where that cannot be; LCP, whose ranges have memory of their own, is not."""
    found = []
    for block in (WORLDS + 1, 2):
        monkeypatch.setattr(replay, "BLOCK_WORLDS", block)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found += [motion(threads, steps=8) for threads in (1, 2)]
    assert all(same(x, found[0]) for x in found)
    for options, count in (({}, 3), ({"time_of_impact": True}, 3), (METHODS["lcp"], 1)):
        sim = simulator(1, **options)
        state, out = start(sim), sim.state()
        sim.step(state, out=out)
        stages = sim._stepper.replay.capture(functools.partial(sim.step, state, out=out))
        assert max(len(chains) for chains in stages) == count


@pytest.mark.parametrize("method", ["coulomb", "convex", "compliant", "midpoint", "variational"])
def test_branches_of_a_graph_have_the_same_bits(method, monkeypatch):
    """Ranges of the batch in one graph, one after the other on the CPU; with the kernels that a GPU is given, too."""
    found = []
    for count, on_gpu in ((1, False), (2, False), (3, False), (2, True)):
        sim = simulator(1, **METHODS[method])
        sim._step.solver.as_on_gpu = on_gpu
        if count > 1:
            sim._stepper.replay.branch(count)
        state, control = start(sim), controls(sim, 4)
        for k in range(4):
            sim.step(state, control[k], substeps=3, out=state)
        out = sim.state()
        sim.step(state, substeps=2, out=out)
        stages = sim._stepper.replay.capture(functools.partial(sim.step, state, substeps=2, out=out))
        assert all(len(chains) == 1 for chains in stages)
        found.append([x.numpy().copy() for x in out.arrays().values()])
    assert all(same(x, found[0]) for x in found)


def test_branches_fork_and_join(monkeypatch):
    """Side streams begin after what was captured before, and the stream of the capture waits for them, also when a launch fails."""
    log = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            log.append(f"{self.name} waits for {other.name}")

    class On:
        def __init__(self, stream, sync_enter=True):
            self.stream, self.sync = stream, sync_enter

        def __enter__(self):
            assert not self.sync
            log.append(f"on {self.stream.name}")

        def __exit__(self, *error):
            log.append("on main")

    here = simulator(1)._stepper.replay
    here.branch(3)
    here._sides = [Stream("a"), Stream("b")]
    here.device = type("Device", (), {"is_cuda": True, "stream": Stream("main")})
    monkeypatch.setattr(wp, "ScopedStream", On)
    forked, joined = ["a waits for main", "b waits for main"], ["main waits for a", "main waits for b"]
    here._fork(lambda: log.append(str(len(ranges.present()))))
    assert log == [*forked, "2", "on a", "2", "on main", "on b", "3", "on main", *joined]
    log.clear()
    with pytest.raises(ZeroDivisionError):
        here._fork(lambda: 1 / 0)
    assert log == [*forked, *joined]


@wp.kernel
def push(v: wp.array2d(dtype=float)):
    w = wp.tid()
    v[w, 0] = v[w, 0] + v[0, 1] + 0.25


def test_a_capture_of_a_function_divides_its_steps_alone():
    """Kernels and copies of one's own run in between, over all worlds at once."""

    def run(threads):
        sim = simulator(threads)
        state, kept = start(sim), sim.state()

        def function():
            wp.launch(push, WORLDS, [state.v], device="cpu")
            sim.step(state, out=state)
            wp.copy(kept.v, state.v)
            sim.step(state, out=state, substeps=2)

        replay = sim.capture(function)
        for _ in range(3):
            replay()
        return [x.numpy().copy() for x in (state.q, state.v, kept.v)]

    assert same(run(2), run(1))


@wp.kernel
def halve(v: wp.array2d(dtype=float), first_world: int):
    w = wp.tid() + first_world
    v[w, 0] = 0.5 * v[w, 0]


class BrakedStep(Step):
    """A step with a kernel and a copy of its own, as rows of worlds or over all worlds at once."""

    copy = staticmethod(per_world.assign)

    def launch(self, h: float) -> None:
        self.copy(self.q_next, self.q)
        self.dynamics.launch(halve, None, [self.v])
        super().launch(h)


class UndividedStep(BrakedStep):
    copy = staticmethod(wp.copy)


@dataclasses.dataclass(frozen=True)
class Braked(ws.SymplecticEuler):
    kind: type = dataclasses.field(default=BrakedStep, kw_only=True)

    def make_step(self, device_model, contact_model, max_contacts, make_solver=None):
        return self.kind(device_model, contact_model, max_contacts, self, make_solver)


def test_an_integrator_of_ones_own_can_be_divided():
    """With `assign`, and a kernel that takes its first world: the bits of one thread, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (motion(threads, integrator=Braked()) for threads in (1, 2))
    assert same(two, one)


def test_what_cannot_be_divided_runs_on_one_thread_and_says_so():
    """An integrator of one's own whose step copies for all worlds: a warning, and the bits of one thread."""
    one = motion(1, integrator=Braked(kind=UndividedStep))
    with pytest.warns(UserWarning, match=r"one thread of 2: 1 of its \d+ operations are over all worlds"):
        two = motion(2, integrator=Braked(kind=UndividedStep))
    assert same(two, one)
    assert same(one, motion(1, integrator=Braked()))


def test_two_threads_with_simulators_of_two_threads_each():
    """Both get their bits, and neither waits for the other."""
    expected, found = motion(1), {}
    users = [threading.Thread(target=lambda k=k: found.setdefault(k, motion(2, steps=20))) for k in range(2)]
    for user in users:
        user.start()
    for user in users:
        user.join(120)
    assert len(found) == 2 and all(same(x, expected) for x in found.values())


# the threads ---------------------------------------------------------------------------------------------------------


def test_an_exception_comes_when_all_are_done():
    """Of a thread, or of the caller: nobody writes any longer."""
    for failing in (0, 2):
        done = []

        def call(k, failing=failing, done=done):
            if k == failing:
                raise KeyboardInterrupt if k == 2 else ValueError(f"call {k}")
            time.sleep(0.05)
            done.append(k)

        with pytest.raises(KeyboardInterrupt if failing == 2 else ValueError):
            pool.together([functools.partial(call, k) for k in range(3)], 3)
        assert sorted(done) == [k for k in range(3) if k != failing]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_interrupt_leaves_the_simulator_usable():
    """Ctrl-C at any time within steps; the next rollout has the bits of any other."""
    sim = simulator(2)
    table, expected = controls(sim, 10), motion(1, steps=10)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in np.linspace(0.0005, 0.004, 12):
            state = start(sim)
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(
                    signal.ITIMER_REAL, delay, 1.0
                )  # again where the first fell into a finalizer, which keeps it
                while True:
                    sim.step(state, out=state)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    run = sim.rollout(start(sim), table, substeps=2)
    assert same([run.q.numpy(), run.v.numpy()], expected[:2])


FORKED = """
import os, sys
import numpy as np
import warpsim as ws
from tests.device.test_worlds_over_threads import simulator, start

sim = simulator(2)
state = start(sim)
for _ in range(3):
    after = sim.step(state)
child = os.fork()
if not child:
    os._exit(int(not np.array_equal(sim.step(state).q.numpy(), after.q.numpy())))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_threads_of_its_own():
    """Those of its parent do not live on in it; and the process ends with idle ones."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


# how many ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def eight_cores(monkeypatch):
    """A process that may use eight cores, of which nothing else takes any."""
    for name in ("OMP_NUM_THREADS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "_group_limit", lambda: None)
    return monkeypatch


def test_the_default_is_what_the_process_may_use(eight_cores):
    """The least of affinity, control group and OMP_NUM_THREADS, with 32 worlds to a thread; what is no number does not count."""
    assert [cores.default_threads(n) for n in (1, 63, 64, 100, 256, 4096)] == [1, 1, 2, 3, 8, 8]
    for value, expected in (("3", 3), ("2,4", 2), ("many", 8), ("0", 8), ("", 8), ("99", 8)):
        eight_cores.setenv("OMP_NUM_THREADS", value)
        assert cores.default_threads(4096) == expected
    eight_cores.setattr(cores, "_group_limit", lambda: 5)
    assert cores.default_threads(4096) == 5


def test_the_default_is_one_in_workers_that_fill_the_cores(eight_cores):
    """Of pytest-xdist and of Ray; a process that drives Ray is none."""

    class Ray:
        class _private:
            class worker:
                WORKER_MODE = 1

                class global_worker:
                    mode = 0

    eight_cores.setitem(sys.modules, "ray", Ray)
    assert cores.default_threads(4096) == 8
    Ray._private.worker.global_worker.mode = 1
    assert cores.default_threads(4096) == 1
    Ray._private.worker.global_worker.mode = 0
    eight_cores.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert cores.default_threads(4096) == 1


@pytest.mark.parametrize(
    ("memberships", "files", "expected"),
    [
        ("0::/a/b\n", {"a/cpu.max": "350000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        (
            "4:cpu,cpuacct:/x\n3:memory:/y\n",
            {"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        ("4:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
        (None, {}, None),
    ],
)
def test_the_limit_of_a_control_group(tmp_path, memberships, files, expected):
    """Of both versions of Linux's control groups, of a group and of those above it; less than a core is one."""
    if memberships is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(memberships)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores._group_limit(tmp_path) == expected


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_a_number_of_threads_that_is_none_is_refused(threads):
    """By name, with what it must be."""
    with pytest.raises(ValueError, match="threads"):
        simulator(threads)


def test_threads_on_cuda_are_refused():
    """One thread is what a GPU has."""

    class Device:
        is_cuda = True

        def __str__(self):
            return "cuda:0"

    assert cores.step_threads(None, Device(), 4096) == cores.step_threads(1, Device(), 4096) == 1
    with pytest.raises(ValueError, match="threads is 2 on cuda:0"):
        cores.step_threads(2, Device(), 4096)


def test_copies_of_a_simulator_have_its_threads(eight_cores):
    """What optimisers step: the number that was given, or else the default of their own number of worlds."""
    for threads, expected in ((1, 1), (None, 8)):
        assert Replicas(simulator(threads), 100, 1, requires_grad=False).sim.threads == expected


def test_there_are_no_more_threads_than_worlds():
    """Worlds are divided as evenly as they can be."""
    assert simulator(100).threads == WORLDS
    assert [(x.first, x.end) for x in ranges.split(7, 3)] == [(0, 2), (2, 4), (4, 7)]
    assert [len(x) for x in ranges.split(2, 5)] == [1, 1]
