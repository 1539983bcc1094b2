# SPDX-License-Identifier: Apache-2.0
"""Which files a model may read: those of one folder, whatever its text says and however its parsers might read it."""

import os
import shutil
import warnings

import mujoco
import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.mjcf.mjcf import compile_bundle
from warpsim.files.mjcf.mjcf_files import bundle

TETRA = "v 0 0 0\nv {0} 0 0\nv 0 {0} 0\nv 0 0 {0}\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
SHOWN = '<worldbody><geom type="mesh" mesh="m"/></worldbody>'
MESH = '<mujoco><asset><mesh name="m" file="{}"/></asset>' + SHOWN + "</mujoco>"
LINK = '<robot name="r"><link name="a"><{use}><geometry><mesh filename="{file}"/></geometry></{use}></link></robot>'


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """`in` for models, `secret` with a mesh beside it; MuJoCo's log goes to the current folder, which is another."""
    for name in ("in", "secret", "cwd"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret" / "mesh.obj").write_text(TETRA.format(7))
    (tmp_path / "secret" / "field").write_bytes(np.array([2, 2], "i4").tobytes() + np.ones(4, "f4").tobytes())
    (tmp_path / "secret" / "part.xml").write_text('<mujoco><worldbody><geom size="7"/></worldbody></mujoco>')
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path / "in"


def write(folder, text, name="r.xml"):
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    return folder / name


def outside(path, **options):
    """Loading is refused by a message that names the file and says why."""
    with pytest.raises(ModelError, match=r"(?s)r\.(xml|urdf).*outside|no file in the model's folder") as caught:
        load(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", [r"..\secret\mesh.obj", r"x\..\..\secret\mesh.obj", r"..\secret/mesh.obj"])
def test_backslashes_are_separators(folders, name):
    """MuJoCo reads `\\` as `/`: a name with them leaves the folder as one with `/` does."""
    outside(write(folders, MESH.format(name)))
    field = f'<mujoco><asset><hfield name="h" size="1 1 1 1" file="{name[:-8]}field"/></asset></mujoco>'
    outside(write(folders, field))
    directory = name[: -len("mesh.obj")]
    text = MESH.format("mesh.obj").replace("<asset>", f'<compiler meshdir="{directory}"/><asset>')
    outside(write(folders, text))
    path = write(folders, MESH.format(r"parts\mesh.obj"))
    write(folders, TETRA.format(1), "parts/mesh.obj")
    assert load(path).ngeom == 1


@pytest.mark.parametrize("suffix", [".txt", ".inc", "", ".XML", ".xml.bak"])
def test_included_files_of_any_suffix_are_looked_through(folders, suffix):
    """An include is XML whatever it is called: what it names must lie inside, too."""
    write(folders, MESH.format("../secret/mesh.obj"), f"part{suffix}")
    outside(write(folders, f'<mujoco><include file="part{suffix}"/></mujoco>'))
    write(folders, '<mujoco><include file="../secret/part.xml"/></mujoco>', f"part{suffix}")
    outside(write(folders, f'<mujoco><include file="part{suffix}"/></mujoco>'))
    write(folders, '<any><worldbody><geom size="3"/></worldbody></any>', f"part{suffix}")
    assert load(write(folders, f'<mujoco><include file="part{suffix}"/></mujoco>')).geom_size[0][0] == 3


@pytest.mark.parametrize(
    "kind", ['file="sub.xml"', 'file="sub.txt" content_type="text/xml"', 'file="sub" content_type="text/xml"']
)
def test_attached_models_are_looked_through(folders, kind):
    """A `<model>` of any suffix, with a content type or without, and those it attaches in turn."""
    name = kind.split('"')[1]
    text = (
        f'<mujoco><asset><model name="s" {kind}/></asset><worldbody><attach model="s" prefix="p"/></worldbody></mujoco>'
    )
    path = write(folders, text)
    write(folders, MESH.format("../secret/mesh.obj"), name)
    outside(path)
    write(folders, text.replace(kind, 'file="../secret/part.xml"'), name)
    outside(path)
    write(folders, MESH.format("mesh.obj"), name)
    write(folders, TETRA.format(1), "mesh.obj")
    assert load(path).ngeom == 1
    write(folders, '<robot name="r"><link name="a"/></robot>', name)
    with pytest.raises(ModelError, match="no MJCF model: its root element is <robot>"):
        load(path)


EVIL = MESH.format("../secret/mesh.obj")
PARSERS = {
    "a comment in a DOCTYPE": f"<!DOCTYPE m [<!-- ]>{EVIL}<!-- -->]><mujoco/>",
    "an instruction in a DOCTYPE": f"<!DOCTYPE m [<?a ]>{EVIL}<?b ?>]><mujoco/>",
    "a default in a DOCTYPE": '<!DOCTYPE m [<!ATTLIST mesh file CDATA "../secret/mesh.obj">]>'
    + EVIL.replace('file="../secret/mesh.obj"', ""),
    "the start of a comment in a value": '<mujoco><asset><mesh name="<!--" file="../secret/mesh.obj"/><material name="-->"/>'
    '</asset><worldbody><geom type="mesh" mesh="&lt;!--"/></worldbody></mujoco>',
    "a name with an entity": EVIL.replace("../", "&#46;&#x2e;/"),
    "an entity": f'<!DOCTYPE m [<!ENTITY e "../secret/mesh.obj">]>{EVIL.replace("../secret/mesh.obj", "&e;")}',
}


@pytest.mark.parametrize("text", PARSERS.values(), ids=PARSERS.keys())
def test_text_that_parsers_read_differently(folders, text):
    """Only one parser reads the file: MuJoCo is given what it found, whatever MuJoCo's own would find."""
    path = write(folders, text)
    try:
        model = load(path, unsupported="report")
    except ModelError as error:
        assert "r.xml" in str(error)
    else:
        assert model.ngeom == 0  # not the secret mesh


def test_packages_named_like_a_folder_above_are_not_read(folders):
    """`package://NAME/...` never leaves the model's folder, though NAME is a folder, or a ROS package, above or beside."""
    above = folders.parent
    path = write(folders / "deep" / "er", "", "r.urdf")
    for name in (above.name, above.parent.name, "in", "secret"):
        for inner in ("secret/mesh.obj", "../secret/mesh.obj", "mesh.obj"):
            path.write_text(LINK.format(use="collision", file=f"package://{name}/{inner}"))
            outside(path)
    (above / "secret" / "package.xml").write_text("<package><name>secret</name></package>")
    path.write_text(LINK.format(use="collision", file="package://secret/mesh.obj"))
    assert "packages={'secret': path} or root=" in outside(path)
    pytest.importorskip("trimesh")
    assert load(path, packages={"secret": above / "secret"}).ngeom and load(path, root=above).ngeom


@pytest.mark.parametrize("place", ["arm/meshes/m.obj", "meshes/m.obj", "deep/arm/meshes/m.obj"])
def test_packages_in_the_models_folder(folders, place):
    """`package://name/rest` is `<folder>/name/rest`, or rest itself, in the model's folder, or that of its package.xml."""
    pytest.importorskip("trimesh")
    write(folders, TETRA.format(1), place)
    (folders / "package.xml").write_text("<package><name>robots</name></package>")
    for name in ("r.urdf", "deep/r.urdf"):
        path = write(folders, LINK.format(use="collision", file="package://arm/meshes/m.obj"), name)
        if name.startswith("deep") or not place.startswith("deep"):
            assert load(path).ngeom, name
    path = write(folders, LINK.format(use="collision", file=f"package://robots/{place}"), "deep/r.urdf")
    assert load(path).ngeom


@pytest.mark.parametrize("folder", ["urdf", "robots", "xml", "models", "in"])
def test_the_folder_is_the_files_own_or_the_callers(folders, folder):
    """Whatever it is called; `root=` opens the folder above, in MJCF and URDF, and then only that."""
    pytest.importorskip("trimesh")
    inside = folders / folder
    for path in (
        write(inside, MESH.format("../meshes/m.obj")),
        write(inside, LINK.format(use="collision", file="../meshes/m.obj"), "r.urdf"),
    ):
        write(folders, TETRA.format(1), "meshes/m.obj")
        assert "root=" in outside(path)
        assert load(path, root=folders).ngeom and load(path, root=str(folders.parent)).ngeom
        outside(path, root=inside)
        for wrong in (folders / "none", path, "", 3, b"\xff", "a\0b"):
            with pytest.raises(ModelError, match=r"root=.* is not a (folder|path)"):
                load(path, root=wrong)
        path.write_text(path.read_text().replace("../meshes/m.obj", "../../secret/mesh.obj"))
        outside(path, root=folders)
    (folders / "package.xml").write_text("<package><name>any</name></package>")
    assert load(write(inside, MESH.format("../meshes/m.obj"))).ngeom == 1


def test_usd_layers_come_from_the_root(folders):
    """References outside the folder, with either separator, are refused; `root=` opens them."""
    pytest.importorskip("pxr")
    (folders.parent / "secret" / "part.usda").write_text('#usda 1.0\n(defaultPrim = "s")\ndef Sphere "s" {}\n')
    for name in ("../secret/part.usda", r"..\secret\part.usda", str(folders.parent / "secret" / "part.usda")):
        path = write(folders, f'#usda 1.0\ndef "a" (references = @{name}@) {{}}\n', "r.usda")
        with pytest.raises(ModelError, match=r"(?s)r\.usda.*(outside|no such file|cannot)"):
            load(path)
    path = write(folders, '#usda 1.0\ndef "a" (references = @../secret/part.usda@) {}\n', "r.usda")
    assert load(path, root=folders.parent).ngeom == 1


BROKEN = {
    "text.usda": ("hello", "not a valid usda layer"),
    "bytes.usd": ("\0\1\2" * 50, "cannot read the layer"),
    "crate.usdc": ("PXR-USDC" + "\377" * 200, "version"),
    "zip.usdz": ("PK\3\4" + "\377" * 200, "cannot read the layer"),
    "syntax.usda": ('#usda 1.0\ndef Sphere "a" { string radius = "x" }\n', "Expected"),
    "encoding.usda": ('#usda 1.0\ndef Sphere "\377" {}\n', "."),
    "reference.usda": ('#usda 1.0\ndef "a" (references = @none.usda@) {}\n', "none.usda.*no such file"),
    "layer.usda": ("#usda 1.0\n(subLayers = [@text.usda@])\n", "text.usda.*not a valid"),
    "picture.usda": ('#usda 1.0\ndef "a" (payload = @text.png@) {}\n', "text.png"),
    "prim.usda": ('#usda 1.0\ndef "a" (references = </none>) {}\n', "lead nowhere.*none"),
    "cycle.usda": ('#usda 1.0\ndef "a" {\ndef "b" (references = </a>) {}\n}\n', "lead nowhere.*Cycle"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_usd_is_one_clear_error(folders, name):
    """A `ModelError` that names the file and says what is wrong: nothing of USD's source, no prim dropped in silence."""
    pytest.importorskip("pxr")
    for other in ("text.usda", name):
        (folders / other).write_bytes(BROKEN[other][0].encode("latin1"))
    (folders / "text.png").write_text("no picture")
    with pytest.raises(ModelError, match=f"(?s){name}.*{BROKEN[name][1]}") as caught:
        load(folders / name)
    assert not any(word in str(caught.value) for word in ("pxrInternal", "/opt/", ".cpp", ".h :", "ErrorException"))


NAMES = ["../secret/mesh.obj", "none.png", "", "x" * 5000, "/etc/passwd", "r.xml"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("default", ["", '<default><texture gridsize="3 4"/></default>'], ids=["own", "default"])
def test_textures_and_skins_never_block(folders, name, default):
    """Missing, broken, too large or outside: they cannot change the motion, are not read, and the report says so by name."""
    text = f"""<mujoco><compiler texturedir="../.."/>{default}<asset>
    <texture name="t" type="2d" file="{name}"/><texture name="c" fileleft="{name}"/><texture type="skybox" file="{name}"/>
    <texture name="b" type="cube" builtin="checker" width="100000" height="100000"/><material name="w" texture="b"/>
    <material name="u" texture="t" rgba="1 0 0 1"/><material name="v"><layer texture="c" role="orm"/></material></asset>
    <worldbody><geom size="1" material="u"/><geom size="2" material="w"/></worldbody><deformable><skin name="s" file="{name}"/></deformable>
    <custom><tuple name="t"><element objtype="skin" objname="s"/><element objtype="material" objname="u"/></tuple></custom>
    </mujoco>"""
    model = load(write(folders, text))
    assert model.ngeom == 2 and model.geom_rgba[0].tolist() == [1, 0, 0, 1]
    told = {line.feature: line for line in model.report}
    assert told["files of skins"].status == "ignored"
    assert not model.visual_materials
    for texture, why in (("t", name[:60] or "Cannot load"), ("b", "100000")):
        line = told[f"texture {texture!r}"]
        assert line.status == "ignored" and ("default classes" if default else why) in line.detail


@pytest.mark.parametrize("name", ["../secret/mesh.obj", "none.obj", "r.urdf", "broken.obj"])
def test_visual_meshes_of_a_urdf_never_block(folders, name):
    """What is only drawn is left out with a warning and a line of the report; the same mesh in a collision is an error."""
    write(folders, "f 1 2 3\n", "broken.obj")
    path = write(folders, LINK.format(use="visual", file=name), "r.urdf")
    with pytest.warns(UserWarning, match="'a'"):
        model = load(path)
    assert model.ngeom == 0 and any(
        "not drawn" in line.detail and name in line.feature + line.detail for line in model.report
    )
    with pytest.raises(ModelError, match="collision mesh"):
        load(write(folders, LINK.format(use="collision", file=name), "r.urdf"))


def test_gltf_buffers_come_from_the_same_folders(folders):
    """A glTF beside the model names its buffers inside `root` and `packages` too, and nowhere else."""
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box().export(folders / "m.gltf")
    path, text, away = (
        write(folders, LINK.format(use="collision", file="m.gltf"), "r.urdf"),
        (folders / "m.gltf").read_text(),
        folders.parent / "secret",
    )
    for buffer in list(folders.glob("*.bin")):
        shutil.move(buffer, away / buffer.name)
    for separator in (r"\\", "/"):  # in JSON
        changed = text
        for buffer in away.glob("*.bin"):
            changed = changed.replace(buffer.name, f"..{separator}secret{separator}{buffer.name}")
        (folders / "m.gltf").write_text(changed)
        outside(path)
    assert load(path, root=folders.parent).ngeom and load(path, packages={"any": away}).ngeom
    outside(path)  # what was read with a wider root is not remembered for a narrower one


def test_nothing_is_read_from_the_current_folder(folders):
    """MuJoCo looks on the disk for what is not in its virtual file system: every name it sees is in there."""
    (folders.parent / "cwd" / "mesh.obj").write_text(TETRA.format(7))
    with pytest.raises(ModelError, match="no such file"):
        load(write(folders, MESH.format("mesh.obj")))
    os.symlink(folders.parent / "secret" / "mesh.obj", folders / "mesh.obj")
    outside(write(folders, MESH.format("mesh.obj")))
    given = bundle(write(folders, MESH.format("../secret/mesh.obj")), root=folders.parent)
    assert (
        all(name in given.assets for name in given.text.split('"') if name.startswith("ws")) and len(given.assets) == 1
    )
    assert "secret" not in given.text


FILES = {
    "t.obj": TETRA.format(1),
    "m/t.obj": TETRA.format(2),
    "sub/t.obj": TETRA.format(3),
    "sub/m/t.obj": TETRA.format(4),
    "sub/only.v2.obj": TETRA.format(5),
    "b.xml": '<mujoco><worldbody><geom name="b" size="1"/></worldbody></mujoco>',
    "sub/b.xml": '<mujoco><worldbody><geom name="sub_b" size="1"/></worldbody></mujoco>',
    "sub/c.xml": '<mujoco><worldbody><geom name="sub_c" size="1"/></worldbody></mujoco>',
    "sub/mesh.xml": MESH.format("t.obj"),
    "sub/own.xml": MESH.format("only.v2.obj").replace('name="m"', "").replace('mesh="m"', 'mesh="only.v2"'),
    "sub/dir.xml": MESH.format("t.obj").replace("<asset>", '<compiler meshdir="m"/><asset>'),
    "sub/inc.xml": '<mujoco><worldbody><include file="b.xml"/></worldbody><include file="c.xml"/></mujoco>'.replace(
        '<worldbody><include file="b.xml"/></worldbody>', '<include file="b.xml"/>'
    ),
}
ATTACH = '<asset><model name="s" file="{}"/></asset><worldbody><attach model="s" prefix="p"/></worldbody>'
SAME = {
    "in the main folder": MESH[8:-9].format("t.obj"),
    "in meshdir": '<compiler meshdir="m"/>' + MESH[8:-9].format("t.obj"),
    "the last directory counts": '<compiler meshdir="sub"/>' + MESH[8:-9].format("t.obj") + '<compiler assetdir="m"/>',
    "meshdir before assetdir": '<compiler assetdir="sub" meshdir="m"/>' + MESH[8:-9].format("t.obj"),
    "an empty directory": '<compiler meshdir="m"/><compiler meshdir=""/>' + MESH[8:-9].format("t.obj"),
    "paths stripped": '<compiler meshdir="m" strippath="true"/>' + MESH[8:-9].format("sub\\t.obj"),
    "a mesh of an include, first beside the main file": '<include file="sub/mesh.xml"/>',
    "a mesh of an include, then beside it": '<include file="sub/own.xml"/>',
    "a directory in an include": '<include file="sub/dir.xml"/>',
    "a directory of the main file": '<compiler meshdir="sub"/><include file="sub/mesh.xml"/>',
    "includes, first beside the main file, then beside theirs": '<include file="sub/inc.xml"/>',
    "a model beside the main file": ATTACH.format("sub/mesh.xml"),
    "a model with a directory": '<compiler meshdir="sub"/>' + ATTACH.format("sub/dir.xml"),
    "a model with includes": ATTACH.format("sub/inc.xml"),
    "odd characters": '<worldbody><geom name="&lt;&amp;&quot;\'&gt; é 語" size="1"/></worldbody><!-- -- é -- -->',
}


def arrays(m):
    """Everything of a compiled model but where its files were."""
    for name in dir(m):
        value = getattr(m, name)
        if isinstance(value, (np.ndarray, int, bytes)) and not name.startswith("_"):
            if not name.endswith("_pathadr") and name not in ("paths", "npaths", "nbuffer", "signature"):
                yield name, value.tobytes() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_the_model_is_the_one_that_mujoco_compiles(folders, text):
    """Every place where MuJoCo looks for files, in its order: the same bits in every field of the compiled model."""
    for name, content in FILES.items():
        write(folders, content, name)
    path = write(folders, f"<mujoco>{text}</mujoco>")
    ours, theirs = compile_bundle(bundle(path), path), mujoco.MjModel.from_xml_path(str(path))
    assert dict(arrays(ours)) == dict(arrays(theirs))


def test_links_inside_the_folder_are_where_they_stand(folders):
    """What a linked include or sub-model names is beside the link, as in MuJoCo, not beside what the link leads to."""
    for name, content in FILES.items():
        write(folders, content, name)
    write(folders, TETRA.format(6), "away/t.obj")
    os.rename(folders / "sub" / "mesh.xml", folders / "away" / "mesh.xml")
    os.symlink(folders / "away" / "mesh.xml", folders / "sub" / "mesh.xml")
    os.remove(folders / "t.obj")
    for text in ('<include file="sub/mesh.xml"/>', ATTACH.format("sub/mesh.xml")):
        path = write(folders, f"<mujoco>{text}</mujoco>")
        ours, theirs = compile_bundle(bundle(path), path), mujoco.MjModel.from_xml_path(str(path))
        assert dict(arrays(ours)) == dict(arrays(theirs))


def test_errors_name_the_users_files_and_lines(folders):
    """Not the text that MuJoCo was given: its errors name the line of the main file, an include or a sub-model."""
    bad = '<mujoco>\n\n<worldbody>\n<geom name="g"\n size="-1"/>\n</worldbody>\n</mujoco>'
    write(folders, bad, "bad.xml")
    for text, place in (
        (bad, "line 4 of r.xml"),
        ('<mujoco>\n<include file="bad.xml"/></mujoco>', "line 4 of bad.xml"),
        (f"<mujoco>\n\n\n\n\n{ATTACH.format('bad.xml')}</mujoco>", "line 4 of bad.xml"),
        ("<mujoco>\n\n<goem/></mujoco>", "line 3 of r.xml"),
    ):
        with pytest.raises(ModelError, match=place):
            load(write(folders, text))
    write(folders, "f 1 2 3", "t.obj")
    with pytest.raises(ModelError, match=r"vertices required.*'m'.*line 1 of r\.xml"):
        load(write(folders, MESH.format("t.obj")))
    with pytest.raises(ModelError, match=r"<mesh> 'm', line 1 of r.xml: 'a.dae' is no"):
        write(folders, "x", "a.dae")
        load(write(folders, MESH.format("a.dae")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelError, match=r"<include>, line 1 of r.xml: .*included already"):
            write(folders, "<mujoco><option/></mujoco>", "o.xml")
            load(write(folders, '<mujoco><include file="o.xml"/><include file="./o.xml"/></mujoco>'))


LAYER = '#usda 1.0\n(\n    defaultPrim = "s"\n    {}\n)\ndef Xform "s" {{\n    def Sphere "{}" {{\n        double radius = {}\n    }}\n}}\n'
NAMING = {
    "reference": '#usda 1.0\n(\n    defaultPrim = "s"\n)\ndef Xform "s" (prepend references = @{}@) {{}}\n',
    "payload": '#usda 1.0\n(\n    defaultPrim = "s"\n)\ndef Xform "s" (prepend payload = @{}@) {{}}\n',
    "sublayer": '#usda 1.0\n(\n    defaultPrim = "s"\n    subLayers = [@{}@]\n)\n',
}


@pytest.mark.parametrize("arc", NAMING)
@pytest.mark.parametrize("package", [False, True])
def test_usd_reads_nothing_from_the_current_folder(folders, arc, package):
    """What USD would look for in the working directory, its search path's first folder, is read from nowhere.

    A harmless file of that name in the model's folder does not open the one in the working directory.
    """
    pxr = pytest.importorskip("pxr.Sdf")
    write(folders.parent / "cwd" / "evil", LAYER.format("", "secret", 7), "o.usda")
    write(folders / "evil", LAYER.format("", "harmless", 1), "o.usda")
    path = write(folders, NAMING[arc].format("./a/b.usda"), "r.usda")
    inner = write(folders / "a", NAMING[arc].format("evil/o.usda"), "b.usda")
    if package:
        writer = pxr.ZipFileWriter.CreateNew(str(folders / "a" / "b.usdz"))
        writer.AddFile(str(inner), "b.usda")
        writer.Save()
        path.write_text(NAMING[arc].format("./a/b.usdz"))
    for options in ({}, {"root": folders}, {"packages": {"any": folders}}):
        with pytest.raises(ModelError, match=r"(?s)r\.usda.*evil/o\.usda.*no such file"):
            load(path, **options)
    write(folders / "a" / "evil", LAYER.format("", "beside", 2), "o.usda")
    if not package:
        assert load(path).geom_size[0][0] == pytest.approx(0.02)  # [m]: the file beside the naming layer


def test_usd_layers_are_anchored_where_usd_anchors_them(folders):
    """What a linked layer names is beside the link, as in USD: that file is the one that must lie inside."""
    pytest.importorskip("pxr")
    write(folders.parent, LAYER.format("", "secret", 7), "o.usda")
    write(folders, LAYER.format("", "harmless", 1), "o.usda")
    write(folders / "a", NAMING["reference"].format("../o.usda"), "b.usda")
    os.symlink(folders / "a" / "b.usda", folders / "link.usda")
    with pytest.raises(ModelError, match=r"(?s)r\.usda.*outside"):
        load(write(folders, NAMING["reference"].format("./link.usda"), "r.usda"))
    write(folders / "x", LAYER.format("", "harmless", 1), "y.usda")
    os.symlink(folders.parent / "o.usda", folders / r"x\y.usda")
    with pytest.raises(ModelError, match=r"(?s)r\.usda.*(outside|different files)"):
        load(write(folders, NAMING["reference"].format(r"./x\y.usda"), "r.usda"))
