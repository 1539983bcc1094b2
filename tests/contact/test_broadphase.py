# SPDX-License-Identifier: Apache-2.0
"""The grid of large scenes against the full list of pairs."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.contact import broadphase, collision


def pile(count: int, seed: int) -> ws.Model:
    """Spheres, boxes and capsules of mixed sizes on a plane, with one large box among them."""
    rng = np.random.default_rng(seed)
    b = ws.ModelBuilder("pile")
    b.add_geom("plane", name="floor")
    b.add_geom("box", [2.0, 0.05, 1.0], pose=[0, 1.2, 1.0], name="wall")
    shapes = (("sphere", [0.08]), ("box", [0.05, 0.1, 0.06]), ("capsule", [0.04, 0.1]))
    for i in range(count):
        kind, size = shapes[i % 3]
        body = b.add_body(pose=[*rng.uniform([-0.5, -0.5, 0.05], [0.5, 1.2, 1.0]), *rng.normal(size=4)])
        b.add_joint(body, "free")
        b.add_geom(kind, np.array(size) * rng.uniform(0.5, 1.5), body=body)
    return b.build()


@pytest.mark.both_types
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_grid_finds_the_contacts_of_the_list_in_the_same_order(monkeypatch, dtype):
    """Same contacts, same order, same bits as testing every pair, in worlds of different velocities."""
    model = pile(60, 0)
    rng = np.random.default_rng(1)
    v = rng.normal(size=(5, model.nv))
    runs = []
    for largest in (10**9, 0):
        monkeypatch.setattr(collision, "LARGEST_LIST", largest)
        sim = ws.Simulator(model, worlds=5, dt=0.005, dtype=dtype, device="cpu", max_contacts=600)
        assert (sim._step.collision.broadphase is not None) == (largest == 0)
        state = sim.state(v=v)
        for _ in range(20):
            sim.step(state, out=state)
        runs.append((state, sim.last_contacts))
    (a, first), (b, second) = runs
    assert first.count.min() > 10
    np.testing.assert_array_equal(first.geoms, second.geoms)
    np.testing.assert_array_equal(first.phi, second.phi)
    np.testing.assert_array_equal(a.q.numpy(), b.q.numpy())
    np.testing.assert_array_equal(a.v.numpy(), b.v.numpy())


def test_more_candidates_than_32_bits_number_are_refused(monkeypatch):
    """Flat indices `w * capacity` of the lists, twice as long for sorting: at the limit, one beyond, and by a simulator."""
    capacity = 32 * 800
    most = (2**31 - 1) // (2 * capacity)
    broadphase.check_indices(most, 800, capacity)
    with pytest.raises(
        ValueError, match=rf"worlds is {most + 1}.*25600 candidate pairs each \(800 geoms\).*at most {most}$"
    ):
        broadphase.check_indices(most + 1, 800, capacity)
    with pytest.raises(ValueError, match=r"65537 geoms.*at most 65536 geoms"):
        broadphase.check_indices(1, 65537, 1)
    monkeypatch.setattr(collision, "LARGEST_LIST", 0)
    monkeypatch.setattr(broadphase, "CANDIDATES_PER_GEOM", 2**27)
    with pytest.raises(ValueError, match=r"worlds is 5: with .* candidate pairs each .* may have at most 1$"):
        ws.Simulator(pile(4, 0), worlds=5, device="cpu")


def crowd() -> ws.Model:
    """Two ants, one on the other, between free bodies: contacts within a tree, between trees and with the world."""
    ant = ws.load(ws.robots.path("ant"))
    b = ws.ModelBuilder("crowd", timestep=0.005)
    b.add_model(ant, prefix="low/")
    b.add_model(ant, [0.1, 0.2, 0.5, 0.0, 0.1, 0.0, 1.0], prefix="high/")
    for i in range(6):
        body = b.add_body(pose=[*(0.6 * np.array([np.cos(i), np.sin(i)])), 0.3 + 0.1 * i, 0, 0, 0, 1])
        b.add_joint(body, "free")
        b.add_geom("box", [0.1, 0.15, 0.2], body=body)
    return b.build()


def run_of(largest: int, solver, monkeypatch) -> tuple[ws.Simulator, list[np.ndarray]]:
    """Motion, contacts, Jacobians of a step and gradients of a rollout, with pairs from the list or the grid."""
    monkeypatch.setattr(collision, "LARGEST_LIST", largest)
    model = crowd()
    sim = ws.Simulator(
        model, worlds=2, dtype="float64", device="cpu", solver=solver, requires_grad=True, max_contacts=90
    )
    state = sim.state(v=0.3 * np.random.default_rng(0).normal(size=(2, model.nv)))
    state = sim.rollout(state, steps=60).final
    found = [state.q.numpy(), state.v.numpy(), sim.last_contacts.geoms]
    if solver.has_closed_form:
        closed = sim.linearize(state, parameters=("geom_friction", "body_mass"))
        found += [closed.A.numpy(), *(closed.parameters[name].numpy() for name in ("geom_friction", "body_mass"))]
    sim.parameters["geom_friction"].grad.zero_()
    with wp.Tape() as tape:
        end = sim.rollout(state, steps=3).final
    tape.backward(grads={end.v: wp.array(np.ones((2, model.nv)), dtype=wp.float64, device="cpu")})
    return sim, [*found, end.v.numpy(), state.q.grad.numpy(), sim.parameters["geom_friction"].grad.numpy()]


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(ws.SAP(), id="lagged"),
        pytest.param(ws.SAP(approximation="convex"), id="convex", marks=pytest.mark.slow),
        pytest.param(ws.LCP(), id="LCP", marks=pytest.mark.slow),
        pytest.param(ws.Compliant(), id="Compliant", marks=pytest.mark.slow),
    ],
)
def test_supports_listed_by_contact_are_those_of_the_pairs(monkeypatch, solver):
    """Where pairs are many, contacts list the degrees of freedom that they move, instead of a table of all pairs: the same bits."""
    sim, by_pair = run_of(10**9, solver, monkeypatch)
    assert len(sim._step.collision.scene.support) == len(sim.model.pair_geom) > 2 * 90
    sim, by_contact = run_of(0, solver, monkeypatch)
    assert len(sim._step.collision.scene.support) == 2 * 90
    assert collision.widest_support(sim.model) == sim._step.collision.max_support == 8 + 8
    for expected, found in zip(by_pair, by_contact, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.abs(by_contact[-1]).max() > 0


def test_widest_support_and_order_of_the_table(assets):
    """Of robots with self-contacts, a chain, and several trees, with the world among the pairs."""
    models = [ws.load(assets(name)) for name in ("humanoid", "ant")] + [crowd(), pile(6, 0)]
    for model in models:
        table, _, sizes = collision.pair_supports(model, collision.geom_links(model)[model.pair_geom])
        low, high = model.pair_geom.min(axis=1).astype(int), model.pair_geom.max(axis=1)
        assert (np.diff(low * model.ngeom + high) > 0).all()  # what the grid looks for a pair by
        assert collision.widest_support(model) == table.shape[1] == sizes.max()
