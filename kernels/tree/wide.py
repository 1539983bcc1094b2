# SPDX-License-Identifier: Apache-2.0
"""Copies arrays of a float32 step to float64 and back, for the smooth dynamics of deep trees.

Host side: `warpsim/integrate/explicit_motion.py`.
"""

import warp as wp

from ..real import kernel, real


@kernel
def widen(values: wp.array2d(dtype=real), wide: wp.array2d(dtype=wp.float64)):
    """Fill every row of `wide` from its row of `values`, or from the only row. Launch over the shape of `wide`."""
    w, i = wp.tid()
    wide[w, i] = wp.float64(values[w % values.shape[0], i])


@kernel
def narrow(wide: wp.array2d(dtype=wp.float64), values: wp.array2d(dtype=real)):
    """Round `wide` into `values`. Launch over the shape of `values`."""
    w, i = wp.tid()
    values[w, i] = real(wide[w, i])
