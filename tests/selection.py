# SPDX-License-Identifier: Apache-2.0
"""Which of the tests `make test` runs (`pytest --quick`). A plain `pytest` and `make test-all` run all of them.

`--quick` leaves out two kinds of tests:

- tests marked `slow`: long runs, learning, clusters, programs of pages;
- the float32 half of a test function that has parameters of both scalar types: float64 has the sharper tolerances, and
  tests without such parameters run in float32, the default. A function marked `both_types` runs in both: bits,
  certificates, one step and one gradient of every solver and integrator.
"""

import collections

import warp as wp

TYPES = ("float32", "float64")
QUICK = "float64"  # the scalar type that runs in `make test`


def scalar_type(item) -> str | None:
    """The scalar type among a test's parameters: its name, or Warp's or NumPy's type; None if there is no single one."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (value if isinstance(value, str) else getattr(value, "__name__", None) for value in values)
    found = {name for name in names if name in TYPES}
    return found.pop() if len(found) == 1 else None


def function_of(item) -> str:
    """Node id of a test function, without parameters."""
    return item.nodeid.partition("[")[0]


def quick(items: list) -> tuple[list, list]:
    """The tests that `make test` runs, and those that it leaves to `make test-all`, in their order."""
    types = collections.defaultdict(set)
    for item in items:
        types[function_of(item)].add(scalar_type(item))

    def runs(item) -> bool:
        if item.get_closest_marker("slow"):
            return False
        if item.get_closest_marker("both_types") or not types[function_of(item)].issuperset(TYPES):
            return True
        return scalar_type(item) in (QUICK, None)

    chosen = [runs(item) for item in items]
    return (
        [item for item, keep in zip(items, chosen, strict=True) if keep],
        [item for item, keep in zip(items, chosen, strict=True) if not keep],
    )


def loaded_modules() -> list[str]:
    """Names of the Warp modules of the package that this process has loaded for the CPU."""
    modules = wp._src.context.user_modules
    return sorted(name for name, module in modules.items() if name.startswith("warpsim.kernels_") and module.execs)
