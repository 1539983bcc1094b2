# SPDX-License-Identifier: Apache-2.0
"""Limits, friction loss and equalities under MuJoCo's law: MuJoCo's own accelerations and rows, and gradients."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws

SCENE = """
<mujoco>
  <option timestep="0.003" tolerance="1e-15" iterations="300" ls_iterations="200" ls_tolerance="1e-8">
    <flag contact="disable" {flag}/>
  </option>
  <worldbody>
    <body name="a" pos="0 0 1">
      <joint name="a1" axis="0 1 0" range="-20 20" limited="true" margin="0.1" frictionloss="0.7"
             solreflimit="0.03 0.8" solimplimit="0.8 0.93 0.3 0.4 3" solreffriction="0.05 1.2"
             solimpfriction="0.7 0.8 0.01 0.5 2"/>
      <geom type="capsule" size=".03" fromto="0 0 0 0.3 0 0"/>
      <site name="sa" pos="0.1 0 0.05"/>
      <body name="b" pos="0.3 0 0">
        <joint name="b1" type="ball" range="0 30" limited="true" margin="0.02" frictionloss="0.2" armature="0.01"/>
        <geom type="capsule" size=".03" fromto="0 0 0 0.25 0.1 0"/>
        <site name="sb" pos="0.2 0 0.05"/>
        <body name="c" pos="0.25 0.1 0">
          <joint name="c1" type="slide" axis="1 0 1" range="-0.1 0.1" limited="true" solreflimit="-300 -20"/>
          <geom type="box" size=".05 .04 .03"/>
          <site name="sc" pos="0 0.05 0" euler="20 30 40"/>
        </body>
      </body>
      <body name="d" pos="0.15 0.1 0">
        <joint name="d1" axis="1 0 0.3" frictionloss="100"/><geom type="box" size=".05 .08 .03"/>
      </body>
    </body>
    <body name="f" pos="1 0 1"><freejoint/>
      <geom type="box" size=".1 .05 .03"/>
      <site name="sf" pos="0 0.05 0.02" euler="10 -30 70"/>
      <body name="g" pos="0.2 0 0"><joint name="g1"/><geom type="sphere" size=".06" pos="0.1 0 0"/></body>
    </body>
    <body name="h" pos="0 1 1">
      <joint name="h1" type="slide" frictionloss="1.5"/><joint name="h2" axis="0 1 0"/>
      <geom type="box" size=".1 .05 .03"/>
    </body>
    <body name="m" mocap="true" pos="1.1 0.1 1.2"/>
  </worldbody>
  <tendon>
    <fixed name="t1" limited="true" range="-0.1 0.1" margin="0.01" frictionloss="0.4" solreflimit="0.04 1.1">
      <joint joint="a1" coef="1"/><joint joint="d1" coef="-0.5"/>
    </fixed>
    <fixed name="t2" frictionloss="500"><joint joint="h1" coef="2"/></fixed>
    <spatial name="s1" limited="true" range="0.1 0.2" frictionloss="0.3" solimpfriction="0.6 0.9 0.01 0.5 2">
      <site site="sa"/><site site="sb"/>
    </spatial>
    <spatial name="s2"><site site="sc"/><site site="sf"/></spatial>
  </tendon>
  <equality>{equality}</equality>
  <sensor><force site="sc"/><torque site="sc"/><force site="sf"/></sensor>
</mujoco>
"""
# Several are far from met. Bodies c, d and a share a tree; f and g, and h, are others.
EQUALITIES = {
    "none": "",
    "connect": """
      <connect body1="c" body2="d" anchor="0.1 0.02 0.03" solref="-2000 -30"/><connect site1="sb" site2="sf"/>
      <connect body1="h" anchor="0 0 0.1" solimp="0.7 0.95 0.1 0.3 4"/>""",
    "weld": """
      <weld body1="c" body2="g" torquescale="0.4" anchor="0.1 0.05 0" relpose="0.1 0.2 0.1 0.9 0.1 0.2 -0.3"
            solimp="0.7 0.95 0.5 0.3 4"/>
      <weld body1="m" body2="f" torquescale="2"/><weld site1="sc" site2="sa"/>
      <weld body1="h" active="false"/>""",
    "couplings": """
      <joint joint1="a1" joint2="d1" polycoef="0.1 0.5 -0.3 0.2 0.7"/><joint joint1="h2" polycoef="0.2"/>
      <tendon tendon1="t1" tendon2="t2" polycoef="0.1 0.5 -0.3 0.2 0.7" solref="0.1 0.7"/>
      <tendon tendon1="s2" tendon2="t2" polycoef="0.3 -0.5 0.2"/>""",
}
WORLDS = 4
SOLVER = ws.MuJoCo(tolerance=1e-13)


def scene(equality="none", flag=""):
    """MuJoCo's model, ours, and random states."""
    peer = mujoco.MjModel.from_xml_string(SCENE.format(equality=EQUALITIES[equality], flag=flag))
    rng = np.random.default_rng(3)
    q, v = np.tile(peer.qpos0, (WORLDS, 1)), rng.normal(size=(WORLDS, peer.nv))
    for q_w in q:
        mujoco.mj_integratePos(peer, q_w, 0.4 * rng.normal(size=peer.nv), 1.0)
    return peer, ws.load(peer), q, v


def simulator(model, **options):
    options = {"solver": SOLVER, "integrator": ws.MuJoCoEuler(), "dtype": "float64"} | options
    return ws.Simulator(model, worlds=WORLDS, device="cpu", **options)


def at(peer, q, v):
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(peer, data)
    return data


@pytest.mark.parametrize("flag", ["", 'refsafe="disable"'])
@pytest.mark.parametrize("equality", EQUALITIES)
def test_accelerations_and_forces_are_those_of_mujoco(equality, flag):
    """v − v0 = h qacc, R = `efc_R`, v̂ = `efc_vel` + h `efc_aref`, γ = h `efc_force`; force sensors alike."""
    peer, model, q, v = scene(equality, flag)
    sim = simulator(model)
    after = sim.step(sim.state(q=q, v=v))
    assert not sim.diagnostics.flags.numpy().any()
    found, readings = (after.v.numpy() - v) / sim.dt, sim.sensors(after).numpy()
    rows, gamma = sim._step.scalar_rows, sim._step.solver.solution.row_gamma.numpy() / sim.dt
    R, v_hat = rows.rows.R.numpy(), np.abs(rows.rows.v_hat.numpy())
    for w in range(WORLDS):
        data = at(peer, q[w], v[w])
        scale = max(1.0, np.abs(data.qacc).max())
        assert np.abs(found[w] - data.qacc).max() < 1e-12 * scale
        acts = R[w] > 0
        # rows of a constraint have one R; compared by size of R and the norm of their forces
        theirs = {(r, t == 0) for r, t in zip(data.efc_R, data.efc_type, strict=True)}
        norms = sorted((r, np.linalg.norm(data.efc_force[data.efc_R == r])) for r, _ in theirs)
        ours = sorted((r, np.linalg.norm(gamma[w, acts & (np.abs(R[w] / r - 1) < 1e-11)])) for r, _ in theirs)
        assert acts.sum() == data.nefc
        if equality != "weld":  # whose angles have other axes
            targets = np.abs(data.efc_vel + sim.dt * data.efc_aref)
            np.testing.assert_allclose(np.sort(v_hat[w, acts]), np.sort(targets), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(np.sort(R[w, acts]), np.sort(data.efc_R), rtol=1e-12)
        np.testing.assert_allclose([n for _, n in ours], [n for _, n in norms], rtol=1e-10, atol=1e-10 * scale)
        np.testing.assert_allclose(readings[w], data.sensordata, rtol=1e-10, atol=1e-9 * scale)


def test_float32_follows_mujoco():
    """Accelerations in float32 at rounding, all kinds of rows at once."""
    peer, model, q, v = scene("weld")
    sim = simulator(model, solver=ws.MuJoCo(), dtype="float32")
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    for w in range(WORLDS):
        expected = at(peer, q[w], v[w]).qacc
        assert np.abs(found[w] - expected).max() < 2e-3 * np.abs(expected).max()


def test_parameters_of_worlds_are_their_own():
    """solref, solimp, margin and torquescale of single worlds are those of a model that has them."""
    names = ("joint_solref", "joint_solimp", "joint_margin", "constraint_solref", "constraint_torquescale")
    peer, model, q, v = scene("weld")
    before = at(peer, q[1], v[1]).qacc
    peer.jnt_solref[:, 0], peer.jnt_solimp[:, 1], peer.jnt_margin[:] = 0.07, 0.97, 0.05
    peer.eq_solref[:3, 0], peer.eq_data[:3, 10] = 0.05, 1.5
    other, sim = ws.load(peer), simulator(model)
    for name in names:
        values = sim.parameters[name].numpy().copy()
        values[1] = getattr(other, name)
        sim.parameters[name] = values
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    expected = at(peer, q[1], v[1]).qacc
    assert np.abs(found[1] - expected).max() < 1e-12 * np.abs(expected).max()
    assert np.abs(before - expected).max() > 1e-3 * np.abs(expected).max()


PARAMETERS = (
    *("joint_solref", "joint_solimp", "joint_margin", "joint_friction_solref", "joint_friction_solimp"),
    *("tendon_solref", "tendon_solimp", "tendon_margin", "tendon_friction_solref", "tendon_friction_solimp"),
    *("constraint_solref", "constraint_solimp", "constraint_torquescale", "constraint_coefficients"),
    *("joint_friction", "joint_range", "tendon_friction", "tendon_range"),
)


@pytest.mark.parametrize("equality", EQUALITIES)
def test_gradients_are_those_of_the_step(equality):
    """Two steps against central differences: by q, v and every parameter of the rows."""
    peer, model, q, v = scene(equality, 'refsafe="disable"')
    sim, rng = simulator(model, requires_grad=True), np.random.default_rng(5)
    bars = rng.normal(size=(WORLDS, model.nq)), rng.normal(size=(WORLDS, model.nv))
    given = {name: sim.parameters[name].numpy().copy() for name in PARAMETERS}
    active = np.flatnonzero(model.constraint_active)
    along = {}
    for name, x in given.items():
        along[name] = rng.normal(size=x.shape) * np.where(np.isfinite(x), x, 0.0)
        if name.startswith("constraint"):
            along[name] = along[name] * np.isin(np.arange(model.nconstraint), active).reshape(-1, *[1] * (x.ndim - 2))
    dq, dv = rng.normal(size=(2, WORLDS, model.nv))

    def moved(step):
        found = q.copy()
        for q_w, d in zip(found, dq, strict=True):
            mujoco.mj_integratePos(peer, q_w, d, step)
        return found

    def rolled(q, v):
        state = sim.state(q=q, v=v)
        after = sim.step(sim.step(state))
        return state, after

    def loss(name, step):
        if name in given:
            sim.parameters[name] = given[name] + step * along[name]
        _, after = rolled(moved(step if name == "q" else 0.0), v + step * dv * (name == "v"))
        if name in given:
            sim.parameters[name] = given[name]
        return sum((bar * x.numpy()).sum(1) for bar, x in zip(bars, (after.q, after.v), strict=True))

    with wp.Tape() as tape:
        state, after = rolled(q, v)
    tape.backward(grads={x: wp.array(bar, dtype=wp.float64) for x, bar in zip((after.q, after.v), bars, strict=True)})
    tangent = (moved(1e-6) - moved(-1e-6)) / 2e-6
    slopes = {"q": (state.q.grad.numpy() * tangent).sum(1), "v": (state.v.grad.numpy() * dv).sum(1)}
    for name in given:
        slopes[name] = (sim.parameters[name].grad.numpy() * along[name]).reshape(WORLDS, -1).sum(1)
    for name, found in slopes.items():
        assert found.any() or equality != "none" or name.startswith("constraint")
        differences = [(loss(name, e) - loss(name, -e)) / (2 * e) for e in (1e-4, 1e-5, 1e-6)]
        errors = [np.abs(found - x).max() for x in differences]
        assert min(errors) < 1e-6 * max(1e-2, np.abs(found).max()), (name, errors, found)


@pytest.mark.parametrize("spin", [1.0, -1.0])
def test_a_ball_joint_without_rotation_is_limited_about_x(spin):
    """A margin above the range acts at the angle 0, where the axis is a choice: MuJoCo takes x."""
    peer = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><body>
        <joint type="ball" limited="true" range="0 1" margin="0.1"/><geom type="capsule" size="0.05 0.2" pos="0.2 0 0"/>
        </body></worldbody></mujoco>""")
    q, v = np.tile(peer.qpos0, (WORLDS, 1)), np.tile([spin, 0.5, 0.2], (WORLDS, 1))
    sim = simulator(ws.load(peer))
    found = (sim.step(sim.state(q=q, v=v)).v.numpy() - v) / sim.dt
    np.testing.assert_allclose(found[0], at(peer, q[0], v[0]).qacc, rtol=1e-10)
