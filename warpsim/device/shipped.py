# SPDX-License-Identifier: Apache-2.0
"""Kernels that were compiled when the package was built, loaded in place of compiling.

The machine code of one Warp module for the CPU is an *object*. A wheel for Linux on x86-64 has the objects of all
modules in `warpsim/objects/KEY`, where KEY names Warp's version, the operating system, the architecture and LLVM's
target. `python -m warpsim.tools.kernel_objects` makes that folder; its `index.json` has, per Warp module, the hash that
Warp gives the module and SHA-256 of the two files that Warp loads.

An object is loaded if Warp would compile the same: Warp, target and the module's whole hash are equal, which includes
sources, constants, options and `wp.config`. Otherwise Warp compiles the module, and one line says why. Without a folder
of objects, as in a clone, nothing is said.
"""

import functools
import hashlib
import json
import logging
import pathlib
import threading

import warp as wp

from warpsim.kernels import cpu_target

FOLDER = pathlib.Path(__file__).parents[1] / "objects"
INDEX = "index.json"
PREFIX = "warpsim."
_lock = threading.Lock()
_said = False


def lend_object(module: wp.Module) -> None:
    """Let a Warp module of this package load its object, whoever loads it: a launch, a tape or `wp.force_load`."""
    warps = getattr(module, "load", None)
    known = hasattr(module, "execs") and hasattr(module, "get_module_hash")  # internals of Warp
    if not known or hasattr(warps, "lends") or not module.name.startswith(PREFIX):
        return

    @functools.wraps(warps)
    def load(device, block_dim=None, *others, **named):
        # Warp calls this at every launch; a module that is loaded and has changed since is compiled. Its own method is
        # looked up here, since tests/selection.py replaces it for a while.
        usual = functools.partial(type(module).load, module)
        if others or named or (None, block_dim) in module.execs or not wp.get_device(device).is_cpu:
            return usual(device, block_dim, *others, **named)
        return _load_object(module, usual, device, block_dim) or usual(device, block_dim)

    load.lends = True
    module.load = load


def files_of(folder: pathlib.Path, name: str) -> tuple[pathlib.Path, pathlib.Path]:
    """Object and metadata of the Warp module of this name in a folder."""
    return folder / f"{name.removeprefix(PREFIX)}.o", folder / f"{name.removeprefix(PREFIX)}.meta"


def digest(path: pathlib.Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def target_key() -> str | None:
    """The name of the target that this process compiles for; None if it has no objects at all."""
    key = getattr(wp, "get_cpu_kernel_cache_key", None)
    if key is None or not cpu_target.AHEAD:
        return None
    try:
        return key(cpu_compiler_flags=cpu_target.FLAGS)
    except RuntimeError:  # Warp has no compiler for the CPU
        return None


def _load_object(module: wp.Module, load, device, block: int | None):
    """The loaded object of a module, or None if there is none for it."""
    listed = _index(FOLDER)
    if not listed:
        return None
    if module.name not in listed:
        return _say(f"it has none for {module.name}")
    expected, *sums = listed[module.name]
    if expected != module.get_module_hash(block).hex():
        return _say(f"{module.name} or an option of `wp.config` is not that of the wheel")
    paths = files_of(FOLDER / target_key(), module.name)
    for path, value in zip(paths, sums, strict=True):
        try:
            found = digest(path)
        except OSError as error:
            return _say(f"{path.name}: {error.strerror or error}; install the wheel again")
        if found != value:
            return _say(f"{path} is damaged; install the wheel again")
    try:
        return load(device, block, binary_path=paths[0], meta_path=paths[1])
    except Exception as error:  # of Warp or LLVM, which have no type of their own for it
        return _say(f"Warp {wp.__version__} does not load {paths[0].name}: {error}")


@functools.cache
def _index(folder: pathlib.Path) -> dict[str, list[str]]:
    """Hash of the module, SHA-256 of object and metadata by module name; empty if there are no objects for this target.

    Says why it is empty unless the folder is missing.
    """
    if not folder.is_dir():
        return {}
    if cpu_target.MISSING:
        return _say(f"they need x86-64-v3, this CPU has no {', '.join(cpu_target.MISSING)}") or {}
    path = folder / (key := target_key() or "none") / INDEX
    try:
        if not path.parent.is_dir():
            has = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
            here = f"Warp {wp.__version__} without that target" if key == "none" else key
            return _say(f"they are for {has}, this is {here}") or {}
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = {name: [str(x) for x in row] for name, row in found.items() if len(row) == 3}
        if not rows or len(rows) < len(found):
            raise ValueError("not a hash and two sums for each module")
        return rows
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        return _say(f"{path} is damaged ({error}); install the wheel again") or {}


def _say(why: str) -> None:
    """Say once per process why kernels of the wheel are not used."""
    global _said
    with _lock:
        before, _said = _said, True
    if not before:
        logging.getLogger("warpsim").warning(
            "warpsim compiles kernels here, which takes a while: not all compiled kernels of the wheel can be used: %s",
            why,
        )
