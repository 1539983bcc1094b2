# SPDX-License-Identifier: Apache-2.0
"""The figures of `slip_control.py` as two PNGs: the paper's open loop, and finer bubbles beside the controlled slip."""

import pathlib

import numpy as np

from papers.sap.grip import wave
from papers.sap.plots import BLUE, DPI, GREEN, GREY, RED, column, finish, new_figure

COLOURS = {
    "Drake, recorded": "black",
    "polygons": BLUE,
    "patch16": RED,
    "patch5": GREEN,
    "patch4": GREY,
    "polygons of Drake's tetrahedra": "tab:cyan",
    "Drake": "black",
}
STYLES = {"Drake, recorded": "--", "Drake": "--"}
WIDTHS = {"Drake, recorded": 1.6}
FINENESS = {0.04: "-", 0.02: "--", 0.01: ":"}


def runs_of(rows: list[dict]) -> list[str]:
    """Names in the order in which they come."""
    return list(dict.fromkeys(r["run"] for r in rows))


def open_loop(result: dict):
    """Fig. 17 and what the paper says of its contacts and iterations."""
    figure, axes = new_figure((13, 7), 2, 3)
    paths, steps = result["slip_paths"], result["slip_steps"]
    end = max(r["t"] for r in paths if r["run"] == "polygons")
    force = wave(end, 0.005)
    axes[0, 0].plot(0.005 * np.arange(len(force)), force, color=BLUE, label="both motors")
    finish(axes[0, 0], "Fig. 17: grip force command", xlabel="t [s]", ylabel="[N]")
    for a, h in ((axes[0, 1], 0.005), (axes[0, 2], 0.01)):
        for name in runs_of(paths):
            t, y = (column(paths, key, run=name, h=h, inertia="file") for key in ("t", "pitch"))
            shown = t <= end
            style = {"color": COLOURS[name], "linestyle": STYLES.get(name, "-"), "linewidth": WIDTHS.get(name, 1.2)}
            a.plot(t[shown], y[shown], label=name, zorder=3 if name in STYLES else 2, **style)
        finish(a, f"Fig. 17: pitch, h = {1e3 * h:g} ms", xlabel="t [s]", ylabel="[deg]")
    a = axes[1, 0]
    for name in ("Drake, recorded", "polygons", "patch16", "patch5"):
        t, n = (column(paths, key, run=name, h=0.005, inertia="file") for key in ("t", "contacts"))
        shown = t <= min(end, 12.0)
        a.plot(t[shown], n[shown], color=COLOURS[name], linestyle=STYLES.get(name, "-"), linewidth=1.2, label=name)
    finish(a, "contacts, h = 5 ms (paper: 160 and 60)", xlabel="t [s]")
    a.set_ylim(0, 260)
    a = axes[1, 1]
    for name, shift in (("polygons", -0.2), ("patch16", 0.2)):
        k, count, worst = (column(steps, key, run=name) for key in ("iterations", "steps", "e_m"))
        label = f"{name}: mean {(k * count).sum() / count.sum():.2f}, worst e_m {worst.max():.1e}"
        a.bar(k + shift, count / count.sum(), 0.4, color=COLOURS[name], label=label)
    finish(a, "Newton iterations per step (paper's mean: 0.62)", xlabel="iterations", ylabel="steps")
    a = axes[1, 2]
    for name in runs_of([r for r in paths if r["inertia"] == "true"]):
        t, y = (column(paths, key, run=name, inertia="true") for key in ("t", "pitch"))
        shown = t <= max(r["t"] for r in paths if r["inertia"] == "true" and r["run"] == "polygons")
        a.plot(t[shown], y[shown], color=COLOURS[name], linestyle=STYLES.get(name, "-"), linewidth=1.3, label=name)
    finish(a, "pitch with the spatula's true inertia, h = 5 ms", xlabel="t [s]", ylabel="[deg]")
    return figure


def beyond(result: dict):
    """Resolution of the bubbles, and the controlled slip."""
    figure, axes = new_figure((13, 7), 2, 3)
    turns, capacity, ends, paths = (
        result[key] for key in ("slip_finer", "slip_torsion", "slip_frictions", "slip_controlled")
    )
    keys = [key for key in turns[0] if key.startswith("turn")]
    a = axes[0, 0]
    for row in turns:
        style = {"color": COLOURS[row["run"]], "linestyle": FINENESS[row["resolution"]], "marker": "o", "ms": 4}
        label = row["run"] if row["resolution"] == turns[0]["resolution"] else None
        a.plot(np.arange(1, len(keys) + 1), [row[key] for key in keys], label=label, **style)
    a.set_xticks(np.arange(1, len(keys) + 1))
    finish(a, "turn in each loose phase, by the bubbles' resolution", 6, xlabel="loose phase", ylabel="[deg]")
    low, high = a.get_ylim()
    a.set_ylim(low - 0.4 * (high - low), high)
    a.legend(fontsize=8, ncols=3, loc="lower left", title="— 40 mm, - - 20 mm, ··· 10 mm", title_fontsize=8)
    a = axes[0, 1]
    for level in ("polygons", "patch16", "patch5", "patch4"):
        for resolution in dict.fromkeys(r["resolution"] for r in capacity):
            x, y = (column(capacity, key, level=level, resolution=resolution) for key in ("pitch", "ratio"))
            style = {"color": COLOURS[level], "linestyle": FINENESS[resolution], "marker": "o", "ms": 3}
            a.plot(x, y, label=level if resolution == capacity[0]["resolution"] else None, **style)
    a.axhline(1.0, color=GREY, linewidth=0.8)
    finish(a, "torsion by the points / by the integral", 6, xlabel="pitch [deg]")
    a.set_ylim(0.4, 1.5)
    a.legend(fontsize=8, ncols=2, loc="lower right", title="— 40 mm, - - 20 mm, ··· 10 mm", title_fontsize=8)
    a = axes[0, 2]
    for key, colour in (("open", RED), ("closed", BLUE)):
        a.plot(column(ends, "friction"), column(ends, key), "o", color=colour, ms=4, label=f"{key} loop")
    finish(a, f"pitch at the end, {len(ends)} worlds", xlabel="friction", ylabel="[deg]")
    frictions = list(dict.fromkeys(r["friction"] for r in paths))
    shades = [
        (0.15 + 0.6 * k / max(1, len(frictions) - 1),) * 2 + (0.8 - 0.5 * k / max(1, len(frictions) - 1),)
        for k in range(len(frictions))
    ]
    names = (("open", "open loop: pitch"), ("closed", "closed loop: pitch"), ("grip", "closed loop: grip"))
    for a, (key, title) in zip(axes[1], names, strict=True):
        for friction, shade in zip(frictions, shades, strict=True):
            t, y = (column(paths, k, friction=friction) for k in ("t", key))
            a.plot(t, y, color=shade, linewidth=1.2, label=f"μ = {friction:.2f}")
        finish(a, title, 7, xlabel="t [s]", ylabel="[N]" if key == "grip" else "[deg]")
    axes[1, 2].set_ylim(0, 8)
    return figure


def draw(result: dict, folder: pathlib.Path) -> None:
    """slip_control.png and slip_beyond.png in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    open_loop(result).savefig(folder / "slip_control.png", dpi=DPI)
    beyond(result).savefig(folder / "slip_beyond.png", dpi=DPI)
