"""What a solver, or the tables of a simulator, cannot follow: refused in the model, and when it is assigned to `sim.parameters`.

Values that a kernel writes into the arrays are not checked: nothing in a step reads device data back.
"""

import numpy as np

from warpsim.model.model import Model
from warpsim.model.parameters import Parameters
from warpsim.rows.constants import refuse_other_rows
from warpsim.solve.cone_qp.compliant import Compliant
from warpsim.solve.lcp.contact_lcp import LCP
from warpsim.solve.sap.sap import SAP


def refuse_material(model: Model, solver) -> None:
    """Refuse contact parameters of the model that the solver would ignore."""
    name = type(solver).__name__
    if isinstance(solver, (SAP, Compliant)) and model.geom_restitution.any():
        geom = model.geom_names[int(np.argmax(model.geom_restitution > 0))]
        raise ValueError(
            f"geom {geom!r} has restitution {model.geom_restitution.max():g}, which {name} contact does not model; "
            "use dissipation_time, or set the restitution to 0"
        )
    hertz, soft = model.geom_hertz_modulus > 0, np.isfinite(model.geom_stiffness)
    if isinstance(solver, (SAP, LCP)) and hertz.any():
        geom = model.geom_names[int(np.argmax(hertz))]
        raise ValueError(
            f"geom {geom!r} has hertz_modulus {model.geom_hertz_modulus.max():g}, which {name} contact does not model; "
            "use solver=ws.Compliant(), or a stiffness"
        )
    for a, b in model.pair_geom[(hertz | soft)[model.pair_geom].all(1)]:
        if hertz[a] != hertz[b]:
            a, b = (a, b) if hertz[a] else (b, a)
            raise ValueError(
                f"geom {model.geom_names[a]!r} has a hertz_modulus and may touch {model.geom_names[b]!r}, which has "
                f"stiffness {model.geom_stiffness[b]:g}; give both a hertz_modulus, or both a stiffness, or let one be "
                "near-rigid"
            )


def guard_parameters(parameters: Parameters, solver) -> None:
    """Have assignments to `parameters` checked for what `solver` and the rows of the model would ignore."""
    model = parameters.model

    def check(name: str, values: np.ndarray) -> None:
        if name == "joint_friction":
            _refuse_new_friction(model, values)
        elif name == "joint_range":
            _refuse_new_stops(model, values)
        elif name.startswith(("tendon_", "constraint_")):
            refuse_other_rows(model, name, values)
        elif name in ("geom_hertz_modulus", "geom_stiffness") and isinstance(solver, Compliant):
            others = {n: parameters.stored(n).numpy() for n in ("geom_hertz_modulus", "geom_stiffness")} | {
                name: values
            }
            _refuse_mixed_pairs(model, others["geom_hertz_modulus"], others["geom_stiffness"])

    parameters.check(check)


def _refuse_new_friction(model: Model, values: np.ndarray) -> None:
    """A degree of freedom without dry friction in the model has no row for it."""
    bad = np.flatnonzero((np.atleast_2d(values) > 0).any(0) & (model.joint_friction == 0))
    if len(bad):
        d = int(bad[0])
        joint = model.joint_names[int(np.searchsorted(model.joint_v, d, side="right")) - 1]
        raise ValueError(
            f"parameters['joint_friction'] is {np.atleast_2d(values)[:, d].max():g} for joint {joint!r} (degree of freedom "
            f"{d}), which has none in the model and so no row for it; give the joint a friction there, however small"
        )


def _refuse_new_stops(model: Model, values: np.ndarray) -> None:
    """A joint without limits in the model has no stops."""
    changed = (values != model.joint_range).any(-1).reshape(-1, model.njoint).any(0)
    bad = np.flatnonzero(changed & ~np.asarray(model.joint_limited, bool))
    if len(bad):
        j = int(bad[0])
        raise ValueError(
            f"parameters['joint_range'] sets that of joint {model.joint_names[j]!r}, which has no limits in the model and "
            f"so no stops; leave it at {model.joint_range[j].tolist()}, or give the joint a range in the model"
        )


def _refuse_mixed_pairs(model: Model, modulus: np.ndarray, stiffness: np.ndarray) -> None:
    """A pair with Hertz's law on one side and a linear spring on the other has no law."""
    hertz, soft = np.atleast_2d(modulus) > 0, np.isfinite(np.atleast_2d(stiffness))
    first, second = model.pair_geom.reshape(-1, 2).T
    mixed = (hertz[:, first] & ~hertz[:, second] & soft[:, second]) | (
        hertz[:, second] & ~hertz[:, first] & soft[:, first]
    )
    if mixed.any():
        pair = int(np.flatnonzero(mixed.any(0))[0])
        a, b = (model.geom_names[int(g)] for g in (first[pair], second[pair]))
        raise ValueError(
            f"geoms {a!r} and {b!r} may touch, one with a hertz_modulus and the other with a stiffness; give both a "
            "hertz_modulus, or both a stiffness, or let one be near-rigid"
        )
