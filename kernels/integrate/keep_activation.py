# SPDX-License-Identifier: Apache-2.0
"""The end of a step for activations: check that they are finite, and keep them."""

import warp as wp

from ..flags import NONFINITE
from ..real import kernel, real


@kernel
def report_activation(following: wp.array2d(dtype=real), status: wp.array(dtype=int)):
    """An activation that is not finite stops its world, as a velocity that is not finite does. Launch over worlds."""
    w = wp.tid()
    for i in range(following.shape[1]):
        x = following[w, i]
        if not (x - x == real(0.0)):
            status[w] = status[w] | NONFINITE


@kernel
def keep_activation(
    flags: wp.array(dtype=int),
    following: wp.array2d(dtype=real),
    # out
    activation: wp.array2d(dtype=real),
):
    """Keep the activations after the step. A world that stands still keeps its last ones. Launch over (worlds, na)."""
    w, i = wp.tid()
    if flags[w] & NONFINITE == 0:
        activation[w, i] = following[w, i]
