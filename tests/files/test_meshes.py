# SPDX-License-Identifier: Apache-2.0
"""Mesh files, hulls, mass properties and convex decomposition."""

import json
import struct
import time

import numpy as np
import pytest

from warpsim.base.errors import ModelError
from warpsim.files import meshes
from warpsim.files.meshes import convex_parts, decompose, load_mesh
from warpsim.model import ModelBuilder
from warpsim.model.mesh_mass import convex_hull, integrals, is_watertight, solid

trimesh = pytest.importorskip("trimesh")

L_SHAPE = np.array([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]], float)


def box(size=(1.0, 2.0, 3.0), centre=(0.5, -1.0, 2.0)):
    mesh = trimesh.creation.box(extents=size)
    return np.array(mesh.vertices) + centre, np.array(mesh.faces)


def l_prism():
    """An L of three unit squares, 1 high: not convex."""
    low, high = np.c_[L_SHAPE, np.zeros(6)], np.c_[L_SHAPE, np.ones(6)]
    caps = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    faces = [(a, c, b) for a, b, c in caps] + [(a + 6, b + 6, c + 6) for a, b, c in caps]
    for i in range(6):
        j = (i + 1) % 6
        faces += [(i, j, j + 6), (i, j + 6, i + 6)]
    return np.concatenate([low, high]), np.array(faces)


@pytest.mark.parametrize("suffix", ["stl", "obj", "dae", "glb", "gltf"])
def test_every_format_reads_the_same_box(tmp_path, suffix):
    if suffix == "dae":
        pytest.importorskip("collada")
    vertices, faces = box()
    trimesh.Trimesh(vertices, faces, process=False).export(tmp_path / f"box.{suffix}")
    read, triangles = load_mesh(tmp_path / f"box.{suffix}", scale=(1, 1, -2))
    volume, centre, _ = integrals(read, triangles)
    np.testing.assert_allclose((volume, *centre), (12, 0.5, -1, -4), rtol=1e-6)  # the mirror keeps the outside outside
    assert is_watertight(read, triangles)


def test_dae_units_apply_and_broken_materials_do_not_matter(tmp_path):
    pytest.importorskip("collada")
    vertices, faces = box()
    trimesh.Trimesh(vertices, faces).export(tmp_path / "a.dae")
    text = (tmp_path / "a.dae").read_text()
    assert "<asset>" in text
    text = text.replace("<asset>", '<asset><unit meter="0.01" name="cm"/>').replace('target="#', 'target="#no_')
    (tmp_path / "a.dae").write_text(text)
    read, triangles = load_mesh(tmp_path / "a.dae")
    np.testing.assert_allclose(integrals(read, triangles)[0], 6e-6, rtol=1e-6)


def test_mass_properties_are_those_of_the_solid():
    """A box in closed form; an L by its parts; inside-out meshes; a hull where the surface is open."""
    vertices, faces = box()
    inertia = 6 / 12 * np.diag([4 + 9, 1 + 9, 1 + 4])
    for triangles in (faces, faces[:, ::-1]):
        volume, centre, found, closed = solid(vertices, triangles)
        assert closed
        np.testing.assert_allclose(volume, 6)
        np.testing.assert_allclose(centre, [0.5, -1, 2])
        np.testing.assert_allclose(found, inertia, atol=1e-12)
    volume, centre, found, closed = solid(vertices, faces[1:])
    assert not closed
    np.testing.assert_allclose(found, inertia, atol=1e-12)
    volume, centre, _, closed = solid(*l_prism())
    assert closed
    np.testing.assert_allclose((volume, *centre), (3, 5 / 6, 5 / 6, 0.5))


def test_builder_takes_density_of_meshes():
    """The mesh box weighs what the box geom weighs, wherever it is; an open mesh warns."""
    vertices, faces = box()
    pose = [1, 2, 3, 0.5, 0.5, -0.5, 0.5]
    b = ModelBuilder()
    for name in ("mesh", "shape"):
        b.add_joint(b.add_body(name), "free")
    b.add_geom("mesh", mesh=(vertices - [0.5, -1, 2], faces), body="mesh", pose=pose, density=300)
    b.add_geom("box", [0.5, 1, 1.5], body="shape", pose=pose, density=300)
    model = b.build()
    np.testing.assert_allclose(model.body_mass, 1800)
    np.testing.assert_allclose(model.body_com[0], model.body_com[1])
    np.testing.assert_allclose(model.body_inertia[0], model.body_inertia[1], atol=1e-9)
    b.add_geom("mesh", mesh=(vertices, faces[1:]), body="mesh", name="open")
    with pytest.warns(UserWarning, match="'open'.*not watertight"):
        b.build()


def test_hulls_are_convex_closed_and_outward():
    rng = np.random.default_rng(2)
    for points in (rng.normal(size=(200, 3)) * 1e-3 + 5, l_prism()[0], np.c_[L_SHAPE, np.zeros(6)]):
        vertices, faces = convex_hull(points)
        assert is_watertight(vertices, faces)
        volume, centre, _ = integrals(vertices, faces)
        assert volume > 0
        corners = vertices[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        size = np.ptp(points, axis=0).max()
        heights = np.einsum("fi,fpi->fp", normals, points[None] - corners[:, :1])
        assert heights.max() <= 1e-9 * size and ((centre - corners[:, 0]) * normals).sum(axis=1).max() < 0
    for points in (np.zeros((5, 3)), np.outer(np.arange(4.0), [1, 2, 3]), np.zeros((0, 3))):
        with pytest.raises(ModelError, match="hull"):
            convex_hull(points)


def test_decomposition_is_kept_on_disk(tmp_path, monkeypatch):
    """The parts of an L fill it; the second call reads the file, a broken file is made anew, settings count."""
    pytest.importorskip("coacd")
    monkeypatch.setenv("WARPSIM_CACHE_PATH", str(tmp_path))
    vertices, faces = l_prism()
    parts = convex_parts(vertices, faces, decomposed={"mcts_iterations": 30})
    assert len(parts) >= 2
    np.testing.assert_allclose(sum(integrals(*part)[0] for part in parts), 3.0, rtol=0.1)
    (kept,) = (tmp_path / "convex").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(meshes, "_coacd", lambda *_: pytest.fail("the cache was not used"))
        again = decompose(vertices, faces, mcts_iterations=30)
    assert all(np.array_equal(a, b) for p, q in zip(parts, again, strict=True) for a, b in zip(p, q, strict=True))
    kept.write_bytes(kept.read_bytes()[:100])
    monkeypatch.setattr(meshes, "_coacd", lambda *_: parts[:1])
    assert len(decompose(vertices, faces, mcts_iterations=30)) == 1
    assert len(decompose(vertices, faces, mcts_iterations=31)) == 1 and len(list(kept.parent.iterdir())) == 2


def test_wrong_meshes_are_errors(tmp_path, monkeypatch):
    """Missing, empty, broken, huge, not finite, or of another kind: one error that names the file."""
    inf = b"solid x\nfacet normal 0 0 1\nouter loop\nvertex nan 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid x\n"
    header = {"asset": {"version": "2.0"}, "buffers": [{"uri": "../secret.bin", "byteLength": 12}]}
    header["bufferViews"] = [{"buffer": 0, "byteLength": 12}]
    header["accessors"] = [{"bufferView": 0, "componentType": 5126, "count": 1, "type": "VEC3"}]
    header["meshes"] = [{"primitives": [{"attributes": {"POSITION": 0}}]}]
    (tmp_path / "secret.bin").write_bytes(b"\0" * 12)
    (tmp_path / "in").mkdir()
    for name, content in {
        "empty.stl": b"",
        "count.stl": b"\0" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50,
        "nan.stl": inf,
        "faces.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 999\n",
        "points.obj": b"v 0 0 0\nv 1 0 0\n",
        "flat.obj": b"v 0 0\nv 1 0\nv 0 1\nf 1 2 3\n",
        "text.glb": b"glTF of nothing",
        "bomb.dae": b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><COLLADA>&b;</COLLADA>',
        "cut.dae": b"<COLLADA><asset>",
        "out.gltf": json.dumps(header).encode(),
        "scene.fbx": b"x",
    }.items():
        (tmp_path / "in" / name).write_bytes(content)
        with pytest.raises(ModelError, match=name):
            load_mesh(tmp_path / "in" / name)
    with pytest.raises(ModelError, match="no such"):
        load_mesh(tmp_path / "none.stl")
    vertices, faces = box()
    trimesh.Trimesh(vertices, faces).export(tmp_path / "good.stl")
    for scale in ((1, 1, 0), (1, np.nan, 1), (1e10, 1e10, 1e10)):
        with pytest.raises(ModelError, match=r"good.stl.*scale"):
            load_mesh(tmp_path / "good.stl", scale=scale)
    monkeypatch.setattr(meshes, "MAX_MESH_BYTES", 100)
    meshes._read.cache_clear()
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        load_mesh(tmp_path / "good.stl")


def gltf(folder, count: int, nodes: int, **changes):
    """A glTF of `nodes` copies of one mesh with `count` vertices and triangles."""
    vertices = np.random.default_rng(0).random((count, 3)).astype("f4").tobytes()
    faces = (np.arange(3 * count) % count).astype("u4").tobytes()
    (folder / "g.bin").write_bytes(vertices + faces)
    views = [{"byteOffset": 0, "byteLength": 12 * count}, {"byteOffset": 12 * count, "byteLength": 12 * count}]
    kinds = [{"componentType": 5126, "count": count, "type": "VEC3"}]
    kinds += [{"componentType": 5125, "count": 3 * count, "type": "SCALAR"}]
    whole = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": list(range(nodes))}],
        "nodes": [{"mesh": 0}] * nodes,
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "buffers": [{"uri": "g.bin", "byteLength": 24 * count}],
        "bufferViews": [{"buffer": 0} | view for view in views],
        "accessors": [{"bufferView": k} | kind for k, kind in enumerate(kinds)],
    }
    whole |= changes
    (folder / "g.gltf").write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))
    return folder / "g.gltf"


def test_copies_of_a_mesh_are_counted_before_they_are_made(tmp_path):
    """60 000 vertices at 20 000 nodes of a glTF, and a box at 2^21 nodes of a DAE, are refused in seconds."""
    assert len(load_mesh(gltf(tmp_path, 30, 4))[1]) == 120
    path, start = gltf(tmp_path, 60_000, 2000), time.process_time()
    with pytest.raises(ModelError, match=r"g\.gltf: 120000000 vertices.*more than"):
        load_mesh(path)
    assert time.process_time() - start < 10


def test_copies_of_a_mesh_in_a_dae_are_counted_before_they_are_made(tmp_path):
    """A mesh of 40 000 triangles at 400 nodes: counted from the text, whichever of two nodes of one name is taken."""
    pytest.importorskip("collada")
    count = 40_000
    vertices, faces = np.random.default_rng(0).random((3 * count, 3)), np.arange(3 * count).reshape(-1, 3)
    path = tmp_path / "a.dae"
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    text = path.read_text()
    one = text[text.index("<instance_geometry") : text.index("</instance_geometry>") + len("</instance_geometry>")]
    path.write_text(text.replace(one, one * 2))
    assert len(load_mesh(path)[1]) == 2 * count
    path.write_text(text.replace(one, one * 400))
    start = time.process_time()
    with pytest.raises(ModelError, match=r"a\.dae: 48000000 corners.*more than"):
        load_mesh(path)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["none", "no views", "sparse"])
def test_gltf_without_values_is_an_error(tmp_path, which, how):
    """Positions and corners without a buffer, or changed by a sparse accessor, which the reader would take as zeros."""
    path = gltf(tmp_path, 30, 1)
    whole = json.loads(path.read_text())
    if how == "sparse":
        whole["accessors"][which]["sparse"] = {"count": 1}
    else:
        del whole["accessors"][which]["bufferView"]
    if how == "no views":
        del whole["bufferViews"]
    path.write_text(json.dumps(whole))
    with pytest.raises(ModelError, match=f"g.gltf: accessor {which} .*(no bufferView|sparse).*export"):
        load_mesh(path)
