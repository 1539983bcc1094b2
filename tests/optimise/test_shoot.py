# SPDX-License-Identifier: Apache-2.0
"""`ws.shoot`: descent of an objective, samples where its gradient misleads, each world for itself."""

import warnings

import numpy as np
import pytest
import warp as wp

import warpsim as ws

STEPS, DT, WORLDS = 25, 0.02, 8


def pusher(worlds: int, distance: float, dtype: str = "float64", ball: bool = True) -> ws.Simulator:
    """A driven slider on a line, and a ball on the same line, `distance` before it."""
    b = ws.ModelBuilder("pusher", timestep=DT)
    b.add_joint(b.add_body("hand", mass=1.0, inertia=[1, 1, 1]), "slide", name="reach", axis=[1, 0, 0])
    b.add_geom("sphere", [0.05], body="hand")
    b.add_actuator("reach", gear=5.0, control_range=(-1, 1))
    b.add_body("ball", pose=[0.1 + distance, 0, 0], mass=0.2, inertia=[0.01] * 3)
    b.add_joint("ball", "slide", name="roll", axis=[1, 0, 0], damping=0.1)
    if ball:
        b.add_geom("sphere", [0.05], body="ball")
    return ws.Simulator(b.build(), worlds, dtype=dtype, device="cpu", requires_grad=True)


@wp.kernel
def miss(q: wp.array3d(dtype=wp.float64), goal: wp.array(dtype=wp.float64), of: int, loss: wp.array(dtype=wp.float64)):
    w = wp.tid()
    x = q[q.shape[0] - 1, w, of] - goal[w]
    loss[w] = x * x


def objective(worlds: int = WORLDS, distance: float = 0.15, of: int = 1, seed: int = 0, **options) -> ws.Objective:
    """The place of ball (1) or hand (0) at the end, against goals 0.1 to 0.3 m ahead."""
    sim = pusher(worlds, distance)
    goal = wp.array(np.random.default_rng(seed).uniform(0.1, 0.3, WORLDS)[:worlds], dtype=wp.float64, device="cpu")

    def loss(motion):
        found = wp.zeros(worlds, dtype=wp.float64, device="cpu", requires_grad=True)
        wp.launch(miss, worlds, [motion.q, goal, of, found], device="cpu")
        return found

    options = {"bounds": {"controls": "model"}} | options
    return ws.Objective(sim, loss, {"controls": np.zeros((STEPS, worlds, 1))}, **options)


@pytest.mark.parametrize("seed", [10, 11])
def test_balls_that_nothing_touches_reach_their_goals(seed):
    """The gradient is zero in 8 of 8 worlds: without a fallback all stay "untouched"; with samples all end within a centimeter
    of their goals, within the bounds, and no loss ever rises."""
    task = objective(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = ws.shoot(task, fallback=None)
        shot = ws.shoot(task, iterations=40)
    assert list(plain.status) == ["untouched"] * WORLDS and not plain.x.any()
    assert plain.notes[0] == "no variable reaches ball, on which the loss depends" and not plain.fallbacks.any()
    assert np.sqrt(shot.loss).max() < 0.01 and (shot.fallbacks >= 1).all() and "untouched" not in shot.status
    assert (np.diff(shot.history, axis=0) <= 0).all() and len(shot.history) <= 41 and np.abs(shot.x).max() <= 1.0
    np.testing.assert_allclose(task(shot.x)[0], shot.loss.sum(), rtol=1e-12)
    assert all(
        note.startswith("the controls did not reach all that the cost depends on: 8 rounds") for note in shot.notes
    )


@pytest.mark.parametrize("method", ["cem", "bundle"])
def test_smooth_problems_keep_their_bits(method):
    """A hand's way to its goal: the predictions come true, nothing is sampled, and the result is that of no fallback."""
    task = objective(2, of=0)
    off, on = (ws.shoot(task, fallback=x) for x in (None, method))
    assert np.array_equal(off.x, on.x) and np.array_equal(off.history, on.history) and on.notes == ("", "")
    assert list(on.status) == ["converged"] * 2 and on.loss.max() < 1e-8 and not on.fallbacks.any()


@pytest.mark.parametrize("method", ["cem", "bundle"])
def test_same_bits_in_any_number_of_worlds(method):
    """The same call gives the same bits, and each world those that it has among fewer; another seed gives others."""
    found = {}
    for worlds in (2, 3, 3):
        shot = ws.shoot(objective(worlds, 0.05), iterations=10, fallback=method)
        if worlds in found:
            np.testing.assert_array_equal(shot.x, found[worlds].x)
        found[worlds] = shot
    np.testing.assert_array_equal(found[3].values["controls"][:, :2], found[2].values["controls"])
    other = ws.shoot(objective(3, 0.05), iterations=10, fallback=method, seed=(3, 4))
    assert not np.array_equal(other.x, found[3].x) and (other.loss <= other.history[0]).all()


def test_shared_variables_are_one_search():
    """Controls that all worlds share have one loss, the sum; parameters and a torch loss are searched as well."""
    task = objective(2, of=0)
    shared = ws.Objective(task.sim, task.loss, {"controls": np.zeros((STEPS, 1))}, bounds={"controls": "model"})
    shot = ws.shoot(shared, iterations=30)
    assert shot.loss.shape == (1,) and shot.values["controls"].shape == (STEPS, 1) and shot.loss < 0.5 * shot.history[0]
    pytest.importorskip("torch")
    of_torch = ws.Objective(
        task.sim,
        lambda q, v: (q[-1, :, 0] - 0.2).square().sum(),
        {"controls": np.zeros((STEPS, 2, 1))},
        framework="torch",
    )
    shot = ws.shoot(of_torch, iterations=30)
    assert list(shot.status) == ["converged"] and shot.loss[0] < 1e-8


def test_corners():
    """One step, a first guess on its bounds, a loss that no variable changes, a loss that is not a number."""
    for method in (None, "cem", "bundle"):
        task = objective(2, of=0)
        edge = ws.shoot(task, np.ones(task.x0.size), iterations=15, fallback=method)
        assert (edge.loss < 0.1 * edge.history[0]).all() and np.abs(edge.x).max() <= 1.0
        short = ws.Objective(task.sim, task.loss, {"controls": np.zeros((1, 2, 1))}, bounds={"controls": "model"})
        shot = ws.shoot(short, iterations=15, fallback=method)
        assert (shot.values["controls"] > 0.99).all() and (np.diff(shot.history, axis=0) <= 0).all()
        far = ws.shoot(objective(2, 50.0), iterations=15, fallback=method)
        assert list(far.status) == ["untouched"] * 2 and not far.x.any()
        nan = wp.array([np.nan, 0.2], dtype=wp.float64, device="cpu")

        def spoilt(motion, nan=nan):
            found = wp.zeros(2, dtype=wp.float64, device="cpu", requires_grad=True)
            wp.launch(miss, 2, [motion.q, nan, 0, found], device="cpu")
            return found

        nothing = ws.Objective(task.sim, spoilt, {"controls": task.start["controls"]}, bounds={"controls": "model"})
        shot = ws.shoot(nothing, iterations=15, fallback=method)
        assert shot.status[0] == "nonfinite" and np.isinf(shot.loss[0]) and shot.loss[1] < 1e-6


def test_bad_input_says_what_to_do():
    """Every error names the argument, its value and what would do."""
    task = objective(1)
    for message, change in [
        (r"objective is 3; give a ws\.Objective", {"objective": 3}),
        (r"x has shape \(3,\); give \(25,\) finite numbers", {"x": np.zeros(3)}),
        (r"x has shape \(25,\); give \(25,\) finite numbers", {"x": np.full(25, np.nan)}),
        (r"x is 2 at 0, beyond the bounds \[-1, 1\]; clip the first guess", {"x": np.full(25, 2.0)}),
        (r"fallback is 'no'; choose one of \[None, 'cem', 'bundle'\]", {"fallback": "no"}),
        (r"iterations is -1", {"iterations": -1}),
        (r"tolerance is nan", {"tolerance": np.nan}),
        (r"noise is 0\.1; give numbers by name, of \['controls'\]", {"noise": 0.1}),
        (r"noise is \{'q': 1\}; give numbers by name", {"noise": {"q": 1}}),
        (r"noise\['controls'\] is 0", {"noise": {"controls": 0}}),
        (r"seed is -1", {"seed": -1}),
    ]:
        with pytest.raises(ValueError, match=message):
            ws.shoot(**({"objective": task} | change))
