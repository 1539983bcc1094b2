# SPDX-License-Identifier: Apache-2.0
"""What belongs to a world and to a simulator: parameters that a reset puts back, the memory they take, models that nothing
drives."""

import gc
import json

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane
from warpsim.device.memory import array_bytes
from warpsim.tools.cli import main


@pytest.fixture(scope="module")
def ball():
    return body_on_plane("sphere", [0.1])


# Reset with parameters ---------------------------------------------------------------------------------------------------


def test_reset_takes_parameters_back_to_the_models(ball, device):
    """A world with a NaN mass stops; `reset(parameters=True)` gives the chosen worlds every parameter of the model again, to
    the bit, and they move as in a new simulator. Other worlds keep theirs, and so do all without `parameters=True`."""
    sim = ws.Simulator(ball, worlds=3, device=device)
    sim.parameters["gravity"] = [[0, 0, -1.0], [0, 0, -2.0], [0, 0, -3.0]]
    sim.parameters["body_active"] = np.array([[1.0], [0.0], [1.0]])
    mass = sim.parameters["body_mass"].numpy().copy()
    mass[1:] = np.nan
    sim.parameters["body_mass"].assign(mass)
    state = sim.rollout(sim.state(), steps=3).final
    sim.reset(state, [1])
    assert np.isnan(sim.parameters["body_mass"].numpy()[1:]).all()
    sim.reset(state, [1], parameters=True)
    np.testing.assert_array_equal(sim.parameters["body_mass"].numpy()[:2, 0], np.float32(ball.body_mass[[0, 0]]))
    assert np.isnan(sim.parameters["body_mass"].numpy()[2]).all()
    np.testing.assert_array_equal(sim.parameters["gravity"].numpy()[:, 2], np.float32([-1, ball.gravity[2], -3]))
    new = ws.Simulator(ball, worlds=3, device=device)
    found, wanted = sim.rollout(state, steps=20), new.rollout(new.state(), steps=20)
    for name in ("q", "v"):
        np.testing.assert_array_equal(getattr(found, name).numpy()[:, 1], getattr(wanted, name).numpy()[:, 1])
    assert found.diagnostics["flags"].numpy()[-1].tolist() == [0, 0, 1]


@pytest.mark.parametrize("on_device", [False, True])
def test_reset_to_a_keyframe(ball, device, on_device):
    """The chosen worlds get the keyframe's values to the bit, as `state(keyframe=)`, but for arguments beside it."""
    b = ws.ModelBuilder()
    b.add_model(ball)
    b.add_keyframe("up", q=[0, 0, 2, 1, 0, 0, 0], v=[0, 0, 0, 1, 2, 3])
    sim = ws.Simulator(b.build(), worlds=3, device=device)
    wanted, first = sim.state(keyframe="up"), sim.step(sim.state())
    mask = wp.array([True, False, True], dtype=wp.bool, device=device) if on_device else np.array([1, 0, 1], bool)
    for given in ({}, {"v": np.zeros(6)}):
        state = first.clone()
        sim.reset(state, mask, keyframe="up", **given)
        for name in ("q", "v"):
            found, ours = (getattr(x, name).numpy() for x in (state, wanted))
            np.testing.assert_array_equal(found[::2], 0 if name in given else ours[::2])
            np.testing.assert_array_equal(found[1], getattr(first, name).numpy()[1])


# Memory ------------------------------------------------------------------------------------------------------------------


def own_arrays() -> dict[int, int]:
    """Bytes of every Warp array alive that owns its memory, by address."""
    gc.collect()
    arrays = [x for x in gc.get_objects() if type(x) is wp.array and x.deleter is not None]
    return {x.ptr: x.capacity for x in arrays}


@pytest.mark.parametrize("solver", [ws.SAP(), ws.Compliant(), ws.LCP()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_bytes_per_world_is_what_a_simulator_holds(ball, device, requires_grad, solver):
    """`bytes_per_world` is what Warp allocated and the simulator keeps after steps, a backward pass, queries and per-world
    parameters: gradients and the workspace of the backward pass included, states for other tapes not."""
    before, worlds = own_arrays(), 64
    sim = ws.Simulator(ball, worlds, device=device, solver=solver, requires_grad=requires_grad)
    _ = sim.parameters["body_inertia"]
    state = sim.state()
    promised = sim.bytes_per_world()
    with wp.Tape() as tape:
        after = sim.step(state) if requires_grad else None
    if requires_grad:
        after.q.grad.fill_(1.0)
        tape.backward()
    else:
        sim.step(state, out=state)
    # The workspace of the backward pass is counted before the first one; contact with it may take buffers of its own.
    assert sim.bytes_per_world() == pytest.approx(promised, rel=0.02)
    sim.mass_matrix(ball.q0)
    del tape, after, state
    held = sum(size for pointer, size in own_arrays().items() if pointer not in before)
    of_tapes = array_bytes(list(sim._stepper._taped._buffers))
    assert sim.bytes_per_world() * worlds + of_tapes == pytest.approx(held, rel=0.02)


# Nothing to drive --------------------------------------------------------------------------------------------------------


def test_controls_of_width_zero(ball, device):
    """A model without actuators takes controls of width 0 as no controls, in a step and a rollout, as an array of either
    kind; a table of any other width is refused with the width it must have."""
    sim = ws.Simulator(ball, worlds=2, device=device)
    wanted = sim.rollout(sim.state(), steps=3).q.numpy()
    for kind in (np.asarray, lambda x: wp.array(x, dtype=wp.float32, device=device)):
        found = sim.rollout(sim.state(), kind(np.zeros((3, 2, 0), dtype=np.float32)))
        np.testing.assert_array_equal(found.q.numpy(), wanted)
        state = sim.step(sim.state(), kind(np.zeros((2, 0), dtype=np.float32)))
        np.testing.assert_array_equal(state.q.numpy(), wanted[1])
    with pytest.raises(ValueError, match=r"controls has shape \(3, 2, 1\); it must be .* = \(3, 2, 0\)"):
        sim.rollout(sim.state(), np.zeros((3, 2, 1)))


BALL = """<mujoco model="ball"><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 1"><freejoint/><geom type="sphere" size=".1"/></body></worldbody></mujoco>"""


def test_bench_of_a_model_without_actuators(tmp_path, monkeypatch):
    """`warpsim bench` races a model with nu = 0, as any other."""
    (tmp_path / "ball.xml").write_text(BALL)
    monkeypatch.chdir(tmp_path)
    args = "bench --models ball.xml --worlds 1,2 --engines warpsim,mujoco --repeats 1 --world-steps 16 --settle 0.05"
    assert main([*args.split(), "--no-cold-start", "--device", "cpu", "--out", "."]) == 0
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [(r["engine"], r["worlds"]) for r in rows] == [("warpsim", 1), ("mujoco", 1), ("warpsim", 2), ("mujoco", 2)]
