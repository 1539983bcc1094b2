# SPDX-License-Identifier: Apache-2.0
"""Statistics of recorded diagnostics, against NumPy's."""

import dataclasses
import warnings

import numpy as np
import pytest

from scenes.trajectories import rollout, small


def recorded(**diagnostics):
    """A trajectory of 40 steps in 5 worlds with these diagnostics (40, 5)."""
    return dataclasses.replace(rollout(*small(), worlds=5, steps=40), diagnostics=diagnostics)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("per_world", [False, True])
def test_statistics_are_those_of_numpy(dtype, per_world):
    """Mean, maximum and quantiles are NumPy's in float64, to rounding."""
    values = (100 * np.random.default_rng(0).standard_normal((40, 5))).astype(dtype)
    quantiles, axis = (0.0, 0.3, 0.5, 0.99, 1.0), 0 if per_world else None
    found = recorded(energy=values).statistics(quantiles=quantiles, per_world=per_world)["energy"]
    np.testing.assert_allclose(found["mean"], values.mean(axis, dtype=float), rtol=1e-14)
    np.testing.assert_array_equal(found["max"], values.max(axis))
    np.testing.assert_allclose(found["quantiles"], np.quantile(values.astype(float), quantiles, axis), rtol=1e-14)
    np.testing.assert_array_equal(found["not_finite"], 0)


def test_values_that_are_not_finite_are_counted_and_left_out():
    """NaN and infinities change no number but their count; a world without finite values has NaN, without a warning."""
    values = np.random.default_rng(1).standard_normal((40, 5))
    values[3, 0], values[7, 0], values[9, 2], values[:, 4] = np.nan, np.inf, -np.inf, np.nan
    t = recorded(momentum_error=values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        each = t.statistics(per_world=True)["momentum_error"]
        every = t.statistics()["momentum_error"]
        alone = recorded(momentum_error=np.full((40, 5), np.nan)).statistics()["momentum_error"]
    assert each["not_finite"].tolist() == [2, 0, 1, 0, 40] and every["not_finite"] == 43
    for world in range(4):
        good = values[np.isfinite(values[:, world]), world]
        assert each["mean"][world] == pytest.approx(good.mean(), rel=1e-14) and each["max"][world] == good.max()
        np.testing.assert_allclose(each["quantiles"][:, world], np.quantile(good, (0.5, 0.99)), rtol=1e-14)
    assert np.isnan(each["mean"][4]) and np.isnan(each["max"][4]) and np.isnan(each["quantiles"][:, 4]).all()
    np.testing.assert_allclose(every["quantiles"], np.quantile(values[np.isfinite(values)], (0.5, 0.99)), rtol=1e-14)
    assert np.isnan(alone["mean"]) and alone["not_finite"] == 200


def test_flags_are_counted():
    """By name: worlds that ever raised a flag, and per world the steps with it; flags share words of bits."""
    flags = np.zeros((40, 5), np.int32)
    flags[10:, 1] |= 2
    flags[30:, 1] |= 4
    flags[39, 3] |= 4
    t = recorded(flags=flags)
    counts = t.statistics()["flags"]
    assert {name: n for name, n in counts.items() if n} == {"NOT_CONVERGED": 1, "CONTACT_OVERFLOW": 2}
    steps = t.statistics(["flags"], per_world=True)["flags"]
    assert steps["NOT_CONVERGED"].tolist() == [0, 30, 0, 0, 0]
    assert steps["CONTACT_OVERFLOW"].tolist() == [0, 10, 0, 1, 0] and not steps["NONFINITE"].any()


def test_wrong_arguments_are_named():
    """Unknown diagnostics, quantiles outside [0, 1], a trajectory without steps."""
    t = recorded(energy=np.zeros((40, 5)))
    with pytest.raises(ValueError, match="names is 'contacts'"):
        t.statistics(["contacts"])
    for wrong in ([1.5], [-0.1], [np.nan], 0.5):
        with pytest.raises(ValueError, match="quantiles is"):
            t.statistics(quantiles=wrong)
    with pytest.raises(ValueError, match="per_world is 1"):
        t.statistics(per_world=1)
    first = dataclasses.replace(t, q=t.q[:1], v=t.v[:1], time=t.time[:1], diagnostics={})
    with pytest.raises(ValueError, match="no steps"):
        first.statistics()
