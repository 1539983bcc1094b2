# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of meshes in contact: once per content, only of what may touch, and in full where asked."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.model import hull
from warpsim.model.model import Mesh

pytestmark = pytest.mark.filterwarnings("ignore:.*not watertight", "ignore:.*hulls of")


def sphere_points(count: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def triangles_of(points) -> np.ndarray:
    from scipy.spatial import ConvexHull

    return ConvexHull(points).simplices


def rolling(points, copies: int = 1, touches: bool = True, **options) -> ws.Model:
    """Bodies with the same mesh on a plane, a metre apart."""
    b = ws.ModelBuilder("meshes")
    b.add_geom("plane")
    for k in range(copies):
        b.add_body(f"body{k}", pose=[3.0 * k, 0, 1.0])
        b.add_joint(f"body{k}", "free")
        mask = {} if touches else {"contype": 0, "conaffinity": 0}
        b.add_geom("mesh", mesh=(points, triangles_of(points)), body=f"body{k}", **mask, **options)
    return b.build()


def counted(monkeypatch) -> list:
    calls, real = [], hull._convex_mesh
    monkeypatch.setattr(hull, "_convex_mesh", lambda mesh, limit: calls.append(mesh.name) or real(mesh, limit))
    return calls


def test_a_mesh_is_hulled_once(monkeypatch):
    """Whatever number of geoms, simulators and models use it; its tables lie on the device once."""
    calls, points = counted(monkeypatch), sphere_points(50, seed=7)
    for copies in (3, 5):
        sim = ws.Simulator(rolling(points, copies), device="cpu")
        table = sim._step.collision.convex_scene.table
        assert len(table.vertex) == 50
        assert np.unique(table.mesh_range.numpy(), axis=0).shape == (1, 6)
    assert len(calls) == 1


def test_what_is_only_drawn_is_not_hulled(monkeypatch):
    """A mesh without volume is no error where it cannot touch."""
    calls = counted(monkeypatch)
    b = ws.ModelBuilder("drawn")
    b.add_geom("plane")
    b.add_body("body", pose=[0, 0, 1], mass=1.0, inertia=[1, 1, 1])
    b.add_joint("body", "free")
    b.add_geom("mesh", mesh=(np.zeros((3, 3)), [[0, 1, 2]]), body="body", density=0.0, contype=0, conaffinity=0)
    b.add_geom("mesh", mesh=(sphere_points(20), triangles_of(sphere_points(20))), body="body", density=0.0)
    ws.Simulator(b.build(), device="cpu")
    assert len(calls) == 1


@pytest.mark.parametrize("limit", [64, 300])
def test_hulls_are_as_fine_as_asked(limit, tmp_path, device):
    """A ball of 300 points rests where its lowest points are: cut, or in full, as built, saved, written and read."""
    points = sphere_points(300)
    model = rolling(points, max_hull_vertices=limit)
    model.to_usd(tmp_path / "m.usda")
    for one in (model, ws.load(tmp_path / "m.usda"), ws.load(tmp_path / "m.usda", max_hull_vertices=300)):
        kept = one.meshes[0].max_hull_vertices
        table = hull.convex_mesh(one.meshes[0])
        assert len(table["vertices"]) == min(kept, 300)
        assert (table["deviation"] == 0.0) == (kept == 300)
    sim = ws.Simulator(model, dt=2e-3, dtype="float64", device=device)
    pose = sim.rollout(sim.state(), steps=2500).q.numpy()[-1, 0]
    x, y, z = pose[4:7]
    down = np.array([2 * (x * z - y * pose[3]), 2 * (y * z + x * pose[3]), 1 - 2 * (x * x + y * y)])
    used = table["vertices"] if limit == 300 else hull.convex_mesh(model.meshes[0])["vertices"]
    assert abs(pose[2] + (used @ down).min()) < 1e-4


def test_faces_with_many_corners_lose_some(device):
    """A drum of 200 sides: kernels clip faces of 64 corners, so that its caps keep these, a thousandth of the radius inside."""
    angle = 2 * np.pi * np.arange(200) / 200
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([np.column_stack([rim, np.full(200, z)]) for z in (-0.5, 0.5)])
    found = hull.convex_mesh(Mesh("drum", points, triangles_of(points), 1000))
    assert max(map(len, found["faces"])) <= hull.MAX_CORNERS < 200
    assert 0.0 < found["deviation"] < 2e-3
    sim = ws.Simulator(rolling(points, max_hull_vertices=1000), dt=2e-3, dtype="float64", device=device)
    assert abs(sim.rollout(sim.state(), steps=800).q.numpy()[-1, 0, 2] - 0.5) < 1e-4


@pytest.mark.parametrize("bad", [0, 31, 2.5, True, 1 << 20])
def test_the_limit_is_checked(bad):
    """One line that names it."""
    points = sphere_points(10)
    with pytest.raises(ModelError, match="max_hull_vertices is"):
        rolling(points, max_hull_vertices=bad)
    with pytest.raises(ModelError, match="max_hull_vertices is"):
        ws.load(ws.robots.path("ant"), max_hull_vertices=bad)
