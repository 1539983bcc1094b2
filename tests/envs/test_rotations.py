# SPDX-License-Identifier: Apache-2.0
"""Sums of vectors of a term."""

import numpy as np
import pytest

from warpsim.envs.rotations import norm, summed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6, 7, 8, 12])
def test_sums_have_the_bits_of_numpy(columns, dtype):
    """`summed` is NumPy's own sum along the last axis, bit for bit: of any size, stride, and of infinite values."""
    rng = np.random.default_rng(columns)
    wide = rng.normal(size=(500, 2 * columns)) * 10.0 ** rng.uniform(-6, 6, (500, 2 * columns))
    wide = wide.astype(dtype)
    wide[0, 0], wide[1, 0], wide[2] = np.inf, np.nan, -0.0
    for values in (
        wide[:, :columns],
        wide[:, ::2],
        np.asfortranarray(wide[:, :columns]),
        wide.reshape(500, 2, columns),
    ):
        kept = values.copy()
        np.testing.assert_array_equal(summed(values), values.sum(-1))
        np.testing.assert_array_equal(norm(values), (values * values).sum(-1) ** 0.5)
        np.testing.assert_array_equal(values, kept)


def test_booleans_are_counted():
    """Sums of booleans and of whole numbers are numbers."""
    assert summed(np.ones((2, 3), bool)).tolist() == [3, 3]
    assert summed(np.ones((2, 3), int)).tolist() == [3, 3]
