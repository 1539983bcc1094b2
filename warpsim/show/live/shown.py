# SPDX-License-Identifier: Apache-2.0
"""The geoms of the chosen worlds on a page, and mouse events on them."""

import numpy as np

from warpsim.base.checks import positive
from warpsim.base.extras import import_or_explain
from warpsim.files.scene import bounding_radii, default_spacing, grid_origins
from warpsim.model.host_kinematics import geom_poses
from warpsim.show.live.address import checked_address, quiet_server
from warpsim.show.page_scene import add_group, set_up, shape_groups
from warpsim.show.strings import LiveStrings
from warpsim.state.trajectory import world_indices

DEFAULT_WORLDS = 64
LEAST_SHIFT = 1e-3  # times the largest geom's radius, at most this many [m]
MOVING = "/moving"  # parent path of what shifts with a followed world; the cameras stay where their visitors put them
PULL_COLOR = (250, 120, 30)


class Shown:
    """A page with `worlds`, each about its origin; `place` moves the bodies, `follow` keeps a world in view."""

    def __init__(self, model, poses: np.ndarray, worlds, count: int, port: int, host: str, spacing):
        self.model = model
        self.worlds = world_indices(min(DEFAULT_WORLDS, count) if worlds is None else worlds, count)
        spacing = default_spacing(model) if spacing is None else positive(spacing, "spacing", "m")
        self.origins = grid_origins(len(self.worlds), float(spacing))
        self.groups = shape_groups(model)
        if not self.groups:
            raise ValueError(
                f"model {model.name!r} has no visible geom with a shape, so there is nothing to show; add geoms"
            )
        self.server, self.url = open_server(host, port)
        frame = self._frame(poses)
        self._scene = self.server.scene.add_frame(MOVING, show_axes=False)
        set_up(self.server, model, self.origins, frame, MOVING)
        self.handles = [add_group(self.server, model, group, frame, MOVING) for group in self.groups]
        moving = model.geom_body >= 0
        self._root = frame[:, moving if moving.any() else slice(None), :3].mean(axis=1)
        self._offset = np.zeros(3)
        self._least_shift = LEAST_SHIFT * min(1.0, float(bounding_radii(model)[model.geom_visible].max()) or 1.0)
        self._centre: np.ndarray | None = None
        self.follow(0)
        self._pull = None
        self._strings = LiveStrings(model, self.origins, MOVING)

    def _frame(self, poses: np.ndarray) -> np.ndarray:
        """Poses of the geoms `(worlds shown, ngeom, 7)` on the page."""
        placed = geom_poses(self.model, poses[self.worlds].astype(float))
        placed[..., :3] += self.origins[:, None]
        return placed.astype(np.float32)

    def place(self, poses: np.ndarray) -> None:
        """Move all geoms to the poses of bodies `(all worlds, nbody, 7)`; non-finite ones stay in place."""
        frame = self._frame(poses)
        bad = ~np.isfinite(frame).all(axis=(1, 2))
        with self.server.atomic():
            for handle, group in zip(self.handles, self.groups, strict=True):
                placed = frame[:, group]
                if bad.any():
                    placed[bad, :, :3] = handle.batched_positions.reshape(placed.shape[0], -1, 3)[bad]
                    placed[bad, :, 3:] = handle.batched_wxyzs.reshape(placed.shape[0], -1, 4)[bad]
                placed = placed.reshape(-1, 7)
                if not np.array_equal(placed[:, :3], handle.batched_positions):
                    handle.batched_positions = placed[:, :3]
                if not np.array_equal(placed[:, 3:], handle.batched_wxyzs):
                    handle.batched_wxyzs = placed[:, 3:]
        moving = self.model.geom_body >= 0
        if moving.any():
            self._root = np.where(bad[:, None], self._root, frame[:, moving, :3].mean(axis=1))

    def place_tendons(self, q: np.ndarray, mocap: np.ndarray | None) -> None:
        """Move the tendons to `q (all worlds, nq)` and `mocap (all worlds, nmocap, 7)`."""
        self._strings.show(self.server, q[self.worlds], None if mocap is None else mocap[self.worlds])

    def follow(self, k: int | None) -> None:
        """Shift the scene so that a world's geoms stay in place on the page; None: stop following."""
        centre = None if k is None or not np.isfinite(self._root[k]).all() else self._root[k].copy()
        if centre is not None and self._centre is not None:
            shift = centre - self._centre
            if np.abs(shift).max() < self._least_shift:
                return
            self._offset -= shift
            self._scene.position = tuple(self._offset.tolist())
        self._centre = centre

    def in_world(self, k: int, place) -> np.ndarray:
        """A position on the page in the axes of the k-th shown world, corrected for the shift of following."""
        return np.asarray(place) - self._offset - self.origins[k]

    def show_pull(self, start: np.ndarray, end: np.ndarray, k: int) -> None:
        """Draw the spring between a dragged body and the pointer."""
        points = (np.stack([start, end])[None] + self.origins[k]).astype(np.float32)
        if self._pull is None:
            options = {"thickness": 3.0, "thickness_units": "screen"}
            self._pull = self.server.scene.add_line_segments(f"{MOVING}/pull", points, PULL_COLOR, **options)
        else:
            self._pull.points, self._pull.visible = points, True

    def hide_pull(self) -> None:
        """Hide the spring."""
        if self._pull is not None:
            self._pull.visible = False

    def on_click(self, function) -> None:
        """Call `function(k, geom)` when a geom of the k-th shown world is clicked."""
        for handle, group in zip(self.handles, self.groups, strict=True):

            async def clicked(event, group=group) -> None:
                if event.instance_index is not None:
                    function(event.instance_index // len(group), int(group[event.instance_index % len(group)]))

            handle.on_click(clicked)

    def on_drag(self, function) -> None:
        """Call `function(phase, who, k, geom, place, target)` while a geom is dragged.

        The phases are "start", "update" and "end"; `who` drags. `place` and `target` are in the axes of the shown
        world.
        """
        for handle, group in zip(self.handles, self.groups, strict=True):

            async def dragged(event, group=group) -> None:
                i = event.instance_index
                if i is not None:
                    k, ends = i // len(group), (event.start_position, event.end_position)
                    place, target = (self.in_world(k, x) for x in ends)
                    function(event.phase, event.client_id, k, int(group[i % len(group)]), place, target)

            handle.on_drag(dragged)

    def stop(self) -> None:
        """Close the page."""
        self.server.stop()


def open_server(host: str, port: int):
    """A quiet viser server, and its address."""
    import_or_explain("viser", "show")
    host, port = checked_address(host, port)
    server = quiet_server(host, port)
    name = f"[{host}]" if ":" in host else host
    return server, f"http://{name}:{server.get_port()}"
