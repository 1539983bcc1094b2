# SPDX-License-Identifier: Apache-2.0
"""Contact stiffness that a reader maps from MuJoCo's `solref` and `solimp`, in distinction to stiffness that is given.

A geom's stiffness is mapped while `geom_stiffness` is what the reader made of them, `geom_mapped_stiffness`. Assigning
another value, in the builder or by `dataclasses.replace`, makes it one that is given.
"""

import dataclasses

import numpy as np

from warpsim.model.model import Model

ROUNDING = 1e-9  # relative; files keep a stiffness to rounding


def is_mapped(model: Model, stiffness: np.ndarray | None = None) -> np.ndarray:
    """`(ngeom,)` whether the stiffness of each geom is mapped. `stiffness` (rows, ngeom): default, the model's."""
    found = np.atleast_2d(model.geom_stiffness if stiffness is None else stiffness)
    mapped = model.geom_mapped_stiffness
    with np.errstate(invalid="ignore"):
        near = np.abs(found - mapped) <= ROUNDING * np.abs(mapped)
    return (near & np.isfinite(found)).all(axis=0)


def without_mapped_stiffness(model: Model) -> Model:
    """The model with near-rigid contact, and the default dissipation time, where the stiffness is mapped."""
    mapped = is_mapped(model)
    if not mapped.any():
        return model
    return dataclasses.replace(
        model,
        geom_stiffness=np.where(mapped, np.inf, model.geom_stiffness),
        geom_dissipation_time=np.where(mapped, np.nan, model.geom_dissipation_time),
    )
