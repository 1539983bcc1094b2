# SPDX-License-Identifier: Apache-2.0
"""Memory for dense matrices that live within one solve, sized by each world's rows (host: `warpsim/solve/scratch.py`).

Matrices at full capacity would take many times the memory of everything else. Each world instead takes as many
numbers as it needs from one shared stretch, in any order. Worlds that find the stretch full get a later turn and reuse
the same memory. A world's result depends on its own data only: neither the place of its matrices nor its turn changes
a bit.
"""

import numpy as np
import warp as wp

from ..real import func, kernel, real, struct

NUMBER = np.dtype(wp.dtype_to_numpy(real)).itemsize  # bytes


@struct
class Scratch:
    numbers: wp.array(dtype=real)  # (window + the largest need of a world,)
    window: wp.int64  # numbers per turn: a world whose memory begins in the k-th window of the total has turn k
    first: int  # first world that uses this scratch memory
    taken: wp.array(dtype=wp.int64)  # (1,) numbers taken in this step by all its worlds, as if memory had no end
    begin: wp.array(dtype=wp.int64)  # (worlds,) index of the world's first number
    turn: wp.array(dtype=int)  # (worlds,)


@kernel
def clear(scratch: Scratch):
    """Mark all memory as free. Launch over worlds."""
    w = wp.tid()
    if w == scratch.first:
        scratch.taken[0] = wp.int64(0)


@func
def take(scratch: Scratch, w: int, count: wp.int64):
    """Assign memory and a turn to world w, which needs `count` numbers."""
    before = wp.atomic_add(scratch.taken, 0, count)
    turn = before / scratch.window
    scratch.turn[w] = wp.int32(turn)
    scratch.begin[w] = before - turn * scratch.window


@func
def square(rows: int) -> wp.int64:
    """Numbers of a matrix (rows, rows)."""
    return wp.int64(rows) * wp.int64(rows)


@func
def matrix(scratch: Scratch, w: int, skip: wp.int64, rows: int, columns: int):
    """View (rows, columns) of world w's memory after its first `skip` numbers; the contents are undefined."""
    first = scratch.begin[w] + skip
    place = scratch.numbers.ptr + wp.uint64(NUMBER) * wp.uint64(first)
    return wp.array(ptr=place, shape=(rows, columns), dtype=real)
