"""Time integrators: plain descriptions that a `Simulator` turns into launches."""

from warpsim.integrators.theta import ExplicitEuler, ImplicitEuler, Midpoint, SymplecticEuler, ThetaScheme
from warpsim.integrators.variational import Variational

__all__ = ["ExplicitEuler", "ImplicitEuler", "Midpoint", "SymplecticEuler", "ThetaScheme", "Variational"]
