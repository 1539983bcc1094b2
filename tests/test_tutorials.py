# SPDX-License-Identifier: Apache-2.0
"""The tutorials and the programs of the documentation's first pages run from top to bottom, as printed."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

from docs.stored_outputs import cells, outputs_of, pages, stored

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = pages()
TRAINING = ("gymnasium", "matplotlib", "torch", "rsl_rl", "viser")
NEEDS = {
    **dict.fromkeys(("gradients", "mujoco_law", "rollout"), ("matplotlib",)),
    "many_machines": ("ray",),
    "own_robot": (*TRAINING, "onnx", "onnxscript", "onnxruntime"),
    "training": TRAINING,
}


def run(program: str, folder: pathlib.Path) -> str:
    """Run a program in a fresh process in `folder`; what it prints."""
    (folder / "program.py").write_text(program)  # a kernel's source is read from its file
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "program.py"]
    env = os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tutorials_are_text_notebooks():
    """Each tutorial has a notebook's head, cells, and a line in the index."""
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert len(TUTORIALS) >= 9
    for path in TUTORIALS:
        assert path.read_text().startswith("---\nfile_format: mystnb\n"), path
        assert cells(path) and f"]({path.name})" in index, path


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_stored_outputs_are_of_these_cells(path):
    """The site shows outputs of the cells that a page has: else `python -m docs.stored_outputs NAME`."""
    assert [cell["source"] for cell in stored(path)] == cells(path)
    assert any(cell["outputs"] for cell in stored(path))


def test_stored_outputs_are_small_and_of_pages():
    """Their files have 1.5 MB together, one for each tutorial."""
    files = sorted(outputs_of(TUTORIALS[0]).parent.iterdir())
    assert files == [outputs_of(path) for path in TUTORIALS]
    assert sum(path.stat().st_size for path in files) < 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(path, tmp_path):
    """Every cell runs, one after the other, in a folder of its own."""
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    assert run("\n".join(cells(path)), tmp_path).strip()


SLOW = [pytest.param(page, marks=pytest.mark.slow) for page in ("docs/quickstart", "docs/scenes")]
PAGE_NEEDS = {"docs/quickstart": ("torch",), "docs/scenes": ("robosuite",)}


@pytest.mark.parametrize("page", ["README", "docs/concepts", *SLOW])
def test_programs_of_first_pages_run(page, tmp_path):
    """Python blocks run one after the other, as printed."""
    for package in PAGE_NEEDS.get(page, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / f"{page}.md").read_text(), flags=re.S)
    assert blocks
    run("\n".join(blocks), tmp_path)


URDF = """<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j" type="revolute"><parent link="base"/>
<child link="arm"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def test_migration_runs(tmp_path):
    """Every line of a column `ours` runs, after the page's own blocks, on an ant called robot.xml."""
    pytest.importorskip("gymnasium")
    import warpsim as ws

    (tmp_path / "robot.xml").write_text(pathlib.Path(ws.robots.path("ant")).read_text())
    (tmp_path / "robot.urdf").write_text(URDF)
    lines = ["import mujoco"]
    for part in re.split(r"(```python\n.*?```)", (ROOT / "docs" / "migration.md").read_text(), flags=re.S):
        if part.startswith("```python"):
            lines.append(part.removeprefix("```python\n").removesuffix("```"))
            continue
        for table in re.findall(r"^\|.*?\| ours \|\n\|-.*\n((?:\|.*\n)*)", part, flags=re.M):
            rows = re.findall(r"^\| (.*?) \| `([^`]*)`[^|]*\|$", table, flags=re.M)
            assert len(rows) == len(table.splitlines()), "a row without a program"
            for theirs, code in rows:
                if not code.startswith("warpsim "):
                    lines.append(f"try:\n    {code}\nexcept Exception as e:\n    raise RuntimeError({theirs!r}) from e")
    assert len(lines) > 60
    run("\n".join(lines), tmp_path)
