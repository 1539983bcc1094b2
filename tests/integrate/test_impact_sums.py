# SPDX-License-Identifier: Apache-2.0
"""What a step with impacts reports is that of the whole step: forces times h are its change of momentum."""

import numpy as np
import pytest
from test_impacts import SOLVERS, G, body, simulator

import warpsim as ws


def turned(model, worlds, seed=0):
    """A body that falls and turns, in random directions: positions and velocities."""
    random = np.random.default_rng(seed)
    q, v = np.repeat(model.q0[None], worlds, 0), random.normal(size=(worlds, 6)) * [1, 1, 1, 3, 3, 3]
    turn = random.normal(size=(worlds, 4))
    q[:, 2], q[:, 3:], v[:, 2] = 0.25, turn / np.linalg.norm(turn, axis=1, keepdims=True), -2
    return q, v


@pytest.mark.parametrize("law", SOLVERS)
@pytest.mark.parametrize(("shape", "e"), [("sphere", 0.7), ("box", 0.0), ("box", 0.6)])
def test_contact_forces_are_the_change_of_momentum(law, shape, e):
    """m (v' − v) = h (F + m g) in every step of a ball and of a box on its corners; the contacts sum up to F."""
    model, h, impacts = body(shape, e=e), 0.01, 0
    sim = simulator(model, 8, h, solver=SOLVERS[law])
    state, m = sim.state(*turned(model, 8)), model.body_mass[0]
    for _ in range(40):
        before, state = state.v.numpy().copy(), sim.step(state)
        force, found = sim.contact_force(of="body").numpy()[:, 0], sim.last_contacts
        change = m * (state.v.numpy() - before)[:, :3]
        np.testing.assert_allclose(h * (force + [0, 0, -G * m]), change, atol=1e-8)
        used = np.arange(found.phi.shape[1]) < found.count[:, None]
        at_points = np.einsum("wcij,wcj->wci", found.frame, found.impulse) * used[..., None]
        np.testing.assert_allclose(at_points.sum(1), h * force, atol=1e-12)
        np.testing.assert_array_equal(found.count, sim.diagnostics.contacts.numpy())
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 8


def test_contact_forces_of_a_robot_that_lands():
    """A hopper's linear momentum along x and z, M v of its root, changes by the contact forces and its weight: to 0.5 % of
    the sum of forces over the landing, and to first order in h."""
    model, errors = ws.load(ws.robots.path("hopper")), []
    weight = [0, model.body_mass.sum() * G]
    for h in (0.005, 0.00125):
        sim, random = simulator(model, 4, h), np.random.default_rng(3)
        q = model.q0 + [0, 0.3, 0, -0.3, -0.5, 0.1]
        state, lost, total, impacts = sim.state(q, 0.5 * random.normal(size=(4, model.nv))), 0.0, 0.0, 0
        momentum = lambda s: np.einsum("wij,wj->wi", sim.mass_matrix(s.q).numpy(), s.v.numpy())[:, :2]  # noqa: E731
        for _ in range(round(0.4 / h)):
            before, state = momentum(state), sim.step(state)
            impulse = h * sim.contact_force(of="body").numpy().sum(1)[:, [0, 2]]
            lost += momentum(state) - before + np.multiply(weight, h) - impulse
            total += np.abs(impulse)
            impacts += sim.diagnostics.impacts.numpy().sum()
        assert impacts >= 8
        errors.append(np.abs(lost).max() / total.max())
    assert errors[0] < 5e-3
    assert errors[1] < 0.35 * errors[0]


def test_moments_of_contacts_that_resist_spin():
    """A ball with torsional and rolling friction: I (ω' − ω) = Σ (r × impulse + moment), to the turn of the axes within the step."""
    b = ws.ModelBuilder("ball")
    options = {"condim": 6, "torsional_friction": 0.02, "rolling_friction": 0.01}
    b.add_geom("plane", **options)
    ball = b.add_body("ball", pose=(0, 0, 0.2, 1, 0, 0, 0))
    b.add_joint(ball, "free")
    b.add_geom("sphere", (0.1,), body=ball, **options)
    model, h, impacts = b.build(), 0.01, 0
    sim, (q, v) = simulator(model, 4, h), turned(model, 4)
    state, inertia = sim.state(q, v), model.body_inertia[0][0, 0]
    for _ in range(30):
        before, state = state, sim.step(state)
        found, change = sim.last_contacts, inertia * (spin_of(state) - spin_of(before))
        turn = np.einsum("wcij,wcj->wci", found.frame, found.moment)
        turn += np.cross([0, 0, -0.1], np.einsum("wcij,wcj->wci", found.frame, found.impulse))
        used = np.arange(found.phi.shape[1]) < found.count[:, None]
        np.testing.assert_allclose((turn * used[..., None]).sum(1), change, atol=5e-5)
        impacts += sim.diagnostics.impacts.numpy().sum()
    assert impacts >= 4


def spin_of(state):
    """Angular velocity of a free body in world axes."""
    w, u, omega = state.q.numpy()[:, 3:4], state.q.numpy()[:, 4:], state.v.numpy()[:, 3:]
    t = 2 * np.cross(u, omega)
    return omega + w * t + np.cross(u, t)
