# SPDX-License-Identifier: Apache-2.0
"""Refuse what a solver, an integrator or the tables of a simulator cannot follow, when it is made and when a parameter
is assigned.
`sim.parameters`.

Values that a kernel writes into the parameter arrays are not checked: a step never reads device data back to the host.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import flag
from warpsim.forces.lines import line_motors
from warpsim.integrate import Integrator, ThetaScheme
from warpsim.model.model import Model
from warpsim.model.parameters import Parameters
from warpsim.model.tables import check_tables
from warpsim.rows.constants import refuse_other_rows
from warpsim.rows.recovery import RECOVERY_SPEED
from warpsim.solve.contact_model import ContactModel, is_contact_model
from warpsim.solve.material import bouncy
from warpsim.tree.wide import DEEPEST, depth, refuse_gradients


def guard_model(model) -> None:
    """Raise `ValueError` if it is no model, or if a field of it was replaced by what does not fit the others."""
    if not isinstance(model, Model):
        raise ValueError(f"model is a {type(model).__name__}; load one with ws.load(path) or build it")
    check_tables(model)


def refuse_together(
    model: Model, solver, integrator, dtype: str, requires_grad: bool, time_of_impact: bool = False
) -> None:
    """Raise `ValueError` if the solver or integrator has a wrong type, or if model, solver and integrator do not go
    together. With `time_of_impact` every contact model that allows it has restitution."""
    if not isinstance(integrator, Integrator):
        known = "ws.SymplecticEuler(), ws.ImplicitEuler(), ws.Midpoint(), ws.ExplicitEuler() or ws.Variational(...)"
        raise ValueError(f"integrator is {integrator!r}; use {known}")
    if not is_contact_model(solver):
        known = "ws.SAP(...), ws.Compliant(...), ws.LCP(...), ws.MuJoCo(...) or ws.NoContact()"
        raise ValueError(f"solver is {solver!r}; use {known}")
    if requires_grad:
        refuse_gradients(model, dtype, "requires_grad=True")
    if time_of_impact:
        model = dataclasses.replace(model, geom_restitution=np.zeros_like(model.geom_restitution))
    for why in (
        _refuse_adhesion(model, integrator, dtype),
        solver.refuse(model, integrator, dtype, requires_grad),
        integrator.refuse(model, solver, dtype, requires_grad),
    ):
        if why is not None:
            raise ValueError(why)


def refuse_recovery(solver, recovery_speed) -> None:
    """Raise `ValueError` if a recovery speed is given to a law that has none."""
    if solver.mujoco_law and recovery_speed is not RECOVERY_SPEED and recovery_speed != RECOVERY_SPEED:
        raise ValueError(
            f"recovery_speed is {recovery_speed!r}, which has no meaning with ws.MuJoCo(): solref and solimp say how "
            "constraints recover; leave it out"
        )


def timed_impacts(wanted: bool | None, model: Model, solver, integrator, dtype: str, requires_grad: bool) -> bool:
    """Whether steps resolve the time of impacts, from the argument `time_of_impact` of a simulator.

    None: True where the model has restitution and all other arguments allow it. Raises `ValueError` where something
    forbids it, if `wanted` is True or if the contact model has restitution in no other way.
    """
    if wanted is None:
        if not model.geom_restitution.any() or not getattr(solver, "times_impacts", False):
            return False
        why = _untimed(model, solver, integrator, dtype, True)
        if why is not None and not solver.has_restitution:
            raise ValueError(
                f"{bouncy(model)}, which {solver.label} contact models with time_of_impact alone: {why}, or simulate "
                "with solver=ws.LCP(), or set the restitution to 0"
            )
        return why is None
    if not flag(wanted, "time_of_impact"):
        return False
    why = _untimed(model, solver, integrator, dtype, requires_grad)
    if why is not None:
        raise ValueError(f"time_of_impact=True: {why}, or leave time_of_impact out")
    return True


def _untimed(model: Model, solver, integrator, dtype: str, requires_grad: bool) -> str | None:
    """Why steps cannot resolve the time of impacts, and the fix; None if they can."""
    why = None
    untimed = getattr(integrator, "untimed", Integrator.untimed)
    if untimed:
        why = f"integrator is {integrator!r}, which resolves no impacts: {untimed}; use ws.SymplecticEuler()"
    elif not getattr(solver, "times_impacts", False):
        why = f"solver is {solver!r}, which resolves no impacts; use ws.SAP() or ws.LCP()"
    elif requires_grad and getattr(solver, "saddle_escape", False):
        why = f"solver is {solver!r}, whose saddle_escape has no gradients through impacts; leave it out"
    elif dtype == "float32" and depth(model) > DEEPEST:
        why = (
            f"the model has trees deeper than {DEEPEST} degrees of freedom, whose impacts float32 does not resolve; "
            "use float64"
        )
    return why


def _refuse_adhesion(model: Model, integrator: Integrator, dtype: str) -> str | None:
    """The reason to refuse adhesion, or None. Adhesion needs a free motion that is explicit."""
    found = np.flatnonzero(model.actuator_body >= 0)
    if not len(found):
        return None
    name = model.actuator_names[int(found[0])]
    if not (integrator.mujoco_law or (isinstance(integrator, ThetaScheme) and not integrator.implicit)):
        return (
            f"actuator {name!r} sticks contacts of a body, which {integrator!r} does not do; use ws.SymplecticEuler()"
        )
    if dtype == "float32" and depth(model) > DEEPEST:
        return (
            f"actuator {name!r} sticks contacts of a body, and a tree has more than {DEEPEST} degrees of freedom; "
            f"use float64"
        )
    return None


def refuse_without_effect(parameters: Parameters, solver, requires_grad: bool, time_of_impact: bool) -> None:
    """Refuse parameters that a simulator would ignore, by name."""
    for name, why in solver.ignored_parameters(requires_grad).items():
        if name != "geom_restitution" or not time_of_impact:
            parameters.refuse(name, why)
    if not parameters.model.has_spin:
        for name in ("geom_torsional_friction", "geom_rolling_friction"):
            parameters.refuse(name, "has no effect: no pair of geoms has condim 4 or 6; give a geom condim=4 or 6")


def guard_parameters(parameters: Parameters, solver: ContactModel) -> None:
    """Check assignments to `parameters` for values that `solver` or the rows of the model would ignore."""
    model = parameters.model

    def check(name: str, values: np.ndarray) -> None:
        if name == "joint_friction":
            _refuse_new_friction(model, values)
        elif name == "joint_range":
            _refuse_new_stops(model, values)
        elif name.startswith(("tendon_", "constraint_")):
            refuse_other_rows(model, name, values)
        elif name in ("actuator_gain", "actuator_bias"):
            _refuse_new_feedback(model, name, values)
        if name in ("actuator_gain", "actuator_bias", "control_range"):
            _refuse_pushing(model, name, values)
        solver.check_parameter(parameters, name, values)

    parameters.check(check)


def guard_inertia(parameters: Parameters, solver: ContactModel) -> None:
    """Refuse bodies and joints too heavy for contact and constraints, in the model and when assigned to
    `parameters`."""

    def check(name: str, values: np.ndarray) -> None:
        if name in ("body_mass", "joint_armature"):
            _refuse_inertia(parameters.model, solver, name, values)

    for name in ("body_mass", "joint_armature"):
        check(name, getattr(parameters.model, name))
    parameters.check(check)


def _refuse_inertia(model: Model, solver: ContactModel, name: str, values: np.ndarray) -> None:
    """Refuse a body whose inverse mass is below the floor of contact: it would sink into the ground, or fall through
    it."""
    largest = np.atleast_2d(values).max(axis=0, initial=0.0)
    if name == "body_mass":
        largest = np.where([bool(model.ancestors(int(link))) for link in model.body_link], largest, 0.0)
    if largest.max(initial=0.0) <= solver.heaviest:
        return
    k = int(np.argmax(largest))
    owner, unit = (
        f"joint {model.joint_names[int(np.searchsorted(model.joint_v, k, side='right')) - 1]!r}: armature",
        "kg or kg m²",
    )
    if name == "body_mass":
        owner, unit = f"body {model.body_names[k]!r}: mass", "kg"
    raise ValueError(
        f"{owner} is {largest[k]:g} {unit}; contact and constraints hold at most {solver.heaviest:g} with "
        f"{solver.label}. Fix what shall not move to the world (no joint), make it a mocap body, or choose larger units"
    )


def _refuse_new_feedback(model: Model, name: str, values: np.ndarray) -> None:
    """Refuse feedback for an actuator without feedback in the model if it acts on a spatial tendon, sites, a crank or a
    body's contacts: it has no row."""
    motors = np.union1d(line_motors(model), np.flatnonzero(model.actuator_body >= 0)).astype(int)
    bad = motors[(values[..., motors, 1:] != 0).reshape(-1, len(motors), 2).any((0, 2))] if len(motors) else motors
    if len(bad):
        raise ValueError(
            f"parameters[{name!r}] feeds back length or velocity of actuator {model.actuator_names[int(bad[0])]!r}, "
            "which has no feedback in the model and so no row for it; give it some there, however little"
        )


def _refuse_pushing(model: Model, name: str, values: np.ndarray) -> None:
    """Refuse adhesion that could push: the gain must be nonnegative and the bias 0, and the control range must start at
    0 or above."""
    sticks = np.flatnonzero(model.actuator_body >= 0)
    first = values.reshape(-1, model.nu, values.shape[-1])[:, sticks, 0]
    bad = (first != 0 if name == "actuator_bias" else first < 0).any(0)
    if bad.any():
        raise ValueError(
            f"parameters[{name!r}] makes actuator {model.actuator_names[int(sticks[bad][0])]!r} push, or pull without "
            "a control; contacts of a body stick with gain times control: give a gain and a control_range from 0 on, "
            "and a bias of 0"
        )


def _refuse_new_friction(model: Model, values: np.ndarray) -> None:
    """Refuse dry friction on a degree of freedom that has none in the model: it has no row."""
    bad = np.flatnonzero((np.atleast_2d(values) > 0).any(0) & (model.joint_friction == 0))
    if len(bad):
        d = int(bad[0])
        joint = model.joint_names[int(np.searchsorted(model.joint_v, d, side="right")) - 1]
        raise ValueError(
            f"parameters['joint_friction'] is {np.atleast_2d(values)[:, d].max():g} for joint {joint!r} (degree of "
            f"freedom {d}), which has none in the model and so no row for it; give the joint a friction there, however "
            "small"
        )


def _refuse_new_stops(model: Model, values: np.ndarray) -> None:
    """Refuse a range for a joint without limits in the model: it has no stops."""
    changed = (values != model.joint_range).any(-1).reshape(-1, model.njoint).any(0)
    bad = np.flatnonzero(changed & ~np.asarray(model.joint_limited, bool))
    if len(bad):
        j = int(bad[0])
        raise ValueError(
            f"parameters['joint_range'] sets that of joint {model.joint_names[j]!r}, which has no limits in the model "
            f"and so no stops; leave it at {model.joint_range[j].tolist()}, or give the joint a range in the model"
        )
