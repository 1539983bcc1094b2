# SPDX-License-Identifier: Apache-2.0
"""A stored rollout on a live page: frames are read when they are shown, and frames that are added while it is open are found."""

import time

import numpy as np

from warpsim.files.store.place import StoreError
from warpsim.model import host_kinematics
from warpsim.show.live.panel import SPEEDS
from warpsim.show.live.shown import Shown
from warpsim.trajectory import Trajectory, host_array

LOOK = 1.0  # s between looks at what was added to the store
REST = 0.02  # s between looks at the controls
DRAWN = 40.0  # frames a second at most


class Playback:
    """The page of a store at `path`: play, pause, a slider over the frames, speed, the world that is looked at.

    It reads a frame at a time, so its memory does not grow with the run; at the end it waits for more, or begins anew where nothing is added.
    `worlds`, `port` and `host` as of `Viewer`.
    """

    def __init__(self, path, worlds=None, port: int = 8080, host: str = "127.0.0.1"):
        self.path = path
        self._trajectory = Trajectory.load(path)
        self._times = self._trajectory.clock()
        self.frame, self.playing, self.speed, self.follow, self.newest = 0, True, 1.0, True, False
        self.closed, self._looked, self._drawn, self.world = False, time.perf_counter(), -1, 0
        self._shown = Shown(self._trajectory.model, self._poses(0), worlds, self._trajectory.worlds, port, host, None)
        self.url = self._shown.url
        self._make_panel()

    @property
    def frames(self) -> int:
        """That the store has, as far as is known."""
        return len(self._times)

    def run(self, seconds: float | None = None) -> None:
        """Play until Ctrl-C, `close()`, or for so many seconds of the clock."""
        last = started = time.perf_counter()
        clock = float(self._times[self.frame])
        try:
            while not self.closed and (seconds is None or last - started < seconds):
                now = time.perf_counter()
                if now - self._looked > LOOK:
                    self._look()
                clock = self._advance(clock, now - last)
                last = now
                if self.frame != self._drawn:
                    self._draw()
                time.sleep(max(REST, 1.0 / DRAWN - (time.perf_counter() - now)))
        except KeyboardInterrupt:
            pass

    def close(self) -> None:
        """End the page."""
        if not self.closed:
            self.closed = True
            self._shown.stop()

    def __enter__(self) -> "Playback":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _advance(self, clock: float, passed: float) -> float:
        """Move `frame` on; the time [s] that is shown."""
        times, wish = self._times, self._wished
        if wish is not None:
            self._wished, self.frame = None, min(wish, self.frames - 1)
            return float(times[self.frame])
        if not self.playing:
            return float(times[self.frame])
        if self.newest:
            self.frame = self.frames - 1
            return float(times[-1])
        clock += passed * self.speed
        if clock > times[-1] + LOOK * self.speed and self.frame == self.frames - 1:  # nothing was added meanwhile
            clock = float(times[0])
        self.frame = max(int(np.searchsorted(times, clock, side="right")) - 1, 0)
        return clock

    def _look(self) -> None:
        """Find the frames that were added since."""
        self._looked = time.perf_counter()
        try:
            found = Trajectory.load(self.path, self._trajectory.model)
        except (StoreError, OSError) as error:
            self._lost(error)
            return
        if found.frames != self.frames:
            self._trajectory, self._times = found, found.clock()
            self._slider.max = max(self.frames - 1, 1)

    def _lost(self, error: Exception) -> None:
        """The store is not there, or is another: what is shown stays."""
        self._drawn, self._status.content = self.frame, f"the store cannot be read: {str(error).split(chr(10))[0]}"

    def _poses(self, frame: int) -> np.ndarray:
        """Of the bodies in all worlds `(worlds, nbody, 7)`."""
        run = self._trajectory
        mocap = None if run.mocap is None else host_array(run.mocap[frame])
        return host_kinematics.body_poses(run.model, host_array(run.q[frame]), mocap)

    def _draw(self) -> None:
        try:
            poses = self._poses(self.frame)
        except (StoreError, OSError) as error:
            self._lost(error)
            return
        self._shown.place(poses)
        self._shown.follow(self.world if self.follow else None)
        self._drawn = self.frame
        if self._slider.value != self.frame:
            self._slider.value = self.frame
        self._status.content = (
            f"**{self._times[self.frame]:.2f} s** of {self._times[-1]:.2f} s, frame {self.frame} of {self.frames}"
        )

    def _make_panel(self) -> None:
        gui, self._wished = self._shown.server.gui, None
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.set_panel_label(self._trajectory.model.name)
        self._status = gui.add_markdown("")
        play = gui.add_button("Pause")
        self._slider = gui.add_slider("frame", 0, max(self.frames - 1, 1), 1, 0)
        speed = gui.add_dropdown("speed", [f"{x:g} x" for x in SPEEDS], initial_value="1 x")
        newest = gui.add_checkbox("stay at the newest frame", False)
        follow = gui.add_checkbox("camera follows", True)
        worlds = self._shown.worlds

        @play.on_click
        def _(_event) -> None:
            self.playing = not self.playing
            play.label = "Pause" if self.playing else "Play"

        @self._slider.on_update
        def _(event) -> None:
            if event.client is not None:  # a visitor's, not our own
                self._wished = int(self._slider.value)

        @speed.on_update
        def _(_event) -> None:
            self.speed = float(speed.value.removesuffix(" x"))

        @newest.on_update
        def _(_event) -> None:
            self.newest = newest.value

        @follow.on_update
        def _(_event) -> None:
            self.follow = follow.value

        if len(worlds) > 1:
            world = gui.add_number("world", int(worlds[0]), min=int(worlds.min()), max=int(worlds.max()), step=1)

            @world.on_update
            def _(_event) -> None:
                found = np.flatnonzero(worlds == world.value)
                if len(found):
                    self.world = int(found[0])
