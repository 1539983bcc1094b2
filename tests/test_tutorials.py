"""The tutorials and the programs of the documentation's first pages run from top to bottom, as printed."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.stem != "index")
NEEDS = {"training": ("gymnasium", "torch", "rsl_rl")}


def run(program: str, folder: pathlib.Path) -> str:
    """Run a program in a fresh process in `folder`; what it prints."""
    (folder / "program.py").write_text(program)  # a kernel's source is read from its file
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cells(path: pathlib.Path) -> list[str]:
    return re.findall(r"```{code-cell} python\n(.*?)```", path.read_text(), flags=re.S)


def test_tutorials_are_text_notebooks():
    """Each tutorial has a notebook's head, cells, and a line in the index."""
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert len(TUTORIALS) >= 6
    for path in TUTORIALS:
        assert path.read_text().startswith("---\nfile_format: mystnb\n"), path
        assert cells(path) and f"]({path.name})" in index, path


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(path, tmp_path):
    """Every cell runs, one after the other, in a folder of its own."""
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    assert run("\n".join(cells(path)), tmp_path).strip()
