# SPDX-License-Identifier: Apache-2.0
"""A step between arrays that have seen it before skips every check, and takes the checked way where one array is another."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.examples import asset


@pytest.fixture(scope="module")
def sim():
    return ws.Simulator(ws.load(asset("ant")), 2, device="cpu", dtype="float64")


def walk(sim, steps, between=lambda state: None, **given):
    """The states after so many steps in place; `between` is called before each."""
    state, found = sim.state(), []
    rng = np.random.default_rng(0)
    for _ in range(steps):
        between(state)
        control = rng.uniform(-1, 1, (2, sim.model.nu))
        sim.step(state, control, out=state, **given)
        found.append(np.hstack([state.q.numpy().copy(), state.v.numpy().copy()]))
    return np.array(found)


def taken(sim, monkeypatch):
    """A list that grows with every step that is found."""
    found, repeat = [], sim._stepper.repeat

    def counted(*arguments):
        after = repeat(*arguments)
        found.extend([] if after is None else [after])
        return after

    monkeypatch.setattr(sim._stepper, "repeat", counted)
    return found


def test_the_same_bits_as_a_step_that_checks(sim, monkeypatch):
    found = taken(sim, monkeypatch)
    quick = walk(sim, 12)
    assert len(found) >= 9
    monkeypatch.setattr(sim._stepper, "repeat", lambda *arguments: None)
    assert np.array_equal(quick, walk(sim, 12))


@pytest.mark.parametrize("name", ["q", "v", "time", "flags"])
def test_another_array_is_checked_and_used(sim, name):
    """Arrays that take the place of others in the same state, with the same values."""

    def replace(state):
        if name in ("q", "v", "time"):
            setattr(state, name, wp.clone(getattr(state, name)))
        else:
            state.memory[name] = wp.clone(state.memory[name])

    assert np.array_equal(walk(sim, 8), walk(sim, 8, replace))


def test_a_wrong_array_in_a_known_state_is_refused(sim):
    state = sim.state()
    for _ in range(4):
        sim.step(state, out=state)
    state.v = wp.zeros((2, 3), dtype=wp.float64, device="cpu")
    with pytest.raises(ValueError, match="shape"):
        sim.step(state, out=state)
    state = sim.state()
    for _ in range(4):
        sim.step(state, out=state)
    state.memory["other"] = wp.zeros(2, dtype=wp.int32, device="cpu")
    with pytest.raises(ValueError, match="memory"):
        sim.step(state, out=state)
    del state.memory["other"]
    sim.step(state, out=state)
    state.memory = {f"{name}s": array for name, array in state.memory.items()}
    with pytest.raises(ValueError, match="memory"):
        sim.step(state, out=state)


@pytest.mark.parametrize("control", [np.zeros((1, 8)), np.zeros((2, 7)), [[0.0] * 8], "x", np.full((2, 8), "a")])
def test_wrong_controls_of_a_known_step_are_refused(sim, control):
    state = sim.state()
    for _ in range(4):
        sim.step(state, np.zeros((2, 8)), out=state)
    with pytest.raises(ValueError, match="control"):
        sim.step(state, control, out=state)


def test_forces_and_parameters_that_move_arrays_are_found_anew():
    """A wrench adds an array to the step, an expansion moves one: graphs of before know neither."""
    model = ws.load(asset("ant"))
    sim = ws.Simulator(model, 2, device="cpu", dtype="float64")
    state = sim.state()
    for _ in range(4):
        sim.step(state, out=state)
    wrench = np.zeros((2, model.nbody, 6))
    wrench[1, 0, 5] = 500.0
    for _ in range(4):
        sim.step(state, wrench=wrench, out=state)
    assert state.v.numpy()[1, 2] > state.v.numpy()[0, 2] + 0.5
    mass = sim.parameters["body_mass"].numpy().copy()
    mass[0] *= 2.0
    sim.parameters["body_mass"].assign(mass)
    state = sim.state()
    sim.step(state, np.ones((2, model.nu)), out=state)
    assert not np.array_equal(*state.v.numpy())


def test_no_array_is_held(sim):
    """States without `out` come from buffers that nobody else holds: one that a known step used is free again."""
    state = sim.state()
    kept = [state := sim.step(state) for _ in range(20)]
    values = [s.q.numpy().copy() for s in kept]
    for _ in range(20):
        state = sim.step(state)
    assert all(np.array_equal(s.q.numpy(), q) for s, q in zip(kept, values, strict=True))


def captures(sim, monkeypatch):
    """A list that grows with every capture of a step between states."""
    made, capture = [], sim._stepper.replay.capture

    def counted(function):
        made.append(function)
        return capture(function)

    monkeypatch.setattr(sim._stepper.replay, "capture", counted)
    return made


def test_rollouts_find_the_graphs_of_those_before(sim, monkeypatch):
    """Rollouts work in the same buffers, one after the other, whether their trajectories are kept until the next or not: nothing is captured again.
    Their states are their own."""
    start = sim.state()
    kept = sim.rollout(start, steps=3)
    final = kept.final.q.numpy().copy()
    for _ in range(6):
        last = sim.rollout(start, steps=3)
    made = captures(sim, monkeypatch)
    for _ in range(6):
        last = sim.rollout(start, steps=3)
    assert not made
    assert np.array_equal(kept.final.q.numpy(), final) and np.array_equal(last.final.q.numpy(), final)
    assert np.array_equal(start.q.numpy(), sim.state().q.numpy())


def test_states_that_are_kept_are_not_captured_for(sim, monkeypatch):
    """Steps whose results come to ever new places would be captured for nothing; those in a loop are."""
    state, made = sim.state(), captures(sim, monkeypatch)
    kept = [sim.step(state) for _ in range(10)]
    assert not made and len({id(x.q) for x in kept}) == 10
    for _ in range(80):
        state = sim.step(state)
    assert 0 < len(made) <= 4
