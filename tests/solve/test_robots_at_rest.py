# SPDX-License-Identifier: Apache-2.0
"""Ant and humanoid dropped without actuation: every step certified, and they come to rest without creeping."""

import numpy as np
import pytest

import warpsim as ws

WORLDS = 8
DURATION = 10.0  # [s]
SIGMA = 1e-3
TOLERANCE = {"float64": 1e-6, "float32": 1e-4}
# Worlds that are asked to be at rest after 10 s: every humanoid, and the ants that fall straight. An ant thrown askew
# lands on four feet and then turns about the vertical against its dampers (1 N m s/rad under a weight of 9 N) for 10 to
# 30 s, in MuJoCo as here: it creeps down a slope of its own energy, not through its contacts.
AT_REST = {"ant": 2, "humanoid": WORLDS}
STRAIGHT = 2  # worlds without initial velocity


@pytest.fixture(scope="module")
def dropped(device, assets):
    """`dropped(name, dtype)`: (sim, trajectory) over 10 s in 8 worlds: from the file's pose, from 0.5 m above it, and
    from it with random velocities."""
    runs = {}

    def get(name: str, dtype: str):
        if (name, dtype) not in runs:
            model = ws.load(assets(name))
            sim = ws.Simulator(model, worlds=WORLDS, device=device, dtype=dtype)
            q, v = np.tile(model.q0, (WORLDS, 1)), np.zeros((WORLDS, model.nv))
            q[1:, 2] += 0.5
            v[2:] = 0.3 * np.random.default_rng(1).normal(size=(WORLDS - 2, model.nv))
            runs[name, dtype] = sim, sim.rollout(sim.state(q, v), steps=round(DURATION / sim.dt))
        return runs[name, dtype]

    return get


every_case = pytest.mark.parametrize("name, dtype", [(n, d) for n in AT_REST for d in TOLERANCE])


@pytest.mark.both_types
@every_case
def test_every_step_is_certified(dropped, name, dtype, within):
    """e_m <= tolerance in every step of every world (also from a start far beyond the joint stops), or the world is flagged, in
    one step of a thousand at most: Coulomb's law has hard places, where contacts that press each other harder as they slide
    change branches for long."""
    _, trajectory = dropped(name, dtype)
    d = {key: value.numpy() for key, value in trajectory.diagnostics.items()}
    missed = d["momentum_error"] > TOLERANCE[dtype]
    flagged = (d["flags"] & ws.NOT_CONVERGED) != 0  # from then on
    assert not (d["flags"] & ~ws.NOT_CONVERGED).any() and (flagged | ~missed).all()
    within(f"{dtype} {name}: share of steps not solved", missed.mean(), 1e-3)
    within(f"{dtype} {name}: mean iterations", d["iterations"].mean(), 6)
    assert d["contacts"][-1].min() >= 3


@every_case
def test_final_penetration_is_below_a_millimetre(dropped, name, dtype, within):
    """Near-rigid contact: the deepest point after 10 s."""
    sim, trajectory = dropped(name, dtype)
    phi = sim.contacts(trajectory.final).phi
    within(f"{dtype} {name}: final penetration", -phi.min(), 1e-3)


@every_case
def test_it_comes_to_rest(dropped, name, dtype, within):
    """After 10 s the energy of motion is below that of 1 mm/s, the root stays where it is over the last second, and where
    it fell straight no joint is faster than 5 mrad/s. (In a tangle single limbs still sink against their dampers: they
    rest on each other without friction, condim 1 in the file.)"""
    sim, trajectory = dropped(name, dtype)
    rest = AT_REST[name]
    v, q = trajectory.v.numpy()[-1, :rest], trajectory.q.numpy()[:, :rest]
    within(f"{dtype} {name}: fastest joint at rest, dropped straight", np.abs(v[:STRAIGHT]).max(), 5e-3)
    kinetic = sim.energy(trajectory.final)[0].numpy()[:rest].max()
    within(f"{dtype} {name}: kinetic energy at rest", kinetic, 0.5 * sim.model.body_mass.sum() * 1e-3**2)
    second = round(1.0 / sim.dt)
    within(f"{dtype} {name}: move of the root in the last second", np.abs(q[-1, :, :3] - q[-second, :, :3]).max(), 1e-3)


@every_case
def test_contacts_creep_no_faster_than_stiction_allows(dropped, name, dtype, within):
    """A contact that sticks slips at R_t gamma_t <= mu sigma w gamma_n (one body on its own: mu sigma h g).

    Where bodies fell straight, at every contact that carries 15 % of the weight; in a tangle on average over the load,
    since a lightly loaded limb may be dragged along at its cone's edge (one of the humanoid's is, under 10 %)."""
    sim, _ = dropped(name, dtype)
    p, s = sim._step.solver.problem, sim._step.solver.solution
    gamma, mu, R, count = s.gamma.numpy(), p.mu.numpy(), p.R.numpy(), p.contacts.numpy()
    u_c = sim._step.solver.work.u_c.numpy()  # v_hat has no tangential part
    slip, bound = np.linalg.norm(u_c[..., :2], axis=-1), mu * R[..., 0] * gamma[..., 2]
    weight, worst, average = sim.model.body_mass.sum() * 9.81 * sim.dt, 0.0, 0.0
    for w in range(AT_REST[name]):
        rough = np.flatnonzero(mu[w, : count[w]] > 0)
        load = gamma[w, rough, 2]
        average = max(average, (load @ slip[w, rough]) / (load @ bound[w, rough]))
        if w < STRAIGHT:
            carrying = rough[load > 0.15 * weight]
            worst = max(worst, (slip[w, carrying] / bound[w, carrying]).max())
    within(f"{dtype} {name}: slip over the stiction bound, straight", worst, 1.0 + 1e-3)
    within(f"{dtype} {name}: slip over the stiction bound, mean over load", average, 1.0)
