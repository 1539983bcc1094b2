# SPDX-License-Identifier: Apache-2.0
"""Impacts inside a step in all that makes simulators, keeps them, goes on with them or interrupts them: the same bits."""

import dataclasses
import functools
import signal
import threading
import warnings

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.files.store.store import Store
from warpsim.optimise.replicas import replicas
from warpsim.tools.cli import main

WORLDS, STEPS, H = 3, 100, 0.005
SCENE = """<mujoco model="bouncer"><option timestep=".005"/><worldbody><geom name="floor" type="plane" size="5 5 1"/>
<body name="ball" pos="0 0 .3"><joint name="x" type="slide" axis="1 0 0" range="-.1 .1" limited="true"/>
<joint name="z" type="slide" axis="0 0 1"/><joint name="spin" axis="0 1 0"/>
<geom name="ball" size=".1" solref=".03 .8"/></body></worldbody>
<actuator><motor joint="x" ctrlrange="-20 20"/><motor joint="z" ctrlrange="-20 20"/></actuator></mujoco>"""


@functools.cache
def model(e: float = 0.7) -> ws.Model:
    """A ball on slides that bounces on the floor and hits a joint stop; its file gives it a stiffness."""
    found = ws.load(mujoco.MjSpec.from_string(SCENE))
    return dataclasses.replace(found, geom_restitution=np.full(found.ngeom, e))


def simulator(worlds: int = WORLDS, e: float = 0.7, **options) -> ws.Simulator:
    options = {"device": "cpu", "threads": 1, "dtype": "float64"} | options
    return ws.Simulator(model(e), worlds, H, **options)


def start(sim: ws.Simulator) -> ws.State:
    v = np.random.default_rng(1).normal(size=(WORLDS, 3)) * [1.0, 1.0, 5.0] + [0.5, -1.0, 0.0]
    return sim.state(v=v[: sim.worlds])


CONTROLS = np.random.default_rng(0).uniform(-20, 20, (STEPS, WORLDS, 2))


def ends(run: ws.Trajectory) -> list[np.ndarray]:
    return [run.q.numpy(), run.v.numpy(), run.final.q.numpy(), run.final.v.numpy(), run.diagnostics["momentum_error"]]


def same(a, b) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@functools.cache
def expected(dtype: str = "float64") -> list[np.ndarray]:
    sim = simulator(dtype=dtype)
    assert sim.time_of_impact and not sim.mapped_stiffness and sim.untimed_pairs.untimed == 0
    run = sim.rollout(start(sim), CONTROLS)
    assert (count_impacts(dtype) >= 2).all()
    return ends(run)


def count_impacts(dtype: str = "float64", steps: int = STEPS) -> np.ndarray:
    """Impacts in each world of the run."""
    sim = simulator(dtype=dtype)
    state, total = start(sim), np.zeros(WORLDS, int)
    for step in range(steps):
        state = sim.step(state, CONTROLS[step])
        total += sim.diagnostics.impacts.numpy()
    return total


class Stopped(Exception):
    pass


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_that_goes_on(tmp_path, dtype):
    """A store of a run that was interrupted, and one whose model went to MJCF and came back."""

    def stop(step):
        if step == STEPS // 2:
            raise Stopped

    sim = simulator(dtype=dtype)
    with pytest.raises(Stopped):
        sim.rollout(start(sim), CONTROLS, store=tmp_path / "run", progress=stop)
    run = ws.resume(tmp_path / "run", device="cpu")
    same(ends(run), expected(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuJoCo has no restitution
        model().to_mjcf(tmp_path / "m.xml")
    again = ws.Simulator(ws.load(tmp_path / "m.xml"), WORLDS, H, device="cpu", threads=1, dtype=dtype)
    same(ends(again.rollout(start(again), CONTROLS)), expected(dtype))


def test_a_run_keeps_what_was_chosen(tmp_path):
    """`time_of_impact=False`, and the mapped stiffness where it was kept, are kept in a store."""
    for options in ({"time_of_impact": False, "solver": ws.LCP()}, {"time_of_impact": True, "mapped_stiffness": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the pair that is exempt
            sims = [simulator(**options) for _ in range(2)]

        def stop(step):
            if step == STEPS // 2:
                raise Stopped

        path = tmp_path / str(len(options["solver"].label) if "solver" in options else 0)
        with pytest.raises(Stopped):
            sims[0].rollout(start(sims[0]), CONTROLS, store=path, progress=stop)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ws.resume(path, device="cpu")
        same(ends(found), ends(sims[1].rollout(start(sims[1]), CONTROLS)))


def test_a_fault_in_a_step_with_an_impact(tmp_path):
    """A solver that may not finish flags a landing; the world that was written steps to the same bits."""
    options = {"solver": ws.SAP(tolerance=1e-16, max_iterations=1), "on_fault": tmp_path}
    sim = simulator(e=0.0, time_of_impact=True, **options)
    state, hits = start(sim), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(STEPS):
            state = sim.step(state, CONTROLS[step])
            hits.append(sim.diagnostics.impacts.numpy().copy())
    written = [ws.load_fault(path, device="cpu") for path in sorted(tmp_path.iterdir())]
    assert written and np.any(hits)
    struck = 0
    for fault in written:
        assert fault.same(fault.step())
        struck += int(fault.sim.diagnostics.impacts.numpy()[0])
    assert struck > 0


def test_substeps_are_steps():
    """Two halves of a step are two steps of half the length."""
    runs = []
    for substeps, dt in ((2, H), (1, H / 2)):
        sim = simulator()
        sim.dt = dt
        state = start(sim)
        for step in range(STEPS * 2 // substeps):
            state = sim.step(state, CONTROLS[step * substeps // 2], substeps=substeps)
        runs.append([state.q.numpy(), state.v.numpy()])
    same(*runs)


def test_threads_at_once():
    """Two simulators, each in its own thread, have the bits of one alone."""
    sims, found = [simulator() for _ in range(2)], [None, None]

    def run(k):
        found[k] = ends(sims[k].rollout(start(sims[k]), CONTROLS))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in found:
        same(run, expected())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_interrupt_leaves_the_simulator_usable():
    """Ctrl-C within the first steps, which are launched and captured; the next rollout has the bits of any other."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    sims, motion = [simulator() for _ in range(12)], expected()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for sim, delay in zip(sims, np.linspace(0.001, 0.06, len(sims)), strict=True):
            state = start(sim)
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay, 1.0)
                while True:
                    state = sim.step(state, CONTROLS[0])
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    for sim in sims:
        same(ends(sim.rollout(start(sim), CONTROLS)), motion)


def test_copies_of_the_worlds_move_as_the_worlds():
    """What iLQR, MPPI and `identify` roll out, with and without gradients."""
    sim = simulator()
    for requires_grad in (False, True):
        wide = replicas(sim, 2, requires_grad=requires_grad)
        assert wide.sim.time_of_impact and not wide.sim.mapped_stiffness
        motion = wide.roll(start(sim), STEPS, lambda knot, q, v: np.stack([CONTROLS[knot]] * 2))
        for copy in range(2):
            same([motion.q[:, copy], motion.v[:, copy]], expected()[:2])


def taped() -> tuple:
    """A simulator, its start (q, v), 60 controls, the seed of the last q, and the gradient by v of the tape."""
    sim = simulator(requires_grad=True)
    state, controls = start(sim), CONTROLS[:60]
    q, v = state.q.numpy(), state.v.numpy()
    state.v.requires_grad = True
    with wp.Tape() as tape:
        run = sim.rollout(state, controls)
    seed = np.random.default_rng(2).normal(size=(WORLDS, 3))
    tape.backward(grads={run.final.q: wp.array(seed, dtype=wp.float64, device="cpu")})
    return sim, q, v, controls, seed, state.v.grad.numpy()


def test_the_gradient_of_a_rollout():
    """That of its differences, through floor and stop."""
    assert count_impacts(steps=60).min() >= 1
    sim, q, v, controls, seed, found = taped()
    eps = 1e-6
    for i in range(3):
        moved = [sim.rollout(sim.state(q, v + s * eps * np.eye(3)[i]), controls).final.q.numpy() for s in (1, -1)]
        slope = ((moved[0] - moved[1]) * seed).sum(axis=1) / (2 * eps)
        np.testing.assert_allclose(found[:, i], slope, rtol=1e-5, atol=1e-5)


def test_torch_has_the_gradient_of_the_tape():
    """Of the same rollout."""
    torch = pytest.importorskip("torch")
    sim, q, v, controls, seed, expected = taped()
    given = [torch.tensor(x, requires_grad=True) for x in (q, v)]
    states = ws.torch.rollout(sim, *given, torch.tensor(controls))
    (states[0][-1] * torch.tensor(seed)).sum().backward()
    np.testing.assert_allclose(given[1].grad.numpy(), expected, rtol=1e-12, atol=1e-13)


def test_jax_has_the_gradient_of_the_tape():
    """Of the same rollout."""
    jax = pytest.importorskip("jax")
    sim, q, v, controls, seed, expected = taped()
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    found = np.asarray(jax.grad(lambda x: (ws.jax.rollout(sim, q, x, controls)[0][-1] * seed).sum())(v))
    jax.config.update("jax_enable_x64", before)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_the_command_line_has_it(tmp_path):
    """`warpsim run --time-of-impact`: the store says so."""
    path = tmp_path / "ball.xml"
    path.write_text(SCENE)
    for options, on in (([], False), (["--time-of-impact"], True)):
        store = tmp_path / f"{on}.zarr"
        line = ["run", str(path), "--device", "cpu", "--steps", "60", "--store", str(store), *options]
        assert main(line) == 0
        assert Store(store, "r").run["simulator"]["time_of_impact"] is on
