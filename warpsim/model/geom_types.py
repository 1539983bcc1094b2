# SPDX-License-Identifier: Apache-2.0
"""What each type of geom is: extents, bounding radius, support function, volume and inertia."""

import numpy as np

from warpsim.model.model import GeomType, Model


def half_extents(kind: GeomType, size) -> np.ndarray:
    """Half extents (3,) [m] of the box around a geom, along its axes; the size itself for types without an entry."""
    size = np.asarray(size, float)
    if kind == GeomType.SPHERE:
        return size[[0, 0, 0]]
    if kind == GeomType.CAPSULE:
        return np.array([size[0], size[0], size[0] + size[1]])
    if kind == GeomType.CYLINDER:
        return size[[0, 0, 1]]
    return size.copy()


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


def support(kind: GeomType, size, d: np.ndarray) -> np.ndarray:
    """max x·d over a shape that its size describes, `(n,)` for directions `d (n, 3)` in its axes."""
    if kind == GeomType.SPHERE:
        return np.full(len(d), size[0])
    if kind == GeomType.CAPSULE:
        return size[0] + size[1] * np.abs(d[:, 2])
    if kind == GeomType.CYLINDER:
        return size[0] * np.hypot(d[:, 0], d[:, 1]) + size[1] * np.abs(d[:, 2])
    if kind == GeomType.ELLIPSOID:
        return np.linalg.norm(d * size, axis=1)
    return np.abs(d) @ size


def volume_and_inertia(kind: str, size) -> tuple[float, np.ndarray]:
    """Volume [m^3] and unit-density diagonal inertia (3,) [m^5] about the center of a solid primitive."""
    a, b, c = (float(x) for x in size)
    if kind == "sphere":
        volume = 4 / 3 * np.pi * a**3
        return volume, np.full(3, 0.4 * volume * a**2)
    if kind == "ellipsoid":
        volume = 4 / 3 * np.pi * a * b * c
        return volume, volume / 5 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    if kind == "box":
        volume = 8 * a * b * c
        return volume, volume / 3 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    height = 2 * b
    cylinder = np.pi * a * a * height
    across, along = cylinder * (3 * a * a + height * height) / 12, cylinder * a * a / 2
    if kind == "cylinder":
        return cylinder, np.array([across, across, along])
    if kind == "capsule":  # two half spheres, each with its center of mass 3a/8 beyond the cylinder's end
        ball = 4 / 3 * np.pi * a**3
        ball_across = ball * (0.4 * a * a + b * b + 2 * b * 3 * a / 8)
        return cylinder + ball, np.array([across + ball_across, across + ball_across, along + 0.4 * ball * a * a])
    raise ValueError(f"no closed-form mass properties for geom type {kind!r}; give the body's mass and inertia")
