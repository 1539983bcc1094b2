# SPDX-License-Identifier: Apache-2.0
"""Gradients under MuJoCo's law (theory §3.8): against differences, against MuJoCo's own, in float32, and in searches."""

import mujoco
import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.corpus.starts import random_states
from benchmarks.mujoco_gradient_grid import OF_PAIRS, OF_ROWS
from benchmarks.mujoco_gradients import INTEGRATORS, rollout_gradient
from benchmarks.mujoco_law import CONES
from benchmarks.mujoco_motion import gradient_errors
from examples import identify_grasp, push_to_goal
from scenes import mujoco_law

QUICK = {"entries": 2, "step_sizes": (1e-5, 1e-6, 1e-7), "tolerance": 1e-6}
pytestmark = pytest.mark.filterwarnings("ignore:.*overlap at its start")
every_cone = pytest.mark.parametrize("cone", CONES)


def simulate(model: ws.Model, cone: str, **options) -> ws.Simulator:
    options = {"dtype": "float64", "device": "cpu", "requires_grad": True} | options
    return ws.Simulator(model, solver=ws.MuJoCo(cone=cone, tolerance=1e-14), **options)


@every_cone
def test_contacts_of_every_kind(cone):
    """Pairs of all dimensions, solref and solimp: by states and by every parameter of contact."""
    sim = simulate(mujoco_law.contacts(), cone)
    state = mujoco_law.start(sim, settle=3, push=0.3)
    check = ws.check_gradients(sim, state, horizons=6, parameters=OF_PAIRS, **QUICK)
    assert check.ok, check
    assert sim.diagnostics.contacts.numpy().min() >= 5


def test_rows_of_every_kind():
    """Limits, dry friction and equalities: by states and by every parameter of rows."""
    sim = simulate(mujoco_law.rows(), "pyramidal")
    state = mujoco_law.start(sim, settle=0, push=0.3, turn=0.01)
    check = ws.check_gradients(sim, state, horizons=6, parameters=OF_ROWS, **QUICK)
    assert check.ok, check


@every_cone
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_jacobians_are_those_of_mujoco(cone, integrator):
    """`linearize` beside `mjd_transitionFD` in contact, where no row changes its branch."""
    m = mujoco.MjModel.from_xml_string(push_to_goal.SCENE.replace("CONE", cone))
    m.opt.integrator = INTEGRATORS[integrator]
    rng, n = np.random.default_rng(1), 6
    states = random_states(m, n)
    states["q"] = push_to_goal.Q0 + 1e-3 * rng.normal(size=(n, m.nq))
    states["q"][:, 4] -= 3e-3
    row = gradient_errors(m, states, cone)
    assert row["compared"] >= 4, row
    assert max(row["A"], row["B"]) < 1e-6, row


@every_cone
def test_forces_from_outside(cone):
    """Generalized forces and wrenches of a step in contact, against differences."""
    sim = simulate(mujoco_law.contacts(), cone)
    model, rng = sim.model, np.random.default_rng(2)
    state = mujoco_law.start(sim, settle=3, push=0.3)
    weights = rng.normal(size=(1, model.nv))
    forces = {"tau": rng.normal(size=(1, model.nv)), "wrench": rng.normal(size=(1, model.nbody, 6))}

    def step(forces):
        given = {name: wp.array(x, dtype=wp.float64, device="cpu", requires_grad=True) for name, x in forces.items()}
        return sim.step(state, tau=given["tau"], wrench=given["wrench"]), given

    with wp.Tape() as tape:
        after, given = step(forces)
    tape.backward(grads={after.v: wp.array(weights, dtype=wp.float64, device="cpu")})
    for name, x in forces.items():
        change = 1e-4 * rng.normal(size=x.shape)
        ends = [(step(forces | {name: x + s * change})[0].v.numpy() * weights).sum() for s in (1, -1)]
        np.testing.assert_allclose((given[name].grad.numpy() * change).sum(), (ends[0] - ends[1]) / 2, rtol=1e-6)


@every_cone
def test_float32_is_close_to_float64(cone):
    """Gradients of ten steps of the hopper on its foot."""
    single, double = (rollout_gradient("hopper", cone, dtype, 10) for dtype in ("float32", "float64"))
    for name, expected in double.items():
        assert np.isfinite(single[name]).all()
        assert np.abs(single[name] - expected).max() <= 0.02 * np.abs(expected).max(), name


def test_a_material_is_identified_from_a_recording_of_mujoco(monkeypatch):
    """solref, solimp and friction of a grasped box, from what MuJoCo recorded."""
    monkeypatch.setattr(identify_grasp, "STEPS", 50)
    truth, found, result = identify_grasp.identify(0, "elliptic")
    assert result.status[0] == "converged"
    for name, expected in truth.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, err_msg=name)


def test_a_plan_costs_the_same_in_mujoco(monkeypatch):
    """Controls of `ilqr` for a push, replayed in MuJoCo."""
    monkeypatch.setattr(push_to_goal, "GOALS", np.array([[0.47, 0.21]]))
    plan, replayed, _ = push_to_goal.plan("elliptic", knots=12, iterations=6)
    assert plan.cost[0] < 0.5 * plan.history[0, 0]
    np.testing.assert_allclose(replayed, plan.cost, rtol=1e-6)
