# SPDX-License-Identifier: Apache-2.0
"""The solver of a scene in which nothing can touch or hold anything: v = v*."""

from warpsim.solve.contact_solver import ContactSolver


class FreeSolver(ContactSolver):
    """Reads v* alone, of which the solution is another name."""

    def complete(self) -> None:
        self.solution.v = self.problem.v_star

    def launch(self):
        return self.solution
