# SPDX-License-Identifier: Apache-2.0
"""Both triangles of a square block [begin, end) of H side by side, each in rows that chunks of eight may walk.

The lower triangle is in its usual place. The strict upper triangle lies to the right of it: its columns are stored as
rows in reverse order, so that long ones lie beside short rows of the lower triangle. Both need two chunks of columns
more than the square. The row k that stores H_ik, i < k, begins one chunk to the right of the diagonal, in the row that
is as far from the last as k is from the first.
"""

import warp as wp

from ..real import func, real
from .vector import CHUNK

# lower[k n + i] and upper[k step + i], with k and i counted from `begin`, are H_ki and H_ik, i < k.
CORNERS = f"""
const int n = H.shape[1], step = -(n + 1);
auto* lower = H.data + begin * n + begin;
auto* upper = lower + (end - begin - 1) * (n + 1) + {CHUNK};
"""


@func
def upper_entry(H: wp.array2d(dtype=real), begin: int, end: int, k: int, i: int) -> real:
    """H_ik, i < k, of the block [begin, end)."""
    row = begin + end - 1 - k
    return H[row, row + CHUNK + i - begin]
