# SPDX-License-Identifier: Apache-2.0
"""MJCF files and `MjModel`s: every attribute of MuJoCo's model is accounted for, what is used is used right, and what
cannot be simulated is refused by name."""

import glob
import math
import warnings

import mujoco
import numpy as np
import pytest

from tests.files.mjcf_fields import FIELDS, classify
from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.mjcf.mjcf import contact_material
from warpsim.files.mjcf.mjcf_report import (
    DISABLE_FLAGS,
    ENABLE_FLAGS,
    IGNORED,
    MAPPED,
    OPTIONS,
    REFUSED,
    USED,
    feature_report,
)
from warpsim.model.model import FrictionRule

ROBOTS = ("ant", "half_cheetah", "hopper", "humanoid", "walker2d", "swimmer")


def compile_xml(body: str = "", rest: str = "", options: str = ""):
    """A compiled scene with a hinged body 'arm' that holds `body`."""
    return mujoco.MjModel.from_xml_string(f"""<mujoco>{options}<worldbody>
      <geom name="floor" type="plane" size="1 1 1"/>
      <body name="arm" pos="0 0 1"><joint name="elbow" range="-1 1"/><geom name="bone" size=".1"/>{body}</body>
    </worldbody>{rest}</mujoco>""")


def assets() -> list[str]:
    gymnasium = pytest.importorskip("gymnasium")
    return sorted(glob.glob(f"{gymnasium.__path__[0]}/envs/mujoco/assets/*.xml"))


def status(report) -> dict[str, str]:
    return {line.feature: line.status for line in report}


# Completeness ------------------------------------------------------------------------------------------------------------


def test_every_attribute_of_mjmodel_has_one_category():
    """A new MuJoCo with a new attribute fails here until somebody decides what it means for us."""
    m = mujoco.MjModel.from_xml_string("<mujoco/>")
    public = [name for name in dir(m) if not name.startswith("_")]
    assert {name: classify(name) for name in public if len(classify(name)) != 1} == {}
    assert {category for category, _, _ in FIELDS} == {USED, MAPPED, IGNORED, REFUSED}


def test_every_option_and_flag_has_a_category():
    options = {name for name in dir(mujoco.MjModel.from_xml_string("<mujoco/>").opt) if not name.startswith("_")}
    assert options - {"disableflags", "enableflags"} <= set(OPTIONS)
    for enum, prefix, table in (
        (mujoco.mjtDisableBit, "mjDSBL_", DISABLE_FLAGS),
        (mujoco.mjtEnableBit, "mjENBL_", ENABLE_FLAGS),
    ):
        assert {name[7:] for name in enum.__members__ if name.startswith(prefix)} <= set(table)


def test_unknown_flag_is_refused():
    m = compile_xml()
    m.opt.enableflags |= 1 << 20
    with pytest.raises(ModelError, match="enable bit 20"):
        load(m)


def test_all_gymnasium_assets_load_with_a_report():
    paths = assets()
    assert len(paths) >= 10
    for path in paths:
        model, m = load(path), mujoco.MjModel.from_xml_path(path)
        assert (model.nq, model.nv, model.nu, model.nbody) == (m.nq, m.nv, m.nu, m.nbody - 1), path
        assert {line.status for line in model.report} <= {USED, MAPPED, IGNORED, REFUSED}
        assert len(model.keyframes) == m.nkey


# What is used ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ROBOTS)
def test_robots_keep_mujocos_numbers(robot):
    path = next(p for p in assets() if p.endswith(f"/{robot}.xml"))
    model, m = load(path), mujoco.MjModel.from_xml_path(path)
    np.testing.assert_array_equal(model.q0, m.qpos0)
    np.testing.assert_array_equal(model.joint_q, m.jnt_qposadr)
    np.testing.assert_array_equal(model.joint_v, m.jnt_dofadr)
    np.testing.assert_array_equal(model.body_mass, m.body_mass[1:])
    np.testing.assert_allclose(model.body_com, m.body_ipos[1:])
    np.testing.assert_allclose(np.linalg.eigvalsh(model.body_inertia), np.sort(m.body_inertia[1:], axis=1), rtol=1e-9)
    np.testing.assert_array_equal(model.joint_damping, m.dof_damping)
    np.testing.assert_array_equal(model.joint_armature, m.dof_armature)
    np.testing.assert_array_equal(model.joint_limited, m.jnt_limited.astype(bool))
    np.testing.assert_array_equal(model.dof_parent, m.dof_parentid)
    np.testing.assert_array_equal(model.control_range, m.actuator_ctrlrange)
    np.testing.assert_array_equal(model.geom_size, m.geom_size)
    assert model.timestep == m.opt.timestep


ACTUATORS = """<actuator>
  <motor joint="elbow" gear="3" ctrlrange="-1 1"/>
  <position joint="elbow" kp="20" kv="2" gear="2" forcerange="-5 4"/>
  <velocity joint="lift" kv="3" ctrllimited="true" ctrlrange="-2 2"/>
  <general joint="lift" gaintype="affine" gainprm="1 2 -3" biastype="affine" biasprm="4 -5 -6" gear="-2"/>
  <damper joint="elbow" kv="2" ctrlrange="0 1"/>
  <motor joint="head" gear="1 2 3"/>
  <motor joint="fly" gear="1 2 3 4 5 6"/>
  <motor jointinparent="lift" gear="0.5" group="4"/>
  <motor joint="clamped" gear="-2" forcerange="-3 3"/>
</actuator>"""
BODIES = """<body><joint name="lift" type="slide"/><geom size=".1"/>
  <body><joint name="head" type="ball"/><geom size=".1"/></body>
  <body><joint name="clamped" actuatorfrcrange="-4 5"/><geom size=".1"/></body></body></body>
  <body><freejoint name="fly"/><geom size=".1"/>"""


def our_force(model, m, d) -> np.ndarray:
    """Generalised actuator force by the law `Model` documents."""
    total = np.zeros(model.nv)
    for a in range(model.nu):
        j = model.joint_names[model.actuator_joint[a]]
        q, v = model.joint_coordinates(j)
        gear = model.actuator_gear[a][: v.stop - v.start]
        one = v.stop - v.start == 1
        s = np.array([1, gear[0] * d.qpos[q][0], gear[0] * d.qvel[v][0]]) if one else np.array([1, 0, 0])
        control = np.clip(d.ctrl[a], *model.control_range[a])
        force = np.clip(model.actuator_gain[a] @ s * control + model.actuator_bias[a] @ s, *model.force_range[a])
        total[v] += gear * force
    return total


@pytest.mark.parametrize("options", ["", '<option actuatorgroupdisable="4"/>', '<option><flag clampctrl="disable"/></option>',
                                     '<option><flag actuation="disable"/></option>'])  # fmt: skip
def test_actuator_forces_are_mujocos(options):
    """All kinds of actuators at random states, controls beyond their range: the documented law gives qfrc_actuator."""
    m = compile_xml(BODIES, ACTUATORS, options)
    model, d, rng = load(m), mujoco.MjData(m), np.random.default_rng(0)
    for _ in range(50):
        mujoco.mj_resetData(m, d)
        velocity = rng.normal(size=m.nv)
        mujoco.mj_integratePos(m, d.qpos, velocity, 1.0)
        d.qvel[:], d.ctrl[:] = rng.normal(size=m.nv), 3 * rng.normal(size=m.nu)
        mujoco.mj_forward(m, d)
        np.testing.assert_allclose(our_force(model, m, d), d.qfrc_actuator, rtol=1e-12, atol=1e-12)


def test_actuator_damping_and_armature_go_to_the_joint():
    m = compile_xml(rest='<actuator><motor joint="elbow" gear="3" damping="0.5" armature="0.2"/></actuator>')
    model, d, mass = load(m), mujoco.MjData(m), np.zeros((1, 1))
    d.qvel[:] = 1
    mujoco.mj_forward(m, d)
    mujoco.mj_fullM(m, d, mass)
    np.testing.assert_allclose(model.joint_damping, -d.qfrc_passive)
    np.testing.assert_allclose(model.joint_armature + model.body_inertia[0, 2, 2], mass[0])
    assert status(model.report)["actuator armature"] == MAPPED


def test_disable_flags_act():
    spring = '<body><joint name="s" stiffness="2" damping="3" frictionloss="4" range="-1 1"/><geom size=".1" pos="1 0 0"/></body>'
    pair = '<contact><pair geom1="bone" geom2="floor"/></contact>'

    def model(*flags):
        return load(
            compile_xml(spring, pair, "<option><flag " + " ".join(f'{f}="disable"' for f in flags) + "/></option>")
        )

    full = model("warmstart")
    assert (full.joint_stiffness[1], full.joint_damping[1], full.joint_friction[1]) == (2, 3, 4)
    assert full.joint_limited.all() and len(full.pair_geom) == 2
    assert not model("spring").joint_stiffness.any() and not model("damper").joint_damping.any()
    assert not model("frictionloss").joint_friction.any() and not model("limit").joint_limited.any()
    assert not model("gravity").gravity.any() and len(model("contact").pair_geom) == 0
    assert len(model("filterparent").pair_geom) == 3
    nothing = model("constraint")
    assert not nothing.joint_limited.any() and not nothing.joint_friction.any() and len(nothing.pair_geom) == 0
    assert status(nothing.report)["option disable constraint"] == MAPPED


def test_elements_without_names_get_unique_ones():
    m = mujoco.MjModel.from_xml_string("""<mujoco><worldbody>
      <body><joint/><joint name="joint_0" axis="1 0 0"/><geom size=".1"/><geom name="geom_0" size=".1"/></body>
      <body name="body_0"><joint/><geom size=".1"/></body></worldbody>
      <actuator><motor joint="joint_0"/><motor joint="joint_0" name="actuator_0"/></actuator>
      <keyframe><key/><key name="keyframe_0"/></keyframe></mujoco>""")
    model = load(m)
    for names in model.names.values():
        assert len(set(names)) == len(names)
    assert model.joint_names == ("joint_0_", "joint_0", "joint_2")
    assert model.body_names == ("body_0_", "body_0")


def test_colours_follow_mujocos_rule():
    """The material's colour, unless the geom has one of its own."""
    geoms = "".join(
        f'<geom name="{name}" size=".1" material="red" {rgba}/>'
        for name, rgba in (("plain", ""), ("own", 'rgba="0 1 0 1"'), ("grey", 'rgba=".5 .5 .5 .2"'))
    )
    model = load(compile_xml(geoms, options='<asset><material name="red" rgba="1 0 0 1"/></asset>'))
    colours = dict(zip(model.geom_names, model.geom_rgba.tolist(), strict=True))
    assert colours["plain"] == [1, 0, 0, 1] and colours["own"] == [0, 1, 0, 1]
    np.testing.assert_allclose(colours["grey"], [0.5, 0.5, 0.5, 0.2])
    np.testing.assert_allclose(colours["bone"], [0.5, 0.5, 0.5, 1])


@pytest.mark.parametrize(
    "sol", ['solref="0.05 0.7" solimp="0.7 0.8 0.002"', 'solref="-3000 -40" solimp="0.9 0.95 0.001"']
)
def test_contact_stiffness_is_mujocos_static_one(sol):
    """A ball at rest in MuJoCo sinks by m g / k with the mapped k, once the impedance has its full width."""
    m = mujoco.MjModel.from_xml_string(f"""<mujoco><option timestep="0.001" integrator="implicitfast"/><worldbody>
      <geom type="plane" size="1 1 1" {sol}/>
      <body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="2" {sol}/></body></worldbody></mujoco>""")
    m.geom_solimp[:, 0] = m.geom_solimp[:, 1]  # the same impedance at every depth
    stiffness, time = contact_material(m, 1)
    assert contact_material(m, 0)[0] == np.inf
    d = mujoco.MjData(m)
    for _ in range(20000):
        mujoco.mj_step(m, d)
    np.testing.assert_allclose(-d.qpos[0], 2 * 9.81 / stiffness, rtol=1e-3)
    assert 0 < time < 1


def test_default_contact_is_near_rigid_with_default_dissipation():
    model = load(compile_xml())
    assert np.isinf(model.geom_stiffness).all() and np.isnan(model.geom_dissipation_time).all()
    assert status(model.report)["default solref/solimp"] == MAPPED


def test_keyframes_follow_the_layout_of_q_v_and_control():
    rest = '<actuator><motor joint="elbow"/></actuator><keyframe><key name="up" time="3" qpos="0.5" qvel="2" ctrl="1"/></keyframe>'
    model = load(compile_xml(rest=rest))
    assert [x.tolist() for x in model.keyframes["up"][:3]] == [[0.5], [2], [1]]
    assert status(model.report)["time of keyframes"] == IGNORED


def test_mocap_bodies_are_read_and_say_so():
    m = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><body name="goal" mocap="true" pos="1 2 3"><geom size=".1"/>
      </body><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>""")
    model = load(m)
    assert status(model.report)["body 'goal'"] == USED and model.nmocap == 1
    np.testing.assert_array_equal(model.link_pose[0, :3], [1, 2, 3])


SLED = """<mujoco><option timestep="0.002" impratio="10" cone="elliptic"/><worldbody><geom name="f" type="plane" size="9 9 1"/>
  <body name="sled" pos="0 0 .1"><freejoint/><geom name="b" type="box" size=".3 .3 .1" {masks}/></body></worldbody>
  <contact>{contact}</contact></mujoco>"""
PAIR = '<pair geom1="{}" geom2="{}" friction="{} {}"/>'


def slide(m) -> float:
    """How far the sled slides from 4 m/s until it stands."""
    d = mujoco.MjData(m)
    mujoco.mj_step(m, d, 300)
    d.qvel[0], begin = 4.0, d.qpos[0]
    mujoco.mj_step(m, d, 1500)
    return float(d.qpos[0] - begin)


@pytest.mark.parametrize("frictions", [(0.3, 0.7), (0.7, 0.3), (0.4, 0.4)])
@pytest.mark.parametrize("masks", ["", 'contype="0" conaffinity="0"'])
def test_pairs_of_the_same_geoms_are_one_contact(frictions, masks):
    """MuJoCo makes a contact for each; a sled slides as far as with the larger friction alone, to 0.1 % (with the smaller
    twice as far), and a pair replaces the contact of the masks."""
    pairs = [PAIR.format(*geoms, mu, mu) for geoms, mu in zip((("f", "b"), ("b", "f")), frictions, strict=True)]
    m = mujoco.MjModel.from_xml_string(SLED.format(masks=masks, contact="".join(pairs)))
    model, largest = load(m), max(frictions)
    assert m.npair == 2 and model.pair_rule.tolist() == [FrictionRule.EXPLICIT]
    np.testing.assert_allclose(model.pair_friction, largest)
    alone = mujoco.MjModel.from_xml_string(SLED.format(masks=masks, contact=PAIR.format("f", "b", largest, largest)))
    np.testing.assert_allclose(*(slide(scene) for scene in (m, alone)), rtol=1e-3)
    assert status(model.report)["contact pairs that repeat another's geoms"] == MAPPED


# What is refused ---------------------------------------------------------------------------------------------------------

LOOP = '<body name="b"><joint name="wrist"/><geom size=".1" {geom}/><site name="tip"/><site name="end" pos="1 0 0"/></body>'
LIFT = '<body name="b"><joint name="wrist" {joint}/><geom size=".1"/></body>'
BALL = '<body name="b"><joint name="neck" type="ball"/><geom size=".1"/></body>'
FIXED_TENDON = '<tendon><fixed name="cable" {0}><joint joint="elbow" coef="1"/></fixed></tendon>'
SPATIAL = '<tendon><spatial name="cable" {0}><site site="tip"/><site site="end"/></spatial></tendon>'
REFUSALS = {  # scene: words of the error
    "spatial armature": ((LOOP, SPATIAL.format('armature="1"')), ["'cable'", "armature"]),
    "tendon polynomial": (("", FIXED_TENDON.format('stiffness="1 2"')), ["'cable'", "stiffnesspoly"]),
    "tendon armature": (("", FIXED_TENDON.format('armature="1"')), ["'cable'", "armature"]),
    "user dynamics": (("", '<actuator><general name="m" joint="elbow" dyntype="user" actdim="1"/></actuator>'), ["'m'", "user"]),
    "ball muscle": ((BALL, '<actuator><muscle name="m" joint="neck" lengthrange="0 1"/></actuator>'), ["'m'", "ball"]),
    "repulsion": (("", '<actuator><general name="m" body="arm" ctrlrange="-1 1"/></actuator>'), ["'m'", "apart"]),
    "ball in parent": ((BALL, '<actuator><motor name="m" jointinparent="neck" gear="1 2 3"/></actuator>'), ["'m'", "parent"]),
    "ball servo": ((BALL, '<actuator><position name="m" joint="neck" kp="1" gear="1 0 0"/></actuator>'), ["'m'", "ball"]),
    "energy": (("", '<actuator><general name="m" joint="elbow" biastype="affine" biasprm="0 0 1"/></actuator>'), ["'m'"]),
    "delay": (("", '<actuator><motor name="m" joint="elbow" delay=".1" nsample="60"/></actuator>'), ["'m'", "delay"]),
}  # fmt: skip


def test_a_ball_whose_range_is_0_0_is_free_unless_it_says_limited():
    """MuJoCo's autolimits: 0 0 is no limit. With limited="true" it holds the joint, which is refused by name."""
    ball = '<body name="b"><joint name="neck" type="ball" range="0 0" {}/><geom size=".1"/></body>'
    m = compile_xml(ball.format(""))
    assert not m.jnt_limited[1] and not load(m).joint_limited[1]
    m = compile_xml(ball.format('limited="true"'))
    d = mujoco.MjData(m)
    d.qpos[1:] = [0.9, 0.1, 0.2, 0.3]
    mujoco.mj_forward(m, d)
    assert d.nefc == 1  # it acts there
    with pytest.raises(ModelError, match=r"joint 'neck'.*range 0 0.*locks"):
        load(m)
    with pytest.warns(UserWarning, match="'neck'"):
        assert not load(m, unsupported="report").joint_limited[1]


def refused(key) -> mujoco.MjModel:
    parts, _ = REFUSALS[key]
    return compile_xml(parts[0].replace("{geom}", ""), *parts[1:])


@pytest.mark.parametrize("key", REFUSALS)
def test_what_changes_the_motion_is_refused_by_name(key):
    with pytest.raises(ModelError) as error:
        load(refused(key))
    for word in [*REFUSALS[key][1], "unsupported='report'"]:
        assert word in str(error.value)


@pytest.mark.parametrize("key", REFUSALS)
def test_unsupported_report_loads_the_rest_with_one_warning(key):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(refused(key), unsupported="report")
    assert len(caught) == 1 and all(word in str(caught[0].message) for word in REFUSALS[key][1])
    assert any(line.status == REFUSED for line in model.report)


ARRAYS = {
    "jnt_springyield": "joint 'elbow'",
    "jnt_stiffnesspoly": "joint 'elbow'",
    "dof_dampingpoly": "joint 'elbow'",
    "geom_adhesion": "geom 'floor'",
    "actuator_dampingpoly": "actuator 'm'",
}


@pytest.mark.parametrize("field", ARRAYS)
def test_new_nonlinear_fields_are_refused(field):
    m = compile_xml(rest='<actuator><motor name="m" joint="elbow"/></actuator>')
    if not hasattr(m, field):
        pytest.skip("not in this MuJoCo")
    getattr(m, field).flat[0] = 0.5
    with pytest.raises(ModelError, match=ARRAYS[field]):
        load(m)


def test_flexes_are_refused():
    xml = """<mujoco><worldbody><flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" radius=".01"/>
      </worldbody></mujoco>"""
    with pytest.raises(ModelError, match="flex 'cloth'"):
        load(mujoco.MjModel.from_xml_string(xml))


def test_refused_actuators_leave_the_controls_of_the_others():
    rest = """<actuator><general joint="elbow" dyntype="user" actdim="1"/><general name="m" joint="elbow" dyntype="filter" dynprm="1"/></actuator>
      <keyframe><key name="k" ctrl="5 7" act="2 3"/></keyframe>"""
    with pytest.warns(UserWarning, match="user"):
        model = load(compile_xml(rest=rest), unsupported="report")
    assert model.actuator_names == ("m",) and model.keyframes["k"].control.tolist() == [7]
    assert model.keyframes["k"].activation.tolist() == [3]


def test_inactive_equalities_and_idle_tendons_are_ignored():
    rest = FIXED_TENDON.format("") + '<equality><joint name="eq" joint1="elbow" active="false"/></equality>'
    report = status(load(compile_xml(rest=rest)).report)
    assert report["tendon 'cable'"] == report["equality 'eq'"] == IGNORED


def test_the_medium_is_used():
    model = load(compile_xml(options='<option density="1000" viscosity="0.1" wind="1 0 0"/>'))
    assert (model.fluid_density, model.fluid_viscosity, model.wind.tolist()) == (1000.0, 0.1, [1.0, 0.0, 0.0])
    assert status(model.report)["fluid forces"] == USED
    assert sum("wind" in line.feature for line in model.report) == 1
    off = '<option density="1000"><flag spring="disable" damper="disable"/></option>'
    assert not load(compile_xml(options=off)).has_fluid  # as MuJoCo's passive forces are


def test_cylinders_ellipsoids_and_meshes_are_used():
    geoms = '<geom type="cylinder" size=".1 .1"/><geom type="ellipsoid" size=".1 .2 .3"/>'
    geoms += '<geom type="cylinder" size=".1 .1" contype="0" conaffinity="0"/><geom type="mesh" mesh="tetra"/>'
    asset = '<asset><mesh name="tetra" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>'
    model = load(compile_xml(geoms, options=asset))
    report = status(model.report)
    for shape in ("cylinder", "ellipsoid", "mesh"):
        assert report[f"{shape} geoms"] == USED
    assert len(model.meshes) == 1 and model.meshes[0].faces.max() < len(model.meshes[0].vertices) == 4


def test_report_names_what_a_humanoid_has():
    path = next(p for p in assets() if p.endswith("/humanoid.xml"))
    report = status(load(path).report)
    assert report["tendon 'left_hipknee'"] == IGNORED and report["joint damping"] == USED
    assert report["geom margin"] == USED and report["condim 1"] == USED
    assert report["option integrator = RK4"] == IGNORED and report["cameras"] == USED


def test_margin_priority_condim_and_solver_options_are_reported():
    geom = '<geom size=".1" condim="6" margin=".01" gap=".01" priority="2" solmix="3" solref=".1 1"/>'
    lines, errors = feature_report(compile_xml(geom, options='<option cone="elliptic" impratio="5" iterations="3"/>'))
    report = status(lines)
    assert not errors
    assert report["condim 4 or 6"] == USED
    assert report["geom margin"] == USED
    for feature in ("geom gap", "geom solmix", "option impratio = 5.0"):
        assert report[feature] == IGNORED
    assert report["geom priority"] == USED and report["solref/solimp of geoms"] == MAPPED


# Bad files ---------------------------------------------------------------------------------------------------------------

BROKEN = {
    "<mujoco><worldbody>": "mismatched|XML",
    '<mujoco><worldbody><body name="x"><joint/><inertial pos="0 0 0" mass="-1" diaginertia="1 1 1"/></body></worldbody></mujoco>': "'x'",
    '<mujoco><worldbody><body name="x"><joint/><inertial pos="0 0 0" mass="nan" diaginertia="1 1 1"/></body></worldbody></mujoco>': "'x'",
    '<mujoco><worldbody><body name="x"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 9"/></body></worldbody></mujoco>': "'x'",
    '<mujoco><worldbody><body><joint name="j" type="screw"/><geom size="1"/></body></worldbody></mujoco>': "screw",
    '<mujoco><worldbody><body><joint name="j" damping="nan"/><geom size="1"/></body></worldbody></mujoco>': "'j'.*damping",
    '<mujoco><worldbody><body><joint/><geom name="g" size="1" friction="nan"/></body></worldbody></mujoco>': "'g'.*friction",
    '<mujoco><option gravity="0 0 nan"/></mujoco>': "gravity",
    "<sdf/>": "sdf",
    "": "XML",
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_broken_files_are_one_error_that_names_file_and_element(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log there
    (tmp_path / "robot.xml").write_text(text)
    with pytest.raises(ModelError, match=f"(?s)robot.xml.*({BROKEN[text]})"):
        load("robot.xml")


def test_missing_and_unknown_files_are_errors(tmp_path):
    for path, words in (
        (tmp_path / "none.xml", "no such file"),
        (tmp_path / "scene.usda", "no such file"),
        (tmp_path / "robot.sdf", "unknown file type"),
        ("\n<mujoco/>", r"text of a file.*MjSpec\.from_string\(text\)"),
        (tmp_path, "unknown file type"),
    ):
        with pytest.raises(ModelError, match=words):
            load(path)
    with pytest.raises(ModelError, match="int"):
        load(3)
    with pytest.raises(ModelError, match="'torque'"):
        load(compile_xml(), actuators="torque")
    with pytest.raises(ModelError, match="'skip'"):
        load(compile_xml(), unsupported="skip")


@pytest.mark.parametrize(
    "field, value, words",
    [("body_mass", math.nan, "'arm'.*mass"), ("body_mass", -1, "'arm'.*mass"), ("body_inertia", -1, "'arm'.*inertia"),
     ("jnt_axis", math.nan, "'elbow'.*axis"), ("geom_size", math.nan, "'bone'.*size"), ("qpos0", math.nan, "'elbow'.*q0")],
)  # fmt: skip
def test_a_wrong_mjmodel_names_the_element(field, value, words):
    m = compile_xml()
    getattr(m, field)[-1] = value
    with pytest.raises(ModelError, match=words):
        load(m)
