# SPDX-License-Identifier: Apache-2.0
"""Screws: a turn advances by the pitch, for any number of turns; the exact acceleration under a weight; what the builder refuses."""

import numpy as np
import pytest

import warpsim as ws
from scenes.constraints import nut
from warpsim.base.errors import ModelError

GRAVITY = 9.81
MASS, INERTIA = 2.0, 0.015  # of the nut, about the screw


def turns_of(q) -> np.ndarray:
    """Turns about z of a trajectory q (steps, 7), which turns by less than half a turn between two entries."""
    angle = 2.0 * np.arctan2(q[:, 6], q[:, 3])
    return np.unwrap(angle) / (2.0 * np.pi)


@pytest.mark.parametrize("pitch", [0.2, -0.05])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_turn_advances_by_the_pitch(pitch, dtype, device, within):
    """A nut that spins fast, without weight: twenty turns and more, and z − pitch · turns stays 0 to rounding."""
    model = nut(pitch)
    sim = ws.Simulator(model, dt=0.002, dtype=dtype, device=device)
    sim.parameters["gravity"] = [0.0, 0.0, 0.0]
    omega = 45.0
    v = [0, 0, pitch * omega / (2 * np.pi), 0, 0, omega]
    path = sim.rollout(sim.state(v=v), steps=1500)
    q = path.q.numpy()[:, 0].astype(float)
    turns = turns_of(np.concatenate([model.q0[None], q]))[1:]
    assert abs(turns[-1]) > 20
    gap = np.abs(q[:, 2] - model.q0[2] - pitch * turns).max()
    within(f"screw {pitch}, {dtype}: z − pitch · turns [m]", gap, 1e-9 if dtype == "float64" else 2e-5)
    within(
        f"screw {pitch}, {dtype}: aside [m]",
        np.abs(q[:, :2] - model.q0[:2]).max(),
        1e-9 if dtype == "float64" else 2e-5,
    )
    speed = path.v.numpy()[-1, 0].astype(float)
    within(f"screw {pitch}, {dtype}: speed kept", abs(speed[5] / omega - 1), 1e-8 if dtype == "float64" else 1e-3)


@pytest.mark.parametrize("pitch", [0.2, -0.7])
def test_a_weight_drives_the_screw(pitch, device, within):
    """Without friction a = −g m/(m + I (2π/p)²), and kinetic and potential energy keep their sum: as one degree of freedom."""
    model = nut(pitch)
    sim = ws.Simulator(model, dt=0.001, dtype="float64", device=device)
    path = sim.rollout(sim.state(), steps=1000)
    q, v = path.q.numpy()[:, 0], path.v.numpy()[:, 0]
    exact = -GRAVITY * MASS / (MASS + INERTIA * (2 * np.pi / pitch) ** 2)
    within(f"screw {pitch}: acceleration", abs(v[-1, 2] / exact - 1), 2e-6)
    within(f"screw {pitch}: turning", abs(v[-1, 5] * pitch / (2 * np.pi) / v[-1, 2] - 1), 1e-6)
    # Symplectic Euler loses g dz/2 of a fall by dz in each step: half a step's acceleration times the speed.
    kinetic = 0.5 * MASS * v[:, 2] ** 2 + 0.5 * INERTIA * v[:, 5] ** 2
    total = kinetic + MASS * GRAVITY * (q[:, 2] - 0.5 * 0.001 * v[:, 2] - model.q0[2])
    within(f"screw {pitch}: energy [J]", np.abs(total).max() / kinetic[-1], 1e-5)


def test_a_torque_holds_the_weight(device, within):
    """m g p/2π about the screw keeps the nut where it is, forces beside the axis do nothing."""
    model = nut(0.1)
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
    tau = [30.0, -20.0, 0.0, 1.0, -2.0, MASS * GRAVITY * 0.1 / (2 * np.pi)]
    state = sim.state()
    for _ in range(200):
        state = sim.step(state, tau=[tau])
    within("held nut: distance [m]", np.abs(state.q.numpy()[0, :3] - model.q0[:3]).max(), 1e-5)


def test_a_screw_between_two_bodies_conserves_momentum(device, within):
    """Two free bodies on one thread: what turns one against the other drives them apart, with no net momentum."""
    b = ws.ModelBuilder("pair", gravity=(0, 0, 0))
    for name, x, mass in (("bolt", 0.0, 1.0), ("nut", 0.3, 3.0)):
        b.add_body(name, pose=[x, 0, 1, 0.5, 0.5, 0.5, 0.5], mass=mass, inertia=[0.02, 0.02, 0.01])
        b.add_joint(name, "free", name=name)
    b.add_constraint("screw", "bolt", "nut", pitch=0.12)
    model = b.build()
    sim = ws.Simulator(model, dt=0.002, dtype="float64", device=device)
    rate = 9.0
    v = np.zeros(12)
    v[11] = rate  # z of the nut's own axes is x of the world
    end = sim.rollout(sim.state(v=v), steps=400).v.numpy()[-1, 0]
    momentum = 1.0 * end[:3] + 3.0 * end[6:9]
    within("pair: momentum [N s]", np.abs(momentum).max(), 1e-8)
    spin = end[11] - end[5]
    within("pair: apart by the pitch", abs((end[6] - end[0]) / (spin * 0.12 / (2 * np.pi)) - 1), 1e-5)


def test_a_misplaced_nut_comes_to_the_thread(device):
    """A soft screw that starts off its thread by less than half a pitch ends on it, by more on the next turn."""
    for start, turns in ((0.08, 0), (0.12, 1)):
        model = nut(0.2, stiffness=(2e3, 2e2), dissipation_time=0.2)
        sim = ws.Simulator(model, dt=0.005, dtype="float64", device=device)
        sim.parameters["gravity"] = [0.0, 0.0, 0.0]
        q = model.q0.copy()
        q[2] += start
        state = sim.rollout(sim.state(q), steps=2000)
        end = state.q.numpy()[-1, 0]
        turned = 2.0 * np.arctan2(end[6], end[3]) / (2 * np.pi)
        assert abs(end[2] - model.q0[2] - 0.2 * (turned + turns)) < 1e-6


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "pitch is missing"),
        ({"pitch": 0.0}, "pitch is 0.0; give the distance"),
        ({"pitch": np.inf}, "pitch is inf"),
        ({"pitch": [0.1, 0.2]}, "pitch is"),
        ({"pitch": 0.1, "length": 1.0}, "length means nothing for a screw"),
        ({"pitch": 0.1, "coefficients": (0, 1)}, "coefficients means nothing for a screw"),
    ],
)
def test_refused_arguments(options, message):
    """What a screw cannot have is named."""
    b = ws.ModelBuilder()
    b.add_body("nut", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("nut", "free")
    with pytest.raises(ModelError, match=message):
        b.add_constraint("screw", "world", "nut", **options)
    with pytest.raises(ModelError, match="pitch means nothing for a hinge"):
        b.add_constraint("hinge", "world", "nut", pitch=0.1)


def test_a_model_with_a_screw_can_be_added_to_another():
    """The pitch comes along; USD, which has no such joint, refuses it by name."""
    b = ws.ModelBuilder()
    b.add_model(nut(-0.05))
    model = b.build()
    np.testing.assert_array_equal(model.constraint_coefficients[0], [-0.05, 0, 0, 0, 0])
    with pytest.raises(ModelError, match="'thread': USD has no joint for a screw"):
        model.to_usd("unused.usda")


def lead_screw(pitch: float) -> ws.Model:
    """A spindle that turns and a nut that slides along it."""
    b = ws.ModelBuilder("lead screw", gravity=(0, 0, 0))
    b.add_body("spindle", mass=1.0, inertia=[1e-3, 1e-3, 1e-4])
    b.add_joint("spindle", "hinge", axis=[0, 0, 1], name="turn")
    b.add_body("nut", pose=[0, 0, 0.2], mass=2.0, inertia=[1e-3] * 3)
    b.add_joint("nut", "slide", axis=[0, 0, 1], name="rise")
    b.add_constraint("screw", "nut", "spindle", pitch=-pitch)
    return b.build()


@pytest.mark.parametrize("pitch", [0.001, 0.005, 0.02])
@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP(), ws.Compliant()], ids=lambda s: type(s).__name__)
def test_a_near_rigid_nut_beside_its_thread(device, pitch, solver):
    """Off by up to 0.49 of a pitch at rest: it comes to the thread by the way of least turning and stays, in steps of 2 and 10 ms."""
    offsets = np.array([-0.49, -0.3, 0.1, 0.3, 0.4, 0.49])
    for dt in (0.002, 0.01):
        sim = ws.Simulator(lead_screw(pitch), len(offsets), dt, solver=solver, dtype="float64", device=device)
        q = np.stack([np.zeros(len(offsets)), offsets * pitch], axis=1)
        state = sim.rollout(sim.state(q=q), steps=400).final
        turn, rise = state.q.numpy().T
        np.testing.assert_allclose(rise - pitch * turn / (2 * np.pi), 0.0, atol=1e-6)
        assert np.abs(rise).max() < 3 * pitch and np.abs(state.v.numpy()[:, 1]).max() < 0.01


@pytest.mark.parametrize("speed", [1.0, 2.0, 5.0])
def test_a_nut_faster_than_half_a_pitch_per_step(device, speed):
    """A nut pushed along a spindle at rest sets it spinning, at speeds of up to two pitches per step: momentum is shared by the
    masses that the thread couples, v = m v0/(m + I (2π/p)²), and the thread holds."""
    pitch, dt = 0.005, 0.002
    sim = ws.Simulator(lead_screw(pitch), dt=dt, dtype="float64", device=device)
    path = sim.rollout(sim.state(v=[0.0, speed]), steps=50)
    coupled = 1e-4 * (2 * np.pi / pitch) ** 2
    v = path.v.numpy()[-1, 0]
    np.testing.assert_allclose(v[1], 2.0 * speed / (2.0 + coupled), rtol=1e-3)
    np.testing.assert_allclose(v[0], 2 * np.pi / pitch * v[1], rtol=1e-6)


def test_a_pitch_that_changes_under_way(device):
    """The nut goes on from the turn that is nearest."""
    sim = ws.Simulator(lead_screw(0.005), worlds=3, dt=0.002, dtype="float64", device=device)
    state = sim.rollout(sim.state(v=[2 * np.pi, 0.005]), steps=1200).final
    pitches = np.array([-0.005, -0.006, -0.004])
    sim.parameters["constraint_coefficients"] = np.pad(pitches[:, None, None], ((0, 0), (0, 0), (0, 4)))
    after = sim.rollout(state, steps=500).final
    np.testing.assert_allclose(after.v.numpy()[:, 0] * -pitches / (2 * np.pi), after.v.numpy()[:, 1], rtol=1e-6)
    assert (np.abs(after.q.numpy()[:, 1] - 0.017) < 0.006).all()
