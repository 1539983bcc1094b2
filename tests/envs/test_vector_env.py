# SPDX-License-Identifier: Apache-2.0
"""Environments: Gymnasium's interface and numbers, worlds that do not see each other, bits that repeat."""

import dataclasses
import threading

import gymnasium
import numpy as np
import pytest

import warpsim as ws
from scenes.bodies import arm
from warpsim.envs import TASKS, Task, VectorEnv, sensing, terms
from warpsim.model.parameters import LAW_SPECS, SPECS

gymnasium.register_envs(ws.envs)


class Slider(Task):
    """A mass on a rail, which begins anywhere."""

    model = ws.robots.path("cartpole")
    timestep, decimation, episode = 0.01, 2, 7
    observations = {"q": terms.positions(), "v": terms.velocities()}
    rewards = {"middle": (-1.0, lambda s: s.q[:, 0] ** 2), "ctrl": (-0.1, terms.action_squared)}
    terminations = {"far": lambda s: abs(s.q[:, 0]) > 1.0}
    starts = (terms.start_noise(q=0.5, v=0.5),)


class Tired(Task):
    """Every term that keeps something in mind, one in another."""

    model = ws.robots.path("hopper")
    decimation, episode = 2, 9
    observations = {"q": terms.noisy(terms.late(terms.positions(), 3), bias=0.1), "speed": terms.command("speed")}
    rewards = {"x": lambda s: s.q[:, 0]}
    terminations = {"low": lambda s: s.q[:, 2] < -0.02}
    commands = {"speed": terms.uniform_command(-1.0, 1.0, every=4)}
    actuators = (terms.delayed(2), terms.first_order(0.05))
    events = (terms.randomise("body_mass", 0.5, 2.0, when="reset"),)


def actions(env, steps: int) -> np.ndarray:
    low, high = env.single_action_space.low, env.single_action_space.high
    return np.random.default_rng(5).uniform(low, high, (steps, env.num_envs, len(low))).astype(np.float32)


def played(env, steps: int = 30, seed: int = 3, chosen=slice(None)) -> list[np.ndarray]:
    """Everything that an environment gives."""
    found = [env.reset(seed=seed)[0]]
    for action in actions(env, steps):
        found += list(env.step(action)[:4])
    return [x[chosen] for x in found]


def same(a, b) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


NEEDS_ROBOTS = (  # of example-robot-data and mjlab; see test_robots.py and test_legged.py
    *("G1", "G1Rough", "Go1", "Go1Rough", "Imitate", "Lift", "Quadruped", "QuadrupedRough", "Reach", "Rotate"),
)


@pytest.mark.parametrize("name", [name for name in TASKS if name not in NEEDS_ROBOTS])
def test_spaces_and_arrays(name):
    """Shapes, dtypes and spaces as Gymnasium has them; what is given stays what it is."""
    env = gymnasium.make_vec(f"warpsim/{name}-v0", num_envs=5, vectorization_mode="vector_entry_point", device="cpu")
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation) and info == {} and observation.dtype == np.float32
    kept = observation.copy()
    after, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert after.shape == observation.shape and reward.shape == (5,) and reward.dtype == np.float32
    assert terminated.dtype == truncated.dtype == bool and not np.array_equal(after, observation)
    np.testing.assert_array_equal(observation, kept)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    wrapped.reset(seed=2)
    wrapped.step(env.action_space.sample())
    env.close()


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_episodes_begin_anew(mode):
    """As in Gymnasium's three modes; worlds that go on do not notice."""
    env = VectorEnv(Slider, 6, autoreset=mode, device="cpu", model=ws.robots.path("cartpole"))
    env.reset(seed=9)
    late = env.reset(options={"reset_mask": np.arange(6) < 3})[0]
    for _ in range(6):
        observation, *_ = env.step(actions(env, 1)[0])
    assert env.view.steps.tolist() == [6] * 6
    observation, reward, terminated, truncated, info = env.step(actions(env, 1)[0])
    assert truncated.all() and not terminated.any()
    q = env.state.q.numpy().copy()
    if mode == "SAME_STEP":
        assert info["_final_obs"].all() and not np.array_equal(info["final_obs"], observation)
        assert info["_final_info"].all() and (info["final_info"]["reward_middle"] == info["reward_middle"]).all()
        np.testing.assert_array_equal(observation[:, :2], q)
        assert env.view.steps.tolist() == [0] * 6
    else:
        again, reward, terminated, truncated, info = env.step(actions(env, 1)[0])
        if mode == "NEXT_STEP":
            assert not reward.any() and not truncated.any() and env.view.steps.tolist() == [0] * 6
            assert np.abs(again[:, :2]).max() <= 0.5
        else:
            assert truncated.all()
            mask = np.arange(6) % 2 == 0
            fresh, _ = env.reset(options={"reset_mask": mask})
            assert (env.view.steps == np.where(mask, 0, 8)).all()
            np.testing.assert_array_equal(fresh[~mask], again[~mask])
    assert late.shape == observation.shape


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
@pytest.mark.parametrize("task", ["Hopper", "Tired"])
def test_worlds_and_threads_have_the_same_bits(task, mode):
    """World i starts, moves and is rewarded the same among 3 and 64 others, as a part of a whole, on 1 and 2 threads, and again."""
    task = TASKS.get(task, Tired)
    env = VectorEnv(task, 64, autoreset=mode, device="cpu", threads=1)
    table, whole = actions(env, 30), played(env)
    same(played(env), whole)
    same(played(VectorEnv(task, 64, autoreset=mode, device="cpu", threads=2)), whole)
    part = VectorEnv(task, 5, autoreset=mode, device="cpu", first_world=20)
    found = [part.reset(seed=3)[0]]
    for action in table:
        found += list(part.step(action[20:25])[:4])
    same(found, [x[20:25] for x in whole])
    assert sum(x.sum() for x in whole[3::4]) > 0  # of whom some fell


def test_a_world_that_is_no_number_ends_alone():
    """Reward 0, counted, begun anew; the others have the bits of a run without it."""

    def broken(s):
        return s.xp.where((s.steps == 3) & (s.numbers == 2), np.nan, s.q[:, 0])

    good = VectorEnv(Slider, 5, autoreset="SAME_STEP", device="cpu", rewards={"x": lambda s: s.q[:, 0]})
    bad = VectorEnv(Slider, 5, autoreset="SAME_STEP", device="cpu", rewards={"x": broken})
    a, b = (played(env, 6) for env in (good, bad))
    others = np.arange(5) != 2
    same([x[others] for x in a], [x[others] for x in b])
    assert bad.faults.tolist() == [0, 0, 2, 0, 0] and b[1 + 4 * 2 + 1][2] == 0.0 and b[1 + 4 * 2 + 2][2]
    nan = actions(good, 1)[0]
    nan[4] = np.nan
    good.reset(seed=1)
    observation, reward, terminated, _, _ = good.step(nan)
    assert terminated.tolist() == [False] * 4 + [True] and np.isfinite(observation).all() and np.isfinite(reward).all()


def test_terms_with_a_state():
    """Commands, noise, delays, motors and randomised parameters, and a task in a few lines."""

    class Reach(Task):
        model = ws.robots.path("hopper")
        decimation, episode = 2, 20
        observations = {
            "q": terms.noisy(terms.positions(), uniform=0.01, bias=0.1),
            "late": terms.late(terms.velocities(), 2),
        }
        observations |= {"command": terms.command("speed"), "last": terms.last_action}
        rewards = {
            "speed": lambda s: -((s.v[:, 0] - s.commands["speed"][:, 0]) ** 2),
            "change": (-0.01, terms.action_change),
        }
        commands = {"speed": terms.uniform_command(-1.0, 1.0, every=10)}
        actuators = (terms.delayed(1), terms.first_order(0.02), terms.dc_motor(1.0, 30.0))
        events = (terms.randomise("body_mass", 0.8, 1.2),)

    env = VectorEnv(Reach, 8, autoreset="SAME_STEP", device="cpu")
    first = played(env, 45)
    same(played(env, 45), first)
    mass = env.sim.parameters["body_mass"].numpy() / env.sim.model.body_mass
    moving = env.sim.model.body_mass > 0
    assert np.ptp(mass[:, moving]) > 0.05 and 0.8 <= mass[:, moving].min() and mass[:, moving].max() <= 1.2
    speeds = np.array([x[:, -4] for x in first[1::4]])
    assert np.abs(speeds).max() <= 1.0 and (np.diff(speeds, axis=0) != 0).any(1).sum() >= 3


def test_environments_of_one_task_keep_their_own():
    """Another environment of the same class, in turns with the first, changes none of its bits."""
    alone = played(VectorEnv(Tired, 4, autoreset="SAME_STEP", device="cpu"), 25)
    a = VectorEnv(Tired, 4, autoreset="SAME_STEP", device="cpu")
    found, table = [a.reset(seed=3)[0]], actions(a, 25)
    b = VectorEnv(Tired, 7, autoreset="SAME_STEP", device="cpu", seed=8)
    b.reset(seed=5)
    for action in table:
        found += list(a.step(action)[:4])
        b.step(b.action_space.sample())
    same(found, alone)


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_an_environment_goes_on_from_what_it_says_of_itself(mode):
    """`state_dict` at any step: state, parameters, random numbers, commands, and terms within terms."""
    env = VectorEnv(Tired, 4, autoreset=mode, device="cpu")
    whole, table = played(env, 25), actions(env, 25)
    for at in (1, 8, 9, 10, 17):
        env.reset(seed=3)
        for action in table[:at]:
            env.step(action)
        other = VectorEnv(Tired, 4, autoreset=mode, device="cpu", seed=77)
        other.load_state_dict(env.state_dict())
        found = [x for action in table[at:] for x in other.step(action)[:4]]
        same(found, whole[1 + 4 * at :])


def test_wrong_use_is_refused():
    """One line each, that names what is wrong."""
    env = VectorEnv(Slider, 3, device="cpu")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros((3, 1)))
    env.reset()
    for wrong in (np.zeros((2, 1)), "x", None, np.zeros(3)):
        with pytest.raises(ValueError, match="actions"):
            env.step(wrong)
    for options in ({"reset_mask": [True]}, {"reset_mask": [0, 1, 2]}, {"other": 1}, 3):
        with pytest.raises(ValueError, match=r"reset_mask|options"):
            env.reset(options=options)
    for changes, word in (
        ({"decimation": 0}, "decimation"),
        ({"nope": 1}, "nope"),
        ({"rewards": {"a": 3}}, "rewards"),
        ({"observations": {}}, "observations"),
        ({"observations": {"a": lambda s: s.q.sum()}}, "observations"),
        ({"rewards": {"a": lambda s: s.q}}, "rewards"),
        ({"autoreset": "sometimes"}, "autoreset"),
        ({"array": "tf"}, "array"),
        ({"model": 3}, "model"),
        ({"model": []}, "model"),
        ({"terminations": {"a": lambda s: s.q[:, 0]}}, "booleans"),
        ({"observations": {"a": terms.command("speed")}}, "no command 'speed'"),
        ({"observations": {"a": sensing.imu("nobody")}}, "nobody"),
        ({"events": (terms.randomise("body_mass", -2, -1),)}, "body_mass"),
        ({"events": (terms.push("nobody", 1.0, 5),)}, "nobody"),
        ({"actuators": (terms.scaled(np.ones(5)),)}, "scaled"),
        ({"starts": (terms.start_from("home"),)}, "home"),
    ):
        with pytest.raises(ValueError, match=word):
            made = VectorEnv(Slider, 3, device="cpu", **changes)
            made.reset()
            made.step(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="task"):
        gymnasium.make_vec("warpsim/Hopper-v0", vectorization_mode="vector_entry_point", task="nope")
    with pytest.raises(ValueError, match="low"):
        terms.randomise("body_mass", 2.0, 1.0)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_actions_outside_are_cut_and_counted(framework, mode):
    """World 1 moves as if its action were the bound, world 2 with a NaN is begun anew and counted once; world 0 does not notice."""
    pytest.importorskip(framework)
    env = VectorEnv(Slider, 3, device="cpu", array=framework, autoreset=mode, rewards={})
    other = VectorEnv(Slider, 3, device="cpu", autoreset=mode, rewards={})
    high = float(env.single_action_space.high[0])
    seen = []
    for e, table in ((env, [[0.1], [high + 5.0], [np.nan]]), (other, [[0.1], [high], [0.0]])):
        e.reset(seed=1)
        e.step(e.arrays.made(np.array(table, np.float32)))
        seen.append(np.asarray(e.step(e.arrays.made(np.zeros((3, 1), np.float32)))[0]))
    np.testing.assert_allclose(seen[0][:2], seen[1][:2], atol=1e-6)
    assert np.isfinite(seen[0]).all()
    assert env.clipped.tolist() == [0, 1, 1] and env.faults.tolist() == [0, 0, 1]
    assert other.clipped.tolist() == [0, 0, 0] and other.faults.tolist() == [0, 0, 0]


def test_environments_in_threads():
    """Four environments in four threads: each has the bits that it has alone."""
    envs = [VectorEnv(Tired, 16, device="cpu", autoreset="SAME_STEP") for _ in range(4)]
    expected, found = [played(envs[k], seed=k) for k in range(4)], [None] * 4

    def play(k: int) -> None:
        found[k] = played(envs[k], seed=k)

    threads = [threading.Thread(target=play, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(found, expected, strict=True):
        same(a, b)


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("task", ["Ant", "Humanoid", "Pusher", "Reacher", "Tired", "Walker2d"])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_frameworks_agree(framework, task, mode):
    """The numbers of NumPy, in tensors of torch and arrays of JAX, which stay on the device."""
    pytest.importorskip(framework)
    task = TASKS.get(task, Tired)
    made = ({}, {"array": framework})
    numpy, env = (VectorEnv(task, 9, autoreset=mode, device="cpu", episode=12, **more) for more in made)
    a, b = numpy.reset(seed=2)[0], env.reset(seed=2)[0]
    assert type(b).__module__.split(".")[0] in (framework, "jaxlib")
    for action in actions(numpy, 20):
        np.testing.assert_allclose(np.asarray(b), a, rtol=2e-5, atol=2e-4)
        a, reward, terminated, truncated, _ = numpy.step(action)
        b, r, t, u, _ = env.step(env.arrays.made(action))
        np.testing.assert_array_equal(terminated, np.asarray(t))
        np.testing.assert_array_equal(truncated, np.asarray(u))
        np.testing.assert_allclose(reward, np.asarray(r), rtol=1e-5, atol=1e-5)
    kept = env.state_dict()
    c = env.step(env.arrays.made(action))[0]
    env.load_state_dict(kept)
    np.testing.assert_array_equal(np.asarray(env.step(env.arrays.made(action))[0]), np.asarray(c))


@pytest.mark.parametrize("task", ["Hopper", "Reacher"])
def test_stable_baselines(task):
    """SB3's own check of environments passes as far as it is of vector environments, and its PPO takes steps; episodes are counted."""
    sb3 = pytest.importorskip("stable_baselines3")
    env = ws.envs.Sb3Env(TASKS[task], 8, device="cpu", episode=20)
    model = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=128, n_epochs=1, seed=1)
    model.learn(1024)
    assert model.num_timesteps == 1024 and len(model.ep_info_buffer) > 0
    env.seed(3)
    first = env.reset()
    plain = VectorEnv(TASKS[task], 8, device="cpu", episode=20, autoreset="SAME_STEP")
    np.testing.assert_array_equal(first, plain.reset(seed=3)[0])
    for action in actions(plain, 25):
        observation, reward, ended, infos = env.step(action)
        a, r, terminated, truncated, info = plain.step(action)
        same((observation, reward, ended), (a, r, terminated | truncated))
        for i in np.flatnonzero(ended):
            np.testing.assert_array_equal(infos[i]["terminal_observation"], info["final_obs"][i])
            assert infos[i]["TimeLimit.truncated"] == (truncated[i] and not terminated[i])
    for wrong in (
        lambda: env.set_attr("x", 1),
        lambda: env.env_method("x"),
        lambda: ws.envs.Sb3Env(TASKS[task], 2, array="torch"),
    ):
        with pytest.raises(ValueError):
            wrong()
    wrapped = sb3.common.vec_env.VecNormalize(env)
    wrapped.reset()
    wrapped.step(actions(plain, 1)[0])


MUSCLES = ("actuator_time", "actuator_length_range", "muscle_force", "muscle_curve")


def rich_model(muscle: bool = False, **bob) -> ws.Model:
    """One of most things that have parameters, in air; with a muscle on the elbow; options of the ball at the rope's end."""
    b = arm()
    if muscle:
        b.add_actuator("elbow", "muscle", name="flexor", muscle=ws.Muscle(force=5.0, length_range=(-1.0, 1.5)))
    b.density, b.viscosity, b.wind = 1.2, 2e-5, np.array([0.5, 0.0, 0.0])
    b.add_body("weight", mass=0.5, inertia=[0.1, 0.1, 0.1], pose=[1, 0, 2])
    b.add_joint(
        "weight",
        "slide",
        name="rope",
        axis=[0, 0, 1],
        stiffness=20.0,
        damping=0.5,
        armature=0.1,
        friction=0.1,
        range=(-0.5, 0.5),
    )
    b.add_geom("sphere", [0.1], body="weight", name="bob", stiffness=1e4, dissipation_time=0.01, **bob)
    b.add_constraint("joint", "elbow", "rope", coefficients=(0.0, 0.1), stiffness=100.0, dissipation_time=0.1)
    return b.build()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SPECS
        if name not in ("joint_axis", "joint_pose", "geom_pose", "body_active") and not name.startswith("pair")
    ],
)
def test_every_parameter_can_be_random(name):
    """Of the parameters that numbers can be multiplied with: worlds differ where the model has any, stay within, and step."""
    solvers = {
        "geom_restitution": ws.LCP(),
        "geom_hertz_modulus": ws.Compliant(),
    }  # others refuse what they do not model
    rolls = {"condim": 6, "torsional_friction": 0.01, "rolling_friction": 0.001}
    slides = {"friction_dynamic": 0.4, "friction_velocity": 0.2}
    of_bob = dict.fromkeys(("geom_torsional_friction", "geom_rolling_friction"), rolls)
    of_bob |= dict.fromkeys(("geom_friction_dynamic", "geom_friction_velocity"), slides)
    of_bob["geom_surfacevel"] = {"surfacevel": (0.1, 0.0, 0.0, 0.0, 0.0, 0.0)}
    model = rich_model(name in MUSCLES, **of_bob.get(name, {}))
    if name in LAW_SPECS:
        solvers[name] = ws.MuJoCo()
        none = {"geom_stiffness": np.full(model.ngeom, np.inf), "geom_dissipation_time": np.full(model.ngeom, np.nan)}
        model = dataclasses.replace(model, **none)
    task = type("Random", (Task,), {"model": model, "observations": {"q": terms.positions()}})
    task.options = {"solver": solvers[name]} if name in solvers else {}
    env = VectorEnv(task, 8, device="cpu", events=(terms.randomise(name, 0.9, 1.1, each=True),), autoreset="SAME_STEP")
    env.reset(seed=1)
    for _ in range(5):
        env.step(np.zeros((8, model.nu), np.float32))
    assert not env.faults.any()
    values = env.sim.parameters[name].numpy().reshape(8, -1)
    initial = env.sim.parameters.initial(name).numpy().reshape(1, -1)
    used = np.isfinite(initial[0]) & (initial[0] != 0.0)
    if used.any():
        share = values[:, used] / initial[:, used]
        assert share.min() >= 0.9 - 1e-6 and share.max() <= 1.1 + 1e-6 and (np.ptp(share, axis=0) > 0.01).all()
    np.testing.assert_array_equal(values[:, ~used], np.repeat(initial[:, ~used], 8, axis=0))


def test_activations_begin_anew_with_their_world():
    """A reset puts the activations of the chosen worlds to 0, and leaves those of others."""
    task = type("Muscle", (Task,), {"model": rich_model(muscle=True), "observations": {"q": terms.positions()}})
    env = VectorEnv(task, 2, device="cpu", autoreset="DISABLED")
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.ones((2, 2), np.float32))
    before = env.state.activation.numpy().copy()
    assert (before > 0.0).all()
    env.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(env.state.activation.numpy(), before * [[0.0], [1.0]])


def test_axes_and_poses_are_not_scaled():
    """A factor would make an axis or a quaternion that is none; it is refused by name."""
    for name in ("joint_axis", "joint_pose", "geom_pose"):
        task = type("Random", (Task,), {"model": rich_model(), "observations": {"q": terms.positions()}})
        with pytest.raises(ValueError, match=name):
            VectorEnv(task, 2, device="cpu", events=(terms.randomise(name, 0.9, 1.1),))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_callers_memory_is_the_callers(framework):
    """Actions may be written over after a step; so may what `state_dict` was made of."""
    pytest.importorskip(framework)
    env = VectorEnv(Slider, 2, device="cpu", array=framework, rewards={"change": terms.action_change})
    env.reset(seed=0)
    action = env.arrays.made(np.zeros((2, 1), np.float32))
    env.step(action)
    action += 1.0
    np.testing.assert_array_equal(np.asarray(env.step(action)[1]), [1.0, 1.0])
    kept = env.state_dict()
    action += 7.0
    np.testing.assert_array_equal(kept["view"]["action"], np.ones((2, 1)))


def test_what_is_no_number_does_not_outlive_its_episode():
    """One fault for a NaN action, whatever terms keep in mind; the next episode is clean."""
    more = {"actuators": (terms.first_order(0.05), terms.delayed(1)), "rewards": {"c": terms.action_change}}
    more["observations"] = {"q": terms.late(terms.positions(), 1), "a": terms.last_action}
    env = VectorEnv(Slider, 2, device="cpu", autoreset="SAME_STEP", **more)
    env.reset(seed=0)
    nan = np.array([[np.nan], [0.0]], np.float32)
    observation = env.step(nan)[0]
    for _ in range(5):
        assert np.isfinite(observation).all()
        observation = env.step(0.0 * np.ones((2, 1)))[0]
    assert env.faults[1] == 0 and env.faults[0] <= 2  # of a delayed action the motion is one step behind


def test_resets_one_after_the_other_are_one():
    """Worlds that are begun anew in two calls are as in one; a seed is of all worlds or of none."""
    found = []
    for masks in (([True, True],), ([True, False], [False, True])):
        env = VectorEnv(Slider, 2, device="cpu", autoreset="DISABLED", actuators=(terms.delayed(2),), terminations={})
        env.reset(seed=0)
        for _ in range(5):
            env.step(np.ones((2, 1)))
        for mask in masks:
            env.reset(options={"reset_mask": np.array(mask)})
        env.step(-np.ones((2, 1)))
        found.append(env.view.control)
    np.testing.assert_array_equal(found, -np.ones((2, 2, 1)))
    with pytest.raises(ValueError, match="seed"):
        env.reset(seed=1, options={"reset_mask": np.array([True, False])})


def test_a_push_comes_again_after_going_back():
    """`load_state_dict` in a running environment: terms without memory are asked anew, too."""
    env = VectorEnv(
        Slider, 2, device="cpu", autoreset="DISABLED", terminations={}, events=(terms.push("slide", 1.0, 3),)
    )
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros((2, 1)))
    kept = env.state_dict()
    first = env.step(np.zeros((2, 1)))[0]
    env.load_state_dict(kept)
    np.testing.assert_array_equal(env.step(np.zeros((2, 1)))[0], first)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_rewards_by_term_add_up(framework, mode):
    """They are finite and sum to the reward in every step: 0 where a world fails, and where NEXT_STEP begins an episode."""
    pytest.importorskip(framework)

    def broken(s):
        return s.xp.where(s.arrays.made(s.numbers == 2) & (s.steps == 3), s.xp.nan, s.q[:, 0])

    rewards = {"x": broken, "v": (0.5, lambda s: s.v[:, 0])}
    options = {"array": framework, "device": "cpu", "autoreset": mode, "terminations": {}}
    env = VectorEnv(Slider, 4, rewards=rewards, **options)
    env.reset(seed=3)
    faults, table = 0, actions(env, 9)
    for k, action in enumerate(table):
        observation, reward, terminated, _, info = env.step(env.arrays.made(action))
        total = np.asarray(info["reward_x"]) + np.asarray(info["reward_v"])
        np.testing.assert_allclose(total, np.asarray(reward), rtol=1e-5, atol=1e-6)
        assert np.isfinite(np.asarray(observation)).all()
        if k == 2:
            assert (
                np.asarray(terminated).tolist() == [False, False, True, False] and total[2] == 0.0 and total[1] != 0.0
            )
        if mode == "SAME_STEP" and k == 2:
            last = info["final_info"]
            assert np.asarray(last["reward_x"])[2] == 0.0 and np.asarray(last["reward_v"])[2] == 0.0
        if mode == "NEXT_STEP" and k in (3, 7):  # the world that failed; and all, whose episodes have ended
            began = np.arange(4) == 2 if k == 3 else np.ones(4, bool)
            assert ((total == 0.0) == began).all() and not np.asarray(info["reward_v"])[began].any()
        faults += total[2] == 0.0
    assert env.faults.tolist() == [0, 0, {"NEXT_STEP": 2, "SAME_STEP": 3, "DISABLED": 1}[mode], 0]


class Fallen(Task):
    """A humanoid whose episodes end early, with terms of what the simulator computes from the state."""

    model = ws.robots.path("humanoid")
    decimation, episode = 4, 12
    observations = {
        "body": sensing.body_position("pelvis"),
        "speed": sensing.linear_velocity("pelvis"),
        "v": terms.velocities(),
    }
    rewards = {"heights": lambda s: s.poses[:, :, 2].sum(-1), "moment": lambda s: s.about_centre[1].sum((1, 2))}
    terminations = {"fast": lambda s: s.v[:, 0] > 0.05}
    starts = (terms.start_noise(q=0.02, v=0.2),)


@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP"])
def test_what_is_computed_of_worlds_that_begin_is_that_of_all(mode, array):
    """Poses, velocities and inertias after resets of some worlds are those of the state, bit for bit."""
    if array == "torch":
        pytest.importorskip("torch")
    env = VectorEnv(Fallen, 70, autoreset=mode, array=array, device="cpu", threads=2)
    env.reset(seed=1)
    begun = 0
    for action in actions(env, 15):
        env.step(env.arrays.made(action))
        view, sim, state = env.view, env.sim, env.state
        found = [view.poses, view.velocities, *view.about_centre[1:]]
        expected = [sim.kinematics(state.q), sim.body_velocity(state), *sim.about_centre(state)[1:]]
        same([np.asarray(x) for x in found], [x.numpy() for x in expected])
        same([x.numpy() for x in sim.body_motion(state)], [x.numpy() for x in expected[:2]])
        same([np.asarray(view.pose(3)), np.asarray(view.velocity(3))], [np.asarray(x)[:, 3] for x in found[:2]])
        steps = np.asarray(view.steps)
        begun += int(0 < (steps == 0).sum() < 70)
    assert begun > 5


def test_what_a_term_keeps_or_changes_is_its_own():
    """A pose or velocity that a term keeps stays as it was, and writing to one changes no other term's."""
    env = VectorEnv(Fallen, 4, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=1)
    asked = [sensing.linear_velocity("pelvis"), sensing.projected_gravity("pelvis"), lambda s: s.pose(1)[:, :3]]
    asked += [lambda s: s.poses, lambda s: s.velocities, lambda s: s.about_centre[1]]
    for action in actions(env, 3):
        env.step(action)
        kept = [term(env.view) for term in asked]
        values = [x.copy() for x in kept]
        env.step(action)
        same(kept, values)
    for term in asked[:2]:
        before = term(env.view).copy()
        term(env.view)[...] = 7.0
        same([term(env.view)], [before])
