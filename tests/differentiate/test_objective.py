# SPDX-License-Identifier: Apache-2.0
"""`ws.Objective`: flat vectors for scipy, shared and per-world variables, Warp and torch losses."""

import numpy as np
import pytest
import scipy.optimize
import warp as wp
from adapter_samples import STEPS, WORLDS, cart_pole

import warpsim as ws


@wp.kernel
def squared_speed(v: wp.array3d(dtype=wp.float64), target: wp.float64, loss: wp.array(dtype=wp.float64)):
    """(v - target)² of the last row, per world."""
    w = wp.tid()
    for i in range(v.shape[2]):
        d = v[v.shape[0] - 1, w, i] - target
        loss[w] += d * d


def speed_loss(trajectory) -> wp.array:
    loss = wp.zeros(trajectory.worlds, dtype=wp.float64, device="cpu", requires_grad=True)
    wp.launch(squared_speed, dim=trajectory.worlds, inputs=[trajectory.v, wp.float64(0.7), loss], device="cpu")
    return loss


def variables(sim):
    """Controls per world, masses shared by all, velocities per world."""
    rng = np.random.default_rng(3)
    controls = rng.normal(size=(STEPS, WORLDS, 1))
    return {"controls": controls, "body_mass": sim.model.body_mass, "v": rng.normal(size=(WORLDS, 2))}


def test_gradient_against_differences(within):
    """Every entry of x: per-world ones and ones that all worlds share, in units of `scale`."""
    sim = cart_pole()
    objective = ws.Objective(sim, speed_loss, variables(sim), scale={"body_mass": 0.1, "controls": 10.0})
    x, step = objective.x0, 1e-6
    _, gradient = objective(x)
    for i in range(len(x)):
        e = step * np.eye(len(x))[i]
        difference = (objective(x + e)[0] - objective(x - e)[0]) / (2 * step)
        within("objective against differences", abs(gradient[i] - difference) / np.abs(gradient).max(), 1e-8)


def test_packing():
    """pack and unpack are inverse; bounds come entry by entry, in units of the scale."""
    sim = cart_pole()
    start = variables(sim)
    bounds = {"body_mass": (0.1, np.array([3.0, 1.0]))}
    objective = ws.Objective(sim, speed_loss, start, bounds=bounds, scale={"body_mass": 0.5})
    for name, value in objective.unpack(objective.x0).items():
        np.testing.assert_allclose(value, start[name], rtol=1e-15)
    assert objective.bounds[STEPS * WORLDS : STEPS * WORLDS + 2] == [(0.2, 6.0), (0.2, 2.0)]
    assert objective.bounds[0] == (-np.inf, np.inf)
    assert ws.Objective(sim, speed_loss, start).bounds is None


def test_scipy_brings_the_system_to_a_speed():
    """L-BFGS-B over bounded controls reaches cart and pole speeds of 0.7 in every world."""
    sim = cart_pole()
    start = {"controls": np.zeros((40, WORLDS, 1))}
    objective = ws.Objective(sim, speed_loss, start, bounds={"controls": (-20, 20)})
    found = scipy.optimize.minimize(objective, objective.x0, jac=True, bounds=objective.bounds, method="L-BFGS-B")
    assert found.fun < 1e-6
    assert np.abs(found.x).max() <= 20
    np.testing.assert_allclose(objective.rollout(found.x).v.numpy()[-1], 0.7, atol=1e-3)


def test_bounds_of_the_model():
    """ "model" bounds controls by the control range and parameters by what a simulator takes, shared or per world."""
    sim = ws.Simulator(ws.load(ws.robots.path("cartpole")), WORLDS, dtype="float64", device="cpu", requires_grad=True)
    start = {"controls": np.zeros((STEPS, WORLDS, 1)), "body_mass": sim.model.body_mass}
    bounds = ws.Objective(sim, speed_loss, start, bounds=dict.fromkeys(start, "model")).bounds
    assert bounds == [(-1.0, 1.0)] * (STEPS * WORLDS) + [(0.0, np.inf)] * 2
    sim.parameters["control_range"] = np.array([[[-1.0, 1.0]], [[-0.5, 1.0]], [[-1.0, 0.2]]])
    bounds = ws.Objective(sim, speed_loss, start, bounds={"controls": "model"}).bounds
    assert bounds[:3] == [(-1.0, 1.0), (-0.5, 1.0), (-1.0, 0.2)]
    shared = {"controls": np.zeros((STEPS, 1))}
    assert ws.Objective(sim, speed_loss, shared, bounds={"controls": "model"}).bounds == [(-0.5, 0.2)] * STEPS
    with pytest.raises(ValueError, match=r"bounds\['v'\] is \"model\""):
        ws.Objective(sim, speed_loss, {"v": np.zeros(2)}, steps=3, bounds={"v": "model"})


def test_torch_loss_equals_warp_loss():
    """The same loss from tensors: value and gradient."""
    pytest.importorskip("torch")
    sim = cart_pole()
    x = ws.Objective(sim, speed_loss, variables(sim)).x0
    expected = ws.Objective(sim, speed_loss, variables(sim))(x)
    found = ws.Objective(sim, lambda q, v: ((v[-1] - 0.7) ** 2).sum(), variables(sim), framework="torch")(x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_errors_say_what_to_change():
    """Unknown names, wrong shapes, a loss that is no array, a simulator without gradients."""
    sim = cart_pole()
    start = variables(sim)
    with pytest.raises(ValueError, match=r"bounds names \['mass'\]; the variables are"):
        ws.Objective(sim, speed_loss, start, bounds={"mass": (0, 1)})
    with pytest.raises(ValueError, match=r"body_mass has shape \(3,\); it must be \(3, 2\), or \(2,\)"):
        ws.Objective(sim, speed_loss, start | {"body_mass": np.ones(3)})
    with pytest.raises(ValueError, match="steps"):
        ws.Objective(sim, speed_loss, {"v": np.zeros(2)})
    with pytest.raises(ValueError, match="framework"):
        ws.Objective(sim, speed_loss, start, framework="numpy")
    with pytest.raises(ValueError, match="requires_grad=True"):
        ws.Objective(cart_pole(requires_grad=False), speed_loss, start)
    objective = ws.Objective(sim, lambda trajectory: 1.0, start)
    with pytest.raises(ValueError, match=r"wp\.array"):
        objective(objective.x0)
