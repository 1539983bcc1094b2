# SPDX-License-Identifier: Apache-2.0
"""Base of the contact solvers of a simulator: the problem that they read, their solution, and how they launch."""

import contextlib
import functools

import numpy as np
import warp as wp

from warpsim.device.copies import SCALARS, WARP, copy, launch, variant
from warpsim.device.threads import alone
from warpsim.kernels.solve import problem as problems

# Threads per block: one thread solves a whole island or world, and small blocks spread them over a GPU.
BLOCK = 32


class ContactSolver:
    """Problem and solution of one fixed size; nothing is allocated after construction.

    - `tree_v (trees + 1,)`: the diagonal blocks of A, by first dof.
    - `row_support (K, Mr)`, padded, with `row_support_size`: the dofs of the scalar rows.
    - `problem` (struct): the caller fills the remaining fields with its own arrays. `solution` (struct): the results;
      see `kernels/solve/problem.py`.
    - `spin`: contacts have spin rows in as many additional slots (`kernels/solve/sap/contact_laws.py`); `cg`: conjugate
      gradients; `shaped`: cones have a shape of their own. These are for solvers that support them.
    - `has_upper`: whether a stored factor is UᵀDL, not LᵀDL.

    A subclass has `launch()`, which solves every world off the tape and returns `solution`.
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
        shaped: bool = False,
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
        self.scalar, self.spin, self.shaped, self.cg = SCALARS[dtype], spin, shaped, cg
        self.code = variant(self.scalar, spin, cg, shaped=shaped)  # the copy of the device code
        self.lanes = WARP  # lanes per island on CUDA
        self.vec3 = wp.types.vector(3, self.scalar)
        self.problem, self.solution = self._problem(), self._solution()

    def certify(self) -> None:
        """Certify the last solution, if `launch` has left that to the end of the step."""

    certified_later = False  # whether the end of the step certifies the solution (`warpsim/integrate/fusion.py`)
    has_factor = True  # whether Jacobians of a step have a factor of the problem's matrix, or need none

    def state_memory(self) -> dict:
        """Arrays that a step passes to the next, by name."""
        return {}

    threshold = 0.0  # [m/s] speed above which contacts rebound, for solvers that model it

    def prepare(self, collision, restitution, h: float) -> None:
        """Set the inputs of launches besides the problem: contacts, restitution of the geoms, step."""

    def start_at(self, v: wp.array) -> None:
        """Take v `(worlds, nv)`, which is near the solution, as initial guess."""
        self.problem.v0 = v

    @contextlib.contextmanager
    def cold(self):
        """Solves inside take nothing from the solves before them."""
        yield

    @contextlib.contextmanager
    def as_at_first(self):
        """A solve inside `cold` of a backward pass that starts as the first one of its step."""
        yield

    def attach_wide(self, A: wp.array, v_star: wp.array, v0: wp.array) -> None:
        """Attach the float64 arrays of deep trees whose rounded values the problem holds, for solvers that use them."""

    def idle(self) -> list[wp.array]:
        """Arrays (worlds, …) whose contents are undefined between steps and at the beginning of a launch."""
        return []

    def share(self, other: "ContactSolver") -> None:
        """Use the workspace of another solver of the same kind and size that never runs at the same time.

        Solutions, and arrays that a step passes to the next, stay separate.
        """

    def complete(self) -> None:
        """Allocate arrays that depend on the sizes of the filled `problem`."""

    @functools.cached_property
    def lag_error(self) -> wp.array:
        """Distance of the worst contact of each world from Coulomb's law `(worlds,)` [m/s]; 0 for other laws."""
        return self.zeros(self.worlds)

    def zeros(self, shape, kind=None) -> wp.array:
        return wp.zeros(shape, dtype=self.scalar if kind is None else kind, device=self.device)

    def _problem(self):
        """The problem struct with its constant tables."""
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
        """The copy of the device code whose kernels are launched; it has the structs of `code`."""
        return variant(self.scalar, self.spin, self.cg, self.lanes, shaped=self.shaped)

    def run(self, kernel, dim, inputs, lanes: int | None = None) -> None:
        """Launch off the tape; `lanes`: on CUDA, that of the copy with so many lanes per world."""
        fewer = lanes and getattr(self, "as_on_gpu", self.device.is_cuda)
        code = variant(self.scalar, self.spin, self.cg, lanes, shaped=self.shaped) if fewer else self.launched
        launch(kernel, code, dim, inputs, device=self.device, record_tape=False, block_dim=BLOCK)
