# SPDX-License-Identifier: Apache-2.0
"""URDF files: links, joints, limits, inertia and its repair, shapes, and the actuators a URDF does not have."""

import warnings

import numpy as np
import pytest

import warpsim as ws
from warpsim.base.errors import ModelError
from warpsim.files.load import load
from warpsim.files.urdf.urdf_inertia import LEAST_MASS, physical_inertia
from warpsim.model import ConstraintType, JointType

INERTIA = '<inertia ixx="0.4" ixy="0.01" ixz="0.02" iyy="0.5" iyz="0.03" izz="0.6"/>'


def link(name: str, shape: str = "") -> str:
    inertial = f'<inertial><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><mass value="2"/>{INERTIA}</inertial>'
    touch = f"<collision><geometry>{shape}</geometry></collision>" if shape else ""
    return f'<link name="{name}">{inertial}{touch}<visual><geometry><sphere radius="1"/></geometry></visual></link>'


def joint(name: str, kind: str, parent: str, child: str, more: str = "", axis: str = "0 1 0") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0 0.5" rpy="0.3 0 0"/><axis xyz="{axis}"/>{more}</joint>'
    )


ROBOT = f"""<?xml version="1.0"?><robot name="rig">
  {link("base", '<box size="1 1 0.2"/>')}{link("upper", '<cylinder radius="0.1" length="0.6"/>')}
  {link("wheel", '<sphere radius="0.2"/>')}{link("slider", '<box size="0.2 0.2 0.2"/>')}{link("tool")}
  {
    joint(
        "shoulder",
        "revolute",
        "base",
        "upper",
        '<limit lower="-1" upper="2" effort="30" velocity="3"/><dynamics damping="0.5" friction="0.2"/>',
    )
}
  {joint("spin", "continuous", "upper", "wheel", '<limit effort="7" velocity="9"/>', "1 0 0")}
  {joint("extend", "prismatic", "upper", "slider", '<limit lower="0" upper="0.4" effort="50" velocity="1"/>', "0 0 1")}
  {joint("mount", "fixed", "slider", "tool")}
  <transmission name="t"/>
</robot>"""


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "rig.urdf"
    path.write_text(ROBOT)
    return path


def test_links_joints_and_limits(robot):
    model = load(robot)
    assert (model.nq, model.nv, model.nu) == (3, 3, 0)
    assert model.body_names == ("base", "upper", "wheel", "slider", "tool")  # links on fixed joints stay
    kinds = {n: JointType(t) for n, t in zip(model.joint_names, model.joint_type, strict=True)}
    assert kinds == {"shoulder": JointType.HINGE, "spin": JointType.HINGE, "extend": JointType.SLIDE}
    assert model.joint_limited.tolist() == [True, False, True]
    np.testing.assert_allclose(model.joint_range[[0, 2]], [[-1, 2], [0, 0.4]])
    np.testing.assert_allclose((model.joint_damping[0], model.joint_friction[0]), (0.5, 0.2))
    touching = np.flatnonzero(model.geom_contype)
    assert [model.body_names[model.geom_body[g]] for g in touching] == ["base", "upper", "wheel", "slider"]
    np.testing.assert_allclose(model.geom_size[model.geom("upper_collision"), :2], [0.1, 0.3])
    assert not model.geom_visible[touching].any() and model.geom_visible.sum() == 5  # the visual shapes are drawn
    assert load(robot, visuals=False).geom_visible.all()


def test_mass_and_inertia_are_pinocchios(robot):
    """Per moving joint, with the tool lumped into the slider: mass, COM and rotational inertia."""
    pin = pytest.importorskip("pinocchio")
    reference, model = pin.buildModelFromUrdf(str(robot)), load(robot)
    assert (reference.nv, sorted(reference.names)[1:]) == (model.nv, sorted(["shoulder", "spin", "universe"]))
    for name in ("shoulder", "spin"):
        body, theirs = model.joint_body[model.joint(name)], reference.inertias[reference.getJointId(name)]
        np.testing.assert_allclose(model.body_mass[body], theirs.mass)
        np.testing.assert_allclose(model.body_com[body], theirs.lever, atol=1e-12)
        np.testing.assert_allclose(model.body_inertia[body], theirs.inertia, atol=1e-12)
    slider = reference.inertias[reference.getJointId("extend")]
    np.testing.assert_allclose(model.body_mass[3] + model.body_mass[4], slider.mass)


def test_links_without_inertial_have_no_mass(robot):
    """Where MuJoCo would fill the collision shape with water; a moving one gets the least mass, with a warning."""
    bare = '<link name="base"><collision><geometry><box size="1 1 0.2"/></geometry></collision></link>'
    robot.write_text(ROBOT.replace(link("base", '<box size="1 1 0.2"/>'), bare))
    assert load(robot).body_mass[0] == 0
    robot.write_text(ROBOT.replace(link("wheel", '<sphere radius="0.2"/>'), bare.replace("base", "wheel")))
    with pytest.warns(UserWarning, match=r"1 repaired: mass of link 'wheel'") as caught:
        model = load(robot)
    assert len(caught) == 1 and model.body_mass[model.body("wheel")] == LEAST_MASS
    assert any(line.feature == "mass of link 'wheel'" and line.status == "mapped" for line in model.report)


TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)


@pytest.mark.parametrize("name", ["package://rig_description/meshes/tetra.obj", "../meshes/tetra.obj"])
def test_meshes_are_found_in_packages_and_beside_the_file(tmp_path, name):
    """In the folder of the nearest package.xml, or in `root`; without either only the file's own folder is read."""
    for folder in ("urdf", "meshes"):
        (tmp_path / "rig_description" / folder).mkdir(parents=True)
    path = tmp_path / "rig_description" / "urdf" / "rig.urdf"
    path.write_text(ROBOT.replace('<sphere radius="0.2"/>', f'<mesh filename="{name}"/>'))
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in TETRAHEDRON)
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "rig_description" / "meshes" / "tetra.obj").write_text(vertices + faces)
    with pytest.raises(ModelError, match="root="):
        load(path)
    (tmp_path / "rig_description" / "package.xml").write_text("<package><name>rig_description</name></package>")
    for model in (load(path), load(path, root=tmp_path), load(path, root=tmp_path / "rig_description")):
        assert len(model.meshes) == 1 and len(model.meshes[0].vertices) == 4  # the hull, behind the visual sphere


def test_effort_actuators_take_the_files_effort_limits(robot):
    model = load(robot, actuators="effort")
    assert model.actuator_names == model.joint_names
    np.testing.assert_allclose(model.control_range, [[-30, 30], [-7, 7], [-50, 50]])
    assert np.isinf(model.force_range).all()
    assert model.actuator_gain.tolist() == [[1, 0, 0]] * 3 and not model.actuator_bias.any()


def test_position_actuators_take_joint_and_effort_limits(robot):
    model = load(robot, actuators="position")
    np.testing.assert_allclose(model.control_range, [[-1, 2], [-np.inf, np.inf], [0, 0.4]])
    np.testing.assert_allclose(model.force_range, [[-30, 30], [-7, 7], [-50, 50]])
    assert (model.actuator_gain[:, 0] > 0).all() and (model.actuator_bias[:, 1:] < 0).all()
    assert any("kp = 100" in line.detail for line in model.report)


def test_inertials_damping_and_friction_are_reported(robot):
    """Each has a line with the number of links or joints that have it, 0 excepted."""
    used = {line.feature: line.detail for line in load(robot).report if line.status == "used"}
    assert (used["inertials"], used["damping of joints"], used["friction of joints"]) == ("5", "1", "1")
    robot.write_text(ROBOT.replace('friction="0.2"', 'friction="0"'))
    assert "friction of joints" not in {line.feature for line in load(robot).report}


def test_what_a_urdf_loses_is_reported(robot):
    report = {line.feature: line.status for line in load(robot).report}
    for feature in ("velocity limits of joints", "effort limits of joints", "transmissions"):
        assert report[feature] == "ignored"
    assert report["link 'base'"] == "mapped"
    robot.write_text(ROBOT.replace('upper="0.4"', 'upper="0"'))
    assert any(line.feature == "limits of joint 'extend'" for line in load(robot).report)


def test_mimic_joints_follow_their_joint(robot):
    """A joint constraint with the file's multiplier and offset; the joint gets no actuator of its own."""
    mimic = '<mimic joint="shoulder" multiplier="-0.5" offset="0.2"/>'
    robot.write_text(ROBOT.replace('<limit effort="7" velocity="9"/>', mimic))
    model = load(robot, actuators="effort")
    assert model.constraint_names == ("spin_mimic",) and model.constraint_type.tolist() == [ConstraintType.JOINT]
    assert [model.joint_names[j] for j in model.constraint_joint[0]] == ["spin", "shoulder"]
    np.testing.assert_array_equal(model.constraint_coefficients[0], [0.2, -0.5, 0, 0, 0])
    assert [model.joint_names[j] for j in model.actuator_joint] == ["shoulder", "extend"]
    line = next(line for line in model.report if line.feature == "mimic joint 'spin'")
    assert line.status == "used" and "'shoulder'" in line.detail


@pytest.mark.parametrize("target", ["spin", "elbow", "mount"])
def test_mimics_that_follow_nothing_are_refused_with_one_warning(robot, target):
    """Of itself, of a joint that is not there, and of a fixed one: the joint moves independently."""
    robot.write_text(ROBOT.replace('<limit effort="7" velocity="9"/>', f'<mimic joint="{target}"/>'))
    with pytest.warns(UserWarning, match="1 mimic joints move independently.*'spin'") as caught:
        model = load(robot)
    assert len(caught) == 1 and model.nv == 3 and model.nconstraint == 0
    line = next(line for line in model.report if line.feature == "mimic joint 'spin'")
    assert line.status == "refused" and target in line.detail


def test_planar_and_floating_joints(robot):
    """Planar: two slides across the axis and a hinge about it. Floating: free from the fixed root, else slides and ball."""
    robot.write_text(ROBOT.replace('type="continuous"', 'type="planar"').replace('type="fixed"', 'type="floating"'))
    model = load(robot)
    kinds = {n: JointType(t).name for n, t in zip(model.joint_names, model.joint_type, strict=True)}
    assert [kinds[n] for n in ("spin_x", "spin_y", "spin_turn")] == ["SLIDE", "SLIDE", "HINGE"]
    axes = np.stack([model.joint_axis[model.joint(n)] for n in ("spin_x", "spin_y", "spin_turn")])
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(axes[0], axes[1]), axes[2], atol=1e-12)
    assert [kinds[f"mount_{n}"] for n in ("x", "y", "z", "turn")] == ["SLIDE"] * 3 + ["BALL"]
    robot.write_text(ROBOT.replace('type="revolute"', 'type="floating"'))
    model = load(robot)
    assert model.joint_type[model.joint("shoulder")] == JointType.FREE and model.body_parent[model.body("upper")] == -1
    np.testing.assert_allclose(model.q0[:7], [0.1, 0, 0.5, np.cos(0.15), np.sin(0.15), 0, 0])


def test_free_base_and_a_root_called_world(robot):
    model = load(robot, base="free")
    assert (model.nv, model.joint_names[0]) == (9, "root")
    robot.write_text(ROBOT.replace('"base"', '"world"'))
    model = load(robot)
    assert model.body_names == ("upper", "wheel", "slider", "tool") and (model.geom_body == -1).sum() == 2
    with pytest.raises(ModelError, match="called 'world'"):
        load(robot, base="free")


ARM = f"""<robot name="arm">{{roots}}
  {link("base", '<sphere radius="0.5"/>')}{link("plate", '<sphere radius="0.5"/>')}{link("first", '<sphere radius="0.5"/>')}
  {link("badge", '<sphere radius="0.5"/>')}{link("second", '<sphere radius="0.5"/>')}{link("third", '<sphere radius="0.5"/>')}
  {joint("bolt", "fixed", "base", "plate")}{joint("hinge1", "revolute", "plate", "first", '<limit lower="-1" upper="1"/>')}
  {joint("glue", "fixed", "first", "badge")}{joint("hinge2", "continuous", "badge", "second")}
  {joint("hinge3", "prismatic", "second", "third", '<limit lower="-1" upper="1"/>')}{{mounts}}</robot>"""


def touching(model) -> set[frozenset]:
    """Pairs of links that may touch; every link has one sphere that touches."""
    return {frozenset(model.body_names[model.geom_body[g]] for g in pair) for pair in model.pair_geom}


@pytest.mark.parametrize("root", ["base", "world"])
@pytest.mark.parametrize("merge_fixed", [False, True])
def test_neighbouring_links_never_touch(robot, root, merge_fixed):
    """A link touches neither its parent nor what is fixed to either of them, whether the base is free, fixed to the world,
    or fixed to a link called "world"; links two joints apart touch, and so do two things that are fixed to the world."""
    world = '<link name="world"/>' + link("table", '<sphere radius="0.5"/>')
    mounts = joint("mount", "fixed", "world", "base") + joint("legs", "fixed", "world", "table")
    robot.write_text(ARM.format(roots="", mounts=""))
    free = touching(load(robot, base="free", merge_fixed=merge_fixed))
    groups = (
        [["base"], ["first"], ["second"], ["third"]]
        if merge_fixed
        else [["base", "plate"], ["first", "badge"], ["second"], ["third"]]
    )
    apart = {frozenset((a, b)) for i, j in ((0, 2), (0, 3), (1, 3)) for a in groups[i] for b in groups[j]}
    assert free == apart
    if root == "world":
        robot.write_text(ARM.format(roots=world, mounts=mounts))
        apart |= {frozenset(("table", name)) for group in groups[1:] for name in group}
    assert touching(load(robot, merge_fixed=merge_fixed)) == apart
    scene = ws.ModelBuilder()
    scene.add_model(load(robot, merge_fixed=merge_fixed), prefix="my ")
    assert {frozenset(name[3:] for name in pair) for pair in touching(scene.build())} == apart


def test_an_arm_whose_base_overlaps_its_first_link_moves_freely(robot):
    """A post stands in the base that carries it: with contact a step is that without."""
    ball, post = link("upper", '<cylinder radius="0.1" length="0.6"/>'), link("upper", '<box size="0.2 0.3 1.4"/>')
    text = ROBOT.replace(ball, post).replace(link("wheel", '<sphere radius="0.2"/>'), link("wheel"))
    robot.write_text(text)
    model, v = load(robot), []
    for solver in (ws.SAP(), ws.NoContact()):
        sim = ws.Simulator(model, solver=solver, dtype="float64", device="cpu")
        v.append(sim.step(sim.state(v=[0.3, -0.2, 0.1])).v.numpy())
    np.testing.assert_allclose(v[0], v[1], rtol=1e-12)


def test_merging_fixed_links_keeps_the_dynamics(robot):
    """The tool becomes part of the slider: fewer bodies, the same mass matrix."""
    plain, merged = load(robot), load(robot, merge_fixed=True)
    assert "tool" not in merged.body_names and merged.nbody == 4 and merged.ngeom == plain.ngeom
    q = np.array([[0.3, 0.2, 0.1]])
    matrices = [
        ws.Simulator(m, dtype="float64", device="cpu", solver=ws.NoContact()).mass_matrix(q).numpy()
        for m in (plain, merged)
    ]
    np.testing.assert_allclose(matrices[0], matrices[1], rtol=1e-12, atol=1e-14)


def test_unphysical_inertias_are_repaired_to_the_nearest_physical_one(robot):
    """I = diag(1, 1, 3) has the second moment diag(1.5, 1.5, -0.5); clipped it is diag(1.5, 1.5, 3)."""
    wrong = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="3"/>'
    robot.write_text(ROBOT.replace(INERTIA, wrong, 1))
    with pytest.warns(UserWarning, match="1 repaired: inertia of link 'base'"):
        model = load(robot)
    np.testing.assert_allclose(np.linalg.eigvalsh(model.body_inertia[0]), [1.5, 1.5, 3.0], rtol=2e-6)
    rng = np.random.default_rng(1)
    for _ in range(50):
        inertia = rng.normal(size=(3, 3))
        fixed, changed = physical_inertia(inertia + inertia.T)
        a, b, c = np.linalg.eigvalsh(fixed)
        assert changed and a >= 0 and a + b >= c * (1 - 1e-9)
        assert not physical_inertia(fixed)[1]


def test_colours_and_names(robot):
    """Materials by name and in place; several shapes of a link get different names."""
    red = '<material name="red"><color rgba="1 0 0 1"/></material>'
    shapes = '<visual><geometry><capsule radius="0.1" length="0.4"/></geometry><material name="red"/></visual>'
    text = ROBOT.replace("<visual>", shapes + "<visual>", 1).replace('<robot name="rig">', f'<robot name="rig">{red}')
    robot.write_text(text)
    model = load(robot)
    g = model.geom("base_visual")
    assert model.geom_rgba[g].tolist() == [1, 0, 0, 1] and "base_visual_1" in model.geom_names
    np.testing.assert_allclose(model.geom_size[g, :2], [0.1, 0.2])


EMPTY = ('<box size="0.1 0.2 0"/>', '<sphere radius="0"/>', '<cylinder radius="0.1" length="0"/>', '<capsule radius="0" length="0"/>', '<mesh filename="none.stl" scale="0 0 0"/>')  # fmt: skip


@pytest.mark.parametrize("shape", EMPTY)
def test_a_visual_of_size_zero_is_left_out_and_a_collision_is_an_error(robot, shape):
    """Placeholders of size 0 are common in visuals and change no motion; what touches must have a size."""
    text = ROBOT.replace('<sphere radius="1"/>', shape, 1)
    robot.write_text(text)
    model = load(robot)
    assert model.geom_visible.sum() == 5 and "base_visual" not in model.geom_names
    assert model.geom_visible[model.geom("base_collision")]  # drawn where nothing else is
    line = next(line for line in model.report if line.feature == "visuals of link 'base'")
    assert line.status == "ignored" and line.detail.startswith("1 ")
    robot.write_text(ROBOT.replace('<box size="1 1 0.2"/>', shape, 1))
    with pytest.raises(ModelError, match=r"(?s)rig\.urdf: link 'base', collision: .*\b0"):
        load(robot)


@pytest.mark.parametrize(
    "change, words",
    [
        (('type="revolute"', 'type="screw"'), "screw|joint"),
        (('<mass value="2"/>', '<mass value="-2"/>'), "mass"),
        (('<child link="upper"/>', '<child link="lost"/>'), "'shoulder'.*child link 'lost'"),
        (("</robot>", ""), "XML"),
        (('<sphere radius="0.2"/>', '<mesh filename="package://rig/none.stl"/>'), "'wheel'.*none.stl.*packages="),
        (('<sphere radius="0.2"/>', '<mesh filename="none.stl"/>'), "'wheel'.*none.stl"),
        (('<sphere radius="0.2"/>', '<mesh filename="http://x.org/a.stl"/>'), "http"),
        (('<limit effort="7"', '<limit effort="seven"'), "'spin'.*effort"),
        (('link="wheel"', 'link="base"'), "loop|hangs"),
        (('<parent link="slider"', '<parent link="tool"'), "loop"),
        (('name="slider"', 'name="wheel"'), "'wheel' is there twice"),
        (('name="spin"', 'name="shoulder"'), "'shoulder' is there twice"),
        (('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'), "'shoulder'.*axis"),
        (('radius="0.2"', 'radius="-0.2"'), "size"),
        (('ixx="0.4"', 'ixx="inf"'), "inertia"),
    ],
)
def test_broken_urdfs_are_one_error_that_names_the_file(robot, change, words, monkeypatch):
    monkeypatch.chdir(robot.parent)
    robot.write_text(ROBOT.replace(*change))
    with pytest.raises(ModelError, match=f"(?s)rig.urdf.*({words})"):
        load(robot)


def chain(count: int, masses=(), bend: float = 0.0) -> str:
    """Hinges about y in a row, 0.3 m apart, each turned by `bend` from the one before; links whose numbers are in `masses` have 0.5 kg."""
    inertial = (
        '<inertial><mass value="0.5"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    text = '<robot name="c"><link name="l0"/>'
    for k in range(1, count + 1):
        text += f'<link name="l{k}">{inertial if k in masses else ""}</link><joint name="j{k}" type="continuous"><parent link="l{k - 1}"/>'
        text += f'<child link="l{k}"/><origin xyz="{0.3 * (k > 1)} 0 0" rpy="0 {bend} 0"/><axis xyz="0 1 0"/></joint>'
    return text + "</robot>"


@pytest.mark.parametrize(
    ("count", "masses", "bend", "repaired"),
    [
        (1, (), 0, 1),
        (3, (), 0, 3),
        (6, (), 0.5, 6),
        (3, (3,), 0, 2),
        (3, (3,), 0.7, 2),
        (2, (1,), 0, 1),
        (2, (2,), 0, 0),
        (4, (2, 4), 0, 0),
    ],
)
def test_trees_without_inertials_have_a_regular_mass_matrix(tmp_path, count, masses, bend, repaired):
    """The mass matrix is regular at random poses and where all bars are in line or folded; one warning says which links got a mass."""
    path = tmp_path / "c.urdf"
    path.write_text(chain(count, masses, bend))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(path)
    assert len(caught) == (repaired > 0) and (not caught or "repaired" in str(caught[0].message))
    assert (model.body_mass == LEAST_MASS).sum() == repaired
    poses = np.random.default_rng(0).uniform(-3, 3, (20, count))
    poses[0], poses[1] = -bend, np.where(np.arange(count) % 2, np.pi - bend, -bend)
    sim = ws.Simulator(model, len(poses), dtype="float64", device="cpu")
    assert np.linalg.cond(sim.mass_matrix(poses).numpy()).max() < 1e7


def test_a_wrist_of_links_without_mass_stays_as_it_is(tmp_path):
    """Three hinges at one point: the links between them move only with the hand, which has the mass."""
    first, second, third = chain(3, (3,)).replace("0.3 0 0", "0 0 0").rsplit('xyz="0 1 0"', 2)
    text = f'{first}xyz="1 0 0"{second}xyz="0 0 1"{third}'
    (tmp_path / "w.urdf").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "w.urdf").body_mass.tolist() == [0, 0, 0, 0.5]


@pytest.mark.parametrize(("kind", "masses"), [("continuous", (1100,)), ("fixed", ())])
def test_long_rows_of_links(tmp_path, kind, masses):
    """Rows of links are walked, not recursed into: with masses at one end, everywhere missing, or fixed to each other behind a joint."""
    text = chain(1100, masses).replace("continuous", kind).replace(kind, "continuous", 1)
    (tmp_path / "c.urdf").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert load(tmp_path / "c.urdf").nbody == 1101
        if kind == "fixed":
            with pytest.raises(ModelError, match="poses to merge, more than 100000"):
                load(tmp_path / "c.urdf", merge_fixed=True)
            (tmp_path / "c.urdf").write_text(
                chain(100, masses).replace("continuous", kind).replace(kind, "continuous", 1)
            )
            model = load(tmp_path / "c.urdf", merge_fixed=True)
            assert model.nbody == 2 and model.nv == 1


def test_a_heavy_tip_on_bars_without_mass(tmp_path):
    """What the least mass is beside does not matter: it is given once."""
    (tmp_path / "c.urdf").write_text(chain(3, (3,)).replace('value="0.5"', 'value="1e6"').replace('"1e-3"', '"1e6"'))
    with pytest.warns(UserWarning, match="2 repaired"):
        assert load(tmp_path / "c.urdf").body_mass.tolist() == [0, LEAST_MASS, LEAST_MASS, 1e6]
