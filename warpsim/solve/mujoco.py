# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's constraint law as a contact model (theory §3.8; device: `kernels/contact/mujoco_contacts.py`)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import warp as wp

from warpsim.base import checks
from warpsim.contact.collision import Collision
from warpsim.device.copies import launch
from warpsim.kernels.contact import mujoco_contacts
from warpsim.kernels.solve import gradient_norm
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.mapped_stiffness import is_mapped
from warpsim.model.model import Model
from warpsim.model.mujoco_weights import inverse_weights
from warpsim.model.parameters import Parameters
from warpsim.solve.contact_law import ContactLaw
from warpsim.solve.contact_model import ContactModel
from warpsim.solve.sap.sap import SAP, SAPSolver
from warpsim.tree.dynamics import Dynamics

CONES = ("pyramidal", "elliptic")
# Relative tolerance per dtype when the user gives none. An acceleration has its error times v/(h a).
DEFAULT_TOLERANCE = {"float32": 1e-5, "float64": 1e-8}


@dataclass(frozen=True)
class MuJoCo(ContactModel):
    """MuJoCo's own constraint law: contacts, limits, friction loss and equalities from `solref` and `solimp`.

    Parameters
    ----------
    cone : str, optional
        Friction cone, "pyramidal" or "elliptic". Default: the file's option.
    impratio : float, optional
        Ratio of frictional to normal impedance. Default: the file's option, which `sim.parameters["impratio"]` varies
        per world.
    iterations : int
        Newton steps before a world is returned with its best iterate and the flag NOT_CONVERGED. Default: 100.
    tolerance : float, optional
        The solver stops when ‖D∇ℓ‖ ≤ tolerance · max(‖D p‖, ‖D j_c‖): ∇ℓ is the gradient of its cost, p = A v the
        momentum, with A the mass matrix plus implicit terms, j_c the generalized impulse of contact and D =
        diag(A)^(−1/2). Default: 1e-8 in float64, 1e-5 in float32.

    Raises
    ------
    ValueError
        A value is not allowed. The message names it and the fix.

    Notes
    -----
    The step is MuJoCo's too. The default integrator is the one that the file names: `ws.MuJoCoEuler()`,
    `ws.MuJoCoImplicitFast()` or `ws.MuJoCoRK4()`. The last one has no gradients. There is no warm start: the solver
    starts from v0. `recovery_speed` has no meaning: solref and solimp say how constraints recover. Simulators are in
    float32 by default; take `dtype="float64"` to compare with MuJoCo (docs/mujoco.md).

    Examples
    --------
    >>> model = ws.load(ws.robots.path("ant"))
    >>> sim = ws.Simulator(model, worlds=2, solver=ws.MuJoCo(), device="cpu")
    >>> sim.step(sim.state()).q.shape
    (2, 15)
    """

    cone: str | None = None
    impratio: float | None = None
    iterations: int = 100
    tolerance: float | None = None
    has_spin: ClassVar[bool] = True
    follows_bend: ClassVar[bool] = False
    limits_recovery: ClassVar[bool] = False
    has_anisotropy: ClassVar[bool] = True
    mujoco_law: ClassVar[bool] = True
    mujoco_points: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.cone is not None:
            checks.choice(self.cone, "MuJoCo: cone", CONES)
        if self.impratio is not None:
            checks.positive(self.impratio, "MuJoCo: impratio")
        checks.whole(self.iterations, "MuJoCo: iterations", 1)
        checks.tolerance(self.tolerance, "MuJoCo: tolerance")

    @property
    def regularisation(self) -> SAP:  # type: ignore[override]
        """Options of the solver of the convex problem."""
        return SAP(tolerance=self.tolerance, max_iterations=self.iterations, approximation="convex")

    def relative_tolerance(self, dtype: str) -> float:
        """The tolerance that a simulator of `dtype` "float32" or "float64" uses."""
        return DEFAULT_TOLERANCE[dtype] if self.tolerance is None else float(self.tolerance)

    def refuse(self, model: Model, integrator: Any, dtype: str, requires_grad: bool) -> str | None:
        """Why this model of contact cannot simulate `model`, naming the value and the fix; None if it can."""
        why = _other_law(model) or super().refuse(model, integrator, dtype, requires_grad)
        if why is None and not getattr(integrator, "mujoco_law", False):
            why = (
                f"integrator is {integrator!r}, which does not step as MuJoCo does; use ws.MuJoCoEuler(), "
                "ws.MuJoCoImplicitFast() or ws.MuJoCoRK4(), or leave it out for the file's"
            )
        if why is None and requires_grad and model.mujoco.diagexact:
            why = (
                "the file sets the option diagexact, which has no gradients; leave requires_grad=False, or give "
                "dataclasses.replace(model, mujoco=dataclasses.replace(model.mujoco, diagexact=False))"
            )
        for name, reason in MISSING.items():
            value = getattr(model.mujoco, name)
            if why is None and value:
                why = (
                    f"the file sets the option {name}, which ws.MuJoCo() does not have{reason}; leave it out, or give "
                    f"dataclasses.replace(model, mujoco=dataclasses.replace(model.mujoco, {name}={type(value)(0)}))"
                )
        return why

    def ignored_parameters(self, requires_grad: bool) -> dict[str, str]:
        """Parameters without effect and the reasons."""
        other = "has no effect with MuJoCo's law; solref and solimp say how stiff constraints are"
        found = super().ignored_parameters(requires_grad) | dict.fromkeys(OF_OTHER_LAWS, other)
        if self.impratio is not None:
            found["impratio"] = f"has no effect with ws.MuJoCo(impratio={self.impratio:g}); leave impratio out there"
        return found

    def check_parameter(self, parameters: Parameters, name: str, values: np.ndarray) -> None:
        """Raise `ValueError` if MuJoCo's law cannot use `values` assigned to a parameter."""
        if name != "pair_own_friction":
            return
        model = parameters.model
        own, fixed = model.pair_own_friction, [2, 3, 4]
        if self.solver_options(model) == {}:
            values, own = values / values[..., :1], own / own[:, :1]
            fixed = [1]
        if (values[..., fixed] != own[:, fixed]).any():
            raise ValueError(
                "parameters['pair_own_friction'] changes torsional or rolling friction, or the ratio of the tangents "
                "of circular cones, which are constants of the simulator; change sliding friction alone, or the model"
            )

    def cone_of(self, model: Model) -> str:
        """The friction cone in use, "pyramidal" or "elliptic"."""
        return model.mujoco.cone if self.cone is None else self.cone

    def solver_options(self, model: Model) -> dict[str, Any]:
        """Options of the solver's workspace for a model."""
        shaped = self.cone_of(model) == "pyramidal" or bool((friction_ratios(model) != 1.0).any())
        return {"shaped": True} if shaped else {}

    def make_solver(self, *size: Any, wide: bool = False, dtype: str, **keywords: Any) -> Any:
        """Make the solver and its arrays. `Simulator` calls it."""
        options = dataclasses.replace(self.regularisation, tolerance=self.relative_tolerance(dtype))
        return SAPSolver(*size, options=options, dtype=dtype, **keywords)

    def make_law(self, dynamics: Any, collision: Any) -> Any:
        """Make the law of contact: regularization R, reference velocity v̂ and friction μ. `Simulator` calls it."""
        return MuJoCoLaw(self, dynamics, collision)


# Options of files that the law does not have, and why.
MISSING = {
    "speculative": (
        " (such contacts lie where MuJoCo's sweep of the geoms stops, which is 1 part in 50 of their distance before "
        "they meet; ws.SAP() foresees contacts within a step by itself)"
    ),
    "noslip_iterations": "",
}
# Parameters that only other laws read.
OF_OTHER_LAWS = (
    *("geom_stiffness", "geom_dissipation_time", "geom_friction_dynamic", "geom_friction_velocity"),
    *("geom_hertz_modulus", "geom_hydroelastic_modulus", "geom_hydroelastic_thickness"),
    *("constraint_stiffness", "constraint_dissipation_time"),
)
SOFTNESS = ("stiffness", "dissipation_time")
EQUALITIES = (ConstraintType.CONNECT, ConstraintType.WELD, ConstraintType.JOINT, ConstraintType.TENDON)


def _mapped_time(model: Model) -> np.ndarray:
    """`(ngeom,)`: the dissipation time [s] that a reader maps from `geom_solref`, of near-rigid geoms too."""
    first, second = model.geom_solref.T
    least = 2.0 * model.timestep if model.mujoco.refsafe else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = second / first
    return np.where((first <= 0) & (second <= 0), direct, 2.0 * np.maximum(first, least) * second**2)


def _other_law(model: Model) -> str | None:
    """Material or constraints that MuJoCo's law does not have, naming the element and the fix; None without."""
    given = {name: ~is_mapped(model) & np.isfinite(getattr(model, f"geom_{name}")) for name in SOFTNESS}
    given["dissipation_time"] &= ~np.isclose(model.geom_dissipation_time, _mapped_time(model))
    given["restitution"] = model.geom_restitution > 0
    for name, geoms in given.items():
        if geoms.any():
            geom = int(np.argmax(geoms))
            return (
                f"geom {model.geom_names[geom]!r} has {name} {float(getattr(model, f'geom_{name}')[geom]):g}, which "
                "MuJoCo's law does not read; leave it out and give the geom a solref: (time constant, damping ratio), "
                "or (-stiffness, -damping) per inverse mass"
            )
    sliding = np.flatnonzero(~np.isnan(model.geom_friction_dynamic))
    if len(sliding):
        return (
            f"geom {model.geom_names[sliding[0]]!r} has a friction_dynamic, which MuJoCo's law does not have; leave it "
            "out, or use ws.SAP()"
        )
    if model.point_pairs < len(model.pair_geom):
        names = " and ".join(repr(model.geom_names[g]) for g in model.pair_geom[model.point_pairs])
        return f"geoms {names} touch by pressure fields, which MuJoCo's law does not have; use ws.SAP()"
    others = [c for c in range(model.nconstraint) if ConstraintType(model.constraint_type[c]) not in EQUALITIES]
    if others:
        kind = ConstraintType(model.constraint_type[others[0]]).name.lower()
        return (
            f"constraint {model.constraint_names[others[0]]!r} is a {kind}, which MuJoCo does not have; use ws.SAP(), "
            "or a connect, weld, joint or tendon constraint"
        )
    return None


def friction_ratios(model: Model) -> np.ndarray:
    """Friction of the pairs with parameters of their own: along the second tangent and axis over that along the
    first."""
    friction = np.maximum(model.pair_own_friction, mujoco_contacts.LEAST_FRICTION)
    return friction[:, [1, 4]] / friction[:, [0, 3]]


class MuJoCoLaw(ContactLaw):
    """R, v̂, μ and the axes of the cones from MuJoCo's parameters."""

    reads_rate0 = True  # the law depends on the rates of contacts when the step begins

    def __init__(self, options: MuJoCo, dynamics: Dynamics, collision: Collision):
        super().__init__(options.regularisation, dynamics, collision)
        model, d = self.device_model.model, self.device_model
        self.model = model
        weights = inverse_weights(model)
        self.mean_inertia, bodies = weights.mean_inertia, np.append(weights.body[:, 0], 0.0)
        first, second = model.geom_priority[model.pair_geom].T
        own = model.pair_own
        if collision.spin is not None:
            collision.spin.tables.least = mujoco_contacts.LEAST_FRICTION
        self.shaped = bool(options.solver_options(model))
        tables = {
            "weight": bodies[model.geom_body],
            "own": own[: np.flatnonzero(own >= 0).max(initial=-1) + 1],
            "decides": np.where(first > second, 0, np.where(first < second, 1, -1)),
            "condim": model.pair_condim,
        }
        tables |= {"edges": int(options.cone_of(model) == "pyramidal"), "refsafe": int(model.mujoco.refsafe)}
        made = d.struct(mujoco_contacts.Soft, **tables)
        self.tables = {name: getattr(made, name) for name in tables}
        self.basis = dynamics.array(collision.slots if self.shaped else 0, self.types.vec4)
        # J M⁻¹Jᵀ of contacts, where the option diagexact asks for it
        self.exact = dynamics.array(collision.capacity if model.mujoco.diagexact else 0, self.types.real)
        self.fixed_impratio = None
        if options.impratio is not None:
            self.fixed_impratio = d.array([options.impratio], self.types.real)

    def attach(self, problem) -> None:
        super().attach(problem)
        problem.basis, problem.edges = self.basis, self.tables["edges"]

    def share(self, other: ContactLaw) -> None:
        super().share(other)
        if type(other) is type(self):
            self.basis = self.problem.basis = other.basis

    def parameters(self, h: float):
        """The parameters in the form that kernels read."""
        stored = self.device_model.parameters.stored
        found = {name: stored(f"geom_{name}") for name in ("solref", "solimp", "solmix", "friction")}
        found |= {f"own_{name}": stored(f"pair_{name}") for name in ("solref", "solreffriction", "solimp")}
        found["own_friction"] = stored("pair_own_friction")
        found["impratio"] = stored("impratio") if self.fixed_impratio is None else self.fixed_impratio
        found |= {"surface": self.collision.surface_rate, "exact": self.exact}
        return self.device_model.struct(mujoco_contacts.Soft, **self.tables, **found, h=h)

    def regularise(self, h: float, v: wp.array, M_factor: wp.array, z: wp.array) -> None:
        collision, soft, laws = self.collision, self.parameters(h), self.filled()
        known = [collision.scene, soft, collision.contacts]
        if self.shaped:
            self.find_bases(self.dynamics, soft, collision.contacts.frame, self.basis)
        if self.exact.size:
            inputs = [self.device_model.topology, *known, self.basis, M_factor, z]
            self.dynamics.launch(mujoco_contacts.exact_weights, None, inputs)
        self.dynamics.launch(mujoco_contacts.regularise, collision.capacity, [*known, v, laws])
        if collision.spin is not None:
            collision.spin.launch(laws)
            self.dynamics.launch(mujoco_contacts.spin_targets, collision.capacity, [*known, v, laws])

    def gradient_norm(self, solver: Any, h: float) -> wp.array:
        """The norm of the gradient of MuJoCo's cost `(worlds,)` at the last solution, scaled as MuJoCo scales it."""
        norm, residual = self.dynamics.array(None, self.types.real), self.dynamics.array(self.model.nv, self.types.real)
        scale = 1.0 / (h * self.mean_inertia * max(1, self.model.nv))
        inputs = [solver.problem, solver.solution, max(1, self.collision.capacity), scale, residual, norm]
        launch(gradient_norm.gradient_norm, solver.code, solver.worlds, inputs, device=solver.device, record_tape=False)
        return norm

    def find_bases(self, dynamics: Dynamics, soft: Any, frame: wp.array, basis: wp.array) -> None:
        """The axes of the cones, from the frames of the contacts."""
        collision = self.collision
        known = [collision.scene, soft, collision.contacts, self.device_model.plant(), dynamics.link_X, frame]
        dynamics.launch(mujoco_contacts.bases, collision.capacity, [*known, basis])
