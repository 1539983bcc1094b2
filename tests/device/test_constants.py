# SPDX-License-Identifier: Apache-2.0
"""Named constants in float64 code: every use has a value, whatever branch the first one stands in."""

import numpy as np
import warp as wp

import warpsim.kernels.preamble  # noqa: F401  what is tested here

SHARE, COUNT = 0.125, 3


@wp.func
def used_twice(x: wp.float64) -> wp.float64:
    """Warp 1.19 assigns a constant of 64 bits where it is first used, here in a branch, and reads it after that."""
    y = x
    if x > wp.float64(10.0):
        y += wp.float64(SHARE)
        y += wp.float64(wp.int64(COUNT))
    return y + wp.float64(SHARE) * wp.float64(wp.int64(COUNT))


@wp.kernel(enable_backward=False)
def fill(x: wp.array1d(dtype=wp.float64), out: wp.array1d(dtype=wp.float64)):
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(i):
        total += wp.float64(SHARE) * wp.float64(k)
    out[i] = used_twice(x[i]) + wp.float64(SHARE) + total


def test_a_constant_first_used_in_a_branch_has_its_value_after_it():
    """Compiled without optimisation, where a variable without a value is whatever memory holds."""
    wp.set_module_options({"optimization_level": 0})
    x = np.array([1.0, 2.0, 11.0, 5.0])
    out = wp.full(4, 7.0, dtype=wp.float64, device="cpu")
    wp.launch(fill, 4, [wp.array(x, dtype=wp.float64, device="cpu"), out], device="cpu")
    expected = x + SHARE * COUNT + np.where(x > 10, SHARE + COUNT, 0.0) + SHARE + SHARE * np.array([0, 0, 1, 3])
    np.testing.assert_array_equal(out.numpy(), expected)
