# SPDX-License-Identifier: Apache-2.0
"""States that `step` makes on memory used before, inputs from the host, and steps within graphs: none changes what anybody holds."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws


@pytest.fixture(scope="module")
def sim(assets):
    return ws.Simulator(ws.load(assets("half_cheetah")), worlds=3, device="cpu")


def positions(sim, steps: int) -> list[np.ndarray]:
    """q after each step, by stepping one state in place."""
    state, found = sim.state(), []
    for _ in range(steps):
        sim.step(state, out=state)
        found.append(state.q.numpy().copy())
    return found


def test_kept_states_stay_as_they_were(sim):
    """A hundred states that are kept, and views and NumPy arrays of states that are not, hold what the step wrote to them."""
    expected, kept = positions(sim, 100), []
    state = sim.state()
    for k in range(100):
        state = sim.step(state)
        kept.append((k, state))
    for k, one in kept:
        np.testing.assert_array_equal(one.q.numpy(), expected[k])
    state, kept = sim.state(), []
    for k in range(100):
        state = sim.step(state)
        views = [lambda: state.q, state.q.numpy, lambda: state.q[0:3], state.q.flatten, lambda: np.asarray(state.q)[1:]]
        if k % 3 == 0:
            kept.append((k, views[k % len(views)]()))
    for k, view in kept:
        found = view.numpy() if isinstance(view, wp.array) else view
        np.testing.assert_array_equal(found.reshape(-1, expected[k].shape[1]), expected[k][-found.size // 9 :])


def test_states_that_nobody_keeps_are_used_again(sim):
    """A loop over `state = sim.step(state)` alternates between two places, so that both steps are replayed from graphs."""
    state, places = sim.state(), set()
    for _ in range(20):
        state = sim.step(state)
        places.add(state.q.ptr)
    assert len(places) <= 3


def test_tensors_of_states_stay_as_they_were(sim):
    torch = pytest.importorskip("torch")
    expected, kept, state = positions(sim, 40), [], sim.state()
    for k in range(40):
        state = sim.step(state)
        kept.append((k, torch.from_dlpack(state.q) if k % 2 else state.torch()["q"][:, :]))
    for k, tensor in kept:
        np.testing.assert_array_equal(tensor.numpy(), expected[k])


def test_inputs_of_every_kind_have_the_same_bits(sim):
    """Controls as float32, float64, a list, with gaps, and an array of Warp; and none after one is none."""
    u = np.random.default_rng(0).uniform(-1, 1, (3, sim.model.nu)).astype("float32")
    state = sim.state()
    kinds = [u, u.astype(float), u.tolist(), np.repeat(u, 2, axis=1)[:, ::2], wp.array(u, device="cpu")]
    found = [sim.step(state, control).v.numpy().copy() for control in kinds for _ in range(3)]
    assert all(np.array_equal(v, found[0]) for v in found)
    np.testing.assert_array_equal(sim.step(state).v.numpy(), sim.step(state, np.zeros_like(u)).v.numpy())


def test_steps_within_a_capture_of_ones_own(sim):
    """`wp.ScopedCapture` around a step in place: the graph repeats it."""
    state = sim.state()
    for _ in range(3):
        sim.step(state, out=state)
    with wp.ScopedCapture(device="cpu") as capture:
        sim.step(state, out=state)
    for _ in range(7):
        wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(state.q.numpy(), positions(sim, 10)[-1])


def test_inputs_within_a_capture_of_ones_own(assets):
    """A graph with a control from the host, or with none, is the step with that control or none, whatever steps were made around it; and so are
    steps made after it."""
    sim = ws.Simulator(ws.load(assets("half_cheetah")), worlds=64, device="cpu")
    u = np.random.default_rng(0).uniform(-1, 1, (64, sim.model.nu)).astype("float32")
    start = sim.state()
    pushed, free = sim.step(start, u).v.numpy().copy(), sim.step(start).v.numpy().copy()
    assert not np.array_equal(pushed, free)
    out, graphs = sim.state(), {}
    for name, control in (("free", None), ("pushed", u.copy())):
        with wp.ScopedCapture(device="cpu") as capture:
            sim.step(start, control, out=out)
        graphs[name] = capture.graph
        del control
        junk = [np.full((64, sim.model.nu), 9.0, np.float32) for _ in range(200)]  # where what is freed was
        np.testing.assert_array_equal(sim.step(start).v.numpy(), free)
    for name, expected in (("pushed", pushed), ("free", free), ("pushed", pushed)):
        for control, plain in ((u, pushed), (None, free)):
            np.testing.assert_array_equal(sim.step(start, control).v.numpy(), plain)
            wp.capture_launch(graphs[name])
            np.testing.assert_array_equal(out.v.numpy(), expected)
    np.testing.assert_array_equal(sim.step(start).v.numpy(), free)
    assert len(junk) == 200


def test_a_start_within_a_capture_of_ones_own(assets):
    """A graph with a reset to a start from the host repeats it."""
    sim = ws.Simulator(ws.load(assets("half_cheetah")), worlds=64, device="cpu")
    q = np.tile(sim.model.q0, (64, 1)) + 0.1
    state = sim.state()
    sim.reset(state, [0])  # what the model's start is made of cannot be uploaded while a graph is captured
    with wp.ScopedCapture(device="cpu") as capture:
        sim.reset(state, np.arange(64), q=q.copy())
    junk = [np.full(q.shape, 9.0, np.float32) for _ in range(200)]
    for _ in range(3):
        sim.step(state, out=state)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(state.q.numpy(), q.astype("float32"))
    assert len(junk) == 200


def test_forces_of_steps_of_other_substeps(assets):
    """Contact forces of a step that is replayed are impulses by its own step size, not by that of the step captured last."""
    sim = ws.Simulator(ws.load(assets("ant")), worlds=2, device="cpu")
    state = sim.rollout(sim.state(), steps=100).final
    expected, out = {}, sim.state()
    for substeps in (1, 4, 1, 4, 1, 4):
        sim.step(state, substeps=substeps, out=out)
        force = sim.contact_force().numpy().copy()
        np.testing.assert_array_equal(force, expected.setdefault(substeps, force))
    assert expected[1].any()


def test_reset_by_a_mask_within_a_graph(sim):
    """A step and a reset of the worlds of a mask in one graph: those start anew, the others go on, whatever the mask holds then."""
    mask = wp.zeros(3, dtype=bool, device="cpu")
    state = sim.state()

    def step() -> None:
        sim.step(state, out=state)
        sim.reset(state, mask)

    replay = sim.capture(step)
    expected = positions(sim, 5)
    sim.reset(state, [0, 1, 2])
    for k in range(5):
        mask.assign([k == 1, False, k == 4])
        replay()
    q = state.q.numpy()
    np.testing.assert_array_equal(q[0], expected[2][0])
    np.testing.assert_array_equal(q[1], expected[4][1])
    np.testing.assert_array_equal(q[2], sim.model.q0.astype("float32"))
    np.testing.assert_allclose(state.time.numpy(), sim.dt * np.array([3, 5, 0]))
