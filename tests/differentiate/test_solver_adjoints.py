# SPDX-License-Identifier: Apache-2.0
"""Gradients of cone QPs at their solutions, against central differences of the solver."""

import numpy as np
import pytest

from scenes.cone_samples import random_cone_qp
from warpsim.differentiate.cone_qp_adjoint import cone_qp_adjoint
from warpsim.solve import solve_cone_qp

STEP = 1e-6


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
