# SPDX-License-Identifier: Apache-2.0
"""The paper's programs as printed, in a simulator: `PrintedSimulator` steps with them where the engine solves its convex form.

Everything around the program is the engine's: kinematics, forces, contacts, rows, and on the host the solver of
`ws.solve_cone_qp`. Only the step from the contact problem to velocities (`PaperContact`, device code in `kernels.py`)
and what the rows need of Ġ are the paper's.
"""

import dataclasses
from typing import ClassVar

import numpy as np

import warpsim as ws
from papers.ccs import kernels
from warpsim.base import checks
from warpsim.device.replay import Replay
from warpsim.integrate.step import Step
from warpsim.kernels.forces import actuators
from warpsim.rows.scalar_rows import actuator_rows
from warpsim.solve import arrays
from warpsim.solve.cone_qp.cone_qp import DEFAULT_TOLERANCE, solve_worlds
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.delassus import Delassus


class PaperContact(ContactSolver):
    """Delassus matrix, bilateral rows eliminated, the paper's quadratic program, velocities.

    `bend (worlds, rows)`: hĠv0 of the scalar rows, filled by `path_bend`; `prepare` says the step [s] before a launch.
    `normal_weight`: ζ on normal forces; None is 1/dt, as the paper has it.
    """

    def __init__(self, *size, options, **keywords):
        super().__init__(*size, **keywords)
        self.normal_weight, self.zeta = options.normal_weight, 0.0
        self.path = None  # workspace of `path_bend`
        self.delassus = Delassus(self, all_tangents=False)
        W, N, K, C = self.worlds, self.delassus.size, self.rows, self.max_contacts + self.rows
        self.tolerance = DEFAULT_TOLERANCE[self.dtype] if options.tolerance is None else options.tolerance
        self.max_iterations, self.qp, self.paper = int(options.max_iterations), kernels.QP(), kernels.Paper()
        shapes = {1: W, 2: (W, N), "H": (W, N, N), "A": (W, C, N), "q": (W, C)}
        arrays.allocate(self.qp, self.device, shapes | dict.fromkeys(("start", "size", "mu"), (W, C)))
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
        self.bend, self.impulse, self.x = self.paper.bend, self.zeros((W, N)), self.zeros((W, N))

    def prepare(self, collision, restitution, h: float) -> None:
        """The weight ζ for the step h [s]."""
        self.zeta = 1.0 / h if self.normal_weight is None else self.normal_weight

    def launch(self):
        """Solve every world, off the tape."""
        dual = self.delassus.dual
        self.delassus.form(self.problem)
        self.run(kernels.assemble, self.worlds, [self.problem, dual, self.paper, self.zeta, self.qp])
        data = {name: getattr(self.qp, name).numpy() for name in self.qp._cls.vars}
        found = solve_worlds(data, self.tolerance, self.max_iterations)
        solution = self.solution
        targets = (
            (self.x, "x"),
            (solution.momentum_error, "residual"),
            (solution.iterations, "iterations"),
            (solution.status, "flags"),
        )
        for target, name in targets:
            target.assign(found[name])
        self.run(kernels.recover, self.worlds, [dual, self.paper, self.qp, self.x, self.impulse])
        self.delassus.recover(self.problem, self.impulse, self.solution)
        return self.solution

    def path_bend(self, rows, h: float, q, v) -> None:
        """hĠv0 of constraints and tendons into `bend` (worlds, rows), after the launch of `rows`, a `ScalarRows` without `follow_bend`."""
        dynamics, n = rows.dynamics, rows.count
        if not n:
            return
        if self.path is None:
            array, S = dynamics.array, self.scalar
            self.path = (self.zeros(self.worlds), array(self.nv, S), *(array(n, S) for _ in range(2)))
        scale, u, ahead, behind = self.path
        for sign, phi in ((1.0, ahead), (-1.0, behind)):
            dynamics.launch(kernels.reach, None, [v, sign, scale, u])
            rows.errors(q, u, phi)
        dynamics.launch(kernels.path_bend, n, [h, scale, rows.phi, ahead, behind, self.bend])


@dataclasses.dataclass(frozen=True)
class Printed(ws.Compliant):
    """Compliant contact that ends in the paper's program. Overlaps recover without a limit. `normal_weight`: ζ [1/s]."""

    normal_weight: float | None = None
    limits_recovery: ClassVar[bool] = False

    def make_solver(self, *size, wide: bool = False, **keywords) -> PaperContact:
        return PaperContact(*size, options=self, **keywords)


@dataclasses.dataclass(frozen=True)
class PrintedEuler(ws.SymplecticEuler):
    """Symplectic Euler with the bend of the rows' paths."""

    def make_step(self, device_model, contact_model, max_contacts: int | None, make_solver=None) -> "PaperStep":
        return PaperStep(device_model, contact_model, max_contacts)


class PaperStep(Step):
    """A step that ends in the paper's program. Contacts are those that are listed without the engine's look ahead."""

    def __init__(self, device_model, contact_model: Printed, max_contacts: int | None):
        super().__init__(device_model, contact_model, max_contacts)
        self.collision.scene.expect_impacts = 0

    def contact_problem(self, h: float) -> None:
        """Contacts and rows, and the bend of the rows' paths."""
        super().contact_problem(h)
        self.solver.path_bend(self.scalar_rows, h, self.q, self.v)


class Launches(Replay):
    """No graphs: a part of the step is done on the host."""

    def graphs_of(self, key: tuple) -> None:
        return None

    def run(self, key: tuple, launch, **how) -> None:
        launch()


class PrintedSimulator(ws.Simulator):
    """A `ws.Simulator` whose steps solve Drumwright's programs as printed, to reproduce his figures.

    With the Ġ terms, in which fast pendulums gain energy, and least norm instead of complementarity. float64,
    `SymplecticEuler`, no gradients, no dry friction of joints, no drives with feedback. `solver`: `ws.Compliant` with
    `stiffness`, `tangential_damping`, `tolerance` (None is 1e-9) and `max_iterations`. `normal_weight`: ζ on normal forces
    [1/s]; None is 1/dt, as the paper has it.
    """

    def __init__(
        self,
        model: ws.Model,
        worlds: int = 1,
        dt: float | None = None,
        solver: ws.Compliant | None = None,
        normal_weight: float | None = None,
        integrator=None,
        device=None,
        dtype: str = "float64",
        requires_grad: bool = False,
        max_contacts: int | None = None,
    ):
        solver = ws.Compliant() if solver is None else solver
        integrator = ws.SymplecticEuler() if integrator is None else integrator
        check(model, solver, integrator, dtype, requires_grad)
        if normal_weight is not None:
            checks.positive(normal_weight, "normal_weight", "1/s, or None for 1/dt")
        given = {f.name: getattr(solver, f.name) for f in dataclasses.fields(solver)}
        printed = Printed(**given | {"normal_weight": normal_weight})
        options = {"max_contacts": max_contacts, "recovery_speed": None}
        super().__init__(model, worlds, dt, PrintedEuler(), printed, device, dtype, **options)
        self._stepper.replay = Launches(self.device, self.parameters, worlds, 1)

    def capture(self, *arguments, **options):
        """Refused."""
        raise ValueError(
            "capture: the printed programs are solved on the host, which a graph cannot capture; call step instead"
        )

    def linearize(self, *arguments, **options):
        """Refused."""
        raise ValueError(
            "linearize: the printed programs have no gradients; use ws.Simulator(..., solver=ws.Compliant())"
        )


def check(model: ws.Model, solver, integrator, dtype: str, requires_grad: bool) -> None:
    """Refuse what the programs are not written for."""
    if not isinstance(solver, ws.Compliant) or solver.jdot:
        raise ValueError(
            f"solver is {solver!r}; give ws.Compliant(...) with jdot=False: the programs have J̇v terms of their own"
        )
    if requires_grad:
        raise ValueError("the printed programs have no gradients; use ws.Simulator(..., solver=ws.Compliant())")
    if dtype != "float64":
        raise ValueError(
            f'the printed programs square the condition of their problem; use dtype="float64", not {dtype!r}'
        )
    if integrator != ws.SymplecticEuler():
        raise ValueError(
            f"the printed programs are a scheme of their own; use ws.SymplecticEuler(), not {integrator!r}"
        )
    if (model.joint_friction > 0).any() or model.tendon_friction.any():
        raise ValueError("the printed programs have no dry friction of joints and tendons; set it to 0")
    drives = actuator_rows(model, integrator.implicit) != actuators.NEVER
    if drives.any():
        name = model.actuator_names[int(np.argmax(drives))]
        raise ValueError(
            f"the printed programs have no row for the drive of actuator {name!r}; use one without feedback"
        )
