# SPDX-License-Identifier: Apache-2.0
"""What terms draw belongs to (seed, world, episode, step), in whatever term it stands and whatever was before."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.envs import Task, VectorEnv, terms


class Rail(Task):
    """A pole on a cart."""

    model = ws.robots.path("cartpole")
    timestep, decimation, episode = 0.01, 2, 5
    observations = {"q": terms.positions()}
    starts = (terms.start_noise(q=0.1),)


class halved(terms.Term):
    """Half of another term."""

    def __init__(self, term):
        self.term = term

    def bind(self, view) -> None:
        self.term.bind(view)

    def reset(self, view, mask) -> None:
        self.term.reset(view, mask)

    def __call__(self, view):
        return 0.5 * self.term(view)


def nothing(s):
    return 0.0 * s.q[:, 0]


@pytest.mark.parametrize("table", ["observations", "rewards"])
def test_a_bias_is_of_its_episode(table):
    """The same in the first and second reset with a seed, in an environment that has run before, and as an observation or a reward."""
    found = []
    for before in (0, 3, 9):
        env = VectorEnv(
            Rail, 4, device="cpu", autoreset="SAME_STEP", **{table: {"x": halved(terms.noisy(nothing, bias=1.0))}}
        )
        env.reset(seed=8)
        for _ in range(before):
            env.step(np.zeros((4, 1)))
        env.reset(seed=3)
        rows = []
        for _ in range(4):
            observation, reward, *_ = env.step(np.zeros((4, 1)))
            rows.append(reward if table == "rewards" else observation[:, 0])
        assert (np.array(rows) == rows[0]).all() and len(set(rows[0].tolist())) == 4
        found.append(rows[0])
    np.testing.assert_array_equal(found, [found[0]] * 3)
    other = VectorEnv(Rail, 4, device="cpu", observations={"x": halved(terms.noisy(nothing, bias=1.0))})
    np.testing.assert_array_equal(other.reset(seed=3)[0][:, 0], found[0])


def test_noise_leaves_the_shape():
    """A noisy reward is a reward, `(worlds,)`."""
    env = VectorEnv(
        Rail, 3, device="cpu", rewards={"x": terms.noisy(lambda s: s.q[:, 0], uniform=0.1, normal=0.1, bias=0.1)}
    )
    env.reset(seed=0)
    assert env.step(np.zeros((3, 1)))[1].shape == (3,)


def test_a_seed_draws_parameters_anew():
    """`randomise(when="startup")`: `reset(seed=)` gives what an environment of that seed has, other resets leave it."""
    event = terms.randomise("body_mass", 0.5, 2.0)
    a, b = (VectorEnv(Rail, 4, device="cpu", seed=k, events=(event,)) for k in (0, 5))
    first = a.sim.parameters["body_mass"].numpy().copy()
    a.reset()
    np.testing.assert_array_equal(a.sim.parameters["body_mass"].numpy(), first)
    for env in (a, b):
        env.reset(seed=5)
    fifth = b.sim.parameters["body_mass"].numpy().copy()
    np.testing.assert_array_equal(a.sim.parameters["body_mass"].numpy(), fifth)
    assert (fifth[:, 1:] != first[:, 1:]).all()
    a.reset()
    np.testing.assert_array_equal(a.sim.parameters["body_mass"].numpy(), fifth)
    a.reset(seed=0)
    np.testing.assert_array_equal(a.sim.parameters["body_mass"].numpy(), first)


def test_one_parameter_is_randomised_once():
    """The second event would replace what the first drew; it is refused by the parameter's name."""
    events = (terms.randomise("body_mass", 0.5, 2.0), terms.randomise("body_mass", 0.9, 1.1, when="reset"))
    with pytest.raises(ValueError, match=r"randomise 'body_mass'.*twice"):
        VectorEnv(Rail, 2, device="cpu", events=events)


def test_bounds_may_change():
    """Numbers of a view are the stream's, in memory of their own, however many bounds a term asks for in turn."""
    view = VectorEnv(Rail, 3, device="cpu").view
    kept = []
    for k in range(150):
        found = view.uniform(2, -1.0 - k, [1.0 + k, 2.0], draw=1)
        expected = view.stream.uniform(2, -1.0 - k, [1.0 + k, 2.0], draw=1).numpy()
        kept.append((found, expected.copy()))
        view.advance()
    for found, expected in kept:
        np.testing.assert_array_equal(found, expected)
    for low in (np.inf, [np.nan, 0.0], [0.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="low is"):
            view.uniform(2, low, 1.0)


def test_a_mass_takes_its_inertia_with_it():
    """`randomise("body_mass")` is another density: with a factor f a torque turns a body alone, about its centre of mass, at 1/f of the rate. With `inertia=False` it turns as before."""
    b = ws.ModelBuilder("wheels")
    for k in range(2):
        wheel = b.add_body(f"wheel {k}", mass=2.0 + k, inertia=np.diag([0.1, 0.2, 0.3]))
        b.add_joint(wheel, "hinge", axis=[0, 0, 1], name=f"axle {k}")

    class Wheels(Task):
        model, decimation, episode = b.build(), 1, None
        observations = {"v": terms.velocities()}

    for each, inertia in ((False, None), (True, True), (False, False)):
        event = terms.randomise("body_mass", 0.5, 2.0, when="reset", each=each, inertia=inertia)
        env = VectorEnv(Wheels, 3, device="cpu", events=(event,))
        env.reset(seed=1)
        sim = env.sim
        factor = sim.parameters["body_mass"].numpy() / sim.model.body_mass
        assert np.ptp(factor) > 0.1 and (np.ptp(factor, axis=1) > 1e-4).all() == each
        turns = np.ones_like(factor) if inertia is False else factor
        expected = turns[..., None, None] * sim.model.body_inertia
        np.testing.assert_allclose(sim.parameters["body_inertia"].numpy(), expected, rtol=1e-6)
        v = sim.step(sim.state(), tau=np.ones((3, 2))).v.numpy()
        np.testing.assert_allclose(v, sim.dt / (turns * 0.3), rtol=1e-5)
    sim.parameters["body_mass"] = 2 * sim.model.body_mass
    np.testing.assert_allclose(sim.parameters["body_inertia"].numpy()[0], sim.model.body_inertia, rtol=1e-6)


def test_an_inertia_is_randomised_once():
    """With a mass or by itself; the option is for masses alone."""
    mass, inertia = terms.randomise("body_mass", 0.5, 2.0), terms.randomise("body_inertia", 0.5, 2.0)
    for events in ((mass, inertia), (inertia, mass)):
        with pytest.raises(ValueError, match=r"'body_inertia'.*twice.*inertia=False"):
            VectorEnv(Rail, 2, device="cpu", events=events)
    VectorEnv(Rail, 2, device="cpu", events=(terms.randomise("body_mass", 0.5, 2.0, inertia=False), inertia))
    with pytest.raises(ValueError, match=r"'gravity'.*inertia is True"):
        terms.randomise("gravity", 0.5, 2.0, inertia=True)
    with pytest.raises(ValueError, match="inertia"):
        terms.randomise("body_mass", 0.5, 2.0, inertia=1)


class Noisy(Rail):
    """Poles fall at different times; terms draw in every pass of a step and where episodes begin."""

    episode = 50
    observations = {"q": terms.noisy(terms.positions(), uniform=0.1, bias=0.2), "v": terms.velocities()}
    terminations = {"turned": lambda s: abs(s.q[:, 1]) > 0.08}


@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP"])
def test_draws_after_some_worlds_began_are_those_of_the_stream(mode, array):
    """Numbers of a step that are drawn again where episodes begin are the stream's in all worlds, bit for bit."""
    if array == "torch":
        pytest.importorskip("torch")
    env = VectorEnv(Noisy, 40, device="cpu", autoreset=mode, array=array)
    env.reset(seed=1)
    view, begun, rng = env.view, 0, np.random.default_rng(0)
    for _ in range(25):
        env.step(env.arrays.made(rng.uniform(-1.0, 1.0, (40, 1)).astype(np.float32)))
        for draw in range(view.draws):
            for columns, low, high in ((2, -0.1, 0.1), (3, 0.0, 1.0)):
                found = np.asarray(view.uniform(columns, low, high, draw=draw))
                expected = view.stream.uniform(columns, low, high, draw=draw).numpy()
                np.testing.assert_array_equal(found, expected)
                ones = np.asarray(view.uniform(columns, low, high, draw=draw, of_episode=True))
                expected = view._start.uniform(columns, low, high, draw=draw).numpy()
                np.testing.assert_array_equal(ones, expected)
        begun += int(0 < (np.asarray(view.steps) == 0).sum() < 40)
    assert begun > 5


def test_starts_draw_the_numbers_of_the_worlds_that_begin():
    """Initial states of worlds that begin an episode are the model's plus the stream's numbers; others move on."""
    env = VectorEnv(Noisy, 40, device="cpu", autoreset="SAME_STEP")
    env.reset(seed=1)
    view, begun, number = env.view, 0, env.task.starts[0].draws["q"]
    for _ in range(25):
        env.step(np.zeros((40, 1)))
        new = view.steps == 0
        noise = view.stream.uniform(2, -0.1, 0.1, draw=number).numpy()
        np.testing.assert_array_equal(view.q[new], env.sim.model.q0.astype(np.float32) + noise[new])
        begun += int(0 < new.sum() < 40)
    assert begun > 3


def test_a_checkpoint_draws_on():
    """After `load_state_dict` terms draw the numbers of the checkpoint, not those of the step before."""
    a, b = (VectorEnv(Noisy, 5, device="cpu", autoreset="SAME_STEP") for _ in range(2))
    a.reset(seed=1), b.reset(seed=2)
    for _ in range(3):
        a.step(np.zeros((5, 1)))
    b.load_state_dict(a.state_dict())
    np.testing.assert_array_equal(b._observe(), a._observe())
