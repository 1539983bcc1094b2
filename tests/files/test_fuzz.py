# SPDX-License-Identifier: Apache-2.0
"""Importers against broken and hostile files: an error that names the file, never a crash, a hang or a read outside.

Deterministic: the damage comes from seeded generators. USD runs in a process of its own, since its parsers are C++ and a
crash there would end the tests.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from test_urdf import ROBOT

from scenes.trajectories import ASSETS
from warpsim.base.errors import ModelError
from warpsim.files import safe_files
from warpsim.files.load import load
from warpsim.files.meshes import load_mesh
from warpsim.files.urdf import urdf_parse
from warpsim.model.mesh_mass import convex_hull

SECONDS = 10.0  # that one file may take; the usual is milliseconds

MJCF = """<mujoco model="m"><compiler meshdir="parts"/><asset><mesh name="t" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><body name="a" pos="0 0 1"><freejoint/><geom size=".1"/>
<body name="b"><joint name="j" axis="0 1 0" range="-60 60"/><geom type="mesh" mesh="t"/></body></body></worldbody>
<actuator><motor joint="j"/></actuator></mujoco>"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    """MuJoCo writes its log into the current folder; repairs warn."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def attempt(path, **options):
    """Load a file: the model, or None for a `ModelError` that names it; anything else fails the test."""
    start = time.perf_counter()
    try:
        model = load(path, **options)
        assert all(
            np.isfinite(a).all()
            for a in (model.q0, model.body_mass, model.body_com, model.body_inertia, model.geom_pose)
        )
    except ModelError as error:
        assert pathlib.Path(path).name in str(error), error
        model = None
    assert time.perf_counter() - start < SECONDS
    return model


@pytest.mark.parametrize("suffix, text", [("urdf", ROBOT), ("xml", MJCF)])
def test_truncated_files(tmp_path, suffix, text):
    """Cut at any place: no XML is whole before its end."""
    path = tmp_path / f"cut.{suffix}"
    for length in range(0, len(text.rstrip()) - 1, max(1, len(text) // 150)):
        path.write_text(text[:length])
        assert attempt(path) is None, length


@pytest.mark.parametrize("suffix, text", [("urdf", ROBOT), ("xml", MJCF)])
def test_damaged_bytes_and_swapped_parts(tmp_path, suffix, text):
    """Bytes overwritten, lines dropped, doubled and swapped, by a seeded generator."""
    rng, path, loaded = np.random.default_rng(5), tmp_path / f"bad.{suffix}", 0
    for trial in range(150):
        if trial % 2:
            data = bytearray(text.encode())
            for at in rng.integers(0, len(data), size=rng.integers(1, 6)):
                data[at] = rng.integers(0, 256)
        else:
            parts = text.replace("><", ">\n<").split("\n")
            i, j = rng.integers(0, len(parts), size=2)
            parts[i : i + 1] = [[], [parts[i]] * 2, [parts[j]]][trial // 2 % 3]
            data = "\n".join(parts).encode()
        path.write_bytes(data)
        loaded += attempt(path, unsupported="report") is not None
    assert loaded < 140


NUMBERS = ("nan", "-nan", "inf", "-inf", "1e309", "1e300", "-1", "0", "", "x", "1 2", "0x10", "1_0", "9" * 5000)


def test_absurd_numbers_everywhere(tmp_path):
    """Every numeric attribute of the URDF with every absurd value."""
    path, keys = (
        tmp_path / "n.urdf",
        ("xyz", "rpy", "radius", "length", "size", "value", "ixx", "lower", "effort", "damping"),
    )
    for key in keys:
        start = ROBOT.index(f'{key}="') + len(key) + 2
        end = ROBOT.index('"', start)
        for number in NUMBERS:
            value = " ".join([number] * len(ROBOT[start:end].split()))
            path.write_text(ROBOT[:start] + value + ROBOT[end:])
            model = attempt(path)
            if number in ("nan", "x", "1e309") and key not in ("effort", "lower"):
                undrawn = model is not None and any("not drawn" in line.detail for line in model.report)
                assert model is None or undrawn, (key, number)  # a faulty visual is left out


BOMB = '<!DOCTYPE b [<!ENTITY a "{}">{}]>'.format(
    "ha" * 50, "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 20}">' for i in range(10))
)


def test_entity_bombs_and_external_entities(tmp_path):
    """Billion laughs, quadratic blow-up and `SYSTEM` entities are refused before they are expanded."""
    secret = tmp_path / "secret.txt"
    secret.write_text("top secret")
    for name, text in (("u.urdf", ROBOT), ("m.xml", MJCF)):
        body = text.removeprefix('<?xml version="1.0"?>')
        for bomb, use in (
            (BOMB, "&k;"),
            (f'<!DOCTYPE b [<!ENTITY a "{"x" * 10**6}">]>', "&a;" * 10**4),
            (f'<!DOCTYPE b [<!ENTITY a SYSTEM "file://{secret}">]>', "&a;"),
            (f'<!DOCTYPE b [<!ENTITY % a SYSTEM "file://{secret}"> %a;]>', ""),
        ):
            path = tmp_path / name
            path.write_text(bomb + body.replace(">", f">{use}", 1))
            with pytest.raises(ModelError, match="entity") as caught:
                load(path)
            assert "top secret" not in str(caught.value)


def test_absurd_sizes(tmp_path, monkeypatch):
    """Deep and wide trees, thousands of links, files over the limit: refused in seconds."""
    path = tmp_path / "big.urdf"
    path.write_text("<robot>" + "<a>" * 10**5 + "</a>" * 10**5 + "</robot>")
    with pytest.raises(ModelError, match="levels"):
        load(path)
    path.write_text("<robot>" + "".join(f'<link name="l{i}"/>' for i in range(10**4)) + "</robot>")
    with pytest.raises(ModelError, match="more than"):
        load(path)
    chain = "".join(
        f'<joint name="j{i}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/></joint>' for i in range(1500)
    )
    path.write_text("<robot>" + "".join(f'<link name="l{i}"/>' for i in range(1501)) + chain + "</robot>")
    attempt(path)
    shapes = "<collision><geometry><sphere radius='1'/></geometry></collision>" * (urdf_parse.MAX_SHAPES + 1)
    path.write_text(f"<robot><link name='l'>{shapes}</link></robot>")
    with pytest.raises(ModelError, match="shapes"):
        load(path)
    monkeypatch.setattr(safe_files, "MAX_XML_ELEMENTS", 1000)
    path.write_text("<robot>" + "<a/>" * 1001 + "</robot>")
    with pytest.raises(ModelError, match="elements"):
        load(path)
    monkeypatch.setattr(safe_files, "MAX_XML_BYTES", 1000)
    with pytest.raises(ModelError, match="larger than"):
        load(path)


TETRA = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def outside(tmp_path):
    """A folder `in` for models, a mesh beside it, and names by which a model may ask for that mesh."""
    (tmp_path / "in" / "parts").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    target = tmp_path / "other" / "secret.obj"
    target.write_text(TETRA)
    (tmp_path / "in" / "link.obj").symlink_to(target)
    (tmp_path / "in" / "folder").symlink_to(target.parent)
    return target, ("../other/secret.obj", str(target), "link.obj", "folder/secret.obj", "parts/../../other/secret.obj")


def test_urdf_meshes_outside_the_folder_are_not_read(tmp_path):
    """Relative, absolute, through links, as file:// and package://; a declared package is read."""
    target, names = outside(tmp_path)
    pytest.importorskip("trimesh")
    path = tmp_path / "in" / "r.urdf"
    names += (
        f"file://{target}",
        "package://../other/secret.obj",
        "package://other/secret.obj",
        "package:///other/secret.obj",
    )
    names += (
        "package://folder/secret.obj",
        "package://etc/passwd",
        "package://.",
        "file:///etc/passwd",
        "http://x/a.obj",
        "",
    )
    for name in names:
        path.write_text(ROBOT.replace('<sphere radius="0.2"/>', f'<mesh filename="{name}"/>'))
        with pytest.raises(ModelError, match=r"r.urdf"):
            load(path)
    path.write_text(ROBOT.replace('<sphere radius="0.2"/>', '<mesh filename="package://other/secret.obj"/>'))
    assert load(path, packages={"other": target.parent}).geom_names
    (tmp_path / "other" / "package.xml").write_text("<package><name>other</name></package>")
    with pytest.raises(ModelError, match=r"packages="):
        load(path)  # a ROS package beside the model's folder is another folder
    with pytest.raises(ModelError, match="not a folder"):
        load(path, packages={"other": tmp_path / "none"})


def test_mjcf_files_outside_the_folder_are_not_read(tmp_path):
    """Meshes, height fields, includes, sub-models; relative, absolute, through links and directories of the compiler.

    Textures are not read at all (test_file_policy.py).
    """
    target, names = outside(tmp_path)
    path = tmp_path / "in" / "r.xml"
    shown = '<worldbody><geom type="mesh" mesh="m"/></worldbody>'
    for name in names:
        for element in (f'<mesh name="m" file="{name}"/>', f'<hfield name="t" size="1 1 1 1" file="{name}"/>'):
            path.write_text(f"<mujoco><asset>{element}</asset>{shown}</mujoco>")
            with pytest.raises(ModelError, match="lies outside"):
                load(path)
        path.write_text(f'<mujoco><include file="{name}"/></mujoco>')
        with pytest.raises(ModelError, match="lies outside"):
            load(path)
    for directory in ("../other", str(target.parent), "folder"):
        path.write_text(f'<mujoco><compiler meshdir="{directory}"/><asset><mesh file="secret.obj"/></asset></mujoco>')
        with pytest.raises(ModelError, match="lies outside"):
            load(path)
    (tmp_path / "in" / "sub.xml").write_text(f'<mujoco><asset><mesh name="m" file="{target}"/></asset></mujoco>')
    path.write_text(f'<mujoco><include file="sub.xml"/>{shown}</mujoco>')
    with pytest.raises(ModelError, match="lies outside"):
        load(path)
    assert load(path, packages={"any": target.parent}).ngeom == 1
    path.write_text('<mujoco><include file="r.xml"/></mujoco>')
    assert attempt(path) is None  # includes itself


def test_nested_instances_are_counted_before_they_are_made(tmp_path):
    """Forty levels of two: 2^40 prims of USD by references, nodes of a DAE by instance_node; cycles end."""
    pytest.importorskip("trimesh")
    levels = "".join(
        f'def "l{k}" {{\ndef "a" (references = </l{k + 1}>) {{}}\ndef "b" (references = </l{k + 1}>) {{}}\n}}\n'
        for k in range(40)
    )
    (tmp_path / "bomb.usda").write_text(f'#usda 1.0\n{levels}def Cube "l40" {{}}\n')
    with pytest.raises(ModelError, match=r"bomb.usda.*more than"):
        load(tmp_path / "bomb.usda")
    nodes = "".join(f'<node id="n{k}">' + f'<instance_node url="#n{k + 1}"/>' * 2 + "</node>" for k in range(40))
    scene = '<library_visual_scenes><visual_scene id="s"><node><instance_node url="#n0"/></node></visual_scene></library_visual_scenes>'
    for last, words in (
        ('<node id="n40"/>', "instances"),
        ('<node id="n40"><instance_node url="#n0"/></node>', "deep"),
    ):
        text = f"<COLLADA><library_nodes>{nodes}{last}</library_nodes>{scene}</COLLADA>"
        (tmp_path / "bomb.dae").write_text(text)
        with pytest.raises(ModelError, match=words):
            load_mesh(tmp_path / "bomb.dae")
    header = {"asset": {"version": "2.0"}, "accessors": [{"componentType": 5126, "count": 10**10, "type": "VEC3"}]}
    (tmp_path / "bomb.gltf").write_text(json.dumps(header))
    with pytest.raises(ModelError, match="accessor"):
        load_mesh(tmp_path / "bomb.gltf")


@pytest.mark.parametrize("suffix", ["stl", "obj", "dae", "glb"])
def test_damaged_meshes(tmp_path, suffix):
    """Truncated and overwritten mesh files: a mesh of finite vertices or an error that names the file."""
    trimesh, rng = pytest.importorskip("trimesh"), np.random.default_rng(11)
    trimesh.creation.icosphere(subdivisions=1).export(tmp_path / f"m.{suffix}")
    data = (tmp_path / f"m.{suffix}").read_bytes()
    for trial in range(60):
        path, damaged = tmp_path / f"bad{trial}.{suffix}", bytearray(data)
        if trial < 20:
            damaged = damaged[: len(data) * trial // 20]
        else:
            for at in rng.integers(0, len(damaged), size=rng.integers(1, 10)):
                damaged[at] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        start = time.perf_counter()
        try:
            vertices, faces = load_mesh(path)
            assert np.isfinite(vertices).all() and faces.max() < len(vertices)
            convex_hull(vertices)
        except ModelError as error:
            assert path.name in str(error) or "hull" in str(error), error
        assert time.perf_counter() - start < SECONDS


def test_special_files(tmp_path):
    """Folders, pipes, devices and broken links are no models; nothing waits on them."""
    (tmp_path / "dir.urdf").mkdir()
    os.mkfifo(tmp_path / "pipe.urdf")
    (tmp_path / "lost.urdf").symlink_to(tmp_path / "none")
    (tmp_path / "loop.urdf").symlink_to(tmp_path / "loop.urdf")
    (tmp_path / "zero.urdf").symlink_to("/dev/zero")
    for name in ("dir", "pipe", "lost", "loop", "zero"):
        for suffix in ("urdf", "xml", "usda"):
            path = tmp_path / f"{name}.{suffix}"
            if suffix != "urdf":
                path.symlink_to(tmp_path / f"{name}.urdf")
            assert attempt(path) is None


def test_gymnasium_robots_pass_the_checks():
    """The checks refuse no honest file: every robot of gymnasium that MuJoCo compiles still loads."""
    for path in sorted(ASSETS.glob("*.xml")):
        load(path, unsupported="report")


USD = """
    import pathlib, sys, time, warnings
    import numpy as np
    warnings.simplefilter("ignore")
    from scenes.trajectories import small
    from warpsim.base.errors import ModelError
    from warpsim.files.load import load

    folder, rng, loaded, tried = pathlib.Path(sys.argv[1]), np.random.default_rng(7), 0, 0
    for suffix, cut, changed in (("usda", 30, 60), ("usdc", 10, 15), ("usdz", 4, 4)):  # a binary one takes half a second
        small()[1].to_usd(folder / f"m.{suffix}")
        data = (folder / f"m.{suffix}").read_bytes()
        damaged = [data[: len(data) * k // cut] for k in range(cut)]
        for _ in range(changed):
            copy = bytearray(data)
            for at in rng.integers(0, len(copy), size=rng.integers(1, 8)):
                copy[at] = rng.integers(0, 256)
            damaged.append(bytes(copy))
        for k, content in enumerate(damaged):
            path = folder / f"bad{k}.{suffix}"
            path.write_bytes(content)
            start = time.process_time()
            tried += 1
            try:
                load(path, unsupported="report")
                loaded += 1
            except ModelError as error:
                assert path.name in str(error), error
            assert time.process_time() - start < 10, path
    print(tried, loaded)
"""


def test_damaged_usd(tmp_path):
    """Truncated and overwritten usda, usdc and usdz: a model or an error; the process lives."""
    pytest.importorskip("pxr")
    paths = ":".join(p for p in (str(pathlib.Path(__file__).parent), *sys.path) if p)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USD), str(tmp_path)],
        capture_output=True,
        text=True,
        errors="replace",  # USD's messages quote the damaged bytes
        timeout=120,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split()[-2] == "123"


@pytest.mark.slow
def test_a_file_that_crashes_usd():
    """Overwritten bytes on which usd-core 26.11 ends with signal 11: an error here, since a process of its own tried it."""
    pytest.importorskip("pxr")
    path = pathlib.Path(__file__).parent / "data" / "crashes_usd.usdc"
    try:
        load(path, unsupported="report")
    except ModelError as error:
        assert path.name in str(error)


@pytest.mark.parametrize(
    "text, words",
    [
        ("(metersPerUnit = 0)", "metersPerUnit"),
        ('def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}', "inertia|free"),
        ('def Sphere "s" (prepend apiSchemas = ["PhysicsCollisionAPI"]) { double radius = -1 }', "radius"),
        ('def Sphere "s" (prepend apiSchemas = ["PhysicsCollisionAPI"]) { double radius = nan }', "radius"),
        ('def Mesh "m" (prepend apiSchemas = ["PhysicsCollisionAPI"]) { point3f[] points = [(0, 0, 0)]; int[] faceVertexCounts = [3]; int[] faceVertexIndices = [0, 1, 9] }', "faceVertex"),
        ('def PhysicsRevoluteJoint "j" { rel physics:body1 = </none> }', "no body1"),
        ('def PhysicsFixedJoint "j" {}', "itself"),
        ('def PhysicsScene "s" { vector3f physics:gravityDirection = (nan, 0, 0) }', "gravity"),
        ('def Cube "c" (prepend apiSchemas = ["PhysicsCollisionAPI"]) { double3 xformOp:scale = (0, 1, 1); uniform token[] xformOpOrder = ["xformOp:scale"] }', "scale"),
        ('def Cube "c" { double3 xformOp:translate = (nan, 1, 1); uniform token[] xformOpOrder = ["xformOp:translate"] }', "finite"),
        ('def "a" (references = </a>) {}', None),
        ('def "a" (references = @./x.usda@) {}', None),
    ],
)  # fmt: skip
def test_wrong_usd_values(tmp_path, text, words):
    """Numbers and targets that make no sense name the prim; a stage that refers to itself ends."""
    pytest.importorskip("pxr")
    path = tmp_path / "x.usda"
    text = text.replace("{ ", "{\n").replace(" }", "\n}").replace("; ", "\n")
    path.write_text(f"#usda 1.0\n{text}\n")
    if words is None:
        attempt(path)
    else:
        with pytest.raises(ModelError, match=f"(?s)x.usda.*({words})"):
            load(path)
