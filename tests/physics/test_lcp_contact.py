"""Rigid contact by a boxed LCP: recorded steps of an independent engine, Newton's and Coulomb's laws, warm starts."""

import pathlib
import sys

import numpy as np
import pytest

import warpsim as ws

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from example_scenes import clutter
from lcp_scenes import REFERENCE, SCENES


@pytest.mark.parametrize("name", SCENES)
def test_recorded_velocities(device, name):
    """One step of rigid contact: sliding, sticking, bouncing, pushing. 1e-9."""
    builder, force = SCENES[name]
    data = {key: REFERENCE[f"{name}/{key}"] for key in ("q", "qd", "qd_next")}
    sim = ws.Simulator(builder.build(), dtype="float64", device=device, solver=ws.LCP())
    state = sim.step(sim.state(q=data["q"], v=data["qd"]), tau=np.array([force], float))
    np.testing.assert_allclose(state.v.numpy()[0], data["qd_next"], atol=1e-9)
    assert sim.diagnostics.flags.numpy()[0] == 0


def ball(height: float, restitution: float, mu: float = 0.5) -> ws.Model:
    b = ws.ModelBuilder("ball", timestep=1e-3)
    b.add_geom("plane", friction=mu, restitution=restitution)
    body = b.add_body("ball", pose=[0, 0, height])
    b.add_joint(body, "free")
    b.add_geom("sphere", [0.05], body=body, friction=mu)
    return b.build()


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9])
def test_newtons_law_of_impact(device, restitution):
    """A ball dropped from 1 m leaves with e times the speed it came with, and rises to e² of its height (1 %)."""
    sim = ws.Simulator(ball(1.05, restitution), dtype="float64", device=device, solver=ws.LCP())
    path = sim.rollout(sim.state(), steps=900)
    speed = path.v.numpy()[:, 0, 2]
    bounce = int(np.argmax(speed >= 0)) if restitution else int(np.argmin(speed)) + 1
    bounce = max(bounce, int(np.argmin(speed)) + 1)
    assert speed[bounce] == pytest.approx(-restitution * speed[bounce - 1], abs=0.02)
    apex = path.q.numpy()[bounce:, 0, 2].max() - 0.05
    assert apex == pytest.approx(restitution**2, abs=0.01)


def test_sliding_turns_into_rolling_exactly(device):
    """No compliance, no regularisation: 5/7 of the start and v = ω r to 1e-6, on the floor all the time."""
    sim = ws.Simulator(ball(0.05, 0.0, mu=0.2), dtype="float64", device=device, solver=ws.LCP())
    path = sim.rollout(sim.state(v=[1, 0, 0, 0, 0, 0]), steps=300)
    v = path.v.numpy()[-1, 0]
    assert v[0] == pytest.approx(5 / 7, abs=1e-3)
    assert v[4] * 0.05 == pytest.approx(v[0], abs=1e-6)
    assert np.abs(path.q.numpy()[:, 0, 2] - 0.05).max() < 1e-9


def test_an_overlap_is_taken_back_only_on_request(device):
    """error_reduction = 0 leaves 1 cm of overlap as it is; 0.2 takes a fifth of it back per step."""
    for reduction, expected in ((0.0, 0.04), (0.2, 0.042)):
        model = ball(0.04, 0.0)
        sim = ws.Simulator(model, dtype="float64", device=device, solver=ws.LCP(error_reduction=reduction))
        assert sim.step(sim.state()).q.numpy()[0, 2] == pytest.approx(expected, abs=1e-9)


def test_rest_is_warm_started(device):
    """Spheres that have settled: from step to step the classes stay, and the LCP solver is skipped in 95 % of steps."""
    sim = ws.Simulator(clutter(8, shapes="spheres"), dtype="float64", device=device, solver=ws.LCP(error_reduction=0.2))
    state = sim.rollout(sim.state(), steps=150, every=150).final
    hits = []
    for _ in range(100):
        state = sim.step(state, out=state)
        hits.append(int(sim.warm_start_hits.numpy()[0]))
    assert np.mean(hits) >= 0.95
    assert state.memory["flags"].numpy()[0] == 0


def test_worlds_and_resumption_do_not_change_bits(device):
    """World i of many is the world alone; a state resumed from its memory steps to the same bits."""
    v = np.zeros((4, 6))
    v[:, 0], v[:, 4] = [0.5, 1.0, -2.0, 0.0], [0.0, 3.0, 1.0, -4.0]
    many = ws.Simulator(ball(0.05, 0.3), worlds=4, device=device, solver=ws.LCP())
    middle = many.rollout(many.state(v=v), steps=20, every=20).final
    end = many.rollout(middle, steps=20, every=20).final.q.numpy()
    one = ws.Simulator(ball(0.05, 0.3), device=device, solver=ws.LCP())
    for w in range(4):
        resumed = one.rollout(middle[w], steps=20, every=20).final.q.numpy()[0]
        np.testing.assert_array_equal(resumed, end[w])


def test_joint_limits_and_constraints_are_part_of_it(device):
    """A pendulum falls on its stop and stays there; a weld to the world holds a free box."""
    b = ws.ModelBuilder("limits", timestep=1e-3)
    arm = b.add_body("arm", mass=1, inertia=[0.01] * 3, com=[0.5, 0, 0])
    b.add_joint(arm, "hinge", axis=[0, 1, 0], range=[-0.3, 0.3])
    box = b.add_body("box", pose=[3, 0, 1], mass=2, inertia=[0.1] * 3)
    b.add_joint(box, "free")
    b.add_constraint("weld", "box", "world")
    sim = ws.Simulator(b.build(), dtype="float64", device=device, solver=ws.LCP())
    state = sim.rollout(sim.state(), steps=1000, every=1000).final
    q = state.q.numpy()[0]
    assert q[0] == pytest.approx(0.3, abs=1e-6)
    np.testing.assert_allclose(q[1:4], [3, 0, 1], atol=1e-6)
    assert np.abs(state.v.numpy()).max() < 1e-6


@pytest.mark.parametrize(
    ("option", "word"),
    [({"tolerance": 0.0}, "tolerance"), ({"error_reduction": 2.0}, "error_reduction"), ({"restitution_threshold": -1.0}, "restitution_threshold")],
)  # fmt: skip
def test_bad_options_are_refused(option, word):
    """The message names the option."""
    with pytest.raises(ValueError, match=word):
        ws.LCP(**option)
