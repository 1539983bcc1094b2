# SPDX-License-Identifier: Apache-2.0
"""Flags of steps with impacts: what raises them in other steps does so in these, and more impacts than a step resolves
are none by themselves."""

import numpy as np
import pytest
from test_impacts import gradient_error, simulator

import warpsim as ws
from warpsim.integrate.impacts import MOST

UNRESOLVED, NOT_HELD, ENERGY_GAIN = 8, 32, 64


def add_ball(b, name, x, radius, **options):
    ball = b.add_body(name, pose=(x, 0, 0, 1, 0, 0, 0))
    b.add_joint(ball, "free")
    b.add_geom("sphere", (radius,), body=ball, friction=0.0, **options)
    return ball


def add_slot(b, x, half, **options):
    """Two thick walls, `half` to either side of x."""
    for side in (-1, 1):
        b.add_geom("box", (0.05, 1, 1), pose=(x + side * (half + 0.05), 0, 0, 1, 0, 0, 0), **options)


def space(name="space") -> ws.ModelBuilder:
    b = ws.ModelBuilder(name)
    b.gravity = (0, 0, 0)
    return b


@pytest.mark.parametrize("law", ["SAP", "LCP"])
@pytest.mark.parametrize(("speed", "flag"), [(4.0, 0), (7.3, 0), (13.0, UNRESOLVED)])
def test_an_elastic_impact_is_unresolved_only_where_it_could_be_missed(law, speed, flag):
    """A ball of 1 cm and a wall of 4 cm: it leaves faster than both middles could have met within the step, after a resolved
    impact; at 13 m/s and 5 ms it could pass the whole wall."""
    b = space()
    add_ball(b, "ball", 0.0, 0.01, restitution=1.0)
    b.add_geom("box", (0.02, 1, 1), pose=(0.036, 0, 0, 1, 0, 0, 0), restitution=1.0)
    model = b.build()
    sim = simulator(model, 1, 0.005, solver=getattr(ws, law)())
    v = np.zeros((1, 6))
    v[0, 0] = speed
    state = sim.step(sim.state(model.q0[None], v))
    assert sim.diagnostics.impacts.numpy()[0] == 1
    np.testing.assert_allclose(state.v.numpy()[0, 0], -speed, rtol=1e-4)
    assert sim.diagnostics.flags.numpy()[0] == flag


@pytest.mark.parametrize("law", ["SAP", "LCP"])
def test_more_impacts_than_a_step_resolves(law):
    """A ball that rattles in a slot with 1 mm of play, 25 times in a step, stays in it, gains no energy and raises no
    flag: today's rule ends a step after its fourth impact."""
    b = space()
    add_ball(b, "ball", 0.0, 0.05, restitution=1.0)
    add_slot(b, 0.0, 0.0505, restitution=1.0)
    model = b.build()
    sim, v, most, speed = simulator(model, 1, 0.005, solver=getattr(ws, law)()), np.zeros((1, 6)), 0, 5.0
    v[0, 0] = speed
    state = sim.state(model.q0[None], v)
    for _ in range(20):
        state = sim.step(state)
        most = max(most, sim.diagnostics.impacts.numpy()[0])
        assert abs(state.q.numpy()[0, 0]) < (0.00051 if law == "LCP" else 0.00111)  # as much as without the rule
        assert abs(state.v.numpy()[0, 0]) < 1.001 * speed
        speed = abs(state.v.numpy()[0, 0])
    assert most == MOST
    assert not sim.diagnostics.flags.numpy().any()


@pytest.mark.parametrize("law", ["SAP", "LCP"])
def test_a_row_of_balls_hit_within_one_step(law):
    """Eight balls of a Newton's cradle with 0.5 mm between them: seven impacts within a step, of which four are resolved, keep
    momentum, gain no energy and raise no flag."""
    b = space()
    for k in range(8):
        add_ball(b, f"ball{k}", 0.1005 * k, 0.05, restitution=1.0)
    model = b.build()
    sim, v = simulator(model, 1, 0.005, solver=getattr(ws, law)()), np.zeros((1, 48))
    v[0, 0] = 1.37
    state, most = sim.state(model.q0[None], v), 0
    for _ in range(20):
        state = sim.step(state)
        most = max(most, sim.diagnostics.impacts.numpy()[0])
        speeds = state.v.numpy()[0, ::6]
        np.testing.assert_allclose(speeds.sum(), 1.37, atol=1e-6)
        assert (speeds**2).sum() < 1.0001 * 1.37**2
    assert most == MOST
    assert not sim.diagnostics.flags.numpy().any()


def test_tape_through_more_impacts_than_a_step_resolves():
    """The tape is the derivative of the steps where fast contacts take part in the solve that ends one."""
    b = space()
    for k in range(8):
        add_ball(b, f"ball{k}", 0.1005 * k, 0.05, restitution=0.7)
    b.gravity = (0.3, 0, -1)
    model, v = b.build(), np.zeros((2, 48))
    v[:, 0], v[:, 6] = [1.37, 2.9], 0.1
    sim = simulator(model, 2, 0.005)
    sim.step(sim.state(model.q0 + np.zeros((2, 1)), v))
    assert sim.diagnostics.impacts.numpy().tolist() == [MOST, MOST]
    assert sim._step.impacts.segments.plain.numpy().any()
    assert gradient_error(model, model.q0 + np.zeros((2, 1)), v, 0.005, 1).max() < 1e-5
    assert gradient_error(model, model.q0 + np.zeros((2, 1)), v, 0.005, 3).max() < 1e-5


def rattled(rattles: bool, add) -> ws.Model:
    """`add(b)`, in a world where an elastic ball hits a wall in nearly every step, or not."""
    b = space()
    add(b)
    if rattles:
        add_slot(b, 5.0, 0.07, restitution=1.0)
        add_ball(b, "ball", 5.0, 0.06, restitution=1.0)
    return b.build()


def add_tumbling(b):
    trunk = b.add_body("trunk")
    b.add_joint(trunk, "free")
    b.add_geom("box", (0.1, 0.2, 0.05), body=trunk)
    arm = b.add_body("arm", parent=trunk, pose=(0.3, 0, 0, 1, 0, 0, 0))
    b.add_joint(arm, "hinge", axis=(0, 1, 0))
    b.add_geom("box", (0.1, 0.05, 0.2), body=arm)


def first_flag(model, flag: int, spin, steps: int):
    """The first step with the flag, and the steps with impacts before it."""
    sim, v, impacts = simulator(model, 1, 0.005), np.zeros((1, model.nv)), 0
    v[0, : len(spin)] = spin
    if model.nv > 7:
        v[0, -6] = 3.4567
    state = sim.state(model.q0[None], v)
    for step in range(steps):
        state = sim.step(state)
        impacts += int(sim.diagnostics.impacts.numpy()[0] > 0)
        if sim.diagnostics.flags.numpy()[0] & flag:
            return step, impacts
    return None, impacts


def test_energy_gain_is_found_in_steps_with_impacts():
    """A tree that tumbles too fast for h is flagged as early in a world where every step has an impact elsewhere."""
    spin = [0, 0, 0, 12, 14, 9]
    alone, _ = first_flag(rattled(False, add_tumbling), ENERGY_GAIN, spin, 400)
    beside, impacts = first_flag(rattled(True, add_tumbling), ENERGY_GAIN, spin, 400)
    assert 100 < alone < 400
    assert impacts > 0.8 * beside
    assert abs(beside - alone) < 0.1 * alone


def add_coupled(b):
    """Two hinges that a coupling keeps at the same angle."""
    for name, y in (("a", 2), ("b", 3)):
        b.add_body(name, pose=[0, y, 0], mass=1.0, com=[0.1, 0, 0], inertia=[0.01] * 3)
        b.add_joint(name, "hinge", axis=[0, 0, 1], name=name)
    b.add_constraint("joint", "a", "b", coefficients=(0, 1), name="gear")


@pytest.mark.parametrize(("torque", "flag"), [(10.0, 0), (1e9, NOT_HELD)])
def test_a_coupling_that_is_torn_is_flagged_in_steps_with_impacts(torque, flag):
    """1e9 N m between two joints that are to be equal, where every step has an impact elsewhere; 10 N m it bears."""
    model = rattled(True, add_coupled)
    sim, v, tau, impacts = simulator(model, 1, 0.002), np.zeros((1, 8)), np.zeros((1, 8)), 0
    v[0, 2], tau[0, 0] = 9.4567, torque
    state = sim.state(model.q0[None], v)
    for _ in range(50):
        state = sim.step(state, tau=tau)
        impacts += sim.diagnostics.impacts.numpy()[0]
    assert impacts > 40
    assert sim.diagnostics.flags.numpy()[0] & NOT_HELD == flag


def test_energy_gain_is_not_raised_by_impacts_of_a_robot():
    """A hopper that falls, lands and rolls about with random controls, at 2, 5 and 10 ms."""
    model, random, impacts = ws.load(ws.robots.path("hopper")), np.random.default_rng(0), 0
    for h in (0.002, 0.005, 0.01):
        sim = simulator(model, 16, h)
        state = sim.state(v=random.normal(size=(16, model.nv)))
        for _ in range(300):
            state = sim.step(state, random.uniform(-1, 1, (16, model.nu)))
            impacts += (sim.diagnostics.impacts.numpy() > 0).sum()
        assert not (sim.diagnostics.flags.numpy() & ENERGY_GAIN).any()
    assert impacts > 500
