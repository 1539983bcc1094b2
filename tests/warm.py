# SPDX-License-Identifier: Apache-2.0
"""Compile the kernels that the tests launch, before pytest starts: each Warp module once, the largest first, all cores.

    python -m tests.warm          # those of `make test`, which tests/modules.txt lists
    python -m tests.warm --ci     # those of continuous integration, which it lists too
    python -m tests.warm --all    # all that can be launched on the CPU: those of `make test-all`
    python -m tests.warm --key    # print the key of the kernel cache, for the cache of a continuous integration

Workers of pytest-xdist know nothing of each other: without this stage two of them compile the same module, and a module
that does not compile fails every test that launches it, minutes each. Here the first failure ends the stage.

`pytest --lists` writes the list anew (tests/selection.py). Modules that it lacks are compiled by the test that launches
them first.
"""

import argparse
import concurrent.futures.process
import hashlib
import os
import pathlib
import shutil
import sys
import time

import warp as wp

from tests.selection import MODULES, listed_modules

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = ("kernels", "warpsim/device", "warpsim/kernels/cpu_target.py", "warpsim/tools/kernel_objects.py")
FREE_GIGABYTES = 2.0  # machine code, sources and what clang keeps meanwhile; the tests' own files


def cache_key() -> str:
    """Text that changes with whatever changes the machine code: Warp, the machine's kind, the device code."""
    digest = hashlib.sha256()
    for place in SOURCES:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    uname = os.uname() if hasattr(os, "uname") else None
    kind = f"{uname.sysname}-{uname.machine}" if uname else sys.platform
    return f"warp-{wp.__version__}-{kind}-{digest.hexdigest()[:16]}"


def check_disk(folder: pathlib.Path, least: float = FREE_GIGABYTES) -> None:
    """End with a message if the disk of the kernel cache is full or the folder cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".written").write_text("")
        (folder / ".written").unlink()
    except OSError as error:
        sys.exit(f"kernels: cannot write to the kernel cache: {error}; set WARP_CACHE_PATH to another folder")
    free = shutil.disk_usage(folder).free / 1e9
    print(f"kernels: {free:.1f} GB free for the kernel cache {folder}", flush=True)
    if free < least:
        sys.exit(f"kernels: the tests need {least:g} GB there; free some, or set WARP_CACHE_PATH to another disk")


def warm(names: list[str] | None) -> int:
    """Compile the modules of these names, or all; how many were compiled. The first that does not compile ends it."""
    from warpsim.device.cores import usable_cores
    from warpsim.tools import kernel_objects

    ordered = list(kernel_objects.cpu_modules())  # the largest first
    if names is not None:
        declared = wp._src.context.user_modules
        wanted = {name for name in names if name in declared}
        ordered = [name for name in ordered if name in wanted] + sorted(wanted.difference(ordered))
        if lost := sorted(set(names) - wanted):
            print(
                f"kernels: {MODULES.name} has {len(lost)} names of no module, such as {lost[0]}: write it anew",
                flush=True,
            )
    count = fresh = 0

    def done(result) -> None:
        nonlocal count, fresh
        count, fresh = count + 1, fresh + result.fresh
        if result.error:
            free = shutil.disk_usage(wp.config.kernel_cache_dir).free / 1e9
            sys.exit(f"kernels: {result.name} does not compile ({free:.1f} GB free): {result.error}")
        if count % 20 == 0:
            print(f"kernels: {count} of {len(ordered)} modules", flush=True)

    try:
        kernel_objects.compile_all(ordered, usable_cores(), done)
    except concurrent.futures.process.BrokenProcessPool:
        free = shutil.disk_usage(wp.config.kernel_cache_dir).free / 1e9
        sys.exit(
            f"kernels: a process that compiles was ended: memory (about 1 GB each) or disk ({free:.1f} GB free) ran out"
        )
    return fresh


def main(argv=None) -> None:
    """Compile unless the cache has a stamp that says that this was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all modules that can be launched on the CPU")
    parser.add_argument("--ci", action="store_true", help="those of continuous integration")
    parser.add_argument("--key", action="store_true", help="print the key of the kernel cache and end")
    asked = parser.parse_args(argv)
    if asked.key:
        print(cache_key())
        return
    from warpsim.device.start import start_warp

    start = time.perf_counter()
    wp.config.log_level = wp.LOG_WARNING
    start_warp()  # finds the folder of the kernel cache
    folder = pathlib.Path(wp.config.kernel_cache_dir)
    names = None if asked.all else listed_modules(asked.ci)
    listed = "all" if names is None else hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    stamp = folder / f"warm_{cache_key()}_{listed}"
    check_disk(folder)
    kept = stamp.read_text(encoding="utf-8").split() if stamp.exists() else []
    if kept and all((folder / name).is_dir() for name in kept):  # the cache may have been cleared since
        print("kernels: compiled before")
        return
    fresh = warm(names)
    stamp.write_text("\n".join(sorted(path.name for path in folder.glob("wp_*"))), encoding="utf-8")
    print(f"kernels: {fresh} modules compiled in {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
