# SPDX-License-Identifier: Apache-2.0
"""Arrays (worlds, …) copied and cleared in the worlds that launches are over, see `ranges.py`."""

import warp as wp

from warpsim.device.copies import launch
from warpsim.device.ranges import cut, is_listed, listed_worlds, rows
from warpsim.kernels import worlds


def assign(target: wp.array, source: wp.array) -> None:
    """target = source, both (worlds, …)."""
    if listed_worlds() is not None:
        _launch(worlds.copy_words, [as_words(source), as_words(target)], target)
        return
    if is_listed():
        return
    with cut():
        wp.copy(rows(target), rows(source))


def fill(target: wp.array, value=0) -> None:
    """Set every entry of target (worlds, …) to `value`; over a list of worlds, to 0."""
    if listed_worlds() is not None:
        if value != 0:
            raise ValueError(f"value is {value}; arrays are cleared over a list of worlds, not filled")
        _launch(worlds.clear_words, [as_words(target)], target)
        return
    if is_listed():
        return
    own = rows(target)
    with cut():
        own.zero_() if value == 0 else own.fill_(value)


def as_words(array: wp.array) -> wp.array:
    """A view of an array (worlds, …) as (worlds, words of four bytes), which keeps the array alive."""
    rows = array.shape[0]
    count = array.size * wp.types.type_size_in_bytes(array.dtype) // 4 // max(rows, 1)
    view = wp.array(ptr=array.ptr, dtype=wp.int32, shape=(rows, count), device=array.device, copy=False)
    view._ref = array
    return view


def _launch(kernel, inputs, array: wp.array) -> None:
    if array.size:
        launch(kernel, wp.float32, (array.shape[0], int(worlds.STRIDE)), inputs, device=array.device, record_tape=False)
