# SPDX-License-Identifier: Apache-2.0
"""Tasks with robots of example-robot-data: they stand, see the ground, take hold of things."""

import importlib.metadata

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv, manipulation
from warpsim.envs.legged import A1, ground
from warpsim.envs.manipulation import ARM, CUBE, OPEN, REST, ROOM, TIP, panda, tool_down
from warpsim.envs.rotations import matrix
from warpsim.envs.sensing import air_time, body_position, imu, projected_gravity, touches
from warpsim.simulator import Simulator

try:
    importlib.metadata.version("example-robot-data")
    HERE = True
except importlib.metadata.PackageNotFoundError:
    HERE = False
pytestmark = [pytest.mark.assets, pytest.mark.skipif(not HERE, reason="needs pip install example-robot-data")]


@pytest.mark.parametrize("name", ["Lift", "Quadruped", "QuadrupedRough", "Reach", "Rotate"])
def test_spaces_and_arrays(name):
    """Observations lie in their space; the same seed begins the same."""
    env = VectorEnv(TASKS[name], 5, device="cpu")
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    np.testing.assert_array_equal(env.reset(seed=1)[0], observation)


@pytest.mark.parametrize("name", ["Quadruped", "QuadrupedRough"])
def test_the_quadruped_stands(name):
    """Two seconds of the action 0: nobody falls, feet carry the weight, the trunk is level with the ground below."""
    env = VectorEnv(TASKS[name], 64, device="cpu", autoreset="DISABLED", events=())
    env.reset(seed=0)
    for _ in range(100):
        _, _, ended, _, _ = env.step(np.zeros((64, 12), np.float32))
        assert not ended.any()
    view, model = env.view, env.sim.model
    force = view.contact_force[:, [model.body(foot) for foot in A1.feet], 2].sum(-1)
    np.testing.assert_allclose(force, 9.81 * model.body_mass.sum(), rtol=0.02)
    np.testing.assert_allclose(projected_gravity("base")(view)[:, 2], -1.0, atol=0.02)
    if name == "QuadrupedRough":
        scan = env.task.observations["ground"](view)
        assert scan.shape == (64, 40) and np.abs(scan).max() < 0.6
        below = scan[:, 15:25].mean(-1)  # around the middle of the patch, which is flat
        np.testing.assert_allclose(-below, 0.27, atol=0.05)
        places = view.q[:, :2] - ground().starts[:, None, :2]
        assert (np.abs(places).max(-1).min(0) < 0.3).all()


def test_a_cube_is_gripped_and_lifted():
    """Inverse kinematics to the cube, fingers closed, up: it is held by friction, and falls where the fingers open."""
    model = panda(cube=True)
    sim = Simulator(model, 2, device="cpu", dtype="float64")
    rest = model.keyframes["rest"].q
    tip, cube = model.body(TIP), model.body("cube")

    def solved(target, q):
        """Joint angles that put the tip there, pointing down."""
        for _ in range(200):
            pose = sim.kinematics(q).numpy()[0, tip]
            w, x, y, z = pose[3:]
            down = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
            error = np.concatenate([np.cross(down, [0, 0, -1.0]), target - pose[:3]])
            J = sim.jacobian(q, TIP).numpy()[0][:, :7]
            q = q.copy()
            q[:7] += J.T @ np.linalg.solve(J @ J.T + 1e-4 * np.eye(6), error)
        assert np.abs(error).max() < 1e-3
        return q

    above = solved([0.5, 0.0, 0.15], rest)
    low = solved([0.5, 0.0, CUBE], above)
    state = sim.state(q=rest)

    def hold(q, grip, steps):
        nonlocal state
        for _ in range(steps):
            state = sim.step(state, np.tile(np.append(q[:7], grip), (2, 1)), substeps=1)

    for q, grip, steps in ((above, OPEN, 200), (low, OPEN, 200), (low, 0.0, 100), (above, 0.0, 300)):
        hold(q, grip, steps)
    assert len(ARM) == len(REST) == 7
    assert sim.kinematics(state.q).numpy()[:, cube, 2].min() > 0.1
    hold(above, OPEN, 100)
    np.testing.assert_allclose(sim.kinematics(state.q).numpy()[:, cube, 2], CUBE, atol=2e-3)


def test_the_tool_points_down():
    """Forward kinematics of `tool_down` is the place and the yaw that were asked for; out of reach it stays finite."""
    model, rng = panda(cube=True), np.random.default_rng(0)
    sim = Simulator(model, 64, device="cpu", dtype="float64")
    place, yaw = rng.uniform(*ROOM, (64, 3)), rng.uniform(-1.5, 1.5, 64)
    place[np.linalg.norm(place, axis=1) > 0.75] = [0.5, 0.1, 0.2]  # out of reach
    q = np.tile(model.keyframes["rest"].q, (64, 1))
    q[:, :7] = tool_down(np, place, yaw)
    low, high = model.joint_range[:7].T
    assert (q[:, :7] > low).all() and (q[:, :7] < high).all()
    poses = sim.kinematics(q).numpy()[:, model.body(TIP)]
    np.testing.assert_allclose(poses[:, :3], place, atol=1e-12)
    axes = matrix(np, poses[:, 3:])
    expected = np.stack([np.cos(yaw), np.sin(yaw), 0.0 * yaw], axis=-1)
    np.testing.assert_allclose(axes[:, :, 0], expected, atol=1e-12)
    np.testing.assert_allclose(axes[:, :, 2], np.tile([0.0, 0.0, -1.0], (64, 1)), atol=1e-12)
    far = tool_down(np, np.array([[2.0, 0.0, 0.5], [0.088, 0.0, 0.333 - 0.2104]]), np.zeros(2))
    assert np.isfinite(far).all()


def test_lift_can_be_done_by_hand():
    """Over the cube, turned as it is, down, closed, to the target: all cubes are placed, by actions within their bounds."""
    env = VectorEnv(TASKS["Lift"], 24, device="cpu", autoreset="DISABLED")
    env.reset(seed=100)
    for k in range(env.task.episode - 1):
        cube, tip = (env.view.poses[:, env.sim.model.body(name), :3] for name in ("cube", TIP))
        goal, grip = cube - tip, 1.0
        if k < 50:
            goal[:, 2] += 0.1
        elif k >= 90:
            grip = -1.0
        if k >= 110:
            goal = env.view.commands["target"] - cube
        turn = np.remainder(manipulation._turn(env.view) + np.pi, 2 * np.pi) - np.pi
        action = np.concatenate([goal / 0.05, turn[:, None], np.full((24, 1), grip)], axis=-1)
        _, _, ended, _, info = env.step(np.clip(action, -1, 1).astype(np.float32))
        assert not ended.any()
        assert k >= 90 or not env.succeeded().any()
    assert env.succeeded().all() and info["reward_carry"].min() > 9.0


def test_lift_is_resumed_with_the_same_bits():
    """The opening that the fingers are on their way to belongs to what is kept; it begins anew with an episode."""
    env, other = (VectorEnv(TASKS["Lift"], 4, device="cpu", autoreset="SAME_STEP", episode=5) for _ in range(2))
    actions = np.random.default_rng(0).uniform(-1, 1, (14, 4, 5)).astype(np.float32)
    env.reset(seed=100)
    for action in actions[:3]:
        env.step(action)
    other.load_state_dict(env.state_dict())
    for action in actions[3:]:
        a, b = env.step(action), other.step(action)
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)


def test_reach_and_lift_are_told_where():
    """Targets within their box, at another place every second, the same for both frameworks' tasks."""
    env = VectorEnv(TASKS["Reach"], 32, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=1)
    first = env.view.commands["target"].copy()
    for _ in range(100):
        env.step(np.zeros((32, 7), np.float32))
    assert (env.view.commands["target"] != first).any(-1).all()
    miss = env.task.observations["miss"](env.view)
    np.testing.assert_allclose(body_position(TIP)(env.view) + miss, env.view.commands["target"], atol=1e-6)
    lift = VectorEnv(TASKS["Lift"], 256, device="cpu")
    lift.reset(seed=1)
    cube = lift.view.q[:, 9:11]
    assert 0.39 < cube[:, 0].min() < 0.42 and 0.58 < cube[:, 0].max() < 0.61


def test_imu_and_air_time_of_a_falling_robot():
    """In the air an inertial unit feels nothing, standing it feels gravity upwards; feet count how long they were in the air."""
    task = type("Falling", (TASKS["Quadruped"],), {})
    task.observations = {"imu": imu("base"), "air": air_time(*A1.feet), "touch": touches(*A1.feet)}
    task.starts, task.events = task.starts[:1], ()
    env = VectorEnv(task, 2, device="cpu", autoreset="DISABLED", dtype="float64")
    env.reset(seed=0)
    q = env.view.q.copy()
    q[:, 2] += 0.5
    env.view.write(q=q)
    rows = np.array([env.step(np.zeros((2, 12)))[0] for _ in range(400)])
    np.testing.assert_allclose(rows[1:10, :, 3:6], 0.0, atol=0.6)  # legs swing a little
    np.testing.assert_allclose(rows[-1, :, 3:6], -9.81 * projected_gravity("base")(env.view), atol=0.05)
    since, landed = np.zeros(4), []
    for row in rows[:, 0]:
        since += env.view.dt
        landed.append(since[(row[7:] > 0.5) & (since > 1.5 * env.view.dt)].sum())
        since[row[7:] > 0.5] = 0.0
    np.testing.assert_allclose(rows[:, 0, 6], landed, atol=1e-5)
    assert max(landed) > np.sqrt(2 * 0.5 / 9.81)  # all feet at once, or one after the other
