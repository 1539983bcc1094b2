"""Launches captured as graphs and replayed: a launch then costs 0.2 µs instead of 7 to 21, on the CPU as on a GPU.

With several threads on the CPU a step is one graph per range of worlds, replayed at the same time.
"""

import functools
import warnings

import warp as wp

from warpsim.device.pool import together
from warpsim.device.ranges import NotDivisible, Worlds, operations, over, split
from warpsim.device.threads import turn

GRAPHS_KEPT = 16


class Replay:
    """The graphs of one device. `parameters`: their expansion changes addresses, so every graph is made anew then.

    Graphs hold addresses: a key must name every array whose address can change between uses. `threads`: what `run` is given is
    divided into as many ranges of the `worlds`.
    """

    def __init__(self, device, parameters, worlds: int, threads: int):
        self.device, self.parameters = device, parameters
        self.ranges = split(worlds, threads)
        self.capturing = False
        self._dividing = False  # whether a graph over a range of worlds is being captured
        self._stages: list[list[wp.Graph]] = []  # of the capture in progress
        self._graphs: dict = {}
        self._version = 0
        self._seen: list[tuple] = []

    def clear(self) -> None:
        """Forget all graphs, because an array has moved."""
        self._graphs.clear()

    def capture(self, function) -> list[list[wp.Graph]]:
        """What `function()` launches, for `play`; nothing is executed.

        Stages, one after the other, of graphs that may be replayed at the same time. What `run` is given inside is a stage
        of its own where worlds are divided. What cannot be divided is not, with a warning.
        """
        self.capturing, self._stages = True, []
        try:
            with turn(self.device):
                wp.capture_begin(self.device)
                try:
                    function()
                finally:
                    self._end_stage()
        finally:
            self.capturing = False
        return self._stages

    def play(self, stages: list[list[wp.Graph]]) -> None:
        """Replay what was captured."""
        for graphs in stages:
            together([functools.partial(wp.capture_launch, graph) for graph in graphs])

    def run(self, key: tuple, launch, *, compile=None) -> None:
        """Run `launch` by replaying its graphs, which are captured at the second use of `key`.

        Capture cannot compile: the first use does, unless `compile()` is given, with which the first use is captured too.
        Within a capture the launches are simply made.
        """
        if self.capturing:
            self._add(launch)
            return
        if self._version != self.parameters.version:
            self.clear()
            self._version = self.parameters.version
        stages = self._graphs.get(key)
        if stages is None:
            if compile is None and key not in self._seen:
                self._seen = [*self._seen[1 - GRAPHS_KEPT :], key]
                launch()
                return
            if compile is not None:
                compile()
            stages = self.capture(functools.partial(self._add, launch))
            while len(self._graphs) >= GRAPHS_KEPT:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = stages
        self.play(stages)

    def _add(self, launch) -> None:
        """Add to the capture in progress: one graph per range of worlds, to be replayed at the same time."""
        if self._dividing or len(self.ranges) == 1:
            launch()
            return
        self._end_stage()
        self._dividing, graphs = True, []
        try:
            graphs = [self._over(worlds, launch) for worlds in self.ranges]
        except NotDivisible as reason:
            warnings.warn(
                f"part of a step runs on one thread of {len(self.ranges)}: {reason}, as those of own contact models and integrators are; "
                "Simulator(threads=1) does the same without this warning",
                stacklevel=2,
            )
        finally:
            self._dividing = False
            wp.capture_begin(self.device)
        if graphs:
            self._stages.append(graphs)
        else:
            launch()

    def _over(self, worlds: Worlds, launch) -> wp.Graph:
        """What `launch()` launches over a range of worlds."""
        with wp.ScopedCapture(device=self.device) as capture, over(worlds):
            launch()
        return capture.graph

    def _end_stage(self) -> None:
        """End the graph in progress; one that holds nothing is left out."""
        used = self.device.is_cuda or operations() > 0
        graph = wp.capture_end(self.device)
        if used:
            self._stages.append([graph])
