# SPDX-License-Identifier: Apache-2.0
"""The slope of an outcome by the start, through an impact, against the step length: with `time_of_impact`, without, and in
other engines. `python -m benchmarks.figures` draws the figure of docs/impact_gradients.md from the results (`benchmarks/evidence.py`).

    python -m benchmarks.impact_slopes [--peers PYTHON …] [--quick] [--out FOLDER]

Scenes of `benchmarks.impacts`: `stick`, a ball that falls with a horizontal velocity, lands and rolls on (slope: x at the end
by the height of the fall; the true one is a formula), and `bump`, a ball that rolls over a bump and lands behind it (slope: x by the
speed; the true one is that of steps of 0.5 ms with the rule on). 24 starts, float64, by the tape. `--peers` names interpreters
of environments with other engines (`benchmarks/impact_peers.py`); their results are kept in the file until measured again.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks import impact_scenes, impacts
from warpsim.base.extras import import_or_explain
from warpsim.tools.bench import machine

STEPS = (0.01, 0.005, 0.0025, 0.00125, 0.000625)  # [s]
COARSE = 0.1  # half width of coarse differences, of the parameter's range
FINE = 5e-4  # [s] steps of the reference
TEETH = (0.18, 0.22, 241)  # heights of the left picture [m]
SCENES = {"stick": impact_scenes.sticking_ball, "bump": impact_scenes.bump}
OWN = {"warpsim, time_of_impact=False": "off", "warpsim, time_of_impact=True": "on"}
COMMAND = "python -m benchmarks.impact_slopes --peers PYTHON … --out benchmarks/results"


def problem(scene: impact_scenes.Scene, p: np.ndarray, steps) -> dict:
    """What `impact_peers` is given: starts, their change by the first parameter, and numbers of the scene."""
    unit = np.zeros_like(p)
    unit[:, 0] = 0.5 * scene.widths[0]
    here, above, below = (scene.start(p + s * unit) for s in (0, 1, -1))
    change = {f"d{x}": (above[x] - below[x]) / scene.widths[0] for x in "qv"}
    model = scene.model
    numbers = {"bump": model.ngeom > 2, "friction": float(model.geom_friction[0]), "duration": scene.duration}
    arrays = {"q": here["q"], "v": here["v"], **change}
    return {k: x.tolist() for k, x in arrays.items()} | numbers | {"h": list(steps), "coarse": COARSE * scene.widths[0]}


def measure_own(scene: impact_scenes.Scene, p: np.ndarray, steps) -> dict[str, dict]:
    """The truth, and rows of this simulator as `impact_peers.measure` gives them."""
    width = scene.widths[0]
    fine = impacts.slopes(scene, p, FINE, "SAP", "on", (COARSE,))
    true = fine.small[:, 0, 0]
    if scene.exact:
        ends = scene.exact(impacts.moved(scene, p, impacts.SMALL_FORMULA).reshape(-1, p.shape[1]))
        ends = ends.reshape(-1, len(p), ends.shape[1])
        true = impacts.differences(ends, impacts.SMALL_FORMULA)[:, 0, 0]
    found = {"truth": {"slope": (true / width).tolist(), "coarse": (fine.coarse[0][:, 0, 0] / width).tolist()}}
    for title, rule in OWN.items():
        rows = {}
        for h in steps:
            coarse = impacts.slopes(scene, p, h, "SAP", rule, (COARSE,))
            taped = impacts.tape_slopes(scene, p, h, "SAP", rule)[:, 0, 0] / width
            print(f"{title}, {1e3 * h:g} ms", flush=True)
            wide = coarse.coarse[0][:, 0, 0] / width
            found_here = {
                "end": coarse.outcome[:, 0],
                "slope": taped,
                "coarse": wide,
                "step": coarse.small[:, 0, 0] / width,
            }
            rows[f"{1e3 * h:g}"] = {k: x.tolist() for k, x in found_here.items()}
        found[title] = rows
    return found


def teeth(h: float) -> dict:
    """x at the end against the height of the fall, at one step length."""
    scene = SCENES["stick"]()
    p = np.tile(np.mean(list(scene.ranges.values()), axis=1), (TEETH[2], 1))
    p[:, 0] = np.linspace(*TEETH)
    curves = {"height": p[:, 0].tolist(), "true motion": scene.exact(p)[:, 0].tolist(), "ms": 1e3 * h}
    for title, rule in OWN.items():
        curves[title] = impacts.run(scene, p, h, "SAP", rule).outcome[:, 0].tolist()
    return curves


def measure_peers(python: str, problems: dict) -> dict:
    """What the engines of that environment answer, by title; {} of those that it has not."""
    script = pathlib.Path(__file__).with_name("impact_peers.py")
    environment = {k: x for k, x in os.environ.items() if k not in ("PYTHONPATH", "WARP_CACHE_PATH")}
    run = subprocess.run(
        [python, str(script)],
        input=json.dumps({"scenes": problems}),
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    rows = {title: row for line in lines for title, row in json.loads(line).items()}
    return {title: row for title, row in rows.items() if "missing" not in row}


# ---- table and figure -----------------------------------------------------------------------------------------------


def rows_of(result: dict, name: str) -> dict[str, dict]:
    """Rows by step length of every engine that did the scene."""
    rows = {title: result["scenes"][name][title] for title in OWN}
    for title, peer in result["peers"].items():
        if "found" in peer["scenes"].get(name, {}):
            rows[title] = peer["scenes"][name]["found"]
    return rows


def ratios(result: dict, name: str, row: dict) -> dict[float, np.ndarray]:
    """Slopes over the true ones by step length [ms]."""
    true = np.array(result["scenes"][name]["truth"]["slope"])
    return {float(ms): np.array(found["slope"], float) / true for ms, found in row.items()}


def table(result: dict) -> str:
    steps = [f"{1e3 * h:g}" for h in result["steps"]]
    lines = [["scene", "engine", *(f"{ms} ms" for ms in steps), "own motion / true motion", "apart"]]
    lines.append(["---"] * len(lines[0]))
    for name in result["scenes"]:
        true, wide = (np.array(result["scenes"][name]["truth"][x]) for x in ("slope", "coarse"))
        for title, row in rows_of(result, name).items():
            found = ratios(result, name, row)
            own = np.array(row[steps[-1]]["coarse"]) / wide
            cells = [impacts.spread(found[float(ms)], ".3g") for ms in steps]
            apart = [np.median(abs(np.subtract(x["slope"], x["step"]) / true)) for x in row.values()]
            lines.append([name, title, *cells, impacts.spread(own, ".3g"), f"{max(apart):.0e}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def report(result: dict) -> str:
    about = result["machine"]
    parts = ["# Slopes through an impact, and those of other engines", f"`{COMMAND}`"]
    parts.append(
        f"{about['date']}, {about['processor']}, CPU; warpsim {about['versions']['warpsim']}, {result['starts']} starts."
    )
    parts.append(
        "Slope of the engine's motion over the true slope: 5, 50 and 95 % of the starts. `stick`: x at the end by the height that a ball falls from, which lands with a horizontal "
        'velocity and rolls on. `bump`: x by the speed of a ball that rolls over a bump. "Own motion" is a coarse difference (20 % of the range) of the engine at its '
        'shortest step, over that of the true motion: 1 where its motion is that of rigid contact. "Apart": by how much its slope and a small difference of its own steps differ, relative to '
        "the true slope, the median of the starts at the worst step length; float32 engines by differences that are 2e-4 wide."
    )
    parts.append(table(result))
    notes = [
        "warpsim: `ws.SAP(tolerance=1e-12)`, float64, slopes by the tape, which agree with differences of the steps."
    ]
    for title, peer in result["peers"].items():
        versions = {s["about"] for s in peer["scenes"].values() if "about" in s}
        text = f"{title}: {peer['note']}; {', '.join(versions)}."
        text += "".join(f" `{k}`: {s['skipped']}." for k, s in peer["scenes"].items() if "skipped" in s)
        notes.append(text)
    parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def drawn(result: dict) -> Any:
    """A figure. Left: the outcome against the start, with its teeth. Right: slope over true slope against the step length."""
    off, on = OWN
    colors = {off: "#c4473a", on: "#2f6fb0"}
    shown = {off: "o", on: "o", "MJX, jax.jvp": "s", "Newton, semi-implicit": "^"}
    colors |= {"MJX, jax.jvp": "#7a5aa6", "Newton, semi-implicit": "#4f9a5b"}
    figure = import_or_explain("matplotlib.figure", "show").Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    curves = result["teeth"]
    height = 100 * np.array(curves["height"])
    left.plot(height, curves["true motion"], color="#222222", linewidth=4, alpha=0.25, label="true motion")
    for title in OWN:
        left.plot(height, curves[title], color=colors[title], linewidth=1.4, label=title.removeprefix("warpsim, "))
    left.set(xlabel="height that the ball falls from [cm]", ylabel="where it is after 0.6 s [m]")
    left.set_title(f"steps of {curves['ms']:g} ms")
    left.legend(frameon=False)
    rows = rows_of(result, "stick")
    titles = [title for title in shown if title in rows]
    for i, title in enumerate(titles):
        found = ratios(result, "stick", rows[title])
        steps = np.array(list(found)) * 1.035 ** (i - (len(titles) - 1) / 2)  # side by side
        low, middle, high = (np.array([np.quantile(x, share) for x in found.values()]) for share in (0.05, 0.5, 0.95))
        style = {"color": colors[title], "marker": shown[title], "linestyle": "none", "capsize": 3, "markersize": 5}
        right.errorbar(steps, middle, yerr=[middle - low, high - middle], label=title, **style)
    right.axhline(1.0, color="#222222", linewidth=4, alpha=0.25, label="true motion")
    right.set(xscale="log", xlabel="step length [ms]", ylabel="slope / true slope")
    right.set_xticks([1e3 * h for h in result["steps"]], [f"{1e3 * h:g}" for h in result["steps"]])
    right.minorticks_off()
    right.set_title("slope by the height: median and 5 to 95 % of the starts")
    right.legend(loc="lower center", ncols=2, fontsize=9)
    right.set_ylim(-22.0, 5.0)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", default=[], metavar="PYTHON")
    parser.add_argument("--starts", type=int, default=impacts.STARTS)
    parser.add_argument("--quick", action="store_true", help="6 starts, 10 and 5 ms")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    steps, starts = (STEPS[:2], 6) if arguments.quick else (STEPS, arguments.starts)
    stored = arguments.out and arguments.out / "impact_slopes.json"
    result = json.loads(stored.read_text()) if stored and stored.exists() else {"peers": {}}
    scenes = {name: make() for name, make in SCENES.items()}
    found = {name: measure_own(scene, scene.starts(starts), steps) for name, scene in scenes.items()}
    problems = {name: problem(scene, scene.starts(starts), steps) for name, scene in scenes.items()}
    peers = result["peers"] if result.get("starts") == starts and result.get("steps") == list(steps) else {}
    for python in arguments.peers:
        peers = peers | measure_peers(python, problems)
    result = {"scenes": found, "peers": peers, "steps": list(steps), "starts": starts, "teeth": teeth(STEPS[0])}
    result["machine"] = machine(impacts.wp.get_device("cpu"))
    text = report(result)
    print(text)
    if stored:
        short = json.loads(json.dumps(result), parse_float=lambda x: float(f"{float(x):.7g}"))
        stored.write_text(json.dumps(short) + "\n")
        stored.with_suffix(".md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
