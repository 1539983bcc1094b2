"""The two lagged corrections of the convex contact model: no gliding, and no sinking under heavy bodies."""

import numpy as np
import pytest

import warpsim as ws

RADIUS = 0.05
LAGGED = ws.SAP(approximation="lagged")


def sliding_ball(mu: float, h: float) -> ws.Model:
    b = ws.ModelBuilder("ball", timestep=h)
    b.add_geom("plane", friction=mu)
    ball = b.add_body("ball", pose=[0, 0, RADIUS])
    b.add_joint(ball, "free")
    b.add_geom("sphere", [RADIUS], body=ball, friction=mu)
    return b.build()


@pytest.mark.parametrize("mu", [0.2, 1.0])
@pytest.mark.parametrize("h", [1e-2, 1e-3])
def test_a_sliding_ball_does_not_hover(device, mu, h):
    """At 1 m/s it stays below 1 µm above the floor, where the convex model hops 2 mm, and ends rolling at 5/7 m/s."""
    sim = ws.Simulator(sliding_ball(mu, h), dtype="float64", device=device, solver=LAGGED)
    path = sim.rollout(sim.state(v=[1, 0, 0, 0, 0, 0]), steps=round(0.3 / h))
    assert path.q.numpy()[:, 0, 2].max() - RADIUS < 1e-6
    assert path.q.numpy()[:, 0, 2].min() - RADIUS > -1e-4  # near-rigid contact's own penetration is 5.5e-5 at h = 0.01
    assert path.v.numpy()[-1, 0, 0] == pytest.approx(5 / 7, rel=1e-3)
    convex = ws.Simulator(sliding_ball(mu, h), dtype="float64", device=device)
    hop = convex.rollout(convex.state(v=[1, 0, 0, 0, 0, 0]), steps=round(0.3 / h)).q.numpy()[:, 0, 2].max() - RADIUS
    assert hop > 1e-3


def test_friction_obeys_coulomb_while_sliding(device):
    """A block that slides at μ = 0.3 loses μ g t of its speed, whatever its speed: the normal force is its weight."""
    mu, h, steps = 0.3, 0.01, 30
    b = ws.ModelBuilder("block", timestep=h)
    b.add_geom("plane", friction=mu)
    block = b.add_body("block", pose=[0, 0, 0.02])
    b.add_joint(block, "free")
    b.add_geom("box", [0.2, 0.2, 0.02], body=block, friction=mu)
    for speed in (2.0, 10.0):
        sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=LAGGED)
        settled = sim.rollout(sim.state(), steps=100, every=100).final
        state = sim.state(q=settled.q, v=[speed, 0, 0, 0, 0, 0])
        state = sim.rollout(state, steps=steps, every=steps).final
        assert state.v.numpy()[0, 0] == pytest.approx(speed - mu * 9.81 * h * steps, rel=5e-3)


def pressed_ball(ratio: float) -> ws.Model:
    b = ws.ModelBuilder("press", timestep=0.01)
    b.add_geom("plane")
    for k, mass in enumerate((1.0, ratio)):
        body = b.add_body(f"ball_{k}", pose=[0, 0, RADIUS * (2 * k + 1)], mass=mass, inertia=[1e-3 * mass] * 3)
        b.add_joint(body, "slide", axis=[0, 0, 1])
        b.add_geom("sphere", [RADIUS], body=body)
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_light_ball_under_a_heavy_one_does_not_sink(device, dtype):
    """1:1000 in mass: it sinks less than 0.1 mm, as under its own weight, where β = 1 alone lets it sink by 10 mm."""
    depth = {}
    for name, supported in (("own", False), ("supported", True)):
        sim = ws.Simulator(pressed_ball(1000.0), dtype=dtype, device=device, solver=ws.SAP(supported_load=supported))
        end = sim.rollout(sim.state(), steps=300, every=300).final
        depth[name] = -end.q.numpy()[0, 0]
        assert end.memory["flags"].numpy()[0] == 0
    assert 0 < depth["supported"] < 1e-4 and depth["own"] > 5e-3


def test_lagged_clutter_settles_and_is_certified(device):
    """Spheres and boxes with both corrections: every step converges; penetration ends below 0.5 mm."""

    from scenes.examples import clutter

    solver = ws.SAP(approximation="lagged", supported_load=True)
    sim = ws.Simulator(clutter(20), device=device, dtype="float64", solver=solver)
    path = sim.rollout(sim.state(), steps=300)
    assert not (path.diagnostics["flags"].numpy() & ~ws.UNRESOLVED).any()  # bodies fall fast at this step
    assert path.diagnostics["momentum_error"].numpy().max() <= 1e-6
    assert sim.last_contacts.phi.min() > -5e-4


def test_gradients_of_the_lagged_model_are_refused():
    """The adjoint knows the convex model only: asking for more raises."""
    with pytest.raises(ValueError, match="convex"):
        ws.Simulator(sliding_ball(0.2, 0.01), requires_grad=True, solver=LAGGED)


@pytest.mark.parametrize(("option", "word"), [({"approximation": "exact"}, "approximation"), ({"passes": 0}, "passes")])
def test_bad_options_are_refused(option, word):
    """The message names the option."""
    with pytest.raises(ValueError, match=word):
        ws.SAP(**option)


def test_worlds_do_not_depend_on_each_other(device):
    """World i of many has the bits of the same world alone, with both corrections."""
    solver = ws.SAP(approximation="lagged", supported_load=True)
    speeds = np.linspace(-2, 2, 7)
    v = np.zeros((7, 6))
    v[:, 0] = speeds
    many = ws.Simulator(sliding_ball(0.5, 0.01), worlds=7, device=device, solver=solver)
    ends = many.rollout(many.state(v=v), steps=20, every=20).final.q.numpy()
    one = ws.Simulator(sliding_ball(0.5, 0.01), device=device, solver=solver)
    for w in (0, 3, 6):
        np.testing.assert_array_equal(one.rollout(one.state(v=v[w]), steps=20, every=20).final.q.numpy()[0], ends[w])
