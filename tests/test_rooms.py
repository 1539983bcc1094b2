# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: a folder is a section of docs/theory.md, of the same name in kernels/ and in warpsim/; imports run one way."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# From the ground up; a file imports from its own floor and from below. Device and host code of a name are one floor.
FLOORS = [
    *("base", "robots", "ranges", "preamble", "real", "number", "flags", "sums", "worlds", "randomness"),
    *("device", "linalg", "model", "laws", "tree", "forces", "contact", "rows", "solve", "sensors", "integrate"),
    *("state", "differentiate", "files", "run", "stepping", "simulator"),
    *("show", "jobs", "cluster", "optimise", "envs", "tools"),
]
# Methods that open a higher floor when they are called: `Model.to_usd`, `Trajectory.save`, a simulator for differences.
DOORS = {
    "warpsim.model.hydroelastic": {"files"},
    "warpsim.differentiate.differences": {"simulator"},
}
# Names that stand in several rooms, with the one idea that they are of.
SHARED_NAMES = {
    "__init__": "what a room is",
    "actuators": "actuators: laws and tables",
    "broadphase": "pairs of geoms that may be near: kernels and host",
    "cone_qp": "cone programs: kernels and host",
    "compliant": "compliant contact: kernels and host",
    "contact_lcp": "contact as an LCP: kernels and host",
    "delassus": "the Delassus matrix: kernels and host",
    "lagged": "the lagged law of contact: kernels and host",
    "lcp": "boxed LCPs: kernels and host",
    "linearize": "Jacobians in closed form: kernels and host",
    "compensation": "gravity compensation: kernels and host",
    "muscle": "muscles: kernels and their constants",
    "problem": "the contact problem: struct and public function",
    "randomness": "random numbers by counting: kernels and host",
    "ranges": "ranges of worlds: kernels and host",
    "sap": "SAP: kernels and host",
    "scratch": "memory for the matrices of a solve: kernels and host",
    "schemes": "the time schemes: kernels and options",
    "variational_adjoint": "the backward pass of the variational step: kernels and host",
    "wide": "deep float32 trees in float64: kernels and host",
}


def modules() -> dict[str, pathlib.Path]:
    """Every file of the two floors by its dotted name."""
    found = {}
    for top in ("warpsim", "kernels"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] == ("warpsim", "kernels"):  # the link
                continue
            parts = ("warpsim", *parts) if top == "kernels" else parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def room(name: str) -> str:
    """The floor of a module; empty for the package itself."""
    parts = [part for part in name.split(".") if part not in ("warpsim", "kernels")]
    return parts[0] if parts else ""


def imports(name: str, path: pathlib.Path) -> list[tuple[str, bool]]:
    """The package's own modules that a file imports when it runs, and whether inside of a function."""
    found = []
    pending = [(ast.parse(path.read_text()), False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += [(child, inside) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            found += [
                (f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base, inside) for alias in node.names
            ]
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]
    return [(target, inside) for target, inside in found if target in MODULES]


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("warpsim", "warpsim.__main__")])
def test_imports_run_one_way(name):
    """No file imports from a higher floor; device code imports no host code."""
    floor = room(name)
    if not floor:
        return
    assert floor in FLOORS, f"{name}: a new room has its place in FLOORS"
    for target, inside in imports(name, MODULES[name]):
        other = room(target)
        if not other:
            continue
        if name.startswith("warpsim.kernels"):
            assert target.startswith("warpsim.kernels"), f"{name}: device code imports {target}"
        if inside and other in DOORS.get(name, ()):
            continue
        assert FLOORS.index(other) <= FLOORS.index(floor), f"{name} imports {target}, which is above it"


def test_no_circles():
    """No chain of imports at the top of files comes back to where it began."""
    edges = {n: {t for t, inside in imports(n, p) if not inside and t != n} for n, p in MODULES.items()}
    state: dict[str, int] = {}

    def visit(name: str, path: tuple) -> None:
        assert state.get(name) != 1, " -> ".join((*path, name))
        if name in state:
            return
        state[name] = 1
        for target in sorted(edges[name]):
            visit(target, (*path, name))
        state[name] = 2

    for name in edges:
        visit(name, ())


def test_a_room_has_one_name():
    """Every folder of kernels/ is one of warpsim/ by the same path, but for what the host has no part of, and says what it is."""
    device_only = {"laws", "forces", "linalg", "number", "contact/narrow", "rows/kinds"}
    for folder in sorted(path for path in (ROOT / "kernels").rglob("*") if path.is_dir() and any(path.glob("*.py"))):
        name = folder.relative_to(ROOT / "kernels").as_posix()
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), f"{folder}: what is this room?"
        assert name in device_only or (ROOT / "warpsim" / name / "__init__.py").is_file(), name


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
    """A folder of tests is a room of either floor, or what it tests beside them; no two files of tests have the same name."""
    for folder in {path.parent.relative_to(ROOT / "tests").as_posix() for path in TESTS} - {"."}:
        homes = [top for top in (ROOT / "warpsim", ROOT / "kernels", ROOT) if (top / folder / "__init__.py").is_file()]
        assert homes and (folder in FLOORS or folder in BESIDE), f"tests/{folder}: which room is this?"
    assert len({path.name for path in TESTS}) == len(TESTS)


def test_the_engine_knows_nothing_of_what_lies_beside_it():
    """No file of the two floors imports scenes, tests, examples, benchmarks or papers."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            targets += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [target for target in targets if target.split(".")[0] in BESIDE], name


def test_nothing_is_put_on_the_path():
    """What lies beside the engine is imported by name from the root of the checkout; no file changes `sys.path`."""
    change = re.compile(r"sys\.path(?:\.(?:insert|append|extend)\(|\[[^\]]*\] *=|\s*\+?=)|syspath_prepend")
    for path in (path for folder in BESIDE for path in (ROOT / folder).rglob("*.py")):
        assert path == pathlib.Path(__file__) or not change.search(path.read_text()), path.relative_to(ROOT)
