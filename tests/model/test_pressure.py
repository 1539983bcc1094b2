# SPDX-License-Identifier: Apache-2.0
"""Tables of pressure fields against Drake's contact surfaces, and against what a cell must be."""

import dataclasses
import json
import pathlib
import time

import numpy as np
import pytest

import warpsim as ws
from tests.model.pressure_clipper import surface, totals
from warpsim.model import polyhedra
from warpsim.model.geometry import axis_angle, rotation_matrix
from warpsim.model.model import GeomType
from warpsim.model.pressure import CORNERS, corner_scale, pressure_tables
from warpsim.model.pressure_cells import BOUNDS, coefficients

FILE = pathlib.Path(__file__).parents[1] / "reference" / "data" / "hydro_open.npz"
PAIRS = ("sphere_halfspace_r", "box_halfspace_r", "cyl_halfspace_r", "ell_halfspace_r", "box_on_soft_halfspace")
PAIRS += ("sphere_box_r", "box_sphere_r", "box_box_r", "cyl_box_r", "sphere_sphere_c", "sphere_box_c", "box_box_c")
PAIRS += ("ell_cyl_c", "capsule_halfspace_r", "capsule_box_c")
LONG = ("sphere_sphere_c", "ell_cyl_c")  # of many polygons


DRAKES_MARGINS = (  # shape, size, height of the centre [m], force [N], area [m^2], by pydrake 1.51
    ("sphere", [0.05], 0.048, -4.27605368316394, 0.0017889702066721733),
    ("sphere", [0.05], 0.051, -4.573789097263599, 0.0008589568096145619),
    ("capsule", [0.03, 0.05], 0.07, 10.401875032997642, 0.001954345848596295),
    ("capsule", [0.03, 0.05], 0.0765, -4.361724789397253, 0.0009891812317870414),
)


def add(b, spec, name):
    """A geom of the file's (kind, size, modulus or None, hint, thickness)."""
    kind, size, modulus, hint, thickness = (*spec, None)[:5]
    half = {"box": lambda: np.array(size) / 2, "half_space": lambda: [], "sphere": lambda: [size]}
    half |= dict.fromkeys(("cylinder", "capsule"), lambda: [size[0], size[1] / 2])
    soft = ws.Hydroelastic(np.inf if modulus is None else modulus, hint, thickness)
    b.add_geom({"half_space": "plane"}.get(kind, kind), half.get(kind, lambda: size)(), name=name, hydroelastic=soft)


def one(kind, size=(), **options):
    """A model of one compliant geom."""
    b = ws.ModelBuilder()
    mesh = options.pop("mesh", None)
    b.add_geom(kind, size, mesh=mesh, hydroelastic=ws.Hydroelastic(options.pop("modulus", 1.0), **options))
    return b.build()


def from_axis(x, middle, half) -> np.ndarray:
    """Distance of points from the axis of a capsule."""
    length = np.maximum((half**2).sum(-1), 1e-300)
    along = np.clip(((x - middle) * half).sum(-1) / length, -1.0, 1.0)
    return np.linalg.norm(x - middle - along[..., None] * half, axis=-1)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in PAIRS])
def test_surfaces_are_drakes(name, within):
    """Force, area, centroid and stiffness of 20 poses with Drake's choice of polygons; exact moments where the file has them."""
    with np.load(FILE) as file:
        spec = json.loads(str(file["meta"]))["surf"][name]
        wanted = {key.split("/")[2]: file[key] for key in file.files if key.startswith(f"surf/{name}/")}
    b = ws.ModelBuilder()
    add(b, spec["a"], "a")
    add(b, spec["b"], "b")
    model = b.build()
    tables = pressure_tables(model)
    worst: dict[str, float] = {}
    for i in range(len(wanted["area"])):
        found = totals(surface(model, tables, (0, 1), (wanted["XA"][i], wanted["XB"][i])), drake=True)
        length, force = np.sqrt(wanted["area"][i]), np.linalg.norm(wanted["force"][i])
        scales = {"centroid": length, "k_centroid": length, "moment_exact": force * length}
        for key in found.keys() & wanted.keys():
            scale = scales.get(key, np.linalg.norm(wanted[key][i]))
            worst[key] = max(worst.get(key, 0.0), np.linalg.norm(found[key] - wanted[key][i]) / scale)
    for key, value in worst.items():
        within(f"pressure tables, {name}: {key}", value, 1e-9)


CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
SQUARES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
CUBE_FACES = np.concatenate([SQUARES[:, [0, 1, 2]], SQUARES[:, [0, 2, 3]]])


def brick(half, field=False):
    """Mesh of a box; with `field` also the twelve tetrahedra from its faces to its centre."""
    vertices = CUBE * half
    if not field:
        return vertices, CUBE_FACES
    inner = np.full((12, 1), 8)
    tets = np.concatenate([inner, CUBE_FACES], axis=1)
    points = np.concatenate([vertices, [[0.0, 0.0, 0.0]]])
    a, b, c, d = (points[tets[:, k]] for k in range(4))
    turned = np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) < 0
    tets[turned] = tets[turned][:, [0, 2, 1, 3]]
    return points, tets


def prism_mesh(sides):
    """A prism whose two large faces have `sides` neighbours, and whose sides are squares."""
    t = 2 * np.pi * np.arange(sides) / sides
    ring = np.stack([np.cos(t), np.sin(t)], axis=1)
    vertices = np.concatenate([np.pad(ring, [(0, 0), (0, 1)], constant_values=z) for z in (-0.4, 0.4)])
    return vertices, np.array([[0, 1, sides]])  # of its faces only the hull is used


def shapes():
    """Every shape that has cells, with sizes of no symmetry."""
    rng = np.random.default_rng(7)
    cloud = rng.normal(size=(40, 3)) * [0.3, 0.2, 0.1]
    return {
        "sphere": one("sphere", [0.3], resolution=0.2),
        "ellipsoid": one("ellipsoid", [0.3, 0.2, 0.1], resolution=0.1),
        "box": one("box", [0.3, 0.2, 0.1]),
        "box of equal sides": one("box", [0.3, 0.3, 0.3]),
        "cylinder": one("cylinder", [0.1, 0.3]),
        "fine cylinder": one("cylinder", [0.2, 0.3], resolution=0.02),
        "short cylinder": one("cylinder", [0.3, 0.1], resolution=0.1),
        "capsule": one("capsule", [0.1, 0.2]),
        "coarse capsule": one("capsule", [0.1, 0.2], resolution=0.2),
        "cloud": one("mesh", mesh=(cloud, np.array([[0, 1, 2]]))),
        "brick": one("mesh", mesh=brick([0.1, 0.1, 0.3])),
        "prism": one("mesh", mesh=prism_mesh(30)),
        "tetrahedra": one("mesh", mesh=brick([0.1, 0.2, 0.3]), field=brick([0.1, 0.2, 0.3], field=True)),
    }


SHAPES = shapes()


def entries_of(model, tables):
    size, thickness = model.geom_size[0], model.geom_hydroelastic[0, 2]
    return coefficients(model.geom_type[0], size, thickness, tables.entry)


def holders(model, tables, x, slack):
    """`(cells, points)` bool: which cells hold which points, and F of each cell there."""
    a, b = entries_of(model, tables)
    values = a @ x.T + b[:, None]
    inside = []
    for c, f in enumerate(tables.cell_entry):
        start, count = tables.cell_bounds[c]
        held = np.ones(len(x), bool)
        for e in tables.bound[start : start + count]:
            held &= values[f] >= -tables.geom_shift[0] - slack if e < 0 else values[f] <= values[e] + slack
        inside.append(held)
    return np.array(inside), values[tables.cell_entry]


def in_skin(tables, x, inside, values):
    """Whether points in cells are no farther from the capsules around the cells' faces than their F lets them."""
    cell, point = np.nonzero(inside & np.isfinite(tables.cell_rise)[:, None])
    away = from_axis(x[point], tables.cell_base[cell, :3], tables.cell_base_axis[cell])
    level = np.maximum(values[cell, point], -tables.geom_shift[0])
    return away - tables.cell_base[cell, 3] <= tables.cell_rise[cell] * level


def in_capsules(tables, x, inside):
    """Whether points in cells are in the cells' capsules."""
    cell, point = np.nonzero(inside)
    return from_axis(x[point], tables.cell_sphere[cell, :3], tables.cell_axis[cell]) <= tables.cell_sphere[cell, 3]


@pytest.mark.parametrize("name", SHAPES)
def test_cells_fill_the_shape(name):
    """A point of the shape is in one cell, where F is the least of all (of convex shapes), from 0 to 1, and in the cell's capsule."""
    model = SHAPES[name]
    tables = pressure_tables(model)
    rng = np.random.default_rng(3)
    size = np.abs(model.meshes[0].vertices).max(0) if model.meshes else model.geom_size[0].copy()
    if name.endswith(("sphere", "capsule", "cylinder")):
        size = {"sphere": size[[0, 0, 0]], "capsule": size[0] + [0, 0, size[1]]}.get(name.split()[-1], size[[0, 0, 1]])
    x = rng.uniform(-1, 1, size=(4000, 3)) * size
    inside, values = holders(model, tables, x, 1e-12)
    strict, _ = holders(model, tables, x, -1e-12)
    least = values.min(axis=0)
    if name != "tetrahedra":
        np.testing.assert_array_equal(inside.any(axis=0)[np.abs(least) > 1e-9], (least > 0)[np.abs(least) > 1e-9])
        np.testing.assert_allclose(
            np.where(inside, values, np.inf).min(axis=0)[inside.any(axis=0)], least[inside.any(axis=0)], atol=1e-11
        )
    assert strict.sum(axis=0).max() == 1 and inside.any(axis=0).sum() > 600
    held = values[inside]
    assert held.min() >= -1e-11 and 0.8 < held.max() <= 1 + 1e-11
    assert in_capsules(tables, x, inside).all()
    assert in_skin(tables, x, inside, values).all()
    counts = tables.cell_bounds[:, 1]
    assert counts.max() <= BOUNDS and tables.cell_bounds[-1].sum() == len(tables.bound)
    starts = tables.cell_bounds[:, 0]
    assert (tables.bound == -1).sum() == len(starts) and (tables.bound[starts] == -1).all()


OTHER = {"sphere": [0.5], "ellipsoid": [0.1, 0.4, 0.2], "box": [0.1, 0.4, 0.2], "cylinder": [0.4, 0.1]}
OTHER |= {
    "fine cylinder": [0.3, 0.05],
    "short cylinder": [0.05, 0.3],
    "capsule": [0.3, 0.1],
    "box of equal sides": [3, 1, 2],
}


@pytest.mark.parametrize("name", OTHER)
def test_tables_hold_for_other_sizes(name):
    """What a simulator does where sizes differ from world to world: the same cells fill the shape of another size, thin or long."""
    model = SHAPES[name]
    tables, size = pressure_tables(model), np.zeros(3)
    size[: len(OTHER[name])] = OTHER[name]
    other = dataclasses.replace(model, geom_size=size[None])
    x = np.random.default_rng(3).uniform(-1, 1, size=(4000, 3)) * size.max()
    inside, values = holders(other, tables, x, 1e-12)
    strict, _ = holders(other, tables, x, -1e-12)
    least = values.min(axis=0)
    assert strict.sum(axis=0).max() == 1 and inside.any(axis=0).sum() > 50
    clear = np.abs(least) > 1e-9
    np.testing.assert_array_equal(inside.any(axis=0)[clear], (least > 0)[clear])
    assert values[inside].max() <= 1 + 1e-11


def rigid_faces(model):
    """Corners, normals and counts of a rigid model's faces."""
    tables = pressure_tables(model)
    scale, half = corner_scale(model.geom_type[0], model.geom_size[0])
    x = tables.face_vertex[:, :3] * scale + tables.face_vertex[:, 3:] * [0, 0, half]
    return tables, [x[s : s + n] for s, n in tables.face_vertices]


@pytest.mark.parametrize("name", [n for n in SHAPES if n != "tetrahedra"])
def test_faces_close_the_shape(name):
    """Faces of a rigid shape are plane, turn about their normal, have few corners, sum to nothing and hold the cells' zero surface."""
    soft = SHAPES[name]
    kind = GeomType(soft.geom_type[0])
    mesh = soft.meshes[0][1:3] if soft.meshes else None
    resolution = None if np.isnan(soft.geom_hydroelastic[0, 1]) else soft.geom_hydroelastic[0, 1]
    tables, faces = rigid_faces(one(kind, soft.geom_size[0], mesh=mesh, modulus=np.inf, resolution=resolution))
    assert max(map(len, faces)) <= CORNERS and len(tables.cell_entry) == 0
    total, soft_tables = np.zeros(3), pressure_tables(soft)
    a, b = (entries[soft_tables.cell_entry] for entries in entries_of(soft, soft_tables))
    for x, n, sphere, axis in zip(faces, tables.face_normal, tables.face_sphere, tables.face_axis, strict=True):
        area = sum(np.cross(x[k] - x[0], x[k + 1] - x[0]) for k in range(1, len(x) - 1)) / 2
        np.testing.assert_allclose(area, np.linalg.norm(area) * n, atol=1e-9 * np.linalg.norm(area) + 1e-15)
        assert from_axis(x, sphere[:3], axis).max() <= sphere[3]
        assert n @ x.mean(axis=0) > 0
        total += area
        np.testing.assert_allclose((x @ a.T + b).min(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(total, 0, atol=1e-12)


def ground_contact(model, z, angle=0.3):
    """Totals of geom 0 lowered on a rigid plane, turned by `angle` about a crooked axis."""
    R = rotation_matrix(axis_angle(np.array([0.6, 0.64, 0.48]), angle))
    b = ws.ModelBuilder()
    b.add_model(model)
    plane = b.add_geom("plane", hydroelastic=ws.Hydroelastic(np.inf))
    whole = b.build()
    poses = (np.concatenate([R, [[0], [0], [z]]], axis=1), np.eye(3, 4))
    return totals(surface(whole, pressure_tables(whole), (0, plane), poses))


def test_a_mesh_is_the_polyhedron_that_it_is():
    """A sphere's polyhedron as a mesh has the sphere's contact, a brick that of tetrahedra from its faces to its centre."""
    vertex, loops, _ = polyhedra.sphere(1)
    sphere = one("sphere", [0.1], resolution=0.12)
    mesh = one("mesh", mesh=(0.1 * vertex[:, :3], loops))
    assert len(pressure_tables(sphere).cell_entry) == len(pressure_tables(mesh).cell_entry) == 32
    half = [0.1, 0.1, 0.1]
    cases = ((sphere, mesh), (one("mesh", mesh=brick(half)), one("mesh", mesh=brick(half), field=brick(half, True))))
    for first, second in cases:
        x, y = ground_contact(first, 0.07), ground_contact(second, 0.07)
        for key in x.keys() - {"polygons"}:
            np.testing.assert_allclose(x[key], y[key], rtol=1e-9, atol=1e-12, err_msg=key)


def test_a_bricks_centre_is_its_middle():
    """Of the many deepest points of a long box, the one that is deepest below its ends too."""
    model = one("mesh", mesh=brick([0.1, 0.1, 0.4]))
    a, b = entries_of(model, pressure_tables(model))
    np.testing.assert_allclose(b, 1.0)
    np.testing.assert_allclose(np.sort(np.abs(a).sum(axis=1)), [2.5, 2.5, 10, 10, 10, 10], rtol=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_a_margin_adds_a_layer_of_negative_pressure(name):
    """F is the same inside, goes on outside down to -shift, and its surface is nowhere farther out than the tables say."""
    soft = SHAPES[name]
    mesh = soft.meshes[0][1:3] if soft.meshes else None
    field = soft.fields[0] if soft.fields else None
    resolution = None if np.isnan(soft.geom_hydroelastic[0, 1]) else soft.geom_hydroelastic[0, 1]
    kind, size, margin = GeomType(soft.geom_type[0]), soft.geom_size[0], 2e-3
    radius = size.max() if kind == GeomType.ELLIPSOID else size[0]
    resolution = None if resolution is None else resolution * (radius + margin) / radius  # as many facets
    model = one(kind, size, mesh=mesh, resolution=resolution, margin=margin, field=field)
    tables, without = pressure_tables(model), pressure_tables(soft)
    np.testing.assert_array_equal(tables.entry, without.entry)
    reach = np.abs(soft.meshes[0].vertices).max() if soft.meshes else size.sum()
    x = np.random.default_rng(3).uniform(-1.1, 1.1, size=(40000, 3)) * reach
    inside, values = holders(model, tables, x, 0)
    before = holders(soft, without, x, 0)[0].any(axis=0)
    layer = inside.any(axis=0) & ~before
    assert layer.any() and not (before & ~inside.any(axis=0)).any()
    assert -tables.geom_shift[0] <= values[inside].min() < 0
    assert tables.geom_margin[0] >= margin * (1 - 1e-12)
    assert in_capsules(tables, x, inside).all()
    assert in_skin(tables, x, inside, values).all()


def test_a_margin_on_a_plane():
    """F goes on above it."""
    plane = one("plane", thickness=0.05, margin=0.01)
    tables = pressure_tables(plane)
    inside, values = holders(plane, tables, np.array([[0, 0, 0.0099], [0, 0, 0.0101], [0, 0, -0.05]]), 0)
    assert inside.tolist() == [[True, False, True]] and tables.geom_shift[0] == pytest.approx(0.2)
    np.testing.assert_allclose(values[0, [0, 2]], [-0.198, 1.0])
    assert tables.geom_margin[0] == pytest.approx(0.01)


def test_a_margin_is_drakes():
    """Facets are counted for the size with the margin; Drake 1.51's totals of a ball and a capsule at two heights over the ground."""
    for name, size, z, force, area in DRAKES_MARGINS:
        model = one(name, size, modulus=1e5, resolution=0.02, margin=0.004)
        found = ground_contact(model, z)
        np.testing.assert_allclose([found["force"][2], found["area"]], [force, area], rtol=1e-9)


def test_a_small_table_is_quick(within):
    """512 facets in a fifth of a second."""
    model = one("ellipsoid", [0.04, 0.05, 0.06], resolution=0.02)
    pressure_tables(model)
    start = time.perf_counter()
    tables = pressure_tables(model)
    within("pressure tables of 512 facets [s]", time.perf_counter() - start, 0.2)
    assert len(tables.cell_entry) == 512
