# SPDX-License-Identifier: Apache-2.0
"""Rotate: the cube rests in the palm, turning is measured about the vertical, a dropped cube ends the episode."""

import importlib.metadata

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.in_hand import CUBE, PLACE, TIPS
from warpsim.envs.rotations import product

HERE = any(d.name == "example-robot-data" for d in importlib.metadata.distributions())


def made(worlds, **options):
    return VectorEnv(TASKS["Rotate"], worlds, device="cpu", autoreset="DISABLED", **options)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(ValueError, match=r"allegro_right_hand\.urdf .* pip install example-robot-data"):
        made(1)


@pytest.mark.assets
@pytest.mark.skipif(not HERE, reason="needs pip install example-robot-data")
class TestHand:
    def test_the_cube_rests_in_the_palm(self):
        """Two seconds of the action 0: four contact points with the palm carry it, tips keep their distance, nothing turns."""
        env = made(8)
        env.reset(seed=100)
        for _ in range(50):
            _, _, ended, _, info = env.step(np.zeros((8, 16), np.float32))
            assert not ended.any()
        np.testing.assert_allclose(env.view.q[:, 16:19], np.tile(PLACE, (8, 1)), atol=1e-3)
        np.testing.assert_allclose(info["reward_turning"], 0.0, atol=1e-3)
        palm = env.view.contact_force[:, env.sim.model.body("palm_link"), 2]
        np.testing.assert_allclose(-palm, 9.81 * env.sim.model.body_mass[-1], rtol=0.01)
        gap = env.task.observations["tips"](env.view).reshape(8, len(TIPS), 3)
        assert (np.abs(gap).max(-1) > CUBE + 0.012).all()

    def test_turning_is_about_the_vertical(self):
        """The cube in any orientation, turned by a quaternion about z or x: the angle per time, or none; half turns add up."""
        env = made(3)
        env.reset(seed=100)
        rng = np.random.default_rng(0)
        first = rng.standard_normal((3, 4))
        first /= np.linalg.norm(first, axis=1)[:, None]
        c, s = np.cos(0.05), np.sin(0.05)
        turned = product(np, np.array([[c, 0, 0, s], [c, 0, 0, -s], [c, s, 0, 0]]), first)
        q = env.view.q.copy()
        q[:, 19:] = first
        env.view.q_before = q.astype(np.float32)
        q[:, 19:] = turned
        env.view.write(q=q)
        _, term = env.task.rewards["turning"]
        np.testing.assert_allclose(term(env.view), [1.0, -1.0, 0.0], atol=1e-5)  # 2 rad/s, bounded
        env.view.tick += 1
        success = env.task.success["turned"]
        success(env.view)
        np.testing.assert_allclose(success.angle, [0.1, -0.1, 0.0], atol=1e-5)
        success(env.view)  # a second time in the same action counts nothing
        np.testing.assert_allclose(success.angle, [0.1, -0.1, 0.0], atol=1e-5)

    def test_a_dropped_cube_ends_the_episode(self):
        """Beside the palm, with its penalty; in the palm not."""
        env = made(2)
        env.reset(seed=100)
        q = env.view.q.copy()
        q[1, 17] += 0.09
        env.view.write(q=q)
        _, _, ended, _, info = env.step(np.zeros((2, 16), np.float32))
        assert ended.tolist() == [False, True] and info["reward_dropped"].tolist() == [0.0, -10.0]
        assert not env.succeeded().any()

    def test_it_is_resumed_with_the_same_bits(self):
        """Actions, contact of the tips and the angle turned so far."""
        env, other = made(4), made(4)
        actions = np.random.default_rng(0).uniform(-1, 1, (12, 4, 16)).astype(np.float32)
        env.reset(seed=100)
        for action in actions[:6]:
            env.step(action)
            env.succeeded()
        other.load_state_dict(env.state_dict())
        for action in actions[6:]:
            a, b = env.step(action), other.step(action)
            np.testing.assert_array_equal(a[0], b[0])
            np.testing.assert_array_equal(a[1], b[1])
            np.testing.assert_array_equal(env.succeeded(), other.succeeded())
        np.testing.assert_array_equal(*(e.task.success["turned"].angle for e in (env, other)))
