"""URDF files through MuJoCo's parser: links, joints, limits, inertia and the actuators a URDF does not have."""

import numpy as np
import pytest

from warpsim.errors import ModelError
from warpsim.io.load import load
from warpsim.model import JointType

INERTIA = '<inertia ixx="0.4" ixy="0.01" ixz="0.02" iyy="0.5" iyz="0.03" izz="0.6"/>'


def link(name: str, shape: str = "") -> str:
    inertial = f'<inertial><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><mass value="2"/>{INERTIA}</inertial>'
    touch = f"<collision><geometry>{shape}</geometry></collision>" if shape else ""
    return f'<link name="{name}">{inertial}{touch}<visual><geometry><sphere radius="1"/></geometry></visual></link>'


def joint(name: str, kind: str, parent: str, child: str, more: str = "", axis: str = "0 1 0") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0 0.5" rpy="0.3 0 0"/><axis xyz="{axis}"/>{more}</joint>'
    )


ROBOT = f"""<?xml version="1.0"?><robot name="rig">
  {link("base", '<box size="1 1 0.2"/>')}{link("upper", '<cylinder radius="0.1" length="0.6"/>')}
  {link("wheel", '<sphere radius="0.2"/>')}{link("slider", '<box size="0.2 0.2 0.2"/>')}{link("tool")}
  {
    joint(
        "shoulder",
        "revolute",
        "base",
        "upper",
        '<limit lower="-1" upper="2" effort="30" velocity="3"/><dynamics damping="0.5" friction="0.2"/>',
    )
}
  {joint("spin", "continuous", "upper", "wheel", '<limit effort="7" velocity="9"/>', "1 0 0")}
  {joint("extend", "prismatic", "upper", "slider", '<limit lower="0" upper="0.4" effort="50" velocity="1"/>', "0 0 1")}
  {joint("mount", "fixed", "slider", "tool")}
  <transmission name="t"/>
</robot>"""


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "rig.urdf"
    path.write_text(ROBOT)
    return path


def test_links_joints_and_limits(robot):
    model = load(robot)
    assert (model.nq, model.nv, model.nu) == (3, 3, 0)
    assert model.body_names == ("base", "upper", "wheel", "slider", "tool")  # links on fixed joints stay
    kinds = {n: JointType(t) for n, t in zip(model.joint_names, model.joint_type, strict=True)}
    assert kinds == {"shoulder": JointType.HINGE, "spin": JointType.HINGE, "extend": JointType.SLIDE}
    assert model.joint_limited.tolist() == [True, False, True]
    np.testing.assert_allclose(model.joint_range[[0, 2]], [[-1, 2], [0, 0.4]])
    np.testing.assert_allclose((model.joint_damping[0], model.joint_friction[0]), (0.5, 0.2))
    assert [model.body_names[b] for b in model.geom_body] == ["base", "upper", "wheel", "slider"]
    np.testing.assert_allclose(model.geom_size[1, :2], [0.1, 0.3])


def test_mass_and_inertia_are_pinocchios(robot):
    """Per moving joint, with the tool lumped into the slider: mass, COM and rotational inertia."""
    pin = pytest.importorskip("pinocchio")
    reference, model = pin.buildModelFromUrdf(str(robot)), load(robot)
    assert (reference.nv, sorted(reference.names)[1:]) == (model.nv, sorted(["shoulder", "spin", "universe"]))
    for name in ("shoulder", "spin"):
        body, theirs = model.joint_body[model.joint(name)], reference.inertias[reference.getJointId(name)]
        np.testing.assert_allclose(model.body_mass[body], theirs.mass)
        np.testing.assert_allclose(model.body_com[body], theirs.lever, atol=1e-12)
        np.testing.assert_allclose(model.body_inertia[body], theirs.inertia, atol=1e-12)
    slider = reference.inertias[reference.getJointId("extend")]
    np.testing.assert_allclose(model.body_mass[3] + model.body_mass[4], slider.mass)


def test_links_without_inertial_have_no_mass(robot):
    """Where MuJoCo would fill the collision shape with water; a moving one is an error."""
    bare = '<link name="base"><collision><geometry><box size="1 1 0.2"/></geometry></collision></link>'
    robot.write_text(ROBOT.replace(link("base", '<box size="1 1 0.2"/>'), bare))
    assert load(robot).body_mass[0] == 0
    robot.write_text(ROBOT.replace(link("wheel", '<sphere radius="0.2"/>'), bare.replace("base", "wheel")))
    with pytest.raises(ModelError, match=r"mass.*'wheel'"):
        load(robot)


TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)


@pytest.mark.parametrize("name", ["package://rig_description/meshes/tetra.obj", "../meshes/tetra.obj"])
def test_meshes_are_found_in_packages_and_beside_the_file(tmp_path, name):
    for folder in ("urdf", "meshes"):
        (tmp_path / "rig_description" / folder).mkdir(parents=True)
    path = tmp_path / "rig_description" / "urdf" / "rig.urdf"
    path.write_text(ROBOT.replace('<sphere radius="0.2"/>', f'<mesh filename="{name}"/>'))
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in TETRAHEDRON)
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "rig_description" / "meshes" / "tetra.obj").write_text(vertices + faces)
    model = load(path)
    assert len(model.meshes) == 1 and len(model.meshes[0].vertices) == 4


def test_effort_actuators_take_the_files_effort_limits(robot):
    model = load(robot, actuators="effort")
    assert model.actuator_names == model.joint_names
    np.testing.assert_allclose(model.control_range, [[-30, 30], [-7, 7], [-50, 50]])
    assert np.isinf(model.force_range).all()
    assert model.actuator_gain.tolist() == [[1, 0, 0]] * 3 and not model.actuator_bias.any()


def test_position_actuators_take_joint_and_effort_limits(robot):
    model = load(robot, actuators="position")
    np.testing.assert_allclose(model.control_range, [[-1, 2], [-np.inf, np.inf], [0, 0.4]])
    np.testing.assert_allclose(model.force_range, [[-30, 30], [-7, 7], [-50, 50]])
    assert (model.actuator_gain[:, 0] > 0).all() and (model.actuator_bias[:, 1:] < 0).all()
    assert any("kp = 100" in line.detail for line in model.report)


def test_what_a_urdf_loses_is_reported(robot):
    report = {line.feature: line.status for line in load(robot).report}
    for feature in ("velocity limits of joints", "visual shapes", "transmissions"):
        assert report[feature] == "ignored"
    assert report["link 'base'"] == "mapped"
    robot.write_text(ROBOT.replace('upper="0.4"', 'upper="0"'))
    assert any(line.feature == "limits of joint 'extend'" for line in load(robot).report)
    assert report["actuatorfrcrange of joints without actuators"] == "ignored"


@pytest.mark.parametrize(
    "change, words",
    [
        (('type="revolute"', 'type="screw"'), "screw|joint"),
        (('<mass value="2"/>', '<mass value="-2"/>'), "mass"),
        (('<child link="upper"/>', '<child link="lost"/>'), "'shoulder'.*child link 'lost'"),
        (("</robot>", ""), "XML"),
        (('<limit effort="7" velocity="9"/>', '<mimic joint="shoulder"/>'), "equality.*'spin' and 'shoulder'"),
        (('<sphere radius="0.2"/>', '<mesh filename="package://rig/none.stl"/>'), "none.stl"),
    ],
)
def test_broken_urdfs_are_one_error_that_names_the_file(robot, change, words, monkeypatch):
    monkeypatch.chdir(robot.parent)
    robot.write_text(ROBOT.replace(*change))
    with pytest.raises(ModelError, match=f"(?s)rig.urdf.*({words})"):
        load(robot)
