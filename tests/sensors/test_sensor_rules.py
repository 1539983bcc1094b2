# SPDX-License-Identifier: Apache-2.0
"""What sensors promise besides their values: NaN before a step, worlds apart, substeps, layout, errors, copies of models."""

import pickle

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.model.sensor_types import KINDS, ObjectType, SensorType

PENDULUM = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" contype="0" conaffinity="0"/><site name="tip" pos="0.3 0 0"/></body>
<body name="ball" pos="0 1 0.1"><freejoint/><geom name="ball" size="0.1"/><site name="skin" size="0.2"/></body></worldbody>
<actuator><motor name="m" joint="hinge"/></actuator>
<sensor><framepos name="tip" objtype="site" objname="tip"/><accelerometer name="acc" site="tip"/><user name="mine" dim="2"/><touch name="touch" site="skin"/>
<actuatorfrc name="torque" actuator="m"/><clock name="clock"/></sensor></mujoco>"""


def pendulum() -> ws.Model:
    return ws.load(mujoco.MjModel.from_xml_string(PENDULUM))


def test_nan_until_a_step(device):
    """What is of a step is NaN after `state` and `reset`, world by world; sensors that nobody evaluates are NaN always."""
    model = pendulum()
    of_step = np.r_[model.sensor("acc"), model.sensor("touch"), model.sensor("torque")]
    others = np.r_[model.sensor("tip"), model.sensor("clock")]
    sim = ws.Simulator(model, 3, device=device)
    state = sim.state()
    x = sim.sensors(state).numpy()
    assert (
        np.isnan(x[:, of_step]).all() and np.isfinite(x[:, others]).all() and np.isnan(x[:, model.sensor("mine")]).all()
    )
    state = sim.step(state)
    assert np.isfinite(sim.sensors(state).numpy()[:, of_step]).all()
    sim.reset(state, [1])
    x = sim.sensors(state).numpy()
    assert (
        np.isnan(x[1, of_step]).all() and np.isfinite(x[[0, 2]][:, of_step]).all() and np.isfinite(x[:, others]).all()
    )
    assert np.isfinite(sim.sensors(sim.step(state)).numpy()[:, of_step]).all()
    assert "ignored" in {line.status for line in model.report if "mine" in line.feature}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_bad_world_stays_by_itself(dtype):
    """A world that is not finite keeps the sensors of its last step, and leaves the others' bits alone; so do threads."""
    model = pendulum()
    runs = []
    for bad, threads in ((False, 1), (True, 1), (False, 2)):
        sim = ws.Simulator(model, 40, dtype=dtype, device="cpu", threads=threads)
        v = np.random.default_rng(0).normal(size=(40, model.nv))
        state = sim.step(sim.state(None, v))
        before = sim.sensors(state).numpy().copy()
        control = np.ones((40, 1))
        control[7] = np.nan if bad else 1.0
        state = sim.step(state, control)
        runs.append((before, sim.sensors(state).numpy().copy(), sim.diagnostics.flags.numpy().copy()))
    good, broken, threaded = runs
    same = np.arange(40) != 7
    assert np.array_equal(good[1][same], broken[1][same], equal_nan=True)
    assert np.array_equal(good[1], threaded[1], equal_nan=True)
    assert broken[2][7] == ws.NONFINITE and np.array_equal(broken[1][7], broken[0][7], equal_nan=True)


def test_substeps_and_the_state_decide():
    """Sensors of a step are those of its last substep, travel with the state, and do not depend on what was stepped since."""
    model = pendulum()
    sim = ws.Simulator(model, dt=0.01, dtype="float64", device="cpu", reactions=True)
    half = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu", reactions=True)
    once, twice = sim.step(sim.state(), substeps=2), half.step(half.step(half.state()))
    assert np.array_equal(sim.sensors(once).numpy(), half.sensors(twice).numpy(), equal_nan=True)
    assert np.array_equal(sim.joint_reaction(once).numpy(), half.joint_reaction(twice).numpy())
    kept = once.clone()
    x = sim.sensors(once).numpy().copy()
    sim.step(sim.step(once))
    assert np.array_equal(sim.sensors(kept).numpy(), x, equal_nan=True)
    assert np.array_equal(sim.sensors(pickle.loads(pickle.dumps(kept))).numpy(), x, equal_nan=True)


def test_no_sensors():
    """A model without sensors has an empty array, and states as before."""
    b = ws.ModelBuilder()
    b.add_joint(b.add_body("a", mass=1.0, inertia=[1, 1, 1]), "free")
    sim = ws.Simulator(b.build(), 2, device="cpu")
    assert sim.sensors(sim.state()).shape == (2, 0) and "measured" not in sim.state().memory
    assert sim.model.nsensordata == 0 and sim.model.nsensor == 0


def test_reactions_are_asked_for():
    """Accelerations and joint reactions are kept where the simulator is told to; else the error says how."""
    model = pendulum()
    sim = ws.Simulator(model, device="cpu")
    for ask in (sim.acceleration, sim.joint_reaction):
        with pytest.raises(ValueError, match="reactions=True"):
            ask(sim.state())
    with pytest.raises(ValueError, match="reactions is 1"):
        ws.Simulator(model, device="cpu", reactions=1)
    sim = ws.Simulator(model, 2, dtype="float64", device="cpu", reactions=True)
    assert np.isnan(sim.acceleration(sim.state()).numpy()).all()
    state = sim.step(sim.state())
    assert sim.acceleration(state).shape == (2, model.nv) and sim.joint_reaction(state).shape == (2, model.nbody, 6)
    weight, _ = model.masses[0] * 9.81, model.masses[1]
    assert 0.0 < sim.joint_reaction(state).numpy()[0, 0, 5] < weight  # it falls


def test_a_switched_off_tree_stands_still():
    """A tree that `body_active` switches off has no acceleration: its accelerometer feels gravity alone."""
    model = pendulum()
    sim = ws.Simulator(model, dtype="float64", device="cpu")
    sim.parameters["body_active"] = [0.0, 1.0]
    found = sim.sensors(sim.step(sim.state())).numpy()[0, model.sensor("acc")]
    assert np.allclose(found, [0, 0, 9.81])


def test_builder():
    """Every kind can be added, with what it is attached to by name or index, and comes back from a pickle and from another model."""
    b = ws.ModelBuilder()
    body = b.add_body("a", mass=1.0, inertia=[0.3, 0.2, 0.1])
    b.add_joint(body, "hinge", name="hinge", range=(-1, 1))
    ball = b.add_body("b", parent="a", mass=1.0, inertia=[0.3, 0.2, 0.4])
    b.add_joint(ball, "ball", name="ball")
    b.add_geom("sphere", [0.1], body="b", name="g")
    b.add_site("s", body="b")
    b.add_camera("c", body="a", resolution=(64, 48))
    b.add_tendon({"hinge": 2.0}, name="t")
    b.add_actuator("hinge", name="m")
    objects = {ObjectType.SITE: "s", ObjectType.TENDON: "t", ObjectType.ACTUATOR: 0, ObjectType.BODY: "a"}
    for kind, rules in KINDS.items():
        if rules.objects[0] == ObjectType.NONE:
            given = None
        elif rules.objects == (ObjectType.JOINT,):
            given = "ball" if kind in (SensorType.BALLQUAT, SensorType.BALLANGVEL) else "hinge"
        else:
            given = objects[rules.objects[0]] if len(rules.objects) == 1 else ("inertia", "b")
        reference = {SensorType.CAMPROJECTION: "c", SensorType.INSIDESITE: "s", SensorType.FRAMEPOS: ("geom", "g")}.get(
            kind
        )
        b.add_sensor(kind.name.lower(), given, reference, name=kind.name)
    b.add_sensor(
        "contact", ("subtree", "a"), ("geom", "g"), name="pair", data=("found", "force"), reduce="netforce", num=2
    )
    model = b.build()
    sim = ws.Simulator(model, 2, dtype="float64", device="cpu")
    x = sim.sensors(sim.step(sim.state())).numpy()
    assert (
        np.isnan(x[:, model.sensor("UNAVAILABLE")]).all()
        and np.isfinite(np.delete(x, model.sensor("UNAVAILABLE"), axis=1)).all()
    )
    twice = ws.ModelBuilder()
    twice.add_model(pickle.loads(pickle.dumps(model)), prefix="x_")
    again = twice.build()
    assert again.sensor_names == tuple("x_" + name for name in model.sensor_names)
    for field in ("type", "object_type", "object", "adr", "size", "cutoff", "datatype", "constants"):
        assert np.allclose(getattr(again, f"sensor_{field}"), getattr(model, f"sensor_{field}"), rtol=0, atol=1e-15), (
            field
        )
    axes = ws.ModelBuilder()
    axes.add_body("a", mass=1.0, inertia=[0.1, 0.3, 0.2])
    axes.add_sensor("framequat", ("inertia", "a"))
    quaternion = axes.build().sensor_constants[0, :4]
    assert np.isclose(np.linalg.norm(quaternion), 1.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gyroscope",), {}, "sensor 'x': unknown kind 'gyroscope'"),
        (("gyro",), {}, "sensor 'x': give its object, the name of a site"),
        (("gyro", "nose"), {}, "sensor 'x': no site 'nose'; there are 1: s"),
        (("framepos", "s"), {}, r"give \(type, name\), the type one of body, inertia, geom, site, camera"),
        (("framepos", ("tendon", "t")), {}, "the type one of body"),
        (("framepos", ("site", "s"), ("joint", "hinge")), {}, "reference"),
        (("gyro", "s", "s"), {}, "reference 's'; give nothing"),
        (("jointpos", "root"), {}, "measures a slide or hinge, but joint 'root' is free"),
        (("ballquat", "hinge"), {}, "measures a ball, but joint 'hinge' is hinge"),
        (("clock",), {"cutoff": -1.0}, "cutoff is -1.0; give a number of at least 0"),
        (("clock",), {"field": (0, 0, 1)}, "option field means nothing for a clock; it takes none"),
        (("contact",), {"data": ("found", "heat")}, "data is .*; give one or more of found, force"),
        (("contact",), {"reduce": "mean"}, "reduce is 'mean'; use one of none, mindist"),
        (("contact",), {"num": 0}, "num is 0; it must be at least 1"),
        (("contact",), {"reduce": "netforce", "data": ("force", "linvel")}, "netforce has no linvel"),
    ],
)
def test_mistakes_in_sensors(arguments, options, message):
    """One error for each mistake, with the sensor's name, what is wrong and what would do."""
    b = ws.ModelBuilder()
    body = b.add_body("a", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(body, "free", name="root")
    b.add_joint(b.add_body("b", parent="a", mass=1.0, inertia=[1, 1, 1]), "hinge", name="hinge")
    b.add_site("s", body="a")
    with pytest.raises(ws.ModelError, match=message):
        b.add_sensor(*arguments, name="x", **options)


@pytest.mark.parametrize(
    "ends", [("body", "b", "geom", "g3"), ("geom", "g3", "body", "b"), ("body", "b", "site", "s3")]
)
def test_body_relative_to_what_has_more(ends):
    """A frame of a body's principal axes beside a geom or site whose number no body has; MuJoCo's values."""
    frames = "".join(
        f'<geom name="g{i}" size=".1" pos="{i} .2 .1"/><site name="s{i}" pos=".3 {i} 0"/>' for i in range(4)
    )
    text = f"""<mujoco><worldbody>{frames}<body name="b" pos="0 0 2"><freejoint/><geom type="box" size=".1 .2 .3" euler="10 20 30"/></body></worldbody>
    <sensor><framequat objtype="{ends[0]}" objname="{ends[1]}" reftype="{ends[2]}" refname="{ends[3]}"/></sensor></mujoco>"""
    m = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    sim = ws.Simulator(ws.load(m), dtype="float64", device="cpu")
    np.testing.assert_allclose(sim.sensors(sim.state()).numpy()[0], data.sensordata, atol=1e-12)


def test_mistakes_in_asking():
    """Controls of a wrong shape, names that are not there, states of other simulators."""
    model = pendulum()
    sim = ws.Simulator(model, 2, device="cpu")
    with pytest.raises(ValueError, match=r"control has shape \(2, 3\); it must be \(2, 1\)"):
        sim.sensors(sim.state(), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="no sensor named 'nose'"):
        model.sensor("nose")
    with pytest.raises(ValueError, match="state is a int"):
        sim.sensors(3)
