# SPDX-License-Identifier: Apache-2.0
"""Boxed LCPs: recorded and random contact problems, classes, warm start, degenerate input, clear errors."""

import pathlib

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
import warp as wp

from scenes.lcp_samples import BoxedLCP, bounds, natural_residual, random_lcp, stack_problems
from warpsim.kernels.flags import NONFINITE, NOT_CONVERGED
from warpsim.solve import LCPSolver, solve_lcp
from warpsim.solve.lcp.lcp import CLAMPING, IMPULSES, SEPARATING, TIED, UPPER

DATA = pathlib.Path(__file__).parents[1] / "reference" / "data" / "boxed_lcps.npz"
FIELDS = ("x", "residual", "classes", "factorizations", "warm_start_hits", "flags")
INF = np.inf


def recorded():
    """The 206 problems of a walking half-cheetah, and what another engine answered."""
    with np.load(DATA) as data:
        names = sorted({key.rsplit("/", 1)[0] for key in data})
        problems = [BoxedLCP(*(data[f"{k}/{f}"] for f in ("A", "b", "hi", "findex")), "recorded") for k in names]
        return problems, [data[f"{k}/x_peer"] for k in names]


def solve(*arguments, **keywords):
    """`solve_lcp` of one world, without the leading axis."""
    solution = solve_lcp(*arguments, **keywords)
    return {field: getattr(solution, field)[0] for field in FIELDS}


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-12), ("float32", 1e-5)])
def test_recorded_problems_keep_their_friction(dtype, limit, within):
    """All are solved (the bar is 1e-7), and every one has friction; the peer's answers solve none of them."""
    problems, peers = recorded()
    solution = solve_lcp(**stack_problems(problems), dtype=dtype)
    assert len(problems) == 206 and not solution.flags.any()
    worst = 0.0
    for p, x, peer in zip(problems, solution.x.astype(float), peers, strict=True):
        x = x[: len(p.b)]
        lower, upper = bounds(p, x)
        w = p.A @ x - p.b
        worst = max(worst, np.abs(x - np.clip(x - w, lower, upper)).max())
        assert np.abs(x[p.findex >= 0]).max() > 1e-6
        assert natural_residual(p, peer) > 1e-3
    within(f"206 recorded boxed LCPs, {dtype}: residual", worst, limit)


def test_random_contact_problems(within):
    """800 problems of up to 48 rows, most of them singular: all solved, by a residual computed a second time."""
    rng = np.random.default_rng(0)
    problems = [random_lcp(rng) for _ in range(800)]
    solution = solve_lcp(**stack_problems(problems))
    assert not solution.flags.any()
    residuals = [natural_residual(p, x[: len(p.b)]) for p, x in zip(problems, solution.x, strict=True)]
    within("800 random boxed LCPs: residual", max(residuals), 1e-9)
    np.testing.assert_allclose(residuals, solution.residual, atol=1e-10)


def test_float32_solves_or_says_so():
    """In float32, at least 99 % reach 1e-4; what does not is flagged, and what is not flagged is right."""
    rng = np.random.default_rng(1)
    problems = [random_lcp(rng) for _ in range(300)]
    solution = solve_lcp(**stack_problems(problems), dtype="float32")
    assert np.mean(solution.flags == 0) >= 0.99
    for p, x, flag in zip(problems, solution.x.astype(float), solution.flags, strict=True):
        # Data and solution are rounded to float32, an error of up to |A||x| epsilons.
        d = 1.0 / np.sqrt(np.maximum(np.diag(p.A), 1e-30))
        rounding = 1e-5 * np.abs(x[: len(p.b)] / d).max() / np.abs(d * p.b).max()
        assert flag != 0 or natural_residual(p, x[: len(p.b)]) <= 1e-4 + rounding


def test_frictionless_agrees_with_interior_point():
    """Without friction the LCP is min ½xᵀAx − bᵀx, x ≥ 0; with A definite x is unique: Clarabel's."""
    rng = np.random.default_rng(2)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    for _ in range(20):
        n = int(rng.integers(2, 20))
        X = rng.normal(size=(n, n + 2))
        A, b = X @ X.T, rng.normal(size=n)
        cones = [clarabel.NonnegativeConeT(n)]
        peer = clarabel.DefaultSolver(sp.csc_matrix(A), -b, sp.csc_matrix(-np.eye(n)), np.zeros(n), cones, settings)
        x = solve(A, b, np.full(n, INF), np.full(n, -1))["x"]
        np.testing.assert_allclose(x, peer.solve().x, atol=1e-7 * max(1.0, np.abs(x).max()))


def test_classes():
    """Clamping, separating, both bounds, tied: what each row of a decoupled problem is."""
    A, findex = np.eye(7), [-1, 0, 0, 0, -1, -1, -1]
    b, hi = [2.0, 0.3, 9.0, -9.0, -1.0, 0.0, 5.0], [INF, 0.5, 0.5, 0.5, INF, INF, 1.0]
    out = solve(A, b, hi, findex)
    np.testing.assert_allclose(out["x"], [2.0, 0.3, 1.0, -1.0, 0.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_array_equal(out["classes"], [CLAMPING, CLAMPING, UPPER, -UPPER, SEPARATING, -TIED, UPPER])
    assert solve([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5], [INF, 0.5], [-1, 0])["classes"][1] == TIED


def test_equal_contacts_share_evenly():
    """A contact that is there four times: the least-norm solution gives each a quarter, friction included."""
    J = np.tile(np.eye(3), (4, 1))
    findex = np.concatenate([(3 * c + 2, 3 * c + 2, -1) for c in range(4)])
    out = solve(J @ J.T, np.tile([0.3, 0.0, 1.0], 4), np.tile([0.5, 0.5, INF], 4), findex)
    np.testing.assert_allclose(out["x"], np.tile([0.075, 0.0, 0.25], 4), atol=1e-12)


def test_box_sliding_and_sticking():
    """One contact, unit inverse mass: |γ_t| = min(|v_t|, μ γ_n); μ from 0 to 10⁷."""
    for mu in (0.0, 0.5, 2.0, 1e7):
        x = solve(np.eye(3), [1.0, -3.0, 1.0], [mu, mu, INF], [2, 2, -1])["x"]
        np.testing.assert_allclose(x, [min(1.0, mu), -min(3.0, mu), 1.0], atol=1e-12)


def test_warm_start():
    """The classes of a solution, handed back, solve it at once; wrong ones cost pivots and change nothing that is unique."""
    rng = np.random.default_rng(3)
    problems = [random_lcp(rng) for _ in range(200)]
    arguments = stack_problems(problems)
    first = solve_lcp(**arguments)
    again = solve_lcp(**arguments, classes=first.classes)
    assert not first.warm_start_hits.any() and not again.flags.any()
    assert np.mean(again.warm_start_hits) >= 0.98
    assert np.all(again.factorizations[again.warm_start_hits == 1] == 1)
    wrong = solve_lcp(**arguments, classes=np.where(first.classes == CLAMPING, SEPARATING, CLAMPING))
    assert not wrong.flags.any()


def test_no_friction_dropped_when_unsolvable():
    """w ≥ 0 needs −x_2 ≥ 1: no solution; flagged, with a residual, and x is not silently 0 where it could act."""
    out = solve([[1.0, -1.0], [-1.0, 1.0]], [1.0, 1.0], [INF, INF], [-1, -1])
    assert out["flags"] == NOT_CONVERGED and out["residual"] > 0.1
    out = solve(np.zeros((2, 2)), [1.0, -1.0], [INF, INF], [-1, -1])
    assert out["flags"] == NOT_CONVERGED


@pytest.mark.parametrize(
    "A, b, hi, findex, x",
    [
        (np.zeros((2, 2)), [-1.0, 0.0], [INF, INF], [-1, -1], [0.0, 0.0]),
        (np.zeros((1, 1)), [1.0], [3.0], [-1], [3.0]),
        (np.ones((2, 2)), [1.0, 2.0], [INF, INF], [-1, -1], [0.0, 2.0]),
        (np.ones((2, 2)), [1.0, 1.0], [0.3, 0.2], [-1, -1], [0.3, 0.2]),
        (1e-12 * np.eye(2), [1.0, 0.5], [INF, 1.0], [-1, 0], [1e12, 5e11]),
        (1e12 * np.eye(2), [1.0, 0.5], [INF, 1.0], [-1, 0], [1e-12, 5e-13]),
        (np.eye(2), [0.0, 0.0], [INF, 1.0], [-1, 0], [0.0, 0.0]),
        (np.zeros((0, 0)), [], [], [], []),
    ],
)
def test_corner_cases(A, b, hi, findex, x):
    """Nothing that moves, redundant and tied rows, extreme scales, no rows at all."""
    out = solve(A, b, hi, findex)
    assert out["flags"] == 0
    np.testing.assert_allclose(out["x"], x, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(x).max(initial=0.0)))


def test_bits_do_not_depend_on_the_batch():
    """A world alone, in a batch, in another place and padded with more rows: the same bits."""
    rng = np.random.default_rng(4)
    problems = [random_lcp(rng) for _ in range(24)]
    batch = solve_lcp(**stack_problems(problems))
    backwards = solve_lcp(**stack_problems(problems[::-1]))
    for w, p in enumerate(problems):
        alone = solve_lcp(p.A, p.b, p.hi, p.findex)
        for field in FIELDS:
            values = [np.atleast_1d(getattr(s, field)[i]) for s, i in ((batch, w), (backwards, 23 - w), (alone, 0))]
            for value in values:
                np.testing.assert_array_equal(value[: values[2].size], values[2])


def test_a_broken_world_is_flagged_and_isolated():
    """A NaN, a negative friction coefficient and a bad index on the device: x = 0 and a flag there, nothing elsewhere."""
    rng = np.random.default_rng(5)
    arguments = stack_problems([random_lcp(rng) for _ in range(5)])
    healthy = solve_lcp(**arguments)
    solver = LCPSolver(5, arguments["b"].shape[1])
    arguments["b"][1, 0], arguments["hi"][2, 0], arguments["findex"][3, 0] = np.nan, -1.0, 1000
    for name, value in arguments.items():
        kind = int if name in ("findex", "rows") else wp.float64
        setattr(solver.problem, name, wp.array(value, dtype=kind, device=solver.device))
    solver.problem.classes = wp.zeros_like(solver.problem.findex)
    for _ in range(2):  # a second launch starts from nothing of the first
        out = solver.launch()
        np.testing.assert_array_equal(out.status.numpy(), [0, NONFINITE, NONFINITE, NONFINITE, 0])
        for w in (0, 4):
            np.testing.assert_array_equal(out.x.numpy()[w], healthy.x[w])
        assert not out.x.numpy()[1:4].any()


def test_warp_arrays_come_back_as_warp_arrays():
    """wp.array in, wp.array out, with the same numbers as NumPy."""
    p = random_lcp(np.random.default_rng(6))
    expected = solve_lcp(p.A, p.b, p.hi, p.findex)
    kinds = (wp.float64, wp.float64, wp.float64, int)
    arrays = [wp.array(x, dtype=kind, device="cpu") for x, kind in zip(p[:4], kinds, strict=True)]
    solution = solve_lcp(*arrays)
    for field in FIELDS:
        assert isinstance(getattr(solution, field), wp.array)
        np.testing.assert_array_equal(getattr(solution, field).numpy(), getattr(expected, field))


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(A=np.eye(3)[:2]), r"A has shape \(2, 3\)"),
        (dict(A=-np.eye(3)), r"A\[0\] is not positive semidefinite \(lowest eigenvalue -1\)"),
        (dict(A=np.triu(np.ones((3, 3)))), r"A\[0\] is not symmetric"),
        (dict(b=[0.0, np.nan, 0.0]), r"b\[0, 1\] is nan"),
        (dict(b=[0.0]), r"b has shape \(1, 1\)"),
        (dict(hi=[0.5, -0.5, INF]), r"hi\[0, 1\] is -0.5"),
        (dict(hi=[0.5, INF, INF]), r"hi\[0, 1\] is inf; a friction coefficient is finite"),
        (dict(findex=[2, 3, -1]), r"findex\[0, 1\] is 3"),
        (dict(findex=[1, 2, -1]), r"findex\[0, 0\] is 1.0; give −1, or the number of a used row"),
        (dict(rows=[4]), r"rows\[0\] is 4.0; give whole numbers from 0 to 3"),
        (dict(tolerance=0.0), "tolerance is 0.0"),
        (dict(dtype="float16"), "dtype is 'float16'"),
        (dict(classes=[0, 0]), "classes has shape"),
    ],
)
def test_bad_problems_are_named(change, words):
    """Each mistake raises a ValueError that names the array."""
    good = dict(A=np.eye(3), b=np.ones(3), hi=[0.5, 0.5, INF], findex=[2, 2, -1])
    with pytest.raises(ValueError, match=words):
        solve_lcp(**{**good, **change})


def test_islands_are_solved_apart():
    """Uncoupled problems as one block-diagonal problem, its rows shuffled: every part of the answer solves its part."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        parts = [random_lcp(rng) for _ in range(3)]
        parts = [p._replace(b=p.b / np.abs(p.b).max()) for p in parts]
        n = sum(len(p.b) for p in parts)
        A, findex, first = np.zeros((n, n)), np.full(n, -1), 0
        for p in parts:
            rows = slice(first, first + len(p.b))
            A[rows, rows], findex[rows] = p.A, np.where(p.findex >= 0, p.findex + first, -1)
            first += len(p.b)
        b, hi = (np.concatenate([getattr(p, name) for p in parts]) for name in ("b", "hi"))
        order = rng.permutation(n)
        place = np.argsort(order)
        findex = np.where(findex >= 0, place[findex], -1)
        whole = BoxedLCP(A[np.ix_(order, order)], b[order], hi[order], findex[order], "parts")
        out = solve(*whole[:4])
        assert out["flags"] == 0 and natural_residual(whole, out["x"]) <= 1e-9
        first = 0
        for p in parts:
            assert natural_residual(p, out["x"][place][first : first + len(p.b)]) <= 1e-9
            first += len(p.b)


def test_impulses_nearby_are_a_guess():
    """Impulses that are 1 % off lead to the classes of the solution: at least 80 % at the first factorisation."""
    rng = np.random.default_rng(8)
    arguments = stack_problems([random_lcp(rng) for _ in range(200)])
    first = solve_lcp(**arguments)
    solver = LCPSolver(*arguments["b"].shape)
    for name, value in arguments.items():
        kind = int if name in ("findex", "rows") else wp.float64
        setattr(solver.problem, name, wp.array(value, dtype=kind, device=solver.device))
    x = first.x * rng.uniform(0.99, 1.01, first.x.shape)
    solver.problem.x, solver.options.guess = wp.array(x, dtype=wp.float64, device=solver.device), IMPULSES
    out = solver.launch()
    assert not out.status.numpy().any() and np.mean(out.hit.numpy()) >= 0.8


def test_least_norm_outside_its_bounds():
    """Five contacts in a row, all at rest, one end loaded: the least-norm impulses would pull; others are found, w = 0."""
    arm = np.linspace(-1.0, 1.0, 5)
    J = np.stack([np.ones(5), arm], axis=1)
    A, b = J @ J.T, J @ J.T @ [0.0, 0.0, 0.0, 0.2, 1.0]
    assert (np.linalg.pinv(A) @ b).min() < -0.01
    out = solve(A, b, np.full(5, INF), np.full(5, -1))
    assert out["flags"] == 0 and out["x"].min() >= 0.0
    np.testing.assert_allclose(A @ out["x"], b, atol=1e-9)


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9])
def test_mass_ratio(ratio):
    """A light ball on the floor under a heavy one: the floor carries both weights, to the rounding of A (ratio × eps)."""
    J = np.array([[1.0, 0.0], [-1.0, 1.0]])  # floor and light ball, light and heavy ball; vertical velocities
    mass = np.array([1.0, ratio])
    out = solve(J @ np.diag(1.0 / mass) @ J.T, J @ np.full(2, 9.81), [INF, INF], [-1, -1])
    assert out["flags"] == 0
    np.testing.assert_allclose(out["x"], [9.81 * (1.0 + ratio), 9.81 * ratio], rtol=1e-12 + ratio * np.finfo(float).eps)


def test_worlds_without_a_solution_leave_the_others_alone():
    """An infeasible world, an empty one and healthy ones in one launch: a flag and a residual there, the same bits elsewhere."""
    rng = np.random.default_rng(9)
    problems = [random_lcp(rng) for _ in range(3)]
    squeezed = BoxedLCP(
        np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones(2), np.full(2, INF), np.full(2, -1), "squeezed between two walls"
    )
    mixed = solve_lcp(**stack_problems([problems[0], squeezed, problems[1], squeezed, problems[2]]))
    np.testing.assert_array_equal(mixed.flags, [0, NOT_CONVERGED, 0, NOT_CONVERGED, 0])
    assert mixed.residual[1] > 0.1 and np.all(np.isfinite(mixed.x))
    arguments = stack_problems([*problems, problems[0]])
    arguments["rows"][3] = 0
    healthy = solve_lcp(**arguments)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(mixed, field)[[0, 2, 4]], getattr(healthy, field)[:3])
    assert healthy.flags[3] == 0 and healthy.factorizations[3] == 0 and not healthy.x[3].any()
