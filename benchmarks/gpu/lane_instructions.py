# SPDX-License-Identifier: Apache-2.0
"""Instructions of PTX in which lanes of a warp take part together: shuffles, votes, reductions, barriers.

Each has `members`, which lanes wait for each other, and `build`, the protocol of `arithmetic.build`.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.gpu.arithmetic import ALU
from benchmarks.gpu.memory import LANES
from benchmarks.gpu.ptx import TYPES, Instruction

SHUFFLE = 24  # cycles
WORD, TRUTH = TYPES["u32"], TYPES["pred"]
REDUCE = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class Together(NamedTuple):
    """How an instruction of several lanes is run."""

    members: object
    build: object


def bits_of(word: int) -> np.ndarray:
    """The lanes that a mask of 32 bits names."""
    return (word >> np.arange(LANES) & 1).astype(bool)


def word_of(lanes: np.ndarray) -> int:
    """The mask of 32 bits that names these lanes."""
    return int(np.sum(lanes.astype(np.uint64) << np.arange(LANES, dtype=np.uint64)))


def _groups(i: Instruction, m):
    """A function that gives the lanes that the last operand of active ones names, in groups, each of which names itself. Raises `ValueError` where they
    name different lanes, or not themselves."""
    words, mask = m.read(i.operands[-1], WORD), m.mask

    def groups() -> list[np.ndarray]:
        named = {int(x): bits_of(int(x)) for x in np.unique(words[mask])}
        if any((mask & ((words == word) != group)).any() for word, group in named.items()):
            raise ValueError(f"{i.text}: lanes {np.flatnonzero(mask).tolist()} name {[hex(x) for x in named]}")
        return list(named.values())

    return groups


def _named(i: Instruction, m):
    """The lanes that the last operand names."""
    groups = _groups(i, m)
    return lambda: np.any(groups(), axis=0)


def _all(i: Instruction, m):
    """bar.sync: all threads of the block; bar.warp.sync: those that it names. Other warps of a block, which keep pace and no more
    (`kernels/linalg/lanes.py`), are not run and not waited for."""
    if "warp" in i.opcode:
        return _named(i, m)
    everyone = np.ones(LANES, bool)
    return lambda: everyone


def _barrier(i: Instruction, m):
    """What lanes wrote before is there for all that follows."""
    return lambda: m.memory.order.barrier(m.mask), 0, 1


def _shuffle(i: Instruction, m):
    """shfl.sync: the value of another lane; a lane outside the segment or the mask leaves the own value, or an unknown one."""
    mode, mask = next(x for x in i.opcode if x in ("idx", "up", "down", "bfly")), m.mask
    first, _, second = i.operands[0].partition("|")
    a, b, c = (m.read(x, WORD) for x in i.operands[1:4])
    out = m.written(first, WORD)
    valid = m.written(second, TRUTH) if second else None
    lane = np.arange(LANES)

    def run() -> None:
        distance, ends = b.astype(int) & 31, c.astype(int)
        clamp, segment = ends & 31, ends >> 8 & 31
        low = lane & segment
        high = low | clamp & ~segment
        source = {
            "up": lane - distance,
            "down": lane + distance,
            "bfly": lane ^ distance,
            "idx": low | distance & ~segment,
        }[mode]
        # For "up" the clamp is the lowest lane of the segment, for the others the highest.
        inside = source >= high if mode == "up" else source <= high
        source = np.where(inside, source, lane)
        if (asleep := mask & ~mask[source]).any():
            raise ValueError(f"{i.text}: lanes {np.flatnonzero(asleep).tolist()} read lanes that take no part")
        np.copyto(out, a[source], where=mask)
        if valid is not None:
            np.copyto(valid, inside, where=mask)

    return run, SHUFFLE, 2


def _vote(i: Instruction, m):
    """vote.sync: ballot, any, all and uni of a predicate."""
    mask, mode = m.mask, next(x for x in i.opcode if x in ("ballot", "any", "all", "uni"))
    word = i.operands[1]
    p = m.read(word.removeprefix("!"), TRUTH)
    out = m.written(i.operands[0], WORD if mode == "ballot" else TRUTH)
    groups = _groups(i, m)

    def run() -> None:
        truth = p ^ word.startswith("!")
        for group in groups():
            asked = group & mask
            some, every = bool(truth[asked].any()), bool(truth[asked].all())
            value = {"ballot": word_of(truth & asked), "any": some, "all": every, "uni": every or not some}[mode]
            np.copyto(out, out.dtype.type(value), where=asked)

    return run, ALU, 1


def _reduce(i: Instruction, m):
    """redux.sync of integers."""
    dtype, mask = i.dtypes[-1], m.mask
    f = REDUCE[next(x for x in i.opcode if x in REDUCE)]
    a, out = m.read(i.operands[1], dtype), m.written(i.operands[0], dtype)
    groups = _groups(i, m)

    def run() -> None:
        found = [(group & mask, f.reduce(a[group & mask], dtype=dtype)) for group in groups()]
        for asked, value in found:
            np.copyto(out, value, where=asked)

    return run, SHUFFLE, 2


def _match(i: Instruction, m):
    """match.any.sync: the lanes with the same value."""
    if "any" not in i.opcode:
        raise NotImplementedError(i.text)
    mask, a, out = m.mask, m.read(i.operands[1], i.dtypes[-1]), m.written(i.operands[0], WORD)
    words = m.read(i.operands[-1], WORD)

    def run() -> None:
        same = [word_of(mask & (words == group) & (a == x)) for x, group in zip(a, words, strict=True)]
        np.copyto(out, np.array(same, WORD), where=mask)

    return run, SHUFFLE, 2


def _active(i: Instruction, m):
    """activemask: the lanes that run this now."""
    mask, out = m.mask, m.written(i.operands[0], WORD)
    return lambda: np.copyto(out, WORD.type(word_of(mask)), where=mask), ALU, 1


TOGETHER = {
    "shfl": Together(_named, _shuffle),
    "vote": Together(_named, _vote),
    "redux": Together(_named, _reduce),
    "match": Together(_named, _match),
    "bar": Together(_all, _barrier),
    "barrier": Together(_all, _barrier),
    "activemask": Together(lambda i, m: None, _active),
}
