# SPDX-License-Identifier: Apache-2.0
"""A small ray caster for images of models: sun with shadows, sky light, checkered floor; no GPU, no display.

Each geom is intersected only with the rays inside its bounding sphere on screen. Each shadow is tested only for the
points inside the geom's bounding sphere seen from the sun. Rays find the triangles of meshes in Warp's trees
(`contact/mesh_trees.py`). An image thus takes about a second.
"""

import concurrent.futures
import dataclasses
import functools
import threading
import weakref

import numpy as np
import warp as wp

from warpsim.base.checks import flag, number, numbers, positive, short, whole
from warpsim.contact.mesh_trees import mesh_triangles
from warpsim.device.copies import copy, launch, load, upload
from warpsim.device.cores import usable_cores
from warpsim.device.start import start_warp
from warpsim.files.output import check_file, replacing
from warpsim.files.patch_frames import SEEN_THROUGH, above_floors, patch_frames, refuse_without_fields, triangles_of
from warpsim.files.scene import (
    bounding_radii,
    fit_view,
    geom_colors,
    grid_origins,
    horizontal_planes,
    roomy_spacing,
    view_axes,
)
from warpsim.files.shapes import triangles
from warpsim.kernels.contact import ray_cast
from warpsim.model.geometry import rotation_matrix
from warpsim.model.host_kinematics import body_poses, geom_poses
from warpsim.model.looks import encode_png
from warpsim.model.model import GeomType, Mesh
from warpsim.show.bands import band_colors, bands
from warpsim.show.round_solids import FAR, ROUND, SunlitPoints, half_length, round_hits, round_normals

SUN = np.array([-0.45, -0.55, 0.95]) / np.linalg.norm([-0.45, -0.55, 0.95])  # direction to the sun
SUN_COLOR = np.array([1.0, 0.95, 0.86])
SKY_LOW, SKY_HIGH = np.array([0.86, 0.91, 0.96]), np.array([0.45, 0.64, 0.88])
GROUND_LIGHT = np.array([0.42, 0.40, 0.38])
TILES = np.array([[0.60, 0.65, 0.71], [0.47, 0.53, 0.61]])
BANDS = 8  # bands of rows, distributed over threads; small enough for the caches
PIECE = 1 << 15  # points shaded at a time, so that their data stays in the caches
EDGE = 0.04  # difference of square-root brightness between neighbors that gives a pixel of a video more rays
EDGE_RAYS = ((0.375, 0.125), (0.875, 0.375), (0.125, 0.625), (0.625, 0.875))  # a rotated grid, in pixels
COARSE = 8  # image rays per ray at which the floor's share of sky light is computed
_MAKING = threading.Lock()
_tables: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # of models' meshes


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole camera: `eye (3,)`, `target (3,)` [m], vertical field of view [degrees]; z is up."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float = 30.0

    def __post_init__(self):
        for name in ("eye", "target"):
            value = numbers(getattr(self, name), f"Camera: {name}")
            if value.shape != (3,) or not np.isfinite(value).all():
                raise ValueError(f"Camera: {name} is {short(value.tolist())}; give 3 finite values [m]")
        number(self.fov, "Camera: fov", "give an angle between 0 and 180 degrees", lambda x: 0.0 < x < 180.0)

    def frame(self) -> np.ndarray:
        """Rows right, up, forward `(3, 3)`."""
        forward = np.subtract(self.target, self.eye)
        length = np.linalg.norm(forward)
        if not length > 0:
            raise ValueError("the camera's eye and target are the same point; move one of them")
        right, up, back = view_axes(-forward)
        return np.stack([right, up, -back])


@dataclasses.dataclass(frozen=True)
class _Solid:
    """One geom in the world: center (3,), rotation (3, 3), bounding radius, color (3,).

    `mesh`: a table of triangles (`contact/mesh_trees.py`), and the index of a mesh in it.
    """

    kind: GeomType
    size: np.ndarray
    center: np.ndarray
    rotation: np.ndarray
    radius: float
    color: np.ndarray
    mesh: tuple | None = None
    terrain: bool = False  # the camera need not show all of it
    darkens: bool = True  # casts shadows


def render_png(model, q, path, camera: Camera | None = None, width: int = 960, height: int = 540, **options) -> None:
    """Write a PNG of `model` at `q`; options are as in `render_image`."""
    path = check_file(path)
    image = render_image(model, q, camera, width, height, **options)
    with replacing(path) as new:
        new.write_bytes(encode_png(image))


def render_image(
    model,
    q,
    camera: Camera | None = None,
    width: int = 960,
    height: int = 540,
    *,
    spacing=None,
    samples: int = 2,
    patches: bool = False,
    mocap=None,
) -> np.ndarray:
    """Image `(height, width, 3)` uint8 of one world `q (nq,)`, or of several `(worlds, nq)` on a grid `spacing` apart.

    Parameters
    ----------
    camera : Camera
        None: placed so that it shows every body.
    samples : int
        `samples` squared rays per pixel smooth the edges.
    patches : bool
        Show patches between pressure fields through their geoms, colored up to the image's largest pressure.
    mocap : (nmocap, 7) or (worlds, nmocap, 7)
        Poses of the mocap bodies; None: their poses in the model.
    """
    if flag(patches, "patches"):
        refuse_without_fields(model)
    q = np.atleast_2d(numbers(q, "q"))
    if q.ndim != 2 or q.shape[1] != model.nq or not np.isfinite(q).all():
        raise ValueError(f"q has shape {q.shape}; it must be finite, (nq,) or (worlds, nq) with nq = {model.nq}")
    if mocap is not None:
        mocap, shape = numbers(mocap, "mocap"), (len(q), model.nmocap, 7)
        if mocap.shape not in (shape, shape[1:]) or not np.isfinite(mocap).all():
            raise ValueError(f"mocap has shape {mocap.shape}; it must be finite, {shape[1:]} or {shape}")
        mocap = np.broadcast_to(mocap, shape)
    for name, value in (("width", width), ("height", height), ("samples", samples)):
        whole(value, name, 1)
    if camera is not None and not isinstance(camera, Camera):
        raise ValueError(f"camera is {short(camera)}; give a Camera(eye, target)")
    spacing = roomy_spacing(model, q, mocap) if spacing is None else positive(spacing, "spacing", "m")
    origins = grid_origins(len(q), spacing)
    solids = solids_of(model, q, mocap, origins)
    floors = horizontal_planes(model)
    floor = float(model.geom_pose[floors, 2].max()) if len(floors) else None
    subject = [s for s in solids if not s.terrain]
    camera = fit_camera(subject, width / height) if camera is None else camera
    image = _image(solids, floor, camera, width, height, samples)
    if patches:
        inside = solids_of(model, q, mocap, origins, without=model.pair_geom[model.point_pairs :])
        inside += _patch_solids(model, q, mocap, origins)
        image = SEEN_THROUGH * image + (1 - SEEN_THROUGH) * _image(inside, floor, camera, width, height, samples)
    return (255 * np.clip(image, 0, 1) ** (1 / 2.2) + 0.5).astype(np.uint8)


def _image(solids, floor, camera: Camera, width: int, height: int, samples: int) -> np.ndarray:
    """Linear colors `(height, width, 3)`."""
    view = _View(solids, floor, camera, width * samples, height * samples)
    edges = np.linspace(0, view.height, min(BANDS, height) + 1).astype(int).tolist()
    with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
        image = np.concatenate(list(pool.map(functools.partial(_cast, view), edges[:-1], edges[1:])))
    return image.reshape(height, samples, width, samples, 3).mean(axis=(1, 3))


class _View:
    """What all bands of an image share: the rays' directions, the windows of the solids, and the floor's sky light."""

    def __init__(self, solids, floor, camera: Camera, width: int, height: int):
        self.solids, self.floor, self.width, self.height = solids, floor, width, height
        self.eye, self.frame = np.asarray(camera.eye, float), camera.frame()
        self.half = half = np.tan(np.radians(camera.fov) / 2)
        self.across = (2 * (np.arange(width) + 0.5) / width - 1) * half * width / height
        self.above = (1 - 2 * (np.arange(height) + 0.5) / height) * half
        self.windows = [_window(solid, self.eye, self.frame, half, width, height) for solid in solids]
        self.open = None
        if floor is not None:  # smooth, so a coarse grid of rays suffices
            rays = np.stack(self.rays(slice(None, None, COARSE), slice(None, None, COARSE)), axis=-1)
            coarse = _openness(solids, floor, self.eye, rays)
            self.open = _finer(_finer(coarse, width).T, height).T

    def rays(self, rows, columns=slice(None)) -> list[np.ndarray]:
        """The three components of the unit rays of some rows and columns."""
        right, up, forward = self.frame
        x, y = self.across[columns][None, :], self.above[rows][:, None]
        planes = [forward[k] + x * right[k] + y * up[k] for k in range(3)]
        length = np.sqrt(planes[0] ** 2 + planes[1] ** 2 + planes[2] ** 2)
        return [plane / length for plane in planes]


def quick_image(solids, floor, camera: Camera, width: int, height: int) -> np.ndarray:
    """Image `(height, width, 3)` uint8: one ray per pixel, and `EDGE_RAYS` where neighbors differ. For video."""
    image = _cast(_View(solids, floor, camera, width, height), 0, height).reshape(height, width, 3)
    shade = np.sqrt(image.mean(axis=2))
    edge = np.zeros((height, width), bool)
    for a, b in (((slice(1, None),), (slice(-1),)), ((slice(None), slice(1, None)), (slice(None), slice(-1)))):
        differ = np.abs(shade[a] - shade[b]) > EDGE
        edge[a] |= differ
        edge[b] |= differ
    rows, columns = np.nonzero(edge)
    total = 0.0
    for right, down in EDGE_RAYS:
        total = total + _cast_at(solids, floor, camera, width, height, columns + right, rows + down)
    image[rows, columns] = total / len(EDGE_RAYS)
    return (255 * np.clip(image, 0, 1) ** (1 / 2.2) + 0.5).astype(np.uint8)


def _cast_at(solids, floor, camera: Camera, width: int, height: int, x, y) -> np.ndarray:
    """Linear colors `(n, 3)` at places `x, y (n,)` of the image, in pixels."""
    eye, frame = np.asarray(camera.eye, float), camera.frame()
    half = np.tan(np.radians(camera.fov) / 2)
    across, above = (2 * x / width - 1) * half * width / height, (1 - 2 * y / height) * half
    rays = frame[2] + across[:, None] * frame[0] + above[:, None] * frame[1]
    rays /= np.sqrt(_dot(rays, rays))[:, None]
    depth, owner, normals = _floor_hits(floor, eye, rays)
    for index, solid in enumerate(solids):
        window = _window(solid, eye, frame, half, width, height)
        if window is None:
            continue
        if solid.mesh is None:
            inside = (y >= window[0].start) & (y <= window[0].stop) & (x >= window[1].start) & (x <= window[1].stop)
            _meet(solid, index, eye, rays, rays.T, np.flatnonzero(inside), depth, owner, normals)
    _meet_meshes(solids, eye, rays, np.arange(len(rays)), depth, owner, normals)
    _set_round_normals(solids, eye, rays, depth, owner, normals)
    open_ = None if floor is None else _openness(solids, floor, eye, rays[None]).ravel()
    return _shade(solids, floor, eye, rays, depth, owner, normals, open_)


def _floor_hits(floor, eye, rays):
    """Distance, owner and normal of each of `rays (..., 3)`, of the floor (-2) or the sky (-1)."""
    shape = rays.shape[:-1]
    depth, owner, normals = np.full(shape, FAR), np.full(shape, -1), np.zeros((*shape, 3), np.float32)
    if floor is not None:
        with np.errstate(divide="ignore"):
            t = (floor - eye[2]) / rays[..., 2]
        hit = (t > 0) & (t < FAR)
        depth[hit], owner[hit], normals[hit] = t[hit], -2, (0, 0, 1 if eye[2] > floor else -1)
    return depth, owner, normals


def _patch_solids(model, q, mocap, origins) -> list[_Solid]:
    """The patches of each world as meshes, one per band of pressure."""
    (worlds,) = patch_frames(model, q[None], [0], np.arange(len(q)), None if mocap is None else mocap[None])
    placed = [triangles_of(above_floors(model, patches)) for patches in worlds]
    largest = max(float(p.max(initial=0.0)) for _, p in placed)
    solids = []
    for (corners, pressure), origin in zip(placed, origins, strict=True):
        for part, color in zip(bands(corners, pressure, largest), band_colors() ** 2.2, strict=True):
            if len(part):
                center = part.reshape(-1, 3).mean(axis=0)
                faces = np.arange(3 * len(part)).reshape(-1, 3)
                radius, mesh = _own_mesh(part.reshape(-1, 3) - center, faces)
                where = center + origin
                solids.append(_Solid(GeomType.MESH, np.zeros(3), where, np.eye(3), radius, color, mesh, darkens=False))
    return solids


def _own_mesh(vertices, faces) -> tuple[float, tuple]:
    """Bounding radius, and the entry of `_Solid.mesh`, of a mesh that no model has."""
    return float(np.linalg.norm(vertices, axis=1).max()), (_table([Mesh("", vertices, faces)]), 0)


def _table(meshes):
    """Triangles of meshes for `_mesh_hits`, whose kernel is compiled here: several threads cast rays."""
    start_warp()
    load([copy(ray_cast.cast_at_meshes, wp.float64)], wp.get_device("cpu"))
    return mesh_triangles(meshes, wp.float64, "cpu")


def _table_of(model):
    """The table of a model's meshes."""
    with _MAKING:
        if model not in _tables:
            _tables[model] = _table(model.meshes)
        return _tables[model]


def fit_camera(solids, aspect: float, fov: float = 30.0) -> Camera:
    """A camera that looks down on all solids from the front right, as near as it can show them all."""
    if not solids:
        return Camera((3, -4, 2.5), (0, 0, 0), fov)
    centers, radii = np.array([s.center for s in solids]), np.array([s.radius for s in solids])
    eye, target = fit_view(centers, radii, aspect, fov)
    return Camera(tuple(eye), tuple(target), fov)


def solids_of(model, q, mocap, origins, without=()) -> list[_Solid]:
    poses = geom_poses(model, body_poses(model, q, mocap))
    poses[..., :3] += origins[:, None]
    radii, colors = bounding_radii(model), geom_colors(model)[:, :3] ** 2.2
    drawn = np.flatnonzero(model.geom_visible & (model.geom_type != GeomType.PLANE))
    drawn = np.setdiff1d(drawn, without).astype(int).tolist()
    meshes = {g: (_table_of(model), int(model.geom_mesh[g])) for g in drawn if model.geom_mesh[g] >= 0}
    fields = {g: _own_mesh(*triangles(model, g)) for g in drawn if model.geom_type[g] == GeomType.HFIELD}
    solids = []
    for world in range(len(q)):
        for g in drawn:
            pose, color = poses[world, g], colors[g]
            at = pose[:3], rotation_matrix(pose[3:])
            if g in fields:
                solids.append(_Solid(GeomType.MESH, np.zeros(3), *at, fields[g][0], color, fields[g][1], terrain=True))
            else:
                kind, size = GeomType(model.geom_type[g]), model.geom_size[g]
                solids.append(_Solid(kind, size, *at, float(radii[g]), color, meshes.get(g)))
    return solids


def _cast(view: _View, first: int, last: int) -> np.ndarray:
    """Linear colors `(rows * width, 3)` of the image's rows first to last."""
    solids, floor, eye, planes = view.solids, view.floor, view.eye, view.rays(slice(first, last))
    rays = np.stack(planes, axis=-1)
    depth, owner, normals = _floor_hits(floor, eye, rays)
    meshes = np.zeros(depth.shape, bool)  # the rays in windows of meshes
    for index, window in enumerate(view.windows):
        if window is None or window[0].stop <= first or window[0].start >= last:
            continue
        at = slice(max(window[0].start - first, 0), max(window[0].stop - first, 0)), window[1]
        if solids[index].mesh is None:
            _meet(solids[index], index, eye, rays, planes, at, depth, owner, normals)
        else:
            meshes[at] = True
    rays, hits = rays.reshape(-1, 3), (depth.ravel(), owner.ravel(), normals.reshape(-1, 3))
    _meet_meshes(solids, eye, rays, np.flatnonzero(meshes), *hits)
    _set_round_normals(solids, eye, rays, *hits)
    open_ = None if view.open is None else view.open[first:last].ravel()
    return _shade(solids, floor, eye, rays, *hits, open_)


def _meet(solid, index: int, eye, rays, planes, at, depth, owner, normals) -> None:
    """Keep the hits of one solid that are nearer, at rays chosen by a window or by indices.

    `planes` are the components of the rays. Normals of round solids are left to `_set_round_normals`.
    """
    if solid.kind in ROUND:
        t, normal = round_hits(solid, eye, *(plane[at] for plane in planes)), None
    else:
        t, normal = _intersect(solid, eye, rays[at])
    before = depth[at]
    nearer = t < before
    if nearer.any():
        depth[at], owner[at] = np.where(nearer, t, before), np.where(nearer, index, owner[at])
        if normal is not None:
            normals[at] = np.where(nearer[..., None], normal, normals[at])


def _meet_meshes(solids, eye, rays, at, depth, owner, normals) -> None:
    """Keep the hits of all meshes that are nearer, at rays chosen by indices."""
    t, index, normal = _mesh_hits(solids, eye[None], rays[at], depth[at])
    hit = index >= 0
    depth[at[hit]], owner[at[hit]], normals[at[hit]] = t[hit], index[hit], normal[hit]


def _set_round_normals(solids, eye, rays, depth, owner, normals) -> None:
    """Normals `(n, 3)` at the hits of spheres and capsules; of the others they are there."""
    of_round = np.array([*(s.kind in ROUND for s in solids), False, False])  # the last for the floor (-2), the sky (-1)
    at = np.flatnonzero(of_round[owner])
    if len(at):
        normals[at] = round_normals(solids, eye + depth[at, None] * rays[at], owner[at])


def _finer(rows: np.ndarray, count: int) -> np.ndarray:
    """Interpolate rows to `count` values; each given row stands for `COARSE`."""
    at = np.clip((np.arange(count) - (COARSE - 1) / 2) / COARSE, 0, rows.shape[1] - 1)
    left = np.minimum(at.astype(int), max(rows.shape[1] - 2, 0))
    share = (at - left).astype(np.float32)
    return rows[:, left] * (1 - share) + rows[:, np.minimum(left + 1, rows.shape[1] - 1)] * share


def _window(solid, eye, frame, half, width, height):
    """Slices of the image that contain a solid; None outside the view.

    They contain the spheres at both ends of a capsule, and the bounding sphere of any other solid.
    """
    right, up, forward = frame
    centers, radius = np.array([solid.center]), solid.radius
    if solid.kind in ROUND:
        along, radius = half_length(solid) * solid.rotation[:, 2], float(solid.size[0])
        centers = np.array([solid.center - along, solid.center + along])
    offset = centers - eye
    ahead = offset @ forward
    if ahead.max() < -radius:
        return None
    if ahead.min() < 1.5 * radius:
        return slice(0, height), slice(0, width)
    reach = radius * np.hypot(1.0, half * max(1.0, width / height)) / (ahead - radius)
    u, w = offset @ right / ahead, offset @ up / ahead
    scale = height / (2 * half)
    low_x, high_x = width / 2 + (u - reach).min() * scale, width / 2 + (u + reach).max() * scale
    low_y, high_y = height / 2 - (w + reach).max() * scale, height / 2 - (w - reach).min() * scale
    if high_x < 0 or low_x > width or high_y < 0 or low_y > height:
        return None
    rows = slice(max(0, int(low_y)), min(height, int(high_y) + 2))
    return rows, slice(max(0, int(low_x)), min(width, int(high_x) + 2))


def _shade(solids, floor, eye, rays, depth, owner, normals, open_) -> np.ndarray:
    image = np.empty((len(owner), 3), np.float32)
    sky = (SKY_LOW + (SKY_HIGH - SKY_LOW) * np.clip(np.linspace(0, 1.6, 257)[:, None], 0, 1) ** 0.7) ** 2.2
    missed = np.flatnonzero(owner == -1)
    image[missed] = sky.astype(np.float32)[np.clip(256 * rays[missed, 2], 0, 256).astype(int)]
    hit = np.flatnonzero(owner != -1)
    facing = np.maximum(normals[hit] @ SUN.astype(np.float32), 0)
    points = eye + depth[hit, None] * rays[hit]
    dark = _shadowed(solids, points + 1e-4 * normals[hit], facing > 0)
    palette = np.array([s.color for s in solids], np.float32).reshape(-1, 3)
    far = max(_farthest(solids, eye), 1.0)
    for first in range(0, len(hit), PIECE):
        part = slice(first, first + PIECE)
        at, who = hit[part], owner[hit[part]]
        on_floor = who == -2
        base = palette[np.maximum(who, 0)] if len(palette) else np.empty((len(at), 3), np.float32)
        base[on_floor] = _tiles(points[part][on_floor], depth[at[on_floor]])
        near = np.ones(len(at), np.float32)
        if floor is not None:  # less sky light reaches points near the floor
            near = np.where(on_floor, open_[at], 0.65 + 0.35 * np.clip((points[part][:, 2] - floor) / 0.5, 0, 1))
        lit = facing[part] * ~dark[part]
        color = base * _light(normals[at], near.astype(np.float32), lit)
        shiny = np.flatnonzero(~on_floor & (lit > 0))
        half = SUN - rays[at[shiny]]
        cosine = _dot(normals[at[shiny]], half) / np.sqrt(_dot(half, half))
        color[shiny] += (0.25 * np.clip(cosine, 0, 1) ** 40)[:, None] * SUN_COLOR
        fade = np.exp(-((np.maximum(depth[at] - far, 0) / (3 * far)) ** 2)).astype(np.float32)[:, None]
        image[at] = color * fade + (SKY_LOW**2.2).astype(np.float32) * (1 - fade)
    return image


def _light(normals, near, lit) -> np.ndarray:
    """Light of sun, sky and ground `(n, 3)`; `near`: share of sky light that reaches the point."""
    light = lit[:, None] * (0.85 * SUN_COLOR).astype(np.float32)
    light += ((0.5 + 0.5 * normals[:, 2]) * near)[:, None] * (0.42 * (SKY_LOW - GROUND_LIGHT)).astype(np.float32)
    light += near[:, None] * (0.42 * GROUND_LIGHT).astype(np.float32)
    return light


def _farthest(solids, eye) -> float:
    """Distance [m] of the solid farthest from the eye; haze begins behind it."""
    if not solids:
        return 10.0
    offset = np.array([s.center for s in solids]) - eye
    return float((np.sqrt(_dot(offset, offset)) + np.array([s.radius for s in solids])).max())


def _tiles(points, distance) -> np.ndarray:
    """One-meter checkers that blend to their mean where they would alias."""
    even = (np.floor(points[:, 0]) + np.floor(points[:, 1])).astype(int) & 1
    mean = 0.5 + (even - 0.5) * np.clip(1.2 - distance / 120.0, 0, 1)
    table = (TILES[0] + (TILES[1] - TILES[0]) * np.linspace(0, 1, 257)[:, None]) ** 2.2
    return table.astype(np.float32)[(256 * mean + 0.5).astype(int)]


def _shadowed(solids, points, candidates) -> np.ndarray:
    """Which points are in the sun's shadow; only `candidates` are tested."""
    dark = np.zeros(len(points), dtype=bool)
    index, darkening = np.flatnonzero(candidates), [s for s in solids if s.darkens]
    if not darkening or not len(index):
        return dark
    chosen, radii = points[index], np.array([s.radius for s in darkening])
    sunlit = SunlitPoints(chosen, SUN, float(np.median(radii)))
    meshes, near = [], np.zeros(len(chosen), bool)
    for k in sunlit.reached(np.array([s.center for s in darkening]), radii):
        solid = darkening[k]
        if solid.kind in ROUND:
            sunlit.darken_round(solid)
            continue
        at = sunlit.candidates(solid)
        if solid.mesh is not None:
            meshes.append(solid)
            near[at] = True
        elif len(at):
            origins = chosen[sunlit.order[at]]
            t, _ = _intersect(solid, origins, np.broadcast_to(SUN, origins.shape), normals=False)
            sunlit.dark[at] = t < FAR
    at = np.flatnonzero(near & ~sunlit.dark)
    sunlit.dark[at] = _mesh_hits(meshes, chosen[sunlit.order[at]], SUN[None], np.full(len(at), FAR))[1] >= 0
    dark[index[sunlit.order]] = sunlit.dark
    return dark


def _openness(solids, floor: float, eye, rays) -> np.ndarray:
    """Share `(h, w)` of sky light that reaches the floor along `rays (h, w, 3)`; each solid near above reduces it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (floor - eye[2]) / rays[..., 2]
    index = np.flatnonzero((t.ravel() > 0) & (t.ravel() < FAR))
    points = (eye + t.ravel()[index, None] * rays.reshape(-1, 3)[index])[:, :2]
    order = np.argsort(points[:, 0])
    points, index = points[order], index[order]
    share = np.ones(len(index))
    for solid in (s for s in solids if s.darkens):
        height = max(float(solid.center[2]) - floor, 1e-3)
        size = min(solid.radius, 2.0 * float(solid.size[0])) if solid.size[0] > 0 else solid.radius
        reach = 3.0 * (size + height)
        a, b = np.searchsorted(points[:, 0], [solid.center[0] - reach, solid.center[0] + reach])
        square = (points[a:b, 0] - solid.center[0]) ** 2 + (points[a:b, 1] - solid.center[1]) ** 2 + height**2
        covered = size**2 / np.maximum(square, size**2) * height / np.sqrt(square)
        share[a:b] *= 1 - 0.6 * covered * np.clip(2 - 2 * np.sqrt(square) / reach, 0, 1)
    result = np.ones(t.size, np.float32)
    result[index] = share
    return result.reshape(t.shape)


def _intersect(solid, origin, rays, normals: bool = True):
    """Distances `(...)` along unit rays `(..., 3)` from `origin`, FAR without a hit, and world normals.

    Spheres and capsules (`round_solids`) and meshes (`_mesh_hits`) have functions of their own.
    """
    o, d = (origin - solid.center) @ solid.rotation, rays @ solid.rotation
    o = np.broadcast_to(o, d.shape)
    size = solid.size
    if solid.kind == GeomType.ELLIPSOID:
        t = _unit_sphere(o / size, d / size)
    elif solid.kind == GeomType.CYLINDER:
        t = _cylinder(o, d, size[0], size[1])
    else:
        t = _box(o, d, size)
    if not normals:
        return t, None
    n = _outward(solid, o + np.where(t < FAR, t, 0.0)[..., None] * d)
    n = n / np.maximum(np.sqrt(_dot(n, n)), 1e-12)[..., None]
    return t, n @ solid.rotation.T


def _outward(solid, p) -> np.ndarray:
    """Outward normal, of any length, at surface points `p (..., 3)`, in the solid's axes."""
    size = solid.size
    if solid.kind == GeomType.ELLIPSOID:
        return p / size**2
    if solid.kind == GeomType.CYLINDER:
        return np.where(np.abs(p[..., 2:]) > size[1] * (1 - 1e-6), p * [0, 0, 1], p * [1, 1, 0])
    if solid.kind == GeomType.BOX:
        share = np.abs(p) / size
        return np.where(share >= share.max(axis=-1, keepdims=True), np.sign(p), 0.0)
    return p


def _dot(a, b):
    """Dot product over the last axis; several times as fast as `np.sum` for short axes."""
    return np.einsum("...i,...i->...", a, b)


def _nearest(t, valid):
    return np.where(valid & (t > 0), t, FAR)


def _unit_sphere(o, d):
    """Distance to a sphere of radius 1. Rays need not be unit vectors: t is along d."""
    a, b, c = _dot(d, d), _dot(o, d), _dot(o, o) - 1.0
    root = b * b - a * c
    t = (-b - np.sqrt(np.maximum(root, 0))) / a
    return _nearest(t, root > 0)


def _tube(o, d, radius):
    """Entry into the infinite cylinder about z, and whether there is one."""
    a = np.maximum(_dot(d[..., :2], d[..., :2]), 1e-18)
    b, c = _dot(o[..., :2], d[..., :2]), _dot(o[..., :2], o[..., :2]) - radius**2
    root = b * b - a * c
    return (-b - np.sqrt(np.maximum(root, 0))) / a, root > 0


def _cylinder(o, d, radius, half):
    t, hit = _tube(o, d, radius)
    t = _nearest(t, hit & (np.abs(o[..., 2] + t * d[..., 2]) <= half))
    down = np.where(np.abs(d[..., 2]) > 1e-12, d[..., 2], 1e-12)
    for end in (-half, half):
        cap = (end - o[..., 2]) / down
        across = o[..., :2] + cap[..., None] * d[..., :2]
        t = np.minimum(t, _nearest(cap, _dot(across, across) <= radius**2))
    return t


def _box(o, d, size):
    safe = np.where(np.abs(d) > 1e-12, d, 1e-12)
    a, b = (-size - o) / safe, (size - o) / safe
    enter, leave = np.minimum(a, b).max(axis=-1), np.maximum(a, b).min(axis=-1)
    return _nearest(enter, enter < leave)


def _mesh_hits(solids, origins, rays, depth):
    """Hits of meshes nearer than `depth (n,)`: distance, index in `solids` (-1: none), and normal towards the eye.

    `origins` and `rays` are `(n, 3)`, or `(1, 3)` for all.
    """
    depth, owner, normals = np.array(depth), np.full(len(depth), -1), np.zeros((len(depth), 3))
    groups: dict[int, list[int]] = {}
    for k, solid in enumerate(solids):
        if solid.mesh is not None:
            groups.setdefault(id(solid.mesh[0]), []).append(k)
    if not groups or not len(depth):
        return depth, owner, normals
    there = functools.partial(upload, device="cpu")
    seen = there(origins, wp.vec3d), there(rays, wp.vec3d)
    found, n = (wp.empty(len(depth), dtype=kind, device="cpu") for kind in (wp.int32, wp.vec3d))
    for group in groups.values():
        own = [solids[k] for k in group]
        inputs = [*seen, own[0].mesh[0], there([s.mesh[1] for s in own], wp.int32)]
        inputs += [there([s.radius for s in own], wp.float64), there([s.center for s in own], wp.vec3d)]
        inputs += [there([s.rotation for s in own], wp.mat33d), t := there(depth, wp.float64), found, n]
        launch(ray_cast.cast_at_meshes, wp.float64, len(depth), inputs, device="cpu", record_tape=False)
        at = np.flatnonzero(found.numpy() >= 0)
        depth[at], owner[at], normals[at] = t.numpy()[at], np.array(group)[found.numpy()[at]], n.numpy()[at]
    return depth, owner, normals
