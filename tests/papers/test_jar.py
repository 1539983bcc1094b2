# SPDX-License-Identifier: Apache-2.0
"""The lid of the jar: the force that pulls it off, against its closed form and against friction and modulus."""

import numpy as np
import pytest

from papers.sap.jar import pull_off
from scenes.jar import Jar


@pytest.fixture(scope="module")
def pulled() -> list[dict]:
    return pull_off(Jar(), frictions=(0.3, 0.9), moduli=(3e5, 3e6), seconds=1.5)[0]


def test_the_force_is_that_of_the_ring(pulled):
    """μ Σ f_n of the pressure of the interference; the pull stretches the stiffest by 0.2 %."""
    for row in pulled:
        assert row["measured"] == pytest.approx(row["expected"], rel=3e-3)
        assert row["half"] == pytest.approx(row["expected"] / 2, rel=3e-2)  # half of the plug is in the ring
        assert row["flags"] == 0


def test_the_force_grows_with_friction_and_modulus(pulled):
    force = np.array([row["measured"] for row in pulled]).reshape(2, 2)  # by modulus, friction
    assert (np.diff(force, axis=0) > 0).all() and (np.diff(force, axis=1) > 0).all()


def test_the_lid_holds_below_the_force_and_comes_off_above(pulled):
    """0.9 of the closed form moves it by what regularised friction slips, 1.1 takes it out of the ring."""
    for row in pulled:
        assert row["end"] > Jar().plug
        assert row["creep"] < 3e-4
        assert row["off_at"] < 1.0
