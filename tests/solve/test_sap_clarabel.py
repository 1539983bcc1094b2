# SPDX-License-Identifier: Apache-2.0
"""SAP against Clarabel's solution of the same convex problem, over the range of problems that a simulation meets.

Errors are in the norm of A, relative to the larger one of v and v*: velocities that carry no momentum (A ill-conditioned) are
not determined any better by either solver. `benchmarks/certificate.py` runs the same comparison over 1,000 problems.
"""

import dataclasses

import numpy as np
import pytest

from scenes.contact_problems import Problem, interior_point
from scenes.problem_samples import SIZES, hard_problems
from warpsim.solve import SAP, ContactProblem, solve_contact

WORLDS = 20  # problems per size
TOLERANCE = 1e-11
ERROR = 1e-5


@dataclasses.dataclass
class Batch:
    """Problems of one size as worlds, and Clarabel's velocities."""

    data: dict
    problems: list
    peers: list


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    rng = np.random.default_rng(7)
    out = []
    for nv, contacts in SIZES:
        data = hard_problems(rng, WORLDS, nv, contacts)
        problems = [Problem.of_world(data, w) for w in range(WORLDS)]
        out.append(Batch(data, problems, [interior_point(p).v for p in problems]))
    return out


@pytest.mark.parametrize("line_search", ["exact", "backtracking"])
@pytest.mark.parametrize("guess", [None, 1e6])
def test_hard_problems_against_interior_point(batches, guess, line_search, within):
    """Condition numbers of A to 1e10, μ to 2, soft to near-rigid, redundant contacts, padding; guesses of norm 1e6: none
    fails, v is Clarabel's, and what is left between the two is Clarabel's error.

    ℓ is strongly convex with modulus 1 in the norm of A: v is within ‖∇ℓ(v)‖ (norm of A⁻¹) of the optimum.
    """
    rng = np.random.default_rng(8)
    apart, ours, error, failed = 0.0, 0.0, 0.0, 0
    for batch in batches:
        data = dict(batch.data)
        if guess is not None:
            v0 = rng.normal(size=data["v0"].shape)
            data["v0"] = guess * v0 / np.linalg.norm(v0, axis=1, keepdims=True)
        solution = solve_contact(ContactProblem(**data), SAP(tolerance=TOLERANCE, line_search=line_search))
        failed += int((solution.flags != 0).sum())
        for p, peer, v, gamma in zip(batch.problems, batch.peers, solution.v, solution.impulse, strict=True):
            apart = max(apart, p.norm(v - peer) / p.size(v))
            ours = max(ours, p.distance_bound(v))
            error = max(error, p.momentum_error(v, p.generalised(gamma[: len(p.mu)])))
            np.testing.assert_array_equal(gamma[len(p.mu) :], 0.0)
    label = f"{line_search}, guess {guess}"
    assert failed == 0
    within(f"{label}: v against Clarabel", apart, ERROR)
    within(f"{label}: bound on our own error", ours, ERROR / 10)
    within(f"{label}: recomputed e_m", error, 1.05 * TOLERANCE)


def test_default_tolerance_against_interior_point(batches, within):
    """At the default tolerance momenta Av, in the scaled norm of the stopping rule, are Clarabel's; none fails."""
    worst = 0.0
    for batch in batches:
        solution = solve_contact(ContactProblem(**batch.data))
        assert not solution.flags.any()
        for p, peer, v in zip(batch.problems, batch.peers, solution.v, strict=True):
            worst = max(worst, p.scaled_norm(p.A @ (v - peer)) / p.scaled_norm(p.A @ p.v_star))
    within("default tolerance: Av against Clarabel", worst, ERROR)


def test_both_line_searches_find_the_same(batches, within):
    """The optimum is unique: backtracking and the exact search agree to the tolerance."""
    worst = 0.0
    for batch in batches:
        exact, backtracking = (
            solve_contact(ContactProblem(**batch.data), SAP(tolerance=TOLERANCE, line_search=name)).v
            for name in ("exact", "backtracking")
        )
        for p, a, b in zip(batch.problems, exact, backtracking, strict=True):
            worst = max(worst, p.norm(a - b) / p.size(a))
    within("backtracking against exact", worst, 1e-6)


def test_impulses_satisfy_the_contact_law_exactly(batches, within):
    """Complementarity slackness e_μ (Castro et al., eq. 33) is round-off at any tolerance: γ is always P(y) of the v given."""
    worst = 0.0
    for batch in batches:
        solution = solve_contact(ContactProblem(**batch.data), SAP(tolerance=1e-3))
        for p, v, gamma in zip(batch.problems, solution.v, solution.impulse, strict=True):
            if len(p.mu):
                worst = max(worst, p.slackness_error(v, gamma[: len(p.mu)]))
    within("slackness error at a tolerance of 1e-3", worst, 1e-12)


@pytest.mark.parametrize("line_search", ["exact", "backtracking"])
def test_the_cost_falls_in_every_iteration(batches, line_search):
    """ℓ never rises from one Newton iterate to the next, from guesses of norm 1e3, and reaches Clarabel's."""
    data = {name: x[:8] for name, x in batches[3].data.items()}
    data["v0"] = data["v0"] * 1e3
    problems = batches[3].problems[:8]
    costs = [[p.cost(v) for p, v in zip(problems, data["v0"], strict=True)]]
    for most in range(1, 25):
        options = SAP(tolerance=TOLERANCE, max_iterations=most, line_search=line_search)
        v = solve_contact(ContactProblem(**data), options).v
        costs.append([p.cost(x) for p, x in zip(problems, v, strict=True)])
    rise = np.diff(costs, axis=0) / np.array(costs[:-1])
    assert rise.max() < 1e-11  # rounding of ℓ
    peers = [p.cost(x) for p, x in zip(problems, batches[3].peers[:8], strict=True)]
    np.testing.assert_allclose(costs[-1], peers, rtol=1e-8)
