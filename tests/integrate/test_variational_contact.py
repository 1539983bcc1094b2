# SPDX-License-Identifier: Apache-2.0
"""The variational integrator with contact and rows: impulses carry over exactly, nothing gains energy, rest is rest."""

import numpy as np
import pytest

import warpsim as ws
from scenes.constraints import fourbar, gaps


def ball(height: float, h: float, mu: float = 0.5, shape: str = "sphere") -> ws.Model:
    b = ws.ModelBuilder("ball", timestep=h)
    b.add_geom("plane", friction=mu)
    body = b.add_body("ball", pose=[0, 0, height])
    b.add_joint(body, "free")
    b.add_geom(shape, [0.05] if shape == "sphere" else [0.05] * 3, body=body, friction=mu)
    return b.build()


def run(model, steps: int, device, *, dtype="float64", v=None, integrator=None):
    sim = ws.Simulator(model, dtype=dtype, device=device, integrator=integrator or ws.Variational())
    path = sim.rollout(sim.state(v=v), steps=steps)
    return sim, path


@pytest.mark.parametrize(("shape", "dtype"), [("sphere", "float64"), ("box", "float64"), ("box", "float32")])
def test_a_drop_comes_to_rest_without_gaining_energy(device, shape, dtype):
    """Dropped from 1 m: energy falls but for the work of the stiff contact (0.02 % of m g z), rest is v = 0 within 2 s."""
    _, path = run(ball(1.0, 0.01, shape=shape), 200, device, dtype=dtype)
    energy = path.diagnostics["energy"].numpy()[:, 0]
    assert np.diff(energy).max() < 2e-4 * energy[0]
    assert np.abs(path.v.numpy()[-1, 0]).max() < 1e-5
    assert -1e-4 < path.q.numpy()[-1, 0, 2] - 0.05 < 0
    tolerance = {"float64": 1e-6, "float32": 1e-4}[dtype]
    assert path.diagnostics["momentum_error"].numpy().max() <= tolerance
    assert path.diagnostics["flags"].numpy().max() == 0


def test_rest_penetrates_as_with_the_other_integrators(device):
    """The same stiff contact bears the same weight: equal penetration under Euler and the variational integrator."""
    depth = [
        run(ball(0.05, 0.01), 200, device, integrator=integrator)[1].q.numpy()[-1, 0, 2]
        for integrator in (ws.SymplecticEuler(), ws.Variational())
    ]
    assert depth[1] - 0.05 == pytest.approx(depth[0] - 0.05, rel=1e-3)


def test_a_sliding_ball_ends_rolling(device):
    """Slipping friction turns 1 m/s of sliding into rolling at 5/7 m/s."""
    _, path = run(ball(0.05, 0.005), 200, device, v=[1, 0, 0, 0, 0, 0])
    v = path.v.numpy()[-1, 0]
    assert v[0] == pytest.approx(5 / 7, rel=2e-3)
    assert v[4] * 0.05 == pytest.approx(v[0], rel=1e-3)


def test_momentum_takes_the_whole_impulse(device):
    """A 3-link chain that strikes its stop: with a second pass, dq is what the contact law gave, to its tolerance."""
    b = ws.ModelBuilder("chain", timestep=0.01)
    parent = -1
    for k in range(3):
        parent = b.add_body(
            f"link_{k}", parent=parent, pose=[0.3 if k else 0, 0, 0], mass=1, inertia=[0.01] * 3, com=[0.15, 0, 0]
        )
        limit = [-0.2, 0.2] if k == 0 else None
        b.add_joint(parent, "hinge", axis=[0, 1, 0], range=limit)
    model = b.build()
    gap = {}
    for passes in (1, 3):
        sim = ws.Simulator(model, dtype="float64", device=device, integrator=ws.Variational(passes=passes))
        state = sim.state(v=[3.0, -2.0, 5.0])
        worst = 0.0
        for _ in range(30):
            state = sim.step(state)
            step = sim._step
            dq, v = step.work.dq.numpy()[0], step.solver.solution.v.numpy()[0]
            worst = max(worst, np.abs(dq / 0.01 - v).max())
        gap[passes] = worst
    assert gap[3] < 0.05 * gap[1]


def test_a_standing_robot_stays(device, assets):
    """The ant falls, settles and stands: certified at every step, still after 3 s."""
    model = ws.load(assets("ant"))
    sim = ws.Simulator(model, dtype="float64", device=device, integrator=ws.Variational())
    path = sim.rollout(sim.state(), steps=round(3.0 / sim.dt), every=10)
    assert path.diagnostics["momentum_error"].numpy().max() <= 1e-6
    assert path.diagnostics["flags"].numpy().max() == 0
    assert np.abs(path.v.numpy()[-1, 0]).max() < 1e-3
    assert sim.last_contacts.phi.min() > -1e-4


def test_contact_free_flight_is_the_plain_integrator(device):
    """Far from the floor, the bits are those of a simulator without contact."""
    v = [1.0, 2.0, 0.0, 3.0, -2.0, 1.0]
    ends = []
    for solver in (ws.SAP(), ws.NoContact()):
        model = ball(5.0, 0.01, shape="box")
        sim = ws.Simulator(model, dtype="float64", device=device, integrator=ws.Variational(), solver=solver)
        ends.append(sim.rollout(sim.state(v=v), steps=20).q.numpy()[-1])
    np.testing.assert_array_equal(*ends)


def test_a_stored_state_resumes_exactly(device):
    """`memory` holds what contact left halfway: a clone steps on to the same bits, and `reset` forgets it."""
    sim, path = run(ball(0.05, 0.01), 5, device)
    state = path.final
    assert np.abs(state.memory["jump"].numpy()).max() > 0.01
    ends = [sim.step(s).q.numpy() for s in (state, state.clone())]
    np.testing.assert_array_equal(*ends)
    sim.reset(state, [0])
    assert not state.memory["jump"].numpy().any()


def test_a_loop_stays_closed_and_keeps_its_energy(device):
    """A hanging four-bar over 2 s at 1 ms: the pin closes to 1e-8 m, and energy stays within 1e-3 of the motion's."""
    model = fourbar()
    sim = ws.Simulator(model, dt=1e-3, dtype="float64", device=device, integrator=ws.Variational())
    path = sim.rollout(sim.state(), steps=2000, every=20)
    assert max(np.abs(gaps(model, q[0])).max() for q in path.q.numpy()) < 1e-8
    energy = path.diagnostics["energy"].numpy()[:, 0]
    kinetic = 0.5 * 0.73**2 * model.body_mass.sum()
    assert np.ptp(energy) < 1e-3 * kinetic
    assert path.diagnostics["flags"].numpy().max() == 0
