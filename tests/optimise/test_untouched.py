# SPDX-License-Identifier: Apache-2.0
"""Searches by gradients say which bodies of their cost they never reach, and say nothing where they do."""

import warnings

import numpy as np
import pytest
import warp as wp

import warpsim as ws

KNOTS, DT = 25, 0.02


def arm_and_ball(distance: float = 0.3, worlds: int = 2, **options) -> ws.Simulator:
    """A driven slider on a line, and a ball on the same line, `distance` before it."""
    b = ws.ModelBuilder("pusher", timestep=DT)
    hand = b.add_body("hand", mass=1.0, inertia=[1, 1, 1])
    b.add_joint(hand, "slide", name="reach", axis=[1, 0, 0])
    b.add_geom("sphere", [0.05], body="hand")
    b.add_actuator("reach", gear=5.0, control_range=(-1, 1))
    ball = b.add_body("ball", pose=[0.1 + distance, 0, 0], mass=0.2, inertia=[0.01] * 3)
    b.add_joint(ball, "slide", name="roll", axis=[1, 0, 0], damping=0.1)
    b.add_geom("sphere", [0.05], body="ball")
    options |= {"dtype": "float64", "device": "cpu", "solver": ws.SAP(approximation="convex")}
    return ws.Simulator(b.build(), worlds, **options)


def guess(worlds: int = 2) -> np.ndarray:
    return np.zeros((KNOTS, worlds, 1))


PUSH = ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: 5.0 * (q[..., 1:] - 0.2))  # the ball 0.2 m ahead


def test_a_ball_that_is_never_hit_is_named():
    """From zero controls the hand does not move: not converged, but untouched, and the ball's name. From controls that touch
    it, and from the plan of `ws.cem`, the ball is reached and nothing is said."""
    sim = arm_and_ball(0.05)
    start = sim.state()
    plan = ws.ilqr(sim, start, guess(), PUSH, fallback=None)
    assert list(plan.status) == ["untouched"] * 2 and np.abs(plan.q[..., 1]).max() == 0.0
    assert (
        plan.notes[0].startswith("the controls never reach ball, on which the cost depends")
        and "ws.cem" in plan.notes[0]
    )
    first = ws.cem(sim, start, guess(), PUSH, correlation=0.9)
    found = ws.ilqr(sim, start, first.controls, PUSH)
    assert found.notes == ("", "") and "untouched" not in found.status
    assert (found.cost < 0.2 * plan.cost).all()


def test_each_world_for_itself():
    """One world's ball lies against the hand, the other's is out of reach."""
    sim = arm_and_ball()
    start = sim.state(q=[[0.0, -0.301], [0.0, 0.0]])
    cost = ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: q[..., 1:] - 0.2)
    plan = ws.ilqr(sim, start, guess(), cost)
    assert plan.notes[0] == "" and plan.notes[1] != "" and plan.status[1] == "untouched"


@pytest.mark.parametrize(
    "cost",
    [
        ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: q[..., :1] - 0.2),
        ws.Cost(lambda q, v, u: np.concatenate([0.1 * u, 0.0 * q], axis=-1), lambda q, v: q[..., :1] - 0.2),
        ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: q[..., :1] - q[..., 1:] - 0.2),
        ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: np.concatenate([q[..., :1] - 0.2, q[..., 1:]], axis=-1)),
    ],
    ids=["ball not in the cost", "weight 0", "distance from the hand", "ball where it should be"],
)
def test_no_false_alarm(cost):
    """Nothing is lost where the cost does not depend on the ball, or can be lowered without it, or has it at its goal."""
    sim = arm_and_ball(1.0)
    plan = ws.ilqr(sim, sim.state(), guess(), cost)
    assert list(plan.status) == ["converged"] * 2 and plan.notes == ("", "")


def test_joints_without_motors_are_reached_through_their_tree():
    """The pole of a cart-pole has no motor, and is reached through the cart."""
    sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), 1, dtype="float64", device="cpu", dt=DT)
    cost = ws.Cost(lambda q, v, u: 0.1 * u, lambda q, v: 3.0 * q[..., 1:])
    plan = ws.ilqr(sim, sim.state([[0.0, 0.3]]), np.zeros((KNOTS, 1, 1)), cost)
    assert list(plan.status) == ["converged"] and plan.notes == ("",)


def test_a_reward_for_a_ball_that_is_never_hit():
    """A further cost that is no square counts as well."""
    sim = arm_and_ball(1.0, 1)
    cost = ws.Cost(lambda q, v, u: (0.1 * u, -v[..., 1]))
    plan = ws.ilqr(sim, sim.state(), guess(1), cost, fallback=None)
    assert list(plan.status) == ["untouched"]


@wp.kernel
def miss(q: wp.array3d(dtype=wp.float64), of_hand: wp.float64, loss: wp.array(dtype=wp.float64)):
    w = wp.tid()
    x = q[q.shape[0] - 1, w, 1] - wp.float64(0.2) - of_hand * q[q.shape[0] - 1, w, 0]
    loss[w] = x * x


def shooting(distance: float, of_hand: float = 0.0) -> ws.Objective:
    sim = arm_and_ball(distance, requires_grad=True)

    def loss(motion):
        found = wp.zeros(2, dtype=wp.float64, device="cpu", requires_grad=True)
        wp.launch(miss, 2, [motion.q, wp.float64(of_hand), found], device="cpu")
        return found

    return ws.Objective(sim, loss, {"controls": np.zeros((KNOTS, 2, 1))})


def test_shooting_names_the_ball_that_it_never_hits():
    """An objective warns once where its gradient is exactly zero, names the ball, and its report does not trust the gradient;
    with controls that hit the ball, and where the hand is in the loss too, it says nothing."""
    objective = shooting(0.3)
    with pytest.warns(
        UserWarning, match="gradient of 2 of 2 worlds is exactly zero: .* depends on ball, which no variable"
    ):
        _, gradient = objective(objective.x0)
    assert not gradient.any() and objective.unreached() == (("ball",), ("ball",))
    report = objective.trust()
    assert not report.trusted.any() and "not trusted: no variable reaches ball" in str(report)
    hits = np.ones(objective.x0.size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(objective.x0)  # it has been said
        _, gradient = shooting(0.05)(hits)
        assert gradient.any() and shooting(0.05).unreached(hits) == ((), ())
        hand = shooting(0.3, 1.0)
        hand(hand.x0)
        assert hand.trust().trusted.all()
