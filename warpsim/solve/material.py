# SPDX-License-Identifier: Apache-2.0
"""Refuses contact material that a contact model would ignore or has no law for, naming the geom and the fix."""

import numpy as np

from warpsim.model.model import Model
from warpsim.model.mujoco_options import own_pairs


def ignored_material(model: Model, name: str, restitution: bool, hertz: bool, timed: bool = False) -> str | None:
    """Why the contact model `name` would ignore material of the model; None if it would not.

    `restitution`, `hertz`: whether the contact model has them. `timed`: it has restitution with `time_of_impact`.
    """
    if model.geom_restitution.any() and not restitution:
        out = "leave time_of_impact=False out, or use" if timed else "use solver=ws.SAP() or"
        return (
            f"{bouncy(model)}, which {name} contact does not model; {out} solver=ws.LCP(), or "
            "set the restitution to 0 (and give a stiffness and a small dissipation_time for a softer bounce)"
        )
    modulus = model.geom_hertz_modulus
    if modulus.any() and not hertz:
        geom = model.geom_names[int(np.argmax(modulus > 0))]
        return (
            f"geom {geom!r} has hertz_modulus {modulus.max():g}, which {name} contact does not model; "
            "use solver=ws.Compliant(), or a stiffness"
        )
    return None


def uneven_pair(model: Model) -> str | None:
    """The first explicit pair whose friction differs along the two tangents, for messages; None without."""
    sliding, other, _, rolling, last = model.pair_own_friction.T
    condim = model.pair_own_condim
    uneven = (condim > 1) & (sliding != other) | (condim > 4) & (rolling != last)
    if not uneven.any():
        return None
    pair = own_pairs(model)[np.argmax(uneven)]
    return " and ".join(repr(model.geom_names[g]) for g in model.pair_geom[pair])


def bouncy(model: Model) -> str:
    """The geom with the largest restitution, for messages."""
    worst = int(np.argmax(model.geom_restitution))
    return f"geom {model.geom_names[worst]!r} has restitution {model.geom_restitution[worst]:g}"


def mixed_pair(model: Model, modulus: np.ndarray, stiffness: np.ndarray) -> tuple[int, int] | None:
    """The first pair of geoms with Hertz's law on one side, named first, and a linear spring on the other.

    Such a pair has no law.

    `modulus`, `stiffness`: (ngeom,) or (worlds, ngeom).
    """
    hertz, soft = np.atleast_2d(modulus) > 0, np.isfinite(np.atleast_2d(stiffness))
    first, second = model.pair_geom.reshape(-1, 2).T
    mixed = (hertz[:, first] & ~hertz[:, second] & soft[:, second]) | (
        hertz[:, second] & ~hertz[:, first] & soft[:, first]
    )
    if not mixed.any():
        return None
    pair = int(np.flatnonzero(mixed.any(0))[0])
    a, b = int(first[pair]), int(second[pair])
    return (a, b) if hertz[:, a].any() else (b, a)
