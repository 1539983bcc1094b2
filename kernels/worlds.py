"""Rows of chosen worlds, written where they are. Entries of four and eight bytes are moved as bits, in words of four."""

import warp as wp

from . import real as device
from .linalg.lanes import by_device
from .real import func, kernel


@kernel
def rows_of_mask(mask: wp.array1d(dtype=wp.bool), row_of: wp.array1d(dtype=wp.int32)):
    """Its own number for a world that is chosen, −1 for one that is not. Launch over worlds."""
    w = wp.tid()
    row_of[w] = wp.where(mask[w], w, -1)


@kernel
def put_rows(
    row_of: wp.array1d(dtype=wp.int32), source: wp.array2d(dtype=wp.int32), target: wp.array2d(dtype=wp.int32)
):
    """target[w] = source[row_of[w]] where that is not negative; the last row stands for those beyond it. Launch over the target."""
    w, i = wp.tid()
    if row_of[w] >= 0:
        target[w, i] = source[wp.min(row_of[w], source.shape[0] - 1), i]


@kernel
def others(row_of: wp.array1d(dtype=wp.int32), stays: wp.array1d(dtype=wp.int32)):
    """1 for a world that is not chosen, 0 for one that is. Launch over worlds."""
    w = wp.tid()
    stays[w] = wp.where(row_of[w] < 0, 1, 0)


# Several arrays from place to place in one launch.

COPY_WORDS = """
int* to = target.data;
const int* from = source.data;
for (int i = LANE; i < source.shape[0]; i += LANES) to[i] = from[i];
"""


@device.func_native(
    by_device(
        COPY_WORDS.replace("LANES", "32").replace("LANE", "(threadIdx.x & 31)"),
        COPY_WORDS.replace("LANES", "1").replace("LANE", "0"),
    )
)
def team_copy_words(source: wp.array1d(dtype=wp.int32), target: wp.array1d(dtype=wp.int32)):
    """target = source, by all lanes."""
    ...


@func
def copy_row(source: wp.array2d(dtype=wp.int32), target: wp.array2d(dtype=wp.int32), w: int):
    """One world of an array (worlds, words), unless that is empty."""
    if source.shape[0] > 0:
        team_copy_words(source[w], target[w])


@kernel(part="copies", lanes=True)
def copy_arrays(
    source_a: wp.array2d(dtype=wp.int32),
    source_b: wp.array2d(dtype=wp.int32),
    source_c: wp.array2d(dtype=wp.int32),
    source_d: wp.array2d(dtype=wp.int32),
    source_e: wp.array2d(dtype=wp.int32),
    source_f: wp.array2d(dtype=wp.int32),
    # out
    target_a: wp.array2d(dtype=wp.int32),
    target_b: wp.array2d(dtype=wp.int32),
    target_c: wp.array2d(dtype=wp.int32),
    target_d: wp.array2d(dtype=wp.int32),
    target_e: wp.array2d(dtype=wp.int32),
    target_f: wp.array2d(dtype=wp.int32),
):
    """target = source of several arrays. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    copy_row(source_a, target_a, w)
    copy_row(source_b, target_b, w)
    copy_row(source_c, target_c, w)
    copy_row(source_d, target_d, w)
    copy_row(source_e, target_e, w)
    copy_row(source_f, target_f, w)
