# SPDX-License-Identifier: Apache-2.0
"""Which of the tests `make test` runs (`pytest --quick`), and which continuous integration (`pytest --ci`). A plain
`pytest` and `make test-all` run all of them.

Both leave out three kinds of tests:

- tests marked `slow`: long runs, learning, clusters, programs of pages;
- the float32 half of a test function that has parameters of both scalar types: float64 has the sharper tolerances, and
  tests without such parameters run in float32, the default. Of a function marked `both_types` CI runs both halves:
  bits, certificates, one step and one gradient of every solver and integrator;
- cases that tests/slow.txt lists, by the `Limits` of each. Of a function, cases run that together take no more than
  `together`, the quickest first; the quickest alone may take `only`. A function whose share of compiling is more than
  `compiling` is listed whole: the functions that launch a module share its compiling. CI runs what the list marks `ci`,
  and of each file at least the quickest case.

A function marked `always` runs whole in both; one marked `both_types` is never listed.

`pytest --lists`, on an idle machine with compiled kernels, runs what the first two rules leave to CI. It writes
tests/slow.txt, and tests/modules.txt with the Warp modules that the chosen tests launch. In both lists, a line that ends
with `ci` is of CI alone.
"""

import collections
import contextlib
import os
import pathlib
import tempfile
from typing import NamedTuple

import pytest
import warp as wp

TYPES = ("float32", "float64")
QUICK = "float64"  # the scalar type that runs in `make test`
LIST, MODULES = (pathlib.Path(__file__).with_name(f"{name}.txt") for name in ("slow", "modules"))
MARK = " ci"  # ends a line of CI alone
SHARED = "warpsim.kernels_"  # begins the names of Warp modules that are compiled before the tests
RATE = 50e3  # bytes of C++ that a core compiles in a second, about


class Limits(NamedTuple):
    """Seconds that a test function may take."""

    together: float
    only: float
    compiling: float
    files: bool = False  # of each file at least the quickest case runs


TEST, CI = Limits(0.4, 0.8, 1.0), Limits(1.0, 2.0, 3.0, files=True)


def scalar_type(item) -> str | None:
    """The scalar type among a test's parameters: its name, or Warp's or NumPy's type; None if there is no single one."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (value if isinstance(value, str) else getattr(value, "__name__", None) for value in values)
    found = {name for name in names if name in TYPES}
    return found.pop() if len(found) == 1 else None


def function_of(item) -> str:
    """Node id of a test function, without parameters."""
    return item.nodeid.partition("[")[0]


def read_list(path: pathlib.Path) -> dict[str, bool]:
    """The names in a list, and whether their line is marked `ci`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.removesuffix(MARK): line.endswith(MARK) for line in lines}


def listed_cases(ci: bool = False) -> set[str]:
    """Node ids that tests/slow.txt leaves out of `make test`, or of CI."""
    return {name for name, marked in read_list(LIST).items() if not (ci and marked)}


def listed_modules(ci: bool = False) -> list[str]:
    """Modules that the tests of `make test` launch, or those of CI."""
    return [name for name, marked in read_list(MODULES).items() if ci or not marked]


def quick(items: list, listed: set[str] = frozenset(), ci: bool = False) -> tuple[list, list]:
    """The tests that `make test` (or `ci`) runs, and those that it leaves to `make test-all`, in their order."""
    types = collections.defaultdict(set)
    for item in items:
        types[function_of(item)].add(scalar_type(item))

    def runs(item) -> bool:
        if item.get_closest_marker("slow"):
            return False
        if item.get_closest_marker("always"):
            return True
        marked = item.get_closest_marker("both_types")
        if item.nodeid in listed and not marked:
            return False
        whole = (ci and marked) or not types[function_of(item)].issuperset(TYPES)
        return whole or scalar_type(item) in (QUICK, None)

    chosen = [runs(item) for item in items]
    return (
        [item for item, keep in zip(items, chosen, strict=True) if keep],
        [item for item, keep in zip(items, chosen, strict=True) if not keep],
    )


def slow_cases(seconds: dict[str, float], launched=None, compiling=None, limits: Limits = TEST) -> set[str]:
    """The cases, by node id, that are left out because of the seconds that they and their kernels take.

    `seconds`: of the cases that may be left out. `launched`: the modules that each case launches, of all that run.
    `compiling`: the seconds of each module.
    """
    functions = collections.defaultdict(list)
    for name, taken in seconds.items():
        functions[name.partition("[")[0]].append((taken, name))
    left = {function for function, cases in functions.items() if min(cases)[0] > limits.only}
    left |= _costly(launched or {}, compiling or {}, functions.keys(), left, limits.compiling)
    listed = set()
    for function, cases in functions.items():
        spent = 0.0
        for taken, name in sorted(cases):
            if function in left or (spent > 0.0 and spent + taken > limits.together):
                listed.add(name)
            spent += taken
    return listed - (_last_of_files(seconds, listed) if limits.files else set())


def _last_of_files(seconds: dict[str, float], listed: set[str]) -> set[str]:
    """The quickest case of each file of which all cases are listed."""
    files = collections.defaultdict(list)
    for name, taken in seconds.items():
        files[name.partition("::")[0]].append((taken, name))
    return {min(cases)[1] for cases in files.values() if listed.issuperset(name for _, name in cases)}


def _costly(launched: dict, compiling: dict, may_leave, left: set[str], most: float) -> set[str]:
    """Functions whose share of compiling is more than `most`. Each that is left out raises the shares of others."""
    users = collections.defaultdict(set)
    for name, modules in launched.items():
        if (function := name.partition("[")[0]) not in left:
            for module in modules:
                users[module].add(function)
    # What a function that stays launches is compiled anyway.
    users = {module: functions for module, functions in users.items() if functions <= set(may_leave)}
    costly = set()
    while True:
        shares = collections.Counter()
        for module, functions in users.items():
            shares.update(dict.fromkeys(functions, compiling.get(module, 0.0) / max(len(functions), 1)))
        worst = max(shares, key=lambda function: (shares[function], function), default=None)
        if worst is None or shares[worst] <= most:
            return costly
        costly.add(worst)
        for functions in users.values():
            functions.discard(worst)


def compiling_seconds(folder: pathlib.Path) -> dict[str, float]:
    """About how long a core compiles each module in a kernel cache, by the size of its C++."""
    found = {}
    for path in folder.glob("wp_*/*.cpp"):
        name = path.parent.name.removeprefix("wp_").rpartition("_")[0]
        found[name] = max(found.get(name, 0.0), path.stat().st_size / RATE)
    return found


# What a Python that a test starts does at its end: add the modules that it has loaded to a file.
SITE = """
import atexit, os, sys
def tell():
    if "warp" in sys.modules:
        modules = sys.modules["warp"]._src.context.user_modules.values()
        with open(os.environ["WARPSIM_LAUNCHES"], "a") as file:
            file.writelines(f"{module.name}\\n" for module in modules if module.execs)
atexit.register(tell)
"""


@contextlib.contextmanager
def launches():
    """The names of the Warp modules whose kernels are launched meanwhile, a set; of programs that are started, at the end.

    Launches that are repeated (`wp.Launch`) and programs that are killed do not count.
    """
    kind, names = wp._src.context.Module, set()
    load = kind.load

    def named(module, *arguments, **options):
        names.add(module.name)
        return load(module, *arguments, **options)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        told = pathlib.Path(folder, "launches")
        told.touch()
        pathlib.Path(folder, "sitecustomize.py").write_text(SITE)
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        patch.setenv("WARPSIM_LAUNCHES", str(told))
        patch.setattr(kind, "load", named)
        yield names
        names.update(told.read_text().split())


def make_lists(cases: dict[str, tuple[float, list[str]]], fixed: set[str], only_ci: set[str], compiling) -> tuple:
    """The texts of tests/slow.txt and tests/modules.txt.

    `cases`: seconds and launched modules of each that CI may run. `fixed`: those that no list leaves out. `only_ci`:
    those that `make test` leaves out by their type.
    """
    left, modules = {}, {}
    for ci in (False, True):
        runs = {name: found for name, found in cases.items() if ci or name not in only_ci}
        seconds = {name: taken for name, (taken, _) in runs.items() if name not in fixed}
        launched = {name: names for name, (_, names) in runs.items()}
        left[ci] = slow_cases(seconds, launched, compiling, CI if ci else TEST)
        if ci:
            left[ci] &= left[False]  # CI runs all that `make test` runs
        chosen = {module for name, (_, names) in runs.items() if name not in left[ci] for module in names}
        modules[ci] = {name for name in chosen if name.startswith(SHARED)}  # the others a test file declares itself
    slow = [name if name in left[True] else name + MARK for name in sorted(left[False])]
    needed = [name if name in modules[False] else name + MARK for name in sorted(modules[True])]
    return tuple("".join(f"{line}\n" for line in lines) for lines in (slow, needed))
