# SPDX-License-Identifier: Apache-2.0
"""Compliant contact on problems given as arrays: the dual of SAP's problem has SAP's solution (theory §4)."""

import numpy as np

import warpsim as ws
from scenes.problem_samples import hard_problems, random_problem


def test_same_solution_as_sap(rng, within):
    """Velocities agree to 1e-7 given the same R and v_hat, random problems, by at most 25 factorisations."""
    problem = ws.ContactProblem(**random_problem(rng, 12, 6, 1e3, worlds=40))
    sap, compliant = ws.solve_contact(problem, ws.SAP(tolerance=1e-12)), ws.solve_contact(problem, ws.Compliant())
    assert not compliant.flags.any() and compliant.iterations.max() <= 25
    error = np.abs(sap.v - compliant.v).max(1) / np.abs(sap.v).max(1)
    within("compliant: |v - v of SAP|, 40 random problems", error.max(), 1e-7)


def test_hard_problems(rng, within):
    """Ill-conditioned and redundant problems, 0 to 12 contacts: the momentum balance of the impulses, and the cones."""
    arguments = hard_problems(rng, 60, 8, 12)
    problem = ws.ContactProblem(**arguments)
    found = ws.solve_contact(problem, ws.Compliant())
    assert not found.flags.any() and found.iterations.max() <= 25
    A, J, v_star = problem.A, problem.J, problem.v_star
    used = np.arange(J.shape[1] // 3) < problem.contacts[:, None]
    gamma = found.impulse * used[..., None]
    pushed = np.einsum("wrd,wr->wd", J, gamma.reshape(len(J), -1))
    balance = np.einsum("wde,we->wd", A, found.v - v_star) - pushed
    scale = np.abs(pushed).max(1) + np.abs(np.einsum("wde,we->wd", A, v_star)).max(1)
    within("compliant: momentum balance, hard problems", (np.abs(balance).max(1) / scale).max(), 1e-9)
    slack = problem.mu * gamma[..., 2] - np.hypot(gamma[..., 0], gamma[..., 1])
    within("compliant: outside of the cone, hard problems", -slack.min() / np.abs(gamma).max(), 1e-12)
    assert (found.impulse[~used] == 0).all()
