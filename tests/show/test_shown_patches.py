# SPDX-License-Identifier: Apache-2.0
"""Patches between pressure fields as they are shown: found again at any state, in stages, on pages and in pictures."""

import numpy as np
import pytest

import warpsim as ws
from scenes import pressure as scenes
from scenes.trajectories import rollout, small
from warpsim.files.patch_frames import (
    LIFT,
    above_floors,
    fixed_share,
    patch_frames,
    pressure_colors,
    see_through,
    triangles_of,
)
from warpsim.files.usd.usd_looks import displayed
from warpsim.show import html
from warpsim.show.bands import BANDS, bands, largest_triangles

pytest.importorskip("pxr")
pytest.importorskip("viser")
from pxr import Usd, UsdGeom

from tests.files.test_usd import validate
from tests.show.test_html import recording

GAP = [0, 0, 0.06, 1, 0, 0, 0]  # a ball of 5 cm 1 cm above the ground
DEEP = [0, 0, 0.045, 1, 0, 0, 0]


def ball(ground=("half_space", None, None), resolution=0.02) -> ws.Model:
    return scenes.drop(("sphere", 0.05), 1e5, resolution, 0.5, ground, 0.3, 0.02)


def recorded(model, rows, worlds=1) -> ws.Trajectory:
    """A trajectory of the given rows of positions, the worlds 1 mm deeper each."""
    q = np.repeat(np.array(rows, float)[:, None], worlds, axis=1)
    q[..., 2] -= 1e-3 * np.arange(worlds)
    time = np.repeat(0.02 * np.arange(len(rows))[:, None], worlds, axis=1)
    return ws.Trajectory(model, q, np.zeros((len(rows), worlds, model.nv)), time)


# states -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["polygons", "patch16"])
def test_patches_at_a_state_are_those_of_the_step_that_starts_there(level):
    """The same polygons to the last bit; the step's own stay as they are, and so do its results."""
    model, sims = ball(), []
    for ask in (False, True):
        sim = ws.Simulator(model, 2, dt=0.005, dtype="float64", hydroelastic=level)
        start = sim.state([DEEP, GAP])
        if ask:
            (asked,) = sim.contact_patches(0, start)
            assert sim.contact_patches(1, start) == [] and sim.contact_patches(0) == []
        state = sim.step(start)
        if ask:
            sim.contact_patches(0, sim.state([GAP, GAP]))
        sims.append((sim, state))
    (plain, after), (sim, after_asked) = sims
    (made,) = sim.contact_patches()
    np.testing.assert_array_equal(after.q.numpy(), after_asked.q.numpy())
    np.testing.assert_array_equal(made.force, plain.contact_patches()[0].force)
    assert made.geoms == asked.geoms
    for name in ("area", "centroid", "stiffness", "coherence", "depth", "elastic_force", "elastic_moment"):
        np.testing.assert_array_equal(getattr(asked, name), getattr(made, name), err_msg=name)
    for name in ("vertices", "pressure"):
        np.testing.assert_array_equal(np.concatenate(getattr(asked, name)), np.concatenate(getattr(made, name)))
    np.testing.assert_array_equal(asked.force, asked.elastic_force)
    np.testing.assert_array_equal(asked.moment, asked.elastic_moment)
    assert not np.array_equal(made.force, made.elastic_force)


def test_a_state_of_a_model_without_fields_has_no_patches():
    model = small()[1]
    sim = ws.Simulator(model)
    assert sim.contact_patches(0, sim.state()) == []
    with pytest.raises(ValueError, match="world is 1"):
        sim.contact_patches(1, sim.state())


def test_patches_of_rows_are_those_of_their_states():
    """Many rows and worlds at once, more than are found at a time, in their order; float32 as float64."""
    model = ball()
    heights = [DEEP, GAP, [0, 0, 0.042, 1, 0, 0, 0]] * 30
    t = recorded(model, heights, worlds=3)
    frames = list(patch_frames(model, t.q, np.arange(90), [2, 0]))
    assert len(frames) == 90 and all(len(worlds) == 2 for worlds in frames)
    sim = ws.Simulator(model, 3, dtype="float64")
    for row in (0, 1, 89):
        state = sim.state(t.q[row])
        for world, found in zip((2, 0), frames[row], strict=True):
            want = sim.contact_patches(world, state)
            assert [p.geoms for p in found] == [p.geoms for p in want]
            for p, w in zip(found, want, strict=True):
                np.testing.assert_array_equal(np.concatenate(p.vertices), np.concatenate(w.vertices))
    (narrow,) = next(patch_frames(model, t.q.astype(np.float32), [0], [0]))[0]
    assert narrow.area == pytest.approx(frames[0][1][0].area, rel=1e-4)


# colours and triangles --------------------------------------------------------------------------------------------------


def test_colours_are_of_the_pressure_alone():
    """The first at no pressure, the last from half of the softer modulus on, whatever the rollout; the geoms are seen through."""
    model = ball()
    pair = tuple(int(g) for g in model.pair_geom[-1])
    np.testing.assert_allclose(fixed_share(model, pair, [0.0, 12.5e3, 5e4, 1e6]), [0, 0.5, 1, 1])
    colors = pressure_colors(np.linspace(0, 1, 50))
    assert colors.shape == (50, 3) and colors.min() >= 0 and colors.max() <= 1
    assert np.abs(np.diff(colors, axis=0)).sum(axis=1).min() > 0
    assert (see_through(model).geom_rgba[list(pair), 3] < 0.5).all() and model.geom_rgba[0, 3] == 1


def test_bands_are_the_triangles_cut_where_the_pressure_is():
    """Areas add up, every corner's pressure is within its band, and a gradient is cut at straight lines."""
    rng = np.random.default_rng(0)
    corners, slope = rng.normal(size=(200, 3, 3)), np.array([0.3, -0.2, 0.5])
    pressure = corners @ slope
    pressure -= pressure.min()
    largest = pressure.max()
    offset = -(corners @ slope).min()
    parts = bands(corners, pressure, largest)

    def area(x):
        return np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1).sum() / 2

    assert len(parts) == BANDS
    assert sum(map(area, parts)) == pytest.approx(area(corners), rel=1e-12)
    for k, part in enumerate(parts):
        p = part @ slope + offset
        assert p.min() > largest * k / BANDS - 1e-9 and p.max() < largest * (k + 1) / BANDS + 1e-9
    assert not sum(map(len, bands(np.zeros((0, 3, 3)), np.zeros((0, 3)), 0.0)))
    kept, cut = largest_triangles(parts, 100)
    assert cut and sum(map(len, kept)) == 100 and len(kept) == BANDS
    assert largest_triangles(parts, 10**6) == (parts, False)


def test_patches_lie_on_floors():
    """What lies under an opaque floor is drawn on it: on a soft ground the patch is below its surface."""
    model = ball(("half_space", 3e5, 0.05))
    (patch,) = next(patch_frames(model, np.array([[DEEP]], float), [0], [0]))[0]
    assert min(x[:, 2].min() for x in patch.vertices) < -1e-3
    (shown,) = above_floors(model, [patch])
    assert {float(z) for x in shown.vertices for z in x[:, 2]} == {LIFT}
    corners, pressure = triangles_of([patch])
    assert len(corners) == sum(len(x) - 2 for x in patch.vertices) and pressure.shape == (len(corners), 3)


# stages -----------------------------------------------------------------------------------------------------------------


def test_a_stage_has_the_polygons_of_every_frame(tmp_path):
    """Points, counts, pressures and colours of each frame; empty before the first touch and after the last."""
    model = ball()
    t = recorded(model, [GAP, GAP, DEEP, [0, 0, 0.042, 1, 0, 0, 0], GAP, GAP])
    t.to_usd(tmp_path / "a.usda", patches=True)
    validate(tmp_path / "a.usda")
    stage = Usd.Stage.Open(str(tmp_path / "a.usda"))
    meshes = [UsdGeom.Mesh(p) for p in stage.GetPrimAtPath("/World/Patches").GetChildren()]
    (mesh,) = meshes
    names = [model.geom_names[g] for g in model.pair_geom[-1]]
    assert list(mesh.GetPrim().GetCustomDataByKey("warpsim:geoms")) == names
    assert mesh.GetPrim().GetName() == "_".join(names)
    pressure = UsdGeom.PrimvarsAPI(mesh).GetPrimvar("pressure")
    assert pressure.GetInterpolation() == mesh.GetDisplayColorPrimvar().GetInterpolation() == "vertex"
    assert mesh.GetFaceVertexCountsAttr().GetTimeSamples() == [0, 2, 3, 4]
    for frame, worlds in enumerate(patch_frames(model, t.q, np.arange(6), [0])):
        want = [x for patch in worlds[0] for x in patch.vertices]
        counts = mesh.GetFaceVertexCountsAttr().Get(frame)
        assert list(counts) == [len(x) for x in want]
        points, at, colors = (a.Get(frame) for a in (mesh.GetPointsAttr(), pressure, mesh.GetDisplayColorAttr()))
        assert len(points) == len(at) == len(colors) == sum(counts)
        assert list(mesh.GetFaceVertexIndicesAttr().Get(frame)) == list(range(len(points)))
        if want:
            (patch,) = worlds[0]
            np.testing.assert_allclose(np.array(points), np.concatenate(want), atol=1e-7)
            np.testing.assert_allclose(np.array(at), np.concatenate(patch.pressure), rtol=1e-6)
            shares = fixed_share(model, patch.geoms, np.array(at))
            np.testing.assert_allclose(displayed(colors), pressure_colors(shares), atol=1e-4)
            np.testing.assert_allclose(mesh.GetExtentAttr().Get(frame)[0], np.array(points).min(axis=0), atol=1e-7)
    geom = next(
        p for p in stage.TraverseAll() if p.GetCustomDataByKey("warpsim:name") == "body" and p.IsA(UsdGeom.Gprim)
    )
    assert UsdGeom.Gprim(geom).GetDisplayOpacityAttr().Get()[0] < 0.5


def test_patches_of_a_stage_are_not_read_back(tmp_path):
    """The model that is read is the one that was written, but for the opacity of its geoms; the report has a line for the patches."""
    model = ball()
    recorded(model, [DEEP, GAP]).to_usd(tmp_path / "a.usda", patches=True)
    back = ws.load(tmp_path / "a.usda")
    assert back.geom_names == model.geom_names
    np.testing.assert_array_equal(back.geom_hydroelastic, model.geom_hydroelastic)
    np.testing.assert_array_equal(back.geom_rgba, see_through(model).geom_rgba)
    assert [line.status for line in back.report if "/World/Patches" in line.feature] == ["ignored"]


def test_a_ball_in_closed_form_is_shown(tmp_path):
    """A sphere without a resolution on a plane has no polygons in the step; stage and page have its disc."""
    t = recorded(ball(resolution=None), [DEEP, GAP], worlds=2)
    t.to_usd(tmp_path / "a.usda", patches=True)
    validate(tmp_path / "a.usda")
    stage = Usd.Stage.Open(str(tmp_path / "a.usda"))
    for world in (0, 1):
        (prim,) = stage.GetPrimAtPath(f"/World/Patches/World_{world}").GetChildren()
        points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(0))
        radius = np.ptp(points[:, 0]) / 2
        assert radius == pytest.approx(np.sqrt(0.05**2 - (0.045 - 1e-3 * world) ** 2), rel=1e-5)
        assert len(UsdGeom.Mesh(prim).GetPointsAttr().Get(1)) == 0
    t.to_html(tmp_path / "a.html", patches=True)
    largest = 1e5 * (1 - 0.044 / 0.05)
    assert f"pressure 0 to {largest / 1e3:.3g} kPa" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_every_world_of_a_stage_has_its_own_patches(tmp_path):
    """A mesh for each world at its place in the grid, by the world's number; those that never touch have none."""
    from warpsim.files.scene import grid_origins

    t = recorded(ball(), [DEEP, DEEP], worlds=4)
    t.q[:, 2, 2] = 1.0
    t.to_usd(tmp_path / "a.usdc", worlds=[3, 2, 1], spacing=0.5, patches=True)
    validate(tmp_path / "a.usdc")
    stage = Usd.Stage.Open(str(tmp_path / "a.usdc"))
    root = stage.GetPrimAtPath("/World/Patches")
    assert sorted(p.GetName() for p in root.GetChildren()) == ["World_1", "World_3"]
    origins = grid_origins(3, 0.5)
    depths = []
    for k, world in ((0, 3), (2, 1)):
        (prim,) = stage.GetPrimAtPath(f"/World/Patches/World_{world}").GetChildren()
        points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(1))
        np.testing.assert_allclose(points.mean(axis=0)[:2], origins[k, :2], atol=1e-3)
        depths.append(np.array(UsdGeom.PrimvarsAPI(prim).GetPrimvar("pressure").Get(1)).max())
    assert depths[0] > depths[1] > 0


def test_names_of_geoms_that_are_no_names_of_prims(tmp_path):
    """Two pairs whose names become the same prim name get two meshes."""
    b = ws.ModelBuilder("odd", gravity=(0, 0, 0))
    soft = ws.Hydroelastic(1e5, 0.02)
    for k, name in enumerate(("a b", "a/b")):
        body = b.add_body(f"body{k}", mass=1.0, inertia=np.eye(3))
        b.add_joint(body, "free")
        b.add_geom("sphere", (0.05,), body=body, name=name, hydroelastic=soft)
    b.add_geom("plane", name="ground", hydroelastic=ws.Hydroelastic(np.inf))
    model = b.build()
    q = np.concatenate([DEEP, DEEP])
    q[7] = 0.3
    recorded(model, [q, q]).to_usd(tmp_path / "a.usda", patches=True)
    stage = Usd.Stage.Open(str(tmp_path / "a.usda"))
    found = {
        p.GetName(): list(p.GetCustomDataByKey("warpsim:geoms"))
        for p in stage.GetPrimAtPath("/World/Patches").GetChildren()
    }
    assert len(found) == 2 and sorted(found.values()) == [["ground", "a b"], ["ground", "a/b"]]


def test_a_stored_rollout_shows_its_patches(tmp_path):
    """From a store as from memory, byte by byte."""
    sim = ws.Simulator(ball(), dt=0.01)
    t = sim.rollout(sim.state([0, 0, 0.052, 1, 0, 0, 0]), steps=12)
    t.save(tmp_path / "t.zarr")
    t.to_usd(tmp_path / "a.usda", patches=True)
    ws.Trajectory.load(tmp_path / "t.zarr").to_usd(tmp_path / "b.usda", patches=True)
    text = (tmp_path / "a.usda").read_text()
    assert text == (tmp_path / "b.usda").read_text() and "primvars:pressure" in text


# pages and pictures -----------------------------------------------------------------------------------------------------


def test_a_page_has_the_patches_and_what_their_colours_mean(tmp_path):
    """A mesh for each band of pressure, moved frame by frame; the scale says the largest pressure of the rollout."""
    model = ball()
    t = recorded(model, [DEEP, GAP, [0, 0, 0.042, 1, 0, 0, 0], GAP], worlds=2)
    t.to_html(tmp_path / "a.html", fps=50, patches=True)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    largest = max(
        p.pressure[k].max()
        for ws_ in patch_frames(model, t.q, [2], [0, 1])
        for ps in ws_
        for p in ps
        for k in range(len(p.pressure))
    )
    assert f"pressure 0 to {largest / 1e3:.3g} kPa" in page and "largest triangles" not in page
    messages, _ = recording(page)
    named = [(time, m) for time, m in messages["messages"] if m.get("name", "").startswith("/patches/")]
    made = {m["name"] for _, m in named if m["type"] == "MeshMessage"}
    assert made == {f"/patches/band_{k}" for k in range(BANDS)}
    moved = {
        round(time * 50) for time, m in named if m["type"] == "SceneNodeUpdateMessage" and "vertices" in m["updates"]
    }
    assert moved >= {1, 2, 3}


def test_a_page_is_cut_and_says_so(tmp_path, monkeypatch):
    """More triangles than a frame may have: the largest stay, and the page tells in how many frames."""
    monkeypatch.setattr(html, "MOST_TRIANGLES", 20)
    t = recorded(ball(), [DEEP, GAP, DEEP])
    t.to_html(tmp_path / "a.html", fps=50, patches=True)
    assert "the 20 largest triangles in 2 of 3 frames" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_page_without_a_touch(tmp_path):
    """Nothing touches: a page, a stage and a picture all the same."""
    t = recorded(ball(), [GAP, GAP])
    t.to_html(tmp_path / "a.html", patches=True)
    assert "pressure 0 to 0 Pa" in (tmp_path / "a.html").read_text(encoding="utf-8")
    t.to_usd(tmp_path / "a.usda", patches=True)
    validate(tmp_path / "a.usda")
    t.render(tmp_path / "a.png", patches=True, width=40, height=30, samples=1)


def test_a_picture_shows_patches_through_their_geoms():
    """Where the patch is the picture has its colours; without patches it is the ball's."""
    from warpsim.show.render import Camera, render_image

    model = ball(("box", [0.4, 0.4, 0.1], None))
    options = {"camera": Camera((0.0, -0.3, 0.3), (0.0, 0.0, 0.0), 20.0), "width": 60, "height": 40, "samples": 1}
    plain = render_image(model, DEEP, **options).astype(int)
    shown = render_image(model, DEEP, patches=True, **options).astype(int)
    spread = [np.ptp(x[15:25, 25:35], axis=-1).max() for x in (plain, shown)]
    assert spread[1] > spread[0] + 60


def test_a_model_without_pressure_fields_is_refused(tmp_path):
    """One line that says what is missing, and nothing is written."""
    t = rollout(*small(), worlds=2, steps=1)
    for write in (t.to_usd, t.to_html, t.render):
        with pytest.raises(ValueError, match=r"model 'small' has no patches to show.*give geoms hydroelastic="):
            write(tmp_path / "a.usd", patches=True)
        with pytest.raises(ValueError, match="patches"):
            write(tmp_path / "a.usd", patches="yes")
    assert not list(tmp_path.iterdir())
