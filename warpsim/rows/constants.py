# SPDX-License-Identifier: Apache-2.0
"""Which constants of tendons and constraints may differ per world: those for which the model has rows.

Values are checked when they are assigned to `sim.parameters`. The rows are made once, from the model.
"""

import numpy as np

from warpsim.model.constraint_types import LEAST_LENGTH, TYPES, ConstraintType
from warpsim.model.model import Model

# Without a row in the model the value cannot change; with a row it may be any allowed value.
_TENDON_ROWS = {
    "tendon_range": ("range", lambda m: np.asarray(m.tendon_limited, bool)),
    "tendon_stiffness": ("spring", lambda m: (m.tendon_stiffness > 0) | (m.tendon_damping > 0)),
    "tendon_damping": ("spring", lambda m: (m.tendon_stiffness > 0) | (m.tendon_damping > 0)),
    "tendon_friction": ("dry friction", lambda m: m.tendon_friction > 0),
}


def refuse_other_rows(model: Model, name: str, values: np.ndarray) -> None:
    """Raise `ValueError` for constants of tendons and constraints that need rows which the model does not have."""
    if not values.size:
        return
    if name in _TENDON_ROWS:
        what, has_row = _TENDON_ROWS[name]
        changed = _changed(values, getattr(model, name), model.ntendon)
        _refuse(name, model.tendon_names, changed & ~has_row(model), f"has no {what} in the model and so no row for it")
    elif name.startswith("constraint_"):
        changed = _changed(values, getattr(model, name), model.nconstraint)
        off = ~np.asarray(model.constraint_active, bool)
        _refuse(name, model.constraint_names, changed & off, "is not active in the model and so has no rows")
    if name == "constraint_stiffness":
        bad = (np.isinf(values) != np.isinf(model.constraint_stiffness)).any(-1).reshape(-1, model.nconstraint).any(0)
        _refuse(name, model.constraint_names, bad, "is near-rigid in the model and not here, or the other way round")
    elif name == "constraint_coefficients":
        for c, kind in enumerate(model.constraint_type):
            kind, alone = ConstraintType(kind), (model.constraint_joint[c] >= 0).sum() == 1
            bad = _error_in_coefficients(kind, alone, model.constraint_coefficients[c], values[..., c, :])
            _refuse(name, model.constraint_names[c : c + 1], np.array([bool(bad)]), bad)


def _error_in_coefficients(kind: ConstraintType, alone: bool, own: np.ndarray, values: np.ndarray) -> str:
    """What is wrong with the five coefficients of a constraint in any world; "" if nothing is.

    `own`: the model's coefficients. `alone`: the coupling has one joint.
    """
    size, values = 1 if alone else TYPES[kind].size, values.reshape(-1, 5)
    if TYPES[kind].option is None:
        size = 0
    if (values[:, size:] != own[size:]).any():
        return f"is a {kind.name.lower()} with {size} coefficients here; leave the others at {own[size:].tolist()}"
    if kind != ConstraintType.DISTANCE:
        bad = not np.isfinite(values).all() or (kind == ConstraintType.SCREW and not values[:, 0].all())
        return "takes finite coefficients, a pitch other than 0" if bad else ""
    low, high = values[:, 0], values[:, 1]
    fixed = own[0] == own[1]
    same = (low == high) if fixed else ((low > 0) == (own[0] > 0)) & (np.isinf(high) == np.isinf(own[1]))
    if not (same & (low >= 0) & (high >= low) & np.isfinite(low) & (high > LEAST_LENGTH)).all():
        rule = "one length > 0, twice" if fixed else "(shortest, longest) with the stops that it has in the model"
        return f"has the lengths {own[:2].tolist()} in the model; give it {rule}"
    return ""


def _changed(values: np.ndarray, own: np.ndarray, count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        # Values that were rounded to float32.
        rounded = (np.float32(values) == np.float32(own)) & np.isfinite(np.float32(own))
    same = (values == own) | rounded | (np.isnan(values) & np.isnan(own))
    return (~same).reshape(*same.shape[: same.ndim - own.ndim], count, -1).any(-1).reshape(-1, count).any(0)


def _refuse(name: str, names, bad: np.ndarray, why: str) -> None:
    if bad.any():
        element = names[int(np.flatnonzero(bad)[0])]
        raise ValueError(f"parameters[{name!r}] cannot be set so for {element!r}, which {why}")
