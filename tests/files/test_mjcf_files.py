# SPDX-License-Identifier: Apache-2.0
"""MJCF over several files: includes, defaults, the compiler's angles and directories, against the same model in one."""

import itertools
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np
import pytest

from warpsim.files.load import load
from warpsim.files.mjcf import mjcf_files
from warpsim.model import ModelBuilder


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return folder / "main.xml"


PLAIN = """<mujoco><worldbody><body name="a" pos="0 0 1" euler="0 90 0"><joint name="j" axis="0 1 0" damping="0.3"
range="-30 60" armature="0.02"/><geom name="g" type="capsule" size=".1 .2" friction="0.4 0.1 0.1"/></body></worldbody>
<actuator><motor name="m" joint="j" gear="5" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>"""


def arrays(model):
    names = ("q0", "body_mass", "body_inertia", "link_pose", "joint_axis", "joint_range", "joint_damping", "joint_armature",
             "geom_size", "geom_pose", "geom_friction", "actuator_gear", "control_range")  # fmt: skip
    return {name: getattr(model, name) for name in names}


def check(path, reference):
    model = load(path)
    for name, value in arrays(reference).items():
        np.testing.assert_allclose(getattr(model, name), value, rtol=1e-9, atol=1e-12, err_msg=name)
    assert (model.body_names, model.joint_names) == (reference.body_names, reference.joint_names)
    return model


def test_includes_are_the_text_they_stand_for(tmp_path):
    """A body and an actuator from files of their own, one of them in a folder."""
    (tmp_path / "parts").mkdir()
    body = PLAIN[PLAIN.index("<body") : PLAIN.index("</worldbody>")]
    (tmp_path / "parts" / "arm.xml").write_text(f"<mujocoinclude>{body}</mujocoinclude>")
    motor = PLAIN[PLAIN.index("<actuator>") : PLAIN.index("</mujoco>")]
    text = '<mujoco><worldbody><include file="parts/arm.xml"/></worldbody><include file="motor.xml"/></mujoco>'
    path = write(tmp_path, main=text, motor=f"<mujoco>{motor}</mujoco>")
    check(path, load(mujoco.MjModel.from_xml_string(PLAIN)))


def test_default_classes_and_childclass(tmp_path):
    """Defaults of the root, of a class inside it, by class= and by childclass=, in an included file."""
    defaults = """<mujoco><default><joint damping="0.3" axis="0 1 0"/><geom friction="0.4 0.1 0.1"/>
    <default class="arm"><joint range="-30 60" armature="0.02"/><geom type="capsule" size=".1 .2"/>
    <motor gear="5" ctrlrange="-1 1" ctrllimited="true"/></default></default></mujoco>"""
    text = """<mujoco><include file="defaults.xml"/><worldbody><body name="a" pos="0 0 1" euler="0 90 0" childclass="arm">
    <joint name="j"/><geom name="g"/></body></worldbody><actuator><motor class="arm" name="m" joint="j"/></actuator></mujoco>"""
    check(write(tmp_path, main=text, defaults=defaults), load(mujoco.MjModel.from_xml_string(PLAIN)))


@pytest.mark.parametrize("sequence, euler", [("xyz", "0 {} 0"), ("zyx", "0 {} 0"), ("XYZ", "0 {} 0")])
def test_angles_in_radians_and_euler_sequences(tmp_path, sequence, euler):
    """The same angles in radians; a rotation about y alone is the same in every sequence."""
    text = PLAIN.replace("<mujoco>", f'<mujoco><compiler angle="radian" eulerseq="{sequence}"/>')
    text = text.replace('euler="0 90 0"', f'euler="{euler.format(np.pi / 2)}"')
    text = text.replace("-30 60", f"{-np.pi / 6} {np.pi / 3}")
    check(write(tmp_path, main=text), load(mujoco.MjModel.from_xml_string(PLAIN)))


def test_euler_sequences_differ(tmp_path):
    """Angles about two axes, for each sequence as MuJoCo's own compiler has them."""
    for sequence in ("xyz", "zyx", "XYZ", "yxz"):
        text = PLAIN.replace("<mujoco>", f'<mujoco><compiler eulerseq="{sequence}"/>').replace("0 90 0", "20 40 60")
        compiled = mujoco.MjModel.from_xml_string(text)
        pose = load(write(tmp_path, main=text)).link_pose[0]
        np.testing.assert_allclose(pose[3:], compiled.body_quat[1], atol=1e-12)


def test_limits_turned_off_and_local_mesh_folder(tmp_path):
    """`limited` off leaves a range without effect; meshes come from `meshdir` inside the model's folder."""
    text = PLAIN.replace('range="-30 60"', 'range="-30 60" limited="false"')
    assert not load(write(tmp_path, main=text)).joint_limited.any()
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    text = '<mujoco><compiler meshdir="assets"/><asset><mesh file="t.obj"/></asset><worldbody><body><freejoint/>'
    model = load(write(tmp_path, main=text + '<geom type="mesh" mesh="t"/></body></worldbody></mujoco>'))
    np.testing.assert_allclose(model.body_mass, 1000 / 6, rtol=1e-6)


def test_comments_that_xml_forbids_are_accepted(tmp_path):
    """`--` inside a comment, as MuJoCo accepts it."""
    text = PLAIN.replace("<worldbody>", "<!-- ---- arm ---- --><worldbody>")
    check(write(tmp_path, main=text), load(mujoco.MjModel.from_xml_string(PLAIN)))


def test_equalities_are_read(tmp_path):
    text = PLAIN.replace("</mujoco>", '<equality><joint name="lock" joint1="j"/></equality></mujoco>')
    model = load(write(tmp_path, main=text))
    assert model.constraint_names == ("lock",) and model.constraint_joint.tolist() == [[0, -1]]
    assert any("lock" in line.feature and line.status == "used" for line in model.report)


def test_decomposed_meshes_touch_with_their_parts(tmp_path, monkeypatch):
    """`decompose=True`: the mesh is drawn, hidden convex parts touch, mass and inertia stay."""
    pytest.importorskip("coacd")
    from test_meshes import l_prism

    monkeypatch.setenv("WARPSIM_CACHE_PATH", str(tmp_path / "cache"))
    vertices, faces = l_prism()
    v, f = (" ".join(map(str, x.ravel())) for x in (vertices, faces))
    text = (
        f'<mujoco><asset><mesh name="l" vertex="{v}" face="{f}"/></asset><worldbody><geom type="plane" size="1 1 1"/>'
    )
    text += '<body pos="0 0 1"><freejoint/><geom name="part" type="mesh" mesh="l"/></body></worldbody></mujoco>'
    path = write(tmp_path, main=text)
    whole, parts = load(path), load(path, decompose={"mcts_iterations": 30})
    assert parts.ngeom >= whole.ngeom + 2 and len(parts.pair_geom) == parts.ngeom - 2
    assert not parts.geom_contype[parts.geom("part")] and not parts.geom_visible[parts.geom("part_part_0")]
    np.testing.assert_allclose(parts.body_inertia, whole.body_inertia)
    b = ModelBuilder()
    b.add_model(parts)
    assert b.build().ngeom == parts.ngeom


def test_attributes_are_quoted_as_the_standard_library_does():
    """Every string of up to three of the characters that matter, in the text of `quoteattr`, and read back as it was."""
    for length in range(4):
        for characters in itertools.product("a&<>\n\r\t\"'é", repeat=length):
            value = "".join(characters)
            quoted = mjcf_files._quoted(value)
            assert quoted == quoteattr(value, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
            assert ElementTree.fromstring(f"<a b={quoted}/>").get("b") == value
