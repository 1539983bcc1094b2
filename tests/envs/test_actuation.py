# SPDX-License-Identifier: Apache-2.0
"""Actuators at each physics step are a loop over physics steps that calls them by hand."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv, terms

DECIMATION, H, TAU, KP, KD = 5, 0.002, 0.02, 8.0, 0.4
JOINTS = ("hip", "knee", "ankle")


class Leg(Task):
    """The hopper by torques."""

    model = ws.robots.path("hopper")
    timestep, decimation, episode = H, DECIMATION, None
    observations = {"q": terms.positions(), "v": terms.velocities()}
    action_range = (-np.ones(3), np.ones(3))
    actuation = "physics"


def servo(s, target):
    """A servo of own making: it reads the state before each physics step."""
    q, v = (x[:, c] for x, c in zip((s.q, s.v), s.columns(*JOINTS), strict=True))
    return KP * (target - q) - KD * v


def played(actions, actuators, array: str = "numpy", **options):
    """Observations after each action, and the environment."""
    env = VectorEnv(Leg, 3, device="cpu", dtype="float64", array=array, actuators=actuators, **options)
    env.reset(seed=0)
    return env, np.array([env.arrays.host(env.step(env.arrays.made(a))[0]) for a in actions])


def by_hand(actions, law) -> np.ndarray:
    """The same with a simulator: `law(action, q, v)` gives the control of every physics step."""
    sim = ws.Simulator(ws.load(Leg.model), 3, dt=H, device="cpu", dtype="float64")
    state, found = sim.state(), []
    for action in actions:
        for _ in range(DECIMATION):
            state = sim.step(state, law(action, state.q.numpy(), state.v.numpy()))
        found.append(np.concatenate([state.q.numpy(), state.v.numpy()], axis=1))
    return np.array(found)


@pytest.fixture
def actions():
    return np.random.default_rng(0).uniform(-0.9, 0.9, (8, 3, 3))


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_actuators_run_at_each_physics_step(actions, array):
    """Bits of a loop by hand: a delay of 7 physics steps, a lag of first order at the physics step, and a servo."""
    if array == "torch":
        pytest.importorskip("torch")
    model = ws.load(Leg.model)
    q_columns, v_columns = ([model.joint_coordinates(n)[i].start for n in JOINTS] for i in (0, 1))
    past, level, share = [], np.zeros((3, 3)), 1.0 - np.exp(-H / TAU)

    def law(action, q, v):
        nonlocal level
        past.append(action)
        level = level + share * (past[max(len(past) - 8, 0)] - level)
        return KP * (level - q[:, q_columns]) - KD * v[:, v_columns]

    _, found = played(actions, (terms.delayed(7), terms.first_order(TAU), servo), array)
    np.testing.assert_array_equal(found, by_hand(actions, law))


def test_once_per_action_holds_the_control(actions):
    """`actuation="action"`, the default: the servo reads the state before the action, and its torque is held."""
    held = []

    def law(action, q, v):
        if law.calls % DECIMATION == 0:
            held[:] = [KP * (action - q[:, -3:]) - KD * v[:, -3:]]
        law.calls += 1
        return held[0]

    law.calls = 0
    env, found = played(actions, (servo,), actuation="action")
    np.testing.assert_allclose(found, by_hand(actions, law), rtol=1e-9, atol=1e-9)
    each, other = played(actions, (servo,))
    assert abs(other - found).max() > 1e-3
    assert env.view.dt == each.view.dt == DECIMATION * H and (env.view.period, each.view.period) == (env.view.dt, H)


def test_a_network_at_each_physics_step(actions):
    """An actuator network of errors and velocities at lags 0 and 3: ages are physics steps."""
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(4, 1, bias=False)
    network.weight.data[:] = torch.tensor([6.0, 2.0, -0.3, -0.1])
    model = ws.load(Leg.model)
    gear = model.actuator_gear[:, 0]
    seen = []

    def law(action, q, v):
        seen.append((action - q[:, -3:], v[:, -3:]))
        now, then = seen[-1], seen[max(len(seen) - 4, 0)]
        return (6.0 * now[0] + 2.0 * then[0] - 0.3 * now[1] - 0.1 * then[1]) / gear

    term = terms.actuator_network(network, lags=(0, 3))
    _, found = played(actions, (term,), "torch")
    np.testing.assert_allclose(found, by_hand(actions, law), rtol=1e-5, atol=1e-5)


def test_checkpoints_and_episodes_go_on(actions):
    """A delay and a lag continue from a checkpoint with the same bits; an episode begins with their memories anew."""
    actuators = (terms.delayed(7), terms.first_order(TAU), servo)
    a, _ = played(actions[:3], actuators)
    b, _ = played(actions[:1], actuators)
    b.load_state_dict(a.state_dict())
    for action in actions[3:]:
        np.testing.assert_array_equal(b.step(action)[0], a.step(action)[0])
    a.reset(seed=0)
    np.testing.assert_array_equal([a.step(x)[0] for x in actions], played(actions, actuators)[1])


def test_gradients_pass_through_actuators_at_each_step(actions):
    """The derivative of the last height with respect to the first action agrees with central differences."""
    torch = pytest.importorskip("torch")

    def height(first, grad: bool):
        env = VectorEnv(
            Leg, 1, device="cpu", dtype="float64", array="torch", requires_grad=grad, actuators=(servo,), decimation=3
        )
        env.reset(seed=0)
        for action in (first, torch.as_tensor(actions[1, :1])):
            observation = env.step(action)[0]
        return observation[0, 3]

    first = torch.as_tensor(actions[0, :1]).requires_grad_()
    height(first, True).backward()
    eps, base = 1e-5, torch.as_tensor(actions[0, :1])
    for i in range(3):
        step = torch.zeros_like(base)
        step[0, i] = eps
        expected = (height(base + step, False) - height(base - step, False)) / (2 * eps)
        assert abs(float(first.grad[0, i] - expected)) < 1e-5 * max(1.0, abs(float(expected)))


def test_another_rate_is_refused():
    """An unknown `actuation` is refused by its value, with what there is."""
    with pytest.raises(ValueError, match=r"actuation is 'always'.*action"):
        VectorEnv(Leg, 1, device="cpu", actuation="always")
