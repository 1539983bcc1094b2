# SPDX-License-Identifier: Apache-2.0
"""Gradients through environments: against central differences, through rewards, actuators, poses and episodes that end."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import warpsim as ws  # noqa: E402
from warpsim.envs import TASKS, Task, VectorEnv, sensing, terms  # noqa: E402
from warpsim.model.model import JointType  # noqa: E402


class Smooth(Task):
    """A floating robot with every kind of smooth term."""

    model = ws.robots.path("ant")
    decimation, episode = 2, None
    observations = {"q": terms.late(terms.positions(), 1), "turn": sensing.angular_velocity("torso")}
    rewards = {
        "speed": lambda s: sensing.linear_velocity("torso")(s)[:, 0],
        "up": lambda s: sensing.projected_gravity("torso")(s)[:, 2],
        "place": lambda s: (s.poses[:, -1, :3] ** 2).sum(-1),
        "change": (-0.1, terms.action_change),
        "ctrl": (-0.1, terms.action_squared),
    }
    actuators = (terms.first_order(0.05), terms.scaled(0.5))
    starts = (terms.start_noise(q=0.05, v=0.2),)
    options = {"solver": ws.SAP(tolerance=1e-12)}


def played(env, table):
    """The sum of rewards and observations over all steps."""
    env.reset(seed=2)
    env.detach()
    total = 0.0
    for action in table:
        observation, reward, *_ = env.step(action)
        total = total + reward.sum() + 0.1 * (observation**2).sum()
    return total


@pytest.mark.parametrize("steps", [1, 10, 40])
def test_gradients_are_central_differences(steps):
    """By actions, in float64, over a sweep of step sizes."""
    env = VectorEnv(Smooth, 2, array="torch", requires_grad=True, dtype="float64", device="cpu", autoreset="DISABLED")
    rng = np.random.default_rng(0)
    table = torch.tensor(0.3 * rng.standard_normal((steps, 2, 8)), requires_grad=True)
    played(env, table).backward()
    best = []
    for entry in ((0, 0, 1), (steps // 2, 1, 4), (steps - 1, 0, 7)):
        errors = []
        for h in (1e-3, 1e-4, 1e-5, 1e-6):
            values = []
            for sign in (1.0, -1.0):
                moved = table.detach().clone()
                moved[entry] += sign * h
                with torch.no_grad():
                    values.append(played(env, moved).item())
            difference = (values[0] - values[1]) / (2 * h)
            errors.append(abs(difference - table.grad[entry].item()) / max(abs(difference), 1e-2))
        best.append(min(errors))
    assert max(best) < 1e-5


def test_poses_and_velocities_are_the_simulators():
    """Forward kinematics of the gradient view, and their rates, beside those of an ordinary environment."""
    for name in ("Ant", "Reacher", "HalfCheetah"):
        plain = VectorEnv(TASKS[name], 3, array="torch", dtype="float64", device="cpu")
        options = {"observations": {"q": terms.positions()}, "rewards": {}}
        smooth = VectorEnv(TASKS[name], 3, array="torch", requires_grad=True, dtype="float64", device="cpu", **options)
        for env in (plain, smooth):
            env.reset(seed=4)
        np.testing.assert_allclose(smooth.view.poses, plain.view.poses, atol=1e-12)
        np.testing.assert_allclose(smooth.view.velocities, plain.view.velocities, atol=1e-12)
        for view, body in itertools.product((plain.view, smooth.view), range(plain.sim.model.nbody)):
            free = view.model.link_type[view.model.body_link[body]] == JointType.FREE  # then they are read from q and v
            most = 1e-15 if free else 0.0
            np.testing.assert_allclose(view.pose(body), view.poses[:, body], rtol=0, atol=most)
            np.testing.assert_allclose(view.velocity(body), view.velocities[:, body], rtol=0, atol=most)


def test_episodes_cut_gradients_and_detach_forgets():
    """What an ended episode did has no effect on the next; after `detach` nothing before has any."""
    env = VectorEnv(Smooth, 3, array="torch", requires_grad=True, device="cpu", autoreset="SAME_STEP", episode=4)
    env.reset(seed=1)
    table = torch.zeros((6, 3, 8), requires_grad=True)
    for action in table:
        _, reward, _, truncated, _ = env.step(action)
    reward.sum().backward()
    assert (table.grad[:4] == 0.0).all() and table.grad[4:].abs().min(0).values.max() > 0.0
    assert not truncated.any()
    env.detach()
    observation, *_ = env.step(torch.zeros((3, 8)))
    assert not observation.requires_grad
    kept, action = env.state_dict(), torch.full((3, 8), 0.2)
    expected = env.step(action)[0]
    other = VectorEnv(Smooth, 3, array="torch", requires_grad=True, device="cpu", autoreset="SAME_STEP", episode=4)
    other.reset(seed=9)
    other.load_state_dict(kept)
    np.testing.assert_array_equal(other.step(action)[0].detach(), expected.detach())


@pytest.mark.parametrize("name", ["Ant", "CartPole", "HalfCheetah", "Hopper", "Reacher", "Walker2d"])
def test_smooth_versions_of_tasks_have_gradients(name):
    """Every reward of five actions depends on the first action of its world, and on no other world's."""
    task = TASKS[name]
    env = VectorEnv(task, 3, array="torch", requires_grad=True, device="cpu", autoreset="DISABLED", **task.smooth)
    env.reset(seed=1)
    first = torch.zeros((3, env.single_action_space.shape[0]), requires_grad=True)
    total = 0.0
    for k in range(5):
        _, reward, *_ = env.step(first if k == 0 else 0.0 * first.detach())
        total = total + reward[1]
    total.backward()
    assert torch.isfinite(first.grad).all() and first.grad[1].abs().max() > 1e-6
    assert (first.grad[[0, 2]] == 0.0).all()


def test_what_has_no_gradient_is_refused():
    """By name: other frameworks, environments made without."""
    with pytest.raises(ValueError, match="torch"):
        VectorEnv(Smooth, 1, requires_grad=True, device="cpu")
    with pytest.raises(ValueError, match="requires_grad"):
        VectorEnv(Smooth, 1, device="cpu").detach()


def sensed() -> ws.Model:
    b = ws.ModelBuilder()
    b.add_model(ws.load(ws.robots.path("cartpole")))
    b.add_sensor("jointpos", "pivot", name="encoder")
    return b.build()


@pytest.mark.parametrize(
    ("table", "term", "message"),
    [
        ("observations", terms.noisy(sensing.sensor("encoder"), normal=0.1), "sensors have no gradient.*sensing.imu"),
        ("rewards", (0.5, lambda s: s.commands["x"][:, 0] * s.about_centre[3]), "quantities about centers of mass"),
        ("terminations", lambda s: s.contact_force[:, 0, 2] > 1.0, "contact forces have no gradient.*`smooth`"),
    ],
)
def test_a_term_without_gradient_is_refused_by_name_before_anything_compiles(monkeypatch, table, term, message):
    """The first kernels of an environment are those that begin episodes."""
    monkeypatch.setattr(VectorEnv, "_begin", lambda *_: pytest.fail("it begins episodes"))
    tables = {"observations": {"q": terms.noisy(terms.positions(), uniform=0.1)}}
    tables[table] = tables.get(table, {}) | {"mine": term}
    task = Task(model=sensed(), commands={"x": terms.uniform_command(0.0, 1.0)}, **tables)
    with pytest.raises(ValueError, match=rf"{table}\['mine'\]: {message}"):
        VectorEnv(task, 2, array="torch", requires_grad=True, device="cpu")


def test_a_term_that_needs_an_episode_is_not_refused():
    """What a term raises before the first episode does not count."""

    def drawn(s, old, begun):
        if not s.seeded:
            raise ValueError("no episode")
        return s.uniform(1)

    tables = {"observations": {"far": lambda s: s.commands["x"]}, "commands": {"x": drawn}}
    env = VectorEnv(Task(model=sensed(), **tables), 1, array="torch", requires_grad=True, device="cpu")
    assert env.view.commands["x"].shape == (1, 1)


def test_swing_up_begins_below_and_is_smooth():
    """The pole hangs at the start and success is to stand; by a push of the cart the reward of a hanging pole has a slope in every world."""
    kind = TASKS["CartPoleSwingUp"]
    env = VectorEnv(kind, 8, device="cpu", array="torch", requires_grad=True, autoreset="DISABLED")
    observation, _ = env.reset(seed=100)
    assert (observation[:, 1] < -0.99).all() and not env.succeeded().any()
    push = torch.zeros((8, 1), requires_grad=True)
    for _ in range(10):
        reward, terminated = env.step(push)[1:3]
    assert not terminated.any() and (abs(torch.autograd.grad(reward.sum(), push)[0]) > 1e-3).all()


@pytest.mark.parametrize("name", ["Humanoid", "HumanoidStandup"])
def test_humanoids_learn_by_gradients(name):
    """`smooth` leaves out what has no derivative: rewards have gradients by actions in every world."""
    kind = TASKS[name]
    env = VectorEnv(kind, 2, device="cpu", array="torch", requires_grad=True, **kind.smooth)
    env.reset(seed=100)
    action = torch.zeros((2, 17), requires_grad=True)
    gradient = torch.autograd.grad(env.step(action)[1].sum(), action)[0]
    assert torch.isfinite(gradient).all() and (gradient.norm(dim=1) > 1e-3).all()
