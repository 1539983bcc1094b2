# SPDX-License-Identifier: Apache-2.0
"""Short files that stand for gigabytes or minutes: refused, by the element and the count, before a parser makes them."""

import os
import re
import struct
import subprocess
import sys
import time

import mujoco
import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files import limits
from warpsim.files.load import load

SECONDS = 20.0  # 2 s on an idle machine


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """MuJoCo writes its log into the current folder."""
    monkeypatch.chdir(tmp_path)


def refused(path, words):
    start = time.process_time()
    with pytest.raises(ModelError, match=f"(?s){path.name}.*{words}"):
        load(path, unsupported="report")
    assert time.process_time() - start < SECONDS


def body(text):
    return f"<worldbody>{text}</worldbody>"


def asset(text):
    return f"<asset>{text}</asset>"


GEOM = '<geom size=".1"/>'
FLEX = '<body name="b"><flexcomp name="f" type="grid" count="{}" dim="3" mass="1" radius=".001" {}/></body>'
DOUBLED = '<body name="b0"/>' + "".join(
    f'<body name="b{k + 1}"><attach body="b{k}" prefix="x{k}"/><attach body="b{k}" prefix="y{k}"/></body>'
    for k in range(40)
)
DEEPER = '<body name="b0"/>' + "".join(
    f'<body name="b{k + 1}">{"<body>" * 200}<attach body="b{k}" prefix="x{k}"/>{"</body>" * 200}</body>'
    for k in range(40)
)
BOMBS = {
    "nuserdata": ('<size nuserdata="2000000000"/>', "<size>, line 1 of m.xml: nuserdata='2000000000'.*limit"),
    "nkey": ('<size nkey="2000000000"/>', "nkey"),
    "nuser_geom": (f'<size nuser_geom="500000000"/>{body(GEOM)}', "nuser_geom"),
    "memory": ('<size memory="8E"/>', "memory"),
    "numeric": ('<custom><numeric name="n" size="2000000000"/></custom>', "<numeric>"),
    "replicate": (body(f'<replicate count="30000"><body>{GEOM}</body></replicate>'), "<replicate>.*'30000'.*limit"),
    "nested replicates": (body('<replicate count="300">' * 3 + GEOM + "</replicate>" * 3), "<replicate>.*limit"),
    "geoms": (body(GEOM * 200_000), "<worldbody>, line 1 of m.xml: more than the limit of 100000 elements"),
    "fewer geoms": (body(GEOM * 30_000), "<geom>, line 1 of m.xml.*20001 bodies, geoms.*limit"),
    "sites": (body("<site/>" * 200_000), "limit"),
    "sensors": (f"{body('')}<sensor>{'<clock/>' * 200_000}</sensor>", "limit"),
    "height field": (asset('<hfield name="h" nrow="10000" ncol="10000" size="1 1 1 1"/>'), "<hfield>.*10000 x 10000"),
    "flex": (body(FLEX.format("40 40 40", 'spacing=".1 .1 .1"')), "<flexcomp>.*64000 points"),
    "cells": (body(FLEX.format("4 4 4", 'spacing=".1 .1 .1" dof="trilinear" cellcount="90 90 90"')), "cellcount"),
    "flexes": (body(f'<replicate count="100">{FLEX.format("12 12 12", "")}</replicate>'), "limit"),
    "composite": (
        body(
            '<body><composite type="cable" count="100000 1 1" size="1"><geom type="capsule" size=".01"/></composite></body>'
        ),
        "<composite>.*points",
    ),
    "generated mesh": (asset('<mesh name="m" builtin="supersphere" params="30000 1 1"/>'), "<mesh>.*params"),
    "generated plate": (asset('<mesh name="m" builtin="plate" params="30000 30000"/>'), "<mesh>.*params"),
    "history": (
        body("<body><joint name='j'/><geom size='.1'/></body>")
        + '<actuator><motor joint="j" nsample="1000000000"/></actuator>',
        "nsample",
    ),
    "user sensor": ('<sensor><user name="u" dim="1000000000"/></sensor>', "dim"),
    "camera": (body('<camera resolution="100000 100000"/>'), "resolution"),
    "body attached to itself": (
        body('<body name="a">' + "".join(f'<attach body="a" prefix="p{k}"/>' for k in range(40)) + "</body>"),
        "<attach>.*stands for.*limit",
    ),
    "bodies attached twice": (body(DOUBLED), "<attach>.*stands for.*limit"),
    "frames attached twice": (body(DOUBLED.replace("body", "frame")), "<attach>.*stands for.*limit"),
    "bodies attached deep": (body(DEEPER), "<attach>.*levels of nesting"),
    "depth": (body("<body>" * 300 + "</body>" * 300), "levels"),
    "no number": ('<size nuserdata="1e400"/>', "finite"),
}


@pytest.mark.parametrize("text, words", BOMBS.values(), ids=BOMBS.keys())
def test_mjcf_that_stands_for_too_much(tmp_path, text, words):
    """Counted with replicates, attachments and composites written out, in seconds."""
    path = tmp_path / "m.xml"
    path.write_text(f"<mujoco>{text}</mujoco>")
    refused(path, words)


def png(columns: int, rows: int) -> bytes:
    """The head of a grey PNG."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII5B", 13, b"IHDR", columns, rows, 8, 0, 0, 0, 0) + bytes(64)


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("h.png", png(10000, 10000), "10000 x 10000"),
        ("h.bin", struct.pack("<ii", 10000, 10000), "no height field"),
        ("h.bin", struct.pack("<ii", 2**31 - 1, 2**31 - 1) + bytes(16), "no height field"),
        ("h.bin", struct.pack("<ii", -1, 4) + bytes(16), "no height field"),
        ("h.bin", b"123", "no height field"),
        ("h", b"", "no height field"),
    ],
)
def test_heads_of_height_fields(tmp_path, name, data, words):
    """A file of a height field is refused by what its head announces, before anything is decoded."""
    (tmp_path / name).write_bytes(data)
    path = tmp_path / "m.xml"
    path.write_text(f'<mujoco>{asset(f"""<hfield name="h" file="{name}" size="1 1 1 1"/>""")}</mujoco>')
    refused(path, f"'h'.*{words}")


def test_models_that_attach_their_own_file(tmp_path):
    """A file that is its own sub-model, directly, through another or through a link: MuJoCo goes on until it is killed."""
    text = '<mujoco><asset><model name="s" file="{}"/></asset><worldbody><attach model="s" prefix="p"/></worldbody></mujoco>'
    path = tmp_path / "m.xml"
    path.write_text(text.format("m.xml"))
    refused(path, "attaches itself")
    (tmp_path / "n.xml").write_text(text.format("m.xml"))
    path.write_text(text.format("n.xml"))
    refused(path, "attaches itself")
    (tmp_path / "link.xml").symlink_to(path)
    path.write_text(text.format("link.xml"))
    refused(path, "attaches itself")
    path.write_text('<mujoco><include file="m.xml"/></mujoco>')
    refused(path, "includes itself")
    for k in range(30):
        attach = f'<attach model="s" prefix="a{k}"/><attach model="s" prefix="b{k}"/>'
        (tmp_path / f"k{k}.xml").write_text(
            f'<mujoco>{asset(f"""<model name="s" file="k{k + 1}.xml"/>""")}{body(attach)}</mujoco>'
        )
    (tmp_path / "k14.xml").write_text(f"<mujoco>{body(GEOM * 2)}</mujoco>")
    path.write_text(text.format("k0.xml"))
    refused(path, "stands for")
    (tmp_path / "k14.xml").write_text((tmp_path / "k13.xml").read_text().replace("k14", "k15"))
    refused(path, "deep")
    for k in range(19):
        models = "".join(f'<model name="{name}" file="k{k + 1}.xml"/>' for name in "ab")
        (tmp_path / f"k{k}.xml").write_text(f"<mujoco>{asset(models)}</mujoco>")
    (tmp_path / "k19.xml").write_text(f"<mujoco>{body(GEOM)}</mujoco>")
    refused(path, "stands for")  # never attached, but read 2^19 times


def test_what_is_large_but_sensible_loads(tmp_path):
    """A model near no limit, with each of the features that are counted, is MuJoCo's own."""
    text = f"""<size nuserdata="1000" nkey="3" memory="16M" nuser_body="4"/>{
        asset(
            '<hfield name="h" nrow="200" ncol="200" size="1 1 1 1"/>'
            '<mesh name="m" builtin="supersphere" params="16 1 1"/>'
        )
    }{
        body(
            '<replicate count="5"><replicate count="4"><geom size=".1"/></replicate></replicate><geom type="hfield" hfield="h"/>'
            '<body name="a"><joint/><geom size=".1"/><attach body="a" prefix="s"/></body><frame><attach body="a" prefix="p"/></frame><attach body="a" prefix="q"/>'
        )
    }"""
    path = tmp_path / "m.xml"
    path.write_text(f"<mujoco>{text}</mujoco>")
    model, theirs = load(path, unsupported="report"), mujoco.MjModel.from_xml_path(str(path))
    assert (model.ngeom, model.nbody, model.nv) == (theirs.ngeom, theirs.nbody - 1, theirs.nv) == (27, 6, 6)
    np.testing.assert_array_equal(model.body_mass, theirs.body_mass[1:])


def test_limits_are_those_of_one_place(tmp_path, monkeypatch):
    """Files of one model together: their number and bytes."""
    path = tmp_path / "m.xml"
    vertices = "".join(f"v {k} {k * k} {k**3}\n" for k in range(5)) + "f 1 2 3\nf 1 3 4\nf 2 3 4\nf 1 2 5\n"
    (tmp_path / "t.obj").write_text(vertices)
    path.write_text("<mujoco>" + asset("".join(f'<mesh name="m{k}" file="t.obj"/>' for k in range(3))) + "</mujoco>")
    for name, value in (("MAX_FILES", 2), ("MAX_TOTAL_BYTES", 10), ("MAX_MESH_BYTES", 10)):
        with monkeypatch.context() as patched:
            patched.setattr(limits, name, value)
            with pytest.raises(ModelError, match=r"m.xml.*(more than|larger than)"):
                load(path)


def nested(depth: int, kind: str) -> str:
    """Prims, dictionaries or parentheses in one another."""
    opening, closing = {"prims": ('def "a" {\n', "}\n"), "values": ("(", ")"), "lists": ("[", "]")}[kind]
    inner = opening * depth + closing * depth
    return inner if kind == "prims" else f'def "a" {{\ncustom double x = {inner}\n}}\n'


@pytest.mark.parametrize("kind", ["prims", "values", "lists"])
@pytest.mark.parametrize("suffix", ["usda", "usd", "usdz"])
def test_usd_text_nested_too_deep(tmp_path, suffix, kind):
    """20 000 deep, as .usda, as text in a .usd, in a .usdz, and in a layer that another names: the reader is never asked."""
    pytest.importorskip("pxr")
    text = f"#usda 1.0\n{nested(20000, kind)}"
    path = tmp_path / f"deep.{suffix}"
    if suffix == "usdz":
        path.write_bytes(zipped("deep.usda", text))
    else:
        path.write_text(text)
    refused(path, "deep")
    naming = tmp_path / "names.usda"
    naming.write_text(f'#usda 1.0\n(subLayers = [@./{path.name}@])\ndef Sphere "s" {{}}\n')
    start = time.process_time()
    with pytest.raises(ModelError, match="deep"):
        load(naming)
    assert time.process_time() - start < SECONDS


def zipped(name: str, text: str) -> bytes:
    """A .usdz: one file, stored, its content at a multiple of 64 bytes."""
    import io
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        info = zipfile.ZipInfo(name)
        padding = -(30 + len(name)) % 64
        info.extra = struct.pack("<HH", 0x1986, padding - 4) + bytes(padding - 4) if padding >= 4 else b""
        archive.writestr(info, text)
    return stream.getvalue()


def test_braces_in_usd_strings_and_comments_are_no_nesting(tmp_path):
    """Only brackets of the text itself count."""
    pytest.importorskip("pxr")
    path = tmp_path / "m.usda"
    text = "{" * 5000
    path.write_text(
        f'#usda 1.0\n(doc = """{text}"\n{text}""")\n# {text}\ndef Sphere "s" {{\ncustom string a = "{text}\\"{text}"\n'
        f"custom string b = '{text}'\ncustom asset c = @@\n}}\n"
    )
    assert load(path).ngeom == 1


CRASHES = {  # on each USD's reader of text ends the process
    "inherits": f'def Xform "W" (prepend inherits = <{"/a" * 10000}>) {{}}',
    "references": f'def Xform "W" (prepend references = <{"/a" * 100000}>) {{}}',
    "relocates": f"(\n relocates = {{<{'/a' * 100000}>: </W/b>}}\n)",
    "targets": f'def Xform "W" {{\n rel x = <{"/a.r[" * 100000}/a{"].r" * 100000}>\n}}',
    "strings": f'def Xform "W" {{\n pathExpression x = "{"(" * 100000}/a{")" * 100000}"\n}}',
}


@pytest.mark.parametrize("text", CRASHES.values(), ids=CRASHES.keys())
@pytest.mark.parametrize("prefix", ["", 'def Sphere "s" (doc = "a < b") {}\n'])
def test_usd_paths_too_deep(tmp_path, text, prefix):
    """USD's reader of paths recurses, too: levels between < and > are counted before it is asked; this process lives."""
    pytest.importorskip("pxr")
    path = tmp_path / "m.usda"
    path.write_text(f"#usda 1.0\n{text if text[0] == '(' else prefix + text}\n")
    code = "import sys, warpsim as ws\ntry:\n  ws.load(sys.argv[1])\nexcept ws.ModelError as e:\n  print(e)"
    start = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and re.search(r"m\.usda: .*(levels deep|damaged)", ended.stdout), ended
    assert len(ended.stdout) < 1000 and time.monotonic() - start < 60


def test_usd_paths_of_sensible_depth_load(tmp_path):
    """The limit is that of prims: a path to the deepest of them loads, and < and / of strings and comments do not count."""
    pytest.importorskip("pxr")
    path, depth = tmp_path / "m.usda", limits.MAX_USDA_DEPTH - 1
    prims = 'def Xform "a" {\n' * depth + "}\n" * depth
    path.write_text(
        f'#usda 1.0\n(doc = "<{"/" * 5000}>")\n# <{"/a" * 5000}>\ndef Sphere "s" {{\nrel x = <{"/a" * depth}>\n}}\n{prims}'
    )
    assert load(path).ngeom == 1


@pytest.mark.parametrize("suffix", ["xml", "urdf"])
def test_attributes_of_one_element(tmp_path, suffix):
    """MuJoCo's time grows with the square of their number (100 000: 69 s), no element has many."""
    path = tmp_path / f"m.{suffix}"
    many = " ".join(f'a{k}="1"' for k in range(100_000))
    path.write_text(
        f"<mujoco><worldbody><body {many}/></worldbody></mujoco>" if suffix == "xml" else f"<robot {many}/>"
    )
    refused(path, "line 1.*100000 attributes.*limit")


def test_pipes_and_folders_are_no_missing_files(tmp_path):
    """What is there but is no regular file is never opened, and the message says what it is."""
    mesh = '<mujoco><asset><mesh name="m" file="p.stl"/></asset></mujoco>'
    for kind in ("xml", "urdf", "usda", "stl"):
        path = tmp_path / f"p.{kind}"
        os.mkfifo(path)
        if kind == "stl":
            path = tmp_path / "m.xml"
            path.write_text(mesh)
        refused(path, "not a regular file")
    (tmp_path / "f.xml").mkdir()
    refused(tmp_path / "f.xml", "a folder, not a file")
    refused(tmp_path / "none.xml", "no such file")


LONG = "a" * 4000
MESSAGES = {
    "attribute.xml": f'<mujoco><asset><mesh name="m" file{LONG * 25}="x"/></asset></mujoco>',
    "tag.xml": f'<mujoco><{LONG} file="x"/></mujoco>',
    "mesh.xml": f'<mujoco><asset><mesh name="m" file="{LONG}"/></asset></mujoco>',
    "folders.xml": f'<mujoco><asset><mesh name="m" file="../{"a/" * 2000}m.stl"/></asset></mujoco>',
    "include.xml": f'<mujoco><include file="{"a b/" * 1000}"/></mujoco>',
    "link.urdf": f'<robot name="r"><link name="{LONG * 25}"/><link name="{LONG * 25}"/></robot>',
    "spaces.urdf": f'<robot name="r"><link name="{"a b" * 5000}"/><link name="{"a b" * 5000}"/></robot>',
    "parent.urdf": f'<robot name="r"><link name="a"/><joint name="{LONG * 25}" type="fixed"><parent link="{LONG * 25}"/>'
    '<child link="a"/></joint></robot>',
    "mesh.urdf": '<robot name="r"><link name="a"><collision><geometry><mesh filename="'
    f'package://{LONG[:2000]}/{LONG[:2000]}"/></geometry></collision></link></robot>',
    "body.usda": f'#usda 1.0\ndef PhysicsRevoluteJoint "j" {{\n rel physics:body0 = <{"/aaaa" * 250}{LONG * 25}>\n}}\n',
    "prim.usda": f'#usda 1.0\ndef PhysicsRevoluteJoint "{LONG * 25}" {{\n rel physics:body0 = </a>\n}}\n',
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_short(tmp_path, name):
    """Whatever a file quotes, its error has less than 1000 characters and names the file."""
    if name.endswith("usda"):
        pytest.importorskip("pxr")
    path = tmp_path / name
    path.write_text(MESSAGES[name])
    with pytest.raises(ModelError, match=re.escape(name)) as caught:
        load(path)
    assert len(str(caught.value)) < 1000
