"""The examples that learn, shortened: each gets as far as it must on the way to what it shows in full."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
import hop
import identify_robot
import throw_ball


def test_balls_are_thrown_at_a_target_through_a_bounce(tmp_path, within):
    """Five Gauss-Newton steps bring sixteen throws from a metre's miss to 5 cm at most; half of them to 2 mm."""
    history, flights = throw_ball.learn(iterations=5)
    assert history[0].min() > 0.5
    within("thrown balls: worst miss after 5 iterations [m]", history[-1].max(), 0.05)
    within("thrown balls: median miss after 5 iterations [m]", np.median(history[-1]), 2e-3)
    lowest = flights[1].q.numpy()[:, :, 2].min(axis=0)
    assert (lowest < throw_ball.RADIUS).all()  # every one bounces
    throw_ball.plot(history, flights, tmp_path / "throw.png")
    flights[1].to_usd(tmp_path / "throw.usd", spacing=1e-3)


def test_robots_are_identified_from_noisy_recordings(tmp_path, within):
    """Sixteen half-cheetahs, 0.45 s each: mass, friction and damping to a few per cent, from errors of a quarter."""
    horizons = (15, 30, 60, 90)
    problem = identify_robot.Identification(worlds=16, horizons=horizons)
    guesses = identify_robot.identify(problem, horizons, iterations=8)
    errors = np.median(np.abs(np.exp(guesses) / problem.truth - 1), axis=1)
    for name, first, last in zip(identify_robot.UNKNOWNS, errors[0], errors[-1], strict=True):
        assert first > 0.1
        within(f"identified robots: median relative error of {name}", last, 0.02)
    identify_robot.plot(problem, guesses, tmp_path / "identify.png")


def test_the_hopper_leaves_the_ground(tmp_path, within):
    """Forty iterations with eight sequences: the best cost falls to a third, and the hopper is in the air for 0.2 s."""
    history, trajectory, controls = hop.learn(worlds=8, iterations=40)
    within("hop: best cost against the first", history[-1].min() / history[0].min(), 1 / 3)
    airborne = (trajectory.diagnostics["contacts"].numpy() == 0).mean() * trajectory.duration
    assert airborne > 0.2
    assert np.abs(controls).max() <= 1.0
    hop.plot(history, trajectory, controls, tmp_path / "hop.png")


def test_a_policy_improves(tmp_path):
    """Twelve analytic policy gradients walk faster than the first policy; random search runs on the same budget. (Over
    the whole example's 250,000 env-steps the gradients reach 0.7 m/s, random search 0.3 m/s.)"""
    torch = pytest.importorskip("torch")
    import policy_gradient

    torch.set_num_threads(1)
    _, learned = policy_gradient.learn(iterations=12, every=12)
    _, searched = policy_gradient.random_search(int(learned[-1, 0]))
    assert learned[0, 2] == searched[0, 2]
    assert learned[-1, 2] > learned[0, 2] + 0.03
    policy_gradient.plot(learned, searched, tmp_path / "policy.png")
