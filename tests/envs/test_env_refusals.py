# SPDX-License-Identifier: Apache-2.0
"""What is refused, by name, and that nothing has been written by then."""

import gymnasium
import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import TASKS, MixedEnv, VectorEnv, terms

gymnasium.register_envs(ws.envs)
POLE = TASKS["CartPole"]


class Moving(POLE):
    """With commands, a term that keeps something, and a random mass."""

    observations = {"q": terms.late(terms.positions(), 1), "speed": terms.command("speed")}
    commands = {"speed": terms.uniform_command(-1.0, 1.0)}
    events = (terms.randomise("body_mass", 0.5, 2.0),)


def flat(kept, into=None, at=()) -> dict:
    """Arrays and numbers of a nested dict by their places."""
    into = {} if into is None else into
    for key, value in kept.items() if isinstance(kept, dict) else enumerate(kept):
        if isinstance(value, (dict, list)):
            flat(value, into, (*at, key))
        else:
            into[*at, key] = value
    return into


def changed(kept: dict, *path, value) -> dict:
    """The same with another value at a place; `KeyError` as the value takes it away."""
    kept = {k: v for k, v in kept.items()}
    first, *rest = path
    if rest:
        kept[first] = changed(kept[first], *rest, value=value)
    elif value is KeyError:
        del kept[first]
    else:
        kept[first] = value
    return kept


def ran(task=Moving, worlds: int = 3, **options):
    env = VectorEnv(task, worlds, device="cpu", **options)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    return env


def test_a_state_of_something_else_changes_nothing():
    """Each is refused by the name of what does not fit, before anything is written."""
    env = ran()
    good = ran(seed=5).state_dict()
    parameter = next(name for name in good["arrays"] if name.endswith("body_mass"))
    wrongs = [
        (None, "state_dict"),
        (3, "state_dict"),
        ({}, "arrays"),
        (ran(TASKS["Hopper"]).state_dict(), "q"),
        (ran(worlds=4).state_dict(), "q"),
        (changed(good, "terms", value=[]), "terms"),
        (changed(good, "terms", value=3), "terms"),
        (changed(good, "view", value={}), "q_before"),
        (changed(good, "view", "steps", value=np.zeros(2, int)), "steps"),
        (changed(good, "view", "q_before", value="x"), "q_before"),
        (changed(good, "faults", value=np.zeros(2, int)), "faults"),
        (changed(good, "stream", value={}), "stream"),
        (changed(good, "stream", "episode", value=np.zeros(4, int)), "episode"),
        (changed(good, "stream", "seed", value="x"), "seed"),
        (changed(good, "commands", value={}), "speed"),
        (changed(good, "commands", "speed", value=np.zeros((3, 2))), "speed"),
        (changed(good, "ended", value=np.zeros(2, bool)), "ended"),
        (changed(good, "tick", value="x"), "tick"),
        (changed(good, "begun", value=KeyError), "begun"),
        (changed(good, "arrays", "v", value=KeyError), "v"),
        (changed(good, "arrays", parameter, value=np.zeros((3, 9))), "body_mass"),
        (changed(good, "arrays", parameter.replace("body_mass", "nope"), value=np.zeros((3, 9))), "nope"),
    ]
    before, other = flat(env.state_dict()), MixedEnv([Moving, Moving], 6, device="cpu")
    other.reset(seed=2)
    mixed = flat(other.state_dict())
    for wrong, word in wrongs:
        with pytest.raises(ValueError, match=rf"load_state_dict.*{word}"):
            env.load_state_dict(wrong)
        with pytest.raises(ValueError, match=rf"load_state_dict.*{word}"):
            other.load_state_dict({"0": good, "1": wrong})
        for a, b in ((before, flat(env.state_dict())), (mixed, flat(other.state_dict()))):
            assert a.keys() == b.keys()
            for name, value in a.items():
                np.testing.assert_array_equal(b[name], value, err_msg=str((word, name)))
    env.load_state_dict(good)
    for name, value in flat(good).items():
        np.testing.assert_array_equal(flat(env.state_dict())[name], value)


def test_numbers_of_worlds_and_options():
    """`first_world`, options of `reset` and of a task: by name, with the value."""
    for make in (
        lambda x: VectorEnv(POLE, 2, device="cpu", first_world=x),
        lambda x: MixedEnv([POLE], 2, device="cpu", first_world=x),
    ):
        for wrong in ("a", -1, 1.5):
            with pytest.raises(ValueError, match="first_world is"):
                make(wrong)
    envs = [
        VectorEnv(POLE, 2, device="cpu"),
        MixedEnv([POLE, POLE], 2, device="cpu"),
        gymnasium.make("warpsim/CartPole-v0", device="cpu"),
    ]
    for env in envs:
        for wrong, word in (({"dt": 0.1}, "'dt'"), (3, "3"), ({"x": 1, "reset_mask": None}, "'x'")):
            with pytest.raises(ValueError, match=rf"options.*{word}"):
                env.reset(options=wrong)
        env.reset(options={})
    for wrong, word in (
        ({"dt": 0.1}, "'dt'.*timestep"),
        ({"requires_grad": True}, "'requires_grad'"),
        ({"dtype": "float64"}, "'dtype'"),
        ({"worlds": 3}, "'worlds'"),
        ({"nope": 3}, "'nope'"),
        (3, "options is 3"),
    ):
        with pytest.raises(ValueError, match=word):
            VectorEnv(POLE, 2, device="cpu", options=wrong)


def test_motors_are_as_many_as_actuators():
    """`dc_motor`: numbers for another count of joints, joints for another count of actions, actuators of no joint."""
    for motor, word in (
        (terms.dc_motor([1.0, 2.0], 30.0), "stall_torque has 2"),
        (terms.dc_motor(1.0, [30.0, 2.0, 3.0]), "free_speed has 3"),
        (terms.dc_motor(1.0, 30.0, joints=("slide", "pivot")), "dc_motor.*2.*1 action"),
    ):
        env = None
        with pytest.raises(ValueError, match=word):
            env = VectorEnv(POLE, 2, device="cpu", actuators=(motor,))
            env.reset()
            env.step(np.zeros((2, 1)))
    for wrong in (np.inf, np.ones((1, 1)), [1.0, 0.0]):
        with pytest.raises(ValueError, match="stall_torque is"):
            terms.dc_motor(wrong, 30.0)
