# SPDX-License-Identifier: Apache-2.0
"""What other programs write into USD stages: it is read, or said."""

import dataclasses
import warnings

import numpy as np
import pytest

from scenes.trajectories import small
from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.model.geometry import axis_angle, compose, inverse
from warpsim.model.host_kinematics import body_poses

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


# Joints ------------------------------------------------------------------------------------------------------------------

DEGREE = np.pi / 180
TWO = (body("A", 1, api=', "PhysicsArticulationRootAPI"'), body("B", 2))


@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        ("Revolute", "newton:armature = 0.7; newton:friction = 0.3; newton:damping = 0.2", (0.7, 0.3, 0.2 / DEGREE)),
        ("Prismatic", "newton:armature = 0.7; newton:friction = 0.3; newton:damping = 0.2", (0.7, 0.3, 0.2)),
        ("Revolute", "mjc:armature = 0.7; mjc:frictionloss = 0.3; mjc:damping = 0.2", (0.7, 0.3, 0.2)),
        ("Revolute", "physxJoint:armature = 0.7", (0.7, 0, 0)),
        (
            "Revolute",
            "physxJointAxis:angular:armature = 0.7; physxJointAxis:angular:dynamicFrictionEffort = 0.3; "
            "physxJointAxis:angular:viscousFrictionCoefficient = 0.2",
            (0.7, 0.3, 0.2 / DEGREE),
        ),
        ("Spherical", "newton:armature = 0.7; newton:friction = 0.3; newton:damping = 0.2", (0.7, 0.3, 0.2 / DEGREE)),
    ],
)
@pytest.mark.parametrize("units", [(1, 1), (0.01, 0.001)])
def test_armature_friction_and_damping_of_every_schema(read, kind, lines, expected, units):
    """All in SI: inertia, effort and effort over speed have the stage's units, Newton's and PhysX's angles are degrees."""
    more = "\n ".join(f"float {part.strip()}" for part in lines.split(";"))
    model, told = read(stage(*TWO, joint(kind, more=more), units=units))
    length, mass = units
    inertia, effort = (mass, mass * length) if kind == "Prismatic" else (mass * length**2,) * 2
    damping = mass if kind == "Prismatic" else inertia
    found = [getattr(model, f"joint_{key}")[6:] for key in ("armature", "friction", "damping")]
    for got, value, scale in zip(found, expected, (inertia, effort, damping), strict=True):
        np.testing.assert_allclose(got, value * scale, rtol=1e-6)
    assert not told


def test_a_disagreement_of_schemas_is_told(read):
    more = "float newton:armature = 0.2\n float physxJoint:armature = 0.3"
    model, told = read(stage(*TWO, joint(more=more)))
    assert (
        np.isclose(model.joint_armature[-1], 0.2)
        and "newton:armature counts, physxJoint:armature says otherwise" in told
    )


@pytest.mark.parametrize(
    "text", ['string newton:armature = "x"', "float newton:armature = -1", "float mjc:damping = nan"]
)
def test_values_that_are_none_are_errors_that_name_prim_and_attribute(read, text):
    with pytest.raises(
        ModelError, match=r"/W/j: (newton:armature|mjc:damping) is .*; it must be a finite number of at least 0"
    ):
        read(stage(*TWO, joint(more=text)))


def test_joint_states_are_the_start(read):
    """Position in q0, with the body where the joint says; velocity in a keyframe, by joint, whatever the order of the tree."""
    more = "float state:{0}:physics:position = 30\n float state:{0}:physics:velocity = 90"
    slide = joint("Prismatic", "s", ("B", "C"), more.format("linear"), '"PhysicsJointStateAPI:linear"')
    hinge = joint("Revolute", "j", ("A", "B"), more.format("angular"), '"PhysicsJointStateAPI:angular"')
    for order in ((slide, hinge), (hinge, slide)):
        model, told = read(stage(*TWO, body("C", 3), *order, units=(0.01, 1)))
        q = {name: model.q0[model.joint_q[k]] for k, name in enumerate(model.joint_names)}
        v = {name: model.keyframes["initial_state"].v[model.joint_v[k]] for k, name in enumerate(model.joint_names)}
        np.testing.assert_allclose([q["j"], q["s"], v["j"], v["s"]], [np.pi / 6, 0.3, np.pi / 2, 0.9], rtol=1e-6)
        assert "initial_state" in told and line(model, "velocities at the start").status == "mapped"


def test_several_freedoms_of_one_joint_start_where_they_say(read):
    """Slides, then hinges about x, y, z of the joint frames, each in the frame that the ones before have moved; at the start and beyond."""
    axes, given = ("transY", "rotX", "rotY", "rotZ"), (0.3, 40.0, -30.0, 70.0)
    lines = "".join(
        f" float limit:{a}:physics:low = 1\n float limit:{a}:physics:high = -1\n" for a in ("transX", "transZ")
    )
    lines += "".join(f" float limit:{a}:physics:low = -180\n float limit:{a}:physics:high = 180\n" for a in axes)
    lines += "".join(f" float state:{a}:physics:position = {x}\n" for a, x in zip(axes, given, strict=True))
    api = ", ".join(f'"PhysicsLimitAPI:{a}"' for a in ("transX", "transZ", *axes))
    turn = " quatf physics:localRot0 = (0.6, 0.8, 0, 0)\n quatf physics:localRot1 = (0.8, 0, 0.6, 0)\n"
    text = joint("", more=lines + turn, api=api).replace(' uniform token physics:axis = "X"\n', "")
    model, told = read(stage(body("A", 1, "bool physics:kinematicEnabled = 1"), body("B", 2), text))
    start = np.array([0.3, *np.radians(given[1:])])
    np.testing.assert_allclose(model.q0, start, rtol=1e-6)
    for q in (start, start + [0.1, 0.2, -0.3, 0.4]):
        pose = compose([0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0.6, 0.8, 0, 0])
        pose = compose(pose, [0, q[0], 0, 1, 0, 0, 0])
        for axis, angle in zip(np.eye(3), q[1:], strict=True):
            pose = compose(pose, np.concatenate([np.zeros(3), axis_angle(axis, angle)]))
        pose = compose(pose, inverse(np.array([0, 0, -1, 0.8, 0, 0.6, 0])))
        found = body_poses(model, q)[1]
        np.testing.assert_allclose(found[:3], pose[:3], atol=1e-6)
        assert abs(abs(found[3:] @ pose[3:]) - 1) < 1e-6
    assert not told


def test_velocities_of_free_bodies_are_those_of_their_com(read):
    """In the space in which the prim stands, or with PhysX's customData in its own; the joint's are of the origin and in body axes."""
    turn = 'quatf xformOp:orient = (0.6, 0, 0.8, 0)\n uniform token[] xformOpOrder = ["xformOp:orient"]\n'
    more = (
        "vector3f physics:velocity = (1, 2, 3)\n vector3f physics:angularVelocity = (10, 20, 30)\n"
        " point3f physics:centerOfMass = (0.1, 0, 0)"
    )
    c, s = 0.6**2 - 0.8**2, 2 * 0.6 * 0.8
    rotation = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    for local in (False, True):
        inner = body("A", 1, more).replace(
            '"A" (', '"A" (\n customData = { bool "physics:localSpaceVelocities" = 1 }\n' if local else '"A" ('
        )
        model, _ = read(stage(f'def Xform "T" {{\n {turn} {inner} }}\n'))
        found = model.keyframes["initial_state"].v
        omega = rotation @ np.radians([10, 20, 30])  # both spaces are the same but for a translation
        np.testing.assert_allclose(found[:3], rotation @ [1, 2, 3] - np.cross(omega, rotation @ [0.1, 0, 0]), atol=1e-6)
        np.testing.assert_allclose(found[3:], np.radians([10, 20, 30]), atol=1e-7)


@pytest.mark.parametrize(
    ("more", "api", "law"),
    [
        (
            "rel newton:mimicJoint = </W/j>\n float newton:mimicCoef0 = 20\n float newton:mimicCoef1 = -2",
            "NewtonMimicAPI",
            (20 * DEGREE, -2),
        ),
        (
            "rel mjc:target = </W/j>\n double mjc:coef0 = 0.1\n double mjc:coef1 = 0.5\n double mjc:coef2 = 0.7",
            "MjcEqualityJointAPI",
            (0.1, 0.5, 0.7),
        ),
        (
            "rel physxMimicJoint:rotX:referenceJoint = </W/j>\n float physxMimicJoint:rotX:gearing = 3\n"
            " float physxMimicJoint:rotX:offset = 20",
            "PhysxMimicJointAPI:rotX",
            (-20 * DEGREE, -3),
        ),
        ("rel newton:mimicJoint = </W/none>", "NewtonMimicAPI", None),
    ],
)
def test_mimic_joints_hold_their_law_in_the_joints_own_coordinates(read, more, api, law):
    """y = P(x), x and y from the joint frames on, also where the joints do not start at 0."""
    start = "float state:angular:physics:position = {}"
    parts = (
        joint(more=start.format(40)),
        joint(name="k", ends=("B", "C"), more=start.format(10) + "\n " + more, api=f'"{api}"'),
    )
    model, told = read(stage(*TWO, body("C", 3), *parts))
    if law is None:
        assert model.nconstraint == 0 and "moves independently" in told
        return
    c, x = model.constraint_coefficients[0], np.linspace(-1, 1, 5)
    y = 10 * DEGREE + sum(c[k] * (x - 40 * DEGREE) ** k for k in range(5))
    np.testing.assert_allclose(y, sum(p * x**k for k, p in enumerate(law)), atol=1e-6)
    assert not told


# Bodies and contact -------------------------------------------------------------------------------------------------------


def test_gravity_off_and_damping_of_bodies(read):
    """disableGravity is gravity compensation; rates of damping are a free joint's, where its axes are the inertia's."""
    rates = "float physxRigidBody:linearDamping = 3\n float physxRigidBody:angularDamping = 2"
    off = "bool physxRigidBody:disableGravity = 1\n "
    model, told = read(stage(body("A", 1, off + rates), body("B", 5, "float mjc:body:gravcomp = 0.5")))
    assert model.body_gravcomp.tolist() == [1, 0.5] and not told
    np.testing.assert_allclose(model.joint_damping[:6], [3, 3, 3, 0.2, 0.2, 0.2], rtol=1e-6)
    _, told = read(stage(body("A", 1), body("B", 2, rates), joint()))
    assert "rates of damping of links are not simulated" in told
    _, told = read(stage(body("A", 1, rates + "\n point3f physics:centerOfMass = (0.1, 0, 0)")))
    assert "whose axes are those of their inertia" in told


def touching(model):
    """Pairs of names of geoms that may touch."""
    return {tuple(sorted((model.geom_names[a], model.geom_names[b]))) for a, b in model.pair_geom}


@pytest.mark.parametrize("name", ["newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions"])
def test_articulations_without_self_collisions(read, name):
    """Links of one tree do not touch each other, those of another tree and the ground do."""
    links = [body(n, k, shape=box().replace('"c"', f'"c{n}"')) for k, n in enumerate("ABC")]
    tree = "".join(links) + joint() + joint(name="k", ends=("B", "C"))
    tree = tree.replace(
        'def Xform "A" (prepend apiSchemas = [', 'def Xform "A" (prepend apiSchemas = ["PhysicsArticulationRootAPI", '
    ).replace('"PhysicsMassAPI"]) {', '"PhysicsMassAPI"]) {\n bool ' + name + " = 0\n", 1)
    other = body("D", 9, shape=box().replace('"c"', '"cD"'))
    model, told = read(stage(PLANE, tree, other))
    assert touching(model) == {(f"c{n}", "ground") for n in "ABCD"} | {(f"c{n}", "cD") for n in "ABC"} and not told


def test_trees_below_one_root_collide_with_each_other(read):
    """An articulation root above several trees, its joint to the world among them: self-collisions are those within a tree."""
    bodies = "".join(body(n, k, shape=box().replace('"c"', f'"c{n}"')) for k, n in enumerate("ABCD"))
    joints = joint("Fixed", "w", ("", "A")) + joint() + joint(name="k", ends=("C", "D"))
    inner = (bodies + joints).replace("</W/", "</W/R/")
    head = (
        'def Xform "R" (prepend apiSchemas = ["NewtonArticulationRootAPI"]) {\n bool newton:selfCollisionEnabled = 0\n'
    )
    model, told = read(stage(head, inner, "}\n"))
    assert touching(model) == pairs_of("ABCD") - {("cA", "cB"), ("cC", "cD")} and not told


def group(name, members, filtered=(), invert=False, merge=""):
    """A collision group of paths."""
    paths = lambda names: ", ".join(f"</W/{n}>" for n in names)  # noqa: E731
    return f"""def PhysicsCollisionGroup "{name}" (prepend apiSchemas = ["CollectionAPI:colliders"]) {{
 rel collection:colliders:includes = [{paths(members)}]
 {f"rel physics:filteredGroups = [{paths(filtered)}]" if filtered else ""}
 bool physics:invertFilteredGroups = {int(invert)}
 {f'string physics:mergeGroup = "{merge}"' if merge else ""}
}}
"""


NAMES = "ABCDE"
BODIES = [body(n, k, shape=box().replace('"c"', f'"c{n}"')) for k, n in enumerate(NAMES)]


def pairs_of(names):
    return {tuple(sorted((f"c{a}", f"c{b}"))) for k, a in enumerate(names) for b in names[:k]}


@pytest.mark.parametrize(
    ("groups", "apart"),
    [
        ([group("G", "AB", "H"), group("H", "C")], ["AC", "BC"]),
        ([group("G", "ABC", "G")], ["AB", "AC", "BC"]),  # a group that is filtered from itself
        ([group("G", "AB", "H", invert=True), group("H", "C")], ["AB", "AD", "AE", "BD", "BE"]),  # it touches H alone
        (
            [group("G", "A", "H", merge="m"), group("K", "B", merge="m"), group("H", "C")],
            ["AC", "BC"],
        ),  # one group of two prims
        ([group("G", "A", "H"), group("H", "A" + "B")], ["AB"]),  # A is in both
    ],
)
def test_collision_groups(read, groups, apart):
    """Filtered, inverted and merged groups keep apart the pairs that UsdPhysics says, and no others."""
    model, told = read(stage(*BODIES, *groups))
    assert touching(model) == pairs_of(NAMES) - {tuple(sorted((f"c{a}", f"c{b}"))) for a, b in apart} and not told


def test_more_groups_than_masks_exclude_bodies(read):
    """40 bodies of which each is a group that touches the ground alone."""
    bodies = [body(f"B{k}", k, shape=box().replace('"c"', f'"c{k}"')) for k in range(40)]
    groups = [group(f"G{k}", [f"B{k}"], [f"G{j}" for j in range(40) if j != k]) for k in range(40)]
    model, told = read(stage(PLANE, *bodies, *groups))
    assert touching(model) == {(f"c{k}", "ground") for k in range(40)} and not told


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("A", "B", ["AB"]),
        ("A/cA", "B", ["AB"]),
        ("A/cA", "ground", ["A"]),
        ("A", "ground", ["A"]),
        ("ground", "B/cB", ["B"]),
    ],
)
def test_filtered_pairs_of_bodies_and_colliders(read, first, second, apart):
    """Each side may be a body or a collider, of the world too."""
    rel = f"\n rel physics:filteredPairs = </W/{second}>\n"
    text = stage(PLANE, *BODIES[:2])
    head = {
        "A": 'def Xform "A" (prepend apiSchemas = [',
        "A/cA": 'def Cube "cA" (prepend apiSchemas = [',
        "ground": 'def Plane "ground" (prepend apiSchemas = [',
    }[first]
    start = text.index(head) + len(head)
    text = text[:start] + '"PhysicsFilteredPairsAPI", ' + text[start:]
    brace = text.index("{", start)
    text = text[: brace + 1] + rel + text[brace + 1 :]
    model, told = read(text)
    every = pairs_of("AB") | {("cA", "ground"), ("cB", "ground")}
    gone = {("cA", "cB") if len(p) == 2 else (f"c{p}", "ground") for p in apart}
    assert touching(model) == every - gone and not told


# MuJoCo's prims -----------------------------------------------------------------------------------------------------------

MJCF = """<mujoco><option density="1.2" viscosity="1e-4" wind="1 0 0" timestep="0.004"/><compiler angle="degree"/>
<worldbody><body name="A" pos="0 0 1"><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/>
 <joint name="j" axis="1 0 0" armature=".02" damping=".3" frictionloss=".1" stiffness="4" ref="10" springref="25" range="-40 60"/>
 <joint name="s" type="slide" axis="0 1 0" damping="2"/>
 <geom name="c" type="box" size=".1 .1 .1" contype="1" condim="4" priority="2" margin=".01" friction="0.5 .02 .001" solref=".05 .8" solimp=".8 .9 .01 .5 2"/>
 <site name="tip" type="sphere" size=".02" pos="0 0 .3"/>
 <body name="B" pos="0 0 1"><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/>
  <joint name="k" type="ball" range="0 30" damping=".2"/><site name="end" type="sphere" size=".02"/>
  <geom name="r" type="sphere" size=".1" condim="4" priority="2" margin=".01" friction="0.5 .02 .001"/></body></body>
</worldbody>
<tendon><fixed name="both" range="-1 2" stiffness="3" damping=".5" frictionloss=".2"><joint joint="j" coef="2"/><joint joint="s" coef="-1"/></fixed>
 <spatial name="string" range="0 2" damping=".1"><site site="tip"/><geom geom="r" sidesite="end"/><site site="end"/></spatial></tendon>
<actuator><motor name="m" joint="j" gear="50" ctrlrange="-3 3"/>
 <general name="p" joint="s" gainprm="10" biastype="affine" biasprm="1 -10 -1" dyntype="filter" dynprm=".1" forcerange="-5 5"/>
 <general name="t" tendon="both" gainprm="2"/><general name="f" site="tip" gear="0 0 10 0 0 2"/></actuator></mujoco>"""

SITE = 'def Sphere "{}" (prepend apiSchemas = ["MjcSiteAPI"]) {{\n double radius = 0.02\n double3 xformOp:translate = (0, 0, {})\n uniform token[] xformOpOrder = ["xformOp:translate"]\n}}\n'
SHAPE = "double mjc:margin = 0.01\n int mjc:condim = 4\n int mjc:priority = 2\n rel material:binding:physics = </W/mat>"
SOFT = "\n double[] mjc:solref = [0.05, 0.8]\n double[] mjc:solimp = [0.8, 0.9, 0.01, 0.5, 2]"
MUJOCO = (
    """def Material "mat" (prepend apiSchemas = ["PhysicsMaterialAPI", "MjcMaterialAPI"]) {
 float physics:dynamicFriction = 0.5
 float physics:staticFriction = 0.5
 double mjc:torsionalfriction = 0.02
 double mjc:rollingfriction = 0.001
}
""",
    body("A", 1, shape=box(SHAPE + SOFT, ', "MjcCollisionAPI"') + SITE.format("tip", 0.3)),
    body(
        "B",
        2,
        shape=f'def Sphere "r" (prepend apiSchemas = ["MjcCollisionAPI"]) {{\n double radius = 0.1\n {SHAPE}\n}}\n'
        + SITE.format("end", 0),
    ),
    """def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["MjcJointAPI"]) {
 rel physics:body1 = </W/A>
 point3f physics:localPos0 = (0, 0, 1)
 uniform token physics:axis = "X"
 float physics:lowerLimit = -50
 float physics:upperLimit = 50
 double mjc:armature = 0.02
 double mjc:damping = 0.3
 double mjc:frictionloss = 0.1
 double mjc:stiffness = 4
 double mjc:ref = 10
 double mjc:springref = 25
}
def PhysicsPrismaticJoint "s" (prepend apiSchemas = ["MjcJointAPI"]) {
 rel physics:body1 = </W/A>
 point3f physics:localPos0 = (0, 0, 1)
 uniform token physics:axis = "Y"
 double mjc:damping = 2
}
def PhysicsSphericalJoint "k" (prepend apiSchemas = ["MjcJointAPI"]) {
 rel physics:body0 = </W/A>
 rel physics:body1 = </W/B>
 point3f physics:localPos0 = (0, 0, 1)
 float physics:coneAngle0Limit = 30
 float physics:coneAngle1Limit = 30
 double mjc:damping = 0.2
}
def MjcTendon "both" {
 uniform token mjc:type = "fixed"
 rel mjc:path = [</W/j>, </W/s>]
 double[] mjc:path:coef = [2, -1]
 double mjc:range:min = -1
 double mjc:range:max = 2
 double mjc:stiffness = 3
 double mjc:damping = 0.5
 double mjc:frictionloss = 0.2
}
def MjcTendon "string" {
 rel mjc:path = [</W/A/tip>, </W/B/r>, </W/B/end>]
 int[] mjc:path:indices = [0, 1, 2]
 rel mjc:sideSites = </W/B/end>
 int[] mjc:sideSites:indices = [-1, 0, -1]
 double mjc:range:max = 2
 double mjc:damping = 0.1
}
def MjcActuator "m" {
 rel mjc:target = </W/j>
 double[] mjc:gear = [50, 0, 0, 0, 0, 0]
 double mjc:ctrlRange:min = -3
 double mjc:ctrlRange:max = 3
}
def MjcActuator "p" {
 rel mjc:target = </W/s>
 double[] mjc:gainPrm = [10]
 token mjc:biasType = "affine"
 double[] mjc:biasPrm = [1, -10, -1]
 token mjc:dynType = "filter"
 double[] mjc:dynPrm = [0.1]
 double mjc:forceRange:min = -5
 double mjc:forceRange:max = 5
}
def MjcActuator "t" {
 rel mjc:target = </W/both>
 double[] mjc:gainPrm = [2]
}
def MjcActuator "f" {
 rel mjc:target = </W/A/tip>
 double[] mjc:gear = [0, 0, 10, 0, 0, 2]
}
""",
)
MEDIUM = """double mjc:option:density = 1.2
 double mjc:option:viscosity = 1e-4
 double3 mjc:option:wind = (1, 0, 0)
 double mjc:option:timestep = 0.004"""


def test_mujocos_prims_are_what_mjcf_makes_of_them(read, tmp_path):
    """Joints, stacked joints, a ball with a limit, sites, tendons, actuators, contact and medium: every such field of the model is MJCF's."""
    (tmp_path / "m.xml").write_text(MJCF)
    ours, theirs = load(tmp_path / "m.xml"), read(stage(*MUJOCO, scene=MEDIUM, api='"MjcSceneAPI"'))
    theirs, told = theirs
    assert not told
    prefixes = (
        "joint_",
        "tendon_",
        "actuator_",
        "site_",
        "wrap_",
        "control_",
        "force_",
        "activation",
        "fluid_",
        "wind",
        "timestep",
        "q0",
    )
    names = [
        f.name
        for f in dataclasses.fields(ours)
        if f.name.startswith(prefixes) and f.name not in ("site_rgba", "site_size")
    ]
    names += [
        f"geom_{key}"
        for key in (
            "friction",
            "condim",
            "priority",
            "margin",
            "torsional_friction",
            "rolling_friction",
            "stiffness",
            "dissipation_time",
        )
    ]
    for name in names:
        a, b = getattr(ours, name), getattr(theirs, name)
        if name == "tendon_reference":  # of a spring
            a, b = a[ours.tendon_stiffness > 0], b[ours.tendon_stiffness > 0]
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(np.asarray(b, float), np.asarray(a, float), rtol=1e-6, atol=1e-7, err_msg=name)
        else:
            assert a == b, name


def test_mujocos_flags_and_groups_turn_off(read):
    scene = "bool mjc:flag:{} = 0".format
    model, _ = read(
        stage(
            *MUJOCO,
            scene=scene("gravity") + "\n " + scene("contact") + "\n " + scene("damper") + "\n " + scene("clampctrl"),
        )
    )
    assert not model.gravity.any() and not len(model.pair_geom) and not model.joint_damping.any()
    assert np.isinf(model.control_range).all() and not model.tendon_damping.any()
    model, _ = read(
        stage(
            *MUJOCO,
            scene=scene("limit") + "\n " + scene("actuation") + "\n int[] mjc:option:actuatorgroupdisable = [3]",
        )
    )
    assert not model.joint_limited.any() and not model.actuator_gain.any()


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("rel mjc:target = </W/none>", "no joint of one freedom"),
        ('rel mjc:target = </W/j>\n token mjc:gainType = "user"', "gainType is 'user'"),
        (
            'rel mjc:target = </W/j>\n token mjc:gainType = "muscle"\n token mjc:dynType = "muscle"',
            "a muscle needs its force",
        ),
        ("rel mjc:target = </W/j>\n double mjc:inheritRange = 1", "needs a joint with limits"),
    ],
)
def test_actuators_that_cannot_be_read_are_left_out_and_told(read, lines, told):
    model, warned = read(stage(*TWO, joint(), f'def MjcActuator "m" {{\n {lines}\n}}\n'))
    assert model.nu == 0 and told in warned and "MjcActuator /W/m" in warned


def test_ranges_of_efforts_of_joints(read):
    """Of the one actuator that acts on a joint they are its range of force, after its gear."""
    limits = "double mjc:actuatorfrcrange:min = -10\n double mjc:actuatorfrcrange:max = 20"
    motor = 'def MjcActuator "m" {\n rel mjc:target = </W/j>\n double[] mjc:gear = [5, 0, 0, 0, 0, 0]\n}\n'
    model, _ = read(stage(*TWO, joint(more=limits), motor))
    np.testing.assert_allclose(model.force_range, [[-2, 4]])


def test_newtons_position_controller(read):
    """NewtonPDControlAPI: effort = const + kp (target - q) - kd v within maxEffort; what else it has is left out with a warning."""
    actuator = """def NewtonActuator "m" (prepend apiSchemas = ["NewtonPDControlAPI"{}]) {{
 rel newton:targets = </W/j>
 float newton:kp = 7
 float newton:kd = 2
 float newton:constEffort = 1
 float newton:maxEffort = 5
}}
"""
    model, told = read(stage(*TWO, joint(), actuator.format(', "NewtonMaxEffortClampingAPI"')))
    assert model.actuator_gain.tolist() == [[7, 0, 0]] and model.actuator_bias.tolist() == [[1, -7, -2]] and not told
    assert model.force_range.tolist() == [[-5, 5]]
    model, told = read(stage(*TWO, joint(), actuator.format(', "NewtonActuatorDelayAPI"')))
    assert model.nu == 0 and "NewtonActuatorDelayAPI is not simulated" in told


# Everything else ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "text", "api", "told"),
    [
        ("joint", "float physics:breakForce = 10", "", "joints do not break"),
        ("joint", "float physics:breakTorque = inf", "", ""),
        ("joint", "float physics:breakForce = 3.4e38", "", ""),
        ("joint", "float physxJoint:maxJointVelocity = 100", '"PhysxJointAPI"', "velocities are not limited"),
        ("joint", "float newton:velocityLimit = inf", '"NewtonJointAPI"', ""),
        ("joint", "float physxJoint:jointFriction = 0.3", '"PhysxJointAPI"', "share of the joint's load"),
        ("joint", "float physxLimit:angular:stiffness = 9", '"PhysxLimitAPI:angular"', "limits are near-rigid"),
        ("joint", "float physxLimit:angular:stiffness = 0", '"PhysxLimitAPI:angular"', ""),
        ("joint", "float drive:angular:physics:stiffness = 9", "", "it counts with PhysicsDriveAPI:angular"),
        ("joint", "float drive:linear:physics:stiffness = 9", '"PhysicsDriveAPI:linear"', "on a joint with that axis"),
        ("joint", "float limit:rotX:physics:low = 9", '"PhysicsLimitAPI:rotX"', "on a joint with that axis"),
        ("joint", "float newton:surprise = 1", "", "unknown here"),
        ("joint", "custom float mine:note = 1", "", ""),
        ("joint", "", '"NewtonSurpriseAPI"', "an unknown schema"),
        ("joint", "double[] mjc:solreflimit = [0.03, 1]", '"MjcJointAPI"', ""),
        ("joint", "float physics:mass = 3", "", "read of bodies and colliders with PhysicsMassAPI alone"),
        ("body", "bool physics:startsAsleep = 1", "", "bodies do not sleep"),
        ("body", "bool physics:startsAsleep = 0", "", ""),
        ("body", "int physxRigidBody:lockedPosAxis = 3", ', "PhysxRigidBodyAPI"', "locked axes"),
        ("body", "bool physxRigidBody:enableGyroscopicForces = 0", ', "PhysxRigidBodyAPI"', "they always act"),
        ("body", "float physxRigidBody:sleepThreshold = 1", ', "PhysxRigidBodyAPI"', ""),
        ("body", "", ', "PhysxForceAPI"', "an unknown schema"),
        ("body", "float newton:armature = 1", "", "not read of such a prim"),
        ("shape", "bool mjc:shellinertia = 1", ', "MjcCollisionAPI"', "masses are those of solids"),
        ("shape", "float physxCollision:contactOffset = 0.1", ', "PhysxCollisionAPI"', ""),
        ("shape", "float physxCollision:restOffset = -0.1", ', "PhysxCollisionAPI"', "where their surfaces meet"),
        ("shape", "", ', "PhysxTriggerAPI"', "an unknown schema"),
        ("joint", "double[] mjc:solref = [0.1, 1]", '"MjcEqualityWeldAPI"', "constraints are near-rigid"),
        ("joint", "double[] mjc:solref = [0.02, 1]", '"MjcEqualityWeldAPI"', ""),
        ("scene", "bool physxScene:enableCCD = 1", '"PhysxSceneAPI"', ""),
        ("scene", "bool mjc:flag:override = 1", '"MjcSceneAPI"', "give the values on the colliders"),
        ("scene", "double mjc:compiler:setTotalMass = 9", '"MjcSceneAPI"', "masses are as they are given"),
    ],
)
def test_every_other_authored_property_has_a_line(read, of, text, api, told):
    """What changes the motion is named in a warning too; neutral values and settings of solvers have a line alone."""
    parts = [body("A", 1), body("B", 2), joint()]
    if of == "joint":
        parts[2] = joint(more=text, api=api)
    elif of == "body":
        parts[1] = body("B", 2, text, api)
    elif of == "shape":
        parts[1] = body("B", 2, shape=box(text, api))
    model, warned = read(stage(*parts, **({"scene": text, "api": api} if of == "scene" else {})))
    name = text.split("=")[0].split()[-1] if text else api.strip(', "')
    found = line(model, name)
    assert found.status == "ignored" and (told in found.detail)
    assert (name in warned) == bool(told) and told in warned


def test_masses_and_bodies_of_what_is_none_are_told(read):
    mass = 'def Xform "x" (prepend apiSchemas = ["PhysicsMassAPI"]) {\n float physics:mass = 3\n}\n'
    scope = 'def Scope "n" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {\n}\n'
    model, told = read(stage(body("A", 1, shape=box() + mass), scope))
    assert model.body_mass[0] == 1 and "physics:mass of /W/A/x" in told and "/W/n: a Scope has no place" in told


def test_joints_of_unknown_types_are_refused_and_other_prims_told(read):
    gear = 'def PhysxPhysicsGearJoint "gear" {\n rel physics:body0 = </W/A>\n}\n'
    with pytest.raises(ModelError, match="joint /W/gear: a PhysxPhysicsGearJoint is not simulated; remove it"):
        read(stage(*TWO, joint(), gear))
    _, told = read(stage(*TWO, joint(), 'def PhysxParticleSystem "p" {\n}\n'))
    assert "PhysxParticleSystem of /W/p: an unknown kind of prim" in told


def test_samples_in_time_of_what_stands_are_told(read):
    """A moving body's are a recording, a line alone; those of a kinematic one would move it."""
    moving = body("A", 1, "double3 xformOp:translate.timeSamples = { 0: (0, 0, 1), 9: (0, 0, 2) }")
    model, told = read(stage(moving))
    assert line(model, "xformOp:translate").status == "ignored" and not told
    _, told = read(
        stage(moving.replace("float physics:mass", "bool physics:kinematicEnabled = 1\n float physics:mass"))
    )
    assert "samples in time" in told


def test_our_own_export_tells_nothing(tmp_path, read):
    """A stage that we wrote has no property that its reader does not know."""
    _, model = small()
    model.to_usd(tmp_path / "own.usda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "own.usda")
    assert not [x for x in again.report if "not read" in x.detail or "unknown" in x.detail]


def test_a_collider_with_solref_does_not_take_its_materials_stiffness(read):
    """MuJoCo's converter makes newton:contactStiffness of every solref, the default too, which says nothing about the material."""
    mat = 'def Material "mat" (prepend apiSchemas = ["NewtonMaterialAPI"]) {\n float newton:contactStiffness = 2500\n float newton:contactDamping = 100\n}\n'
    bind = "rel material:binding:physics = </W/mat>\n "
    for solref, stiffness, time in (("", 2500, 0.04), ("double[] mjc:solref = [0.02, 1]", np.inf, np.nan)):
        model, told = read(stage(mat, body("A", 1, shape=box(bind + solref, ', "NewtonCollisionAPI"'))))
        np.testing.assert_allclose([model.geom_stiffness[0], model.geom_dissipation_time[0]], [stiffness, time])
        assert not told


def test_sites_instancers_and_colliders_without_volume(read):
    """A site may be an Xform; what has no solid shape and would touch is told."""
    site = 'def Xform "s" (prepend apiSchemas = ["NewtonSiteAPI"]) {\n double3 xformOp:translate = (0, 0, 3)\n uniform token[] xformOpOrder = ["xformOp:translate"]\n}\n'
    points = 'def Points "p" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\n point3f[] points = [(0, 0, 0)]\n}\n'
    model, told = read(stage(body("A", 1, shape=box() + site + points), 'def PointInstancer "i" {\n}\n'))
    assert model.site_names == ("s",) and model.site_pose[0, 2] == 3 and model.ngeom == 1
    assert "Points /W/A/p: it is no solid shape" in told and "point instancer /W/i" in told


def test_prototypes_outside_the_default_prim_are_no_bodies(tmp_path):
    """A collider that instances of the default prim refer to counts where they stand, not where it is kept; one that nobody refers to counts."""
    cube = 'def Cube "{}" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{\n}}'
    text = f"""#usda 1.0
(
 defaultPrim = "W"
 metersPerUnit = 1
 upAxis = "Z"
)
def Xform "W" {{
 def Xform "A" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{
  def Xform "shape" (
   instanceable = true
   prepend references = </Kept/one>
  ) {{}}
 }}
}}
def Scope "Kept" {{
 def Xform "one" {{
  {cube.format("box")}
 }}
 def Xform "other" {{
  {cube.format("own")}
 }}
}}
"""
    (tmp_path / "m.usda").write_text(text)
    with pytest.warns(UserWarning, match="prim /Kept/one: references copy it"):
        model = load(tmp_path / "m.usda")
    assert sorted(model.geom_names) == ["box", "own"] and sorted(model.geom_body.tolist()) == [-1, 0]


def test_laws_of_constraints_between_bodies_are_kept(tmp_path):
    """`to_usd` keeps MuJoCo's solref, solimp and torquescale of connects and welds."""
    mujoco = pytest.importorskip("mujoco")
    law = 'solref="-100 -3" solimp="0.5 0.6 0.1 0.4 3"'
    model = load(
        mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody><body name="a"><freejoint/><geom size=".1"/></body>
        <body name="b" pos="1 0 0"><freejoint/><geom size=".1"/></body></worldbody><equality>
        <connect body1="a" body2="b" anchor="0.5 0 0" {law}/><weld body1="b" torquescale="0.3" {law}/></equality></mujoco>""")
    )
    model.to_usd(tmp_path / "law.usda")
    found = load(tmp_path / "law.usda")
    for name in ("solref", "solimp", "torquescale"):
        np.testing.assert_allclose(getattr(found, f"constraint_{name}"), getattr(model, f"constraint_{name}"))
