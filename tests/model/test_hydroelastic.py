# SPDX-License-Identifier: Apache-2.0
"""Pressure-field contact in a model: what is refused and how, the order of pairs, and every way a model is copied."""

import copy
import pickle

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.model.hydroelastic import FEATURE, tessellation
from warpsim.model.model import Model
from warpsim.model.pressure import pressure_tables
from warpsim.model.tables import check_tables
from warpsim.model.tetrahedra import depths

INF, NAN = np.inf, np.nan
CENTRE = np.array([[1, 1, 1], [-1, -1, 1], [-1, 1, -1], [1, -1, -1], [0, 0, 0]], float)
FOUR = np.array([[0, 1, 2, 4], [0, 3, 1, 4], [0, 2, 3, 4], [1, 3, 2, 4]])  # of a tetrahedron, about its centre


def positive(vertices, tets):
    """With each tetrahedron turned so that its volume is positive."""
    a, b, c, d = (vertices[tets[:, k]] for k in range(4))
    turned = np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) < 0
    tets = tets.copy()
    tets[turned] = tets[turned][:, [0, 2, 1, 3]]
    return tets


FOUR = positive(CENTRE, FOUR)
LONE = np.concatenate([CENTRE, [[9.0, 9, 9]]])
PILE = np.concatenate([CENTRE, [[3.0, 0, 0], [4.0, 0, 0]]])


def turned():
    bad = FOUR.copy()
    bad[2] = bad[2][[1, 0, 2, 3]]
    return bad


WRONG = {  # the arguments: the words of the error
    "no modulus": ({"modulus": 0.0}, ["modulus", "0.0", "positive", "np.inf"]),
    "negative": ({"modulus": -1e5}, ["modulus", "-100000"]),
    "nan": ({"modulus": NAN}, ["modulus", "nan"]),
    "bool": ({"modulus": True}, ["modulus", "True"]),
    "complex": ({"modulus": 1j}, ["modulus", "1j"]),
    "text": ({"modulus": "1e5"}, ["modulus", "'1e5'"]),
    "several": ({"modulus": [1.0, 2.0]}, ["modulus"]),
    "resolution": ({"modulus": 1.0, "resolution": 0.0}, ["resolution", "0.0", "None"]),
    "resolution inf": ({"modulus": 1.0, "resolution": INF}, ["resolution", "inf"]),
    "thickness": ({"modulus": 1.0, "thickness": -0.1}, ["thickness", "-0.1"]),
    "margin": ({"modulus": 1.0, "margin": -1e-3}, ["margin", "-0.001"]),
    "margin nan": ({"modulus": 1.0, "margin": NAN}, ["margin", "nan"]),
    "rigid field": ({"modulus": INF, "field": (CENTRE, FOUR)}, ["field", "finite modulus"]),
    "field of three": ({"modulus": 1.0, "field": 3}, ["field", "3", "tetrahedra"]),
    "field of a path": ({"modulus": 1.0, "field": "nowhere.vtk"}, ["nowhere.vtk", "no such file"]),
    "field of a suffix": ({"modulus": 1.0, "field": "ball.stl"}, ["ball.stl", ".msh"]),
    "vertices": ({"modulus": 1.0, "field": (CENTRE[:, :2], FOUR)}, ["vertices", "(5, 2)"]),
    "index": ({"modulus": 1.0, "field": (CENTRE, FOUR + 1)}, ["tetrahedra", "5 vertices"]),
    "broken index": ({"modulus": 1.0, "field": (CENTRE, FOUR + 0.5)}, ["tetrahedra"]),
    "inverted": ({"modulus": 1.0, "field": (CENTRE, turned())}, ["tetrahedron 2", "inverted", "swap"]),
    "degenerate": ({"modulus": 1.0, "field": (CENTRE * [1, 1, 0], FOUR)}, ["tetrahedron 0", "degenerate"]),
    "lone": ({"modulus": 1.0, "field": (LONE, FOUR)}, ["vertex 5", "no tetrahedron"]),
    "no inside": (
        {"modulus": 1.0, "field": (CENTRE[:4], positive(CENTRE, np.array([[0, 1, 2, 3]])))},
        ["boundary", "refine"],
    ),
    "shared": (
        {"modulus": 1.0, "field": (PILE, positive(PILE, np.array([*FOUR, [0, 1, 2, 5], [0, 1, 2, 6]])))},
        ["tetrahedron", "triangle [0, 1, 2]", "3 tetrahedra"],
    ),
    "pressures": ({"modulus": 1.0, "field": (CENTRE, FOUR, np.zeros(4))}, ["pressure", "(4,)", "(5,)"]),
    "pressure range": ({"modulus": 1.0, "field": (CENTRE, FOUR, [0, 0, 0, 0, 2.0])}, ["pressure", "from 0 to 1"]),
    "no gradient": ({"modulus": 1.0, "field": (CENTRE, FOUR, [0, 0, 0, 0, 0.0])}, ["tetrahedron 0", "same pressure"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_properties_are_named(name):
    """Each mistake is one line with the value and the fix."""
    arguments, words = WRONG[name]
    with pytest.raises(ModelError) as error:
        ws.Hydroelastic(**arguments)
    assert all(word in str(error.value) for word in words) and "\n" not in str(error.value), error.value


TRIANGLES = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
SOFT = ws.Hydroelastic(1e5)
IMPOSSIBLE = {
    "height field": ({"type": "hfield", "hfield": ([1, 1, 1, 1], np.eye(3)), "hydroelastic": SOFT}, ["height field"]),
    "plane": ({"type": "plane", "hydroelastic": SOFT}, ["thickness", "compliant plane"]),
    "coarse": ({"type": "sphere", "size": [0.1], "hydroelastic": ws.Hydroelastic(1, 0.3)}, ["0.3", "coarser", "0.2 m"]),
    "coarse cylinder": (
        {"type": "cylinder", "size": [0.1, 3], "hydroelastic": ws.Hydroelastic(INF, 1)},
        ["coarser", "0.2 m"],
    ),
    "fine": (
        {"type": "capsule", "size": [1, 1], "hydroelastic": ws.Hydroelastic(1, 1e-5)},
        ["1e-05", "facets", "at least"],
    ),
    "field": (
        {"type": "box", "size": [1, 1, 1], "hydroelastic": ws.Hydroelastic(1, field=(CENTRE, FOUR))},
        ["mesh geoms", "box"],
    ),
    "a number": ({"type": "box", "size": [1, 1, 1], "hydroelastic": 1e5}, ["100000", "ws.Hydroelastic"]),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_shapes_that_cannot_are_named(name):
    """By the name of the geom, with the reason and what would do."""
    arguments, words = IMPOSSIBLE[name]
    with pytest.raises(ModelError) as error:
        ws.ModelBuilder().add_geom(name="pad", **arguments)
    assert all(word in str(error.value) for word in ["'pad'", *words]), error.value


def test_the_finest_that_is_named_is_fine_enough():
    """The bound that an error names is accepted."""
    b = ws.ModelBuilder()
    with pytest.raises(ModelError, match="at least") as error:
        b.add_geom("sphere", [0.1], hydroelastic=ws.Hydroelastic(1, 1e-6))
    least = float(str(error.value).split("at least ")[1].split(" m")[0])
    b.add_geom("sphere", [0.1], hydroelastic=ws.Hydroelastic(1, least * 1.05))


def scene() -> Model:
    """Two soft balls, a rigid one, a plain one, a soft block of tetrahedra and the rigid ground."""
    b = ws.ModelBuilder("scene")
    b.add_geom("plane", name="ground", hydroelastic=ws.Hydroelastic(INF))
    for name, properties in (
        ("plain", None),
        ("soft", ws.Hydroelastic(1e5, 0.03, margin=1e-3)),
        ("hard", ws.Hydroelastic(INF)),
        ("softer", ws.Hydroelastic(2e4)),
    ):
        b.add_body(name, mass=1.0, inertia=[1, 1, 1])
        b.add_joint(name, "free")
        b.add_geom("sphere", [0.1], body=name, name=name, hydroelastic=properties)
    b.add_body("block", mass=1.0, inertia=[1, 1, 1])
    b.add_joint("block", "free")
    field = ws.Hydroelastic(1e6, field=(CENTRE, FOUR))
    b.add_geom("mesh", mesh=(CENTRE[:4], TRIANGLES), body="block", name="block", hydroelastic=field)
    b.add_pair("ground", "softer", 0.3)
    return b.build()


def test_pairs_of_pressure_fields_come_last():
    """In the order of before on both sides; two rigid geoms, and one without properties, keep points, and the report says so."""
    model = scene()
    named = [tuple(model.geom_names[g] for g in pair) for pair in model.pair_geom]
    points, surfaces = named[: model.point_pairs], named[model.point_pairs :]
    assert points == [
        *(("ground", "plain"), ("ground", "hard"), ("plain", "soft"), ("plain", "hard")),
        *(("plain", "softer"), ("plain", "block")),
    ]
    assert surfaces == [
        *(("ground", "soft"), ("ground", "softer"), ("ground", "block"), ("soft", "hard"), ("soft", "softer")),
        *(("soft", "block"), ("hard", "softer"), ("hard", "block"), ("softer", "block")),
    ]
    assert model.pair_friction[named.index(("ground", "softer"))] == 0.3
    lines = [line for line in model.report if line.feature == FEATURE]
    assert [line.status for line in lines] == ["used", "mapped", "mapped"]
    assert "9 pairs" in lines[0].detail and "both geoms are rigid" in lines[1].detail and "5 pairs" in lines[2].detail
    check_tables(model)


def test_a_model_without_is_as_before():
    """Its arrays are those of a model that knows nothing of pressure fields, and no table has a row."""
    b = ws.ModelBuilder()
    b.add_geom("plane")
    b.add_body("ball")
    b.add_joint("ball", "free")
    b.add_geom("sphere", [1], body="ball")
    model = b.build()
    assert np.isnan(model.geom_hydroelastic).all() and model.point_pairs == 1 and not model.report
    assert (model.geom_field == -1).all() and model.fields == ()
    tables = pressure_tables(model)
    assert len(tables.entry) == len(tables.face_vertex) == 0 and not tables.geom_cells.any()


def test_defaults_are_resolved():
    """A ball has 128 facets, and is told from one with a resolution of its own; a cylinder and a capsule have 16 sides; a box needs none."""
    b = ws.ModelBuilder()
    for kind, size in (
        ("sphere", [0.3]),
        ("ellipsoid", [0.1, 0.2, 0.3]),
        ("cylinder", [0.3, 1]),
        ("capsule", [0.3, 1]),
    ):
        b.add_geom(kind, size, hydroelastic=SOFT)
    b.add_geom("box", [1, 1, 1], hydroelastic=SOFT)
    model = b.build()
    tables = pressure_tables(model)
    assert tables.geom_cells[:, 1].tolist() == [128, 128, 16 + 2 * 2, 16 * 17, 6]
    assert np.isfinite(model.geom_hydroelastic[1:4, 1]).all() and np.isnan(model.geom_hydroelastic[[0, 4], 1]).all()
    assert np.isnan(model.geom_hydroelastic[:, 2]).all()


def same(a: Model, b: Model) -> bool:
    keys = ("geom_hydroelastic", "geom_field", "pair_geom", "pair_rule", "pair_friction")
    arrays = all(np.array_equal(getattr(a, k), getattr(b, k), equal_nan=k == "geom_hydroelastic") for k in keys)
    fields = len(a.fields) == len(b.fields) and all(
        x.name == y.name and all(np.array_equal(p, q) for p, q in zip(x[1:], y[1:], strict=True))
        for x, y in zip(a.fields, b.fields, strict=True)
    )
    return arrays and fields and a.point_pairs == b.point_pairs and a.report == b.report


def added(model):
    b = ws.ModelBuilder()
    b.add_model(model)
    return b.build()


def stored(model, tmp_path):
    import zarr

    from warpsim.files.store.place import zarr_store
    from warpsim.files.store.store_model import model_from_group, model_to_group

    group = zarr.open_group(zarr_store(tmp_path / "model.zarr", False), mode="w")
    model_to_group(model, group)
    return model_from_group(zarr.open_group(zarr_store(tmp_path / "model.zarr", True), mode="r"))


@pytest.mark.parametrize("how", ["added", "pickled", "copied", "stored"])
def test_copies_keep_the_properties(how, tmp_path):
    """A model added to a builder, pickled, copied or stored has the same table, fields, order of pairs and report."""
    ways = {
        "added": added,
        "pickled": lambda m: pickle.loads(pickle.dumps(m)),
        "copied": copy.deepcopy,
        "stored": lambda m: stored(m, tmp_path),
    }
    model = scene()
    assert same(model, ways[how](model))


def test_a_store_without_the_fields_is_read(tmp_path):
    """What a store of before lacks stands for no pressure fields."""
    import zarr

    from warpsim.files.store.place import zarr_store
    from warpsim.files.store.store_model import model_from_group, model_to_group

    b = ws.ModelBuilder()
    b.add_geom("plane")
    b.add_body("ball")
    b.add_joint("ball", "free")
    b.add_geom("sphere", [1], body="ball")
    group = zarr.open_group(zarr_store(tmp_path / "model.zarr", False), mode="w")
    model_to_group(b.build(), group)
    attributes = dict(group.attrs["fields"])
    for name in ("fields", "point_pairs"):
        del attributes[name]
    group.attrs.update({"fields": attributes})
    for name in ("geom_hydroelastic", "geom_field"):
        del group[name]
    found = model_from_group(group)
    assert found.point_pairs == 1 and np.isnan(found.geom_hydroelastic).all() and (found.geom_field == -1).all()


def test_two_added_models_keep_their_fields_apart():
    """Each block finds its own tetrahedra, and the report is of the whole."""
    b = ws.ModelBuilder()
    b.add_model(scene(), prefix="a/")
    b.add_model(scene(), pose=[0, 0, 5], prefix="b/")
    model = b.build()
    assert len(model.fields) == 2 and model.geom_field[model.geom("b/block")] == 1
    assert sum(line.feature == FEATURE for line in model.report) == 3


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("geom_hydroelastic_modulus", {"soft": NAN}, "keep them"),
        ("geom_hydroelastic_modulus", {"plain": 1e5}, "keep them"),
        ("geom_hydroelastic_modulus", {"soft": INF}, "rigid"),
        ("geom_hydroelastic_modulus", {"hard": 1e5}, "rigid"),
        ("geom_hydroelastic_modulus", {"soft": 0.0}, "positive"),
        ("geom_hydroelastic_modulus", {"soft": -1.0}, "at least 0"),
        ("geom_hydroelastic_thickness", {"soft": 0.1}, "thickness"),
    ],
)
def test_parameters_keep_what_is_compliant(name, value, words):
    """Worlds may differ in moduli and thicknesses, but not in which geoms are soft."""
    from warpsim.model.parameters import Parameters

    model = scene()
    parameters = Parameters(model, 2, "float64", wp.get_device("cpu"), False)
    values = getattr(model, name).copy()
    values[model.geom("soft")] *= 2
    parameters[name] = values
    np.testing.assert_array_equal(parameters[name].numpy(), [values, values])
    ((geom, x),) = value.items()
    values[model.geom(geom)] = x
    with pytest.raises(ValueError, match=words):
        parameters[name] = values


def test_worlds_may_differ_in_size_but_not_in_facets():
    """What variants of a model share: the count of facets, the margin, and who is rigid."""
    rows = []
    for radius, resolution in ((0.1, None), (0.2, None), (0.1, 0.01)):
        b = ws.ModelBuilder()
        b.add_geom("sphere", [radius], hydroelastic=ws.Hydroelastic(1e5 * radius, resolution))
        rows.append(tessellation(b.build()))
    assert np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[0], rows[2])


def test_depths_are_distances_from_the_boundary():
    """Of points inside a box of tetrahedra, some nearer to the middle of a face than to any corner; the default pressure is their share."""
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(5)
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 2) for z in (0, 3)], float)
    points = np.concatenate([corners, rng.uniform(0.05, 0.95, size=(60, 3)) * [1, 2, 3]])
    tets = positive(points, Delaunay(points).simplices)
    wanted = np.minimum(points, [1, 2, 3] - points).min(axis=1)
    np.testing.assert_allclose(depths(points, tets), wanted, atol=1e-12)
    field = ws.Hydroelastic(1.0, field=(points, tets)).field
    np.testing.assert_allclose(field.pressure, wanted / wanted.max(), atol=1e-12)


@pytest.mark.parametrize("suffix", ["vtk", "msh"])
def test_files_of_tetrahedra(suffix, tmp_path):
    """Legacy VTK and Gmsh, text and binary, with triangles beside; a broken file is one line."""
    meshio = pytest.importorskip("meshio")
    cells = [("triangle", TRIANGLES), ("tetra", FOUR)] if suffix == "vtk" else [("tetra", FOUR)]
    mesh = meshio.Mesh(CENTRE, cells)
    for form in ("vtk42", "vtk51") if suffix == "vtk" else ("gmsh22", "gmsh"):
        for binary in (False, True):
            path = tmp_path / f"{form}{binary}.{suffix}"
            mesh.write(path, file_format=form, binary=binary)
            field = ws.Hydroelastic(1e5, field=path).field
            np.testing.assert_allclose(field.vertices, CENTRE, atol=1e-15)
            np.testing.assert_array_equal(field.tetrahedra, FOUR)
            np.testing.assert_allclose(field.pressure, [0, 0, 0, 0, 1])
    broken = meshio.Mesh(CENTRE, [("tetra", FOUR[:, [1, 0, 2, 3]])])
    broken.write(path, file_format="vtk42" if suffix == "vtk" else "gmsh22")
    with pytest.raises(ModelError, match=rf"^{path}: .*tetrahedron 0.*inverted"):
        ws.Hydroelastic(1e5, field=path)
    path.write_bytes(b"$MeshFormat\nabc")
    with pytest.raises(ModelError, match=str(path)):
        ws.Hydroelastic(1e5, field=path)
