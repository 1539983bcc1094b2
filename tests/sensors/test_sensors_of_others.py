# SPDX-License-Identifier: Apache-2.0
"""Sensors of models with mocap bodies, spatial tendons, spin of contacts, a medium and adhesion, against MuJoCo in float64."""

import mujoco
import numpy as np
import warp as wp

import warpsim as ws

MOCAP = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody>
<body name="hook" mocap="true" pos="0 0 1"><geom size=".05" contype="0" conaffinity="0"/><site name="s" pos="0.1 0.2 0"/>
 <body name="bob" pos=".3 0 0"><joint axis="0 1 0"/><geom size=".06" contype="0" conaffinity="0"/><site name="t" pos="0.1 0 0"/></body></body>
</worldbody><sensor><framepos objtype="xbody" objname="hook"/><framepos objtype="site" objname="s"/><framequat objtype="xbody" objname="hook"/>
<framepos objtype="site" objname="t"/><gyro site="s"/><framelinvel objtype="site" objname="t"/></sensor></mujoco>"""


def loaded(text: str) -> tuple[mujoco.MjModel, mujoco.MjData, ws.Model]:
    m = mujoco.MjModel.from_xml_string(text)
    return m, mujoco.MjData(m), ws.load(m)


def poses(model, worlds: int) -> np.ndarray:
    found = np.tile(model.mocap0, (worlds, 1, 1)) + 0.5 * np.random.default_rng(0).normal(
        size=(worlds, model.nmocap, 7)
    )
    found[..., 3:] /= np.linalg.norm(found[..., 3:], axis=-1, keepdims=True)
    return found


def test_frames_on_mocap_bodies():
    """After steps with different poses, each state is read with its own, whatever was stepped since."""
    m, data, model = loaded(MOCAP)
    sim = ws.Simulator(model, 3, dtype="float64", device="cpu")
    given = poses(model, 3)
    state = sim.step(sim.state(None, np.full((3, 1), 0.3)), mocap=given)
    sim.step(state, mocap=poses(model, 3)[::-1].copy())
    found = sim.sensors(state).numpy()
    for w in range(3):
        data.qpos[:], data.qvel[:] = state.q.numpy()[w], state.v.numpy()[w]
        data.mocap_pos[:], data.mocap_quat[:] = given[w, :, :3], given[w, :, 3:]
        mujoco.mj_forward(m, data)
        np.testing.assert_allclose(found[w], data.sensordata, atol=1e-12)


def test_gradient_by_the_poses_of_mocap_bodies():
    """Of weighted sensors by the poses that a step is given, against central differences along directions tangent to the rotations."""
    _, _, model = loaded(MOCAP)
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True)
    given, rng = poses(model, 1), np.random.default_rng(1)
    weights = wp.array(rng.normal(size=(1, model.nsensordata)), dtype=wp.float64, device="cpu")

    def reading(values):
        return float((sim.sensors(sim.step(sim.state(), mocap=values)).numpy() * weights.numpy()).sum())

    mocap = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        x = sim.sensors(sim.step(sim.state(), mocap=mocap))
    tape.backward(grads={x: weights})
    gradient = mocap.grad.numpy()
    for _ in range(3):
        along = rng.normal(size=given.shape)
        along[..., 3:] -= given[..., 3:] * (along[..., 3:] * given[..., 3:]).sum(-1, keepdims=True)
        errors = []
        for size in (1e-4, 1e-5, 1e-6):
            slope = (reading(given + size * along) - reading(given - size * along)) / (2 * size)
            errors.append(abs(slope - (gradient * along).sum()))
        assert min(errors) <= 1e-8, errors


LINES = """<mujoco><option timestep="0.002"/><worldbody><site name="w" pos="0 0.3 1.4"/><site name="slider" pos="0.3 0 0.4" euler="0 30 0"/>
<body pos="0 0 1"><freejoint/><geom type="box" size=".2 .1 .05" mass="2" contype="0" conaffinity="0"/><site name="a" pos="0.1 0.05 0.05"/>
 <body pos="0.2 0 0"><joint name="h" axis="0 1 0.2"/><geom name="roll" type="cylinder" size=".05 .1" euler="90 0 0" contype="0" conaffinity="0" mass="0.5"/>
  <site name="b" pos="0.2 0 0.08"/><site name="c" pos="0.1 0.1 -0.1" euler="10 20 30"/>
  <body pos="0.3 0 0"><joint name="s" type="slide" axis="1 0 0.3"/><joint name="g" axis="0 1 0"/><geom size="0.05" mass="0.3" contype="0" conaffinity="0"/>
   <site name="d" pos="0.1 0.02 0"/></body></body></body></worldbody>
<tendon><spatial name="wrapped" stiffness="{spring}" springlength="0.1 0.15" limited="true" range="{range}"><site site="a"/><geom geom="roll"/><site site="b"/><site site="d"/></spatial>
<spatial name="measured"><site site="w"/><site site="c"/><pulley divisor="2"/><site site="a"/><site site="d"/></spatial>
<fixed name="fixed"><joint joint="h" coef="0.7"/><joint joint="s" coef="-1.5"/></fixed></tendon>
<actuator><motor name="m" tendon="wrapped" gear="1.7"/><position name="p" tendon="wrapped" kp="6" gear="0.8"/><motor name="f" tendon="fixed"/>
<motor name="jet" site="c" gear="0.3 0.2 -0.5 0.1 0.3 0.2"/><position name="pose" site="d" refsite="a" gear="1 0.5 0.2 0 0 0" kp="3"/>
<motor name="crank" cranksite="b" slidersite="slider" cranklength="2.0" gear="1.5"/><motor name="j" joint="h"/></actuator>
<sensor>{sensors}</sensor></mujoco>"""
ACTUATORS, TENDONS = ("m", "p", "f", "jet", "pose", "crank", "j"), ("wrapped", "measured", "fixed")


def random_states(m, worlds: int) -> tuple[np.ndarray, np.ndarray]:
    rng, q = np.random.default_rng(3), np.tile(m.qpos0, (worlds, 1))
    for row in q:
        mujoco.mj_integratePos(m, row, rng.normal(size=m.nv), 0.3)
    return q, rng.normal(size=(worlds, m.nv))


def lines_model(sensors, spring="0", limits="0 50"):
    return loaded(LINES.format(sensors="".join(f"<{s}/>" for s in sensors), spring=spring, range=limits))


def forward(m, data, q, v, control=None) -> np.ndarray:
    """MuJoCo's sensors (worlds, n)."""
    found = []
    for w in range(len(q)):
        data.qpos, data.qvel = q[w], v[w]
        if control is not None:
            data.ctrl = control[w]
        mujoco.mj_forward(m, data)
        found.append(data.sensordata.copy())
    return np.array(found)


def test_lengths_and_energies_of_lines():
    """Positions, velocities and limits of spatial tendons, one of which only measures, of actuators on lines, and the energy of their springs."""
    sensors = [f'tendon{x} tendon="{t}"' for t in TENDONS for x in ("pos", "vel")]
    sensors += [f'actuator{x} actuator="{a}"' for a in ACTUATORS for x in ("pos", "vel")]
    sensors += ['tendonlimitpos tendon="wrapped"', 'tendonlimitvel tendon="wrapped"', "e_potential", "e_kinetic"]
    m, data, model = lines_model(sensors, "50", "0.45 0.55")
    assert model.ntendon == 3 and not [line for line in model.report if line.detail.startswith("NaN")]
    q, v = random_states(m, 20)
    expected = forward(m, data, q, v)
    sim = ws.Simulator(model, 20, dtype="float64", device="cpu")
    assert (expected[:, model.sensor("sensor_20")] != 0).any()
    np.testing.assert_allclose(sim.sensors(sim.state(q, v)).numpy(), expected, rtol=1e-10, atol=1e-11)


def test_forces_of_actuators_on_lines():
    """Of a step, and with a control of a state: on actuators, tendons and joints; an accelerometer agrees with MuJoCo's."""
    sensors = [f'actuatorfrc actuator="{a}"' for a in ACTUATORS] + [f'tendonactuatorfrc tendon="{t}"' for t in TENDONS]
    sensors += [f'jointactuatorfrc joint="{j}"' for j in "hsg"]
    m, data, model = lines_model(sensors)
    (q, v), control = random_states(m, 20), np.random.default_rng(4).normal(size=(20, m.nu))
    expected = forward(m, data, q, v, control)
    sim = ws.Simulator(model, 20, dtype="float64", device="cpu")
    state = sim.state(q, v)
    np.testing.assert_allclose(sim.sensors(state, control).numpy(), expected, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(sim.sensors(sim.step(state, control)).numpy(), expected, rtol=1e-10, atol=1e-11)


def test_force_of_the_stop_of_a_spatial_tendon():
    """A weight at rest on a string: the stop bears it."""
    text = """<mujoco><worldbody><site name="top" pos="0 0 1"/><body><joint type="slide" axis="0 0 1"/><geom size="0.1" mass="2"/><site name="b"/></body>
    </worldbody><tendon><spatial name="t" limited="true" range="0 1"><site site="top"/><site site="b"/></spatial></tendon>
    <sensor><tendonlimitfrc tendon="t"/></sensor></mujoco>"""
    _, _, model = loaded(text)
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    found = sim.sensors(sim.rollout(sim.state(), steps=300).final).numpy()
    np.testing.assert_allclose(found, [[2 * 9.81]], rtol=1e-6)


def test_gradient_of_sensors_of_lines():
    """Of weighted sensors of lines, of a state and of the step to it, by q0 and v0, against central differences."""
    sensors = [f'tendon{x} tendon="{t}"' for t in TENDONS for x in ("pos", "vel")]
    sensors += [f'actuator{x} actuator="{a}"' for a in ACTUATORS for x in ("pos", "vel", "frc")]
    m, _, model = lines_model([*sensors, 'jointactuatorfrc joint="h"', "e_potential"], "50")
    q, v = (x[1] for x in random_states(m, 2))
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True)
    rng, control = np.random.default_rng(1), np.ones((1, m.nu))
    weights = wp.array(rng.normal(size=(1, model.nsensordata)), dtype=wp.float64, device="cpu")

    def reading(dq, dv):
        at = q.copy()
        mujoco.mj_integratePos(m, at, dq, 1.0)
        return float((sim.sensors(sim.step(sim.state(at, v + dv), control)).numpy() * weights.numpy()).sum())

    start = sim.state(q, v)
    with wp.Tape() as tape:
        x = sim.sensors(sim.step(start, control))
    tape.backward(grads={x: weights})
    by_q, by_v = start.q.grad.numpy()[0], start.v.grad.numpy()[0]
    joints = rng.normal(size=m.nv)
    joints[3:6] = 0.0  # no rotation of the base: q moves as v does
    for dq, dv in ((joints, 0 * joints), (0 * joints, rng.normal(size=m.nv))):
        expected = by_q[:3] @ dq[:3] + by_q[7:] @ dq[6:] + by_v @ dv
        slopes = [(reading(s * dq, s * dv) - reading(-s * dq, -s * dv)) / (2 * s) for s in (1e-4, 1e-5, 1e-6)]
        assert min(abs(slope - expected) for slope in slopes) <= 1e-6 * max(1.0, abs(expected)), (slopes, expected)


SPIN = """<mujoco><option timestep="0.002" cone="elliptic" impratio="10"/><worldbody><geom name="floor" type="plane" size="1 1 1" condim="6" priority="1" friction="0.5 0.02 0.005"/>
<body name="b" pos="0 0 .1"><freejoint/><geom name="ball" size=".1" mass="1"/><site name="s"/>
 <body name="c" pos="0 0 0.1"><joint name="h" axis="0 0 1"/><geom type="box" size=".1 .02 .02" mass=".3" contype="0" conaffinity="0"/><site name="t"/></body></body>
<body name="up" pos="0.5 0 0.6"><geom name="top" type="sphere" size=".1" mass="1" condim="6" priority="2" friction="0.5 0.02 0.005"/><joint type="slide" axis="0 0 1"/><site name="u" pos="0.1 0 0"/></body>
<body name="disc" pos="0.5 0 .4"><freejoint/><geom name="disc" type="cylinder" size=".15 .1" mass="2" condim="3"/></body>
<body name="stand" pos="0.5 0 .15"><geom name="stand" type="box" size=".2 .2 .15" friction="1e-5 0 0" condim="1" priority="3"/></body>
</worldbody><sensor>{}</sensor></mujoco>"""
TURNING = [
    'contact geom1="floor" geom2="ball" reduce="netforce" data="force torque"',
    'contact geom1="ball" geom2="floor" num="1" data="force torque"',
]
TURNING += [
    'contact geom1="floor" geom2="ball" num="1" data="torque"',
    'torque site="u"',
    'torque site="s"',
    'force site="s"',
    'torque site="t"',
]


def test_moments_of_spinning_contacts():
    """A spinning ball on the floor, and a disc that spins under a ball on a slide: contacts and torques bear what brakes them; nothing holds a free body."""
    m, data, model = loaded(SPIN.format("".join(f"<{s}/>" for s in TURNING)))
    v = np.zeros(m.nv)
    v[5], v[13] = 30.0, 10.0
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    data.qvel = v
    state = sim.state(None, v)
    for _ in range(40):
        state = sim.step(state)
    for _ in range(200):  # where its ball, which its law throws up, is down again
        mujoco.mj_step(m, data)
    found, expected = sim.sensors(state).numpy()[0], data.sensordata
    np.testing.assert_allclose(found[:13] / found[2], expected[:13] / expected[2], atol=1e-4)
    braking = 0.02 * 1.3 * 9.81
    np.testing.assert_allclose(found[model.sensor("sensor_0")], [0, 0, 1.3 * 9.81, 0, 0, -braking], atol=2e-3)
    np.testing.assert_allclose(found[model.sensor("sensor_1")][3:], [-braking, 0, 0], atol=2e-3)
    np.testing.assert_allclose(
        found[model.sensor("sensor_3")][2], -0.02 * 9.81, atol=2e-3
    )  # MuJoCo's, when it is at rest
    np.testing.assert_allclose(np.r_[found[model.sensor("sensor_4")], found[model.sensor("sensor_5")]], 0, atol=1e-9)


def test_gradient_of_moments_of_contacts():
    """Of weighted sensors of a spinning, rolling ball by its velocity and the torsional friction, against central differences."""
    m, _, model = loaded(SPIN.format("".join(f"<{s}/>" for s in TURNING)))
    v = np.zeros(m.nv)
    v[0], v[4], v[5], v[13] = 0.3, 1.0, 30.0, 10.0
    sim = ws.Simulator(model, dtype="float64", device="cpu", requires_grad=True, solver=ws.SAP(tolerance=1e-14))
    q = model.q0.copy()
    q[2] -= 1e-4
    rng = np.random.default_rng(1)
    weights = wp.array(rng.normal(size=(1, model.nsensordata)), dtype=wp.float64, device="cpu")
    friction = sim.parameters["geom_torsional_friction"]
    rest, along = friction.numpy().copy(), rng.normal(size=m.nv)

    def reading(dv, share):
        friction.assign(rest * (1 + share))
        found = float((sim.sensors(sim.step(sim.state(q, v + dv))).numpy() * weights.numpy()).sum())
        friction.assign(rest)
        return found

    start = sim.state(q, v)
    with wp.Tape() as tape:
        x = sim.sensors(sim.step(start))
    tape.backward(grads={x: weights})
    by_v, by_friction = start.v.grad.numpy()[0] @ along, (friction.grad.numpy() * rest).sum()
    assert by_friction != 0.0
    for expected, dv, share in ((by_v, along, 0.0), (by_friction, 0 * along, 1.0)):
        slopes = [(reading(s * dv, s * share) - reading(-s * dv, -s * share)) / (2 * s) for s in (1e-4, 1e-5, 1e-6)]
        assert min(abs(slope - expected) for slope in slopes) <= 1e-6 * max(1.0, abs(expected)), (slopes, expected)


MEDIUM = """<mujoco><option timestep="0.002" density="50" viscosity="0.1" wind="1 0 0"/><worldbody>
<body pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .05" mass="1" contype="0" conaffinity="0"/><site name="s"/>
 <body pos="0.3 0 0"><joint axis="0 1 0"/><geom type="ellipsoid" size="0.05 0.03 0.04" fluidshape="ellipsoid" mass="0.3" contype="0" conaffinity="0"/><site name="t" pos="0 0.1 0"/></body></body>
</worldbody><actuator><motor site="t" gear="1 2 3 0 0 0"/></actuator>
<sensor><force site="s"/><torque site="s"/><force site="t"/><torque site="t"/><accelerometer site="t"/></sensor></mujoco>"""


def test_forces_in_a_medium():
    """The medium and pulls at sites act on coordinates: what joints bear has them in it, as MuJoCo's has."""
    m, data, model = loaded(MEDIUM)
    (q, v), control = random_states(m, 10), np.full((10, 1), 0.7)
    sim = ws.Simulator(model, 10, dtype="float64", device="cpu")
    expected = forward(m, data, q, v, control)
    found = sim.sensors(sim.step(sim.state(q, v), control)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_adhesion():
    """A box that sticks to the floor: its touch bears the pull, which is in its joint's force as in MuJoCo's; what is not measured is NaN."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="b" pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/>
    <site name="s" size=".3"/></body><body pos="1 0 1"><joint name="h" axis="0 1 0"/><geom size="0.1"/></body></worldbody>
    <actuator><adhesion name="a" body="b" ctrlrange="0 5" gain="3"/></actuator><sensor><touch site="s"/><force site="s"/><torque site="s"/>
    <actuatorfrc actuator="a"/><actuatorpos actuator="a"/><actuatorvel actuator="a"/><jointactuatorfrc joint="h"/></sensor></mujoco>"""
    m, data, model = loaded(text)
    sim, data.ctrl = ws.Simulator(model, dtype="float64", device="cpu"), 2.0
    state = sim.state()
    for _ in range(500):
        state = sim.step(state, np.full((1, 1), 2.0))
        mujoco.mj_step(m, data)
    found = sim.sensors(state).numpy()[0]
    np.testing.assert_allclose(found[:-2], data.sensordata[:-2], atol=1e-3)
    assert np.isnan(found[-2:]).all() and len([x for x in model.report if x.detail.startswith("NaN")]) == 2


def test_lines_with_threads_and_float32():
    """Threads give the same bits, and float32 the same forces to 1e-4."""
    m, _, model = lines_model([f'actuatorfrc actuator="{a}"' for a in ACTUATORS] + ['jointactuatorfrc joint="h"'])
    (q, v), control, found = random_states(m, 40), np.ones((40, m.nu)), []
    for dtype, threads in (("float64", 1), ("float64", 2), ("float32", 1)):
        sim = ws.Simulator(model, 40, dtype=dtype, device="cpu", threads=threads)
        found.append(sim.sensors(sim.step(sim.state(q, v), control)).numpy())
    assert np.array_equal(found[0], found[1])
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-4)
