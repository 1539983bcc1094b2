# SPDX-License-Identifier: Apache-2.0
"""Law: with `staggered`, first episodes end at random, later ones after their whole length; nothing else changes."""

import numpy as np
import pytest

import warpsim as ws

EPISODE = 8


def pole(episode=EPISODE, **more):
    seen = {"q": lambda s: s.q}
    return ws.envs.Task(model=ws.robots.path("cartpole"), observations=seen, episode=episode, **more)


def lengths(env, steps: int, push=None) -> list[list[int]]:
    """Lengths of the episodes that ended in each world."""
    found, now = [[] for _ in range(env.num_envs)], np.zeros(env.num_envs, int)
    push = np.zeros(env.action_space.shape, np.float32) if push is None else push
    for _ in range(steps):
        now += 1
        truncated = np.asarray(env.step(env.arrays.made(push))[3])
        for world in truncated.nonzero()[0]:
            found[world].append(int(now[world]))
        now[truncated] = 0
    return found


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_first_episodes_end_at_random_and_later_ones_are_whole(array):
    pytest.importorskip(array)
    env = ws.envs.VectorEnv(pole(), 400, device="cpu", array=array, autoreset="SAME_STEP")
    env.reset(seed=3, options={"staggered": True})
    found = lengths(env, 3 * EPISODE)
    counts = np.bincount([x[0] for x in found], minlength=EPISODE + 1)
    assert counts[0] == 0 and len(counts) == EPISODE + 1
    assert (abs(counts[1:] - 50.0) < 4.5 * 50.0**0.5).all()  # uniform over 1 … 8
    assert {length for x in found for length in x[1:]} == {EPISODE}


def test_lengths_depend_on_the_world_alone():
    options = {"device": "cpu", "autoreset": "SAME_STEP"}
    whole, part = ws.envs.VectorEnv(pole(), 6, **options), ws.envs.VectorEnv(pole(), 2, first_world=3, **options)
    for env in (whole, part):
        env.reset(seed=5, options={"staggered": True})
    assert lengths(part, 20) == lengths(whole, 20)[3:5]


def test_other_worlds_and_later_resets_are_left_alone():
    env = ws.envs.VectorEnv(pole(), 50, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=1)
    some = np.arange(50) < 25
    env.reset(options={"reset_mask": some, "staggered": True})
    found = lengths(env, EPISODE)
    assert {x[0] for x in found[25:]} == {EPISODE} and len({x[0] for x in found[:25]}) > 3
    env.reset()
    assert {x[0] for x in lengths(env, EPISODE)} == {EPISODE}


def test_a_checkpoint_keeps_the_lengths_and_an_older_one_has_none():
    a, b = (ws.envs.VectorEnv(pole(), 30, device="cpu", autoreset="SAME_STEP") for _ in range(2))
    a.reset(seed=2, options={"staggered": True})
    lengths(a, 3)
    kept = a.state_dict()
    b.load_state_dict(kept)
    assert lengths(a, EPISODE) == lengths(b, EPISODE)
    for wrong in (np.zeros(29), np.full(30, np.nan), np.full(30, -1.0), [[0.0], [0.0, 1.0]]):
        with pytest.raises(ValueError, match="load_state_dict: cut is"):
            b.load_state_dict(kept | {"cut": wrong})
    b.load_state_dict({name: value for name, value in kept.items() if name != "cut"})
    steps = kept["view"]["steps"]
    assert [x[0] for x in lengths(b, EPISODE)] == [EPISODE - k for k in steps]


def test_a_task_that_changes_its_length_changes_all_later_truncations():
    env = ws.envs.VectorEnv(pole(), 20, device="cpu", autoreset="SAME_STEP")
    env.reset(options={"staggered": True})
    lengths(env, EPISODE)
    env.reset()
    env.task.episode = 3
    assert {x[0] for x in lengths(env, 3)} == {3}


def test_lengths_have_their_own_random_numbers():
    """A start that draws with index 0 gets other numbers."""

    def start(view, values):
        values["q"] = values["q"] + 0.1 * view.uniform(1, draw=0)

    env = ws.envs.VectorEnv(pole(100, starts=(start,)), 200, device="cpu")
    env.reset(seed=1, options={"staggered": True})
    assert abs(np.corrcoef(env.view.q[:, 0], env.state_dict()["cut"])[0, 1]) < 0.3


def test_curricula_do_not_count_what_was_cut_short():
    command = ws.envs.terms.widening_command(-1.0, 1.0, every=4, success=lambda s: 1.0 + 0.0 * s.q[:, 0], first=0.1)
    env = ws.envs.VectorEnv(pole(commands={"target": command}), 64, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=1, options={"staggered": True})
    before = command_of(env).share
    for _ in range(3 * EPISODE):
        env.step(np.zeros((64, 1)))
        now = command_of(env).share
        assert (now >= before).all()
        before = now


def command_of(env):
    return env.task.commands["target"]


def test_mixed_environments_refuse_before_any_part_begins():
    env = ws.envs.MixedEnv([pole(), pole(None)], 4, device="cpu")
    env.reset(seed=1)
    env.step(np.zeros((4, 1)))
    with pytest.raises(ValueError, match="Task has no episode length"):
        env.reset(options={"staggered": True})
    assert env.parts[0].view.steps.tolist() == [1, 1]


def test_learners_report_whole_episodes_alone():
    """With a reward of −1 per action every return that is reported is that of a whole episode."""
    pytest.importorskip("rsl_rl")
    from warpsim.envs.training import make_learner

    class Cost(ws.envs.Task):
        model = ws.robots.path("cartpole")
        episode, action_range = 12, ([-1.0], [1.0])
        observations = {"q": lambda s: s.q}
        rewards = {"cost": lambda s: -1.0 + 0.0 * s.q[:, 0]}
        terminations = {}

    learner = make_learner("ppo", Cost, seed=1, num_envs=16, device="cpu", learning={"ppo": {"horizon": 4}})
    told = [learner.iterate()["return"] for _ in range(9)]
    assert told[2] is None and {x for x in told if x is not None} == {-12.0}


def test_refusals():
    with pytest.raises(
        ValueError, match="Task has no episode length, which staggered episodes need; give it an episode"
    ):
        ws.envs.VectorEnv(pole(None), 2, device="cpu").reset(options={"staggered": True})
    with pytest.raises(ValueError, match="staggered is 'yes'; use True or False"):
        ws.envs.VectorEnv(pole(), 2, device="cpu").reset(options={"staggered": "yes"})
    with pytest.raises(ValueError, match=r"no options\['stagger'\]; it has: reset_mask, staggered"):
        ws.envs.VectorEnv(pole(), 2, device="cpu").reset(options={"stagger": True})
