"""Launches captured as graphs and replayed: a launch then costs 0.2 µs instead of 7 to 21, on the CPU as on a GPU."""

import warp as wp

from warpsim.device.threads import turn

GRAPHS_KEPT = 16


class Replay:
    """The graphs of one device. `parameters`: their expansion changes addresses, so every graph is made anew then.

    Graphs hold addresses: a key must name every array whose address can change between uses.
    """

    def __init__(self, device, parameters):
        self.device, self.parameters = device, parameters
        self.capturing = False
        self._graphs: dict = {}
        self._version = 0
        self._seen: list[tuple] = []

    def clear(self) -> None:
        """Forget all graphs, because an array has moved."""
        self._graphs.clear()

    def capture(self, launch):
        """The graph of what `launch()` launches; nothing is executed."""
        self.capturing = True
        try:
            with turn(self.device), wp.ScopedCapture(device=self.device) as capture:
                launch()
        finally:
            self.capturing = False
        return capture.graph

    def run(self, key: tuple, launch, *, compile=None) -> None:
        """Run `launch` by replaying its graph, which is captured at the second use of `key`.

        Capture cannot compile: the first use does, unless `compile()` is given, with which the first use is captured too.
        Within a capture the launches are simply made.
        """
        if self.capturing:
            launch()
            return
        if self._version != self.parameters.version:
            self.clear()
            self._version = self.parameters.version
        graph = self._graphs.get(key)
        if graph is None:
            if compile is None and key not in self._seen:
                self._seen = [*self._seen[1 - GRAPHS_KEPT :], key]
                launch()
                return
            if compile is not None:
                compile()
            graph = self.capture(launch)
            while len(self._graphs) >= GRAPHS_KEPT:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[key] = graph
        wp.capture_launch(graph)
