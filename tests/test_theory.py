# SPDX-License-Identifier: Apache-2.0
"""docs/theory.md against the code: the files and functions that it names exist, and citations of its sections resolve."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "theory.md").read_text()
FOLDERS = ("kernels", "warpsim", "tests", "benchmarks", "examples", "papers", "scenes")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
FILE = re.compile(r"`((?:kernels|warpsim|tests|benchmarks|examples|papers|scenes)/[\w/]+\.py)`")
CITATION = re.compile(r"theory(?:\.md)?\s+(§[\d.]+\d|§\d)((?:(?:,|,? and)\s+§\d+(?:\.\d+)?)*)")


def sections() -> dict[str, str]:
    """Text by number, "3" with that of 3.1 and so on in it."""
    found: dict[str, str] = {}
    for part in re.split(r"^(?=##+ )", TEXT, flags=re.M):
        heading = re.match(r"##+ (\d+(?:\.\d+)?)\.? ", part)
        if heading:
            number = heading[1]
            assert number not in found, f"two sections {number}"
            found[number] = part
            if "." in number:
                found[number.split(".")[0]] += part
    return found


def table_rows() -> list[tuple[list[str], list[str]]]:
    """Files and functions of every row of the tables whose columns are equation, paper, file, function."""
    rows = []
    for table in TEXT.split("| equation | paper | file | function |\n")[1:]:
        for line in table.split("\n\n")[0].splitlines()[1:]:
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            assert len(cells) == 4, line
            rows.append((re.findall(r"`([^`]+)`", cells[2]), re.findall(r"`([^`]+)`", cells[3])))
    return rows


@functools.cache
def definitions(path: pathlib.Path) -> frozenset[str]:
    """Functions, kernels and classes of a file, and methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return frozenset(found)


def citations() -> dict[pathlib.Path, set[str]]:
    """Sections that each Python file cites as "theory §3.1", or "theory §2, §3.5"."""
    found = {}
    for path in SOURCES:
        text = path.read_text()
        cited = {n for match in CITATION.finditer(text) for n in re.findall(r"§(\d+(?:\.\d+)?)", match[0])}
        if cited and path != pathlib.Path(__file__):
            found[path] = cited
    return found


def test_files_exist():
    """Every source file that the page names is there."""
    for name in set(FILE.findall(TEXT)):
        assert (ROOT / name).is_file(), name


def test_functions_exist():
    """Every row of a table names files that are there, and functions, kernels or classes that one of them defines."""
    rows = table_rows()
    assert len(rows) > 100
    for files, names in rows:
        assert files and names, (files, names)
        defined = frozenset().union(*(definitions(ROOT / name) for name in files))
        for name in names:
            assert name in defined, f"{', '.join(files)} has no {name}"


def test_equations_are_stated():
    """The equations (N.M) of section N count up from 1 without a gap, and none is spoken of that is not stated."""
    stated = re.findall(r"^ {4}.*\((\d+\.\d+)\)", TEXT, flags=re.M)
    assert len(stated) == len(set(stated)), sorted(x for x in stated if stated.count(x) > 1)
    for section in {label.split(".")[0] for label in stated}:
        numbers = sorted(int(label.split(".")[1]) for label in stated if label.split(".")[0] == section)
        assert numbers == list(range(1, len(numbers) + 1)), (section, numbers)
    assert set(re.findall(r"\((\d+\.\d+)\)", TEXT)) <= set(stated)


def test_citations_resolve():
    """Every "theory §N" in a Python file is a section of the page."""
    known = sections()
    cited = citations()
    assert len(cited) > 45
    for path in SOURCES:
        text = path.read_text()
        assert path == pathlib.Path(__file__) or len(CITATION.findall(text)) == len(re.findall(r"theory\s+§", text)), (
            path
        )
    for path, numbers in cited.items():
        assert numbers <= known.keys(), f"{path.relative_to(ROOT)} cites {sorted(numbers - known.keys())}"


def test_sections_name_the_files_that_cite_them():
    """A file of the library that cites a section is named in it."""
    known = sections()
    for path, numbers in citations().items():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("kernels/", "warpsim/")):
            for number in numbers:
                assert f"`{name}`" in known[number], f"§{number} does not name {name}"


def test_links_within_the_page_resolve():
    """Links to sections are GitHub's names of headings."""
    headings = re.findall(r"^##+ (.*)", TEXT, flags=re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for anchor in re.findall(r"\]\(#([^)]+)\)", TEXT):
        assert anchor in anchors, anchor


@functools.cache
def words() -> frozenset[str]:
    return frozenset(word for path in SOURCES for word in re.findall(r"\w+", path.read_text()))


def test_names_of_symbols_are_in_the_code():
    """What the table of symbols gives as names in the code occurs there."""
    table = TEXT.split("| symbol | meaning |")[1].splitlines()[2:]
    assert len(table) > 60
    for line in table:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        assert len(cells) == 5, line
        for name in re.findall(r"`([^`]+)`", cells[3]):
            assert name in words(), f"{name} in: {line}"


@pytest.mark.parametrize("text, expected", [("theory §3.5, §6; see", ["3.5", "6"]), ("(theory §2, stage 1)", ["2"])])
def test_reading_of_citations(text, expected):
    """Lists of sections are read whole, and what follows them is not."""
    assert [n for m in CITATION.finditer(text) for n in re.findall(r"§(\d+(?:\.\d+)?)", m[0])] == expected
