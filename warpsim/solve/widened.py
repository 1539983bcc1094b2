# SPDX-License-Identifier: Apache-2.0
"""A float64 contact solver for a float32 problem: widens its inputs before every launch and rounds its solution."""

import warp as wp

from warpsim.solve.contact_solver import ContactSolver
from warpsim.tree.wide import narrow, widen


class WidenedSolver(ContactSolver):
    """`inner` is the float64 solver of the same sizes."""

    COPIED = ("A", "v_star", "v0", "J", "R", "v_hat", "mu", "row_J", "row_R", "row_v_hat", "row_lower", "row_upper")
    SHARED = ("contacts", "contact_pair", "support", "support_size")

    def __init__(self, inner: ContactSolver, *size, **keywords):
        super().__init__(*size, **keywords)
        self.inner = inner
        self.solution.iterations, self.solution.status = self.inner.solution.iterations, self.inner.solution.status
        self.copied, self.replaced = self.COPIED, ()

    def attach_wide(self, A: wp.array, v_star: wp.array, v0: wp.array) -> None:
        """Attach float64 arrays that replace those of the problem."""
        problem = self.inner.problem
        problem.A, problem.v_star, problem.v0 = A, v_star, v0
        self.replaced = ("A", "v_star", "v0")

    def complete(self) -> None:
        """Allocate the arrays to copy to."""
        problem = self.inner.problem
        self.copied = tuple(name for name in self.copied if name not in self.replaced)
        for name in self.SHARED:
            setattr(problem, name, getattr(self.problem, name))
        for name in self.copied:
            array = getattr(self.problem, name)
            kind = self.inner.scalar if array.dtype == self.scalar else self.inner.vec3
            setattr(problem, name, self.zeros(array.shape, kind))

    def launch(self):
        """Solve every world, off the tape."""
        for name in self.copied:
            widen(getattr(self.problem, name), getattr(self.inner.problem, name), self.scalar)
        solution = self.inner.launch()
        for name in ("v", "gamma", "row_gamma", "momentum_error"):
            narrow(getattr(solution, name), getattr(self.solution, name), self.scalar)
        return self.solution
