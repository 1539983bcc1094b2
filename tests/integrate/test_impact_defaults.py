# SPDX-License-Identifier: Apache-2.0
"""Where `time_of_impact` is on by itself, and what contacts then do whose impacts are not resolved."""

import functools

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from warpsim.run.description import describe_simulator, simulator_arguments

H, G = 0.005, 9.81
OPTIONS = {"dt": H, "dtype": "float64", "device": "cpu", "threads": 1}


@functools.cache
def ball(e: float = 0.5, stiffness: float = np.inf, height: float = 0.2) -> ws.Model:
    """A ball of radius 0.1 m over a plane, its center at `height`."""
    b = ws.ModelBuilder("ball")
    b.add_geom("plane", name="floor")
    b.add_body("ball", pose=(0, 0, height))
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", name="rubber", restitution=e, stiffness=stiffness)
    return b.build()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_impacts_have_a_time_where_something_bounces(requires_grad):
    """On with restitution under SAP (both laws) and LCP, off without; gradients change nothing."""
    for solver in (ws.SAP(), ws.SAP(approximation="convex"), ws.LCP()):
        made = functools.partial(ws.Simulator, solver=solver, requires_grad=requires_grad, **OPTIONS)
        assert made(ball()).time_of_impact and not made(ball(0.0)).time_of_impact
    for solver, options in (
        (ws.LCP(), {"integrator": ws.Midpoint()}),
        (ws.LCP(saddle_escape=True), {}),
        (ws.LCP(), {"time_of_impact": False}),
        (ws.NoContact(), {}),
    ):
        assert not ws.Simulator(ball(), solver=solver, requires_grad=requires_grad, **OPTIONS, **options).time_of_impact


def test_what_cannot_have_them_names_the_way_out():
    """SAP needs them for restitution; what forbids them is named with the geom, and LCP does without."""
    for words, options in (
        (["Midpoint", "ws.SymplecticEuler"], {"integrator": ws.Midpoint()}),
        (["does not model", "time_of_impact"], {"time_of_impact": False}),
    ):
        with pytest.raises(ValueError, match=r"geom 'rubber' has restitution 0\.5.*SAP.*ws\.LCP\(\)") as caught:
            ws.Simulator(ball(), **OPTIONS, **options)
        assert all(word in str(caught.value) for word in words)
        assert not ws.Simulator(ball(), solver=ws.LCP(), **OPTIONS, **options).time_of_impact


def drop(sim: ws.Simulator, e: float) -> float:
    """The height that a ball of 1 m rises to, over e²."""
    state = sim.state(q=[0, 0, 1.1, 1, 0, 0, 0])
    steps = int((np.sqrt(2 / G) * (1 + e)) / sim.dt)  # to the top of the first bounce
    heights = sim.rollout(state, steps=steps + 4).q.numpy()[:, 0, 2] - 0.1
    return heights[int(np.argmin(heights)) :].max() / e**2


@pytest.mark.parametrize("solver", [ws.SAP(), ws.LCP()], ids=["SAP", "LCP"])
def test_a_ball_bounces_by_default(solver):
    """From 1 m to e² within 1e-4, where the law of a whole step is off by 1e-2."""
    assert drop(ws.Simulator(ball(), solver=solver, **OPTIONS), 0.5) == pytest.approx(1.0, abs=1e-4)


def test_a_stiffness_is_nothing_to_rigid_contact():
    """LCP has no stiffness: the same bits with and without one, impacts included."""
    v = [1.0, 0.3, -2.0, 3.0, 2.0, -1.0]
    ends = []
    for stiffness in (np.inf, 1e4):
        sim = ws.Simulator(ball(stiffness=stiffness), solver=ws.LCP(), **OPTIONS)
        trajectory = sim.rollout(sim.state(v=v), steps=40)
        ends.append(trajectory.final.v.numpy()[0])
    np.testing.assert_array_equal(*ends)
    assert ends[0][2] > 0 or trajectory.v.numpy()[:, 0, 2].max() > 0


def test_slow_contacts_do_not_bounce():
    """LCP's own threshold counts where it is above ¼ g h: just below it a ball stays, just above it bounces."""
    for speed, bounces in ((0.95, False), (1.05, True)):
        sim = ws.Simulator(ball(), solver=ws.LCP(restitution_threshold=0.5), **OPTIONS)
        state = sim.state(q=[0, 0, 0.1 + 0.4 * H, 1, 0, 0, 0], v=[0, 0, -speed, 0, 0, 0])
        after = sim.step(state).v.numpy()[0, 2]
        assert (after > 0.4) == bounces and (bounces or abs(after) < 1e-9)


@pytest.mark.parametrize(
    ("solver", "within"), [(ws.SAP(tolerance=1e-13), 1e-3), (ws.LCP(tolerance=1e-13), 1e-12)], ids=["SAP", "LCP"]
)
@pytest.mark.parametrize("overlap", [0.0, 1e-5])
def test_what_touches_rebounds_at_once(overlap, solver, within):
    """A ball that touches as the step begins leaves at −e v_n; its gradients are those of the steps."""
    sim = ws.Simulator(ball(), solver=solver, requires_grad=True, **OPTIONS)
    start, v = [0, 0, 0.1 - overlap, 1, 0, 0, 0], np.array([0.5, 0.2, -1.0, 1.0, 2.0, 0.3])
    state = sim.state(q=start, v=v)
    state.v.requires_grad = True
    with wp.Tape() as tape:
        after = sim.step(state)
    assert after.v.numpy()[0, 2] == pytest.approx(0.5, abs=within)
    seed = np.random.default_rng(0).normal(size=(1, 6))
    tape.backward(grads={after.v: wp.array(seed, dtype=wp.float64, device="cpu")})
    eps = 1e-6
    slope = [
        (sim.step(sim.state(q=start, v=v + d)).v.numpy() - sim.step(sim.state(q=start, v=v - d)).v.numpy())[0]
        @ seed[0]
        / (2 * eps)
        for d in eps * np.eye(6)
    ]
    np.testing.assert_allclose(state.v.grad.numpy()[0], slope, atol=1e-8)


def test_a_removed_option_of_lcp():
    """`bounce_correction` names what has taken its place; a store that has it can be gone on with."""
    with pytest.raises(TypeError, match=r"bounce_correction.*removed.*time_of_impact"):
        ws.LCP(bounce_correction=False)
    kept = describe_simulator(ws.Simulator(ball(), solver=ws.LCP(), **OPTIONS))
    kept["solver"]["options"]["bounce_correction"] = True
    assert simulator_arguments(kept, "store")["solver"] == ws.LCP()
