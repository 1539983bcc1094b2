# SPDX-License-Identifier: Apache-2.0
"""Texture coordinates of the corners of a geom's triangles, as MuJoCo 4 maps images to shapes.

(0, 0) is the lower left of the image, which repeats. With x, y, z divided by the half extents of the shape, in -1 .. 1,
and a repeat of 1:

- plane: the image covers it, x to the right and y up; on an infinite plane it covers 2 m by 2 m, with a corner at the
  origin
- box: (x, y) on the sides along z, (y, z) on those along x, (x, z) on those along y, to the right and up
- sphere, ellipsoid: longitude from +x and latitude; cylinder: longitude and z, and (x, -y) on the discs
- capsule: longitude and z on the cylinder, longitude and latitude on each half sphere, each over the whole image
- height field, and mesh without texture coordinates: (x, y) from above, with corners of the image in the middle
- mesh: its own texture coordinates

An image repeats `repeat` times over that; with a `uniform` material, `repeat` times the half extent in metres. The six
squares of a cube map are seen from the middle of the shape. Without `uniform`, the shape is first divided by its half
extents. A face lies whole on one square.
"""

import numpy as np

from warpsim.files.shapes import triangles
from warpsim.model.geom_types import half_extents
from warpsim.model.looks import VisualMaterial, material_of
from warpsim.model.model import GeomType
from warpsim.model.pictures import png_size

KEPT = (GeomType.MESH, GeomType.HFIELD, GeomType.ELLIPSOID)  # kinds whose triangles are those of the shape
WIDE, WIDE_ON_FLAT = 0.35, 0.12  # largest angle [rad] of a triangle's side, seen from the middle of a cube-mapped shape
HALVINGS = 16  # at most, of one side
# For the squares +x, -x, +y, -y, +z, -z of a cube map: the directions to the right and down.
CUBE = np.array(
    [
        [[0, 0, -1], [0, -1, 0]],
        [[0, 0, 1], [0, -1, 0]],
        [[1, 0, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 0, -1]],
        [[1, 0, 0], [0, -1, 0]],
        [[-1, 0, 0], [0, -1, 0]],
    ],
    float,
)


def project(points, half, material: VisualMaterial) -> np.ndarray:
    """Coordinates `(..., 2)`, from above, of points `(..., 3)` of a shape with half extents `half (2,)` [m]."""
    scale = np.array(material.repeat) / (1.0 if material.uniform else np.maximum(half, 1e-15))
    xy = np.asarray(points, float)[..., :2]
    return 0.5 * scale * xy + [-0.5, 1.5]


def texture_coordinates(model, geom: int, corners) -> np.ndarray:
    """Texture coordinates `(m, k, 2)` of faces of a geom with `corners (m, k, 3)` [m] in the geom's axes."""
    kind, material, corners = GeomType(model.geom_type[geom]), material_of(model, geom), np.asarray(corners, float)
    size = np.array(model.geom_size[geom], float)
    mesh = model.meshes[model.geom_mesh[geom]] if model.geom_mesh[geom] >= 0 else None
    if material.texture is not None and material.texture.kind == "cube":
        return _on_cube(kind, corners, _mapped_extents(kind, size), material)
    if kind == GeomType.HFIELD or (kind == GeomType.MESH and mesh.uv is None):
        return project(corners, size[:2], material)
    half = _mapped_extents(kind, size)
    if kind == GeomType.MESH:
        first, second = np.moveaxis(mesh.uv.astype(float), -1, 0)
        down = 1.0 - second
    elif kind == GeomType.PLANE:
        finite = size[:2] > 0
        first = np.where(finite[0], 0.5 * (corners[..., 0] / half[0] + 1.0), 0.5 * corners[..., 0])
        down = np.where(finite[1], 0.5 * (1.0 - corners[..., 1] / half[1]), -0.5 * corners[..., 1])
    elif kind == GeomType.BOX:
        first, down = _on_box(corners / half)
    else:
        first, down = _on_round(kind, corners, half)
    scale = np.array(material.repeat) * (half[:2] if material.uniform else 1.0)
    shift = 0.5 if kind == GeomType.PLANE and (size[:2] <= 0).any() else 0.0
    return np.stack([scale[0] * first - shift, 1.0 + shift - scale[1] * down], axis=-1)


def _mapped_extents(kind: GeomType, size) -> np.ndarray:
    """Half extents (3,) that an image is mapped to: a capsule's without its ends, 1 along infinite sides of a plane."""
    half = half_extents(kind, size)
    return size[[0, 0, 1]] if kind == GeomType.CAPSULE else np.where(half > 0, half, 1.0)


def _on_cube(kind: GeomType, corners, half, material: VisualMaterial) -> np.ndarray:
    """Coordinates in a cube map's image, of six squares below each other or of one for all sides."""
    toward = corners / (1.0 if kind in (GeomType.MESH, GeomType.HFIELD) else half)
    if kind == GeomType.CAPSULE:
        beyond = np.abs(corners[..., 2]) - half[2]
        ends = np.sign(corners[..., 2]) * (1.0 + beyond / half[0])
        toward[..., 2] = np.where(beyond > 0, ends, toward[..., 2])
    toward = toward * (half if material.uniform else 1.0)
    middle = toward.mean(axis=1)
    axis = np.abs(middle).argmax(axis=1)
    side = 2 * axis + (np.take_along_axis(middle, axis[:, None], axis=1)[:, 0] < 0)
    depth = np.abs(np.take_along_axis(toward, axis[:, None, None], axis=2)[..., 0])
    right, down = ((toward * CUBE[side, k, None]).sum(axis=-1) / np.maximum(depth, 1e-12) for k in range(2))
    width, height = png_size(material.texture.data)
    side, squares = (side[:, None], 6.0) if height != width else (0, 1.0)
    edge = 1.0 - 1.0 / width  # half a pixel inside the square
    right, down = (np.clip(x, -edge, edge) for x in (right, down))
    return np.stack([0.5 + 0.5 * right, 1.0 - (side + 0.5 + 0.5 * down) / squares], axis=-1)


def drawn_triangles(model, geom: int, segments: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """The mesh that draws a geom, see `shapes.triangles`.

    With a cube map, triangles are halved until no side is wide as seen from the middle of the shape.
    """
    vertices, faces = triangles(model, geom, segments)
    material, kind = material_of(model, geom), GeomType(model.geom_type[geom])
    if material is None or material.texture is None or material.texture.kind != "cube" or kind in KEPT:
        return vertices, faces
    if kind == GeomType.BOX and not material.uniform:
        return vertices, faces  # each side of the box is one square
    corners = np.asarray(vertices, float)[faces]
    for _ in range(HALVINGS):
        toward = corners / np.maximum(np.linalg.norm(corners, axis=-1, keepdims=True), 1e-12)
        # of the angle of each side, from a corner to the next
        cosine = (toward * np.roll(toward, -1, axis=1)).sum(axis=-1)
        widest = cosine.argmin(axis=1)
        wide = cosine.min(axis=1) < np.cos(WIDE if kind in (GeomType.CAPSULE, GeomType.SPHERE) else WIDE_ON_FLAT)
        if not wide.any():
            break
        corners = np.concatenate([corners[~wide], *_halves(corners[wide], widest[wide])])
    return corners.reshape(-1, 3), np.arange(corners.shape[0] * 3).reshape(-1, 3)


def _halves(corners, side) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of triangles `corners (m, 3, 3)`, cut in the middle of the side from corner `side (m,)` on."""
    a, b, c = (np.take_along_axis(corners, ((side + k) % 3)[:, None, None], axis=1)[:, 0] for k in range(3))
    middle = 0.5 * (a + b)
    return np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)


def _on_box(corners) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates to the right and down for corners on the unit box."""
    middle = corners.mean(axis=1, keepdims=True)
    axis = np.abs(middle).argmax(axis=-1)[..., None]
    right = np.take_along_axis(corners, np.where(axis == 0, 1, 0), axis=-1)[..., 0]
    up = np.take_along_axis(corners, np.where(axis == 2, 1, 2), axis=-1)[..., 0]
    return 0.5 * (right + 1.0), 0.5 * (1.0 - up)


def _on_round(kind: GeomType, corners, half) -> tuple[np.ndarray, np.ndarray]:
    """Longitude / 2π and the coordinate down for corners on a sphere, ellipsoid, cylinder or capsule."""
    unit = corners / half
    radius = np.hypot(unit[..., 0], unit[..., 1])
    first = _longitude(unit, radius)
    z = np.clip(unit[..., 2], -1.0, 1.0)
    if kind in (GeomType.SPHERE, GeomType.ELLIPSOID):
        return first, 0.5 - np.arcsin(z) / np.pi
    down = 0.5 * (1.0 - z)
    if kind == GeomType.CYLINDER:
        disc = (np.ptp(z, axis=1, keepdims=True) < 1e-9) & (z != 0)
        return np.where(disc, 0.5 + 0.5 * unit[..., 0], first), np.where(disc, 0.5 + 0.5 * unit[..., 1], down)
    beyond = corners[..., 2].mean(axis=1, keepdims=True)
    sine = np.clip((np.abs(corners[..., 2]) - half[2]) / half[0], 0.0, 1.0)
    latitude = np.arcsin(sine) / (np.pi / 2)
    down = np.where(beyond > half[2], 1.0 - latitude, down)
    return first, np.where(beyond < -half[2], latitude, down)


def _longitude(unit, radius) -> np.ndarray:
    """Longitude / 2π from +x, continuous within each face (it may exceed 1); a pole takes the mean over its face."""
    first = np.arctan2(unit[..., 1], unit[..., 0]) / (2 * np.pi) % 1.0
    pole = radius < 1e-6
    around = np.where(pole, np.nan, first)
    over = (np.nanmax(around, axis=1, keepdims=True) - np.nanmin(around, axis=1, keepdims=True)) > 0.5
    around = np.where(over & (around < 0.5), around + 1.0, around)
    return np.where(pole, np.nanmean(around, axis=1, keepdims=True), around)
