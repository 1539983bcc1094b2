# SPDX-License-Identifier: Apache-2.0
"""What every picture of a trajectory needs: its worlds and frames, the place of each world, and colours."""

import numpy as np

from warpsim.base.checks import positive
from warpsim.model import geom_types
from warpsim.model.geometry import rotate
from warpsim.model.host_kinematics import body_poses, geom_poses
from warpsim.model.model import GeomType

# Bodies without a colour in the file (MuJoCo's default grey) take these in turn, one per child of the root.
PALETTE = np.array(
    [
        [0.93, 0.55, 0.20],
        [0.20, 0.55, 0.85],
        [0.30, 0.68, 0.42],
        [0.85, 0.33, 0.36],
        [0.58, 0.44, 0.78],
        [0.90, 0.75, 0.25],
    ]
)
DEFAULT_GREY = 0.5
VIEW_DIRECTION = (0.62, -1.0, 0.55)  # from the scene to its camera


def frame_rows(time, fps: float | None, limit: float = 60.0) -> tuple[np.ndarray, float]:
    """Rows of `time (frames,)` [s] to draw, and their rate [1/s].

    Without `fps`: every k-th row, with the smallest k that gives at most `limit` rows per second. With `fps`: the rows
    nearest to multiples of 1/fps, at most at the recorded rate.
    """
    time = np.asarray(time, dtype=float)
    if fps is not None:
        fps = positive(fps, "fps", "1/s, or None for the recorded rate")
    steps = np.diff(time)
    steps = steps[steps > 0]
    if len(steps) == 0:
        return np.arange(len(time)), float(fps or 24.0)
    recorded = round(1.0 / float(np.median(steps)), 6)
    if fps is None or fps >= recorded * (1 - 1e-6):
        target = limit if fps is None else fps
        stride = max(1, int(np.ceil(recorded / target - 1e-6)))
        return np.arange(0, len(time), stride), recorded / stride
    wanted = np.arange(time[0], time[-1] + 0.5 / fps, 1.0 / fps)
    rows = np.clip(np.searchsorted(time, wanted), 1, len(time) - 1)
    rows = rows - (wanted - time[rows - 1] < time[rows] - wanted)
    return rows, float(fps)


def grid_origins(count: int, spacing: float) -> np.ndarray:
    """Origins `(count, 3)` [m] of worlds on a square grid in the xy plane, centred, row by row from -y."""
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    index = np.arange(count)
    x = (index % columns) - (columns - 1) / 2
    y = (index // columns) - (rows - 1) / 2
    return np.stack([x * spacing, y * spacing, np.zeros(count)], axis=-1)


def bounding_radii(model) -> np.ndarray:
    """Radius `(ngeom,)` [m] of each geom about its own origin; 0 for planes and height fields (scenery)."""
    radii = geom_types.bounding_radii(model)
    return np.where(np.isfinite(radii), radii, 0.0)


def extent(model, q=None) -> tuple[np.ndarray, np.ndarray]:
    """Corners `(3,), (3,)` [m] of a box around the moving geoms at `q` (default: the initial state)."""
    poses = geom_poses(model, body_poses(model, model.q0 if q is None else q))[..., :3]
    radii = bounding_radii(model)[:, None]
    shown = np.flatnonzero(model.geom_visible & (model.geom_type != GeomType.PLANE) & (model.geom_body >= 0))
    if len(shown) == 0:
        shown = np.flatnonzero(model.geom_type != GeomType.PLANE)
    if len(shown) == 0:
        return np.full(3, -0.5), np.full(3, 0.5)
    poses, radii = poses[..., shown, :].reshape(-1, len(shown), 3), radii[shown]
    return (poses - radii).min(axis=(0, 1)), (poses + radii).max(axis=(0, 1))


def fit_view(centers, radii, aspect: float, fov: float) -> tuple[np.ndarray, np.ndarray]:
    """Eye and target `(3,)` [m] of the nearest camera that shows all spheres `centers (n, 3)`, `radii (n,)`.

    The camera looks down from the front right. `aspect` is the picture's width / height, `fov` its vertical angle of
    view [degrees].
    """
    target = ((centers - radii[:, None]).min(axis=0) + (centers + radii[:, None]).max(axis=0)) / 2
    right, up, back = view_axes(VIEW_DIRECTION)
    offset, half = centers - target, np.tan(np.radians(fov) / 2)
    tall = (np.abs(offset @ up) + radii) / half
    wide = (np.abs(offset @ right) + radii) / (half * aspect)
    distance = float((np.maximum(tall, wide) + offset @ back).max()) * 1.08
    return target + distance * back, target


def view_axes(back) -> np.ndarray:
    """Rows right, up and back `(3, 3)`: the axes of a camera that looks along -`back`, with z up in its picture."""
    back = np.asarray(back, float) / np.linalg.norm(back)
    right = np.cross([0.0, 1.0, 0.0] if abs(back[2]) > 0.999 else [0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])


def shown_spheres(model, bodies, origins=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Centres `(n, 3)` and radii `(n,)` [m] of bounding spheres of the drawn geoms, without planes and height fields.

    The bodies are at `bodies (..., worlds, nbody, 7)`, the worlds at `origins (worlds, 3)`. If nothing is drawn: one
    sphere of 1 m about the origin.
    """
    scenery = np.isin(model.geom_type, [GeomType.PLANE, GeomType.HFIELD])
    shown = np.flatnonzero(model.geom_visible & ~scenery)
    centers = geom_poses(model, bodies)[..., shown, :3]
    centers = centers + np.asarray(origins)[..., None, :] if np.ndim(origins) else centers
    if centers.size == 0:
        return np.zeros((1, 3)), np.ones(1)
    radii = np.broadcast_to(bounding_radii(model)[shown], centers.shape[:-1])
    return centers.reshape(-1, 3), radii.reshape(-1)


def default_spacing(model) -> float:
    """Distance [m] between neighbouring worlds, from the model's size in the initial state.

    One and a half times its width, but at least 1.1 times its height and 0.1 m.
    """
    low, high = extent(model)
    return float(max(1.5 * (high - low)[:2].max(), 1.1 * (high - low)[2], 0.1))


def roomy_spacing(model, q, mocap=None) -> float:
    """Distance [m] between worlds in a picture of `q (worlds, nq)` and `mocap` (None: the model's poses).

    The default spacing, plus 1.5 times the distance that 75% of the worlds stay below from their initial place. At most
    2.5 times the default, so that a few worlds that moved far do not make all others small.
    """
    default = default_spacing(model)
    if model.nbody == 0:
        return default
    origin = body_poses(model, model.q0)[..., :2].mean(axis=0)
    walked = np.abs(body_poses(model, q, mocap)[..., :2].mean(axis=-2) - origin).max(axis=-1)
    return float(np.clip(default + 1.5 * np.percentile(walked, 75), default, 2.5 * default))


def horizontal_planes(model) -> np.ndarray:
    """Indices of planes fixed to the world with their normal along +z: one floor is enough for all worlds."""
    planes = np.flatnonzero((model.geom_type == GeomType.PLANE) & (model.geom_body < 0))
    if len(planes) == 0:
        return planes
    return planes[rotate(model.geom_pose[planes, 3:], np.array([0.0, 0.0, 1.0]))[:, 2] > 1 - 1e-9]


def geom_colors(model) -> np.ndarray:
    """Colours `(ngeom, 4)` in 0..1: the model's; geoms of the default grey get a colour of the palette per limb."""
    colors = np.array(model.geom_rgba, dtype=float)
    limb = _limbs(model)
    for g in range(model.ngeom):
        if model.geom_type[g] == GeomType.PLANE:
            if np.allclose(colors[g, :3], DEFAULT_GREY, atol=1e-6):
                colors[g, :3] = 0.62, 0.68, 0.74
        elif np.allclose(colors[g, :3], DEFAULT_GREY, atol=1e-6):
            colors[g, :3] = (
                PALETTE[limb[model.geom_body[g]] % len(PALETTE)] if model.geom_body[g] >= 0 else (0.55, 0.6, 0.65)
            )
    return colors


def _limbs(model) -> np.ndarray:
    """Per body: 0 for a root, else the number of the root's child that it descends from."""
    limb, children = np.zeros(max(model.nbody, 1), dtype=int), 0
    for b in range(model.nbody):
        parent = int(model.body_parent[b])
        if parent < 0:
            limb[b] = 0
        elif model.body_parent[parent] < 0:
            children += 1
            limb[b] = children
        else:
            limb[b] = limb[parent]
    return limb
