# SPDX-License-Identifier: Apache-2.0
"""Dry friction that reverses inside a step: the motion and its derivatives against closed forms and differences."""

import numpy as np
import pytest
import scipy.stats

import warpsim as ws
from warpsim.optimise.replicas import jacobians, replicas

DT = 0.01
FREE = {"dtype": "float64", "device": "cpu", "solver": ws.NoContact(), "integrator": ws.Midpoint()}


def arm() -> ws.Model:
    """A planar arm of two links with dry friction in both joints."""
    b = ws.ModelBuilder("arm", timestep=DT)
    upper = b.add_body("upper", mass=1.0, com=[0.0, 0.0, -0.2], inertia=[0.02, 0.02, 0.004])
    b.add_joint(upper, "hinge", name="shoulder", axis=[0, 1, 0], damping=0.1, friction=0.5)
    lower = b.add_body(
        "lower", parent=upper, pose=[0, 0, -0.4], mass=0.5, com=[0, 0, -0.15], inertia=[0.008, 0.008, 0.003]
    )
    b.add_joint(lower, "hinge", name="elbow", axis=[0, 1, 0], damping=0.05, friction=0.1)
    b.add_actuator("shoulder", name="lift")
    b.add_actuator("elbow", name="bend")
    return b.build()


def controls(rows: int) -> np.ndarray:
    """Torques `(rows, 1, 2)` that turn both joints around several times."""
    t = DT * np.arange(rows)
    lift = 2.0 * np.sin(9 * t + 1) + 0.5 * np.sin(31 * t)
    return np.stack([lift, 0.6 * np.sin(17 * t) + 0.5 * np.sin(47 * t)], axis=1)[:, None]


def rolled(model, u, q, v, substeps: int, reversals: bool):
    """Motions from states q, v `(copies, 1, n)`."""
    sim = ws.Simulator(model, 1, DT, **FREE)
    wide = replicas(sim, len(q), substeps)
    start = sim.state().numpy() | {"q": q, "v": v}
    return sim, wide.roll(start, len(u), lambda k, *_: np.broadcast_to(u[k], (len(q), *u[k].shape)), reversals)


def over_all(A: np.ndarray) -> np.ndarray:
    """The derivative of the last state with respect to the first."""
    S = np.eye(A.shape[-1])
    for step in A[:, 0]:
        S = step @ S
    return S


@pytest.mark.parametrize("speed", [0.31, 0.3215, 0.338])
def test_a_joint_that_turns_around_as_in_closed_form(speed, within):
    """A wheel with torque -τ and friction F: t₁ = v I/(τ + F), then it accelerates by (τ - F)/I; ∂v'/∂v = (τ - F)/(τ + F).
    The regularization of friction is 1e-3 of a step's impulse."""
    b = ws.ModelBuilder("wheel", timestep=DT)
    b.add_joint(
        b.add_body("disc", mass=1.0, inertia=[0.1, 0.1, 0.1]), "hinge", name="hub", axis=[0, 0, 1], friction=0.4
    )
    b.add_actuator("hub")
    model, torque, steps = b.build(), 1.0, 10
    u = np.full((steps, 1, 1), -torque)
    sim, motion = rolled(model, u, np.zeros((1, 1, 1)), np.full((1, 1, 1), speed), 1, True)
    before, after = (torque + 0.4) / 0.1, (torque - 0.4) / 0.1
    t1, end = speed / before, steps * DT
    within("velocity", abs(motion.v[-1, 0, 0, 0] + after * (end - t1)), 2e-4)
    moved = 0.5 * speed * t1 - 0.5 * after * (end - t1) ** 2
    within("position", abs(motion.q[-1, 0, 0, 0] - moved), 2e-5)
    A = over_all(jacobians(sim, motion, reversals=True)[0])
    within("derivative", abs(A[1, 1] - after / before), 2e-3)
    plain = over_all(jacobians(sim, motion)[0])[1, 1]
    assert (
        min(abs(plain), abs(plain - 1.0)) < 2e-3
    )  # of the steps: friction turns in the step, or the wheel rests in it


def test_derivatives_where_friction_reverses_over_sizes_of_differences(within):
    """Derivatives over 0.5 s, in which both joints turn around several times, are central differences of a range of
    sizes, to the order of the step; those of the steps come no nearer with shorter steps."""
    model, u = arm(), controls(50)
    q, v = np.array([[0.3, -0.2]]), np.array([[0.5, -1.0]])
    sizes, plain, mended = np.array([3e-2, 1e-2, 3e-3]), [], []
    for substeps in (10, 40):
        moves = np.concatenate([s * np.concatenate([np.eye(4), -np.eye(4)]) for s in sizes])[:, None]
        moves = np.concatenate([np.zeros((1, 1, 4)), moves])
        sim, motion = rolled(model, u, q + moves[..., :2], v + moves[..., 2:], substeps, True)
        ends = np.concatenate([motion.q[-1, 1:, 0], motion.v[-1, 1:, 0]], axis=-1).reshape(len(sizes), 2, 4, 4)
        wanted = np.swapaxes((ends[:, 0] - ends[:, 1]) / (2 * sizes[:, None, None]), 1, 2)
        one = motion.chosen(np.zeros(1, int))
        for found, reversals in ((mended, True), (plain, False)):
            A = over_all(jacobians(sim, one, reversals=reversals)[0])
            found.append(np.abs(A - wanted).max(axis=(1, 2)) / np.abs(wanted).max())
    within("1 ms, best size", mended[0].min(), 0.04)
    within("0.25 ms, best size", mended[1].min(), 0.01)
    within("0.25 ms, a range of sizes", mended[1].max(), 0.04)
    assert max(x.min() for x in plain) > 0.1 and plain[1].min() > 5 * mended[1].min()


def test_reversals_inside_steps_are_as_exact_as_many_steps(within):
    """Steps of 1 ms with reversals in them are nearer to steps of 0.05 ms than plain steps of 1 ms are, by an order."""
    model, u, q, v = arm(), controls(50), np.array([[[0.3, -0.2]]]), np.array([[[0.5, -1.0]]])
    exact = rolled(model, u, q, v, 200, True)[1]
    mended, plain = (rolled(model, u, q, v, 10, flag)[1] for flag in (True, False))
    errors = [np.sqrt(((motion.q - exact.q) ** 2).mean()) for motion in (mended, plain)]
    within("root mean square error of positions", errors[0], 2e-4)
    assert errors[0] < 0.5 * errors[1]


def test_cost_at_the_truth_and_distance_to_the_estimate_are_chi_square(within):
    """With white noise of known size, 2 × cost at the truth is χ² of as many degrees of freedom as there are residuals,
    what the fit gains over it χ² of as many as there are unknowns, and the distance to the truth in the metric of the
    information χ² of the parameters. Bounds: 99.9 % quantiles. The robot has steps of 0.25 ms, the fit of 1 ms."""
    model, rows, windows = arm(), 30, 4
    rng, u = np.random.default_rng(5), controls(rows * windows)
    _, motion = rolled(model, u, np.array([[[0.3, -0.2]]]), np.array([[[0.5, -1.0]]]), 40, False)
    at = rows * np.arange(windows) + np.arange(rows + 1)[:, None]
    q, v = motion.q[at, 0, 0], motion.v[at, 0, 0]
    seen_q, seen_v = q + 1e-3 * rng.normal(size=q.shape), v + 1e-2 * rng.normal(size=v.shape)

    def residual(q, v):
        return np.concatenate([(q - seen_q) / 1e-3, (v - seen_v) / 1e-2], axis=-1)

    sim = ws.Simulator(model, windows, DT, **FREE)
    kinds = ("body_mass", "joint_damping", "joint_friction")
    keys = {"shared": True, "free_start": True, "substeps": 10, "reversals": True, "tolerance": 1e-7}
    found = ws.identify(
        sim, sim.state(q[0], v[0]), u[at[:-1], 0], residual, dict.fromkeys(kinds), iterations=20, **keys
    )
    unknowns, size = len(found.labels), (rows + 1) * windows * 4
    chi = scipy.stats.chi2.ppf
    assert chi(0.001, size) < 2 * found.history[0, 0] < chi(0.999, size)
    gained, free = 2 * (found.history[0, 0] - found.cost[0]), unknowns + 4 * windows
    assert chi(0.001, free) < gained < chi(0.999, free)
    off = np.concatenate(
        [np.log(found.parameters[k][0] / getattr(model, k)) if k != "joint_damping" else found.parameters[k][0] - getattr(model, k)
         for k in kinds])  # fmt: skip
    within("distance to the truth", off @ found.information[0] @ off, chi(0.999, unknowns))


def test_reversals_need_a_motion_without_contact():
    sim = ws.Simulator(arm(), 1, DT, dtype="float64", device="cpu")
    with pytest.raises(ValueError, match="reversals=True needs a simulator without contact"):
        ws.identify(sim, sim.state(), controls(3), lambda q, v: q, {"body_mass": None}, reversals=True)
    for delay in (np.zeros((1, 3)), np.full((1, 2), 11.0)):
        with pytest.raises(ValueError, match=r"delay is .*; give \(1, 2\) numbers of knots, 0 to 10"):
            ws.identify(sim, sim.state(), controls(3), lambda q, v: q, {"delay": None}, delay=delay)
