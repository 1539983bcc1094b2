# SPDX-License-Identifier: Apache-2.0
"""Bounding radii of a model's geoms about their origins."""

import numpy as np

from warpsim.model.model import GeomType, Model


def bounding_radii(model: Model) -> np.ndarray:
    """(ngeom,) bounding radii at the model's sizes; inf for planes and height fields."""
    size = model.geom_size
    by_type = {
        GeomType.SPHERE: size[:, 0],
        GeomType.CAPSULE: size[:, 0] + size[:, 1],
        GeomType.CYLINDER: np.hypot(size[:, 0], size[:, 1]),
        GeomType.ELLIPSOID: size.max(axis=1, initial=0.0),
        GeomType.BOX: np.linalg.norm(size, axis=1),
    }
    radii = np.full(model.ngeom, np.inf)
    for kind, values in by_type.items():
        radii[model.geom_type == kind] = values[model.geom_type == kind]
    for g in np.flatnonzero(model.geom_type == GeomType.MESH):
        radii[g] = np.linalg.norm(model.meshes[model.geom_mesh[g]].vertices, axis=1).max(initial=0.0)
    return radii
