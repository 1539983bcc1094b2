# SPDX-License-Identifier: Apache-2.0
"""`ModelBuilder.add_model(parent=)`: a model on a body is the model of one file that has it there, element by element."""

import dataclasses
import importlib.util
import pathlib

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.model import ConstraintType, JointType, ModelBuilder
from warpsim.model.geometry import axis_angle, compose, inverse, rotate
from warpsim.model.host_kinematics import body_poses
from warpsim.model.model import FrictionRule

POSE = np.array([0.1, -0.02, 0.05, *axis_angle([0.0, 0.6, 0.8], 0.7)])
FRAME = f'<frame pos="{POSE[0]} {POSE[1]} {POSE[2]}" quat="{" ".join(map(repr, POSE[3:].tolist()))}">'

ARM = """<mujoco model="arm"><compiler angle="radian"/><option timestep="0.002"/>
<worldbody>
  <geom name="floor" type="plane" size="0 0 1" pos="0 0 -2"/>
  <body name="upper" pos="0 0 0.5">
    <joint name="shoulder" axis="0 1 0.2" range="-2 2" damping="0.4" armature="0.01"/>
    <geom name="bone" type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>
    <body name="wrist" pos=".4 0 0" euler="0.3 0 0.5">
      <joint name="roll" axis="1 0 0" stiffness="0.5" springref="0.2"/>
      <geom name="cuff" type="cylinder" size=".05 .03"/><site name="tool" pos=".05 0 0"/>
      {mounted}
    </body>
  </body>
</worldbody>
{contact}{tendon}{equality}
<actuator><motor name="lift" joint="shoulder" gear="3"/>{actuator}</actuator>
{sensor}{keyframe}
</mujoco>"""

# `{p}` goes before names, `{world}` is what the gripper is on, `{anchor}` its origin there.
PARTS = {
    "worldbody": """
      <geom name="{p}flange" type="sphere" size=".03" pos="0 0 .01" mass="0"/><site name="{p}mount" pos="0 .02 0"/>
      <camera name="{p}eye" pos="0 0 .2" quat="1 .1 0 0" fovy="50"/>
      <body name="{p}plate" pos="0 0 .02"><geom name="{p}plate" type="box" size=".05 .03 .01"/></body>
      <body name="{p}palm" pos="0 .01 .06" quat="1 0 .2 0" gravcomp="0.5">
        <joint name="{p}swivel" type="ball" damping="0.02"/><geom name="{p}palm" type="box" size=".06 .03 .02"/>
        <body name="{p}left" pos=".05 0 .06">
          <joint name="{p}left" type="slide" axis="1 0 0" range="-.05 .02" frictionloss="0.1"/>
          <geom name="{p}left_pad" type="box" size=".01 .02 .05"/><site name="{p}tip" pos="0 0 .05" type="box" size=".02 .02 .02"/>
        </body>
        <body name="{p}right" pos="-.05 0 .06">
          <joint name="{p}right" type="slide" axis="-1 0 0" range="-.05 .02" ref="0.004"/>
          <geom name="{p}right_pad" type="box" size=".01 .02 .05"/>
        </body>
      </body>""",
    "contact": """<exclude body1="{world}" body2="{p}palm"/><exclude body1="{p}left" body2="{p}palm"/>
      <pair geom1="{p}flange" geom2="{p}left_pad" friction="0.7 0.7 0.01 0.001 0.001"/>""",
    "tendon": """<fixed name="{p}grasp"><joint joint="{p}left" coef="1"/><joint joint="{p}right" coef="1"/></fixed>
      <spatial name="{p}cable" stiffness="20" springlength="0 0.05" damping="0.3"><site site="{p}mount"/><site site="{p}tip"/></spatial>""",
    "equality": """<joint name="{p}together" joint1="{p}left" joint2="{p}right" polycoef="0 1 0 0 0"/>
      <connect name="{p}pin" body1="{p}palm" body2="{world}" anchor="0 0 .01"/>
      <weld name="{p}held" body1="{p}right" body2="{world}" anchor="{anchor}" active="false"/>""",
    "actuator": """<position name="{p}close" joint="{p}left" kp="40" ctrlrange="-1 1"/><motor name="{p}pull" tendon="{p}grasp"/>
      <general name="{p}slow" joint="{p}right" dyntype="filter" dynprm="0.1" gainprm="2"/>
      <general name="{p}push" site="{p}tip" refsite="{p}mount" gear="0 0 1 0 0 0"/>""",
    "sensor": """<framepos name="{p}where" objtype="site" objname="{p}tip"/><framequat name="{p}turned" objtype="camera" objname="{p}eye"/>
      <framelinvel name="{p}drift" objtype="body" objname="{p}left" reftype="site" refname="{p}mount"/>
      <jointpos name="{p}open" joint="{p}left"/><tendonpos name="{p}length" tendon="{p}cable"/><ballquat name="{p}ball" joint="{p}swivel"/>
      <actuatorfrc name="{p}effort" actuator="{p}close"/><touch name="{p}feel" site="{p}tip"/><subtreecom name="{p}com" body="{p}palm"/>
      <framepos name="{p}inertia" objtype="body" objname="{p}palm"/>""",
}
STARTS = {
    "palm": "1 0 0 0 0.01 0.003",
    "arm": "0.3 -0.4 0.9 0.1 0.2 -0.3 0.01 0.003",
}  # ball, left, right; the arm's hinges first


def parts(p: str, world: str) -> dict[str, str]:
    anchor = "0 0 0" if world != "wrist" else " ".join(map(repr, POSE[:3].tolist()))
    return {key: text.format(p=p, world=world, anchor=anchor) for key, text in PARTS.items()}


def gripper_xml(world: str = "world", keyframe: bool = True) -> str:
    inner = "".join(f"<{key}>{text}</{key}>" for key, text in parts("", world).items())
    key = f'<keyframe><key name="open" qpos="{STARTS["palm"]}" ctrl="0.1 0.2 0.3 0.4" act="0.5"/></keyframe>'
    return f'<mujoco model="gripper"><compiler angle="radian"/><option timestep="0.002"/>{inner}{key if keyframe else ""}</mujoco>'


def arm_xml(mounted: bool) -> str:
    if not mounted:
        return ARM.format(
            **dict.fromkeys(("mounted", "contact", "tendon", "equality", "actuator", "sensor", "keyframe"), "")
        )
    inner = parts("g/", "wrist")
    key = '<keyframe><key name="g/open" qpos="0 0 1 0 0 0 0.01 0.003" ctrl="0 0.1 0.2 0.3 0.4" act="0.5"/></keyframe>'
    wrapped = {key: f"<{key}>{inner[key]}</{key}>" for key in ("contact", "tendon", "equality", "sensor")}
    return ARM.format(
        mounted=f"{FRAME}{inner['worldbody']}</frame>", actuator=inner["actuator"], keyframe=key, **wrapped
    )


def builder(name: str) -> ModelBuilder:
    """An empty one with MJCF's rule of friction."""
    b = ModelBuilder(name)
    b.friction_rule = FrictionRule.MAXIMUM
    return b


def loaded(xml: str) -> ws.Model:
    return load_mujoco(mujoco.MjModel.from_xml_string(xml))


def together(arm: ws.Model, gripper: ws.Model, **options) -> ws.Model:
    b = ModelBuilder("arm", gravity=arm.gravity, timestep=arm.timestep)
    b.add_model(arm)
    options = {"pose": POSE, "prefix": "g/", "parent": "wrist"} | options
    assert b.add_model(gripper, **options) == list(range(arm.nbody, arm.nbody + gripper.nbody))
    return b.build()


@pytest.fixture(scope="module")
def models() -> tuple[ws.Model, ws.Model, ws.Model]:
    """Arm, gripper, and both in one file."""
    return loaded(arm_xml(False)), loaded(gripper_xml()), loaded(arm_xml(True))


def motions(model: ws.Model, count: int = 5):
    """Random (q, v), unit quaternions."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        q, v = model.q0 + 0.3 * rng.normal(size=model.nq), rng.normal(size=model.nv)
        for j in np.flatnonzero(model.joint_type == JointType.BALL):
            at = slice(int(model.joint_q[j]), int(model.joint_q[j]) + 4)
            q[at] /= np.linalg.norm(q[at])
        yield q, v


def accelerations(model: ws.Model, q, v, tau) -> np.ndarray:
    sim = ws.Simulator(model, device="cpu", dtype="float64")
    return sim.forward_dynamics(q, v, tau).numpy()[0]


def test_a_model_on_a_body_is_the_model_of_one_file(models):
    """Every array of the arm with its gripper: joints, geoms, pairs, sites, cameras, tendons, constraints, actuators, sensors, keyframes."""
    arm, gripper, one = models
    ours = together(arm, gripper)
    for field in dataclasses.fields(one):
        a, b = getattr(ours, field.name), getattr(one, field.name)
        if field.name == "keyframes":
            assert list(a) == list(b) == ["g/open"]
            for x, y in zip(a["g/open"], b["g/open"], strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
        elif field.name == "constraint_pose":  # of one anchor; a file may turn both frames alike
            np.testing.assert_allclose(a[..., :3], b[..., :3], rtol=1e-12, atol=1e-14)
            welds = one.constraint_type == ConstraintType.WELD
            turns = [compose(x[:, 0], inverse(x[:, 1]))[:, 3:] for x in (a[welds], b[welds])]
            np.testing.assert_allclose(*turns, rtol=1e-12, atol=1e-14)
        elif isinstance(b, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, err_msg=field.name)
        elif field.name not in ("meshes", "report"):
            assert a == b, field.name


def test_accelerations_are_those_of_one_file_and_of_mujoco(models):
    """Free of contact, the forces MuJoCo's: to 1e-12 of the largest acceleration."""
    arm, gripper, one = models
    ours, reference = together(arm, gripper), mujoco.MjModel.from_xml_string(arm_xml(True))
    data = mujoco.MjData(reference)
    rng = np.random.default_rng(1)
    for q, v in motions(ours):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, rng.normal(size=ours.nu)
        mujoco.mj_forward(reference, data)
        tau = data.qfrc_passive + data.qfrc_actuator
        found = accelerations(ours, q, v, tau)
        bar = 1e-12 * np.abs(found).max()
        np.testing.assert_allclose(found, accelerations(one, q, v, tau), rtol=0, atol=bar)
        np.testing.assert_allclose(found, data.qacc_smooth, rtol=0, atol=bar)


def test_accelerations_are_those_of_mujocos_attach():
    """`MjSpec.attach` of the gripper's whole world to a frame of the wrist; it knows no ends in the world, so that a body stands for it."""
    child = gripper_xml("plate", keyframe=False)
    spec, attached = mujoco.MjSpec.from_string(arm_xml(False)), mujoco.MjSpec.from_string(child)
    frame = spec.body("wrist").add_frame(pos=POSE[:3], quat=POSE[3:])
    spec.attach(attached, prefix="g/", frame=frame)
    reference = spec.compile()
    ours, theirs = together(loaded(arm_xml(False)), loaded(child)), load_mujoco(reference)
    assert set(ours.body_names) == set(theirs.body_names) and ours.joint_names == theirs.joint_names
    for name in ("pair_geom", "excluded", "constraint_pose", "sensor_object", "actuator_site", "wrap_object"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-14, err_msg=name)
    data = mujoco.MjData(reference)
    for q, v in motions(ours):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(reference, data)
        found = accelerations(ours, q, v, data.qfrc_passive + data.qfrc_actuator)
        np.testing.assert_allclose(found, data.qacc_smooth, rtol=0, atol=1e-12 * np.abs(found).max())


def test_a_chain_touches_and_measures_as_mujocos_attach():
    """Arm, hand on its wrist and tool in the hand, turned at both: forces of contact within a step (1e-9, of the solver) and all sensors after it."""
    child = gripper_xml("plate", keyframe=False)
    spec, chain = mujoco.MjSpec.from_string(arm_xml(False)), ModelBuilder("chain", timestep=0.002)
    chain.add_model(loaded(arm_xml(False)))
    for prefix, parent in (("g/", "wrist"), ("t/", "g/palm")):
        frame = spec.body(parent).add_frame(pos=POSE[:3], quat=POSE[3:])
        spec.attach(mujoco.MjSpec.from_string(child), prefix=prefix, frame=frame)
        chain.add_model(loaded(child), POSE, prefix, parent)
    ours, theirs = chain.build(), load_mujoco(spec.compile())
    assert ours.actuator_names == theirs.actuator_names and ours.sensor_names == theirs.sensor_names
    sims = [ws.Simulator(m, device="cpu", dtype="float64", solver=ws.SAP(tolerance=1e-12)) for m in (ours, theirs)]
    touched = 0
    for q, v in motions(ours):
        after = [sim.step(sim.state(q=q, v=v)) for sim in sims]
        values = [
            np.concatenate([sim.sensors(s).numpy()[0], s.v.numpy()[0]]) for sim, s in zip(sims, after, strict=True)
        ]
        np.testing.assert_allclose(*values, rtol=0, atol=1e-9 * np.abs(values[1]).max())
        forces = [dict(zip(sim.model.body_names, sim.contact_force().numpy()[0], strict=True)) for sim in sims]
        scale = max(np.linalg.norm(force) for force in forces[1].values())
        for body, force in forces[0].items():
            np.testing.assert_allclose(force, forces[1][body], rtol=0, atol=1e-9 * max(scale, 1.0), err_msg=body)
        touched += scale > 1.0
    assert touched


PAIRS = {  # of the package robosuite: arm, gripper; each arm's last body is "right_hand"
    "panda": ("panda", "panda_gripper"),
    "sawyer": ("sawyer", "rethink_gripper"),
    "ur5e": ("ur5e", "robotiq_gripper_140"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_real_grippers_on_real_arms_move_as_mujocos(pair):
    """Accelerations of arms and grippers as they are shipped, at random states, are those of `MjSpec.attach` and of MuJoCo."""
    found = importlib.util.find_spec("robosuite")
    if found is None:
        pytest.skip("needs pip install --no-deps robosuite")
    folder = pathlib.Path(next(iter(found.submodule_search_locations))) / "models" / "assets"
    arm, gripper = folder / f"robots/{PAIRS[pair][0]}/robot.xml", folder / f"grippers/{PAIRS[pair][1]}.xml"
    spec = mujoco.MjSpec.from_file(str(arm))
    spec.attach(mujoco.MjSpec.from_file(str(gripper)), prefix="g/", frame=spec.body("right_hand").add_frame())
    reference = spec.compile()
    b = ModelBuilder(pair)
    b.add_model(ws.load(arm))
    b.add_model(ws.load(gripper), prefix="g/", parent="right_hand")
    ours, data = b.build(), mujoco.MjData(reference)
    one = load_mujoco(reference)
    assert set(ours.body_names) == set(one.body_names) and ours.joint_names == one.joint_names
    for q, v in motions(ours):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(reference, data)
        tau = data.qfrc_passive + data.qfrc_actuator
        found = accelerations(ours, q, v, tau)
        scale = np.abs(found).max()
        np.testing.assert_allclose(found, accelerations(one, q, v, tau), rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(found, data.qacc_smooth, rtol=0, atol=1e-11 * scale)


def test_the_parent_may_be_a_number_and_the_world(models):
    """By number as by name; -1, "world" and None are the world, and nothing changes there."""
    arm, gripper, _ = models
    by_name, by_number = (together(arm, gripper, parent=p) for p in ("wrist", 1))
    np.testing.assert_array_equal(by_name.link_pose, by_number.link_pose)
    assert by_name.constraint_body.tolist() == by_number.constraint_body.tolist()
    for world in (-1, "world"):
        model = together(arm, gripper, parent=world)
        assert (
            model.body_parent[model.body("g/palm")] == -1 and model.constraint_body[model.constraint("g/pin"), 1] == -1
        )


def test_two_robots_with_prefixes_do_not_know_each_other(models):
    """Two arms with a gripper each: two trees, each with its own mass matrix, and no name twice."""
    arm, gripper, one = models
    whole = together(arm, gripper)
    b = ModelBuilder("two")
    b.add_model(whole, prefix="left/")
    b.add_model(whole, [0, 2, 0], prefix="right/")
    two = b.build()
    assert two.ntree == 2 and two.nv == 2 * one.nv and len(set(two.body_names)) == two.nbody
    q, _ = next(motions(whole))
    sim = ws.Simulator(two, device="cpu", dtype="float64")
    mass = sim.mass_matrix(np.tile(q, 2)).numpy()[0]
    alone = ws.Simulator(whole, device="cpu", dtype="float64").mass_matrix(q).numpy()[0]
    n = whole.nv
    np.testing.assert_allclose(mass[:n, :n], alone, rtol=0, atol=1e-14)
    np.testing.assert_allclose(mass[n:, n:], alone, rtol=0, atol=1e-14)
    assert not mass[:n, n:].any()


def test_sensors_measure_in_the_world_of_the_scene(models):
    """A position relative to nothing and one relative to the world agree, wherever the model is; contacts with its world are the parent's."""
    b = builder("probe")
    b.add_geom("sphere", [0.1], name="base")
    b.add_body("needle", pose=[0, 0, 0.3], mass=1.0, inertia=[1, 1, 1])
    b.add_joint("needle", "hinge", name="turn")
    b.add_sensor("framepos", ("body", "needle"), name="plain")
    b.add_sensor("framepos", ("body", "needle"), ("body", "world"), name="in the world")
    b.add_sensor("contact", ("body", "needle"), ("body", "world"), name="touches")
    model = together(models[0], b.build())
    sim = ws.Simulator(model, device="cpu", dtype="float64")
    values = sim.sensors(sim.state()).numpy()[0]
    want = body_poses(model, model.q0)[model.body("g/needle"), :3]
    for name in ("g/plain", "g/in the world"):
        np.testing.assert_allclose(values[model.sensor(name)], want, atol=1e-14)
    touches = model.sensor_names.index("g/touches")
    assert model.sensor_object[touches].tolist() == [model.body("g/needle"), model.body("wrist")]


def loose() -> ModelBuilder:
    """A box that is free, on a spring to the place 1 m above, and a lid hinged to it."""
    b = builder("box")
    b.add_body("box", pose=[0, 0, 1])
    b.add_joint("box", "free", name="float", stiffness=1.0, reference=[0, 0, 1, 0, 0, 0])
    b.add_geom("box", [0.1, 0.1, 0.1], body="box", name="box")
    b.add_body("lid", parent="box", pose=[0, 0, 0.1], mass=0.1, inertia=[1e-3] * 3)
    b.add_joint("lid", "hinge", name="open", axis=[1, 0, 0])
    b.add_actuator("open", name="motor")
    b.add_tendon({"open": 2.0}, name="string")
    b.add_keyframe("up", q=[0, 0, 2, 1, 0, 0, 0, 0.5], v=[1, 0, 0, 0, 0, 0, 3])
    return b


def test_a_free_body_cannot_hang_on_another_unless_it_is_said_how(models):
    """The error names both bodies and both ways out; welded the joint is gone, and the report says so; kept it starts at its pose there."""
    arm, box = models[0], loose().build()
    with pytest.raises(ModelError, match=r"'box'.*free joint.*'wrist'.*free='weld'.*free='keep'"):
        together(arm, box)
    welded = together(arm, box, free="weld")
    assert welded.joint_names == ("shoulder", "roll", "g/open") and welded.actuator_joint[-1] == 2
    assert welded.body_parent[welded.body("g/box")] == arm.body("wrist")
    assert welded.tendon_coefficients.tolist() == [[0, 0, 2.0]]
    np.testing.assert_allclose(welded.link_pose[2], compose(POSE, box.q0[:7]), atol=1e-15)
    assert any(line.feature == "joint 'g/float'" and line.status == "ignored" for line in welded.report)
    np.testing.assert_array_equal(welded.keyframes["g/up"].q, [0, 0, 0.5])
    kept = together(arm, box, free="keep")
    assert kept.ntree == 2 and kept.body_parent[kept.body("g/box")] == -1
    start = compose(body_poses(arm, arm.q0)[arm.body("wrist")], POSE)
    q, v = kept.joint_coordinates("g/float")
    np.testing.assert_allclose(kept.q0[q], compose(start, box.q0[:7]), atol=1e-15)
    np.testing.assert_allclose(kept.joint_reference[v][:3], compose(start, box.q0[:7])[:3], atol=1e-15)
    np.testing.assert_allclose(kept.keyframes["g/up"].q[q], compose(start, [0, 0, 2, 1, 0, 0, 0]), atol=1e-15)
    np.testing.assert_allclose(kept.keyframes["g/up"].v[v][:3], rotate(start[3:], [1, 0, 0]), atol=1e-15)
    alone = ModelBuilder("fixed")
    alone.add_model(box, [1, 0, 0], free="weld")
    assert alone.build().joint_names == ("open",)


def test_parent_and_child_do_not_touch(models):
    """The rule for bodies of one file: a jointed child and its parent are filtered, geoms of the model's world count as the parent's, others touch."""
    arm = models[0]
    b = builder("finger")
    b.add_geom("sphere", [0.1], name="socket")
    b.add_body("finger")
    b.add_joint("finger", "hinge", name="bend")
    b.add_geom("sphere", [0.1], body="finger", name="finger")

    def pairs(model):
        return {frozenset(model.geom_names[g] for g in pair) for pair in model.pair_geom}

    b.filter_parent = True
    assert pairs(b.build()) == {frozenset(("socket", "finger"))}  # the world is nobody's parent
    found = pairs(together(arm, b.build()))
    for pair in (("g/socket", "g/finger"), ("cuff", "g/finger"), ("cuff", "g/socket")):
        assert frozenset(pair) not in found
    assert {frozenset(("bone", "g/finger")), frozenset(("floor", "g/socket"))} <= found
    b.filter_parent = False
    with pytest.raises(ModelError, match="filter_parent"):
        together(arm, b.build())


def mocap() -> ModelBuilder:
    b = builder("hand")
    b.add_body("target", mocap=True)
    return b


def driven() -> ModelBuilder:
    b = loose()
    b.add_actuator("float", name="thruster", gear=[1, 0, 0, 0, 0, 0])
    return b


def grounded() -> ModelBuilder:
    b = builder("grounded")
    b.add_geom("plane", name="ground")
    return b


WRONG = {  # the model, options: the words of the error
    "no such parent": (loose, {"parent": "elbow"}, r"no body 'elbow'.*upper, wrist"),
    "parent beyond": (loose, {"parent": 7}, r"no body 7"),
    "free of no kind": (loose, {"free": "glue"}, r"free.*'glue'.*'weld'.*'keep'"),
    "mocap": (mocap, {}, r"'target'.*mocap.*'wrist'.*without parent"),
    "actuator on what is gone": (driven, {"free": "weld"}, r"'thruster'.*'float'.*free='keep'"),
    "plane on what moves": (grounded, {}, r"'g/ground'.*plane.*'wrist' moves"),
    "zero quaternion": (loose, {"pose": [0, 0, 0, 0, 0, 0, 0], "free": "weld"}, r"add_model: pose"),
    "name twice": (lambda: ModelBuilder("x"), {"prefix": ""}, r"'upper'.*prefix"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_element_and_leave_the_builder_as_it_was(models, case):
    other, options, words = WRONG[case]
    b = ModelBuilder("arm")
    b.add_model(models[0])
    before = repr(b.build())
    model = models[0] if case == "name twice" else other().build()
    with pytest.raises(ModelError, match=words):
        b.add_model(model, **({"pose": POSE, "prefix": "g/", "parent": "wrist"} | options))
        b.build()
    if case != "plane on what moves":  # which is found when all joints are known
        assert repr(b.build()) == before and len(b.bodies) == models[0].nbody


def test_a_model_of_the_builder_itself_may_be_added_to_it():
    """What is built is a copy: a chain grows by itself."""
    b = ModelBuilder("chain")
    b.add_body("0", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("0", "hinge", name="0")
    for i in range(3):
        b.add_model(b.build(), [0, 0, 1], prefix=f"{i}.", parent=len(b.bodies) - 1)
    assert b.build().nbody == 8 and b.build().body_parent.max() == 6


def test_a_robot_rides_on_a_mocap_body(models):
    """Below a body whose pose is given the whole arm moves with it."""
    b = builder("ride")
    b.add_body("cart", mocap=True)
    b.add_model(models[0], parent="cart", prefix="a/")
    b.geoms = [geom for geom in b.geoms if geom.name != "a/floor"]
    model = b.build()
    moved = np.array([3.0, -1.0, 0.5, *axis_angle([0, 0, 1], 1.0)])
    poses = [body_poses(model, model.q0, mocap)[model.body("a/wrist")] for mocap in (None, moved[None])]
    np.testing.assert_allclose(poses[1], compose(moved, poses[0]), atol=1e-14)


def test_what_stays_the_scenes_is_reported(models):
    """Gravity, step size and medium of the model that are not the builder's are ignored, and said to be."""
    b = ModelBuilder("scene", gravity=(0, 0, -1), timestep=0.01, density=1.0)
    b.add_model(models[1], prefix="g/")
    model = b.build()
    said = {line.feature: line for line in model.report if line.status == "ignored"}
    assert {"gravity", "timestep", "density"} <= set(said) and "0.002" in said["timestep"].detail
    assert "viscosity" not in said and (model.timestep, model.fluid_density) == (0.01, 1.0)
    used = [line.feature for line in model.report if line.status == "used"]
    assert not any(feature.startswith(("option timestep", "option gravity")) for feature in used)


def soft(name: str, friction: float) -> ModelBuilder:
    """A sphere above a box, of other friction, by the rule of models from code."""
    b = ModelBuilder(name)
    b.add_body(name, mass=1.0, inertia=[1, 1, 1])
    b.add_joint(name, "slide", name="up")
    b.add_geom("sphere", [0.1], body=name, name="ball", friction=friction)
    b.add_geom("box", [0.1, 0.1, 0.1], name="base", friction=4 * friction)
    return b


def test_models_of_two_friction_rules_meet_as_the_error_says(models):
    """A scene has one rule: the error names both and the way out, which gives the rule of the builder to the pairs of both; without geoms none is asked."""
    b = ModelBuilder("both")
    b.add_model(models[0])
    model = soft("s", 0.2).build()
    with pytest.raises(
        ModelError, match=r"'s' has friction_rule HARMONIC.*MAXIMUM.*replace\(model, friction_rule="
    ) as error:
        b.add_model(model, prefix="s/")
    assert "None" not in str(error.value)
    b.add_model(dataclasses.replace(model, friction_rule=b.friction_rule), prefix="s/")
    both = b.build()
    assert set(both.pair_rule) == {FrictionRule.MAXIMUM}
    bare = ModelBuilder("bare")
    bare.add_body("weight", mass=1.0, inertia=[1, 1, 1])
    b.add_model(bare.build(), parent="wrist")
    assert b.build().friction_rule == FrictionRule.MAXIMUM


@pytest.mark.parametrize("other, words", [(ModelBuilder("x"), r"build\(\)"), ("arm.xml", r"'arm\.xml'.*ws\.load")])
def test_what_is_no_model_yet_is_told_how_to_become_one(other, words):
    with pytest.raises(ModelError, match=words):
        ModelBuilder("scene").add_model(other)


def test_any_error_leaves_the_builder_as_it_was(models, monkeypatch):
    """One that is no `ModelError` too, half way through."""
    b = ModelBuilder("scene")
    monkeypatch.setattr("warpsim.model.appending._append_actuators", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        b.add_model(models[0])
    assert repr(b) == "ModelBuilder('scene': empty)"


def test_geoms_of_the_models_world_weigh_nothing_and_that_is_reported(models):
    """A world has no mass, so that those of its geoms are unknown: the parent weighs what it did, and the report names them."""
    model = together(*models[:2])
    assert model.body_mass[1] == models[0].body_mass[1]
    (line,) = (x for x in model.report if x.feature == "mass of geoms")
    assert line.status == "ignored" and line.detail.startswith("g/flange stand") and "'wrist'" in line.detail


def test_gradients_pass_through_what_is_put_together(models):
    """Of ten steps by q, v, controls and masses, against central differences, constraints with the parent active."""
    arm, gripper, _ = models
    sim = ws.Simulator(
        together(arm, gripper), device="cpu", dtype="float64", requires_grad=True, solver=ws.SAP(tolerance=1e-12)
    )
    q = sim.model.q0.copy()
    q[:2] = 0.3, -0.4
    found = ws.check_gradients(sim, sim.state(q=q), horizons=(1, 10), parameters=("body_mass",), entries=3)
    assert found.ok and found.worst() < 1e-5, str(found)
