# SPDX-License-Identifier: Apache-2.0
"""`ws.cem`: the known optimum of a quadratic, elites by hand, reproducible world by world, within limits, never worse."""

import numpy as np
import pytest

import warpsim as ws

KNOTS, DT = 12, 0.05


def masses(worlds: int = 2, **options) -> ws.Simulator:
    """Two masses on springs: linear, so that the optimum of a quadratic cost is that of the Riccati equation."""
    b = ws.ModelBuilder("masses")
    for i, m in enumerate((1.0, 2.0)):
        b.add_joint(
            b.add_body(f"m{i}", mass=m, inertia=[1, 1, 1]), "slide", axis=[1, 0, 0], name=f"x{i}", stiffness=3.0
        )
        b.add_actuator(f"x{i}", gear=4.0, control_range=(-1, 1))
    options = {"dtype": "float64", "device": "cpu", "solver": ws.NoContact(), "dt": DT} | options
    return ws.Simulator(b.build(), worlds, **options)


def running(q, v, u):
    return np.concatenate([q, 0.3 * v, 0.2 * u], axis=-1)


COST = ws.Cost(running, lambda q, v: 3.0 * np.concatenate([q, v], axis=-1))
STARTS = np.array([[0.1, -0.2], [0.2, 0.1], [-0.1, -0.1]])


def guess(worlds: int) -> np.ndarray:
    return np.zeros((KNOTS, worlds, 2))


def test_it_nears_the_optimum_of_a_quadratic(within):
    """After many iterations the cost is that of Riccati's solution, which iLQR has after one, and so are the controls."""
    sim = masses()
    state = sim.state(STARTS[:2])
    best = ws.ilqr(sim, state, guess(2), COST, tolerance=1e-12)
    found = ws.cem(sim, state, guess(2), COST, samples=200, elites=40, smoothing=0.3, iterations=60, least_noise=0.0)
    within("cost of cem above Riccati's", (found.cost / best.cost - 1).max(), 5e-3)
    within("controls of cem from Riccati's", np.abs(found.controls - best.controls).max(), 0.1)
    assert (found.cost >= best.cost * (1 - 1e-9)).all() and (np.diff(found.history, axis=0) <= 0).all()
    again = sim.rollout(state, found.controls)
    np.testing.assert_array_equal(again.q.numpy(), found.q)


def test_it_finds_the_valley_that_gradients_do_not_see(within):
    """Two valleys at the end, the shallow one near: iLQR from zero controls ends in it, from the plan of `cem` in the deep one."""
    sim = masses(1)

    def valleys(q, v):
        near, deep = (np.exp(-(((q[..., 0] - x) / 0.08) ** 2)) for x in (-0.1, 0.3))
        return None, -0.3 * near - deep

    cost, state = ws.Cost(lambda q, v, u: 0.02 * u, valleys), sim.state()
    alone = ws.ilqr(sim, state, guess(1), cost)
    first = ws.cem(sim, state, guess(1), cost, correlation=0.8)
    plan = ws.ilqr(sim, state, first.controls, cost)
    within("near valley without samples", abs(alone.q[-1, 0, 0] + 0.1), 0.02)
    within("deep valley from samples", abs(plan.q[-1, 0, 0] - 0.3), 0.02)
    assert plan.cost[0] <= first.cost[0] < alone.cost[0]


def test_one_iteration_by_hand():
    """Elites are the samples of least cost; the next mean is theirs, smoothed, and noise is no smaller than the least."""
    sim, samples, elites, smoothing = masses(1), 10, 3, 0.25
    state, u = sim.state(STARTS[:1]), np.full((KNOTS, 1, 2), 0.3)
    options = {"samples": samples, "elites": elites, "smoothing": smoothing, "noise": 0.4, "seed": 5}
    plan = ws.cem(sim, state, u, COST, iterations=1, **options)
    tried = np.clip(u + 0.4 * np.random.default_rng([5, 0]).standard_normal((samples, KNOTS, 2))[:, :, None], -1, 1)
    tried[:2] = u
    motions = [sim.rollout(state, x) for x in tried]
    costs = np.array([COST.value(m.q.numpy(), m.v.numpy(), x)[0] for m, x in zip(motions, tried, strict=True)])
    mean = smoothing * u + (1 - smoothing) * tried[np.argsort(costs)[:elites]].mean(axis=0)
    motion = sim.rollout(state, mean)
    value = COST.value(motion.q.numpy(), motion.v.numpy(), mean)[0]
    wanted = mean if value < costs.min() else tried[np.argmin(costs)]
    np.testing.assert_allclose(plan.controls, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plan.cost, min(value, costs.min()), rtol=1e-12)


def test_the_same_call_gives_the_same_plan_for_any_number_of_worlds():
    """Noise depends on the seed and the world's index alone: the same bits again, and among more worlds; another seed differs."""
    plans = {}
    for worlds in (1, 2, 3, 3):
        sim = masses(worlds, dtype="float32")
        options = {"samples": 16, "iterations": 3, "correlation": 0.5, "seed": (4, 1)}
        plan = ws.cem(sim, sim.state(STARTS[:worlds]), guess(worlds), COST, **options)
        for before in plans.values():
            n = min(worlds, before.cost.size)
            np.testing.assert_array_equal(plan.controls[:, :n], before.controls[:, :n])
        plans[worlds] = plan
    other = ws.cem(sim, sim.state(STARTS), guess(3), COST, samples=16, iterations=3, seed=5)
    assert not np.array_equal(other.controls, plan.controls)


def test_limits_hold():
    """Controls stay within the model's range and narrower limits."""
    sim = masses()
    options = {"samples": 8, "noise": 3.0, "limits": (-0.4, 2.0), "iterations": 3}
    plan = ws.cem(sim, sim.state(STARTS[:2]), guess(2), COST, **options)
    assert plan.controls.min() >= -0.4 and plan.controls.max() <= 1.0


def test_costs_that_are_no_numbers():
    """Samples whose cost is NaN are never elites, a world without finite samples keeps its controls, others their bits."""
    sim = masses()
    state, u = sim.state(STARTS[:2]), guess(2)

    def spoilt(q, v, u):
        return np.where(u[..., :1] > 0.2, np.nan, running(q, v, u))

    plan = ws.cem(sim, state, u, ws.Cost(spoilt), samples=64, iterations=4, correlation=0.9)
    assert np.isfinite(plan.cost).all() and plan.controls[..., 0].max() <= 0.2
    plan = ws.cem(sim, state, u, COST, samples=8)
    state.memory["flags"].assign(np.array([0, ws.NONFINITE], np.int32))
    broken = ws.cem(sim, state, u, COST, samples=8)
    np.testing.assert_array_equal(broken.controls[:, 0], plan.controls[:, 0])
    np.testing.assert_array_equal(broken.controls[:, 1], u[:, 1])
    assert list(broken.status) == ["iterations", "nonfinite"] and np.isinf(broken.cost[1])


@pytest.mark.parametrize(
    "message, change",
    [
        ("samples is 3; it must be at least 4", {"samples": 3}),
        ("elites is 9; give at most samples = 8", {"samples": 8, "elites": 9}),
        ("elites is 1; it must be at least 2", {"elites": 1}),
        ("smoothing is 1; give a number from 0 to below 1", {"smoothing": 1}),
        ("least_noise is -1; give a number from 0 to below 1", {"least_noise": -1}),
        ("correlation is 1; give a number from 0 to below 1", {"correlation": 1}),
        (r"noise is -1; give a positive standard deviation, or one per control \(2,\)", {"noise": -1}),
    ],
)
def test_bad_input_says_what_to_do(message, change):
    sim = masses()
    with pytest.raises(ValueError, match=message):
        ws.cem(sim, sim.state(), guess(2), COST, **change)
