# SPDX-License-Identifier: Apache-2.0
"""Several threads with simulators of their own: no abort, the bits of a single thread, tapes and captures kept apart.

What can end the process runs in a process of its own, which a limit of time ends.
"""

import gc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane
from warpsim.device import copies

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
import sys, threading
import numpy as np
import pytest
import warp as wp

wp.config.log_level = wp.LOG_WARNING
import warpsim as ws


def model(n):
    b = ws.ModelBuilder(f"chain_{n}")
    b.add_geom("plane")
    parent = -1
    for k in range(n):
        parent = b.add_body(parent=parent, pose=[0, 0, 0.5 if k == 0 else 0.2])
        b.add_geom("sphere", [0.1], body=parent, density=100.0 * (n + k + 1))
        b.add_joint(parent, "hinge" if k else "free")
    return b.build()


def work(n):
    dtype, gradients = (("float32", False), ("float64", True), ("float64", False))[n % 3]
    sim = ws.Simulator(model(1 + n % 4), 3, dt=0.01, device="cpu", dtype=dtype, requires_grad=gradients)
    q = np.tile(sim.model.q0, (3, 1))
    q[:, 2] -= 0.39 + 0.01 * np.arange(3)  # some in the ground
    state = sim.state(q)
    rolled = sim.rollout(state, steps=20)
    found = [sim.step(state).q, rolled.q, rolled.v, sim.mass_matrix(state.q), sim.kinematics(state.q)]
    found += [sim.energy(state)[1], *list(sim.linearize(state).arrays().values())]
    if gradients:
        start = sim.state(q)
        with wp.Tape() as tape:
            end = sim.rollout(start, steps=5, checkpoint_every=2).final
        tape.backward(grads={end.q: wp.full_like(end.q, 1.0)})
        found += [start.q.grad, start.v.grad]
    return [array.numpy().copy() for array in found]


threads, rounds = int(sys.argv[1]), int(sys.argv[2])
kinds, found, errors = 6, {}, []


def run(first):
    try:
        for turn in range(rounds):
            n = (first + turn) % kinds
            found.setdefault(n, []).append(work(n))
    except BaseException as error:
        errors.append(f"{type(error).__name__}: {error}")


running = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
if errors:
    sys.exit("\\n".join(errors))
different = 0
for n in range(kinds):
    alone = work(n)
    for others in found.get(n, []):
        different += not all(np.array_equal(a, b) for a, b in zip(alone, others, strict=True))
print("different:", different, "of", sum(map(len, found.values())))
"""


def python(program: str, *arguments, timeout: float):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "faulthandler", "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


def test_threads_that_build_step_and_differentiate_at_once_get_the_bits_of_a_single_thread():
    """Builds, steps, rollouts, queries, Jacobians and tapes of eight threads at once, from the first use in a process."""
    done = python(PROGRAM, "8", "3", timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith("different: 0 of 24")


def in_thread(function):
    """What `function()` returns in another thread, or raises there."""
    found = {}

    def run():
        try:
            found["result"] = function()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the other thread waits for this one"
    if "error" in found:
        raise found["error"]
    return found["result"]


def test_a_tape_records_its_own_thread_alone():
    """While a tape is open here, another thread steps a simulator without gradients, and opens a tape of its own."""
    plain, graded = (
        ws.Simulator(body_on_plane("sphere", [0.1], height=1.0), dt=0.01, device="cpu", requires_grad=x)
        for x in (False, True)
    )
    state = plain.state()
    plain.step(state)
    expected = plain.step(state).q.numpy()
    start = graded.state()

    def elsewhere():
        with wp.Tape() as tape:
            wp.launch(
                _double, 3, inputs=[wp.ones(3, requires_grad=True), wp.zeros(3, requires_grad=True)], device="cpu"
            )
        return plain.step(state).q.numpy(), len(tape.launches)

    with wp.Tape() as tape:
        graded.step(start)
        recorded = len(tape.launches)
        found, launches = in_thread(elsewhere)
    np.testing.assert_array_equal(found, expected)
    assert launches == 1 and len(tape.launches) == recorded
    assert in_thread(lambda: wp._src.context.runtime.tape) is None


@wp.kernel
def _double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = 2.0 * x[wp.tid()]


def test_what_another_thread_does_during_a_capture_is_neither_recorded_nor_held_up():
    """A capture here, and meanwhile a first step, a capture, an allocation and a launch elsewhere: each as if alone."""
    here, there = (
        ws.Simulator(body_on_plane("sphere", [0.1], height=1.0), worlds=w, dt=0.01, device="cpu") for w in (2, 3)
    )
    state, other = here.state(), there.state()
    expected = here.step(here.step(state)).q.numpy()
    fallen = there.step(there.step(other)).q.numpy()
    elsewhere = []

    def other_work():
        sim = ws.Simulator(body_on_plane("sphere", [0.1], height=1.0), worlds=3, dt=0.01, device="cpu")
        after = sim.state()
        for _ in range(2):
            sim.step(after, out=after)  # launched, then captured
        doubled = wp.zeros(3, device="cpu")
        wp.launch(_double, 3, inputs=[wp.ones(3, device="cpu"), doubled], device="cpu")
        return after.q.numpy().copy(), doubled.numpy().copy()

    def step():
        here.step(state, out=state)
        elsewhere.append(in_thread(other_work))

    replay = here.capture(step)
    replay()
    np.testing.assert_array_equal(state.q.numpy(), expected)
    assert len(elsewhere) == 2
    for q, doubled in elsewhere:
        np.testing.assert_array_equal(q, fallen)
        np.testing.assert_array_equal(doubled, [2, 2, 2])


COPIES = """
import importlib, os, pkgutil, sys, threading
import warpsim.kernels
from warpsim.device.copies import SCALARS, adjoints_of, copy
from warpsim.kernels.solve.sap import sap
from warpsim.kernels.tree import passes

names = [info.name for info in pkgutil.walk_packages(warpsim.kernels.__path__, "warpsim.kernels.")]
files = [importlib.import_module(name) for name in names]
found, meet = [], threading.Barrier(4)


def ask(turn):
    meet.wait(10)
    order = files[turn::4] + files
    made = {(file.__name__, real): copy(file, real) for file in order for real in SCALARS.values()}
    kernels = {(*key, name): kernel for key, copied in made.items() for name, kernel in adjoints_of(copied).items()}
    entries = [copy(entry, real, taped=True) for entry in (sap.solve, passes.kinematics) for real in SCALARS.values()]
    found.append((made, kernels, entries))


threads = [threading.Thread(target=ask, args=(turn,)) for turn in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
made, kernels, entries = found[0]
assert len(made) > 150 and len(kernels) > 80, (len(made), len(kernels))
for others in found[1:]:
    assert all(made[key] is others[0][key] for key in made) and all(kernels[key] is others[1][key] for key in kernels)
    assert all(a is b for a, b in zip(entries, others[2]))
for kernel in [*kernels.values(), *entries]:
    assert kernel.module.kernels[kernel.key] is kernel
print("same")
"""


@pytest.mark.slow
def test_threads_get_the_same_copies_of_kernels():
    """Four threads that ask for the device code at once get the same copies, and every kernel is in its module once."""
    assert python(COPIES, timeout=120).stdout.split() == ["same"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_makes_copies_of_its_own():
    """A process that was forked between two copies makes the missing ones, and has those of its parent."""
    program = """
import os
import warp as wp
from warpsim.device.copies import copy
from warpsim.kernels.solve.sap import sap
from warpsim.kernels.tree import passes
solve = copy(sap.solve, wp.float32)
child = os.fork()
if child == 0:
    same = copy(sap.solve, wp.float32) is solve
    os._exit(0 if same and copy(passes.kinematics, wp.float64, taped=True).module.name.endswith("passes_grad") else 1)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(program, timeout=120).stdout.split()[-2:] == ["child", "0"]


def test_a_warning_of_the_constructor_points_at_its_caller():
    """What a simulator says of its model names the line that made it, not the lock around it."""
    with pytest.warns(UserWarning, match="overlap") as found:
        ws.Simulator(body_on_plane("sphere", [0.1], height=0.05), device="cpu")
    assert found[0].filename == __file__


def test_declarations_leave_garbage_collection_as_it_was():
    """Kernels are declared without collections; afterwards they are on again, unless the caller had them off."""
    with copies.declaring():
        assert not gc.isenabled()
        with copies.declaring():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with copies.declaring():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
