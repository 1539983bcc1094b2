# SPDX-License-Identifier: Apache-2.0
"""The elastic energy of two pressure fields, U = ∫ min(p_A, p_B) dV over what both geoms fill, of which the forces of their polygons are the derivatives.

Exact on the host: cells are convex and pressures linear, so U is a sum over pairs of cells, each cut by the plane of equal pressure. With div(x p) = 4 p − p(0) and
div x = 3 the integral over a polyhedron of faces n·x = d is ∫ p dV = ¼ (Σ d ∫ p dA + p(0) V), V = ⅓ Σ d A. Some milliseconds for each pair of cells that meet.
"""

import numpy as np

from warpsim.model.geometry import rotation_matrix
from warpsim.model.model import GeomType, Model
from warpsim.model.pressure import PressureTables, corner_scale, pressure_tables
from warpsim.model.pressure_cells import coefficients

SAME = 1e-12  # planes no farther apart, by normal and distance [m], bound a polyhedron once


def elastic_energy(model: Model, pair: tuple[int, int], poses, tables: PressureTables | None = None) -> float:
    """U [J] of geoms `pair` at `poses (2, 7)`, positions [m] and quaternions (w, x, y, z) of the geoms in the world; sizes and moduli are the model's.

    `tables`: of `pressure_tables(model)`, where many poses are asked for. Half spaces may meet anything that is bounded. Raises ValueError for geoms without a field.
    """
    if np.isnan(model.geom_hydroelastic[list(pair), 0]).any() or np.isinf(model.geom_hydroelastic[list(pair), 0]).all():
        raise ValueError(
            f"geoms {pair} have no pressure field between them; give both hydroelastic=, one of them with a finite modulus"
        )
    tables = pressure_tables(model) if tables is None else tables
    first, second = (_parts(model, tables, g, np.asarray(pose, float)) for g, pose in zip(pair, poses, strict=True))
    total = 0.0
    for planes, pressure, middle, radius in first:
        for other_planes, other_pressure, other_middle, other_radius in second:
            if not np.linalg.norm(middle - other_middle) < radius + other_radius:  # NaN: both are half spaces
                continue
            centre, reach = (middle, radius) if radius < other_radius else (other_middle, other_radius)
            both = np.concatenate([planes, other_planes])
            for low, high in ((pressure, other_pressure), (other_pressure, pressure)):
                if low is not None:
                    cut = both if high is None else np.concatenate([both, [(low - high) * [1, 1, 1, -1]]])
                    total += _integral(cut, low, centre, reach)
    return total


def _parts(model: Model, tables: PressureTables, g: int, pose: np.ndarray) -> list[tuple]:
    """(planes (n, 4) with n·x <= d inside, (a, b) of the pressure or None of a rigid geom, middle, radius) of the cells of a geom, or of a rigid one as a whole."""
    turn, x = rotation_matrix(pose[3:]), pose[:3]
    modulus, _, thickness, _ = model.geom_hydroelastic[g]
    if np.isinf(modulus):
        first, count = tables.geom_faces[g]
        rows = slice(first, first + count)
        normal = tables.face_normal[rows] @ turn.T
        scale, half = corner_scale(model.geom_type[g], model.geom_size[g])
        used = tables.face_vertices[rows]
        if model.geom_type[g] == GeomType.PLANE:
            return [(np.column_stack([normal, normal @ x]), None, x, np.inf)]
        corner = tables.face_vertex[used[0, 0] : used[-1].sum()]
        corner = (corner[:, :3] * scale + corner[:, 3:] * [0.0, 0.0, half]) @ turn.T + x
        start = corner[used[:, 0] - used[0, 0]]
        return [(np.column_stack([normal, (normal * start).sum(1)]), None, x, np.linalg.norm(corner - x, axis=1).max())]
    first, count = tables.geom_cells[g]
    found = []
    for c in range(first, first + count):
        begin, many = tables.cell_bounds[c]
        entries = tables.bound[begin : begin + many]
        a, b = coefficients(
            model.geom_type[g],
            model.geom_size[g],
            thickness,
            tables.entry[[tables.cell_entry[c], *entries[entries >= 0]]],
        )
        a = a @ turn.T
        b = b - a @ x
        normal, offset = a[0] - a[1:], b[1:] - b[0]
        if (entries < 0).any():
            normal, offset = np.concatenate([[-a[0]], normal]), np.concatenate([[b[0]], offset])
        sphere = tables.cell_sphere[c]
        radius = sphere[3] + np.linalg.norm(tables.cell_axis[c])
        found.append(
            (np.column_stack([normal, offset]), modulus * np.append(a[0], b[0]), turn @ sphere[:3] + x, radius)
        )
    return found


def _integral(planes: np.ndarray, pressure: np.ndarray, centre: np.ndarray, reach: float) -> float:
    """∫ p dV over {n·x <= d}, which lies within `reach` of `centre`."""
    planes = planes / np.linalg.norm(planes[:, :3], axis=1)[:, None]
    planes[:, 3] -= planes[:, :3] @ centre
    kept = []
    for plane in planes:
        if not any(np.abs(plane - other).max() < SAME for other in kept):
            kept.append(plane)
    planes, at_centre = np.array(kept), pressure[:3] @ centre + pressure[3]
    if (planes[:, 3] < -reach).any():
        return 0.0
    volume = total = 0.0
    for k, (x, y, z, d) in enumerate(planes):
        if d > reach:
            continue
        face = _face(np.array([x, y, z]), d, np.delete(planes, k, axis=0), reach)
        if face is None:
            continue
        arms = np.cross(face[1:-1] - face[0], face[2:] - face[0])
        area = 0.5 * arms @ [x, y, z]
        p = at_centre + (face[0] + face[1:-1] + face[2:]) @ pressure[:3] / 3
        volume += d * area.sum() / 3
        total += d * (area * p).sum()
    return 0.25 * (total + at_centre * volume)


def _face(normal: np.ndarray, d: float, bounds: np.ndarray, reach: float) -> np.ndarray | None:
    """The corners of the face on n·x = d, about n, of the polyhedron that the others bound."""
    u = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    u /= np.linalg.norm(u)
    v = np.cross(normal, u)
    size = 1.5 * reach
    points = d * normal + size * np.array([u + v, v - u, -u - v, u - v])
    for bound in bounds:
        s = points @ bound[:3] - bound[3]
        if (s <= 0).all():
            continue
        if (s > 0).all():
            return None
        after, t = np.roll(points, -1, axis=0), np.roll(s, -1)
        crossed = (s <= 0) != (t <= 0)
        ratio = np.where(crossed, s / np.where(crossed, s - t, 1.0), 0.0)
        pair = np.stack([points, points + ratio[:, None] * (after - points)], axis=1)
        points = pair.reshape(-1, 3)[np.stack([s <= 0, crossed], axis=1).ravel()]
    return points if len(points) > 2 else None
