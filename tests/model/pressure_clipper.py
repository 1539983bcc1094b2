# SPDX-License-Identifier: Apache-2.0
"""A contact surface from `PressureTables`, one polygon at a time in NumPy: what the kernels must find."""

import dataclasses
import itertools

import numpy as np

from warpsim.model.pressure import corner_scale
from warpsim.model.pressure_cells import coefficients

DRAKE_ANGLE = np.cos(5 * np.pi / 8)  # Drake leaves out polygons whose normal is farther from the pressure's gradient
DRAKE_SLOPE = 1e-14


@dataclasses.dataclass
class Half:
    """A bound: normal . x <= offset."""

    normal: np.ndarray
    offset: float


@dataclasses.dataclass
class Cell:
    a: np.ndarray
    b: float
    surface: list[Half]
    inner: list[Half]
    centre: np.ndarray
    radius: float


@dataclasses.dataclass
class Polygon:
    """Corners `(k, 3)` in the world, normal into A, pressure a . x + b [Pa], its slopes on both sides [Pa/m] (inf: rigid)."""

    corners: np.ndarray
    normal: np.ndarray
    a: np.ndarray
    b: float
    slopes: tuple[float, float]
    aligned: bool

    def __post_init__(self):
        first, rest = self.corners[0], self.corners[1:]
        self.triangles = [np.array([first, x, y]) for x, y in itertools.pairwise(rest)]
        self.weights = np.array([np.cross(t[1] - t[0], t[2] - t[0]) @ self.normal / 2 for t in self.triangles])
        self.area = self.weights.sum()
        self.points = np.array([[(t[k] + t[(k + 1) % 3]) / 2 for k in range(3)] for t in self.triangles])
        self.centroid = np.einsum("t,tij->j", self.weights, self.points) / 3 / self.area if self.area > 0 else first
        low = min(self.slopes)
        self.slope = 1 / sum(1 / s for s in self.slopes if np.isfinite(s)) if low > DRAKE_SLOPE else 0.0

    @property
    def drakes(self) -> bool:
        return self.aligned and self.slope > 0 and self.area > 1e-14

    @property
    def pressures(self) -> np.ndarray:
        return self.points @ self.a + self.b


def cells_in_world(model, tables, g: int, pose) -> list[Cell]:
    """Cells of a compliant geom at pose [R | t]."""
    R, t = pose[:, :3], pose[:, 3]
    modulus, _, thickness, _ = model.geom_hydroelastic[g]
    shift = tables.geom_shift[g]
    start, count = tables.geom_cells[g]
    low = tables.cell_entry[start : start + count].min()
    bounds = tables.cell_bounds[start : start + count]
    high = max(tables.bound[bounds[0, 0] : bounds[-1].sum()].max(), tables.cell_entry[start + count - 1]) + 1
    entry = np.full((len(tables.entry), 4), np.nan)
    entry[low:high] = tables.entry[low:high]  # those of other geoms are of other forms
    a, b = coefficients(model.geom_type[g], model.geom_size[g], thickness, entry)
    a = a @ R.T
    b = b - a @ t
    cells = []
    for c in range(start, start + count):
        f = tables.cell_entry[c]
        first, many = tables.cell_bounds[c]
        surface, inner = [], []
        for e in tables.bound[first : first + many]:
            if e < 0:
                surface.append(Half(-a[f], b[f] + shift))
            else:
                inner.append(Half(a[f] - a[e], b[e] - b[f]))
        sphere = tables.cell_sphere[c]
        radius = sphere[3] + np.linalg.norm(tables.cell_axis[c])
        cells.append(Cell(modulus * a[f], modulus * b[f], surface, inner, R @ sphere[:3] + t, radius))
    return cells


def faces_in_world(model, tables, g: int, pose):
    """(corners or None, outward normal, sphere's centre, radius) of a rigid geom's faces."""
    R, t = pose[:, :3], pose[:, 3]
    scale, half = corner_scale(model.geom_type[g], model.geom_size[g])
    start, count = tables.geom_faces[g]
    faces = []
    for f in range(start, start + count):
        first, many = tables.face_vertices[f]
        rows = tables.face_vertex[first : first + many]
        corners = (rows[:, :3] * scale + rows[:, 3:] * [0, 0, half]) @ R.T + t if many else None
        sphere = tables.face_sphere[f]
        radius = sphere[3] + np.linalg.norm(tables.face_axis[f])
        faces.append((corners, R @ tables.face_normal[f], R @ sphere[:3] + t, radius))
    return faces


def surface(model, tables, pair, poses) -> list[Polygon]:
    """The polygons between two geoms, normals into the first, every one kept."""
    modulus = model.geom_hydroelastic[list(pair), 0]
    if np.isinf(modulus[0]):
        turned = surface(model, tables, pair[::-1], poses[::-1])
        return [Polygon(p.corners[::-1], -p.normal, p.a, p.b, p.slopes, p.aligned) for p in turned]
    first = cells_in_world(model, tables, pair[0], poses[0])
    found = []
    if np.isinf(modulus[1]):
        for corners, n, centre, radius in faces_in_world(model, tables, pair[1], poses[1]):
            for cell in first:
                if not near(cell.centre, cell.radius, centre, radius):
                    continue
                polygon = corners if corners is not None else square(cell.centre, n, n @ poses[1][:, 3], cell.radius)
                polygon = clip(polygon, cell.surface + cell.inner)
                if polygon is not None:
                    gradient = cell.a @ n
                    aligned = gradient / np.linalg.norm(cell.a) > DRAKE_ANGLE
                    found.append(Polygon(polygon, n, cell.a, cell.b, (gradient, np.inf), aligned))
        return found
    second = cells_in_world(model, tables, pair[1], poses[1])
    for cell in first:
        for other in second:
            if not near(cell.centre, cell.radius, other.centre, other.radius):
                continue
            n = cell.a - other.a
            length = np.linalg.norm(n)
            n, level = n / length, (other.b - cell.b) / length
            smaller = cell if cell.radius < other.radius else other
            if abs(n @ smaller.centre - level) > smaller.radius:
                continue
            polygon = square(smaller.centre, n, level, smaller.radius)
            polygon = clip(polygon, cell.surface + cell.inner + other.inner)
            if polygon is not None:
                slopes = (cell.a @ n, -other.a @ n)
                steep = (s / np.linalg.norm(x.a) for s, x in zip(slopes, (cell, other), strict=True))
                found.append(Polygon(polygon, n, cell.a, cell.b, slopes, min(steep) > DRAKE_ANGLE))
    return found


def near(x, r, y, s) -> bool:
    return not np.isfinite(r + s) or np.linalg.norm(x - y) <= r + s


def square(centre, n, level, radius):
    """A square in the plane n . x = level that holds the sphere's section."""
    tangent = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    tangent /= np.linalg.norm(tangent)
    other, foot = np.cross(n, tangent), centre + (level - n @ centre) * n
    radius = radius if np.isfinite(radius) else 10.0
    return np.array([foot + radius * (u * tangent + v * other) for u, v in ((1, 1), (-1, 1), (-1, -1), (1, -1))])


def clip(polygon, bounds):
    """Sutherland and Hodgman's clip; None where nothing is left."""
    for bound in bounds:
        s = polygon @ bound.normal - bound.offset
        if (s <= 0).all():
            continue
        kept = []
        for i in range(len(polygon)):
            j = (i + 1) % len(polygon)
            if s[i] <= 0:
                kept.append(polygon[i])
            if (s[i] <= 0) != (s[j] <= 0):
                kept.append(polygon[i] + s[i] / (s[i] - s[j]) * (polygon[j] - polygon[i]))
        if len(kept) < 3:
            return None
        polygon = np.array(kept)
    return polygon


def totals(polygons: list[Polygon], drake: bool = False) -> dict | None:
    """Sums over the surface: force on A [N], area, area centroid, stiffness [N/m], moment about the centroid and more, all exact."""
    polygons = [p for p in polygons if p.area > 1e-14 and (p.drakes or not drake)]
    if not polygons:
        return None
    area = sum(p.area for p in polygons)
    centroid = sum(p.area * p.centroid for p in polygons) / area
    force, moment, stiffness = np.zeros(3), np.zeros(3), sum(p.area * p.slope for p in polygons)
    for p in polygons:
        weighted = p.weights[:, None] / 3 * p.pressures
        force += weighted.sum() * p.normal
        moment += np.cross(np.einsum("tk,tki->i", weighted, p.points - centroid), p.normal)
    k_centroid = sum(p.area * p.slope * p.centroid for p in polygons) / stiffness if stiffness else centroid
    k_second = np.zeros((3, 3))
    for p in polygons:
        arms = p.points - k_centroid
        k_second += p.slope * np.einsum("t,tki,tkj->ij", p.weights / 3, arms, arms)
    return {
        "force": force,
        "area": area,
        "centroid": centroid,
        "stiffness": stiffness,
        "moment_exact": moment,
        "k_centroid": k_centroid,
        "k_second_moment": k_second,
        "polygons": len(polygons),
    }
