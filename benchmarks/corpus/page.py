# SPDX-License-Identifier: Apache-2.0
"""docs/corpus.md and benchmarks/results/corpus.csv from the rows of a run."""

import collections
import csv
import datetime
import importlib.metadata
import pathlib
import statistics

from benchmarks.corpus.judge import LOADS, SLOWEST, SMOOTH, inside, kind_of, misses, stage_of

HEAD = """# Robots as their makers ship them

`make corpus` unpacks the packages below and takes every MJCF file in them that MuJoCo compiles, robots, scenes and loose parts alike; those with
flexes, plugins or signed distance fields, which are refused by name, are left out. What is asked of each, and by whom (`benchmarks/corpus`):

- **load**: `ws.load(file, root=package)` without an error ({loads:.0%} of the files).
- **smooth**: accelerations at five random states with random velocities, controls, activations and mocap bodies are MuJoCo's, to {smooth:g} in the norm of
  the mass matrix; constraints, limits, dry friction and contact are off in both (`smooth.py`).
- **sensors**: at the same states those of positions and velocities, and those of accelerations and forces of a short step, to {smooth:g} (`sensing.py`).
- **calm**: from the first keyframe or the file's own start, four worlds and two seconds, default options, float32 and float64: no flag, no
  NaN; kinetic energy at most 1.1 times MuJoCo's largest and a fall of 10 mm more; free bodies at rest as high as in MuJoCo to 1 mm
  and MuJoCo's penetration (`calm.py`).
- **speed**: a step of one of 16 worlds in at most {slowest:g} times the processor time of a world of MuJoCo C, float32, one thread (`speed.py`).

"""


def write_page(rows: dict[str, dict]) -> str:
    """The Markdown page."""
    known, today = inside(rows), datetime.date.today()
    lines = [f"{today}; MuJoCo {importlib.metadata.version('mujoco')}.", ""]
    lines += [
        "| package | files | load | smooth: compared | miss | sensors: files | miss | calm: run | miss | speed: run | miss | median | worst |"
    ]
    lines += ["|" + "---|" * 13]
    packages = [*sorted({row["package"] for row in known.values()}), None]
    for package in packages:
        part = {name: row for name, row in known.items() if package in (None, row["package"])}
        lines.append(_summary(package or "**all**", part))
    refused = collections.Counter(kind_of(said) for said, _ in misses(rows, "load").values())
    lines += ["", "## Not loaded", "", "| files | because |", "|---|---|"]
    lines += [f"| {count} | {_cell(why)} |" for why, count in refused.most_common()]
    for stage, title in (("smooth", "Accelerations"), ("sensors", "Sensors"), ("calm", "Not calm"), ("speed", "Slow")):
        lines += ["", f"## {title}", "", "| file | what | cause |", "|---|---|---|"]
        missed = sorted(misses(rows, stage).items())
        lines += [f"| {name} | {_cell(said)} | {_cell(why or 'not known')} |" for name, (said, why) in missed]
    return HEAD.format(loads=LOADS, smooth=SMOOTH, slowest=SLOWEST) + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")[:200]


def _summary(name: str, part: dict[str, dict]) -> str:
    loaded = sum(row["status"] == "loaded" for row in part.values())
    cells = [len(part), f"{loaded} ({loaded / max(len(part), 1):.0%})"]
    for stage in ("smooth", "sensors", "calm", "speed"):
        run = [row for row in part.values() if row.get("stages", {}).get(stage) not in (None, {})]
        cells += [len(run), len(misses(part, stage))]
    ratios = [found["ratio"] for row in part.values() if (found := stage_of(row, "speed")) and "ratio" in found]
    cells += [f"{statistics.median(ratios):.2f}", f"{max(ratios):.1f}"] if ratios else ["–", "–"]
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


def table_file(rows: dict[str, dict], path: pathlib.Path) -> None:
    """A line of numbers per file."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(
            [
                "file",
                "status",
                "nv",
                "smooth",
                "energy",
                "mujoco_energy",
                "flags32",
                "flags64",
                "ms",
                "mujoco_ms",
                "ratio",
            ]
        )
        for name, row in sorted(inside(rows).items()):
            calm, speed = (stage_of(row, stage) or {} for stage in ("calm", "speed"))
            single, double = calm.get("float32", {}), calm.get("float64", {})
            smooth = row.get("stages", {}).get("smooth")
            numbers = [smooth if isinstance(smooth, float) else None, single.get("energy"), single.get("mujoco_energy")]
            numbers += [single.get("flags"), double.get("flags"), *(speed.get(k) for k in ("ms", "mujoco_ms", "ratio"))]
            writer.writerow([name, row["status"], row.get("nv")] + [_short(x) for x in numbers])


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else value
