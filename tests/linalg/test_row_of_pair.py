# SPDX-License-Identifier: Apache-2.0
"""Pairs b ≤ a are numbered a (a + 1)/2 + b: the row of each is found from a root that may be an approximation."""

import numpy as np
import pytest
import warp as wp

from warpsim.kernels.linalg.vector import PAIR

ROOT = """
const auto sqrtf = [](float x) -> float { union { float root; int bits; } y; y.root = wp::sqrt(x); y.bits += UNITS; return y.root; };
"""


def row_with(units: int):
    """The row of a pair, with roots that are so many units in the last place too large."""

    @wp.func_native(ROOT.replace("UNITS", str(units)) + PAIR.replace("[](", "[=](") + "return row_of_pair(pair);")
    def row(pair: wp.uint32) -> wp.uint32: ...

    return row


@pytest.mark.parametrize("units", [-2, -1, 0, 1, 2])
def test_rows_of_pairs(units):
    row = row_with(units)

    @wp.kernel(module="unique", enable_backward=False)
    def rows(out: wp.array(dtype=wp.uint32)):
        i = wp.tid()
        out[i] = row(wp.uint32(i))

    size = 2000
    found = wp.zeros(size * (size + 1) // 2, dtype=wp.uint32, device="cpu")
    wp.launch(rows, len(found), outputs=[found], device="cpu")
    np.testing.assert_array_equal(found.numpy(), np.repeat(np.arange(size), np.arange(1, size + 1)))
