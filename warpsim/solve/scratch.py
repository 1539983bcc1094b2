# SPDX-License-Identifier: Apache-2.0
"""Memory for dense matrices that live within one solve: how much there is, and the turns that worlds take in it.

The rule: a window of 1/32 of what all worlds would need at full capacity, or of what one world needs if that is more, and room
for one world beyond it. Worlds need the square of their active rows, so all find room at once while they have on average no more
than 1/√32 = 0.18 of the rows that their capacity allows. Where they have more, the launches of the second turn find work too, and
so on; the last of the turns is for worlds that are all full, so that no number of rows is too much.
"""

import warp as wp

from warpsim.device.copies import copy
from warpsim.device.memory import LARGEST_INDEX
from warpsim.device.ranges import Worlds, cut, present
from warpsim.kernels.solve import scratch

# The window's part of what all worlds need at full capacity. Every turn costs launches, also those without worlds.
WINDOW = 1 / 32


class Scratch:
    """`data` (struct), and the number of `turns`: launches for worlds of turn 0, 1, ... `turns` − 1 meet every world once.

    `largest`: numbers that a world needs at most. `window`: part of what all worlds need, see above; 1: every world has the
    memory that it needs at most, at all times. A range of worlds that a thread steps has memory of its own. Raises `ValueError`
    where the window is larger than an array may be.
    """

    def __init__(self, worlds: int, largest: int, scalar, device, window: float | None = None):
        self.worlds, self.largest, self.scalar, self.device = worlds, largest, scalar, device
        self.window = WINDOW if window is None else window
        self.begin = wp.array([w * largest for w in range(worlds)], dtype=wp.int64, device=device)
        self.turn = wp.zeros(worlds, dtype=int, device=device)
        self._of: dict[Worlds | None, tuple] = {None: self._allocate(0, worlds)}

    def _allocate(self, first: int, worlds: int) -> tuple:
        """`data` and `turns` of so many worlds."""
        largest, data = self.largest, copy(scratch.Scratch, self.scalar)()
        whole, one = worlds * largest, max(largest, 1)
        data.window = max(one, int(self.window * whole))
        size = int(data.window) + largest
        if size >= whole:
            data.window, size = max(one, whole), whole
        if size > LARGEST_INDEX:
            raise ValueError(
                f"worlds is {worlds}: the solver's matrices take up to {largest} numbers each, and their window of {size} numbers is "
                f"longer than 32-bit indices reach ({LARGEST_INDEX}); use fewer worlds in one simulator, or a smaller max_contacts"
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
        """Before worlds take their memory in a step; `run`: as `ContactSolver.run`."""
        run(scratch.clear, self.worlds, [self.data])
