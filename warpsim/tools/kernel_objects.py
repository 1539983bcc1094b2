# SPDX-License-Identifier: Apache-2.0
"""Compile all kernels for the CPU, on all cores.

    python -m warpsim.tools.kernel_objects                      # into the kernel cache, where later runs find them
    python -m warpsim.tools.kernel_objects --out build/objects  # and copies of the machine code, for a wheel

Every Warp module that a program can launch on the CPU is compiled once: both scalar types, all variants of
`kernel_modules.VARIANTS` except those for CUDA, with and without adjoints. The largest come first. Modules that the
cache (`WARP_CACHE_PATH`) has are not compiled again. Python declares the kernels once and then forks the processes that
compile, one per core.

`--dtype float32` compiles one scalar type (Compliant and the variational integrator also launch float64 kernels in
float32), `--only solve.sap contact.` the modules whose names contain one of these texts
(`kernels_float32.solve.sap.lagged_grad`). `--workers` sets the number of processes. The exit code is 1 if a
module does not compile.

`--out` writes the folder that `warpsim/device/shipped.py` reads: `FOLDER/KEY` with an object and its metadata per
module, and `index.json`. It replaces `FOLDER/KEY` as a whole, and keeps what `FOLDER` has for other versions of Warp.
Objects are for x86-64-v3 (`kernels/cpu_target.py`), so only Linux on such a CPU can make them. `make wheel` puts the
folder into the wheel.
"""

import argparse
import concurrent.futures
import concurrent.futures.process
import json
import multiprocessing
import pathlib
import shutil
import sys
import tempfile
import time
import zlib
from typing import NamedTuple

import warp as wp

from warpsim.base.checks import listed
from warpsim.device import shipped
from warpsim.device.copies import SCALARS
from warpsim.device.cores import usable_cores
from warpsim.device.start import start_warp
from warpsim.kernels import cpu_target
from warpsim.tools.kernel_modules import ADJOINTS, PREFIX, build_all

ADJOINT_COST = 3  # an adjoint compiles as long as so many plain kernels


class Compiled(NamedTuple):
    """The result for one module; `error` is None on success."""

    name: str
    hash: str
    path: pathlib.Path | None  # of the object; its metadata has the same stem
    seconds: float
    fresh: bool  # compiled now, not found in the cache
    error: str | None


def cpu_modules(dtype: str = "both", only: tuple[str, ...] = ()) -> dict[str, wp.Module]:
    """The Warp modules that are launched on the CPU, by name, the costliest first."""

    def wanted(name: str) -> bool:
        right = dtype == "both" or name.startswith(PREFIX + dtype)  # kernels of one type may bring in some of the other
        return right and (not only or any(text in name for text in only))

    scalars = [scalar for name, scalar in SCALARS.items() if dtype in ("both", name)]
    found = {name: module for name, module in build_all(scalars, small=False).items() if wanted(name)}
    costs = {}  # by file: its copies differ in a constant
    for name, module in found.items():
        if _file_of(name) not in costs:
            costs[_file_of(name)] = _cost(module)
    return dict(sorted(found.items(), key=lambda pair: -costs[_file_of(pair[0])]))


def _file_of(name: str) -> str:
    return name.removeprefix(PREFIX).partition(".")[2]


def _cost(module: wp.Module) -> int:
    """Length of the text that a module is compiled from: its kernels and the functions that they call."""
    todo, texts = [kernel.adj for kernel in module.kernels.values()], {}
    while todo:
        adj = todo.pop()
        if id(adj) not in texts:
            texts[id(adj)] = len(adj.source)
            todo += [function.adj for function in adj.get_references()[2] if getattr(function, "adj", None)]
    return sum(texts.values()) * (ADJOINT_COST if module.name.endswith(ADJOINTS) else 1)


def compile_module(name: str) -> Compiled:
    """Compile one module, which this process has declared, into the kernel cache unless the cache has it."""
    start = time.perf_counter()
    module = wp.get_module(name)
    digest, path, error, fresh, block = "", None, None, False, module.options["block_dim"]
    try:
        start_warp()  # finds the folder of the kernel cache
        module.options["block_dim"] = 1  # that of the CPU
        digest = module.get_module_hash(1).hex()
        folder = pathlib.Path(wp.config.kernel_cache_dir) / module.get_module_identifier(1)
        before = set(folder.glob("*.o"))
        path = pathlib.Path(*wp.compile_aot_module(module, device="cpu"))
        fresh = path not in before
    except Exception as failure:
        error = str(failure).strip() or type(failure).__name__
    finally:
        module.options["block_dim"] = block
    return Compiled(name, digest, path, time.perf_counter() - start, fresh, error)


def loaded_names() -> list[str]:
    """Names of this package's Warp modules that this process has loaded."""
    modules = wp._src.context.user_modules
    return [name for name, module in sorted(modules.items()) if name.startswith(PREFIX) and module.execs]


def compile_all(names, workers: int, done=lambda result: None) -> list[Compiled]:
    """Compile declared modules in so many processes, in order; `done` is called with each result."""
    if "fork" not in multiprocessing.get_all_start_methods():
        results = []
        for name in names:  # no process can take over what this one has declared
            results.append(compile_module(name))
            done(results[-1])
        return results
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        work = [pool.submit(compile_module, name) for name in names]
        try:
            for future in concurrent.futures.as_completed(work):
                done(future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in work]


def write_objects(folder: pathlib.Path, results: list[Compiled]) -> pathlib.Path:
    """Write objects, metadata and index to `folder/KEY`, replacing what is there; returns that folder."""
    target = folder / shipped.target_key()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new") as made:
        index, place = {}, pathlib.Path(made) / "objects"
        place.mkdir()
        for result in sorted(results):
            copies = shipped.files_of(place, result.name)
            meta = result.path.parent / f"{result.path.parent.name}.meta"
            for source, copied in zip((result.path, meta), copies, strict=True):
                shutil.copyfile(source, copied)
            index[result.name] = [result.hash, *map(shipped.digest, copies)]
        (place / shipped.INDEX).write_text(json.dumps(index, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        if target.exists():
            target.rename(pathlib.Path(made) / "before")
        place.rename(target)
    return target


def main(argv=None) -> int:
    """Compile, print what was done, and return 1 if a module failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the objects of a wheel")
    parser.add_argument("--dtype", choices=("both", *SCALARS), default="both", help="scalar types of the modules")
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="modules whose names contain a text")
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes; default: one per core")
    asked = parser.parse_args(argv)
    if asked.workers < 1:
        parser.error(f"--workers is {asked.workers}, it must be at least 1")
    if asked.out and not cpu_target.AHEAD:
        lacks = f", this CPU lacks {', '.join(cpu_target.MISSING)}" if cpu_target.MISSING else ""
        parser.error(f"--out needs Linux on x86-64-v3 (AVX2, FMA){lacks}; leave it out to fill the kernel cache")
    wp.config.log_level = wp.LOG_WARNING
    start = time.perf_counter()
    print("declaring kernels", flush=True)
    names = list(cpu_modules(asked.dtype, tuple(asked.only)))
    if not names:
        parser.error(f"no module matches --only {' '.join(asked.only)}")
    count = 0

    def done(result: Compiled) -> None:
        nonlocal count
        count += 1
        if result.fresh or result.error:
            name = result.name.removeprefix(PREFIX)
            print(f"{count:4d}/{len(names)} {name:52s} {result.seconds:6.1f} s {result.error or ''}", flush=True)

    try:
        results = compile_all(names, asked.workers, done)
    except concurrent.futures.process.BrokenProcessPool:
        print(f"a process that compiled was ended, perhaps for want of memory or disk: each takes up to 1 GB; "
              f"--workers is {asked.workers}. What is compiled stays in the cache.", file=sys.stderr)  # fmt: skip
        return 1
    failed = [result.name for result in results if result.error]
    fresh = sum(result.fresh for result in results)
    print(f"{len(results)} modules, {fresh} compiled, {len(results) - fresh - len(failed)} found in the cache, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    if failed:
        print(f"not compiled: {listed(failed, 10)}")
        return 1
    if asked.out:
        folder = write_objects(asked.out, results)
        texts = [path.read_bytes() for path in folder.iterdir()]
        size, packed = (sum(map(len, found)) / 1e6 for found in (texts, map(zlib.compress, texts)))
        print(f"{folder}: {len(results)} objects, {size:.2f} MB, {packed:.2f} MB in a wheel")
    return 0


if __name__ == "__main__":
    sys.exit(main())
