# SPDX-License-Identifier: Apache-2.0
"""The scene of viser's pages: one batched mesh per shape of geom, ground, sky, light and the initial view."""

import numpy as np

from warpsim.files.scene import bounding_radii, fit_view, geom_colors, horizontal_planes
from warpsim.files.shapes import triangles
from warpsim.model.model import GeomType

SKY = (0.62, 0.76, 0.92)
TILES = ((150, 162, 178), (122, 136, 156))
HAZE = (219, 230, 241)  # color that the floor fades into
GAMMA = 1.7  # viser's tone mapping washes colors out; this compensates
FIELD_OF_VIEW = np.radians(40.0)
# Factor on colors in a recording, which has viser's environment map besides the lamp: viser's client restores
# the map in every loop, even where the scene has removed it.
RECORDED = 0.62
ROOM = 1.25  # factor on each geom's radius in the initial view
ASPECT = 1.1  # width over height of the initial view's free area, beside the panel
NEAR, FAR = 0.01, 1000.0  # m, clipping distances of viser's camera, adapted to smaller or larger scenes


def shape_groups(model) -> list[np.ndarray]:
    """Visible geoms grouped by equal shape; each group is one batched mesh."""
    drawn: dict[tuple, list[int]] = {}
    for g in np.flatnonzero(model.geom_visible):
        kind = GeomType(model.geom_type[g])
        if kind == GeomType.PLANE:
            continue
        shape = (int(model.geom_mesh[g]),) if kind == GeomType.MESH else tuple(np.round(model.geom_size[g], 9))
        drawn.setdefault((kind, shape, float(model.geom_rgba[g, 3])), []).append(int(g))
    return [np.array(group) for group in drawn.values()]


def add_group(server, model, group, frame, under: str = "", shade: float = 1.0):
    """One batched mesh of `frame (worlds, ngeom, 7)`, instances world-major.

    `shade` is a factor on colors: `RECORDED` in a recording.
    """
    vertices, faces = triangles(model, int(group[0]))
    placed = frame[:, group].reshape(-1, 7)
    colors = np.tile(np.round(255 * shade * geom_colors(model)[group, :3] ** GAMMA).astype(np.uint8), (len(frame), 1))
    alpha = float(model.geom_rgba[group[0], 3])
    kind = GeomType(model.geom_type[group[0]])
    return server.scene.add_batched_meshes_simple(
        f"{under}/robots/{int(group[0])}",  # two names may give the same path
        vertices=vertices.astype(np.float32),
        faces=faces.astype(np.uint32),
        batched_positions=placed[:, :3],
        batched_wxyzs=placed[:, 3:],
        batched_colors=colors,
        opacity=None if alpha >= 1 else alpha,
        flat_shading=kind in (GeomType.BOX, GeomType.MESH),
        lod="off",
    )


def set_up(server, model, origins, frame, under: str = "", shade: float = 1.0) -> None:
    """Background, light, ground and camera for the first frame's geoms `(worlds, ngeom, 7)`; see `add_group`."""
    scene = server.scene
    scene.set_up_direction("+z")
    scene.world_axes.visible = False
    sky = np.linspace(SKY, np.array(HAZE) / 255, 64)[:, None] * 255
    scene.set_background_image(np.broadcast_to(sky, (64, 2, 3)).astype(np.uint8), format="png")
    scene.configure_default_lights(cast_shadow=True)
    if shade == 1.0:
        scene.configure_environment_map(None)
        scene.add_light_hemisphere("/sky", sky_color=(255, 255, 255), ground_color=(150, 150, 160), intensity=1.2)
    centers, radii = framed_spheres(model, frame)
    low, high = (centers - radii[:, None]).min(axis=0), (centers + radii[:, None]).max(axis=0)
    size = float((high - low).max())
    floors = horizontal_planes(model)
    if len(floors):
        height = float(model.geom_pose[floors[0], 2])
        add_floor(scene, height, (low + high) / 2, min(60 * size, 6 * max(size, 1.0) + 20), under, shade)
    eye, target = fit_view(centers, ROOM * radii, ASPECT, np.degrees(FIELD_OF_VIEW))
    distance = float(np.linalg.norm(eye - target))
    camera = server.initial_camera
    camera.position, camera.look_at, camera.up = tuple(eye), tuple(target), (0.0, 0.0, 1.0)
    camera.fov = float(FIELD_OF_VIEW)
    camera.near, camera.far = min(NEAR, distance / 50), max(FAR, 20 * distance)


def framed_spheres(model, frame) -> tuple[np.ndarray, np.ndarray]:
    """Centers `(n, 3)` and radii `(n,)` of what the initial view contains, for the geoms at `frame (worlds, ngeom, 7)`.

    These are all visible geoms except the ground, or the ground where there is nothing else.
    """
    drawn = model.geom_visible & (model.geom_type != GeomType.PLANE)
    radii = bounding_radii(model)
    if (drawn & (model.geom_type != GeomType.HFIELD)).any():
        drawn = drawn & (model.geom_type != GeomType.HFIELD)
    else:
        radii = np.linalg.norm(model.geom_size[:, :2], axis=1)
    centers = frame[:, drawn, :3].astype(float)
    radii = np.broadcast_to(radii[drawn], centers.shape[:-1]).reshape(-1)
    centers = centers.reshape(-1, 3)
    found = np.isfinite(centers).all(axis=1)
    return (centers[found], radii[found]) if found.any() else (np.zeros((1, 3)), np.ones(1))


def add_floor(scene, height: float, centre, size: float, under: str, shade: float) -> None:
    """A checkered square of one mesh per color, because batches of one-meter tiles would be large."""
    tile = 2.0 ** np.round(np.log2(size / 40))
    count = int(np.ceil(size / tile))
    start = np.round(centre[:2] / (2 * tile)) * 2 * tile
    x, y = np.meshgrid(np.arange(-count, count), np.arange(-count, count), indexing="ij")
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    for color in range(2):
        chosen = (x + y) % 2 == color
        cells = np.stack([x[chosen], y[chosen]], axis=-1)
        points = (cells[:, None] + corners) * tile + start
        vertices = np.concatenate([points.reshape(-1, 2), np.full((4 * len(cells), 1), height)], axis=-1)
        faces = (4 * np.arange(len(cells))[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3)
        scene.add_mesh_simple(
            f"{under}/ground/{('light', 'dark')[color]}",
            vertices=vertices.astype(np.float32),
            faces=faces.astype(np.uint32),
            color=tuple(round(shade * x) for x in TILES[color]),
            flat_shading=True,
            side="double",
            cast_shadow=False,
            receive_shadow=True,
        )
