# SPDX-License-Identifier: Apache-2.0
"""SAP on its own: scalar rows, isolation of worlds, degenerate input, clear errors."""

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.contact_problems import Problem
from scenes.problem_samples import random_problem
from warpsim.kernels.linalg.vector import padded
from warpsim.solve import SAP, ContactProblem, SAPSolver, solve_contact
from warpsim.solve.problem import fill_problem

FIELDS = ("v", "impulse", "iterations", "momentum_error", "flags")


@pytest.mark.parametrize("line_search", ["exact", "backtracking"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_are_independent(dtype, line_search):
    """World i of 7 equals the same world solved alone, bit for bit."""
    data = random_problem(np.random.default_rng(1), worlds=7)
    options = SAP(line_search=line_search)
    together = solve_contact(ContactProblem(**data), options, dtype=dtype)
    for i in range(7):
        alone = solve_contact(ContactProblem(**{k: x[i] for k, x in data.items()}), options, dtype=dtype)
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(together, field)[i], getattr(alone, field)[0])


@pytest.mark.parametrize("field", ["A", "v_star", "v0", "J", "R", "mu", "v_hat"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_world_is_flagged_and_isolated(field, value):
    """A NaN or an infinity on the device ends its world with the non-finite flag; no other bit changes."""
    data = random_problem(np.random.default_rng(2), worlds=3)
    clean = solve_contact(ContactProblem(**data), dtype="float32")
    problem, options = ContactProblem(**data), SAP()
    # The normal entry: a tangential one is not read where μ = 0.
    getattr(problem, field)[1].flat[2] = value
    solver = SAPSolver(3, [0, problem.nv], problem.contact_slots, options=options, dtype="float32")
    fill_problem(solver, problem, options, "float32")
    out = solver.launch()
    keep = [0, 2]
    np.testing.assert_array_equal(out.v.numpy()[keep], clean.v[keep])
    np.testing.assert_array_equal(out.gamma.numpy()[keep], clean.impulse[keep])
    np.testing.assert_array_equal(out.status.numpy()[keep], 0)
    # An infinite R is a legal limit (no constraint), and so is an infinite μ; every NaN must be seen.
    if np.isnan(value) or field not in ("R", "mu"):
        assert out.status.numpy()[1] != 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_without_contact(dtype):
    """No contact: v = v* exactly in 0 iterations, with zero impulses, also beside worlds in contact."""
    data = random_problem(np.random.default_rng(3), worlds=3)
    solution = solve_contact(ContactProblem(**data, contacts=[5, 0, 2]), dtype=dtype)
    np.testing.assert_array_equal(solution.v[1], data["v_star"][1].astype(dtype))
    np.testing.assert_array_equal(solution.impulse[1], 0.0)
    np.testing.assert_array_equal(solution.impulse[2, 2:], 0.0)
    assert solution.iterations[1] == 0 and solution.momentum_error[1] == 0.0
    assert solution.iterations[0] > 0 and not solution.flags.any()

    empty = ContactProblem(np.eye(4), np.zeros((0, 4)), np.ones(4), np.zeros(0), phi=np.zeros(0), dt=0.01)
    np.testing.assert_array_equal(solve_contact(empty, dtype=dtype).v, np.ones((1, 4)))


def test_reaching_the_iteration_limit_is_reported():
    """One Newton step is not enough here: the iterate, its error and the flag say so."""
    data = random_problem(np.random.default_rng(4))
    solution = solve_contact(ContactProblem(**data), SAP(max_iterations=1))
    assert solution.flags[0] == ws.NOT_CONVERGED and solution.iterations[0] == 1
    assert solution.momentum_error[0] > 1e-6 and np.isfinite(solution.v).all()


def test_float32_below_its_floor_ends_with_a_flag():
    """A tolerance that float32 cannot reach ends by stalling, not by the iteration limit, near the answer."""
    data = random_problem(np.random.default_rng(5), worlds=8)
    exact = solve_contact(ContactProblem(**data)).v
    solution = solve_contact(ContactProblem(**data), SAP(tolerance=1e-12), dtype="float32")
    assert solution.iterations.max() < 60
    assert (solution.flags == ws.NOT_CONVERGED).any()
    assert solution.momentum_error.max() < 1e-5
    np.testing.assert_allclose(solution.v, exact, atol=1e-4)


@pytest.mark.parametrize("linear_solver", ["cholesky", "cg"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_certificate_holds_from_a_far_guess(dtype, linear_solver):
    """From a first guess of norm 1e6 the momentum error of the v and γ given back, recomputed, is within the tolerance.

    What is carried from such a guess has a rounding error of 1e6 ε: 0.1 in float32.
    """
    data = random_problem(np.random.default_rng(8), worlds=20)
    data["v0"] *= 1e6 / np.linalg.norm(data["v0"], axis=1, keepdims=True)
    tolerance = {"float64": 1e-11, "float32": 1e-4}[dtype]
    solution = solve_contact(ContactProblem(**data), SAP(tolerance=tolerance, linear_solver=linear_solver), dtype=dtype)
    assert not solution.flags.any()
    for w in range(20):
        problem = Problem.of_world(data, w)
        v, gamma = solution.v[w].astype(float), solution.impulse[w].astype(float)
        assert problem.momentum_error(v, problem.generalised(gamma)) < 1.05 * tolerance


def row_solver(dtype="float64", worlds=2, seed=0, keep_factor=False, tolerance=None):
    """SAPSolver with two contacts on compressed supports, and rows: limit, dry friction, bilateral, ball limit, off."""
    rng = np.random.default_rng(seed)
    nv, S = 9, {"float32": wp.float32, "float64": wp.float64}[dtype]
    vec3 = wp.types.vector(3, S)
    B = rng.normal(size=(worlds, nv, nv))
    A = B @ np.swapaxes(B, 1, 2) + np.eye(nv)
    support = np.array([[0, 1, 2, 5], [1, 3, 8, 0]])
    size = np.array([4, 3])
    pair = np.tile([1, 0], (worlds, 1))
    J = rng.normal(size=(worlds, 2, 3, 4))
    rows = dict(
        row_support=np.array([[0, 0, 0], [3, 0, 0], [7, 0, 0], [4, 5, 6], [8, 0, 0], [2, 0, 0]]),
        row_support_size=np.array([1, 1, 1, 3, 1, 1]),
        row_J=rng.normal(size=(worlds, 6, 3)), row_R=np.tile([1e-3, 1e-2, 1e-4, 1e-3, -1.0, 1e-2], (worlds, 1)),
        row_v_hat=0.1 * rng.normal(size=(worlds, 6)),
        row_lower=np.tile([0.0, -0.05, -np.inf, 0.0, -np.inf, -5.0], (worlds, 1)),
        row_upper=np.tile([np.inf, 0.05, np.inf, np.inf, np.inf, 5.0], (worlds, 1)),
    )  # fmt: skip
    data = dict(
        A=A, v_star=rng.normal(size=(worlds, nv)), v0=rng.normal(size=(worlds, nv)), contacts=np.full(worlds, 2),
        contact_pair=pair, support=support, support_size=size, J=J, R=np.tile([1e-3, 1e-3, 1e-2], (worlds, 2, 1)),
        v_hat=0.1 * rng.normal(size=(worlds, 2, 3)), mu=np.tile([0.5, 0.9], (worlds, 1)), **rows,
    )  # fmt: skip
    solver = SAPSolver(
        worlds, [0, nv], 2, rows["row_support"], rows["row_support_size"],
        options=SAP(tolerance=tolerance), dtype=dtype, device="cpu", keep_factor=keep_factor,
    )  # fmt: skip
    for name, value in data.items():
        kind = int if value.dtype.kind == "i" else vec3 if name in ("R", "v_hat") else S
        setattr(solver.problem, name, wp.array(value, dtype=kind, device="cpu"))
    room = np.pad(A, ((0, 0), (0, 0), (0, padded(nv) - nv)))
    solver.problem.A = wp.array(room, dtype=S, device="cpu")
    return solver, data


def dense_rows(data, w):
    """Dense Jacobians of the contacts (contacts, 3, nv) and of the rows (rows, nv) of one world."""
    nv = data["A"].shape[1]
    J, J_rows = np.zeros((2, 3, nv)), np.zeros((6, nv))
    for c, p in enumerate(data["contact_pair"][w]):
        n = data["support_size"][p]
        J[c][:, data["support"][p, :n]] = data["J"][w, c, :, :n]
    for k, (support, n) in enumerate(zip(data["row_support"], data["row_support_size"], strict=True)):
        J_rows[k, support[:n]] = data["row_J"][w, k, :n]
    return J, J_rows


def test_scalar_rows_and_supports():
    """Limits, dry friction, bilateral and ball rows beside contacts: momentum balance and each row's own law."""
    solver, data = row_solver(tolerance=1e-12)
    out = solver.launch()
    assert not out.status.numpy().any() and out.iterations.numpy().min() > 0
    for w in range(2):
        v, gamma, row_gamma = out.v.numpy()[w], out.gamma.numpy()[w], out.row_gamma.numpy()[w]
        J, J_rows = dense_rows(data, w)
        balance = data["A"][w] @ (v - data["v_star"][w]) - J.reshape(6, -1).T @ gamma.ravel() - J_rows.T @ row_gamma
        np.testing.assert_allclose(balance, 0.0, atol=1e-9)
        y = (data["row_v_hat"][w] - J_rows @ v) / data["row_R"][w]
        expected = np.clip(y, data["row_lower"][w], data["row_upper"][w])
        expected[4] = 0.0
        np.testing.assert_allclose(row_gamma, expected, atol=1e-9)
        assert np.all(np.linalg.norm(gamma[:, :2], axis=1) <= data["mu"][w] * gamma[:, 2] * (1 + 1e-12))


def test_factor_at_the_solution():
    """keep_factor leaves LᵀDL = A + JᵀGJ at the solution: H agrees with differences of the gradient."""
    solver, data = row_solver(keep_factor=True, tolerance=1e-13)
    solver.launch()
    factor, v = solver.work.newton.H.numpy()[0, :, :9], solver.solution.v.numpy()[0]
    L = np.tril(factor, -1) + np.eye(9)
    H = L.T @ np.diag(np.diag(factor)) @ L
    J, J_rows = dense_rows(data, 0)

    def gradient(v):
        contacts = Problem(J=J, **{name: data[name][0] for name in ("A", "v_star", "v0", "mu", "R", "v_hat")})
        y = (data["row_v_hat"][0] - J_rows @ v) / data["row_R"][0]
        rows = np.clip(y, data["row_lower"][0], data["row_upper"][0])
        rows[4] = 0.0
        return contacts.gradient(v) - J_rows.T @ rows

    step = 1e-6
    differences = [(gradient(v + step * e) - gradient(v - step * e)) / (2.0 * step) for e in np.eye(9)]
    np.testing.assert_allclose(H, np.array(differences).T, atol=1e-6 * np.abs(H).max())


def test_warp_arrays_come_back_as_warp_arrays():
    """wp.array in, wp.array out, with the same numbers as NumPy."""
    data = random_problem(np.random.default_rng(6), worlds=2)
    expected = solve_contact(ContactProblem(**data))
    arrays = {name: wp.array(x, dtype=wp.float64, device="cpu") for name, x in data.items()}
    solution = solve_contact(ContactProblem(**arrays))
    for field in FIELDS:
        value = getattr(solution, field)
        assert isinstance(value, wp.array)
        np.testing.assert_array_equal(value.numpy(), getattr(expected, field))


def test_speculative_contact_has_no_dissipation():
    """φ > 0: v̂ = −φ/h whatever τ_d, so a body stops exactly at the surface and not before."""
    one = dict(J=np.eye(3), v_star=np.array([0.0, 0.0, -2.0]), mu=[0.5], dt=0.01, phi=[0.01])
    v = [solve_contact(ContactProblem(np.eye(3), dissipation_time=[t], **one)).v[0, 2] for t in (0.0, 0.5)]
    assert v[0] == v[1] and v[0] == pytest.approx(-1.0, rel=0.05)


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(A=np.eye(9)), "v_star|J has shape"),
        (dict(A=-np.eye(10)), "A.* not positive definite"),
        (dict(A=np.triu(np.ones((10, 10)))), "A.* not symmetric"),
        (dict(v_star=np.full(10, np.nan)), r"v_star\[0, 0\] is nan"),
        (dict(J=np.zeros((14, 10))), "J has shape"),
        (dict(mu=-np.ones(5)), "mu is -1.0"),
        (dict(R=np.zeros((5, 3))), "R is 0.0"),
        (dict(R=None), "give R and v_hat together"),
        (dict(R=None, v_hat=None), "give R and v_hat, or phi and dt"),
        (dict(R=None, v_hat=None, phi=np.zeros(5), dt=-1.0), "dt is -1.0"),
        (dict(R=None, v_hat=None, phi=np.zeros(5), dt=0.01, stiffness=0.0), "stiffness"),
        (dict(contacts=[6]), "contacts\\[0\\] is 6"),
    ],
)
def test_bad_problems_are_named(change, words):
    """Each mistake raises a ValueError that names the array."""
    with pytest.raises(ValueError, match=words):
        ContactProblem(**{**random_problem(np.random.default_rng(7)), **change})


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(tolerance=0.0), "tolerance is 0.0"),
        (dict(beta=-1.0), "beta is -1.0"),
        (dict(sigma=0.0), "sigma is 0.0"),
        (dict(line_search="golden"), "line_search is 'golden'"),
        (dict(linear_solver="pcg"), "linear_solver"),
        (dict(linear_solver="qr"), "linear_solver is 'qr'"),
        (dict(max_iterations=0), "max_iterations is 0"),
    ],
)
def test_bad_options_are_named(options, words):
    """Each bad option raises a ValueError that says what to give instead."""
    with pytest.raises(ValueError, match=words):
        SAP(**options)
