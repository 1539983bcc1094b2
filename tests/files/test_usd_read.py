# SPDX-License-Identifier: Apache-2.0
"""USD Physics stages read: our own export comes back as it was, foreign stages mean what the schema says."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

import warpsim as ws
from scenes.trajectories import asset, small
from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.usd import usd_extra
from warpsim.model import GeomType, JointType, ModelBuilder

pytest.importorskip("pxr")
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

ROBOTS = ("ant", "half_cheetah", "hopper", "humanoid", "walker2d", "pusher", "inverted_double_pendulum")


def same(ours, theirs, tolerance=1e-14):
    """Every field of two models, but the report, the meshes' single-precision points."""
    for field in dataclasses.fields(ours):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "geom_size":  # of a mesh: from its points, which USD keeps in single precision
            mesh = ours.geom_type == GeomType.MESH
            np.testing.assert_allclose(a[mesh], b[mesh], rtol=1e-6)
            a, b = a[~mesh], b[~mesh]
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape, field.name
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-15, err_msg=field.name)
        elif field.name == "keyframes":
            assert list(a) == list(b)
            for key in a:
                for x, y in zip(a[key], b[key], strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-15)
        elif field.name == "meshes":
            for x, y in zip(a, b, strict=True):
                np.testing.assert_allclose(x.vertices, y.vertices, rtol=1e-6, atol=1e-7)
                assert np.array_equal(x.faces, y.faces) and x.max_hull_vertices == y.max_hull_vertices
        elif field.name == "hfields":
            for x, y in zip(a, b, strict=True):
                assert np.array_equal(x.size, y.size) and np.array_equal(x.data, y.data)
        elif field.name != "report":
            assert a == b, field.name


def scene():
    """A scene in code with what the schema cannot say: chains, actuators, armature, pairs, keyframes, a mesh."""
    b = ModelBuilder("scene", gravity=(0.1, 0, -9.7), timestep=0.003)
    b.add_geom("plane", name="floor", friction=0.7)
    b.add_geom("box", [0.1, 2, 1], name="a wall", pose=[3, 0, 1], restitution=0.3, stiffness=1e5, dissipation_time=0.02)
    cart = b.add_body("cart", pose=[0, 0, 0.5, 0.8, 0, 0, 0.6], mass=2.0, com=[0.01, 0, 0], inertia=[0.1, 0.2, 0.25])
    b.add_joint(cart, "slide", name="x", axis=[1, 0, 0], range=(-1, 1), damping=0.3)
    b.add_joint(cart, "slide", name="y", axis=[0, 1, 0])
    b.add_joint(cart, "hinge", name="turn", axis=[0, 0, 1], armature=0.01, friction=0.02, anchor=[0.1, 0, 0])
    b.add_geom("box", [0.3, 0.2, 0.1], body=cart, name="hull", contype=3, conaffinity=5, priority=1)
    arm = b.add_body("arm", parent=cart, pose=[0.3, 0, 0.1])
    b.add_joint(arm, "hinge", name="elbow", axis=[0, 1, 1], range=(-0.5, 1.2), q0=[0.2], stiffness=3, reference=0.1)
    b.add_geom("capsule", [0.05, 0.2], body=arm, name="bone", pose=[0.2, 0, 0, 0.6, 0, 0.8, 0], density=700, condim=1)
    hand = b.add_body("hand", parent=arm, pose=[0.4, 0, 0])
    b.add_joint(hand, "ball", name="wrist", range=(0, 1.1), damping=[0.1, 0.2, 0.3])
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.13, 0], [0, 0, 0.17]])
    b.add_geom(
        "mesh",
        mesh=(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
        body=hand,
        name="claw",
        max_hull_vertices=100,
    )
    hills = np.random.default_rng(3).uniform(size=(4, 6))
    b.add_geom(
        "hfield", hfield=([1.5, 0.7, 0.3, 0.1], hills), name="hills", pose=[9, 0, 0, 0.8, 0, 0, 0.6], friction=0.4
    )
    b.add_geom("ellipsoid", [0.03, 0.04, 0.05], body=hand, name="palm", contype=0, conaffinity=0, visible=False)
    b.add_body("plate", parent=cart, pose=[0, 0, 0.2])  # fixed, massless
    ball = b.add_body("ball", pose=[1, 1, 1, 0.5, 0.5, 0.5, 0.5])
    b.add_joint(ball, "free", name="float", armature=0.001)
    b.add_geom("sphere", [0.1], body=ball, name="shell", density=500)
    b.add_actuator("turn", "position", name="servo", kp=7, kv=0.4, control_range=(-2, 2), force_range=(-9, 9))
    b.add_actuator("float", "effort", name="thrust", gear=[0, 0, 1, 0, 0, 0])
    b.add_keyframe("home", v=np.arange(13), control=[0.5, -1])
    b.exclude("cart", "hand")
    b.exclude("world", "arm")
    b.add_pair("shell", "palm", 0.33)
    return b.build()


@pytest.mark.parametrize("name", ["scene", "small", *ROBOTS])
@pytest.mark.parametrize("suffix", ["usda", "usdc"])
def test_our_export_reads_back_as_the_same_model(tmp_path, name, suffix):
    """Every array of the model, bit for bit but for the last digit of a unit quaternion."""
    model = scene() if name == "scene" else small()[1] if name == "small" else asset(name)[1]
    model.to_usd(tmp_path / f"m.{suffix}")
    same(model, load(tmp_path / f"m.{suffix}"))


def test_a_height_field_that_was_edited_reads_as_it_is(tmp_path):
    """Heights that another program changed count; a field whose points are no grid any more is a mesh."""
    from pxr import Usd, UsdGeom

    b = ModelBuilder("hills")
    b.add_geom("hfield", hfield=([1.5, 0.7, 0.3, 0.1], np.arange(12.0).reshape(3, 4) / 11), name="hills")
    b.build().to_usd(tmp_path / "m.usda")
    for number, shift in enumerate(([0, 0, 0.03], [0.2, 0, 0])):
        stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
        mesh = next(UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh))
        points = np.array(mesh.GetPointsAttr().Get())
        points[5] += shift
        mesh.GetPointsAttr().Set(points)
        stage.Export(str(tmp_path / f"{number}.usda"))
        found = load(tmp_path / f"{number}.usda")
        if number == 0:
            data = found.hfields[0].data
            assert np.isclose(data[1, 1], 5 / 11 + 0.1, atol=1e-6) and np.isclose(data[0, 3], 3 / 11, atol=1e-6)
        else:
            assert not found.hfields and len(found.meshes) >= 1


@pytest.mark.parametrize("name", ["scene", "ant", "humanoid"])
def test_dynamics_of_the_round_trip(tmp_path, name, rng):
    """Mass matrix and forward dynamics agree to 1e-12, also through usdz; with the schema alone to 1e-6 (one precision)."""
    model = scene() if name == "scene" else asset(name)[1]
    model.to_usd(tmp_path / "m.usdz")
    model.to_usd(tmp_path / "m.usda")
    if name == "ant":  # one joint per body: the schema says all but armature
        strip(tmp_path / "m.usda", tmp_path / "bare.usda")
    q, v = model.q0[None].copy(), rng.normal(size=(1, model.nv))
    reference = answers(model, q, v)
    for got, expected in zip(answers(load(tmp_path / "m.usdz"), q, v), reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    if name == "ant":
        bare = load(tmp_path / "bare.usda")
        armature = np.diag(model.joint_armature)
        np.testing.assert_allclose(
            answers(bare, q, v)[0], reference[0] - armature, atol=1e-6 * np.abs(reference[0]).max()
        )
        assert bare.body_names == model.body_names and bare.joint_names[1:] == model.joint_names[1:]


def answers(model, q, v):
    sim = ws.Simulator(model, dtype="float64", device="cpu", solver=ws.NoContact())
    return sim.mass_matrix(q).numpy(), sim.inverse_dynamics(q, v, 0 * v).numpy()


def strip(source, destination):
    """A stage without what only we keep."""
    stage = Usd.Stage.Open(str(source))
    for prim in stage.Traverse():
        prim.ClearCustomDataByKey(usd_extra.KEY)
    stage.GetRootLayer().Export(str(destination))


def test_edits_of_the_schema_win_over_what_we_kept(tmp_path):
    """A limit, a mass and a radius changed by another program are read; what is unchanged stays exact."""
    model = scene()
    model.to_usd(tmp_path / "m.usda")
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    for prim in stage.Traverse():
        name = prim.GetCustomDataByKey("warpsim:name")
        if name == "elbow":
            UsdPhysics.RevoluteJoint(prim).GetUpperLimitAttr().Set(30.0)
        if name == "ball":
            UsdPhysics.MassAPI(prim).GetMassAttr().Set(9.0)
        if name == "shell":
            UsdGeom.Sphere(prim).GetRadiusAttr().Set(0.25)
    stage.GetRootLayer().Save()
    read = load(tmp_path / "m.usda")
    j = read.joint("elbow")
    np.testing.assert_allclose(read.joint_range[j], [-0.5, 0.2 + np.pi / 6], rtol=1e-6)
    np.testing.assert_allclose((read.body_mass[read.body("ball")], read.geom_size[read.geom("shell"), 0]), (9, 0.25))
    assert read.joint_damping.tolist() == model.joint_damping.tolist()


# Foreign stages ------------------------------------------------------------------------------------------------------


class Stage:
    """A hand-written stage, in units and an up axis of one's choice."""

    def __init__(self, path, length=1.0, mass=1.0, up="Z"):
        self.stage = Usd.Stage.CreateNew(str(path))
        UsdGeom.SetStageMetersPerUnit(self.stage, length)
        UsdPhysics.SetStageKilogramsPerUnit(self.stage, mass)
        UsdGeom.SetStageUpAxis(self.stage, up)

    def body(self, name, position=(0, 0, 0), scale=None):
        xform = UsdGeom.Xform.Define(self.stage, f"/{name}")
        xform.AddTranslateOp().Set(Gf.Vec3d(*position))
        if scale:
            xform.AddScaleOp().Set(Gf.Vec3f(*scale))
        UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
        return xform.GetPrim()

    def shape(self, path, kind="Cube", **attributes):
        prim = getattr(UsdGeom, kind).Define(self.stage, path).GetPrim()
        for key, value in attributes.items():
            prim.GetAttribute(key).Set(value)
        UsdPhysics.CollisionAPI.Apply(prim)
        return prim

    def joint(self, kind, name, body0, body1, pos0=(0, 0, 0), pos1=(0, 0, 0), **attributes):
        joint = getattr(UsdPhysics, kind).Define(self.stage, f"/{name}")
        if body0:
            joint.CreateBody0Rel().SetTargets([Sdf.Path(f"/{body0}")])
        if body1:
            joint.CreateBody1Rel().SetTargets([Sdf.Path(f"/{body1}")])
        joint.CreateLocalPos0Attr(Gf.Vec3f(*pos0))
        joint.CreateLocalPos1Attr(Gf.Vec3f(*pos1))
        for key, value in attributes.items():
            joint.GetPrim().GetAttribute(f"physics:{key}").Set(value)
        return joint.GetPrim()

    def load(self, **options):
        self.stage.GetRootLayer().Save()
        return load(self.stage.GetRootLayer().realPath, **options)


def test_units_and_axes_become_si_and_z_up(tmp_path):
    """The same box on a hinge with a drive, in metres and z up, and in centimetres, grams and y up."""
    models = []
    for length, mass, up in ((1.0, 1.0, "Z"), (0.01, 0.001, "Y")):
        s, L, M = Stage(tmp_path / f"{up}.usda", length, mass, up), 1 / length, 1 / mass
        at = (0, 0, 2 * L) if up == "Z" else (0, 2 * L, 0)
        UsdPhysics.Scene.Define(s.stage, "/scene")
        prim = s.body("box", at)
        s.shape("/box/cube", size=1.0 * L)
        UsdPhysics.MassAPI.Apply(prim).CreateDensityAttr(500 * M / L**3)
        joint = s.joint(
            "RevoluteJoint", "hinge", None, "box", at, (0, 0, 0), axis="X", lowerLimit=-90.0, upperLimit=45.0
        )
        drive = UsdPhysics.DriveAPI.Apply(joint, "angular")
        drive.CreateStiffnessAttr(3 * M * L**2)
        drive.CreateDampingAttr(0.5 * M * L**2)
        drive.CreateMaxForceAttr(20 * M * L**2)
        drive.CreateTargetPositionAttr(30.0)
        models.append(s.load())
    for m in models:
        np.testing.assert_allclose(m.gravity, [0, 0, -9.81], atol=1e-6)
        np.testing.assert_allclose(m.body_mass, 500, rtol=1e-5)
        np.testing.assert_allclose(m.body_inertia[0], np.eye(3) * 500 / 6, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(m.link_pose[0, :3], [0, 0, 2], atol=1e-6)
        np.testing.assert_allclose(m.geom_size[0], 0.5, rtol=1e-6)
        np.testing.assert_allclose(m.joint_range[0], [-np.pi / 2, np.pi / 4], rtol=1e-6)
        np.testing.assert_allclose(m.actuator_gain[0, 0], 3 * 180 / np.pi, rtol=1e-5)
        np.testing.assert_allclose(-m.actuator_bias[0, 1:], np.array([3, 0.5]) * 180 / np.pi, rtol=1e-5)
        np.testing.assert_allclose(m.force_range[0], [-20, 20], rtol=1e-5)
        np.testing.assert_allclose(m.keyframes["drive_targets"].control, np.pi / 6, rtol=1e-6)


def test_trees_are_spanned_and_joints_turned_round(tmp_path):
    """A chain whose second joint names its bodies the wrong way round: the same motion, found with its initial angle."""
    s = Stage(tmp_path / "chain.usda")
    for name, x in (("a", 0), ("b", 1)):
        s.body(name, (x, 0, 0))
        s.shape(f"/{name}/cube", size=0.2)
    s.joint("PrismaticJoint", "rail", None, "a", axis="Z", lowerLimit=-1.0, upperLimit=2.0)
    s.joint("RevoluteJoint", "turned", "b", "a", (-0.5, 0, 0), (0.5, 0, 0), axis="Y", lowerLimit=-10.0, upperLimit=80.0)
    m = s.load()
    assert m.body_names == ("a", "b") and m.body_parent.tolist() == [-1, 0]
    assert [JointType(t) for t in m.joint_type] == [JointType.SLIDE, JointType.HINGE]
    j = m.joint("turned")
    np.testing.assert_allclose(m.joint_axis[j], [0, -1, 0], atol=1e-7)  # a in b turned about +y: b in a about -y
    np.testing.assert_allclose(m.joint_anchor[j], [-0.5, 0, 0], atol=1e-7)
    np.testing.assert_allclose(m.joint_range[j], np.radians([-10, 80]), rtol=1e-6)
    assert ((m.geom_contype > 0) == [True, True]).all() and len(m.pair_geom) == 0  # parent filter


def test_a_hinge_starts_at_the_angle_of_the_stage(tmp_path):
    """The child stands turned by 0.4 rad about the hinge: q0 is 0.4, limits count from the frames."""
    s = Stage(tmp_path / "m.usda")
    prim = s.body("arm")
    half = Gf.Quatf(float(np.cos(0.2)), 0, float(np.sin(0.2)), 0)
    UsdGeom.Xformable(prim).AddOrientOp().Set(half)
    s.shape("/arm/cube", size=0.2)
    s.joint("RevoluteJoint", "hinge", None, "arm", axis="Y", lowerLimit=0.0, upperLimit=90.0)
    m = s.load()
    np.testing.assert_allclose(m.q0, [0.4], atol=1e-6)
    np.testing.assert_allclose(m.joint_range[0], [0, np.pi / 2], rtol=1e-6)
    np.testing.assert_allclose(m.link_pose[0, 3:], [np.cos(0.2), 0, np.sin(0.2), 0], atol=1e-6)


def test_shapes_materials_and_scales(tmp_path):
    """Every shape with its axis, a scaled sphere as an ellipsoid, a mesh as a hidden hull behind the mesh that is drawn."""
    s = Stage(tmp_path / "m.usda")
    s.shape("/floor", "Plane", axis="Y", width=4.0, length=6.0)
    s.body("thing", (0, 0, 1), (2, 2, 2))
    ball = s.shape("/thing/ball", "Sphere", radius=0.5)
    UsdGeom.Xformable(ball).AddScaleOp().Set(Gf.Vec3f(1, 2, 3))
    s.shape("/thing/rod", "Capsule", radius=0.1, height=1.0, axis="X")
    s.shape("/thing/cone", "Cone", radius=0.1, height=1.0)
    mesh = s.shape("/thing/mesh", "Mesh")
    points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 0.2), (0.5, 0.5, 1)]
    UsdGeom.Mesh(mesh).CreatePointsAttr([Gf.Vec3f(*p) for p in points])
    UsdGeom.Mesh(mesh).CreateFaceVertexCountsAttr([4, 3, 3, 3, 3])
    UsdGeom.Mesh(mesh).CreateFaceVertexIndicesAttr([3, 2, 1, 0, 0, 1, 5, 1, 2, 5, 2, 3, 5, 3, 0, 5])
    material = UsdShade.Material.Define(s.stage, "/rubber")
    physics = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    physics.CreateDynamicFrictionAttr(0.8)
    physics.CreateStaticFrictionAttr(0.9)
    physics.CreateRestitutionAttr(0.2)
    UsdShade.MaterialBindingAPI.Apply(mesh).Bind(material, UsdShade.Tokens.weakerThanDescendants, "physics")
    m = s.load()
    names = {n: GeomType(t).name for n, t in zip(m.geom_names, m.geom_type, strict=True)}
    assert names == {"floor": "PLANE", "ball": "ELLIPSOID", "rod": "CAPSULE", "cone": "MESH", "cone_hull": "MESH",
                     "mesh": "MESH", "mesh_hull": "MESH"}  # fmt: skip
    np.testing.assert_allclose(m.geom_size[m.geom("ball")], [1, 2, 3])
    np.testing.assert_allclose(m.geom_size[m.geom("rod"), :2], [0.2, 1])
    from warpsim.model.geometry import rotate

    np.testing.assert_allclose(rotate(m.geom_pose[m.geom("floor"), 3:], [0, 0, 1]), [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(rotate(m.geom_pose[m.geom("rod"), 3:], [0, 0, 1]), [1, 0, 0], atol=1e-12)
    hull, drawn = m.geom("mesh_hull"), m.geom("mesh")
    assert not m.geom_visible[hull] and m.geom_contype[hull] and m.geom_visible[drawn] and not m.geom_contype[drawn]
    np.testing.assert_allclose((m.geom_friction[hull], m.geom_restitution[hull]), (0.8, 0.2))
    assert len(m.meshes[m.geom_mesh[drawn]].faces) == 6 and m.meshes[m.geom_mesh[drawn]].vertices.max() == 2
    status = {line.feature: line.status for line in m.report}
    assert status["static friction"] == "ignored" and status["mesh approximations"] == "mapped"


def test_six_axis_joints_free_bodies_and_filters(tmp_path):
    """Locked and free axes of a generic joint; a body without joints is free; kinematic ones are fixed."""
    s = Stage(tmp_path / "m.usda")
    for k, name in enumerate(("cart", "free", "still")):
        s.shape(f"{s.body(name, (3 * k, 0, 0)).GetPath()}/cube", size=0.2)
    joint = s.joint("Joint", "six", None, "cart")
    for token in ("transZ", "rotX", "rotY"):
        limit = UsdPhysics.LimitAPI.Apply(joint, token)
        limit.CreateLowAttr(1.0)
        limit.CreateHighAttr(-1.0)
    UsdPhysics.LimitAPI.Apply(joint, "transX").CreateLowAttr(-2.0)
    UsdPhysics.RigidBodyAPI(s.stage.GetPrimAtPath("/still")).CreateKinematicEnabledAttr(True)
    UsdPhysics.FilteredPairsAPI.Apply(s.stage.GetPrimAtPath("/cart")).CreateFilteredPairsRel().AddTarget("/free")
    m = s.load()
    kinds = [JointType(t).name for t in m.joint_type]
    assert kinds == ["SLIDE", "SLIDE", "HINGE", "FREE"] and m.nv == 9
    np.testing.assert_allclose(m.joint_axis[:3], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-7)
    assert m.joint_limited.tolist() == [True, False, False, False] and m.joint_range[0, 0] == -2
    assert m.excluded.tolist() == [[0, 1]] and m.body_link[2] not in m.joint_link
    np.testing.assert_allclose(m.q0[3:6], [3, 0, 0])


@pytest.mark.parametrize("collides", [False, True])
def test_neighbours_of_a_base_fixed_to_the_world_touch_only_with_collision_enabled(tmp_path, collides):
    """PhysX filters the bodies of a joint; a second body that is fixed to the world is no neighbour of the link."""
    s = Stage(tmp_path / "arm.usda", 1.0)
    for k, name in enumerate(("base", "plate", "link", "table")):
        s.body(name, (0, 0, k))
        s.shape(f"/{name}/cube", size=1.8)
    s.joint("FixedJoint", "mount", None, "base")
    s.joint("FixedJoint", "legs", None, "table", (0, 0, 3))
    s.joint("FixedJoint", "bolt", "base", "plate", (0, 0, 1))
    s.joint("RevoluteJoint", "hinge", "plate", "link", (0, 0, 1), axis="X", collisionEnabled=collides)
    model = s.load()
    pairs = {frozenset(model.body_names[model.geom_body[g]] for g in pair) for pair in model.pair_geom}
    neighbours = {frozenset((name, "link")) for name in ("base", "plate")}
    assert pairs == {frozenset(("link", "table"))} | (neighbours if collides else set())


def test_what_is_not_simulated_is_refused_or_reported(tmp_path):
    """Cone limits, a limited joint and one of several freedoms that close loops: errors that name the prim, or a warning."""
    s = Stage(tmp_path / "m.usda")
    for name in ("a", "b"):
        s.body(name)
        s.shape(f"/{name}/cube", size=0.2)
    s.joint("SphericalJoint", "cone", None, "a", coneAngle0Limit=30.0, coneAngle1Limit=30.0)
    s.joint("RevoluteJoint", "one", None, "b", axis="X")
    s.joint("RevoluteJoint", "loop", "a", "b", axis="X", lowerLimit=-10.0, upperLimit=10.0)
    generic = s.joint("Joint", "several", None, "b")
    UsdPhysics.LimitAPI.Apply(generic, "transX").CreateLowAttr(1.0)
    UsdPhysics.LimitAPI(generic, "transX").CreateHighAttr(-1.0)
    with pytest.raises(ModelError, match=r"m.usda.*cone limits.*loop.*limits of such a joint.*several.*freedoms"):
        s.load()
    with pytest.warns(UserWarning, match="closes a loop") as caught:
        m = s.load(unsupported="report")
    assert len(caught) == 1 and m.nv == 4 and m.constraint_names == ("loop",)
    assert sum(line.status == "refused" for line in m.report) == 3


@pytest.mark.always
def test_references_may_not_leave_the_folder(tmp_path):
    """A layer beside the file is read, one outside is not, unless its folder is declared; links count as where they go."""
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    part = Stage(tmp_path / "out" / "part.usda")
    part.shape(f"{part.body('part').GetPath()}/cube", size=1.0)
    part.stage.SetDefaultPrim(part.stage.GetPrimAtPath("/part"))
    part.stage.GetRootLayer().Save()
    (tmp_path / "in" / "link.usda").symlink_to(tmp_path / "out" / "part.usda")
    for k, target in enumerate(("../out/part.usda", str(tmp_path / "out" / "part.usda"), "./link.usda")):
        path = tmp_path / "in" / f"scene{k}.usda"
        path.write_text(f'#usda 1.0\ndef Xform "copy" (prepend references = @{target}@) {{}}\n')
        with pytest.raises(ModelError, match="outside"):
            load(path)
        assert load(path, packages={"parts": tmp_path / "out"}).nbody == 1
    path.write_text("#usda 1.0\n(subLayers = [@../out/part.usda@])\n")
    with pytest.raises(ModelError, match="outside"):
        load(path)
    path.write_text('#usda 1.0\ndef "x" (clips = {dictionary default = {asset[] assetPaths = [@/etc/passwd@]}}) {}\n')
    with pytest.raises(ModelError, match="clips"):
        load(path)


def test_instances_and_internal_references(tmp_path):
    """Two instanced copies of one prim are two bodies, each with its geom, in its own place."""
    s = Stage(tmp_path / "m.usda")
    s.stage.CreateClassPrim("/part")
    s.shape("/part/cube", size=0.2)
    for k in (0, 1):
        prim = s.body(f"copy{k}", (k, 0, 0))
        prim.GetReferences().AddInternalReference("/part")
        prim.SetInstanceable(True)
    m = s.load()
    assert m.body_names == ("copy0", "copy1") and m.geom_body.tolist() == [0, 1] and m.nv == 12
    np.testing.assert_allclose(m.body_mass, 8.0, rtol=1e-6)
    assert m.geom_names == ("cube", "/copy1/cube")


def test_a_recorded_world_reads_back(tmp_path):
    """A trajectory of one world is a stage too: the model with its free bodies where the recording starts."""
    from scenes.trajectories import rollout

    t = rollout(*small(), worlds=1, steps=4)
    t.to_usd(tmp_path / "t.usda", worlds=1)
    m = load(tmp_path / "t.usda")
    np.testing.assert_allclose(m.q0, t.model.q0, atol=1e-9)
    assert m.joint_names == t.model.joint_names and m.geom_names == t.model.geom_names


def test_damaged_custom_data_is_an_error_or_ignored(tmp_path):
    """What we keep beside the schema may be anything; the answer is a model or a `ModelError`."""
    scene().to_usd(tmp_path / "m.usda")
    for text in ("{", "[]", "{}", '{"joints": 3}', json.dumps({"joints": [{"type": "hinge"}]}), '{"pose": "x"}'):
        stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
        for prim in stage.Traverse():
            if prim.GetCustomDataByKey(usd_extra.KEY):
                prim.SetCustomDataByKey(usd_extra.KEY, text)
        stage.GetRootLayer().Export(str(tmp_path / "bad.usda"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                assert load(tmp_path / "bad.usda", unsupported="report").nbody == 5
        except ModelError as error:
            assert "bad.usda" in str(error)


def test_gravity_compensation_and_effort_limits_come_back(tmp_path):
    """Bodies' gravcomp, and the ranges of what several actuators do to a joint or a tendon, which change the motion."""
    b = ws.ModelBuilder()
    for name, share in (("a", 0.7), ("b", 0.0), ("c", 2.0)):
        b.add_joint(b.add_body(name, mass=1.0, inertia=[1, 1, 1], gravcomp=share), "hinge", name=name, axis=[0, 1, 0])
    b.add_tendon({"b": 1.0, "c": -0.5}, name="t")
    for _ in range(2):
        b.add_actuator("a"), b.add_actuator(tendon="t")
    b.add_effort_limit("a", range=(-1, 2), gravity_compensation=True)
    b.add_effort_limit(tendon="t", range=(-np.inf, 0.5))
    model = b.build()
    model.to_usd(tmp_path / "a.usda")
    read = ws.load(tmp_path / "a.usda")
    for name in ("body_gravcomp", "joint_effort_range", "joint_effort_gravity", "tendon_effort_range"):
        np.testing.assert_array_equal(getattr(read, name), getattr(model, name), err_msg=name)


def out_of_order():
    """Two trees whose bodies are added in turns, so that the joints of the model have another order than the bodies, with what refers to joints."""
    b = ModelBuilder("turns", wind=(1, 2, 3))  # of no medium
    trunk = [
        b.add_body(f"trunk {k}", mass=1.0, inertia=[0.1, 0.2, 0.25], pose=[k, 0, 0, -0.6, 0.8, 0, 0]) for k in (0, 1)
    ]
    for k, body in enumerate(trunk):
        b.add_joint(body, "hinge", name=f"a{k}", axis=(0, 1, 0))
        b.add_joint(body, "hinge", name=f"b{k}", axis=(0, 1, 1))  # neither orthogonal: USD has no joint for the two
    for k, body in enumerate(trunk):
        leaf = b.add_body(f"leaf {k}", parent=body, mass=1.0, inertia=[0.1, 0.1, 0.1], pose=[0, 0, 1])
        b.add_joint(leaf, "hinge" if k else "ball", name=f"c{k}")
    for name in ("a1", "c1"):
        b.add_actuator(name)
        b.add_actuator(name)
    b.add_effort_limit("a1", range=(-1, 2))
    b.add_effort_limit("c1", range=(-3, 4))
    b.add_sensor("jointpos", "a1", name="angle")
    return b.build()


def test_what_refers_to_joints_comes_back_in_any_order_of_bodies(tmp_path):
    """Effort limits and sensors of their joints; roots with joints that USD has no name for where they were, also when drawn at other positions; the wind of
    no medium."""
    model = out_of_order()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.to_usd(tmp_path / "rest.usda")
        model.to_usd(tmp_path / "moved.usda", q=model.displace(model.q0, np.full(model.nv, 0.3)))
    for name in ("rest.usda", "moved.usda"):
        read = load(tmp_path / name)
        same(model, read)
        assert np.array_equal(np.sign(read.link_pose[:, 3]), np.sign(model.link_pose[:, 3]))


def test_a_stage_of_several_worlds_is_no_model(tmp_path):
    """One clear error for a picture of many worlds, whose physics is not there; one world is a model."""
    model = ws.load(ws.robots.path("ant"))
    sim = ws.Simulator(model, 2, device="cpu")
    trajectory = sim.rollout(sim.state(), steps=2)
    trajectory.to_usd(tmp_path / "many.usda")
    with pytest.raises(ModelError, match=r"several worlds of a trajectory.*worlds=\[0\]"):
        ws.load(tmp_path / "many.usda")
    trajectory.to_usd(tmp_path / "one.usda", worlds=[0])
    assert ws.load(tmp_path / "one.usda").nbody == model.nbody


def test_a_file_that_changed_is_read_anew(tmp_path):
    """USD keeps the layers of stages that live: after a load, an error that is kept, and in a program that holds the stage itself."""
    part, path = tmp_path / "part.usda", tmp_path / "scene.usda"
    path.write_text("#usda 1.0\n(\n subLayers = [@./part.usda@]\n)\n")

    def mass(value):
        part.write_text(
            '#usda 1.0\ndef Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {\n'
            f"    float physics:mass = {value}\n}}\n"
        )
        return load(path).body_mass.tolist()

    assert [mass(1), mass(2)] == [[1.0], [2.0]]
    with pytest.raises(ModelError) as kept:
        mass(-1)
    assert mass(3) == [3.0] and kept is not None
    stage = Usd.Stage.Open(str(path))
    assert mass(4) == [4.0] and stage


def test_a_place_in_samples_alone_is_told(tmp_path):
    """A pose that only has samples in time is not read: the body starts without it, which one warning says."""
    path = tmp_path / "scene.usda"
    path.write_text(
        '#usda 1.0\ndef Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {\n'
        "    double3 xformOp:translate.timeSamples = {0: (0, 0, 4), 24: (1, 0, 4)}\n"
        '    uniform token[] xformOpOrder = ["xformOp:translate"]\n}\n'
    )
    with pytest.warns(UserWarning, match=r"xformOp:translate of /ball.*samples in time are not read"):
        load(path)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_gravity_is_finite(tmp_path, value):
    path = tmp_path / "scene.usda"
    path.write_text(f'#usda 1.0\ndef PhysicsScene "scene" {{\n    float physics:gravityMagnitude = {value}\n}}\n')
    with pytest.raises(ModelError, match=r"/scene: gravityMagnitude is .*finite"):
        load(path)
