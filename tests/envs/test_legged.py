# SPDX-License-Identifier: Apache-2.0
"""Legged robots of mjlab's files: they stand by their servos, resume with the same bits, and say what is missing."""

import importlib.metadata

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.legged import G1, GO1, LEG, Servo, legged_model
from warpsim.envs.robot_files import robot_file
from warpsim.simulator import Simulator

try:
    importlib.metadata.version("mjlab")
    HERE = True
except importlib.metadata.PackageNotFoundError:
    HERE = False
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
@pytest.mark.parametrize("name", ["Go1", "Go1Rough", "G1", "G1Rough"])
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


@needs_files
def test_tables_name_every_joint():
    """Each servo is on a joint of its own; what has no entry is passive and rests at 0."""
    assert len(G1.joints) == 29 and len(set(G1.joints)) == 29 and len(GO1.joints) == 12
    assert G1.joints[:12] == G1.moved and [f"left_{part}_joint" for part in LEG] == list(G1.moved[:6])
    assert G1.servo("left_knee_joint") == Servo(250.0, 5.0, 139.0, 0.0251) and G1.servo("floating_base_joint") is None
    assert G1.pose(["waist_yaw_joint", "right_shoulder_roll_joint"]).tolist() == [0.0, -0.2]
