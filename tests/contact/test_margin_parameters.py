# SPDX-License-Identifier: Apache-2.0
"""Margins of single worlds under MuJoCo's law: accelerations of MuJoCo itself, gradients, and what is refused."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

SCENE = """
<mujoco><option timestep="0.004" solver="Newton" tolerance="1e-15" ls_tolerance="1e-8" iterations="300" ls_iterations="200"/>
<worldbody>
  <geom name="floor" type="plane" size="5 5 .1" margin="{0}"/>
  <body pos="0 0 .102"><freejoint/><geom type="sphere" size=".1" margin="{1}"/></body>
  <body pos=".5 .5 .105"><freejoint/><geom name="box" type="box" size=".1 .1 .1" margin="{2}"/></body>
  <body pos="1.2 0 .11"><freejoint/><geom type="cylinder" size=".1 .1" margin="{3}"/></body>
  <body pos="0 0 .31"><freejoint/><geom type="sphere" size=".1" margin="{4}"/></body>
</worldbody>
<contact><pair geom1="floor" geom2="box" margin="{5}"/></contact></mujoco>"""
WORLDS = 4
RNG = np.random.default_rng(1)
GEOMS = 0.02 * np.abs(RNG.normal(size=(WORLDS, 5)))
GEOMS[2, 0], GEOMS[3] = -0.001, 0.0  # a negative margin, and none
PAIRS = np.array([[0.02], [0.0065], [0.0], [0.03]])
PLAIN = mujoco.MjModel.from_xml_string(SCENE.format(*[0] * 6))
Q, V = np.tile(PLAIN.qpos0, (WORLDS, 1)), 0.2 * RNG.normal(size=(WORLDS, PLAIN.nv))


def simulator(dtype="float64", **options):
    solver = ws.MuJoCo(tolerance=1e-12) if dtype == "float64" else ws.MuJoCo()
    return ws.Simulator(
        ws.load(PLAIN), worlds=WORLDS, dtype=dtype, device="cpu", solver=solver, max_contacts=40, **options
    )


@pytest.mark.parametrize(("dtype", "bar"), [("float64", 1e-10), ("float32", 1e-5)])
def test_accelerations_are_those_of_mujoco(dtype, bar):
    """Worlds with margins of their own, assigned after a step without, beside one model of MuJoCo each."""
    expected = []
    for w in range(WORLDS):
        peer = mujoco.MjModel.from_xml_string(SCENE.format(*map(repr, [*GEOMS[w].tolist(), *PAIRS[w].tolist()])))
        data = mujoco.MjData(peer)
        data.qpos[:], data.qvel[:] = Q[w], V[w]
        mujoco.mj_forward(peer, data)
        expected.append(data.qacc.copy())
    sim = simulator(dtype)
    before = sim.step(sim.state(q=Q, v=V)).v.numpy()
    sim.parameters["geom_margin"], sim.parameters["pair_margin"] = GEOMS, PAIRS
    found = (sim.step(sim.state(q=Q, v=V)).v.numpy() - V) / sim.dt
    assert np.abs(found - expected).max() < bar * np.abs(expected).max()
    sim.parameters["geom_margin"], sim.parameters["pair_margin"] = np.zeros(5), np.zeros(1)
    np.testing.assert_array_equal(sim.step(sim.state(q=Q, v=V)).v.numpy(), before)


def test_gradients_are_those_of_the_step():
    """Two steps against central differences by every margin."""
    sim, weight = simulator(requires_grad=True), np.random.default_rng(2).normal(size=PLAIN.nv)
    values = {"geom_margin": GEOMS, "pair_margin": PAIRS}
    for name, x in values.items():
        sim.parameters[name] = x

    def run():
        return sim.step(sim.step(sim.state(q=Q, v=V)))

    with wp.Tape() as tape:
        end = run()
    end.v.grad.assign(np.tile(weight, (WORLDS, 1)))
    tape.backward()
    by = {name: sim.parameters[name].grad.numpy().copy() for name in values}
    for name, x in values.items():
        expected = np.zeros_like(x)
        for k in range(x.shape[1]):
            for sign in (1, -1):
                sim.parameters[name] = x + sign * 1e-7 * np.eye(x.shape[1])[k]
                expected[:, k] += sign * (run().v.numpy() @ weight) / 2e-7
        sim.parameters[name] = x
        assert np.abs(by[name] - expected).max() < 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize("grid", [False, True])
def test_pairs_are_seen_from_afar(grid, monkeypatch):
    """Bounds of geoms grow with an assigned margin, also in the broad phase's grid."""
    if grid:
        monkeypatch.setattr("warpsim.contact.collision.LARGEST_LIST", 0)
    b = ws.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for x in range(6):
        for z in (0.0, 0.5):
            body = b.add_body(pose=(3.0 * x, 0.0, z, 0.0, 0.0, 0.0, 1.0))
            b.add_joint(body, "free")
            b.add_geom("sphere", [0.1], body=body)
    sim = ws.Simulator(b.build(), worlds=2, dtype="float64", device="cpu", solver=ws.MuJoCo())
    sim.step(sim.state())
    sim.parameters["geom_margin"] = np.array([[0.0], [0.16]]) * np.ones(12)
    sim.step(sim.state())
    assert sim.last_contacts.count.tolist() == [0, 6]


def test_what_has_no_effect_is_refused():
    with pytest.raises(ValueError, match=r"geom_margin.*ws.MuJoCo"):
        ws.Simulator(ws.load(PLAIN), device="cpu").parameters["geom_margin"]
    with pytest.raises(ValueError, match=r"pair_margin.*explicit pairs"):
        ws.Simulator(ws.load(ws.robots.path("ant")), device="cpu", solver=ws.MuJoCo()).parameters["pair_margin"]
