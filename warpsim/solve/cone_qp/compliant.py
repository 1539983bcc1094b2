# SPDX-License-Identifier: Apache-2.0
"""Compliant constraints: options, and the contact solver of a step (Drumwright; theory §4)."""

from dataclasses import InitVar, dataclass
from typing import Any, ClassVar

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.device.copies import copy
from warpsim.kernels.laws import contact_law
from warpsim.kernels.linalg.vector import padded
from warpsim.kernels.solve.cone_qp import compliant, island_newton, island_qp, island_system
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.contact_solver import ContactSolver
from warpsim.solve.sap.sap import find_islands, islands_workspace, newton_workspace
from warpsim.solve.widened import WidenedSolver

NEAR_RIGID_STIFFNESS = 1e10  # [N/m] of contacts without one
# B_t = this/h as in Drumwright, §6.4: friction creeps by 1e-6 m/s per N s.
TANGENTIAL_DAMPING = 1e6  # [N]

# Tolerances of the residual; a gap of δ leaves γ uncertain by √δ. Residuals up to DEFAULT_ACCEPTED are accepted where
# rounding prevents smaller ones (one body under another of 10⁶ times its mass: 5e-11).
DEFAULT_TOLERANCE = {"float32": 1e-4, "float64": 1e-11}
DEFAULT_ACCEPTED = {"float32": 1e-4, "float64": 1e-9}
# The method continues to this fraction of the tolerance while that costs little.
GOAL = {"float32": 0.3, "float64": 1e-2}


@dataclass(frozen=True)
class Compliant(ContactModel):
    """Options of compliant contact: every constraint is an implicit spring and damper, solved in the impulses.

    Parameters
    ----------
    tolerance : float, optional
        Largest relative residual of the quadratic program, which `diagnostics.momentum_error` reports. Default: 1e-11
        in float64 (NOT_CONVERGED is raised only above 1e-9) and 1e-4 in float32.
    stiffness : float, optional
        Stiffness of a contact between geoms without a stiffness of their own [N/m]. Default: near-rigid, 1e10 N/m, and
        overlaps recover at the simulator's `recovery_speed`.
    tangential_damping : float, optional
        Damping B_t of sticking contacts along the surface [N s/m]: under a friction force f they creep at the speed
        f/B_t. Default: 1e6 N over the time step.
    jdot : bool
        Whether constraints (welds, joints, couplings) include J̇v, the bend of the path within the step. Gaps then fall
        with dt³ instead of dt², but large steps gain energy. Default: False.
    max_iterations : int
        Factorizations before a world is returned with its best point and the flag NOT_CONVERGED. Default: 40.
    formulation : None
        An option of earlier versions; every value but None is refused.

    Raises
    ------
    ValueError
        A value is not allowed. The message names it and the fix.

    Notes
    -----
    docs/theory.md, §4.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), solver=ws.Compliant(stiffness=1e5), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    tolerance: float | None = None
    stiffness: float | None = None
    tangential_damping: float | None = None
    jdot: bool = False
    max_iterations: int = 40
    formulation: InitVar[str | None] = None  # of earlier versions; refused
    has_hertz: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def __post_init__(self, formulation: str) -> None:
        checks.tolerance(self.tolerance, "Compliant: tolerance")
        for name, unit in (("stiffness", "N/m"), ("tangential_damping", "N s/m")):
            if getattr(self, name) is not None:
                checks.positive(getattr(self, name), f"Compliant: {name}", f"{unit}, or None for the default")
        checks.flag(self.jdot, "Compliant: jdot")
        checks.whole(self.max_iterations, "Compliant: max_iterations", 1)
        if formulation is not None:
            raise ValueError(
                "Compliant: formulation is no option any more, leave it out; the programs of the paper as printed are "
                "in papers/ccs of the repository (papers.ccs.program.PrintedSimulator)"
            )

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance that a simulator of `dtype` "float32" or "float64" uses."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)

    @property
    def contact_stiffness(self) -> float:
        """Stiffness of contacts whose geoms have none of their own [N/m]."""
        return NEAR_RIGID_STIFFNESS if self.stiffness is None else float(self.stiffness)

    @property
    def limits_recovery(self) -> bool:
        """True unless these options give a stiffness: contact between geoms without one is then near-rigid."""
        return self.stiffness is None

    @property
    def heaviest(self) -> float:  # type: ignore[override]
        """Mass of a body that sinks 1 cm into near-rigid contact at a single point [kg].

        Users who give a stiffness must know what it bears.
        """
        return super().heaviest if self.stiffness is not None else 0.01 * NEAR_RIGID_STIFFNESS / 10.0

    @property
    def follows_bend(self) -> bool:
        return self.jdot

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """Make the law that gives contacts their regularization R, velocity v̂ and friction μ. `Simulator` calls it."""
        return CompliantLaw(self, dynamics, collision)

    def make_solver(self, *size: Any, wide: bool = False, **keywords: Any) -> Any:
        """Make the solver and its arrays. `Simulator` calls it."""
        return (WideCompliant if keywords["dtype"] == "float32" else CompliantContact)(*size, options=self, **keywords)

    def refuse_alone(self) -> None:
        return None

    def tangential_regularization(self, h: float) -> float:
        """Regularization of friction in stiction, R_t = 1/(h B_t) [1/kg], for the time step h [s]."""
        return 1.0 / (TANGENTIAL_DAMPING if self.tangential_damping is None else h * self.tangential_damping)


class CompliantLaw(ContactLaw):
    """Implicit springs and dampers, linear or Hertz's, with a tangential damper for stiction (theory §4)."""

    def regularise(self, h: float, v: wp.array, M_factor: wp.array, z: wp.array) -> None:
        collision, p = self.collision, self.device_model.parameters
        hertz = copy(compliant.Hertz, self.types.real)()
        hertz.modulus, hertz.size = p.stored("geom_hertz_modulus"), p.stored("geom_size")
        inputs = [self.problem, collision.scene, collision.material(), collision.contacts, self.law_options(h), hertz]
        self.dynamics.launch(compliant.regularise, collision.capacity, [*inputs, v])
        self._slide(v)
        self._drive()

    def law_options(self, h: float):
        made = copy(contact_law.LawOptions, self.types.real)()
        made.h, made.tau_share, made.rigid = h, 1.0, self.options.contact_stiffness
        made.sigma = self.options.tangential_regularization(h)
        return made

    def record(
        self, dynamics, h: float, weight: wp.array, phi: wp.array, v_c: wp.array, before: wp.array, gamma: wp.array
    ) -> None:
        collision = self.collision
        inputs = [collision.scene, collision.contacts, collision.material(), self.law_options(h), self.problem.mu]
        inputs += [self.mu, phi, self.compliance, v_c, gamma]
        dynamics.launch(compliant.contact_impulse, collision.capacity, inputs)


class CompliantContact(ContactSolver):
    """Workspace and launches of the quadratic program, in float64."""

    def __init__(self, *size, options: Compliant | None = None, precision: str = "float64", **keywords):
        """`precision`: the dtype whose default tolerances apply."""
        super().__init__(*size, **keywords)
        options = Compliant() if options is None else options
        self.options = copy(island_newton.Options, self.scalar)()
        self.options.tolerance = self.options.accepted = options.relative_tolerance(precision)
        self.options.goal = GOAL[precision] * self.options.tolerance
        if options.tolerance is None:
            self.options.accepted = DEFAULT_ACCEPTED[precision]
        self.options.max_iterations = int(options.max_iterations)
        self.work = self._workspace()

    def _workspace(self):
        W, T, C, K = self.worlds, self.trees, self.max_contacts, self.rows
        work = copy(island_system.Workspace, self.scalar)()
        work.newton = newton_workspace(self, direct=True)
        work.islands = islands_workspace(self)
        work.A_factor = self.zeros((W, self.nv, padded(int(np.diff(self.tree_v).max(initial=0)))))
        work.p = self.zeros((W, self.nv))
        work.contact = self.zeros((W, len(island_system.Vc), C), self.vec3)
        work.axis = self.zeros((W, C), wp.types.vector(2, self.scalar))
        work.row = self.zeros((W, len(island_system.Vr), K))
        work.residual = self.zeros((W, T))
        work.iterations, work.status = (self.zeros((W, T), int) for _ in range(2))
        return work

    def launch(self):
        """Solve every world, off the tape."""
        find_islands(self)
        inputs = [self.problem, self.work, self.options, self.solution]
        self.run(island_qp.solve, (self.worlds, self.trees), inputs, lanes=1)
        self.run(island_qp.certify_world, self.worlds, [self.problem, self.work, self.solution], lanes=1)
        return self.solution


class WideCompliant(WidenedSolver):
    """`CompliantContact` for a float32 problem: R of near-rigid contact is 1e-9 of W, below float32's resolution."""

    COPIED = tuple(name for name in WidenedSolver.COPIED if name != "v0")

    def __init__(self, *size, options: Compliant | None = None, dtype: str, **keywords):
        inner = CompliantContact(*size, options=options, precision=dtype, dtype="float64", **keywords)
        super().__init__(inner, *size, dtype=dtype, **keywords)


Compliant.workspace = CompliantContact
