# SPDX-License-Identifier: Apache-2.0
"""`ws.ilqr(fallback=)`: samples where derivatives mislead, nothing where their predictions come true."""

import numpy as np
import pytest

import warpsim as ws

KNOTS, DT, WORLDS = 40, 0.02, 8


def push(worlds: int = WORLDS, seed: int = 0, dtype: str = "float64", **options):
    """A hand on a slider, and a box of 0.5 kg on a table 0.1 to 0.3 m before it, to be pushed 0.1 to 0.3 m further."""
    b = ws.ModelBuilder("push_box", timestep=DT)
    b.add_geom("plane", friction=0.4)
    b.add_joint(b.add_body("hand", pose=[0, 0, 0.06]), "slide", axis=[1, 0, 0], name="reach", damping=1.0)
    b.add_geom("sphere", [0.05], body="hand", density=2000.0)
    b.add_actuator("reach", control_range=(-10, 10))
    b.add_joint(b.add_body("box", pose=[0.3, 0, 0.05]), "free")
    b.add_geom("box", [0.05, 0.05, 0.05], body="box", density=500.0, friction=0.4)
    model = b.build()
    rng = np.random.default_rng(seed)
    gaps, ways = rng.uniform(0.1, 0.3, (2, WORLDS))
    q = np.tile(model.q0, (worlds, 1))
    q[:, 1] = 0.1 + gaps[:worlds]
    goal = q[:, 1:2] + ways[:worlds, None]
    solver = ws.SAP(tolerance=1e-10) if dtype == "float64" else ws.SAP()
    sim = ws.Simulator(model, worlds, dtype=dtype, device="cpu", solver=solver, **options)

    def terminal(q, v):
        return np.concatenate([10 * (q[..., 1:2] - goal), v[..., 1:2]], -1)

    return sim, sim.state(q), np.zeros((KNOTS, worlds, 1)), ws.Cost(lambda q, v, u: 0.01 * u, terminal), goal[:, 0]


def misses(plan: ws.Plan, goal: np.ndarray) -> np.ndarray:
    return np.abs(plan.q[-1, :, 1] - goal)


def bits(plan: ws.Plan) -> bytes:
    return b"".join(np.ascontiguousarray(x).tobytes() for x in (plan.controls, plan.q, plan.v, plan.cost, plan.gains))


@pytest.mark.parametrize("seed", [100, 101])
def test_a_box_that_nothing_touches_is_pushed_to_its_goal(seed):
    """Without the fallback no box moves, in 8 of 8 starts; with it all lie within a centimeter of their goals, no cost ever
    rises, and the notes say what was done."""
    sim, start, guess, cost, goal = push(seed=seed)
    plain = ws.ilqr(sim, start, guess, cost, iterations=50, fallback=None)
    assert (
        list(plain.status) == ["untouched"] * WORLDS and misses(plain, goal).min() > 0.09 and not plain.fallbacks.any()
    )
    plan = ws.ilqr(sim, start, guess, cost, iterations=50)
    assert misses(plan, goal).max() < 0.01 and "untouched" not in plan.status
    assert (plan.fallbacks >= 1).all() and (np.diff(plan.history, axis=0) <= 0).all() and len(plan.history) <= 51
    for w, note in enumerate(plan.notes):
        said = "the controls did not reach all that the cost depends on: 8 rounds of 'cem' lowered the cost from "
        assert note.startswith(f"{said}{plain.cost[w]:.6g} to ")
    motion = sim.rollout(start, plan.controls)
    np.testing.assert_array_equal(motion.q.numpy(), plan.q)
    np.testing.assert_array_equal(cost.value(plan.q, plan.v, plan.controls), plan.cost)


def test_means_over_a_bundle_find_boxes_too():
    """Derivatives of motions under perturbed controls see boxes that those of the motion do not."""
    sim, start, guess, cost, goal = push(seed=102)
    plan = ws.ilqr(sim, start, guess, cost, iterations=50, fallback="bundle")
    assert (misses(plan, goal) < 0.01).sum() >= 6 and (np.diff(plan.history, axis=0) <= 0).all()
    assert all("of 'bundle'" in note for note in plan.notes)


@pytest.mark.parametrize("method", ["cem", "bundle"])
def test_same_bits_in_any_number_of_worlds(method):
    """Noise depends on the seed, the world's index and its fallbacks alone: the same plan again, and in fewer worlds; another
    seed gives another."""
    sim, start, guess, cost, _ = push(3)
    options = {"iterations": 16, "fallback": method}
    first, again = (ws.ilqr(sim, start, guess, cost, **options) for _ in range(2))
    assert bits(first) == bits(again) and first.notes == again.notes
    two, at, u, price, _ = push(2)
    fewer = ws.ilqr(two, at, u, price, **options)
    np.testing.assert_array_equal(fewer.controls, first.controls[:, :2])
    np.testing.assert_array_equal(fewer.gains, first.gains[:, :2])
    rows = min(len(fewer.history), len(first.history))
    np.testing.assert_array_equal(fewer.history[:rows], first.history[:rows, :2])
    other = ws.ilqr(sim, start, guess, cost, seed=(1, 2), **options)
    assert not np.array_equal(other.controls, first.controls)


def masses(worlds: int) -> ws.Simulator:
    """Two masses on springs: linear."""
    b = ws.ModelBuilder("masses")
    for i, m in enumerate((1.0, 2.0)):
        b.add_joint(
            b.add_body(f"m{i}", mass=m, inertia=[1, 1, 1]), "slide", axis=[1, 0, 0], name=f"x{i}", stiffness=3.0
        )
        b.add_actuator(f"x{i}", gear=2.0)
    return ws.Simulator(b.build(), worlds, dtype="float64", device="cpu", solver=ws.NoContact(), dt=DT)


QUADRATIC = ws.Cost(
    lambda q, v, u: np.concatenate([q, 0.3 * v, 0.2 * u], -1), lambda q, v: 5.0 * np.concatenate([q, v], -1)
)


@pytest.mark.parametrize("method", ["cem", "bundle"])
def test_smooth_problems_keep_their_bits(method):
    """Where predictions come true nothing is sampled: LQR and a cart-pole's swing-up are the same to the last bit, history
    included. From the optimum on, which no step has tested, one round of samples finds nothing lower."""
    sim = masses(2)
    start, u = sim.state([[0.3, -0.2], [0.1, 0.4]]), np.zeros((KNOTS, 2, 2))
    off, on = (ws.ilqr(sim, start, u, QUADRATIC, fallback=x) for x in (None, method))
    assert bits(off) == bits(on) and np.array_equal(off.history, on.history) and on.notes == ("", "")
    again = ws.ilqr(sim, start, on.controls, QUADRATIC, fallback=method)
    np.testing.assert_allclose(again.controls, on.controls, rtol=1e-9)  # the first round may gain the last digit
    assert list(again.status) == ["converged"] * 2 and not again.fallbacks.any() and again.notes == ("", "")
    cart = ws.Simulator(ws.load(ws.robots.path("cartpole")), 2, dtype="float64", device="cpu", dt=DT)
    hangs = cart.state([[0.0, np.pi - 0.3], [0.0, np.pi + 0.4]])
    cost = ws.Cost(
        lambda q, v, u: 0.1 * np.concatenate([q, v, u], -1), lambda q, v: 3.0 * np.concatenate([q, 0.3 * v], -1)
    )
    off, on = (ws.ilqr(cart, hangs, np.zeros((KNOTS, 2, 1)), cost, fallback=x) for x in (None, method))
    assert bits(off) == bits(on) and np.array_equal(off.history, on.history)


def test_a_flat_start_is_not_a_minimum():
    """A cost that is flat around the first guess has no derivative there, and iLQR says "converged". Samples find the slope
    beside it, and iLQR its end."""
    sim = masses(1)
    cost = ws.Cost(lambda q, v, u: 0.02 * u, lambda q, v: 3.0 * np.clip(0.3 - q[..., :1], 0.0, 0.25))
    guess = np.zeros((KNOTS, 1, 2))
    plain = ws.ilqr(sim, sim.state(), guess, cost, fallback=None)
    assert list(plain.status) == ["converged"] and not plain.controls.any()
    plan = ws.ilqr(sim, sim.state(), guess, cost)
    assert plan.q[-1, 0, 0] > 0.25 and plan.cost < 0.1 * plain.cost and list(plan.fallbacks) == [1]
    assert plan.notes[0].startswith("derivatives ended the search, and no gain had confirmed them: ")


def test_steps_are_accepted_by_the_exact_cost():
    """With derivatives before contact, too: costs are those of the simulator without them, and none ever rises."""
    option = ws.GradientFromDistance(distance=0.5, stiffness=5.0)
    sim, start, guess, cost, _ = push(3, contact_gradient=option)
    exact = push(3)[0]
    for fallback in (None, "cem", "bundle"):
        for iterations in (1, 2, 4, 8):
            plan = ws.ilqr(sim, start, guess, cost, iterations=iterations, fallback=fallback)
            motion = exact.rollout(exact.state(start.q.numpy()), plan.controls)
            np.testing.assert_array_equal(motion.q.numpy(), plan.q)
            np.testing.assert_array_equal(cost.value(motion.q.numpy(), motion.v.numpy(), plan.controls), plan.cost)
            assert (np.diff(plan.history, axis=0) <= 0).all()


def test_rounds_count_as_iterations():
    """A search of n iterations has at most n iterations and rounds together; with all of them used by the fallback, its best
    samples are the plan."""
    sim, start, guess, cost, _ = push(2)
    for n in (0, 1, 2, 5):
        plan = ws.ilqr(sim, start, guess, cost, iterations=n)
        assert len(plan.history) <= n + 1
    assert (plan.cost < plan.history[0]).all() and list(plan.status) == ["iterations"] * 2 and not plan.gains.any()


def test_what_cannot_be_reached_stays_untouched():
    """A box too far away: samples find nothing lower, the plan is the first guess, and the notes say both."""
    sim, start, guess, cost, _ = push(2)
    start = sim.state(start.q.numpy() + [0, 50.0, *[0] * 6])
    for method in ("cem", "bundle"):
        plan = ws.ilqr(sim, start, guess, cost, fallback=method)
        assert list(plan.status) == ["untouched"] * 2 and not plan.controls.any() and len(plan.history) == 10
        assert plan.notes[0].startswith("the controls never reach box") and "found no lower cost" in plan.notes[0]


def test_corners():
    """One knot, float32, no contacts, narrow limits, costs that do not depend on the controls, costs that are not finite
    anywhere or beyond some control: a plan within the limits, no worse than the guess, and the right status."""
    for dtype in ("float32", "float64"):
        sim, start, guess, cost, _ = push(1, dtype=dtype)
        for method in ("cem", "bundle"):
            short = ws.ilqr(sim, start, guess[:1], cost, fallback=method)
            assert list(short.status) == ["untouched"] and not short.controls.any()
            limits = (-0.5, 0.25)
            plan = ws.ilqr(sim, start, guess, cost, limits=limits, iterations=12, fallback=method)
            assert plan.controls.min() >= -0.5 and plan.controls.max() <= 0.25 and plan.cost <= plan.history[0]
            fixed = ws.ilqr(sim, start, guess, cost, limits=(0.0, 0.0), iterations=12, fallback=method)
            assert list(fixed.status) == ["untouched"] and not fixed.controls.any()
            constant = ws.Cost(lambda q, v, u: np.ones_like(u))
            plan = ws.ilqr(sim, start, guess, constant, fallback=method)
            assert list(plan.status) == ["converged"] and not plan.controls.any() and plan.notes == ("",)
            nowhere = ws.Cost(lambda q, v, u: np.nan * u)
            plan = ws.ilqr(sim, start, guess, nowhere, fallback=method)
            assert list(plan.status) == ["nonfinite"] and np.isinf(plan.cost[0]) and not plan.fallbacks.any()
            far = ws.Cost(lambda q, v, u: np.where(np.abs(u) > 6.0, np.nan, 0.01 * u), cost.terminal)
            plan = ws.ilqr(sim, start, guess, far, iterations=12, fallback=method)
            assert np.isfinite(plan.cost).all() and np.abs(plan.controls).max() <= 6.0


def test_bad_input_says_what_to_do():
    """Every error names the argument and what would do; noise without a range takes the size of the controls."""
    sim, start, guess, cost, _ = push(1)
    for message, options in [
        (r"fallback is 'ppo'; choose one of \[None, 'cem', 'bundle'\]", {"fallback": "ppo"}),
        (r"fallback is True; choose one of", {"fallback": True}),
        (r"fallback is \['cem'\]; choose one of", {"fallback": ["cem"]}),
        (r"seed is -1", {"seed": -1}),
        (r"seed is 0\.5", {"seed": 0.5}),
        (r"noise is 0; give a positive standard deviation, or one per control \(1,\)", {"noise": 0}),
        (r"noise is nan; give", {"noise": np.nan}),
        (r"noise is \[1, 2\]; give", {"noise": [1, 2]}),
    ]:
        with pytest.raises(ValueError, match=message):
            ws.ilqr(sim, start, guess, cost, **options)
        if "fallback" not in options:
            with pytest.raises(ValueError, match=message):
                ws.ilqr(sim, start, guess, cost, fallback=None, **options)
