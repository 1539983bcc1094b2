# SPDX-License-Identifier: Apache-2.0
"""`real`, the scalar type of a kernel copy, the types that follow from it, and the decorators of kernels.

The files of this folder are written once, with `real` as scalar type. `warpsim.device` loads a copy of them per scalar
type (packages `warpsim.kernels_float32`, `warpsim.kernels_float64`): two scalar types in one Warp module would
recompile each other. Further copies differ in a constant:

- `SPIN` (`…_spin`): the solver with spin rows;
- `BY_CG` (`…_cg`): the solver with conjugate gradients;
- `SHAPED` (`…_shaped`): the solver with friction cones of their own shape;
- `DUAL` (`…_dual`): functions that are differentiated by their forward text, with dual numbers;
- `LANES` (`…_16`): kernels with fewer lanes per world; their structs are those of the full copy.

Imported as `warpsim.kernels` the files are a directory: a kernel or a struct is an `Entry` with its location, and
nothing is parsed or compiled. `warpsim.device.launch(sap.solve, wp.float64, ...)` finds the copy.
"""

import functools
import importlib
import sys

import warp as wp

from . import ranges
from .preamble import warp_module

COPY = getattr(sys.modules[__package__], "REAL", None)  # the scalar type of this copy; None in the directory
# Whether contacts have spin rows in this copy (`laws/spin_cone.py`).
SPIN = getattr(sys.modules[__package__], "SPIN", False)
# Whether friction cones have a shape of their own in this copy (`laws/shaped_cone.py`).
SHAPED = getattr(sys.modules[__package__], "SHAPED", False)
BY_CG = getattr(sys.modules[__package__], "BY_CG", False)  # whether SAP solves by conjugate gradients in this copy
LANES = getattr(sys.modules[__package__], "LANES", 32)  # lanes per world on CUDA of kernels with lanes
NUM = getattr(sys.modules[__package__], "NUM", None)  # dual numbers of this copy (`number/dual.py`), or None
DUAL = NUM is not None  # whether `num` is a dual number in this copy (`number/num.py`)
CALLED = False if DUAL else None  # `func(inline=CALLED)`: in copies with dual numbers compiled once and called
# Of a copy with fewer lanes: the package of the copy with a whole warp.
WHOLE = getattr(sys.modules[__package__], "WHOLE", None)
real = COPY or wp.float32
vec2 = wp.types.vector(2, real)
vec3 = wp.types.vector(3, real)
vec4 = wp.types.vector(4, real)
vec5 = wp.types.vector(5, real)
vec6 = wp.types.vector(6, real)  # spatial vectors: (angular, linear)
vec10 = wp.types.vector(10, real)
mat33 = wp.types.matrix((3, 3), real)
mat66 = wp.types.matrix((6, 6), real)
quat = wp.types.quaternion(real)
transform = wp.types.transformation(real)


class Entry:
    """Location of a kernel or struct: `source` is the function or class as written; the other fields: see `kernel`."""

    def __init__(self, source, taped: bool = False, twin: bool = False, part: str = "", shares: str = ""):
        self.source, self.taped, self.twin, self.part, self.shares = source, taped, twin, part, shares
        functools.update_wrapper(self, source, updated=())

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}>"


def kernel(
    source=None, *, taped: bool = False, twin: bool = False, part: str = "", lanes: bool = False, shares: str = "",
    registers: int = 0, warps: int = 1, fast_math: bool = False,
):  # fmt: skip
    """Decorator of kernels.

    - `taped`: the kernel has an adjoint, for tapes. `twin`: it exists without and with an adjoint. Kernels with
      adjoints are made when the first one of a file is requested (`warpsim.device.by_world`).
    - `part`: name of a separate Warp module within the file, for kernels that few scenes launch.
    - `lanes`: the last index is a lane (`linalg/lanes.py`), which `warpsim.device.launch` adds to the dimensions of a
      launch; the kernel has no adjoint.
    - `shares`: the items of which each lane has one: "dofs", those of a "tree" with its links, or "pairs" of geoms.
      Models with few of them get a copy with fewer lanes (`DeviceModel.code`). The same for all of a Warp module.
    - `registers`: limit per thread on CUDA, so that more warps run on a multiprocessor at once; 0: the compiler's
      choice.
    - `warps`: warps per block on CUDA; the same for all kernels of a Warp module.
    - `fast_math`: float32 divisions and square roots by CUDA's approximations, to two units in the last place, without
      the branches of the exact ones; numbers below 1.2e-38 are 0. Sines, logarithms and powers are approximations too,
      so it is for kernels without angles. It applies to the whole Warp module.
    """
    if source is None:
        given = {"taped": taped, "twin": twin, "part": part, "lanes": lanes, "shares": shares}
        return functools.partial(kernel, **given, registers=registers, warps=warps, fast_math=fast_math)
    if COPY is None or taped:
        return Entry(source, taped, twin, part, shares)
    tree = ranges.parsed(source)
    ranges.shift(tree.body[0])
    function, text = ranges.define(tree, source)
    options = {"enable_backward": False}
    module = warp_module(
        _warp_module(source, part), short=warps > 1, fast_math=fast_math, more=NUM.text if DUAL else ""
    )
    if registers:
        options["cuda_max_registers"] = registers
    made = wp.Kernel(func=function, key=source.__name__, module=module, options=options, source=text)
    made.source, made.taped, made.twin, made.part, made.warps = source, taped, twin, part, warps
    made.lanes, made.shares = LANES if lanes else 0, shares
    return made


def adjoint_module(entry) -> str:
    """Name of the Warp module of a kernel's adjoint. Adjoints are separate: they compile several times as long."""
    return _warp_module(entry.source, entry.part) + "_grad"


def _warp_module(source, part: str) -> str:
    """Name of the Warp module of a kernel."""
    return source.__module__ + (f"_{part}" if part else "")


def func(source=None, **options):
    """Decorator of device functions; `inline=False`: compiled once and called."""
    if source is None:
        return functools.partial(func, **options)
    return source if COPY is None else wp.func(source, **options)


def func_native(snippet: str):
    """Decorator of a device function with the C++ body `snippet`.

    Warp recognizes it by the decorator's text, `@device.func_native(...)`.
    """
    return (lambda source: source) if COPY is None else wp.func_native(snippet)


def struct(source):
    """Decorator of structs of device data."""
    if WHOLE is not None:
        return getattr(importlib.import_module(WHOLE + source.__module__.removeprefix(__package__)), source.__name__)
    return Entry(source) if COPY is None else wp.struct(source)
