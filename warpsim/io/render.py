"""A small NumPy ray caster for pictures of models: sun with shadows, sky light, checkered floor, no GPU and no display.

Each geom is intersected only with the rays inside its bounding sphere on screen, and each shadow only with the points
inside its bounding sphere seen from the sun, so that a picture takes about a second.
"""

import dataclasses
import pathlib

import numpy as np

from warpsim.io.host_kinematics import body_poses, geom_poses
from warpsim.io.scene import bounding_radii, default_spacing, geom_colors, grid_origins, horizontal_planes
from warpsim.model.geometry import rotation_matrix
from warpsim.model.model import GeomType

SUN = np.array([-0.45, -0.55, 0.95]) / np.linalg.norm([-0.45, -0.55, 0.95])  # towards the sun
SUN_COLOR = np.array([1.0, 0.95, 0.86])
SKY_LOW, SKY_HIGH = np.array([0.86, 0.91, 0.96]), np.array([0.45, 0.64, 0.88])
GROUND_LIGHT = np.array([0.42, 0.40, 0.38])
TILES = np.array([[0.60, 0.65, 0.71], [0.47, 0.53, 0.61]])
FAR = 1e9


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole camera: `eye (3,)`, `target (3,)` [m], vertical field of view [degrees]; z is up."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float = 30.0

    def frame(self) -> np.ndarray:
        """Rows right, up, forward `(3, 3)`."""
        forward = np.subtract(self.target, self.eye)
        length = np.linalg.norm(forward)
        if not length > 0:
            raise ValueError("the camera's eye and target are the same point; move one of them")
        forward = forward / length
        helper = np.array([0.0, 1.0, 0.0]) if abs(forward[2]) > 0.999 else np.array([0.0, 0.0, 1.0])
        right = np.cross(forward, helper)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])


@dataclasses.dataclass(frozen=True)
class _Solid:
    """One geom in the world: centre (3,), rotation (3, 3), bounding radius, colour (3,)."""

    kind: GeomType
    size: np.ndarray
    center: np.ndarray
    rotation: np.ndarray
    radius: float
    color: np.ndarray
    mesh: object = None


def render_png(model, q, path, camera: Camera | None = None, width: int = 960, height: int = 540, **options) -> None:
    """Write a PNG of `model` at `q`; options as in `render_image`."""
    from matplotlib.image import imsave

    path = pathlib.Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it first")
    imsave(path, render_image(model, q, camera, width, height, **options), format="png")


def render_image(
    model, q, camera: Camera | None = None, width: int = 960, height: int = 540, *, spacing=None, samples: int = 2
) -> np.ndarray:
    """Picture `(height, width, 3)` uint8 of one world `q (nq,)`, or of several `(worlds, nq)` on a grid `spacing` apart.

    Without a camera one is placed to see every body. `samples` squared rays per pixel smooth the edges.
    """
    q = np.atleast_2d(np.asarray(q, dtype=float))
    if q.ndim != 2 or q.shape[1] != model.nq or not np.isfinite(q).all():
        raise ValueError(f"q has shape {q.shape}; it must be finite, (nq,) or (worlds, nq) with nq = {model.nq}")
    if min(width, height, samples) < 1:
        raise ValueError(f"width={width}, height={height}, samples={samples}; each must be at least 1")
    origins = grid_origins(len(q), default_spacing(model) if spacing is None else float(spacing))
    solids = _solids(model, q, origins)
    floors = horizontal_planes(model)
    floor = float(model.geom_pose[floors, 2].max()) if len(floors) else None
    camera = fit_camera(solids, width / height) if camera is None else camera
    image = _cast(solids, floor, camera, width * samples, height * samples)
    image = image.reshape(height, samples, width, samples, 3).mean(axis=(1, 3))
    return (255 * np.clip(image, 0, 1) ** (1 / 2.2) + 0.5).astype(np.uint8)


def fit_camera(solids, aspect: float, fov: float = 30.0) -> Camera:
    """A camera that looks down on all solids from the front right, as near as shows them all."""
    if not solids:
        return Camera((3, -4, 2.5), (0, 0, 0), fov)
    centers, radii = np.array([s.center for s in solids]), np.array([s.radius for s in solids])
    target = ((centers - radii[:, None]).min(axis=0) + (centers + radii[:, None]).max(axis=0)) / 2
    direction = np.array([0.62, -1.0, 0.55])
    direction /= np.linalg.norm(direction)
    right, up, forward = Camera(tuple(target + direction), tuple(target), fov).frame()
    offset = centers - target
    half = np.tan(np.radians(fov) / 2)
    tall = (np.abs(offset @ up) + radii) / half
    wide = (np.abs(offset @ right) + radii) / (half * aspect)
    distance = float((np.maximum(tall, wide) - offset @ forward).max()) * 1.08
    return Camera(tuple(target + distance * direction), tuple(target), fov)


def _solids(model, q, origins) -> list[_Solid]:
    poses = geom_poses(model, body_poses(model, q))
    poses[..., :3] += origins[:, None]
    radii, colors = bounding_radii(model), geom_colors(model)[:, :3] ** 2.2
    skip = (GeomType.PLANE, GeomType.HFIELD)
    drawn = [g for g in np.flatnonzero(model.geom_visible) if GeomType(model.geom_type[g]) not in skip]
    solids = []
    for world in range(len(q)):
        for g in drawn:
            mesh = model.meshes[model.geom_mesh[g]] if model.geom_mesh[g] >= 0 else None
            kind, pose = GeomType(model.geom_type[g]), poses[world, g]
            rotation = rotation_matrix(pose[3:])
            solids.append(_Solid(kind, model.geom_size[g], pose[:3], rotation, float(radii[g]), colors[g], mesh))
    return solids


def _cast(solids, floor, camera: Camera, width: int, height: int) -> np.ndarray:
    """Linear colours `(height * width, 3)`."""
    eye, (right, up, forward) = np.asarray(camera.eye, float), camera.frame()
    half = np.tan(np.radians(camera.fov) / 2)
    x = (2 * (np.arange(width) + 0.5) / width - 1) * half * width / height
    y = (1 - 2 * (np.arange(height) + 0.5) / height) * half
    rays = forward + x[None, :, None] * right + y[:, None, None] * up
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    depth, owner = np.full((height, width), FAR), np.full((height, width), -1)
    normals = np.zeros((height, width, 3))
    if floor is not None:
        with np.errstate(divide="ignore"):
            t = (floor - eye[2]) / rays[..., 2]
        hit = (t > 0) & (t < FAR)
        depth[hit], owner[hit], normals[hit] = t[hit], -2, (0, 0, 1 if eye[2] > floor else -1)
    for index, solid in enumerate(solids):
        window = _window(solid, eye, (right, up, forward), half, width, height)
        if window is None:
            continue
        t, normal = _intersect(solid, eye, rays[window])
        nearer = t < depth[window]
        depth[window][nearer], owner[window][nearer], normals[window][nearer] = t[nearer], index, normal[nearer]
    return _shade(solids, floor, eye, rays.reshape(-1, 3), depth.ravel(), owner.ravel(), normals.reshape(-1, 3))


def _window(solid, eye, frame, half, width, height):
    """Slices of the picture that hold a solid's bounding sphere; None outside the view."""
    right, up, forward = frame
    offset = solid.center - eye
    ahead = float(offset @ forward)
    if ahead < -solid.radius:
        return None
    if ahead < 1.5 * solid.radius:
        return slice(0, height), slice(0, width)
    reach = solid.radius * np.hypot(1.0, half * max(1.0, width / height)) / (ahead - solid.radius)
    u, w = offset @ right / ahead, offset @ up / ahead
    scale = height / (2 * half)
    low_x, high_x = width / 2 + (u - reach) * scale, width / 2 + (u + reach) * scale
    low_y, high_y = height / 2 - (w + reach) * scale, height / 2 - (w - reach) * scale
    if high_x < 0 or low_x > width or high_y < 0 or low_y > height:
        return None
    rows = slice(max(0, int(low_y)), min(height, int(high_y) + 2))
    return rows, slice(max(0, int(low_x)), min(width, int(high_x) + 2))


def _shade(solids, floor, eye, rays, depth, owner, normals) -> np.ndarray:
    image = SKY_LOW + (SKY_HIGH - SKY_LOW) * np.clip(rays[:, 2:3] * 1.6, 0, 1) ** 0.7
    image = image**2.2
    hit = np.flatnonzero(owner != -1)
    if len(hit) == 0:
        return image
    points, n, who = eye + depth[hit, None] * rays[hit], normals[hit], owner[hit]
    base = np.empty((len(hit), 3))
    on_floor = who == -2
    palette = np.array([s.color for s in solids]).reshape(-1, 3)
    base[~on_floor] = palette[who[~on_floor]]
    base[on_floor] = _tiles(points[on_floor], depth[hit][on_floor])
    facing = np.clip(n @ SUN, 0, None)
    lit = facing * ~_shadowed(solids, points + 1e-4 * n, facing > 0)
    ambient = GROUND_LIGHT + (SKY_LOW - GROUND_LIGHT) * (0.5 + 0.5 * n[:, 2:3])
    if floor is not None:  # less sky reaches what is near the floor
        ambient = ambient * np.where(on_floor, 1.0, 0.65 + 0.35 * np.clip((points[:, 2] - floor) / 0.5, 0, 1))[:, None]
    ambient = ambient * _openness(solids, points, on_floor)[:, None]
    half = SUN - rays[hit]
    half /= np.linalg.norm(half, axis=-1, keepdims=True)
    shine = np.where(on_floor, 0.0, 0.25) * np.clip(np.sum(n * half, axis=-1), 0, 1) ** 40 * (lit > 0)
    color = base * (0.42 * ambient + 0.85 * lit[:, None] * SUN_COLOR) + shine[:, None] * SUN_COLOR
    spread = 8.0 * max(_extent(solids, eye), 1.0)
    fade = np.exp(-((depth[hit] / spread) ** 2))[:, None]
    image[hit] = color * fade + SKY_LOW**2.2 * (1 - fade)
    return image


def _extent(solids, eye) -> float:
    return max((float(np.linalg.norm(s.center - eye)) for s in solids), default=5.0) / 2


def _tiles(points, distance) -> np.ndarray:
    """One-metre checkers that blend to their mean where they would flicker."""
    even = (np.floor(points[:, 0]) + np.floor(points[:, 1])) % 2
    mean = 0.5 + (even - 0.5) * np.clip(1.2 - distance / 120.0, 0, 1)
    return (TILES[0] + (TILES[1] - TILES[0]) * mean[:, None]) ** 2.2


def _shadowed(solids, points, candidates) -> np.ndarray:
    """Which points the sun does not reach; only `candidates` are tested."""
    dark = np.zeros(len(points), dtype=bool)
    first = np.cross(SUN, [0.0, 0.0, 1.0])
    first /= np.linalg.norm(first)
    plane = np.stack([first, np.cross(SUN, first)], axis=-1)  # what the sun sees: two coordinates across its rays
    index = np.flatnonzero(candidates)
    seen = points[index] @ plane
    order = np.argsort(seen[:, 0])
    index, seen = index[order], seen[order]
    for solid in solids:
        center = solid.center @ plane
        a, b = np.searchsorted(seen[:, 0], [center[0] - solid.radius, center[0] + solid.radius])
        near = index[a:b][np.sum((seen[a:b] - center) ** 2, axis=-1) <= solid.radius**2]
        near = near[~dark[near]]
        if len(near):
            t, _ = _intersect(solid, points[near], np.broadcast_to(SUN, (len(near), 3)), normals=False)
            dark[near] = t < FAR
    return dark


def _openness(solids, points, chosen) -> np.ndarray:
    """Share of sky light that reaches floor points: each solid near above takes the solid angle of its sphere."""
    open_ = np.ones(len(points))
    index = np.flatnonzero(chosen)
    if len(index) == 0:
        return open_
    order = np.argsort(points[index, 0])
    index = index[order]
    x = points[index, 0]
    for solid in solids:
        size = min(solid.radius, 2.0 * float(solid.size[0]) if solid.size[0] > 0 else solid.radius)
        reach = 3.0 * (size + max(solid.center[2], 0.0))
        a, b = np.searchsorted(x, [solid.center[0] - reach, solid.center[0] + reach])
        near = index[a:b]
        offset = solid.center - points[near]
        square = np.sum(offset**2, axis=-1)
        covered = size**2 / np.maximum(square, size**2) * np.clip(offset[:, 2] / np.sqrt(square + 1e-12), 0, 1)
        open_[near] *= 1 - 0.6 * covered * np.clip(2 - 2 * np.sqrt(square) / (reach + 1e-9), 0, 1)
    return open_


def _intersect(solid, origin, rays, normals: bool = True):
    """Distances `(...)` along unit rays `(..., 3)` from `origin`, FAR where they miss, and world normals."""
    o, d = (origin - solid.center) @ solid.rotation, rays @ solid.rotation
    o = np.broadcast_to(o, d.shape)
    size = solid.size
    if solid.kind == GeomType.SPHERE:
        t = _sphere(o, d, size[0])
        outward = (lambda p: p) if normals else None
    elif solid.kind == GeomType.ELLIPSOID:
        t = _sphere(o / size, d / size, 1.0)
        outward = lambda p: p / size**2  # noqa: E731
    elif solid.kind == GeomType.CAPSULE:
        t = _capsule(o, d, size[0], size[1])
        outward = lambda p: p - np.array([0, 0, 1]) * np.clip(p[..., 2:], -size[1], size[1])  # noqa: E731
    elif solid.kind == GeomType.CYLINDER:
        t = _cylinder(o, d, size[0], size[1])
        outward = (
            lambda p: np.where(  # noqa: E731
                np.abs(p[..., 2:]) > size[1] * (1 - 1e-6), p * [0, 0, 1], p * [1, 1, 0]
            )
        )
    elif solid.kind == GeomType.BOX:
        t = _box(o, d, size)
        outward = lambda p: _box_normal(p, size)  # noqa: E731
    else:
        return _mesh(solid, o, d)
    if not normals:
        return t, None
    n = outward(o + np.where(t < FAR, t, 0.0)[..., None] * d)
    n = n / np.maximum(np.linalg.norm(n, axis=-1, keepdims=True), 1e-12)
    return t, n @ solid.rotation.T


def _nearest(t, valid):
    return np.where(valid & (t > 0), t, FAR)


def _sphere(o, d, radius):
    """Also for rays that are not unit: t is along d."""
    a, b, c = np.sum(d * d, -1), np.sum(o * d, -1), np.sum(o * o, -1) - radius**2
    root = b * b - a * c
    t = (-b - np.sqrt(np.maximum(root, 0))) / a
    return _nearest(t, root > 0)


def _tube(o, d, radius):
    """Entry into the infinite cylinder about z, and whether there is one."""
    a = np.maximum(np.sum(d[..., :2] ** 2, -1), 1e-18)
    b, c = np.sum(o[..., :2] * d[..., :2], -1), np.sum(o[..., :2] ** 2, -1) - radius**2
    root = b * b - a * c
    return (-b - np.sqrt(np.maximum(root, 0))) / a, root > 0


def _capsule(o, d, radius, half):
    t, hit = _tube(o, d, radius)
    t = _nearest(t, hit & (np.abs(o[..., 2] + t * d[..., 2]) <= half))
    for end in (-half, half):
        t = np.minimum(t, _sphere(o - np.array([0, 0, end]), d, radius))
    return t


def _cylinder(o, d, radius, half):
    t, hit = _tube(o, d, radius)
    t = _nearest(t, hit & (np.abs(o[..., 2] + t * d[..., 2]) <= half))
    down = np.where(np.abs(d[..., 2]) > 1e-12, d[..., 2], 1e-12)
    for end in (-half, half):
        cap = (end - o[..., 2]) / down
        across = o[..., :2] + cap[..., None] * d[..., :2]
        t = np.minimum(t, _nearest(cap, np.sum(across**2, -1) <= radius**2))
    return t


def _box(o, d, size):
    safe = np.where(np.abs(d) > 1e-12, d, 1e-12)
    a, b = (-size - o) / safe, (size - o) / safe
    enter, leave = np.minimum(a, b).max(axis=-1), np.maximum(a, b).min(axis=-1)
    return _nearest(enter, enter < leave)


def _box_normal(p, size):
    share = np.abs(p) / size
    return np.where(share >= share.max(axis=-1, keepdims=True), np.sign(p), 0.0)


def _mesh(solid, o, d):
    """Möller-Trumbore, face by face over the rays of the window; with flat normals."""
    vertices, faces = np.asarray(solid.mesh.vertices, float), np.asarray(solid.mesh.faces)
    best, normal = np.full(d.shape[:-1], FAR), np.zeros(d.shape)
    flat_o, flat_d = o.reshape(-1, 3), d.reshape(-1, 3)
    best_flat, normal_flat = best.reshape(-1), normal.reshape(-1, 3)
    for a, b, c in vertices[faces]:
        e1, e2 = b - a, c - a
        p = np.cross(flat_d, e2)
        det = p @ e1
        inverse = 1 / np.where(np.abs(det) > 1e-15, det, 1e-15)
        s = flat_o - a
        u = np.sum(s * p, -1) * inverse
        r = np.cross(s, e1)
        w = np.sum(flat_d * r, -1) * inverse
        t = (r @ e2) * inverse
        nearer = (u >= 0) & (w >= 0) & (u + w <= 1) & (t > 1e-9) & (t < best_flat)
        best_flat[nearer] = t[nearer]
        face = np.cross(e1, e2)
        towards = np.where(flat_d[nearer] @ face > 0, -1.0, 1.0)[:, None]
        normal_flat[nearer] = towards * face / max(float(np.linalg.norm(face)), 1e-15)
    return best, normal @ solid.rotation.T
