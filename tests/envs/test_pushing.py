# SPDX-License-Identifier: Apache-2.0
"""Push: what moves the box, what the policy sees, what success is, gradients through the contact of paddle and box."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.pushing import BEHIND, BOX_MASS, FRICTION, GOALS, KV, SPEED


def made(worlds, **options):
    return VectorEnv(TASKS["Push"], worlds, device="cpu", autoreset="DISABLED", **options)


def test_friction_moves_and_stops_the_box():
    """The servo slips by what friction takes, μ m g / kv; the box goes along, lies flat, and stays where the paddle leaves."""
    env = made(32)
    env.reset(seed=100)
    forward = np.tile(np.array([0.4, 0.0, 0.0], np.float32), (32, 1))
    for _ in range(25):
        env.step(forward)
    v, q = env.view.v.copy(), env.view.q.copy()
    speed = np.linalg.norm(v[:, :2], axis=1)
    expected = 0.4 * SPEED[0] - FRICTION * BOX_MASS * 9.81 / KV
    np.testing.assert_allclose(speed, expected, rtol=0.01)
    moved = np.linalg.norm(q[:, 3:5], axis=1)
    np.testing.assert_allclose(moved, 25 * env.view.dt * expected, rtol=0.1)
    np.testing.assert_allclose(q[:, 5], 0.0, atol=1e-3)
    for _ in range(10):
        env.step(-forward)
    before = env.view.q.copy()
    for _ in range(25):
        env.step(-forward)
    np.testing.assert_allclose(env.view.q[:, 3:], before[:, 3:], atol=1e-4)


def test_the_policy_sees_the_box_frame():
    """Turned and shifted as a whole, box, paddle and goal look the same; rewards are the same too."""
    env = made(2)
    env.reset(seed=100)
    turn, shift = 0.7, np.array([0.2, -0.1])
    c, s = np.cos(turn), np.sin(turn)
    R = np.array([[c, -s], [s, c]])
    q, v, goal = (np.repeat(x[:1], 2, 0) for x in (env.view.q, env.view.v + 0.3, env.view.commands["goal"]))
    for k in (0, 3):
        q[1, k : k + 2], v[1, k : k + 2] = R @ q[1, k : k + 2] + shift, R @ v[1, k : k + 2]
    q[1, [2, 6]] += turn
    goal[1, :2], goal[1, 2] = R @ goal[1, :2] + shift, goal[1, 2] + turn
    env.view.write(q=q, v=v)
    env.view.commands["goal"] = goal
    seen = env.task.observations["seen"](env.view)
    np.testing.assert_allclose(seen[1], seen[0], atol=1e-6)
    for name, (_, term) in env.task.rewards.items():
        value = term(env.view)
        assert value[0] == pytest.approx(value[1], abs=1e-6), name


def test_success_is_3_cm_and_15_degrees():
    """Both at once."""
    env = made(4)
    env.reset(seed=100)
    q, goal = env.view.q.copy(), env.view.commands["goal"]
    q[:, 3:5], q[:, 6] = goal[:, :2], goal[:, 2]
    q[:, 3] += np.array([0.029, 0.031, 0.0, 0.0])
    q[:, 6] += np.radians([14.0, 0.0, 14.0, 16.0])
    env.view.write(q=q)
    assert env.succeeded().tolist() == [True, False, True, False]


def test_starts_and_goals():
    """The paddle begins 2 mm behind the box, in the box's direction; goals fill their ranges; worlds and seeds differ."""
    env = made(256)
    env.reset(seed=100)
    q, goal = env.view.q, env.view.commands["goal"]
    c, s = np.cos(q[:, 6]), np.sin(q[:, 6])
    x, y = q[:, 0] * c + q[:, 1] * s, q[:, 1] * c - q[:, 0] * s
    np.testing.assert_allclose(x, -BEHIND, atol=1e-5)
    assert np.abs(y).max() < 0.02 and np.ptp(y) > 0.03 and np.ptp(q[:, 6]) > 0.9
    np.testing.assert_array_equal(q[:, 2], q[:, 6])
    low, high = np.array(GOALS)
    assert (goal >= low).all() and (goal < high).all() and (np.ptp(goal, axis=0) > 0.9 * (high - low)).all()


def test_it_is_resumed_with_the_same_bits():
    """From the state that is kept, over the beginning of new episodes."""
    env = VectorEnv(TASKS["Push"], 8, device="cpu", autoreset="SAME_STEP", episode=7)
    other = VectorEnv(TASKS["Push"], 8, device="cpu", autoreset="SAME_STEP", episode=7)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (20, 8, 3)).astype(np.float32)
    env.reset(seed=100)
    for action in actions[:5]:
        env.step(action)
    other.load_state_dict(env.state_dict())
    for action in actions[5:]:
        a, b = env.step(action), other.step(action)
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])


def test_gradients_reach_the_box():
    """Of rewards by actions, in softened contact from the first action on: central differences in float64."""
    torch = pytest.importorskip("torch")
    options = {"solver": ws.SAP(tolerance=1e-12).smoothed(0.3)}
    env = made(2, array="torch", requires_grad=True, dtype="float64", options=options)
    rng = np.random.default_rng(1)
    table = torch.tensor(0.3 * rng.standard_normal((8, 2, 3)) + [0.5, 0.0, 0.0], requires_grad=True)

    def played(actions):
        env.reset(seed=100)
        env.detach()
        return sum(env.step(action)[1].sum() for action in actions)

    played(table).backward()
    assert float(table.grad[0].abs().min()) > 0.0
    for entry in ((0, 0, 0), (0, 1, 2), (4, 1, 1)):
        errors = []
        for h in (1e-4, 1e-5, 1e-6):
            values = []
            for sign in (1.0, -1.0):
                moved = table.detach().clone()
                moved[entry] += sign * h
                with torch.no_grad():
                    values.append(played(moved).item())
            difference = (values[0] - values[1]) / (2 * h)
            errors.append(abs(difference / table.grad[entry].item() - 1.0))
        assert min(errors) < 1e-5, (entry, errors)
