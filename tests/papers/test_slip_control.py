# SPDX-License-Identifier: Apache-2.0
"""The soft gripper of the SAP paper (§VI-D): the first loose phase beside Drake's, the controller of the pitch rate, a gradient through the slip."""

import numpy as np
import pytest

from examples.slip_control import FIRM, Gripper, differences
from papers.sap.grip import RateControl, follow, open_loop, recorded, regulated, simulator, wave
from papers.sap.slip_control import REFERENCE
from scenes.pressure import pitch, pitch_slope, spatula_gripper, spatula_start


@pytest.fixture(scope="module")
def model():
    return spatula_gripper()


def test_the_first_loose_phase_is_that_of_the_recorded_run(model, within):
    """At Drake's tessellation, one point per polygon: the turn to 0.3 degrees, every step to the tolerance, no flag."""
    beside = recorded(np.load(REFERENCE), "paper_h5")
    run = follow(simulator(model, 0.005, "polygons"), wave(6.5, 0.005))
    within("slip control: turn of the first loose phase [deg]", abs(run.turns()[0] - beside.turns()[0]), 0.3)
    within("slip control: pitch of the first period [deg]", np.abs(run.at(6.4) - beside.at(6.4)), 0.3)
    assert run.flags == 0
    assert run.e_m.max() <= 1e-3
    assert run.iterations.mean() < 1.0


def test_creep_while_held_is_that_of_the_recorded_run_with_its_tetrahedra():
    """Regularised friction slips at R_t γ_t per contact, so creep goes with their number: with Drake's tetrahedra it is the recorded one and no more."""
    run, record = open_loop("polygons", 0.005, 5.0, tetrahedra=True), recorded(np.load(REFERENCE), "paper_h5")
    assert 0.97 * record.creep()[0] < run.creep()[0] <= record.creep()[0]
    assert not run.flags


def test_closed_loop_slips_to_one_pitch_whatever_the_friction(model, within):
    """Three frictions, five seconds: the controller's worlds end together, those under one constant grip far apart."""
    q = np.repeat(spatula_start(model)[None], 3, axis=0)
    sim = simulator(model, 0.01, "patch5", 3)
    sim.parameters["geom_friction"] = np.repeat([[0.6], [0.8], [1.0]], 3, axis=1)
    t, angles, grips = regulated(sim, q, RateControl(stop=3.5), 5.0)
    within("slip control, closed loop: spread at the end [deg]", np.ptp(angles[-1]), 2.0)
    within(
        "slip control, closed loop: turn beside that asked for [deg]", np.abs(angles[-1] - angles[0] + 7.16).max(), 2.5
    )
    held = angles[t > 4.75]
    within("slip control, closed loop: turn while held again [deg]", np.ptp(held, axis=0).max(), 0.1)
    assert grips.min() >= 0.5 and grips.max() <= FIRM


def test_the_turn_by_the_grip_has_its_differences_as_gradient(within):
    """Half a second of slip and the closing of the grip; the derivative by the loose grip against central differences."""
    gripper = Gripper(1)

    def force(grip):
        return np.concatenate([np.tile(grip, (25, 1)), np.full((10, 1), FIRM)])

    _, by_force, _ = gripper.slopes(force(np.array([1.5])))
    slope = by_force[:25].sum()
    found = [differences(lambda x: gripper.ends(force(1.5 + x))[0], np.zeros(1), step)[0] for step in (1e-4, 1e-5)]
    assert slope > 0.1  # [deg/N]; more grip, less turn
    within("slip control: gradient by the loose grip", min(abs(slope - x) for x in found) / slope, 1e-6)
    again = gripper.slopes(force(np.array([1.5])))[1][:25].sum()
    assert again == slope


def test_the_slope_of_the_pitch(within):
    """Against differences along unit quaternions."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(8, 9))
    q[:, -4:] /= np.linalg.norm(q[:, -4:], axis=1, keepdims=True)
    along = rng.normal(size=q.shape)
    along[:, -4:] -= (along[:, -4:] * q[:, -4:]).sum(1, keepdims=True) * q[:, -4:]
    slope = (pitch(q + 1e-6 * along) - pitch(q - 1e-6 * along)) / 2e-6
    expected = (pitch_slope(q) * along).sum(axis=1)
    within("slip control: slope of the pitch", np.abs(slope - expected).max() / np.abs(expected).max(), 1e-8)
