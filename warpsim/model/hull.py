"""Convex hulls of a model's meshes as flat tables for the contact kernels: vertices, polygon faces and edges.

The hull is SciPy's (Qhull: Barber, Dobkin, Huhdanpaa 1996); triangles in one plane are merged to a polygon. Hulls with
more than MAX_VERTICES vertices are simplified: starting from extreme vertices, the vertex farthest outside the hull of
those kept is added until the limit, so that the simplified hull lies inside and `deviation` bounds the distance.
"""

import numpy as np

from warpsim.errors import ModelError
from warpsim.model.model import GeomType, Mesh, Model

MAX_VERTICES = 64  # of a hull: support scans are linear, and contact points are few
COPLANAR = 1e-5  # angle [rad] and, times the size, offset [m] within which hull triangles lie in one plane
SMALLEST_THICKNESS = 1e-3  # of the size: flat meshes are thickened to this, a hull needs a volume


def _hull(points):
    from scipy.spatial import ConvexHull  # only models with meshes wait for SciPy to load

    return ConvexHull(points)


def hull_vertices(points, limit: int = MAX_VERTICES) -> tuple[np.ndarray, float]:
    """At most `limit` vertices `(n, 3)` of the convex hull, and how far the hull of all sticks out of theirs [m]."""
    vertices = points[_hull(points).vertices]
    if len(vertices) <= limit:
        return vertices, 0.0
    directions = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if x or y or z], float)
    kept = list(dict.fromkeys((vertices @ directions.T).argmax(0).tolist()))
    while True:
        equations = _hull(vertices[kept]).equations
        outside = (vertices @ equations[:, :3].T + equations[:, 3]).max(1)
        farthest = int(outside.argmax())
        if len(kept) >= limit or outside[farthest] <= 0 or farthest in kept:
            return vertices[sorted(kept)], float(max(outside[farthest], 0.0))
        kept.append(farthest)


def _thickened(points: np.ndarray) -> np.ndarray:
    """Points of a flat or needle-shaped mesh, doubled a little apart along its thin axes."""
    center = points.mean(0)
    spread, axes = np.linalg.svd(points - center, full_matrices=True)[1:]
    size = np.abs(points - center).max()
    spread = np.concatenate([spread, np.zeros(3 - len(spread))])
    for axis in axes[spread <= 1e-6 * max(spread.max(), 1e-300)]:
        points = np.concatenate([points + SMALLEST_THICKNESS * size * axis, points - SMALLEST_THICKNESS * size * axis])
    return points


def _polygon(points: np.ndarray, members: np.ndarray, normal: np.ndarray) -> list[int]:
    """The members that are corners of their convex polygon, counterclockwise about the normal."""
    tangent = np.linalg.svd(normal[None])[2][1]
    plane = np.stack([points[members] @ tangent, points[members] @ np.cross(normal, tangent)], axis=1)
    return members[_hull(plane).vertices].tolist()


def polygon_faces(points: np.ndarray) -> tuple[list[list[int]], np.ndarray]:
    """Faces of the convex hull of points that are all its vertices: loops of indices, and outward normals `(n, 3)`."""
    hull = _hull(points)
    tolerance = COPLANAR * np.ptp(points, axis=0).max()
    taken = np.zeros(len(hull.simplices), bool)
    faces, normals = [], []
    corners = points[hull.simplices]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    for i in np.argsort(-area, kind="stable"):
        if taken[i]:
            continue
        normal, offset = hull.equations[i, :3], hull.equations[i, 3]
        level = (corners @ normal + offset > -tolerance).all(1) & (hull.equations[:, :3] @ normal > 0.9) & ~taken
        level[i] = True
        taken |= level
        faces.append(_polygon(points, np.unique(hull.simplices[level]), normal))
        normals.append(normal)
    return faces, np.array(normals)


def convex_mesh(mesh: Mesh, limit: int = MAX_VERTICES) -> dict:
    """`vertices`, `faces` (index loops), `normals`, `edges (n, 2)` and `deviation` [m] of a mesh's convex hull."""
    points = np.unique(np.asarray(mesh.vertices, float), axis=0)
    try:  # Qhull's error is a RuntimeError
        try:
            vertices, deviation = hull_vertices(points, limit)
        except (ValueError, RuntimeError):
            vertices, deviation = hull_vertices(_thickened(points), limit)
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"mesh {mesh.name!r}: no convex hull for contact: {str(error).split(chr(10))[0]}") from None
    faces, normals = polygon_faces(vertices)
    pairs = {tuple(sorted(pair)) for face in faces for pair in zip(face, face[1:] + face[:1], strict=True)}
    return {
        "vertices": vertices,
        "faces": faces,
        "normals": normals,
        "edges": np.array(sorted(pairs), dtype=np.int32),
        "deviation": deviation,
    }


def _prisms(field) -> list[dict]:
    """The two triangles of every cell, row by row, each as a vertical prism that reaches down to the base."""
    rows, columns = field.data.shape
    x, y, top, base = field.size
    grid = np.empty((rows, columns, 3))
    grid[..., 0], grid[..., 1] = np.linspace(-x, x, columns), np.linspace(-y, y, rows)[:, None]
    grid[..., 2] = top * field.data
    edges = np.array([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)], np.int32)
    edges = np.sort(edges, axis=1)
    faces = [[0, 1, 2], [3, 5, 4], [0, 3, 4, 1], [1, 4, 5, 2], [2, 5, 3, 0]]
    out = []
    for i in range(rows - 1):
        for j in range(columns - 1):
            for corners in (((i, j), (i, j + 1), (i + 1, j + 1)), ((i, j), (i + 1, j + 1), (i + 1, j))):
                upper = np.array([grid[c] for c in corners])
                lower = upper * [1, 1, 0] - [0, 0, base]
                vertices = np.concatenate([upper, lower])
                normals = [np.cross(vertices[f[1]] - vertices[f[0]], vertices[f[2]] - vertices[f[0]]) for f in faces]
                normals = np.array([n / np.linalg.norm(n) for n in normals])
                out.append({"vertices": vertices, "edges": edges, "faces": faces, "normals": normals, "deviation": 0.0})
    return out


def convex_table(model: Model) -> dict[str, np.ndarray]:
    """Flat arrays of all convex meshes and height fields of a model, named as the members of kernels' `MeshTable`.

    Height fields follow the meshes as prisms, two for each cell; `field_range (fields, 3)`: the first, rows and columns
    of cells. `mesh_range (meshes, 6)` holds per mesh the start and count of its vertices, edges and faces; `face (faces, 2)` the
    start and count of a face in `face_vertex` and `face_edge` (indices within the mesh). `deviation (meshes,)` [m] says
    how far a simplified hull lies inside the true one.
    """
    used = {int(k) for k, kind in zip(model.geom_mesh, model.geom_type, strict=True) if kind == GeomType.MESH}
    vertices, edges, faces, face_vertex, face_edge, normals = [], [], [], [], [], []
    hulls = [convex_mesh(mesh) if k in used else None for k, mesh in enumerate(model.meshes)]
    fields = np.zeros((len(model.hfields), 3), np.int32)
    for k, field in enumerate(model.hfields):
        fields[k] = [len(hulls), field.data.shape[0] - 1, field.data.shape[1] - 1]
        hulls += _prisms(field)
    ranges, deviation = np.zeros((len(hulls), 6), np.int32), np.zeros(len(hulls))
    for k, hull in enumerate(hulls):
        if hull is None:
            continue
        deviation[k] = hull["deviation"]
        sizes = [len(hull[key]) for key in ("vertices", "edges", "faces")]
        ranges[k] = [len(vertices), sizes[0], len(edges), sizes[1], len(faces), sizes[2]]
        index = {tuple(edge): e for e, edge in enumerate(hull["edges"].tolist())}
        for face in hull["faces"]:
            faces.append((len(face_vertex), len(face)))
            face_vertex += face
            face_edge += [index[tuple(sorted(pair))] for pair in zip(face, face[1:] + face[:1], strict=True)]
        vertices += hull["vertices"].tolist()
        edges += hull["edges"].tolist()
        normals += hull["normals"].tolist()
    return {
        "vertex": np.array(vertices, float).reshape(-1, 3),
        "edge": np.array(edges, np.int32).reshape(-1, 2),
        "face": np.array(faces, np.int32).reshape(-1, 2),
        "face_vertex": np.array(face_vertex, np.int32),
        "face_edge": np.array(face_edge, np.int32),
        "face_normal": np.array(normals, float).reshape(-1, 3),
        "mesh_range": ranges,
        "field_range": fields,
        "deviation": deviation,
    }
