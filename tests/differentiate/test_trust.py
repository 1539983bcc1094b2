# SPDX-License-Identifier: Apache-2.0
"""The report on trust: kinks counted exactly in motions made by hand, and the verdict where it is known."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.differentiate.trust import disagreement

FINE = {"dtype": "float64", "requires_grad": True, "device": "cpu"}
WORLDS, STEPS = 2, 80


@wp.kernel
def squared_miss(q: wp.array3d(dtype=wp.float64), target: wp.float64, loss: wp.array(dtype=wp.float64)):
    """(first coordinate of the last row - target)², per world or, where the array has one entry, in sum."""
    w = wp.tid()
    d = q[q.shape[0] - 1, w, 0] - target
    wp.atomic_add(loss, w % loss.shape[0], d * d)


@wp.kernel
def sum_of_squares(v: wp.array3d(dtype=wp.float32), loss: wp.array(dtype=wp.float32)):
    w = wp.tid()
    for i in range(v.shape[2]):
        loss[w] += v[v.shape[0] - 1, w, i] * v[v.shape[0] - 1, w, i]


def total_speed(v):
    found = wp.zeros(v.shape[1], dtype=wp.float32, device="cpu", requires_grad=True)
    wp.launch(sum_of_squares, dim=v.shape[1], inputs=[v, found], device="cpu")
    return found


def miss(target: float, losses: int | None = None):
    def loss(trajectory):
        found = wp.zeros(losses or trajectory.worlds, dtype=wp.float64, device="cpu", requires_grad=True)
        inputs = [trajectory.q, wp.float64(target), found]
        wp.launch(squared_miss, dim=trajectory.worlds, inputs=inputs, device="cpu")
        return found

    return loss


def slider(solver, worlds=WORLDS) -> ws.Simulator:
    """A box of 0.5 kg on a plane."""
    b = ws.ModelBuilder("slider")
    b.add_geom("plane", friction=0.4)
    b.add_body("box", pose=[0, 0, 0.05])
    b.add_joint("box", "free")
    b.add_geom("box", [0.05] * 3, body="box", density=500.0, friction=0.4)
    return ws.Simulator(b.build(), worlds=worlds, dt=0.005, solver=solver, **FINE)


def sliding(solver, speed: float, **options) -> ws.Objective:
    """Its way to a point by the two frictions, thrown at a speed."""
    friction = {"geom_friction": np.array([[0.4, 0.4], [0.45, 0.45]])}
    loss = options.pop("loss", miss(1.0))
    return ws.Objective(slider(solver), loss, friction, fixed={"v": [speed, 0, 0, 0, 0, 0]}, steps=STEPS, **options)


def ball(solver, restitution: float = 0.0, height: float = 0.5, time_of_impact: bool | None = None) -> ws.Simulator:
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", restitution=restitution)
    b.add_body("ball", pose=[0, 0, height])
    b.add_joint("ball", "slide", axis=[0, 0, 1])
    b.add_geom("sphere", [0.1], body="ball", density=500.0, restitution=restitution)
    return ws.Simulator(b.build(), dt=0.005, solver=solver, time_of_impact=time_of_impact, **FINE)


def stop_pendulum(**options) -> ws.Simulator:
    """A pendulum of 1 m, 1 kg, swinging about y; `options` go to its joint."""
    b = ws.ModelBuilder("pendulum")
    b.add_body("rod", mass=1.0, com=[0, 0, -1.0], inertia=[0.02] * 3)
    b.add_joint("rod", "hinge", axis=[0, 1, 0], **options)
    return ws.Simulator(b.build(), worlds=WORLDS, dt=0.01, **FINE)


def test_a_slider_that_hovers_is_not_trusted():
    """At 2 m/s the convex model throws a slider up: it hops in every world, and the tape disagrees with the motion."""
    found = sliding(ws.SAP(tolerance=1e-12, approximation="convex"), 2.0).trust()
    assert not found.trusted.any()
    assert (found.hops > 3).all() and (found.made > 10).all()
    assert (found.disagreement > 0.5).all()
    assert "not trusted: hops, disagreement" in str(found) and "0 of 2" in repr(found)


@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP()], ids=["SAP", "LCP"])
def test_a_slider_that_stays_down_is_trusted(solver):
    """Coulomb friction without hovering: the same slide has no kink at all, and slope and difference agree to O(step²)."""
    found = sliding(solver, 2.0).trust()
    assert found.trusted.all() and found.per_world
    assert not found.kinks.any() and not found.hops.any()
    np.testing.assert_allclose(found.slope, found.difference, rtol=1e-2)
    assert (found.slope > 0).all()  # along its own gradient


@pytest.mark.parametrize("solver", [ws.SAP(tolerance=1e-12, approximation="convex"), ws.LCP()], ids=["SAP", "LCP"])
def test_a_box_that_comes_to_rest_changes_each_contact_once(solver):
    """0.06 m/s at μ g of 3.9 and 4.4 m/s² are gone within 4 steps: four corners go from sliding to sticking, and nothing else
    happens, under the convex model too while it does not throw the box up, μ v < (1 - μ²) g h."""
    found = sliding(solver, 0.06).trust()
    assert found.slips.tolist() == [4, 4]
    assert not found.made.any() and not found.broken.any() and not found.hops.any()
    assert found.trusted.all()


@pytest.mark.parametrize(("restitution", "bounces"), [(0.8, 1), (0.8, 2), (0.8, 3)])
def test_bounces_are_counted(restitution, bounces):
    """A ball from 0.4 m with e = 0.8 touches at T = √(2·0.4/g) and every 2Teᵏ later; each touch is made and broken once."""
    fall = np.sqrt(2 * 0.4 / 9.81)
    times = fall * (1 + np.cumsum([0, *(2 * restitution ** np.arange(1, 5))]))
    steps = round((times[bounces - 1] + times[bounces]) / 2 / 0.005)  # in mid-flight
    sim = ball(ws.LCP(), restitution, time_of_impact=False)
    found = ws.Objective(sim, miss(0.0), {"v": [0.0]}, steps=steps).trust()
    assert (found.made[0], found.broken[0], found.hops[0]) == (bounces, bounces, 0)
    assert found.steps == steps
    assert found.landings[0] == bounces and f"do not resolve the impact ({bounces} times)" in str(found)


@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP()], ids=["SAP", "LCP"])
def test_bounces_inside_steps_are_no_kinks(solver):
    """With the time of impact a bounce has a slope: nothing is counted, and slope and difference agree."""
    found = ws.Objective(ball(solver, 0.8), miss(0.0), {"v": [0.0]}, steps=150).trust()
    assert found.trusted.all() and not found.kinks.any()
    assert not found.landings.any() and "do not resolve" not in str(found)
    np.testing.assert_allclose(found.slope, found.difference, rtol=1e-2)


def test_a_short_flight_is_a_hop():
    """What counts as a hop is a flight of at most `hop_steps`: of three bounces two flights, 0.46 and 0.37 s, lie between."""
    sim = ball(ws.LCP(), 0.8, time_of_impact=False)
    objective = ws.Objective(sim, miss(0.0), {"v": [0.0]}, steps=250)
    assert [int(objective.trust(hop_steps=n).hops[0]) for n in (10, 80, 100)] == [0, 1, 2]


def test_a_smooth_pendulum_is_trusted():
    """No contact, no stop: no kink, and the difference has the slope of the tape."""
    start = {"q": np.array([[1.0], [2.0]]), "v": np.array([[0.5], [-1.0]])}
    found = ws.Objective(stop_pendulum(), miss(0.3), start, steps=STEPS).trust()
    assert found.trusted.all() and not found.kinks.any()
    assert not found.landings.any() and "do not resolve" not in str(found)
    np.testing.assert_allclose(found.slope, found.difference, rtol=1e-2)


def test_stops_are_counted():
    """A pendulum let go at 0.3 rad comes to lean on a stop at 0.1 rad and stays; from 0.9 rad it does not come there in 0.1 s."""
    sim = stop_pendulum(range=(0.1, 1.0))
    start = {"q": np.array([[0.3], [0.9]])}
    found = ws.Objective(sim, miss(0.0), start, steps=60).trust()
    assert found.stops[0] == 1
    found = ws.Objective(sim, miss(0.0), start, steps=10).trust()
    assert found.stops.tolist() == [0, 0]


def test_a_loss_in_sum_is_compared_in_sum():
    """One number for both worlds: the slope is the sum of the worlds' own, and the table says so."""
    each = sliding(ws.LCP(), 2.0).trust()
    found = sliding(ws.LCP(), 2.0, loss=miss(1.0, losses=1)).trust()
    assert not found.per_world and "their sum" in str(found)
    np.testing.assert_allclose(found.slope, each.slope.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.difference, each.difference.sum(), rtol=1e-8)


@pytest.mark.parametrize(
    "solver", [ws.NoContact(), ws.Compliant(), ws.SAP(approximation="convex")], ids=lambda s: type(s).__name__
)
def test_every_model_and_dtype_is_read(solver):
    """Without contact nothing is counted; in float32 a box at rest pushes from the first step to the last."""
    b = ws.ModelBuilder("box")
    b.add_geom("plane")
    b.add_body("box", pose=[0, 0, 0.05])
    b.add_joint("box", "free")
    b.add_geom("box", [0.05] * 3, body="box")
    sim = ws.Simulator(b.build(), dt=0.005, solver=solver, dtype="float32", requires_grad=True, device="cpu")
    loss = lambda t: total_speed(t.v)  # noqa: E731
    found = ws.Objective(sim, loss, {"v": np.zeros(6)}, steps=10).trust()
    assert not found.kinks.any() and not found.hops.any() and found.slope.shape == (1,)


def test_nothing_is_left_changed():
    """Parameters are those of x afterwards, and the loss and gradient the same numbers as before."""
    objective = sliding(ws.LCP(), 2.0)
    value, gradient = objective(objective.x0)
    objective.trust()
    np.testing.assert_array_equal(objective.sim.parameters["geom_friction"].numpy(), [[0.4, 0.4], [0.45, 0.45]])
    again = objective(objective.x0)
    assert value == again[0] and (gradient == again[1]).all()


def test_disagreement():
    """Equal: 0; one is noise: 1; opposite: 2; at a minimum, where the two sides have the whole slope, 0; rounding is none."""
    two = lambda x: np.array([[x], [x]])  # noqa: E731
    assert disagreement(np.array([1.0]), two(1.0), np.ones(1), 0.03, 1e-16) == 0
    assert disagreement(np.array([5e6]), two(1.0), np.ones(1), 0.03, 1e-16) == pytest.approx(1)
    assert disagreement(np.array([-1.0]), two(1.0), np.ones(1), 0.03, 1e-16) == pytest.approx(2)
    assert disagreement(np.array([1e-9]), np.array([[1.0], [-1.0]]), np.ones(1), 0.03, 1e-16) <= 1e-8
    assert disagreement(np.array([0.0]), two(1e-13), np.ones(1), 0.03, 1e-16) == 0
    assert np.isnan(disagreement(np.array([np.nan]), two(1.0), np.ones(1), 0.03, 1e-16))


def test_check_gradients_reports_it():
    """Right gradients that are of no use: `ok`, and not trusted. Without being asked it reports nothing."""
    sim = slider(ws.SAP(tolerance=1e-13, approximation="convex"))
    state = sim.state(v=[2.0, 0, 0, 0, 0, 0])
    options = {"horizons": (1, 40), "variables": ("v",), "entries": 2}
    found = ws.check_gradients(sim, state, parameters=["geom_friction"], trust=True, **options)
    assert found.ok and not found.trust.trusted.any() and found.trust.steps == 40
    assert str(found).endswith(str(found.trust))
    np.testing.assert_array_equal(sim.parameters["geom_friction"].numpy(), [[0.4, 0.4]] * WORLDS)
    assert ws.check_gradients(sim, state, **options).trust is None


def test_bad_options_are_named():
    """Steps and tolerances must be positive, a number of steps whole."""
    objective = sliding(ws.LCP(), 2.0)
    with pytest.raises(ValueError, match="relative_step"):
        objective.trust(relative_step=0.0)
    with pytest.raises(ValueError, match="hop_steps"):
        objective.trust(hop_steps=-1)
    with pytest.raises(ValueError, match="tolerance"):
        objective.trust(tolerance=float("nan"))
    with pytest.raises(ValueError, match="trust"):
        ws.check_gradients(objective.sim, trust="yes")


def bouncing(e: float, height):
    """The report on balls that fall with 1 m/s sideways, for 0.4 s, with impacts inside steps."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", restitution=e)
    ball = b.add_body("ball", pose=(0, 0, 0.5, 1, 0, 0, 0))
    b.add_joint(ball, "free")
    b.add_geom("sphere", (0.1,), body=ball, restitution=e)
    worlds = len(height)
    sim = ws.Simulator(b.build(), worlds, 0.01, solver=ws.SAP(tolerance=1e-10), time_of_impact=True, **FINE)
    q, v = np.zeros((worlds, 7)), np.zeros((worlds, 6))
    q[:, 2], q[:, 3], v[:, 0] = height, 1, 1
    check = ws.check_gradients(sim, sim.state(q, v), horizons=(40,), variables=("q",), entries=2, trust=True)
    assert check.ok
    return check.trust


def test_impacts_that_steps_resolve_are_no_kinks():
    """A ball that lands and one that bounces cross no kink and do not hop, whose impacts are counted; the table has them."""
    for e, height, impacts in ((0.0, [0.2, 0.3], [1, 1]), (0.8, [0.15, 0.3], [3, 1])):
        trust = bouncing(e, height)
        assert trust.impacts.tolist() == impacts
        assert not (trust.made + trust.broken + trust.stops + trust.hops).any()
        assert "impacts" in str(trust)
    assert trust.trusted[1]


def test_another_number_of_impacts_is_named():
    """The third impact of a ball is near the end: an end of the difference has it or not, and a disagreement says so."""
    trust = bouncing(0.8, [0.15, 0.31])
    assert trust.other_impacts.tolist() == [True, False]
    text = str(trust).splitlines()[2]
    assert "another number of impacts" in text and not trust.trusted[0]
