# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of a model's meshes as flat tables for the contact kernels: vertices, polygon faces and edges.

The hull is SciPy's (Qhull: Barber, Dobkin, Huhdanpaa 1996). Coplanar triangles are merged into polygons. A hull with
more than `Mesh.max_hull_vertices` vertices is simplified: from extreme vertices on, the vertex farthest outside the
hull of those kept is added until the limit. The simplified hull thus lies inside the true one, and `deviation` bounds
the distance. A hull is computed once for equal vertices and limit, across models and meshes. Its tables lie on the
device once.
"""

import numpy as np

from warpsim.base.errors import ModelError
from warpsim.model.by_content import Kept, content
from warpsim.model.model import Mesh, Model

MAX_CORNERS = 64  # of one face, which kernels clip in registers (kernels/contact/narrow/clip.py)
KEPT_HULLS = 4096  # per process, about 10 kB each
COPLANAR = 1e-5  # hull triangles are coplanar within this angle [rad] and, times the size, this offset [m]
SMALLEST_THICKNESS = 1e-3  # times the size: flat meshes are thickened to this, because a hull needs a volume


def _hull(points):
    from scipy.spatial import ConvexHull  # SciPy loads only for models with meshes

    return ConvexHull(points)


def hull_vertices(points, limit: int) -> tuple[np.ndarray, float]:
    """At most `limit` vertices `(n, 3)` of the convex hull, and how far the full hull reaches outside theirs [m]."""
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
    """The points of a flat or needle-shaped mesh, doubled and moved slightly apart along its thin axes."""
    center = points.mean(0)
    spread, axes = np.linalg.svd(points - center, full_matrices=True)[1:]
    size = np.abs(points - center).max()
    spread = np.concatenate([spread, np.zeros(3 - len(spread))])
    for axis in axes[spread <= 1e-6 * max(spread.max(), 1e-300)]:
        points = np.concatenate([points + SMALLEST_THICKNESS * size * axis, points - SMALLEST_THICKNESS * size * axis])
    return points


def _polygon(points: np.ndarray, members: np.ndarray, normal: np.ndarray) -> list[int]:
    """The members that are corners of the convex polygon that they form, counterclockwise about the normal."""
    tangent = np.linalg.svd(normal[None])[2][1]
    plane = np.stack([points[members] @ tangent, points[members] @ np.cross(normal, tangent)], axis=1)
    return members[_hull(plane).vertices].tolist()


def polygon_faces(points: np.ndarray) -> tuple[list[list[int]], np.ndarray]:
    """Faces of the convex hull of points that are all hull vertices: loops of indices, and outward normals `(n, 3)`."""
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


def _fewer_corners(vertices: np.ndarray) -> np.ndarray:
    """The vertices, thinned evenly on each face that has more than MAX_CORNERS."""
    while True:
        faces = [face for face in polygon_faces(vertices)[0] if len(face) > MAX_CORNERS]
        if not faces:
            return vertices
        surplus = [
            np.delete(face, np.linspace(0, len(face), MAX_CORNERS, endpoint=False).astype(int)) for face in faces
        ]
        vertices = np.delete(vertices, np.unique(np.concatenate(surplus)), axis=0)


def _outside(points: np.ndarray, vertices: np.ndarray) -> float:
    """How far the points reach outside the hull of the vertices."""
    equations = _hull(vertices).equations
    return max(float((points @ equations[:, :3].T + equations[:, 3]).max()), 0.0)


_hulls = Kept(KEPT_HULLS)


def _key(mesh: Mesh) -> bytes:
    """A cache key that two meshes with the same hull share."""
    return content(mesh.vertices, mesh.max_hull_vertices)


def convex_mesh(mesh: Mesh) -> dict:
    """`vertices`, `faces` (index loops), `normals`, `edges (n, 2)` and `deviation` [m] of a mesh's convex hull.

    The result is cached and must not be written to.
    """
    return _hulls.get(_key(mesh), lambda: _convex_mesh(mesh, mesh.max_hull_vertices))


def _convex_mesh(mesh: Mesh, limit: int) -> dict:
    points = np.unique(np.asarray(mesh.vertices, float), axis=0)
    try:  # Qhull's error is a RuntimeError
        try:
            vertices, deviation = hull_vertices(points, limit)
        except (ValueError, RuntimeError):
            vertices, deviation = hull_vertices(_thickened(points), limit)
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"mesh {mesh.name!r}: no convex hull for contact: {str(error).split(chr(10))[0]}") from None
    if len(vertices) > MAX_CORNERS and len(fewer := _fewer_corners(vertices)) < len(vertices):
        vertices, deviation = fewer, deviation + _outside(vertices, fewer)
    faces, normals = polygon_faces(vertices)
    pairs = {tuple(sorted(pair)) for face in faces for pair in zip(face, face[1:] + face[:1], strict=True)}
    return {
        "vertices": vertices,
        "faces": faces,
        "normals": normals,
        "edges": np.array(sorted(pairs), dtype=np.int32),
        "deviation": deviation,
    }


PRISM_FACES = ([0, 1, 2], [3, 5, 4], [0, 3, 4, 1], [1, 4, 5, 2], [2, 5, 3, 0])  # vertices 0 1 2 are above, 3 4 5 below
PRISM_EDGES = ((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5))


def _prisms(field) -> dict[str, np.ndarray]:
    """Tables of a height field: the two triangles of every cell, row by row, as vertical prisms down to the base."""
    rows, columns = field.data.shape
    x, y, top, base = field.size
    grid = np.empty((rows, columns, 3))
    grid[..., 0], grid[..., 1] = np.linspace(-x, x, columns), np.linspace(-y, y, rows)[:, None]
    grid[..., 2] = top * field.data
    a, b, c, d = grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]
    upper = np.stack([np.stack([a, b, c], axis=-2), np.stack([a, c, d], axis=-2)], axis=2).reshape(-1, 3, 3)
    vertices = np.concatenate([upper, upper * [1, 1, 0] - [0, 0, base]], axis=1)
    first, second, third = (vertices[:, [face[k] for face in PRISM_FACES]] for k in range(3))
    normals = np.cross(second - first, third - first)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    index = {edge: e for e, edge in enumerate(PRISM_EDGES)}
    loops = [
        (v, index[tuple(sorted(pair))])
        for f in PRISM_FACES
        for v, pair in zip(f, zip(f, f[1:] + f[:1], strict=True), strict=True)
    ]
    sizes = [len(face) for face in PRISM_FACES]
    starts = np.cumsum([0, *sizes])
    count = len(vertices)
    first_loop = starts[-1] * np.arange(count)[:, None] + starts[:-1]
    return {
        "vertex": vertices.reshape(-1, 3),
        "edge": np.tile(PRISM_EDGES, (count, 1)),
        "face": np.stack(np.broadcast_arrays(first_loop, sizes), axis=-1).reshape(-1, 2),
        "face_vertex": np.tile([v for v, _ in loops], count),
        "face_edge": np.tile([e for _, e in loops], count),
        "face_normal": normals.reshape(-1, 3),
        "mesh_range": np.stack(
            np.broadcast_arrays(*(x for k in (6, 9, 5) for x in (k * np.arange(count), k))), axis=-1
        ),
        "deviation": np.zeros(count),
    }


def _hull_tables(hull: dict) -> dict[str, np.ndarray]:
    """Tables of one convex mesh."""
    index = {tuple(edge): e for e, edge in enumerate(hull["edges"].tolist())}
    sizes = [len(face) for face in hull["faces"]]
    pairs = [tuple(sorted(pair)) for face in hull["faces"] for pair in zip(face, face[1:] + face[:1], strict=True)]
    return {
        "vertex": hull["vertices"],
        "edge": hull["edges"],
        "face": np.stack([np.cumsum([0, *sizes[:-1]]), sizes], axis=-1),
        "face_vertex": np.array([v for face in hull["faces"] for v in face]),
        "face_edge": np.array([index[pair] for pair in pairs]),
        "face_normal": hull["normals"],
        "mesh_range": np.array([[0, len(hull["vertices"]), 0, len(hull["edges"]), 0, len(sizes)]]),
        "deviation": np.array([hull["deviation"]]),
    }


EMPTY = {
    **{name: np.zeros((0, 3)) for name in ("vertex", "face_normal")},
    **{name: np.zeros((0, 2), np.int32) for name in ("edge", "face")},
    **{name: np.zeros(0, np.int32) for name in ("face_vertex", "face_edge")},
    "mesh_range": np.zeros((0, 6), np.int32),
    "deviation": np.zeros(0),
}


def convex_table(model: Model) -> dict[str, np.ndarray]:
    """Flat arrays of all convex meshes and height fields of a model, named after the members of the kernels'
    `MeshTable`.

    Height fields follow the meshes as prisms, two for each cell. Meshes of equal content share their rows; meshes of
    geoms that cannot touch have none.

    - `mesh_range (meshes, 6)`: start and count of each mesh's vertices, edges and faces.
    - `face (faces, 2)`: start and count of a face in `face_vertex` and `face_edge` (indices within the mesh).
    - `field_range (fields, 3)`: the first prism of a height field, and its rows and columns of cells.
    - `deviation (meshes,)` [m]: how far a simplified hull lies inside the true one.
    """
    used = set(model.geom_mesh[model.pair_geom].reshape(-1).tolist())
    unused = EMPTY | {"mesh_range": np.zeros((1, 6), np.int32), "deviation": np.zeros(1)}
    keys = [_key(mesh) if k in used else None for k, mesh in enumerate(model.meshes)]
    first_of = {key: k for k, key in reversed(list(enumerate(keys)))}
    shared = [k if key is None else first_of[key] for k, key in enumerate(keys)]
    parts = [
        unused if key is None or shared[k] < k else _hull_tables(convex_mesh(mesh))
        for k, (key, mesh) in enumerate(zip(keys, model.meshes, strict=True))
    ]
    fields, first = np.zeros((len(model.hfields), 3), np.int32), len(parts)
    for k, field in enumerate(model.hfields):
        fields[k] = [first, field.data.shape[0] - 1, field.data.shape[1] - 1]
        parts.append(_prisms(field))
        first += len(parts[-1]["deviation"])
    counts = [[0] * 6, *([len(part["vertex"]), 0, len(part["edge"]), 0, len(part["face"]), 0] for part in parts)]
    loops = [0, *(len(part["face_vertex"]) for part in parts)]
    for part, before, loop in zip(parts, np.cumsum(counts, axis=0), np.cumsum(loops), strict=False):
        if part is not unused:
            part["mesh_range"] = part["mesh_range"] + before
            part["face"] = part["face"] + [loop, 0]
    tables = {
        name: np.concatenate([empty, *(part[name] for part in parts)]).astype(empty.dtype)
        for name, empty in EMPTY.items()
    }
    for name in ("mesh_range", "deviation"):
        tables[name][: len(shared)] = tables[name][shared]
    return tables | {"field_range": fields} | _of_vertices(tables["vertex"], tables["edge"], tables["mesh_range"])


def _of_vertices(vertex: np.ndarray, edge: np.ndarray, ranges: np.ndarray) -> dict[str, np.ndarray]:
    """Tables that follow from `vertex`, `edge` and `mesh_range`.

    `MeshTable.edges_at` and `edge_at` list the edges at every vertex. `extent` is, for every mesh, the larger distance
    from the origin of its two vertices with the greatest and the least x.
    """
    own = ranges[ranges[:, 1] > 0]
    own = own[np.unique(own[:, 0], return_index=True)[1]]  # rows that meshes share appear once, in their order
    at = (edge + np.repeat(own[:, 0], own[:, 3])[:, None]).reshape(-1)
    number = np.repeat(np.arange(len(edge)) - np.repeat(own[:, 2], own[:, 3]), 2)
    order = np.argsort(at, kind="stable")
    mesh, begin = np.repeat(np.arange(len(own)), own[:, 1]), np.cumsum([0, *own[:, 1]])[:-1]
    ends = [vertex[np.lexsort((sign * vertex[:, 0], mesh))[begin]] for sign in (1.0, -1.0)]
    extent = np.append(np.linalg.norm(ends, axis=2).max(axis=0), 0.0)  # the last entry is for meshes without vertices
    row = np.where(ranges[:, 1] > 0, np.searchsorted(own[:, 0], ranges[:, 0]), -1)
    return {
        "edge_at": number[order].astype(np.int32),
        "edges_at": np.searchsorted(at[order], np.arange(len(vertex) + 1)).astype(np.int32),
        "extent": extent[row],
    }
