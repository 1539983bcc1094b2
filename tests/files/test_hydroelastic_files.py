# SPDX-License-Identifier: Apache-2.0
"""Pressure-field contact in robot files: what is read, reported and refused, and that what is written is read again."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError

INF, NAN = np.inf, np.nan
CENTRE = np.array([[1, 1, 1], [-1, -1, 1], [-1, 1, -1], [1, -1, -1], [0, 0, 0]], float) / 3
FOUR = np.array([[0, 1, 2, 4], [0, 3, 1, 4], [0, 2, 3, 4], [1, 3, 2, 4]])
URDF = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision name="pad"><geometry>{shape}</geometry><drake:proximity_properties>{text}</drake:proximity_properties></collision>
</link></robot>"""
SOFT = '<drake:compliant_hydroelastic/><drake:hydroelastic_modulus value="1e5"/>'


def urdf(tmp_path, text, shape='<sphere radius="0.1"/>'):
    path = tmp_path / "r.urdf"
    path.write_text(URDF.format(text=text, shape=shape))
    return path


def told(model) -> dict:
    return {line.feature: (line.status, line.detail) for line in model.report}


@pytest.mark.parametrize("form", ["value", "text"])
def test_drakes_properties_are_read(tmp_path, form):
    """Every property in both spellings: the pressure field, and the friction, stiffness and dissipation of the geom."""
    values = {"hydroelastic_modulus": 1e5, "mesh_resolution_hint": 0.04, "hydroelastic_margin": 1e-3}
    values |= {"relaxation_time": 0.05, "mu_dynamic": 0.4, "mu_static": 0.6, "point_contact_stiffness": 1e6}
    values |= {"hunt_crossley_dissipation": 1.25, "other": 3}
    write = {"value": '<drake:{0} value="{1}"/>', "text": "<drake:{0}> {1} </drake:{0}>"}[form]
    text = "<drake:compliant_hydroelastic/>" + "".join(write.format(*item) for item in values.items())
    model = ws.load(urdf(tmp_path, text))
    np.testing.assert_array_equal(model.geom_hydroelastic, [[1e5, 0.04, NAN, 1e-3]])
    assert model.geom_friction[0] == 0.4 and model.geom_stiffness[0] == 1e6 and model.geom_dissipation_time[0] == 0.05
    lines = told(model)
    for name in ("compliant_hydroelastic", "hydroelastic_modulus", "mesh_resolution_hint", "mu_dynamic"):
        assert lines[f"drake:{name}"][0] == "used"
    assert lines["drake:relaxation_time"][0] == lines["drake:mu_static"][0] == "mapped"
    assert lines["drake:hunt_crossley_dissipation"][0] == lines["drake:other"][0] == "ignored"
    assert ws.load(urdf(tmp_path, '<drake:mu_static value="0.6"/>')).geom_friction[0] == 0.6


def test_drakes_shapes_and_rigid_geoms(tmp_path):
    """Ellipsoids and capsules of Drake; a rigid box with a hint far above its size, and a ball's made the coarsest."""
    shape = '<drake:ellipsoid a="0.1" b="0.2" c="0.3"/>'
    model = ws.load(urdf(tmp_path, SOFT, shape))
    np.testing.assert_array_equal(model.geom_size[0], [0.1, 0.2, 0.3])
    assert model.geom_hydroelastic[0, 1] == 0.15
    model = ws.load(urdf(tmp_path, SOFT, '<drake:capsule radius="0.1" length="0.6"/>'))
    np.testing.assert_array_equal(model.geom_size[0], [0.1, 0.3, 0])
    rigid = '<drake:rigid_hydroelastic/><drake:mesh_resolution_hint value="5"/>'
    assert ws.load(urdf(tmp_path, rigid, '<box size="1 1 1"/>')).geom_hydroelastic[0, 0] == INF
    model = ws.load(urdf(tmp_path, rigid))
    assert model.geom_hydroelastic[0, 1] == 0.2 and "coarser" in told(model)["resolution of link 'base'"][1]


def test_tetrahedra_of_a_collision(tmp_path):
    """A VTK file is the field of a compliant collision, scaled; of a rigid one it is the hull."""
    meshio = pytest.importorskip("meshio")
    pytest.importorskip("trimesh")
    meshio.Mesh(CENTRE, [("tetra", FOUR)]).write(tmp_path / "pad.vtk", file_format="vtk42")
    shape = '<mesh filename="pad.vtk" scale="{}"/>'
    model = ws.load(urdf(tmp_path, SOFT, shape.format("2 2 2")))
    np.testing.assert_allclose(model.fields[0].vertices, 2 * CENTRE)
    np.testing.assert_array_equal(model.fields[0].tetrahedra, FOUR)
    assert model.geom_field[0] == 0 and len(model.fields) == 1
    assert len(ws.load(urdf(tmp_path, SOFT, shape.format("1 -1 1"))).fields) == 1
    assert ws.load(urdf(tmp_path, "<drake:rigid_hydroelastic/>", shape.format("1 1 1"))).fields == ()


@pytest.mark.parametrize(
    "text, words",
    [
        (
            '<drake:compliant_hydroelastic/><drake:hydroelastic_modulus value="soft"/>',
            ["hydroelastic_modulus", "'soft'"],
        ),
        (
            '<drake:compliant_hydroelastic/><drake:hydroelastic_modulus value="0"/>',
            ["hydroelastic_modulus", "positive"],
        ),
        ("<drake:compliant_hydroelastic/><drake:hydroelastic_modulus/>", ["hydroelastic_modulus", "''"]),
        ("<drake:compliant_hydroelastic/>", ["without a modulus", "drake:hydroelastic_modulus"]),
        ("<drake:rigid_hydroelastic/>" + SOFT, ["both", "keep one"]),
        ('<drake:mu_dynamic value="-1"/>', ["mu_dynamic", "'-1'", "not negative"]),
        ('<drake:mesh_resolution_hint value="nan"/>', ["mesh_resolution_hint", "'nan'"]),
        (SOFT + '<drake:mesh_resolution_hint value="1e-9"/>', ["resolution", "facets", "at least"]),
    ],
)
def test_wrong_properties_of_a_urdf_are_named(tmp_path, text, words):
    """File, link, property, value and fix in one line."""
    path = urdf(tmp_path, text)
    with pytest.raises(ModelError) as error:
        ws.load(path)
    assert all(word in str(error.value) for word in [str(path), *words]), error.value
    assert ("'base'" in str(error.value) or "'pad'" in str(error.value)) and "\n" not in str(error.value)


MJCF = """<mujoco><custom><numeric name="user" data="1 2"/>{fields}</custom><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body pos="0 0 1"><freejoint/><geom name="ball" size="0.1"/></body><body pos="0 0 2"><freejoint/><geom name="box" type="box" size=".1 .2 .3"/></body>
</worldbody></mujoco>"""


def mjcf(tmp_path, **fields):
    path = tmp_path / "r.xml"
    text = "".join(f'<numeric name="hydroelastic:{name}" data="{data}"/>' for name, data in fields.items())
    path.write_text(MJCF.format(fields=text))
    return path


def test_numerics_of_an_mjcf(tmp_path):
    """0 is a rigid geom, and elsewhere the default; the report tells them from user data."""
    model = ws.load(mjcf(tmp_path, floor="1e6 0 0.02 0.001", ball="1e5 0.03", box="0"))
    np.testing.assert_array_equal(model.geom_hydroelastic[model.geom("floor")], [1e6, NAN, 0.02, 0.001])
    np.testing.assert_array_equal(model.geom_hydroelastic[model.geom("ball")], [1e5, 0.03, NAN, 0])
    np.testing.assert_array_equal(model.geom_hydroelastic[model.geom("box")], [INF, NAN, NAN, 0])
    assert model.point_pairs == 0
    lines = told(model)
    assert lines["custom numeric fields hydroelastic:*"][0] == "used" and "1 field" in lines["custom numeric fields"][1]
    coarse = ws.load(mjcf(tmp_path, ball="1e5 9"))
    assert coarse.geom_hydroelastic[1, 1] == 0.2 and told(coarse)["resolution of geom 'ball'"][0] == "mapped"


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"bal": "1e5"}, ["'hydroelastic:bal'", "no geom 'bal'"]),
        ({"ball": "-1e5"}, ["'hydroelastic:ball'", "-100000", "0: rigid"]),
        ({"ball": "1e5 1 1 0 0"}, ["'hydroelastic:ball'", "1 to 4"]),
        ({"floor": "1e5"}, ["'floor'", "thickness"]),
        ({"ball": "1e5 1e-9"}, ["'ball'", "at least"]),
    ],
)
def test_wrong_numerics_are_named(tmp_path, fields, words):
    """File, field or geom, value and fix in one line."""
    path = mjcf(tmp_path, **fields)
    with pytest.raises(ModelError) as error:
        ws.load(path)
    assert all(word in str(error.value) for word in [str(path), *words]) and "\n" not in str(error.value), error.value


def soft_scene():
    """A soft floor, an ellipsoid, which USD draws as a mesh, a rigid cylinder and tetrahedra."""
    b = ws.ModelBuilder("soft")
    b.add_geom("plane", name="floor", hydroelastic=ws.Hydroelastic(1e6, thickness=0.02))
    shapes = {
        "bubble": ("ellipsoid", [0.1, 0.2, 0.3], {}, ws.Hydroelastic(1e5, 1 / 30, margin=1e-3)),
        "handle": ("cylinder", [0.1, 0.2], {}, ws.Hydroelastic(INF)),
        "pad": ("mesh", (), {"mesh": (CENTRE[:4], FOUR[:, :3])}, ws.Hydroelastic(1e4, field=(CENTRE, FOUR))),
    }
    for name, (kind, size, options, soft) in shapes.items():
        b.add_body(name, mass=1.0, inertia=[1, 1, 1])
        b.add_joint(name, "free")
        b.add_geom(kind, size, body=name, name=name, hydroelastic=soft, **options)
    return b.build()


@pytest.mark.parametrize("suffix", ["usda", "usdc"])
def test_usd_holds_the_properties(tmp_path, suffix):
    """A model's export reads back with the same table, fields and order of pairs."""
    model = soft_scene()
    model.to_usd(tmp_path / f"m.{suffix}")
    found = ws.load(tmp_path / f"m.{suffix}")
    assert found.geom_names == model.geom_names and found.point_pairs == model.point_pairs == 0
    for name in ("geom_hydroelastic", "geom_field", "pair_geom", "geom_type"):
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    for name in ("vertices", "tetrahedra", "pressure"):
        np.testing.assert_array_equal(getattr(found.fields[0], name), getattr(model.fields[0], name))
    assert told(found)["warpsim:hydroelastic attributes"] == ("used", "4 geoms: contact by pressure fields")


def test_a_recording_holds_the_properties(tmp_path):
    """The stage of a trajectory of one world, too."""
    import mujoco

    from scenes.trajectories import SMALL, rollout
    from warpsim.files.mjcf.mjcf import load_mujoco

    fields = "".join(f'<numeric name="hydroelastic:{n}" data="{d}"/>' for n, d in (("floor", "0"), ("trunk", "1e5")))
    compiled = mujoco.MjModel.from_xml_string(SMALL.replace("<worldbody>", f"<custom>{fields}</custom><worldbody>"))
    model = load_mujoco(compiled)
    rollout(compiled, model, worlds=1, steps=3).to_usd(tmp_path / "t.usda", worlds=1)
    found = ws.load(tmp_path / "t.usda")
    np.testing.assert_array_equal(found.geom_hydroelastic, model.geom_hydroelastic)
    assert found.point_pairs == model.point_pairs == len(model.pair_geom) - 1


def foreign(tmp_path, units=1.0, **attributes):
    """A stage of another program: a ball with PhysicsCollisionAPI and the attributes."""
    from pxr import Sdf, Usd, UsdGeom, UsdPhysics

    path = tmp_path / "f.usda"
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, "Z")
    UsdGeom.SetStageMetersPerUnit(stage, units)
    ball = UsdGeom.Sphere.Define(stage, "/ball")
    ball.CreateRadiusAttr(0.1 / units)
    UsdPhysics.CollisionAPI.Apply(ball.GetPrim())
    for name, value in attributes.items():
        kind = Sdf.ValueTypeNames.String if isinstance(value, str) else Sdf.ValueTypeNames.Double
        ball.GetPrim().CreateAttribute(f"warpsim:hydroelastic:{name}", kind).Set(value)
    stage.Save()
    return path


def test_a_stage_of_another_program_has_its_own_units(tmp_path):
    """Centimetres: the modulus is kg/(cm s²), lengths are cm; a coarse resolution becomes the coarsest."""
    model = ws.load(foreign(tmp_path, 0.01, modulus=1e3, resolution=4.0, margin=0.1))
    np.testing.assert_allclose(model.geom_hydroelastic, [[1e5, 0.04, NAN, 1e-3]])
    model = ws.load(foreign(tmp_path, modulus=INF, resolution=7.0))
    np.testing.assert_allclose(model.geom_hydroelastic[0, :2], [INF, 0.2])
    assert "coarser" in told(model)["resolution of geom /ball"][1]


@pytest.mark.parametrize(
    "attributes, words",
    [
        ({"modulus": 0.0}, ["modulus", "0.0", "positive"]),
        ({"modulus": "soft"}, ["modulus", "'soft'", "double"]),
        ({"margin": 0.1}, ["margin", "without", "modulus"]),
        ({"modulus": 1e5, "margin": -1.0}, ["margin", "-1.0"]),
        ({"modulus": 1e5, "resolution": 1e-9}, ["resolution", "at least"]),
    ],
)
def test_wrong_attributes_are_named(tmp_path, attributes, words):
    """File, prim, attribute, value and fix in one line."""
    path = foreign(tmp_path, **attributes)
    with pytest.raises(ModelError) as error:
        ws.load(path)
    assert all(word in str(error.value) for word in [str(path), "ball", *words]), error.value
    assert "\n" not in str(error.value)
