"""Time integrators: plain descriptions that a `Simulator` turns into launches."""

import dataclasses

from warpsim.integrators.variational import Variational

__all__ = ["SymplecticEuler", "Variational"]


@dataclasses.dataclass(frozen=True)
class SymplecticEuler:
    """Symplectic (semi-implicit) Euler, the default: forces at (q0, v0), position with the new velocity.

    Order 1. Linear joint damping and actuator velocity gains are implicit (theory §2).
    """
