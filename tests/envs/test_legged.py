# SPDX-License-Identifier: Apache-2.0
"""Legged robots of mjlab's files: they stand by their servos, resume with the same bits, and say what is missing."""

import dataclasses
import importlib.metadata
import re

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv, terms
from warpsim.envs.imitation import DEPTH, FRAMES, frame, squat
from warpsim.envs.legged import A1, G1, GO1, LEG, Servo, legged_model
from warpsim.envs.robot_files import robot_file
from warpsim.envs.velocity import VelocityTracking
from warpsim.model.host_kinematics import body_poses
from warpsim.simulator import Simulator

try:
    importlib.metadata.version("mjlab")
    HERE = True
except importlib.metadata.PackageNotFoundError:
    HERE = False
ASSETS = any(d.name == "example-robot-data" for d in importlib.metadata.distributions())
needs_files = pytest.mark.skipif(not HERE, reason="needs pip install --no-deps mjlab")


@pytest.mark.parametrize("package", ["mjlab", "example-robot-data", "some-robots"])
def test_a_missing_package_is_named(package, monkeypatch):
    """With the command that installs it: mjlab's without its dependencies, which pin another MuJoCo."""

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    command = "pip install --no-deps mjlab" if package == "mjlab" else f"pip install {package}"
    with pytest.raises(ValueError, match=f"go1.xml is of the package {package}: {command}"):
        robot_file("go1.xml", package)
    if package == "mjlab":
        for task in ("Go1", "G1Rough"):
            with pytest.raises(ValueError, match=command):
                VectorEnv(task, 1, device="cpu")


@pytest.mark.assets
@needs_files
@pytest.mark.parametrize("robot", [GO1, G1], ids=lambda robot: robot.name)
def test_the_robot_stands_by_its_servos(robot):
    """Ten seconds in the stance: no flags, the feet carry the weight, and in the end nothing moves by more than 1 mm/s or falls short of its angle by more than 0.3 rad."""
    model = legged_model(robot)
    sim, stance = Simulator(model, 1, device="cpu", dt=0.5), model.keyframes["stance"].q
    state, control = sim.state(q=stance), robot.pose(robot.joints).astype(np.float32)[None]
    for _ in range(20):
        state = sim.step(state, control, substeps=100)
        assert not sim.diagnostics.flags.numpy().any()
    q, v = state.q.numpy()[0], state.v.numpy()[0]
    assert abs(v[:3]).max() < 1e-3 and abs(v[6:]).max() < 0.01
    assert abs(q[2] - robot.height) < 0.02 and q[3] > 0.999
    assert abs(q[7:] - stance[7:]).max() < 0.3
    force = sim.contact_force().numpy()[0, [model.body(foot) for foot in robot.feet]].sum(0)
    np.testing.assert_allclose(
        force, [0.0, 0.0, 9.81 * model.body_mass.sum()], atol=0.02 * 9.81 * model.body_mass.sum()
    )


@pytest.mark.assets
@needs_files
@pytest.mark.parametrize("name", ["Go1", "Go1Rough", "G1", "G1Rough", "Imitate"])
def test_tasks_step_and_go_on_with_the_same_bits(name):
    """Observations lie in their space and rewards are finite; a task that is resumed has the bits of one that went on."""
    env = VectorEnv(TASKS[name], 4, device="cpu", autoreset="SAME_STEP", episode=30)
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (50, *env.action_space.shape)).astype(np.float32)
    for action in actions[:25]:
        env.step(action)
    kept = env.state_dict()
    expected = [env.step(action)[:4] for action in actions[25:]]
    env = VectorEnv(TASKS[name], 4, device="cpu", autoreset="SAME_STEP", episode=30)
    env.reset(seed=2)
    env.load_state_dict(kept)
    for action, rows in zip(actions[25:], expected, strict=True):
        for found, row in zip(env.step(action)[:4], rows, strict=True):
            np.testing.assert_array_equal(found, row)
    assert all(np.isfinite(row[1]).all() for row in expected) and not env.faults.any()


@pytest.mark.assets
@pytest.mark.skipif(not ASSETS, reason="needs pip install example-robot-data")
@pytest.mark.parametrize("height, ends", [(0.32, False), (0.1, True)])
def test_where_it_learns_by_gradients_a_robot_that_lies_ends_its_episode(height, ends):
    """Contact of the trunk is not read there; the height is, on flat ground."""

    def at(s, start):
        start["q"] = start["q"].copy()
        start["q"][:, 2] = height

    smooth = TASKS["Quadruped"].smooth | {"starts": (terms.start_from("stance"), at)}
    env = VectorEnv(TASKS["Quadruped"], 2, device="cpu", autoreset="DISABLED", **smooth)
    env.reset(seed=1)
    assert (env.step(np.zeros(env.action_space.shape, np.float32))[2] == ends).all()
    assert "low" not in TASKS["QuadrupedRough"].smooth["terminations"]


@needs_files
def test_tables_name_every_joint():
    """Each servo is on a joint of its own; what has no entry is passive and rests at 0."""
    assert len(G1.joints) == 29 and len(set(G1.joints)) == 29 and len(GO1.joints) == 12
    assert G1.joints[:12] == G1.moved and [f"left_{part}_joint" for part in LEG] == list(G1.moved[:6])
    assert G1.servo("left_knee_joint") == Servo(250.0, 5.0, 139.0, 0.0251) and G1.servo("floating_base_joint") is None
    assert G1.pose(["waist_yaw_joint", "right_shoulder_roll_joint"]).tolist() == [0.0, -0.2]


@needs_files
def test_the_reference_is_a_cycle_that_the_feet_keep():
    """The pelvis goes down by `DEPTH` and up again, the feet stay where they are, and speeds are those of the angles."""
    reference, model = squat(), legged_model(G1)
    q = reference["q"]
    np.testing.assert_allclose(q[:, 2].max() - q[:, 2].min(), DEPTH, atol=1e-3)
    poses = body_poses(model, q)[:, [model.body(foot) for foot in G1.feet]]
    assert np.ptp(poses, axis=0).max() < 1e-3
    np.testing.assert_allclose(np.cumsum(reference["v"], 0)[-1] * 0.02, 0.0, atol=1e-9)  # once around
    limits = model.joint_range[[model.joint(name) for name in G1.moved]]
    angles = q[:, reference["columns"]]
    assert (angles > limits[:, 0]).all() and (angles < limits[:, 1]).all()


@pytest.mark.assets
@needs_files
def test_imitation_begins_at_any_frame_without_error():
    """Episodes begin in the reference, at different frames; the phase goes on by a frame per action, and the error is 0 at first."""
    env = VectorEnv("Imitate", 16, device="cpu", starts=TASKS["Imitate"].starts[:1], dtype="float64")
    env.reset(seed=0)
    first = frame(env.view).copy()
    assert len(set(first)) > 8 and all(value.max() < 1e-6 for value in env.measured().values())
    env.step(np.zeros(env.action_space.shape))
    np.testing.assert_array_equal(frame(env.view), (first + 1) % FRAMES)


def test_the_humanoid_is_told_how_fast():
    """Standing upright it has the rewards of an error of the commanded speed; success is 5 m upright."""
    env = VectorEnv(
        "HumanoidWalk", 3, device="cpu", autoreset="DISABLED", commands={"speed": terms.uniform_command(1.0, 1.0)}
    )
    env.reset(seed=0)
    q, v = env.view.q.copy(), 0.0 * env.view.v
    q[:, :3], q[:, 3:7] = [[0.0, 0.0, 1.3], [6.0, 0.0, 1.3], [6.0, 0.0, 0.8]], [1.0, 0.0, 0.0, 0.0]
    v[1, 0] = 1.0
    env.view.write(q=q, v=v)
    _, parts = env._reward()
    np.testing.assert_allclose(parts["track"], [2.0 * np.exp(-2.0), 2.0, 2.0 * np.exp(-2.0)], rtol=1e-5)
    np.testing.assert_allclose([parts["upright"], 2.0 * parts["ahead"]], 1.0, rtol=1e-5)
    np.testing.assert_allclose(parts["low"], [0.0, 0.0, -20.0 * 0.45**2], atol=1e-4)
    assert env.succeeded().tolist() == [False, True, False]
    np.testing.assert_allclose(env.measured()["velocity_error"], [1.0, 0.0, 1.0], atol=1e-5)


@pytest.mark.assets
@needs_files
def test_a_robot_of_ones_own_follows_velocities():
    """A subclass that names robot and greatest commands has its tables; what it gives itself stays."""

    class Slow(VelocityTracking, robot=GO1, most=((-0.3, 0.0, 0.0), (0.3, 0.0, 0.0))):
        episode = 7

    env = VectorEnv(Slow, 64, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=0)
    command = env.view.commands["velocity"]
    assert 0.2 < abs(command[:, 0]).max() <= 0.3 and not command[:, 1:].any()
    truncated = [env.step(np.zeros((64, 12), np.float32))[3] for _ in range(7)]
    assert truncated[-1].all() and not truncated[-2].any() and Slow.rewards.keys() == TASKS["Go1"].rewards.keys()


@needs_files
def test_a_robot_of_a_users_own_file(tmp_path):
    """A path instead of a package's file gives the same model, and a file that is missing is refused."""
    path = robot_file(GO1.file, GO1.package)
    own = legged_model(dataclasses.replace(GO1, file=path, package=None))
    other = legged_model(GO1)
    assert own.actuator_names == other.actuator_names and np.array_equal(own.body_mass, other.body_mass)
    with pytest.raises(ValueError, match="no such file"):
        legged_model(dataclasses.replace(GO1, file=str(tmp_path / "none.xml"), package=None))


@needs_files
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feet": ("FR_foot", "FL", "RR", "RL")}, "feet is 'FR_foot'"),
        ({"base": "trunkk"}, "base is 'trunkk'"),
        ({"trunk": ("body",)}, "trunk is 'body'"),
        ({"free": "root"}, "free is 'root'; choose one of ['floating_base_joint']"),
        ({"contacts": "foot"}, "contacts: nothing in"),
        ({"stance": {"hip": 0.1}}, "stance: nothing in"),
        ({"legs": ("left", "right")}, "legs: nothing in"),
        ({"legs": ("left",)}, "legs has 1 patterns"),
        ({"servos": {"[": GO1.servo("FR_hip_joint")}}, "servos: '[' is no pattern"),
        ({"moved": ()}, "moved is empty"),
        ({"moved": ("FR_hip",)}, "moved has 'FR_hip', which has no servo"),
        ({"height": -0.3}, "height is -0.3"),
    ],
)
def test_a_robot_that_its_file_does_not_have_is_refused(change, words):
    """Names and patterns that match nothing, instead of a robot that sinks into the ground."""
    with pytest.raises(ValueError, match=re.escape(words)):
        legged_model(dataclasses.replace(GO1, **change))


def test_feet_that_would_step_together_are_refused():
    """Left and right feet of which the clock has both up, and robots whose number of feet has no clock."""
    for feet, words in (
        (("FL", "RL", "RR", "FR"), "feet FL and FR would step together; give four feet"),
        (("FR", "FL", "RR"), "feet has 3 bodies; there are clocks for 2 and 4 feet"),
    ):
        with pytest.raises(ValueError, match=words):
            type("Own", (VelocityTracking,), {}, robot=dataclasses.replace(GO1, feet=feet))


@pytest.mark.skipif(not ASSETS, reason="needs pip install example-robot-data")
def test_rewards_that_see_a_fall_coming():
    """SHAC's terms `level` and `height` are sin² of the tilt and the squared share of the height that is missing."""
    env, rewards = VectorEnv("Quadruped", 2, device="cpu", dtype="float64"), TASKS["Quadruped"].smooth["rewards"]
    env.reset(seed=0)
    q, tilt = np.array(env.view.q), np.array([0.0, 0.7])
    q[:, :3] = [[0.0, 0.0, A1.height], [0.0, 0.0, 0.4 * A1.height]]
    q[:, 3:7] = np.stack([np.cos(tilt / 2), np.sin(tilt / 2), 0 * tilt, 0 * tilt], -1)
    env.view.write(q=q)
    for name, expected in (("level", np.sin(tilt) ** 2), ("height", [0.01, 0.25])):
        weight, term = rewards[name]
        assert weight == pytest.approx(-25.0 * env.view.dt)
        np.testing.assert_allclose(term(env.view), expected, atol=1e-9)
    assert not {"level", "height"} & set(TASKS["Quadruped"].rewards)
