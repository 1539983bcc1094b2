# SPDX-License-Identifier: Apache-2.0
"""Masses of USD bodies are those of OpenUSD's own `UsdPhysics.RigidBodyAPI.ComputeMassProperties`."""

import itertools

import numpy as np
import pytest

from warpsim.files.load import load

pytest.importorskip("pxr")
from pxr import Gf, Usd, UsdGeom, UsdPhysics

OF_BODY = {
    "m": "float physics:mass = 3",
    "d": "float physics:density = 200",
    "c": "point3f physics:centerOfMass = (0.1, 0.2, -0.3)",
    "i": "float3 physics:diagonalInertia = (1, 2, 2.5)",
    "p": "quatf physics:principalAxes = (0.8, 0, 0.6, 0)",
}
OF_COLLIDER = {
    "m": "float physics:mass = 7",
    "d": "float physics:density = 500",
    "c": "point3f physics:centerOfMass = (-0.2, 0.1, 0.3)",
    "i": "float3 physics:diagonalInertia = (2, 1.5, 1)",
    "p": "quatf physics:principalAxes = (0.6, 0, 0, 0.8)",
    "M": "rel material:binding:physics = </W/mat>",
}
UNITS = ((1, 1, "Z"), (0.01, 1, "Y"), (1, 0.001, "Z"), (0.5, 2, "Y"))
PLACED = """quatf xformOp:orient = (0.6, 0, 0.8, 0)
float3 xformOp:scale = (1, 2, 3)
double3 xformOp:translate = (1, 0, 2)
uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient", "xformOp:scale"]"""
SECOND = (
    [],
    ['double3 xformOp:translate = (0, 5, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]'],
    ["bool physics:collisionEnabled = 0"],
)
CUBE = 'def Cube "c{}" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "MaterialBindingAPI"]) {{ \ndouble size = 2\n{}\n}}\n'


def stage_text(body, cubes, units=UNITS[0], scale="(1, 1, 1)", inner=""):
    """A turned rigid body at (3, 4, 5) with cubes of edge 2, and a material of density 300."""
    cubes = "".join(CUBE.format(k, lines) for k, lines in enumerate(cubes))
    return f"""#usda 1.0
( metersPerUnit = {units[0]}
 kilogramsPerUnit = {units[1]}
 upAxis = "{units[2]}" )
def Xform "W" {{
 def PhysicsScene "scene" {{}}
 def Material "mat" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{
  float physics:density = 300
 }}
 def Xform "A" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
  {body}
  double3 xformOp:translate = (3, 4, 5)
  quatf xformOp:orient = (0.8, 0.6, 0, 0)
  float3 xformOp:scale = {scale}
  uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient", "xformOp:scale"]
  {inner}
  {cubes}
 }}
}}
"""


def volume_of(prim):
    """What `ComputeMassProperties` asks of a cube: its volume, its inertia at density 1, where it is in the body."""
    found, cache, body = UsdPhysics.RigidBodyAPI.MassInformation(), UsdGeom.XformCache(), prim.GetParent()
    world = cache.GetLocalToWorldTransform(prim)
    x, y, z = (UsdGeom.Cube(prim).GetSizeAttr().Get() * abs(s) for s in Gf.Transform(world).GetScale())
    enabled = UsdPhysics.CollisionAPI(prim).GetCollisionEnabledAttr().Get() is not False
    found.volume = x * y * z * enabled
    moments = np.array([y * y + z * z, x * x + z * z, x * x + y * y]) * found.volume / 12
    found.inertia = Gf.Matrix3f(*np.diag(moments).ravel().tolist())
    found.centerOfMass = Gf.Vec3f(0)
    there = world * cache.GetLocalToWorldTransform(body).RemoveScaleShear().GetInverse()
    found.localPos = Gf.Vec3f(there.ExtractTranslation())
    found.localRot = Gf.Quatf(there.RemoveScaleShear().ExtractRotationQuat())
    return found


def check(path, text, units=UNITS[0], axes=True):
    """Mass, COM and inertia of body A of a stage are what OpenUSD computes of it, to single precision."""
    path.write_text(text)
    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/W/A")
    mass, moments, com, turn = UsdPhysics.RigidBodyAPI(prim).ComputeMassProperties(volume_of)
    length, kilo = units[:2]
    moments = np.array(moments) * kilo * length**2
    model = load(path)
    np.testing.assert_allclose(model.body_mass[0], mass * kilo, rtol=1e-5)
    np.testing.assert_allclose(model.body_com[0], np.array(com) * length, atol=1e-5 * length)
    found, size = model.body_inertia[0], moments.max()
    np.testing.assert_allclose(np.linalg.eigvalsh(found), np.sort(moments), rtol=1e-4, atol=1e-4 * size)
    length_of_turn = np.linalg.norm([turn.GetReal(), *turn.GetImaginary()])
    if axes and abs(length_of_turn - 1) < 1e-3:  # USD leaves it as it was in memory where it computes nothing
        turn = np.array(Gf.Matrix3d(Gf.Quatd(turn))).T
        np.testing.assert_allclose(found, turn @ np.diag(moments) @ turn.T, atol=2e-3 * size)


def subsets(of):
    return [c for k in range(len(of) + 1) for c in itertools.combinations(of, k)]


def test_every_combination_of_mass_attributes_is_openusds(tmp_path, rng):
    """Body and collider with any of mass, density, COM, inertia, axes and material, in several units, scaled, with a second collider."""
    pairs = list(itertools.product(subsets(OF_BODY), subsets(OF_COLLIDER)))
    for k in rng.choice(len(pairs), 60, replace=False):
        (body, collider), units = pairs[k], UNITS[k % len(UNITS)]
        cubes = ["\n".join([*(OF_COLLIDER[key] for key in collider), PLACED]), *SECOND[k % 3]]
        scale = ("(1, 1, 1)", "(2, 2, 2)")[k % 2]
        text = stage_text("\n".join(OF_BODY[key] for key in body), cubes, units, scale)
        open_axes = (
            "i" in body and "p" not in body
        )  # then of the colliders, which may be degenerate in single precision
        check(tmp_path / f"{k}.usda", text, units, axes=not open_axes)


@pytest.mark.parametrize(
    ("body", "cubes"),
    [
        ("float physics:density = 200", [OF_COLLIDER["M"]]),  # the body's density beats the material's
        ("point3f physics:centerOfMass = (0.5, 0.2, 0)\nfloat physics:mass = 3", [""]),  # the parallel-axis term
        ("point3f physics:centerOfMass = (0.5, 0, 0)", ["float physics:mass = 0.05"]),
        ("", ["point3f physics:centerOfMass = (0.5, 0, 0)\nfloat physics:mass = 3"]),
        ("float physics:mass = 5", []),  # a mass without shapes is a ball of 0.1 m
        (f"{OF_BODY['m']}\n{OF_BODY['i']}", [PLACED]),  # moments without axes have those of the colliders
        (OF_BODY["p"], [PLACED]),
    ],
)
def test_mass_attributes_one_by_one(tmp_path, body, cubes):
    """The rules of UsdPhysics that are most easily got wrong."""
    check(tmp_path / "m.usda", stage_text(body, cubes))


def test_collision_of_an_xform_is_that_of_the_shapes_below_it(tmp_path):
    """PhysicsCollisionAPI with MassAPI on an Xform: its shapes touch, and its mass is theirs together."""
    inner = """def Xform "both" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"]) {
  float physics:mass = 6
  def Cube "a" {
   double size = 2
  }
  def Cube "b" {
   double size = 1
   double3 xformOp:translate = (3, 0, 0)
   uniform token[] xformOpOrder = ["xformOp:translate"]
  }
  def Cube "drawn" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
   bool physics:collisionEnabled = 0
  }
 }
 def Xform "empty" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}"""
    (tmp_path / "m.usda").write_text(stage_text("", [], inner=inner))
    with pytest.warns(UserWarning, match="/W/A/empty: a Xform without a shape that touches"):
        model = load(tmp_path / "m.usda")
    assert np.isclose(model.body_mass[0], 6) and np.allclose(model.body_com[0], [3 / 9, 0, 0])
    assert (model.geom_contype > 0).tolist() == [True, True, False]
    assert any(line.feature == "collision of /W/A/both" and line.status == "mapped" for line in model.report)
