# SPDX-License-Identifier: Apache-2.0
"""`ws.mppi`: reproducible, world by world, within limits; the weighted mean of its samples; it finds what a quadratic has."""

import numpy as np
import pytest

import warpsim as ws

KNOTS, DT = 20, 0.02


def cartpole(worlds: int = 2, **options) -> ws.Simulator:
    return ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds, dt=DT, device="cpu", **options)


def balance(q, v, u):
    return np.concatenate([0.3 * q, 0.1 * v, 0.1 * u], axis=-1)


COST = ws.Cost(balance, lambda q, v: 3.0 * np.concatenate([q, 0.3 * v], axis=-1))
TILTED = np.array([[0.0, 0.3], [0.1, -0.2], [-0.2, 0.1]])


def test_the_same_call_gives_the_same_plan_for_any_number_of_worlds():
    """Noise depends on the seed and the world's index alone: the same bits again, and among more worlds; another seed differs."""
    plans = {}
    for worlds in (1, 2, 3, 3):
        sim = cartpole(worlds)
        options = {"samples": 16, "iterations": 3, "temperature": 0.3, "correlation": 0.5, "seed": (4, 1)}
        plan = ws.mppi(sim, sim.state(TILTED[:worlds]), np.zeros((KNOTS, worlds, 1)), COST, **options)
        for before in plans.values():
            n = min(worlds, before.cost.size)
            np.testing.assert_array_equal(plan.controls[:, :n], before.controls[:, :n])
        plans[worlds] = plan
    other = ws.mppi(sim, sim.state(TILTED), np.zeros((KNOTS, 3, 1)), COST, samples=16, seed=5)
    assert not np.array_equal(other.controls, plan.controls)
    assert not np.array_equal(plan.controls[:, 0], plan.controls[:, 1])


def test_a_plan_is_the_weighted_mean_of_its_samples():
    """One iteration by hand: normal noise within the limits, weights exp(-cost / temperature), the first sample without noise."""
    sim, samples, temperature, seed = cartpole(1), 8, 0.7, 3
    state, u = sim.state(TILTED[:1]), np.full((KNOTS, 1, 1), 0.8)
    plan = ws.mppi(sim, state, u, COST, samples=samples, temperature=temperature, noise=0.5, seed=seed)
    noise = np.random.default_rng([seed, 0]).standard_normal((samples, KNOTS, 1))
    tried = np.clip(u[None] + 0.5 * noise[:, :, None], -1, 1)
    tried[0] = u
    motions = [sim.rollout(state, x) for x in tried]
    pairs = [[x.numpy().astype(float) for x in (m.q, m.v)] for m in motions]
    costs = np.array([COST.value(*pair, x)[0] for pair, x in zip(pairs, tried, strict=True)])
    weights = np.exp(-(costs - costs.min()) / temperature)
    weights /= weights.sum()
    np.testing.assert_allclose(plan.controls, np.tensordot(weights, tried, 1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plan.effective_samples, 1 / (weights**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(plan.history[0], costs[0], rtol=1e-6)
    again = sim.rollout(state, plan.controls)
    np.testing.assert_array_equal(again.q.numpy(), plan.q)


def test_limits_hold():
    """Controls stay within the model's range and narrower limits."""
    sim = cartpole(2)
    plan = ws.mppi(
        sim,
        sim.state(TILTED[:2]),
        np.zeros((KNOTS, 2, 1)),
        COST,
        samples=8,
        noise=3.0,
        limits=(-0.4, 2.0),
        iterations=2,
    )
    assert plan.controls.min() >= -0.4 and plan.controls.max() <= 1.0


def test_it_nears_the_optimum(within):
    """Many iterations come close to the optimum that iLQR finds of the same problem."""
    sim = cartpole(2, dtype="float64", solver=ws.SAP(approximation="convex"))
    state, u = sim.state(TILTED[:2]), np.zeros((KNOTS, 2, 1))
    best = ws.ilqr(sim, state, u, COST)
    found = ws.mppi(sim, state, u, COST, samples=64, iterations=30, temperature=0.02, noise=0.3, correlation=0.7)
    within("cost of mppi above that of iLQR", (found.cost / best.cost - 1).max(), 0.1)
    assert (found.cost < 0.5 * found.history[0]).all()


def test_a_world_that_is_not_finite_changes_no_other():
    """Its controls are as given and its status says so; the others' bits stay."""
    sim, u = cartpole(2), np.full((KNOTS, 2, 1), 0.1)
    state = sim.state(TILTED[:2])
    plan = ws.mppi(sim, state, u, COST, samples=8)
    state.memory["flags"].assign(np.array([0, ws.NONFINITE], np.int32))
    spoilt = ws.mppi(sim, state, u, COST, samples=8)
    np.testing.assert_array_equal(spoilt.controls[:, 0], plan.controls[:, 0])
    np.testing.assert_array_equal(spoilt.controls[:, 1], u[:, 1])
    assert (
        list(spoilt.status) == ["iterations", "nonfinite"]
        and np.isinf(spoilt.cost[1])
        and spoilt.effective_samples[1] == 0
    )


def test_bad_input_says_what_to_do():
    sim, u = cartpole(2), np.zeros((KNOTS, 2, 1))
    cases = [
        ("samples is 1; it must be at least 2", dict(samples=1)),
        ("temperature is 0; it must be positive", dict(temperature=0)),
        ("correlation is 1; give a number from 0 to below 1", dict(correlation=1)),
        (r"noise is -1; give a positive standard deviation, or one per control \(1,\)", dict(noise=-1)),
        ("seed is -1; it must be at least 0", dict(seed=-1)),
        ("seed is 0.5; it must be a whole number", dict(seed=(1, 0.5))),
    ]
    for message, change in cases:
        with pytest.raises(ValueError, match=message):
            ws.mppi(sim, sim.state(), u, COST, **change)
    b = ws.ModelBuilder("free")
    b.add_joint(b.add_body("cart", mass=1.0, inertia=[1, 1, 1]), "slide", name="x")
    b.add_actuator("x")
    free = ws.Simulator(b.build(), device="cpu")
    with pytest.raises(ValueError, match="has no control range; give noise= or limits="):
        ws.mppi(free, free.state(), np.zeros((3, 1, 1)), COST)
