# SPDX-License-Identifier: Apache-2.0
"""The theta-schemes of Castro, Permenter and Han, SAP, §II-C (theory §2), as options of a `Simulator`.

    v^θ = θ v + (1 − θ) v0,   v^θvq = θvq v + (1 − θvq) v0,   q^θ = q0 ⊕ h θ v^θvq,   q = q0 ⊕ h v^θvq
    free motion v*:  M(q^θ)(v* − v0) = h k(q^θ, v^θ);   contact:  A (v − v*) = Jᵀγ,  A = M + h² θ θvq K + h θ D

In the Euler schemes the linear damping D of joints and actuators is always implicit. The stiffness K (joint springs,
position gains of actuators) is implicit in the implicit schemes, and with `implicit_stiffness=True` in the explicit
ones.
"""

import dataclasses
from typing import Any, ClassVar

from warpsim.base import checks
from warpsim.integrate.integrator import Integrator

# ε_r of the free motion: ‖D m‖ relative to the momenta and impulses whose difference it is.
DEFAULT_TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


@dataclasses.dataclass(frozen=True)
class ThetaScheme(Integrator):
    """What all schemes share: θ, where forces are evaluated; θvq of the velocity for the positions; the order."""

    theta: ClassVar[float]
    theta_vq: ClassVar[float]
    order: ClassVar[int]

    def make_step(
        self, device_model: Any, contact_model: Any, max_contacts: int | None, make_solver: Any = None
    ) -> Any:
        """See `Integrator.make_step`."""
        from warpsim.integrate.step import Step

        return Step(device_model, contact_model, max_contacts, self, make_solver)

    @property
    def steps_as_scheme(self) -> bool:
        """Whether this class makes the step. False where a derived scheme makes its own."""
        return type(self).make_step is ThetaScheme.make_step

    @property
    def has_closed_form(self) -> bool:
        """True for plain symplectic Euler, which needs no stages."""
        return self.steps_as_scheme and self.theta == 0.0 and self.theta_vq == 1.0 and self.stiffness_share == 0.0

    @property
    def untimed(self) -> str:  # type: ignore[override]
        """See `Integrator`. Where positions move with the new velocity, v + ½ (v' − v) belongs to q."""
        if not self.steps_as_scheme:
            return Integrator.untimed
        if self.theta_vq == 0.0:
            return "it moves positions with the old velocity, so that bodies overlap before contact can stop them"
        if self.theta_vq < 1.0:
            return "it moves positions with the mean velocity, where contact cannot end an approach within a step"
        return ""

    @property
    def spins_freely(self) -> bool:
        """True for symplectic Euler: a single body turns as `FreeSpin` says."""
        return self.steps_as_scheme and self.theta == 0.0 and self.theta_vq == 1.0

    @property
    def implicit(self) -> bool:
        """Whether the free motion is the root of an equation."""
        return self.theta > 0.0

    @property
    def damping_share(self) -> float:
        """A contains h times this share of the damping D."""
        return self.theta if self.implicit else 1.0

    @property
    def stiffness_share(self) -> float:
        """A contains h² times this share of the stiffness K."""
        return self.theta * self.theta_vq if self.implicit else float(self.implicit_stiffness)


@dataclasses.dataclass(frozen=True)
class _Explicit(ThetaScheme):
    """Free motion in one linear solve.

    `implicit_stiffness`: v* = v0 + h (M + hD + h²K)⁻¹ (k(q0) − (D + hK) v0).
    """

    implicit_stiffness: bool = False
    theta: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        checks.flag(self.implicit_stiffness, f"{type(self).__name__}: implicit_stiffness")


@dataclasses.dataclass(frozen=True)
class _Implicit(ThetaScheme):
    """Free motion by Newton's method.

    `tolerance` is relative to the momenta and impulses at work (None: 1e-12 in float64, 1e-5 in float32). A world that
    needs more than `max_evaluations` of the equations goes on with its best iterate, flagged NOT_CONVERGED.
    """

    tolerance: float | None = None
    max_evaluations: int = 50

    def __post_init__(self) -> None:
        name = type(self).__name__
        checks.tolerance(self.tolerance, f"{name}: tolerance")
        checks.whole(self.max_evaluations, f"{name}: max_evaluations", 2)

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance in use for "float32" or "float64"."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)


@dataclasses.dataclass(frozen=True)
class ExplicitEuler(_Explicit):
    """Explicit Euler, order 1: positions move with the velocity at the start of the step.

    Forces are those at the start of the step, except contact and damping, which are implicit. The scheme is for
    comparison only: it gains energy, and impacts rebound at three quarters of their speed.

    Parameters
    ----------
    implicit_stiffness : bool
        Whether the stiffness K of springs and actuators enters implicitly, as their damping D always does:
        v* = v0 + h (M + hD + h²K)⁻¹ (k − (D + hK) v0). v0 is the velocity at the step's start, v* that at its end
        before contact acts, h the time step, M the mass matrix, k all forces at the step's start except contact and
        damping. Default: False.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), integrator=ws.ExplicitEuler(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    theta_vq: ClassVar[float] = 0.0
    order: ClassVar[int] = 1


@dataclasses.dataclass(frozen=True)
class SymplecticEuler(_Explicit):
    """Symplectic (semi-implicit) Euler, the default, order 1: forces at the old state, positions by the new velocity.

    Parameters
    ----------
    implicit_stiffness : bool
        Whether the stiffness K of springs and actuators enters implicitly, as their damping D always does:
        v* = v0 + h (M + hD + h²K)⁻¹ (k − (D + hK) v0). v0 is the velocity at the step's start, v* that at its end
        before contact acts, h the time step, M the mass matrix, k all forces at the step's start except contact and
        damping. Default: False.

    Notes
    -----
    docs/theory.md, §2. A tree that is one rigid body on a free or ball joint keeps its angular momentum and energy
    while it spins, (2.6).

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), integrator=ws.SymplecticEuler(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    theta_vq: ClassVar[float] = 1.0
    order: ClassVar[int] = 1


@dataclasses.dataclass(frozen=True)
class ImplicitEuler(_Implicit):
    """Implicit Euler, order 1: everything is evaluated at the end of the step.

    It is stable for any stiffness. It damps oscillations and spin: a rod loses up to 89 % of its angular momentum in 10
    s at a time step of 1 ms.

    Parameters
    ----------
    tolerance : float, optional
        Tolerance of Newton's method for the motion without contact, relative to the momenta and impulses of the step.
        Default: 1e-12 in float64, 1e-5 in float32.
    max_evaluations : int
        Evaluations of the equations after which a world goes on with its best iterate, flagged NOT_CONVERGED. Default:
        50.

    Notes
    -----
    docs/theory.md, §2.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), integrator=ws.ImplicitEuler(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    theta: ClassVar[float] = 1.0
    theta_vq: ClassVar[float] = 1.0
    order: ClassVar[int] = 1


@dataclasses.dataclass(frozen=True)
class Midpoint(_Implicit):
    """The symplectic midpoint rule, order 2: forces, mass matrix and contact Jacobian are those in mid-step.

    It keeps order 2 with friction while bodies stay in contact (rolling, stiction). Bodies rebound from impacts,
    near-rigid ones at a third of their speed. The cause: the contact law uses the velocity at the end of the step,
    positions move with the mean velocity of the step.

    Parameters
    ----------
    tolerance : float, optional
        Tolerance of Newton's method for the motion without contact, relative to the momenta and impulses of the step.
        Default: 1e-12 in float64, 1e-5 in float32.
    max_evaluations : int
        Evaluations of the equations after which a world goes on with its best iterate, flagged NOT_CONVERGED. Default:
        50.

    Notes
    -----
    docs/theory.md, §2.

    Examples
    --------
    >>> sim = ws.Simulator(ws.load(ws.robots.path("hopper")), integrator=ws.Midpoint(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    theta: ClassVar[float] = 0.5
    theta_vq: ClassVar[float] = 0.5
    order: ClassVar[int] = 2
