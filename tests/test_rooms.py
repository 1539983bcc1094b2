# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: a folder has the same name in kernels/ and in warpsim/, and imports run one way."""

import ast
import functools
import pathlib
import re

import pytest

from benchmarks.house import (
    circles,
    functions,
    import_graph,
    long_functions,
    long_modules,
    module_lines,
    modules,
    tree_of,
    wide_kernels,
)

ROOT = pathlib.Path(__file__).parent.parent
# From the ground up; a file imports from its own floor and from below. Device and host code of a name are one floor.
FLOORS = [
    *("base", "robots", "ranges", "cpu_target", "preamble", "real", "number", "flags", "sums", "worlds", "randomness"),
    *("device", "linalg", "model", "laws", "tree", "forces", "contact", "rows", "solve", "sensors", "integrate"),
    *("state", "differentiate", "files", "run", "stepping", "simulator"),
    *("show", "jobs", "cluster", "optimise", "envs", "tools"),
]
# Methods that open a higher floor when they are called: `Model.to_usd`, `Trajectory.save`, a simulator for differences.
DOORS = {
    "warpsim.model.hydroelastic": {"files"},
}
# Names that stand in several rooms, with the one idea that they are of.
SHARED_NAMES = {
    "__init__": "what a room is",
    "actuators": "actuators: laws and tables",
    "broadphase": "pairs of geoms that may be near: kernels and host",
    "compliant": "compliant contact: kernels and host",
    "contact_law": "the law of contact: functions and host",
    "contact_lcp": "contact as an LCP: kernels and host",
    "delassus": "the Delassus matrix: kernels and host",
    "from_distance": "derivatives before contact: kernels and host",
    "impacts": "impacts inside a step: kernels and host",
    "lagged": "the solver of Coulomb's law: kernels and host",
    "lcp": "boxed LCPs: kernels and host",
    "pulls": "actuators and tendon springs as explicit forces: kernels and host",
    "linearize": "Jacobians in closed form: kernels and host",
    "compensation": "gravity compensation: kernels and host",
    "muscle": "muscles: kernels and their constants",
    "problem": "the contact problem: struct and public function",
    "randomness": "random numbers by counting: kernels and host",
    "ranges": "ranges of worlds: kernels and host",
    "sap": "SAP: kernels and host",
    "scratch": "memory for the matrices of a solve: kernels and host",
    "schemes": "the time schemes: kernels and options",
    "pressure_rates": "rates of contact between pressure fields: kernels and host",
    "variational_adjoint": "the backward pass of the variational step: kernels and host",
    "wide": "deep float32 trees in float64: kernels and host",
}


MODULES = modules(ROOT)


@functools.cache
def found_imports():
    """What each module imports; computed when a test needs it, not when pytest collects."""
    return import_graph(MODULES)


def room(name: str) -> str:
    """The floor of a module; empty for the package itself."""
    parts = [part for part in name.split(".") if part not in ("warpsim", "kernels")]
    return parts[0] if parts else ""


@pytest.mark.always
@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("warpsim", "warpsim.__main__")])
def test_imports_run_one_way(name):
    """No file imports from a higher floor; device code imports no host code."""
    floor = room(name)
    if not floor:
        return
    assert floor in FLOORS, f"{name}: a new room has its place in FLOORS"
    for target, where in found_imports()[name]:
        other = room(target)
        if not other or where == "typing":
            continue
        if name.startswith("warpsim.kernels"):
            assert target.startswith("warpsim.kernels"), f"{name}: device code imports {target}"
        if where == "function" and other in DOORS.get(name, ()):
            continue
        assert FLOORS.index(other) <= FLOORS.index(floor), f"{name} imports {target}, which is above it"


def test_no_circles():
    """Imports at the top of files close no circle; with those in functions, two files may need each other, not more."""
    assert not circles(found_imports(), ("top",))
    assert not [circle for circle in circles(found_imports()) if len(circle) > 2]


def test_circles_are_found(tmp_path):
    """Relative imports and those in functions close a circle, those for type checkers do not."""
    (tmp_path / "warpsim").mkdir()
    (tmp_path / "kernels").mkdir()
    text = {"a": "from . import b", "b": "def f():\n    from .c import g", "c": "import warpsim.a", "__init__": ""}
    text["d"] = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from warpsim import d2\nelse:\n    import warpsim.a"
    )
    text["d2"] = "from warpsim.d import x"
    for name, source in text.items():
        (tmp_path / "warpsim" / f"{name}.py").write_text(source)
    graph = import_graph(modules(tmp_path))
    assert circles(graph) == [["warpsim.a", "warpsim.b", "warpsim.c"]] and not circles(graph, ("top",))
    assert ["warpsim.d", "warpsim.d2"] in circles(graph, ("top", "typing"))


def test_a_room_has_one_name():
    """Every folder of kernels/ says what it is and is one of warpsim/ too, but for what the host has no part of."""
    device_only = {"laws", "forces", "linalg", "number", "contact/narrow", "rows/kinds"}
    for folder in sorted(path for path in (ROOT / "kernels").rglob("*") if path.is_dir() and any(path.glob("*.py"))):
        name = folder.relative_to(ROOT / "kernels").as_posix()
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), f"{folder}: what is this room?"
        assert name in device_only or (ROOT / "warpsim" / name / "__init__.py").is_file(), name


def test_kernels_take_few_arguments():
    """What travels together is a struct: no kernel takes more than 12 arguments."""
    wide = wide_kernels(ROOT)
    assert not wide, f"{'; '.join(map(str, wide))}: make a struct"


@pytest.mark.always
def test_functions_and_modules_are_short():
    """Without docstrings no function has more than 80 lines, no module more than 700."""
    assert not long_functions(ROOT) and not long_modules(ROOT)


def test_docstrings_do_not_count():
    """The length of a function is without its docstring and the functions inside it; that of a module without any."""
    source = (
        '"""A\nmodule."""\ndef f():\n    """One\n    two."""\n    @g\n    def h():\n        """H."""\n    return h\n'
    )
    assert [(function.name, length) for function, length in functions(ast.parse(source))] == [("f", 2), ("h", 1)]
    assert module_lines(source) == 4


def test_a_file_name_is_of_one_idea():
    """A name occurs once, or is of the list above: the same idea on the device and on the host."""
    names: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        names.setdefault(path.stem, []).append(name)
    twice = {stem: found for stem, found in names.items() if len(found) > 1}
    unknown = {stem: found for stem, found in twice.items() if stem not in SHARED_NAMES}
    assert not unknown, unknown
    assert not SHARED_NAMES.keys() - twice.keys()


BESIDE = ("scenes", "tests", "examples", "benchmarks", "papers")

TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def test_tests_have_the_same_rooms():
    """A folder of tests is a room, or what it tests beside them; no two files of tests have the same name."""
    for folder in {path.parent.relative_to(ROOT / "tests").as_posix() for path in TESTS} - {"."}:
        homes = [top for top in (ROOT / "warpsim", ROOT / "kernels", ROOT) if (top / folder / "__init__.py").is_file()]
        assert homes and (folder in FLOORS or folder in BESIDE), f"tests/{folder}: which room is this?"
    assert len({path.name for path in TESTS}) == len(TESTS)


def test_the_engine_knows_nothing_of_what_lies_beside_it():
    """No file of the two floors imports scenes, tests, examples, benchmarks or papers."""
    for name, path in MODULES.items():
        for node in ast.walk(tree_of(path.read_text())):
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            targets += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [target for target in targets if target.split(".")[0] in BESIDE], name


def test_nothing_is_put_on_the_path():
    """What lies beside the engine is imported by name from the root of the checkout; no file changes `sys.path`."""
    change = re.compile(r"sys\.path(?:\.(?:insert|append|extend)\(|\[[^\]]*\] *=|\s*\+?=)|syspath_prepend")
    for path in (path for folder in BESIDE for path in (ROOT / folder).rglob("*.py")):
        assert path == pathlib.Path(__file__) or not change.search(path.read_text()), path.relative_to(ROOT)
