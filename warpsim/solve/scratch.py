"""Memory for dense matrices that live within one solve: how much there is, and the turns that worlds take in it.

The rule: a window of 1/32 of what all worlds would need at full capacity, or of what one world needs if that is more, and room
for one world beyond it. Worlds need the square of their active rows, so all find room at once while they have on average no more
than 1/√32 = 0.18 of the rows that their capacity allows. Where they have more, the launches of the second turn find work too, and
so on; the last of the turns is for worlds that are all full, so that no number of rows is too much.
"""

import warp as wp

from warpsim.device.copies import copy, kernels_of
from warpsim.device.memory import LARGEST_INDEX
from warpsim.kernels.solve import scratch

# The window's part of what all worlds need at full capacity. Every turn costs launches, also those without worlds.
WINDOW = 1 / 32


class Scratch:
    """`data` (struct), and the number of `turns`: launches for worlds of turn 0, 1, ... `turns` − 1 meet every world once.

    `largest`: numbers that a world needs at most. `window`: part of what all worlds need, see above; 1: every world has the
    memory that it needs at most, at all times. Raises `ValueError` where the window is larger than an array may be.
    """

    def __init__(self, worlds: int, largest: int, scalar, device, window: float | None = None):
        window = WINDOW if window is None else window
        whole, one = worlds * largest, max(largest, 1)
        data = copy(scratch.Scratch, scalar)()
        data.window = max(one, int(window * whole))
        size = int(data.window) + largest
        if size >= whole:
            data.window, size = max(one, whole), whole
        if size > LARGEST_INDEX:
            raise ValueError(
                f"worlds is {worlds}: the solver's matrices take up to {largest} numbers each, and their window of {size} numbers is "
                f"longer than 32-bit indices reach ({LARGEST_INDEX}); use fewer worlds in one simulator, or a smaller max_contacts"
            )
        self.turns = max(worlds - 1, 0) * largest // int(data.window) + 1
        self.scalar, self.data = scalar, data
        data.numbers = wp.zeros(size, dtype=scalar, device=device)
        data.taken = wp.zeros(1, dtype=wp.int64, device=device)
        data.begin = wp.array([w * largest for w in range(worlds)], dtype=wp.int64, device=device)
        data.turn = wp.zeros(worlds, dtype=int, device=device)

    def kernels(self) -> list:
        return kernels_of(scratch, self.scalar)

    def clear(self, run) -> None:
        """Before worlds take their memory in a step; `run`: as `ContactSolver.run`."""
        run(scratch.clear, 1, [self.data])
