"""Contact solver of `Compliant(formulation="paper")`: workspace and launches of `kernels/solve/cone_qp/compliant_paper.py`."""

from warpsim.device.copies import copy, kernels_of
from warpsim.kernels.solve import delassus
from warpsim.kernels.solve.cone_qp import compliant_paper, cone_qp
from warpsim.kernels.tree import passes
from warpsim.solve import arrays
from warpsim.solve.cone_qp.cone_qp import ConeQPSolver
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.delassus import Delassus


class PaperContact(ContactSolver):
    """Delassus matrix, bilateral rows eliminated, the paper's quadratic program, velocities.

    `bend (worlds, rows)`: hĠv0 of the scalar rows, filled by `path_bend`; `prepare` says the step [s] before a launch.
    """

    def __init__(self, *size, options, **keywords):
        super().__init__(*size, **keywords)
        self.options, self.zeta = options, 0.0
        self.path = None  # workspace of `path_bend`
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

    def path_bend(self, rows, h: float, q, v) -> None:
        """hĠv0 of constraints and tendons into `bend` (worlds, rows), after the launch of `rows`, a `ScalarRows` without `follow_bend`."""
        d, dynamics, n = rows.device_model, rows.dynamics, rows.table_count
        if not n:
            return
        if self.path is None:
            array, S = dynamics.array, self.scalar
            self.path = (self.zeros(self.worlds), array(self.nv, S), *(array(n, S) for _ in range(2)))
        scale, u, ahead, behind = self.path
        for sign, phi in ((1.0, ahead), (-1.0, behind)):
            dynamics.launch(compliant_paper.reach, None, [v, sign, scale, u])
            dynamics.launch(passes.integrate_position, d.model.nlink, [d.topology, 1.0, q, u, rows.q_ahead])
            dynamics.kinematics(rows.q_ahead, rows.link_X_ahead)
            rows.geometry(dynamics, q, phi)
        dynamics.launch(compliant_paper.path_bend, n, [h, scale, rows.phi, ahead, behind, rows.joint_count, self.bend])
