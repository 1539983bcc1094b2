# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes of geoms, for viewers without primitives: vertices `(n, 3)` [m], faces `(m, 3)` facing outward."""

import numpy as np

from warpsim.model.model import GeomType, HField

MOST_NEIGHBOURS = 2e7  # pairs of corners at the same point, up to which normals are computed


def triangles(model, geom: int, segments: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Mesh of one geom in its own axes; curved shapes have `segments` sides. Raises `ValueError` for planes."""
    kind, size = GeomType(model.geom_type[geom]), model.geom_size[geom]
    if kind == GeomType.MESH and model.geom_mesh[geom] >= 0:
        mesh = model.meshes[model.geom_mesh[geom]]
        return np.asarray(mesh.vertices, float), np.asarray(mesh.faces, int)
    if kind == GeomType.HFIELD:
        return _relief(field_of(model, geom))
    if kind == GeomType.BOX:
        return _box(size)
    if kind in (GeomType.SPHERE, GeomType.ELLIPSOID):
        vertices, faces = revolve(_arc(0, segments // 2, 1.0), segments)
        return vertices * (size[0] if kind == GeomType.SPHERE else size), faces
    if kind == GeomType.CAPSULE:
        quarter = segments // 4
        half = _arc(0, 2 * quarter, size[0])
        low, high = half[: quarter + 1] - [0, size[1]], half[quarter:] + [0, size[1]]
        return revolve(np.concatenate([low, high]), segments)
    if kind == GeomType.CYLINDER:
        r, h = size[0], size[1]
        parts = [revolve(np.array(p), segments) for p in ([(0, -h), (r, -h)], [(r, -h), (r, h)], [(r, h), (0, h)])]
        offsets = np.cumsum([0] + [len(p[0]) for p in parts])
        faces = [p[1] + offset for p, offset in zip(parts, offsets, strict=False)]
        return np.concatenate([p[0] for p in parts]), np.concatenate(faces)
    raise ValueError(f"geom {model.geom_names[geom]!r} of type {kind.name} has no triangle mesh")


def corner_normals(vertices, faces, crease: float = np.pi / 5) -> np.ndarray | None:
    """Unit normals `(m, 3, 3)` at the corners of triangles.

    A normal is the area-weighted mean over the triangles at the same point that are turned by less than `crease` [rad].
    None if too many triangles share points, which would take too long.
    """
    vertices, faces = np.asarray(vertices, float), np.asarray(faces)
    scale = max(float(np.ptp(vertices, axis=0).max(initial=0.0)), 1e-300)
    _, point = np.unique(np.round(vertices / scale, 7), axis=0, return_inverse=True)
    area = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    length = np.linalg.norm(area, axis=1, keepdims=True)
    unit = area / np.where(length > 0, length, 1.0)
    corner_point = point.reshape(-1)[faces].reshape(-1)
    order = np.argsort(corner_point, kind="stable")
    counts = np.bincount(corner_point)
    if float((counts.astype(float) ** 2).sum()) > MOST_NEIGHBOURS:
        return None
    starts, many = np.cumsum(counts) - counts, counts[corner_point[order]]
    own = np.repeat(order, many)  # each corner paired with each corner at its point
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    other = order[np.repeat(starts[corner_point[order]], many) + within]
    smooth = (unit[own // 3] * unit[other // 3]).sum(axis=1) > np.cos(crease)
    total = np.zeros((faces.size, 3))
    for axis in range(3):
        total[:, axis] = np.bincount(own[smooth], area[other[smooth] // 3, axis], minlength=faces.size)
    size = np.linalg.norm(total, axis=1, keepdims=True)
    return (total / np.where(size > 0, size, 1.0)).reshape(-1, 3, 3)


def field_of(model, geom: int) -> HField:
    """The height field of a geom of type HFIELD."""
    return model.hfields[int((model.geom_type[:geom] == GeomType.HFIELD).sum())]


def revolve(profile, segments: int) -> tuple[np.ndarray, np.ndarray]:
    """Surface of revolution about z of a `profile (k, 2)` of (radius, z), from bottom to top."""
    angle = 2 * np.pi * np.arange(segments) / segments
    r, z = np.asarray(profile, float).T
    vertices = np.stack(
        np.broadcast_arrays(r[:, None] * np.cos(angle), r[:, None] * np.sin(angle), z[:, None]), axis=-1
    )
    ring, side = np.meshgrid(np.arange(len(r) - 1), np.arange(segments), indexing="ij")
    a, b = ring * segments + side, ring * segments + (side + 1) % segments
    c, d = a + segments, b + segments
    below = np.stack([a, b, d], axis=-1)[r[:-1] > 1e-12]
    above = np.stack([a, d, c], axis=-1)[r[1:] > 1e-12]
    return vertices.reshape(-1, 3), np.concatenate([below.reshape(-1, 3), above.reshape(-1, 3)])


def _relief(field) -> tuple[np.ndarray, np.ndarray]:
    """Upper surface of a height field."""
    rows, columns = field.data.shape
    x, y = np.linspace(-field.size[0], field.size[0], columns), np.linspace(-field.size[1], field.size[1], rows)
    vertices = np.stack([*np.meshgrid(x, y), field.size[2] * field.data], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a = (i * columns + j).ravel()
    b, c, d = a + 1, a + columns, a + columns + 1
    return vertices, np.concatenate([np.stack([a, b, d], axis=-1), np.stack([a, d, c], axis=-1)])


def _arc(start: int, parts: int, radius: float) -> np.ndarray:
    """Half circle (radius, z) from the south to the north pole."""
    angle = -np.pi / 2 + np.pi * np.arange(start, parts + 1) / parts
    profile = radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    profile[[0, -1], 0] = 0.0
    return profile


def _box(size) -> tuple[np.ndarray, np.ndarray]:
    """A box of six separate faces, so that its edges stay sharp."""
    vertices, faces = [], []
    for axis in range(3):
        for side in (-1.0, 1.0):
            u, w = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
            corners = [side * np.eye(3)[axis] + a * u + b * w for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
            start = len(vertices)
            order = (0, 1, 2, 3) if side > 0 else (3, 2, 1, 0)
            vertices.extend(np.array(c) * size for c in corners)
            faces.extend(
                [
                    [start + order[0], start + order[1], start + order[2]],
                    [start + order[0], start + order[2], start + order[3]],
                ]
            )
    return np.array(vertices), np.array(faces)
