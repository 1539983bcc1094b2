# SPDX-License-Identifier: Apache-2.0
"""Gradients through compliant contact, which SAP's adjoint gives at its solution, against central differences."""

import numpy as np
import pytest
from test_step_gradient import Problem

import warpsim as ws

SOLVER = ws.Compliant(tolerance=1e-12, stiffness=1e6)


def box(stiffness=np.inf, dissipation_time=None) -> ws.Model:
    b = ws.ModelBuilder("box")
    b.add_geom("plane", friction=0.3)
    b.add_body("box", pose=[0.0, 0.0, 0.1])
    b.add_joint("box", "free")
    b.add_geom("box", [0.1] * 3, body="box", friction=0.3, stiffness=stiffness, dissipation_time=dissipation_time)
    return b.build()


@pytest.mark.parametrize("steps", [1, 10, 40])
@pytest.mark.parametrize("stiffness", [np.inf, 1e5])
def test_sliding_box(stiffness, steps):
    """State, mass, friction and, where given, stiffness of a box that slides and spins: those of the differences."""
    model = box(stiffness, None if stiffness == np.inf else 0.02)
    names = ("body_mass", "geom_friction", "gravity", "geom_size")
    q0 = model.q0 - np.array([0.0, 0.0, 2e-5, 0.0, 0.0, 0.0, 0.0])
    problem = Problem(model, q0, [0.3, 0.05, 0.0, 0.0, 0.0, 0.5], steps, parameters=names, solver=SOLVER)
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries=4) <= 1e-5, name


def test_stiffness_of_a_geom():
    """The derivative by the stiffness of a geom, whose size calls for steps of its own."""
    model = box(1e5, 0.02)
    problem = Problem(model, model.q0, [0.3] + [0.0] * 5, 10, parameters=("geom_stiffness",), solver=SOLVER)
    gradient = problem.gradient()["geom_stiffness"]
    assert gradient[0] == 0.0  # of the near-rigid floor
    assert abs(problem.differences("geom_stiffness", [(1,)], [10.0])[0, 0] / gradient[1] - 1.0) <= 1e-4


@pytest.mark.parametrize("stiffness", [1e4, 1e9])
def test_constraint(stiffness):
    """A bob on a stiff ball joint: errors taken at q, not where the velocity leads."""
    b = ws.ModelBuilder("bob")
    b.add_body("bob", pose=[0.7, 0.0, -0.3], mass=1.0, inertia=[0.1] * 3)
    b.add_joint("bob", "free")
    frames = {"pose_a": [-0.7, 0.0, 0.3], "pose_b": [0.0, 0.0, 0.0]}
    b.add_constraint("connect", "bob", "world", **frames, stiffness=stiffness, dissipation_time=1e-3)
    model = b.build()
    v0 = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    problem = Problem(model, model.q0, v0, 10, parameters=("body_mass", "gravity"), solver=SOLVER)
    for name, gradient in problem.gradient().items():
        assert problem.worst_error(name, gradient, entries=4) <= 1e-6, name
