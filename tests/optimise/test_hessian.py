# SPDX-License-Identifier: Apache-2.0
"""`ws.hessian_vector`: known Hessians, symmetry, second differences of the loss, and the error that is stated."""

import doctest

import numpy as np
import pytest
import warp as wp

import warpsim as ws

WORLDS, STEPS = 2, 5


@wp.kernel
def squares64(q: wp.array3d(dtype=wp.float64), v: wp.array3d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    """½ (|q|² + |v|²) of the last row, per world."""
    w = wp.tid()
    end = q.shape[0] - 1
    for i in range(q.shape[2]):
        loss[w] += wp.float64(0.5) * (q[end, w, i] * q[end, w, i] + v[end, w, i] * v[end, w, i])


@wp.kernel
def squares32(q: wp.array3d(dtype=wp.float32), v: wp.array3d(dtype=wp.float32), loss: wp.array(dtype=wp.float32)):
    """The same in single precision."""
    w = wp.tid()
    end = q.shape[0] - 1
    for i in range(q.shape[2]):
        loss[w] += wp.float32(0.5) * (q[end, w, i] * q[end, w, i] + v[end, w, i] * v[end, w, i])


def loss(trajectory):
    """A loss of one number per world."""
    kernel = squares64 if trajectory.q.dtype is wp.float64 else squares32
    found = wp.zeros(trajectory.worlds, dtype=trajectory.q.dtype, device="cpu", requires_grad=True)
    wp.launch(kernel, trajectory.worlds, [trajectory.q, trajectory.v, found], device="cpu")
    return found


def cart(pole: bool, worlds: int = WORLDS, dtype: str = "float64") -> ws.Simulator:
    """A driven cart, linear in all but its mass, with a pole, which is not."""
    b = ws.ModelBuilder("cart")
    body = b.add_body("cart", mass=2.0, inertia=[1.0, 1.0, 1.0])
    b.add_joint(body, "slide", axis=[1, 0, 0], name="rail", damping=0.3)
    if pole:
        pole = b.add_body("pole", parent=body, mass=0.5, com=[0, 0, 0.4], inertia=[0.02, 0.02, 0.001])
        b.add_joint(pole, "hinge", axis=[0, 1, 0], damping=0.05)
    b.add_actuator("rail", gear=3.0, control_range=(-1.0, 1.0))
    options = {"requires_grad": True, "solver": ws.SAP(tolerance=None if dtype == "float32" else 1e-13)}
    return ws.Simulator(b.build(), worlds, 0.02, dtype=dtype, device="cpu", **options)


def problem(sim) -> ws.Objective:
    """Controls and velocities per world, one mass for all, in units of their own."""
    rng = np.random.default_rng(0)
    variables = {"controls": 0.3 * rng.normal(size=(STEPS, sim.worlds, 1)), "body_mass": sim.model.body_mass}
    variables["v"] = rng.normal(size=(sim.worlds, sim.model.nv))
    return ws.Objective(sim, loss, variables, scale={"controls": 2.0, "body_mass": 0.1})


def test_a_quadratic_loss_of_a_linear_system(within):
    """H = Jᵀ J with the sensitivities J of the last state, for many directions at once."""
    sim = cart(pole=False)
    J = sim.linearize(sim.state())
    A, B = J.A.numpy()[0], J.B.numpy()[0]
    S = np.hstack([np.linalg.matrix_power(A, STEPS - 1 - k) @ B for k in range(STEPS)])
    H = np.zeros((STEPS, WORLDS, STEPS, WORLDS))
    for w in range(WORLDS):
        H[:, w, :, w] = S.T @ S
    H = H.reshape(STEPS * WORLDS, -1)
    objective = ws.Objective(sim, loss, {"controls": np.zeros((STEPS, WORLDS, 1))})
    found = ws.hessian_vector(objective, np.eye(len(H)))
    within("H", np.abs(found.product - H).max() / H.max(), 1e-11)
    within("stated error", found.relative_error.max(), 1e-10)


@pytest.mark.parametrize("framework", ["warp", "torch"])
def test_symmetry_and_differences(framework, rng, within):
    """pᵀHs = sᵀHp, and pᵀHp is the second difference of the loss; per-world and shared variables."""
    sim = cart(pole=True)
    objective = problem(sim)
    if framework == "torch":
        pytest.importorskip("torch")
        half = lambda q, v: 0.5 * ((q[-1] ** 2).sum() + (v[-1] ** 2).sum())  # noqa: E731
        options = {"scale": objective.scale, "framework": "torch"}
        objective = ws.Objective(sim, half, objective.start, **options)
    x, P = objective.x0, rng.normal(size=(2, objective.x0.size))
    found = ws.hessian_vector(objective, P)
    HP = P @ found.product.T
    within("asymmetry", abs(HP[0, 1] - HP[1, 0]) / np.abs(HP).max(), 1e-7)
    size = 1e-3
    sides = [objective(x + s * size * P[0])[0] for s in (1, 0, -1)]
    within("second difference", abs((sides[0] - 2 * sides[1] + sides[2]) / size**2 / HP[0, 0] - 1), 1e-4)
    assert found.product.shape == P.shape and found.error.shape == (2,)
    one = ws.hessian_vector(objective, P[1])
    np.testing.assert_array_equal(one.product, found.product[1])
    assert "worst relative error" in repr(one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_error_is_what_is_stated(dtype, rng, within):
    """Against a product at a finer tolerance; in float32 the error is larger, and stated."""
    exact = problem(cart(pole=True))
    p = rng.normal(size=exact.x0.size)
    expected = ws.hessian_vector(exact, p, step_size=1e-4).product
    found = ws.hessian_vector(problem(cart(pole=True, dtype=dtype)), p)
    error = np.linalg.norm(found.product - expected)
    within("error", error / np.linalg.norm(expected), {"float32": 2e-2, "float64": 1e-6}[dtype])
    within("error over the one stated", error / found.error, 10.0)


def test_a_kink_is_told():
    """At the bound of a control the gradient jumps: the products at the two step sizes differ."""
    sim = cart(pole=False, worlds=1)
    controls = np.full((STEPS, 1, 1), 1.0 - 1e-6)
    objective = ws.Objective(sim, loss, {"controls": controls}, fixed={"v": [[1.0]]})
    found = ws.hessian_vector(objective, np.ones(STEPS))
    assert found.relative_error > 0.1


def test_leaves_the_simulator_as_it_was(rng):
    """Parameters stay; a direction of length 0 has the product 0, a motion that is not finite an infinite error."""
    sim = cart(pole=True)
    objective = problem(sim)
    sim.parameters["body_mass"] = 2 * sim.model.body_mass
    before = sim.parameters["body_mass"].numpy().copy()
    found = ws.hessian_vector(objective, np.zeros(objective.x0.size))
    assert not found.product.any() and found.error == 0 and found.relative_error == 0
    np.testing.assert_array_equal(sim.parameters["body_mass"].numpy(), before)
    objective = ws.Objective(sim, loss, {"v": np.full((WORLDS, 2), 1e300)}, steps=STEPS)
    assert np.isinf(ws.hessian_vector(objective, np.ones(2 * WORLDS)).error)


def test_example_of_the_docstring():
    """It runs as printed."""
    names = {"ws": ws, "np": np, "wp": wp}
    (found,) = doctest.DocTestFinder(recurse=False).find(ws.hessian_vector, "hessian_vector", globs=names)
    assert found.examples and not doctest.DocTestRunner().run(found).failed


def test_errors_say_what_to_change():
    """Kinds and shapes."""
    objective = problem(cart(pole=False))
    n = objective.x0.size
    with pytest.raises(ValueError, match=r"objective is a function; give a ws\.Objective"):
        ws.hessian_vector(loss, np.ones(3))
    with pytest.raises(ValueError, match=rf"directions has shape \(3,\); it must be \({n},\) or \(directions, {n}\)"):
        ws.hessian_vector(objective, np.ones(3))
    with pytest.raises(ValueError, match=rf"x has shape \(2, {n}\); it must be \({n},\)$"):
        ws.hessian_vector(objective, np.ones(n), np.ones((2, n)))
    with pytest.raises(ValueError, match="directions has entries that are not finite"):
        ws.hessian_vector(objective, np.full(n, np.nan))
    with pytest.raises(ValueError, match="step_size is 0"):
        ws.hessian_vector(objective, np.ones(n), step_size=0)


def test_what_cannot_move_is_refused():
    """Of a model without joints there is no Hessian to take."""
    b = ws.ModelBuilder("fixed")
    b.add_geom("sphere", [0.1])
    sim = ws.Simulator(b.build(), dtype="float64", requires_grad=True, device="cpu")
    objective = ws.Objective(sim, loss, {"gravity": [0.0, 0.0, -9.81]}, steps=2)
    with pytest.raises(ValueError, match="joints"):
        ws.hessian_vector(objective, [0.0, 0.0, 1.0])
