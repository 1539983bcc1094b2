# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of PTX on 32 lanes at once: for each instruction a function of no arguments that writes its destination, and its cost.

Rounding is IEEE's to nearest, sin, cos, exp2 and log2 are NumPy's; what CUDA approximates by `.approx` in float32 is made wrong by a unit in the last
place, square roots towards 0 and reciprocals away from it, so that what needs them exact does not pass, and 0 below the smallest normal number under
`.ftz`. Latencies [cycles] and issue slots are those of an H200 as docs/gpu_checks.md assumes them.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.gpu.ptx import TYPES, Instruction

ALU, SPECIAL, CONVERT64, PREDICATE = 4.5, 23, 20, 6  # latencies
# Latency and issue slots of what is a sequence of instructions on the machine.
DIVIDE, SQUARE_ROOT, RECIPROCAL = (70, 10), (60, 9), (55, 8)
APPROXIMATE = {"div": (SPECIAL + ALU, 3), "sqrt": (SPECIAL, 2), "rcp": (SPECIAL, 2)}  # one instruction, and a product
DIVIDE_INTEGER = {4: (90, 25), 8: (140, 60)}

PLAIN = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "neg": np.negative,
    "abs": np.absolute,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "sqrt": np.sqrt,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
OPPOSITE = {"ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}  # true where the opposite is not, NaN included
JOIN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
BITS = {
    "popc": lambda x, width: x.bit_count(),
    "clz": lambda x, width: width - x.bit_length(),
    "brev": lambda x, width: int(f"{x:0{width}b}"[::-1], 2),
}
Run = Callable[[], None]


def build(instruction: Instruction, machine) -> tuple[Run, float, int] | None:
    """What runs an instruction on the registers of `machine`, its latency and its issue slots; None if it is no arithmetic.

    `machine` gives arrays of 32 lanes, `read(operand, dtype)` and `written(operand, dtype)`, and the `mask` of active lanes.
    Raises `NotImplementedError` for a form of an instruction that is not known.
    """
    name = instruction.opcode[0]
    if name in APPROXIMATE and "approx" in instruction.opcode:
        return _approximate(instruction, machine)
    for names, builder in BUILDERS.items():
        if name in names:
            return builder(instruction, machine)
    return None


def _plain(i: Instruction, m) -> tuple[Run, float, int]:
    """A NumPy function of the operands, all of one type."""
    name, dtype = i.opcode[0], i.dtypes[-1]
    if name == "mul" and i.opcode[1] in ("wide", "hi"):
        return _wide(i, m)
    f = PLAIN[name]
    if dtype.kind == "b":
        f = {
            np.bitwise_and: np.logical_and,
            np.bitwise_or: np.logical_or,
            np.bitwise_xor: np.logical_xor,
            np.invert: np.logical_not,
        }[f]
    types = [dtype, TYPES["u32"]] if name in ("shl", "shr") else [dtype] * 2
    operands = [m.read(x, t) for x, t in zip(i.operands[1:], types, strict=False)]
    out, mask, real = m.written(i.operands[0], dtype), m.mask, dtype.kind == "f"
    latency, slots = (2 * ALU, 2) if dtype.itemsize == 8 else (ALU, 1)
    if name == "mul" and dtype.itemsize == 8 and not real:
        latency, slots = 3 * ALU, 3
    if name == "sqrt":
        latency, slots = SQUARE_ROOT
    elif real and name in ("ex2", "lg2", "sin", "cos", "tanh"):
        latency, slots = SPECIAL, 2
    if "sat" in i.opcode:
        return lambda: np.copyto(out, np.clip(f(*operands), 0, 1), where=mask), latency, slots
    return lambda: f(*operands, out=out, where=mask, casting="unsafe"), latency, slots


def _wide(i: Instruction, m) -> tuple[Run, float, int]:
    """mul.wide, mul.hi, mad.wide, mad.hi: by way of the type of twice the size."""
    dtype, mask = i.dtypes[-1], m.mask
    a, b = (m.read(x, dtype) for x in i.operands[1:3])
    added = len(i.operands) > 3
    if dtype.itemsize == 8:
        if i.opcode[1] == "wide":
            raise NotImplementedError(i.text)
        out, shift = m.written(i.operands[0], dtype), 64
        c = m.read(i.operands[3], dtype) if added else np.zeros(len(mask), dtype)
        exact = lambda: [int(x) * int(y) >> shift for x, y in zip(a, b, strict=True)]  # noqa: E731
        return lambda: np.copyto(out, np.array(exact(), dtype) + c, where=mask), 6 * ALU, 6
    double = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
    if i.opcode[1] == "wide":
        out, c = m.written(i.operands[0], double), m.read(i.operands[3], double) if added else double.type(0)
        return lambda: np.copyto(out, np.multiply(a, b, dtype=double) + c, where=mask), ALU, 1
    bits, out = 8 * dtype.itemsize, m.written(i.operands[0], dtype)
    c = m.read(i.operands[3], dtype) if added else dtype.type(0)
    return lambda: np.copyto(out, (np.multiply(a, b, dtype=double) >> bits).astype(dtype) + c, where=mask), 2 * ALU, 2


def _multiply_add(i: Instruction, m) -> tuple[Run, float, int]:
    """fma in one rounding (float64 by way of long double, off by 2^-11 of a rounding at most), and mad of integers."""
    if i.opcode[0] == "mad" and i.opcode[1] in ("wide", "hi"):
        return _wide(i, m)
    dtype, mask = i.dtypes[-1], m.mask
    a, b, c = (m.read(x, dtype) for x in i.operands[1:4])
    out = m.written(i.operands[0], dtype)
    latency, slots = (2 * ALU, 2) if dtype.itemsize == 8 else (ALU, 1)
    if dtype.kind != "f":
        return lambda: np.copyto(out, a * b + c, where=mask), latency, slots
    wide = np.dtype("f8") if dtype.itemsize == 4 else np.dtype(np.longdouble)
    if dtype.itemsize == 4 and "rm" in i.opcode:  # towards −∞, which ranges of sin and exp are reduced by
        return lambda: np.copyto(out, _floor32(np.multiply(a, b, dtype=wide) + c), where=mask), latency, slots
    return lambda: np.copyto(out, np.multiply(a, b, dtype=wide) + c, where=mask, casting="same_kind"), latency, slots


def _floor32(x: np.ndarray) -> np.ndarray:
    """float64 rounded to float32 towards −∞."""
    y = x.astype(np.float32)
    return np.where(y > x, np.nextafter(y, np.float32(-np.inf)), y)


def _divide(i: Instruction, m) -> tuple[Run, float, int]:
    """div and rem, of integers towards zero; a division by zero gives all ones."""
    dtype, mask = i.dtypes[-1], m.mask
    a, b = (m.read(x, dtype) for x in i.operands[1:3])
    out = m.written(i.operands[0], dtype)
    if dtype.kind == "f":
        return lambda: np.divide(a, b, out=out, where=mask), *DIVIDE

    def quotient() -> np.ndarray:
        divisor = np.where(b == 0, dtype.type(1), b)
        q = a // divisor
        return q + ((q < 0) & (q * divisor != a)) if dtype.kind == "i" else q

    def run() -> None:
        q = quotient()
        np.copyto(out, a - q * b if i.opcode[0] == "rem" else np.where(b == 0, ~np.zeros_like(b), q), where=mask)

    return run, *DIVIDE_INTEGER[max(dtype.itemsize, 4)]


def _reciprocal(i: Instruction, m) -> tuple[Run, float, int]:
    """rcp and rsqrt."""
    dtype, mask = i.dtypes[-1], m.mask
    a, out, one = m.read(i.operands[1], dtype), m.written(i.operands[0], dtype), dtype.type(1)
    if i.opcode[0] == "rcp":
        return lambda: np.divide(one, a, out=out, where=mask), *RECIPROCAL
    return lambda: np.divide(one, np.sqrt(a), out=out, where=mask), SPECIAL, 2


def _approximate(i: Instruction, m) -> tuple[Run, float, int]:
    """div, sqrt and rcp to a unit in the last place: a quotient is a product with a reciprocal."""
    name, dtype, mask = i.opcode[0], i.dtypes[-1], m.mask
    operands, out = [m.read(x, dtype) for x in i.operands[1:]], m.written(i.operands[0], dtype)

    def value() -> np.ndarray:
        if name == "sqrt":
            return flushed(_off_by_a_unit(np.sqrt(operands[0]), 0))
        over = flushed(_off_by_a_unit(1 / operands[-1], np.inf))
        return over if name == "rcp" else flushed(operands[0] * over)

    def flushed(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < np.finfo(dtype).tiny, np.copysign(dtype.type(0), x), x) if "ftz" in i.opcode else x

    return lambda: np.copyto(out, value(), where=mask), *APPROXIMATE[name]


def _off_by_a_unit(x: np.ndarray, towards: float) -> np.ndarray:
    """The next number of float32 towards 0 or infinity; 0 and infinity as they are, and float64."""
    if x.dtype.itemsize != 4:
        return x
    other = np.nextafter(x, np.copysign(x.dtype.type(towards), x))
    return np.where(np.isfinite(x) & (x != 0), other, x)


def _extreme(i: Instruction, m) -> tuple[Run, float, int]:
    """min and max; of real numbers the one that is none loses."""
    dtype, mask = i.dtypes[-1], m.mask
    functions = {"min": (np.minimum, np.fmin), "max": (np.maximum, np.fmax)}[i.opcode[0]]
    f, nan = functions[dtype.kind == "f"], "NaN" in i.opcode
    f = functions[0] if nan else f
    a, b = (m.read(x, dtype) for x in i.operands[1:3])
    out = m.written(i.operands[0], dtype)
    return lambda: f(a, b, out=out, where=mask), *((2 * ALU, 2) if dtype.itemsize == 8 else (ALU, 1))


def _compare(i: Instruction, m) -> tuple[Run, float, int]:
    """setp and set, with NaN; the second destination is the opposite of the first."""
    dtype, mask, relation = i.dtypes[-1], m.mask, i.opcode[1]
    a, b = (m.read(x, dtype) for x in i.operands[1:3])
    first, _, second = i.operands[0].partition("|")
    outs = [(m.written(first, TYPES["pred"]), False)] + ([(m.written(second, TYPES["pred"]), True)] if second else [])
    joined = JOIN.get(i.opcode[2])
    third = m.read(i.operands[3], TYPES["pred"]) if joined else None
    f = _relation(relation, dtype)
    cost = PREDICATE, 2 if dtype.itemsize == 8 else 1
    if joined is None and len(outs) == 1:
        out = outs[0][0]
        if relation in COMPARE and not (relation == "ne" and dtype.kind == "f"):
            return lambda: COMPARE[relation](a, b, out=out, where=mask), *cost
        return lambda: np.copyto(out, f(a, b), where=mask), *cost

    def run() -> None:
        truth = f(a, b)
        for out, opposite in outs:
            value = ~truth if opposite else truth
            np.copyto(out, joined(value, third) if joined else value, where=mask)

    return run, *cost


def _relation(name: str, dtype: np.dtype):
    if name in OPPOSITE:
        return lambda a, b: ~COMPARE[OPPOSITE[name]](a, b)
    if name in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
    if name == "neu":
        return np.not_equal
    if name == "equ":
        return lambda a, b: ~((a < b) | (a > b))
    if name == "ne" and dtype.kind == "f":
        return lambda a, b: (a < b) | (a > b)
    return COMPARE[name]


def _select(i: Instruction, m) -> tuple[Run, float, int]:
    """selp."""
    dtype, mask = i.dtypes[-1], m.mask
    a, b, p = m.read(i.operands[1], dtype), m.read(i.operands[2], dtype), m.read(i.operands[3], TYPES["pred"])
    out = m.written(i.operands[0], dtype)
    return lambda: np.copyto(out, np.where(p, a, b), where=mask), ALU, 2 if dtype.itemsize == 8 else 1


def _copysign(i: Instruction, m) -> tuple[Run, float, int]:
    """copysign: sign of the first, magnitude of the second."""
    dtype, mask = i.dtypes[-1], m.mask
    a, b, out = m.read(i.operands[1], dtype), m.read(i.operands[2], dtype), m.written(i.operands[0], dtype)
    return lambda: np.copysign(b, a, out=out, where=mask), ALU, 1


def _convert(i: Instruction, m) -> tuple[Run, float, int]:
    """cvt; real numbers become integers within their range, NaN 0."""
    to, source = i.dtypes[0], i.dtypes[1]
    a, out, mask = m.read(i.operands[1], source), m.written(i.operands[0], to), m.mask
    rounding = next((f for key, f in ROUNDING.items() if key in i.opcode), None)
    cost = (CONVERT64, 2) if np.dtype("f8") in (to, source) else (ALU, 1)
    if source.kind == "f" and to.kind in "iu":
        info, f = np.iinfo(to), rounding or np.trunc
        return lambda: np.copyto(out, _to_integer(f(a), info, to), where=mask, casting="unsafe"), *cost
    if "sat" in i.opcode and to.kind == "f":
        return lambda: np.copyto(out, np.clip(np.nan_to_num(a), 0, 1), where=mask, casting="unsafe"), *cost
    if rounding is not None:
        return lambda: np.copyto(out, rounding(a), where=mask, casting="unsafe"), *cost
    if {to, source} <= {np.dtype("u8"), np.dtype("u4"), np.dtype("u2")}:
        cost = 0, 0  # another name for the same registers
    return lambda: np.copyto(out, a.astype(to), where=mask, casting="unsafe"), *cost


ROUNDING = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _to_integer(x: np.ndarray, info: np.iinfo, dtype: np.dtype) -> np.ndarray:
    """Whole real numbers as integers, the nearest where they are out of range."""
    inside = (x > float(info.min)) & (x < float(info.max))
    ends = np.where(x >= float(info.max), info.max, np.where(np.isnan(x), 0, info.min)).astype(dtype)
    return np.where(inside, np.where(inside, x, 0).astype(dtype), ends)


def _bit_field(i: Instruction, m) -> tuple[Run, float, int]:
    """bfi inserts, bfe extracts the bits from a position on."""
    dtype, mask, word = i.dtypes[-1], m.mask, TYPES["u32"]
    *sources, position, length = i.operands[1:]
    values = [m.read(x, dtype) for x in sources]
    out, p, n = m.written(i.operands[0], dtype), m.read(position, word), m.read(length, word)
    width = 8 * dtype.itemsize

    def run() -> None:
        result = out.copy()
        for lane in np.flatnonzero(mask):
            at, count = int(p[lane]) & 255, int(n[lane]) & 255
            field = (1 << min(count, width)) - 1
            x = int(values[0][lane]) & (1 << width) - 1
            if i.opcode[0] == "bfi":
                y = int(values[1][lane]) & (1 << width) - 1
                bits = (y & ~(field << at) | (x & field) << at) & (1 << width) - 1
            else:
                bits = x >> at & field
                if dtype.kind == "i" and count and x >> min(at + count - 1, width - 1) & 1:
                    bits |= (1 << width) - 1 & ~field
            result[lane] = np.array(bits, f"u{dtype.itemsize}").view(dtype)
        out[:] = result

    return run, ALU, 1


def _count_bits(i: Instruction, m) -> tuple[Run, float, int]:
    """popc, clz, brev and bfind of each lane."""
    dtype, mask, name = i.dtypes[-1], m.mask, i.opcode[0]
    a, width = m.read(i.operands[1], np.dtype(f"u{dtype.itemsize}")), 8 * dtype.itemsize
    out = m.written(i.operands[0], dtype if name == "brev" else TYPES["u32"])
    f = BITS.get(name, lambda x, width: (x.bit_length() - 1) & 0xFFFFFFFF)  # bfind: the highest bit, or all ones
    if "shiftamt" in i.opcode:  # how far it is from the top, or all ones

        def f(x: int, width: int) -> int:
            return BITS["clz"](x, width) if x else 0xFFFFFFFF

    return lambda: np.copyto(out, np.array([f(int(x), width) for x in a], out.dtype), where=mask), 2 * ALU, 2


def _funnel(i: Instruction, m) -> tuple[Run, float, int]:
    """shf: 32 bits of two words side by side, the second operand the higher one, from a place that the third says."""
    word, mask = TYPES["u32"], m.mask
    a, b, c = (m.read(x, word) for x in i.operands[1:])
    out = m.written(i.operands[0], word)

    def run() -> None:
        n = (c & 31 if "wrap" in i.opcode else np.minimum(c, 32)).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        np.copyto(out, (both << n >> np.uint64(32) if "l" in i.opcode else both >> n).astype(word), where=mask)

    return run, ALU, 1


BUILDERS = {
    tuple(PLAIN): _plain,
    ("fma", "mad"): _multiply_add,
    ("div", "rem"): _divide,
    ("rcp", "rsqrt"): _reciprocal,
    ("min", "max"): _extreme,
    ("setp",): _compare,
    ("selp",): _select,
    ("copysign",): _copysign,
    ("cvt",): _convert,
    ("bfi", "bfe"): _bit_field,
    ("shf",): _funnel,
    ("popc", "clz", "brev", "bfind"): _count_bits,
}
