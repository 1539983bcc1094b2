# SPDX-License-Identifier: Apache-2.0
"""The figures of `figures.py` as four PNGs: spring-cylinder, a clutter's solves, scalability, slip parameter."""

import pathlib

import numpy as np

from warpsim.base.extras import import_or_explain

BLUE, RED, GREEN, GREY = "#2f6fb0", "#c4473a", "#4b9560", "#8a919c"
SCHEME_COLOURS = {"symplectic Euler": BLUE, "midpoint": GREEN, "implicit Euler": RED}
SOLVERS = {"clarabel": ("Clarabel", RED), "sap": ("SAP", BLUE)}
PLACES = {True: "with walls", False: "without walls"}
STYLES = {True: "o-", False: "s--"}
TOLERANCE = 1e-5
ROUNDING = 1e-16  # below it differences of costs are no more than that
DPI = 90


def column(rows: list[dict], key: str, **chosen) -> np.ndarray:
    """Values of `key` where the row's fields are those chosen."""
    return np.array([r[key] for r in rows if all(r[k] == value for k, value in chosen.items())], dtype=float)


def new_figure(size, rows: int, columns: int):
    """A figure on its own canvas, and its axes."""
    figures = import_or_explain("matplotlib.figure", "show")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figures.Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for a in axes.flat:
        a.grid(True, color="0.9", linewidth=0.6)
        a.set_axisbelow(True)
    return figure, axes


def _ticks(axes, values, scale: float = 1.0) -> None:
    """A logarithmic x axis with ticks at `values`, labelled after multiplication by `scale`."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{scale * value:.3g}" for value in values], fontsize=8)
    axes.xaxis.minorticks_off()


def finish(axes, title: str, legend: int = 8, **labels) -> None:
    axes.set_title(title, fontsize=10)
    axes.set(**labels)
    axes.legend(fontsize=legend)


def cylinder(result: dict):
    """Figs. 5 to 7."""
    figure, axes = new_figure((12, 6.2), 2, 3)
    rows = result["fig05_06_energy"]
    for row, mu in enumerate((0.0, 1.0)):
        for a, part, label in zip(axes[row], ("few", "long"), ("first periods", "long term"), strict=False):
            for scheme, colour in SCHEME_COLOURS.items():
                t, e = (column(rows, key, mu=mu, scheme=scheme, range=part) for key in ("time", "energy"))
                if part == "few":
                    a.plot(t, e, color=colour, linewidth=1.3, label=scheme)
                else:  # the two extremes of every part: a band
                    low, high = np.minimum(e[0::2], e[1::2]), np.maximum(e[0::2], e[1::2])
                    a.fill_between(t[0::2], low, high, color=colour, alpha=0.5, linewidth=1.5, label=scheme)
            a.set_ylim(-0.05, 1.25)
            name = "Fig. 5" if mu == 0.0 else "Fig. 6"
            finish(a, f"{name}: μ = {mu:g}, {label}", xlabel="t [s]", ylabel="energy / start")
    grid, order = axes[0, 2].get_gridspec(), result["fig07_order"]
    for unused in axes[:, 2]:
        unused.remove()
    a = figure.add_subplot(grid[:, 2])
    a.grid(True, color="0.9", linewidth=0.6)
    for scheme, colour in SCHEME_COLOURS.items():
        h, error = (column(order, key, scheme=scheme) for key in ("h", "error"))
        a.plot(h, error, "o-", color=colour, label=scheme, ms=4)
    for power, label, style in ((1, "first order", "--"), (2, "second order", ":")):
        a.plot(h, 0.03 * (h / h.max()) ** power, style, color=GREY, linewidth=1.2, label=label)
    a.set_yscale("log")
    _ticks(a, h, 1e3)
    finish(a, "Fig. 7: error of x, μ = 1", 7, xlabel="h [ms]", ylabel="e_q [m]")
    return figure


def solves(result: dict):
    """Figs. 9 and 10."""
    figure, axes = new_figure((12, 6.2), 2, 2)
    history = result["fig09_history"]
    solved = column(history, "contacts") > 0
    step = column(history, "step")[solved]
    for a, unit, label in zip(axes[0], ("iterations", "ms"), ("iterations", "ms, solver alone"), strict=True):
        for name, (shown, colour) in SOLVERS.items():
            a.plot(step, column(history, f"{name}_{unit}")[solved], color=colour, linewidth=0.9, label=shown)
        finish(a, "Fig. 9: 40 bodies with walls", xlabel="step", ylabel=label)
    axes[0, 1].set_yscale("log")
    rows = result["fig10_convergence"]
    for a, shown in zip(axes[1], sorted({r["step"] for r in rows}), strict=True):
        k, gap, error = (column(rows, key, step=shown) for key in ("iteration", "cost_gap", "momentum_error"))
        gap, met = np.maximum(gap, ROUNDING), error <= TOLERANCE
        a.semilogy(k, gap, "o-", color=BLUE, ms=4, label="e_m above the tolerance")
        a.semilogy(k[met], gap[met], "o", color=GREEN, ms=5, label=f"e_m ≤ {TOLERANCE:g}")
        a.xaxis.get_major_locator().set_params(integer=True)
        finish(a, f"Fig. 10: step {shown}", xlabel="Newton iteration", ylabel="(ℓ − ℓ*)/(ℓ⁰ − ℓ*)")
    return figure


def scaling(result: dict):
    """Figs. 11 to 13, and whole steps beside Drake."""
    figure, axes = new_figure((12, 6.2), 2, 3)
    rows, drake = result["fig11_13_scaling"], result.get("drake_whole_steps", [])
    for walls, place in PLACES.items():
        bodies = column(rows, "bodies", walls=walls)

        def line(a, y, colour, label):
            a.plot(bodies, y, STYLES[walls], color=colour, label=label, ms=4)

        for a, key in ((axes[0, 0], "contacts"), (axes[0, 1], "speedup")):
            line(a, column(rows, key, walls=walls), BLUE, place)
        for name, (shown, colour) in SOLVERS.items():
            for a, unit in ((axes[0, 2], "ms"), (axes[1, 0], "e_m"), (axes[1, 1], "e_mu")):
                line(a, column(rows, f"{name}_{unit}", walls=walls), colour, f"{shown}, {place}")
        for engine, colour in (("warpsim", BLUE), ("drake", GREY)) if drake else ():
            line(axes[1, 2], column(drake, "ms_per_step", walls=walls, engine=engine), colour, f"{engine}, {place}")
    titles = ("Fig. 11: contacts at the end", "Fig. 12: speedup against Clarabel", "solver alone [ms per step]")
    titles += ("Fig. 13: momentum error e_m", "Fig. 13: slackness error e_μ", "whole step [ms], beside Drake")
    for a, title in zip(axes.flat, titles, strict=True):
        if not a.lines:
            a.set_axis_off()
            continue
        finish(a, title, 7, xlabel="bodies")
        if a in (axes[0, 0], axes[0, 1]):
            a.set_ylim(0.0)
        else:
            a.set_yscale("log")
        if a is not axes[0, 0]:
            _ticks(a, bodies)
    return figure


def slip(result: dict):
    """Figs. 14 and 15."""
    figure, axes = new_figure((12, 3.6), 1, 3)
    rows = result["fig14_15_slip"]
    for walls, place in PLACES.items():
        sigma = column(rows, "sigma", walls=walls)
        for a, key in zip(axes[0], ("slip", "iterations", "condition"), strict=True):
            a.plot(
                sigma, column(rows, key, walls=walls), STYLES[walls], color=BLUE if walls else RED, label=place, ms=4
            )
    axes[0, 0].plot(sigma, column(rows, "bound", walls=True), "--", color=GREY, label="σμhg")
    names = ("14: mean slip at the end [m/s]", "15: mean Newton iterations", "15: condition number of H")
    for a, name in zip(axes[0], names, strict=True):
        a.set_xscale("log")
        a.set_yscale("linear" if a is axes[0, 1] else "log")
        finish(a, f"Fig. {name}", xlabel="σ")
    return figure


def draw(result: dict, folder: pathlib.Path) -> None:
    """cylinder.png, solves.png, scaling.png, slip.png in `folder`."""
    for make in (cylinder, solves, scaling, slip):
        make(result).savefig(folder / f"{make.__name__}.png", dpi=DPI)
