# SPDX-License-Identifier: Apache-2.0
"""`ModelBuilder`: every wrong input is one error that names the element; masses, numbering and copies are right."""

import dataclasses

import mujoco
import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.model import JointType, ModelBuilder
from warpsim.model.geometry import axis_angle, compose, inverse, rotation_vector
from warpsim.model.host_kinematics import body_poses
from warpsim.model.model import FrictionRule

NAN, INF = float("nan"), float("inf")
TURN = axis_angle([0, 0, 1], np.pi / 2)


def arm() -> ModelBuilder:
    """A body 'arm' with a hinge 'elbow', a geom 'bone' and a floor."""
    b = ModelBuilder("arm")
    b.add_geom("plane", name="floor")
    b.add_body("arm", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("arm", "hinge", name="elbow")
    b.add_geom("sphere", [0.1], body="arm", name="bone")
    return b


WRONG = {  # what is done: the words the error must contain
    "nan mass": (lambda b: b.add_body("x", mass=NAN), ["'x'", "mass"]),
    "negative mass": (lambda b: b.add_body("x", mass=-1), ["'x'", "mass", "-1"]),
    "mass as text": (lambda b: b.add_body("x", mass="heavy"), ["'x'", "mass", "heavy"]),
    "indefinite inertia": (lambda b: b.add_body("x", mass=1, inertia=[1, 1, -1]), ["'x'", "positive definite"]),
    "asymmetric inertia": (lambda b: b.add_body("x", mass=1, inertia=np.eye(3) + np.eye(3, k=1)), ["'x'", "symmetric"]),
    "nan inertia": (lambda b: b.add_body("x", mass=1, inertia=[1, NAN, 1]), ["'x'", "finite"]),
    "inertia without mass": (lambda b: b.add_body("x", inertia=[1, 1, 1]), ["'x'", "mass"]),
    "triangle inequality": (lambda b: b.add_body("x", mass=1, inertia=[1, 1, 3]), ["'x'", "triangle"]),
    "nan pose": (lambda b: b.add_body("x", pose=[0, 0, NAN]), ["'x'", "pose", "finite"]),
    "zero quaternion": (lambda b: b.add_body("x", pose=[0] * 7), ["'x'", "quaternion"]),
    "unknown parent": (lambda b: b.add_body("x", parent="hand"), ["body", "'hand'", "arm"]),
    "body name twice": (lambda b: b.add_body("arm"), ["'arm'", "twice"]),
    "body called world": (lambda b: b.add_body("world"), ["'world'"]),
    "unknown joint type": (lambda b: b.add_joint("arm", "screw", name="j"), ["'j'", "unknown joint type", "'screw'"]),
    "fixed joint": (lambda b: b.add_joint("arm", "fixed", name="j"), ["'j'", "fixed"]),
    "joint on world": (lambda b: b.add_joint("world", name="j"), ["'j'", "world"]),
    "joint on no body": (lambda b: b.add_joint(7, name="j"), ["no body 7"]),
    "zero axis": (lambda b: b.add_joint("arm", axis=[0, 0, 0], name="j"), ["'j'", "axis"]),
    "nan axis": (lambda b: b.add_joint("arm", axis=[0, NAN, 0], name="j"), ["'j'", "axis"]),
    "range reversed": (lambda b: b.add_joint("arm", range=[1, -1], name="j"), ["'j'", "range"]),
    "range of ball": (lambda b: b.add_joint("arm", "ball", range=[-1, 1], name="j"), ["'j'", "range", "ball"]),
    "free not alone": (lambda b: b.add_joint("arm", "free", name="j"), ["'j'", "free"]),
    "negative damping": (lambda b: b.add_joint("arm", damping=-1, name="j"), ["'j'", "damping", "-1"]),
    "nan stiffness": (lambda b: b.add_joint("arm", stiffness=NAN, name="j"), ["'j'", "stiffness"]),
    "armature per dof": (lambda b: b.add_joint("arm", armature=[1, 2], name="j"), ["'j'", "armature", "(1,)"]),
    "zero ball q0": (lambda b: b.add_joint("arm", "ball", q0=[0] * 4, name="j"), ["'j'", "q0"]),
    "unknown geom type": (lambda b: b.add_geom("cone", [1], name="g"), ["'g'", "'cone'", "capsule"]),
    "geom size": (lambda b: b.add_geom("box", [1, 1], name="g"), ["'g'", "size"]),
    "negative size": (lambda b: b.add_geom("sphere", [-1], name="g"), ["'g'", "size"]),
    "nan size": (lambda b: b.add_geom("sphere", [NAN], name="g"), ["'g'", "size"]),
    "negative friction": (lambda b: b.add_geom("sphere", [1], friction=-1, name="g"), ["'g'", "friction"]),
    "friction triple": (lambda b: b.add_geom("sphere", [1], friction=[1, 0, 0], name="g"), ["'g'", "friction"]),
    "zero stiffness": (lambda b: b.add_geom("sphere", [1], stiffness=0, name="g"), ["'g'", "stiffness"]),
    "nan stiffness of geom": (lambda b: b.add_geom("sphere", [1], stiffness=NAN, name="g"), ["'g'", "stiffness"]),
    "dissipation": (lambda b: b.add_geom("sphere", [1], dissipation_time=-1, name="g"), ["'g'", "dissipation_time"]),
    "condim": (lambda b: b.add_geom("sphere", [1], condim=2, name="g"), ["'g'", "condim"]),
    "nan density": (lambda b: b.add_geom("sphere", [1], density=NAN, name="g"), ["'g'", "density"]),
    "colour": (lambda b: b.add_geom("sphere", [1], rgba=[1, 0, 0], name="g"), ["'g'", "rgba"]),
    "mesh without data": (lambda b: b.add_geom("mesh", name="g"), ["'g'", "mesh"]),
    "mesh index": (lambda b: b.add_geom("mesh", name="g", mesh=(np.eye(3), [[0, 1, 3]])), ["'g'", "faces"]),
    "plane on moving body": (lambda b: b.add_geom("plane", body="arm", name="g"), ["'g'", "plane"]),
    "geom name twice": (lambda b: b.add_geom("sphere", [1], name="bone"), ["'bone'", "twice"]),
    "unknown joint": (lambda b: b.add_actuator("knee"), ["joint", "'knee'", "elbow"]),
    "unknown actuator": (lambda b: b.add_actuator("elbow", "spring", name="a"), ["'a'", "'spring'"]),
    "control range": (lambda b: b.add_actuator("elbow", name="a", control_range=[1, -1]), ["'a'", "control_range"]),
    "nan force range": (lambda b: b.add_actuator("elbow", name="a", force_range=[NAN, 1]), ["'a'", "force_range"]),
    "negative gain": (lambda b: b.add_actuator("elbow", "position", kp=-1, name="a"), ["'a'", "kp"]),
    "energy fed in": (lambda b: b.add_actuator("elbow", "affine", gain=[0] * 3, bias=[0, 0, 1], name="a"), ["'a'"]),
    "affine without gain": (lambda b: b.add_actuator("elbow", "affine", name="a"), ["'a'", "gain"]),
    "nan gear": (lambda b: b.add_actuator("elbow", gear=NAN, name="a"), ["'a'", "gear"]),
    "no joint and no tendon": (lambda b: b.add_actuator(name="a"), ["'a'", "give one of joint, tendon"]),
    "unknown tendon": (lambda b: b.add_actuator(tendon="rope", name="a"), ["tendon", "'rope'"]),
    "tendon of nothing": (lambda b: b.add_tendon({"elbow": 0.0}, name="t"), ["'t'", "coefficient"]),
    "tendon of nan": (lambda b: b.add_tendon({"elbow": NAN}, name="t"), ["'t'", "'elbow'", "finite"]),
    "tendon of no joint": (lambda b: b.add_tendon({"knee": 1.0}, name="t"), ["'knee'", "elbow"]),
    "tendon range": (lambda b: b.add_tendon({"elbow": 1}, name="t", range=[1, 0]), ["'t'", "range"]),
    "tendon reference": (lambda b: b.add_tendon({"elbow": 1}, name="t", reference=[1, 0]), ["'t'", "reference"]),
    "tendon stiffness": (lambda b: b.add_tendon({"elbow": 1}, name="t", stiffness=-1), ["'t'", "stiffness"]),
    "unknown constraint": (lambda b: b.add_constraint("glue", "arm", name="c"), ["'c'", "'glue'", "weld"]),
    "constraint with itself": (lambda b: b.add_constraint("weld", "arm", "arm", name="c"), ["'c'", "itself"]),
    "constraint of no body": (lambda b: b.add_constraint("weld", "leg", name="c"), ["body", "'leg'"]),
    "constraint of no joint": (lambda b: b.add_constraint("joint", "knee", name="c"), ["joint", "'knee'"]),
    "constraint frame": (lambda b: b.add_constraint("weld", "arm", pose_a=[0, NAN, 0], name="c"), ["'c'", "pose"]),
    "constraint stiffness": (lambda b: b.add_constraint("weld", "arm", stiffness=0, name="c"), ["'c'", "stiffness"]),
    "constraint time": (
        lambda b: b.add_constraint("weld", "arm", dissipation_time=-1, name="c"),
        ["'c'", "dissipation"],
    ),
    "coefficients": (
        lambda b: b.add_constraint("joint", "elbow", coefficients=[0] * 6, name="c"),
        ["'c'", "at most 5"],
    ),
    "slope of nothing": (
        lambda b: b.add_constraint("joint", "elbow", coefficients=[0, 1], name="c"),
        ["'c'", "second"],
    ),
    "length of a weld": (lambda b: b.add_constraint("weld", "arm", length=1, name="c"), ["'c'", "length", "weld"]),
    "frame of a joint": (lambda b: b.add_constraint("joint", "elbow", pose_a=[0] * 3, name="c"), ["'c'", "pose_a"]),
    "negative length": (lambda b: b.add_constraint("distance", "arm", length=-1, name="c"), ["'c'", "length"]),
    "lengths reversed": (lambda b: b.add_constraint("distance", "arm", length=(2, 1), name="c"), ["'c'", "shortest"]),
    "zero length": (lambda b: b.add_constraint("distance", "arm", name="c"), ["'c'", "coincide"]),
    "constraint name twice": (
        lambda b: [b.add_constraint("weld", "arm", name="c") for _ in range(2)],
        ["'c'", "twice"],
    ),
    "exclude unknown": (lambda b: b.exclude("arm", "leg"), ["'leg'"]),
    "pair with itself": (lambda b: b.add_pair("bone", "bone", 1), ["'bone'", "itself"]),
    "pair friction": (lambda b: b.add_pair("bone", "floor", -1), ["'bone'", "friction"]),
    "keyframe shape": (lambda b: b.add_keyframe("home", q=[0, 0]), ["'home'", "q"]),
    "keyframe nan": (lambda b: b.add_keyframe("home", v=[NAN]), ["'home'", "v"]),
    "nan timestep": (lambda b: setattr(b, "timestep", NAN), ["timestep"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_error_that_names_the_element(case):
    b = arm()
    action, words = WRONG[case]
    with pytest.raises(ModelError) as error:
        action(b)
        b.build()
    for word in words:
        assert word in str(error.value)


def test_nan_gravity_is_refused():
    with pytest.raises(ModelError, match="gravity"):
        ModelBuilder(gravity=[0, NAN, 0])


def test_plane_on_a_body_that_gets_its_joint_later_is_refused():
    b = ModelBuilder()
    body = b.add_body("lift", mass=1)
    b.add_geom("plane", body=body, name="deck")
    b.add_joint(body, "slide")
    with pytest.raises(ModelError, match=r"'deck'.*'lift'"):
        b.build()


def singular(kind: str, com, inertia, axis=(0, 0, 1)) -> ModelBuilder:
    b = ModelBuilder()
    b.add_body("x", mass=1.0, com=com, inertia=inertia)
    b.add_joint("x", kind, axis=axis, name="j")
    return b


@pytest.mark.parametrize(
    "kind, com, inertia",
    [
        ("free", [0, 0, 0], [0, 0, 0]),  # a point mass cannot turn
        ("free", [1, 2, 3], [0, 0, 0]),
        ("free", [0, 0, 0], [1, 1, 0]),  # an infinitely thin rod cannot turn about itself
        ("ball", [1, 0, 0], [0, 0, 0]),
        ("hinge", [0, 0, 1], [0, 0, 0]),  # a point mass on the axis
    ],
)
def test_a_degree_of_freedom_without_inertia_is_refused(kind, com, inertia):
    with pytest.raises(ModelError, match=r"'j'.*singular"):
        singular(kind, com, inertia).build()


def test_point_masses_where_the_mass_matrix_is_regular_are_accepted():
    singular("hinge", [1, 0, 0], [0, 0, 0]).build()
    singular("slide", [0, 0, 0], [0, 0, 0]).build()
    b = ModelBuilder()  # a massless gimbal that carries a pendulum, and a massless link with an armature
    for name, axis in (("outer", [1, 0, 0]), ("inner", [0, 1, 0])):
        b.add_body(name, parent=len(b.bodies) - 1, mass=0)
        b.add_joint(name, "hinge", axis=axis)
    b.add_body("bob", parent="inner", mass=1, com=[0, 0, -1])
    b.add_body("rotor", mass=0)
    b.add_joint("rotor", armature=0.1)
    assert b.build().nv == 3
    b.add_joint("bob", axis=[0, 1, 0], name="twin")
    b.add_joint("bob", axis=[0, 1, 0], name="same")
    with pytest.raises(ModelError, match=r"'twin'.*singular"):  # two joints on one axis
        b.build()


def test_empty_and_fixed_models_build():
    empty = ModelBuilder().build()
    assert (empty.nq, empty.nv, empty.nu, empty.nbody, empty.ntree, len(empty.pair_geom)) == (0,) * 6
    b = ModelBuilder()
    b.add_body("post", mass=3)
    b.add_body("sign", parent="post", pose=[0, 0, 1])
    b.add_geom("box", [1, 1, 1], body="sign")
    b.add_geom("plane")
    model = b.build()
    assert (model.nv, model.nlink, model.ntree, len(model.pair_geom)) == (0, 2, 1, 0)


def test_building_twice_sees_geoms_added_in_between():
    b = ModelBuilder()
    b.add_body("ball")
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=100)
    first = b.build().masses[0]
    b.add_geom("sphere", [0.1], body="ball", density=100, pose=[1, 0, 0])
    np.testing.assert_allclose(b.build().masses[0], 2 * first, rtol=1e-15)


SHAPES = {
    "sphere": [0.3],
    "capsule": [0.2, 0.5],
    "cylinder": [0.3, 0.2],
    "box": [0.1, 0.2, 0.4],
    "ellipsoid": [0.3, 0.2, 0.1],
}


def test_masses_from_densities_are_mujocos():
    """The same body of all shapes, turned and shifted, in MJCF and in code: mass, COM and inertia agree to rounding."""
    b, rng, geoms = ModelBuilder(), np.random.default_rng(0), ""
    b.add_body("rock")
    b.add_joint("rock", "free")
    for shape, size in SHAPES.items():
        quaternion = rng.normal(size=4)
        pose = [*rng.normal(size=3), *(quaternion / np.linalg.norm(quaternion))]
        density = rng.uniform(100, 1000)
        b.add_geom(shape, size, body="rock", pose=pose, density=density)
        text = {"pos": pose[:3], "quat": pose[3:], "size": size, "density": [density]}
        geoms += f'<geom type="{shape}" ' + " ".join(
            f'{k}="{" ".join(map(repr, map(float, v)))}"' for k, v in text.items()
        )
        geoms += "/>"
    xml = f'<mujoco><worldbody><body name="rock"><freejoint/>{geoms}</body></worldbody></mujoco>'
    ours, theirs = b.build(), load_mujoco(mujoco.MjModel.from_xml_string(xml))
    np.testing.assert_allclose(ours.body_mass, theirs.body_mass, rtol=1e-12)
    np.testing.assert_allclose(ours.body_com, theirs.body_com, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours.body_inertia, theirs.body_inertia, rtol=1e-10, atol=1e-9)


def test_bodies_added_interleaved_are_numbered_depth_first():
    """Trees are contiguous in links and degrees of freedom, whatever the order of `add_body` and `add_joint`."""
    b = ModelBuilder()
    for name in ("a", "b"):
        b.add_body(name, mass=1, inertia=[1, 1, 1])
    for name, parent in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b1"), ("a11", "a1")):
        b.add_body(name, parent=parent, mass=1, inertia=[1, 1, 1])
    for body in ("b2", "a11", "a", "b", "a2", "b1", "a1", "b2"):  # b2 has two joints
        axis = [0, 0, 1] if len(b.joints) < 7 else [1, 0, 0]
        b.add_joint(body, "ball" if body == "b1" else "hinge", axis=axis, name=f"{body}/{len(b.joints)}")
    b.add_actuator("a11/1", name="motor")
    b.add_keyframe("home", q=np.arange(8 + 3) + 1.0)
    model = b.build()
    assert [n.split("/")[0] for n in model.joint_names] == ["a", "a1", "a11", "a2", "b", "b1", "b2", "b2"]
    assert model.link_tree.tolist() == [0] * 4 + [1] * 4
    assert (model.tree_link.tolist(), model.tree_v.tolist()) == ([0, 4, 8], [0, 4, 10])
    assert model.dof_parent.tolist() == [-1, 0, 1, 0, -1, 4, 5, 6, 7, 8]
    assert model.joint_names[model.actuator_joint[0]] == "a11/1"
    assert model.body_names == ("a", "b", "a1", "b1", "a2", "b2", "a11")
    assert [model.body_names[i] for i in model.joint_body] == ["a", "a1", "a11", "a2", "b", "b1", "b2", "b2"]
    assert all(model.link_parent < np.arange(model.nlink))
    np.testing.assert_allclose(np.linalg.norm(model.keyframes["home"].q[5:9]), 1)


def same(ours, theirs, skip=()):
    for field in dataclasses.fields(ours):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name in skip:
            continue
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15, err_msg=field.name)
        elif field.name == "keyframes":
            assert list(a) == list(b)
            for key in a:
                for x, y in zip(a[key], b[key], strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-15)
        elif field.name != "meshes":
            assert a == b, field.name


ROBOTS = ("ant", "half_cheetah", "hopper", "humanoid", "walker2d", "swimmer", "pusher")


def asset(name: str) -> str:
    gymnasium = pytest.importorskip("gymnasium")
    return f"{gymnasium.__path__[0]}/envs/mujoco/assets/{name}.xml"


@pytest.mark.parametrize("robot", ROBOTS)
def test_add_model_copies_every_array(robot):
    model = load_mujoco(asset(robot))
    b = ModelBuilder(model.name, gravity=model.gravity, timestep=model.timestep)
    b.density, b.viscosity, b.wind = model.fluid_density, model.fluid_viscosity, model.wind
    b.add_model(model)
    same(b.build(), model)


def test_add_model_places_roots_free_joints_and_keyframes():
    b = ModelBuilder("one")
    b.add_geom("plane", name="floor")
    b.add_body("car", pose=[1, 0, 2])
    b.add_joint("car", "free", stiffness=1.0, reference=[1, 0, 2, 0, 0, 0.5])
    b.add_geom("box", [1, 1, 1], body="car", name="hull")
    b.add_body("post", pose=[0, 3, 0])
    b.add_joint("post", "hinge", name="turn", anchor=[0.1, 0, 0])
    b.add_geom("capsule", [0.1, 1], body="post", name="pole")
    b.add_actuator("turn", name="motor")
    b.add_keyframe("home", v=[1, 0, 0, 0, 0, 1, 5], control=[3])
    b.exclude("car", "post")
    b.add_pair("floor", "pole", 0.25)
    one = b.build()
    pose = np.array([10.0, 0, 0, *TURN])
    two = ModelBuilder("two")
    two.add_model(one, prefix="left/")
    two.add_model(one, pose, prefix="right/")
    both = two.build()
    assert (both.nbody, both.nq, both.nu, both.ntree) == (4, 16, 2, 4)
    np.testing.assert_allclose(both.q0[8:15], compose(pose, one.q0[:7]), atol=1e-15)
    np.testing.assert_allclose(both.joint_pose[3], compose(pose, one.joint_pose[1]), atol=1e-15)
    frame = both.keyframes["right/home"]
    np.testing.assert_allclose(frame.v, [0] * 7 + [0, 1, 0, 0, 0, 1, 5], atol=1e-15)
    np.testing.assert_allclose(frame.control, [0, 3])
    np.testing.assert_allclose(both.joint_reference[7:13], [10, 1, 2, 0, 0, 0.5 + np.pi / 2], atol=1e-12)
    assert both.excluded.tolist() == [[0, 1], [2, 3]]
    names = [{both.geom_names[g] for g in pair} for pair in both.pair_geom[both.pair_rule == FrictionRule.EXPLICIT]]
    assert names == [{"left/floor", "left/pole"}, {"right/floor", "right/pole"}]
    with pytest.raises(ModelError, match="twice"):
        two.add_model(one, prefix="left/")


def test_add_model_keeps_the_friction_rule_or_says_why_not():
    xml = '<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
    model = load_mujoco(mujoco.MjModel.from_xml_string(xml))
    b = ModelBuilder()
    b.add_geom("plane")
    with pytest.raises(ModelError, match=r"'geom_0'.*prefix"):  # both have a geom without a name
        b.add_model(model)
    b = ModelBuilder()
    b.add_geom("plane")
    b.add_model(model, prefix="ball/")
    assert b.build().friction_rule == FrictionRule.MAXIMUM
    other = ModelBuilder()
    other.friction_rule = FrictionRule.HARMONIC
    with pytest.raises(ModelError, match="friction_rule"):
        other.add_model(model)
    assert ModelBuilder().build().friction_rule == FrictionRule.HARMONIC


def test_model_is_read_only_and_names_the_known_elements():
    model = arm().build()
    with pytest.raises(ValueError):
        model.body_mass[0] = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.name = "x"
    with pytest.raises(ValueError, match=r"'knee'.*elbow"):
        model.joint("knee")
    assert model.joint_coordinates("elbow") == (slice(0, 1), slice(0, 1))
    assert JointType(model.joint_type[0]) == JointType.HINGE


def test_pose_helpers_invert():
    rng = np.random.default_rng(1)
    for _ in range(20):
        vector = rng.normal(size=3)
        angle = np.linalg.norm(vector)
        pose = np.concatenate([rng.normal(size=3), axis_angle(vector / angle, angle)])
        np.testing.assert_allclose(compose(pose, inverse(pose)), [0, 0, 0, 1, 0, 0, 0], atol=1e-15)
        np.testing.assert_allclose(rotation_vector(-pose[3:]), rotation_vector(pose[3:]), atol=1e-15)
        if angle < np.pi:
            np.testing.assert_allclose(rotation_vector(pose[3:]), vector, rtol=1e-12)


def crank() -> ModelBuilder:
    """Two hinged bodies, a slide and a ball-jointed one, away from zero."""
    b = ModelBuilder("crank")
    for name, parent, pose in (("a", -1, [1, 2, 3, *TURN]), ("b", "a", [0.5, 0, 0])):
        b.add_body(name, parent=parent, pose=pose, mass=1.0, inertia=[1, 1, 1])
        b.add_joint(name, "hinge", name=f"{name}_turn", q0=[0.4], reference=0.1)
    b.add_body("c", pose=[0, 1, 0], mass=1.0, inertia=[1, 1, 1])
    b.add_joint("c", "ball", name="c_ball", anchor=[0.3, 0, 0], q0=axis_angle([0, 0, 1], 0.7))
    return b


def frames_coincide(model, c: int) -> bool:
    """Both frames at the initial pose, by forward kinematics."""
    poses = np.concatenate([body_poses(model, model.q0), [[0, 0, 0, 1, 0, 0, 0]]])
    pair = [compose(poses[x], p) for x, p in zip(model.constraint_body[c], model.constraint_pose[c], strict=True)]
    return bool(np.allclose(np.abs(compose(inverse(pair[0]), pair[1])), [0, 0, 0, 1, 0, 0, 0], atol=1e-12))


def test_frames_that_are_not_given_hold_in_the_initial_pose():
    """At b's origin by default (a's, for the world); the missing one of two matches the other, ball joints turned."""
    b = crank()
    b.add_constraint("weld", "a", "c")
    b.add_constraint("connect", "c")
    b.add_constraint("hinge", "b", "c", pose_a=[0.1, 0.2, 0.3, *TURN])
    b.add_constraint("slide", "b", "world", pose_b=[0.1, 0.2, 0.3])
    model = b.build()
    assert all(frames_coincide(model, c) for c in range(4))
    np.testing.assert_array_equal(model.constraint_pose[0, 1], [0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(model.constraint_pose[1, 0], [0, 0, 0, 1, 0, 0, 0])


def test_lengths_and_references_that_are_not_given_follow_from_the_model():
    """A distance is that of the initial pose; a tendon's spring rests where the joints' own springs rest."""
    b = crank()
    b.add_constraint("distance", "a", "b")
    b.add_tendon({"a_turn": 2.0, "b_turn": -0.5})
    model = b.build()
    np.testing.assert_allclose(model.constraint_coefficients[0], [0.5, 0.5, 0, 0, 0])
    np.testing.assert_allclose(model.tendon_reference, [[0.15, 0.15]])


def test_added_models_bring_their_constraints_and_tendons():
    """Prefixed, with indices moved, and frames in the world placed with the model."""
    b = crank()
    b.add_constraint("connect", "b", "world", name="pin", stiffness=1e4, dissipation_time=0.1)
    b.add_constraint("joint", "a_turn", "b_turn", name="mimic", coefficients=(0.1, 2.0), active=False)
    b.add_constraint("distance", "a", "c", name="rod")
    b.add_tendon({"a_turn": 2.0, "b_turn": -0.5}, name="cable", range=(0, 1), friction=0.3)
    b.add_constraint("tendon", "cable", name="lock")
    b.add_actuator(tendon="cable", kp=2.0, kind="position", name="winch")
    one = b.build()
    whole = ModelBuilder("two")
    whole.add_model(one, prefix="x/")
    whole.add_model(one, [1, 1, 1, *TURN], prefix="y/")
    two = whole.build()
    assert two.constraint_names == tuple(p + n for p in ("x/", "y/") for n in one.constraint_names)
    assert two.tendon_names == ("x/cable", "y/cable") and two.actuator_tendon.tolist() == [0, 1]
    assert two.constraint_body[4].tolist() == [4, -1] and two.constraint_joint[5].tolist() == [3, 4]
    assert (
        two.constraint_joint[7].tolist() == [1, -1] and two.constraint_active.tolist() == [True, False, True, True] * 2
    )
    assert all(frames_coincide(two, c) for c in (0, 4))
    np.testing.assert_array_equal(two.constraint_coefficients[4:], one.constraint_coefficients)
    np.testing.assert_array_equal(two.constraint_stiffness[4:], one.constraint_stiffness)
    np.testing.assert_array_equal(two.tendon_coefficients[1, 5:], one.tendon_coefficients[0])
    assert two.constraint("y/rod") == 6 and two.tendon("y/cable") == 1
