# SPDX-License-Identifier: Apache-2.0
"""The house in figures: how much code there is, and what in it is too long, too wide, or there twice.

    python -m benchmarks.house [ROOT]

ROOT is a checkout (default: this one); its folders warpsim/, kernels/ and papers/ are read, links are not followed. Code lines are
lines with code: no blank lines, comments and docstrings. A function's lines are those from its `def` to its end, with its
docstring, without the functions inside it (a factory of kernels is no long function).
"""

import argparse
import ast
import collections
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
    return lines - docstring_lines(ast.parse(source))


def functions(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Every function, with its lines less those of the functions inside it."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION):
            inner = (f for f in ast.walk(node) if isinstance(f, FUNCTION) and f is not node)
            inside = {line for f in inner for line in range(first_line(f), f.end_lineno + 1)}
            yield node, node.end_lineno - node.lineno + 1 - len(inside)


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


def type_tests(tree: ast.AST) -> Iterator[int]:
    """Lines with isinstance(…) on one of `TYPES`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            asked = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
            if asked & TYPES:
                yield node.lineno


def survey(root: pathlib.Path) -> dict[str, str]:
    """The figures, as text by what they are."""
    figures: dict[str, str] = {}
    longest, modules, kernels = [], [], []
    names, tests = collections.defaultdict(list), collections.Counter()
    factories = total = device_functions = 0
    for folder in FOLDERS:
        files, code, lines = python_files(root / folder), 0, 0
        for path in files:
            source, where = path.read_text(), str(path.relative_to(root))
            tree, here = ast.parse(source), len(source.splitlines())
            code, lines = code + len(code_lines(source)), lines + here
            modules.append(Place(here, where))
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
    figures["longest function"] = "; ".join(map(str, sorted(longest, reverse=True)[:3]))
    figures["longest module"] = "; ".join(map(str, sorted(modules, reverse=True)[:3]))
    figures["most arguments of a kernel"] = "; ".join(map(str, sorted(kernels, reverse=True)[:3]))
    twice = {name: places for name, places in names.items() if len(places) > 1}
    figures["file names that occur more than once"] = f"{len(twice)} ({', '.join(sorted(twice)) or 'none'})"
    places = [f"{where} {count}" for where, count in tests.most_common() if count]
    figures["lines with isinstance on a solver or integrator"] = f"{tests.total()} ({', '.join(places) or 'none'})"
    return figures


def main(argv=None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    for what, figure in survey(parser.parse_args(argv).root).items():
        print(f"{what}: {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
