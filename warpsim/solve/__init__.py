# SPDX-License-Identifier: Apache-2.0
"""Contact solvers: options, workspaces and launches, and the solvers as functions for problems given as arrays."""

from warpsim.solve.cone_qp.cone_qp import ConeQPSolution, solve_cone_qp
from warpsim.solve.lcp.lcp import LCPSolution, LCPSolver, solve_lcp
from warpsim.solve.problem import ContactProblem, ContactSolution, solve_contact
from warpsim.solve.sap.sap import SAP, SAPSolver

__all__ = [
    "SAP",
    "ConeQPSolution",
    "ContactProblem",
    "ContactSolution",
    "LCPSolution",
    "LCPSolver",
    "SAPSolver",
    "solve_cone_qp",
    "solve_contact",
    "solve_lcp",
]
