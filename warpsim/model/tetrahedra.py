# SPDX-License-Identifier: Apache-2.0
"""Pressure fields on tetrahedral meshes: checks of the mesh, and the default pressure."""

import numpy as np

from warpsim.base.checks import short
from warpsim.base.errors import ModelError
from warpsim.model.model import TetField

# face k is opposite to corner k, outward in a positive tetrahedron
FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])
THINNEST = 1e-9  # least volume over the cube of the longest edge
CHUNK = 1 << 18  # distances computed at a time


def checked_field(name: str, vertices, tetrahedra, pressure=None) -> TetField:
    """A checked `TetField`, with the default pressure where none is given.

    Raises `ModelError` naming the wrong element.
    """
    label = "Hydroelastic: field" if name == "field" else f"Hydroelastic: field {short(name)}"
    vertices, tets = np.array(vertices, float), np.asarray(tetrahedra)
    if vertices.ndim != 2 or vertices.shape[1:] != (3,) or not np.isfinite(vertices).all():
        raise ModelError(f"{label}: vertices have the shape {vertices.shape}; give finite (n, 3) [m]")
    if tets.ndim != 2 or tets.shape[1:] != (4,) or len(tets) == 0 or not np.isin(tets, np.arange(len(vertices))).all():
        raise ModelError(
            f"{label}: tetrahedra must be (m, 4) indices of the {len(vertices)} vertices, one at least; got shape "
            f"{tets.shape}"
        )
    tets = tets.astype(int)
    _check_volumes(vertices, tets, label)
    _check_faces(tets, label)
    lone = np.setdiff1d(np.arange(len(vertices)), tets)
    if len(lone):
        raise ModelError(f"{label}: vertex {lone[0]} is in no tetrahedron ({len(lone)} such); leave it out")
    outer = np.zeros(len(vertices), bool)
    outer[tets[:, FACES][boundary_faces(tets)]] = True
    if pressure is None:
        if outer.all():
            raise ModelError(
                f"{label}: all {len(vertices)} vertices are on the boundary, where the pressure is 0; refine the "
                "mesh, or give the pressure"
            )
        pressure = np.where(outer, 0.0, depths(vertices, tets))
        pressure = pressure / pressure.max()
    pressure = np.array(pressure, float)
    if pressure.shape != (len(vertices),) or not ((pressure >= 0) & (pressure <= 1)).all():
        raise ModelError(
            f"{label}: pressure has the shape {pressure.shape}; give ({len(vertices)},) values from 0 to 1, in units "
            "of the modulus"
        )
    constant = np.ptp(pressure[tets], axis=1) == 0
    if constant.any():
        t = int(np.argmax(constant))
        raise ModelError(
            f"{label}: tetrahedron {t} {tets[t].tolist()} has the same pressure at its four vertices "
            f"({int(constant.sum())} such); split it, as Drake's refine_mesh does, or give the pressure"
        )
    return TetField(name, vertices, tets, pressure)


def _check_volumes(vertices, tets, label: str) -> None:
    a, b, c, d = (vertices[tets[:, k]] for k in range(4))
    volume = np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6
    longest = np.max(
        [np.linalg.norm(x - y, axis=1) for x, y in ((a, b), (a, c), (a, d), (b, c), (b, d), (c, d))], axis=0
    )
    for bad, what, fix in (
        (np.abs(volume) <= THINNEST * longest**3, "is degenerate", "leave it out or repair the mesh"),
        (volume < 0, "is inverted", "swap two of its vertices"),
    ):
        if bad.any():
            t = int(np.argmax(bad))
            raise ModelError(
                f"{label}: tetrahedron {t} {tets[t].tolist()} {what}, its volume is {volume[t]:.3g} m^3 "
                f"({int(bad.sum())} such); {fix}"
            )


def _check_faces(tets, label: str) -> None:
    faces = np.sort(tets[:, FACES].reshape(-1, 3), axis=1)
    _, index, count = np.unique(faces, axis=0, return_inverse=True, return_counts=True)
    shared = count[index.ravel()] > 2
    if shared.any():
        f = int(np.argmax(shared))
        raise ModelError(
            f"{label}: tetrahedron {f // 4}: its triangle {faces[f].tolist()} is of {int(count[index.ravel()][f])} "
            "tetrahedra; at most two can share one"
        )


def boundary_faces(tets: np.ndarray) -> np.ndarray:
    """`(m, 4)`: which faces (`FACES`) belong to one tetrahedron only."""
    faces = np.sort(tets[:, FACES].reshape(-1, 3), axis=1)
    _, index, count = np.unique(faces, axis=0, return_inverse=True, return_counts=True)
    return (count[index.ravel()] == 1).reshape(-1, 4)


def surface(tets: np.ndarray) -> np.ndarray:
    """Triangles `(k, 3)` of the boundary, outward."""
    return tets[:, FACES][boundary_faces(tets)]


def depths(vertices: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """Distance `(n,)` [m] of each vertex from the boundary's triangles; 0 for vertices on it.

    The search covers the triangles whose center is nearer than the nearest corner plus the radius of the largest
    triangle.
    """
    from scipy.spatial import cKDTree

    faces = surface(tets)
    outer = np.unique(faces)
    inner = np.setdiff1d(np.arange(len(vertices)), outer)
    result = np.zeros(len(vertices))
    if len(inner) == 0:
        return result
    triangles = vertices[faces]
    centres = triangles.mean(axis=1)
    radius = np.linalg.norm(triangles - centres[:, None], axis=2).max()
    nearest, _ = cKDTree(vertices[outer]).query(vertices[inner])
    near = cKDTree(centres).query_ball_point(vertices[inner], (nearest + radius) * (1 + 1e-9))
    count = np.array([len(row) for row in near])
    ends = np.cumsum(count)
    start = 0
    while start < len(inner):
        end = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + CHUNK, "right")))
        which = np.concatenate([np.asarray(row, int) for row in near[start:end]])
        points = np.repeat(vertices[inner[start:end]], count[start:end], axis=0)
        found = _distance(points, *(triangles[which, i] for i in range(3)))
        firsts = ends[start:end] - count[start:end] - (ends[start] - count[start])
        result[inner[start:end]] = np.minimum.reduceat(found, firsts)
        start = end
    return result


def _distance(p, a, b, c) -> np.ndarray:
    """Distance of points from triangles: to the plane if the foot is inside the triangle, else to the nearest edge."""
    normal = np.cross(b - a, c - a)
    normal = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    within, nearest = True, np.inf
    for x, y in ((a, b), (b, c), (c, a)):
        edge, arm = y - x, p - x
        within = within & ((np.cross(edge, arm) * normal).sum(-1) >= 0)
        t = np.clip((arm * edge).sum(-1) / (edge * edge).sum(-1), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(arm - t[..., None] * edge, axis=-1))
    return np.where(within, np.abs(((p - a) * normal).sum(-1)), nearest)
