# SPDX-License-Identifier: Apache-2.0
"""Tasks as ordinary environments of Gymnasium: its own checker, and a picture."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import warpsim as ws
from warpsim.envs import VectorEnv
from warpsim.envs.tasks import TASKS

gymnasium.register_envs(ws.envs)
COMMON = ("value is -infinity", "value is infinity", "symmetric and normalized space")


@pytest.mark.parametrize(
    "name",
    ["Ant", "CartPole", "HalfCheetah", "Hopper", "Humanoid", "InvertedPendulum", "Pusher", "Reacher", "Walker2d"],
)
def test_gymnasiums_checker(name):
    """Spaces, types, seeds, determinism, data that is not used again; it warns of nothing but what it warns of with Gymnasium's own."""
    env = gymnasium.make(f"warpsim/{name}-v0", render_mode="rgb_array", device="cpu")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    assert [x for x in found if not any(y in str(x.message) for y in COMMON)] == []


def test_it_is_the_first_world_of_a_vector():
    """The same numbers; pictures show something and move."""
    one = gymnasium.make("warpsim/Hopper-v0", render_mode="rgb_array", device="cpu")
    many = VectorEnv(TASKS["Hopper"], 3, device="cpu", autoreset="DISABLED")
    np.testing.assert_array_equal(one.reset(seed=5)[0], many.reset(seed=5)[0][0])
    pictures = [one.render()]
    for _ in range(20):
        action = many.action_space.sample()
        a, b = one.step(action[0]), many.step(action)
        np.testing.assert_array_equal(a[0], b[0][0])
        assert a[1:4] == (b[1][0], b[2][0], b[3][0])
    pictures.append(one.render())
    assert pictures[0].shape == (360, 480, 3) and pictures[0].dtype == np.uint8
    assert pictures[0].std() > 10 and (pictures[0] != pictures[1]).mean() > 0.01
