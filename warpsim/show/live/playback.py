# SPDX-License-Identifier: Apache-2.0
"""A stored rollout on a live page. Frames are read when shown; frames added meanwhile are found."""

import time

import numpy as np

from warpsim.device.array_module import to_host
from warpsim.files.store.place import StoreError
from warpsim.files.store.store import has_geoms_of
from warpsim.model import host_kinematics
from warpsim.show.live.panel import Panel, plain
from warpsim.show.live.shown import Shown
from warpsim.show.live.wishes import Wishes
from warpsim.state.trajectory import Trajectory

LOOK = 1.0  # s between checks for frames added to the store
REST = 0.02  # s between checks of the controls
DRAWN = 40.0  # most frames drawn per second


class Playback:
    """The page of a store at `path`: the live page's Run tab, with a slider over the frames.

    It reads one frame at a time, so its memory does not grow with the run. At the end it waits for more frames, or
    restarts where none are added. `worlds`, `port` and `host` are as in `Viewer`.
    """

    def __init__(self, path, worlds=None, port: int = 8080, host: str = "127.0.0.1"):
        self.path, self._wishes = path, Wishes()
        self._trajectory = Trajectory.load(path)
        self._times, self._readable = self._trajectory.clock(), True
        self.frame, self.newest, self._drawn, self._looked = 0, False, -1, time.perf_counter()
        self._shown = Shown(self._trajectory.model, self._poses(0), worlds, self._trajectory.worlds, port, host, None)
        self.url = self._shown.url
        self._make_panel()

    @property
    def frames(self) -> int:
        """Number of frames in the store, as far as known."""
        return len(self._times)

    def run(self, seconds: float | None = None) -> None:
        """Play until Ctrl-C, `close()`, or for `seconds` of real time."""
        last = started = time.perf_counter()
        clock = float(self._times[self.frame])
        try:
            while not self._wishes.closed and (seconds is None or last - started < seconds):
                now = time.perf_counter()
                if now - self._looked > LOOK:
                    self._look()
                before = self.frame
                self._wishes.work()
                clock = self._advance(clock if self.frame == before else float(self._times[self.frame]), now - last)
                last = now
                if self.frame != self._drawn and self._readable:
                    self._draw()
                time.sleep(max(REST, 1.0 / DRAWN - (time.perf_counter() - now)))
        except KeyboardInterrupt:
            pass

    def seek(self, frame: int) -> None:
        """Go to a frame."""
        self.frame = min(frame, self.frames - 1)

    def close(self) -> None:
        """Close the page."""
        if not self._wishes.closed:
            self._wishes.closed = True
            self._shown.stop()

    def __enter__(self) -> "Playback":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _advance(self, clock: float, passed: float) -> float:
        """Advance `frame`; returns the time [s] that is shown."""
        times, wishes = self._times, self._wishes
        if wishes.steps > 0:
            self.seek(self.frame + 1)
        if not wishes.take_step() or not wishes.playing:
            return float(times[self.frame])
        if self.newest:
            self.frame = self.frames - 1
            return float(times[-1])
        clock += passed * wishes.speed
        if clock > times[-1] + LOOK * wishes.speed and self.frame == self.frames - 1:  # no frame was added meanwhile
            clock = float(times[0])
        self.frame = max(int(np.searchsorted(times, clock, side="right")) - 1, 0)
        return clock

    def _look(self) -> None:
        """Look for frames added since the last check."""
        self._looked = time.perf_counter()
        try:
            found = Trajectory.load(self.path, self._trajectory.model)
            if found.worlds != self._trajectory.worlds or not has_geoms_of(self.path, found.model):
                raise StoreError("it is another now, of other worlds or another model; view it anew")
        except (StoreError, OSError) as error:
            self._readable = False
            self._lost(error)
            return
        if not self._readable:  # the store is readable again
            self._readable, self._drawn = True, -1
        times = found.clock()
        if not np.array_equal(times[: self.frames], self._times):  # another run has replaced it
            self._drawn = -1
        self._trajectory, self._times = found, times
        self.frame = min(self.frame, self.frames - 1)
        if self._slider.max != max(self.frames - 1, 1):
            self._slider.max = max(self.frames - 1, 1)

    def _lost(self, error: Exception) -> None:
        """The store is missing or replaced; the page keeps what it shows."""
        self._drawn = self.frame
        self._panel.tell(plain(f"the store cannot be read: {str(error).splitlines()[0]}"))

    def _poses(self, frame: int) -> np.ndarray:
        """Poses of the bodies in all worlds `(worlds, nbody, 7)`."""
        run = self._trajectory
        mocap = None if run.mocap is None else to_host(run.mocap[frame])
        return host_kinematics.body_poses(run.model, to_host(run.q[frame]), mocap)

    def _draw(self) -> None:
        try:
            run, frame = self._trajectory, self.frame
            poses, q = self._poses(frame), to_host(run.q[frame])
            mocap = None if run.mocap is None else to_host(run.mocap[frame])
        except (StoreError, OSError) as error:
            self._lost(error)
            return
        self._shown.place(poses)
        self._shown.place_tendons(q, mocap)
        self._shown.follow(self._wishes.world if self._wishes.follow else None)
        self._drawn = self.frame
        if self._slider.value != self.frame:
            self._slider.value = self.frame
        seconds, end = self._times[self.frame], self._times[-1]
        bad = int(np.count_nonzero(~np.isfinite(poses).all(axis=(1, 2))))
        note = f"\n\n{bad} of {len(poses)} worlds are not finite; they are drawn where they were" if bad else ""
        self._panel.tell(f"**{seconds:.2f} s** of {end:.2f} s, frame {self.frame} of {self.frames}{note}")

    def _make_panel(self) -> None:
        name = self._trajectory.model.name
        self._panel = Panel(self._shown.server, self._wishes, self._shown.worlds, title=name)
        self._panel.on_reset = lambda: self.seek(0)
        gui = self._shown.server.gui
        self._slider = gui.add_slider("frame", 0, max(self.frames - 1, 1), 1, 0)
        newest = gui.add_checkbox("stay at the newest frame", False)

        @self._slider.on_update
        def _(event) -> None:
            if event.client is not None:  # set by a visitor, not by this program
                frame = int(self._slider.value)
                self._wishes.ask(lambda: self.seek(frame))

        @newest.on_update
        def _(_event) -> None:
            self.newest = newest.value
