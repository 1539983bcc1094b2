# SPDX-License-Identifier: Apache-2.0
"""What a URDF has beyond the standard: read where it has a meaning here, else a line of the report, and a warning where it may change the motion."""

import warnings

import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.model import JointType

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
BALL = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
AXIS = '<axis xyz="0 0 1"/>'


def robot(
    link: str = INERTIAL + BALL, joint: str = AXIS, more: str = "", kind: str = "continuous", before: str = ""
) -> str:
    return (
        f'{before}<robot name="r"><link name="base"/><link name="a">{link}</link><joint name="j" type="{kind}"><parent link="base"/>'
        f'<child link="a"/>{joint}</joint>{more}</robot>'
    )


def read(tmp_path, text, **options):
    """The model, the lines that the plain robot has not, as `status: feature (detail)`, and the warnings."""
    known = set()
    for what in (robot(), text):
        path = tmp_path / "r.urdf"
        path.write_bytes(what if isinstance(what, bytes) else what.encode())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = load(path, **options)
        lines = {f"{line.status}: {line.feature} ({line.detail})" for line in model.report}
        new, known = lines - known, lines
    return model, new, [str(w.message) for w in caught]


LOST = {
    "loop": (robot(more='<loop_joint name="l" type="fixed"><link1 link="base"/></loop_joint>'), "<loop_joint> 'l'"),
    "bushing": (robot(more='<drake:linear_bushing_rpy/>'), "linear_bushing"),
    "macro": (robot(more='<xacro:leg side="l"/>'), "run xacro"),
    "mass as text": (robot(INERTIAL.replace('<mass value="1"/>', "<mass>1</mass>")), "mass of link 'a'"),
    "no mass": (robot(INERTIAL.replace('<mass value="1"/>', "")), "mass of link 'a'"),
    "no iyy": (robot(INERTIAL.replace('iyy="1"', "")), "iyy not given"),
    "two inertials": (robot(INERTIAL * 2), "a second <inertial>"),
    "two masses": (robot(INERTIAL.replace("<inertia ", '<mass value="2"/><inertia ')), "a second <mass>"),
    "two axes": (robot(joint=AXIS * 2), "a second <axis> of joint 'j'"),
    "attribute of a limit": (robot(joint=AXIS + '<limit uper="1"/>'), "attribute uper of joint 'j'"),
    "attribute of an inertial": (robot(INERTIAL.replace("<inertial>", '<inertial frame="b">')), "attribute frame"),
    "element of a joint": (robot(joint=AXIS + '<spring k="1"/>'), "<spring> of joint 'j'"),
    "element of a collision": (robot(INERTIAL + BALL.replace("</coll", "<surface/></coll")), "<surface>"),
    "gazebo": (robot(more='<gazebo reference="a"><kp>1e3</kp></gazebo>'), "<kp>"),
    "bullet": (robot(INERTIAL + '<contact><rolling_friction value="0.1"/></contact>'), "rolling_friction"),
    "a wrong number": (robot(more='<gazebo reference="a"><mu1>x</mu1></gazebo>'), "<mu1>"),
    "origin as text": (robot(joint="<origin>1 0 0</origin>"), "<origin>: text of joint 'j'"),
    "axis as text": (robot(joint="<axis>0 1 0</axis>"), "<axis>: text of joint 'j'"),
    "text after an element": (robot(joint="<limit><!-- -->lower=1</limit>"), "<limit>: text of joint 'j'"),
    "capitals": (robot(more='<Gazebo reference="a"><mu1>1</mu1></Gazebo>'), "<Gazebo>"),
    "links in a group": (robot(more='<group><link name="c"><inertial/></link></group>'), "<group>"),
    "attributes of contact": (robot(INERTIAL + '<contact lateral_friction="1"/>'), "attribute lateral_friction of link 'a'"),
    "attribute of gazebo": (robot(more='<gazebo ref="a"><gravity>0</gravity></gazebo>'), "attribute ref"),
    "static": (robot(more="<gazebo><static>true</static></gazebo>"), "<static>"),
    "rotor of no joint": (robot(more='<transmission name="t"><joint name="q"/><actuator name="m"><drake:rotor_inertia value="1"/></actuator></transmission>'), "rotor"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_may_change_the_motion_is_warned_of(tmp_path, name):
    text, words = LOST[name]
    _, lines, caught = read(tmp_path, text)
    assert any(line.startswith("refused") and words in line for line in lines), lines
    assert sum("not simulated" in message and "model.report" in message for message in caught) == 1


IDLE = {
    "attribute of the robot": (robot().replace('name="r"', 'name="r" maker="x"'), "attribute maker"),
    "element of the robot": (robot(more="<color/>"), "<color>"),
    "property": (robot(more='<xacro:property name="w" value="1"/>'), "xacro:property"),
    "visual": (robot(INERTIAL + '<visual><geometry><sphere radius="1" glow="2"/></geometry></visual>'), "attribute glow"),
    "acceleration": (robot(joint=AXIS + '<limit acceleration="1"/>'), "accelerations are not limited"),
    "plugin": (robot(more='<gazebo><plugin name="p"/></gazebo>'), "<plugin>"),
    "restitution of 0": (robot(INERTIAL + '<contact><restitution value="0.0"/></contact>'), "changes nothing"),
    "limits of a wheel": (robot(joint=AXIS + '<limit lower="-1" upper="1"/>'), "continuous joints have none"),
    "limits that cross": (robot(joint=AXIS + '<limit lower="1" upper="-1"/>', kind="revolute"), "above upper, -1: unlimited"),
    "a colour of three": (robot(INERTIAL + '<visual><geometry><sphere radius="1"/></geometry><material name="m"><color rgba="1 0 0"/></material></visual>'), "grey instead"),
    "a colour of 255": (robot(INERTIAL + '<visual><geometry><sphere radius="1"/></geometry><material name="m"><color rgba="255 0 0 1"/></material></visual>'), "cut to 0 .. 1"),
    "text of a link": (robot(INERTIAL + "heavy"), "<link>: text of link 'a'"),
    "not static": (robot(more="<gazebo><static>false</static></gazebo>"), "<static>"),
    "filters that are off": (robot(more='<drake:collision_filter_group name="g" ignore="true"><drake:member link="none"/></drake:collision_filter_group>'), 'ignore="true"'),
    "no colour": (robot(INERTIAL + '<visual><geometry><sphere radius="1"/></geometry><material name="m"><color/></material></visual>'), "grey instead"),
    "no such material": (robot(INERTIAL + '<visual><geometry><sphere radius="1"/></geometry><material name="nope"/></visual>'), "'nope'"),
}  # fmt: skip


@pytest.mark.parametrize("name", IDLE)
def test_what_cannot_change_the_motion_has_a_line(tmp_path, name):
    text, words = IDLE[name]
    _, lines, caught = read(tmp_path, text)
    assert any(words in line for line in lines) and not caught, (lines, caught)


@pytest.mark.parametrize(
    "geometry",
    [
        "",
        "<sphere/><box/>",
        '<box size="1 1"/>',
        '<mesh filename="a.stl" scale="1 1 1 1"/>',
        "<torus/>",
        '<mesh filename="none.stl"/>',
        '<sphere radius="-1"/>',
        '<cylinder radius="1" length="-2"/>',
    ],
)
def test_a_faulty_visual_is_not_drawn(tmp_path, geometry):
    model, lines, caught = read(tmp_path, robot(INERTIAL + BALL + f"<visual><geometry>{geometry}</geometry></visual>"))
    assert model.ngeom == 1 and any("not drawn" in line for line in lines) and len(caught) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (robot(kind="screw"), "unknown type 'screw'"),
        (robot(INERTIAL + "<collision/>"), "<geometry> must have one shape"),
        (robot(INERTIAL + BALL.replace("sphere", "cone")), "unknown shape <cone>"),
        (robot(INERTIAL + BALL.replace('<sphere radius="0.1"/>', '<mesh filename="none.stl"/>')), "none.stl"),
    ],
)
def test_what_is_an_error_is_left_out_where_asked(tmp_path, text, words):
    with pytest.raises(ModelError, match=f"{words}.*unsupported='report'"):
        read(tmp_path, text)
    model, lines, caught = read(tmp_path, text, unsupported="report")
    assert model.nbody == 2 and any("refused" in line and words in line for line in lines) and len(caught) == 1


def test_friction_springs_gravity_and_reflected_inertia(tmp_path):
    """Gazebo's and Bullet's friction, Gazebo's spring and gravity, Drake's rotor: armature = inertia times ratio squared."""
    gazebo = '<gazebo reference="a"><mu1>0.25</mu1><turnGravityOff>true</turnGravityOff></gazebo>'
    gazebo += (
        '<gazebo reference="j"><springStiffness>3</springStiffness><springReference>-0.5</springReference></gazebo>'
    )
    rotor = '<transmission name="t"><joint name="j"/><actuator name="m"><drake:rotor_inertia value="0.1"/><drake:gear_ratio value="10"/></actuator></transmission>'
    model, _, caught = read(tmp_path, robot(more=gazebo + rotor))
    assert not caught
    assert (model.geom_friction[0], model.joint_stiffness[0], model.joint_armature[0]) == (
        0.25,
        3.0,
        pytest.approx(10.0),
    )
    assert (model.body_gravcomp[1], model.joint_reference[0]) == (1.0, -0.5)
    model, _, _ = read(tmp_path, robot(INERTIAL + BALL + '<contact><lateral_friction value="0.5"/></contact>'))
    assert model.geom_friction[0] == 0.5
    model, _, _ = read(tmp_path, robot(joint=AXIS + '<dynamics spring_stiffness="2" spring_reference="0.1"/>'))
    assert (model.joint_stiffness[0], model.joint_reference[0]) == (2.0, 0.1)


FILTER = '<drake:collision_filter_group name="g"><drake:member link="a"/></drake:collision_filter_group><drake:collision_filter_group name="h"><drake:member link="b"/><drake:ignored_collision_filter_group name="g"/></drake:collision_filter_group>'


@pytest.mark.parametrize(
    ("more", "touching"),
    [
        ("", True),
        (FILTER, False),
        (
            FILTER.replace('<drake:member link="a"/>', '<drake:member_group name="k"/>')
            + '<drake:collision_filter_group name="k"><drake:member link="a"/></drake:collision_filter_group>',
            False,
        ),
        ('<gazebo reference="a"><selfCollide>false</selfCollide></gazebo>', False),
        ("<gazebo><self_collide>0</self_collide></gazebo>", False),
        ("<gazebo><self_collide>1</self_collide></gazebo>", True),
    ],
)
def test_links_that_never_touch(tmp_path, more, touching):
    """Two links on one base touch, unless groups of Drake or Gazebo's self collision say otherwise; merged links keep their rules."""
    second = f'<link name="b">{INERTIAL}{BALL}</link><joint name="k" type="continuous"><parent link="base"/><child link="b"/>{AXIS}</joint>'
    model, lines, caught = read(tmp_path, robot(more=second + more))
    assert bool(len(model.pair_geom)) == touching and not caught
    assert any("touch" in line for line in lines) == bool(more)


def test_spherical_joints(tmp_path):
    """Bullet's `spherical` and Drake's `ball` are ball joints."""
    model, _, caught = read(tmp_path, robot(kind="spherical", joint='<dynamics damping="0.5"/>'))
    assert [JointType(t) for t in model.joint_type] == [JointType.BALL] and model.nq == 4 and not caught
    np.testing.assert_array_equal(model.joint_damping, 0.5)
    drake = robot(kind="ball").replace("<joint", "<drake:joint").replace("</joint>", "</drake:joint>")
    assert [JointType(t) for t in read(tmp_path, drake)[0].joint_type] == [JointType.BALL]


@pytest.mark.parametrize(
    "data",
    [
        b"\n \n%s",
        b"\xef\xbb\xbf%s",
        b"\n\xef\xbb\xbf%s",
        b"<!-- by hand -->\n%s",
        b"%s\0",
        b"\0%s\0\0\n",
        b"%s\n\x1a",
        b"<!-- -- -->\n\n%s",
    ],
)
@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_what_stands_around_the_document(tmp_path, data, suffix):
    """Blank lines, comments, NULs and byte order marks around a document, as editors of other systems leave them; errors still name its lines."""
    head = '<?xml version="1.0"?>\n'
    text = (
        robot(before=head)
        if suffix == ".urdf"
        else f"{head}<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>"
    )
    path = tmp_path / f"m{suffix}"
    path.write_bytes(data.replace(b"%s", text.encode()))
    assert load(path).nv == 1
    if suffix == ".urdf":
        return
    path.write_bytes(data.replace(b"%s", text.replace("size", "sise").encode()))
    with pytest.raises(ModelError, match=f"line {data.split(b'%s')[0].count(10) + 2} of m.xml"):
        load(path)


def test_utf_16_with_a_blank_line(tmp_path):
    path = tmp_path / "m.urdf"
    path.write_bytes(("\n" + robot(before='<?xml version="1.0" encoding="utf-16"?>\n')).encode("utf-16"))
    assert load(path).nv == 1
