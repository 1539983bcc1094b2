# SPDX-License-Identifier: Apache-2.0
"""Pages quote measured figures with their source: parts taken from the results are up to date, and every other one stands beside a link."""

import pathlib
import re
import shutil

import pytest

from benchmarks import evidence, figures, trend

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "api" not in path.relative_to(ROOT).parts),
]
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())

# A link to a file of results, to the log of measurements or to a paper's findings, or the name of the test that holds the figure.
SOURCE = re.compile(
    r"\]\((?:[^)\s]*/)?(?:results/[^)\s]*|LOG\.md[^)\s]*|papers/\w+/README\.md[^)\s]*)\)|tests/\w[\w/]*\.py"
)
# A number with a unit that only a measurement has: a speed, a ratio of times, memory, a numerical error.
MEASURED = re.compile(
    r"""\d\s?(?:k|M|million)?\s?(?:
        µs | (?:world-|env-)?steps/s | [GM]?B/s | [kMG]B\s(?:per(?!\sfile)|each)\b | CPU[- ](?:s|min)\w* | ms\s(?:per|of)\b
        | ×\sas\b | times\sas\s(?:fast|slow|long|much)\b | times\s(?:faster|slower|the\s(?:speed|time)) | %\s(?:faster|slower|(?:less|more)\s(?:time|CPU))
    ) | \b[Mm]emory\b[^.;|]{0,60}\d\s[kMG]B | \b(?:agrees?|differs?|errors?|accura\w+)\b[^.;|]{0,60}(?:\d[·×\s]{1,3}10⁻|\de-\d)""",
    re.VERBOSE,
)
# What a page puts into a block whose numbers are settings or arithmetic, not measurements.
EXCUSE = re.compile(r"<!-- not measured: \S[^>]* -->")
# A table with such a unit or quantity in its head, where a third of the cells are numbers.
HEAD = re.compile(
    r"\b(?:µs|ms|steps/s|kB|MB|GB|errors?|speed|times|iterations|figure|measured|faster|seconds|memory)\b"
)


def blocks(text: str) -> list[str]:
    """Paragraphs, list items and tables of a page, without code."""
    return [
        part
        for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", re.sub(r"```.*?```", "", text, flags=re.S))
        if part.strip()
    ]


def is_measured(block: str) -> bool:
    """Whether a block holds a measured figure."""
    if not block.lstrip().startswith("|"):
        return bool(MEASURED.search(block))
    head, *rows = figures.tables(re.sub(r"^\s+", "", block, flags=re.M))[0]
    body = [cell for row in rows for cell in row[1:]]
    numbers = sum(bool(re.match(r"[−≤<>-]?\d", cell)) for cell in body)
    return bool(MEASURED.search(block)) or (bool(HEAD.search(" ".join(head))) and numbers * 3 >= len(body) > 0)


def unsourced(text: str) -> list[str]:
    """The blocks with a measured figure that no link to results stands in; for a table, before or after is enough."""
    marked = figures.MARKED.sub(
        lambda part: f"{part[1]}{part[5]} " + ("](results/)" if part[2] != "value" else ""), text
    )
    parts, found = blocks(marked), []
    for k, block in enumerate(parts):
        near = parts[max(k - 1, 0) : k + 2] if block.lstrip().startswith("|") else [block]
        needs = is_measured(block) or "<!-- value:" in block
        if needs and not any(SOURCE.search(part) or EXCUSE.search(part) for part in near):
            found.append(block)
    return found


def test_pages_and_results_agree():
    """Marked parts of pages, the table of speeds and the history are what `python -m benchmarks.figures` makes of the results."""
    stale = [path.relative_to(ROOT).as_posix() for path, text in figures.written().items() if path.read_text() != text]
    assert not stale, f"run `python -m benchmarks.figures`: {stale}"


def test_pictures_and_results_agree():
    """Each picture of results shows the results as they are, takes less than 60 kB, and stands on a page."""
    assert not evidence.stale(), f"run `python -m benchmarks.figures`: {evidence.stale()}"
    pages = "".join(path.read_text() for path in figures.pages())
    for name in evidence.PICTURES:
        assert (evidence.FOLDER / f"{name}.svg").stat().st_size < 6e4 and f"(pictures/{name}.svg)" in pages


def test_a_picture_of_older_results_is_found(tmp_path, monkeypatch):
    """A picture is stale once a file of its results changes, and is drawn anew from the new one."""
    shutil.copytree(evidence.RESULTS, tmp_path / "results")
    monkeypatch.setattr(evidence, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(evidence, "FOLDER", tmp_path)
    shutil.copy(ROOT / "docs" / "pictures" / "bits.svg", tmp_path)
    assert "bits" not in evidence.stale()
    text = (tmp_path / "results" / "bits.json").read_text()
    (tmp_path / "results" / "bits.json").write_text(text.replace("true", "false", 1))
    assert "bits" in evidence.stale()
    assert ">9/10<" in evidence.write("bits").read_text() and "bits" not in evidence.stale()


@pytest.mark.parametrize(
    "date, version", [("2026-11-20", "0.2.0"), ("2026-11-29", "0.2.0"), ("2999-01-01", "unreleased")]
)
def test_release_of_a_day(date, version):
    """The code of a day is in the first release on that day or later."""
    assert trend.release_of(date) == version


@pytest.mark.parametrize(
    "name", ["README.md", "docs/index.md", "docs/performance.md", "docs/limits.md", "docs/benchmarks.md"]
)
def test_pages_of_speeds_have_marked_parts(name):
    """No page states speeds by hand where the results have them."""
    assert figures.MARKED.search((ROOT / name).read_text())


@page
def test_measured_figures_name_their_source(path):
    """Each paragraph or table with a measured figure links to its file of results or to the log, or names its test."""
    found = unsourced(path.read_text())
    assert not found, f"{len(found)} without a source:\n\n" + "\n\n".join(block[:300] for block in found)


def test_a_figure_without_its_source_is_found():
    """What the test above looks for: a speed, an error and a table are found, a time step is not; a link or a marked part is enough."""
    table = "| scene | ms/step |\n|---|---|\n| ant | 3.5 |"
    for text in (
        "An ant takes 4.5 µs.",
        "Poses agree to 3·10⁻⁹.",
        "The error is 2e-7 m.",
        "Twice as many are 1.8 times as fast.",
        table,
        "Memory is 37 kB.",
    ):
        assert unsourced(text) == [text]
        assert not unsourced(
            f"{text.strip()}{' ' if text != table else chr(10) * 2}From [one core](../benchmarks/results/one_core.md)."
        )
    assert not unsourced("Steps of 2 to 10 ms and robots of 30 degrees of freedom.")
    assert not unsourced("It needs 37 kB by arithmetic. <!-- not measured: a bound -->")
    value = "<!-- value: linearize.md; row ant; column step µs -->31.9<!-- /value -->"
    assert unsourced(value) and not unsourced(value + " µs ([results](../benchmarks/results/linearize.md))")


def test_marked_parts(tmp_path):
    """Tables, cells and sources are those of the file; what is not there is an error that lists what is."""
    page, name = ROOT / "docs" / "page.md", "linearize.md"
    own = figures.tables((figures.RESULTS / name).read_text())[0]
    for row in own[1:]:
        for head, cell in zip(own[0], row, strict=True):
            if own[0].count(head) == 1:
                marked = f"<!-- value: {name}; row {row[0]}; column {head} -->?<!-- /value -->"
                assert figures.filled(marked, page) == marked.replace("?", cell)
    text = figures.filled(f"<!-- table: {name}; column robot; column step µs -->\n<!-- /table -->", page)
    assert figures.tables(text)[0] == [[row[0], row[2]] for row in own]
    assert "[linearize.md](../benchmarks/results/linearize.md): AMD EPYC, 2026-11-21." in text
    for wrong in ("value: none.md", "value: linearize.md 2", "value: linearize.md; row ant; column x", "value: linearize.md; row x; column step µs",
                  "value: linearize.md", "source: accuracy.csv", "speeds: x", "trend: x", "source: ../../../etc/passwd"):  # fmt: skip
        kind = wrong.split(":")[0]
        with pytest.raises((KeyError, ValueError)):
            figures.filled(f"<!-- {wrong} --><!-- /{kind} -->", page)
    open_mark = f"<!-- source: {name} -->\n\nprose\n\n<!-- source: {name} -->old<!-- /source -->"
    with pytest.raises(ValueError, match=r"page\.md: '<!-- source: linearize\.md -->' has no end"):
        figures.filled(open_mark, page)


def test_every_marker_is_closed():
    """A marker without its end would be left as it stands, and never be renewed."""
    for path in figures.pages():
        text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.S)
        opened = re.findall(r"<!-- (?:table|value|source|speeds|trend): ", text)
        assert len(opened) == len(figures.MARKED.findall(text)) == len(re.findall(r"<!-- /\w+ -->", text)), path.name


def test_history_is_of_known_sources():
    """Each value of the history has a figure of the table, a date, a machine and a source that exists; values are positive."""
    lines = trend.recorded()
    assert lines and trend.text(trend._sorted(lines)) == trend.HISTORY.read_text()
    for line in lines:
        source = line["source"] if "/" in line["source"] else f"benchmarks/results/{line['source']}"
        assert (
            (ROOT / source).exists() and line["machine"] and figures.DATE.fullmatch(line["date"]) and line["value"] > 0
        )


@pytest.mark.parametrize("change", [{"figure": "x"}, {"machine": None}, {"source": "none.md"}, {"date": "yesterday"}])
def test_wrong_additions_to_the_history_are_refused(change):
    """`--add` refuses an unknown figure, and a value without machine, source or date."""
    right = {"figure": "wheel, MB", "value": "8.1", "date": "2026-11-29", "machine": "AMD EPYC", "source": "README.md"}
    with pytest.raises(ValueError):
        trend.add(**(right | change))


def test_programs_are_listed():
    """benchmarks/README.md lists every program of `benchmarks` that has a command line, but for those that another one runs."""
    listed = set(re.findall(r"benchmarks\.([\w.]+)", (ROOT / "benchmarks" / "README.md").read_text()))
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        if 'if __name__ == "__main__"' in path.read_text() and not path.stem.endswith("_peers"):
            assert path.stem in listed, path.name
