# SPDX-License-Identifier: Apache-2.0
"""Launches over a range of worlds: what one thread of several does of a step (device: `kernels/ranges.py`).

Worlds do not depend on each other, so each thread can go through all launches of a step over worlds of its own, without waiting
for the others in between. A launch is recorded once per range, into one graph each (`replay.py`): inside `over(range)`
`launch` takes the worlds of that range only, and so do `assign` and `fill` here in place of `wp.copy` and `zero_`. Anything else
that lands in such a graph would be done by every thread, to all worlds, and is refused: `NotDivisible`.
"""

import contextlib
import dataclasses
import threading

import warp as wp


@dataclasses.dataclass(frozen=True)
class Worlds:
    """The worlds from `first` to before `end`, the `index`-th range of `count` worlds in all."""

    first: int
    end: int
    index: int
    count: int

    def __len__(self) -> int:
        return self.end - self.first


class NotDivisible(RuntimeError):
    """What a graph is captured of is not all over a range of worlds."""


class _Recording(threading.local):
    """Per thread: the range that is recorded, how many operations are cut to it, and the list that `listed` fills."""

    worlds: Worlds | None = None
    known = 0
    nested = False
    kernels: list | None = None


_recording = _Recording()


def split(worlds: int, parts: int) -> list[Worlds]:
    """Ranges of all worlds that differ by one world at most; no more than there are worlds."""
    parts = max(1, min(parts, worlds))
    ends = [worlds * (i + 1) // parts for i in range(parts)]
    return [Worlds(first, end, i, worlds) for i, (first, end) in enumerate(zip([0, *ends], ends, strict=False))]


def present() -> Worlds | None:
    """The range that is being recorded; None: launches are over all worlds."""
    return _recording.worlds


@contextlib.contextmanager
def over(worlds: Worlds):
    """Launches inside, which a graph is captured of, are over these worlds. Raises `NotDivisible` for what is not cut to them."""
    _recording.worlds, _recording.known = worlds, 0
    try:
        yield
        others = operations() - _recording.known
    finally:
        _recording.worlds = None
    if others:
        raise NotDivisible(f"{others} of its {others + _recording.known} operations are over all worlds")


@contextlib.contextmanager
def listed():
    """A list of the kernels that are launched inside. Launches, and `assign`, `fill` and sorts of this file, are not
    executed."""
    _recording.kernels = found = []
    try:
        yield found
    finally:
        _recording.kernels = None


def is_listed(*kernels) -> bool:
    """Whether this thread is inside `listed`, whose list then gains the kernels."""
    if _recording.kernels is None:
        return False
    _recording.kernels += kernels
    return True


@contextlib.contextmanager
def cut():
    """What is recorded inside keeps to the range of worlds."""
    if _recording.worlds is None or _recording.nested:
        yield
        return
    before, _recording.nested = operations(), True
    try:
        yield
    finally:
        _recording.nested = False
        _recording.known += operations() - before


def rows(array: wp.array) -> wp.array:
    """The rows of an array (worlds, …) in the range that is being recorded; all of them where none is."""
    worlds = _recording.worlds
    if worlds is None or not array.size:
        return array
    if array.shape[0] != worlds.count:
        raise NotDivisible(f"an array of shape {array.shape} has no rows of its own for each of {worlds.count} worlds")
    return array[worlds.first : worlds.end]


def assign(target: wp.array, source: wp.array) -> None:
    """target = source, both (worlds, …)."""
    if is_listed():
        return
    with cut():
        wp.copy(rows(target), rows(source))


def fill(target: wp.array, value=0) -> None:
    """Every entry of target (worlds, …) is `value`."""
    if is_listed():
        return
    own = rows(target)
    with cut():
        own.zero_() if value == 0 else own.fill_(value)


def sort_segments(keys: wp.array, values: wp.array, count: int, begin: wp.array, end: wp.array) -> None:
    """`wp.utils.segmented_sort_pairs` of one segment per world, `begin` and `end` (worlds,)."""
    if is_listed():
        return
    with cut():
        wp.utils.segmented_sort_pairs(keys, values, count, rows(begin), rows(end))


def first_and_count(kernel: wp.Kernel, worlds: int) -> tuple[int, int]:
    """First world and number of worlds of a launch over `worlds`, which the kernel takes its range of."""
    own = _recording.worlds
    if own is None:
        return 0, worlds
    if worlds != own.count:
        raise NotDivisible(f"{kernel.key} is launched over {worlds} in a graph over a range of {own.count} worlds")
    return own.first, len(own)


def operations() -> int:
    """Operations that this thread's capture in progress on the CPU holds so far."""
    core = wp._src.context.runtime.core
    return int(core.wp_apic_get_operation_count(core.wp_apic_get_recording_state()))
