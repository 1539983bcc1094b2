# SPDX-License-Identifier: Apache-2.0
"""Cells of pressure fields, shape by shape: one per face of the surface, with its linear pressure and its neighbors.

F = min_f (a_f . x + b_f) over the faces f of a convex geom; cell f is {x: F_f >= 0, F_f <= F_g for its neighbors g}.
Sizes may differ between worlds, so each F is an *entry* (n, c) that gives (a, b) for a geom of given sizes
(`coefficients`).

A bounding plane m . x <= q is stored as the entry F_f - (m . x - q). Tetrahedra, hull faces with many neighbors and the
caps of cylinders have such planes. On caps the planes that contain the axis are entries of the cap's form, n = (m_x,
m_y, n_z).

A margin d [m] moves the surface out from F = 0 to F = -d / depth. In that layer F continues as inside, below 0. For
boxes, spheres, cylinders, capsules and half spaces this is Drake's field, with facets counted for the size plus the
margin. On an ellipsoid or a hull the layer is d where it is thinnest, and thicker elsewhere by the same factor. On
tetrahedra the layer is what the extended inner faces enclose.

Sources: Masterjohn et al. 2022 and Drake's shapes; SciPy's Qhull and HiGHS for hulls.
"""

import typing

import numpy as np

from warpsim.model import hydroelastic, polyhedra
from warpsim.model.geom_types import bounding_radii, half_extents
from warpsim.model.hull import convex_mesh
from warpsim.model.model import GeomType, Mesh, Model, TetField

WEDGE = 8  # neighbors per part of a face that has too many
BOUNDS = 12  # most bounds of a cell: kernels clip in a loop over them
NONE = -2  # pads rows of bounds; -1 is the surface
FLAT = 1e-9  # angle between facets of the dual hull; below it an edge comes from the triangulation only


class Cells(typing.NamedTuple):
    """The cells of one geom: `entry (n, 4)`, `cell_entry (c,)`, `bounds (c, k)` padded with NONE, `large (c,)`."""

    entry: np.ndarray
    cell_entry: np.ndarray
    bounds: np.ndarray
    large: np.ndarray


def coefficients(kind: int, size, thickness: float, entry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a `(..., 3)` [1/m] and b `(...)` of entries `(..., 4)`: F = a . x + b in geom axes, for these half sizes [m]."""
    n, c = entry[..., :3], entry[..., 3]
    if kind == GeomType.PLANE:
        return n / thickness, np.zeros_like(c)
    size = np.asarray(size, float)
    if kind in (GeomType.SPHERE, GeomType.ELLIPSOID):
        return -n / (half_extents(kind, size) * c[..., None]), np.ones_like(c)
    if kind == GeomType.BOX:
        m = size.min()
        return -n / m, np.abs(n) @ size / m
    if kind == GeomType.CYLINDER:
        radius, half = size[:2]
        m = min(radius, half)
        side = np.abs(n[..., 2]) < 0.5
        return -n / (m * np.where(side, c, 1.0))[..., None], np.where(side, radius, half) / m
    if kind == GeomType.CAPSULE:
        radius, half = size[:2]
        return -n / (radius * c)[..., None], 1.0 + np.abs(n[..., 2]) * half / (radius * c)
    return n, c


def geom_cells(model: Model, g: int) -> tuple[Cells, float, float]:
    """The cells of compliant geom g, its depth, and how far a margin moves its surface.

    The depth [m] is the distance over which F goes from 0 to 1. The last value [m per unit of F] bounds how far a
    margin moves any point of the surface.
    """
    kind, size = GeomType(model.geom_type[g]), model.geom_size[g]
    _, _, thickness, margin = model.geom_hydroelastic[g]
    if kind == GeomType.MESH:
        field = int(model.geom_field[g])
        return _hull_cells(model.meshes[model.geom_mesh[g]]) if field < 0 else _tet_cells(model.fields[field], margin)
    if kind == GeomType.PLANE:
        cells = Cells(np.array([[0.0, 0.0, -1.0, 0.0]]), np.zeros(1, int), np.array([[-1]]), np.ones(1, int))
        return cells, thickness, thickness
    deep = float(half_extents(kind, size).min())
    # F is concave, and 1 in the middle. A ray from there that leaves the shape at r leaves the layer F >= -s at r (1 +
    # s) at most.
    reach = float(size[0] if kind == GeomType.CAPSULE else bounding_radii(model)[g])
    if kind == GeomType.BOX:
        return _box_cells(), deep, reach
    shape = polyhedron(kind, size, hydroelastic.resolution_of(model, g), margin)
    return _cylinder_cells(len(shape.loops) - 2) if kind == GeomType.CYLINDER else _round_cells(shape), deep, reach


def polyhedron(kind: GeomType, size, resolution: float, margin: float = 0.0) -> polyhedra.Polyhedron:
    """The polyhedron that stands for a primitive; its facets are counted for the size plus the margin."""
    if kind == GeomType.BOX:
        return polyhedra.box()
    size = size + margin
    if kind == GeomType.CYLINDER:
        return polyhedra.cylinder(hydroelastic.cylinder_sides(size[0], resolution))
    if kind == GeomType.CAPSULE:
        return polyhedra.capsule(hydroelastic.capsule_sides(size[0], resolution))
    largest = float(max(size)) if kind == GeomType.ELLIPSOID else float(size[0])
    return polyhedra.sphere(hydroelastic.octahedron_level(largest, resolution))


def _box_cells() -> Cells:
    """Faces +x, -x, ...; the opposite face is also a bound, needed where the box is thinnest."""
    normal = np.repeat(np.eye(3), 2, axis=0) * np.tile([1.0, -1.0], 3)[:, None]
    others = np.array([[g for g in range(6) if g != f] for f in range(6)])
    return Cells(np.pad(normal, [(0, 0), (0, 1)]), np.arange(6), _with_surface(others), np.ones(6, int))


def _round_cells(shape: polyhedra.Polyhedron) -> Cells:
    """Cells of spheres, ellipsoids and capsules: pyramids on the facets, and the sides of a capsule.

    The apex of a pyramid is the center, or the end of the axis.
    """
    end = shape.vertex[shape.loops[:, 0], 3]  # 1, -1: end of a capsule, whose vertices are for a half length of 1
    points = shape.vertex[:, :3] + shape.vertex[:, 3:] * [0.0, 0.0, 1.0]
    normal, offset = polyhedra.planes(points, shape.loops)
    normal[shape.large == 1, 2] = 0.0  # sides of a capsule
    offset -= normal[:, 2] * end
    beside = polyhedra.neighbours(shape.loops)
    entry = np.concatenate([normal, offset[:, None]], axis=1)
    return Cells(entry, np.arange(len(entry)), _with_surface(np.where(beside < 0, NONE, beside)), shape.large)


def _with_surface(bounds: np.ndarray) -> np.ndarray:
    return np.concatenate([np.full((len(bounds), 1), -1), bounds], axis=1)


def _cylinder_cells(sides: int) -> Cells:
    """Cells of a cylinder: sides in order, then the parts of the caps.

    Each part is bounded by the other cap, by its sides, and by two planes that contain the axis. The other cap matters
    where the cylinder is a disc, in the middle of which the pressure is 1.
    """
    i = np.arange(sides)
    middle = 2 * np.pi * (i + 0.5) / sides
    side = np.stack([np.cos(middle), np.sin(middle), 0 * middle, np.full(sides, np.cos(np.pi / sides))], axis=-1)
    top, bottom = sides, sides + 1
    entry = [side, np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, -1.0, 0.0]])]
    bounds = [[-1, (k - 1) % sides, (k + 1) % sides, top, bottom] for k in range(sides)]
    owner = [*range(sides)]
    parts = np.array_split(i, _wedges(sides))
    for cap, other in ((top, bottom), (bottom, top)):
        z = 1.0 if cap == top else -1.0
        for part in parts:
            planes = []
            if len(parts) > 1:
                first, last = 2 * np.pi * part[0] / sides, 2 * np.pi * (part[-1] + 1) / sides
                planes = [sides + 2 + sum(map(len, entry[2:])) + k for k in (0, 1)]
                across = [[np.sin(first), -np.cos(first)], [-np.sin(last), np.cos(last)]]  # outward
                entry.append(np.array([[x, y, z, 0.0] for x, y in across]))
            bounds.append([-1, other, *planes, *part.tolist()])
            owner.append(cap)
    return Cells(np.concatenate(entry), np.array(owner), _filled(bounds), np.ones(len(owner), int))


def _wedges(count: int) -> int:
    """Number of parts of a face with `count` neighbors, each spanning less than half a turn."""
    if count + 2 <= BOUNDS:
        return 1
    return max(-(-count // WEDGE), 2 if count % 2 == 0 else 3)


def _filled(rows: list[list[int]]) -> np.ndarray:
    table = np.full((len(rows), max(map(len, rows))), NONE)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return table


def _hull_cells(mesh: Mesh) -> tuple[Cells, float, float]:
    """Pyramids on the faces of a mesh's convex hull, F = 1 - n . (x - center) / d, with Chebyshev's center."""
    hull = convex_mesh(mesh)
    normal = hull["normals"]
    offset = (hull["vertices"] @ normal.T).max(axis=0)
    centre = chebyshev_centre(normal, offset)
    distance = offset - normal @ centre
    deep = float(distance.min())
    slope = normal / distance[:, None]  # the vertices of the dual polytope
    entry = [np.concatenate([-slope, 1.0 + (slope @ centre)[:, None]], axis=1)]
    rings = _rings(slope)
    owner, bounds, pseudo = [], [], 0
    for f, ring in rings.items():
        corners = np.cross(
            slope[f] - slope[ring], slope[f] - slope[np.roll(ring, -1)]
        )  # directions, between ring[k] and ring[k + 1]
        corners *= np.sign(corners @ normal[f])[:, None]
        parts = 1 if len(ring) + 1 <= BOUNDS else -(-len(ring) // WEDGE)
        for part in np.array_split(np.arange(len(ring)), parts):
            planes = []
            for corner, side in ((part[0] - 1, -1.0), (part[-1], 1.0)):  # chords from the corner before ring[0]
                if parts > 1 and corner % len(ring) != len(ring) - 1:
                    m = side * np.cross(corners[-1], corners[corner])
                    m /= np.linalg.norm(m) * deep
                    planes.append(len(slope) + pseudo)
                    own = entry[0][f]
                    entry.append(np.array([[*(own[:3] - m), own[3] + m @ centre]]))
                    pseudo += 1
            owner.append(f)
            bounds.append([-1, *planes, *ring[part].tolist()])
    reach = float(np.linalg.norm(hull["vertices"] - centre, axis=1).max())
    return Cells(np.concatenate(entry), np.array(owner), _filled(bounds), np.ones(len(owner), int)), deep, reach


def _rings(points: np.ndarray) -> dict[int, np.ndarray]:
    """The neighbors of each vertex of the convex hull of `points (n, 3)`, counter-clockwise from outside."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    simplices, normal = hull.simplices.copy(), hull.equations[:, :3]
    a, b, c = (points[simplices[:, k]] for k in range(3))
    turned = np.einsum("ij,ij->i", np.cross(b - a, c - a), normal) < 0
    simplices[turned] = simplices[turned][:, [0, 2, 1]]
    after: dict[int, dict[int, tuple[int, int]]] = {}
    for t, (i, j, k) in enumerate(simplices.tolist()):
        for x, y, z in ((i, j, k), (j, k, i), (k, i, j)):
            after.setdefault(x, {})[y] = (z, t)  # around x, neighbor z follows y
    rings = {}
    for x, follows in sorted(after.items()):
        first = next(iter(follows))
        ring, kept, y = [], [], first
        before = next(t for z, t in follows.values() if z == first)
        while True:
            z, t = follows[y]
            ring.append(y)
            kept.append(np.linalg.norm(np.cross(normal[before], normal[t])) > FLAT)
            y, before = z, t
            if y == first:
                break
        rings[x] = np.array(ring)[np.array(kept)] if sum(kept) >= 3 else np.array(ring)
    return rings


def chebyshev_centre(normal: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The point of {normal . x <= offset} deepest below all faces.

    Of several such points, the one deepest below the faces that may still move away. Successive linear programs each
    fix the faces that attain the depth of the last.
    """
    from scipy.optimize import linprog

    free, scale = np.ones(len(normal), bool), np.abs(offset).max()
    depth, point = np.zeros(len(normal)), np.zeros(3)
    for _ in range(3):
        rows = np.concatenate([normal, free[:, None]], axis=1)
        found = linprog(
            [0, 0, 0, -1], A_ub=rows, b_ub=(offset - depth) / scale, bounds=[(None, None)] * 4, method="highs"
        )
        if not found.success:  # infeasible by rounding: the last point is as deep
            break
        point = found.x[:3] * scale
        held = free & (found.ineqlin.marginals < -1e-9)
        depth[held] = found.x[3] * scale * (1 - 1e-12)
        free &= ~held
        if not held.any() or np.linalg.matrix_rank(normal[~free], tol=1e-6) == 3 or not free.any():
            break
    return point


def _tet_cells(field: TetField, margin: float) -> tuple[Cells, float, float]:
    """One cell per tetrahedron, bounded by its faces; -1 stands for a face of pressure 0 on the boundary."""
    from warpsim.model.tetrahedra import FACES, boundary_faces, depths

    vertex, tets, pressure = field.vertices, field.tetrahedra, field.pressure
    corners = vertex[tets]
    coefficient = np.linalg.solve(
        np.concatenate([corners, np.ones((*tets.shape, 1))], axis=2), pressure[tets][..., None]
    )
    own = coefficient[..., 0]
    deep = float(depths(vertex, tets).max()) if margin > 0 else 1.0
    open_ = boundary_faces(tets) & (pressure[tets[:, FACES]] == 0.0).all(axis=2)
    first, second, third = (corners[:, FACES[:, k]] for k in range(3))
    outward = np.cross(second - first, third - first)
    length = np.linalg.norm(outward, axis=2, keepdims=True)
    size = np.linalg.norm(own[:, :3], axis=1)[:, None, None]
    m = outward / length * np.where(size > 0, size, 1.0)  # scaled to the gradient, to keep rounding small
    q = np.einsum("tfk,tfk->tf", m, first)
    planes = own[:, None] - np.concatenate([m, -q[..., None]], axis=2)
    bounds = np.where(open_, -1, len(tets) + np.arange(4 * len(tets)).reshape(-1, 4))
    bounds = np.sort(bounds, axis=1)  # -1 first
    entry = np.concatenate([own, planes.reshape(-1, 4)])
    used = np.unique(np.concatenate([np.arange(len(tets)), bounds[bounds >= 0]]))
    index = np.full(len(entry), -1)
    index[used] = np.arange(len(used))
    bounds = np.where(bounds >= 0, index[bounds], -1)
    edges = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=-1).max(axis=(1, 2))
    reach = (edges / np.ptp(pressure[tets], axis=1))[open_.any(axis=1)].max(initial=0.0)
    return Cells(entry[used], np.arange(len(tets)), bounds, np.zeros(len(tets), int)), deep, float(reach)
