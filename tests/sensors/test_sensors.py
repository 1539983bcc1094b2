# SPDX-License-Identifier: Apache-2.0
"""Sensors against MuJoCo's: all kinds with all kinds of objects and references, at random states of a rich model."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.model.sensor_types import KINDS, SensorType, Stage

WORLDS = 20
MODEL = """<mujoco><option timestep="0.002" magnetic="0.3 -0.5 0.1"/>
<worldbody><site name="fixed" pos="0.2 0.1 1.5" euler="20 10 5" size="0.9"/>
<camera name="cam" pos="0.3 -2.5 1.2" xyaxes="1 0.1 0 0 .4 1" resolution="320 240" fovy="50"/>
<camera name="lens" pos="0.3 -2.5 1.2" xyaxes="1 0.1 0 0 .4 1" resolution="320 240" focal="0.02 0.03" sensorsize="0.04 0.03"/>
<geom name="floor" type="plane" size="5 5 1" contype="0" conaffinity="0"/>
<geom name="wall" type="box" size="0.1 3 3" pos="-4 0 0" euler="0 10 20" contype="0" conaffinity="0"/>
<geom name="pole" type="capsule" size="0.3 2" pos="3 0.4 1" contype="0" conaffinity="0"/>
<body name="base" pos="0 0 1.2"><freejoint name="root"/>
 <geom name="trunk" type="box" size=".2 .1 .06" pos="0.02 0.01 0" euler="10 0 20" mass="2" contype="0" conaffinity="0"/>
 <site name="imu" pos="0.05 0.02 0.03" euler="30 40 50"/>
 <camera name="head" pos="0.2 0 0.1" euler="80 5 -90" resolution="64 48"/>
 <body name="arm" pos="0.2 0 0" euler="0 20 10">
  <joint name="hinge" axis="0.2 1 0.1" pos="0.01 0 0.02" range="{hinge}" limited="true" stiffness="2" springref="10" armature="0.01"/>
  <geom name="link" type="capsule" size=".03 .12" pos="0.1 0 0" euler="0 90 0" mass="0.5" contype="0" conaffinity="0"/>
  <site name="elbow" pos="0.2 0.01 0" euler="0 15 40" size="0.2 0.1 0.3" type="box"/>
  <body name="hand" pos="0.25 0 0" euler="30 0 0"><joint name="ball" type="ball" pos="0.02 0 0" range="0 {ball}" limited="true"/>
   <inertial pos="0.03 0.01 -0.02" quat="0.9 0.1 0.3 -0.2" mass="0.3" diaginertia="0.002 0.0015 0.001"/>
   <geom name="palm" type="ellipsoid" size=".05 .03 .02" pos="0.03 0 0" contype="0" conaffinity="0"/>
   <site name="tip" pos="0.08 0.01 0.01" euler="5 95 15" type="capsule" size="0.3 0.2"/>
   <body name="finger" pos="0.06 0.02 0"><joint name="slide" type="slide" axis="1 0.2 0.3" range="{slide}" limited="true" stiffness="20" margin="0.01"/>
    <geom type="sphere" size="0.02" mass="0.1" contype="0" conaffinity="0"/></body>
  </body></body>
</body>
<body name="post" pos="1 1 0.4"><geom type="cylinder" size="0.1 0.4" mass="3" contype="0" conaffinity="0"/><site name="top" pos="0 0 0.4"/>
 <body name="vane" pos="0 0 0.5"><joint name="spin" axis="0 0.1 1"/>
  <geom name="blade" type="box" size="0.3 0.02 0.1" pos="0.1 0 0" mass="0.7" contype="0" conaffinity="0"/>
  <site name="edge" pos="0.3 0 0" euler="10 20 30" type="cylinder" size="1.0 0.8"/></body></body>
</worldbody>
<tendon><fixed name="pair" limited="true" range="{tendon}" {spring}><joint joint="hinge" coef="1.2"/><joint joint="spin" coef="-0.7"/></fixed>
<fixed name="measured"><joint joint="slide" coef="2"/></fixed></tendon>
<actuator><motor name="m" joint="hinge" gear="3" ctrlrange="-1 1"/><position name="servo" joint="spin" kp="5" gear="1.5"/>
<motor name="balls" joint="ball" gear="0.3 0.2 -0.4" forcerange="-0.8 0.8"/><motor name="pull" tendon="pair" gear="2"/><motor name="jet" joint="root" gear="0.1 0.2 0.3 0.4 0.5 0.6"/></actuator>
<sensor>{sensors}</sensor></mujoco>"""
NEAR = {"hinge": "-10 8", "ball": "20", "slide": "-0.05 0.05", "tendon": "-0.5 0.6"}
NEAR |= {"spring": 'stiffness="3" springlength="-0.1 0.2"'}
FAR = {"hinge": "-170 170", "ball": "175", "slide": "-5 5", "tendon": "-50 60", "spring": ""}
OBJECTS = [("body", "hand"), ("xbody", "hand"), ("geom", "palm"), ("site", "tip"), ("camera", "head"), ("body", "post")]
OBJECTS += [("geom", "wall"), ("site", "fixed"), ("body", "base"), ("geom", "trunk")]
REFERENCES = [None, ("body", "arm"), ("xbody", "vane"), ("geom", "link"), ("site", "fixed"), ("camera", "cam")]
REFERENCES += [("camera", "head"), ("body", "hand")]
SITES = ("imu", "tip", "top", "fixed", "edge")


def of_state() -> list[str]:
    """Sensors of positions and velocities."""
    found = []
    for site in SITES:
        found += [f'{kind} site="{site}"' for kind in ("magnetometer", "velocimeter", "gyro", "rangefinder")]
        found += [f'camprojection site="{site}" camera="{camera}"' for camera in ("cam", "lens", "head")]
    found += ['rangefinder site="imu" data="dist dir origin point normal depth"']
    found += ['rangefinder site="edge" data="dir normal" cutoff="0.5"']
    kinds = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel")
    for i, (kind, name) in enumerate(OBJECTS):
        for reference in (REFERENCES[i % len(REFERENCES)], REFERENCES[(3 * i + 1) % len(REFERENCES)]):
            relative = "" if reference is None else f' reftype="{reference[0]}" refname="{reference[1]}"'
            found += [f'{sensor} objtype="{kind}" objname="{name}"{relative}' for sensor in kinds]
    found += [f'joint{x} joint="{j}"' for j in ("hinge", "slide", "spin") for x in ("pos", "vel")]
    found += [f'tendon{x} tendon="{t}"' for t in ("pair", "measured") for x in ("pos", "vel")]
    found += [f'actuator{x} actuator="{a}"' for a in ("m", "servo", "balls", "pull", "jet") for x in ("pos", "vel")]
    found += ['ballquat joint="ball"', 'ballangvel joint="ball"']
    found += [f'jointlimit{x} joint="{j}"' for j in ("hinge", "ball", "slide") for x in ("pos", "vel")]
    found += [f'tendonlimit{x} tendon="pair"' for x in ("pos", "vel")]
    bodies = ("world", "base", "arm", "hand", "finger", "post", "vane")
    found += [f'{kind} body="{b}"' for b in bodies for kind in ("subtreecom", "subtreelinvel", "subtreeangmom")]
    inside = (("geom", "trunk"), ("body", "vane"), ("site", "imu"), ("camera", "head"), ("xbody", "hand"))
    zones = ("elbow", "tip", "edge", "fixed")
    found += [f'insidesite site="{z}" objtype="{t}" objname="{n}"' for z in zones for t, n in inside]
    found += ["e_potential", "e_kinetic", "clock", 'framepos objtype="site" objname="tip" cutoff="0.3"']
    return [*found, 'framelinvel objtype="site" objname="tip" cutoff="0.2"']


def of_step() -> list[str]:
    """Sensors of accelerations and forces, without contact or limits that act."""
    found = [f'{kind} site="{site}"' for site in SITES for kind in ("accelerometer", "force", "torque")]
    found.remove('torque site="fixed"')  # MuJoCo adds up torques about different points there
    found += [f'frame{x}acc objtype="{t}" objname="{n}"' for t, n in OBJECTS for x in ("lin", "ang")]
    found += [f'actuatorfrc actuator="{a}"' for a in ("m", "servo", "balls", "pull", "jet")]
    found += [f'jointactuatorfrc joint="{j}"' for j in ("hinge", "slide", "spin")]
    found += [f'tendonactuatorfrc tendon="{t}"' for t in ("pair", "measured")]
    found += ['jointlimitfrc joint="hinge"', 'tendonlimitfrc tendon="pair"', 'touch site="tip"']
    return [*found, 'contact geom1="palm" data="found force" num="2"', 'accelerometer site="tip" cutoff="4"']


def compiled(sensors, ranges) -> mujoco.MjModel:
    text = "".join(f"<{sensor}/>" for sensor in sensors)
    return mujoco.MjModel.from_xml_string(MODEL.format(sensors=text, **ranges))


def states(m, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random positions and velocities."""
    rng, q, v = np.random.default_rng(seed), [], []
    for _ in range(count):
        q.append(mujoco.MjData(m).qpos.copy())
        mujoco.mj_integratePos(m, q[-1], rng.normal(size=m.nv), 0.6)
        v.append(rng.normal(size=m.nv))
    return np.array(q), np.array(v)


def worst(m, sensors, found, expected) -> dict[str, float]:
    """The largest error of each sensor over all worlds, relative where numbers are above 1."""
    errors = {}
    for s, text in enumerate(sensors):
        columns = slice(m.sensor_adr[s], m.sensor_adr[s] + m.sensor_dim[s])
        scale = np.maximum(1.0, np.abs(expected[:, columns]).max(axis=1, keepdims=True))
        errors[text] = (np.abs(found[:, columns] - expected[:, columns]) / scale).max()
    return errors


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-4)])
def test_positions_and_velocities(dtype, tolerance):
    """Every sensor of positions and velocities is MuJoCo's, in 20 random states, limits that are passed among them."""
    sensors = of_state()
    m = compiled(sensors, NEAR)
    model, data, (q, v) = ws.load(m), mujoco.MjData(m), states(m, WORLDS)
    sim = ws.Simulator(model, WORLDS, dtype=dtype, device="cpu")
    found, expected = sim.sensors(sim.state(q, v)).numpy(), []
    for w in range(WORLDS):
        data.qpos, data.qvel = q[w], v[w]
        mujoco.mj_forward(m, data)
        expected.append(data.sensordata.copy())
    errors = worst(m, sensors, found, np.array(expected))
    if dtype == "float32":  # on an edge, and pixels of what is beside the camera
        errors = {k: x for k, x in errors.items() if "camprojection" not in k and "rangefinder" not in k}
    assert max(errors.values()) <= tolerance, {k: x for k, x in errors.items() if x > tolerance}
    used = {SensorType(t) for t in model.sensor_type}
    missing = {k for k, rules in KINDS.items() if rules.stage != Stage.ACCELERATION} - used
    assert missing == {SensorType.UNAVAILABLE}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 2e-3)])
def test_accelerations_and_forces(dtype, tolerance):
    """Without damping (v' − v)/h is MuJoCo's qacc: accelerometers, forces and torques, joint reactions, forces of actuators."""
    sensors = of_step()
    m = compiled(sensors, FAR)
    model, data, (q, v) = ws.load(m), mujoco.MjData(m), states(m, WORLDS)
    rng = np.random.default_rng(1)
    control, pushed = rng.normal(size=(WORLDS, m.nu)), rng.normal(size=(WORLDS, m.nbody, 6))
    pushed[:, 0] = 0.0
    sim = ws.Simulator(model, WORLDS, dtype=dtype, device="cpu", reactions=True)
    before = sim.state(q, v)
    after = sim.step(before, control, wrench=pushed[:, 1:, [3, 4, 5, 0, 1, 2]])
    found, reaction, qacc = (f(after).numpy() for f in (sim.sensors, sim.joint_reaction, sim.acceleration))
    expected, worst_reaction = [], 0.0
    for w in range(WORLDS):
        data.qpos, data.qvel, data.ctrl, data.xfrc_applied = q[w], v[w], control[w], pushed[w]
        mujoco.mj_forward(m, data)
        mujoco.mj_rnePostConstraint(m, data)
        expected.append(data.sensordata.copy())
        assert np.abs(qacc[w] - data.qacc).max() <= tolerance * np.abs(data.qacc).max()
        for b in range(1, m.nbody):  # MuJoCo's are about the centre of mass of the tree
            torque, force = data.cfrc_int[b, :3], data.cfrc_int[b, 3:]
            arm = data.xpos[b] - data.subtree_com[m.body_rootid[b]]
            there = np.concatenate([torque - np.cross(arm, force), force])
            worst_reaction = max(worst_reaction, np.abs(reaction[w, b - 1] - there).max())
    assert worst_reaction <= 100 * tolerance
    errors = worst(m, sensors, found, np.array(expected))
    assert max(errors.values()) <= tolerance, {k: x for k, x in errors.items() if x > tolerance}
    names = [model.sensor_names[s] for s, text in enumerate(sensors) if "actuator" in text]
    mine = sim.sensors(before, control).numpy()  # with a control they are those of a state
    for name in names:
        columns = model.sensor(name)
        assert np.abs(mine[:, columns] - np.array(expected)[:, columns]).max() <= tolerance * 10
    others = [s for s, text in enumerate(sensors) if "actuator" not in text]
    assert np.isnan(mine[:, [model.sensor_adr[s] for s in others]]).all()


REST = """<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="b" pos="0 0 .1"><freejoint/><geom name="box" type="box" size=".1 .1 .1" mass="1"/><site name="all" size=".3"/>
 <site name="corner" size=".05 .05 .02" pos=".1 .1 -.1" type="box"/><site name="above" size=".02" pos="0.1 0.1 0.1"/><site name="air" size=".02" pos="0 0 0.3"/>
 <body name="c" pos="0 0 0.2"><geom name="g" size="0.05" mass="0.5"/><site name="joint" pos="0 0 -0.1" euler="0 90 0"/></body></body>
<body name="p" pos="1 0 1"><joint name="h" axis="0 1 0" limited="true" range="-20 20" damping="2"/><geom size="0.05" pos="0.3 0 0" mass="2"/><site name="pivot"/></body>
</worldbody><sensor>{}</sensor></mujoco>"""
TOUCHES = ['touch site="all"', 'touch site="corner"', 'touch site="above"', 'touch site="air"', 'force site="joint"']
TOUCHES += ['torque site="joint"', 'jointlimitfrc joint="h"', 'force site="pivot"', 'torque site="pivot"']
TOUCHES += ['contact geom1="box" geom2="floor" reduce="netforce" data="found force torque dist normal tangent"']
TOUCHES += [
    'contact geom1="floor" body2="b" reduce="netforce" data="found force"',
    'contact geom2="floor" num="2" data="found normal"',
]
TOUCHES += [
    'contact subtree1="b" num="5" data="found"',
    'contact site="corner" data="found normal"',
    'contact num="5" data="found"',
]
TOUCHES += ['contact subtree1="world" num="1" data="found"', 'contact body1="c" num="1" data="found force"']


def test_rest():
    """At rest touch and forces are weights, and MuJoCo's: a box with a load on the floor, a pendulum on its stop."""
    m = mujoco.MjModel.from_xml_string(REST.format("".join(f"<{sensor}/>" for sensor in TOUCHES)))
    data, model = mujoco.MjData(m), ws.load(m)
    sim = ws.Simulator(model, 3, dtype="float64", device="cpu", solver=ws.SAP(tolerance=1e-9))
    state = sim.rollout(sim.state(), steps=2000).final
    for _ in range(4000):
        mujoco.mj_step(m, data)
    found = sim.sensors(state).numpy()
    assert (found == found[0]).all()
    errors = worst(m, TOUCHES, found[:1], data.sensordata[None])
    assert max(errors.values()) <= 2e-3, errors  # MuJoCo's stop yields by an angle
    assert abs(found[0, 0] - 1.5 * 9.81) <= 1e-6 and abs(found[0, 4] + 0.5 * 9.81) <= 1e-6
    limit = found[0, model.sensor("sensor_6")][0]
    assert abs(limit - 2 * 9.81 * 0.3 * np.cos(np.deg2rad(20))) <= 1e-4


def test_single_contacts():
    """Slots: the strongest contacts first, forces in contact axes from the first to the second, velocities of a sliding, turning box."""
    sensors = [
        'contact geom1="box" num="4" reduce="maxforce" data="found force torque dist pos normal tangent linvel angvel"'
    ]
    sensors += [
        'contact geom2="box" num="4" reduce="maxforce" data="force pos normal"',
        'contact body1="b" num="2" reduce="mindist" data="dist"',
    ]
    m = mujoco.MjModel.from_xml_string(REST.format("".join(f"<{sensor}/>" for sensor in sensors)))
    model = ws.load(m)
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    q, v = model.q0.copy(), np.zeros(model.nv)
    q[2], v[0], v[5] = 0.0999, 0.3, 0.5
    state = sim.step(sim.state(q, v))
    contacts, found = sim.last_contacts, sim.sensors(state).numpy()[0]
    a, b = found[model.sensor("sensor_0")].reshape(4, 23), found[model.sensor("sensor_1")].reshape(4, 9)
    size = np.linalg.norm(a[:, 1:4], axis=1)
    assert (np.diff(size) <= 0).all() and (a[:, 0] == 4).all() and len(contacts) == 4
    assert np.allclose(a[:, 11:14], [0, 0, -1]) and np.allclose(b[:, 6:], [0, 0, 1])  # into the floor, into the box
    assert np.allclose(a[:, 8:11], b[:, 3:6])
    normal, tangent = a[:, 11:14], a[:, 14:17]
    frame = np.stack([normal, tangent, np.cross(normal, tangent)], axis=1)  # rows of each contact
    force = np.einsum("cij,ci->cj", frame, a[:, 1:4])
    assert np.allclose(
        force.sum(0), -sim.contact_force().numpy()[0, 0]
    )  # on the floor, which the box is pushed off from
    velocity = np.einsum("cij,ci->cj", frame, a[:, 17:20])
    arm = a[:, 8:11] - [0, 0, 0.0999]
    assert np.allclose(velocity, -(np.array([0.3, 0, 0]) + np.cross([0, 0, 0.5], arm)))
    assert np.allclose(np.einsum("cij,ci->cj", frame, a[:, 20:]), [0, 0, -0.5])
    assert np.allclose(found[model.sensor("sensor_2")], -1e-4, atol=1e-12)


MUSCLES = """<mujoco><option timestep="0.002"/><worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" actuatorfrcrange="-0.4 0.4"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/><body pos="0.3 0 0" gravcomp="0.5"><joint name="b" axis="0 1 0"/><joint name="c" type="slide" axis="1 0 0"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/><site name="s"/></body></body></worldbody>
<tendon><fixed name="t" actuatorfrcrange="-0.3 0.3"><joint joint="a" coef="0.2"/><joint joint="b" coef="-0.3"/></fixed></tendon>
<actuator><muscle name="m" joint="b" lengthrange="-1 2" force="20"/><general name="i" joint="a" dyntype="integrator" gainprm="2"/>
<general name="f" joint="b" dyntype="filterexact" dynprm="0.05" gainprm="1.5" actearly="true"/><motor name="u" tendon="t"/><motor name="w" tendon="t" gear="2"/>
<motor name="p" joint="a"/><motor name="q" joint="c" forcerange="-0.2 0.2"/></actuator>
<sensor>{}</sensor></mujoco>"""


def test_actuators_with_a_state():
    """Forces of muscles, activations and ranges of several actuators on a joint and a tendon, at the start of the step, are MuJoCo's."""
    sensors = [f'actuatorfrc actuator="{a}"' for a in "mifuwpq"] + [f'jointactuatorfrc joint="{j}"' for j in "abc"]
    sensors += ['tendonactuatorfrc tendon="t"', 'force site="s"', 'torque site="s"', 'accelerometer site="s"']
    m = mujoco.MjModel.from_xml_string(MUSCLES.format("".join(f"<{sensor}/>" for sensor in sensors)))
    model, data, rng, worlds = ws.load(m), mujoco.MjData(m), np.random.default_rng(2), 10
    sim = ws.Simulator(model, worlds, dtype="float64", device="cpu")
    q, v, act = 0.3 * rng.normal(size=(worlds, 3)), rng.normal(size=(worlds, 3)), rng.uniform(0, 1, (worlds, m.na))
    control = rng.normal(size=(worlds, m.nu))
    state = sim.state(q, v, activation=act)
    found, expected = sim.sensors(sim.step(state, control)).numpy(), []
    for w in range(worlds):
        data.qpos, data.qvel, data.act, data.ctrl = q[w], v[w], act[w], control[w]
        mujoco.mj_forward(m, data)
        expected.append(data.sensordata.copy())
    errors = worst(m, sensors, found, np.array(expected))
    assert max(errors.values()) <= 1e-10, errors
    with pytest.raises(ValueError, match="leave control out"):
        sim.sensors(state, control)
