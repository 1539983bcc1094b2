# SPDX-License-Identifier: Apache-2.0
"""Contact models, the `solver` of a `Simulator`: `ws.SAP`, `ws.Compliant`, `ws.LCP` and `ws.NoContact`."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warpsim.kernels.laws.cone import INVERSE_MASS_FLOOR
from warpsim.model.model import Model
from warpsim.model.parameters import LAW_SPECS, Parameters
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.material import ignored_material, mixed_pair, uneven_pair

if TYPE_CHECKING:
    from warpsim.solve.sap.sap import SAP


def is_contact_model(value: Any) -> bool:
    """Whether a value is an instance of a contact model, not its class."""
    return isinstance(value, ContactModel)


class ContactModel:
    """Base of all contact models.

    A new kind derives from it and names its `workspace`. What it does not override is as for SAP: the regularised law
    of contact, and gradients of its solution, which hold for any solver of that law.
    """

    # The `ContactSolver` that solves steps; it is made with `options=` this model.
    workspace: ClassVar[type | None] = None
    name: ClassVar[str]  # of the contact model in messages; default: the name of the class
    collides: ClassVar[bool] = True  # whether geoms meet
    has_restitution: ClassVar[bool] = False  # models geom_restitution
    has_hertz: ClassVar[bool] = False  # models geom_hertz_modulus
    has_pyramid: ClassVar[bool] = False  # each tangent direction has its own friction bound
    is_exact: ClassVar[bool] = False  # a finite stiffness is used as it is, without the near-rigid limit
    follows_bend: bool = True  # constraint errors include the bend of the path within the step
    limits_recovery: bool = True  # recovery from overlap is limited by the simulator's `recovery_speed`
    kinks_at_touch: ClassVar[bool] = False  # slopes differ on the two sides of φ = 0
    has_closed_form: ClassVar[bool] = False  # `linearize` knows the derivatives of its law
    mujoco_law: ClassVar[bool] = False  # contact and rows follow MuJoCo's constraint law
    times_impacts: ClassVar[bool] = False  # steps can resolve impacts with it (`time_of_impact`)
    is_rigid: ClassVar[bool] = False  # contact has no stiffness: one that is given does not count
    mujoco_points: ClassVar[bool] = False  # boxes, and cylinders on a plane, touch in MuJoCo's points
    has_spin: ClassVar[bool] = False  # models torsional and rolling friction
    has_anisotropy: ClassVar[bool] = False  # the two tangents of a pair may have different friction
    heaviest: float = 1.0 / float(INVERSE_MASS_FLOOR)  # [kg] heaviest body that contact supports
    # SAP options whose β and σ regularise rows, and contacts without their own law. `sap.py` sets the default, convex
    # SAP: its class derives from this one.
    regularisation: "SAP"

    @property
    def label(self) -> str:
        """Name in messages."""
        return getattr(self, "name", type(self).__name__)

    @property
    def repeated_by(self) -> "SAP":
        """SAP options with which a step is solved again for its gradient: `regularisation` with the convex law."""
        return dataclasses.replace(self.regularisation, approximation="convex", supported_load=None)

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance that a simulator of `dtype` "float32" or "float64" uses."""
        return self.regularisation.relative_tolerance(dtype)

    def make_solver(self, *size: Any, wide: bool = False, **keywords: Any) -> Any:
        """The workspace for steps, see `ContactSolver`. `wide`: a deep float32 tree, whose A and v* are in float64."""
        if self.workspace is None:
            raise ValueError(
                f"{self.label} names no workspace; set `workspace` to a ContactSolver, or have a make_solver"
            )
        return self.workspace(*size, options=self, **keywords)

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """Make the law that gives contacts their regularization R, velocity v̂ and friction μ. `Simulator` calls it."""
        return ContactLaw(self.regularisation, dynamics, collision)

    def solver_options(self, model: Model) -> dict[str, Any]:
        """Options of the solver's workspace for a model."""
        return {}

    def refuse(self, model: Model, integrator: Any, dtype: str, requires_grad: bool) -> str | None:
        """Why this model of contact cannot simulate `model`, naming the value and the fix; None if it can."""
        if requires_grad and model.geom_hertz_modulus.any():
            geom = model.geom_names[int(np.argmax(model.geom_hertz_modulus > 0))]
            return (
                f"geom {geom!r} has a hertz_modulus, which has no gradients yet; give it a stiffness, or leave "
                "requires_grad=False"
            )
        if model.has_spin and self.collides and not self.has_spin:
            return (
                f"{self.label} contact has no torsional and rolling friction, which {self.spin_pair(model)}; use "
                "ws.SAP(), or condim 3: dataclasses.replace(model, pair_condim=np.minimum(model.pair_condim, 3))"
            )
        if self.collides and not self.has_anisotropy and (uneven := uneven_pair(model)) is not None:
            return (
                f"{self.label} contact has no anisotropic friction, which the pair of geoms {uneven} has; use "
                "ws.MuJoCo(), or give equal values in the file or to add_pair"
            )
        given = (model, self.label, self.has_restitution, self.has_hertz, self.times_impacts)
        why = ignored_material(*given) if self.collides else None
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
        """The pair of geoms with torsional friction, for messages."""
        pair = int(np.argmax(model.pair_condim > 3))
        names = " and ".join(repr(model.geom_names[g]) for g in model.pair_geom[pair])
        return f"condim {model.pair_condim[pair]} is (geoms {names})"

    def refuse_alone(self) -> str | None:
        """Why `ws.solve_contact`, which solves one convex problem, cannot use this contact model; None if it can."""
        return f"solver is {self!r}; give a SAP(...) or a Compliant(...)."

    def alone(self) -> "ContactModel":
        """The contact model that `ws.solve_contact` uses."""
        return self

    def ignored_parameters(self, requires_grad: bool) -> dict[str, str]:
        """Parameters without effect, or without gradient, and the reasons."""
        found = {}
        if not self.mujoco_law:
            found |= dict.fromkeys(LAW_SPECS, "has an effect with solver=ws.MuJoCo() alone")
        if not self.has_restitution:
            timed = "time_of_impact=True" if self.times_impacts else "solver=ws.SAP() and time_of_impact=True"
            found["geom_restitution"] = (
                f"has no effect with {self.label} contact; make the Simulator with {timed}, or solver=ws.LCP()"
            )
        if not self.has_hertz:
            found["geom_hertz_modulus"] = "has an effect with solver=ws.Compliant() alone"
        elif requires_grad:
            found["geom_hertz_modulus"] = "has no gradients yet; give geoms a stiffness, or leave requires_grad=False"
        return found

    def check_parameter(self, parameters: Parameters, name: str, values: np.ndarray) -> None:
        """Raise `ValueError` if contact has no law for `values` assigned to a parameter."""
        laws = ("geom_hertz_modulus", "geom_stiffness")
        if not self.has_hertz or name not in laws:
            return
        model, present = parameters.model, {n: parameters.stored(n).numpy() for n in laws} | {name: values}
        pair = mixed_pair(model, *(present[n] for n in laws))
        if pair is not None:
            a, b = (model.geom_names[g] for g in pair)
            raise ValueError(
                f"geoms {a!r} and {b!r} may touch, one with a hertz_modulus and the other with a stiffness; give both "
                "a hertz_modulus, or both a stiffness, or let one be near-rigid"
            )
