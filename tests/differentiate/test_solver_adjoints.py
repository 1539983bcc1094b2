# SPDX-License-Identifier: Apache-2.0
"""Gradients of boxed LCPs and cone QPs at their solutions, against central differences of the solvers."""

import numpy as np
import pytest

from scenes.cone_samples import random_cone_qp
from scenes.lcp_samples import random_lcp
from warpsim.differentiate.cone_qp_adjoint import cone_qp_adjoint
from warpsim.differentiate.lcp_solution import lcp_adjoint
from warpsim.solve import solve_cone_qp, solve_lcp
from warpsim.solve.lcp.lcp import CLAMPING, TIED

STEP = 1e-6


def lcp(A, b, hi, findex):
    """x and classes of one problem, solved to rounding."""
    solution = solve_lcp(A, b, hi, findex, tolerance=1e-13)
    return solution.x[0], solution.classes[0]


def check_lcp(A, b, hi, findex, directions, x_bar):
    """d(x_barᵀx) along (dA, db, dhi): the adjoint against a central difference with the same classes on both sides."""
    x, classes = lcp(A, b, hi, findex)
    A_bar, b_bar, hi_bar = lcp_adjoint(A, b, hi, findex, x, classes, x_bar)
    finite = np.isfinite(hi)
    for dA, db, dhi in directions:
        ends = []
        for sign in (1.0, -1.0):
            moved = np.where(finite, hi + sign * STEP * dhi, hi)
            x_end, same = lcp(A + sign * STEP * dA, b + sign * STEP * db, moved, findex)
            np.testing.assert_array_equal(same, classes)
            ends.append(x_bar @ x_end)
        difference = (ends[0] - ends[1]) / (2.0 * STEP)
        adjoint = np.sum(A_bar * dA) + b_bar @ db + hi_bar[finite] @ dhi[finite]
        assert adjoint == pytest.approx(difference, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_definite_lcp(seed):
    """Clamped, separating and sliding rows, a normal row at its upper bound, every A, b, hi: where x is unique."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 12))
    A, b = X @ X.T, 3.0 * rng.normal(size=9) + np.tile([0.0, 0.0, 2.0], 3)
    hi, findex = np.tile([0.4, 0.4, np.inf], 3), np.array([2, 2, -1, 5, 5, -1, 8, 8, -1])
    hi[8] = 0.05
    directions = []
    for _ in range(4):
        dA = rng.normal(size=(9, 9))
        directions.append((dA + dA.T, rng.normal(size=9), rng.normal(size=9)))
    check_lcp(A, b, hi, findex, directions, rng.normal(size=9))


def test_rank_deficient_lcp():
    """A box on four corners: W = J M⁻¹Jᵀ has rank 6 of 12, J and M⁻¹ change, W stays of that rank; f is of least norm."""
    rng = np.random.default_rng(3)
    corners = np.array([(1.0, 1.0, -0.2), (1.0, -1.0, -0.2), (-1.0, 1.0, -0.2), (-1.0, -1.0, -0.2)])

    def jacobian(points):
        cross = [np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) for x, y, z in points]
        return np.concatenate([np.concatenate([np.eye(3), -c], axis=1) for c in cross])

    inverse, v = np.diag([1.0, 1.0, 1.0, 2.0, 2.5, 3.0]), np.array([0.02, -0.01, -1.0, 0.05, 0.02, 0.1])
    findex, hi = np.repeat([2, 5, 8, 11], 3), np.full(12, 0.7)
    findex[2::3], hi[2::3] = -1, np.inf
    J = jacobian(corners)
    W, b = J @ inverse @ J.T, -J @ v
    _, classes = lcp(W, b, hi, findex)
    assert np.linalg.matrix_rank(W) == 6 and np.sum(classes == CLAMPING) > 6
    directions = []
    for _ in range(4):
        dp, dm, dv = rng.normal(size=corners.shape), rng.normal(size=6), rng.normal(size=6)

        def data(s, dp=dp, dm=dm, dv=dv):
            J = jacobian(corners + s * dp)
            return J @ (inverse + s * np.diag(dm)) @ J.T, -J @ (v + s * dv)

        # Along the curve itself: a straight line in W would leave rank 6.
        x_bar = rng.normal(size=12)
        x, classes = lcp(W, b, hi, findex)
        A_bar, b_bar, _ = lcp_adjoint(W, b, hi, findex, x, classes, x_bar)
        (A1, b1), (A0, b0) = data(STEP), data(-STEP)
        difference = x_bar @ (lcp(A1, b1, hi, findex)[0] - lcp(A0, b0, hi, findex)[0]) / (2.0 * STEP)
        adjoint = (np.sum(A_bar * (A1 - A0)) + b_bar @ (b1 - b0)) / (2.0 * STEP)
        assert adjoint == pytest.approx(difference, rel=1e-5, abs=1e-6)
        directions.append(adjoint)
    assert np.ptp(directions) > 0.1


def test_lcp_of_random_contacts():
    """dx/db of random multi-contact problems, where b moves in the range of W and no row is tied."""
    rng, checked = np.random.default_rng(5), 0
    while checked < 8:
        p = random_lcp(rng)
        if np.abs(p.b).max() > 10.0 or p.kind == "coincident":
            continue
        x, classes = lcp(p.A, p.b, p.hi, p.findex)
        # A least-norm solution, away from every border.
        again = solve_lcp(p.A, p.b, p.hi, p.findex, classes=classes, tolerance=1e-13)
        if np.any(np.abs(classes) == TIED) or not again.warm_start_hits[0]:
            continue
        db, x_bar = 1e-2 * p.A @ rng.normal(size=len(p.b)), p.A @ rng.normal(size=len(p.b))
        ends = [lcp(p.A, p.b + s * STEP * db, p.hi, p.findex) for s in (1.0, -1.0)]
        if any(not np.array_equal(c, classes) for _, c in ends):
            continue
        difference = x_bar @ (ends[0][0] - ends[1][0]) / (2.0 * STEP)
        b_bar = lcp_adjoint(p.A, p.b, p.hi, p.findex, x, classes, x_bar)[1]
        assert b_bar @ db == pytest.approx(difference, rel=1e-4, abs=1e-4 * np.abs(x_bar).max())
        checked += 1


def qp(H, g, A, q, cones):
    return solve_cone_qp(H, g, A, q, cones, tolerance=1e-13, max_iterations=60)


def move(cones, dmu, step):
    """The friction cones with other coefficients."""
    return [
        (kind, mu + step * d) if kind.startswith("friction") else (kind, mu)
        for (kind, mu), d in zip(cones, dmu, strict=True)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_cone_qp(seed):
    """H, g, A, q and μ of random problems with a definite H and strict complementarity: every cone and bound state."""
    rng = np.random.default_rng(seed)
    while True:
        p = random_cone_qp(rng)
        p = p if p.twin is None else p.twin
        eigenvalues = np.linalg.eigvalsh(p.H)
        mus = [mu for kind, mu in p.cones if kind.startswith("friction")]
        usual = all(0.05 < mu < 20.0 for mu in mus)
        # Rows that are there twice must move together; here each moves by itself.
        doubled = len(p.A) and np.linalg.matrix_rank(p.A) < min(p.A.shape)
        if usual and not (p.degenerate or doubled) and len(mus) > 2 and eigenvalues[0] > 1e-2 * eigenvalues[-1]:
            break
    n, m = len(p.g), len(p.q)
    solution = qp(p.H, p.g, p.A, p.q, p.cones)
    x_bar = rng.normal(size=n)
    adjoints = cone_qp_adjoint(p.H, p.g, p.A, p.q, p.cones, solution.x[0], solution.duals[0], x_bar)
    for part in range(5):
        d = [np.zeros((n, n)), np.zeros(n), np.zeros((m, n)), np.zeros(m), np.zeros(len(p.cones))]
        d[part] = rng.normal(size=d[part].shape)
        d[0] = d[0] + d[0].T

        def end(s, d=d):
            moved = qp(p.H + s * d[0], p.g + s * d[1], p.A + s * d[2], p.q + s * d[3], move(p.cones, d[4], s))
            return x_bar @ moved.x[0]

        # The gap that is left is of second order: solutions are as near as its root, 1e-8, which small steps feel.
        differences = np.array([(end(s) - end(-s)) / (2.0 * s) for s in (1e-3, 1e-4, 1e-5, STEP)])
        friction = np.array([kind.startswith("friction") for kind, _ in p.cones])
        adjoint = (
            sum(np.sum(a * b) for a, b in zip(adjoints[:4], d[:4], strict=True))
            + adjoints[4][friction] @ d[4][friction]
        )
        difference = differences[np.argmin(np.abs(differences - adjoint))]
        assert adjoint == pytest.approx(difference, rel=2e-5, abs=2e-5 * (1.0 + np.abs(solution.x).max()))


def test_cone_qp_with_redundant_rows_and_no_friction():
    """A row that is there twice, and friction that begins: dx/dμ at μ = 0 is the derivative to the right."""
    rng = np.random.default_rng(0)
    H, g = (
        np.array([[2.0, 0.3, 0.5, 0.2], [0.3, 2.0, 0.1, 0.0], [0.5, 0.1, 2.0, 0.4], [0.2, 0.0, 0.4, 3.0]]),
        np.array([-1.0, 0.5, -2.0, 1.0]),
    )
    A, q, cones = np.array([[0.0, 0.0, 0.2, 1.0]] * 2), np.array([0.5, 0.5]), [("friction", 0.0), ("free", 1)]
    solution, x_bar = qp(H, g, A, q, cones), rng.normal(size=4)
    _, g_bar, _, q_bar, mu_bar = cone_qp_adjoint(H, g, A, q, cones, solution.x[0], solution.duals[0], x_bar)
    dg = rng.normal(size=4)
    ends = [x_bar @ qp(H, g + s * dg, A, q + s, cones).x[0] for s in (STEP, -STEP)]
    assert g_bar @ dg + q_bar.sum() == pytest.approx((ends[0] - ends[1]) / (2.0 * STEP), rel=1e-5)
    begun = x_bar @ (qp(H, g, A, q, [("friction", 1e-5), ("free", 1)]).x[0] - solution.x[0]) / 1e-5
    assert mu_bar[0] == pytest.approx(begun, rel=1e-4)
