# SPDX-License-Identifier: Apache-2.0
"""Contact patches of hydroelastic contact for pictures: patches at recorded positions, triangles, and colours.

A trajectory holds positions, not patches. The patches are computed again for each frame that is drawn, for many frames
and worlds at a time.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import warp as wp

from warpsim.contact.collision import Collision
from warpsim.contact.hydroelastic.contact_patch import ContactPatch, PatchFinder
from warpsim.device.recording import tape_paused
from warpsim.device.threads import turn
from warpsim.files.scene import horizontal_planes
from warpsim.kernels.contact.hydroelastic.find_polygons import DEEP
from warpsim.model.host_kinematics import host_rows
from warpsim.model.model import Model
from warpsim.tree.dynamics import DeviceModel, Dynamics

POSITIONS = 64  # per launch: pairs of a row and a world
MOST_POLYGONS = 4096  # of one world in one frame
# From zero to the largest pressure, each colour lighter than the one before.
STOPS = np.array([[0.10, 0.15, 0.45], [0.05, 0.45, 0.75], [0.10, 0.72, 0.55], [0.98, 0.80, 0.20], [0.90, 0.15, 0.10]])
SEEN_THROUGH = 0.25  # opacity of geoms with pressure fields, so that their patches are seen
LIFT = 1e-3  # [m] of patches above an opaque floor


def refuse_without_fields(model: Model) -> None:
    """Raise `ValueError` if no pair of geoms has hydroelastic contact."""
    if model.point_pairs == len(model.pair_geom):
        raise ValueError(
            f"model {model.name!r} has no patches to show: no pair of its geoms touches by pressure fields; give geoms "
            "hydroelastic=ws.Hydroelastic(...), or leave patches out"
        )


def patch_frames(model: Model, q, rows, worlds, mocap=None) -> Iterator[list[list[ContactPatch]]]:
    """Yield, for each of the rows of `q (rows, all worlds, nq)` in order, the patches of each of the worlds.

    `mocap (rows, all worlds, nmocap, 7)` are the poses of mocap bodies (None: the model's). Sizes and moduli are the
    model's. Runs on the device of q, or on Warp's preferred device if q is on the host.
    """
    rows, worlds = np.asarray(rows), np.asarray(worlds)
    device = q.device if isinstance(q, wp.array) else wp.get_preferred_device()
    finder = None
    per_time = max(1, POSITIONS // len(worlds))
    for start in range(0, len(rows), per_time):
        part = rows[start : start + per_time]
        positions = host_rows(q, part)[:, worlds].reshape(-1, model.nq)
        positions = positions.astype(np.result_type(positions, np.float32), copy=False)  # half precision: single
        moved = None if mocap is None else host_rows(mocap, part)[:, worlds].reshape(-1, model.nmocap, 7)
        with turn(device), tape_paused():
            if finder is None:
                finder = _finder(model, len(positions), str(positions.dtype), device)
            found = _find(finder, positions, moved)
        for k in range(len(part)):
            yield found[k * len(worlds) : (k + 1) * len(worlds)]


def _finder(model: Model, count: int, dtype: str, device) -> PatchFinder:
    device_model = DeviceModel(model, count, dtype if dtype == "float32" else "float64", device)
    dynamics = Dynamics(device_model)
    placement = Collision(device_model, dynamics, 1, enabled=False, placement=True)
    return PatchFinder(dynamics, placement, MOST_POLYGONS)


def _find(finder: PatchFinder, positions: np.ndarray, mocap: np.ndarray | None) -> list[list[ContactPatch]]:
    """The patches at each row of positions; at most as many rows as the finder has worlds."""
    d = finder.dynamics.device_model

    def on_device(rows: np.ndarray) -> wp.array:
        filled = np.concatenate([rows, np.repeat(rows[-1:], d.worlds - len(rows), axis=0)])
        return wp.array(filled.astype(d.dtype), dtype=d.types.real, device=d.device)

    if mocap is not None:
        finder.dynamics.place_mocap(on_device(mocap))
    finder.place(on_device(positions))
    return [finder.patches(w) for w in range(len(positions))]


def triangles_of(patches: list[ContactPatch]) -> tuple[np.ndarray, np.ndarray]:
    """Triangles `(n, 3, 3)` [m] of the patches' polygons, and the pressure `(n, 3)` [Pa] at their corners."""
    corners, pressures = [np.zeros((0, 3, 3))], [np.zeros((0, 3))]
    for patch in patches:
        for x, p in zip(patch.vertices, patch.pressure, strict=True):
            fan = np.arange(1, len(x) - 1)
            index = np.stack([np.zeros_like(fan), fan, fan + 1], axis=1)
            corners.append(x[index])
            pressures.append(p[index])
    return np.concatenate(corners), np.concatenate(pressures)


def above_floors(model: Model, patches: list[ContactPatch]) -> list[ContactPatch]:
    """The patches; those on a horizontal plane of the world, which pictures draw opaque, lie above the plane."""
    floors = {int(g): float(model.geom_pose[g, 2]) + LIFT for g in horizontal_planes(model)}
    found = []
    for patch in patches:
        heights = [floors[g] for g in patch.geoms if g in floors]
        if heights:
            on_top = [np.column_stack([x[:, :2], np.maximum(x[:, 2], heights[0])]) for x in patch.vertices]
            patch = patch._replace(vertices=on_top)
        found.append(patch)
    return found


def pressure_colors(share) -> np.ndarray:
    """Colours `(..., 3)` in 0..1 of pressures given as shares of the largest on the scale."""
    share = np.clip(np.nan_to_num(share), 0.0, 1.0)
    at = np.linspace(0.0, 1.0, len(STOPS))
    return np.stack([np.interp(share, at, STOPS[:, k]) for k in range(3)], axis=-1)


def fixed_share(model: Model, patch_geoms: tuple[int, int], pressure) -> np.ndarray:
    """Position of a pressure on a fixed scale, the same for all rollouts: √(p / (E/2)), E of the softer geom.

    At 1, the pressure at which its world is flagged DEEP_PRESSURE.
    """
    modulus = float(model.geom_hydroelastic_modulus[list(patch_geoms)].min())
    return np.sqrt(np.clip(np.asarray(pressure) / (DEEP * modulus), 0.0, 1.0))


def see_through(model: Model) -> Model:
    """The model with translucent hydroelastic geoms, so that pictures show their patches."""
    rgba = np.array(model.geom_rgba, float)
    soft = np.unique(model.pair_geom[model.point_pairs :])
    rgba[soft, 3] = np.minimum(rgba[soft, 3], SEEN_THROUGH)
    return dataclasses.replace(model, geom_rgba=rgba)
