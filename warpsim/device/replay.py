# SPDX-License-Identifier: Apache-2.0
"""Capture and replay of launches as graphs: a launch then costs 0.2 µs instead of 7 to 21, on the CPU and on a GPU.

With several threads on the CPU, launches over all worlds become one graph per range of worlds (`ranges.py`); the
threads take these graphs from a common list. Where such launches follow each other, as substeps do, a thread goes
through all of them with its range: no thread waits for another in between. Steps of many worlds are divided on one
thread, too: a block of worlds stays in the cache from launch to launch.
"""

import contextlib
import functools
import warnings

import warp as wp

from warpsim.device.interrupts import undisturbed
from warpsim.device.pool import together
from warpsim.device.ranges import NotDivisible, Worlds, operations, over, split
from warpsim.device.threads import turn

GRAPHS_KEPT = 16
# A capture takes as long as about twenty steps between states without a graph of their own, which replay the step's
# graph and launch copies. So steps whose results may not reach the same arrays again run this often before a capture.
USES_IN_PASSING = 16
# Ranges per thread, so that no thread waits long for a slower one, and the smallest size of such a range. Graphs take
# time and memory, so many threads get one range each.
RANGES_PER_THREAD, FEW_THREADS, LEAST_WORLDS = 2, 8, 32
# Worlds of a block, whose memory stays in the cache from one launch of a step to the next, and the most blocks.
BLOCK_WORLDS, MOST_BLOCKS = 128, 64

_capture_streams: dict[int, wp.Stream] = {}

# Stages run in sequence. The chains of a stage run concurrently, the graphs of a chain in sequence.
Stages = list[list[list[wp.Graph]]]


def capturing(device) -> bool:
    """Whether this thread is capturing a graph on this device, in this package or in the user's code."""
    if device.is_cuda:
        return device.is_capturing
    capture = wp._src.context.runtime._apic_capture
    return capture is not None and capture.device == device


@contextlib.contextmanager
def capture_stream(device):
    """Send launches inside to a separate stream on CUDA, which forbids captures on the legacy stream, torch's default.

    The graph is launched on the stream that is current at that time.
    """
    if not device.is_cuda:
        yield
        return
    if device.ordinal not in _capture_streams:
        _capture_streams[device.ordinal] = wp.Stream(device)
    with wp.ScopedStream(_capture_streams[device.ordinal], sync_enter=False):
        yield


def _launch(chain: list[wp.Graph]) -> None:
    for graph in chain:
        wp.capture_launch(graph)


class Replay:
    """The graphs of one device. All graphs are captured again when `parameters` expand, which changes addresses.

    Graphs contain addresses: a key must name every array whose address can change between uses. On the CPU `threads`
    threads divide the `worlds`.
    """

    def __init__(self, device, parameters, worlds: int, threads: int):
        self.device, self.parameters, self.worlds, self.threads = device, parameters, worlds, threads
        each = min(RANGES_PER_THREAD, worlds // (LEAST_WORLDS * threads)) if 1 < threads <= FEW_THREADS else 1
        self.ranges = split(worlds, threads * max(1, each))
        blocks = 1 if device.is_cuda else min(MOST_BLOCKS, worlds // BLOCK_WORLDS)
        self.blocks = split(worlds, max(blocks, len(self.ranges)))
        self.capturing = False
        self.branches, self._sides = 1, []  # of a graph and their streams, see `branch`
        self._dividing = False  # whether `run` itself is capturing a graph
        self._stages: Stages = []  # of the capture in progress
        self._graphs: dict[tuple, Stages] = {}  # in order of last use
        self._version = 0
        self._uses: dict[tuple, int] = {}  # of keys without graphs, in order of last use

    def branch(self, count: int) -> None:
        """Have every divided graph do `count` ranges of worlds side by side, on CUDA; on the CPU one after the other.

        The same bits. While the slowest world of one range is solved, the kernels of another can run. For steps whose
        launches are all over worlds, of the contact models and integrators that come with warpsim, and without loops
        in the graph (`ranges.repeat`, which impacts inside steps use).
        """
        self.branches, self.ranges = count, split(self.worlds, count)
        self.blocks = self.ranges
        self._sides = [wp.Stream(self.device) for _ in self.ranges[1:]] if self.device.is_cuda else []
        self.clear()

    def clear(self) -> None:
        """Drop all graphs: an array has moved."""
        self._graphs.clear()

    def graphs_of(self, key: tuple) -> Stages | None:
        """The graphs of `run` for this key, marked as used last; None if there are none."""
        if self._version != self.parameters.version:
            self.clear()
            self._version = self.parameters.version
        stages = self._graphs.pop(key, None)
        if stages is not None:
            self._graphs[key] = stages
        return stages

    def capture(self, function) -> Stages:
        """Capture the launches of `function()` for `play`, without executing them; only those in `run` are divided."""
        self.capturing, self._stages = True, []
        try:
            with turn(self.device), capture_stream(self.device):
                try:
                    self._begin_stage()
                    function()
                finally:
                    self._end_stage()
        finally:
            self.capturing = False
        return self._stages

    def play(self, stages: Stages) -> None:
        """Replay captured graphs."""
        for chains in stages:
            if len(chains) == 1:
                _launch(chains[0])
                continue
            together([functools.partial(_launch, chain) for chain in chains], self.threads)

    def run(
        self, key: tuple, launch, *, divided: bool = True, in_blocks: bool = False, compile=None, uses: int = 1
    ) -> None:
        """Run `launch` by replaying its graphs, which are captured once `key` has been used `uses` times.

        A capture cannot compile: the first use compiles, unless `compile()` is given; then the first use is captured.
        `divided`: all launches are over worlds that do not depend on each other. Otherwise `launch` may call `run` for
        those that are. `in_blocks`: divide the worlds into blocks even for one thread.
        """
        ranges = (self.blocks if in_blocks else self.ranges) if divided else []
        if self._dividing or (self.capturing and len(ranges) <= 1):
            launch()
        # The user captures a graph, which takes launches, not graphs.
        elif not self.capturing and capturing(self.device):
            launch()
        elif self.capturing:
            self._end_stage()
            try:
                self._append(self._find(key, launch, ranges, compile))
            finally:
                self._begin_stage()
        elif compile is None and key not in self._graphs and self._is_new(key, uses):
            launch()
        else:
            self.play(self._find(key, launch, ranges, compile))

    def _is_new(self, key: tuple, uses: int) -> bool:
        """Whether a key has been used fewer than `uses` times before its capture; counts this use."""
        known = self._uses.pop(key, 0)
        if known >= uses:
            return False
        self._uses[key] = known + 1
        while len(self._uses) > GRAPHS_KEPT:
            del self._uses[next(iter(self._uses))]
        return True

    def _find(self, key: tuple, launch, ranges: list[Worlds], compile) -> Stages:
        """The graphs of a key, captured if there are none; without ranges not divided."""
        stages = self.graphs_of(key)
        if stages is None:
            if compile is not None:
                compile()
            stages = self._divide(launch, ranges) if ranges else self.capture(launch)
            while len(self._graphs) >= GRAPHS_KEPT:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = stages
        return stages

    def _divide(self, launch, ranges: list[Worlds]) -> Stages:
        """Capture one graph per range of worlds, or a single one, with a warning, if launches cannot be divided."""
        self._dividing = True
        try:
            if len(ranges) == 1:
                return [[[self._graph(launch)]]]
            if self.branches > 1:
                return [[[self._graph(lambda: self._fork(launch))]]]
            return [[[self._graph(launch, worlds)] for worlds in ranges]]
        except NotDivisible as reason:
            if self.threads > 1:
                warnings.warn(
                    f"part of a step runs on one thread of {self.threads}: {reason}, as those of own contact models "
                    "and integrators may be; Simulator(threads=1) does the same without this warning",
                    stacklevel=2,
                )
            return [[[self._graph(launch)]]]
        finally:
            self._dividing = False

    def _graph(self, launch, worlds: Worlds | None = None) -> wp.Graph:
        """Capture the launches of `launch()` over a range of worlds, or over all."""
        within = contextlib.nullcontext() if worlds is None else over(worlds)
        with (
            undisturbed(),
            turn(self.device),
            capture_stream(self.device),
            wp.ScopedCapture(device=self.device) as capture,
            within,
        ):
            launch()
        return capture.graph

    def _fork(self, launch) -> None:
        """Capture `launch()` over every range, on CUDA as branches: the first range on the stream of the capture, each
        other one on a side stream, which joins the capture here and which that stream waits for in the end."""
        main = self.device.stream if self._sides else None
        for side in self._sides:
            side.wait_stream(main)
        try:
            for number, worlds in enumerate(self.ranges):
                aside = number and self._sides
                within = wp.ScopedStream(self._sides[number - 1], False) if aside else contextlib.nullcontext()
                with within, over(worlds):
                    launch()
        finally:
            for side in self._sides:
                main.wait_stream(side)

    def _begin_stage(self) -> None:
        with undisturbed():
            wp.capture_begin(self.device)

    def _end_stage(self) -> None:
        """End the graph in progress, if any; drop it if it is empty."""
        with undisturbed():
            if not capturing(self.device):
                return
            used = self.device.is_cuda or operations() > 0
            graph = wp.capture_end(self.device)
            if used:
                self._stages.append([[graph]])

    def _append(self, stages: Stages) -> None:
        """Append stages to those of the capture in progress; chains of the same ranges are joined."""
        for chains in stages:
            if self._stages and len(chains) == len(self._stages[-1]) > 1:
                self._stages[-1] = [[*a, *b] for a, b in zip(self._stages[-1], chains, strict=True)]
            else:
                self._stages.append(chains)
