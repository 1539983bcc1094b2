# SPDX-License-Identifier: Apache-2.0
"""Images on geoms: read from MJCF and USD, laid as MuJoCo lays them, written with USD and MJCF, and no part of physics."""

import base64
import copy
import dataclasses
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import warnings
import zipfile

import mujoco
import numpy as np
import pytest

import warpsim as ws
from tests.files.test_usd import validate
from warpsim.files.texture_map import drawn_triangles, texture_coordinates
from warpsim.model.looks import encode_png, png_size
from warpsim.model.model import GeomType

pytest.importorskip("pxr")
from pxr import Usd, UsdGeom, UsdShade

CHECKER = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)  # the top row first
TETRAHEDRON = """v -.5 -.6 0\nv .7 -.5 .1\nv .3 .6 .2\nv 0 0 .8
vt 0 0\nvt .5 .125\nvt .875 .75\nvt .25 .625\nf 1/1 3/3 2/2\nf 1/1 2/2 4/4\nf 2/2 3/3 4/4\nf 3/3 1/1 4/4\n"""
ASSETS = """<asset><texture name="t" type="{kind}" file="t.png" {grid}/><mesh name="o" file="o.obj"/>
<mesh name="m" vertex="-.5 -.6 0 .7 -.5 .1 .3 .6 .2 0 0 .8" face="0 2 1 0 1 3 1 2 3 2 0 3"/>
<hfield name="h" nrow="3" ncol="3" size="1 .7 .3 .1" elevation="0 .2 .5 .3 1 .2 0 .1 .4"/>
<material name="t" texture="t" texrepeat="{repeat}" texuniform="{uniform}" specular="0" shininess="0"/></asset>"""
LIGHTS = """<visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/>
<quality shadowsize="0" numslices="128" numstacks="64"/></visual>"""
CAMERAS = """<camera pos="2.3 -1.7 1.9" xyaxes="1.7 2.3 0 -.6 .45 1.1"/><camera pos="-2.3 1.7 -1.9" xyaxes="-1.7 -2.3 0 .6 -.45 1.1"/>"""
SHAPES = {
    "plane": 'type="plane" size="1 .6 .1"',
    "infinite plane": 'type="plane" size="0 0 .1"',
    "half infinite plane": 'type="plane" size="0 .7 .1"',
    "box": 'type="box" size=".9 .6 .4"',
    "sphere": 'type="sphere" size=".8"',
    "ellipsoid": 'type="ellipsoid" size=".9 .5 .7"',
    "cylinder": 'type="cylinder" size=".6 .8"',
    "capsule": 'type="capsule" size=".5 .5"',
    "mesh": 'type="mesh" mesh="o"',
    "bare mesh": 'type="mesh" mesh="m"',
    "hfield": 'type="hfield" hfield="h"',
}


def scene(shape: str, repeat="1 1", uniform="false", kind="2d", grid="") -> str:
    assets = ASSETS.format(repeat=repeat, uniform=uniform, kind=kind, grid=grid)
    geom = f'<geom {SHAPES[shape]} material="t"/>'
    return f"<mujoco>{LIGHTS}{assets}<worldbody>{geom}{CAMERAS}</worldbody></mujoco>"


def saved(folder: pathlib.Path, text: str, image: bytes | None = None) -> pathlib.Path:
    (folder / "t.png").write_bytes(encode_png(CHECKER) if image is None else image)
    (folder / "o.obj").write_text(TETRAHEDRON)
    (folder / "m.xml").write_text(text)
    return folder / "m.xml"


def pixels(data: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def images(model) -> list:
    return list(dict.fromkeys(m.texture for m in model.visual_materials if m.texture is not None))


def same_looks(a, b, tolerance: float = 0.0) -> bool:
    """The same materials, images, colours and coordinates in the images."""
    uv = [(x.uv, y.uv) for x, y in zip(a.meshes, b.meshes, strict=True)]
    close = all((x is None) == (y is None) and (x is None or np.abs(x - y).max() <= tolerance) for x, y in uv)
    same = np.array_equal(a.geom_visual_material, b.geom_visual_material) and np.array_equal(a.geom_rgba, b.geom_rgba)
    return close and same and a.visual_materials == b.visual_materials


def drawn(path, name: str):
    """Points (m, k, 3) of the faces of the mesh that draws a geom, their coordinates (m, k, 2), and the file of the image."""
    stage = Usd.Stage.Open(str(path))
    prims = [p for p in stage.TraverseAll() if p.IsA(UsdGeom.Mesh) and p.GetName() in (name, f"{name}_mesh")]
    prim = next(p for p in prims if UsdGeom.PrimvarsAPI(p).HasPrimvar("st"))
    mesh = UsdGeom.Mesh(prim)
    faces = np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(len(mesh.GetFaceVertexCountsAttr().Get()), -1)
    st = np.array(UsdGeom.PrimvarsAPI(prim).GetPrimvar("st").Get()).reshape(*faces.shape, 2)
    material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
    image = UsdShade.Shader(stage.GetPrimAtPath(material.GetPath().AppendChild("Image")))
    return np.array(mesh.GetPointsAttr().Get())[faces], st, image.GetInput("file").Get()


# laid on shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("uniform", "repeats"), [("false", (3, 2)), ("true", (6, 2))])
def test_an_image_on_a_plane_repeats_as_documented(tmp_path, uniform, repeats):
    """MuJoCo: `texrepeat` times over the object, or, uniform, over a unit of half its size: 2 x 2 pixels on a floor of 4 m by 2 m, evaluated from the stage."""
    text = scene("plane", "3 2", uniform).replace("1 .6 .1", "2 1 .1")
    ws.load(saved(tmp_path, text)).to_usd(tmp_path / "a.usda")
    points, st, file = drawn(tmp_path / "a.usda", "geom_0")
    assert len(points) == 1 and pathlib.Path(file.resolvedPath).read_bytes() == encode_png(CHECKER)
    affine, *_ = np.linalg.lstsq(np.c_[points[0, :, :2], np.ones(4)], st[0], rcond=None)
    rng = np.random.default_rng(0)
    for x, y in rng.uniform([-2, -1], [2, 1], (200, 2)):
        across, up = (x + 2) / 4 * repeats[0], 1 - (1 - y) / 2 * repeats[1]  # images from the left, from below the top
        column, row = int(across % 1 * 2), 1 - int(up % 1 * 2)
        s, t = np.array([x, y, 1]) @ affine
        assert (CHECKER[1 - int(t % 1 * 2), int(s % 1 * 2)] == CHECKER[row, column]).all()


def rendered(cases: list[str], image: bytes) -> list:
    """Points and colours of each case by MuJoCo's renderer, in a process of its own."""
    files = {"t.png": image, "o.obj": TETRAHEDRON.encode()}
    asked = {"models": cases, "assets": {name: base64.b64encode(data).decode() for name, data in files.items()}}
    ended = subprocess.run(
        [sys.executable, str(pathlib.Path(__file__).with_name("texture_colours.py"))],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=os.environ | {"MUJOCO_GL": "egl"},
        timeout=300,
    )
    if ended.returncode:
        pytest.skip(f"no OpenGL without a screen here: {ended.stderr.strip().splitlines()[-1:]}")
    return json.loads(ended.stdout)


def in_geom(model, points) -> np.ndarray:
    """For each point the coordinates of the nearest triangle of geom 0, interpolated; NaN where none is near."""
    vertices, faces = (
        (np.array([[-9, -9, 0], [9, -9, 0], [9, 9, 0], [-9, 9, 0.0]]), np.array([[0, 1, 2], [0, 2, 3]]))
        if model.geom_type[0] == GeomType.PLANE
        else drawn_triangles(model, 0, 256)
    )
    corners = vertices[faces]
    st = texture_coordinates(model, 0, corners)
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(a, b)
    area = np.maximum((normal**2).sum(-1), 1e-30)
    found = np.full((len(points), 2), np.nan)

    def along(axis, points):
        """(q · axis) of each point and triangle, q from the triangle's first corner."""
        return points @ axis.T - (corners[:, 0] * axis).sum(-1)

    axes = np.cross(b, normal) / area[:, None], np.cross(normal, a) / area[:, None], normal / np.sqrt(area)[:, None]
    for some in np.array_split(np.arange(len(points)), len(points) // 64 + 1):
        u, v, far = (along(axis, points[some]) for axis in axes)
        far = np.where((u < -0.02) | (v < -0.02) | (u + v > 1.02), np.inf, np.abs(far))
        i = far.argmin(axis=1)
        one = np.arange(len(some)), i
        place = st[i, 0] + u[one][:, None] * (st[i, 1] - st[i, 0]) + v[one][:, None] * (st[i, 2] - st[i, 0])
        found[some] = np.where(far[one][:, None] < 0.01, place, np.nan)
    return found


@pytest.mark.slow
def test_images_lie_where_mujoco_draws_them():
    """On every shape, repeated, uniform or neither: the colour of a pixel is that of the image at our coordinates, to two of 255 levels."""
    size = 256
    ramp = np.zeros((size, size, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(size), np.arange(size)[:, None]
    ways = [("1 1", "false"), ("2 3", "false"), ("1.5 .75", "true")]
    cases = [(shape, scene(shape, *way)) for shape in SHAPES for way in ways]
    compare(cases, encode_png(ramp), lambda st: np.stack([st[:, 0] % 1, (1 - st[:, 1]) % 1], axis=-1))


@pytest.mark.slow
def test_cubes_lie_where_mujoco_draws_them():
    """The six squares on every round shape and on boxes, by the size of the shape or not."""
    size = 256
    ramp = np.zeros((6 * size, size, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(size), (np.arange(6 * size) % size)[:, None]
    ramp[..., 2] = 40 * (np.arange(6 * size) // size)[:, None]
    shapes = ("box", "sphere", "ellipsoid", "cylinder", "capsule")
    grid = 'gridsize="6 1" gridlayout="RLUDFB"'
    cases = [(s, scene(s, "1 1", way, "cube", grid)) for s in shapes for way in ("false", "true")]

    def colour(st):
        down = 6 * (1 - st[:, 1])
        return np.stack([st[:, 0], down % 1, 40 / 255 * np.floor(down)], axis=-1)

    compare(cases, encode_png(ramp), colour)


def compare(cases, image: bytes, colour) -> None:
    files = {"t.png": image, "o.obj": TETRAHEDRON.encode()}
    for (shape, text), (points, seen) in zip(cases, rendered([text for _, text in cases], image), strict=True):
        spec = mujoco.MjSpec.from_string(text, assets=files)
        model = ws.load(spec)
        points, seen = np.array(points), np.array(seen)
        if shape.endswith("mesh"):  # MuJoCo's axes of a mesh are those of its inertia, ours the same
            m = mujoco.MjSpec.from_string(text, assets=files).compile()
            assert np.allclose(m.geom_pos[0], model.geom_pose[0, :3])
        near = np.abs(points).max(axis=1) < 8
        points, seen = points[near][::3], seen[near][::3]
        st = in_geom(model, points)
        wanted = colour(st)
        seen = seen[:, : wanted.shape[1]]
        inside = np.isfinite(st).all(axis=1) & (np.abs(wanted[:, :2] - 0.5) < 0.46).all(axis=1)  # not across an edge
        inside &= (np.abs(seen[:, :2] - 0.5) < 0.46).all(axis=1)
        error = np.abs(wanted - seen)[inside].max(axis=1)
        assert inside.sum() > 25, (shape, inside.sum())
        assert np.median(error) < 2 / 255 and np.quantile(error, 0.9) < 4 / 255, (shape, text, np.median(error))


# meshes -----------------------------------------------------------------------------------------------------------------


def test_coordinates_of_a_mesh_come_through(tmp_path):
    """Those of the OBJ file at every corner: in the model, in the stage, and read from there again."""
    model = ws.load(saved(tmp_path, scene("mesh")))
    mesh = model.meshes[0]
    lines = [line.split() for line in TETRAHEDRON.splitlines()]
    given = np.array([line[1:] for line in lines if line[0] == "vt"], float)
    corners = np.array([[int(c.split("/")[0]) - 1 for c in line[1:]] for line in lines if line[0] == "f"])
    assert mesh.uv.shape == (4, 3, 2)
    assert {tuple(map(tuple, np.roll(u, k, 0))) for u in mesh.uv for k in range(3)} >= {
        tuple(map(tuple, given[face])) for face in corners
    }
    model.to_usd(tmp_path / "a.usdc")
    points, st, _ = drawn(tmp_path / "a.usdc", "geom_0")
    assert np.array_equal(st, mesh.uv) and np.allclose(points, mesh.vertices[mesh.faces], atol=1e-7)
    assert same_looks(model, ws.load(tmp_path / "a.usdc"))


FOREIGN = """#usda 1.0
(defaultPrim = "World"\nmetersPerUnit = 1\nupAxis = "Z")
def Xform "World" {
    def Mesh "quad" (prepend apiSchemas = ["MaterialBindingAPI"]) {
        point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
        int[] faceVertexCounts = [4]
        int[] faceVertexIndices = [0, 1, 2, 3]
        texCoord2f[] primvars:UVMap = [(0, 0), (1, 0), (1, 0.5), (0, 0.5)] (interpolation = "vertex")
        rel material:binding = </World/Look>
    }
    def Material "Look" {
        token outputs:surface.connect = </World/Look/S.outputs:surface>
        def Shader "S" {
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor.connect = </World/Look/T.outputs:rgb>
            token outputs:surface
        }
        def Shader "R" {
            uniform token info:id = "UsdPrimvarReader_float2"
            string inputs:varname = "UVMap"
            float2 outputs:result
        }
        def Shader "T" {
            uniform token info:id = "UsdUVTexture"
            asset inputs:file = @%s@
            float2 inputs:st.connect = </World/Look/R.outputs:result>
            float3 outputs:rgb
        }
    }
}
"""


def test_images_of_foreign_meshes(tmp_path):
    """The file behind diffuseColor and the primvar that lays it, vertex by vertex; outside or missing it is named in the report."""
    (tmp_path / "in").mkdir()
    for place in (tmp_path, tmp_path / "in"):
        (place / "t.png").write_bytes(encode_png(CHECKER))
    for name, why in (("./t.png", None), ("../t.png", "outside"), ("./nix.png", "no such file")):
        (tmp_path / "in" / "a.usda").write_text(FOREIGN % name)
        model = ws.load(tmp_path / "in" / "a.usda")
        if why is None:
            assert images(model)[0].data == encode_png(CHECKER) and model.geom_rgba[0].tolist() == [1, 1, 1, 1]
            assert model.meshes[0].uv.tolist() == [[[0, 0], [1, 0], [1, 0.5]], [[0, 0], [1, 0.5], [0, 0.5]]]
        else:
            line = next(line for line in model.report if "image" in line.feature)
            assert not model.visual_materials and why in line.detail and name in line.detail


# in files ---------------------------------------------------------------------------------------------------------------


def everything(folder: pathlib.Path):
    """A model with a cube, two images, a mesh, a shine without an image, and many geoms."""
    text = """<mujoco><compiler texturedir="."/><asset><texture name="grid" type="2d" builtin="checker" width="8" height="8" rgb1=".1 .2 .3" rgb2=".9 .8 .7"/>
    <texture name="body" type="cube" builtin="flat" mark="cross" width="8" rgb1=".8 .6 .4" rgb2=".8 .6 .4"/>
    <texture name="wood" type="2d" file="t.png"/><texture type="skybox" builtin="gradient" width="8"/><mesh name="o" file="o.obj"/>
    <material name="grid" texture="grid" texrepeat="3 3" texuniform="true" reflectance=".25"/><material name="body" texture="body" rgba=".5 .5 1 1"/>
    <material name="wood" texture="wood" emission=".5"/><material name="dull" shininess=".125" rgba="0 1 0 1"/></asset>
    <worldbody><geom name="floor" type="plane" size="5 5 .1" material="grid"/><body name="a" pos="0 0 1"><freejoint/><geom name="o" type="mesh" mesh="o" material="wood"/>
    <geom name="head" size=".1" material="body"/><geom name="green" type="box" size=".1 .2 .3" material="dull"/><geom name="bare" size=".2"/></body>
    <body><replicate count="50" offset="0 1 0"><geom type="box" size=".1 .1 .1" material="wood"/></replicate></body></worldbody></mujoco>"""
    return ws.load(saved(folder, text))


def test_a_model_has_every_image_once(tmp_path):
    """50 boxes and a mesh share an image of a file, whose bytes are the file's; the report counts."""
    model = everything(tmp_path)
    assert [image.name for image in images(model)] == ["grid", "wood", "body"] and len(model.visual_materials) == 4
    assert images(model)[1].data == (tmp_path / "t.png").read_bytes() and images(model)[2].kind == "cube"
    assert png_size(images(model)[2].data) == (8, 48)
    grid = pixels(images(model)[0].data)
    assert {tuple(c) for c in grid.reshape(-1, 3).tolist()} == {(25, 51, 76), (229, 204, 178)}
    told = {line.feature: line.detail for line in model.report}
    assert told["textures"].startswith("3") and told["textures that no geom has"].startswith("1")
    mj = mujoco.MjModel.from_xml_path(str(tmp_path / "m.xml"))  # where MuJoCo has read the file
    assert np.array_equal(pixels(images(ws.load(mj))[1].data), CHECKER)


def test_images_are_no_part_of_physics(tmp_path):
    """Every number but the looks is the same without materials, bit for bit."""
    model = everything(tmp_path)
    text = (tmp_path / "m.xml").read_text()
    for name in ("grid", "body", "wood", "dull"):
        text = text.replace(f'material="{name}"', "")
    plain = ws.load(saved(tmp_path, text))
    for field in dataclasses.fields(model):
        a, b = getattr(model, field.name), getattr(plain, field.name)
        if isinstance(a, np.ndarray) and field.name not in ("geom_rgba", "geom_visual_material"):
            assert np.array_equal(a, b, equal_nan=True), field.name
    assert all(
        np.array_equal(x[1], y[1]) and np.array_equal(x[2], y[2])
        for x, y in zip(model.meshes, plain.meshes, strict=True)
    )


def quietly(make, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*arguments)


@pytest.mark.parametrize(
    "way", ["pickle", "copy", "builder", "mjcf", "mjcf text", "mjspec", "usda", "usdz", "isolated", "store"]
)
def test_looks_come_back(tmp_path, way):
    """Through every form of a model; after the images of the source are gone."""
    model = everything(tmp_path)
    (out := tmp_path / "out").mkdir()
    if way == "pickle":
        back = pickle.loads(pickle.dumps(model))
    elif way == "copy":
        back = copy.deepcopy(model)
    elif way == "builder":
        b = ws.ModelBuilder()
        b.add_model(model)
        back = b.build()
    elif way == "isolated":
        back = ws.load(tmp_path / "m.xml", isolate=True)
    elif way == "store":
        from warpsim.files.store.place import zarr_store
        from warpsim.files.store.store_model import model_from_group, model_to_group

        zarr = pytest.importorskip("zarr")
        model_to_group(model, group := zarr.create_group(zarr_store(tmp_path / "m.zarr", False), zarr_format=3))
        back = model_from_group(group)
    else:
        name = {"mjcf": "a.xml", "mjcf text": "b.xml"}.get(way, f"a.{way}")
        if way == "mjcf text":
            (out / name).write_text(quietly(model.to_mjcf))
        elif way == "mjspec":
            name = quietly(model.to_mjspec)
        else:
            quietly(model.to_mjcf if way == "mjcf" else model.to_usd, out / name)
        (tmp_path / "t.png").unlink()
        back = ws.load(name if way == "mjspec" else out / name)
    assert same_looks(model, back) and len({id(image) for image in images(back)}) == 3
    if way == "mjcf":  # plain MJCF, which MuJoCo draws alike
        m = mujoco.MjModel.from_xml_path(str(out / name))
        assert m.ntex == 3 and m.nmat == 4 and "looks" not in (out / name).read_text().partition("warpsim:data")[2]


def test_an_edited_material_counts(tmp_path):
    """What was kept beside the MJCF gives way where the file says something else now."""
    model = everything(tmp_path)
    text = quietly(model.to_mjcf).replace('emission="0.5"', 'emission="0.75"')
    (tmp_path / "b.xml").write_text(text)
    back = ws.load(tmp_path / "b.xml")
    material = back.visual_materials[back.geom_visual_material[back.geom("o")]]
    assert material.emission == 0.75 and material.texture is None


@pytest.mark.parametrize("form", [None, "named", "instanced"])
def test_every_form_has_its_images_and_passes_the_validators(tmp_path, form):
    """One file per image beside the stage, among clips or in the package; UsdValidation finds nothing."""
    model = everything(tmp_path)
    sim = ws.Simulator(model, worlds=2, device="cpu")
    run = sim.rollout(sim.state(), steps=6)
    options = {"form": form, "worlds": [1] if form is None else [0, 1]}
    (out := tmp_path / "out").mkdir()
    for suffix in ("usda", "usdc", "usdz"):
        run.to_usd(out / f"{suffix}.{suffix}", **options)
        validate(out / f"{suffix}.{suffix}")
    run.to_usd(out / "clips", frames_per_file=3, **options)
    run.to_usd(out / "clips", frames_per_file=3, **options)  # in its own place
    validate(out / "clips" / "stage.usda")
    with zipfile.ZipFile(out / "usdz.usdz") as archive:
        packed = [name for name in archive.namelist() if name.endswith(".png")]
    folders = [
        sorted(f.name for f in (out / name).iterdir()) for name in ("usda_textures", "usdc_textures", "clips/textures")
    ]
    assert folders[0] == folders[1] == folders[2] == sorted(pathlib.Path(name).name for name in packed)
    assert len(packed) == 3 and not (out / "usdz_textures").exists()
    for stage in ("usda.usda", "usdz.usdz", "clips/stage.usda"):
        points, st, file = drawn(out / stage, "floor")
        assert file.resolvedPath and np.isfinite(st).all() and points.shape[:2] == st.shape[:2]


def test_another_image_is_never_replaced(tmp_path):
    """A second stage of the same name with an image of the same name leaves that of the first."""
    pictures = [np.full((2, 2, 3), level, np.uint8) for level in (10, 200)]
    for suffix, picture in zip(("usda", "usdc"), pictures, strict=True):
        b = ws.ModelBuilder()
        b.add_geom("plane", name="floor", material=ws.VisualMaterial(ws.Texture.of_pixels(picture, "grid")))
        b.build().to_usd(tmp_path / f"a.{suffix}")
    for suffix, picture in zip(("usda", "usdc"), pictures, strict=True):
        file = drawn(tmp_path / f"a.{suffix}", "floor")[2]
        assert np.array_equal(pixels(pathlib.Path(file.resolvedPath).read_bytes()), picture)


# what is wrong ----------------------------------------------------------------------------------------------------------


def test_images_that_cannot_be_read_are_named(tmp_path):
    """Missing, no PNG, or announcing too many pixels: the report has the texture, the file and why; the geom keeps its colour."""
    huge = encode_png(CHECKER)[:16] + (10**6).to_bytes(4, "big") * 2
    for image, why in ((b"no picture", "no PNG"), (huge, "1e+06 x 1e+06 pixels"), (None, "no such file")):
        path = saved(tmp_path, scene("box"), image)
        if image is None:
            (tmp_path / "t.png").unlink()
        model = ws.load(path)
        line = next(line for line in model.report if line.feature == "texture 't'")
        assert line.status == "ignored" and why in line.detail and not images(model)


def test_materials_of_urdf_meshes_are_named(tmp_path):
    """They are not read, and the report says of which files."""
    (tmp_path / "o.obj").write_text("mtllib o.mtl\n" + TETRAHEDRON)
    shape = '<geometry><mesh filename="o.obj"/></geometry>'
    (tmp_path / "r.urdf").write_text(f'<robot name="r"><link name="a"><visual>{shape}</visual></link></robot>')
    line = next(line for line in ws.load(tmp_path / "r.urdf").report if line.feature == "materials of mesh files")
    assert line.status == "ignored" and "o.obj" in line.detail


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ws.VisualMaterial(repeat=(0, 1)), r"repeat is 0.0; it must be positive"),
        (lambda: ws.VisualMaterial(emission=np.nan), r"emission is nan"),
        (lambda: ws.VisualMaterial("wood.png"), r"give a ws.Texture"),
        (lambda: ws.Texture.of_pixels(np.zeros((2, 2))), r"shape \(2, 2\)"),
        (lambda: ws.Texture.of_pixels(np.zeros((2, 4, 3), np.uint8), kind="cube"), r"4 x 2 pixels; a cube needs"),
        (lambda: ws.Texture.read("/nowhere/wood.png"), r"/nowhere/wood.png: No such file"),
        (lambda: ws.ModelBuilder().add_geom("sphere", [1], material="red"), r"give a ws.VisualMaterial"),
        (lambda: ws.ModelBuilder().add_geom("mesh", mesh=(np.eye(3), [[0, 1, 2]], [[0, 0]])), r"uv of its mesh"),
    ],
)
def test_errors_name_the_value(make, why):
    with pytest.raises(ws.ModelError, match=why):
        make()
