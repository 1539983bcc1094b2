# SPDX-License-Identifier: Apache-2.0
"""Pictures of stored results on docs/evidence.md and docs/benchmarks.md: `python -m benchmarks.figures` draws those whose results have changed.

    python -m benchmarks.evidence [NAME ...]     # draw them, whatever has changed; measures nothing

Each picture holds a digest of the files of results that it shows (`stale`). Its text stays text, and its colors follow the reader's light
or dark scheme. Needs the extra `show`.
"""

import argparse
import hashlib
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import impact_slopes, speeds, trend
from warpsim.base.extras import import_or_explain
from warpsim.files.output import replacing

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FOLDER = ROOT / "docs" / "pictures"
INK, GRID, RED, BLUE, PURPLE, GREEN = "#222222", "#dddddd", "#c4473a", "#2f6fb0", "#7a5aa6", "#4f9a5b"
PAPER = "#ffffff"
# What a color becomes where the reader's scheme is dark.
DARK = {PAPER: "#131416", INK: "#d8dadd", GRID: "#3a3d42", "#000000": "#d8dadd", RED: "#e5766a", BLUE: "#6ea8e0",
        PURPLE: "#b195da", GREEN: "#7fc48a"}  # fmt: skip
STYLE = {
    "svg.hashsalt": "warpsim",  # the same file on every run
    "svg.fonttype": "none",
    "font.size": 10,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}

BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "fontsize": 8}  # a legend below its axes


def _figure(width: float, height: float) -> Any:
    return import_or_explain("matplotlib.figure", "show").Figure(figsize=(width, height), layout="constrained")


def _stored(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def certificate() -> Any:
    """The solver error that steps report beside the tolerance, and beside errors that are known."""
    data = _stored("certificate.json")
    figure = _figure(9.5, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    laws = {"convex": "convex law", "lagged, supported load": "Coulomb's law"}
    runs = [row for row in data["runs"] if row["solver"] in laws]
    labels = list(dict.fromkeys(f"{row['scene']}, {laws[row['solver']]}" for row in runs))
    for dtype, color in (("float64", BLUE), ("float32", RED)):
        own = [row for row in runs if row["dtype"] == dtype]
        places = [labels.index(f"{row['scene']}, {laws[row['solver']]}") for row in own]
        left.axvline(own[0]["tolerance"], color=color, linewidth=1, label=f"{dtype}: tolerance")
        left.plot([row["momentum_error"] for row in own], places, "o", color=color, label="largest reported")
        style = {"color": color, "markerfacecolor": "none", "label": "last step, recomputed"}
        left.plot([row["recomputed_last"] for row in own], places, "s", **style)
    left.set_yticks(range(len(labels)), labels)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="solver error (relative error of the momentum balance)", title="long runs")
    left.legend(ncols=2, **BELOW)
    kinds = (("bound", "D", "bound on the distance to the solution", RED), ("apart", "o", "distance to Clarabel", BLUE))
    for key, marker, label, color in kinds:
        points = [(row["momentum_error"], row[key]) for row in data["problems"]]
        right.plot(*zip(*points, strict=True), marker, color=color, alpha=0.7, label=label)
    right.set(
        xscale="log", yscale="log", xlabel="largest solver error, recomputed", ylabel="largest error of the velocities"
    )
    right.set(xlim=(1e-12, 1e-5), ylim=(1e-8, 10), title="1,000 hard random problems")
    right.legend(**BELOW)
    return figure


def speed() -> Any:
    """Steps per second of all engines against the number of worlds."""
    engines = {
        "warpsim": ("o", BLUE, "warpsim"),
        "same_law": ("D", PURPLE, "warpsim, MuJoCo's law"),
        "mujoco_warp": ("s", RED, "mujoco_warp"),
        "mujoco": ("^", GREEN, "MuJoCo C"),
    }
    figure = _figure(9.5, 4.0)
    for axes, name, title in zip(figure.subplots(1, 2), speeds.SHORT, ("one CPU thread", "one H200"), strict=True):
        found = speeds.speeds(name)
        for robot, line in zip(speeds.ROBOTS, ("-", "--"), strict=True):
            for engine, (marker, color, label) in engines.items():
                points = sorted(
                    (n, row[engine]) for (model, n), row in found.items() if model == robot and engine in row
                )
                if points:
                    axes.plot(*zip(*points, strict=True), line, marker=marker, color=color, label=f"{robot}, {label}")
        unit = "steps per second of CPU time" if title == "one CPU thread" else "steps per second"
        axes.set(xscale="log", yscale="log", xlabel="worlds", ylabel=f"{unit}, all worlds", title=title)
        worlds = sorted({n for _, n in found})
        axes.set_xticks(worlds, [f"{n:,}" for n in worlds])
        low, high = (f(speed for row in found.values() for speed in row.values()) for f in (min, max))
        ticks = [x for k in range(4, 8) for x in (10**k, 2 * 10**k, 5 * 10**k) if low / 1.5 < x < 1.5 * high]
        axes.set_yticks(ticks, [f"{x / 1e6:g} million" if x >= 1e6 else f"{x:,}" for x in ticks])
        axes.minorticks_off()
        axes.legend(ncols=2, **BELOW)
    return figure


def bits() -> Any:
    """How many of the pairs of integrator and scalar type have the same bits, by solver and kind of run."""
    rows = _stored("bits.json")["rows"]
    solvers = list(dict.fromkeys(row["solver"] for row in rows))
    kinds = [kind for kind in rows[0]["same"] if all(kind in row["same"] for row in rows)]
    names = {"SAP": "SAP, convex law", "lagged": "SAP, Coulomb's law", "NoContact": "no contact"}
    names |= {"N = 1": "1 world", "order": "other order", "taped": "with a tape", "graph": "captured graph"}
    figure = _figure(9.5, 3.0)
    axes = figure.subplots()
    for y, solver in enumerate(solvers):
        own = [row["same"] for row in rows if row["solver"] == solver]
        for x, kind in enumerate(kinds):
            same = sum(row[kind] for row in own)
            color = GREEN if same == len(own) else RED
            axes.plot(x, y, "s", markersize=25, color=color, alpha=0.35)
            axes.text(x, y, f"{same}/{len(own)}", ha="center", va="center", fontsize=8.5)
    axes.set_xticks(
        range(len(kinds)), [names.get(kind, f"{kind[4:]} worlds" if kind[0] == "N" else kind) for kind in kinds]
    )
    axes.tick_params(axis="x", rotation=30, length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(range(len(solvers)), [names.get(solver, solver) for solver in solvers])
    axes.set(xlim=(-0.6, len(kinds) - 0.4), ylim=(len(solvers) - 0.4, -0.6))
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def speed_trend() -> Any:
    """Steps per second by date, one line per robot and machine."""
    figure = _figure(9.5, 3.4)
    markers = {"Intel Xeon": "s", "AMD EPYC": "o", "H200": "D"}
    for axes, group, unit in zip(figure.subplots(1, 2), ("cpu", "gpu"), ("", " million"), strict=True):
        for name, color in zip(list(trend.FIGURES[group])[:2], (BLUE, RED), strict=True):
            lines = [line for line in trend.recorded() if line["figure"] == name]
            for machine in sorted({line["machine"] for line in lines}):
                own = [line for line in lines if line["machine"] == machine]
                days = np.array([line["date"] for line in own], "datetime64[D]")
                label = f"{name.split()[0].rstrip(',')}, {machine}"
                axes.plot(
                    days, [line["value"] for line in own], marker=markers.get(machine, "v"), color=color, label=label
                )
        axes.set(ylabel=f"{unit} steps per second".strip(), ylim=(0, None))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title({"cpu": "64 worlds, one CPU thread", "gpu": "8,192 worlds, one GPU"}[group])
        days = sorted({line["date"] for line in trend.recorded() if line["figure"] in trend.FIGURES[group]})
        axes.set_xticks(np.array(days, "datetime64[D]"), days, rotation=30)
        axes.margins(x=0.1)
        axes.legend(fontsize=8)
    return figure


# The pictures: how each is drawn, and the files of results that it shows.
PICTURES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "certificate": (certificate, ("certificate.json",)),
    "impact_slopes": (lambda: impact_slopes.drawn(_stored("impact_slopes.json")), ("impact_slopes.json",)),
    "speed": (speed, ("bench.json", "bench_h200.json")),
    "bits": (bits, ("bits.json",)),
    "trend": (speed_trend, ("history.jsonl",)),
}


def digest(name: str) -> str:
    """The digest of the results that a picture shows."""
    return hashlib.sha256(b"".join((RESULTS / file).read_bytes() for file in PICTURES[name][1])).hexdigest()[:16]


def stale() -> list[str]:
    """The pictures that show other results than the files hold."""
    paths = {name: FOLDER / f"{name}.svg" for name in PICTURES}
    return [
        name for name, path in paths.items() if not path.exists() or f"results {digest(name)}" not in path.read_text()
    ]


def write(name: str) -> pathlib.Path:
    """Draw a picture."""
    matplotlib = import_or_explain("matplotlib", "show")
    path = FOLDER / f"{name}.svg"
    with matplotlib.rc_context(STYLE), replacing(path) as new:
        metadata = {"Date": None, "Creator": None, "Identifier": f"results {digest(name)}"}
        PICTURES[name][0]().savefig(new, format="svg", metadata=metadata)
        text = re.sub(r"<\?xml.*?>\n<!DOCTYPE.*?>\n", "", new.read_text(), flags=re.S)
        rules = "".join(
            f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
            for light, dark in DARK.items()
            for kind in ("fill", "stroke")
        )
        rules += f"text:not([style*='fill:']),path:not([style]),use:not([style]){{fill:{DARK[INK]}}}"
        new.write_text(text.replace("</style>", f"@media(prefers-color-scheme:dark){{{rules}}}</style>", 1))
    return path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; all if none is given")
    given = parser.parse_args()
    if unknown := set(given.names) - set(PICTURES):
        parser.error(f"no picture {sorted(unknown)}; there are: {', '.join(PICTURES)}")
    for name in given.names or PICTURES:
        print(write(name).relative_to(ROOT))


if __name__ == "__main__":
    main()
