# SPDX-License-Identifier: Apache-2.0
"""Size of the memory for dense matrices within one solve, and the turns that worlds take in it.

The rule: a window of 1/32 of the memory that all worlds would need at full capacity, or the need of one world if that
is more, plus room for one world. A world needs the square of its active rows, so all worlds fit at once while they
have on average at most 1/√32 = 0.18 of the rows of their capacity. With more rows, the launches of the second turn
also find worlds, and so on. The last turn serves worlds that are all full, so no number of rows is too many.
"""

import warp as wp

from warpsim.device.copies import copy
from warpsim.device.memory import LARGEST_INDEX
from warpsim.device.ranges import Worlds, among, cut, present
from warpsim.kernels.solve import scratch

# Size of the window relative to the need of all worlds at full capacity. Every turn costs launches, even if empty.
WINDOW = 1 / 32


class Scratch:
    """The memory `data` (struct) and the number of `turns`; launches for all turns cover every world once.

    `largest`: most numbers that one world needs. `window`: size relative to the need of all worlds, see above; 1: every
    world always has all the memory that it can need. A range of worlds that a thread steps has its own memory. Raises
    `ValueError` if the window is longer than an array may be.
    """

    def __init__(self, worlds: int, largest: int, scalar, device, window: float | None = None):
        self.worlds, self.largest, self.scalar, self.device = worlds, largest, scalar, device
        self.window = WINDOW if window is None else window
        self.begin = wp.array([w * largest for w in range(worlds)], dtype=wp.int64, device=device)
        self.turn = wp.zeros(worlds, dtype=int, device=device)
        self._of: dict[Worlds | None, tuple] = {None: self._allocate(0, worlds)}

    def _allocate(self, first: int, worlds: int) -> tuple:
        """`data` and `turns` for `worlds` worlds."""
        largest, data = self.largest, copy(scratch.Scratch, self.scalar)()
        whole, one = worlds * largest, max(largest, 1)
        data.window = max(one, int(self.window * whole))
        size = int(data.window) + largest
        if size >= whole:
            data.window, size = max(one, whole), whole
        if size > LARGEST_INDEX:
            raise ValueError(
                f"worlds is {worlds}: the solver's matrices take up to {largest} numbers each, and their window of "
                f"{size} numbers is longer than 32-bit indices reach ({LARGEST_INDEX}); use fewer worlds in one "
                "simulator, or a smaller max_contacts"
            )
        data.first, data.begin, data.turn = first, self.begin, self.turn
        with cut():
            data.numbers = wp.empty(size, dtype=self.scalar, device=self.device)
            data.taken = wp.empty(1, dtype=wp.int64, device=self.device)
        return data, max(worlds - 1, 0) * largest // int(data.window) + 1

    def _present(self) -> tuple:
        worlds = present()
        if worlds not in self._of:
            self._of[worlds] = self._allocate(worlds.first, len(worlds))
        return self._of[worlds]

    @property
    def data(self):
        return self._present()[0]

    @property
    def turns(self) -> int:
        return self._present()[1]

    def clear(self, run) -> None:
        """Mark all memory as free at the beginning of a step; `run`: see `ContactSolver.run`."""
        with among(None):  # the world that clears it may be on no list
            run(scratch.clear, self.worlds, [self.data])
