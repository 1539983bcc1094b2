# SPDX-License-Identifier: Apache-2.0
"""`SAP(approximation="lagged")`: Coulomb's law and its solver (theory §3.6).

"Lagged" is the iteration whose fixed point the law is: convex problems in which v̂_n lags behind the slip.
"""

import warp as wp

from warpsim.device.copies import WARP, copy
from warpsim.device.memory import adopt
from warpsim.kernels.linalg.registers import UNKNOWNS
from warpsim.kernels.solve import problem as problems
from warpsim.kernels.solve.sap import coupled, lagged, space_lagged, surrogate
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.sap.sap import SAPSolver, find_islands

KRYLOV_VECTORS = 6
LEAST_LANES = 16  # per island on a GPU: as many rows as four contacts and some limits have
LAG = ("missed", "dv", "v", "kept_v", "R", "v_hat", "gamma", "row_gamma")  # a launch writes these before it reads them


class LaggedLaw(ContactLaw):
    """Coulomb's law with R, v̂ and μ of SAP; near-rigid contact stiffens under its load."""

    def attach(self, problem) -> None:
        super().attach(problem)
        self.load, self.least = (self.dynamics.array(self.collision.capacity, self.types.real) for _ in range(2))
        problem.weight, problem.load, problem.least = self.weight, self.load, self.least

    def share(self, other: ContactLaw) -> None:
        super().share(other)
        if type(other) is type(self):
            self.load, self.least = self.problem.load, self.problem.least = other.load, other.least
            self.problem.weight = self.weight

    def law_options(self, h: float):
        made = super().law_options(h)
        made.coulomb, made.counts = 1, int(self.options.counts_load)
        return made

    def loads(self):
        loads = super().loads()
        loads.load, loads.least = self.load, self.least
        return loads


class LaggedSolver(SAPSolver):
    """Workspace and launches of `kernels/solve/sap/lagged.py`; the problem has `weight`, `load` besides SAP's arrays.

    With `keep_factor`, `solve_adjoint` works after `launch`. The initial state is v0 where that is near the solution or
    set by `start_at`, else v*.
    """

    has_upper = True

    def __init__(self, *size, **keywords):
        super().__init__(*size, **keywords)
        W, nv, C = self.worlds, self.nv, self.max_contacts
        cg = not self.has_factor
        self.lag = copy(coupled.Lag, self.code)()
        for name in LAG:
            setattr(self.lag, name, self.scratch.arrays[f"lag_{name}"])
        self.lag.G = self.zeros((W, C if self.options.keep_factor else 0), self.work.newton.G.dtype)
        # Rates are read only while the convex surrogate is solved, and u_c is written only once the solution is found.
        self.lag.p, self.lag.delta, self.lag.row_delta = self.work.dv_c, self.work.u_c, self.work.row_u_c
        large = cg and C > surrogate.MANY_CONTACTS
        self.lag.slip, self.lag.slip_change = (self.zeros((W, C if large else 0)) for _ in range(2))
        self.lag.relaxation = self.zeros((W, self.trees if large else 0))
        self.surrogate = copy(problems.Problem, self.code)()
        self.lag.krylov = self.zeros((W, KRYLOV_VECTORS, nv if cg else 0))
        self.lag.slope, self.lag.island_error = self.zeros((W, self.trees)), self.zeros((W, self.trees))
        self.lag.error = self.zeros(W)

    def share(self, other: ContactSolver) -> None:
        super().share(other)
        if self.works_like(other):
            adopt(self.lag, other.lag, [name for name in self.lag._cls.vars if name not in ("G", "error")])

    def _scratch_shapes(self) -> dict[str, tuple]:
        C, K, nv, S = self.max_contacts, self.rows, self.nv, self.scalar
        found = super()._scratch_shapes()
        shapes = dict.fromkeys(("missed", "dv", "v", "kept_v"), ((nv,), S))
        shapes |= {**dict.fromkeys(("R", "v_hat", "gamma"), ((C,), self.vec3)), "row_gamma": ((K,), S)}
        return {f"lag_{name}": shapes[name] for name in LAG} | found

    @property
    def slopes(self) -> wp.array:
        return self.lag.G

    @property
    def lag_error(self) -> wp.array:
        """Distance of the worst contact of each world from Coulomb's law `(worlds,)` [m/s]."""
        return self.lag.error

    @property
    def tries_first(self) -> bool:
        """Whether a kernel without restarts, which has less code and fewer registers, first tries larger islands."""
        return self.as_on_gpu and (self.nv > UNKNOWNS or not self.small_first)

    def lanes_of_island(self) -> int:
        """Lanes per island: one per dof and one per constraint row of most islands."""
        return max(super().lanes_of_island(), LEAST_LANES) if self.small_first else WARP

    def errors(self) -> list[wp.array]:
        return [self.lag.island_error, self.lag.error]

    def launch(self):
        """Solve every world, off the tape."""
        per_tree = (self.worlds, self.trees)
        find_islands(self)
        for name in self.problem._cls.vars:
            setattr(self.surrogate, name, getattr(self.problem, name))
        self.surrogate.R, self.surrogate.v_hat = self.lag.R, self.lag.v_hat
        rest = [self.work, self.lag, self.options, self.solution]
        if self.small_first:
            self.run(space_lagged.solve_space_lagged, per_tree, [self.problem, *rest, 0])
            if self.lanes < WARP:
                self.run(space_lagged.solve_space_lagged, per_tree, [self.problem, *rest, 1], lanes=WARP)
        if self.tries_first:
            self.run(lagged.try_lagged, per_tree, [self.problem, *rest, int(self.small_first)])
        self.run(lagged.solve_lagged, per_tree, [self.problem, self.surrogate, *rest, int(self.as_on_gpu)])
        if self.options.keep_factor:
            self.run(lagged.keep_factor, per_tree, [self.problem, self.work, self.lag, self.solution])
        if not self.certified_later:
            self.certify()
        return self.solution

    def certify(self) -> None:
        self.run(lagged.certify_lagged, self.worlds, [self.problem, self.work, self.lag, self.solution])

    def solve_adjoint(self, v_bar: wp.array, seed: wp.array) -> None:
        """seed = −(∂r/∂v)⁻ᵀ v̄ `(worlds, nv)` at the last solution; NaN where singular; needs `keep_factor`."""
        inputs = [self.problem, self.work, self.lag, v_bar, seed]
        self.run(lagged.solve_lagged_adjoint, (self.worlds, self.trees), inputs)
