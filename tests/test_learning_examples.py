# SPDX-License-Identifier: Apache-2.0
"""The examples that learn, shortened: each gets as far as it must on the way to what it shows in full."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from examples import hit_ball, hop, identify_robot, throw_ball


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_balls_are_hit_with_derivatives_before_contact(tmp_path):
    """Of eight balls none moves by exact derivatives; with those from a distance at least seven are hit, by ws.ilqr."""
    q, goals = hit_ball.starts(hit_ball.SEED)
    assert hit_ball.report("exact", q, goals, hit_ball.plan(q, goals, (None,))[-1]) == 0
    found = hit_ball.plan(q, goals, hit_ball.OPTIONS[2:9:2])
    assert hit_ball.report("from a distance", q, goals, found[-1]) >= 7
    hit_ball.plot(hit_ball.hand(found), found[..., 2:4], goals, tmp_path / "hit.png")


@pytest.mark.slow
def test_the_hopper_leaves_the_ground(tmp_path, within):
    """24 iterations with eight sequences: the best cost falls to a third, and the hopper is in the air for 0.2 s."""
    history, trajectory, controls = hop.learn(worlds=8, iterations=24)
    within("hop: best cost against the first", history[-1].min() / history[0].min(), 1 / 3)
    airborne = (trajectory.diagnostics["contacts"].numpy() == 0).mean() * trajectory.duration
    assert airborne > 0.2
    assert np.abs(controls).max() <= 1.0
    hop.plot(history, trajectory, controls, tmp_path / "hop.png")


@pytest.fixture
def policy_benchmark():
    """The script `benchmarks/policy_gradient.py` as a module, torch on one thread."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from benchmarks import policy_gradient

    return policy_gradient


@pytest.mark.slow
def test_a_policy_improves(tmp_path, policy_benchmark):
    """48 analytic policy gradients walk faster than the first policy, in the median of three seeds; random search runs on the
    same budget. (`benchmarks/results/policy_gradient.md` has the whole budget over five seeds.)"""
    example = policy_benchmark.example
    curves = [example.learn(iterations=48, every=48, seed=seed)[1] for seed in (100, 101, 102)]
    assert np.median([learned[-1, 2] - learned[0, 2] for learned in curves]) > 0.05
    learned = curves[-1]
    _, searched = example.random_search(int(learned[-1, 0]))
    assert searched[-1, 0] == pytest.approx(learned[-1, 0], rel=0.1)
    assert np.isfinite(searched).all()
    example.plot(learned, searched, tmp_path / "policy.png")


@pytest.mark.slow
def test_softened_contact_points_the_way_of_differences(policy_benchmark, within):
    """Over 16 steps of the ant the gradients of softened contact go the way of differences of the true motion, and no world drowns the others, in
    the median of three seeds; those of the true contact, exact as they are, are drowned more, by a few worlds."""
    found = [policy_benchmark.directions(seed=seed, horizons=(16,), smoothing=(0.0, 0.3)) for seed in range(3)]
    apart = np.median([1 - soft["cosine"] for _, soft in found])
    longest = np.array([[x["longest"] / x["median"] for x in pair] for pair in found])
    within("policy gradient, softened contact: 1 - cosine with differences", apart, 0.2)
    within("policy gradient, softened contact: longest derivative / median", np.median(longest[:, 1]), 20)
    assert np.median(longest[:, 0] / longest[:, 1]) > 2


@pytest.mark.slow
def test_gradients_throw_better_than_random_search(policy_benchmark, monkeypatch):
    """With eleven rollouts each, throws that miss by a metre come to millimetres by gradients, to decimetres by random search."""
    monkeypatch.setattr(policy_benchmark, "THROW_ITERATIONS", 5)
    found, searched = (policy_benchmark.run("throw", method, 0) for method in policy_benchmark.METHODS)
    assert found["env_steps"] == searched["env_steps"] and found["first"] == searched["first"]
    assert found["last"] < 2e-3
    assert searched["last"] > 0.1


@pytest.mark.slow
def test_gradients_over_processes_have_the_same_bits():
    """A policy learned by one, two and three processes is the same to the last bit, and better than the first."""
    pytest.importorskip("torch")
    root, found = pathlib.Path(__file__).resolve().parents[1], []
    for processes in (1, 2, 3):
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            str(processes),
            "--master-port",
            "29517",
        ]
        ended = subprocess.run(
            [*command, "-m", "examples.data_parallel", "6"],
            cwd=root,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        found.append(re.search(r"cost (.*) -> (.*); weights (\w+)", ended.stdout).groups())
    assert len(set(found)) == 1 and float(found[0][1]) < float(found[0][0])
