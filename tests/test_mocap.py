# SPDX-License-Identifier: Apache-2.0
"""Mocap bodies: children of the world whose poses are an input of a step, held in `State`. MuJoCo is the reference."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.model.geometry import compose
from warpsim.model.host_kinematics import body_poses

# Two mocap bodies: one carries a pendulum, a fixed lamp and a camera stand-in; the other is a table that a ball lies on.
SCENE = """<mujoco model="mocap"><option timestep="0.004"/><worldbody>
<geom name="floor" type="plane" size="3 3 1"/>
<body name="hook" mocap="true" pos="0 0 1"><geom name="hook" size=".05"/>
  <body name="bob" pos=".3 0 0"><joint name="swing" axis="0 1 0" damping=".02"/><geom name="bob" size=".06"/></body>
  <body name="lamp" pos="0 0 .3"><geom name="lamp" size=".04"/></body></body>
<body name="ball" pos="1 0 .2995"><freejoint/><geom name="ball" size=".1"/></body>
<body name="table" mocap="true" pos="1.02 0 .1"><geom name="table" type="box" size=".2 .2 .1"/></body>
</worldbody>
<keyframe><key name="raised" mpos="0 0 2 1 1 .1" mquat="0 1 0 0 1 0 0 1"/></keyframe></mujoco>"""

# Fetch in small: an arm of six hinges, bent, whose hand a weld ties to a mocap body.
ARM = """<mujoco model="arm"><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/><joint damping="1"/></default><worldbody>
<body name="target" mocap="true" pos=".52 0 .5" euler="0 90 0"><geom size=".02"/></body>
<body pos="0 0 .5"><joint axis="0 0 1"/><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .26 0 .3" size=".04"/>
 <body pos=".26 0 .3"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .26 0 -.3" size=".03"/>
  <body name="hand" pos=".26 0 -.3" euler="0 90 0"><joint axis="0 0 1"/><joint axis="0 1 0"/><joint axis="1 0 0"/>
   <geom type="box" size=".03 .03 .02"/></body></body></body>
</worldbody><equality><weld body1="target" body2="hand"/></equality></mujoco>"""


@pytest.fixture(scope="module")
def compiled():
    return mujoco.MjModel.from_xml_string(SCENE)


@pytest.fixture(scope="module")
def model(compiled):
    return ws.load(compiled)


def moved(model, worlds, seed=0, size=0.3):
    """Poses (worlds, nmocap, 7) around those of the model, with quaternions of any length."""
    rng = np.random.default_rng(seed)
    return np.tile(model.mocap0, (worlds, 1, 1)) + size * rng.normal(size=(worlds, model.nmocap, 7))


def test_the_file_is_read_in_full(model):
    """Mocap bodies, their keyframes and who may touch whom are MuJoCo's: the bob does not touch the hook that carries it."""
    assert model.nmocap == 2 and model.body_mocap.tolist() == [0, -1, -1, -1, 1]
    np.testing.assert_allclose(model.mocap0, [[0, 0, 1, 1, 0, 0, 0], [1.02, 0, 0.1, 1, 0, 0, 0]])
    turned = [[0, 0, 2, 0, 1, 0, 0], [1, 1, 0.1, np.sqrt(0.5), 0, 0, np.sqrt(0.5)]]
    np.testing.assert_allclose(model.keyframes["raised"].mocap, turned)
    lines = [line for line in model.report if "mocap" in line.detail]
    assert [line.status for line in lines] == ["used", "used"]
    pairs = {tuple(sorted(model.geom_names[g] for g in pair)) for pair in model.pair_geom}
    assert ("bob", "hook") not in pairs and ("bob", "lamp") not in pairs and ("ball", "table") in pairs
    assert ("floor", "hook") not in pairs and ("hook", "table") not in pairs  # nothing of them moves under a force


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_poses_and_accelerations_are_those_of_mujoco(compiled, model, dtype):
    """At random poses and states, without constraints: body poses, and v after a step of explicit forces."""
    limit = 1e-12 if dtype == "float64" else 2e-6
    sim = ws.Simulator(model, worlds=4, dtype=dtype, solver=ws.NoContact(), device="cpu")
    rng, mocap, data = np.random.default_rng(1), moved(model, 4), mujoco.MjData(compiled)
    q, v = model.q0 + rng.normal(size=(4, model.nq)), rng.normal(size=(4, model.nv))
    state = sim.state(q, v)
    after = sim.step(state, mocap=mocap)
    poses, same = sim.kinematics(q, mocap).numpy(), sim.kinematics(state.q, after.mocap).numpy()
    np.testing.assert_array_equal(poses, same)
    np.testing.assert_allclose(poses, body_poses(model, q, mocap), atol=limit)
    for w in range(4):
        data.qpos, data.qvel = q[w], v[w]
        data.mocap_pos, data.mocap_quat = mocap[w, :, :3], mocap[w, :, 3:]
        compiled.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        mujoco.mj_step(compiled, data)
        np.testing.assert_allclose(poses[w, :, :3], data.xpos[1:], atol=10 * limit)
        np.testing.assert_allclose(after.v.numpy()[w], data.qvel, atol=20 * limit)
    compiled.opt.disableflags = 0


def test_the_state_holds_the_poses_until_they_are_given_anew(model):
    """None keeps them; reset brings back the model's, or those given; a keyframe has its own; nothing else is written."""
    sim = ws.Simulator(model, worlds=3, dtype="float64", device="cpu")
    mocap = moved(model, 3, size=0.01)
    state = sim.step(sim.state(), mocap=mocap)
    np.testing.assert_array_equal(state.mocap.numpy(), mocap)
    further = sim.step(state)
    np.testing.assert_array_equal(further.memory["mocap"].numpy(), mocap)
    direct = sim.step(sim.state(state.q.numpy(), state.v.numpy(), mocap=mocap))
    np.testing.assert_allclose(further.q.numpy(), direct.q.numpy(), rtol=1e-9)
    sim.reset(further, [1])
    np.testing.assert_array_equal(further.mocap.numpy()[1], model.mocap0)
    np.testing.assert_array_equal(further.mocap.numpy()[[0, 2]], mocap[[0, 2]])
    sim.reset(further, [0, 2], mocap=mocap[[2, 0]])
    np.testing.assert_array_equal(further.mocap.numpy()[[0, 2]], mocap[[2, 0]])
    np.testing.assert_array_equal(sim.state(keyframe="raised").mocap.numpy()[2], model.keyframes["raised"].mocap)
    sim.reset(further, [0], keyframe="raised")
    np.testing.assert_array_equal(further.mocap.numpy()[:2], [model.keyframes["raised"].mocap, model.mocap0])
    assert sim.step(state, mocap=mocap, out=state) is state
    np.testing.assert_array_equal(state[[2, 0]].mocap.numpy(), mocap[[2, 0]])


def test_an_arm_follows_the_mocap_body_that_its_hand_is_welded_to():
    """The target goes round a circle of 5 cm and turns: the hand is within 0.1 mm and 0.1 degrees of it, where MuJoCo's soft weld is 1 cm off."""
    compiled = mujoco.MjModel.from_xml_string(ARM)
    model = ws.load(compiled)
    steps, sim = 1000, ws.Simulator(model, dtype="float64", device="cpu")
    t = np.arange(1, steps + 1) * sim.dt
    mocap, turn = np.tile(model.mocap0, (steps, 1, 1, 1)), np.tile([0.0, 0, 0, 1, 0, 0, 0], (steps, 1))
    turn[:, 3], turn[:, 4] = np.cos(0.2 * np.sin(t)), np.sin(0.2 * np.sin(t))
    mocap[:, 0, 0] = compose(mocap[:, 0, 0], turn)
    mocap[:, 0, 0, 0] -= 0.05 * (1 - np.cos(3 * t))
    mocap[:, 0, 0, 1] += 0.05 * np.sin(3 * t)
    mocap[:, 0, 0, 2] += 0.03 * np.sin(2 * t)
    found = sim.rollout(sim.state(), mocap=mocap)
    assert not found.diagnostics["flags"].numpy().any()
    poses = found.poses()[1:, 0]
    hand, target = poses[:, model.body("hand")], poses[:, model.body("target")]
    np.testing.assert_allclose(target, mocap[:, 0, 0], atol=1e-12)
    assert np.abs(hand[:, :3] - target[:, :3]).max() < 1e-4
    assert np.arccos(np.clip(np.abs((hand[:, 3:] * target[:, 3:]).sum(-1)), 0, 1)).max() * 2 < np.radians(0.1)
    data, worst = mujoco.MjData(compiled), 0.0
    for k in range(steps):
        data.mocap_pos, data.mocap_quat = mocap[k, 0, :, :3], mocap[k, 0, :, 3:]
        mujoco.mj_step(compiled, data)
        worst = max(worst, np.abs(data.body("hand").xpos - data.body("target").xpos).max())
    assert 1e-4 < worst < 0.02


def test_a_table_that_is_lifted_carries_the_ball(model):
    """Contacts, rays and energies see the table where the state has it; without a velocity it lifts what lies on it."""
    sim = ws.Simulator(model, worlds=2, dtype="float64", device="cpu")
    state, mocap = sim.state(), np.tile(model.mocap0, (2, 1, 1))
    for _ in range(250):
        mocap[0, 1, 2] += 0.2 * sim.dt / 4
        state = sim.step(state, mocap=mocap)
    heights = state.q.numpy()[:, model.joint_coordinates(model.joint_names[1])[0]][:, 2]
    np.testing.assert_allclose(heights, [0.35, 0.3], atol=2e-3)
    hits = sim.ray_cast(state, [[1.15, 0.1, 1.0]], [[0, 0, -1.0]], geoms=["table"])
    np.testing.assert_allclose(hits.distance.numpy()[:, 0], [0.75, 0.8], atol=1e-12)
    touching = sim.contacts(state)
    found = {
        tuple(model.geom_names[g] for g in pair) for w in range(2) for pair in touching.geoms[w, : touching.count[w]]
    }
    assert ("ball", "table") in found or ("table", "ball") in found
    away = sim.state(state.q.numpy(), mocap=compose(np.array([0, 0, -0.05, 1, 0, 0, 0]), state.mocap.numpy()))
    assert len(sim.contacts(away)) == 0
    lifted = sim.energy(away)[1].numpy() - sim.energy(state)[1].numpy()
    carried = model.masses[[0, 1, 2, 4]].sum()  # the bob hangs on the hook
    np.testing.assert_allclose(lifted, -0.05 * 9.81 * carried, rtol=1e-9)


@pytest.mark.parametrize("integrator", [ws.SymplecticEuler(), ws.ImplicitEuler(), ws.Variational()], ids=str)
def test_a_pose_that_is_none_flags_its_world_alone(model, integrator):
    """NaN, or a quaternion of zeros: the world stands still, flagged, and the others keep every bit."""
    sim = ws.Simulator(model, worlds=4, dtype="float64", integrator=integrator, device="cpu")
    good = moved(model, 4, size=0.01)
    expected = sim.step(sim.step(sim.state()), mocap=good)
    bad = good.copy()
    bad[1, 0, 2], bad[2, 1, 3:] = np.nan, 0.0
    state = sim.step(sim.step(sim.state()), mocap=bad)
    assert sim.diagnostics.flags.numpy().tolist() == [0, ws.NONFINITE, ws.NONFINITE, 0]
    for name in ("q", "v"):
        ours, others = getattr(state, name).numpy(), getattr(expected, name).numpy()
        np.testing.assert_array_equal(ours[[0, 3]], others[[0, 3]])
        assert np.isfinite(ours).all()
    sim.reset(state, [1, 2])
    assert not sim.step(state).memory["flags"].numpy().any()


def test_worlds_and_threads_do_not_change_a_bit(model):
    """World w of many, over two threads, and alone."""
    mocap = np.stack([moved(model, 40, seed, 0.01) for seed in range(5)])
    many = ws.Simulator(model, worlds=40, threads=2, device="cpu")
    found = many.rollout(many.state(), mocap=mocap)
    one = ws.Simulator(model, device="cpu")
    for w in (0, 39):
        alone = one.rollout(one.state(), mocap=mocap[:, w : w + 1])
        np.testing.assert_array_equal(alone.q.numpy()[:, 0], found.q.numpy()[:, w])


class Interrupted(Exception):
    pass


def test_a_stored_run_goes_on_with_the_same_bits(model, tmp_path, monkeypatch):
    """A rollout with poses by step: stored, broken off and gone on with, saved and loaded, it is that of one go."""
    import warpsim.run.streaming

    monkeypatch.setattr(warpsim.run.streaming, "COMMIT_SECONDS", 0.0)
    sim = ws.Simulator(model, worlds=2, device="cpu")
    mocap = np.stack([moved(model, 2, seed, 0.01) for seed in range(30)])
    whole = sim.rollout(sim.state(), mocap=mocap, every=2)
    np.testing.assert_array_equal(whole.mocap.numpy()[1:], mocap[1::2].astype(np.float32))

    def stop(step):
        if step == 17:
            raise Interrupted

    with pytest.raises(Interrupted):
        sim.rollout(sim.state(), mocap=mocap, every=2, store=tmp_path / "run.zarr", progress=stop)
    assert 1 < ws.Trajectory.load(tmp_path / "run.zarr").frames < whole.frames
    resumed = ws.resume(tmp_path / "run.zarr")
    whole.save(tmp_path / "saved.zarr")
    for again in (resumed, ws.Trajectory.load(tmp_path / "saved.zarr")):
        for name in ("q", "v", "time", "mocap"):
            np.testing.assert_array_equal(np.asarray(getattr(again, name)), getattr(whole, name).numpy())
        assert again.model.nmocap == 2
        np.testing.assert_array_equal(again.model.keyframes["raised"].mocap, model.keyframes["raised"].mocap)
    np.testing.assert_array_equal(resumed.final.mocap.numpy(), whole.final.mocap.numpy())


def test_pictures_show_the_bodies_where_they_were(model, tmp_path):
    """Poses of a trajectory, a USD stage and a picture follow the mocap bodies, and what hangs on them."""
    pxr = pytest.importorskip("pxr")
    sim = ws.Simulator(model, worlds=1, dtype="float64", device="cpu")
    mocap = np.tile(model.mocap0, (12, 1, 1, 1))
    mocap[:, 0, 0, 2] = np.linspace(1, 2, 12)
    found = sim.rollout(sim.state(), mocap=mocap)
    poses = found.poses()[1:, 0]
    np.testing.assert_allclose(poses[:, model.body("lamp"), 2], mocap[:, 0, 0, 2] + 0.3)
    model.to_usd(tmp_path / "model.usda")
    again = ws.load(tmp_path / "model.usda")
    np.testing.assert_array_equal(again.body_mocap, model.body_mocap)
    np.testing.assert_array_equal(again.keyframes["raised"].mocap, model.keyframes["raised"].mocap)
    found.to_usd(tmp_path / "a.usda", fps=250)
    stage = pxr.Usd.Stage.Open(str(tmp_path / "a.usda"))
    prim = next(p for p in stage.Traverse() if p.GetName() == "lamp")
    last = pxr.UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(stage.GetEndTimeCode()).ExtractTranslation()
    np.testing.assert_allclose(last, [0, 0, 2.3], atol=1e-6)
    found.render(tmp_path / "a.png")
    found.to_html(tmp_path / "a.html")
    found.plot(tmp_path / "b.png")


def test_mistakes_are_told(model):
    """Wrong shapes, zeros and NaN where a state is made; bodies that cannot be mocap bodies; models without any."""
    sim = ws.Simulator(model, worlds=2, device="cpu")
    state, bad = sim.state(), moved(model, 2)
    for call in (
        lambda m: sim.step(state, mocap=m),
        lambda m: sim.state(mocap=m),
        lambda m: sim.kinematics(model.q0, m),
    ):
        with pytest.raises(ValueError, match=r"mocap has shape \(3, 2, 7\)"):
            call(np.zeros((3, 2, 7)))
    bad[1, 1, 3:] = 0
    with pytest.raises(ValueError, match="quaternion of body 'table' in row 1"):
        sim.state(mocap=bad)
    bad[1, 1, 3] = np.nan
    with pytest.raises(ValueError, match="body 'table' has nan in row 1"):
        sim.reset(state, [0, 1], mocap=bad)
    with pytest.raises(ValueError, match="mocap has 5 rows, but there are 4 steps"):
        sim.rollout(state, steps=4, mocap=np.tile(model.mocap0, (5, 2, 1, 1)))
    ant = ws.Simulator(ws.load(ws.robots.path("hopper")), device="cpu")
    assert ant.state().mocap is None
    for call in (ant.step, ant.rollout):
        with pytest.raises(ValueError, match="has no mocap bodies"):
            call(ant.state(), mocap=np.zeros((1, 0, 7)))

    def build(change):
        builder = ws.ModelBuilder()
        parent = builder.add_body("arm", mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(parent, "hinge")
        change(builder, parent)
        return builder.build()

    def jointed(builder, parent):
        body = builder.add_body("tool", mocap=True, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(body, "free", name="float")

    with pytest.raises(ws.ModelError, match="'tool' is a mocap body and has joint 'float'"):
        build(jointed)
    with pytest.raises(ws.ModelError, match="'tool' is a mocap body and hangs on 'arm'"):
        build(lambda builder, parent: builder.add_body("tool", parent=parent, mocap=True))
    with pytest.raises(ws.ModelError, match="mocap is 1; give True or False"):
        build(lambda builder, parent: builder.add_body("tool", mocap=1))

    def framed(builder, parent):
        builder.add_body("tool", mocap=True)
        builder.add_keyframe("home", mocap=np.zeros((1, 7)))

    with pytest.raises(ws.ModelError, match="keyframe 'home': the quaternion of mocap body 'tool'"):
        build(framed)


def test_models_with_mocap_bodies_are_put_together(model):
    """`add_model` places mocap bodies and those of its keyframes; a pickle and a copy keep them."""
    import pickle

    builder = ws.ModelBuilder()
    builder.friction_rule, builder.filter_parent = None, None
    builder.add_body("own", mocap=True, pose=[5, 0, 0])
    builder.add_model(model, pose=[0, 0, 1], prefix="a_")
    both = pickle.loads(pickle.dumps(builder.build()))
    assert both.nmocap == 3 and both.body_mocap[both.body("a_table")] == 2
    np.testing.assert_allclose(both.mocap0[1:, 2], model.mocap0[:, 2] + 1)
    np.testing.assert_allclose(both.keyframes["a_raised"].mocap[:, 2], [0, 3, 1.1])
    sim = ws.Simulator(both, worlds=2, device="cpu")
    state = pickle.loads(pickle.dumps(sim.state(keyframe="a_raised")))
    assert isinstance(state.mocap, wp.array) and sim.step(state).mocap.shape == (2, 3, 7)
