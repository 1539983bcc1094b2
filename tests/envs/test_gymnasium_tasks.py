# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's own environments: on equal states and actions the same observations, rewards and ends; quantities about centres of mass."""

import gymnasium
import mujoco
import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv
from warpsim.envs.com_based import centre_wrench

LONG = {
    "HalfCheetah": 10,
    "Hopper": 50,
    "Humanoid": 30,
    "InvertedPendulum": 20,
    "Reacher": 50,
    "Walker2d": 30,
}  # actions without contact
NAMES = [name for name in TASKS if f"{name}-v5" in gymnasium.registry]


def rows_of(name: str, steps: int):
    """Gymnasium's environment played at random: q before, q, v, action, and its observation, reward and end at these, without contact forces."""
    theirs = gymnasium.make(f"{name}-v5").unwrapped
    theirs.reset(seed=4)
    rng, rows = np.random.default_rng(0), []
    at, space = theirs.set_state, theirs.action_space
    for _ in range(steps):
        before, speed = theirs.data.qpos.copy(), theirs.data.qvel.copy()
        action = rng.uniform(space.low, space.high).astype(np.float32)
        _, _, terminated, *_ = theirs.step(action)
        q, v = theirs.data.qpos.copy(), theirs.data.qvel.copy()
        for part in (q[3:7],) if name in ("Ant", "Humanoid", "HumanoidStandup") else ():
            part /= np.linalg.norm(part)
        at(before, speed)
        kept = theirs.data.xipos.copy(), theirs.data.xpos.copy()
        at(q, v)
        theirs.data.ctrl[:] = action
        mujoco.mj_forward(theirs.model, theirs.data)
        theirs.data.cfrc_ext[:] = theirs.data.qfrc_constraint[0] = 0.0
        rows.append((before, q, v, action, theirs._get_obs(), reward(theirs, name, kept, before, action), terminated))
    return theirs, [np.array(x) for x in zip(*rows, strict=True)]


def reward(theirs, name: str, kept, before, action) -> float:
    """Gymnasium's reward at the state that it is in, having come from another."""
    if name in ("Reacher", "Pusher"):
        return theirs._get_rew(action)[0]
    if name == "InvertedPendulum":
        return float(abs(theirs.data.qpos[1]) <= 0.2)
    if name == "InvertedDoublePendulum":
        x, _, y = theirs.data.site_xpos[0]
        return theirs._get_rew(x, y, y <= 1.0)[0]
    if name == "HumanoidStandup":
        return theirs._get_rew(theirs.data.qpos[2], action)[0]
    moved = theirs.data.qpos[0] - before[0]
    if name == "Humanoid":
        weights = theirs.model.body_mass / theirs.model.body_mass.sum()
        moved = weights @ (theirs.data.xipos - kept[0])[:, 0]
    if name == "Ant":
        moved = theirs.data.xpos[1, 0] - kept[1][1, 0]
    return theirs._get_rew(moved / theirs.dt, action)[0]


@pytest.mark.parametrize("name", NAMES)
def test_observations_rewards_and_ends_are_gymnasiums(name):
    """The same numbers to 1e-6, observation by observation."""
    theirs, (before, q, v, action, observation, rewards, ended) = rows_of(name, 60)
    env = VectorEnv(TASKS[name], len(q), device="cpu", dtype="float64", autoreset="DISABLED")
    env.reset(seed=0)
    view = env.view
    env.state.q.assign(before)
    view.moved()
    for term in env._inner_terms():
        if hasattr(term, "reset"):
            term.reset(view, np.ones(len(q), bool))
    env.state.q.assign(q)
    env.state.v.assign(v)
    view.q_before, view.action, view.control = before, action, action
    view.moved()
    assert view.dt == pytest.approx(theirs.dt) and env.task.episode == gymnasium.spec(f"{name}-v5").max_episode_steps
    np.testing.assert_array_equal(env.single_action_space.low, theirs.action_space.low)
    np.testing.assert_allclose(env._observe(), observation, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(env._reward()[0], rewards, atol=1e-6)
    ends = [term(view) for term in env.task.terminations.values()]
    np.testing.assert_array_equal(np.any(ends, axis=0) if ends else np.zeros(len(q), bool), ended)
    assert ended.any() == (name in ("Hopper", "Walker2d", "InvertedPendulum", "InvertedDoublePendulum", "Humanoid"))


@pytest.mark.parametrize("name", ["Ant", "Humanoid"])
def test_contact_about_centres_of_mass_is_mujocos(name):
    """Our contact forces, given to MuJoCo as forces on bodies: its cfrc_ext is our observation. None where an episode begins."""
    env = VectorEnv(TASKS[name], 2, device="cpu", dtype="float64", autoreset="DISABLED")
    env.reset(seed=0)
    assert not centre_wrench(env.view).any()
    env.action_space.seed(7)
    for _ in range(60):
        env.step(env.action_space.sample())
        if (np.abs(env.view.contact_wrench[..., 5]).sum(-1) > 0.5).all():
            break
    wrench = env.view.contact_wrench
    assert np.abs(wrench[..., 5]).sum() > 1.0 and np.abs(wrench[..., :3]).max() > 0.1
    theirs = gymnasium.make(f"{name}-v5").unwrapped
    theirs.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for w in range(2):
        theirs.set_state(env.view.q[w], env.view.v[w])
        theirs.data.xfrc_applied[1:, :3], theirs.data.xfrc_applied[1:, 3:] = wrench[w, :, 3:], wrench[w, :, :3]
        mujoco.mj_forward(theirs.model, theirs.data)
        mujoco.mj_rnePostConstraint(theirs.model, theirs.data)
        np.testing.assert_allclose(centre_wrench(env.view)[w], theirs.data.cfrc_ext[1:], atol=1e-9)
    env.reset()
    assert not env.view.contact_force.any() and not env.view.contact_wrench.any()


@pytest.mark.parametrize("name", NAMES)
def test_starts_are_spread_as_gymnasiums(name):
    """Mean and deviation of every coordinate of 4,000 starts, beside 400 of Gymnasium's."""
    theirs = gymnasium.make(f"{name}-v5").unwrapped
    rows = []
    for seed in range(400):
        theirs.reset(seed=seed)
        rows.append(np.concatenate([theirs.data.qpos, theirs.data.qvel]))
    rows = np.array(rows)
    env = VectorEnv(TASKS[name], 4000, device="cpu", dtype="float64", options={"max_contacts": 1})
    env.reset(seed=1)
    ours = np.concatenate([env.view.q, env.view.v], -1)
    np.testing.assert_allclose(ours.mean(0), rows.mean(0), atol=2e-2)
    np.testing.assert_allclose(ours.std(0), rows.std(0), rtol=0.15, atol=2e-3)


@pytest.mark.parametrize("name", LONG)
def test_trajectories_are_gymnasiums_where_nothing_touches(name):
    """The same start and actions, MuJoCo with its Euler: the same motion to 1e-6 as long as no contact and no limit is active there."""
    theirs = gymnasium.make(f"{name}-v5").unwrapped
    theirs.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    theirs.reset(seed=2)
    model, q = theirs.model, theirs.data.qpos.copy()
    if name in ("HalfCheetah", "Hopper", "Walker2d", "Humanoid"):
        q[2 if name == "Humanoid" else 1] += 100.0
    limited = np.flatnonzero(model.jnt_limited)
    place, (low, high) = model.jnt_qposadr[limited], model.jnt_range[limited].T
    if name != "InvertedPendulum":
        q[place] = 0.5 * (low + high)
    theirs.set_state(q, theirs.data.qvel)
    env = VectorEnv(TASKS[name], 1, device="cpu", dtype="float64", autoreset="DISABLED", episode=None)
    env.reset(seed=0)
    env.view.write(q=theirs.data.qpos[None], v=theirs.data.qvel[None])
    rng, free = np.random.default_rng(3), 0
    for _ in range(60):
        action = 0.1 * rng.uniform(theirs.action_space.low, theirs.action_space.high).astype(np.float32)
        theirs.do_simulation(action, theirs.frame_skip)
        q = theirs.data.qpos[place]
        if theirs.data.nefc or ((q - low < 0.1) | (high - q < 0.1)).any():
            break
        env.step(action[None])
        free += 1
        np.testing.assert_allclose(env.view.q[0], theirs.data.qpos, atol=1e-6)
        np.testing.assert_allclose(env.view.v[0], theirs.data.qvel, atol=1e-5)
    assert free >= LONG[name]
