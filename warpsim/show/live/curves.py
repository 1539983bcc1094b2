# SPDX-License-Identifier: Apache-2.0
"""Curves of the selected world: energy, the solver's certificate, contacts, and any joint."""

import collections

import numpy as np

from warpsim.base.extras import import_or_explain
from warpsim.model.model import JointType

SECONDS = 10.0  # length of a curve [s]
MOST_POINTS = 400
SMALLEST = 1e-16  # least value on a logarithmic axis
OF_A_STEP = ("certificate", "contacts")
COLORS = ("#2f6fb2", "#d8652b", "#3b9a57", "#8d5fb8")


def curve_names(model) -> list[str]:
    """Names of the curves that can be plotted."""
    joints = [
        f"joint {name}"
        for name, kind in zip(model.joint_names, model.joint_type, strict=True)
        if kind in (JointType.HINGE, JointType.SLIDE)
    ]
    return ["energy [J]", "certificate", "contacts", *joints]


class Curves:
    """Plots in the page's panel, created on first use."""

    def __init__(self, gui, folder, sim):
        self.gui, self.folder, self.sim, self.model = gui, folder, sim, sim.model
        self._kept: dict[str, collections.deque] = {}
        self._handles: dict[str, object] = {}
        self._world = -1

    def clear(self) -> None:
        """Discard all points."""
        for kept in self._kept.values():
            kept.clear()

    def add(self, shown: set, state, world: int, stepped: bool = True) -> None:
        """Add a point to every selected curve and draw it; remove the other curves.

        With another world the curves restart. `stepped`: whether the solver's last step is that of this state.
        """
        if world != self._world:
            self._world = world
            self.clear()
        for name in set(self._handles) - shown:
            self._handles.pop(name).remove()
            self._kept.pop(name)
        time = float(state.time.numpy()[world])
        for name in [n for n in curve_names(self.model) if n in shown]:
            if not stepped and name in OF_A_STEP:
                continue
            labels, values = self._values(name, state, world)
            kept = self._kept.setdefault(name, collections.deque())
            if kept and time <= kept[-1][0]:
                if time < kept[-1][0]:
                    kept.clear()
                else:
                    continue
            kept.append((time, *values))
            while kept[0][0] < time - SECONDS:
                kept.popleft()
            points = np.array(kept)
            self._draw(name, labels, points[:: max(1, len(points) // MOST_POINTS)])

    def _values(self, name: str, state, world: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
        sim = self.sim
        if name == "energy [J]":
            kinetic, potential = (float(x.numpy()[world]) for x in sim.energy(state))
            return ("kinetic", "potential", "sum"), (kinetic, potential, kinetic + potential)
        if name == "certificate":
            found = (sim.diagnostics.momentum_error, sim.diagnostics.lag_error)
            logs = tuple(float(np.log10(max(float(x.numpy()[world]), SMALLEST))) for x in found)
            return ("log10 of momentum error", "log10 of lag error [m/s]"), logs
        if name == "contacts":
            return ("contacts",), (float(sim.diagnostics.contacts.numpy()[world]),)
        j = self.model.joint(name.removeprefix("joint "))
        q, v = (
            float(x.numpy()[world, at[j]]) for x, at in ((state.q, self.model.joint_q), (state.v, self.model.joint_v))
        )
        return ("position", "velocity"), (q, v)

    def _draw(self, name: str, labels, points: np.ndarray) -> None:
        data = tuple(np.ascontiguousarray(column) for column in points.T)
        handle = self._handles.get(name)
        if handle is not None:
            handle.data = data
            return
        uplot = import_or_explain("viser.uplot", "show")
        series = [uplot.Series(label="t [s]")]
        series += [uplot.Series(label=label, stroke=COLORS[k % len(COLORS)], width=2) for k, label in enumerate(labels)]
        with self.folder:
            self._handles[name] = self.gui.add_uplot(
                data, tuple(series), title=name, aspect=1.6, scales={"x": uplot.Scale(time=False)}
            )
