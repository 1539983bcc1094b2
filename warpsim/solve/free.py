# SPDX-License-Identifier: Apache-2.0
"""The solver of a scene without possible contacts or rows: v = v*."""

from warpsim.solve.contact_solver import ContactSolver


class FreeSolver(ContactSolver):
    """The solution's v is the array v* itself."""

    def complete(self) -> None:
        self.solution.v = self.problem.v_star

    def launch(self):
        return self.solution
