# SPDX-License-Identifier: Apache-2.0
"""Cone QPs: known optima, Clarabel, contact duals, certificates, degenerate input, isolation of worlds, clear errors."""

import numpy as np
import pytest
import warp as wp

from scenes.cone_samples import clarabel_solution, infeasible_cone_qp, random_cone_qp, unbounded_cone_qp
from scenes.lcp_samples import random_lcp
from scenes.problem_samples import random_problem
from warpsim.kernels.flags import NONFINITE, NOT_CONVERGED
from warpsim.solve import SAP, ContactProblem, solve_cone_qp, solve_contact
from warpsim.solve.cone_qp.cone_qp import (
    INFEASIBLE,
    UNBOUNDED,
    solve_worlds,
)

FIELDS = ("x", "duals", "cone_duals", "iterations", "residual", "flags")


def solve(problem, **keywords):
    return solve_cone_qp(problem.H, problem.g, problem.A, problem.q, problem.cones, **keywords)


def cost_error(problem, x, other):
    return abs(problem.cost(x) - problem.cost(other)) / problem.size(problem.x)


def test_random_problems(within):
    """150 hard problems: all solved within 25 factorisations, to the known optimum and to Clarabel's (the bar is 1e-7)."""
    rng = np.random.default_rng(0)
    known, peer, iterations = [], [], []
    for i in range(150):
        p = random_cone_qp(rng)
        solution = solve(p)
        assert solution.flags[0] == 0, i
        iterations.append(int(solution.iterations[0]))
        known.append(cost_error(p, solution.x[0], p.x))
        reference = clarabel_solution(p)
        assert reference is not None
        peer.append(cost_error(p, solution.x[0], reference))
    within("150 random cone QPs: cost against the known optimum", max(known), 1e-8)
    within("150 random cone QPs: cost against Clarabel", max(peer), 1e-7)
    within("150 random cone QPs: factorisations", max(iterations), 25)


def test_float32_solves_or_says_so(within):
    """In float32, at least 99 % reach 1e-4, and their cost is right to the rounding of data of condition 10⁸."""
    rng = np.random.default_rng(1)
    errors, solved = [], 0
    for _ in range(100):
        p = random_cone_qp(rng)
        solution = solve(p, dtype="float32")
        assert np.all(np.isfinite(solution.x))
        if solution.flags[0] == 0:
            solved += 1
            errors.append(cost_error(p, solution.x[0].astype(float), p.x))
    assert solved >= 99
    within("100 random cone QPs in float32: cost", max(errors), 1e-2)
    within("100 random cone QPs in float32: median cost", np.median(errors), 1e-6)


def test_solution_is_certified():
    """x in its cones, Ax ≥ q, duals in the dual cones, Hx + g = Aᵀy + z, no gap: recomputed from what comes back."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        p = random_cone_qp(rng)
        p = p if p.twin is None else p.twin  # absolute tolerances below
        s = solve(p)
        x, y, z = s.x[0], s.duals[0], s.cone_duals[0]
        size = 1.0 + np.abs(x).max() + np.abs(y).max(initial=0.0)
        assert np.all(p.A @ x >= p.q - 1e-8 * size) and np.all(y >= 0.0)
        np.testing.assert_allclose(p.H @ x + p.g, p.A.T @ y + z, atol=1e-7 * size)
        assert abs(x @ z) + abs(y @ (p.A @ x - p.q)) <= 1e-7 * size**2
        for block, mu in p.blocks():
            n = block[-1]
            assert np.linalg.norm(x[block[:-1]]) <= mu * x[n] * (1.0 + 1e-12) + 1e-300
            assert z[n] >= mu * np.linalg.norm(z[block[:-1]]) - 1e-7 * size * max(mu, 1.0)


def test_unique_solutions_are_exact(within):
    """Where H is well conditioned and complementarity strict, x itself is right to 1e-9."""
    rng, worst = np.random.default_rng(3), 0.0
    while worst == 0.0 or rng.random() < 0.99:
        p = random_cone_qp(rng)
        p = p if p.twin is None else p.twin
        eigenvalues = np.linalg.eigvalsh(p.H)
        if not p.degenerate and eigenvalues[0] > 1e-3 * eigenvalues[-1]:
            worst = max(worst, np.abs(solve(p).x[0] - p.x).max() / np.abs(p.x).max())
    within("cone QPs with unique solutions: x", worst, 1e-9)


def test_dual_of_contact():
    """γ of SAP's convex contact problem is the solution of min ½γᵀ(W + R)γ + (Jv* − v̂)ᵀγ over the friction cones."""
    for seed in range(5):
        data = random_problem(np.random.default_rng(seed), contacts=5, condition=1e2)
        impulse = solve_contact(ContactProblem(**data), SAP(tolerance=1e-13)).impulse[0]
        A, J = data["A"], data["J"]
        H = J @ np.linalg.solve(A, J.T) + np.diag(data["R"].ravel())
        g = J @ data["v_star"] - data["v_hat"].ravel()
        x = solve_cone_qp(H, g, cones=[("friction", mu) for mu in data["mu"]]).x[0]
        np.testing.assert_allclose(x.reshape(-1, 3), impulse, atol=1e-7 * np.abs(impulse).max())


@pytest.mark.parametrize("stiffness", [1.0, 1e5, 1e10, 1e15])
def test_compliant_contact(stiffness):
    """min ½λᵀ(S⁻¹ + W)λ − (S⁻¹r)ᵀλ with singular W and S from soft to 10¹⁵: at most 25 factorisations, no failure."""
    rng = np.random.default_rng(int(np.log10(stiffness)))
    for _ in range(40):
        p = random_lcp(rng)
        S = np.full(len(p.b), stiffness)
        S[p.findex >= 0] = 1e6
        cones = [("friction", mu) for mu in p.hi[0::3]]
        solution = solve_cone_qp(np.diag(1.0 / S) + p.A, -p.b, cones=cones)
        assert solution.flags[0] == 0 and solution.iterations[0] <= 25


def test_certificates():
    """Contradictory constraints and costs without a floor are never given back as solved, and 95 % are certified."""
    rng = np.random.default_rng(4)
    for make, bit in ((infeasible_cone_qp, INFEASIBLE), (unbounded_cone_qp, UNBOUNDED)):
        flags = np.array([solve(make(rng)).flags[0] for _ in range(60)])
        assert np.all(flags & NOT_CONVERGED) and np.mean((flags & bit) > 0) >= 0.95
        assert not np.any(flags & (INFEASIBLE | UNBOUNDED) & ~bit)
    assert solve_cone_qp(np.zeros((1, 1)), [1.0]).flags[0] == UNBOUNDED | NOT_CONVERGED
    assert solve_cone_qp(np.eye(1), [0.0], [[0.0]], [1.0]).flags[0] == INFEASIBLE | NOT_CONVERGED


@pytest.mark.parametrize(
    "H, g, A, q, cones, x",
    [
        (np.eye(2), [1.0, -2.0], None, None, (), [-1.0, 2.0]),
        (np.diag([1.0, 0.0]), [-1.0, 0.0], None, None, (), [1.0, 0.0]),
        (np.zeros((2, 2)), [1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], [3.0, -4.0], (), [3.0, -4.0]),
        (np.eye(2), [0.0, 0.0], [[1.0, 1.0], [-1.0, -1.0]], [2.0, -2.0], (), [1.0, 1.0]),
        (np.eye(2), [0.0, -1.0], [[0.0, 0.0]], [-1.0], (), [0.0, 1.0]),
        (np.eye(2), [1.0, -1.0], None, None, [("halfline", 2)], [0.0, 1.0]),
        (np.eye(3), [5.0, 0.0, -1.0], None, None, [("friction", 0.0)], [0.0, 0.0, 1.0]),
        (np.eye(3), [-3.0, -4.0, 0.0], None, None, [("friction", 1.0)], [1.5, 2.0, 2.5]),
        (np.eye(2), [-4.0, 0.0], None, None, [("friction2d", 1.0)], [2.0, 2.0]),
        (np.eye(2), [-4.0, 0.0], None, None, [("friction2d", 1e2)], [4.0 / 1.0001, 0.04 / 1.0001]),
        (np.eye(3), [3.0, 0.0, 4.0], None, None, [("friction", 0.5)], [0.0, 0.0, 0.0]),
        (np.eye(3), np.zeros(3), None, None, [("friction", 1.0)], np.zeros(3)),
        (np.zeros((0, 0)), [], None, None, (), []),
    ],
)
def test_corner_cases(H, g, A, q, cones, x):
    """No cones, no rows, no cost, equalities as two rows, zero rows, μ = 0 and large, apex, nothing at all."""
    solution = solve_cone_qp(H, g, A, q, cones)
    assert solution.flags[0] == 0
    np.testing.assert_allclose(solution.x[0], x, atol=1e-8)


def batch(problems):
    """Arrays of `solve_worlds` for all of them, padded."""
    blocks = [p.blocks() for p in problems]
    worlds, n, m = len(problems), max(len(p.g) for p in problems), max(len(p.q) for p in problems)
    cones = max(len(b) for b in blocks)
    out = {"H": np.zeros((worlds, n, n)), "g": np.zeros((worlds, n)), "A": np.zeros((worlds, m, n))}
    out |= {"q": np.zeros((worlds, m)), "mu": np.zeros((worlds, cones))}
    out |= {name: np.zeros((worlds, cones), dtype=np.int32) for name in ("start", "size")}
    out |= {name: np.zeros(worlds, dtype=np.int32) for name in ("variables", "rows", "cones")}
    for w, (p, b) in enumerate(zip(problems, blocks, strict=True)):
        i, k = len(p.g), len(p.q)
        out["H"][w, :i, :i], out["g"][w, :i], out["A"][w, :k, :i], out["q"][w, :k] = p.H, p.g, p.A, p.q
        out["variables"][w], out["rows"][w], out["cones"][w] = i, k, len(b)
        for c, (block, mu) in enumerate(b):
            out["start"][w, c], out["size"][w, c], out["mu"][w, c] = block[0], len(block), mu
    return out


def launch(data):
    return solve_worlds(data, 1e-9, 50)


def test_bits_do_not_depend_on_the_batch():
    """A world alone, in a batch of other sizes and layouts, and in another place: the same bits."""
    rng = np.random.default_rng(5)
    problems = [random_cone_qp(rng) for _ in range(16)]
    together, backwards = launch(batch(problems)), launch(batch(problems[::-1]))
    for w, p in enumerate(problems):
        alone = launch(batch([p]))
        for name, value in alone.items():
            for other in (together[name][w], backwards[name][15 - w]):
                np.testing.assert_array_equal(np.atleast_1d(other)[: value[0].size], np.atleast_1d(value[0]))


def test_a_broken_world_is_flagged_and_isolated():
    """A NaN or a negative friction coefficient: x = 0 and a flag there, the others' bits as they were."""
    rng = np.random.default_rng(6)
    data = batch([random_cone_qp(rng) for _ in range(4)])
    data["size"][2, 0], data["cones"][2] = 2, max(data["cones"][2], 1)
    healthy = launch(data)
    data["H"][1, 0, 0], data["mu"][2, 0] = np.nan, -1.0
    broken = launch(data)
    np.testing.assert_array_equal(broken["flags"][1:3], NONFINITE)
    assert not broken["x"][1:3].any()
    for w in (0, 3):
        np.testing.assert_array_equal(broken["x"][w], healthy["x"][w])


def test_warp_arrays_come_back_as_warp_arrays():
    """wp.array in, wp.array out, with the same numbers as NumPy."""
    p = random_cone_qp(np.random.default_rng(7))
    expected = solve(p)
    arrays = [wp.array(x, dtype=wp.float64, device="cpu") for x in (p.H, p.g, p.A, p.q)]
    solution = solve_cone_qp(*arrays, p.cones)
    for field in FIELDS:
        assert isinstance(getattr(solution, field), wp.array)
        np.testing.assert_array_equal(getattr(solution, field).numpy(), getattr(expected, field))


def test_a_captured_graph_is_refused():
    """The programs are solved on the host: within a capture the call says so and computes nothing."""
    with wp.ScopedCapture(device="cpu"), pytest.raises(ValueError, match=r"solve_cone_qp: .* a graph cannot capture"):
        solve_cone_qp(wp.array(np.eye(2), dtype=wp.float64, device="cpu"), [1.0, 1.0])


def test_worlds_of_different_size():
    """`variables`, `rows`: the first of each world count, a friction coefficient per world, what is left out comes back 0."""
    H, g, A, q = np.eye(4), [0.0, -3.0, -3.0, -1.0], [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]], [1.0, 2.0]
    cones = [("free", 1), ("friction", [1.0, 0.5])]
    stacked = [np.broadcast_to(x, (2, *np.shape(x))) for x in (H, g, A, q)]
    solution = solve_cone_qp(*stacked, cones, variables=[4, 1], rows=[2, 1])
    np.testing.assert_allclose(solution.x[1], [1.0, 0.0, 0.0, 0.0], atol=1e-9)
    r = 0.5 * (np.hypot(3.0, 3.0) + 1.0)
    np.testing.assert_allclose(solution.x[0], [2.0, r / np.sqrt(2.0), r / np.sqrt(2.0), r], atol=1e-8)
    with pytest.raises(ValueError, match=r"variables\[0\] is 3, inside the cone at 1"):
        solve_cone_qp(*stacked, cones, variables=[3, 1])


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(H=np.eye(4)[:3]), r"H has shape \(3, 4\)"),
        (dict(H=-np.eye(4)), r"H\[0\] is not positive semidefinite"),
        (dict(H=np.triu(np.ones((4, 4)))), r"H\[0\] is not symmetric"),
        (dict(g=[0.0, np.inf, 0.0, 0.0]), r"g\[0, 1\] is inf"),
        (dict(A=np.ones((2, 3))), r"A has shape \(1, 2, 3\)"),
        (dict(q=None), "one of A and q is missing"),
        (dict(cones=[("friction", 0.5)]), "cones describe 3 variables, but H has 4"),
        (dict(cones=[("friction", -0.5), ("free", 1)]), r"cones\[0\] is \('friction', -0.5\); give a friction"),
        (dict(cones=[("ice", 1)]), r"cones\[0\] is of kind 'ice'"),
        (dict(cones=[("halfline", 1.5)]), r"cones\[0\] is \('halfline', 1.5\); give a whole number"),
        (dict(tolerance=2.0), "tolerance is 2.0"),
        (dict(dtype="int"), "dtype is 'int'"),
        (dict(max_iterations=0), "max_iterations is 0"),
    ],
)
def test_bad_problems_are_named(change, words):
    """Each mistake raises a ValueError that names the array."""
    good = dict(H=np.eye(4), g=np.ones(4), A=np.ones((2, 4)), q=np.zeros(2), cones=[("free", 1), ("friction", 0.5)])
    with pytest.raises(ValueError, match=words):
        solve_cone_qp(**{**good, **change})
