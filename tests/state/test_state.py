# SPDX-License-Identifier: Apache-2.0
"""What a user can write into a state: arrays of wrong sizes are refused, and no value in them breaks a step."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.bodies import body_on_plane

WHOLE = (2**31 - 1, -(2**31), -1, 10**6, 3)
REAL = (np.nan, np.inf, -np.inf, 1e300, 0.0)


def resting(solver=None, worlds=2, **options):
    """A simulator, and its state while a box lies on a plane."""
    model = body_on_plane("box", [0.1, 0.1, 0.1])
    sim = ws.Simulator(model, worlds, dt=0.01, device="cpu", dtype="float64", solver=solver, **options)
    return sim, sim.rollout(sim.state(), steps=3).final


@pytest.mark.parametrize("value", WHOLE)
def test_a_count_of_contacts_that_memory_cannot_hold_is_none(value):
    """`lcp_count` of one world is what a damaged file may hold: the step solves without a guess, to the same motion, and
    the other world's bits are those of a world beside a sound one."""
    sim, state = resting(ws.LCP())
    expected = sim.step(state)
    count = state.memory["lcp_count"].numpy().copy()
    assert count.max() > 0
    state.memory["lcp_count"].assign(np.array([value, count[1]], dtype=np.int32))
    after = sim.step(state)
    assert after.memory["flags"].numpy().tolist() == [0, 0]
    np.testing.assert_allclose(after.q.numpy()[0], expected.q.numpy()[0], atol=1e-12)
    np.testing.assert_array_equal(after.q.numpy()[1], expected.q.numpy()[1])
    np.testing.assert_array_equal(after.memory["lcp_count"].numpy(), count)


@pytest.mark.parametrize("options", [{"solver": ws.LCP()}, {"solver": ws.SAP()}, {"integrator": ws.Variational()}])
def test_no_value_in_a_state_breaks_another_world(options):
    """Every array of world 0 filled with the worst of numbers: world 1 steps to the same bits, and nothing is read or
    written out of bounds."""
    sim, state = resting(**options)
    expected = sim.step(state).numpy()
    for name, array in state.arrays().items():
        if not array.size:
            continue
        for value in WHOLE if array.dtype == wp.int32 else REAL:
            bad = state.clone()
            host = array.numpy().copy()
            host[0] = value
            bad.arrays()[name].assign(host)
            for other, found in sim.step(bad).numpy().items():
                np.testing.assert_array_equal(found[1], expected[other][1], err_msg=f"{name}={value}: {other}")


def test_assign_refuses_a_state_of_another_size():
    """Fewer worlds, another dtype, or other memory: an error that names the array, and nothing is written."""
    sim, state = resting(ws.LCP(), worlds=3)
    before = {name: array.copy() for name, array in state.numpy().items()}
    for other, words in (
        (state[0:2], r"q of other is float64 of shape \(2, 7\)"),
        (resting(ws.SAP(), worlds=3)[1], "lcp_count"),
        (ws.Simulator(sim.model, 3, device="cpu", solver=ws.LCP()).state(), "float32"),
        (resting(ws.LCP(), worlds=3, max_contacts=7)[1], "lcp_key"),
        (3, "int"),
    ):
        with pytest.raises(ValueError, match=words):
            state.assign(other)
        for name, array in state.numpy().items():
            np.testing.assert_array_equal(array, before[name])
    again = sim.state()
    again.assign(state)
    np.testing.assert_array_equal(again.q.numpy(), state.q.numpy())


@pytest.mark.parametrize("name", ["q", "v", "time", "flags", "lcp_count", "lcp_key", "lcp_contact_x"])
def test_a_step_refuses_arrays_of_wrong_size_or_kind(name):
    """Every array of a state, not only q and v: too small, of another dtype or kind, or missing."""
    sim, state = resting(ws.LCP())
    good = state.arrays()[name]
    for bad, words in (
        (wp.zeros((1, *good.shape[1:]), dtype=good.dtype, device="cpu"), "shape"),
        (wp.zeros(good.shape, dtype=wp.float16, device="cpu"), "float16"),
        (good.numpy(), "ndarray"),
    ):
        broken = state.clone()
        vars(broken)[name] = bad
        if name in broken.memory:
            broken.memory[name] = bad
        for call in (lambda s: sim.step(s), lambda s: sim.step(state, out=s), sim.contacts):
            with pytest.raises(ValueError, match=rf"{name}\b.*{words}"):
                call(broken)
    broken = state.clone()
    if name in broken.memory:
        del broken.memory[name]
        with pytest.raises(ValueError, match="solver, integrator or recovery_speed"):
            sim.step(broken)
