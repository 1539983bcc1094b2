# SPDX-License-Identifier: Apache-2.0
"""Symmetry of tasks: mirrored states have mirrored observations, mirrored actions lead to mirrored motions."""

import importlib.metadata

import numpy as np
import pytest

from warpsim.envs import TASKS, VectorEnv, symmetry
from warpsim.envs.legged import A1, G1, GO1


def _here(package):
    try:
        importlib.metadata.version(package)
        return True
    except importlib.metadata.PackageNotFoundError:
        return False


ROBOTS = [
    pytest.param(name, robot, marks=pytest.mark.skipif(not _here(robot.package), reason=f"needs {robot.package}"))
    for name, robot in (("Quadruped", A1), ("Go1", GO1), ("G1", G1))
]


def _mirrored(robot, model, q, v):
    """The reflected positions and velocities of a robot whose free joint comes first."""
    names = [name for name in model.joint_names if name != robot.free]
    permutation, sign = symmetry.joints(*names)(model)
    places = [model.joint_coordinates(name) for name in names]
    out = []
    for x, k, free in ((q, 0, [1, -1, 1, 1, -1, 1, -1]), (v, 1, [1, -1, 1, -1, 1, -1])):
        columns = np.array([place[k].start for place in places])
        found = x.copy()
        found[:, : len(free)] = x[:, : len(free)] * free
        found[:, columns] = x[:, columns[permutation]] * sign
        out.append(found)
    return out


@pytest.mark.assets
@pytest.mark.parametrize(("name", "robot"), ROBOTS)
def test_a_mirrored_robot_moves_as_the_mirror_image(name, robot):
    """From mirrored states with mirrored commands, in the air: observations, also the critic's, are mirrored at once and after each of five mirrored actions, as nearly as the files' masses are symmetric."""
    exact = TASKS[name].critic_observations
    env = VectorEnv(
        TASKS[name], 2, device="cpu", autoreset="DISABLED", events=(), dtype="float64", starts=TASKS[name].starts[:1],
        observations={k: x for k, x in exact.items() if k != "contact"}, terminations={},
    )  # fmt: skip
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    q, v = env.view.q[:1].copy(), env.view.v[:1].copy()
    q[:, 2] += 1.0
    q[:, 7:] += 0.1 * rng.standard_normal(q[:, 7:].shape)
    v += 0.3 * rng.standard_normal(v.shape)
    reflected = _mirrored(robot, env.sim.model, q, v)
    env.view.write(q=np.concatenate([q, reflected[0]]), v=np.concatenate([v, reflected[1]]))
    env.view.steps = np.array([0, 20 if len(robot.feet) == 2 else 12], np.int32)  # half a cycle of the clock
    command = env.view.commands["velocity"].copy()
    command[1] = command[0] * [1.0, -1.0, -1.0]
    env.view.commands["velocity"] = command
    observation = env._observe()
    np.testing.assert_allclose(env.mirror(observation)[1], observation[0], atol=1e-6)
    for _ in range(5):
        actions = rng.uniform(-1.0, 1.0, env.action_space.shape)
        actions[1] = env.mirror(actions, "actions")[0]
        observation, _, _, _, info = env.step(actions)
        np.testing.assert_allclose(env.mirror(observation)[1], observation[0], atol=0.05)
        np.testing.assert_allclose(env.mirror(info["critic"], "critic_observations")[1], info["critic"][0], atol=0.05)
    np.testing.assert_allclose(env.mirror(env.mirror(observation)), observation, atol=1e-12)


def test_partners_are_found_by_name():
    """Left and right, L and R in words of one or two letters; the middle is its own partner; what is not mutual is refused."""
    for names, partners in (
        (("left_hip", "right_hip", "waist"), [1, 0, 2]),
        (("FL_a", "FR_a", "RL_a", "RR_a"), [1, 0, 3, 2]),
        (("LF_HAA", "RF_HAA", "LH_HAA", "RH_HAA"), [1, 0, 3, 2]),
        (("hip_l", "hip_r", "torso"), [1, 0, 2]),
    ):
        permutation, sign = symmetry.swapped(*names)(None)
        assert permutation.tolist() == partners and (sign == 1).all()
    permutation, _ = symmetry.points([(0.0, 1.0), (0.5, 0.0), (0.0, -1.0)])(None)
    assert permutation.tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match=r"\(0, 1\) has no mirrored"):
        symmetry.points([(0.0, 1.0), (0.5, 0.0)])(None)
    with pytest.raises(ValueError, match="give 1 or -1"):
        symmetry.signs(1, 2)


def test_a_table_with_gaps_is_refused():
    """Observations or actions without a rule are not mirrored, so that subclasses may observe more; rules of another width, and tables that the task does not have, are refused by name."""
    cart = TASKS["CartPole"]
    names = list(cart.observations)
    whole = dict.fromkeys(names, symmetry.signs(-1)) | {"actions": symmetry.signs(-1)}
    mirror = VectorEnv(cart, 1, device="cpu", symmetry=whole).mirror
    with pytest.raises(ValueError, match=r"of is 'critic_observations'; this task has .*observations.*actions"):
        mirror(np.zeros((1, 4)), "critic_observations")
    for left_out in (names[0], "actions"):
        rules = {k: x for k, x in whole.items() if k != left_out}
        assert VectorEnv(cart, 1, device="cpu", symmetry=rules).mirror is None
    with pytest.raises(ValueError, match="symmetry of actions has 3 columns; the value has 1"):
        VectorEnv(cart, 1, device="cpu", symmetry=whole | {"actions": symmetry.polar})


def test_policies_learn_from_mirrored_data():
    """Augmentation and mirror loss, with a critic that sees more: learned, resumed bit for bit; a task that does not say how is refused."""
    pytest.importorskip("rsl_rl")
    torch = pytest.importorskip("torch")
    from warpsim.envs.training import make_learner

    cart = TASKS["CartPole"]
    rules = dict.fromkeys([*cart.observations, "actions", "twice"], symmetry.signs(-1))
    critic = cart.observations | {"twice": lambda s: 2.0 * s.q[:, 0]}
    task = type("Mirrored", (cart,), {"symmetry": rules, "critic_observations": critic})
    options = {"num_envs": 8, "seed": 100, "device": "cpu", "threads": 1}
    found = {}
    for way in ("none", "augmentation", "loss"):
        settings = {"ppo": {"symmetry": way, "horizon": 4, "hidden": (8,)}}
        learner = make_learner("ppo", task, learning=settings, **options)
        for _ in range(2):
            learner.iterate()
        found[way] = learner
    weights = [torch.cat([p.flatten() for p in x.ppo.actor.parameters()]) for x in found.values()]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    del rules["actions"]
    for incomplete, said in (
        ("hopper", "no rule for positions"),
        (type("Gap", (task,), {"symmetry": rules}), "no rule for actions"),
    ):
        with pytest.raises(ValueError, match=said):
            make_learner("ppo", incomplete, learning={"ppo": {"symmetry": "loss"}}, **options)
