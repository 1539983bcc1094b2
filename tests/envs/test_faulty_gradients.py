# SPDX-License-Identifier: Apache-2.0
"""A world that is no number gives no gradient and changes none of the others'; what has no gradient is refused when the environment is made."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import warpsim as ws  # noqa: E402
from warpsim.envs import Task, VectorEnv, terms  # noqa: E402

WORLDS, STEPS, BAD, WHEN = 5, 5, 2, 3  # the world that fails, and the action in which it does


def failing(s, steps: int, value):
    """The value, and in the faulty world at its time what is no number, nor has a derivative that is one."""
    hit = torch.as_tensor(s.numbers == BAD) & (s.steps == steps)
    hit = hit.reshape(-1, *(1,) * (value.ndim - 1))
    return value * torch.sqrt(torch.where(hit, -1.0 - value**2, 1.0 + 0.0 * value))


class Rail(Task):
    """A pole on a cart, rewarded for its motion."""

    model = ws.robots.path("cartpole")
    timestep, decimation, episode = 0.01, 2, None
    observations = {"q": terms.positions(), "v": terms.velocities()}
    rewards = {"x": lambda s: s.q[:, 0] ** 2, "v": lambda s: s.v[:, 0], "a": (-0.1, terms.action_squared)}
    starts = (terms.start_noise(q=0.1, v=0.1),)


FAULTS = {
    "reward": {"rewards": {**Rail.rewards, "x": lambda s: failing(s, WHEN, s.q[:, 0]) ** 2}},
    "observation": {"observations": {**Rail.observations, "q": lambda s: failing(s, WHEN, s.q)}},
    "state": {"actuators": (lambda s, action: failing(s, WHEN - 1, action),)},
}
GOOD = {
    "reward": {"rewards": {**Rail.rewards, "x": lambda s: failing(s, -1, s.q[:, 0]) ** 2}},
    "observation": {"observations": {**Rail.observations, "q": lambda s: failing(s, -1, s.q)}},
    "state": {"actuators": (lambda s, action: failing(s, -1, action),)},
}


def played(mode: str, task: dict, last: int):
    """Gradients of the rewards, of the faulty world's up to action `last`, by weights that all worlds share and by a disturbance of every action."""
    env = VectorEnv(Rail, WORLDS, array="torch", requires_grad=True, device="cpu", autoreset=mode, **task)
    observation, _ = env.reset(seed=4)
    weights = torch.tensor([[0.3, -0.2, 0.1, 0.4]], requires_grad=True)
    disturbance = torch.zeros((STEPS, WORLDS, 1), requires_grad=True)
    others, total, info = torch.arange(WORLDS) != BAD, 0.0, {}
    for k in range(STEPS):
        observation, reward, _, _, info = env.step(observation @ weights.T + disturbance[k])
        assert torch.isfinite(observation).all() and torch.isfinite(reward).all()
        total = total + (reward if k < last else reward[others]).sum()
        if "final_obs" in info:
            total = total + 0.0 * (info["final_obs"] @ weights.T).sum()
    total.backward()
    return env, weights.grad, disturbance.grad


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_world_has_no_gradient(fault, mode):
    """Weights that all worlds share have the gradient of the worlds and actions that are numbers, bit for bit; the fault is counted."""
    env, weights, actions = played(mode, FAULTS[fault], WHEN)
    healthy, expected_weights, expected_actions = played(mode, GOOD[fault], WHEN - 1)
    assert (env.faults[np.arange(WORLDS) != BAD] == 0).all() and env.faults[BAD] >= 1 and not healthy.faults.any()
    assert torch.equal(weights, expected_weights) and torch.equal(actions, expected_actions)
    assert expected_weights.abs().min() > 0.0 and (actions[WHEN - 1, BAD] == 0.0).all()
    assert (actions[: WHEN - 1, BAD] != 0.0).all()


def test_a_gradient_that_is_no_number_is_taken_as_none():
    """A reward that is a number where its derivative is not: that world's gradient is 0 and counted, the others' are as they were."""
    found, hit = [], torch.arange(WORLDS) == BAD
    for power in (0.5, 2.0):

        def steep(s, power=power):
            base = torch.where(hit, 0.0 * s.q[:, 0], 1.0 + 0.0 * s.q[:, 0])
            return base**power * s.q[:, 0]

        rewards = {"x": steep}
        env = VectorEnv(Rail, WORLDS, array="torch", requires_grad=True, device="cpu", rewards=rewards)
        env.reset(seed=4)
        action = torch.zeros((WORLDS, 1), requires_grad=True)
        env.step(action)[1].sum().backward()
        found.append((action.grad, env.gradient_faults.tolist(), env.faults.tolist()))
    assert torch.equal(found[0][0], found[1][0]) and found[0][0][BAD] == 0.0
    assert [x[1] for x in found] == [[0, 0, 1, 0, 0], [0] * WORLDS] and found[0][2] == [0] * WORLDS


def test_shac_learns_with_a_faulty_world(monkeypatch):
    """No round is skipped, and the faults are told."""
    from warpsim.envs.shac import ShacLearner
    from warpsim.envs.tasks import TASKS

    class CartPole(TASKS["CartPole"]):
        rewards = {"x": lambda s: -(failing(s, 5, s.q[:, 0]) ** 2)}

    monkeypatch.setitem(TASKS, "CartPole", CartPole)
    learner = ShacLearner("CartPole", num_envs=8, device="cpu")
    told = [learner.iterate() for _ in range(2)]
    assert learner.env.faults.sum() >= 1 and told[-1]["skipped"] == 0
    assert told[-1]["faults"] == learner.env.faults.sum()


def test_a_push_is_refused_at_once():
    """It writes to velocities, which has no gradient: said when the environment is made, by the term's name."""
    with pytest.raises(ValueError, match="push"):
        VectorEnv(Rail, 1, array="torch", requires_grad=True, device="cpu", events=(terms.push("slide", 1.0, 50),))


def test_a_parameter_of_a_term_learns_from_the_others():
    """Where a state is no number, a parameter of a reward, which all worlds share, has the gradient of the others."""
    found = []
    for task in (FAULTS["state"], GOOD["state"]):
        weight = torch.ones((), requires_grad=True)
        rewards = {"x": lambda s, weight=weight: weight * (s.poses[:, -1, :3] ** 2).sum(-1)}
        env = VectorEnv(Rail, WORLDS, array="torch", requires_grad=True, device="cpu", rewards=rewards, **task)
        env.reset(seed=4)
        total = 0.0
        for k in range(WHEN):
            reward = env.step(torch.zeros((WORLDS, 1)))[1]
            total = total + (reward if k + 1 < WHEN else reward[torch.arange(WORLDS) != BAD]).sum()
        total.backward()
        found.append(weight.grad)
    assert torch.equal(*found) and found[0] > 0.0
