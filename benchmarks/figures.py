# SPDX-License-Identifier: Apache-2.0
"""Measured figures in pages, taken from the files of results.

    python -m benchmarks.figures            # write the marked parts of all pages, results/speeds.md, results/history.jsonl; draw pictures
    python -m benchmarks.figures --check    # exit code 1 where something is not up to date
    python -m benchmarks.figures --add "wheel, MB" 8.1 --date 2026-11-29 --machine "AMD EPYC" --source benchmarks/LOG.md

A page marks the place of a figure by two HTML comments, `<!-- KIND: WHAT -->` and `<!-- /KIND -->`. This program writes what stands between:

    table: FILE [N]; row R; column C     the N-th table (default 1) of a file of results, followed by its source; without rows or columns: all
    value: FILE [N]; row R; column C     one cell
    source: FILE                         a link to the file, the machine and the date
    speeds: NAME                         a part of `benchmarks/speeds.py`
    trend: NAME                          a table of `benchmarks/trend.py`

FILE lies in benchmarks/results, or is a path from the root of the checkout. R is the first cells of a row, joined by " / ". `row` and `column`
may occur several times. `tests/test_figures.py` compares the pages with the results.
Pictures of results (`benchmarks/evidence.py`) are drawn where the results have changed.
"""

import argparse
import os
import pathlib
import re
import sys

from benchmarks import evidence, speeds, trend

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- (table|value|source|speeds|trend): ([^>]+?) -->)(.*?)(<!-- /\2 -->)", re.DOTALL)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
MACHINES = {
    r"H200": "H200",
    r"AMD EPYC": "AMD EPYC",
    r"Intel(?:\(R\)| )*Xeon": "Intel Xeon",
    r"in the emulator": "emulated",
}


def pages() -> list[pathlib.Path]:
    """All pages that may hold marked parts."""
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def file_of(name: str) -> pathlib.Path:
    """The file of results with a name. Raises KeyError where there is none."""
    path = ROOT / name if "/" in name else RESULTS / name
    if path.suffix != ".md" or not path.resolve().is_relative_to(ROOT) or not path.exists():
        raise KeyError(f"no Markdown file of results '{name}'")
    return path


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a Markdown text, each a list of rows of cells, the head first and without the rule below it."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, flags=re.M)
    return [[cells(line) for k, line in enumerate(block.splitlines()) if k != 1] for block in blocks]


def origin(name: str) -> str:
    """Machine and date of a file of results. Raises KeyError where it names none."""
    text = file_of(name).read_text()
    dates = sorted(set(DATE.findall(text)))
    machine = next((short for pattern, short in MACHINES.items() if re.search(pattern, text)), None)
    if not dates or machine is None:
        raise KeyError(f"{name} does not name its date and one of MACHINES: write both into the file")
    return f"{machine}, {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "")


def link(name: str, page: pathlib.Path) -> str:
    """A link from a page to a file of results, with machine and date."""
    path = file_of(name)
    return f"[{path.name}]({pathlib.Path(os.path.relpath(path, page.parent)).as_posix()}): {origin(name)}"


def chosen(what: str) -> tuple[str, list[list[str]]]:
    """The name of the file and the rows, head first, that FILE [N]; row R; column C stand for. Raises KeyError where something is missing."""
    first, *rest = [part.strip() for part in what.split(";")]
    name, _, number = first.partition(" ")
    found = tables(file_of(name).read_text())
    if not 1 <= int(number or 1) <= len(found):
        raise KeyError(f"{name} has {len(found)} tables, not {number or 1}")
    head, *body = found[int(number or 1) - 1]
    wanted: dict[str, list[str]] = {"row": [], "column": []}
    for part in rest:
        kind, _, key = part.partition(" ")
        wanted[kind].append(key.strip())
    rows = [row for key in wanted["row"] for row in _rows(name, body, key)] if wanted["row"] else body
    places = [_column(name, head, key) for key in wanted["column"]] or list(range(len(head)))
    return name, [[row[k] for k in places] for row in [head, *rows]]


def _rows(name: str, body: list[list[str]], key: str) -> list[list[str]]:
    parts = [part.strip() for part in key.split(" / ")]
    found = [row for row in body if row[: len(parts)] == parts]
    if not found:
        raise KeyError(f"{name} has no row '{key}'")
    return found


def _column(name: str, head: list[str], key: str) -> int:
    if head.count(key) != 1:
        raise KeyError(f"{name} has {head.count(key)} columns '{key}'; there are: {'; '.join(head)}")
    return head.index(key)


def table(what: str, page: pathlib.Path) -> str:
    """A table and its source."""
    name, (head, *rows) = chosen(what)
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n\n" + "\n".join(lines) + f"\n\nSource: {link(name, page)}.\n\n"


def value(what: str) -> str:
    """One cell. Raises KeyError where it is not one."""
    name, (_, *rows) = chosen(what)
    if len(rows) != 1 or len(rows[0]) != 1:
        raise KeyError(f"'{what}' is {len(rows)} rows of {len(rows[0]) if rows else 0} cells of {name}, not one cell")
    return rows[0][0]


def filled(text: str, page: pathlib.Path) -> str:
    """The text of a page with its marked parts as the results have them."""

    def replace(match: re.Match) -> str:
        kind, what = match[2], match[3].strip()
        if "<!-- " in match[4]:
            raise ValueError(f"{page.name}: '<!-- {kind}: {what} -->' has no end before another mark begins")
        if kind in ("speeds", "trend"):
            known = speeds.fragments() if kind == "speeds" else trend.fragments()
            if what not in known:
                raise KeyError(f"{page.name}: no {kind} '{what}': write one of {', '.join(known)}")
            new = known[what]
        else:
            try:
                new = {"table": table, "source": link}[kind](what, page) if kind != "value" else value(what)
            except (KeyError, ValueError, IndexError) as error:
                raise ValueError(f"{page.name}, '{kind}: {what}': {error.args[0]}") from None
        return match[1] + new + match[5]

    parts = re.split(r"(^```.*?^```)", text, flags=re.M | re.S)  # code stays as it is
    return "".join(part if k % 2 else MARKED.sub(replace, part) for k, part in enumerate(parts))


def written() -> dict[pathlib.Path, str]:
    """Every file that this program writes, with its text. History first: the pages quote it."""
    own = {RESULTS / "speeds.md": speeds.report(), trend.HISTORY: trend.text(trend.renewed())}
    return own | {page: filled(page.read_text(), page) for page in pages()}


def main() -> None:
    """Write the marked parts, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 where a file is not up to date"
    )
    parser.add_argument(
        "--add", nargs=2, metavar=("FIGURE", "VALUE"), help="a value of the history that no file of results has"
    )
    parser.add_argument("--date", help="of --add, as 2026-11-29")
    parser.add_argument("--machine", help="of --add, as 'AMD EPYC'")
    parser.add_argument("--source", help="of --add: the file that tells how it was measured")
    arguments = parser.parse_args()
    if arguments.check and arguments.add:
        parser.error("--check writes nothing: leave out --add")
    if arguments.add:
        trend.add(*arguments.add, arguments.date, arguments.machine, arguments.source)
    wanted = written()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(path.relative_to(ROOT), "is not up to date" if arguments.check else "written")
        if not arguments.check:
            path.write_text(wanted[path])
    pictures = evidence.stale()
    for name in pictures:
        print(f"docs/pictures/{name}.svg is not up to date" if arguments.check else f"docs/pictures/{name}.svg drawn")
        if not arguments.check:
            evidence.write(name)
    sys.exit(1 if arguments.check and (stale or pictures) else 0)


if __name__ == "__main__":
    main()
