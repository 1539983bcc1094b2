# SPDX-License-Identifier: Apache-2.0
"""benchmarks/results/corpus.md and corpus.csv from the rows of a run."""

import collections
import csv
import pathlib
import statistics

import warp as wp

from benchmarks.corpus.judge import inside, kind_of, misses, stage_of
from warpsim.tools.bench import machine

HEAD = """# Robot files of other packages

`make corpus`; what the columns mean: [docs/corpus.md](../../docs/corpus.md). {date}, {processor}; MuJoCo {mujoco}.

"""


def write_page(rows: dict[str, dict]) -> str:
    """The Markdown page."""
    known, about = inside(rows), machine(wp.get_device("cpu"))
    lines = [
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
    head = HEAD.format(date=about["date"], processor=about["processor"], mujoco=about["versions"]["mujoco"])
    return head + "\n".join(lines) + "\n"


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
