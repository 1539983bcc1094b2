"""The dual of a contact problem on the device: workspace and launches of `kernels/delassus.py`."""

import warp as wp

from warpsim.kernels import delassus


class Delassus:
    """W = J A⁻¹ Jᵀ and u* = J v* of every world, over the rows that are active; `dual` (struct) holds them."""

    def __init__(self, worlds: int, nv: int, max_contacts: int, rows: int, scalar, device, launch):
        self.worlds, self.size, self._launch = worlds, 3 * max_contacts + rows, launch
        self.kernels = delassus.build(scalar)
        self.dual = self.kernels.Dual()
        self.dual.count = wp.zeros(worlds, dtype=int, device=device)
        self.dual.source = wp.zeros((worlds, self.size), dtype=int, device=device)
        self.dual.Y = wp.zeros((worlds, self.size, nv), dtype=scalar, device=device)
        self.dual.W = wp.zeros((worlds, self.size, self.size), dtype=scalar, device=device)
        self.dual.u_star = wp.zeros((worlds, self.size), dtype=scalar, device=device)

    def form(self, problem, A_factor: wp.array) -> None:
        """List the active rows of `problem` and fill W and u*; A_factor: the LᵀDL factors of A's tree blocks."""
        self._launch(self.kernels.list_rows, self.worlds, [problem, self.dual])
        self._launch(self.kernels.solve_rows, (self.worlds, self.size), [problem, A_factor, self.dual])
        self._launch(self.kernels.multiply_rows, (self.worlds, self.size), [problem, self.dual])

    def recover(self, problem, impulse: wp.array, solution) -> None:
        """v = v* + A⁻¹Jᵀγ and the impulses of contacts and rows, from the listed ones `(worlds, size)`."""
        self._launch(self.kernels.apply, self.worlds, [problem, self.dual, impulse, solution.v])
        inputs = [problem, self.dual, impulse, solution.gamma, solution.row_gamma]
        self._launch(self.kernels.scatter, self.worlds, inputs)
