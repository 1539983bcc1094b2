# SPDX-License-Identifier: Apache-2.0
"""Gradients of rollouts: checkpoints, norms per step and world, worlds that stop, memory over many iterations."""

import gc
import os

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.differentiate.checkpoint import Checkpoints

STEPS, WORLDS = 23, 3


@pytest.fixture(scope="module")
def ant(assets):
    """A standing ant, in float64 and three worlds."""
    model = ws.load(assets("ant"))
    sim = ws.Simulator(model, worlds=WORLDS, dtype="float64", requires_grad=True, device="cpu")
    rest = sim.rollout(sim.state(), steps=60).final
    return sim, rest.q.numpy(), rest.v.numpy()


def random_controls(sim, steps=STEPS, seed=1):
    values = np.random.default_rng(seed).uniform(-1, 1, (steps, sim.worlds, sim.model.nu))
    return wp.array(values, dtype=wp.float64, device="cpu", requires_grad=True)


def seeds(arrays, seed=4):
    """Random gradients of a loss with respect to some arrays."""
    rng = np.random.default_rng(seed)
    return {a: wp.array(rng.normal(size=a.shape), dtype=a.dtype, device=a.device) for a in arrays}


def gradients(ant, every=1, **options):
    """Trajectory, and the gradients to start, controls and masses of a loss on rows and on the last state."""
    sim, q, v = ant
    start, controls = sim.state(q, v), random_controls(sim)
    mass = sim.parameters["body_mass"]
    mass.grad.zero_()
    with wp.Tape() as tape:
        trajectory = sim.rollout(start, controls, every=every, **options)
    loss = [trajectory.q, trajectory.v, trajectory.final.q, trajectory.final.v]
    tape.backward(grads=seeds(loss))
    found = [start.q.grad, start.v.grad, controls.grad, mass.grad]
    return trajectory, [x.numpy().copy() for x in found], tape


@pytest.mark.parametrize("every, substeps", [(1, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("n", [1, 5, STEPS, 100])
def test_checkpoints_change_nothing(ant, within, n, every, substeps):
    """The same bits forward, and the same gradients to round-off, for any distance between checkpoints."""
    plain, expected, _ = gradients(ant, every, substeps=substeps)
    kept, found, _ = gradients(ant, every, substeps=substeps, checkpoint_every=n)
    np.testing.assert_array_equal(plain.q.numpy(), kept.q.numpy())
    np.testing.assert_array_equal(plain.v.numpy(), kept.v.numpy())
    np.testing.assert_array_equal(plain.final.v.numpy(), kept.final.v.numpy())
    for name in plain.diagnostics:
        np.testing.assert_array_equal(plain.diagnostics[name].numpy(), kept.diagnostics[name].numpy())
    for name, a, b in zip(("q", "v", "controls", "mass"), expected, found, strict=True):
        within(f"checkpoints every {n}, rows every {every}: {name}", np.abs(a - b).max() / np.abs(a).max(), 1e-12)


def test_a_second_backward_pass_and_tape_zero(ant):
    """`tape.zero()` clears what a checkpointed rollout added, all steps of the controls; the pass can be repeated."""
    sim, q, v = ant
    start, controls = sim.state(q, v), random_controls(sim)
    with wp.Tape() as tape:
        trajectory = sim.rollout(start, controls, checkpoint_every=5)
    tape.backward(grads=seeds([trajectory.q]))
    first = controls.grad.numpy().copy()
    tape.zero()
    assert not controls.grad.numpy().any() and not start.q.grad.numpy().any()
    tape.backward(grads=seeds([trajectory.q]))
    np.testing.assert_array_equal(controls.grad.numpy(), first)


def test_a_rollout_without_a_tape_ignores_checkpoints(ant):
    """The same call serves training and evaluation."""
    sim, q, v = ant
    controls = random_controls(sim)
    a = sim.rollout(sim.state(q, v), controls)
    b = sim.rollout(sim.state(q, v), controls, checkpoint_every=4)
    np.testing.assert_array_equal(a.q.numpy(), b.q.numpy())


def test_states_that_do_not_repeat_are_noticed(ant):
    """A kept state that is written to between the two passes of a checkpointed rollout: an error, not a wrong gradient."""
    sim, q, v = ant
    with wp.Tape() as tape:
        trajectory = sim.rollout(sim.state(q, v), random_controls(sim), checkpoint_every=5)
    checkpoints = next(x.__self__ for x in tape.launches if getattr(x, "__self__", None).__class__ is Checkpoints)
    edited = checkpoints.states[2].v.numpy().copy()
    edited[1] *= 1.1
    checkpoints.states[2].v.assign(edited)
    with pytest.raises(ValueError, match=r"could not be repeated in world 1 \(1 in all\)"):
        tape.backward(grads=seeds([trajectory.q]))


def test_diagnostics_survive_the_repeated_steps(ant):
    """`sim.diagnostics` stays that of the last step after a backward pass that repeats earlier ones."""
    sim, q, v = ant
    with wp.Tape() as tape:
        trajectory = sim.rollout(sim.state(q, v), random_controls(sim), checkpoint_every=5)
    before = sim.diagnostics.numpy()
    tape.backward(grads=seeds([trajectory.q]))
    for name, values in sim.diagnostics.numpy().items():
        np.testing.assert_array_equal(values, before[name])


def test_a_callable_is_not_repeated(ant):
    """A policy may draw random numbers or keep a memory: refused with checkpoints, taped without."""
    sim, q, v = ant
    fixed = random_controls(sim, 1)[0]
    with wp.Tape(), pytest.raises(ValueError, match="callable"):
        sim.rollout(sim.state(q, v), lambda state: fixed, steps=4, checkpoint_every=2)


@pytest.mark.parametrize("n", [None, 5])
def test_gradient_norms(ant, n):
    """Row k is the norm of the gradient of the state after k steps; row 0 that of the start; the report reads it."""
    trajectory, found, _ = gradients(ant, gradient_norms=True, checkpoint_every=n)
    norms = trajectory.gradient_norms.numpy()
    assert norms.shape == (STEPS + 1, WORLDS)
    start = np.sqrt((found[0] ** 2).sum(1) + (found[1] ** 2).sum(1))
    np.testing.assert_allclose(norms[0], start, rtol=1e-12)
    shorter, found, _ = gradients(ant, gradient_norms=True)
    np.testing.assert_allclose(norms, shorter.gradient_norms.numpy(), rtol=1e-9)
    trajectory.gradients.check()
    assert "median norm" in str(trajectory.gradients)


def test_norms_must_be_asked_for_and_need_a_backward_pass(ant):
    """Norms without a tape, without a request or before the backward pass: an error each."""
    sim, q, v = ant
    with pytest.raises(ValueError, match="needs a tape"):
        sim.rollout(sim.state(q, v), steps=2, gradient_norms=True)
    with wp.Tape():
        asked, plain = (sim.rollout(sim.state(q, v), steps=2, gradient_norms=x) for x in (True, False))
    with pytest.raises(ValueError, match="backward"):
        asked.gradient_norms  # noqa: B018
    with pytest.raises(ValueError, match="gradient_norms=True"):
        plain.gradient_norms  # noqa: B018


@pytest.mark.parametrize("n", [None, 4])
def test_a_world_that_stops_passes_no_gradient(ant, n):
    """A NaN control stops world 1 at step 8: its later controls get zero, the earlier ones the gradient of a loss on
    the rows before, and the other worlds what they get without it."""
    sim, q, v = ant
    values = random_controls(sim).numpy().copy()
    _, expected, _ = gradients(ant)
    values[7, 1, 0] = np.nan
    controls = wp.array(values, dtype=wp.float64, device="cpu", requires_grad=True)
    start, mass = sim.state(q, v), sim.parameters["body_mass"]
    mass.grad.zero_()
    with wp.Tape() as tape:
        trajectory = sim.rollout(start, controls, gradient_norms=True, checkpoint_every=n)
    loss = [trajectory.q, trajectory.v, trajectory.final.q, trajectory.final.v]
    tape.backward(grads=seeds(loss))
    others = [0, 2]
    for found, wanted in zip((start.q, start.v, mass), (expected[0], expected[1], expected[3]), strict=True):
        np.testing.assert_array_equal(found.grad.numpy()[others], wanted[others])
        assert np.isfinite(found.grad.numpy()).all() and np.abs(found.grad.numpy()[1]).max() > 0
    found = controls.grad.numpy()
    np.testing.assert_array_equal(found[:, others], expected[2][:, others])
    assert (found[7:, 1] == 0).all()
    assert (found[:7, 1] != 0).all()
    np.testing.assert_array_equal(trajectory.gradients.frozen_from(), [0, 8, 0])
    assert "world 1 (step 8)" in str(trajectory.gradients)
    trajectory.gradients.check()


def test_a_gradient_that_is_not_finite_is_named(ant):
    """A NaN in the loss's gradient at step 9 of world 2: `check()` names both."""
    sim, q, v = ant
    with wp.Tape() as tape:
        trajectory = sim.rollout(sim.state(q, v), random_controls(sim), gradient_norms=True)
    seed = np.zeros(trajectory.v.shape)
    seed[9, 2, 0] = np.nan
    tape.backward(grads={trajectory.v: wp.array(seed, dtype=wp.float64, device="cpu")})
    with pytest.raises(FloatingPointError, match=r"world 2 \(state after step 9\)"):
        trajectory.gradients.check()


def test_a_state_without_gradients_is_refused(ant):
    """The state of a simulator without requires_grad on a tape: an error that says what to do."""
    sim, q, v = ant
    other = ws.Simulator(sim.model, worlds=WORLDS, dtype="float64", device="cpu")
    with wp.Tape(), pytest.raises(ValueError, match=r"sim\.state\(\)"):
        sim.rollout(other.state(q, v), steps=2)


def test_training_does_not_grow(within):
    """Blocks of 50 iterations of forward and backward pass: in one at least not one Warp array more (states that are kept for use
    come once, when garbage is collected late), and less memory than half of what a leaked state per iteration (40 kB each) would
    take. benchmarks/gradients.py does 1,000 with the ant."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane")
    b.add_joint(b.add_body("ball", pose=[0, 0, 0.1]), "free")
    b.add_geom("sphere", [0.1], body="ball")
    sim = ws.Simulator(b.build(), worlds=400, requires_grad=True, device="cpu")
    tau = wp.zeros((400, 6), dtype=wp.float32, device="cpu", requires_grad=True)

    def iterate(times):
        for _ in range(times):
            with wp.Tape() as tape:
                state = sim.rollout(sim.state(), steps=4, checkpoint_every=2).final
                state = sim.step(state, tau=tau)
            tape.backward(grads={state.q: wp.ones_like(state.q)})
        gc.collect()
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        return resident, sum(type(x) is wp.array for x in gc.get_objects())

    resident, arrays = zip(*(iterate(50) for _ in range(4)), strict=True)
    assert np.diff(arrays).min() == 0
    within("growth in 50 training iterations [MB]", np.diff(resident).min(), 1.0)
