# SPDX-License-Identifier: Apache-2.0
"""Margins: contact acts where two geoms are as far apart as the sum of their margins, for every solver, file and broad phase."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.kernels.contact.pair_laws import RECOVERY_ENERGY

EXACT = {
    "lagged": ws.SAP(tolerance=1e-13),
    "convex": ws.SAP(approximation="convex", tolerance=1e-13),
    "lcp": ws.LCP(tolerance=1e-13),
}
SOLVERS = {"lagged": ws.SAP(), "convex": ws.SAP(approximation="convex"), "compliant": ws.Compliant(), "lcp": ws.LCP()}
SHAPES = {"sphere": "0.1", "box": ".1 .1 .1", "cylinder": ".1 .1", "ellipsoid": ".1 .1 .1"}


def on_the_floor(shape: str = "sphere", margins=(0.02, 0.03), pair: str = "", height: float = 0.16) -> mujoco.MjModel:
    """A body that falls by a centimetre, as MuJoCo reads it."""
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 1" margin="{margins[0]}"/>
        <body pos="0 0 {height}"><freejoint/><geom name="body" type="{shape}" size="{SHAPES[shape]}" margin="{margins[1]}" gap="0.01"/></body>
        </worldbody>{pair}</mujoco>"""
    )


def rest(model: ws.Model, device, seconds: float = 1.0, **settings) -> tuple[float, ws.Simulator]:
    """The height of the body in the end."""
    sim = ws.Simulator(model, dtype="float64", device=device, **settings)
    state = sim.state()
    for _ in range(round(seconds / model.timestep)):
        state = sim.step(state)
    return float(state.q.numpy()[0, 2]), sim


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_ball_rests_as_high_as_in_mujoco(device, solver):
    """Margins add, negative ones too, gaps bear nothing; MuJoCo's contact sinks by 0.4 mm, ours by its regularisation."""
    for margins, apart in (((0.02, 0.03), 0.05), ((0.0, 0.01), 0.01), ((-0.02, 0.0), -0.02)):
        m = on_the_floor(margins=margins, height=0.11 + apart)
        data = mujoco.MjData(m)
        mujoco.mj_step(m, data, 1000)
        height, sim = rest(ws.load(m), device, solver=SOLVERS[solver])
        assert height == pytest.approx(0.1 + apart, abs=1e-5)
        assert height == pytest.approx(data.qpos[2], abs=5e-4)
        assert not sim.diagnostics.flags.numpy().any()
        contacts = sim.last_contacts
        assert contacts.phi[0, 0] == pytest.approx(0.0, abs=1e-5)
        np.testing.assert_allclose(contacts.point[0, 0, 2], 0.5 * apart, atol=1e-5)  # midway, as MuJoCo's


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_and_the_pairs_own_margin(device, shape):
    """Simple and general shapes; `<pair margin>` is in the place of the geoms'."""
    height, _ = rest(ws.load(on_the_floor(shape)), device)
    assert height == pytest.approx(0.15, abs=2e-5)
    pair = '<contact><pair geom1="floor" geom2="body" margin="0.04" gap="0.01"/></contact>'
    height, _ = rest(ws.load(on_the_floor(shape, pair=pair)), device)
    assert height == pytest.approx(0.14, abs=2e-5)


def rows_of_balls(margin: float) -> ws.Model:
    """Balls beside each other, 10 mm apart, that rest on a box."""
    b = ws.ModelBuilder("balls", timestep=2e-3)
    b.add_geom("box", [2.0, 2.0, 0.05], pose=[0, 0, -0.05], margin=margin)
    for i in range(12):
        body = b.add_body(f"ball {i}", pose=[0.11 * (i % 4), 0.11 * (i // 4), 0.0499 + 2 * margin])
        b.add_joint(body, "free")
        b.add_geom("sphere", [0.05], body=body, margin=margin)
    return b.build()


def test_the_broad_phase_sees_as_far(device):
    """The grid finds what the list of pairs finds, bit for bit, and both find every ball of which the margins meet."""
    model, paths = rows_of_balls(0.006), []
    for largest in (None, 0):
        with pytest.MonkeyPatch.context() as patch:
            if largest is not None:
                patch.setattr("warpsim.contact.collision.LARGEST_LIST", largest)
            sim = ws.Simulator(model, dtype="float64", device=device)
        assert (sim._step.collision.broadphase is not None) == (largest == 0)
        state = sim.step(sim.state())
        assert len(sim.last_contacts) == 17 + 12  # neighbours in the rows and columns, and the floor
        paths.append(sim.rollout(state, steps=50).q.numpy())
    np.testing.assert_array_equal(*paths)
    assert np.ptp(paths[0][-1, 0].reshape(12, 7)[:, 0]) > 0.335  # pushed apart from 0.33 m


def test_files_and_builders_keep_margins(tmp_path, device):
    """USD, stores and `add_model`; `add_pair` has its own."""
    b = ws.ModelBuilder("two")
    b.add_geom("plane", name="floor", margin=0.001)
    for name in ("a", "b"):
        body = b.add_body(name, pose=[0, 0, 1])
        b.add_joint(body, "free")
        b.add_geom("sphere", [0.1], body=body, name=name, margin=0.002)
    b.add_pair("a", "b", 0.5, margin=0.01)
    model = b.build()
    np.testing.assert_allclose(np.sort(model.pair_margin), [0.003, 0.003, 0.01])
    model.to_usd(tmp_path / "two.usda")
    outer = ws.ModelBuilder("outer")
    outer.add_model(model)
    for again in (ws.load(tmp_path / "two.usda"), outer.build()):
        np.testing.assert_array_equal(again.geom_margin, model.geom_margin)
        np.testing.assert_array_equal(np.sort(again.pair_margin), np.sort(model.pair_margin))
    for bad in ("x", np.nan, np.inf):
        with pytest.raises(ws.ModelError, match="margin"):
            b.add_geom("sphere", [0.1], margin=bad)


def test_pressure_fields_say_that_they_have_none():
    """A pair of pressure fields touches at its surfaces, and the report says so."""
    b = ws.ModelBuilder("soft")
    b.add_geom("plane", hydroelastic=ws.Hydroelastic(modulus=np.inf), margin=0.01)
    b.add_joint(b.add_body("ball"), "free")
    b.add_geom("sphere", [0.1], body="ball", hydroelastic=ws.Hydroelastic(modulus=1e5))
    assert any(line.status == "ignored" and "margin" in line.detail for line in b.build().report)


@pytest.mark.parametrize("solver", EXACT)
def test_gradients_with_margins(device, solver):
    """Of a ball that slides and a box that lands at a distance, by central differences."""
    b = ws.ModelBuilder("margins", timestep=5e-3)
    b.add_geom("plane", margin=0.01)
    for name, shape, size, x in (("ball", "sphere", [0.1], 0.0), ("can", "cylinder", [0.1, 0.1], 1.0)):
        body = b.add_body(name, pose=[x, 0, 0.129])
        b.add_joint(body, "free")
        b.add_geom(shape, size, body=body, margin=0.02, friction=0.3)
    sim = ws.Simulator(b.build(), dtype="float64", device=device, requires_grad=True, solver=EXACT[solver])
    v = np.zeros((1, sim.model.nv))
    v[0, :6], v[0, 6:12] = [0.6, 0.1, -0.2, 0.1, 0.2, 0.3], [0.4, 0, -0.3, 0.1, 0.1, 0]
    found = ws.check_gradients(sim, sim.state(v=v), horizons=(1, 8), parameters=("geom_friction",), entries=3)
    assert found.ok and found.worst() < 1e-5, str(found)


def dead_centre(armature: float) -> ws.Model:
    """A rod on a hinge whose end is 1 mm of lever away from moving along the normal of the post that it overlaps by 20 mm."""
    b = ws.ModelBuilder("dead centre", timestep=2e-3, gravity=[0, 0, 0])
    b.add_geom("sphere", [0.05], pose=[0.08, 0, 0])
    rod = b.add_body("rod", pose=[0, 0.001, 0])
    b.add_joint(rod, "hinge", axis=[0, 0, 1], armature=armature)
    b.add_geom("capsule", [0.01, 0.02], body=rod, pose=[0.02, 0, 0, 0.5**0.5, 0, 0.5**0.5, 0], density=1000)
    return b.build()


@pytest.mark.parametrize("solver", ["lagged", "convex"])
def test_recovery_takes_no_more_energy_than_all_the_mass_at_its_speed(device, solver):
    """Levers of a millimetre: the hinge would turn at 200 rad/s for the end to part at 0.2 m/s. Contact that is not hindered keeps its speed."""
    for armature in (0.0, 1e-3):
        model = dead_centre(armature)
        sim = ws.Simulator(model, dtype="float64", device=device, solver=SOLVERS[solver])
        energy, state = [], sim.state()
        for _ in range(200):
            state = sim.step(state)
            energy.append(float(sim.energy(state)[0].numpy()[0]))
        assert not sim.diagnostics.flags.numpy().any()
        assert 0 < max(energy) <= RECOVERY_ENERGY * 0.5 * model.body_mass.sum() * 0.2**2 * (1 + 1e-6)
