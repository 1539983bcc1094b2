"""Contact solver of `Compliant(formulation="paper")`: workspace and launches of `kernels/compliant_paper.py`."""

from warpsim.device import copy, kernels_of
from warpsim.kernels import compliant_paper, cone_qp, delassus
from warpsim.solvers import arrays
from warpsim.solvers.cone_qp import ConeQPSolver
from warpsim.solvers.contact_solver import ContactSolver
from warpsim.solvers.delassus import Delassus


class PaperContact(ContactSolver):
    """Delassus matrix, bilateral rows eliminated, the paper's quadratic program, velocities.

    `bend (worlds, rows)`: hĠv0 of the scalar rows, filled by the caller; `prepare` says the step [s] before a launch.
    """

    def __init__(self, *size, options, **keywords):
        super().__init__(*size, **keywords)
        self.options, self.zeta = options, 0.0
        self.delassus = Delassus(self, all_tangents=False)
        W, N, K, C = self.worlds, self.delassus.size, self.rows, self.max_contacts + self.rows
        limits = {"max_iterations": int(options.max_iterations), "tolerance": options.tolerance}
        self.qp = ConeQPSolver(W, N, C, C, **limits, dtype=self.dtype, device=self.device)
        data, self.paper = self.qp.problem, copy(compliant_paper.Paper, self.scalar)()
        shapes = {1: W, 2: (W, N), "H": (W, N, N), "A": (W, C, N), "q": (W, C)}
        arrays.allocate(data, self.device, shapes | dict.fromkeys(("start", "size", "mu"), (W, C)))
        rows = (
            "bend",
            "held",
            "gamma_b",
            "picked",
            "r",
            "e",
            "tau",
            "diagonal",
            "tau_Z",
            "diagonal_Z",
            "column",
            "weight",
        )
        shapes = {1: W, 2: (W, N), 3: (W, K, K), "solved": (W, N, K)} | dict.fromkeys(rows, (W, K))
        arrays.allocate(self.paper, self.device, shapes)
        self.bend, self.impulse = self.paper.bend, self.zeros((W, N))
        result = self.qp.solution
        self.solution.momentum_error, self.solution.iterations = result.residual, result.iterations
        self.solution.status = result.status

    def kernels(self) -> list:
        return [x for file in (compliant_paper, delassus, cone_qp) for x in kernels_of(file, self.scalar)]

    def prepare(self, collision, restitution, h: float) -> None:
        """The weight ζ for the step h [s]."""
        self.zeta = 1.0 / h if self.options.normal_weight is None else self.options.normal_weight

    def launch(self):
        """Solve every world, off the tape."""
        dual, data = self.delassus.dual, self.qp.problem
        self.delassus.form(self.problem)
        self.run(compliant_paper.assemble, self.worlds, [self.problem, dual, self.paper, self.zeta, data])
        self.qp.launch()
        self.run(compliant_paper.recover, self.worlds, [dual, self.paper, data, self.qp.solution.x, self.impulse])
        self.delassus.recover(self.problem, self.impulse, self.solution)
        return self.solution
