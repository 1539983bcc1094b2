# SPDX-License-Identifier: Apache-2.0
"""Contact by pressure fields where it is easily broken: margins, capacity, and shapes and places at their limits."""

import numpy as np
import pytest

import warpsim as ws


def bodies(*geoms, ground=None, gravity=-9.81, mu=0.5, tau=0.02) -> ws.Model:
    """Free bodies of 1 kg, each (shape, size, options of Hydroelastic), over a ground that is a plane, rigid by default."""
    b = ws.ModelBuilder("bodies", gravity=(0, 0, gravity))
    options = {"friction": mu, "dissipation_time": tau}
    for k, (kind, size, given) in enumerate(geoms):
        body = b.add_body(f"body {k}", mass=1.0, inertia=np.eye(3) * 1e-3)
        b.add_joint(body, "free")
        b.add_geom(kind, size, body=body, name=f"geom {k}", hydroelastic=ws.Hydroelastic(**given), **options)
    b.add_geom("plane", name="ground", hydroelastic=ws.Hydroelastic(**(ground or {"modulus": np.inf})), **options)
    return b.build()


LEVELS = ["polygons", "patch16", "patch5", "patch4"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_margin_does_not_pull(level):
    """A box with a margin comes to rest as high as without: what is seen ahead, at negative pressure, is no part of its weight's support."""
    box = ("box", (0.05, 0.05, 0.05), {"modulus": 1e6, "margin": 0.01})
    sim = ws.Simulator(bodies(box), dt=0.005, dtype="float64", hydroelastic=level)
    state = sim.state([0, 0, 0.06, 1, 0, 0, 0])
    for _ in range(200):
        sim.step(state, out=state)
    depth = 9.81 / (1e6 / 0.05 * 0.01)
    assert abs(state.q.numpy()[0, 2] - (0.05 - depth)) < 2e-6
    assert np.abs(state.v.numpy()).max() < 1e-6
    for (patch,) in (sim.contact_patches(), sim.contact_patches(state=state)):
        np.testing.assert_allclose(patch.elastic_force[2], 9.81, rtol=1e-3)
        np.testing.assert_allclose(patch.area, 0.01, rtol=0.01)
        assert min(p.min() for p in patch.pressure) > -1e-6


def test_a_heap_has_room_for_its_polygons():
    """20 soft boxes and spheres: all touch what they touch, where the polygons of one pair of bodies would not do; room grows with bodies, not pairs."""
    soft = {"modulus": 1e5}
    heap = [("box", (0.05, 0.05, 0.05), soft), ("sphere", (0.05,), soft)] * 10
    model = bodies(*heap)
    sim = ws.Simulator(model, dt=0.005, hydroelastic="patch5")
    q = np.array(model.q0).reshape(20, 7)
    k = np.arange(20)
    q[:, 0], q[:, 1], q[:, 2] = 0.095 * (k % 2), 0.095 * (k // 2 % 2), 0.06 + 0.1 * (k // 4)
    state, flags, most = sim.state(q.ravel()), 0, 0
    for _ in range(60):
        sim.step(state, out=state)
        flags |= int(sim.diagnostics.flags.numpy()[0])
        most = max(most, int(sim.diagnostics.polygons.numpy()[0]))
    assert most > 300
    assert not flags & ws.CONTACT_OVERFLOW
    assert state.q.numpy().reshape(20, 7)[:, 2].min() > 0.03
    assert sim.max_contacts < 20 * 100


def test_boxes_deep_in_each_other_have_room_for_their_polygons():
    """Of two boxes 24 polygons are possible while neither's middle is near, twice the 6 cells of both, not of one."""
    soft = {"modulus": 1e5}
    model = bodies(("box", (0.05, 0.06, 0.04), soft), ("box", (0.05, 0.06, 0.04), soft), gravity=0.0)
    rng = np.random.default_rng(0)
    q = rng.normal(size=(256, 14))
    q[:, :3] = [0, 0, 5]
    away = q[:, 7:10] / np.linalg.norm(q[:, 7:10], axis=1)[:, None]
    q[:, 7:10] = q[:, :3] + away * rng.uniform(0.05, 0.1, (256, 1))
    sim = ws.Simulator(model, 256, dt=1e-6, hydroelastic="patch5")
    sim.step(sim.state(q))
    assert sim.diagnostics.polygons.numpy().max() > 12
    assert not (sim.diagnostics.flags.numpy() & ws.CONTACT_OVERFLOW).any()


def test_there_are_no_patches_before_a_step():
    """A ball on a plane, whose patch has a closed form, and a box: none before the first step, both at a state."""
    soft = {"modulus": 1e5}
    sim = ws.Simulator(bodies(("sphere", (0.05,), soft), ("box", (0.05, 0.05, 0.05), soft)), hydroelastic="patch5")
    state = sim.state([0, 0, 0.049, 1, 0, 0, 0, 1, 0, 0.049, 1, 0, 0, 0])
    assert sim.contact_patches() == []
    assert len(sim.contact_patches(state=state)) == 2
    sim.step(state)
    assert len(sim.contact_patches()) == 2


def test_more_polygons_than_can_be_counted_are_refused():
    with pytest.raises(ValueError, match=r"max_polygons is 1000000000000; give at most \d+, or None"):
        ws.Simulator(bodies(("box", (0.05, 0.05, 0.05), {"modulus": 1e5})), max_polygons=10**12)


@pytest.mark.parametrize("level", ["polygons", "patch5"])
def test_a_field_beyond_its_mesh_is_met(level):
    """The tetrahedra of a pad may reach further than the mesh that shows it: a ball touches them there as well."""
    b = ws.ModelBuilder("pad", gravity=(0, 0, 0))
    corners = 0.3 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) - 0.07
    vertices = np.vstack([corners, corners.mean(0)])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    tetrahedra = np.column_stack([faces[:, ::-1], np.full(4, 4)])
    field = (vertices, tetrahedra, np.array([0, 0, 0, 0, 1.0]))
    mesh = (0.1 * corners, faces)
    b.add_geom("mesh", name="pad", mesh=mesh, hydroelastic=ws.Hydroelastic(1e5, field=field))
    body = b.add_body("ball", mass=1.0, inertia=np.eye(3) * 1e-3)
    b.add_joint(body, "free")
    b.add_geom("sphere", (0.02,), body=body, name="ball", hydroelastic=ws.Hydroelastic(np.inf, resolution=0.02))
    sim = ws.Simulator(b.build(), dtype="float64", hydroelastic=level)
    state = sim.state([-0.04, -0.04, 0.15, 1, 0, 0, 0])
    (patch,) = sim.contact_patches(state=state)
    assert np.linalg.norm(patch.elastic_force) > 1.0
    sim.step(state)
    assert len(sim.contact_patches()) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_a_box_that_just_touches_is_finite(level):
    """Boxes laid on a soft plane where float32 rounds to a depth of less than 1e-9 m: slivers of their sides are all that meets."""
    soft = {"modulus": 1e5}
    model = bodies(("box", (0.05, 0.05, 0.05), soft), ground=soft | {"thickness": 0.05})
    rng = np.random.default_rng(0)
    q = np.zeros((512, 7))
    q[:, :2], q[:, 2], q[:, 3] = rng.uniform(-0.5, 0.5, (512, 2)), 0.05, 1.0
    q[256:, 4:] = rng.uniform(-1e-7, 1e-7, (256, 3))
    sim = ws.Simulator(model, 512, dt=0.005, hydroelastic=level)
    state, flags = sim.state(q), 0
    for _ in range(3):
        sim.step(state, out=state)
        flags |= sim.diagnostics.flags.numpy()
        contacts = sim.last_contacts
        used = np.arange(contacts.phi.shape[1]) < contacts.count[:, None]
        arms = contacts.point - state.q.numpy()[:, None, :3]
        assert np.abs(arms[used]).max(initial=0.0) < 0.1
    assert not flags.any()
