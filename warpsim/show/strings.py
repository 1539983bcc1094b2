# SPDX-License-Identifier: Apache-2.0
"""Spatial tendons on viser's pages: the straight pieces of their paths as thick moving lines."""

from collections.abc import Iterator

import numpy as np
import warp as wp

from warpsim.files.tendon_lines import TendonPoints, tendon_counts, tendon_frames
from warpsim.forces.lines import line_tendons

COLOR = (190, 60, 50)
THICKNESS = 3.0  # pixels
MOST_PIECES = 20_000  # in a frame; above it, only the tendons of the first worlds are drawn
PLACE_STEP = 2.0**-11  # m, positions are rounded to this so that a recording compresses


def pieces_of(model) -> np.ndarray:
    """Rows `(n, 2)`: the two points of `tendon_frames` that each straight piece joins."""
    counts = [n for t in line_tendons(model) for n in tendon_counts(model, int(t))]
    starts = np.cumsum([0, *counts])[:-1]
    rows = [np.arange(start, start + n - 1) for start, n in zip(starts, counts, strict=True)]
    first = np.concatenate(rows) if rows else np.zeros(0, int)
    return np.stack([first, first + 1], axis=-1)


def in_corner(text: str, bottom: int) -> str:
    """A note `bottom` pixels above the lower left corner of a page."""
    style = f"position:fixed;left:12px;bottom:{bottom}px;z-index:10;font:12px sans-serif;color:#223;pointer-events:none"
    return f'<div style="{style}">{text}</div>'


class _Lines:
    """The straight pieces of a model's tendons on a page, under one of its paths."""

    def __init__(self, model, path: str):
        self.pieces, self.path, self._handle = pieces_of(model), path, None

    def draw(self, server, points: np.ndarray) -> None:
        """Move the pieces to `points (n, 2, 3)`; without points they are hidden."""
        if self._handle is None and len(points):
            options = {"thickness": THICKNESS, "thickness_units": "screen"}
            self._handle = server.scene.add_line_segments(self.path, points, COLOR, **options)
        elif self._handle is not None:
            if self._handle.visible != bool(len(points)):
                self._handle.visible = bool(len(points))
            if len(points) and not np.array_equal(points, self._handle.points):
                self._handle.points = points


class Strings(_Lines):
    """The tendons of the chosen worlds in a trajectory's frames, each about its world's origin."""

    def __init__(self, trajectory, rows, chosen, origins):
        super().__init__(trajectory.model, "/tendons")
        shown = MOST_PIECES // max(len(self.pieces), 1)
        self.origins = origins[:shown]
        self.left_out = max(len(chosen) - shown, 0) if len(self.pieces) else 0
        self.frames: list[Iterator[np.ndarray]] = []
        if len(self.pieces):
            own = trajectory.model, trajectory.q, rows
            self.frames = [tendon_frames(*own, int(w), trajectory.mocap) for w in chosen[:shown]]

    def show(self, server) -> None:
        """Show the next frame."""
        if not self.frames:
            return
        placed = [next(frames)[self.pieces] + origin for frames, origin in zip(self.frames, self.origins, strict=True)]
        self.draw(server, (np.round(np.concatenate(placed) / PLACE_STEP) * PLACE_STEP).astype(np.float32))

    def note(self) -> str:
        """What is not drawn, as a note for a corner of the page."""
        return in_corner(f"tendons of the first {len(self.frames)} worlds", 40) if self.left_out else ""


class LiveStrings(_Lines):
    """The tendons of live worlds, each about its origin, under a path of the page."""

    def __init__(self, model, origins: np.ndarray, under: str):
        super().__init__(model, f"{under}/tendons")
        self.origins = origins[: MOST_PIECES // max(len(self.pieces), 1)]
        if len(self.pieces):
            self._points = TendonPoints(model, len(self.origins), wp.get_preferred_device())

    def show(self, server, q: np.ndarray, mocap: np.ndarray | None) -> None:
        """Show tendons at `q (worlds shown, nq)`, `mocap (worlds shown, nmocap, 7)`; non-finite ones are left out."""
        if not len(self.pieces):
            return
        few = len(self.origins)
        placed = self._points(q[:few].astype(float), None if mocap is None else mocap[:few].astype(float))
        placed = (placed + self.origins[:, None])[np.isfinite(q[:few]).all(axis=1)]
        self.draw(server, placed[:, self.pieces].reshape(-1, 2, 3).astype(np.float32))
