"""The SAP contact solver: its options, and the workspace and launch of `kernels/sap.py` (theory §3)."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from warpsim.kernels import islands
from warpsim.kernels import problem as problems
from warpsim.kernels import sap as kernels
from warpsim.kernels.linalg import newton
from warpsim.kernels.precision import SCALARS

# Relative tolerance per dtype when the user gives none (theory §3.3).
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
# ε_a [√J]: ends the iteration of a world at rest.
ABSOLUTE_TOLERANCE = 1e-16

# Threads per block: a thread solves a whole world, and small blocks spread worlds over a GPU.
BLOCK = 32

APPROXIMATIONS = ("convex", "lagged")
# "auto" changes to conjugate gradients above this many dofs in a world of several trees.
AUTO_CG_DOFS = 2400

NOT_CONVERGED = kernels.NOT_CONVERGED
NON_FINITE = kernels.NON_FINITE


@dataclass(frozen=True)
class SAP:
    """Options of the convex contact solver (Castro, Permenter, Han: SAP).

    tolerance: stop at ‖D∇ℓ‖ ≤ tolerance · max(‖Dp‖, ‖Dj_c‖); None is 1e-6 in float64 and 1e-4 in float32.
    beta: near-rigid limit, Rn ≥ β²/(4π²) w. sigma: stiction regularisation, Rt = σ w.
    line_search: "exact" or "backtracking". linear_solver: "cholesky" (direct, H is nv × nv), "cg" (conjugate gradients,
    H is never formed), or "auto": direct up to some hundred bodies.
    max_iterations: Newton steps before a world is given back with its best iterate and the not-converged flag.
    approximation: "convex" (the paper's: contacts that slide hover at μ|v_t|(h + τ_d)) or "lagged" (Coulomb's law: v̂_n is
    corrected by the slip of the last solve). supported_load: near-rigid contact takes the mass that it bears into account,
    so that light bodies under heavy ones do not sink. Either adds `passes` solves, each from the last one's solution.
    """

    tolerance: float | None = None
    beta: float = 1.0
    sigma: float = 1e-3
    line_search: str = "exact"
    linear_solver: str = "auto"
    max_iterations: int = 100
    approximation: str = "convex"
    supported_load: bool = False
    passes: int = 2

    def __post_init__(self):
        if self.tolerance is not None and not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"SAP: tolerance is {self.tolerance}; give a number between 0 and 1, or None.")
        for name in ("beta", "sigma"):
            value = getattr(self, name)
            if not 0.0 < value < np.inf:
                raise ValueError(f"SAP: {name} is {value}; give a positive finite number.")
        if self.line_search not in kernels.LINE_SEARCHES:
            raise ValueError(f"SAP: line_search is {self.line_search!r}; choose one of {list(kernels.LINE_SEARCHES)}.")
        if self.linear_solver not in ("auto", *newton.LINEAR_SOLVERS):
            raise ValueError(
                f"SAP: linear_solver is {self.linear_solver!r}; choose one of {['auto', *newton.LINEAR_SOLVERS]}."
            )
        if self.approximation not in APPROXIMATIONS:
            raise ValueError(f"SAP: approximation is {self.approximation!r}; choose one of {list(APPROXIMATIONS)}.")
        if int(self.passes) != self.passes or self.passes < 1:
            raise ValueError(f"SAP: passes is {self.passes}; give a whole number of at least 1.")
        if int(self.max_iterations) != self.max_iterations or self.max_iterations < 1:
            raise ValueError(f"SAP: max_iterations is {self.max_iterations}; give a whole number of at least 1.")

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance in use for "float32" or "float64"."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)

    @property
    def is_lagged(self) -> bool:
        """Whether a step solves more than once."""
        return self.approximation == "lagged" or self.supported_load

    def direct_or_cg(self, tree_v) -> str:
        """ "cholesky" or "cg" for a scene whose trees begin at the dofs `tree_v`; depends on nothing but the model."""
        if self.linear_solver != "auto":
            return self.linear_solver
        return "cg" if len(tree_v) > 2 and tree_v[-1] > AUTO_CG_DOFS else "cholesky"


class SAPSolver:
    """Workspace and launches of the SAP kernels for one fixed size; nothing is allocated after construction.

    `tree_v (trees + 1,)`: the diagonal blocks of A, by first dof. `row_support (K, Mr)`, padded, with `row_support_size`:
    the dofs of the scalar rows. `problem` (struct) is otherwise filled by the caller with its own arrays, field by field;
    see `kernels/problem.py`. `solution` (struct) holds the results: v (worlds, nv), gamma (worlds, C) vec3, row_gamma
    (worlds, K), iterations, momentum_error, status (worlds,). With `keep_factor`, `solve_adjoint` works after `launch`.
    """

    def __init__(
        self,
        worlds: int,
        tree_v,
        max_contacts: int,
        row_support=None,
        row_support_size=None,
        *,
        options: SAP | None = None,
        dtype: str = "float32",
        device=None,
        keep_factor: bool = False,
    ):
        if dtype not in SCALARS:
            raise ValueError(f'SAPSolver: dtype is {dtype!r}; choose "float32" or "float64".')
        options = SAP() if options is None else options
        self.worlds, self.device = worlds, wp.get_device(device)
        self.tree_v = np.asarray(tree_v, dtype=np.int32)
        self.trees, self.max_contacts = len(self.tree_v) - 1, max_contacts
        if row_support is None:
            row_support, row_support_size = np.zeros((0, 1)), np.zeros(0)
        self.row_support = np.asarray(row_support, dtype=np.int32)
        self.row_support_size = np.asarray(row_support_size, dtype=np.int32)
        self.scalar = SCALARS[dtype]
        self.kernels, self.k_islands = kernels.build(self.scalar), islands.build(self.scalar)
        self.options = self.kernels.Options()
        self.options.tolerance = options.relative_tolerance(dtype)
        self.options.absolute = ABSOLUTE_TOLERANCE
        self.options.max_iterations = int(options.max_iterations)
        self.options.line_search = kernels.LINE_SEARCHES[options.line_search]
        self.options.linear_solver = newton.LINEAR_SOLVERS[options.direct_or_cg(self.tree_v)]
        self.options.keep_factor = int(keep_factor)
        self.problem = self._problem()
        self.work, self.solution = self._workspace(), self._solution()

    def _zeros(self, shape, kind=None) -> wp.array:
        return wp.zeros(shape, dtype=self.scalar if kind is None else kind, device=self.device)

    def _problem(self):
        """The problem struct with the tables that are fixed."""
        sizes = np.diff(self.tree_v)
        table = problems.structs(self.scalar).Problem()
        for name, value in {
            "tree_v": self.tree_v,
            "dof_tree": np.repeat(np.arange(self.trees), sizes),
            "dof_begin": np.repeat(self.tree_v[:-1], sizes),
            "row_support": self.row_support,
            "row_support_size": self.row_support_size,
        }.items():
            setattr(table, name, wp.array(value.astype(np.int32), dtype=int, device=self.device))
        return table

    def _workspace(self):
        W, nv, C, K = self.worlds, int(self.tree_v[-1]), self.max_contacts, len(self.row_support)
        vec3, mat33 = wp.types.vector(3, self.scalar), wp.types.matrix((3, 3), self.scalar)
        cg = self.options.linear_solver == newton.CG
        work = self.kernels.Workspace()
        system = newton.build(self.scalar).Newton()
        system.H = self._zeros((W, 0 if cg else nv, nv))
        system.first = self._zeros((W, nv), int)
        system.x = self._zeros((W, nv))
        system.P = self._zeros((W, nv, int(np.diff(self.tree_v).max(initial=0))))
        for name in ("residual", "z", "direction", "product"):
            setattr(system, name, self._zeros((W, nv if cg else 0)))
        system.G, system.row_G = self._zeros((W, C), mat33), self._zeros((W, K))
        work.newton, work.islands = system, self._islands()
        for name in ("p_star", "m", "j_c", "dv", "dp"):
            setattr(work, name, self._zeros((W, nv)))
        for name in ("u_c", "dv_c"):
            setattr(work, name, self._zeros((W, C), vec3))
            setattr(work, "row_" + name, self._zeros((W, K)))
        work.norms = self._zeros((W, self.trees), vec3)
        work.iterations, work.status = (self._zeros((W, self.trees), int) for _ in range(2))
        return work

    def _islands(self):
        W, T = self.worlds, self.trees
        tree = np.repeat(np.arange(T), np.diff(self.tree_v))
        joined = sum(
            len(set(tree[dofs[:n]])) - 1 for dofs, n in zip(self.row_support, self.row_support_size, strict=True)
        )
        edges = self.max_contacts + joined if T > 1 else 0
        found = islands.Islands()
        found.count = self._zeros(W, int)
        columns = {"tree": T, "of_tree": T, "slot": len(tree), "edge": 2 * edges}
        columns |= {"contact": self.max_contacts, "row": len(self.row_support)}
        columns |= dict.fromkeys(("tree_end", "contact_end", "row_end", "slot_end", "edge_start"), T + 1)
        for name, n in columns.items():
            setattr(found, name, self._zeros((W, n), int))
        return found

    def _solution(self):
        W, nv = self.worlds, int(self.tree_v[-1])
        solution = self.kernels.Solution()
        solution.v = self._zeros((W, nv))
        solution.gamma = self._zeros((W, self.max_contacts), wp.types.vector(3, self.scalar))
        solution.row_gamma = self._zeros((W, len(self.row_support)))
        solution.iterations = self._zeros(W, int)
        solution.momentum_error = self._zeros(W)
        solution.status = self._zeros(W, int)
        return solution

    def _launch(self, kernel, dim, inputs) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_tape=False, block_dim=BLOCK)

    def launch(self):
        """Solve every world, off the tape."""
        self._launch(self.k_islands.find_islands, self.worlds, [self.problem, self.work.islands])
        return self._solve(again=False)

    def launch_again(self):
        """Solve once more from the last solution, after R or v_hat changed; contacts and rows must be the same."""
        guess = self.problem.v0
        self.problem.v0 = self.solution.v
        self._solve(again=True)
        self.problem.v0 = guess
        return self.solution

    def _solve(self, again: bool):
        per_tree = (self.worlds, self.trees)
        self._launch(self.kernels.solve, per_tree, [self.problem, self.work, self.options, self.solution])
        self._launch(self.kernels.certify, self.worlds, [self.problem, self.work, int(again), self.solution])
        return self.solution

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """seed = −H⁻¹ v̄ `(worlds, nv)` with the Hessian at the last solution; needs `keep_factor`."""
        inputs = [self.problem, self.work, self.options, v_bar, seed]
        self._launch(self.kernels.solve_adjoint, (self.worlds, self.trees), inputs)
