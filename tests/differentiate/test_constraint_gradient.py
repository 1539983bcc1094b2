# SPDX-License-Identifier: Apache-2.0
"""Gradients through constraints, tendons and actuators with effort limits, against central differences in float64."""

import numpy as np
import pytest
from test_step_gradient import Problem

import warpsim as ws
from scenes.constraints import driven_pair, fourbar, mimic_pair, ropes, welded_beam

BARS = [(1, 1e-6), (40, 1e-5)]


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
@pytest.mark.parametrize("kind", ["hinge", "connect"])
def test_fourbar(kind, steps, tolerance):
    """A swinging four-bar linkage: state, masses, joint frames and gravity, through the loop."""
    model = fourbar(kind)
    names = ("body_mass", "gravity", "joint_pose", "joint_armature", "body_inertia")
    problem = Problem(model, model.q0, [1.0, -0.6, 0.2], steps, parameters=names, dt=0.002)
    gradients = problem.gradient()
    inertia = gradients.pop("body_inertia")  # only its symmetric part means anything: its diagonal
    for name, gradient in gradients.items():
        assert problem.worst_error(name, gradient, entries=10) <= tolerance, name
    found = problem.differences("body_inertia", [(0, i, i) for i in range(3)], (1e-5, 1e-6))
    errors = np.abs(found - np.diagonal(inertia[0])[:, None]).min(axis=1)
    assert (errors <= tolerance * np.abs(inertia).max()).all()


def check(problem: Problem, tolerance: float, entries=10) -> None:
    """Every gradient of a problem against its differences."""
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries=entries) <= tolerance, name


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
@pytest.mark.parametrize("compliance", [{}, {"stiffness": (2e4, 3e3), "dissipation_time": 0.02}])
def test_weld(compliance, steps, tolerance):
    """A box welded to a swinging beam, near-rigid and as a spring, from velocities that the weld has to stop."""
    model = welded_beam(**compliance)
    v0 = 0.3 * np.random.default_rng(1).normal(size=model.nv)
    names = ("body_mass", "body_com", "gravity", "joint_pose", "joint_damping")
    check(Problem(model, model.q0, v0, steps, parameters=names, dt=0.005), tolerance)


@pytest.mark.parametrize("kind", ["slide", "distance", "rope"])
@pytest.mark.parametrize(("steps", "tolerance"), BARS)
def test_other_constraints_between_bodies(kind, steps, tolerance):
    """A free box that slides on a swinging beam, hangs from it on a rod, or on a taut rope."""
    model = welded_beam(kind=kind)
    v0 = 0.3 * np.random.default_rng(2).normal(size=model.nv)
    check(Problem(model, model.q0, v0, steps, parameters=("body_mass", "joint_pose"), dt=0.005), tolerance)


@pytest.mark.parametrize("pitch", [0.3, -0.02])
@pytest.mark.parametrize(("steps", "tolerance"), BARS)
def test_screw(pitch, steps, tolerance):
    """A free box that is a nut on a swinging beam, with a thread of either hand."""
    model = welded_beam(kind="screw", pitch=pitch)
    v0 = 0.3 * np.random.default_rng(2).normal(size=model.nv)
    names = ("body_mass", "constraint_coefficients", "joint_pose")
    check(Problem(model, model.q0, v0, steps, parameters=names, dt=0.005), tolerance)


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
@pytest.mark.parametrize("compliance", [{}, {"stiffness": 50.0, "dissipation_time": 0.05}])
def test_mimic(compliance, steps, tolerance):
    """A pendulum that follows another one by a cubic."""
    model = mimic_pair(**compliance)
    names = ("body_mass", "joint_damping", "gravity", "joint_stiffness", "constraint_coefficients")
    names += ("constraint_stiffness", "constraint_dissipation_time") if compliance else ()
    check(Problem(model, [0.4, -0.2], [0.5, -0.3], steps, parameters=names, dt=0.005), tolerance)


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
@pytest.mark.parametrize("start", [(0.2, -0.3, 0.4), (-0.2, 0.3, 0.06)])
def test_tendons(start, steps, tolerance):
    """A finger with a spring, a limit (slack, then taut), dry friction and actuators on tendons."""
    model = ropes()
    controls = 0.3 + 0.2 * np.random.default_rng(3).normal(size=(steps, model.nu))
    state = (start, [0.5, -0.4, 0.3])
    names = ("body_mass", "gravity", "tendon_range", "tendon_stiffness", "tendon_friction")
    check(Problem(model, *state, steps, controls, parameters=names, dt=0.002), tolerance)
    names = ("actuator_gain", "actuator_bias", "force_range")
    problem = Problem(model, *state, steps, controls, parameters=names, dt=0.002)
    problem.point["actuator_bias"][:, 1:] -= 0.1  # at no feedback gains turn from implicit to explicit
    problem.point["force_range"][:] = [[-4.0, 5.0], [-0.1, 0.2]]
    check(problem, tolerance)


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
def test_constants_of_tendons(steps, tolerance):
    """A pendulum on a tendon with a spring, a damper and dry friction that slips, beyond its stop."""
    b = ws.ModelBuilder()
    b.add_body("arm", mass=1.0, com=[0, 0, -0.3], inertia=[0.02, 0.02, 0.01])
    b.add_joint("arm", "hinge", name="q", axis=[0, 1, 0])
    b.add_tendon({"q": 0.7}, range=(-0.5, 0.1), stiffness=3.0, damping=0.4, friction=0.2, reference=0.05)
    names = ("tendon_range", "tendon_stiffness", "tendon_damping", "tendon_friction")
    check(Problem(b.build(), [0.2], [0.9], steps, parameters=names, dt=0.005), tolerance)


def test_a_tendon_at_its_reference():
    """Law: where a spring has one reference, its force is linear in the length, there as well. `linearize` at the reference of
    a pendulum's tendon, against central differences to 1e-7."""
    b = ws.ModelBuilder("pendulum", timestep=0.005)
    b.add_body("rod", mass=1.0, com=[0, 0, -0.5], inertia=[0.1] * 3)
    b.add_joint("rod", "hinge", name="q", axis=[0, 1, 0])
    b.add_tendon({"q": 0.7}, stiffness=3.0, damping=0.4, reference=0.0)
    sim = ws.Simulator(b.build(), 2, dtype="float64", device="cpu", requires_grad=True)
    A = sim.linearize(sim.state(q=[0.0])).A.numpy()
    after = sim.step(sim.state(q=np.array([[1e-6], [-1e-6]]))).v.numpy()[:, 0]
    assert A[0, 1, 0] == pytest.approx((after[0] - after[1]) / 2e-6, abs=1e-7)
    assert A[0, 1, 0] < 0.0


@pytest.mark.parametrize(("steps", "tolerance"), BARS)
@pytest.mark.parametrize("target", [0.05, 3.0])
def test_servos_with_effort_limits(target, steps, tolerance):
    """Position servos within their limit (small target) and at it (large): gains, limits, targets, state."""
    model = driven_pair()
    controls = np.full((steps, 2), target) * [1.0, -1.0]
    names = ("actuator_gain", "actuator_bias", "force_range", "body_mass")
    problem = Problem(model, [0.02, -0.03], [0.1, -0.05], steps, controls, parameters=names, dt=0.005)
    problem.value(problem.point)
    impulse = np.abs(problem.sim._step.solver.solution.row_gamma.numpy()[0])
    at_limit = np.isclose(impulse, [0.005 * 1.6, 0.005 * 2.0], rtol=1e-12)
    assert at_limit.all() if target > 1 else not at_limit.any()
    check(problem, tolerance)
