# SPDX-License-Identifier: Apache-2.0
"""Sums, joins and products of vectors of a term."""

import numpy as np
import pytest

from warpsim.envs.rotations import conjugate, cross, joined, norm, product, rotated, rotated_back, stacked, summed


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


@pytest.mark.parametrize("kinds", [(np.float32,) * 3, (np.float32, np.float64, bool), (np.int32, bool, np.float32)])
def test_joins_are_those_of_numpy(kinds):
    """`joined` and `stacked` have NumPy's values, types and memory of their own: narrow parts, wide ones, strided ones."""
    rng = np.random.default_rng(0)
    for widths in ((1, 1, 1), (4, 5, 6), (12, 2, 40), (3, 0, 3)):
        parts = [(rng.normal(size=(70, 2 * n)) * 9).astype(kind)[:, ::2] for n, kind in zip(widths, kinds, strict=True)]
        found, expected = joined(np, parts), np.concat(parts, axis=-1)
        assert found.dtype == expected.dtype and found.flags.c_contiguous and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
        alone = joined(np, parts[:1])
        np.testing.assert_array_equal(alone, parts[0])
        assert not np.shares_memory(alone, parts[0])
    columns = [(rng.normal(size=(70, 3)) * 9).astype(kind)[:, 1] for kind in kinds]
    np.testing.assert_array_equal(stacked(np, columns), np.stack(columns, axis=-1))
    assert stacked(np, columns).dtype == np.stack(columns, axis=-1).dtype


def test_quaternions_turn_vectors():
    """Products, inverses and turns satisfy their definitions, for arrays of one vector or many, at any depth."""
    rng = np.random.default_rng(1)
    for shape in ((3,), (20, 3), (5, 4, 3)):
        a, v = rng.normal(size=(*shape[:-1], 4)), rng.normal(size=shape)
        a /= np.linalg.norm(a, axis=-1, keepdims=True)
        kept = a.copy()
        one = product(np, a, conjugate(np, a))
        np.testing.assert_allclose(one, np.broadcast_to([1.0, 0, 0, 0], one.shape), atol=1e-15)
        np.testing.assert_allclose(rotated_back(np, a, rotated(np, a, v)), v, atol=1e-14)
        np.testing.assert_array_equal(cross(np, a[..., 1:], v), np.cross(a[..., 1:], v))
        np.testing.assert_array_equal(a, kept)
