# SPDX-License-Identifier: Apache-2.0
"""Instructions of PTX that move data: mov, cvta, loads, stores, atomics. Same protocol as `arithmetic.build`.

Those of memory return (latency, lines of 128 bytes) when they run.
"""

import re

import numpy as np

from benchmarks.gpu.arithmetic import ALU
from benchmarks.gpu.memory import LANES, LOCAL_WINDOW, SHARED_WINDOW
from benchmarks.gpu.ptx import TYPES, Instruction

SPACES = ("global", "shared", "local", "const", "param")
WINDOWS = {"local": LOCAL_WINDOW, "shared": SHARED_WINDOW}
ATOMIC = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
}


def _move(i: Instruction, m):
    """mov, also of vectors: the parts of a register, the lowest first."""
    dtype, mask, (target, source) = i.dtypes[-1], m.mask, i.operands
    if isinstance(target, tuple):
        part = np.dtype(f"u{dtype.itemsize // len(target)}")
        parts = m.read(source, dtype).view(part).reshape(LANES, -1)
        pairs = [(m.written(x, part), parts[:, k]) for k, x in enumerate(target) if x != "_"]
        return lambda: [np.copyto(out, x, where=mask) for out, x in pairs] and None, 0, 0
    if isinstance(source, tuple):
        part = np.dtype(f"u{dtype.itemsize // len(source)}")
        parts = m.written(target, dtype).view(part).reshape(LANES, -1)
        pairs = [(parts[:, k], m.read(x, part)) for k, x in enumerate(source)]

        def pack() -> None:
            for out, x in [(out, x.copy()) for out, x in pairs]:
                np.copyto(out, x, where=mask)

        return pack, 0, 0
    if source in m.entry.parameters and m.scope is m.entry:
        offset = np.uint64(m.entry.parameters[source][0])
        out = m.written(target, dtype)
        return lambda: np.copyto(out, offset, where=mask), 0, 0
    a, out = m.read(source, dtype), m.written(target, dtype)
    return lambda: np.copyto(out, a, where=mask), 0, 0


def _address(i: Instruction, m):
    """cvta: between generic addresses and those of a space, which differ in the window."""
    dtype, mask = TYPES["u64"], m.mask
    a, out = m.read(i.operands[1], dtype), m.written(i.operands[0], dtype)
    window = np.uint64(next((WINDOWS[x] for x in i.opcode if x in WINDOWS), 0))
    if "to" in i.opcode:
        return lambda: np.copyto(out, a & ~window, where=mask), 0, 0
    return lambda: np.copyto(out, a | window, where=mask), 0, 0


def _place(operand: str, m):
    """Base and offset of `[base+offset]`: the base as 32 lanes, or the name of a parameter."""
    found = re.fullmatch(r"\[([%\w$]+)(?:\+?(-?\w+))?\]", operand)
    base, offset = found[1], int(found[2] or "0", 0)
    if base.startswith("%") or re.match(r"\d", base):
        return m.read(base, TYPES["s64"]), offset
    return base, offset


def _memory(i: Instruction, m):
    """ld and st, of vectors too."""
    store, dtype = i.opcode[0] == "st", i.dtypes[-1]
    space = next((x for x in i.opcode if x in SPACES), None)
    target, place = (i.operands[1], i.operands[0]) if store else (i.operands[0], i.operands[1])
    words = target if isinstance(target, tuple) else (target,)
    base, offset = _place(place, m)
    if isinstance(base, str) and space in ("param", None):
        return _parameter(words, base, offset, dtype, store, m)
    if isinstance(base, str):
        base = m.read(base, TYPES["s64"])
    if space == "param":
        return _indexed_parameter(words, base, offset, dtype, m)
    registers = [None if x == "_" else m.read(x, dtype) if store else m.written(x, dtype) for x in words]
    mask, size = m.mask, dtype.itemsize

    def run() -> tuple[int, int]:
        lanes = np.flatnonzero(mask)
        addresses = base[lanes].astype(np.int64) + offset
        kind = m.memory.space_of(addresses) if space is None else "global" if space == "const" else space
        if kind == "global" or space is not None:
            addresses = addresses & (LOCAL_WINDOW - 1)
        asked = m.memory.access(kind, addresses, lanes, size * len(words), store)
        for k, register in enumerate(registers):
            if store:
                m.memory.store(kind, addresses + k * size, lanes, register[lanes].astype(dtype, copy=False))
            elif register is not None:
                register[lanes] = m.memory.load(kind, addresses + k * size, lanes, dtype)
        return asked

    return run, 0, 1


def _parameter(words, base: str, offset: int, dtype: np.dtype, store: bool, m):
    """Parameters of the kernel, the same in all lanes, and arguments and results of calls."""
    mask, size = m.mask, dtype.itemsize
    if base in m.entry.parameters and m.scope is m.entry:
        place = m.entry.parameters[base][0] + offset
        pairs = [
            (m.written(x, dtype), m.parameters[place + k * size :][:size].view(dtype)) for k, x in enumerate(words)
        ]
        return lambda: [np.copyto(out, x, where=mask) for out, x in pairs] and None, 0, 0
    scope = m.scope.name

    def column(k: int) -> np.ndarray:
        return m.slot(scope, base)[:, offset + k * size :][:, :size].view(dtype)[:, 0]

    registers = [m.read(x, dtype) if store else m.written(x, dtype) for x in words]

    def run() -> None:
        for k, register in enumerate(registers):
            np.copyto(*((column(k), register) if store else (register, column(k))), where=mask, casting="unsafe")

    return run, 0, 0


def _indexed_parameter(words, base, offset: int, dtype: np.dtype, m):
    """A parameter of the kernel at an address that differs between lanes."""
    mask, size = m.mask, dtype.itemsize
    registers = [m.written(x, dtype) for x in words]

    def run() -> None:
        for k, register in enumerate(registers):
            for lane in np.flatnonzero(mask):
                at = int(base[lane]) + offset + k * size
                register[lane] = m.parameters[at : at + size].view(dtype)[0]

    return run, ALU, 1


def _atomic(i: Instruction, m):
    """atom and red: one lane after the other, the lowest first."""
    dtype, mask, returns = i.dtypes[-1], m.mask, i.opcode[0] == "atom"
    space = next((x for x in i.opcode if x in SPACES), None)
    name = next(x for x in i.opcode[1:] if x in ATOMIC or x == "cas")
    first, *rest = i.operands[1:] if returns else i.operands
    base, offset = _place(first, m)
    values = [m.read(x, dtype) for x in rest]
    out = m.written(i.operands[0], dtype) if returns and i.operands[0] != "_" else None

    def run() -> tuple[int, int]:
        lanes = np.flatnonzero(mask)
        addresses = base[lanes].astype(np.int64) + offset
        kind = m.memory.space_of(addresses) if space is None else space
        asked = m.memory.access(kind, addresses, lanes, dtype.itemsize, True, atomic=True)
        m.memory.counts["atomics"] += 1
        given = [x.copy() for x in values]
        for k, lane in enumerate(lanes):
            one, at = addresses[k : k + 1], lanes[k : k + 1]
            old = m.memory.load(kind, one, at, dtype).copy()
            if name == "cas":
                new = np.where(old == given[0][lane], given[1][lane], old)
            else:
                new = ATOMIC[name](old, given[0][lane])
            m.memory.store(kind, one, at, np.asarray(new, dtype))
            if out is not None:
                out[lane] = old[0]
        return asked

    return run, 0, 1


DATA = {"mov": _move, "cvta": _address, "ld": _memory, "ldu": _memory, "st": _memory, "atom": _atomic, "red": _atomic}
