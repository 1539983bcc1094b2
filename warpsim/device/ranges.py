# SPDX-License-Identifier: Apache-2.0
"""Launches over some of the worlds: over a range of them, the part of a step that one of several threads does, or over
a list of worlds, for which a step repeats a part (device: `kernels/ranges.py`).

Worlds do not depend on each other, so each thread can do all launches of a step for its own worlds without waiting for
the others in between. Launches are recorded once per range, into one graph each (`replay.py`). Inside `over(range)`
`launch` covers the worlds of that range only; so do `assign` and `fill` of `arrays.py`, which replace `wp.copy` and
`zero_`. Every thread would apply any other operation in such a graph to all worlds, so it is refused: `NotDivisible`.
Inside `among(list)` launches cover the worlds that the list has when they run.
"""

import contextlib
import dataclasses
import threading

import warp as wp


@dataclasses.dataclass(frozen=True)
class Worlds:
    """Worlds `first` to `end` − 1, the `index`-th range of `count` worlds in all."""

    first: int
    end: int
    index: int
    count: int

    def __len__(self) -> int:
        return self.end - self.first


class NotDivisible(RuntimeError):
    """Some operations of a captured graph are not restricted to a range of worlds."""


class _Recording(threading.local):
    """Per thread: the range being recorded, the number of operations restricted to it, the list of worlds that launches
    are over, and the list of `listed`."""

    worlds: Worlds | None = None
    chosen: "WorldList | None" = None
    known = 0
    nested = False
    kernels: list | None = None


_recording = _Recording()


def split(worlds: int, parts: int) -> list[Worlds]:
    """Split the worlds into `parts` ranges, at most one per world, whose sizes differ by at most 1."""
    parts = max(1, min(parts, worlds))
    ends = [worlds * (i + 1) // parts for i in range(parts)]
    return [Worlds(first, end, i, worlds) for i, (first, end) in enumerate(zip([0, *ends], ends, strict=False))]


class WorldList:
    """A list of worlds on the device, which kernels fill and launches may be over, see `among`.

    Each range of worlds has a list of its own.
    """

    def __init__(self, worlds: int, device):
        self.array = wp.zeros(2 * worlds, dtype=wp.int32, device=device)

    def own(self) -> wp.array:
        """The number of worlds, then the worlds, of the range being recorded."""
        worlds = _recording.worlds
        return self.array if worlds is None else self.array[2 * worlds.first : 2 * worlds.end]


@contextlib.contextmanager
def among(chosen: WorldList | None):
    """Restrict launches inside to the worlds that the list has when they run; None: do not."""
    before, _recording.chosen = _recording.chosen, chosen
    try:
        yield
    finally:
        _recording.chosen = before


def repeat(chosen: WorldList, body) -> None:
    """Run `body()` over a list of worlds until the list is empty; a graph holds the whole loop."""
    with among(chosen):
        if _recording.kernels is not None:
            body()
            return
        with cut():
            wp.capture_while(chosen.own()[:1], body)


def listed_worlds() -> wp.array | None:
    """The list that launches are over; None: they are over all worlds of the range."""
    return None if _recording.chosen is None else _recording.chosen.own()


def refuse_list(kernel: wp.Kernel) -> None:
    """Raise if launches are over a list of worlds, which this kernel does not take."""
    if _recording.chosen is not None:
        raise NotDivisible(f"{kernel.key} is launched over a list of worlds, but has no index w")


def refuse_whole(kernel: wp.Kernel) -> None:
    """Raise if this kernel, which takes no range, is launched while one is recorded, unless inside `cut`."""
    if _recording.worlds is not None and not _recording.nested:
        raise NotDivisible(f"{kernel.key} has no index w")


def present() -> Worlds | None:
    """The range being recorded; None: launches cover all worlds."""
    return _recording.worlds


@contextlib.contextmanager
def over(worlds: Worlds):
    """Restrict captured launches inside to these worlds. Raises `NotDivisible` for operations over all worlds.

    On CUDA, where operations are not counted, it raises for kernels alone.
    """
    _recording.worlds, _recording.known, before = worlds, 0, operations()
    try:
        yield
        others = operations() - before - _recording.known
    finally:
        _recording.worlds = None
    if others:
        raise NotDivisible(f"{others} of its {others + _recording.known} operations are over all worlds")


@contextlib.contextmanager
def listed():
    """Yield a list of the kernels that are launched inside.

    Launches, `assign`, `fill` and sorts are not executed. An outer list gets the kernels too.
    """
    outer, found = _recording.kernels, []
    _recording.kernels = found
    try:
        yield found
    finally:
        _recording.kernels = outer
        is_listed(*found)


def is_listed(*kernels) -> bool:
    """Whether this thread is inside `listed`; if so, append the kernels to its list."""
    if _recording.kernels is None:
        return False
    _recording.kernels += kernels
    return True


@contextlib.contextmanager
def cut():
    """Count the operations recorded inside as restricted to the range of worlds."""
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
    """Rows of an array (worlds, …) in the range being recorded; all rows if there is none."""
    worlds = _recording.worlds
    if worlds is None or not array.size:
        return array
    if array.shape[0] != worlds.count:
        raise NotDivisible(f"an array of shape {array.shape} has no rows of its own for each of {worlds.count} worlds")
    return array[worlds.first : worlds.end]


def sort_segments(keys: wp.array, values: wp.array, count: int, begin: wp.array, end: wp.array) -> None:
    """`wp.utils.segmented_sort_pairs` of one segment per world, `begin` and `end` (worlds,)."""
    if is_listed():
        return
    with cut():
        wp.utils.segmented_sort_pairs(keys, values, count, rows(begin), rows(end))


def first_and_count(kernel: wp.Kernel, worlds: int) -> tuple[int, int]:
    """First world and number of worlds of a launch over `worlds`, for a kernel that takes a range."""
    own = _recording.worlds
    if own is None:
        return 0, worlds
    if worlds != own.count:
        raise NotDivisible(f"{kernel.key} is launched over {worlds} in a graph over a range of {own.count} worlds")
    return own.first, len(own)


def operations() -> int:
    """Number of operations in this thread's current CPU capture; 0 without one."""
    core = wp._src.context.runtime.core
    state = core.wp_apic_get_recording_state()
    return int(core.wp_apic_get_operation_count(state)) if state else 0
