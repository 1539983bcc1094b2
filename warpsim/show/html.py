# SPDX-License-Identifier: Apache-2.0
"""A trajectory as one stand-alone web page: viser's built client and a recording of the scene in a single file.

Worlds stand side by side on a ground grid. The page has play, pause, scrub and speed controls, and needs no network.
Geoms of one shape are one batched mesh, so a frame is two small arrays per shape. Their last bits are rounded away (0.1
mm, 1e-3 rad) so that the recording compresses.
"""

import dataclasses

import numpy as np

from warpsim.base.checks import flag, positive
from warpsim.base.extras import import_or_explain
from warpsim.files.output import check_file, replacing
from warpsim.files.patch_frames import (
    above_floors,
    patch_frames,
    refuse_without_fields,
    see_through,
    triangles_of,
)
from warpsim.files.scene import (
    default_spacing,
    frame_rows,
    grid_origins,
    roomy_spacing,
)
from warpsim.files.usd.usd_worlds import continuous_signs
from warpsim.model.host_kinematics import body_pose_chunks, geom_poses
from warpsim.show.bands import band_colors, bands, largest_triangles
from warpsim.show.live.address import quiet_server
from warpsim.show.page_scene import RECORDED, add_group, set_up, shape_groups
from warpsim.show.strings import Strings, in_corner
from warpsim.state.trajectory import warn_undrawn, world_indices

DEFAULT_WORLDS = 64
POSITION_STEP = 2.0**-13  # m
QUATERNION_STEP = 2.0**-11
MOST_TRIANGLES = 10_000  # most triangles of patches in one frame
PATCH_STEP = 2.0**-16  # m
PATCH_GAMMA = 1.3  # less than the stage's, because patches are seen through geoms


def write_html(trajectory, path, worlds=None, fps: float | None = 30.0, spacing=None, patches: bool = False) -> None:
    """Write the page; arguments are those of `Trajectory.to_html`. By default it shows the first 64 worlds."""
    if flag(patches, "patches"):
        refuse_without_fields(trajectory.model)
        trajectory = dataclasses.replace(trajectory, model=see_through(trajectory.model))
    import_or_explain("viser", "show")
    path = check_file(path)
    if spacing is not None:
        spacing = positive(spacing, "spacing", "m")
    model = trajectory.model
    chosen = world_indices(min(DEFAULT_WORLDS, trajectory.worlds) if worlds is None else worlds, trajectory.worlds)
    warn_undrawn(trajectory)
    rows, rate = frame_rows(trajectory.clock(), fps, limit=30.0)
    if spacing is None:
        last = trajectory.rows("q", rows[-1:])[0][chosen]
        mocap = None if trajectory.mocap is None else trajectory.rows("mocap", rows[-1:])[0][chosen]
        spacing = roomy_spacing(model, last, mocap) if np.isfinite(last).all() else default_spacing(model)
    origins = grid_origins(len(chosen), float(spacing))
    groups = shape_groups(model)
    if not groups:
        raise ValueError(
            f"model {model.name!r} has no visible geom with a shape, so there is nothing to show; add geoms"
        )
    shown = _Patches(trajectory, rows, chosen, origins) if patches else None
    strings = Strings(trajectory, rows, chosen, origins)
    server = quiet_server("127.0.0.1", 0)  # nobody visits this server
    try:
        page = _record(server, trajectory, rows, rate, chosen, origins, groups, shown, strings)
    finally:
        server.stop()
    head, end, tail = page.rpartition("</body>")
    page = head + (shown.legend() if shown is not None else "") + strings.note() + end + tail
    with replacing(path) as new:
        new.write_text(_titled(page, f"{model.name} - warpsim"), encoding="utf-8")


def _titled(page: str, title: str) -> str:
    """The page with our title, and without network requests."""
    escaped = title.replace("&", "&amp;").replace("<", "&lt;")
    start, end = page.find("<title>"), page.find("</title>")
    return page if start < 0 or end < start else page[: start + 7] + escaped + page[end:]


class _Patches:
    """The patches of every frame as triangles in bands of pressure, one mesh per band."""

    def __init__(self, trajectory, rows, chosen, origins):
        model, self.frames = trajectory.model, []
        for worlds in patch_frames(model, trajectory.q, rows, chosen, trajectory.mocap):
            placed = [triangles_of(above_floors(model, patches)) for patches in worlds]
            corners = np.concatenate([x + origin for (x, _), origin in zip(placed, origins, strict=True)])
            self.frames.append((corners.astype(np.float32), np.concatenate([p for _, p in placed]).astype(np.float32)))
        self.largest = max((float(p.max(initial=0.0)) for _, p in self.frames), default=0.0)
        self.cut = 0
        self._handles: list = []

    def add(self, server) -> None:
        """Add the meshes of the first frame."""
        for k, color in enumerate(band_colors()):
            self._handles.append(
                server.scene.add_mesh_simple(
                    f"/patches/band_{k}",
                    vertices=np.zeros((3, 3), np.float32),
                    faces=np.arange(3, dtype=np.uint32)[None],
                    color=tuple(np.round(255 * RECORDED * color**PATCH_GAMMA).astype(int).tolist()),
                    flat_shading=True,
                    side="double",
                    cast_shadow=False,
                    receive_shadow=False,
                )
            )
        self.show(0)

    def show(self, frame: int) -> None:
        """Update the meshes to a frame."""
        parts, cut = largest_triangles(bands(*self.frames[frame], self.largest), MOST_TRIANGLES)
        self.cut += cut
        for handle, part in zip(self._handles, parts, strict=True):
            part = part if len(part) else np.zeros((1, 3, 3))
            vertices = (np.round(part.reshape(-1, 3) / PATCH_STEP) * PATCH_STEP).astype(np.float32)
            if not np.array_equal(vertices, handle.vertices):
                if len(vertices) != len(handle.vertices):
                    handle.faces = np.arange(len(vertices), dtype=np.uint32).reshape(-1, 3)
                handle.vertices = vertices

    def legend(self) -> str:
        """A legend of the colors, for a corner of the page."""
        colors = [f"rgb({r} {g} {b})" for r, g, b in np.round(255 * band_colors()).astype(int).tolist()]
        steps = ", ".join(
            f"{c} {100 * k / len(colors):.2f}% {100 * (k + 1) / len(colors):.2f}%" for k, c in enumerate(colors)
        )
        note = ""
        if self.cut:
            note = f"<br>the {MOST_TRIANGLES:,} largest triangles in {self.cut} of {len(self.frames)} frames"
        bar = f'<div style="width:180px;height:10px;background:linear-gradient(to right, {steps})"></div>'
        return in_corner(f"{bar}pressure 0 to {_pascals(self.largest)}{note}", 64)


def _pascals(p: float) -> str:
    for unit, size in (("MPa", 1e6), ("kPa", 1e3)):
        if p >= size:
            return f"{p / size:.3g} {unit}"
    return f"{p:.3g} Pa"


def _record(server, trajectory, rows, rate, chosen, origins, groups, patches, strings) -> str:
    model, frames = trajectory.model, len(rows)
    handles, serializer, before, shown = [], None, None, 0
    for poses in body_pose_chunks(model, trajectory.q, rows, chosen, trajectory.mocap):
        geoms = geom_poses(model, poses)
        geoms[..., :3] += origins[:, None]
        turns = continuous_signs(geoms[..., 3:], geoms[0, ..., 3:] if before is None else before)
        before = turns[-1]
        geoms[..., :3] = np.round(geoms[..., :3] / POSITION_STEP) * POSITION_STEP
        geoms[..., 3:] = np.round(turns / QUATERNION_STEP) * QUATERNION_STEP
        geoms = geoms.astype(np.float32)
        for frame in geoms:
            if serializer is None:
                set_up(server, model, origins, frame, shade=RECORDED)
                handles = [add_group(server, model, group, frame, shade=RECORDED) for group in groups]
                if patches is not None:
                    patches.add(server)
                strings.show(server)
                serializer = server.get_scene_serializer()
            else:
                serializer.insert_sleep(1.0 / rate)
                for handle, group in zip(handles, groups, strict=True):
                    placed = frame[:, group].reshape(-1, 7)
                    if not np.array_equal(placed[:, :3], handle.batched_positions):
                        handle.batched_positions = placed[:, :3]
                    if not np.array_equal(placed[:, 3:], handle.batched_wxyzs):
                        handle.batched_wxyzs = placed[:, 3:]
                if patches is not None:
                    patches.show(shown)
                strings.show(server)
            shown += 1
    if frames > 1:
        serializer.insert_sleep(1.0 / rate)
    return serializer.as_html()
