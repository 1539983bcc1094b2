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
    with pytest.raises(ValueError, match="load_state_dict: length"):
        b.load_state_dict(kept | {"length": np.zeros(29)})
    b.load_state_dict({name: value for name, value in kept.items() if name != "length"})
    steps = kept["view"]["steps"]
    assert [x[0] for x in lengths(b, EPISODE)] == [EPISODE - k for k in steps]


def test_refusals():
    with pytest.raises(ValueError, match="staggered episodes need a length"):
        ws.envs.VectorEnv(pole(None), 2, device="cpu").reset(options={"staggered": True})
    with pytest.raises(ValueError, match="staggered is 'yes'; use True or False"):
        ws.envs.VectorEnv(pole(), 2, device="cpu").reset(options={"staggered": "yes"})
    with pytest.raises(ValueError, match=r"no options\['stagger'\]; it has: reset_mask, staggered"):
        ws.envs.VectorEnv(pole(), 2, device="cpu").reset(options={"stagger": True})
