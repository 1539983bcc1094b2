# SPDX-License-Identifier: Apache-2.0
"""Options of the linear-time variational integrator (Lee, Liu, Park, Srinivasa; theory §6)."""

import dataclasses
from typing import Any, ClassVar

from warpsim.base import checks
from warpsim.integrate.integrator import Integrator
from warpsim.integrate.variational.variational_step import VariationalStep
from warpsim.kernels.integrate.variational import variational

ROOT_FINDERS = ("riqn", "newton", "broyden")
# Default tolerance: residual over momentum in the metric M⁻¹.
DEFAULT_TOLERANCE = {"float32": 1e-6, "float64": 1e-10}


@dataclasses.dataclass(frozen=True)
class Variational(Integrator):
    """The variational integrator. Order 2; it keeps momentum and, over long times, energy.

    Parameters
    ----------
    tolerance : float, optional
        The root search of a tree stops when the residual of its discrete equations of motion (DRNEA) is at most
        `tolerance` times ‖p + h/2 F‖, with momentum p, forces F and time step h. Norms are in the metric M⁻¹, the
        inverse mass matrix. Default: 1e-10 in float64, 1e-6 in float32.
    guess : str
        Initial guess of the change of positions Δq: "current" (Δq = 0), "euler" (Δq = h v) or "dynamics" (default; Δq =
        h v + h²/2 a, with the acceleration a).
    root_finder : str
        Method of the root search: "riqn" (default; recursive impulse-based quasi-Newton), "newton" or "broyden".
    max_iterations : int
        Number of evaluations of the residual after which a world goes on with its best iterate, flagged NOT_CONVERGED.
        Default: 50.
    passes : int
        Number of contact solves per step, each followed by a root search with its impulses. More than one corrects for
        the change of the mass matrix within a step. Default: 1.

    Notes
    -----
    docs/theory.md, §6.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), integrator=ws.Variational(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    tolerance: float | None = None
    guess: str = "dynamics"
    root_finder: str = "riqn"
    max_iterations: int = 50
    passes: int = 1
    ends_in_contact: ClassVar[bool] = False
    untimed: ClassVar[str] = "it has impulses at the ends of steps, from the momenta there"  # see `Integrator`

    def __post_init__(self) -> None:
        checks.tolerance(self.tolerance, "Variational: tolerance")
        checks.choice(self.guess, "Variational: guess", variational.GUESSES)
        checks.choice(self.root_finder, "Variational: root_finder", ROOT_FINDERS)
        for name in ("max_iterations", "passes"):
            checks.whole(getattr(self, name), f"Variational: {name}", 1)

    @property
    def contact_solves(self) -> int:
        """Contact solves of a step."""
        return self.passes

    def make_step(
        self, device_model: Any, contact_model: Any, max_contacts: int | None, make_solver: Any = None
    ) -> Any:
        """See `Integrator.make_step`."""
        return VariationalStep(device_model, self, contact_model, max_contacts, make_solver)

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance in use for "float32" or "float64"."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)
