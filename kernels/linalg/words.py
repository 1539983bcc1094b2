# SPDX-License-Identifier: Apache-2.0
"""Copies of several arrays in one launch, as words of four bytes."""

import warp as wp

from .. import real as device
from ..real import func, kernel
from .lanes import ALONE, by_device

COPY_WORDS = """
int* to = target.data;
const int* from = source.data;
#pragma unroll 1
for (int i = lane; i < source.shape[0]; i += LANES) to[i] = from[i];
"""


@device.func_native(by_device(COPY_WORDS, ALONE + COPY_WORDS))
def team_copy_words(source: wp.array1d(dtype=wp.int32), target: wp.array1d(dtype=wp.int32)):
    """target = source, by all lanes."""
    ...


@func
def copy_row(source: wp.array2d(dtype=wp.int32), target: wp.array2d(dtype=wp.int32), w: int):
    """Copy one world of an array (worlds, words), unless the array is empty."""
    if source.shape[0] > 0:
        team_copy_words(source[w], target[w])


@kernel(lanes=True)
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
    """target = source for several arrays. Launch over (worlds, lanes)."""
    w, _lane = wp.tid()
    copy_row(source_a, target_a, w)
    copy_row(source_b, target_b, w)
    copy_row(source_c, target_c, w)
    copy_row(source_d, target_d, w)
    copy_row(source_e, target_e, w)
    copy_row(source_f, target_f, w)
