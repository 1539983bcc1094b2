# SPDX-License-Identifier: Apache-2.0
"""Gradients through impacts inside a step with rigid contact: that of the rollout, and through it that of the motion."""

import contextlib
import dataclasses

import numpy as np
import pytest
import warp as wp

import warpsim as ws

G = 9.81
SOLVER = ws.LCP(tolerance=1e-13)


def simulator(model, worlds, h, requires_grad, **options) -> ws.Simulator:
    options = {"dtype": "float64", "device": "cpu", "threads": 1, "time_of_impact": True, "solver": SOLVER} | options
    return ws.Simulator(model, worlds, dt=h, requires_grad=requires_grad, **options)


def bodies(*shapes, restitution=0.0, friction=0.5, wall=False) -> ws.Model:
    """Free bodies of these shapes above the ground, and a wall at x = 1."""
    b = ws.ModelBuilder("impacts")
    contact = {"friction": friction, "restitution": restitution}
    b.add_geom("plane", **contact)
    if wall:
        b.add_geom("plane", pose=[1.0, 0, 0, np.sqrt(0.5), 0, -np.sqrt(0.5), 0], **contact)
    for i, (shape, size) in enumerate(shapes):
        body = b.add_body(f"body {i}", pose=[0.3 * i, 0, 0.2])
        b.add_joint(body, "free")
        b.add_geom(shape, size, body=body, **contact)
    return b.build()


BALL, BOX = ("sphere", [0.1]), ("box", [0.1, 0.07, 0.05])


def thrown_ball(e):
    model, z = bodies(BALL, restitution=e), [0.1051, 0.127]
    q, v = np.repeat(model.q0[None], 2, 0), np.tile([1.0, 0.3, -1.0, 3.0, 2.0, -1.0], (2, 1))
    q[:, 2] = z
    return model, q, v, 0.01, None


def box_on_a_corner(e):
    model, rng = bodies(BOX, restitution=e), np.random.default_rng(0)
    q, v = np.repeat(model.q0[None], 2, 0), rng.normal(size=(2, 6)) * [1, 1, 1, 3, 3, 3]
    axis = rng.normal(size=(2, 3))
    q[:, 3], q[:, 4:] = np.cos(0.35), np.sin(0.35) * axis / np.linalg.norm(axis, axis=1, keepdims=True)
    v[:, 2] = -2.0
    return model, q, v, 0.01, None


def box_on_its_face(e):
    """Four contacts, whose impulses have more than one solution, one after the other."""
    model, tilt = bodies(BOX, restitution=e), np.array([1e-4, 2e-4])
    q, v = np.repeat(model.q0[None], 2, 0), np.tile([0.6, 0.2, -1.0, 0.0, 0.0, 0.5], (2, 1))
    q[:, 2], q[:, 3], q[:, 4], q[:, 5] = 0.055, np.cos(tilt), 0.6 * np.sin(tilt), 0.8 * np.sin(tilt)
    return model, q, v, 0.01, None


def two_balls_and_a_wall(e):
    model = bodies(BALL, BALL, restitution=e, friction=0.3, wall=True)
    q, v = np.repeat(model.q0[None], 2, 0), np.zeros((2, 12))
    q[:, 1], q[:, 2], q[:, 9], v[:, 0], v[:, 2] = 0.02, 0.1, 0.13, [3.0, 5.0], 0.2
    return model, q, v, 0.01, None


def hopper(e):
    model, rng = ws.load(ws.robots.path("hopper")), np.random.default_rng(0)
    model = dataclasses.replace(
        model, geom_stiffness=np.full(model.ngeom, np.inf), geom_restitution=np.full(model.ngeom, e)
    )
    q = np.repeat(model.q0[None], 2, 0)
    q[:, 1] += [0.01, 0.023]
    return model, q, rng.normal(size=(2, model.nv)), 0.005, rng.uniform(-1.0, 1.0, (2, model.nu))


CASES = [(thrown_ball, 0.8, 1), (thrown_ball, 0.0, 5), *((thrown_ball, e, 20) for e in (0.0, 0.8, 1.0))]
CASES += [(box_on_a_corner, e, 10) for e in (0.0, 0.7)]
CASES += [(box_on_its_face, e, 20) for e in (0.0, 0.5)]
CASES += [(two_balls_and_a_wall, 0.0, 5), (two_balls_and_a_wall, 0.6, 20)]
CASES += [(hopper, e, 20) for e in (0.0, 0.5)]


@pytest.mark.parametrize("case, e, steps", CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_the_gradient_of_a_rollout_is_that_of_its_steps(case, e, steps, within):
    """∂ℓ/∂(q, v) of steps with impacts against central differences, of a loss linear in the end."""
    model, q, v, h, control = case(e)
    worlds, n = len(q), model.nq + model.nv
    weights = np.random.default_rng(1).normal(size=n) * np.repeat([1.0, 0.3], [model.nq, model.nv])
    sim = simulator(model, worlds, h, True)
    state = start = sim.state(q, v)
    with wp.Tape() as tape:
        for _ in range(steps):
            state = sim.step(state, control)
    bars = [wp.array(np.tile(x, (worlds, 1)), dtype=wp.float64) for x in np.split(weights, [model.nq])]
    tape.backward(grads=dict(zip((state.q, state.v), bars, strict=True)))
    found = np.concatenate([start.q.grad.numpy(), start.v.grad.numpy()], axis=1)
    moved = np.concatenate([q, v], axis=1) + 1e-6 * np.concatenate([np.eye(n), -np.eye(n)])[:, None]
    sim = simulator(model, 2 * n * worlds, h, False)
    state, impacts = sim.state(*np.split(moved.reshape(-1, n), [model.nq], axis=1)), 0
    for _ in range(steps):
        state = sim.step(state, None if control is None else np.tile(control, (2 * n, 1)))
        impacts += sim._step.impacts.segments.impacts.numpy()
    loss = (np.concatenate([state.q.numpy(), state.v.numpy()], axis=1) @ weights).reshape(2, n, worlds)
    expected = (loss[0] - loss[1]).T / 2e-6
    assert impacts.any()
    within(f"{case.__name__} {e} {steps}", np.abs(found - expected).max() / np.abs(expected).max(), 1e-5)


@pytest.mark.parametrize("name, e", [("geom_restitution", 0.8), ("geom_friction", 0.0), ("body_mass", 0.8)])
def test_the_gradient_by_a_parameter(name, e, within):
    """e acts through −e v_n at the impact, μ through the impulse at its bound, the mass through the spin of the rest."""
    model, q, v, h, _ = thrown_ball(e)
    model = dataclasses.replace(model, geom_friction=np.array([0.1, 0.11]), geom_restitution=np.array([0.5 * e, e]))
    weights = np.random.default_rng(2).normal(size=model.nv)

    def run(requires_grad, change=0.0):
        sim = simulator(model, 2, h, requires_grad)
        values = sim.parameters[name].numpy() + change * np.eye(sim.parameters[name].shape[-1])[-1]
        if change:
            sim.parameters[name].assign(values)
        state = sim.state(q, v)
        with wp.Tape() if requires_grad else contextlib.nullcontext() as tape:
            for _ in range(8):
                state = sim.step(state)
        if requires_grad:
            tape.backward(grads={state.v: wp.array(np.tile(weights, (2, 1)), dtype=wp.float64)})
            return sim.parameters[name].grad.numpy()[..., -1].sum()
        return (state.v.numpy() @ weights).sum()

    expected = (run(False, 1e-6) - run(False, -1e-6)) / 2e-6
    within(name, abs(run(True) - expected), 1e-6 * max(abs(expected), 1.0))


def slopes(model, z, vx, h, time, of) -> np.ndarray:
    """∂q_of(time)/∂z0 of balls that start at the height z."""
    sim = simulator(model, len(z), h, True)
    q, v = np.repeat(model.q0[None], len(z), 0), np.zeros((len(z), 6))
    q[:, 2], v[:, 0] = 0.1 + z, vx
    state = start = sim.state(q, v)
    with wp.Tape() as tape:
        for _ in range(round(time / h)):
            state = sim.step(state)
    seed = np.tile(np.eye(model.nq)[of], (len(z), 1))
    tape.backward(grads={state.q: wp.array(seed, dtype=wp.float64)})
    return start.q.grad.numpy()[:, 2]


def test_a_ball_that_sticks_and_rolls_on_has_the_slope_of_the_motion(within):
    """x(T) = v t + 5/7 v (T − t) with t² = 2 z/g, so that ∂x/∂z = 2/7 v/√(2 g z), at each phase of the impact."""
    z = np.linspace(0.1, 0.3, 40)
    found = slopes(bodies(BALL, friction=2.0), z, 2.0, 0.01, 0.6, of=0)
    within("tape/true", np.abs(found / (4 / 7 / np.sqrt(2 * G * z)) - 1.0).max(), 1e-3)


@pytest.mark.parametrize("h, most", [(0.01, 0.035), (0.0025, 0.01)])
def test_a_bounce_has_the_slope_of_the_motion(h, most, within):
    """z(T) = e g t s − ½ g s² with t² = 2 z/g, s = T − t, after a bounce under gravity with e = 0.8."""
    z, e = np.linspace(0.4, 0.6, 40), 0.8
    t = np.sqrt(2 * z / G)
    s = 0.5 - t
    exact = (e * G * (s - t) + G * s) / (G * t)
    found = slopes(bodies(BALL, restitution=e), z, 0.0, h, 0.5, of=2)
    within("slope", np.abs(found - exact).max(), most)


def test_the_escape_is_refused():
    """The escape from saddle points has no meaning inside an impact."""
    with pytest.raises(ValueError, match="saddle_escape"):
        simulator(bodies(BALL), 1, 0.01, True, solver=ws.LCP(saddle_escape=True))


def test_gradients_after_a_warm_start_are_those_of_the_solution_that_was_found():
    """A backward pass begins as its step did, whatever impulses the state before remembers."""
    model, q, v, h, _ = box_on_its_face(0.0)
    sim = simulator(model, 2, h, True)
    rng, used = np.random.default_rng(0), sim.rollout(sim.state(q, 0.5 * v), steps=12).final
    weights = rng.normal(size=(2, model.nv))

    def start(v):
        state = sim.state(q, v)
        for name, array in state.memory.items():
            if name.startswith("lcp_"):
                array.assign(used.memory[name])
        return state

    def end(v):
        state = start(v)
        for _ in range(3):
            state = sim.step(state)
        return (weights * state.v.numpy()).sum(axis=1)

    begin = start(v)
    with wp.Tape() as tape:
        state = begin
        for _ in range(3):
            state = sim.step(state)
    tape.backward(grads={state.v: wp.array(weights, dtype=wp.float64, device="cpu")})
    for i in range(model.nv):
        e = 1e-6 * np.eye(model.nv)[i]
        np.testing.assert_allclose(begin.v.grad.numpy()[:, i], (end(v + e) - end(v - e)) / 2e-6, atol=1e-5)
