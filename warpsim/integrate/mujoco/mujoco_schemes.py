# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's time integrators, as options of a `Simulator`."""

import dataclasses
from typing import Any, ClassVar

from warpsim.base import checks
from warpsim.integrate.integrator import Integrator
from warpsim.integrate.mujoco.mujoco_step import MuJoCoStep
from warpsim.integrate.mujoco.runge_kutta_step import RungeKuttaStep
from warpsim.tree.wide import DEEPEST, depth


class MuJoCoScheme(Integrator):
    """What MuJoCo's integrators share: forces at the start of the step, and a contact problem with A = M."""

    mujoco_law: ClassVar[bool] = True
    damps_forces: ClassVar[bool] = False  # v' is implicit in the derivatives of forces with respect to v
    untimed: ClassVar[str] = "MuJoCo's contact acts over whole steps"  # see `Integrator`

    def make_step(
        self, device_model: Any, contact_model: Any, max_contacts: int | None, make_solver: Any = None
    ) -> Any:
        """See `Integrator.make_step`."""
        return MuJoCoStep(device_model, self, contact_model, max_contacts, make_solver)

    def damps(self, model: Any) -> bool:
        """Whether joint damping is implicit in simulations of `model`."""
        return True

    def refuse(self, model: Any, contact_model: Any, dtype: str, requires_grad: bool) -> str | None:
        """See `Integrator.refuse`."""
        name = type(self).__name__
        if contact_model.collides and not contact_model.mujoco_law:
            return (
                f"integrator=ws.{name}() goes with MuJoCo's contact law, but solver is {contact_model!r}; use "
                "ws.NoContact(), or integrator=ws.SymplecticEuler()"
            )
        if dtype == "float32" and depth(model) > DEEPEST:
            return (
                f"the model has trees deeper than {DEEPEST} degrees of freedom, whose mass matrices float32 does not "
                f"resolve with ws.{name}(); use dtype='float64'"
            )
        return None


@dataclasses.dataclass(frozen=True)
class MuJoCoEuler(MuJoCoScheme):
    """MuJoCo's semi-implicit Euler, order 1: v' = v0 + (M + h D)⁻¹ M (v_s − v0), positions with v'.

    h is the time step, M the mass matrix, D the damping of joints and v0 the initial velocity. v_s is the velocity that
    solves the contact problem, with all forces taken at the start of the step.

    Parameters
    ----------
    eulerdamp : bool, optional
        Whether D contains the damping of joints; False: v' = v_s. Default: as the model's file says (`Model.mujoco`).

    Examples
    --------
    >>> model = ws.load(ws.robots.path("hopper"))
    >>> sim = ws.Simulator(model, solver=ws.MuJoCo(), integrator=ws.MuJoCoEuler(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (1, 6)
    """

    eulerdamp: bool | None = None

    def __post_init__(self) -> None:
        if self.eulerdamp is not None:
            checks.flag(self.eulerdamp, "MuJoCoEuler: eulerdamp")

    def damps(self, model: Any) -> bool:
        """Whether joint damping is implicit in simulations of `model`."""
        return model.mujoco.eulerdamp if self.eulerdamp is None else self.eulerdamp


@dataclasses.dataclass(frozen=True)
class MuJoCoImplicitFast(MuJoCoScheme):
    """MuJoCo's implicitfast, order 1: as `MuJoCoEuler`, with −∂f/∂v of all forces in the place of D.

    ∂f/∂v contains joint and tendon damping, actuators and the medium. Only its symmetric part within the sparsity
    pattern of M is used. For single bodies on a free joint the derivative of the bias forces is added. Actuators at
    their force limit are left out. In a medium this integrator has no gradients.
    """

    damps_forces: ClassVar[bool] = True

    def refuse(self, model: Any, contact_model: Any, dtype: str, requires_grad: bool) -> str | None:
        """See `Integrator.refuse`."""
        why = super().refuse(model, contact_model, dtype, requires_grad)
        if why is None and requires_grad and model.has_fluid:
            why = (
                "integrator=ws.MuJoCoImplicitFast() has no gradients in a medium; use ws.MuJoCoEuler(), or leave "
                "requires_grad=False"
            )
        return why


@dataclasses.dataclass(frozen=True)
class MuJoCoRK4(MuJoCoScheme):
    """MuJoCo's Runge–Kutta method of order 4, with a contact problem in each of its four stages.

    It has no gradients. Sensors and energy are those at the start of the step. `Simulator.last_contacts` are those of
    the last stage.
    """

    def make_step(
        self, device_model: Any, contact_model: Any, max_contacts: int | None, make_solver: Any = None
    ) -> Any:
        """See `Integrator.make_step`."""
        return RungeKuttaStep(device_model, self, contact_model, max_contacts, make_solver)

    def refuse(self, model: Any, contact_model: Any, dtype: str, requires_grad: bool) -> str | None:
        """See `Integrator.refuse`."""
        why = super().refuse(model, contact_model, dtype, requires_grad)
        if why is None and requires_grad:
            why = (
                "integrator=ws.MuJoCoRK4() has no gradients; use ws.MuJoCoEuler() or ws.MuJoCoImplicitFast(), or leave "
                "requires_grad=False"
            )
        return why


SCHEMES = {"Euler": MuJoCoEuler, "implicitfast": MuJoCoImplicitFast, "RK4": MuJoCoRK4}  # by the name in MJCF


def scheme_of(model: Any) -> MuJoCoScheme:
    """The integrator that the model's file names."""
    name = model.mujoco.integrator
    if name not in SCHEMES:
        raise ValueError(
            f"the file's integrator is {name!r}, which warpsim does not have; give "
            "integrator=ws.MuJoCoImplicitFast(), which is closest, or ws.MuJoCoEuler()"
        )
    return SCHEMES[name]()
