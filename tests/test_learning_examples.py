"""The examples that learn, shortened: each gets as far as it must on the way to what it shows in full."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
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
