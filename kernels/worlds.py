# SPDX-License-Identifier: Apache-2.0
"""Writes rows of chosen worlds in place. Entries of four and eight bytes are copied as bits, in words of four bytes."""

import warp as wp

from .real import kernel

STRIDE = wp.constant(32)  # threads per world that copy or clear an array


@kernel
def rows_of_mask(mask: wp.array1d(dtype=wp.bool), row_of: wp.array1d(dtype=wp.int32)):
    """row_of[w] = w for a chosen world, else −1. Launch over worlds."""
    w = wp.tid()
    row_of[w] = wp.where(mask[w], w, -1)


@kernel
def put_rows(
    row_of: wp.array1d(dtype=wp.int32),
    threads: int,
    source: wp.array2d(dtype=wp.int32),
    target: wp.array2d(dtype=wp.int32),
):
    """target[w] = source[row_of[w]] if row_of[w] ≥ 0; an index beyond the last row means that row.

    Launch over (worlds, threads).
    """
    w, first = wp.tid()
    row = wp.min(row_of[w], source.shape[0] - 1)
    if row >= 0:
        for i in range(first, target.shape[1], threads):
            target[w, i] = source[row, i]


@kernel
def others(row_of: wp.array1d(dtype=wp.int32), stays: wp.array1d(dtype=wp.int32)):
    """1 for a world that is not chosen, else 0. Launch over worlds."""
    w = wp.tid()
    stays[w] = wp.where(row_of[w] < 0, 1, 0)


@kernel
def copy_words(source: wp.array2d(dtype=wp.int32), target: wp.array2d(dtype=wp.int32)):
    """target = source, arrays of words. Launch over (worlds, STRIDE)."""
    w, first = wp.tid()
    for i in range(first, target.shape[1], STRIDE):
        target[w, i] = source[w, i]


@kernel
def clear_words(target: wp.array2d(dtype=wp.int32)):
    """target = 0. Launch over (worlds, STRIDE)."""
    w, first = wp.tid()
    for i in range(first, target.shape[1], STRIDE):
        target[w, i] = 0
