# SPDX-License-Identifier: Apache-2.0
"""The house in figures: how much code there is, and what in it is too long, too wide, or there twice.

    python -m benchmarks.house [ROOT]

ROOT is a checkout (default: this one); its folders warpsim/, kernels/ and papers/ are read, links are not followed.
Code lines are lines with code: no blank lines, comments and docstrings. The length of a function counts the lines from
its `def` to its end without its docstring and without the functions inside it (a factory of kernels is no long
function). The length of a module counts all its lines without docstrings. So docstrings in NumPy's style, which list
every parameter, make nothing too long. Limits: `MOST_LINES` of a function, `MOST_MODULE_LINES` of a module.

A circle is the files of warpsim/ and kernels/ that reach each other by imports. Every import statement that runs
counts, absolute or relative, at the top of a file or in a function. Statements under TYPE_CHECKING never run; circles
with them are counted apart. Not counted: modules that are imported by a string (`importlib`), and `__init__` files that
an import passes on its way to a module.
"""

import argparse
import ast
import collections
import functools
import io
import pathlib
import sys
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

FOLDERS = ("warpsim", "kernels", "papers")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# Types that a step should not have to tell apart: options of solvers and integrators, and their workspaces.
TYPES = {"SAP", "Compliant", "LCP", "NoContact", "SAPSolver", "CompliantContact", "LCPContact", "WideSAP"}
TYPES |= {
    "ContactModel",
    "ContactSolver",
    "Integrator",
    "SymplecticEuler",
    "ExplicitEuler",
    "ImplicitEuler",
    "Midpoint",
    "ThetaScheme",
    "Variational",
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
ENGINE = ("warpsim", "kernels")
MOST_LINES = 80  # of a function, without its docstring
MOST_MODULE_LINES = 700  # of a module, without docstrings
MOST_ARGUMENTS = 12  # of a kernel; what travels together is a struct


class Place(NamedTuple):
    """A number with the name of what has it."""

    number: int
    name: str

    def __str__(self) -> str:
        return f"{self.number} ({self.name})"


def python_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The Python files below a folder, sorted; what a link leads to is not below it."""
    found = sorted(folder.rglob("*.py"))
    return [path for path in found if path.resolve().is_relative_to(folder.resolve()) and not path.is_symlink()]


@functools.cache
def tree_of(source: str) -> ast.Module:
    """The syntax tree of a text, which is parsed once."""
    return ast.parse(source)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) and ast.get_docstring(node, clean=False) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(tree_of(source))


def functions(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Every function, with its lines without docstrings and without those of the functions inside it."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION):
            inner = (f for f in ast.walk(node) if isinstance(f, FUNCTION) and f is not node)
            inside = {line for f in inner for line in range(first_line(f), f.end_lineno + 1)}
            yield node, node.end_lineno - node.lineno + 1 - len(inside | docstring_lines(node))


def first_line(function) -> int:
    """Line of a function's first decorator, or of its `def`."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def decorators(function) -> set[str]:
    """Last names of a function's decorators: "kernel" of `@wp.kernel(...)`."""
    names = set()
    for node in function.decorator_list:
        node = node.func if isinstance(node, ast.Call) else node
        names.add(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", ""))
    return names


def arguments(function) -> int:
    """How many arguments a function takes."""
    return len(function.args.posonlyargs) + len(function.args.args) + len(function.args.kwonlyargs)


def wide_kernels(root: pathlib.Path) -> list[Place]:
    """The kernels that take more than `MOST_ARGUMENTS`."""
    found = []
    for path in python_files(root / "kernels"):
        for function, _ in functions(tree_of(path.read_text())):
            count = arguments(function)
            if "kernel" in decorators(function) and count > MOST_ARGUMENTS:
                found.append(Place(count, f"{path.relative_to(root)}:{function.lineno} {function.name}"))
    return found


def long_functions(root: pathlib.Path) -> list[Place]:
    """The functions of warpsim/ and kernels/ of more than `MOST_LINES` lines."""
    found = []
    for path in modules(root).values():
        for function, length in functions(tree_of(path.read_text())):
            if length > MOST_LINES:
                found.append(Place(length, f"{path.relative_to(root)}:{function.lineno} {function.name}"))
    return found


def module_lines(source: str) -> int:
    """How many lines a module has, without docstrings."""
    return len(source.splitlines()) - len(docstring_lines(tree_of(source)))


def long_modules(root: pathlib.Path) -> list[Place]:
    """The modules of warpsim/ and kernels/ of more than `MOST_MODULE_LINES` lines."""
    found = [Place(module_lines(path.read_text()), str(path.relative_to(root))) for path in modules(root).values()]
    return [place for place in found if place.number > MOST_MODULE_LINES]


def type_tests(tree: ast.AST) -> Iterator[int]:
    """Lines with isinstance(…) on one of `TYPES`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            asked = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
            if asked & TYPES:
                yield node.lineno


def modules(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """Every file of warpsim/ and kernels/ by its dotted name; kernels/ is `warpsim.kernels`."""
    found = {}
    for top in ENGINE:
        for path in python_files(root / top):
            parts = path.relative_to(root).with_suffix("").parts
            parts = ("warpsim", *parts) if top == "kernels" else parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class Import(NamedTuple):
    """A module that a file imports: at its `top`, in a `function`, or for `typing` alone."""

    target: str
    where: str


def imports(name: str, known: dict[str, pathlib.Path]) -> list[Import]:
    """The modules of `known` that one of them imports."""
    package = name.split(".") if known[name].name == "__init__.py" else name.split(".")[:-1]
    found, pending = [], [(tree_of(known[name].read_text()), "top")]
    while pending:
        node, where = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += [(child, "typing") for child in node.body] + [(child, where) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            found += [Import(alias.name, where) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            inner = (f"{base}.{alias.name}" for alias in node.names)
            found += [Import(module if module in known else base, where) for module in inner]
        where = "function" if isinstance(node, FUNCTION) and where == "top" else where
        pending += [(child, where) for child in ast.iter_child_nodes(node)]
    return [entry for entry in found if entry.target in known and entry.target != name]


def import_graph(known: dict[str, pathlib.Path]) -> dict[str, list[Import]]:
    """What each module imports."""
    return {name: imports(name, known) for name in known}


def reached(edges: dict[str, set[str]], name: str) -> set[str]:
    """What can be reached from a name, without the name itself unless a circle leads back to it."""
    found, pending = set(), [name]
    while pending:
        new = edges[pending.pop()] - found
        found |= new
        pending += new
    return found


def circles(graph: dict[str, list[Import]], where=("top", "function")) -> list[list[str]]:
    """The sets of more than one file that reach each other by imports of these kinds, the largest first."""
    edges = {name: {target for target, kind in found if kind in where} for name, found in graph.items()}
    reach = {name: reached(edges, name) for name in edges}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in edges if name in reach[name]}
    return sorted(map(sorted, found), key=len, reverse=True)


def circle_figures(root: pathlib.Path) -> dict[str, str]:
    """Circles of imports, as text by what they are."""
    graph = import_graph(modules(root))
    every, typed = circles(graph), circles(graph, ("top", "function", "typing"))
    large = [" ".join(circle) for circle in every if len(circle) > 2]
    return {
        "import circles of more than two files": f"{len(large)} ({'; '.join(large) or 'none'})",
        "import circles of two": f"{len(every) - len(large)} ({'; '.join(' '.join(c) for c in every if len(c) == 2)})",
        "import circles with TYPE_CHECKING, by files": ", ".join(str(len(circle)) for circle in typed) or "none",
    }


def survey(root: pathlib.Path) -> dict[str, str]:
    """The figures, as text by what they are."""
    figures: dict[str, str] = {}
    longest, lengths, kernels = [], [], []
    names, tests = collections.defaultdict(list), collections.Counter()
    factories = total = device_functions = 0
    for folder in FOLDERS:
        files, code, lines = python_files(root / folder), 0, 0
        for path in files:
            source, where = path.read_text(), str(path.relative_to(root))
            tree, here = tree_of(source), len(source.splitlines())
            code, lines = code + len(code_lines(source)), lines + here
            lengths.append(Place(module_lines(source), where))
            if path.stem != "__init__":
                names[path.name].append(where)
            for function, length in functions(tree):
                longest.append(Place(length, f"{where}:{function.lineno} {function.name}"))
                marks = decorators(function)
                device_functions += "func" in marks
                if "kernel" in marks:
                    kernels.append(Place(arguments(function), f"{where}:{function.lineno} {function.name}"))
                inner = (f for f in ast.walk(function) if isinstance(f, FUNCTION) and f is not function)
                factories += any(decorators(f) & {"kernel", "func"} for f in inner)
            tests.update({where: len(set(type_tests(tree)))})
        figures[f"{folder}/: files, lines, code lines"] = f"{len(files)}, {lines}, {code}"
        total += code
    figures["code lines"] = str(total)
    figures["kernels, device functions, factories"] = f"{len(kernels)}, {device_functions}, {factories}"
    figures["longest function, without docstring"] = "; ".join(map(str, sorted(longest, reverse=True)[:3]))
    figures["longest module, without docstrings"] = "; ".join(map(str, sorted(lengths, reverse=True)[:3]))
    figures[f"functions of more than {MOST_LINES} lines"] = "; ".join(map(str, long_functions(root))) or "none"
    figures[f"modules of more than {MOST_MODULE_LINES} lines"] = "; ".join(map(str, long_modules(root))) or "none"
    figures["most arguments of a kernel"] = "; ".join(map(str, sorted(kernels, reverse=True)[:3]))
    figures[f"kernels of more than {MOST_ARGUMENTS} arguments"] = "; ".join(map(str, wide_kernels(root))) or "none"
    twice = {name: places for name, places in names.items() if len(places) > 1}
    figures["file names that occur more than once"] = f"{len(twice)} ({', '.join(sorted(twice)) or 'none'})"
    places = [f"{where} {count}" for where, count in tests.most_common() if count]
    figures["lines with isinstance on a solver or integrator"] = f"{tests.total()} ({', '.join(places) or 'none'})"
    return figures | circle_figures(root)


def main(argv=None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    for what, figure in survey(parser.parse_args(argv).root).items():
        print(f"{what}: {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
