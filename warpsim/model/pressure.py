# SPDX-License-Identifier: Apache-2.0
"""Tables of pressure fields for the contact kernels: cells of compliant geoms, faces of rigid geoms.

`warpsim.model.pressure_cells` defines cells, and how the pressure follows from an entry. Rigid geoms have faces only
and no margin, as in Drake.
"""

import typing

import numpy as np

from warpsim.model import polyhedra
from warpsim.model.geom_types import half_extents
from warpsim.model.hull import convex_mesh
from warpsim.model.hydroelastic import resolution_of
from warpsim.model.model import GeomType, Model
from warpsim.model.pressure_cells import NONE, Cells, coefficients, geom_cells, polyhedron

CORNERS = 8  # most corners of a rigid face
ROUNDING = 1.0 + 1e-6  # factor on the radius of a bounding sphere, for rounding
INSIDE = 1e-9  # times the cell's size: how far rounding may move a corner outside its cell
SHAPES = {"entry": (4,), "cell_entry": (), "cell_bounds": (2,), "bound": (), "cell_large": (), "cell_sphere": (4,)}
SHAPES |= {"face_vertices": (2,), "face_vertex": (4,), "face_normal": (3,), "face_large": (), "face_sphere": (4,)}
SHAPES |= {"cell_axis": (3,), "face_axis": (3,), "cell_base": (4,), "cell_base_axis": (3,), "cell_rise": ()}
REAL = ("entry", "cell_sphere", "cell_axis", "face_vertex", "face_normal", "face_sphere", "face_axis")
REAL += ("cell_base", "cell_base_axis", "cell_rise")
TYPES = {name: np.float64 if name in REAL else np.int32 for name in SHAPES}


class PressureTables(typing.NamedTuple):
    """Flat arrays over all geoms with pressure-field contact, in the order of geoms; float64 and int32.

    Geoms:

    - `geom_cells, geom_faces (ngeom, 2)`: first and number of a geom's cells or faces.
    - `geom_shift (ngeom,)`: how far F goes below 0 because of the margin.
    - `geom_margin (ngeom,)` [m]: how far the margin moves the surface out at most, from the geom's bound in kernels.

    Cells:

    - `entry (n, 4)`: coefficients of F; `cell_entry (c,)` is the entry of a cell.
    - `cell_bounds (c, 2)`: first and number of a cell's bounds in `bound`. A bound is an entry g with F_c <= F_g. The
      first is -1 where the surface, F_c >= -shift, bounds the cell.
    - `cell_large (c,)`: 1 where the cell belongs to a face of the shape rather than to a facet of its curve.
    - `cell_sphere (c, 4)`, `cell_axis (c, 3)`: middle, radius and half axis of the capsule around a cell. It is smaller
      than a ball around a long cell.
    - `cell_base (c, 4)`, `cell_base_axis (c, 3)`: the part of a cell with F <= f lies in this capsule with its radius
      grown by f `cell_rise (c,)` [m]. It is infinite where that is unknown: fields of tetrahedra, and planes.

    Faces:

    - `face_vertices (f, 2)`: first and number of the corners of face f in `face_vertex (n, 4)` = (u, s),
      counter-clockwise from outside. A corner is at scale u + s half e_z (`corner_scale`).
    - `face_normal (f, 3)`: unit, outward. `face_large` and `face_sphere` are as for cells. A rigid plane is one face
      without corners.
    """

    geom_cells: np.ndarray
    geom_faces: np.ndarray
    geom_margin: np.ndarray
    geom_shift: np.ndarray
    entry: np.ndarray
    cell_entry: np.ndarray
    cell_bounds: np.ndarray
    bound: np.ndarray
    cell_large: np.ndarray
    cell_sphere: np.ndarray
    face_vertices: np.ndarray
    face_vertex: np.ndarray
    face_normal: np.ndarray
    face_large: np.ndarray
    face_sphere: np.ndarray
    cell_axis: np.ndarray
    face_axis: np.ndarray
    cell_base: np.ndarray
    cell_base_axis: np.ndarray
    cell_rise: np.ndarray


def pressure_tables(model: Model) -> PressureTables:
    """The tables of a model, curved shapes tessellated for the model's sizes.

    Raises `ModelError` for a mesh without a hull.
    """
    ranges = {"geom_cells": np.zeros((model.ngeom, 2), np.int32), "geom_faces": np.zeros((model.ngeom, 2), np.int32)}
    ranges |= {"geom_margin": np.zeros(model.ngeom), "geom_shift": np.zeros(model.ngeom)}
    parts = [{name: np.zeros((0, *shape)) for name, shape in SHAPES.items()}]
    counts = dict.fromkeys(("entry", "cell_entry", "bound", "face_normal", "face_vertex"), 0)
    for g in np.flatnonzero(~np.isnan(model.geom_hydroelastic[:, 0])).tolist():
        if np.isfinite(model.geom_hydroelastic[g, 0]):
            cells, depth, reach = geom_cells(model, g)
            shift = model.geom_hydroelastic[g, 3] / depth
            ranges["geom_shift"][g], ranges["geom_margin"][g] = shift, shift * reach + _overhang(model, g)
            part = _cell_tables(model, g, cells, shift)
            ranges["geom_cells"][g] = counts["cell_entry"], len(cells.cell_entry)
            part["bound"] = np.where(part["bound"] >= 0, part["bound"] + counts["entry"], -1)
            part["cell_entry"] = part["cell_entry"] + counts["entry"]
            part["cell_bounds"] = part["cell_bounds"] + [counts["bound"], 0]
        else:
            part = _face_tables(model, g)
            ranges["geom_faces"][g] = counts["face_normal"], len(part["face_normal"])
            part["face_vertices"] = part["face_vertices"] + [counts["face_vertex"], 0]
        parts.append(part)
        for name in counts:
            counts[name] += len(part.get(name, ()))
    tables = {name: np.concatenate([p[name] for p in parts if name in p]).astype(TYPES[name]) for name in SHAPES}
    return PressureTables(**ranges, **tables)


def _overhang(model: Model, g: int) -> float:
    """How far [m] a field of tetrahedra reaches outside the capsule around its mesh, which it need not fill.

    The capsule is `geom_bound` in `kernels/contact/cull.py`.
    """
    if model.geom_field[g] < 0:
        return 0.0
    size, vertices = model.geom_size[g], model.fields[model.geom_field[g]].vertices
    farthest = 0.0
    for k in np.flatnonzero(size >= (1 - 1e-5) * size.max()):  # any of equal axes may be the capsule's
        beyond = vertices.copy()
        beyond[:, k] -= np.clip(beyond[:, k], -size[k], size[k])
        radius = np.linalg.norm(np.delete(size, k))
        farthest = max(farthest, float(np.linalg.norm(beyond, axis=1).max() * ROUNDING - radius))
    return farthest


def _cell_tables(model: Model, g: int, cells: Cells, shift: float) -> dict[str, np.ndarray]:
    used = cells.bounds != NONE
    count = used.sum(axis=1)
    kind, thickness = int(model.geom_type[g]), model.geom_hydroelastic[g, 2]
    a, b = coefficients(kind, model.geom_size[g], thickness, cells.entry)
    if kind == GeomType.PLANE:
        sphere, axis = np.array([[0.0, 0.0, shift * thickness, np.inf]]), np.zeros((1, 3))
        base, base_axis, rise = sphere, axis, np.array([np.inf])
    else:
        sphere, axis, base, base_axis, rise = _cell_capsules(cells, a, b, shift)
    if model.geom_field[g] >= 0:  # the pressure in one cell does not bound that in the others
        rise = np.full(len(rise), np.inf)
    return {
        "entry": cells.entry,
        "cell_entry": cells.cell_entry,
        "cell_bounds": np.stack([np.cumsum(count) - count, count], axis=-1),
        "bound": cells.bounds[used],
        "cell_large": cells.large,
        "cell_sphere": sphere,
        "cell_axis": axis,
        "cell_base": base,
        "cell_base_axis": base_axis,
        "cell_rise": rise,
    }


def _capsules(corners: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Capsules (middle, radius) and half axes around corners `(c, n, 3)`, along each row's longest direction."""
    mean = np.where(used[..., None], corners, 0.0).sum(axis=1) / used.sum(axis=1)[:, None]
    arms = np.where(used[..., None], corners - mean[:, None], 0.0)
    direction = np.linalg.eigh(np.einsum("cni,cnj->cij", arms, arms))[1][..., 2]
    along = np.einsum("cni,ci->cn", arms, direction)
    across = np.where(used, np.linalg.norm(arms - along[..., None] * direction[:, None], axis=2), 0.0)
    radius = across.max(axis=1)
    # the hemispheres reach as far as each corner's distance from the axis lets them
    lead = np.sqrt(np.maximum(radius[:, None] ** 2 - across**2, 0.0))
    low = np.where(used, along + lead, np.inf).min(axis=1)
    high = np.where(used, along - lead, -np.inf).max(axis=1)
    half = np.maximum(high - low, 0.0) / 2
    middle = mean + ((low + high) / 2)[:, None] * direction
    return np.concatenate([middle, radius[:, None] * ROUNDING], axis=1), half[:, None] * direction


def _cell_capsules(cells: Cells, a: np.ndarray, b: np.ndarray, shift: float) -> tuple[np.ndarray, ...]:
    """Capsules of bounded cells and of their faces on the surface, and how fast the latter grow with F.

    A capsule encloses the cell's corners, which are where three bounds meet.
    """
    own, count = cells.cell_entry, (cells.bounds != NONE).sum(axis=1)
    spheres, axes = np.zeros((len(own), 4)), np.zeros((len(own), 3))
    bases, base_axes, rise = spheres.copy(), axes.copy(), np.full(len(own), np.inf)
    for k in np.unique(count):
        rows = np.flatnonzero(count == k)
        bound, f = cells.bounds[rows, :k], own[rows, None]
        surface = (bound == -1)[..., None]
        normal = np.where(surface, -a[f], a[f] - a[bound])  # normal . x <= offset
        offset = np.where(surface[..., 0], b[f] + shift, b[bound] - b[f])
        length = np.linalg.norm(normal, axis=-1)
        length = np.where(length > 0, length, 1.0)
        normal, offset = normal / length[..., None], offset / length
        i, j, l = (
            np.array(x) for x in zip(*((i, j, l) for i in range(k) for j in range(i) for l in range(j)), strict=True)
        )
        crossed = np.cross(normal[:, i], normal[:, j])
        det = np.einsum("rtk,rtk->rt", crossed, normal[:, l])
        x = offset[:, l, None] * crossed + offset[:, i, None] * np.cross(normal[:, j], normal[:, l])
        x += offset[:, j, None] * np.cross(normal[:, l], normal[:, i])
        meet = np.abs(det) > 1e-12
        x = np.where(meet[..., None], x / np.where(meet, det, 1.0)[..., None], 0.0)
        scale = np.abs(offset).max(axis=1)[:, None, None]
        out = np.einsum("rtk,rpk->rtp", x, normal) - offset[:, None]
        inside = meet & (out <= INSIDE * scale + 1e-7 * np.abs(x).max(axis=2, keepdims=True)).all(axis=2)
        spheres[rows], axes[rows] = _capsules(x, inside)
        flat = inside & (surface[:, i, 0] | surface[:, j, 0] | surface[:, l, 0])
        there = flat.any(axis=1)
        bases[rows[there]], base_axes[rows[there]] = _capsules(x[there], flat[there])
        rise[rows[there]] = _rise(
            x[there], flat[there], inside[there] & ~flat[there], a[own[rows[there]]], b[own[rows[there]]] + shift
        )
    known = np.isfinite(rise)
    bases[known, 3] += rise[known] * shift
    return spheres, axes, bases, base_axes, rise


def _rise(corners, flat, others, a, b) -> np.ndarray:
    """Growth [m per F] of {F <= f} of cells beyond their faces.

    `corners (c, n, 3)`; `flat` and `others` select the face's corners and the other corners; F + shift = a·x + b. A
    point of the cell is Σ λ_k v_k. The total weight of the other corners is at most (f + shift)/min F_k, and it moves
    the point by no more than the distance from these corners to the face's middle.
    """
    middle = np.where(flat[..., None], corners, 0.0).sum(axis=1) / flat.sum(axis=1)[:, None]
    value = np.einsum("ci,cni->cn", a, corners) + b[:, None]
    least = np.where(others, value, np.inf).min(axis=1)
    far = np.where(others, np.linalg.norm(corners - middle[:, None], axis=2), 0.0).max(axis=1)
    return np.where(least > INSIDE, far / np.maximum(least, INSIDE), np.inf) * ROUNDING


def corner_scale(kind: int, size) -> tuple[np.ndarray, float]:
    """(scale (3,), half) [m] of half sizes: corner (u, s) of a face is at scale u + s half e_z in geom axes."""
    if kind == GeomType.CAPSULE:
        return np.full(3, float(size[0])), float(size[1])
    return (np.ones(3) if kind == GeomType.MESH else half_extents(kind, size)), 0.0


def _face_tables(model: Model, g: int) -> dict[str, np.ndarray]:
    """Faces of rigid geom g; faces with many corners are split."""
    kind, size = GeomType(model.geom_type[g]), model.geom_size[g]
    if kind == GeomType.PLANE:
        return {
            "face_vertices": np.zeros((1, 2), int),
            "face_vertex": np.zeros((0, 4)),
            "face_normal": np.array([[0.0, 0.0, 1.0]]),
            "face_large": np.ones(1),
            "face_sphere": np.array([[0.0, 0.0, 0.0, np.inf]]),
            "face_axis": np.zeros((1, 3)),
        }
    if kind == GeomType.MESH:
        hull = convex_mesh(model.meshes[model.geom_mesh[g]])
        vertex, large = np.pad(hull["vertices"], [(0, 0), (0, 1)]), np.ones(len(hull["faces"]))
        loops = hull["faces"]
    else:
        shape = polyhedron(kind, size, resolution_of(model, g))
        vertex, large, loops = shape.vertex, shape.large, [row[row >= 0] for row in shape.loops]
    scale, half = corner_scale(kind, size)
    points = vertex[:, :3] * scale + vertex[:, 3:] * [0.0, 0.0, half]
    parts = [_cut(np.asarray(loop)) for loop in loops]
    large = np.repeat(large, [len(part) for part in parts])
    loops = [loop for part in parts for loop in part]
    count = np.array([len(loop) for loop in loops])
    filled = np.full((len(loops), count.max()), -1)
    filled[np.arange(count.max()) < count[:, None]] = np.concatenate(loops)
    corners = np.where((filled >= 0)[..., None], points[filled], points[filled[:, :1]])
    sphere, axis = _capsules(corners, filled >= 0)
    return {
        "face_vertices": np.stack([np.cumsum(count) - count, count], axis=-1),
        "face_vertex": vertex[np.concatenate(loops)],
        "face_normal": polyhedra.planes(points, filled)[0],
        "face_large": large,
        "face_sphere": sphere,
        "face_axis": axis,
    }


def _cut(loop: np.ndarray) -> list[np.ndarray]:
    """Split a convex polygon into parts of at most CORNERS corners, by chords from its first corner."""
    triangles = np.arange(1, len(loop) - 1)
    parts = np.array_split(triangles, -(-len(triangles) // (CORNERS - 2)))
    return [loop[[0, *part.tolist(), part[-1] + 1]] for part in parts]
