# SPDX-License-Identifier: Apache-2.0
"""Gradients of torsional and rolling friction: tapes against central differences over a sweep of step sizes, and `linearize`, in float64."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes import spin as scenes

SAP = ws.SAP(tolerance=1e-14)
CONVEX = ws.SAP(tolerance=1e-14, approximation="convex")
BARS = {1: 1e-6, 10: 1e-5, 40: 1e-5}
COEFFICIENTS = ("geom_friction", "geom_torsional_friction", "geom_rolling_friction")


def simulator(motion: str, worlds: int = 1, **options) -> ws.Simulator:
    options = {"dt": 0.005, "dtype": "float64", "device": "cpu", "requires_grad": True, "solver": SAP} | options
    return ws.Simulator(scenes.body_and_pendulum(motion), worlds, **options)


def check(sim, motion: str, horizons=(1, 10, 40), entries: int = 2) -> None:
    names = (*COEFFICIENTS, "body_mass", "geom_pose")
    found = ws.check_gradients(sim, scenes.start(sim, motion), horizons=horizons, parameters=names, entries=entries)
    assert {row.horizon for row in found.rows} == set(horizons)
    for row in found.rows:
        assert row.verdict == "ok" and row.error <= BARS[row.horizon], str(found)


@pytest.mark.parametrize("law", [SAP, CONVEX], ids=["coulomb", "convex"])
@pytest.mark.parametrize("motion", scenes.MOTIONS)
def test_gradients_of_motions(motion, law):
    """By q, v, controls, the three coefficients, masses and poses, at 1, 10 and 40 steps."""
    check(simulator(motion, solver=law), motion)


@pytest.mark.parametrize(
    "options",
    [
        {"integrator": ws.ImplicitEuler(tolerance=1e-15)},
        {"integrator": ws.Midpoint(tolerance=1e-15)},
        {"integrator": ws.Variational(tolerance=1e-13)},
        {"solver": ws.SAP(tolerance=1e-14, linear_solver="cg")},
    ],
    ids=["implicit", "midpoint", "variational", "cg"],
)
def test_gradients_of_integrators_and_without_a_factor(options):
    """Whoever steps, and whatever solves the linear systems; the midpoint rule takes spin rows where contacts are."""
    check(simulator("roll", **options), "roll", horizons=(1, 10), entries=1)


def test_coefficients_act():
    """At the bound the gradient of ω' by μ_τ is −m g h/I, and by μ_r that of ω about a tangent is not 0."""
    model = scenes.ball(6, torsional=0.02, rolling=0.0)
    sim = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu", requires_grad=True, solver=SAP)
    for name in COEFFICIENTS:
        sim.parameters[name]
    settled = sim.rollout(sim.state(), steps=50).final
    state = sim.state(settled.q.numpy(), [[0, 0, 0, 0, 0, 8.0]])
    with wp.Tape() as tape:
        after = sim.step(state)
    seed = np.zeros((1, 6))
    seed[0, 5] = 1.0
    tape.backward(grads={after.v: wp.array(seed, dtype=wp.float64, device="cpu")})
    expected = -model.body_mass[0] * 9.81 * 0.005 / model.body_inertia[0, 2, 2]
    np.testing.assert_allclose(sim.parameters["geom_torsional_friction"].grad.numpy()[0, 1], expected, rtol=1e-3)


def test_linearize_takes_the_reverse_way():
    """Columns of `linearize` are those of central differences, by v and by the coefficients."""
    sim = simulator("spin")
    state = scenes.start(sim, "spin")
    found = sim.linearize(state, parameters=COEFFICIENTS)
    A = found.A.numpy()[0]
    nv, size = sim.model.nv, 1e-6
    for k in (0, 5, 6):
        ends = []
        for side in (1, -1):
            v = state.v.numpy().copy()
            v[0, k] += side * size
            ends.append(sim.step(sim.state(state.q.numpy(), v)).v.numpy()[0])
        np.testing.assert_allclose(A[nv:, nv + k], (ends[0] - ends[1]) / (2 * size), rtol=1e-6, atol=1e-7)


def test_gradients_of_worlds_are_their_own():
    """Of several worlds each has the bits that it has alone."""
    found = []
    for worlds in (1, 3):
        sim = simulator("roll", worlds)
        begin = scenes.start(simulator("roll"), "roll")
        q, v = (np.repeat(x.numpy(), worlds, axis=0) for x in (begin.q, begin.v))
        state = sim.state(q, v)
        for name in COEFFICIENTS:
            sim.parameters[name]
        with wp.Tape() as tape:
            after = state
            for _ in range(3):
                after = sim.step(after)
        tape.backward(grads={after.v: wp.array(np.ones(after.v.shape), dtype=wp.float64, device="cpu")})
        found.append([state.v.grad.numpy(), *(sim.parameters[name].grad.numpy() for name in COEFFICIENTS)])
    for one, many in zip(*found, strict=True):
        assert np.isfinite(many).all()
        for w in range(3):
            np.testing.assert_array_equal(many[w], one[0])
