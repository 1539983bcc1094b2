# SPDX-License-Identifier: Apache-2.0
"""Compile check of the device code for CUDA, on machines without a GPU.

    python -m warpsim.tools.kernel_modules [--machine-code all]

The copies of every file of `warpsim.kernels` for both scalar types (`copies.py`), with and without adjoints, register
their Warp modules. Each module is compiled for sm_90, two at a time. The check fails on an error, and on a kernel that
needs more shared memory than a block may have.

A module whose hash passed this check before is not compiled again. `--passed FILE` names the file of these hashes,
which is read and written; the default is beside the kernel cache. Continuous integration reads tests/cuda_passed.json,
so that it compiles what a change touches; `make nightly` compiles all.

Every module is compiled to PTX. Modules of float64, whose registers and structs are larger, are also compiled to
machine code, which takes as long again. `--machine-code all` does so for all modules, `none` for none. `--dtype
float32` compiles the modules of one type, half of all. `--without _8` leaves out copies whose text differs from that of
others only by a constant.

The PTX shows that results have the same bits on every run. Modules with adjoints, of both scalar types, must not
contain atomic instructions on real numbers, whose order changes from run to run. Of the other kernels only those that
add to what one thread alone writes (`OWN_SUMS`) may contain them. `--atomics` prints every such instruction with its
kernel.

The PTX also shows that no module with approximate divisions (`fast_math` of `kernels/real.py`) contains sines or
cosines, which would be approximate too.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import pathlib
import pkgutil
import re
import sys
import tempfile
import time
from typing import NamedTuple

import warp as wp

from warpsim import kernels
from warpsim.base.checks import listed
from warpsim.device.copies import PARTS, SCALARS, WARP, adjoints_of, block_of, copy, declaring, variant
from warpsim.device.start import start_warp
from warpsim.kernels.real import Entry

ARCH = 90  # sm_90: H100, H200
SHARED_MEMORY_LIMIT = 227 * 1024  # bytes a block may use on sm_90
WORKERS = 2  # each holds NVRTC and LLVM, about 1 GB
PREFIX = f"{kernels.__name__}_"
SMALL = tuple(f"_{lanes}" for lanes in PARTS)
# Files whose kernels are launched in each variant. Copies with spin rows or conjugate gradients: the solvers and the
# files that share their modules. Copies with dual numbers: rates. Copies for part of a warp: solvers, and kernels whose
# lanes share data. Copies of one lane: the work of one thread for an island.
VARIANTS = {
    "": ("",),
    "_spin": ("solve.sap.", "solve.lcp.contact_lcp", "solve.delassus"),
    "_cg": ("solve.sap.",),
    "_spin_cg": ("solve.sap.",),
    **dict.fromkeys(
        ("_shaped", "_spin_shaped", "_cg_shaped", "_spin_cg_shaped"),
        ("solve.sap.sap", "solve.sap.islands", "solve.sap.space_convex", "solve.gradient_norm"),
    ),
    "_dual": ("differentiate.pressure_rates", "forces.fluid"),
    "_1": ("solve.cone_qp.island_qp",),
} | dict.fromkeys(SMALL, ("solve.sap.",))
# Files that are not launched in these copies. Copies with spin rows or conjugate gradients: the space of rows. Those
# for part of a warp: `lagged_quick`, launched only without them. The plain copy: rates, and files with a copy of one
# lane.
IDLE = {name: "solve.sap.space" for name in VARIANTS if "_spin" in name or "_cg" in name}
IDLE |= dict.fromkeys(SMALL, "solve.sap.lagged_quick")
IDLE[""] = ("differentiate.pressure_rates", "solve.cone_qp.island_qp")
ADJOINTS = "_grad"  # name ending of modules with adjoints
# Kernels without an adjoint that add to an array by `+=`, and their launch dimensions. Each thread adds only to entries
# of its own world, tree or row.
OWN_SUMS = {
    "actuator_force": "worlds",
    "effective_damping": "worlds",
    "muscle_force": "(worlds, actuators)",
    "wrench_force": "(worlds, trees)",
    "add_force": "(worlds, trees)",
    "least_weight": "(worlds, rows)",
    "body_errors": "(worlds, connects and welds)",
    "motor_forces": "(worlds, degrees of freedom)",
    "apply_pulls": "(worlds, degrees of freedom)",
    "pull_damping": "(worlds, degrees of freedom)",
    "add_tensions": "(worlds, spatial tendons)",
    "measure_subtrees": "(worlds, sensors)",
    "measure_energy": "(worlds, sensors)",
    "measure_sums": "(worlds, sensors)",
    "add_pulls": "(worlds, sensors)",
    "measure_touch": "(worlds, sensors)",
    "measure_net_contact": "(worlds, sensors)",
    "user_wrenches": "(worlds, bodies)",
    "contact_wrenches": "worlds",
    "row_wrenches": "worlds",
    "soft_row_wrenches": "worlds",
    "string_wrenches": "worlds",
    "link_reactions": "(worlds, trees)",
    "smooth_motion": "(worlds, trees, lanes): a lane has a joint and its actuators",
    "smooth_motion_of_large": "(worlds, trees, lanes): a lane has a joint and its actuators",
    "move_again": "(worlds, trees, lanes): a lane has a joint and its actuators",
}
# Atomic instructions on real numbers, and on bits, by which additions can be implemented.
SINE = re.compile(r"^\s*(?:@\S+\s+)?(?:sin|cos)\.approx", re.MULTILINE)
ATOMIC = re.compile(r"^\s*(?:@\S+\s+)?((?:atom|red)(?:\.[\w:]+)*\.(?:f|bf|b)\d+\w*)\b", re.MULTILINE)


class Compiled(NamedTuple):
    """The result of compiling one module; `error` is None on success."""

    name: str
    kernels: int
    form: str  # "ptx" or "cubin"
    seconds: float
    shared_bytes: int
    error: str | None


def build_all(scalars=tuple(SCALARS.values()), *, small: bool = True) -> dict[str, wp.Module]:
    """Copy every file in every variant of these scalar types; returns the registered modules that have kernels.

    Without `small`, variants with fewer lanes per world are left out: they are launched on CUDA alone.
    """
    variants = {suffix: folders for suffix, folders in VARIANTS.items() if small or suffix not in SMALL}
    with declaring():
        _copy_all(scalars, variants)
    modules = wp._src.context.user_modules
    named = {name: module for name, module in sorted(modules.items()) if name.startswith(PREFIX) and module.kernels}
    return {name: module for name, module in named.items() if _is_launched(name, module)}


def _copy_all(scalars, variants: dict[str, tuple[str, ...]]) -> None:
    """Copy every file for each scalar type, and for the variants that launch its kernels."""
    for info in sorted(pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."), key=lambda info: info.name):
        file = importlib.import_module(info.name)
        for real in scalars:
            adjoints_of(copy(file, real))
            for suffix, folders in variants.items():
                shared = suffix in SMALL and has_shares(x for x in vars(file).values() if isinstance(x, Entry))
                if shared or info.name.removeprefix(f"{kernels.__name__}.").startswith(folders):
                    lanes = int(suffix[1:]) if suffix[1:].isdigit() else WARP
                    spin, cg, dual, shaped = (name in suffix for name in ("_spin", "_cg", "_dual", "_shaped"))
                    copy(file, variant(real, spin, cg, lanes, dual, shaped))


def has_shares(found) -> bool:
    """Whether kernels are launched in copies for part of a warp."""
    return any(getattr(kernel, "shares", "") for kernel in found)


def _is_launched(name: str, module: wp.Module) -> bool:
    """Whether a Warp module belongs to a file that its variant uses; other files are only copied along."""
    package, _, file = name.removeprefix(PREFIX).partition(".")
    suffix = package.removeprefix("float32").removeprefix("float64")
    used = file.startswith(VARIANTS[suffix]) or (suffix in SMALL and has_shares(module.kernels.values()))
    return used and not (suffix in IDLE and file.startswith(IDLE[suffix]))


def module_hash(name: str) -> str:
    """The hash of a module for the blocks that its kernels are launched with."""
    module = _modules()[name]
    module.options["block_dim"] = block_of(module.kernels.values())
    return module.hash_module().hex()


def _hash_if_sound(name: str) -> str:
    """The hash, or "" where the module cannot be built: compiling it says why."""
    try:
        return module_hash(name)
    except Exception:
        return ""


def compile_module(name: str, form: str) -> Compiled:
    """Compile one module for sm_90, to "ptx" or "cubin", and check what comes out.

    Modules with adjoints are always compiled to PTX, which is searched for atomic instructions. So are modules with
    approximate divisions, which are searched for sines.
    """
    wp.config.log_level = wp.LOG_WARNING
    start_warp()  # finds the folder of the kernel cache
    module = _modules()[name]
    start = time.perf_counter()
    count, shared, error = len(module.kernels), 0, None
    try:
        module_hash(name)
        inexact = module.options["fast_math"]
        for each in sorted({form, "ptx"} if name.endswith(ADJOINTS) or inexact else {form}):
            with _compiled(module, each) as folder:
                shared = max(shared, _shared_bytes(folder))
                found = _atomics_in(folder)
                has_sines = any(SINE.search(x) for x in _ptx_in(folder))
            if inexact and has_sines:
                error = "a sine or cosine in a module of fast_math is an approximation to 5e-7"
            if refused := refused_atomics(name, found):
                error = f"atomic sums of real numbers, whose order changes from run to run: {listed(refused, 10)}"
        if shared > SHARED_MEMORY_LIMIT:
            error = f"needs {shared} bytes of shared memory, the limit is {SHARED_MEMORY_LIMIT}"
    except Exception as failure:
        error = str(failure).strip() or type(failure).__name__
    return Compiled(name, count, form, time.perf_counter() - start, shared, error)


@contextlib.contextmanager
def _compiled(module: wp.Module, form: str):
    """Folder with a compiled module; PTX that the emulator has kept is reused."""
    kept = kept_ptx(module)
    if form == "ptx" and list(kept.glob("*.ptx")):
        yield kept
        return
    with tempfile.TemporaryDirectory() as directory:
        wp.compile_aot_module(module, arch=ARCH, module_dir=directory, use_ptx=form == "ptx")
        yield pathlib.Path(directory)


def kept_ptx(module: wp.Module) -> pathlib.Path:
    """Where `benchmarks.gpu` keeps a module's PTX for sm_90, the blocks of its options, and Warp's notes.

    It is beside Warp's own cache.
    """
    block = module.options["block_dim"]
    digest = module.get_module_hash(block).hex()[:16]
    return pathlib.Path(wp.config.kernel_cache_dir) / f"ptx_sm{ARCH}" / f"{module.name}_{digest}_{block}"


def atomics(ptx: str) -> dict[str, collections.Counter]:
    """Numbers of atomic instructions on real numbers, and on bits, in a PTX text, by entry or function."""
    found = {}
    heads = list(re.finditer(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", ptx))
    for head, end in zip(heads, [x.start() for x in heads[1:]] + [len(ptx)], strict=True):
        if counts := collections.Counter(ATOMIC.findall(ptx[head.end() : end])):
            found[head.group(1)] = found.get(head.group(1), collections.Counter()) + counts
    return found


def refused_atomics(module: str, found) -> list[str]:
    """The entries and functions among `found` that must not have atomic instructions."""
    kernel = {entry: entry.split("_cuda_kernel_")[0].rpartition("_")[0] for entry in found}
    return [entry for entry in found if module.endswith(ADJOINTS) or kernel[entry] not in OWN_SUMS]


def _ptx_in(directory: pathlib.Path) -> list[str]:
    return [path.read_text(errors="replace") for path in directory.glob("*.ptx")]


def _atomics_in(directory: pathlib.Path) -> dict[str, collections.Counter]:
    found = {}
    for text in _ptx_in(directory):
        found |= atomics(text)
    return found


def print_atomics() -> None:
    """Print every atomic instruction on real numbers in the float32 modules, by entry."""
    total = collections.Counter()
    for name, module in _modules().items():
        if not name.startswith(f"{PREFIX}float32"):
            continue
        with _compiled(module, "ptx") as folder:
            for entry, counts in _atomics_in(folder).items():
                each = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
                print(f"{name.removeprefix(PREFIX):44s} {entry}: {each}", flush=True)
                total["adjoint" if name.endswith(ADJOINTS) else "other"] += counts.total()
    print(f"{total['adjoint']} in modules with adjoints, {total['other']} in others")


def _modules(cache={}) -> dict[str, wp.Module]:  # noqa: B006 (one build per process)
    if not cache:
        cache.update(build_all())
    return cache


def _shared_bytes(directory: pathlib.Path) -> int:
    """The largest shared memory of a kernel: what Warp asks for at launch plus what the code declares."""
    wanted = [0]
    for path in directory.glob("*.meta"):
        wanted += [int(value) for key, value in json.loads(path.read_text()).items() if key.endswith("_smem_bytes")]
    return max(wanted)


def _passed_file() -> pathlib.Path | None:
    root = os.environ.get("WARP_CACHE_PATH")
    return pathlib.Path(root) / "cuda_passed.json" if root else None


def _check() -> dict[str, str | int]:
    """What a module has passed: this file's check of what this version of Warp makes for this target."""
    rules = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:16]
    return {"warp": wp.__version__, "sm": ARCH, "rules": rules}


def _read_passed(path: pathlib.Path | None) -> dict[str, str]:
    """Hashes of the modules that passed this check, by form and name."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
    return kept["passed"] if _check().items() <= kept.items() else {}


def _write_passed(path: pathlib.Path, passed: dict[str, str]) -> None:
    """Write the file of `_read_passed` without modules that failed or are no more."""
    present = {name.removeprefix(PREFIX) for name in _modules()}
    kept = {key: value for key, value in sorted(passed.items()) if value and key.partition(" ")[2] in present}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_check() | {"passed": kept}, indent=0) + "\n", encoding="utf-8")


def _compile_changed(names: list[str], forms: list[str], file: pathlib.Path | None) -> int:
    """Compile and check the modules that the file does not know as passed, and keep it; returns how many fail."""
    passed = _read_passed(file)
    keys = [f"{form} {name.removeprefix(PREFIX)}" for name, form in zip(names, forms, strict=True)]
    hashes = [_hash_if_sound(name) for name in names]
    changed = [i for i, key in enumerate(keys) if passed.get(key) != hashes[i] or not hashes[i]]
    print(f"{len(names) - len(changed)} of {len(names)} modules passed before", flush=True)
    if not changed:
        return 0
    failed = 0
    print(f"{'module':44s} kernels   form  seconds  shared bytes", flush=True)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(WORKERS, len(changed)), mp_context=context) as pool:
        results = pool.map(compile_module, [names[i] for i in changed], [forms[i] for i in changed])
        for i, result in zip(changed, results, strict=True):  # sorted by name, so that two runs can be compared
            line = f"{result.name.removeprefix(PREFIX):44s} {result.kernels:7d} {result.form:>6s} "
            line += f"{result.seconds:8.1f} {result.shared_bytes:13d}"
            print(line + ("  FAILED" if result.error else ""), flush=True)
            if result.error:
                failed += 1
                print(re.sub(r"^", "    ", result.error, flags=re.MULTILINE), flush=True)
            passed |= {keys[i]: "" if result.error else hashes[i]}
            if file:
                _write_passed(file, passed)
    return failed


def main(argv=None) -> int:
    """Compile everything, print a table, and return the number of modules that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--machine-code", choices=("none", "float64", "all"), default="float64", help="modules compiled beyond PTX"
    )
    parser.add_argument("--dtype", choices=("both", *SCALARS), default="both", help="scalar types of the modules")
    parser.add_argument("--without", choices=list(VARIANTS)[1:], help="leave out the copies of this name, such as _8")
    parser.add_argument("--passed", type=pathlib.Path, default=_passed_file(), help="file of hashes that passed")
    parser.add_argument("--atomics", action="store_true", help="list the atomic instructions instead")
    asked = parser.parse_args(argv)
    wanted = {"none": (), "float64": f"{PREFIX}float64", "all": ""}[asked.machine_code]
    wp.config.log_level = wp.LOG_WARNING
    if asked.atomics:
        print_atomics()
        return 0
    start = time.perf_counter()
    names = [name for name in _modules() if asked.dtype == "both" or name.startswith(f"{PREFIX}{asked.dtype}")]
    if asked.without:
        names = [name for name in names if not name.removeprefix(PREFIX).split(".")[0].endswith(asked.without)]
    forms = ["cubin" if name.startswith(wanted) else "ptx" for name in names]
    failed = _compile_changed(names, forms, asked.passed)
    verdict = f"{failed} of {len(names)} modules failed" if failed else f"all {len(names)} modules compile"
    verdict += f", {forms.count('cubin')} of them to machine code,"
    print(f"{verdict} for sm_{ARCH} ({time.perf_counter() - start:.0f} s)")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
