# SPDX-License-Identifier: Apache-2.0
"""What every contact solver of a simulator has: the problem that it reads, its solution, and how it launches."""

import functools

import numpy as np
import warp as wp

from warpsim.device.copies import SCALARS, WARP, copy, launch, variant
from warpsim.device.threads import alone
from warpsim.kernels.solve import problem as problems

# Threads per block: a thread solves a whole island or world, and small blocks spread them over a GPU.
BLOCK = 32


class ContactSolver:
    """Problem and solution of one fixed size; nothing is allocated after construction.

    `tree_v (trees + 1,)`: the diagonal blocks of A, by first dof. `row_support (K, Mr)`, padded, with `row_support_size`:
    the dofs of the scalar rows. `problem` (struct) is otherwise filled by the caller with its own arrays, field by field,
    and `solution` (struct) holds the results; see `kernels/solve/problem.py`. `spin`: contacts have spin rows in as many slots more, see
    `kernels/solve/sap/contact_laws.py`; of solvers that know them, as `cg`, by conjugate gradients. A subclass has `launch()`, which solves every
    world off the tape and returns `solution`. `has_upper`: whether a factor that it keeps is UᵀDL, not LᵀDL.
    """

    has_upper = False

    @alone
    def __init__(
        self,
        worlds: int,
        tree_v,
        max_contacts: int,
        row_support=None,
        row_support_size=None,
        *,
        dtype: str = "float32",
        device=None,
        spin: bool = False,
        cg: bool = False,
    ):
        if dtype not in SCALARS:
            raise ValueError(f'{type(self).__name__}: dtype is {dtype!r}; choose "float32" or "float64".')
        self.worlds, self.device, self.dtype = worlds, wp.get_device(device), dtype
        self.tree_v = np.asarray(tree_v, dtype=np.int32)
        self.trees, self.nv = len(self.tree_v) - 1, int(self.tree_v[-1])
        self.max_contacts = 2 * max_contacts if spin else max_contacts
        if row_support is None:
            row_support, row_support_size = np.zeros((0, 1)), np.zeros(0)
        self.row_support = np.asarray(row_support, dtype=np.int32)
        self.row_support_size = np.asarray(row_support_size, dtype=np.int32)
        self.rows = len(self.row_support)
        self.scalar, self.spin = SCALARS[dtype], spin
        self.code, self.cg = variant(self.scalar, spin, cg), cg  # the copy of the device code
        self.lanes = WARP  # threads of a warp that do the work of an island
        self.vec3 = wp.types.vector(3, self.scalar)
        self.problem, self.solution = self._problem(), self._solution()

    certified_later = False  # whether the end of the step certifies the solution, see `warpsim/integrate/fusion.py`
    has_factor = True  # whether Jacobians of a step find a factor of the problem's matrix, or need none

    def state_memory(self) -> dict:
        """The arrays that a step hands to the next, by name."""
        return {}

    def prepare(self, collision, restitution, h: float) -> None:
        """Take what the launches read besides the problem: contacts, restitution of the geoms, step."""

    def start_at(self, v: wp.array) -> None:
        """Start at v `(worlds, nv)`, which is near the solution."""
        self.problem.v0 = v

    def attach_wide(self, A: wp.array, v_star: wp.array, v0: wp.array) -> None:
        """Float64 arrays whose rounded values the problem holds: of deep trees, for who can use them."""

    def idle(self) -> list[wp.array]:
        """Arrays (worlds, …) that may hold anything when a launch begins, and whose contents nobody needs between steps."""
        return []

    def share(self, other: "ContactSolver") -> None:
        """Work in the memory of another solver of this size, which works at other times, where that is known to be of the same kind; not in that of its
        solution, nor of what a step hands to the next."""

    def complete(self) -> None:
        """The struct `problem` is filled: take what depends on its sizes."""

    @functools.cached_property
    def lag_error(self) -> wp.array:
        """How far the worst contact of each world was from Coulomb's law `(worlds,)` [m/s]; 0 of solvers that solve another law."""
        return self.zeros(self.worlds)

    def zeros(self, shape, kind=None) -> wp.array:
        return wp.zeros(shape, dtype=self.scalar if kind is None else kind, device=self.device)

    def _problem(self):
        """The problem struct with the tables that are fixed."""
        sizes = np.diff(self.tree_v)
        table = copy(problems.Problem, self.code)()
        for name, value in {
            "tree_v": self.tree_v,
            "dof_tree": np.repeat(np.arange(self.trees), sizes),
            "dof_begin": np.repeat(self.tree_v[:-1], sizes),
            "row_support": self.row_support,
            "row_support_size": self.row_support_size,
        }.items():
            setattr(table, name, wp.array(value.astype(np.int32), dtype=int, device=self.device))
        return table

    def _solution(self):
        solution = copy(problems.Solution, self.code)()
        solution.v = self.zeros((self.worlds, self.nv))
        solution.gamma = self.zeros((self.worlds, self.max_contacts), self.vec3)
        solution.row_gamma = self.zeros((self.worlds, self.rows))
        solution.iterations = self.zeros(self.worlds, int)
        solution.momentum_error = self.zeros(self.worlds)
        solution.status = self.zeros(self.worlds, int)
        return solution

    @property
    def launched(self):
        """The copy of the device code whose kernels are launched; its structs are those of `code`."""
        return variant(self.scalar, self.spin, self.cg, self.lanes)

    def run(self, kernel, dim, inputs, lanes: int | None = None) -> None:
        """Launch off the tape; on CUDA that of a copy with so many lanes."""
        code = variant(self.scalar, self.spin, self.cg, lanes) if lanes and self.device.is_cuda else self.launched
        launch(kernel, code, dim, inputs, device=self.device, record_tape=False, block_dim=BLOCK)
