# SPDX-License-Identifier: Apache-2.0
"""Tables of results in Markdown and CSV, as the papers' figures write them."""

import argparse
import csv
import pathlib

LABEL = "paper.txt"  # in a folder of results: whose they are


def table(header, rows) -> list[str]:
    """The lines of a table and an empty one behind it."""
    first, *rest = ("| " + " | ".join(str(cell) for cell in line) + " |" for line in [header, *rows])
    return [first, "|---" * len(header) + "|", *rest, ""]


def formatted(rows: list[dict], columns: dict[str, str]) -> list[str]:
    """A table of dicts; `columns`: heading to a format string over a row's fields."""
    return table(list(columns), ([cell.format(**row) for cell in columns.values()] for row in rows))


def results_folder(paper: str, path: str) -> pathlib.Path:
    """The folder of `--out`, made where it is missing. Refuses one with results of another paper, which would be replaced or mixed with these."""
    folder = pathlib.Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        label = folder / LABEL
        held = label.read_text().strip() if label.is_file() else ""
        foreign = held != paper if held else any(folder.glob("tables.*"))
        if not foreign:
            label.write_text(f"{paper}\n")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{folder}: {error.strerror}") from None
    if foreign:
        whose = f"of papers.{held}" if held else f"of another program (tables, and no {LABEL})"
        raise argparse.ArgumentTypeError(
            f"{folder} holds results {whose}; give an empty folder, or one of papers.{paper}"
        )
    return folder


def made_on(host: dict, *packages: str) -> str:
    """Where the numbers are from: date, processor, and the versions of `packages`; `host` as of `warpsim.tools.bench.machine`."""
    versions = ", ".join(f"{name} {host['versions'][name]}" for name in packages)
    return f"{host['date']}, {host['processor']}, {host['cores']} cores (shared), one thread; {versions}"


def write(result: dict[str, list[dict]], text: str, path: pathlib.Path) -> None:
    """The Markdown at `path`, and beside it one CSV per entry of `result`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for name, rows in result.items():
        with open(path.parent / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            shorter = ({k: f"{x:.6g}" if isinstance(x, float) else x for k, x in row.items()} for row in rows)
            writer.writerows(shorter)
