# SPDX-License-Identifier: Apache-2.0
"""`Viewer`: a live simulator in the browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.base.annotations import Numbers, Selection
from warpsim.base.checks import positive, short
from warpsim.base.extras import import_or_explain
from warpsim.device.threads import holds
from warpsim.model.geometry import rotate
from warpsim.show.live.curves import Curves, curve_names
from warpsim.show.live.drag import Drag
from warpsim.show.live.layers import OF_A_STEP, Layers
from warpsim.show.live.panel import Panel, plain
from warpsim.show.live.shown import Shown
from warpsim.show.live.wishes import Wishes

if TYPE_CHECKING:
    from warpsim.simulator import Simulator
    from warpsim.state import State

LATE = 0.2  # s that the steps may lag the clock before the clock restarts
OF_FREEDOMS = (
    "joint_stiffness",
    "joint_damping",
    "joint_armature",
    "joint_friction",
    "joint_reference",
)  # one row per velocity
NOT_DRAWN = ("geom_size", "geom_pose")
REST = 0.05  # s between checks of the controls while paused


class Viewer:
    """A page in the browser that steps a simulator: play, pause, single steps, speed, reset, sliders, draggable bodies.

    Parameters
    ----------
    sim : Simulator
        The simulator.
    state : State, optional
        The initial state, to which *Reset* returns. Default: `sim.state()`.
    worlds : int, slice or array of int, optional
        Worlds to show, as in `Trajectory.to_html`. Default: the first 64.
    port : int
        Port of the page. 0 takes a free one. Default: 8080.
    host : str
        Address that the page is served at. Default: "127.0.0.1", this machine only.
    fps : float
        Pictures per second. Default: 40.
    spacing : float, optional
        Distance between worlds [m]. Default: from the size of the scene.

    Attributes
    ----------
    state : State
        The present state.
    url : str
        Address of the page.
    on_reset : callable or None
        Function without arguments that returns the initial state, called by *Reset*. For programs that step by
        themselves.

    Raises
    ------
    OSError
        The port is in use.
    ImportError
        viser is not installed (`pip install 'warpsim[show]'`).

    Notes
    -----
    Sliders set controls and parameters. The page needs no network. In a notebook the viewer shows itself.
    docs/viewer.md

    Examples
    --------
    These examples need a browser, so that doctest skips them.

    >>> with ws.Viewer(sim) as view:                          # doctest: +SKIP
    ...     view.run()                                        # until Ctrl-C
    >>> with ws.Viewer(sim, state, port=0) as view:           # doctest: +SKIP
    ...     while view.running:                               # your own loop, which the page can pause
    ...         view.step(policy(view.state))
    """

    sim: "Simulator"
    state: "State"
    fps: float
    url: str

    def __init__(
        self,
        sim: "Simulator",
        state: "State | None" = None,
        *,
        worlds: Selection | None = None,
        port: int = 8080,
        host: str = "127.0.0.1",
        fps: float = 40.0,
        spacing: Any = None,
    ):
        from warpsim.simulator import Simulator

        if not isinstance(sim, Simulator):
            raise ValueError(f"sim is {short(sim)}; give a Simulator (a Trajectory has to_html and `warpsim view`)")
        import_or_explain("viser", "show")
        if state is None:
            state = sim.state()
        sim._stepper.check_state(state)
        self.sim, self.fps = sim, positive(fps, "fps", "1/s")
        self.state, self._start = state, state.without_gradient() if sim.requires_grad else state.clone()
        self._wishes = Wishes()
        poses = self._poses()
        self._shown = Shown(sim.model, poses, worlds, sim.worlds, port, host, spacing)
        self.url = self._shown.url
        self._layers = Layers(self._shown.server, sim.model, sim)
        self._drag: Drag | None = None
        self._dragging: int | None = None  # the visitor who is dragging
        self._synced = self._restart = False  # the program steps by itself; it should restart
        self._stepped = True  # whether the contacts of the last step belong to this state
        self._next = self._due = self._told = time.perf_counter()
        self.on_reset: Callable | None = None
        self._told_of = ""  # what was last clicked
        self._paces: list[tuple[float, float]] = []
        self._make_panel()
        self._shown.on_drag(self._on_drag)
        self._shown.on_click(self._on_click)

    # the page ---------------------------------------------------------------------------------------------------------

    def _make_panel(self) -> None:
        server, model = self._shown.server, self.sim.model
        panel = Panel(server, self._wishes, self._shown.worlds, self._layers.names, curve_names(model), model.name)
        self._panel = panel
        panel.on_reset = self.reset
        panel.add_controls(model)
        parameters = self.sim.parameters
        names = [name for name in parameters.keys() if parameters.stored(name).size and name not in parameters.refused]
        panel.add_parameters(names, self._entries, self._read, self._write)
        self._curves = Curves(server.gui, panel.plots, self.sim)

    def _entries(self, name: str) -> list[str]:
        """The entries of a parameter, named by element and index in its row."""
        shape = self.sim.parameters.stored(name).numpy().shape[1:]
        element = self._rows_of(name)
        rows = element if len(shape) and len(element) == shape[0] else [str(k) for k in range(shape[0] if shape else 1)]
        rest = [",".join(map(str, index)) for index in np.ndindex(*shape[1:])] if len(shape) > 1 else [""]
        return [f"{row} {index}".strip() for row in rows for index in rest]

    def _rows_of(self, name: str) -> Sequence[str]:
        """The names of a parameter's rows, where they have names."""
        model, kind = self.sim.model, name.split("_")[0]
        if name in OF_FREEDOMS:
            joints = np.searchsorted(model.joint_v, np.arange(model.nv), side="right") - 1
            places = np.arange(model.nv) - model.joint_v[joints]
            single = np.bincount(joints, minlength=model.njoint)[joints] == 1
            names = [model.joint_names[j] for j in joints]
            return [n if alone else f"{n} {k}" for n, k, alone in zip(names, places, single, strict=True)]
        return model.names.get({"control": "actuator", "force": "actuator", "muscle": "actuator"}.get(kind, kind), ())

    def _read(self, name: str, entry: int) -> float:
        values = self.sim.parameters.stored(name).numpy()
        row = self._shown.worlds[self._wishes.world] if len(values) > 1 else 0
        return float(values[row].reshape(-1)[entry])

    def _write(self, name: str, entry: int, value: float, everywhere: bool) -> None:
        values = self.sim.parameters[name].numpy().copy()
        rows = slice(None) if everywhere else int(self._shown.worlds[self._wishes.world])
        flat = values.reshape(len(values), -1)
        flat[rows, entry] = value
        try:
            self.sim.parameters[name] = values
        except ValueError as error:
            self._panel.warn(str(error))
            return
        if name in NOT_DRAWN:
            self._panel.warn(f"{name} acts from now on; the page goes on drawing the model's own")

    # visitor input ----------------------------------------------------------------------------------------------------

    def _on_click(self, k: int, geom: int) -> None:
        """A geom was clicked: look at its world."""
        model, body = self.sim.model, int(self.sim.model.geom_body[geom])
        self._wishes.world = k
        if self._panel.world is not None:
            self._panel.world.value = int(self._shown.worlds[k])
        name = "the world" if body < 0 else f"body {model.body_names[body]}, {model.body_mass[body]:.4g} kg"
        self._told_of = plain(f"{model.geom_names[geom]} of {name}")

    def _on_drag(self, phase: str, who: int, k: int, geom: int, place: np.ndarray, target: np.ndarray) -> None:
        """A geom is dragged: a spring acts from the grabbed point to the pointer.

        One visitor drags at a time; others wait until that one lets go.
        """
        world, body = int(self._shown.worlds[k]), int(self.sim.model.geom_body[geom])
        if phase == "start" and body >= 0:
            self._wishes.ask(lambda: self._grab(who, world, body, place))
        elif phase == "update":
            self._wishes.ask(lambda: self._pull(who, target))
        elif phase == "end":
            self._wishes.ask(lambda: self._let_go(who))

    def _grab(self, who: int, world: int, body: int, place: np.ndarray) -> None:
        pose = self._poses()[world, body].astype(float)
        if not np.isfinite(self.state.q.numpy()[world]).all():
            self._panel.warn(f"world {world} is not finite, so nothing pulls in it; Reset brings it back")
        elif self._synced:
            self._panel.warn("the program steps by itself, so that nothing pulls here")
        elif self._drag is None or self._dragging == who:
            self._drag, self._dragging = Drag(self.sim, self.state, world, body, place, pose), who

    def _pull(self, who: int, target: np.ndarray) -> None:
        if self._drag is not None and self._dragging == who:
            self._drag.target = target

    def _let_go(self, who: int | None = None) -> None:
        """End the drag; with `who`, only a drag of that visitor."""
        if who is None or self._dragging == who:
            self._drag, self._dragging = None, None
            self._shown.hide_pull()

    # the loop ---------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True as long as the viewer is open."""
        return not self._wishes.closed

    @holds
    def step(self, control: Numbers | None = None, *, tau: Numbers | None = None, mocap: Numbers | None = None) -> Any:
        """Step the simulator once, as soon as the page plays.

        It waits while the page is paused, and keeps the page's speed relative to real time.

        Parameters
        ----------
        control : array (worlds, nu), optional
            Controls. Default: those of the sliders.
        tau : array (worlds, nv), optional
            Generalized forces, as in `Simulator.step`. Default: 0.
        mocap : array (worlds, nmocap, 7), optional
            Poses of the mocap bodies. Default: the present poses, or the pose that a drag gives.

        Returns
        -------
        State
            The new state.

        Examples
        --------
        >>> state = view.step(policy(view.state))                 # doctest: +SKIP
        """
        self._wait()
        if self.running:
            self._advance(control, tau, mocap)
        return self.state

    @holds
    def run(self, policy: Callable | None = None, seconds: float | None = None) -> Any:
        """Step until Ctrl-C or `close()`, or for some simulated time.

        Parameters
        ----------
        policy : callable, optional
            Function of the state that returns controls (worlds, nu). Default: the sliders.
        seconds : float, optional
            Simulated time to run for [s]. Default: no end.

        Returns
        -------
        State
            The last state.

        Examples
        --------
        >>> state = view.run(policy, seconds=10.0)                # doctest: +SKIP
        """
        if policy is not None and not callable(policy):
            raise ValueError(f"policy is {short(policy)}; give a function of the state that returns the control")
        steps = np.inf if seconds is None else round(positive(seconds, "seconds", "s") / self.sim.dt)
        made = 0
        try:
            while self.running and made < steps:
                self._wait()
                if self.running:
                    self._advance(None if policy is None else policy(self.state))
                    made += 1
        except KeyboardInterrupt:
            pass
        self.show()
        return self.state

    @holds
    def sync(self, state: "State", seconds: float | None = None) -> Any:
        """Show a state that the program has stepped itself.

        It waits while the page is paused, and until real time has reached the state. Sliders and drags have no effect.

        Parameters
        ----------
        state : State
            The state to show.
        seconds : float, optional
            Simulated time since the last call [s]. Default: the difference of the times of the two states.

        Returns
        -------
        State
            The state to continue from: the given one, or the initial state after a *Reset*.

        Examples
        --------
        >>> state = view.sync(sim.step(state, control))           # doctest: +SKIP
        """
        self.sim._stepper.check_state(state)
        if seconds is None:
            seconds = self._seconds(state) - self._seconds(self.state)
        self._synced, self._restart = True, False
        self._wait(seconds)
        if not self._restart:
            self.state, self._stepped = state, True
        self._draw_when_due()
        return self.state

    @holds
    def show(self, state: "State | None" = None) -> None:
        """Draw a state now.

        Parameters
        ----------
        state : State, optional
            The state, which the viewer then continues from. Default: its own.

        Examples
        --------
        >>> view.show(state)                                      # doctest: +SKIP
        """
        if state is not None:
            self.sim._stepper.check_state(state)
            self.state = state
        self._wishes.work()
        self._draw()

    @holds
    def reset(self) -> None:
        """Return all worlds to the initial state, or to the one that `on_reset` returns."""
        state = self._start.clone() if self.on_reset is None else self.on_reset()
        self.sim._stepper.check_state(state)
        self.state, self._stepped, self._restart = state, False, True
        self._let_go()
        self._curves.clear()
        self._draw()

    def close(self) -> None:
        """Close the page."""
        if self.running:
            self._wishes.closed = True
            self._shown.stop()

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Viewer({short(self.sim.model.name)}, {len(self._shown.worlds)} of {self.sim.worlds} worlds, {self.url})"
        )

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="600" style="border:0"></iframe>'

    def _seconds(self, state) -> float:
        """Simulated time of the selected world."""
        return float(state.time.numpy()[self._shown.worlds[self._wishes.world]])

    def _wait(self, seconds: float | None = None) -> None:
        """Wait until a step of `seconds` may be made: not paused, and real time has reached it."""
        wishes = self._wishes
        wishes.work()
        paused = False
        while self.running and not wishes.take_step():
            paused = True
            self._draw_when_due()
            time.sleep(REST)
            wishes.work()
        now = time.perf_counter()
        seconds = self.sim.dt if seconds is None or seconds <= 0 else seconds
        if paused or now > self._due + LATE:
            self._due = now
        while self.running and now < self._due:
            self._draw_when_due()
            time.sleep(min(self._due - now, REST))
            wishes.work()
            if not wishes.playing:
                return self._wait(seconds)
            now = time.perf_counter()
            self._due = min(self._due, now + seconds / wishes.speed)  # the speed may have increased
        self._due += seconds / wishes.speed

    def _advance(self, control, tau=None, mocap=None) -> None:
        wishes, sim = self._wishes, self.sim
        if (control is None or wishes.take_over) and sim.model.nu:
            row = np.zeros(sim.model.nu)
            for actuator, value in wishes.control.items():
                row[actuator] = value
            control = np.tile(row, (sim.worlds, 1))
        wrench = None
        if self._drag is not None and self._drag.mocap >= 0:
            mocap = self._drag.moved(self.state, sim.dt) if mocap is None else mocap
        elif self._drag is not None:
            poses = self._poses()[self._drag.world].astype(float)
            wrench = self._drag.wrench(self.state, poses, sim.model.body_com)
        state = self.state.without_gradient() if sim.requires_grad else self.state
        self.state, self._stepped = sim.step(state, control, tau=tau, wrench=wrench, mocap=mocap), True
        self._draw_when_due()

    def _draw_when_due(self) -> None:
        now = time.perf_counter()
        if now >= self._next:
            self._draw()
            done = time.perf_counter()
            self._next = max(
                self._next + 1.0 / self.fps, done + (done - now)
            )  # on a busy machine the steps get half of the time

    def _poses(self) -> np.ndarray:
        """Body poses `(worlds, nbody, 7)`."""
        return self.sim.kinematics(self.state.q, self.state.mocap).numpy()

    def _draw(self) -> None:
        if not self.running:
            return
        now = time.perf_counter()
        wishes, shown = self._wishes, self._shown
        self._tell(now)
        poses = self._poses()
        shown.place(poses)
        mocap = self.state.mocap
        shown.place_tendons(self.state.q.numpy(), None if mocap is None else mocap.numpy())
        k = wishes.world
        world = int(shown.worlds[k])
        layers = set(wishes.layers) - (set() if self._stepped else set(OF_A_STEP))
        if not np.isfinite(poses[world]).all():
            layers.clear()
        self._layers.refresh(layers, world, poses[world].astype(float), shown.origins[k])
        self._curves.add(set(wishes.plots), self.state, world, self._stepped)
        if self._drag is not None and world == self._drag.world:
            pose = poses[world, self._drag.body].astype(float)
            shown.show_pull(pose[:3] + rotate(pose[3:], self._drag.point), self._drag.target, k)
        shown.follow(
            k if wishes.follow and self._drag is None else None
        )  # else the pointer would move away from the dragged body

    def _tell(self, now: float) -> None:
        """Show simulated time, speed and rate twice a second, and mark bad worlds."""
        seconds = self._seconds(self.state)
        self._paces = [(t, s) for t, s in self._paces if t > now - 1.0] + [(now, seconds)]
        if now - self._told < 0.5:
            return
        self._told = now
        (t0, s0), (t1, s1) = self._paces[0], self._paces[-1]
        pace = (s1 - s0) / (t1 - t0) if t1 > t0 else 0.0
        rate = (len(self._paces) - 1) / (t1 - t0) if t1 > t0 else 0.0
        flagged = int(np.count_nonzero(self.state.memory["flags"].numpy()))
        text = f"**{seconds:.2f} s**, {pace:.2f} x real time, {rate:.0f} frames/s"
        text += f"\n\n{flagged} of {self.sim.worlds} worlds flagged" if flagged else ""
        if not np.isfinite(self.state.q.numpy()[int(self._shown.worlds[self._wishes.world])]).all():
            text += "\n\nthis world is not finite; it is drawn where it was"
        text += f"\n\n{self._told_of}" if self._told_of else ""
        self._panel.tell(text)
