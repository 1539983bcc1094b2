# SPDX-License-Identifier: Apache-2.0
"""Which files of device code a variant copies: those that read a constant of the variant, and those that import them.

All other files are the same in a variant as in the copy that it differs from, so that copy is used. Declaring device
functions takes most of the time until a simulator starts; a variant of the solver declares a third of its functions.
"""

import functools
import pathlib
import pkgutil
import re
from collections.abc import Iterator

import warpsim.kernels

ROOT = pathlib.Path(warpsim.kernels.__file__).parent
# What reads the constants of `kernels/real.py` that an option of a `Variant` sets.
READS = {
    "spin": r"\bSPIN\b",
    "cg": r"\bBY_CG\b",
    "shaped": r"\bSHAPED\b",
    "dual": r"\b(?:NUM|DUAL|CALLED)\b",
    "lanes": r"\b(?:LANES|WHOLE)\b|\blanes=True|\bshares=",
}
IMPORT = re.compile(r"^from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
CONSTANTS = "real"  # the file with the constants: each copy has its own


@functools.cache
def text_of(file: str) -> str:
    """Text of a file of device code, or of a package's `__init__.py`; "" if there is no such file.

    Names are relative to `warpsim.kernels`, as "solve.sap.lagged".
    """
    place = ROOT.joinpath(*file.split("."))
    found = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    return found.read_text(encoding="utf-8") if found else ""


@functools.cache
def imports_of(file: str) -> frozenset[str]:
    """Files that a file imports at its top; of a package that imports what its folder has (`rows.kinds`), all of it."""
    inside = file.split(".") if is_package(file) else file.split(".")[:-1]
    found = {f"{file}.{x.name}" for x in pkgutil.iter_modules([ROOT.joinpath(*inside)])} if finds(file) else set()
    for dots, below, names in IMPORT.findall(text_of(file)):
        source = [*inside[: len(inside) - len(dots) + 1], *filter(None, below.split("."))]
        for name in filter(None, map(str.strip, re.sub(r"\bas \w+|#.*|[()]", "", names).split(","))):
            whole = ".".join([*source, name])
            found.add(whole if text_of(whole) else ".".join(source))
    return frozenset(found)


def finds(file: str) -> bool:
    """Whether a package imports the files of its folder, whatever they are."""
    return is_package(file) and "iter_modules" in text_of(file)


@functools.cache
def is_package(file: str) -> bool:
    """Whether a name is that of a folder of device code."""
    return (ROOT.joinpath(*file.split(".")) / "__init__.py").is_file()


def needed_by(file: str) -> Iterator[str]:
    """A file and all that it imports, each once."""
    todo, known = [file], {file}
    while todo:
        yield (file := todo.pop())
        new = imports_of(file) - known
        known |= new
        todo += new


@functools.cache
def depends(file: str, options: frozenset[str]) -> bool:
    """Whether a file differs in a variant with these options: it, or a file that it imports, reads their constants."""
    reads = re.compile("|".join(READS[option] for option in sorted(options)))
    return any(reads.search(text_of(found)) for found in needed_by(file) if found != CONSTANTS)


def unchanged(file: str, options: frozenset[str]) -> list[str]:
    """Of a file and all that it imports, those that are the same without these options. Packages are not among them."""
    return [x for x in needed_by(file) if x != CONSTANTS and not is_package(x) and not depends(x, options)]
