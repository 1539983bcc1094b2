# SPDX-License-Identifier: Apache-2.0
"""Robots that differ from world to world: in one simulator, or in several behind one environment."""

import dataclasses

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import TASKS, MixedEnv, Task, VectorEnv, terms


def walker(length: float, radius: float = 0.1, shape: str = "box", name: str = "shin", density=0.0) -> ws.Model:
    """A floating trunk with one leg of this length that can kick a floor."""
    b = ws.ModelBuilder(f"leg {length}", density=density)
    b.add_geom("plane", name="floor")
    trunk = b.add_body("trunk", pose=[0, 0, 0.3 + length])
    b.add_joint(trunk, "free", name="root")
    b.add_geom("sphere", [radius], body=trunk, name="belly")
    leg = b.add_body("leg", parent=trunk, pose=[0.02 * length, 0, -radius])
    b.add_joint(leg, "hinge", name="hip", axis=[0, 1, 0], damping=0.1 * length, range=(-length, length))
    size = [0.05, 0.05, length / 2] if shape == "box" else [0.05, length / 2]
    b.add_geom(shape, size, body=leg, pose=[0, 0, -length / 2], name=name)
    b.add_actuator("hip", name="motor", control_range=(-3, 3))
    b.add_keyframe("up", q=[0, 0, 0.5 + length, 1, 0, 0, 0, 0.1])
    return b.build()


class Kick(Task):
    """Up and down."""

    timestep, decimation, episode = 0.005, 2, 70
    observations = {"q": terms.positions(), "v": terms.velocities(), "contact": lambda s: s.contact_force[:, :, 2]}
    rewards = {"up": lambda s: s.q[:, 2]}
    starts = (terms.start_from("up"), terms.start_noise(q=0.02, v=0.1))
    events = (terms.randomise("body_mass", 0.8, 1.2),)


LENGTHS = (0.3, 0.45, 0.7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_world_has_the_robot_of_its_turn(dtype):
    """World i of a batch of three robots has the bits of the same world among robots like it alone; the others of a batch do not matter."""
    models = [walker(x) for x in LENGTHS]
    table = np.random.default_rng(0).uniform(-3, 3, (100, 7, 1)).astype(np.float32)

    def played(model):
        env = VectorEnv(Kick, 7, model=model, device="cpu", dtype=dtype, autoreset="SAME_STEP")
        rows = [env.reset(seed=2)[0]]
        return env, np.array(rows + [env.step(action)[0] for action in table])

    env, mixed = played(models)
    for k, model in enumerate(models):
        alone = played(model)[1]
        np.testing.assert_array_equal(mixed[:, k::3], alone[:, k::3])
    assert np.ptp(mixed[0, :, 2]) > 0.3 and mixed[..., -2:].max() > 10.0
    np.testing.assert_allclose(env.sim.parameters["geom_size"].numpy()[1, 2], [0.05, 0.05, 0.225], rtol=1e-6)
    part = VectorEnv(Kick, 2, model=models, device="cpu", dtype=dtype, first_world=4)
    np.testing.assert_array_equal(part.reset(seed=2)[0], mixed[0, 4:6])


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (lambda: walker(0.5, shape="capsule"), "geom_type"),
        (lambda: walker(0.5, name="bone"), "geom_names"),
        (lambda: ws.load(ws.robots.path("hopper")), "differ in"),
        (lambda: walker(0.5, density=1.2), "body_fluid"),
    ],
)
def test_models_that_cannot_share_a_simulator(other, word):
    """By the field that they differ in, and with the way out."""
    with pytest.raises(ValueError, match=word) as error:
        VectorEnv(Kick, 4, model=[walker(0.3), other()], device="cpu")
    assert "MixedEnv" in str(error.value) and "models 0 and 1" in str(error.value)


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_several_simulators_behind_one_environment(mode):
    """Each part has the numbers that it has alone; what a task does not have is 0."""
    capsule = type("KickCapsule", (Kick,), {"model": staticmethod(lambda: walker(0.5, shape="capsule"))})
    box = type("KickBox", (Kick,), {"model": [walker(0.3), walker(0.5)]})
    tasks = [TASKS["HalfCheetah"], capsule, box]
    env = MixedEnv(tasks, (3, 4, 5), device="cpu", autoreset=mode)
    parts = [
        VectorEnv(t, n, device="cpu", autoreset=mode, first_world=a)
        for t, n, a in zip(tasks, (3, 4, 5), (0, 3, 7), strict=True)
    ]
    assert env.owner.tolist() == [0] * 3 + [1] * 4 + [2] * 5
    rng = np.random.default_rng(1)
    found, alone = env.reset(seed=4)[0], [p.reset(seed=4)[0] for p in parts]
    for k in range(100):
        for rows, values in zip(np.split(found, [3, 7]), alone, strict=True):
            np.testing.assert_array_equal(rows[:, : values.shape[1]], values)
            assert not rows[:, values.shape[1] :].any()
        action = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        found, reward, terminated, truncated, info = env.step(action)
        steps = [
            p.step(a[:, : p.single_action_space.shape[0]]) for p, a in zip(parts, np.split(action, [3, 7]), strict=True)
        ]
        alone = [step[0] for step in steps]
        np.testing.assert_array_equal(reward, np.concatenate([step[1] for step in steps]))
        np.testing.assert_array_equal(truncated, np.concatenate([step[3] for step in steps]))
        assert not terminated.any() and info["reward_up"][:3].tolist() == [0.0] * 3
        if mode == "SAME_STEP" and truncated.any():
            assert info["_final_obs"].tolist() == info["_final_info"].tolist() == truncated.tolist()
            np.testing.assert_array_equal(info["final_info"]["reward_up"], info["reward_up"])
        if k == 30:
            kept = env.state_dict()
    env.load_state_dict(kept)
    mask = np.arange(12) % 2 == 0
    after = env.reset(options={"reset_mask": mask})[0]
    assert after.shape == env.observation_space.shape
    for wrong in (
        lambda: MixedEnv([], 3),
        lambda: MixedEnv(tasks, 2),
        lambda: MixedEnv(tasks, (1, 2)),
        lambda: env.step(action[:, :1]),
    ):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize(("field", "values"), [("timestep", 0.02), ("control_range", np.array([[-9.0, 9.0]]))])
def test_what_the_first_model_would_decide_for_all(field, values):
    """A time step and bounds of actions that differ are refused, where the task does not say."""
    first = walker(0.4)
    task = type("Own", (Kick,), {"timestep": None})
    with pytest.raises(ValueError, match=field):
        VectorEnv(task, 2, model=[first, dataclasses.replace(first, **{field: values})], device="cpu")
