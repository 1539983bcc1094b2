# SPDX-License-Identifier: Apache-2.0
"""The readings of all sensors in MuJoCo's order, clamped to their cutoffs: at a state, and of the step that led to
it."""

import warp as wp

from ..real import func, kernel, real, vec3

OF_STATE = wp.constant(-1)
NOTHING = wp.constant(-2)


@kernel(twin=True)
def read_sensors(
    source: wp.array(dtype=int),
    low: wp.array(dtype=real),
    high: wp.array(dtype=real),
    of_state: wp.array2d(dtype=real),
    of_step: wp.array2d(dtype=real),
    stepped: wp.array(dtype=int),
    # out
    data: wp.array2d(dtype=real),
):
    """`source` is OF_STATE, a column of `of_step`, or NOTHING (NaN). Columns of a step are NaN before the first step.
    Launch over (worlds, numbers)."""
    w, i = wp.tid()
    k = source[i]
    x = real(wp.nan)
    if k == OF_STATE:
        x = of_state[w, i]
    elif k >= 0:
        if stepped[w] != 0:
            x = of_step[w, k]
    if x < low[i]:
        x = low[i]
    elif x > high[i]:
        x = high[i]
    data[w, i] = x


@func
def put(x: vec3, chosen: int, bit: int, adr: int, w: int, data: wp.array2d(dtype=real)) -> int:
    """Write a vector if its bit is set; return the next column."""
    next = adr
    if ((chosen >> bit) & 1) != 0:
        data[w, adr] = x[0]
        data[w, adr + 1] = x[1]
        data[w, adr + 2] = x[2]
        next = adr + 3
    return next
