# SPDX-License-Identifier: Apache-2.0
"""Which of the tests `make test` runs (`pytest --quick`). A plain `pytest` and `make test-all` run all of them.

`--quick` leaves out three kinds of tests:

- tests marked `slow`: long runs, learning, clusters, programs of pages;
- cases that tests/slow.txt lists, because they take more than CASE seconds. Of a function whose cases all do, the
  quickest runs if it takes at most ONLY seconds. A function marked `always` or `both_types` is never listed.
  `pytest --slow tests/slow.txt` on an idle machine with compiled kernels writes the list anew;
- the float32 half of a test function that has parameters of both scalar types: float64 has the sharper tolerances, and
  tests without such parameters run in float32, the default. A function marked `both_types` runs in both: bits,
  certificates, one step and one gradient of every solver and integrator.
"""

import collections
import pathlib

import warp as wp

TYPES = ("float32", "float64")
QUICK = "float64"  # the scalar type that runs in `make test`
LIST = pathlib.Path(__file__).with_name("slow.txt")
CASE, ONLY = 0.4, 2.0  # seconds that a case may take, and the quickest of a function whose cases all take longer


def scalar_type(item) -> str | None:
    """The scalar type among a test's parameters: its name, or Warp's or NumPy's type; None if there is no single one."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (value if isinstance(value, str) else getattr(value, "__name__", None) for value in values)
    found = {name for name in names if name in TYPES}
    return found.pop() if len(found) == 1 else None


def function_of(item) -> str:
    """Node id of a test function, without parameters."""
    return item.nodeid.partition("[")[0]


def slow_cases(seconds: dict[str, float]) -> list[str]:
    """The cases, by node id, that `--quick` leaves out because of the seconds that they take."""
    functions = collections.defaultdict(list)
    for name, taken in seconds.items():
        functions[name.partition("[")[0]].append((taken, name))
    listed = []
    for cases in functions.values():
        quickest, *others = sorted(cases)
        listed += [name for taken, name in others if taken > CASE]
        if quickest[0] > ONLY:
            listed.append(quickest[1])
    return sorted(listed)


def listed_cases() -> set[str]:
    """Node ids in tests/slow.txt."""
    return set(LIST.read_text(encoding="utf-8").splitlines())


def quick(items: list, listed: set[str] = frozenset()) -> tuple[list, list]:
    """The tests that `make test` runs, and those that it leaves to `make test-all`, in their order."""
    types = collections.defaultdict(set)
    for item in items:
        types[function_of(item)].add(scalar_type(item))

    def runs(item) -> bool:
        if item.get_closest_marker("slow"):
            return False
        if item.get_closest_marker("both_types"):
            return True
        if item.nodeid in listed and not item.get_closest_marker("always"):
            return False
        return not types[function_of(item)].issuperset(TYPES) or scalar_type(item) in (QUICK, None)

    chosen = [runs(item) for item in items]
    return (
        [item for item, keep in zip(items, chosen, strict=True) if keep],
        [item for item, keep in zip(items, chosen, strict=True) if not keep],
    )


def loaded_modules() -> list[str]:
    """Names of the Warp modules of the package that this process has loaded for the CPU."""
    modules = wp._src.context.user_modules
    return sorted(name for name, module in modules.items() if name.startswith("warpsim.kernels_") and module.execs)
