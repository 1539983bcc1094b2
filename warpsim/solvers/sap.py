"""The SAP contact solver: its options, and the workspace and launch of `kernels/sap.py` (theory §3)."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from warpsim.kernels import sap as kernels
from warpsim.kernels.precision import SCALARS

# Relative tolerance per dtype when the user gives none (theory §3.3).
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
# ε_a [√J]: ends the iteration of a world at rest.
ABSOLUTE_TOLERANCE = 1e-16

# Threads per block: a thread solves a whole world, and small blocks spread worlds over a GPU.
BLOCK = 32

NOT_CONVERGED = kernels.NOT_CONVERGED
NON_FINITE = kernels.NON_FINITE


@dataclass(frozen=True)
class SAP:
    """Options of the convex contact solver (Castro, Permenter, Han: SAP).

    tolerance: stop at ‖D∇ℓ‖ ≤ tolerance · max(‖Dp‖, ‖Dj_c‖); None is 1e-6 in float64 and 1e-4 in float32.
    beta: near-rigid limit, Rn ≥ β²/(4π²) w. sigma: stiction regularisation, Rt = σ w.
    line_search: "exact" or "backtracking". linear_solver: "auto" or "cholesky" (direct); "cg" does not exist yet.
    max_iterations: Newton steps before a world is given back with its best iterate and the not-converged flag.
    """

    tolerance: float | None = None
    beta: float = 1.0
    sigma: float = 1e-3
    line_search: str = "exact"
    linear_solver: str = "auto"
    max_iterations: int = 100

    def __post_init__(self):
        if self.tolerance is not None and not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"SAP: tolerance is {self.tolerance}; give a number between 0 and 1, or None.")
        for name in ("beta", "sigma"):
            value = getattr(self, name)
            if not 0.0 < value < np.inf:
                raise ValueError(f"SAP: {name} is {value}; give a positive finite number.")
        if self.line_search not in kernels.LINE_SEARCHES:
            raise ValueError(f"SAP: line_search is {self.line_search!r}; choose one of {list(kernels.LINE_SEARCHES)}.")
        if self.linear_solver == "cg":
            raise ValueError('SAP: linear_solver="cg" is not available yet; use "auto" or "cholesky".')
        if self.linear_solver not in ("auto", "cholesky"):
            raise ValueError(f'SAP: linear_solver is {self.linear_solver!r}; choose "auto" or "cholesky".')
        if int(self.max_iterations) != self.max_iterations or self.max_iterations < 1:
            raise ValueError(f"SAP: max_iterations is {self.max_iterations}; give a whole number of at least 1.")

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance in use for "float32" or "float64"."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)


class SAPSolver:
    """Workspace and launch of the SAP kernel for one fixed size; nothing is allocated after construction.

    `problem` (struct) is filled by the caller with its own arrays, field by field; see `kernels.sap.build(S).Problem`.
    `solution` (struct) holds the results: v (worlds, nv), gamma (worlds, C) vec3, row_gamma (worlds, K), iterations,
    momentum_error, status (worlds,). `work.H` holds the LᵀDL factor of the Hessian at the solution when `keep_factor`.
    """

    def __init__(
        self,
        worlds: int,
        nv: int,
        max_contacts: int,
        rows: int = 0,
        *,
        options: SAP | None = None,
        dtype: str = "float32",
        device=None,
        keep_factor: bool = False,
    ):
        if dtype not in SCALARS:
            raise ValueError(f'SAPSolver: dtype is {dtype!r}; choose "float32" or "float64".')
        options = SAP() if options is None else options
        S = SCALARS[dtype]
        self.worlds, self.device = worlds, wp.get_device(device)
        self.kernels = kernels.build(S)
        vec3 = wp.types.vector(3, S)

        def zeros(shape, kind=S):
            return wp.zeros(shape, dtype=kind, device=self.device)

        self.work = self.kernels.Workspace()
        self.work.H = zeros((worlds, nv, nv))
        self.work.first = zeros((worlds, nv), int)
        for name in ("p_star", "m", "j_c", "dv", "dp"):
            setattr(self.work, name, zeros((worlds, nv)))
        for name in ("u_c", "dv_c"):
            setattr(self.work, name, zeros((worlds, max_contacts), vec3))
            setattr(self.work, "row_" + name, zeros((worlds, rows)))

        self.solution = self.kernels.Solution()
        self.solution.v = zeros((worlds, nv))
        self.solution.gamma = zeros((worlds, max_contacts), vec3)
        self.solution.row_gamma = zeros((worlds, rows))
        self.solution.iterations = zeros(worlds, int)
        self.solution.momentum_error = zeros(worlds)
        self.solution.status = zeros(worlds, int)

        self.options = self.kernels.Options()
        self.options.tolerance = options.relative_tolerance(dtype)
        self.options.absolute = ABSOLUTE_TOLERANCE
        self.options.max_iterations = int(options.max_iterations)
        self.options.line_search = kernels.LINE_SEARCHES[options.line_search]
        self.options.keep_factor = int(keep_factor)
        self.problem = self.kernels.Problem()
        self.set_blocks([0, nv])

    def set_blocks(self, starts):
        """The diagonal blocks of A are [starts[i], starts[i + 1]); one block of everything unless set."""
        sizes = np.diff(starts)
        for name, value in (("block_start", starts[:-1]), ("block_end", starts[1:])):
            table = np.repeat(np.asarray(value, dtype=np.int32), sizes)
            setattr(self.problem, name, wp.array(table, dtype=int, device=self.device))

    def launch(self, problem=None):
        """Solve every world: one kernel launch, off the tape. `problem` defaults to `self.problem`."""
        wp.launch(
            self.kernels.solve,
            dim=self.worlds,
            inputs=[self.problem if problem is None else problem, self.work, self.options],
            outputs=[self.solution],
            device=self.device,
            record_tape=False,
            block_dim=BLOCK,
        )
        return self.solution
