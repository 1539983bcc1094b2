"""Contact solvers: options, workspaces and launches, and `solve_contact` for problems given as arrays."""

from warpsim.solvers.problem import ContactProblem, ContactSolution, solve_contact
from warpsim.solvers.sap import SAP, SAPSolver

__all__ = ["SAP", "ContactProblem", "ContactSolution", "SAPSolver", "solve_contact"]
