# SPDX-License-Identifier: Apache-2.0
"""What other programs write into USD stages: it is read, or said."""

import warnings

import pytest

from warpsim.errors import ModelError
from warpsim.files.load import load

pytest.importorskip("pxr")

BOX = 'def Cube "c" (prepend apiSchemas = ["PhysicsCollisionAPI"{}]) {{\n double size = 0.2\n {}\n}}\n'
PLANE = 'def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\n uniform token axis = "Z"\n}\n'


def box(more="", api=""):
    """A colliding cube of edge 0.2 m."""
    return BOX.format(api, more)


def body(name, z, more="", api="", shape=None):
    """A body of 1 kg at height z."""
    return f"""def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"{api}]) {{
 float physics:mass = 1
 float3 physics:diagonalInertia = (0.1, 0.1, 0.1)
 double3 xformOp:translate = (0, 0, {z})
 uniform token[] xformOpOrder = ["xformOp:translate"]
 {more}
 {box() if shape is None else shape}
}}
"""


def joint(kind="Revolute", name="j", ends=("A", "B"), more="", api=""):
    """A joint about or along x; frames are those of the bodies, half way between them at rest."""
    applied = f"(prepend apiSchemas = [{api}])" if api else ""
    first = f"rel physics:body0 = </W/{ends[0]}>" if ends[0] else ""
    return f"""def Physics{kind}Joint "{name}" {applied} {{
 {first}
 rel physics:body1 = </W/{ends[1]}>
 uniform token physics:axis = "X"
 point3f physics:localPos1 = (0, 0, -1)
 {more}
}}
"""


def stage(*parts, scene="", api="", units=(1, 1)):
    """A stage of the parts below /W."""
    applied = f"(prepend apiSchemas = [{api}])" if api else ""
    return f"""#usda 1.0
( metersPerUnit = {units[0]}
 kilogramsPerUnit = {units[1]}
 upAxis = "Z"
 defaultPrim = "W" )
def Xform "W" {{
 def PhysicsScene "scene" {applied} {{
  {scene}
 }}
{"".join(parts)}
}}
"""


@pytest.fixture
def read(tmp_path):
    """Load a stage from its text: the model, and what was warned of."""

    def run(text, **options):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.usda"  # a new name: USD keeps layers that it has read
        path.write_text(text)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = load(path, **options)
        return model, " ".join(str(w.message) for w in caught)

    return run


def line(model, word):
    """The report's first line that names a word."""
    return next(x for x in model.report if word in x.feature or word in x.detail)


LOOP = joint(more="bool physics:excludeFromArticulation = 1\n {}", name="k", api='"PhysicsDriveAPI:angular"')


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        (LOOP.replace("{}", "float drive:angular:physics:stiffness = 0"), True),
        (
            LOOP.replace("{}", "float drive:angular:physics:stiffness = 9\n float drive:angular:physics:maxForce = 0"),
            True,
        ),
        (LOOP.replace("{}", "float drive:angular:physics:damping = 9"), False),
    ],
)
def test_drives_of_loop_joints_without_gains_or_force_are_left_out(read, text, loads):
    """A drive that does nothing is no reason to refuse the joint that closes a loop."""
    scene = stage(body("A", 1), body("B", 2), joint(), text)
    if not loads:
        with pytest.raises(ModelError, match="a drive of such a joint is not simulated"):
            read(scene)
    model, _ = read(scene, unsupported="report")
    assert model.nconstraint == 1 and model.nu == 0
    assert line(model, "drive").status == ("ignored" if loads else "refused")


def test_an_acceleration_drive_without_gains_is_no_drive(read):
    model, told = read(
        stage(
            body("A", 1),
            body("B", 2),
            joint(more='uniform token drive:angular:physics:type = "acceleration"', api='"PhysicsDriveAPI:angular"'),
        )
    )
    assert model.nu == 0 and not told


SCALED = 'float3 xformOp:scale = (1, 2, 1)\n uniform token[] xformOpOrder = ["xformOp:scale"]'
CYLINDER = 'def Cylinder "c" {}{{\n double radius = 0.1\n double height = 0.2\n {}\n}}\n'


def test_shapes_that_cannot_be_simulated_are_left_out_with_report(read):
    """unsupported="report" holds for shapes and joints as for MJCF; a shape that is only drawn never refuses a file."""
    oval = CYLINDER.format('(prepend apiSchemas = ["PhysicsCollisionAPI"]) ', SCALED)
    scene = stage(
        body("A", 1, shape=oval + box().replace('"c"', '"d"')), body("B", 2), joint(ends=("B", "B"), name="same")
    )
    with pytest.raises(ModelError, match=r"is no Cylinder; make it a mesh.*joins /W/B to itself"):
        read(scene)
    model, told = read(scene, unsupported="report")
    assert model.ngeom == 2 and "is no Cylinder" in told and "to itself" in told
    model, told = read(
        stage(
            body(
                "A",
                1,
                shape=CYLINDER.format("", SCALED) + CYLINDER.format("", "").replace("0.1", "-1").replace('"c"', '"d"'),
            )
        )
    )
    assert model.ngeom == 0 and "not drawn" in told and "radius is -1.0" in told


def test_limits_the_wrong_way_round_lock_a_joint_and_say_so(read):
    model, _ = read(
        stage(body("A", 1), body("B", 2), joint(more="float physics:lowerLimit = 5\n float physics:upperLimit = -5"))
    )
    assert model.nv == 6 and "locked" in line(model, "/W/j").detail
