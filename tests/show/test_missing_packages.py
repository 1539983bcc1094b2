# SPDX-License-Identifier: Apache-2.0
"""viser and matplotlib are packages of an extra: what works without them, and the line that says what to install."""

import ast
import pathlib
import re
import sys
import tomllib

import pytest

import warpsim as ws
from warpsim.tools.cli import main

ROOT = pathlib.Path(__file__).parents[2]
SHOWING = ("viser", "matplotlib")


@pytest.fixture
def without(monkeypatch):
    """A function that makes packages, and their modules, impossible to import."""

    def block(*packages):
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            monkeypatch.delitem(sys.modules, name)
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return block


@pytest.fixture(scope="module")
def recorded(device):
    sim = ws.Simulator(ws.load(ws.robots.path("hopper")), worlds=2, device=device)
    return sim, sim.rollout(sim.state(), steps=3)


def missing(package: str) -> str:
    return re.escape(f"{package} is not installed; run: pip install 'warpsim[show]'")


def test_pages_and_plots_say_what_to_install(recorded, without, tmp_path):
    """The error names the package and the extra; nothing is left behind."""
    without(*SHOWING)
    sim, trajectory = recorded
    for package, call in (
        ("viser", lambda: trajectory.to_html(tmp_path / "a.html")),
        ("viser", lambda: ws.Viewer(sim, port=0)),
        ("matplotlib", lambda: trajectory.plot(tmp_path / "a.png")),
        ("matplotlib", lambda: trajectory.plot()),
    ):
        with pytest.raises(ImportError, match=missing(package)):
            call()
    assert not list(tmp_path.iterdir())


def test_pictures_stages_and_notebooks_need_neither(recorded, without, tmp_path):
    """A PNG, a stage, and the picture of a trajectory in a notebook are made without both packages."""
    without(*SHOWING)
    _, trajectory = recorded
    trajectory.render(tmp_path / "a.png", width=64, height=48)
    trajectory.to_usd(tmp_path / "a.usda")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64," in trajectory._repr_html_()


@pytest.mark.parametrize(
    ("args", "package"),
    [
        (["run", "HOPPER", "--html", "a.html"], "viser"),
        (["run", "HOPPER", "--plot", "a.png"], "matplotlib"),
        (["view", "HOPPER"], "viser"),
        (["view", "a.zarr"], "viser"),
        (["view", "a.zarr", "--live"], "viser"),
        (["play", "out", "--html", "a.html"], "viser"),
        (["play", "out", "--live"], "viser"),
        (["demo", "--out", "out"], "viser"),
    ],
)
def test_commands_end_in_one_line_before_they_compute(args, package, without, tmp_path, monkeypatch, capsys):
    """Exit code 2 and one line that names the extra; no robot is loaded and no file begun."""
    if args[0] == "demo":
        pytest.importorskip("gymnasium")
    without(*SHOWING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ws, "load", lambda *given, **options: pytest.fail("a robot was loaded"))
    assert main([str(ws.robots.path("hopper")) if arg == "HOPPER" else arg for arg in args]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warpsim: ")]
    extra = "demo" if args[0] == "demo" else "show"
    assert line == f"warpsim: {package} is not installed; run: pip install 'warpsim[{extra}]'"
    assert not list(tmp_path.iterdir())


def test_a_training_without_viser_keeps_its_stage(recorded, without, tmp_path):
    """The page is left out with a warning that says what to install; the stage is written."""
    training = pytest.importorskip("warpsim.envs.training", exc_type=ImportError)
    without(*SHOWING)
    with pytest.warns(UserWarning, match=f"has no page of the policy: {missing('viser')}"):
        training._show(recorded[1], tmp_path, False)
    assert [path.name for path in tmp_path.iterdir()] == [training.STAGE]


def test_nobody_imports_them_at_the_top_of_a_file():
    """The library and the programs beside it import both where they draw, so that they run without."""
    for folder in ("warpsim", "examples", "scenes", "benchmarks", "papers"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not {name.partition(".")[0] for name in names} & set(SHOWING), path


def test_the_extras_bring_them():
    """The core has neither; `show` and `test` have both, and what writes a page has viser."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = {"": project["dependencies"]} | project["optional-dependencies"]
    found = {extra: {re.match(r"[\w-]+", x)[0] for x in needs} & set(SHOWING) for extra, needs in packages.items()}
    assert not found[""] and found["show"] == found["test"] == set(SHOWING)
    assert found["demo"] == found["train"] == {"viser"}
