# SPDX-License-Identifier: Apache-2.0
"""The history of a few figures, results/history.jsonl, and its tables on docs/benchmarks.md.

Each line is a value with its figure, date, machine and source. `python -m benchmarks.figures` adds the current values of the files of results.
"""

import datetime
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HISTORY = RESULTS / "history.jsonl"
# Figures by table, with the format of a value. Those of "package" are added by hand.
FIGURES = {
    "cpu": {
        "humanoid, steps/s": ",.0f",
        "ant, steps/s": ",.0f",
        "first step from an empty kernel cache, s": ".1f",
    },
    "gpu": {"humanoid on a GPU, million steps/s": ".2f", "ant on a GPU, million steps/s": ".2f"},
    "gradients": {"backward / forward, float32": ".2f", "backward / forward, float64": ".2f"},
    "package": {
        "wheel, MB": ".1f",
        "first step from the wheel, s": ".1f",
        "tests, number": ",.0f",
        "tests with compiled kernels, s": ",.0f",
        "compiling kernels for the tests, s": ",.0f",
    },
}
NAMES = [name for group in FIGURES.values() for name in group]


def _line(figure: str, value: float, machine: dict, source: str) -> dict:
    where = machine["device"].removeprefix("NVIDIA ") if machine["device"] != "cpu" else machine["processor"]
    where = where.replace("(R)", "").replace(" Processor", "").split(" @")[0]
    return {
        "figure": figure,
        "value": float(f"{value:.4g}"),
        "date": machine["date"],
        "machine": where,
        "source": source,
    }


def current() -> list[dict]:
    """The values of the files of results as they are."""
    lines = []
    for name, worlds, suffix, unit in (
        ("bench.json", 64, ", steps/s", 1),
        ("bench_h200.json", 8192, " on a GPU, million steps/s", 1e6),
    ):
        data = json.loads((RESULTS / name).read_text())
        own = [row for row in data["rows"] if row["engine"] == "warpsim"]
        for robot in ("humanoid", "ant"):
            row = next(row for row in own if row["model"] == robot and row["worlds"] == worlds)
            lines.append(_line(robot + suffix, row["world_steps_per_second"] / unit, data["machine"], name))
        starts = [row for row in data.get("cold_start", []) if (row["model"], row["engine"]) == ("humanoid", "warpsim")]
        lines += [_line(NAMES[2], row["seconds"], data["machine"], name) for row in starts]
    name = "gradients_cost.json"
    data = json.loads((RESULTS / name).read_text())
    for kind in ("float32", "float64"):
        cost = data[f"cost_{kind}"]
        lines.append(_line(f"backward / forward, {kind}", cost["backward"] / cost["forward"], data["machine"], name))
    return lines


def recorded() -> list[dict]:
    """The lines of the history."""
    return [json.loads(line) for line in HISTORY.read_text().splitlines()] if HISTORY.exists() else []


def _sorted(lines: list[dict]) -> list[dict]:
    latest = {(line["figure"], line["date"], line["machine"]): line for line in lines}
    return sorted(latest.values(), key=lambda line: (NAMES.index(line["figure"]), line["date"], line["machine"]))


def renewed() -> list[dict]:
    """The history with the current values; of one figure, day and machine the last value stays."""
    return _sorted([*recorded(), *current()])


def text(lines: list[dict]) -> str:
    """The text of the file of the history."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def add(figure: str, value: str, date: str | None, machine: str | None, source: str | None) -> None:
    """Add a value that no file of results has. Raises ValueError where something is missing."""
    if figure not in NAMES:
        raise ValueError(f"no figure '{figure}': write one of {'; '.join(NAMES)}")
    if not machine or not source or not (ROOT / source).exists():
        raise ValueError(
            f"--add needs --machine and --source (a file of the repository), not {machine!r} and {source!r}"
        )
    if not (0 < float(value) < float("inf")) or "|" in machine:
        raise ValueError(f"--add needs a finite number above 0 and a machine without '|', not {value} and {machine!r}")
    date = (datetime.date.fromisoformat(date) if date else datetime.date.today()).isoformat()
    line = {"figure": figure, "value": float(value), "date": date, "machine": machine, "source": source}
    HISTORY.write_text(text(_sorted([*recorded(), line])))


def release_of(date: str) -> str:
    """The version whose release holds the code of a day: the first on that day or later."""
    dated = re.findall(r"^## (\S+) — (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    return next((version for version, day in reversed(dated) if day >= date), "unreleased")


def fragments() -> dict[str, str]:
    """The tables by name: a row per day and machine, a column per figure."""
    lines, found = renewed(), {}
    for name, formats in FIGURES.items():
        own = {
            (line["date"], line["machine"], line["figure"]): line["value"]
            for line in lines
            if line["figure"] in formats
        }
        rows = [["date", "version", "machine", *formats], ["---"] * (len(formats) + 3)]
        for date, machine in sorted({key[:2] for key in own}):
            values = [own.get((date, machine, figure)) for figure in formats]
            rows.append(
                [
                    date,
                    release_of(date),
                    machine,
                    *("" if x is None else f"{x:{form}}" for x, form in zip(values, formats.values(), strict=True)),
                ]
            )
        found[name] = "\n\n" + "".join("| " + " | ".join(row) + " |\n" for row in rows) + "\n"
    return found
