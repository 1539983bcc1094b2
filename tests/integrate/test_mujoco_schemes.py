# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's integrators, without contact: the steps of MuJoCo, from the same states with the same controls."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from benchmarks.corpus.starts import place, random_states, state_of

SCENE = """
<mujoco>
  <option timestep="0.004" density="20" viscosity="0.3" wind="0.3 0 0"><flag constraint="disable"/></option>
  <default><geom contype="0" conaffinity="0"/><joint damping="0.1"/></default>
  <worldbody>
    <site name="s0" pos="0 0.3 0.6"/>
    <body name="trunk" pos="0 0 1" gravcomp="0.4"><freejoint/><geom type="box" size="0.1 0.07 0.05"/><site name="s1" pos="0.1 0 0"/>
      <body pos="0.15 0 0"><joint name="j1" axis="0 1 0.2" stiffness="3" springref="0.2"/><geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0"/>
        <body pos="0.2 0 0"><joint name="j2" axis="1 0 0.4" armature="0.01"/><geom type="capsule" size="0.02" fromto="0 0 0 0.1 0.1 0" fluidshape="ellipsoid"/>
          <site name="s2" pos="0.1 0.1 0"/></body>
        <body pos="0.1 0 -0.1"><joint name="j3" type="slide" axis="0 0.2 1"/><geom size="0.05"/><site name="s3"/></body>
        <body pos="0.1 0.1 0"><joint name="j5" actuatorfrcrange="-0.5 0.4" axis="0 1 1"/><geom type="box" size="0.05 0.02 0.03"/></body></body>
      <body pos="-0.15 0 0"><joint name="j4" type="ball" stiffness="2"/><geom type="capsule" size="0.03" fromto="0 0 0 -0.2 0 0"/></body>
    </body>
    <body pos="1 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.05" pos="0.03 0.05 0"/></body>
  </worldbody>
  <tendon>
    <fixed name="t1" stiffness="5" damping="0.3" springlength="-0.1 0.05"><joint joint="j1" coef="0.7"/><joint joint="j2" coef="-0.4"/><joint joint="j3" coef="1"/></fixed>
    <spatial name="t2" stiffness="20" damping="0.5"><site site="s0"/><site site="s1"/><site site="s2"/></spatial>
    <fixed name="t3"><joint joint="j2" coef="1"/><joint joint="j3" coef="2"/></fixed>
    <spatial name="t4"><site site="s1"/><site site="s3"/></spatial>
  </tendon>
  <actuator>
    <position joint="j1" kp="8" kv="0.6" forcerange="-1.5 1.5"/>
    <velocity joint="j2" kv="0.8"/>
    <general tendon="t1" gaintype="affine" gainprm="2 0.3 -0.1" biastype="affine" biasprm="0.1 -1 -0.4" ctrlrange="-1 1"/>
    <motor joint="j4" gear="0.3 0.1 -0.2"/>
    <position tendon="t2" kp="30" kv="2" forcerange="-4 4"/>
    <general site="s2" gear="0.5 0 1 0 0.1 0"/>
    <position site="s2" refsite="s3" gear="0 0 0 0.05 0 0.1" kp="0.5" kv="0.02" ctrlrange="-3 3"/>
    <general joint="j3" dyntype="filterexact" dynprm="0.02" gainprm="1.5" gear="2" actearly="true"/>
    <general tendon="t3" dyntype="integrator" gainprm="3" biastype="affine" biasprm="0 -2 -0.5" actlimited="true" actrange="-0.2 0.2"/>
    <muscle tendon="t4" lengthrange="0.1 0.5" force="6"/>
    <position joint="j5" kp="4" kv="0.3"/>
    <position joint="j5" kp="2" kv="0.4" forcerange="-0.4 0.3"/>
    <muscle joint="j2" lengthrange="-1 1" force="1"/>
  </actuator>
</mujoco>
"""
WORLDS, STEPS = 6, 50
SCHEMES = {"Euler": ws.MuJoCoEuler(), "implicitfast": ws.MuJoCoImplicitFast(), "RK4": ws.MuJoCoRK4()}


def scene(name: str) -> mujoco.MjModel:
    m = mujoco.MjModel.from_xml_string(SCENE)
    m.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{name.upper()}")
    return m


def starts(m: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Half of the worlds move fast, with controls beyond their ranges."""
    states = random_states(m, WORLDS)
    states["v"][WORLDS // 2 :] *= 5.0
    states["control"][WORLDS // 2 :] *= 2.0
    return states


def simulator(m: mujoco.MjModel, integrator, **options) -> ws.Simulator:
    return ws.Simulator(
        ws.load(m), WORLDS, dtype="float64", device="cpu", solver=ws.NoContact(), integrator=integrator, **options
    )


def error(found: np.ndarray, datas, name: str) -> float:
    expected = np.array([getattr(d, name) for d in datas])
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", SCHEMES)
def test_steps_are_mujocos(within, name):
    """Actuators with feedback, muscles, activations, tendons, a medium, ball and free joints: q, v and activations."""
    m = scene(name)
    states, datas = starts(m), [mujoco.MjData(m) for _ in range(WORLDS)]
    sim = simulator(m, SCHEMES[name])
    state = state_of(sim, states)
    for k, d in enumerate(datas):
        place(d, states, k)
    for n in range(STEPS):
        state = sim.step(state, states["control"])
        for d in datas:
            mujoco.mj_step(m, d)
        if n in (0, STEPS - 1):
            bar = 1e-12 if n == 0 else 1e-9
            within(f"q after step {n + 1}", error(state.q.numpy(), datas, "qpos"), bar)
            within(f"v after step {n + 1}", error(state.v.numpy(), datas, "qvel"), bar)
            within(f"activation after step {n + 1}", error(state.activation.numpy(), datas, "act"), bar)
    assert (sim.diagnostics.flags.numpy() == 0).all()


@pytest.mark.parametrize("name", SCHEMES)
def test_sensors_read_the_forward_dynamics(within, name):
    """Accelerations are qacc; forces in bodies have the tensions of tendons with springs and feedback in them."""
    sensors = '<sensor><accelerometer site="s2"/><force site="s1"/><torque site="s2"/><force site="s3"/></sensor>'
    m = mujoco.MjModel.from_xml_string(SCENE.replace("</mujoco>", sensors + "</mujoco>"))
    states, datas = starts(m), [mujoco.MjData(m) for _ in range(WORLDS)]
    sim = simulator(m, SCHEMES[name], reactions=True)
    state = sim.step(state_of(sim, states), states["control"])
    for k, d in enumerate(datas):
        place(d, states, k)
        mujoco.mj_forward(m, d)
    within("qacc", error(sim.acceleration(state).numpy(), datas, "qacc"), 1e-11)
    within("sensors", error(sim.sensors(state).numpy(), datas, "sensordata"), 1e-11)


WALL = """
<mujoco>
  <option timestep="0.002" tolerance="1e-15" iterations="300" ls_iterations="200"/>
  <worldbody>
    <geom type="plane" size="3 3 1" euler="0 50 0"/>
    <body name="box" pos="0.08 0 0.105" euler="0 50 0"><freejoint/><geom type="box" size="0.1 0.1 0.06" margin="0.002"/></body>
  </worldbody>
  <actuator><adhesion body="box" ctrlrange="0 1" gain="300"/></actuator>
</mujoco>
"""


@pytest.mark.parametrize("name", SCHEMES)
def test_adhesion_holds_a_box_on_a_wall(within, name):
    """The pull at the contacts acts in the solve, and once: the end of the step leaves it as it is."""
    m = mujoco.MjModel.from_xml_string(WALL)
    d, sim = (
        mujoco.MjData(m),
        ws.Simulator(
            ws.load(m), dtype="float64", device="cpu", solver=ws.MuJoCo(tolerance=1e-14), integrator=SCHEMES[name]
        ),
    )
    m.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{name.upper()}")
    state, control, worst = sim.state(), np.full((1, 1), 0.7), 0.0
    d.ctrl[:] = 0.7
    for _ in range(120):
        mujoco.mj_step(m, d)
        state = sim.step(state, control)
        worst = max(worst, np.abs(state.v.numpy()[0] - d.qvel).max())
    assert d.ncon == 4 and np.abs(d.qvel).max() < 0.05
    within("v", worst, 1e-9)


@pytest.mark.parametrize("angle", [3.0, 3.3, 6.4, 10.0])
def test_runge_kutta_of_a_body_that_turns_by_more_than_half_a_turn(within, angle):
    """A stage's rotation counts as the shortest one, as MuJoCo's does."""
    m = mujoco.MjModel.from_xml_string("""<mujoco><option timestep="0.01" integrator="RK4"/><worldbody><body>
        <freejoint/><geom type="box" size="0.1 0.2 0.05"/></body></worldbody></mujoco>""")
    d, v = mujoco.MjData(m), np.zeros(6)
    v[3:] = np.array([2.0, -1.0, 2.0]) / 3.0 * angle / m.opt.timestep
    d.qvel[:] = v
    mujoco.mj_step(m, d)
    sim = ws.Simulator(ws.load(m), dtype="float64", device="cpu", solver=ws.MuJoCo())
    found = sim.step(sim.state(v=v[None])).q.numpy()[0]
    within("q", np.abs(found - d.qpos).max(), 1e-10)


def test_eulerdamp_off(within):
    """Without implicit damping the new velocity is v0 + h qacc."""
    m = scene("Euler")
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    states, datas = starts(m), [mujoco.MjData(m) for _ in range(WORLDS)]
    sim = simulator(m, ws.MuJoCoEuler())  # as the file says
    state = sim.step(state_of(sim, states), states["control"])
    told = simulator(scene("Euler"), ws.MuJoCoEuler(eulerdamp=False))
    assert (told.step(state_of(told, states), states["control"]).v.numpy() == state.v.numpy()).all()
    for k, d in enumerate(datas):
        place(d, states, k)
        mujoco.mj_step(m, d)
    within("v", error(state.v.numpy(), datas, "qvel"), 1e-12)
    within("q", error(state.q.numpy(), datas, "qpos"), 1e-12)


def test_refusals():
    """The schemes go with MuJoCo's law alone, and say so."""
    model = ws.load(scene("Euler"))
    with pytest.raises(ValueError, match=r"MuJoCoEuler\(\) goes with MuJoCo's contact law.*ws.NoContact\(\)"):
        ws.Simulator(model, device="cpu", integrator=ws.MuJoCoEuler(), solver=ws.SAP())
    with pytest.raises(ValueError, match=r"MuJoCoRK4\(\) has no gradients; use ws.MuJoCoEuler"):
        simulator(scene("RK4"), ws.MuJoCoRK4(), requires_grad=True)
    with pytest.raises(ValueError, match="eulerdamp"):
        ws.MuJoCoEuler(eulerdamp=1)
