# SPDX-License-Identifier: Apache-2.0
"""A simulator has one workspace: a call on it while another thread is in one is refused by name; nested calls, and calls one after the other, are not."""

import _thread
import asyncio
import concurrent.futures
import copy
import inspect
import signal
import threading
import time

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.device.threads import Use

WORLDS = 2
REFUSED = "was called in thread 'MainThread' while thread 'the other' is in Simulator.rollout of the same simulator"


def simulator(**options) -> ws.Simulator:
    b = ws.ModelBuilder("cart")
    b.add_joint(b.add_body("cart", mass=2.0, inertia=[1.0, 1.0, 1.0]), "slide", axis=[1, 0, 0], name="rail")
    b.add_geom("sphere", [0.1], body="cart", density=0.0)
    b.add_actuator("rail", gear=10.0)
    options = {"dtype": "float64", "threads": 1} | options
    return ws.Simulator(b.build(), WORLDS, dt=0.02, device="cpu", **options)


class Elsewhere:
    """A rollout in another thread, which waits in its policy while a `with` block runs."""

    def __init__(self, sim):
        self.sim, self.within, self.done = sim, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, name="the other")

    def policy(self, state):
        self.within.set()
        assert self.done.wait(60)
        return np.zeros((WORLDS, self.sim.model.nu))

    def run(self):
        self.sim.rollout(self.sim.state(), self.policy, steps=1)

    def __enter__(self):
        self.thread.start()
        assert self.within.wait(60)

    def __exit__(self, *error):
        self.done.set()
        self.thread.join(60)


def methods(sim, state, folder) -> dict:
    """Calls of every public method of a simulator by its name."""
    m, q, zeros, ray = sim.model, state.q, np.zeros((WORLDS, 1)), ([[0, 0, 3.0]], [[0, 0, -1.0]])
    return {
        "step": lambda: sim.step(state),
        "rollout": lambda: sim.rollout(state, steps=2, store=folder / "run"),
        "state": sim.state,
        "reset": lambda: sim.reset(state, [0], parameters=True),
        "linearize": lambda: sim.linearize(state),
        "jvp": lambda: sim.jvp(state, dstate=np.zeros((sim.worlds, 2 * sim.model.nv))),
        "capture": lambda: sim.capture(lambda: None),
        "kinematics": lambda: sim.kinematics(q),
        "body_velocity": lambda: sim.body_velocity(state),
        "body_motion": lambda: sim.body_motion(state),
        "mass_matrix": lambda: sim.mass_matrix(q),
        "inverse_dynamics": lambda: sim.inverse_dynamics(q, state.v, zeros),
        "forward_dynamics": lambda: sim.forward_dynamics(q, state.v, zeros),
        "jacobian": lambda: sim.jacobian(q, 0),
        "energy": lambda: sim.energy(state),
        "sensors": lambda: sim.sensors(state),
        "acceleration": lambda: sim.acceleration(state),
        "joint_reaction": lambda: sim.joint_reaction(state),
        "contacts": lambda: sim.contacts(state),
        "contact_force": sim.contact_force,
        "contact_wrench": lambda: sim.contact_wrench(state),
        "about_centre": lambda: sim.about_centre(state),
        "evaluated": lambda: sim.evaluated("poses"),
        "ray_cast": lambda: sim.ray_cast(state, *ray),
        "ray_sensor": lambda: sim.ray_sensor(*ray),
        "last_contacts": lambda: sim.last_contacts,
        "contact_patches": sim.contact_patches,
        "bytes_per_world": sim.bytes_per_world,
        "dt": lambda: setattr(sim, "dt", 0.01),
        "parameters": lambda: sim.parameters["body_mass"],
        "diagnostics": sim.diagnostics.numpy,
        "scale_mass": lambda: sim.parameters.scale_mass(2.0),
        "assignment": lambda: sim.parameters.__setitem__("body_mass", 2.0 * m.body_mass),
    }


def others(sim, state) -> dict:
    """What works on a simulator besides."""
    controls, cost = np.zeros((3, WORLDS, 1)), ws.Cost(lambda q, v, u: u)
    with wp.Tape() as tape:
        end = sim.step(sim.state())
    objective = ws.Objective(sim, lambda trajectory: trajectory.q, {"controls": controls})
    look = sim.ray_sensor([[0, 0, 3.0]], [[0, 0, -1.0]])
    return {
        "replay": sim.capture(lambda: sim.step(state.without_gradient())),
        "ray sensor": lambda: look(state),
        "backward": lambda: tape.backward(grads={end.q: wp.full_like(end.q, 1.0)}),
        "shared_gradient": lambda: sim.parameters.shared_gradient("body_mass"),
        "objective": lambda: objective(objective.x0),
        "trust": lambda: objective.trust(),
        "check_gradients": lambda: ws.check_gradients(sim, horizons=1),
        "ilqr": lambda: ws.ilqr(sim, state, controls, cost),
        "cem": lambda: ws.cem(sim, state, controls, cost),
        "mppi": lambda: ws.mppi(sim, state, controls, cost),
        "shoot": lambda: ws.shoot(objective),
        "identify": lambda: ws.identify(
            sim=sim, state=state, controls=controls, residual=None, parameters={"body_mass": None}
        ),
        "reach": lambda: ws.reach(sim, np.zeros(1), {"cart": np.eye(7)[3]}),
    }


def test_every_method_is_refused_while_another_thread_is_in_a_rollout(tmp_path):
    """All of `Simulator`'s public methods, parameters and diagnostics; nothing is written, and the rollout ends as it would have."""
    sim = simulator(reactions=True)
    state = sim.state()
    found = methods(sim, state, tmp_path)
    public = {n for n, x in inspect.getmembers(ws.Simulator) if inspect.isfunction(x) and not n.startswith("_")}
    assert public <= set(found)
    elsewhere = Elsewhere(sim)
    with elsewhere:
        for name, call in found.items():
            with pytest.raises(RuntimeError, match=REFUSED):
                call()
                pytest.fail(name)
    assert not elsewhere.thread.is_alive() and sim.dt == 0.02 and not list(tmp_path.iterdir())
    assert (sim.parameters["body_mass"].numpy() == 2.0).all()
    found.pop("evaluated")  # of MuJoCo's integrators alone
    for call in found.values():
        call()


def test_tapes_objectives_and_optimisers_are_refused(tmp_path):
    """What differentiates a simulator, or plans with it, is a use of it."""
    sim = simulator(requires_grad=True)
    sim.parameters["body_mass"]
    found = others(sim, sim.state())
    with Elsewhere(sim):
        for name, call in found.items():
            with pytest.raises(RuntimeError, match=REFUSED):
                call()
                pytest.fail(name)
    found["backward"]()
    found["objective"]()


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_adapters_are_refused(framework):
    """`ws.torch` and `ws.jax` say the same: the latter through XLA, in whose threads it calls."""
    pytest.importorskip(framework)
    sim = simulator(dtype="float32", requires_grad=True)
    import importlib

    numpy = importlib.import_module("torch" if framework == "torch" else "jax.numpy")
    adapter = ws.torch if framework == "torch" else ws.jax
    q, v = numpy.zeros((WORLDS, 1)), numpy.zeros((WORLDS, 1))
    with Elsewhere(sim):
        with pytest.raises(Exception, match="of the same simulator"):
            rows = adapter.rollout(sim, q, v, steps=2)
            np.asarray(rows[0])
    assert np.asarray(adapter.rollout(sim, q, v, steps=2)[0]).shape == (3, WORLDS, 1)


def test_an_environment_and_a_viewer_are_refused():
    """`VectorEnv.step` and `Viewer.step` make several calls, between which nobody else's may come."""
    pytest.importorskip("viser")
    from warpsim.envs import Task, VectorEnv, terms

    class Stand(Task):
        model, decimation, episode = simulator().model, 1, None
        observations = {"q": terms.positions()}

    env = VectorEnv(Stand, WORLDS, device="cpu")
    env.reset(seed=0)
    sim = simulator()
    with ws.Viewer(sim, port=0) as view:
        for where, calls in (
            (env.sim, (lambda: env.step(np.zeros((WORLDS, 1))), env.reset, env.state_dict)),
            (sim, (view.step, view.show, lambda: view.run(seconds=0.02), lambda: view.sync(view.state), view.reset)),
        ):
            with Elsewhere(where):
                for call in calls:
                    with pytest.raises(RuntimeError, match=REFUSED):
                        call()
        view.step()
    env.step(np.zeros((WORLDS, 1)))


def test_a_policy_a_callback_and_a_dump_use_the_simulator_that_calls_them(tmp_path):
    """Calls of the thread that is in one already are nested: queries, parameters, a rollout within a rollout, and what `on_fault` writes."""
    sim = simulator(on_fault=str(tmp_path / "faults"))
    seen = []

    def policy(state):
        sim.parameters["body_mass"] = sim.model.body_mass
        seen.append(sim.rollout(sim.state(), steps=2).q.numpy()[-1, 0, 0] + sim.energy(state)[0].numpy()[0])
        return np.full((WORLDS, 1), 1e308)

    with pytest.warns(UserWarning, match="NONFINITE") as told:
        sim.rollout(sim.state(), policy, steps=3, progress=lambda step: sim.kinematics(np.zeros(1)))
    assert len(seen) == 3 and list((tmp_path / "faults").iterdir())
    with pytest.warns(UserWarning, match="NONFINITE") as told:
        sim.step(sim.state(), np.full((WORLDS, 1), 1e308))
    assert {w.filename for w in told} == {__file__}


def test_one_thread_after_the_other_and_tasks_of_asyncio():
    """A simulator may change hands between calls; a generator or a coroutine that is suspended between steps is in none."""
    sim, pool = simulator(), concurrent.futures.ThreadPoolExecutor(1)
    start = sim.state(v=[1.0])

    def motion(state):
        while True:
            state = sim.step(state)
            yield state

    steps = motion(start)
    next(steps)
    expected = sim.step(start).q.numpy()
    assert np.array_equal(pool.submit(lambda: sim.step(start).q.numpy()).result(), expected)

    async def one(found):
        for _ in range(5):
            found.append(sim.step(start).q.numpy())
            await asyncio.sleep(0)
            found.append((await asyncio.get_running_loop().run_in_executor(pool, sim.step, start)).q.numpy())

    async def both(found):
        first = asyncio.ensure_future(one(found))
        await first
        await asyncio.gather(*(one_step(found) for _ in range(3)))

    async def one_step(found):
        found.append(sim.step(start).q.numpy())
        await asyncio.sleep(0)

    found: list = []
    asyncio.run(both(found))
    assert len(found) == 13 and all(np.array_equal(q, expected) for q in found)
    pool.shutdown()


def test_an_exception_and_an_interrupt_let_go():
    """A policy that raises, and Ctrl-C at any place within and around a call: afterwards another thread may use the simulator."""
    sim, pool = simulator(), concurrent.futures.ThreadPoolExecutor(1)
    state = sim.state()

    def broken(state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sim.rollout(state, broken, steps=1)
    with pytest.raises(ValueError, match="control"):
        sim.step(state, np.zeros(7))
    pool.submit(sim.step, state).result()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    rng, interrupted = np.random.default_rng(0), 0
    try:
        for _ in range(100):
            wait = rng.uniform(1e-5, 2e-3)
            pool.submit(lambda wait=wait: (time.sleep(wait), _thread.interrupt_main()))
            end = time.monotonic() + 1.0
            try:
                while time.monotonic() < end:  # Python drops an interrupt that falls into a finalizer
                    sim.step(state, out=state)
            except KeyboardInterrupt:
                interrupted += 1
            assert not sim._use._lock.locked()
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted > 80
    pool.submit(sim.step, state).result()
    pool.shutdown()


def test_two_threads_on_one_simulator_get_the_right_bits_or_the_error():
    """However calls of two threads meet, none gives other numbers than alone; both errors and results come."""
    sim = simulator()
    starts = [sim.state(v=[1.0]), sim.state(v=[-3.0])]
    expected = [sim.step(start).q.numpy().copy() for start in starts]
    counts, wrong, begin = [[0, 0], [0, 0]], [], threading.Barrier(2)

    def run(k):
        out = starts[k].clone()
        begin.wait(10)
        end = time.perf_counter() + 30
        while counts[k][0] < 500 and time.perf_counter() < end:
            try:
                sim.step(starts[k], out=out)
                counts[k][0] += 1
                wrong.extend([] if np.array_equal(out.q.numpy(), expected[k]) else [k])
            except RuntimeError:
                counts[k][1] += 1
                time.sleep(1e-5)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and [n for n, _ in counts] == [500, 500] and sum(refused for _, refused in counts) > 0


def test_what_it_costs():
    """Less than a microsecond per call, and a copy of what guards a simulator is in no call."""
    use, count = Use(), 20000

    def nothing(x):
        return x

    def seconds(call):
        began = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - began) / count

    direct = min(seconds(lambda: nothing(1)) for _ in range(5))
    guarded = min(seconds(lambda: use.run(nothing, (1,), {})) for _ in range(5))
    assert guarded - direct < 2e-6
    assert use.run(lambda: copy.deepcopy(use).run(nothing, (3,), {}), (), {}) == 3
