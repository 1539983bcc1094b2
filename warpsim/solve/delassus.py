# SPDX-License-Identifier: Apache-2.0
"""The dual of a contact problem on the device: workspace and launches of `kernels/solve/delassus.py`."""

import numpy as np
import warp as wp

from warpsim.device.copies import copy
from warpsim.kernels.linalg.vector import padded
from warpsim.kernels.solve import delassus
from warpsim.solve.scratch import Scratch


class Delassus:
    """W = J A⁻¹ Jᵀ and u* = J v* of every world over the active rows; `dual` (struct) holds them.

    `solver`: the `ContactSolver` of the problem. Tangents of contacts with μ = 0 are rows only with `all_tangents`.
    With `keep_W=False` W exists only within a solve: call `list_rows` first, then `multiply` per turn, which puts W in
    `Scratch`.
    """

    def __init__(self, solver, all_tangents: bool = True, keep_W: bool = True):
        worlds, nv, scalar, device = solver.worlds, solver.nv, solver.scalar, solver.device
        self.worlds, self.size, self._launch = worlds, 3 * solver.max_contacts + solver.rows, solver.run
        self.all_tangents, self.trees = int(all_tangents), solver.trees
        widest = padded(int(np.diff(solver.tree_v).max(initial=0)))
        self.A_factor = wp.zeros((worlds, nv, widest), dtype=scalar, device=device)
        self.dual = copy(delassus.Dual, solver.code)()
        self.dual.count = wp.zeros(worlds, dtype=int, device=device)
        self.dual.source = wp.zeros((worlds, self.size), dtype=int, device=device)
        self.dual.trees = wp.zeros((worlds, self.size), dtype=wp.vec2i, device=device)
        self.dual.Y = wp.zeros((worlds, self.size, nv), dtype=scalar, device=device)
        W = (worlds, self.size, self.size) if keep_W else (0, 0, 0)
        self.dual.W = wp.zeros(W, dtype=scalar, device=device)
        self.dual.u_star = wp.zeros((worlds, self.size), dtype=scalar, device=device)

    def form(self, problem) -> None:
        """Factor A, list the active rows of `problem` and fill W and u*."""
        self.list_rows(problem)
        self._launch(delassus.multiply_rows, (self.worlds, self.size), [problem, self.dual])

    def list_rows(self, problem) -> None:
        """`form` without W."""
        self._launch(delassus.factor, (self.worlds, self.trees), [problem, self.A_factor])
        self._launch(delassus.list_rows, self.worlds, [problem, self.all_tangents, self.dual])
        self._launch(delassus.solve_rows, (self.worlds, self.size), [problem, self.A_factor, self.dual])

    def multiply(self, problem, scratch: Scratch, turn: int) -> None:
        """W of the worlds of one turn, the first matrix (rows, rows) of each in `scratch`, after `list_rows`."""
        self._launch(delassus.multiply_turn, self.worlds, [problem, self.dual, scratch.data, turn])

    def recover(self, problem, impulse: wp.array, solution) -> None:
        """v = v* + A⁻¹Jᵀγ and the impulses of contacts and rows from the listed impulses `(worlds, size)`."""
        self._launch(delassus.apply, self.worlds, [problem, self.dual, impulse, solution.v])
        inputs = [problem, self.dual, impulse, solution.gamma, solution.row_gamma]
        self._launch(delassus.scatter, self.worlds, inputs)
