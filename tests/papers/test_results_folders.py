# SPDX-License-Identifier: Apache-2.0
"""`--out` of the papers' programs: results of another paper are neither read nor replaced."""

import importlib
import json
import pathlib
import shutil

import pytest

PAPERS = pathlib.Path(__file__).resolve().parents[2] / "papers"
PROGRAMS = ("ccs.figures", "dlcp.figures", "ltvi.figures", "sap.figures", "sap.jar", "sap.slip_control")


def refused(program: str, folder, monkeypatch, capsys) -> str:
    """What a program says that does not begin; the folder stays what it is."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else folder.read_bytes()
    monkeypatch.setattr("sys.argv", ["program", "--out", str(folder)])
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"papers.{program}").main()
    assert end.value.code == 2
    after = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else folder.read_bytes()
    assert after == before
    return capsys.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_of_another_paper_are_refused(program, tmp_path, monkeypatch, capsys):
    """By the name of whose they are, before anything is computed; so are tables of nobody knows what, and a file."""
    paper = program.split(".")[0]
    for other in sorted({name.split(".")[0] for name in PROGRAMS} - {paper}):
        folder = shutil.copytree(PAPERS / other / "results", tmp_path / other)
        said = refused(program, folder, monkeypatch, capsys)
        assert f"{folder} holds results of papers.{other}" in said and f"papers.{paper}" in said
    (folder / "paper.txt").unlink()
    assert "of another program" in refused(program, folder, monkeypatch, capsys)
    (tmp_path / "file").write_text("mine")
    assert "File exists" in refused(program, tmp_path / "file", monkeypatch, capsys)


def test_parts_of_before_are_read_or_named(tmp_path, monkeypatch, capsys):
    """`papers.ccs.figures` adds to the parts that a folder of its own holds; what is no such table is named."""
    from papers.ccs import figures

    folder = tmp_path / "new" / "results"
    monkeypatch.setattr("sys.argv", ["program", "--quick", "--parts", "printed", "--out", str(folder)])
    monkeypatch.setitem(figures.PARTS, "printed", lambda quick: {"row": [1.0]})
    for _ in range(2):
        assert figures.main() == 0
    assert json.loads((folder / "tables.json").read_text())["printed"] == {"row": [1.0]}
    for text in ("{", "[]", '{"machine": {}}', '{"tally": {}, "times": {}}'):
        (folder / "tables.json").write_text(text)
        assert "tables.json is no table of these parts" in refused("ccs.figures", folder, monkeypatch, capsys)
