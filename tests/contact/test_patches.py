"""Polygons and patches of pressure fields: against Drake's surfaces and closed forms."""

import json
import pathlib

import numpy as np
import pytest

import warpsim as ws
from scenes import pressure as scenes
from warpsim.contact.patches import outlines_of

DATA = np.load(pathlib.Path(__file__).parents[1] / "reference/data/hydro_open.npz")
PAIRS = json.loads(str(DATA["meta"]))["surf"]


def two_bodies(pair) -> ws.Model:
    """Two free bodies of these shapes, a half space fixed to the world."""
    b = ws.ModelBuilder("pair", gravity=(0, 0, 0))
    for name in "ab":
        kind, size, modulus, resolution, *thickness = pair[name]
        body = -1
        if kind != "half_space":
            body = b.add_body(name, mass=1.0, inertia=np.eye(3))
            b.add_joint(body, "free")
        material = scenes.material(modulus, resolution, thickness[0] if thickness else None)
        b.add_geom(*scenes.shape_of(kind, 0 if size is None else size), body=body, name=name, hydroelastic=material)
    return b.build()


def poses(pair, a, b):
    """q for poses (n, 3, 4) of the two; where b is a half space it stands still and a is moved in its frame."""
    turn_a, x_a = a[..., :3], a[..., 3]
    if pair["b"][0] != "half_space":
        return np.concatenate([x_a, quaternions(turn_a), b[..., 3], quaternions(b[..., :3])], axis=1)
    turn = np.swapaxes(b[..., :3], 1, 2)
    x = np.einsum("nij,nj->ni", turn, x_a - b[..., 3])
    return np.concatenate([x, quaternions(turn @ turn_a)], axis=1)


def a_is_second(pair) -> bool:
    """Whether geom a is B of the model's pair, where types come in the order of `GeomType`."""
    kinds = [ws.GeomType[scenes.shape_of(pair[n][0], (1, 1, 1))[0].upper()] for n in "ab"]
    return kinds[0] > kinds[1]


def quaternions(turn) -> np.ndarray:
    """(w, x, y, z) of rotation matrices (n, 3, 3)."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(turn).as_quat()[:, [3, 0, 1, 2]]


def polygons_at(model, q, level="polygons", dtype="float64"):
    """The polygons at every row of q as arrays, or None, and the simulator, which has made one short step from rest."""
    sim = ws.Simulator(model, len(q), dt=1e-6, dtype=dtype, hydroelastic=level, solver=ws.SAP(approximation="convex"))
    sim.step(sim.state(q))
    pressure = sim._step.collision.pressure
    counts = pressure.polygons.count.numpy()
    return [outlines_of(pressure, sim._step.collision, w, int(n)) if n else None for w, n in enumerate(counts)], sim


# Drake leaves out polygons whose normal is more than 112.5 degrees from the pressure's gradient, and those of no slope.
DRAKE_COSINE = np.cos(5 * np.pi / 8)


@pytest.mark.parametrize("name", PAIRS)
def test_polygons_are_those_of_drake(name):
    """Force, area, centroid and stiffness of 20 poses of each pair of shapes, with Drake's tessellation and its choice of polygons."""
    pair, a, b = PAIRS[name], DATA[f"surf/{name}/XA"], DATA[f"surf/{name}/XB"]
    want = {key: DATA[f"surf/{name}/{key}"] for key in ("force", "area", "centroid", "stiffness")}
    found, _ = polygons_at(two_bodies(pair), poses(pair, a, b))
    touching = 0
    for k, outlines in enumerate(found):
        if want["area"][k] == 0:
            continue
        touching += 1
        turn, x = (b[k, :, :3], b[k, :, 3]) if pair["b"][0] == "half_space" else (np.eye(3), np.zeros(3))
        area, stiffness, _, cosine = outlines["values"].T
        # the kernel gives next to no stiffness where there is none
        kept = (cosine > 1e-13) & (area > 1e-14)
        sign = 1.0 if a_is_second(pair) else -1.0
        force = sign * outlines["force"][kept].sum(0)
        centroid = (area[kept, None] * outlines["centroid"][kept]).sum(0) / area[kept].sum()
        size = np.linalg.norm(want["force"][k])
        np.testing.assert_allclose(area[kept].sum(), want["area"][k], rtol=1e-9)
        np.testing.assert_allclose(stiffness[kept].sum(), want["stiffness"][k], rtol=1e-9)
        np.testing.assert_allclose(turn @ force, want["force"][k], atol=1e-9 * size)
        np.testing.assert_allclose(turn @ centroid + x, want["centroid"][k], atol=1e-9 * np.sqrt(want["area"][k]))
    assert touching > 5
