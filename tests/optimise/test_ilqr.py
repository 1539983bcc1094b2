# SPDX-License-Identifier: Apache-2.0
"""`ws.ilqr`, its box programs and `ws.MPC`: exact on linear systems, within limits, monotone, each world on its own."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.optimise.box_qp import box_qp

KNOTS, DT = 30, 0.02


def masses(worlds: int = 1, **options) -> ws.Simulator:
    """Two masses on a line, coupled to the world by springs and dampers: linear."""
    b = ws.ModelBuilder("masses")
    for i, m in enumerate((1.0, 2.0)):
        b.add_joint(b.add_body(f"m{i}", parent="m0" if i else None, mass=m, inertia=[1, 1, 1]), "slide", axis=[1, 0, 0], name=f"x{i}",
                    stiffness=3.0, damping=0.2)  # fmt: skip
        b.add_actuator(f"x{i}", gear=2.0 + i)
    options = {"dtype": "float64", "device": "cpu", "solver": ws.SAP(approximation="convex"), "dt": DT} | options
    return ws.Simulator(b.build(), worlds, **options)


def cartpole(worlds: int = 1, **options) -> ws.Simulator:
    """The robot's stops are rows of the contact problem; its push is limited to [-1, 1]."""
    options = {"dtype": "float64", "device": "cpu", "solver": ws.SAP(approximation="convex"), "dt": DT} | options
    return ws.Simulator(ws.load(ws.robots.path("cartpole")), worlds, **options)


def quadratic(weight: float = 1.0, end: float = 5.0) -> ws.Cost:
    def running(q, v, u):
        return np.concatenate([weight * q, 0.3 * v, 0.2 * u], axis=-1)

    return ws.Cost(running, lambda q, v: end * np.concatenate([q, v], axis=-1))


def starts(worlds: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return 0.3 * rng.normal(size=(worlds, 2)), 0.3 * rng.normal(size=(worlds, 2))


def riccati(A, B, Q, R, Q_end):
    """Gains of the finite-horizon LQR problem, u_k = -K_k x_k, and P_0 of the cost ½ x0ᵀ P_0 x0."""
    P, gains = Q_end, []
    for _ in range(KNOTS):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
        gains.insert(0, K)
    return np.array(gains), P


@pytest.mark.parametrize("substeps", [1, 3])
def test_linear_system_is_solved_in_one_iteration(substeps, within):
    """On a linear system with quadratic cost one iteration gives the solution of Riccati's equation, gains and cost too."""
    sim = masses(2)
    q, v = starts(2)
    plan = ws.ilqr(sim, sim.state(q, v), np.zeros((KNOTS, 2, 2)), quadratic(), tolerance=1e-12, substeps=substeps)
    part = masses(2, dt=DT / substeps)
    J = part.linearize(part.state())
    A, B = J.A.numpy()[0], J.B.numpy()[0]
    A, B = np.linalg.matrix_power(A, substeps), sum(np.linalg.matrix_power(A, i) @ B for i in range(substeps))
    Q, R = np.diag([1.0, 1.0, 0.09, 0.09]), 0.04 * np.eye(2)
    gains, P = riccati(A, B, Q, R, 25.0 * np.eye(4))
    x = np.concatenate([q, v], axis=1)
    within("cost of LQR", np.abs(plan.history[1] / (0.5 * np.einsum("wi,ij,wj->w", x, P, x)) - 1).max(), 1e-9)
    within("gains of LQR", np.abs(plan.gains + gains[:, None]).max() / np.abs(gains).max(), 1e-8)
    for k in range(KNOTS):
        within("controls of LQR", np.abs(plan.controls[k] + x @ gains[k].T).max(), 1e-7)
        x = x @ A.T + plan.controls[k] @ B.T
    assert (plan.status == "converged").all() and len(plan.history) <= 3


def test_limits_hold_and_bind(within):
    """Controls stay within limits, narrower ones too; at the optimum the slope by a control on its limit points outwards, and is 0
    inside."""
    sim = masses()
    cost, limits = quadratic(), (-0.3, np.array([0.2, 0.4]))
    start = sim.state([0.5, -0.4])
    plan = ws.ilqr(sim, start, np.zeros((KNOTS, 1, 2)), cost, limits=limits, tolerance=1e-12)
    u = plan.controls
    assert (u >= -0.3).all() and (u <= limits[1]).all() and (np.isclose(u, -0.3) | np.isclose(u, limits[1])).any()

    def value(controls):
        t = sim.rollout(start, controls)
        return cost.value(t.q.numpy(), t.v.numpy(), controls)[0]

    for k in (0, 5, 20):
        for i in range(2):
            e = np.zeros_like(u)
            e[k, 0, i] = 1e-5
            slope = (value(u + e) - value(u - e)) / 2e-5
            low, high = np.isclose(u[k, 0, i], -0.3), np.isclose(u[k, 0, i], limits[1][i])
            wrong = max(-slope, 0) if low else max(slope, 0) if high else abs(slope)
            within("slope by a control at the bounded optimum", wrong, 1e-6)


def swing_up(worlds: int = 1) -> tuple[ws.Simulator, ws.State, np.ndarray, ws.Cost]:
    sim = cartpole(worlds)
    q = np.stack([np.zeros(worlds), np.pi + np.linspace(-0.3, 0.4, worlds)], axis=1)
    cost = ws.Cost(
        lambda q, v, u: 0.1 * np.concatenate([q, v, u], -1), lambda q, v: 3.0 * np.concatenate([q, 0.3 * v], -1)
    )
    return sim, sim.state(q), np.zeros((40, worlds, 1)), cost


def test_cost_never_rises_and_is_that_of_a_rollout():
    """The cost of every world falls or stays; the plan's motion and cost are what the simulator makes of its controls."""
    sim, state, u, cost = swing_up(3)
    plan = ws.ilqr(sim, state, u, cost, iterations=15)
    assert (np.diff(plan.history, axis=0) <= 0).all() and (plan.cost < 0.7 * plan.history[0]).all()
    again = sim.rollout(state, plan.controls)
    np.testing.assert_array_equal(again.q.numpy(), plan.q)
    np.testing.assert_array_equal(cost.value(plan.q, plan.v, plan.controls), plan.cost)
    assert np.abs(plan.controls).max() <= 1.0


def test_a_world_does_not_depend_on_the_others():
    """Bit by bit the same plan alone, among others, and beside a world whose cost is not a number, which says so."""
    sim, state, u, cost = swing_up(3)
    plan = ws.ilqr(sim, state, u, cost, iterations=6)
    alone, one, u1, _ = swing_up(1)
    one = alone.state(state.q.numpy()[1])
    single = ws.ilqr(alone, one, u1, cost, iterations=6)
    np.testing.assert_array_equal(single.controls[:, 0], plan.controls[:, 1])
    np.testing.assert_array_equal(single.gains[:, 0], plan.gains[:, 1])

    def spoilt(q, v, u):
        r = cost.running(q, v, u)
        return np.where(np.arange(3)[:, None] == 2, np.nan, r)

    bad = ws.ilqr(sim, state, u, ws.Cost(spoilt, cost.terminal), iterations=6)
    np.testing.assert_array_equal(bad.controls[:, :2], plan.controls[:, :2])
    assert bad.status[2] == "nonfinite" and np.isinf(bad.cost[2]) and (bad.controls[:, 2] == 0).all()
    mass = np.tile(sim.model.body_mass, (3, 1))
    mass[1] = np.nan
    sim.parameters["body_mass"].assign(mass)
    stopped = ws.ilqr(sim, state, u, cost, iterations=6)
    assert list(stopped.status == "nonfinite") == [False, True, False] and np.isinf(stopped.cost[1])
    np.testing.assert_array_equal(stopped.controls[:, [0, 2]], plan.controls[:, [0, 2]])


def test_parameters_per_world_and_nothing_written():
    """Worlds are planned with their own parameters; the simulator, its state and its diagnostics stay as they are."""
    sim, state, u, cost = swing_up(2)
    sim.parameters.scale_mass(np.array([1.0, 1.5]))
    before = {name: x.copy() for name, x in state.numpy().items()}
    plan = ws.ilqr(sim, state, u, cost, iterations=4)
    for name, x in state.numpy().items():
        np.testing.assert_array_equal(x, before[name])
    np.testing.assert_array_equal(sim.rollout(state, plan.controls).v.numpy(), plan.v)
    sim.parameters.scale_mass(1.0)  # kept wide simulators take the change
    other = ws.ilqr(sim, state, u, cost, iterations=4)
    np.testing.assert_array_equal(sim.rollout(state, other.controls).v.numpy(), other.v)
    np.testing.assert_array_equal(other.controls[:, 0], plan.controls[:, 0])
    assert not np.array_equal(other.controls[:, 1], plan.controls[:, 1])


def test_jacobians_of_a_cost(within):
    """Differences of residuals and rewards agree with given Jacobians, on quaternions too; a plan is the same with either."""
    b = ws.ModelBuilder("ball")
    b.add_joint(b.add_body("ball", mass=1.0, inertia=[0.1, 0.2, 0.3]), "free")
    model, rng = b.build(), np.random.default_rng(0)
    q = model.displace(model.q0, rng.normal(size=(4, 2, 6)))
    v, u = rng.normal(size=(4, 2, 6)), rng.normal(size=(3, 2, 0))
    goal = model.displace(q, np.full(6, 1e-9))  # near, where difference has the derivative 1
    given = ws.Cost(
        lambda q, v, u: (v * v, q[..., 2] * v[..., 0]),
        lambda q, v: model.difference(goal[-1], q),
        lambda q, v, u: (
            np.concatenate([np.zeros((*v.shape, 6)), 2 * v[..., None] * np.eye(6)], -1),
            v[..., :1] * np.eye(12)[2] + q[..., 2:3] * np.eye(12)[6],
        ),
        lambda q, v: np.broadcast_to(np.eye(6, 12), (*v.shape, 12)),
    )
    plain = ws.Cost(given.running, given.terminal)
    for ours, differences in zip(given.model(model, q, v, u), plain.model(model, q, v, u), strict=True):
        for a, b in zip(ours, differences, strict=True):
            within("differences of a cost", np.abs(a - b).max() / max(1.0, np.abs(a).max()), 1e-7)


def test_box_programs_against_enumeration(within):
    """Random box QPs: the solution is the best of all sets of active bounds."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(50, 3, 3))
    H, g = L @ np.swapaxes(L, 1, 2) + 0.1 * np.eye(3), 2 * rng.normal(size=(50, 3))
    low, high = -rng.random((50, 3)), rng.random((50, 3))
    x, free = box_qp(H, g, low, high)
    for n in range(50):
        best = np.inf
        for sides in np.ndindex(3, 3, 3):
            sides = np.array(sides)
            y, f = np.where(sides == 0, low[n], high[n]), sides == 2
            if f.any():
                y[f] = np.linalg.solve(H[n][np.ix_(f, f)], -(g[n] + H[n][:, ~f] @ y[~f])[f])
            if (y >= low[n] - 1e-12).all() and (y <= high[n] + 1e-12).all():
                best = min(best, 0.5 * y @ H[n] @ y + g[n] @ y)
        within("box QP", 0.5 * x[n] @ H[n] @ x[n] + g[n] @ x[n] - best, 1e-10)
        assert ((x[n] == low[n]) | (x[n] == high[n]) | free[n]).all()


def test_receding_horizon_holds_the_pole_up():
    """With `ws.MPC` iLQR brings the pole from 0.4 rad back to upright; `every` plans that often; a failed plan can be repeated."""
    sim, calls = cartpole(), []
    cost = ws.Cost(
        lambda q, v, u: np.concatenate([0.3 * q, 0.1 * v, 0.1 * u], -1), lambda q, v: 5 * np.concatenate([q, v], -1)
    )

    def plan(state, controls, step):
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return ws.ilqr(sim, state, controls, cost, iterations=2)

    policy = ws.MPC(plan, np.zeros((25, 1, 1)), every=5)
    state = sim.rollout(sim.state([0.0, 0.4]), policy, steps=5).final
    kept = policy.controls.copy()
    with pytest.raises(KeyboardInterrupt):
        sim.rollout(state, policy, steps=1)
    np.testing.assert_array_equal(policy.controls, kept)
    motion = sim.rollout(state, policy, steps=75)
    assert calls == [0, 5, *range(5, 80, 5)] and policy.plan.controls.shape == (25, 1, 1)
    angle = np.abs(motion.q.numpy()[:, 0, 1])
    assert angle.max() < 0.5 and angle[-1] < 0.1


@pytest.mark.parametrize(
    "options", [{"solver": ws.LCP()}, {"integrator": ws.Variational()}], ids=["LCP", "Variational"]
)
def test_other_steps_take_the_general_way(options):
    """Steps without closed-form Jacobians: the motion of the plan is a rollout's, memory included, and its cost is as low."""
    q, u = [0.3, 0.1], np.zeros((10, 1, 2))
    sim = masses()
    expected = ws.ilqr(sim, sim.state(q), u, quadratic())
    other = masses(**options)
    found = ws.ilqr(other, other.state(q), u, quadratic())
    np.testing.assert_array_equal(other.rollout(other.state(q), found.controls).v.numpy(), found.v)
    assert abs(found.cost[0] / expected.cost[0] - 1) < (
        1e-9 if "solver" in options else 0.05
    )  # another motion, of order h
    assert found.status == ["converged"]


def test_bad_input_says_what_to_do():
    """Every error names the argument, its value and what would do."""
    sim, cost = cartpole(2), quadratic()
    state, u = sim.state(), np.zeros((5, 2, 1))
    cases = [
        (r"cost is 3; give a ws\.Cost", dict(cost=3)),
        (
            r"controls has shape \(5, 1\); it must be \(knots, worlds, nu\) = \(knots, 2, 1\)",
            dict(controls=np.zeros((5, 1))),
        ),
        (r"controls is nan at \(2, 0, 0\)", dict(controls=np.where(np.arange(5)[:, None, None] == 2, np.nan, u))),
        (r"controls is 1\.5 at \(0, 0, 0\), beyond the limits \[-1, 1\] of actuator 'push'", dict(controls=u + 1.5)),
        (r"limits leave nothing of the range of actuator 'push'", dict(limits=(2.0, 3.0))),
        (r"limits is \(1, -1\); give \(low, high\)", dict(limits=(1, -1))),
        (r"iterations is 1\.5", dict(iterations=1.5)),
        (r"tolerance is -1", dict(tolerance=-1)),
        (r"running returned residuals of shape \(5,\)", dict(cost=ws.Cost(lambda q, v, u: np.zeros(5)))),
        (r"a further cost of shape \(3,\)", dict(cost=ws.Cost(lambda q, v, u: (u, np.zeros(3))))),
        (
            r"running_jacobian returned .* the last axis must be 5",
            dict(cost=ws.Cost(lambda q, v, u: u, None, lambda q, v, u: np.eye(1))),
        ),
    ]
    for message, change in cases:
        given = {"state": state, "controls": u, "cost": cost} | change
        with pytest.raises(ValueError, match=message):
            ws.ilqr(sim, **given)
    with pytest.raises(ValueError, match="a Cost needs a running or a terminal function"):
        ws.Cost(None)
    with pytest.raises(ValueError, match="sim is a int; give a Simulator"):
        ws.ilqr(3, state, u, cost)
    with pytest.raises(ValueError, match="with at least every = 3 knots"):
        ws.MPC(lambda *a: None, np.zeros((2, 1, 1)), every=3)
    with pytest.raises(ValueError, match=r"plan returned controls of shape \(4, 2, 1\); give \(5, 2, 1\)"):
        ws.MPC(lambda *a: u[1:], u)(state)
