# SPDX-License-Identifier: Apache-2.0
"""What a `Simulator` asks of its `solver`: a description of contact. `ws.SAP`, `ws.Compliant`, `ws.LCP`, `ws.NoContact` are kinds."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warpsim.kernels.laws.cone import INVERSE_MASS_FLOOR
from warpsim.model.model import Model
from warpsim.model.parameters import Parameters
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.material import ignored_material, mixed_pair

if TYPE_CHECKING:
    from warpsim.solve.sap.sap import SAP


def is_contact_model(value: Any) -> bool:
    """Whether a value is a description of contact, not its class."""
    return isinstance(value, ContactModel)


class ContactModel:
    """Base of all descriptions of contact. A new kind derives from it and names its `workspace`; what it does not override is
    as for SAP: the regularised law of contact, and gradients of its solution, which are those of whoever solves that law.
    """

    workspace: ClassVar[type | None] = (
        None  # the `ContactSolver` that steps are solved with, made with `options=` this description
    )
    name: ClassVar[str]  # of the contact, in messages; else that of the class
    collides: ClassVar[bool] = True  # whether geoms meet
    has_restitution: ClassVar[bool] = False  # models geom_restitution
    has_hertz: ClassVar[bool] = False  # models geom_hertz_modulus
    has_pyramid: ClassVar[bool] = False  # friction is bounded in each tangent direction by itself
    is_exact: ClassVar[bool] = False  # a finite stiffness counts as it is, without the near-rigid limit
    follows_bend: bool = True  # errors of constraints count what the path bends within the step
    limits_recovery: bool = True  # from overlap, by the simulator's `recovery_speed`
    kinks_at_touch: ClassVar[bool] = False  # slopes differ on the sides of φ = 0
    has_closed_form: ClassVar[bool] = False  # `linearize` knows the derivatives of its law
    has_spin: ClassVar[bool] = False  # models torsional and rolling friction
    heaviest: float = 1.0 / float(INVERSE_MASS_FLOOR)  # [kg] of a body that it holds
    # The options of SAP with the β and σ that rows, and contacts without a law of their own, are regularised with. `sap.py` sets the
    # default, convex SAP: its class derives from this one.
    regularisation: "SAP"

    @property
    def label(self) -> str:
        """How messages call it."""
        return getattr(self, "name", type(self).__name__)

    @property
    def repeated_by(self) -> "SAP":
        """The options of SAP that a step is solved again with for its gradient: `regularisation`, whose law is the convex one."""
        return dataclasses.replace(self.regularisation, approximation="convex", supported_load=None)

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance in use for "float32" or "float64"."""
        return self.regularisation.relative_tolerance(dtype)

    def make_solver(self, *size: Any, wide: bool = False, **keywords: Any) -> Any:
        """The workspace for steps; see `ContactSolver`. `wide`: a deep float32 tree, whose A and v* come in float64."""
        if self.workspace is None:
            raise ValueError(
                f"{self.label} names no workspace; set `workspace` to a ContactSolver, or have a make_solver"
            )
        return self.workspace(*size, options=self, **keywords)

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """How R, v̂ and μ of contacts follow from their material."""
        return ContactLaw(self.regularisation, dynamics, collision)

    def refuse(self, model: Model, integrator: Any, dtype: str, requires_grad: bool) -> str | None:
        """Why this cannot simulate the model so, naming the value and the fix; None where it can."""
        if requires_grad and model.geom_hertz_modulus.any():
            geom = model.geom_names[int(np.argmax(model.geom_hertz_modulus > 0))]
            return (
                f"geom {geom!r} has a hertz_modulus, which has no gradients yet; give it a stiffness, or leave "
                "requires_grad=False"
            )
        if model.has_spin and self.collides and not self.has_spin:
            return (
                f"{self.label} contact has no torsional and rolling friction, which {self.spin_pair(model)}; use ws.SAP(), or "
                "condim 3: dataclasses.replace(model, pair_condim=np.minimum(model.pair_condim, 3))"
            )
        why = ignored_material(model, self.label, self.has_restitution, self.has_hertz) if self.collides else None
        pair = mixed_pair(model, model.geom_hertz_modulus, model.geom_stiffness)
        if why is None and pair is not None:
            (a, b), stiffness = pair, model.geom_stiffness[pair[1]]
            why = (
                f"geom {model.geom_names[a]!r} has a hertz_modulus and may touch {model.geom_names[b]!r}, which has "
                f"stiffness {stiffness:g}; give both a hertz_modulus, or both a stiffness, or let one be near-rigid"
            )
        return why

    @staticmethod
    def spin_pair(model: Model) -> str:
        """Which pair of geoms has torsional friction, for messages."""
        pair = int(np.argmax(model.pair_condim > 3))
        names = " and ".join(repr(model.geom_names[g]) for g in model.pair_geom[pair])
        return f"condim {model.pair_condim[pair]} is (geoms {names})"

    def refuse_alone(self) -> str | None:
        """Why `ws.solve_contact` cannot solve one convex problem with this; None where it can."""
        return f"solver is {self!r}; give a SAP(...) or a Compliant(...)."

    def alone(self) -> "ContactModel":
        """The description that `ws.solve_contact` solves with."""
        return self

    def ignored_parameters(self, requires_grad: bool) -> dict[str, str]:
        """Parameters that have no effect, or no gradient, and why."""
        found = {}
        if not self.has_restitution:
            found["geom_restitution"] = (
                f"has no effect with {self.label} contact; make the Simulator with solver=ws.LCP()"
            )
        if not self.has_hertz:
            found["geom_hertz_modulus"] = "has an effect with solver=ws.Compliant() alone"
        elif requires_grad:
            found["geom_hertz_modulus"] = "has no gradients yet; give geoms a stiffness, or leave requires_grad=False"
        return found

    def check_parameter(self, parameters: Parameters, name: str, values: np.ndarray) -> None:
        """Raise `ValueError` where contact has no law with `values` assigned to a parameter."""
        laws = ("geom_hertz_modulus", "geom_stiffness")
        if not self.has_hertz or name not in laws:
            return
        model, present = parameters.model, {n: parameters.stored(n).numpy() for n in laws} | {name: values}
        pair = mixed_pair(model, *(present[n] for n in laws))
        if pair is not None:
            a, b = (model.geom_names[g] for g in pair)
            raise ValueError(
                f"geoms {a!r} and {b!r} may touch, one with a hertz_modulus and the other with a stiffness; give both a "
                "hertz_modulus, or both a stiffness, or let one be near-rigid"
            )
