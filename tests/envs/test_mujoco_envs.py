# SPDX-License-Identifier: Apache-2.0
"""Environments under MuJoCo's law: Gymnasium's own trajectories, batches, checkpoints, refusals."""

import mujoco
import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import TASKS, Task, VectorEnv, terms

gymnasium = pytest.importorskip("gymnasium")
LAW = ws.MuJoCo(tolerance=1e-12)


def made(name: str, worlds: int = 1, **options) -> VectorEnv:
    """An environment under MuJoCo's law that begins."""
    options = {"dtype": "float64", "autoreset": "DISABLED", "solver": LAW} | options
    env = VectorEnv(name, worlds, device="cpu", **options)
    env.reset(seed=0)
    return env


def peer(name: str):
    """Gymnasium's environment with a solver that converges."""
    env = gymnasium.make(f"{name}-v5").unwrapped
    opt = env.model.opt
    opt.solver, opt.tolerance, opt.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 1e-15, 300
    opt.ls_tolerance, opt.ls_iterations = 1e-8, 200
    return env


@pytest.mark.parametrize("name", ["Ant", "Hopper", "Reacher", "InvertedDoublePendulum"])
def test_trajectories_are_gymnasiums(name):
    """The same start and actions, with contact or limits, the file's RK4: state, observation and reward agree to 1e-9."""
    env, theirs = made(name), peer(name)
    theirs.set_state(env.view.q[0], env.view.v[0])
    rng, rows = np.random.default_rng(1), 0
    space = theirs.action_space
    for _ in range(15 if name == "Ant" else 60):
        action = rng.uniform(space.low, space.high)
        seen, reward, ended, *_ = theirs.step(action)
        found, found_reward, terminated, *_ = env.step(action[None])
        state = np.concatenate([theirs.data.qpos, theirs.data.qvel])
        np.testing.assert_allclose(np.concatenate([env.view.q[0], env.view.v[0]]), state, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[0], seen, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found_reward[0], reward, rtol=1e-9, atol=1e-9)
        assert bool(terminated[0]) == ended
        rows += theirs.data.nefc
    assert rows or name == "Reacher"


def test_a_world_moves_as_alone_and_from_a_checkpoint():
    """Bits of world 5 of 8 are those of that world alone, and those after `load_state_dict`."""
    rng = np.random.default_rng(2)
    actions = rng.uniform(-1, 1, (6, 8, 8))
    many, one = made("Ant", 8, dtype="float32"), made("Ant", 1, dtype="float32", first_world=5)
    for k, action in enumerate(actions):
        if k == 3:
            kept = many.state_dict()
        a, b = many.step(action), one.step(action[5:6])
        np.testing.assert_array_equal(a[0][5], b[0][0])
        assert a[1][5] == b[1][0]
    again = made("Ant", 8, dtype="float32")
    again.load_state_dict(kept)
    for action in actions[3:]:
        found = again.step(action)
    np.testing.assert_array_equal(found[0], a[0])
    np.testing.assert_array_equal(found[1], a[1])


def test_law_and_integrator_of_a_task():
    """`solver` and `integrator` reach the simulator; the integrator is the file's; given twice they are refused."""
    env = made("Hopper")
    assert env.sim.solver == LAW and env.sim.integrator == ws.MuJoCoRK4()
    assert made("Hopper", integrator=ws.MuJoCoEuler()).sim.integrator == ws.MuJoCoEuler()
    plain = VectorEnv("Hopper", 1, device="cpu")
    assert plain.sim.solver == ws.SAP() and plain.view.evaluated is plain.view
    with pytest.raises(ValueError, match="solver is given, and options has 'solver' too"):
        made("Hopper", options={"solver": ws.SAP()})
    with pytest.raises(ValueError, match="constraint_force is of MuJoCo's law"):
        VectorEnv("InvertedDoublePendulum", 1, device="cpu", solver=ws.SAP())
    with pytest.raises(ValueError, match="keeps no evaluation"):
        plain.sim.evaluated("poses")


class Fallen(Task):
    """A hopper that sees its foot where forces were last evaluated, and where it is."""

    model = TASKS["Hopper"].model
    observations = {
        "now": lambda s: s.poses[:, :, 2],
        "then": lambda s: s.evaluated.poses[:, :, 2],
        "v": terms.velocities(),
    }


def test_evaluated_poses_are_a_physics_step_behind():
    """With Euler they are those before the last physics step; where an episode begins, those of its state."""
    env = made(Fallen, 2, integrator=ws.MuJoCoEuler())
    n = env.sim.model.nbody
    start = env.reset(seed=1)[0]
    np.testing.assert_array_equal(start[:, :n], start[:, n : 2 * n])
    first = env.step(np.zeros((2, 3)))[0]
    np.testing.assert_array_equal(first[:, n : 2 * n], start[:, :n])
    env.reset(options={"reset_mask": np.array([True, False])})
    fresh = env._observe()
    np.testing.assert_array_equal(fresh[0, :n], fresh[0, n : 2 * n])
    np.testing.assert_array_equal(fresh[1], first[1])
