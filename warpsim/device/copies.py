# SPDX-License-Identifier: Apache-2.0
"""Copies of the device code per scalar type (`kernels/real.py`), and launches of their kernels.

Host code imports a file of `warpsim.kernels` like any other module. `launch(sap.solve, real, ...)` launches a kernel
and `copy(sap.Workspace, real)()` makes a struct, where `real` is `wp.float32` or `wp.float64`.
"""

import contextlib
import dataclasses
import gc
import importlib
import math
import sys
import threading
import types

import numpy as np
import warp as wp

import warpsim.kernels
from warpsim.device.by_world import arguments, with_adjoint
from warpsim.device.cores import usable_cores
from warpsim.device.interrupts import load_together
from warpsim.device.ranges import cut, is_listed, present, refuse_whole
from warpsim.device.recording import KnownTape, active_tape
from warpsim.device.shipped import lend_object
from warpsim.device.variant_files import unchanged
from warpsim.kernels import real as real_module
from warpsim.kernels.number.dual import dual_type
from warpsim.kernels.ranges import takes_first_world
from warpsim.kernels.real import Entry, adjoint_module

# Threads per block. One thread or one warp handles a whole tree or world, so small blocks spread a few thousand of them
# over a GPU. `block_of` returns larger blocks where kernels ask for them.
BLOCK = 32
WARP = 32
PARTS = (8, 16)  # lanes per world of small models
SCALARS = {"float32": wp.float32, "float64": wp.float64}
COMPILERS = 4  # threads that compile kernels
MOST_THREADS = 2**32  # a launch has fewer; indices are computed in 32 bits (`kernels/preamble.py`)
SOURCE = warpsim.kernels.__name__
# Warp's own lock around hashing and code generation: no module is hashed while kernels are added to it. One thread at a
# time makes a copy: two sets of kernels with the same names in one Warp module would not match.
_DECLARING = getattr(wp._src.codegen, "_codegen_lock", None) or threading.RLock()
_copies: dict = {}


@contextlib.contextmanager
def declaring():
    """Declare kernels inside: one thread at a time, without garbage collections.

    These would go through all syntax trees made so far, which stay: a fifth of the time.
    """
    with _DECLARING:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


@dataclasses.dataclass(frozen=True)
class Variant:
    """A variant of the device code, used in place of a scalar type.

    A separate copy keeps code that only some models need out of the machine code of all.

    - `spin`: contacts have spin rows (`kernels/laws/spin_cone.py`).
    - `cg`: SAP solves by conjugate gradients.
    - `shaped`: friction cones have a shape of their own (`kernels/laws/shaped_cone.py`).
    - `lanes`: lanes per world on CUDA (`kernels/linalg/lanes.py`).
    - `dual`: `num` is a dual number (`kernels/number/num.py`).
    """

    real: type
    spin: bool = False
    cg: bool = False
    lanes: int = WARP
    dual: bool = False
    shaped: bool = False

    @property
    def __name__(self) -> str:
        parts = {"_spin": self.spin, "_cg": self.cg, f"_{self.lanes}": self.lanes < WARP, "_dual": self.dual}
        parts["_shaped"] = self.shaped
        return self.real.__name__ + "".join(name for name, has in parts.items() if has)

    def simpler(self) -> tuple:
        """The copy that this one takes unchanged files from, and the options in which the two differ."""
        if self.lanes < WARP:
            return variant(self.real, self.spin, self.cg, shaped=self.shaped), frozenset({"lanes"})
        return self.real, frozenset(name for name in ("spin", "cg", "shaped", "dual") if getattr(self, name))


def variant(
    real: type, spin: bool = False, cg: bool = False, lanes: int = WARP, dual: bool = False, shaped: bool = False
):  # fmt: skip
    """A `Variant`, or the scalar type itself if no option differs from the default."""
    plain = not (spin or cg or lanes < WARP or dual or shaped)
    return real if plain else Variant(real, spin, cg, lanes, dual, shaped)


_adjoints: dict[str, dict[str, wp.Kernel]] = {}


def copy(item, real, taped: bool = False):
    """The copy of a file of device code, a kernel or a struct for the scalar type or `Variant` `real`.

    A kernel that has an adjoint only, or both forms with `taped`, is returned with the adjoint. A `wp.Kernel` is its
    own copy.
    """
    key = (item, real, taped)
    if key not in _copies:
        with declaring():
            if key not in _copies:
                _copies[key] = _make(item, real, taped)
    return _copies[key]


def upload(values, kind, device, ndim: int = 1) -> wp.array:
    """Copy host numbers to a device array of `ndim` axes; `kind`: a scalar, vector, matrix or transform type."""
    scalar = getattr(kind, "_wp_scalar_type_", kind)
    values = np.ascontiguousarray(values, dtype=wp.dtype_to_numpy(scalar))
    if not values.size:
        axes = values.shape[:ndim]
        return wp.empty((*axes, *[0] * (ndim - len(axes))), dtype=kind, device=device)
    return wp.array(values, dtype=kind, device=device)


def struct(item, real, device=None, /, **values):
    """Make a struct of the copy for `real`; host numbers become device arrays of the declared types."""
    made = copy(item, real)()
    fill_struct(made, device, values)
    return made


def fill_struct(made, device, values: dict) -> None:
    """Set fields of a struct as `struct` does."""
    for name, value in values.items():
        declared = made._cls.vars[name].type
        if isinstance(declared, wp.array) and not isinstance(value, wp.array):
            value = upload(value, declared.dtype, device, declared.ndim)
        if isinstance(value, wp.array) and not _has_rows(value):
            raise ValueError(f"{name} has strides {value.strides}; a struct takes what `by_rows` returns")
        setattr(made, name, value)


def launch(kernel: Entry | wp.Kernel, real, dim, inputs, *, taped: bool = False, **options) -> None:
    """Launch the copy of a kernel, see `copy`; `options` are those of `wp.launch`.

    Blocks have `block_of` threads, for which `cuda-check` compiles; with another number Warp would compile the module
    again.
    """
    over = (dim,) if isinstance(dim, int) else tuple(dim)
    if 0 in over:
        return  # nothing to launch
    tape, made = active_tape(), copy(kernel, real, taped)
    if is_listed(made):
        return
    options["block_dim"] = block_of([made])
    if getattr(made, "lanes", 0):
        dim = (*over, made.lanes if wp.get_device(options.get("device")).is_cuda else 1)
    dim, inputs, options = arguments(made, dim, inputs, options)
    if math.prod(dim) >= MOST_THREADS:
        raise ValueError(f"{made.key} would be launched over {dim}, which is {MOST_THREADS} threads or more")
    lent: list = []
    inputs = by_rows(inputs, lent)
    if lent and (tape is not None or present() is not None or options.get("adjoint")):
        raise ValueError(f"{made.key} cannot record an array of strides {lent[0][0].strides}; give array.contiguous()")
    if isinstance(tape, KnownTape):
        tape.record_launch(made, dim, 0, inputs, [], options["device"], options["block_dim"])
    elif present() is None or not takes_first_world(made):
        refuse_whole(made)
        wp.launch(made, dim, inputs, **options)
    else:
        with cut():
            wp.launch(made, dim, inputs, **options)
    for array, rows in lent:
        wp.copy(array, rows)


def recorded(kernel: Entry, real, dim, inputs, device) -> wp.Launch:
    """A launch that is not executed, for `relaunch.Relaunch`: over all worlds, without lanes and adjoint."""
    made = copy(kernel, real)
    dim, inputs, options = arguments(made, dim, inputs, {"device": device, "block_dim": block_of([made])})
    return wp.launch(made, dim, inputs, record_cmd=True, **options)


def _has_rows(array: wp.array) -> bool:
    """Whether the last axis of an array is contiguous, as device code needs it (`kernels/preamble.py`)."""
    return array.is_contiguous or array.strides[-1] == wp.types.type_size_in_bytes(array.dtype)


def by_rows(values, lent: list) -> list:
    """Replace each array whose last axis is not contiguous by a contiguous copy.

    Pairs (array, copy) are appended to `lent`. The caller copies back what a kernel has written.
    """
    found = list(values)
    for k, x in enumerate(found):
        if isinstance(x, wp.array) and not _has_rows(x):
            found[k] = x.contiguous()
            lent.append((x, found[k]))
    return found


def block_of(kernels) -> int:
    """Threads per block on CUDA for the kernels of a Warp module."""
    return BLOCK * max((getattr(x, "warps", 1) for x in kernels), default=1)


def modules_of(kernels) -> list[wp.Module]:
    """The Warp modules of kernels, the last first: those of the solver take longest to compile."""
    return list({id(kernel.module): kernel.module for kernel in reversed(kernels)}.values())


def load(kernels, device, workers: int | None = None, done=lambda: None) -> None:
    """Compile and load the Warp modules of kernels by `workers` threads; calls `done()` after each module.

    By default there is a thread for each usable core, up to `COMPILERS`.
    """
    modules = modules_of(kernels)
    workers = workers or wp.config.load_module_max_workers or min(usable_cores(), COMPILERS)
    blocks = [block_of(module.kernels.values()) if device.is_cuda else BLOCK for module in modules]
    for block in sorted(set(blocks), reverse=True):  # the solver's blocks are the larger ones
        chosen = [module for module, its in zip(modules, blocks, strict=True) if its == block]
        load_together(device, chosen, block, workers, done)


def lanes_for(count: int) -> int:
    """Lanes per world on CUDA: the smallest of 8, 16, 32 that is at least `count`; 32 for larger counts."""
    return next((lanes for lanes in PARTS if count <= lanes), WARP)


def twin(array: wp.array) -> wp.array:
    """A second array on the same memory with its own gradient; `array` must live as long."""
    return wp.array(
        ptr=array.ptr, dtype=array.dtype, shape=array.shape, device=array.device, copy=False, requires_grad=True
    )


def scalar_types(real) -> types.ModuleType:
    """`real` and the vector, matrix and transform types that follow from it."""
    return copy(real_module, real)


def adjoints_of(copied: types.ModuleType) -> dict[str, wp.Kernel]:
    """All kernels with an adjoint of a copied file, by name; made at once, since each new one recompiles the others."""
    name = copied.__name__
    with declaring():
        if name not in _adjoints:
            found = [x for x in vars(copied).values() if getattr(x, "taped", False) or getattr(x, "twin", False)]
            _adjoints[name] = {x.source.__name__: with_adjoint(x, adjoint_module(x)) for x in found}
            for made in _adjoints[name].values():
                lend_object(made.module)
    return _adjoints[name]


def _copy_file(file: types.ModuleType, real) -> types.ModuleType:
    package, name = f"{SOURCE}_{real.__name__}", file.__name__.removeprefix(f"{SOURCE}.")
    if package not in sys.modules:
        made = types.ModuleType(package, f"The device code for {real.__name__}, see {__name__}.")
        made.__path__, made.__package__ = list(warpsim.kernels.__path__), package
        chosen = real if isinstance(real, Variant) else Variant(real)
        made.REAL, made.SPIN, made.BY_CG = chosen.real, chosen.spin, chosen.cg
        made.SHAPED = chosen.shaped
        if chosen.dual:
            made.NUM = dual_type(chosen.real)
        if chosen.lanes < WARP:
            made.LANES, made.WHOLE = chosen.lanes, _copy_file(real_module, chosen.simpler()[0]).__package__
        sys.modules[package] = made
    if isinstance(real, Variant) and f"{package}.{name}" not in sys.modules:
        simpler, options = real.simpler()
        for other in unchanged(name, options):
            if f"{package}.{other}" not in sys.modules:
                same = _copy_file(importlib.import_module(f"{SOURCE}.{other}"), simpler)
                sys.modules[f"{package}.{other}"] = same
    return importlib.import_module(f"{package}.{name}")


def _make(item, real, taped: bool):
    if isinstance(item, wp.Kernel):
        return item
    if not isinstance(item, Entry):
        return _copy_file(item, real)
    copied = copy(sys.modules[item.__module__], real)
    if item.taped or (taped and item.twin):
        return adjoints_of(copied)[item.__name__]
    made = getattr(copied, item.__name__)
    if isinstance(made, wp.Kernel):
        lend_object(made.module)
    return made
