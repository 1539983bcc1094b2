# SPDX-License-Identifier: Apache-2.0
"""Time integrators: plain descriptions that a `Simulator` turns into launches."""

from warpsim.integrate.integrator import Integrator
from warpsim.integrate.mujoco.mujoco_schemes import MuJoCoEuler, MuJoCoImplicitFast, MuJoCoRK4
from warpsim.integrate.theta.schemes import ExplicitEuler, ImplicitEuler, Midpoint, SymplecticEuler, ThetaScheme
from warpsim.integrate.variational.options import Variational

__all__ = [
    "ExplicitEuler",
    "ImplicitEuler",
    "Integrator",
    "Midpoint",
    "MuJoCoEuler",
    "MuJoCoImplicitFast",
    "MuJoCoRK4",
    "SymplecticEuler",
    "ThetaScheme",
    "Variational",
]
