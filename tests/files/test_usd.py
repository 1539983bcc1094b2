# SPDX-License-Identifier: Apache-2.0
"""USD export: reopened stages say what was simulated, pass USD's own validators, and are written in bounded memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from scenes.trajectories import asset, rollout, small
from warpsim.files.scene import default_spacing, grid_origins
from warpsim.files.usd.usd_values import Names
from warpsim.files.usd.usd_worlds import continuous_signs
from warpsim.files.usd.usd_write import write_model
from warpsim.model.builder import ModelBuilder
from warpsim.model.geometry import compose, matrix_quaternion, rotation_matrix
from warpsim.model.host_kinematics import body_poses, geom_poses
from warpsim.model.model import JointType

pxr = pytest.importorskip("pxr")
from pxr import Usd, UsdGeom, UsdPhysics  # noqa: E402

HALF = 2.0**-11  # largest rounding error of a half-precision number of size up to 1


def world_matrix(stage, path, time):
    """4x4 of a prim with USD's row vectors turned to columns."""
    return np.array(UsdGeom.XformCache(time).GetLocalToWorldTransform(stage.GetPrimAtPath(path))).T


def validate(path):
    """USD's own validators find no error."""
    try:
        from pxr import UsdValidation
    except ImportError:
        pytest.skip("this usd-core has no UsdValidation")
    context = UsdValidation.ValidationContext(UsdValidation.ValidationRegistry().GetOrLoadAllValidators())
    found = [f"{e.GetName()}: {e.GetMessage()}" for e in context.Validate(Usd.Stage.Open(str(path)))]
    assert not found, found


def find(stage, name, kind=None):
    """The prim that carries an element's own name, of a schema class where names of several elements agree."""
    prims = (p for p in stage.TraverseAll() if p.GetCustomDataByKey("warpsim:name") == name)
    return next(p for p in prims if kind is None or p.IsA(kind))


@pytest.mark.parametrize("suffix", ["usd", "usda", "usdz"])
def test_one_world_has_the_simulated_poses(tmp_path, suffix):
    """Every body's transform at every frame equals forward kinematics, in each file format."""
    t = rollout(*small(), worlds=2, steps=8, dt=1 / 50)
    path = tmp_path / f"one.{suffix}"
    t.to_usd(path, worlds=[1])
    validate(path)
    stage = Usd.Stage.Open(str(path))
    assert stage.GetEndTimeCode() == 8 and stage.GetTimeCodesPerSecond() == pytest.approx(50)
    assert UsdGeom.GetStageUpAxis(stage) == "Z" and UsdGeom.GetStageMetersPerUnit(stage) == 1
    assert UsdPhysics.GetStageKilogramsPerUnit(stage) == 1 and stage.GetDefaultPrim().GetPath() == "/World"
    poses = t.poses()[:, 1]
    for body, name in enumerate(t.model.body_names):
        prim = find(stage, name)
        for frame in range(9):
            matrix = world_matrix(stage, prim.GetPath(), frame)
            np.testing.assert_allclose(matrix[:3, 3], poses[frame, body, :3], atol=1e-12)
            np.testing.assert_allclose(matrix[:3, :3], rotation_matrix(poses[frame, body, 3:]), atol=1e-6)
    assert find(stage, "1 odd/name").GetDisplayName() == "1 odd/name"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_geoms_and_masses(tmp_path):
    """Geoms stand where MuJoCo has them with their sizes; mass properties rebuild the inertia matrix."""
    _, model = asset("humanoid")
    write_model(model, tmp_path / "h.usda")
    validate(tmp_path / "h.usda")
    stage = Usd.Stage.Open(str(tmp_path / "h.usda"))
    poses = geom_poses(model, body_poses(model, model.q0))
    for geom, name in enumerate(model.geom_names):
        prim = find(stage, name, UsdGeom.Gprim)
        matrix = world_matrix(stage, prim.GetPath(), 0)
        np.testing.assert_allclose(matrix[:3, 3], poses[geom, :3], atol=1e-6)
        if prim.IsA(UsdGeom.Capsule):
            capsule = UsdGeom.Capsule(prim)
            assert capsule.GetAxisAttr().Get() == "Z"
            np.testing.assert_allclose(
                [capsule.GetRadiusAttr().Get(), capsule.GetHeightAttr().Get() / 2], model.geom_size[geom, :2]
            )
    for body, name in enumerate(model.body_names):
        mass = UsdPhysics.MassAPI(find(stage, name, UsdGeom.Xform))
        q = mass.GetPrincipalAxesAttr().Get()
        rotation = rotation_matrix([q.GetReal(), *q.GetImaginary()])
        inertia = rotation @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ rotation.T
        np.testing.assert_allclose(inertia, model.body_inertia[body], atol=1e-6 * np.trace(model.body_inertia[body]))
        assert mass.GetMassAttr().Get() == pytest.approx(model.body_mass[body])
        np.testing.assert_allclose(mass.GetCenterOfMassAttr().Get(), model.body_com[body], atol=1e-7)


@pytest.mark.parametrize("name", ["small", "ant", "humanoid", "hopper", "walker2d"])
def test_joint_frames_meet_at_the_initial_pose(tmp_path, name):
    """Both frames of each joint coincide at q0, hinge axes are the model's, and limits are theirs in degrees from q0."""
    _, model = small() if name == "small" else asset(name)
    write_model(model, tmp_path / "m.usda")
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    poses = body_poses(model, model.q0)
    index = {find(stage, n, UsdGeom.Xform).GetPath(): b for b, n in enumerate(model.body_names)}
    joints = [UsdPhysics.Joint(p) for p in stage.Traverse() if p.IsA(UsdPhysics.Joint)]
    free = int((model.joint_type == JointType.FREE).sum())
    assert len(joints) == model.nbody - free
    for joint in joints:
        child = index[joint.GetBody1Rel().GetTargets()[0]]
        parents = joint.GetBody0Rel().GetTargets()
        ends = []
        for side, body in ((0, index[parents[0]] if parents else None), (1, child)):
            position = getattr(joint, f"GetLocalPos{side}Attr")().Get()
            turn = getattr(joint, f"GetLocalRot{side}Attr")().Get()
            local = np.array([*position, turn.GetReal(), *turn.GetImaginary()])
            ends.append(local if body is None else compose(poses[body], local))
        np.testing.assert_allclose(ends[0][:3], ends[1][:3], atol=1e-6)
        np.testing.assert_allclose(rotation_matrix(ends[0][3:]), rotation_matrix(ends[1][3:]), atol=1e-6)
        prim = joint.GetPrim()
        if prim.IsA(UsdPhysics.RevoluteJoint):
            j = model.joint(prim.GetCustomDataByKey("warpsim:name"))
            turn = joint.GetLocalRot1Attr().Get()
            np.testing.assert_allclose(
                rotation_matrix([turn.GetReal(), *turn.GetImaginary()])[:, 0], model.joint_axis[j], atol=1e-6
            )
            if model.joint_limited[j]:
                expected = np.degrees(model.joint_range[j] - model.q0[model.joint_q[j]])
                got = [
                    UsdPhysics.RevoluteJoint(prim).GetLowerLimitAttr().Get(),
                    UsdPhysics.RevoluteJoint(prim).GetUpperLimitAttr().Get(),
                ]
                np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_joints_of_one_body_become_one_generic_joint(tmp_path):
    """Two slides and a hinge with orthogonal axes: their three directions are open, the other three locked."""
    _, model = small()
    write_model(model, tmp_path / "m.usda")
    stage = Usd.Stage.Open(str(tmp_path / "m.usda"))
    prim = find(stage, "cx_cy_turn")
    locked = {
        token
        for motion in ("trans", "rot")
        for token in (f"{motion}{a}" for a in "XYZ")
        if prim.HasAPI(UsdPhysics.LimitAPI, token) and UsdPhysics.LimitAPI(prim, token).GetLowAttr().Get() > 0
    }
    assert locked == {"transZ", "rotX", "rotY"}


def test_a_chain_usd_has_no_joint_for_is_told(tmp_path):
    """Hinges whose axes are not orthogonal: a warning names them, the file is written."""
    b = ModelBuilder("skew")
    body = b.add_body("arm", mass=1, inertia=[1, 1, 1])
    b.add_joint(body, "hinge", name="one", axis=[1, 0, 0])
    b.add_joint(body, "hinge", name="two", axis=[1, 1, 0])
    b.add_geom("sphere", [0.1], body=body, density=0)
    with pytest.warns(UserWarning, match="'one', 'two'"):
        write_model(b.build(), tmp_path / "skew.usda")
    validate(tmp_path / "skew.usda")


def test_many_worlds_have_the_simulated_poses(tmp_path):
    """Instances: positions to float32, orientations to half precision, on the grid; constants once; one floor."""
    t = rollout(*small(), worlds=5, steps=12, dt=1 / 40)
    path = tmp_path / "many.usdc"
    t.to_usd(path, worlds=4)
    validate(path)
    stage = Usd.Stage.Open(str(path))
    instancer = UsdGeom.PointInstancer(stage.GetPrimAtPath("/World/Robots"))
    positions, orientations = instancer.GetPositionsAttr(), instancer.GetOrientationsAttr()
    assert orientations.GetTypeName() == "quath[]" and len(positions.GetTimeSamples()) == 13
    assert instancer.GetProtoIndicesAttr().GetNumTimeSamples() == 0
    poses = t.poses(worlds=4)
    expected = poses[..., :3] + grid_origins(4, default_spacing(t.model))[:, None]
    before = None
    for frame in range(13):
        got = np.array(positions.Get(frame))
        np.testing.assert_allclose(got, expected[frame].reshape(-1, 3), atol=1e-6)
        turns = np.array([(q.GetReal(), *q.GetImaginary()) for q in orientations.Get(frame)])
        want = poses[frame, ..., 3:].reshape(-1, 4)
        want = want * np.sign(np.sum(want * turns, axis=-1, keepdims=True))
        np.testing.assert_allclose(turns, want, atol=HALF)
        assert before is None or (np.sum(before * turns, axis=-1) > 0).all()
        before = turns
    matrices = instancer.ComputeInstanceTransformsAtTime(5, 5)
    assert len(matrices) == 4 * t.model.nbody
    floors = [p for p in stage.TraverseAll() if p.IsA(UsdGeom.Plane)]
    assert len(floors) == 1 and UsdGeom.Plane(floors[0]).GetWidthAttr().Get() >= 100


def test_fixed_geoms_stand_in_every_world(tmp_path):
    """A wall fixed to the world is drawn once per world, at each origin."""
    b = ModelBuilder("wall")
    b.add_geom("plane", name="floor")
    b.add_geom("box", [0.1, 1, 1], name="wall", pose=[1, 0, 1])
    ball = b.add_body("ball", pose=[0, 0, 1])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [0.1], body=ball)
    model = b.build()
    compiled_free = np.tile(model.q0, (3, 9, 1))
    from warpsim.state.trajectory import Trajectory

    t = Trajectory(model, compiled_free, np.zeros((3, 9, 6)), np.tile(np.arange(3)[:, None] * 0.1, (1, 9)))
    t.to_usd(tmp_path / "w.usda", spacing=4.0)
    validate(tmp_path / "w.usda")
    stage = Usd.Stage.Open(str(tmp_path / "w.usda"))
    walls = np.array(UsdGeom.PointInstancer(stage.GetPrimAtPath("/World/Static/PerWorld")).GetPositionsAttr().Get())
    np.testing.assert_allclose(walls, grid_origins(9, 4.0), atol=1e-6)


def test_signs_are_continuous_across_chunks():
    """Flipping random signs of a smooth rotation changes nothing but the first sign, in one pass or in two."""
    rng, angle = np.random.default_rng(0), np.linspace(0, 20, 101)
    smooth = np.stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle], axis=-1)[:, None]
    mixed = smooth * rng.choice([-1.0, 1.0], size=(101, 1, 1))
    whole = continuous_signs(mixed, smooth[0])
    assert np.array_equal(whole, smooth)
    first = continuous_signs(mixed[:50], smooth[0])
    assert np.array_equal(np.concatenate([first, continuous_signs(mixed[50:], first[-1])]), whole)


def test_matrix_quaternion_inverts_rotation_matrix():
    """For random rotations and half turns about each axis."""
    rng = np.random.default_rng(3)
    quaternions = [*rng.normal(size=(20, 4)), *np.eye(4)]
    for q in quaternions:
        matrix = rotation_matrix(q / np.linalg.norm(q))
        np.testing.assert_allclose(rotation_matrix(matrix_quaternion(matrix)), matrix, atol=1e-12)


def test_names_are_valid_and_unique():
    """Whatever the elements are called."""
    names = Names()
    assert [names(n) for n in ("a b", "a/b", "1", "", "a_b")] == ["a_b", "a_b_2", "_1", "unnamed", "a_b_3"]


def test_bad_arguments_leave_nothing_behind(tmp_path):
    """Wrong suffix, folder, worlds, spacing or values: one sentence, and no file."""
    t = rollout(*small(), worlds=2, steps=3)
    for arguments, words in [
        ({"path": tmp_path / "a.glb"}, "must end in"),
        ({"path": tmp_path / "no" / "a.usd"}, "does not exist"),
        ({"path": tmp_path / "a.usd", "worlds": 3}, "has 2 worlds"),
        ({"path": tmp_path / "a.usd", "spacing": -1}, "spacing"),
        ({"path": tmp_path / "a.usd", "fps": 0}, "fps"),
    ]:
        with pytest.raises(ValueError, match=words):
            t.to_usd(**arguments)
    t.q[2, 0, 0] = np.inf
    with pytest.raises(ValueError, match="frame 2, world 0"):
        t.to_usd(tmp_path / "a.usd", fps=1000)
    assert not list(tmp_path.iterdir())


MEMORY = """
    import sys, threading, time
    import numpy as np
    from pxr import Usd, UsdGeom, UsdPhysics, UsdShade, Vt
    from scenes.trajectories import asset
    from warpsim.files.usd import usd_output
    from warpsim.model import host_kinematics
    from warpsim.state.trajectory import Trajectory

    frames, worlds = int(sys.argv[1]), 128
    host_kinematics.CHUNK_BYTES, usd_output.SAVE_BYTES = 2**20, 2**22
    _, model = asset("ant")

    class Recording:                                   # made up as it is read, so that it takes no memory itself
        def __init__(self, *size):
            self.shape = (frames, worlds, *size)
        def __getitem__(self, rows):
            noise = np.random.default_rng(rows.start).random((rows.stop - rows.start, *self.shape[1:]))
            return 0.1 * noise + (model.q0 if self.shape[-1] == model.nq else 0)

    t = Trajectory(model, Recording(model.nq), Recording(model.nv), np.tile(np.arange(frames)[:, None] / 50, (1, worlds)))
    def used():
        return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon")) // 1024
    peak, done = [used()], False
    def watch():
        while not done:
            peak.append(used())
            time.sleep(0.005)
    start, thread = used(), threading.Thread(target=watch)
    thread.start()
    try:
        t.to_usd(sys.argv[2])
    finally:
        done = True
        thread.join()
    print(max(peak) - start)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_frames(tmp_path):
    """Anonymous memory while writing 128 ants: 2,000 frames (67 MB on disk) take little more than 200 frames."""
    taken = []
    for frames in (200, 2000):
        command = [sys.executable, "-c", textwrap.dedent(MEMORY), str(frames), str(tmp_path / f"{frames}.usdc")]
        paths = ":".join(p for p in sys.path if p)
        run = subprocess.run(
            command, capture_output=True, text=True, env={"PYTHONPATH": paths, "PATH": "/usr/bin"}, check=True
        )
        taken.append(int(run.stdout.split()[-1]))
    written = (tmp_path / "2000.usdc").stat().st_size / 2**20
    assert written > 50 and taken[1] < taken[0] + 0.25 * written, (taken, written)
