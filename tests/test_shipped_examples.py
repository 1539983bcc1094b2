# SPDX-License-Identifier: Apache-2.0
"""Robots as their makers ship them (docs/shipped.md): each example does what it says.

Of those that need files of other packages `make corpus` unpacks them; without it they are skipped.
"""

import os
import pathlib

import numpy as np
import pytest

from examples.shipped import adroit_ball, drone, fetch_reach, found, glide, metaworld_reach, myo_arm

FOLDER = pathlib.Path(os.environ.get("WARPSIM_CORPUS", "none"))
NAMES = "adroit_ball", "drone", "fetch_reach", "metaworld_reach", "myo_arm"
needs_files = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs make corpus, and its folder in WARPSIM_CORPUS")


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_short(name):
    """Forty lines at most, blank ones aside."""
    path = pathlib.Path(drone.__file__).with_name(f"{name}.py")
    assert sum(bool(line.strip()) for line in path.read_text().splitlines()) <= 40


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no fetch/reach\.xml under"):
        found(tmp_path, "fetch/reach.xml")


def test_gliding_starts_and_ends_at_rest():
    """Each stop is reached and held, and the speed on the way is that of 3s² - 2s³."""
    stops = np.array([[[0.0, 1.0]], [[2.0, 1.0]], [[2.0, -1.0]]])
    rows = glide(stops, 100, 5)
    assert rows.shape == (210, 1, 2)
    np.testing.assert_array_equal(rows[99:105], np.tile(stops[1], (6, 1, 1)))
    np.testing.assert_array_equal(rows[-6:], np.tile(stops[2], (6, 1, 1)))
    np.testing.assert_allclose(np.abs(np.diff(rows[:100, 0, 0])).max(), 1.5 * 2 / 100, rtol=1e-3)


def test_drones_hover_at_their_goals():
    run, miss = drone.hover(seed=1)
    assert not run.diagnostics["flags"].numpy().any()
    assert miss.max() < 5e-3


@pytest.mark.assets
@needs_files
def test_fetch_reaches():
    """Every goal to a hundredth of a millimetre, no flag; led around the singular pose it starts in, it lags less than a millimetre."""
    run, misses, lag = fetch_reach.reach(FOLDER, seed=1)
    assert not run.diagnostics["flags"].numpy().any()
    assert misses.max() < 1e-5
    assert lag.max() < 1e-3


@pytest.mark.assets
@needs_files
def test_metaworlds_arm_follows_its_mocap_body():
    run, lag = metaworld_reach.follow(FOLDER, seed=1)
    assert not run.diagnostics["flags"].numpy().any()
    assert lag.max() < 2e-4


@pytest.mark.assets
@pytest.mark.slow
@needs_files
def test_adroits_hand_holds_every_ball():
    """All are held, within the task's 0.1 m of their places, for three seconds; no world fails, overflows or is unresolved."""
    run, miss = adroit_ball.carry(FOLDER, seed=1)
    assert not (run.diagnostics["flags"].numpy() & ~2).any()  # a step may end above the tolerance, docs/shipped.md
    assert miss.max() < 0.1
    assert np.median(miss) < 0.02


@pytest.mark.assets
@needs_files
def test_a_myosuite_elbow_bends_under_its_muscles():
    """More effort bends it further, extensors straighten it, and it bends again as far as before, whatever it started from."""
    run, angles = myo_arm.bend(FOLDER, seed=1)
    assert not run.diagnostics["flags"].numpy().any()
    first, second, third = angles[np.arange(1, 4) * myo_arm.STEPS // (3 * myo_arm.EVERY)]
    assert (np.diff(first) > 0).all() and first.min() > 90
    assert np.abs(second).max() < 1
    np.testing.assert_allclose(first, third, atol=2)
