# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes as solids: watertightness, convex hull, volume, center and inertia. Only the hull needs SciPy.

The integrals are sums over the tetrahedra that the triangles span with a reference point (Mirtich 1996; exact for a
closed surface): volume V, first moment, and second moment S = integral of x xᵀ. The inertia is tr(S) 1 − S.
"""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.by_content import Kept, content

_SIMPLEX = (np.ones((3, 3)) + np.eye(3)) / 20.0  # integral of x xᵀ over a tetrahedron with a corner at 0, per volume


def weld(vertices, faces) -> tuple[np.ndarray, np.ndarray]:
    """The mesh with equal vertices merged; triangles with fewer than three distinct vertices are dropped."""
    vertices, inverse = np.unique(np.asarray(vertices, float), axis=0, return_inverse=True)
    faces = inverse.reshape(-1)[np.asarray(faces, int)]
    proper = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return vertices, faces[proper]


def is_watertight(vertices, faces) -> bool:
    """Whether every directed edge has its opposite exactly once: a closed surface with one orientation."""
    _, faces = weld(vertices, faces)
    if len(faces) < 4:
        return False
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    n = int(faces.max()) + 1
    there, back = np.sort(edges[:, 0] * n + edges[:, 1]), np.sort(edges[:, 1] * n + edges[:, 0])
    return bool(np.array_equal(there, back) and (np.diff(there) > 0).all())


_hulls = Kept(1024)


def convex_hull(vertices) -> tuple[np.ndarray, np.ndarray]:
    """Convex hull: vertices (n, 3) and outward triangles (m, 3), cached by the vertices' content.

    A flat hull is thickened by 1e-3 of its width. Raises `ModelError` for fewer than three distinct points, for points
    on a line, or without SciPy.
    """
    vertices, faces = _hulls.get(content(np.asarray(vertices, float)), lambda: _convex_hull(vertices))
    return vertices.copy(), faces.copy()


def _convex_hull(vertices) -> tuple[np.ndarray, np.ndarray]:
    """`convex_hull` without the cache."""
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError:
        raise ModelError("convex hulls of meshes need SciPy: pip install 'warpsim[mesh]'") from None
    points = np.unique(np.asarray(vertices, float), axis=0)
    centre = points.mean(axis=0) if len(points) else np.zeros(3)
    _, spread, axes = np.linalg.svd(points - centre, full_matrices=False) if len(points) > 2 else (None, [0, 0], None)
    if spread[1] <= 1e-9 * max(spread[0], 1e-300):
        raise ModelError("a mesh whose points lie on a line or coincide has no convex hull; remove it")
    if spread[2] <= 1e-9 * spread[0]:
        half = 5e-4 * float(np.ptp(points @ axes[0])) * axes[2]
        points = np.concatenate([points - half, points + half])
    scale = float(np.abs(points - centre).max())
    try:
        hull = ConvexHull((points - centre) / scale)
    except QhullError:
        raise ModelError("the convex hull of a mesh cannot be computed; check its vertices") from None
    kept, faces = np.unique(hull.simplices, return_inverse=True)
    faces, points = faces.reshape(-1, 3), points[kept]
    corner = points[faces]
    normals = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    inward = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return points, faces


def integrals(vertices, faces) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3], center (3,) and unit-density inertia (3, 3) [m^5] about it, inside a closed surface."""
    vertices = np.asarray(vertices, float)
    origin = (vertices.min(axis=0) + vertices.max(axis=0)) / 2  # near the solid, where rounding is least
    corners = (vertices - origin)[np.asarray(faces, int)]
    signed = np.linalg.det(corners) / 6.0
    volume = float(signed.sum())
    if not volume > 0:
        return volume, origin, np.zeros((3, 3))
    centre = np.einsum("t,tij->j", signed, corners) / (4.0 * volume)
    second = np.einsum("t,tia,ij,tjb->ab", signed, corners, _SIMPLEX, corners, optimize=True)
    second -= volume * np.outer(centre, centre)
    inertia = np.trace(second) * np.eye(3) - second
    return volume, origin + centre, (inertia + inertia.T) / 2


def solid(vertices, faces) -> tuple[float, np.ndarray, np.ndarray, bool]:
    """`integrals` of a mesh, whichever way its triangles face, and whether it is watertight; else those of its hull."""
    if is_watertight(vertices, faces):
        volume, centre, inertia = integrals(vertices, faces)
        if volume < 0:
            volume, centre, inertia = integrals(vertices, np.asarray(faces)[:, ::-1])
        if volume > 0 and np.linalg.eigvalsh(inertia)[0] > 0:
            return volume, centre, inertia, True
    return *integrals(*convex_hull(vertices)), False
