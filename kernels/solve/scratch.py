# SPDX-License-Identifier: Apache-2.0
"""Memory for dense matrices that live within one solve, taken by the rows that a world has (host: `warpsim/solve/scratch.py`).

At full capacity a world's matrices would fill many times the memory of all else. Here worlds take as many numbers as they
need from one stretch, in any order; those that find it full take their turn after the others, in the same memory again. What
a world computes is its own affair, so no bit depends on where its matrices lie or on its turn.
"""

import numpy as np
import warp as wp

from ..real import func, kernel, real, struct

NUMBER = np.dtype(wp.dtype_to_numpy(real)).itemsize  # bytes


@struct
class Scratch:
    numbers: wp.array(dtype=real)  # (window + the largest need of a world,)
    window: wp.int64  # a world that begins within the k-th window of what is taken has turn k
    first: int  # its first world
    taken: wp.array(dtype=wp.int64)  # (1,) by all its worlds in a step, as if there was no end
    begin: wp.array(dtype=wp.int64)  # (worlds,) first of a world's numbers
    turn: wp.array(dtype=int)  # (worlds,)


@kernel
def clear(scratch: Scratch):
    """Nothing is taken. Launch over worlds."""
    w = wp.tid()
    if w == scratch.first:
        scratch.taken[0] = wp.int64(0)


@func
def take(scratch: Scratch, w: int, count: wp.int64):
    """Memory and turn of world w, which needs `count` numbers."""
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
    """View (rows, columns) of what world w has, behind its first `skip` numbers; what is in it is left from others."""
    first = scratch.begin[w] + skip
    place = scratch.numbers.ptr + wp.uint64(NUMBER) * wp.uint64(first)
    return wp.array(ptr=place, shape=(rows, columns), dtype=real)
