# SPDX-License-Identifier: Apache-2.0
"""Points that draw the paths of spatial tendons at recorded positions: from site to site, straight or around a geom.

The device code of tendons (`warpsim/forces/lines.py`) gives where a tendon meets a geom and how it leaves it; this
module draws the arc between. A segment that may wrap always has `ARC` more points, so that the number of points is the
same in every frame.
"""

from collections.abc import Iterator

import numpy as np
import warp as wp

from warpsim.device.recording import tape_paused
from warpsim.device.threads import turn
from warpsim.forces.lines import Lines, tendon_segments
from warpsim.kernels.forces.wrapping import CLOCKWISE, NONE
from warpsim.model.geometry import inverse, rotate
from warpsim.model.host_kinematics import body_poses, geom_poses, host_rows, row_chunks
from warpsim.model.model import GeomType
from warpsim.tree.dynamics import DeviceModel, Dynamics

ARC = 13  # points on the geom
POSITIONS = 64  # positions per launch


def tendon_counts(model, tendon: int) -> list[int]:
    """Number of points of each segment of a spatial tendon."""
    return [2 + (ARC if s.geom >= 0 else 0) for s in tendon_segments(model, tendon)]


def tendon_frames(model, q, rows, world: int, mocap=None) -> Iterator[np.ndarray]:
    """Yield, for each of the rows of `q (rows, all worlds, nq)`, the points `(n, 3)` [m] of a world's spatial tendons.

    Points are ordered by tendon, then by segment. Sizes are the model's. Runs on the device of q, or on Warp's
    preferred device if q is on the host.
    """
    points = TendonPoints(model, POSITIONS, q.device if isinstance(q, wp.array) else wp.get_preferred_device())
    for part in row_chunks(np.asarray(rows), max(model.nq, 1) * 8 * q.shape[1]):
        positions = host_rows(q, part)[:, world].astype(float)
        moved = None if mocap is None else host_rows(mocap, part)[:, world].astype(float)
        for start in range(0, len(part), POSITIONS):
            few = slice(start, start + POSITIONS)
            yield from points(positions[few], None if moved is None else moved[few])


class TendonPoints:
    """Points `(n, points, 3)` [m] of all spatial tendons at `q (n, nq)`, `mocap (n, nmocap, 7)`; n up to `most`."""

    def __init__(self, model, most: int, device):
        device_model = DeviceModel(model, most, "float64", device)
        self._lines = Lines(device_model, Dynamics(device_model))

    def __call__(self, q: np.ndarray, mocap=None) -> np.ndarray:
        return _points(self._lines, q, mocap)


def _points(lines: Lines, q: np.ndarray, mocap) -> np.ndarray:
    """The points `(len(q), n, 3)` [m] of all spatial tendons."""
    d, model = lines.device_model, lines.device_model.model

    def on_device(values):
        filled = np.concatenate([values, np.repeat(values[-1:], d.worlds - len(values), axis=0)])
        return wp.array(filled, dtype=d.types.real, device=d.device)

    with turn(d.device), tape_paused():
        if mocap is not None:
            lines.dynamics.place_mocap(on_device(mocap))
        lines.dynamics.position(on_device(q))
        lines.launch()
        point, force, choice = (a.numpy()[: len(q)].astype(float) for a in (lines.point, lines.force, lines.choice))
    geoms = geom_poses(model, body_poses(model, q, mocap))
    parts = []
    for s, segment in enumerate(lines.tables.segments):
        ends = point[:, 3 * s], point[:, 3 * s + 2]
        parts.append(ends[0][:, None])
        if segment.geom >= 0:
            taken, g = choice[:, s, None, None], segment.geom
            last = force[:, 3 * s + 2] / segment.share
            arc = _arc(geoms[:, g], model.geom_type[g] == GeomType.CYLINDER, ends, point[:, 3 * s + 1], last)
            along = np.linspace(0.0, 1.0, ARC)[None, :, None]
            straight = ends[0][:, None] + along * (ends[1] - ends[0])[:, None]
            # a tendon through the inside of the geom touches it at one point
            arc = np.where(np.abs(taken) == CLOCKWISE, arc, point[:, None, 3 * s + 1])
            parts.append(np.where(taken == NONE, straight, arc))
        parts.append(ends[1][:, None])
    return np.concatenate(parts, axis=1)


def _arc(pose, cylinder: bool, ends, first, direction) -> np.ndarray:
    """Points `(n, ARC, 3)` on a geom at `pose (n, 7)`.

    They begin at `first (n, 3)`, where a tendon from `ends[0]` meets the geom, and end where the tendon leaves it in
    `direction` for `ends[1]`.
    """
    back = inverse(pose)
    seen = lambda x: rotate(back[:, 3:], x - pose[:, :3])  # noqa: E731
    x_0, x_1, y_0 = seen(ends[0]), seen(ends[1]), seen(first)
    u = rotate(back[:, 3:], direction)
    across = np.array([1.0, 1.0, 0.0 if cylinder else 1.0])
    dot = lambda a, b: np.sum(a * b * across, axis=-1, keepdims=True)  # noqa: E731
    with np.errstate(divide="ignore", invalid="ignore"):  # straight segments, whose arcs are not used
        y_1 = x_1 - u * dot(x_1, u) / dot(u, u)  # the foot of the tangent
        radius = np.sqrt(dot(y_0, y_0))
        e, t = y_0 * across / radius, (y_0 - x_0) * across
        t = t - e * dot(e, t)
        t = t / np.sqrt(dot(t, t))
        angle = np.arctan2(dot(y_1, t), dot(y_1, e))
    angle = np.where(angle < -1e-6, angle + 2 * np.pi, np.maximum(angle, 0.0))
    along = np.linspace(0.0, 1.0, ARC)[None, :, None]
    turned = angle[:, None] * along
    points = radius[:, None] * (np.cos(turned) * e[:, None] + np.sin(turned) * t[:, None])
    if cylinder:
        points = points + (y_0[:, None, 2:] + along * (y_1 - y_0)[:, None, 2:]) * [0.0, 0.0, 1.0]
    return pose[:, None, :3] + rotate(np.broadcast_to(pose[:, None, 3:], (len(pose), ARC, 4)), points)
