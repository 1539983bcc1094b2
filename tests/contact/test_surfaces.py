# SPDX-License-Identifier: Apache-2.0
"""Surface velocities of geoms: MuJoCo's own, every law seen from the moving surface, gradients, files, bad input (theory §3.9)."""

import dataclasses

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.mujoco_contacts import contact_states
from benchmarks.mujoco_law import CONES, FORCE, QACC, one_step
from warpsim.base.errors import ModelError

# Surfaces of both geoms of a pair move, with condim 1, 3, 4 and 6 and an explicit pair; one geom turns beside its body's axis.
BELTS = """<mujoco><option timestep="0.003" impratio="3"/><worldbody>
<geom name="floor" type="plane" size="5 5 1" friction="0.7 0.01 0.002" solref="0.03 0.8" euler="2 3 0" surfacevel="0.3 -0.2 0.5 0.1 0 1.5"/>
<body pos="0 0 0.099"><freejoint/><geom type="sphere" size="0.1" condim="6" friction="0.9 0.02 0.004" surfacevel="0 0 0 3 1 2"/></body>
<body pos="0.5 0 0.098"><freejoint/><geom type="capsule" size="0.05 0.1" euler="80 20 0" condim="4" surfacevel="0.1 0.2 0.3 0 0 0"/></body>
<body pos="0 0.5 0.05"><joint type="slide" axis="0 0 1"/><joint axis="0 0 1"/>
 <geom name="box" type="box" pos="0.02 0 0" size="0.1 0.07 0.05" surfacevel="1 0 0 0 0 -4"/></body>
<body pos="0.02 0.5 0.148"><freejoint/><geom name="top" type="sphere" size="0.05" condim="3"/></body>
<body pos="-0.5 0.5 0.098"><freejoint/><geom name="own" type="sphere" size="0.1" condim="1"/></body>
</worldbody><contact><pair geom1="floor" geom2="own" condim="6" friction="0.8 0.3 0.01 0.002 0.004" solref="0.05 0.6"
 solreffriction="0.01 1" solimp="0.8 0.9 0.005" margin="0.003"/></contact></mujoco>"""
LAWS = {
    "coulomb": (ws.SAP(tolerance=1e-13), ws.SymplecticEuler()),
    "convex": (ws.SAP(tolerance=1e-13, approximation="convex"), ws.SymplecticEuler()),
    "midpoint": (ws.SAP(tolerance=1e-13), ws.Midpoint()),
    "variational": (ws.SAP(tolerance=1e-13), ws.Variational()),
    "compliant": (ws.Compliant(), ws.SymplecticEuler()),
    "lcp": (ws.LCP(), ws.SymplecticEuler()),
    "pyramids": (ws.MuJoCo(cone="pyramidal", tolerance=1e-13), ws.MuJoCoEuler()),
    "cones": (ws.MuJoCo(cone="elliptic", tolerance=1e-13), ws.MuJoCoImplicitFast()),
}


@pytest.mark.filterwarnings("ignore:.*overlap at its start")
@pytest.mark.parametrize("cone", CONES)
def test_mujocos_steps(cone):
    """Acceleration and forces of steps from states in contact are MuJoCo's."""
    m = mujoco.MjModel.from_xml_string(BELTS)
    row = one_step(m, contact_states(m, 10, seconds=0.3), cone, given=False)
    assert row["compared"] == row["states"] and row["rows"] > 150
    assert row["qacc"] < QACC and row["force"] < FORCE and row["v"] < QACC, row


def boxes(surface=np.zeros(6), **options) -> ws.Model:
    """A box and a ball on a plane whose surface moves; options of the plane."""
    b = ws.ModelBuilder("belt")
    b.add_geom("plane", name="belt", friction=0.4, surfacevel=surface, **options)
    inertia = np.eye(3) * 0.01
    b.add_body("box", mass=1.0, inertia=inertia, pose=[0, 0, 0.0999, 0, 0, 0, 1])
    b.add_joint("box", "free")
    b.add_geom("box", [0.2, 0.15, 0.1], body="box", friction=0.6)
    b.add_body("ball", mass=1.0, inertia=inertia, pose=[2, 0, 0.12, 0, 0, 0, 1])
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", friction=0.5)
    return b.build()


def simulator(model, law, **options) -> ws.Simulator:
    solver, integrator = LAWS[law]
    return ws.Simulator(model, dtype="float64", dt=0.004, solver=solver, integrator=integrator, **options)


@pytest.mark.parametrize("law", LAWS)
def test_a_belt_is_a_plane_seen_from_a_moving_frame(law, within):
    """On a belt with velocity u a body moves as on a plane at rest, with its own velocity less by u, in every law."""
    u, start = np.array([0.7, -0.3, 0.0]), np.zeros(12)
    start[:3] = start[6:9] = 0.3, 0.4, 0.0
    seen = start.copy()
    seen[:3] -= u
    seen[6:9] -= u
    steps, ends = 60, []
    for surface, v in ((np.array([*u, 0, 0, 0]), start), (np.zeros(6), seen)):
        sim = simulator(boxes(surface), law)
        ends.append(sim.rollout(sim.state(sim.model.q0, v), steps=steps).final)
        assert not sim.diagnostics.flags.numpy().any()
    (q, v), (q_seen, v_seen) = ((x.q.numpy()[0].copy(), x.v.numpy()[0].copy()) for x in ends)
    assert np.abs(v[:2] - start[:2]).max() > 0.05  # the belt has pulled
    for first, of_q in ((0, 0), (6, 7)):
        v[first : first + 3] -= u
        q[of_q : of_q + 3] -= steps * 0.004 * u
    of_ball = 1e-4 if law == "variational" else 1e-7  # its free joints couple turning and moving, an error of h²
    within(f"{law}: velocity seen from the belt, box", np.abs(v - v_seen)[:6].max(), 1e-7)
    within(f"{law}: velocity seen from the belt, ball", np.abs(v - v_seen)[6:].max(), of_ball)
    within(f"{law}: pose seen from the belt", np.abs(q - q_seen).max(), of_ball)


OTHERS = {
    "impacts": ({"restitution": 0.7}, {"time_of_impact": True}),
    "rigid impacts": ({"restitution": 0.7}, {"time_of_impact": True, "solver": ws.LCP()}),
    "rebounds": ({"restitution": 0.7}, {"time_of_impact": False, "solver": ws.LCP()}),
    "Stribeck": ({"friction_dynamic": 0.1, "friction_velocity": 0.5}, {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_impacts_and_sliding_friction_see_the_belt(name, within):
    """The same with impacts, and with friction that falls with the sliding speed, which is that of the surface."""
    material, options = OTHERS[name]
    u, ends = np.array([0.7, -0.3, 0.0, 0, 0, 0]), []
    for share in (1.0, 0.0):
        sim = ws.Simulator(boxes(share * u, **material), dtype="float64", dt=0.004, **options)
        v, q = np.zeros(12), sim.model.q0.copy()
        q[9] = 0.15  # the ball falls
        v[6:8] = np.array([0.3, 0.4]) - (1.0 - share) * u[:2]
        v[:2] = (share - 1.0) * u[:2]
        end = sim.rollout(sim.state(q, v), steps=60).final.v.numpy()[0].copy()
        ends.append(end - share * np.array([*u, *u]) * np.tile([1.0, 1, 1, 0, 0, 0], 2))
    assert np.abs(ends[0][6:9]).max() > 0.01
    within(f"{name}: velocity seen from the belt", np.abs(ends[0] - ends[1]).max(), 1e-7)


def without_pair(condim: int = 6) -> ws.Model:
    """`BELTS` without the explicit pair, and with condims up to `condim`."""
    model = ws.load(mujoco.MjModel.from_xml_string(BELTS.split("<contact>")[0] + "</mujoco>"))
    return dataclasses.replace(model, pair_condim=np.minimum(model.pair_condim, condim))


@pytest.mark.filterwarnings("ignore:.*overlap at its start")
@pytest.mark.parametrize("law", LAWS)
def test_gradients(law, within):
    """Gradients by surface velocities, state and friction against differences, at states in contact."""
    model = without_pair(3 if law in ("compliant", "lcp") else 6)
    options = {"solver": LAWS[law][0], "integrator": LAWS[law][1], "requires_grad": True}
    sim = ws.Simulator(model, dtype="float64", **options)
    rest = sim.rollout(sim.state(), steps=40).final
    start = sim.state(rest.q.numpy(), rest.v.numpy())
    names = ["geom_surfacevel", "geom_friction"]
    check = ws.check_gradients(sim, start, horizons=(1, 5), parameters=names, entries=5)
    within(f"{law}: gradients against differences, relative", check.worst(), 1e-5)


def test_a_gradient_through_an_impact(within):
    """A ball that sticks in its impact takes m r²/I/(1 + m r²/I) = ½ of the belt's velocity."""
    options = {"time_of_impact": True, "requires_grad": True, "solver": ws.SAP(tolerance=1e-13)}
    sim = ws.Simulator(boxes([0.7, -0.3, 0, 0, 0, 0], restitution=0.7), dtype="float64", dt=0.004, **options)
    v = np.zeros(12)
    v[8] = -0.5
    check = ws.check_gradients(sim, sim.state(sim.model.q0, v), horizons=(10,), parameters=["geom_surfacevel"])
    within("gradients through an impact against differences, relative", check.worst(), 1e-5)
    parameter = sim.parameters["geom_surfacevel"]
    parameter.grad.zero_()
    with wp.Tape() as tape:
        state = sim.state(sim.model.q0, v)
        for _ in range(10):
            state = sim.step(state)
    seed = np.zeros((1, 12))
    seed[0, 6] = 1.0
    tape.backward(grads={state.v: wp.array(seed, dtype=wp.float64)})
    within("part of the belt's velocity in an impact", np.abs(parameter.grad.numpy()[0, 0, :2] - [0.5, 0]).max(), 1e-3)


def test_worlds_have_their_own_belts(within):
    """`geom_surfacevel` per world, zeros too, as MuJoCo with the same values."""
    m = mujoco.MjModel.from_xml_string(BELTS.replace('size="5 5 1"', 'size="5 5 1" margin="0.05"'))
    m.opt.tolerance = 0
    values = np.random.default_rng(2).normal(size=(3, m.ngeom, 6))
    values[1] = 0
    with pytest.warns(UserWarning, match="overlap"):
        sim = ws.Simulator(
            ws.load(m), 3, dtype="float64", solver=ws.MuJoCo(tolerance=1e-13), integrator=ws.MuJoCoEuler()
        )
    sim.parameters["geom_surfacevel"] = values
    ours = sim.step(sim.state()).v.numpy()
    for w in range(3):
        m.geom_surfacevel[:], m.flg_surfacevel = values[w], 1
        d = mujoco.MjData(m)
        mujoco.mj_step(m, d)
        within(f"world {w}: velocity after a step", np.abs(d.qvel - ours[w]).max(), 1e-9)


def test_files_keep_surface_velocities(tmp_path):
    """MJCF and USD, also of a mesh, whose frame MuJoCo moves to its center of mass."""
    corners = " ".join(str(x) for x in (np.indices((2, 2, 2)).reshape(3, -1).T * [0.3, 0.2, 0.1] + 0.4).ravel())
    xml = BELTS.replace("<worldbody>", f'<asset><mesh name="block" vertex="{corners}"/></asset><worldbody>', 1)
    mesh = (
        '<body pos="2 0 1"><freejoint/><geom type="mesh" mesh="block" surfacevel="0.5 1 2 3 4 5"/></body></worldbody>'
    )
    m = mujoco.MjModel.from_xml_string(xml.replace("</worldbody>", mesh))
    model = ws.load(m)
    np.testing.assert_array_equal(model.geom_surfacevel, m.geom_surfacevel)
    assert any(line.feature == "geom surfacevel" and line.status == "used" for line in model.report)
    model.to_mjcf(tmp_path / "belts.xml")
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "belts.xml"))
    for g in range(m.ngeom):  # the same field in space: axes of a mesh may differ
        fields = []
        for x in (m, again):
            d = mujoco.MjData(x)
            mujoco.mj_kinematics(x, d)
            R, v = d.geom_xmat[g].reshape(3, 3), x.geom_surfacevel[g].reshape(2, 3)
            fields.append([R @ v[0] - np.cross(R @ v[1], d.geom_xpos[g]), R @ v[1]])
        np.testing.assert_allclose(*fields, atol=1e-6)  # meshes are in single precision
    for name in ("belts.xml", "belts.usda"):
        if name.endswith("usda"):
            model.to_usd(tmp_path / name)
        np.testing.assert_allclose(ws.load(tmp_path / name).geom_surfacevel, model.geom_surfacevel, atol=1e-6)


def test_what_is_refused():
    b = ws.ModelBuilder("bad")
    with pytest.raises(ModelError, match="surfacevel is"):
        b.add_geom("plane", surfacevel=[1, 2, 3])
    with pytest.raises(ModelError, match="surfacevel is"):
        b.add_geom("plane", surfacevel=[np.nan] * 6)
    sim = ws.Simulator(boxes(), dtype="float64")
    with pytest.raises(ValueError, match=r"add_geom\(surfacevel=\)"):
        sim.parameters["geom_surfacevel"] = np.ones((3, 6))


def test_a_foundation_moves_with_its_box():
    """The elements of an elastic foundation have the surface velocity of the box's field at their places."""
    b = ws.ModelBuilder("pad")
    b.add_body("pad", pose=[0, 0, 1, 1, 0, 0, 0])
    b.add_joint("pad", "free")
    b.add_geom("box", [0.2, 0.1, 0.1], body="pad", surfacevel=[1, 0, 0, 0, 0, 2])
    for g in b.add_foundation("pad", rows=2, columns=2, modulus=1e5, thickness=0.01):
        x, y = b.geoms[g].pose[:2]
        np.testing.assert_allclose(b.geoms[g].surfacevel, [1 - 2 * y, 2 * x, 0, 0, 0, 2])
