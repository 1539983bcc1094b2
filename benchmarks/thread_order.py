# SPDX-License-Identifier: Apache-2.0
"""Do results depend on the order of the threads of a launch? On a GPU there is none: a kernel that does has a race.

    python -m benchmarks.thread_order [--scenes ant gripper …] [--quick]

Every launch of steps and of backward passes, over the grid of `benchmarks.same_bits`, is made three times on the same arrays:
in Warp's order, reversed and permuted. All must leave the same bits in every array that the launch was given. Exit code 1 if one
does not. `--quick`: the ant with the defaults.

Warp runs the threads of a CPU kernel in a loop that it writes into the kernel's C++. Here that loop is another one, which takes
its order from the upper bits of the launch's size; kernels compiled so have a cache of their own.
"""

import argparse
import contextlib
import ctypes
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator

import mujoco
import numpy as np
import warp as wp
from warp._src import codegen, context
from warp._src.types import array_t

import warpsim as ws
from benchmarks.same_bits import REFUSALS, SCENES, Combination, controls, first_line, gradient, grid
from warpsim.device.replay import Replay

ORDERS = {"as written": 0, "reversed": 1, "permuted": 2}
SHIFT = 48  # of the launch's size: an order stands above
BEFORE, CHECKED = 40, 2  # steps
LOOP = "for (size_t task_index = 0; task_index < dim->size; ++task_index)\n    {{"
ORDERED_LOOP = f"""const size_t ordered_count = dim->size & (((size_t)1 << {SHIFT}) - 1);
    size_t ordered_stride = ordered_count / 2 + 1;
    for (size_t a = ordered_stride, b = ordered_count; b != 1 && ordered_count > 1; a = ordered_stride, b = ordered_count)
    {{{{
        while (a) {{{{ const size_t rest = b % a; b = a; a = rest; }}}}
        if (b == 1) break;
        ++ordered_stride;
    }}}}
    for (size_t ordered = 0; ordered < ordered_count; ++ordered)
    {{{{
        size_t task_index = ordered;
        if (dim->size >> {SHIFT} == {ORDERS["reversed"]}) task_index = ordered_count - 1 - ordered;
        if (dim->size >> {SHIFT} == {ORDERS["permuted"]}) task_index = ordered * ordered_stride % ordered_count;"""
QUICK = ("ant", "lagged", "symplectic", "float32")
# Worlds take places in shared memory as they come; where a world's matrices stand changes none of their numbers.
PLACES = ("reserve",)


def prepare() -> None:
    """Have kernels compiled with the other loop, into a cache of their own. Call it before any kernel is loaded."""
    for name in ("cpu_module_template_forward", "cpu_module_template_backward"):
        text = getattr(codegen, name)
        if text.count(LOOP) != 1:
            raise RuntimeError(
                f"Warp {wp.__version__} writes another loop in {name}: benchmarks/thread_order.py has to follow"
            )
        setattr(codegen, name, text.replace(LOOP, ORDERED_LOOP))
    wp.init()
    wp.config.kernel_cache_dir = str(pathlib.Path(wp.config.kernel_cache_dir) / "thread_order")
    pathlib.Path(wp.config.kernel_cache_dir).mkdir(parents=True, exist_ok=True)
    Replay.run = lambda self, key, launch, **options: launch()  # no graph: its launches could not be repeated


class Checker:
    """Repeats launches in every order while it is `active`; `found` has a line for each kernel whose arrays differed."""

    def __init__(self):
        self.active = False
        self.launches = 0
        self.found: dict[str, str] = {}
        self.kernels: set[str] = set()
        self.invoke = context.invoke

    def __call__(self, kernel, hooks, params, adjoint: bool) -> None:
        size = params[0].size
        if not (self.active and size > 1 and kernel.module.name.startswith("warpsim.")) or kernel.key in PLACES:
            self.invoke(kernel, hooks, params, adjoint)
            return
        name = f"{kernel.module.name.removeprefix('warpsim.')}.{kernel.key}{' backward' if adjoint else ''}"
        self.launches += 1
        self.kernels.add(name)
        ranges = memory_of(params[1:])
        before, results = copied(ranges), {}
        for order, number in reversed(ORDERS.items()):  # what stays is what the order as written leaves
            for address, data in zip(ranges, before, strict=True):
                ctypes.memmove(address, data, len(data))
            params[0].size = size | number << SHIFT
            self.invoke(kernel, hooks, params, adjoint)
            results[order] = copied(ranges)
        params[0].size = size
        for order, arrays in results.items():
            differ = [k for k, data in enumerate(arrays) if data != results["as written"][k]]
            if differ:
                sizes = ", ".join(f"{len(arrays[k])} bytes" for k in differ)
                self.found.setdefault(
                    name, f"{size} threads {order} leave other bits in {len(differ)} arrays ({sizes})"
                )


def memory_of(params) -> dict[int, int]:
    """Address → bytes of every array, and of its gradient, among the parameters of a launch and in their structs."""
    found: dict[int, int] = {}

    def add(value) -> None:
        if isinstance(value, array_t):
            shape, strides = value.shape[: value.ndim], value.strides[: value.ndim]
            if value.ndim and all(shape):
                size = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + min(strides)
                for address in (value.data, value.grad):
                    if address:
                        found[address] = max(size, found.get(address, 0))
        elif isinstance(value, ctypes.Structure):
            for name, _ in value._fields_:
                add(getattr(value, name))

    for value in params:
        add(value)
    return found


def copied(ranges: dict[int, int]) -> list[bytes]:
    """What stands in each range."""
    return [ctypes.string_at(address, size) for address, size in ranges.items()]


@contextlib.contextmanager
def checking(checker: Checker) -> Iterator[None]:
    """Within it every launch on the CPU goes through the checker."""
    context.invoke = checker
    try:
        yield
    finally:
        context.invoke = checker.invoke


def run(cell: Combination, model: ws.Model, checker: Checker) -> str:
    """Steps from a random start and a backward pass; what was refused, or "" ."""
    sim = cell.simulator(model)
    v = 0.2 * np.random.default_rng(3).normal(size=(sim.worlds, model.nv))
    state, table = sim.state(v=v), controls(cell.scene, model, BEFORE + CHECKED)
    for k in range(BEFORE + CHECKED):
        checker.active = k >= BEFORE
        sim.step(state, None if table is None else wp.array(table[k], dtype=state.q.dtype, device="cpu"), out=state)
    try:
        gradient(cell, model, state.q.numpy(), state.v.numpy(), 0)
    except REFUSALS as error:
        return f"no gradient: {first_line(error)}"
    finally:
        checker.active = False
    return ""


def check(cells: list[Combination]) -> Checker:
    """Run the cells, a line for each."""
    checker, models = Checker(), {}
    with checking(checker):
        for cell in cells:
            begin, launches = time.process_time(), checker.launches
            model = models.setdefault(cell.scene, None) or SCENES[cell.scene]()
            models[cell.scene] = model
            try:
                note = run(cell, model, checker)
            except REFUSALS as error:
                note = f"refused: {first_line(error)}"
            seconds = time.process_time() - begin
            print(f"{cell}: {checker.launches - launches} launches {note} ({seconds:.1f} s)", flush=True)
    return checker


def main(argv=None) -> int:
    """Command line; 1 if a kernel depends on the order of its threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(SCENES))
    parser.add_argument("--quick", action="store_true", help="the ant with the defaults")
    arguments = parser.parse_args(argv)
    mujoco.set_mju_user_warning(lambda message: None)
    wp.config.log_level = wp.LOG_WARNING
    prepare()
    cells = grid(arguments.scenes, quick=False)
    if arguments.quick:
        cells = [Combination(*QUICK)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of geoms that overlap at the start
        checker = check(cells)
    for name, line in sorted(checker.found.items()):
        print(f"{name}: {line}")
    print(
        f"{checker.launches} launches of {len(checker.kernels)} kernels in {len(ORDERS)} orders, {len(checker.found)} kernels depend on it"
    )
    return int(bool(checker.found))


if __name__ == "__main__":
    sys.exit(main())
