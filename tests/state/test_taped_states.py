# SPDX-License-Identifier: Apache-2.0
"""The arrays of steps on a tape are used again once nobody holds them, and only then."""

import contextlib
import gc

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.state import spare_states

STEPS = 6


@pytest.fixture
def sim():
    return ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=3, requires_grad=True, device="cpu")


def taped(sim, seed: int = 0):
    """The end of some taped steps, and its tape."""
    controls = np.random.default_rng(seed).uniform(-1.0, 1.0, (STEPS, sim.worlds, sim.model.nu)).astype(np.float32)
    state = start = sim.state()
    with wp.Tape() as tape:
        for control in controls:
            state = sim.step(state, control)
    return start, state, tape


def gradient(sim):
    start, end, tape = taped(sim)
    tape.backward(grads={end.q: wp.ones_like(end.q)})
    return start.q.grad.numpy().copy(), start.v.grad.numpy().copy()


def addresses(sim) -> set[int]:
    return {buffer.arrays["q"].ptr for buffer in sim._stepper._taped._buffers}


def test_arrays_are_used_again_and_gradients_keep_their_bits(sim):
    """The same tape four times: as many states as the first needs, and the same gradient bit for bit."""
    found = [gradient(sim)]
    gc.collect()
    before = addresses(sim)
    found += [gradient(sim) for _ in range(3)]
    assert len(before) == STEPS and addresses(sim) == before
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def held(what: str, state):
    """A reference to the state's velocities or their gradient, of one of the kinds that a caller may keep."""
    if what == "gradient's view":
        return state.v.grad.numpy()
    return {"array": state.v, "slice": state.v[1:], "gradient": state.v.grad, "view": state.v.numpy()}[what]


@pytest.mark.parametrize("what", ["array", "slice", "gradient", "view", "gradient's view"])
def test_arrays_that_a_caller_holds_stay_as_they_are(sim, what):
    """An array, its gradient, or a view of one of them outlives its tape and its state with its values."""
    _, end, tape = taped(sim)
    end.v.grad.fill_(3.0)
    kept = held(what, end)
    values = np.array(kept if isinstance(kept, np.ndarray) else kept.numpy())
    del end, tape
    gc.collect()
    for seed in range(1, 4):
        taped(sim, seed)
    np.testing.assert_array_equal(kept if isinstance(kept, np.ndarray) else kept.numpy(), values)


def test_an_array_with_a_gradient_of_the_callers_is_not_used_again(sim):
    """A caller's gradient array, or none, does not come back with another state."""
    _, end, tape = taped(sim)
    address = end.v.ptr
    end.v.requires_grad = False
    del end, tape
    gc.collect()
    for seed in range(1, 4):
        _, end, _ = taped(sim, seed)
        assert end.v.grad is not None and end.v.ptr != address


def test_a_gradient_that_a_caller_made_does_not_come_back():
    """A loss of arrays that a caller gave a gradient has the same gradient every time, taped steps or not."""
    for taped_too in (False, True):
        sim = ws.Simulator(ws.load(ws.robots.path("hopper")), requires_grad=taped_too, device="cpu")
        name = "time" if taped_too else "q"
        for _ in range(3):
            start = sim.state()
            with wp.Tape() if taped_too else contextlib.nullcontext():
                array = sim.step(start).arrays()[name]
            array.requires_grad = True
            assert not array.grad.numpy().any()
            array.grad.fill_(1.0)
            del start, array
            gc.collect()


def test_many_states_keep_little_memory(sim, monkeypatch):
    """Beyond the limit, states are made anew and nothing is kept."""
    monkeypatch.setattr(spare_states, "TAPED_BYTES", 0)
    other = ws.Simulator(sim.model, worlds=3, requires_grad=True, device="cpu")
    np.testing.assert_array_equal(gradient(other), gradient(sim))
    assert not other._stepper._taped._buffers
