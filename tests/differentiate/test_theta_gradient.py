# SPDX-License-Identifier: Apache-2.0
"""Gradients of the theta-schemes through both stages against central differences in float64, at 1, 10 and 40 steps."""

import numpy as np
import pytest
from test_step_gradient import Problem, all_joints, both_laws, sliding_box

import warpsim as ws
from scenes.constraints import driven_pair, fourbar, welded_beam

# The free motion must be solved far below the differences' own error.
SCHEMES = {
    "explicit": ws.ExplicitEuler(),
    "symplectic, K": ws.SymplecticEuler(implicit_stiffness=True),
    "implicit": ws.ImplicitEuler(tolerance=1e-15),
    "midpoint": ws.Midpoint(tolerance=1e-15),
}
every_scheme = pytest.mark.parametrize("name", SCHEMES)


def check(problem: Problem, tolerance: float, entries=None) -> None:
    """Every gradient of the problem is that of the differences."""
    for name, gradient in problem.gradient().items():
        assert np.abs(gradient).max() > 0.0 or problem.worst_error(name, gradient, 2) == 0.0, name
        assert problem.worst_error(name, gradient, entries=entries) <= tolerance, name


@every_scheme
@pytest.mark.parametrize("steps, tolerance", [(1, 1e-6), (10, 1e-5)])
def test_every_joint_type(name, steps, tolerance):
    """Ball, hinge, slide, free and fixed joints with springs, dampers, dry friction, stops that act, armature and actuators:
    gradients to the state, the controls and the parameters, those in K and D of A included."""
    model, rng = all_joints(), np.random.default_rng(3)
    v0 = 0.5 * rng.normal(size=model.nv)
    q0 = model.q0.copy()
    q0[:4] = np.cos(0.2505), *(np.sin(0.2505) * np.array([0.6, 0.0, 0.8]))  # beyond the ball's stop, 0.5 rad
    q0[4] = 0.301  # beyond the hinge's, 0.3 rad
    controls = 0.5 * rng.normal(size=(steps, model.nu))
    names = ("body_mass", "body_com", "joint_stiffness", "joint_damping", "joint_armature", "joint_reference")
    names += ("actuator_gain", "actuator_bias", "joint_pose", "joint_axis", "gravity", "joint_range", "joint_friction")
    problem = Problem(model, q0, v0, steps, controls, parameters=names, integrator=SCHEMES[name])
    # At 0 position and velocity gains turn from implicit to explicit.
    problem.point["actuator_bias"][:, 1:] -= 0.1
    check(problem, tolerance, entries=6)


def hill() -> ws.Model:
    """A ball on a fixed sphere: the normal turns while it rolls."""
    b = ws.ModelBuilder("hill")
    b.add_geom("sphere", [0.9], friction=0.7)
    b.add_body("ball", pose=[0.0, 0.0, 1.0], mass=1.0, inertia=[0.004] * 3)
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.1], body="ball", density=0.0, friction=1.0)
    return b.build()


@both_laws
@every_scheme
@pytest.mark.parametrize("steps, tolerance", [(1, 1e-6), (40, 1e-5)])
@pytest.mark.parametrize("scene", ["box", "hill"])
def test_contact(name, steps, tolerance, scene, solver):
    """A box that slides to rest and a ball that rolls over a sphere, whose contact the midpoint rule follows to q^θ."""
    if scene == "box":
        model, v0 = sliding_box(), [0.3, 0.05, 0, 0, 0, 0.5]
        q0 = model.q0 + np.array([0, 0, -2e-5, 0, 0, 0, 0])
        names = ("body_mass", "geom_friction", "gravity", "body_com")
    else:
        model, v0 = hill(), [0.1, 0.2, 0.0, 0.1, 0.5, 0.3]
        q0 = [0.99999 * np.sin(0.4), 0.0, 0.99999 * np.cos(0.4), 1.0, 0.0, 0.0, 0.0]
        names = ("body_mass", "gravity", "geom_size", "geom_pose")
    problem = Problem(model, q0, v0, steps, parameters=names, integrator=SCHEMES[name], solver=solver)
    check(problem, tolerance, entries=8)


@pytest.mark.parametrize(
    "name, steps, tolerance", [("implicit", 1, 1e-6), ("midpoint", 1, 1e-6), ("midpoint", 40, 1e-5)]
)
def test_humanoid_on_the_ground(assets, name, steps, tolerance):
    """A humanoid that lies on the ground, with joint springs and stops: gradients to state, controls and parameters."""
    model = ws.load(assets("humanoid"))
    settle = ws.Simulator(model, dt=0.005, dtype="float64", device="cpu")
    rest = settle.rollout(settle.state(), steps=300).final
    assert settle.diagnostics.contacts.numpy()[0] >= 2
    rng = np.random.default_rng(5)
    controls = 0.3 * rng.uniform(-1, 1, size=(steps, model.nu))
    q0, v0 = rest.q.numpy()[0], rest.v.numpy()[0] + 0.05 * rng.normal(size=model.nv)
    names = ("body_mass", "geom_friction", "joint_damping", "joint_stiffness")
    problem = Problem(model, q0, v0, steps, controls, parameters=names, dt=0.005, integrator=SCHEMES[name])
    problem.point["geom_friction"] *= 1 + 0.01 * np.arange(model.ngeom)  # the larger of two equal ones has a kink
    check(problem, tolerance, entries=5)


def test_a_general_shape_followed_to_the_middle():
    """A cylinder on a tilted box, midpoint rule: the contact geometry of general shapes at q^θ is differentiated too."""
    b = ws.ModelBuilder("cylinder")
    b.add_geom("box", [1.0, 1.0, 0.1], pose=[0, 0, -0.1, np.cos(0.05), np.sin(0.05), 0, 0], friction=0.6)
    b.add_body("cylinder", pose=[0.0, 0.0, 0.0995, np.cos(0.8), 0.0, np.sin(0.8), 0.0])
    b.add_joint("cylinder", "free")
    b.add_geom("cylinder", [0.1, 0.2], body="cylinder", friction=0.6)
    model = b.build()
    problem = Problem(
        model, model.q0, [0.2, 0.1, 0.0, 0.3, 0.1, 0.4], 1, parameters=("body_mass",), integrator=SCHEMES["midpoint"]
    )
    problem.gradient()
    assert problem.sim.diagnostics.contacts.numpy()[0] > 0
    check(problem, 1e-6)


def test_a_contact_that_is_kept_at_the_start():
    """The free motion carries a small fast ball past the centre of another: its contact stays that of q0, and so does its
    gradient."""
    b = ws.ModelBuilder("two balls", gravity=(0.0, 0.0, 0.0))
    b.add_geom("sphere", [0.02], friction=0.5)
    b.add_body("ball", pose=[0.0, 0.0, 0.05], mass=0.1, inertia=[1e-5] * 3)
    b.add_joint("ball", "free")
    b.add_geom("sphere", [0.02], body="ball", density=0.0, friction=0.5)
    model = b.build()
    v0 = [0.3, 0.2, -12.0, 5.0, 1.0, 2.0]
    problem = Problem(model, model.q0, v0, 1, parameters=("body_mass",), integrator=SCHEMES["midpoint"])
    problem.gradient()
    step = problem.sim._step
    assert step.collision.contacts.count.numpy()[0] == 1
    assert step.stages.moved.numpy()[0, 0] == 0
    check(problem, 1e-6)


@every_scheme
@pytest.mark.parametrize("steps, tolerance", [(1, 1e-6), (40, 1e-5)])
@pytest.mark.parametrize("scene", ["four-bar", "weld"])
def test_constraints_between_bodies(name, steps, tolerance, scene):
    """A four-bar linkage and a welded box: rows whose errors lead, and whose Jacobians the midpoint rule takes at q^θ."""
    model, dt, v0 = fourbar("connect"), 0.002, [1.0, -0.6, 0.2]
    if scene == "weld":
        model, dt = welded_beam(), 0.005
        v0 = 0.3 * np.random.default_rng(1).normal(size=model.nv)
    names = ("body_mass", "joint_pose")
    problem = Problem(model, model.q0, v0, steps, parameters=names, dt=dt, integrator=SCHEMES[name])
    check(problem, tolerance, entries=5)


@every_scheme
@pytest.mark.parametrize("target", [0.05, 3.0])
def test_servos_with_effort_limits(name, target):
    """Position servos within their limit (small target) and at it (large): part of the free motion where that is implicit,
    rows of the contact problem elsewhere."""
    controls = np.full((10, 2), target) * [1.0, -1.0]
    names = ("actuator_gain", "actuator_bias", "force_range", "body_mass")
    state = ([0.02, -0.03], [0.1, -0.05])
    problem = Problem(driven_pair(), *state, 10, controls, parameters=names, dt=0.005, integrator=SCHEMES[name])
    check(problem, 1e-5)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("reach", [np.inf, 5.0])
def test_a_motor_that_could_damp(name, reach):
    """A motor has the feedback gains 0, where damping turns from explicit to implicit: the derivative is that of a side,
    not 0. One-sided differences towards damping; the scheme with K in A has such a border for the position gain, too."""
    b = ws.ModelBuilder("motor", gravity=(0.0, 0.0, 0.0))
    b.add_body("link", mass=1.0, inertia=[0.1] * 3)
    b.add_joint("link", "hinge", axis=(0, 1, 0), damping=0.1)
    b.add_actuator(0, gear=2.0, force_range=(-reach, reach))
    model = b.build()
    problem = Problem(
        model, [0.4], [0.7], 2, np.full((2, 1), 0.3), parameters=("actuator_bias",), integrator=SCHEMES[name]
    )
    gradient = problem.gradient()["actuator_bias"][0]
    for entry in (1, 2):
        point, sides = problem.point, []
        for size in (1e-5, 1e-6):
            less = point["actuator_bias"].copy()
            less[0, entry] -= size
            sides.append((problem.value(point) - problem.value(point | {"actuator_bias": less})) / size)
        extrapolated = (10.0 * sides[1] - sides[0]) / 9.0
        assert abs(gradient[entry] - extrapolated) <= 1e-6 * abs(extrapolated), entry
        assert abs(extrapolated) > 1e-4
