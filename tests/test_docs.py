# SPDX-License-Identifier: Apache-2.0
"""The documentation is true where a machine can tell: names, files, flags, tables of shapes, versions."""

import pathlib
import re
import shlex
import tomllib

import mujoco
import pytest

import warpsim as ws
from benchmarks import figures
from scenes.examples import SCENES
from warpsim.files import load
from warpsim.tools.cli import COMMANDS, GROUPS, main

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "papers").rglob("README.md")),
]
SUFFIXES = (*load.MUJOCO_SUFFIXES, *load.URDF_SUFFIXES, *load.USD_SUFFIXES)
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


@page
def test_public_names_exist(path):
    """Every `ws.name`, `ws.Class(option=...)` and `sim.method` of a page is one of the package."""
    text = path.read_text()
    for name in set(re.findall(r"\bws\.([A-Za-z_]\w*)", text)) - {"torch", "jax"}:
        assert hasattr(ws, name), f"ws.{name}"
    for name in set(re.findall(r"\bsim\.([A-Za-z_]\w*)", text)) - {
        "dt",
        "worlds",
        "device",
        "parameters",
        "diagnostics",
    }:
        assert hasattr(ws.Simulator, name), f"sim.{name}"
    for name in set(re.findall(r"(?<!\.)\bmodel\.([a-z_]\w*)\b(?!\*)", text)) - {"xml", "usd", "urdf", "py", "md"}:
        assert hasattr(ws.Model, name) or name in ws.Model.__dataclass_fields__, f"model.{name}"
    for cls, options in re.findall(r"\bws\.(SAP|Compliant|LCP|Variational)\(([^()]*)\)", text):
        for option in re.findall(r"(\w+)=", options):
            assert option in getattr(ws, cls).__dataclass_fields__, f"{cls}({option}=)"


@page
def test_files_exist(path):
    """Every link within the repository, and every source, test, example or result that a page names, is there."""
    text = path.read_text()
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (path.parent / link).exists(), link
    for name in re.findall(
        r"`((?:warpsim|kernels|tests|examples|benchmarks|scenes|papers|docs)/[\w./]+\.\w+)(?:::[^`]*)?`", text
    ):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"python -m ((?:examples|benchmarks|papers)\.[\w.]+)", text):
        module = ROOT / name.replace(".", "/")
        assert module.with_name(module.name + ".py").exists() or (module / "__main__.py").exists(), name
    assert not re.findall(r"python ((?:examples|benchmarks|papers)/\S+)", text)


@page
def test_commands_of_a_page_parse(path):
    """Every `warpsim ...` line of a console block is a command with flags that its help lists."""
    for block in re.findall(r"```console\n(.*?)```", path.read_text(), flags=re.S):
        for line in re.findall(r"^\$ warpsim (.*)", block, flags=re.M):
            words = shlex.split(line, comments=True)
            assert words[0] in COMMANDS, line
            for flag in (word for word in words if word.startswith("--")):
                fields = COMMANDS[words[0]].__dataclass_fields__
                group, _, name = flag[2:].removeprefix("no-").replace("-", "_").rpartition(".")
                assert name in (fields[group].default_factory if group else COMMANDS[words[0]]).__dataclass_fields__, (
                    line
                )


@page
def test_no_page_has_speeds_of_its_own(path):
    """Speeds beside mujoco_warp and MuJoCo C stand in the table alone, so that no two pages can differ."""
    if path.name == "CHANGELOG.md":  # what was measured then
        pytest.skip("a history")
    text = figures.MARKED.sub("", path.read_text())
    ratio = r"\d[^|\n;:]{0,30}(?:times|×)[^|\n;:]{0,20}(?:mujoco_warp|MuJoCo C)\b"
    assert not re.search(ratio, text), re.search(ratio, text)


# Words of a hand-written page, as `wc -w` counts them.
LONGEST = 1500
# Pages that may be longer, and why.
LONG = {
    "docs/theory.md": "the equations of everything, read by section",
}
# Tables of features, looked up and not read: their words do not count.
TABLES = ("docs/mjcf.md", "docs/urdf.md", "docs/usd.md", "docs/migration.md", "docs/sensors.md", "benchmarks/README.md")


def test_no_page_is_longer_than_is_read():
    """Each hand-written page has at most 1,500 words, but for those listed above."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "api" not in path.relative_to(ROOT).parts]
    words = {}
    for path in (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *pages):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        words[name] = len((re.sub(r"^\|.*", "", text, flags=re.M) if name in TABLES else text).split())
    longer = {name: count for name, count in words.items() if count > LONGEST and name not in LONG}
    assert not longer, longer


def test_kernels_of_the_step_exist():
    """The table of docs/step.md names kernels that are there, by module and name."""
    table = (ROOT / "docs" / "step.md").read_text().split("| line | kernels |")[1].split("\n\n")[0]
    module, found = "", 0
    for row in table.splitlines()[2:]:
        for name in re.findall(r"`([\w.]+\*?)`", row.split("|")[2]):
            module, kernel = name.split(".") if "." in name else (module, name)
            sources = [path.read_text() for path in (ROOT / "kernels").rglob(f"{module}.py")]
            assert sources and (kernel == "*" or any(f"def {kernel}(" in source for source in sources)), name
            found += 1
    assert found > 15


def test_commands_are_those_of_the_page():
    """docs/commands.md lists each command of the program, in the groups of `warpsim --help`."""
    text = (ROOT / "docs" / "commands.md").read_text()
    for group, commands in GROUPS.items():
        section = text.split(f"\n## {group}\n")[1].split("\n## ")[0]
        assert set(re.findall(r"^\$ warpsim (\w+)", section, flags=re.M)) == set(commands), group


@pytest.mark.parametrize("command", ["run", "info"])
def test_help_names_the_formats_that_load_accepts(command, capsys):
    """--help lists every suffix that `ws.load` takes."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert re.findall(r"\.[a-z]+\b", text.split("MJCF (")[1].split(" file")[0]) == list(SUFFIXES)


def test_versions_agree():
    """The version of the package, of its metadata, of README, of CITATION.cff and of the changelog, the last two with one date."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == ws.__version__
    assert f"Version {version} is early" in (ROOT / "README.md").read_text()
    sections = re.findall(r"^## (\S+)(?: — (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    (of_version, date), *before = [*reversed(sections[: [name for name, _ in sections].index(version) + 1])]
    assert of_version == version and before in ([], [("Unreleased", "")])
    cited = re.findall(r"^(?:version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    assert cited == [version, date]


def test_quickstart_names_what_the_gallery_makes():
    """The scenes that `examples/gallery.py` runs are those that the quickstart names, and hills is one that can be asked for."""
    source = (ROOT / "examples" / "gallery.py").read_text()
    default = re.findall(r'"(\w+)"', source.split("or (")[1].split(")")[0])
    page = (ROOT / "docs" / "quickstart.md").read_text().split("`python -m examples.gallery`")[1][:300]
    named = page.split(" of a ")[1].split(", `python")[0]
    assert re.sub(r"\b(a|and)\b", " ", named).replace(",", " ").split() == default
    assert set(default) | {"hills"} == set(SCENES) and "`python -m examples.gallery hills`" in page


def test_reference_has_every_public_name():
    """Each name of `warpsim.__all__` and `warpsim.envs.__all__` stands on a page of docs/api, flags with their values."""
    text = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    there = set(re.findall(r"^\.\. (?:auto|py:)\w+:: warpsim\.([\w.]+)", text, flags=re.M))
    assert set(ws.__all__) <= there, set(ws.__all__) - there
    flags = dict(re.findall(r"py:data:: warpsim\.(\w+)\n   :value: (\d+)", text))
    assert flags and all(getattr(ws, name) == int(value) for name, value in flags.items())


def test_every_page_is_in_the_sites_navigation():
    """docs/index.md, or a page that it lists, has every page of docs in a table of contents."""
    listed = set()
    for path in (ROOT / "docs").rglob("*.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", path.read_text(), flags=re.S):
            for line in re.sub(r"^:.*$", "", tree, flags=re.M).split("\n"):
                name = (re.search(r"<(.*)>", line) or [None, line.strip()])[1]
                listed.add((ROOT / name[1:] if name.startswith("/") else path.parent / name).with_suffix(".md"))
    assert {path for path in (ROOT / "docs").rglob("*.md")} - listed == {ROOT / "docs" / "index.md"}


SHAPE = """<mujoco><asset><mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/>
<hfield name="h" nrow="3" ncol="3" size="1 1 .1 .1" elevation="0 0 0 0 1 0 0 0 0"/></asset>
<worldbody><geom type="{floor}" {of_floor}/><body pos="0 0 .3"><freejoint/><geom {shape}/></body></worldbody></mujoco>"""
WORDS = {
    "planes": 'size=".1"',
    "spheres": 'size=".1"',
    "capsules": 'type="capsule" size=".1 .1"',
    "boxes": 'type="box" size=".1 .1 .1"',
    "cylinders": 'type="cylinder" size=".1 .1"',
    "ellipsoids": 'type="ellipsoid" size=".1 .1 .2"',
    "height fields": 'size=".1"',
    "meshes": 'type="mesh" mesh="m"',
    "signed distance fields": 'type="sdf" mesh="m"',
}


def shapes_in_the_docs() -> dict[str, str]:
    """Status by shape, as docs/mjcf.md has it."""
    found = {}
    for words, status in re.findall(r"^\| ([^|]+) \| (\w+) \|", (ROOT / "docs" / "mjcf.md").read_text(), flags=re.M):
        found |= {word: status for word in words.split(", ") if word in WORDS}
    return found


def test_shapes_of_mjcf_are_what_the_docs_say(device):
    """Each shape of the table in docs/mjcf.md loads with the status it has there, and touches in a Simulator."""
    documented = shapes_in_the_docs()
    assert documented.keys() == WORDS.keys()
    for word, shape in WORDS.items():
        field = word == "height fields"
        floor = (
            {"floor": "hfield", "of_floor": 'hfield="h"'} if field else {"floor": "plane", "of_floor": 'size="1 1 1"'}
        )
        model = ws.load(mujoco.MjModel.from_xml_string(SHAPE.format(shape=shape, **floor)))
        kind = word[:-2] if word in ("boxes", "meshes") else word[:-1]
        line = next(line for line in model.report if line.feature == f"{kind} geoms")
        assert line.status == documented[word], (line, documented[word])
        sim = ws.Simulator(model, device=device)
        assert sim.rollout(sim.state(), steps=200).diagnostics["contacts"].numpy()[-1, 0] > 0, word
