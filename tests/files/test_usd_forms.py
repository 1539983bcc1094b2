# SPDX-License-Identifier: Apache-2.0
"""Every form of USD export: USD's own validators, what the frames hold, how it looks, and that nothing half-written stays."""

import os
import pathlib
import subprocess
import sys

import mujoco
import numpy as np
import pytest

import warpsim as ws
from scenes import sensing, tendons
from scenes.trajectories import asset, rollout, small
from tests.files.test_usd import find, validate
from tests.files.test_usd_read import load, same
from warpsim.files.mjcf.mjcf import load_mujoco
from warpsim.files.scene import geom_colors, shown_spheres
from warpsim.files.shapes import corner_normals, triangles
from warpsim.files.usd.usd_looks import displayed, linear
from warpsim.model.geometry import rotation_matrix
from warpsim.model.host_kinematics import body_poses, geom_poses
from warpsim.model.model import GeomType

pytest.importorskip("pxr")
from pxr import Usd, UsdGeom, UsdLux, UsdShade

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 25


@pytest.fixture(scope="module")
def recorded():
    return rollout(*small(), worlds=3, steps=STEPS, dt=1 / 50)


@pytest.fixture(scope="module")
def forces(recorded):
    """Made up: nothing for ten steps, then something else in every step."""
    found = np.random.default_rng(0).normal(size=(STEPS, 3, recorded.model.nbody, 3))
    found[5:15] = 0
    return found


def samples(stage) -> dict:
    """Every attribute of a stage that has time samples, by its path."""
    found = (a for prim in stage.TraverseAll() for a in prim.GetAttributes())
    return {a.GetPath(): a for a in found if a.GetNumTimeSamples()}


# what USD itself says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usdz", ""])
@pytest.mark.parametrize(("form", "worlds"), [(None, 1), (None, 3), ("named", 1), ("named", 3), ("instanced", 1)])
def test_every_form_passes_the_validators(tmp_path, recorded, forces, form, worlds, suffix):
    """All of UsdValidation finds nothing, in one file of each format and in clips; what is recorded is in it too."""
    options = {"form": form, "worlds": worlds, "diagnostics": True, "contact_forces": forces}
    if suffix:
        recorded.to_usd(tmp_path / f"a{suffix}", **options)
        validate(tmp_path / f"a{suffix}")
    else:
        recorded.to_usd(tmp_path / "a", frames_per_file=10, **options)
        validate(tmp_path / "a" / "stage.usda")
    assert len(list(tmp_path.iterdir())) == 1


def test_models_with_everything_pass_the_validators(tmp_path):
    """Cameras, sensors, sites, constraints, pressure fields, tendons, height fields and a medium."""
    from scenes.constraints import every_constraint
    from scenes.examples import hills
    from scenes.pressure import spatula_gripper

    models = [every_constraint(), hills(), spatula_gripper(), sensing.model("slides"), marked(), asset("swimmer")[1]]
    for k, model in enumerate(models):
        for suffix in ("usda", "usdz"):
            model.to_usd(tmp_path / f"{k}.{suffix}")
            validate(tmp_path / f"{k}.{suffix}")


# frames ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, "named", "instanced"])
def test_clips_hold_what_one_file_holds(tmp_path, recorded, forces, form):
    """At every frame every attribute is bit for bit that of one file; clips of 10 frames, a manifest and a topology without samples."""
    options = {"form": form, "worlds": [0, 2], "diagnostics": True, "contact_forces": forces}
    recorded.to_usd(tmp_path / "one.usdc", **options)
    recorded.to_usd(tmp_path / "clips", frames_per_file=10, **options)
    names = sorted(p.name for p in (tmp_path / "clips").iterdir())
    assert names == [*(f"clip_{k:04d}.usdc" for k in range(3)), "manifest.usda", "stage.usda", "topology.usdc"]
    one, clips = (Usd.Stage.Open(str(tmp_path / name)) for name in ("one.usdc", "clips/stage.usda"))
    assert [clips.GetMetadata(key) for key in ("upAxis", "timeCodesPerSecond", "endTimeCode")] == ["Z", 50, STEPS]
    assert clips.GetDefaultPrim().GetPath() == "/World" and not samples(
        Usd.Stage.Open(str(tmp_path / "clips/topology.usdc"))
    )
    expected = samples(one)
    assert expected and expected.keys() == samples(clips).keys()
    for path, attribute in expected.items():
        for frame in range(STEPS + 1):
            assert clips.GetAttributeAtPath(path).Get(frame) == attribute.Get(frame), (path, frame)
    for k in range(3):
        layer = Usd.Stage.Open(str(tmp_path / "clips" / f"clip_{k:04d}.usdc"))
        times = {t for a in samples(layer).values() for t in a.GetTimeSamples()}
        assert times == set(range(10 * k, min(10 * k + 10, STEPS + 1)))


@pytest.mark.parametrize("form", [None, "named", "instanced"])
def test_clips_hold_what_changes_at_their_ends(tmp_path, recorded, forces, form):
    """Clips that begin with a change, after frames without one: no frame is a mixture of what two clips have."""
    changing = np.repeat(forces[::5], 5, axis=0)  # in frames 6, 11, …
    options = {"form": form, "worlds": [0] if form is None else [0, 2], "contact_forces": changing}
    recorded.to_usd(tmp_path / "one.usdc", **options)
    recorded.to_usd(tmp_path / "clips", frames_per_file=6, **options)
    one, clips = (Usd.Stage.Open(str(tmp_path / name)) for name in ("one.usdc", "clips/stage.usda"))
    found = [path for path in samples(one) if path.name.endswith("contactForce")]
    assert found
    for path in found:
        for frame in range(STEPS + 1):
            values = [np.array(stage.GetAttributeAtPath(path).Get(frame)) for stage in (one, clips)]
            np.testing.assert_allclose(*values, rtol=1e-6, err_msg=f"{path}, {frame}")


def test_named_worlds_have_the_simulated_poses(tmp_path, recorded):
    """`/World/Worlds/World_<w>/<body>` stands where forward kinematics and the grid put it, and shares its prototype's meshes."""
    recorded.to_usd(tmp_path / "a.usdc", worlds=[0, 2], form="named", spacing=3.0)
    stage, poses = Usd.Stage.Open(str(tmp_path / "a.usdc")), recorded.poses()
    for world, shift in ((0, -1.5), (2, 1.5)):
        for body, name in enumerate(recorded.model.body_names):
            prims = stage.GetPrimAtPath(f"/World/Worlds/World_{world}").GetChildren()
            prim = next(p for p in prims if p.GetCustomDataByKey("warpsim:name") == name)
            for frame in (0, 7, STEPS):
                matrix = np.array(UsdGeom.XformCache(frame).GetLocalToWorldTransform(prim)).T
                np.testing.assert_allclose(matrix[:3, 3] - [shift, 0, 0], poses[frame, world, body, :3], atol=1e-12)
                np.testing.assert_allclose(matrix[:3, :3], rotation_matrix(poses[frame, world, body, 3:]), atol=1e-6)
            meshes = [p for p in Usd.PrimRange(prim, Usd.TraverseInstanceProxies()) if p.IsA(UsdGeom.Mesh)]
            assert len(meshes) == (recorded.model.geom_body == body).sum()
            assert all(UsdShade.MaterialBindingAPI(p).ComputeBoundMaterial()[0] for p in meshes)
    assert len(stage.GetPrototypes()) == recorded.model.nbody


def test_diagnostics_and_forces_are_those_of_the_step_before(tmp_path, recorded, forces):
    """At every frame, also where nothing changed for a while: worlds' diagnostics and bodies' forces, by prims and by instances."""
    options = {"diagnostics": True, "contact_forces": forces}
    recorded.to_usd(tmp_path / "n.usdc", form="named", **options)
    recorded.to_usd(tmp_path / "i.usdc", **options)
    named, instanced = (Usd.Stage.Open(str(tmp_path / name)) for name in ("n.usdc", "i.usdc"))
    many = instanced.GetPrimAtPath("/World/Robots")
    primvar = UsdGeom.PrimvarsAPI(many).GetPrimvar("warpsim:contactForce")
    assert primvar.GetInterpolation() == "vertex" and primvar.GetTypeName() == "vector3f[]"
    for frame in range(STEPS + 1):
        step = max(frame - 1, 0)
        np.testing.assert_allclose(primvar.Get(frame), forces[step].reshape(-1, 3), rtol=1e-6)
        for name, array in recorded.diagnostics.items():
            np.testing.assert_array_equal(many.GetAttribute(f"warpsim:{name}").Get(frame), array[step])
            for world in range(3):
                prim = named.GetPrimAtPath(f"/World/Worlds/World_{world}")
                assert prim.GetAttribute(f"warpsim:{name}").Get(frame) == array[step, world]
        for world in range(3):
            for prim, force in zip(
                named.GetPrimAtPath(f"/World/Worlds/World_{world}").GetChildren(), forces[step, world], strict=True
            ):
                np.testing.assert_allclose(prim.GetAttribute("warpsim:contactForce").Get(frame), force, rtol=1e-6)
    assert many.GetAttribute("warpsim:flags").GetNumTimeSamples() == 1


# looks -----------------------------------------------------------------------------------------------------------------


def test_every_shape_is_drawn_by_a_mesh_in_its_colour(tmp_path):
    """Each visible geom has one mesh that renderers see, in its place, of its size, with a material of its linear colour; the gprim is a guide."""
    model = small()[1]
    model.to_usd(tmp_path / "m.usda")
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    poses = geom_poses(model, body_poses(model, model.q0))
    drawn = {p.GetCustomDataByKey("warpsim:draws") or p.GetCustomDataByKey("warpsim:name"): UsdGeom.Mesh(p)
             for p in stage.Traverse() if p.IsA(UsdGeom.Mesh)}  # fmt: skip
    assert drawn.keys() == set(model.geom_names)
    for geom, name in enumerate(model.geom_names):
        mesh, kind = drawn[name], model.geom_type[geom]
        color = displayed(mesh.GetDisplayColorAttr().Get()[0])
        material = UsdShade.MaterialBindingAPI(mesh).ComputeBoundMaterial()[0]
        shader = material.ComputeSurfaceSource()[0]
        np.testing.assert_allclose(shader.GetInput("diffuseColor").Get(), mesh.GetDisplayColorAttr().Get()[0])
        np.testing.assert_allclose(color, geom_colors(model)[geom, :3], atol=1e-6)
        assert mesh.ComputePurpose() == "default" and shader.GetIdAttr().Get() == "UsdPreviewSurface"
        matrix = np.array(UsdGeom.XformCache(0).GetLocalToWorldTransform(mesh.GetPrim())).T
        np.testing.assert_allclose(matrix[:3, 3], poses[geom, :3], atol=1e-6)
        points = np.array(mesh.GetPointsAttr().Get())
        if kind == GeomType.PLANE:
            assert np.ptp(points[:, :2], axis=0).tolist() == [10, 10]
            continue
        np.testing.assert_allclose(points, triangles(model, geom)[0], atol=1e-6)
        if kind != GeomType.ELLIPSOID:
            assert UsdGeom.Imageable(find(stage, name, UsdGeom.Gprim)).ComputePurpose() == "guide"


@pytest.mark.parametrize("kind", ["sphere", "cylinder", "box"])
def test_normals_are_smooth_but_at_edges(kind):
    """Of a sphere along the radius within half a segment; of a cylinder on its side without z and on its caps along z; of a box its sides'."""
    b = ws.ModelBuilder("one")
    b.add_geom(kind, {"sphere": [0.2], "cylinder": [0.2, 0.3], "box": [0.1, 0.2, 0.3]}[kind])
    vertices, faces = triangles(b.build(), 0)
    normals = corner_normals(vertices, faces)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1)
    at = vertices[faces]
    if kind == "sphere":
        assert ((normals * at).sum(axis=-1) / 0.2 > np.cos(np.pi / 48)).all()
    elif kind == "box":
        assert (np.abs(normals).max(axis=-1) > 1 - 1e-12).all()
    else:
        flat = np.ptp(at[..., 2], axis=1) == 0
        np.testing.assert_allclose(np.abs(normals[flat, :, 2]), 1)
        side = (normals[~flat, :, :2] * at[~flat, :, :2]).sum(axis=-1) / 0.2
        assert np.abs(normals[~flat, :, 2]).max() < 1e-12 and (side > np.cos(np.pi / 48)).all()


def test_colours_are_linear_and_come_back():
    """The two functions invert each other; white, black and the middle of sRGB are where IEC 61966 puts them."""
    values = np.linspace(0, 1, 101)
    np.testing.assert_allclose(displayed(linear(values)), values, atol=1e-12)
    np.testing.assert_allclose(linear([0, 0.5, 1]), [0, 0.21404114048223255, 1])


def test_a_colour_of_another_stage_is_read_as_displayed(tmp_path):
    """A grey of 0.214 in linear values is one of 0.5."""
    stage = Usd.Stage.CreateNew(str(tmp_path / "s.usda"))
    UsdGeom.Sphere.Define(stage, "/ball").CreateDisplayColorAttr([(0.21404114, 0, 1)])
    stage.Save()
    np.testing.assert_allclose(load(tmp_path / "s.usda").geom_rgba[0], [0.5, 0, 1, 1], atol=1e-6)


@pytest.mark.parametrize("worlds", [1, 3])
def test_the_camera_sees_all_of_it(tmp_path, recorded, worlds):
    """Every geom's sphere lies in the picture at the first frame and the last, and fills half of it; lights are there, all outside the default prim."""
    recorded.to_usd(tmp_path / "a.usdc", worlds=worlds, spacing=2.0)
    stage = Usd.Stage.Open(str(tmp_path / "a.usdc"))
    view = UsdGeom.Camera(stage.GetPrimAtPath("/View/Camera")).GetCamera(0).frustum
    matrix = np.array(view.ComputeViewMatrix() * view.ComputeProjectionMatrix())
    from warpsim.files.scene import grid_origins

    seen = []
    for frame in (0, STEPS):
        centers, _ = shown_spheres(recorded.model, recorded.poses()[frame, :worlds], grid_origins(worlds, 2.0))
        clip = np.concatenate([centers, np.ones((len(centers), 1))], axis=1) @ matrix
        seen.append(clip[:, :3] / clip[:, 3:])
    seen = np.concatenate(seen)
    assert np.abs(seen).max() < 1 and np.abs(seen[:, :2]).max() > 0.5
    lights = [p for p in stage.Traverse() if p.HasAPI(UsdLux.LightAPI)]
    assert len(lights) == 2 and not any(p.GetPath().HasPrefix("/World") for p in lights)


def test_tendons_are_drawn_as_long_as_they_are(tmp_path):
    """The curves of every frame, in one world and among named ones, have MuJoCo's lengths of tendons without pulleys, to the chords of 12 to an arc."""
    compiled = tendons.wound_tree(3)
    model = load_mujoco(compiled)
    rng, data, q, lengths = np.random.default_rng(3), mujoco.MjData(compiled), [], []
    for _ in range(2 * 70):
        data.qpos[:] = compiled.qpos0
        mujoco.mj_integratePos(compiled, data.qpos, rng.normal(size=compiled.nv), 1.0)
        mujoco.mj_kinematics(compiled, data)
        mujoco.mj_comPos(compiled, data)
        mujoco.mj_tendon(compiled, data)
        q.append(data.qpos.copy())
        lengths.append(data.ten_length.copy())
    q, lengths = np.reshape(q, (70, 2, -1)), np.reshape(lengths, (70, 2, -1))
    time = np.repeat(0.02 * np.arange(70)[:, None], 2, axis=1)
    t = ws.Trajectory(model, q, np.zeros((70, 2, model.nv)), time)
    t.to_usd(tmp_path / "one.usdc", worlds=[1])
    t.to_usd(tmp_path / "named.usdc", form="named")
    model.to_usd(tmp_path / "still.usda", q=q[5, 1])
    plain = [k for k in range(model.ntendon) if (model.wrap_divisor[model.wrap_tendon == k] == 1).all()]
    assert len(plain) > 2
    stages = [
        ("one.usdc", "/World/Tendons"),
        ("named.usdc", "/World/Worlds/World_1/Tendons"),
        ("still.usda", "/World/Tendons"),
    ]
    for name, root in stages:
        validate(tmp_path / name)
        stage = Usd.Stage.Open(str(tmp_path / name))
        for k in plain:
            curve = UsdGeom.BasisCurves(stage.GetPrimAtPath(f"{root}/{model.tendon_names[k]}"))
            ends = np.cumsum(curve.GetCurveVertexCountsAttr().Get())[:-1]
            for frame in (5,) if "still" in name else (0, 5, 69):
                parts = np.split(np.array(curve.GetPointsAttr().Get(frame), float), ends)
                drawn = sum(np.linalg.norm(np.diff(p, axis=0), axis=1).sum() for p in parts)
                assert 0 <= 1 - drawn / lengths[frame, 1, k] + 1e-6 < 1e-3
    assert load(tmp_path / "still.usda").ntendon == model.ntendon


# what models have --------------------------------------------------------------------------------------------------------


def marked() -> ws.Model:
    """Cameras and sensors on bodies and in the world."""
    compiled = mujoco.MjModel.from_xml_string("""<mujoco><option density="1.2" viscosity="1e-5" wind="1 2 0"/><worldbody>
      <camera name="far" pos="0 -3 1" xyaxes="1 0 0 0 .3 1" fovy="40" resolution="640 480"/>
      <geom type="plane" size="0 0 1"/><body name="b" pos="0 0 1"><freejoint name="f"/>
      <camera name="eye" pos=".1 0 0" quat="1 .2 .3 .1"/><site name="s" pos="0 .1 0"/>
      <geom name="g" type="capsule" size=".1 .2" fluidshape="ellipsoid"/></body></worldbody>
      <sensor><framepos objtype="camera" objname="eye"/><accelerometer site="s" cutoff="9"/>
      <camprojection site="s" camera="eye"/><framequat objtype="xbody" objname="b"/><clock/></sensor></mujoco>""")
    return load_mujoco(compiled)


@pytest.mark.parametrize("make", [marked, lambda: sensing.model("slides"), lambda: asset("swimmer")[1]])
def test_cameras_sensors_and_the_medium_read_back(tmp_path, make):
    """Every array of the model; cameras are prims of their angle of view on their bodies."""
    model = make()
    model.to_usd(tmp_path / "m.usda")
    same(model, load(tmp_path / "m.usda"))
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    for c, name in enumerate(model.camera_names):
        view = UsdGeom.Camera(find(stage, name, UsdGeom.Camera))
        height, focal = view.GetVerticalApertureAttr().Get(), view.GetFocalLengthAttr().Get()
        assert 2 * np.arctan(height / 2 / focal) == pytest.approx(model.camera_fovy[c], rel=1e-6)
        assert view.GetHorizontalApertureAttr().Get() / height == pytest.approx(np.divide(*model.camera_resolution[c]))


def test_cameras_of_other_stages_are_read(tmp_path):
    """Pose in their body, up axis and units turned, and vertical angle of view; an orthographic one is reported."""
    model = marked()
    model.to_usd(tmp_path / "m.usda")
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    for prim in stage.Traverse():
        prim.ClearCustomData()
    stage.GetPrimAtPath("/View/Camera").GetAttribute("projection").Set("orthographic")
    stage.Export(str(tmp_path / "bare.usda"))
    found = load(tmp_path / "bare.usda")
    assert set(found.camera_names) == {"far", "eye"}
    assert any("camera" in line.feature and line.status == "ignored" for line in found.report)
    for c, name in enumerate(model.camera_names):
        other = found.camera(name)
        assert found.camera_body[other] == model.camera_body[c]
        np.testing.assert_allclose(found.camera_pose[other], model.camera_pose[c], atol=1e-6)
        np.testing.assert_allclose(found.camera_fovy[other], model.camera_fovy[c], rtol=1e-6)


# bad input ---------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_named_and_nothing_is_left(tmp_path, recorded, forces):
    """Wrong options, and folders that are somebody else's: one `ValueError` each, and nothing written."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for options, words in [
        ({"form": "instances"}, "form.*instanced"),
        ({"path": tmp_path / "a", "frames_per_file": 0}, "frames_per_file"),
        ({"path": tmp_path / "a.usdc", "frames_per_file": 5}, "writes a folder"),
        ({"path": tmp_path / "mine", "frames_per_file": 5}, "something else"),
        ({"path": tmp_path / "file", "frames_per_file": 5}, "is a file"),
        ({"path": tmp_path / "none" / "a", "frames_per_file": 5}, "does not exist"),
        ({"contact_forces": forces[1:]}, r"contact_forces has shape \(24, 3.*\(25, 3"),
        ({"diagnostics": 1}, "diagnostics"),
        ({"form": "named", "worlds": [0, 2, 0]}, r"\[0, 2, 0\].*once"),
        ({"path": tmp_path / "a\nb.usda"}, "OpenUSD cannot read"),
        ({"path": tmp_path / "a:SDF_FORMAT_ARGS:b=c.usda"}, "OpenUSD cannot read"),
        ({"path": tmp_path / "a\\b", "frames_per_file": 5}, "OpenUSD cannot read"),
    ]:
        with pytest.raises(ValueError, match=words):
            recorded.to_usd(**({"path": tmp_path / "a.usdc"} | options))
    bare = ws.Trajectory(recorded.model, recorded.q, recorded.v, recorded.time)
    with pytest.raises(ValueError, match="this trajectory has none"):
        bare.to_usd(tmp_path / "a.usdc", diagnostics=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "mine"]
    assert (tmp_path / "mine" / "letter.txt").read_text() == "keep"


def test_names_with_markup_and_slashes(tmp_path):
    """Names that are no names of prims, and would be markup or paths, give valid stages in every form, and come back."""
    odd = ["a/b", "<b>&amp;", '"quoted" {x}', "back\\slash", "ünï 中", "1", "../up", "a_b", "@x@", "'''"]
    b = ws.ModelBuilder('model "<x>" @y@')
    for k, name in enumerate(odd):
        body = b.add_body(name, pose=[k, 0, 1])
        b.add_joint(body, "free", name=name)
        b.add_geom("sphere", [0.1], body=body, name=name)
        b.add_camera(name, body=body)
    model = b.build()
    model.to_usd(tmp_path / "m.usda")
    validate(tmp_path / "m.usda")
    same(model, load(tmp_path / "m.usda"))
    q = np.tile(model.q0, (2, 2, 1))
    t = ws.Trajectory(model, q, np.zeros((2, 2, model.nv)), np.array([[0.0, 0], [0.1, 0.1]]))
    for form in ("named", "instanced"):
        t.to_usd(tmp_path / f"{form}.usda", form=form)
        validate(tmp_path / f"{form}.usda")


def test_an_interrupted_export_leaves_what_was_there(tmp_path, recorded, monkeypatch):
    """Ctrl-C in the middle: the old file, and the old folder of clips, stay whole, and nothing else does; a new folder takes its place whole."""
    from warpsim.files.usd import usd_worlds

    recorded.to_usd(tmp_path / "clips", frames_per_file=20)
    recorded.to_usd(tmp_path / "a.usdc")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    whole = usd_worlds._packed

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(usd_worlds, "_packed", interrupted)
    for path, options in ((tmp_path / "a.usdc", {}), (tmp_path / "clips", {"frames_per_file": 5})):
        with pytest.raises(KeyboardInterrupt):
            recorded.to_usd(path, **options)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    monkeypatch.setattr(usd_worlds, "_packed", whole)
    recorded.to_usd(tmp_path / "clips", frames_per_file=5)
    assert len(list((tmp_path / "clips").glob("clip_*.usdc"))) == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.usdc", "clips"]


FULL_DISK = """
import os, pathlib, resource, sys
from scenes.trajectories import rollout, small
recorded = rollout(*small(), worlds=30, steps=40)
folder = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
for form in ("named", "instanced"):
    try:
        recorded.to_usd(folder / "clips", form=form, frames_per_file=20)
    except OSError as error:
        assert str(error).startswith(f"{folder / 'clips'} could not be written") and "File too large" in str(error), error
    else:
        raise SystemExit("the whole folder was written")
assert not os.listdir(folder), os.listdir(folder)
print("kept")
"""


def test_a_full_disk_leaves_no_clips(tmp_path):
    """Files may not grow beyond 9 kB in a process of its own: `OSError` that names the folder, and nothing remains."""
    pytest.importorskip("resource")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip().endswith("kept"), done.stderr[-3000:]


def test_a_stored_run_is_written_as_one_in_memory(tmp_path, recorded):
    """The file from a store is that of the arrays, byte for byte."""
    recorded.save(tmp_path / "a.zarr")
    recorded.to_usd(tmp_path / "a.usda", diagnostics=True)
    ws.Trajectory.load(tmp_path / "a.zarr").to_usd(tmp_path / "b.usda", diagnostics=True)
    assert (tmp_path / "a.usda").read_bytes() == (tmp_path / "b.usda").read_bytes()


def test_shapes_that_differ_between_worlds_are_told(tmp_path):
    """Sizes and places that are not the model's are drawn as the model's, with a warning that names them; from a store and a copy of it too."""
    sim = ws.Simulator(ws.load(ws.robots.path("hopper")), 2, device="cpu")
    sim.parameters["geom_size"] = sim.parameters["geom_size"].numpy()  # the same
    assert sim.rollout(sim.state(), steps=1).undrawn == ()
    sim.parameters["geom_size"] = sim.parameters["geom_size"].numpy() * np.array([1.0, 1.1])[:, None, None]
    kept = sim.rollout(sim.state(), steps=1, store=tmp_path / "run.zarr")
    kept.save(tmp_path / "copy.zarr")
    found = [
        sim.rollout(sim.state(), steps=1),
        ws.Trajectory.load(tmp_path / "run.zarr"),
        ws.Trajectory.load(tmp_path / "copy.zarr"),
    ]
    for trajectory in found:
        assert trajectory.undrawn == ("geom_size",)
        with pytest.warns(UserWarning, match="geom_size of this simulation"):
            trajectory.to_usd(tmp_path / "run.usdc")


def test_a_run_in_which_nothing_moves(tmp_path):
    """A model without joints: a folder without clips, which opens and is valid."""
    b = ws.ModelBuilder("still")
    b.add_geom("box", [1, 1, 1], body=b.add_body("post", mass=1, inertia=[1, 1, 1]))
    model = b.build()
    t = ws.Trajectory(model, np.zeros((3, 1, 0)), np.zeros((3, 1, 0)), np.arange(3.0)[:, None])
    t.to_usd(tmp_path / "still", frames_per_file=1)
    validate(tmp_path / "still" / "stage.usda")
    assert sorted(p.name for p in (tmp_path / "still").iterdir()) == ["stage.usda", "topology.usdc"]
    assert Usd.Stage.Open(str(tmp_path / "still" / "stage.usda")).GetPrimAtPath("/World/Robot/post")
