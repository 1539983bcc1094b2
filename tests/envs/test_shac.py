# SPDX-License-Identifier: Apache-2.0
"""SHAC's critic learns TD(λ) returns over the last rounds; the policy that is evaluated is an average."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("rsl_rl")


def make(task="cartpole", **given):
    from warpsim.envs.training import make_learner

    learning = {"shac": {"horizon": 2, "hidden": (8,), **given}}
    return make_learner("shac", task, num_envs=3, device="cpu", learning=learning)


def test_returns_reach_over_rounds_and_end_with_episodes():
    """The λ-return by its definition, a mean of n-step returns with weights (1 - λ) λⁿ⁻¹, over six actions of three
    rounds: a world whose episode never ends, one that terminates, one whose time is up."""
    import torch

    learner = make(critic_horizon=6)
    while len(learner.past.get("reward", ())) < 6:
        learner.iterate()
    past = learner.past
    past["ended"], past["terminated"] = (torch.zeros((6, 3), dtype=torch.bool) for _ in range(2))
    past["ended"][2, 1] = past["terminated"][2, 1] = past["ended"][3, 2] = True
    past["reward"] = torch.randn((6, 3), generator=torch.Generator().manual_seed(1))
    gamma, lam = learner.settings.gamma, learner.settings.lam
    with torch.no_grad():
        value = learner.target(learner.standard(past["after"])).squeeze(-1).double().numpy()
    reward, found = past["reward"].double().numpy(), learner._returns().numpy()
    for world, last in ((0, 5), (1, 2), (2, 3)):
        for first in range(last + 1):
            steps = []
            for n in range(1, last - first + 2):
                end = first + n - 1
                closing = 0.0 if past["terminated"][end, world] else value[end, world]
                steps.append(sum(gamma**k * reward[first + k, world] for k in range(n)) + gamma**n * closing)
            weights = [(1.0 - lam) * lam**n for n in range(len(steps) - 1)] + [lam ** (len(steps) - 1)]
            np.testing.assert_allclose(found[first, world], np.dot(weights, steps), rtol=1e-5)


def test_the_critic_forgets_older_rounds():
    """It learns from as many rounds as `critic_horizon` actions take, of two actions each, the last round last."""
    for actions, rounds in ((1, 1), (2, 1), (3, 2), (4, 2)):
        learner = make(critic_horizon=actions)
        lengths = []
        for _ in range(3):
            learner.iterate()
            lengths.append(len(learner.past["reward"]))
        assert lengths == [2, min(4, 2 * rounds), 2 * rounds]
        before = {name: x.clone() for name, x in learner.past.items()}
        learner.iterate()
        kept = len(before["reward"]) - 2
        assert all((learner.past[name][:kept] == x[2:]).all() for name, x in before.items())


@pytest.mark.parametrize("averaging", [0.0, 0.4])
def test_the_average_of_the_weights_acts(averaging):
    """It keeps 1/10, 2/11, … of the old average, at most `averaging` per action; evaluation and export use it."""
    import torch

    learner = make(averaging=averaging)
    expected = [x.detach().clone() for x in learner.actor.parameters()]
    for k in range(3):
        learner.iterate()
        kept = min(averaging**2, (1 + k) / (10 + k))  # rounds of two actions
        expected = [
            kept * a + (1.0 - kept) * b.detach() for a, b in zip(expected, learner.actor.parameters(), strict=True)
        ]
    for a, b in zip(expected, learner.average.parameters(), strict=True):
        torch.testing.assert_close(a, b.detach())
    observation = learner.observation.detach()
    with torch.no_grad():
        acted = learner.middle + learner.half * torch.tanh(learner.average(learner.standard(observation)))
        assert (learner.act(observation) == acted).all() and (learner.policy()(observation) == acted).all()
        last = learner.middle + learner.half * torch.tanh(learner.actor(learner.standard(observation)))
    assert torch.equal(acted, last) == (averaging == 0.0)


def test_episodes_that_are_shorter_in_training():
    """`smooth` can shorten episodes: worlds of the training begin anew after so many actions, an evaluation has all."""
    from warpsim.envs import TASKS

    kind = type("Short", (TASKS["CartPole"],), {"smooth": {"episode": 2}, "terminations": {}, "episode": 7})
    learner = make(kind)
    for _ in range(2):  # two actions each
        learner.iterate()
    assert learner.episodes >= 3 and learner.past["ended"].any() and not learner.past["terminated"].any()
    assert learner.evaluate(2)["lengths"] == [7, 7]


def test_the_best_of_the_validated_averages_acts(tmp_path):
    """It is evaluated every `validate_every` actions; the policy stays that one while later averages are worse, with the
    normalization of then, through a checkpoint too. What learns is the same as without."""
    import torch

    from warpsim.envs.shac import VALIDATION_EPISODES, VALIDATION_SEED
    from warpsim.envs.training import load_learner

    learner, plain = make(validate_every=4, averaging=0.0), make(averaging=0.0)
    observation = learner.observation.detach()
    means, policies = [], []
    for _ in range(8):
        learner.iterate()
        plain.iterate()
        if learner.iteration % 2 == 0:
            judge = plain.judge()
            means.append(judge.evaluate(VALIDATION_EPISODES, seed=VALIDATION_SEED)["return"])
            policies.append(plain.policy())
        with torch.no_grad():
            expected = policies[int(np.argmax(means))] if means else plain.policy()
            assert torch.equal(learner.act(observation), expected(observation))
            assert torch.equal(learner.policy()(observation), expected(observation))
    assert learner.validated == pytest.approx(max(means)) and len(set(means)) > 1
    assert all(torch.equal(a, b) for a, b in zip(learner.actor.parameters(), plain.actor.parameters(), strict=True))
    learner.save(tmp_path / "checkpoint.pt")
    again = load_learner(tmp_path / "checkpoint.pt", device="cpu")
    assert torch.equal(again.act(observation), learner.act(observation)) and again.validated == learner.validated
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    for wrong in ("9", None, float("nan"), float("inf"), -float("inf")):
        kept["learned"]["validated"] = wrong
        torch.save(kept, tmp_path / "wrong.pt")
        with pytest.raises(ValueError, match="validated is "):
            load_learner(tmp_path / "wrong.pt", device="cpu")


def test_the_last_average_competes_at_the_end(tmp_path):
    """What a training returns is no worse than the best of its averages, of which the last may not have had its turn;
    iterations that follow forget the outcome. An average of which an episode fails is not chosen."""
    import torch

    from warpsim.envs.training import load_learner

    learner = make(validate_every=8, averaging=0.0)
    observation = learner.observation.detach()
    for _ in range(6):  # two actions each: validated after the fourth
        learner.iterate()
    value, before = learner.validated, learner.act(observation)
    last = learner._validation()
    learner.conclude()
    expected = learner.latest(observation) if last > value else before
    assert torch.equal(learner.act(observation), expected) and learner.validated == value
    learner.save(tmp_path / "checkpoint.pt")
    again = load_learner(tmp_path / "checkpoint.pt", device="cpu")
    assert torch.equal(again.act(observation), expected)
    learner.validated = -1e9  # so that the last one is the better
    learner.conclude()
    assert torch.equal(learner.act(observation), learner.latest(observation))
    learner.save(tmp_path / "checkpoint.pt")
    assert torch.equal(
        load_learner(tmp_path / "checkpoint.pt", device="cpu").act(observation), learner.act(observation)
    )
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    for name in ("best", "final"):  # each has a normalization of its own
        wrong = copy.deepcopy(kept)
        wrong["learned"][name]["standard.variance"].fill_(-1.0)
        torch.save(wrong, tmp_path / "wrong.pt")
        with pytest.raises(ValueError, match="variance is negative"):
            load_learner(tmp_path / "wrong.pt", device="cpu")
    learner.iterate()
    assert torch.equal(learner.act(observation), learner.best(observation))
    with torch.no_grad():
        learner.standard.mean.fill_(float("nan"))
    learner.conclude()
    assert learner.final is None and learner._validation() == -float("inf")


def test_observations_are_as_they_are_without_normalization():
    import torch

    learner = make(obs_normalization=False)
    rows = 50.0 * torch.ones_like(learner.observation)
    assert torch.equal(learner.standard(rows), rows)


@pytest.mark.parametrize(("own", "learning", "staggered"), [(5, None, False), (None, 5, True)])
def test_episodes_are_staggered_where_those_that_learn_have_a_length(own, learning, staggered):
    """`smooth` may change `episode`."""
    import warpsim as ws

    class Changed(ws.envs.TASKS["CartPole"]):
        episode, smooth = own, {"episode": learning}

    learner = make(Changed)
    assert (learner.env.state_dict()["cut"] is not None) == staggered
    learner.iterate()


def test_actions_without_bounds_are_refused_before_anything_compiles(monkeypatch):
    """By the task's name and with the fix; a reset, which would compile, is not reached."""
    import warpsim as ws

    class Free(ws.envs.TASKS["CartPole"]):
        action_range = (np.array([-np.inf]), np.array([np.inf]))

    def reset(*arguments, **options):
        raise AssertionError("compiles")

    monkeypatch.setattr("warpsim.envs.vector_env.VectorEnv.reset", reset)
    with pytest.raises(ValueError, match="Free: shac needs actions with bounds; give the task an action_range"):
        make(Free)
