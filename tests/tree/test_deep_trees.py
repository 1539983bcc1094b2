# SPDX-License-Identifier: Apache-2.0
"""Chains of a hundred links and more in float32: what their mass matrix cannot hold in 24 bits goes through float64."""

import numpy as np
import pytest

import warpsim as ws

LENGTH, MASS, RADIUS = 0.1, 0.1, 0.02


def chain(links: int, *, range=None, floor: float | None = None, damping: float = 0.0) -> ws.Model:
    """Rods on hinges, in turn about y and z; with a floor, spheres in their middles."""
    b = ws.ModelBuilder("chain", timestep=0.002)
    if floor is not None:
        b.add_geom("plane", pose=[0, 0, floor, 1, 0, 0, 0], friction=0.5)
    across, along = MASS * LENGTH**2 / 12, MASS * RADIUS**2 / 2
    parent = None
    for i in np.arange(links):
        place = [0 if parent is None else LENGTH, 0, 0, 1, 0, 0, 0]
        inertia = [along, across, across]
        body = b.add_body(f"link {i}", parent=parent, pose=place, mass=MASS, com=[LENGTH / 2, 0, 0], inertia=inertia)
        limits = {} if range is None else {"range": range}
        b.add_joint(body, "hinge", axis=[0, 1, 0] if i % 2 == 0 else [0, 0, 1], damping=damping, **limits)
        if floor is not None:
            b.add_geom("sphere", [RADIUS], pose=[LENGTH / 2, 0, 0, 1, 0, 0, 0], body=body, friction=0.5)
        parent = body
    return b.build()


def bent(model: ws.Model) -> np.ndarray:
    return 0.1 * np.random.default_rng(0).normal(size=model.nq)


def run(model: ws.Model, q, steps: int, **settings):
    """Energies (kinetic, potential), position of the joints and flags after so many steps."""
    sim = ws.Simulator(model, **settings)
    state = sim.state(q)
    for _ in range(steps):
        sim.step(state, out=state)
    energies = np.array([part.numpy()[0] for part in sim.energy(state)], float)
    return energies, state.q.numpy()[0].astype(float), int(state.memory["flags"].numpy()[0])


@pytest.mark.parametrize("links", [100, 224, 500])
def test_a_long_chain_falls_in_float32_as_in_float64(device, links):
    """100 steps of a bent chain: no flag, energies within 1e-4, the joints within 1e-3 rad."""
    model = chain(links)
    expected, q_expected, _ = run(model, bent(model), 100, dtype="float64", device=device)
    energies, q, flags = run(model, bent(model), 100, dtype="float32", device=device)
    assert flags == 0
    np.testing.assert_allclose(energies, expected, rtol=1e-4)
    np.testing.assert_allclose(q, q_expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_free_chain_obeys_its_equations_of_motion(device, dtype, within):
    """(M + h D) (v' − v) = h (τ − D v − c) with M and c from elsewhere: the step of what nothing touches has no M of its own."""
    model, h = chain(60, damping=0.002), 0.002
    sim = ws.Simulator(model, worlds=2, dt=h, dtype=dtype, device=device)
    assert sim.bytes_per_world() < 200e3  # M alone, and its factors, would be more
    random = np.random.default_rng(1)
    q, v, tau = (scale * random.normal(size=(2, model.nv)) for scale in (0.2, 0.5, 0.01))
    after = sim.step(sim.state(q, v), tau=tau).v.numpy().astype(float)
    exact = ws.Simulator(model, worlds=2, dt=h, dtype="float64", device=device)
    q, v = sim.state(q, v).q.numpy().astype(float), sim.state(q, v).v.numpy().astype(float)
    M, c = exact.mass_matrix(q).numpy(), exact.inverse_dynamics(q, v, 0 * v).numpy()
    D = 0.002 * np.eye(model.nv)
    expected = v + np.linalg.solve(M + h * D, (h * (tau - v @ D - c))[..., None])[..., 0]
    bar = {"float32": 1e-6, "float64": 1e-9}[dtype]
    within(f"{dtype} step of a chain of 60", np.abs(after - expected).max() / np.abs(expected).max(), bar)


@pytest.mark.parametrize("links", [50, 224])
def test_the_mass_matrix_of_a_long_chain_in_float32(device, links, within):
    """Rounded from float64: 1e-6 relative to the diagonal, where float32 throughout is off by 5e-4 to 5e-3."""
    model = chain(links)
    q, v = bent(model), 0.1 * bent(model)
    results = []
    for dtype in ("float64", "float32"):
        sim = ws.Simulator(model, dtype=dtype, device=device)
        results.append([sim.mass_matrix(q).numpy()[0], sim.forward_dynamics(q, v, 0 * v).numpy()[0]])
    (M, a), (rounded, a_rounded) = results
    scale = np.sqrt(np.diag(M))
    within(f"mass matrix of {links} links", np.abs((rounded - M) / np.outer(scale, scale)).max(), 1e-6)
    within(f"accelerations of {links} links", np.abs(a_rounded - a).max() / np.abs(a).max(), 1e-5)


@pytest.mark.parametrize("scene", [{"range": (-0.02, 0.02)}, {"floor": -0.1, "damping": 0.001}], ids=["stops", "floor"])
@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.ExplicitEuler()], ids=["symplectic", "explicit"])
def test_stops_and_contacts_of_a_long_chain(device, scene, integrator):
    """A chain of 150 links against its stops, or onto the floor: every step converges, the energy is float64's within 1 %
    of the kinetic energy (the solver's tolerance is 1e-4 of the momenta in each of 40 impacts)."""
    model = chain(150, **scene)
    settings = {"device": device, "integrator": integrator}
    expected, _, flags = run(model, np.zeros(model.nq), 40, dtype="float64", **settings)
    assert flags == 0 and expected[0] > 1.0
    energies, _, flags = run(model, np.zeros(model.nq), 40, dtype="float32", **settings)
    assert flags == 0
    assert abs(energies.sum() - expected.sum()) < 0.01 * expected[0]


def test_worlds_with_their_own_masses_stay_independent(device):
    """Parameters of a world are read in every step, and no world changes another's bits."""
    model = chain(60)
    q = bent(model)
    sim = ws.Simulator(model, worlds=3, device=device)
    mass = sim.parameters["body_mass"]
    values = mass.numpy().copy()
    values[1] *= 1.0 + 0.5 * np.arange(60) / 60
    mass.assign(values)
    state = sim.state(q)
    for _ in range(5):
        sim.step(state, out=state)
    alone = ws.Simulator(model, device=device)
    expected = alone.state(q)
    for _ in range(5):
        alone.step(expected, out=expected)
    np.testing.assert_array_equal(state.v.numpy()[[0, 2]], np.tile(expected.v.numpy(), (2, 1)))
    heavier = ws.Simulator(model, dtype="float64", device=device)
    heavier.parameters["body_mass"] = values[1]
    other = heavier.state(q)
    for _ in range(5):
        heavier.step(other, out=other)
    np.testing.assert_allclose(state.v.numpy()[1], other.v.numpy()[0], atol=1e-4 * np.abs(other.v.numpy()).max())


def test_gradients_of_long_chains_want_float64(device):
    """Tape and Jacobians of a step that goes through float64 would be those of float32: refused, with the fix; 40 links are not."""
    with pytest.raises(ValueError, match="float64"):
        ws.Simulator(chain(41), dtype="float32", requires_grad=True, device=device)
    sim = ws.Simulator(chain(41), dtype="float32", device=device)
    with pytest.raises(ValueError, match=r"linearize.*float64"):
        sim.linearize(sim.state())
    ws.Simulator(chain(40), dtype="float32", requires_grad=True, device=device)
    sim = ws.Simulator(chain(41), dtype="float64", device=device)
    assert np.isfinite(sim.linearize(sim.state()).A.numpy()).all()
