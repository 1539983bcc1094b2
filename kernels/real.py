# SPDX-License-Identifier: Apache-2.0
"""`real`, the scalar type of a copy of the device code, the types that follow from it, and the decorators of kernels.

The files of this folder are written once, against `real`. `warpsim.device` loads a copy of them per scalar type (packages
`warpsim.kernels_float32`, `warpsim.kernels_float64`): two scalar types in one Warp module would recompile each other. Of the solver there are
copies with spin rows besides (`warpsim.kernels_float32_spin`, …), in which branches on `SPIN`, a constant, go the other way, and copies by
conjugate gradients (`…_cg`, `BY_CG`). Functions that are differentiated by their forward text have copies with dual numbers (`…_dual`, `DUAL`).
Of what has lanes there are copies with fewer to a world (`…_16`, `LANES`), whose structs are those of the whole.
Imported as `warpsim.kernels` the files are a directory: a kernel or a struct is an `Entry` that says where it stands,
nothing is parsed or compiled, and `warpsim.device.launch(sap.solve, wp.float64, ...)` finds the copy.
"""

import functools
import importlib
import sys

import warp as wp

from . import ranges
from .preamble import warp_module

COPY = getattr(sys.modules[__package__], "REAL", None)  # the scalar type of this copy; None in the directory
SPIN = getattr(
    sys.modules[__package__], "SPIN", False
)  # whether contacts have spin rows in this copy (`laws/spin_cone.py`)
BY_CG = getattr(sys.modules[__package__], "BY_CG", False)  # whether SAP solves by conjugate gradients in this copy
LANES = getattr(sys.modules[__package__], "LANES", 32)  # threads of a world on CUDA where a kernel has lanes
NUM = getattr(sys.modules[__package__], "NUM", None)  # the dual numbers of this copy (`number/dual.py`), or None
DUAL = NUM is not None  # whether `num` is a dual number in this copy (`number/num.py`)
CALLED = False if DUAL else None  # `func(inline=CALLED)`: compiled once and called in copies with dual numbers
WHOLE = getattr(sys.modules[__package__], "WHOLE", None)  # of a copy with fewer: the package of that with a warp's
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
    """A kernel or a struct by its place: `source` is the function or class as written. For the rest see `kernel`."""

    def __init__(self, source, taped: bool = False, twin: bool = False, part: str = "", shares: str = ""):
        self.source, self.taped, self.twin, self.part, self.shares = source, taped, twin, part, shares
        functools.update_wrapper(self, source, updated=())

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}>"


def kernel(
    source=None, *, taped: bool = False, twin: bool = False, part: str = "", lanes: bool = False, shares: str = "",
    registers: int = 0, warps: int = 1, fast_math: bool = False,
):  # fmt: skip
    """A kernel. One that is `taped` has an adjoint, for tapes; `twin`: there is one without and one with an adjoint.

    Kernels with adjoints are made when the first of a file is asked for (`warpsim.device.by_world`). `part` names a Warp module of
    its own within the file, for kernels that few scenes launch. `lanes`: its last index is a lane (`linalg/lanes.py`), which
    `warpsim.device.launch` adds to what it is launched over; it has no adjoint. `shares`: what its lanes have one each of, "dofs", those of a "tree" with
    its links, or "pairs" of geoms; models of few are given a copy with fewer lanes (`DeviceModel.code`). The same for all of a Warp module. `registers`: as many as its threads may have on CUDA, so that
    more warps are on a multiprocessor at once; 0: the compiler's choice. `warps` of a block there; the same for all kernels of a Warp module. `fast_math`:
    divisions and square roots in float32 by CUDA's approximations, to two units in the last place, without the branches of those that round; numbers below
    1.2e-38 are 0. Sines, logarithms and powers are approximations too, so it is for kernels without angles; one has it for its whole Warp module.
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
    """Name of the Warp module for the adjoint of a kernel. Adjoints are apart: they take several times as long to compile."""
    return _warp_module(entry.source, entry.part) + "_grad"


def _warp_module(source, part: str) -> str:
    """Name of the Warp module of a kernel."""
    return source.__module__ + (f"_{part}" if part else "")


def func(source=None, **options):
    """A device function; `inline=False`: compiled once and called."""
    if source is None:
        return functools.partial(func, **options)
    return source if COPY is None else wp.func(source, **options)


def func_native(snippet: str):
    """A device function whose body is `snippet`, C++. Warp knows it by the decorator's text: `@device.func_native(...)`."""
    return (lambda source: source) if COPY is None else wp.func_native(snippet)


def struct(source):
    """A struct of device data."""
    if WHOLE is not None:
        return getattr(importlib.import_module(WHOLE + source.__module__.removeprefix(__package__)), source.__name__)
    return Entry(source) if COPY is None else wp.struct(source)
