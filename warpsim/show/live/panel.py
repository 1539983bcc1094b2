# SPDX-License-Identifier: Apache-2.0
"""The controls of a live page: widgets whose callbacks write to `Wishes` and never touch the simulator."""

import numpy as np

from warpsim.show.live.wishes import Wishes

SPEEDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
MOST_SLIDERS = 40
LONGEST_LABEL = 40  # characters
MARKUP = '!"#$&()*+-.:<=>@[\\]^_`{|}~'


def plain(text: str) -> str:
    """Text escaped for Markdown."""
    return "".join(f"&#{ord(c)};" if c in MARKUP else c for c in text)


class Panel:
    """The widgets. `tell` shows a status line; `ended` shows that the program has ended."""

    def __init__(self, server, wishes: Wishes, worlds: np.ndarray, layers=(), curves=(), title: str = "warpsim"):
        self.server, self.wishes, gui = server, wishes, server.gui
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        gui.set_panel_label(title)
        self.status = gui.add_markdown("")
        tabs = gui.add_tab_group()
        self._tabs = tabs
        with tabs.add_tab("Run"):
            self._run(gui, worlds)
        if layers:
            with tabs.add_tab("Show"):
                for name in layers:
                    self._check(gui, name, wishes.layers)
        if curves:
            with tabs.add_tab("Plots"):
                self.plots = gui.add_folder("curves")
                for name in curves[:MOST_SLIDERS]:
                    self._check(gui, name, wishes.plots)
                if len(curves) > MOST_SLIDERS:
                    self._more(curves[MOST_SLIDERS:])

    def tab(self, name: str):
        """Add a tab of widgets."""
        return self._tabs.add_tab(name)

    def tell(self, text: str) -> None:
        """Show a line of Markdown above the controls."""
        if self.status.content != text:
            self.status.content = text

    def warn(self, text: str) -> None:
        """Show a notification on all open pages."""
        for client in self.server.get_clients().values():
            client.add_notification("warpsim", text, auto_close_seconds=8.0, color="red")

    def _check(self, gui, name: str, chosen: set) -> None:
        box = gui.add_checkbox(name, name in chosen)

        @box.on_update
        def _(_event) -> None:
            (chosen.add if box.value else chosen.discard)(name)

    def _more(self, names) -> None:
        """A list for the curves without a checkbox; it shows one of them."""
        none, wishes = "none", self.wishes
        other = self.server.gui.add_dropdown("another", [none, *names], initial_value=none)

        @other.on_update
        def _(_event) -> None:
            wishes.plots = (wishes.plots - set(names)) | ({other.value} - {none})

    def _run(self, gui, worlds: np.ndarray) -> None:
        wishes = self.wishes
        self.play = gui.add_button("Pause" if wishes.playing else "Play")
        step, reset = gui.add_button("Step"), gui.add_button("Reset")
        speed = gui.add_dropdown("speed", [f"{x:g} x" for x in SPEEDS], initial_value=f"{wishes.speed:g} x")
        follow = gui.add_checkbox("camera follows", wishes.follow)

        @self.play.on_click
        def _(_event) -> None:
            wishes.playing = not wishes.playing
            self.play.label = "Pause" if wishes.playing else "Play"

        @step.on_click
        def _(_event) -> None:
            wishes.playing = False
            self.play.label = "Play"
            wishes.steps += 1

        @reset.on_click
        def _(_event) -> None:
            wishes.ask(self.on_reset)

        @speed.on_update
        def _(_event) -> None:
            wishes.speed = float(speed.value.removesuffix(" x"))

        @follow.on_update
        def _(_event) -> None:
            wishes.follow = follow.value

        self.world = None
        if len(worlds) > 1:
            self.world = gui.add_number("world", int(worlds[0]), min=int(worlds.min()), max=int(worlds.max()), step=1)

            @self.world.on_update
            def _(_event) -> None:
                found = np.flatnonzero(worlds == self.world.value)
                if len(found):
                    wishes.world = int(found[0])
                    wishes.ask(self._look)

    def _look(self) -> None:
        """Update the parameter shown for the selected world, if there is one."""

    def on_reset(self) -> None:
        """Callback of the reset button; the viewer replaces it."""

    def add_controls(self, model) -> None:
        """Sliders of the actuators. They act where the program gives no control, or where the visitor takes over."""
        if not model.nu:
            return
        gui, wishes = self.server.gui, self.wishes
        with self.tab("Control"):
            take = gui.add_checkbox("take over", wishes.take_over, hint="the sliders replace the program's control")

            @take.on_update
            def _(_event) -> None:
                wishes.take_over = take.value

            for a, name in enumerate(model.actuator_names[:MOST_SLIDERS]):
                self._slider(gui, name, a, model.control_range[a])
            if model.nu > MOST_SLIDERS:
                gui.add_markdown(f"and {model.nu - MOST_SLIDERS} actuators more, which stay at 0")

    def _slider(self, gui, name: str, actuator: int, limits: np.ndarray) -> None:
        low, high = slider_range(limits)
        if low >= high:
            gui.add_markdown(plain(f"{name[:LONGEST_LABEL]}: always {low:g}"))
            return
        start = float(np.clip(0.0, low, high))
        slider = gui.add_slider(name[:LONGEST_LABEL], low, high, (high - low) / 200, start)

        @slider.on_update
        def _(_event) -> None:
            self.wishes.control[actuator] = float(slider.value)

    def add_parameters(self, names: list[str], entries, read, write) -> None:
        """Widgets for a parameter, one of its entries, and the entry's value.

        `entries(name)` lists the entries. `read(name, entry)` returns the value in the selected world. `write(name,
        entry, value, everywhere)` sets it between two steps.
        """
        gui, wishes = self.server.gui, self.wishes
        with self.tab("Parameters"):
            name = gui.add_dropdown("parameter", names, initial_value="gravity" if "gravity" in names else names[0])
            entry = gui.add_dropdown("of", entries(name.value))
            value = gui.add_number("value", read(name.value, 0), step=1e-6)
            everywhere = gui.add_checkbox("in all worlds", True)
            note = gui.add_markdown("")
            button = gui.add_button("Set")

            def look() -> None:
                value.value = found = read(name.value, entry.options.index(entry.value))
                note.content = (
                    ""
                    if np.isfinite(found)
                    else {np.inf: "no limit (inf)", -np.inf: "no limit (-inf)"}.get(found, "the default (nan)")
                )

            self._look = look

            @name.on_update
            def _(_event) -> None:
                entry.options = entries(name.value)
                entry.value = entry.options[0]
                wishes.ask(look)

            @entry.on_update
            def _(_event) -> None:
                wishes.ask(look)

            @button.on_click
            def _(_event) -> None:
                given = (name.value, entry.options.index(entry.value), float(value.value), bool(everywhere.value))
                wishes.ask(lambda: write(*given))
                wishes.ask(look)  # the value may have been refused or rounded


def slider_range(limits: np.ndarray) -> tuple[float, float]:
    """Bounds of a slider: the control's range. An infinite bound is replaced by 1 beyond 0 and the other bound."""
    low, high = map(float, limits)
    if not np.isfinite(low):
        low = min(-1.0, high - 1.0) if np.isfinite(high) else -1.0
    return (low, high) if np.isfinite(high) else (low, max(1.0, low + 1.0))
