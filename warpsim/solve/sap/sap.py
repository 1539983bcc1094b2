# SPDX-License-Identifier: Apache-2.0
"""The SAP contact solver: its options, and the workspace and launch of `kernels/solve/sap/sap.py` (theory §3)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.device.copies import WARP, copy, lanes_for
from warpsim.device.memory import SideBySide
from warpsim.kernels.linalg import row_space
from warpsim.kernels.linalg.vector import CHUNK, padded
from warpsim.kernels.solve.sap import islands, newton, sap, space_convex
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.widened import WidenedSolver
from warpsim.tree.wide import narrow

# Relative tolerance per dtype when the user gives none (theory §3.3).
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
# ε_a [√J]: lets the iteration of a world at rest stop.
ABSOLUTE_TOLERANCE = 1e-16

APPROXIMATIONS = ("convex", "lagged")
LINEAR_SOLVERS = ("auto", "cholesky", "cg")
VECTORS = ("p_star", "m", "j_c", "dv", "dp")  # (worlds, nv)
# "auto" uses conjugate gradients above this many dofs in a world with several trees.
AUTO_CG_DOFS = 2400


@dataclass(frozen=True)
class SAP(ContactModel):
    """Options of the SAP contact solver, the default (Castro, Permenter, Han).

    Parameters
    ----------
    tolerance : float, optional
        The solver stops when ‖D∇ℓ‖ ≤ tolerance · max(‖D p‖, ‖D j_c‖): ∇ℓ is the gradient of its cost, p = A v the
        momentum, with A the mass matrix plus implicit terms, j_c the generalized impulse of contact and D =
        diag(A)^(−1/2). Default: 1e-6 in float64, 1e-4 in float32.
    beta : float
        Limit β of near-rigid contact: the regularization R_n of normal impulses is at least β²/(4π²) w, where w is the
        contact's effective inverse mass (about 1/m for one body of mass m). Default: 1.
    sigma : float
        Regularization σ of stiction, R_t = σ w: a sticking contact under a tangential force f creeps at the speed σ w h
        f, with time step h. Default: 1e-3; 1e-4 is for grippers (docs/contact_properties.md).
    line_search : str
        Line search of Newton's method: "exact" (default) or "backtracking".
    linear_solver : str
        Solver of Newton's linear systems. "cholesky": direct, with the Hessian (nv, nv). "cg": conjugate gradients,
        without forming the Hessian. "auto" (default): direct for one tree or up to 2400 degrees of freedom.
    max_iterations : int
        Newton steps before a world is returned with its best iterate and the flag NOT_CONVERGED. A problem with few
        constraint rows is first solved in the space of its rows; if that fails, as many steps again follow in the space
        of velocities. Default: 1000.
    approximation : str, optional
        Friction law. "lagged": Coulomb's law, solved within the step; it uses nothing from the step before. "convex":
        the convex law of the paper, under which a contact that slides at the speed ‖v_t‖ hovers at the height μ ‖v_t‖
        (h + τ_d), with friction coefficient μ, time step h and dissipation time τ_d. Default: "lagged" in a
        `Simulator`, "convex" in `solve_contact`.
    supported_load : bool, optional
        Whether near-rigid contact stiffens under loads above half the weight of its effective mass 1/w, so that light
        bodies under heavy ones do not sink. Default: True under Coulomb's law, else False.

    Raises
    ------
    ValueError
        A value is not allowed. The message names it and the fix.

    Notes
    -----
    docs/theory.md, §3; Coulomb's law there in §3.6.

    Examples
    --------
    >>> model = ws.load(ws.robots.path("hopper"))
    >>> sim = ws.Simulator(model, solver=ws.SAP(tolerance=1e-8), dtype="float64", device="cpu")
    >>> state = sim.rollout(sim.state(), steps=100).final
    >>> bool(sim.diagnostics.momentum_error.numpy().max() <= 1e-8)
    True
    """

    tolerance: float | None = None
    beta: float = 1.0
    sigma: float = 1e-3
    line_search: str = "exact"
    linear_solver: str = "auto"
    max_iterations: int = 1000
    approximation: str | None = None
    supported_load: bool | None = None
    has_closed_form: ClassVar[bool] = True
    has_spin: ClassVar[bool] = True
    times_impacts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.tolerance(self.tolerance, "SAP: tolerance")
        for name in ("beta", "sigma"):
            checks.positive(getattr(self, name), f"SAP: {name}")
        checks.choice(self.line_search, "SAP: line_search", sap.LINE_SEARCHES)
        checks.choice(self.linear_solver, "SAP: linear_solver", LINEAR_SOLVERS)
        if self.approximation is not None:
            checks.choice(self.approximation, "SAP: approximation", APPROXIMATIONS)
        if self.supported_load is not None:
            checks.flag(self.supported_load, "SAP: supported_load")
        if self.supported_load and self.approximation == "convex":
            raise ValueError('SAP: supported_load=True goes with approximation="lagged"; leave one of the two out')
        checks.whole(self.max_iterations, "SAP: max_iterations", 1)

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance that a simulator of `dtype` "float32" or "float64" uses."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)

    @property
    def is_lagged(self) -> bool:
        """Whether steps of a simulator follow Coulomb's law, not the convex law."""
        return self.approximation != "convex"

    @property
    def counts_load(self) -> bool:
        """Whether near-rigid contact stiffens under load: Coulomb's law, unless `supported_load` is False."""
        return self.is_lagged and self.supported_load is not False

    def smoothed(self, amount: float) -> "SAP":
        """Return these options with softer contact for a gradient-based search.

        Sticking and resting contacts then respond to forces, where the true ones have gradients near 0. The price is a
        bias, which a continuation to s → 0 removes.

        Parameters
        ----------
        amount : float
            The softness s, at least 0, such as 0.1 to 10.

        Returns
        -------
        SAP
            The softer options.

        Notes
        -----
        w is the effective inverse mass of a contact (about 1/m for one body). The regularization R of its impulses
        (theory §3.1) is R_t = σ w along the surface and at least R_n = β²/(4π²) w along the normal, with `sigma` and
        `beta`. s raises σ to at least s, and β²/(4π²) to at least s. Their defaults are 1e-3 and 0.025.

        Under a tangential force f a contact creeps at s w h f; under a load f_n it yields by s w h² f_n (1 + 2√s).

        Examples
        --------
        >>> ws.SAP().smoothed(0.1).sigma
        0.1
        """
        rule = "give a number of at least 0, such as 0.1 to 10"
        checks.number(amount, "SAP: smoothing", rule, lambda x: 0.0 <= x < np.inf)
        beta = max(self.beta, 2.0 * np.pi * float(np.sqrt(amount)))
        return dataclasses.replace(self, sigma=max(self.sigma, float(amount)), beta=beta)

    @property
    def regularisation(self) -> "SAP":
        return self

    @property
    def repeated_by(self) -> "SAP":
        return self

    def make_solver(self, *size: Any, wide: bool = False, **keywords: Any) -> Any:
        """Make the solver and its arrays. `Simulator` calls it."""
        return (WideSAP if wide else self.solver_of(*size))(*size, options=self, **keywords)

    def solver_of(self, worlds: int, tree_v: Any, max_contacts: int, *rows: Any) -> Any:
        """Return the solver's class for problems of this size. Without contacts it is that of the convex law."""
        from warpsim.solve.sap.lagged import LaggedSolver

        return LaggedSolver if self.is_lagged and max_contacts else SAPSolver

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """Make the law that gives contacts their regularization R, velocity v̂ and friction μ. `Simulator` calls it."""
        from warpsim.solve.sap.lagged import LaggedLaw

        return (LaggedLaw if self.is_lagged else ContactLaw)(self, dynamics, collision)

    def alone(self) -> "SAP":
        """Return the options for `ws.solve_contact`: these, with the convex law unless `approximation` is given."""
        return dataclasses.replace(self, approximation="convex") if self.approximation is None else self

    def refuse_alone(self) -> str | None:
        if self.approximation != "lagged" and not self.supported_load:
            return None
        return (
            "it solves one convex problem, which approximation='lagged' and supported_load=True are not; "
            "give SAP(approximation='convex', supported_load=False), or use ws.Simulator."
        )

    def direct_or_cg(self, tree_v: Any) -> str:
        """The linear solver, "cholesky" or "cg"; `tree_v`: first degree of freedom of each tree, and their number."""
        if self.linear_solver != "auto":
            return self.linear_solver
        return "cg" if len(tree_v) > 2 and tree_v[-1] > AUTO_CG_DOFS else "cholesky"


ContactModel.regularisation = SAP(approximation="convex")


def envelope_columns(solver: ContactSolver) -> int:
    """Columns of a matrix in an envelope.

    Rows of every island have room for whole chunks from its first column on, and for two such rows where a factor has
    an upper triangle (`triangles.py`).
    """
    if solver.has_upper:
        return solver.nv + 2 * CHUNK - 1
    return padded(solver.nv) if solver.trees < 2 else solver.nv + CHUNK - 1


def newton_shapes(solver: ContactSolver, direct: bool) -> dict[str, tuple]:
    """Shape per world and dtype of the arrays that a Newton system writes before it reads them."""
    couplings = solver.max_contacts // 2 if solver.spin else 0
    return {
        "H": ((solver.nv if direct else 0, envelope_columns(solver)), solver.scalar),
        "G": ((solver.max_contacts + couplings,), wp.types.matrix((3, 3), solver.scalar)),
        "row_G": ((solver.rows,), solver.scalar),
    }


def newton_workspace(solver: ContactSolver, direct: bool, given: dict[str, wp.array] | None = None):
    """The Newton systems of all islands of a solver's problem, with a matrix or for conjugate gradients.

    `given`: arrays of `newton_shapes`.
    """
    W, nv, cg, zeros = solver.worlds, solver.nv, not direct, solver.zeros
    system = copy(newton.Newton, solver.code)()
    for name, (shape, kind) in newton_shapes(solver, direct).items():
        setattr(system, name, zeros((W, *shape), kind) if given is None else given[name])
    system.first = zeros((W, nv), int)
    system.x = zeros((W, envelope_columns(solver)))
    system.P = zeros((W, nv if cg else 0, padded(int(np.diff(solver.tree_v).max(initial=0)))))
    for name in ("residual", "z", "direction", "product"):
        setattr(system, name, zeros((W, nv if cg else 0)))
    return system


def islands_workspace(solver: ContactSolver):
    """Lists of the islands of a solver's problem."""
    W, T = solver.worlds, solver.trees
    tree = np.repeat(np.arange(T), np.diff(solver.tree_v))
    rows = zip(solver.row_support, solver.row_support_size, strict=True)
    edges = solver.max_contacts + sum(len(set(tree[dofs[:n]])) - 1 for dofs, n in rows) if T > 1 else 0
    found = copy(islands.Islands, solver.code)()
    found.count = solver.zeros(W, int)
    columns = {"tree": T, "of_tree": T, "slot": len(tree), "dof": len(tree), "edge": 2 * edges}
    columns |= {"contact": solver.max_contacts, "row": solver.rows}
    columns |= dict.fromkeys(("tree_end", "contact_end", "row_end", "slot_end", "edge_start"), T + 1)
    for name, n in columns.items():
        setattr(found, name, solver.zeros((W, n), int))
    return found


def find_islands(solver: ContactSolver) -> None:
    """Fill the lists of `islands_workspace`."""
    kernel = islands.list_whole if solver.trees == 1 else islands.find_islands
    solver.run(kernel, solver.worlds, [solver.problem, solver.work.islands])


class SAPSolver(ContactSolver):
    """Workspace and launches of the SAP solver. With `keep_factor`, `solve_adjoint` works after `launch`."""

    def __init__(self, *size, options: SAP | None = None, keep_factor: bool = False, **keywords):
        options = SAP() if options is None else options
        self.has_factor = options.direct_or_cg(size[1]) == "cholesky"
        super().__init__(*size, cg=not self.has_factor, **keywords)
        self.options = copy(sap.Options, self.code)()
        self.options.tolerance = options.relative_tolerance(self.dtype)
        self.options.absolute = ABSOLUTE_TOLERANCE
        self.options.max_iterations = int(options.max_iterations)
        self.options.line_search = sap.LINE_SEARCHES[options.line_search]
        self.options.keep_factor = int(keep_factor)
        self.options.free_start = 1
        self.as_on_gpu = self.device.is_cuda  # which kernels are launched
        self.lanes = self.lanes_of_island()
        # An island is solved in the space of its rows or with H, not with both at once.
        over = {"space": ("H", ((self.space_numbers,), self.scalar))}
        self.scratch = SideBySide(self.worlds, self._scratch_shapes(), self.device, over)
        self.work = self._workspace()

    def lanes_of_island(self) -> int:
        """Lanes per island: one per dof, and one per scalar row; the two limits of a dof are never active at once."""
        by_dof = np.bincount(self.row_support[self.row_support_size == 1, 0], minlength=1)
        rows = np.sum(-(-by_dof // 2)) + np.sum(self.row_support_size != 1)
        return lanes_for(max(self.nv, rows)) if self.small_first else WARP

    @property
    def small_first(self) -> bool:
        """Whether a separate kernel, with a third of the instructions, solves islands that one warp holds."""
        return self.as_on_gpu and self.has_factor and not self.spin and not self.shaped

    @property
    def in_space(self) -> bool:
        """Whether a kernel solves islands in the space of their rows, on the CPU the others too.

        On the CPU not where it never pays (`space_convex.pays`).
        """
        pays = self.as_on_gpu or self.trees == 1 or np.diff(self.tree_v).max(initial=0) > space_convex.SHORT
        return self.has_factor and not self.spin and pays

    def start_at(self, v: wp.array) -> None:
        super().start_at(v)
        self.options.free_start = 0

    def idle(self) -> list[wp.array]:
        return [] if self.options.keep_factor else [self.scratch.whole]

    def share(self, other: ContactSolver) -> None:
        if self.works_like(other):
            self.scratch, self.work = other.scratch, other.work

    def works_like(self, other: ContactSolver) -> bool:
        """Whether another solver has the same workspace."""
        return (
            type(other) is type(self)
            and other.has_factor == self.has_factor
            and other.max_contacts == self.max_contacts
        )

    def _scratch_shapes(self) -> dict[str, tuple]:
        """Shape per world and dtype, by name, of the arrays that every launch writes before it reads them."""
        C, K, nv, S = self.max_contacts, self.rows, self.nv, self.scalar
        found = dict.fromkeys(VECTORS, ((nv,), S))
        for name in ("u_c", "dv_c"):
            found |= {name: ((C,), self.vec3), f"row_{name}": ((K,), S)}
        return found | newton_shapes(self, direct=self.has_factor)

    @property
    def space_numbers(self) -> int:
        """Numbers of an island in the space of its rows; on a GPU they are in shared memory."""
        return 0 if self.device.is_cuda or self.spin or self.cg else row_space.alone_numbers(self.nv)

    def _workspace(self):
        W, arrays = self.worlds, self.scratch.arrays
        work = copy(sap.Workspace, self.code)()
        work.newton = newton_workspace(self, self.has_factor, arrays)
        work.islands = islands_workspace(self)
        for name in (*VECTORS, "space", "u_c", "dv_c", "row_u_c", "row_dv_c"):
            setattr(work, name, arrays[name])
        work.norms = self.zeros((W, self.trees), self.vec3)
        work.iterations, work.status = (self.zeros((W, self.trees), int) for _ in range(2))
        return work

    def launch(self):
        """Solve every world, off the tape."""
        per_tree = (self.worlds, self.trees)
        find_islands(self)
        inputs = [self.problem, self.work, self.options, self.solution]
        if self.in_space:
            self.run(space_convex.solve_in_space, per_tree, [*inputs, 0])
            if self.lanes < WARP:
                self.run(space_convex.solve_in_space, per_tree, [*inputs, 1], lanes=WARP)
        if self.as_on_gpu or not self.in_space:
            self.run(sap.solve, per_tree, [*inputs, int(self.in_space)])
        if self.options.keep_factor:
            self.run(sap.keep_factor, per_tree, [self.problem, self.work])
        if not self.certified_later:
            self.certify()
        return self.solution

    def certify(self) -> None:
        self.run(sap.certify, self.worlds, [self.problem, self.work, self.solution])

    def errors(self) -> list[wp.array]:
        """Errors of every island and every world with respect to Coulomb's law; empty for other laws."""
        return [self.zeros((0, 0)), self.zeros(0)]

    @property
    def slopes(self) -> wp.array:
        """G = −∂γ/∂v_c `(worlds, max_contacts)` at the last solution; needs `keep_factor`."""
        return self.work.newton.G

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """seed = −H⁻¹ v̄ `(worlds, nv)` with the Hessian at the last solution; needs `keep_factor`."""
        inputs = [self.problem, self.work, v_bar, seed]
        self.run(sap.solve_adjoint, (self.worlds, self.trees), inputs)


class WideSAP(WidenedSolver):
    """SAP in float64 for a float32 problem, with A, v* and v0 as attached; its solution is rounded."""

    def __init__(self, *size, options: SAP, dtype: str, **keywords):
        double = dataclasses.replace(options, tolerance=options.relative_tolerance(dtype))
        inner = options.solver_of(*size)(*size, options=double, dtype="float64", **keywords)
        super().__init__(inner, *size, dtype=dtype, **keywords)
        if options.is_lagged and self.max_contacts:
            self.copied = (*self.copied, "weight", "load", "least")
        self.lag_error = self.zeros(self.worlds)

    def launch(self):
        """Solve every world, off the tape."""
        solution = super().launch()
        narrow(self.inner.lag_error, self.lag_error, self.scalar)
        return solution
